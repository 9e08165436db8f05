//! Random numbers: each element is a function of the seed and of its row-major number, by the same operator
//! on every device.
//!
//! The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
//! 3", SC 2011), one block per element. It has no state, and the numbers do not depend on the order of
//! evaluation or on the number of threads.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element, Float, Integer};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval_into};
use crate::kernel::{Call, Op, Param};
use crate::layout::Layout;
use crate::ops::Sorts as _;
use crate::ops::axes::check_axis;
use crate::ops::indexing::gather::selected;
use crate::rank::RemoveAxis;
use crate::scalar::{DType, Lane, Lanes, Prim};
use crate::tensor::{Allocate, Tensor, TensorView, TensorViewMut};
use std::f64::consts::TAU;
use std::marker::PhantomData;
use std::ops::Range;

type WordLane<L> = Lane<L, u64>;

#[inline(always)]
fn low<L: Lanes>(x: WordLane<L>) -> WordLane<L> {
    x & Lane::literal(0xffff_ffff)
}

/// The four 32-bit words of one block, each in a `u64`, from a counter of four 32-bit words.
#[inline(always)]
fn philox<L: Lanes>(mut counter: [WordLane<L>; 4], seed: WordLane<L>) -> [WordLane<L>; 4] {
    let word = |value: u64| WordLane::<L>::literal(value);
    let mut key = [low(seed), seed.shr(32)];
    for round in 0..10 {
        if round > 0 {
            key = [low(key[0] + word(0x9e37_79b9)), low(key[1] + word(0xbb67_ae85))];
        }
        let (a, b) = (counter[0] * word(0xd251_1f53), counter[2] * word(0xcd9e_8d57));
        counter = [b.shr(32) ^ counter[1] ^ key[0], low(b), a.shr(32) ^ counter[3] ^ key[1], low(a)];
    }
    counter
}

/// The words of element `number`; `distribution` separates the distributions.
#[inline(always)]
fn words<L: Lanes>(number: WordLane<L>, distribution: u64, seed: WordLane<L>) -> [WordLane<L>; 4] {
    philox([low(number), number.shr(32), Lane::literal(distribution), Lane::literal(0)], seed)
}

/// The number of bits of the significand.
const fn digits<T: Element>() -> u32 {
    match T::DTYPE {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// `k / 2^digits`, where `k` is the leading bits of two words.
#[inline(always)]
fn fraction<L: Lanes, T: Float>(words: [WordLane<L>; 2]) -> Lane<L, Compute<T>> {
    let whole = (words[0].shl(32) | words[1]).shr(64 - digits::<T>());
    whole.cast::<Compute<T>>() * 0.5f64.powi(digits::<T>() as i32)
}

/// Uniform numbers between two bounds: `(block, element in it, seed, low, high)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uniform<T>(PhantomData<T>);

impl<T: Float> Op<(u64, u64, u64, T, T)> for Uniform<T> {
    const NAME: &'static str = "random_uniform";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, low, high): (
            WordLane<L>,
            WordLane<L>,
            WordLane<L>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
        ),
    ) -> Lane<L, Compute<T>> {
        let [a, b, ..] = words(block + at, 0, seed);
        let u = fraction::<L, T>([a, b]);
        high * u + low * (1.0 - u)
    }
}

/// Normally distributed numbers, by Box and Muller: `(block, element in it, seed, mean, standard deviation)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normal<T>(PhantomData<T>);

impl<T: Float> Op<(u64, u64, u64, T, T)> for Normal<T> {
    const NAME: &'static str = "random_normal";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, mean, deviation): (
            WordLane<L>,
            WordLane<L>,
            WordLane<L>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
        ),
    ) -> Lane<L, Compute<T>> {
        let [a, b, c, d] = words(block + at, 1, seed);
        // The radius is in (0, 1], and its logarithm is finite. It has 53 bits in f64 and 32 in the others,
        // for a longer tail.
        let radius = if digits::<T>() == 53 {
            ((a.shl(32) | b).shr(11) + 1).cast::<Compute<T>>() * 0.5f64.powi(53)
        } else {
            (a + 1).cast::<Compute<T>>() * 0.5f64.powi(32)
        };
        let turn = if digits::<T>() == 53 {
            fraction::<L, f64>([c, d]).cast()
        } else {
            fraction::<L, f32>([c, d]).cast()
        };
        let z = (radius.ln() * -2.0).sqrt() * (turn * TAU).cos();
        z * deviation + mean
    }
}

