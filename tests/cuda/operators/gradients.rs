//! Gradients on the GPU are those of the CPU: kernels of the backward pass are traced and compiled as others
//! are.

#[path = "../../common/gradients.rs"]
mod program;

use crate::on_gpu;
use num_complex::Complex;
use program::{numbers, on};
use rankform::autograd::{grad, jvp};
use rankform::ops::ClassLoss;
use rankform::prelude::*;
use rankform::{Cuda, bf16, f16};

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a}, not {b}: {found:?}, not {expected:?}");
    }
}

on_gpu!(a_program_of_every_mechanism, |gpu| {
    for (found, expected) in on(gpu)?.iter().zip(&on(&Cpu)?) {
        close(found, expected);
    }
});

/// The gradients of a network of two layers by cross entropy.
fn network<D: Device>(device: &D) -> Result<[Vec<f64>; 3]> {
    let x = numbers([6, 4], 7).to(device)?;
    let (w, v) = (numbers([4, 5], 11).to(device)?, numbers([5, 3], 13).to(device)?);
    let target = Tensor::from_slice(&[2_i64, 0, 1, 2, 1, 0], [6], device)?;
    let (dx, dw, dv) = grad((&x, &w, &v), |(x, w, v), tape| {
        let hidden = (x.matmul(w)?.lazy() + w.slice((1, ..))?.lift()).relu().eval()?;
        let scores = hidden.matmul(v)?;
        scores.cross_entropy_mean(Axis::<1>, &tape.constant(&target)?, ClassLoss::new())
    })?;
    Ok([dx.to_vec()?, dw.to_vec()?, dv.to_vec()?])
}

on_gpu!(a_network_of_two_layers, |gpu| {
    for (found, expected) in network(gpu)?.iter().zip(&network(&Cpu)?) {
        close(found, expected);
    }
});

/// A convolution, a pool and an attention.
fn images<D: Device>(device: &D) -> Result<[Vec<f64>; 2]> {
    let x = numbers([10, 10], 7).to(device)?.into_shape([1, 1, 10, 10])?;
    let w = numbers([3, 9], 11).to(device)?.into_shape([3, 1, 3, 3])?;
    let (dx, dw) = grad((&x, &w), |(x, w), _| {
        let y = x.conv2d(w, Conv::new().padding([1, 1]))?.max_pool2d(Pool::new([2, 2]))?;
        y.attention(&y, &y, None, Attention::new().causal(true))?.sum(All)
    })?;
    Ok([dx.to_vec()?, dw.to_vec()?])
}

on_gpu!(a_convolution_a_pool_and_an_attention, |gpu| {
    for (found, expected) in images(gpu)?.iter().zip(&images(&Cpu)?) {
        close(found, expected);
    }
});

/// Functions of one and of two numbers, many in each kernel.
fn functions<D: Device>(device: &D) -> Result<Vec<Vec<f64>>> {
    let x = numbers([4, 5], 7).to(device)?; // between −0.8 and 0.9
    let y = (x.lazy() * 0.5 + 1.5).eval()?;
    let mut found = Vec::new();
    macro_rules! each {
        ($($x:ident: $first:ident $($name:ident)*;)*) => { $(
            found.push(
                grad(&$x, |x, _| (x.lazy().$first() $(+ x.lazy().$name())*).eval()?.sum(All))?.to_vec()?
            );
        )* };
    }
    each! {
        x: sin cos tan asin acos atan sinh cosh tanh asinh;
        x: atanh exp exp2 exp_m1 erf erfc erfinv ndtr log_ndtr sinc;
        x: sigmoid log_sigmoid silu softplus gelu gelu_tanh mish softsign selu tanh_shrink;
        x: relu hard_swish hard_tanh abs square cbrt;
        x: j0;
        x: j1;
        x: i0e;
        x: i1e;
        y: ln log2 log10 ln_1p sqrt rsqrt recip acosh;
        y: lgamma;
        y: digamma;
        y: gamma;
        y: y0;
        y: y1;
        y: i0;
        y: i1;
    }
    let (dx, dy) = grad((&x, &y), |(x, y), _| {
        let pairs = x.lazy() / y + x.lazy().atan2(y) + x.lazy().hypot(y) + x.lazy().log_add_exp(y);
        (pairs + y.lazy().powf(x) + x.lazy().maximum(y)).eval()?.sum(All)
    })?;
    found.extend([dx.to_vec()?, dy.to_vec()?]);
    Ok(found)
}

/// Reductions and scans by every reducer, along both axes.
fn reductions<D: Device>(device: &D) -> Result<Vec<Vec<f64>>> {
    let x = numbers([4, 5], 7).to(device)?;
    let mut found = Vec::new();
    macro_rules! each {
        ($($name:ident)*) => { $(
            found.push(grad(&x, |x, _| {
                let rows = x.$name(Axis::<1>)?.square()?.sum(All)?;
                rows.add(&x.$name(Axis::<0>)?.sin()?.sum(All)?)
            })?.to_vec()?);
        )* };
    }
    each! {
        sum mean prod max min var std logsumexp
        cumsum cumprod cummax cummin logcumsumexp
        softmax log_softmax
    }
    Ok(found)
}

/// Complex numbers, 16 bits, elements of several types in one kernel.
fn elements<D: Device>(device: &D) -> Result<Vec<Vec<f64>>> {
    let z =
        Tensor::from_fn([3, 4], |[i, j]| Complex::new(i as f64 - 0.7, j as f64 / 3.0), &Cpu)?.to(device)?;
    let dz = grad(&z, |z, _| {
        let y = (z.lazy() * z + z).eval()?.matmul(z.transposed())?;
        (y.lazy().re().square() + y.lazy().im()).sum(All)
    })?;
    let dz = dz.to_vec()?.iter().flat_map(|z| [z.re, z.im]).collect();
    let [a, b, c] = [[1.5_f32, 2.0, -1.0], [0.5, 1.25, 2.0], [2.0, 4.0, 3.0]].map(Tensor::from);
    let (a, b, c) = (a.cast::<bf16>()?.to(device)?, b.cast::<f16>()?.to(device)?, c.to(device)?);
    let (da, db, dc) = grad((&a, &b, &c), |(a, b, c), _| {
        (a.lazy().cast::<f32>().square() * b.lazy().cast::<f32>().square() * c).eval()?.sum(All)
    })?;
    Ok(vec![dz, da.cast::<f64>()?.to_vec()?, db.cast::<f64>()?.to_vec()?, dc.cast::<f64>()?.to_vec()?])
}

/// Forward mode, and second derivatives.
fn higher<D: Device>(device: &D) -> Result<Vec<Vec<f64>>> {
    let (x, v) = (numbers([4, 5], 7).to(device)?, numbers([4, 5], 11).to(device)?);
    let (gradient, product) = jvp(&x, &v, |x, _| {
        grad(x, |x, _| {
            let y = x.matmul(x.transposed())?.softmax(Last)?;
            (y.lazy().square().sum(Axis::<1>)?.lazy() + &y.max(Axis::<0>)?).sum(All)
        })
    })?;
    Ok(vec![gradient.to_vec()?, product.to_vec()?])
}

on_gpu!(a_selection_of_the_suite_has_the_gradients_of_the_cpu, |gpu| {
    for (found, expected) in [
        (functions(gpu)?, functions(&Cpu)?),
        (reductions(gpu)?, reductions(&Cpu)?),
        (elements(gpu)?, elements(&Cpu)?),
        (higher(gpu)?, higher(&Cpu)?),
    ] {
        for (found, expected) in found.iter().zip(&expected) {
            close(found, expected);
        }
    }
});
