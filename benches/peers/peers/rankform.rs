//! rankform: default features, the default target, and a user's natural code. One function a case.
//!
//! `new` allocates its result, `kept` writes it into existing memory.

#[path = "training/rankform.rs"]
mod training;

use peers::{Case, Forms, adamw, positive, serve, sizes, uniform};
use rankform::ops::{Attention, Conv, Gelu, Pool};
use rankform::prelude::*;
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: peers::Counting = peers::Counting;

type Matrix = Tensor<f32, 2>;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => forms.add("zeros", move || move || Matrix::zeros([n, n], &Cpu).unwrap()),
        "create/full" => {
            forms.add("full", move || move || Matrix::full([n, n], black_box(1.5), &Cpu).unwrap())
        }
        "create/from_vec" => from_vec(n, forms),
        "view/slice" => {
            view(n, forms, |x| _ = black_box(x.slice((1..x.size()[0] / 2, 2..x.size()[0] / 2)).unwrap()))
        }
        "view/transpose" => view(n, forms, |x| _ = black_box(x.transposed())),
        "view/permute4" => permute4(forms),
        "view/broadcast" => broadcast(n, forms),
        "view/reshape" => {
            view(n, forms, |x| _ = black_box(x.reshape([x.size()[0] / 2, x.size()[0] * 2]).unwrap()))
        }
        "ew/add" => add(n, forms),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_row" => add_row(n, forms),
        "ew/add_col" => add_col(n, forms),
        "ew/add_t" => add_t(n, forms),
        "ew/step2" => step2(n, forms),
        "fused/gelu" => unary(n, matrix, forms, |x| x.gelu_tanh(), |x, y| y.assign(x.lazy().gelu_tanh())),
        "fused/swiglu" => swiglu(n, forms),
        "fused/ratio" => ratio(n, forms),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => own(n, forms),
        "trans/exp" => unary(n, matrix, forms, |x| x.exp(), |x, y| y.assign(x.lazy().exp())),
        "trans/tanh" => unary(n, matrix, forms, |x| x.tanh(), |x, y| y.assign(x.lazy().tanh())),
        "trans/log" => unary(n, above_zero, forms, |x| x.ln(), |x, y| y.assign(x.lazy().ln())),
        "trans/erf" => unary(n, matrix, forms, |x| x.erf(), |x, y| y.assign(x.lazy().erf())),
        "trans/sin" => unary(n, matrix, forms, |x| x.sin(), |x, y| y.assign(x.lazy().sin())),
        "red/sum" => reduced(n, forms, |x| x.sum(All)),
        "red/sum0" => reduced(n, forms, |x| x.sum(Axis::<0>)),
        "red/sum1" => reduced(n, forms, |x| x.sum(Axis::<1>)),
        "red/max1" => reduced(n, forms, |x| x.max(Axis::<1>)),
        "red/argmax1" => reduced(n, forms, |x| x.argmax(Axis::<1>)),
        "red/meanvar1" => reduced(n, forms, |x| x.mean_var(Axis::<1>)),
        "red/softmax" => reduced(n, forms, |x| x.softmax(Axis::<1>)),
        "red/layernorm" => layer_norm(n, forms),
        "red/scaled_softmax" => reduced(n, forms, scaled_softmax),
        "red/rmsnorm" => rms_norm(n, forms),
        "short/distances" => distances(n, forms),
        "short/sum" => reduced_short(n, forms, |x| x.sum(Axis::<1>)),
        "short/median" => reduced_short(n, forms, |x| x.median(Axis::<1>)),
        "nn/crossentropy" => cross_entropy(n, forms),
        "mm/f32" => product(n, n, forms, |x| x.copy()),
        "mm/f64" => product(n, n, forms, |x| x.cast::<f64>()),
        "mm/f16" => product(n, n, forms, |x| x.cast::<rankform::f16>()),
        "mm/bf16" => product(n, n, forms, |x| x.cast::<rankform::bf16>()),
        "mm/i8" => product_of_bytes(n, forms),
        "mm/gemv" => gemv(n, forms),
        "mm/skinny16" => product(sizes::SKINNY, n, forms, |x| x.copy()),
        "mm/batched64" => batched(n, forms),
        "mm/einsum3" => three_matrices(n, forms),
        "nn/conv2d" => conv2d(forms),
        "nn/conv1d" => conv1d(forms),
        "nn/conv3d" => conv3d(forms),
        "nn/depthwise" => depthwise(forms),
        "nn/max_pool" => max_pool(forms),
        "nn/attention" => attention(n, Attention::new(), forms),
        "nn/causal" => attention(n, Attention::new().causal(true), forms),
        "nn/encoder" => encoder(n, forms),
        "dm/transpose" => transpose(n, forms),
        "dm/nhwc" => nhwc(forms),
        "dm/concat0" => concat::<0>(n, forms),
        "dm/concat1" => concat::<1>(n, forms),
        "dm/gather" => gather(forms),
        "dm/cumsum0" => reduced(n, forms, |x| x.cumsum(Axis::<0>)),
        "dm/cumsum1" => reduced(n, forms, |x| x.cumsum(Axis::<1>)),
        "dm/sort1" => reduced(n, forms, |x| x.sort(Axis::<1>)),
        "dm/sort" => of_all(n, forms, |x| x.sort(Axis::<0>)),
        "dm/argsort" => of_all(n, forms, |x| x.argsort(Axis::<0>)),
        "dm/quantile" => {
            of_all(n, forms, |x| x.quantile(sizes::SHARE, Axis::<0>, rankform::ops::QuantileMethod::Linear))
        }
        "dm/histogram" => of_all(n, forms, |x| x.histogram(sizes::BINS, -1.0, 1.0)),
        "dm/unique" => unique(n, forms),
        "dm/scatter" => scatter(n, forms),
        "dm/topk10" => reduced(n, forms, |x| x.topk(Axis::<1>, sizes::TOP)),
        _ => training::cases(case, forms),
    }
}

