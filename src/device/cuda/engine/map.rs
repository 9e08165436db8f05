//! Programs element by element: what each thread loads, computes and stores.
//!
//! Axes are merged first. Large operands are read a few neighbors at a time along the fastest axis: one that is
//! contiguous there as one access of up to 16 bytes, one that does not change there once, any other element by element.
//! One kernel serves all small operands, and large ones that stand otherwise: it takes an element a thread.
//! All inputs are read before an output is written, so an output may be an input.
// Imports: `error`, `scalar`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Signature, Source, c_type, plain};
use crate::device::cuda::codegen::args::{Axes, Place, Word, Words, is_wide, names};
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::cuda::engine::transpose_map as tiles;
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{Program, trace_program};
use crate::scalar::{DType, Graph};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// From this many elements on, the layout of the operands may choose a kernel of its own: for fewer, compiling it takes
/// longer than it ever saves.
pub(in crate::device::cuda) const LARGE: usize = 8192;

/// How an operand is reached along the fastest axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Inner {
    Constant,
    Contiguous,
    Strided,
}

impl Inner {
    fn of(step: isize) -> Inner {
        match step {
            0 => Inner::Constant,
            1 => Inner::Contiguous,
            _ => Inner::Strided,
        }
    }
}

/// The most neighbors that one access can take: whole 16 bytes at most, on addresses that allow it.
fn neighbors(axes: &Axes, slots: &[OperandRef<'_>]) -> usize {
    let widest = slots.iter().map(|slot| slot.element).max().unwrap_or(16).max(1);
    let mut most = (16 / widest).max(1);
    let inner = axes.sizes.last().copied().unwrap_or(1);
    let fits = |most: usize| {
        let whole_rows = axes.rank() <= 1 || inner.is_multiple_of(most);
        whole_rows
            && slots.iter().enumerate().filter(|&(k, _)| axes.inner_step(k) == 1).all(|(k, slot)| {
                let outer = &axes.strides[k][..axes.rank() - 1];
                slot.address.addr().is_multiple_of(most * slot.element)
                    && outer.iter().all(|step| step % most as isize == 0)
            })
    };
    while most > 1 && (axes.numel() < LARGE || inner < most || !fits(most)) {
        most /= 2;
    }
    most
}

/// Outputs first, then inputs.
pub(in crate::device::cuda) fn together<'a>(outputs: &[OperandRef<'a>], inputs: &[OperandRef<'a>]) -> Vec<OperandRef<'a>> {
    outputs.iter().chain(inputs).copied().collect()
}

/// What is run for each element: the types that name it, what they leave open, its graph and its numbers.
pub(in crate::device::cuda) struct Each<'a, P> {
    pub(in crate::device::cuda) types: [TypeId; 2],
    pub(in crate::device::cuda) class: &'a [u32],
    pub(in crate::device::cuda) graph: &'a dyn Fn() -> Graph,
    pub(in crate::device::cuda) program: &'a P,
}

/// The operand that each load reads, for a key.
pub(in crate::device::cuda) fn reads(inputs: Inputs<'_>) -> Vec<u32> {
    inputs.reads.iter().map(|&read| u32::from(read)).chain([u32::MAX]).collect()
}

impl Stream {
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map), for a program that is not settled by rows.
    pub(in crate::device::cuda) unsafe fn map<P: Program>(
        self: &Arc<Self>,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if sizes.contains(&0) {
            return Ok(());
        }
        let slots = together(outputs, inputs.slots);
        let graph = || trace_program(program, inputs.reads).graph;
        let each = Each { types: [TypeId::of::<P>(); 2], class: &reads(inputs), graph: &graph, program };
        let axes = Axes::of(sizes, &slots, true);
        if axes.numel() >= LARGE
            && let Some(turned) = tiles::crosswise(&axes, &slots, outputs.len())
        {
            // SAFETY: the caller's promise.
            return unsafe { self.tiles(&each, axes, outputs.len(), &slots, turned) };
        }
        let count = neighbors(&axes, &slots);
        let mut words = Words::new(is_wide(&[&axes], 0));
        words.class.extend_from_slice(each.class);
        words.depends([count, outputs.len(), slots.len()]);
        let operands = words.slots(&slots);
        // Some neighbors are one position.
        let (mut chunks, inner) = (axes.clone(), axes.clone().pop());
        if count > 1 {
            chunks.sizes.iter_mut().rev().take(1).for_each(|size| *size = size.div_ceil(count));
            chunks
                .strides
                .iter_mut()
                .flat_map(|steps| steps.last_mut())
                .for_each(|step| *step = step.wrapping_mul(count as isize));
            words.depends(inner.strides.iter().map(|steps| Inner::of(steps[0]) as usize));
        }
        let total = chunks.numel();
        let total_at = words.push(total);
        let place = words.axes(&chunks);
        let kinds: Vec<Inner> = inner.strides.iter().map(|steps| Inner::of(steps[0])).collect();
        let steps = (count > 1).then(|| (words.axes(&inner), kinds));
        let numbers = words.numbers(program);
        let key = Key { mechanism: "map", types: each.types, class: words.class.clone() };
        let kernel = self.generated(key, || {
            let mut s = Source::new();
            words.head(&mut s);
            let graph = graph();
            plain("map", graph.foreign())?;
            let signature = s.function("body", &graph, numbers);
            s.line(format_args!(
                "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"
            ));
            s.line(format_args!(
                "  const idx chunk = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if (chunk >= {}) return;",
                Word(total_at)
            ));
            let types = pointers(&mut s, &signature, outputs.len(), slots.len(), operands, place, "chunk");
            match &steps {
                None => element(&mut s, &signature, outputs.len(), &|_| "0".to_string()),
                Some((inner, kinds)) => vector(
                    &mut s,
                    &signature,
                    &types,
                    outputs.len(),
                    count,
                    kinds,
                    *inner,
                    chunks.rank() == 1,
                ),
            }
            s.line(format_args!("}}"));
            Ok(s.text())
        })?;
        let shape =
            Shape { blocks: (count_of(total.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as the source reads them.
        unsafe { self.launch("map", kernel, shape, &words.list) }
    }
}

/// Declares the pointers `p0…` of operands at a position; their types.
pub(in crate::device::cuda) fn pointers(
    s: &mut Source,
    signature: &Signature,
    outputs: usize,
    count: usize,
    operands: usize,
    place: Place,
    position: &str,
) -> Vec<Option<DType>> {
    let types = self::operands(signature, outputs, count);
    let own = names("b", count);
    own.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    let wanted: Vec<_> = own.iter().zip(&types).map(|(name, dtype)| dtype.map(|_| name.as_str())).collect();
    place.offsets(s, position, &wanted);
    for (k, dtype) in types.iter().enumerate() {
        let Some(dtype) = dtype else { continue };
        let (c, constant) = (c_type(*dtype), if k < outputs { "" } else { "const " });
        s.line(format_args!("  {constant}{c}* const p{k} = ({constant}{c}*)a.v[{}] + b{k};", operands + k));
    }
    types
}

/// Computes and stores the element at `at(k)` from the pointer of operand `k`.
fn element(s: &mut Source, signature: &Signature, outputs: usize, at: &dyn Fn(usize) -> String) {
    for (index, dtype) in signature.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index};", c_type(*dtype)));
    }
    let x = |k: usize| format!("p{}[{}]", outputs + k, at(outputs + k));
    s.line(format_args!("    body({});", arguments(signature, &x, &|index| format!("y{index}"))));
    for index in 0..outputs {
        s.line(format_args!("    p{index}[{}] = y{index};", at(index)));
    }
}

