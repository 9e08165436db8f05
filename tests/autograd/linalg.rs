//! Linear algebra on tapes and in forward mode: gradients against differences, of batches and of views,
//! second derivatives, the law of the adjoint, and the places without a derivative.

use crate::check::{random, weighted};
use rankform::autograd::{Jvp, Tape, Var, grad, gradient_error};
use rankform::linalg::{self, Factors, MatrixDevice, Triangle};
use rankform::prelude::*;

/// A function of matrices whose results are rows, one for each matrix.
trait Rows {
    fn rows<D: MatrixDevice<f64>>(&self, a: &Tensor<f64, 3, D>) -> Result<Tensor<f64, 2, D>>;
}

/// Results as rows.
fn flat<const RANK: usize, D: Device>(x: &Tensor<f64, RANK, D>) -> Result<Tensor<f64, 2, D>> {
    let size = x.size().0;
    x.view().to_shape([size[0], size[1..].iter().product()])
}

fn joined<D: Device, const K: usize>(parts: [Tensor<f64, 2, D>; K]) -> Result<Tensor<f64, 2, D>> {
    Tensor::concat(parts.each_ref().map(Tensor::view), Axis::<1>)
}

/// Each case: a name, and a function of matrices on any device.
macro_rules! cases {
    ($($name:ident = |$a:ident| $rows:expr;)*) => { $(
        struct $name;
        impl Rows for $name {
            fn rows<D: MatrixDevice<f64>>(&self, $a: &Tensor<f64, 3, D>) -> Result<Tensor<f64, 2, D>> {
                $rows
            }
        }
    )* };
}

cases! {
    Inverse = |a| flat(&linalg::inv(a)?);
    InverseOfView = |a| flat(&linalg::inv(a.permuted([0, 2, 1])?.slice((.., ((..).step(-1)), ..))?)?);
    Solution = |a| flat(&linalg::solve(a.slice((.., .., ..3))?, a.slice((.., .., 3..))?)?);
    SolutionOfVectors = |a| flat(&linalg::solve(a.slice((.., .., ..3))?, a.slice((..1, .., 3))?)?);
    Lower = |a| triangular(a, Triangle::Lower);
    Upper = |a| triangular(a, Triangle::Upper);
    UnitLower = |a| triangular(a, Triangle::UnitLower);
    UnitUpper = |a| triangular(a, Triangle::UnitUpper);
    Determinant = |a| linalg::det(a)?.into_shape([a.size()[0], 1]);
    LnDeterminant = |a| linalg::slogdet(a)?.ln_abs.into_shape([a.size()[0], 1]);
    Cholesky = |a| flat(&linalg::cholesky(a)?);
    CholeskyOfGram = |a| {
        let gram = a.matmul(a.permuted([0, 2, 1])?)?;
        flat(&linalg::cholesky(&gram)?)
    };
    OrthogonalTriangular = |a| {
        let found = linalg::qr(a, Factors::Thin)?;
        joined([flat(&found.q)?, flat(&found.r)?])
    };
    Singular = |a| {
        let found = linalg::svd(a, Factors::Thin)?;
        joined([flat(&found.u)?, found.s, flat(&found.vh)?])
    };
    SingularValues = |a| linalg::svd_values(a);
    Eigen = |a| {
        let found = linalg::eigh(a)?;
        joined([found.values, flat(&found.vectors)?])
    };
    Eigenvalues = |a| linalg::eigh_values(a);
}

fn triangular<D: MatrixDevice<f64>>(a: &Tensor<f64, 3, D>, triangle: Triangle) -> Result<Tensor<f64, 2, D>> {
    flat(&linalg::solve_triangular(a.slice((.., .., ..3))?, a.slice((.., .., 3..))?, triangle)?)
}

