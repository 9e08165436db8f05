//! Forward mode: against central differences and against the tape, for every mechanism; and its laws.

use rankform::autograd::{Jvp, Tape, Var, grad, grad_and_hvp, hvp, jvp};
use rankform::ops::{self, Attention, ClassLoss, Conv, Interpolate, Pad, Pool};
use rankform::prelude::*;
use rankform::{einsum, elementwise};

/// A number in (-1, 1) for each index and seed.
fn unit(seed: u64, k: usize) -> f64 {
    let mut z =
        (seed << 32 ^ k as u64).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ z >> 31) >> 12) as f64 / (1u64 << 51) as f64 - 1.0
}

fn random<const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<f64, RANK> {
    let values: Vec<f64> = (0..size.iter().product()).map(|k| unit(seed, k)).collect();
    Tensor::from_slice(&values, size, &Cpu).unwrap()
}

fn positive<const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<f64, RANK> {
    (random(size, seed).lazy() * 0.5 + 1.0).eval().unwrap()
}

/// Brings a tensor of the host onto a device, as a constant.
trait Bring: Device {
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

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A five-point difference of a function of one number.
fn difference(step: f64, f: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let [a, b, c, d] = [step, -step, 2.0 * step, -2.0 * step].map(&f);
    (0..a.len()).map(|k| (8.0 * (a[k] - b[k]) - (c[k] - d[k])) / (12.0 * step)).collect()
}

/// Compares the tangent of `f` along a random direction with differences, its values with those of `f` on the
/// host, and its product with a random vector with that of the gradient on a tape.
#[track_caller]
fn compare<const RANK: usize, const OUT: usize>(
    name: &str,
    x: &Tensor<f64, RANK>,
    host: impl Fn(&Tensor<f64, RANK>) -> Result<Tensor<f64, OUT>>,
    dual: impl Fn(&Tensor<f64, RANK, Jvp>) -> Result<Tensor<f64, OUT, Jvp>>,
    taped: impl Fn(&Var<f64, RANK>) -> Result<Var<f64, OUT>>,
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
    let pulled = tape.pull(&y, &w).unwrap_or_else(|error| fail(error)).of(&on_tape).unwrap();
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
            |$a: &Tensor<f64, _>| $body,
            |$a: &Tensor<f64, _, Jvp>| $body,
            |$a: &Var<f64, _>| $body,
        );
    )* };
}

