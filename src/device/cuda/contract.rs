//! Products that sum over axes, where they are not plain matrices (`blas.rs`): tiles of the output in registers, panels of the operands in shared memory.
//!
//! Operands are read where they stand, whatever their strides: each of the four groups of axes is one index that is taken
//! apart again.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::blas::Plain;
use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type};
use super::geometry::{Axes, Place};
use super::map::head;
use crate::device::Slot;
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::kernel::Contraction;
use crate::scalar::{DType, Prim};
use std::any::TypeId;
use std::sync::Arc;

const THREADS: usize = 256;
/// Rows and columns of a tile of the output.
const TILE: usize = 64;
/// How much of the sum a panel holds.
const DEPTH: usize = 16;

impl Context {
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract).
    pub(super) unsafe fn contract<T: Number, L: Number, R: Number>(
        self: &Arc<Self>,
        plan: Contraction<'_>,
        output: Slot<'_>,
        left: Slot<'_>,
        right: Slot<'_>,
    ) -> Result<()> {
        if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
            return Ok(());
        }
        let (b, m, k) = (plan.batch.len(), plan.m.len(), plan.k.len());
        let n = plan.n.len();
        let batch = Axes::merged(plan.batch, &[&output.stride[..b], &left.stride[..b], &right.stride[..b]], false);
        let rows = Axes::merged(plan.m, &[&output.stride[b..b + m], &left.stride[b..b + m]], false);
        let columns = Axes::merged(plan.n, &[&output.stride[b + m..b + m + n], &right.stride[b + k..b + k + n]], false);
        let along = Axes::merged(plan.k, &[&left.stride[b + m..b + m + k], &right.stride[b..b + k]], false);
        let wide = [&batch, &rows, &columns, &along].iter().any(|axes| axes.is_wide());
        let depth = if plan.k.contains(&0) { 0 } else { along.numel() };
        if depth > 0
            && let Some(plain) = Plain::of(&batch, &rows, &columns, &along)
            // SAFETY: the caller's promise.
            && unsafe { self.by_library(&plain, [T::DTYPE, L::DTYPE, R::DTYPE], output, left, right) }?
        {
            return Ok(());
        }
        let (height, width) = (rows.numel(), columns.numel());
        let groups = [(&batch, 3), (&rows, 2), (&columns, 2), (&along, 2)];
        let mut word = 6;
        let places = groups.map(|(axes, operands)| {
            let place = Place { word, rank: axes.rank(), operands };
            word = place.end();
            place
        });
        let mut class: Vec<u32> = places.iter().map(|place| place.rank as u32).collect();
        class.extend([u32::from(wide), T::DTYPE as u32, L::DTYPE as u32, R::DTYPE as u32]);
        let key = Key { mechanism: "contract", types: [TypeId::of::<T>(), TypeId::of::<(L, R)>()], class };
        let kernel = self.kernel(key, || source([T::DTYPE, <Compute<T> as Prim>::DTYPE, L::DTYPE, R::DTYPE], wide, places))?;
        let mut words = vec![height as i64, width as i64, depth as i64];
        words.extend([output, left, right].map(|slot| slot.address.addr() as i64));
        groups.iter().for_each(|(axes, _)| words.extend(axes.words()));
        let tiles = height.div_ceil(TILE) * width.div_ceil(TILE);
        // The second number of blocks is limited: a long batch takes several launches, from other addresses.
        let count = batch.numel();
        let mut first = 0;
        while first < count {
            let part = (count - first).min(1 << 15);
            words.push(first as i64);
            let shape = Shape { blocks: (count_of(tiles), part as u32), threads: THREADS as u32, shared: 0 };
            // SAFETY: the caller's promise; the words stand as `source` reads them.
            unsafe { self.launch("contract", kernel, shape, &words) }?;
            words.pop();
            first += part;
        }
        Ok(())
    }
}