/// Compares the gradient of `Σ w · f(a)`, its gradient along a direction, and the tangent of `f` with what
/// they have to be.
#[track_caller]
fn check<F: Rows>(name: &str, f: &F, a: &Tensor<f64, 3>) {
    let error = gradient_error(a, 1e-5, |a, tape| weighted(&f.rows(a)?, tape)).unwrap();
    assert!(error < 1e-6, "{name}: {error:e}");
    let adjoint = || -> Result<[f64; 2]> {
        let direction = random(a.size().0, 51);
        let device = Jvp::new(&Cpu);
        let tangent = device.tangent(&f.rows(&device.dual(a, &direction)?)?)?;
        let tape = Tape::new(&Cpu);
        let on_tape = tape.watch(a)?;
        let y = f.rows(&on_tape)?;
        let v = random(y.size().0, 52);
        let gradient = tape.vjp(&y, &v)?.of(&on_tape)?;
        Ok([(v.lazy() * &tangent).sum(All)?.item()?, (gradient.lazy() * &direction).sum(All)?.item()?])
    };
    let [forward, backward] = adjoint().unwrap();
    let scale = forward.abs().max(1.0);
    assert!((forward - backward).abs() < 1e-11 * scale, "{name}: {forward} and {backward}");
    let second = gradient_error(a, 1e-5, |a, tape| {
        let gradient = grad(a, |a, inner| {
            let y = f.rows(a)?;
            let w = inner.constant(&tape.constant(&random(y.size().0, 53))?)?;
            (y.lazy() * &w).sum(All)
        })?;
        weighted(&gradient, tape)
    });
    let second = second.unwrap();
    assert!(second < 1e-5, "{name}: second derivatives: {second:e}");
}

/// Random matrices plus `by` on the diagonal.
fn shifted(size: [usize; 3], seed: u64, by: f64) -> Tensor<f64, 3> {
    let mut values = random(size, seed);
    for i in 0..size[1].min(size[2]) {
        let mut diagonal = values.view_mut().unwrap().slice((.., i, i)).unwrap();
        diagonal += by;
    }
    values
}

#[test]
fn inverses_and_solutions() {
    check("inv", &Inverse, &shifted([2, 3, 3], 1, 2.0));
    check("inv of a view", &InverseOfView, &shifted([2, 3, 3], 2, 2.0));
    check("solve", &Solution, &shifted([2, 3, 5], 3, 2.0));
    check("solve of a vector that stretches", &SolutionOfVectors, &shifted([2, 3, 4], 4, 2.0));
}

#[test]
fn triangular_solutions() {
    let a = shifted([2, 3, 5], 5, 2.0);
    check("lower", &Lower, &a);
    check("upper", &Upper, &a);
    check("unit lower", &UnitLower, &a);
    check("unit upper", &UnitUpper, &a);
}

#[test]
fn determinants() {
    check("det", &Determinant, &random([2, 3, 3], 6));
    check("slogdet", &LnDeterminant, &random([2, 3, 3], 7));
}

#[test]
fn cholesky_factors() {
    check("cholesky", &Cholesky, &shifted([2, 3, 3], 8, 3.0));
    check("cholesky of a product", &CholeskyOfGram, &shifted([2, 3, 3], 9, 2.0));
}

#[test]
fn qr_factors() {
    check("tall", &OrthogonalTriangular, &random([2, 4, 3], 10));
    check("square", &OrthogonalTriangular, &random([2, 3, 3], 11));
    check("wide", &OrthogonalTriangular, &random([2, 2, 4], 12));
}

#[test]
fn singular_values_and_vectors() {
    // Values 3, 2, 1 and what is random: no two are close.
    let apart = |size: [usize; 3], seed| {
        let mut a = random(size, seed).mul(0.2).unwrap();
        for i in 0..size[1].min(size[2]) {
            let mut diagonal = a.view_mut().unwrap().slice((.., i, i)).unwrap();
            diagonal += 3.0 - i as f64;
        }
        a
    };
    check("tall", &Singular, &apart([2, 4, 3], 13));
    check("square", &Singular, &apart([2, 3, 3], 14));
    check("wide", &Singular, &apart([2, 2, 4], 15));
    check("values", &SingularValues, &apart([2, 3, 2], 16));
}