/// In rankform's own memory, as NumPy's and PyTorch's numbers are in theirs: large blocks are on huge pages
/// there, and the memory of a vector, which `from_vec` takes over, is not.
fn ours<T: Element, const RANK: usize>(values: Vec<T>, size: [usize; RANK]) -> Tensor<T, RANK> {
    Tensor::from_vec(values, size).unwrap().copy().unwrap()
}
fn tensor<const RANK: usize>(size: [usize; RANK], seed: u32) -> Tensor<f32, RANK> {
    ours(uniform(size.iter().product(), seed), size)
}
fn matrix(n: usize, seed: u32) -> Matrix {
    tensor([n, n], seed)
}
fn above_zero(n: usize, seed: u32) -> Matrix {
    ours(positive(n * n, seed), [n, n])
}

/// An operator of one matrix: its result new, and its result kept.
fn unary(
    n: usize,
    make: fn(usize, u32) -> Matrix,
    forms: &mut Forms,
    new: impl Fn(&Matrix) -> Result<Matrix> + 'static,
    kept: impl Fn(&Matrix, &mut Matrix) -> Result<()> + 'static,
) {
    forms.add("new", move || {
        let x = make(n, 1);
        move || new(&x).unwrap()
    });
    forms.add("kept", move || {
        let (x, mut y) = (make(n, 1), make(n, 2));
        move || kept(&x, &mut y).unwrap()
    });
}

fn reduced<R: 'static>(n: usize, forms: &mut Forms, reduce: impl Fn(&Matrix) -> Result<R> + 'static) {
    forms.add("new", move || {
        let x = matrix(n, 1);
        move || reduce(&x).unwrap()
    });
}

fn of_all<R: 'static>(n: usize, forms: &mut Forms, of: impl Fn(&Tensor<f32, 1>) -> Result<R> + 'static) {
    forms.add("new", move || {
        let x = tensor([n * n], 1);
        move || of(&x).unwrap()
    });
}

fn reduced_short<R: 'static>(n: usize, forms: &mut Forms, reduce: impl Fn(&Matrix) -> Result<R> + 'static) {
    forms.add("new", move || {
        let x = tensor([sizes::SHORT / n, n], 1);
        move || reduce(&x).unwrap()
    });
}

