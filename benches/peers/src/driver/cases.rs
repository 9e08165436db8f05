//! Every case: its name, its sizes, and its computation, in f32 unless stated otherwise.

/// Cases of one computation.
pub struct Family {
    pub name: &'static str,
    pub sizes: &'static [usize],
    pub what: &'static str,
}

const fn of(name: &'static str, sizes: &'static [usize], what: &'static str) -> Family {
    Family { name, sizes, what }
}

/// A size n means n × n elements, 0 the sizes in the text; of training steps, that are in a page of their
/// own, the number of samples.
pub const FAMILIES: &[Family] = &[
    of("ew/add", &[4, 64, 256, 4096], "a + b"),
    of("ew/add_inplace", &[4, 256, 4096], "a ← a + b"),
    of("ew/add_row", &[256, 4096], "a + row"),
    of("ew/add_col", &[256, 4096], "a + column"),
    of("ew/add_t", &[256, 4096], "a + bᵀ"),
    of("ew/step2", &[256, 4096], "every second column of a, and of b, added"),
    of("fused/gelu", &[256, 4096], "gelu, by tanh"),
    of("fused/swiglu", &[256, 4096], "x · sigmoid(x) · y"),
    of("fused/ratio", &[256, 4096], "(a·b + c) / (abs d + ε)"),
    of("fused/adamw", &[256, 4096], "one step of AdamW: parameter and two moments"),
    of("user/f", &[256, 4096], "the user's own x·y + sin x"),
    of("trans/exp", &[256], "exp"),
    of("trans/tanh", &[256], "tanh"),
    of("trans/log", &[256], "ln"),
    of("trans/erf", &[256], "erf"),
    of("trans/sin", &[256], "sin"),
    of("red/sum", &[256, 4096], "sum of all"),
    of("red/sum0", &[256, 4096], "sums of columns"),
    of("red/sum1", &[256, 4096], "sums of rows"),
    of("red/max1", &[256, 4096], "largest of rows"),
    of("red/argmax1", &[256, 4096], "where the largest of rows stand"),
    of("red/meanvar1", &[256, 4096], "means and variances of rows"),
    of("red/softmax", &[256, 4096], "softmax of rows"),
    of("red/layernorm", &[256, 4096], "layer norm of rows, with weight and bias"),
    of("red/scaled_softmax", &[256, 4096], "softmax of rows of a / 8"),
    of("red/rmsnorm", &[256, 4096], "rms norm of rows, with weight"),
    of(
        "short/distances",
        &[2, 16],
        "squared distances of 20 000 points of that many coordinates and 16 centers",
    ),
    of("short/sum", &[3, 8, 64], "sums of rows of that many numbers, 2²⁰ in all"),
    of("short/median", &[9], "medians of rows of that many numbers, 2²⁰ in all"),
    of("mm/f32", &[64, 128, 256, 512, 1024, 2048], "matrix product"),
    of("mm/f64", &[512, 1024], "matrix product of f64"),
    of("mm/f16", &[1024], "matrix product of f16"),
    of("mm/bf16", &[1024], "matrix product of bf16"),
    of("mm/i8", &[1024], "matrix product of i8, as i32"),
    of("mm/gemv", &[4096], "matrix · vector"),
    of("mm/skinny16", &[4096], "16 rows · matrix"),
    of("mm/batched64", &[64], "64 matrix products"),
    of("dm/transpose", &[256, 4096], "a copy of the transposed"),
    of("dm/nhwc", &[0], "32 images of 64 channels, 56 × 56, from channels first to last"),
    of("dm/concat0", &[2048], "two matrices, one below the other"),
    of("dm/concat1", &[2048], "two matrices, side by side"),
    of("dm/gather", &[0], "100 000 rows of 256 from 50 000"),
    of("dm/cumsum0", &[4096], "running sums down columns"),
    of("dm/cumsum1", &[4096], "running sums along rows"),
    of("dm/sort1", &[1024], "rows sorted"),
    of("dm/topk10", &[1024], "the ten largest of each row"),
    of("dm/sort", &[2048], "n · n numbers sorted"),
    of("dm/argsort", &[2048], "the order of n · n numbers"),
    of("dm/quantile", &[2048], "the quantile 0.3 of n · n numbers"),
    of("dm/histogram", &[2048], "counts of n · n numbers in 100 bins"),
    of("dm/unique", &[1024], "the distinct ones of n · n whole numbers below 1000"),
    of("dm/scatter", &[1024], "n · n numbers added to 1000 places"),
    of("nn/crossentropy", &[1024], "mean cross entropy of n rows of n logits"),
    of("nn/conv2d", &[0], "8 images of 64 channels, 56 × 56, 3 × 3 to 64, zeros around"),
    of("nn/conv1d", &[0], "8 signals of 64 channels, 4096 long, 5 to 64, zeros around"),
    of("nn/conv3d", &[0], "2 volumes of 16 channels, 24 × 24 × 24, 3 × 3 × 3 to 32, zeros around"),
    of("nn/depthwise", &[0], "8 images of 64 channels, 56 × 56, 3 × 3 each, zeros around"),
    of("nn/max_pool", &[0], "8 images of 64 channels, 112 × 112, 3 × 3, every second, zeros around"),
    of("nn/attention", &[128, 2048], "n tokens: 8 batches, 12 heads of 32; for 2048 1 batch, 8 heads of 64"),
    of("nn/causal", &[2048], "the same, each token sees those before it"),
    of("nn/encoder", &[128], "an encoder layer: 8 batches of n tokens of 384, 12 heads"),
    of("mm/einsum3", &[512], "the product of three matrices"),
    of("create/zeros", &[4, 64, 256, 4096], "zeros"),
    of("create/full", &[4, 256, 4096], "one number everywhere"),
    of("create/from_vec", &[4, 64, 4096], "from a vector and back, without a copy"),
    of("view/slice", &[64], "a view of a part"),
    of("view/transpose", &[64], "a view of the transposed"),
    of("view/permute4", &[64], "a view of four axes in another order"),
    of("view/broadcast", &[64], "a view that repeats a row"),
    of("view/reshape", &[64], "a view of other sizes"),
    of("train/mlp_small", &[128], "MLP 64-256-10, relu, cross entropy, AdamW"),
    of("train/mlp", &[256], "MLP 784-1024-1024-10, relu, cross entropy, AdamW"),
    of("train/conv", &[64], "the net of `examples/digits_conv.rs` on images of 8 × 8, AdamW"),
    of(
        "train/transformer",
        &[8],
        "a layer: 128 positions of 384, 6 heads, causal, norms first, gelu, 4 × hidden, AdamW",
    ),
    of("train/lstm", &[16], "64 steps of an LSTM cell of 32, one after the other, SGD"),
];