#[test]
fn eigenvalues_and_eigenvectors() {
    let mut a = random([2, 3, 3], 17).mul(0.2).unwrap();
    for i in 0..3 {
        let mut diagonal = a.view_mut().unwrap().slice((.., i, i)).unwrap();
        diagonal += i as f64;
    }
    check("eigh", &Eigen, &a);
    check("eigh_values", &Eigenvalues, &a);
}

#[test]
fn one_matrix_and_more_leading_axes() -> Result<()> {
    let a = shifted([6, 2, 2], 18, 2.0);
    let each = grad(&a, |a, tape| weighted(&linalg::inv(a)?, tape))?;
    let a = a.into_shape([3, 2, 2, 2])?;
    let all = grad(&a, |a, tape| weighted(&flat(&linalg::inv(a)?)?, tape))?;
    assert_eq!(each.to_vec()?, all.to_vec()?);
    let a = Tensor::from([[2.0, 1.0], [0.0, 4.0]]);
    let gradient = grad(&a, |a, _| linalg::det(a))?;
    assert!(gradient.allclose(&Tensor::from([[4.0, 0.0], [-1.0, 2.0]]), 1e-14, 1e-14, false)?);
    let none = Tensor::<f64, 3>::zeros([0, 2, 2], &Cpu)?;
    assert_eq!(grad(&none, |a, _| linalg::svd(a, Factors::Thin)?.u.sum(All))?.size(), [0, 2, 2]);
    Ok(())
}

/// The texts of errors: of the forward pass, and of places without a derivative.
#[test]
fn errors_say_where() {
    let identity = Tensor::<f64, 2>::eye(2, &Cpu).unwrap();
    let text = |f: &dyn Fn(&Var<f64, 2>, &Tape) -> Result<Var<f64, 0>>, a: &Tensor<f64, 2>| {
        grad(a, f).unwrap_err().to_string()
    };
    let vectors = text(&|a, tape| weighted(&linalg::eigh(a)?.vectors, tape), &identity);
    assert_eq!(
        vectors,
        "eigh: the matrix has no derivative: eigenvalues are equal, and a result depends on their vectors \
         (0, 1)"
    );
    let vectors = text(&|a, tape| weighted(&linalg::svd(a, Factors::Thin)?.u, tape), &identity);
    assert!(vectors.starts_with("svd: the matrix has no derivative: singular values are equal"));
    let zero = Tensor::from([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]);
    let vectors = text(&|a, tape| weighted(&linalg::svd(a, Factors::Thin)?.u, tape), &zero);
    assert!(vectors.contains("a singular value is 0"), "{vectors}");
    let full = text(&|a, tape| weighted(&linalg::svd(a, Factors::Full)?.u, tape), &zero);
    assert_eq!(full, "svd: full factors have no derivative; `Factors::Thin` have");
    let singular = text(&|a, _| linalg::det(a), &Tensor::from([[1.0, 2.0], [2.0, 4.0]]));
    assert!(singular.starts_with("det: the matrix of sizes [2, 2] is singular"), "{singular}");
}

