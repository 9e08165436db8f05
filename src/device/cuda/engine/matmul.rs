//! `contract`: products that sum over axes. Plain matrices go to cuBLAS (`cublas.rs`). The kernel of this
//! file serves all others: tiles of the output in registers, panels of the operands in shared memory.
//!
//! Operands are not packed, and may have any strides: each of the four groups of axes is one index, which the
//! kernel divides into the indices of its axes. The windows of a convolution are such an operand, so that the
//! kernel is an implicit GEMM there.
//!
//! The threads of a warp write neighbors of the output: the operands are exchanged if those are its rows. For
//! each operand they load neighbors along the axis on which the operand is denser. The offsets of a panel's
//! positions along the summed axes are computed once for the block, two steps ahead, and the elements of the
//! next panels are in flight while the current ones are multiplied.
//!
//! If tiles are few and sums long, the slowest of the summed axes is cut into parts (split-K): the parts of a
//! product are products of a longer batch, and a second kernel adds them.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::cublas::{self, PlainProduct};
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::{DType, Prim};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block: a square of 16 by 16, each with a tile of the output.
const THREADS: usize = 256;
/// Threads of a block along each side of the square.
const SIDE: usize = 16;
/// Depth of a panel: the products of each sum that one step of the kernel adds.
const DEPTH: usize = 16;
/// The least products of a part of a sum.
const PART_DEPTH: usize = 256;
/// Blocks for each multiprocessor: so many run at a time.
const BLOCKS: usize = 2;
/// Elements of an operand that a thread reads from shared memory at a time.
const VECTOR: usize = 4;

/// The rows and columns of the output that a thread computes, for sums of `size` bytes: at most 32 registers.
/// Positions of 64 bits (`wide`) take two registers each, and leave fewer to sums.
const fn tile_of(size: usize, wide: bool) -> [usize; 2] {
    match size {
        ..=4 if !wide => [4, 8],
        ..=8 => [4, 4],
        _ => [2, 4],
    }
}

/// The four groups of axes of a product, each with the strides of the output and of both operands. An operand
/// without the group's axes is broadcast.
struct Groups {
    batch: Axes,
    rows: Axes,
    columns: Axes,
    along: Axes,
}

impl Groups {
    fn new(plan: ContractPlan<'_>, o: &[isize], l: &[isize], r: &[isize]) -> Groups {
        let (b, m, k, n) = (plan.batch.len(), plan.m.len(), plan.k.len(), plan.n.len());
        let none: &[isize] = &[];
        let batch = Axes::coalesced(plan.batch, &[&o[..b], &l[..b], &r[..b]], true);
        let rows = Axes::coalesced(plan.m, &[&o[b..b + m], &l[b..b + m], none], true);
        let columns = Axes::coalesced(plan.n, &[&o[b + m..b + m + n], none, &r[b + k..b + k + n]], true);
        let (of_left, of_right) = (&l[b + m..b + m + k], &r[b..b + k]);
        // In the order of the larger operand.
        let along = if rows.numel() >= columns.numel() {
            let mut along = Axes::coalesced(plan.k, &[of_left, of_right, none], true);
            along.strides.rotate_right(1);
            along
        } else {
            let mut along = Axes::coalesced(plan.k, &[of_right, none, of_left], true);
            along.strides.rotate_left(1);
            along
        };
        Groups { batch, rows, columns, along }
    }

    /// Whether the rows are denser in the output than the columns.
    fn has_dense_rows(&self) -> bool {
        inner(&self.rows, 0) < inner(&self.columns, 0)
    }

    /// The transposed product: the operands, and rows and columns, are exchanged.
    fn transposed(self) -> Groups {
        let exchanged = |mut axes: Axes| {
            axes.strides.swap(1, 2);
            axes
        };
        Groups {
            batch: exchanged(self.batch),
            rows: exchanged(self.columns),
            columns: exchanged(self.rows),
            along: exchanged(self.along),
        }
    }
}

/// The distance of neighbors in an operand along the fastest of these axes; the largest number without axes.
fn inner(axes: &Axes, operand: usize) -> usize {
    if axes.rank() == 0 { usize::MAX } else { axes.inner_stride(operand).unsigned_abs() }
}

