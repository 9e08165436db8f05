//! A reducer over the values of a body, interpreted: states of rows, or of leaves of one row, side by side.
//!
//! As in compiled loops a row is absorbed by 64 states side by side (32 wide ones), a leaf's states are collapsed by halves, and
//! leaves are combined pairwise: the same trees, so that results have the same bits.
//! Imports: `scalar`, `kernel`, `device`.

use super::code::{Value, Writer, bytes_of};
use super::frame::{Both, Memory, Operand, Room, Running, splat, sweep};
use super::map::Outside;
use super::steps::{Place, WIDTH};
use super::tree::Tree;
use crate::device::cpu::fold::{DIGITS, LEAF, lanes_of};
use crate::kernel::{Numbers, PIECE, SliceFn, TracedReducer};
use crate::scalar::{DType, Graph};

/// Rows side by side.
pub(super) const LINES: usize = 16;
/// Leaves of one row side by side: so many begin at one place of a cache's sets.
const LEAVES: usize = 8;

/// A reducer over a body, written for columns.
pub(super) struct Folded {
    /// Of what comes from outside, a state and the number of a value; to a state.
    absorb: Both,
    /// Of two states.
    combine: Both,
    /// Of a state and the number of values.
    finish: Both,
    /// The values alone, for a reducer that takes many at once, and that one; `None` for values that are an operand's elements.
    values: Option<Both>,
    pub(super) slice: Option<SliceFn>,
    identity: Vec<[u8; 16]>,
    /// Bytes of the lanes of a state, and of a value and the result.
    widths: Vec<usize>,
    value: usize,
    pub(super) out: usize,
    pub(super) lanes: usize,
    counts: bool,
}

impl Folded {
    /// Run-time numbers of the body count from `param` on; the result is of type `out`. `in_memory` says that the values are the
    /// elements of an operand.
    pub(super) fn new(
        body: &Graph,
        reducer: &TracedReducer,
        outside: &Outside<'_>,
        param: usize,
        out: DType,
        in_memory: bool,
    ) -> Option<Folded> {
        let slice = reducer.slice;
        let state = |writer: &mut Writer| -> Vec<Value> { reducer.state.iter().map(|&dtype| writer.outside(dtype, false)).collect() };
        let values = |writer: &mut Writer| -> Option<Value> {
            let (inputs, given) = outside.values(writer);
            writer.graph(body, &inputs, &given, param)?.first().copied()
        };
        let one = Both::new(false, &|writer| writer.graph(&reducer.identity, &[], &[], 0))?;
        let identity = constants(&one, &reducer.state);
        let absorb = Both::new(true, &|writer| {
            let value = values(writer)?;
            let mut given = state(writer);
            given.push(value);
            given.push(writer.outside(DType::I64, false));
            writer.graph(&reducer.absorb, &[], &given, 0)
        })?;
        Some(Folded {
            counts: absorb.reads(outside.types.len() + reducer.state.len()),
            absorb,
            combine: Both::new(true, &|writer| {
                let mut given = state(writer);
                given.extend(state(writer));
                writer.graph(&reducer.combine, &[], &given, 0)
            })?,
            finish: Both::new(true, &|writer| {
                let mut given = state(writer);
                given.push(writer.outside(DType::I64, false));
                let value = writer.graph(&reducer.finish, &[], &given, 0)?.first().copied()?;
                Some(vec![writer.cast(value, out)?])
            })?,
            values: match slice {
                Some(_) if !in_memory => Some(Both::new(true, &|writer| Some(vec![values(writer)?]))?),
                _ => None,
            },
            slice,
            identity,
            widths: reducer.state.iter().map(|dtype| dtype.size()).collect(),
            value: body.outputs().next()?.0.size(),
            out: out.size(),
            lanes: lanes_of(reducer.nbytes),
        })
    }

    /// Chunks of the states of some lines.
    pub(super) fn chunks_of(&self, lines: usize) -> usize {
        lines * self.lanes / WIDTH
    }

    /// Bytes of a state, its lanes one behind the other.
    pub(super) fn state(&self) -> usize {
        self.widths.iter().sum()
    }
}

