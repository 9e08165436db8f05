//! Scatters with every operator that has a derivative: several elements of one cell, zeros, ties, cells that
//! are not addressed, second derivatives.

use crate::check::{check, close, random, weighted};
use rankform::autograd::{Tape, Var, grad};
use rankform::kernel::Op;
use rankform::ops::{Add, Div, Maximum, Minimum, Mul, Replace, ScatterReduction, Sub};
use rankform::prelude::*;

/// Indices of which some are equal along each axis, and which leave out cells.
fn index(tape: &Tape) -> Tensor<i64, 2, Tape> {
    tape.constant(&Tensor::from([[0, 3, 1], [0, 2, 3], [0, 2, 1]])).unwrap()
}

/// A matrix whose columns are cells, elements, and other numbers.
fn matrix(zeros: usize) -> Tensor<f64, 2> {
    let mut values = random([4, 8], 70).to_vec().unwrap();
    // The last places are those of one cell and its elements: `y[0, 0]`, `x[0, 0]`, `x[1, 0]`.
    for place in [0, 3, 11].into_iter().take(zeros) {
        values[place] = 0.0;
    }
    Tensor::from_slice(&values, [4, 8], &Cpu).unwrap()
}

/// `Σ w · y²` of the cells `y = sin(m[:, ..3])` after a scatter of `m[..3, 3..6]`.
fn scattered<F: Op<(f64, f64), Out = f64>>(
    operator: F,
    m: &Var<f64, 2>,
    tape: &Tape,
    axis: usize,
) -> Result<Var<f64, 2>> {
    let mut y = m.slice((.., ..3))?.map(rankform::ops::Sin)?;
    match axis {
        0 => y.scatter(operator, Axis::<0>, &index(tape), &m.slice((..3, 3..6))?.copy()?)?,
        // Transposed cells of three rows, in a larger tensor.
        _ => {
            let mut all = m.copy()?;
            all.view_mut()?.slice((.., 5..))?.transposed().scatter(
                operator,
                Axis::<1>,
                index(tape).transposed(),
                m.slice((..3, ..3))?.transposed(),
            )?;
            y = all;
        }
    }
    (y.lazy() * &y).eval()
}

fn check_operator<F: Op<(f64, f64), Out = f64>>(operator: F, zeros: usize) {
    for axis in [0, 1] {
        for zeros in 0..=zeros {
            check(&format!("{}, axis {axis}, {zeros} zeros", F::NAME), &matrix(zeros), |m, tape| {
                scattered(operator, m, tape, axis)
            });
        }
    }
}

#[test]
fn every_operator_with_a_derivative() {
    check_operator(Add, 3);
    check_operator(Sub, 3);
    check_operator(Replace, 3);
    check_operator(Mul, 3);
    // Two zeros would be equal extremes, at which there are no differences.
    check_operator(Maximum, 1);
    check_operator(Minimum, 1);
}

#[test]
fn every_scatter_reduction() {
    use ScatterReduction::{Max, Mean, Min, Prod, Sum};
    for reduction in [Sum, Prod, Mean, Max, Min] {
        for include_self in [false, true] {
            check(&format!("{reduction:?}, {include_self}"), &matrix(1), |m, tape| {
                let mut y = m.slice((.., ..3))?.map(rankform::ops::Sin)?;
                let values = m.slice((..3, 3..6))?.copy()?;
                y.scatter_reduce(reduction, Axis::<0>, &index(tape), &values, include_self)?;
                (y.lazy() * &y).eval()
            });
            check(&format!("index_reduce, {reduction:?}, {include_self}"), &matrix(0), |m, tape| {
                let mut y = m.slice((.., ..3))?.copy()?;
                let index = tape.constant(&Tensor::from([1_i64, 3, 1]))?;
                let values = m.slice((..3, 3..6))?.copy()?;
                y.index_reduce(reduction, Axis::<0>, &index, &values, include_self)?;
                (y.lazy() * &y).eval()
            });
        }
    }
}

