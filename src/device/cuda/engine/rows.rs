//! `map` of programs with row constants: one block for each row computes the row constants, then the row.
//!
//! A row that fits in the registers of the block is read once. A longer row is read again by each step, from
//! the cache if it fits. Cached values of the program are computed again at each use, which costs less than
//! memory for them.
// Imports: `error`, `scalar`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, names};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, pointers, read_key_numbers};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::{c_type, ensure_computable, ensure_states_fit, size_of_fields};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::reduce::combine_tree;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{KernelIr, Program, RowConstant, trace_program};
use crate::scalar::DType;
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
    words.key_numbers.extend(read_key_numbers(inputs));
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
    let key = KernelKey {
        mechanism: "rows",
        types: [TypeId::of::<P>(); 2],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        let traced = trace_program(program, inputs.reads)?;
        ensure_computable("rows", traced.foreign())?;
        for constant in &traced.row_constants {
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

/// The source of a kernel, as it is written.
struct RowSource<'a> {
    s: SourceWriter,
    program: &'a KernelIr,
    plan: Plan,
    /// As in [`Plan`], but 0 if the elements of a row do not fit in registers.
    each: usize,
    /// The functions of the row constants, and of the outputs.
    steps: Vec<Signature>,
    last: Signature,
    /// The inputs of all functions, and the outputs.
    inputs: Signature,
    /// The types of the operands, and the names of their offsets along the row.
    types: Vec<Option<DType>>,
    moved: Vec<String>,
}

/// The source of the kernel.
fn source(program: &KernelIr, words: &ArgBlock, plan: Plan) -> String {
    let mut source = RowSource::functions(program, words, plan);
    source.open_kernel();
    if source.each > 0 {
        source.load_row();
    }
    for (k, constant) in program.row_constants.iter().enumerate() {
        if matches!(constant, RowConstant::Reduced { .. }) {
            source.reduce(k);
        }
    }
    source.store_row();
    source.s.text()
}

impl<'a> RowSource<'a> {
    /// A function for each row constant, and one for the outputs. Their run-time parameters follow each other
    /// in the same order.
    fn functions(program: &'a KernelIr, words: &ArgBlock, plan: Plan) -> RowSource<'a> {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        let (mut at, mut steps) = (plan.params, Vec::new());
        for (k, constant) in program.row_constants.iter().enumerate() {
            let signature = s.function(&format!("step{k}"), constant.body(), at);
            at += 2 * constant.body().params();
            if let RowConstant::Reduced { reducer, .. } = constant {
                s.reducer(&format!("r{k}_"), reducer, signature.outputs[0]);
            }
            steps.push(signature);
        }
        let last = s.function("body", &program.graph, at);
        let mut inputs = Signature::default();
        steps.iter().chain([&last]).for_each(|signature| inputs.inputs.extend(&signature.inputs));
        inputs.outputs.clone_from(&last.outputs);
        // A row that does not fit in registers is read again by each step.
        let registers: usize = inputs.inputs.values().map(|dtype| dtype.size().div_ceil(4)).sum();
        let fits = registers * plan.each * plan.threads <= ELEMENT_REGISTERS;
        let each = if fits { plan.each } else { 0 };
        let moved = names("o", plan.outer.operands);
        RowSource { s, program, plan, each, steps, last, inputs, types: Vec::new(), moved }
    }

    /// The head of the kernel: pointers of the operands at this row, and shared memory for the states.
    fn open_kernel(&mut self) {
        let Plan { outputs, threads, operands, outer, count, .. } = self.plan;
        let s = &mut self.s;
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) kernel(const Args a) {{"
        ));
        self.types = pointers(s, &self.inputs, outputs, outer.operands, operands, outer, "(idx)blockIdx.x");
        // The states of one reduction share their memory with those of the others.
        s.line(format_args!("  const idx count = {};\n  union Room {{ u8 none;", Word(count)));
        for (k, constant) in self.program.row_constants.iter().enumerate() {
            if matches!(constant, RowConstant::Reduced { .. }) {
                s.line(format_args!("    u8 r{k}[sizeof(r{k}_State)];"));
            }
        }
        s.line(format_args!("  }};\n  __shared__ __align__(16) u8 room[sizeof(Room) * {threads}];"));
    }

    /// The offsets of some operands at column `c`.
    fn offsets(&mut self, of: std::ops::Range<usize>) {
        let wanted =
            |k: usize| (of.contains(&k) && self.types[k].is_some()).then_some(self.moved[k].as_str());
        let wanted: Vec<_> = (0..self.plan.outer.operands).map(wanted).collect();
        wanted.iter().flatten().for_each(|name| self.s.line(format_args!("    idx {name} = 0;")));
        self.plan.line.offsets(&mut self.s, "c", &wanted);
    }

    /// Loads the elements of the row into registers.
    fn load_row(&mut self) {
        let (each, Plan { outputs, threads, outer, .. }) = (self.each, self.plan);
        for (&index, &dtype) in &self.inputs.inputs {
            self.s.line(format_args!("  {} x{index}[{each}];", c_type(dtype)));
        }
        self.s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    const idx c = threadIdx.x + u * {threads};"));
        self.s.line(format_args!("    if (c < count) {{"));
        self.offsets(outputs..outer.operands);
        for &index in self.inputs.inputs.keys() {
            let k = outputs + index;
            self.s.line(format_args!("      x{index}[u] = p{k}[o{k}];"));
        }
        self.s.line(format_args!("    }}\n  }}"));
    }

    /// Begins a loop over the columns of the row that a thread takes.
    fn begin_loop(&mut self) {
        let (each, threads) = (self.each, self.plan.threads);
        if each > 0 {
            self.s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    const idx c = threadIdx.x + u * {threads};\n    if (c >= count) continue;"));
        } else {
            self.s.line(format_args!("  for (idx c = threadIdx.x; c < count; c += {threads}) {{"));
        }
    }

    /// A call of the function of `signature`. The cached values that it needs are computed first.
    fn call(&mut self, function: &str, signature: &Signature, y: &dyn Fn(usize) -> String) {
        let (each, outputs) = (self.each, self.plan.outputs);
        let x = |index: usize| {
            let k = outputs + index;
            if each > 0 { format!("x{index}[u]") } else { format!("p{k}[o{k}]") }
        };
        let mut needed: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = signature.given.keys().copied().collect();
        while let Some(given) = open.pop() {
            if matches!(self.program.row_constants[given], RowConstant::Cached { .. })
                && !needed.contains(&given)
            {
                needed.push(given);
                open.extend(self.steps[given].given.keys());
            }
        }
        needed.sort_unstable();
        for cached in needed {
            let of = &self.steps[cached];
            self.s.line(format_args!(
                "    {} g{cached}; step{cached}({});",
                c_type(of.outputs[0]),
                arguments(of, &x, &|_| format!("g{cached}"))
            ));
        }
        self.s.line(format_args!("    {function}({});", arguments(signature, &x, y)));
    }

    /// Reduces row constant `k` along the row: each thread its columns, then a binary tree of the threads'
    /// states.
    fn reduce(&mut self, k: usize) {
        let Plan { outputs, threads, outer, .. } = self.plan;
        let signature = self.steps[k].clone();
        let value = c_type(signature.outputs[0]);
        self.s.line(format_args!("  r{k}_State state{k} = r{k}_identity(a);"));
        self.begin_loop();
        if self.each == 0 {
            self.offsets(outputs..outer.operands);
        }
        self.s.line(format_args!("    {value} value;"));
        self.call(&format!("step{k}"), &signature, &|_| "value".to_string());
        let s = &mut self.s;
        s.line(format_args!("    state{k} = r{k}_accumulate(a, state{k}, value, (i64)c);\n  }}"));
        s.line(format_args!("  r{k}_State* const r{k}_shared = (r{k}_State*)room;\n  __syncthreads();"));
        s.line(format_args!("  r{k}_shared[threadIdx.x] = state{k};"));
        combine_tree(s, &format!("r{k}_"), &threads.to_string(), "(int)threadIdx.x", "1");
        s.line(format_args!(
            "  __syncthreads();\n  const auto g{k} = r{k}_finalize(a, r{k}_shared[0], (i64)count);"
        ));
    }

    /// Computes and stores the row.
    fn store_row(&mut self) {
        let Plan { outputs, outer, .. } = self.plan;
        let last = std::mem::take(&mut self.last);
        self.begin_loop();
        self.offsets(0..if self.each > 0 { outputs } else { outer.operands });
        for (index, dtype) in last.outputs.iter().enumerate() {
            self.s.line(format_args!("    {} y{index};", c_type(*dtype)));
        }
        self.call("body", &last, &|index| format!("y{index}"));
        for index in 0..last.outputs.len() {
            self.s.line(format_args!("    p{index}[o{index}] = y{index};"));
        }
        self.s.line(format_args!("  }}\n}}"));
    }
}