/// What a program without operands gives.
pub(super) fn constants(program: &Both, types: &[DType]) -> Vec<[u8; 16]> {
    let mut memory = Memory::new(types.len() * 16 * WIDTH);
    let mut room = Room::new(memory.start());
    let places: Vec<Place> = types.iter().map(|_| Place { at: room.take(16 * WIDTH), along: 0, down: 0 }).collect();
    let none = Numbers::new();
    // SAFETY: room for a chunk of each output.
    unsafe { Running::exactly(program, &none, 1).run(&places, 1, 1) };
    // SAFETY: the first value of each, written just now.
    let first = |(place, dtype): (&Place, &DType)| bytes_of(unsafe { std::slice::from_raw_parts(place.at, dtype.size()) });
    places.iter().zip(types).map(first).collect()
}

/// A reduction that runs: the states of some lines, and room beside.
pub(super) struct Fold<'a> {
    of: &'a Folded,
    absorb: Running<'a>,
    combine: Running<'a>,
    finish: Running<'a>,
    values: Option<Running<'a>>,
    /// Room for so many lines.
    lines: usize,
    /// Columns of the lanes of states, as they are and as they become: a chunk of each line, then, if there are as many states, a
    /// second one of each.
    states: Vec<*mut u8>,
    next: Vec<*mut u8>,
    /// Numbers of values; chunks of operands; a chunk of each lane, three times; a chunk of results; values of a piece.
    numbers: *mut u8,
    aside: Vec<*mut u8>,
    chunks: [Vec<*mut u8>; 3],
    results: *mut u8,
    piece: *mut u8,
    outside: Vec<Place>,
    _memory: Memory,
}

static NONE: Numbers = Numbers::new();

