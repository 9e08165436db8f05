//! A call of a scan without its types: the groups of chains and the tiles of columns that its loops receive.
// Imports: `device`.

use super::super::memory::non_temporal;
use super::super::memory::scratch::{ROUNDING_BYTES, Scratch, StackScratch};
use super::super::strided::pack;
use super::super::strided::{IterSpace, Pointers};
use crate::device::MAX_OPERANDS;

/// Positions of one block, which starts from the identity.
pub(crate) const BLOCK_ELEMENTS: usize = 256;
/// Chains that are computed in parallel.
pub(crate) const CHAINS: usize = 8;
/// The largest number of columns that are computed together.
pub(crate) const MAX_COLUMNS: usize = 1024;
/// Positions of the rows that are transposed together.
const TRANSPOSED_ELEMENTS: usize = 128;
/// The number of these rows, which is the number of concurrent sequences of reads that the processor
/// prefetches.
const TRANSPOSED_ROWS: usize = 16;
/// Bytes of scratch for the packed elements of all operands together, and the bytes that remain after each
/// operand is aligned to a cache line.
const SCRATCH_BYTES: usize = 64 * 1024;
const PACKED_BYTES: usize = SCRATCH_BYTES - ROUNDING_BYTES;

/// The loops of one body and reducer, with their types erased.
#[derive(Clone, Copy)]
pub(crate) struct ScanKernel {
    pub(crate) rows: unsafe fn(body: *const (), groups: &mut ChainGroups<'_>),
    pub(crate) columns: unsafe fn(body: *const (), tiles: &mut ColumnTiles<'_>),
}

/// A kernel with its body and the scanned axis, without their types. Operand 0 is the output.
pub(crate) struct ScanCall<'a> {
    pub(crate) kernel: &'a ScanKernel,
    pub(crate) body: *const (),
    pub(crate) reads: &'a [u8],
    pub(crate) operands: usize,
    /// Steps along the scanned axis, in bytes.
    pub(crate) along: [isize; MAX_OPERANDS],
    pub(crate) element: [usize; MAX_OPERANDS],
    pub(crate) count: usize,
    pub(crate) exclusive: bool,
    /// Whether the output is written by non-temporal stores.
    pub(crate) non_temporal: bool,
}
// SAFETY: bodies are `Send + Sync` by the bounds of their trait, and outlive the call; addresses are followed
// only as the caller of `run_kernel` promised.
unsafe impl Sync for ScanCall<'_> {}

impl ScanCall<'_> {
    /// Scans some rows.
    ///
    /// # Safety
    /// `lines` reaches only elements that the caller of `run_kernel` promised, and each output once.
    pub(crate) unsafe fn part(&self, lines: &IterSpace) {
        let (across, along) = (lines.inner_step(0).unsigned_abs(), self.along[0].unsigned_abs());
        let narrow = self.count < 32 && lines.inner() >= 32;
        let widths = self.widths();
        // Scratch for the transposed operands, and for the output before it is transposed.
        let fits = TRANSPOSED_ELEMENTS * TRANSPOSED_ROWS * (widths + self.element[0]) <= PACKED_BYTES;
        let long = self.count >= TRANSPOSED_ELEMENTS / 2 && self.along[0] == self.element[0] as isize;
        if lines.inner() >= CHAINS && (across < along || narrow) {
            let most = MAX_COLUMNS.min(PACKED_BYTES / widths);
            // SAFETY: the caller's promise.
            unsafe { self.columns(lines, most, (PACKED_BYTES / widths / most).min(BLOCK_ELEMENTS), false) }
        } else if fits && long && lines.inner() >= TRANSPOSED_ROWS {
            let (transposed, rest) = lines.cut_inner(lines.inner() / TRANSPOSED_ROWS * TRANSPOSED_ROWS);
            // SAFETY: the caller's promise; both parts of `lines` are some of its rows.
            unsafe {
                self.columns(&transposed, TRANSPOSED_ROWS, TRANSPOSED_ELEMENTS, true);
                if rest.inner() > 0 {
                    self.rows(&rest);
                }
            }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.rows(lines) }
        }
    }

    /// Bytes of one element of every operand together.
    fn widths(&self) -> usize {
        self.element[..self.operands].iter().sum()
    }

    /// Scans neighboring rows as columns, at most `most` of them together, and at most `rows` positions of
    /// packed operands. `transposed` means that the rows of the output are contiguous.
    ///
    /// # Safety
    /// As [`part`](Self::part).
    unsafe fn columns(&self, lines: &IterSpace, most: usize, rows: usize, transposed: bool) {
        let mut words = StackScratch::<{ SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        for (k, scratch) in scratch[..self.operands].iter_mut().enumerate() {
            if lines.inner_step(k) != self.element[k] as isize || (k == 0 && self.non_temporal) {
                *scratch = Some(room.take(rows * most * self.element[k]));
            }
        }
        let transposed_output =
            (transposed && self.non_temporal).then(|| room.take(rows * most * self.element[0]));
        let rows = if scratch.iter().any(Option::is_some) { rows } else { BLOCK_ELEMENTS };
        let mut tiles = ColumnTiles {
            call: self,
            lines,
            done: 0,
            width: 0,
            most,
            rows,
            at: 0,
            scratch,
            transposed_output,
        };
        // SAFETY: the caller's promise; the scratch has room for `rows` rows of every packed operand.
        unsafe { (self.kernel.columns)(self.body, &mut tiles) };
    }

    /// Scans rows one after the other, or eight at a time.
    ///
    /// # Safety
    /// As [`part`](Self::part).
    unsafe fn rows(&self, lines: &IterSpace) {
        let mut words = StackScratch::<{ SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        let block = BLOCK_ELEMENTS.min(PACKED_BYTES / self.widths() / CHAINS);
        for (k, scratch) in scratch[..self.operands].iter_mut().enumerate() {
            let direct = self.along[k] == self.element[k] as isize;
            if if k == 0 { direct && self.non_temporal } else { !direct } {
                *scratch = Some(room.take(CHAINS * block * self.element[k]));
            }
        }
        let piece = if scratch.iter().any(Option::is_some) { block } else { BLOCK_ELEMENTS };
        let mut groups = ChainGroups {
            call: self,
            lines,
            done: 0,
            rows: 0,
            at: 0,
            piece,
            chains: 0,
            n: 0,
            is_one_row: false,
            scratch,
        };
        // SAFETY: the caller's promise; the scratch has room for a piece of every packed operand.
        unsafe { (self.kernel.rows)(self.body, &mut groups) };
    }

    /// One entry for each load of the body, from one for each operand.
    fn expand_loads<T: Copy, const N: usize>(&self, of: &[T; N], none: T) -> [T; N] {
        let mut each = [none; N];
        for (each, &read) in each.iter_mut().zip(self.reads) {
            *each = of[read as usize + 1];
        }
        each
    }
}

/// Pieces of several rows, or of one row, in order.
pub(crate) struct ChainGroups<'a> {
    pub(crate) call: &'a ScanCall<'a>,
    pub(crate) lines: &'a IterSpace,
    /// Rows that are finished.
    pub(crate) done: usize,
    /// Rows of the current group; 0 before the first.
    pub(crate) rows: usize,
    /// Positions of the current group that are finished.
    pub(crate) at: usize,
    /// The largest number of positions of a chain that are computed at a time: a block, or fewer where packed
    /// operands have little scratch.
    pub(crate) piece: usize,
    /// The number of chains of the current piece, then its positions, and whether the chains are blocks of
    /// one row.
    pub(crate) chains: usize,
    pub(crate) n: usize,
    pub(crate) is_one_row: bool,
    pub(crate) scratch: [Option<*mut u8>; MAX_OPERANDS],
}

