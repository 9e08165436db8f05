//! Training steps of candle: variables, its operators, the optimizers of candle-nn. Its fused softmax and
//! layer normalization have no derivative; those by operators are used.

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, SGD, loss, ops};
use peers::{Case, Forms, places, uniform};
use std::rc::Rc;

type Result<T> = candle_core::Result<T>;
const CPU: &Device = &Device::Cpu;
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
        "train/lstm" => {
            let x = tensor(&[STEPS, n, WIDTH], 1);
            step::<SGD>(forms, lstm_variables, 1e-2, move |v| lstm(&x, n, v));
        }
        _ => {}
    }
}

fn adamw() -> ParamsAdamW {
    ParamsAdamW { lr: 1e-3, ..ParamsAdamW::default() }
}

/// The forms of one model: a training step, and what its forward pass keeps.
fn step<O: Optimizer + 'static>(
    forms: &mut Forms,
    new: impl Fn() -> Vec<Var> + 'static,
    config: O::Config,
    loss: impl Fn(&[Var]) -> Result<Tensor> + 'static,
) where
    O::Config: 'static,
{
    let (new, loss) = (Rc::new(new), Rc::new(loss));
    let (new_too, loss_too) = (new.clone(), loss.clone());
    forms.add("backward_step", move || {
        let variables = new();
        let mut optimizer = O::new(variables.clone(), config).unwrap();
        move || {
            let loss = loss(&variables).unwrap();
            optimizer.backward_step(&loss).unwrap();
            loss.to_scalar::<f32>().unwrap()
        }
    });
    forms.add_kept("backward_step", move || {
        let variables = new_too();
        move || loss_too(&variables).unwrap()
    });
}

fn tensor(size: &[usize], seed: u32) -> Tensor {
    Tensor::from_vec(uniform(size.iter().product(), seed), size, CPU).unwrap()
}
fn weight(size: &[usize], inputs: usize, seed: u32) -> Var {
    Var::from_tensor(&(tensor(size, seed) * (3.0 / inputs as f64).sqrt()).unwrap()).unwrap()
}
fn zeros(size: usize) -> Var {
    Var::zeros(size, DType::F32, CPU).unwrap()
}
fn ones(size: usize) -> Var {
    Var::ones(size, DType::F32, CPU).unwrap()
}
fn labels(n: usize) -> Tensor {
    Tensor::from_vec(places(n, 10, 9), n, CPU).unwrap()
}

/// A matrix for each row of `x`, and a bias.
fn linear(x: &Tensor, weight: &Var, bias: &Var) -> Result<Tensor> {
    x.matmul(weight)?.broadcast_add(bias)
}

fn mlp(n: usize, widths: Vec<usize>, forms: &mut Forms) {
    let (x, y) = (tensor(&[n, widths[0]], 1), labels(n));
    let new = move || {
        let layer = |(k, w): (usize, &[usize])| [weight(w, w[0], 20 + k as u32), zeros(w[1])];
        widths.windows(2).enumerate().flat_map(layer).collect()
    };
    step::<AdamW>(forms, new, adamw(), move |v| {
        let mut h = x.clone();
        for (k, layer) in v.chunks(2).enumerate() {
            h = linear(&h, &layer[0], &layer[1])?;
            if 2 * k + 2 < v.len() {
                h = h.relu()?;
            }
        }
        loss::cross_entropy(&h, &y)
    });
}

fn conv(n: usize, forms: &mut Forms) {
    let (x, y) = (tensor(&[n, 1, 8, 8], 1), labels(n));
    let new = || {
        let convolution = |i: usize, o: usize, seed| [weight(&[o, i, 3, 3], 9 * i, seed), zeros(o)];
        let convolutions = [convolution(1, 16, 20), convolution(16, 32, 21), convolution(32, 64, 22)];
        convolutions.into_iter().flatten().chain([weight(&[256, 10], 256, 23), zeros(10)]).collect()
    };
    step::<AdamW>(forms, new, adamw(), move |v| {
        let convolved = |x: &Tensor, k: usize| {
            let bias = v[2 * k + 1].reshape((1, (), 1, 1))?;
            x.conv2d(&v[2 * k], 1, 1, 1, 1)?.broadcast_add(&bias)?.relu()
        };
        let h = convolved(&convolved(&x, 0)?, 1)?.max_pool2d(2)?;
        let h = convolved(&h, 2)?.max_pool2d(2)?.reshape((n, ()))?;
        loss::cross_entropy(&linear(&h, &v[6], &v[7])?, &y)
    });
}

fn transformer(n: usize, forms: &mut Forms) {
    let d = CHANNELS;
    let x = tensor(&[n, 128, d], 1);
    let hidden = causal_mask(128);
    let new = move || {
        vec![
            ones(d),
            zeros(d),
            weight(&[d, 3 * d], d, 20),
            zeros(3 * d),
            weight(&[d, d], d, 21),
            zeros(d),
            ones(d),
            zeros(d),
            weight(&[d, 4 * d], d, 22),
            zeros(4 * d),
            weight(&[4 * d, d], 4 * d, 23),
            zeros(d),
        ]
    };
    step::<AdamW>(forms, new, adamw(), move |v| {
        let rows = |x: &Tensor, k: usize| linear(&x.reshape(((), x.dim(D::Minus1)?))?, &v[k], &v[k + 1]);
        let y = rows(&ops::layer_norm_slow(&x, &v[0], &v[1], 1e-5)?, 2)?;
        let all = y.reshape((n, 128, 3, HEADS, d / HEADS))?.permute((2, 0, 3, 1, 4))?.contiguous()?;
        let [q, k, value] = [0, 1, 2].map(|part| all.get(part));
        let scores = (q?.matmul(&k?.t()?)? / ((d / HEADS) as f64).sqrt())?.broadcast_add(&hidden)?;
        let y = ops::softmax(&scores, D::Minus1)?.matmul(&value?)?;
        let y = y.transpose(1, 2)?.contiguous()?;
        let x = (&x + rows(&y.reshape((n, 128, d))?, 4)?.reshape((n, 128, d))?)?;
        let y = rows(&ops::layer_norm_slow(&x, &v[6], &v[7], 1e-5)?, 8)?.gelu_erf()?;
        (rows(&y, 10)?.reshape((n, 128, d))? + &x)?.sqr()?.mean_all()
    });
}

/// −∞ above the diagonal.
fn causal_mask(n: usize) -> Tensor {
    let values = (0..n * n).map(|k| if k % n > k / n { f32::NEG_INFINITY } else { 0.0 }).collect();
    Tensor::from_vec(values, (n, n), CPU).unwrap()
}

fn lstm_variables() -> Vec<Var> {
    let matrix = |seed| weight(&[WIDTH, 4 * WIDTH], WIDTH, seed);
    vec![matrix(20), matrix(21), zeros(4 * WIDTH)]
}

fn lstm(x: &Tensor, n: usize, v: &[Var]) -> Result<Tensor> {
    let mut h = Tensor::zeros((n, WIDTH), DType::F32, CPU)?;
    let mut c = h.clone();
    for step in 0..STEPS {
        let gates = (x.get(step)?.matmul(&v[0])? + h.matmul(&v[1])?)?.broadcast_add(&v[2])?;
        let gates = gates.chunk(4, 1)?;
        c = ((ops::sigmoid(&gates[1])? * c)? + (ops::sigmoid(&gates[0])? * gates[2].tanh()?)?)?;
        h = (ops::sigmoid(&gates[3])? * c.tanh()?)?;
    }
    h.sqr()?.mean_all()
}
