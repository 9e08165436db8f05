//! The innermost loop on processors with tiles (Intel AMX): an instruction multiplies 16 rows by 16 columns, 64 bytes along `k`.
//!
//! The standard library has no stable functions for them, so the loop is assembly. It leaves the registers of tiles
//! unused. Instructions and their sums: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2
//! (TDPBF16PS, TDPBSSD); the shapes of registers: volume 1, chapter 18.
// Imports: nothing.

use super::super::super::simd::{self, Level};
use super::super::packing::{PackFn, bits};
use super::x86_64::turn;
use super::{Kernel, MAX_INITIAL_ROWS, Tile};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::LazyLock;

/// Rows and lanes of a tile register, and units along `k`.
const SIDE: usize = 16;
/// Rows of a left panel: with two vectors of columns four sums are under way, as many as the instruction needs.
const ROWS: usize = 2 * SIDE;

/// Two kinds of factors, and the instruction that multiplies them.
pub(in super::super) trait Factors: Copy + Send + Sync + 'static {
    /// What is summed in, of 4 bytes.
    type Sum: Copy + Default + 'static;
    /// Factors of a unit.
    const DEPTH: usize;
    /// Where the processor's list (CPUID 7, EDX) says that it has the instruction.
    const BIT: u32;
    /// Computes a pass over two vectors of columns, or one.
    ///
    /// # Safety
    /// What the pass reads and writes is there, and so is the instruction.
    unsafe fn run(pass: &Pass, lower: bool, second: bool);
}

/// A kernel of such factors.
#[derive(Clone, Copy)]
pub(in super::super) struct Tiles<F>(PhantomData<F>);

impl<F: Factors> Tiles<F> {
    /// The kernel, where this processor has its instructions and the system lets the process use them.
    #[inline]
    pub(in super::super) fn available() -> Option<Self> {
        (simd::level() >= Level::Avx512 && *INSTRUCTIONS & 1 << F::BIT != 0).then_some(Tiles(PhantomData))
    }
}

/// The processor's list of instructions, empty where tiles must not be used.
static INSTRUCTIONS: LazyLock<u32> = LazyLock::new(|| {
    const TILES: u32 = 24;
    let list = __cpuid_count(7, 0).edx;
    if list & 1 << TILES != 0 && is_allowed() { list } else { 0 }
});

/// Asks the system for the state of tiles, for the whole process and for good: Linux gives it to those that ask. A thread that uses
/// them costs 8 KiB more, and alternate stacks for signals need room for them (a thread that has a smaller one makes this fail).
/// `RANKFORM_SIMD=avx2` keeps a process from asking.
fn is_allowed() -> bool {
    // Miri and MemorySanitizer do not see what assembly writes; addresses of 4 bytes (x32) would need other assembly.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(any(miri, rankform_plain_stores))))]
    {
        // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
        let [call, request, tile_data]: [usize; 3] = [158, 0x1023, 18];
        let refused: usize;
        // SAFETY: a call that reads and writes no memory of the process.
        unsafe {
            asm!("syscall", inlateout("rax") call => refused, in("rdi") request, in("rsi") tile_data, out("rcx") _, out("r11") _, options(nostack));
        }
        return refused == 0;
    }
    #[allow(unreachable_code)]
    false
}

/// The shapes of the registers, as the processor reads them.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Sums in registers 0 to 3, left factors of `units` along `k` in 4 and 5, right ones in 6 and 7.
    fn of(rows: usize, units: usize) -> Shapes {
        let [upper, lower, units] = [rows.min(SIDE), rows.saturating_sub(SIDE), units].map(|size| size as u8);
        let mut shapes =
            Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        shapes.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, units, units]);
        let (line, short) = (64, 4 * u16::from(units));
        shapes.row_bytes[..8].copy_from_slice(&[line, line, line, line, short, short, line, line]);
        if lower == 0 {
            [2, 3, 5].into_iter().for_each(|register| shapes.row_bytes[register] = 0); // what has no rows has no bytes
        }
        shapes
    }
}

/// Products of some blocks of 16 units, or of one that has fewer. Steps are in bytes.
#[repr(C)]
pub(in super::super) struct Pass {
    shapes: Shapes,
    blocks: usize,
    /// Rows of units: 16, and from the second address on 16 more.
    left: [*const u8; 2],
    left_step: usize,
    left_block: usize,
    /// Units of one vector or two.
    right: *const u8,
    right_step: isize,
    /// What the sums start with: rows of one vector or two.
    before: [*const u8; 2],
    before_step: isize,
    /// The sums, which may stand where they started.
    after: [*mut u8; 2],
    after_step: isize,
}

