//! The sources of programs with row constants, which `rows.rs` queues.
// Imports: `error`, `scalar`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, names};
use crate::device::cuda::codegen::operands::{arguments_with, pointers};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::c_type;
use crate::device::cuda::codegen::vectors::{StrideClass, step_of};
use crate::device::cuda::engine::exchange::{WARP, lane_functions};
use crate::error::Result;
use crate::kernel::{KernelIr, RowConstant};
use crate::scalar::DType;
use std::collections::{BTreeMap, BTreeSet};

/// Registers for all elements and cached values that a thread of a block of 256 keeps, of 64 with which four
/// blocks share a multiprocessor. Elements end where cached values begin, so that all are seldom alive.
const KEPT_REGISTERS: usize = 48;
/// The same for a thread of a larger block: half of those that each of 1024 threads has.
const KEPT_IN_LARGE_BLOCKS: usize = 32;
/// Vectors that a thread of a long row has in flight.
const IN_FLIGHT: usize = 4;
/// Threads of a block that has several rows.
pub(super) const THREADS: usize = 256;

/// The partition of rows between threads.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Threads of a row.
    pub(super) lanes: usize,
    /// Threads of a block.
    pub(super) threads: usize,
    /// Elements of a vector.
    pub(super) vector: usize,
    /// Vectors of a row in the registers of a thread; 0 if the row is read again by each step.
    pub(super) each: usize,
    /// Whether every thread has this number of vectors.
    pub(super) is_whole: bool,
}

/// The partition of the rows, and the indices of the words.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) outputs: usize,
    pub(super) cut: Cut,
    pub(super) rows: usize,
    /// The numbers of elements, and of vectors, of a row.
    pub(super) count: usize,
    pub(super) chunks: usize,
    pub(super) operands: usize,
    pub(super) outer: AxesArgs,
    /// The axes of a row, in vectors.
    pub(super) line: AxesArgs,
    /// The fastest axis of a row, in elements, if a vector has several.
    pub(super) step: Option<AxesArgs>,
    pub(super) params: usize,
    /// Where several blocks share a row.
    pub(super) parts: Option<RowShares>,
}

/// A kernel of several that compute long rows, each shared by several blocks.
#[derive(Clone, Copy)]
pub(super) struct RowShares {
    /// The reduction that it computes; the number of reductions for the kernel that stores the rows.
    pub(super) pass: usize,
    /// The number of blocks of a row, and the vectors of each.
    pub(super) parts: usize,
    pub(super) share: usize,
    /// The address of the states of each reduction, one after another.
    pub(super) states: usize,
}

/// A loop over the elements of a row: for a reduction, or for the outputs.
#[derive(Default)]
struct SourceLoop {
    /// The operands that it reads.
    inputs: BTreeSet<usize>,
    /// The cached values that it computes, in order, and those that an earlier loop has left in registers.
    computed: Vec<usize>,
    left: Vec<usize>,
}

/// The loops of a program, and what a thread keeps in registers from one to the next.
struct SourceLoops {
    all: Vec<SourceLoop>,
    /// The operands that several loops read.
    kept: BTreeSet<usize>,
    /// The cached values that several loops use.
    cached: BTreeSet<usize>,
}

impl SourceLoops {
    /// The loops, whose functions are `steps` and `last`. Cached values stay in registers if `keep`. Constant
    /// `k` equals constant `firsts[k]`.
    fn new(
        program: &KernelIr,
        firsts: &[usize],
        steps: &[Signature],
        last: &Signature,
        keep: bool,
    ) -> SourceLoops {
        let is_reduced =
            |k: &usize| firsts[*k] == *k && matches!(program.row_constants[*k], RowConstant::Reduced { .. });
        let functions = (0..steps.len()).filter(is_reduced).map(|k| &steps[k]).chain([last]);
        let (mut all, mut cached, mut ready) = (Vec::new(), BTreeSet::new(), BTreeSet::<usize>::new());
        for function in functions {
            let mut one =
                SourceLoop { inputs: function.inputs.keys().copied().collect(), ..SourceLoop::default() };
            let mut open: Vec<usize> = function.given.keys().map(|&given| firsts[given]).collect();
            while let Some(given) = open.pop() {
                if is_reduced(&given) || one.computed.contains(&given) || one.left.contains(&given) {
                    continue;
                }
                if ready.contains(&given) {
                    one.left.push(given);
                    cached.insert(given);
                    continue;
                }
                one.computed.push(given);
                one.inputs.extend(steps[given].inputs.keys());
                open.extend(steps[given].given.keys().map(|&given| firsts[given]));
            }
            one.computed.sort_unstable();
            if keep {
                ready.extend(&one.computed);
            }
            all.push(one);
        }
        let mut uses = BTreeMap::new();
        all.iter().flat_map(|one| &one.inputs).for_each(|&index| *uses.entry(index).or_insert(0) += 1);
        let kept = uses.into_iter().filter(|&(_, uses)| uses > 1).map(|(index, _)| index).collect();
        SourceLoops { all, kept, cached }
    }

