//! One program on tapes over other devices: a user's, one that interprets, one chosen at run time, one
//! without data.

use crate::check::{close, random};
use crate::counted::Counted;
use crate::gradients::{numbers, on, program};
use rankform::autograd::{Tape, grad};
use rankform::device::{AnyDevice, Interpreted};
use rankform::prelude::*;

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
    let w = numbers([4, 5], 11);
    crate::check::check_within(1e-6, "by x", &numbers([3, 4], 5), |x, tape| program(x, &tape.constant(&w)?));
    let x = numbers([3, 4], 5);
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
    let error = tape.vjp(&y, &x).unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
    let two = grad((&random([2], 4).to(&one)?, &random([2], 4).to(&other)?), |(a, b), _| a.mul(b)?.sum(All));
    assert!(matches!(two.unwrap_err(), Error::Device { .. }));
    Ok(())
}
