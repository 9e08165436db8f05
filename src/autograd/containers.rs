//! The trees of parameters that are not structs: tensors, buffers, vectors, arrays, options, tuples,
//! settings.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`.

use super::{Differentiable, Name, ParameterTree, ParameterVisitor, TensorMap};
use crate::device::{Cpu, Device};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Adds the name of a tensor to an error.
fn named(name: Name<'_>) -> impl FnOnce(Error) -> Error + '_ {
    move |error| error.of_parameter(&name)
}

impl<T: Differentiable, const RANK: usize, D: Device> ParameterTree<D> for Tensor<T, RANK, D> {
    type On<E: Device> = Tensor<T, RANK, E>;
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>> {
        map.tensor(name, self).map_err(named(name))
    }
    fn walk<const WRITTEN: usize, const READ: usize>(
        updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()> {
        visitor.tensor(name, updated, read).map_err(named(name))
    }
    fn device_of_tensors(&self) -> Option<&D> {
        Some(self.device())
    }
}

/// A tensor of a tree that has no gradient and is not trained, of any element: positions, masks, running
/// statistics. It is a constant on a tape, and is saved with the parameters.
///
/// In a tree of gradients it has sizes and no memory.
///
/// # Examples
/// ```
/// use rankform::autograd::{Buffer, value_and_grad};
/// use rankform::prelude::*;
/// parameters! {
///     struct Scaled<D> { factor: Tensor<f64, 0, D>, mask: Buffer<bool, 1, D> }
/// }
/// let net = Scaled { factor: Tensor::from(2.0), mask: Tensor::from([true, false]).into() };
/// let (value, gradients) = value_and_grad(&net, |net, tape| {
///     let x = tape.constant(&Tensor::from([3.0, 5.0]))?;
///     (x.lazy() * net.factor.lift() * net.mask.lazy().cast::<f64>()).sum(All)
/// })?;
/// assert_eq!((value.item()?, gradients.factor.item()?), (6.0, 3.0));
/// assert!(!gradients.mask.is_allocated());
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Buffer<T, const RANK: usize, D: Device = Cpu>(pub Tensor<T, RANK, D>);

impl<T, const RANK: usize, D: Device> Deref for Buffer<T, RANK, D> {
    type Target = Tensor<T, RANK, D>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl<T, const RANK: usize, D: Device> DerefMut for Buffer<T, RANK, D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl<T, const RANK: usize, D: Device> From<Tensor<T, RANK, D>> for Buffer<T, RANK, D> {
    fn from(tensor: Tensor<T, RANK, D>) -> Self {
        Buffer(tensor)
    }
}

impl<T: Element, const RANK: usize, D: Device> fmt::Debug for Buffer<T, RANK, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Element, const RANK: usize, D: Device> ParameterTree<D> for Buffer<T, RANK, D> {
    type On<E: Device> = Buffer<T, RANK, E>;
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>> {
        map.buffer(name, &self.0).map(Buffer).map_err(named(name))
    }
    fn walk<const WRITTEN: usize, const READ: usize>(
        updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()> {
        visitor.buffer(name, updated.map(|x| &mut x.0), read.map(|x| &x.0)).map_err(named(name))
    }
    fn device_of_tensors(&self) -> Option<&D> {
        Some(self.0.device())
    }
}

/// The error for trees of different forms.
pub(super) fn other_form(name: Name<'_>, what: &str) -> Error {
    Error::Value { op: "walk", what: text(format_args!("the trees have different {what}")) }
        .of_parameter(&name)
}

impl<P: ParameterTree<D>, D: Device> ParameterTree<D> for Vec<P> {
    type On<E: Device> = Vec<P::On<E>>;
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>> {
        self.iter().enumerate().map(|(k, tree)| tree.map_tensors(name.index(k), map)).collect()
    }
    fn walk<const WRITTEN: usize, const READ: usize>(
        mut updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()> {
        let mut lengths = updated.iter().map(|x| x.len()).chain(read.iter().map(|x| x.len()));
        let length = lengths.next().unwrap_or(0);
        if lengths.any(|other| other != length) {
            return Err(other_form(name, "lengths"));
        }
        (0..length).try_for_each(|k| {
            P::walk(updated.each_mut().map(|x| &mut x[k]), read.map(|x| &x[k]), name.index(k), visitor)
        })
    }
    fn device_of_tensors(&self) -> Option<&D> {
        self.iter().find_map(P::device_of_tensors)
    }
}

/// An array of results as the result of an array.
pub(super) fn array<T, const N: usize>(results: [Result<T>; N]) -> Result<[T; N]> {
    let values = results.into_iter().collect::<Result<Vec<T>>>()?;
    let other = |_| Error::Value { op: "array", what: "another number of entries".into() };
    values.try_into().map_err(other)
}

impl<P: ParameterTree<D>, const N: usize, D: Device> ParameterTree<D> for [P; N] {
    type On<E: Device> = [P::On<E>; N];
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>> {
        array(std::array::from_fn(|k| self[k].map_tensors(name.index(k), map)))
    }
    fn walk<const WRITTEN: usize, const READ: usize>(
        mut updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()> {
        (0..N).try_for_each(|k| {
            P::walk(updated.each_mut().map(|x| &mut x[k]), read.map(|x| &x[k]), name.index(k), visitor)
        })
    }
    fn device_of_tensors(&self) -> Option<&D> {
        self.iter().find_map(P::device_of_tensors)
    }
}

impl<P: ParameterTree<D>, D: Device> ParameterTree<D> for Option<P> {
    type On<E: Device> = Option<P::On<E>>;
    fn map_tensors<E: Device>(&self, name: Name<'_>, map: &mut impl TensorMap<D, E>) -> Result<Self::On<E>> {
        self.as_ref().map(|tree| tree.map_tensors(name, map)).transpose()
    }
    fn walk<const WRITTEN: usize, const READ: usize>(
        updated: [&mut Self; WRITTEN],
        read: [&Self; READ],
        name: Name<'_>,
        visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
    ) -> Result<()> {
        let mut is_some = updated.iter().map(|x| x.is_some()).chain(read.iter().map(|x| x.is_some()));
        if !is_some.any(|is| is) {
            return Ok(());
        }
        let other = || other_form(name, "options");
        let updated = array(updated.map(|x| x.as_mut().ok_or_else(other)))?;
        P::walk(updated, array(read.map(|x| x.as_ref().ok_or_else(other)))?, name, visitor)
    }
    fn device_of_tensors(&self) -> Option<&D> {
        self.as_ref().and_then(P::device_of_tensors)
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)+;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($name: ParameterTree<D>,)+ D: Device> ParameterTree<D> for ($($name,)+) {
            type On<Other: Device> = ($($name::On<Other>,)+);
            fn map_tensors<Other: Device>(
                &self,
                name: Name<'_>,
                map: &mut impl TensorMap<D, Other>,
            ) -> Result<Self::On<Other>> {
                Ok(($(self.$index.map_tensors(name.index($index), map)?,)+))
            }
            fn walk<const WRITTEN: usize, const READ: usize>(
                mut updated: [&mut Self; WRITTEN],
                read: [&Self; READ],
                name: Name<'_>,
                visitor: &mut impl ParameterVisitor<D, WRITTEN, READ>,
            ) -> Result<()> {
                $($name::walk(
                    updated.each_mut().map(|x| &mut x.$index),
                    read.map(|x| &x.$index),
                    name.index($index),
                    visitor,
                )?;)+
                Ok(())
            }
            fn device_of_tensors(&self) -> Option<&D> {
                None$(.or_else(|| self.$index.device_of_tensors()))+
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

/// Values that are copied with a tree and have no tensors.
macro_rules! settings {
    ($($type:ty)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<D: Device> ParameterTree<D> for $type {
            type On<E: Device> = $type;
            fn map_tensors<E: Device>(&self, _: Name<'_>, _: &mut impl TensorMap<D, E>) -> Result<$type> {
                Ok(self.clone())
            }
            fn walk<const WRITTEN: usize, const READ: usize>(
                _: [&mut Self; WRITTEN],
                _: [&Self; READ],
                _: Name<'_>,
                _: &mut impl ParameterVisitor<D, WRITTEN, READ>,
            ) -> Result<()> {
                Ok(())
            }
            fn device_of_tensors(&self) -> Option<&D> {
                None
            }
        }
    )* };
}
settings!(bool u8 u32 u64 usize i32 i64 f32 f64 String);
