//! Programs element by element: what each thread loads, computes and stores.
//!
//! Axes are merged first. A thread takes a few neighbours along the fastest axis: an operand that is contiguous there is
//! read or written as one access of up to 16 bytes, one that does not change there is read once, any other element by
//! element. All inputs are read before an output is written, so an output may be an input.
//! Imports: `error`, `scalar`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Signature, Source, c_type};
use super::geometry::{Axes, Place};
use super::tiles;
use crate::device::{Inputs, Slot};
use crate::error::Result;
use crate::kernel::{Program, numbers, trace_program};
use crate::scalar::{DType, Graph};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;

/// How an operand is reached along the fastest axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inner {
    Constant,
    Contiguous,
    Strided,
}

impl Inner {
    pub(super) fn of(step: isize) -> Inner {
        match step {
            0 => Inner::Constant,
            1 => Inner::Contiguous,
            _ => Inner::Strided,
        }
    }
}

/// The most neighbours that one access can take: whole 16 bytes at most, on addresses that allow it.
pub(super) fn neighbours(axes: &Axes, slots: &[Slot<'_>]) -> usize {
    let widest = slots.iter().map(|slot| slot.element).max().unwrap_or(16).max(1);
    let mut most = (16 / widest).max(1);
    let inner = axes.sizes.last().copied().unwrap_or(1);
    let fits = |most: usize| {
        let whole_rows = axes.rank() <= 1 || inner.is_multiple_of(most);
        whole_rows
            && slots.iter().enumerate().filter(|&(k, _)| axes.inner_step(k) == 1).all(|(k, slot)| {
                let outer = &axes.strides[k][..axes.rank() - 1];
                slot.address.addr().is_multiple_of(most * slot.element) && outer.iter().all(|step| step % most as isize == 0)
            })
    };
    while most > 1 && (inner < most || !fits(most)) {
        most /= 2;
    }
    most
}

/// Outputs first, then inputs.
pub(super) fn together<'a>(outputs: &[Slot<'a>], inputs: &[Slot<'a>]) -> Vec<Slot<'a>> {
    outputs.iter().chain(inputs).copied().collect()
}

/// The words of run-time numbers.
pub(super) fn words_of(numbers: &[[u8; 16]]) -> impl Iterator<Item = i64> + '_ {
    numbers.iter().flat_map(|bytes| [0, 8].map(|at| i64::from_ne_bytes(std::array::from_fn(|k| bytes[at + k]))))
}