/// Queues a product. With `tf32` cuBLAS may round factors of f32 to TF32.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with; those of the
/// launches; the report of cuBLAS.
///
/// # Safety
/// As [`Device::contract`](crate::device::Device::contract).
pub(in crate::device::cuda) unsafe fn run<T: Number, L: Number, R: Number>(
    stream: &Arc<Stream>,
    plan: ContractPlan<'_>,
    tf32: bool,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<()> {
    ensure_computable("contract", unsupported::<T>().or(unsupported::<L>()).or(unsupported::<R>()))?;
    if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
        return Ok(());
    }
    let groups = Groups::new(plan, output.stride, left.stride, right.stride);
    let depth = if plan.k.contains(&0) { 0 } else { groups.along.numel() };
    if depth > 0
        && let Some(plain) = PlainProduct::of(&groups.batch, &groups.rows, &groups.columns, &groups.along)
        // SAFETY: the caller's promise.
        && unsafe { cublas::run(stream, &plain, [T::DTYPE, L::DTYPE, R::DTYPE], tf32, output, left, right) }?
    {
        return Ok(());
    }
    // SAFETY: the caller's promise; a transposed product has the same elements.
    unsafe {
        if groups.has_dense_rows() {
            let operands = [output, right, left];
            multiply_by_parts(stream, groups.transposed(), depth, operands, &ProductTypes::of::<T, R, L>())
        } else {
            let operands = [output, left, right];
            multiply_by_parts(stream, groups, depth, operands, &ProductTypes::of::<T, L, R>())
        }
    }
}

/// The types of a product: those of the output, the sums and the operands, and the bytes of a sum.
struct ProductTypes {
    dtypes: [DType; 4],
    ids: [TypeId; 2],
    /// That of a sum.
    sum_id: TypeId,
    sum_nbytes: usize,
}

impl ProductTypes {
    fn of<T: Number, L: Number, R: Number>() -> ProductTypes {
        ProductTypes {
            dtypes: [T::DTYPE, <Compute<T> as Prim>::DTYPE, L::DTYPE, R::DTYPE],
            ids: [TypeId::of::<T>(), TypeId::of::<(L, R)>()],
            sum_id: TypeId::of::<Compute<T>>(),
            sum_nbytes: size_of::<Compute<T>>(),
        }
    }
}

/// The parts of a sum of `depth` products: 1 if the tiles of all products occupy the GPU.
fn parts_of(stream: &Stream, groups: &Groups, depth: usize, sum_nbytes: usize) -> usize {
    let [down, across] = tile_of(sum_nbytes, false);
    let tiles = groups.rows.numel().div_ceil(SIDE * down) * groups.columns.numel().div_ceil(SIDE * across);
    let blocks = tiles.saturating_mul(groups.batch.numel());
    let most = (BLOCKS * stream.gpu.context.multiprocessors / blocks).min(depth / PART_DEPTH);
    let outer = groups.along.sizes.first().copied().unwrap_or(1);
    (2..=most.min(outer)).rev().find(|parts| outer.is_multiple_of(*parts)).unwrap_or(1)
}

