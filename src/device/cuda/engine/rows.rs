//! `map` of programs with row constants: one block for each row computes the row constants, then the row.
//!
//! A row that fits in the registers of the block is read once. A longer row is read again by each step, from
//! the cache if it fits. Cached values of the program are computed again at each use, which costs less than
//! memory for them.
// Imports: `error`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, names};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, pointers, read_class};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::{c_type, ensure_computable, ensure_states_fit, size_of_fields};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::reduce::combine_tree;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{KernelIr, Program, RowConstant, trace_program};
use std::any::TypeId;
use std::sync::Arc;

/// Elements of a row in the registers of a thread. The minimum lets rows of many lengths share one kernel.
const ELEMENTS_PER_THREAD: std::ops::RangeInclusive<usize> = 4..=16;
/// Registers of 32 bits for the elements of a row in one block: half of the registers of a multiprocessor.
const ELEMENT_REGISTERS: usize = 1 << 15;

/// Queues a program with row constants; the last `row` axes are the axes of a row.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with, and for states that
/// do not fit in shared memory; those of the launch.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map), for a program with row constants.
pub(in crate::device::cuda) unsafe fn run<P: Program>(
    stream: &Arc<Stream>,
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let slots = outputs_then_inputs(outputs, inputs.slots);
    let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
    let outer_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..outer_sizes.len()]).collect();
    let row_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[outer_sizes.len()..]).collect();
    let outer = Axes::coalesced(outer_sizes, &outer_strides, true);
    let line = Axes::coalesced(row_sizes, &row_strides, false);
    let (rows, count) = (outer.numel(), line.numel());
    let threads = count.div_ceil(*ELEMENTS_PER_THREAD.start()).next_power_of_two().clamp(32, 1024);
    let each = count.div_ceil(threads).next_power_of_two().max(*ELEMENTS_PER_THREAD.start());
    let each = if ELEMENTS_PER_THREAD.contains(&each) { each } else { 0 };
    let mut words = ArgBlock::new(is_wide(&[&outer, &line], 0));
    words.class.extend(read_class(inputs));
    words.depends([outputs.len(), slots.len(), threads, each]);
    let plan = Plan {
        outputs: outputs.len(),
        threads,
        each,
        count: words.push(count),
        operands: words.operands(&slots),
        outer: words.axes(&outer),
        line: words.axes(&line),
        params: words.params(program),
    };
    let key = KernelKey { mechanism: "rows", types: [TypeId::of::<P>(); 2], class: words.class.clone() };
    let kernel = stream.kernel(key, || {
        let traced = trace_program(program, inputs.reads);
        ensure_computable("rows", traced.foreign())?;
        for constant in &traced.settled {
            if let RowConstant::Reduced { reducer, .. } = constant {
                ensure_states_fit(reducer.name, threads, size_of_fields(&reducer.state))?;
            }
        }
        Ok(source(&traced, &words, plan))
    })?;
    let shape = LaunchShape { blocks: (block_count(rows), 1), threads: threads as u32, shared: 0 };
    // SAFETY: (1) the words are those of `source`; (2) is the caller's promise.
    unsafe { stream.launch("rows", kernel, shape, &words.list) }
}

/// The partition of a row, and the indices of the words.
#[derive(Clone, Copy)]
struct Plan {
    outputs: usize,
    /// Threads of a block.
    threads: usize,
    /// Elements of a row in the registers of a thread; 0 if the row is read again by each step.
    each: usize,
    count: usize,
    operands: usize,
    outer: AxesArgs,
    line: AxesArgs,
    params: usize,
}

