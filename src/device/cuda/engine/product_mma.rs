//! The source of the kernel for `matmul.rs` that multiplies 16-bit floats on tensor cores, with sums of f32
//! (`tensor_cores.cuh`).
//!
//! The offsets of rows, columns and positions along the summed axes are in shared memory. The threads of a
//! warp load neighbors along the axis on which the operand is denser: 16 bytes each where the layout allows,
//! else an element each, eight times.
// Imports: `scalar`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::ArgBlock;
use crate::device::cuda::codegen::axes::Axes;
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::c_type;
use crate::device::cuda::engine::product_args::{Groups, ProductArgs, THREADS};
use crate::scalar::DType;

const TENSOR_CORES: &str = include_str!("tensor_cores.cuh");
/// Elements of one access of 16 bytes.
const CHUNK: usize = 8;
/// The compute capability from which on GPUs have the instruction.
const CAPABILITY: [i32; 2] = [8, 0];

/// Whether a GPU of this capability multiplies these types on tensor cores: output, sums, left, right.
pub(super) fn serves(capability: [i32; 2], [_, sum, left, right]: [DType; 4]) -> bool {
    capability >= CAPABILITY && sum == DType::F32 && left == right && left.is_half()
}

/// The numbers that the source depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The rows and columns of a block's tile.
    pub(super) tile: [usize; 2],
    /// Whether the threads of a warp load neighbors along the summed axes, of each operand, and whether 16
    /// bytes are one access.
    by_depth: [bool; 2],
    vectors: [bool; 2],
    /// Whether two neighbors of the output are one access.
    pairs: bool,
}

