//! Elements of 16 and 32 bits, and programs that change between elements.

use crate::check::{between, check, close, random};
use rankform::autograd::{Differentiable, Var, grad};
use rankform::prelude::*;
use rankform::{bf16, f16};

/// A program with products, rows, reductions and elementwise steps.
fn program<T: Float, D: Device>(
    x: &Tensor<T, 2, D>,
    w: &Tensor<T, 2, D>,
    epsilon: T,
) -> Result<Tensor<T, 2, D>> {
    let hidden = x.matmul(w)?.tanh()?;
    (hidden.lazy() * &hidden.softmax(Last)?).layer_norm(Last, epsilon).eval()
}

/// The gradients in `T`, against those in f64 of the same numbers.
fn agrees<T: Float + Differentiable>(epsilon: T, tolerance: f64) -> Result<()> {
    let (x, w) = (random([3, 4], 1).cast::<T>()?, random([4, 5], 2).cast::<T>()?);
    let found = grad((&x, &w), |(x, w), _| program(x, w, epsilon)?.square()?.max(Axis::<1>)?.sum(All))?;
    let (x, w) = (x.cast::<f64>()?, w.cast::<f64>()?);
    let expected = grad((&x, &w), |(x, w), _| program(x, w, 0.125)?.square()?.max(Axis::<1>)?.sum(All))?;
    for (found, expected) in [(found.0, expected.0), (found.1, expected.1)] {
        let largest = expected.to_vec()?.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
        for (a, b) in found.cast::<f64>()?.to_vec()?.iter().zip(expected.to_vec()?) {
            assert!((a - b).abs() < tolerance * largest, "{}: {a}, not {b}", T::DTYPE);
        }
    }
    Ok(())
}

#[test]
fn gradients_of_smaller_elements_are_those_of_f64_rounded() -> Result<()> {
    agrees(0.125_f32, 1e-5)?;
    agrees(f16::from_f32(0.125), 2e-2)?;
    agrees(bf16::from_f32(0.125), 1e-1)
}

#[test]
fn a_sum_of_many_16_bit_gradients_is_exact() -> Result<()> {
    // 5000 ones, added in f16 one by one, would end at 2048.
    let x = Tensor::<f16, 1>::ones([1], &Cpu)?;
    let gradient = grad(&x, |x, _| x.broadcast_to([5000])?.sum(All))?;
    assert_eq!(gradient.to_vec()?, [f16::from_f32(5000.0)]);
    Ok(())
}

#[test]
fn casts_between_floats_have_the_slope_1() -> Result<()> {
    let x = Tensor::from([0.5_f32, -1.5, 2.0]);
    let wide = grad(&x, |x, _| x.cast::<f64>()?.square()?.sum(All))?;
    assert_eq!(wide.to_vec()?, [1.0_f32, -3.0, 4.0]);
    let fused = grad(&x, |x, _| x.lazy().cast::<f64>().square().sum(All))?;
    assert_eq!(fused.to_vec()?, [1.0_f32, -3.0, 4.0]);
    let narrow =
        grad(&x.cast::<f64>()?, |x, _| (x.lazy().cast::<f16>().square().cast::<f32>() * 2.0).sum(All))?;
    assert_eq!(narrow.to_vec()?, [2.0, -6.0, 8.0]);
    let through_integers = grad(&x, |x, _| (x.lazy().cast::<i32>().cast::<f32>() + x).sum(All))?;
    assert_eq!(through_integers.to_vec()?, [1.0_f32; 3]);
    Ok(())
}

#[test]
fn products_that_sum_in_a_wider_element_have_gradients() -> Result<()> {
    let (x, w) = (random([3, 4], 3).cast::<f16>()?, random([4, 2], 4).cast::<f16>()?);
    let (dx, dw) = grad((&x, &w), |(x, w), _| x.matmul_wide(w)?.sum(All))?;
    let (x, w) = (x.cast::<f64>()?, w.cast::<f64>()?);
    let expected = grad((&x, &w), |(x, w), _| x.matmul(w)?.sum(All))?;
    for (found, expected) in [(dx, expected.0), (dw, expected.1)] {
        for (a, b) in found.to_vec()?.iter().zip(expected.to_vec()?) {
            assert!((a.to_f64() - b).abs() < 2e-3 * b.abs().max(1.0), "{a} {b}");
        }
    }
    Ok(())
}

#[test]
fn elements_of_other_types_are_constants_of_an_expression() {
    let x = random([3, 4], 5);
    check("beside integers", &x, |x, tape| {
        let n = tape.constant(&Tensor::from_fn([3, 4], |[i, j]| (i + j) as i32, &Cpu)?)?;
        (x.lazy() * n.lazy().cast::<f64>()).eval()
    });
    check("beside f32", &x, |x, tape| {
        let w = tape.constant(&between([3, 4], 6, 0.5, 1.0).cast::<f32>()?)?;
        (x.lazy() * w.lazy().cast::<f64>() * x).eval()
    });
    check("a mask", &x, |x, tape| {
        let m = tape.constant(&Tensor::from_fn([3, 4], |[i, j]| (i + j) % 2 == 0, &Cpu)?)?;
        m.lazy().select(x.lazy() * x, x.lazy() * 3.0).eval()
    });
}

#[test]
fn a_variable_of_two_elements_adds_both_gradients() -> Result<()> {
    let x = Tensor::from([2.0_f32, 3.0]);
    let gradient = grad(&x, |x: &Var<f32, 1>, _| {
        let wide = x.cast::<f64>()?;
        Ok((wide.lazy() * &wide).sum(All)? + x.lazy().cast::<f64>().sum(All)?)
    })?;
    close("both", &gradient.cast::<f64>()?.to_vec()?, &[5.0, 7.0]);
    Ok(())
}
