//! Laws of derivatives: second order, symmetric Hessians, products with vectors.

use crate::check::{between, check, check_within, close, difference, random, weighted};
use rankform::autograd::{Tape, Var, grad, gradient_error, hvp, value_and_grad};
use rankform::device::Interpreted;
use rankform::prelude::*;

#[test]
fn a_second_derivative_is_right_where_the_first_gradient_is_zero() -> Result<()> {
    // f = ½ Σ sin² x; f' = sin x cos x, f'' = cos 2x: at 0 the gradient of sin x is 0.
    let x = Tensor::from([0.0, 0.3]);
    let second = grad(&x, |x, _| {
        let first = grad(x, |x, _| {
            let y = x.sin()?;
            (y.lazy() * &y).sum(All)?.lazy().mul(0.5).eval()
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

/// Columns of the Hessian of `f` by interpreted programs, which take less time to compile: whether it is
/// symmetric and that of differences of gradients.
macro_rules! hessian {
    ($name:literal, $x:expr, |$v:ident, $tape:ident| $of:expr) => {{
        let x = ($x).to(&Interpreted).unwrap();
        let n = x.numel();
        let unit = |k: usize| {
            let values: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i == k))).collect();
            Tensor::from_slice(&values, x.size().0, &Interpreted).unwrap()
        };
        let column = |k: usize| hvp(&x, &unit(k), |$v, $tape| $of).unwrap().to_vec().unwrap();
        let columns: Vec<Vec<f64>> = (0..n).map(column).collect();
        let slope = |k: usize, by: f64| {
            let mut moved = x.to_vec().unwrap();
            moved[k] += by;
            let moved = Tensor::from_slice(&moved, x.size().0, &Interpreted).unwrap();
            grad(&moved, |$v, $tape| $of).unwrap().to_vec().unwrap()
        };
        for (k, column) in columns.iter().enumerate() {
            for (i, found) in column.iter().enumerate() {
                assert!(
                    (found - columns[i][k]).abs() < 1e-10,
                    "{}: [{i}, {k}] {found} {}",
                    $name,
                    columns[i][k]
                );
                let expected = difference(1e-4, |by| slope(k, by)[i]);
                assert!(
                    (found - expected).abs() < 1e-7 * expected.abs().max(1.0),
                    "{}: [{i}, {k}]: {found}, not {expected}",
                    $name
                );
            }
        }
    }};
}

#[test]
fn hessians_are_symmetric_and_those_of_differences() {
    let x = random([2, 2], 1);
    hessian!("elementwise", &x, |x, _t| (x.lazy().sin() * x.lazy().exp() * x).sum(All));
    hessian!("products", &x, |x, _t| x.matmul(x)?.matmul(x.transposed())?.sin()?.sum(All));
    hessian!("softmax", &x, |x, _t| x.softmax(Last)?.square()?.sum(All));
    hessian!("layer_norm", &random([2, 3], 2), |x, _t| (x.layer_norm(Last, 0.3)?.lazy() * x)
        .square()
        .sum(All));
    hessian!("views", &x, |x, _t| {
        let windows = x.reversed(Axis::<1>).to_shape([4])?;
        (windows.windows(Axis::<0>, 3, 1)?.lazy() * windows.slice((..3,))?.lift()).square().sum(All)
    });
    hessian!("writes", &x, |x, _t| {
        let mut y = x.sin()?;
        y.zip_in_place(rankform::ops::Mul, x)?;
        y.view_mut()?.slice((0, ..))?.assign(x.slice((1, ..))?.lazy().exp())?;
        y.square()?.sum(All)
    });
    hessian!("broadcast", &x, |x, _t| {
        (x.slice((0..1, ..))?.broadcast_to([3, 2])?.lazy() * x.slice((1..2, ..))?).square().sum(All)
    });
    hessian!("elements by index", &x, |x, t| {
        let places = Tensor::from_slice(&[1_i64, 0, 1], [3], t)?;
        let y = x.index_select(Axis::<0>, &places)?;
        (y.lazy() * &y.sort(Axis::<1>)? * &y).sum(All)
    });
}

#[test]
fn hessians_of_reductions() {
    let x = between([2, 3], 3, 0.5, 1.5);
    hessian!("mean", &x, |x, _t| x.mean(Axis::<1>)?.square()?.sum(All));
    hessian!("var", &x, |x, _t| x.var(Axis::<1>)?.square()?.sum(All));
    hessian!("std", &x, |x, _t| x.std(Axis::<1>)?.square()?.sum(All));
    hessian!("norm", &x, |x, _t| x.norm(Axis::<1>)?.square()?.mul(x.norm(All)?.lift())?.sum(All));
    hessian!("logsumexp", &x, |x, _t| x.logsumexp(Axis::<1>)?.square()?.sum(All));
    hessian!("max", &x, |x, _t| x.square()?.max(Axis::<1>)?.square()?.sum(All));
    hessian!("a fused sum", &x, |x, _t| (x.lazy() * x * x).sum(Axis::<1>)?.square()?.sum(All));
    hessian!("along", &x, |x, _t| (x.lazy() / x.lazy().square().sum_along(Axis::<1>))
        .eval()?
        .square()?
        .sum(All));
    hessian!("cumsum", &x, |x, _t| x.cumsum(Axis::<1>)?.square()?.square()?.sum(All));
}

#[test]
fn the_hessian_of_a_product() {
    hessian!("prod", &between([4], 4, 0.5, 1.5), |x, _t| x.prod(All));
}

#[test]
fn third_derivatives() -> Result<()> {
    let x = Tensor::from([0.3, 1.2]);
    let third =
        grad(&x, |x, _| grad(x, |x, _| grad(x, |x, _| (x.lazy().sin() * x).sum(All))?.sum(All))?.sum(All))?;
    // (x sin x)‴ = −3 sin x − x cos x
    let expected = [0.3_f64, 1.2].map(|x| -3.0 * x.sin() - x * x.cos());
    close("third", &third.to_vec()?, &expected);
    Ok(())
}

#[test]
fn levels_do_not_mix() -> Result<()> {
    // d/dx x · (d/dy (x + y)) = 1, where a confusion of the two variables gives 2.
    let x = Tensor::from(2.0);
    let slope = grad(&x, |x, outer| {
        let y = outer.constant(&Tensor::from(3.0))?;
        let inner = grad(&y, |y, tape| tape.constant(x)?.add(y))?;
        x.mul(&inner)
    })?;
    assert_eq!(slope.item()?, 1.0);
    Ok(())
}

/// A function of two matrices with every kind of step.
fn function<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    let y = x.matmul(x.transposed())?.softmax(Last)?;
    let windows = y.windows(Axis::<1>, 2, 1)?.mean(Axis::<2>)?;
    (windows.lazy() * y.slice((.., ..2))?).sin().eval()
}

#[test]
fn products_with_the_jacobian_and_its_transpose_agree() -> Result<()> {
    let (x, u, v) = (random([3, 4], 5), random([3, 4], 6), random([3, 2], 7));
    let tape = Tape::new(&Cpu);
    let on_tape = tape.watch(&x)?;
    let transposed = tape.vjp(&function(&on_tape)?, &v)?.of(&on_tape)?;
    let left = difference(1e-4, |by| {
        let moved = (x.lazy() + u.lazy() * by).eval().unwrap();
        (function(&moved).unwrap().lazy() * &v).sum(All).unwrap().item().unwrap()
    });
    let right = (transposed.lazy() * &u).sum(All)?.item()?;
    assert!((left - right).abs() < 1e-9, "{left} {right}");
    Ok(())
}

#[test]
fn the_gradient_of_a_sum_is_the_sum_of_the_gradients() -> Result<()> {
    let x = random([3, 4], 8);
    let (f, g) =
        (|x: &Var<f64, 2>| function(x)?.sum(All), |x: &Var<f64, 2>| x.softmax(Last)?.square()?.sum(All));
    let sum = grad(&x, |x, _| f(x)?.add(&g(x)?))?;
    let (of_f, of_g) = (grad(&x, |x, _| f(x))?, grad(&x, |x, _| g(x))?);
    close("sum", &sum.to_vec()?, &of_f.add(&of_g)?.to_vec()?);
    let scaled = grad(&x, |x, _| f(x)?.mul(-2.5))?;
    close("scaled", &scaled.to_vec()?, &of_f.mul(-2.5)?.to_vec()?);
    Ok(())
}

#[test]
fn a_checkpoint_has_the_gradients_of_its_function() -> Result<()> {
    let (x, w) = (random([3, 4], 9), random([3, 2], 10));
    let plain = grad((&x, &w), |(x, w), _| (function(x)?.lazy() * w).sum(All))?;
    let saved = grad((&x, &w), |(x, w), tape| {
        let y = tape.checkpoint((x, w), |(x, w)| (function(x)?.lazy() * w).eval())?;
        y.sum(All)
    })?;
    close("x", &saved.0.to_vec()?, &plain.0.to_vec()?);
    close("w", &saved.1.to_vec()?, &plain.1.to_vec()?);
    check("of views, twice", &x, |x, tape| {
        let y = x.slice((.., (..).step(-1)))?.copy()?;
        let y = tape.checkpoint((&y,), |(y,)| y.lazy().sin().square().eval())?;
        tape.checkpoint((&y, x), |(y, x)| (y.lazy() * x * y).eval())
    });
    Ok(())
}

#[test]
fn custom_operators() -> Result<()> {
    // A straight-through rounding.
    let x = Tensor::from([0.4, 1.6]);
    let slopes = grad(&x, |x, tape| {
        let y = tape.custom((x,), |(x,)| x.round(), |_, _, gradient| Ok((gradient.share_data(),)))?;
        (y.lazy() * &y).sum(All)
    })?;
    assert_eq!(slopes.to_vec()?, [0.0, 4.0]);
    check("two operands, one a constant, a transposed result", &random([2, 3], 11), |x, tape| {
        let c = tape.constant(&random([2, 3], 12))?;
        tape.custom(
            (x, &c),
            |(x, c)| x.mul(c)?.into_transposed(),
            |(_, c), _, gradient| Ok((c.mul(gradient.transposed())?, c.copy()?)),
        )
    });
    check("of second order", &random([3], 13), |x, _| {
        grad(x, |x, tape| {
            let cube = tape.custom(
                (x,),
                |(x,)| (x.lazy() * x * x).eval(),
                |(x,), _, gradient| Ok(((x.lazy() * x * gradient * 3.0).eval()?,)),
            )?;
            cube.sum(All)
        })
    });
    Ok(())
}

#[test]
fn a_wrong_gradient_is_found_by_its_check() -> Result<()> {
    let x = random([3], 14);
    assert!(gradient_error(&x, 1e-5, |x, _| x.sin()?.sum(All))? < 1e-8);
    let wrong = gradient_error(&x, 1e-5, |x, tape| {
        tape.custom((x,), |(x,)| x.sin(), |(x,), _, g| Ok((x.sin()?.mul(g)?,)))?.sum(All)
    })?;
    assert!(wrong > 0.1, "{wrong}");
    let not_a_number = gradient_error(&x, 1e-5, |x, tape| {
        tape.custom((x,), |(x,)| x.sin(), |(x,), _, _| Ok((x.mul(f64::NAN)?,)))?.sum(All)
    })?;
    assert_eq!(not_a_number, f64::INFINITY);
    Ok(())
}

#[test]
fn tensors_without_elements_and_of_every_rank() -> Result<()> {
    let none = Tensor::<f64, 2>::zeros([0, 3], &Cpu)?;
    let (value, gradient) = value_and_grad(&none, |x, _| x.exp()?.sum(All))?;
    assert_eq!((value.item()?, gradient.size().0), (0.0, [0, 3]));
    let (value, gradients) = value_and_grad((&none, &Tensor::from([1.0, 2.0, 3.0])), |(x, w), _| {
        let y = (x.lazy() * w.lift()).sum(Axis::<0>)?;
        (y.lazy() + w).sum(All)
    })?;
    assert_eq!((value.item()?, gradients.1.to_vec()?), (6.0, vec![1.0; 3]));
    assert_eq!(grad(&Tensor::from(3.0), |x, _| x.mul(x))?.item()?, 6.0);
    assert_eq!(grad(&Tensor::from(3.0), |x, _| Ok(x.share_data()))?.item()?, 1.0);
    check("rank 8", &random([1, 2, 1, 2, 1, 2, 1, 2], 15), |x, _| {
        let y = x.permuted([7, 1, 3, 5, 0, 2, 4, 6])?;
        let y = (y.lazy() * y.sum_along(Axis::<0>)).eval()?;
        y.softmax((Axis::<1>, Axis::<3>))
    });
    check("rank 10", &random([2, 1, 2, 1, 1, 1, 1, 1, 2, 1], 16), |x, _| {
        (x.lazy().sin() * x.reversed_axis(8)?).eval()
    });
    Ok(())
}

#[test]
fn an_expression_of_many_operands() {
    let x = random([2, 3], 17);
    check("one operand many times", &x, |x, _| {
        let y = x.lazy() * x * x * x * x * x * x * x * x * x * x * x;
        (y * x * x * x).eval()
    });
    check("many operands", &x, |x, tape| {
        let c: Vec<Var<f64, 2>> =
            (0..8).map(|k| tape.constant(&between([2, 3], 20 + k, 0.5, 1.5))).collect::<Result<_>>()?;
        (x.lazy() * &c[0] + x.lazy() / &c[1] - c[2].lazy() * (x.lazy() + &c[3]) * &c[4]
            + c[5].lazy() * &c[6] * &c[7])
            .eval()
    });
}

#[test]
fn arguments_of_weighted_sums_are_tensors_of_the_tape() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([2], 18))?;
    let found = tape.backward(&weighted(&x, &tape)?)?.of(&x)?;
    assert_eq!(found.to_vec()?, random([2], 99).to_vec()?);
    Ok(())
}

#[test]
fn expressions_of_as_many_operands_as_a_kernel_of_the_backward_pass_takes() -> Result<()> {
    let x = between([2, 2], 30, 0.8, 1.2);
    check_within(1e-6, "22 loads of one operand", &x, |x, _| {
        let y = x.lazy() * x * x * x * x * x * x * x;
        let y = y * x * x * x * x * x * x * x * x;
        (y * x * x * x * x * x * x).eval()
    });
    // One more load runs forward, but its gradient has too many operands.
    let tape = Tape::new(&Cpu);
    for (x, is_refused) in [(tape.watch(&x)?, true), (tape.constant(&x)?, false)] {
        let y = x.lazy() * &x * &x * &x * &x * &x * &x * &x;
        let y = y * &x * &x * &x * &x * &x * &x * &x * &x;
        let found = (y * &x * &x * &x * &x * &x * &x * &x).eval();
        assert_eq!(matches!(found, Err(Error::Operands { .. })), is_refused);
    }
    Ok(())
}
