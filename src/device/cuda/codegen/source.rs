//! From graphs to CUDA C++: a function for each graph, a line for each node that is used.
//!
//! Every step is a call of an overloaded function of `prelude.cuh`; no operator is known by name.
// Imports: `error`, `scalar`, `element`, `kernel`.

use crate::device::cuda::stream::queue::{Kernel, Key, Stream};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Accumulator, LaneVisitor, Reducer, ReducerIr};
use crate::scalar::{DType, Eval, Graph, Lane, Node, Prim};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// What generated kernels begin with.
pub(in crate::device::cuda) const PRELUDE: &str = include_str!("prelude.cuh");

impl Stream {
    /// As [`Stream::kernel`], of a source that may be refused.
    pub(in crate::device::cuda) fn generated(&self, key: Key, source: impl FnOnce() -> Result<String>) -> Result<Kernel> {
        let mut refused = None;
        let source = || {
            source().unwrap_or_else(|error| {
                refused = Some(error);
                "#error refused".to_string()
            })
        };
        let kernel = self.kernel(key, source);
        refused.map_or(kernel, Err)
    }
}

/// Refuses elements that kernels cannot compute with: those that their name in C++ does not say whole.
pub(in crate::device::cuda) fn plain(op: &'static str, foreign: Option<&'static str>) -> Result<()> {
    let what = |name| {
        text(format_args!(
            "a card cannot compute with `{name}`, which has conversions of its own (it is not `PLAIN`)"
        ))
    };
    foreign.map_or(Ok(()), |name| Err(Error::Value { op, what: what(name) }))
}

/// The name of an element that is not plain.
pub(in crate::device::cuda) fn foreign<T: Element>() -> Option<&'static str> {
    if T::PLAIN { None } else { Some(std::any::type_name::<T>()) }
}

/// The type in C++.
pub(crate) fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 | DType::QI8 => "i8",
        DType::I16 => "i16",
        DType::I32 | DType::QI32 => "i32",
        DType::I64 => "i64",
        DType::U8 | DType::QU8 => "u8",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::F8E4M3 => "f8e4m3",
        DType::F8E5M2 => "f8e5m2",
        DType::C16 => "c16",
        DType::C32 => "c32",
        DType::C64 => "c64",
    }
}

/// Bytes of a value, and its alignment in C++.
pub(in crate::device::cuda) fn c_size(dtype: DType) -> (usize, usize) {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 | DType::QI8 | DType::QU8 | DType::F8E4M3 | DType::F8E5M2 => {
            (1, 1)
        }
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => (2, 2),
        DType::I32 | DType::U32 | DType::F32 | DType::QI32 => (4, 4),
        DType::C16 => (4, 2),
        DType::I64 | DType::U64 | DType::F64 => (8, 8),
        DType::C32 => (8, 4),
        DType::C64 => (16, 8),
    }
}

/// A number of a body, bit by bit.
fn literal(bytes: [u8; 16], dtype: DType) -> String {
    let word = |at: usize, n: usize| {
        bytes[at..at + n].iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte))
    };
    let f32_at = |at| format!("FromBits((u32)0x{:08x}u)", word(at, 4));
    let f64_at = |at| format!("FromBits((u64)0x{:016x}ull)", word(at, 8));
    match dtype {
        DType::Bool => (bytes[0] != 0).to_string(),
        DType::F32 => f32_at(0),
        DType::F64 => f64_at(0),
        DType::C32 => format!("Complex({}, {})", f32_at(0), f32_at(4)),
        DType::C64 => format!("Complex({}, {})", f64_at(0), f64_at(8)),
        DType::F8E4M3 | DType::F8E5M2 => format!("{}{{(u8)0x{:02x}}}", c_type(dtype), bytes[0]),
        DType::C16 => format!("c16{{(u16)0x{:04x}, (u16)0x{:04x}}}", word(0, 2), word(2, 2)),
        DType::F16 | DType::BF16 => format!("{}{{(u16)0x{:04x}}}", c_type(dtype), word(0, 2)),
        whole => format!("({})0x{:x}ull", c_type(whole), word(0, c_size(whole).0)),
    }
}

/// CUDA C++ as it grows.
#[derive(Default)]
pub(in crate::device::cuda) struct Source(String);