fn source(program: &KernelIr, words: &ArgBlock, plan: Plan) -> String {
    let Plan { outputs, threads, outer, line, .. } = plan;
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    // A function for each row constant. The run-time parameters follow each other in the same order.
    let (mut at, mut signatures) = (plan.params, Vec::new());
    for (k, settled) in program.settled.iter().enumerate() {
        let signature = s.function(&format!("step{k}"), settled.body(), at);
        at += 2 * settled.body().params();
        if let RowConstant::Reduced { reducer, .. } = settled {
            s.reducer(&format!("r{k}_"), reducer, signature.outputs[0]);
        }
        signatures.push(signature);
    }
    let last = s.function("body", &program.graph, at);
    let mut inputs = Signature::default();
    signatures.iter().chain([&last]).for_each(|signature| inputs.inputs.extend(&signature.inputs));
    inputs.outputs.clone_from(&last.outputs);
    // A row that does not fit in registers is read again by each step.
    let registers: usize = inputs.inputs.values().map(|dtype| dtype.size().div_ceil(4)).sum();
    let each = if registers * plan.each * threads <= ELEMENT_REGISTERS { plan.each } else { 0 };
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({threads}) kernel(const Args a) {{"));
    let types = pointers(&mut s, &inputs, outputs, outer.operands, plan.operands, outer, "(idx)blockIdx.x");
    let reduced =
        |(k, settled): (usize, &RowConstant)| matches!(settled, RowConstant::Reduced { .. }).then_some(k);
    let reduced: Vec<usize> = program.settled.iter().enumerate().filter_map(reduced).collect();
    // The states of one reduction share their memory with those of the others.
    s.line(format_args!("  const idx count = {};\n  union Room {{ u8 none;", Word(plan.count)));
    reduced.iter().for_each(|k| s.line(format_args!("    u8 r{k}[sizeof(r{k}_State)];")));
    s.line(format_args!("  }};\n  __shared__ __align__(16) u8 room[sizeof(Room) * {threads}];"));
    let moved = names("o", outer.operands);
    let offsets = |s: &mut SourceWriter, position: &str, of: std::ops::Range<usize>| {
        let wanted = |k: usize| (of.contains(&k) && types[k].is_some()).then_some(moved[k].as_str());
        let wanted: Vec<_> = (0..outer.operands).map(wanted).collect();
        wanted.iter().flatten().for_each(|name| s.line(format_args!("    idx {name} = 0;")));
        line.offsets(s, position, &wanted);
    };
    if each > 0 {
        for (&index, &dtype) in &inputs.inputs {
            s.line(format_args!("  {} x{index}[{each}];", c_type(dtype)));
        }
        s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    const idx c = threadIdx.x + u * {threads};"));
        s.line(format_args!("    if (c < count) {{"));
        offsets(&mut s, "c", outputs..outer.operands);
        for &index in inputs.inputs.keys() {
            let k = outputs + index;
            s.line(format_args!("      x{index}[u] = p{k}[o{k}];"));
        }
        s.line(format_args!("    }}\n  }}"));
    }
    let begin = |s: &mut SourceWriter| {
        if each > 0 {
            s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    const idx c = threadIdx.x + u * {threads};\n    if (c >= count) continue;"));
        } else {
            s.line(format_args!("  for (idx c = threadIdx.x; c < count; c += {threads}) {{"));
        }
    };
    let x = |index: usize| {
        let k = outputs + index;
        if each > 0 { format!("x{index}[u]") } else { format!("p{k}[o{k}]") }
    };
    // A call of a step's function. The cached values that it needs are computed first.
    let call = |s: &mut SourceWriter, function: &str, signature: &Signature, y: &dyn Fn(usize) -> String| {
        let mut needed: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = signature.given.keys().copied().collect();
        while let Some(given) = open.pop() {
            if matches!(program.settled[given], RowConstant::Held { .. }) && !needed.contains(&given) {
                needed.push(given);
                open.extend(signatures[given].given.keys());
            }
        }
        needed.sort_unstable();
        for held in needed {
            let of = &signatures[held];
            s.line(format_args!(
                "    {} g{held}; step{held}({});",
                c_type(of.outputs[0]),
                arguments(of, &x, &|_| format!("g{held}"))
            ));
        }
        s.line(format_args!("    {function}({});", arguments(signature, &x, y)));
    };
    for k in reduced {
        let signature = &signatures[k];
        let value = c_type(signature.outputs[0]);
        s.line(format_args!("  r{k}_State state{k} = r{k}_identity(a);"));
        begin(&mut s);
        if each == 0 {
            offsets(&mut s, "c", outputs..outer.operands);
        }
        s.line(format_args!("    {value} value;"));
        call(&mut s, &format!("step{k}"), signature, &|_| "value".to_string());
        s.line(format_args!("    state{k} = r{k}_accumulate(a, state{k}, value, (i64)c);\n  }}"));
        s.line(format_args!("  r{k}_State* const r{k}_shared = (r{k}_State*)room;\n  __syncthreads();"));
        s.line(format_args!("  r{k}_shared[threadIdx.x] = state{k};"));
        combine_tree(&mut s, &format!("r{k}_"), &threads.to_string(), "(int)threadIdx.x", "1");
        s.line(format_args!(
            "  __syncthreads();\n  const auto g{k} = r{k}_finalize(a, r{k}_shared[0], (i64)count);"
        ));
    }
    begin(&mut s);
    offsets(&mut s, "c", 0..if each > 0 { outputs } else { outer.operands });
    for (index, dtype) in last.outputs.iter().enumerate() {
        s.line(format_args!("    {} y{index};", c_type(*dtype)));
    }
    call(&mut s, "body", &last, &|index| format!("y{index}"));
    for index in 0..last.outputs.len() {
        s.line(format_args!("    p{index}[o{index}] = y{index};"));
    }
    s.line(format_args!("  }}\n}}"));
    s.text()
}
