//! Programs as data, from which code generators start.
// Imports: `error`, `fallible`, `scalar`, `element`, `kernel`.

use super::{
    Accumulator, Body, ElementTuple, Io, LaneVisitor, Op, Program, Reducer, Row, RowConstantCount, SliceFn,
    ValueSource,
};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::fallible::{push, try_box};
use crate::scalar::{
    CollectParams, DType, Eval, Graph, Lane, Lanes, Prim, Storage, Trace, given, input, output, param, store,
    trace,
};
use std::any::TypeId;
use std::fmt;

/// A program: the row constants to compute for each row, in order, and then the graph of one element.
#[derive(Clone, Debug)]
pub struct KernelIr {
    /// [`Node::Given`](crate::scalar::Node::Given) in a later graph is an index into these.
    pub row_constants: Vec<RowConstant>,
    /// The loads and stores of one element.
    pub graph: Graph,
}

/// A constant of a row, computed from the values of a body along it.
#[derive(Clone, Debug)]
pub enum RowConstant {
    /// Their reduction: one value for the row.
    Reduced {
        /// The values.
        body: Graph,
        /// The reducer of the values.
        reducer: Box<ReducerIr>,
        /// Whether the values are the elements of an operand, unchanged in memory.
        is_operand: bool,
    },
    /// The values themselves, cached because several later graphs use them.
    Cached {
        /// The values.
        body: Graph,
    },
}

impl KernelIr {
    /// As [`Graph::foreign`], of all its graphs.
    pub fn foreign(&self) -> Option<&'static str> {
        self.row_constants.iter().map(RowConstant::body).chain([&self.graph]).find_map(Graph::foreign)
    }

    /// For each row constant, the number of the first that equals it: a device computes equal ones once. One
    /// with run-time numbers equals only itself.
    #[cfg(any(debug_assertions, feature = "dynamic", feature = "cuda"))]
    pub(crate) fn first_equals(&self) -> Result<Vec<usize>> {
        let mut firsts: Vec<usize> = Vec::new();
        for (number, one) in self.row_constants.iter().enumerate() {
            let is_known = |known: &RowConstant| one.body().params() == 0 && known.equals(one, &firsts);
            let before = self.row_constants[..number].iter().position(is_known);
            push(&mut firsts, before.unwrap_or(number))?;
        }
        Ok(firsts)
    }
}

impl RowConstant {
    /// The graph of the values along the row.
    pub fn body(&self) -> &Graph {
        match self {
            RowConstant::Reduced { body, .. } | RowConstant::Cached { body } => body,
        }
    }

    /// Whether two constants have the same value, where constant `k` equals constant `firsts[k]`.
    #[cfg(any(debug_assertions, feature = "dynamic", feature = "cuda"))]
    fn equals(&self, other: &RowConstant, firsts: &[usize]) -> bool {
        use crate::scalar::Node;
        let given = |node: Node| match node {
            Node::Given { index } => Node::Given { index: firsts[index] },
            other => other,
        };
        let (left, right) = (self.body(), other.body());
        let nodes = left.nodes().map(|(node, args, dtype)| (given(node), args, dtype));
        let is_same = nodes.eq(right.nodes().map(|(node, args, dtype)| (given(node), args, dtype)))
            && left.definitions() == right.definitions();
        is_same
            && match (self, other) {
                (RowConstant::Cached { .. }, RowConstant::Cached { .. }) => true,
                (
                    RowConstant::Reduced { reducer: a, is_operand: x, .. },
                    RowConstant::Reduced { reducer: b, is_operand: y, .. },
                ) => {
                    fn graphs(of: &ReducerIr) -> [&Graph; 4] {
                        [&of.identity, &of.accumulate, &of.combine, &of.finalize]
                    }
                    x == y && a.name == b.name && graphs(a) == graphs(b)
                }
                _ => false,
            }
    }
}

impl fmt::Display for KernelIr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, constant) in self.row_constants.iter().enumerate() {
            match constant {
                RowConstant::Reduced { body, reducer, .. } => {
                    write!(f, "given {number}: {} along the row of\n{body}", reducer.name)?
                }
                RowConstant::Cached { body } => write!(f, "given {number}: held along the row\n{body}")?,
            }
        }
        write!(f, "{}", self.graph)
    }
}

