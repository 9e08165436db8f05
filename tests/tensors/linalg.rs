//! Linear algebra: residuals and orthogonality by the ratios of LAPACK's tests, at most 30, on matrices of
//! every kind; batches, views, empty matrices, errors.
//!
//! The ratio of a residual `R` of an equation whose largest term is `T` is `‖R‖₁ / (‖T‖₁ · n · ε)`, `n` being
//! the larger size and ε the distance from 1 to the next number. Residuals are summed in f64 by plain loops.

use rankform::Complex;
use rankform::linalg::*;
use rankform::prelude::*;

type C = Complex<f64>;

/// The largest ratio that LAPACK's tests accept.
const LARGEST: f64 = 30.0;

trait Number4: MatrixElement<Part: Into<f64>> {
    const MAX: f64;
    const EPS: f64;
    const IS_COMPLEX: bool;
    fn of(value: C) -> Self;
    fn wide(self) -> C;
    fn wide_complex(value: Self::WithImaginary) -> C;
}

macro_rules! elements {
    ($($part:ident),*) => { $(
        impl Number4 for $part {
            const MAX: f64 = $part::MAX as f64;
            const EPS: f64 = $part::EPSILON as f64;
            const IS_COMPLEX: bool = false;
            fn of(value: C) -> Self { value.re as $part }
            fn wide(self) -> C { C::new(self.into(), 0.0) }
            fn wide_complex(value: Complex<$part>) -> C { C::new(value.re.into(), value.im.into()) }
        }
        impl Number4 for Complex<$part> {
            const MAX: f64 = $part::MAX as f64;
            const EPS: f64 = $part::EPSILON as f64;
            const IS_COMPLEX: bool = true;
            fn of(value: C) -> Self { Complex::new(value.re as $part, value.im as $part) }
            fn wide(self) -> C { C::new(self.re.into(), self.im.into()) }
            fn wide_complex(value: Complex<$part>) -> C { C::new(value.re.into(), value.im.into()) }
        }
    )* };
}
elements!(f32, f64);

/// A matrix for the oracle, by rows.
#[derive(Clone)]
struct M {
    rows: usize,
    columns: usize,
    of: Vec<C>,
}

impl M {
    fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> C) -> M {
        let of = (0..rows * columns).map(|i| f(i / columns, i % columns)).collect();
        M { rows, columns, of }
    }
    fn identity(n: usize) -> M {
        M::new(n, n, |i, j| C::from(f64::from(u8::from(i == j))))
    }
    fn at(&self, i: usize, j: usize) -> C {
        self.of[i * self.columns + j]
    }
    fn dot(&self, other: &M) -> M {
        assert_eq!(self.columns, other.rows);
        let mut product = M::new(self.rows, other.columns, |_, _| C::default());
        for i in 0..self.rows {
            for k in 0..self.columns {
                let left = self.at(i, k);
                for j in 0..other.columns {
                    product.of[i * other.columns + j] += left * other.at(k, j);
                }
            }
        }
        product
    }
    fn minus(&self, other: &M) -> M {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        M::new(self.rows, self.columns, |i, j| self.at(i, j) - other.at(i, j))
    }
    fn times(&self, factor: f64) -> M {
        M::new(self.rows, self.columns, |i, j| self.at(i, j) * factor)
    }
    fn adjoint(&self) -> M {
        M::new(self.columns, self.rows, |i, j| self.at(j, i).conj())
    }
    fn norm(&self) -> f64 {
        let sum = |j: usize| (0..self.rows).map(|i| self.at(i, j).norm()).sum::<f64>();
        let largest = (0..self.columns).map(sum).fold(0.0, f64::max);
        // A NaN must not vanish in a maximum.
        if self.of.iter().all(|x| x.re.is_finite() && x.im.is_finite()) { largest } else { f64::NAN }
    }
}

fn wide<'a, T: Number4>(x: impl IntoView<'a, T, 2, Cpu>) -> M {
    let x = x.into_view();
    let size = x.size().0;
    M { rows: size[0], columns: size[1], of: x.to_vec().unwrap().into_iter().map(T::wide).collect() }
}

fn narrow<T: Number4>(x: &M) -> Tensor<T, 2> {
    Tensor::from_vec(x.of.iter().map(|&x| T::of(x)).collect(), [x.rows, x.columns]).unwrap()
}

fn real_diagonal<T: Into<f64> + Copy>(values: &[T], rows: usize, columns: usize) -> M {
    M::new(rows, columns, |i, j| if i == j { C::from(values[i].into()) } else { C::default() })
}

#[track_caller]
fn small<T: Number4>(what: &str, residual: &M, term: f64, n: usize) {
    let ratio = residual.norm() / (term.max(f64::MIN_POSITIVE) * n.max(1) as f64 * T::EPS);
    let is_small = ratio <= LARGEST || residual.norm() == 0.0;
    assert!(is_small, "{what} of {n}: ratio {ratio:.1}, {}", std::any::type_name::<T>());
}

#[track_caller]
fn orthonormal_columns<T: Number4>(what: &str, q: &M) {
    let residual = q.adjoint().dot(q).minus(&M::identity(q.columns));
    small::<T>(what, &residual, 1.0, q.rows);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Random,
    Graded,
    Clustered,
    RankDeficient,
    Hilbert,
    NearOverflow,
    NearUnderflow,
}
use Kind::*;

const KINDS: [Kind; 7] = [Random, Graded, Clustered, RankDeficient, Hilbert, NearOverflow, NearUnderflow];

