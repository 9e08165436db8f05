//! Columns, reduced side by side: a kept axis is the one to go along in memory.
//!
//! Imports: `scalar`, `element`, `kernel`, `device`.

use super::fold::{Cascade, State};
use super::io::{ROUNDING, Scratch, Words, value};
use super::pack;
use super::reduce::{Job, SCRATCH};
use super::simd::{self, Loop};
use super::walk::{Addresses, Index, Walk};
use crate::device::MAX_OPERANDS;
use crate::element::Element;
use crate::kernel::{Body, Reducer};
use crate::scalar::{Lane, Run};
use std::mem::MaybeUninit;

/// Columns that are reduced side by side, in registers.
pub(super) const WIDTH: usize = 64;
/// How many times as many are taken together, some rows at a time, so that memory is read in longer runs; at most.
const STRIPS: usize = 16;
/// Bytes on the stack for the states of strips: of the leaf at hand, and one for each binary digit that counts the leaves.
const ROOM: usize = 48 << 10;
/// Rows that one strip absorbs before the next strip has its turn: as many runs are read at a time.
const TURN: usize = 8;
/// The side of the squares in which narrow elements are turned.
const SQUARE: usize = 16;
/// Rows of columns that are absorbed before their states join the tree.
pub(super) const LEAF_ROWS: usize = 128;

impl Job<'_> {
    /// # Safety
    /// As the job's drive, for columns.
    pub(super) unsafe fn by_columns(&self, outer: &Walk, inner: &Walk, count: usize) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        let slots = self.inputs.slots;
        let packed = || (0..slots.len()).filter(|&k| outer.inner_step(k + 1) != slots[k].element as isize);
        let ((mut strips, _), mut rows) = (strips_and_digits(count, self.kernel.state), LEAF_ROWS);
        let widths: usize = packed().map(|k| slots[k].element).sum();
        if let Some(elements) = (SCRATCH - ROUNDING).checked_div(widths) {
            // Squares are turned where rows stand crosswise: these come first, runs of memory else.
            let crosswise = packed().any(|k| inner.inner_step(k) == slots[k].element as isize);
            let block = elements / WIDTH;
            strips = strips.min(block / count.clamp(1, if crosswise { 2 * SQUARE } else { TURN })).max(1);
            rows = (block / strips).clamp(1, LEAF_ROWS);
            rows -= if crosswise && rows > SQUARE { rows % SQUARE } else { 0 };
        }
        let most = strips * WIDTH;
        for k in packed() {
            scratch[k] = Some(room.take(rows * most * slots[k].element));
        }
        let (mut index, mut done) = (outer.index_of(0), 0);
        while done < outer.numel() {
            let width = outer.left_in_row(&index).min(most);
            let walk = inner.from(self.addresses(outer, &index));
            let mut tiles = Tiles { job: self, outer, walk, index: inner.index_of(0), left: count, width, most, rows, scratch };
            // SAFETY: as for rows, for `width` outputs along the fastest kept axis.
            unsafe { (self.kernel.columns)(self.body, &mut tiles, count, outer.address_at(0, &index), outer.inner_step(0)) };
            outer.advance(&mut index, width);
            done += width;
        }
    }
}

/// How many strips of columns of `count` values are taken together, and the binary digits that count their leaves; states
/// have `state` bytes, at most [`COLUMN_STATE`].
pub(super) fn strips_and_digits(count: usize, state: usize) -> (usize, usize) {
    let states = ROOM / (WIDTH * state.max(1));
    let digits = (count.div_ceil(LEAF_ROWS).max(1).ilog2() as usize + 1).min(states - 1);
    ((states / (digits + 1)).clamp(1, STRIPS), digits)
}

