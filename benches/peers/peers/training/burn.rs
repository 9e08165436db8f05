//! Training steps of burn: modules on a device with autodiff, its losses, its optimizers.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Int, Tensor, TensorData, activation, module};
use peers::{Case, Forms, places, uniform};
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

fn device() -> Device {
    Device::flex().autodiff()
}
fn tensor<const RANK: usize>(size: [usize; RANK], seed: u32) -> Tensor<RANK> {
    Tensor::from_data(TensorData::new(uniform(size.iter().product(), seed), size), &device())
}
fn labels(n: usize) -> Tensor<1, Int> {
    let labels: Vec<i64> = places(n, 10, 9).into_iter().map(i64::from).collect();
    Tensor::from_data(TensorData::new(labels, [n]), &device())
}
fn adamw() -> ModuleOptimizer {
    AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.01).init()
}

/// The forms of one model: a training step, and what its forward pass keeps.
fn step<M: Module + 'static>(
    forms: &mut Forms,
    new: impl Fn() -> M + 'static,
    optimizer: impl FnOnce() -> ModuleOptimizer + 'static,
    rate: f64,
    loss: impl Fn(&M) -> Tensor<1> + 'static,
) {
    let (new, loss) = (Rc::new(new), Rc::new(loss));
    let (new_too, loss_too) = (new.clone(), loss.clone());
    forms.add("step", move || {
        let (mut model, mut optimizer) = (Some(new()), optimizer());
        move || {
            let of = model.take().expect("it is put back");
            let loss = loss(&of);
            let gradients = GradientsParams::from_grads(loss.backward(), &of);
            model = Some(optimizer.step(rate, of, gradients));
            loss.into_scalar::<f32>()
        }
    });
    forms.add_kept("step", move || {
        let model = new_too();
        move || loss_too(&model)
    });
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
    loss: CrossEntropyLoss,
}

fn mlp(n: usize, widths: Vec<usize>, forms: &mut Forms) {
    let (x, y) = (tensor([n, widths[0]], 1), labels(n));
    let new = move || Mlp {
        layers: widths.windows(2).map(|w| LinearConfig::new(w[0], w[1]).init(&device())).collect(),
        loss: CrossEntropyLossConfig::new().init(&device()),
    };
    step(forms, new, adamw, 1e-3, move |net: &Mlp| {
        let mut h = x.clone();
        for (k, layer) in net.layers.iter().enumerate() {
            h = layer.forward(h);
            if k + 1 < net.layers.len() {
                h = activation::relu(h);
            }
        }
        net.loss.forward(h, y.clone())
    });
}

#[derive(Module, Debug)]
struct Net {
    convolutions: Vec<Conv2d>,
    pool: MaxPool2d,
    last: Linear,
    loss: CrossEntropyLoss,
}

fn conv(n: usize, forms: &mut Forms) {
    let (x, y) = (tensor([n, 1, 8, 8], 1), labels(n));
    let new = || {
        let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
        let convolution =
            |(i, o)| Conv2dConfig::new([i, o], [3, 3]).with_padding(padding.clone()).init(&device());
        Net {
            convolutions: [(1, 16), (16, 32), (32, 64)].map(convolution).into(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            last: LinearConfig::new(256, 10).init(&device()),
            loss: CrossEntropyLossConfig::new().init(&device()),
        }
    };
    step(forms, new, adamw, 1e-3, move |net: &Net| {
        let convolved = |x, k: usize| activation::relu(net.convolutions[k].forward(x));
        let h = net.pool.forward(convolved(convolved(x.clone(), 0), 1));
        let h = net.pool.forward(convolved(h, 2)).flatten::<2>(1, 3);
        net.loss.forward(net.last.forward(h), y.clone())
    });
}

#[derive(Module, Debug)]
struct Block {
    attention_norm: LayerNorm,
    attention: Linear,
    projection: Linear,
    hidden_norm: LayerNorm,
    hidden: Linear,
    output: Linear,
}

fn transformer(n: usize, forms: &mut Forms) {
    let d = CHANNELS;
    let x = tensor([n, 128, d], 1);
    let new = move || {
        let linear = |i, o| LinearConfig::new(i, o).init(&device());
        let norm = || LayerNormConfig::new(d).init(&device());
        Block {
            attention_norm: norm(),
            attention: linear(d, 3 * d),
            projection: linear(d, d),
            hidden_norm: norm(),
            hidden: linear(d, 4 * d),
            output: linear(4 * d, d),
        }
    };
    step(forms, new, adamw, 1e-3, move |block: &Block| {
        let all = block.attention.forward(block.attention_norm.forward(x.clone()));
        let parts = all.chunk(3, 2);
        let head = |k: usize| parts[k].clone().reshape([n, 128, HEADS, d / HEADS]).swap_dims(1, 2);
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        let y = module::attention(head(0), head(1), head(2), None, None, options);
        let x = x.clone() + block.projection.forward(y.swap_dims(1, 2).reshape([n, 128, d]));
        let y = activation::gelu(block.hidden.forward(block.hidden_norm.forward(x.clone())));
        (x + block.output.forward(y)).square().mean()
    });
}

#[derive(Module, Debug)]
struct Lstm {
    input: Linear,
    state: Linear,
}

fn lstm(n: usize, forms: &mut Forms) {
    let x = tensor([STEPS, n, WIDTH], 1);
    let new = || {
        let linear = LinearConfig::new(WIDTH, 4 * WIDTH);
        Lstm { input: linear.init(&device()), state: linear.clone().with_bias(false).init(&device()) }
    };
    step(
        forms,
        new,
        || SgdConfig::new().init(),
        1e-2,
        move |net: &Lstm| {
            let mut h = Tensor::<2>::zeros([n, WIDTH], &device());
            let mut c = h.clone();
            for step in 0..STEPS {
                let of_x = net.input.forward(x.clone().narrow(0, step, 1).squeeze_dim::<2>(0));
                let gates = (of_x + net.state.forward(h)).chunk(4, 1);
                let [i, f, g, o] = [0, 1, 2, 3].map(|k| gates[k].clone());
                c = activation::sigmoid(f) * c + activation::sigmoid(i) * g.tanh();
                h = activation::sigmoid(o) * c.clone().tanh();
            }
            h.square().mean()
        },
    );
}
