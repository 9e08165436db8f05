//! The gemm crate: matrix products alone, into memory that is there. Also the engine under several of the
//! others.

use gemm::{Parallelism, f16, gemm};
use peers::{Case, Forms, serve, sizes, threads, uniform};

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "mm/f32" => product(1, [n, n, n], forms, |x| x),
        "mm/f64" => product(1, [n, n, n], forms, f64::from),
        "mm/f16" => product(1, [n, n, n], forms, f16::from_f32),
        "mm/skinny16" => product(1, [sizes::SKINNY, n, n], forms, |x| x),
        "mm/gemv" => product(1, [n, n, 1], forms, |x| x),
        "mm/batched64" => product(sizes::BATCH, [n, n, n], forms, |x| x),
        _ => {}
    }
}

fn product<T: Copy + 'static>(batch: usize, [m, k, n]: [usize; 3], forms: &mut Forms, convert: fn(f32) -> T) {
    forms.add("gemm, kept", move || {
        let array = |len, seed| uniform(len, seed).into_iter().map(convert).collect::<Vec<T>>();
        let (a, b, mut c) = (array(batch * m * k, 1), array(batch * k * n, 2), array(batch * m * n, 3));
        let parallelism = if threads() > 1 { Parallelism::Rayon(threads()) } else { Parallelism::None };
        move || {
            for i in 0..batch {
                let (a, b, c) =
                    (&a[i * m * k..][..m * k], &b[i * k * n..][..k * n], &mut c[i * m * n..][..m * n]);
                let (rows, inner) = (n as isize, k as isize);
                let (zero, one) = (convert(0.0), convert(1.0));
                // SAFETY: three row-major matrices of these sizes; `c` is exclusive.
                unsafe {
                    gemm(
                        m,
                        n,
                        k,
                        c.as_mut_ptr(),
                        1,
                        rows,
                        false,
                        a.as_ptr(),
                        1,
                        inner,
                        b.as_ptr(),
                        1,
                        rows,
                        zero,
                        one,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            }
        }
    });
}
