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
pub(super) trait Loop {
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
pub(super) fn dispatch<L: Loop>(looped: L) -> L::Output {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    fn avx512<L: Loop>(looped: L) -> L::Output {
        looped.run()
    }
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(looped: L) -> L::Output {
        looped.run()
    }
    match level() {
        // SAFETY: `level` found every feature that the function is compiled for.
        Level::Avx512 => unsafe { avx512(looped) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(looped) },
        Level::Baseline => looped.run_plain(),
    }
}

/// As [`dispatch`], for loops that are called only where the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn dispatch_wide<L: Loop>(looped: L) -> L::Output {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    fn avx512<L: Loop>(looped: L) -> L::Output {
        looped.run()
    }
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(looped: L) -> L::Output {
        looped.run()
    }
    match level() {
        // SAFETY: `level` found every feature that the function is compiled for.
        Level::Avx512 => unsafe { avx512(looped) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(looped) },
        Level::Baseline => unreachable!("a loop for wider instructions"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn dispatch_wide<L: Loop>(looped: L) -> L::Output {
    looped.run()
}

/// As [`dispatch`], for loops that wait for memory or do little at a time: copies for AVX2 and for the target's own features alone.
#[cfg(all(target_arch = "x86_64", not(rankform_unoptimized)))]
#[inline]
pub(super) fn dispatch_two<L: Loop>(looped: L) -> L::Output {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    fn avx2<L: Loop>(looped: L) -> L::Output {
        looped.run()
    }
    match level() {
        Level::Baseline => looped.run_plain(),
        // SAFETY: `level` found every feature that the function is compiled for.
        _ => unsafe { avx2(looped) },
    }
}

#[cfg(any(not(target_arch = "x86_64"), rankform_unoptimized))]
#[inline]
pub(super) fn dispatch_two<L: Loop>(looped: L) -> L::Output {
    looped.run()
}

/// A loop with few words for arguments, which stay in registers on the way to it: the choice of its copy is then a jump.
pub(super) trait Call<A, B, C> {
    /// Whether it has a copy for AVX-512; without one it is not called at that level.
    #[cfg_attr(any(rankform_unoptimized, not(target_arch = "x86_64")), allow(dead_code))]
    const WIDEST: bool;
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
pub(super) unsafe fn dispatch_call<L: Call<A, B, C>, A, B, C>(
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
        Level::Avx512 if const { !L::WIDEST } => unreachable!("a loop that is called by AVX2 at most"),
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
pub(super) unsafe fn dispatch_call<L: Call<A, B, C>, A, B, C>(
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
pub(super) fn dispatch<L: Loop>(looped: L) -> L::Output {
    looped.run()
}

/// Instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest level of this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn level() -> Level {
    Level::Baseline
}

/// The level for loops that wait for memory: on Intel's processors before Sapphire Rapids vectors of 256 bits, since longer ones
/// lower the clock (measured on Cascade Lake).
#[inline]
pub(super) fn level_for_memory() -> Level {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 && is_old_intel() {
        return Level::Avx2;
    }
    level()
}

/// The level, without AVX-512.
#[inline(always)]
pub(super) fn at_most_avx2(level: Level) -> Level {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        return Level::Avx2;
    }
    level
}

/// What this processor has and the environment allows, found once.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn level() -> Level {
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

/// Asks for memory that is read next. Nothing is read, and nothing need be there.
#[inline(always)]
pub(super) fn fetch(at: *const u8, nbytes: usize) {
    ask::<true>(at, nbytes);
}

/// As [`fetch`], for what a loop reads some KiB later: it comes as far as the second cache.
#[inline(always)]
pub(super) fn fetch_early(at: *const u8, nbytes: usize) {
    ask::<false>(at, nbytes);
}

#[inline(always)]
fn ask<const NEXT: bool>(at: *const u8, nbytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..nbytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let line = at.wrapping_add(line).cast();
        // SAFETY: a hint, of any address; every x86-64 has it.
        unsafe { if NEXT { _mm_prefetch::<_MM_HINT_T0>(line) } else { _mm_prefetch::<_MM_HINT_T1>(line) } };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (at, nbytes);
}

/// How far ahead a run is fetched, in bytes (−x of 4096² on two machines of Zen 4: 3.0 → 2.65 ms by 2 KiB; 2.4 by 2 KiB and 2.1 by 8).
pub(super) const AHEAD: usize = 8 << 10;

/// Whether rows of so many bytes, which begin `down` bytes apart, are worth fetching ahead: of short ones with something between
/// them, that is most of what would be fetched.
pub(super) fn follows(nbytes: usize, down: isize) -> bool {
    down == nbytes as isize || nbytes >= 4 * AHEAD
}

/// How far ahead runs of memory, of `nbytes` in all, are fetched early, in bytes: 0 for what a third cache holds, of which
/// sums would take a fifth longer. 64 MiB of f32 from memory, on three machines of Zen 4: `sum` took 1.95, 1.17 and 2.2 ms without,
/// and 1.35, 1.31 and 2.05 so; `max` 1.43, 1.49 and 1.95 on two of them. By 8 KiB both take a tenth less on the second, but
/// `max` 3.3 on the third.
#[inline]
pub(super) fn early(nbytes: usize) -> usize {
    const THIRD_CACHE: usize = 32 << 20;
    if nbytes > THIRD_CACHE { 2 << 10 } else { 0 }
}

/// Whether one core writes large results faster past its caches than through them. Intel's before Sapphire Rapids do not: a buffer
/// of a core waits for memory until a line that goes past the caches is there.
pub(super) fn writes_past_caches() -> bool {
    !is_old_intel()
}

/// Whether a store fills a line of the caches: what nothing is read for is then as well written through these (Zen 4, 64 MiB: 2.0 ms,
/// past the caches 2.4). Intel's read it (Sapphire Rapids: 4.2 ms, past the caches 2.5).
pub(super) fn writes_whole_lines() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level() == Level::Avx512 && !is_intel();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether products of bf16 are faster by their own instruction for vectors than widened to f32. On Intel's they are not (Sapphire Rapids, the
/// only one measured, 1024³: 20 ms, widened 13).
#[cfg(target_arch = "x86_64")]
pub(super) fn multiplies_pairs() -> bool {
    !is_intel()
}

/// Whether this is a processor of Intel before Sapphire Rapids, the first one of AVX512-FP16.
fn is_old_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_intel() && !is_x86_feature_detected!("avx512fp16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn is_intel() -> bool {
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
