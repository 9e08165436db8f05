//! Writes on a tape: operators in place, parts of tensors, memory that is overwritten, and chains of views and
//! writes at random.

use crate::check::{check, close, random};
use rankform::autograd::{Tape, Var, grad};
use rankform::prelude::*;

/// The gradient of the sum of squares of what `write` leaves in a copy of `x`.
fn after(x: &[f64], write: impl Fn(&mut Var<f64, 1>, &Tape) -> Result<()>) -> Vec<f64> {
    let x = Tensor::from_slice(x, [x.len()], &Cpu).unwrap();
    let gradient = grad(&x, |x, tape| {
        let mut y = x.copy()?;
        write(&mut y, tape)?;
        (y.lazy() * &y).sum(All)
    });
    gradient.unwrap().to_vec().unwrap()
}

#[test]
fn no_gradient_flows_to_elements_that_were_overwritten() {
    let x = [1.0, 2.0, 3.0, 4.0];
    close("fill", &after(&x, |y, _| y.view_mut()?.slice((1..3,))?.fill(9.0)), &[2.0, 0.0, 0.0, 8.0]);
    let of_tensor = after(&x, |y, tape| {
        let c = tape.constant(&Tensor::from([7.0, 8.0]))?;
        y.view_mut()?.slice((1..3,))?.assign(&c)
    });
    close("assign a constant", &of_tensor, &[2.0, 0.0, 0.0, 8.0]);
    let of_expression = after(&x, |y, tape| {
        let c = tape.constant(&Tensor::from([7.0, 8.0]))?;
        y.view_mut()?.slice((1..3,))?.assign(c.lazy() + 1.0)
    });
    close("assign an expression of constants", &of_expression, &[2.0, 0.0, 0.0, 8.0]);
    let gathered = after(&x, |y, tape| {
        let c = tape.constant(&Tensor::from([7.0, 8.0]))?;
        let index = tape.constant(&Tensor::from([1_i64, 0]))?;
        c.index_select_into(Axis::<0>, &index, y.view_mut()?.slice((1..3,))?)
    });
    close("gather constants into a part", &gathered, &[2.0, 0.0, 0.0, 8.0]);
}

#[test]
fn no_gradient_flows_through_an_operator_in_place_without_slope() {
    let x = [1.25, 2.5, 3.75, 4.0];
    close(
        "floor in place",
        &after(&x, |y, _| y.view_mut()?.slice((1..3,))?.map_in_place(rankform::ops::Floor)),
        &[2.5, 0.0, 0.0, 8.0],
    );
    close("floor all in place", &after(&x, |y, _| y.map_in_place(rankform::ops::Floor)), &[0.0; 4]);
}

#[test]
fn operators_in_place_have_the_gradients_of_their_values() {
    let x = random([3, 4], 1);
    check("+= itself scaled", &x, |x, _| {
        let mut y = x.copy()?;
        y.zip_in_place(rankform::ops::Mul, x)?;
        y.map_in_place(rankform::ops::Sin)?;
        Ok(y)
    });
    check("a row of the result", &x, |x, _| {
        let mut y = (x.lazy() * 2.0).eval()?;
        let row = y.slice((0..1, ..))?.copy()?;
        y.view_mut()?.slice((1..2, ..))?.zip_in_place(rankform::ops::Mul, &row)?;
        y.view_mut()?.slice((2..3, ..))?.assign(row.lazy().exp())?;
        Ok(y)
    });
    check("a copy beside its source", &x, |x, _| {
        let mut y = x.copy()?;
        y.zip_in_place(rankform::ops::Add, x)?;
        y.zip_in_place(rankform::ops::Mul, x)?;
        Ok(y)
    });
}
