//! Every reducer and scan, over every kind of axes, plain, fused and along rows.

use crate::check::{between, check, close, random};
use rankform::autograd::{Tape, grad};
use rankform::prelude::*;

/// A reduction over the last axis, the first, both, and along an axis in an expression.
macro_rules! reductions {
    ($($name:ident $along:ident: $x:expr;)*) => { $(
        #[test]
        fn $name() {
            let x = $x;
            check("last", &x, |x, _| x.$name(Axis::<2>));
            check("first", &x, |x, _| x.$name(Axis::<0>));
            check("middle", &x, |x, _| x.$name(Axis::<1>));
            check("two", &x, |x, _| x.$name((Axis::<0>, Axis::<2>)));
            check("all", &x, |x, _| x.$name(All));
            check("a permuted view", &x, |x, _| x.permuted([2, 0, 1])?.$name(Axis::<1>));
            check(
                "a reversed part", &x, |x, _| x.slice((.., (..).step(-1), 1..))?.$name((Axis::<1>, Axis::<2>))
            );
            check("windows", &x, |x, _| x.windows(Axis::<1>, 2, 1)?.$name(Axis::<3>));
            check("fused", &x, |x, _| (x.lazy() * x + 0.5).$name(Axis::<1>));
            check("of two operands", &x, |x, tape| {
                let w = tape.constant(&between([3, 4], 31, 0.5, 1.5))?;
                (x.lazy() * w.lift() + x.lazy().square()).$name(Axis::<2>)
            });
            check("along", &x, |x, _| (x.lazy() - x.lazy().$along(Axis::<2>)).square().eval());
            check("along the first axis", &x, |x, _| {
                (x.lazy() * x.lazy().square().$along(Axis::<0>)).eval()
            });
        }
    )* };
}
reductions! {
    sum sum_along: random([2, 3, 4], 32);
    mean mean_along: random([2, 3, 4], 33);
    prod prod_along: between([2, 3, 4], 34, 0.5, 1.5);
    max max_along: random([2, 3, 4], 35);
    min min_along: random([2, 3, 4], 36);
    var var_along: random([2, 3, 4], 37);
    sample_var sample_var_along: random([2, 3, 4], 38);
    std std_along: random([2, 3, 4], 39);
    sample_std sample_std_along: random([2, 3, 4], 40);
    logsumexp logsumexp_along: random([2, 3, 4], 41);
}

#[test]
fn norms() {
    let x = random([3, 4], 42);
    check("norm", &x, |x, _| x.norm(Axis::<1>));
    check("norm of all", &x, |x, _| x.norm(All));
    check("norm_one", &x, |x, _| x.norm_one(Axis::<0>));
    check("norm_max", &x, |x, _| x.norm_max(Axis::<1>));
    check("norm_p", &x, |x, _| x.norm_p(3.0, Axis::<1>));
    check("normalize", &x, |x, _| x.normalize(Axis::<1>, 1e-8));
    check("normalize_p", &x, |x, _| x.normalize_p(3.0, Axis::<1>, 1e-8));
    check("cosine_similarity", &x, |x, tape| {
        x.cosine_similarity(&tape.constant(&random([3, 4], 43))?, Axis::<1>, 1e-8)
    });
    check("cov", &x, |x, _| x.cov(Default::default()));
    check("corrcoef", &x, |x, _| x.corrcoef());
}

#[test]
fn a_product_with_zeros_has_the_gradients_of_the_other_factors() -> Result<()> {
    let of = |x: &[f64]| grad(&Tensor::from_slice(x, [x.len()], &Cpu)?, |x, _| x.prod(All))?.to_vec();
    close("no zero", &of(&[2.0, 3.0, 4.0])?, &[12.0, 8.0, 6.0]);
    close("one zero", &of(&[2.0, 0.0, 4.0])?, &[0.0, 8.0, 0.0]);
    close("two zeros", &of(&[2.0, 0.0, 0.0])?, &[0.0, 0.0, 0.0]);
    Ok(())
}

