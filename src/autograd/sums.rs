//! Sums of products of gradients and tangents, and sums that are rounded to 16 bits.
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `ops`.

use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Call, Input, Reducer};
use crate::ops::{CastTo, Sum};
use crate::scalar::{Lane, Lanes, Num, Prim};
use num_complex::Complex;
use std::marker::PhantomData;

/// A sum of real numbers, in single and in double precision. The types of a program determine which of the
/// two it uses, so the compiler removes the other.
pub(super) struct RealSum<L: Lanes> {
    single: Option<Lane<L, f32>>,
    double: Option<Lane<L, f64>>,
}

/// `sum + x`, of a sum that may have no terms yet.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn plus<L: Lanes, P: Num>(sum: Option<Lane<L, P>>, x: Lane<L, P>) -> Option<Lane<L, P>> {
    match sum {
        Some(sum) => Some(sum + x),
        None => Some(x),
    }
}

impl<L: Lanes> RealSum<L> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub(super) fn new() -> Self {
        RealSum { single: None, double: None }
    }

    /// Adds `Re(conj(gradient) · tangent)`, for real and for complex numbers.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub(super) fn add_product<P: Prim>(&mut self, gradient: Lane<L, P>, tangent: Lane<L, P>) {
        match P::DTYPE {
            DType::F32 => {
                self.single = plus(self.single, gradient.cast::<f32>().flow(tangent.cast::<f32>()));
            }
            DType::F64 => {
                self.double = plus(self.double, gradient.cast::<f64>().flow(tangent.cast::<f64>()));
            }
            DType::C32 => {
                let (g, t) = (gradient.cast::<Complex<f32>>(), tangent.cast::<Complex<f32>>());
                self.single = plus(self.single, g.re().flow(t.re()) + g.im().flow(t.im()));
            }
            DType::C64 => {
                let (g, t) = (gradient.cast::<Complex<f64>>(), tangent.cast::<Complex<f64>>());
                self.double = plus(self.double, g.re().flow(t.re()) + g.im().flow(t.im()));
            }
            _ => {}
        }
    }

    /// Adds `Re(conj(gradient) · slope · tangent)`, divided by `share` if values share the gradient.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub(super) fn add_product_with<P: Prim>(
        &mut self,
        gradient: Lane<L, P>,
        slope: Lane<L, P>,
        tangent: Lane<L, P>,
        share: Option<Lane<L, P>>,
    ) {
        macro_rules! scaled {
            ($P:ty) => {{
                let flow = slope.cast::<$P>() * tangent.cast::<$P>();
                let flow = match share {
                    Some(share) => flow / share.cast::<$P>(),
                    None => flow,
                };
                self.add_product::<$P>(gradient.cast(), flow);
            }};
        }
        match P::DTYPE {
            DType::F32 => scaled!(f32),
            DType::F64 => scaled!(f64),
            DType::C32 => scaled!(Complex<f32>),
            DType::C64 => scaled!(Complex<f64>),
            _ => {}
        }
    }

    /// The sum, as a number of type `P`.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub(super) fn get<P: Prim>(&self) -> Lane<L, P> {
        match (self.single, self.double) {
            (Some(x), None) => x.cast(),
            (None, Some(x)) => x.cast(),
            (Some(x), Some(y)) => (x.cast::<f64>() + y).cast(),
            (None, None) => Lane::literal(P::default()),
        }
    }

    /// The sum as the real part, or as the imaginary part if `direction` is the imaginary unit.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub(super) fn along<P: Prim>(&self, direction: Lane<L, P>) -> Lane<L, P> {
        let direction = direction.cast::<Complex<f64>>();
        let sum = self.get::<f64>();
        let part = |along: Lane<L, f64>| along.eq(Lane::zero()).select(Lane::zero(), sum);
        Lane::<L, Complex<f64>>::complex(part(direction.re()), part(direction.im())).cast()
    }
}

/// `to ← Σ from` over the reduced axes, of elements `T` of 16 bits, one of the operands in f32.
///
/// # Safety
/// As [`Device::reduce`].
pub(super) unsafe fn sum_of_16_bits<T: Element, D: Device>(
    device: &D,
    axes: Reduction<'_>,
    to: OperandRef<'_>,
    from: OperandRef<'_>,
) -> Result<()> {
    let inputs = Inputs { slots: &[from], reads: &[0] };
    // SAFETY: the caller's promise.
    unsafe {
        if from.element == size_of::<f32>() {
            return device.reduce(&Input::<f32>(PhantomData), SumTo::<T>(PhantomData), axes, to, inputs);
        }
        let body = Call::<CastTo<f32>, _>::new((Input::<T>(PhantomData),));
        device.reduce(&body, Sum, axes, to, inputs)
    }
}

/// `Σ x` of numbers in f32, in elements `U` of 16 bits.
#[derive(Clone, Copy, Debug)]
struct SumTo<U>(PhantomData<U>);

impl<U: Element> Reducer<f32> for SumTo<U> {
    const NAME: &'static str = "sum_to";
    const CHEAP: bool = true;
    type Out = U;
    type State<L: Lanes> = Lane<L, f32>;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn identity<L: Lanes>() -> Lane<L, f32> {
        Lane::zero()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn accumulate<L: Lanes>(state: Lane<L, f32>, x: Lane<L, f32>, _: Lane<L, i64>) -> Lane<L, f32> {
        state + x
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn combine<L: Lanes>(a: Lane<L, f32>, b: Lane<L, f32>) -> Lane<L, f32> {
        a + b
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn finalize<L: Lanes>(state: Lane<L, f32>, _: Lane<L, i64>) -> Lane<L, Compute<U>> {
        state.cast()
    }
}