elementwise! {
    fn gelu_by_tanh(x) { x * 0.5 * ((x * 0.7978845608 * (x * x * 0.044715 + 1.0)).tanh() + 1.0) }
    fn safe_sqrt(x) { x.gt(0.0).select(x.sqrt(), 0.0) }
    fn blend(a, b, c) { a * b + c.tanh() * a }
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
        "concat": x, |x| Tensor::concat(&[x.view(), x.exp()?.view()], Axis::<1>);
        "stack": x, |x| Tensor::stack(&[x.view(), x.exp()?.view()], Axis::<0>);
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
fn a_write_of_constants_ends_the_dependence() -> Result<()> {
    let x = random([3, 4], 41);
    let device = Jvp::new(&Cpu);
    let dual = device.dual(&x, &x)?;
    let c = device.constant(&random([4], 42))?;
    let mut y = dual.exp()?;
    y.view_mut()?.slice((1, ..))?.assign(&c)?;
    let tangent = device.tangent(&y)?;
    assert_eq!(tangent.slice((1, ..))?.to_vec()?, [0.0; 4], "a part by a copy");
    assert_ne!(tangent.slice((0, ..))?.to_vec()?, [0.0; 4]);
    y.view_mut()?.slice((.., (..).step(-2)))?.fill(3.0)?;
    let tangent = device.tangent(&y)?.to_vec()?;
    let zeros = [false, true, false, true, true, true, true, true, false, true, false, true];
    assert_eq!(tangent.iter().map(|&t| t == 0.0).collect::<Vec<_>>(), zeros, "a strided part by a fill");
    assert!(device.has_tangent(&y));
    y.fill(1.0)?;
    assert!(!device.has_tangent(&y), "the whole");
    Ok(())
}

#[test]
fn memory_is_shared_until_one_side_is_written() -> Result<()> {
    let (mut x, t) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    let device = Jvp::new(&Cpu);
    let mut y = device.dual(&x, &t)?;
    assert!(x.view_mut().is_err(), "the dual tensor is in the memory of x");
    let (value, tangent) = (device.value(&y)?, device.tangent(&y)?);
    y *= 10.0;
    assert_eq!((x.to_vec()?, t.to_vec()?), (vec![1.0, 2.0], vec![3.0, 4.0]));
    assert_eq!((value.to_vec()?, tangent.to_vec()?), (vec![1.0, 2.0], vec![3.0, 4.0]));
    assert_eq!(device.value(&y)?.to_vec()?, [10.0, 20.0]);
    assert_eq!(device.tangent(&y)?.to_vec()?, [30.0, 40.0]);
    drop((value, tangent));
    x.fill(5.0)?;
    assert_eq!(device.value(&y)?.to_vec()?, [10.0, 20.0]);
    Ok(())
}

#[test]
fn layouts_of_value_and_tangent_may_differ() -> Result<()> {
    let (x, t) = (random([4, 3], 43), random([3, 4], 44));
    let part = x.slice((1..3, ..))?.to_contiguous()?;
    let device = Jvp::new(&Cpu);
    let transposed = t.share_data().into_transposed()?;
    let y = device.dual(&x, &transposed)?.sin()?;
    let expected = (x.lazy().cos() * t.transposed()).eval()?;
    assert_eq!(device.tangent(&y)?.to_vec()?, expected.to_vec()?);
    let y = device.dual(&x.share_data().into_transposed()?, &t)?.sin()?;
    assert_eq!(device.tangent(&y)?.to_vec()?, (x.transposed().lazy().cos() * &t).eval()?.to_vec()?);
    assert_eq!(part.numel(), 6);
    Ok(())
}

#[test]
fn zeros_meet_infinities() -> Result<()> {
    let inf = f64::INFINITY;
    // The first element moves, the second does not.
    let (x, v) = (Tensor::from([2.0, 2.0]), Tensor::from([1.0, 0.0]));
    let c = Tensor::from([3.0, inf]);
    let tangent = |f: &dyn Fn(&Tensor<f64, 1, Jvp>, &Tensor<f64, 1, Jvp>) -> Result<Tensor<f64, 1, Jvp>>| {
        jvp(&x, &v, |x, device| f(x, &device.constant(&c)?))?.1.to_vec()
    };
    assert_eq!(tangent(&|x, c| (c.lazy() / x).eval())?[0], -0.75);
    assert_eq!(tangent(&|x, c| x.greater(1.0)?.select(&(x.lazy() * x).eval()?, c))?, [4.0, 0.0]);
    assert_eq!(tangent(&|x, c| (x.lazy() + c).eval())?, [1.0, 0.0]);
    assert_eq!(tangent(&|x, c| (x.lazy() / c).eval())?, [1.0 / 3.0, 0.0]);
    // No tangent flows to an infinite constant, whatever the other operands.
    let three = |x: &Tensor<f64, 1, Jvp>, c: &Tensor<f64, 1, Jvp>| {
        apply(blend, (c, &x.device().constant(&Tensor::from([1.0, 1.0]))?, x))
    };
    assert!((tangent(&three)?[0] - 3.0 / 2f64.cosh().powi(2)).abs() < 1e-15);
    let (_, slope) = jvp(&Tensor::from([inf]), &Tensor::from([1.0]), |x, device| {
        (x.lazy() * &device.constant(&Tensor::from([2.0]))?).eval()
    })?;
    assert_eq!(slope.to_vec()?, [2.0]);
    let (_, slope) =
        jvp(&Tensor::from([0.0, -1.0, 4.0]), &Tensor::from([0.0, 1.0, 1.0]), |x, _| x.map(safe_sqrt))?;
    assert_eq!(slope.to_vec()?, [0.0, 0.0, 0.25]);
    let (_, slope) = jvp(&Tensor::from([0.0, 0.0]), &Tensor::from([0.0, 0.0]), |x, _| x.norm(All))?;
    assert_eq!(slope.item()?, 0.0);
    Ok(())
}

#[test]
fn derivatives_of_second_order() -> Result<()> {
    let (x, v) = (random([3, 4], 51), random([3, 4], 52));
    let (first, second) = jvp(&x, &v, |x, device| {
        let v = device.constant(&v)?;
        Ok(jvp(x, &v, |x, _| (x.lazy().sin() * &x.softmax(Axis::<1>)?).sum(Axis::<1>))?.1)
    })?;
    let along = |by: f64| {
        let moved = (x.lazy() + v.lazy() * by).eval().unwrap();
        jvp(&moved, &v, |x, _| (x.lazy().sin() * &x.softmax(Axis::<1>)?).sum(Axis::<1>))
            .unwrap()
            .1
            .to_vec()
            .unwrap()
    };
    assert_eq!(first.to_vec()?, along(0.0));
    for (found, expected) in second.to_vec()?.iter().zip(difference(1e-3, along)) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }
    // A reducer whose slopes are 0 has a second derivative.
    let (x, v) = (Tensor::from([2.0, 2.0]), Tensor::from([1.0, 3.0]));
    let (first, second) = jvp(&x, &v, |x, device| {
        let v = device.constant(&v)?;
        Ok(jvp(x, &v, |x, _| x.var(All))?.1)
    })?;
    assert_eq!((first.item()?, second.item()?), (0.0, 2.0));
    // d/dx x · (d/dy (x + y)) = 1: the levels have types, so they cannot be confused.
    let (_, slope) = jvp(&Tensor::from(1.0), &Tensor::from(1.0), |x, device| {
        let one = device.constant(&Tensor::from(1.0))?;
        let inner = jvp(&one, &one, |y, inner| (inner.constant(x)?.lazy() + y).eval())?.1;
        (x.lazy() * &inner).eval()
    })?;
    assert_eq!(slope.item()?, 1.0);
    Ok(())
}

