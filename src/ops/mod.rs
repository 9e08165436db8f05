//! Operators as methods of tensors, views and lazy expressions, on every device.
//!
//! `use rankform::prelude::*;` brings them into scope. Most operators come in families: `sum` reduces over
//! axes given as a type, `sum_axis` over an axis known at run time, `sum_along` reduces inside an expression,
//! and `sum_into` writes into existing memory. Elementwise operators write into existing memory by
//! `x.lazy().exp().eval_into(&mut out)`. Their names in NumPy, PyTorch, ndarray and MATLAB are in
//! `docs/names.md`.
//!
//! | | methods | of |
//! |---|---|---|
//! | arithmetic | `add` `sub` `mul` `div` `rem` `floor_divide` `remainder` `checked_div` `pow` `neg` `abs` `signum` `square` `recip` `maximum` `minimum` `fmax` `fmin` `heaviside` `gcd` `lcm`; `+ - * / %`, `+=`, … | [`Arithmetic`], [`CheckedDivision`] |
//! | bits | `bit_and` `bit_or` `bit_xor` `shl` `shr` `not`; <code>& \| ^ !</code> | [`Arithmetic`] |
//! | exponentials | `exp` `exp2` `exp_m1` `ln` `log2` `log10` `ln_1p` `log_add_exp` `log_add_exp2` `xlogy` `xlog1py` `logit` | [`Math`] |
//! | powers and roots | `powf` `sqrt` `rsqrt` `cbrt` `hypot` | [`Math`] |
//! | angles | `sin` `cos` `tan` `asin` `acos` `atan` `atan2` `sinh` `cosh` `tanh` `asinh` `acosh` `atanh` `sinc` `to_radians` `to_degrees` | [`Math`] |
//! | special functions | `erf` `erfc` `erfinv` `ndtr` `log_ndtr` `gamma` `lgamma` `digamma` `j0` `j1` `y0` `y1` `i0` `i1` `i0e` `i1e` | [`Math`] |
//! | rounding | `round` `floor` `ceil` `trunc` `next_after` `copysign` `ldexp` | [`Math`]; `ldexp` of [`Tensor`](crate::Tensor) |
//! | limits | `clamp` `nan_to_num` | [`Tensor`](crate::Tensor) |
//! | comparisons | `equal` `not_equal` `less` `less_equal` `greater` `greater_equal` `is_nan` `is_finite` `is_infinite` `sign_bit` `isclose` `allclose` | [`Comparisons`]; the last two of [`Tensor`](crate::Tensor) |
//! | logic and choice | `logical_and` `logical_or` `logical_xor` `logical_not` `select` | [`Comparisons`]; `select` of a mask, [`Tensor`](crate::Tensor) |
//! | other elements | `cast` | [`Cast`] |
//! | complex numbers | `re` `im` `conj` `is_real` `modulus` `angle` | [`ComplexParts`] |
//! | activations | `relu` `relu6` `leaky_relu` `elu` `elu_alpha` `selu` `celu` `sigmoid` `log_sigmoid` `hard_sigmoid` `silu` `hard_swish` `gelu` `gelu_tanh` `mish` `softplus` `softsign` `hard_tanh` `tanh_shrink` `soft_shrink` `hard_shrink` `glu` | [`Activation`]; `celu`, `elu_alpha` of [`Tensor`](crate::Tensor), `glu` of [`Channels`] |
//! | one's own | `map` `zip` [`apply`](crate::expr::apply) [`apply_into`](crate::expr::apply_into) [`apply_many`](crate::expr::apply_many) [`apply_many_into`](crate::expr::apply_many_into) [`elementwise!`](crate::elementwise) [`derivative`] | [`Elementwise`](crate::expr::Elementwise), [`Zip`](crate::expr::Zip) |
//! | in place | `assign` `fill` `map_in_place` `zip_in_place` [`apply_in_place`](crate::expr::apply_in_place) | [`Tensor`](crate::Tensor), [`TensorViewMut`](crate::TensorViewMut) |
//! | sums and means | `sum` `prod` `mean` `var` `sample_var` `std` `sample_std` `mean_var` `logsumexp` | [`Reductions`] |
//! | extremes and counts | `max` `min` `argmax` `argmin` `any` `all` `count` | [`Reductions`] |
//! | norms | `norm` `norm_one` `norm_max` `norm_p` `normalize` `normalize_p` `cosine_similarity` | [`Norms`], [`CosineSimilarity`], [`Tensor`](crate::Tensor) |
//! | reducers of one's own | `reduce` `reduce_keepdims` `along` `scan` `scan_exclusive` `scan_by` | [`Reduce`](crate::expr::Reduce), [`Scan`](crate::expr::Scan) |
//! | running | `cumsum` `cumprod` `cummax` `cummin` `logcumsumexp` `diff` | [`Scans`]; `diff` of [`Arrange`] |
//! | statistics | `cov` `corrcoef` `quantile` `quantiles` `median` `histogram` `histogram_with` `histogramdd` `bincount` `bincount_of` `mode` | [`Covariances`], [`Quantiles`], [`Histogram`], [`UniqueConsecutive`]; `bincount` of [`Tensor`](crate::Tensor) |
//! | sorts and sets | `sort` `sort_descending` `argsort` `argsort_descending` `topk` `bottomk` `unique` `unique_all` `unique_consecutive` `searchsorted` `isin` | [`Sorts`], [`UniqueConsecutive`], [`Membership`]; `searchsorted` of [`Tensor`](crate::Tensor) |
//! | by index | `index_select` `gather` `take` `embedding` `one_hot` `index`; in place `scatter` `index_scatter` `scatter_reduce` `index_reduce` `index_put` | [`Indexing`], [`IndexingBySeveral`], [`Tensor`](crate::Tensor) |
//! | by mask | `masked_select` `masked_fill` `nonzero`; in place `masked_scatter` | [`Indexing`], [`Tensor`](crate::Tensor) |
//! | joined and cut | `concat` `stack` `split` `split_equal` `block_diag` | [`Tensor`](crate::Tensor), [`Arrange`], [`Pieces`] |
//! | moved | `pad` `roll` `repeat` `repeat_each` `tile`; in place `copy_within` | [`Arrange`], [`Pieces`] |
//! | triangles and grids | `tril` `triu` `tril_indices` `triu_indices` `diag` `diag_embed` `meshgrid` `cartesian_prod` `combinations` | [`Triangles`], [`Pieces`], [`Tensor`](crate::Tensor) |
//! | products | `matmul` `matmul_wide` `matmul_packed` `linear` `linear_with` `pack` `pack_wide` [`einsum!`](crate::einsum) [`einsum_into!`](crate::einsum_into) `tensordot` `vecdot` `outer` `cross` `kron` `trace` `matrix_power` | [`Tensor`](crate::Tensor), [`Linear`] |
//! | rows that sum to 1, rows of mean 0 | `softmax` `log_softmax` `layer_norm` `layer_norm_affine` `rms_norm` `group_norm` `instance_norm` `batch_norm` `batch_norm_by` | [`Tensor`](crate::Tensor), [`Channels`] |
//! | losses | `mse_loss` `l1_loss` `smooth_l1_loss` `huber_loss` `binary_cross_entropy` `binary_cross_entropy_with_logits` `weighted_binary_cross_entropy_with_logits` `kl_div` `kl_div_log_target` `nll_loss` `nll_loss_mean` `cross_entropy` `cross_entropy_mean` `soft_cross_entropy` | [`Losses`], [`ClassLosses`], [`Tensor`](crate::Tensor) |
//! | images and sequences | `conv1d` `conv2d` `conv3d` `conv_transpose1d` `conv_transpose2d` `conv_transpose3d` `max_pool1d` `max_pool2d` `max_pool3d` `avg_pool1d` `avg_pool2d` `avg_pool3d` `adaptive_avg_pool` `adaptive_max_pool` `interpolate_nearest` `interpolate_linear` `pixel_shuffle` `pixel_unshuffle` `unfold` `attention` `attention_biased` | [`Tensor`](crate::Tensor), [`MaxPools`], [`Resample`], [`Channels`] |
//! | random and spaced numbers | `random_uniform` `random_normal` `random_integers` `random_bernoulli` `random_permutation` `shuffle`; `arange` `linspace` `logspace` | [`Tensor`](crate::Tensor), [`Shuffles`] |
//! | when it runs | `lazy` `cached` `eval` `eval_into` | [`Lazy`](crate::expr::Lazy) |
//!
//! Solutions, factorizations and eigenvalues of matrices are functions of the module `linalg`, Fourier
//! transforms of the module `fft`, with these features.
//!
//! # Source folders
//!
//! | folder | operators |
//! |---|---|
//! | `elementwise/` | on each element by itself: arithmetic, functions, comparisons, casts |
//! | `functions/` | named functions of a real number: value, slope, accuracy |
//! | `reduction/` | along axes: sums, means, extremes, norms, quantiles, statistics, and running ones |
//! | `linalg/` | products of vectors and matrices |
//! | `nn/` | neural networks: convolutions, pooling, normalization, attention, losses |
//! | `indexing/` | elements by index and by mask: read, written, reduced |
//! | `sorting/` | sorts, distinct elements, membership |
//! | `shape/` | joins, padding, repetitions, triangles, diagonals |
//! | `counting/` | counts of elements, and combinations |
//!
//! The files next to the folders: `define.rs` has the macros that make operators from their bodies, and
//! `methods.rs` those that make methods with a result in new or in existing memory. `registry.rs` lists every
//! elementwise operator as data. `std_ops.rs` implements the symbols of Rust (`+ - * /`, `+=`). `assign.rs`
//! has the operators in place, `random.rs` random numbers, `per_device.rs` operators with code of their own
//! for each device.
//!
//! **To add an elementwise operator**, add one row: name, operands, class of elements, body.
// Imports: `kernel`.

