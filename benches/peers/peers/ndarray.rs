//! ndarray, with its rayon and matrixmultiply features. Operators on arrays (`ops`), and closures over
//! elements in one pass (`zip`, `azip`), parallel where there are threads (`par`).

use ndarray::parallel::prelude::*;
use ndarray::prelude::*;
use ndarray::{LinalgScalar, Zip, azip, concatenate, linalg::general_mat_mul, par_azip, s};
use peers::{Case, Forms, adamw, bodies, bytes, places, positive, serve, sizes, threads, uniform};
use std::hint::black_box;

type Matrix = Array2<f32>;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "create/zeros" => forms.add("zeros", move || move || Matrix::zeros((n, n))),
        "create/full" => forms.add("from_elem", move || move || Matrix::from_elem((n, n), black_box(1.5))),
        "create/from_vec" => from_vec(n, forms),
        "view/slice" => view(forms, matrix(n, 1), move |x| _ = black_box(x.slice(s![1..n / 2, 2..n / 2]))),
        "view/transpose" => view(forms, matrix(n, 1), |x| _ = black_box(x.t())),
        "view/permute4" => view(forms, Array4::<f32>::zeros((2, 3, 4, 5)), |x| {
            _ = black_box(x.view().permuted_axes([0, 2, 3, 1]))
        }),
        "view/broadcast" => view(forms, row(n, 1), move |x| _ = black_box(x.broadcast((n, n)))),
        "view/reshape" => view(forms, matrix(n, 1), move |x| {
            _ = black_box(x.view().into_shape_with_order((n / 2, n * 2)).unwrap())
        }),
        "ew/add" => add(n, forms),
        "ew/add_inplace" => add_inplace(n, forms),
        "ew/add_row" => stretched(n, forms, row),
        "ew/add_col" => stretched(n, forms, |n, seed| row(n, seed).reversed_axes()),
        "ew/add_t" => add_t(n, forms),
        "ew/step2" => step2(n, forms),
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
        "red/sum0" => reduced(n, forms, |x| x.sum_axis(Axis(0))),
        "red/sum1" => reduced(n, forms, |x| x.sum_axis(Axis(1))),
        "red/max1" => {
            reduced(n, forms, |x| x.map_axis(Axis(1), |row| row.fold(f32::NEG_INFINITY, |a, &b| a.max(b))))
        }
        "red/argmax1" => reduced(n, forms, |x| x.map_axis(Axis(1), argmax)),
        "red/meanvar1" => reduced(n, forms, |x| (x.mean_axis(Axis(1)), x.var_axis(Axis(1), 0.0))),
        "red/softmax" => reduced(n, forms, softmax),
        "red/layernorm" => layer_norm(n, forms),
        "mm/f32" => product(n, n, n, forms, |x| x),
        "mm/f64" => product(n, n, n, forms, f64::from),
        "mm/gemv" => gemv(n, forms),
        "mm/skinny16" => product(sizes::SKINNY, n, n, forms, |x| x),
        "mm/batched64" => batched(n, forms),
        "mm/i8" => product_of_integers(n, forms),
        "dm/transpose" => transpose(n, forms),
        "dm/nhwc" => nhwc(forms),
        "dm/concat0" => concat(0, n, forms),
        "dm/concat1" => concat(1, n, forms),
        "dm/gather" => gather(forms),
        "dm/cumsum0" => reduced(n, forms, |x| running(x, Axis(0))),
        "dm/cumsum1" => reduced(n, forms, |x| running(x, Axis(1))),
        "dm/sort1" => reduced(n, forms, sorted),
        _ => {}
    }
}

fn matrix(n: usize, seed: u32) -> Matrix {
    Array2::from_shape_vec((n, n), uniform(n * n, seed)).unwrap()
}
fn above_zero(n: usize, seed: u32) -> Matrix {
    Array2::from_shape_vec((n, n), positive(n * n, seed)).unwrap()
}
fn row(n: usize, seed: u32) -> Matrix {
    Array2::from_shape_vec((1, n), uniform(n, seed)).unwrap()
}
/// Whether forms on several threads are to be measured.
fn parallel() -> bool {
    threads() > 1
}

fn view<A: 'static>(forms: &mut Forms, x: A, of: impl Fn(&A) + 'static) {
    forms.add("view", move || move || of(black_box(&x)));
}

fn from_vec(n: usize, forms: &mut Forms) {
    forms.add("from_shape_vec, into_raw_vec", move || {
        let mut values = Some(uniform(n * n, 1));
        move || {
            let x = Array2::from_shape_vec((n, n), values.take().unwrap()).unwrap();
            values = Some(black_box(x).into_raw_vec_and_offset().0);
        }
    });
}

fn unary(
    n: usize,
    make: fn(usize, u32) -> Matrix,
    forms: &mut Forms,
    f: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static,
) {
    forms.add("mapv", move || {
        let x = make(n, 1);
        move || x.mapv(f)
    });
    forms.add("azip, kept", move || {
        let (x, mut y) = (make(n, 1), make(n, 2));
        move || azip!((y in &mut y, &x in &x) *y = f(x))
    });
    if parallel() {
        forms.add("par_map_collect", move || {
            let x = make(n, 1);
            move || Zip::from(&x).par_map_collect(|x| f(*x))
        });
    }
}

