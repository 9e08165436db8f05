//! Reductions, interpreted: what [`fold`](super::fold) does, as the kernels that walks over operands call.
//!
//! Imports: `error`, `element`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::fold::{Fold, Folded, LINES};
use super::frame::Operand;
use super::map::{Outside, loads, operands};
use super::steps::WIDTH;
use super::tree::Tree;
use crate::device::cpu::columns::{LEAF_ROWS, Tiles, strips_and_digits};
use crate::device::cpu::fold::{DIGITS, LEAF};
use crate::device::cpu::reduce::{Blocks, ReduceKernel, Rows, run_job};
use crate::device::cpu::simd::{self, Loop};
use crate::device::{Inputs, Reduction, Slot};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Body, Carried, EachLane, Input, Numbers, Reducer, Store, TracedReducer, numbers, trace_body, trace_reducer};
use crate::scalar::{DType, Graph, Lane, Prim, Run};
use std::any::TypeId;

/// The [`SliceFn`](crate::kernel::SliceFn) of a reducer that takes many values at once.
///
/// # Safety
/// There are `n` values of the machine type of `T`, and room for a state.
pub(crate) unsafe fn slice_of<T: Element, R: Reducer<T>>(values: *const u8, n: usize, at: usize, state: *mut u8) {
    struct Slice<'a, T: Element, R>(&'a [Compute<T>], usize, std::marker::PhantomData<R>);
    impl<T: Element, R: Reducer<T>> Loop for Slice<'_, T, R> {
        type Output = R::State<Run>;
        #[inline(always)]
        fn run(self) -> R::State<Run> {
            R::of_slice(self.0, self.1)
        }
    }
    struct Lanes(*mut u8);
    impl EachLane<Run> for Lanes {
        fn lane<P: Prim>(&mut self, lane: Lane<Run, P>) -> Lane<Run, P> {
            // SAFETY: the caller promised room for every lane.
            unsafe { self.0.cast::<P>().write_unaligned(lane.value()) };
            self.0 = self.0.wrapping_add(size_of::<P>());
            lane
        }
    }
    // SAFETY: the caller's promise.
    let values = unsafe { std::slice::from_raw_parts(values.cast::<Compute<T>>(), n) };
    simd::dispatch(Slice::<T, R>(values, at, std::marker::PhantomData)).each(&mut Lanes(state));
}

/// What is known of a reducer over a body without their types.
pub(super) struct Shape {
    /// Bytes of a compiled state: what the tree goes by.
    state: usize,
    light: usize,
    out: DType,
}

impl Shape {
    pub(super) const fn of<B: Body, R: Reducer<B::Out>>() -> Shape {
        let kernel = ReduceKernel::light::<B, R>();
        Shape { state: size_of::<R::State<Run>>(), light: kernel, out: R::Out::DTYPE }
    }
}

/// A reducer over a body with its operands.
struct Reduced {
    folded: Folded,
    /// For each operand the first load that reads it, and bytes of an element.
    inputs: Vec<(usize, usize)>,
    /// Bytes of a compiled state.
    state: usize,
}

/// What the kernels are handed.
struct Handed {
    reduced: &'static Reduced,
    numbers: Numbers,
}

static WRITTEN: Cache<Reduced> = Cache::new();

/// Reduces as [`Device::reduce`](crate::Device::reduce) does.
///
/// # Errors
/// What that reports.
///
/// # Safety
/// As there.
pub(in crate::device::cpu) unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
    body: &B,
    axes: Reduction<'_>,
    output: Slot<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let shape = const { &Shape::of::<B, R>() };
    let in_memory = TypeId::of::<B>() == TypeId::of::<Input<Compute<B::Out>>>();
    let mut trace = || (trace_body(body, inputs.reads), trace_reducer::<B::Out, R>());
    // SAFETY: the caller's promise.
    unsafe { run(TypeId::of::<(B, R)>(), &mut trace, numbers(&Store(*body)), shape, in_memory, axes, output, inputs) }
}

