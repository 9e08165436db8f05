//! Losses of predictions and targets, for each element or each row. A sum or a mean fuses into the same pass:
//! `x.lazy().mse_loss(&y).mean(All)`.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::class_losses::{ClassLoss, Share, class_losses};
use super::cross_entropy::cross_entropy;
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::expr::{IntoView, Zip as _};
use crate::ops::axes::sizes_along;
use crate::ops::define::operators;
use crate::ops::{Arithmetic as _, Math as _, Reductions as _, Sum};
use crate::rank::RemoveAxes;
use crate::scalar::{Lane, Lanes, Real};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// A logarithm, clamped to at least −100 as in PyTorch.
#[inline(always)]
fn clamped_log<L: Lanes, P: Real>(log: Lane<L, P>) -> Lane<L, P> {
    log.lt(-100.0).select(-100.0, log)
}

operators! {
    /// Losses of predictions and targets, elementwise; `self` is the prediction.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 2.0, 5.0]), Tensor::from([1.0, 4.0, 4.0]));
    /// assert_eq!(x.mse_loss(&y)?.to_vec()?, [0.0, 4.0, 1.0]);
    /// assert_eq!(x.lazy().l1_loss(&y).mean(All)?.item()?, 1.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Losses;
    /// `(x − y)²`.
    fn mse_loss = MseLoss(x, y) where Float { (x - y) * (x - y) }
    /// `|x − y|`.
    fn l1_loss = L1Loss(x, y) where Float { (x - y).abs() }
    /// `−y · ln x − (1 − y) · ln(1 − x)` of a probability `x`; logarithms are clamped to at least −100.
    fn binary_cross_entropy = BinaryCrossEntropy(x, y) where Float {
        (y - 1.0) * clamped_log((-x).ln_1p()) - y * clamped_log(x.ln())
    }
    /// The same of `sigmoid(x)`, exact in both tails: `max(x, 0) − x · y + ln(1 + e^(−|x|))`.
    fn binary_cross_entropy_with_logits = BinaryCrossEntropyWithLogits(x, y) where Float {
        // |x| and max(x, 0) have no derivative at 0; this form has, and its two branches agree in value and
        // derivative.
        let positive = x.gt(Lane::zero());
        let share = positive.select(1.0 - y, -y);
        // The limit of 0 · ∞ is 0 here.
        let limit = share.eq(Lane::zero()) & x.abs().eq(Lane::highest());
        let line = limit.select(Lane::zero(), share * x);
        line + positive.select(-x, x).exp().ln_1p()
    }
    /// The term of Kullback and Leibler's divergence, `y · (ln y − x)`, of a log-probability `x`; 0 where `y`
    /// is 0.
    fn kl_div = KlDiv(x, y) where Float { y.eq(Lane::zero()).select(Lane::zero(), y * (y.ln() - x)) }
    /// The same for a target that is also a log-probability: `e^y · (y − x)`.
    fn kl_div_log_target = KlDivLogTarget(x, y) where Float {
        let share = y.exp();
        share.eq(Lane::zero()).select(Lane::zero(), share * (y - x))
    }
}

/// The cross entropy of targets that are probabilities.
fn soft_losses<
    T: Float,
    const A: usize,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    target: TensorView<'_, T, RANK, D>,
    axis: Axis<A>,
    plan: ClassLoss<'_, T, D>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    let classes = x.size().0[A];
    if x.size() != target.size() {
        return Err(Error::Sizes { op, left: x.size().0.into(), right: target.size().0.into() });
    }
    plan.check(op, classes, x.device())?;
    let ones = Tensor::<T, 1, D>::ones([1], x.device())?;
    let line = match plan.weight {
        Some(weight) => weight.reshape(sizes_along::<RANK>(A, classes))?,
        None => ones.reshape([1; RANK])?,
    };
    let (kept, share) =
        (T::constant(1.0 - plan.smoothing), T::constant(plan.smoothing / classes.max(1) as f64));
    let shifted = x.lazy() - x.max_along(axis);
    let logs = shifted - shifted.exp().sum_along(axis).ln();
    logs.zip(Share, (target.lazy() * kept + share) * line).neg().reduce_at(op, Sum, axis, destination)
}

