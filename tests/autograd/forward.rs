//! Forward mode against central differences and against the tape, for every mechanism.

use crate::check::random;
use rankform::autograd::{Jvp, Tape, Var, jvp};
use rankform::ops::{self, Attention, ClassLoss, Conv, Interpolate, Pad, Pool};
use rankform::prelude::*;
use rankform::{einsum, elementwise};

pub fn positive<const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<f64, RANK> {
    (random(size, seed).lazy() * 0.5 + 1.0).eval().unwrap()
}

/// Brings a tensor of the host onto a device, as a constant.
pub trait Bring: Device {
    fn bring<T: Element, const RANK: usize>(&self, x: &Tensor<T, RANK>) -> Result<Tensor<T, RANK, Self>>;
}
impl Bring for Cpu {
    fn bring<T: Element, const RANK: usize>(&self, x: &Tensor<T, RANK>) -> Result<Tensor<T, RANK>> {
        Ok(x.share_data())
    }
}
impl<D: Bring> Bring for Jvp<D> {
    fn bring<T: Element, const RANK: usize>(&self, x: &Tensor<T, RANK>) -> Result<Tensor<T, RANK, Self>> {
        self.constant(&self.inner().bring(x)?)
    }
}
impl<D: Bring> Bring for Tape<D> {
    fn bring<T: Element, const RANK: usize>(&self, x: &Tensor<T, RANK>) -> Result<Tensor<T, RANK, Self>> {
        self.constant(&self.inner().bring(x)?)
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A five-point difference of a function of one number.
pub fn difference(step: f64, f: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let [a, b, c, d] = [step, -step, 2.0 * step, -2.0 * step].map(&f);
    (0..a.len()).map(|k| (8.0 * (a[k] - b[k]) - (c[k] - d[k])) / (12.0 * step)).collect()
}

/// Compares the tangent of `f` along a random direction with differences, its values with those of `f` on the
/// host, and its product with a random vector with that of the gradient on a tape.
#[track_caller]
fn compare<const RANK: usize, const OUT: usize>(
    name: &str,
    x: &Tensor<f64, RANK>,
    host: &dyn Fn(&Tensor<f64, RANK>) -> Result<Tensor<f64, OUT>>,
    dual: &dyn Fn(&Tensor<f64, RANK, Jvp>) -> Result<Tensor<f64, OUT, Jvp>>,
    taped: &dyn Fn(&Var<f64, RANK>) -> Result<Var<f64, OUT>>,
) {
    let fail = |error: rankform::Error| -> ! { panic!("{name}: {error}") };
    let v = random(x.size().0, 1001);
    let (value, tangent) = jvp(x, &v, |x, _| dual(x)).unwrap_or_else(|error| fail(error));
    let expected = host(x).unwrap_or_else(|error| fail(error)).to_vec().unwrap();
    assert_eq!(value.to_vec().unwrap(), expected, "{name}: values");
    let tangent_values = tangent.to_vec().unwrap();
    let moved = |by: f64| host(&(x.lazy() + v.lazy() * by).eval().unwrap()).unwrap().to_vec().unwrap();
    for (k, (found, expected)) in tangent_values.iter().zip(difference(1e-3, moved)).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < 1e-8, "{name}: element {k}: {found}, not {expected}");
    }
    assert!(tangent_values.iter().any(|t| t.abs() > 1e-3), "{name}: the function is constant");

    let w = random(tangent.size().0, 1002);
    let tape = Tape::new(&Cpu);
    let on_tape = tape.watch(x).unwrap();
    let y = taped(&on_tape).unwrap_or_else(|error| fail(error));
    let pulled = tape.vjp(&y, &w).unwrap_or_else(|error| fail(error)).of(&on_tape).unwrap();
    let back = dot(&pulled.to_vec().unwrap(), &v.to_vec().unwrap());
    let forth = dot(&w.to_vec().unwrap(), &tangent_values);
    assert!(
        (back - forth).abs() < 1e-12 * back.abs().max(1.0),
        "{name}: ⟨w, J v⟩ = {forth}, ⟨Jᵀ w, v⟩ = {back}"
    );
}

