//! Gradients by complex numbers, `∂L/∂a + i ∂L/∂b`: of holomorphic functions and of others.

use crate::check::{close, difference, unit};
use num_complex::Complex;
use rankform::autograd::{Tape, Var, grad};
use rankform::prelude::*;

type C64 = Complex<f64>;

fn random<const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<C64, RANK> {
    let part = |k| 2.0 * unit(seed, k) - 1.0;
    let numel: usize = size.iter().product();
    let values: Vec<C64> = (0..numel).map(|k| Complex::new(part(2 * k), part(2 * k + 1))).collect();
    Tensor::from_slice(&values, size, &Cpu).unwrap()
}

/// `Re Σ conj(w) · y`.
fn weighted<const RANK: usize>(y: &Var<C64, RANK>, tape: &Tape) -> Result<Var<f64, 0>> {
    let w = tape.constant(&random(y.size().0, 99))?;
    (w.lazy().conj() * y).re().sum(All)
}

/// Compares the gradient of `Re Σ conj(w) · f(z)` with differences along both parts of each element.
#[track_caller]
fn check<const RANK: usize, const OUT: usize>(
    name: &str,
    z: &Tensor<C64, RANK>,
    f: impl Fn(&Var<C64, RANK>, &Tape) -> Result<Var<C64, OUT>>,
) {
    compare(name, z, &f);
}

/// Compiled once for each pair of ranks, and not for each function.
#[track_caller]
fn compare<const RANK: usize, const OUT: usize>(
    name: &str,
    z: &Tensor<C64, RANK>,
    f: &dyn Fn(&Var<C64, RANK>, &Tape) -> Result<Var<C64, OUT>>,
) {
    let found = grad(z, |z, tape| weighted(&f(z, tape)?, tape));
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}")).to_vec().unwrap();
    let values = z.to_vec().unwrap();
    let value = |k: usize, by: C64| {
        let mut moved = values.clone();
        moved[k] += by;
        let tape = Tape::new(&Cpu);
        let moved = tape.constant(&Tensor::from_slice(&moved, z.size().0, &Cpu).unwrap()).unwrap();
        weighted(&f(&moved, &tape).unwrap(), &tape).unwrap().item().unwrap()
    };
    for (k, slope) in found.iter().enumerate() {
        let expected = Complex::new(
            difference(1e-3, |by| value(k, Complex::new(by, 0.0))),
            difference(1e-3, |by| value(k, Complex::new(0.0, by))),
        );
        let error = (slope - expected).norm() / expected.norm().max(1.0);
        assert!(error < 1e-7, "{name}: element {k}: {slope}, not {expected}; {found:?}");
    }
}

#[test]
fn elementwise() {
    let z = random([2, 3], 1);
    check("a product", &z, |z, _| (z.lazy() * z * z).eval());
    check("a quotient", &z, |z, tape| tape.constant(&random([2, 3], 2))?.div(z));
    check("conj", &z, |z, _| z.conj());
    check("conj times itself", &z, |z, _| (z.lazy().conj() * z).eval());
    check("a sum with its conjugate", &z, |z, _| (z.lazy() + z.lazy().conj()).eval());
    check("beside two others", &z, |z, tape| {
        let (a, b) = (tape.constant(&random([2, 3], 3))?, tape.constant(&random([2, 3], 4))?);
        (z.lazy() * &a + z.lazy().conj() * &b * z).eval()
    });
    check("of a view", &z, |z, _| z.transposed().slice(((..).step(-1), ..))?.mul(2.0 * Complex::i()));
    check("broadcast", &random([1, 3], 5), |z, tape| z.mul(&tape.constant(&random([4, 3], 6))?));
}

#[test]
fn parts_and_moduli_are_real_functions() -> Result<()> {
    let z = random([4], 7);
    let values = z.to_vec()?;
    let of =
        |f: &dyn Fn(&Var<C64, 1>) -> Result<Var<f64, 0>>| grad(&z, |z, _| f(z)).unwrap().to_vec().unwrap();
    assert_eq!(of(&|z| z.lazy().re().sum(All)), vec![Complex::new(1.0, 0.0); 4]);
    assert_eq!(of(&|z| z.lazy().im().sum(All)), vec![Complex::new(0.0, 1.0); 4]);
    let same = |name: &str, found: Vec<C64>, expected: &dyn Fn(C64) -> C64| {
        for (found, z) in found.iter().zip(&values) {
            assert!((found - expected(*z)).norm() < 1e-12, "{name} {found} {}", expected(*z));
        }
    };
    same("|z|", of(&|z| z.lazy().modulus().sum(All)), &|z| z / z.norm());
    same("arg z", of(&|z| z.lazy().angle().sum(All)), &|z| Complex::new(-z.im, z.re) / z.norm_sqr());
    same("|z|²", of(&|z| z.lazy().modulus().square().sum(All)), &|z| 2.0 * z);
    same("Re z²", of(&|z| (z.lazy() * z).re().sum(All)), &|z| 2.0 * z.conj());
    Ok(())
}

