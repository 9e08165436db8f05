//! Sums of products of gradients and tangents.
// Imports: `dtype`, `scalar`.

use crate::dtype::DType;
use crate::scalar::{Lane, Lanes, Num, Prim};
use num_complex::Complex;

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