/// The values of several rows side by side, some rows at a time.
pub(super) struct Tiles<'a> {
    job: &'a Job<'a>,
    outer: &'a Walk,
    walk: Walk,
    index: Index,
    left: usize,
    pub(super) width: usize,
    /// Columns that a packed row has room for.
    most: usize,
    rows: usize,
    scratch: [Option<*mut u8>; MAX_OPERANDS],
}

impl Tiles<'_> {
    /// The next rows: the pointers of the first, the steps from one to the next in bytes, and how many; 0 at the end.
    pub(super) fn next(&mut self, most: usize) -> (Addresses, [isize; MAX_OPERANDS], usize) {
        let n = self.left.min(self.rows).min(most).min(self.walk.left_in_row(&self.index));
        let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        let mut step = [0; MAX_OPERANDS];
        for (k, slot) in self.job.inputs.slots.iter().enumerate() {
            let from = self.walk.address_at(k, &self.index);
            let Some(tile) = self.scratch[k] else {
                (base[k], step[k]) = (from, self.walk.inner_step(k));
                continue;
            };
            (base[k], step[k]) = (tile, (self.most * slot.element) as isize);
            let to = [step[k], slot.element as isize];
            let steps = [self.walk.inner_step(k), self.outer.inner_step(k + 1)];
            // SAFETY: `n` rows of `width` elements across the kept axis, promised by the caller of `drive`, into their tile.
            unsafe { pack::rectangle(tile, to, from, steps, [n, self.width], slot.element) };
        }
        self.walk.advance(&mut self.index, n);
        self.left -= n;
        let mut steps = [0; MAX_OPERANDS];
        for (to, &read) in steps.iter_mut().zip(self.job.inputs.reads) {
            *to = step[read as usize];
        }
        (self.job.spread(&base), steps, n)
    }
}

#[repr(align(64))]
struct Room(MaybeUninit<[u8; ROOM]>);

/// Reduces several columns to as many outputs, `out_step` bytes apart.
///
/// # Safety
/// `body` points to a `B`; the tiles hold its operands' elements; the outputs have room for one `R::Out` each.
pub(super) unsafe fn columns<B: Body, R: Reducer<B::Out>>(
    body: *const (),
    tiles: &mut Tiles<'_>,
    count: usize,
    out: *mut u8,
    out_step: isize,
) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let combine = |mut a: [State<B, R>; WIDTH], b: [State<B, R>; WIDTH]| {
        for j in 0..WIDTH {
            a[j] = R::combine::<Run>(a[j], b[j]);
        }
        a
    };
    let identity = [R::identity::<Run>(); WIDTH];
    let far = tiles.job.early > 0 && tiles.scratch.iter().all(Option::is_none);
    let width = tiles.width;
    let used = width.div_ceil(WIDTH);
    const { assert!(align_of::<State<B, R>>() <= align_of::<Room>(), "states have their places in the room") };
    let mut room = Room(MaybeUninit::uninit());
    let states = ROOM / size_of::<[State<B, R>; WIDTH]>().max(1);
    // SAFETY: so many of them have room, at a place for them; nobody says that they were written.
    let room = unsafe { std::slice::from_raw_parts_mut(room.0.as_mut_ptr().cast::<MaybeUninit<[State<B, R>; WIDTH]>>(), states) };
    let (leaf, trees) = room.split_at_mut(used);
    let mut trees = trees.chunks_exact_mut(strips_and_digits(count, size_of::<State<B, R>>()).1);
    let mut cascades: [_; STRIPS] = std::array::from_fn(|_| Cascade::over(trees.next().unwrap_or_default()));
    let (mut at, mut more) = (0, true);
    while more {
        for state in &mut *leaf {
            state.write(identity);
        }
        // SAFETY: they have just been written.
        let states = unsafe { std::slice::from_raw_parts_mut(leaf.as_mut_ptr().cast::<[State<B, R>; WIDTH]>(), used) };
        let mut filled = 0;
        while filled < LEAF_ROWS {
            let (pointers, steps, n) = tiles.next(LEAF_ROWS - filled);
            if n == 0 {
                more = false;
                break;
            }
            simd::dispatch(AbsorbColumns::<B, R> { body, pointers, steps, n, width, at, far, states });
            at += n;
            filled += n;
        }
        if filled > 0 {
            for (cascade, state) in cascades[..used].iter_mut().zip(states.iter()) {
                cascade.push(*state, combine);
            }
        }
    }
    for (strip, cascade) in cascades[..used].iter().enumerate() {
        let states = cascade.join(identity, combine);
        let start = start_of(strip, width);
        for (j, state) in states.into_iter().enumerate().take(width - start) {
            let value = R::finish::<Run>(state, Lane(count as i64)).0;
            // SAFETY: the caller's promise.
            unsafe { out.offset((start + j) as isize * out_step).cast::<R::Out>().write(R::Out::narrow(value)) };
        }
    }
}

