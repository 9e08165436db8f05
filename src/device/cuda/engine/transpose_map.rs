//! Programs with operands that stand crosswise: contiguous along another axis than the output.
//!
//! A block takes a square of positions. It reads crosswise operands along the axis in which they are contiguous, into
//! shared memory, and goes on from there in the order of the output: all memory is touched a whole line at a time.
// Imports: `error`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Source, c_type, plain};
use crate::device::cuda::codegen::args::{Axes, Word, Words, is_wide};
use crate::device::cuda::engine::map::{Each, arguments, pointers};
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::OperandRef;
use crate::error::Result;
use crate::kernel::Program;
use std::sync::Arc;

/// Positions of a square along each side; threads of a block stand side by side along one of them.
const SIDE: usize = 32;
/// Rows of threads.
const DEEP: usize = 8;
/// Bytes that crosswise operands may take in shared memory.
const ROOM: usize = 40 << 10;

/// The axis along which crosswise operands are contiguous, and which those are; none where tiles do not pay.
pub(in crate::device::cuda) fn crosswise(
    axes: &Axes,
    slots: &[OperandRef<'_>],
    outputs: usize,
) -> Option<(usize, Vec<usize>)> {
    let last = axes.rank().checked_sub(1).filter(|&last| last > 0 && axes.sizes[last] >= SIDE)?;
    if (0..outputs).any(|k| axes.strides[k][last] != 1) {
        return None;
    }
    let stands =
        |k: usize, axis: usize| axes.strides[k][axis] == 1 && axes.strides[k][last].unsigned_abs() > 1;
    let axis = (0..last)
        .find(|&axis| axes.sizes[axis] >= SIDE && (outputs..slots.len()).any(|k| stands(k, axis)))?;
    let all: Vec<usize> = (outputs..slots.len()).filter(|&k| stands(k, axis)).collect();
    let room: usize = all.iter().map(|&k| SIDE * (SIDE + 1) * slots[k].element).sum();
    (room <= ROOM).then_some((axis, all))
}

impl Stream {
    /// # Safety
    /// As [`Device::map`](crate::device::Device::map), for axes whose crosswise operands are `turned`.
    pub(in crate::device::cuda) unsafe fn tiles<P: Program>(
        self: &Arc<Self>,
        each: &Each<'_, P>,
        mut outer: Axes,
        outputs: usize,
        slots: &[OperandRef<'_>],
        (axis, turned): (usize, Vec<usize>),
    ) -> Result<()> {
        let mut words = Words::new(is_wide(&[&outer], 0));
        words.class.extend_from_slice(each.class);
        words.depends([outputs, slots.len(), turned.len()]);
        words.depends(turned.iter().copied());
        // The axis of the crosswise operands goes beside the fastest.
        let last = outer.rank() - 1;
        outer.sizes[axis..last].rotate_left(1);
        outer.strides.iter_mut().for_each(|steps| steps[axis..last].rotate_left(1));
        let (along, down) = (outer.pop(), outer.pop());
        let operands = words.slots(slots);
        let many = outer.numel();
        let many_at = Word(words.push(many));
        let (place, rows, columns) = (words.axes(&outer), words.axes(&down), words.axes(&along));
        let numbers = words.numbers(each.program);
        let key = Key { mechanism: "tiles", types: each.types, class: words.class.clone() };
        let kernel = self.generated(key, || {
            let mut s = Source::new();
            words.head(&mut s);
            let graph = (each.graph)();
            plain("map", graph.foreign())?;
            let signature = s.function("body", &graph, numbers);
            s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({}) kernel(const Args a) {{", SIDE * DEEP));
            for &k in &turned {
                let Some(c) = signature.inputs.get(&(k - outputs)).map(|&dtype| c_type(dtype)) else { continue };
                s.line(format_args!("  __shared__ __align__(16) u8 room{k}[sizeof({c}) * {}];", SIDE * (SIDE + 1)));
                s.line(format_args!("  {c}* const tile{k} = ({c}*)room{k};"));
            }
            s.line(format_args!("  const idx rows = {}, columns = {};", rows.size(), columns.size()));
            s.line(format_args!("  const int x = threadIdx.x % {SIDE}, y = threadIdx.x / {SIDE};"));
            s.line(format_args!("  const idx across = (columns + {}) / {SIDE};", SIDE - 1));
            s.line(format_args!("  const idx top = (idx)blockIdx.x / across * {SIDE}, side = (idx)blockIdx.x % across * {SIDE};"));
            s.line(format_args!("  for (idx outer = blockIdx.y; outer < {many_at}; outer += gridDim.y) {{"));
            let types = pointers(&mut s, &signature, outputs, slots.len(), operands, place, "outer");
            // Along the rows of the output, which are the crosswise operands' columns.
            s.line(format_args!("  for (int q = y; q < {SIDE}; q += {DEEP}) if (top + x < rows && side + q < columns) {{"));
            for &k in turned.iter().filter(|&&k| types[k].is_some()) {
                s.line(format_args!("    tile{k}[q * {} + x] = p{k}[(top + x) + (side + q) * {}];", SIDE + 1, columns.step(k)));
            }
            s.line(format_args!("  }}\n  __syncthreads();"));
            s.line(format_args!("  for (int q = y; q < {SIDE}; q += {DEEP}) if (top + q < rows && side + x < columns) {{"));
            let at = |k: usize| format!("(top + q) * {} + (side + x) * {}", rows.step(k), columns.step(k));
            let x = |index: usize| {
                let k = outputs + index;
                if turned.contains(&k) { format!("tile{k}[x * {} + q]", SIDE + 1) } else { format!("p{k}[{}]", at(k)) }
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
        let squares = down.numel().div_ceil(SIDE) * along.numel().div_ceil(SIDE);
        let shape = Shape {
            blocks: (count_of(squares), many.min(1 << 15) as u32),
            threads: (SIDE * DEEP) as u32,
            shared: 0,
        };
        // SAFETY: the caller's promise; the words stand as the source reads them.
        unsafe { self.launch("map", kernel, shape, &words.list) }
    }
}