fn scaled_softmax(x: &Matrix) -> Result<Matrix> {
    let scaled = x.lazy() / 8.0;
    let powers = (scaled - scaled.max_along(Axis::<1>)).exp().cached();
    (powers / powers.sum_along(Axis::<1>)).eval()
}

fn distances(n: usize, forms: &mut Forms) {
    forms.add("lazy, sum", move || {
        let (points, centers) = (tensor([sizes::DISTANCES.0, n], 1), tensor([sizes::DISTANCES.1, n], 2));
        move || {
            let apart = points.insert_axis(Axis::<1>).lazy() - centers.insert_axis(Axis::<0>);
            apart.square().sum(Axis::<2>).unwrap()
        }
    });
}

/// As many whole numbers below `bound`.
fn whole_numbers(len: usize, bound: usize) -> Tensor<i64, 1> {
    ours(peers::places(len, bound as u32, 7).into_iter().map(i64::from).collect(), [len])
}

fn unique(n: usize, forms: &mut Forms) {
    forms.add("new", move || {
        let x = whole_numbers(n * n, sizes::KINDS);
        move || x.unique().unwrap()
    });
}

fn scatter(n: usize, forms: &mut Forms) {
    forms.add("scatter, Add", move || {
        let (mut sums, at, x) =
            (tensor([sizes::KINDS], 2), whole_numbers(n * n, sizes::KINDS), tensor([n * n], 1));
        move || sums.scatter(rankform::ops::Add, Axis::<0>, &at, &x).unwrap()
    });
}

fn view(n: usize, forms: &mut Forms, of: impl Fn(&Matrix) + 'static) {
    forms.add("view", move || {
        let x = matrix(n, 1);
        move || of(black_box(&x))
    });
}

fn permute4(forms: &mut Forms) {
    forms.add("view", || {
        let x = tensor([2, 3, 4, 5], 1);
        move || _ = black_box(black_box(&x).permuted([0, 2, 3, 1]).unwrap())
    });
}

fn broadcast(n: usize, forms: &mut Forms) {
    forms.add("view", move || {
        let x = tensor([1, n], 1);
        move || _ = black_box(black_box(&x).broadcast_to([n, n]).unwrap())
    });
}

fn from_vec(n: usize, forms: &mut Forms) {
    forms.add("from_vec, into_vec", move || {
        let mut values = Some(uniform(n * n, 1));
        move || {
            let x = Tensor::from_vec(values.take().unwrap(), [n, n]).unwrap();
            values = Some(black_box(x).into_vec().unwrap());
        }
    });
}

fn add(n: usize, forms: &mut Forms) {
    forms.add("&a + &b", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + &b
    });
    forms.add("kept", move || {
        let (a, b, mut c) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || c.assign(a.lazy() + &b).unwrap()
    });
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("a += &b", move || {
        let (mut a, b) = (matrix(n, 1), matrix(n, 2));
        move || a += &b
    });
}

fn add_row(n: usize, forms: &mut Forms) {
    forms.add("&a + b.lift()", move || {
        let (a, b) = (matrix(n, 1), tensor([n], 2));
        move || &a + b.lift()
    });
    forms.add("kept", move || {
        let (a, b, mut c) = (matrix(n, 1), tensor([n], 2), matrix(n, 3));
        move || c.assign(a.lazy() + b.lift()).unwrap()
    });
}

fn add_col(n: usize, forms: &mut Forms) {
    forms.add("&a + b.insert_axis", move || {
        let (a, b) = (matrix(n, 1), tensor([n], 2));
        move || &a + b.insert_axis(Axis::<1>)
    });
    forms.add("kept", move || {
        let (a, b, mut c) = (matrix(n, 1), tensor([n], 2), matrix(n, 3));
        move || c.assign(a.lazy() + b.insert_axis(Axis::<1>)).unwrap()
    });
}

fn add_t(n: usize, forms: &mut Forms) {
    forms.add("&a + b.transposed()", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + b.transposed()
    });
    forms.add("kept", move || {
        let (a, b, mut c) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || c.assign(a.lazy() + b.transposed()).unwrap()
    });
}