/// A number between −1 and 1 for each place.
fn noise(i: usize, j: usize, seed: u64) -> f64 {
    let mut x = (i as u64) << 32 ^ (j as u64) << 8 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn matrix<T: Number4>(kind: Kind, rows: usize, columns: usize) -> Tensor<T, 2> {
    let number =
        |i, j, seed| C::new(noise(i, j, seed), if T::IS_COMPLEX { noise(i, j, seed + 1) } else { 0.0 });
    narrow(&M::new(rows, columns, |i, j| match kind {
        Random => number(i, j, 1),
        Graded => number(i, j, 2) * 2.0_f64.powi(-((i + j) as i32) / 4),
        Clustered => number(i, j, 3) * (8.0 * T::EPS) + f64::from(u8::from(i == j)),
        RankDeficient => (0..rows.min(columns).div_ceil(2)).map(|k| number(i, k, 4) * number(k, j, 6)).sum(),
        Hilbert => C::from(1.0 / (i + j + 1) as f64),
        NearOverflow => number(i, j, 8) * (T::MAX / 4096.0),
        NearUnderflow => number(i, j, 10) / (T::MAX / 4096.0),
    }))
}

/// A power of 2 that brings the numbers of a kind near 1, for the oracle.
fn down<T: Number4>(kind: Kind) -> f64 {
    let exponent = T::MAX.log2().round() as i32 - 12;
    match kind {
        NearOverflow => 2.0_f64.powi(-exponent),
        NearUnderflow => 2.0_f64.powi(exponent),
        _ => 1.0,
    }
}

/// Runs `check` for every element; `$size`: matrices of several sizes, of every kind while they are small.
macro_rules! for_each_element {
    ($check:ident) => {
        $check::<f32>();
        $check::<f64>();
        $check::<Complex<f32>>();
        $check::<Complex<f64>>();
    };
}

fn each_square(mut check: impl FnMut(Kind, usize)) {
    for n in [1, 2, 3, 8, 33] {
        KINDS.iter().for_each(|&kind| check(kind, n));
    }
    check(Random, 64);
    check(Random, 100);
}

fn each_size(mut check: impl FnMut(Kind, usize, usize)) {
    each_square(|kind, n| check(kind, n, n));
    for (m, n) in [(1, 5), (5, 1), (8, 3), (3, 8), (40, 33), (33, 40)] {
        KINDS.iter().for_each(|&kind| check(kind, m, n));
    }
}

#[test]
fn the_factors_of_lu_give_the_matrix_with_its_rows_exchanged() {
    fn check<T: Number4>() {
        each_size(|kind, m, n| {
            let a = matrix::<T>(kind, m, n);
            let (found, down) = (lu(&a).unwrap(), down::<T>(kind));
            let (lower, upper) = (wide(&found.lower), wide(&found.upper).times(down));
            let rows = found.permutation.to_vec().unwrap();
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..m as i64).collect::<Vec<_>>());
            let a = wide(&a).times(down);
            let exchanged = M::new(m, n, |i, j| a.at(rows[i] as usize, j));
            small::<T>(&format!("lu {kind:?}"), &lower.dot(&upper).minus(&exchanged), a.norm(), m.max(n));
            for i in 0..m {
                for j in 0..lower.columns {
                    let x = lower.at(i, j);
                    assert!(if i > j {
                        x.norm() < 1.4143
                    } else {
                        x == C::from(f64::from(u8::from(i == j)))
                    });
                }
            }
            assert!((0..upper.rows).all(|i| (0..i.min(n)).all(|j| upper.at(i, j) == C::default())));
        });
    }
    for_each_element!(check);
}

#[test]
fn solutions_and_inverses_have_small_residuals() {
    fn check<T: Number4>() {
        each_square(|kind, n| {
            let (a, b) = (matrix::<T>(kind, n, n), matrix::<T>(Random, n, 3));
            let (x, inverse) = match (solve(&a, &b), inv(&a)) {
                (Ok(x), Ok(inverse)) => (x, inverse),
                (Err(error), Err(_)) => {
                    assert!(kind == RankDeficient && error.to_string().contains("is singular"), "{error}");
                    return;
                }
                _ => panic!("one is singular"),
            };
            let down = down::<T>(kind);
            let (a, x, inverse) =
                (wide(&a).times(down), wide(&x).times(1.0 / down), wide(&inverse).times(1.0 / down));
            small::<T>(&format!("solve {kind:?}"), &a.dot(&x).minus(&wide(&b)), a.norm() * x.norm(), n);
            let residual = inverse.dot(&a).minus(&M::identity(n));
            small::<T>(&format!("inv {kind:?}"), &residual, a.norm() * inverse.norm(), n);
            // A vector is one column of a matrix.
            let column = solve(&matrix::<T>(kind, n, n), b.slice((.., 1)).unwrap()).unwrap();
            let difference = wide(column.insert_axis(Axis::<1>)).times(1.0 / down);
            let residual = a.dot(&difference).minus(&wide(b.slice((.., 1..2)).unwrap()));
            small::<T>(&format!("solve {kind:?}"), &residual, a.norm() * difference.norm(), n);
        });
    }
    for_each_element!(check);
}

#[test]
fn triangular_systems_read_one_triangle() {
    fn check<T: Number4>() {
        each_square(|kind, n| {
            if matches!(kind, RankDeficient | Hilbert | NearUnderflow) {
                return;
            }
            let full = matrix::<T>(kind, n, n);
            let (b, down) = (matrix::<T>(Random, n, 3), down::<T>(kind));
            for triangle in [Triangle::Lower, Triangle::Upper, Triangle::UnitLower, Triangle::UnitUpper] {
                if kind == NearOverflow && matches!(triangle, Triangle::UnitLower | Triangle::UnitUpper) {
                    continue; // the solutions overflow
                }
                let is_unit = matches!(triangle, Triangle::UnitLower | Triangle::UnitUpper);
                let is_lower = matches!(triangle, Triangle::Lower | Triangle::UnitLower);
                let reads =
                    |i: usize, j: usize| (is_lower && i > j) || (!is_lower && i < j) || (i == j && !is_unit);
                let wide_a = wide(&full);
                // NaN where nothing is read.
                let poisoned =
                    M::new(
                        n,
                        n,
                        |i, j| {
                            if reads(i, j) { wide_a.at(i, j) } else { C::new(f64::NAN, f64::NAN) }
                        },
                    );
                let x = solve_triangular(&narrow::<T>(&poisoned), &b, triangle).unwrap();
                let down = if is_unit { 1.0 } else { down };
                let a = M::new(n, n, |i, j| match (reads(i, j), i == j) {
                    (true, _) => wide_a.at(i, j) * down,
                    (false, true) => C::from(1.0),
                    (false, false) => C::default(),
                });
                let x = wide(&x).times(1.0 / down);
                small::<T>(
                    &format!("{triangle:?} {kind:?}"),
                    &a.dot(&x).minus(&wide(&b)),
                    a.norm() * x.norm(),
                    n,
                );
            }
        });
    }
    for_each_element!(check);
}

/// `b · bᴴ` of a kind, with something on the diagonal: positive definite.
fn positive<T: Number4>(kind: Kind, n: usize) -> M {
    let b = wide(&matrix::<T>(kind, n, n)).times(down::<T>(kind));
    let product = b.dot(&b.adjoint());
    let shift = product.norm() * T::EPS * 8.0 * n as f64;
    let shifted = M::new(n, n, |i, j| product.at(i, j) + if i == j { shift } else { 0.0 });
    wide(&narrow::<T>(&shifted.times(1.0 / down::<T>(kind))))
}