/// A reduction as its four functions. In each, the lanes of an accumulator come first, as arguments
/// ([`Node::Given`](crate::scalar::Node::Given) in that order) and as outputs.
#[derive(Clone, Debug)]
pub struct ReducerIr {
    /// Its name.
    pub name: &'static str,
    /// The types of the accumulator's lanes.
    pub state: Vec<DType>,
    /// The accumulator of no values.
    pub identity: Graph,
    /// Arguments: an accumulator, a value and its position.
    pub accumulate: Graph,
    /// Arguments: two accumulators.
    pub combine: Graph,
    /// Arguments: an accumulator and the number of values. It has one output, in the compute type of the
    /// result.
    pub finalize: Graph,
    /// Bytes of an accumulator on the host. They determine the shape of the tree of accumulators there.
    #[doc(hidden)]
    pub nbytes: usize,
    /// See [`Reducer::accumulate_slice`].
    #[doc(hidden)]
    pub slice: Option<SliceFn>,
}

/// Traces a program. `reads[k]` is the operand that its k-th load reads; equal operands are one.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn trace_program<P: Program>(program: &P, reads: &[u8]) -> Result<KernelIr> {
    if const { P::BY_ROWS } {
        let mut program = *program;
        let mut rows =
            RowRecorder { reads, next: 0, row_constants: Vec::new(), firsts: Vec::new(), result: Ok(()) };
        program.prepare_row(&mut rows);
        let RowRecorder { row_constants, firsts, result, .. } = rows;
        result?;
        let graph = recorded(reads, 0, &firsts, 0, &mut |recorder| program.run::<Trace>(recorder))?;
        return Ok(KernelIr { row_constants, graph });
    }
    trace_elements(reads, &mut |recorder| program.run::<Trace>(recorder))
}

/// As [`trace_program`], of a program without row constants, which `run` evaluates.
#[inline(never)]
pub(crate) fn trace_elements(reads: &[u8], run: &mut dyn FnMut(&mut Recorder<'_>)) -> Result<KernelIr> {
    Ok(KernelIr { row_constants: Vec::new(), graph: recorded(reads, 0, &[], 0, run)? })
}

/// Traces the value of a body, in its compute type: the values that a fused reduction accumulates. Row
/// constants are taken as the body has them. In a body that was never prepared for a row, which is evaluated
/// nowhere, they are 0.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn trace_body<B: Body>(body: &B, reads: &[u8]) -> Result<Graph> {
    recorded(reads, 0, &[], 0, &mut |recorder| value_of(body, recorder))
}

fn value_of<B: Body>(body: &B, recorder: &mut Recorder<'_>) {
    store(body.eval::<Trace>(recorder).0, <Compute<B::Out> as Prim>::DTYPE);
}

/// The graph that a body or program records; see [`Recorder`].
#[inline(never)]
fn recorded(
    reads: &[u8],
    next: usize,
    firsts: &[usize],
    from: usize,
    body: &mut dyn FnMut(&mut Recorder<'_>),
) -> Result<Graph> {
    trace(&mut || body(&mut Recorder { reads, next, firsts, from }))
}

/// Traces the four functions of a reduction of elements `T`.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn trace_reducer<T: Element, R: Reducer<T>>() -> Result<ReducerIr> {
    let at = |index: usize| Lane::<Trace, i64>(given(index, DType::I64));
    reducer_of(
        (R::NAME, size_of::<R::State<Eval>>(), R::slice()),
        &|types| {
            R::identity::<Trace>().each(types);
        },
        &|step, count| {
            let state = |first: usize| R::identity::<Trace>().each(&mut NumberedArguments(first));
            let state = match step {
                ReducerStep::Identity => R::identity::<Trace>(),
                ReducerStep::Accumulate => R::accumulate::<Trace>(
                    state(0),
                    Lane(given(count, <Compute<T> as Prim>::DTYPE)),
                    at(count + 1),
                ),
                ReducerStep::Combine => R::combine::<Trace>(state(0), state(count)),
                ReducerStep::Finalize => {
                    return store(
                        R::finalize::<Trace>(state(0), at(count)).0,
                        <Compute<R::Out> as Prim>::DTYPE,
                    );
                }
            };
            state.each(&mut Stores);
        },
    )
}

/// A function of a reducer.
#[derive(Clone, Copy)]
enum ReducerStep {
    Identity,
    Accumulate,
    Combine,
    Finalize,
}

