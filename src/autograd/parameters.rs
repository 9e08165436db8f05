//! The parameters of a function: references to trees of parameters, in tuples, arrays and vectors.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`.

use super::containers::{array, other_form};
use super::{Differentiable, Gradients, Name, ParameterTree, ParameterVisitor, Tape, TensorMap, Var};
use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;

/// Parameters with respect to which gradients are computed, on one device: a reference to a
/// [tree of parameters](ParameterTree), for example `&Tensor` or a reference to a struct of
/// [`parameters!`](crate::parameters), or a tuple, an array or a vector of parameters.
///
/// # Examples
/// ```
/// use rankform::autograd::grad;
/// use rankform::prelude::*;
/// let layers = [Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0])];
/// let gradients = grad(&layers, |[a, b], _| (a.lazy() * b).sum(All))?;
/// assert_eq!(gradients[0].to_vec()?, [3.0, 4.0]);
/// // The same with a tuple of references.
/// let (a, _) = grad((&layers[0], &layers[1]), |(a, b), _| (a.lazy() * b).sum(All))?;
/// assert_eq!(a.to_vec()?, [3.0, 4.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not parameters on `{D}`",
    label = "expected a reference to a tensor or to a struct of `parameters!`, or a tuple, array or `Vec` of \
             references",
    note = "parameters are passed by reference: `grad(&net, |net, tape| …)`, `grad((&w, &b), |(w, b), tape| \
            …)`"
)]
pub trait Parameters<D: Device> {
    /// The parameters as variables of a tape.
    type OnTape;
    /// The gradients, in the same form.
    type Gradients;
    /// The device of the first tensor; `None` if there is no tensor.
    fn device(&self) -> Option<&D>;
    /// Calls `visitor` for each tensor.
    ///
    /// # Errors
    /// Those of [`ParameterTree::walk`].
    fn visit_tensors(&self, name: Name<'_>, visitor: &mut impl ParameterVisitor<D, 0, 1>) -> Result<()>;
    /// Makes them variables of a tape.
    ///
    /// # Errors
    /// Those of [`Tape::watch`].
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape>;
    /// Their gradients.
    ///
    /// # Errors
    /// Those of [`Gradients::of`].
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients>;
}

/// Makes parameters variables of a tape.
struct WatchParameters<'a, D: Device>(&'a Tape<D>);
impl<D: Device> TensorMap<D, Tape<D>> for WatchParameters<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        self.0.watch(x)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        self.0.constant(x)
    }
}

/// Takes gradients of variables.
struct Take<'a, D: Device>(&'a Gradients<D>);
impl<D: Device> TensorMap<Tape<D>, D> for Take<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Var<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        self.0.of(x)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Var<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        Tensor::empty(x.size(), x.device().inner())
    }
}

impl<P: ParameterTree<D>, D: Device> Parameters<D> for &P {
    type OnTape = P::On<Tape<D>>;
    type Gradients = <P::On<Tape<D>> as ParameterTree<Tape<D>>>::On<D>;
    fn device(&self) -> Option<&D> {
        self.device_of_tensors()
    }
    fn visit_tensors(&self, name: Name<'_>, visitor: &mut impl ParameterVisitor<D, 0, 1>) -> Result<()> {
        P::walk([], [self], name, visitor)
    }
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
        self.map_tensors(Name::ROOT, &mut WatchParameters(tape))
    }
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
        on_tape.map_tensors(Name::ROOT, &mut Take(gradients))
    }
}

impl<P: Parameters<D>, const N: usize, D: Device> Parameters<D> for [P; N] {
    type OnTape = [P::OnTape; N];
    type Gradients = [P::Gradients; N];
    fn device(&self) -> Option<&D> {
        self.iter().find_map(P::device)
    }
    fn visit_tensors(&self, name: Name<'_>, visitor: &mut impl ParameterVisitor<D, 0, 1>) -> Result<()> {
        self.iter().enumerate().try_for_each(|(k, tree)| tree.visit_tensors(name.index(k), visitor))
    }
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
        array(self.each_ref().map(|parameters| parameters.watch(tape)))
    }
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
        array(on_tape.each_ref().map(|on_tape| P::gradients(on_tape, gradients)))
    }
}