/// A matrix of a batch is named by its index along the leading axes, and values by their own operator.
#[test]
fn errors_name_the_matrix_and_the_operator() -> Result<()> {
    let eye = Tensor::<f64, 2>::eye(2, &Cpu)?;
    let mut a = shifted([6, 2, 2], 19, 2.0).into_shape([2, 3, 2, 2])?;
    a.view_mut()?.slice((1, 2, .., ..))?.assign(&eye)?;
    let of_eigh = grad(&a, |a, tape| weighted(&linalg::eigh(a)?.vectors, tape)).unwrap_err().to_string();
    assert!(of_eigh.starts_with("eigh: matrix [1, 2] has no derivative"), "{of_eigh}");
    let device = Jvp::new(&Cpu);
    let moved = device.dual(&a, &Tensor::ones([2, 3, 2, 2], &Cpu)?)?;
    let of_svd = linalg::svd(&moved, Factors::Thin).unwrap_err().to_string();
    assert!(of_svd.starts_with("svd: matrix [1, 2] has no derivative"), "{of_svd}");
    a.make_unique()?;
    a.view_mut()?.slice((0, 1, .., ..))?.fill(0.0)?;
    let of_inv = grad(&a, |a, tape| weighted(&linalg::inv(a)?, tape)).unwrap_err().to_string();
    assert!(of_inv.starts_with("inv: matrix [0, 1] of sizes [2, 2] is singular"), "{of_inv}");
    let of_det = grad(&a, |a, tape| weighted(&linalg::det(a)?, tape)).unwrap_err().to_string();
    assert!(of_det.starts_with("det: matrix [0, 1] of sizes [2, 2] is singular"), "{of_det}");
    let nan = eye.mul(f64::NAN)?;
    let of_nan = grad(&nan, |a, _| linalg::svd_values(a)?.sum(All)).unwrap_err().to_string();
    assert!(of_nan.starts_with("svd_values: the matrix of sizes [2, 2]"), "{of_nan}");
    let of_nan = grad(&nan, |a, _| linalg::eigh_values(a)?.sum(All)).unwrap_err().to_string();
    assert!(of_nan.starts_with("eigh_values: the matrix of sizes [2, 2]"), "{of_nan}");
    let moved = device.dual(&nan, &eye)?;
    let of_nan = linalg::svd_values(&moved).unwrap_err().to_string();
    assert!(of_nan.starts_with("svd_values: the matrix of sizes [2, 2]"), "{of_nan}");
    let of_nan = linalg::eigh_values(&moved).unwrap_err().to_string();
    assert!(of_nan.starts_with("eigh_values: the matrix of sizes [2, 2]"), "{of_nan}");
    Ok(())
}

#[test]
fn equal_values_without_vectors_have_a_gradient() -> Result<()> {
    let identity = Tensor::<f64, 2>::eye(2, &Cpu)?;
    let gradient = grad(&identity, |a, _| linalg::eigh_values(a)?.square()?.sum(All))?;
    assert!(gradient.allclose(&identity.mul(2.0)?, 1e-14, 1e-14, false)?);
    // The sum of singular values: u·v, which is one for all choices of vectors.
    let gradient = grad(&identity, |a, _| linalg::svd_values(a)?.sum(All))?;
    assert!(gradient.allclose(&identity, 1e-14, 1e-14, false)?);
    Ok(())
}

/// Results that are the same for every choice of vectors of equal values have a derivative, but not by those
/// vectors.
#[test]
fn vectors_of_equal_values_are_an_error_whatever_is_made_of_them() -> Result<()> {
    let identity = Tensor::<f64, 2>::eye(2, &Cpu)?;
    let double = identity.mul(2.0)?;
    let weights = Tensor::from([[1.0, 3.0], [3.0, 5.0]]);
    let squares = grad(&identity, |a, tape| {
        let found = linalg::eigh(a)?;
        let squares = found.values.square()?;
        let product = found.vectors.mul(squares.lift())?.matmul(found.vectors.permuted([1, 0])?)?;
        product.mul(&tape.constant(&weights)?)?.sum(All)
    });
    assert!(squares.unwrap_err().to_string().contains("eigenvalues are equal"));
    let same = grad(&double, |a, tape| {
        let found = linalg::svd(a, Factors::Thin)?;
        let product = found.u.mul(found.s.lift())?.matmul(&found.vh)?;
        product.mul(&tape.constant(&weights)?)?.sum(All)
    });
    assert!(same.unwrap_err().to_string().contains("singular values are equal"));
    let polar = grad(&double, |a, tape| {
        let found = linalg::svd(a, Factors::Thin)?;
        found.u.matmul(&found.vh)?.mul(&tape.constant(&weights)?)?.sum(All)
    });
    assert!(polar.unwrap_err().to_string().contains("singular values are equal"));
    let second = grad(&identity, |a, tape| {
        let gradient = grad(a, |a, _| linalg::eigh_values(a)?.square()?.sum(All))?;
        weighted(&gradient, tape)
    });
    assert!(second.unwrap_err().to_string().contains("eigenvalues are equal"));
    let second = grad(&double, |a, tape| {
        let gradient = grad(a, |a, _| linalg::svd_values(a)?.square()?.sum(All))?;
        weighted(&gradient, tape)
    });
    assert!(second.unwrap_err().to_string().contains("singular values are equal"));
    Ok(())
}

