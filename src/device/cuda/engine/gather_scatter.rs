//! `gather`, `scatter` and `compact`: moves of elements by index and by mask.
//!
//! Each kernel checks the indices that it uses. An element whose index is out of bounds is read as 0, and is
//! not written; the kernel reports the index (`driver/index_report.rs`), and the host does not wait.
//!
//! The contiguous elements that share one index are a row. A few neighboring threads move a row, by words
//! of up to 16 bytes, and take its position apart once.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::element_words::{word_of, word_type};
use crate::device::cuda::codegen::operands::arguments;
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::codegen::vectors::{StrideClass, shared_width};
use crate::device::cuda::driver::index_report;
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::sort;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{GatherPlan, Op, SortPlan, trace_op};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Words of a row that a thread moves before the next part of the row.
const UNROLL: usize = 4;
/// Columns of up to this many elements are scattered by one thread each.
const SHORT_COLUMN_ELEMENTS: usize = 64;
/// This many threads occupy a GPU, also with whole columns for each.
const MANY_COLUMNS: usize = 4096;
/// Positions that one block of `compact` takes.
const CHUNK: usize = 1024;

/// The shape of a launch of at least `threads` threads.
fn shape_for(threads: usize) -> LaunchShape {
    LaunchShape { blocks: (block_count(threads.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 }
}

/// Begins a kernel with one thread for each position; word `count` is the number of positions.
fn begin(s: &mut SourceWriter, position: &str, count: usize) {
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}, 4) kernel(const Args a) {{"
    ));
    s.line(format_args!(
        "  const idx {position} = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if ({position} >= {}) return;",
        Word(count)
    ));
}

/// The threads of a kernel that moves rows: 2ᵏ neighbors take a row, and each of them `unroll` words of a
/// part of it.
#[derive(Clone, Copy)]
struct RowThreads {
    /// The exponent k.
    log_lanes: u32,
    unroll: usize,
    shape: LaunchShape,
}

impl RowThreads {
    /// For `rows` rows of `words` words.
    fn new(rows: usize, words: usize) -> RowThreads {
        // Up to 8 lanes take one word each: of 16 bytes, these are a cache line.
        let (few, many) = (words.clamp(1, 8), words.div_ceil(UNROLL).clamp(1, THREADS));
        let log_lanes = few.max(many).next_power_of_two().trailing_zeros();
        let unroll = if words <= 1 << log_lanes { 1 } else { UNROLL };
        let parts = words.div_ceil(unroll << log_lanes).clamp(1, 0xffff);
        let blocks = (block_count(rows.div_ceil(THREADS >> log_lanes)), parts as u32);
        RowThreads { log_lanes, unroll, shape: LaunchShape { blocks, threads: THREADS as u32, shared: 0 } }
    }

    /// Adds the words of [`begin`](Self::begin), and returns the index of the first.
    fn add_words(self, words: &mut ArgBlock, rows: usize, count: usize) -> usize {
        words.depends([self.unroll]);
        words.push(rows);
        words.push(count);
        words.push(self.log_lanes as usize) - 2
    }

    /// Begins a kernel: the row `row`, of `count` words, from word `w` of which the thread begins.
    fn begin(self, s: &mut SourceWriter, first: usize) {
        let (rows, count, log, unroll) = (Word(first), Word(first + 1), Word(first + 2), self.unroll);
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"
        ));
        s.line(format_args!("  const int t = threadIdx.x, log = (int){log};\n  const idx count = {count};"));
        s.line(format_args!("  const idx row = (idx)blockIdx.x * ({THREADS} >> log) + (t >> log);"));
        s.line(format_args!("  if (row >= {rows}) return;"));
        s.line(format_args!(
            "  const idx lane = t & ((1 << log) - 1), part = (idx){unroll} << log;\n  idx w = (idx)blockIdx.y * part + lane;"
        ));
    }

    /// Writes the loop over the parts of a row. In each, the thread takes the words `w + (u << log)` that are
    /// below `count`, for `u` up to `unroll`.
    fn each_part(self, s: &mut SourceWriter, each: &dyn Fn(&mut SourceWriter)) {
        s.line(format_args!("  for (; w < count; w += (idx)gridDim.y * part) {{"));
        each(s);
        s.line(format_args!("  }}"));
    }
}

/// The type of a word of `bytes` bytes, which one access moves.
fn access_type(bytes: usize) -> &'static str {
    if bytes == 16 { "Pack<u64, 2>" } else { word_type(bytes) }
}