impl<'a> Fold<'a> {
    /// For lines of these operands, at most `lines` chunks of states side by side.
    pub(super) fn new(of: &'a Folded, numbers: &'a Numbers, widths: &[usize], chunks: usize) -> Fold<'a> {
        let column = |width: usize| width * WIDTH * (chunks + 1);
        let total: usize = of.widths.iter().map(|&width| 2 * column(width) + 3 * 16 * WIDTH + 5 * 64).sum::<usize>()
            + column(8)
            + widths.iter().map(|&width| column(width) + 64).sum::<usize>()
            + 16 * WIDTH
            + PIECE * 16
            + 512;
        let mut memory = Memory::new(total);
        let mut room = Room::new(memory.start());
        let mut columns = |widths: &[usize]| -> Vec<*mut u8> { widths.iter().map(|&width| room.take(column(width))).collect() };
        let (states, next, aside) = (columns(&of.widths), columns(&of.widths), columns(widths));
        let counts = room.take(column(8));
        let chunk = |room: &mut Room| -> Vec<*mut u8> { of.widths.iter().map(|_| room.take(16 * WIDTH)).collect() };
        let three = [chunk(&mut room), chunk(&mut room), chunk(&mut room)];
        Fold {
            of,
            absorb: Running::exactly(&of.absorb, numbers, chunks),
            combine: Running::exactly(&of.combine, &NONE, chunks),
            finish: Running::exactly(&of.finish, &NONE, chunks),
            values: of.values.as_ref().map(|values| Running::new(values, numbers, PIECE / WIDTH)),
            lines: chunks * WIDTH / of.lanes,
            states,
            next,
            numbers: counts,
            aside,
            chunks: three,
            results: room.take(16 * WIDTH),
            piece: room.take(PIECE * 16),
            outside: Vec::new(),
            _memory: memory,
        }
    }

    /// Some lines that have absorbed nothing.
    pub(super) fn begin(&mut self, lines: usize) {
        for half in 0..self.of.lanes / WIDTH {
            self.clear(half * self.lines, lines);
        }
    }

    /// Chunks of states that have absorbed nothing.
    pub(super) fn clear(&mut self, from: usize, chunks: usize) {
        for ((&to, bytes), &width) in self.states.iter().zip(&self.of.identity).zip(&self.of.widths) {
            for chunk in from..from + chunks {
                // SAFETY: room for as many chunks.
                unsafe { splat(to.wrapping_add(chunk * width * WIDTH), bytes.as_ptr(), width) };
            }
        }
    }

    /// Absorbs what stands at `places` into the states from chunk `from` on, `rows` rows of `chunks` chunks; `number` is where the
    /// numbers of the values stand. The states after are those in `next`.
    ///
    /// # Safety
    /// That of the steps.
    unsafe fn take(&mut self, places: &[Place], number: Place, from: usize, rows: usize, chunks: usize) {
        let place = |(&at, &width): (&*mut u8, &usize)| Place {
            at: at.wrapping_add(from * width * WIDTH),
            along: (width * WIDTH) as isize,
            down: (width * WIDTH * chunks) as isize,
        };
        self.outside.clear();
        self.outside.extend_from_slice(places);
        self.outside.extend(self.states.iter().zip(&self.of.widths).map(place));
        self.outside.push(number);
        self.outside.extend(self.next.iter().zip(&self.of.widths).map(place));
        // SAFETY: the caller's promise; states have room for as many chunks.
        unsafe { self.absorb.run(&self.outside, rows, chunks) };
    }

    /// Takes a value of each state of some lines from `places`; the first of line `l` has number `at + l · step`.
    ///
    /// # Safety
    /// The places have as many.
    unsafe fn lanes(&mut self, places: &mut [Place], lines: usize, (at, step): (usize, usize)) {
        let number = Place { at: self.numbers, along: (8 * WIDTH) as isize, down: (8 * WIDTH) as isize };
        for half in 0..self.of.lanes / WIDTH {
            for k in 0..if self.of.counts { lines * WIDTH } else { 0 } {
                let value = at.wrapping_add(k / WIDTH * step).wrapping_add(half * WIDTH + k % WIDTH) as i64;
                // SAFETY: room for a chunk of numbers of every line.
                unsafe { self.numbers.cast::<i64>().add(k).write(value) };
            }
            // SAFETY: the caller's promise.
            unsafe { self.take(places, number, half * self.lines, lines, 1) };
            for place in &mut *places {
                place.at = place.at.wrapping_offset(place.along);
            }
        }
    }

    /// Takes `n` values of some lines into their states; the first of line `l` has number `at + l · step`. `follows` says that
    /// values of the same row stand before.
    ///
    /// # Safety
    /// The lines have as many elements of every operand.
    pub(super) unsafe fn absorb(&mut self, operands: &[Operand], lines: usize, n: usize, (at, step): (usize, usize), follows: bool) {
        let (lanes, chunks) = (self.of.lanes, self.of.lanes / WIDTH);
        let mut places = vec![Place::NONE; operands.len()];
        for (k, operand) in operands.iter().enumerate() {
            let step = (operand.width * WIDTH) as isize;
            places[k] = Place { at: operand.at, along: step, down: operand.down };
            if operand.still {
                // SAFETY: an element of each line, and room for a chunk.
                unsafe { operand.gather(self.aside[k], lines, 0, 0, 1) };
                places[k] = Place { at: self.aside[k], along: 0, down: step };
            }
        }
        for start in (0..n / lanes * lanes).step_by(lanes) {
            // SAFETY: the caller's promise.
            unsafe { self.lanes(&mut places, lines, (at.wrapping_add(start), step)) };
            std::mem::swap(&mut self.states, &mut self.next);
        }
        let rest = n % lanes;
        if rest == 0 {
            return;
        }
        // A whole row has the first states; what follows other values has the last ones.
        let from = if n < lanes && !follows && at == 0 { 0 } else { lanes - rest };
        for (k, operand) in operands.iter().enumerate().filter(|(_, operand)| !operand.still) {
            if n >= lanes || follows {
                places[k].at = operand.at.wrapping_add(n * operand.width).wrapping_sub(lanes * operand.width);
            } else {
                // SAFETY: `rest` elements of each line, and room for the chunks of all.
                unsafe { operand.after(n - rest).gather(self.aside[k], lines, rest, from, chunks) };
                places[k] = Place { at: self.aside[k], along: (operand.width * WIDTH) as isize, down: (operand.width * lanes) as isize };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.lanes(&mut places, lines, (at.wrapping_add(n - rest).wrapping_sub(from), step)) };
        // The states beside the rest stay.
        for ((&to, &new), &width) in self.states.iter().zip(&self.next).zip(&self.of.widths) {
            for half in 0..chunks {
                let (first, end) = (from.max(half * WIDTH), (from + rest).min(half * WIDTH + WIDTH));
                for line in 0..if first < end { lines } else { 0 } {
                    let place = ((half * self.lines + line) * WIDTH + first % WIDTH) * width;
                    // SAFETY: inside both columns.
                    unsafe { std::ptr::copy_nonoverlapping(new.wrapping_add(place), to.wrapping_add(place), (end - first) * width) };
                }
            }
        }
    }

    /// Combines the states of each line, each half with the other; the first of each line is then that of all.
    pub(super) fn collapse(&mut self, lines: usize) {
        let mut width = self.of.lanes;
        while width > 1 {
            width /= 2;
            // The second half of many stands in the second chunks.
            let other = if width < WIDTH { width } else { self.lines * WIDTH };
            let place = |(&at, &bytes): (&*mut u8, &usize), from: usize| Place {
                at: at.wrapping_add(from * bytes),
                along: (bytes * WIDTH) as isize,
                down: (bytes * WIDTH) as isize,
            };
            self.outside.clear();
            self.outside.extend(self.states.iter().zip(&self.of.widths).map(|of| place(of, 0)));
            self.outside.extend(self.states.iter().zip(&self.of.widths).map(|of| place(of, other)));
            self.outside.extend(self.next.iter().zip(&self.of.widths).map(|of| place(of, 0)));
            // SAFETY: columns of states, with a chunk of room behind them.
            unsafe { self.combine.run(&self.outside, lines, 1) };
            std::mem::swap(&mut self.states, &mut self.next);
        }
    }

    /// The state of a line, its lanes one behind the other.
    pub(super) fn state(&self, line: usize) -> Vec<u8> {
        let mut state = Vec::with_capacity(self.of.state());
        for (&at, &width) in self.states.iter().zip(&self.of.widths) {
            // SAFETY: the first lane of a line.
            state.extend_from_slice(unsafe { std::slice::from_raw_parts(at.wrapping_add(line * WIDTH * width), width) });
        }
        state
    }

    /// Puts a state where that of a line stands.
    fn put(&mut self, line: usize, state: &[u8]) {
        let mut from = 0;
        for (&at, &width) in self.states.iter().zip(&self.of.widths) {
            // SAFETY: the first lane of a line.
            unsafe { std::ptr::copy_nonoverlapping(state[from..].as_ptr(), at.wrapping_add(line * WIDTH * width), width) };
            from += width;
        }
    }

    /// The state that has absorbed nothing.
    pub(super) fn identity(&self) -> Vec<u8> {
        self.of.identity.iter().zip(&self.of.widths).flat_map(|(bytes, &width)| bytes[..width].iter().copied()).collect()
    }

    /// Joins two states.
    pub(super) fn join(&mut self, a: &[u8], b: &[u8]) -> Vec<u8> {
        join(&mut self.combine, &self.of.widths, &self.chunks, a, b)
    }

    /// The state of one row of `n` values, the first of which has number `at`.
    ///
    /// # Safety
    /// The operands' first rows have as many elements.
    pub(super) unsafe fn row(&mut self, operands: &[Operand], n: usize, at: usize) -> Vec<u8> {
        if n <= LEAF {
            // SAFETY: the caller's promise.
            return unsafe { self.leaf(operands, n, at, false) };
        }
        let mut tree = Tree::new(DIGITS);
        let leaves = if self.of.slice.is_some() { 0 } else { n / LEAF };
        for leaf in (0..leaves).step_by(LEAVES) {
            let lines = LEAVES.min(leaves - leaf);
            let step = |operand: &Operand| Operand {
                down: if operand.still { 0 } else { (LEAF * operand.width) as isize },
                ..operand.after(leaf * LEAF)
            };
            let here: Vec<Operand> = operands.iter().map(step).collect();
            self.begin(lines);
            // SAFETY: the caller's promise: so many whole leaves.
            unsafe { self.absorb(&here, lines, LEAF, (at.wrapping_add(leaf * LEAF), LEAF), leaf > 0) };
            self.collapse(lines);
            for line in 0..lines {
                let state = self.state(line);
                tree.push(state, |a, b| self.join(a, b));
            }
        }
        for start in (leaves * LEAF..n).step_by(LEAF) {
            let here: Vec<Operand> = operands.iter().map(|operand| operand.after(start)).collect();
            // SAFETY: the caller's promise.
            let state = unsafe { self.leaf(&here, LEAF.min(n - start), at.wrapping_add(start), start > 0) };
            tree.push(state, |a, b| self.join(a, b));
        }
        tree.join(|a, b| self.join(a, b)).unwrap_or_else(|| self.identity())
    }

    /// As `row`, of one leaf at most; `follows` as `absorb` has it.
    ///
    /// # Safety
    /// As there.
    unsafe fn leaf(&mut self, operands: &[Operand], n: usize, at: usize, follows: bool) -> Vec<u8> {
        let Some(slice) = self.of.slice else {
            self.begin(1);
            // SAFETY: the caller's promise.
            unsafe { self.absorb(operands, 1, n, (at, 0), follows) };
            self.collapse(1);
            return self.state(0);
        };
        let mut state = self.identity();
        if n == 0 {
            return state;
        }
        let Some(values) = &mut self.values else {
            // SAFETY: the caller's promise: the first operand's elements are the values.
            unsafe { slice(operands[0].at, n, at, state.as_mut_ptr()) };
            return state;
        };
        let mut found = state.clone();
        for start in (0..n).step_by(PIECE) {
            let len = PIECE.min(n - start);
            let mut here: Vec<Operand> = operands.iter().map(|operand| operand.after(start)).collect();
            here.push(Operand { at: self.piece, down: 0, width: self.of.value, still: false });
            // SAFETY: the caller's promise; there is room for a piece of values, and for a state.
            unsafe {
                sweep(values, &here, 1, 1, len);
                slice(self.piece, len, at.wrapping_add(start), found.as_mut_ptr());
            }
            // The programs are apart, so that one runs while the other is borrowed.
            state = join(&mut self.combine, &self.of.widths, &self.chunks, &state, &found);
        }
        state
    }

    /// Reduces `rows` rows of `n` values each, and writes a result of each to `out` and every `step` bytes on.
    ///
    /// # Safety
    /// The operands have as many elements, and `out` room for the results.
    pub(super) unsafe fn rows(&mut self, operands: &[Operand], rows: usize, n: usize, out: *mut u8, step: isize) {
        for row in (0..rows).step_by(LINES) {
            let lines = LINES.min(rows - row);
            let here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
            if n <= LEAF && self.of.slice.is_none() {
                self.begin(lines);
                // SAFETY: the caller's promise.
                unsafe { self.absorb(&here, lines, n, (0, 0), false) };
                self.collapse(lines);
            } else {
                let mut found = Vec::with_capacity(lines);
                for line in 0..lines {
                    let one: Vec<Operand> = here.iter().map(|operand| operand.from(line)).collect();
                    // SAFETY: the caller's promise.
                    found.push(unsafe { self.row(&one, n, 0) });
                }
                found.iter().enumerate().for_each(|(line, state)| self.put(line, state));
            }
            // SAFETY: the caller's promise.
            unsafe { self.finish(lines, n, out.wrapping_offset((row as isize).wrapping_mul(step)), step) };
        }
    }

    /// Writes what the states of some lines come to, which have absorbed `n` values each.
    ///
    /// # Safety
    /// `out` has room.
    unsafe fn finish(&mut self, lines: usize, n: usize, out: *mut u8, step: isize) {
        self.outside.clear();
        for ((&from, &to), &width) in self.states.iter().zip(&self.chunks[0]).zip(&self.of.widths) {
            for line in 0..WIDTH {
                let line_from = from.wrapping_add(if line < lines { line * WIDTH * width } else { 0 });
                // SAFETY: a state, and room for a chunk.
                unsafe { std::ptr::copy_nonoverlapping(line_from, to.wrapping_add(line * width), width) };
            }
            self.outside.push(Place { at: to, along: 0, down: 0 });
        }
        let count = n as i64;
        // SAFETY: room for a chunk of numbers.
        unsafe { splat(self.numbers, count.to_ne_bytes().as_ptr(), 8) };
        self.outside.push(Place { at: self.numbers, along: 0, down: 0 });
        self.outside.push(Place { at: self.results, along: 0, down: 0 });
        // SAFETY: chunks of every lane; the results are the caller's promise.
        unsafe {
            self.finish.run(&self.outside, 1, 1);
            for line in 0..lines {
                let to = out.wrapping_offset((line as isize).wrapping_mul(step));
                std::ptr::copy_nonoverlapping(self.results.wrapping_add(line * self.of.out), to, self.of.out);
            }
        }
    }

    /// As [`finish`](Self::finish), of one state.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn finish_one(&mut self, state: &[u8], n: usize, out: *mut u8) {
        self.put(0, state);
        // SAFETY: the caller's promise.
        unsafe { self.finish(1, n, out, 0) };
    }
}

