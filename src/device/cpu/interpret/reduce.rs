//! Reductions, interpreted: what [`fold`](super::fold) does, as the kernels that walks over operands call.
//!
//! Imports: `error`, `element`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::fold::{Fold, Folded, LINES};
use super::frame::Operand;
use super::map::{Outside, loads, operands};
use super::steps::WIDTH;
use crate::device::cpu::columns::{self, Strips};
use crate::device::cpu::reduce::{ReduceKernel, Rows, run_job};
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
struct Shape {
    light: usize,
    out: DType,
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
    let shape = const { &Shape { light: ReduceKernel::light_of::<B, R>(), out: R::Out::DTYPE } };
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
        Some(Reduced { folded, inputs: loads(&types, inputs.reads) })
    })?;
    let handed = Handed { reduced, numbers };
    let kernel = ReduceKernel { rows, columns, states: reduced.folded.states(), light: shape.light };
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
        let of = |&(load, width): &(usize, usize)| Operand { at: pointers[load], down: steps[load], width, still: false };
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
