//! One program of every mechanism of a device, its value and its gradients on any device.

use rankform::autograd::Tape;
use rankform::ops::{Add, Maximum, Mul, Replace};
use rankform::prelude::*;

/// Different numbers around 0.
pub fn numbers(size: [usize; 2], by: usize) -> Tensor<f64, 2> {
    Tensor::from_fn(size, |[i, j]| ((i * size[1] + j) * by % 29) as f64 / 17.0 - 0.8, &Cpu).unwrap()
}

/// Every mechanism of a device: elementwise steps, rows, reductions, products, copies, elements by index and
/// mask, sorts, scans, writes.
pub fn program<D: Device>(x: &Tensor<f64, 2, D>, w: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 0, D>> {
    let device = x.device();
    let hidden = (x.matmul(w)?.lazy() + w.slice((0, ..))?.lift()).tanh().eval()?;
    let shares = (hidden.lazy() * 2.0).softmax(Last).eval()?.layer_norm(Last, 0.1)?;
    let mut cells = shares.to_shape([3, 5])?;
    cells.zip_in_place(Mul, &hidden)?;
    cells.view_mut()?.slice((1..2, ..))?.assign(hidden.slice((0..1, (..).step(-1)))?)?;
    let index = Tensor::from_slice(&[2_i64, 0, 2, 1], [4], device)?;
    let rows = cells.index_select(Axis::<0>, &index)?;
    cells.index_scatter(Add, Axis::<0>, &index, &rows)?;
    cells.index_scatter(Replace, Axis::<0>, index.slice((..2,))?, rows.slice((1..3, ..))?)?;
    let factors = (rows.cumprod(Axis::<1>)?.lazy() + 1.5).eval()?;
    cells.index_scatter(Mul, Axis::<0>, &index, &factors)?;
    cells.index_scatter(Maximum, Axis::<0>, &index, &rows.cummin(Axis::<0>)?)?;
    let positive = rows.greater(0.0)?;
    let kept = rows.masked_select(&positive)?.sum(All)?;
    let sorted = rows.sort(Axis::<1>)?.cumsum(Axis::<1>)?;
    let windows = sorted.windows(Axis::<1>, 3, 1)?.max(Axis::<2>)?.prod(Axis::<1>)?;
    let spread = cells.std(Axis::<1>)?.logsumexp(All)?;
    let (means, variances) = cells.logcumsumexp(Axis::<1>)?.mean_var(Axis::<0>)?;
    let spread = spread.add(&means.mul(&variances)?.sum(All)?)?;
    kept.lazy().add(&windows.sum(All)?).add(&spread).add(cells.mean(All)?.lazy().square()).eval()
}

/// The value and the gradients on a device.
pub fn on<D: Device>(device: &D) -> Result<[Vec<f64>; 3]> {
    let (x, w) = (numbers([3, 4], 5).to(device)?, numbers([4, 5], 11).to(device)?);
    let tape = Tape::new(device);
    let (on_x, on_w) = (tape.watch(&x)?, tape.watch(&w)?);
    let loss = program(&on_x, &on_w)?;
    let gradients = tape.backward(&loss)?;
    Ok([loss.to_vec()?, gradients.of(&on_x)?.to_vec()?, gradients.of(&on_w)?.to_vec()?])
}