macro_rules! factors {
    ($(#[$doc:meta] $Name:ident: $Sum:ty, $depth:literal, $bit:literal, $multiply:literal;)*) => { $(
        #[$doc]
        #[derive(Clone, Copy)]
        pub(in super::super) struct $Name;

        impl Factors for $Name {
            type Sum = $Sum;
            const DEPTH: usize = $depth;
            const BIT: u32 = $bit;

            unsafe fn run(pass: &Pass, lower: bool, second: bool) {
                /// The loop over blocks, with the halves and vectors that there are. Left factors are read once for each panel,
                /// so they are not to push the right ones out of the first cache.
                macro_rules! pass {
                    ($lower:literal, $second:literal) => {
                        asm!(
                            "ldtilecfg [{pass}]",
                            "tileloadd tmm0, [{sums} + {sums_step}]",
                            concat!(".if ", $second),
                            "tileloadd tmm1, [{sums} + {sums_step} + 64]",
                            ".endif",
                            concat!(".if ", $lower),
                            "mov {sums}, [{pass} + {lower_before}]",
                            "tileloadd tmm2, [{sums} + {sums_step}]",
                            ".endif",
                            concat!(".if ", $lower, " * ", $second),
                            "tileloadd tmm3, [{sums} + {sums_step} + 64]",
                            ".endif",
                            "2:",
                            "tileloaddt1 tmm4, [{left} + {left_step}]",
                            "tileloadd tmm6, [{right} + {right_step}]",
                            concat!($multiply, " tmm0, tmm4, tmm6"),
                            concat!(".if ", $second),
                            "tileloadd tmm7, [{right} + {right_step} + 64]",
                            concat!($multiply, " tmm1, tmm4, tmm7"),
                            ".endif",
                            concat!(".if ", $lower),
                            "tileloaddt1 tmm5, [{lower} + {left_step}]",
                            concat!($multiply, " tmm2, tmm5, tmm6"),
                            "add {lower}, {left_block}",
                            ".endif",
                            concat!(".if ", $lower, " * ", $second),
                            concat!($multiply, " tmm3, tmm5, tmm7"),
                            ".endif",
                            "add {left}, {left_block}",
                            "add {right}, {right_block}",
                            "dec {blocks}",
                            "jnz 2b",
                            "mov {sums}, [{pass} + {upper_after}]",
                            "mov {sums_step}, [{pass} + {step_after}]",
                            "tilestored [{sums} + {sums_step}], tmm0",
                            concat!(".if ", $second),
                            "tilestored [{sums} + {sums_step} + 64], tmm1",
                            ".endif",
                            concat!(".if ", $lower),
                            "mov {sums}, [{pass} + {lower_after}]",
                            "tilestored [{sums} + {sums_step}], tmm2",
                            ".endif",
                            concat!(".if ", $lower, " * ", $second),
                            "tilestored [{sums} + {sums_step} + 64], tmm3",
                            ".endif",
                            "tilerelease",
                            pass = in(reg) pass,
                            lower_before = const offset_of!(Pass, before) + 8,
                            upper_after = const offset_of!(Pass, after),
                            lower_after = const offset_of!(Pass, after) + 8,
                            step_after = const offset_of!(Pass, after_step),
                            sums = inout(reg) pass.before[0] => _,
                            sums_step = inout(reg) pass.before_step => _,
                            blocks = inout(reg) pass.blocks => _,
                            left = inout(reg) pass.left[0] => _,
                            lower = inout(reg) pass.left[1] => _,
                            left_step = in(reg) pass.left_step,
                            left_block = in(reg) pass.left_block,
                            right = inout(reg) pass.right => _,
                            right_step = in(reg) pass.right_step,
                            right_block = in(reg) SIDE as isize * pass.right_step,
                            options(nostack),
                        )
                    };
                }
                // SAFETY: the caller's promise; the shapes come first.
                unsafe {
                    match (lower, second) {
                        (false, false) => pass!(0, 0),
                        (false, true) => pass!(0, 1),
                        (true, false) => pass!(1, 0),
                        (true, true) => pass!(1, 1),
                    }
                }
            }
        }
    )* };
}

