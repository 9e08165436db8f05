//! Laws of derivatives: second order, symmetric Hessians, products with vectors.

use crate::check::close;
use rankform::autograd::{grad, hvp};
use rankform::prelude::*;

#[test]
fn a_second_derivative_is_right_where_the_first_gradient_is_zero() -> Result<()> {
    // f = ½ Σ sin² x; f' = sin x cos x, f'' = cos 2x: at 0 the gradient of sin x is 0.
    let x = Tensor::from([0.0, 0.3]);
    let second = grad(&x, |x, _| {
        let first = grad(x, |x, _| {
            let y = x.sin()?;
            Ok((y.lazy() * &y).sum(All)?.lazy().mul(0.5).eval()?)
        })?;
        first.sum(All)
    })?;
    close("f''", &second.to_vec()?, &[1.0, 0.6_f64.cos()]);
    let eager = grad(&x, |x, _| {
        let first = grad(x, |x, _| {
            let y = x.sin()?;
            let z = y.mul(&y)?;
            z.mul(0.5)?.sum(All)
        })?;
        first.sum(All)
    })?;
    close("f''", &eager.to_vec()?, &[1.0, 0.6_f64.cos()]);
    Ok(())
}

#[test]
fn the_hessian_of_a_linear_function_is_zero() -> Result<()> {
    let (x, v) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 0.5]));
    assert_eq!(hvp(&x, &v, |x, _| (x.lazy() * 3.0).sum(All))?.to_vec()?, [0.0, 0.0]);
    Ok(())
}
