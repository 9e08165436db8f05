//! Derivatives of functions along a direction.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`.

use super::jvp::Jvp;
use crate::autograd::containers::{array, other_form};
use crate::autograd::{Differentiable, Name, ParameterTree, ParameterVisitor, Tape, TensorMap, Var};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::any::Any;
use std::collections::VecDeque;

/// Arguments with respect to which a function is differentiated along a direction, on one device: a reference
/// to a [tree of parameters](ParameterTree), for example `&Tensor` or a reference to a struct of
/// [`parameters!`](crate::parameters), or a tuple, an array or a vector of arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not arguments on `{D}`",
    label = "expected a reference to a tensor or to a struct of `parameters!`, or a tuple, array or `Vec` of \
             references",
    note = "arguments and tangents are passed by reference: `jvp((&w, &b), (&dw, &db), |(w, b), device| …)`"
)]
pub trait Primals<D: Device> {
    /// The arguments as dual tensors.
    type Dual;
    /// The device of the first tensor; `None` if there is no tensor.
    fn device(&self) -> Option<&D>;
    /// Makes them dual tensors with these tangents. Buffers are constants.
    ///
    /// # Errors
    /// Those of [`Jvp::dual`]; [`Error::Value`] if arguments and tangents have different forms.
    fn dual(&self, tangents: &Self, device: &Jvp<D>) -> Result<Self::Dual>;
}

/// Dual tensors of each argument, in order, without their types.
struct Duals<'a, D: Device>(&'a Jvp<D>, VecDeque<Box<dyn Any>>);

impl<D: Device> ParameterVisitor<D, 0, 2> for Duals<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x, tangent]: [&Tensor<T, RANK, D>; 2],
    ) -> Result<()> {
        self.1.push_back(Box::new(self.0.dual(x, tangent)?));
        Ok(())
    }
}

impl<D: Device> TensorMap<D, Jvp<D>> for Duals<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, Jvp<D>>> {
        let dual = self.1.pop_front().and_then(|dual| dual.downcast().ok());
        dual.map_or(Err(other_form(name, "tensors")), |dual| Ok(*dual))
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, Jvp<D>>> {
        self.0.constant(x)
    }
}

impl<P: ParameterTree<D>, D: Device> Primals<D> for &P {
    type Dual = P::On<Jvp<D>>;
    fn device(&self) -> Option<&D> {
        self.device_of_tensors()
    }
    fn dual(&self, tangents: &Self, device: &Jvp<D>) -> Result<Self::Dual> {
        let mut duals = Duals(device, VecDeque::new());
        P::walk([], [self, tangents], Name::ROOT, &mut duals)?;
        self.map_tensors(Name::ROOT, &mut duals)
    }
}

impl<P: Primals<D>, const N: usize, D: Device> Primals<D> for [P; N] {
    type Dual = [P::Dual; N];
    fn device(&self) -> Option<&D> {
        self.iter().find_map(P::device)
    }
    fn dual(&self, tangents: &Self, device: &Jvp<D>) -> Result<Self::Dual> {
        array(std::array::from_fn(|k| self[k].dual(&tangents[k], device)))
    }
}

impl<P: Primals<D>, D: Device> Primals<D> for Vec<P> {
    type Dual = Vec<P::Dual>;
    fn device(&self) -> Option<&D> {
        self.iter().find_map(P::device)
    }
    fn dual(&self, tangents: &Self, device: &Jvp<D>) -> Result<Self::Dual> {
        if self.len() != tangents.len() {
            return Err(other_form(Name::ROOT, "lengths"));
        }
        self.iter().zip(tangents).map(|(x, tangent)| x.dual(tangent, device)).collect()
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)+;)*) => { $(
        impl<$($name: Primals<D>,)+ D: Device> Primals<D> for ($($name,)+) {
            type Dual = ($($name::Dual,)+);
            fn device(&self) -> Option<&D> {
                None$(.or_else(|| self.$index.device()))+
            }
            fn dual(&self, tangents: &Self, device: &Jvp<D>) -> Result<Self::Dual> {
                Ok(($(self.$index.dual(&tangents.$index, device)?,)+))
            }
        }
    )* };
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 E 3;
    A 0 B 1 C 2 E 3 F 4;
    A 0 B 1 C 2 E 3 F 4 G 5;
    A 0 B 1 C 2 E 3 F 4 G 5 H 6;
    A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7;
}

