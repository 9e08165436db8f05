//! A reducer over the values of a body, interpreted: states of rows, or of leaves of one row, side by side.
//!
//! As in compiled loops a row is absorbed by 64 states side by side (32 wide ones), a leaf's states are collapsed by halves, and
//! leaves are combined pairwise: the same trees, so that results have the same bits.
// Imports: `scalar`, `kernel`, `device`.

use super::code::{Value, Writer, bytes_of};
use super::frame::{Both, Memory, Operand, Room, Running, splat, sweep};
use super::map::Outside;
use super::states::{Finishing, Joining, NONE};
use super::steps::{Place, WIDTH};
use crate::device::cpu::columns::{self, Strips, start_of};
use crate::device::cpu::fold::{DIGITS, LEAF, lanes_of};
use crate::device::cpu::reduce::Output;
use crate::device::cpu::states::Cascade;
use crate::kernel::{ReducerIr, RunTimeNumbers, SLICE_ELEMENTS, SliceFn};
use crate::scalar::{DType, Graph, Node};

/// Rows side by side.
pub(super) const LINES: usize = 16;
/// Leaves of one row side by side: so many begin at one place of a cache's sets.
const LEAVES: usize = 8;

/// A reducer over a body, written for columns.
pub(super) struct Folded {
    /// Of what comes from outside, a state and the number of a value; to a state.
    accumulate: Both,
    /// Of two states.
    pub(super) combine: Both,
    /// Of a state and the number of values.
    pub(super) finalize: Both,
    /// The values alone, for a reducer that takes many at once, and that one; `None` for values that are an operand's elements.
    values: Option<Both>,
    slice: Option<SliceFn>,
    /// The operand whose elements the values are, if they are an operand's.
    operand: usize,
    pub(super) identity: Vec<[u8; 16]>,
    /// Bytes of a compiled state, and of the lanes, which stand there one behind the other.
    pub(super) size: usize,
    pub(super) widths: Vec<usize>,
    /// Bytes of a value and of the result.
    value: usize,
    pub(super) out: usize,
    /// States that a row is absorbed by.
    lanes: usize,
    counts: bool,
}

