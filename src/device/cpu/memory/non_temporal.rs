//! Non-temporal stores, which write memory without taking its cache lines into the caches.
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

/// Whether an output is written by non-temporal stores: it exceeds the caches, and either this processor is faster so or
/// enough threads write that memory limits them.
pub(crate) fn pays_off(sizes: &[usize], output: &OperandRef<'_>) -> bool {
    exceeds_caches(sizes, output)
        && (parallel::count() >= tuning::MANY_WRITERS_THREADS || tuning::prefers_non_temporal())
}

/// Copies bytes past the caches: for outputs larger than these, which would otherwise be read before they are written.
///
/// Whoever reads them on another thread must be ordered after a [`fence`].
///
/// # Safety
/// As `copy_nonoverlapping`.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, nbytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_and_prefetch(to, from, nbytes, &[]) }
}

/// As [`copy`]; meanwhile memory that is read next is fetched, as many bytes at each address of `ahead`.
///
/// # Safety
/// As [`copy`]; what is `ahead` need not be there.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
pub(crate) unsafe fn copy_and_prefetch(to: *mut u8, from: *const u8, nbytes: usize, ahead: &[*mut u8]) {
    use std::arch::x86_64::*;
    // By 256 bits where the processor has them: by 128, four stores a line keep the next computation waiting (Zen 5, 4096²,
    // one thread: exp 4.0 → 3.3 ms, a + row 4.1 → 3.1). By 512 nothing more is gained.
    #[target_feature(enable = "avx")]
    unsafe fn by_256(to: *mut u8, from: *const u8, nbytes: usize, ahead: &[*mut u8]) {
        // SAFETY: the caller's promise; each line is aligned.
        unsafe { by_lines(to, from, nbytes, ahead, |to, from| copy_line(false, to, from)) }
    }
    // SAFETY: the caller's promise, and the processor has the instructions; quarters of a line, of which the first is
    // aligned to it.
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

/// As [`copy_and_prefetch`], a whole line of 64 bytes by `stream`, whose first address is aligned to it.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
#[inline(always)]
unsafe fn by_lines(
    to: *mut u8,
    from: *const u8,
    nbytes: usize,
    ahead: &[*mut u8],
    stream: impl Fn(*mut u8, *const u8),
) {
    let head = to.align_offset(64).min(nbytes);
    let lines = (nbytes - head) / 64;
    // SAFETY: inside both runs of bytes; a hint faults nowhere.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (mut to, mut from) = (to.add(head), from.add(head));
        for line in 0..lines {
            for ahead in ahead {
                prefetch::into_l1(ahead.wrapping_add(64 * line), 64);
            }
            stream(to, from);
            (to, from) = (to.add(64), from.add(64));
        }
        std::ptr::copy_nonoverlapping(from, to, nbytes - head - lines * 64);
    }
}

/// Copies a line of 64 bytes past the caches, at once if that is `wide`: between computing chunks of a line or more, half as many stores
/// leave room for what is read (Sapphire Rapids, add 4096²: 8.2 → 7.4 ms). For code that is compiled for AVX2, or for AVX-512.
///
/// # Safety
/// As [`copy`]; `to` is aligned to a line, and the processor has AVX, and AVX-512 if this is `wide`.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
#[inline(always)]
pub(crate) unsafe fn copy_line(wide: bool, to: *mut u8, from: *const u8) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise; a line, or both halves of one.
    unsafe {
        if wide {
            return _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast()));
        }
        _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast()));
        _mm256_stream_si256(to.add(32).cast(), _mm256_loadu_si256(from.add(32).cast()));
    }
}

/// Orders what was streamed before what this thread does next.
#[cfg(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores))))]
pub(crate) fn fence() {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// As on x86-64, with common stores: also where a checker follows memory (Miri, and MemorySanitizer by `.ci/sanitize`), since
/// stores past the caches are assembly that it does not see.
///
/// # Safety
/// As [`copy`].
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) unsafe fn copy_and_prefetch(to: *mut u8, from: *const u8, nbytes: usize, _ahead: &[*mut u8]) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, nbytes) }
}

/// As on x86-64, with common stores.
///
/// # Safety
/// As [`copy`].
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) unsafe fn copy_line(_wide: bool, to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, 64) }
}

/// Common stores are in order.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rankform_plain_stores)))))]
pub(crate) fn fence() {}
