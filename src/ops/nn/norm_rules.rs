//! The backward passes of layer norm and RMS norm, for devices that record.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::rules::{AlongAxes, Flow};
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::{Dim, MarkedAxes};
use crate::element::Float;
use crate::error::Result;
use crate::expr::{Lazy, Reduce as _, Zip as _};
use crate::layout::joint_size;
use crate::ops::{Arithmetic as _, Math as _, MeanF64, Reductions as _, Sum};
use crate::rank::HasAxes;
use crate::tensor::{Allocate, Destination as _, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// The backward pass of layer norm: `r · (g − mean g − r² · c · mean(g · c))` of centered values `c`, with
/// `r = 1 / √(var + epsilon)`.
#[derive(Clone, Copy)]
pub(super) struct LayerNormRule<T>(T);

impl<T> LayerNormRule<T> {
    pub(super) fn new(epsilon: T) -> Self {
        LayerNormRule(epsilon)
    }
}

impl<T: Float> AlongAxes<T> for LayerNormRule<T> {
    const NAME: &'static str = "layer_norm";
    const READS_RESULT: bool = false;
    fn forward<const RANK: usize, D: Device>(
        self,
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        x.layer_norm_into(axes, self.0, out)
    }
    fn backward<const RANK: usize, D: Device>(
        self,
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let centered = x.lazy() - x.along(MeanF64, axes);
        let rate = (centered.square().mean_along(axes) + self.0).rsqrt();
        let along = gradient.lazy().zip(Flow, centered).mean_along(axes).zip(Flow, rate.square());
        let rest = gradient.lazy() - gradient.mean_along(axes) - along.zip(Flow, centered);
        rest.zip(Flow, rate).eval_into(out)
    }
}

/// The backward pass of RMS norm: `r · (g − r² · x · mean(g · x))` with `r = 1 / √(mean of x² + epsilon)`.
#[derive(Clone, Copy)]
pub(super) struct RmsNormRule<T>(T);

impl<T> RmsNormRule<T> {
    pub(super) fn new(epsilon: T) -> Self {
        RmsNormRule(epsilon)
    }
}

impl<T: Float> AlongAxes<T> for RmsNormRule<T> {
    const NAME: &'static str = "rms_norm";
    const READS_RESULT: bool = false;
    fn forward<const RANK: usize, D: Device>(
        self,
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        x.rms_norm_into(axes, self.0, out)
    }
    fn backward<const RANK: usize, D: Device>(
        self,
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let (x, gradient) = (x.lazy(), gradient.lazy());
        let rate = (x.square().mean_along(axes) + self.0).rsqrt();
        let along = gradient.zip(Flow, x).mean_along(axes).zip(Flow, rate.square());
        (gradient - along.zip(Flow, x)).zip(Flow, rate).eval_into(out)
    }
}

/// Layer norm with a weight and a bias, on a device that records.
pub(super) fn affine_by_rule<T: Float, AXES: Copy, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    set: AXES,
    [weight, bias]: [Tensor<T, RANK, D>; 2],
    epsilon: T,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: HasAxes<AXES>,
{
    let op = "layer_norm_affine";
    x.ensure_allocated(op)?;
    let size = joint_size(op, x.size(), weight.size()).and_then(|size| joint_size(op, size, bias.size()))?;
    let mut marked = [false; RANK];
    let missing = <Dim<RANK> as HasAxes<AXES>>::mark(set, &mut marked);
    let axes = MarkedAxes { marked, missing };
    if size != x.size() {
        // A weight or a bias makes the result larger.
        return (x.layer_norm(set, epsilon)?.lazy() * &weight + &bias).eval();
    }
    let rule = AffineRule::<T, RANK> { axes, epsilon, element: PhantomData };
    Allocate.put(op, x.layout().preserved(), x.device(), |out| {
        let (weight, bias) = (weight.view(), bias.view());
        let operands = [x.rule_operand(), weight.rule_operand(), bias.rule_operand()];
        x.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of layer norm with a weight and a bias.
struct AffineRule<T, const RANK: usize> {
    axes: MarkedAxes<RANK>,
    epsilon: T,
    element: PhantomData<fn() -> T>,
}

impl<T: Copy, const RANK: usize> Clone for AffineRule<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Copy, const RANK: usize> Copy for AffineRule<T, RANK> {}

/// Writes the sum of an expression over the axes along which `out` has size 1.
fn sum_into<'a, T: Float, const RANK: usize, D: Device, E>(
    x: Lazy<'a, T, RANK, D, E>,
    size: Dim<RANK>,
    mut out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: crate::expr::Expr<RANK, D, Body: crate::kernel::Body<Out = T>>,
{
    let marked = std::array::from_fn(|axis| out.size().0[axis] == 1 && size.0[axis] != 1);
    if marked == [false; RANK] {
        return x.eval_into(out);
    }
    out.assign(&x.reduce_keepdims(Sum, MarkedAxes { marked, missing: None })?)
}

impl<T: Float, const RANK: usize> Rule for AffineRule<T, RANK> {
    const NAME: &'static str = "layer_norm_affine";
    const READS_RESULT: bool = false;
    type Saved<D: Device> = ();

    fn reads(of: usize) -> u64 {
        [0b11, 0b01, 0b00][of]
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let [x, weight, bias] = [inputs[0].view::<T, RANK>()?, inputs[1].view()?, inputs[2].view()?];
        let y = x.lazy().layer_norm_affine(self.axes, weight, bias, self.epsilon);
        y.eval_into(output.view_mut()?)
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        mut targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let gradient = recorded.gradient.view::<T, RANK>()?;
        let size = gradient.size();
        let [of_bias, of_weight, of_x] = [targets.pop(), targets.pop(), targets.pop()].map(Option::flatten);
        if let Some(out) = of_bias {
            sum_into(gradient.lazy(), size, out.view_mut()?)?;
        }
        if of_weight.is_none() && of_x.is_none() {
            return Ok(());
        }
        let (x, weight) = (recorded.inputs[0].view::<T, RANK>()?, recorded.inputs[1].view::<T, RANK>()?);
        let mean = x.reduce_keepdims(MeanF64, self.axes)?;
        let var = (x.lazy() - &mean).square().reduce_keepdims(crate::ops::Mean, self.axes)?;
        let rate = (var.lazy() + self.epsilon).rsqrt().eval()?;
        let normal = (x.lazy() - &mean) * &rate;
        if let Some(out) = of_weight {
            sum_into(gradient.lazy().zip(Flow, normal), size, out.view_mut()?)?;
        }
        if let Some(out) = of_x {
            let gradient = gradient.lazy().zip(Flow, weight);
            let along = gradient.zip(Flow, normal).mean_along(self.axes);
            let rest = gradient - gradient.mean_along(self.axes) - along.zip(Flow, normal);
            rest.zip(Flow, &rate).eval_into(out.view_mut()?)?;
        }
        Ok(())
    }
}
