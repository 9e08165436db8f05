//! Optimizers: rules by which gradients change parameters.
//!
//! ```
//! use rankform::autograd::value_and_grad;
//! use rankform::optim::{Adam, clip_norm, schedule};
//! use rankform::prelude::*;
//! let (x, y) = (Tensor::from([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), Tensor::from([1.0, 3.0, 5.0]));
//! let mut w = Tensor::from([0.0_f64, 0.0]);
//! let mut optimizer = Adam::new(0.1);
//! for step in 0..400 {
//!     let (_, mut gradient) = value_and_grad(&w, |w, tape| {
//!         let (x, y) = (tape.constant(&x)?, tape.constant(&y)?);
//!         (x.matmul(w)?.lazy() - &y).square().mean(All)
//!     })?;
//!     clip_norm(&mut gradient, 10.0)?;
//!     optimizer.set_learning_rate(0.1 * schedule::cosine(step, 400, 0.01));
//!     optimizer.step(&mut w, &gradient)?;
//! }
//! assert!((w[[0]] - 1.0).abs() < 1e-2 && (w[[1]] - 2.0).abs() < 1e-2);
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! An optimizer is an [`Optimizer<R>`] with a rule `R`. The rules of this crate compute PyTorch's formulas in
//! PyTorch's order, each in one pass over memory that updates the parameter and its state in place.
//!
//! | optimizer | rule |
//! |---|---|
//! | [`Sgd`] | gradient descent, with momentum, dampening, Nesterov's momentum |
//! | [`Adam`], [`AdamW`] | running means of gradients and of their squares |
//! | [`RmsProp`] | a running mean of squares |
//! | [`Lion`] | the sign of a running mean |
//! | your own | [`UpdateRule`] |
//!
//! | task | function |
//! |---|---|
//! | other options for some parameters | [`Optimizer::group`] |
//! | gradients of limited size | [`clip_norm`], [`clip_value`] |
//! | a learning rate that depends on the step | [`schedule`] |
//! | sums of the gradients of several batches | [`accumulate`] |
//! | saved state | `Optimizer::save`, `Optimizer::load`, with the feature `safetensors` |
//!
//! Parameters have elements f16, bf16, f32, f64, Complex\<f32\> or Complex\<f64\>. The state of elements of
//! 16 bits is in f32, as is their arithmetic. A complex number is updated as two real numbers.
// Imports: nothing.

mod adam;
mod clip;
#[cfg(feature = "safetensors")]
mod files;
mod lion;
mod operator;
mod optimizer;
mod parts;
mod rms_prop;
pub mod schedule;
mod sgd;

/// The rules of the optimizers.
pub mod rules {
    pub use super::adam::{Adam, AdamW};
    pub use super::lion::Lion;
    pub use super::rms_prop::RmsProp;
    pub use super::sgd::Sgd;
}

pub use clip::{accumulate, clip_norm, clip_value};
pub use optimizer::{Group, Optimizer, ParameterStep, UpdateRule};

/// Stochastic gradient descent, with momentum if wanted.
///
/// ```text
/// g ← g + weight_decay · p
/// b ← momentum · b + (1 − dampening) · g      at the first step b ← g
/// p ← p − rate · b                            with Nesterov's momentum p − rate · (g + momentum · b)
/// ```
/// Without momentum `b` is `g`, and there is no state.
///
/// # Examples
/// ```
/// use rankform::optim::Sgd;
/// use rankform::prelude::*;
/// let (mut w, gradient) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, -1.0]));
/// let mut optimizer = Sgd::new(0.5).momentum(0.5);
/// optimizer.step(&mut w, &gradient)?;
/// assert_eq!(w.to_vec()?, [0.5, 2.5]);
/// optimizer.step(&mut w, &gradient)?;
/// assert_eq!(w.to_vec()?, [-0.25, 3.25]);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.optim.SGD`; Sutskever et al. 2013 for the momenta.
pub type Sgd = Optimizer<rules::Sgd>;

