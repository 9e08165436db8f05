//! burn on its `flex` backend, with SIMD and threads: operators on tensors. A `clone` is a handle, not a
//! copy; an operator may write into the memory of the last handle, and inputs that must stay are therefore
//! cloned.

#[path = "training/burn.rs"]
mod training;

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData, activation, module, s};
use peers::{Case, Forms, adamw, places, positive, serve, sizes, uniform};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: peers::Counting = peers::Counting;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => {
            forms.add("zeros", move || with_device(move |device| Tensor::<2>::zeros([n, n], device)))
        }
        "create/full" => forms.add("full", move || {
            with_device(move |device| Tensor::<2>::full([n, n], black_box(1.5), device))
        }),
        "view/slice" => unary(n, forms, move |x| x.slice(s![1..n / 2, 2..n / 2])),
        "view/transpose" => unary(n, forms, |x| x.transpose()),
        "view/permute4" => of_rank_4([2, 3, 4, 5], forms, |x| x.permute([0, 2, 3, 1])),
        "view/broadcast" => broadcast(n, forms),
        "view/reshape" => unary(n, forms, move |x| x.reshape([n / 2, n * 2])),
        "ew/add" => binary([n, n], [n, n], forms, |a, b| a + b),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_row" => binary([n, n], [1, n], forms, |a, b| a + b),
        "ew/add_col" => binary([n, n], [n, 1], forms, |a, b| a + b),
        "ew/add_t" => binary([n, n], [n, n], forms, |a, b| a + b.transpose()),
        "ew/step2" => binary([n, n], [n, n], forms, |a, b| a.slice(s![.., ..;2]) + b.slice(s![.., ..;2])),
        "fused/gelu" => unary(n, forms, activation::gelu_approximate),
        "fused/swiglu" => binary([n, n], [n, n], forms, |x, y| activation::silu(x) * y),
        "fused/ratio" => ratio(n, forms),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => binary([n, n], [n, n], forms, |x, y| x.clone() * y + x.sin()),
        "trans/exp" => unary(n, forms, |x| x.exp()),
        "trans/tanh" => unary(n, forms, |x| x.tanh()),
        "trans/log" => log(n, forms),
        "trans/erf" => unary(n, forms, |x| x.erf()),
        "trans/sin" => unary(n, forms, |x| x.sin()),
        "red/sum" => unary(n, forms, |x| x.sum()),
        "red/sum0" => unary(n, forms, |x| x.sum_dim(0)),
        "red/sum1" => unary(n, forms, |x| x.sum_dim(1)),
        "red/max1" => unary(n, forms, |x| x.max_dim(1)),
        "red/argmax1" => unary(n, forms, |x| x.argmax(1)),
        "red/meanvar1" => unary(n, forms, |x| x.var_mean(1)),
        "red/softmax" => unary(n, forms, |x| activation::softmax(x, 1)),
        "red/layernorm" => layer_norm(n, forms),
        "mm/f32" => product([n, n], [n, n], FloatDType::F32, forms),
        "mm/f64" => product([n, n], [n, n], FloatDType::F64, forms),
        "mm/f16" => product([n, n], [n, n], FloatDType::F16, forms),
        "mm/bf16" => product([n, n], [n, n], FloatDType::BF16, forms),
        "mm/gemv" => product([n, n], [n, 1], FloatDType::F32, forms),
        "mm/skinny16" => product([sizes::SKINNY, n], [n, n], FloatDType::F32, forms),
        "mm/batched64" => product([sizes::BATCH, n, n], [sizes::BATCH, n, n], FloatDType::F32, forms),
        // Transposing moves nothing here; adding 0 makes the new order real.
        "dm/transpose" => unary(n, forms, |x| x.transpose() + 0.0),
        "dm/nhwc" => of_rank_4(sizes::NCHW, forms, |x| x.permute([0, 2, 3, 1]) + 0.0),
        "dm/concat0" => binary([n, n], [n, n], forms, |a, b| Tensor::cat(vec![a, b], 0)),
        "dm/concat1" => binary([n, n], [n, n], forms, |a, b| Tensor::cat(vec![a, b], 1)),
        "dm/gather" => gather(forms),
        "dm/cumsum0" => unary(n, forms, |x| x.cumsum(0)),
        "dm/cumsum1" => unary(n, forms, |x| x.cumsum(1)),
        "dm/sort1" => unary(n, forms, |x| x.sort(1)),
        "dm/topk10" => unary(n, forms, |x| x.topk(sizes::TOP, 1)),
        "nn/conv2d" => conv2d(forms),
        "nn/depthwise" => depthwise(forms),
        _ => training::cases(case, forms),
    }
}

