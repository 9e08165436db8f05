//! Microkernels: the loop that computes one tile of the output, MR rows by NR columns, from two panels.
//!
//! | file | kernels |
//! |---|---|
//! | `x86_64.rs` | AVX2 and AVX-512 |
//! | `amx.rs` | Intel AMX |
//! | `complex.rs` | complex numbers, by a kernel of their parts |
//! | `portable.rs` | any processor, vectorized by the compiler |
//!
//! A kernel is a type that implements [`Microkernel`]. `routes.rs` lists the kernels for each triple of
//! element types.
// Imports: nothing.

#[cfg(target_arch = "x86_64")]
pub(super) mod amx;
pub(super) mod complex;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86_64;

use super::panels::{PackFn, PanelLayout};

/// Rows of the largest tile, and bytes of its sums: two vectors of 64 bytes for each row.
pub(super) const MAX_TILE_ROWS: usize = 32;
pub(super) const MAX_TILE_BYTES: usize = MAX_TILE_ROWS * 2 * 64;
/// Rows of the largest tile whose sums may have initial values other than 0.
pub(super) const MAX_INITIAL_ROWS: usize = 12;
/// Initial values of sums that start at 0.
pub(super) static ZERO_INITIAL: [i32; MAX_INITIAL_ROWS] = [0; MAX_INITIAL_ROWS];

/// The arguments of a microkernel: `out[r][c] (+)= initial[r] + Σ left[r] · right[c]` over some units.
/// Addresses are those of units and of sums; strides are in bytes.
pub(super) struct Tile {
    /// 1 to [`KernelInfo::mr`].
    pub(super) rows: usize,
    /// Vectors of columns: 1 or 2.
    pub(super) vectors: usize,
    /// Spans of units before the last one, the units of each, and the bytes from the end of one to the next
    /// in the left operand. Only kernels that read the left operand in place have more than one span; the
    /// right operand has none.
    pub(super) spans: usize,
    pub(super) span_units: usize,
    pub(super) span_gap: isize,
    /// Units of the last span before the output is prefetched, and units after that, which are at least 1.
    pub(super) units: [usize; 2],
    pub(super) left: *const u8,
    /// From row to row and from unit to unit: the strides of a packed panel, or `[_, unit_nbytes]` for rows.
    pub(super) left_stride: [isize; 2],
    pub(super) right: *const u8,
    /// From unit to unit.
    pub(super) right_stride: isize,
    /// Initial values of sums in i32, one for each of [`MAX_INITIAL_ROWS`] rows.
    pub(super) initial: *const i32,
    /// The first row of the output, whose columns are contiguous.
    pub(super) out: *mut u8,
    /// From row to row.
    pub(super) out_stride: isize,
    /// Whether the output already holds a part of each sum. If not, it is not read.
    pub(super) accumulate: bool,
}

/// A kernel without its types: the loops around it are compiled once for all kernels.
#[derive(Clone, Copy)]
pub(super) struct KernelInfo {
    pub(super) unit_nbytes: usize,
    pub(super) sum_nbytes: usize,
    /// MR: the most rows of a tile.
    pub(super) mr: usize,
    /// Columns of a vector. NR is one or two vectors.
    pub(super) lanes: usize,
    /// Elements along `k` of a unit.
    pub(super) depth: usize,
    /// How a left operand whose units are contiguous is packed as rows, if the kernel reads packed rows.
    pub(super) pack_in_rows: Option<PackFn>,
    /// Whether the kernel can read the left operand in place.
    pub(super) reads_in_place: bool,
    /// Whether sums may have initial values other than 0.
    pub(super) has_initial: bool,
    /// [`Microkernel::finish_panel`].
    pub(super) finish_panel: unsafe fn(panel: *mut u8, units: usize) -> Option<[i32; MAX_INITIAL_ROWS]>,
    /// [`Microkernel::tile`].
    pub(super) tile: unsafe fn(tile: &Tile),
}

impl KernelInfo {
    /// Whether its vectors have 512 bits.
    pub(super) fn is_512_bits(self) -> bool {
        self.lanes * self.sum_nbytes >= 64
    }

    /// The panels of a right operand of `k` rows and `n` columns.
    pub(super) fn panel_layout(self, k: usize, n: usize) -> PanelLayout {
        PanelLayout::new(self.lanes, self.depth, self.unit_nbytes, [k, n])
    }
}

/// A microkernel.
pub(super) trait Microkernel: Copy + Send + Sync + 'static {
    /// The elements of one lane that one step takes.
    type Unit: Copy;
    /// The type of the sums.
    type Sum: Copy + Default + 'static;
    /// The most rows of a tile.
    const MR: usize;
    /// Columns of a vector; the most columns of a tile are twice as many.
    const LANES: usize;
    /// Elements along `k` of a unit.
    const DEPTH: usize;
    /// See [`KernelInfo::pack_in_rows`].
    const PACK_IN_ROWS: Option<PackFn> = None;
    /// See [`KernelInfo::reads_in_place`].
    const READS_IN_PLACE: bool;
    /// See [`KernelInfo::has_initial`].
    const HAS_INITIAL: bool = false;

    /// Finishes a packed left panel: brings it into another order, if this kernel reads one, and returns the
    /// initial values of its rows, if they are not 0.
    ///
    /// # Safety
    /// 1. The processor has the kernel's instructions.
    /// 2. The panel has `units` units of [`MR`](Microkernel::MR) rows.
    /// 3. The [`PANEL_PADDING_BYTES`](super::panels::PANEL_PADDING_BYTES) bytes after it may be written.
    unsafe fn finish_panel(_panel: *mut u8, _units: usize) -> Option<[i32; MAX_INITIAL_ROWS]> {
        None
    }

    /// Computes one tile.
    ///
    /// # Safety
    /// 1. The processor has the kernel's instructions.
    /// 2. The operands hold the rows, columns and units of the tile, at least one unit; a packed left panel
    ///    has [`MR`](Microkernel::MR) rows and was finished.
    /// 3. The rows of the output may be written, and with `accumulate` they hold sums.
    unsafe fn tile(tile: &Tile);

    const INFO: KernelInfo = {
        assert!(Self::MR * 2 * Self::LANES * size_of::<Self::Sum>() <= MAX_TILE_BYTES);
        KernelInfo {
            unit_nbytes: size_of::<Self::Unit>(),
            sum_nbytes: size_of::<Self::Sum>(),
            mr: Self::MR,
            lanes: Self::LANES,
            depth: Self::DEPTH,
            pack_in_rows: Self::PACK_IN_ROWS,
            reads_in_place: Self::READS_IN_PLACE,
            has_initial: Self::HAS_INITIAL,
            finish_panel: Self::finish_panel,
            tile: Self::tile,
        }
    };
}

/// A kernel that can also multiply complex numbers.
pub(super) trait ComplexKernel: Microkernel {
    /// Computes a tile of complex numbers with half as many rows and columns. Their real and imaginary parts
    /// are units and sums of this kernel.
    ///
    /// # Safety
    /// As [`Microkernel::tile`].
    unsafe fn complex_tile(tile: &Tile);
}