fn step2(n: usize, forms: &mut Forms) {
    forms.add("new", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || a.slice((.., (..).step(2))).unwrap() + b.slice((.., (..).step(2))).unwrap()
    });
    forms.add("kept", move || {
        let (a, b, mut c) = (matrix(n, 1), matrix(n, 2), tensor([n, n / 2], 3));
        move || {
            c.assign(a.slice((.., (..).step(2))).unwrap().lazy() + b.slice((.., (..).step(2))).unwrap())
                .unwrap()
        }
    });
}

fn swiglu(n: usize, forms: &mut Forms) {
    forms.add("lazy, new", move || {
        let (x, y) = (matrix(n, 1), matrix(n, 2));
        move || (x.lazy().silu() * &y).eval().unwrap()
    });
    forms.add("lazy, kept", move || {
        let (x, y, mut z) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || z.assign(x.lazy().silu() * &y).unwrap()
    });
}

fn ratio(n: usize, forms: &mut Forms) {
    forms.add("lazy, new", move || {
        let (a, b, c, d) = (matrix(n, 1), matrix(n, 2), matrix(n, 3), above_zero(n, 4));
        move || ((a.lazy() * &b + &c) / (d.lazy().abs() + 1e-6)).eval().unwrap()
    });
    forms.add("lazy, kept", move || {
        let (a, b, c, d, mut y) = (matrix(n, 1), matrix(n, 2), matrix(n, 3), above_zero(n, 4), matrix(n, 5));
        move || y.assign((a.lazy() * &b + &c) / (d.lazy().abs() + 1e-6)).unwrap()
    });
}

elementwise! {
    /// One step: the parameter and its two moments.
    fn adamw_step(p, m, v, g) -> (T, T, T) {
        let m = m * f64::from(adamw::BETA1) + g * f64::from(1.0 - adamw::BETA1);
        let v = v * f64::from(adamw::BETA2) + g * g * f64::from(1.0 - adamw::BETA2);
        let p = p * f64::from(1.0 - adamw::RATE * adamw::DECAY)
            - m * f64::from(adamw::RATE) / (v.sqrt() + f64::from(adamw::EPSILON));
        (p, m, v)
    }
    /// The user's own.
    fn wave(x, y) { x * y + x.sin() }
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("apply_many, new", move || {
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
        move || (p, m, v) = apply_many(adamw_step, (&p, &m, &v, &g)).unwrap()
    });
    forms.add("apply_in_place", move || {
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
        move || apply_in_place(adamw_step, (&mut p, &mut m, &mut v), (&g,)).unwrap()
    });
}

fn own(n: usize, forms: &mut Forms) {
    forms.add("zip, new", move || {
        let (x, y) = (matrix(n, 1), matrix(n, 2));
        move || x.zip(wave, &y).unwrap()
    });
    forms.add("zip, kept", move || {
        let (x, y, mut z) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || z.assign(x.lazy().zip(wave, &y)).unwrap()
    });
}

fn layer_norm(n: usize, forms: &mut Forms) {
    forms.add("layer_norm, then weight and bias", move || {
        let (x, weight, bias) = (matrix(n, 1), tensor([n], 2), tensor([n], 3));
        move || (x.layer_norm(Axis::<1>, 1e-5).unwrap().lazy() * weight.lift() + bias.lift()).eval().unwrap()
    });
    forms.add("lazy, new", move || {
        let (x, weight, bias) = (matrix(n, 1), tensor([n], 2), tensor([n], 3));
        move || {
            let centered = x.lazy() - x.mean_along(Axis::<1>);
            let scale = (centered.square().mean_along(Axis::<1>) + 1e-5).rsqrt();
            (centered * scale * weight.lift() + bias.lift()).eval().unwrap()
        }
    });
}

fn rms_norm(n: usize, forms: &mut Forms) {
    forms.add("rms_norm, then weight", move || {
        let (x, weight) = (matrix(n, 1), tensor([n], 2));
        move || (x.rms_norm(Axis::<1>, 1e-5).unwrap().lazy() * weight.lift()).eval().unwrap()
    });
    forms.add("lazy, new", move || {
        let (x, weight) = (matrix(n, 1), tensor([n], 2));
        move || {
            let scale = (x.lazy().square().mean_along(Axis::<1>) + 1e-5).rsqrt();
            (x.lazy() * scale * weight.lift()).eval().unwrap()
        }
    });
}