/// Losses by classes, of tensors and views. Classes are along axis `A`; targets are indices of classes, and
/// have the sizes without that axis.
///
/// # Errors
/// [`Error::Index`] for a target that is neither a class nor ignored, on a GPU at the next
/// [`check`](Device::check), [`synchronize`](Device::synchronize) or read; [`Error::Value`] for targets of
/// other sizes, for weights of another number of classes, and for a smoothing outside 0 to 1;
/// [`Error::Sizes`] if targets are probabilities and sizes differ; [`Error::Device`],
/// [`Error::Unallocated`], [`Error::OutOfMemory`]; [`Error::Output`] and [`Error::Shared`] of an existing
/// output.
///
/// # Source
/// PyTorch's `nll_loss` and `cross_entropy`.
pub trait ClassLosses<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// `−weight[y] · x[.., y, ..]` of log-probabilities, for each target `y`; 0 for an ignored one.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let logs = Tensor::from([[-0.5, -1.0], [-2.0, -0.25]]);
    /// let y = Tensor::from([1_i64, -100]);
    /// assert_eq!(logs.nll_loss(Axis::<1>, &y, ClassLoss::new())?.to_vec()?, [1.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn nll_loss<'b, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float,
        D: 'b,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let _ = axis;
        class_losses::<T, RANK, M, M, false, D, _>(
            "nll_loss",
            (self.into_view(), A),
            target.into_view(),
            plan,
            Allocate,
        )
    }

    /// The mean of [`nll_loss`](ClassLosses::nll_loss), weighted by the classes; NaN if all targets are
    /// ignored.
    fn nll_loss_mean<'b, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
    ) -> Result<Tensor<T, 0, D>>
    where
        T: Float,
        D: 'b,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let _ = axis;
        class_losses::<T, RANK, M, 0, true, D, _>(
            "nll_loss_mean",
            (self.into_view(), A),
            target.into_view(),
            plan,
            Allocate,
        )
    }

    /// [`nll_loss`](ClassLosses::nll_loss) of [`log_softmax`](Tensor::log_softmax); label smoothing spreads a
    /// share of each target over all classes.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let scores = Tensor::from([[0.0, 0.0], [1000.0, 0.0]]);
    /// let loss = scores.cross_entropy(Axis::<1>, &Tensor::from([1_i64, 0]), ClassLoss::new())?;
    /// assert_eq!(loss.to_vec()?, [2f64.ln(), 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross_entropy<'b, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float,
        D: 'b,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let (_, op) = (axis, "cross_entropy");
        cross_entropy::<T, A, RANK, M, M, false, D, _>(
            op,
            self.into_view(),
            target.into_view(),
            plan,
            Allocate,
        )
    }

    /// The mean of [`cross_entropy`](ClassLosses::cross_entropy), weighted by the classes; NaN if all targets
    /// are ignored.
    fn cross_entropy_mean<'b, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
    ) -> Result<Tensor<T, 0, D>>
    where
        T: Float,
        D: 'b,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let (_, op) = (axis, "cross_entropy_mean");
        cross_entropy::<T, A, RANK, M, 0, true, D, _>(
            op,
            self.into_view(),
            target.into_view(),
            plan,
            Allocate,
        )
    }

    /// The cross entropy of targets that are probabilities of the classes, `−Σ weight · y · log_softmax(x)`,
    /// in one pass. No target is ignored here.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let (x, y) = (Tensor::from([[0.0, 0.0]]), Tensor::from([[0.25, 0.75]]));
    /// let loss = x.soft_cross_entropy(Axis::<1>, &y, ClassLoss::new())?;
    /// assert_eq!(loss.to_vec()?, [2f64.ln()]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn soft_cross_entropy<'b, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, T, RANK, D>,
        plan: ClassLoss<'_, T, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        soft_losses("soft_cross_entropy", self.into_view(), target.into_view(), axis, plan, Allocate)
    }

    /// As [`nll_loss`](ClassLosses::nll_loss), into an existing tensor or exclusive view; the weights of the
    /// targets are allocated.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let (logs, mut loss) = (Tensor::from([[-0.5, -1.0], [-2.0, -0.25]]), Tensor::from([9.0, 9.0]));
    /// logs.nll_loss_into(Axis::<1>, &Tensor::from([1_i64, -100]), ClassLoss::new(), &mut loss)?;
    /// assert_eq!(loss.to_vec()?, [1.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn nll_loss_into<'b, 'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let _ = axis;
        class_losses::<T, RANK, M, M, false, D, _>(
            "nll_loss_into",
            (self.into_view(), A),
            target.into_view(),
            plan,
            Existing(out),
        )
    }

    /// As [`nll_loss_mean`](ClassLosses::nll_loss_mean), into an existing tensor or exclusive view of rank 0.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let (logs, mut losses) = (Tensor::from([[-0.5, -1.0], [-2.0, -0.25]]), Tensor::from([9.0, 9.0]));
    /// let loss = losses.view_mut()?.slice((1,))?; // one step of a record
    /// logs.nll_loss_mean_into(Axis::<1>, &Tensor::from([1_i64, 0]), ClassLoss::new(), loss)?;
    /// assert_eq!(losses.to_vec()?, [9.0, 1.5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn nll_loss_mean_into<'b, 'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
        out: impl IntoViewMut<'o, T, 0, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let _ = axis;
        class_losses::<T, RANK, M, 0, true, D, _>(
            "nll_loss_mean_into",
            (self.into_view(), A),
            target.into_view(),
            plan,
            Existing(out),
        )
    }

    /// As [`cross_entropy`](ClassLosses::cross_entropy), into an existing tensor or exclusive view; the
    /// log-probabilities are allocated.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let (scores, mut loss) = (Tensor::from([[0.0, 0.0], [1000.0, 0.0]]), Tensor::from([9.0, 9.0]));
    /// scores.cross_entropy_into(Axis::<1>, &Tensor::from([1_i64, 0]), ClassLoss::new(), &mut loss)?;
    /// assert_eq!(loss.to_vec()?, [2f64.ln(), 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross_entropy_into<'b, 'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let (_, op) = (axis, "cross_entropy_into");
        cross_entropy::<T, A, RANK, M, M, false, D, _>(
            op,
            self.into_view(),
            target.into_view(),
            plan,
            Existing(out),
        )
    }

    /// As [`cross_entropy_mean`](ClassLosses::cross_entropy_mean), into an existing tensor or exclusive view
    /// of rank 0.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let mut losses = Tensor::from([9.0, 9.0]);
    /// let (scores, loss) = (Tensor::from([[0.0, 0.0]]), losses.view_mut()?.slice((1,))?);
    /// scores.cross_entropy_mean_into(Axis::<1>, &Tensor::from([1_i64]), ClassLoss::new(), loss)?;
    /// assert_eq!(losses.to_vec()?, [9.0, 2f64.ln()]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross_entropy_mean_into<'b, 'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, i64, M, D>,
        plan: ClassLoss<'_, T, D>,
        out: impl IntoViewMut<'o, T, 0, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        let (_, op, out) = (axis, "cross_entropy_mean_into", Existing(out));
        cross_entropy::<T, A, RANK, M, 0, true, D, _>(op, self.into_view(), target.into_view(), plan, out)
    }

    /// As [`soft_cross_entropy`](ClassLosses::soft_cross_entropy), into an existing tensor or exclusive view;
    /// one element is allocated.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ClassLoss;
    /// let (x, y) = (Tensor::from([[0.0, 0.0]]), Tensor::from([[0.25, 0.75]]));
    /// let mut loss = Tensor::from([9.0]);
    /// x.soft_cross_entropy_into(Axis::<1>, &y, ClassLoss::new(), &mut loss)?;
    /// assert_eq!(loss.to_vec()?, [2f64.ln()]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn soft_cross_entropy_into<'b, 'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        target: impl IntoView<'b, T, RANK, D>,
        plan: ClassLoss<'_, T, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float + 'b,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
    {
        soft_losses(
            "soft_cross_entropy_into",
            self.into_view(),
            target.into_view(),
            axis,
            plan,
            Existing(out),
        )
    }
}
impl<'a, X, T: 'a, const RANK: usize, D: Device> ClassLosses<'a, T, RANK, D> for X where
    X: IntoView<'a, T, RANK, D>
{
}
