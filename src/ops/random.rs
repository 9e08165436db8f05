//! Random numbers: each element is a function of the seed and of its row-major number, by the same operator on every device.
//!
//! Generator: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), one
//! block an element: no state, no order, hence no difference between one thread and many.
//! Imports: `error`, `dim`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::eval_into;
use crate::kernel::{Call, Op, Param};
use crate::layout::Layout;
use crate::scalar::{DType, Lane, Lanes};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::f64::consts::TAU;
use std::marker::PhantomData;
use std::ops::Range;

type Word<L> = Lane<L, u64>;

#[inline(always)]
fn low<L: Lanes>(x: Word<L>) -> Word<L> {
    x & Lane::literal(0xffff_ffff)
}

/// The four 32-bit words of one block, each in a `u64`, from four 32-bit words that count it.
#[inline(always)]
fn philox<L: Lanes>(mut counter: [Word<L>; 4], seed: Word<L>) -> [Word<L>; 4] {
    let word = |value: u64| Word::<L>::literal(value);
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

/// The words of element `number`; `stream` sets the distributions apart.
#[inline(always)]
fn words<L: Lanes>(number: Word<L>, stream: u64, seed: Word<L>) -> [Word<L>; 4] {
    philox([low(number), number.shr(32), Lane::literal(stream), Lane::literal(0)], seed)
}

/// Bits of the significand.
const fn digits<T: Element>() -> u32 {
    match T::DTYPE {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// `k / 2^digits`, for the first bits of two words.
#[inline(always)]
fn fraction<L: Lanes, T: Float>(words: [Word<L>; 2]) -> Lane<L, Compute<T>> {
    let whole = (words[0].shl(32) | words[1]).shr(64 - digits::<T>());
    whole.cast::<Compute<T>>() * 0.5f64.powi(digits::<T>() as i32)
}

/// Between two numbers: `(block, element in it, seed, low, high)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uniform<T>(PhantomData<T>);

impl<T: Float> Op<(u64, u64, u64, T, T)> for Uniform<T> {
    const NAME: &'static str = "random_uniform";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, low, high): (Word<L>, Word<L>, Word<L>, Lane<L, Compute<T>>, Lane<L, Compute<T>>),
    ) -> Lane<L, Compute<T>> {
        let [a, b, ..] = words(block + at, 0, seed);
        let u = fraction::<L, T>([a, b]);
        high * u + low * (1.0 - u)
    }
}

/// Normally distributed, by Box and Muller: `(block, element in it, seed, mean, standard deviation)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normal<T>(PhantomData<T>);

impl<T: Float> Op<(u64, u64, u64, T, T)> for Normal<T> {
    const NAME: &'static str = "random_normal";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (block, at, seed, mean, deviation): (Word<L>, Word<L>, Word<L>, Lane<L, Compute<T>>, Lane<L, Compute<T>>),
    ) -> Lane<L, Compute<T>> {
        let [a, b, c, d] = words(block + at, 1, seed);
        // In (0, 1]: the logarithm is finite. f64 has 53 bits of the radius, the others 32, for the sake of the tail.
        let radius = if digits::<T>() == 53 {
            ((a.shl(32) | b).shr(11) + 1).cast::<Compute<T>>() * 0.5f64.powi(53)
        } else {
            (a + 1).cast::<Compute<T>>() * 0.5f64.powi(32)
        };
        let turn = if digits::<T>() == 53 { fraction::<L, f64>([c, d]).cast() } else { fraction::<L, f32>([c, d]).cast() };
        let z = (radius.ln() * -2.0).sqrt() * (turn * TAU).cos();
        z * deviation + mean
    }
}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Numbers evenly distributed over `low ≤ x < high`; `0.0..1.0` gives multiples of 2⁻⁵³ (f32: 2⁻²⁴, f16: 2⁻¹¹,
    /// bf16: 2⁻⁸). Over other ranges rounding may give `high` itself.
    ///
    /// Seed and row-major number give an element its value (Philox4x32-10): it is the same on every device, for any
    /// number of threads, and the elements of a longer tensor begin with those of a shorter one. Tensors that shall be
    /// independent need different seeds.
    ///
    /// # Errors
    /// [`Error::Value`] unless both ends are finite and `low < high`; [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::<f32, 2>::random_uniform([2, 3], -1.0..1.0, 42, &Cpu)?;
    /// assert!(x.iter().all(|v| (-1.0..1.0).contains(v)));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn random_uniform(size: impl Into<Dim<RANK>>, range: Range<T>, seed: u64, device: &D) -> Result<Self> {
        let Range { start, end } = range;
        if !(start.is_finite() && end.is_finite() && start < end) {
            let what = text(format_args!("the range {start}..{end} must be of finite numbers, the first below the second"));
            return Err(Error::Value { op: "random_uniform", what });
        }
        generate::<Uniform<T>, T, RANK, D>(size.into(), seed, [start, end], device)
    }

    /// Normally distributed numbers; seeded as in [`random_uniform`](Tensor::random_uniform).
    ///
    /// By the method of Box and Muller, one cosine an element: at most 6.7 standard deviations from the mean for f32 and
    /// narrower, 8.6 for f64.
    ///
    /// # Errors
    /// [`Error::Value`] unless both numbers are finite and `deviation ≥ 0`; [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::<f64, 1>::random_normal([10_000], 5.0, 2.0, 42, &Cpu)?;
    /// assert!((x.mean(All)?.item()? - 5.0).abs() < 0.1);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn random_normal(size: impl Into<Dim<RANK>>, mean: T, deviation: T, seed: u64, device: &D) -> Result<Self> {
        if !(mean.is_finite() && deviation.is_finite() && deviation >= T::zero()) {
            let what = text(format_args!("mean {mean} and standard deviation {deviation} must be finite, the latter not negative"));
            return Err(Error::Value { op: "random_normal", what });
        }
        generate::<Normal<T>, T, RANK, D>(size.into(), seed, [mean, deviation], device)
    }
}

