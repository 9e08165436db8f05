//! Run-time dispatch over instruction sets. The same loop is compiled for several of them, and the processor
//! runs the widest copy that it supports, or the copy that suits it better.
//!
//! A loop is plain Rust, and the compiler vectorizes it; only the permitted instructions differ between its
//! copies. Architectures other than x86-64 use the features of the compilation target (NEON is part of every
//! 64-bit ARM). Unoptimized builds (`rankform_unoptimized`, set by `build.rs`) vectorize nothing, and one
//! copy serves every level.
// Imports: nothing.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable that limits the instruction set to `avx2` or `baseline`, for comparisons and
/// tests.
#[cfg(target_arch = "x86_64")]
const LIMIT: &str = "RANKFORM_SIMD";

/// A loop that is compiled once for each instruction set.
pub(crate) trait Loop {
    /// The result.
    type Output;
    /// The loop, inlined into each of its copies.
    fn run(self) -> Self::Output;
    /// The loop for x86-64 processors without AVX2, if it differs: a version of few instructions.
    #[cfg_attr(any(rankform_unoptimized, not(target_arch = "x86_64")), allow(dead_code))]
    #[inline(always)]
    fn run_scalar(self) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
}

/// Runs the copy of a loop for the level of this processor.
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
        // SAFETY: `level` detected every feature that the function is compiled for.
        Level::Avx512 => unsafe { avx512(body) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(body) },
        Level::Baseline => body.run_scalar(),
    }
}

/// As [`dispatch`], for memory-bound loops and for loops that do little at a time. They have copies for AVX2
/// and for the baseline of the target only.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline]
pub(crate) fn dispatch_up_to_avx2<L: Loop>(body: L) -> L::Output {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(body: L) -> L::Output {
        body.run()
    }
    match level() {
        Level::Baseline => body.run_scalar(),
        // SAFETY: `level` detected every feature that the function is compiled for.
        _ => unsafe { avx2(body) },
    }
}

#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) fn dispatch_up_to_avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// A loop whose arguments are a few machine words. They stay in registers, and the choice of a copy compiles
/// to a jump.
pub(crate) trait LoopCall<A, B, C> {
    /// Whether the loop has a copy for AVX-512. A loop without one is not called at that level.
    #[cfg_attr(any(rankform_unoptimized, not(target_arch = "x86_64")), allow(dead_code))]
    const HAS_AVX512: bool;
    /// The loop, inlined into each of its copies. `wide` says whether it may use AVX-512. `SCALAR` selects
    /// the version of [`Loop::run_scalar`].
    ///
    /// # Safety
    /// The implementation states the obligations of its caller.
    unsafe fn call<const SCALAR: bool>(wide: bool, a: A, m: usize, n: usize, b: B, c: C);
}

/// The copy of a loop for AVX-512.
///
/// # Safety
/// 1. The caller keeps the obligations of the loop.
/// 2. The processor supports AVX-512.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
unsafe fn avx512_copy<L: LoopCall<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
    // SAFETY: (1) by the caller's promise.
    unsafe { L::call::<false>(true, a, m, n, b, c) }
}

/// The copy of a loop for AVX2.
///
/// # Safety
/// 1. The caller keeps the obligations of the loop.
/// 2. The processor supports AVX2.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
unsafe fn avx2_copy<L: LoopCall<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
    // SAFETY: (1) by the caller's promise.
    unsafe { L::call::<false>(false, a, m, n, b, c) }
}

/// The copy of a loop for every processor.
///
/// # Safety
/// The caller keeps the obligations of the loop.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline(never)] // otherwise the paths to the other copies would save its registers
unsafe fn baseline_copy<L: LoopCall<A, B, C>, A, B, C>(a: A, m: usize, n: usize, b: B, c: C) {
    // SAFETY: by the caller's promise.
    unsafe { L::call::<true>(false, a, m, n, b, c) }
}

/// Runs the copy of a loop for `level`.
///
/// # Safety
/// 1. The caller keeps the obligations of the loop.
/// 2. The processor supports `level`.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline(always)]
pub(crate) unsafe fn dispatch_call<L: LoopCall<A, B, C>, A, B, C>(
    level: Level,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    match level {
        Level::Avx512 if const { !L::HAS_AVX512 } => unreachable!("a loop that is called by AVX2 at most"),
        // SAFETY: (1) by the caller's promise; (2) the processor supports this level.
        Level::Avx512 => unsafe { avx512_copy::<L, A, B, C>(a, m, n, b, c) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2_copy::<L, A, B, C>(a, m, n, b, c) },
        // SAFETY: (1) by the caller's promise; every processor supports the baseline.
        Level::Baseline => unsafe { baseline_copy::<L, A, B, C>(a, m, n, b, c) },
    }
}

/// Runs a loop inside of another one, in the copy that the other one is. It is a function of its own.
///
/// # Safety
/// 1. The caller keeps the obligations of the loop.
/// 2. `wide` and `SCALAR` are those of the caller's copy.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline(always)]
pub(crate) unsafe fn call_inner<L: LoopCall<A, B, C>, A, B, C, const SCALAR: bool>(
    wide: bool,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    // SAFETY: (1) by the caller's promise; (2) the processor runs this copy of the caller.
    unsafe {
        if SCALAR {
            baseline_copy::<L, A, B, C>(a, m, n, b, c);
        } else if wide {
            avx512_copy::<L, A, B, C>(a, m, n, b, c);
        } else {
            avx2_copy::<L, A, B, C>(a, m, n, b, c);
        }
    }
}

/// Runs the only copy of a loop.
///
/// # Safety
/// The caller keeps the obligations of the loop.
#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) unsafe fn call_inner<L: LoopCall<A, B, C>, A, B, C, const SCALAR: bool>(
    _: bool,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    // SAFETY: by the caller's promise.
    unsafe { L::call::<SCALAR>(false, a, m, n, b, c) }
}

/// Runs the only copy of a loop.
///
/// # Safety
/// The caller keeps the obligations of the loop.
#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) unsafe fn dispatch_call<L: LoopCall<A, B, C>, A, B, C>(
    _: Level,
    a: A,
    m: usize,
    n: usize,
    b: B,
    c: C,
) {
    // SAFETY: by the caller's promise.
    unsafe { L::call::<false>(false, a, m, n, b, c) }
}

#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(crate) fn dispatch<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// The instruction sets that loops are compiled for.
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

/// The level, reduced to AVX2 at most.
#[inline(always)]
pub(crate) fn at_most_avx2(level: Level) -> Level {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        return Level::Avx2;
    }
    level
}

/// The level that this processor supports and the environment allows. It is detected once.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn level() -> Level {
    // 0 means not yet detected. If two threads detect it at once, both find the same level.
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

/// Whether Intel made the processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_intel() -> bool {
    #[cfg(not(miri))]
    {
        static IS_INTEL: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            let name = std::arch::x86_64::__cpuid(0);
            [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
        });
        *IS_INTEL
    }
    #[cfg(miri)]
    false
}
