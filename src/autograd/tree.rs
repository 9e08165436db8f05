//! Trees of named parameters: tensors, and structs, vectors, arrays, tuples and options of such trees.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`.

use super::{Differentiable, Name};
use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;

/// A tree of parameters on a device: a [`Tensor`], a struct of [`parameters!`](crate::parameters), or a
/// `Vec`, an array, a tuple or an `Option` of trees.
///
/// Each tensor has a name, as in PyTorch's `state_dict`: the fields and indices that lead to it, separated by
/// points, for example `layers.0.weight`.
///
/// A tree may also contain [`Buffer`](super::Buffer)s, which have no gradient, and numbers, booleans and
/// strings, which are settings and not parameters: they are copied with the tree.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// parameters! {
///     /// A linear layer.
///     pub struct Layer<D> {
///         pub weight: Tensor<f32, 2, D>,
///         pub bias: Option<Tensor<f32, 1, D>>,
///     }
///     /// A stack of layers.
///     pub struct Net<D> {
///         pub layers: Vec<Layer<D>>,
///         pub slope: f64,
///     }
/// }
/// let weight = || Tensor::<f32, 2>::zeros([3, 3], &Cpu);
/// let bias = Some(Tensor::zeros([3], &Cpu)?);
/// let net = Net {
///     layers: vec![Layer { weight: weight()?, bias }, Layer { weight: weight()?, bias: None }],
///     slope: 0.1,
/// };
/// assert_eq!(net.parameter_names()?, ["layers.0.weight", "layers.0.bias", "layers.1.weight"]);
/// assert_eq!(net.parameter_count()?, 21);
/// let shapes: Net<Meta> = net.to(&Meta::new())?;
/// assert_eq!(shapes.layers[1].weight.size(), [3, 3]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of parameters on `{D}`",
    label = "expected a tensor on `{D}`, a struct of `parameters!`, or a `Vec`, array, tuple or `Option` of \
             them",
    note = "elements of parameters are f16, bf16, f32, f64, Complex<f32> or Complex<f64>",
    note = "a tensor that is not trained, or has other elements, is a `Buffer<T, RANK, D>`; numbers, `bool` \
            and `String` are settings"
)]
pub trait ParameterTree<D: Device>: Sized {
    /// The tree on another device.
    type On<E: Device>: ParameterTree<E>;

    /// A tree of the results of `map` for each tensor.
    ///
    /// # Errors
    /// Those of `map`, with the name of the tensor.
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>>;

    /// Calls `visitor` for each parameter and each buffer of several trees of one form: those in `updated` are
    /// written, those in `read` are only read. There is at least one tree.
    ///
    /// # Errors
    /// Those of `visitor`, with the name of the tensor; [`Error::Value`](crate::Error::Value) if the trees
    /// have different forms.
    fn walk<const WRITTEN: usize, const READ: usize>(
        updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()>;

    /// The device of the first tensor; `None` if there is no tensor.
    fn device_of_tensors(&self) -> Option<&D>;

    /// Calls `visitor` for each parameter and each buffer.
    ///
    /// # Errors
    /// Those of `visitor`, with the name of the tensor.
    fn visit(&self, visitor: &mut impl ParameterVisitor<D, 0, 1>) -> Result<()> {
        Self::walk([], [self], Name::ROOT, visitor)
    }

    /// Calls `visitor` for each parameter and each buffer, which it may write.
    ///
    /// # Errors
    /// Those of `visitor`, with the name of the tensor.
    fn visit_mut(&mut self, visitor: &mut impl ParameterVisitor<D, 1, 0>) -> Result<()> {
        Self::walk([self], [], Name::ROOT, visitor)
    }

    /// A copy on another device.
    ///
    /// # Errors
    /// Those of [`Tensor::to`], with the name of the tensor.
    fn to<E: Device>(&self, device: &E) -> Result<Self::On<E>> {
        self.map_tensors(Name::ROOT, &mut To(device))
    }

    /// A tree of zeros of the same form and sizes, for example for sums of gradients. Buffers are copied.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn zeros_like(&self) -> Result<Self::On<D>> {
        self.map_tensors(Name::ROOT, &mut ZerosLike)
    }

