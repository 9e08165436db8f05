//! Training on the GPU: whole steps as graphs, and the number of kernels of a step.

use crate::on_gpu;
use rankform::Cuda;
use rankform::autograd::value_and_grad;
use rankform::optim::{AdamW, Optimizer, Sgd, UpdateRule};
use rankform::prelude::*;

parameters! {
    /// A network of two layers.
    struct Mlp<D> {
        hidden: Tensor<f32, 2, D>,
        hidden_bias: Tensor<f32, 1, D>,
        output: Tensor<f32, 2, D>,
        output_bias: Tensor<f32, 1, D>,
    }
    /// A layer of a causal transformer with four heads.
    struct Layer<D> {
        attention_norm: Tensor<f32, 1, D>,
        attention: Tensor<f32, 2, D>,
        projection: Tensor<f32, 2, D>,
        hidden_norm: Tensor<f32, 1, D>,
        hidden: Tensor<f32, 2, D>,
        output: Tensor<f32, 2, D>,
    }
}

const CLASSES: usize = 3;

impl<D: Device> Mlp<D> {
    fn new(device: &D) -> Result<Self> {
        let random = |size, seed| Tensor::random_normal(size, 0.0, 0.4, seed, device);
        Ok(Mlp {
            hidden: random([6, 16], 1)?,
            hidden_bias: Tensor::zeros([16], device)?,
            output: random([16, CLASSES], 2)?,
            output_bias: Tensor::zeros([CLASSES], device)?,
        })
    }

    /// The mean cross entropy, for shares of the classes.
    fn loss(&self, x: &Tensor<f32, 2, D>, shares: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 0, D>> {
        let hidden = (x.matmul(&self.hidden)?.lazy() + self.hidden_bias.lift()).relu().eval()?;
        let scores = (hidden.matmul(&self.output)?.lazy() + self.output_bias.lift()).eval()?;
        let logarithms = scores.log_softmax(Last)?;
        (logarithms.lazy() * shares).sum(Axis::<1>)?.lazy().neg().mean(All)
    }
}

impl<D: Device> Layer<D> {
    fn new(channels: usize, device: &D) -> Result<Self> {
        let random = |size, seed| Tensor::random_normal(size, 0.0, 0.1, seed, device);
        Ok(Layer {
            attention_norm: Tensor::ones([channels], device)?,
            attention: random([channels, 3 * channels], 3)?,
            projection: random([channels, channels], 4)?,
            hidden_norm: Tensor::ones([channels], device)?,
            hidden: random([channels, 4 * channels], 5)?,
            output: random([4 * channels, channels], 6)?,
        })
    }

    /// (text, position, channel) → the same.
    fn apply(&self, x: &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>> {
        let norm = |x: &Tensor<f32, 3, D>, weight: &Tensor<f32, 1, D>| {
            (x.lazy().layer_norm(Last, 1e-5) * weight.lift()).eval()
        };
        let [texts, length, channels] = x.size().0;
        let all = norm(x, &self.attention_norm)?.matmul(&self.attention)?;
        let all = all.reshape([texts, length, 3, 4, channels / 4])?.permuted([2, 0, 3, 1, 4])?;
        let [query, key, value] = [0, 1, 2].map(|part| all.slice((part, .., .., .., ..)));
        let y = query?.attention(key?, value?, None, Attention::new().causal(true))?;
        let y = y.permuted([0, 2, 1, 3])?.to_shape(x.size())?;
        let x = x + y.matmul(&self.projection)?;
        let hidden = norm(&x, &self.hidden_norm)?.matmul(&self.hidden)?.gelu()?;
        Ok(hidden.matmul(&self.output)? + x)
    }
}

/// A model, its optimizer, and a batch.
struct Training<R> {
    model: Mlp<Cuda>,
    optimizer: Optimizer<R>,
    batch: [Tensor<f32, 2, Cuda>; 2],
}

impl<R: UpdateRule> Training<R> {
    fn new(optimizer: Optimizer<R>, gpu: &Cuda) -> Result<Self> {
        let x = Tensor::from_fn([8, 6], |[i, j]| ((7 * i + 3 * j) % 11) as f32 / 5.0 - 1.0, &Cpu)?;
        let shares = Tensor::from_fn([8, CLASSES], |[i, j]| f32::from(i % CLASSES == j), &Cpu)?;
        Ok(Training { model: Mlp::new(gpu)?, optimizer, batch: [x.to(gpu)?, shares.to(gpu)?] })
    }

