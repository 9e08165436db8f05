//! Sums of exponentials relative to the largest exponent, without overflow: the state of `logsumexp`.
// Imports: `scalar`.

use crate::ops::functions::exp_beside_one;
use crate::scalar::{Eval, Lane, Lanes, Real};

/// Joins two sums of exponentials, each relative to its largest exponent, by scaling the sum with the smaller
/// one.
#[inline(always)]
pub(super) fn join_exp_sums<L: Lanes, P: Real>(
    a: (Lane<L, P>, Lane<L, P>),
    b: (Lane<L, P>, Lane<L, P>),
) -> (Lane<L, P>, Lane<L, P>) {
    let largest = a.0.max(b.0);
    let a_leads = b.0.le(a.0);
    // The difference of equal infinities is NaN; they count as equal.
    let difference = a.0.eq(b.0).select(Lane::zero(), -(a.0 - b.0).abs());
    let (leader, other) = (a_leads.select(a.1, b.1), a_leads.select(b.1, a.1));
    (largest, other.mul_add(exp_beside_one(difference), leader))
}

/// The number of independent partial sums of exponentials.
const EXP_SUMS: usize = 16;

/// The largest of a slice and `Σ e^(x − largest)`, in two passes, the second one over cached values.
#[inline(always)]
pub(super) fn exp_sum_of<P: Real>(values: &[P]) -> (Lane<Eval, P>, Lane<Eval, P>) {
    let (mut keys, mut sums) =
        ([Lane::<Eval, P>::lowest().order_key(); EXP_SUMS], [Lane::<Eval, P>::zero(); EXP_SUMS]);
    // The difference of equal infinities is NaN; they count as equal.
    let power = |x: Lane<Eval, P>, largest: Lane<Eval, P>| {
        exp_beside_one(x.eq(largest).select(Lane::zero(), x - largest))
    };
    if values.len() < EXP_SUMS {
        let largest = Lane::of_order_key(values.iter().fold(keys[0], |key, &x| key.max(Lane(x).order_key())));
        return (largest, values.iter().fold(sums[0], |sum, &x| sum + power(Lane(x), largest)));
    }
    // The last step overlaps the step before, and repeated values are masked. A separate tail loop would not
    // vectorize.
    let (steps, last) = (values.len().div_ceil(EXP_SUMS), values.len() - EXP_SUMS);
    let step = |k: usize| {
        std::hint::black_box(()); // vectorizes within a step, not across steps
        let from = (k * EXP_SUMS).min(last);
        (*values[from..].first_chunk::<EXP_SUMS>().unwrap_or(&[P::LOWEST; EXP_SUMS]), k * EXP_SUMS - from)
    };
    for k in 0..steps {
        let (some, _) = step(k);
        for j in 0..EXP_SUMS {
            keys[j] = keys[j].max(Lane(some[j]).order_key());
        }
    }
    let largest = Lane::of_order_key(keys.into_iter().fold(keys[0], Lane::max));
    for k in 0..steps {
        let (some, again) = step(k);
        for j in 0..EXP_SUMS {
            let sum = sums[j] + power(Lane(some[j]), largest);
            sums[j] = if j as u32 >= again as u32 { sum } else { sums[j] };
        }
    }
    let mut width = EXP_SUMS;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            sums[j] = sums[j] + sums[j + width];
        }
    }
    (largest, sums[0])
}
