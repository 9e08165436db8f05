//! Sizes of blocks, in units, rows, panels or bytes, and the thresholds between the forms of an operand.
//!
//! The names of BLIS: NR is the width of a panel, MR the rows of a microkernel's tile, KC, MC and NC the
//! sizes of the blocks along `k`, along the rows and along the columns. Arrays of two sizes are for vectors
//! of at most 256 bits and for vectors of 512 bits, whose processors have larger L2 caches.
// Imports: nothing.

/// KC, in bytes of units of one lane: their products are summed before they are added to the output. A deeper
/// block reads and writes the output less often; a block of the left operand must fit in L2.
pub(super) const K_BLOCK_BYTES: usize = 4096;
/// As many units of the smallest size, 4 bytes.
pub(super) const MAX_K_BLOCK_UNITS: usize = K_BLOCK_BYTES / 4;
/// KC, in units, if each row of the left operand is read only once.
pub(super) const SINGLE_PASS_UNITS: usize = 4096;
/// Units that are packed together. They are few, so that the rows that they are read from do not evict each
/// other from the cache.
pub(super) const PACK_STRIP_UNITS: usize = 64;
/// The same for the left operand. The rows of a tile are a part of a cache line, and the lines of these units
/// wait in L1 for the next tiles.
pub(super) const PACK_LEFT_STRIP_UNITS: usize = 16;
/// Elements of the deepest unit.
pub(super) const MAX_DEPTH: usize = 4;

/// For at most this many rows, the right operand is read once, in place, without packing. The second
/// value is that of kernels with 512-bit registers.
pub(super) const MAX_READ_ONCE_ROWS: [usize; 2] = [24, 32];
/// At most this many rows are the columns of a transposed product.
pub(super) const MAX_TRANSPOSED_ROWS: usize = 32;
/// The shortest rows, in units, that are read in place as the left operand of few columns.
pub(super) const MIN_ROW_UNITS: usize = 32;
/// KC, in units, of a product that reads the right operand once. The cache lines of these units wait in L2
/// for the next columns; rows that are a power of two apart share few sets of it.
pub(super) const READ_ONCE_UNITS: usize = 64;
/// Panels of an operand that is read once that are prefetched ahead.
pub(super) const PREFETCHED_PANELS: usize = 2;
/// Bytes of the sums of a product that reads the right operand once that stay in the cache.
pub(super) const READ_ONCE_SUM_BYTES: usize = 128 << 10;

/// MC, in rows, if several threads share the product.
pub(super) const ROW_BLOCK: usize = 240;
/// Tasks for each thread, where there are several: a delayed thread then delays the others only a little.
pub(super) const TASKS_PER_THREAD: usize = 2;
/// MC, in rows, if several threads share the product and read the left operand in place.
pub(super) const IN_PLACE_ROW_BLOCK: usize = 960;
/// MC, in rows, if one thread computes the whole product and packs columns of the left operand, with 512-bit
/// registers: they are read in longer parts.
pub(super) const COLUMNS_ROW_BLOCK: usize = 480;
/// MC, in rows, if one thread computes the whole product and reads the left operand in place.
pub(super) const TALL_ROW_BLOCK: usize = 1920;
/// NC, in panels, if panels of the right operand are packed just before all rows use them.
pub(super) const PANELS_PACKED_TOGETHER: usize = 4;
/// NC, in bytes of the right operand, otherwise: the block stays in L2 while all rows use it.
pub(super) const COLUMN_BLOCK_BYTES: [usize; 2] = [256 << 10, 704 << 10];
/// KC is a multiple of this many units.
pub(super) const K_BLOCK_MULTIPLE: usize = 16;
/// Units of a tile that are summed after its output was prefetched.
pub(super) const UNITS_AFTER_PREFETCH: usize = 32;

/// Rows of the left operand that are further apart than this many bytes are *far apart*.
pub(super) const FAR_APART_BYTES: usize = 2048;
/// Bytes for the initial sums of a packed panel.
pub(super) const INITIAL_SUM_BYTES: usize = 64;
/// Bytes of the right operand that are packed together, unless one panel has more.
pub(super) const PACKED_RIGHT_BYTES: usize = 8 << 20;

/// Up to this many bytes a right operand is read in place.
pub(super) const RIGHT_IN_PLACE_BYTES: [usize; 2] = [64 << 10, 256 << 10];
/// As above, if each row of the right operand begins at a cache line.
pub(super) const ALIGNED_RIGHT_IN_PLACE_BYTES: [usize; 2] = [256 << 10, 1 << 20];
/// As above, for few rows of the left operand on one thread: packing would take longer than it saves.
pub(super) const FEW_ROWS_RIGHT_IN_PLACE_BYTES: usize = 1 << 20;
/// Up to this many bytes a left operand with contiguous columns is read in place.
pub(super) const LEFT_IN_PLACE_BYTES: usize = 256 << 10;
/// Up to this many columns of the product likewise.
pub(super) const LEFT_IN_PLACE_COLUMNS: usize = 256;
/// The shortest contiguous spans along `k`, in units, of windows that are read in place.
pub(super) const MIN_SPAN_UNITS: usize = 16;
/// The fewest neighboring rows of windows that are read in place.
pub(super) const MIN_SPAN_ROWS: usize = 4;
/// The largest distance of neighbors along `k`, in units, of windows that are read in place.
pub(super) const MAX_UNIT_STRIDE: usize = 256;
/// Rows far apart of one tile that are read in place: as many cache lines as one set of L1 holds.
pub(super) const MAX_FAR_APART_ROWS: usize = 8;
