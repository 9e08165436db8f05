//! Training steps of rankform: models of `parameters!`, a tape for each step, an optimizer.

use peers::{Case, Forms, places, uniform};
use rankform::autograd::{Parameters, Tape, Var, value_and_grad};
use rankform::optim::{AdamW, Optimizer, Sgd, UpdateRule};
use rankform::prelude::*;
use std::rc::Rc;

const STEPS: usize = 64;
const WIDTH: usize = 32;
const CHANNELS: usize = 384;
const HEADS: usize = 6;

pub fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "train/mlp_small" => mlp(n, vec![64, 256, 10], forms),
        "train/mlp" => mlp(n, vec![784, 1024, 1024, 10], forms),
        "train/conv" => conv(n, forms),
        "train/transformer" => transformer(n, forms),
        "train/lstm" => lstm(n, forms),
        _ => {}
    }
}

/// The forms of one model: a training step, and what its forward pass keeps.
fn step<P, R>(
    forms: &mut Forms,
    form: &str,
    new: impl Fn() -> P + 'static,
    optimizer: fn() -> Optimizer<R>,
    loss: impl Fn(&P::On<Tape>, &Tape) -> Result<Var<f32, 0>> + 'static,
) where
    P: ParameterTree<Cpu> + 'static,
    P::On<Tape>: ParameterTree<Tape, On<Cpu> = P>,
    R: UpdateRule + 'static,
{
    let (new, loss) = (Rc::new(new), Rc::new(loss));
    let (new_too, loss_too) = (new.clone(), loss.clone());
    forms.add(form, move || {
        let (mut parameters, mut optimizer) = (new(), optimizer());
        move || {
            let (loss, gradients) = value_and_grad(&parameters, |p, tape| loss(p, tape)).unwrap();
            optimizer.step(&mut parameters, &gradients).unwrap();
            loss.item().unwrap()
        }
    });
    forms.add_kept(form, move || {
        let (parameters, unpooled) = (new_too(), Unpooled::new());
        move || {
            let _ = &unpooled;
            let tape = Tape::new(&Cpu);
            let on_tape = (&parameters).watch(&tape).unwrap();
            let loss = loss_too(&on_tape, &tape).unwrap();
            (tape, on_tape, loss)
        }
    });
}

/// Returns free blocks to the system, until it is dropped.
struct Unpooled(usize);
impl Unpooled {
    fn new() -> Self {
        let limit = Cpu.memory().limit;
        Cpu.set_memory_limit(0);
        Unpooled(limit)
    }
}
impl Drop for Unpooled {
    fn drop(&mut self) {
        Cpu.set_memory_limit(self.0);
    }
}

/// Numbers in ±√(3 / inputs): their variance is 1 / inputs.
fn weight<const RANK: usize>(size: [usize; RANK], inputs: usize, seed: u32) -> Tensor<f32, RANK> {
    let bound = (3.0 / inputs as f32).sqrt();
    let values = uniform(size.iter().product(), seed).into_iter().map(|x| x * bound).collect();
    Tensor::from_vec(values, size).unwrap()
}
fn input<const RANK: usize>(size: [usize; RANK], seed: u32) -> Tensor<f32, RANK> {
    Tensor::from_vec(uniform(size.iter().product(), seed), size).unwrap()
}
fn labels(n: usize) -> Tensor<i64, 1> {
    Tensor::from_vec(places(n, 10, 9).into_iter().map(i64::from).collect(), [n]).unwrap()
}
fn zeros<const RANK: usize>(size: [usize; RANK]) -> Tensor<f32, RANK> {
    Tensor::zeros(size, &Cpu).unwrap()
}

