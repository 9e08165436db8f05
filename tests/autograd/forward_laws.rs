//! Laws of forward mode: memory, zeros beside infinities, higher orders, arguments, elements, other devices.

use crate::check::random;
use crate::forward::{Bring, blend, difference, dot, positive, safe_sqrt};
use rankform::autograd::{Jvp, grad, grad_and_hvp, hvp, jvp};
use rankform::elementwise;
use rankform::prelude::*;

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
    let z = y.transposed().matmul(x)?.tanh()?.cumprod(Axis::<0>)?;
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