/// Assembles a reducer from its name, the bytes of its accumulator, and [`Reducer::accumulate_slice`].
/// `types` collects the types of the accumulator's lanes, and `record` traces one of the functions, for an
/// accumulator of that many lanes.
#[inline(never)]
fn reducer_of(
    (name, nbytes, slice): (&'static str, usize, Option<SliceFn>),
    types: &dyn Fn(&mut Types),
    record: &dyn Fn(ReducerStep, usize),
) -> Result<ReducerIr> {
    let mut state = Types { list: Vec::new(), result: Ok(()) };
    trace(&mut || types(&mut state))?;
    let Types { list: state, result } = state;
    result?;
    let step = |step| trace(&mut || record(step, state.len()));
    Ok(ReducerIr {
        name,
        identity: step(ReducerStep::Identity)?,
        accumulate: step(ReducerStep::Accumulate)?,
        combine: step(ReducerStep::Combine)?,
        finalize: step(ReducerStep::Finalize)?,
        nbytes,
        slice,
        state,
    })
}

/// Traces one operator on elements `IN`.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::{kernel::trace_op, ops};
/// let graph = trace_op::<ops::Square, (i32,)>()?;
/// let expected = "%0: i32 = input 0\n%1: i32 = Mul %0 %0\n%2: i32 = output 0 %1\n";
/// assert_eq!(graph.to_string(), expected);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn trace_op<F: Op<IN>, IN: TraceInputs>() -> Result<Graph> {
    recorded(&[0, 1, 2, 3, 4, 5], 0, &[], 0, &mut |io| {
        let value = F::call::<Trace>(IN::load(io));
        io.store::<F::Out>(value);
    })
}

/// Element tuples that can be loaded for a trace.
pub trait TraceInputs: ElementTuple {
    #[doc(hidden)]
    fn load(io: &mut impl Io<Trace>) -> Self::Lanes<Trace>;
}
macro_rules! trace_inputs {
    ($($($element:ident)+;)*) => { $(
        impl<$($element: Element),+> TraceInputs for ($($element,)+) {
            fn load(io: &mut impl Io<Trace>) -> Self::Lanes<Trace> { ($(io.load::<$element>(),)+) }
        }
    )* };
}
trace_inputs! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

// ---------------------------------------------------------------- how a trace is recorded

fn storage<T: Element>() -> &'static Storage {
    const {
        &Storage {
            stored: T::DTYPE,
            computed: <Compute<T> as Prim>::DTYPE,
            foreign: if T::PLAIN { None } else { Some(std::any::type_name::<T>) },
        }
    }
}

/// Records the evaluation of a body. Row constants are computed in the order in which they are evaluated, and
/// those inside a constant come before it: constant `k` and those inside it have the numbers from `firsts[k]`
/// to `k`. The next constant to be evaluated is therefore the last of those that begin at `from`.
pub(crate) struct Recorder<'a> {
    reads: &'a [u8],
    next: usize,
    firsts: &'a [usize],
    from: usize,
}

impl Recorder<'_> {
    /// Records the next load.
    #[inline(never)]
    fn next_load(&mut self, storage: &Storage) -> u32 {
        let operand = self.reads.get(self.next).map_or(self.next, |&k| k as usize);
        self.next += 1;
        input(operand, storage)
    }
    /// The number of the next row constant.
    #[inline(never)]
    fn next_constant(&mut self) -> Option<usize> {
        let number = self.firsts.iter().rposition(|&first| first == self.from)?;
        self.from = number + 1;
        Some(number)
    }
}

impl Io<Trace> for Recorder<'_> {
    fn load<T: Element>(&mut self) -> Lane<Trace, Compute<T>> {
        Lane(self.next_load(storage::<T>()))
    }
    fn param<T: Element>(&mut self, _: T) -> Lane<Trace, Compute<T>> {
        Lane(param(storage::<T>()))
    }
    fn store<T: Element>(&mut self, value: Lane<Trace, Compute<T>>) {
        output(value.0, storage::<T>());
    }
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Trace, Compute<T>> {
        self.next += loads;
        Lane(match self.next_constant() {
            Some(number) => given(number, <Compute<T> as Prim>::DTYPE),
            None => Trace::literal(value),
        })
    }
    fn cached<T: Element>(&mut self, place: usize, loads: usize) -> Option<Lane<Trace, Compute<T>>> {
        let number = place.checked_sub(1)?;
        self.next += loads;
        self.from = place;
        Some(Lane(given(number, <Compute<T> as Prim>::DTYPE)))
    }
}

struct RowRecorder<'a> {
    reads: &'a [u8],
    next: usize,
    row_constants: Vec<RowConstant>,
    firsts: Vec<usize>,
    /// After an error no constant is added.
    result: Result<()>,
}