#[test]
fn the_factor_of_cholesky_times_its_adjoint_is_the_matrix() {
    fn check<T: Number4>() {
        each_square(|kind, n| {
            let (a, down) = (positive::<T>(kind, n), down::<T>(kind));
            // The upper triangle is not read.
            let lower = M::new(n, n, |i, j| if i < j { C::new(f64::NAN, 0.0) } else { a.at(i, j) });
            let l = wide(&cholesky(&narrow::<T>(&lower)).unwrap()).times(down.sqrt());
            let a = a.times(down);
            small::<T>(&format!("cholesky {kind:?}"), &l.dot(&l.adjoint()).minus(&a), a.norm(), n);
            for i in 0..n {
                assert!(l.at(i, i).re > 0.0 && l.at(i, i).im == 0.0);
                assert!((i + 1..n).all(|j| l.at(i, j) == C::default()));
            }
        });
    }
    for_each_element!(check);
}

#[test]
fn qr_has_orthonormal_columns_and_gives_the_matrix() {
    fn check<T: Number4>() {
        each_size(|kind, m, n| {
            let (a, down) = (matrix::<T>(kind, m, n), down::<T>(kind));
            for factors in [Factors::Thin, Factors::Full] {
                let found = qr(&a, factors).unwrap();
                let (q, r) = (wide(&found.q), wide(&found.r).times(down));
                assert_eq!(q.columns, if factors == Factors::Full { m } else { m.min(n) });
                let a = wide(&a).times(down);
                small::<T>(&format!("qr {kind:?}"), &q.dot(&r).minus(&a), a.norm(), m.max(n));
                orthonormal_columns::<T>("q", &q);
                assert!((0..r.rows).all(|i| (0..i.min(n)).all(|j| r.at(i, j) == C::default())));
            }
        });
    }
    for_each_element!(check);
}

#[test]
fn svd_has_orthonormal_vectors_and_descending_values() {
    fn check<T: Number4>() {
        each_size(|kind, m, n| {
            let (a, down) = (matrix::<T>(kind, m, n), down::<T>(kind));
            let scaled = wide(&a).times(down);
            let values = svd_values(&a).unwrap().to_vec().unwrap();
            for factors in [Factors::Thin, Factors::Full] {
                let found = svd(&a, factors).unwrap();
                let s = found.s.to_vec().unwrap();
                let (u, vh) = (wide(&found.u), wide(&found.vh));
                let diagonal = real_diagonal(&s, u.columns, vh.rows).times(down);
                small::<T>(
                    &format!("svd {kind:?}"),
                    &u.dot(&diagonal).dot(&vh).minus(&scaled),
                    scaled.norm(),
                    m.max(n),
                );
                orthonormal_columns::<T>("u", &u);
                orthonormal_columns::<T>("vh", &vh.adjoint());
                let s: Vec<f64> = s.into_iter().map(Into::into).collect();
                assert!(s.is_sorted_by(|a, b| a >= b) && s.iter().all(|&s| s >= 0.0), "{s:?}");
                let largest = s.first().copied().unwrap_or(0.0);
                for (&one, &other) in s.iter().zip(&values) {
                    let other: f64 = other.into();
                    assert!((one - other).abs() <= LARGEST * T::EPS * largest * m.max(n) as f64);
                }
            }
        });
    }
    for_each_element!(check);
}

#[test]
fn eigenvectors_of_hermitian_matrices_are_orthonormal() {
    fn check<T: Number4>() {
        each_square(|kind, n| {
            let (b, down) = (wide(&matrix::<T>(kind, n, n)), down::<T>(kind));
            let a = M::new(n, n, |i, j| b.at(i, j) * 0.5 + b.at(j, i).conj() * 0.5);
            let a = wide(&narrow::<T>(&a));
            // The upper triangle is not read.
            let lower =
                narrow::<T>(&M::new(n, n, |i, j| if i < j { C::new(f64::NAN, 0.0) } else { a.at(i, j) }));
            let found = eigh(&lower).unwrap();
            let values: Vec<f64> = found.values.to_vec().unwrap().into_iter().map(Into::into).collect();
            let (a, v) = (a.times(down), wide(&found.vectors));
            let scaled = v.dot(&real_diagonal(&values, n, n).times(down));
            small::<T>(&format!("eigh {kind:?}"), &a.dot(&v).minus(&scaled), a.norm(), n);
            orthonormal_columns::<T>("vectors", &v);
            assert!(values.is_sorted(), "{values:?}");
            let alone: Vec<f64> =
                eigh_values(&lower).unwrap().to_vec().unwrap().into_iter().map(Into::into).collect();
            assert!(alone.is_sorted());
            for (one, other) in values.iter().zip(&alone) {
                assert!((one - other).abs() * down <= LARGEST * T::EPS * a.norm() * n as f64);
            }
        });
    }
    for_each_element!(check);
}

#[test]
fn eigenvectors_of_any_matrix_have_length_1() {
    fn check<T: Number4>() {
        each_square(|kind, n| {
            let (a, down) = (matrix::<T>(kind, n, n), down::<T>(kind));
            let found = eig(&a).unwrap();
            let values: Vec<C> = found.values.to_vec().unwrap().into_iter().map(T::wide_complex).collect();
            let vectors = found.vectors.to_vec().unwrap().into_iter().map(T::wide_complex).collect();
            let (a, v) = (wide(&a).times(down), M { rows: n, columns: n, of: vectors });
            let scaled = M::new(n, n, |i, j| v.at(i, j) * values[j] * down);
            small::<T>(&format!("eig {kind:?}"), &a.dot(&v).minus(&scaled), a.norm(), n);
            for j in 0..n {
                let length = (0..n).map(|i| v.at(i, j).norm_sqr()).sum::<f64>().sqrt();
                assert!((length - 1.0).abs() < LARGEST * T::EPS);
            }
            let trace: C = (0..n).map(|i| a.at(i, i)).sum();
            let alone: C = eig_values(&narrow::<T>(&a.times(1.0 / down)))
                .unwrap()
                .iter()
                .map(|&x| T::wide_complex(x) * down)
                .sum();
            assert!((trace - alone).norm() <= LARGEST * T::EPS * a.norm() * n as f64);
            if !T::IS_COMPLEX {
                let conjugates = values.iter().filter(|x| x.im != 0.0);
                assert_eq!(
                    conjugates.clone().count(),
                    conjugates.filter(|x| values.contains(&x.conj())).count()
                );
            }
        });
    }
    for_each_element!(check);
}

