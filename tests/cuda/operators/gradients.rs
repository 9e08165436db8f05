//! Gradients on the GPU are those of the CPU: kernels of the backward pass are traced and compiled as others are.

#[path = "../../common/gradients.rs"]
mod program;

use crate::on_gpu;
use program::{numbers, on};
use rankform::Cuda;
use rankform::autograd::grad;
use rankform::ops::ClassLoss;
use rankform::prelude::*;

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