/// Launches the kernel, in parts of the sums if tiles are few.
///
/// # Safety
/// As [`run`], where the operands are the output, the left, the right.
unsafe fn multiply_by_parts(
    stream: &Arc<Stream>,
    mut groups: Groups,
    depth: usize,
    operands: [OperandRef<'_>; 3],
    types: &ProductTypes,
) -> Result<()> {
    let parts = parts_of(stream, &groups, depth, types.sum_nbytes);
    if parts == 1 {
        // SAFETY: the caller's promise.
        return unsafe { launch(stream, &groups, depth, operands, types) };
    }
    let whole = [&groups.batch, &groups.rows, &groups.columns].map(Axes::clone);
    let count = whole.iter().fold(1usize, |count, axes| count.saturating_mul(axes.numel()));
    let nbytes = count.saturating_mul(parts).saturating_mul(types.sum_nbytes);
    let scratch = CudaBlock::scratch(stream, nbytes)?;
    // The parts are the slowest axis of the batch; the sums are contiguous.
    let (along, batch) = (&mut groups.along, &mut groups.batch);
    along.sizes[0] /= parts;
    batch.sizes.insert(0, parts);
    for (operand, steps) in batch.strides.iter_mut().enumerate() {
        steps.insert(0, along.strides[operand][0].wrapping_mul(along.sizes[0] as isize));
    }
    let mut step = 1;
    for axes in [&mut groups.columns, &mut groups.rows, &mut groups.batch] {
        for (stride, &size) in axes.strides[0].iter_mut().zip(&axes.sizes).rev() {
            *stride = step;
            step = step.wrapping_mul(size as isize);
        }
    }
    let sums = OperandRef { address: scratch.address(), stride: &[], element: types.sum_nbytes };
    let [_, sum, left, right] = types.dtypes;
    let of_parts =
        ProductTypes { dtypes: [sum, sum, left, right], ids: [types.sum_id, types.ids[1]], ..*types };
    // SAFETY: the parts cover the products of each sum once, and the scratch memory has an element for each.
    unsafe { launch(stream, &groups, depth / parts, [sums, operands[1], operands[2]], &of_parts) }?;
    // SAFETY: as above; the output is the caller's promise.
    unsafe { add_parts(stream, &whole, parts, [operands[0], sums], types) }
}

/// Adds the parts of sums, which are contiguous one after the other, and writes them to the output.
///
/// # Safety
/// The operands are the output, with an element for each index of `axes`, and the parts.
unsafe fn add_parts(
    stream: &Arc<Stream>,
    axes: &[Axes; 3],
    parts: usize,
    operands: [OperandRef<'_>; 2],
    types: &ProductTypes,
) -> Result<()> {
    let [out, sum, ..] = types.dtypes.map(c_type);
    let sizes = axes.each_ref().map(Axes::numel);
    let count = sizes.iter().product::<usize>();
    let of_output = axes
        .each_ref()
        .map(|axes| Axes { sizes: axes.sizes.clone(), strides: vec![axes.strides[0].clone()] });
    let [batch, rows, columns] = &of_output;
    let mut words = ArgBlock::new(is_wide(&[batch, rows, columns], parts.saturating_mul(count)));
    let [count_at, parts_at, height, width] = [count, parts, sizes[1], sizes[2]].map(|word| words.push(word));
    let to = words.operands(&operands);
    let args = of_output.each_ref().map(|axes| words.axes(axes));
    let key = KernelKey {
        mechanism: "add_parts",
        types: [types.ids[0], types.sum_id],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{
  const idx at = (idx)blockIdx.x * {THREADS} + threadIdx.x, count = {}, parts = {};
  if (at >= count) return;
  const {sum}* const of_parts = (const {sum}*)a.v[{}];
  {sum} sum = of_parts[at];
  for (idx part = 1; part < parts; part++) sum = Add(sum, of_parts[part * count + at]);
  const idx height = {}, width = {}, i = at / width, j = at % width;
  idx o = 0;",
            Word(count_at),
            Word(parts_at),
            to + 1,
            Word(height),
            Word(width),
        ));
        for (args, index) in args.iter().zip(["i / height", "i % height", "j"]) {
            args.offsets(&mut s, index, &[Some("o")]);
        }
        s.line(format_args!("  (({out}*)a.v[{to}])[o] = cast<{out}>(sum);\n}}"));
        Ok(s.text())
    })?;
    let blocks = block_count(count.div_ceil(THREADS));
    let shape = LaunchShape { blocks: (blocks, 1), threads: THREADS as u32, shared: 0 };
    // SAFETY: (1) the words are those of the source; (2) is the caller's promise.
    unsafe { stream.launch("contract", kernel, shape, &words.list) }
}

