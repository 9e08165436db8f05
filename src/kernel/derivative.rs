//! The derivative of an operator by one of its operands, which is an operator too.
// Imports: `scalar`, `element`, `kernel`.

use super::Op;
use crate::element::{Compute, Element};
use crate::scalar::{Dual, Lane, Lanes, Num};
use std::marker::PhantomData;

/// The partial derivative of the operator `F` by its operand `INDEX`. It is an operator with the same
/// operands.
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

/// Element tuples that have an operand `INDEX`.
#[diagnostic::on_unimplemented(
    message = "an operator on elements `{Self}` has no operand {INDEX} to differentiate by",
    label = "operands count from 0"
)]
pub trait HasOperand<const INDEX: usize> {}

macro_rules! has_operands {
    ($($elements:ty: $($index:literal)+;)*) => { $($(
        impl<T: Element> HasOperand<$index> for $elements {}
    )+)* };
}
has_operands! {
    (T,): 0;
    (T, T): 0 1;
    (T, T, T): 0 1 2;
    (T, T, T, T): 0 1 2 3;
    (T, T, T, T, T): 0 1 2 3 4;
    (T, T, T, T, T, T): 0 1 2 3 4 5;
}

#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn dual<L: Lanes, P: Num>(value: Lane<L, P>, is_variable: bool) -> Lane<Dual<L>, P> {
    if is_variable { Lane::variable(value) } else { Lane::constant(value) }
}

macro_rules! derivatives {
    ($($($lane:ident $index:tt),+ => ($($t:ident),+);)*) => { $(
        impl<FUNCTION: Op<($($t,)+)> + Send + Sync, T: Element<Compute: Num>, const INDEX: usize>
            Op<($($t,)+)>
            for Derivative<FUNCTION, INDEX>
        where
            ($($t,)+): HasOperand<INDEX>,
        {
            const NAME: &'static str = FUNCTION::NAME;
            type Out = FUNCTION::Out;
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
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