/// Queues a gather.
///
/// # Errors
/// Those of the launch.
///
/// # Safety
/// As [`Device::gather`](crate::device::Device::gather).
pub(in crate::device::cuda) unsafe fn gather(
    stream: &Arc<Stream>,
    plan: GatherPlan<'_>,
    to: OperandRef<'_>,
    cells: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    if plan.sizes.contains(&0) {
        return Ok(());
    }
    let mut axes = Axes::of(plan.sizes, &[to, cells, index], true);
    let is_row = [axes.inner_stride(0), axes.inner_stride(1), axes.inner_stride(2)] == [1, 1, 0];
    let row_bytes = to.element * if is_row { axes.pop().numel() } else { 1 };
    // The largest power of two that divides every distance in bytes.
    let in_bytes = |step: isize| step.wrapping_mul(to.element as isize) as usize;
    let distances = axes.strides[..2].iter().flatten().copied().chain([plan.step]).map(in_bytes);
    let places = distances.fold(row_bytes | to.address.addr() | cells.address.addr(), |all, step| all | step);
    let bytes = 1 << places.trailing_zeros().min(4);
    let in_words = |step: isize| step.wrapping_mul(to.element as isize) / bytes as isize;
    axes.strides[..2].iter_mut().flatten().for_each(|step| *step = in_words(*step));
    let (count, step) = (row_bytes / bytes, in_words(plan.step));
    // The offset by an index can be larger than those by the strides.
    let beyond = step.unsigned_abs().saturating_mul(plan.bound).saturating_add(count);
    let threads = RowThreads::new(axes.numel(), count);
    let mut words = ArgBlock::new(is_wide(&[&axes], beyond));
    words.depends([bytes]);
    let row_words = threads.add_words(&mut words, axes.numel(), count);
    let [bound, step] = [plan.bound, step as usize].map(|word| words.push(word));
    let described = words.extend(&index_report::describe(plan.of, plan.bound));
    let (operands, row_args) = (words.operands(&[to, cells, index]), words.axes(&axes));
    let key = KernelKey {
        mechanism: "gather",
        types: [TypeId::of::<()>(); 2],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        let (mut s, c, unroll) = (SourceWriter::new(), access_type(bytes), threads.unroll);
        words.declare(&mut s);
        s.line(format_args!("{}", index_report::source(described)));
        threads.begin(&mut s, row_words);
        s.line(format_args!("  idx to = 0, cell = 0, at = 0;"));
        row_args.offsets(&mut s, "row", &[Some("to"), Some("cell"), Some("at")]);
        s.line(format_args!(
            "  const i64 index = ((const i64*)a.v[{}])[at];\n  const bool inside = (u64)index < (u64)a.v[{bound}];",
            operands + 2
        ));
        s.line(format_args!("  if (!inside && w == 0) report_index(a, index);"));
        s.line(format_args!(
            "  {c}* const into = ({c}*)a.v[{operands}] + to;\n  const {c}* const from = (const {c}*)a.v[{}] + cell + (inside ? (idx)index : 0) * {};",
            operands + 1,
            Word(step)
        ));
        threads.each_part(&mut s, &|s| {
            s.line(format_args!("    {c} x[{unroll}];\n#pragma unroll\n    for (int u = 0; u < {unroll}; u++) {{"));
            s.line(format_args!("      const idx k = w + ((idx)u << log);\n      x[u] = {c}{{}};"));
            s.line(format_args!("      if (inside && k < count) x[u] = from[k];\n    }}"));
            s.line(format_args!("#pragma unroll\n    for (int u = 0; u < {unroll}; u++) {{"));
            s.line(format_args!("      const idx k = w + ((idx)u << log);\n      if (k < count) into[k] = x[u];\n    }}"));
        });
        s.line(format_args!("}}"));
        Ok(s.text())
    })?;
    // SAFETY: (1) the words are those of this source; (2) is the caller's promise, and only cells whose index
    // is in bounds are read.
    unsafe { stream.launch(plan.op, kernel, threads.shape, &words.list) }
}