#[test]
fn reductions_and_products() {
    let z = random([2, 3], 8);
    check("sum", &z, |z, _| z.sum(Axis::<1>));
    check("mean", &z, |z, _| z.mean(Axis::<0>));
    check("prod", &z, |z, _| z.prod(Axis::<1>));
    check("a fused sum", &z, |z, _| (z.lazy() * z.lazy().conj() * z).sum(Axis::<1>));
    check("matmul", &z, |z, tape| z.matmul(&tape.constant(&random([3, 2], 9))?));
    check("matmul, right", &z, |z, tape| tape.constant(&random([4, 2], 10))?.matmul(z));
    check("with its transpose", &z, |z, _| z.matmul(z.transposed()));
    check("with its adjoint", &z, |z, _| z.matmul(z.conj()?.transposed()));
    check("einsum", &z, |z, tape| einsum!("ij,jk->ki", z, &tape.constant(&random([3, 2], 11))?));
    check("cumsum", &z, |z, _| z.cumsum(Axis::<1>));
    check("conv1d", &random([1, 2, 5], 12), |z, tape| {
        z.conv1d(&tape.constant(&random([2, 2, 3], 13))?, Conv::new().padding([1]))
    });
    check("index_select", &z, |z, tape| {
        z.index_select(Axis::<1>, &tape.constant(&Tensor::from([2_i64, 0, 2]))?)
    });
    check("concat", &z, |z, _| Tensor::concat([z.view(), z.view()], Axis::<1>));
}

#[test]
fn real_reductions_of_complex_numbers() -> Result<()> {
    let z = random([5], 14);
    let values = z.to_vec()?;
    let of =
        |f: &dyn Fn(&Var<C64, 1>) -> Result<Var<f64, 0>>| grad(&z, |z, _| f(z)).unwrap().to_vec().unwrap();
    for (name, f) in [
        ("norm", &(|z: &Var<C64, 1>| z.norm(All)) as &dyn Fn(&Var<C64, 1>) -> Result<Var<f64, 0>>),
        ("norm_one", &|z| z.norm_one(All)),
        ("norm_max", &|z| z.norm_max(All)),
        ("var", &|z| z.var(All)),
        ("std", &|z| z.std(All)),
    ] {
        let found = of(f);
        let value = |k: usize, by: C64| {
            let mut moved = values.clone();
            moved[k] += by;
            let tape = Tape::new(&Cpu);
            f(&tape.constant(&Tensor::from_slice(&moved, [5], &Cpu).unwrap()).unwrap())
                .unwrap()
                .item()
                .unwrap()
        };
        for (k, slope) in found.iter().enumerate() {
            let re = difference(1e-3, |by| value(k, Complex::new(by, 0.0)));
            let im = difference(1e-3, |by| value(k, Complex::new(0.0, by)));
            assert!((slope - Complex::new(re, im)).norm() < 1e-8, "{name}: {slope}, not {re} + {im}i");
        }
    }
    Ok(())
}

#[test]
fn complex_numbers_as_pairs_share_the_gradient() -> Result<()> {
    let z = random([3], 15);
    let gradient = grad(&z, |z, _| {
        let pairs = z.view_as_real::<2>()?;
        (pairs.lazy() * pairs).sum(All)
    })?;
    let doubled: Vec<C64> = z.to_vec()?.iter().map(|z| 2.0 * z).collect();
    assert_eq!(gradient.to_vec()?, doubled);
    let x = Tensor::from([[1.0, 2.0], [-3.0, 0.5]]);
    let gradient = grad(&x, |x, _| {
        let z = x.view_as_complex::<1>()?;
        (z.lazy() * z).re().sum(All)
    })?;
    close("Re z²", &gradient.to_vec()?, &[2.0, -4.0, -6.0, -1.0]);
    Ok(())
}

#[test]
fn a_vector_jacobian_product_conjugates() -> Result<()> {
    // Of y = a·z the gradient is conj(a)·g.
    let (a, z, g) = (random([3], 16), random([3], 17), random([3], 18));
    let tape = Tape::new(&Cpu);
    let on_tape = tape.watch(&z)?;
    let gradient = tape.vjp(&on_tape.mul(&tape.constant(&a)?)?, &g)?.of(&on_tape)?;
    for ((found, a), g) in gradient.to_vec()?.iter().zip(a.to_vec()?).zip(g.to_vec()?) {
        assert!((found - a.conj() * g).norm() < 1e-14);
    }
    Ok(())
}
