//! The microkernels of x86-64: a tile of the output in registers; for each row and unit one broadcast and a
//! few multiply-adds.
//!
//! They are assembly: one text, with the instructions of a table. The compiler does not keep a tile of this
//! size in registers, and compiling each size would take longer than the rest of this folder. Kernels for
//! other processors are in `portable.rs`.
// Imports: nothing.

use super::super::super::isa::{self, Level};
use super::{ComplexKernel, MAX_INITIAL_ROWS, Microkernel, Tile};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::offset_of;

/// How many units of the right operand are prefetched ahead.
const PREFETCHED_UNITS: isize = 10;

/// Whether kernels may be called. Miri and MemorySanitizer do not see the reads and writes of assembly, and
/// addresses of 4 bytes (x32) would need other registers.
const IS_ENABLED: bool = cfg!(all(target_pointer_width = "64", not(any(miri, rankform_plain_stores))));

/// The instruction set level of a kernel whose registers have `bits` bits.
const fn level(bits: usize) -> Level {
    if bits == 512 { Level::Avx512 } else { Level::Avx2 }
}

/// Multiplies the unit of a row by a vector of the right operand and adds the products to their sums: by one
/// instruction, with the factors in either order, or by two.
macro_rules! step {
    ([$multiply_add:literal] $kind:literal $sum:literal $left:literal $right:literal $spare:literal) => {
        concat!($multiply_add, " ", $kind, $sum, ", ", $kind, $left, ", ", $kind, $right, "\n")
    };
    (
        [right $multiply_add:literal] $kind:literal $sum:literal $left:literal $right:literal $spare:literal
    ) => {
        concat!($multiply_add, " ", $kind, $sum, ", ", $kind, $right, ", ", $kind, $left, "\n")
    };
    (
        [$multiply:literal $add:literal] $kind:literal $sum:literal $left:literal $right:literal
        $spare:literal
    ) => {
        concat!(
            $multiply, " ", $kind, $spare, ", ", $kind, $left, ", ", $kind, $right, "\n", $add, " ", $kind,
            $sum, ", ", $kind, $sum, ", ", $kind, $spare, "\n"
        )
    };
}

/// For complex numbers, combines the sums of a row's real parts and those of its imaginary parts. The latter
/// are swapped in pairs, subtracted from the real parts and added to the imaginary parts, by a fused
/// instruction that multiplies the former by 1.
macro_rules! combine_parts {
    ([] $($rest:tt)*) => {
        ""
    };
    ([$one:literal $broadcast:literal $swap:literal $how:literal $add:literal] $kind:literal $left:literal
     $spare:literal [$([$here:literal $stored:literal $row:literal $unit:literal
        $([$v:literal $sum:literal $other:literal $right:literal])*])*]) => {
        concat!(
            "mov {to}, ", $one, "\nvmovq xmm", $left, ", {to}\n", $broadcast, " ", $kind, $left, ", xmm",
            $left, "\n",
            $(
                ".if ", $here, "\n",
                $(
                    ".if {vectors} > ", $v, "\n.if ", $sum, " != ", $other, "\n",
                    $swap, " ", $kind, $spare, ", ", $kind, $other, ", ", $how, "\n",
                    $add, " ", $kind, $sum, ", ", $kind, $left, ", ", $kind, $spare, "\n.endif\n.endif\n",
                )*
                ".endif\n",
            )*
        )
    };
}

/// Sets the sums to the initial values of their rows, or to zero.
macro_rules! initialize_sums {
    ($kind:literal $zero:literal [$([$here:literal $stored:literal $row:literal $unit:literal
        $([$v:literal $sum:literal $other:literal $right:literal])*])*]) => {
        concat!($(
            ".if ", $here, "\n",
            $(
                ".if {vectors} > ", $v, "\n",
                ".if {has_initial}\n vpbroadcastd ", $kind, $sum, ", [{to} + 4 * ", $row, "]\n",
                ".else\n", $zero, " ", $kind, $sum, ", ", $kind, $sum, ", ", $kind, $sum,
                "\n.endif\n.endif\n",
            )*
            ".endif\n",
        )*)
    };
}

