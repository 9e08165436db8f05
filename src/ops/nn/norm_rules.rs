//! The backward passes of layer norm and RMS norm, for devices that record.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use super::rules::{AlongAxes, Flow};
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput, same_device};
use crate::dim::{Dim, MarkedAxes};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Reduce as _, Zip as _};
use crate::kernel::{Body, Op};
use crate::layout::joint_size;
use crate::ops::{Arithmetic as _, Cast as _, Math as _, MeanF64, Reductions as _, Sum};
use crate::rank::HasAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination as _, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// Writes `rate · (rest − n · mean(gradient · n))` for normalized values `n`. They are of the order of 1,
/// also where the square of the rate overflows.
fn normal_into<'a, T: Float, const RANK: usize, D: Device, G, R, N, Q>(
    axes: MarkedAxes<RANK>,
    (gradient, rest): (Lazy<'a, T, RANK, D, G>, Lazy<'a, T, RANK, D, R>),
    (n, rate): (Lazy<'a, T, RANK, D, N>, Lazy<'a, T, RANK, D, Q>),
    out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    G: Expr<RANK, D, Body: Body<Out = T>>,
    R: Expr<RANK, D, Body: Body<Out = T>>,
    N: Expr<RANK, D, Body: Body<Out = T>> + Copy,
    Q: Expr<RANK, D, Body: Body<Out = T>>,
{
    let along = gradient.zip(Flow, n).mean_along(axes);
    rest.sub(along.zip(Flow, n)).zip(Flow, rate).eval_into(out)
}

/// The backward pass of layer norm: `r · (g − mean g − n · mean(g · n))` of normalized values `n = r · c`,
/// where `c` are the centered ones and `r = 1 / √(var + epsilon)`.
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
        let (gradient, centered) = (gradient.lazy(), x.lazy() - x.along(MeanF64, axes));
        let rate = (centered.square().mean_along(axes) + self.0).rsqrt();
        let rest = gradient - gradient.mean_along(axes);
        normal_into(axes, (gradient, rest), (centered * rate, rate), out)
    }
}

/// The backward pass of RMS norm: `r · (g − n · mean(g · n))` of `n = r · x`, with
/// `r = 1 / √(mean of x² + epsilon)`.
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
        normal_into(axes, (gradient, gradient), (x * rate, rate), out)
    }
}

/// Layer norm with a weight and a bias, on a device that records.
pub(super) fn affine_by_rule<T: Float, AXES: Copy, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    set: AXES,
    [weight, bias]: [TensorView<'_, T, RANK, D>; 2],
    epsilon: T,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: HasAxes<AXES>,
{
    let op = "layer_norm_affine";
    x.ensure_allocated(op)?;
    for operand in [weight, bias] {
        same_device(op, x.device(), operand.device())?;
        operand.ensure_allocated(op)?;
    }
    let size = joint_size(op, x.size(), weight.size()).and_then(|size| joint_size(op, size, bias.size()))?;
    if size != x.size() {
        // A weight or a bias makes the result larger.
        return (x.layer_norm(set, epsilon)?.lazy() * weight + bias).eval();
    }
    let rule = AffineRule::<T, RANK> { axes: MarkedAxes::of(set), epsilon, element: PhantomData };
    Allocate.put(op, x.layout().preserved(), x.device(), |out| {
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

/// A number minus the mean of its row.
#[derive(Clone, Copy, Debug)]
struct Centered;

impl<T: Float> Op<(T, f64)> for Centered {
    const NAME: &'static str = "layer_norm_affine";
    const CHEAP: bool = true;
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, mean): (Lane<L, Compute<T>>, Lane<L, f64>)) -> Lane<L, Compute<T>> {
        x - mean.cast()
    }
}

/// Writes the sum of an expression over the axes along which `out` has size 1.
fn sum_into<'a, T: Float, const RANK: usize, D: Device, E>(
    x: Lazy<'a, T, RANK, D, E>,
    size: Dim<RANK>,
    mut out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
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
        // In f64: a mean or a rate of 16 bits would not be that of the forward pass.
        let mean = x.lazy().cast::<f64>().reduce_keepdims(MeanF64, self.axes)?;
        let squares = x.lazy().zip(Centered, &mean).cast::<f64>().square();
        let var = squares.reduce_keepdims(crate::ops::Mean, self.axes)?;
        let rate = (var.lazy() + self.epsilon.to_f64().unwrap_or(0.0)).rsqrt().eval()?;
        let rate = rate.lazy().cast::<T>();
        let normal = x.lazy().zip(Centered, &mean) * rate;
        if let Some(out) = of_weight {
            sum_into(gradient.lazy().zip(Flow, normal), size, out.view_mut()?)?;
        }
        if let Some(out) = of_x {
            let gradient = gradient.lazy().zip(Flow, weight);
            let rest = gradient - gradient.mean_along(self.axes);
            normal_into(self.axes, (gradient, rest), (normal, rate), out.view_mut()?)?;
        }
        Ok(())
    }
}
