//! Elementwise operators with parameters after the first operand: bounds, tolerances, exponents, parameters
//! of activations. Each parameter may be a number or a tensor.
// Imports: `error`, `dim`, `dtype`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::All;
use crate::dtype::Kind;
use crate::element::{Comparable, Compute, Conjugate, Float};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Operand, apply};
use crate::kernel::{Body, Call, Op, is_cheap};
use crate::ops::Reductions as _;
use crate::scalar::{DType, Lane, Lanes, Prim, Real};
use crate::tensor::{Tensor, TensorView};

/// Operators with parameters. Each block becomes a type, and a method of tensors, views and lazy expressions.
macro_rules! parametric {
    ($(
        $(#[$meta:meta])*
        fn $name:ident = $F:ident(
            $x:ident; $($arg:ident $A:ident: $t:ty),+
        ) -> $out:ty where $class:ident $body:block
    )*) => { $(
        #[doc = concat!("The operator of [`Tensor::", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $F;
        impl<T: $class> Op<(T, $($t),+)> for $F {
            const NAME: &'static str = stringify!($name);
            const CHEAP: bool = is_cheap(stringify!($body));
            type Out = $out;
            #[inline(always)]
            fn call<L: Lanes>(
                ($x, $($arg),+): (Lane<L, Compute<T>>, $(Lane<L, Compute<$t>>),+)
            ) -> Lane<L, Compute<$out>> $body
        }
        impl<T: $class, const RANK: usize, D: Device> Tensor<T, RANK, D> {
            $(#[$meta])*
            pub fn $name(&self, $($arg: impl Operand<$t, RANK, D>),+) -> Result<Tensor<$out, RANK, D>> {
                self.view().$name($($arg),+)
            }
        }
        impl<T: $class, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].\n\n# Errors\nAs there.")]
            pub fn $name(self, $($arg: impl Operand<$t, RANK, D>),+) -> Result<Tensor<$out, RANK, D>> {
                apply($F, (self, $($arg),+))
            }
        }
        impl<'a, T: $class, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
            Lazy<'a, T, RANK, D, E>
        {
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            pub fn $name<$($A: Operand<$t, RANK, D>),+>(
                self, $($arg: $A),+
            ) -> Lazy<'a, $out, RANK, D, Call<$F, (E, $($A::Expr),+)>> {
                self.then(|x| Call::new((x, $($arg.into_expr()),+)))
            }
        }
    )* };
}

/// `x · 2ⁿ`, rounded once, for integers `n` of any size.
#[inline(always)]
fn scaled<L: Lanes, P: Real>(x: Lane<L, P>, n: Lane<L, i64>) -> Lane<L, P> {
    // A subnormal number is scaled to a normal one first.
    let lift = P::FRACTION as i64 + 1;
    let tiny = x.abs().lt(Lane::real(2f64.powi(1 - P::BIAS)));
    let bits = tiny.select(x * 2f64.powi(lift as i32), x).to_bits();
    let bias = P::BIAS as i64;
    let mask = Lane::<L, P::Bits>::literal(P::Bits::from_u64((2 * P::BIAS as u64 + 1) << P::FRACTION));
    let one = Lane::<L, P::Bits>::literal(P::Bits::from_u64((P::BIAS as u64) << P::FRACTION));
    let exponent =
        (bits & mask).shr(P::FRACTION).cast::<i64>() - bias - tiny.select(Lane::int(lift), Lane::zero());
    // The sign and the fraction, |·| in [1, 2), times two powers of two: the first product is exact, the
    // second rounds.
    let fraction = Lane::<L, P>::from_bits((bits & !mask) | one);
    let limit = |k: Lane<L, i64>| k.clamp(Lane::int(1 - bias), Lane::int(bias));
    let power = |k: Lane<L, i64>| Lane::<L, P>::from_bits((k + bias).cast::<P::Bits>().shl(P::FRACTION));
    let total = exponent + n.clamp(Lane::int(-4 * bias), Lane::int(4 * bias));
    let first = limit(total);
    let y = fraction * power(first) * power(limit(total - first));
    let whole = x.eq(Lane::zero()) | x.is_nan() | x.abs().eq(Lane::highest());
    let by_bits = Lane::<L, P>::from_bits(x.to_bits());
    // Bits have no derivative. Subtracting this 0, whose derivative is −2ⁿ, changes no value, −0 included.
    let exponent = n.clamp(Lane::int(-4 * bias), Lane::int(4 * bias));
    let first = limit(exponent);
    let slope = (by_bits - x) * power(first) * power(limit(exponent - first));
    whole.select(by_bits, y) - x.abs().lt(Lane::highest()).select(slope, Lane::zero())
}

