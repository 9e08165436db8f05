//! nalgebra: matrices on the heap, stored by columns; of 4 × 4 also those on the stack (`static`). One
//! thread. A case of rows is one of columns here: memory is then read in the same order.

use nalgebra::{DMatrix, DVector, SMatrix, Scalar};
use peers::{Case, Forms, adamw, bodies, positive, serve, sizes, uniform};
use std::hint::black_box;

type Matrix = DMatrix<f32>;
type Small = SMatrix<f32, 4, 4>;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => create_zeros(n, forms),
        "create/full" => {
            forms.add("from_element", move || move || Matrix::from_element(n, n, black_box(1.5)))
        }
        "create/from_vec" => from_vec(n, forms),
        "view/slice" => view(n, forms, move |x| _ = black_box(x.view((1, 2), (n / 2 - 1, n / 2 - 2)))),
        "ew/add" => add(n, forms),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_t" => add_t(n, forms),
        "fused/gelu" => unary(n, matrix, forms, bodies::gelu),
        "fused/swiglu" => binary(n, forms, bodies::swiglu),
        "fused/adamw" => step_of_adamw(n, forms),
        "user/f" => binary(n, forms, bodies::user),
        "trans/exp" => unary(n, matrix, forms, f32::exp),
        "trans/tanh" => unary(n, matrix, forms, f32::tanh),
        "trans/log" => unary(n, above_zero, forms, f32::ln),
        "trans/sin" => unary(n, matrix, forms, f32::sin),
        "red/sum" => reduced(n, forms, |x| x.sum()),
        "red/sum0" => reduced(n, forms, |x| x.column_sum()),
        "red/sum1" => reduced(n, forms, |x| x.row_sum()),
        "red/max1" => reduced(n, forms, |x| x.column_iter().map(|column| column.max()).collect::<Vec<_>>()),
        "red/argmax1" => {
            reduced(n, forms, |x| x.column_iter().map(|column| column.imax()).collect::<Vec<_>>())
        }
        "red/meanvar1" => reduced(n, forms, |x| (x.row_mean(), x.row_variance())),
        "mm/f32" => product(n, n, n, forms, |x| x),
        "mm/f64" => product(n, n, n, forms, f64::from),
        "mm/skinny16" => product(sizes::SKINNY, n, n, forms, |x| x),
        "mm/gemv" => gemv(n, forms),
        "dm/transpose" => transpose(n, forms),
        _ => {}
    }
}

fn matrix(n: usize, seed: u32) -> Matrix {
    DMatrix::from_vec(n, n, uniform(n * n, seed))
}
fn above_zero(n: usize, seed: u32) -> Matrix {
    DMatrix::from_vec(n, n, positive(n * n, seed))
}

fn create_zeros(n: usize, forms: &mut Forms) {
    forms.add("zeros", move || move || Matrix::zeros(n, n));
    if n == 4 {
        forms.add("static", || || Small::zeros());
    }
}

fn from_vec(n: usize, forms: &mut Forms) {
    forms.add("from_vec, data", move || {
        let mut values = Some(uniform(n * n, 1));
        move || {
            let x = DMatrix::from_vec(n, n, values.take().unwrap());
            values = Some(Vec::from(black_box(x).data));
        }
    });
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
    forms.add("add_to, kept", move || {
        let (a, b, mut c) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || a.add_to(&b, &mut c)
    });
    if n == 4 {
        forms.add("static", || {
            let (a, b) = (Small::repeat(1.0), Small::repeat(2.0));
            move || black_box(&a) + black_box(&b)
        });
    }
}

fn add_inplace(n: usize, forms: &mut Forms) {
    forms.add("a += &b", move || {
        let (mut a, b) = (matrix(n, 1), matrix(n, 2));
        move || a += &b
    });
    if n == 4 {
        forms.add("static", || {
            let (mut a, b) = (Small::repeat(1.0), Small::repeat(2.0));
            move || *black_box(&mut a) += black_box(&b)
        });
    }
}

fn add_t(n: usize, forms: &mut Forms) {
    forms.add("&a + b.transpose()", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + b.transpose()
    });
}

fn unary(
    n: usize,
    make: fn(usize, u32) -> Matrix,
    forms: &mut Forms,
    f: impl Fn(f32) -> f32 + Copy + 'static,
) {
    forms.add("map", move || {
        let x = make(n, 1);
        move || x.map(f)
    });
}

fn binary(n: usize, forms: &mut Forms, f: impl Fn(f32, f32) -> f32 + Copy + 'static) {
    forms.add("zip_map", move || {
        let (x, y) = (matrix(n, 1), matrix(n, 2));
        move || x.zip_map(&y, f)
    });
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    forms.add("loop over slices", move || {
        let (mut p, mut m, mut v, g) = (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
        move || {
            let moments = m.iter_mut().zip(v.iter_mut());
            for (((p, g), m), v) in
                p.iter_mut().zip(g.iter()).zip(moments).map(|((p, g), (m, v))| (((p, g), m), v))
            {
                adamw::step(p, m, v, *g);
            }
        }
    });
}

fn reduced<R: 'static>(n: usize, forms: &mut Forms, reduce: impl Fn(&Matrix) -> R + 'static) {
    forms.add("by columns", move || {
        let x = matrix(n, 1);
        move || reduce(black_box(&x))
    });
}

fn array<T: Scalar>(rows: usize, columns: usize, seed: u32, convert: fn(f32) -> T) -> DMatrix<T> {
    DMatrix::from_vec(rows, columns, uniform(rows * columns, seed).into_iter().map(convert).collect())
}

fn product<T: nalgebra::RealField + Copy>(
    m: usize,
    k: usize,
    n: usize,
    forms: &mut Forms,
    convert: fn(f32) -> T,
) {
    forms.add("mul_to, kept", move || {
        let (a, b, mut c) = (array(m, k, 1, convert), array(k, n, 2, convert), array(m, n, 3, convert));
        move || a.mul_to(&b, &mut c)
    });
    forms.add("&a * &b", move || {
        let (a, b) = (array(m, k, 1, convert), array(k, n, 2, convert));
        move || &a * &b
    });
}

fn gemv(n: usize, forms: &mut Forms) {
    forms.add("gemv", move || {
        let (a, x, mut y) =
            (matrix(n, 1), DVector::from_vec(uniform(n, 2)), DVector::from_vec(uniform(n, 3)));
        move || y.gemv(1.0, &a, &x, 0.0)
    });
}

fn transpose(n: usize, forms: &mut Forms) {
    forms.add("transpose", move || {
        let x = matrix(n, 1);
        move || x.transpose()
    });
    forms.add("transpose_to, kept", move || {
        let (x, mut y) = (matrix(n, 1), matrix(n, 2));
        move || x.transpose_to(&mut y)
    });
}