    /// The names of the parameters, in order. Buffers are not among them.
    ///
    /// # Errors
    /// None for trees of this crate.
    fn parameter_names(&self) -> Result<Vec<String>> {
        let mut names = CollectNames(Vec::new());
        self.visit(&mut names)?;
        Ok(names.0)
    }

    /// The number of elements of all parameters. Those of buffers are not counted.
    ///
    /// # Errors
    /// None for trees of this crate.
    fn parameter_count(&self) -> Result<usize> {
        let mut count = CountElements(0);
        self.visit(&mut count)?;
        Ok(count.0)
    }
}

/// A function from tensors on one device to tensors on another, for
/// [`map_tensors`](ParameterTree::map_tensors).
pub trait TensorMap<D: Device, E: Device> {
    /// The result for a parameter.
    ///
    /// # Errors
    /// Those of the function.
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, E>>;

    /// The result for a buffer.
    ///
    /// # Errors
    /// Those of the function.
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, E>>;
}

/// A procedure for each parameter of one or several trees, for [`walk`](ParameterTree::walk), and for each
/// buffer if it defines [`buffer`](ParameterVisitor::buffer).
///
/// # Examples
/// ```
/// use rankform::autograd::{Differentiable, Name, ParameterVisitor};
/// use rankform::prelude::*;
/// /// Prints the sizes of each parameter.
/// struct Sizes(String);
/// impl<D: Device> ParameterVisitor<D, 0, 1> for Sizes {
///     fn tensor<T: Differentiable, const RANK: usize>(
///         &mut self,
///         name: Name<'_>,
///         _: [&mut Tensor<T, RANK, D>; 0],
///         [x]: [&Tensor<T, RANK, D>; 1],
///     ) -> Result<()> {
///         self.0 += &format!("{name}: {} {}\n", T::DTYPE, x.size());
///         Ok(())
///     }
/// }
/// let mut sizes = Sizes(String::new());
/// (Tensor::from([1.0, 2.0]), [Tensor::from(3.0_f32)]).visit(&mut sizes)?;
/// assert_eq!(sizes.0, "0: f64 [2]\n1.0: f32 []\n");
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait ParameterVisitor<D: Device, const WRITTEN: usize, const READ: usize> {
    /// Visits a parameter: the tensors of the trees at one place.
    ///
    /// # Errors
    /// Those of the procedure.
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        updated: [&mut Tensor<T, RANK, D>; WRITTEN],
        read: [&Tensor<T, RANK, D>; READ],
    ) -> Result<()>;

    /// Visits a buffer. Nothing happens unless the visitor defines this function.
    ///
    /// # Errors
    /// Those of the procedure.
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _name: Name<'_>,
        _updated: [&mut Tensor<T, RANK, D>; WRITTEN],
        _read: [&Tensor<T, RANK, D>; READ],
    ) -> Result<()> {
        Ok(())
    }
}

/// Copies tensors to a device.
struct To<'a, E>(&'a E);
impl<D: Device, E: Device> TensorMap<D, E> for To<'_, E> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, E>> {
        x.to(self.0)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, E>> {
        if x.is_allocated() { x.to(self.0) } else { Tensor::empty(x.size(), self.0) }
    }
}

/// Zeros in place of parameters.
struct ZerosLike;
impl<D: Device> TensorMap<D, D> for ZerosLike {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        x.zeros_like()
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        if x.is_allocated() { x.copy() } else { Tensor::empty(x.size(), x.device()) }
    }
}

/// Collects names.
struct CollectNames(Vec<String>);
impl<D: Device> ParameterVisitor<D, 0, 1> for CollectNames {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        _: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.0.push(name.to_string());
        Ok(())
    }
}

/// Counts elements.
struct CountElements(usize);
impl<D: Device> ParameterVisitor<D, 0, 1> for CountElements {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.0 += x.numel();
        Ok(())
    }
}
