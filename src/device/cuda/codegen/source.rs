//! From graphs to CUDA C++: one function for each graph, one line for each used node.
//!
//! Every step is a call of an overloaded function of `prelude.cuh`. The source contains no operator by name.
// Imports: `scalar`, `kernel`.

use crate::device::cuda::codegen::types::{c_type, literal};
use crate::kernel::ReducerIr;
use crate::scalar::{DType, Definition, Graph, Node};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The text at the beginning of every generated source.
pub(in crate::device::cuda) const PRELUDE: &str = include_str!("prelude.cuh");

/// The text of a CUDA C++ source, written line by line.
#[derive(Default)]
pub(in crate::device::cuda) struct SourceWriter(String);

impl SourceWriter {
    /// A source that begins with the prelude.
    pub(in crate::device::cuda) fn new() -> Self {
        SourceWriter(PRELUDE.to_string())
    }

    /// Adds a line.
    pub(in crate::device::cuda) fn line(&mut self, line: fmt::Arguments<'_>) {
        // A write to a `String` does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// The whole text.
    pub(in crate::device::cuda) fn text(self) -> String {
        self.0
    }

    /// Adds the function `name` of a graph, and returns its signature. Its parameters are the argument block
    /// `a` (the run-time parameters begin at word `params`), inputs `x0…`, given values `g0…`, and outputs
    /// `y0…` by reference.
    pub(in crate::device::cuda) fn function(
        &mut self,
        name: &str,
        graph: &Graph,
        params: usize,
    ) -> Signature {
        for (number, definition) in graph.definitions().iter().enumerate() {
            self.definition(name, number, definition);
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
        self.statements(name, graph, params);
        for (index, (dtype, value)) in graph.outputs().enumerate() {
            self.line(format_args!("  y{index} = cast<{}>(t{value});", c_type(dtype)));
        }
        self.line(format_args!("}}"));
        signature
    }

    /// Adds a named function that a graph uses. A fast path that is much shorter comes first; the full form,
    /// which has the same result where the fast path holds, is then a function of its own, called for
    /// arguments in doubt.
    fn definition(&mut self, name: &str, number: usize, definition: &Definition) {
        let (c, function) = (c_type(definition.dtype), format!("{name}_f{number}_{}", definition.name));
        let given: Vec<_> = (0..definition.arguments).map(|index| format!("g{index}")).collect();
        let declared: Vec<_> = given.iter().map(|g| format!("const {c} {g}")).collect();
        let (declared, given) = (declared.join(", "), given.join(", "));
        // The check of a doubt costs a few instructions.
        let fast = definition.fast.as_ref().filter(|fast| 4 * fast.len() < 3 * definition.value.len());
        let (qualifier, suffix) = if fast.is_some() { ("DI_RARE", "_full") } else { ("DI", "") };
        self.line(format_args!("{qualifier} {c} {function}{suffix}({declared}) {{"));
        self.statements(name, &definition.value, 0);
        definition.value.outputs().for_each(|(_, value)| self.line(format_args!("  return t{value};")));
        self.line(format_args!("}}"));
        if let Some(fast) = fast
            && let [(_, value), (_, doubt)] = fast.outputs().collect::<Vec<_>>()[..]
        {
            self.line(format_args!("DI {c} {function}({declared}) {{"));
            self.statements(name, fast, 0);
            self.line(format_args!("  return t{doubt} ? {function}_full({given}) : t{value};\n}}"));
        }
    }

    /// Adds a constant `t{id}` for each used node.
    fn statements(&mut self, name: &str, graph: &Graph, params: usize) {
        let nodes: Vec<_> = graph.nodes().collect();
        for id in used_nodes(graph) {
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
                    let word = params + 2 * index;
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

    /// Adds the type `{prefix}State` and the functions `{prefix}identity`, `{prefix}accumulate`,
    /// `{prefix}combine` and `{prefix}finalize` of a reducer of values of type `value`. Returns the type of
    /// its results.
    pub(in crate::device::cuda) fn reducer(
        &mut self,
        prefix: &str,
        reducer: &ReducerIr,
        value: DType,
    ) -> DType {
        let count = reducer.state.len();
        let fields: Vec<_> =
            reducer.state.iter().enumerate().map(|(k, dtype)| format!("{} s{k};", c_type(*dtype))).collect();
        self.line(format_args!("struct {prefix}State {{ {} }};", fields.join(" ")));
        let state = format!("{prefix}State");
        let stores = |s: &mut SourceWriter,
                      call: &str,
                      signature: &Signature,
                      from: &dyn Fn(usize) -> String| {
            let mut arguments = vec!["a".to_string()];
            arguments.extend(signature.given.keys().map(|&index| from(index)));
            arguments.extend((0..count).map(|k| format!("s.s{k}")));
            s.line(format_args!("  {state} s; {prefix}{call}_of({}); return s; }}", arguments.join(", ")));
        };
        let signature = self.function(&format!("{prefix}identity_of"), &reducer.identity, 0);
        self.line(format_args!("DI {state} {prefix}identity(const Args& a) {{"));
        stores(self, "identity", &signature, &|_| String::new());
        let signature = self.function(&format!("{prefix}accumulate_of"), &reducer.accumulate, 0);
        self.line(format_args!(
            "DI {state} {prefix}accumulate(const Args& a, const {state} g, const {} x, const i64 at) {{",
            c_type(value)
        ));
        let from_value = |index: usize| {
            if index < count { format!("g.s{index}") } else { ["x", "at"][index - count].to_string() }
        };
        stores(self, "accumulate", &signature, &from_value);
        let signature = self.function(&format!("{prefix}combine_of"), &reducer.combine, 0);
        self.line(format_args!(
            "DI {state} {prefix}combine(const Args& a, const {state} g, const {state} h) {{"
        ));
        stores(self, "combine", &signature, &|index| {
            if index < count { format!("g.s{index}") } else { format!("h.s{}", index - count) }
        });
        let signature = self.function(&format!("{prefix}finalize_of"), &reducer.finalize, 0);
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
            "  {} y; {prefix}finalize_of({}); return y; }}",
            c_type(out),
            arguments.join(", ")
        ));
        out
    }
}

/// The parameters and results of a graph's function: types by index.
#[derive(Clone, Default, Debug)]
pub(in crate::device::cuda) struct Signature {
    pub(in crate::device::cuda) inputs: BTreeMap<usize, DType>,
    pub(in crate::device::cuda) given: BTreeMap<usize, DType>,
    pub(in crate::device::cuda) outputs: Vec<DType>,
}

impl Signature {
    /// The signature of a graph, of its used inputs only.
    pub(in crate::device::cuda) fn of(graph: &Graph) -> Signature {
        let mut signature = Signature::default();
        let nodes: Vec<_> = graph.nodes().collect();
        for id in used_nodes(graph) {
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

/// The nodes that the outputs depend on, in order.
fn used_nodes(graph: &Graph) -> Vec<usize> {
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
