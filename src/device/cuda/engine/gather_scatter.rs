//! `gather`, `scatter` and `compact`: moves of elements by index and by mask.
//!
//! Indices are checked before any element moves, and the host waits for the result of the check. An index out
//! of bounds is therefore an error of the same call. Elements are moved as words
//! (`codegen/element_words.rs`).
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::element_words::{strides_in_words, word_of, word_type};
use crate::device::cuda::codegen::operands::arguments;
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::sort;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::memory::byte_copies;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Init, OperandRef};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{GatherPlan, Op, SortPlan, trace_op};
use std::any::TypeId;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Columns of up to this many elements are scattered by one thread each.
const SHORT_COLUMN_ELEMENTS: usize = 64;
/// This many columns occupy a GPU, also with one thread for each.
const MANY_COLUMNS: usize = 4096;
/// Positions that one block of `compact` takes.
const CHUNK: usize = 1024;

/// The shape of a launch of at least `threads` threads.
fn shape_for(threads: usize) -> LaunchShape {
    LaunchShape { blocks: (block_count(threads.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 }
}

/// Begins a kernel with one thread for each position; word `count` is the number of positions.
fn begin(s: &mut SourceWriter, position: &str, count: usize) {
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!(
        "  const idx {position} = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if ({position} >= {}) return;",
        Word(count)
    ));
}

/// Checks all indices, and waits for the result.
///
/// # Errors
/// [`Error::Index`] if an index is out of bounds: of several, the largest as an unsigned number.
///
/// # Safety
/// As [`Device::gather`](crate::device::Device::gather), of `index` alone.
unsafe fn check_indices(stream: &Arc<Stream>, plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
    // A broadcast axis of the index is checked once.
    let sizes =
        plan.sizes.iter().zip(index.stride).map(|(&size, &step)| if step == 0 { size.min(1) } else { size });
    let sizes: Vec<usize> = sizes.collect();
    if sizes.contains(&0) {
        return Ok(());
    }
    let axes = Axes::of(&sizes, &[index], true);
    let found = CudaBlock::allocate(stream, 16, Init::Zeroed)?;
    let mut words = ArgBlock::new(is_wide(&[&axes], 0));
    let [numel, bound, report] =
        [axes.numel(), plan.bound, found.address().addr()].map(|word| words.push(word));
    let (at, index_args) = (words.operands(&[index]), words.axes(&axes));
    let key = KernelKey {
        mechanism: "check",
        types: [TypeId::of::<()>(); 2],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        begin(&mut s, "p", numel);
        s.line(format_args!("  idx o = 0;"));
        index_args.offsets(&mut s, "p", &[Some("o")]);
        s.line(format_args!("  const i64 index = ((const i64*)a.v[{at}])[o];"));
        // The largest index out of bounds, as an unsigned number, does not depend on the order of threads.
        s.line(format_args!("  u64* const report = (u64*)a.v[{report}];"));
        s.line(format_args!("  if ((u64)index >= (u64)a.v[{bound}]) {{ report[0] = 1; atomicMax(report + 1, (u64)index); }}\n}}"));
        Ok(s.text())
    })?;
    let mut report = [MaybeUninit::new(0u8); 16];
    // SAFETY: (1) the words are those of this source; (2) is the caller's promise, and `found` has 16 bytes.
    unsafe {
        stream.launch(plan.op, kernel, shape_for(axes.numel()), &words.list)?;
        byte_copies::read(stream, found.address(), &mut report)?;
    }
    // SAFETY: the bytes were initialized above.
    let report = report.map(|byte| unsafe { byte.assume_init() });
    let number = |at: usize| i64::from_ne_bytes(std::array::from_fn(|k| report[at + k]));
    match number(0) {
        0 => Ok(()),
        _ => Err(Error::Index {
            op: plan.op,
            index: [number(8) as isize].into(),
            axis: None,
            sizes: [plan.bound].into(),
        }),
    }
}