#[test]
fn equal_extremes_of_a_cell_share_the_gradient() -> Result<()> {
    let cells = Tensor::from([1.0, 5.0, f64::NEG_INFINITY]);
    let values = Tensor::from([1.0, 1.0, 5.0, 2.0]);
    let (cells, values) = grad((&cells, &values), |(cells, values), tape| {
        let mut y = cells.copy()?;
        let index = tape.constant(&Tensor::from([0_i64, 0, 1, 1]))?;
        y.scatter(Maximum, Axis::<0>, &index, values)?;
        let w = tape.constant(&Tensor::from([3.0, 10.0, 100.0]))?;
        // The cell that is not addressed keeps its gradient.
        (y.lazy().maximum(-1.0) * &w + y.lazy() * &w).sum(All)
    })?;
    close("cells", &cells.to_vec()?, &[2.0, 10.0, 100.0]);
    close("values", &values.to_vec()?, &[2.0, 2.0, 10.0, 0.0]);
    Ok(())
}

#[test]
fn constants_take_part() {
    check("constant cells", &random([3, 3], 71), |x, tape| {
        let mut y = tape.constant(&random([4, 3], 72))?.copy()?;
        y.scatter(Mul, Axis::<0>, &index(tape), x)?;
        Ok(y)
    });
    check("constant values", &random([4, 3], 73), |x, tape| {
        let mut y = x.copy()?;
        y.scatter(Mul, Axis::<0>, &index(tape), &tape.constant(&random([3, 3], 74))?)?;
        Ok(y)
    });
}

/// The gradient of `Σ w · y²` after a scatter of products, against differences of it.
#[test]
fn second_derivatives_of_products() {
    for zeros in 0..2 {
        check(&format!("{zeros} zeros"), &matrix(zeros), |m, tape| {
            let index = index(tape);
            grad(m, |m, tape| {
                let mut y = m.slice((.., ..3))?.copy()?;
                y.scatter(Mul, Axis::<0>, &tape.constant(&index)?, &m.slice((..3, 3..6))?.copy()?)?;
                let w = tape.constant(&tape.inner().constant(&random([4, 3], 75))?)?;
                (y.lazy().square() * &w).sum(All)
            })
        });
    }
}

#[test]
fn single_precision() -> Result<()> {
    let (cells, values) = (Tensor::from([2.0_f32, 3.0]), Tensor::from([4.0_f32, 0.0, 5.0]));
    let (cells, values) = grad((&cells, &values), |(cells, values), tape| {
        let mut y = cells.copy()?;
        y.scatter(Mul, Axis::<0>, &tape.constant(&Tensor::from([0_i64, 0, 1]))?, values)?;
        y.sum(All)
    })?;
    assert_eq!((cells.to_vec()?, values.to_vec()?), (vec![0.0, 5.0], vec![0.0, 8.0, 3.0]));
    Ok(())
}

elementwise! {
    fn mixed(x, y) { x * y.sin() + y }
    fn times(x, y) { x * y }
    fn larger(x, y) { x.max(y) }
}

#[test]
fn operators_of_a_user_are_recognized_by_their_bodies() {
    check_operator(times, 3);
    check_operator(larger, 1);
}

#[test]
fn positions_of_elements_take_no_memory_of_the_host() -> Result<()> {
    let (meta, n) = (Meta::default(), 1 << 34);
    let x = Tensor::<f64, 1, Meta>::zeros([n], &meta)?;
    let gradient = grad(&x, |x, tape| {
        let mut y = x.copy()?;
        let index = tape.constant(&Tensor::<i64, 1, Meta>::zeros([n], &meta)?)?;
        y.scatter(Replace, Axis::<0>, &index, x)?;
        y.sum(All)
    })?;
    assert_eq!(gradient.size().0, [n]);
    Ok(())
}

#[test]
fn other_operators_are_refused_by_name() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([3, 3], 76))?;
    let mut y = tape.constant(&random([4, 3], 77))?.copy()?;
    let before = tape.value(&y)?.to_vec()?;
    for error in [
        y.scatter(Div, Axis::<0>, &index(&tape), &x).unwrap_err(),
        y.scatter(mixed, Axis::<0>, &index(&tape), &x).unwrap_err(),
    ] {
        assert!(error.to_string().contains("has no derivative"), "{error}");
    }
    assert_eq!(tape.value(&y)?.to_vec()?, before);
    assert_eq!(tape.len(), 0);
    weighted(&x, &tape)?;
    Ok(())
}