/// Matrices with fewer eigenvectors than rows: a block of Jordan, a shift, a triangle of ones, one with two
/// blocks, and a triangle whose diagonal repeats a number nearly.
fn defective<T: Number4>(n: usize) -> [Tensor<T, 2>; 5] {
    let one = |is_one: bool| f64::from(u8::from(is_one));
    let matrix = |f: &dyn Fn(usize, usize) -> f64| narrow::<T>(&M::new(n, n, |i, j| C::from(f(i, j))));
    [
        matrix(&|i, j| 2.0 * one(i == j) + one(i + 1 == j)),
        matrix(&|i, j| one(i + 1 == j)),
        matrix(&|i, j| one(i <= j)),
        matrix(&|i, j| one(i == j) + one(i + 1 == j && j != n / 2)),
        matrix(&|i, j| one(i + 1 == j) + one(i == j) * (1.0 + T::EPS * (n * (i % 2)) as f64)),
    ]
}

#[test]
fn eigenvectors_of_defective_matrices_are_finite() {
    fn check<T: Number4>() {
        for n in [2, 3, 8, 10, 12, 24, 30, 32, 50] {
            for (kind, tensor) in defective::<T>(n).iter().enumerate() {
                let found = eig(tensor).unwrap();
                let values: Vec<C> =
                    found.values.to_vec().unwrap().into_iter().map(T::wide_complex).collect();
                let of = found.vectors.to_vec().unwrap().into_iter().map(T::wide_complex).collect();
                let (a, v) = (wide(tensor), M { rows: n, columns: n, of });
                let scaled = M::new(n, n, |i, j| v.at(i, j) * values[j]);
                small::<T>(&format!("eig of defective {kind}"), &a.dot(&v).minus(&scaled), a.norm(), n);
                for j in 0..n {
                    let length = (0..n).map(|i| v.at(i, j).norm_sqr()).sum::<f64>().sqrt();
                    assert!((length - 1.0).abs() < LARGEST * T::EPS, "{kind} of {n}: {length}");
                }
            }
        }
    }
    for_each_element!(check);
}

#[test]
fn pivots_without_a_finite_reciprocal_are_divided_by() {
    let (a, b) = (Tensor::from([[1e-310]]), Tensor::from([[0.0]]));
    assert_eq!(solve(&a, &a).unwrap(), Tensor::from([[1.0]]));
    assert_eq!(solve(&a, &b).unwrap(), b);
    assert_eq!(solve_triangular(&a, &a, Triangle::Lower).unwrap(), Tensor::from([[1.0]]));
    assert_eq!(inv(&a).unwrap(), Tensor::from([[f64::INFINITY]]));
    assert_eq!(lstsq(&a, &a, None).unwrap().x, Tensor::from([[1.0]]));
    let a = Tensor::from([[1e-310_f64, 1.0], [0.0, 1e10]]);
    assert!((det(&a).unwrap().item().unwrap() / 1e-300 - 1.0).abs() < 1e-12);
    let found = slogdet(&a).unwrap();
    let expected = 1e-310_f64.ln() + 1e10_f64.ln();
    assert_eq!(found.sign.item().unwrap(), 1.0);
    assert!((found.ln_abs.item().unwrap() - expected).abs() < 1e-9);
    let found = lu(&a).unwrap();
    assert_eq!((found.lower, &found.upper), (Tensor::eye(2, &Cpu).unwrap(), &a));
    // Tiny pivots with solutions of ordinary size, and rows that are exchanged.
    fn check<T: Number4>() {
        let tiny = 1.0 / T::MAX / 8.0;
        let part = if T::IS_COMPLEX { 1.0 } else { 0.0 };
        let a = M::new(3, 3, |i, j| C::new(noise(i, j, 90), part * noise(i, j, 91)) * tiny);
        let (a, x) = (narrow::<T>(&a), narrow::<T>(&M::new(3, 2, |i, j| C::from((i + 2 * j) as f64 + 1.0))));
        let b = narrow::<T>(&wide(&a).dot(&wide(&x)));
        let close = |found: &M| {
            // The elements have few bits: 1 and its neighbours are far apart there.
            found.minus(&wide(&x)).norm() < 1e-3 * x.numel() as f64
        };
        if T::EPS < 1e-10 {
            assert!(close(&wide(&solve(&a, &b).unwrap())));
            assert!(close(&wide(&lstsq(&a, &b, None).unwrap().x)));
        } else {
            assert!(wide(&solve(&a, &b).unwrap()).norm().is_finite());
        }
        let sign = wide_sign::<T>(&a);
        assert!((sign - 1.0).abs() < LARGEST * T::EPS, "{sign}");
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let diagonal = narrow::<T>(&M::new(2, 2, |i, j| match i == j {
                true => C::new(tiny, part * tiny),
                false => C::default(),
            }));
            let found = wide(&solve_triangular(&diagonal, &diagonal, triangle).unwrap());
            small::<T>("triangle", &found.minus(&M::identity(2)), 1.0, 2);
        }
    }
    fn wide_sign<T: Number4>(a: &Tensor<T, 2>) -> f64 {
        slogdet(a).unwrap().sign.item().unwrap().wide().norm()
    }
    for_each_element!(check);
}

#[test]
fn the_sign_of_a_real_determinant_is_exact() {
    for x in [49.0_f64, 3.0, 1e300, 1e-300, 1e-310, f64::MAX] {
        assert_eq!(slogdet(&Tensor::from([[x]])).unwrap().sign.item().unwrap(), 1.0);
        assert_eq!(slogdet(&Tensor::from([[-x]])).unwrap().sign.item().unwrap(), -1.0);
    }
    for n in 1..20 {
        let x = slogdet(&matrix::<f32>(Random, n, n)).unwrap().sign.item().unwrap();
        assert!(x == 1.0 || x == -1.0);
    }
}

#[test]
fn a_pseudoinverse_meets_the_conditions_of_penrose() {
    fn check<T: Number4>() {
        each_size(|kind, m, n| {
            if matches!(kind, Hilbert | Graded) && m.min(n) > 3 {
                return; // no gap between the singular values that count and the others
            }
            let (tensor, down) = (matrix::<T>(kind, m, n), down::<T>(kind));
            let (a, x) = (wide(&tensor).times(down), wide(&pinv(&tensor, None).unwrap()).times(1.0 / down));
            let (ax, xa) = (a.dot(&x), x.dot(&a));
            let large = a.norm() * x.norm();
            small::<T>(&format!("a·x·a {kind:?}"), &ax.dot(&a).minus(&a), a.norm() * large, m.max(n));
            small::<T>(&format!("x·a·x {kind:?}"), &xa.dot(&x).minus(&x), x.norm() * large, m.max(n));
            small::<T>(&format!("a·x {kind:?}"), &ax.minus(&ax.adjoint()), large, m.max(n));
            small::<T>(&format!("x·a {kind:?}"), &xa.minus(&xa.adjoint()), large, m.max(n));
            // Least squares by the same values.
            let b = matrix::<T>(Random, m, 2);
            let found = lstsq(&tensor, &b, None).unwrap();
            let difference = wide(&found.x).times(1.0 / down).minus(&x.dot(&wide(&b)));
            small::<T>(&format!("lstsq {kind:?}"), &difference, x.norm() * large, m.max(n));
            let rank = matrix_rank(&tensor, None).unwrap().item().unwrap();
            let expected = if kind == RankDeficient { m.min(n).div_ceil(2) } else { m.min(n) };
            assert_eq!((rank, found.rank.item().unwrap()), (expected as i64, expected as i64));
        });
    }
    for_each_element!(check);
}