    /// Forward, backward, update in place.
    fn step(&mut self) -> Result<Tensor<f32, 0, Cuda>> {
        let Training { model, optimizer, batch: [x, shares] } = self;
        let (loss, gradients) =
            value_and_grad(&*model, |model, tape| model.loss(&tape.constant(x)?, &tape.constant(shares)?))?;
        optimizer.step(model, &gradients)?;
        Ok(loss)
    }

    fn bits(&self) -> Result<Vec<f32>> {
        let Mlp { hidden, hidden_bias, output, output_bias } = &self.model;
        Ok([hidden.to_vec()?, hidden_bias.to_vec()?, output.to_vec()?, output_bias.to_vec()?].concat())
    }
}

/// The losses of eager steps, and of replays of one captured step, which follow `before` eager steps.
fn compare<R: UpdateRule>(optimizer: impl Fn() -> Optimizer<R>, before: usize, gpu: &Cuda) -> Result<()> {
    let (mut eager, mut captured) = (Training::new(optimizer(), gpu)?, Training::new(optimizer(), gpu)?);
    for _ in 0..before {
        assert_eq!(eager.step()?.item()?, captured.step()?.item()?);
    }
    let graph = gpu.capture(|| captured.step())?;
    let mut losses = Vec::new();
    for step in 0..5 {
        let expected = eager.step()?.item()?;
        graph.replay()?;
        assert_eq!(graph.value().item()?, expected, "step {step}");
        losses.push(expected);
    }
    assert!(losses[4] < losses[0], "{losses:?}");
    assert_eq!(captured.bits()?, eager.bits()?);
    Ok(())
}

on_gpu!(a_whole_step_of_training_is_a_graph, |gpu| {
    compare(|| Sgd::new(0.1).momentum(0.9), 1, gpu)?;
    // A graph keeps the numbers of its step. From step 27 on the corrections of these means are 1.
    compare(|| AdamW::new(0.01).betas(0.25, 0.25), 27, gpu)?;
});

/// The number of kernels that `work` queues.
pub fn launches<T>(gpu: &Cuda, work: impl FnOnce() -> Result<T>) -> Result<usize> {
    let before = gpu.statistics().launches;
    work()?;
    Ok(gpu.statistics().launches - before)
}

/// The numbers of kernels of a training step: those of the values alone, those that gradients add, and those
/// of the update.
macro_rules! counts {
    ($gpu:expr, $model:expr, $values:expr, |$on:ident, $tape:ident| $loss:expr) => {{
        let mut optimizer = AdamW::new(0.01);
        let mut gradients = || value_and_grad(&$model, |$on, $tape| $loss);
        let forward = launches($gpu, || $values)?;
        let both = launches($gpu, &mut gradients)?;
        let (_, gradients) = gradients()?;
        optimizer.step(&mut $model, &gradients)?;
        [forward, both - forward, launches($gpu, || optimizer.step(&mut $model, &gradients))?]
    }};
}

on_gpu!(the_number_of_kernels_of_a_step, |gpu| {
    let Training { mut model, batch: [x, shares], .. } = Training::new(AdamW::new(0.01), gpu)?;
    let mlp = counts!(gpu, model, model.loss(&x, &shares), |on, tape| {
        on.loss(&tape.constant(&x)?, &tape.constant(&shares)?)
    });
    let mut layer = Layer::new(32, gpu)?;
    let x = Tensor::random_normal([2, 16, 32], 0.0, 1.0, 7, gpu)?;
    let transformer = counts!(gpu, layer, layer.apply(&x)?.square()?.mean(All), |on, tape| {
        on.apply(&tape.constant(&x)?)?.square()?.mean(All)
    });
    println!("kernels of a step [values, gradients, update]: MLP {mlp:?}, transformer layer {transformer:?}");
    // One kernel for each parameter. The table of the measurements has the present numbers.
    assert_eq!((mlp[2], transformer[2]), (4, 6));
    assert!(mlp[0] + mlp[1] <= 40 && transformer[0] + transformer[1] <= 150, "{mlp:?}, {transformer:?}");
});
