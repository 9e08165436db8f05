//! Tensors joined along an axis, or stacked along a new one.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::axes::{check_axis, with_size};
use crate::rank::{InsertAxis, RemoveAxis};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// The parts in sequence along an existing axis.
pub(super) fn joined<'a, T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    parts: impl Iterator<Item = TensorView<'a, T, RANK, D>> + Clone,
    axis: usize,
    destination: P,
) -> Result<P::Done> {
    let first = parts
        .clone()
        .next()
        .ok_or_else(|| Error::Value { op, what: text(format_args!("there are no parts")) })?;
    let mut size = with_size(first.size(), axis, 0);
    for part in parts.clone() {
        let (left, right) = (first.size(), part.size());
        same_device(op, first.device(), part.device())?;
        part.ensure_allocated(op)?;
        if with_size(left, axis, 0) != with_size(right, axis, 0) {
            return Err(Error::Value {
                op,
                what: text(format_args!("sizes {left} and {right} differ beside axis {axis}")),
            });
        }
        size.0[axis] = size.0[axis].saturating_add(right.0[axis]);
    }
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, first.device(), |out| {
        let mut start = 0;
        for part in parts {
            let end = start + part.size().0[axis];
            out.reborrow().slice_axis(axis, start..end, 1)?.assign(part)?;
            start = end;
        }
        Ok(())
    })
}

/// Parts of one size, one at each position of a new axis.
fn stacked<
    'a,
    T: Element + 'a,
    const A: usize,
    const RANK: usize,
    const N: usize,
    D: Device + 'a,
    P: Destination<T, N, D>,
>(
    op: &'static str,
    parts: &[impl IntoView<'a, T, RANK, D> + Copy],
    axis: Axis<A>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
{
    let mut sizes = parts.iter().map(|part| part.into_view().size());
    if let Some(first) = sizes.next()
        && let Some(other) = sizes.find(|size| *size != first)
    {
        return Err(Error::Value { op, what: text(format_args!("sizes {first} and {other} differ")) });
    }
    joined(op, parts.iter().map(|part| part.into_view().insert_axis(axis)), A, destination)
}

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The parts, tensors or views, in sequence along axis `A`, in new memory.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty list, or if the sizes along other axes differ; [`Error::OutOfMemory`],
    /// and those of the device.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[1, 2], [3, 4]]), Tensor::from([[5, 6]]));
    /// assert_eq!(Tensor::concat([&x, &y], Axis::<0>)?, Tensor::from([[1, 2], [3, 4], [5, 6]]));
    /// let error = Tensor::concat([&x, &y], Axis::<1>).unwrap_err();
    /// assert_eq!(error.to_string(), "concat: sizes [2, 2] and [1, 2] differ beside axis 1");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "cat")]
    pub fn concat<'a, const A: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
    ) -> Result<Self>
    where
        T: 'a,
        D: 'a,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        Self::concat_axis(parts, A)
    }

    /// As [`concat`](Tensor::concat), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    pub fn concat_axis<'a, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: usize,
    ) -> Result<Self>
    where
        T: 'a,
        D: 'a,
    {
        check_axis(
            "concat",
            axis,
            parts.as_ref().first().map_or(Dim([0; RANK]), |part| part.into_view().size()),
        )?;
        joined("concat", parts.as_ref().iter().map(|part| part.into_view()), axis, Allocate)
    }

    /// As [`concat`](Tensor::concat), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`concat`](Tensor::concat); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it
    /// has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([3]));
    /// let mut both = Tensor::<i32, 1>::zeros([3], &Cpu)?;
    /// Tensor::concat_into([&x, &y], Axis::<0>, &mut both)?;
    /// assert_eq!(both.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn concat_into<'a, 'o, const A: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: 'a,
        D: 'a + 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        joined("concat_into", parts.as_ref().iter().map(|part| part.into_view()), A, Existing(out))
    }

    /// The parts, all of the same sizes, along a new axis at index `A`, in new memory.
    ///
    /// # Errors
    /// As [`concat`](Tensor::concat).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2, 3]), Tensor::from([4, 5, 6]));
    /// assert_eq!(Tensor::stack([&x, &y], Axis::<0>)?, Tensor::from([[1, 2, 3], [4, 5, 6]]));
    /// assert_eq!(Tensor::stack([&x, &y], Axis::<1>)?, Tensor::from([[1, 4], [2, 5], [3, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn stack<'a, const A: usize, const N: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
    ) -> Result<Tensor<T, N, D>>
    where
        T: 'a,
        D: 'a,
        Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
    {
        stacked("stack", parts.as_ref(), axis, Allocate)
    }

    /// As [`stack`](Tensor::stack), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`concat_into`](Tensor::concat_into).
    pub fn stack_into<'a, 'o, const A: usize, const N: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
        out: impl IntoViewMut<'o, T, N, D>,
    ) -> Result<()>
    where
        T: 'a,
        D: 'a + 'o,
        Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
    {
        stacked("stack_into", parts.as_ref(), axis, Existing(out))
    }
}
