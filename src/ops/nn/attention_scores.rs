//! Operators on the scores, weights and values of attention.
// Imports: `error`, `dim`, `scalar`, `element`, `kernel`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::{All, Axis};
use crate::element::{Compute, Float};
use crate::element::{bf16, f16};
use crate::error::{Error, Result, text};
use crate::kernel::{Op, OpMany};
use crate::ops::{Comparisons as _, Reductions as _};
use crate::scalar::{DType, Lane, Lanes};
use crate::tensor::{Tensor, TensorView};
use std::marker::PhantomData;
use std::ops::Range;

/// An element of attention, and the element of its scores: f32, or f64 for f64.
pub trait AttentionFloat: Float {
    /// The element of scores.
    type Score: AttentionFloat<Score = Self::Score>;
}
impl AttentionFloat for f16 {
    type Score = f32;
}
impl AttentionFloat for bf16 {
    type Score = f32;
}
impl AttentionFloat for f32 {
    type Score = f32;
}
impl AttentionFloat for f64 {
    type Score = f64;
}

/// `cap · tanh(score · scale / cap)`.
#[derive(Clone, Copy)]
pub(super) struct Capped;
impl<S: Float> OpMany<(S, S, S)> for Capped {
    const NAME: &'static str = "attention";
    type Out = (S,);
    #[inline(always)]
    fn call<L: Lanes>(
        (score, scale, cap): (Lane<L, Compute<S>>, Lane<L, Compute<S>>, Lane<L, Compute<S>>),
    ) -> (Lane<L, Compute<S>>,) {
        ((score * scale / cap).tanh() * cap,)
    }
}

/// The derivative of [`Capped`] by the score, from the capped score.
#[derive(Clone, Copy)]
pub(super) struct CapSlope;
impl<S: Float> Op<(S, S, S)> for CapSlope {
    const NAME: &'static str = "attention";
    type Out = S;
    #[inline(always)]
    fn call<L: Lanes>(
        (capped, scale, cap): (Lane<L, Compute<S>>, Lane<L, Compute<S>>, Lane<L, Compute<S>>),
    ) -> Lane<L, Compute<S>> {
        let part = capped / cap;
        (1.0 - part) * (1.0 + part) * scale
    }
}

/// `score · scale + bias`.
#[derive(Clone, Copy)]
pub(super) struct BiasedScore<T>(pub(super) PhantomData<fn() -> T>);
impl<T: AttentionFloat> OpMany<(T::Score, T, T::Score)> for BiasedScore<T> {
    const NAME: &'static str = "attention";
    type Out = (T::Score,);
    #[inline(always)]
    fn call<L: Lanes>(
        (score, bias, scale): (Lane<L, Compute<T::Score>>, Lane<L, Compute<T>>, Lane<L, Compute<T::Score>>),
    ) -> (Lane<L, Compute<T::Score>>,) {
        let bias = bias.cast();
        // A hidden key stays hidden for any score, also infinite or NaN.
        (bias.eq(Lane::lowest()).select(bias, score.mul_add(scale, bias)),)
    }
}

/// A masked score becomes −∞.
#[derive(Clone, Copy)]
pub(super) struct Masked;
impl<S: Float> Op<(S, bool)> for Masked {
    const NAME: &'static str = "attention";
    type Out = S;
    #[inline(always)]
    fn call<L: Lanes>((score, visible): (Lane<L, Compute<S>>, Lane<L, bool>)) -> Lane<L, Compute<S>> {
        visible.select(score, Lane::lowest())
    }
}

/// 1 for a visible score, 0 for −∞.
#[derive(Clone, Copy)]
pub(super) struct IsVisible;
impl<S: Float> Op<(S,)> for IsVisible {
    const NAME: &'static str = "attention";
    type Out = f32;
    #[inline(always)]
    fn call<L: Lanes>((score,): (Lane<L, Compute<S>>,)) -> Lane<L, f32> {
        score.eq(Lane::lowest()).select(Lane::zero(), Lane::one())
    }
}

