//! What a kernel is: a tile of the output from two panels.
//!
//! Imports: nothing.

use super::pack::Pack;

/// Rows of the largest tile.
pub(super) const MOST_ROWS: usize = 32;
/// Sums of the largest tile: 32 rows by two vectors of 16.
pub(super) const MOST_SUMS: usize = 1024;
/// Rows of the largest tile whose sums may start with something.
pub(super) const STARTED_ROWS: usize = 12;

/// One tile: `out[r][c] (+)= start[r] + Σ left[r] · right[c]` over some units.
pub(super) struct Tile<U, S> {
    /// 1 to `Kernel::ROWS`, or to `Kernel::WIDE_ROWS` by more than two vectors.
    pub(super) rows: usize,
    /// 1 to 4 vectors of columns.
    pub(super) vectors: usize,
    pub(super) units: usize,
    pub(super) left: *const U,
    /// From row to row and from unit to unit: `[1, most rows of this width]` in a panel, as it was packed, `[_, 1]` in rows.
    pub(super) left_step: [isize; 2],
    pub(super) right: *const U,
    /// From unit to unit.
    pub(super) right_step: isize,
    pub(super) start: Option<[S; STARTED_ROWS]>,
    /// The rows of the output; its columns stand side by side.
    pub(super) out: [*mut S; MOST_ROWS],
    /// Whether the output already holds a part of the sum; it is not read otherwise.
    pub(super) add: bool,
}

/// A way to multiply panels.
pub(super) trait Kernel: Copy + Send + Sync + 'static {
    /// What a panel holds of one lane and one step.
    type Unit: Copy;
    /// What is summed in.
    type Sum: Copy + Default + 'static;
    /// Rows of a tile of one or two vectors, at most.
    const ROWS: usize;
    /// Rows of a tile of three or four vectors, at most; 0 where there is none.
    const WIDE_ROWS: usize = 0;
    /// Columns of a vector.
    const LANES: usize;
    /// How many indices along `k` a unit has.
    const DEPTH: usize;
    /// How the left operand is packed as rows, where its units stand side by side and the kernel reads such rows.
    const IN_ROWS: Option<Pack> = None;
    /// Whether the left operand may be read where it stands.
    const DIRECT: bool;

    /// Finishes a left panel that was packed: brings it into another order, if this kernel reads one, and says what its rows
    /// start with, if not 0.
    ///
    /// # Safety
    /// The panel has `units` units, and [`BEYOND`](super::pack::BEYOND) bytes behind it hold nothing yet.
    unsafe fn finish(panel: *mut Self::Unit, units: usize) -> Option<[Self::Sum; STARTED_ROWS]>;

    /// Asks for `width` lanes of each of some units, which will be read soon.
    fn fetch(self, _from: *const Self::Unit, _step: isize, _units: usize, _width: usize) {}

    /// Computes one tile.
    ///
    /// # Safety
    /// Rows, columns and units of the tile are there; with `add` the output has been written.
    unsafe fn tile(self, tile: &Tile<Self::Unit, Self::Sum>);
}