/// How many elements share the first number of their block, so that few numbers are stored.
const BLOCK: usize = 4096;

/// Element `n` of the result is `F(⌊n / BLOCK⌋ · BLOCK, n % BLOCK, seed, …)`.
fn generate<F, T, const RANK: usize, D>(size: Dim<RANK>, seed: u64, parameters: [T; 2], device: &D) -> Result<Tensor<T, RANK, D>>
where
    F: Op<(u64, u64, u64, T, T), Out = T>,
    T: Float,
    D: Device,
{
    let numel = size.numel_of(F::NAME, size_of::<T>())?;
    let whole = numel / BLOCK * BLOCK;
    let parameters = (Param(seed), Param(parameters[0]), Param(parameters[1]));
    let at = Tensor::arange(0, BLOCK.min(numel) as u64, 1, device)?;
    let mut out = Tensor::unwritten(F::NAME, Layout::row_major(Dim([numel])), device)?;
    let (most, rest) = out.writable(F::NAME)?.split_at_mut(Axis::<0>, whole)?;
    if whole > 0 {
        let blocks = Tensor::arange(0, whole as u64, BLOCK as u64, device)?;
        let most = most.reshape([whole / BLOCK, BLOCK])?;
        fill::<F, T, D>(blocks.insert_axis(Axis::<1>), at.lift(), parameters, most)?;
    }
    if numel > whole {
        // As one more block, which is shorter: by the same kernel.
        let block = Tensor::arange(whole as u64, whole as u64 + 1, 1, device)?;
        let at = at.slice((..numel - whole,))?;
        let rest = rest.reshape([1, numel - whole])?;
        fill::<F, T, D>(block.insert_axis(Axis::<1>), at.lift(), parameters, rest)?;
    }
    out.into_shape(size)
}

fn fill<F, T, D>(
    block: TensorView<'_, u64, 2, D>,
    at: TensorView<'_, u64, 2, D>,
    (seed, a, b): (Param<u64>, Param<T>, Param<T>),
    mut out: TensorViewMut<'_, T, 2, D>,
) -> Result<()>
where
    F: Op<(u64, u64, u64, T, T), Out = T>,
    T: Float,
    D: Device,
{
    eval_into(F::NAME, &Call::<F, _>::new((block, at, seed, a, b)), &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Run;

    /// The known answers that the authors publish with Random123 (`kat_vectors`, philox4x32, 10 rounds).
    #[test]
    fn philox_gives_its_authors_known_answers() {
        let cases: [([u64; 4], u64, [u64; 4]); 3] = [
            ([0; 4], 0, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([0xffffffff; 4], u64::MAX, [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            ([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], 0x299f31d0_a4093822, [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]),
        ];
        for (counter, seed, wanted) in cases {
            assert_eq!(philox::<Run>(counter.map(Lane), Lane(seed)).map(|word| word.0), wanted);
        }
    }
}
