//! The axes of a product of any strides, the words of its kernel, and the beginning of the kernel's source,
//! which `product_fma.rs` and `product_mma.rs` share.
// Imports: `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word};
use crate::device::cuda::codegen::axes::Axes;
use crate::device::cuda::codegen::source::SourceWriter;
use crate::kernel::ContractPlan;

/// Threads of a block.
pub(super) const THREADS: usize = 256;

/// The four groups of axes of a product, each with the strides of the output and of both operands. An operand
/// without the group's axes is broadcast.
pub(super) struct Groups {
    pub(super) batch: Axes,
    pub(super) rows: Axes,
    pub(super) columns: Axes,
    pub(super) along: Axes,
}

impl Groups {
    pub(super) fn new(plan: ContractPlan<'_>, o: &[isize], l: &[isize], r: &[isize]) -> Groups {
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
    pub(super) fn has_dense_rows(&self) -> bool {
        inner(&self.rows, 0) < inner(&self.columns, 0)
    }

    /// The transposed product: the operands, and rows and columns, are exchanged.
    pub(super) fn transposed(self) -> Groups {
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

    /// For each operand, whether it is denser along the summed axes than along its rows or columns. The
    /// threads of a warp load neighbors along these axes then.
    pub(super) fn by_depth(&self) -> [bool; 2] {
        let Groups { rows, columns, along, .. } = self;
        [inner(along, 1) <= inner(rows, 1), inner(along, 2) < inner(columns, 2)]
    }
}

/// The distance of neighbors in an operand along the fastest of these axes; the largest number without axes.
fn inner(axes: &Axes, operand: usize) -> usize {
    if axes.rank() == 0 { usize::MAX } else { axes.inner_stride(operand).unsigned_abs() }
}

/// The indices of the words: height, width and depth; the operands; batch, rows, columns and summed axes; the
/// first product of the launch.
#[derive(Clone, Copy)]
pub(super) struct ProductArgs {
    sizes: [usize; 3],
    pub(super) operands: usize,
    pub(super) groups: [AxesArgs; 4],
    pub(super) first: usize,
}

impl ProductArgs {
    /// Adds the words of these groups; sums have `depth` products.
    pub(super) fn new(
        words: &mut ArgBlock,
        groups: &Groups,
        depth: usize,
        operands: &[OperandRef<'_>; 3],
    ) -> ProductArgs {
        let Groups { batch, rows, columns, along } = groups;
        ProductArgs {
            sizes: [rows.numel(), columns.numel(), depth].map(|word| words.push(word)),
            operands: words.operands(operands),
            groups: [batch, rows, columns, along].map(|axes| words.axes(axes)),
            first: words.push(0),
        }
    }

    /// Writes the sizes of the product, the first row `top` and column `side` of this block's tile, which has
    /// so many rows and columns, and the offsets `b0`, `b1` and `b2` of this product in the operands.
    pub(super) fn begin(&self, s: &mut SourceWriter, [down, across]: [usize; 2]) {
        let [height, width, depth] = self.sizes.map(Word);
        s.line(format_args!(
            "  const idx height = {height}, width = {width}, depth = {depth};
  const idx tiles = (width + {0}) / {across};
  const idx top = (idx)blockIdx.x / tiles * {down}, side = (idx)blockIdx.x % tiles * {across};
  const int t = threadIdx.x;
  idx b0 = 0, b1 = 0, b2 = 0;",
            across - 1
        ));
        let number = format!("({} + (idx)blockIdx.y)", Word(self.first));
        self.groups[0].offsets(s, &number, &[Some("b0"), Some("b1"), Some("b2")]);
    }
}