/// `e^((score − largest) · scale)`, as an element `T`; 0 if no key is visible.
#[derive(Clone, Copy)]
pub(super) struct Weight<T>(pub(super) PhantomData<fn() -> T>);
impl<T: AttentionFloat> Op<(T::Score, T::Score, T::Score)> for Weight<T> {
    const NAME: &'static str = "attention";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (score, largest, scale): (
            Lane<L, Compute<T::Score>>,
            Lane<L, Compute<T::Score>>,
            Lane<L, Compute<T::Score>>,
        ),
    ) -> Lane<L, Compute<T>> {
        let nothing = largest.eq(Lane::lowest());
        ((score - nothing.select(Lane::zero(), largest)) * scale).exp().cast()
    }
}

/// A weighted sum divided by the sum of its weights; 0 if no key is visible.
#[derive(Clone, Copy)]
pub(super) struct Normalized<T>(pub(super) PhantomData<fn() -> T>);
impl<T: AttentionFloat> Op<(T::Score, T::Score)> for Normalized<T> {
    const NAME: &'static str = "attention";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (sum, weights): (Lane<L, Compute<T::Score>>, Lane<L, Compute<T::Score>>),
    ) -> Lane<L, Compute<T>> {
        let nothing = weights.eq(Lane::zero());
        (sum / nothing.select(Lane::one(), weights)).cast()
    }
}

/// A sum relative to an earlier largest score, times its factor, plus a later sum.
#[derive(Clone, Copy)]
pub(super) struct Rescaled;
impl<S: Float> OpMany<(S, S, S)> for Rescaled {
    const NAME: &'static str = "attention";
    type Out = (S,);
    #[inline(always)]
    fn call<L: Lanes>(
        (before, factor, later): (Lane<L, Compute<S>>, Lane<L, Compute<S>>, Lane<L, Compute<S>>),
    ) -> (Lane<L, Compute<S>>,) {
        (before.mul_add(factor, later),)
    }
}

/// A number; 0 for infinities and NaN.
#[derive(Clone, Copy)]
pub(super) struct FiniteOrZero;
impl<T: Float> Op<(T,)> for FiniteOrZero {
    const NAME: &'static str = "attention";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<T>> {
        x.abs().lt(Lane::highest()).select(x, Lane::zero())
    }
}

/// 1 for an infinity of this sign and for NaN, 0 for other numbers.
#[derive(Clone, Copy)]
pub(super) struct IsInfinityOrNan<const SIGN: i64>;
impl<T: Float, const SIGN: i64> Op<(T,)> for IsInfinityOrNan<SIGN> {
    const NAME: &'static str = "attention";
    type Out = f32;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, f32> {
        let beyond = (x * SIGN).eq(Lane::highest()) | x.is_nan();
        beyond.select(Lane::one(), Lane::zero())
    }
}

/// A sum, plus an infinity of this sign if `count` is positive.
#[derive(Clone, Copy)]
pub(super) struct AddInfinity<const SIGN: i64>;
impl<T: Float, const SIGN: i64> Op<(T, f32)> for AddInfinity<SIGN> {
    const NAME: &'static str = "attention";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, count): (Lane<L, Compute<T>>, Lane<L, f32>)) -> Lane<L, Compute<T>> {
        let infinity = Lane::<L, Compute<T>>::highest() * SIGN;
        count.gt(Lane::zero()).select(x + infinity, x)
    }
}

/// The parameters of attention: scale, causal mask, soft cap.
///
/// # Examples
/// ```
/// use rankform::ops::Attention;
/// let attention = Attention::new().causal(true).scale(0.125);
/// assert_eq!((attention.causal, attention.scale), (true, Some(0.125)));
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Attention {
    /// The factor of scores, a positive number; `None` is `1/√d`.
    pub scale: Option<f64>,
    /// Whether query `i` attends only to keys up to `i`.
    pub causal: bool,
    /// The bound of the absolute value of scaled scores, applied smoothly: `cap · tanh(score / cap)`.
    pub softcap: Option<f64>,
}