/// Queues a scatter.
///
/// Elements of one cell are combined in row-major order, by one thread. A thread takes a few neighboring
/// columns, whose cells no other column shares. If columns are few and long, elements are sorted by their
/// cells, and a thread takes the elements of one cell.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory); those of the launches.
///
/// # Safety
/// As [`Device::scatter`](crate::device::Device::scatter).
pub(in crate::device::cuda) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
    stream: &Arc<Stream>,
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    from: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    ensure_computable(plan.op, unsupported::<T>())?;
    if plan.sizes.contains(&0) {
        return Ok(());
    }
    let slots = [cells, from, index];
    let lead = plan.sizes.len() - plan.own;
    let split = |at: usize| {
        let (lead, own): (Vec<&[isize]>, Vec<&[isize]>) =
            slots.iter().map(|slot| slot.stride.split_at(at)).unzip();
        (Axes::coalesced(&plan.sizes[..at], &lead, false), Axes::coalesced(&plan.sizes[at..], &own, true))
    };
    let (mut leading, mut own) = split(lead);
    let shared = |own: &Axes, leading: &Axes| match own.inner_stride(2) {
        0 => shared_width(own, leading, &slots[..2], plan.step),
        _ => 1,
    };
    let mut width = shared(&own, &leading);
    let sorted = leading.numel() > SHORT_COLUMN_ELEMENTS && own.numel() / width < MANY_COLUMNS;
    // The elements of a row are sorted together if they share one index.
    if sorted && own.strides[2].iter().any(|&step| step != 0) {
        (leading, own) = split(plan.sizes.len());
        width = 1;
    }
    // A single column has no neighbors.
    let kinds = [0, 1]
        .map(|k| if width == 1 { StrideClass::Contiguous } else { StrideClass::of(own.inner_stride(k)) });
    let (vectors, along) = (own.chunked(width), leading.numel());
    let columns = vectors.numel();
    let reach = plan.step.unsigned_abs().saturating_mul(plan.bound);
    let mut words = ArgBlock::new(is_wide(&[&leading, &own], reach.max(along)));
    let by_cell = if sorted { Some(ByCell::new(stream, plan.op, along, words.wide)?) } else { None };
    if let Some(by_cell) = &by_cell {
        words.operands(&by_cell.operands());
    }
    words.depends([width, kinds[0] as usize, kinds[1] as usize]);
    let threads = RowThreads::new(along, columns);
    let row_words = threads.add_words(&mut words, along, columns);
    let [bound, step] = [plan.bound, plan.step as usize].map(|word| words.push(word));
    let described = words.extend(&index_report::describe(plan.of, plan.bound));
    let operands = words.operands(&slots);
    let (own_args, lead_args, inner_args) =
        (words.axes(&vectors), words.axes(&leading), words.axes(&own.fastest()));
    let scatter = ScatterSource { operands, bound, step, own_args, lead_args, inner_args, width, kinds };
    let launch = |part: &'static str, shape: LaunchShape, text: &dyn Fn(&mut SourceWriter) -> Result<()>| {
        let key = KernelKey {
            mechanism: part,
            types: [TypeId::of::<F>(), TypeId::of::<T>()],
            key_numbers: words.key_numbers.clone(),
        };
        let kernel = stream.kernel(key, || {
            let mut s = SourceWriter::new();
            words.declare(&mut s);
            s.line(format_args!("{}", index_report::source(described)));
            text(&mut s)?;
            Ok(s.text())
        })?;
        // SAFETY: (1) the words are those of this source; (2) is the caller's promise, and only cells whose
        // index is in bounds are accessed.
        unsafe { stream.launch(plan.op, kernel, shape, &words.list) }
    };
    let Some(by_cell) = &by_cell else {
        return launch("scatter", shape_for(columns), &|s| scatter.columns::<T, F>(s, row_words));
    };
    launch("scatter keys", shape_for(along), &|s| {
        scatter.keys(s, row_words);
        Ok(())
    })?;
    // SAFETY: memory for all elements, and the cells are written.
    unsafe { by_cell.sort(stream, plan.op)? };
    launch("scatter cells", threads.shape, &|s| scatter.cells::<T, F>(s, threads, row_words))
}

/// The first words of a scatter that sorts: the addresses of [`ByCell::operands`].
const CELLS: usize = 0;
const SORTED: usize = 1;
const POSITIONS: usize = 2;

/// The cells of elements, in the order of the elements and sorted, and the positions of the sorted ones.
struct ByCell {
    along: usize,
    /// Whether a cell has 64 bits.
    wide: bool,
    memory: [CudaBlock; 3],
}