/// The 128-bit product of two 64-bit numbers: its upper and its lower half.
#[inline(always)]
fn wide_product<L: Lanes>(a: WordLane<L>, b: WordLane<L>) -> [WordLane<L>; 2] {
    let ([a1, a0], [b1, b0]) = ([a.shr(32), low(a)], [b.shr(32), low(b)]);
    let (below, across, along, above) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
    let middle = below.shr(32) + low(across) + low(along);
    [above + across.shr(32) + along.shr(32) + middle.shr(32), middle.shl(32) | low(below)]
}

/// Integers of a range: `(block, element in it, seed, first, count)`, all modulo 2⁶⁴.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers<T>(PhantomData<T>);

impl<T: Integer> Op<(u64, u64, u64, u64, u64)> for Integers<T> {
    const NAME: &'static str = "random_integers";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, first, count): (WordLane<L>, WordLane<L>, WordLane<L>, WordLane<L>, WordLane<L>),
    ) -> Lane<L, Compute<T>> {
        let [a, b, c, d] = words(block + at, 2, seed);
        // ⌊r · count / 2¹²⁸⌋ for the 128 bits r.
        let [whole, part] = wide_product(a.shl(32) | b, count);
        let [carried, _] = wide_product(c.shl(32) | d, count);
        let carry = (part + carried).lt(part).select(Lane::one(), Lane::zero());
        (first + whole + carry).cast()
    }
}

/// Random 64-bit numbers: `(block, element in it, seed, _, _)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomBits;

impl Op<(u64, u64, u64, u64, u64)> for RandomBits {
    const NAME: &'static str = "random_permutation";
    type Out = u64;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, _, _): (WordLane<L>, WordLane<L>, WordLane<L>, WordLane<L>, WordLane<L>),
    ) -> WordLane<L> {
        let [a, b, ..] = words(block + at, 3, seed);
        a.shl(32) | b
    }
}

/// Random events: `(block, element in it, seed, probability, _)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bernoulli;

impl Op<(u64, u64, u64, f64, f64)> for Bernoulli {
    const NAME: &'static str = "random_bernoulli";
    type Out = bool;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, p, _): (WordLane<L>, WordLane<L>, WordLane<L>, Lane<L, f64>, Lane<L, f64>),
    ) -> Lane<L, bool> {
        let [a, b, ..] = words(block + at, 4, seed);
        fraction::<L, f64>([a, b]).lt(p)
    }
}

impl<T: Integer, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Integers evenly distributed over `low ≤ x < high`; seeded as in
    /// [`random_uniform`](Tensor::random_uniform).
    ///
    /// An element with 128 random bits `r` is `low + ⌊r · n / 2¹²⁸⌋`, where n = `high − low`. The
    /// probabilities of two numbers differ by at most 2⁻⁶⁴ of themselves.
    ///
    /// # Errors
    /// [`Error::Value`] unless `low < high`; [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let dice = Tensor::<u8, 1>::random_integers([1000], 1..7, 42, &Cpu)?;
    /// assert!(dice.iter().all(|n| (1..7).contains(n)));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "randint")]
    pub fn random_integers(
        size: impl Into<Dim<RANK>>,
        range: Range<T>,
        seed: u64,
        device: &D,
    ) -> Result<Self> {
        let Range { start, end } = range;
        if start >= end {
            return Err(Error::Value {
                op: "random_integers",
                what: text(format_args!("{start}..{end} holds no number")),
            });
        }
        let [first, end] = [start, end].map(|number| number.widen().cast::<u64>());
        generate::<Integers<T>, u64, T, RANK, D>(size.into(), seed, [first, end.wrapping_sub(first)], device)
    }
}