impl Context {
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map), for a program that is not settled by rows.
    pub(super) unsafe fn map<P: Program>(
        self: &Arc<Self>,
        program: &P,
        sizes: &[usize],
        outputs: &[Slot<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let slots = together(outputs, inputs.slots);
        let class: Vec<u32> = inputs.reads.iter().map(|&read| u32::from(read)).collect();
        let graph = || trace_program(program, inputs.reads).graph;
        // SAFETY: the caller's promise.
        unsafe { self.elementwise([TypeId::of::<P>(); 2], class, &graph, numbers(program), sizes, outputs.len(), &slots) }
    }

    /// Runs a graph once for every index inside `sizes`; `types` and `class` say all of it.
    ///
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map).
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn elementwise(
        self: &Arc<Self>,
        types: [TypeId; 2],
        mut class: Vec<u32>,
        graph: &dyn Fn() -> Graph,
        numbers: Vec<[u8; 16]>,
        sizes: &[usize],
        outputs: usize,
        slots: &[Slot<'_>],
    ) -> Result<()> {
        let mut axes = Axes::of(sizes, slots, true);
        let numel = axes.numel();
        if sizes.contains(&0) {
            return Ok(());
        }
        if axes.rank() == 0 {
            axes.sizes.push(1);
            axes.strides.iter_mut().for_each(|steps| steps.push(1));
        }
        if let Some(turned) = tiles::crosswise(&axes, slots, outputs) {
            // SAFETY: the caller's promise.
            return unsafe { self.tiles(types, class, graph, &numbers, axes, outputs, slots, turned) };
        }
        let (count, wide) = (neighbours(&axes, slots), axes.is_wide());
        let inner: Vec<_> = (0..slots.len()).map(|k| Inner::of(axes.inner_step(k))).collect();
        let place = Place { word: 1 + slots.len(), rank: axes.rank(), operands: slots.len() };
        class.push(u32::MAX);
        class.extend([count, axes.rank(), usize::from(wide), outputs].map(|n| n as u32));
        class.extend(inner.iter().map(|&inner| inner as u32));
        let key = Key { mechanism: "map", types, class };
        let kernel = self.kernel(key, || source(&graph(), outputs, &inner, count, wide, place))?;
        let chunks = if axes.rank() == 1 { numel.div_ceil(count) } else { numel / count };
        let mut words = vec![chunks as i64];
        words.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        words.extend(axes.words());
        words.extend(words_of(&numbers));
        let shape = Shape { blocks: (count_of(chunks.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("map", kernel, shape, &words) }
    }
}

/// The head of every kernel: its words, behind those of [the launch], and the type of positions.
pub(super) fn head(source: &mut Source, words: usize, wide: bool) {
    source.line(format_args!("typedef {} idx;\nstruct Args {{ i64 begun, operation, v[{words}]; }};", if wide { "i64" } else { "i32" }));
}

/// The words after sizes and strides that run-time numbers take.
pub(super) fn number_words(graph: &Graph) -> usize {
    2 * graph.params()
}

fn source(graph: &Graph, outputs: usize, inner: &[Inner], count: usize, wide: bool, place: Place) -> String {
    let mut s = Source::new();
    head(&mut s, place.end() + number_words(graph), wide);
    let signature = s.function("body", graph, place.end());
    let types = operands(&signature, outputs, inner.len());
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  const idx chunk = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if (chunk >= (idx)a.v[0]) return;"));
    let names: Vec<_> = (0..inner.len()).map(|k| format!("o{k}")).collect();
    for name in &names {
        s.line(format_args!("  idx {name} = 0;"));
    }
    // A row of chunks stands for the fastest axis.
    let last = place.rank - 1;
    let in_row = if last > 0 { "chunk % row" } else { "chunk" };
    s.line(format_args!("  const idx row = {} / {count}, c = ({in_row}) * {count};", place.size(last)));
    for (k, name) in names.iter().enumerate() {
        s.line(format_args!("  {name} += c * {};", place.step(last, k)));
    }
    if last > 0 {
        place.offsets_before(last, &mut s, "chunk / row", &names);
    }
    for (k, dtype) in types.iter().enumerate() {
        let Some(dtype) = dtype else { continue };
        let (c, constant) = (c_type(*dtype), if k < outputs { "" } else { "const " });
        s.line(format_args!("  {constant}{c}* const p{k} = ({constant}{c}*)a.v[{}] + o{k};", 1 + k));
    }
    let element = |s: &mut Source, at: &str| {
        let x = |k: usize| match inner[outputs + k] {
            Inner::Constant => format!("*p{}", outputs + k),
            Inner::Contiguous => format!("p{}[{at}]", outputs + k),
            Inner::Strided => format!("p{}[{at} * {}]", outputs + k, place.step(last, outputs + k)),
        };
        for (index, dtype) in signature.outputs.iter().enumerate() {
            s.line(format_args!("    {} y{index};", c_type(*dtype)));
        }
        s.line(format_args!("    body({});", arguments(&signature, &x, &|index| format!("y{index}"))));
        for index in 0..outputs {
            s.line(format_args!("    p{index}[{at} * {}] = y{index};", place.step(last, index)));
        }
    };
    if count == 1 {
        s.line(format_args!("  {{"));
        element(&mut s, "0");
        s.line(format_args!("  }}\n}}"));
        return s.text();
    }
    s.line(format_args!("  if (c + {count} <= {}) {{", place.size(last)));
    for (&index, &dtype) in &signature.inputs {
        let (k, c) = (outputs + index, c_type(dtype));
        match inner[k] {
            Inner::Constant => s.line(format_args!("    const {c} x{index} = *p{k};")),
            Inner::Contiguous => s.line(format_args!("    {c} x{index}[{count}]; load<{c}, {count}>(x{index}, p{k});")),
            Inner::Strided => {
                s.line(format_args!(
                    "    {c} x{index}[{count}];\n#pragma unroll\n    for (int j = 0; j < {count}; j++) x{index}[j] = p{k}[j * {}];",
                    place.step(last, k)
                ));
            }
        }
    }
    for (index, dtype) in signature.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index}[{count}];", c_type(*dtype)));
    }
    s.line(format_args!("#pragma unroll\n    for (int j = 0; j < {count}; j++) {{"));
    let x = |index: usize| if inner[outputs + index] == Inner::Constant { format!("x{index}") } else { format!("x{index}[j]") };
    s.line(format_args!("      body({});\n    }}", arguments(&signature, &x, &|index| format!("y{index}[j]"))));
    for (index, dtype) in signature.outputs.iter().enumerate() {
        let c = c_type(*dtype);
        if inner[index] == Inner::Contiguous {
            s.line(format_args!("    store<{c}, {count}>(p{index}, y{index});"));
        } else {
            s.line(format_args!(
                "#pragma unroll\n    for (int j = 0; j < {count}; j++) p{index}[j * {}] = y{index}[j];",
                place.step(last, index)
            ));
        }
    }
    // Only a single axis may end within a chunk.
    s.line(format_args!("  }} else for (idx j = 0; c + j < {}; j++) {{", place.size(last)));
    element(&mut s, "j");
    s.line(format_args!("  }}\n}}"));
    s.text()
}

/// The arguments of a graph's function.
pub(super) fn arguments(signature: &Signature, x: &dyn Fn(usize) -> String, y: &dyn Fn(usize) -> String) -> String {
    let mut all = vec!["a".to_string()];
    all.extend(signature.inputs.keys().map(|&index| x(index)));
    all.extend(signature.given.keys().map(|&index| format!("g{index}")));
    all.extend((0..signature.outputs.len()).map(y));
    all.join(", ")
}

/// The types of operands in memory, outputs first; none of one that is not read.
pub(super) fn operands(signature: &Signature, outputs: usize, count: usize) -> Vec<Option<DType>> {
    let input = |k: usize| signature.inputs.get(&k).copied();
    (0..count).map(|k| if k < outputs { signature.outputs.get(k).copied() } else { input(k - outputs) }).collect()
}