/// Launches the kernel for these groups of axes; sums have `depth` products.
///
/// # Safety
/// As [`run`], where the operands are the output, the left, the right.
unsafe fn launch(
    stream: &Arc<Stream>,
    groups: &Groups,
    depth: usize,
    operands: [OperandRef<'_>; 3],
    types: &ProductTypes,
) -> Result<()> {
    let Groups { batch, rows, columns, along } = groups;
    let (height, width) = (rows.numel(), columns.numel());
    let mut words = ArgBlock::new(is_wide(&[batch, rows, columns, along], 0));
    let [height_at, width_at, depth_at] = [height, width, depth].map(|word| words.push(word));
    let operands = words.operands(&operands);
    let axes = [batch, rows, columns, along].map(|axes| words.axes(axes));
    let first_at = words.push(0);
    let by_depth = [inner(along, 1) <= inner(rows, 1), inner(along, 2) < inner(columns, 2)];
    words.depends(by_depth.map(usize::from));
    let tile = tile_of(types.sum_nbytes, words.wide);
    let plan = Plan {
        sizes: [height_at, width_at, depth_at],
        operands,
        groups: axes,
        first: first_at,
        by_depth,
        tile,
    };
    let key = KernelKey { mechanism: "contract", types: types.ids, key_numbers: words.key_numbers.clone() };
    let kernel = stream.kernel(key, || Ok(source(types.dtypes, &words, plan)))?;
    let tiles = height.div_ceil(SIDE * tile[0]) * width.div_ceil(SIDE * tile[1]);
    // The second dimension of blocks is limited. A long batch takes several launches, each with its first
    // product.
    let count = batch.numel();
    let mut first = 0;
    while first < count {
        let part = (count - first).min(1 << 15);
        words.list[first_at] = first as i64;
        let shape =
            LaunchShape { blocks: (block_count(tiles), part as u32), threads: THREADS as u32, shared: 0 };
        // SAFETY: (1) the words are those of `source`; (2) is the caller's promise.
        unsafe { stream.launch("contract", kernel, shape, &words.list) }?;
        first += part;
    }
    Ok(())
}

/// The indices of the words: height, width and depth; the operands; batch, rows, columns and summed axes; the
/// first product of the launch. And the form of the kernel: whether the threads of a warp load neighbors
/// along the summed axes, of each operand; rows and columns of a thread.
#[derive(Clone, Copy)]
struct Plan {
    sizes: [usize; 3],
    operands: usize,
    groups: [AxesArgs; 4],
    first: usize,
    by_depth: [bool; 2],
    tile: [usize; 2],
}

/// A panel of an operand in shared memory: at each position along the summed axes, the elements of the rows
/// or columns of a block's tile.
struct Panel<'a> {
    /// The names of its variables start with this.
    name: &'a str,
    /// The operand: 1 is the left, 2 the right.
    operand: usize,
    /// The elements at a position.
    width: usize,
    by_depth: bool,
    /// The first row or column of the tile, and their number in the output.
    first: &'a str,
    count: &'a str,
    /// The axes of the rows or columns.
    axes: AxesArgs,
    /// The type of the elements in memory, and of the products.
    types: [&'a str; 2],
}

impl Panel<'_> {
    /// The distance of positions in the panel: a vector more than its width, which spreads the threads that
    /// store at neighboring positions over the banks.
    fn pitch(&self) -> usize {
        self.width + VECTOR
    }

    /// The elements that a thread loads.
    fn loads(&self) -> usize {
        self.width * DEPTH / THREADS
    }

    /// The position along the summed axes and the row or column of a thread's load `q`.
    fn place(&self, q: usize) -> [String; 2] {
        if self.by_depth {
            [format!("(t % {DEPTH})"), format!("(t / {DEPTH} + {})", THREADS / DEPTH * q)]
        } else {
            [format!("(t / {} + {})", self.width, THREADS / self.width * q), format!("(t % {})", self.width)]
        }
    }

    /// Declares the offsets of a thread's rows or columns, from the offset `base` of the product, and the
    /// elements in flight.
    fn declare(&self, s: &mut SourceWriter, base: &str) {
        let (name, loads) = (self.name, self.loads());
        let offsets = if self.by_depth { loads } else { 1 };
        s.line(format_args!("  idx {name}_at[{offsets}]; {} {name}_next[{loads}];", self.types[1]));
        for q in 0..offsets {
            let [_, place] = self.place(q);
            s.line(format_args!("  {{ const idx i = {} + {place}; idx o = {base};", self.first));
            let mut into = [None; 3];
            into[self.operand] = Some("o");
            self.axes.offsets(s, &format!("(i < {} ? i : 0)", self.count), &into);
            s.line(format_args!("    {name}_at[{q}] = o; }}"));
        }
    }

    /// Loads the elements of the panel at the positions from `k0` on, whose offsets are in row `table`.
    fn load(&self, s: &mut SourceWriter, k0: &str, table: &str, address: usize) {
        let (name, [stored, computed]) = (self.name, self.types);
        for q in 0..self.loads() {
            let [k, place] = self.place(q);
            let at = if self.by_depth { q } else { 0 };
            s.line(format_args!(
                "    {name}_next[{q}] = {k0} + {k} < depth && {} + {place} < {}\n      \
                 ? cast<{computed}>(((const {stored}*)a.v[{address}])\
                 [{name}_at[{at}] + along[{table}][{}][{k}]])\n      \
                 : cast<{computed}>((i32)0);",
                self.first,
                self.count,
                self.operand - 1,
            ));
        }
    }

    /// Stores the loaded elements into the panel.
    fn store(&self, s: &mut SourceWriter) {
        for q in 0..self.loads() {
            let [k, place] = self.place(q);
            s.line(format_args!("    {0}[{k} * {1} + {place}] = {0}_next[{q}];", self.name, self.pitch()));
        }
    }
}

