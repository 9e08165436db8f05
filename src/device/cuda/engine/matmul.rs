//! `contract`: products that sum over axes. Plain matrices go to cuBLAS (`cublas.rs`). The kernel of this
//! file serves all others: tiles of the output in registers, panels of the operands in shared memory.
//!
//! Operands are not packed, and may have any strides: each of the four groups of axes is one index, which the
//! kernel divides into the indices of its axes.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::cublas::{self, PlainProduct};
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::{DType, Prim};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Rows and columns of a tile of the output.
const TILE: usize = 64;
/// Depth of a panel: the products of each sum that one step of the kernel adds.
const DEPTH: usize = 16;

/// Queues a product.
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
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<()> {
    ensure_computable("contract", unsupported::<T>().or(unsupported::<L>()).or(unsupported::<R>()))?;
    if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
        return Ok(());
    }
    let (b, m, k, n) = (plan.batch.len(), plan.m.len(), plan.k.len(), plan.n.len());
    // Every group has all three operands. An operand without the group's axes is broadcast.
    let none: &[isize] = &[];
    let (o, l, r) = (output.stride, left.stride, right.stride);
    let batch = Axes::coalesced(plan.batch, &[&o[..b], &l[..b], &r[..b]], false);
    let rows = Axes::coalesced(plan.m, &[&o[b..b + m], &l[b..b + m], none], false);
    let columns = Axes::coalesced(plan.n, &[&o[b + m..b + m + n], none, &r[b + k..b + k + n]], false);
    let along = Axes::coalesced(plan.k, &[none, &l[b + m..b + m + k], &r[b..b + k]], false);
    let depth = if plan.k.contains(&0) { 0 } else { along.numel() };
    if depth > 0
        && let Some(plain) = PlainProduct::of(&batch, &rows, &columns, &along)
        // SAFETY: the caller's promise.
        && unsafe { cublas::run(stream, &plain, [T::DTYPE, L::DTYPE, R::DTYPE], output, left, right) }?
    {
        return Ok(());
    }
    let (height, width) = (rows.numel(), columns.numel());
    let mut words = ArgBlock::new(is_wide(&[&batch, &rows, &columns, &along], 0));
    let [height_at, width_at, depth_at] = [height, width, depth].map(|word| words.push(word));
    let operands = words.operands(&[output, left, right]);
    let groups = [&batch, &rows, &columns, &along].map(|axes| words.axes(axes));
    let first_at = words.push(0);
    let plan = Plan { sizes: [height_at, width_at, depth_at], operands, groups, first: first_at };
    let key = KernelKey {
        mechanism: "contract",
        types: [TypeId::of::<T>(), TypeId::of::<(L, R)>()],
        key_numbers: words.key_numbers.clone(),
    };
    let kernel = stream.kernel(key, || {
        Ok(source([T::DTYPE, <Compute<T> as Prim>::DTYPE, L::DTYPE, R::DTYPE], &words, plan))
    })?;
    let tiles = height.div_ceil(TILE) * width.div_ceil(TILE);
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
/// first product of the launch.
#[derive(Clone, Copy)]
struct Plan {
    sizes: [usize; 3],
    operands: usize,
    groups: [AxesArgs; 4],
    first: usize,
}

