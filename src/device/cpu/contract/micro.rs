//! The innermost loops on x86-64: a tile of the output in registers, one broadcast and a few multiply-adds a step.
//!
//! They are written with the processor's instructions, because the compiler keeps no tile of this size in registers by
//! itself. All are rows of one table. Kernels for other machines are in `plain.rs`.
//! Imports: nothing.

use super::super::simd::{self, Level};
use super::tile::{Kernel, STARTED_ROWS, Tile};
use std::arch::x86_64::*;

/// Units of the right operand that are asked for ahead.
const AHEAD: isize = 16;

/// The level that a kernel of these features belongs to.
const fn needed(features: &str) -> Level {
    let (name, mut at) = (features.as_bytes(), 0);
    while at + 4 <= name.len() {
        if let [b'v', b'x', b'5', b'1'] = [name[at], name[at + 1], name[at + 2], name[at + 3]] {
            return Level::Avx512;
        }
        at += 1;
    }
    Level::Avx2
}

/// Kernels: instruction set; rows by one or two vectors, rows by three or four, and lanes of a vector; unit of a panel and its depth;
/// sums; the steps.
macro_rules! kernels {
    ($(
        $(#[$doc:meta])*
        $Name:ident where [$($feature:tt)*];
        $features:literal, $rows:literal by $step_rows:literal [$($r:literal)*] [$($d:literal)*], $wide_rows:literal [$($w:literal)*] x $lanes:literal, $Unit:ty, $depth:literal, $Sum:ty, $Vector:ty, direct $direct:literal;
        load |$pl:ident| $load:expr;
        splat |$ps:ident| $splat:expr;
        step |$s:ident, $a:ident, $b:ident| $step:expr;
        sums $first:ident $fetch:ident $add:ident $store:ident;
        start |$panel:ident, $units:ident| $start:expr;
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $Name;

        impl $Name {
            /// The kernel, where this processor has its instructions.
            #[inline]
            pub(super) fn here() -> Option<Self> {
                (simd::level() >= needed($features) $(&& is_x86_feature_detected!($feature))*).then_some($Name)
            }

            /// `R` rows by `V` vectors; `PACKED` says that the left operand is a panel.
            #[target_feature(enable = $features)]
            unsafe fn some_rows<const R: usize, const V: usize, const PACKED: bool>(tile: &Tile) {
                // SAFETY: (all blocks) the caller of `Kernel::tile` promises these rows, columns and units.
                let mut sums: [[$Vector; V]; R] = [[$first(Default::default()); V]; R];
                if let Some(start) = &tile.start {
                    for r in 0..R {
                        sums[r] = [$first(start[r] as $Sum); V];
                    }
                }
                for r in 0..R {
                    for v in 0..V {
                        // The output is on its way while the products are summed.
                        _mm_prefetch::<_MM_HINT_T0>(tile.out[r].cast::<$Sum>().wrapping_add(v * $lanes).cast());
                    }
                }
                let [row, unit] = if PACKED { [1, if V > 2 { $wide_rows } else { $rows }] } else { tile.left_step };
                let (mut left, mut right) = (tile.left.cast::<$Unit>(), tile.right.cast::<$Unit>());
                let ahead = tile.right_step.wrapping_mul(AHEAD);
                // After a long panel the next one; what comes after a short strip was asked for by `fetch`, so its last units
                // ask for themselves.
                let asks = if tile.units > 2 * AHEAD as usize { tile.units } else { tile.units.saturating_sub(AHEAD as usize) };
                for (units, ahead) in [(asks, ahead), (tile.units - asks, 0)] {
                    for _ in 0..units {
                        for v in (0..V).step_by((64 / ($lanes * size_of::<$Unit>())).max(1)) {
                            _mm_prefetch::<_MM_HINT_T0>(right.wrapping_offset(ahead).wrapping_add(v * $lanes).cast());
                        }
                        let $pl = right;
                        // SAFETY: as above.
                        let mut b = [unsafe { $load }; V];
                        for v in 1..V {
                            let $pl = right.wrapping_add(v * $lanes);
                            // SAFETY: as above.
                            b[v] = unsafe { $load };
                        }
                        for r in 0..R {
                            let $ps = left.wrapping_offset(r as isize * row);
                            // SAFETY: as above.
                            let a = unsafe { $splat };
                            for v in 0..V {
                                let ($s, $a, $b) = (sums[r][v], a, b[v]);
                                sums[r][v] = $step;
                            }
                        }
                        left = left.wrapping_offset(unit);
                        right = right.wrapping_offset(tile.right_step);
                    }
                }
                for r in 0..R {
                    for v in 0..V {
                        let out = tile.out[r].cast::<$Sum>().wrapping_add(v * $lanes);
                        // SAFETY: as above; the output is read only where it was written before.
                        unsafe {
                            let sum = if tile.add { $add(sums[r][v], $fetch(out.cast())) } else { sums[r][v] };
                            $store(out.cast(), sum);
                        }
                    }
                }
            }
        }

        impl Kernel for $Name {
            type Unit = $Unit;
            type Sum = $Sum;
            const ROWS: usize = $rows;
            const WIDE_ROWS: usize = $wide_rows;
            const LANES: usize = $lanes;
            const DEPTH: usize = $depth;
            const DIRECT: bool = $direct;

            unsafe fn finish($panel: *mut u8, $units: usize) -> Option<[i32; STARTED_ROWS]> {
                // SAFETY: the caller's promise.
                #[allow(unused_unsafe)]
                $start
            }

            unsafe fn tile(tile: &Tile) {
                let packed = tile.left_step == [1, if tile.vectors > 2 { $wide_rows } else { $rows }];
                debug_assert!(packed || $direct);
                // Panels have all rows, so one that is not there may be computed; of a left operand that is read where it stands, it may not.
                let rows = if packed && tile.vectors <= 2 { tile.rows.next_multiple_of($step_rows) } else { tile.rows };
                // SAFETY: the caller's promise; `here` found the instructions.
                unsafe {
                    match (rows, tile.vectors, packed || !$direct) {
                        $(
                            ($r, 2, true) => Self::some_rows::<$r, 2, true>(tile),
                            ($r, 1, true) => Self::some_rows::<$r, 1, true>(tile),
                        )*
                        $(
                            ($d, 2, false) => Self::some_rows::<$d, 2, { !$direct }>(tile),
                            ($d, 1, false) => Self::some_rows::<$d, 1, { !$direct }>(tile),
                        )*
                        $(
                            ($w, 3, true) => Self::some_rows::<$w, 3, true>(tile),
                            ($w, 3, false) => Self::some_rows::<$w, 3, { !$direct }>(tile),
                            ($w, 4, true) => Self::some_rows::<$w, 4, true>(tile),
                            ($w, 4, false) => Self::some_rows::<$w, 4, { !$direct }>(tile),
                        )*
                        _ => debug_assert!(false, "a tile of {} rows", tile.rows),
                    }
                }
            }
        }
    )* };
}

kernels! {
    /// f32, fused.
    Float512 where ["avx512f"];
    "avx512f", 12 by 2 [2 4 6 8 10 12] [1 2 3 4 5 6 7 8 9 10 11 12], 6 [1 2 3 4 5 6] x 16, f32, 1, f32, __m512, direct true;
    load |p| _mm512_loadu_ps(p);
    splat |p| _mm512_set1_ps(p.read());
    step |s, a, b| _mm512_fmadd_ps(a, b, s);
    sums _mm512_set1_ps _mm512_loadu_ps _mm512_add_ps _mm512_storeu_ps;
    start |_p, _n| None;

    /// f64, fused.
    Double512 where ["avx512f"];
    "avx512f", 12 by 2 [2 4 6 8 10 12] [1 2 3 4 5 6 7 8 9 10 11 12], 6 [1 2 3 4 5 6] x 8, f64, 1, f64, __m512d, direct true;
    load |p| _mm512_loadu_pd(p);
    splat |p| _mm512_set1_pd(p.read());
    step |s, a, b| _mm512_fmadd_pd(a, b, s);
    sums _mm512_set1_pd _mm512_loadu_pd _mm512_add_pd _mm512_storeu_pd;
    start |_p, _n| None;

    /// Two products of bf16 a step, summed in f32. The instruction takes subnormal numbers for 0.
    Brain512 where ["avx512f" "avx512bf16"];
    "avx512f,avx512bf16", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, u32, 2, f32, __m512, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read() as i32);
    step |s, a, b| _mm512_dpbf16_ps(s, pairs(a), pairs(b));
    sums _mm512_set1_ps _mm512_loadu_ps _mm512_add_ps _mm512_storeu_ps;
    start |_p, _n| None;

    /// Two products of 16-bit integers a step, summed in i32.
    Short512 where ["avx512f" "avx512bw"];
    "avx512f,avx512bw", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, u32, 2, i32, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read() as i32);
    step |s, a, b| _mm512_add_epi32(s, _mm512_madd_epi16(a, b));
    sums _mm512_set1_epi32 _mm512_loadu_si512 _mm512_add_epi32 _mm512_storeu_si512;
    start |_p, _n| None;

    /// Four products i8 · i8 a step. The instruction multiplies signed by unsigned, so the right panel holds b + 128, and
    /// every row starts at −128 Σ a.
    Signed512 where ["avx512f" "avx512bw" "avx512vnni"];
    "avx512f,avx512bw,avx512vnni", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, u32, 4, i32, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read() as i32);
    step |s, a, b| _mm512_dpbusd_epi32(s, b, a);
    sums _mm512_set1_epi32 _mm512_loadu_si512 _mm512_add_epi32 _mm512_storeu_si512;
    // SAFETY: the promise of `Kernel::finish`; `here` found the instructions.
    start |panel, units| Some(unsafe { shifted_back(panel.cast(), units) });

    /// Four products u8 · i8 a step.
    LeftUnsigned512 where ["avx512f" "avx512bw" "avx512vnni"];
    "avx512f,avx512bw,avx512vnni", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, u32, 4, i32, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read() as i32);
    step |s, a, b| _mm512_dpbusd_epi32(s, a, b);
    sums _mm512_set1_epi32 _mm512_loadu_si512 _mm512_add_epi32 _mm512_storeu_si512;
    start |_p, _n| None;

    /// Four products i8 · u8 a step.
    RightUnsigned512 where ["avx512f" "avx512bw" "avx512vnni"];
    "avx512f,avx512bw,avx512vnni", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, u32, 4, i32, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read() as i32);
    step |s, a, b| _mm512_dpbusd_epi32(s, b, a);
    sums _mm512_set1_epi32 _mm512_loadu_si512 _mm512_add_epi32 _mm512_storeu_si512;
    start |_p, _n| None;

    /// i32; the products wrap.
    Int512 where ["avx512f"];
    "avx512f", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 16, i32, 1, i32, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi32(p.read());
    step |s, a, b| _mm512_add_epi32(s, _mm512_mullo_epi32(a, b));
    sums _mm512_set1_epi32 _mm512_loadu_si512 _mm512_add_epi32 _mm512_storeu_si512;
    start |_p, _n| None;

    /// i64; the products wrap.
    Long512 where ["avx512f" "avx512dq"];
    "avx512f,avx512dq", 12 by 2 [2 4 6 8 10 12] [], 0 [] x 8, i64, 1, i64, __m512i, direct false;
    load |p| _mm512_loadu_si512(p.cast());
    splat |p| _mm512_set1_epi64(p.read());
    step |s, a, b| _mm512_add_epi64(s, _mm512_mullo_epi64(a, b));
    sums _mm512_set1_epi64 _mm512_loadu_si512 _mm512_add_epi64 _mm512_storeu_si512;
    start |_p, _n| None;

    /// f32, fused, 256 bits.
    Float256 where ["avx2" "fma"];
    "avx2,fma", 6 by 2 [2 4 6] [1 2 3 4 5 6], 0 [] x 8, f32, 1, f32, __m256, direct true;
    load |p| _mm256_loadu_ps(p);
    splat |p| _mm256_set1_ps(p.read());
    step |s, a, b| _mm256_fmadd_ps(a, b, s);
    sums _mm256_set1_ps _mm256_loadu_ps _mm256_add_ps _mm256_storeu_ps;
    start |_p, _n| None;

    /// f64, fused, 256 bits.
    Double256 where ["avx2" "fma"];
    "avx2,fma", 6 by 2 [2 4 6] [1 2 3 4 5 6], 0 [] x 4, f64, 1, f64, __m256d, direct true;
    load |p| _mm256_loadu_pd(p);
    splat |p| _mm256_set1_pd(p.read());
    step |s, a, b| _mm256_fmadd_pd(a, b, s);
    sums _mm256_set1_pd _mm256_loadu_pd _mm256_add_pd _mm256_storeu_pd;
    start |_p, _n| None;

    /// Two products of 16-bit integers a step, 256 bits.
    Short256 where ["avx2"];
    "avx2", 6 by 2 [2 4 6] [], 0 [] x 8, u32, 2, i32, __m256i, direct false;
    load |p| _mm256_loadu_si256(p.cast());
    splat |p| _mm256_set1_epi32(p.read() as i32);
    step |s, a, b| _mm256_add_epi32(s, _mm256_madd_epi16(a, b));
    sums _mm256_set1_epi32 _mm256_loadu_si256 _mm256_add_epi32 _mm256_storeu_si256;
    start |_p, _n| None;

    /// i32; the products wrap. 256 bits.
    Int256 where ["avx2"];
    "avx2", 6 by 2 [2 4 6] [], 0 [] x 8, i32, 1, i32, __m256i, direct false;
    load |p| _mm256_loadu_si256(p.cast());
    splat |p| _mm256_set1_epi32(p.read());
    step |s, a, b| _mm256_add_epi32(s, _mm256_mullo_epi32(a, b));
    sums _mm256_set1_epi32 _mm256_loadu_si256 _mm256_add_epi32 _mm256_storeu_si256;
    start |_p, _n| None;
}