/// Queues a gather, after a check of the indices.
///
/// # Errors
/// [`Error::Index`] if an index is out of bounds; [`Error::OutOfMemory`]; those of the launches.
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
    // SAFETY: the caller's promise.
    unsafe { check_indices(stream, plan, index) }?;
    if to.element == 0 || plan.sizes.contains(&0) {
        return Ok(());
    }
    let (bytes, count) = word_of(to.element);
    let sizes: Vec<usize> = plan.sizes.iter().copied().chain([count]).collect();
    let strides = [
        strides_in_words(to.stride, count, 1),
        strides_in_words(cells.stride, count, 1),
        strides_in_words(index.stride, 1, 0),
    ];
    let strides: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
    let axes = Axes::coalesced(&sizes, &strides, true);
    // The offset by an index can be larger than those by the strides.
    let beyond = plan.step.unsigned_abs().saturating_mul(plan.bound).saturating_mul(count);
    let mut words = ArgBlock::new(is_wide(&[&axes], beyond));
    words.depends([bytes]);
    let (numel, step) =
        (words.push(axes.numel()), words.push(plan.step.wrapping_mul(count as isize) as usize));
    let (operands, gather_args) = (words.operands(&[to, cells, index]), words.axes(&axes));
    let key = KernelKey {
        mechanism: "gather",
        types: [TypeId::of::<()>(); 2],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        let (mut s, c) = (SourceWriter::new(), word_type(bytes));
        words.declare(&mut s);
        begin(&mut s, "p", numel);
        s.line(format_args!("  idx to = 0, cell = 0, at = 0;"));
        gather_args.offsets(&mut s, "p", &[Some("to"), Some("cell"), Some("at")]);
        s.line(format_args!("  const idx index = (idx)((const i64*)a.v[{}])[at];", operands + 2));
        s.line(format_args!(
            "  (({c}*)a.v[{operands}])[to] = ((const {c}*)a.v[{}])[cell + index * {}];\n}}",
            operands + 1,
            Word(step)
        ));
        Ok(s.text())
    })?;
    // SAFETY: (1) the words are those of this source; (2) is the caller's promise, and every index is in
    // bounds.
    unsafe { stream.launch(plan.op, kernel, shape_for(axes.numel()), &words.list) }
}

