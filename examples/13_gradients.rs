//! Gradients: a tape is a device that records. A function of tensors on any device is differentiable as it
//! is.
//!
//! `cargo run --release --example 13_gradients`

use rankform::autograd::{Tape, grad, gradient_error, hvp, value_and_grad};
use rankform::prelude::*;

elementwise! {
    /// How much a measured number differs from a computed one. Large differences count less than squared.
    fn distance(measured, computed) {
        let d = measured - computed;
        (1.0 + d * d).ln()
    }
}

/// The height of a ball thrown upwards, at several times. Nothing here mentions gradients.
fn height<D: Device>(
    time: &Tensor<f64, 1, D>,
    speed: &Tensor<f64, 0, D>,
    gravity: &Tensor<f64, 0, D>,
) -> Result<Tensor<f64, 1, D>> {
    (time.lazy() * speed.lift() - time.lazy().square() * gravity.lift() * 0.5).eval()
}

pub fn main() -> Result<()> {
    let time = Tensor::from([0.0, 0.5, 1.0, 1.5, 2.0]);
    let measured = Tensor::from([0.0, 3.775, 5.1, 3.975, 0.4]);
    let (mut speed, mut gravity) = (Tensor::from(5.0), Tensor::from(5.0));

    // A function of two parameters has a value and two gradients. The data are constants.
    for step in 0..=1600 {
        let (error, (by_speed, by_gravity)) =
            value_and_grad((&speed, &gravity), |(speed, gravity), tape| {
                let computed = height(&tape.constant(&time)?, speed, gravity)?;
                tape.constant(&measured)?.lazy().zip(distance, &computed).sum(All)
            })?;
        if step % 400 == 0 {
            println!("step {step:4}: error {error:.6}, speed {speed:.4}, gravity {gravity:.4}");
        }
        speed -= by_speed * 0.05;
        gravity -= by_gravity * 0.05;
    }
    assert!((speed.item()? - 10.0).abs() < 1e-3 && (gravity.item()? - 9.8).abs() < 1e-3);

    // The same by hand: watch, compute, go back. A view, a mask and a write in place are recorded too.
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([4.0, -1.0, 9.0]))?;
    let mut y = x.greater(0.0)?.select(&x.sqrt()?, 0.0)?; // the root of -1 is NaN, and not selected
    y.view_mut()?.slice((1..,))?.fill(7.0)?;
    y *= &x;
    let gradients = tape.backward(&y.sum(All)?)?;
    println!("\ngradient of x₀·√x₀ + 7·x₁ + 7·x₂: {}", gradients.of(&x)?);
    assert_eq!(gradients.of(&x)?.to_vec()?, [3.0, 7.0, 7.0]);

    // A second derivative is a gradient of a gradient: the inner tape computes on the outer one.
    let x = Tensor::from([1.0, 2.0]);
    let second = grad(&x, |x, _| grad(x, |x, _| (x.lazy() * x * x).sum(All))?.sum(All))?;
    let product = hvp(&x, &Tensor::from([1.0, 0.0]), |x, _| x.lazy().square().sum(All)?.square())?;
    println!("second derivatives of x³: {second}; the Hessian of |x|⁴ · (1, 0): {product}");
    assert_eq!((second.to_vec()?, product.to_vec()?), (vec![6.0, 12.0], vec![28.0, 16.0]));

    // The check of a gradient: central differences.
    let error = gradient_error(&time, 1e-6, |time, tape| {
        let computed = height(time, &tape.constant(&speed)?, &tape.constant(&gravity)?)?;
        tape.constant(&measured)?.lazy().zip(distance, &computed).sum(All)
    })?;
    assert!(error < 1e-7);
    Ok(())
}