macro_rules! compare {
    ($($name:literal: $x:expr, |$a:ident| $body:expr;)*) => { $(
        compare(
            $name,
            &$x,
            &|$a: &Tensor<f64, _>| $body,
            &|$a: &Tensor<f64, _, Jvp>| $body,
            &|$a: &Var<f64, _>| $body,
        );
    )* };
}

elementwise! {
    fn gelu_by_tanh(x) { x * 0.5 * ((x * 0.7978845608 * (x * x * 0.044715 + 1.0)).tanh() + 1.0) }
    pub fn safe_sqrt(x) { x.gt(0.0).select(x.sqrt(), 0.0) }
    pub fn blend(a, b, c) { a * b + c.tanh() * a }
    fn sum_and_product(a, b) -> (T, T) { (a + b, a * b) }
}

#[test]
fn programs_of_elements() {
    let x = random([3, 4], 1);
    compare! {
        "square": x, |x| (x.lazy() * x).eval();
        "a user's operator": x, |x| x.map(gelu_by_tanh);
        "eager steps": x, |x| x.exp()?.sin();
        "one kernel": x, |x| ((x.lazy() * x + 1.0).sqrt() / (x.lazy().exp() + 2.0)).eval();
        "with a constant": x, |x| {
            let c = x.device().bring(&random([3, 4], 2))?;
            ((x.lazy() * &c).tanh() - x.lazy()).eval()
        };
        "constant first": x, |x| {
            let c = x.device().bring(&random([3, 4], 3))?;
            (c.lazy() / (x.lazy() + 3.0)).eval()
        };
        "three operands": x, |x| {
            let c = x.device().bring(&random([3, 4], 4))?;
            apply(blend, (x, &c, &x.exp()?))
        };
        "a broadcast row": x, |x| (x.lazy() - x.mean(Axis::<0>)?.lift()).square().eval();
        "a broadcast column": x, |x| {
            let c = x.sum(Axis::<1>)?;
            (x.lazy() * c.insert_axis(Axis::<1>)).eval()
        };
        "pow": positive([5], 5), |x| x.powf(x);
        "atan2": x, |x| { let c = x.device().bring(&positive([3, 4], 6))?; x.atan2(&c) };
        "max of two": x, |x| { let c = x.device().bring(&random([3, 4], 7))?; x.maximum(&c) };
        "erf and gamma": positive([6], 8), |x| (x.lazy().erf() + x.lazy().lgamma()).eval();
        "a safe root": Tensor::from([0.5, -0.4, 0.9, -0.7]), |x| x.map(safe_sqrt);
        "select": x, |x| x.greater(0.1)?.select(x, &x.exp()?);
        "clamp": x, |x| (x.lazy().clamp(-0.45, 0.45) * x).eval();
        "a cast there and back": x, |x| (x.lazy().cast::<i64>().cast::<f64>() + x.lazy().square()).eval();
        "in place": x, |x| { let mut y = x.exp()?; y += x; y *= &x.sin()?; Ok(y) };
        "in place with a constant": x, |x| {
            let mut y = x.device().bring(&random([3, 4], 9))?.copy()?;
            y += x;
            y *= 3.0;
            Ok(y)
        };
        "in place after use": x, |x| {
            let mut y = x.exp()?;
            let z = y.square()?;
            y *= x;
            (z.lazy() + &y).eval()
        };
        "two outputs": x, |x| {
            let (a, b) = apply_many(sum_and_product, (x, &x.exp()?))?;
            (a.lazy().sin() * &b).eval()
        };
    }
}