/// A function with rows, a product, a reduction, and a write into a part, on any device.
fn energy<D: Bring>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 0, D>> {
    let w = x.device().bring(&random([4, 3], 61))?;
    let mut y = x.matmul(&w)?.softmax(Axis::<1>)?;
    y.view_mut()?.slice((0, ..))?.assign(x.slice((1, ..3))?)?;
    let z = y.transposed().matmul(x)?.tanh()?;
    (z.lazy() * z.lazy().exp()).sum(All)?.add(&x.logsumexp(All)?)
}

#[test]
fn products_with_the_hessian_in_both_orders() -> Result<()> {
    let (x, v) = (random([3, 4], 62), random([3, 4], 63));
    let expected = hvp(&x, &v, |x, _| energy(x))?.to_vec()?;
    let close = |name: &str, found: Vec<f64>| {
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-13, "{name}: {found}, not {expected}");
        }
    };
    let (gradient, product) = grad_and_hvp(&x, &v, |x, _| energy(x))?;
    close("reverse over forward", product.to_vec()?);
    assert_eq!(gradient.to_vec()?, grad(&x, |x, _| energy(x))?.to_vec()?);

    // Forward over reverse: the gradient of the derivative along v.
    let product = grad(&x, |x, tape| {
        let v = tape.constant(&v)?;
        Ok(jvp(x, &v, |x, _| energy(x))?.1)
    })?;
    close("forward over reverse", product.to_vec()?);
    Ok(())
}

parameters! {
    struct Line<D> { w: Tensor<f64, 2, D>, b: Option<Tensor<f64, 1, D>> }
}