parameters! {
    struct Linear<D> { weight: Tensor<f32, 2, D>, bias: Tensor<f32, 1, D> }
    struct Mlp<D> { layers: Vec<Linear<D>> }
    struct Convolution<D> { filters: Tensor<f32, 4, D>, bias: Tensor<f32, 1, D> }
    struct Net<D> { convolutions: [Convolution<D>; 3], last: Linear<D> }
    struct Norm<D> { scale: Tensor<f32, 1, D>, shift: Tensor<f32, 1, D> }
    struct Block<D> {
        attention_norm: Norm<D>,
        attention: Linear<D>,
        projection: Linear<D>,
        hidden_norm: Norm<D>,
        hidden: Linear<D>,
        output: Linear<D>,
    }
    struct Lstm<D> { input: Tensor<f32, 2, D>, state: Tensor<f32, 2, D>, bias: Tensor<f32, 1, D> }
}

fn linear(input: usize, output: usize, seed: u32) -> Linear {
    Linear { weight: weight([input, output], input, seed), bias: zeros([output]) }
}

impl<D: Device> Mlp<D> {
    fn scores(&self, x: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 2, D>> {
        let mut x = x.share_data();
        for (k, layer) in self.layers.iter().enumerate() {
            let y = x.matmul(&layer.weight)?;
            x = match k + 1 < self.layers.len() {
                true => (y.lazy() + layer.bias.lift()).relu().eval()?,
                false => y + layer.bias.lift(),
            };
        }
        Ok(x)
    }
}

fn mlp(n: usize, widths: Vec<usize>, forms: &mut Forms) {
    let (x, y) = (input([n, widths[0]], 1), labels(n));
    let new = move || {
        let layer = |(k, w): (usize, &[usize])| linear(w[0], w[1], 20 + k as u32);
        Mlp { layers: widths.windows(2).enumerate().map(layer).collect() }
    };
    step(
        forms,
        "value_and_grad",
        new,
        || AdamW::new(1e-3),
        move |net: &Mlp<Tape>, tape| {
            let scores = net.scores(&tape.constant(&x)?)?;
            scores.cross_entropy_mean(Axis::<1>, &tape.constant(&y)?, ClassLoss::new())
        },
    );
}

impl<D: Device> Convolution<D> {
    fn apply(&self, images: &Tensor<f32, 4, D>) -> Result<Tensor<f32, 4, D>> {
        let y = images.conv2d(&self.filters, Conv::new().padding([1, 1]))?;
        (y.lazy() + self.bias.reshape([1, self.bias.numel(), 1, 1])?).relu().eval()
    }
}

impl<D: Device> Net<D> {
    fn scores(&self, images: &Tensor<f32, 4, D>) -> Result<Tensor<f32, 2, D>> {
        let [first, second, third] = &self.convolutions;
        let y = second.apply(&first.apply(images)?)?.max_pool2d(Pool::new([2, 2]))?;
        let y = third.apply(&y)?.max_pool2d(Pool::new([2, 2]))?;
        let features = y.reshape([images.size()[0], self.last.weight.size()[0]])?;
        Ok(features.matmul(&self.last.weight)? + self.last.bias.lift())
    }
}

fn conv(n: usize, forms: &mut Forms) {
    let (x, y) = (input([n, 1, 8, 8], 1), labels(n));
    let new = || {
        let convolution = |input: usize, output: usize, seed| Convolution {
            filters: weight([output, input, 3, 3], 9 * input, seed),
            bias: zeros([output]),
        };
        let convolutions = [convolution(1, 16, 20), convolution(16, 32, 21), convolution(32, 64, 22)];
        Net { convolutions, last: linear(256, 10, 23) }
    };
    step(
        forms,
        "value_and_grad",
        new,
        || AdamW::new(1e-3),
        move |net: &Net<Tape>, tape| {
            let scores = net.scores(&tape.constant(&x)?)?;
            scores.cross_entropy_mean(Axis::<1>, &tape.constant(&y)?, ClassLoss::new())
        },
    );
}

impl<D: Device> Norm<D> {
    fn apply(&self, x: &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>> {
        x.layer_norm_affine(Last, self.scale.lift(), self.shift.lift(), 1e-5)
    }
}

impl<D: Device> Block<D> {
    fn apply(&self, x: &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>> {
        let [texts, length, channels] = x.size().0;
        let y = self.attention_norm.apply(x)?.matmul(&self.attention.weight)? + self.attention.bias.lift();
        let all = y.reshape([texts, length, 3, HEADS, channels / HEADS])?.permuted([2, 0, 3, 1, 4])?;
        let [query, key, value] = [0, 1, 2].map(|part| all.slice((part, .., .., .., ..)));
        let y = query?.attention(key?, value?, None, Attention::new().causal(true))?;
        let y = y.permuted([0, 2, 1, 3])?.to_shape(x.size())?;
        let x = (y.matmul(&self.projection.weight)?.lazy() + self.projection.bias.lift() + x).eval()?;
        let y = self.hidden_norm.apply(&x)?.matmul(&self.hidden.weight)?;
        let y = (y.lazy() + self.hidden.bias.lift()).gelu().eval()?.matmul(&self.output.weight)?;
        (y.lazy() + self.output.bias.lift() + &x).eval()
    }
}

fn transformer(n: usize, forms: &mut Forms) {
    let x = input([n, 128, CHANNELS], 1);
    let new = || {
        let norm = || Norm { scale: Tensor::ones([CHANNELS], &Cpu).unwrap(), shift: zeros([CHANNELS]) };
        Block {
            attention_norm: norm(),
            attention: linear(CHANNELS, 3 * CHANNELS, 20),
            projection: linear(CHANNELS, CHANNELS, 21),
            hidden_norm: norm(),
            hidden: linear(CHANNELS, 4 * CHANNELS, 22),
            output: linear(4 * CHANNELS, CHANNELS, 23),
        }
    };
    step(
        forms,
        "value_and_grad",
        new,
        || AdamW::new(1e-3),
        move |block: &Block<Tape>, tape| block.apply(&tape.constant(&x)?)?.lazy().square().mean(All),
    );
}

impl<D: Device> Lstm<D> {
    /// The last state after all steps of (step, sample, input). The affine functions of all inputs may be
    /// computed at once.
    fn last(&self, x: &Tensor<f32, 3, D>, at_once: bool) -> Result<Tensor<f32, 2, D>> {
        let samples = x.size()[1];
        let mut h = Tensor::zeros([samples, WIDTH], x.device())?;
        let mut c = Tensor::zeros([samples, WIDTH], x.device())?;
        let all = if at_once { Some(x.matmul(&self.input)? + self.bias.lift()) } else { None };
        for step in 0..STEPS {
            let of_h = h.matmul(&self.state)?;
            let gates = match &all {
                Some(all) => (all.slice((step, .., ..))?.lazy() + &of_h).eval()?,
                None => {
                    let of_x = x.slice((step, .., ..))?.matmul(&self.input)?;
                    (of_x.lazy() + &of_h + self.bias.lift()).eval()?
                }
            };
            let gate = |k: usize| gates.slice((.., k * WIDTH..(k + 1) * WIDTH));
            let (i, f, g, o) = (gate(0)?, gate(1)?, gate(2)?, gate(3)?);
            c = (f.lazy().sigmoid() * &c + i.lazy().sigmoid() * g.lazy().tanh()).eval()?;
            h = (o.lazy().sigmoid() * c.lazy().tanh()).eval()?;
        }
        Ok(h)
    }
}

fn lstm(n: usize, forms: &mut Forms) {
    for (form, at_once) in [("value_and_grad", false), ("inputs at once", true)] {
        let x = input([STEPS, n, WIDTH], 1);
        let new = || Lstm {
            input: weight([WIDTH, 4 * WIDTH], WIDTH, 20),
            state: weight([WIDTH, 4 * WIDTH], WIDTH, 21),
            bias: zeros([4 * WIDTH]),
        };
        step(
            forms,
            form,
            new,
            || Sgd::new(1e-2),
            move |net: &Lstm<Tape>, tape| net.last(&tape.constant(&x)?, at_once)?.lazy().square().mean(All),
        );
    }
}
