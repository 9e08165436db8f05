//! A bitonic sorting network over vectors (K. E. Batcher, "Sorting networks and their applications", 1968).
//!
//! Keys form a matrix. Its rows are vectors, and its columns follow one another in the sorted order: key `i`
//! belongs to row `i mod rows` of column `i / rows`. All columns are sorted at once, and then merged in
//! groups of two, four and eight. Nearly all comparisons are therefore those of whole vectors; only the first
//! rounds of a merge of columns move lanes.
// Imports: nothing.

use super::super::strided::pack;

/// The order in which a network leaves the keys of a matrix.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sorted {
    /// The columns follow one another.
    Columns,
    /// Each lane is sorted by itself.
    Lanes,
}

/// The network of this processor for keys of one width.
#[derive(Clone, Copy)]
pub(super) struct SortingNetwork<K> {
    /// Keys in a row.
    pub lanes: usize,
    /// Up to this many keys the network is faster than a radix sort over all digits.
    pub max_keys: usize,
    /// Sorts a matrix of the given number of rows, a power of two.
    ///
    /// # Safety
    /// The matrix has that many rows.
    pub sort: unsafe fn(*mut K, usize, Sorted),
    /// See [`Partition`].
    pub partition: Option<Partition<K>>,
}

/// Moves the keys below a pivot to the front of `n` keys, in any order; returns their number.
///
/// # Safety
/// There are `n` keys at the address.
pub(super) type Partition<K> = unsafe fn(keys: *mut K, n: usize, pivot: K) -> usize;

impl<K> SortingNetwork<K> {
    /// `n` keys, padded to a matrix that the network sorts.
    pub fn padded(&self, n: usize) -> usize {
        n.div_ceil(self.lanes).next_power_of_two() * self.lanes
    }

    /// Sorts the keys of a matrix into `to`, which has as many or more.
    ///
    /// # Safety
    /// The matrix has whole rows, a power of two of them.
    pub(super) unsafe fn sort_into(&self, matrix: &mut [K], to: &mut [K]) {
        let (lanes, width) = (self.lanes, size_of::<K>());
        let rows = matrix.len() / lanes;
        let to = &mut to[..rows * lanes];
        let [column, row, key] = [rows * width, lanes * width, width].map(|stride| stride as isize);
        // SAFETY: the caller's promise; the matrix has these rows, and `to` has room for their transpose.
        unsafe {
            (self.sort)(matrix.as_mut_ptr(), rows, Sorted::Columns);
            let from = matrix.as_ptr().cast();
            pack::rectangle(to.as_mut_ptr().cast(), [column, key], from, [key, row], [lanes, rows], width);
        }
    }
}

/// Keys that a network may sort.
pub(super) trait NetworkKey: Copy {
    /// Whether some processor has a network.
    const HAS_NETWORK: bool;
    /// The network for these keys, if this processor has one.
    fn network() -> Option<SortingNetwork<Self>>;
}

