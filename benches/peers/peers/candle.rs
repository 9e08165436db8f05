//! candle: its own operators (`ops`), its fused functions in candle-nn, and custom operators over elements
//! (`CustomOp2`).

#[path = "training/candle.rs"]
mod training;

use candle_core::{CpuStorage, CustomOp2, DType, Device, InplaceOp2, Layout, Shape, Tensor};
use peers::{Case, Forms, adamw, bodies, places, positive, serve, sizes, uniform};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: peers::Counting = peers::Counting;

type Result<T> = candle_core::Result<T>;
const CPU: &Device = &Device::Cpu;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => forms.add("zeros", move || move || Tensor::zeros((n, n), DType::F32, CPU).unwrap()),
        "create/full" => forms.add("full", move || {
            move || Tensor::full(black_box(1.5_f32), (n, n), CPU).unwrap().contiguous().unwrap()
        }),
        "view/slice" => {
            unary(forms, move || matrix(n, 1), move |x| x.narrow(0, 1, n / 2 - 1)?.narrow(1, 2, n / 2 - 2))
        }
        "view/transpose" => unary(forms, move || matrix(n, 1), |x| x.t()),
        "view/permute4" => unary(forms, || tensor(&[2, 3, 4, 5], 1), |x| x.permute((0, 2, 3, 1))),
        "view/broadcast" => unary(forms, move || tensor(&[1, n], 1), move |x| x.broadcast_as((n, n))),
        "view/reshape" => unary(forms, move || matrix(n, 1), move |x| x.reshape((n / 2, n * 2))),
        "ew/add" => binary(forms, [n, n], [n, n], |a, b| a + b),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_row" => binary(forms, [n, n], [1, n], |a, b| a.broadcast_add(b)),
        "ew/add_col" => binary(forms, [n, n], [n, 1], |a, b| a.broadcast_add(b)),
        "ew/add_t" => binary(forms, [n, n], [n, n], |a, b| a + b.t()?),
        "fused/gelu" => unary(forms, move || matrix(n, 1), |x| x.gelu()),
        "fused/swiglu" => {
            binary(forms, [n, n], [n, n], |x, y| x.silu()? * y);
            custom(n, forms, bodies::swiglu);
        }
        "fused/ratio" => ratio(n, forms),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => {
            binary(forms, [n, n], [n, n], |x, y| (x * y)? + x.sin()?);
            custom(n, forms, bodies::user);
        }
        "trans/exp" => unary(forms, move || matrix(n, 1), |x| x.exp()),
        "trans/tanh" => unary(forms, move || matrix(n, 1), |x| x.tanh()),
        "trans/log" => unary(forms, move || above_zero(n, 1), |x| x.log()),
        "trans/erf" => unary(forms, move || matrix(n, 1), |x| x.erf()),
        "trans/sin" => unary(forms, move || matrix(n, 1), |x| x.sin()),
        "red/sum" => unary(forms, move || matrix(n, 1), |x| x.sum_all()),
        "red/sum0" => unary(forms, move || matrix(n, 1), |x| x.sum(0)),
        "red/sum1" => unary(forms, move || matrix(n, 1), |x| x.sum(1)),
        "red/max1" => unary(forms, move || matrix(n, 1), |x| x.max(1)),
        "red/argmax1" => unary(forms, move || matrix(n, 1), |x| x.argmax(1)),
        "red/meanvar1" => unary(forms, move || matrix(n, 1), |x| Ok((x.mean(1)?, x.var(1)?))),
        "red/softmax" => unary(forms, move || matrix(n, 1), candle_nn::ops::softmax_last_dim),
        "red/layernorm" => layer_norm(n, forms),
        "mm/f32" => product(&[n, n], &[n, n], DType::F32, forms),
        "mm/f64" => product(&[n, n], &[n, n], DType::F64, forms),
        "mm/f16" => product(&[n, n], &[n, n], DType::F16, forms),
        "mm/bf16" => product(&[n, n], &[n, n], DType::BF16, forms),
        "mm/gemv" => product(&[n, n], &[n, 1], DType::F32, forms),
        "mm/skinny16" => product(&[sizes::SKINNY, n], &[n, n], DType::F32, forms),
        "mm/batched64" => product(&[sizes::BATCH, n, n], &[sizes::BATCH, n, n], DType::F32, forms),
        "dm/transpose" => unary(forms, move || matrix(n, 1), |x| x.t()?.contiguous()),
        "dm/nhwc" => unary(forms, || tensor(&sizes::NCHW, 1), |x| x.permute((0, 2, 3, 1))?.contiguous()),
        "dm/concat0" => binary(forms, [n, n], [n, n], |a, b| Tensor::cat(&[a, b], 0)),
        "dm/concat1" => binary(forms, [n, n], [n, n], |a, b| Tensor::cat(&[a, b], 1)),
        "dm/gather" => gather(forms),
        "dm/cumsum0" => unary(forms, move || matrix(n, 1), |x| x.cumsum(0)),
        "dm/cumsum1" => unary(forms, move || matrix(n, 1), |x| x.cumsum(1)),
        "dm/sort1" => unary(forms, move || matrix(n, 1), |x| x.sort_last_dim(true)),
        "nn/conv2d" => conv2d(forms),
        "nn/conv1d" => conv1d(forms),
        "nn/depthwise" => depthwise(forms),
        _ => training::cases(case, forms),
    }
}

