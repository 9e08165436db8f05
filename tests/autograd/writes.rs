//! Writes on a tape: operators in place, parts of tensors, memory that is overwritten, and chains of views
//! and writes at random.

use crate::check::{check, close, difference, random, unit, weighted};
use rankform::autograd::{Tape, Var, grad};
use rankform::ops::{Add, Floor, Mul, Sin, Sub};
use rankform::prelude::*;

/// The gradient of the sum of squares of what `write` leaves in a copy of `x`.
fn after(x: &[f64], write: &dyn Fn(&mut Var<f64, 1>, &Tape) -> Result<()>) -> Vec<f64> {
    let x = Tensor::from_slice(x, [x.len()], &Cpu).unwrap();
    let gradient = grad(&x, |x, tape| {
        let mut y = x.copy()?;
        write(&mut y, tape)?;
        (y.lazy() * &y).sum(All)
    });
    gradient.unwrap().to_vec().unwrap()
}

#[test]
fn rows_in_place_have_the_gradients_of_rows_that_are_not() {
    let x = random([5, 7], 1);
    let of = |in_place: bool| {
        grad(&x, |x, _| {
            let (mut y, s) = ((x.lazy() * 2.0).eval()?, (x.lazy() * 3.0).eval()?);
            let rows = s.mean_along(Last);
            let y = match in_place {
                true => {
                    y.zip_in_place(Sub, rows)?;
                    y
                }
                false => (y.lazy() - rows).eval()?,
            };
            y.sin()?.sum(All)
        })
    };
    close("rows in place", &of(true).unwrap().to_vec().unwrap(), &of(false).unwrap().to_vec().unwrap());
}

