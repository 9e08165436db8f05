//! Run-time dispatch: the same loop, compiled for several instruction sets, and the widest one that this processor has, or
//! one that suits it better.
//!
//! The loop is plain Rust and the compiler vectorizes it; only the instructions that it may use change. On other
//! architectures than x86-64 the target's own features are used (NEON is part of every 64-bit ARM), and in builds that are not
//! optimized (`rankform_unoptimized`, of `build.rs`), in which nothing is vectorized: one copy serves every level.
// Imports: nothing.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// The variable of the environment that keeps to narrower instructions: `avx2` or `baseline`. For comparisons and tests.
#[cfg(target_arch = "x86_64")]
const LIMIT: &str = "RANKFORM_SIMD";

/// A loop that is compiled once for each instruction set.
pub(crate) trait Loop {
    /// What it returns.
    type Output;
    /// The loop, inlined into each of its copies.
    fn run(self) -> Self::Output;
    /// The loop for processors of x86-64 without AVX2, where that is another: one of few instructions.
    #[cfg_attr(any(rankform_unoptimized, not(target_arch = "x86_64")), allow(dead_code))]
    #[inline(always)]
    fn run_plain(self) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
}

#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline]
pub(crate) fn dispatch<L: Loop>(body: L) -> L::Output {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    fn avx512<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    match level() {
        // SAFETY: `level` found every feature that the function is compiled for.
        Level::Avx512 => unsafe { avx512(body) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(body) },
        Level::Baseline => body.run_plain(),
    }
}

/// As [`dispatch`], for loops that are called only where the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn dispatch_from_avx2<L: Loop>(body: L) -> L::Output {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    fn avx512<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    match level() {
        // SAFETY: `level` found every feature that the function is compiled for.
        Level::Avx512 => unsafe { avx512(body) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(body) },
        Level::Baseline => unreachable!("a loop for wider instructions"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn dispatch_from_avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// As [`dispatch`], for loops that wait for memory or do little at a time: copies for AVX2 and for the target's own features alone.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline]
pub(crate) fn dispatch_up_to_avx2<L: Loop>(body: L) -> L::Output {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    match level() {
        Level::Baseline => body.run_plain(),
        // SAFETY: `level` found every feature that the function is compiled for.
        _ => unsafe { avx2(body) },
    }
}

#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) fn dispatch_up_to_avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// A loop with few words for arguments, which stay in registers on the way to it: the choice of its copy is then a jump.
pub(crate) trait Call<A, B, C> {
    /// Whether it has a copy for AVX-512; without one it is not called at that level.
    #[cfg_attr(any(rankform_unoptimized, not(target_arch = "x86_64")), allow(dead_code))]
    const HAS_AVX512: bool;
    /// The loop, inlined into each of its copies; see [`Loop::run_plain`]. It is `wide` where it may use AVX-512.
    ///
    /// # Safety
    /// As it says.
    unsafe fn call<const PLAIN: bool>(wide: bool, a: A, m: usize, n: usize, b: B, c: C);
}

/// # Safety
/// That of the loop; the processor has what `level` stands for.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline(always)]
pub(crate) unsafe fn dispatch_call<L: Call<A, B, C>, A, B, C>(
    level: Level,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    unsafe fn avx512<L: Call<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
        // SAFETY: the caller's promise.
        unsafe { L::call::<false>(true, a, m, n, b, c) }
    }
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    unsafe fn avx2<L: Call<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
        // SAFETY: the caller's promise.
        unsafe { L::call::<false>(false, a, m, n, b, c) }
    }
    #[inline(never)] // else its registers would be saved on the way to the others
    unsafe fn baseline<L: Call<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
        // SAFETY: the caller's promise.
        unsafe { L::call::<true>(false, a, m, n, b, c) }
    }
    match level {
        Level::Avx512 if const { !L::HAS_AVX512 } => unreachable!("a loop that is called by AVX2 at most"),
        // SAFETY: the caller's promise.
        Level::Avx512 => unsafe { avx512::<L, A, B, C>(a, m, n, b, c) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2::<L, A, B, C>(a, m, n, b, c) },
        // SAFETY: the caller's promise.
        Level::Baseline => unsafe { baseline::<L, A, B, C>(a, m, n, b, c) },
    }
}

/// # Safety
/// That of the loop.
#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) unsafe fn dispatch_call<L: Call<A, B, C>, A, B, C>(
    _: Level,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    // SAFETY: the caller's promise.
    unsafe { L::call::<false>(false, a, m, n, b, c) }
}

#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) fn dispatch<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// Instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest level of this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn level() -> Level {
    Level::Baseline
}

/// The level, without AVX-512.
#[inline(always)]
pub(crate) fn at_most_avx2(level: Level) -> Level {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        return Level::Avx2;
    }
    level
}

/// What this processor has and the environment allows, found once.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn level() -> Level {
    // 0: not yet known. Two threads that find it both find the same.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => {
            let level = find();
            KNOWN.store(level as u8 + 1, Ordering::Relaxed);
            level
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn find() -> Level {
    macro_rules! has {
        ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
    }
    if cfg!(miri) {
        return Level::Baseline;
    }
    let allowed = match std::env::var_os(LIMIT) {
        Some(limit) if limit == "baseline" => Level::Baseline,
        Some(limit) if limit == "avx2" => Level::Avx2,
        _ => Level::Avx512,
    };
    let avx2 = allowed >= Level::Avx2 && has!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt" "f16c");
    if avx2 && allowed >= Level::Avx512 && has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
        Level::Avx512
    } else if avx2 {
        Level::Avx2
    } else {
        Level::Baseline
    }
}

/// Whether the processor is one of Intel.
pub(crate) fn is_intel() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        static IS_INTEL: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            let name = std::arch::x86_64::__cpuid(0);
            [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
        });
        *IS_INTEL
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

// Former names, until the engines use the new ones.
pub(crate) use super::memory::prefetch::{into_l1 as fetch, into_l2 as fetch_early};
#[cfg(target_arch = "x86_64")]
pub(crate) use super::tuning::prefers_bf16_dot as multiplies_pairs;
pub(crate) use super::tuning::{is_worth_prefetching as follows, l2_prefetch_bytes as early};
#[allow(unused_imports)]
pub(crate) use dispatch_from_avx2 as dispatch_wide;
pub(crate) use dispatch_up_to_avx2 as dispatch_two;
