//! `map` with transposed operands: contiguous along another axis than the output.
//!
//! A block computes a square tile of positions. It reads transposed operands along their contiguous axis into
//! shared memory, and then reads the tile in the order of the output. All accesses to global memory are
//! thereby coalesced.
// Imports: `error`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, Word};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, pointers};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::map_body::MapBody;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::error::Result;
use crate::kernel::Program;
use std::sync::Arc;

/// Positions of a tile along each side, and threads of a block along the contiguous side.
const TILE_SIDE: usize = 32;
/// Rows of threads of a block.
const THREAD_ROWS: usize = 8;
/// Bytes of shared memory for the tiles of transposed operands.
const TILE_BYTES: usize = 40 << 10;

/// The axis along which transposed operands are contiguous, and the indices of these operands. `None` if
/// tiles do not apply: the output is not contiguous, an axis is short, or the tiles do not fit in shared
/// memory.
pub(in crate::device::cuda) fn transposed_operands(
    axes: &Axes,
    slots: &[OperandRef<'_>],
    outputs: usize,
) -> Option<(usize, Vec<usize>)> {
    let last = axes.rank().checked_sub(1).filter(|&last| last > 0 && axes.sizes[last] >= TILE_SIDE)?;
    if (0..outputs).any(|k| axes.strides[k][last] != 1) {
        return None;
    }
    let is_transposed =
        |k: usize, axis: usize| axes.strides[k][axis] == 1 && axes.strides[k][last].unsigned_abs() > 1;
    let axis = (0..last).find(|&axis| {
        axes.sizes[axis] >= TILE_SIDE && (outputs..slots.len()).any(|k| is_transposed(k, axis))
    })?;
    let all: Vec<usize> = (outputs..slots.len()).filter(|&k| is_transposed(k, axis)).collect();
    let nbytes: usize = all.iter().map(|&k| TILE_SIDE * (TILE_SIDE + 1) * slots[k].element).sum();
    (nbytes <= TILE_BYTES).then_some((axis, all))
}

/// Queues a program by tiles; `axis` and `transposed` are those of [`transposed_operands`].
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with; those of the launch.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map), for a program without row constants and operands with
/// these axes.
pub(in crate::device::cuda) unsafe fn run<P: Program>(
    stream: &Arc<Stream>,
    body: &MapBody<'_, P>,
    mut outer: Axes,
    outputs: usize,
    slots: &[OperandRef<'_>],
    (axis, transposed): (usize, Vec<usize>),
) -> Result<()> {
    let mut words = ArgBlock::new(is_wide(&[&outer], 0));
    words.key_numbers.extend_from_slice(body.key_numbers);
    words.depends([outputs, slots.len(), transposed.len()]);
    words.depends(transposed.iter().copied());
    // The contiguous axis of the transposed operands becomes the second fastest.
    let last = outer.rank() - 1;
    outer.sizes[axis..last].rotate_left(1);
    outer.strides.iter_mut().for_each(|steps| steps[axis..last].rotate_left(1));
    let (along_columns, along_rows) = (outer.pop(), outer.pop());
    let operands = words.operands(slots);
    let many = outer.numel();
    let many_at = Word(words.push(many));
    let (outer_args, rows, columns) =
        (words.axes(&outer), words.axes(&along_rows), words.axes(&along_columns));
    let params = words.params(body.program);
    let key = KernelKey { mechanism: "tiles", types: body.types, key_numbers: words.key_numbers.clone() };
    let kernel = stream.kernel(key, || {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        let graph = (body.graph)()?;
        ensure_computable("map", graph.foreign())?;
        let signature = s.function("body", &graph, params);
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({}) kernel(const Args a) {{",
            TILE_SIDE * THREAD_ROWS
        ));
        for &k in &transposed {
            let Some(c) = signature.inputs.get(&(k - outputs)).map(|&dtype| c_type(dtype)) else { continue };
            s.line(format_args!(
                "  __shared__ __align__(16) u8 room{k}[sizeof({c}) * {}];",
                TILE_SIDE * (TILE_SIDE + 1)
            ));
            s.line(format_args!("  {c}* const tile{k} = ({c}*)room{k};"));
        }
        s.line(format_args!("  const idx rows = {}, columns = {};", rows.size(), columns.size()));
        s.line(format_args!("  const int x = threadIdx.x % {TILE_SIDE}, y = threadIdx.x / {TILE_SIDE};"));
        s.line(format_args!("  const idx across = (columns + {}) / {TILE_SIDE};", TILE_SIDE - 1));
        s.line(format_args!(
            "  const idx top = (idx)blockIdx.x / across * {TILE_SIDE}, \
             side = (idx)blockIdx.x % across * {TILE_SIDE};"
        ));
        s.line(format_args!("  for (idx outer = blockIdx.y; outer < {many_at}; outer += gridDim.y) {{"));
        let types = pointers(&mut s, &signature, outputs, slots.len(), operands, outer_args, "outer");
        // Along the rows of the output, which are columns of the transposed operands.
        s.line(format_args!(
            "  for (int q = y; q < {TILE_SIDE}; q += {THREAD_ROWS}) if (top + x < rows && \
             side + q < columns) {{"
        ));
        for &k in transposed.iter().filter(|&&k| types[k].is_some()) {
            s.line(format_args!(
                "    tile{k}[q * {} + x] = p{k}[(top + x) + (side + q) * {}];",
                TILE_SIDE + 1,
                columns.stride(k)
            ));
        }
        s.line(format_args!("  }}\n  __syncthreads();"));
        s.line(format_args!(
            "  for (int q = y; q < {TILE_SIDE}; q += {THREAD_ROWS}) if (top + q < rows && \
             side + x < columns) {{"
        ));
        let at = |k: usize| format!("(top + q) * {} + (side + x) * {}", rows.stride(k), columns.stride(k));
        let x = |index: usize| {
            let k = outputs + index;
            if transposed.contains(&k) {
                format!("tile{k}[x * {} + q]", TILE_SIDE + 1)
            } else {
                format!("p{k}[{}]", at(k))
            }
        };
        for (index, dtype) in signature.outputs.iter().enumerate() {
            s.line(format_args!("    {} y{index};", c_type(*dtype)));
        }
        s.line(format_args!("    body({});", arguments(&signature, &x, &|index| format!("y{index}"))));
        for index in 0..signature.outputs.len() {
            s.line(format_args!("    p{index}[{}] = y{index};", at(index)));
        }
        s.line(format_args!("  }}\n  __syncthreads();\n  }}\n}}"));
        Ok(s.text())
    })?;
    let tiles = along_rows.numel().div_ceil(TILE_SIDE) * along_columns.numel().div_ceil(TILE_SIDE);
    let shape = LaunchShape {
        blocks: (block_count(tiles), many.min(1 << 15) as u32),
        threads: (TILE_SIDE * THREAD_ROWS) as u32,
        shared: 0,
    };
    // SAFETY: (1) the words are those of this source; (2) is the caller's promise.
    unsafe { stream.launch("map", kernel, shape, &words.list) }
}
