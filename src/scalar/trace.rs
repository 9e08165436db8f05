//! The interpretation that records: a raw lane is the number of a node in the graph of the running trace.
//!
//! Equal nodes are one node (hash-consed), so a repeated expression of a body is computed once.
// Imports: `error`, `fallible`, `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, DType, Function, IntegerPrim, Lane, Lanes, Logic, MinMaxRem, Num,
    Ordered, Part, Prim, Real, Shift, Unary,
};
use crate::error::{Error, Result};
use crate::fallible::push;
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

/// The step of one node of a [`Graph`].
#[allow(missing_docs)] // each is the step of `Lanes` of the same name
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// The element of operand `index`, as stored in memory.
    Input {
        index: usize,
    },
    /// The run-time number `index`, as given.
    Param {
        index: usize,
    },
    /// Argument `index` of the graph: an argument of a function, a lane of a reduction's accumulator, or a
    /// row constant.
    Given {
        index: usize,
    },
    /// A number written in the body: its bytes, in the machine's order.
    Literal([u8; 16]),
    Arith(Arith),
    Negate,
    Order(MinMaxRem),
    Compare(Compare),
    Equal,
    Logic(Logic),
    Shift(Shift, u32),
    Unary(Unary),
    MulAdd,
    Select,
    Cast,
    ToBits,
    FromBits,
    Part(Part),
    Complex,
    /// A named function, and the index of its definition; see [`Graph::definitions`].
    Function(&'static str, usize),
    /// The store to output `index`; its type is the one in memory.
    Output {
        index: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct RowTrace {
    node: Node,
    args: [u32; 3],
    count: u8,
    dtype: DType,
}

/// The definition of a named function: the graph of its value, whose arguments are [`Node::Given`].
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    /// The name in C.
    pub name: &'static str,
    /// The type of its arguments and of its value.
    pub dtype: DType,
    /// The number of arguments.
    pub arguments: usize,
    /// The value; its functions are numbered in the graph that this definition belongs to.
    pub value: Graph,
    /// Its fast path, if it has one: the value, and whether the argument is out of range.
    pub fast: Option<Graph>,
    function: TypeId,
}

/// A body as data: nodes in an order in which each uses only earlier ones.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Graph {
    rows: Vec<RowTrace>,
    memo: HashMap<RowTrace, u32>,
    params: usize,
    outputs: usize,
    definitions: Vec<Definition>,
    foreign: Option<&'static str>,
    /// Bytes that were refused while it was recorded, or 0: a graph with a refusal lacks nodes.
    refused: usize,
}

