//! Trees of parameters in safetensors files.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`, `io`.

use super::super::TensorBytes;
use super::{READ, SafeTensors, write};
use crate::autograd::{Differentiable, Name, ParameterTree, ParameterVisitor};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result, SizeList, text};
use crate::tensor::Tensor;
use std::path::Path;

/// Writes the parameters and buffers of a tree, by their names, completely or not at all.
///
/// # Errors
/// As [`write`](super::write()).
///
/// # Examples
/// ```
/// use rankform::io::safetensors::{load, save};
/// use rankform::prelude::*;
/// parameters! {
///     struct Layer<D> { weight: Tensor<f32, 2, D>, bias: Tensor<f32, 1, D> }
///     struct Net<D> { layers: Vec<Layer<D>> }
/// }
/// let layer = |k: f32| -> Result<Layer> {
///     Ok(Layer { weight: Tensor::full([2, 2], k, &Cpu)?, bias: Tensor::full([2], -k, &Cpu)? })
/// };
/// let net = Net { layers: vec![layer(1.0)?, layer(2.0)?] };
/// let path = std::env::temp_dir().join("rankform-net.safetensors");
/// save(&path, &net)?;
/// let mut other = net.zeros_like()?;
/// load(&path, &mut other)?;
/// assert_eq!(other.layers[1].bias.to_vec()?, [-2.0, -2.0]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn save<P: ParameterTree<D>, D: Device>(path: impl AsRef<Path>, parameters: &P) -> Result<()> {
    let mut handles = Handles(Vec::new());
    parameters.visit(&mut handles)?;
    let tensors: Vec<(&str, &dyn TensorBytes)> =
        handles.0.iter().map(|(name, tensor)| (name.as_str(), tensor.as_ref())).collect();
    write(path, &tensors, &[])
}

/// Reads the parameters and buffers of a tree from a file: the elements of all its tensors are replaced, with
/// a cast where the file has elements of another type.
///
/// The file has to have exactly the tensors of the tree. [`SafeTensors::load`] ignores others.
///
/// # Errors
/// [`Error::Value`] if the file lacks a tensor or has one that the tree lacks; [`Error::Parameter`], with the
/// name of the tensor, if it has other sizes or, as [`Error::Shared`], if the tensor in the tree has other
/// handles; as [`SafeTensors::open`]. Names and sizes are compared before anything is written.
///
/// # Examples
/// As [`save`].
pub fn load<P: ParameterTree<D>, D: Device>(path: impl AsRef<Path>, parameters: &mut P) -> Result<()> {
    let file = SafeTensors::open(path)?;
    let mut expected = Expected { file: &file, names: Vec::new() };
    parameters.visit(&mut expected)?;
    let names = expected.names;
    let others: Vec<&str> = file.names().filter(|name| !names.iter().any(|known| known == name)).collect();
    if !others.is_empty() {
        let some = &others[..others.len().min(16)];
        let what = text(format_args!("the file has tensors that are not parameters: {some:?}"));
        return Err(Error::Value { op: READ, what });
    }
    parameters.visit_mut(&mut LoadElements(&file))
}

impl SafeTensors {
    /// Reads the parameters and buffers of a tree. Other tensors of the file are ignored.
    ///
    /// # Errors
    /// As [`load`].
    pub fn load<P: ParameterTree<D>, D: Device>(&self, parameters: &mut P) -> Result<()> {
        parameters.visit(&mut Expected { file: self, names: Vec::new() })?;
        parameters.visit_mut(&mut LoadElements(self))
    }
}

/// Collects handles on tensors.
struct Handles(Vec<(String, Box<dyn TensorBytes>)>);

impl<D: Device> ParameterVisitor<D, 0, 1> for Handles {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        updated: [&mut Tensor<T, RANK, D>; 0],
        read: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.buffer(name, updated, read)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.0.push((name.to_string(), Box::new(x.share_data())));
        Ok(())
    }
}

/// Compares names and sizes.
struct Expected<'a> {
    file: &'a SafeTensors,
    names: Vec<String>,
}

impl<D: Device> ParameterVisitor<D, 0, 1> for Expected<'_> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        updated: [&mut Tensor<T, RANK, D>; 0],
        read: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.buffer(name, updated, read)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        let name = name.to_string();
        let found = self.file.about(&name)?.sizes;
        if found != x.size().0 {
            let found = SizeList::from(found);
            let what = text(format_args!("the file has the sizes {found} and the tree {}", x.size()));
            return Err(Error::Value { op: READ, what });
        }
        self.names.push(name);
        Ok(())
    }
}

/// Replaces elements.
struct LoadElements<'a>(&'a SafeTensors);

impl<D: Device> ParameterVisitor<D, 1, 0> for LoadElements<'_> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        updated: [&mut Tensor<T, RANK, D>; 1],
        read: [&Tensor<T, RANK, D>; 0],
    ) -> Result<()> {
        self.buffer(name, updated, read)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        [x]: [&mut Tensor<T, RANK, D>; 1],
        _: [&Tensor<T, RANK, D>; 0],
    ) -> Result<()> {
        self.0.read_as::<T, RANK>(&name.to_string())?.copy_to(x)
    }
}