/// Adam: steps along a running mean of gradients, divided by the root of a running mean of their squares.
///
/// ```text
/// g ← g + weight_decay · p
/// m ← m + (1 − β₁)(g − m),   v ← β₂ · v + (1 − β₂) · g²
/// p ← p − rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
/// ```
/// The defaults are β₁ = 0.9, β₂ = 0.999, ε = 1e-8 and no weight decay.
///
/// # Examples
/// ```
/// use rankform::optim::Adam;
/// use rankform::prelude::*;
/// let (mut w, gradient) = (Tensor::from([1.0_f64, 2.0]), Tensor::from([0.5, -4.0]));
/// let mut optimizer = Adam::new(0.25).betas(0.8, 0.99);
/// for _ in 0..3 {
///     optimizer.step(&mut w, &gradient)?; // the same gradient: steps of the rate, against its sign
/// }
/// assert!((w[[0]] - 0.25).abs() < 1e-6 && (w[[1]] - 2.75).abs() < 1e-6);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.optim.Adam`; Kingma, Ba 2015.
pub type Adam = Optimizer<rules::Adam>;

/// [`Adam`] with decoupled weight decay: `p ← (1 − rate · weight_decay) · p` before the step; the gradient
/// has no decay term.
///
/// The defaults are those of Adam, with a weight decay of 0.01.
///
/// # Examples
/// Weight decay for matrices alone:
/// ```
/// use rankform::optim::{AdamW, Group};
/// use rankform::prelude::*;
/// parameters! {
///     struct Layer<D> { weight: Tensor<f32, 2, D>, bias: Tensor<f32, 1, D> }
/// }
/// let mut layer = Layer { weight: Tensor::ones([1, 1], &Cpu)?, bias: Tensor::ones([1], &Cpu)? };
/// let gradients = layer.zeros_like()?;
/// let no_decay = Group::new().weight_decay(0.0);
/// let mut optimizer =
///     AdamW::new(0.5).weight_decay(0.5).group(|name| name.ends_with("bias"), no_decay);
/// optimizer.step(&mut layer, &gradients)?;
/// assert_eq!((layer.weight.item()?, layer.bias.item()?), (0.75, 1.0));
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.optim.AdamW`; Loshchilov, Hutter 2019.
pub type AdamW = Optimizer<rules::AdamW>;

/// RMSprop: steps along gradients that are divided by the root of a running mean of their squares.
///
/// ```text
/// g ← g + weight_decay · p,   v ← α · v + (1 − α) · g²
/// d ← √v + ε                              centered: a ← a + (1 − α)(g − a), d ← √(v − a²) + ε
/// p ← p − rate · g / d                    with momentum: b ← momentum · b + g / d, p ← p − rate · b
/// ```
/// The defaults are α = 0.99, ε = 1e-8, no momentum, not centered.
///
/// # Examples
/// ```
/// use rankform::optim::RmsProp;
/// use rankform::prelude::*;
/// let mut w = Tensor::from([1.0_f64]);
/// RmsProp::new(0.01).alpha(0.75).step(&mut w, &Tensor::from([3.0]))?;
/// assert!((w[[0]] - 0.98).abs() < 1e-9); // v = 0.25 · g², g / √v = 2
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.optim.RMSprop`; Hinton 2012; Graves 2013 for the centered form.
pub type RmsProp = Optimizer<rules::RmsProp>;

/// Lion: steps of the sign of a mean of the gradient and its running mean.
///
/// ```text
/// p ← (1 − rate · weight_decay) · p
/// p ← p − rate · sign(β₁ · m + (1 − β₁) · g)
/// m ← β₂ · m + (1 − β₂) · g
/// ```
/// The defaults are β₁ = 0.9, β₂ = 0.99 and no weight decay. Its rate is usually 3 to 10 times smaller than
/// that of Adam.
///
/// # Examples
/// ```
/// use rankform::optim::Lion;
/// use rankform::prelude::*;
/// let mut w = Tensor::from([1.0, 1.0]);
/// Lion::new(0.25).step(&mut w, &Tensor::from([3.0, -0.001]))?;
/// assert_eq!(w.to_vec()?, [0.75, 1.25]);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// Chen et al. 2023, *Symbolic Discovery of Optimization Algorithms*, algorithm 2, and its PyTorch code.
pub type Lion = Optimizer<rules::Lion>;
