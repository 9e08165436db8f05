//! The microkernel of Intel AMX: an instruction multiplies 16 rows by 16 columns, with 64 bytes along `k`.
//!
//! The standard library has no stable functions for AMX; the loop is assembly. It releases the tile
//! registers at its end. Source: Intel 64 and IA-32 Architectures Software Developer's Manual; the
//! instructions and their sums in volume 2 (TDPBF16PS, TDPBSSD), the shapes of registers in volume 1, chapter
//! 18.
// Imports: nothing.

use super::super::super::isa::{self, Level};
use super::super::super::memory::prefetch;
use super::super::super::strided::transpose::transpose_16x16;
use super::super::packing::bits;
use super::super::panels::PackFn;
use super::{MAX_INITIAL_ROWS, Microkernel, Tile};
use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _mm512_loadu_si512, _mm512_setzero_si512, _mm512_storeu_si512};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::LazyLock;

/// Rows and lanes of a tile register, and units along `k`.
const SIDE: usize = 16;
/// Rows of a left panel. With two vectors of columns, four tiles of sums are independent: enough to hide the
/// latency of the instruction.
const MR: usize = 2 * SIDE;

/// The element types of both factors, and the instruction that multiplies them.
pub(in super::super) trait Factors: Copy + Send + Sync + 'static {
    /// The type of the sums; it has 4 bytes.
    type Sum: Copy + Default + 'static;
    /// Factors of a unit.
    const DEPTH: usize;
    /// The bit of CPUID leaf 7, EDX, for the instruction.
    const BIT: u32;
    /// Computes a pass over the upper half of the rows and with `lower` over both, and over one vector of
    /// columns or with `second` over two.
    ///
    /// # Safety
    /// 1. The processor has the instruction and the process may use it.   2. The memory that the pass reads
    ///    and writes is valid.
    unsafe fn run(pass: &BlockArguments, lower: bool, second: bool);
}

/// The kernel of these factors.
#[derive(Clone, Copy)]
pub(in super::super) struct Amx<F>(PhantomData<F>);

impl<F: Factors> Amx<F> {
    /// The kernel, if this processor has its instructions and the operating system lets the process use them.
    #[inline]
    pub(in super::super) fn available() -> Option<Self> {
        (isa::level() >= Level::Avx512 && *INSTRUCTIONS & 1 << F::BIT != 0).then_some(Amx(PhantomData))
    }
}

/// CPUID leaf 7, EDX, or 0 if AMX must not be used.
static INSTRUCTIONS: LazyLock<u32> = LazyLock::new(|| {
    const TILES: u32 = 24;
    let list = __cpuid_count(7, 0).edx;
    if list & 1 << TILES != 0 && is_allowed() { list } else { 0 }
});

/// Requests permission for AMX from Linux, for the whole process and permanently. Each thread that uses AMX
/// then needs 8 KiB more of kernel memory, and alternate signal stacks must have room for the tile registers;
/// the request fails if a thread has a smaller one. With `RANKFORM_SIMD=avx2` the process does not make the
/// request.
fn is_allowed() -> bool {
    // Miri and MemorySanitizer do not see the writes of assembly, and addresses of 4 bytes (x32) would need
    // other assembly.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(any(miri, rankform_plain_stores))))]
    {
        // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
        let [call, request, tile_data]: [usize; 3] = [158, 0x1023, 18];
        let refused: usize;
        // SAFETY: this system call neither reads nor writes memory of the process.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") call => refused,
                in("rdi") request,
                in("rsi") tile_data,
                out("rcx") _,
                out("r11") _,
                options(nostack)
            );
        }
        return refused == 0;
    }
    #[allow(unreachable_code)]
    false
}