impl Folded {
    /// Run-time numbers of the body count from `param` on; the result is of type `out`. `in_memory` says that the values are the
    /// elements of an operand.
    pub(super) fn new(
        body: &Graph,
        reducer: &ReducerIr,
        outside: &Outside<'_>,
        param: usize,
        out: DType,
        in_memory: bool,
    ) -> Option<Folded> {
        let slice = reducer.slice;
        let state = |writer: &mut Writer| -> Vec<Value> {
            reducer.state.iter().map(|&dtype| writer.outside(dtype, false)).collect()
        };
        let values = |writer: &mut Writer| -> Option<Value> {
            let (inputs, given) = outside.values(writer);
            writer.graph(body, &inputs, &given, param)?.first().copied()
        };
        let one = Both::new(false, &|writer| writer.graph(&reducer.identity, &[], &[], 0))?;
        let identity = constants(&one, &reducer.state);
        let accumulate = Both::new(true, &|writer| {
            let value = values(writer)?;
            let mut given = state(writer);
            given.push(value);
            given.push(writer.outside(DType::I64, false));
            writer.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        Some(Folded {
            counts: accumulate.reads(outside.types.len() + reducer.state.len()),
            accumulate,
            combine: Both::new(true, &|writer| {
                let mut given = state(writer);
                given.extend(state(writer));
                writer.graph(&reducer.combine, &[], &given, 0)
            })?,
            finalize: Both::new(true, &|writer| {
                let mut given = state(writer);
                given.push(writer.outside(DType::I64, false));
                let value = writer.graph(&reducer.finalize, &[], &given, 0)?.first().copied()?;
                Some(vec![writer.cast(value, out)?])
            })?,
            values: match slice {
                Some(_) if !in_memory => Some(Both::new(true, &|writer| Some(vec![values(writer)?]))?),
                _ => None,
            },
            slice,
            operand: body
                .nodes()
                .find_map(|(node, _, _)| if let Node::Input { index } = node { Some(index) } else { None })
                .unwrap_or(0),
            identity,
            size: reducer.nbytes,
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
}

/// What a program without operands gives.
pub(super) fn constants(program: &Both, types: &[DType]) -> Vec<[u8; 16]> {
    let mut memory = Memory::new(types.len() * 16 * WIDTH);
    let mut room = Room::new(&mut memory);
    let places: Vec<Place> =
        types.iter().map(|_| Place { at: room.take(16 * WIDTH), along: 0, down: 0 }).collect();
    let none = RunTimeNumbers::new();
    // SAFETY: room for a chunk of each output.
    unsafe { Running::exactly(program, &none, 1).run(&places, 1, 1) };
    // SAFETY: the first value of each, written just now.
    let first = |(place, dtype): (&Place, &DType)| {
        bytes_of(unsafe { std::slice::from_raw_parts(place.at, dtype.size()) })
    };
    places.iter().zip(types).map(first).collect()
}

/// A reduction that runs: the states of some lines, and room beside.
pub(super) struct Fold<'a> {
    of: &'a Folded,
    accumulate: Running<'a>,
    combine: Running<'a>,
    finalize: Finishing<'a>,
    /// For a reducer that takes many values at once: what computes them, room for a piece of them, and what joins the states.
    pieces: Option<(Running<'a>, *mut u8, Joining<'a>)>,
    /// Room for so many lines.
    lines: usize,
    /// Columns of the lanes of states, as they are and as they become: a chunk of each line, then, if there are as many states, a
    /// second one of each.
    states: Vec<*mut u8>,
    next: Vec<*mut u8>,
    /// Numbers of values; chunks of operands; the states of lines, when they are done.
    numbers: *mut u8,
    aside: Vec<*mut u8>,
    done: *mut u8,
    outside: Vec<Place>,
    _memory: Memory,
}

impl<'a> Fold<'a> {
    /// For lines of these operands, at most `chunks` chunks of states side by side.
    pub(super) fn new(
        of: &'a Folded,
        numbers: &'a RunTimeNumbers,
        widths: &[usize],
        chunks: usize,
    ) -> Fold<'a> {
        let column = |width: usize| (width * WIDTH * (chunks + 1)).next_multiple_of(64);
        let piece = if of.values.is_some() { SLICE_ELEMENTS * 16 } else { 0 };
        let states: usize = of.widths.iter().map(|&width| 2 * column(width)).sum();
        let aside: usize = widths.iter().map(|&width| column(width)).sum();
        // A piece or the states of lines end no later than a cache line after.
        let mut memory = Memory::new(states + aside + column(8) + piece + (LINES + 1) * of.size + 128);
        let mut room = Room::new(&mut memory);
        let mut columns = |widths: &[usize]| -> Vec<*mut u8> {
            widths.iter().map(|&width| room.take(column(width))).collect()
        };
        let (states, next, aside) = (columns(&of.widths), columns(&of.widths), columns(widths));
        // What stands beside states is read with them: beside truths it is to be a truth.
        for (&at, &width) in states
            .iter()
            .chain(&next)
            .zip(of.widths.iter().chain(&of.widths))
            .filter(|(_, width)| **width == 1)
        {
            // SAFETY: room for as many.
            unsafe { std::ptr::write_bytes(at, 0, column(width)) };
        }
        let pieces = of.values.as_ref().map(|values| {
            let run = Running::new(values, numbers, SLICE_ELEMENTS / WIDTH);
            (run, room.take(SLICE_ELEMENTS * 16), Joining::new(of))
        });
        Fold {
            of,
            accumulate: Running::exactly(&of.accumulate, numbers, chunks),
            combine: Running::exactly(&of.combine, &NONE, chunks),
            finalize: Finishing::new(of),
            pieces,
            lines: chunks * WIDTH / of.lanes,
            states,
            next,
            aside,
            numbers: room.take(column(8)),
            // One more: a state that is joined to another.
            done: room.take((LINES + 1) * of.size),
            outside: Vec::new(),
            _memory: memory,
        }
    }

    /// Some lines that have absorbed nothing.
    fn begin(&mut self, lines: usize) {
        for half in 0..self.of.lanes / WIDTH {
            self.clear(half * self.lines, lines);
        }
    }

    /// Chunks of states that have absorbed nothing.
    fn clear(&mut self, from: usize, chunks: usize) {
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
        unsafe { self.accumulate.run(&self.outside, rows, chunks) };
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

    /// Takes `n` values of some lines, a leaf of each at most, into their states; the first of line `l` has number `at + l · step`.
    ///
    /// # Safety
    /// The lines have as many elements of every operand.
    unsafe fn accumulate(
        &mut self,
        operands: &[Operand],
        lines: usize,
        n: usize,
        (at, step): (usize, usize),
    ) {
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
        let from = if n < lanes && at == 0 { 0 } else { lanes - rest };
        for (k, operand) in operands.iter().enumerate().filter(|(_, operand)| !operand.still) {
            if n >= lanes {
                places[k].at = operand.at.wrapping_add(n * operand.width).wrapping_sub(lanes * operand.width);
            } else {
                // SAFETY: `rest` elements of each line, and room for the chunks of all.
                unsafe { operand.after(n - rest).gather(self.aside[k], lines, rest, from, chunks) };
                places[k] = Place {
                    at: self.aside[k],
                    along: (operand.width * WIDTH) as isize,
                    down: (operand.width * lanes) as isize,
                };
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
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            new.wrapping_add(place),
                            to.wrapping_add(place),
                            (end - first) * width,
                        )
                    };
                }
            }
        }
    }

    /// Combines the states of each line, each half with the other; the first of each line is then that of all.
    fn collapse(&mut self, lines: usize) {
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

    /// The state of one row of `n` values, a leaf at most, the first of which has number `at`, by what takes many at once.
    ///
    /// # Safety
    /// The operands' first rows have as many elements, and `state` has room.
    unsafe fn at_once(&mut self, slice: SliceFn, operands: &[Operand], n: usize, at: usize, state: *mut u8) {
        // SAFETY: the caller's promise; so below.
        unsafe { self.of.states().identity(state, 1) };
        if n == 0 {
            return;
        }
        let Some((values, piece, joining)) = &mut self.pieces else {
            // SAFETY: as above: that operand's elements are the values.
            return unsafe { slice(operands[self.of.operand].at, n, at, state) };
        };
        let found = self.done.wrapping_add(LINES * self.of.size);
        for start in (0..n).step_by(SLICE_ELEMENTS) {
            let len = SLICE_ELEMENTS.min(n - start);
            let mut here: Vec<Operand> = operands.iter().map(|operand| operand.after(start)).collect();
            here.push(Operand { at: *piece, down: 0, width: self.of.value, still: false });
            // SAFETY: as above; there is room for a piece of values, and for a state.
            unsafe {
                sweep(values, &here, 1, 1, len);
                slice(*piece, len, at.wrapping_add(start), found);
                joining.join(state, found, 1);
                std::ptr::copy_nonoverlapping(found, state, self.of.size);
            }
        }
    }

    /// Reduces `rows` rows of `n` values each, a leaf at most; the first of row `r` has number `at[0] + r · at[1]`.
    ///
    /// # Safety
    /// The operands have as many elements, and the output has room.
    pub(super) unsafe fn rows(
        &mut self,
        operands: &[Operand],
        rows: usize,
        n: usize,
        at: [usize; 2],
        out: Output,
    ) {
        let size = self.of.size;
        let side = if at[1] == 0 { LINES } else { LEAVES }.min(self.lines);
        for row in (0..rows).step_by(side) {
            let lines = side.min(rows - row);
            let here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
            let first = |line: usize| at[0].wrapping_add((row + line).wrapping_mul(at[1]));
            if let Some(slice) = self.of.slice {
                for line in 0..lines {
                    let one: Vec<Operand> = here.iter().map(|operand| operand.from(line)).collect();
                    // SAFETY: the caller's promise, and room for the states of all lines; so below.
                    unsafe { self.at_once(slice, &one, n, first(line), self.done.wrapping_add(line * size)) };
                }
            } else {
                self.begin(lines);
                // SAFETY: as above.
                unsafe { self.accumulate(&here, lines, n, (first(0), at[1])) };
                self.collapse(lines);
                // SAFETY: as above.
                unsafe { self.of.collect(&self.states, WIDTH, lines, self.done) };
            }
            let to = out.address.wrapping_offset((row as isize).wrapping_mul(out.step));
            // SAFETY: as above.
            unsafe {
                if out.is_state {
                    for line in 0..lines {
                        let to = to.wrapping_offset((line as isize).wrapping_mul(out.step));
                        std::ptr::copy_nonoverlapping(self.done.wrapping_add(line * size), to, size);
                    }
                } else {
                    self.finalize.write(self.done, lines, n, to, out.step);
                }
            }
        }
    }

    /// As [`rows`](Self::rows), of any number of values, from the first on, to results.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn whole_rows(&mut self, operands: &[Operand], rows: usize, n: usize, out: Output) {
        if n <= LEAF {
            // SAFETY: the caller's promise; so below.
            return unsafe { self.rows(operands, rows, n, [0; 2], out) };
        }
        let (states, size) = (self.of.states(), self.of.size);
        let mut memory = Memory::new((LEAVES + DIGITS) * size);
        let leaves = memory.start();
        let place = |leaf: usize| leaves.wrapping_add(leaf * size);
        for row in 0..rows {
            let mut cascade = Cascade::over(&states, place(LEAVES), DIGITS, 1);
            for start in (0..n).step_by(LEAVES * LEAF) {
                let (some, ends) = ((n - start).min(LEAVES * LEAF), start + LEAVES * LEAF >= n);
                let (whole, rest) = (some / LEAF, some % LEAF);
                let of_leaves = |leaf: usize| -> Vec<Operand> {
                    let down =
                        |operand: &Operand| if operand.still { 0 } else { (LEAF * operand.width) as isize };
                    let here = |operand: &Operand| Operand {
                        down: down(operand),
                        ..operand.from(row).after(start + leaf * LEAF)
                    };
                    operands.iter().map(here).collect()
                };
                let to = |leaf: usize| Output { address: place(leaf), step: size as isize, is_state: true };
                // SAFETY: as above; there is room for the states of leaves, and for the digits.
                unsafe {
                    self.rows(&of_leaves(0), whole, LEAF, [start, LEAF], to(0));
                    if rest > 0 {
                        self.rows(&of_leaves(whole), 1, rest, [start + whole * LEAF, 0], to(whole));
                    }
                    let count = whole + usize::from(rest > 0);
                    (0..count - usize::from(ends)).for_each(|leaf| cascade.push(place(leaf)));
                    if ends {
                        cascade.join(place(count - 1));
                        let to = out.address.wrapping_offset((row as isize).wrapping_mul(out.step));
                        self.finalize.write(place(count - 1), 1, n, to, 0);
                    }
                }
            }
        }
    }

    /// Takes some rows of columns, each value into the state of its column.
    ///
    /// # Safety
    /// The operands have as many elements, and the strips states; there is room for the chunks of these.
    pub(super) unsafe fn columns(&mut self, operands: &[Operand], strips: &Strips) {
        let Strips { n, width, at, states, .. } = *strips;
        let (used, per_strip) = (width.div_ceil(columns::WIDTH), columns::WIDTH / WIDTH);
        let full = width / columns::WIDTH;
        // SAFETY: the caller's promise; so below.
        unsafe { self.of.spread(states, used * columns::WIDTH, &self.states) };
        let number = Place { at: self.numbers, along: 0, down: 0 };
        let mut places = vec![Place::NONE; operands.len()];
        for row in 0..n {
            if self.of.counts {
                // SAFETY: room for a chunk of numbers.
                unsafe { splat(self.numbers, ((at + row) as i64).to_ne_bytes().as_ptr(), 8) };
            }
            let along = |operand: &Operand| (operand.width * WIDTH) as isize;
            if full > 0 {
                for (place, operand) in places.iter_mut().zip(operands) {
                    *place = Place { at: operand.row(row), along: along(operand), down: 0 };
                }
                // SAFETY: as above: whole strips.
                unsafe { self.take(&places, number, 0, 1, full * per_strip) };
            }
            if full < used {
                for (k, operand) in operands.iter().enumerate() {
                    let mut from = operand.from(row).after(start_of(full, width)).at;
                    if full == 0 {
                        // SAFETY: as above, and room for the chunks of a strip.
                        unsafe { operand.from(row).gather(self.aside[k], 1, width, 0, per_strip) };
                        from = self.aside[k];
                    }
                    places[k] = Place { at: from, along: along(operand), down: 0 };
                }
                // SAFETY: as above: the last strip.
                unsafe { self.take(&places, number, full * per_strip, 1, per_strip) };
            }
            std::mem::swap(&mut self.states, &mut self.next);
        }
        // SAFETY: as above.
        unsafe { self.of.collect(&self.states, 1, used * columns::WIDTH, states) };
    }
}
