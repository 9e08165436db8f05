//! Reductions, interpreted: what [`fold`](super::fold) does, as the kernels that walks over operands call.
// Imports: `error`, `element`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::fold::{Fold, Folded, LINES};
use super::frame::Operand;
use super::map::{Outside, loads, operands};
use super::steps::WIDTH;
use crate::device::cpu::columns::{self, Strips};
use crate::device::cpu::reduce::{ReduceKernel, Rows, run_job};
use crate::device::cpu::simd::{self, Loop};
use crate::device::{Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{
    Accumulator, Body, Input, LaneVisitor, Reducer, ReducerIr, RunTimeNumbers, Store, numbers, trace_body,
    trace_reducer,
};
use crate::scalar::{DType, Eval, Graph, Lane, Prim};
use std::any::TypeId;

/// The [`SliceFn`](crate::kernel::SliceFn) of a reducer that takes many values at once.
///
/// # Safety
/// There are `n` values of the machine type of `T`, and room for a state.
pub(crate) unsafe fn slice_of<T: Element, R: Reducer<T>>(
    values: *const u8,
    n: usize,
    at: usize,
    state: *mut u8,
) {
    struct Slice<'a, T: Element, R>(&'a [Compute<T>], usize, std::marker::PhantomData<R>);
    impl<T: Element, R: Reducer<T>> Loop for Slice<'_, T, R> {
        type Output = R::State<Eval>;
        #[inline(always)]
        fn run(self) -> R::State<Eval> {
            R::accumulate_slice(self.0, self.1)
        }
    }
    struct Lanes(*mut u8);
    impl LaneVisitor<Eval> for Lanes {
        fn lane<P: Prim>(&mut self, lane: Lane<Eval, P>) -> Lane<Eval, P> {
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
struct Known {
    id: TypeId,
    light: usize,
    out: DType,
    /// Whether the body is an operand's elements, as they stand in memory.
    in_memory: bool,
    trace: unsafe fn(*const (), &[u8]) -> (Graph, ReducerIr),
    numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers>,
}

impl Known {
    fn of<B: Body, R: Reducer<B::Out>>() -> Known {
        let numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers> =
            if B::FIXED { None } else { Some(numbers_of::<B>) };
        Known {
            id: TypeId::of::<(B, R)>(),
            light: ReduceKernel::light_of::<B, R>(),
            out: R::Out::DTYPE,
            in_memory: TypeId::of::<B>() == TypeId::of::<Input<Compute<B::Out>>>(),
            trace: trace_of::<B, R>,
            numbers,
        }
    }
}

/// # Safety
/// `body` points to a `B`; so below.
unsafe fn trace_of<B: Body, R: Reducer<B::Out>>(body: *const (), reads: &[u8]) -> (Graph, ReducerIr) {
    // SAFETY: the caller's promise.
    (trace_body(unsafe { &*body.cast::<B>() }, reads), trace_reducer::<B::Out, R>())
}

/// # Safety
/// As above.
unsafe fn numbers_of<B: Body>(body: *const ()) -> RunTimeNumbers {
    // SAFETY: the caller's promise.
    numbers(&Store(unsafe { *body.cast::<B>() }))
}

/// A reducer over a body with its operands.
struct Reduced {
    folded: Folded,
    /// For each operand the first load that reads it, and bytes of an element.
    inputs: Vec<(usize, usize)>,
}

/// What the kernels are handed.
struct Handed {
    reduced: &'static Reduced,
    numbers: RunTimeNumbers,
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
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise; what is known is of this body and reducer.
    unsafe { run(&Known::of::<B, R>(), std::ptr::from_ref(body).cast(), axes, output, inputs) }
}

/// # Safety
/// As [`reduce`], of the body and reducer that are known.
#[inline(never)]
unsafe fn run(
    known: &Known,
    body: *const (),
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let reduced = WRITTEN.get("reduce", known.id, inputs.reads, &mut || {
        // SAFETY: the body is of the type that is known; so below.
        let (body, reducer) = unsafe { (known.trace)(body, inputs.reads) };
        let types = operands([&body].into_iter(), inputs.reads);
        let outside = Outside { types: &types, operands: types.len(), things: &[] };
        let folded = Folded::new(&body, &reducer, &outside, 0, known.out, known.in_memory)?;
        Some(Reduced { folded, inputs: loads(&types, inputs.reads) })
    })?;
    // SAFETY: as above.
    let handed = Handed {
        reduced,
        numbers: known.numbers.map_or_else(RunTimeNumbers::new, |numbers| unsafe { numbers(body) }),
    };
    let kernel = ReduceKernel { rows, columns, states: reduced.folded.states(), light: known.light };
    // SAFETY: the caller's promise; the kernel is that of what it is handed.
    unsafe { run_job(&kernel, std::ptr::from_ref(&handed).cast(), axes, output, inputs) }
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
            down: steps[load],
            width,
            still: false,
        };
        self.reduced.inputs.iter().map(of).collect()
    }
}

/// # Safety
/// `handed` points to a [`Handed`]; the rest as the kernel has it, and so below.
unsafe fn rows(handed: *const (), rows: &Rows) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(handed.reduced.folded.chunks_of(rows.rows.clamp(1, LINES)));
    let operands = handed.operands(&rows.pointers, &rows.steps);
    // SAFETY: the caller's promise.
    unsafe { fold.rows(&operands, rows.rows, rows.count, rows.at, rows.out) };
}

/// # Safety
/// As `rows`, of columns side by side.
unsafe fn columns(handed: *const (), strips: &Strips) {
    // SAFETY: the caller's promise.
    let handed = unsafe { &*handed.cast::<Handed>() };
    let mut fold = handed.fold(strips.width.div_ceil(columns::WIDTH) * columns::WIDTH / WIDTH);
    let operands = handed.operands(&strips.pointers, &strips.steps);
    // SAFETY: the caller's promise.
    unsafe { fold.columns(&operands, strips) };
}
