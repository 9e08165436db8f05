//! Programs over rows: what is constant along a row is found first, then the row is computed while it is in the cache.
//!
//! A row is contiguous for the kernel: operands that are not are packed, several rows side by side where they stand
//! crosswise, so that memory is read and written a whole cache line at a time.
// Imports: `error`, `device`.

use super::drive::{FETCHED, Job, Packed, STAY, together};
use super::io::Words;
use super::memory::CpuBlock;
use super::pack;
use super::reduce::accumulate::{MAX_ACCUMULATORS, SHORT_ROW_ELEMENTS, STEP_ELEMENTS};
use super::walk::{self, Addresses, Order, Steps, Walk};
use crate::device::{MAX_OPERANDS, OperandRef};
use crate::error::Result;
use std::sync::Mutex;

/// Bytes of packed rows that are kept side by side: they stay in the second-level cache.
const ROOM: usize = 256 << 10;
/// Bytes of packed rows that are short: they stay in the first-level cache.
const SHORT_ROOM: usize = 16 << 10;
/// Bytes of a row that is fetched before it is read, at most.
const NEXT: usize = 64 << 10;

/// # Safety
/// As [`Device::map`](crate::device::Device::map); the job's kernel takes a whole row.
pub(super) unsafe fn drive(
    job: &Job<'_>,
    held: usize,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: &[OperandRef<'_>],
) -> Result<()> {
    let slots = together(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
    let (mut outer, mut along) = ([slots[0]; MAX_OPERANDS], [slots[0]; MAX_OPERANDS]);
    for (k, slot) in slots.iter().enumerate() {
        let (of_outer, of_row) = slot.stride.split_at(outer_sizes.len());
        outer[k] = OperandRef { stride: of_outer, ..*slot };
        along[k] = OperandRef { stride: of_row, address: std::ptr::null_mut(), ..*slot };
    }
    let Some(walk) = walk::only(row_sizes, &along[..slots.len()], Order::RowMajor) else { return Ok(()) };
    let count = walk.numel();
    let rows = Rows { kind: RowKind { job, slots, count, held }, walk };
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

/// Whether a kernel takes rows of `n` elements by whole steps: then it reads and writes up to the next multiple of [`STEP_ELEMENTS`], so that
/// its loops are of a constant length (rows of 10, Zen 4: `x − mean` 28 → 11 ns, layer norm 58 → 31).
#[inline(always)]
pub(super) const fn is_short(n: usize, in_place: bool) -> bool {
    n <= SHORT_ROW_ELEMENTS && !in_place
}

/// Bytes on the stack for what a program holds of a row, and for a row of each operand.
const SMALL: usize = 8 << 10;

/// Runs a few rows that are contiguous in every operand and stand at equal distances; says whether they were such.
///
/// There is nothing to walk and to pack then, and a tensor of a few elements does not pay for it.
///
/// # Safety
/// As [`drive`].
pub(super) unsafe fn small(
    job: &Job<'_>,
    held: usize,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: &[OperandRef<'_>],
) -> bool {
    let slots = together(outputs, inputs);
    let slots = &slots[..outputs.len() + inputs.len()];
    let (outer, along) = sizes.split_at(sizes.len() - row);
    let [mut down, mut steps] = [[0; MAX_OPERANDS]; 2];
    let (Some(rows), Some(count)) =
        (walk::one_axis(outer, 0, slots, &mut down), walk::one_axis(along, outer.len(), slots, &mut steps))
    else {
        return false;
    };
    let kind = RowKind { job, slots, count, held };
    let stands = |k: usize| {
        (count == 1 || steps[k] == slots[k].element as isize) && (rows == 1 || kind.is_ready(k, down[k]))
    };
    let rooms = if kind.beyond() > 0 { (0..slots.len()).map(|k| kind.pitch(k)).sum() } else { 0 };
    if rows.saturating_mul(count) >= walk::SHARED
        || !(0..slots.len()).all(stands)
        || kind.held_of_row().saturating_add(rooms) > SMALL
    {
        return false;
    }
    let mut words = Words::<{ SMALL / 8 }>::uninit();
    let words = words.as_mut_ptr().cast::<u8>();
    let (mut base, mut by) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
    let (mut aside, mut used) = ([None; MAX_OPERANDS], 0);
    for (k, slot) in slots.iter().enumerate() {
        (base[k], by[k]) = (slot.address, down[k]);
        if rooms > 0 {
            aside[k] = Some(words.wrapping_add(used));
            used += kind.pitch(k);
        }
    }
    base[MAX_OPERANDS] = words.wrapping_add(used);
    // SAFETY: the caller's promise: rows of `count` elements; there is room for a row of each and for what is held of one, from a
    // cache line on.
    unsafe {
        words.write_bytes(0, used);
        kind.each(&base, &by, rows, &aside);
    }
    true
}

/// Rows of one length, contiguous in every operand.
struct RowKind<'a> {
    job: &'a Job<'a>,
    slots: &'a [OperandRef<'a>],
    count: usize,
    /// Bytes that the program holds for each element of a row.
    held: usize,
}

impl RowKind<'_> {
    /// Bytes for what the program holds of a row. Each of the values begins at a cache line, and has whole steps: a byte an element
    /// is the least that one takes.
    fn held_of_row(&self) -> usize {
        self.held.saturating_mul(self.count.saturating_add(128))
    }

    fn is_short(&self) -> bool {
        is_short(self.count, self.job.first == 0)
    }

    /// How many elements beyond a row the kernel reads and writes.
    fn beyond(&self) -> usize {
        if self.is_short() { self.count.next_multiple_of(STEP_ELEMENTS) - self.count } else { 0 }
    }

    /// Bytes from one packed row to the next: an odd number of cache lines, so that rows do not crowd one set of a cache.
    fn pitch(&self, k: usize) -> usize {
        let count = self.count.saturating_add(self.beyond());
        (count.saturating_mul(self.slots[k].element).div_ceil(64) | 1).saturating_mul(64)
    }

    /// Whether the kernel takes rows of operand `k` as they stand, `down` bytes apart: what follows a short one is the next one, or
    /// they are one and the same.
    fn is_ready(&self, k: usize, down: isize) -> bool {
        self.beyond() == 0
            || down == (self.count * self.slots[k].element) as isize
            || (down == 0 && k >= self.job.first)
    }

    /// Runs the kernel on `rows` rows, which begin at `base` and stand `down` bytes apart. Operands with a room `aside` have nothing
    /// beyond their last rows, which are run there.
    ///
    /// # Safety
    /// The kernel's promise for operands without a room. Those with one are dense, or inputs whose rows are one and the same; their rooms
    /// have a pitch of initialized bytes each.
    unsafe fn each(&self, base: &Addresses, down: &Steps, rows: usize, aside: &Packed) {
        let RowKind { job, slots, count, .. } = *self;
        let beyond = self.beyond();
        if beyond == 0 {
            // SAFETY: the caller's promise.
            return unsafe { job.each_row(base, down, rows, count) };
        }
        let nbytes = |k: usize| count * slots[k].element;
        let (mut base, mut last) = (*base, 0);
        for (k, room) in aside.iter().enumerate() {
            let Some(room) = *room else { continue };
            if down[k] == 0 && k >= job.first {
                // SAFETY: one row for all, and room for it.
                unsafe { std::ptr::copy_nonoverlapping(base[k], room, nbytes(k)) };
                base[k] = room;
            } else {
                last = beyond.div_ceil(count).min(rows);
            }
        }
        // SAFETY: beyond these rows are others of the same operand, those of outputs written later, or a room.
        unsafe { job.each_row(&base, down, rows - last, count) };
        for row in rows - last..rows {
            let mut here = base;
            for (k, at) in here.iter_mut().enumerate().take(slots.len()) {
                *at = at.wrapping_offset(row as isize * down[k]);
                let Some(room) = aside[k] else { continue };
                if k >= job.first && down[k] != 0 {
                    // SAFETY: a row of this operand, and room for it.
                    unsafe { std::ptr::copy_nonoverlapping(*at, room, nbytes(k)) };
                }
                *at = room;
            }
            // SAFETY: every row has room beyond it.
            unsafe { job.each_row(&here, &STAY, 1, count) };
            for (k, room) in aside.iter().enumerate().take(job.outputs) {
                if let Some(room) = *room {
                    let to = base[k].wrapping_offset(row as isize * down[k]);
                    // SAFETY: as above, the other way.
                    unsafe { std::ptr::copy_nonoverlapping(room, to, nbytes(k)) };
                }
            }
        }
    }
}

struct Rows<'a> {
    kind: RowKind<'a>,
    /// One row, from no address.
    walk: Walk,
}

