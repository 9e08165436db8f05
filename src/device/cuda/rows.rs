//! Programs by rows: a block for each row settles what is constant along it, then computes it.
//!
//! A row that the threads can hold is read once, into registers; a longer one is read again by each step, from the cache
//! where it fits. What a program holds is computed again where it is used: that costs less than room for it.
// Imports: `error`, `kernel`, `device`.

use super::emit::{Signature, Source, c_type, plain, shares, size_of_fields};
use super::geometry::{Axes, Place, Word, Words, is_wide, names};
use super::map::{arguments, pointers, reads, together};
use super::reduce::tree;
use super::stream::{Key, Shape, Stream, count_of};
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{KernelIr, Program, RowConstant, trace_program};
use std::any::TypeId;
use std::sync::Arc;

/// Elements of a row that a thread holds: at least some, so that many lengths have one kernel, and at most some.
const HELD: std::ops::RangeInclusive<usize> = 4..=16;

/// Registers of a block, of 32 bits, that elements of a row may take: half of those of a multiprocessor.
const REGISTERS_OF_ELEMENTS: usize = 1 << 15;

impl Stream {
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map), for a program that is settled by rows.
    pub(super) unsafe fn rows<P: Program>(
        self: &Arc<Self>,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if sizes.contains(&0) {
            return Ok(());
        }
        let slots = together(outputs, inputs.slots);
        let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
        let outer_strides: Vec<&[isize]> =
            slots.iter().map(|slot| &slot.stride[..outer_sizes.len()]).collect();
        let row_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[outer_sizes.len()..]).collect();
        let outer = Axes::merged(outer_sizes, &outer_strides, true);
        let line = Axes::merged(row_sizes, &row_strides, false);
        let (rows, count) = (outer.numel(), line.numel());
        let threads = count.div_ceil(*HELD.start()).next_power_of_two().clamp(32, 1024);
        let each = count.div_ceil(threads).next_power_of_two().max(*HELD.start());
        let each = if HELD.contains(&each) { each } else { 0 };
        let mut words = Words::new(is_wide(&[&outer, &line], 0));
        words.class.extend(reads(inputs));
        words.depends([outputs.len(), slots.len(), threads, each]);
        let plan = Plan {
            outputs: outputs.len(),
            threads,
            each,
            count: words.push(count),
            operands: words.slots(&slots),
            outer: words.axes(&outer),
            line: words.axes(&line),
            numbers: words.numbers(program),
        };
        let key = Key { mechanism: "rows", types: [TypeId::of::<P>(); 2], class: words.class.clone() };
        let kernel = self.generated(key, || {
            let traced = trace_program(program, inputs.reads);
            plain("rows", traced.foreign())?;
            for settled in &traced.row_constants {
                if let RowConstant::Reduced { reducer, .. } = settled {
                    shares(reducer.name, threads, size_of_fields(&reducer.state))?;
                }
            }
            Ok(source(&traced, &words, plan))
        })?;
        let shape = Shape { blocks: (count_of(rows), 1), threads: threads as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("rows", kernel, shape, &words.list) }
    }
}

/// How rows are shared out, and where its words stand.
#[derive(Clone, Copy)]
struct Plan {
    outputs: usize,
    threads: usize,
    each: usize,
    count: usize,
    operands: usize,
    outer: Place,
    line: Place,
    numbers: usize,
}

fn source(program: &KernelIr, words: &Words, plan: Plan) -> String {
    let Plan { outputs, threads, outer, line, .. } = plan;
    let mut s = Source::new();
    words.head(&mut s);
    // A function for each step; run-time numbers stand one step after another.
    let (mut at, mut signatures) = (plan.numbers, Vec::new());
    for (k, settled) in program.row_constants.iter().enumerate() {
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
    // Elements that do not fit in registers are read again by each step.
    let registers: usize = inputs.inputs.values().map(|dtype| dtype.size().div_ceil(4)).sum();
    let each = if registers * plan.each * threads <= REGISTERS_OF_ELEMENTS { plan.each } else { 0 };
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({threads}) kernel(const Args a) {{"));
    let types = pointers(&mut s, &inputs, outputs, outer.operands, plan.operands, outer, "(idx)blockIdx.x");
    let reduced =
        |(k, settled): (usize, &RowConstant)| matches!(settled, RowConstant::Reduced { .. }).then_some(k);
    let reduced: Vec<usize> = program.row_constants.iter().enumerate().filter_map(reduced).collect();
    // The states of one step are there while no other's are.
    s.line(format_args!("  const idx count = {};\n  union Room {{ u8 none;", Word(plan.count)));
    reduced.iter().for_each(|k| s.line(format_args!("    u8 r{k}[sizeof(r{k}_State)];")));
    s.line(format_args!("  }};\n  __shared__ __align__(16) u8 room[sizeof(Room) * {threads}];"));
    let moved = names("o", outer.operands);
    let offsets = |s: &mut Source, position: &str, of: std::ops::Range<usize>| {
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
    let begin = |s: &mut Source| {
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
    // The call of a step's function; values that are held are computed first.
    let call = |s: &mut Source, function: &str, signature: &Signature, y: &dyn Fn(usize) -> String| {
        let mut needed: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = signature.given.keys().copied().collect();
        while let Some(given) = open.pop() {
            if matches!(program.row_constants[given], RowConstant::Cached { .. }) && !needed.contains(&given)
            {
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
        s.line(format_args!("    state{k} = r{k}_absorb(a, state{k}, value, (i64)c);\n  }}"));
        s.line(format_args!("  r{k}_State* const r{k}_shared = (r{k}_State*)room;\n  __syncthreads();"));
        s.line(format_args!("  r{k}_shared[threadIdx.x] = state{k};"));
        tree(&mut s, &format!("r{k}_"), &threads.to_string(), "(int)threadIdx.x", "1");
        s.line(format_args!(
            "  __syncthreads();\n  const auto g{k} = r{k}_finish(a, r{k}_shared[0], (i64)count);"
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