/// The shapes of the tile registers, in the format of `ldtilecfg`.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Sums are in registers 0 to 3, left factors in 4 and 5, right factors in 6 and 7, with `units` units
    /// along `k`.
    fn of(rows: usize, units: usize) -> Shapes {
        let [upper, lower, units] = [rows.min(SIDE), rows.saturating_sub(SIDE), units].map(|size| size as u8);
        let mut shapes =
            Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        shapes.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, units, units]);
        let (line, short) = (64, 4 * u16::from(units));
        shapes.row_bytes[..8].copy_from_slice(&[line, line, line, line, short, short, line, line]);
        if lower == 0 {
            // A register without rows must have no bytes.
            [2, 3, 5].into_iter().for_each(|register| shapes.row_bytes[register] = 0);
        }
        shapes
    }
}

/// The arguments of the loop: some blocks of 16 units, or one block of fewer. Strides are in bytes.
#[repr(C)]
pub(in super::super) struct BlockArguments {
    shapes: Shapes,
    blocks: usize,
    /// The upper 16 rows of units, and the lower rows.
    left: [*const u8; 2],
    left_stride: usize,
    left_block_stride: usize,
    /// Units of one or two vectors of columns.
    right: *const u8,
    right_stride: isize,
    /// Initial sums of the upper and of the lower rows.
    initial: [*const u8; 2],
    initial_stride: isize,
    /// The sums of the upper and of the lower rows; they may overwrite the initial ones.
    out: [*mut u8; 2],
    out_stride: isize,
}

/// Loads the initial sums of one or two halves of the rows and one or two vectors.
macro_rules! load_sums {
    ($lower:literal, $second:literal) => {
        concat!(
            "tileloadd tmm0, [{sums} + {sums_stride}]\n",
            ".if ",
            $second,
            "\n",
            "tileloadd tmm1, [{sums} + {sums_stride} + 64]\n",
            ".endif\n",
            ".if ",
            $lower,
            "\n",
            "mov {sums}, [{pass} + {lower_initial}]\n",
            "tileloadd tmm2, [{sums} + {sums_stride}]\n",
            ".if ",
            $second,
            "\n",
            "tileloadd tmm3, [{sums} + {sums_stride} + 64]\n",
            ".endif\n",
            ".endif",
        )
    };
}

/// Adds the products of a block. Left factors are read only once for each panel; they are loaded with a hint
/// that keeps the right factors in L1.
macro_rules! add_products {
    ($multiply:literal, $lower:literal, $second:literal) => {
        concat!(
            "tileloaddt1 tmm4, [{left} + {left_stride}]\n",
            "tileloadd tmm6, [{right} + {right_stride}]\n",
            $multiply,
            " tmm0, tmm4, tmm6\n",
            ".if ",
            $second,
            "\n",
            "tileloadd tmm7, [{right} + {right_stride} + 64]\n",
            $multiply,
            " tmm1, tmm4, tmm7\n",
            ".endif\n",
            ".if ",
            $lower,
            "\n",
            "tileloaddt1 tmm5, [{lower} + {left_stride}]\n",
            $multiply,
            " tmm2, tmm5, tmm6\n",
            "add {lower}, {left_block_stride}\n",
            ".if ",
            $second,
            "\n",
            $multiply,
            " tmm3, tmm5, tmm7\n",
            ".endif\n",
            ".endif",
        )
    };
}

/// Stores the sums.
macro_rules! store_sums {
    ($lower:literal, $second:literal) => {
        concat!(
            "mov {sums}, [{pass} + {upper_out}]\n",
            "mov {sums_stride}, [{pass} + {out_stride}]\n",
            "tilestored [{sums} + {sums_stride}], tmm0\n",
            ".if ",
            $second,
            "\n",
            "tilestored [{sums} + {sums_stride} + 64], tmm1\n",
            ".endif\n",
            ".if ",
            $lower,
            "\n",
            "mov {sums}, [{pass} + {lower_out}]\n",
            "tilestored [{sums} + {sums_stride}], tmm2\n",
            ".if ",
            $second,
            "\n",
            "tilestored [{sums} + {sums_stride} + 64], tmm3\n",
            ".endif\n",
            ".endif",
        )
    };
}

