//! Normalisations along one axis: softmax, log-softmax, layer norm.
//!
//! Each is a few fused passes; the largest value is subtracted first, so that no exponential overflows. What a pass finds
//! for a row is kept as f64: a 16-bit float would round a mean, and could not hold the sum of 100 000 ones.
//! Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use super::{Arithmetic as _, Math as _, Max};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Expr, Zip as _, reduce};
use crate::kernel::{Body, Op, Reducer};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes, Prim as _};
use crate::tensor::{Tensor, TensorView};

/// Sums in the machine type, finished in f64.
macro_rules! wide_sums {
    ($($R:ident $name:literal |$sum:ident, $count:ident| $finish:expr;)*) => { $(
        #[derive(Clone, Copy)]
        struct $R;
        impl<T: Float> Reducer<T> for $R {
            const NAME: &'static str = $name;
            type Out = f64;
            type State<L: Lanes> = Lane<L, Compute<T>>;
            #[inline(always)]
            fn identity<L: Lanes>() -> Self::State<L> { Lane::zero() }
            #[inline(always)]
            fn absorb<L: Lanes>(sum: Self::State<L>, x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> Self::State<L> { sum + x }
            #[inline(always)]
            fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> { a + b }
            #[inline(always)]
            fn finish<L: Lanes>($sum: Self::State<L>, $count: Lane<L, i64>) -> Lane<L, f64> { $finish }
        }
    )* };
}
wide_sums! {
    Total "sum" |sum, _count| sum.cast();
    Average "mean" |sum, count| sum.cast::<f64>() / count.cast();
}

/// Operators on an element and what was found for its row.
macro_rules! by_row {
    ($($F:ident |$x:ident, $row:ident| $body:expr;)*) => { $(
        #[derive(Clone, Copy)]
        struct $F;
        impl<T: Float> Op<(T, f64)> for $F {
            type Out = T;
            #[inline(always)]
            fn call<L: Lanes>(($x, row): (Lane<L, Compute<T>>, Lane<L, f64>)) -> Lane<L, Compute<T>> {
                let $row = row.cast::<Compute<T>>();
                $body
            }
        }
    )* };
}
by_row! {
    Less |x, row| x - row;
    Times |x, row| x * row;
    Over |x, row| x / row;
}

/// A reduction over axis `A` of an expression, whose rank the caller's bound gives.
fn over<const A: usize, Q, const RANK: usize, const M: usize, D: Device, E>(reducer: Q, expr: E, device: &D) -> Result<Tensor<Q::Out, M, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
    Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
{
    reduce(reducer, &expr, device, std::array::from_fn(|axis| axis == A))
}

/// What a reduction over axis `A` left, with that axis back at size 1.
fn back<const A: usize, const M: usize, const RANK: usize, T, D: Device>(x: &Tensor<T, M, D>) -> TensorView<'_, T, RANK, D>
where
    Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
{
    x.view().with_axis(A)
}

impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// `e^(x − max) / Σ e^(x − max)` along axis `A`.
    ///
    /// A row of −∞ alone gives NaN, and so does a row with +∞ or NaN.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn softmax<const A: usize, const M: usize>(self, _: Axis<A>) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        if self.is_empty() {
            return self.copy();
        }
        let largest = over::<A, _, RANK, M, D, _>(Max, self, self.device())?;
        let powers = (self.lazy() - back::<A, M, RANK, _, _>(&largest)).exp();
        let sum = over::<A, _, RANK, M, D, _>(Total, powers.expr(), self.device())?;
        powers.zip(Over, back::<A, M, RANK, _, _>(&sum)).eval()
    }

    /// `x − max − ln Σ e^(x − max)` along axis `A`: the logarithm of [`softmax`](TensorView::softmax), exact where that
    /// would be 0.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn log_softmax<const A: usize, const M: usize>(self, _: Axis<A>) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        if self.is_empty() {
            return self.copy();
        }
        let largest = over::<A, _, RANK, M, D, _>(Max, self, self.device())?;
        let shifted = self.lazy() - back::<A, M, RANK, _, _>(&largest);
        let sum = over::<A, _, RANK, M, D, _>(Total, shifted.exp().expr(), self.device())?.ln()?;
        shifted.zip(Less, back::<A, M, RANK, _, _>(&sum)).eval()
    }

    /// `(x − mean) / √(var + epsilon)` along axis `A`, the variance from a second pass.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn layer_norm<const A: usize, const M: usize>(self, _: Axis<A>, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let mean = over::<A, _, RANK, M, D, _>(Average, self, self.device())?;
        let centred = self.lazy().zip(Less, back::<A, M, RANK, _, _>(&mean));
        let var = over::<A, _, RANK, M, D, _>(Average, centred.square().expr(), self.device())?;
        let scale = (var.lazy() + epsilon.widen().cast::<f64>()).rsqrt().eval()?;
        centred.zip(Times, back::<A, M, RANK, _, _>(&scale)).eval()
    }
}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// `e^(x − max) / Σ e^(x − max)` along axis `A`; see [`TensorView::softmax`].
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let scores = Tensor::from([[1000.0, 1000.0], [0.0, f64::ln(3.0)]]);
    /// let p = scores.softmax(Axis::<1>)?;
    /// assert_eq!(p.slice((0, ..))?.to_vec()?, [0.5, 0.5]);
    /// assert!((p[[1, 1]] - 0.75).abs() < 1e-15);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn softmax<const A: usize, const M: usize>(&self, axis: Axis<A>) -> Result<Self>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        self.view().softmax(axis)
    }

    /// The logarithm of [`softmax`](Tensor::softmax), exact where that would be 0.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn log_softmax<const A: usize, const M: usize>(&self, axis: Axis<A>) -> Result<Self>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        self.view().log_softmax(axis)
    }

    /// `(x − mean) / √(var + epsilon)` along axis `A`; a weight and a bias are one more expression:
    /// `x.layer_norm(Axis::<1>, 1e-5)? * weight.lift() + bias.lift()`.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn layer_norm<const A: usize, const M: usize>(&self, axis: Axis<A>, epsilon: T) -> Result<Self>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        self.view().layer_norm(axis, epsilon)
    }
}
