//! Columns, reduced side by side: a kept axis is the one to go along in memory.
// Imports: `scalar`, `kernel`, `device`.

use super::fold::State;
use super::io::{By, Mode, ROUNDING, Scratch, Words, value};
use super::pack;
use super::reduce::{Job, SCRATCH};
use super::simd::{self, Loop};
use super::states::Cascade;
use super::walk::{Addresses, Index, Walk};
use crate::device::MAX_OPERANDS;
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;

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
const LEAF_ROWS: usize = 128;

impl Job<'_> {
    /// # Safety
    /// As the job's drive, for columns.
    pub(super) unsafe fn by_columns(&self, outer: &Walk, inner: &Walk, count: usize) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        let slots = self.inputs.slots;
        let packed = || (0..slots.len()).filter(|&k| outer.inner_step(k + 1) != slots[k].element as isize);
        let ((mut strips, _), mut rows) = (strips_and_digits(count, self.kernel.states.size), LEAF_ROWS);
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
            let mut tiles = Tiles {
                job: self,
                outer,
                walk,
                index: inner.index_of(0),
                left: count,
                width,
                most,
                rows,
                scratch,
            };
            // SAFETY: as for rows, for `width` outputs along the fastest kept axis.
            unsafe { self.columns(&mut tiles, count, outer.address_at(0, &index), outer.inner_step(0)) };
            outer.advance(&mut index, width);
            done += width;
        }
    }

    /// Reduces several columns to as many outputs, `out_step` bytes apart.
    ///
    /// # Safety
    /// The tiles hold the operands' elements; each output has room for its element.
    unsafe fn columns(&self, tiles: &mut Tiles<'_>, count: usize, out: *mut u8, out_step: isize) {
        let (states, width) = (&self.kernel.states, tiles.width);
        let (used, strip) = (width.div_ceil(WIDTH), WIDTH * states.size);
        let digits = strips_and_digits(count, states.size).1;
        let mut room = Words::<{ ROOM / 8 }>::uninit();
        // First the states of the leaf at hand, strip by strip, then the digits of each strip.
        let leaf = room.as_mut_ptr().cast::<u8>();
        let mut cascades: [Cascade<'_>; STRIPS] = std::array::from_fn(|k| {
            Cascade::over(states, leaf.wrapping_add((used + k * digits) * strip), digits, WIDTH)
        });
        let far = self.early > 0 && tiles.scratch.iter().all(Option::is_none);
        let mut at = 0;
        loop {
            // SAFETY: so many states have room.
            unsafe { states.identity(leaf, used * WIDTH) };
            let mut filled = 0;
            while filled < LEAF_ROWS && at < count {
                let (pointers, steps, n) = tiles.next(LEAF_ROWS - filled);
                // SAFETY: the caller's promise; the states were written above.
                unsafe {
                    (self.kernel.columns)(
                        self.body,
                        &Strips { pointers, steps, n, width, at, far, states: leaf },
                    )
                };
                at += n;
                filled += n;
            }
            if at == count {
                break;
            }
            for (k, cascade) in cascades[..used].iter_mut().enumerate() {
                // SAFETY: the states of a strip, and room for as many as it has digits ([`strips_and_digits`]).
                unsafe { cascade.push(leaf.add(k * strip)) };
            }
        }
        for (k, cascade) in cascades[..used].iter().enumerate() {
            let start = start_of(k, width);
            // SAFETY: as above; the caller's promise for the outputs.
            unsafe {
                let last = leaf.add(k * strip);
                cascade.join(last);
                states.finalize(
                    last,
                    WIDTH.min(width - start),
                    count,
                    out.wrapping_offset(start as isize * out_step),
                    out_step,
                );
            }
        }
    }
}

/// How many strips of columns of `count` values are taken together, and the binary digits that count their leaves; states
/// have `state` bytes, at most [`COLUMN_STATE`].
fn strips_and_digits(count: usize, state: usize) -> (usize, usize) {
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
    width: usize,
    /// Columns that a packed row has room for.
    most: usize,
    rows: usize,
    scratch: [Option<*mut u8>; MAX_OPERANDS],
}