    /// Registers of 32 bits for what is kept of `elements` elements.
    fn registers(&self, inputs: &Signature, steps: &[Signature], elements: usize) -> usize {
        let size = |dtype: DType| (dtype.size() * elements).div_ceil(4);
        self.kept.iter().map(|index| size(inputs.inputs[index])).sum::<usize>()
            + self.cached.iter().map(|&k| size(steps[k].outputs[0])).sum::<usize>()
    }
}

/// The source of a kernel, as it is written.
struct RowSource<'a> {
    s: SourceWriter,
    program: &'a KernelIr,
    plan: Plan,
    kinds: &'a [StrideClass],
    /// The functions of the row constants, and of the outputs.
    steps: Vec<Signature>,
    last: Signature,
    /// The inputs of all functions, and the outputs.
    inputs: Signature,
    /// For each row constant the number of the first that equals it, which alone is computed.
    firsts: Vec<usize>,
    loops: SourceLoops,
    /// The operands that are one element of the row, which is read once.
    single: BTreeSet<usize>,
    /// The number of reductions written so far.
    reductions: usize,
    /// The types of the operands, and the names of their offsets along the row.
    types: Vec<Option<DType>>,
    moved: Vec<String>,
}

/// The source of the kernel.
pub(super) fn source(
    program: &KernelIr,
    words: &ArgBlock,
    plan: Plan,
    kinds: &[StrideClass],
) -> Result<String> {
    let mut source = RowSource::functions(program, words, plan, kinds)?;
    source.open_kernel();
    let loops = std::mem::take(&mut source.loops.all);
    let reduced = source.reduced();
    for (order, (&k, one)) in reduced.iter().zip(&loops).enumerate() {
        match plan.parts {
            Some(parts) if order < parts.pass => source.join(k, parts, order),
            Some(parts) if order == parts.pass => {
                source.reduce(k, one);
                source.leave(k, parts, order);
                return Ok(source.s.text());
            }
            _ => {
                source.reduce(k, one);
                source.settle(k, &format!("whole{k}"));
            }
        }
    }
    loops[reduced.len()..].iter().for_each(|one| source.store_row(one));
    Ok(source.s.text())
}