impl ByCell {
    /// Allocates the memory for `along` elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn new(stream: &Arc<Stream>, op: &'static str, along: usize, wide: bool) -> Result<ByCell> {
        let [cell, position] = ByCell::element_sizes(wide);
        let room = |element: usize| CudaBlock::scratch(stream, sort::nbytes_of(op, [along, element])?);
        Ok(ByCell { along, wide, memory: [room(cell)?, room(cell)?, room(position)?] })
    }

    /// Bytes of a cell and of a position.
    fn element_sizes(wide: bool) -> [usize; 2] {
        [if wide { 8 } else { 4 }, 8]
    }

    fn operands(&self) -> [OperandRef<'_>; 3] {
        let [cell, position] = ByCell::element_sizes(self.wide);
        let operand =
            |at: usize, element| OperandRef { address: self.memory[at].address(), stride: &[1], element };
        [operand(CELLS, cell), operand(SORTED, cell), operand(POSITIONS, position)]
    }

    /// Queues the sort.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; those of the launches.
    ///
    /// # Safety
    /// The cells are written by work that is queued.
    unsafe fn sort(&self, stream: &Arc<Stream>, op: &'static str) -> Result<()> {
        let along = self.along;
        let plan = SortPlan { lines: &[], along, first: 0, keep: along, descending: false };
        let [cells, sorted, positions] = self.operands();
        let (sorted, positions) = (Some(sorted), Some(positions));
        // SAFETY: three blocks of their own, each for `along` elements; the caller's promise.
        unsafe {
            match self.wide {
                true => sort::run::<i64>(stream, op, plan, sorted, positions, cells),
                false => sort::run::<i32>(stream, op, plan, sorted, positions, cells),
            }
        }
    }
}

/// The cell of an element whose index is out of bounds: the largest number of type `idx`. It comes last.
const NO_CELL: &str = "((idx)(0xffffffffffffffffull >> (65 - 8 * sizeof(idx))))";

/// The words that the kernels of a scatter share, and the vectors of columns that a thread takes.
struct ScatterSource {
    /// Indices of words: the addresses of cells, elements and indices, the bound, the stride of the axis.
    operands: usize,
    bound: usize,
    step: usize,
    own_args: AxesArgs,
    lead_args: AxesArgs,
    /// The fastest axis of the columns.
    inner_args: AxesArgs,
    width: usize,
    /// Of cells and elements along that axis.
    kinds: [StrideClass; 2],
}

impl ScatterSource {
    /// Adds the operator, as `body`.
    fn body<T: Element, F: Op<(T, T), Out = T>>(&self, s: &mut SourceWriter) -> Result<Signature> {
        Ok(s.function("body", &trace_op::<F, (T, T)>()?, 0))
    }

    /// Writes the offsets of a position: of cells, elements and indices that are wanted, from 0.
    fn offsets(s: &mut SourceWriter, args: AxesArgs, position: &str, names: [Option<&str>; 3]) {
        for name in names.iter().flatten() {
            s.line(format_args!("  idx {name} = 0;"));
        }
        args.offsets(s, position, &names);
    }

    /// Writes the load of the index at offset `at`, and whether it is in bounds, as `index` and `inside`.
    fn index(&self, s: &mut SourceWriter, at: &str) {
        s.line(format_args!(
            "  const i64 index = ((const i64*)a.v[{}])[{at}];\n  const bool inside = (u64)index < (u64)a.v[{}];",
            self.operands + 2,
            self.bound
        ));
    }

    /// The stride of an operand along the fastest axis.
    fn inner_stride(&self, operand: usize) -> String {
        if self.width == 1 { "1".into() } else { self.inner_args.stride(operand).to_string() }
    }

    /// Writes the load of the cells at `into`, if the operator reads them.
    fn load_cells(&self, s: &mut SourceWriter, signature: &Signature, c: &str) {
        s.line(format_args!("    {c} old[{}];", self.width));
        if signature.inputs.contains_key(&0) {
            self.kinds[0].load(s, (c, self.width), "old", "into", self.inner_stride(0));
        }
    }

    /// Writes the combination of the elements at offset `at` into `old`.
    fn combine(&self, s: &mut SourceWriter, signature: &Signature, c: &str, at: &str) {
        let (width, from) = (self.width, format!("(const {c}*)a.v[{}] + {at}", self.operands + 1));
        s.line(format_args!("    const {c}* const from = {from};\n    {c} x[{width}];"));
        self.kinds[1].load(s, (c, width), "x", "from", self.inner_stride(1));
        let input = |index: usize| ["old[j]", "x[j]"][index].to_string();
        let call = arguments(signature, &input, &|_| "y".to_string());
        s.line(format_args!(
            "#pragma unroll\n    for (int j = 0; j < {width}; j++) {{ {c} y; body({call}); old[j] = y; }}"
        ));
    }

