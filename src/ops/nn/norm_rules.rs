//! The backward passes of layer norm and RMS norm, for devices that record.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

#[cfg(feature = "autograd")]
use super::rules::{Arguments, CompiledAlong, compiled_along};
use super::rules::{BackwardAlong, Flow};
#[cfg(feature = "autograd")]
use crate::device::{COMPILED_RANK, Cpu, ErasedRule, erase_rule, is_compiled};
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput, same_device};
use crate::dim::{Dim, MarkedAxes};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Reduce as _, Zip as _, apply_many_into};
use crate::kernel::{Body, OpMany};
use crate::layout::joint_size;
use crate::ops::{Add, Arithmetic as _, Cast as _, Math as _, MeanF64, Reductions as _, Sum};
use crate::rank::HasAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination as _, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

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

#[cfg(feature = "autograd")]
compiled_along! {
    layer_norm_of_f32: LayerNormRule;
    rms_norm_of_f32: RmsNormRule;
}

/// The backward pass of layer norm: `r · (g − mean g − n · mean(g · n))` of normalized values `n = r · c`,
/// where `c` are the centered ones and `r = 1 / √(var + epsilon)`.
#[derive(Clone, Copy)]
pub(super) struct LayerNormRule;

impl<T: Float> BackwardAlong<T> for LayerNormRule {
    const READS_RESULT: bool = false;
    #[cfg(feature = "autograd")]
    const ON_CPU: CompiledAlong = layer_norm_of_f32;
    fn backward<const RANK: usize, D: Device>(
        (epsilon,): (T,),
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let (gradient, centered) = (gradient.lazy(), x.lazy() - x.along(MeanF64, axes));
        let rate = (centered.square().mean_along(axes) + epsilon).rsqrt();
        let rest = gradient - gradient.mean_along(axes);
        normal_into(axes, (gradient, rest), (centered * rate, rate), out)
    }
}

/// The backward pass of RMS norm: `r · (g − n · mean(g · n))` of `n = r · x`, with
/// `r = 1 / √(mean of x² + epsilon)`.
#[derive(Clone, Copy)]
pub(super) struct RmsNormRule;

impl<T: Float> BackwardAlong<T> for RmsNormRule {
    const READS_RESULT: bool = false;
    #[cfg(feature = "autograd")]
    const ON_CPU: CompiledAlong = rms_norm_of_f32;
    fn backward<const RANK: usize, D: Device>(
        (epsilon,): (T,),
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let (x, gradient) = (x.lazy(), gradient.lazy());
        let rate = (x.square().mean_along(axes) + epsilon).rsqrt();
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
    let axes = MarkedAxes::of(set);
    axes.found(op, || x.size())?;
    let rule = AffineRule::<T, RANK> { axes, epsilon, element: PhantomData };
    Allocate.put(op, x.layout().preserved(), x.device(), |out| {
        let operands = [x.rule_operand(), weight.rule_operand(), bias.rule_operand()];
        x.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of layer norm with a weight and a bias.
#[derive(Clone, Copy)]
struct AffineRule<T, const RANK: usize> {
    axes: MarkedAxes<RANK>,
    epsilon: T,
    element: PhantomData<fn() -> T>,
}

/// The rule of f32 on the CPU, which is compiled with this crate.
#[cfg(feature = "autograd")]
#[inline(never)]
fn affine_of_f32(axes: MarkedAxes<COMPILED_RANK>, epsilon: f64) -> Box<dyn ErasedRule> {
    erase_rule(AffineRule::<f32, COMPILED_RANK> { axes, epsilon: epsilon as f32, element: PhantomData }, &Cpu)
}

/// `(rate · (rest − n · along), gradient · n)`, of normalized values `n`.
#[derive(Clone, Copy, Debug)]
struct OfNormal<S>(PhantomData<fn() -> S>);

impl<T: Float, S: Float> OpMany<(T, T, T, T, T)> for OfNormal<S> {
    const NAME: &'static str = "layer_norm_affine";
    type Out = (T, S);
    #[inline(always)]
    fn call<L: Lanes>(
        (gradient, rest, along, n, rate): (
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
        ),
    ) -> (Lane<L, Compute<T>>, Lane<L, Compute<S>>) {
        ((rest - along.flow(n)).flow(rate), gradient.flow(n).cast())
    }
}

/// The axes along which an operand of size 1 is stretched to `size`.
fn stretched<const RANK: usize>(from: Dim<RANK>, size: Dim<RANK>) -> [bool; RANK] {
    std::array::from_fn(|axis| from.0[axis] == 1 && size.0[axis] != 1)
}

/// The sum of an expression over the marked axes, which keep size 1.
fn sum_over<'a, T: Float, const RANK: usize, D: Device, E>(
    x: Lazy<'a, T, RANK, D, E>,
    marked: [bool; RANK],
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    if marked == [false; RANK] {
        x.eval()
    } else {
        x.reduce_keepdims(Sum, MarkedAxes { marked, missing: None })
    }
}

/// The part of an operand in these ranges.
fn part_of<'x, T, const RANK: usize, D: Device>(
    mut x: TensorView<'x, T, RANK, D>,
    ranges: &[Range<usize>; RANK],
) -> Result<TensorView<'x, T, RANK, D>> {
    for (axis, range) in ranges.iter().enumerate() {
        x = x.slice_axis(axis, range.clone(), 1)?;
    }
    Ok(x)
}

/// The sizes of blocks of whole rows of about `nbytes` bytes.
fn blocks_of_rows<T, const RANK: usize>(
    Dim(size): Dim<RANK>,
    along: [bool; RANK],
    nbytes: usize,
) -> [usize; RANK] {
    let row: usize = (0..RANK).filter(|&axis| along[axis]).map(|axis| size[axis]).product();
    let mut rows = (nbytes / (row * size_of::<T>()).max(1)).max(1);
    let mut block = size;
    for axis in (0..RANK).rev().filter(|&axis| !along[axis]) {
        block[axis] = size[axis].clamp(1, rows);
        rows /= block[axis];
        rows = rows.max(1);
    }
    block
}

/// The operands and the gradient of a layer norm with a weight.
struct Affine<'x, T, const RANK: usize, D: Device> {
    axes: MarkedAxes<RANK>,
    epsilon: T,
    x: TensorView<'x, T, RANK, D>,
    weight: TensorView<'x, T, RANK, D>,
    gradient: TensorView<'x, T, RANK, D>,
}

