//! Operators that know channels: normalisations by groups, instances and batches, gates, and pixels moved between channels
//! and space.
//!
//! Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::conv::{Conv, windows};
use super::index::{along, exists};
use super::{Activation as _, Arrange as _, Math as _, Pad};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::Stored;
use crate::rank::{RemoveAxis, Spatial};
use crate::tensor::{Tensor, TensorView};

/// `f` of the elements in other sizes: of a view where they stand so, of a copy elsewhere.
fn shaped<T: Element, U, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    size: [usize; N],
    f: impl FnOnce(TensorView<'_, T, N, D>) -> Result<Tensor<U, N, D>>,
) -> Result<Tensor<U, RANK, D>> {
    let y = match x.reshape(size) {
        Ok(view) => f(view)?,
        Err(_) => f(x.to_shape(size)?.view())?,
    };
    y.into_shape(x.size())
}

/// `[batch, channels, all the rest]`; sizes whose product has no number are refused where memory is asked for.
fn flat<const RANK: usize>(size: Dim<RANK>) -> [usize; 3] {
    [size.0[0], size.0[1], size.0[2..].iter().fold(1, |product, n| product.saturating_mul(*n))]
}

/// Operators on `[batch, channel, …]`, of tensors and views.
pub trait Channels<'a, T: 'a, const RANK: usize, D: Device>: Stored<'a, T, RANK, D> + Sized {
    /// Each group of channels of each batch brought to mean 0 and variance 1: `(x − mean) / √(var + epsilon)`.
    ///
    /// A weight and a bias for each channel are one more expression.
    ///
    /// # Cost
    /// One allocation, one pass; one copy more where the elements do not stand in row-major order.
    ///
    /// # Errors
    /// [`Error::Value`] when the channels cannot be cut into that many groups; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 3.0, 10.0, 30.0]]);
    /// assert_eq!(x.group_norm(2, 0.0)?, Tensor::from([[-1.0, 1.0, -1.0, 1.0]]));
    /// assert_eq!(x.group_norm(3, 0.0).unwrap_err().to_string(), "group_norm: 4 channels in 3 groups");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn group_norm(self, groups: usize, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        let [batch, channels, rest] = flat(x.size());
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(Error::Value { op: "group_norm", what: text(format_args!("{channels} channels in {groups} groups")) });
        }
        shaped(x, [batch, groups, (channels / groups).saturating_mul(rest)], |x| x.layer_norm(Axis::<2>, epsilon))
    }

    /// Each channel of each batch brought to mean 0 and variance 1; [`group_norm`](Channels::group_norm) with groups of one.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[[1.0, 3.0], [10.0, 30.0]]]);
    /// assert_eq!(x.instance_norm(0.0)?, Tensor::from([[[-1.0, 1.0], [-1.0, 1.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn instance_norm(self, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        x.group_norm(x.size().0[1].max(1), epsilon)
    }

    /// Each channel brought to mean 0 and variance 1 by its statistics in this batch, as in training.
    ///
    /// Running statistics are reductions of the same tensor: [`mean`](super::Reductions::mean),
    /// [`sample_var`](super::Reductions::sample_var).
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 10.0], [3.0, 30.0]]);
    /// assert_eq!(x.batch_norm(0.0)?, Tensor::from([[-1.0, -1.0], [1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn batch_norm(self, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        shaped(x, flat(x.size()), |x| x.layer_norm((Axis::<0>, Axis::<2>), epsilon))
    }

    /// `(x − mean) / √(var + epsilon)` by a mean and a variance for each channel, as outside training.
    ///
    /// # Errors
    /// [`Error::Sizes`] for another number of channels; those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mean, var) = (Tensor::from([2.0, 20.0]), Tensor::from([1.0, 100.0]));
    /// assert_eq!(Tensor::from([[1.0, 10.0]]).batch_norm_by(&mean, &var, 0.0)?, Tensor::from([[-1.0, -1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn batch_norm_by<'b>(self, mean: impl Stored<'b, T, 1, D>, var: impl Stored<'b, T, 1, D>, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        let channels = x.size().0[1];
        let line = |line: TensorView<'b, T, 1, D>| match line.numel() == channels {
            true => line.reshape(along::<RANK>(1, channels)),
            false => Err(Error::Sizes { op: "batch_norm_by", left: x.size().0.into(), right: line.size().0.into() }),
        };
        let (mean, var) = (line(mean.into_view())?, line(var.into_view())?);
        ((x.lazy() - mean) * (var.lazy() + epsilon).rsqrt()).eval()
    }

    /// The first half along axis `A`, times the sigmoid of the second.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis that has no half; those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0, 0.0, f64::INFINITY]]);
    /// assert_eq!(x.glu(Axis::<1>)?, Tensor::from([[0.5, 2.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn glu<const A: usize>(self, axis: Axis<A>) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.glu_axis(A)
    }

    /// As [`glu`](Channels::glu), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn glu_axis(self, axis: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
    {
        let (op, x) = ("glu", self.into_view());
        exists(op, axis, x.size())?;
        let n = x.size().0[axis];
        if !n.is_multiple_of(2) {
            return Err(Error::Value { op, what: text(format_args!("axis {axis} of size {n} has no half")) });
        }
        let (value, gate) = (x.slice_axis(axis, 0..n / 2, 1)?, x.slice_axis(axis, n / 2..n, 1)?);
        (value.lazy() * gate.lazy().sigmoid()).eval()
    }

    /// Blocks of `factor²` channels become blocks of pixels: `[n, c · f², h, w] → [n, c, h · f, w · f]`.
    ///
    /// # Errors
    /// [`Error::Value`] when the channels are not blocks; [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[[[1, 5]], [[2, 6]], [[3, 7]], [[4, 8]]]]);
    /// let y = x.pixel_shuffle(2)?;
    /// assert_eq!(y, Tensor::from([[[[1, 2, 5, 6], [3, 4, 7, 8]]]]));
    /// assert_eq!(y.pixel_unshuffle(2)?, x);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn pixel_shuffle(self, factor: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<2>,
    {
        let (op, x) = ("pixel_shuffle", self.into_view());
        x.ready(op)?;
        let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
        match factor.checked_mul(factor) {
            Some(block) if block > 0 && c.is_multiple_of(block) => {
                let blocks = x.reshape([n, c / block, factor, factor, h, w])?.permuted([0, 1, 4, 2, 5, 3])?;
                let size = [n, c / block, h.saturating_mul(factor), w.saturating_mul(factor)];
                blocks.to_shape::<RANK>(Dim(std::array::from_fn(|a| size[a])))
            }
            _ => Err(Error::Value { op, what: text(format_args!("{c} channels are no blocks of {factor} × {factor}")) }),
        }
    }

    /// Blocks of pixels become channels: `[n, c, h · f, w · f] → [n, c · f², h, w]`, as undoes
    /// [`pixel_shuffle`](Channels::pixel_shuffle).
    ///
    /// # Errors
    /// [`Error::Value`] when an axis is not made of blocks; [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn pixel_unshuffle(self, factor: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<2>,
    {
        let (op, x) = ("pixel_unshuffle", self.into_view());
        x.ready(op)?;
        let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
        if factor == 0 || !h.is_multiple_of(factor) || !w.is_multiple_of(factor) {
            return Err(Error::Value { op, what: text(format_args!("{h} × {w} pixels are no blocks of {factor} × {factor}")) });
        }
        let blocks = x.reshape([n, c, h / factor, factor, w / factor, factor])?.permuted([0, 1, 3, 5, 2, 4])?;
        let size = [n, c.saturating_mul(factor).saturating_mul(factor), h / factor, w / factor];
        blocks.to_shape::<RANK>(Dim(std::array::from_fn(|a| size[a])))
    }

    /// The windows of a convolution as columns: `[n, c, h, w] → [n, c · kh · kw, windows]`, also known as im2col. Outside
    /// the input stands 0.
    ///
    /// [`conv2d`](Tensor::conv2d) needs no such copy.
    ///
    /// # Cost
    /// Two allocations and copies: the input with its padding, and the columns.
    ///
    /// # Errors
    /// [`Error::Value`] when a window does not fit, or for groups; [`Error::Overflow`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::conv::Conv;
    /// let x = Tensor::from([[[[1, 2, 3], [4, 5, 6]]]]);
    /// assert_eq!(x.unfold([2, 2], Conv::new())?, Tensor::from([[[1, 2], [2, 3], [4, 5], [5, 6]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unfold(self, kernel: [usize; 2], conv: Conv<2>) -> Result<Tensor<T, 3, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<2>,
    {
        let (op, x) = ("unfold", self.into_view());
        x.ready(op)?;
        if conv.groups != 1 {
            return Err(Error::Value { op, what: text(format_args!("{} groups: windows are of all channels", conv.groups)) });
        }
        let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
        let count = |axis: usize, size: usize| {
            windows(op, axis + 2, size, kernel[axis], [conv.stride[axis], conv.padding[axis], conv.dilation[axis]])
        };
        let places = [count(0, h)?, count(1, w)?];
        let size = Dim([n, c, kernel[0], kernel[1], places[0], places[1]]);
        size.numel_of(op, size_of::<T>())?;
        let widths = std::array::from_fn(|a| match a {
            0 | 1 => (0, 0),
            _ => (conv.padding[a - 2], conv.padding[a - 2]),
        });
        let padded = x.pad(widths, Pad::Constant(T::default()))?;
        let step = padded.stride().0;
        // Windows that fit have steps that fit.
        let times = |count: usize, axis: usize| (count as isize).wrapping_mul(step[axis]);
        let steps =
            [step[0], step[1], times(conv.dilation[0], 2), times(conv.dilation[1], 3), times(conv.stride[0], 2), times(conv.stride[1], 3)];
        padded.as_strided(size, steps, 0)?.to_shape([
            n,
            c.saturating_mul(kernel[0]).saturating_mul(kernel[1]),
            places[0].saturating_mul(places[1]),
        ])
    }
}
impl<'a, X: Stored<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Channels<'a, T, RANK, D> for X {}