/// Some chains of values: rows at the same positions, or consecutive blocks of one row (`is_one_row`).
pub(crate) struct ChainGroup {
    pub(crate) pointers: Pointers,
    /// From chain to chain, in bytes.
    pub(crate) steps: [isize; MAX_OPERANDS],
    pub(crate) chains: usize,
    pub(crate) is_one_row: bool,
    pub(crate) n: usize,
    pub(crate) at: usize,
    pub(crate) out: *mut u8,
    pub(crate) out_chain: isize,
    pub(crate) out_step: isize,
}

impl ChainGroups<'_> {
    /// The next group of chains; its packed operands are in scratch.
    ///
    /// # Safety
    /// As [`ScanCall::part`].
    pub(crate) unsafe fn next(&mut self) -> Option<ChainGroup> {
        let call = self.call;
        if self.rows == 0 || self.at == call.count {
            self.done += self.rows;
            if self.done == self.lines.numel() {
                return None;
            }
            self.rows = self.lines.left_in_row(&self.lines.index_of(self.done)).min(CHAINS);
            self.at = 0;
        }
        let index = self.lines.index_of(self.done);
        let left = call.count - self.at;
        // A piece ends where its block ends. Fewer than eight rows are computed by several blocks at a time.
        let is_one_row = self.rows < CHAINS && left >= 2 * BLOCK_ELEMENTS && self.piece == BLOCK_ELEMENTS;
        if is_one_row {
            self.rows = 1;
        }
        let chains = if is_one_row { (left / BLOCK_ELEMENTS).min(CHAINS) } else { self.rows };
        let n = left.min(self.piece).min(BLOCK_ELEMENTS - self.at % BLOCK_ELEMENTS);
        let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..call.operands {
            base[k] = self
                .lines
                .address_at(k, &index)
                .wrapping_offset((self.at as isize).wrapping_mul(call.along[k]));
            step[k] = if is_one_row {
                call.along[k].wrapping_mul(BLOCK_ELEMENTS as isize)
            } else {
                self.lines.inner_step(k)
            };
            if let Some(room) = self.scratch[k] {
                let width = call.element[k] as isize;
                for chain in (0..chains as isize).take_while(|_| k > 0) {
                    let to = room.wrapping_offset(chain * n as isize * width);
                    let from = base[k].wrapping_offset(chain.wrapping_mul(step[k]));
                    // SAFETY: the caller promised `n` elements of a row; the scratch has room for `chains ·
                    // n`.
                    unsafe { pack::strided(to, width, from, call.along[k], n, call.element[k]) };
                }
                (base[k], step[k]) = (room, n as isize * width);
            }
        }
        let group = ChainGroup {
            pointers: call.expand_loads(&base, std::ptr::null_mut()),
            steps: call.expand_loads(&step, 0),
            chains,
            is_one_row,
            n,
            at: self.at,
            out: base[0],
            out_chain: step[0],
            out_step: call.along[0],
        };
        (self.chains, self.n, self.is_one_row) = (chains, n, is_one_row);
        Some(group)
    }

    /// Stores the computed group, if its output is in scratch, and advances.
    ///
    /// # Safety
    /// As [`ScanCall::part`].
    pub(crate) unsafe fn store(&mut self) {
        let (call, n) = (self.call, self.n);
        if let Some(room) = self.scratch[0] {
            let index = self.lines.index_of(self.done);
            let first = self
                .lines
                .address_at(0, &index)
                .wrapping_offset((self.at as isize).wrapping_mul(call.along[0]));
            let step = if self.is_one_row {
                call.along[0].wrapping_mul(BLOCK_ELEMENTS as isize)
            } else {
                self.lines.inner_step(0)
            };
            for chain in 0..self.chains {
                let nbytes = n * call.element[0];
                let to = first.wrapping_offset((chain as isize).wrapping_mul(step));
                // SAFETY: `n` computed elements; the caller promised their contiguous positions.
                unsafe { non_temporal::copy(to, room.wrapping_add(chain * nbytes), nbytes) };
            }
        }
        self.at += if self.is_one_row { self.chains * n } else { n };
    }
}

