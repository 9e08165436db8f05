//! What a kernel is: a tile of the output from two panels.
// Imports: nothing.

#[cfg(target_arch = "x86_64")]
pub(super) mod amx;
pub(super) mod complex;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86_64;

use super::packing::PackFn;

/// Rows of the largest tile, and bytes of its sums: two vectors of 64 bytes a row.
pub(super) const MAX_TILE_ROWS: usize = 32;
pub(super) const MAX_TILE_BYTES: usize = MAX_TILE_ROWS * 2 * 64;
/// Rows of the largest tile whose sums may start with something.
pub(super) const MAX_INITIAL_ROWS: usize = 12;
/// Where they start with nothing.
pub(super) static ZERO_INITIAL: [i32; MAX_INITIAL_ROWS] = [0; MAX_INITIAL_ROWS];

/// One tile: `out[r][c] (+)= start[r] + Σ left[r] · right[c]` over some units. Addresses are those of units and of sums, steps
/// are in bytes.
pub(super) struct Tile {
    /// 1 to `KernelInfo::rows`.
    pub(super) rows: usize,
    /// 1 or 2 vectors of columns.
    pub(super) vectors: usize,
    /// Before the output is asked for, and after that, 1 at least.
    pub(super) units: [usize; 2],
    pub(super) left: *const u8,
    /// From row to row and from unit to unit: the steps of a panel, as it was packed, or `[_, KernelInfo::unit]` in
    /// rows.
    pub(super) left_step: [isize; 2],
    pub(super) right: *const u8,
    /// From unit to unit.
    pub(super) right_step: isize,
    /// What sums that are whole numbers of 32 bits start with, for each of [`MAX_INITIAL_ROWS`].
    pub(super) start: *const i32,
    /// The first row of the output, whose columns stand side by side, and from row to row.
    pub(super) out: *mut u8,
    pub(super) out_step: isize,
    /// Whether the output already holds a part of the sum; it is not read otherwise.
    pub(super) add: bool,
}

/// A kernel, whose types are known no more: what drives it is compiled once for all of them.
#[derive(Clone, Copy)]
pub(super) struct KernelInfo {
    /// Bytes of a unit, and of a sum.
    pub(super) unit: usize,
    pub(super) sum: usize,
    /// Rows of a tile, at most.
    pub(super) rows: usize,
    /// Columns of a vector.
    pub(super) lanes: usize,
    /// How many indices along `k` a unit has.
    pub(super) depth: usize,
    /// How the left operand is packed as rows, where its units stand side by side and the kernel reads such rows.
    pub(super) in_rows: Option<PackFn>,
    /// Whether the left operand may be read where it stands.
    pub(super) direct: bool,
    /// Whether sums may start with something.
    pub(super) starts: bool,
    pub(super) finalize: unsafe fn(panel: *mut u8, units: usize) -> Option<[i32; MAX_INITIAL_ROWS]>,
    pub(super) tile: unsafe fn(tile: &Tile),
}

impl KernelInfo {
    /// Whether its vectors have 512 bits.
    pub(super) fn is_wide(self) -> bool {
        self.lanes * self.sum >= 64
    }
}

/// A way to multiply panels.
pub(super) trait Kernel: Copy + Send + Sync + 'static {
    /// What a panel holds of one lane and one step.
    type Unit: Copy;
    /// What is summed in.
    type Sum: Copy + Default + 'static;
    const ROWS: usize;
    const LANES: usize;
    const DEPTH: usize;
    const PACK_IN_ROWS: Option<PackFn> = None;
    const READS_UNPACKED: bool;
    const HAS_INITIAL: bool = false;

    /// Finishes a left panel that was packed: brings it into another order, if this kernel reads one, and says what its rows
    /// start with, if not 0.
    ///
    /// # Safety
    /// The panel has `units` units, and [`PANEL_PADDING_BYTES`](super::packing::PANEL_PADDING_BYTES) bytes behind it hold nothing yet.
    unsafe fn finalize(_panel: *mut u8, _units: usize) -> Option<[i32; MAX_INITIAL_ROWS]> {
        None
    }

    /// Computes one tile.
    ///
    /// # Safety
    /// Rows, columns and units of the tile are there, and at least one unit; with `add` the output has been written.
    unsafe fn tile(tile: &Tile);

    const INFO: KernelInfo = {
        assert!(Self::ROWS * 2 * Self::LANES * size_of::<Self::Sum>() <= MAX_TILE_BYTES);
        KernelInfo {
            unit: size_of::<Self::Unit>(),
            sum: size_of::<Self::Sum>(),
            rows: Self::ROWS,
            lanes: Self::LANES,
            depth: Self::DEPTH,
            in_rows: Self::PACK_IN_ROWS,
            direct: Self::READS_UNPACKED,
            starts: Self::HAS_INITIAL,
            finalize: Self::finalize,
            tile: Self::tile,
        }
    };
}

/// A kernel that can multiply complex numbers.
pub(super) trait ComplexKernel: Kernel {
    /// Computes a tile of complex numbers, whose real and imaginary parts are units and sums of this kernel, by half as many rows and
    /// columns.
    ///
    /// # Safety
    /// As [`Kernel::tile`].
    unsafe fn complex_tile(tile: &Tile);
}

/// An address that several threads write, each at its own places.
#[derive(Clone, Copy)]
pub(super) struct SyncPtr(pub(super) *mut u8);

// SAFETY: an address only; whoever follows it answers for it.
unsafe impl Sync for SyncPtr {}

impl SyncPtr {
    pub(super) fn get(&self) -> *mut u8 {
        self.0
    }
}