impl Source {
    /// Begins with the prelude.
    pub(in crate::device::cuda) fn new() -> Self {
        Source(PRELUDE.to_string())
    }
    /// Adds a line.
    pub(in crate::device::cuda) fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a `String` does not fail.
        let _ = writeln!(self.0, "{line}");
    }
    pub(in crate::device::cuda) fn text(self) -> String {
        self.0
    }

    /// Adds the function `name` of a graph: the arguments `a` (for run-time numbers, which stand from word `numbers` on),
    /// inputs `x0…`, values from outside `g0…`, and outputs `y0…` by reference. Says what it takes.
    pub(in crate::device::cuda) fn function(&mut self, name: &str, graph: &Graph, numbers: usize) -> Signature {
        for (number, definition) in graph.definitions().iter().enumerate() {
            let function = format!("{name}_f{number}");
            let c = c_type(definition.dtype);
            let arguments: Vec<_> =
                (0..definition.arguments).map(|index| format!("const {c} g{index}")).collect();
            self.line(format_args!("DI {c} {function}_{}({}) {{", definition.name, arguments.join(", ")));
            self.statements(name, &definition.value, 0);
            for (_, value) in definition.value.outputs() {
                self.line(format_args!("  return t{value};"));
            }
            self.line(format_args!("}}"));
        }
        let signature = Signature::of(graph);
        let mut arguments = vec!["const Args& a".to_string()];
        arguments.extend(
            signature.inputs.iter().map(|(index, dtype)| format!("const {} x{index}", c_type(*dtype))),
        );
        arguments.extend(
            signature.given.iter().map(|(index, dtype)| format!("const {} g{index}", c_type(*dtype))),
        );
        arguments.extend(
            signature
                .outputs
                .iter()
                .enumerate()
                .map(|(index, dtype)| format!("{}& y{index}", c_type(*dtype))),
        );
        self.line(format_args!("DI void {name}({}) {{", arguments.join(", ")));
        self.statements(name, graph, numbers);
        for (index, (dtype, value)) in graph.outputs().enumerate() {
            self.line(format_args!("  y{index} = cast<{}>(t{value});", c_type(dtype)));
        }
        self.line(format_args!("}}"));
        signature
    }

    fn statements(&mut self, name: &str, graph: &Graph, numbers: usize) {
        let nodes: Vec<_> = graph.nodes().collect();
        for id in live(graph) {
            let (node, args, dtype) = nodes[id];
            let t = |k: usize| format!("t{}", args[k]);
            let call = |function: &str| {
                let args: Vec<_> = args.iter().map(|arg| format!("t{arg}")).collect();
                format!("{function}({})", args.join(", "))
            };
            let value = match node {
                Node::Input { index } => format!("x{index}"),
                Node::Given { index } => format!("g{index}"),
                Node::Param { index } => {
                    let word = numbers + 2 * index;
                    format!("number<{}>(a.v[{word}], a.v[{}])", c_type(dtype), word + 1)
                }
                Node::Literal(bytes) => literal(bytes, dtype),
                Node::Arith(step) => call(&format!("{step:?}")),
                Node::Order(step) => call(&format!("{step:?}")),
                Node::Compare(step) => call(&format!("{step:?}")),
                Node::Logic(step) => call(&format!("{step:?}")),
                Node::Unary(step) => call(&format!("{step:?}")),
                Node::Part(part) => call(&format!("{part:?}")),
                Node::Shift(step, by) => format!("{step:?}({}, {by}u)", t(0)),
                Node::Select => format!("{} ? {} : {}", t(0), t(1), t(2)),
                Node::Cast => call(&format!("cast<{}>", c_type(dtype))),
                Node::Function(function, number) => call(&format!("{name}_f{number}_{function}")),
                Node::Output { .. } => continue,
                step => call(&format!("{step:?}")),
            };
            self.line(format_args!("  const {} t{id} = {value};", c_type(dtype)));
        }
    }

    /// Adds the type `{prefix}State` and the functions `{prefix}identity`, `accumulate`, `combine` and `finalize` of a reduction
    /// of values of type `value`. Says the type of what it gives.
    pub(in crate::device::cuda) fn reducer(&mut self, prefix: &str, reducer: &ReducerIr, value: DType) -> DType {
        let count = reducer.state.len();
        let fields: Vec<_> =
            reducer.state.iter().enumerate().map(|(k, dtype)| format!("{} s{k};", c_type(*dtype))).collect();
        self.line(format_args!("struct {prefix}State {{ {} }};", fields.join(" ")));
        let state = format!("{prefix}State");
        let stores = |s: &mut Source, call: &str, signature: &Signature, from: &dyn Fn(usize) -> String| {
            let mut arguments = vec!["a".to_string()];
            arguments.extend(signature.given.keys().map(|&index| from(index)));
            arguments.extend((0..count).map(|k| format!("s.s{k}")));
            s.line(format_args!("  {state} s; {prefix}{call}_of({}); return s; }}", arguments.join(", ")));
        };
        let signature = self.function(&format!("{prefix}identity_of"), &reducer.identity, 0);
        self.line(format_args!("DI {state} {prefix}identity(const Args& a) {{"));
        stores(self, "identity", &signature, &|_| String::new());
        let signature = self.function(&format!("{prefix}absorb_of"), &reducer.accumulate, 0);
        self.line(format_args!(
            "DI {state} {prefix}accumulate(const Args& a, const {state} g, const {} x, const i64 at) {{",
            c_type(value)
        ));
        let of_one = |index: usize| {
            if index < count { format!("g.s{index}") } else { ["x", "at"][index - count].to_string() }
        };
        stores(self, "accumulate", &signature, &of_one);
        let signature = self.function(&format!("{prefix}combine_of"), &reducer.combine, 0);
        self.line(format_args!(
            "DI {state} {prefix}combine(const Args& a, const {state} g, const {state} h) {{"
        ));
        stores(self, "combine", &signature, &|index| {
            if index < count { format!("g.s{index}") } else { format!("h.s{}", index - count) }
        });
        let signature = self.function(&format!("{prefix}finish_of"), &reducer.finalize, 0);
        let out = signature.outputs[0];
        self.line(format_args!(
            "DI {} {prefix}finalize(const Args& a, const {state} g, const i64 count) {{",
            c_type(out)
        ));
        let mut arguments = vec!["a".to_string()];
        arguments.extend(
            signature
                .given
                .keys()
                .map(|&index| if index < count { format!("g.s{index}") } else { "count".to_string() }),
        );
        arguments.push("y".to_string());
        self.line(format_args!(
            "  {} y; {prefix}finish_of({}); return y; }}",
            c_type(out),
            arguments.join(", ")
        ));
        out
    }
}