/// The determinant of a matrix of integers, exactly (Bareiss).
fn exact(mut a: Vec<Vec<i128>>) -> i128 {
    let (n, mut sign, mut before) = (a.len(), 1, 1);
    for k in 0..n.saturating_sub(1) {
        match (k..n).find(|&i| a[i][k] != 0) {
            None => return 0,
            Some(i) if i != k => {
                a.swap(i, k);
                sign = -sign;
            }
            _ => {}
        }
        for i in k + 1..n {
            for j in k + 1..n {
                a[i][j] = (a[i][j] * a[k][k] - a[i][k] * a[k][j]) / before;
            }
        }
        before = a[k][k];
    }
    a.last().map_or(1, |row| sign * row[n - 1])
}

#[test]
fn determinants_of_integers_are_near_the_exact_ones() {
    fn check<T: Number4>() {
        for n in 0..=8 {
            for seed in 0..6 {
                let whole = |i, j| (noise(i, j, 20 + seed) * 5.0).round();
                let expected =
                    exact((0..n).map(|i| (0..n).map(|j| whole(i, j) as i128).collect()).collect()) as f64;
                let a = narrow::<T>(&M::new(n, n, |i, j| C::from(whole(i, j))));
                let scale = 5.0_f64.powi(n as i32) * (n.max(1) as f64).powf(n as f64 / 2.0);
                let found = det(&a).unwrap().item().unwrap().wide();
                assert!((found - expected).norm() <= LARGEST * T::EPS * scale, "{n}: {found} for {expected}");
                let Slogdet { sign, ln_abs } = slogdet(&a).unwrap();
                let (sign, ln_abs): (C, f64) = (sign.item().unwrap().wide(), ln_abs.item().unwrap().into());
                assert!((sign * ln_abs.exp() - expected).norm() <= LARGEST * T::EPS * scale * 10.0);
                assert!(sign == C::default() || (sign.norm() - 1.0).abs() < LARGEST * T::EPS);
            }
        }
        // A determinant that overflows, and one of every pivot near the smallest number.
        for kind in [NearOverflow, NearUnderflow] {
            let found = slogdet(&matrix::<T>(kind, 8, 8)).unwrap();
            let ln_abs: f64 = found.ln_abs.item().unwrap().into();
            assert!(ln_abs.is_finite() && ln_abs.abs() > 8.0 * 50.0);
            assert!((found.sign.item().unwrap().wide().norm() - 1.0).abs() < LARGEST * T::EPS);
        }
        let found = slogdet(&narrow::<T>(&M::new(2, 2, |_, _| C::from(1.0)))).unwrap();
        assert_eq!(found.sign.item().unwrap().wide(), C::default());
        assert_eq!(found.ln_abs.item().unwrap().into(), f64::NEG_INFINITY);
    }
    for_each_element!(check);
}

#[test]
fn powers_are_repeated_products() {
    fn check<T: Number4>() {
        for n in [1, 2, 3, 8] {
            let tensor = matrix::<T>(Random, n, n);
            let (a, inverse) = (wide(&tensor), wide(&inv(&tensor).unwrap()));
            for power in -5_i64..=9 {
                let base = if power < 0 { &inverse } else { &a };
                let (mut expected, mut large) = (M::identity(n), 1.0);
                for _ in 0..power.unsigned_abs() {
                    expected = expected.dot(base);
                    large *= base.norm().max(1.0);
                }
                let found = wide(&matrix_power(&tensor, power).unwrap());
                let steps = power.unsigned_abs().max(1) as f64;
                small::<T>("matrix_power", &found.minus(&expected), large * steps, n);
            }
        }
    }
    for_each_element!(check);
}

#[test]
fn exponentials_equal_the_series_and_closed_forms() {
    fn check<T: Number4>() {
        for n in [0, 1, 2, 3, 8, 33] {
            for size in [1e-9, 0.1, 1.0, 3.0] {
                let tensor = narrow::<T>(&wide(&matrix::<T>(Random, n, n)).times(size / n.max(1) as f64));
                let a = wide(&tensor);
                let (mut expected, mut term) = (M::identity(n), M::identity(n));
                for k in 1..60 {
                    term = term.dot(&a).times(1.0 / f64::from(k));
                    expected = M::new(n, n, |i, j| expected.at(i, j) + term.at(i, j));
                }
                let found = wide(&matrix_exp(&tensor).unwrap());
                small::<T>("matrix_exp", &found.minus(&expected), a.norm().exp(), n);
            }
        }
        // Squarings: a diagonal of large numbers, and a rotation by many turns.
        let diagonal = narrow::<T>(&real_diagonal(&[20.0, -20.0, 0.5], 3, 3));
        let found = wide(&matrix_exp(&diagonal).unwrap());
        for (i, x) in [20.0_f64, -20.0, 0.5].into_iter().enumerate() {
            assert!((found.at(i, i).re / x.exp() - 1.0).abs() < LARGEST * T::EPS * 20.0);
        }
        let angle = 64.0 * std::f64::consts::PI + 0.25;
        let turn = M::new(2, 2, |i, j| C::from([[0.0, -angle], [angle, 0.0]][i][j]));
        let found = wide(&matrix_exp(&narrow::<T>(&turn)).unwrap());
        let expected =
            M::new(2, 2, |i, j| C::from([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]][i][j]));
        small::<T>("matrix_exp", &found.minus(&expected), angle, 2);
    }
    for_each_element!(check);
}

#[test]
fn powers_begin_with_a_copy() {
    let power = |a: [[f64; 2]; 2], n| matrix_power(&Tensor::from(a), n).unwrap();
    let found = power([[1e200, 0.0], [0.0, 1.0]], 2);
    assert_eq!((found[[0, 0]], found[[1, 1]]), (f64::INFINITY, 1.0));
    let bits = |x: Tensor<f64, 2>| x.to_vec().unwrap().into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let a = [[-0.0, 0.1], [1e308, -0.0]];
    assert_eq!(bits(power(a, 1)), bits(Tensor::from(a)));
    let b = [[3.0, 0.1], [7.0, -2.0]];
    assert_eq!(bits(power(b, -1)), bits(inv(&Tensor::from(b)).unwrap()));
    assert_eq!(power(a, 0), Tensor::eye(2, &Cpu).unwrap());
}

