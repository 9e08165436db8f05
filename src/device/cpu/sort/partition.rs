//! Partition of keys by a pivot, a vector at a time (AVX-512).
//!
//! A vector is compressed twice: its keys below the pivot go to the front, the others to the back. The first
//! and the last vectors are set aside, which makes room for both.
// Imports: nothing.

use std::arch::x86_64::*;

/// Vectors that are read together from one side.
const GROUP: usize = 4;

/// Keys that are partitioned in vectors of 512 bits. A mask has a bit for each lane of a vector.
///
/// # Safety of its functions
/// 1. The processor has AVX-512F.   2. The keys of the mask's lanes are at the address.
pub(super) trait VectorKey: Copy {
    /// Keys in a vector.
    const LANES: usize = size_of::<__m512i>() / size_of::<Self>();
    /// The key in every lane.
    ///
    /// # Safety
    /// (1) of the trait.
    unsafe fn broadcast(self) -> __m512i;
    /// The keys of the mask's lanes.
    ///
    /// # Safety
    /// (1) and (2) of the trait.
    unsafe fn load(mask: u32, keys: *const Self) -> __m512i;
    /// The lanes of the mask whose keys are below those of `limit`.
    ///
    /// # Safety
    /// (1) of the trait.
    unsafe fn below(mask: u32, vector: __m512i, limit: __m512i) -> u32;
    /// Writes as many keys as the mask has lanes: those of the lanes of `of`, one after another.
    ///
    /// # Safety
    /// (1) and (2) of the trait.
    unsafe fn store_compressed(mask: u32, keys: *mut Self, of: u32, vector: __m512i);
}

impl VectorKey for u32 {
    #[inline(always)]
    unsafe fn broadcast(self) -> __m512i {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm512_set1_epi32(self as i32) }
    }
    #[inline(always)]
    unsafe fn load(mask: u32, keys: *const u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi32(mask as u16, keys.cast()) }
    }
    #[inline(always)]
    unsafe fn below(mask: u32, vector: __m512i, limit: __m512i) -> u32 {
        // SAFETY: as above.
        unsafe { u32::from(_mm512_mask_cmplt_epu32_mask(mask as u16, vector, limit)) }
    }
    #[inline(always)]
    unsafe fn store_compressed(mask: u32, keys: *mut u32, of: u32, vector: __m512i) {
        // SAFETY: as above.
        unsafe {
            _mm512_mask_storeu_epi32(
                keys.cast(),
                mask as u16,
                _mm512_maskz_compress_epi32(of as u16, vector),
            );
        }
    }
}

impl VectorKey for u64 {
    #[inline(always)]
    unsafe fn broadcast(self) -> __m512i {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm512_set1_epi64(self as i64) }
    }
    #[inline(always)]
    unsafe fn load(mask: u32, keys: *const u64) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi64(mask as u8, keys.cast()) }
    }
    #[inline(always)]
    unsafe fn below(mask: u32, vector: __m512i, limit: __m512i) -> u32 {
        // SAFETY: as above.
        unsafe { u32::from(_mm512_mask_cmplt_epu64_mask(mask as u8, vector, limit)) }
    }
    #[inline(always)]
    unsafe fn store_compressed(mask: u32, keys: *mut u64, of: u32, vector: __m512i) {
        // SAFETY: as above.
        unsafe {
            _mm512_mask_storeu_epi64(keys.cast(), mask as u8, _mm512_maskz_compress_epi64(of as u8, vector));
        }
    }
}

/// See [`Partition`](super::bitonic::Partition).
///
/// # Safety
/// 1. There are `n` keys at `keys`.
/// 2. The processor has AVX-512F.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) unsafe fn by_vectors<K: VectorKey>(keys: *mut K, n: usize, pivot: K) -> usize {
    // SAFETY: (2).
    let (limit, nothing) = unsafe { (pivot.broadcast(), _mm512_setzero_si512()) };
    let lanes = |n: usize| (1u32 << n) - 1;
    // The results so far are `..front` and `back..`.
    let (mut front, mut back) = (0, n);
    let mut put = |vector: __m512i, of: u32| {
        // SAFETY: (1): as many keys as are written have been read on either side; (2).
        unsafe {
            let low = K::below(of, vector, limit);
            let high = of & !low;
            let (below, above) = (low.count_ones() as usize, high.count_ones() as usize);
            K::store_compressed(lanes(below), keys.add(front), low, vector);
            front += below;
            back -= above;
            K::store_compressed(lanes(above), keys.add(back), high, vector);
        }
        [front, back]
    };
    if n < 2 * K::LANES {
        let first = n.min(K::LANES);
        // SAFETY: (1), (2).
        let [a, b] =
            unsafe { [K::load(lanes(first), keys), K::load(lanes(n - first), keys.wrapping_add(first))] };
        put(a, lanes(first));
        return put(b, lanes(n - first))[0];
    }
    // As many vectors as fit are set aside at each end, and read together from one side.
    let group = if n < 2 * GROUP * K::LANES { 1 } else { GROUP };
    let mut unread = Unread { left: group * K::LANES, right: n - group * K::LANES };
    let mut aside = [nothing; 2 * GROUP];
    for k in 0..group {
        // SAFETY: (1): the vectors are inside the keys, here and below.
        unsafe {
            aside[2 * k] = _mm512_loadu_si512(keys.add(k * K::LANES).cast());
            aside[2 * k + 1] = _mm512_loadu_si512(keys.add(unread.right + k * K::LANES).cast());
        }
    }
    let mut ends = [0, n];
    while group == GROUP && unread.len() >= GROUP * K::LANES {
        let at = unread.take(GROUP * K::LANES, ends);
        let mut vectors = [nothing; GROUP];
        for (k, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: (1).
            *vector = unsafe { _mm512_loadu_si512(keys.add(at + k * K::LANES).cast()) };
        }
        for vector in vectors {
            ends = put(vector, lanes(K::LANES));
        }
    }
    while unread.len() >= K::LANES {
        let at = unread.take(K::LANES, ends);
        // SAFETY: (1).
        let vector = unsafe { _mm512_loadu_si512(keys.add(at).cast()) };
        ends = put(vector, lanes(K::LANES));
    }
    // SAFETY: (1), (2).
    let rest = unsafe { K::load(lanes(unread.len()), keys.add(unread.left)) };
    ends = put(rest, lanes(unread.len()));
    for &vector in &aside[..2 * group] {
        ends = put(vector, lanes(K::LANES));
    }
    ends[0]
}

/// The keys `left..right` that a partition has not read yet.
struct Unread {
    left: usize,
    right: usize,
}

impl Unread {
    #[inline(always)]
    fn len(&self) -> usize {
        self.right - self.left
    }

    /// Takes `count` keys from the side with less room, so that both have room for them; returns the position
    /// of the first. `..front` and `back..` are written.
    #[inline(always)]
    fn take(&mut self, count: usize, [front, back]: [usize; 2]) -> usize {
        // Without branches: the side cannot be predicted.
        let is_left = self.left - front <= back - self.right;
        let at = if is_left { self.left } else { self.right - count };
        self.left += if is_left { count } else { 0 };
        self.right -= if is_left { 0 } else { count };
        at
    }
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