/// # Safety
/// As [`reduce`], of the body and reducer that are traced.
#[allow(clippy::too_many_arguments)] // those of a reduction, and what is known of it
unsafe fn run(
    types: TypeId,
    trace: &mut dyn FnMut() -> (Graph, TracedReducer),
    numbers: Numbers,
    shape: &Shape,
    in_memory: bool,
    axes: Reduction<'_>,
    output: Slot<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let reduced = WRITTEN.get("reduce", types, inputs.reads, &mut || {
        let (body, reducer) = trace();
        let types = operands([&body].into_iter(), inputs.reads);
        let outside = Outside { types: &types, operands: types.len(), things: &[] };
        let folded = Folded::new(&body, &reducer, &outside, 0, shape.out, in_memory)?;
        Some(Reduced { folded, inputs: loads(&types, inputs.reads), state: shape.state })
    })?;
    let handed = Handed { reduced, numbers };
    let kernel = ReduceKernel {
        packed_row,
        stretch,
        join: join_stretches,
        state: shape.state,
        light: shape.light,
        short_rows: rows,
        long_rows: rows,
        columns,
    };
    // SAFETY: the caller's promise; the kernel is that of what it is handed.
    unsafe { run_job(kernel, std::ptr::from_ref(&handed).cast(), axes, output, inputs) };
    Ok(())
}

impl Handed {
    fn fold(&self, chunks: usize) -> Fold<'_> {
        let widths: Vec<usize> = self.reduced.inputs.iter().map(|&(_, width)| width).collect();
        Fold::new(&self.reduced.folded, &self.numbers, &widths, chunks)
    }

    /// The operands, from what each load has.
    fn operands(&self, pointers: &[*mut u8], steps: &[isize]) -> Vec<Operand> {
        let of = |&(load, width): &(usize, usize)| Operand {
            at: pointers[load],
            down: steps.get(load).copied().unwrap_or(0),
            width,
            still: false,
        };
        self.reduced.inputs.iter().map(of).collect()
    }

    /// The state of a row, or of a stretch of one, whose first value has number `at`.
    fn state_of(&self, fold: &mut Fold<'_>, blocks: &mut Blocks<'_>, mut at: usize) -> Vec<u8> {
        if blocks.block == usize::MAX {
            let (pointers, n) = blocks.next(usize::MAX);
            // SAFETY: the blocks hold elements that whoever made them promised; so below.
            return unsafe { fold.row(&self.operands(&pointers, &[]), n, at) };
        }
        let mut tree = Tree::new(DIGITS);
        while blocks.left > 0 {
            if self.reduced.folded.slice.is_some() {
                let (pointers, n) = blocks.next(LEAF);
                // SAFETY: as above.
                let state = unsafe { fold.row(&self.operands(&pointers, &[]), n, at) };
                tree.push(state, |a, b| fold.join(a, b));
                at += n;
                continue;
            }
            fold.begin(1);
            let mut room = LEAF;
            while room > 0 && blocks.left > 0 {
                let (pointers, n) = blocks.next(room);
                // SAFETY: as above.
                unsafe { fold.absorb(&self.operands(&pointers, &[]), 1, n, (at, 0), false) };
                (at, room) = (at + n, room - n);
            }
            fold.collapse(1);
            let state = fold.state(0);
            tree.push(state, |a, b| fold.join(a, b));
        }
        tree.join(|a, b| fold.join(a, b)).unwrap_or_else(|| fold.identity())
    }
}

/// # Safety
/// `handed` points to a [`Handed`]; the rest as the kernel has it, and so below.
unsafe fn packed_row(handed: *const (), blocks: &mut Blocks<'_>, count: usize, out: *mut u8) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(handed.reduced.folded.chunks_of(LINES));
    let state = handed.state_of(&mut fold, blocks, 0);
    // SAFETY: the caller's promise.
    unsafe { fold.finish_one(&state, count, out) };
}