factors! {
    /// Pairs of bf16, summed in f32. The instruction takes subnormal numbers for 0, factors and sums.
    Brains: f32, 2, 22, "tdpbf16ps";
    /// Four products i8 · i8.
    Signed: i32, 4, 25, "tdpbssd";
    /// Four products u8 · u8.
    Unsigned: i32, 4, 25, "tdpbuud";
    /// Four products u8 · i8.
    LeftUnsigned: i32, 4, 25, "tdpbusd";
    /// Four products i8 · u8.
    RightUnsigned: i32, 4, 25, "tdpbsud";
}

impl<F: Factors> Kernel for Tiles<F> {
    type Unit = u32;
    type Sum = F::Sum;
    const ROWS: usize = ROWS;
    const LANES: usize = SIDE;
    const DEPTH: usize = F::DEPTH;
    const PACK_IN_ROWS: Option<PackFn> = Some(bits(4 / F::DEPTH, 1));
    const READS_UNPACKED: bool = false;

    /// Turns the panel, 16 units at a time: a left tile is read by rows. Of fewer units at the end the rows are as short.
    unsafe fn finalize(panel: *mut u8, units: usize) -> Option<[i32; MAX_INITIAL_ROWS]> {
        let panel = panel.cast::<u32>();
        let rows = |from: *const u32| {
            let mut rows = [from; SIDE];
            for lane in 0..SIDE {
                rows[lane] = from.wrapping_add(lane * ROWS);
            }
            rows
        };
        let whole = units / SIDE * SIDE;
        for unit in (0..whole).step_by(SIDE) {
            for half in [0, SIDE] {
                let at = panel.wrapping_add(unit * ROWS + half);
                // SAFETY: the processor has AVX-512; 16 units of 16 lanes, which are read before they are written.
                unsafe { turn(rows(at), at, ROWS) };
            }
        }
        if whole < units {
            let (rest, last) = (units - whole, panel.wrapping_add(whole * ROWS));
            let mut copy = [0; SIDE * ROWS];
            for half in [0, 1] {
                // SAFETY: the units that are left, and what comes beyond a panel for the last row.
                unsafe {
                    if half == 0 {
                        last.copy_to_nonoverlapping(copy.as_mut_ptr(), rest * ROWS);
                    }
                    turn(rows(copy.as_ptr().add(half * SIDE)), last.add(half * SIDE * rest), rest);
                }
            }
        }
        None
    }

    unsafe fn tile(tile: &Tile) {
        static ZEROS: [u64; 16] = [0; 16];
        let units = tile.units[0] + tile.units[1];
        let (whole, rest) = (units / SIDE, units % SIDE);
        let (sums, step) = (tile.out, tile.out_step);
        let after = [sums, sums.wrapping_offset(SIDE as isize * step)];
        let mut add = tile.add;
        for (first, blocks, units) in [(0, whole, SIDE), (whole * SIDE, 1, rest)] {
            if blocks * units == 0 {
                continue;
            }
            // From row to row, to the lower half, to the next block; and where the first one is. The step of a panel says that it
            // is one: `finalize` has turned it.
            let [row, half, block, at] = match tile.left_step {
                [4, _] if units == SIDE => [ROWS, SIDE, SIDE * ROWS, 0],
                [4, _] => [units, SIDE * units, 0, first * ROWS],
                [row, _] => [row as usize / 4, SIDE * (row as usize / 4), SIDE, first],
            };
            let left = tile.left.cast::<u32>().wrapping_add(at);
            let pass = Pass {
                shapes: Shapes::of(tile.rows, units),
                blocks,
                left: [left.cast(), left.wrapping_add(half).cast()],
                left_step: 4 * row,
                left_block: 4 * block,
                right: tile.right.wrapping_offset(first as isize * tile.right_step),
                right_step: tile.right_step,
                before: if add {
                    [after[0].cast_const(), after[1].cast_const()]
                } else {
                    [ZEROS.as_ptr().cast(); 2]
                },
                before_step: if add { step } else { 0 },
                after,
                after_step: step,
            };
            // SAFETY: the caller's promise: rows of units, or a panel that `finalize` has turned; the output has these rows. `available`
            // found the instruction.
            unsafe { F::run(&pass, tile.rows > SIDE, tile.vectors > 1) };
            add = true;
        }
    }
}