fn cross_entropy(n: usize, forms: &mut Forms) {
    forms.add("cross_entropy", move || {
        let (x, classes) = (matrix(n, 1), whole_numbers(n, n));
        move || x.cross_entropy_mean(Axis::<1>, &classes, rankform::ops::ClassLoss::new()).unwrap()
    });
}

/// A product of matrices with `rows` and n rows, of the element that `convert` makes.
fn product<T: Number>(
    rows: usize,
    n: usize,
    forms: &mut Forms,
    convert: fn(&Matrix) -> Result<Tensor<T, 2>>,
) {
    forms.add("matmul", move || {
        let (a, b) = (convert(&tensor([rows, n], 1)).unwrap(), convert(&matrix(n, 2)).unwrap());
        move || a.matmul(&b).unwrap()
    });
}

fn product_of_bytes(n: usize, forms: &mut Forms) {
    forms.add("matmul_wide", move || {
        let (a, b) = (ours(peers::bytes(n * n, 1), [n, n]), ours(peers::bytes(n * n, 2), [n, n]));
        move || a.matmul_wide(&b).unwrap()
    });
}

fn conv2d(forms: &mut Forms) {
    forms.add("conv2d", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(sizes::IMAGES, 1), tensor([channels, channels, 3, 3], 2));
        move || x.conv2d(&w, rankform::ops::Conv::<2>::new().padding([1, 1])).unwrap()
    });
    forms.add("conv2d, channels last", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(sizes::IMAGES, 1), tensor([channels, channels, 3, 3], 2));
        let (x, w) = (x.to_channels_last().unwrap(), w.to_channels_last().unwrap());
        move || x.conv2d(&w, rankform::ops::Conv::<2>::new().padding([1, 1])).unwrap()
    });
}

fn conv1d(forms: &mut Forms) {
    forms.add("conv1d", || {
        let (x, w) = (tensor(sizes::SIGNALS, 1), tensor(sizes::SIGNAL_WEIGHTS, 2));
        move || x.conv1d(&w, Conv::new().padding([2])).unwrap()
    });
}

fn conv3d(forms: &mut Forms) {
    forms.add("conv3d", || {
        let (x, w) = (tensor(sizes::VOLUMES, 1), tensor(sizes::VOLUME_WEIGHTS, 2));
        move || x.conv3d(&w, Conv::new().padding([1, 1, 1])).unwrap()
    });
}

fn depthwise(forms: &mut Forms) {
    forms.add("conv2d, groups", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(sizes::IMAGES, 1), tensor([channels, 1, 3, 3], 2));
        move || x.conv2d(&w, Conv::new().padding([1, 1]).groups(channels)).unwrap()
    });
}

fn max_pool(forms: &mut Forms) {
    forms.add("max_pool2d", || {
        let x = tensor(sizes::POOLED, 1);
        move || x.max_pool2d(Pool::new([3, 3]).stride([2, 2]).padding([1, 1])).unwrap()
    });
}

fn attention(n: usize, plan: Attention, forms: &mut Forms) {
    forms.add("attention", move || {
        let [q, k, v] = [1, 2, 3].map(|seed| tensor(sizes::heads(n), seed));
        move || q.attention(&k, &v, None, plan).unwrap()
    });
}

/// The weights of an encoder layer, as PyTorch stores them.
struct Encoder {
    qkv: (Matrix, Tensor<f32, 1>),
    out: (Matrix, Tensor<f32, 1>),
    wide: (Matrix, Tensor<f32, 1>),
    narrow: (Matrix, Tensor<f32, 1>),
    norm: (Tensor<f32, 1>, Tensor<f32, 1>),
}