impl Rows<'_> {
    unsafe fn part(&self, outer: &Walk) -> Result<()> {
        let RowKind { job, slots, count, .. } = self.kind;
        let is_packed: [bool; MAX_OPERANDS] = std::array::from_fn(|k| {
            k < slots.len()
                && (!self.walk.is_linear(k, slots[k].element)
                    || (k < job.outputs && job.streams && count >= MAX_ACCUMULATORS)
                    || !self.kind.is_ready(k, outer.inner_step(k)))
        });
        // An input whose rows are one and the same is packed once for all of them.
        let is_one = |k: usize| k >= job.first && outer.inner_step(k) == 0;
        let each_packed = || (0..slots.len()).filter(|&k| is_packed[k] && !is_one(k));
        let pitch: usize = each_packed().map(|k| self.kind.pitch(k)).sum();
        let crosswise = each_packed().any(|k| outer.inner_step(k) == slots[k].element as isize);
        let height = match pitch {
            0 => usize::MAX,
            _ if self.kind.is_short() => (SHORT_ROOM / pitch).max(1),
            _ if crosswise => (64 / slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, 16))
                .min(ROOM / pitch)
                .max(1),
            _ => 1,
        };
        // What is packed has room for so many rows; the others for one, where the kernel goes beyond it.
        let mut used = 0;
        let mut room = |rows: usize, k: usize| {
            let at = used;
            used = rows.saturating_mul(self.kind.pitch(k)).saturating_add(used);
            at
        };
        let places: [Option<usize>; MAX_OPERANDS] = std::array::from_fn(|k| match is_packed[k] {
            true => Some(room(if is_one(k) { 1 } else { height }, k)),
            false => (k < slots.len() && self.kind.beyond() > 0).then(|| room(1, k)),
        });
        let scratch = CpuBlock::scratch(used.saturating_add(self.kind.held_of_row()))?;
        let at = |place: usize| scratch.address().wrapping_add(place);
        let packed: Packed = std::array::from_fn(|k| places[k].filter(|_| is_packed[k]).map(at));
        let aside: Packed = std::array::from_fn(|k| places[k].filter(|_| !is_packed[k]).map(at));
        if self.kind.beyond() > 0 {
            // SAFETY: what was counted above.
            unsafe { scratch.address().write_bytes(0, used) };
        }
        let (mut index, mut done) = (outer.index_of(0), 0);
        // The operands' rows that were last packed.
        let mut there = [std::ptr::null_mut(); MAX_OPERANDS];
        while done < outer.numel() {
            let rows = outer.left_in_row(&index).min(height);
            let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
            for k in 0..slots.len() {
                let from = outer.address_at(k, &index);
                (base[k], down[k]) = match packed[k] {
                    Some(room) if is_one(k) => (room, 0),
                    Some(room) => (room, self.kind.pitch(k) as isize),
                    None => (from, outer.inner_step(k)),
                };
                if k >= job.first && packed[k].is_some() && !(is_one(k) && from == there[k]) {
                    let rows = if is_one(k) { 1 } else { rows };
                    // SAFETY: `rows` rows of this operand, which the caller promised, into room for them.
                    unsafe { self.pack(k, base[k], from, rows, outer.inner_step(k)) };
                }
                there[k] = from;
            }
            base[MAX_OPERANDS] = at(used);
            // SAFETY: every pointer has contiguous rows; outputs are packed or overlap nothing.
            unsafe { self.kind.each(&base, &down, rows, &aside) };
            // What the next rows read as it stands is fetched while the first output of these is streamed, if it stays in a cache.
            let (mut next, mut fetched) = ([(std::ptr::null_mut(), 0); FETCHED], 0);
            let plain =
                |&k: &usize| packed[k].is_none() && slots[k].element == slots[0].element && down[k] != 0;
            let stays = count.saturating_mul(slots[0].element) <= NEXT && outer.left_in_row(&index) > rows;
            for k in
                (job.first..slots.len()).filter(plain).take(if job.streams && stays { FETCHED } else { 0 })
            {
                next[fetched] = (base[k].wrapping_offset(rows as isize * down[k]), down[k]);
                fetched += 1;
            }
            for k in (0..job.outputs).filter(|&k| packed[k].is_some()) {
                let ahead = if k == 0 { &next[..fetched] } else { &[] };
                // SAFETY: as for the inputs, the other way.
                unsafe {
                    self.unpack(k, outer.address_at(k, &index), base[k], rows, outer.inner_step(k), ahead)
                };
            }
            outer.advance(&mut index, rows);
            done += rows;
        }
        Ok(())
    }

    /// Packs `rows` rows of operand `k`, which stand `down` bytes apart.
    unsafe fn pack(&self, k: usize, to: *mut u8, from: *mut u8, rows: usize, down: isize) {
        let element = self.kind.slots[k].element;
        if self.walk.is_line() {
            let (room, steps) =
                ([self.kind.pitch(k) as isize, element as isize], [down, self.walk.inner_step(k)]);
            // SAFETY: the caller's promise: rows of elements, and room for them.
            return unsafe { pack::rectangle(to, room, from, steps, [rows, self.kind.count], element) };
        }
        for row in 0..rows {
            let line = self.line_at(k, from.wrapping_offset(row as isize * down));
            // SAFETY: as above, row by row.
            unsafe {
                pack::gather(
                    &line,
                    k,
                    line.index_of(0),
                    self.kind.count,
                    element,
                    to.wrapping_add(row * self.kind.pitch(k)),
                )
            };
        }
    }

    /// The other way; meanwhile rows of `ahead` are fetched, each where one begins and its step to the next.
    unsafe fn unpack(
        &self,
        k: usize,
        to: *mut u8,
        from: *mut u8,
        rows: usize,
        down: isize,
        ahead: &[(*mut u8, isize)],
    ) {
        let (element, step) = (self.kind.slots[k].element, self.walk.inner_step(k));
        if self.walk.is_line() && step != element as isize {
            let room = [self.kind.pitch(k) as isize, element as isize];
            // SAFETY: the caller's promise.
            return unsafe {
                pack::rectangle(to, [down, step], from, room, [rows, self.kind.count], element)
            };
        }
        for row in 0..rows {
            let (to, from) =
                (to.wrapping_offset(row as isize * down), from.wrapping_add(row * self.kind.pitch(k)));
            let mut next = [std::ptr::null_mut(); FETCHED];
            for (next, &(at, down)) in next.iter_mut().zip(ahead) {
                *next = at.wrapping_offset((row as isize).wrapping_mul(down));
            }
            // SAFETY: the caller's promise, row by row.
            unsafe {
                if self.walk.is_line() {
                    self.kind.job.put(to, step, from, self.kind.count, element, &next[..ahead.len()]);
                } else {
                    let line = self.line_at(k, to);
                    pack::scatter(&line, k, line.index_of(0), self.kind.count, element, from);
                }
            }
        }
    }

    /// The row of operand `k` that begins at `address`.
    fn line_at(&self, k: usize, address: *mut u8) -> Walk {
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        addresses[k] = address;
        self.walk.from(addresses)
    }
}
