//! The layout of packed panels, the memory that holds them, and the functions that fill and read them.
//!
//! A *panel* holds some lanes (rows of the left operand, columns of the right one) for all of `k`, in the
//! order in which the microkernel reads them: `[unit][lane][depth]`. A *unit* holds the elements of one lane
//! that the microkernel takes in one step: `depth` neighbors along `k`. The packed buffers are those of K.
//! Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34 (3), 2008.
// Imports: `error`.

use super::super::memory::CpuBlock;
use crate::error::Result;

/// Bytes after a panel that packing and finishing it may write; see `Microkernel::finish_panel`.
pub(super) const PANEL_PADDING_BYTES: usize = 64;

/// Lanes of the widest panel.
pub(super) const MAX_PANEL_LANES: usize = 64;

/// Packs the lanes at the offsets `lanes`, for the offsets `k`, into a panel of `width` lanes. Missing lanes
/// and missing elements of the last unit become 0.
pub(super) type PackFn = unsafe fn(from: *const u8, lanes: &[isize], k: &[isize], width: usize, to: *mut u8);

/// Unpacks the first `lanes` lanes of a panel of `width` lanes: each of `k` indices becomes a row at `to`.
/// Rows are `stride` elements apart.
pub(super) type UnpackFn =
    unsafe fn(panel: *const u8, lanes: usize, k: usize, width: usize, to: *mut u8, stride: usize);

/// How the columns of a right operand are laid out in panels.
#[derive(Clone, Copy)]
pub(super) struct PanelLayout {
    /// Lanes of a panel: NR.
    pub(super) width: usize,
    /// Units of a lane.
    pub(super) units: usize,
    /// Bytes of a panel; saturates.
    pub(super) nbytes: usize,
    /// Number of panels.
    pub(super) count: usize,
}

impl PanelLayout {
    /// For `k` rows and `n` columns, packed for a microkernel of one or two vectors of `lanes` columns, whose
    /// units have `depth` elements and `unit_nbytes` bytes.
    pub(super) fn new(lanes: usize, depth: usize, unit_nbytes: usize, [k, n]: [usize; 2]) -> PanelLayout {
        let (width, units) = (n.div_ceil(lanes).clamp(1, 2) * lanes, k.div_ceil(depth));
        PanelLayout {
            width,
            units,
            nbytes: units.saturating_mul(width * unit_nbytes),
            count: n.div_ceil(width),
        }
    }
}

/// Memory for panels, aligned to a cache line. It comes from the pool of the device.
pub(super) struct PanelBuffer(CpuBlock);

impl PanelBuffer {
    /// Memory for `a · b` values of `size` bytes, and for the padding that packing writes after them.
    pub(super) fn new(a: usize, b: usize, size: usize) -> Result<Self> {
        let nbytes = a
            .checked_mul(b)
            .and_then(|n| n.checked_mul(size))
            .and_then(|n| n.checked_add(PANEL_PADDING_BYTES))
            .unwrap_or(usize::MAX);
        Ok(PanelBuffer(CpuBlock::scratch(nbytes)?))
    }

    /// The first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.0.address()
    }
}