#[test]
fn several_arguments() -> Result<()> {
    let (x, w, b) = (random([5, 3], 71), random([3, 2], 72), random([2], 73));
    let (dw, db) = (random([3, 2], 74), random([2], 75));
    let (value, tangent) = jvp((&w, &b), (&dw, &db), |(w, b), device| {
        (device.constant(&x)?.matmul(w)?.lazy() + b.lift()).tanh().eval()
    })?;
    let slope = 1.0 - value.lazy().square();
    let expected = (slope * (x.matmul(&dw)?.lazy() + db.lift())).eval()?;
    for (found, expected) in tangent.to_vec()?.iter().zip(expected.to_vec()?) {
        assert!((found - expected).abs() < 1e-14);
    }
    let refused = jvp(vec![&b], vec![&db, &b], |x, _| x[0].sum(All)).unwrap_err().to_string();
    assert!(refused.contains("different lengths"), "{refused}");
    let (net, direction) = (Line { w, b: Some(b.share_data()) }, Line { w: dw, b: Some(db.share_data()) });
    let (_, of_struct) = jvp(&net, &direction, |net, device| {
        let b = net.b.as_ref().map(|b| b.lift());
        (device.constant(&x)?.matmul(&net.w)?.lazy() + b.unwrap()).tanh().eval()
    })?;
    assert_eq!(of_struct.to_vec()?, tangent.to_vec()?);
    let parts = [&b, &db];
    let (_, sum) = jvp(parts, parts, |[a, b], _| (a.lazy() * b).sum(All))?;
    assert!((sum.item()? - 2.0 * dot(&b.to_vec()?, &db.to_vec()?)).abs() < 1e-15);
    let (_, sum) = jvp(vec![&b, &db], vec![&b, &db], |both, _| (both[0].lazy() * &both[1]).sum(All))?;
    assert!((sum.item()? - 2.0 * dot(&b.to_vec()?, &db.to_vec()?)).abs() < 1e-15);
    Ok(())
}

#[test]
fn programs_of_many_operands() -> Result<()> {
    let parts: Vec<Tensor<f64, 1>> = (0..12).map(|k| random([5], 80 + k)).collect();
    elementwise! {
        fn wide(a, b, c, d, e, f, g, h, i, j, k, l) { a * b + c * d + e * f + g * h + i * j + k * l.sin() }
    }
    macro_rules! wide {
        ($x:expr) => {{
            let x = $x;
            apply(
                wide,
                (&x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6], &x[7], &x[8], &x[9], &x[10], &x[11]),
            )
        }};
    }
    let all: Vec<&Tensor<f64, 1>> = parts.iter().collect();
    let (value, tangent) = jvp(all.clone(), all, |x, _| wide!(x))?;
    assert_eq!(value.to_vec()?, wide!(&parts)?.to_vec()?);
    let moved = |by: f64| {
        let x: Vec<_> = parts.iter().map(|x| (x.lazy() * (1.0 + by)).eval().unwrap()).collect();
        wide!(&x).unwrap().to_vec().unwrap()
    };
    for (found, expected) in tangent.to_vec()?.iter().zip(difference(1e-3, moved)) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }
    // A fused sum: of the products of six pairs, whose derivative along themselves is twice the sum.
    let pairs: Vec<&Tensor<f64, 1>> = parts.iter().collect();
    let (value, tangent) = jvp(pairs.clone(), pairs, |x, _| {
        let [a, b, c] = [0, 4, 8].map(|k| x[k].lazy() * &x[k + 1] + x[k + 2].lazy() * &x[k + 3]);
        (a + b + c).sum(All)
    })?;
    assert!((tangent.item()? - 2.0 * value.item()?).abs() < 1e-14);
    // One load more than there is room for.
    let many: Vec<&Tensor<f64, 1>> = parts.iter().chain(&parts).collect();
    let refused = jvp(many.clone(), many, |x, _| {
        let [a, b, c, d, e] =
            [0, 4, 8, 12, 16].map(|k| x[k].lazy() * &x[k + 1] + x[k + 2].lazy() * &x[k + 3]);
        (a + b + c + d + e).eval()
    });
    let text = refused.unwrap_err().to_string();
    assert!(text.starts_with("jvp: "), "{text}");
    Ok(())
}