fn binary(n: usize, forms: &mut Forms, f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) {
    forms.add("zip", move || {
        let (x, y) = (matrix(n, 1), matrix(n, 2));
        move || Zip::from(&x).and(&y).map_collect(|&x, &y| f(x, y))
    });
    forms.add("azip, kept", move || {
        let (x, y, mut z) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
        move || azip!((z in &mut z, &x in &x, &y in &y) *z = f(x, y))
    });
    if parallel() {
        forms.add("par_azip, kept", move || {
            let (x, y, mut z) = (matrix(n, 1), matrix(n, 2), matrix(n, 3));
            move || par_azip!((z in &mut z, &x in &x, &y in &y) *z = f(x, y))
        });
    }
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
    if parallel() {
        forms.add("par_azip", move || {
            let (mut a, b) = (matrix(n, 1), matrix(n, 2));
            move || par_azip!((a in &mut a, &b in &b) *a += b)
        });
    }
}

fn stretched(n: usize, forms: &mut Forms, make: fn(usize, u32) -> Matrix) {
    forms.add("&a + &b", move || {
        let (a, b) = (matrix(n, 1), make(n, 2));
        move || &a + &b
    });
    forms.add("zip, kept", move || {
        let (a, b, mut c) = (matrix(n, 1), make(n, 2), matrix(n, 3));
        move || Zip::from(&mut c).and(&a).and_broadcast(&b).for_each(|c, a, b| *c = a + b)
    });
    if parallel() {
        forms.add("par_map_collect", move || {
            let (a, b) = (matrix(n, 1), make(n, 2));
            move || Zip::from(&a).and_broadcast(&b).par_map_collect(|a, b| a + b)
        });
    }
}

fn add_t(n: usize, forms: &mut Forms) {
    forms.add("&a + &b.t()", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a + &b.t()
    });
    if parallel() {
        forms.add("par_map_collect", move || {
            let (a, b) = (matrix(n, 1), matrix(n, 2));
            move || Zip::from(&a).and(&b.t()).par_map_collect(|a, b| a + b)
        });
    }
}

fn step2(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || &a.slice(s![.., ..;2]) + &b.slice(s![.., ..;2])
    });
    forms.add("azip, kept", move || {
        let (a, b, mut c) = (matrix(n, 1), matrix(n, 2), Matrix::zeros((n, n / 2)));
        move || azip!((c in &mut c, &a in a.slice(s![.., ..;2]), &b in b.slice(s![.., ..;2])) *c = a + b)
    });
}

fn ratio(n: usize, forms: &mut Forms) {
    let inputs = move || (matrix(n, 1), matrix(n, 2), matrix(n, 3), above_zero(n, 4));
    forms.add("zip", move || {
        let (a, b, c, d) = inputs();
        move || Zip::from(&a).and(&b).and(&c).and(&d).map_collect(|&a, &b, &c, &d| bodies::ratio(a, b, c, d))
    });
    forms.add("azip, kept", move || {
        let ((a, b, c, d), mut y) = (inputs(), matrix(n, 5));
        move || azip!((y in &mut y, &a in &a, &b in &b, &c in &c, &d in &d) *y = bodies::ratio(a, b, c, d))
    });
    forms.add("ops", move || {
        let (a, b, c, d) = inputs();
        move || (&a * &b + &c) / (d.abs() + 1e-6)
    });
    if parallel() {
        forms.add("par_azip, kept", move || {
            let ((a, b, c, d), mut y) = (inputs(), matrix(n, 5));
            move || {
                par_azip!(
                    (y in &mut y, &a in &a, &b in &b, &c in &c, &d in &d) *y = bodies::ratio(a, b, c, d)
                )
            }
        });
    }
}

fn step_of_adamw(n: usize, forms: &mut Forms) {
    let inputs = move || (matrix(n, 1), matrix(n, 2), above_zero(n, 3), matrix(n, 4));
    forms.add("azip", move || {
        let (mut p, mut m, mut v, g) = inputs();
        move || azip!((p in &mut p, m in &mut m, v in &mut v, &g in &g) adamw::step(p, m, v, g))
    });
    if parallel() {
        forms.add("par_azip", move || {
            let (mut p, mut m, mut v, g) = inputs();
            move || par_azip!((p in &mut p, m in &mut m, v in &mut v, &g in &g) adamw::step(p, m, v, g))
        });
    }
}

fn reduced<R: 'static>(n: usize, forms: &mut Forms, reduce: impl Fn(&Matrix) -> R + 'static) {
    forms.add("new", move || {
        let x = matrix(n, 1);
        move || reduce(black_box(&x))
    });
}