impl RowRecorder<'_> {
    /// The graph of a body along the row. The row constants inside the body are the last that were computed;
    /// the number of the first of them is kept.
    fn values<B: Body>(&mut self, body: &B) -> Result<Graph> {
        let inside = RowConstantCount::of(body);
        self.traced(inside.reduced + inside.cached, &mut |recorder| value_of(body, recorder))
    }
    #[inline(never)]
    fn traced(&mut self, parts: usize, body: &mut dyn FnMut(&mut Recorder<'_>)) -> Result<Graph> {
        let from = self.row_constants.len() - parts;
        let graph = recorded(self.reads, self.next, &self.firsts, from, body)?;
        push(&mut self.firsts, from)?;
        Ok(graph)
    }
    fn add_reduced<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Result<()> {
        let body = self.values(body)?;
        let is_operand = matches!(B::SOURCE, ValueSource::Operand)
            && TypeId::of::<B::Out>() == TypeId::of::<Compute<B::Out>>();
        let reducer = try_box(trace_reducer::<B::Out, R>()?)?;
        push(&mut self.row_constants, RowConstant::Reduced { body, reducer, is_operand })
    }
    fn add_cached<B: Body>(&mut self, body: &B) -> Result<()> {
        let body = self.values(body)?;
        push(&mut self.row_constants, RowConstant::Cached { body })
    }
}

impl Row for RowRecorder<'_> {
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        if self.result.is_ok() {
            self.result = self.add_reduced::<B, R>(body);
        }
        Default::default()
    }
    fn cache<B: Body>(&mut self, body: &B) -> usize {
        if self.result.is_ok() {
            self.result = self.add_cached(body);
        }
        self.row_constants.len()
    }
}

/// The types of lanes.
struct Types {
    list: Vec<DType>,
    result: Result<()>,
}
impl LaneVisitor<Trace> for Types {
    fn lane<P: Prim>(&mut self, lane: Lane<Trace, P>) -> Lane<Trace, P> {
        if self.result.is_ok() {
            self.result = push(&mut self.list, P::DTYPE);
        }
        lane
    }
}

/// Lanes that are arguments, numbered from this number on.
struct NumberedArguments(usize);
impl LaneVisitor<Trace> for NumberedArguments {
    fn lane<P: Prim>(&mut self, _: Lane<Trace, P>) -> Lane<Trace, P> {
        self.0 += 1;
        Lane(given(self.0 - 1, P::DTYPE))
    }
}

/// Stores each lane to the next output.
struct Stores;
impl LaneVisitor<Trace> for Stores {
    fn lane<P: Prim>(&mut self, lane: Lane<Trace, P>) -> Lane<Trace, P> {
        store(lane.0, P::DTYPE);
        lane
    }
}

// ---------------------------------------------------------------- the run-time numbers of a program

/// The bytes of a run-time number, at the start of 16 bytes.
pub type RunTimeNumber = [u8; 16];

/// Hands `each` the run-time numbers of a program, in the order of its graphs: those of the row constants,
/// one after another, then its own.
pub fn numbers<P: Program>(program: &P, each: &mut dyn FnMut(RunTimeNumber)) {
    if const { P::FIXED } {
        return;
    }
    let mut program = *program;
    let mut collector = Collector { next: 0, constants: 0, each };
    if P::BY_ROWS {
        program.prepare_row(&mut collector);
    }
    program.run::<CollectParams>(&mut collector);
}

struct Collector<'a> {
    next: usize,
    constants: usize,
    each: &'a mut dyn FnMut(RunTimeNumber),
}

impl Io<CollectParams> for Collector<'_> {
    fn load<T: Element>(&mut self) -> Lane<CollectParams, Compute<T>> {
        Lane(())
    }
    fn param<T: Element>(&mut self, value: T) -> Lane<CollectParams, Compute<T>> {
        let mut bytes = [0; 16];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        (self.each)(bytes);
        Lane(())
    }
    fn store<T: Element>(&mut self, _: Lane<CollectParams, Compute<T>>) {}
    fn row_constant<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<CollectParams, Compute<T>> {
        Lane(())
    }
    fn cached<T: Element>(&mut self, place: usize, _: usize) -> Option<Lane<CollectParams, Compute<T>>> {
        (place > 0).then_some(Lane(()))
    }
}

impl Row for Collector<'_> {
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        self.constants += 1;
        body.eval::<CollectParams>(self);
        Default::default()
    }
    fn cache<B: Body>(&mut self, body: &B) -> usize {
        self.constants += 1;
        body.eval::<CollectParams>(self);
        self.constants
    }
}