fn tensor(size: &[usize], seed: u32) -> Tensor {
    Tensor::from_vec(uniform(size.iter().product(), seed), size, CPU).unwrap()
}
fn matrix(n: usize, seed: u32) -> Tensor {
    tensor(&[n, n], seed)
}
fn above_zero(n: usize, seed: u32) -> Tensor {
    Tensor::from_vec(positive(n * n, seed), (n, n), CPU).unwrap()
}

fn unary<R: 'static>(
    forms: &mut Forms,
    make: impl Fn() -> Tensor + 'static,
    f: impl Fn(&Tensor) -> Result<R> + 'static,
) {
    forms.add("ops", move || {
        let x = make();
        move || f(black_box(&x)).unwrap()
    });
}

fn binary(
    forms: &mut Forms,
    a: [usize; 2],
    b: [usize; 2],
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static,
) {
    forms.add("ops", move || {
        let (a, b) = (tensor(&a, 1), tensor(&b, 2));
        move || f(&a, &b).unwrap()
    });
}

/// The elements of two dense tensors.
fn slices<'a>(a: &'a CpuStorage, b: &'a CpuStorage) -> (&'a [f32], &'a [f32]) {
    match (a, b) {
        (CpuStorage::F32(a), CpuStorage::F32(b)) => (a, b),
        _ => panic!("these cases are of f32"),
    }
}

/// A user's own function of two elements.
struct Own<F>(F);

impl<F: Fn(f32, f32) -> f32 + Send + Sync> CustomOp2 for Own<F> {
    fn name(&self) -> &'static str {
        "own"
    }
    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        layout: &Layout,
        b: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (a, b) = slices(a, b);
        Ok((CpuStorage::F32(a.iter().zip(b).map(|(&a, &b)| self.0(a, b)).collect()), layout.shape().clone()))
    }
}

fn custom(n: usize, forms: &mut Forms, f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static) {
    forms.add("CustomOp2", move || {
        let (x, y, own) = (matrix(n, 1), matrix(n, 2), Own(f));
        move || x.apply_op2_no_bwd(&y, &own).unwrap()
    });
}

struct AddTo;

impl InplaceOp2 for AddTo {
    fn name(&self) -> &'static str {
        "add_to"
    }
    fn cpu_fwd(&self, a: &mut CpuStorage, _: &Layout, b: &CpuStorage, _: &Layout) -> Result<()> {
        if let (CpuStorage::F32(a), CpuStorage::F32(b)) = (a, b) {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        }
        Ok(())
    }
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("InplaceOp2", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || a.inplace_op2(&b, &AddTo).unwrap()
    });
}

fn ratio(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let (a, b, c, d) = (matrix(n, 1), matrix(n, 2), matrix(n, 3), above_zero(n, 4));
        move || ratio_of(&a, &b, &c, &d).unwrap()
    });
}
fn ratio_of(a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor) -> Result<Tensor> {
    ((a * b)? + c)? / (d.abs()? + 1e-6)?
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
        move || (p, m, v) = adamw_of(&p, &m, &v, &g).unwrap()
    });
}
fn adamw_of(p: &Tensor, m: &Tensor, v: &Tensor, g: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let [rate, beta1, beta2, epsilon, decay] =
        [adamw::RATE, adamw::BETA1, adamw::BETA2, adamw::EPSILON, adamw::DECAY].map(f64::from);
    let m = ((m * beta1)? + (g * (1.0 - beta1))?)?;
    let v = ((v * beta2)? + (g.sqr()? * (1.0 - beta2))?)?;
    let step = ((&m * rate)? / (v.sqrt()? + epsilon)?)?;
    Ok((((p * (1.0 - rate * decay))? - step)?, m, v))
}

fn layer_norm(n: usize, forms: &mut Forms) {
    forms.add("candle_nn", move || {
        let (x, weight, bias) = (matrix(n, 1), tensor(&[n], 2), tensor(&[n], 3));
        move || candle_nn::ops::layer_norm(&x, &weight, &bias, 1e-5).unwrap()
    });
}

fn product(a: &[usize], b: &[usize], element: DType, forms: &mut Forms) {
    let (a, b) = (a.to_vec(), b.to_vec());
    forms.add("matmul", move || {
        let (a, b) = (tensor(&a, 1).to_dtype(element).unwrap(), tensor(&b, 2).to_dtype(element).unwrap());
        move || a.matmul(&b).unwrap()
    });
}

fn gather(forms: &mut Forms) {
    forms.add("index_select", || {
        let (taken, rows, len) = sizes::GATHER;
        let (x, at) =
            (tensor(&[rows, len], 1), Tensor::from_vec(places(taken, rows as u32, 7), taken, CPU).unwrap());
        move || x.index_select(&at, 0).unwrap()
    });
}

fn conv1d(forms: &mut Forms) {
    forms.add("conv1d", || {
        let (x, w) = (tensor(&sizes::SIGNALS, 1), tensor(&sizes::SIGNAL_WEIGHTS, 2));
        move || x.conv1d(&w, 2, 1, 1, 1).unwrap()
    });
}

fn depthwise(forms: &mut Forms) {
    forms.add("conv2d, groups", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(&sizes::IMAGES, 1), tensor(&[channels, 1, 3, 3], 2));
        move || x.conv2d(&w, 1, 1, 1, channels).unwrap()
    });
}

fn conv2d(forms: &mut Forms) {
    forms.add("conv2d", || {
        let channels = sizes::IMAGES[1];
        let (x, w) = (tensor(&sizes::IMAGES, 1), tensor(&[channels, channels, 3, 3], 2));
        move || x.conv2d(&w, 1, 1, 1, 1).unwrap()
    });
}