/// Computes `count` neighbors at once; the last of a single axis one by one.
#[allow(clippy::too_many_arguments)]
fn vector(
    s: &mut Source,
    signature: &Signature,
    types: &[Option<DType>],
    outputs: usize,
    count: usize,
    kinds: &[Inner],
    inner: Place,
    single: bool,
) {
    // Of several axes the fastest is a multiple of the count: only a single one may end within a chunk.
    let left = if single { format!("{} - chunk * {count}", inner.size()) } else { count.to_string() };
    s.line(format_args!("  const idx left = {left};\n  if (left >= {count}) {{"));
    for (&index, &dtype) in &signature.inputs {
        let (k, c) = (outputs + index, c_type(dtype));
        match kinds[k] {
            Inner::Constant => s.line(format_args!("    const {c} x{index} = *p{k};")),
            Inner::Contiguous => {
                s.line(format_args!("    {c} x{index}[{count}]; load<{c}, {count}>(x{index}, p{k});"))
            }
            Inner::Strided => {
                let step = inner.step(k);
                s.line(format_args!("    {c} x{index}[{count}];\n#pragma unroll"));
                s.line(format_args!("    for (int j = 0; j < {count}; j++) x{index}[j] = p{k}[j * {step}];"));
            }
        }
    }
    for (index, dtype) in signature.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index}[{count}];", c_type(*dtype)));
    }
    s.line(format_args!("#pragma unroll\n    for (int j = 0; j < {count}; j++) {{"));
    let x = |index: usize| {
        if kinds[outputs + index] == Inner::Constant { format!("x{index}") } else { format!("x{index}[j]") }
    };
    s.line(format_args!(
        "      body({});\n    }}",
        arguments(signature, &x, &|index| format!("y{index}[j]"))
    ));
    for (index, dtype) in types[..outputs].iter().enumerate() {
        let Some(c) = dtype.map(c_type) else { continue };
        if kinds[index] == Inner::Contiguous {
            s.line(format_args!("    store<{c}, {count}>(p{index}, y{index});"));
        } else {
            let step = inner.step(index);
            s.line(format_args!(
                "#pragma unroll\n    for (int j = 0; j < {count}; j++) p{index}[j * {step}] = y{index}[j];"
            ));
        }
    }
    s.line(format_args!("  }} else for (idx j = 0; j < left; j++) {{"));
    element(s, signature, outputs, &|k| format!("j * {}", inner.step(k)));
    s.line(format_args!("  }}"));
}

/// The arguments of a graph's function.
pub(in crate::device::cuda) fn arguments(
    signature: &Signature,
    x: &dyn Fn(usize) -> String,
    y: &dyn Fn(usize) -> String,
) -> String {
    let mut all = vec!["a".to_string()];
    all.extend(signature.inputs.keys().map(|&index| x(index)));
    all.extend(signature.given.keys().map(|&index| format!("g{index}")));
    all.extend((0..signature.outputs.len()).map(y));
    all.join(", ")
}

/// The types of operands in memory, outputs first; none of one that is not read.
fn operands(signature: &Signature, outputs: usize, count: usize) -> Vec<Option<DType>> {
    let input = |k: usize| signature.inputs.get(&k).copied();
    (0..count)
        .map(|k| if k < outputs { signature.outputs.get(k).copied() } else { input(k - outputs) })
        .collect()
}