parametric! {
    /// The number clamped to at least `low` and at most `high`, which are tensors or numbers. `high` wins
    /// where they cross; NaN if any of the three is NaN. For a single bound:
    /// [`maximum`](crate::ops::Arithmetic::maximum), [`minimum`](crate::ops::Arithmetic::minimum).
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([-1.0, 0.5, 7.0]);
    /// let high = Tensor::from([1.0, 0.25, 8.0]);
    /// assert_eq!(x.clamp(0.0, 1.0)?.to_vec()?, [0.0, 0.5, 1.0]);
    /// assert_eq!(x.clamp(0.0, &high)?.to_vec()?, [0.0, 0.25, 7.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "clip")]
    fn clamp = Clamp(x; low LOW: T, high HIGH: T) -> T where Comparable { x.clamp(low, high) }

    /// `nan` for NaN, `positive` for +∞, `negative` for −∞; every other number stays.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5]);
    /// assert_eq!(x.nan_to_num(0.0, f32::MAX, f32::MIN)?.to_vec()?, [0.0, f32::MAX, f32::MIN, 0.5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn nan_to_num = NanToNum(x; nan NAN: T, positive POSITIVE: T, negative NEGATIVE: T) -> T where Float {
        let y = x.eq(Lane::highest()).select(positive, x.eq(Lane::lowest()).select(negative, x));
        x.is_nan().select(nan, y)
    }

    /// Whether `|x − other| ≤ absolute + relative · |other|`, or both are equal, infinities included; two NaN
    /// are close if `equal_nan`. The tolerances of PyTorch and NumPy are `relative` 1e-5 and `absolute` 1e-8.
    ///
    /// Differences of integers are exact; everything is compared in f64. The distance of complex numbers is
    /// the one in the plane.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 2.0, f64::NAN]), Tensor::from([1.0 + 1e-9, 2.1, f64::NAN]));
    /// assert_eq!(x.isclose(&y, 1e-5, 1e-8, false)?.to_vec()?, [true, false, false]);
    /// assert_eq!(x.isclose(&y, 0.1, 0.0, true)?.to_vec()?, [true, true, true]);
    /// assert!(x.allclose(&y, 0.1, 0.0, true)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn isclose = IsClose(
        x; other OTHER: T, relative RELATIVE: f64, absolute ABSOLUTE: f64, equal_nan NAN: bool
    ) -> bool where Conjugate {
        let (distance, size) = if T::DTYPE.is_discrete() {
            // The larger minus the smaller is below 2^64.
            let sign = if T::DTYPE == DType::U64 { i64::MIN } else { 0 };
            let [x, y] = [x, other].map(|x| x.cast::<i64>() ^ Lane::literal(sign));
            ((x.max(y) - x.min(y)).cast::<u64>().cast::<f64>(), other.cast::<f64>().abs())
        } else {
            let [(a, b), (c, d)] = [x, other].map(|x| (T::re(x).cast::<f64>(), T::im(x).cast::<f64>()));
            if T::DTYPE.kind() == Kind::Complex {
                ((a - c).hypot(b - d), c.hypot(d))
            } else {
                ((a - c).abs(), c.abs())
            }
        };
        let allowed = absolute + (relative * size).abs();
        let near = distance.le(allowed) & distance.lt(Lane::highest());
        x.eq(other) | near | (x.ne(x) & other.ne(other) & equal_nan)
    }

    /// `x · 2ⁿ` for an integer `n`, rounded once; tensors of exponents have `i64` elements.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([0.75, f64::MIN_POSITIVE, 1.0]);
    /// assert_eq!(x.ldexp(&Tensor::from([2_i64, 1023, -1074]))?.to_vec()?, [3.0, 2.0, 5e-324]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn ldexp = Ldexp(x; n N: i64) -> T where Float { scaled(x, n) }

    /// The loss of a prediction near its target is `(x − y)² / 2β`; from a distance β on it is
    /// `|x − y| − β/2`. For β = 0 it is `|x − y|`.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 5.0]), Tensor::from([2.0, 2.0]));
    /// assert_eq!(x.smooth_l1_loss(&y, 2.0)?.to_vec()?, [0.25, 2.0]);
    /// assert_eq!(x.huber_loss(&y, 2.0)?.to_vec()?, [0.5, 4.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn smooth_l1_loss = SmoothL1Loss(x; target TARGET: T, beta BETA: T) -> T where Float {
        let distance = (x - target).abs();
        distance.lt(beta).select(distance * distance * 0.5 / beta, distance - beta * 0.5)
    }

    /// Huber's loss. For a prediction near its target it is `(x − y)² / 2`; from a distance δ on it is
    /// `δ · (|x − y| − δ/2)`. It is δ times [`smooth_l1_loss`](Tensor::smooth_l1_loss).
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    fn huber_loss = HuberLoss(x; target TARGET: T, delta DELTA: T) -> T where Float {
        let distance = (x - target).abs();
        distance.lt(delta).select(distance * distance * 0.5, delta * (distance - delta * 0.5))
    }

    /// [`binary_cross_entropy_with_logits`](crate::ops::Losses::binary_cross_entropy_with_logits) with
    /// positive targets weighted by `pos_weight`: `−p · y · ln sigmoid(x) − (1 − y) · ln(1 − sigmoid(x))`,
    /// exact in both tails.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([0.0, 0.0, -1000.0]), Tensor::from([1.0, 0.0, 1.0]));
    /// let weights = Tensor::from([3.0]); // a number, or one for each class
    /// let loss = x.weighted_binary_cross_entropy_with_logits(&y, &weights)?;
    /// assert_eq!(loss.to_vec()?, [3.0 * f64::ln(2.0), f64::ln(2.0), 3000.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's argument `pos_weight`.
    #[doc(alias = "pos_weight")]
    fn weighted_binary_cross_entropy_with_logits = WeightedBinaryCrossEntropyWithLogits(
        x; target TARGET: T, pos_weight WEIGHT: T
    ) -> T
    where Float {
        let positive = x.gt(Lane::zero());
        let (yes, no) = (pos_weight * target, 1.0 - target);
        let share = positive.select(no, -yes);
        // 0 · ∞ is the limit 0 here.
        let limit = share.eq(Lane::zero()) & x.abs().eq(Lane::highest());
        let line = limit.select(Lane::zero(), share * x);
        line + (yes + no) * positive.select(-x, x).exp().ln_1p()
    }

    /// The exponential linear unit: x above 0, `alpha · (eˣ − 1)` below. With `alpha` 1 it is
    /// [`elu`](crate::ops::Activation::elu).
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.5, 0.0, f64::NEG_INFINITY]);
    /// assert_eq!(x.elu_alpha(2.0)?.to_vec()?, [1.5, 0.0, -2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "elu")]
    fn elu_alpha = EluAlpha(x; alpha ALPHA: T) -> T where Float {
        let positive = x.gt(Lane::zero());
        positive.select(x, alpha * positive.select(Lane::zero(), x).exp_m1())
    }

    /// The exponential linear unit with a continuous derivative: x above 0, `alpha · (e^(x/alpha) − 1)`
    /// below.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.5, 0.0, f64::NEG_INFINITY]);
    /// assert_eq!(x.celu(2.0)?.to_vec()?, [1.5, 0.0, -2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn celu = Celu(x; alpha ALPHA: T) -> T where Float {
        let positive = x.gt(Lane::zero());
        positive.select(x, alpha * (positive.select(Lane::zero(), x) / alpha).exp_m1())
    }
}

impl<T: Conjugate, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// Whether all elements are close; see [`Tensor::allclose`].
    ///
    /// # Errors
    /// As [`Tensor::allclose`].
    pub fn allclose(
        self,
        other: impl Operand<T, RANK, D>,
        relative: f64,
        absolute: f64,
        equal_nan: bool,
    ) -> Result<bool> {
        self.lazy().isclose(other, relative, absolute, equal_nan).all(All)?.item()
    }
}

impl<T: Conjugate, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Whether all elements are close, by [`isclose`](Tensor::isclose), in one pass; `true` for an empty
    /// tensor.
    ///
    /// # Errors
    /// As every elementwise operator; [`Error::NoData`](crate::Error::NoData) on a device without data.
    pub fn allclose(
        &self,
        other: impl Operand<T, RANK, D>,
        relative: f64,
        absolute: f64,
        equal_nan: bool,
    ) -> Result<bool> {
        self.view().allclose(other, relative, absolute, equal_nan)
    }
}