#[test]
fn rows_and_reductions() {
    let x = random([3, 4], 11);
    compare! {
        "softmax": x, |x| x.softmax(Axis::<1>);
        "softmax of columns": x, |x| x.softmax(Axis::<0>);
        "log_softmax": x, |x| x.log_softmax(Axis::<1>);
        "layer_norm": x, |x| x.layer_norm(Axis::<1>, 1e-5);
        "rms_norm": x, |x| x.rms_norm(Axis::<0>, 1e-5);
        "normalize": x, |x| x.normalize(Axis::<1>, 1e-12);
        "cosine similarity": x, |x| {
            let c = x.device().bring(&random([3, 4], 12))?;
            x.cosine_similarity(&c, Axis::<1>, 1e-8)
        };
        "a fused row": x, |x| {
            let c = x.device().bring(&random([3, 4], 13))?;
            ((x.lazy() * &c - x.lazy().square().mean_along(Axis::<1>)) * x.lazy().max_along(Axis::<1>)).eval()
        };
        "a row in place": x, |x| { let mut y = x.exp()?; let z = y.softmax(Axis::<1>)?; y += &z; Ok(y) };
        "cross entropy": x, |x| {
            let labels = x.device().bring(&Tensor::from([1_i64, 3, 0]))?;
            x.cross_entropy_mean(Axis::<1>, &labels, ClassLoss::new())
        };
        "sum": x, |x| x.sum(Axis::<0>);
        "a fused sum": x, |x| (x.lazy().exp() * x).sum(All);
        "mean": x, |x| x.mean(Axis::<1>);
        "max": x, |x| x.max(Axis::<1>);
        "min of all": x, |x| x.min(All);
        "prod": x, |x| x.prod(Axis::<1>);
        "logsumexp": x, |x| x.logsumexp(Axis::<0>);
        "norm": x, |x| x.norm(Axis::<1>);
        "var": x, |x| x.var(Axis::<1>);
        "mean and variance": x, |x| {
            let (mean, var) = x.mean_var(Axis::<1>)?;
            (mean.lazy() * &var + &mean).eval()
        };
        "sample_std": x, |x| x.sample_std(Axis::<0>);
        "a sum of two operands": x, |x| {
            let c = x.device().bring(&random([3, 4], 14))?;
            (x.lazy() * &c).sum(Axis::<1>)
        };
        "group_norm": random([1, 6, 2, 2], 15), |x| x.group_norm(3, 1e-5);
    }
}

#[test]
fn products_and_networks() {
    let (x, image) = (random([3, 4], 21), random([1, 3, 5, 5], 22));
    compare! {
        "matmul": x, |x| { let c = x.device().bring(&random([4, 2], 23))?; x.matmul(&c) };
        "matmul on the right": x, |x| { let c = x.device().bring(&random([2, 3], 24))?; c.matmul(x) };
        "matmul with itself": x, |x| x.matmul(x.transposed());
        "einsum": random([2, 2, 3, 4], 25), |q| einsum!("bhqd,bhkd->bhqk", q, &q.sin()?);
        "conv2d": image, |x| {
            let k = x.device().bring(&random([4, 3, 3, 3], 26))?;
            x.conv2d(&k, Conv::new().padding([1, 1]).stride([2, 1]))
        };
        "conv2d by its kernel": random([4, 3, 3, 3], 27), |k| {
            let x = k.device().bring(&random([1, 3, 5, 5], 28))?;
            x.conv2d(k, Conv::new().padding([1, 0]))
        };
        // A plane that is large enough for weights as numbers.
        "depthwise conv2d by its kernel": random([2, 1, 3, 3], 30), |k| {
            let x = k.device().bring(&random([1, 2, 27, 26], 31))?;
            x.conv2d(k, Conv::new().padding([1, 1]).groups(2))
        };
        "max_pool2d": image, |x| x.max_pool2d(Pool::new([2, 2]));
        "avg_pool2d": image, |x| x.avg_pool2d(Pool::new([3, 2]).stride([1, 1]));
        "interpolate": image, |x| x.interpolate_linear(Interpolate::new([9, 7]));
        "attention": random([1, 2, 3, 4], 29), |q| q.attention(q, &q.sin()?, None, Attention::new());
        "causal attention": random([1, 2, 3, 4], 30), |q| {
            q.attention(&q.cos()?, q, None, Attention::new().causal(true))
        };
    }
}