fn with_device<R>(f: impl Fn(&Device) -> R) -> impl FnMut() -> R {
    let device = Device::flex();
    move || f(&device)
}

fn tensor<const RANK: usize>(size: [usize; RANK], seed: u32) -> Tensor<RANK> {
    Tensor::from_data(TensorData::new(uniform(size.iter().product(), seed), size), &Device::flex())
}
fn above_zero(n: usize, seed: u32) -> Tensor<2> {
    Tensor::from_data(TensorData::new(positive(n * n, seed), [n, n]), &Device::flex())
}

fn unary<R: 'static>(n: usize, forms: &mut Forms, f: impl Fn(Tensor<2>) -> R + 'static) {
    forms.add("ops", move || {
        let x = tensor([n, n], 1);
        move || f(x.clone())
    });
}

fn of_rank_4<R: 'static>(size: [usize; 4], forms: &mut Forms, f: impl Fn(Tensor<4>) -> R + 'static) {
    forms.add("ops", move || {
        let x = tensor(size, 1);
        move || f(x.clone())
    });
}

fn binary(
    a: [usize; 2],
    b: [usize; 2],
    forms: &mut Forms,
    f: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2> + 'static,
) {
    forms.add("ops", move || {
        let (a, b) = (tensor(a, 1), tensor(b, 2));
        move || f(a.clone(), b.clone())
    });
}

fn broadcast(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let x = tensor([1, n], 1);
        move || x.clone().expand([n, n])
    });
}

fn log(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let x = above_zero(n, 1);
        move || x.clone().log()
    });
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("inplace", move || {
        let (mut a, b) = (tensor([n, n], 1), tensor([n, n], 2));
        move || a.inplace(|a| a + b.clone())
    });
}

fn ratio(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let (a, b, c, d) = (tensor([n, n], 1), tensor([n, n], 2), tensor([n, n], 3), above_zero(n, 4));
        move || (a.clone() * b.clone() + c.clone()) / (d.clone().abs() + 1e-6)
    });
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("inplace", move || {
        let (mut p, mut m, mut v, g) =
            (tensor([n, n], 1), tensor([n, n], 2), above_zero(n, 3), tensor([n, n], 4));
        move || {
            m.inplace(|m| m * adamw::BETA1 + g.clone() * (1.0 - adamw::BETA1));
            v.inplace(|v| v * adamw::BETA2 + g.clone() * g.clone() * (1.0 - adamw::BETA2));
            let step = m.clone() * adamw::RATE / (v.clone().sqrt() + adamw::EPSILON);
            p.inplace(|p| p * (1.0 - adamw::RATE * adamw::DECAY) - step);
        }
    });
}

fn layer_norm(n: usize, forms: &mut Forms) {
    forms.add("module", move || {
        let (x, weight, bias) = (tensor([n, n], 1), tensor([n], 2), tensor([n], 3));
        move || module::layer_norm(x.clone(), weight.clone(), Some(bias.clone()), 1e-5)
    });
}

fn product<const RANK: usize>(a: [usize; RANK], b: [usize; RANK], element: FloatDType, forms: &mut Forms) {
    forms.add("matmul", move || {
        let (a, b) = (tensor(a, 1).cast(element), tensor(b, 2).cast(element));
        move || a.clone().matmul(b.clone())
    });
}

fn gather(forms: &mut Forms) {
    forms.add("select", || {
        let (taken, rows, len) = sizes::GATHER;
        let at: Vec<i64> = places(taken, rows as u32, 7).into_iter().map(i64::from).collect();
        let (x, at) = (
            tensor([rows, len], 1),
            Tensor::<1, Int>::from_data(TensorData::new(at, [taken]), &Device::flex()),
        );
        move || x.clone().select(0, at.clone())
    });
}

fn depthwise(forms: &mut Forms) {
    forms.add("module", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(sizes::IMAGES, 1), tensor([channels, 1, 3, 3], 2));
        move || module::conv2d(x.clone(), w.clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], channels))
    });
}

fn conv2d(forms: &mut Forms) {
    forms.add("module", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(sizes::IMAGES, 1), tensor([channels, channels, 3, 3], 2));
        move || module::conv2d(x.clone(), w.clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1))
    });
}