/// Loads the vectors of a unit of the right operand, and prefetches a later unit.
macro_rules! load_right {
    ($kind:literal $nbytes:literal [$([$at:literal $line:literal $vector:literal])*]) => {
        concat!($(
            ".if {vectors} > ", $at, "\n",
            ".if ", $line, "\n prefetcht0 [{right} + {ahead} + ", $nbytes, " * ", $at, "]\n.endif\n",
            "vmovups ", $kind, $vector, ", [{right} + ", $nbytes, " * ", $at, "]\n.endif\n",
        )*)
    };
}

/// Adds the products of a unit: for each row a broadcast of the left operand, and a step for each vector.
macro_rules! add_products {
    ($broadcast:literal $step:tt $kind:literal $left:literal $spare:literal
     [$([$here:literal $stored:literal $row:literal $unit:literal
        $([$v:literal $sum:literal $other:literal $right:literal])*])*]) => {
        concat!($(
            ".if ", $here, "\n", $broadcast, " ", $kind, $left, ", [", $unit, "]\n",
            $(".if {vectors} > ", $v, "\n", step!($step $kind $sum $left $right $spare), ".endif\n",)*
            ".endif\n",
        )*)
    };
}

/// Moves to the next unit of both operands, and jumps back if there is one.
macro_rules! next_unit {
    () => {
        "add {right}, [{tile} + {right_stride}]
        add {left}, {unit}
        add {left3}, {unit}
        .if {lower} > 6
        add {left6}, {unit}
        add {left9}, {unit}
        .endif
        dec {units}
        jnz 2b"
    };
}

/// Moves the left operand to the next span.
macro_rules! next_span {
    () => {
        "mov {units}, [{tile} + {gap}]
        add {left}, {units}
        add {left3}, {units}
        .if {lower} > 6
        add {left6}, {units}
        add {left9}, {units}
        .endif"
    };
}

/// Visits the vectors of the output that have sums, row by row.
macro_rules! visit_output {
    ($access:tt $kind:literal $nbytes:literal [$([$here:literal $stored:literal $row:literal $unit:literal
        $([$v:literal $sum:literal $other:literal $right:literal])*])*]) => {
        concat!("mov {to}, [{tile} + {out}]\n", $(
            ".if ", $stored, "\n",
            $(
                ".if {vectors} > ", $v, "\n",
                access!($access $kind $sum ["[{to} + " $nbytes " * " $v "]"]), "\n.endif\n",
            )*
            "add {to}, [{tile} + {out_stride}]\n.endif\n",
        )*)
    };
}

/// Accesses a vector of the output: prefetches it, adds it to the sums, or stores the sums.
macro_rules! access {
    (prefetch $kind:literal $sum:literal [$($memory:literal)*]) => {
        concat!("prefetchw ", $($memory,)*)
    };
    ([$add:literal] $kind:literal $sum:literal [$($memory:literal)*]) => {
        concat!($add, " ", $kind, $sum, ", ", $kind, $sum, ", ", $($memory,)*)
    };
    (store $kind:literal $sum:literal [$($memory:literal)*]) => {
        concat!("vmovups ", $($memory,)* ", ", $kind, $sum)
    };
}

