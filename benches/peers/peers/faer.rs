//! faer: matrices stored by columns, their sums and products; `zip!` where a function of elements is wanted.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par, unzip, zip};
use peers::{Case, Forms, adamw, bodies, positive, serve, sizes, threads, uniform};
use std::hint::black_box;

type Matrix = Mat<f32>;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => forms.add("zeros", move || move || Matrix::zeros(n, n)),
        "create/full" => forms.add("full", move || move || Matrix::full(n, n, black_box(1.5))),
        "view/slice" => view(n, forms, move |x| _ = black_box(x.submatrix(1, 2, n / 2 - 1, n / 2 - 2))),
        "view/transpose" => view(n, forms, |x| _ = black_box(x.transpose())),
        "ew/add" => add(n, forms),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_t" => add_t(n, forms),
        "fused/gelu" => unary(n, forms, bodies::gelu),
        "fused/swiglu" => binary(n, forms, bodies::swiglu),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => binary(n, forms, bodies::user),
        "red/sum" => sum(n, forms),
        "mm/f32" => product(n, n, n, forms, |x| x),
        "mm/f64" => product(n, n, n, forms, f64::from),
        "mm/skinny16" => product(sizes::SKINNY, n, n, forms, |x| x),
        "mm/gemv" => product(n, n, 1, forms, |x| x),
        "mm/batched64" => batched(n, forms),
        "dm/transpose" => transpose(n, forms),
        _ => {}
    }
}

fn par() -> Par {
    if threads() > 1 { Par::rayon(threads()) } else { Par::Seq }
}
fn array<T>(rows: usize, columns: usize, values: &[f32], convert: fn(f32) -> T) -> Mat<T> {
    Mat::from_fn(rows, columns, |i, j| convert(values[j * rows + i]))
}
fn matrix(n: usize, seed: u32) -> Matrix {
    array(n, n, &uniform(n * n, seed), |x| x)
}

fn view(n: usize, forms: &mut Forms, of: impl Fn(&Matrix) + 'static) {
    forms.add("view", move || {
        let x = matrix(n, 1);
        move || of(black_box(&x))
    });
}

fn add(n: usize, forms: &mut Forms) {
    forms.add("&a + &b", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + &b
    });
    binary(n, forms, |a, b| a + b);
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("a += &b", move || {
        let (mut a, b) = (matrix(n, 1), matrix(n, 2));
        move || a += &b
    });
}

fn add_t(n: usize, forms: &mut Forms) {
    forms.add("&a + b.transpose()", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + b.transpose()
    });
}

fn unary(n: usize, forms: &mut Forms, f: impl Fn(f32) -> f32 + Copy + 'static) {
    forms.add("zip!, kept", move || {
        let (x, mut y) = (matrix(n, 1), matrix(n, 2));
        move || zip!(&mut y, &x).for_each(|unzip!(y, x)| *y = f(*x))
    });
}

fn binary(n: usize, forms: &mut Forms, f: impl Fn(f32, f32) -> f32 + Copy + 'static) {
    forms.add("zip!, kept", move || {
        let (x, y, mut z) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || zip!(&mut z, &x, &y).for_each(|unzip!(z, x, y)| *z = f(*x, *y))
    });
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("zip!", move || {
        let above_zero = array(n, n, &positive(n * n, 3), |x| x);
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero, matrix(n, 4));
        move || zip!(&mut p, &mut m, &mut v, &g).for_each(|unzip!(p, m, v, g)| adamw::step(p, m, v, *g))
    });
}

fn sum(n: usize, forms: &mut Forms) {
    forms.add("sum", move || {
        let x = matrix(n, 1);
        move || black_box(&x).sum()
    });
}

fn product<T: faer::traits::ComplexField + Copy + 'static>(
    m: usize,
    k: usize,
    n: usize,
    forms: &mut Forms,
    convert: fn(f32) -> T,
) {
    forms.add("matmul, kept", move || {
        let (a, b) = (array(m, k, &uniform(m * k, 1), convert), array(k, n, &uniform(k * n, 2), convert));
        let mut c = Mat::<T>::zeros(m, n);
        move || matmul(&mut c, Accum::Replace, &a, &b, convert(1.0), par())
    });
}

fn batched(n: usize, forms: &mut Forms) {
    forms.add("matmul of each, kept", move || {
        let stack = |seed| (0..sizes::BATCH).map(|i| matrix(n, seed + 3 * i as u32)).collect::<Vec<_>>();
        let (a, b, mut c) = (stack(1), stack(2), stack(3));
        move || {
            for ((c, a), b) in c.iter_mut().zip(&a).zip(&b) {
                matmul(c, Accum::Replace, a, b, 1.0, par());
            }
        }
    });
}

fn transpose(n: usize, forms: &mut Forms) {
    forms.add("to_owned", move || {
        let x = matrix(n, 1);
        move || x.transpose().to_owned()
    });
    forms.add("copy_from, kept", move || {
        let (x, mut y) = (matrix(n, 1), matrix(n, 2));
        move || y.copy_from(x.transpose())
    });
}