#[test]
fn exponentials_of_matrices_whose_norm_overflows() {
    let found = matrix_exp(&Tensor::from([[1e308, 1e308], [1e308, 1e308]])).unwrap();
    assert_eq!(found, Tensor::from([[f64::INFINITY; 2]; 2]));
    let found = matrix_exp(&Tensor::from([[3e38_f32, 3e38], [3e38, 3e38]])).unwrap();
    assert_eq!(found, Tensor::from([[f32::INFINITY; 2]; 2]));
}

#[test]
fn values_of_the_largest_matrices_are_finite() {
    fn check<T: Number4>() {
        // Above half of the largest number.
        let big = T::MAX * 0.6;
        let near = |x: f64| (x / big - 1.0).abs() < LARGEST * T::EPS;
        let diagonal = |x: f64, y: f64| narrow::<T>(&real_diagonal(&[x, y], 2, 2));
        let (a, b) = (diagonal(big, 1.0), diagonal(big, big));
        let list = |values: Vec<T::Part>| values.into_iter().map(Into::into).collect::<Vec<f64>>();
        for factors in [Factors::Thin, Factors::Full] {
            let s = list(svd(&a, factors).unwrap().s.to_vec().unwrap());
            assert!(near(s[0]) && s[1].abs() < big * T::EPS, "{s:?}");
        }
        let s = list(svd_values(&b).unwrap().to_vec().unwrap());
        assert!(near(s[0]) && near(s[1]), "{s:?}");
        for (x, least) in [(&a, 1.0), (&diagonal(big, 0.0), 0.0)] {
            let values = list(eigh_values(x).unwrap().to_vec().unwrap());
            assert!(near(values[1]) && (values[0] - least).abs() <= big * T::EPS, "{values:?}");
            assert!(near(list(eigh(x).unwrap().values.to_vec().unwrap())[1]));
            let values: Vec<C> = eig_values(x).unwrap().iter().map(|&x| T::wide_complex(x)).collect();
            assert!(values.iter().any(|x| near(x.re)), "{values:?}");
            assert!(values.iter().all(|x| x.re.is_finite() && x.im == 0.0), "{values:?}");
        }
        let found = wide(&pinv(&a, None).unwrap());
        assert!((found.at(0, 0).re * big - 1.0).abs() < 1e-2 && found.at(1, 1) == C::default());
        assert_eq!(matrix_rank(&a, None).unwrap().item().unwrap(), 1);
        assert_eq!(matrix_rank(&b, None).unwrap().item().unwrap(), 2);
        let condition: f64 = cond(&b).unwrap().item().unwrap().into();
        assert!((condition - 1.0).abs() < LARGEST * T::EPS);
        // The largest singular value overflows, of the matrix of ones by 2.
        let full = narrow::<T>(&M::new(2, 2, |_, _| C::from(big)));
        assert_eq!(svd_values(&full).unwrap().to_vec().unwrap()[0].into(), f64::INFINITY);
        assert_eq!(matrix_rank(&full, None).unwrap().item().unwrap(), 1);
        assert_eq!(lstsq(&full, &full, None).unwrap().rank.item().unwrap(), 1);
        let found = wide(&pinv(&full, None).unwrap());
        assert!(found.of.iter().all(|x| (x.re * big * 4.0 - 1.0).abs() < 1e-2), "{:?}", found.of);
    }
    for_each_element!(check);
}

/// The results of every function, as bytes.
fn all_results(a: TensorView<'_, f64, 2>, b: TensorView<'_, f64, 2>) -> Vec<Vec<u64>> {
    fn bits<const RANK: usize>(x: &Tensor<f64, RANK>) -> Vec<u64> {
        x.to_vec().unwrap().into_iter().map(f64::to_bits).collect()
    }
    fn of_complex<const RANK: usize>(x: &Tensor<C, RANK>) -> Vec<u64> {
        x.to_vec().unwrap().into_iter().flat_map(|x| [x.re.to_bits(), x.im.to_bits()]).collect()
    }
    let (lu, qr, svd, eigh, eig) = (
        lu(a).unwrap(),
        qr(a, Factors::Full).unwrap(),
        svd(a, Factors::Full).unwrap(),
        eigh(a).unwrap(),
        eig(a).unwrap(),
    );
    let least = lstsq(a, b, None).unwrap();
    vec![
        bits(&solve(a, b).unwrap()),
        bits(&inv(a).unwrap()),
        bits(&pinv(a, None).unwrap()),
        bits(&lu.lower),
        bits(&lu.upper),
        bits(&qr.q),
        bits(&qr.r),
        bits(&svd.u),
        bits(&svd.s),
        bits(&svd.vh),
        bits(&eigh.values),
        bits(&eigh.vectors),
        of_complex(&eig.values),
        of_complex(&eig.vectors),
        of_complex(&eig_values(a).unwrap()),
        bits(&svd_values(a).unwrap()),
        bits(&eigh_values(a).unwrap()),
        bits(&least.x),
        bits(&least.s),
        bits(&det(a).unwrap()),
        bits(&slogdet(a).unwrap().ln_abs),
        bits(&cond(a).unwrap()),
        bits(&matrix_power(a, -3).unwrap()),
        bits(&matrix_exp(a).unwrap()),
    ]
}

