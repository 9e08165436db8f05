//! Operands through tiles in L1: strided operands are packed, and outputs with non-temporal stores are
//! staged.
//!
//! Nothing here is generic over the program, so it is compiled once.
// Imports: `device`.

use super::call::{KernelCall, Loops, MAX_ELEMENT_BYTES, NOT_PACKED, PackedOperands};
use crate::device::cpu::memory::scratch::{CACHE_LINE_BYTES, ROUNDING_BYTES, Scratch, StackScratch};
use crate::device::cpu::memory::{non_temporal, prefetch};
use crate::device::cpu::strided::{IterSpace, Pointers, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::{
    FEW_ROWS, L1_SCRATCH_BYTES, NON_TEMPORAL_PIECE_BYTES, PACKED_ROW_ELEMENTS, PACKED_ROWS,
    PIECE_UNIT_ELEMENTS, PREFETCHED_OPERANDS, READ_PIECE_BYTES, SHORT_ROW_BYTES, SHORT_STRIDE_ELEMENTS,
    STRIDED_READ_BYTES, STRIP_COLUMNS, WHOLE_ROW_ELEMENTS,
};
use crate::device::{MAX_OPERANDS, OperandRef};

/// Rows and columns of a tile of rows, or of a packed block; `widths` bytes are packed for each index. With
/// `joint`, whole rows are stored non-temporally together.
fn tile_size(
    space: &IterSpace,
    slots: &[OperandRef<'_>],
    widths: usize,
    by_rows: bool,
    joint: bool,
    is_transposed: bool,
) -> [usize; 2] {
    let n = space.inner();
    if widths == 0 {
        return [usize::MAX; 2];
    }
    if joint {
        return [(L1_SCRATCH_BYTES / 2 / (n * widths)).max(1), n];
    }
    // A tile of a transposed operand is one cache line high.
    let element = slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, MAX_ELEMENT_BYTES);
    let (rows, most) = match space.outer_axis() {
        _ if is_transposed => (64 / element, STRIP_COLUMNS),
        Some(_) if by_rows => ((L1_SCRATCH_BYTES / 2 / (n * widths)).max(PACKED_ROWS), PACKED_ROW_ELEMENTS),
        _ => (1, PACKED_ROW_ELEMENTS),
    };
    // For any number of operands the scratch has room for 16 elements of each row.
    let rows = rows.min(((L1_SCRATCH_BYTES - ROUNDING_BYTES) / (16 * widths)).max(1));
    let block = ((L1_SCRATCH_BYTES - ROUNDING_BYTES) / (rows * widths)).min(most) / 16 * 16;
    // The row is cut into blocks of nearly equal lengths.
    let parts = if by_rows { n.div_ceil(block.max(1)) } else { 1 };
    [rows, if parts > 1 { n.div_ceil(parts).next_multiple_of(16) } else { block.max(1) }]
}

impl KernelCall<'_> {
    /// Runs on a part of the iteration space: in place if every operand is contiguous, otherwise by
    /// non-temporal chunks, pieces of rows, tiles of rows, or packed blocks.
    ///
    /// # Safety
    /// The obligations of the kernel, for every index of the space.
    pub(crate) unsafe fn run_part(&self, space: &IterSpace, slots: &[OperandRef<'_>]) {
        let linear = |k: usize| space.is_linear(k, slots[k].element);
        let buffered = |k: usize| k < self.outputs && self.non_temporal;
        let n = space.numel();
        if (0..slots.len()).all(|k| linear(k) && !buffered(k)) {
            // SAFETY: by the caller's promise: every operand has `n` contiguous elements.
            return unsafe { self.run_row(&self.expand_loads(&space.address), n) };
        }
        let mut words = StackScratch::<{ L1_SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        if self.can_store_non_temporal(space, slots) {
            // SAFETY: `can_store_non_temporal` returned `true`, and by the caller's promise.
            return unsafe { self.non_temporal_chunks(space, slots, &room) };
        }
        // Rows that are long enough are processed as rows, several in one tile. So are many short rows that a
        // cheap program can use in place. Other rows are packed, several to a block.
        let broadcast = self.broadcast_load(|k| space.inner_step(k) == 0);
        let is_direct = |k: usize| {
            space.inner_step(k) == slots[k].element as isize
                || broadcast.is_some_and(|(operand, _)| operand == k)
        };
        let all_direct = (0..slots.len()).all(is_direct);
        let many = space.outer_axis().is_some_and(|axis| space.size(axis) >= FEW_ROWS);
        let whole = space.inner() >= WHOLE_ROW_ELEMENTS || (self.cheap && all_direct && many);
        // Short rows of outputs that follow each other without gaps are stored non-temporally together.
        let row = |k: usize| space.inner() * slots[k].element;
        let follows = |k: usize| {
            row(k) <= SHORT_ROW_BYTES
                && space.outer_axis().is_some_and(|axis| space.step(axis, k) == row(k) as isize)
        };
        let joint = self.non_temporal && all_direct && whole && (0..self.outputs).all(follows);
        let by_rows = joint || (whole && (!self.non_temporal || space.inner() >= WHOLE_ROW_ELEMENTS));
        let broadcast = broadcast.filter(|_| by_rows);
        let is_packed = |k: usize| buffered(k) || !(linear(k) || (by_rows && is_direct(k)));
        let in_steps = |k: usize| ![0, slots[k].element as isize].contains(&space.inner_step(k));
        // In place, the first inputs are also the outputs, and keep their places.
        let prefetches = self.memory_bound && self.first > 0 && (self.first..slots.len()).any(in_steps);
        if (self.non_temporal || prefetches)
            && by_rows
            && !joint
            && (0..slots.len()).all(|k| self.fits_pieces(space, slots, k))
        {
            // SAFETY: by the caller's promise. Outputs are contiguous along rows; inputs are contiguous,
            // broadcast, or have a short stride.
            return unsafe { self.row_pieces(space, slots, &room) };
        }
        let widths: usize = (0..slots.len()).filter(|&k| is_packed(k)).map(|k| slots[k].element).sum();
        let is_transposed = |&k: &usize| by_rows && is_packed(k) && space.inner_step(k) != 0;
        let transposed =
            (0..slots.len()).filter(is_transposed).find_map(|k| space.transposed_axis(k, slots[k].element));
        let axis = transposed.or(space.outer_axis());
        let [rows, block] = tile_size(space, slots, widths, by_rows, joint, transposed.is_some());
        let mut packed = NOT_PACKED;
        for k in (0..slots.len()).filter(|&k| is_packed(k)) {
            packed[k] = Some(room.take(rows * block * slots[k].element));
        }
        let loops = broadcast.map_or(self.loops, |(_, rows)| Loops { rows, ..self.loops });
        // SAFETY: by the caller's promise; the scratch has room for `rows · block` elements of each packed
        // operand.
        unsafe {
            if by_rows {
                KernelCall { loops, ..*self }.tiled_rows(
                    space,
                    slots,
                    &packed,
                    (axis, transposed.is_some()),
                    [rows, block],
                );
            } else {
                self.packed_blocks(space, slots, &packed, block);
            }
        }
    }

    /// Whether operand `k` can be computed by short pieces of rows.
    fn fits_pieces(&self, space: &IterSpace, slots: &[OperandRef<'_>], k: usize) -> bool {
        match space.inner_step(k) / slots[k].element as isize {
            1 => true,
            0 => k >= self.outputs,
            // Short rows, and rows with other elements in their gaps, are better packed several at a time.
            times => {
                let is_long = space.inner() * slots[k].element >= 2 * READ_PIECE_BYTES;
                k >= self.outputs
                    && times.unsigned_abs() <= SHORT_STRIDE_ELEMENTS
                    && is_long
                    && !space.has_gaps_within_row(k)
            }
        }
    }

    /// Computes rows of large outputs by short pieces. While a piece is stored, the operands of the next one
    /// are prefetched. With `non_temporal`, outputs use non-temporal stores. Every output is contiguous along
    /// rows; an input is contiguous, broadcast, or has a short stride.
    ///
    /// # Safety
    /// The obligations of the kernel, for every index of the space.
    unsafe fn row_pieces(&self, space: &IterSpace, slots: &[OperandRef<'_>], room: &Scratch<'_>) {
        let contiguous = |k: usize| space.inner_step(k) == slots[k].element as isize;
        let tiled = |k: usize| if k < self.outputs { self.non_temporal } else { !contiguous(k) };
        let stepped = |&k: &usize| tiled(k) && space.inner_step(k) != 0;
        let widths: usize = (0..slots.len()).filter(|&k| tiled(k)).map(|k| slots[k].element).sum();
        let piece = if self.non_temporal { NON_TEMPORAL_PIECE_BYTES } else { READ_PIECE_BYTES };
        let mut most = piece / slots[0].element;
        let inputs = self.outputs..slots.len();
        if self.non_temporal && inputs.clone().filter(stepped).count() > 1 {
            let read: usize = inputs.map(|k| space.inner_step(k).unsigned_abs()).sum();
            most = most.min(
                (STRIDED_READ_BYTES / read / PIECE_UNIT_ELEMENTS * PIECE_UNIT_ELEMENTS)
                    .max(PIECE_UNIT_ELEMENTS),
            );
        }
        let block = most.min((L1_SCRATCH_BYTES - ROUNDING_BYTES) / widths).min(space.inner());
        let mut tiles = NOT_PACKED;
        for k in (0..slots.len()).filter(|&k| tiled(k)) {
            tiles[k] = Some(room.take(block * slots[k].element));
        }
        // The stride of each pointer of the program, for one element: tiles keep their places.
        let mut step = ZERO_STRIDES;
        for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !tiled(k)) {
            step[k] = slot.element as isize;
        }
        let (operands, step) = (self.first + self.reads.len(), self.expand_loads(&step));
        let outer = space.outer_space(None);
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            // The address of the next piece of each operand, and the address that the program uses for it.
            let mut at = outer.addresses_at(&index);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for k in 0..slots.len() {
                base[k] = tiles[k].unwrap_or(at[k]);
                if k >= self.outputs && space.inner_step(k) == 0 {
                    // SAFETY: one element, and the tile has room for a block of it.
                    unsafe {
                        pack::strided(base[k], slots[k].element as isize, at[k], 0, block, slots[k].element)
                    };
                }
            }
            let mut pointers = self.expand_loads(&base);
            let mut left = space.inner();
            // The first piece ends at a cache line of the first output, so that all other pieces consist of
            // whole lines.
            let mut n = match at[0].align_offset(CACHE_LINE_BYTES) / slots[0].element {
                head @ 1.. if self.non_temporal => head.min(block),
                _ => block,
            };
            while left > 0 {
                n = n.min(left);
                left -= n;
                for k in (self.outputs..slots.len()).filter(stepped) {
                    // SAFETY: `n` elements of an input, and its tile has room for them.
                    unsafe {
                        pack::strided(
                            base[k],
                            slots[k].element as isize,
                            at[k],
                            space.inner_step(k),
                            n,
                            slots[k].element,
                        )
                    };
                }
                // SAFETY: by the caller's promise: `n` elements of every operand; outputs are tiles, or
                // overlap no other operand.
                unsafe { self.run_row(&pointers, n) };
                for k in 0..operands {
                    pointers[k] = pointers[k].wrapping_offset(step[k].wrapping_mul(n as isize));
                }
                let (ahead, count) = self.advance_inputs(space, slots, &mut at, n);
                for k in (0..self.outputs).filter(|_| self.non_temporal) {
                    let nbytes = n * slots[k].element;
                    // SAFETY: `n` elements of an output, from its tile.
                    unsafe {
                        non_temporal::copy_and_prefetch(
                            at[k],
                            base[k],
                            nbytes,
                            if k == 0 { &ahead[..count] } else { &[] },
                        )
                    };
                    at[k] = at[k].wrapping_add(nbytes);
                }
                n = block;
            }
            outer.advance(&mut index, 1);
        }
    }

    /// Advances the addresses of the inputs by `n` elements, and prefetches their next pieces: at once if
    /// outputs use ordinary stores, otherwise by the returned addresses, together with the stores.
    fn advance_inputs(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        at: &mut Pointers,
        n: usize,
    ) -> ([*mut u8; PREFETCHED_OPERANDS * SHORT_STRIDE_ELEMENTS], usize) {
        let (mut ahead, mut count) = ([std::ptr::null_mut(); PREFETCHED_OPERANDS * SHORT_STRIDE_ELEMENTS], 0);
        // Each prefetched place covers as many bytes as a piece of the first output.
        let nbytes = n * slots[0].element;
        for (operand, k) in (self.outputs..slots.len()).filter(|&k| space.inner_step(k) != 0).enumerate() {
            let span = space.inner_step(k).wrapping_mul(n as isize);
            at[k] = at[k].wrapping_offset(span);
            let lowest = at[k].wrapping_offset(span.min(0));
            if !self.non_temporal {
                if space.inner_step(k) != slots[k].element as isize {
                    prefetch::into_l1(lowest, span.unsigned_abs());
                }
            } else if operand < PREFETCHED_OPERANDS {
                for place in 0..span.unsigned_abs().div_ceil(nbytes).min(SHORT_STRIDE_ELEMENTS) {
                    ahead[count] = lowest.wrapping_add(place * nbytes);
                    count += 1;
                }
            }
        }
        (ahead, count)
    }

    /// Computes tiles of up to `most` rows, which follow each other along `axis` if it is given, and up to
    /// `block` columns. With `strips`, the tiles of one strip of columns follow each other, so that a
    /// transposed operand is read in order.
    ///
    /// # Safety
    /// 1. The obligations of the kernel, for every index of the space.
    /// 2. Each packed operand has room for `most · block` elements.
    unsafe fn tiled_rows(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        packed: &PackedOperands,
        (axis, strips): (Option<usize>, bool),
        [most, block]: [usize; 2],
    ) {
        let height = axis.map_or(1, |axis| space.size(axis));
        let step = |k: usize| axis.map_or(0, |axis| space.step(axis, k));
        let outer = space.outer_space(axis);
        let mut index = outer.index_of(0);
        let (high, wide) = (height.div_ceil(most), space.inner().div_ceil(block));
        // The corner of tile number `tile`.
        let place = |tile: usize| {
            let (down, along) = if strips { (tile % high, tile / high) } else { (tile / wide, tile % wide) };
            [down * most, along * block]
        };
        for _ in 0..outer.numel() {
            let origin = outer.addresses_at(&index);
            for tile in 0..high * wide {
                let [top, left] = place(tile);
                let (rows, columns) = (most.min(height - top), block.min(space.inner() - left));
                let at = |k: usize, [top, left]: [usize; 2]| {
                    let to = (top as isize)
                        .wrapping_mul(step(k))
                        .wrapping_add((left as isize).wrapping_mul(space.inner_step(k)));
                    origin[k].wrapping_offset(to)
                };
                let corner = |k: usize| at(k, [top, left]);
                let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
                for (k, slot) in slots.iter().enumerate() {
                    (base[k], down[k]) = match packed[k] {
                        Some(room) => (room, (block * slot.element) as isize),
                        None => (corner(k), step(k)),
                    };
                    // A broadcast operand is the same in every block of columns.
                    let is_there = !strips && left > 0 && space.inner_step(k) == 0;
                    if k >= self.first && packed[k].is_some() && !is_there {
                        let (room, steps) =
                            ([down[k], slot.element as isize], [step(k), space.inner_step(k)]);
                        // SAFETY: (1), (2): a tile of this operand, and room for it.
                        unsafe {
                            pack::rectangle(base[k], room, corner(k), steps, [rows, columns], slot.element)
                        };
                    }
                }
                // SAFETY: (1) every pointer has rows of `columns` elements; outputs are packed or overlap no
                // other operand.
                unsafe { self.run_rows(&base, &down, rows, columns) };
                for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                    let Some(room) = packed[k] else { continue };
                    // While the first output of a tile is stored non-temporally, the unpacked operands of the
                    // next tile are prefetched.
                    let plain = |&j: &usize| packed[j].is_none() && slots[j].element == slot.element;
                    let (mut next, mut count) = ([(std::ptr::null_mut(), 0); PREFETCHED_OPERANDS], 0);
                    for j in (self.first..slots.len()).filter(plain).take(if self.non_temporal && k == 0 {
                        PREFETCHED_OPERANDS
                    } else {
                        0
                    }) {
                        next[count] = (at(j, place(tile + 1)), step(j));
                        count += 1;
                    }
                    // Rows that follow each other without gaps at both ends are one row.
                    let one = columns == block
                        && step(k) == down[k]
                        && space.inner_step(k) == slot.element as isize;
                    let (rows, columns) = if one { (1, rows * columns) } else { (rows, columns) };
                    for row in 0..rows as isize {
                        let to = corner(k).wrapping_offset(row * step(k));
                        let from = room.wrapping_add(row as usize * block * slot.element);
                        let ahead = next
                            .map(|(at, down): (*mut u8, isize)| at.wrapping_offset(row.wrapping_mul(down)));
                        // SAFETY: (1), (2): a row of the output's tile, from its packed elements.
                        unsafe {
                            self.store_row(
                                to,
                                space.inner_step(k),
                                from,
                                columns,
                                slot.element,
                                &ahead[..count],
                            )
                        };
                    }
                }
            }
            outer.advance(&mut index, 1);
        }
    }

    /// Gathers several short rows into a block, computes it, and scatters the outputs.
    ///
    /// # Safety
    /// 1. The obligations of the kernel, for every index of the space.
    /// 2. Each packed operand has room for `block` elements.
    unsafe fn packed_blocks(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        packed: &PackedOperands,
        block: usize,
    ) {
        let (mut index, mut done, n) = (space.index_of(0), 0, space.numel());
        while done < n {
            let len = block.min(n - done);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = packed[k].unwrap_or_else(|| space.address_at(k, &index));
                if k >= self.first && packed[k].is_some() {
                    // SAFETY: (1), (2): `len` ≤ `block` elements of this operand.
                    unsafe { pack::pack_elements(space, k, index, len, slot.element, base[k]) };
                }
            }
            // SAFETY: (1) every pointer has `len` contiguous elements; outputs are packed or overlap no other
            // operand.
            unsafe { self.run_row(&self.expand_loads(&base), len) };
            for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                if packed[k].is_some() {
                    // SAFETY: (1), (2): the block holds `len` elements for the output's positions.
                    unsafe { pack::unpack_elements(space, k, index, len, slot.element, base[k]) };
                }
            }
            space.advance(&mut index, len);
            done += len;
        }
    }
}
