//! Non-temporal stores: they write memory without allocating its lines in the caches.
// Imports: `device`.

#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
use super::prefetch;
use crate::device::OperandRef;
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
use crate::device::cpu::isa;
use crate::device::cpu::{parallel, tuning};

/// Whether an output of `sizes` is larger than the caches.
pub(crate) fn exceeds_caches(sizes: &[usize], output: &OperandRef<'_>) -> bool {
    let nbytes = sizes.iter().fold(output.element, |product, &size| product.saturating_mul(size));
    nbytes >= tuning::UNCACHED_OUTPUT_BYTES
}

/// Whether non-temporal stores pay off for an output: it exceeds the caches, and either they are faster on
/// this processor or the number of writing threads makes memory the limit. Each engine decides for its own
/// outputs, programs in `elementwise::choose`.
pub(crate) fn pays_off(sizes: &[usize], output: &OperandRef<'_>) -> bool {
    exceeds_caches(sizes, output)
        && (parallel::count() >= tuning::MANY_WRITERS_THREADS || tuning::prefers_non_temporal())
}

/// Copies bytes by non-temporal stores. It is meant for outputs larger than the caches: an ordinary store
/// would first read the line that it writes.
///
/// Before another thread reads the bytes, this thread must call [`fence`].
///
/// # Safety
/// As for `copy_nonoverlapping`.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, nbytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { copy_and_prefetch(to, from, nbytes, &[]) }
}

/// As [`copy`], and prefetches as many bytes at each address of `ahead`.
///
/// # Safety
/// As for [`copy`]. The addresses of `ahead` may be any.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
pub(crate) unsafe fn copy_and_prefetch(to: *mut u8, from: *const u8, nbytes: usize, ahead: &[*mut u8]) {
    use std::arch::x86_64::*;
    /// 256-bit stores, where the processor supports them. With 128-bit stores a cache line takes four, and
    /// they delay the computation that follows; 512-bit stores are not faster here.
    ///
    /// # Safety
    /// As for [`copy`]; the processor has AVX.
    #[target_feature(enable = "avx")]
    unsafe fn by_256(to: *mut u8, from: *const u8, nbytes: usize, ahead: &[*mut u8]) {
        // SAFETY: by the caller's promise; `by_lines` passes aligned lines.
        unsafe { by_lines(to, from, nbytes, ahead, |to, from| copy_line(false, to, from)) }
    }
    // SAFETY: by the caller's promise, and the processor has the instructions. A line has four quarters, and
    // the first is aligned to the line.
    unsafe {
        if isa::level() >= isa::Level::Avx2 {
            return by_256(to, from, nbytes, ahead);
        }
        by_lines(to, from, nbytes, ahead, |to, from| {
            for part in 0..4 {
                _mm_stream_si128(
                    to.cast::<__m128i>().add(part),
                    _mm_loadu_si128(from.cast::<__m128i>().add(part)),
                );
            }
        });
    }
}

/// The body of [`copy_and_prefetch`]. `store_line` stores one whole cache line of 64 bytes at an aligned
/// address.
///
/// # Safety
/// As for [`copy`].
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
#[inline(always)]
unsafe fn by_lines(
    to: *mut u8,
    from: *const u8,
    nbytes: usize,
    ahead: &[*mut u8],
    store_line: impl Fn(*mut u8, *const u8),
) {
    let head = to.align_offset(64).min(nbytes);
    let lines = (nbytes - head) / 64;
    // SAFETY: every access is inside both ranges of bytes; a prefetch hint never faults.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (mut to, mut from) = (to.add(head), from.add(head));
        for line in 0..lines {
            for ahead in ahead {
                prefetch::into_l1(ahead.wrapping_add(64 * line), 64);
            }
            store_line(to, from);
            (to, from) = (to.add(64), from.add(64));
        }
        std::ptr::copy_nonoverlapping(from, to, nbytes - head - lines * 64);
    }
}

/// Copies a cache line of 64 bytes by non-temporal stores: by one store if `wide`, otherwise by two. One
/// store for each line leaves more room for loads, where computing alternates with storing of a line or more.
/// It is inlined into code that is compiled for AVX2 or AVX-512.
///
/// # Safety
/// 1. As for [`copy`], for 64 bytes.
/// 2. `to` is aligned to 64 bytes.
/// 3. The processor has AVX, and AVX-512 if `wide`.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
#[inline(always)]
pub(crate) unsafe fn copy_line(wide: bool, to: *mut u8, from: *const u8) {
    use std::arch::x86_64::*;
    // SAFETY: (1), (2), (3) by the caller's promise; the stores cover one line, or both halves of one.
    unsafe {
        if wide {
            return _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast()));
        }
        _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast()));
        _mm256_stream_si256(to.add(32).cast(), _mm256_loadu_si256(from.add(32).cast()));
    }
}

/// Orders earlier non-temporal stores before later operations of this thread.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
pub(crate) fn fence() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// As on x86-64, with ordinary stores. Checkers of memory accesses use it too (Miri, and MemorySanitizer in
/// `.ci/sanitize`), because they do not see non-temporal stores.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) unsafe fn copy_and_prefetch(to: *mut u8, from: *const u8, nbytes: usize, _ahead: &[*mut u8]) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, nbytes) }
}

/// As on x86-64, with ordinary stores.
///
/// # Safety
/// As for [`copy`], for 64 bytes.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) unsafe fn copy_line(_wide: bool, to: *mut u8, from: *const u8) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, 64) }
}

/// Ordinary stores are ordered already.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) fn fence() {}