#[test]
fn other_elements() -> Result<()> {
    use rankform::Complex;
    let (x, v) = (Tensor::from([0.5_f32, -1.0, 2.0]), Tensor::from([1.0_f32, 0.5, -2.0]));
    let (_, tangent) = jvp(&x, &v, |x, _| x.tanh())?;
    for (k, found) in tangent.to_vec()?.into_iter().enumerate() {
        let (x, v) = (x.to_vec()?[k], v.to_vec()?[k]);
        assert!((found - (1.0 - x.tanh().powi(2)) * v).abs() < 1e-6);
    }
    // A derivative through another precision.
    let (_, tangent) = jvp(&x, &v, |x, _| x.cast::<f64>()?.square())?;
    assert_eq!(tangent.to_vec()?, [1.0, -1.0, -8.0]);
    let z = Tensor::from([Complex::new(1.0, 2.0), Complex::new(-0.5, 0.25)]);
    let dz = Tensor::from([Complex::new(0.5, -1.0), Complex::new(2.0, 1.0)]);
    let (_, holomorphic) = jvp(&z, &dz, |z, _| (z.lazy() * z).eval())?;
    let (_, not_holomorphic) = jvp(&z, &dz, |z, _| (z.lazy() * z.lazy().conj()).eval())?;
    let (_, norm) = jvp(&z, &dz, |z, _| z.norm(All))?;
    let (z, dz) = (z.to_vec()?, dz.to_vec()?);
    for k in 0..2 {
        assert!((holomorphic.to_vec()?[k] - z[k] * dz[k] * 2.0).norm() < 1e-15);
        assert!((not_holomorphic.to_vec()?[k] - (z[k] * dz[k].conj() + z[k].conj() * dz[k])).norm() < 1e-15);
    }
    let length = z.iter().map(|z| z.norm_sqr()).sum::<f64>().sqrt();
    let expected = z.iter().zip(&dz).map(|(z, dz)| (z.conj() * dz).re).sum::<f64>() / length;
    assert!((norm.item()? - expected).abs() < 1e-15);
    Ok(())
}

#[test]
fn sizes_without_data() -> Result<()> {
    let meta = Meta::new();
    let x = Tensor::<f32, 2, Meta>::zeros([128, 64], &meta)?;
    let (value, tangent) = jvp(&x, &x, |x, _| x.matmul(x.transposed())?.softmax(Axis::<1>)?.sum(Axis::<0>))?;
    assert_eq!((value.size(), tangent.size()), ([128].into(), [128].into()));
    assert!(tangent.to_vec().is_err());
    Ok(())
}

#[test]
fn one_kernel_computes_values_and_tangents() -> Result<()> {
    let meta = Meta::tracing();
    let x = Tensor::<f64, 2, Meta>::zeros([8, 4], &meta)?;
    let device = Jvp::new(&meta);
    let (dual, constant) = (device.dual(&x, &x)?, device.constant(&x)?);
    let kernels = || meta.kernels().len();
    let before = kernels();
    let y = (dual.lazy().exp() * &dual + &constant).tanh().eval()?;
    assert_eq!(kernels() - before, 1, "a fused program");
    let before = kernels();
    let _ = (constant.lazy().exp() * &constant).eval()?;
    assert_eq!(kernels() - before, 1, "a program of constants");
    assert!(!meta.kernels()[before].contains("store 1"), "it has one output: {}", meta.kernels()[before]);
    let before = kernels();
    let _ = y.sum(All)?;
    assert_eq!(kernels() - before, 2, "a sum and the sum of its tangents");
    Ok(())
}

#[test]
fn refusals_say_why() -> Result<()> {
    let x = positive([3], 91);
    let device = Jvp::new(&Cpu);
    let dual = device.dual(&x, &x)?;
    let text = |error: Result<Tensor<f64, 1, Jvp>>| error.unwrap_err().to_string();
    assert_eq!(
        device.dual(&x, &positive([4], 92)).unwrap_err().to_string(),
        "dual: sizes [3] and [4] do not broadcast"
    );
    let other = Jvp::new(&Cpu).dual(&x, &x)?;
    assert!(text(dual.add(&other)).starts_with("add: "), "{}", text(dual.add(&other)));
    assert!(device.value(&other).is_err() && device.tangent(&other).is_err() && !device.has_tangent(&other));
    // Discrete results have no tangent.
    assert!(!device.has_tangent(&dual.argmax(Axis::<0>)?) && !device.has_tangent(&dual.greater(1.0)?));
    assert!(!device.has_tangent(&dual.round()?), "a locally constant function");
    assert_eq!(device.tangent(&dual.round()?)?.to_vec()?, [0.0; 3]);
    Ok(())
}