/// The same bits as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: two names of one register; every bit pattern is valid.
    unsafe { std::mem::transmute(bits) }
}

/// −128 times the sum of each row of a left panel of i8.
///
/// # Safety
/// The panel has `units` units of 12 rows.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn shifted_back(panel: *mut u32, units: usize) -> [i32; STARTED_ROWS] {
    let mut sums = _mm512_setzero_si512();
    for unit in 0..units {
        // SAFETY: the caller's promise.
        let quads = unsafe { _mm512_maskz_loadu_epi32((1 << STARTED_ROWS) - 1, panel.add(unit * STARTED_ROWS).cast()) };
        sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), quads);
    }
    let mut rows = [0i32; 16];
    // SAFETY: as many bytes.
    unsafe { _mm512_storeu_si512(rows.as_mut_ptr().cast(), sums) };
    std::array::from_fn(|row| rows[row].wrapping_mul(-128))
}

/// Whether [`turn`] can be called.
#[inline]
pub(super) fn turns() -> bool {
    simd::level() == Level::Avx512
}

/// Transposes 16 rows of 16 words: row `i` of the result at `to + i · width`. They are written one after the other, so of
/// narrower ones what is beyond `width` is written over by the next.
///
/// # Safety
/// [`turns`]; the rows are there, and room for 15 rows of `width` words and 16 words.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn turn(rows: [*const u32; 16], to: *mut u32, width: usize) {
    let mut a = [_mm512_setzero_si512(); 16];
    for (i, row) in a.iter_mut().enumerate() {
        simd::fetch(rows[i].wrapping_add(4 * 16).cast(), 64);
        // SAFETY: the caller's promise.
        *row = unsafe { _mm512_loadu_si512(rows[i].cast()) };
    }
    let mut b = a;
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
        a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
    }
    // a[4 i + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 i … 4 i + 3, one in each quarter.
    for c in 0..4 {
        b[c] = _mm512_shuffle_i32x4::<0x88>(a[c], a[c + 4]);
        b[c + 4] = _mm512_shuffle_i32x4::<0xdd>(a[c], a[c + 4]);
        b[c + 8] = _mm512_shuffle_i32x4::<0x88>(a[c + 8], a[c + 12]);
        b[c + 12] = _mm512_shuffle_i32x4::<0xdd>(a[c + 8], a[c + 12]);
    }
    for c in 0..4 {
        a[c] = _mm512_shuffle_i32x4::<0x88>(b[c], b[c + 8]);
        a[4 + c] = _mm512_shuffle_i32x4::<0x88>(b[c + 4], b[c + 12]);
        a[8 + c] = _mm512_shuffle_i32x4::<0xdd>(b[c], b[c + 8]);
        a[12 + c] = _mm512_shuffle_i32x4::<0xdd>(b[c + 4], b[c + 12]);
    }
    for (i, &row) in a.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.add(i * width).cast(), row) };
    }
}
