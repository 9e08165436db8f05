//! The combination of the states of neighboring threads: by shuffles within a warp, then one exchange between
//! warps through shared memory.
//!
//! The states of lanes `k` and `k + by` are combined in this order, for `by` = 16, 8, 4, 2, 1: the tree, and
//! with it every bit, depends on the number of threads alone. Only the first lane has the result.
// Imports: nothing.

use crate::device::cuda::codegen::source::SourceWriter;

/// Threads of a warp.
pub(super) const WARP: usize = 32;

/// Adds, for the reducer of this prefix with `fields` numbers in a state, the function
/// `{prefix}lanes_sync(a, state, lanes, shared)`: the combination of the states of each `lanes` neighboring
/// threads, a power of 2. All threads of a block call it. `shared` has room for a state of each warp, and is
/// not used if `lanes` is a warp or less.
pub(super) fn lane_functions(s: &mut SourceWriter, prefix: &str, fields: usize) {
    let takes: Vec<_> = (0..fields).map(|k| format!("s.s{k} = lane_down_sync(g.s{k}, by, width);")).collect();
    s.line(format_args!(
        "DI {prefix}State {prefix}down_sync(const {prefix}State g, const int by, const int width) {{\n  \
         {prefix}State s; {} return s; }}",
        takes.join(" ")
    ));
    s.line(format_args!(
        "DI {prefix}State {prefix}lanes_sync(const Args& a, {prefix}State s, const int lanes, \
         {prefix}State* shared) {{
  const int width = lanes < {WARP} ? lanes : {WARP}, warps = lanes / {WARP};
  for (int by = width / 2; by > 0; by /= 2) s = {prefix}combine(a, s, {prefix}down_sync(s, by, width));
  if (warps > 1) {{
    const int lane = threadIdx.x % {WARP}, warp = threadIdx.x / {WARP};
    if (lane == 0) shared[warp] = s;
    __syncthreads();
    s = shared[(warp & -warps) + (lane & (warps - 1))];
    for (int by = warps / 2; by > 0; by /= 2) s = {prefix}combine(a, s, {prefix}down_sync(s, by, warps));
  }}
  return s;
}}"
    ));
}