/// The source of the kernel.
fn source([out, computed, left, right]: [DType; 4], words: &ArgBlock, plan: Plan) -> String {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let Plan { sizes: [height, width, depth], operands, groups, first, by_depth, tile } = plan;
    let ([batch, rows, columns, along], [down, across]) = (groups, tile);
    let c = c_type(computed);
    let panel = |name, operand: usize, axes, count, first, stored| Panel {
        name,
        operand,
        width: SIDE * tile[operand - 1],
        by_depth: by_depth[operand - 1],
        first,
        count,
        axes,
        types: [c_type(stored), c],
    };
    let left = panel("left", 1, rows, "height", "top", left);
    let right = panel("right", 2, columns, "width", "side", right);
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}, 2) kernel(const Args a) {{"
    ));
    let nbytes = |panel: &Panel<'_>| format!("sizeof({c}) * {}", DEPTH * panel.pitch());
    s.line(format_args!("  __shared__ __align__(16) u8 left_panel[{}];", nbytes(&left)));
    s.line(format_args!("  __shared__ __align__(16) u8 right_panel[{}];", nbytes(&right)));
    s.line(format_args!("  __shared__ idx along[2][2][{DEPTH}];"));
    s.line(format_args!("  {c}* const left = ({c}*)left_panel;\n  {c}* const right = ({c}*)right_panel;"));
    s.line(format_args!(
        "  const idx height = {}, width = {}, depth = {};",
        Word(height),
        Word(width),
        Word(depth)
    ));
    s.line(format_args!(
        "  const idx tiles = (width + {0}) / {1};\n  const idx top = (idx)blockIdx.x / tiles * {2}, \
         side = (idx)blockIdx.x % tiles * {1};",
        right.width - 1,
        right.width,
        left.width
    ));
    s.line(format_args!(
        "  const int t = threadIdx.x, x = t % {SIDE}, y = t / {SIDE};\n  idx b0 = 0, b1 = 0, b2 = 0;"
    ));
    batch.offsets(
        &mut s,
        &format!("({} + (idx)blockIdx.y)", Word(first)),
        &[Some("b0"), Some("b1"), Some("b2")],
    );
    left.declare(&mut s, "b1");
    right.declare(&mut s, "b2");
    s.line(format_args!(
        "  {c} sum[{down}][{across}];\n#pragma unroll\n  for (int i = 0; i < {down}; i++)\n\
         #pragma unroll\n    for (int j = 0; j < {across}; j++) sum[i][j] = cast<{c}>((i32)0);"
    ));
    // The offsets of the first two panels; in the loop, of the panel after the next.
    let offsets = |s: &mut SourceWriter, k0: &str, table: &str| {
        s.line(format_args!("    {{ const idx k = {k0}; idx l = 0, r = 0;"));
        along.offsets(s, "(k < depth ? k : 0)", &[None, Some("l"), Some("r")]);
        s.line(format_args!(
            "      along[{table}][0][t % {DEPTH}] = l; along[{table}][1][t % {DEPTH}] = r; }}"
        ));
    };
    s.line(format_args!("  if (t < {} && depth > 0) {{", 2 * DEPTH));
    offsets(&mut s, "t", &format!("t / {DEPTH}"));
    s.line(format_args!("  }}\n  __syncthreads();"));
    left.load(&mut s, "0", "0", operands + 1);
    right.load(&mut s, "0", "0", operands + 2);
    s.line(format_args!("  int table = 1;\n  for (idx k0 = 0; k0 < depth; k0 += {DEPTH}, table ^= 1) {{"));
    left.store(&mut s);
    right.store(&mut s);
    s.line(format_args!("    __syncthreads();"));
    let next = format!("(k0 + {DEPTH})");
    left.load(&mut s, &next, "table", operands + 1);
    right.load(&mut s, &next, "table", operands + 2);
    s.line(format_args!("    if (t < {DEPTH}) {{"));
    offsets(&mut s, &format!("k0 + {} + t", 2 * DEPTH), "table ^ 1");
    s.line(format_args!("    }}"));
    multiply(&mut s, c, &left, &right, tile);
    s.line(format_args!("    __syncthreads();\n  }}"));
    store(&mut s, c_type(out), operands, [rows, columns], tile);
    s.line(format_args!("}}"));
    s.text()
}