/// The loop over blocks, for one or two halves of the rows and one or two vectors.
macro_rules! pass {
    ($pass:ident, $multiply:literal, $lower:literal, $second:literal) => {
        asm!(
            "ldtilecfg [{pass}]",
            load_sums!($lower, $second),
            "2:",
            add_products!($multiply, $lower, $second),
            "add {left}, {left_block_stride}",
            "add {right}, {right_block_stride}",
            "dec {blocks}",
            "jnz 2b",
            store_sums!($lower, $second),
            "tilerelease",
            pass = in(reg) $pass,
            lower_initial = const offset_of!(BlockArguments, initial) + 8,
            upper_out = const offset_of!(BlockArguments, out),
            lower_out = const offset_of!(BlockArguments, out) + 8,
            out_stride = const offset_of!(BlockArguments, out_stride),
            sums = inout(reg) $pass.initial[0] => _,
            sums_stride = inout(reg) $pass.initial_stride => _,
            blocks = inout(reg) $pass.blocks => _,
            left = inout(reg) $pass.left[0] => _,
            lower = inout(reg) $pass.left[1] => _,
            left_stride = in(reg) $pass.left_stride,
            left_block_stride = in(reg) $pass.left_block_stride,
            right = inout(reg) $pass.right => _,
            right_stride = in(reg) $pass.right_stride,
            right_block_stride = in(reg) SIDE as isize * $pass.right_stride,
            options(nostack),
        )
    };
}

/// Defines factors. A row lists the type of the sums, the factors of a unit, the bit of CPUID and the
/// instruction.
macro_rules! factors {
    ($(#[$doc:meta] $Name:ident: $Sum:ty, $depth:literal, $bit:literal, $multiply:literal;)*) => { $(
        #[$doc]
        #[derive(Clone, Copy)]
        pub(in super::super) struct $Name;

        impl Factors for $Name {
            type Sum = $Sum;
            const DEPTH: usize = $depth;
            const BIT: u32 = $bit;

            unsafe fn run(pass: &BlockArguments, lower: bool, second: bool) {
                // SAFETY: (1), (2) the caller's promise; the shapes are the first field of the pass.
                unsafe {
                    match (lower, second) {
                        (false, false) => pass!(pass, $multiply, 0, 0),
                        (false, true) => pass!(pass, $multiply, 0, 1),
                        (true, false) => pass!(pass, $multiply, 1, 0),
                        (true, true) => pass!(pass, $multiply, 1, 1),
                    }
                }
            }
        }
    )* };
}

factors! {
    /// Pairs of bf16, summed in f32. The instruction treats subnormal factors and sums as 0.
    Bf16: f32, 2, 22, "tdpbf16ps";
    /// i8 · i8: four products a unit.
    I8I8: i32, 4, 25, "tdpbssd";
    /// u8 · u8: four products a unit.
    U8U8: i32, 4, 25, "tdpbuud";
    /// u8 · i8: four products a unit.
    U8I8: i32, 4, 25, "tdpbusd";
    /// i8 · u8: four products a unit.
    I8U8: i32, 4, 25, "tdpbsud";
}

/// Transposes 16 rows of 16 words. Row `i` of the result is written at `to + i · width`, in order; if `width`
/// is less than 16, the next row overwrites the words beyond it.
///
/// # Safety
/// 1. The processor has AVX-512.   2. Each row has 16 words.   3. `to` has room for 15 rows of `width` words
///    and 16 words more.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_rows(rows: [*const u32; SIDE], to: *mut u32, width: usize) {
    let mut lines = [_mm512_setzero_si512(); SIDE];
    for (line, row) in lines.iter_mut().zip(rows) {
        prefetch::into_l1(row.wrapping_add(4 * SIDE).cast(), 64);
        // SAFETY: (2) 16 words.
        *line = unsafe { _mm512_loadu_si512(row.cast()) };
    }
    for (i, line) in transpose_16x16(lines).into_iter().enumerate() {
        // SAFETY: (3) 16 words from the beginning of row `i` on.
        unsafe { _mm512_storeu_si512(to.add(i * width).cast(), line) };
    }
}