/// The assembly of a tile.
///
/// For each vector of the right operand it takes the number, whether the vector begins a cache line, and the
/// register. For each row of the left operand it takes the conditions that the row exists and that it has a
/// row of the output, the number, the address of its unit, and for each vector the number, the register of
/// the sums, the register of the sums that are combined with them, and the register of the right operand.
macro_rules! tile {
    (
        $tile:ident $combine:tt [$left3:ident $left6:ident $left9:ident]
        [$broadcast:literal $step:tt $add:literal $has_initial:literal] $kind:literal $nbytes:literal
        zero $zero:literal left $left:literal spare $spare:literal $registers:tt; $columns:tt $rows:tt
    ) => {
        tile_of_text! {
            $tile [$left3 $left6 $left9] $has_initial $registers;
            "mov {to}, [{tile} + {initial}]",
            initialize_sums!($kind $zero $rows),
            // `to` counts the spans before the last one. It is 0 in the last span, and −1 in its last units,
            // which are summed while the prefetched output arrives.
            "mov {to}, [{tile} + {spans}]",
            "test {to}, {to}",
            "jz 7f",
            "6:",
            "mov {units}, [{tile} + {span}]",
            "2:",
            load_right!($kind $nbytes $columns),
            add_products!($broadcast $step $kind $left $spare $rows),
            next_unit!(),
            "test {to}, {to}",
            "js 5f",
            "jz 4f",
            next_span!(),
            "dec {to}",
            "jnz 6b",
            "7:",
            "mov {units}, [{tile} + {before}]",
            "test {units}, {units}",
            "jnz 2b",
            "4:",
            visit_output!(prefetch $kind $nbytes $rows),
            "mov {to}, -1",
            "mov {units}, [{tile} + {after}]",
            "jmp 2b",
            "5:",
            combine_parts!($combine $kind $left $spare $rows),
            "cmp byte ptr [{tile} + {add}], 0",
            "je 3f",
            visit_output!([$add] $kind $nbytes $rows),
            "3:",
            visit_output!(store $kind $nbytes $rows),
            "vzeroupper",
        }
    };
}

/// The operands of the assembly.
macro_rules! tile_of_text {
    (
        $tile:ident [$left3:ident $left6:ident $left9:ident] $has_initial:literal [$($register:tt)*];
        $($text:tt)*
    ) => {
        asm!(
            $($text)*
            upper = const U,
            lower = const L,
            stored = const if U == L { L } else { 0 },
            vectors = const V,
            has_initial = const $has_initial,
            tile = in(reg) $tile,
            out = const offset_of!(Tile, out),
            out_stride = const offset_of!(Tile, out_stride),
            spans = const offset_of!(Tile, spans),
            span = const offset_of!(Tile, span_units),
            gap = const offset_of!(Tile, span_gap),
            before = const offset_of!(Tile, units),
            after = const offset_of!(Tile, units) + size_of::<usize>(),
            add = const offset_of!(Tile, accumulate),
            initial = const offset_of!(Tile, initial),
            right_stride = const offset_of!(Tile, right_stride),
            to = out(reg) _,
            right = inout(reg) $tile.right => _,
            // At the end of a panel this is the next panel.
            ahead = in(reg) $tile.right_stride.wrapping_mul(PREFETCHED_UNITS),
            left = inout(reg) $tile.left => _,
            left3 = inout(reg) $left3 => _,
            left6 = inout(reg) $left6 => _,
            left9 = inout(reg) $left9 => _,
            row = in(reg) $tile.left_stride[0],
            unit = in(reg) $tile.left_stride[1],
            units = out(reg) _,
            $(out($register) _,)*
            options(nostack),
        )
    };
}