impl<'a> RowSource<'a> {
    /// A function for each row constant, and one for the outputs. Their run-time parameters follow each other
    /// in the same order.
    fn functions(
        program: &'a KernelIr,
        words: &ArgBlock,
        mut plan: Plan,
        kinds: &'a [StrideClass],
    ) -> Result<RowSource<'a>> {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        let (mut at, mut steps, firsts) = (plan.params, Vec::<Signature>::new(), program.first_equals()?);
        for (k, constant) in program.row_constants.iter().enumerate() {
            if firsts[k] != k {
                steps.push(steps[firsts[k]].clone());
                continue;
            }
            let signature = s.function(&format!("step{k}"), constant.body(), at);
            at += 2 * constant.body().params();
            if let RowConstant::Reduced { reducer, .. } = constant {
                let prefix = format!("r{k}_");
                s.reducer(&prefix, reducer, signature.outputs[0]);
                lane_functions(&mut s, &prefix, reducer.state.len());
            }
            steps.push(signature);
        }
        let last = s.function("body", &program.graph, at);
        let mut inputs = Signature::default();
        steps.iter().chain([&last]).for_each(|signature| inputs.inputs.extend(&signature.inputs));
        inputs.outputs.clone_from(&last.outputs);
        // The first of these that fits: cached values in registers, elements in registers, neither.
        let most = if plan.cut.threads > THREADS { KEPT_IN_LARGE_BLOCKS } else { KEPT_REGISTERS };
        let elements = plan.cut.each * plan.cut.vector;
        let mut loops = SourceLoops::new(program, &firsts, &steps, &last, plan.cut.each > 0);
        if loops.registers(&inputs, &steps, elements) > most {
            loops = SourceLoops::new(program, &firsts, &steps, &last, false);
        }
        if loops.registers(&inputs, &steps, elements) > most {
            plan.cut.each = 0;
        }
        if plan.cut.each == 0 {
            loops.kept.clear();
        }
        let one_axis = plan.line.has_one_axis();
        let is_single = |&index: &usize| one_axis && kinds[plan.outputs + index] == StrideClass::Broadcast;
        let single: BTreeSet<usize> = inputs.inputs.keys().copied().filter(is_single).collect();
        loops.kept.retain(|index| !single.contains(index));
        let moved = names("o", plan.outer.operands);
        let (reductions, types) = (0, Vec::new());
        Ok(RowSource {
            s,
            program,
            plan,
            kinds,
            steps,
            last,
            inputs,
            firsts,
            loops,
            single,
            reductions,
            types,
            moved,
        })
    }

    /// The row constants that are reductions, each once.
    fn reduced(&self) -> Vec<usize> {
        let constants = self.program.row_constants.iter().enumerate();
        constants
            .filter(|&(k, constant)| self.firsts[k] == k && matches!(constant, RowConstant::Reduced { .. }))
            .map(|(k, _)| k)
            .collect()
    }

    /// The head of the kernel: pointers of the operands at this row, shared memory for the states of warps,
    /// and the elements of the row that several loops read.
    fn open_kernel(&mut self) {
        let Plan { outputs, cut, rows, operands, outer, chunks, parts, .. } = self.plan;
        let reduced = self.reduced();
        let (threads, lanes, s) = (cut.threads, cut.lanes, &mut self.s);
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) kernel(const Args a) {{"
        ));
        if threads == lanes {
            s.line(format_args!("  const idx row = (idx)blockIdx.x, lane = threadIdx.x;"));
        } else {
            // Threads after the last row compute it again, since all lanes of a warp exchange states.
            s.line(format_args!(
                "  const idx own = (idx)blockIdx.x * {} + threadIdx.x / {lanes}, \
                 lane = threadIdx.x % {lanes};",
                threads / lanes
            ));
            s.line(format_args!(
                "  const bool there = own < {0};\n  const idx row = there ? own : {0} - 1;",
                Word(rows)
            ));
        }
        self.types = pointers(s, &self.inputs, outputs, outer.operands, operands, outer, "row");
        match parts {
            None => s.line(format_args!("  const idx first = lane, chunks = {};", Word(chunks))),
            Some(RowShares { share, .. }) => s.line(format_args!(
                "  const idx begin = (idx)blockIdx.y * {share}, past = begin + {share}, \
                 first = begin + lane, chunks = past < {all} ? past : {all};",
                share = Word(share),
                all = Word(chunks)
            )),
        }
        if lanes > WARP {
            // Of two reductions, one after the other, the second uses the other half: no thread still reads
            // it.
            s.line(format_args!("  union Room {{ u8 none;"));
            reduced.iter().for_each(|k| s.line(format_args!("    u8 r{k}[sizeof(r{k}_State)];")));
            s.line(format_args!(
                "  }};\n  __shared__ __align__(16) u8 room[2][sizeof(Room) * {}];",
                threads / WARP
            ));
        }
        for index in &self.single {
            let c = c_type(self.inputs.inputs[index]);
            s.line(format_args!("  const {c} x{index} = *p{};", outputs + index));
        }
        self.load_row();
    }

    /// Loads the elements of the row that several loops read into registers.
    fn load_row(&mut self) {
        let Cut { each, vector, .. } = self.plan.cut;
        let kept: Vec<usize> = self.loops.kept.iter().copied().collect();
        for index in &kept {
            let c = c_type(self.inputs.inputs[index]);
            self.s.line(format_args!("  {c} x{index}[{}];", each * vector));
        }
        for k in self.loops.cached.clone() {
            let c = c_type(self.steps[k].outputs[0]);
            self.s.line(format_args!("  {c} h{k}[{}];", each * vector));
        }
        if !kept.is_empty() {
            self.begin_loop(None);
            self.load(&kept, |index| format!("x{index} + u * {vector}"));
            self.s.line(format_args!("  }} }}"));
        }
    }

    /// Writes loads of the vectors of operands at vector `c` of the row, into the arrays `to`.
    fn load(&mut self, inputs: &[usize], to: impl Fn(usize) -> String) {
        let Plan { outputs, step, cut, .. } = self.plan;
        self.offsets(&inputs.iter().map(|index| outputs + index).collect());
        for &index in inputs {
            let (k, c) = (outputs + index, c_type(self.inputs.inputs[&index]));
            let (to, from) = (to(index), format!("p{k} + o{k}"));
            self.kinds[k].load(&mut self.s, (c, cut.vector), &format!("({to})"), &from, step_of(step, k));
        }
    }

    /// The offsets of some operands at vector `c`.
    fn offsets(&mut self, of: &BTreeSet<usize>) {
        let wanted =
            |k: usize| (of.contains(&k) && self.types[k].is_some()).then_some(self.moved[k].as_str());
        let wanted: Vec<_> = (0..self.plan.outer.operands).map(wanted).collect();
        wanted.iter().flatten().for_each(|name| self.s.line(format_args!("    idx {name} = 0;")));
        self.plan.line.offsets(&mut self.s, "c", &wanted);
    }

    /// Begins a loop over the vectors of the row that a thread takes. `unroll` is the number of vectors that
    /// a loop over a long row has in flight.
    fn begin_loop(&mut self, unroll: Option<usize>) {
        let Cut { each, lanes, is_whole, .. } = self.plan.cut;
        if each > 0 {
            let guard = if is_whole { "" } else { " if (c < chunks) {" };
            let open = if is_whole { "{" } else { "" };
            self.s.line(format_args!(
                "#pragma unroll\n  for (int u = 0; u < {each}; u++) {{ \
                 const idx c = first + u * {lanes};{guard}{open}"
            ));
        } else {
            unroll.iter().for_each(|unroll| self.s.line(format_args!("#pragma unroll {unroll}")));
            self.s.line(format_args!("  for (idx c = first; c < chunks; c += {lanes}) {{ {{"));
        }
    }

    /// Begins a loop, and its inner loop over the elements of a vector. Loads what the loop reads, and
    /// computes the cached values that it needs.
    fn begin_elements(&mut self, one: &SourceLoop, outputs: &[DType]) {
        let Plan { cut: Cut { each, vector, .. }, outputs: first, .. } = self.plan;
        let is_reduction = outputs.is_empty();
        self.begin_loop(is_reduction.then_some(IN_FLIGHT));
        let read: Vec<usize> = one
            .inputs
            .iter()
            .copied()
            .filter(|index| !self.loops.kept.contains(index) && !self.single.contains(index))
            .collect();
        for index in &read {
            let c = c_type(self.inputs.inputs[index]);
            self.s.line(format_args!("    {c} t{index}[{vector}];"));
        }
        self.load(&read, |index| format!("t{index}"));
        if !is_reduction {
            self.offsets(&(0..first).collect());
        }
        for (index, dtype) in outputs.iter().enumerate() {
            self.s.line(format_args!("    {} y{index}[{vector}];", c_type(*dtype)));
        }
        self.s.line(format_args!("#pragma unroll\n    for (int j = 0; j < {vector}; j++) {{"));
        if each > 0 {
            self.s.line(format_args!("      const int i = u * {vector} + j;"));
        }
        for k in &one.left {
            let c = c_type(self.steps[*k].outputs[0]);
            self.s.line(format_args!("      const {c} g{k} = h{k}[i];"));
        }
        for &k in &one.computed {
            let c = c_type(self.steps[k].outputs[0]);
            let call = self.arguments_of(&self.steps[k], &|_| format!("g{k}"));
            self.s.line(format_args!("      {c} g{k}; step{k}({call});"));
            if self.loops.cached.contains(&k) {
                self.s.line(format_args!("      h{k}[i] = g{k};"));
            }
        }
    }

    /// The arguments of a function at element `j` of a vector.
    fn arguments_of(&self, signature: &Signature, y: &dyn Fn(usize) -> String) -> String {
        let x = |index: usize| {
            if self.single.contains(&index) {
                format!("x{index}")
            } else if self.loops.kept.contains(&index) {
                format!("x{index}[i]")
            } else {
                format!("t{index}[j]")
            }
        };
        arguments_with(signature, &x, &|given| format!("g{}", self.firsts[given]), y)
    }

    /// Reduces row constant `k` along the row, into the state `whole{k}`: each thread its elements, into a
    /// few states that do not depend on each other, then the threads of the row.
    fn reduce(&mut self, k: usize, one: &SourceLoop) {
        let Cut { each, vector, lanes, .. } = self.plan.cut;
        let RowConstant::Reduced { reducer, .. } = &self.program.row_constants[k] else { return };
        // One accumulation waits for the one before. Few instructions join states of one number.
        let (elements, index) = if vector > 1 { (vector, "j") } else { (each.max(1), "u") };
        let states = if reducer.state.len() == 1 { elements.min(4) } else { 1 };
        let state = if states == 1 { "[0]".to_string() } else { format!("[{index} % {states}]") };
        let (signature, shared) = (self.steps[k].clone(), self.reductions % 2);
        self.reductions += 1;
        self.s.line(format_args!("  r{k}_State state{k}[{states}];\n#pragma unroll"));
        self.s.line(format_args!("  for (int k = 0; k < {states}; k++) state{k}[k] = r{k}_identity(a);"));
        self.begin_elements(one, &[]);
        let call = self.arguments_of(&signature, &|_| "value".to_string());
        self.s.line(format_args!("      {} value; step{k}({call});", c_type(signature.outputs[0])));
        self.s.line(format_args!(
            "      state{k}{state} = r{k}_accumulate(a, state{k}{state}, value, (i64)c * {vector} + j);\n    \
             }} }} }}"
        ));
        self.s.line(format_args!(
            "#pragma unroll\n  for (int half = {states} / 2; half > 0; half /= 2)\n#pragma unroll"
        ));
        self.s.line(format_args!(
            "    for (int k = 0; k < half; k++) state{k}[k] = r{k}_combine(a, state{k}[k], \
             state{k}[k + half]);"
        ));
        let room = if lanes > WARP { format!("(r{k}_State*)room[{shared}]") } else { "0".into() };
        self.s.line(format_args!(
            "  const r{k}_State whole{k} = r{k}_lanes_sync(a, state{k}[0], {lanes}, {room});"
        ));
    }

    /// The value of row constant `k`, from the state `whole` in the first lane.
    fn settle(&mut self, k: usize, whole: &str) {
        let Plan { cut: Cut { lanes, .. }, count, .. } = self.plan;
        self.s.line(format_args!(
            "  const auto g{k} = lane_first_sync(r{k}_finalize(a, {whole}, a.v[{count}]), {});",
            lanes.min(WARP)
        ));
    }

    /// Leaves the state of this block's part of the row, and ends the kernel.
    fn leave(&mut self, k: usize, RowShares { parts, states, .. }: RowShares, order: usize) {
        self.s.line(format_args!(
            "  if (lane == 0) ((r{k}_State*)a.v[{}])[(i64)row * a.v[{parts}] + blockIdx.y] = whole{k};\n}}",
            states + order
        ));
    }

    /// The value of row constant `k`, from the states that the blocks of the row left: each warp combines
    /// them.
    fn join(&mut self, k: usize, RowShares { parts, states, .. }: RowShares, order: usize) {
        self.s.line(format_args!(
            "  const r{k}_State part{k} = lane % {WARP} < (idx)a.v[{parts}] ? \
             ((const r{k}_State*)a.v[{}])[(i64)row * a.v[{parts}] + lane % {WARP}] : r{k}_identity(a);",
            states + order
        ));
        self.settle(k, &format!("r{k}_lanes_sync(a, part{k}, {WARP}, 0)"));
    }

    /// Computes and stores the row.
    fn store_row(&mut self, one: &SourceLoop) {
        let Plan { cut, step, .. } = self.plan;
        let last = std::mem::take(&mut self.last);
        self.begin_elements(one, &last.outputs);
        let call = self.arguments_of(&last, &|index| format!("y{index}[j]"));
        let guard = if cut.threads == cut.lanes { "" } else { "if (there) " };
        self.s.line(format_args!("      body({call});\n    }}\n    {guard}{{"));
        for (index, dtype) in last.outputs.iter().enumerate() {
            let (to, from) = (format!("p{index} + o{index}"), format!("y{index}"));
            self.kinds[index].store(
                &mut self.s,
                (c_type(*dtype), cut.vector),
                &to,
                &from,
                step_of(step, index),
            );
        }
        self.s.line(format_args!("    }} }} }}\n}}"));
    }
}