mod assign;
mod axes;
mod counting;
mod define;
mod elementwise;
pub mod functions;
mod indexing;
mod linalg;
mod logspace;
mod methods;
mod nn;
mod per_device;
mod random;
mod reduction;
mod registry;
mod shape;
mod sorting;
mod std_ops;

pub use counting::{Bins, Counts, Histogram};
pub use elementwise::*;
pub use indexing::{IndexTuple, Indexing, IndexingBySeveral, Replace, ScatterReduction};
#[doc(hidden)]
pub use linalg::einsum;
pub use linalg::{Linear, Packed};
pub use nn::*;
pub use per_device::{Operator, run};
pub use random::Shuffles;
pub use reduction::*;
pub use registry::{OperatorRow, Visit, built_in, each_operator};
pub use shape::{Arrange, Pad, Pieces, Triangles};
pub use sorting::{Membership, Side, Sorts, Unique, UniqueConsecutive, UniqueSlices};

pub use crate::kernel::Derivative;

/// The partial derivative of an elementwise operator by its operand `INDEX`, as an operator with the same
/// operands.
///
/// The body is run on dual numbers and gives the first derivative; the derivative of a derivative is the
/// second. The body is differentiated as it is written: if an intermediate value overflows, the derivative
/// can be NaN although the value is not. In f32, the derivative of `x / ((-x).exp() + 1.0)` is NaN at −89 and
/// below; the derivative of `x * x.sigmoid()` is right.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     fn cube(x) { x * x * x }
/// }
/// let x = Tensor::from([1.0, 2.0]);
/// assert_eq!(x.map(derivative::<_, 0>(cube))?.to_vec()?, [3.0, 12.0]);
/// assert_eq!(x.map(derivative::<_, 0>(derivative::<_, 0>(cube)))?.to_vec()?, [6.0, 12.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn derivative<F, const INDEX: usize>(_: F) -> Derivative<F, INDEX> {
    Derivative::new()
}