impl Graph {
    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// The nodes: the step, the earlier nodes that are its arguments, and the type of the value.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, &[u32], DType)> {
        self.rows.iter().map(|row| (row.node, &row.args[..row.count as usize], row.dtype))
    }

    /// The functions that it uses, each after those that its definition uses.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }
    /// The name of an element, among those that it loads, stores or takes as numbers, that its nodes do not
    /// describe completely: one that is not [`PLAIN`](crate::Element::PLAIN).
    pub fn foreign(&self) -> Option<&'static str> {
        self.foreign
    }
    /// The number of run-time numbers that it takes.
    pub fn params(&self) -> usize {
        self.params
    }
    /// The values that it stores, by output: the type in memory, and the node.
    pub fn outputs(&self) -> impl Iterator<Item = (DType, u32)> {
        self.rows
            .iter()
            .filter(|row| matches!(row.node, Node::Output { .. }))
            .map(|row| (row.dtype, row.args[0]))
    }

    /// The number of a node, which is added if it is new. A body is recorded to its end even if memory runs
    /// out; [`trace`] then returns an error.
    fn push(&mut self, row: RowTrace) -> u32 {
        if self.memo.try_reserve(1).is_err() || self.rows.try_reserve(1).is_err() {
            return self.refuse::<(RowTrace, RowTrace, u32)>(self.rows.len() + 1);
        }
        let next = self.rows.len() as u32;
        let id = *self.memo.entry(row).or_insert(next);
        if id == next {
            self.rows.push(row);
        }
        id
    }

    /// Notes that there was no memory for `n` values; returns a number of no node.
    #[cold]
    fn refuse<T>(&mut self, n: usize) -> u32 {
        self.refused = n * size_of::<T>();
        0
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, (node, args, dtype)) in self.nodes().enumerate() {
            write!(f, "%{id}: {dtype} = ")?;
            match node {
                Node::Input { index } => write!(f, "input {index}")?,
                Node::Param { index } => write!(f, "param {index}")?,
                Node::Given { index } => write!(f, "given {index}")?,
                Node::Literal(bytes) => write!(f, "{}", literal(bytes, dtype))?,
                Node::Arith(op) => write!(f, "{op:?}")?,
                Node::Order(op) => write!(f, "{op:?}")?,
                Node::Compare(op) => write!(f, "{op:?}")?,
                Node::Logic(op) => write!(f, "{op:?}")?,
                Node::Shift(op, by) => write!(f, "Shift{op:?}[{by}]")?,
                Node::Unary(op) => write!(f, "{op:?}")?,
                Node::Part(part) => write!(f, "{part:?}")?,
                Node::Function(name, _) => write!(f, "{name}")?,
                Node::Output { index } => write!(f, "output {index}")?,
                other => write!(f, "{other:?}")?,
            }
            for arg in args {
                write!(f, " %{arg}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A literal as text, with enough digits to read back the same number.
fn literal(bytes: [u8; 16], dtype: DType) -> String {
    fn of<T: bytemuck::AnyBitPattern + fmt::Debug>(bytes: &[u8; 16]) -> String {
        format!("{:?}", bytemuck::pod_read_unaligned::<T>(&bytes[..size_of::<T>()]))
    }
    match dtype {
        DType::Bool => (bytes[0] != 0).to_string(),
        DType::I8 | DType::QI8 => of::<i8>(&bytes),
        DType::I16 => of::<i16>(&bytes),
        DType::I32 | DType::QI32 => of::<i32>(&bytes),
        DType::I64 => of::<i64>(&bytes),
        DType::U16 | DType::F16 | DType::BF16 => of::<u16>(&bytes),
        DType::U32 => of::<u32>(&bytes),
        DType::U64 => of::<u64>(&bytes),
        DType::F32 => of::<f32>(&bytes),
        DType::F64 => of::<f64>(&bytes),
        DType::C16 => of::<[u16; 2]>(&bytes),
        DType::C32 => of::<[f32; 2]>(&bytes),
        DType::C64 => of::<[f64; 2]>(&bytes),
        _ => of::<u8>(&bytes), // U8, QU8 and 8-bit floats
    }
}

thread_local! {
    /// The graphs being recorded, innermost last: a trace inside a trace has its own graph.
    static GRAPHS: RefCell<Vec<Graph>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` and returns the graph that it recorded.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn trace(body: &mut dyn FnMut()) -> Result<Graph> {
    let graph = recorded(body);
    match graph.refused {
        0 => Ok(graph),
        nbytes => Err(Error::OutOfMemory { op: "trace", nbytes }),
    }
}

/// As [`trace`], of what memory allowed to record.
fn recorded(body: &mut dyn FnMut()) -> Graph {
    // A thread that ends has no memory for graphs.
    let has_room = GRAPHS.try_with(|graphs| push(&mut graphs.borrow_mut(), Graph::default()));
    if !matches!(has_room, Ok(Ok(()))) {
        return Graph { refused: size_of::<Graph>(), ..Graph::default() };
    }
    // If the body panics, the guard pops its graph, so that the enclosing trace stays whole.
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            GRAPHS.with_borrow_mut(|graphs| graphs.pop());
        }
    }
    let guard = Guard;
    body();
    let graph = GRAPHS.with_borrow_mut(|graphs| graphs.last_mut().map(std::mem::take));
    drop(guard);
    graph.unwrap_or_default()
}

fn with_graph<R>(f: impl FnOnce(&mut Graph) -> R) -> R {
    GRAPHS.with_borrow_mut(|graphs| f(graphs.last_mut().expect("lanes of `Trace` exist inside `trace` only")))
}

#[inline(never)]
fn record(node: Node, args: &[u32], dtype: DType) -> u32 {
    let mut all = [0; 3];
    all[..args.len()].copy_from_slice(args);
    with_graph(|graph| graph.push(RowTrace { node, args: all, count: args.len() as u8, dtype }))
}

/// The types of an element in memory and in computation, which a traced load or store needs.
#[derive(Clone, Copy)]
pub(crate) struct Storage {
    pub(crate) stored: DType,
    pub(crate) computed: DType,
    /// The name of an element that the types of nodes do not describe completely.
    pub(crate) foreign: Option<fn() -> &'static str>,
}

impl Storage {
    /// An element that is stored in its compute type.
    pub(crate) const fn plain(dtype: DType) -> Storage {
        Storage { stored: dtype, computed: dtype, foreign: None }
    }
    fn note(&self) {
        if let Some(name) = self.foreign {
            with_graph(|graph| graph.foreign = Some(name()));
        }
    }
}

fn widened(id: u32, storage: &Storage) -> u32 {
    if storage.stored == storage.computed { id } else { record(Node::Cast, &[id], storage.computed) }
}

/// Records the load of operand `index`.
#[inline(never)]
pub(crate) fn input(index: usize, storage: &Storage) -> u32 {
    storage.note();
    widened(record(Node::Input { index }, &[], storage.stored), storage)
}

/// Records the use of argument `index` of the graph.
#[inline(never)]
pub(crate) fn given(index: usize, dtype: DType) -> u32 {
    record(Node::Given { index }, &[], dtype)
}

/// The index of the definition of `F` in the running trace, which adds the definition if it is new.
#[inline(never)]
fn defined<F: Function<N>, P: Real, const N: usize>() -> usize {
    define(TypeId::of::<F>(), F::NAME, P::DTYPE, N, value_of::<F, P, N>, fast_of::<F, P, N>)
}

/// The arguments of a function.
fn arguments<P: Real, const N: usize>() -> [Lane<Trace, P>; N] {
    let mut all = [Lane(0); N];
    let mut index = 0;
    while index < N {
        all[index] = Lane(given(index, P::DTYPE));
        index += 1;
    }
    all
}

fn value_of<F: Function<N>, P: Real, const N: usize>() {
    store(F::value::<Trace, P>(arguments()).0, P::DTYPE);
}

fn fast_of<F: Function<N>, P: Real, const N: usize>() {
    let (value, doubt) = F::fast::<Trace, P>(arguments());
    store(value.0, P::DTYPE);
    store(doubt.0, DType::Bool);
}

/// Records the next store of a value, without a conversion.
#[inline(never)]
pub(crate) fn store(id: u32, dtype: DType) {
    output(id, &Storage::plain(dtype));
}

#[inline(never)]
fn define(
    function: TypeId,
    name: &'static str,
    dtype: DType,
    arguments: usize,
    value: fn(),
    fast: fn(),
) -> usize {
    let known = |graph: &Graph| {
        graph.definitions.iter().position(|known| known.function == function && known.dtype == dtype)
    };
    if let Some(number) = with_graph(|graph| known(graph)) {
        return number;
    }
    // The functions that this one uses are numbered in the enclosing graph, so their definitions are added
    // before it.
    let mut definitions = with_graph(|graph| std::mem::take(&mut graph.definitions));
    let mut within = |body: fn()| {
        let mut graph = recorded(&mut || {
            with_graph(|graph| graph.definitions = std::mem::take(&mut definitions));
            body();
        });
        definitions = std::mem::take(&mut graph.definitions);
        graph
    };
    let value = within(value);
    let fast = within(fast);
    // A fast path that covers every argument is the value itself.
    let doubt = fast.outputs().nth(1).and_then(|(_, id)| fast.nodes().nth(id as usize));
    let is_certain = matches!(doubt, None | Some((Node::Literal(_), ..)));
    with_graph(|graph| {
        graph.definitions = definitions;
        graph.refused = graph.refused.max(value.refused).max(fast.refused);
        if graph.definitions.try_reserve(1).is_err() {
            return graph.refuse::<Definition>(graph.definitions.len() + 1) as usize;
        }
        let fast = (!is_certain).then_some(fast);
        graph.definitions.push(Definition { name, dtype, arguments, value, fast, function });
        graph.definitions.len() - 1
    })
}

/// Records the next run-time number.
#[inline(never)]
pub(crate) fn param(storage: &Storage) -> u32 {
    storage.note();
    let index = with_graph(|graph| {
        graph.params += 1;
        graph.params - 1
    });
    widened(record(Node::Param { index }, &[], storage.stored), storage)
}

/// Records the next store.
#[inline(never)]
pub(crate) fn output(value: u32, storage: &Storage) {
    storage.note();
    let index = with_graph(|graph| {
        graph.outputs += 1;
        graph.outputs - 1
    });
    record(Node::Output { index }, &[value], storage.stored);
}

/// The interpretation that records a graph. It can be used inside a running trace only.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::{kernel::trace_op, ops};
/// let graph = trace_op::<ops::Relu, (f32,)>()?;
/// let expected = "%0: f32 = input 0\n%1: f32 = 0.0\n%2: bool = Le %0 %1\n\
///     %3: f32 = Select %2 %1 %0\n%4: f32 = output 0 %3\n";
/// assert_eq!(graph.to_string(), expected);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Trace;

/// The steps, each a call to a function that records it: a body is compiled for every type and operator, so
/// its code should be short.
mod steps {
    use super::{Arith, Compare, DType, Logic, MinMaxRem, Node, Part, Shift, Unary, record};

    #[inline(never)]
    pub(super) fn literal(bytes: &[u8], dtype: DType) -> u32 {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        record(Node::Literal(all), &[], dtype)
    }
    #[inline(never)]
    pub(super) fn function(name: &'static str, number: usize, x: &[u32], dtype: DType) -> u32 {
        record(Node::Function(name, number), x, dtype)
    }
    macro_rules! steps {
        ($($name:ident($($kind:ident: $Kind:ty,)? [$($x:ident),+]) = $node:expr;)*) => { $(
            #[inline(never)]
            pub(super) fn $name($($kind: $Kind,)? $($x: u32,)+ dtype: DType) -> u32 {
                record($node, &[$($x),+], dtype)
            }
        )* };
    }
    steps! {
        arith(op: Arith, [a, b]) = Node::Arith(op);
        negate([a]) = Node::Negate;
        order(op: MinMaxRem, [a, b]) = Node::Order(op);
        compare(op: Compare, [a, b]) = Node::Compare(op);
        equal([a, b]) = Node::Equal;
        logic(op: Logic, [a, b]) = Node::Logic(op);
        unary(op: Unary, [a]) = Node::Unary(op);
        mul_add([a, b, c]) = Node::MulAdd;
        select([mask, a, b]) = Node::Select;
        cast([a]) = Node::Cast;
        to_bits([a]) = Node::ToBits;
        from_bits([a]) = Node::FromBits;
        part(part: Part, [a]) = Node::Part(part);
        complex([re, im]) = Node::Complex;
    }
    #[inline(never)]
    pub(super) fn shift(op: Shift, by: u32, a: u32, dtype: DType) -> u32 {
        record(Node::Shift(op, by), &[a], dtype)
    }
}

#[rustfmt::skip] // one line a step
impl Lanes for Trace {
    type Raw<P: Prim> = u32;
    #[inline(always)]
    fn literal<P: Prim>(value: P) -> u32 { steps::literal(bytemuck::bytes_of(&value), P::DTYPE) }
    #[inline(always)]
    fn arith<P: Num>(op: Arith, a: u32, b: u32) -> u32 { steps::arith(op, a, b, P::DTYPE) }
    #[inline(always)]
    fn negate<P: Num>(a: u32) -> u32 { steps::negate(a, P::DTYPE) }
    #[inline(always)]
    fn order<P: Ordered>(op: MinMaxRem, a: u32, b: u32) -> u32 { steps::order(op, a, b, P::DTYPE) }
    #[inline(always)]
    fn compare<P: Ordered>(op: Compare, a: u32, b: u32) -> u32 { steps::compare(op, a, b, DType::Bool) }
    #[inline(always)]
    fn equal<P: Prim>(a: u32, b: u32) -> u32 { steps::equal(a, b, DType::Bool) }
    #[inline(always)]
    fn logic<P: Bits>(op: Logic, a: u32, b: u32) -> u32 { steps::logic(op, a, b, P::DTYPE) }
    #[inline(always)]
    fn shift<P: IntegerPrim>(op: Shift, a: u32, by: u32) -> u32 { steps::shift(op, by, a, P::DTYPE) }
    #[inline(always)]
    fn unary<P: Real>(op: Unary, a: u32) -> u32 { steps::unary(op, a, P::DTYPE) }
    #[inline(always)]
    fn mul_add<P: Real>(a: u32, b: u32, c: u32) -> u32 { steps::mul_add(a, b, c, P::DTYPE) }
    #[inline(always)]
    fn select<P: Prim>(mask: u32, a: u32, b: u32) -> u32 { steps::select(mask, a, b, P::DTYPE) }
    #[inline(always)]
    fn cast<P: Prim, U: Prim>(a: u32) -> u32 { if P::DTYPE == U::DTYPE { a } else {
        steps::cast(a, U::DTYPE) }
    }
    #[inline(always)]
    fn to_bits<P: Real>(a: u32) -> u32 { steps::to_bits(a, <P::Bits as Prim>::DTYPE) }
    #[inline(always)]
    fn from_bits<P: Real>(a: u32) -> u32 { steps::from_bits(a, P::DTYPE) }
    #[inline(always)]
    fn part<P: ComplexPrim>(part: Part, a: u32) -> u32 { steps::part(part, a, <P::Part as Prim>::DTYPE) }
    #[inline(always)]
    fn complex<P: ComplexPrim>(re: u32, im: u32) -> u32 { steps::complex(re, im, P::DTYPE) }
    #[inline(always)]
    fn function<F: Function<N>, P: Real, const N: usize>(x: [u32; N]) -> u32 {
        steps::function(F::NAME, defined::<F, P, N>(), &x, P::DTYPE)
    }
}