/// Writes the products of two panels: each thread reads vectors of both at each position.
fn multiply(s: &mut SourceWriter, c: &str, left: &Panel<'_>, right: &Panel<'_>, [down, across]: [usize; 2]) {
    let vector = down.min(VECTOR);
    s.line(format_args!(
        "#pragma unroll\n    for (int d = 0; d < {DEPTH}; d++) {{\n      {c} l[{down}], r[{across}];"
    ));
    s.line(format_args!("      load<{c}, {vector}>(l, left + d * {} + y * {down});", left.pitch()));
    for part in 0..across / VECTOR {
        s.line(format_args!(
            "      load<{c}, {VECTOR}>(r + {}, right + d * {} + {} + x * {VECTOR});",
            part * VECTOR,
            right.pitch(),
            part * SIDE * VECTOR
        ));
    }
    s.line(format_args!(
        "#pragma unroll\n      for (int i = 0; i < {down}; i++)\n#pragma unroll\n        \
         for (int j = 0; j < {across}; j++) sum[i][j] = product(l[i], r[j], sum[i][j]);\n    }}"
    ));
}

/// Writes the sums of a thread to the output.
fn store(s: &mut SourceWriter, o: &str, operand: usize, axes: [AxesArgs; 2], [down, across]: [usize; 2]) {
    let [rows, columns] = axes;
    s.line(format_args!("  idx of_column[{across}];"));
    for j in 0..across {
        let (part, own) = (j / VECTOR * SIDE * VECTOR, j % VECTOR);
        s.line(format_args!("  {{ const idx j = side + {part} + x * {VECTOR} + {own}; idx o = b0;"));
        columns.offsets(s, "(j < width ? j : 0)", &[Some("o"), None, None]);
        s.line(format_args!("    of_column[{j}] = o; }}"));
    }
    for i in 0..down {
        s.line(format_args!("  {{ const idx i = top + y * {down} + {i};\n  if (i < height) {{ idx o = 0;"));
        rows.offsets(s, "i", &[Some("o"), None, None]);
        for j in 0..across {
            let column = j / VECTOR * SIDE * VECTOR + j % VECTOR;
            s.line(format_args!(
                "    if (side + {column} + x * {VECTOR} < width)\n      \
                 (({o}*)a.v[{operand}])[o + of_column[{j}]] = cast<{o}>(sum[{i}][{j}]);"
            ));
        }
        s.line(format_args!("  }} }}"));
    }
}
