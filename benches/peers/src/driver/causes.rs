//! The causes of a case that is behind its best peer, or far from the limit. A cause is a fact about the
//! computation, found in code or counted; a case without one is listed as not yet known.

/// Counted in one program: a tile in registers, with its operands in L2, multiplies and adds at the peak.
const LARGE: &str = "tiles reach the peak of multiply-adds while operands come from the second cache, 0.83 \
                     to 0.88 of it from the third";

/// A case, or a family or group of cases, which ends before a slash or with one; and the cause.
const CAUSES: &[(&str, &str)] = &[
    (
        "ew/add/4",
        "one heap block, taken and given back; nalgebra's matrix has its size in its type and stands on the \
         stack",
    ),
    ("ew/add/64", FULL),
    (
        "ew/add/256",
        "768 KiB on pages of 4 KiB share a second cache of 1 or 2 MiB as their places fall, differently in \
         every process, the limit's too",
    ),
    ("ew/add_row/256", ROWS),
    (
        "ew/add_inplace/4",
        "sizes, handles and overlap are looked at in every call; nalgebra's sizes are in its type",
    ),
    (
        "ew/add_inplace/256",
        "512 KiB on pages of 4 KiB, as their places fall: ndarray's two builds, of one loop, take 4.95 and \
         5.8 µs (Sapphire Rapids)",
    ),
    ("ew/add_inplace/4096", FALL),
    ("ew/step2/4096", STEPS),
    (
        "fused/ratio/256",
        "five operands of 256 KiB are more than the second cache of 1 MiB, and differ from process to \
         process",
    ),
    ("fused/adamw/256", ROOT),
    ("fused/adamw/4096", KEPT),
    (
        "dm/sort/2048",
        "elements become whole numbers and elements again, a quarter of the time; NumPy compares floats \
         where they are",
    ),
    ("trans/exp", "PyTorch calls the vector functions of Intel's MKL"),
    ("trans/tanh", "PyTorch and NumPy have vector functions that come from Intel (MKL, SVML)"),
    ("trans/log", "PyTorch calls the vector functions of Intel's MKL"),
    (
        "trans/erf",
        "rten's error is up to 6.6e-7, by its documentation; here it is one unit in the last place, next to \
         0 too",
    ),
    (
        "trans/sin",
        "rten's error is up to 3e-7, by its documentation; here it is one unit in the last place, for any \
         number",
    ),
    (
        "red/sum/256",
        "leaves of 4096 are summed by a tree, so that rounding stays small; rten adds in four chains, whose \
         error grows with n",
    ),
    (
        "red/sum0",
        "columns are summed by that tree too, in strips; NumPy adds row after row, nalgebra's columns are \
         runs of memory",
    ),
    (
        "red/max1/4096",
        "a value is ranked as a whole number, so that NaNs and both zeros are in their places: more than a \
         maximum alone",
    ),
    ("red/argmax1", "a piece of a row is read twice: for the largest, then for where it stands"),
    (
        "red/softmax",
        "e^(x − max) gets back what rounding took off the difference: 4 units in the tail, 60 without",
    ),
    ("mm/gemv", EARLY),
    ("mm/f32/1024", LARGE),
    ("mm/f32/2048", LARGE),
    ("mm/f64/1024", LARGE),
    ("mm/f32", "the crate `gemm` computes it"),
    ("mm/f64", "the crate `gemm` computes it"),
    ("mm/f16", "once widened, it is a product of f32, which is behind too"),
    (
        "mm/bf16/1024",
        "tiles (AMX) wait for the second cache: 55 ns for four products, 28 where all is in the first; \
         elsewhere a sixth of the time packs operands in pairs and narrows sums",
    ),
    (
        "mm/i8/1024",
        "tiles (AMX) take two thirds of the time, packing and writing sums the rest; elsewhere a fifth \
         packs: signed bytes are shifted, and their rows summed, for an instruction of mixed signs",
    ),
    ("mm/batched64", "the crate `gemm` computes each of them"),
    (
        "dm/cumsum1",
        "sums run in f64, 16 rows side by side, which are turned in squares before and after: three passes \
         over the first cache",
    ),
    (
        "nn/conv2d",
        "a seventh of the time is not in tiles: the padded copy, places of windows, results beyond a run",
    ),
    (
        "nn/conv3d",
        "a fifth of the time is not in tiles: results become channels first, places of windows are found",
    ),
    (
        "dm/scatter",
        "all indices are checked before anything is written: a pass of its own, a sixth of the time",
    ),
    (
        "short/sum/3",
        "rows are reduced as columns: a third of the time transposes squares, of which three columns of \
         eight are used",
    ),
    (
        "dm/topk10",
        "NumPy parts rows by vectors (x86-simd-sort); here the least keys of chunks bound what is looked at, \
         key by key",
    ),
    (
        "dm/sort1",
        "a network compares each of 1024 keys 55 times, wherever it belongs; NumPy parts a row first",
    ),
    ("create/zeros/4", "one heap block; nalgebra's matrix stands on the stack"),
    (
        "create/zeros/64",
        "the block has the count of its handles, the policy and the version beside the elements",
    ),
    (
        "create/full/4",
        "the block has the count of its handles, the policy and the version beside the elements",
    ),
    (
        "create/full/256",
        "256 KiB are taken from the pool and given back: 60 ns, as long as `zeros` takes in all",
    ),
    ("create/from_vec", "the counted handle is a heap block of its own; nalgebra keeps the vector itself"),
    ("view/", "a view has sizes, strides, device and whether its memory is there: two or three words more"),
];