/// Joins two states by chunks of their lanes.
fn join(combine: &mut Running<'_>, widths: &[usize], chunks: &[Vec<*mut u8>; 3], a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut outside = Vec::new();
    for (state, columns) in [(Some(a), &chunks[0]), (Some(b), &chunks[1]), (None, &chunks[2])] {
        let mut from = 0;
        for (&at, &width) in columns.iter().zip(widths) {
            if let Some(state) = state {
                // SAFETY: room for a chunk, which every value fills.
                unsafe { splat(at, state[from..].as_ptr(), width) };
            }
            outside.push(Place { at, along: 0, down: 0 });
            from += width;
        }
    }
    // SAFETY: chunks of every lane.
    unsafe { combine.run(&outside, 1, 1) };
    let mut joined = Vec::with_capacity(a.len());
    for (&at, &width) in chunks[2].iter().zip(widths) {
        // SAFETY: written just now.
        joined.extend_from_slice(unsafe { std::slice::from_raw_parts(at, width) });
    }
    joined
}

/// Columns side by side.
impl Fold<'_> {
    /// Takes a row of values, each into the state of its column: whole chunks, then a last one.
    ///
    /// # Safety
    /// There is such a row of every operand.
    pub(super) unsafe fn beside(
        &mut self,
        operands: &[Operand],
        row: usize,
        (full, last, width): (usize, Option<usize>, usize),
        at: usize,
    ) {
        if self.of.counts {
            // SAFETY: room for a chunk of numbers.
            unsafe { splat(self.numbers, (at as i64).to_ne_bytes().as_ptr(), 8) };
        }
        let number = Place { at: self.numbers, along: 0, down: 0 };
        let along = |operand: &Operand| (operand.width * WIDTH) as isize;
        if full > 0 {
            let places: Vec<Place> =
                operands.iter().map(|operand| Place { at: operand.row(row), along: along(operand), down: 0 }).collect();
            // SAFETY: the caller's promise.
            unsafe { self.take(&places, number, 0, 1, full) };
        }
        if let Some(last) = last {
            let mut places = Vec::with_capacity(operands.len());
            for (k, operand) in operands.iter().enumerate() {
                let here = operand.from(row);
                if full == 0 {
                    // SAFETY: the caller's promise, and room for a chunk.
                    unsafe { here.gather(self.aside[k], 1, width, 0, 1) };
                }
                let at = if full == 0 { self.aside[k] } else { here.after(last).at };
                places.push(Place { at, along: along(operand), down: 0 });
            }
            // SAFETY: the caller's promise.
            unsafe { self.take(&places, number, full, 1, 1) };
        }
        std::mem::swap(&mut self.states, &mut self.next);
    }

    /// The states of all columns, lane by lane.
    pub(super) fn all(&self, chunks: usize) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.of.state() * chunks * WIDTH);
        for (&at, &width) in self.states.iter().zip(&self.of.widths) {
            // SAFETY: so many states.
            all.extend_from_slice(unsafe { std::slice::from_raw_parts(at, chunks * WIDTH * width) });
        }
        all
    }

    pub(super) fn put_all(&mut self, chunks: usize, states: &[u8]) {
        let mut from = 0;
        for (&at, &width) in self.states.iter().zip(&self.of.widths) {
            let nbytes = chunks * WIDTH * width;
            // SAFETY: room for as many states.
            unsafe { std::ptr::copy_nonoverlapping(states[from..].as_ptr(), at, nbytes) };
            from += nbytes;
        }
    }

    /// Joins the states of columns, each with its own.
    pub(super) fn join_all(&mut self, chunks: usize, a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut joined = vec![0; a.len()];
        let along = |width: usize| (width * WIDTH) as isize;
        self.outside.clear();
        let to = joined.as_mut_ptr();
        for base in [a.as_ptr().cast_mut(), b.as_ptr().cast_mut(), to] {
            let mut from = 0;
            for &width in &self.of.widths {
                self.outside.push(Place { at: base.wrapping_add(from), along: along(width), down: 0 });
                from += width * WIDTH * chunks;
            }
        }
        // SAFETY: so many states of each lane.
        unsafe { self.combine.run(&self.outside, 1, chunks) };
        joined
    }

    /// What the states of columns come to, which have absorbed `n` values each.
    pub(super) fn results_of(&mut self, chunks: usize, n: usize) -> Vec<u8> {
        let mut results = vec![0; chunks * WIDTH * self.of.out];
        self.outside.clear();
        let along = |width: usize| (width * WIDTH) as isize;
        self.outside.extend(self.states.iter().zip(&self.of.widths).map(|(&at, &width)| Place { at, along: along(width), down: 0 }));
        // SAFETY: room for a chunk of numbers.
        unsafe { splat(self.numbers, (n as i64).to_ne_bytes().as_ptr(), 8) };
        self.outside.push(Place { at: self.numbers, along: 0, down: 0 });
        self.outside.push(Place { at: results.as_mut_ptr(), along: along(self.of.out), down: 0 });
        // SAFETY: so many states of each lane, and room for the results.
        unsafe { self.finish.run(&self.outside, 1, chunks) };
        results
    }
}
