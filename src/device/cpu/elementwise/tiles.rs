//! Operands through tiles in L1: strided operands are packed, and outputs with non-temporal stores are staged.
//!
//! Nothing here is generic over the program: it is compiled once.
// Imports: `device`.

use super::call::{KernelCall, Loops, MAX_ELEMENT_BYTES, Packed, SINGLE_ROW};
use crate::device::cpu::memory::scratch::{CACHE_LINE_BYTES, ROUNDING_BYTES, Scratch, StackScratch};
use crate::device::cpu::memory::{non_temporal, prefetch};
use crate::device::cpu::strided::{IterSpace, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::{
    FEW_ROWS, L1_SCRATCH_BYTES, PACKED_ROW_ELEMENTS, PACKED_ROWS, PIECE_UNIT_ELEMENTS, PREFETCHED_OPERANDS,
    READ_PIECE_BYTES, SHORT_ROW_BYTES, SHORT_STRIDE_ELEMENTS, STREAM_PIECE_BYTES, STRIDED_READ_BYTES,
    STRIP_COLUMNS, WHOLE_ROW_ELEMENTS,
};
use crate::device::{MAX_OPERANDS, OperandRef};

impl KernelCall<'_> {
    /// # Safety
    /// The kernel's promise, for every index of the walk.
    pub(crate) unsafe fn run_part(&self, space: &IterSpace, slots: &[OperandRef<'_>]) {
        let linear = |k: usize| space.is_linear(k, slots[k].element);
        let buffered = |k: usize| k < self.outputs && self.streaming;
        let n = space.numel();
        if (0..slots.len()).all(|k| linear(k) && !buffered(k)) {
            // SAFETY: every operand is one run of `n` elements.
            return unsafe {
                (self.loops.rows)(
                    self.level,
                    self.program,
                    1,
                    n,
                    self.expand_loads(&space.address).as_ptr(),
                    SINGLE_ROW,
                )
            };
        }
        let mut words = StackScratch::<{ L1_SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        if self.can_stream(space, slots) {
            // SAFETY: the caller's promise.
            return unsafe { self.streaming_chunks(space, slots, &room) };
        }
        // Rows that are long enough, or many that stand as a light program takes them, are taken whole, several side by side;
        // others are gathered, several to a block.
        let still = self.broadcast_load(|k| space.inner_step(k) == 0);
        let stands = |k: usize| {
            space.inner_step(k) == slots[k].element as isize || still.is_some_and(|(operand, _)| operand == k)
        };
        let all_stand = (0..slots.len()).all(stands);
        let many = space.outer_axis().is_some_and(|axis| space.size(axis) >= FEW_ROWS);
        let whole = space.inner() >= WHOLE_ROW_ELEMENTS || (self.cheap && all_stand && many);
        // Short rows of outputs that follow each other go past the caches together.
        let row = |k: usize| space.inner() * slots[k].element;
        let follows = |k: usize| {
            row(k) <= SHORT_ROW_BYTES
                && space.outer_axis().is_some_and(|axis| space.step(axis, k) == row(k) as isize)
        };
        let joint = self.streaming && all_stand && whole && (0..self.outputs).all(follows);
        let by_rows = joint || (whole && (!self.streaming || space.inner() >= WHOLE_ROW_ELEMENTS));
        let still = still.filter(|_| by_rows);
        let is_packed = |k: usize| buffered(k) || !(linear(k) || (by_rows && stands(k)));
        let in_pieces = |k: usize| match space.inner_step(k) / slots[k].element as isize {
            1 => true,
            0 => k >= self.outputs,
            // Short rows, and rows among which others stand, are better packed several at a time.
            times => {
                let is_long = space.inner() * slots[k].element >= 2 * READ_PIECE_BYTES;
                k >= self.outputs
                    && times.unsigned_abs() <= SHORT_STRIDE_ELEMENTS
                    && is_long
                    && !space.has_gaps_within_row(k)
            }
        };
        let in_steps = |k: usize| ![0, slots[k].element as isize].contains(&space.inner_step(k));
        // In place the first inputs are outputs, and stay where they are.
        let fetches = self.memory_bound && self.first > 0 && (self.first..slots.len()).any(in_steps);
        if (self.streaming || fetches) && by_rows && !joint && (0..slots.len()).all(in_pieces) {
            // SAFETY: the caller's promise; outputs are contiguous along rows, and inputs too, or still, or in short steps.
            return unsafe { self.streamed_tiles(space, slots, &room) };
        }
        let widths: usize = (0..slots.len()).filter(|&k| is_packed(k)).map(|k| slots[k].element).sum();
        let turns = |&k: &usize| by_rows && is_packed(k) && space.inner_step(k) != 0;
        let crosswise =
            (0..slots.len()).filter(turns).find_map(|k| space.transposed_axis(k, slots[k].element));
        let axis = crosswise.or(space.outer_axis());
        let (rows, block) = if widths == 0 {
            (usize::MAX, usize::MAX)
        } else if joint {
            ((L1_SCRATCH_BYTES / 2 / (space.inner() * widths)).max(1), space.inner())
        } else {
            // A tile is one cache line high where an operand stands crosswise.
            let element =
                slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, MAX_ELEMENT_BYTES);
            let (rows, most) = match (crosswise, axis) {
                (Some(_), _) => (64 / element, STRIP_COLUMNS),
                (_, Some(_)) if by_rows => {
                    ((L1_SCRATCH_BYTES / 2 / (space.inner() * widths)).max(PACKED_ROWS), PACKED_ROW_ELEMENTS)
                }
                _ => (1, PACKED_ROW_ELEMENTS),
            };
            // However many operands: there is room for 16 elements of each row.
            let rows = rows.min(((L1_SCRATCH_BYTES - ROUNDING_BYTES) / (16 * widths)).max(1));
            let block = ((L1_SCRATCH_BYTES - ROUNDING_BYTES) / (rows * widths)).min(most) / 16 * 16;
            // Parts of one length, as far as it goes.
            let parts = if by_rows { space.inner().div_ceil(block.max(1)) } else { 1 };
            (rows, if parts > 1 { space.inner().div_ceil(parts).next_multiple_of(16) } else { block.max(1) })
        };
        let packed = std::array::from_fn(|k| {
            (k < slots.len() && is_packed(k)).then(|| room.take(rows * block * slots[k].element))
        });
        let loops = still.map_or(self.loops, |(_, rows)| Loops { rows, ..self.loops });
        // SAFETY: the caller's promise; there is room for `rows · block` elements of each packed operand.
        unsafe {
            if by_rows {
                KernelCall { loops, ..*self }.tiled_rows(
                    space,
                    slots,
                    &packed,
                    (axis, crosswise.is_some()),
                    [rows, block],
                );
            } else {
                self.gathered_blocks(space, slots, &packed, block);
            }
        }
    }

    /// Rows of large outputs, a short piece at a time: what the next reads is fetched, while this one goes past the caches if
    /// outputs do. Every output is contiguous along rows; so is an input, or it stands still, or has a short step.
    unsafe fn streamed_tiles(&self, space: &IterSpace, slots: &[OperandRef<'_>], room: &Scratch<'_>) {
        let contiguous = |k: usize| space.inner_step(k) == slots[k].element as isize;
        let tiled = |k: usize| if k < self.outputs { self.streaming } else { !contiguous(k) };
        let stepped = |&k: &usize| tiled(k) && space.inner_step(k) != 0;
        let widths: usize = (0..slots.len()).filter(|&k| tiled(k)).map(|k| slots[k].element).sum();
        let piece = if self.streaming { STREAM_PIECE_BYTES } else { READ_PIECE_BYTES };
        let mut most = piece / slots[0].element;
        let inputs = self.outputs..slots.len();
        if self.streaming && inputs.clone().filter(stepped).count() > 1 {
            let read: usize = inputs.map(|k| space.inner_step(k).unsigned_abs()).sum();
            most = most.min(
                (STRIDED_READ_BYTES / read / PIECE_UNIT_ELEMENTS * PIECE_UNIT_ELEMENTS)
                    .max(PIECE_UNIT_ELEMENTS),
            );
        }
        let block = most.min((L1_SCRATCH_BYTES - ROUNDING_BYTES) / widths).min(space.inner());
        let tiles: Packed = std::array::from_fn(|k| {
            (k < slots.len() && tiled(k)).then(|| room.take(block * slots[k].element))
        });
        // What an element moves the program's pointers by: tiles stay where they are.
        let mut step = ZERO_STRIDES;
        for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !tiled(k)) {
            step[k] = slot.element as isize;
        }
        let (operands, step) = (self.first + self.reads.len(), self.expand_loads(&step));
        let outer = space.outer_space(None);
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            // Where the next piece of each operand stands, and where the program finds it.
            let mut at: [*mut u8; MAX_OPERANDS] = std::array::from_fn(|k| {
                if k < slots.len() { outer.address_at(k, &index) } else { std::ptr::null_mut() }
            });
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for k in 0..slots.len() {
                base[k] = tiles[k].unwrap_or(at[k]);
                if k >= self.outputs && space.inner_step(k) == 0 {
                    // SAFETY: one element, and room for a block of it.
                    unsafe {
                        pack::strided(base[k], slots[k].element as isize, at[k], 0, block, slots[k].element)
                    };
                }
            }
            let mut pointers = self.expand_loads(&base);
            let mut left = space.inner();
            // The first piece ends where a line of the first output does, so that all others are whole lines.
            let mut n = match at[0].align_offset(CACHE_LINE_BYTES) / slots[0].element {
                head @ 1.. if self.streaming => head.min(block),
                _ => block,
            };
            while left > 0 {
                n = n.min(left);
                left -= n;
                for k in (self.outputs..slots.len()).filter(stepped) {
                    // SAFETY: `n` elements of an input, into its tile.
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
                // SAFETY: `n` elements of every operand; outputs are tiles, or overlap nothing.
                unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW) };
                for k in 0..operands {
                    pointers[k] = pointers[k].wrapping_offset(step[k].wrapping_mul(n as isize));
                }
                let (mut ahead, mut count) =
                    ([std::ptr::null_mut(); PREFETCHED_OPERANDS * SHORT_STRIDE_ELEMENTS], 0);
                // From each place as many bytes are fetched as the first output has.
                let fetched = n * slots[0].element;
                for (operand, k) in
                    (self.outputs..slots.len()).filter(|&k| space.inner_step(k) != 0).enumerate()
                {
                    let span = space.inner_step(k).wrapping_mul(n as isize);
                    at[k] = at[k].wrapping_offset(span);
                    let lowest = at[k].wrapping_offset(span.min(0));
                    if !self.streaming {
                        if tiled(k) {
                            prefetch::into_l1(lowest, span.unsigned_abs());
                        }
                    } else if operand < PREFETCHED_OPERANDS {
                        for place in 0..span.unsigned_abs().div_ceil(fetched).min(SHORT_STRIDE_ELEMENTS) {
                            ahead[count] = lowest.wrapping_add(place * fetched);
                            count += 1;
                        }
                    }
                }
                for k in (0..self.outputs).filter(|_| self.streaming) {
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

    /// Tiles of some rows, which stand along `axis` if there is one, and up to `block` columns; those of one strip of
    /// columns after each other where an operand stands crosswise, so that it is read in order.
    unsafe fn tiled_rows(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        packed: &Packed,
        (axis, strips): (Option<usize>, bool),
        [most, block]: [usize; 2],
    ) {
        let height = axis.map_or(1, |axis| space.size(axis));
        let step = |k: usize| axis.map_or(0, |axis| space.step(axis, k));
        let outer = space.outer_space(axis);
        let mut index = outer.index_of(0);
        let (high, wide) = (height.div_ceil(most), space.inner().div_ceil(block));
        // The corner of the tile with some number.
        let place = |tile: usize| {
            let (down, along) = if strips { (tile % high, tile / high) } else { (tile / wide, tile % wide) };
            [down * most, along * block]
        };
        for _ in 0..outer.numel() {
            let origin: [*mut u8; MAX_OPERANDS] = std::array::from_fn(|k| {
                if k < slots.len() { outer.address_at(k, &index) } else { std::ptr::null_mut() }
            });
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
                    // What stands still along rows is the same in every block of columns.
                    let is_there = !strips && left > 0 && space.inner_step(k) == 0;
                    if k >= self.first && packed[k].is_some() && !is_there {
                        let (room, steps) =
                            ([down[k], slot.element as isize], [step(k), space.inner_step(k)]);
                        // SAFETY: a tile of this operand, which the caller promised, into room for it.
                        unsafe {
                            pack::rectangle(base[k], room, corner(k), steps, [rows, columns], slot.element)
                        };
                    }
                }
                // SAFETY: every pointer has rows of `columns` elements; outputs are packed or overlap nothing.
                unsafe { self.run_rows(&base, &down, rows, columns) };
                for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                    let Some(room) = packed[k] else { continue };
                    // What the next tile reads as it stands is fetched while the first output of this one is streamed.
                    let plain = |&j: &usize| packed[j].is_none() && slots[j].element == slot.element;
                    let (mut next, mut count) = ([(std::ptr::null_mut(), 0); PREFETCHED_OPERANDS], 0);
                    for j in (self.first..slots.len()).filter(plain).take(if self.streaming && k == 0 {
                        PREFETCHED_OPERANDS
                    } else {
                        0
                    }) {
                        next[count] = (at(j, place(tile + 1)), step(j));
                        count += 1;
                    }
                    // Rows that follow each other at both ends are one.
                    let one = columns == block
                        && step(k) == down[k]
                        && space.inner_step(k) == slot.element as isize;
                    let (rows, columns) = if one { (1, rows * columns) } else { (rows, columns) };
                    for row in 0..rows as isize {
                        let to = corner(k).wrapping_offset(row * step(k));
                        let from = room.wrapping_add(row as usize * block * slot.element);
                        let ahead = next
                            .map(|(at, down): (*mut u8, isize)| at.wrapping_offset(row.wrapping_mul(down)));
                        // SAFETY: a row of the output's tile, which the caller promised, from where it was packed.
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

    /// Blocks of several short rows.
    unsafe fn gathered_blocks(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        packed: &Packed,
        block: usize,
    ) {
        let (mut index, mut done, n) = (space.index_of(0), 0, space.numel());
        while done < n {
            let len = block.min(n - done);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = packed[k].unwrap_or_else(|| space.address_at(k, &index));
                if k >= self.first && packed[k].is_some() {
                    // SAFETY: `len` ≤ `block` elements of this operand, which the caller promised, into room for a block.
                    unsafe { pack::gather(space, k, index, len, slot.element, base[k]) };
                }
            }
            // SAFETY: every pointer has `len` contiguous elements; outputs are packed or overlap nothing.
            unsafe {
                (self.loops.rows)(
                    self.level,
                    self.program,
                    1,
                    len,
                    self.expand_loads(&base).as_ptr(),
                    SINGLE_ROW,
                )
            };
            for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                if packed[k].is_some() {
                    // SAFETY: the block holds `len` elements; the caller promised the output's positions.
                    unsafe { pack::scatter(space, k, index, len, slot.element, base[k]) };
                }
            }
            space.advance(&mut index, len);
            done += len;
        }
    }
}