impl NetworkKey for u32 {
    const HAS_NETWORK: bool = cfg!(target_arch = "x86_64");
    fn network() -> Option<SortingNetwork<u32>> {
        #[cfg(target_arch = "x86_64")]
        return vectors::network::<vectors::U32x16, vectors::U32x8>([1 << 15, 1 << 15]);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

impl NetworkKey for u64 {
    const HAS_NETWORK: bool = cfg!(target_arch = "x86_64");
    fn network() -> Option<SortingNetwork<u64>> {
        #[cfg(target_arch = "x86_64")]
        return vectors::network::<vectors::U64x8, vectors::U64x4>([1 << 16, 1 << 12]);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::super::super::isa::{Level, level};
    use super::super::partition::{self, VectorKey};
    use super::{Sorted, SortingNetwork};
    use std::arch::x86_64::*;

    /// The network of this processor. Random keys up to `max_keys`, for vectors of 512 and of 256 bits, are
    /// sorted faster by it than by a radix sort.
    pub(super) fn network<Wide, Narrow>(max_keys: [usize; 2]) -> Option<SortingNetwork<Wide::Key>>
    where
        Wide: Vector<Key: VectorKey>,
        Narrow: Vector<Key = Wide::Key>,
    {
        match level() {
            Level::Avx512 => Some(SortingNetwork {
                lanes: Wide::LANES,
                max_keys: max_keys[0],
                sort: sort_wide::<Wide>,
                partition: Some(partition::by_vectors::<Wide::Key>),
            }),
            Level::Avx2 => Some(SortingNetwork {
                lanes: Narrow::LANES,
                max_keys: max_keys[1],
                sort: sort_narrow::<Narrow>,
                partition: None,
            }),
            Level::Baseline => None,
        }
    }

    /// Sorts a matrix of vectors of 512 bits.
    ///
    /// # Safety
    /// 1. The matrix has `rows` rows.   2. The processor has the instructions.
    #[target_feature(enable = "avx512f")]
    unsafe fn sort_wide<V: Vector>(keys: *mut V::Key, rows: usize, order: Sorted) {
        // SAFETY: (1) the caller's promise; (2) `network` returns this function only on processors with the
        // instructions.
        unsafe { KeyMatrix::<V> { start: keys.cast(), rows }.sort(order) }
    }

    /// Sorts a matrix of vectors of 256 bits.
    ///
    /// # Safety
    /// 1. The matrix has `rows` rows.   2. The processor has the instructions.
    #[target_feature(enable = "avx2")]
    unsafe fn sort_narrow<V: Vector>(keys: *mut V::Key, rows: usize, order: Sorted) {
        // SAFETY: as above.
        unsafe { KeyMatrix::<V> { start: keys.cast(), rows }.sort(order) }
    }

    /// A vector of keys.
    pub(super) trait Vector: Copy {
        type Key;
        const LANES: usize = size_of::<Self>() / size_of::<Self::Key>();
        /// The lesser and the greater key of each lane.
        ///
        /// # Safety
        /// The processor has the instructions of the vector.
        unsafe fn min_max(self, other: Self) -> [Self; 2];
        /// Lane `i` is lane `i ^ DISTANCE` of `self`.
        ///
        /// # Safety
        /// The processor has the instructions of the vector.
        unsafe fn permuted<const DISTANCE: usize>(self) -> Self;
        /// Lanes whose number has the bit `BIT` come from `high`, the others from `low`.
        ///
        /// # Safety
        /// The processor has the instructions of the vector.
        unsafe fn blended<const BIT: usize>(low: Self, high: Self) -> Self;
    }

    /// Compares and exchanges pairs of an array of vectors. The pairs are written out, because only then the
    /// array stays in registers.
    macro_rules! compare_exchange {
        ($rows:ident: $($i:literal $j:literal),*) => {
            $([$rows[$i], $rows[$j]] = $rows[$i].min_max($rows[$j]);)*
        };
    }

    /// A matrix of keys; the number of rows is a power of two.
    pub(super) struct KeyMatrix<V> {
        pub(super) start: *mut V,
        pub(super) rows: usize,
    }

    /// # Safety of its functions
    /// 1. The matrix has `rows` rows.   2. The processor has the instructions.   3. Row indices are less than
    ///    `rows`.
    impl<V: Vector> KeyMatrix<V> {
        /// Row `row`.
        ///
        /// # Safety
        /// (1) to (3) of the implementation.
        #[inline(always)]
        unsafe fn row(&self, row: usize) -> V {
            // SAFETY: the caller's promise.
            unsafe { self.start.add(row).read_unaligned() }
        }

        /// Writes row `row`.
        ///
        /// # Safety
        /// (1) to (3) of the implementation.
        #[inline(always)]
        unsafe fn set_row(&self, row: usize, to: V) {
            // SAFETY: the caller's promise.
            unsafe { self.start.add(row).write_unaligned(to) }
        }

        /// `N` rows from `first` on, `step` rows apart.
        ///
        /// # Safety
        /// (1) to (3) of the implementation.
        #[inline(always)]
        unsafe fn rows<const N: usize>(&self, first: usize, step: usize) -> [V; N] {
            // SAFETY: the caller's promise.
            let mut rows = [unsafe { self.row(first) }; N];
            for i in 1..N {
                // SAFETY: as above.
                rows[i] = unsafe { self.row(first + i * step) };
            }
            rows
        }

        /// Writes `N` rows from `first` on, `step` rows apart.
        ///
        /// # Safety
        /// (1) to (3) of the implementation.
        #[inline(always)]
        unsafe fn set_rows<const N: usize>(&self, first: usize, step: usize, to: [V; N]) {
            for i in 0..N {
                // SAFETY: the caller's promise.
                unsafe { self.set_row(first + i * step, to[i]) };
            }
        }

        /// Compares and exchanges rows at `distance` in each group of twice as many rows, then rows at half
        /// the distance, and on to neighbors: each group of rows becomes sorted if it was bitonic.
        ///
        /// # Safety
        /// (1) and (2) of the implementation.
        #[inline(always)]
        unsafe fn bitonic_merge(&self, mut distance: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                while distance >= 4 {
                    let step = distance / 4;
                    for group in (0..self.rows).step_by(2 * distance) {
                        for row in group..group + step {
                            let mut rows = self.rows::<8>(row, step);
                            compare_exchange!(
                                rows: 0 4, 1 5, 2 6, 3 7, 0 2, 1 3, 4 6, 5 7, 0 1, 2 3, 4 5, 6 7
                            );
                            self.set_rows(row, step, rows);
                        }
                    }
                    distance /= 8;
                }
                if distance == 2 {
                    for row in (0..self.rows).step_by(4) {
                        let mut rows = self.rows::<4>(row, 1);
                        compare_exchange!(rows: 0 2, 1 3, 0 1, 2 3);
                        self.set_rows(row, 1, rows);
                    }
                } else if distance == 1 {
                    for row in (0..self.rows).step_by(2) {
                        let mut rows = self.rows::<2>(row, 1);
                        compare_exchange!(rows: 0 1);
                        self.set_rows(row, 1, rows);
                    }
                }
            }
        }

        /// Merges columns that are sorted in groups of `HALF` into sorted groups of twice as many. The second
        /// half of each group is compared in reverse order: lane `i` with lane `i ^ MIRROR`, where `MIRROR =
        /// 2·HALF − 1`.
        ///
        /// # Safety
        /// (1) and (2) of the implementation.
        #[inline(always)]
        unsafe fn merge_columns<const HALF: usize, const MIRROR: usize>(&self) {
            if HALF >= V::LANES {
                return;
            }
            // SAFETY: the caller's promise.
            unsafe {
                for row in 0..self.rows.div_ceil(2) {
                    let opposite = self.rows - 1 - row;
                    let [low, high] = self.row(row).min_max(self.row(opposite).permuted::<MIRROR>());
                    self.set_row(row, Self::merge_lanes::<HALF>(V::blended::<HALF>(low, high)));
                    self.set_row(
                        opposite,
                        Self::merge_lanes::<HALF>(V::blended::<HALF>(high, low).permuted::<MIRROR>()),
                    );
                }
                self.bitonic_merge(self.rows / 2);
            }
        }

        /// Compares and exchanges lanes at all powers of two below `HALF`, the greatest first.
        ///
        /// # Safety
        /// (2) of the implementation.
        #[inline(always)]
        unsafe fn merge_lanes<const HALF: usize>(mut row: V) -> V {
            // SAFETY: the caller's promise.
            unsafe {
                if HALF > 4 {
                    row = Self::exchange_lanes::<4>(row);
                }
                if HALF > 2 {
                    row = Self::exchange_lanes::<2>(row);
                }
                if HALF > 1 {
                    row = Self::exchange_lanes::<1>(row);
                }
            }
            row
        }

        /// Compares and exchanges lanes at `DISTANCE`.
        ///
        /// # Safety
        /// (2) of the implementation.
        #[inline(always)]
        unsafe fn exchange_lanes<const DISTANCE: usize>(row: V) -> V {
            // SAFETY: the caller's promise.
            unsafe {
                let [low, high] = row.min_max(row.permuted::<DISTANCE>());
                V::blended::<DISTANCE>(low, high)
            }
        }

        /// Sorts the matrix by columns, or each lane by itself.
        ///
        /// # Safety
        /// (1) and (2) of the implementation.
        #[inline(always)]
        pub(super) unsafe fn sort(&self, order: Sorted) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut sorted = 1;
                if self.rows >= 8 {
                    for row in (0..self.rows).step_by(8) {
                        let mut rows = self.rows::<8>(row, 1);
                        compare_exchange!(
                            rows: 0 2, 1 3, 4 6, 5 7, 0 4, 1 5, 2 6, 3 7, 0 1, 2 3, 4 5, 6 7,
                            2 4, 3 5, 1 4, 3 6, 1 2, 3 4, 5 6
                        );
                        self.set_rows(row, 1, rows);
                    }
                    sorted = 8;
                }
                while sorted < self.rows {
                    for group in (0..self.rows).step_by(2 * sorted) {
                        for row in 0..sorted {
                            let (row, opposite) = (group + row, group + 2 * sorted - 1 - row);
                            let [low, high] = self.row(row).min_max(self.row(opposite));
                            self.set_row(row, low);
                            self.set_row(opposite, high);
                        }
                    }
                    self.bitonic_merge(sorted / 2);
                    sorted *= 2;
                }
                if order == Sorted::Lanes {
                    return;
                }
                self.merge_columns::<1, 1>();
                self.merge_columns::<2, 3>();
                self.merge_columns::<4, 7>();
                self.merge_columns::<8, 15>();
            }
        }
    }

