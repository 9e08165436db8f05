//! What is to be computed, free of devices and of tensors: operators, bodies, programs, reducers, contractions, movements.
//!
//! An [`Op`] says what happens to one element. A [`Body`] is a tree of operators over inputs and run-time numbers; its
//! *type* is the kernel, so a device can compile, trace and cache it by type. A [`Program`] stores the values of bodies.
// Imports: `scalar`, `element`.

mod cost;
mod fast_path;
mod in_place;
mod ir;
mod plans;
mod reducer;

pub use cost::is_cheap;
pub use fast_path::{eval_row, run_row, run_row_in_place};
pub use in_place::InPlace;
pub use ir::{
    KernelIr, Numbers, ReducerIr, RowConstant, TraceInputs, numbers, trace_body, trace_op, trace_program,
    trace_reducer,
};
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) use ir::{Recorder, trace_elements};
pub use plans::{ContractPlan, GatherPlan, MAX_GROUP, ScanPlan, SortPlan};
pub(crate) use reducer::PIECE;
pub use reducer::{Accumulator, LaneVisitor, Reducer, SliceFn};

use crate::element::{Compute, Element};
use crate::scalar::{Dual, Lane, Lanes, Num};
use std::marker::PhantomData;

/// Where a running program gets its operands from and leaves its results: the device's side of a kernel.
pub trait Io<L: Lanes> {
    /// The element of the next operand.
    fn load<T: Element>(&mut self) -> Lane<L, Compute<T>>;
    /// A run-time number.
    fn param<T: Element>(&mut self, value: T) -> Lane<L, Compute<T>>;
    /// The element of the next output.
    fn store<T: Element>(&mut self, value: Lane<L, Compute<T>>);
    /// What a reduction along the row gave, and a step over the `loads` loads that it was made from.
    fn settled<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<L, Compute<T>>;
    /// The value here of what is held at `place` (see [`Row::hold`]), and a step over the `loads` loads that it was made
    /// from; `None` where nothing is held.
    #[inline(always)]
    fn held<T: Element>(&mut self, _place: usize, _loads: usize) -> Option<Lane<L, Compute<T>>> {
        None
    }
}

/// One row of a program's operands: where bodies find what is constant along it.
pub trait Row {
    /// The number of the next load.
    fn next(&mut self) -> &mut usize;
    /// Reduces the values of a body along the row, whose loads begin with the next one; the number of the next load stays.
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out>;
    /// Computes the values of a body along the row, and holds them until the row is done; where they are then. Its loads
    /// begin with the next one; the number of the next load stays.
    #[inline(always)]
    fn hold<B: Body>(&mut self, _body: &B) -> usize {
        0
    }
}

/// The element types of an operator's operands, or of its several outputs, as a tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the elements of an operator's operands",
    label = "expected a tuple of up to twelve elements",
    note = "tensors and numbers count alike; numbers that never change can be written into the operator's body"
)]
pub trait Elements: 'static {
    /// How many there are.
    const COUNT: usize;
    /// Whether each is [`Element::PLAIN`].
    const PLAIN: bool;
    /// One lane for each.
    type Lanes<L: Lanes>: Copy;
    /// Stores each lane to the next output.
    fn store<L: Lanes>(lanes: Self::Lanes<L>, io: &mut impl Io<L>);
}

/// An operator from elements `IN` (a tuple) to one element. `elementwise!` writes it.
///
/// It has no state: its type is the name under which kernels are cached. Run-time numbers are operands.
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` is not defined for elements `{IN}`",
    label = "no body for `{IN}`",
    note = "one operand: `x.map(f)?`; two: `x.zip(f, &y)?`; more: `apply(f, (&x, &y, &z))?`, in expressions `x.lazy().apply(f, (&y, &z))`; several outputs: `apply_many`",
    note = "the operands of one operator have one element type unless it says otherwise; convert with `.cast::<…>()?`",
    note = "an operator is written once for all devices, `elementwise! {{ fn name(x) {{ … }} }}`; a closure or a function of numbers is not one"
)]
pub trait Op<IN: Elements>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str = "map";
    /// Whether its body is a few instructions, so that loops over large operands wait for memory. For speed alone.
    const CHEAP: bool = false;
    /// The element of the result.
    type Out: Element;
    /// The body.
    fn call<L: Lanes>(x: IN::Lanes<L>) -> Lane<L, Compute<Self::Out>>;
}

/// An operator with several outputs. `elementwise!` writes it when the result is a tuple.
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` with several outputs is not defined for elements `{IN}`",
    label = "no body for `{IN}`",
    note = "of one output: `x.map_in_place(f)?`, `x.zip_in_place(f, &y)?`, `x.apply_in_place(f, (&y, &z))?`; as here, a tuple of one: `fn f(x, y, z) -> (T,)`"
)]
pub trait OpMany<IN: Elements>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str = "map";
    /// See [`Op::CHEAP`].
    const CHEAP: bool = false;
    /// The elements of the results, as a tuple.
    type Out: Elements;
    /// The body.
    fn call<L: Lanes>(x: IN::Lanes<L>) -> <Self::Out as Elements>::Lanes<L>;
}