/// What the function of a graph takes and gives: by number, with types.
#[derive(Clone, Default, Debug)]
pub(in crate::device::cuda) struct Signature {
    pub(in crate::device::cuda) inputs: BTreeMap<usize, DType>,
    pub(in crate::device::cuda) given: BTreeMap<usize, DType>,
    pub(in crate::device::cuda) outputs: Vec<DType>,
}

impl Signature {
    pub(in crate::device::cuda) fn of(graph: &Graph) -> Signature {
        let mut signature = Signature::default();
        let nodes: Vec<_> = graph.nodes().collect();
        for id in live(graph) {
            match nodes[id] {
                (Node::Input { index }, _, dtype) => signature.inputs.insert(index, dtype),
                (Node::Given { index }, _, dtype) => signature.given.insert(index, dtype),
                _ => None,
            };
        }
        signature.outputs = graph.outputs().map(|(dtype, _)| dtype).collect();
        signature
    }
}

/// The nodes that outputs depend on, in order; of an argument of a function, all.
fn live(graph: &Graph) -> Vec<usize> {
    let nodes: Vec<_> = graph.nodes().collect();
    let mut used = vec![false; nodes.len()];
    for id in (0..nodes.len()).rev() {
        let (node, args, _) = nodes[id];
        if matches!(node, Node::Output { .. }) {
            used[id] = true;
        }
        if used[id] {
            args.iter().for_each(|&arg| used[arg as usize] = true);
        }
    }
    (0..nodes.len()).filter(|&id| used[id]).collect()
}

/// What the threads of a block share at most, in bytes, without asking for more.
const SHARED: usize = 48 << 10;

/// [`Error::Value`] where so many threads cannot share a state each.
pub(in crate::device::cuda) fn shares(op: &'static str, threads: usize, state: usize) -> Result<()> {
    if threads * state <= SHARED {
        return Ok(());
    }
    let what = text(format_args!(
        "a state of {state} bytes: {threads} threads share {SHARED} bytes of a card, {} for each",
        SHARED / threads
    ));
    Err(Error::Value { op, what })
}

/// Bytes of fields one behind the other, as the compiler of C++ lays them out.
pub(in crate::device::cuda) fn size_of_fields(dtypes: &[DType]) -> usize {
    let (mut end, mut widest) = (0usize, 1);
    for &dtype in dtypes {
        let (size, alignment) = c_size(dtype);
        (end, widest) = (end.next_multiple_of(alignment) + size, widest.max(alignment));
    }
    end.next_multiple_of(widest).max(1)
}

/// Bytes of one state in memory, as the compiler of C++ lays it out.
pub(in crate::device::cuda) fn state_size<T: Element, R: Reducer<T>>() -> usize {
    /// Where the next field may begin, and the widest alignment so far.
    struct Fields(usize, usize);
    impl LaneVisitor<Eval> for Fields {
        fn lane<P: Prim>(&mut self, lane: Lane<Eval, P>) -> Lane<Eval, P> {
            let (size, alignment) = c_size(P::DTYPE);
            self.0 = self.0.next_multiple_of(alignment) + size;
            self.1 = self.1.max(alignment);
            lane
        }
    }
    let mut fields = Fields(0, 1);
    R::identity::<Eval>().each(&mut fields);
    fields.0.next_multiple_of(fields.1).max(1)
}
