//! An operator of one's own: write its body once; it runs vectorized, fuses with the others and
//! differentiates itself.
//!
//! `cargo run --release --example 07_new_operator` fits a line to points of which one is far off.

use rankform::kernel::Reducer;
use rankform::prelude::*;

elementwise! {
    /// Huber's loss: a parabola up to `width`, a straight line beyond. Outliers then have little influence on
    /// a fit.
    fn huber(r, width) {
        let size = r.abs();
        size.le(width).select(r * r * 0.5, width * (size - width * 0.5))
    }
}

/// A user's reducer, the root of the mean square: its accumulator, identity, accumulate, combine and
/// finalize.
#[derive(Clone, Copy)]
struct RootMeanSquare;

impl<T: Float> Reducer<T> for RootMeanSquare {
    const NAME: &'static str = "root_mean_square";
    type Out = T;
    type State<L: Lanes> = Lane<L, T::Compute>;
    fn identity<L: Lanes>() -> Self::State<L> {
        Lane::zero()
    }
    fn accumulate<L: Lanes>(
        sum: Self::State<L>,
        x: Lane<L, T::Compute>,
        _at: Lane<L, i64>,
    ) -> Self::State<L> {
        x.mul_add(x, sum)
    }
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        a + b
    }
    fn finalize<L: Lanes>(sum: Self::State<L>, count: Lane<L, i64>) -> Lane<L, T::Compute> {
        (sum / count.cast()).sqrt()
    }
}

pub fn main() -> Result<()> {
    let width = 1.0; // a run-time number is an operand like any other

    // Its value and its derivative by operand 0, on some points.
    let r = Tensor::linspace(-3.0, 3.0, 7, &Cpu)?;
    let slope = r.zip(derivative::<_, 0>(huber), width)?;
    println!("r       {r}\nhuber   {}\nslope   {slope}\n", r.zip(huber, width)?);

    // The derivative against finite differences.
    let h = 1e-6;
    let up = (&r + h).zip(huber, width)?;
    let down = (&r - h).zip(huber, width)?;
    let differences = (up - &down) / (2.0 * h);
    assert!((slope.lazy() - &differences).abs().max(All)?.item()? < 1e-6);

    // A line through points on y = 2x + 1, one of them spoilt, by descent along the gradient of the mean
    // loss.
    let x = Tensor::linspace(0.0, 4.0, 9, &Cpu)?;
    let mut y = &x * 2.0 + 1.0;
    y.view_mut()?[[7]] = 60.0;
    let (mut a, mut b) = (0.0_f64, 0.0_f64);
    for step in 0..=600 {
        // One pass each: the residual, the slope of the loss and the reduction are one kernel.
        let residual = x.lazy() * a + b - &y;
        let push = residual.zip(derivative::<_, 0>(huber), width);
        let gradient = [(push * &x).mean(All)?.item()?, push.mean(All)?.item()?];
        if step % 200 == 0 {
            let loss = residual.zip(huber, width).mean(All)?.item()?;
            let rms = residual.reduce(RootMeanSquare, All)?.item()?;
            println!("step {step:3}: y = {a:.3} x + {b:.3}, loss {loss:.3}, root mean square {rms:.3}");
        }
        (a, b) = (a - 0.1 * gradient[0], b - 0.1 * gradient[1]);
    }
    assert!(
        (a - 2.0).abs() < 0.2 && (b - 1.0).abs() < 0.2,
        "near the line, in spite of the point that is off"
    );

    assert_eq!(Tensor::from([3.0, 4.0, 0.0, 0.0]).reduce(RootMeanSquare, All)?.item()?, 2.5);
    Ok(())
}
