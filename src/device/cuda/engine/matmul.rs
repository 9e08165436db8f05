//! `contract`: products that sum over axes. Plain matrices go to cuBLAS (`cublas.rs`). Two kernels serve all
//! others: on tensor cores for 16-bit floats (`product_mma.rs`), and for any elements (`product_fma.rs`).
//!
//! Operands are not packed, and may have any strides: each of the four groups of axes is one index, which the
//! kernel divides into the indices of its axes. The windows of a convolution are such an operand, so that the
//! kernel is an implicit GEMM there. The threads of a warp write neighbors of the output: the operands are
//! exchanged if those are its rows.
//!
//! If tiles are few and sums long, the slowest of the summed axes is cut into parts (split-K): the parts of a
//! product are products of a longer batch, and a second kernel adds them.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::cublas::{self, PlainProduct};
use crate::device::cuda::engine::product_args::{Groups, ProductArgs, THREADS};
use crate::device::cuda::engine::product_fma;
use crate::device::cuda::engine::product_mma::{self, Form};
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::{DType, Prim};
use std::any::TypeId;
use std::sync::Arc;

/// The least products of a part of a sum.
const PART_DEPTH: usize = 256;
/// Blocks for each multiprocessor: so many run at a time.
const BLOCKS: usize = 2;

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

    /// The form of the kernel on tensor cores, if they multiply these types.
    fn form_of(&self, stream: &Stream, groups: &Groups, operands: &[OperandRef<'_>; 3]) -> Option<Form> {
        product_mma::serves(stream.gpu.context.capability, self.dtypes).then(|| Form::of(groups, operands))
    }
}

/// The parts of a sum of `depth` products: 1 if the tiles of all products occupy the GPU.
fn parts_of(stream: &Stream, groups: &Groups, depth: usize, tile: [usize; 2]) -> usize {
    let tiles = groups.rows.numel().div_ceil(tile[0]) * groups.columns.numel().div_ceil(tile[1]);
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
    let form = types.form_of(stream, &groups, &operands);
    let tile = form.map_or(product_fma::tile_of(types.sum_nbytes, false), |form| form.tile);
    let parts = parts_of(stream, &groups, depth, tile);
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
    let mut words = ArgBlock::new(is_wide(&[batch, rows, columns, along], 0));
    let args = ProductArgs::new(&mut words, groups, depth, &operands);
    let key = |mechanism, words: &ArgBlock| KernelKey {
        mechanism,
        types: types.ids,
        key_numbers: words.key_numbers.clone(),
    };
    let form = types.form_of(stream, groups, &operands).filter(|_| depth > 0);
    let (kernel, [down, across]) = if let Some(form) = form {
        words.depends(form.key_numbers());
        let source = || Ok(form.source(types.dtypes, &words, args));
        (stream.kernel(key("contract on tensor cores", &words), source)?, form.tile)
    } else {
        let by_depth = groups.by_depth();
        words.depends(by_depth.map(usize::from));
        let source = || Ok(product_fma::source(types.dtypes, &words, args, by_depth));
        (stream.kernel(key("contract", &words), source)?, product_fma::tile_of(types.sum_nbytes, words.wide))
    };
    let tiles = rows.numel().div_ceil(down) * columns.numel().div_ceil(across);
    // The second dimension of blocks is limited. A long batch takes several launches, each with its first
    // product.
    let count = batch.numel();
    let mut first = 0;
    while first < count {
        let part = (count - first).min(1 << 15);
        words.list[args.first] = first as i64;
        let shape =
            LaunchShape { blocks: (block_count(tiles), part as u32), threads: THREADS as u32, shared: 0 };
        // SAFETY: (1) the words are those of the source; (2) is the caller's promise.
        unsafe { stream.launch("contract", kernel, shape, &words.list) }?;
        first += part;
    }
    Ok(())
}
