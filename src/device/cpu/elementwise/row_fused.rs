//! Programs over rows: the row constants are computed first, then the row, while it is in the cache.
//!
//! The kernel needs contiguous rows. Other operands are packed. Several rows of a transposed operand are
//! packed together, so that memory is read and written in whole cache lines.
// Imports: `error`, `device`.

use super::call::{KernelCall, NOT_PACKED, PackedOperands, concat_operands};
use super::row_constants::is_short;
use crate::device::cpu::memory::scratch::StackScratch;
use crate::device::cpu::memory::{CpuBlock, non_temporal};
use crate::device::cpu::reduce::accumulate::{MAX_ACCUMULATORS, STEP_ELEMENTS};
use crate::device::cpu::strided::{self, AxisOrder, ByteStrides, IterSpace, Pointers, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::{
    PACKED_ROWS_BYTES, PACKED_SHORT_ROWS_BYTES, PREFETCHED_OPERANDS, PREFETCHED_ROW_BYTES, SHARED_ELEMENTS,
    SMALL_ROWS_BYTES,
};
use crate::device::{MAX_OPERANDS, OperandRef};
use crate::error::Result;
use std::sync::Mutex;

/// Runs a program over rows; `row` is the number of axes of a row, and `held` the bytes that the program
/// caches for each element.
///
/// # Safety
/// 1. As for [`Device::map`](crate::device::Device::map).
/// 2. The kernel of the call processes whole rows.
pub(crate) unsafe fn run(
    call: &KernelCall<'_>,
    held: usize,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: &[OperandRef<'_>],
) -> Result<()> {
    let slots = concat_operands(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
    let (mut outer, mut along) = ([slots[0]; MAX_OPERANDS], [slots[0]; MAX_OPERANDS]);
    for (k, slot) in slots.iter().enumerate() {
        let (of_outer, of_row) = slot.stride.split_at(outer_sizes.len());
        outer[k] = OperandRef { stride: of_outer, ..*slot };
        along[k] = OperandRef { stride: of_row, address: std::ptr::null_mut(), ..*slot };
    }
    let Some(space) = strided::single_space(row_sizes, &along[..slots.len()], AxisOrder::RowMajor) else {
        return Ok(());
    };
    let count = space.numel();
    let rows = RowFusedCall { shape: RowShape { call, slots, count, held }, space };
    let result = Mutex::new(Ok(()));
    strided::for_each_space(outer_sizes, &outer[..slots.len()], AxisOrder::OfOutput, &mut |space| {
        strided::parallel(space, count, &|part| {
            // SAFETY: (1), (2) by the caller's promise; the parts of the space reach each output once.
            let done = unsafe { rows.run_part(part) };
            non_temporal::fence();
            if done.is_err() {
                *result.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = done;
            }
        });
    });
    result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs on a few rows that are contiguous in every operand and at equal distances. Returns whether the
/// operands have that form.
///
/// It needs neither an iteration space nor packing, which would dominate the cost of a few elements.
///
/// # Safety
/// As for [`run`].
pub(crate) unsafe fn run_small(
    call: &KernelCall<'_>,
    held: usize,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: &[OperandRef<'_>],
) -> bool {
    let slots = concat_operands(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer, along) = sizes.split_at(sizes.len() - row);
    let [mut down, mut steps] = [[0; MAX_OPERANDS]; 2];
    let (Some(rows), Some(count)) = (
        strided::as_single_axis(outer, 0, slots, &mut down),
        strided::as_single_axis(along, outer.len(), slots, &mut steps),
    ) else {
        return false;
    };
    let shape = RowShape { call, slots, count, held };
    let stands = |k: usize| {
        (count == 1 || steps[k] == slots[k].element as isize)
            && (rows == 1 || shape.takes_in_place(k, down[k]))
    };
    let rooms = if shape.padding() > 0 { (0..slots.len()).map(|k| shape.pitch(k)).sum() } else { 0 };
    if rows.saturating_mul(count) >= SHARED_ELEMENTS
        || !(0..slots.len()).all(stands)
        || shape.cached_nbytes_of_row().saturating_add(rooms) > SMALL_ROWS_BYTES
    {
        return false;
    }
    let mut words = StackScratch::<{ SMALL_ROWS_BYTES / 8 }>::uninit();
    let words = words.as_mut_ptr().cast::<u8>();
    let (mut base, mut by) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
    let (mut staging, mut used) = ([None; MAX_OPERANDS], 0);
    for (k, slot) in slots.iter().enumerate() {
        (base[k], by[k]) = (slot.address, down[k]);
        if rooms > 0 {
            staging[k] = Some(words.wrapping_add(used));
            used += shape.pitch(k);
        }
    }
    base[MAX_OPERANDS] = words.wrapping_add(used);
    // SAFETY: (1), (2) by the caller's promise: rows of `count` elements. The buffer has room for a row of
    // each operand and for the cached values of a row, from a cache line on.
    unsafe {
        words.write_bytes(0, used);
        shape.each(&base, &by, rows, &staging);
    }
    true
}

/// Rows of one length, contiguous in every operand.
struct RowShape<'a> {
    call: &'a KernelCall<'a>,
    slots: &'a [OperandRef<'a>],
    count: usize,
    /// Bytes that the program caches for each element of a row.
    held: usize,
}

impl RowShape<'_> {
    /// Bytes for the cached values of a row. Each of the values begins at a cache line and has room for whole
    /// steps. A value takes at least one byte for each element, which bounds the number of values.
    fn cached_nbytes_of_row(&self) -> usize {
        self.held.saturating_mul(self.count.saturating_add(128))
    }

    fn is_short(&self) -> bool {
        is_short(self.count, self.call.first == 0)
    }

    /// The number of elements after a row that the kernel also reads and writes.
    fn padding(&self) -> usize {
        if self.is_short() { self.count.next_multiple_of(STEP_ELEMENTS) - self.count } else { 0 }
    }

    /// Bytes from one packed row to the next: an odd number of cache lines, so that the rows use different
    /// sets of a cache.
    fn pitch(&self, k: usize) -> usize {
        let count = self.count.saturating_add(self.padding());
        (count.saturating_mul(self.slots[k].element).div_ceil(64) | 1).saturating_mul(64)
    }

    /// Whether the kernel can use rows of operand `k` in place, `down` bytes apart. A short row must be
    /// followed by the next row, or all rows must be one and the same.
    fn takes_in_place(&self, k: usize, down: isize) -> bool {
        self.padding() == 0
            || down == (self.count * self.slots[k].element) as isize
            || (down == 0 && k >= self.call.first)
    }

    /// Runs the kernel on `rows` rows, which begin at `base` and are `down` bytes apart. Operands with a
    /// buffer in `staging` have no padding after their last rows; those rows are run in the buffer.
    ///
    /// # Safety
    /// 1. The obligations of the kernel hold for operands without a buffer.
    /// 2. An operand with a buffer is dense, or it is an input whose rows are one and the same.
    /// 3. Each buffer has one pitch of initialized bytes.
    unsafe fn each(&self, base: &Pointers, down: &ByteStrides, rows: usize, staging: &PackedOperands) {
        let RowShape { call, slots, count, .. } = *self;
        let padding = self.padding();
        if padding == 0 {
            // SAFETY: (1) by the caller's promise; without padding there is no other kind of row.
            return unsafe { call.run_rows(base, down, rows, count) };
        }
        let nbytes = |k: usize| count * slots[k].element;
        let (mut base, mut last) = (*base, 0);
        for (k, room) in staging.iter().enumerate() {
            let Some(room) = *room else { continue };
            if down[k] == 0 && k >= call.first {
                // SAFETY: (2), (3): one row for all, and the buffer has room for it.
                unsafe { std::ptr::copy_nonoverlapping(base[k], room, nbytes(k)) };
                base[k] = room;
            } else {
                last = padding.div_ceil(count).min(rows);
            }
        }
        // SAFETY: (1), (2): after these rows follow other rows of the same operand, which are written later
        // if they are outputs, or the padding of a buffer.
        unsafe { call.run_rows(&base, down, rows - last, count) };
        for row in rows - last..rows {
            let mut here = base;
            for (k, at) in here.iter_mut().enumerate().take(slots.len()) {
                *at = at.wrapping_offset(row as isize * down[k]);
                let Some(room) = staging[k] else { continue };
                if k >= call.first && down[k] != 0 {
                    // SAFETY: (2), (3): a row of this operand, and the buffer has room for it.
                    unsafe { std::ptr::copy_nonoverlapping(*at, room, nbytes(k)) };
                }
                *at = room;
            }
            // SAFETY: (3) every row has padding after it.
            unsafe { call.run_rows(&here, &ZERO_STRIDES, 1, count) };
            for (k, room) in staging.iter().enumerate().take(call.outputs) {
                if let Some(room) = *room {
                    let to = base[k].wrapping_offset(row as isize * down[k]);
                    // SAFETY: (2), (3): a row from the buffer to its place in the output.
                    unsafe { std::ptr::copy_nonoverlapping(room, to, nbytes(k)) };
                }
            }
        }
    }
}

/// A call over rows: their common shape, and the iteration space of one row.
struct RowFusedCall<'a> {
    shape: RowShape<'a>,
    /// One row, at no address.
    space: IterSpace,
}

impl RowFusedCall<'_> {
    /// Runs on the rows of a part of the outer space.
    ///
    /// # Safety
    /// As for [`run`], for the rows of this part.
    unsafe fn run_part(&self, outer: &IterSpace) -> Result<()> {
        let RowShape { call, slots, count, .. } = self.shape;
        let mut is_packed = [false; MAX_OPERANDS];
        for (k, slot) in slots.iter().enumerate() {
            is_packed[k] = !self.space.is_linear(k, slot.element)
                || (k < call.outputs && call.non_temporal && count >= MAX_ACCUMULATORS)
                || !self.shape.takes_in_place(k, outer.inner_step(k));
        }
        // An input whose rows are one and the same is packed once for all rows.
        let is_one = |k: usize| k >= call.first && outer.inner_step(k) == 0;
        let each_packed = || (0..slots.len()).filter(|&k| is_packed[k] && !is_one(k));
        let pitch: usize = each_packed().map(|k| self.shape.pitch(k)).sum();
        let transposed = each_packed().any(|k| outer.inner_step(k) == slots[k].element as isize);
        let height = match pitch {
            0 => usize::MAX,
            _ if self.shape.is_short() => (PACKED_SHORT_ROWS_BYTES / pitch).max(1),
            _ if transposed => (64 / slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, 16))
                .min(PACKED_ROWS_BYTES / pitch)
                .max(1),
            _ => 1,
        };
        // A packed operand has room for all rows of a group. Any other operand has room for one row, if the
        // kernel reads beyond it.
        let mut used = 0;
        let mut room = |rows: usize, k: usize| {
            let at = used;
            used = rows.saturating_mul(self.shape.pitch(k)).saturating_add(used);
            at
        };
        let mut places = [None; MAX_OPERANDS];
        for k in 0..slots.len() {
            places[k] = match is_packed[k] {
                true => Some(room(if is_one(k) { 1 } else { height }, k)),
                false => (self.shape.padding() > 0).then(|| room(1, k)),
            };
        }
        let scratch = CpuBlock::scratch(used.saturating_add(self.shape.cached_nbytes_of_row()))?;
        let at = |place: usize| scratch.address().wrapping_add(place);
        let (mut packed, mut staging) = (NOT_PACKED, NOT_PACKED);
        for k in 0..slots.len() {
            *(if is_packed[k] { &mut packed[k] } else { &mut staging[k] }) = places[k].map(at);
        }
        if self.shape.padding() > 0 {
            // SAFETY: the scratch block has the `used` bytes that were counted above.
            unsafe { scratch.address().write_bytes(0, used) };
        }
        let (mut index, mut done) = (outer.index_of(0), 0);
        // The rows that were packed last, for each operand.
        let mut there = [std::ptr::null_mut(); MAX_OPERANDS];
        while done < outer.numel() {
            let rows = outer.left_in_row(&index).min(height);
            let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
            for k in 0..slots.len() {
                let from = outer.address_at(k, &index);
                (base[k], down[k]) = match packed[k] {
                    Some(room) if is_one(k) => (room, 0),
                    Some(room) => (room, self.shape.pitch(k) as isize),
                    None => (from, outer.inner_step(k)),
                };
                if k >= call.first && packed[k].is_some() && !(is_one(k) && from == there[k]) {
                    let rows = if is_one(k) { 1 } else { rows };
                    // SAFETY: by the caller's promise: `rows` rows of this operand; the scratch block has
                    // room for them.
                    unsafe { self.pack(k, base[k], from, rows, outer.inner_step(k)) };
                }
                there[k] = from;
            }
            base[MAX_OPERANDS] = at(used);
            // SAFETY: (1) every pointer has contiguous rows, and outputs are packed or overlap no other
            // operand; (2), (3) the buffers were made for dense operands and initialized.
            unsafe { self.shape.each(&base, &down, rows, &staging) };
            // While the first output is stored non-temporally, the next rows of unpacked operands are
            // prefetched, if they fit in a cache.
            let (mut next, mut fetched) = ([(std::ptr::null_mut(), 0); PREFETCHED_OPERANDS], 0);
            let plain =
                |&k: &usize| packed[k].is_none() && slots[k].element == slots[0].element && down[k] != 0;
            let stays = count.saturating_mul(slots[0].element) <= PREFETCHED_ROW_BYTES
                && outer.left_in_row(&index) > rows;
            for k in (call.first..slots.len()).filter(plain).take(if call.non_temporal && stays {
                PREFETCHED_OPERANDS
            } else {
                0
            }) {
                next[fetched] = (base[k].wrapping_offset(rows as isize * down[k]), down[k]);
                fetched += 1;
            }
            for k in (0..call.outputs).filter(|&k| packed[k].is_some()) {
                let ahead = if k == 0 { &next[..fetched] } else { &[] };
                // SAFETY: by the caller's promise: `rows` rows of this output, and as many packed rows.
                unsafe {
                    self.unpack(k, outer.address_at(k, &index), base[k], rows, outer.inner_step(k), ahead)
                };
            }
            outer.advance(&mut index, rows);
            done += rows;
        }
        Ok(())
    }

    /// Packs `rows` rows of operand `k`, which are `down` bytes apart.
    ///
    /// # Safety
    /// 1. `from` has the rows of this operand.
    /// 2. `to` has room for `rows` packed rows.
    unsafe fn pack(&self, k: usize, to: *mut u8, from: *mut u8, rows: usize, down: isize) {
        let element = self.shape.slots[k].element;
        if self.space.is_line() {
            let (room, steps) =
                ([self.shape.pitch(k) as isize, element as isize], [down, self.space.inner_step(k)]);
            // SAFETY: (1), (2) by the caller's promise.
            return unsafe { pack::rectangle(to, room, from, steps, [rows, self.shape.count], element) };
        }
        for row in 0..rows {
            let row_space = self.row_at(k, from.wrapping_offset(row as isize * down));
            // SAFETY: (1), (2) by the caller's promise, row by row.
            unsafe {
                pack::pack_elements(
                    &row_space,
                    k,
                    row_space.index_of(0),
                    self.shape.count,
                    element,
                    to.wrapping_add(row * self.shape.pitch(k)),
                )
            };
        }
    }

    /// Copies packed rows back to operand `k`, and prefetches the rows of `ahead`: the address of each first
    /// row and its stride.
    ///
    /// # Safety
    /// 1. `from` has `rows` packed rows.
    /// 2. `to` has room for the rows of this operand.
    unsafe fn unpack(
        &self,
        k: usize,
        to: *mut u8,
        from: *mut u8,
        rows: usize,
        down: isize,
        ahead: &[(*mut u8, isize)],
    ) {
        let (element, step) = (self.shape.slots[k].element, self.space.inner_step(k));
        if self.space.is_line() && step != element as isize {
            let room = [self.shape.pitch(k) as isize, element as isize];
            // SAFETY: (1), (2) by the caller's promise.
            return unsafe {
                pack::rectangle(to, [down, step], from, room, [rows, self.shape.count], element)
            };
        }
        for row in 0..rows {
            let (to, from) =
                (to.wrapping_offset(row as isize * down), from.wrapping_add(row * self.shape.pitch(k)));
            let mut next = [std::ptr::null_mut(); PREFETCHED_OPERANDS];
            for (next, &(at, down)) in next.iter_mut().zip(ahead) {
                *next = at.wrapping_offset((row as isize).wrapping_mul(down));
            }
            // SAFETY: (1), (2) by the caller's promise, row by row.
            unsafe {
                if self.space.is_line() {
                    self.shape.call.store_row(
                        to,
                        step,
                        from,
                        self.shape.count,
                        element,
                        &next[..ahead.len()],
                    );
                } else {
                    let row_space = self.row_at(k, to);
                    pack::unpack_elements(
                        &row_space,
                        k,
                        row_space.index_of(0),
                        self.shape.count,
                        element,
                        from,
                    );
                }
            }
        }
    }

    /// The row of operand `k` that begins at `address`.
    fn row_at(&self, k: usize, address: *mut u8) -> IterSpace {
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        addresses[k] = address;
        self.space.from(addresses)
    }
}
