//! Linear layers: a matrix product along the last axis, then a bias and an activation in place on the result.
// Imports: `error`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::element::{Compute, Number};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, update_with};
use crate::kernel::Op;
use crate::layout::Layout;
use crate::ops::Add;
use crate::ops::axes::sizes_along;
use crate::ops::linalg::matmul::labelled;
use crate::scalar::{Dual, Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::marker::PhantomData;

/// A bias, then an operator of one operand.
#[derive(Debug)]
struct BiasThen<F>(PhantomData<F>);
impl<F> Clone for BiasThen<F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for BiasThen<F> {}

impl<T: Number, F: Op<(T,), Out = T>> Op<(T, T)> for BiasThen<F> {
    const NAME: &'static str = "linear";
    const CHEAP: bool = F::CHEAP;
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, bias): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        F::call::<L>((x + bias,))
    }
    const BY_RESULT: bool = F::BY_RESULT;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call_by_result<L: Lanes>(
        (x, bias): (Lane<Dual<L>, Compute<T>>, Lane<Dual<L>, Compute<T>>),
        y: Lane<L, Compute<T>>,
    ) -> Lane<Dual<L>, Compute<T>> {
        F::call_by_result::<L>((x + bias,), y)
    }
}

/// The product along the last axis; then the operator is applied in place to the result and the bias.
fn layer<T: Number, F: Op<(T, T), Out = T>, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    _: F,
    x: TensorView<'_, T, RANK, D>,
    (weight, bias): (TensorView<'_, T, 2, D>, TensorView<'_, T, 1, D>),
    destination: P,
) -> Result<P::Done> {
    const LEFT_LABELS: &[u8] = b"abcdefghk";
    const OUT_LABELS: &[u8] = b"abcdefghj";
    if RANK == 0 {
        return Err(Error::Axis { op, axis: 0, sizes: x.size().0.into() });
    }
    if RANK > LEFT_LABELS.len() {
        return Err(Error::Value {
            op,
            what: text(format_args!(
                "{RANK} axes, of sizes {}; products have at most {}",
                x.size(),
                LEFT_LABELS.len()
            )),
        });
    }
    same_device(op, x.device(), bias.device())?;
    bias.ensure_allocated(op)?;
    let [outputs, inputs] = weight.size().0;
    if ![1, outputs].contains(&bias.numel()) {
        return Err(Error::Sizes { op, left: weight.size().0.into(), right: bias.size().0.into() });
    }
    let mut size = x.size();
    if size.0[RANK - 1] != inputs {
        let (left, right) = (size.0.into(), weight.size().0.into());
        return Err(Error::Inner { op, inner: [size.0[RANK - 1], inputs], left, right });
    }
    size.0[RANK - 1] = outputs;
    let last = |labels: &'static [u8]| &labels[labels.len() - RANK..];
    let layout = Layout::row_major_of(op, size, size_of::<T>())?;
    destination.put(op, layout, x.device(), |out| {
        labelled(op, [last(LEFT_LABELS), b"jk", last(OUT_LABELS)], x, weight, Existing(out.reborrow()))?;
        update_with::<F, T, T, RANK, D, _>(out, &bias.reshape(sizes_along::<RANK>(RANK - 1, bias.numel()))?)
    })
}

/// Linear layers, of tensors and views `[.., inputs]`.
pub trait Linear<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// `x · weightᵀ + bias` along the last axis; a weight is `[outputs, inputs]`, as in PyTorch and ONNX.
    ///
    /// # Shapes
    /// `x: [.., inputs]`, `weight: [outputs, inputs]`, `bias: [outputs]` or `[1]` → `[.., outputs]`, of any
    /// rank from 1 to 9.
    ///
    /// # Cost
    /// One allocation; one product of all leading axes together, without a copy of an operand; one pass in
    /// place over the result for the bias. 16-bit floats are rounded after the product and after the bias.
    ///
    /// # Errors
    /// [`Error::Inner`] when the last axis and the weight's inputs differ, [`Error::Sizes`] for a bias of
    /// another length, [`Error::Axis`] for a tensor of rank 0, [`Error::Value`] for more than 9 axes,
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let weight = Tensor::from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]);
    /// let bias = Tensor::from([0.0, 0.0, 10.0]);
    /// assert_eq!(Tensor::from([[1.0, 2.0]]).linear(&weight, &bias)?, Tensor::from([[1.0, 2.0, 13.0]]));
    /// assert_eq!(Tensor::from([1.0, 2.0]).linear(&weight, &bias)?, Tensor::from([1.0, 2.0, 13.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn linear<'b>(
        self,
        weight: impl IntoView<'b, T, 2, D>,
        bias: impl IntoView<'b, T, 1, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Number + 'b,
        D: 'b,
    {
        layer("linear", Add, self.into_view(), (weight.into_view(), bias.into_view()), Allocate)
    }

    /// As [`linear`](Linear::linear), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    fn linear_into<'b, 'o>(
        self,
        weight: impl IntoView<'b, T, 2, D>,
        bias: impl IntoView<'b, T, 1, D>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Number + 'b,
        D: 'b + 'o,
    {
        layer("linear_into", Add, self.into_view(), (weight.into_view(), bias.into_view()), Existing(out))
    }

    /// As [`linear`](Linear::linear), then an operator of one operand in the pass of the bias:
    /// `activation(x · weightᵀ + bias)`.
    ///
    /// # Errors
    /// As [`linear`](Linear::linear).
    ///
    /// # Examples
    /// ```
    /// use rankform::{ops::Relu, prelude::*};
    /// let (weight, bias) = (Tensor::from([[1.0, -1.0], [1.0, 1.0]]), Tensor::from([0.0, 0.5]));
    /// assert_eq!(Tensor::from([[1.0, 2.0]]).linear_with(&weight, &bias, Relu)?, Tensor::from([[0.0, 3.5]]));
    /// elementwise! { fn squared(x) { x * x } }
    /// let y = Tensor::from([[1.0, 2.0]]).linear_with(&weight, &bias, squared)?;
    /// assert_eq!(y, Tensor::from([[1.0, 12.25]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn linear_with<'b, F: Op<(T,), Out = T>>(
        self,
        weight: impl IntoView<'b, T, 2, D>,
        bias: impl IntoView<'b, T, 1, D>,
        activation: F,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Number + 'b,
        D: 'b,
    {
        let _ = activation; // its type is the operator
        layer(
            "linear_with",
            BiasThen::<F>(PhantomData),
            self.into_view(),
            (weight.into_view(), bias.into_view()),
            Allocate,
        )
    }

    /// As [`linear_with`](Linear::linear_with), into an existing tensor or exclusive view. No allocation of a
    /// result.
    ///
    /// # Errors
    /// As [`linear_into`](Linear::linear_into).
    fn linear_with_into<'b, 'o, F: Op<(T,), Out = T>>(
        self,
        weight: impl IntoView<'b, T, 2, D>,
        bias: impl IntoView<'b, T, 1, D>,
        activation: F,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Number + 'b,
        D: 'b + 'o,
    {
        let _ = activation;
        layer(
            "linear_with_into",
            BiasThen::<F>(PhantomData),
            self.into_view(),
            (weight.into_view(), bias.into_view()),
            Existing(out),
        )
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Linear<'a, T, RANK, D> for X {}