/// # Safety
/// As `packed_row`; there is room for a state.
unsafe fn stretch(handed: *const (), blocks: &mut Blocks<'_>, at: usize, to: *mut u8) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(handed.reduced.folded.chunks_of(LINES));
    let state = handed.state_of(&mut fold, blocks, at);
    // SAFETY: lanes one behind the other take no more room than a state has.
    unsafe { std::ptr::copy_nonoverlapping(state.as_ptr(), to, state.len()) };
}

/// # Safety
/// As `packed_row`; `stretches` states stand at `states`.
unsafe fn join_stretches(handed: *const (), states: *const u8, stretches: usize, count: usize, out: *mut u8) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(handed.reduced.folded.chunks_of(1));
    let mut tree = Tree::new(DIGITS);
    for k in 0..stretches {
        // SAFETY: the caller's promise: states in the room of compiled ones.
        let state = unsafe { std::slice::from_raw_parts(states.wrapping_add(k * handed.reduced.state), handed.reduced.folded.state()) };
        tree.push(state.to_vec(), |a, b| fold.join(a, b));
    }
    let state = tree.join(|a, b| fold.join(a, b)).unwrap_or_else(|| fold.identity());
    // SAFETY: the caller's promise.
    unsafe { fold.finish_one(&state, count, out) };
}

/// # Safety
/// As `packed_row`, of several rows.
unsafe fn rows(handed: *const (), rows: &Rows) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(handed.reduced.folded.chunks_of(LINES));
    let operands = handed.operands(&rows.pointers, &rows.steps);
    // SAFETY: the caller's promise.
    unsafe { fold.rows(&operands, rows.rows, rows.count, rows.out, rows.out_step) };
}

/// # Safety
/// As `packed_row`, of columns side by side.
unsafe fn columns(handed: *const (), tiles: &mut Tiles<'_>, count: usize, out: *mut u8, out_step: isize) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let (width, of) = (tiles.width, &handed.reduced.folded);
    let (full, chunks) = (width / WIDTH, width.div_ceil(WIDTH));
    let mut fold = handed.fold(chunks.next_multiple_of(handed.reduced.folded.chunks_of(1)));
    // The last chunk begins where it ends with the columns; what it shares with the one before is computed twice, and alike.
    let last = if full == chunks { None } else { Some(width.saturating_sub(WIDTH)) };
    let mut tree = Tree::new(strips_and_digits(count, handed.reduced.state).1);
    let (mut at, mut more) = (0, true);
    while more {
        fold.clear(0, chunks);
        let mut filled = 0;
        while filled < LEAF_ROWS {
            let (pointers, steps, n) = tiles.next(LEAF_ROWS - filled);
            if n == 0 {
                more = false;
                break;
            }
            let operands = handed.operands(&pointers, &steps);
            for row in 0..n {
                // SAFETY: the caller's promise: a row of every operand.
                unsafe { fold.beside(&operands, row, (full, last, width), at + row) };
            }
            at += n;
            filled += n;
        }
        if filled > 0 {
            let state = fold.all(chunks);
            tree.push(state, |a, b| fold.join_all(chunks, a, b));
        }
    }
    let state = tree.join(|a, b| fold.join_all(chunks, a, b));
    fold.clear(0, chunks);
    if let Some(state) = state {
        fold.put_all(chunks, &state);
    }
    let results = fold.results_of(chunks, count);
    for j in 0..width {
        let place = if j < full * WIDTH { j } else { full * WIDTH + j - last.unwrap_or(0) };
        // SAFETY: a result for each column, and room for it.
        unsafe {
            let to = out.wrapping_offset((j as isize).wrapping_mul(out_step));
            std::ptr::copy_nonoverlapping(results[place * of.out..].as_ptr(), to, of.out);
        }
    }
}