impl Encoder {
    fn layer(&self, x: &Tensor<f32, 3>, heads: usize) -> Result<Tensor<f32, 3>> {
        let [batches, tokens, width] = x.size().0;
        let qkv = x.linear(&self.qkv.0, &self.qkv.1)?;
        let parts = qkv.reshape([batches, tokens, 3, heads, width / heads])?;
        let part = |i: usize| parts.slice((.., .., i, .., ..))?.permuted([0, 2, 1, 3]);
        let y = part(0)?.attention(part(1)?, part(2)?, None, Attention::new())?;
        let y = y.permuted([0, 2, 1, 3])?.to_contiguous()?.into_shape([batches, tokens, width])?;
        let x = self.added(x, &y.linear(&self.out.0, &self.out.1)?)?;
        let y = x.linear_with(&self.wide.0, &self.wide.1, Gelu)?.linear(&self.narrow.0, &self.narrow.1)?;
        self.added(&x, &y)
    }
    /// A residual connection and a layer norm.
    fn added(&self, x: &Tensor<f32, 3>, y: &Tensor<f32, 3>) -> Result<Tensor<f32, 3>> {
        let sum = (x.lazy() + y).eval()?;
        let centered = sum.lazy() - sum.mean_along(Axis::<2>);
        let scale = (centered.square().mean_along(Axis::<2>) + 1e-5).rsqrt();
        (centered * scale * self.norm.0.lift() + self.norm.1.lift()).eval()
    }
}

fn encoder(n: usize, forms: &mut Forms) {
    forms.add("linear, attention, lazy", move || {
        let (batches, width, heads) = sizes::ENCODER;
        let linear = |outputs: usize, inputs: usize, seed: u32| {
            let weights = tensor([outputs, inputs], seed) / (inputs as f32).sqrt();
            (weights, tensor([outputs], seed + 1))
        };
        let layer = Encoder {
            qkv: linear(3 * width, width, 2),
            out: linear(width, width, 4),
            wide: linear(4 * width, width, 6),
            narrow: linear(width, 4 * width, 8),
            norm: (tensor([width], 10), tensor([width], 11)),
        };
        let x = tensor([batches, n, width], 1);
        move || layer.layer(&x, heads).unwrap()
    });
}

fn three_matrices(n: usize, forms: &mut Forms) {
    forms.add("einsum!, twice", move || {
        let [a, b, c] = [1, 2, 3].map(|seed| matrix(n, seed));
        move || einsum!("ij,jk->ik", &einsum!("ij,jk->ik", &a, &b).unwrap(), &c).unwrap()
    });
}

fn gemv(n: usize, forms: &mut Forms) {
    forms.add("matmul", move || {
        let (a, x) = (matrix(n, 1), tensor([n], 2));
        move || a.matmul(&x).unwrap()
    });
}

fn batched(n: usize, forms: &mut Forms) {
    forms.add("matmul", move || {
        let (a, b) = (tensor([sizes::BATCH, n, n], 1), tensor([sizes::BATCH, n, n], 2));
        move || a.matmul(&b).unwrap()
    });
}

fn transpose(n: usize, forms: &mut Forms) {
    forms.add("new", move || {
        let x = matrix(n, 1);
        move || x.transposed().to_contiguous().unwrap()
    });
    forms.add("kept", move || {
        let (x, mut y) = (matrix(n, 1), matrix(n, 2));
        move || y.assign(x.transposed()).unwrap()
    });
}

fn nhwc(forms: &mut Forms) {
    forms.add("new", || {
        let x = tensor(sizes::NCHW, 1);
        move || x.permuted([0, 2, 3, 1]).unwrap().to_contiguous().unwrap()
    });
}

fn concat<const A: usize>(n: usize, forms: &mut Forms)
where
    Dim<2>: rankform::rank::RemoveAxis<A>,
{
    forms.add("new", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || Tensor::concat(&[a.view(), b.view()], Axis::<A>).unwrap()
    });
}

fn gather(forms: &mut Forms) {
    forms.add("index_select", || {
        let (taken, rows, len) = sizes::GATHER;
        let at: Vec<i64> = peers::places(taken, rows as u32, 7).into_iter().map(i64::from).collect();
        let (x, at) = (tensor([rows, len], 1), Tensor::from_vec(at, [taken]).unwrap());
        move || x.index_select(Axis::<0>, &at).unwrap()
    });
}