    fn store_cells(&self, s: &mut SourceWriter, c: &str) {
        self.kinds[0].store(s, (c, self.width), "into", "old", self.inner_stride(0));
    }

    /// A thread takes all elements of a few columns.
    fn columns<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        s: &mut SourceWriter,
        row_words: usize,
    ) -> Result<()> {
        let (signature, c) = (self.body::<T, F>(s)?, c_type(T::DTYPE));
        begin(s, "column", row_words + 1);
        Self::offsets(s, self.own_args, "column", [Some("b0"), Some("b1"), Some("b2")]);
        s.line(format_args!("  for (idx p = 0; p < {}; p++) {{", Word(row_words)));
        s.line(format_args!("  idx o0 = b0, o1 = b1, o2 = b2;"));
        self.lead_args.offsets(s, "p", &[Some("o0"), Some("o1"), Some("o2")]);
        self.index(s, "o2");
        s.line(format_args!("    if (!inside) {{ report_index(a, index); continue; }}"));
        s.line(format_args!(
            "    {c}* const into = ({c}*)a.v[{}] + o0 + (idx)index * {};",
            self.operands,
            Word(self.step)
        ));
        self.load_cells(s, &signature, c);
        self.combine(s, &signature, c, "o1");
        self.store_cells(s, c);
        s.line(format_args!("  }}\n}}"));
        Ok(())
    }

    /// A thread takes the offset of the cell of a position.
    fn keys(&self, s: &mut SourceWriter, row_words: usize) {
        begin(s, "thread", row_words);
        s.line(format_args!("  idx cell = {NO_CELL};"));
        Self::offsets(s, self.lead_args, "thread", [Some("o0"), None, Some("o2")]);
        self.index(s, "o2");
        s.line(format_args!(
            "  if (inside) cell = o0 + (idx)index * {};\n  else report_index(a, index);",
            Word(self.step)
        ));
        s.line(format_args!("  ((idx*)a.v[{CELLS}])[thread] = cell;\n}}"));
    }

    /// Some threads take the elements of one cell, each those of a few columns.
    fn cells<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        s: &mut SourceWriter,
        threads: RowThreads,
        row_words: usize,
    ) -> Result<()> {
        let (signature, c) = (self.body::<T, F>(s)?, c_type(T::DTYPE));
        threads.begin(s, row_words);
        s.line(format_args!(
            "  const idx* const cells = (const idx*)a.v[{SORTED}];\n  \
             const i64* const places = (const i64*)a.v[{POSITIONS}];"
        ));
        s.line(format_args!("  const idx cell = cells[row], along = {};", Word(row_words)));
        s.line(format_args!("  if (cell == {NO_CELL} || row > 0 && cells[row - 1] == cell) return;"));
        threads.each_part(s, &|s| {
            s.line(format_args!("  for (idx u = 0; u < {}; u++) {{", threads.unroll));
            s.line(format_args!("    const idx column = w + (u << log);\n    if (column >= count) break;"));
            Self::offsets(s, self.own_args, "column", [Some("b0"), Some("b1"), None]);
            s.line(format_args!("    {c}* const into = ({c}*)a.v[{}] + b0 + cell;", self.operands));
            self.load_cells(s, &signature, c);
            s.line(format_args!("    for (idx k = row; k < along && cells[k] == cell; k++) {{"));
            s.line(format_args!("    idx o1 = b1;"));
            self.lead_args.offsets(s, "(idx)places[k]", &[None, Some("o1"), None]);
            self.combine(s, &signature, c, "o1");
            s.line(format_args!("    }}"));
            self.store_cells(s, c);
            s.line(format_args!("  }}"));
        });
        s.line(format_args!("}}"));
        Ok(())
    }
}

