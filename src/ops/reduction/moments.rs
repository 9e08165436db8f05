//! Sums of squared deviations from a mean that is computed in the same pass, for the reducers of variances
//! and deviations.
// Imports: `scalar`.

use crate::scalar::{Eval, Lane, Lanes, Prim, Real};

/// Count, mean, and sum of squared deviations, in f64. In f32 the sum could overflow or underflow although
/// its root does not.
pub(super) type Moments<L> = (Lane<L, f64>, Lane<L, f64>, Lane<L, f64>);

/// The sum of squared deviations divided by the count minus `fewer`; 0/0 if the difference is not positive.
#[inline(always)]
pub(in crate::ops) fn mean_square<L: Lanes>(s: Moments<L>, count: Lane<L, i64>, fewer: i64) -> Lane<L, f64> {
    s.2 / (count.cast::<f64>() - fewer).max(Lane::zero())
}

/// Joins the moments of two sets (Chan, Golub, LeVeque 1979).
#[inline(always)]
pub(in crate::ops) fn join_moments<L: Lanes>(a: Moments<L>, b: Moments<L>) -> Moments<L> {
    let n = a.0 + b.0;
    let weight = n.eq(Lane::zero()).select(Lane::zero(), b.0 / n);
    let delta = b.1 - a.1;
    // The square of a distance may overflow while one side is empty: the factor 0 comes first.
    (n, delta.mul_add(weight, a.1), delta.mul_add(a.0 * weight * delta, a.2 + b.2))
}

/// The moments of a slice, from sums in f64 and without the division of Welford's update. The sums are of
/// distances to the first value. If all values are equal, the sums are exactly 0. A first value far from the
/// others costs digits, and f64 has enough of them for narrower elements. f64 elements are summed a second
/// time, as distances to their mean.
#[inline(always)]
pub(super) fn moments_of<P: Real>(values: &[P]) -> Moments<Eval> {
    let n = values.len() as f64;
    let mut from = values.first().map_or(0.0, |x| x.cast::<f64>());
    let (mut sum, mut squares) = shifted_sums(values, from);
    if size_of::<P>() > 4 && n > 0.0 {
        from += sum / n;
        (sum, squares) = shifted_sums(values, from);
    }
    let (shift, n) = if n > 0.0 { (sum / n, n) } else { (0.0, 0.0) };
    let squares = squares - sum * shift;
    let squares = if squares < 0.0 { 0.0 } else { squares };
    if !squares.is_finite() && values.iter().all(|x| x.cast::<f64>().is_finite()) {
        // The distances of finite numbers overflowed; the mean does not.
        return (Lane(n), Lane(values.iter().map(|x| x.cast::<f64>() / n).sum()), Lane(f64::INFINITY));
    }
    (Lane(n), Lane(from + shift), Lane(squares))
}

/// Count, a first value, and the sum of the distances to it, in f64.
pub(super) type ShiftedSum<L> = (Lane<L, f64>, Lane<L, f64>, Lane<L, f64>);

/// The sum of the distances of a slice to its first value.
#[inline(always)]
pub(super) fn shifted_sum_of<P: Real>(values: &[P]) -> ShiftedSum<Eval> {
    let from = values.first().map_or(0.0, |x| x.cast::<f64>());
    let mut sums = [0.0; PARTIAL_SUMS];
    let (chunks, rest) = values.as_chunks::<PARTIAL_SUMS>();
    for chunk in chunks {
        for j in 0..PARTIAL_SUMS {
            sums[j] += chunk[j].cast::<f64>() - from;
        }
    }
    let mut last = 0.0;
    for x in rest {
        last += x.cast::<f64>() - from;
    }
    (Lane(values.len() as f64), Lane(from), Lane(pairwise_sum(&sums) + last))
}

/// The number of independent partial sums.
const PARTIAL_SUMS: usize = 32;

/// `Σ (x − from)` and `Σ (x − from)²`.
#[inline(always)]
pub(super) fn shifted_sums<P: Real>(values: &[P], from: f64) -> (f64, f64) {
    let (mut sums, mut squares) = ([0.0; PARTIAL_SUMS], [0.0; PARTIAL_SUMS]);
    let (chunks, rest) = values.as_chunks::<PARTIAL_SUMS>();
    for chunk in chunks {
        for j in 0..PARTIAL_SUMS {
            let x = chunk[j].cast::<f64>() - from;
            sums[j] += x;
            squares[j] += x * x;
        }
    }
    // A loop of its own: an index that is not a constant would move all partial sums into memory.
    let mut last = (0.0, 0.0);
    for x in rest {
        let x = x.cast::<f64>() - from;
        last = (last.0 + x, last.1 + x * x);
    }
    (pairwise_sum(&sums) + last.0, pairwise_sum(&squares) + last.1)
}

/// `Σ f(x)²` of real numbers.
#[inline(always)]
pub(super) fn sum_of_squares<P: Prim>(values: &[P], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; PARTIAL_SUMS];
    let (chunks, rest) = values.as_chunks::<PARTIAL_SUMS>();
    for chunk in chunks {
        for j in 0..PARTIAL_SUMS {
            let x = f(chunk[j].cast::<f64>());
            sums[j] += x * x;
        }
    }
    let mut last = 0.0;
    for x in rest {
        let x = f(x.cast::<f64>());
        last += x * x;
    }
    pairwise_sum(&sums) + last
}

/// The pairwise sum of the partial sums.
#[inline(always)]
fn pairwise_sum(sums: &[f64; PARTIAL_SUMS]) -> f64 {
    let mut eight = [0.0; 8];
    for j in 0..8 {
        eight[j] = (sums[j] + sums[8 + j]) + (sums[16 + j] + sums[24 + j]);
    }
    // Written once, as a vector. Otherwise the compiler scalarizes the loop over the values because of the
    // steps below.
    std::hint::black_box(&mut eight);
    let [a, b, c, d, e, f, g, h] = eight;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