/// A NaN or an infinity in the gradient of a result makes gradients NaN: it says nothing of the values.
#[test]
fn gradients_that_are_nan_pass() -> Result<()> {
    for a in [Tensor::from([[2.0, 0.5], [0.5, 1.0]]), Tensor::<f64, 2>::eye(2, &Cpu)?] {
        let nan = grad(&a, |a, _| linalg::eigh(a)?.vectors.mul(f64::NAN)?.sum(All))?;
        assert!(nan.to_vec()?[0].is_nan(), "{nan}");
        let nan = grad(&a, |a, _| linalg::svd(a, Factors::Thin)?.u.mul(f64::NAN)?.sum(All))?;
        assert!(nan.to_vec()?.iter().all(|x| x.is_nan()), "{nan}");
    }
    let a = Tensor::from([[2.0, 0.5], [0.5, 1.0]]);
    for by in [f64::INFINITY, f64::NEG_INFINITY] {
        let gradient = grad(&a, |a, _| linalg::eigh(a)?.vectors.mul(by)?.sum(All))?;
        assert!(!gradient.to_vec()?[0].is_finite(), "{gradient}");
        let gradient = grad(&a, |a, _| linalg::svd(a, Factors::Thin)?.vh.mul(by)?.sum(All))?;
        assert!(!gradient.to_vec()?[0].is_finite(), "{gradient}");
    }
    let device = Jvp::new(&Cpu);
    let tangent = device.dual(&a, &Tensor::full([2, 2], f64::NAN, &Cpu)?)?;
    assert!(device.tangent(&linalg::eigh(&tangent)?.vectors)?.to_vec()?.iter().all(|x| x.is_nan()));
    assert!(device.tangent(&linalg::svd(&tangent, Factors::Thin)?.u)?.to_vec()?.iter().all(|x| x.is_nan()));
    Ok(())
}

/// Squares of singular values overflow or are 0; their derivatives are as those of moderate values.
#[test]
fn gradients_of_large_and_small_singular_values() -> Result<()> {
    let weights = Tensor::from([[0.5_f32, 2.0], [-1.0, 0.25]]);
    let direction = Tensor::from([[0.5_f32, 1.0], [-2.0, 0.75]]);
    let both = |scale: f32| -> Result<[Tensor<f32, 2>; 2]> {
        let a = Tensor::from([[3.0 * scale, 0.0], [0.0, scale]]);
        let gradient = grad(&a, |a, tape| {
            let found = linalg::svd(a, Factors::Thin)?;
            found.u.matmul(&found.vh)?.mul(&tape.constant(&weights)?)?.sum(All)
        })?;
        let device = Jvp::new(&Cpu);
        let found = linalg::svd(&device.dual(&a, &direction.mul(scale)?)?, Factors::Thin)?;
        Ok([gradient.mul(scale)?, device.tangent(&found.u)?])
    };
    let expected = both(1.0)?;
    for scale in [1e20, 1e-23] {
        for (found, expected) in both(scale)?.iter().zip(&expected) {
            assert!(found.allclose(expected, 1e-5, 1e-5, false)?, "{scale:e}: {found} and {expected}");
        }
    }
    assert!(expected.iter().all(|x| x.to_vec().unwrap().iter().any(|x| x.abs() > 0.1)));
    Ok(())
}
