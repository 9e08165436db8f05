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

/// One tile: `out[r][c] (+)= start[r] + Σ left[r] · right[c]` over some units. Addresses are those of units and of sums, steps are
/// in units.
pub(super) struct Tile {
    /// 1 to `Form::rows`, or to `Form::wide_rows` by more than two vectors.
    pub(super) rows: usize,
    /// 1 to 4 vectors of columns.
    pub(super) vectors: usize,
    pub(super) units: usize,
    pub(super) left: *const u8,
    /// From row to row and from unit to unit: `[1, most rows of this width]` in a panel, as it was packed, `[_, 1]` in rows.
    pub(super) left_step: [isize; 2],
    pub(super) right: *const u8,
    /// From unit to unit.
    pub(super) right_step: isize,
    /// What sums that are whole numbers of 32 bits start with.
    pub(super) start: [i32; STARTED_ROWS],
    /// The rows of the output; its columns stand side by side. Of the rows that are not there, an even number is in all, some place
    /// that nobody reads.
    pub(super) out: [*mut u8; MOST_ROWS],
    /// Whether the output already holds a part of the sum; it is not read otherwise.
    pub(super) add: bool,
}

/// A kernel, whose types are known no more: what drives it is compiled once for all of them.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Bytes of a unit, and of a sum.
    pub(super) unit: usize,
    pub(super) sum: usize,
    /// Rows of a tile of one or two vectors, at most.
    pub(super) rows: usize,
    /// Rows of a tile of three or four vectors, at most; 0 where there is none.
    pub(super) wide_rows: usize,
    /// Columns of a vector.
    pub(super) lanes: usize,
    /// How many indices along `k` a unit has.
    pub(super) depth: usize,
    /// How the left operand is packed as rows, where its units stand side by side and the kernel reads such rows.
    pub(super) in_rows: Option<Pack>,
    /// Whether the left operand may be read where it stands.
    pub(super) direct: bool,
    pub(super) finish: unsafe fn(panel: *mut u8, units: usize) -> Option<[i32; STARTED_ROWS]>,
    pub(super) tile: unsafe fn(tile: &Tile),
}

/// A way to multiply panels.
pub(super) trait Kernel: Copy + Send + Sync + 'static {
    /// What a panel holds of one lane and one step.
    type Unit: Copy;
    /// What is summed in.
    type Sum: Copy + Default + 'static;
    const ROWS: usize;
    const WIDE_ROWS: usize = 0;
    const LANES: usize;
    const DEPTH: usize;
    const IN_ROWS: Option<Pack> = None;
    const DIRECT: bool;

    /// Finishes a left panel that was packed: brings it into another order, if this kernel reads one, and says what its rows
    /// start with, if not 0.
    ///
    /// # Safety
    /// The panel has `units` units, and [`BEYOND`](super::pack::BEYOND) bytes behind it hold nothing yet.
    unsafe fn finish(_panel: *mut u8, _units: usize) -> Option<[i32; STARTED_ROWS]> {
        None
    }

    /// Computes one tile.
    ///
    /// # Safety
    /// Rows, columns and units of the tile are there; with `add` the output has been written.
    unsafe fn tile(tile: &Tile);

    const FORM: Form = {
        assert!(Self::ROWS * 2 * Self::LANES <= MOST_SUMS && Self::WIDE_ROWS * 4 * Self::LANES <= MOST_SUMS && size_of::<Self::Sum>() <= 8);
        Form {
            unit: size_of::<Self::Unit>(),
            sum: size_of::<Self::Sum>(),
            rows: Self::ROWS,
            wide_rows: Self::WIDE_ROWS,
            lanes: Self::LANES,
            depth: Self::DEPTH,
            in_rows: Self::IN_ROWS,
            direct: Self::DIRECT,
            finish: Self::finish,
            tile: Self::tile,
        }
    };
}
