//! Bodies: trees of operators over inputs and run-time numbers.
// Imports: `scalar`, `element`, `kernel`.

use super::{Io, Op, Reducer};
use crate::element::{Compute, Element};
use crate::scalar::{Dual, Lane, Lanes};
use std::marker::PhantomData;

/// An expression with one value at each position: a tree of operators whose type identifies the kernel.
pub trait Body: Copy + Send + Sync + 'static {
    /// The element type of the value.
    type Out: Element;
    /// The number of loads that it makes.
    const LOADS: usize;
    /// Whether a part of it is constant along a row; see [`Body::prepare_row`].
    const BY_ROWS: bool;
    /// The number of places at which it has a row constant. It affects the size of the code alone.
    const ROW_CONSTANTS: usize = 0;
    /// Whether its type describes it completely: it carries no run-time numbers.
    const FIXED: bool;
    /// Bytes that it caches for each element of a row.
    const CACHED_BYTES: usize;
    /// Whether all its elements are [`Element::PLAIN`]: then its trace describes it completely.
    const PLAIN: bool;
    /// Whether an element that it loads is a complex number.
    const COMPLEX: bool;
    /// Whether all its operators and reducers are cheap ([`Op::CHEAP`]), and its elements have the same size
    /// in memory as in computation.
    const CHEAP: bool;
    /// The source of its values along a row.
    const SOURCE: ValueSource = ValueSource::Computed;
    /// The properties of its derivatives that its type states.
    const SLOPES: Slopes = Slopes::Any;
    /// Whether its outermost operator has [`Op::BY_RESULT`].
    const BY_RESULT: bool = false;
    /// Evaluates it at the current position.
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<Self::Out>>;
    /// Evaluates it with its derivative. A body with [`BY_RESULT`](Body::BY_RESULT) loads its own value after
    /// its operands.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval_dual<L: Lanes>(&self, io: &mut impl Io<Dual<L>>) -> Lane<Dual<L>, Compute<Self::Out>> {
        self.eval::<Dual<L>>(io)
    }
    /// Computes the row constants in it, before it is evaluated along that row, and advances by its own
    /// loads.
    fn prepare_row(&mut self, row: &mut impl Row);
}

/// One row of a program's operands. Bodies compute their row constants from it.
pub trait Row {
    /// The number of the next load.
    fn next(&mut self) -> &mut usize;
    /// Reduces the values of a body along the row. The body's loads begin with the next one. The number of
    /// the next load does not change.
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out>;
    /// Computes the values of a body along the row and caches them until the row is done. Returns where they
    /// are cached. The body's loads begin with the next one. The number of the next load does not change.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn cache<B: Body>(&mut self, _body: &B) -> usize {
        0
    }
}

/// The source of the values of a body along a row, before the body is evaluated along it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueSource {
    /// They are an operand's elements.
    Operand,
    /// They are cached, once the row constants of the program are computed; see [`Row::cache`].
    Cached,
    /// They are in no memory, and are computed on each use.
    Computed,
}

/// Properties of the derivatives by the loads of a type. Kernels that nothing needs are then not compiled.
///
/// [`Slopes::Any`] is always right. A tape compares the other two with the derivatives that it finds when the
/// program is recorded first, and returns [`Error::Value`](crate::Error::Value) where they differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slopes {
    /// Each is 1, and all loads and the only output have one element type.
    One,
    /// All are the same expression, and all loads have one element type.
    Equal,
    /// Nothing.
    Any,
}

impl Slopes {
    /// Those of an operator applied to arguments.
    const fn of_call(is_sum: bool, arguments: &[Slopes]) -> Slopes {
        let (mut are_one, mut k) = (true, 0);
        while k < arguments.len() {
            are_one &= matches!(arguments[k], Slopes::One);
            k += 1;
        }
        match arguments {
            _ if is_sum && are_one => Slopes::One,
            [Slopes::One | Slopes::Equal] => Slopes::Equal,
            _ => Slopes::Any,
        }
    }
}

/// An input: an element of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Input<T>(pub PhantomData<T>);

/// A run-time number.
#[derive(Clone, Copy, Debug)]
pub struct Param<T>(pub T);

/// An operator applied to a tuple of arguments: of bodies here, of expressions in the modules above.
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
    const SLOPES: Slopes = Slopes::One;
    const LOADS: usize = 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = true;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const COMPLEX: bool = T::DTYPE.is_complex();
    const CHEAP: bool = size_of::<T>() == size_of::<Compute<T>>();
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, row: &mut impl Row) {
        *row.next() += 1;
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<T>> {
        io.load::<T>()
    }
}

impl<T: Element> Body for Param<T> {
    type Out = T;
    const SLOPES: Slopes = Slopes::One;
    const LOADS: usize = 0;
    const BY_ROWS: bool = false;
    const FIXED: bool = false;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const COMPLEX: bool = false;
    const CHEAP: bool = true;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<T>> {
        io.param(self.0)
    }
}

macro_rules! calls {
    ($($($element:ident $index:tt),*;)*) => { $(
        impl<FUNCTION: Op<($($element::Out,)*)>, $($element: Body),*> Body
            for Call<FUNCTION, ($($element,)*)>
        {
            type Out = FUNCTION::Out;
            const LOADS: usize = 0 $(+ $element::LOADS)*;
            const BY_ROWS: bool = false $(|| $element::BY_ROWS)*;
            const ROW_CONSTANTS: usize = 0 $(+ $element::ROW_CONSTANTS)*;
            const FIXED: bool = true $(&& $element::FIXED)*;
            const CACHED_BYTES: usize = 0 $(+ $element::CACHED_BYTES)*;
            const PLAIN: bool = FUNCTION::Out::PLAIN $(&& $element::PLAIN)*;
            const COMPLEX: bool = false $(|| $element::COMPLEX)*;
            const CHEAP: bool = FUNCTION::CHEAP $(&& $element::CHEAP)*;
            const SLOPES: Slopes = {
                let is_sum = FUNCTION::IS_SUM && !FUNCTION::BY_RESULT;
                Slopes::of_call(is_sum, &[$($element::SLOPES),*])
            };
            const BY_RESULT: bool = FUNCTION::BY_RESULT;
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn prepare_row(&mut self, row: &mut impl Row) {
                $(self.1.$index.prepare_row(row);)*
            }
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<FUNCTION::Out>> {
                let x = ($(self.1.$index.eval::<L>(io),)*);
                FUNCTION::call::<L>(x)
            }
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn eval_dual<L: Lanes>(
                &self,
                io: &mut impl Io<Dual<L>>,
            ) -> Lane<Dual<L>, Compute<FUNCTION::Out>> {
                let x = ($(self.1.$index.eval::<Dual<L>>(io),)*);
                if const { FUNCTION::BY_RESULT } {
                    let y = io.load::<FUNCTION::Out>().primal();
                    return FUNCTION::call_by_result::<L>(x, y);
                }
                FUNCTION::call::<Dual<L>>(x)
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