impl<F: Factors> Microkernel for Amx<F> {
    type Unit = u32;
    type Sum = F::Sum;
    const MR: usize = MR;
    const LANES: usize = SIDE;
    const DEPTH: usize = F::DEPTH;
    const PACK_IN_ROWS: Option<PackFn> = Some(bits(4 / F::DEPTH, 1));
    const READS_IN_PLACE: bool = false;

    /// Transposes the panel, 16 units at a time, because a left tile is loaded by rows. If fewer units remain
    /// at the end, their rows are as short.
    unsafe fn finish_panel(panel: *mut u8, units: usize) -> Option<[i32; MAX_INITIAL_ROWS]> {
        let panel = panel.cast::<u32>();
        let rows = |from: *const u32| {
            let mut rows = [from; SIDE];
            for lane in 0..SIDE {
                rows[lane] = from.wrapping_add(lane * MR);
            }
            rows
        };
        let whole = units / SIDE * SIDE;
        for unit in (0..whole).step_by(SIDE) {
            for half in [0, SIDE] {
                let at = panel.wrapping_add(unit * MR + half);
                // SAFETY: (1) the kernel's processors have AVX-512; (2) 16 units of 16 lanes, all read before
                // they are written.
                unsafe { transpose_rows(rows(at), at, MR) };
            }
        }
        if whole < units {
            let (rest, last) = (units - whole, panel.wrapping_add(whole * MR));
            let mut copy = [0; SIDE * MR];
            for half in [0, 1] {
                // SAFETY: (2) the remaining units; (3) the padding after a panel has room for the last row.
                unsafe {
                    if half == 0 {
                        last.copy_to_nonoverlapping(copy.as_mut_ptr(), rest * MR);
                    }
                    transpose_rows(rows(copy.as_ptr().add(half * SIDE)), last.add(half * SIDE * rest), rest);
                }
            }
        }
        None
    }

    unsafe fn tile(tile: &Tile) {
        static ZEROS: [u64; 16] = [0; 16];
        let units = tile.units[0] + tile.units[1];
        let (whole, rest) = (units / SIDE, units % SIDE);
        let (sums, stride) = (tile.out, tile.out_stride);
        let out = [sums, sums.wrapping_offset(SIDE as isize * stride)];
        let mut accumulate = tile.accumulate;
        for (first, blocks, units) in [(0, whole, SIDE), (whole * SIDE, 1, rest)] {
            if blocks * units == 0 {
                continue;
            }
            // The distances from row to row, to the lower half and to the next block, and the offset of the
            // first one. A row stride of one unit marks a panel, which `finish_panel` has transposed.
            let [row, half, block, at] = match tile.left_stride {
                [4, _] if units == SIDE => [MR, SIDE, SIDE * MR, 0],
                [4, _] => [units, SIDE * units, 0, first * MR],
                [row, _] => [row as usize / 4, SIDE * (row as usize / 4), SIDE, first],
            };
            let left = tile.left.cast::<u32>().wrapping_add(at);
            let pass = BlockArguments {
                shapes: Shapes::of(tile.rows, units),
                blocks,
                left: [left.cast(), left.wrapping_add(half).cast()],
                left_stride: 4 * row,
                left_block_stride: 4 * block,
                right: tile.right.wrapping_offset(first as isize * tile.right_stride),
                right_stride: tile.right_stride,
                initial: if accumulate {
                    [out[0].cast_const(), out[1].cast_const()]
                } else {
                    [ZEROS.as_ptr().cast(); 2]
                },
                initial_stride: if accumulate { stride } else { 0 },
                out,
                out_stride: stride,
            };
            // SAFETY: (1) the caller's promise; (2) rows of units, or a panel that `finish_panel` has
            // transposed, and the rows of the output.
            unsafe { F::run(&pass, tile.rows > SIDE, tile.vectors > 1) };
            accumulate = true;
        }
    }
}