impl Tiles<'_> {
    /// The next rows: the pointers of the first, the steps from one to the next in bytes, and how many; 0 at the end.
    fn next(&mut self, most: usize) -> (Addresses, [isize; MAX_OPERANDS], usize) {
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

/// The first column of a strip. The last of several ends where the columns do: what it shares with the one before is computed
/// twice, and alike.
#[inline(always)]
pub(super) fn start_of(strip: usize, width: usize) -> usize {
    (strip * WIDTH).min(width.saturating_sub(WIDTH))
}

/// Some rows of columns, and the states that absorb them.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    pub(super) pointers: Addresses,
    pub(super) steps: [isize; MAX_OPERANDS],
    pub(super) n: usize,
    pub(super) width: usize,
    pub(super) at: usize,
    /// Whether the next rows are fetched.
    far: bool,
    /// Of each strip.
    pub(super) states: *mut u8,
}

/// # Safety
/// `body` points to a `B`; the strips hold its operands' elements, and have states.
pub(super) unsafe fn accumulate<B: Body, R: Reducer<B::Out>>(body: *const (), strips: &Strips) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let accumulate = AbsorbColumns::<B, R> { body, strips, reducer: PhantomData };
    // Light columns wait for memory, however wide vectors are.
    if const { B::CHEAP && R::CHEAP } { simd::dispatch_two(accumulate) } else { simd::dispatch(accumulate) }
}

struct AbsorbColumns<'a, B, R> {
    body: B,
    strips: &'a Strips,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for AbsorbColumns<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.each::<By<false, false>>();
    }
    #[inline(always)]
    fn run_plain(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>> AbsorbColumns<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let (body, Strips { mut pointers, steps, n, width, at, far, states }) = (self.body, *self.strips);
        // States of several lanes are no vectors: they may as well stay in memory, as those of few columns.
        let in_memory = width < WIDTH || const { size_of::<State<B, R>>() > size_of::<u64>() };
        let turn = if width < WIDTH { n } else { TURN };
        for from in (0..n).step_by(turn.max(1)) {
            let rows = turn.min(n - from);
            for strip in 0..width.div_ceil(WIDTH) {
                let start = start_of(strip, width);
                for k in 0..if far && width >= WIDTH { B::LOADS } else { 0 } {
                    for row in 0..rows {
                        let next = pointers[k].wrapping_offset((row + TURN) as isize * steps[k]);
                        simd::fetch_early(
                            next.wrapping_add(start * size_of::<B::Out>()),
                            WIDTH * size_of::<B::Out>(),
                        );
                    }
                }
                let states = states.cast::<[State<B, R>; WIDTH]>().wrapping_add(strip);
                // SAFETY: whoever made the strips promised states for each (`accumulate`).
                unsafe {
                    if in_memory {
                        let states = std::slice::from_raw_parts_mut(states.cast(), width.min(WIDTH));
                        narrow::<B, R, M>(body, pointers, steps, rows, at + from, start, states);
                    } else {
                        states.write(strip_of::<B, R, M>(
                            body,
                            pointers,
                            steps,
                            rows,
                            at + from,
                            start,
                            states.read(),
                        ));
                    }
                }
            }
            for k in 0..B::LOADS {
                pointers[k] = pointers[k].wrapping_offset(rows as isize * steps[k]);
            }
        }
    }
}

/// Takes some rows of `WIDTH` columns, the first of which is `start`, into their states.
#[inline(always)]
fn strip_of<B: Body, R: Reducer<B::Out>, M: Mode>(
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
            states[j] =
                R::accumulate::<Eval>(states[j], value::<B, M>(&body, &here, 0, start.wrapping_add(j)), at);
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
    states
}

/// Takes some rows of columns, the first of which is `start`, into their states, which stay in memory.
#[inline(always)]
fn narrow<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    mut pointers: Addresses,
    steps: [isize; MAX_OPERANDS],
    rows: usize,
    at: usize,
    start: usize,
    states: &mut [State<B, R>],
) {
    for row in 0..rows {
        let (at, here) = (Lane((at + row) as i64), pointers);
        for (j, state) in states.iter_mut().enumerate() {
            *state = R::accumulate::<Eval>(*state, value::<B, M>(&body, &here, 0, start.wrapping_add(j)), at);
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
}
