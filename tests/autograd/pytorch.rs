//! Four small programs against PyTorch in f64: losses, gradients, and parameters after several steps of two
//! optimizers. `pytorch.py` computes the expected numbers, by the same functions of the same inputs.

use crate::check::{between, random};
use rankform::autograd::{Differentiable, Name, ParameterTree, ParameterVisitor, Tape, Var, value_and_grad};
use rankform::ops::BinaryCrossEntropyWithLogits;
use rankform::optim::{AdamW, Optimizer, Sgd, UpdateRule};
use rankform::prelude::*;
use std::collections::HashMap;

/// The largest error, relative to the largest number of a tensor.
const TOLERANCE: f64 = 1e-14;
const STEPS: usize = 5;

/// Numbers by name.
struct Numbers(HashMap<String, Vec<f64>>);

impl Numbers {
    /// The numbers of a program.
    fn of(program: &str) -> Self {
        let lines = include_str!("pytorch.txt").lines().filter_map(|line| {
            let mut words = line.strip_prefix(program)?.strip_prefix(' ')?.split(' ');
            let name = format!("{} {}", words.next()?, words.next()?);
            Some((name, words.map(|word| word.parse().unwrap()).collect()))
        });
        Numbers(lines.collect())
    }

    #[track_caller]
    fn check(&self, name: &str, found: &[f64]) {
        let expected = &self.0[name];
        assert_eq!(found.len(), expected.len(), "{name}");
        let largest = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        for (k, (x, y)) in found.iter().zip(expected).enumerate() {
            let error = (x - y).abs() / largest;
            assert!(error <= TOLERANCE, "{name}, number {k}: {x}, not {y}: {error:e} of {largest}");
        }
    }
}

/// Compares each tensor of a tree with the numbers of its name after a prefix.
struct Check<'a>(&'a Numbers, &'a str);
impl ParameterVisitor<Cpu, 0, 1> for Check<'_> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: [&mut Tensor<T, RANK>; 0],
        [x]: [&Tensor<T, RANK>; 1],
    ) -> Result<()> {
        self.0.check(&format!("{} {name}", self.1), &x.cast::<f64>()?.to_vec()?);
        Ok(())
    }
}

/// Compares a program with PyTorch: `new` makes its parameters.
fn compare<P: ParameterTree<Cpu>>(
    program: &str,
    new: fn() -> Result<P>,
    loss: fn(&P::On<Tape>, &Tape) -> Result<Var<f64, 0>>,
) -> Result<()>
where
    P::On<Tape>: ParameterTree<Tape, On<Cpu> = P>,
{
    let numbers = Numbers::of(program);
    value_and_grad(&new()?, loss)?.1.visit(&mut Check(&numbers, "gradient"))?;
    train(&numbers, "sgd", Sgd::new(0.1).momentum(0.9).weight_decay(0.01), new()?, loss)?;
    train(&numbers, "adamw", AdamW::new(0.01).weight_decay(0.01), new()?, loss)
}

fn train<P: ParameterTree<Cpu>, R: UpdateRule>(
    numbers: &Numbers,
    name: &str,
    mut optimizer: Optimizer<R>,
    mut parameters: P,
    loss: fn(&P::On<Tape>, &Tape) -> Result<Var<f64, 0>>,
) -> Result<()>
where
    P::On<Tape>: ParameterTree<Tape, On<Cpu> = P>,
{
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let (loss, gradients) = value_and_grad(&parameters, loss)?;
        losses.push(loss.item()?);
        optimizer.step(&mut parameters, &gradients)?;
    }
    numbers.check(&format!("{name} losses"), &losses);
    parameters.visit(&mut Check(numbers, name))
}

parameters! {
    struct Mlp<D> {
        first: Tensor<f64, 2, D>,
        first_bias: Tensor<f64, 1, D>,
        second: Tensor<f64, 2, D>,
        second_bias: Tensor<f64, 1, D>,
    }
    struct Logistic<D> {
        weight: Tensor<f64, 1, D>,
        bias: Tensor<f64, 1, D>,
    }
    struct Convolutions<D> {
        first: Tensor<f64, 4, D>,
        first_bias: Tensor<f64, 1, D>,
        second: Tensor<f64, 4, D>,
        second_bias: Tensor<f64, 1, D>,
        weight: Tensor<f64, 2, D>,
        bias: Tensor<f64, 1, D>,
    }
    struct Block<D> {
        attention_scale: Tensor<f64, 1, D>,
        attention_shift: Tensor<f64, 1, D>,
        query: Tensor<f64, 2, D>,
        key: Tensor<f64, 2, D>,
        value: Tensor<f64, 2, D>,
        projection: Tensor<f64, 2, D>,
        hidden_scale: Tensor<f64, 1, D>,
        hidden_shift: Tensor<f64, 1, D>,
        hidden: Tensor<f64, 2, D>,
        hidden_bias: Tensor<f64, 1, D>,
        output: Tensor<f64, 2, D>,
        output_bias: Tensor<f64, 1, D>,
    }
}

