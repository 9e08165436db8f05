//! Scans, interpreted: leaves and carried states as in compiled loops, and so the same bits.
//!
//! Columns stand side by side as they do there; of rows, or of leaves of one, eight are turned to stand so.
// Imports: `error`, `element`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::code::{Value, bytes_of};
use super::fold::constants;
use super::frame::{Both, Memory, Operand, Room, Running, splat, sweep};
use super::map::{loads, operands};
use super::steps::{Place, WIDTH};
use crate::device::cpu::pack;
use crate::device::cpu::scan::{LEAF, ScanKernel, Strip, Strips, Tile, Tiles, run_job};
use crate::device::{Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{
    Body, Reducer, ReducerIr, RunTimeNumbers, ScanPlan, Store, numbers, trace_body, trace_reducer,
};
use crate::scalar::{DType, Graph};
use std::any::TypeId;

/// Chunks of columns that are computed together.
const CHUNKS: usize = 64;

/// A reducer over a body, written for columns.
struct Scanned {
    /// Of operands to a value; of a value, a state and its number to a state.
    values: Both,
    accumulate: Both,
    combine: Both,
    /// Of a state and how many values it has seen.
    finalize: Both,
    identity: Vec<[u8; 16]>,
    /// Bytes of the lanes of a state, and of a value and a result.
    widths: Vec<usize>,
    value: usize,
    out: usize,
    counts: bool,
    /// Whether results depend on how many values there were.
    sees: bool,
    inputs: Vec<(usize, usize)>,
}

/// What the kernels are handed.
struct Handed {
    scanned: &'static Scanned,
    numbers: RunTimeNumbers,
    exclusive: bool,
}

static WRITTEN: Cache<Scanned> = Cache::new();
static NONE: RunTimeNumbers = RunTimeNumbers::new();

/// Scans as [`Device::scan`](crate::Device::scan) does.
///
/// # Errors
/// What that reports.
///
/// # Safety
/// As there.
pub(in crate::device::cpu) unsafe fn scan<B: Body, R: Reducer<B::Out>>(
    body: &B,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let mut trace = || (trace_body(body, inputs.reads), trace_reducer::<B::Out, R>());
    // SAFETY: the caller's promise.
    unsafe {
        run(TypeId::of::<(B, R)>(), &mut trace, numbers(&Store(*body)), R::Out::DTYPE, plan, output, inputs)
    }
}

/// # Safety
/// As [`scan`], of the body and reducer that are traced.
unsafe fn run(
    types: TypeId,
    trace: &mut dyn FnMut() -> (Graph, ReducerIr),
    numbers: RunTimeNumbers,
    out: DType,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let scanned = WRITTEN.get("scan", types, inputs.reads, &mut || {
        let (body, reducer) = trace();
        Scanned::new(&body, &reducer, out, inputs.reads)
    })?;
    let handed = Handed { scanned, numbers, exclusive: plan.exclusive };
    // SAFETY: the caller's promise; the kernel is that of what it is handed.
    unsafe {
        run_job(&ScanKernel { rows, columns }, std::ptr::from_ref(&handed).cast(), plan, output, inputs)
    };
    Ok(())
}

impl Scanned {
    fn new(body: &Graph, reducer: &ReducerIr, out: DType, reads: &[u8]) -> Option<Scanned> {
        let types = operands([body].into_iter(), reads);
        let value = body.outputs().next()?.0;
        let state = |writer: &mut super::code::Writer| -> Vec<Value> {
            reducer.state.iter().map(|&dtype| writer.outside(dtype, false)).collect()
        };
        let identity = Both::new(false, &|writer| writer.graph(&reducer.identity, &[], &[], 0))?;
        let accumulate = Both::new(true, &|writer| {
            let x = writer.outside(value, false);
            let mut given = state(writer);
            given.extend([x, writer.outside(DType::I64, false)]);
            writer.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        let finalize = Both::new(true, &|writer| {
            let mut given = state(writer);
            given.push(writer.outside(DType::I64, false));
            let value = writer.graph(&reducer.finalize, &[], &given, 0)?.first().copied()?;
            Some(vec![writer.cast(value, out)?])
        })?;
        Some(Scanned {
            values: Both::new(true, &|writer| {
                let inputs: Vec<Value> = types.iter().map(|&dtype| writer.outside(dtype, false)).collect();
                writer.graph(body, &inputs, &[], 0)
            })?,
            counts: accumulate.reads(reducer.state.len() + 1),
            accumulate,
            combine: Both::new(true, &|writer| {
                let mut given = state(writer);
                given.extend(state(writer));
                writer.graph(&reducer.combine, &[], &given, 0)
            })?,
            sees: finalize.reads(reducer.state.len()),
            finalize,
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
    values: Running<'a>,
    accumulate: Running<'a>,
    combine: Running<'a>,
    finalize: Running<'a>,
    outside: Vec<Place>,
    memory: Memory,
}

impl<'a> Scan<'a> {
    fn new(handed: &'a Handed, chunks: usize, nbytes: usize) -> Scan<'a> {
        let (of, numbers) = (handed.scanned, &handed.numbers);
        Scan {
            of,
            values: Running::new(&of.values, numbers, chunks),
            accumulate: Running::exactly(&of.accumulate, &NONE, chunks),
            combine: Running::exactly(&of.combine, &NONE, chunks),
            finalize: Running::exactly(&of.finalize, &NONE, chunks),
            outside: Vec::new(),
            memory: Memory::new(nbytes),
        }
    }

    fn columns(&self, room: &mut Room, chunks: usize) -> Columns {
        self.of.widths.iter().map(|&width| room.take(width * WIDTH * chunks)).collect()
    }

    fn operands(&self, pointers: &[*mut u8], steps: &[isize]) -> Vec<Operand> {
        let of = |&(load, width): &(usize, usize)| Operand {
            at: pointers[load],
            down: steps[load],
            width,
            still: false,
        };
        self.of.inputs.iter().map(of).collect()
    }

    /// Adds the places of columns of states from some chunk on, in rows of `chunks` chunks; `down` as bytes of a value, for what
    /// is the same in every row, or `None`.
    fn place(&mut self, columns: &Columns, chunk: usize, still: Option<isize>, chunks: usize) {
        for (&at, &width) in columns.iter().zip(&self.of.widths) {
            let step = (width * WIDTH) as isize;
            let at = at.wrapping_offset(chunk as isize * step);
            self.outside.push(Place {
                at,
                along: if still == Some(1) { 0 } else { step },
                down: if still.is_some() { 0 } else { step * chunks as isize },
            });
        }
    }

    fn begin(&self, columns: &Columns, chunks: usize) {
        for ((&to, bytes), &width) in columns.iter().zip(&self.of.identity).zip(&self.of.widths) {
            for chunk in 0..chunks {
                // SAFETY: room for as many chunks.
                unsafe { splat(to.wrapping_add(chunk * width * WIDTH), bytes.as_ptr(), width) };
            }
        }
    }

    /// `to ← accumulate(from, value)`, where states are columns and their first chunk.
    ///
    /// # Safety
    /// There are so many chunks of everything.
    unsafe fn take(
        &mut self,
        value: Place,
        number: Place,
        from: (&Columns, usize),
        to: (&Columns, usize),
        chunks: usize,
    ) {
        self.outside.clear();
        self.outside.push(value);
        self.place(from.0, from.1, None, chunks);
        self.outside.push(number);
        self.place(to.0, to.1, None, chunks);
        // SAFETY: the caller's promise.
        unsafe { self.accumulate.run(&self.outside, 1, chunks) };
    }

    /// `to ← combine(before, states)`; what was before is one row for all, or with 1 one chunk for all.
    ///
    /// # Safety
    /// As above.
    unsafe fn join(
        &mut self,
        before: (&Columns, Option<isize>),
        states: (&Columns, usize),
        to: &Columns,
        rows: usize,
        chunks: usize,
    ) {
        self.outside.clear();
        self.place(before.0, 0, before.1, chunks);
        self.place(states.0, states.1, None, chunks);
        self.place(to, 0, None, chunks);
        // SAFETY: the caller's promise.
        unsafe { self.combine.run(&self.outside, rows, chunks) };
    }

    /// Writes what states come to.
    ///
    /// # Safety
    /// As above.
    unsafe fn write(
        &mut self,
        states: (&Columns, usize),
        seen: Place,
        out: Place,
        rows: usize,
        chunks: usize,
    ) {
        self.outside.clear();
        self.place(states.0, states.1, None, chunks);
        self.outside.extend([seen, out]);
        // SAFETY: the caller's promise.
        unsafe { self.finalize.run(&self.outside, rows, chunks) };
    }

    /// Copies some chunks of states.
    fn copy(&self, to: &Columns, from: (&Columns, usize), chunks: usize) {
        for ((&to, &at), &width) in to.iter().zip(from.0).zip(&self.of.widths) {
            // SAFETY: both have so many chunks.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    at.wrapping_add(from.1 * width * WIDTH),
                    to,
                    chunks * width * WIDTH,
                )
            };
        }
    }
}

/// # Safety
/// `handed` points to a [`Handed`]; the tiles give its operands' elements, and room for the results.
unsafe fn columns(handed: *const (), tiles: &mut Tiles<'_>) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let of = handed.scanned;
    let widest = tiles.most.div_ceil(WIDTH);
    // Rows that are computed together.
    let side = (CHUNKS / widest).clamp(1, LEAF);
    let most = side * widest;
    let total: usize =
        of.widths.iter().map(|width| width * (2 * (most + widest) + 3 * widest) + 5 * 64).sum();
    let mut scan =
        Scan::new(handed, most, (total + (of.value + of.out) * most + 8 * (2 * side + 2)) * WIDTH + 1024);
    let mut room = Room::new(&mut scan.memory);
    let [states, shown] = [(); 2].map(|()| scan.columns(&mut room, most + widest));
    let [local, mut carry, mut spare] = [(); 3].map(|()| scan.columns(&mut room, widest));
    let (values, results) = (room.take(of.value * WIDTH * most), room.take(of.out * WIDTH * most));
    let [number, seen] = [(); 2].map(|()| room.take(8 * WIDTH * side));
    // SAFETY: room for as many; what stands beside values is a value then, a truth too.
    unsafe { std::ptr::write_bytes(values, 0, of.value * WIDTH * most) };
    // SAFETY: the caller's promise.
    while let Some(tile) = unsafe { tiles.next() } {
        let Tile { pointers, steps, width, n, at, out, out_step } = tile;
        let (chunks, first) = (width.div_ceil(WIDTH), at < LEAF);
        if at.is_multiple_of(LEAF) {
            scan.begin(&local, chunks);
        }
        let operands = scan.operands(&pointers, &steps);
        // Rows that follow each other are computed as one, and so are their values.
        let joint = operands.iter().all(|operand| operand.down == (width * operand.width) as isize);
        let pitch = of.value * if joint { width } else { chunks * WIDTH };
        for row in (0..n).step_by(side) {
            let rows = side.min(n - row);
            let mut here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
            here.push(Operand { at: values, down: pitch as isize, width: of.value, still: false });
            // SAFETY: rows of every operand by the caller's promise; columns have room for as many chunks as there are, and are
            // made of initialized memory where a row ends within a chunk.
            unsafe {
                if joint {
                    sweep(&mut scan.values, &here, 1, 1, rows * width);
                } else {
                    sweep(&mut scan.values, &here, 1, rows, width);
                }
                for k in 0..if of.counts || of.sees { rows } else { 0 } {
                    let now = at.wrapping_add(row + k);
                    let after = now.wrapping_add(usize::from(!handed.exclusive));
                    for (to, value) in [(number, now), (seen, after)] {
                        splat(to.wrapping_add(k * 8 * WIDTH), (value as i64).to_ne_bytes().as_ptr(), 8);
                    }
                }
                scan.copy(&states, (&local, 0), chunks);
                for k in 0..rows {
                    let value = Place {
                        at: values.wrapping_add(k * pitch),
                        along: (of.value * WIDTH) as isize,
                        down: 0,
                    };
                    let number = Place { at: number.wrapping_add(k * 8 * WIDTH), along: 0, down: 0 };
                    scan.take(value, number, (&states, k * chunks), (&states, (k + 1) * chunks), chunks);
                }
                scan.copy(&local, (&states, rows * chunks), chunks);
                let from = if handed.exclusive { 0 } else { chunks };
                let seen = Place { at: seen, along: 0, down: (8 * WIDTH) as isize };
                let result = Place {
                    at: results,
                    along: (of.out * WIDTH) as isize,
                    down: (of.out * WIDTH * chunks) as isize,
                };
                if first {
                    scan.write((&states, from), seen, result, rows, chunks);
                } else {
                    scan.join((&carry, Some(0)), (&states, from), &shown, rows, chunks);
                    scan.write((&shown, 0), seen, result, rows, chunks);
                }
                for k in 0..rows {
                    let to = out.wrapping_offset(((row + k) as isize).wrapping_mul(out_step));
                    std::ptr::copy_nonoverlapping(
                        results.wrapping_add(k * of.out * WIDTH * chunks),
                        to,
                        width * of.out,
                    );
                }
            }
        }
        if at.wrapping_add(n).is_multiple_of(LEAF) {
            if first {
                scan.copy(&carry, (&local, 0), chunks);
            } else {
                // SAFETY: as above.
                unsafe { scan.join((&carry, Some(0)), (&local, 0), &spare, 1, chunks) };
                std::mem::swap(&mut carry, &mut spare);
            }
        }
        // SAFETY: the caller's promise; the rows are computed.
        unsafe { tiles.finalize(n) };
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
    let mut scan =
        Scan::new(handed, LEAF, per_chunk * WIDTH * (LEAF + 1) + 8 * LEAF * of.value + small + 8192);
    let mut room = Room::new(&mut scan.memory);
    let [states, shown] = [(); 2].map(|()| scan.columns(&mut room, LEAF + 1));
    let [local, carry, joined, one] = [(); 4].map(|()| scan.columns(&mut room, 1));
    let turned = room.take(of.value * WIDTH * LEAF);
    let results = room.take(of.out * WIDTH * LEAF);
    let straight = room.take(of.value * LEAF * 8);
    let numbers = room.take(8 * WIDTH * LEAF);
    for columns in [&carry, &joined] {
        scan.begin(columns, 1);
    }
    if of.value == 1 {
        // SAFETY: room for as many; what stands beside truths is a truth then.
        unsafe { std::ptr::write_bytes(turned, 0, WIDTH * LEAF) };
    }
    // SAFETY: the caller's promise.
    while let Some(strip) = unsafe { strips.next() } {
        let Strip { pointers, steps, chains, linked, n, at, out, out_chain, out_step } = strip;
        let first = |chain: usize| if linked { at.wrapping_add(chain * LEAF) } else { at };
        let mut here = scan.operands(&pointers, &steps);
        here.push(Operand { at: straight, down: (n * of.value) as isize, width: of.value, still: false });
        // SAFETY: values of every chain, by the caller's promise, and room for them.
        unsafe { sweep(&mut scan.values, &here, 1, chains, n) };
        // SAFETY: a value of each chain at every position, to its place in a chunk; beside them stands what was there.
        unsafe {
            let (to, from) = (
                [of.value as isize, (of.value * WIDTH) as isize],
                [(n * of.value) as isize, of.value as isize],
            );
            pack::rectangle(turned, to, straight, from, [chains, n], of.value);
        }
        let fill = |add: usize| {
            for i in 0..n {
                for chain in 0..chains {
                    let number = first(chain).wrapping_add(i + add) as i64;
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
            let place = |at: *mut u8, width: usize| Place {
                at: at.wrapping_add(i * WIDTH * width),
                along: 0,
                down: 0,
            };
            // SAFETY: a chunk of everything.
            unsafe {
                scan.take(place(turned, of.value), place(numbers, 8), (&states, i), (&states, i + 1), 1)
            };
        }
        scan.copy(&local, (&states, n), 1);
        if of.sees {
            fill(usize::from(!handed.exclusive));
        }
        let from = usize::from(!handed.exclusive);
        let seen = Place { at: numbers, along: (8 * WIDTH) as isize, down: 0 };
        let result = Place { at: results, along: (of.out * WIDTH) as isize, down: 0 };
        let put = |which: std::ops::Range<usize>| {
            let to = out.wrapping_offset((which.start as isize).wrapping_mul(out_chain));
            let from = results.wrapping_add(which.start * of.out);
            let steps = [of.out as isize, (of.out * WIDTH) as isize];
            // SAFETY: results of these chains, and room for them by the caller's promise.
            unsafe { pack::rectangle(to, [out_chain, out_step], from, steps, [which.len(), n], of.out) };
        };
        // The chains of the first leaf have nothing before them.
        let alone = if at >= LEAF {
            0
        } else if linked {
            1
        } else {
            chains
        };
        if alone > 0 {
            // SAFETY: chunks of all positions.
            unsafe { scan.write((&states, from), seen, result, 1, n) };
            put(0..alone);
        }
        // Leaves of one row carry from one to the next: what stands before each comes to its place.
        if linked {
            for chain in 0..chains {
                for (k, &width) in of.widths.iter().enumerate() {
                    // SAFETY: the first of a chunk, and the place of a chain in another.
                    unsafe {
                        let value = bytes_of(std::slice::from_raw_parts(carry[k], width));
                        std::ptr::copy_nonoverlapping(
                            value.as_ptr(),
                            joined[k].wrapping_add(chain * width),
                            width,
                        );
                        let of_chain =
                            bytes_of(std::slice::from_raw_parts(local[k].wrapping_add(chain * width), width));
                        splat(one[k], of_chain.as_ptr(), width);
                    }
                }
                if first(chain) < LEAF {
                    scan.copy(&carry, (&one, 0), 1);
                } else {
                    // SAFETY: chunks of each; the result comes aside first.
                    unsafe { scan.join((&carry, Some(1)), (&one, 0), &shown, 1, 1) };
                    scan.copy(&carry, (&shown, 0), 1);
                }
            }
        } else {
            scan.copy(&joined, (&carry, 0), 1);
        }
        if alone < chains {
            // SAFETY: chunks of all positions, beside one of what was before.
            unsafe {
                scan.join((&joined, Some(1)), (&states, from), &shown, 1, n);
                scan.write((&shown, 0), seen, result, 1, n);
            }
            put(alone..chains);
        }
        if !linked && at.wrapping_add(n).is_multiple_of(LEAF) {
            if at < LEAF {
                scan.copy(&carry, (&local, 0), 1);
            } else {
                // SAFETY: as above.
                unsafe { scan.join((&joined, Some(1)), (&local, 0), &one, 1, 1) };
                scan.copy(&carry, (&one, 0), 1);
            }
        }
        // SAFETY: the caller's promise; the strip is computed.
        unsafe { strips.finalize() };
    }
}
