//! Destinations of results: new memory, or an existing tensor.
//!
//! An operator is written once, for any [`Destination`]; its function with `_into` in the name passes an
//! existing one.
// Imports: `error`, `layout`, `element`, `device`, `tensor`.

use super::{Tensor, TensorViewMut};
use crate::device::{Device, same_device};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::Layout;

/// A tensor that can be written: `&mut Tensor`, or an exclusive view; `&mut *x` if `x` is a `&mut Tensor`
/// that is used again.
///
/// A function that ends in `_into` writes the result of the function without `_into`, and needs an output of
/// exactly the same sizes; only `eval_into` broadcasts. If sizes, devices or handles do not match, nothing is
/// written ([`Error::Output`], [`Error::Device`], and those of [`Tensor::view_mut`]: [`Error::Shared`],
/// [`Error::Overlap`], [`Error::Unallocated`]). After an error that an operand causes later, for example an
/// index out of range, the elements are initialized and unspecified.
///
/// # Examples
/// ```
/// use rankform::{ops::CumSum, prelude::*};
/// let x = Tensor::from([[3.0, 1.0], [2.0, 4.0]]);
/// let mut both = Tensor::<f64, 3>::zeros([2, 2, 2], &Cpu)?;
/// x.sort_into(Axis::<1>, both.view_mut()?.slice((0, .., ..))?)?; // a part of a larger tensor
/// x.scan_into(CumSum, Axis::<0>, both.view_mut()?.slice((1, .., ..))?)?;
/// assert_eq!(both, Tensor::from([[[1.0, 3.0], [2.0, 4.0]], [[3.0, 1.0], [5.0, 5.0]]]));
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of element `{T}`, rank {RANK}, on `{D}`, that can be written",
    label = "expected `&mut Tensor` or an exclusive view of element `{T}`, rank {RANK}, on `{D}`",
    note = "a whole tensor: `&mut out`; a part of one: `out.view_mut()?.slice((1..3, ..))?`"
)]
pub trait IntoViewMut<'a, T, const RANK: usize, D: Device> {
    /// The tensor, borrowed for writing.
    ///
    /// # Errors
    /// Those of [`Tensor::view_mut`].
    fn into_view_mut(self, op: &'static str) -> Result<TensorViewMut<'a, T, RANK, D>>;
}

impl<'a, T, const RANK: usize, D: Device> IntoViewMut<'a, T, RANK, D> for &'a mut Tensor<T, RANK, D> {
    #[inline]
    fn into_view_mut(self, op: &'static str) -> Result<TensorViewMut<'a, T, RANK, D>> {
        self.try_view_mut(op)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T, const RANK: usize, D: Device> IntoViewMut<'a, T, RANK, D> for TensorViewMut<'a, T, RANK, D> {
    #[inline]
    fn into_view_mut(self, _: &'static str) -> Result<TensorViewMut<'a, T, RANK, D>> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T, const RANK: usize, D: Device> IntoViewMut<'a, T, RANK, D>
    for &'a mut TensorViewMut<'_, T, RANK, D>
{
    #[inline]
    fn into_view_mut(self, _: &'static str) -> Result<TensorViewMut<'a, T, RANK, D>> {
        Ok(self.reborrow())
    }
}

/// The place to which an operator writes its result.
pub(crate) trait Destination<T, const RANK: usize, D: Device> {
    /// The return value of the operator.
    type Done;
    /// Calls `write` with an output of these sizes, and returns its value. New memory gets this layout, an
    /// existing tensor keeps its own.
    ///
    /// # Errors
    /// Those of `write`, after which the elements are unspecified; [`Error::OutOfMemory`], or
    /// [`Error::Output`] and those of [`IntoViewMut::into_view_mut`].
    fn put_with<R>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        write: impl FnOnce(&mut TensorViewMut<'_, T, RANK, D>) -> Result<R>,
    ) -> Result<(Self::Done, R)>;
    /// As [`put_with`](Destination::put_with), for a closure without a value.
    fn put(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        write: impl FnOnce(&mut TensorViewMut<'_, T, RANK, D>) -> Result<()>,
    ) -> Result<Self::Done>
    where
        Self: Sized,
    {
        Ok(self.put_with(op, layout, device, write)?.0)
    }
}

fn written<V, R>(write: impl FnOnce(V) -> R, out: V) -> R {
    write(out)
}

/// New memory, all of which `write` writes.
#[derive(Clone, Copy)]
pub(crate) struct Allocate;

impl<T: Element, const RANK: usize, D: Device> Destination<T, RANK, D> for Allocate {
    type Done = Tensor<T, RANK, D>;
    fn put_with<R>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        write: impl FnOnce(&mut TensorViewMut<'_, T, RANK, D>) -> Result<R>,
    ) -> Result<(Self::Done, R)> {
        let mut out = Tensor::uninit(op, layout, device)?;
        let written = by_pointer!(written, write, &mut out.try_view_mut(op)?)?;
        Ok((out, written))
    }
}

/// An existing tensor.
pub(crate) struct Existing<W>(pub W);

impl<W> Existing<W> {
    /// The tensor as a view, if a result of these sizes fits.
    pub(crate) fn open<'a, T, const RANK: usize, D: Device>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
    ) -> Result<TensorViewMut<'a, T, RANK, D>>
    where
        W: IntoViewMut<'a, T, RANK, D>,
    {
        let out = self.0.into_view_mut(op)?;
        same_device(op, device, out.device())?;
        if out.size() != layout.size() {
            return Err(Error::Output { op, sizes: layout.size().0.into(), found: out.size().0.into() });
        }
        Ok(out)
    }
}

impl<'a, W: IntoViewMut<'a, T, RANK, D>, T, const RANK: usize, D: Device + 'a> Destination<T, RANK, D>
    for Existing<W>
where
    T: 'a,
{
    type Done = ();
    fn put_with<R>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        write: impl FnOnce(&mut TensorViewMut<'_, T, RANK, D>) -> Result<R>,
    ) -> Result<((), R)> {
        let mut out = self.open(op, layout, device)?;
        Ok(((), by_pointer!(written, write, &mut out)?))
    }
}
