//! Operators on channels: group, instance and batch normalization, gates, pixel shuffles, and windows as
//! columns.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::Conv;
use super::group_norm::{flat, group_normalized, normalized, normalized_by};
use super::pixel_shuffle::{shuffled, unshuffled};
use super::windows::window_count;
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::axes::check_axis;
use crate::ops::{Activation as _, Arrange as _, Pad};
use crate::rank::{RemoveAxis, Spatial};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// [`Channels::glu`] for any destination.
fn gated_linear_unit<T: Float, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    let n = x.size().0[axis];
    if !n.is_multiple_of(2) {
        return Err(Error::Value { op, what: text(format_args!("axis {axis} of size {n} has no half")) });
    }
    let (value, gate) = (x.slice_axis(axis, 0..n / 2, 1)?, x.slice_axis(axis, n / 2..n, 1)?);
    (value.lazy() * gate.lazy().sigmoid()).eval_at(op, destination)
}

/// [`Channels::unfold`] for any destination.
fn window_columns<T: Element, const RANK: usize, D: Device, P: Destination<T, 3, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    kernel: [usize; 2],
    conv: Conv<2>,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    if conv.groups != 1 {
        return Err(Error::Value {
            op,
            what: text(format_args!("{} groups: windows are of all channels", conv.groups)),
        });
    }
    let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
    let [before, after] = conv.ends.resolve(&x.size().0, kernel, &conv);
    let count = |axis: usize, size: usize| {
        window_count(
            op,
            axis + 2,
            size,
            kernel[axis],
            [conv.stride[axis], before[axis], after[axis], conv.dilation[axis]],
        )
    };
    let counts = [count(0, h)?, count(1, w)?];
    let size = Dim([n, c, kernel[0], kernel[1], counts[0], counts[1]]);
    size.numel_of(op, size_of::<T>())?;
    let widths = std::array::from_fn(|a| match a {
        0 | 1 => (0, 0),
        _ => (before[a - 2], after[a - 2]),
    });
    let padded = x.pad(widths, Pad::Constant(T::default()))?;
    let step = padded.stride().0;
    // The strides of windows that fit do not overflow.
    let times = |count: usize, axis: usize| (count as isize).wrapping_mul(step[axis]);
    let steps = [
        step[0],
        step[1],
        times(conv.dilation[0], 2),
        times(conv.dilation[1], 3),
        times(conv.stride[0], 2),
        times(conv.stride[1], 3),
    ];
    let seen = padded.as_strided(size, steps, 0)?;
    let columns =
        Dim([n, c.saturating_mul(kernel[0]).saturating_mul(kernel[1]), counts[0].saturating_mul(counts[1])]);
    let layout = Layout::row_major_of(op, columns, size_of::<T>())?;
    destination.put(op, layout, x.device(), |out| out.reborrow().reshape(size)?.assign(seen))
}

