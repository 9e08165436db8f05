//! Extremes with their positions: the state of `argmax` and `argmin`.
// Imports: `scalar`, `element`, `ops`.

use crate::element::{Comparable, Compute};
use crate::ops::reduction::lanes::{KeyLane, PositionLane, ValueLane};
use crate::scalar::{Eval, Lane, Lanes, Ordered};

/// A score, and the index of the first value with this score. Both are 64 bits wide, because lanes of two
/// widths would not vectorize.
pub(super) type Best<L> = (Lane<L, i64>, PositionLane<L>);

/// The state after another value with this score, at a higher index than all before; NaN has the highest
/// score.
#[inline(always)]
pub(super) fn with_score<L: Lanes>(
    state: Best<L>,
    score: Lane<L, i64>,
    is_nan: Lane<L, bool>,
    at: PositionLane<L>,
) -> Best<L> {
    let score = is_nan.select(Lane::highest(), score);
    let better = score.gt(state.0);
    (better.select(score, state.0), better.select(at, state.1))
}

/// The one of two states with the higher score, or with the lower index if the scores are equal.
#[inline(always)]
pub(super) fn best_of_two<L: Lanes>(a: Best<L>, b: Best<L>) -> Best<L> {
    let better = b.0.gt(a.0) | (b.0.eq(a.0) & b.1.lt(a.1));
    (better.select(b.0, a.0), better.select(b.1, a.1))
}

/// The best value of a slice and the index of the first value equal to it, in two passes, the second one over
/// cached values. `key` is higher for better values and highest for NaN, and `of_key` is its inverse.
#[inline(always)]
pub(super) fn best_of_slice<T: Comparable>(
    values: &[Compute<T>],
    from: usize,
    key: impl Fn(ValueLane<Eval, T>) -> KeyLane<Eval, T>,
    of_key: impl Fn(KeyLane<Eval, T>) -> ValueLane<Eval, T>,
) -> Best<Eval> {
    let top = values.iter().fold(Lane::lowest(), |top: KeyLane<Eval, T>, &x| top.max(key(Lane(x))));
    // Ranked as by `accumulate`: zeros of both signs are equal, and all NaNs are equal.
    let value = Ordered::one_zero(of_key(top));
    let at = if value.is_nan().value() {
        position_of_first(values, |x| ValueLane::<Eval, T>::is_nan(Lane(x)).value())
    } else {
        position_of_first(values, |x| x == value.0)
    };
    with_score(
        (Lane::lowest(), Lane::highest()),
        key(value).cast(),
        value.is_nan(),
        Lane(from.wrapping_add(at) as i64),
    )
}

/// The index of the first value for which `is` holds; at least one must exist.
#[inline(always)]
fn position_of_first<P: Copy>(values: &[P], is: impl Fn(P) -> bool) -> usize {
    const WIDTH: usize = 64;
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    for (k, chunk) in chunks.iter().enumerate() {
        if chunk.iter().fold(false, |any, &x| any | is(x)) {
            // Eight marks form a word, and the lowest byte of the word is the first of them.
            let mut marks = [0u8; WIDTH];
            for j in 0..WIDTH {
                marks[j] = is(chunk[j]).into();
            }
            let words = marks.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).enumerate();
            return words.rev().fold(0, |at, (w, word)| {
                if word != 0 { 8 * w + word.trailing_zeros() as usize / 8 } else { at }
            }) + k * WIDTH;
        }
    }
    chunks.len() * WIDTH + rest.iter().position(|&x| is(x)).unwrap_or(0)
}

/// The index of the best value. If no score exceeded the lowest one, all values are equal, and the first is
/// the result.
#[inline(always)]
pub(super) fn position_of_best<L: Lanes>(found: Best<L>) -> PositionLane<L> {
    found.1.eq(Lane::highest()).select(Lane::zero(), found.1)
}
