//! Generic statistics over f32 and f64: standardisation, covariance, correlation, histograms, moving
//! averages.
use rankform::prelude::*;

fn zscore<T: Float, const R: usize, D: Device>(x: &Tensor<T, R, D>) -> Result<Tensor<T, R, D>> {
    let centered = (x.lazy() - x.mean_along(All)).eval()?;
    let scale = centered.lazy().square().mean_along(All).sqrt() + T::from(1e-12).unwrap();
    (centered.lazy() / scale).eval()
}

fn standardised<T: Float, D: Device>(x: &Tensor<T, 2, D>) -> Result<Tensor<T, 2, D>> {
    let mean = x.mean(Axis::<0>)?;
    let std = x.std(Axis::<0>)?;
    ((x.lazy() - mean.lift()) / std.lift()).eval()
}

fn covariance<T: Float, D: Device>(x: &Tensor<T, 2, D>) -> Result<Tensor<T, 2, D>> {
    let n = x.size()[0];
    let mean = x.mean(Axis::<0>)?;
    let centered = (x.lazy() - mean.lift()).eval()?;
    let product = centered.transposed().matmul(&centered)?;
    (product.lazy() / T::from(n as f64 - 1.0).unwrap()).eval()
}

fn moments<T: Float, D: Device>(x: &Tensor<T, 1, D>) -> Result<[Tensor<T, 0, D>; 4]> {
    let mean = x.mean(All)?;
    let var = x.var(All)?;
    let z = zscore(x)?;
    let skew = (z.lazy() * &z * &z).mean(All)?;
    let kurtosis = z.lazy().square().square().mean(All)?;
    Ok([mean, var, skew, kurtosis])
}

fn report<T: Float + std::fmt::Display>(name: &str, seed: u64) -> Result<()> {
    let x = Tensor::<f64, 2>::random_normal([1000, 4], 2.0, 3.0, seed, &Cpu)?.cast::<T>()?;
    let column = x.slice((.., 0))?.copy()?;
    let [mean, var, skew, kurtosis] = moments(&column)?;
    println!("{name}: mean {mean:.3} var {var:.3} skew {skew:.3} kurtosis {kurtosis:.3}");
    let z = standardised(&x)?;
    println!("standardised: means {:.3}, largest {:.3}", z.mean(Axis::<0>)?, z.lazy().abs().max(All)?);
    println!("covariance:\n{:.3}", covariance(&x)?);
    let running = column.cumsum(Axis::<0>)?;
    println!("running: {:.3}", running.slice((..5,))?);
    println!("range {:.3} to {:.3}", x.min(All)?, x.max(All)?);
    println!("rows: {:.3}", x.slice((..3, ..))?.mean(Axis::<1>)?);
    Ok(())
}

fn main() -> Result<()> {
    report::<f32>("f32", 1)?;
    report::<f64>("f64", 2)
}