fn sum(n: usize, forms: &mut Forms) {
    reduced(n, forms, |x| x.sum());
    if parallel() {
        forms.add("rows, par_fold", move || {
            let x = matrix(n, 1);
            move || x.axis_iter(Axis(0)).into_par_iter().map(|row| row.sum()).sum::<f32>()
        });
    }
}

fn argmax(row: ArrayView1<'_, f32>) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, &x) in row.iter().enumerate() {
        if x > best.1 {
            best = (i, x);
        }
    }
    best.0
}

fn softmax(x: &Matrix) -> Matrix {
    let max = x.map_axis(Axis(1), |row| row.fold(f32::NEG_INFINITY, |a, &b| a.max(b))).insert_axis(Axis(1));
    let powers = (x - &max).mapv_into(f32::exp);
    let sum = powers.sum_axis(Axis(1)).insert_axis(Axis(1));
    powers / &sum
}

fn layer_norm(n: usize, forms: &mut Forms) {
    forms.add("ops", move || {
        let (x, weight, bias) = (matrix(n, 1), row(n, 2), row(n, 3));
        move || {
            let mean = x.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1));
            let scale =
                x.var_axis(Axis(1), 0.0).insert_axis(Axis(1)).mapv_into(|var| 1.0 / (var + 1e-5).sqrt());
            (&x - &mean) * &scale * &weight + &bias
        }
    });
}

fn array<T>(size: (usize, usize), seed: u32, convert: fn(f32) -> T) -> Array2<T> {
    Array2::from_shape_vec(size, uniform(size.0 * size.1, seed).into_iter().map(convert).collect()).unwrap()
}

fn product<T: LinalgScalar>(m: usize, k: usize, n: usize, forms: &mut Forms, convert: fn(f32) -> T) {
    forms.add("dot", move || {
        let (a, b) = (array((m, k), 1, convert), array((k, n), 2, convert));
        move || a.dot(&b)
    });
    forms.add("general_mat_mul, kept", move || {
        let (a, b, mut c) =
            (array((m, k), 1, convert), array((k, n), 2, convert), Array2::<T>::zeros((m, n)));
        move || general_mat_mul(T::one(), &a, &b, T::zero(), &mut c)
    });
}

fn product_of_integers(n: usize, forms: &mut Forms) {
    forms.add("dot, of i32", move || {
        let integers = |seed| {
            Array2::from_shape_vec((n, n), bytes(n * n, seed).into_iter().map(i32::from).collect()).unwrap()
        };
        let (a, b) = (integers(1), integers(2));
        move || a.dot(&b)
    });
}

fn gemv(n: usize, forms: &mut Forms) {
    forms.add("dot", move || {
        let (a, x) = (matrix(n, 1), Array1::from_vec(uniform(n, 2)));
        move || a.dot(&x)
    });
}

fn batched(n: usize, forms: &mut Forms) {
    forms.add("general_mat_mul of each, kept", move || {
        let stack =
            |seed| Array3::from_shape_vec((sizes::BATCH, n, n), uniform(sizes::BATCH * n * n, seed)).unwrap();
        let (a, b, mut c) = (stack(1), stack(2), stack(3));
        move || {
            azip!((mut c in c.outer_iter_mut(), a in a.outer_iter(), b in b.outer_iter())
                general_mat_mul(1.0, &a, &b, 0.0, &mut c))
        }
    });
}

fn transpose(n: usize, forms: &mut Forms) {
    forms.add("as_standard_layout", move || {
        let x = matrix(n, 1);
        move || x.t().as_standard_layout().into_owned()
    });
    forms.add("assign, kept", move || {
        let (x, mut y) = (matrix(n, 1), matrix(n, 2));
        move || y.assign(&x.t())
    });
}

fn nhwc(forms: &mut Forms) {
    forms.add("as_standard_layout", || {
        let x = Array4::from_shape_vec(sizes::NCHW, uniform(sizes::NCHW.iter().product(), 1)).unwrap();
        move || x.view().permuted_axes([0, 2, 3, 1]).as_standard_layout().into_owned()
    });
}

fn concat(axis: usize, n: usize, forms: &mut Forms) {
    forms.add("concatenate", move || {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        move || concatenate(Axis(axis), &[a.view(), b.view()]).unwrap()
    });
}

fn gather(forms: &mut Forms) {
    forms.add("select", || {
        let (taken, rows, len) = sizes::GATHER;
        let x = Array2::from_shape_vec((rows, len), uniform(rows * len, 1)).unwrap();
        let at: Vec<usize> = places(taken, rows as u32, 7).into_iter().map(|place| place as usize).collect();
        move || x.select(Axis(0), &at)
    });
}

fn running(x: &Matrix, axis: Axis) -> Matrix {
    let mut sums = x.clone();
    sums.accumulate_axis_inplace(axis, |&sum, x| *x += sum);
    sums
}

fn sorted(x: &Matrix) -> Matrix {
    let mut sorted = x.clone();
    for row in sorted.as_slice_mut().unwrap().chunks_exact_mut(x.ncols()) {
        row.sort_unstable_by(f32::total_cmp);
    }
    sorted
}