#[test]
fn views_of_any_strides_give_the_bits_of_their_copies() {
    let x = Tensor::from_fn([12, 12], |[i, j]| noise(i, j, 40), &Cpu).unwrap();
    let row = Tensor::from([[3.0, 1.0, 2.0, 5.0]]);
    let b = x.slice((..4, ..2)).unwrap();
    let views = [
        x.slice((..4, ..4)).unwrap(),
        x.slice((..4, ..4)).unwrap().transposed(),
        x.slice(((..).step(3), (..).step(3))).unwrap(),
        x.slice(((..4).step(-1), (..8).step(-2))).unwrap(),
        x.slice(((..8).step(-2), 5..9)).unwrap().transposed(),
    ];
    for view in views {
        let copy = view.copy().unwrap();
        assert_eq!(all_results(view, b), all_results(copy.view(), b.copy().unwrap().view()));
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let found = solve_triangular(view, b, triangle).unwrap();
            let expected = solve_triangular(&copy, b, triangle).unwrap();
            assert!(found.allclose(&expected, 1e-11, 1e-11, false).unwrap());
        }
    }
    // A broadcast view is singular; the elimination meets two pivots of 0.
    let flat = row.broadcast_to([4, 4]).unwrap();
    let found = lu(flat).unwrap();
    assert_eq!(found.lower.matmul(&found.upper).unwrap(), flat.copy().unwrap());
    assert!(solve(flat, b).is_err() && inv(flat).is_err());
    assert_eq!(slogdet(flat).unwrap().ln_abs.item().unwrap(), f64::NEG_INFINITY);
    assert_eq!(
        (det(flat).unwrap().item().unwrap(), matrix_rank(flat, None).unwrap().item().unwrap()),
        (0.0, 1)
    );
    let symmetric = x.slice((..4, ..4)).unwrap();
    let positive = (symmetric.matmul(symmetric.transposed()).unwrap().lazy()
        + &Tensor::<f64, 2>::eye(4, &Cpu).unwrap())
        .eval()
        .unwrap();
    let reversed = positive.slice(((..).step(-1), (..).step(-1))).unwrap();
    assert_eq!(cholesky(reversed).unwrap(), cholesky(&reversed.copy().unwrap()).unwrap());
}

#[test]
fn a_batch_has_the_results_of_its_matrices() {
    let (n, k) = (5, 2);
    let x = Tensor::from_fn([3, n, 2, n], |[i, j, k, l]| noise(i * 7 + k, j * 9 + l, 50), &Cpu).unwrap();
    let a = x.permuted([2, 0, 1, 3]).unwrap(); // [2, 3, n, n], not contiguous
    let b = Tensor::from_fn([2, 1, n, k], |[i, _, j, l]| noise(i * 3 + j, l, 60), &Cpu).unwrap();
    let (x, d, s) = (solve(a, &b).unwrap(), det(a).unwrap(), svd(a, Factors::Thin).unwrap());
    let (e, p, l) = (eig(a).unwrap(), matrix_power(a, -2).unwrap(), lstsq(a, &b, None).unwrap());
    let vectors = solve(a, b.slice((.., .., .., 0)).unwrap()).unwrap();
    let triangular = solve_triangular(a, &b, Triangle::Upper).unwrap();
    assert_eq!((x.size(), d.size(), s.s.size()), (dim![2, 3, n, k], dim![2, 3], dim![2, 3, n]));
    for (i, j) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))) {
        let (a, b) = (a.slice((i, j, .., ..)).unwrap(), b.slice((i, 0, .., ..)).unwrap());
        assert_eq!(x.slice((i, j, .., ..)).unwrap().copy().unwrap(), solve(a, b).unwrap());
        assert_eq!(d[[i, j]], det(a).unwrap().item().unwrap());
        assert_eq!(s.u.slice((i, j, .., ..)).unwrap().copy().unwrap(), svd(a, Factors::Thin).unwrap().u);
        assert_eq!(e.values.slice((i, j, ..)).unwrap().copy().unwrap(), eig(a).unwrap().values);
        assert_eq!(p.slice((i, j, .., ..)).unwrap().copy().unwrap(), matrix_power(a, -2).unwrap());
        assert_eq!(l.rank[[i, j]], 5);
        let column = solve(a, b.slice((.., 0)).unwrap()).unwrap();
        assert_eq!(vectors.slice((i, j, ..)).unwrap().copy().unwrap(), column);
        let expected = solve_triangular(a, b, Triangle::Upper).unwrap();
        assert_eq!(triangular.slice((i, j, .., ..)).unwrap().copy().unwrap(), expected);
    }
    // Many small matrices, in several tasks.
    let many = Tensor::from_fn([5000, 4, 4], |[i, j, k]| noise(i, 4 * j + k, 70), &Cpu).unwrap();
    let inverses = inv(&many).unwrap();
    for i in (0..5000).step_by(77) {
        let one = many.slice((i, .., ..)).unwrap();
        assert_eq!(inverses.slice((i, .., ..)).unwrap().copy().unwrap(), inv(one).unwrap());
    }
}

#[test]
fn empty_matrices_have_the_results_of_algebra() {
    let empty = |m, n| Tensor::<f64, 2>::zeros([m, n], &Cpu).unwrap();
    let none = empty(0, 0);
    assert_eq!(det(&none).unwrap().item().unwrap(), 1.0);
    let found = slogdet(&none).unwrap();
    assert_eq!((found.sign.item().unwrap(), found.ln_abs.item().unwrap()), (1.0, 0.0));
    assert_eq!(inv(&none).unwrap().size(), dim![0, 0]);
    assert_eq!(solve(&none, &empty(0, 3)).unwrap().size(), dim![0, 3]);
    assert_eq!(solve(&Tensor::<f64, 2>::eye(2, &Cpu).unwrap(), &empty(2, 0)).unwrap().size(), dim![2, 0]);
    assert_eq!(solve_triangular(&none, &empty(0, 3), Triangle::Lower).unwrap().size(), dim![0, 3]);
    assert_eq!(cholesky(&none).unwrap().size(), dim![0, 0]);
    assert_eq!(eigh(&none).unwrap().values.size(), dim![0]);
    assert_eq!(eigh_values(&none).unwrap().size(), dim![0]);
    assert_eq!(eig(&none).unwrap().vectors.size(), dim![0, 0]);
    assert_eq!(eig_values(&none).unwrap().size(), dim![0]);
    assert_eq!(matrix_exp(&none).unwrap().size(), dim![0, 0]);
    assert_eq!(matrix_power(&none, -2).unwrap().size(), dim![0, 0]);
    for (m, n) in [(0, 0), (0, 3), (3, 0)] {
        let a = empty(m, n);
        assert_eq!(pinv(&a, None).unwrap(), empty(n, m));
        assert_eq!(matrix_rank(&a, None).unwrap().item().unwrap(), 0);
        assert_eq!(svd_values(&a).unwrap().size(), dim![0]);
        let (thin, full) = (svd(&a, Factors::Thin).unwrap(), svd(&a, Factors::Full).unwrap());
        assert_eq!((thin.u.size(), thin.vh.size()), (dim![m, 0], dim![0, n]));
        assert_eq!((full.u, full.vh), (Tensor::eye(m, &Cpu).unwrap(), Tensor::eye(n, &Cpu).unwrap()));
        assert_eq!(qr(&a, Factors::Full).unwrap().q, Tensor::eye(m, &Cpu).unwrap());
        assert_eq!(qr(&a, Factors::Thin).unwrap().r.size(), dim![0, n]);
        assert_eq!(lu(&a).unwrap().permutation.to_vec().unwrap(), (0..m as i64).collect::<Vec<_>>());
        let found = lstsq(&a, &Tensor::<f64, 2>::ones([m, 2], &Cpu).unwrap(), None).unwrap();
        assert_eq!(found.x, empty(n, 2));
        let error = cond(&a).unwrap_err();
        assert!(matches!(error, Error::Empty { op: "cond", .. }), "{error}");
    }
    let no_matrices = Tensor::<f64, 3>::zeros([0, 3, 3], &Cpu).unwrap();
    assert_eq!(
        (inv(&no_matrices).unwrap().size(), det(&no_matrices).unwrap().size()),
        (dim![0, 3, 3], dim![0])
    );
    // A zero matrix.
    let zero = empty(2, 2);
    assert_eq!(cond(&zero).unwrap().item().unwrap(), f64::INFINITY);
    assert_eq!(
        (matrix_rank(&zero, None).unwrap().item().unwrap(), pinv(&zero, None).unwrap()),
        (0, empty(2, 2))
    );
}