fn source([out, computed, left, right]: [DType; 4], wide: bool, [batch, rows, columns, along]: [Place; 4]) -> String {
    let mut s = Source::new();
    head(&mut s, along.end() + 1, wide);
    let (c, each) = (c_type(computed), TILE / 16);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!(
        "  __shared__ __align__(16) u8 room[sizeof({c}) * {}];\n  {c}* const panel = ({c}*)room;\n  {c}* const other = panel + {};",
        2 * DEPTH * TILE,
        DEPTH * TILE
    ));
    s.line(format_args!("  const idx height = (idx)a.v[0], width = (idx)a.v[1], depth = (idx)a.v[2];"));
    s.line(format_args!(
        "  const idx across = (width + {}) / {TILE}, top = (idx)blockIdx.x / across * {TILE}, side = (idx)blockIdx.x % across * {TILE};",
        TILE - 1
    ));
    s.line(format_args!("  const int t = threadIdx.x, x = t % 16, y = t / 16;\n  idx b0 = 0, b1 = 0, b2 = 0;"));
    batch.offsets(&mut s, &format!("((idx)a.v[{}] + (idx)blockIdx.y)", along.end()), &["b0", "b1", "b2"].map(String::from));
    // What this thread reads of the panels: rows of the left operand at one place of the sum, and one column of the right.
    s.line(format_args!("  idx lefts[{each}], own = 0, unused = 0;"));
    for q in 0..each {
        s.line(format_args!("  {{ idx o = 0; const idx r = top + y + 16 * {q};"));
        rows.offsets(&mut s, "(r < height ? r : 0)", &["unused".to_string(), "o".to_string()]);
        s.line(format_args!("    lefts[{q}] = b1 + o; }}"));
    }
    s.line(format_args!("  const idx column = side + t % {TILE};"));
    columns.offsets(&mut s, "(column < width ? column : 0)", &["unused".to_string(), "own".to_string()]);
    s.line(format_args!("  own += b2;\n  {c} sum[{each}][{each}];\n#pragma unroll\n  for (int i = 0; i < {each}; i++)\n#pragma unroll\n    for (int j = 0; j < {each}; j++) sum[i][j] = cast<{c}>((i32)0);"));
    s.line(format_args!("  for (idx k0 = 0; k0 < depth; k0 += {DEPTH}) {{\n    {{ const idx k = k0 + x; idx l = 0;"));
    along.offsets(&mut s, "(k < depth ? k : 0)", &["l".to_string(), "unused".to_string()]);
    for q in 0..each {
        s.line(format_args!("      panel[x * {TILE} + y + 16 * {q}] = k < depth && top + y + 16 * {q} < height ? cast<{c}>(((const {}*)a.v[4])[lefts[{q}] + l]) : cast<{c}>((i32)0);", c_type(left)));
    }
    s.line(format_args!("    }}"));
    let deep = THREADS / TILE;
    for q in 0..DEPTH / deep {
        s.line(format_args!("    {{ const int d = t / {TILE} + {deep} * {q}; const idx k = k0 + d; idx r = 0;"));
        along.offsets(&mut s, "(k < depth ? k : 0)", &["unused".to_string(), "r".to_string()]);
        s.line(format_args!("      other[d * {TILE} + t % {TILE}] = k < depth && column < width ? cast<{c}>(((const {}*)a.v[5])[own + r]) : cast<{c}>((i32)0);\n    }}", c_type(right)));
    }
    s.line(format_args!("    __syncthreads();\n#pragma unroll\n    for (int d = 0; d < {DEPTH}; d++) {{\n      {c} l[{each}], r[{each}];"));
    s.line(format_args!("#pragma unroll\n      for (int i = 0; i < {each}; i++) {{ l[i] = panel[d * {TILE} + y + 16 * i]; r[i] = other[d * {TILE} + x + 16 * i]; }}"));
    s.line(format_args!("#pragma unroll\n      for (int i = 0; i < {each}; i++)\n#pragma unroll\n        for (int j = 0; j < {each}; j++) sum[i][j] = product(l[i], r[j], sum[i][j]);\n    }}\n    __syncthreads();\n  }}"));
    let o = c_type(out);
    for i in 0..each {
        for j in 0..each {
            s.line(format_args!(
                "  {{ const idx i = top + y + 16 * {i}, j = side + x + 16 * {j};\n  if (i < height && j < width) {{ idx o = b0;"
            ));
            rows.offsets(&mut s, "i", &["o".to_string(), "unused".to_string()]);
            columns.offsets(&mut s, "j", &["o".to_string(), "unused".to_string()]);
            s.line(format_args!("    (({o}*)a.v[3])[o] = cast<{o}>(sum[{i}][{j}]); }} }}"));
        }
    }
    s.line(format_args!("  (void)unused;\n}}"));
    s.text()
}