impl<P: Parameters<D>, D: Device> Parameters<D> for Vec<P> {
    type OnTape = Vec<P::OnTape>;
    type Gradients = Vec<P::Gradients>;
    fn device(&self) -> Option<&D> {
        self.iter().find_map(P::device)
    }
    fn visit_tensors(&self, name: Name<'_>, visitor: &mut impl ParameterVisitor<D, 0, 1>) -> Result<()> {
        self.iter().enumerate().try_for_each(|(k, tree)| tree.visit_tensors(name.index(k), visitor))
    }
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
        self.iter().map(|parameters| parameters.watch(tape)).collect()
    }
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
        on_tape.iter().map(|on_tape| P::gradients(on_tape, gradients)).collect()
    }
}

/// Parameters that are updated: an exclusive reference to a [tree of parameters](ParameterTree), or a tuple,
/// an array or a vector of such references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not parameters on `{D}` that can be updated",
    label = "expected an exclusive reference to a tensor or to a struct of `parameters!`, or a tuple, array \
             or `Vec` of such references",
    note = "parameters to update are passed by exclusive reference: `step(&mut net, &gradients)`, \
            `step((&mut w, &mut b), &gradients)`"
)]
pub trait ParametersMut<D: Device> {
    /// The gradients, in the same form.
    type Gradients;
    /// Calls `visitor` for each parameter with its gradient.
    ///
    /// # Errors
    /// Those of [`ParameterTree::walk`].
    fn walk_with(
        self,
        gradients: &Self::Gradients,
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, 1, 1>,
    ) -> Result<()>;
}

impl<P: ParameterTree<D>, D: Device> ParametersMut<D> for &mut P {
    type Gradients = P;
    fn walk_with(
        self,
        gradients: &P,
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, 1, 1>,
    ) -> Result<()> {
        P::walk([self], [gradients], name, visitor)
    }
}

impl<P: ParametersMut<D>, const N: usize, D: Device> ParametersMut<D> for [P; N] {
    type Gradients = [P::Gradients; N];
    fn walk_with(
        self,
        gradients: &Self::Gradients,
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, 1, 1>,
    ) -> Result<()> {
        let mut pairs = self.into_iter().zip(gradients).enumerate();
        pairs.try_for_each(|(k, (tree, gradients))| tree.walk_with(gradients, name.index(k), visitor))
    }
}

impl<P: ParametersMut<D>, D: Device> ParametersMut<D> for Vec<P> {
    type Gradients = Vec<P::Gradients>;
    fn walk_with(
        self,
        gradients: &Self::Gradients,
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, 1, 1>,
    ) -> Result<()> {
        if self.len() != gradients.len() {
            return Err(other_form(name, "lengths"));
        }
        let mut pairs = self.into_iter().zip(gradients).enumerate();
        pairs.try_for_each(|(k, (tree, gradients))| tree.walk_with(gradients, name.index(k), visitor))
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)+;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($name: Parameters<D>,)+ D: Device> Parameters<D> for ($($name,)+) {
            type OnTape = ($($name::OnTape,)+);
            type Gradients = ($($name::Gradients,)+);
            fn device(&self) -> Option<&D> {
                None$(.or_else(|| self.$index.device()))+
            }
            fn visit_tensors(
                &self, name: Name<'_>, visitor: &mut impl ParameterVisitor<D, 0, 1>
            ) -> Result<()> {
                $(self.$index.visit_tensors(name.index($index), visitor)?;)+
                Ok(())
            }
            fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
                Ok(($(self.$index.watch(tape)?,)+))
            }
            fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
                Ok(($($name::gradients(&on_tape.$index, gradients)?,)+))
            }
        }
        #[diagnostic::do_not_recommend]
        impl<$($name: ParametersMut<D>,)+ D: Device> ParametersMut<D> for ($($name,)+) {
            type Gradients = ($($name::Gradients,)+);
            fn walk_with(
                self,
                gradients: &Self::Gradients,
                name: Name<'_>,
                visitor: &mut impl ParameterVisitor<D, 1, 1>,
            ) -> Result<()> {
                $(self.$index.walk_with(&gradients.$index, name.index($index), visitor)?;)+
                Ok(())
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
