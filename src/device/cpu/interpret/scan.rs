//! Scans, interpreted: leaves and carried states as in compiled loops, and so the same bits.
//!
//! Columns stand side by side as they do there; of rows, or of leaves of one, eight are turned to stand so.
//! Imports: `error`, `element`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::code::{Value, bytes_of};
use super::frame::{Both, Memory, Operand, Room, Running, splat, sweep};
use super::map::{loads, operands};
use super::reduce::constants;
use super::steps::{Place, WIDTH};
use crate::device::cpu::scan::{LEAF, ScanKernel, Strip, Strips, Tile, Tiles, run_job};
use crate::device::{Inputs, Slot};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Numbers, Reducer, Scanning, Store, TracedReducer, numbers, trace_body, trace_reducer};
use crate::scalar::{DType, Graph};
use std::any::TypeId;

/// A reducer over a body, written for columns.
struct Scanned {
    /// Of operands to a value; of a value, a state and its number to a state.
    values: Both,
    absorb: Both,
    combine: Both,
    /// Of a state and how many values it has seen.
    finish: Both,
    identity: Vec<[u8; 16]>,
    /// Bytes of the lanes of a state, and of a value and a result.
    widths: Vec<usize>,
    value: usize,
    out: usize,
    counts: bool,
    inputs: Vec<(usize, usize)>,
}

/// What the kernels are handed.
struct Handed {
    scanned: &'static Scanned,
    numbers: Numbers,
    exclusive: bool,
}

static WRITTEN: Cache<Scanned> = Cache::new();
static NONE: Numbers = Numbers::new();

/// Scans as [`Device::scan`](crate::Device::scan) does.
///
/// # Errors
/// What that reports.
///
/// # Safety
/// As there.
pub(in crate::device::cpu) unsafe fn scan<B: Body, R: Reducer<B::Out>>(
    body: &B,
    plan: Scanning<'_>,
    output: Slot<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let mut trace = || (trace_body(body, inputs.reads), trace_reducer::<B::Out, R>());
    // SAFETY: the caller's promise.
    unsafe { run(TypeId::of::<(B, R)>(), &mut trace, numbers(&Store(*body)), R::Out::DTYPE, plan, output, inputs) }
}

/// # Safety
/// As [`scan`], of the body and reducer that are traced.
unsafe fn run(
    types: TypeId,
    trace: &mut dyn FnMut() -> (Graph, TracedReducer),
    numbers: Numbers,
    out: DType,
    plan: Scanning<'_>,
    output: Slot<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let scanned = WRITTEN.get("scan", types, inputs.reads, &mut || {
        let (body, reducer) = trace();
        Scanned::new(&body, &reducer, out, inputs.reads)
    })?;
    let handed = Handed { scanned, numbers, exclusive: plan.exclusive };
    // SAFETY: the caller's promise; the kernel is that of what it is handed.
    unsafe { run_job(ScanKernel { rows, columns }, std::ptr::from_ref(&handed).cast(), plan, output, inputs) };
    Ok(())
}

impl Scanned {
    fn new(body: &Graph, reducer: &TracedReducer, out: DType, reads: &[u8]) -> Option<Scanned> {
        let types = operands([body].into_iter(), reads);
        let value = body.outputs().next()?.0;
        let state = |writer: &mut super::code::Writer| -> Vec<Value> {
            reducer.state.iter().map(|&dtype| writer.outside(dtype, false)).collect()
        };
        let identity = Both::new(false, &|writer| writer.graph(&reducer.identity, &[], &[], 0))?;
        let absorb = Both::new(true, &|writer| {
            let x = writer.outside(value, false);
            let mut given = state(writer);
            given.extend([x, writer.outside(DType::I64, false)]);
            writer.graph(&reducer.absorb, &[], &given, 0)
        })?;
        Some(Scanned {
            values: Both::new(true, &|writer| {
                let inputs: Vec<Value> = types.iter().map(|&dtype| writer.outside(dtype, false)).collect();
                writer.graph(body, &inputs, &[], 0)
            })?,
            counts: absorb.reads(reducer.state.len() + 1),
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
            identity: constants(&identity, &reducer.state),
            widths: reducer.state.iter().map(|dtype| dtype.size()).collect(),
            value: value.size(),
            out: out.size(),
            inputs: loads(&types, reads),
        })
    }
}

/// Columns of the lanes of states.
type Columns = Vec<*mut u8>;