#[track_caller]
fn fails<T>(result: Result<T>, expected: &str) {
    let Err(error) = result else { panic!("no error; expected: {expected}") };
    assert_eq!(error.to_string(), expected);
}

#[test]
fn errors_name_the_matrix_its_sizes_and_the_reason() {
    let singular = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    let wide = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    fails(inv(&singular), "inv: the matrix of sizes [2, 2] is singular: pivot 1 is 0");
    fails(matrix_power(&singular, -1), "matrix_power: the matrix of sizes [2, 2] is singular: pivot 1 is 0");
    assert_eq!(det(&singular).unwrap().item().unwrap(), 0.0);
    fails(det(&wide), "det: matrices of sizes [2, 3] are not square");
    for error in [inv(&wide).err(), eigh_values(&wide).err(), matrix_exp(&wide).err(), cholesky(&wide).err()]
    {
        assert!(error.unwrap().to_string().ends_with(": matrices of sizes [2, 3] are not square"));
    }
    fails(
        solve(&singular, &Tensor::from([1.0, 2.0, 3.0])),
        "solve: matrices of 2 rows and right-hand sides of 3 rows: sizes [2, 2] and [3]",
    );
    let (a, b) =
        (Tensor::<f64, 3>::ones([2, 1, 1], &Cpu).unwrap(), Tensor::<f64, 3>::ones([3, 1, 1], &Cpu).unwrap());
    fails(solve(&a, &b), "solve: sizes [2, 1, 1] and [3, 1, 1] do not broadcast");
    let indefinite = Tensor::from([[1.0, 2.0], [2.0, 1.0]]);
    let text = "cholesky: the matrix of sizes [2, 2] is not positive definite: pivot 1 is not positive";
    fails(cholesky(&indefinite), text);
    let triangle = Tensor::from([[1.0, 2.0], [0.0, 0.0]]);
    let text = "solve_triangular: the matrix of sizes [2, 2] is singular: element [1, 1] is 0";
    fails(solve_triangular(&triangle, &singular, Triangle::Upper), text);
    let unallocated = Tensor::<f64, 2>::empty([2, 2], &Cpu).unwrap();
    assert!(matches!(inv(&unallocated), Err(Error::Unallocated { op: "inv", .. })));
}

#[test]
fn a_tolerance_is_a_finite_number_from_0_up() {
    let a = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    for bad in [-1.0, -1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let text = format!("the tolerance {bad:?} is not a finite number from 0 up");
        fails(pinv(&a, Some(bad)), &format!("pinv: {text}"));
        fails(lstsq(&a, &a, Some(bad)), &format!("lstsq: {text}"));
        fails(matrix_rank(&a, Some(bad)), &format!("matrix_rank: {text}"));
    }
    let zero = Tensor::<f64, 2>::zeros([2, 3], &Cpu).unwrap();
    assert_eq!(pinv(&zero, Some(0.0)).unwrap(), Tensor::zeros([3, 2], &Cpu).unwrap());
    assert_eq!(matrix_rank(&zero, Some(0.0)).unwrap().item().unwrap(), 0);
    assert_eq!(lstsq(&a, &a, Some(1e-3)).unwrap().rank.item().unwrap(), 1);
}

#[test]
fn results_are_printed() {
    fn check<R: std::fmt::Debug>(result: Result<R>, name: &str) {
        assert!(format!("{:?}", result.unwrap()).starts_with(name));
    }
    let a = Tensor::from([[2.0, 1.0], [1.0, 4.0]]);
    check(lu(&a), "Lu { permutation: ");
    check(qr(&a, Factors::Thin), "Qr { q: ");
    check(svd(&a, Factors::Thin), "Svd { u: ");
    check(eigh(&a), "Eigh { values: ");
    check(eig(&a), "Eig { values: ");
    check(slogdet(&a), "Slogdet { sign: ");
    check(lstsq(&a, &a, None), "LeastSquares { x: ");
    let error = svd(&Tensor::from([[f64::NAN]]), Factors::Thin).unwrap_err();
    assert!(error.to_string().starts_with("svd: "));
}

#[test]
fn an_element_that_is_not_finite_is_named_by_every_function() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut a = Tensor::<f64, 4>::zeros([2, 3, 4, 4], &Cpu).unwrap();
        for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
            a[[i, j, k, k]] = 2.0;
        }
        a[[1, 2, 3, 1]] = bad;
        let b = Tensor::<f64, 4>::ones([2, 3, 4, 1], &Cpu).unwrap();
        let errors = [
            solve(&a, &b).err(),
            inv(&a).err(),
            pinv(&a, None).err(),
            lstsq(&a, &b, None).err(),
            lu(&a).err(),
            cholesky(&a).err(),
            qr(&a, Factors::Thin).err(),
            svd(&a, Factors::Full).err(),
            svd_values(&a).err(),
            eigh(&a).err(),
            eigh_values(&a).err(),
            eig(&a).err(),
            eig_values(&a).err(),
            det(&a).err(),
            slogdet(&a).err(),
            matrix_rank(&a, None).err(),
            cond(&a).err(),
            matrix_power(&a, 2).err(),
            matrix_exp(&a).err(),
        ];
        for error in errors {
            let text = error.unwrap().to_string();
            assert!(
                text.ends_with(&format!(": matrix [1, 2] of sizes [4, 4] has {bad:?} at [3, 1]")),
                "{text}"
            );
        }
        // Right-hand sides and triangular systems are computed with.
        let mut b = Tensor::from([[1.0], [2.0]]);
        b[[1, 0]] = bad;
        let x = solve(&Tensor::from([[2.0, 0.0], [0.0, 2.0]]), &b).unwrap();
        assert!(!x[[1, 0]].is_finite());
    }
}