/// The value of `f` and its derivative along a direction: the Jacobian-vector product.
///
/// `f` receives the arguments `x` with the tangents `v` on a new [`Jvp`] device, and the device, by which it
/// makes other tensors [constants](Jvp::constant).
///
/// # Cost
/// About two evaluations of `f`. No intermediate result is kept.
///
/// # Errors
/// The errors of `f`; [`Error::Sizes`] if the sizes of an argument and its tangent differ.
///
/// # Examples
/// ```
/// use rankform::autograd::jvp;
/// use rankform::prelude::*;
/// let (w, b) = (Tensor::from([1.0, 2.0]), Tensor::from(3.0));
/// let (dw, db) = (Tensor::from([1.0, 0.0]), Tensor::from(1.0));
/// let (value, derivative) = jvp((&w, &b), (&dw, &db), |(w, b), _| {
///     (w.lazy() * w).sum(All)?.mul(b)
/// })?;
/// // d(Σw²·b) = 2·Σ(w·dw)·b + Σw²·db.
/// assert_eq!((value.item()?, derivative.item()?), (15.0, 11.0));
/// # Ok::<(), rankform::Error>(())
/// ```
/// A second derivative along the direction twice:
/// ```
/// use rankform::autograd::jvp;
/// use rankform::prelude::*;
/// let (x, v) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 1.0]));
/// let (first, second) = jvp(&x, &v, |x, device| {
///     let v = device.constant(&v)?;
///     Ok(jvp(x, &v, |x, _| (x.lazy() * x * x).eval())?.1)
/// })?;
/// assert_eq!((first.to_vec()?, second.to_vec()?), (vec![3.0, 12.0], vec![6.0, 12.0]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn jvp<P: Primals<D>, T: Differentiable, const RANK: usize, D: Device>(
    x: P,
    v: P,
    f: impl FnOnce(&P::Dual, &Jvp<D>) -> Result<Tensor<T, RANK, Jvp<D>>>,
) -> Result<(Tensor<T, RANK, D>, Tensor<T, RANK, D>)> {
    let Some(device) = x.device() else {
        return Err(Error::Value { op: "jvp", what: "no argument is a tensor".into() });
    };
    let device = Jvp::new(device);
    let dual = x.dual(&v, &device)?;
    let y = f(&dual, &device)?;
    Ok((device.value(&y)?, device.tangent(&y)?))
}

/// The gradient of `f` at `x`, and the product of its Hessian and a vector `v`, in one pass: a tape that
/// computes on a [`Jvp`] device records the gradient, whose tangent is the product.
///
/// `f` receives `x` on the tape, and the tape. A constant is brought onto both devices:
/// `tape.constant(&tape.inner().constant(&c)?)?`.
///
/// # Cost
/// Twice the memory of the gradient, and for elementwise programs two and a half times its time. For products
/// the time is that of [`hvp`](crate::autograd::hvp), which records two tapes, one inside the other.
///
/// # Errors
/// As [`grad`](crate::autograd::grad); [`Error::Sizes`] if the sizes of `x` and `v`
/// differ.
///
/// # Examples
/// ```
/// use rankform::autograd::grad_and_hvp;
/// use rankform::prelude::*;
/// let (x, v) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 0.0]));
/// // f = x₀²·x₁: the first column of its Hessian is (2·x₁, 2·x₀).
/// let (gradient, product) = grad_and_hvp(&x, &v, |x, _| {
///     let [a, b] = [x.slice((0,))?, x.slice((1,))?];
///     (a.lazy() * a * b).eval()
/// })?;
/// assert_eq!((gradient.to_vec()?, product.to_vec()?), (vec![4.0, 1.0], vec![4.0, 2.0]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn grad_and_hvp<T: Differentiable, const RANK: usize, D: Device>(
    x: &Tensor<T, RANK, D>,
    v: &Tensor<T, RANK, D>,
    f: impl FnOnce(&Var<T, RANK, Jvp<D>>, &Tape<Jvp<D>>) -> Result<Var<T, 0, Jvp<D>>>,
) -> Result<(Tensor<T, RANK, D>, Tensor<T, RANK, D>)> {
    jvp(x, v, |x, _| crate::autograd::grad(x, f))
}