/// Queues a compaction, in three passes.
///
/// # Errors
/// [`Error::OutOfMemory`]; those of the launches.
///
/// # Safety
/// As [`Device::compact`](crate::device::Device::compact).
pub(in crate::device::cuda) unsafe fn compact(
    stream: &Arc<Stream>,
    sizes: &[usize],
    to: OperandRef<'_>,
    from: OperandRef<'_>,
    mask: OperandRef<'_>,
) -> Result<()> {
    if sizes.contains(&0) || to.element == 0 {
        return Ok(());
    }
    let axes = Axes::of(sizes, &[from, mask], false);
    let (bytes, count) = word_of(to.element);
    let chunks = axes.numel().div_ceil(CHUNK);
    let counts = CudaBlock::scratch(stream, chunks * 8)?;
    let mut words = ArgBlock::new(is_wide(&[&axes], 0));
    words.depends([bytes]);
    for word in [axes.numel(), chunks, counts.address().addr(), to.stride[0] as usize, count] {
        words.push(word);
    }
    words.operands(&[to, from, mask]);
    let mask_args = words.axes(&axes);
    let pass = |pass: u32| {
        let key_numbers = words.key_numbers.iter().copied().chain([pass]).collect();
        let key = KernelKey { mechanism: "compact", types: [TypeId::of::<()>(); 2], key_numbers };
        stream.kernel(key, || Ok(compact_source(pass, mask_args, &words, word_type(bytes))))
    };
    let shape =
        |blocks: usize| LaunchShape { blocks: (block_count(blocks), 1), threads: THREADS as u32, shared: 0 };
    // SAFETY: (1) the words are those of `compact_source`; (2) is the caller's promise.
    unsafe {
        stream.launch("compact", pass(0)?, shape(chunks), &words.list)?;
        stream.launch("compact", pass(1)?, shape(1), &words.list)?;
        stream.launch("compact", pass(2)?, shape(chunks), &words.list)
    }
}

/// The source of a pass of `compact`: 0 counts the selected elements of each chunk, 1 sums the counts before
/// each chunk, 2 moves the elements. Words: 0 is the number of positions, 1 of chunks, 2 the address of the
/// counts, 3 the stride of the output, 4 the words of an element, 5 to 7 the addresses of output, input and
/// mask.
fn compact_source(pass: u32, mask_args: AxesArgs, words: &ArgBlock, c: &str) -> String {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ i64 shared[{THREADS}];\n  i64* const counts = (i64*)a.v[2];\n  const int t = threadIdx.x;"));
    let scan = format!(
        "    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();\n      const i64 sum = shared[t] + (t >= far ? shared[t - far] : 0);\n      __syncthreads();\n      shared[t] = sum;\n    }}\n    __syncthreads();"
    );
    if pass == 1 {
        s.line(format_args!("  i64 before = 0;\n  for (i64 tile = 0; tile < a.v[1]; tile += {THREADS}) {{"));
        s.line(format_args!(
            "    const i64 own = tile + t < a.v[1] ? counts[tile + t] : 0;\n    shared[t] = own;\n{scan}"
        ));
        s.line(format_args!("    if (tile + t < a.v[1]) counts[tile + t] = before + shared[t] - own;"));
        s.line(format_args!("    before += shared[{THREADS} - 1];\n    __syncthreads();\n  }}\n}}"));
        return s.text();
    }
    let each = CHUNK / THREADS;
    s.line(format_args!(
        "  const idx first = (idx)blockIdx.x * {CHUNK} + t * {each};\n  i64 own = 0; bool picked[{each}]; idx at[{each}];"
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    picked[u] = false; at[u] = 0;\n    if (first + u < (idx)a.v[0]) {{\n      idx from = 0, mask = 0;"));
    mask_args.offsets(&mut s, "first + u", &[Some("from"), Some("mask")]);
    s.line(format_args!(
        "      picked[u] = ((const bool*)a.v[7])[mask]; at[u] = from; own += picked[u];\n    }}\n  }}\n  shared[t] = own;\n{scan}"
    ));
    if pass == 0 {
        s.line(format_args!("  if (t == 0) counts[blockIdx.x] = shared[{THREADS} - 1];\n}}"));
        return s.text();
    }
    s.line(format_args!(
        "  i64 to = counts[blockIdx.x] + shared[t] - own;\n  const i64 step = a.v[3], words = a.v[4];"
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) if (picked[u]) {{"));
    s.line(format_args!(
        "    for (i64 w = 0; w < words; w++) (({c}*)a.v[5])[to * step * words + w] = ((const {c}*)a.v[6])[(i64)at[u] * words + w];"
    ));
    s.line(format_args!("    to++;\n  }}\n}}"));
    s.text()
}