#[test]
fn no_gradient_flows_to_elements_that_were_overwritten() {
    let x = [1.0, 2.0, 3.0, 4.0];
    close("fill", &after(&x, &|y, _| y.view_mut()?.slice((1..3,))?.fill(9.0)), &[2.0, 0.0, 0.0, 8.0]);
    let of_tensor = after(&x, &|y, tape| {
        let c = tape.constant(&Tensor::from([7.0, 8.0]))?;
        y.view_mut()?.slice((1..3,))?.assign(&c)
    });
    close("assign a constant", &of_tensor, &[2.0, 0.0, 0.0, 8.0]);
    let of_expression = after(&x, &|y, tape| {
        let c = tape.constant(&Tensor::from([7.0, 8.0]))?;
        y.view_mut()?.slice((1..3,))?.assign(c.lazy() + 1.0)
    });
    close("assign an expression of constants", &of_expression, &[2.0, 0.0, 0.0, 8.0]);
    let gathered = after(&x, &|y, tape| {
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
        &after(&x, &|y, _| y.view_mut()?.slice((1..3,))?.map_in_place(Floor)),
        &[2.5, 0.0, 0.0, 8.0],
    );
    close("floor all in place", &after(&x, &|y, _| y.map_in_place(Floor)), &[0.0; 4]);
}

#[test]
fn operators_in_place_have_the_gradients_of_their_values() {
    let x = random([3, 4], 1);
    check("+= itself scaled", &x, |x, _| {
        let mut y = x.copy()?;
        y.zip_in_place(Mul, x)?;
        y.map_in_place(Sin)?;
        Ok(y)
    });
    check("a row of the result", &x, |x, _| {
        let mut y = (x.lazy() * 2.0).eval()?;
        let row = y.slice((0..1, ..))?.copy()?;
        y.view_mut()?.slice((1..2, ..))?.zip_in_place(Mul, &row)?;
        y.view_mut()?.slice((2..3, ..))?.assign(row.lazy().exp())?;
        Ok(y)
    });
    check("a copy beside its source", &x, |x, _| {
        let mut y = x.copy()?;
        y.zip_in_place(Add, x)?;
        y.zip_in_place(Mul, x)?;
        Ok(y)
    });
}

elementwise! {
    /// A product and a difference.
    fn product_and_difference(x, y) -> (T, T) { (x * y, x - y.sin()) }
}

/// A kernel copies operands in steps before it reads them, and so it does the zeros of a missing gradient.
#[test]
fn of_several_results_some_have_no_gradient() {
    for is_first in [true, false] {
        let both = |x: TensorView<'_, f64, 2, Tape>, out: TensorViewMut<'_, f64, 2, Tape>| {
            let (y, mut other) = (x.reversed(Axis::<0>), Tensor::zeros(x.size(), x.device())?);
            match is_first {
                true => apply_many_into(product_and_difference, (x, y), (out, &mut other)),
                false => apply_many_into(product_and_difference, (x, y), (&mut other, out)),
            }
        };
        check("columns in steps", &random([4, 12], 2), |x, tape| {
            let mut y = Tensor::zeros([13, 9], tape)?;
            let out = y.view_mut()?.transposed().slice(((1..).step(-2), (1..).step(-2)))?;
            both(x.slice((.., (..).step(2)))?, out)?;
            Ok(y)
        });
        check("transposed", &random([6, 4], 3), |x, tape| {
            let mut y = Tensor::zeros([8, 6], tape)?;
            both(x.transposed(), y.view_mut()?.slice(((..).step(2), ..))?)?;
            Ok(y)
        });
        check("rows in place", &random([6, 4], 4), |x, _| {
            let (mut y, mut other) = (x.sin()?, x.cos()?);
            let (x, rows) = (x.slice(((..).step(2), ..))?, x.lazy().mean_along(Axis::<0>));
            y.view_mut()?.slice(((..).step(2), ..))?.zip_in_place(Mul, x)?;
            other.zip_in_place(Sub, rows)?;
            if is_first { Ok(y) } else { Ok(other) }
        });
    }
}

/// A program of views and writes at random, generic over its device: three buffers, parts of which are read,
/// updated, replaced and shared.
fn random_program<D: Device>(x: &Tensor<f64, 2, D>, seed: u64) -> Result<Tensor<f64, 2, D>> {
    let mut next = 0;
    let mut below = |n: usize| {
        next += 1;
        (unit(seed, next) * n as f64) as usize
    };
    let mut buffers = [x.sin()?, x.copy()?, x.mul(x)?];
    for _ in 0..14 {
        let (from, to) = (below(3), below(3));
        let [height, width] = [1 + below(3), 1 + below(3)];
        let [a, b, c, d] = [below(5 - height), below(6 - width), below(5 - height), below(6 - width)];
        let (step, transposed) = (if below(2) == 0 { 1 } else { -1 }, height == width && below(3) == 0);
        let kind = below(11);
        // The target leaves the list, so that its source can be another buffer, or a copy of a part of it.
        let mut target = std::mem::replace(&mut buffers[to], Tensor::zeros([0, 0], x.device())?);
        let part_of = |source: &Tensor<f64, 2, D>| {
            let part = source.slice((a..a + height, (b..b + width).step(step)))?;
            if transposed { part.transposed().copy() } else { part.copy() }
        };
        let copied = match from == to {
            true => Some(part_of(&target)?),
            false if below(2) == 0 => Some(part_of(&buffers[from])?),
            false => None,
        };
        let part = match &copied {
            Some(copy) => copy.view(),
            None => buffers[from].slice((a..a + height, (b..b + width).step(step)))?,
        };
        if kind < 8 {
            // A tensor that shares its memory cannot be written in place.
            target.make_unique()?;
        }
        match kind {
            0 => target.view_mut()?.slice((c..c + height, d..d + width))?.assign(part)?,
            1 => target.view_mut()?.slice((c..c + height, d..d + width))?.assign(part.lazy().tanh() + 0.3)?,
            2 => target.view_mut()?.slice((c..c + height, d..d + width))?.zip_in_place(Add, part)?,
            3 => target.view_mut()?.slice((c..c + height, d..d + width))?.zip_in_place(Mul, part)?,
            4 => target.view_mut()?.slice((c..c + height, (d..d + width).step(-1)))?.map_in_place(Sin)?,
            5 => target.view_mut()?.slice((c..c + height, d..d + width))?.fill(0.4)?,
            6 => target.view_mut()?.slice((c..c + height, d..d + width))?.map_in_place(Floor)?,
            7 => {
                let mut rows = target.view_mut()?.slice((c..c + height, ..))?;
                rows.zip_in_place(Add, &buffers[(to + 1) % 3].slice((a..a + height, ..))?.tanh()?)?;
            }
            8 => target = buffers[(to + 1) % 3].share_data(),
            9 => target = (target.lazy() * &buffers[(to + 2) % 3] + 0.1).tanh().eval()?,
            _ => target = target.into_reversed(Axis::<1>)?,
        }
        buffers[to] = target;
    }
    buffers[0].lazy().add(&buffers[1]).add(buffers[2].lazy().square()).eval()
}

#[test]
fn views_and_writes_at_random_have_the_gradients_of_differences() {
    let seeds = if cfg!(rankform_every_element) { 2000 } else { 60 };
    for seed in 0..seeds {
        let x = random([4, 5], 1000 + seed);
        let w = random([4, 5], 99);
        let value = |x: &Tensor<f64, 2>| -> f64 {
            (random_program(x, seed).unwrap().lazy() * &w).sum(All).unwrap().item().unwrap()
        };
        let found = grad(&x, |x, tape| weighted(&random_program(x, seed)?, tape)).unwrap().to_vec().unwrap();
        let values = x.to_vec().unwrap();
        for (k, slope) in found.iter().enumerate() {
            let expected = difference(1e-4, |by| {
                let mut moved = values.clone();
                moved[k] += by;
                value(&Tensor::from_slice(&moved, [4, 5], &Cpu).unwrap())
            });
            // Next to a step of `floor` there is no derivative.
            let is_step = expected.abs() > 300.0;
            let error = (slope - expected).abs() / expected.abs().max(1.0);
            assert!(error < 1e-7 || is_step, "seed {seed}, element {k}: {slope}, not {expected}");
        }
    }
}
