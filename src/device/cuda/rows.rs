//! Programs by rows: a block for each row settles what is constant along it, then computes it.
//!
//! A row that the threads can hold is read once, into registers; a longer one is read again by each step, from the cache
//! where it fits. What a program holds is computed again where it is used: that costs less than room for it.
//! Imports: `error`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Signature, Source, c_type, state_size};
use super::geometry::{Axes, Place};
use super::map::{head, number_words, operands, together, words_of};
use super::reduce::tree;
use crate::device::{Inputs, Slot};
use crate::error::Result;
use crate::kernel::{Program, Settled, Traced, numbers, trace_program};
use std::any::TypeId;
use std::sync::Arc;

/// Elements of a row that a thread holds, at most.
const HELD: usize = 16;

impl Context {
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map), for a program that is settled by rows.
    pub(super) unsafe fn rows<P: Program>(
        self: &Arc<Self>,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[Slot<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if sizes.contains(&0) {
            return Ok(());
        }
        let slots = together(outputs, inputs.slots);
        let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
        let outer_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..outer_sizes.len()]).collect();
        let row_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[outer_sizes.len()..]).collect();
        let outer = Axes::merged(outer_sizes, &outer_strides, true);
        let line = Axes::merged(row_sizes, &row_strides, false);
        let (rows, count) = (outer.numel(), line.numel());
        let wide = outer.is_wide() || line.is_wide();
        let threads = count.div_ceil(4).next_power_of_two().clamp(32, 1024);
        let each = count.div_ceil(threads).next_power_of_two();
        let each = if each <= HELD { each } else { 0 };
        let outer_place = Place { word: 2 + slots.len(), rank: outer.rank(), operands: slots.len() };
        let line_place = Place { word: outer_place.end(), rank: line.rank(), operands: slots.len() };
        let mut class: Vec<u32> = inputs.reads.iter().map(|&read| u32::from(read)).collect();
        class.push(u32::MAX);
        class.extend([threads, each, outer.rank(), line.rank(), usize::from(wide)].map(|n| n as u32));
        let key = Key { mechanism: "rows", types: [TypeId::of::<P>(); 2], class };
        let kernel = self
            .kernel(key, || source(&trace_program(program, inputs.reads), outputs.len(), threads, each, wide, outer_place, line_place))?;
        let mut words = vec![rows as i64, count as i64];
        words.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        words.extend(outer.words());
        words.extend(line.words());
        words.extend(words_of(&numbers(program)));
        let shape = Shape { blocks: (count_of(rows), 1), threads: threads as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("rows", kernel, shape, &words) }
    }
}

/// Bytes of the largest state.
fn widest(program: &Traced) -> usize {
    let size = |settled: &Settled| match settled {
        Settled::Reduced { reducer, .. } => state_size(reducer),
        Settled::Held { .. } => 0,
    };
    program.settled.iter().map(size).max().unwrap_or(0)
}

fn source(program: &Traced, outputs: usize, threads: usize, each: usize, wide: bool, outer: Place, line: Place) -> String {
    let mut s = Source::new();
    let numbers_at = line.end();
    let words =
        numbers_at + program.settled.iter().map(|settled| number_words(settled.body())).sum::<usize>() + number_words(&program.graph);
    head(&mut s, words, wide);
    // A function for each step; run-time numbers stand one step after another.
    let (mut at, mut signatures) = (numbers_at, Vec::new());
    for (k, settled) in program.settled.iter().enumerate() {
        let signature = s.function(&format!("step{k}"), settled.body(), at);
        at += number_words(settled.body());
        if let Settled::Reduced { reducer, .. } = settled {
            s.reducer(&format!("r{k}_"), reducer, signature.outputs[0]);
        }
        signatures.push(signature);
    }
    let last = s.function("body", &program.graph, at);
    let mut inputs = Signature::default();
    signatures.iter().chain([&last]).for_each(|signature| inputs.inputs.extend(&signature.inputs));
    inputs.outputs.clone_from(&last.outputs);
    let types = operands(&inputs, outputs, outer.operands);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({threads}) kernel(const Args a) {{"));
    let names: Vec<_> = (0..outer.operands).map(|k| format!("b{k}")).collect();
    names.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    outer.offsets(&mut s, "(idx)blockIdx.x", &names);
    for (k, dtype) in types.iter().enumerate() {
        let Some(dtype) = dtype else { continue };
        let (c, constant) = (c_type(*dtype), if k < outputs { "" } else { "const " });
        s.line(format_args!("  {constant}{c}* const p{k} = ({constant}{c}*)a.v[{}] + b{k};", 2 + k));
    }
    s.line(format_args!("  const idx count = (idx)a.v[1];\n  __shared__ __align__(16) u8 room[{}];", widest(program).max(1) * threads));
    let offsets = |s: &mut Source, position: &str, only: &dyn Fn(usize) -> bool| {
        let wanted = (0..outer.operands).any(|k| types[k].is_some() && only(k));
        (0..outer.operands).for_each(|k| s.line(format_args!("    idx o{k} = 0;")));
        let all: Vec<_> = (0..outer.operands).map(|k| format!("o{k}")).collect();
        if wanted {
            line.offsets(s, position, &all);
        }
    };
    if each > 0 {
        for (&index, &dtype) in &inputs.inputs {
            s.line(format_args!("  {} x{index}[{each}];", c_type(dtype)));
        }
        s.line(format_args!(
            "#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    const idx c = threadIdx.x + u * {threads};\n    if (c < count) {{"
        ));
        offsets(&mut s, "c", &|k| k >= outputs);
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
            if matches!(program.settled[given], Settled::Held { .. }) && !needed.contains(&given) {
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
                super::map::arguments(of, &x, &|_| format!("g{held}"))
            ));
        }
        s.line(format_args!("    {function}({});", super::map::arguments(signature, &x, y)));
    };
    for (k, settled) in program.settled.iter().enumerate() {
        let Settled::Reduced { .. } = settled else { continue };
        let signature = &signatures[k];
        let value = c_type(signature.outputs[0]);
        s.line(format_args!("  r{k}_State state{k} = r{k}_identity(a);"));
        begin(&mut s);
        if each == 0 {
            offsets(&mut s, "c", &|k| k >= outputs);
        }
        s.line(format_args!("    {value} value;"));
        call(&mut s, &format!("step{k}"), signature, &|_| "value".to_string());
        s.line(format_args!("    state{k} = r{k}_absorb(a, state{k}, value, (i64)c);\n  }}"));
        s.line(format_args!("  r{k}_State* const r{k}_shared = (r{k}_State*)room;\n  __syncthreads();"));
        s.line(format_args!("  r{k}_shared[threadIdx.x] = state{k};"));
        tree(&mut s, &format!("r{k}_"), threads, "(int)threadIdx.x", "1");
        s.line(format_args!("  __syncthreads();\n  const auto g{k} = r{k}_finish(a, r{k}_shared[0], (i64)count);"));
    }
    begin(&mut s);
    offsets(&mut s, "c", &|_| true);
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