/// As above, for cases that memory bounds and that are below 0.8 of the limit.
const OF_LIMIT: &[(&str, &str)] = &[
    ("ew/add_t", CROSSWISE),
    ("ew/add_row/256", ROWS),
    ("ew/add/4096", FALL),
    ("ew/add_inplace/4096", FALL),
    ("ew/add_row/4096", ROW),
    ("ew/add_col/256", "every row begins anew, 1.7 ns: of 256 rows that is a sixth"),
    (
        "fused/ratio/256",
        "the limit is that of stores past the caches; with stores into them, where the result is wanted, it \
         is 0.95 of this",
    ),
    ("red/sum1/256", "64 states become one for every row, 1 ns: 16 rows take a tenth less"),
    ("ew/add_col/4096", FALL),
    ("ew/step2", STEPS),
    ("fused/adamw/256", ROOT),
    ("fused/adamw/4096", KEPT),
    ("red/sum0", "columns are summed by a tree, and a strip's states leave the registers after every 8 rows"),
    ("mm/gemv", EARLY),
    (
        "red/max1",
        "a value is ranked as a whole number, three instructions more than a maximum, so that NaNs and zeros \
         are in their places",
    ),
    ("dm/transpose", CROSSWISE),
    ("dm/nhwc", CROSSWISE),
];

/// Measured: 2¹⁶ elements take 3.1 µs in rows of 256, 2.4 in rows of 1024, and 2.1 with a scalar operand.
const ROWS: &str = "every row begins anew, 2 to 4 ns: the same elements in 64 rows take a quarter less";

/// Measured with rows of other lengths: 2²⁴ elements take 3.5 ms in rows of 1024, 4.4 in these.
const ROW: &str = "a first cache of 32 KiB does not hold the row of 16 KiB beside what is streamed: it comes \
                   from the second in every row";

/// Measured in six processes on Sapphire Rapids: 181 to 284 ns.
const FULL: &str = "three operands of 16 KiB are all that a first cache of 48 KiB holds, and more than one \
                    of 32: differs from process to process";

/// Measured in seven processes on Sapphire Rapids: `a += b` of 4096² 6.6 to 8.8 ms, the limit 5.6 to 7.4;
/// `a + column` 5.2 to 7.6.
const FALL: &str = "takes up to a third longer in one process than in another, as the limit does; why is not \
                    known, perhaps where pages fall";

/// Measured: without, the limit takes 16.0 ms of 13.6 (4096²).
const KEPT: &str = "what is updated in place is not fetched ahead";

const STEPS: &str = "every second element is packed, a piece at a time, before it is added: two passes \
                     through the first cache";

/// Measured with and without, on two machines: `tuning::l2_prefetch_bytes`.
const EARLY: &str =
    "rows are fetched early: of two machines of Zen 4 one gains a seventh by that, and the other loses one";

const ROOT: &str = "a root and a division an element, which alone take nine tenths of the time (Zen 4)";

const CROSSWISE: &str =
    "an operand is read crosswise: lines of many rows at a time, in squares that are turned in registers";

/// Causes that hold with two threads, before those that hold with one.
const OF_TWO: &[(&str, &str)] = &[
    ("red/sum/256", NOT_SHARED),
    ("red/sum0/256", NOT_SHARED),
    ("red/sum1/256", NOT_SHARED),
    ("red/max1/256", NOT_SHARED),
];

const NOT_SHARED: &str =
    "2¹⁶ elements, of which little is done, are one thread's: to share them takes as long";

/// The cause that is known for a case's being behind.
pub fn cause(case: &str, threads: usize) -> Option<&'static str> {
    of_two(case, threads).or(find(CAUSES, case))
}

/// The cause that is known for a case's being far from the limit.
pub fn cause_of_limit(case: &str, threads: usize) -> Option<&'static str> {
    of_two(case, threads).or(find(OF_LIMIT, case))
}

fn of_two(case: &str, threads: usize) -> Option<&'static str> {
    find(OF_TWO, case).filter(|_| threads > 1)
}

fn find(causes: &[(&str, &'static str)], case: &str) -> Option<&'static str> {
    let of = |name: &str| {
        case.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || name.ends_with('/'))
    };
    causes.iter().find(|(name, _)| of(name)).map(|&(_, cause)| cause)
}