/// One value a position: a tree of operators whose type names the kernel.
pub trait Body: Copy + Send + Sync + 'static {
    /// The element of the value.
    type Out: Element;
    /// How many loads it makes.
    const LOADS: usize;
    /// Whether something in it is constant along a row; see [`Body::settle`].
    const BY_ROWS: bool;
    /// Whether its type says all of it: it carries no run-time numbers.
    const FIXED: bool;
    /// Bytes that it holds for each element of a row.
    const HELD: usize;
    /// Whether all elements in it are [`Element::PLAIN`]: then its trace says all of it.
    const PLAIN: bool;
    /// Whether all its operators and reducers are light ([`Op::CHEAP`]), and its elements are computed with as they stand in memory.
    const CHEAP: bool;
    /// Where its values along a row stand.
    const SOURCE: Source = Source::Nowhere;
    /// Evaluates it at the current position.
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<Self::Out>>;
    /// Finds what is constant along a row, before it is evaluated there; moves on by its own loads.
    fn prepare_row(&mut self, row: &mut impl Row);
}

/// Where the values of a body along a row stand before it is evaluated there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// They are an operand's elements.
    Operand,
    /// Where they are held, when the program has settled on the row; see [`Row::hold`].
    Held,
    /// They are computed.
    Nowhere,
}

/// The element of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Input<T>(pub PhantomData<T>);

/// A run-time number.
#[derive(Clone, Copy, Debug)]
pub struct Param<T>(pub T);

/// An operator applied to a tuple: of bodies here, of expressions above.
#[derive(Debug)]
pub struct Call<F, A>(PhantomData<F>, pub(crate) A);

impl<F, A> Call<F, A> {
    /// `F` applied to `arguments`.
    pub const fn new(arguments: A) -> Self {
        Call(PhantomData, arguments)
    }
}
impl<F, A: Clone> Clone for Call<F, A> {
    fn clone(&self) -> Self {
        Call(PhantomData, self.1.clone())
    }
}
impl<F, A: Copy> Copy for Call<F, A> {}

impl<T: Element> Body for Input<T> {
    type Out = T;
    const SOURCE: Source = Source::Operand;
    const LOADS: usize = 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = true;
    const HELD: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const CHEAP: bool = size_of::<T>() == size_of::<Compute<T>>();
    #[inline(always)]
    fn prepare_row(&mut self, row: &mut impl Row) {
        *row.next() += 1;
    }
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<T>> {
        io.load::<T>()
    }
}

impl<T: Element> Body for Param<T> {
    type Out = T;
    const LOADS: usize = 0;
    const BY_ROWS: bool = false;
    const FIXED: bool = false;
    const HELD: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const CHEAP: bool = true;
    #[inline(always)]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<T>> {
        io.param(self.0)
    }
}

/// The values of `B` along a row reduced by `R`: one value, beside every element of the row.
#[derive(Debug)]
pub struct RowReduce<R: Reducer<B::Out>, B: Body> {
    body: B,
    value: Compute<R::Out>,
}

impl<R: Reducer<B::Out>, B: Body> RowReduce<R, B> {
    /// The reduction of `body`, before it is settled.
    pub fn new(body: B) -> Self {
        RowReduce { body, value: Default::default() }
    }
}
impl<R: Reducer<B::Out>, B: Body> Clone for RowReduce<R, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R: Reducer<B::Out>, B: Body> Copy for RowReduce<R, B> {}

impl<R: Reducer<B::Out>, B: Body> Body for RowReduce<R, B> {
    type Out = R::Out;
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = true;
    const FIXED: bool = B::FIXED;
    const HELD: usize = B::HELD;
    const PLAIN: bool = B::PLAIN && R::Out::PLAIN;
    const CHEAP: bool = R::CHEAP && B::CHEAP;
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<R::Out>> {
        io.settled::<R::Out>(self.value, B::LOADS)
    }
    #[inline(always)]
    fn prepare_row(&mut self, row: &mut impl Row) {
        let first = *row.next();
        self.body.prepare_row(row);
        let last = std::mem::replace(row.next(), first);
        self.value = row.reduce::<B, R>(&self.body);
        *row.next() = last;
    }
}

/// A body whose values along a row are computed once, however often it occurs.
#[derive(Clone, Copy, Debug)]
pub struct Cached<B> {
    body: B,
    place: usize,
}

