//! Selection of the least keys of a line without sorting it.
// Imports: nothing.

use super::super::isa::Loop;
use super::items::Items;
use super::keys::SortKey;

/// Contiguous keys, of which only the least is compared at first.
const CHUNK_KEYS: usize = 16;

/// Puts the keys that may be among the least `keep` into `found`, with their positions; there are at most
/// [`candidates`].
///
/// The minimum of each chunk is computed first. The `keep`-th least minimum is a limit: `keep` chunks have a
/// key that is not above it, and therefore no key above it is among the least `keep`.
pub(super) struct PartialSelect<'a, K: SortKey> {
    pub(super) keys: &'a [K],
    pub(super) keep: usize,
    /// Scratch for the minima.
    pub(super) minima: &'a mut Items<K>,
    pub(super) found: &'a mut Items<K::WithPosition>,
}

/// Whether few enough keys are wanted to select them without sorting the line.
pub(super) fn is_selective(n: usize, keep: usize) -> bool {
    keep <= n / (2 * CHUNK_KEYS)
}

/// The number of minima of `n` keys.
pub(super) fn minima(n: usize) -> usize {
    n / CHUNK_KEYS
}

/// The most keys that are found: all keys of `keep - 1` chunks with lesser keys, and as many equal keys as
/// can be wanted.
pub(super) fn candidates(keep: usize) -> usize {
    keep * (CHUNK_KEYS + 1)
}

impl<K: SortKey> Loop for PartialSelect<'_, K> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PartialSelect { keys, keep, minima, found } = self;
        let (chunks, tail) = keys.as_chunks::<CHUNK_KEYS>();
        minima.clear();
        minima.extend(chunks.iter().map(|chunk| chunk.iter().fold(K::HIGHEST, |least, &key| least.min(key))));
        let limit = *minima.select_nth_unstable(keep - 1).1;
        found.clear();
        let mut ties = 0;
        let mut scan = |keys: &[K], start: usize| {
            for (&key, position) in keys.iter().zip(start as u32..) {
                if key < limit || key == limit && ties < keep {
                    ties += usize::from(key == limit);
                    found.push(key.with_position(position));
                }
            }
        };
        for (chunk, start) in chunks.iter().zip((0..).step_by(CHUNK_KEYS)) {
            if chunk.iter().fold(false, |any, key| any | (*key <= limit)) {
                scan(chunk, start);
            }
        }
        scan(tail, keys.len() - tail.len());
    }
}