impl<const RANK: usize, D: Device> Tensor<bool, RANK, D> {
    /// `true` with this probability, each element independently; seeded as in
    /// [`random_uniform`](Tensor::random_uniform). With a probability for each element:
    /// `Tensor::random_uniform(p.size(), 0.0..1.0, seed, &device)?.less(&p)?`.
    ///
    /// Probabilities are multiples of 2⁻⁵³, rounded up.
    ///
    /// # Errors
    /// [`Error::Value`] unless the probability is between 0 and 1; [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let kept = Tensor::<bool, 1>::random_bernoulli([10_000], 0.9, 42, &Cpu)?;
    /// assert!((8_800..9_200).contains(&kept.count(All)?.item()?));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn random_bernoulli(
        size: impl Into<Dim<RANK>>,
        probability: f64,
        seed: u64,
        device: &D,
    ) -> Result<Self> {
        if !(0.0..=1.0).contains(&probability) {
            let what = text(format_args!("a probability of {probability}, not from 0 to 1"));
            return Err(Error::Value { op: "random_bernoulli", what });
        }
        generate::<Bernoulli, f64, bool, RANK, D>(size.into(), seed, [probability; 2], device)
    }
}

impl<D: Device> Tensor<i64, 1, D> {
    /// The numbers `0..n`, each once, in random order: the permutation that sorts random 64-bit keys.
    ///
    /// The result depends only on the seed and on `n`. With a probability of n² / 2⁶⁵ two keys are equal, and
    /// their numbers are in rising order.
    ///
    /// # Cost
    /// One sort of `n` numbers.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let order = Tensor::random_permutation(100, 42, &Cpu)?;
    /// assert_eq!(order.sort(Axis::<0>)?, Tensor::arange(0, 100, 1, &Cpu)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "randperm")]
    pub fn random_permutation(n: usize, seed: u64, device: &D) -> Result<Self> {
        generate::<RandomBits, u64, u64, 1, D>(Dim([n]), seed, [0; 2], device)?.argsort(Axis::<0>)
    }
}

/// Random orders, for tensors and views.
pub trait Shuffles<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The positions of axis `A` in a [random order](Tensor::random_permutation), the same for all lines
    /// along it.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[1, 10], [2, 20], [3, 30]]), Tensor::from([1, 2, 3]));
    /// // Of one seed: rows stay with their labels.
    /// let (x, y) = (x.shuffle(Axis::<0>, 7)?, y.shuffle(Axis::<0>, 7)?);
    /// assert_eq!(x.slice((.., 0))?.to_vec()?, y.to_vec()?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn shuffle<const A: usize>(self, axis: Axis<A>, seed: u64) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.shuffle_axis(A, seed)
    }

    /// As [`shuffle`](Shuffles::shuffle), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn shuffle_axis(self, axis: usize, seed: u64) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        let (op, x) = ("shuffle", self.into_view());
        check_axis(op, axis, x.size())?;
        let order = Tensor::random_permutation(x.size().0[axis], seed, x.device())?;
        selected(op, x, axis, order.view(), Allocate)
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Shuffles<'a, T, RANK, D> for X {}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Numbers evenly distributed over `low ≤ x < high`. The range `0.0..1.0` gives multiples of 2⁻⁵³ (f32:
    /// 2⁻²⁴, f16: 2⁻¹¹, bf16: 2⁻⁸). Over other ranges rounding may give `high` itself.
    ///
    /// The value of an element is a function of the seed and of its row-major number (Philox4x32-10). It is
    /// the same on every device and for any number of threads, and a longer tensor begins with the elements
    /// of a shorter one. Tensors that must be independent need different seeds.
    ///
    /// # Errors
    /// [`Error::Value`] unless both ends are finite and `low < high`; [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::<f32, 2>::random_uniform([2, 3], -1.0..1.0, 42, &Cpu)?;
    /// assert!(x.iter().all(|v| (-1.0..1.0).contains(v)));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn random_uniform(
        size: impl Into<Dim<RANK>>,
        range: Range<T>,
        seed: u64,
        device: &D,
    ) -> Result<Self> {
        let Range { start, end } = range;
        if !(start.is_finite() && end.is_finite() && start < end) {
            let what = text(format_args!(
                "the range {start}..{end} must be of finite numbers, the first below the second"
            ));
            return Err(Error::Value { op: "random_uniform", what });
        }
        generate::<Uniform<T>, T, T, RANK, D>(size.into(), seed, [start, end], device)
    }

    /// Normally distributed numbers; seeded as in [`random_uniform`](Tensor::random_uniform).
    ///
    /// The method is Box and Muller's, with one cosine per element. Numbers are at most 6.7 standard
    /// deviations from the mean for f32 and narrower, 8.6 for f64.
    ///
    /// # Errors
    /// [`Error::Value`] unless both numbers are finite and `deviation ≥ 0`; [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::<f64, 1>::random_normal([10_000], 5.0, 2.0, 42, &Cpu)?;
    /// assert!((x.mean(All)?.item()? - 5.0).abs() < 0.1);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn random_normal(
        size: impl Into<Dim<RANK>>,
        mean: T,
        deviation: T,
        seed: u64,
        device: &D,
    ) -> Result<Self> {
        if !(mean.is_finite() && deviation.is_finite() && deviation >= T::zero()) {
            let what = text(format_args!(
                "mean {mean} and standard deviation {deviation} must be finite, the latter not negative"
            ));
            return Err(Error::Value { op: "random_normal", what });
        }
        generate::<Normal<T>, T, T, RANK, D>(size.into(), seed, [mean, deviation], device)
    }
}