impl<B> Cached<B> {
    /// `body`, to be computed once.
    pub fn new(body: B) -> Self {
        Cached { body, place: 0 }
    }
    pub(crate) fn inner(&self) -> &B {
        &self.body
    }
}

impl<B: Body> Cached<B> {
    /// Whether it is an operand's elements, which stand somewhere already.
    const STANDS: bool = matches!(B::SOURCE, Source::Operand);
}

impl<B: Body> Body for Cached<B> {
    type Out = B::Out;
    const SOURCE: Source = if Self::STANDS { Source::Operand } else { Source::Held };
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = B::BY_ROWS;
    const FIXED: bool = B::FIXED;
    const HELD: usize = B::HELD + if Self::STANDS { 0 } else { size_of::<Compute<B::Out>>() };
    const PLAIN: bool = B::PLAIN;
    const CHEAP: bool = B::CHEAP;
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        if Self::STANDS {
            return self.body.eval::<L>(io);
        }
        match io.held::<B::Out>(self.place, B::LOADS) {
            Some(value) => value,
            None => self.body.eval::<L>(io),
        }
    }
    #[inline(always)]
    fn prepare_row(&mut self, row: &mut impl Row) {
        if Self::STANDS {
            return self.body.prepare_row(row);
        }
        let first = *row.next();
        self.body.prepare_row(row);
        let last = std::mem::replace(row.next(), first);
        self.place = row.hold(&self.body);
        *row.next() = last;
    }
}

/// A whole kernel: any number of loads, then its stores.
pub trait Program: Copy + Send + Sync + 'static {
    /// How many outputs it stores.
    const OUTPUTS: usize;
    /// How many loads it makes.
    const LOADS: usize;
    /// Whether it is settled before each row.
    const BY_ROWS: bool;
    /// Whether its type says all of it: it carries no run-time numbers.
    const FIXED: bool;
    /// Bytes that it holds for each element of a row.
    const HELD: usize;
    /// Whether all elements in it are [`Element::PLAIN`]: then its trace says all of it.
    const PLAIN: bool;
    /// See [`Body::CHEAP`].
    const CHEAP: bool;
    /// Whether its k-th output is the operand of its k-th load, for every output; see [`InPlace`].
    const IN_PLACE: bool = false;
    /// Whether it stores what it loads, and nothing else: a copy.
    const COPY: bool = false;
    /// Finds what is constant along a row; see [`Body::settle`].
    fn prepare_row(&mut self, row: &mut impl Row);
    /// Runs it at the current position.
    fn run<L: Lanes>(&self, io: &mut impl Io<L>);
}

/// The program that stores the value of one body.
#[derive(Clone, Copy, Debug)]
pub struct Store<B>(pub B);

impl<B: Body> Program for Store<B> {
    const OUTPUTS: usize = 1;
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = B::BY_ROWS;
    const FIXED: bool = B::FIXED;
    const HELD: usize = B::HELD;
    const PLAIN: bool = B::PLAIN;
    const CHEAP: bool = B::CHEAP;
    const COPY: bool = matches!(B::SOURCE, Source::Operand);
    #[inline(always)]
    fn prepare_row(&mut self, row: &mut impl Row) {
        self.0.prepare_row(row);
    }
    #[inline(always)]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let value = self.0.eval::<L>(io);
        io.store::<B::Out>(value);
    }
}

/// The program that stores the outputs of an [`OpMany`].
#[derive(Debug)]
pub struct StoreMany<F, A>(PhantomData<F>, A);

impl<F, A> StoreMany<F, A> {
    /// `F` applied to `arguments`.
    pub fn new(arguments: A) -> Self {
        StoreMany(PhantomData, arguments)
    }
}
impl<F, A: Clone> Clone for StoreMany<F, A> {
    fn clone(&self) -> Self {
        StoreMany(PhantomData, self.1.clone())
    }
}
impl<F, A: Copy> Copy for StoreMany<F, A> {}

