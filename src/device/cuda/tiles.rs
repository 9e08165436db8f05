//! Programs with operands that stand crosswise: contiguous along another axis than the output.
//!
//! A block takes a square of positions. It reads crosswise operands along the axis in which they are contiguous, into
//! shared memory, and goes on from there in the order of the output: all memory is touched a whole line at a time.
//! Imports: `error`, `scalar`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type};
use super::geometry::{Axes, Place};
use super::map::{arguments, head, number_words, operands, words_of};
use crate::device::Slot;
use crate::error::Result;
use crate::scalar::Graph;
use std::any::TypeId;
use std::sync::Arc;

/// Positions of a square along each side; threads of a block stand side by side along one of them.
const SIDE: usize = 32;
/// Rows of threads.
const DEEP: usize = 8;
/// Bytes that crosswise operands may take in shared memory.
const ROOM: usize = 40 << 10;

/// The axis along which crosswise operands are contiguous, and which those are; none where tiles do not pay.
pub(super) fn crosswise(axes: &Axes, slots: &[Slot<'_>], outputs: usize) -> Option<(usize, Vec<usize>)> {
    let last = axes.rank().checked_sub(1).filter(|&last| last > 0 && axes.sizes[last] >= SIDE)?;
    if (0..outputs).any(|k| axes.strides[k][last] != 1) {
        return None;
    }
    let stands = |k: usize, axis: usize| axes.strides[k][axis] == 1 && axes.strides[k][last].unsigned_abs() > 1;
    let axis = (0..last).find(|&axis| axes.sizes[axis] >= SIDE && (outputs..slots.len()).any(|k| stands(k, axis)))?;
    let all: Vec<usize> = (outputs..slots.len()).filter(|&k| stands(k, axis)).collect();
    let room: usize = all.iter().map(|&k| SIDE * (SIDE + 1) * slots[k].element).sum();
    (room <= ROOM).then_some((axis, all))
}

impl Context {
    /// # Safety
    /// As [`Context::elementwise`], for axes whose crosswise operands are `turned`.
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn tiles(
        self: &Arc<Self>,
        types: [TypeId; 2],
        mut class: Vec<u32>,
        graph: &dyn Fn() -> Graph,
        numbers: &[[u8; 16]],
        mut axes: Axes,
        outputs: usize,
        slots: &[Slot<'_>],
        (axis, turned): (usize, Vec<usize>),
    ) -> Result<()> {
        // The axis of the crosswise operands goes beside the fastest.
        let last = axes.rank() - 1;
        axes.sizes[axis..last].rotate_left(1);
        axes.strides.iter_mut().for_each(|steps| steps[axis..last].rotate_left(1));
        let wide = axes.is_wide();
        let place = Place { word: 1 + slots.len(), rank: axes.rank(), operands: slots.len() };
        class.push(u32::MAX);
        class.extend([axes.rank(), usize::from(wide), outputs].map(|n| n as u32));
        class.extend(turned.iter().map(|&k| k as u32));
        let key = Key { mechanism: "tiles", types, class };
        let kernel = self.kernel(key, || source(&graph(), outputs, &turned, wide, place))?;
        let outer: usize = axes.sizes[..last - 1].iter().product();
        let mut words = vec![outer as i64];
        words.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        words.extend(axes.words());
        words.extend(words_of(numbers));
        let squares = axes.sizes[last].div_ceil(SIDE) * axes.sizes[last - 1].div_ceil(SIDE);
        let shape = Shape { blocks: (count_of(squares), outer.min(1 << 15) as u32), threads: (SIDE * DEEP) as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("map", kernel, shape, &words) }
    }
}

fn source(graph: &Graph, outputs: usize, turned: &[usize], wide: bool, place: Place) -> String {
    let mut s = Source::new();
    head(&mut s, place.end() + number_words(graph), wide);
    let signature = s.function("body", graph, place.end());
    let types = operands(&signature, outputs, place.operands);
    let (last, beside) = (place.rank - 1, place.rank - 2);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({}) kernel(const Args a) {{", SIDE * DEEP));
    for &k in turned {
        if let Some(dtype) = types[k] {
            let c = c_type(dtype);
            s.line(format_args!(
                "  __shared__ __align__(16) u8 room{k}[sizeof({c}) * {}];\n  {c}* const tile{k} = ({c}*)room{k};",
                SIDE * (SIDE + 1)
            ));
        }
    }
    let (rows, columns) = (place.size(beside), place.size(last));
    s.line(format_args!(
        "  const int x = threadIdx.x % {SIDE}, y = threadIdx.x / {SIDE};\n  const idx across = ({columns} + {}) / {SIDE};",
        SIDE - 1
    ));
    s.line(format_args!("  const idx top = (idx)blockIdx.x / across * {SIDE}, side = (idx)blockIdx.x % across * {SIDE};"));
    s.line(format_args!("  for (idx outer = blockIdx.y; outer < (idx)a.v[0]; outer += gridDim.y) {{"));
    let names: Vec<_> = (0..place.operands).map(|k| format!("b{k}")).collect();
    names.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    place.offsets_before(beside, &mut s, "outer", &names);
    for (k, dtype) in types.iter().enumerate() {
        let Some(dtype) = dtype else { continue };
        let (c, constant) = (c_type(*dtype), if k < outputs { "" } else { "const " });
        s.line(format_args!("  {constant}{c}* const p{k} = ({constant}{c}*)a.v[{}] + b{k};", 1 + k));
    }
    // Along the rows of the output, which are the crosswise operands' columns.
    s.line(format_args!("  for (int q = y; q < {SIDE}; q += {DEEP}) if (top + x < {rows} && side + q < {columns}) {{"));
    for &k in turned.iter().filter(|&&k| types[k].is_some()) {
        s.line(format_args!("    tile{k}[q * {} + x] = p{k}[(top + x) + (side + q) * {}];", SIDE + 1, place.step(last, k)));
    }
    s.line(format_args!("  }}\n  __syncthreads();"));
    s.line(format_args!("  for (int q = y; q < {SIDE}; q += {DEEP}) if (top + q < {rows} && side + x < {columns}) {{"));
    let at = |k: usize| format!("(top + q) * {} + (side + x) * {}", place.step(beside, k), place.step(last, k));
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
    s.text()
}
