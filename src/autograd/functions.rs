//! Gradients of functions.
// Imports: `error`, `dim`, `device`, `tensor`, `ops`.

use super::{Differentiable, Parameters, Tape, Var};
use crate::device::Device;
use crate::dim::All;
use crate::error::{Error, Result};
use crate::ops::Reductions as _;
use crate::tensor::Tensor;

/// The value of `f` and its gradients with respect to some parameters.
///
/// `f` receives the parameters on a new tape, and the tape, by which it makes other tensors
/// [constants](Tape::constant). The gradients have the form of the parameters, on their device.
///
/// # Errors
/// The errors of `f`; those of [`Tape::backward`].
///
/// # Examples
/// ```
/// use rankform::autograd::value_and_grad;
/// use rankform::prelude::*;
/// let (w, b) = (Tensor::from([1.0, 2.0]), Tensor::from(3.0));
/// let (value, (dw, db)) = value_and_grad((&w, &b), |(w, b), _| {
///     (w.lazy() * w).sum(All)?.mul(b)
/// })?;
/// assert_eq!((value.item()?, dw.to_vec()?, db.item()?), (15.0, vec![6.0, 12.0], 5.0));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn value_and_grad<P: Parameters<D>, T: Differentiable, D: Device>(
    parameters: P,
    f: impl FnOnce(&P::OnTape, &Tape<D>) -> Result<Var<T, 0, D>>,
) -> Result<(Tensor<T, 0, D>, P::Gradients)> {
    let Some(device) = parameters.device() else {
        return Err(Error::Value {
            op: "value_and_grad",
            what: "there is no tensor among the parameters".into(),
        });
    };
    let tape = Tape::new(device);
    let on_tape = parameters.watch(&tape)?;
    let loss = f(&on_tape, &tape)?;
    let gradients = tape.backward(&loss)?;
    Ok((tape.value(&loss)?, P::gradients(&on_tape, &gradients)?))
}

/// The gradients of `f` with respect to some parameters; see [`value_and_grad`].
///
/// # Errors
/// As [`value_and_grad`].
///
/// # Examples
/// A second derivative: the inner tape computes on the outer one.
/// ```
/// use rankform::autograd::grad;
/// use rankform::prelude::*;
/// let x = Tensor::from([1.0, 2.0]);
/// let second = grad(&x, |x, _| {
///     let first = grad(x, |x, _| (x.lazy() * x * x).sum(All))?; // 3x²
///     first.sum(All)
/// })?;
/// assert_eq!(second.to_vec()?, [6.0, 12.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn grad<P: Parameters<D>, T: Differentiable, D: Device>(
    parameters: P,
    f: impl FnOnce(&P::OnTape, &Tape<D>) -> Result<Var<T, 0, D>>,
) -> Result<P::Gradients> {
    Ok(value_and_grad(parameters, f)?.1)
}

/// The product of the Hessian of `f` at `x` and a vector `v`: the gradient of `⟨∇f(x), v⟩`.
///
/// # Cost
/// Five to seven times the time of the gradient of `f`, and the memory of two recordings. For elementwise
/// programs [`grad_and_hvp`](crate::autograd::grad_and_hvp) takes half of that.
///
/// # Errors
/// As [`value_and_grad`]; [`Error::Sizes`](crate::Error::Sizes) if the sizes of `x` and `v` differ.
///
/// # Examples
/// ```
/// use rankform::autograd::hvp;
/// use rankform::prelude::*;
/// let (x, v) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 0.0]));
/// // f = x₀²·x₁: the first column of its Hessian is (2·x₁, 2·x₀).
/// let product = hvp(&x, &v, |x, _| {
///     let [a, b] = [x.slice((0,))?, x.slice((1,))?];
///     (a.lazy() * a * b).eval()
/// })?;
/// assert_eq!(product.to_vec()?, [4.0, 2.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn hvp<T: Differentiable, const RANK: usize, D: Device>(
    x: &Tensor<T, RANK, D>,
    v: &Tensor<T, RANK, D>,
    f: impl FnOnce(&Var<T, RANK, Tape<D>>, &Tape<Tape<D>>) -> Result<Var<T, 0, Tape<D>>>,
) -> Result<Tensor<T, RANK, D>> {
    let tape = Tape::new(x.device());
    let on_tape = tape.watch(x)?;
    let slope = grad(&on_tape, f)?;
    let product = (slope.lazy() * &tape.constant(v)?).sum(All)?;
    if !tape.depends_on_variable(&product) {
        return Tensor::zeros(x.size(), x.device()); // the gradient of a linear function is a constant
    }
    tape.backward(&product)?.of(&on_tape)
}

/// The largest error of the gradient of `f` at `x`, compared with central differences of width `step`,
/// relative to the difference or to 1. Infinite if either is NaN.
///
/// # Cost
/// Two evaluations of `f` for each element of `x`.
///
/// # Errors
/// As [`value_and_grad`].
///
/// # Examples
/// ```
/// use rankform::autograd::gradient_error;
/// use rankform::prelude::*;
/// let x = Tensor::from([0.5, -1.0, 2.0]);
/// assert!(gradient_error(&x, 1e-6, |x, _| x.lazy().sin().sum(All))? < 1e-8);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn gradient_error<const RANK: usize, D: Device>(
    x: &Tensor<f64, RANK, D>,
    step: f64,
    f: impl Fn(&Var<f64, RANK, D>, &Tape<D>) -> Result<Var<f64, 0, D>>,
) -> Result<f64> {
    let slopes = grad(x, &f)?.to_vec()?;
    let values = x.to_vec()?;
    let at = |k: usize, by: f64| -> Result<f64> {
        let mut moved = values.clone();
        moved[k] += by;
        let tape = Tape::new(x.device());
        let moved = tape.constant(&Tensor::from_slice(&moved, x.size(), x.device())?)?;
        f(&moved, &tape)?.item()
    };
    let mut worst = 0.0_f64;
    for (k, slope) in slopes.iter().enumerate() {
        let difference = (at(k, step)? - at(k, -step)?) / (2.0 * step);
        let error = (slope - difference).abs() / difference.abs().max(1.0);
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    Ok(worst)
}