#[test]
fn equal_extremes_share_the_gradient() -> Result<()> {
    let x = Tensor::from([3.0, 1.0, 3.0, 1.0]);
    close("max", &grad(&x, |x, _| x.max(All))?.to_vec()?, &[0.5, 0.0, 0.5, 0.0]);
    close("min", &grad(&x, |x, _| x.min(All))?.to_vec()?, &[0.0, 0.5, 0.0, 0.5]);
    close("fused", &grad(&x, |x, _| (x.lazy() * 2.0).max(All))?.to_vec()?, &[1.0, 0.0, 1.0, 0.0]);
    Ok(())
}

/// A scan has the gradient of differences, or is refused by name when it is called.
macro_rules! scans {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() -> Result<()> {
            let x = random([3, 5], 50);
            let tape = Tape::new(&Cpu);
            match tape.watch(&x)?.$name(Axis::<1>) {
                Ok(_) => {
                    check("last", &x, |x, _| x.$name(Axis::<1>));
                    check("first", &x, |x, _| x.$name(Axis::<0>));
                    check("reversed", &x, |x, _| x.reversed(Axis::<1>).$name(Axis::<1>));
                    check("fused", &x, |x, _| (x.lazy() * x).$name(Axis::<1>));
                    check(
                        "of a broadcast view", &random([1, 5], 51),
                        |x, _| x.broadcast_to([3, 5])?.$name(Axis::<1>)
                    );
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(stringify!($name)) && text.contains("no derivative"), "{text}");
                    assert_eq!(tape.len(), 0);
                    // Constants have no gradient, so nothing is refused.
                    tape.constant(&x)?.$name(Axis::<1>)?;
                }
            }
            Ok(())
        }
    )* };
}
scans! { cumsum cumprod cummax cummin logcumsumexp }

#[test]
fn an_exclusive_scan_has_its_gradient() {
    check("exclusive", &random([3, 5], 52), |x, _| x.scan_exclusive(rankform::ops::CumSum, Axis::<1>));
}

mod own {
    use rankform::kernel::Reducer;
    use rankform::prelude::*;

    /// A user's reducer without a slope.
    #[derive(Clone, Copy)]
    pub struct MaxAbs;
    impl<T: Float> Reducer<T> for MaxAbs {
        const NAME: &'static str = "max_abs";
        type Out = T;
        type State<L: Lanes> = Lane<L, Compute<T>>;
        fn identity<L: Lanes>() -> Self::State<L> {
            Lane::zero()
        }
        fn accumulate<L: Lanes>(
            state: Self::State<L>,
            x: Lane<L, Compute<T>>,
            _: Lane<L, i64>,
        ) -> Self::State<L> {
            state.max(x.abs())
        }
        fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
            a.max(b)
        }
        fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> {
            state
        }
    }
}

#[test]
fn a_reducer_without_a_slope_is_refused_by_name() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([3, 5], 53))?;
    for error in [
        x.reduce(own::MaxAbs, Axis::<1>).unwrap_err(),
        x.lazy().square().reduce(own::MaxAbs, All).unwrap_err(),
        (x.lazy() / x.lazy().along(own::MaxAbs, Axis::<1>)).eval().unwrap_err(),
    ] {
        let text = "max_abs: `max_abs` has no derivative: its reducer states no `slope`";
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(tape.len(), 0);
    // Of constants it may be taken, beside a variable too.
    let c = tape.constant(&random([3, 5], 54))?;
    let y = (x.lazy() / c.lazy().along(own::MaxAbs, Axis::<1>)).eval()?;
    let gradient = tape.backward(&y.sum(All)?)?.of(&x)?;
    let largest = tape.value(&c)?.reduce(own::MaxAbs, Axis::<1>)?.to_vec()?;
    let expected: Vec<f64> = (0..15).map(|k| 1.0 / largest[k / 5]).collect();
    close("beside a variable", &gradient.to_vec()?, &expected);
    Ok(())
}

