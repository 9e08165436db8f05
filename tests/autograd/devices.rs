//! One program on tapes over other devices: a user's, one that interprets, one chosen at run time, one
//! without data.

use crate::check::{close, random};
use crate::counted::Counted;
use rankform::autograd::{Tape, grad};
use rankform::device::{AnyDevice, Interpreted};
use rankform::ops::{Add, Maximum, Mul, Replace};
use rankform::prelude::*;

/// Every mechanism of a device: elementwise steps, rows, reductions, products, copies, elements by index and
/// mask, sorts, scans, writes.
fn program<D: Device>(x: &Tensor<f64, 2, D>, w: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 0, D>> {
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
    Ok(kept.lazy().add(&windows.sum(All)?).add(&spread).add(cells.mean(All)?.lazy().square()).eval()?)
}

/// The value and the gradients on a device.
fn on<D: Device>(device: &D) -> Result<[Vec<f64>; 3]> {
    let (x, w) = (random([3, 4], 1).to(device)?, random([4, 5], 2).to(device)?);
    let tape = Tape::new(device);
    let (on_x, on_w) = (tape.watch(&x)?, tape.watch(&w)?);
    let loss = program(&on_x, &on_w)?;
    let gradients = tape.backward(&loss)?;
    Ok([loss.to_vec()?, gradients.of(&on_x)?.to_vec()?, gradients.of(&on_w)?.to_vec()?])
}

#[test]
fn gradients_agree_on_every_device() -> Result<()> {
    let expected = on(&Cpu)?;
    let same = |name: &str, found: [Vec<f64>; 3]| {
        found.iter().zip(&expected).for_each(|(found, expected)| close(name, found, expected));
    };
    same("a user's device", on(&Counted::default())?);
    same("interpreted", on(&Interpreted)?);
    same("chosen at run time", on(&AnyDevice::from(Cpu))?);
    same("a tape over a tape", on(&Tape::new(&Interpreted))?);
    Ok(())
}

#[test]
fn the_program_of_every_mechanism_has_the_gradients_of_differences() {
    let w = random([4, 5], 2);
    crate::check::check_within(1e-6, "by x", &random([3, 4], 1), |x, tape| program(x, &tape.constant(&w)?));
    let x = random([3, 4], 1);
    crate::check::check_within(1e-6, "by w", &w, |w, tape| program(&tape.constant(&x)?, w));
}

#[test]
fn without_data_the_gradients_have_their_sizes() -> Result<()> {
    let (x, w) = (
        Tensor::<f64, 2, Meta>::zeros([3, 4], &Meta::default())?,
        Tensor::<f64, 2, Meta>::zeros([4, 5], &Meta::default())?,
    );
    let (dx, dw) = grad((&x, &w), |(x, w), tape| {
        let hidden = (x.matmul(w)?.lazy() + w.slice((0, ..))?.lift()).tanh().eval()?;
        let places = tape.constant(&Tensor::<i64, 1, Meta>::zeros([7], &Meta::default())?)?;
        let rows = hidden.index_select(Axis::<0>, &places)?.softmax(Last)?;
        rows.sort(Axis::<1>)?.windows(Axis::<1>, 3, 1)?.max(Axis::<2>)?.mean(All)
    })?;
    assert_eq!((dx.size().0, dw.size().0), ([3, 4], [4, 5]));
    Ok(())
}

#[test]
fn a_tensor_of_another_inner_device_is_refused() -> Result<()> {
    let (one, other) = (Counted::default(), Counted::default());
    let (tape, x) = (Tape::new(&one), random([2, 2], 3).to(&other)?);
    for error in [tape.constant(&x).unwrap_err(), tape.watch(&x).unwrap_err()] {
        assert!(matches!(error, Error::Device { .. }), "{error}");
    }
    let y = tape.watch(&random([2, 2], 3).to(&one)?)?;
    let error = tape.pull(&y, &x).unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
    let two = grad((&random([2], 4).to(&one)?, &random([2], 4).to(&other)?), |(a, b), _| a.mul(b)?.sum(All));
    assert!(matches!(two.unwrap_err(), Error::Device { .. }));
    Ok(())
}