/// The first column of a strip. The last of several ends where the columns do: what it shares with the one before is computed
/// twice, and alike.
#[inline(always)]
fn start_of(strip: usize, width: usize) -> usize {
    (strip * WIDTH).min(width.saturating_sub(WIDTH))
}

struct AbsorbColumns<'a, B: Body, R: Reducer<B::Out>> {
    body: B,
    pointers: Addresses,
    steps: [isize; MAX_OPERANDS],
    n: usize,
    width: usize,
    at: usize,
    /// Whether the next rows are fetched.
    far: bool,
    /// Of each strip.
    states: &'a mut [[State<B, R>; WIDTH]],
}

impl<B: Body, R: Reducer<B::Out>> Loop for AbsorbColumns<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AbsorbColumns { body, mut pointers, steps, n, width, at, far, states } = self;
        if width < WIDTH {
            return narrow::<B, R>(body, pointers, steps, n, at, &mut states[0][..width]);
        }
        for from in (0..n).step_by(TURN) {
            let rows = TURN.min(n - from);
            for (strip, result) in states.iter_mut().enumerate() {
                let start = start_of(strip, width);
                for k in 0..if far { B::LOADS } else { 0 } {
                    for row in 0..rows {
                        let next = pointers[k].wrapping_offset((row + TURN) as isize * steps[k]);
                        simd::fetch_early(next.wrapping_add(start * size_of::<B::Out>()), WIDTH * size_of::<B::Out>());
                    }
                }
                *result = strip_of::<B, R>(body, pointers, steps, rows, at + from, start, *result);
            }
            for k in 0..B::LOADS {
                pointers[k] = pointers[k].wrapping_offset(rows as isize * steps[k]);
            }
        }
    }
}

/// Takes some rows of `WIDTH` columns, the first of which is `start`, into their states.
#[inline(always)]
fn strip_of<B: Body, R: Reducer<B::Out>>(
    body: B,
    mut pointers: Addresses,
    steps: [isize; MAX_OPERANDS],
    rows: usize,
    at: usize,
    start: usize,
    mut states: [State<B, R>; WIDTH],
) -> [State<B, R>; WIDTH] {
    for row in 0..rows {
        let (at, here) = (Lane((at + row) as i64), pointers);
        for j in 0..WIDTH {
            states[j] = R::absorb::<Run>(states[j], value::<B, false>(&body, &here, 0, start.wrapping_add(j)), at);
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
    states
}

/// Takes some rows of fewer columns into their states, which stay in memory.
#[inline(always)]
fn narrow<B: Body, R: Reducer<B::Out>>(
    body: B,
    mut pointers: Addresses,
    steps: [isize; MAX_OPERANDS],
    rows: usize,
    at: usize,
    states: &mut [State<B, R>],
) {
    for row in 0..rows {
        let (at, here) = (Lane((at + row) as i64), pointers);
        for (j, state) in states.iter_mut().enumerate() {
            *state = R::absorb::<Run>(*state, value::<B, false>(&body, &here, 0, j), at);
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
}