/// The registers: up to 12 rows by two vectors of 512 bits, or 6 rows by two vectors of 256 bits.
macro_rules! sized_tile {
    (512 $($arguments:tt)*) => {
        tile! {
            $($arguments)* "zmm" 64 zero "vpxord" left 28 spare 29 [
                "zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9"
                "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15" "zmm16" "zmm17" "zmm18" "zmm19"
                "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27" "zmm28" "zmm29"
            ]; [[0 1 24] [1 1 25]]
            [["{upper} > 0" "{upper} > 0" 0 "{left}" [0 0 12 24] [1 1 13 25]]
            ["{upper} > 1" "{upper} > 1" 1 "{left} + {row}" [0 2 14 24] [1 3 15 25]]
            ["{upper} > 2" "{upper} > 2" 2 "{left} + 2 * {row}" [0 4 16 24] [1 5 17 25]]
            ["{upper} > 3" "{upper} > 3" 3 "{left3}" [0 6 18 24] [1 7 19 25]]
            ["{upper} > 4" "{upper} > 4" 4 "{left3} + {row}" [0 8 20 24] [1 9 21 25]]
            ["{upper} > 5" "{upper} > 5" 5 "{left3} + 2 * {row}" [0 10 22 24] [1 11 23 25]]
            ["{lower} > 6" "{stored} > 6" 6 "{left6}" [0 12 12 24] [1 13 13 25]]
            ["{lower} > 7" "{stored} > 7" 7 "{left6} + {row}" [0 14 14 24] [1 15 15 25]]
            ["{lower} > 8" "{stored} > 8" 8 "{left6} + 2 * {row}" [0 16 16 24] [1 17 17 25]]
            ["{lower} > 9" "{stored} > 9" 9 "{left9}" [0 18 18 24] [1 19 19 25]]
            ["{lower} > 10" "{stored} > 10" 10 "{left9} + {row}" [0 20 20 24] [1 21 21 25]]
            ["{lower} > 11" "{stored} > 11" 11 "{left9} + 2 * {row}" [0 22 22 24] [1 23 23 25]]]
        }
    };
    (256 $($arguments:tt)*) => {
        tile! {
            $($arguments)* "ymm" 32 zero "vxorps" left 14 spare 15 [
                "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9"
                "ymm10" "ymm11" "ymm12" "ymm13" "ymm14" "ymm15"
            ]; [[0 1 12] [1 0 13]]
            [["{upper} > 0" "{upper} > 0" 0 "{left}" [0 0 6 12] [1 1 7 13]]
            ["{upper} > 1" "{upper} > 1" 1 "{left} + {row}" [0 2 8 12] [1 3 9 13]]
            ["{upper} > 2" "{upper} > 2" 2 "{left} + 2 * {row}" [0 4 10 12] [1 5 11 13]]
            ["{lower} > 3" "{stored} > 3" 3 "{left3}" [0 6 6 12] [1 7 7 13]]
            ["{lower} > 4" "{stored} > 4" 4 "{left3} + {row}" [0 8 8 12] [1 9 9 13]]
            ["{lower} > 5" "{stored} > 5" 5 "{left3} + 2 * {row}" [0 10 10 12] [1 11 11 13]]]
        }
    };
}

