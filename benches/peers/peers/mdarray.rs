//! mdarray: arrays with expressions over their elements, computed in one pass (`expr`). One thread; no matrix
//! products.

use mdarray::DArray;
use mdarray::expr::Expression;
use peers::{Case, Forms, adamw, bodies, positive, serve, uniform};
use std::hint::black_box;

type Matrix = DArray<f32, 2>;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => forms.add("zeros", move || move || Matrix::zeros([n, n])),
        "create/full" => forms.add("from_elem", move || move || Matrix::from_elem([n, n], black_box(1.5))),
        "view/slice" => view(n, forms, move |x| _ = black_box(x.view(1..n / 2, 2..n / 2))),
        "view/transpose" => view(n, forms, |x| _ = black_box(x.transpose())),
        "view/reshape" => view(n, forms, move |x| _ = black_box(x.reshape([n / 2, n * 2]))),
        "ew/add" => add(n, forms),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_row" => add_row(n, forms),
        "fused/gelu" => unary(n, matrix, forms, bodies::gelu),
        "fused/swiglu" => binary(n, forms, bodies::swiglu),
        "fused/ratio" => ratio(n, forms),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => binary(n, forms, bodies::user),
        "trans/exp" => unary(n, matrix, forms, f32::exp),
        "trans/tanh" => unary(n, matrix, forms, f32::tanh),
        "trans/log" => unary(n, above_zero, forms, f32::ln),
        "trans/sin" => unary(n, matrix, forms, f32::sin),
        "red/sum" => sum(n, forms),
        "dm/transpose" => transpose(n, forms),
        _ => {}
    }
}

fn matrix(n: usize, seed: u32) -> Matrix {
    DArray::<f32, 1>::from(uniform(n * n, seed)).into_shape([n, n])
}
fn above_zero(n: usize, seed: u32) -> Matrix {
    DArray::<f32, 1>::from(positive(n * n, seed)).into_shape([n, n])
}

fn view(n: usize, forms: &mut Forms, of: impl Fn(&Matrix) + 'static) {
    forms.add("view", move || {
        let x = matrix(n, 1);
        move || of(black_box(&x))
    });
}

fn add(n: usize, forms: &mut Forms) {
    forms.add("expr, new", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || (a.expr() + b.expr()).eval()
    });
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("a += &b", move || {
        let (mut a, b) = (matrix(n, 1), matrix(n, 2));
        move || a += &b
    });
}

fn add_row(n: usize, forms: &mut Forms) {
    forms.add("expr, new", move || {
        let (a, b) = (matrix(n, 1), DArray::<f32, 1>::from(uniform(n, 2)));
        move || (a.expr() + b.expr()).eval()
    });
}

fn unary(
    n: usize,
    make: fn(usize, u32) -> Matrix,
    forms: &mut Forms,
    f: impl Fn(f32) -> f32 + Copy + 'static,
) {
    forms.add("expr, new", move || {
        let x = make(n, 1);
        move || x.expr().map(|x| f(*x)).eval()
    });
}

fn binary(n: usize, forms: &mut Forms, f: impl Fn(f32, f32) -> f32 + Copy + 'static) {
    forms.add("expr, new", move || {
        let (x, y) = (matrix(n, 1), matrix(n, 2));
        move || x.expr().zip(&y).map(|(x, y)| f(*x, *y)).eval()
    });
}

fn ratio(n: usize, forms: &mut Forms) {
    forms.add("expr, new", move || {
        let (a, b, c, d) = (matrix(n, 1), matrix(n, 2), matrix(n, 3), above_zero(n, 4));
        move || a.expr().zip(&b).zip(&c).zip(&d).map(|(((a, b), c), d)| bodies::ratio(*a, *b, *c, *d)).eval()
    });
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("expr_mut", move || {
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
        move || {
            p.expr_mut().zip(&mut m).zip(&mut v).zip(&g).for_each(|(((p, m), v), g)| adamw::step(p, m, v, *g))
        }
    });
}

fn sum(n: usize, forms: &mut Forms) {
    forms.add("expr, fold", move || {
        let x = matrix(n, 1);
        move || black_box(&x).expr().fold(0.0_f32, |sum, x| sum + x)
    });
}

fn transpose(n: usize, forms: &mut Forms) {
    forms.add("to_array", move || {
        let x = matrix(n, 1);
        move || x.transpose().to_array()
    });
}