/// A scan that runs: states of some chunks of chains.
struct Scan<'a> {
    of: &'a Scanned,
    exclusive: bool,
    values: Running<'a>,
    absorb: Running<'a>,
    combine: Running<'a>,
    finish: Running<'a>,
    memory: Memory,
}

impl<'a> Scan<'a> {
    fn new(handed: &'a Handed, chunks: usize, nbytes: usize) -> Scan<'a> {
        let (of, numbers) = (handed.scanned, &handed.numbers);
        Scan {
            of,
            exclusive: handed.exclusive,
            values: Running::new(&of.values, numbers, chunks),
            absorb: Running::exactly(&of.absorb, &NONE, chunks),
            combine: Running::exactly(&of.combine, &NONE, chunks),
            finish: Running::exactly(&of.finish, &NONE, chunks),
            memory: Memory::new(nbytes),
        }
    }

    fn columns(&self, room: &mut Room, chunks: usize) -> Columns {
        self.of.widths.iter().map(|&width| room.take(width * WIDTH * chunks)).collect()
    }

    fn operands(&self, pointers: &[*mut u8], steps: &[isize]) -> Vec<Operand> {
        let of = |&(load, width): &(usize, usize)| Operand { at: pointers[load], down: steps[load], width, still: false };
        self.of.inputs.iter().map(of).collect()
    }

    fn places(&self, columns: &Columns, chunk: usize, still: bool) -> impl Iterator<Item = Place> {
        let place = move |(&at, &width): (&*mut u8, &usize)| Place {
            at: at.wrapping_add(chunk * width * WIDTH),
            along: if still { 0 } else { (width * WIDTH) as isize },
            down: 0,
        };
        columns.iter().zip(&self.of.widths).map(place).collect::<Vec<_>>().into_iter()
    }

    fn begin(&self, columns: &Columns, chunks: usize) {
        for ((&to, bytes), &width) in columns.iter().zip(&self.of.identity).zip(&self.of.widths) {
            for chunk in 0..chunks {
                // SAFETY: room for as many chunks.
                unsafe { splat(to.wrapping_add(chunk * width * WIDTH), bytes.as_ptr(), width) };
            }
        }
    }

    /// `to ← absorb(from, values)`, where a column of states is a pair of columns and its first chunk.
    ///
    /// # Safety
    /// There are so many chunks of everything.
    unsafe fn take(&mut self, value: Place, number: Place, from: (&Columns, usize), to: (&Columns, usize), chunks: usize) {
        let mut outside = vec![value];
        outside.extend(self.places(from.0, from.1, false));
        outside.push(number);
        outside.extend(self.places(to.0, to.1, false));
        // SAFETY: the caller's promise.
        unsafe { self.absorb.run(&outside, 1, chunks) };
    }

    /// `to ← combine(before, states)`; `still` says that what was before is one chunk for all.
    ///
    /// # Safety
    /// As above.
    unsafe fn join(&mut self, before: (&Columns, bool), states: (&Columns, usize), to: &Columns, chunks: usize) {
        let mut outside: Vec<Place> = self.places(before.0, 0, before.1).collect();
        outside.extend(self.places(states.0, states.1, false));
        outside.extend(self.places(to, 0, false));
        // SAFETY: the caller's promise.
        unsafe { self.combine.run(&outside, 1, chunks) };
    }

    /// Writes what states come to.
    ///
    /// # Safety
    /// As above.
    unsafe fn write(&mut self, states: (&Columns, usize), seen: Place, out: Place, chunks: usize) {
        let mut outside: Vec<Place> = self.places(states.0, states.1, false).collect();
        outside.extend([seen, out]);
        // SAFETY: the caller's promise.
        unsafe { self.finish.run(&outside, 1, chunks) };
    }

    /// Copies some chunks of states.
    fn copy(&self, to: &Columns, from: (&Columns, usize), chunks: usize) {
        for ((&to, &at), &width) in to.iter().zip(from.0).zip(&self.of.widths) {
            // SAFETY: both have so many chunks.
            unsafe { std::ptr::copy_nonoverlapping(at.wrapping_add(from.1 * width * WIDTH), to, chunks * width * WIDTH) };
        }
    }
}

/// # Safety
/// `handed` points to a [`Handed`]; the tiles give its operands' elements, and room for the results.
unsafe fn columns(handed: *const (), tiles: &mut Tiles<'_>) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let of = handed.scanned;
    let most = tiles.most.div_ceil(WIDTH);
    let per_chunk = of.widths.iter().map(|width| width * 5 + 80).sum::<usize>() + of.value + of.out + 8 * 2;
    let mut scan = Scan::new(handed, most, per_chunk * WIDTH * most + 4096);
    let mut room = Room::new(scan.memory.start());
    let [mut local, mut next, mut carry, mut spare, shown] = [(); 5].map(|()| scan.columns(&mut room, most));
    let (values, results) = (room.take(of.value * WIDTH * most), room.take(of.out * WIDTH * most));
    let [number, seen] = [(); 2].map(|()| Place { at: room.take(8 * WIDTH), along: 0, down: 0 });
    // SAFETY: the caller's promise.
    while let Some(tile) = unsafe { tiles.next() } {
        let Tile { pointers, steps, width, n, at, out, out_step } = tile;
        let (chunks, first) = (width.div_ceil(WIDTH), at < LEAF);
        if at.is_multiple_of(LEAF) {
            scan.begin(&local, chunks);
        }
        let operands = scan.operands(&pointers, &steps);
        for row in 0..n {
            let mut here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
            here.push(Operand { at: values, down: 0, width: of.value, still: false });
            let now = at.wrapping_add(row);
            // SAFETY: a row of every operand by the caller's promise; columns have room for as many chunks as there are, and are
            // made of initialised memory where a row ends within a chunk.
            unsafe {
                sweep(&mut scan.values, &here, 1, 1, width);
                splat(number.at, (now as i64).to_ne_bytes().as_ptr(), 8);
                splat(seen.at, (now.wrapping_add(usize::from(!handed.exclusive)) as i64).to_ne_bytes().as_ptr(), 8);
                let value = Place { at: values, along: (of.value * WIDTH) as isize, down: 0 };
                scan.take(value, number, (&local, 0), (&next, 0), chunks);
                let state = if scan.exclusive { &local } else { &next };
                let result = Place { at: results, along: (of.out * WIDTH) as isize, down: 0 };
                if first {
                    scan.write((state, 0), seen, result, chunks);
                } else {
                    scan.join((&carry, false), (state, 0), &shown, chunks);
                    scan.write((&shown, 0), seen, result, chunks);
                }
                let to = out.wrapping_offset((row as isize).wrapping_mul(out_step));
                std::ptr::copy_nonoverlapping(results, to, width * of.out);
            }
            std::mem::swap(&mut local, &mut next);
        }
        if at.wrapping_add(n).is_multiple_of(LEAF) {
            if first {
                scan.copy(&carry, (&local, 0), chunks);
            } else {
                // SAFETY: as above.
                unsafe { scan.join((&carry, false), (&local, 0), &spare, chunks) };
                std::mem::swap(&mut carry, &mut spare);
            }
        }
        // SAFETY: the caller's promise; the rows are computed.
        unsafe { tiles.finish(n) };
    }
}

/// # Safety
/// As `columns`, of strips.
unsafe fn rows(handed: *const (), strips: &mut Strips<'_>) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let of = handed.scanned;
    // A chain is a place in a chunk; positions follow each other chunk by chunk.
    let per_chunk = of.widths.iter().map(|width| width * 2).sum::<usize>() + of.value + of.out + 8;
    let small: usize = of.widths.iter().map(|_| 4 * 16 * WIDTH).sum();
    let mut scan = Scan::new(handed, LEAF, per_chunk * WIDTH * (LEAF + 1) + 8 * LEAF * of.value + small + 8192);
    let mut room = Room::new(scan.memory.start());
    let [states, shown] = [(); 2].map(|()| scan.columns(&mut room, LEAF + 1));
    let [local, carry, joined, one] = [(); 4].map(|()| scan.columns(&mut room, 1));
    let turned = room.take(of.value * WIDTH * LEAF);
    let results = room.take(of.out * WIDTH * LEAF);
    let straight = room.take(of.value * LEAF * 8);
    let numbers = room.take(8 * WIDTH * LEAF);
    scan.begin(&carry, 1);
    // SAFETY: the caller's promise.
    while let Some(strip) = unsafe { strips.next() } {
        let Strip { pointers, steps, chains, linked, n, at, out, out_chain, out_step } = strip;
        let first = |chain: usize| if linked { at.wrapping_add(chain * LEAF) } else { at };
        let mut here = scan.operands(&pointers, &steps);
        here.push(Operand { at: straight, down: (n * of.value) as isize, width: of.value, still: false });
        // SAFETY: values of every chain, by the caller's promise, and room for them.
        unsafe { sweep(&mut scan.values, &here, 1, chains, n) };
        // Places without a chain have the values of the first.
        for i in 0..n {
            for chain in 0..WIDTH {
                let from = straight.wrapping_add((chain % chains * n + i) * of.value);
                let to = turned.wrapping_add((i * WIDTH + chain) * of.value);
                // SAFETY: a value, and room for it.
                unsafe { std::ptr::copy_nonoverlapping(from, to, of.value) };
            }
        }
        let fill = |add: usize| {
            for i in 0..n {
                for chain in 0..WIDTH {
                    let number = first(if chain < chains { chain } else { 0 }).wrapping_add(i + add) as i64;
                    // SAFETY: room for the numbers of a leaf.
                    unsafe { numbers.cast::<i64>().add(i * WIDTH + chain).write(number) };
                }
            }
        };
        if at.is_multiple_of(LEAF) {
            scan.begin(&local, 1);
        }
        if of.counts {
            fill(0);
        }
        scan.copy(&states, (&local, 0), 1);
        for i in 0..n {
            let place = |at: *mut u8, width: usize| Place { at: at.wrapping_add(i * WIDTH * width), along: 0, down: 0 };
            // SAFETY: a chunk of everything.
            unsafe { scan.take(place(turned, of.value), place(numbers, 8), (&states, i), (&states, i + 1), 1) };
        }
        scan.copy(&local, (&states, n), 1);
        fill(usize::from(!handed.exclusive));
        let from = usize::from(!handed.exclusive);
        let seen = Place { at: numbers, along: (8 * WIDTH) as isize, down: 0 };
        let result = Place { at: results, along: (of.out * WIDTH) as isize, down: 0 };
        let put = |which: std::ops::Range<usize>| {
            for chain in which {
                for i in 0..n {
                    let to = out
                        .wrapping_offset((chain as isize).wrapping_mul(out_chain))
                        .wrapping_offset((i as isize).wrapping_mul(out_step));
                    // SAFETY: a result, and room for it by the caller's promise.
                    unsafe { std::ptr::copy_nonoverlapping(results.wrapping_add((i * WIDTH + chain) * of.out), to, of.out) };
                }
            }
        };
        // The chains of the first leaf have nothing before them.
        let alone = if at >= LEAF { 0 } else if linked { 1 } else { chains };
        if alone > 0 {
            // SAFETY: chunks of all positions.
            unsafe { scan.write((&states, from), seen, result, n) };
            put(0..alone);
        }
        // Leaves of one row carry from one to the next: what stands before each comes to its place.
        if linked {
            for chain in 0..chains {
                for (k, &width) in of.widths.iter().enumerate() {
                    // SAFETY: the first of a chunk, and the place of a chain in another.
                    unsafe {
                        let value = bytes_of(std::slice::from_raw_parts(carry[k], width));
                        std::ptr::copy_nonoverlapping(value.as_ptr(), joined[k].wrapping_add(chain * width), width);
                        let of_chain = bytes_of(std::slice::from_raw_parts(local[k].wrapping_add(chain * width), width));
                        splat(one[k], of_chain.as_ptr(), width);
                    }
                }
                if first(chain) < LEAF {
                    scan.copy(&carry, (&one, 0), 1);
                } else {
                    // SAFETY: chunks of each; the result comes aside first.
                    unsafe { scan.join((&carry, true), (&one, 0), &shown, 1) };
                    scan.copy(&carry, (&shown, 0), 1);
                }
            }
        } else {
            scan.copy(&joined, (&carry, 0), 1);
        }
        if alone < chains {
            // SAFETY: chunks of all positions, beside one of what was before.
            unsafe {
                scan.join((&joined, true), (&states, from), &shown, n);
                scan.write((&shown, 0), seen, result, n);
            }
            put(alone..chains);
        }
        if !linked && at.wrapping_add(n).is_multiple_of(LEAF) {
            if at < LEAF {
                scan.copy(&carry, (&local, 0), 1);
            } else {
                // SAFETY: as above.
                unsafe { scan.join((&joined, true), (&local, 0), &one, 1) };
                scan.copy(&carry, (&one, 0), 1);
            }
        }
        // SAFETY: the caller's promise; the strip is computed.
        unsafe { strips.finish() };
    }
}