/// Defines kernels. A row lists the instruction sets, the bits of a register, MR and the heights of tiles,
/// the unit of a panel and its depth, the type of the sums; then the instructions of the assembly: broadcast
/// of a unit, multiply-add, addition of sums, and whether sums have initial values.
macro_rules! kernels {
    ($(
        $(#[$doc:meta])*
        $Name:ident [$feature:tt $($more:tt)*] $bits:tt, $rows:literal $heights:tt,
        $Unit:ty, $depth:literal, $Sum:ty, $text:tt;
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(in super::super) struct $Name;

        impl $Name {
            /// The kernel, if this processor has its instructions.
            pub(in super::super) fn available() -> Option<Self> {
                (IS_ENABLED && isa::level() >= level($bits) $(&& is_x86_feature_detected!($more))*)
                    .then_some($Name)
            }

            /// A tile of `U` rows by `V` vectors; `L` equals `U`.
            ///
            /// # Safety
            /// As [`Microkernel::tile`], for a tile of this size.
            #[target_feature(enable = $feature)]
            unsafe fn rows<const U: usize, const L: usize, const V: usize>(tile: &Tile) {
                let row = |row: isize| tile.left.wrapping_offset(row.wrapping_mul(tile.left_stride[0]));
                let (left3, left6, left9) = (row(3), row(6), row(9));
                // SAFETY: (1) to (3) the caller's promise.
                unsafe { sized_tile!($bits tile [] [left3 left6 left9] $text) }
            }
        }
        kernel! { $Name $bits, $rows $heights, $Unit, $depth, $Sum, $text }
    )* };
}

/// Implements [`Microkernel`] for a row of `kernels!`.
macro_rules! kernel {
    ($Name:ident $bits:tt, $rows:literal [$($r:literal)*], $Unit:ty, $depth:literal, $Sum:ty,
     [$broadcast:tt $step:tt $add:tt $has_initial:literal]) => {
        impl Microkernel for $Name {
            type Unit = $Unit;
            type Sum = $Sum;
            const MR: usize = $rows;
            const LANES: usize = $bits / 8 / size_of::<$Sum>();
            const DEPTH: usize = $depth;
            const READS_IN_PLACE: bool = $depth == 1;
            const HAS_INITIAL: bool = $has_initial != 0;

            unsafe fn finish_panel(panel: *mut u8, units: usize) -> Option<[i32; MAX_INITIAL_ROWS]> {
                // SAFETY: (1), (2) the caller's promise.
                if Self::HAS_INITIAL { Some(unsafe { bias_correction(panel.cast(), units) }) } else { None }
            }

            unsafe fn tile(tile: &Tile) {
                debug_assert!(tile.units[1] > 0, "the loop counts down");
                // SAFETY: the caller's promise.
                unsafe {
                    match (tile.rows, tile.vectors) {
                        $(
                            ($r, 1) => Self::rows::<$r, $r, 1>(tile),
                            ($r, 2) => Self::rows::<$r, $r, 2>(tile),
                        )*
                        _ => debug_assert!(false, "a tile of {} rows", tile.rows),
                    }
                }
            }
        }
    };
}

/// Kernels of floats that also multiply complex numbers by their parts: the first half of a tile's rows are
/// real parts, the second half imaginary parts.
macro_rules! parts {
    (
        $($Name:ident $feature:literal $bits:tt, $half:literal [$($r:literal)*], $text:tt, $combine:tt;)*
    ) => { $(
        impl $Name {
            /// A tile of `U` rows of complex numbers by `V` vectors. Rows `$half` to `L` are those of the
            /// imaginary parts.
            ///
            /// # Safety
            /// As [`Microkernel::tile`], for a tile of this size.
            #[target_feature(enable = $feature)]
            unsafe fn complex_tile<const U: usize, const L: usize, const V: usize>(tile: &Tile) {
                let part = tile.left.wrapping_add(size_of::<<Self as Microkernel>::Unit>());
                let third = |part: *const u8| part.wrapping_offset(3 * tile.left_stride[0]);
                let (left3, left6, left9) = if $half == 6 {
                    (third(tile.left), part, third(part))
                } else {
                    (part, part, part)
                };
                // SAFETY: (1) to (3) the caller's promise.
                unsafe { sized_tile!($bits tile $combine [left3 left6 left9] $text) }
            }
        }

        impl ComplexKernel for $Name {
            unsafe fn complex_tile(tile: &Tile) {
                // SAFETY: the caller's promise.
                unsafe {
                    match (tile.rows, tile.vectors) {
                        $(
                            ($r, 1) => Self::complex_tile::<$r, { $r + $half }, 1>(tile),
                            ($r, 2) => Self::complex_tile::<$r, { $r + $half }, 2>(tile),
                        )*
                        _ => debug_assert!(false, "a tile of {} rows", tile.rows),
                    }
                }
            }
        }
    )* };
}

parts! {
    Avx512F32 "avx512f" 512, 6 [1 2 3 4 5 6],
        ["vbroadcastss" ["vfmadd231ps"] "vaddps" 0],
        [0x3f800000 "vbroadcastss" "vpermilps" 0xb1 "vfmaddsub213ps"];
    Avx512F64 "avx512f" 512, 6 [1 2 3 4 5 6],
        ["vbroadcastsd" ["vfmadd231pd"] "vaddpd" 0],
        [0x3ff0000000000000 "vbroadcastsd" "vpermilpd" 0x55 "vfmaddsub213pd"];
    Avx2F32 "avx2" 256, 3 [1 2 3],
        ["vbroadcastss" ["vfmadd231ps"] "vaddps" 0],
        [0x3f800000 "vbroadcastss" "vpermilps" 0xb1 "vfmaddsub213ps"];
    Avx2F64 "avx2" 256, 3 [1 2 3],
        ["vbroadcastsd" ["vfmadd231pd"] "vaddpd" 0],
        [0x3ff0000000000000 "vbroadcastsd" "vpermilpd" 0x55 "vfmaddsub213pd"];
}

kernels! {
    /// f32; multiply-adds are fused.
    Avx512F32 ["avx512f"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        f32, 1, f32, ["vbroadcastss" ["vfmadd231ps"] "vaddps" 0];
    /// f64; multiply-adds are fused.
    Avx512F64 ["avx512f"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        f64, 1, f64, ["vbroadcastsd" ["vfmadd231pd"] "vaddpd" 0];
    /// bf16: two products a step, summed in f32. The instruction treats subnormal numbers as 0.
    Avx512Bf16 ["avx512f" "avx512bf16"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        u32, 2, f32, ["vbroadcastss" ["vdpbf16ps"] "vaddps" 0];
    /// i16: two products a step, summed in i32.
    Avx512I16 ["avx512f"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        u32, 2, i32, ["vpbroadcastd" ["vpmaddwd" "vpaddd"] "vpaddd" 0];
    /// i8 · i8: four products a step. The instruction multiplies unsigned by signed; therefore the right
    /// panel holds b + 128, and the initial value of each row is −128 Σ a.
    Avx512I8I8 ["avx512f" "avx512vnni"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        u32, 4, i32, ["vpbroadcastd" [right "vpdpbusd"] "vpaddd" 1];
    /// u8 · i8: four products a step.
    Avx512U8I8 ["avx512f" "avx512vnni"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        u32, 4, i32, ["vpbroadcastd" ["vpdpbusd"] "vpaddd" 0];
    /// i8 · u8: four products a step.
    Avx512I8U8 ["avx512f" "avx512vnni"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        u32, 4, i32, ["vpbroadcastd" [right "vpdpbusd"] "vpaddd" 0];
    /// i32; the products wrap.
    Avx512I32 ["avx512f"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        i32, 1, i32, ["vpbroadcastd" ["vpmulld" "vpaddd"] "vpaddd" 0];
    /// i64; the products wrap.
    Avx512I64 ["avx512f"] 512, 12 [1 2 3 4 5 6 7 8 9 10 11 12],
        i64, 1, i64, ["vpbroadcastq" ["vpmullq" "vpaddq"] "vpaddq" 0];
    /// f32; multiply-adds are fused. 256 bits.
    Avx2F32 ["avx2"] 256, 6 [1 2 3 4 5 6],
        f32, 1, f32, ["vbroadcastss" ["vfmadd231ps"] "vaddps" 0];
    /// f64; multiply-adds are fused. 256 bits.
    Avx2F64 ["avx2"] 256, 6 [1 2 3 4 5 6],
        f64, 1, f64, ["vbroadcastsd" ["vfmadd231pd"] "vaddpd" 0];
    /// i16: two products a step, summed in i32. 256 bits.
    Avx2I16 ["avx2"] 256, 6 [1 2 3 4 5 6],
        u32, 2, i32, ["vpbroadcastd" ["vpmaddwd" "vpaddd"] "vpaddd" 0];
    /// i32; the products wrap. 256 bits.
    Avx2I32 ["avx2"] 256, 6 [1 2 3 4 5 6],
        i32, 1, i32, ["vpbroadcastd" ["vpmulld" "vpaddd"] "vpaddd" 0];
}

/// The initial sums of [`Avx512I8I8`]: −128 times the sum of each row of a left panel.
///
/// # Safety
/// 1. The processor has the instructions.   2. The panel has `units` units of 12 rows.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn bias_correction(panel: *mut u32, units: usize) -> [i32; MAX_INITIAL_ROWS] {
    let mut sums = _mm512_setzero_si512();
    for unit in 0..units {
        // SAFETY: (2) the 12 rows of a unit.
        let quads = unsafe {
            _mm512_maskz_loadu_epi32((1 << MAX_INITIAL_ROWS) - 1, panel.add(unit * MAX_INITIAL_ROWS).cast())
        };
        sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), quads);
    }
    let mut rows = [0i32; 16];
    // SAFETY: the array has as many bytes.
    unsafe { _mm512_storeu_si512(rows.as_mut_ptr().cast(), sums) };
    let mut start = [0; MAX_INITIAL_ROWS];
    for row in 0..MAX_INITIAL_ROWS {
        start[row] = rows[row].wrapping_mul(-128);
    }
    start
}