/// Some positions of several columns, in order: a column is a row of the operands, a row of the tile is one
/// position.
pub(crate) struct ColumnTiles<'a> {
    pub(crate) call: &'a ScanCall<'a>,
    pub(crate) lines: &'a IterSpace,
    pub(crate) done: usize,
    /// Columns of the current group; 0 before the first.
    pub(crate) width: usize,
    pub(crate) most: usize,
    pub(crate) rows: usize,
    /// Positions of the current group that are finished.
    pub(crate) at: usize,
    pub(crate) scratch: [Option<*mut u8>; MAX_OPERANDS],
    /// Scratch for the transposed output, if its contiguous rows are written by non-temporal stores.
    pub(crate) transposed_output: Option<*mut u8>,
}

/// Rows of a tile: the address of each load's first row, and the steps from row to row, in bytes.
pub(crate) struct ColumnTile {
    pub(crate) pointers: Pointers,
    pub(crate) steps: [isize; MAX_OPERANDS],
    pub(crate) width: usize,
    pub(crate) n: usize,
    pub(crate) at: usize,
    pub(crate) out: *mut u8,
    pub(crate) out_step: isize,
}

impl ColumnTiles<'_> {
    /// The next tile; its packed operands are in scratch.
    ///
    /// # Safety
    /// As [`ScanCall::part`]; the previous tile was computed and stored.
    pub(crate) unsafe fn next(&mut self) -> Option<ColumnTile> {
        let call = self.call;
        if self.width == 0 || self.at == call.count {
            self.done += self.width;
            if self.done == self.lines.numel() {
                return None;
            }
            self.width = self.lines.left_in_row(&self.lines.index_of(self.done)).min(self.most);
            self.at = 0;
        }
        let n = (call.count - self.at).min(self.rows).min(BLOCK_ELEMENTS - self.at % BLOCK_ELEMENTS);
        let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], call.along);
        for k in 0..call.operands {
            base[k] = self.address(k);
            let Some(room) = self.scratch[k] else { continue };
            let element = call.element[k];
            let steps = [(self.width * element) as isize, element as isize];
            if k > 0 {
                let from = [call.along[k], self.lines.inner_step(k)];
                // SAFETY: the caller promised `n` positions of `width` rows; the tile has room.
                unsafe { pack::rectangle(room, steps, base[k], from, [n, self.width], element) };
            }
            (base[k], step[k]) = (room, steps[0]);
        }
        let tile = ColumnTile {
            pointers: call.expand_loads(&base, std::ptr::null_mut()),
            steps: call.expand_loads(&step, 0),
            width: self.width,
            n,
            at: self.at,
            out: base[0],
            out_step: step[0],
        };
        Some(tile)
    }

    /// The address of operand `k` at the current position.
    fn address(&self, k: usize) -> *mut u8 {
        let index = self.lines.index_of(self.done);
        self.lines.address_at(k, &index).wrapping_offset((self.at as isize).wrapping_mul(self.call.along[k]))
    }

    /// Stores `n` computed rows of the tile, if its output is in scratch, and advances.
    ///
    /// # Safety
    /// As [`ScanCall::part`].
    pub(crate) unsafe fn store(&mut self, n: usize) {
        if let Some(room) = self.scratch[0] {
            let (element, along, across) =
                (self.call.element[0], self.call.along[0], self.lines.inner_step(0));
            let (to, steps) = (self.address(0), [(self.width * element) as isize, element as isize]);
            // SAFETY: the tile was computed; the caller promised its positions in the output; the scratch has
            // room for the transposed tile.
            unsafe {
                if let Some(transposed_output) = self.transposed_output {
                    let nbytes = n * element;
                    pack::rectangle(
                        transposed_output,
                        [element as isize, nbytes as isize],
                        room,
                        steps,
                        [n, self.width],
                        element,
                    );
                    for line in 0..self.width {
                        let to = to.wrapping_offset((line as isize).wrapping_mul(across));
                        non_temporal::copy(to, transposed_output.wrapping_add(line * nbytes), nbytes);
                    }
                } else if self.call.non_temporal && across == element as isize {
                    for row in 0..n {
                        let to = to.wrapping_offset((row as isize).wrapping_mul(along));
                        non_temporal::copy(
                            to,
                            room.wrapping_add(row * self.width * element),
                            self.width * element,
                        );
                    }
                } else {
                    pack::rectangle(to, [along, across], room, steps, [n, self.width], element);
                }
            }
        }
        self.at += n;
    }
}
