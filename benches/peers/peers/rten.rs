//! rten's building blocks: its vectorized functions (`vecmath`) into memory that is there, and its integer
//! product.

use peers::{Case, Forms, bytes, serve, uniform};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmUninitOptions};
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;
use rten_vecmath::{ApproxGelu, Erf, Exp, Sin, Softmax, Sum, Tanh};
use std::hint::black_box;

fn main() {
    serve(cases);
}

fn cases(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    match case.name {
        "fused/gelu" => unary(n, ApproxGelu {}, forms),
        "trans/exp" => unary(n, Exp {}, forms),
        "trans/tanh" => unary(n, Tanh {}, forms),
        "trans/erf" => unary(n, Erf {}, forms),
        "trans/sin" => unary(n, Sin::new(), forms),
        "red/sum" => sum(n, forms),
        "red/softmax" => softmax(n, forms),
        "mm/i8" => product(n, forms),
        _ => {}
    }
}

fn unary<F: SimdUnaryOp<f32> + 'static>(n: usize, f: F, forms: &mut Forms) {
    forms.add("vecmath, kept", move || {
        let (x, mut y) = (uniform(n * n, 1), Vec::with_capacity(n * n));
        move || f.map(black_box(&x), &mut y.spare_capacity_mut()[..n * n]).len()
    });
}

fn sum(n: usize, forms: &mut Forms) {
    forms.add("vecmath", move || {
        let x = uniform(n * n, 1);
        move || Sum::new(black_box(&x)).dispatch()
    });
}

fn softmax(n: usize, forms: &mut Forms) {
    forms.add("vecmath, kept", move || {
        let (x, mut y) = (uniform(n * n, 1), Vec::<f32>::with_capacity(n * n));
        move || {
            for (x, y) in x.chunks_exact(n).zip(y.spare_capacity_mut()[..n * n].chunks_exact_mut(n)) {
                Softmax::new(x, y).dispatch();
            }
        }
    });
}

fn product(n: usize, forms: &mut Forms) {
    forms.add("gemm, u8 by i8", move || {
        let left = bytes(n * n, 1).into_iter().map(|x| (i16::from(x) + 100) as u8).collect::<Vec<_>>();
        let (a, b) = (NdTensor::from_data([n, n], left), NdTensor::from_data([n, n], bytes(n * n, 2)));
        let gemm = GemmExecutor::<u8, i8, i32>::default();
        let mut c = Vec::<i32>::with_capacity(n * n);
        move || {
            let out = &mut c.spare_capacity_mut()[..n * n];
            let (a, b) = (GemmInputA::Unpacked(a.view()), GemmInputB::Unpacked(b.view()));
            gemm.gemm_uninit(out, a, b, GemmUninitOptions::default()).unwrap().len()
        }
    });
}