    /// The numbers of the lanes that [`Vector::permuted`] takes.
    const fn exchanged<const LANES: usize>(distance: usize) -> [u32; LANES] {
        let (mut lanes, mut lane) = ([0; LANES], 0);
        while lane < LANES {
            lanes[lane] = (lane ^ distance) as u32;
            lane += 1;
        }
        lanes
    }

    /// All bits in the lanes whose number has the bit `bit`.
    const fn mask_of<const LANES: usize>(bit: usize) -> [u32; LANES] {
        let (mut mask, mut lane) = ([0; LANES], 0);
        while lane < LANES {
            mask[lane] = if lane & bit != 0 { u32::MAX } else { 0 };
            lane += 1;
        }
        mask
    }

    #[derive(Clone, Copy)]
    pub(super) struct U32x16(__m512i);

    impl Vector for U32x16 {
        type Key = u32;

        #[inline(always)]
        unsafe fn min_max(self, other: Self) -> [Self; 2] {
            // SAFETY: the caller's promise, here and below.
            unsafe { [U32x16(_mm512_min_epu32(self.0, other.0)), U32x16(_mm512_max_epu32(self.0, other.0))] }
        }

        #[inline(always)]
        unsafe fn permuted<const DISTANCE: usize>(self) -> Self {
            let lanes = const { &exchanged::<16>(DISTANCE) };
            // SAFETY: as above; the registers are as wide as the arrays.
            unsafe { U32x16(_mm512_permutexvar_epi32(_mm512_loadu_si512(lanes.as_ptr().cast()), self.0)) }
        }