/// Operators on `[batch, channel, …]`, of tensors and views.
pub trait Channels<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// Normalizes each group of channels of each batch to mean 0 and variance 1:
    /// `(x − mean) / √(var + epsilon)`.
    ///
    /// A weight and a bias for each channel are a separate expression.
    ///
    /// # Cost
    /// One allocation, one pass; one more copy if the elements are not in row-major order.
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
        group_normalized("group_norm", self.into_view(), groups, epsilon, Allocate)
    }

    /// As [`group_norm`](Channels::group_norm), into an existing tensor or exclusive view; one more copy if
    /// the elements of `out` are not in row-major order.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([[1.0, 3.0, 10.0, 30.0]]), Tensor::from([[0.0; 4]]));
    /// x.group_norm_into(2, 0.0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[-1.0, 1.0, -1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn group_norm_into<'o>(
        self,
        groups: usize,
        epsilon: T,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        group_normalized("group_norm_into", self.into_view(), groups, epsilon, Existing(out))
    }

    /// Normalizes each channel of each batch to mean 0 and variance 1: [`group_norm`](Channels::group_norm)
    /// with groups of one.
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
        group_normalized("instance_norm", x, x.size().0[1].max(1), epsilon, Allocate)
    }

    /// As [`instance_norm`](Channels::instance_norm), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As [`group_norm_into`](Channels::group_norm_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[[0.0; 2]; 2]]);
    /// Tensor::from([[[1.0, 3.0], [10.0, 30.0]]]).instance_norm_into(0.0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[[-1.0, 1.0], [-1.0, 1.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn instance_norm_into<'o>(self, epsilon: T, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        group_normalized("instance_norm_into", x, x.size().0[1].max(1), epsilon, Existing(out))
    }

    /// Normalizes each channel to mean 0 and variance 1 by its statistics in this batch, as in training.
    ///
    /// Running statistics are reductions of the same tensor: [`mean`](crate::ops::Reductions::mean),
    /// [`sample_var`](crate::ops::Reductions::sample_var).
    ///
    /// # Shapes
    /// `[batch, channel, …]`; the result has the same sizes.
    ///
    /// # Cost
    /// Two reductions over the batch, and one pass that normalizes.
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
        normalized("batch_norm", x, (flat(x.size()), (Axis::<0>, Axis::<2>)), epsilon, Allocate)
    }

    /// As [`batch_norm`](Channels::batch_norm), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As [`group_norm_into`](Channels::group_norm_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[0.0; 2]; 2]);
    /// Tensor::from([[1.0, 10.0], [3.0, 30.0]]).batch_norm_into(0.0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[-1.0, -1.0], [1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn batch_norm_into<'o>(self, epsilon: T, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        let x = self.into_view();
        normalized("batch_norm_into", x, (flat(x.size()), (Axis::<0>, Axis::<2>)), epsilon, Existing(out))
    }

    /// `(x − mean) / √(var + epsilon)` by a given mean and variance for each channel, as in inference.
    ///
    /// # Errors
    /// [`Error::Sizes`] for another number of channels; those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mean, var) = (Tensor::from([2.0, 20.0]), Tensor::from([1.0, 100.0]));
    /// let y = Tensor::from([[1.0, 10.0]]).batch_norm_by(&mean, &var, 0.0)?;
    /// assert_eq!(y, Tensor::from([[-1.0, -1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn batch_norm_by<'b>(
        self,
        mean: impl IntoView<'b, T, 1, D>,
        var: impl IntoView<'b, T, 1, D>,
        epsilon: T,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Float + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxis<1>,
    {
        normalized_by(
            "batch_norm_by",
            self.into_view(),
            [mean.into_view(), var.into_view()],
            epsilon,
            Allocate,
        )
    }

    /// As [`batch_norm_by`](Channels::batch_norm_by), into an existing tensor or exclusive view. No
    /// allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mean, var) = (Tensor::from([2.0, 20.0]), Tensor::from([1.0, 100.0]));
    /// let mut y = Tensor::from([[0.0, 0.0]]);
    /// Tensor::from([[1.0, 10.0]]).batch_norm_by_into(&mean, &var, 0.0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[-1.0, -1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn batch_norm_by_into<'b, 'o>(
        self,
        mean: impl IntoView<'b, T, 1, D>,
        var: impl IntoView<'b, T, 1, D>,
        epsilon: T,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float + 'b,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        normalized_by(
            "batch_norm_by_into",
            self.into_view(),
            [mean.into_view(), var.into_view()],
            epsilon,
            Existing(out),
        )
    }

    /// The gated linear unit: the first half along axis `A`, times the sigmoid of the second.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis of odd size; those of elementwise operators.
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

    /// As [`glu`](Channels::glu), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[0.0, 0.0]]);
    /// Tensor::from([[1.0, 2.0, 0.0, f64::INFINITY]]).glu_into(Axis::<1>, &mut y)?;
    /// assert_eq!(y, Tensor::from([[0.5, 2.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn glu_into<'o, const A: usize>(self, axis: Axis<A>, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        gated_linear_unit("glu_into", self.into_view(), A, Existing(out))
    }

    /// As [`glu`](Channels::glu), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn glu_axis(self, axis: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
    {
        gated_linear_unit("glu", self.into_view(), axis, Allocate)
    }

    /// Blocks of `factor²` channels become blocks of pixels: `[n, c · f², h, w] → [n, c, h · f, w · f]`.
    ///
    /// # Errors
    /// [`Error::Value`] when the channels are not a multiple of `factor²`; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
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
        shuffled("pixel_shuffle", self.into_view(), factor, Allocate)
    }

    /// As [`pixel_shuffle`](Channels::pixel_shuffle), into an existing tensor or exclusive view. No
    /// allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 4>::zeros([1, 1, 2, 2], &Cpu)?;
    /// Tensor::from([[[[1]], [[2]], [[3]], [[4]]]]).pixel_shuffle_into(2, &mut y)?;
    /// assert_eq!(y, Tensor::from([[[[1, 2], [3, 4]]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn pixel_shuffle_into<'o>(self, factor: usize, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: Spatial<2>,
    {
        shuffled("pixel_shuffle_into", self.into_view(), factor, Existing(out))
    }

    /// Blocks of pixels become channels: `[n, c, h · f, w · f] → [n, c · f², h, w]`, the inverse of
    /// [`pixel_shuffle`](Channels::pixel_shuffle).
    ///
    /// # Errors
    /// [`Error::Value`] when a spatial axis is not a multiple of `factor`; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    fn pixel_unshuffle(self, factor: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<2>,
    {
        unshuffled("pixel_unshuffle", self.into_view(), factor, Allocate)
    }

    /// As [`pixel_unshuffle`](Channels::pixel_unshuffle), into an existing tensor or exclusive view. No
    /// allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 4>::zeros([1, 4, 1, 1], &Cpu)?;
    /// Tensor::from([[[[1, 2], [3, 4]]]]).pixel_unshuffle_into(2, &mut y)?;
    /// assert_eq!(y.to_vec()?, [1, 2, 3, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn pixel_unshuffle_into<'o>(self, factor: usize, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: Spatial<2>,
    {
        unshuffled("pixel_unshuffle_into", self.into_view(), factor, Existing(out))
    }

    /// The windows of a convolution as columns: `[n, c, h, w] → [n, c · kh · kw, windows]`, also known as
    /// im2col. Elements outside the input are 0.
    ///
    /// [`conv2d`](Tensor::conv2d) needs no copy.
    ///
    /// # Cost
    /// Two allocations and copies: the input with its padding, and the columns.
    ///
    /// # Errors
    /// [`Error::Value`] when a window does not fit, or for groups; [`Error::Overflow`],
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Conv;
    /// let x = Tensor::from([[[[1, 2, 3], [4, 5, 6]]]]);
    /// assert_eq!(x.unfold([2, 2], Conv::new())?, Tensor::from([[[1, 2], [2, 3], [4, 5], [5, 6]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unfold(self, kernel: [usize; 2], conv: Conv<2>) -> Result<Tensor<T, 3, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<2>,
    {
        window_columns("unfold", self.into_view(), kernel, conv, Allocate)
    }

    /// As [`unfold`](Channels::unfold), into an existing tensor or exclusive view. The input with its padding
    /// is allocated.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Conv;
    /// let mut columns = Tensor::<i32, 3>::zeros([1, 4, 2], &Cpu)?;
    /// Tensor::from([[[[1, 2, 3], [4, 5, 6]]]]).unfold_into([2, 2], Conv::new(), &mut columns)?;
    /// assert_eq!(columns, Tensor::from([[[1, 2], [2, 3], [4, 5], [5, 6]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unfold_into<'o>(
        self,
        kernel: [usize; 2],
        conv: Conv<2>,
        out: impl IntoViewMut<'o, T, 3, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: Spatial<2>,
    {
        window_columns("unfold_into", self.into_view(), kernel, conv, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Channels<'a, T, RANK, D> for X {}