/// Whether a case is a training step.
pub fn is_training(case: &str) -> bool {
    case.starts_with("train/")
}

/// The names of the cases that begin with one of `prefixes`, or all; of several threads those that threads
/// can help.
pub fn chosen(threads: usize, prefixes: &[String]) -> Vec<String> {
    let name = |family: &Family, size: &usize| format!("{}/{size}", family.name);
    let all = FAMILIES.iter().flat_map(|family| family.sizes.iter().map(move |size| name(family, size)));
    let help = |case: &String| {
        threads == 1
            || !(case.starts_with("view/")
                || case.starts_with("create/")
                || case.ends_with("/4")
                || case == "ew/add/64")
    };
    let wanted =
        |case: &String| prefixes.is_empty() || prefixes.iter().any(|prefix| case.starts_with(prefix));
    all.filter(|case| help(case) && wanted(case)).collect()
}

/// The computation.
pub fn what(case: &str) -> &'static str {
    let name = case.rsplit_once('/').map_or(case, |(name, _)| name);
    FAMILIES.iter().find(|family| family.name == name).map_or("", |family| family.what)
}

/// Whether the limit of a case is memory: as many bytes as it must move, and little to compute.
pub fn is_bound_by_memory(case: &str) -> bool {
    let few = [
        "fused/ratio",
        "fused/adamw",
        "red/sum",
        "red/max1",
        "mm/gemv",
        "dm/transpose",
        "dm/nhwc",
        "dm/concat",
        "create/full",
    ];
    case.starts_with("ew/") || few.iter().any(|name| case.starts_with(name))
}