/// Queues a scatter, after a check of the indices.
///
/// Elements of one cell are combined in row-major order, by one thread. A thread takes a column, whose cells
/// no other column shares. If columns are few and long, elements are sorted by their cells, and a thread
/// takes the elements of one cell.
///
/// # Errors
/// [`Error::Index`] if an index is out of bounds; [`Error::Value`] for elements that kernels cannot compute
/// with; [`Error::OutOfMemory`]; those of the launches.
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
    // SAFETY: the caller's promise.
    unsafe { check_indices(stream, plan, index) }?;
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
    let sorted = leading.numel() > SHORT_COLUMN_ELEMENTS && own.numel() < MANY_COLUMNS;
    // The elements of a row are sorted together if they share one index.
    if sorted && own.strides[2].iter().any(|&step| step != 0) {
        (leading, own) = split(plan.sizes.len());
    }
    let (columns, along) = (own.numel(), leading.numel());
    let threads = if sorted { along.saturating_mul(columns) } else { columns };
    let reach = plan.step.unsigned_abs().saturating_mul(plan.bound);
    let mut words = ArgBlock::new(is_wide(&[&leading, &own], reach.max(threads)));
    let by_cell = if sorted { Some(ByCell::new(stream, plan.op, along, words.wide)?) } else { None };
    if let Some(by_cell) = &by_cell {
        words.operands(&by_cell.operands());
    }
    let [threads_at, columns_at, along_at, step] =
        [threads, columns, along, plan.step as usize].map(|word| words.push(word));
    let operands = words.operands(&slots);
    let (own_args, lead_args) = (words.axes(&own), words.axes(&leading));
    let launch =
        |part: &'static str, threads: usize, count: usize, text: &dyn Fn(&mut SourceWriter, &str, &str)| {
            let key = KernelKey {
                mechanism: part,
                types: [TypeId::of::<F>(), TypeId::of::<T>()],
                key_numbers: words.key_numbers.clone(),
            };
            let kernel = stream.kernel(key, || {
                let mut s = SourceWriter::new();
                words.declare(&mut s);
                let (cell, apply) = combine_into_cell::<T, F>(&mut s, operands, Word(step))?;
                begin(&mut s, "thread", count);
                text(&mut s, &cell, &apply);
                Ok(s.text())
            })?;
            // SAFETY: (1) the words are those of this source; (2) is the caller's promise, and every index is
            // in bounds.
            unsafe { stream.launch(plan.op, kernel, shape_for(threads), &words.list) }
        };
    let bases = |s: &mut SourceWriter, column: &str| {
        s.line(format_args!("  idx b0 = 0, b1 = 0, b2 = 0;"));
        own_args.offsets(s, column, &[Some("b0"), Some("b1"), Some("b2")]);
    };
    let element = |s: &mut SourceWriter, position: &str| {
        s.line(format_args!("    idx o0 = b0, o1 = b1, o2 = b2;"));
        lead_args.offsets(s, position, &[Some("o0"), Some("o1"), Some("o2")]);
    };
    let Some(by_cell) = &by_cell else {
        return launch("scatter", threads, threads_at, &|s, cell, apply| {
            bases(s, "thread");
            s.line(format_args!("  for (idx p = 0; p < {}; p++) {{", Word(along_at)));
            element(s, "p");
            s.line(format_args!("    const idx cell = {cell};\n    {apply}\n  }}\n}}"));
        });
    };
    launch("scatter keys", along, along_at, &|s, cell, _| {
        s.line(format_args!("  idx b0 = 0, b1 = 0, b2 = 0;"));
        element(s, "thread");
        s.line(format_args!("  ((idx*)a.v[{CELLS}])[thread] = {cell}; (void)o1;\n}}"));
    })?;
    // SAFETY: memory for all elements, and the cells are written.
    unsafe { by_cell.sort(stream, plan.op)? };
    launch("scatter cells", threads, threads_at, &|s, _, apply| {
        let columns = Word(columns_at);
        s.line(format_args!(
            "  const idx* const cells = (const idx*)a.v[{SORTED}]; const i64* const places = (const i64*)a.v[{POSITIONS}];"
        ));
        s.line(format_args!("  const idx first = thread / {columns}, along = {};", Word(along_at)));
        s.line(format_args!("  if (first > 0 && cells[first - 1] == cells[first]) return;"));
        bases(s, &format!("thread % {columns}"));
        s.line(format_args!("  for (idx k = first; k < along && cells[k] == cells[first]; k++) {{"));
        element(s, "(idx)places[k]");
        s.line(format_args!(
            "    const idx cell = b0 + cells[first]; (void)o0; (void)o2;\n    {apply}\n  }}\n}}"
        ));
    })
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

/// Adds the operator of a scatter. Returns the expression of a position's cell, and the statement that
/// combines the element at the position into the cell. `operands` is the index of the first operand's
/// address.
fn combine_into_cell<T: Element, F: Op<(T, T), Out = T>>(
    s: &mut SourceWriter,
    operands: usize,
    step: Word,
) -> Result<(String, String)> {
    let c = c_type(T::DTYPE);
    let signature = s.function("body", &trace_op::<F, (T, T)>()?, 0);
    let x = |index: usize| ["*to".to_string(), format!("(({c}*)a.v[{}])[o1]", operands + 1)][index].clone();
    let cell = format!("o0 + (idx)((const i64*)a.v[{}])[o2] * {}", operands + 2, step);
    let apply = format!(
        "{c}* const to = ({c}*)a.v[{operands}] + cell; {c} y0; body({}); *to = y0;",
        arguments(&signature, &x, &|_| "y0".to_string())
    );
    Ok((cell, apply))
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