impl<T: Float, const RANK: usize, D: Device> Affine<'_, T, RANK, D> {
    /// Writes the gradient of `x`, and returns that of the weight, whose sums have elements `S`: blocks of
    /// rows that stay in a cache are read once. All statistics are those of the forward pass. If there is a
    /// bias of the same sizes, `sum` sums a part of the gradient over the axes of the weight's sums, and the
    /// gradient of the bias is returned too.
    fn of_both<S: Float>(
        &self,
        out: TensorViewMut<'_, T, RANK, D>,
        sum: Option<&(dyn Fn(TensorView<'_, T, RANK, D>) -> Result<Tensor<S, RANK, D>> + Sync)>,
    ) -> Result<[Option<Tensor<f64, RANK, D>>; 2]> {
        let Affine { axes, epsilon, x, weight, gradient } = *self;
        let (size, op) = (x.size(), "layer_norm_affine");
        let along = axes.found(op, || size)?;
        let summed = stretched(weight.size(), size);
        // Parts of the sums are added; each is one block's sum, or the only one.
        let is_cut = (0..RANK).all(|axis| along[axis] || summed[axis] || size.0[axis] == 1);
        let block = match x.device().task_nbytes() {
            Some(nbytes) if is_cut => blocks_of_rows::<T, RANK>(size, along, nbytes),
            _ => size.0,
        };
        let weight = weight.broadcast_to(size)?;
        let parts = Mutex::new(Vec::new());
        out.for_each_block(block, &|ranges, out| {
            let [x, weight, gradient] =
                [part_of(x, &ranges)?, part_of(weight, &ranges)?, part_of(gradient, &ranges)?];
            let mut products = Tensor::<S, RANK, D>::uninit(op, x.layout().preserved(), x.device())?;
            let centered = x.lazy() - x.along(MeanF64, axes);
            let rate = (centered.square().mean_along(axes) + epsilon).rsqrt();
            let (normal, of_normal) = (centered * rate, gradient.lazy().zip(Flow, weight));
            let rest = of_normal - of_normal.mean_along(axes);
            let mean = of_normal.zip(Flow, normal).mean_along(axes);
            let operands = (gradient, rest, mean, normal, rate);
            apply_many_into(OfNormal::<S>(PhantomData), operands, (out, products.try_view_mut(op)?))?;
            let sums = [Some(sum_over(products.lazy(), summed)?), sum.map(|sum| sum(gradient)).transpose()?];
            let starts = ranges.map(|range| range.start);
            parts.lock().unwrap_or_else(PoisonError::into_inner).push((starts, sums));
            Ok(())
        })?;
        let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        parts.sort_by_key(|(starts, _)| *starts);
        let mut totals = [const { None }; 2];
        for (total, part) in parts.into_iter().flat_map(|(_, sums)| [0, 1].into_iter().zip(sums)) {
            match (&mut totals[total], part) {
                (_, None) => {}
                (None, Some(part)) => totals[total] = Some(part.cast::<f64>()?),
                (Some(total), Some(part)) => total.zip_in_place(Add, part.lazy().cast::<f64>())?,
            }
        }
        Ok(totals)
    }

    /// Writes the gradient of `x` alone.
    fn of_x(&self, out: TensorViewMut<'_, T, RANK, D>) -> Result<()> {
        let Affine { axes, epsilon, x, weight, gradient } = *self;
        let gradient = gradient.lazy().zip(Flow, weight);
        let centered = x.lazy() - x.along(MeanF64, axes);
        let rate = (centered.square().mean_along(axes) + epsilon).rsqrt();
        let rest = gradient - gradient.mean_along(axes);
        normal_into(axes, (gradient, rest), (centered * rate, rate), out)
    }
}

impl<T: Float, const RANK: usize> OperatorRule for AffineRule<T, RANK> {
    const NAME: &'static str = "layer_norm_affine";
    const READS_RESULT: bool = false;
    type Saved<D: Device> = ();
    #[cfg(feature = "autograd")]
    const ON_CPU: Option<fn(Self) -> Box<dyn ErasedRule>> = match is_compiled::<T>(RANK) {
        true => Some(|rule| affine_of_f32(rule.axes.of_rank(), Arguments::<T>::number((rule.epsilon,)))),
        false => None,
    };

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
        let [of_bias, of_weight, of_x] = [targets.pop(), targets.pop(), targets.pop()].map(Option::flatten);
        let [x, weight] = [recorded.inputs[0].view::<T, RANK>()?, recorded.inputs[1].view()?];
        let mut of_bias = of_bias.map(RuleOutput::view_mut::<T, RANK>).transpose()?;
        // Without blocks the sum for the bias has nothing to share.
        let is_summed_too = x.device().task_nbytes().is_some()
            && of_weight.is_some()
            && of_bias.as_ref().is_some_and(|out| out.size() == weight.size());
        if let (Some(out), false) = (&mut of_bias, is_summed_too) {
            let summed = stretched(out.size(), gradient.size());
            out.assign(&sum_over(gradient.lazy(), summed)?)?;
        }
        let affine = Affine { axes: self.axes, epsilon: self.epsilon, x, weight, gradient };
        let of_x = of_x.map(RuleOutput::view_mut::<T, RANK>).transpose()?;
        let Some(of_weight) = of_weight else {
            return of_x.map_or(Ok(()), |out| affine.of_x(out));
        };
        let mut unused = None;
        let of_x = match of_x {
            Some(out) => out,
            None => unused
                .insert(Tensor::uninit(Self::NAME, x.layout().preserved(), x.device())?)
                .try_view_mut(Self::NAME)?,
        };
        let summed = stretched(weight.size(), gradient.size());
        // Sums of products of 16 bits are added in f32.
        let sums = if const { size_of::<T>() == size_of::<Compute<T>>() } {
            affine.of_both::<T>(of_x, is_summed_too.then_some(&|part| sum_over(part.lazy(), summed)))?
        } else {
            let sum = |part: TensorView<'_, T, RANK, D>| sum_over(part.lazy().cast::<f32>(), summed);
            affine.of_both::<f32>(of_x, is_summed_too.then_some(&sum))?
        };
        let outputs = [Some(of_weight.view_mut::<T, RANK>()?), of_bias.filter(|_| is_summed_too)];
        for (sum, out) in sums.into_iter().zip(outputs) {
            match (sum, out) {
                (Some(sum), Some(out)) => sum.lazy().cast::<T>().eval_into(out)?,
                (None, Some(mut out)) => out.fill(T::zero())?,
                (_, None) => {}
            }
        }
        Ok(())
    }
}