#[test]
fn movements_and_writes() {
    let x = random([3, 4], 31);
    compare! {
        "a slice": x, |x| x.slice((1.., (..).step(-2)))?.sin();
        "reshape and permute": x, |x| {
            let y = x.reshape([2, 6])?.permuted([1, 0])?.exp()?;
            (y.lazy() * &y).eval()
        };
        "windows": x, |x| x.windows(Axis::<1>, 2, 1)?.sin();
        "to_shape of a transpose": x, |x| x.transposed().to_shape([12])?.sin();
        "concat": x, |x| Tensor::concat([x.view(), x.exp()?.view()], Axis::<1>);
        "stack": x, |x| Tensor::stack([x.view(), x.exp()?.view()], Axis::<0>);
        "pad": x, |x| x.pad([(1, 0), (2, 1)], Pad::Reflect)?.square();
        "roll, repeat, tile": x, |x| x.roll(Axis::<0>, 1)?.repeat(Axis::<1>, 2)?.tile([2, 1])?.square();
        "gather": x, |x| {
            let i = x.device().bring(&Tensor::from([[0_i64, 0], [3, 1], [2, 2]]))?;
            x.gather(Axis::<1>, &i)?.square()
        };
        "index_select": x, |x| {
            let i = x.device().bring(&Tensor::from([2_i64, 0, 2]))?;
            x.index_select(Axis::<0>, &i)?.exp()
        };
        "masked_select": x, |x| x.masked_select(&x.greater(0.1)?)?.square();
        "sort": x, |x| x.sort(Axis::<1>);
        "sort down a column": x, |x| x.exp()?.sort(Axis::<0>);
        "topk": x, |x| Ok(x.topk(Axis::<1>, 2)?.0);
        "cumsum": x, |x| x.cumsum(Axis::<1>);
        "a fused cumsum": x, |x| {
            let c = x.device().bring(&random([3, 4], 32))?;
            (x.lazy() * &c).cumsum(Axis::<0>)
        };
        "cumprod": x, |x| x.cumprod(Axis::<1>);
        "cummax of columns": x, |x| x.cummax(Axis::<0>);
        "cummin from the end": x, |x| x.reversed(Axis::<1>).cummin(Axis::<1>);
        "a fused logcumsumexp": x, |x| (x.lazy() * x.lazy().sin()).logcumsumexp(Axis::<1>);
        "an exclusive scan": x, |x| x.exp()?.scan_exclusive(ops::CumProd, Axis::<1>)?.square();
        "tril": x, |x| x.exp()?.tril(0);
        "scatter with Add": x, |x| {
            let i = x.device().bring(&Tensor::from([[0_i64, 0], [3, 1], [2, 2]]))?;
            let mut y = x.exp()?;
            y.scatter(ops::Add, Axis::<1>, &i, x.slice((.., 1..3))?)?;
            Ok(y)
        };
        "scatter with Replace": x, |x| {
            let i = x.device().bring(&Tensor::from([[0_i64, 1], [3, 1], [2, 0]]))?;
            let mut y = x.exp()?;
            y.scatter(ops::Replace, Axis::<1>, &i, x.slice((.., 1..3))?)?;
            Ok(y)
        };
        "scatter of constants": x, |x| {
            let i = x.device().bring(&Tensor::from([[0_i64, 1], [3, 1], [2, 0]]))?;
            let c = x.device().bring(&random([3, 2], 33))?;
            let mut y = x.exp()?;
            y.scatter(ops::Replace, Axis::<1>, &i, &c)?;
            Ok(y)
        };
        "scatter to constants": x, |x| {
            let i = x.device().bring(&Tensor::from([[0_i64, 0, 3, 1], [3, 1, 1, 1], [2, 2, 0, 0]]))?;
            let mut y = x.device().bring(&random([3, 4], 34))?.copy()?;
            y.scatter(ops::Add, Axis::<1>, &i, x)?;
            Ok(y)
        };
        "assign a part": x, |x| {
            let mut y = x.exp()?;
            y.view_mut()?.slice((1, ..))?.assign(x.slice((0, ..))?)?;
            y.square()
        };
        "a part of constants": x, |x| {
            let mut y = x.device().bring(&random([3, 4], 35))?.copy()?;
            y.view_mut()?.slice((1, ..))?.assign(x.slice((0, ..))?)?;
            y.square()
        };
    }
}

#[test]
fn the_limit_of_loads_in_forward_mode_is_named() -> Result<()> {
    let x = random([3], 77);
    let eighteen = jvp(&x, &x, |x, _| {
        (x.lazy() + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x).eval()
    });
    assert!(eighteen.is_ok());
    let nineteen = jvp(&x, &x, |x, _| {
        (x.lazy() + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x).eval()
    });
    assert!(matches!(nineteen, Err(Error::Operands { op: "jvp", limit: 18 })));
    Ok(())
}