/// The source of the kernel.
fn source([out, computed, left, right]: [DType; 4], words: &ArgBlock, plan: Plan) -> String {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let Plan { sizes: [height, width, depth], operands, groups: [batch, rows, columns, along], first } = plan;
    let (c, each) = (c_type(computed), TILE / 16);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!(
        "  __shared__ __align__(16) u8 room[sizeof({c}) * {}];\n  {c}* const panel = ({c}*)room;\n  \
         {c}* const other = panel + {};",
        2 * DEPTH * TILE,
        DEPTH * TILE
    ));
    s.line(format_args!(
        "  const idx height = {}, width = {}, depth = {};",
        Word(height),
        Word(width),
        Word(depth)
    ));
    s.line(format_args!(
        "  const idx across = (width + {}) / {TILE}, top = (idx)blockIdx.x / across * {TILE}, \
         side = (idx)blockIdx.x % across * {TILE};",
        TILE - 1
    ));
    s.line(format_args!(
        "  const int t = threadIdx.x, x = t % 16, y = t / 16;\n  idx b0 = 0, b1 = 0, b2 = 0;"
    ));
    batch.offsets(
        &mut s,
        &format!("({} + (idx)blockIdx.y)", Word(first)),
        &[Some("b0"), Some("b1"), Some("b2")],
    );
    // This thread loads rows of the left operand at one position of the sum, and one column of the right
    // operand.
    s.line(format_args!("  idx lefts[{each}], own = 0;"));
    for q in 0..each {
        s.line(format_args!("  {{ idx o = 0; const idx r = top + y + 16 * {q};"));
        rows.offsets(&mut s, "(r < height ? r : 0)", &[None, Some("o"), None]);
        s.line(format_args!("    lefts[{q}] = b1 + o; }}"));
    }
    s.line(format_args!("  const idx column = side + t % {TILE};"));
    columns.offsets(&mut s, "(column < width ? column : 0)", &[None, None, Some("own")]);
    s.line(format_args!(
        "  own += b2;\n  {c} sum[{each}][{each}];\n#pragma unroll\n  \
         for (int i = 0; i < {each}; i++)\n#pragma unroll\n    \
         for (int j = 0; j < {each}; j++) sum[i][j] = cast<{c}>((i32)0);"
    ));
    s.line(format_args!(
        "  for (idx k0 = 0; k0 < depth; k0 += {DEPTH}) {{\n    {{ const idx k = k0 + x; idx l = 0;"
    ));
    along.offsets(&mut s, "(k < depth ? k : 0)", &[None, Some("l"), None]);
    for q in 0..each {
        s.line(format_args!(
            "      panel[x * {TILE} + y + 16 * {q}] = k < depth && top + y + 16 * {q} < height ? \
             cast<{c}>(((const {}*)a.v[{}])[lefts[{q}] + l]) : cast<{c}>((i32)0);",
            c_type(left),
            operands + 1
        ));
    }
    s.line(format_args!("    }}"));
    let deep = THREADS / TILE;
    for q in 0..DEPTH / deep {
        s.line(format_args!(
            "    {{ const int d = t / {TILE} + {deep} * {q}; const idx k = k0 + d; idx r = 0;"
        ));
        along.offsets(&mut s, "(k < depth ? k : 0)", &[None, None, Some("r")]);
        s.line(format_args!(
            "      other[d * {TILE} + t % {TILE}] = k < depth && column < width ? \
             cast<{c}>(((const {}*)a.v[{}])[own + r]) : cast<{c}>((i32)0);\n    }}",
            c_type(right),
            operands + 2
        ));
    }
    s.line(format_args!(
        "    __syncthreads();\n#pragma unroll\n    for (int d = 0; d < {DEPTH}; d++) {{\n      \
         {c} l[{each}], r[{each}];"
    ));
    s.line(format_args!(
        "#pragma unroll\n      for (int i = 0; i < {each}; i++) {{ l[i] = panel[d * {TILE} + y + 16 * i]; \
         r[i] = other[d * {TILE} + x + 16 * i]; }}"
    ));
    s.line(format_args!(
        "#pragma unroll\n      for (int i = 0; i < {each}; i++)\n#pragma unroll\n        \
         for (int j = 0; j < {each}; j++) sum[i][j] = product(l[i], r[j], sum[i][j]);\n    }}\n    \
         __syncthreads();\n  }}"
    ));
    let o = c_type(out);
    for i in 0..each {
        for j in 0..each {
            s.line(format_args!(
                "  {{ const idx i = top + y + 16 * {i}, j = side + x + 16 * {j};\n  \
                 if (i < height && j < width) {{ idx o = b0;"
            ));
            rows.offsets(&mut s, "i", &[Some("o"), None, None]);
            columns.offsets(&mut s, "j", &[Some("o"), None, None]);
            s.line(format_args!("    (({o}*)a.v[{operands}])[o] = cast<{o}>(sum[{i}][{j}]); }} }}"));
        }
    }
    s.line(format_args!("}}"));
    s.text()
}