impl Form {
    pub(super) fn of(groups: &Groups, operands: &[OperandRef<'_>; 3]) -> Form {
        let Groups { batch, rows, columns, along } = groups;
        let by_depth = groups.by_depth();
        let vectors = [(1, rows), (2, columns)].map(|(operand, across)| {
            let [dense, other] = if by_depth[operand - 1] { [along, across] } else { [across, along] };
            is_aligned(dense, [other, batch], operand, operands[operand], CHUNK)
        });
        let pairs = is_aligned(columns, [rows, batch], 0, operands[0], 2);
        let mut tile = [rows, columns].map(|axes| if axes.numel() <= 64 { 64 } else { 128 });
        // The sums of the largest tile leave no registers for single elements in flight.
        if let ([128, 128], Some(single)) = (tile, vectors.iter().position(|is_vector| !is_vector)) {
            tile[single] = 64;
        }
        Form { tile, by_depth, vectors, pairs }
    }

    /// The form as numbers of a key.
    pub(super) fn key_numbers(&self) -> impl Iterator<Item = usize> {
        let flags = [self.by_depth, self.vectors].concat().into_iter().chain([self.pairs]);
        self.tile.into_iter().chain(flags.map(usize::from))
    }

    /// The source of the kernel.
    pub(super) fn source(
        &self,
        [out, _, element, _]: [DType; 4],
        words: &ArgBlock,
        args: ProductArgs,
    ) -> String {
        let mut s = SourceWriter::new();
        words.declare(&mut s);
        let ([height, width], [_, rows, columns, along]) = (self.tile, args.groups);
        let ([left_by_depth, right_by_depth], [left_vectors, right_vectors]) = (self.by_depth, self.vectors);
        s.line(format_args!(
            "constexpr int ROWS = {height}, COLUMNS = {width};
{TENSOR_CORES}
typedef Panel<ROWS, {left_by_depth}, {left_vectors}> LeftPanel;
typedef Panel<COLUMNS, {right_by_depth}, {right_vectors}> RightPanel;
extern \"C\" __global__ void __launch_bounds__({THREADS}, 2) kernel(const Args a) {{
  __shared__ Chunk left[2][ROWS * DEPTH / 8], right[2][COLUMNS * DEPTH / 8];
  __shared__ __align__(16) idx along[2][2][DEPTH], of_rows[2][ROWS], of_columns[2][COLUMNS];"
        ));
        args.begin(&mut s, self.tile);
        // Rows and columns have threads of their own, as a tile has no more than 256 of both.
        s.line(format_args!("  if (t < ROWS) {{ const idx i = top + t; idx o = 0, l = 0;"));
        rows.offsets(&mut s, "(i < height ? i : 0)", &[Some("o"), Some("l"), None]);
        s.line(format_args!(
            "    of_rows[0][t] = o; of_rows[1][t] = l;
  }} else if (t < ROWS + COLUMNS) {{ const idx j = side + t - ROWS; idx o = 0, r = 0;"
        ));
        columns.offsets(&mut s, "(j < width ? j : 0)", &[Some("o"), None, Some("r")]);
        s.line(format_args!(
            "    of_columns[0][t - ROWS] = o; of_columns[1][t - ROWS] = r;
  }}
  const u16* const from_left = (const u16*)a.v[{0}] + b1;
  const u16* const from_right = (const u16*)a.v[{1}] + b2;
  LeftPanel::Next left_next[LeftPanel::LOADS];
  RightPanel::Next right_next[RightPanel::LOADS];
  f32 sum[DOWN][ACROSS][4] = {{}};",
            args.operands + 1,
            args.operands + 2,
        ));
        let offsets = |s: &mut SourceWriter, k: &str, table: &str| {
            s.line(format_args!("    const idx k = {k}; idx l = 0, r = 0;"));
            along.offsets(s, "(k < depth ? k : 0)", &[None, Some("l"), Some("r")]);
            s.line(format_args!(
                "    along[{table}][0][t % DEPTH] = l; along[{table}][1][t % DEPTH] = r; }}"
            ));
        };
        let read = |s: &mut SourceWriter, table: &str| {
            s.line(format_args!(
                "  LeftPanel::read(left_next, from_left, of_rows[1], along[{table}][0]);
  RightPanel::read(right_next, from_right, of_columns[1], along[{table}][1]);"
            ));
        };
        // The offsets of the first two panels; in the loop, of the panel after the next.
        s.line(format_args!("  if (t < 2 * DEPTH) {{"));
        offsets(&mut s, "t", "t / DEPTH");
        s.line(format_args!("  __syncthreads();"));
        read(&mut s, "0");
        s.line(format_args!(
            "  int now = 0;
  for (idx k0 = 0; k0 < depth; k0 += DEPTH, now ^= 1) {{
    if (depth - k0 < DEPTH) {{
      LeftPanel::clear(left_next, (int)(depth - k0));
      RightPanel::clear(right_next, (int)(depth - k0));
    }}
    LeftPanel::write(left[now], left_next);
    RightPanel::write(right[now], right_next);
    __syncthreads();
    if (k0 + DEPTH < depth) {{"
        ));
        read(&mut s, "now ^ 1");
        s.line(format_args!("    if (t < DEPTH) {{"));
        offsets(&mut s, "k0 + 2 * DEPTH + t", "now");
        s.line(format_args!(
            "    }}
    multiply_sync<{}, LeftPanel, RightPanel>(sum, left[now], right[now]);
  }}
  write_sums<{}>(({}*)a.v[{}] + b0, sum, of_rows[0], of_columns[0], height - top, width - side);
}}",
            c_type(element),
            self.pairs,
            c_type(out),
            args.operands,
        ));
        s.text()
    }
}

/// Whether the elements of operand `k` are contiguous along `dense`, so that each `count` neighbors from a
/// multiple of `count` on are at an address that is a multiple of their bytes.
fn is_aligned(dense: &Axes, others: [&Axes; 2], k: usize, operand: OperandRef<'_>, count: usize) -> bool {
    let own = Axes::coalesced(&dense.sizes, &[&dense.strides[k]], false);
    let is_multiple = |step: &isize| step.unsigned_abs().is_multiple_of(count);
    own.inner_stride(0) == 1
        && own.sizes.last().is_some_and(|size| size.is_multiple_of(count))
        && operand.address.addr().is_multiple_of(count * operand.element)
        && own.strides[0].iter().rev().skip(1).all(is_multiple)
        && others.iter().all(|axes| axes.strides[k].iter().all(is_multiple))
}
