//! Why a case is behind its best peer. A cause is a fact about what is computed, looked up in code or counted; a case that
//! is behind and has none here is listed without one.

/// Three rounds in turns, medians: additions 1.01, of a row 1.02, of a column 1.04 times the best peer's speed.
const TURNS: &str = "first in rounds in turns; the minima are of hours in which the processor had different clocks";

/// Counted in one program: 140 GFLOP/s in registers and in the second cache, 117 at 1024³; MKL 128.
const LARGE: &str = "tiles at the peak of multiply-adds in the second cache, at 0.83 of it when operands come from the third";

/// A case, or a family or group of cases, which ends before a slash or with one; and the cause.
const CAUSES: &[(&str, &str)] = &[
    ("ew/add/4", "one heap block, taken and given back; nalgebra's matrix has its size in its type and stands on the stack"),
    ("ew/add/4096", TURNS),
    ("ew/add_row/4096", TURNS),
    ("ew/add_col/4096", TURNS),
    ("ew/add_inplace/4", "sizes, handles and overlap are looked at in every call; nalgebra's sizes are in its type"),
    ("trans/tanh", "PyTorch calls the vector functions of Intel's MKL"),
    ("trans/log", "PyTorch calls the vector functions of Intel's MKL"),
    ("red/argmax1", "a piece of a row is read twice: for the largest, then for where it stands"),
    ("red/softmax", "e^(x − max) gets back what rounding took off the difference: 4 units in the tail, 60 without"),
    ("mm/f32/1024", LARGE),
    ("mm/f32/2048", LARGE),
    ("mm/f64/1024", LARGE),
    ("mm/f32", "the crate `gemm` computes it"),
    ("mm/f64", "the crate `gemm` computes it"),
    ("mm/i8/1024", "a fifth of the time packs: signed bytes are shifted, and their rows summed, for an instruction of mixed signs"),
    ("mm/batched64", "the crate `gemm` computes each of them"),
    ("nn/conv2d", "multiply-adds of 512 bits: 19 to 20 ms at one time, 36 at another, while those of 256 bits lose nothing"),
    ("dm/sort1", "a network compares each of 1024 keys 55 times, wherever it belongs; NumPy parts a row first"),
    ("create/zeros/4", "one heap block; nalgebra's matrix stands on the stack"),
    ("create/full/4", "the block has the count of its handles, the policy and the version beside the elements"),
    ("create/from_vec", "the counted handle is a heap block of its own; nalgebra keeps the vector itself"),
    ("view/", "a view has sizes, strides, device and whether its memory is there: two or three words more"),
];

/// The cause that is known for `case`.
pub fn cause(case: &str) -> Option<&'static str> {
    let of = |name: &str| case.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || name.ends_with('/'));
    CAUSES.iter().find(|(name, _)| of(name)).map(|&(_, cause)| cause)
}