impl Attention {
    /// Scores scaled by `1/√d`, every key visible.
    pub const fn new() -> Self {
        Attention { scale: None, causal: false, softcap: None }
    }
    /// With another scale.
    pub const fn scale(self, scale: f64) -> Self {
        Attention { scale: Some(scale), ..self }
    }
    /// Whether query `i` attends only to keys up to `i`.
    pub const fn causal(self, causal: bool) -> Self {
        Attention { causal, ..self }
    }
    /// With scaled scores bounded to ±`cap`, a positive number.
    pub const fn softcap(self, cap: f64) -> Self {
        Attention { softcap: Some(cap), ..self }
    }
}

/// The scale and the cap of the scores. A part of the scale multiplies the queries.
#[derive(Clone, Copy)]
pub(super) struct Scaling<T: AttentionFloat> {
    /// The power of two in the scale, if it is below 1.
    pub(super) query_factor: Option<T>,
    pub(super) scale: T::Score,
    pub(super) cap: Option<T::Score>,
}

impl<T: AttentionFloat> Scaling<T> {
    /// The scaling of queries and keys of `d` elements.
    pub(super) fn new(op: &'static str, attention: Attention, d: usize) -> Result<Self> {
        let scale = attention.scale.unwrap_or(1.0 / (d.max(1) as f64).sqrt());
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(Error::Value {
                op,
                what: text(format_args!("the scale {scale} is not a positive number")),
            });
        }
        if let Some(cap) = attention.softcap.filter(|cap| !(*cap > 0.0 && cap.is_finite())) {
            return Err(Error::Value {
                op,
                what: text(format_args!("the cap {cap} is not a positive number")),
            });
        }
        // The power of two in the scale multiplies the queries, which is exact except for subnormal numbers:
        // then no score overflows that its scale would bring back into range.
        let power = 2f64.powi(scale.log2().floor() as i32).clamp(f64::from(f32::MIN_POSITIVE), 1.0);
        // Scores of f16 operands cannot overflow f32.
        let power = if T::DTYPE == DType::F16 { 1.0 } else { power };
        let factor = <T as num_traits::NumCast>::from(power).unwrap_or_else(num_traits::One::one);
        let most = <T::Score as num_traits::Float>::max_value();
        Ok(Scaling {
            query_factor: (power < 1.0).then_some(factor),
            scale: Self::number(scale / power),
            cap: attention.softcap.map(Self::number).filter(|cap| *cap < most),
        })
    }

    /// A positive number as a score. Numbers out of range are clamped to the largest or smallest: 0 · ∞ and
    /// 0 / 0 would be NaN.
    pub(super) fn number(x: f64) -> T::Score {
        let least = <T::Score as num_traits::Float>::min_positive_value();
        let most = <T::Score as num_traits::Float>::max_value();
        num_traits::clamp(<T::Score as num_traits::NumCast>::from(x).unwrap_or(most), least, most)
    }
}

/// Masks the scores of the keys after each query.
pub(super) fn mask_later_keys<S: Float, D: Device>(
    scores: &mut Tensor<S, 5, D>,
    queries: &Range<usize>,
    keys: Range<usize>,
) -> Result<()> {
    let index =
        |range: &Range<usize>| Tensor::arange(range.start as i64, range.end as i64, 1, scores.device());
    let (rows, columns) = (index(queries)?, index(&keys)?);
    let rows = rows.insert_axis(Axis::<1>);
    scores.zip_in_place(Masked, columns.lift::<5>().lazy().less_equal(rows.lift()))
}

/// Returns whether all elements are finite; `true` if the data cannot be read, because the device has none or
/// a graph is being recorded.
pub(super) fn all_finite<T: AttentionFloat, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
) -> Result<bool> {
    Ok(x.lazy().is_finite().all(All)?.item().unwrap_or(true))
}
