//! Bodies: trees of operators over inputs and run-time numbers.
// Imports: `scalar`, `element`, `kernel`.

use super::{Io, Op, Reducer};
use crate::element::{Compute, Element};
use crate::scalar::{Lane, Lanes};
use std::marker::PhantomData;

/// One value a position: a tree of operators whose type names the kernel.
pub trait Body: Copy + Send + Sync + 'static {
    /// The element of the value.
    type Out: Element;
    /// How many loads it makes.
    const LOADS: usize;
    /// Whether something in it is constant along a row; see [`Body::prepare_row`].
    const BY_ROWS: bool;
    /// Whether its type says all of it: it carries no run-time numbers.
    const FIXED: bool;
    /// Bytes that it holds for each element of a row.
    const CACHED_BYTES: usize;
    /// Whether all elements in it are [`Element::PLAIN`]: then its trace says all of it.
    const PLAIN: bool;
    /// Whether all its operators and reducers are light ([`Op::CHEAP`]), and its elements are computed with as they stand in memory.
    const CHEAP: bool;
    /// Where its values along a row stand.
    const SOURCE: ValueSource = ValueSource::Computed;
    /// Evaluates it at the current position.
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<Self::Out>>;
    /// Finds what is constant along a row, before it is evaluated there; moves on by its own loads.
    fn prepare_row(&mut self, row: &mut impl Row);
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
    fn cache<B: Body>(&mut self, _body: &B) -> usize {
        0
    }
}

/// Where the values of a body along a row stand before it is evaluated there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueSource {
    /// They are an operand's elements.
    Operand,
    /// Where they are held, when the program has settled on the row; see [`Row::cache`].
    Cached,
    /// They are computed.
    Computed,
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
    const SOURCE: ValueSource = ValueSource::Operand;
    const LOADS: usize = 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = true;
    const CACHED_BYTES: usize = 0;
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
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const CHEAP: bool = true;
    #[inline(always)]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<T>> {
        io.param(self.0)
    }
}

macro_rules! calls {
    ($($($element:ident $index:tt),*;)*) => { $(
        impl<FUNCTION: Op<($($element::Out,)*)>, $($element: Body),*> Body for Call<FUNCTION, ($($element,)*)> {
            type Out = FUNCTION::Out;
            const LOADS: usize = 0 $(+ $element::LOADS)*;
            const BY_ROWS: bool = false $(|| $element::BY_ROWS)*;
            const FIXED: bool = true $(&& $element::FIXED)*;
            const CACHED_BYTES: usize = 0 $(+ $element::CACHED_BYTES)*;
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
    )* };
}
calls! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11;
}