/// Elements per block. The elements of a block share the number of its first element, which keeps the stored
/// numbers few.
const BLOCK: usize = 4096;

/// Element `n` of the result is `F(⌊n / BLOCK⌋ · BLOCK, n % BLOCK, seed, …)`.
fn generate<F, P, T, const RANK: usize, D>(
    size: Dim<RANK>,
    seed: u64,
    parameters: [P; 2],
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    F: Op<(u64, u64, u64, P, P), Out = T>,
    P: Element,
    T: Element,
    D: Device,
{
    let numel = size.numel_of(F::NAME, size_of::<T>())?;
    let whole = numel / BLOCK * BLOCK;
    let parameters = (Param(seed), Param(parameters[0]), Param(parameters[1]));
    let at = Tensor::arange(0, BLOCK.min(numel) as u64, 1, device)?;
    let mut out = Tensor::uninit(F::NAME, Layout::row_major(Dim([numel])), device)?;
    let (whole_blocks, rest) = out.try_view_mut(F::NAME)?.split_at_mut(Axis::<0>, whole)?;
    if whole > 0 {
        let blocks = Tensor::arange(0, whole as u64, BLOCK as u64, device)?;
        let whole_blocks = whole_blocks.reshape([whole / BLOCK, BLOCK])?;
        fill_blocks::<F, P, T, D>(blocks.insert_axis(Axis::<1>), at.lift(), parameters, whole_blocks)?;
    }
    if numel > whole {
        // The remainder is one more, shorter block, computed by the same kernel.
        let block = Tensor::arange(whole as u64, whole as u64 + 1, 1, device)?;
        let at = at.slice((..numel - whole,))?;
        let rest = rest.reshape([1, numel - whole])?;
        fill_blocks::<F, P, T, D>(block.insert_axis(Axis::<1>), at.lift(), parameters, rest)?;
    }
    out.into_shape(size)
}

fn fill_blocks<F, P, T, D>(
    block: TensorView<'_, u64, 2, D>,
    at: TensorView<'_, u64, 2, D>,
    (seed, a, b): (Param<u64>, Param<P>, Param<P>),
    mut out: TensorViewMut<'_, T, 2, D>,
) -> Result<()>
where
    F: Op<(u64, u64, u64, P, P), Out = T>,
    P: Element,
    T: Element,
    D: Device,
{
    eval_into(F::NAME, &Call::<F, _>::new((block, at, seed, a, b)), &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Eval;

    /// The known answers published by the authors with Random123 (`kat_vectors`, philox4x32, 10 rounds).
    #[test]
    fn philox_gives_its_authors_known_answers() {
        let cases: [([u64; 4], u64, [u64; 4]); 3] = [
            ([0; 4], 0, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([0xffffffff; 4], u64::MAX, [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                0x299f31d0_a4093822,
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, seed, wanted) in cases {
            assert_eq!(philox::<Eval>(counter.map(Lane), Lane(seed)).map(|word| word.0), wanted);
        }
    }
}