#[test]
fn a_perceptron_learns_as_in_pytorch() -> Result<()> {
    let new = || {
        Ok(Mlp {
            first: random([16, 12], 10),
            first_bias: random([12], 11),
            second: random([12, 5], 12),
            second_bias: random([5], 13),
        })
    };
    compare::<Mlp>("mlp", new, |p, tape| {
        let x = tape.constant(&random([8, 16], 1))?;
        let labels = Tensor::from_fn([8], |[i]| (i * 7 % 5) as i64, tape)?;
        let hidden = (x.matmul(&p.first)?.lazy() + p.first_bias.lift()).relu().eval()?;
        let scores = hidden.matmul(&p.second)? + p.second_bias.lift();
        scores.cross_entropy_mean(Axis::<1>, &labels, ClassLoss::new())
    })
}

#[test]
fn logistic_regression_learns_as_in_pytorch() -> Result<()> {
    let new = || Ok(Logistic { weight: random([9], 10), bias: random([1], 11) });
    compare::<Logistic>("logistic", new, |p, tape| {
        let target = tape.constant(&between([12], 3, 0.0, 1.0))?;
        let scores = tape.constant(&random([12, 9], 2))?.matmul(&p.weight)? + &p.bias;
        scores.lazy().zip(BinaryCrossEntropyWithLogits, &target).mean(All)
    })
}

#[test]
fn a_convolutional_net_learns_as_in_pytorch() -> Result<()> {
    let new = || {
        Ok(Convolutions {
            first: random([4, 2, 3, 3], 10),
            first_bias: random([4], 11),
            second: random([6, 4, 3, 3], 12),
            second_bias: random([6], 13),
            weight: random([6, 5], 14),
            bias: random([5], 15),
        })
    };
    compare::<Convolutions>("convolutions", new, |p, tape| {
        let x = tape.constant(&random([3, 2, 10, 8], 4))?;
        let labels = Tensor::from_slice(&[1_i64, 4, 2], [3], tape)?;
        let y = x.conv2d(&p.first, Conv::new().padding([1, 1]))?;
        let y = (y.lazy() + p.first_bias.reshape([1, 4, 1, 1])?).relu().eval()?;
        let y = y.max_pool2d(Pool::new([2, 2]))?;
        let y = y.conv2d(&p.second, Conv::new().padding([1, 0]).stride([2, 1]))?;
        let y = (y.lazy() + p.second_bias.reshape([1, 6, 1, 1])?).relu().eval()?;
        let scores = y.mean((Axis::<2>, Axis::<3>))?.matmul(&p.weight)? + p.bias.lift();
        scores.cross_entropy_mean(Axis::<1>, &labels, ClassLoss::new())
    })
}

impl<D: Device> Block<D> {
    fn apply(&self, x: &Tensor<f64, 3, D>) -> Result<Tensor<f64, 3, D>> {
        const HEADS: usize = 2;
        let [b, n, d] = x.size().0;
        let norm = |x: &Tensor<f64, 3, D>, scale: &Tensor<f64, 1, D>, shift: &Tensor<f64, 1, D>| {
            (x.layer_norm(Axis::<2>, 1e-5)?.lazy() * scale.lift() + shift.lift()).eval()
        };
        let normed = norm(x, &self.attention_scale, &self.attention_shift)?;
        let heads = |w: &Tensor<f64, 2, D>| {
            let all = einsum!("bnd,de->bne", &normed, w)?.to_shape([b, n, HEADS, d / HEADS])?;
            all.permuted([0, 2, 1, 3])?.to_contiguous()
        };
        let (keys, values) = (heads(&self.key)?, heads(&self.value)?);
        let y = heads(&self.query)?.attention(&keys, &values, None, Attention::new().causal(true))?;
        let x = x + einsum!("bhne,hed->bnd", &y, &self.projection.reshape([HEADS, d / HEADS, d])?)?;
        let normed = norm(&x, &self.hidden_scale, &self.hidden_shift)?;
        let hidden = (normed.matmul(&self.hidden)?.lazy() + self.hidden_bias.lift()).gelu().eval()?;
        (hidden.matmul(&self.output)?.lazy() + &x + self.output_bias.lift()).eval()
    }
}

#[test]
fn an_attention_block_learns_as_in_pytorch() -> Result<()> {
    let new = || {
        Ok(Block {
            attention_scale: random([8], 10),
            attention_shift: random([8], 11),
            query: random([8, 8], 12),
            key: random([8, 8], 13),
            value: random([8, 8], 14),
            projection: random([8, 8], 15),
            hidden_scale: random([8], 16),
            hidden_shift: random([8], 17),
            hidden: random([8, 16], 18),
            hidden_bias: random([16], 19),
            output: random([16, 8], 20),
            output_bias: random([8], 21),
        })
    };
    compare::<Block>("attention", new, |p, tape| {
        let y = p.apply(&tape.constant(&random([2, 6, 8], 5))?)?;
        (y.lazy() - &tape.constant(&random([2, 6, 8], 6))?).square().mean(All)
    })
}
