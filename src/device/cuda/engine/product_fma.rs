//! The source of the kernel for `matmul.rs` that multiplies elements of any types: sums in registers, panels
//! of the operands in shared memory.
//!
//! For each operand the threads of a warp load neighbors along the axis on which the operand is denser.
//! The offsets of a panel's positions along the summed axes are computed once for the block, two steps ahead,
//! and the elements of the next panels are in flight while the current ones are multiplied.
// Imports: `scalar`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::c_type;
use crate::device::cuda::engine::product_args::{ProductArgs, THREADS};
use crate::scalar::DType;

/// Threads along each side of a block, which is a square: each has a tile of the output.
const SIDE: usize = THREADS.isqrt();
/// Depth of a panel: the products of each sum that one step of the kernel adds.
const DEPTH: usize = 16;
/// Elements of an operand that a thread reads from shared memory at a time.
const VECTOR: usize = 4;

/// The rows and columns of the output that a thread computes, for sums of `size` bytes: at most 32 registers.
/// Positions of 64 bits (`wide`) take two registers each, and leave fewer to sums.
const fn sums_of_thread(size: usize, wide: bool) -> [usize; 2] {
    match size {
        ..=4 if !wide => [4, 8],
        ..=8 => [4, 4],
        _ => [2, 4],
    }
}

/// The rows and columns of a block's tile, for sums of `size` bytes.
pub(super) fn tile_of(size: usize, wide: bool) -> [usize; 2] {
    sums_of_thread(size, wide).map(|count| SIDE * count)
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

/// The source of the kernel, for the types of output, sums, left and right operand. `by_depth` says of each
/// operand whether the threads of a warp load neighbors along the summed axes.
pub(super) fn source(
    [out, computed, left, right]: [DType; 4],
    words: &ArgBlock,
    args: ProductArgs,
    by_depth: [bool; 2],
) -> String {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let (operands, [_, rows, columns, along]) = (args.operands, args.groups);
    let tile = sums_of_thread(computed.size(), words.wide);
    let ([down, across], c) = (tile, c_type(computed));
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
    args.begin(&mut s, [left.width, right.width]);
    s.line(format_args!("  const int x = t % {SIDE}, y = t / {SIDE};"));
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
