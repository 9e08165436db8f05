//! Operators of elements, and the device's side of a kernel.
// Imports: `scalar`, `element`.

use crate::element::{Compute, Element};
use crate::scalar::{Dual, Lane, Lanes};

/// A device's side of a kernel: a running program loads its operands from it and stores its results to it.
pub trait Io<L: Lanes> {
    /// Loads the element of the next operand.
    fn load<T: Element>(&mut self) -> Lane<L, Compute<T>>;
    /// A run-time number.
    fn param<T: Element>(&mut self, value: T) -> Lane<L, Compute<T>>;
    /// Stores the element of the next output.
    fn store<T: Element>(&mut self, value: Lane<L, Compute<T>>);
    /// The row constant `value`, the result of a reduction along the row. Skips the `loads` loads from which
    /// it was computed.
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<L, Compute<T>>;
    /// The cached value at this position, if `place` holds one (see [`Row::cache`](super::Row::cache)); then
    /// skips the `loads` loads from which it was computed. `None` if no values are cached there.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn cached<T: Element>(&mut self, _place: usize, _loads: usize) -> Option<Lane<L, Compute<T>>> {
        None
    }
}

/// The element types of an operator's operands, or of its outputs if there are several, as a tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the elements of an operator's operands",
    label = "expected a tuple of up to twelve elements",
    note = "tensors and numbers count alike; numbers that never change can be written into the operator's \
            body"
)]
pub trait ElementTuple: 'static {
    /// The number of elements.
    const COUNT: usize;
    /// Whether all of them are [`Element::PLAIN`].
    const PLAIN: bool;
    /// One lane for each element.
    type Lanes<L: Lanes>: Copy;
    /// Stores each lane to the next output.
    fn store<L: Lanes>(lanes: Self::Lanes<L>, io: &mut impl Io<L>);
}

/// An operator from elements `IN` (a tuple) to one element. The macro `elementwise!` defines it.
///
/// It has no state: its type is the key under which kernels are cached. Run-time numbers are operands.
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` does not take operands of elements `{IN}`, or has several outputs",
    label = "another number of operands, other elements, or several outputs",
    note = "one operand: `x.map(f)?`; two: `x.zip(f, &y)?`; more: `apply(f, (&x, &y, &z))?`, in expressions \
            `x.lazy().apply(f, (&y, &z))`; several outputs: `let (a, b) = apply_many(f, (&x, &y))?`",
    note = "the operands of one operator have one element type unless it says otherwise; convert with \
            `.cast::<…>()?`",
    note = "an operator is written once for all devices, `elementwise! {{ fn name(x) {{ … }} }}`; a closure \
            or a function of numbers is not one"
)]
pub trait Op<IN: ElementTuple>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str = "map";
    /// Whether its body takes only a few instructions, so that loops over large operands are memory-bound. It
    /// affects speed alone.
    const CHEAP: bool = false;
    /// The element type of the result.
    type Out: Element;
    /// Whether it is the sum of its operands, in one element type. The backward pass of a sum compiles no
    /// kernel. `elementwise!` finds it from the body. A tape compares the statement with the derivatives of
    /// [`call`](Op::call), and refuses to record a program that contradicts it.
    const IS_SUM: bool = false;
    /// Whether its derivative is a function of its result: [`call_by_result`](Op::call_by_result) reads it.
    /// `slope of` in `elementwise!` states it.
    const BY_RESULT: bool = false;
    /// The body.
    fn call<L: Lanes>(x: IN::Lanes<L>) -> Lane<L, Compute<Self::Out>>;
    /// The body with derivatives, at a point where its result `y` is known. An operator with
    /// [`BY_RESULT`](Op::BY_RESULT) computes them from `y`, so that a tape keeps the result and not the
    /// operand.
    ///
    /// The value is `y`, and the derivatives are those of [`call`](Op::call), up to rounding. Nothing checks
    /// this: [`derivative`](crate::ops::derivative) and forward mode differentiate `call`, a backward pass
    /// uses one or the other. Test it by `autograd::gradient_error`, as the documentation of
    /// [`elementwise!`](crate::elementwise) shows.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call_by_result<L: Lanes>(
        x: IN::Lanes<Dual<L>>,
        _y: Lane<L, Compute<Self::Out>>,
    ) -> Lane<Dual<L>, Compute<Self::Out>> {
        Self::call::<Dual<L>>(x)
    }
}

/// An operator with several outputs. The macro `elementwise!` defines it when the result is a tuple.
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` with several outputs is not defined for elements `{IN}`",
    label = "no body for `{IN}`",
    note = "of one output: `x.map_in_place(f)?`, `x.zip_in_place(f, &y)?`, `x.apply_in_place(f, (&y, &z))?`; \
            as here, a tuple of one: `fn f(x, y, z) -> (T,)`"
)]
pub trait OpMany<IN: ElementTuple>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str = "map";
    /// See [`Op::CHEAP`].
    const CHEAP: bool = false;
    /// The element types of the results, as a tuple.
    type Out: ElementTuple;
    /// The body.
    fn call<L: Lanes>(x: IN::Lanes<L>) -> <Self::Out as ElementTuple>::Lanes<L>;
}

macro_rules! element_tuples {
    ($($count:literal: $($element:ident $index:tt),*;)*) => { $(
        impl<$($element: Element),*> ElementTuple for ($($element,)*) {
            const COUNT: usize = $count;
            const PLAIN: bool = true $(&& $element::PLAIN)*;
            type Lanes<L: Lanes> = ($(Lane<L, Compute<$element>>,)*);
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn store<L: Lanes>(lanes: Self::Lanes<L>, io: &mut impl Io<L>) {
                $(io.store::<$element>(lanes.$index);)*
            }
        }
    )* };
}
element_tuples! {
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
