//! Rows: reductions inside an expression. The row constants are computed first, then the row, while it is
//! still in the cache: a normalization is one pass over memory.
//!
//! `cargo run --release --example 10_rows`

use rankform::ops::Sum;
use rankform::prelude::*;

/// Root mean square normalization with a weight for each column, as one kernel.
fn rms_norm<D: Device>(x: &Tensor<f32, 2, D>, weight: &Tensor<f32, 1, D>) -> Result<Tensor<f32, 2, D>> {
    let size = x.lazy().square().mean_along(Axis::<1>) + 1e-6; // beside every element, what its row has
    (x.lazy() * size.rsqrt() * weight.lift()).eval()
}

/// Softmax. The powers are used twice, and computed `cached`.
fn softmax<D: Device>(x: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 2, D>> {
    let powers = (x.lazy() - x.max_along(Axis::<1>)).exp().cached();
    (powers / powers.sum_along(Axis::<1>)).eval()
}

pub fn main() -> Result<()> {
    let x = Tensor::from([[1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 0.0, 4.0]]);
    let weight = Tensor::from([1.0, 1.0, 1.0, 2.0]);
    let y = rms_norm(&x, &weight)?;
    println!("rms norm:\n{y:.3}\n");
    assert!((y[[1, 3]] - 2.0 * 4.0 / 2.5).abs() < 1e-5);

    // Built in: `softmax`, `log_softmax`, `layer_norm`, over one axis, several, or all.
    let p = softmax(&x)?;
    println!("softmax:\n{p:.3}\n");
    // which also keeps what `x - max` rounds off
    assert!((&p - &x.softmax(Axis::<1>)?).abs()?.max(All)?.item()? < 1e-7);
    assert!((x.softmax(All)?.sum(All)?.item()? - 1.0).abs() < 1e-6);

    // All parts of one expression go along the same axes; others are evaluated first.
    let error = (x.max_along(Axis::<0>) + x.max_along(Axis::<1>)).eval().unwrap_err();
    println!("two ways at once: {error}\n");

    // The guard of a loop that must not allocate: an allocation inside it panics.
    let (mut p, mut sums) = (p, Tensor::<f32, 1>::zeros([2], &Cpu)?);
    let steady = Cpu.steady_state();
    for _ in 0..3 {
        (x.lazy() - x.mean_along(Axis::<1>)).eval_into(&mut p)?;
        p *= 0.5;
        p.reduce_into(Sum, Axis::<1>, &mut sums)?;
    }
    assert_eq!((sums.to_vec()?, steady.allocations()), (vec![0.0, 0.0], 0));
    Ok(())
}
