//! `map` of programs without row constants: each thread loads, computes and stores one element, or a few
//! neighbors.
//!
//! Axes are coalesced first. In large operands a thread takes a few neighbors along the fastest axis. An
//! operand that is contiguous there is read by one access of up to 16 bytes, a broadcast operand once, any
//! other one element by element. All small operands, and large ones of other layouts, share one kernel with
//! one element a thread. Large transposed operands go to `transpose_map.rs`. All inputs of an element are
//! read before its output is written. An output may therefore be an input.
// Imports: `error`, `scalar`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, pointers, read_key_numbers};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::{c_type, ensure_computable};
use crate::device::cuda::codegen::vectors::{SPECIALIZE_FROM_ELEMENTS, StrideClass, vector_width};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::map_body::MapBody;
use crate::device::cuda::engine::transpose_map;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{Program, trace_program};
use crate::scalar::DType;
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Queues a program without row constants.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with; those of the launch.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map), for a program without row constants.
pub(in crate::device::cuda) unsafe fn run<P: Program>(
    stream: &Arc<Stream>,
    program: &P,
    sizes: &[usize],
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let slots = outputs_then_inputs(outputs, inputs.slots);
    let graph = || Ok(trace_program(program, inputs.reads)?.graph);
    let mut key_numbers = read_key_numbers(inputs);
    key_numbers.extend([program.variant() as u32, (program.variant() >> 32) as u32]);
    let body = MapBody { types: [TypeId::of::<P>(); 2], key_numbers: &key_numbers, graph: &graph, program };
    let axes = Axes::of(sizes, &slots, true);
    if axes.numel() >= SPECIALIZE_FROM_ELEMENTS
        && let Some(transposed) = transpose_map::transposed_operands(&axes, &slots, outputs.len())
    {
        // SAFETY: the caller's promise.
        return unsafe { transpose_map::run(stream, &body, axes, outputs.len(), &slots, transposed) };
    }
    let count = vector_width(&axes, &slots);
    let mut words = ArgBlock::new(is_wide(&[&axes], 0));
    words.key_numbers.extend_from_slice(body.key_numbers);
    words.depends([count, outputs.len(), slots.len()]);
    let operands = words.operands(&slots);
    // A position is a chunk of `count` neighbors.
    let (chunks, inner, kinds) = (axes.chunked(count), axes.fastest(), StrideClass::all(&axes));
    if count > 1 {
        words.depends(kinds.iter().map(|&kind| kind as usize));
    }
    let total = chunks.numel();
    let total_at = words.push(total);
    let chunk_args = words.axes(&chunks);
    let steps = (count > 1).then(|| (words.axes(&inner), kinds));
    let params = words.params(program);
    let key = KernelKey { mechanism: "map", types: body.types, key_numbers: words.key_numbers.clone() };
    let kernel = stream.kernel(key, || {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        let graph = graph()?;
        ensure_computable("map", graph.foreign())?;
        let signature = s.function("body", &graph, params);
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"
        ));
        s.line(format_args!(
            "  const idx chunk = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if (chunk >= {}) return;",
            Word(total_at)
        ));
        let types = pointers(&mut s, &signature, outputs.len(), slots.len(), operands, chunk_args, "chunk");
        match &steps {
            None => scalar_body(&mut s, &signature, outputs.len(), &|_| "0".to_string()),
            Some((inner, kinds)) => vector_body(
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
        LaunchShape { blocks: (block_count(total.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 };
    // SAFETY: (1) the words are those of this source; (2) is the caller's promise.
    unsafe { stream.launch("map", kernel, shape, &words.list) }
}

/// Computes and stores one element, which lies at `at(k)` from the pointer of operand `k`.
fn scalar_body(s: &mut SourceWriter, signature: &Signature, outputs: usize, at: &dyn Fn(usize) -> String) {
    for (index, dtype) in signature.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index};", c_type(*dtype)));
    }
    let x = |k: usize| format!("p{}[{}]", outputs + k, at(outputs + k));
    s.line(format_args!("    body({});", arguments(signature, &x, &|index| format!("y{index}"))));
    for index in 0..outputs {
        s.line(format_args!("    p{index}[{}] = y{index};", at(index)));
    }
}

/// Computes `count` neighbors at once, and the remainder of a single axis one by one.
#[allow(clippy::too_many_arguments)]
fn vector_body(
    s: &mut SourceWriter,
    signature: &Signature,
    types: &[Option<DType>],
    outputs: usize,
    count: usize,
    kinds: &[StrideClass],
    inner: AxesArgs,
    single: bool,
) {
    // With several axes the size of the fastest is a multiple of `count`. Only a single axis can end within a
    // chunk.
    let left = if single { format!("{} - chunk * {count}", inner.size()) } else { count.to_string() };
    s.line(format_args!("  const idx left = {left};\n  if (left >= {count}) {{"));
    for (&index, &dtype) in &signature.inputs {
        let (k, c) = (outputs + index, c_type(dtype));
        s.line(format_args!("    {c} x{index}[{count}];"));
        kinds[k].load(s, (c, count), &format!("x{index}"), &format!("p{k}"), inner.stride(k));
    }
    for (index, dtype) in signature.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index}[{count}];", c_type(*dtype)));
    }
    s.line(format_args!("#pragma unroll\n    for (int j = 0; j < {count}; j++) {{"));
    let x = |index: usize| format!("x{index}[j]");
    s.line(format_args!(
        "      body({});\n    }}",
        arguments(signature, &x, &|index| format!("y{index}[j]"))
    ));
    for (index, dtype) in types[..outputs].iter().enumerate() {
        let Some(c) = dtype.map(c_type) else { continue };
        kinds[index].store(s, (c, count), &format!("p{index}"), &format!("y{index}"), inner.stride(index));
    }
    s.line(format_args!("  }} else for (idx j = 0; j < left; j++) {{"));
    scalar_body(s, signature, outputs, &|k| format!("j * {}", inner.stride(k)));
    s.line(format_args!("  }}"));
}
