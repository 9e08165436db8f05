//! Partition of keys by a pivot, a vector at a time (AVX-512).
//!
//! A vector is compressed twice: its keys below the pivot go to the front, the others to the back. The first
//! and the last vectors are set aside, which makes room for both.
// Imports: nothing.

use std::arch::x86_64::*;

/// Vectors that are read together from one side.
const GROUP: usize = 4;

macro_rules! partitions {
    ($($name:ident: $key:ty, $lanes:literal, $mask:ty, $broadcast:ident, $load:ident, $load_some:ident,
        $below:ident, $compress:ident, $store:ident;)*) => { $(
        /// See [`Partition`](super::bitonic::Partition).
        ///
        /// # Safety
        /// 1. There are `n` keys at `keys`.
        /// 2. The processor has AVX-512F.
        #[target_feature(enable = "avx512f,popcnt")]
        pub(super) unsafe fn $name(keys: *mut $key, n: usize, pivot: $key) -> usize {
            const LANES: usize = $lanes;
            let limit = $broadcast(pivot as _);
            let some = |n: usize| (((1u32 << n) - 1) & ((1u64 << LANES) - 1) as u32) as $mask;
            // The results so far are `..front` and `back..`; the keys of `left..right` are not read yet.
            let (mut front, mut back) = (0, n);
            let mut put = |vector: __m512i, of: $mask| {
                let low = $below(of, vector, limit);
                let high = of & !low;
                let (below, above) = (low.count_ones() as usize, high.count_ones() as usize);
                // SAFETY: (1): as many keys as are written have been read on either side.
                unsafe {
                    $store(keys.add(front).cast(), some(below), $compress(low, vector));
                    front += below;
                    back -= above;
                    $store(keys.add(back).cast(), some(above), $compress(high, vector));
                }
                [front, back]
            };
            if n < 2 * LANES {
                let first = n.min(LANES);
                // SAFETY: (1).
                let [a, b] = unsafe {
                    [
                        $load_some(some(first), keys.cast()),
                        $load_some(some(n - first), keys.wrapping_add(first).cast()),
                    ]
                };
                put(a, some(first));
                return put(b, some(n - first))[0];
            }
            // As many vectors as fit are set aside at each end, and read together from one side: whether the
            // left or the right one is next cannot be predicted.
            let group = if n < 2 * GROUP * LANES { 1 } else { GROUP };
            let (mut left, mut right) = (group * LANES, n - group * LANES);
            let mut aside = [$broadcast(0); 2 * GROUP];
            for k in 0..group {
                // SAFETY: (1): the vectors are inside the keys, here and below.
                unsafe {
                    aside[2 * k] = $load(keys.add(k * LANES).cast());
                    aside[2 * k + 1] = $load(keys.add(right + k * LANES).cast());
                }
            }
            let [mut low_end, mut high_end] = [0, n];
            while group == GROUP && right - left >= GROUP * LANES {
                // The side with less room is read, so that both have room for the vectors.
                let is_left = left - low_end <= high_end - right;
                let at = if is_left { left } else { right - GROUP * LANES };
                left += if is_left { GROUP * LANES } else { 0 };
                right -= if is_left { 0 } else { GROUP * LANES };
                let mut vectors = [$broadcast(0); GROUP];
                for (k, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: (1).
                    *vector = unsafe { $load(keys.add(at + k * LANES).cast()) };
                }
                for vector in vectors {
                    [low_end, high_end] = put(vector, some(LANES));
                }
            }
            while right - left >= LANES {
                let is_left = left - low_end <= high_end - right;
                let at = if is_left { left } else { right - LANES };
                left += if is_left { LANES } else { 0 };
                right -= if is_left { 0 } else { LANES };
                // SAFETY: (1).
                let vector = unsafe { $load(keys.add(at).cast()) };
                [low_end, high_end] = put(vector, some(LANES));
            }
            // SAFETY: (1).
            let rest = unsafe { $load_some(some(right - left), keys.add(left).cast()) };
            let mut ends = put(rest, some(right - left));
            for &vector in &aside[..2 * group] {
                ends = put(vector, some(LANES));
            }
            ends[0]
        }
    )* };
}
partitions! {
    u32x16: u32, 16, __mmask16, _mm512_set1_epi32, _mm512_loadu_si512, _mm512_maskz_loadu_epi32,
        _mm512_mask_cmplt_epu32_mask, _mm512_maskz_compress_epi32, _mm512_mask_storeu_epi32;
    u64x8: u64, 8, __mmask8, _mm512_set1_epi64, _mm512_loadu_si512, _mm512_maskz_loadu_epi64,
        _mm512_mask_cmplt_epu64_mask, _mm512_maskz_compress_epi64, _mm512_mask_storeu_epi64;
}

#[cfg(test)]
mod tests {
    use super::super::bitonic::NetworkKey;

    fn partitions<K: NetworkKey + Ord + std::fmt::Debug>(key: impl Fn(u64) -> K) {
        let Some(partition) = K::network().and_then(|network| network.partition) else {
            return println!("skipped: this processor has no partition by vectors");
        };
        for n in (0..300).chain([1000, 1003]) {
            let keys: Vec<K> = (0..n).map(|i| key(i * 7919 % 101)).collect();
            for pivot in [0, 1, 50, 100, 101] {
                let (pivot, mut found) = (key(pivot), keys.clone());
                // SAFETY: there are `n` keys.
                let below = unsafe { partition(found.as_mut_ptr(), found.len(), pivot) };
                assert!(found[..below].iter().all(|&key| key < pivot), "{n} keys, below {pivot:?}");
                assert!(found[below..].iter().all(|&key| key >= pivot), "{n} keys, above {pivot:?}");
                let mut expected = keys.clone();
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{n} keys, the same ones");
            }
        }
    }

    #[test]
    fn keys_below_a_pivot_come_first() {
        partitions(|n| n);
        partitions(|n| n as u32 + (1 << 31));
        partitions(|n| n << 40);
    }
}
