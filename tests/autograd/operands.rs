//! Custom operators and checkpoints take tensors and trees of parameters.

use rankform::autograd::{Buffer, Tape, value_and_grad};
use rankform::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

parameters! {
    struct Layer<D> { weight: Tensor<f64, 2, D>, bias: Option<Tensor<f64, 1, D>>, order: Buffer<i64, 1, D> }
    struct Net<D> { layers: Vec<Layer<D>> }
}

impl<D: Device> Layer<D> {
    fn apply(&self, x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
        let y = x.index_select(Axis::<1>, &*self.order)?.matmul(&self.weight)?;
        match &self.bias {
            Some(bias) => (y.lazy() + bias.lift()).tanh().eval(),
            None => y.tanh(),
        }
    }
}

fn net() -> Result<Net> {
    let layer = |seed, bias: bool| -> Result<Layer> {
        let weight = Tensor::random_normal([4, 4], 0.0, 0.5, seed, &Cpu)?;
        let bias = bias.then(|| Tensor::random_normal([4], 0.0, 0.5, seed + 1, &Cpu)).transpose()?;
        Ok(Layer { weight, bias, order: Tensor::random_permutation(4, seed + 2, &Cpu)?.into() })
    };
    Ok(Net { layers: vec![layer(1, true)?, layer(5, false)?, layer(9, true)?] })
}

#[test]
fn checkpoints_of_trees_give_the_same_gradients_from_fewer_steps() -> Result<()> {
    let (net, x) = (net()?, Tensor::<f64, 2>::random_normal([3, 4], 0.0, 1.0, 20, &Cpu)?);
    let run = |checkpoint: bool| {
        let mut steps = 0;
        let (loss, gradients) = value_and_grad(&net, |net, tape| {
            let mut y = tape.constant(&x)?;
            for layer in &net.layers {
                y = match checkpoint {
                    true => tape.checkpoint((&y, layer), |(y, layer)| layer.apply(y))?,
                    false => layer.apply(&y)?,
                };
            }
            let loss = y.square()?.sum(All)?;
            steps = tape.len();
            Ok(loss)
        })?;
        Ok::<_, Error>((loss.item()?, gradients, steps))
    };
    let ((loss, gradients, steps), (other_loss, other, other_steps)) = (run(false)?, run(true)?);
    assert_eq!(loss, other_loss);
    assert!(other_steps < steps, "{other_steps} of {steps}");
    for (layer, other) in gradients.layers.iter().zip(&other.layers) {
        assert_eq!(layer.weight.to_vec()?, other.weight.to_vec()?);
        assert_eq!(layer.bias.is_some(), other.bias.is_some());
        if let (Some(bias), Some(other)) = (&layer.bias, &other.bias) {
            assert_eq!(bias.to_vec()?, other.to_vec()?);
        }
        assert!(layer.weight.norm(All)?.item()? > 0.0);
    }
    Ok(())
}

#[test]
fn a_custom_operator_returns_gradients_in_the_form_of_its_operands() -> Result<()> {
    let pair = [Tensor::from([1.0, 2.0]), Tensor::from([3.0, 5.0])];
    let (value, gradients) = value_and_grad(&pair, |pair, tape| {
        let scale = tape.constant(&Tensor::from(2.0))?;
        let product = tape.custom(
            (pair, &scale),
            |([a, b], scale)| (a.lazy() * b * scale.lift()).eval(),
            |([a, b], scale), _, g| {
                let by_a = (g.lazy() * b * scale.lift()).eval()?;
                let by_b = (g.lazy() * a * scale.lift()).eval()?;
                Ok(([by_a, by_b], scale.zeros_like()?))
            },
        )?;
        product.sum(All)
    })?;
    assert_eq!(value.item()?, 26.0);
    assert_eq!(gradients[0].to_vec()?, [6.0, 10.0]);
    assert_eq!(gradients[1].to_vec()?, [2.0, 4.0]);
    Ok(())
}

#[test]
fn constant_operands_of_a_checkpoint_are_constants_when_it_runs_again() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let (x, w) = (tape.watch(&Tensor::from([1.0, 2.0]))?, tape.constant(&Tensor::from([3.0, 4.0]))?);
    let variables = Arc::new(AtomicUsize::new(0));
    let seen = variables.clone();
    let y = tape.checkpoint((&x, &w), move |(x, w)| {
        let inner = x.device();
        let count =
            usize::from(inner.depends_on_variable(x)) + 10 * usize::from(inner.depends_on_variable(w));
        seen.fetch_add(count, Ordering::Relaxed);
        x.mul(w)
    })?;
    assert_eq!(variables.load(Ordering::Relaxed), 0); // the first run records nothing
    let gradients = tape.backward(&y.sum(All)?)?;
    assert_eq!(variables.load(Ordering::Relaxed), 1);
    assert_eq!(gradients.of(&x)?.to_vec()?, [3.0, 4.0]);
    Ok(())
}

#[test]
fn a_checkpoint_without_a_use_of_its_variable_gives_zeros() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let (x, w) = (tape.watch(&Tensor::from([1.0, 2.0]))?, tape.constant(&Tensor::from([3.0, 4.0]))?);
    let y = tape.checkpoint((&x, &w), |(_, w)| w.square())?;
    let gradients = tape.backward(&y.sum(All)?)?;
    assert_eq!(gradients.of(&x)?.to_vec()?, [0.0, 0.0]);
    Ok(())
}