macro_rules! arities {
    ($($count:literal: $($element:ident $index:tt),*;)*) => { $(
        impl<$($element: Element),*> Elements for ($($element,)*) {
            const COUNT: usize = $count;
            const PLAIN: bool = true $(&& $element::PLAIN)*;
            type Lanes<L: Lanes> = ($(Lane<L, Compute<$element>>,)*);
            #[inline(always)]
            fn store<L: Lanes>(lanes: Self::Lanes<L>, io: &mut impl Io<L>) {
                $(io.store::<$element>(lanes.$index);)*
            }
        }
        impl<FUNCTION: Op<($($element::Out,)*)>, $($element: Body),*> Body for Call<FUNCTION, ($($element,)*)> {
            type Out = FUNCTION::Out;
            const LOADS: usize = 0 $(+ $element::LOADS)*;
            const BY_ROWS: bool = false $(|| $element::BY_ROWS)*;
            const FIXED: bool = true $(&& $element::FIXED)*;
            const HELD: usize = 0 $(+ $element::HELD)*;
            const PLAIN: bool = FUNCTION::Out::PLAIN $(&& $element::PLAIN)*;
            const CHEAP: bool = FUNCTION::CHEAP $(&& $element::CHEAP)*;
            #[inline(always)]
            fn prepare_row(&mut self, row: &mut impl Row) {
                $(self.1.$index.prepare_row(row);)*
            }
            #[inline(always)]
            fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<FUNCTION::Out>> {
                let x = ($(self.1.$index.eval::<L>(io),)*);
                FUNCTION::call::<L>(x)
            }
        }
        impl<FUNCTION: OpMany<($($element::Out,)*)>, $($element: Body),*> Program for StoreMany<FUNCTION, ($($element,)*)> {
            const OUTPUTS: usize = FUNCTION::Out::COUNT;
            const LOADS: usize = 0 $(+ $element::LOADS)*;
            const BY_ROWS: bool = false $(|| $element::BY_ROWS)*;
            const FIXED: bool = true $(&& $element::FIXED)*;
            const HELD: usize = 0 $(+ $element::HELD)*;
            const PLAIN: bool = FUNCTION::Out::PLAIN $(&& $element::PLAIN)*;
            const CHEAP: bool = FUNCTION::CHEAP $(&& $element::CHEAP)*;
            #[inline(always)]
            fn prepare_row(&mut self, row: &mut impl Row) {
                $(self.1.$index.prepare_row(row);)*
            }
            #[inline(always)]
            fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
                let x = ($(self.1.$index.eval::<L>(io),)*);
                let y = FUNCTION::call::<L>(x);
                FUNCTION::Out::store::<L>(y, io);
            }
        }
    )* };
}
arities! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11;
}

// ---------------------------------------------------------------- derivatives of operators

/// The partial derivative of the operator `F` by its operand `INDEX`: an operator itself, with the same operands.
#[derive(Debug)]
pub struct Derivative<F, const INDEX: usize>(PhantomData<F>);

impl<F, const INDEX: usize> Derivative<F, INDEX> {
    /// The derivative of `F`.
    pub const fn new() -> Self {
        Derivative(PhantomData)
    }
}
impl<F, const INDEX: usize> Default for Derivative<F, INDEX> {
    fn default() -> Self {
        Self::new()
    }
}
impl<F, const INDEX: usize> Clone for Derivative<F, INDEX> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F, const INDEX: usize> Copy for Derivative<F, INDEX> {}

/// Elements of operands that have a place `INDEX`.
#[diagnostic::on_unimplemented(
    message = "an operator on elements `{Self}` has no operand {INDEX} to differentiate by",
    label = "operands count from 0"
)]
pub trait HasOperand<const INDEX: usize> {}

macro_rules! operands {
    ($($elements:ty: $($index:literal)+;)*) => { $($(impl<T: Element> HasOperand<$index> for $elements {})+)* };
}
operands! {
    (T,): 0;
    (T, T): 0 1;
    (T, T, T): 0 1 2;
    (T, T, T, T): 0 1 2 3;
    (T, T, T, T, T): 0 1 2 3 4;
    (T, T, T, T, T, T): 0 1 2 3 4 5;
}

#[inline(always)]
fn dual<L: Lanes, P: Num>(value: Lane<L, P>, is_variable: bool) -> Lane<Dual<L>, P> {
    if is_variable { Lane::variable(value) } else { Lane::constant(value) }
}

macro_rules! derivatives {
    ($($($lane:ident $index:tt),+ => ($($t:ident),+);)*) => { $(
        impl<FUNCTION: Op<($($t,)+)> + Send + Sync, T: Element<Compute: Num>, const INDEX: usize> Op<($($t,)+)> for Derivative<FUNCTION, INDEX>
        where
            ($($t,)+): HasOperand<INDEX>,
        {
            const NAME: &'static str = FUNCTION::NAME;
            type Out = FUNCTION::Out;
            #[inline(always)]
            fn call<L: Lanes>(($($lane,)+): ($(Lane<L, Compute<$t>>,)+)) -> Lane<L, Compute<FUNCTION::Out>> {
                FUNCTION::call::<Dual<L>>(($(dual($lane, $index == INDEX),)+)).tangent()
            }
        }
    )* };
}
derivatives! {
    a 0 => (T);
    a 0, b 1 => (T, T);
    a 0, b 1, c 2 => (T, T, T);
    a 0, b 1, c 2, d 3 => (T, T, T, T);
    a 0, b 1, c 2, d 3, e 4 => (T, T, T, T, T);
    a 0, b 1, c 2, d 3, e 4, f 5 => (T, T, T, T, T, T);
}
