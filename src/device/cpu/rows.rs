//! Programs over rows: what is constant along a row is found first, then the row is computed while it is in the cache.
//!
//! A row is contiguous for the kernel: operands that are not are packed, several rows side by side where they stand
//! crosswise, so that memory is read and written a whole cache line at a time.
//! Imports: `error`, `device`.

use super::drive::{FETCHED, Job, Packed, together};
use super::io::Words;
use super::memory::CpuBlock;
use super::pack;
use super::walk::{self, Order, Walk};
use crate::device::{MAX_OPERANDS, Slot};
use crate::error::Result;
use std::sync::Mutex;

/// Bytes of packed rows that are kept side by side: they stay in the second-level cache.
const ROOM: usize = 256 << 10;
/// Bytes of a row that is fetched before it is read, at most.
const NEXT: usize = 64 << 10;

/// # Safety
/// As [`Device::map`](crate::device::Device::map); the job's kernel takes a whole row.
pub(super) unsafe fn drive(
    job: &Job<'_>,
    held: usize,
    sizes: &[usize],
    row: usize,
    outputs: &[Slot<'_>],
    inputs: &[Slot<'_>],
) -> Result<()> {
    let slots = together(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
    let (mut outer, mut along) = ([slots[0]; MAX_OPERANDS], [slots[0]; MAX_OPERANDS]);
    for (k, slot) in slots.iter().enumerate() {
        let (of_outer, of_row) = slot.stride.split_at(outer_sizes.len());
        outer[k] = Slot { stride: of_outer, ..*slot };
        along[k] = Slot { stride: of_row, address: std::ptr::null_mut(), ..*slot };
    }
    let Some(line) = walk::only(row_sizes, &along[..slots.len()], Order::RowMajor) else { return Ok(()) };
    let count = line.numel();
    let rows = Rows { job, slots, line, count, held };
    let result = Mutex::new(Ok(()));
    walk::each(outer_sizes, &outer[..slots.len()], Order::OfOutput, &mut |walk| {
        walk::parallel(walk, count, &|part| {
            // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
            let done = unsafe { rows.part(part) };
            pack::fence();
            if done.is_err() {
                *result.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = done;
            }
        });
    });
    result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Bytes of what a program holds of a short row.
const SHORT: usize = 4 << 10;

/// Runs a few short rows that are contiguous in every operand and stand at equal distances; says whether they were such.
///
/// There is nothing to walk and to pack then, and a tensor of a few elements does not pay for it.
///
/// # Safety
/// As [`drive`].
pub(super) unsafe fn short(job: &Job<'_>, held: usize, sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: &[Slot<'_>]) -> bool {
    let slots = together(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer, along) = sizes.split_at(sizes.len() - row);
    let [mut down, mut steps] = [[0; MAX_OPERANDS]; 2];
    let (Some(rows), Some(count)) = (walk::one_axis(outer, 0, slots, &mut down), walk::one_axis(along, outer.len(), slots, &mut steps))
    else {
        return false;
    };
    let contiguous = slots.iter().zip(&steps).all(|(slot, &step)| count == 1 || step == slot.element as isize);
    let room = held.saturating_mul(count.saturating_add(64));
    if !contiguous || rows.saturating_mul(count) >= walk::SHARED || room > SHORT {
        return false;
    }
    let mut words = Words::<{ SHORT / 8 }>::uninit();
    let (mut base, mut by) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
    for (k, slot) in slots.iter().enumerate() {
        (base[k], by[k]) = (slot.address, down[k]);
    }
    base[MAX_OPERANDS] = words.as_mut_ptr().cast();
    // SAFETY: the caller's promise: rows of `count` elements; there is room for what is held of one, from a cache line on.
    unsafe { job.each_row(&base, &by, rows, count) };
    true
}

struct Rows<'a> {
    job: &'a Job<'a>,
    slots: &'a [Slot<'a>],
    /// One row, from no address.
    line: Walk,
    count: usize,
    /// Bytes that the program holds for each element of a row.
    held: usize,
}

impl Rows<'_> {
    unsafe fn part(&self, outer: &Walk) -> Result<()> {
        let Rows { job, slots, line, count, held } = self;
        let is_packed = |k: usize| !line.is_linear(k, slots[k].element) || (k < job.outputs && job.streams);
        let widths: usize = (0..slots.len()).filter(|&k| is_packed(k)).map(|k| slots[k].element).sum();
        let crosswise = (0..slots.len()).any(|k| is_packed(k) && outer.inner_step(k) == slots[k].element as isize);
        let height = match widths {
            0 => usize::MAX,
            _ if crosswise => (64 / slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, 16))
                .min(ROOM / widths.saturating_mul(*count))
                .max(1),
            _ => 1,
        };
        let mut used = 0;
        let mut room = |k: usize| {
            let at = used;
            used = height.saturating_mul(self.pitch(k)).saturating_add(used);
            at
        };
        let places: [Option<usize>; MAX_OPERANDS] = std::array::from_fn(|k| (k < slots.len() && is_packed(k)).then(|| room(k)));
        // Each of the values that are held begins at a cache line: a byte an element is the least that one takes.
        let scratch = CpuBlock::scratch(used.saturating_add(held.saturating_mul(count + 64)))?;
        let packed: Packed = places.map(|place| place.map(|place| scratch.address().wrapping_add(place)));
        let (mut index, mut done) = (outer.index_of(0), 0);
        while done < outer.numel() {
            let rows = outer.left_in_row(&index).min(height);
            let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
            for k in 0..slots.len() {
                let from = outer.address_at(k, &index);
                (base[k], down[k]) = match packed[k] {
                    Some(room) => (room, self.pitch(k) as isize),
                    None => (from, outer.inner_step(k)),
                };
                if k >= job.first && packed[k].is_some() {
                    // SAFETY: `rows` rows of this operand, which the caller promised, into room for them.
                    unsafe { self.pack(k, base[k], from, rows, outer.inner_step(k)) };
                }
            }
            base[MAX_OPERANDS] = scratch.address().wrapping_add(used);
            // SAFETY: every pointer has contiguous rows; outputs are packed or overlap nothing.
            unsafe { job.each_row(&base, &down, rows, *count) };
            // What the next rows read as it stands is fetched while the first output of these is streamed, if it stays in a cache.
            let (mut next, mut fetched) = ([(std::ptr::null_mut(), 0); FETCHED], 0);
            let plain = |&k: &usize| packed[k].is_none() && slots[k].element == slots[0].element && down[k] != 0;
            let stays = count.saturating_mul(slots[0].element) <= NEXT && outer.left_in_row(&index) > rows;
            for k in (job.first..slots.len()).filter(plain).take(if job.streams && stays { FETCHED } else { 0 }) {
                next[fetched] = (base[k].wrapping_offset(rows as isize * down[k]), down[k]);
                fetched += 1;
            }
            for k in (0..job.outputs).filter(|&k| packed[k].is_some()) {
                let ahead = if k == 0 { &next[..fetched] } else { &[] };
                // SAFETY: as for the inputs, the other way.
                unsafe { self.unpack(k, outer.address_at(k, &index), base[k], rows, outer.inner_step(k), ahead) };
            }
            outer.advance(&mut index, rows);
            done += rows;
        }
        Ok(())
    }

    /// Bytes from one packed row to the next: an odd number of cache lines, so that rows do not crowd one set of a cache.
    fn pitch(&self, k: usize) -> usize {
        (self.count.saturating_mul(self.slots[k].element).div_ceil(64) | 1).saturating_mul(64)
    }

    /// Packs `rows` rows of operand `k`, which stand `down` bytes apart.
    unsafe fn pack(&self, k: usize, to: *mut u8, from: *mut u8, rows: usize, down: isize) {
        let element = self.slots[k].element;
        if self.line.is_line() {
            let (room, steps) = ([self.pitch(k) as isize, element as isize], [down, self.line.inner_step(k)]);
            // SAFETY: the caller's promise: rows of elements, and room for them.
            return unsafe { pack::rectangle(to, room, from, steps, [rows, self.count], element) };
        }
        for row in 0..rows {
            let line = self.line_at(k, from.wrapping_offset(row as isize * down));
            // SAFETY: as above, row by row.
            unsafe { pack::gather(&line, k, line.index_of(0), self.count, element, to.wrapping_add(row * self.pitch(k))) };
        }
    }

    /// The other way; meanwhile rows of `ahead` are fetched, each where one begins and its step to the next.
    unsafe fn unpack(&self, k: usize, to: *mut u8, from: *mut u8, rows: usize, down: isize, ahead: &[(*mut u8, isize)]) {
        let (element, step) = (self.slots[k].element, self.line.inner_step(k));
        if self.line.is_line() && step != element as isize {
            let room = [self.pitch(k) as isize, element as isize];
            // SAFETY: the caller's promise.
            return unsafe { pack::rectangle(to, [down, step], from, room, [rows, self.count], element) };
        }
        for row in 0..rows {
            let (to, from) = (to.wrapping_offset(row as isize * down), from.wrapping_add(row * self.pitch(k)));
            let mut next = [std::ptr::null_mut(); FETCHED];
            for (next, &(at, down)) in next.iter_mut().zip(ahead) {
                *next = at.wrapping_offset((row as isize).wrapping_mul(down));
            }
            // SAFETY: the caller's promise, row by row.
            unsafe {
                if self.line.is_line() {
                    self.job.put(to, step, from, self.count, element, &next[..ahead.len()]);
                } else {
                    let line = self.line_at(k, to);
                    pack::scatter(&line, k, line.index_of(0), self.count, element, from);
                }
            }
        }
    }

    /// The row of operand `k` that begins at `address`.
    fn line_at(&self, k: usize, address: *mut u8) -> Walk {
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        addresses[k] = address;
        self.line.from(addresses)
    }
}