/// One pass has both results, as the parts of a complex number.
#[test]
fn mean_and_variance_in_one_pass() {
    let x = random([3, 5], 56);
    check("mean", &x, |x, _| Ok(x.mean_var(Axis::<1>)?.0));
    check("variance", &x, |x, _| Ok(x.mean_var(Axis::<0>)?.1));
    check("both, fused", &x, |x, _| {
        let (mean, var) = (x.lazy() * x + x).mean_var(Axis::<1>)?;
        (mean.lazy() * &var).eval()
    });
    check("along an axis known at run time", &x, |x, _| {
        let (mean, var) = x.mean_var_axis(1)?;
        mean.div(&var)
    });
    check("into existing tensors", &x, |x, tape| {
        let new = || tape.constant(&Tensor::<f64, 1>::zeros([5], &Cpu)?);
        let (mut mean, mut var) = (new()?, new()?);
        x.mean_var_into(Axis::<0>, &mut mean, &mut var)?;
        (mean.lazy() * &var).eval()
    });
}

/// The backward pass of some reducers reads the result: a part of a block is copied for it.
#[test]
fn reductions_into_a_part_of_a_tensor() {
    macro_rules! into_a_part {
        ($($name:ident)*) => { $(
            check(stringify!($name), &between([3, 5], 57, 0.5, 1.5), |x, tape| {
                let mut y = tape.constant(&Tensor::<f64, 2>::ones([2, 6], &Cpu)?)?;
                x.$name(Axis::<0>, y.view_mut()?.slice((1, 1..))?)?;
                x.$name(Axis::<1>, y.view_mut()?.slice((0, ..3))?)?;
                Ok(y)
            });
        )* };
    }
    into_a_part! { max_into min_into prod_into sum_into logsumexp_into norm_into }
}

/// A result replaces a part of a block that has as many elements as were reduced; then none were reduced.
#[test]
fn gradients_of_elements_that_a_reduction_replaces() {
    for rows in [5, 0] {
        check("sum", &random([3, 5], 58), |x, _| {
            let mut y = x.sin()?;
            x.slice((..3, ..rows))?.sum_into(Axis::<1>, y.view_mut()?.slice((.., 1))?)?;
            x.slice((..rows.min(3), ..))?.prod_into(Axis::<0>, y.view_mut()?.slice((2, ..))?)?;
            Ok(y)
        });
        check("sum of constants", &random([3, 5], 59), |x, tape| {
            let (mut y, c) = (x.sin()?, tape.constant(&random([3, 5], 60))?);
            c.slice((.., ..rows))?.sum_into(Axis::<1>, y.view_mut()?.slice((.., 1))?)?;
            Ok(y)
        });
    }
}

#[test]
fn discrete_row_constants_have_no_gradient() {
    check("divided by a count", &random([3, 5], 55), |x, _| {
        let count = x.lazy().greater(0.0).along(rankform::ops::Count, Axis::<1>).cast::<f64>();
        (x.lazy() * x).div(count + 1.0).eval()
    });
}

/// Operands that are broadcast along the first axis: their gradients are summed block by block.
#[test]
fn gradients_of_long_broadcast_operands() {
    let (x, g) = (random([700, 3, 40], 60), random([700, 3, 40], 61));
    for size in [[1, 3, 40], [1, 1, 40], [1, 3, 1], [1, 1, 1], [700, 3, 1]] {
        let b = random(size, 62);
        let found = grad(&b, |b, tape| {
            let (x, g) = (tape.constant(&x)?, tape.constant(&g)?);
            ((x.lazy() * b).sin() * &g).sum(All)
        });
        // ∂/∂b sin(x · b) = x · cos(x · b)
        let all = ((x.lazy() * &b).cos() * &x * &g).eval().unwrap();
        let mut expected = all;
        for axis in 0..3 {
            if size[axis] == 1 {
                expected = expected.reduce_keepdims_axis(rankform::ops::Sum, axis).unwrap();
            }
        }
        let (found, expected) = (found.unwrap().to_vec().unwrap(), expected.to_vec().unwrap());
        close(&format!("{size:?}"), &found, &expected);
    }
}
