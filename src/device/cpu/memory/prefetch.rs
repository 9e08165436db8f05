//! Prefetch hints: they ask for memory that a loop reads soon.
//!
//! A hint reads nothing and never faults, so its address may be any.
// Imports: nothing.

/// Prefetches `nbytes` bytes from `at` on into L1.
#[inline(always)]
pub(crate) fn into_l1(at: *const u8, nbytes: usize) {
    hint::<true>(at, nbytes);
}

/// Prefetches `nbytes` bytes from `at` on into L2, for a loop that reads them some KiB later.
#[inline(always)]
pub(crate) fn into_l2(at: *const u8, nbytes: usize) {
    hint::<false>(at, nbytes);
}

/// One hint for each cache line. Only x86-64 has them here; Miri does not know the instruction.
#[inline(always)]
fn hint<const L1: bool>(at: *const u8, nbytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..nbytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let line = at.wrapping_add(line).cast();
        // SAFETY: a hint is valid for any address; every x86-64 processor has the instruction.
        unsafe { if L1 { _mm_prefetch::<_MM_HINT_T0>(line) } else { _mm_prefetch::<_MM_HINT_T1>(line) } };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (at, nbytes);
}