        #[inline(always)]
        unsafe fn blended<const BIT: usize>(low: Self, high: Self) -> Self {
            let mask = (0..16).filter(|lane| lane & BIT != 0).fold(0, |mask, lane| mask | 1 << lane);
            // SAFETY: as above.
            unsafe { U32x16(_mm512_mask_blend_epi32(mask, low.0, high.0)) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct U64x8(__m512i);

    impl Vector for U64x8 {
        type Key = u64;

        #[inline(always)]
        unsafe fn min_max(self, other: Self) -> [Self; 2] {
            // SAFETY: the caller's promise, here and below.
            unsafe { [U64x8(_mm512_min_epu64(self.0, other.0)), U64x8(_mm512_max_epu64(self.0, other.0))] }
        }

        #[inline(always)]
        unsafe fn permuted<const DISTANCE: usize>(self) -> Self {
            let halves = const { &exchanged::<16>(2 * DISTANCE) };
            // SAFETY: as above; the registers are as wide as the arrays.
            unsafe { U64x8(_mm512_permutexvar_epi32(_mm512_loadu_si512(halves.as_ptr().cast()), self.0)) }
        }

        #[inline(always)]
        unsafe fn blended<const BIT: usize>(low: Self, high: Self) -> Self {
            let mask = (0..8).filter(|lane| lane & BIT != 0).fold(0, |mask, lane| mask | 1 << lane);
            // SAFETY: as above.
            unsafe { U64x8(_mm512_mask_blend_epi64(mask, low.0, high.0)) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct U32x8(__m256i);

    impl Vector for U32x8 {
        type Key = u32;

        #[inline(always)]
        unsafe fn min_max(self, other: Self) -> [Self; 2] {
            // SAFETY: the caller's promise, here and below.
            unsafe { [U32x8(_mm256_min_epu32(self.0, other.0)), U32x8(_mm256_max_epu32(self.0, other.0))] }
        }

        #[inline(always)]
        unsafe fn permuted<const DISTANCE: usize>(self) -> Self {
            let lanes = const { &exchanged::<8>(DISTANCE) };
            // SAFETY: as above; the registers are as wide as the arrays.
            unsafe { U32x8(_mm256_permutevar8x32_epi32(self.0, _mm256_loadu_si256(lanes.as_ptr().cast()))) }
        }

        #[inline(always)]
        unsafe fn blended<const BIT: usize>(low: Self, high: Self) -> Self {
            let mask = const { &mask_of::<8>(BIT) };
            // SAFETY: as above.
            unsafe { U32x8(_mm256_blendv_epi8(low.0, high.0, _mm256_loadu_si256(mask.as_ptr().cast()))) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct U64x4(__m256i);

    impl Vector for U64x4 {
        type Key = u64;

        #[inline(always)]
        unsafe fn min_max(self, other: Self) -> [Self; 2] {
            // SAFETY: the caller's promise, here and below.
            unsafe {
                // AVX2 compares signed words only; the top bits are flipped.
                let top = _mm256_set1_epi64x(i64::MIN);
                let swaps = _mm256_cmpgt_epi64(_mm256_xor_si256(self.0, top), _mm256_xor_si256(other.0, top));
                [
                    U64x4(_mm256_blendv_epi8(self.0, other.0, swaps)),
                    U64x4(_mm256_blendv_epi8(other.0, self.0, swaps)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn permuted<const DISTANCE: usize>(self) -> Self {
            let halves = const { &exchanged::<8>(2 * DISTANCE) };
            // SAFETY: as above; the registers are as wide as the arrays.
            unsafe { U64x4(_mm256_permutevar8x32_epi32(self.0, _mm256_loadu_si256(halves.as_ptr().cast()))) }
        }

        #[inline(always)]
        unsafe fn blended<const BIT: usize>(low: Self, high: Self) -> Self {
            let mask = const { &mask_of::<8>(2 * BIT) };
            // SAFETY: as above.
            unsafe { U64x4(_mm256_blendv_epi8(low.0, high.0, _mm256_loadu_si256(mask.as_ptr().cast()))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts matrices of each power of two of rows, with distinct, repeated and ordered keys.
    fn sorts<K: NetworkKey + Ord + std::fmt::Debug>(key: impl Fn(u64) -> K) {
        let Some(SortingNetwork { lanes, sort, .. }) = K::network() else {
            return println!("skipped: this processor has no network");
        };
        for (rows, kinds) in
            (0..10).flat_map(|bits| [1, 2, 7, 1000, u64::MAX].map(|kinds| (1 << bits, kinds)))
        {
            let mut seed = 1u64;
            let mut keys: Vec<K> = Vec::new();
            keys.resize_with(rows * lanes, || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                key((seed >> 3) % kinds)
            });
            let mut expected = keys.clone();
            expected.sort();
            // SAFETY: the processor has the network, and the matrix has these rows.
            unsafe { sort(keys.as_mut_ptr(), rows, Sorted::Columns) };
            let columns: Vec<K> = (0..keys.len()).map(|i| keys[i % rows * lanes + i / rows]).collect();
            assert_eq!(columns, expected, "{rows} rows");
        }
    }

    /// Sorts the lanes of matrices one by one.
    fn sorts_lanes<K: NetworkKey + Ord + std::fmt::Debug>(key: impl Fn(u64) -> K) {
        let Some(SortingNetwork { lanes, sort, .. }) = K::network() else {
            return println!("skipped: this processor has no network");
        };
        for rows in (0..8).map(|bits| 1 << bits) {
            let mut keys: Vec<K> = (0..rows * lanes).map(|i| key(i as u64 * 7919 % 1009)).collect();
            let lane = |keys: &[K], lane: usize| keys.iter().skip(lane).step_by(lanes).copied().collect();
            let before: Vec<Vec<K>> = (0..lanes).map(|k| lane(&keys, k)).collect();
            // SAFETY: the processor has the network, and the matrix has these rows.
            unsafe { sort(keys.as_mut_ptr(), rows, Sorted::Lanes) };
            for (k, mut expected) in before.into_iter().enumerate() {
                expected.sort();
                assert_eq!(lane(&keys, k), expected, "lane {k} of {rows} rows");
            }
        }
    }

    #[test]
    fn matrices_are_sorted_by_lanes() {
        sorts_lanes(|n| n);
        sorts_lanes(|n| n as u32);
    }

    #[test]
    fn matrices_are_sorted_by_columns() {
        sorts(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        sorts(|n| (n as u32).wrapping_mul(0x9e37_79b9));
    }
}
