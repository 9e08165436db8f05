//! Scans: gradients of running sums, products, extremes and exponential sums, of first and second order, at
//! zeros, at ties and at −∞.

use crate::check::{check, check_within, close, random, weighted};
use rankform::autograd::{Tape, Var, grad};
use rankform::f16;
use rankform::kernel::Reducer;
use rankform::ops::{
    CumMax, CumMin, CumProd, CumSum, LogCumSumExp, LogSumExp, Max, Mean, Min, Prod, Std, Sum,
};
use rankform::prelude::*;

/// Random numbers of which some are 0 and none are close to another.
fn with_zeros<const RANK: usize>(size: [usize; RANK], seed: u64, every: usize) -> Tensor<f64, RANK> {
    let mut values = random(size, seed).to_vec().unwrap();
    values.iter_mut().skip(1).step_by(every).for_each(|x| *x = 0.0);
    Tensor::from_slice(&values, size, &Cpu).unwrap()
}

/// A scan along each axis, inclusive and exclusive, of every kind of operand.
fn check_scan<R: Reducer<f64, Out = f64>>(name: &str, reducer: R, x: &Tensor<f64, 3>) {
    let check = |case: &str, f: &dyn Fn(&Var<f64, 3>, &Tape) -> Result<Var<f64, 3>>| {
        check_within(1e-7, &format!("{name}, {case}"), x, |x, tape| f(x, tape));
    };
    check("last", &|x, _| x.scan(reducer, Axis::<2>));
    check("first", &|x, _| x.scan(reducer, Axis::<0>));
    check("exclusive", &|x, _| x.slice((.., .., 1..))?.scan_exclusive(reducer, Axis::<1>)?.max_with_zero());
    check("reversed", &|x, _| x.reversed(Axis::<2>).scan(reducer, Axis::<2>));
    check("strided", &|x, _| x.slice((.., (..).step(2), 1..))?.permuted([2, 0, 1])?.scan(reducer, Axis::<0>));
    check("fused", &|x, _| (x.lazy() * 1.5 + 0.25).scan(reducer, Axis::<1>));
    check("windows", &|x, _| x.windows(Axis::<2>, 2, 1)?.slice((0, .., .., ..))?.scan(reducer, Axis::<1>));
    check("of two operands", &|x, tape| {
        let w = tape.constant(&Tensor::from([1.0, -0.8, 1.2, 0.7]))?;
        (x.lazy() * w.lift() + 0.5).scan(reducer, Axis::<2>)
    });
}

/// −∞, which an exclusive scan of extremes has at its first positions, as 0.
trait WithoutInfinities: Sized {
    fn max_with_zero(self) -> Result<Self>;
}
impl WithoutInfinities for Var<f64, 3> {
    fn max_with_zero(self) -> Result<Self> {
        self.abs()?.less(f64::INFINITY)?.select(&self, 0.0)
    }
}

#[test]
fn every_scan_has_the_gradient_of_differences() {
    let x = random([2, 3, 4], 60);
    check_scan("cumsum", CumSum, &x);
    check_scan("cumprod", CumProd, &x);
    check_scan("cummax", CumMax, &x);
    check_scan("cummin", CumMin, &x);
    check_scan("logcumsumexp", LogCumSumExp, &x);
}

#[test]
fn scans_by_reducers_of_reductions_have_gradients() {
    let x = random([2, 3, 4], 61);
    check_scan("sum", Sum, &x);
    check_scan("prod", Prod, &x);
    check_scan("max", Max, &x);
    check_scan("min", Min, &x);
    check_scan("logsumexp", LogSumExp, &x);
}

#[test]
fn products_with_zeros_have_the_gradients_of_their_other_factors() {
    for every in 1..5 {
        check_scan("cumprod", CumProd, &with_zeros([2, 3, 4], 62, every));
    }
}

#[test]
fn lines_of_one_and_of_no_elements() -> Result<()> {
    check("one", &random([3, 1], 63), |x, _| x.cumprod(Axis::<1>));
    check("a constant", &random([3, 1], 63), |x, _| x.scan_exclusive(CumProd, Axis::<1>)?.add(x));
    let none = Tensor::<f64, 2>::zeros([3, 0], &Cpu)?;
    assert_eq!(grad(&none, |x, _| x.cumprod(Axis::<1>)?.sum(All))?.to_vec()?, []);
    Ok(())
}

/// A line longer than the blocks of the CPU, so that accumulators of blocks are combined.
#[test]
fn long_lines() -> Result<()> {
    let n = 1500;
    let factors: Vec<f64> =
        (0..n).map(|k| if k % 700 == 699 { 0.0 } else { 1.0 + 0.3 * f64::sin(k as f64) }).collect();
    let gradient: Vec<f64> = (0..n).map(|k| f64::cos(3.0 * k as f64)).collect();
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from_slice(&factors, [n], &Cpu)?)?;
    let y = x.cumprod(Axis::<0>)?;
    let found = tape.vjp(&y, &Tensor::from_slice(&gradient, [n], &Cpu)?)?.of(&x)?.to_vec()?;
    let (mut earlier, mut expected) = (vec![1.0; n], vec![0.0; n]);
    (1..n).for_each(|j| earlier[j] = earlier[j - 1] * factors[j - 1]);
    let mut through = 0.0;
    for j in (0..n).rev() {
        through += gradient[j];
        expected[j] = earlier[j] * through;
        through *= factors[j];
    }
    close("cumprod", &found, &expected);
    Ok(())
}

/// As in PyTorch: the last of the largest values so far.
#[test]
fn the_last_of_equal_extremes_has_the_gradient() -> Result<()> {
    let of = |x: &[f64], reducer: usize| {
        grad(&Tensor::from_slice(x, [x.len()], &Cpu)?, |x, tape| {
            let w = tape.constant(&Tensor::from([1.0, 10.0, 100.0, 1000.0]))?;
            let y = match reducer {
                0 => x.cummax(Axis::<0>)?,
                1 => x.cummin(Axis::<0>)?,
                2 => x.scan(Max, Axis::<0>)?,
                _ => x.scan(Min, Axis::<0>)?,
            };
            (y.lazy() * &w).sum(All)
        })?
        .to_vec()
    };
    for (reducer, sign) in [(0, 1.0), (1, -1.0), (2, 1.0), (3, -1.0)] {
        let of = |x: [f64; 4]| of(&x.map(|x| sign * x), reducer);
        close("ties", &of([1.0, 1.0, 0.0, 1.0])?, &[1.0, 110.0, 0.0, 1000.0]);
        close(
            "infinities",
            &of([f64::NEG_INFINITY, f64::NEG_INFINITY, 2.0, 1.0])?,
            &[1.0, 10.0, 1100.0, 0.0],
        );
        close("NaN", &of([1.0, f64::NAN, 2.0, f64::NAN])?, &[1.0, 110.0, 0.0, 1000.0]);
    }
    Ok(())
}

#[test]
fn exponential_sums_at_infinities_and_ties() -> Result<()> {
    let of = |x: [f64; 3]| grad(&Tensor::from(x), |x, _| x.logcumsumexp(Axis::<0>)?.sum(All))?.to_vec();
    close("no terms", &of([f64::NEG_INFINITY, f64::NEG_INFINITY, 2.0])?, &[0.0, 0.0, 1.0]);
    close("ties", &of([2.0, 2.0, 2.0])?, &[1.0 + 0.5 + 1.0 / 3.0, 0.5 + 1.0 / 3.0, 1.0 / 3.0]);
    close("far apart", &of([1000.0, 0.0, -1000.0])?, &[3.0, 0.0, 0.0]);
    Ok(())
}

/// The gradient of `⟨∇L, v⟩`, against differences of it.
fn check_second<R: Reducer<f64, Out = f64>>(name: &str, reducer: R, x: &Tensor<f64, 2>, exclusive: bool) {
    check_within(1e-6, &format!("second derivative of {name}"), x, |x, tape| {
        let slope = grad(x, |x, tape| {
            let y = match exclusive {
                true => x.scan_exclusive(reducer, Axis::<1>)?,
                false => x.scan(reducer, Axis::<1>)?,
            };
            weighted2(&y, tape)
        })?;
        weighted(&slope, tape).map(|_| slope)
    });
}

/// `Σ w · y²` on a tape of a tape.
fn weighted2(y: &Tensor<f64, 2, Tape<Tape>>, tape: &Tape<Tape>) -> Result<Tensor<f64, 0, Tape<Tape>>> {
    let w = random(y.size().0, 98);
    let w = tape.constant(&tape.inner().constant(&w)?)?;
    (y.lazy().square() * &w).sum(All)
}

#[test]
fn second_derivatives() {
    let x = random([2, 5], 64);
    for exclusive in [false, true] {
        check_second("cumsum", CumSum, &x, exclusive);
        check_second("cumprod", CumProd, &x, exclusive);
        for every in 1..4 {
            check_second("cumprod with zeros", CumProd, &with_zeros([2, 5], 65, every), exclusive);
        }
    }
    check_second("logcumsumexp", LogCumSumExp, &x, false);
    check_second("logcumsumexp of ties", LogCumSumExp, &with_zeros([2, 5], 65, 1), false);
}

#[test]
fn other_elements() -> Result<()> {
    let x = Tensor::from([0.5_f32, -1.5, 0.0, 2.0]);
    let found = grad(&x, |x, _| x.cumprod(Axis::<0>)?.sum(All))?;
    assert_eq!(found.to_vec()?, [-0.5, 0.5, -2.25, 0.0]);
    let found = grad(&x.cast::<f16>()?, |x, _| x.cumprod(Axis::<0>)?.sum(All))?;
    assert_eq!(found.cast::<f32>()?.to_vec()?, [-0.5, 0.5, -2.25, 0.0]);
    Ok(())
}

#[test]
fn scans_without_a_derivative_are_refused_by_name() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([3, 5], 66))?;
    let error = x.scan(Mean, Axis::<1>).unwrap_err().to_string();
    assert!(error.contains("a scan by `mean` has no derivative"), "{error}");
    let error = x.scan(Std, Axis::<1>).unwrap_err().to_string();
    assert!(error.contains("a scan by `std` has no derivative"), "{error}");
    assert_eq!(tape.len(), 0);
    // Of constants, they may be taken.
    tape.constant(&tape.value(&x)?)?.scan(Mean, Axis::<1>)?;
    Ok(())
}

/// A user's reducer that folds by its own functions.
#[derive(Clone, Copy)]
struct LargestMagnitude;
impl<T: Float> Reducer<T> for LargestMagnitude {
    const NAME: &'static str = "largest_magnitude";
    const FOLDS: bool = true;
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

#[test]
fn a_users_reducer_that_folds_needs_no_formula() {
    check_scan("largest_magnitude", LargestMagnitude, &random([2, 3, 4], 67));
}

/// Says that it folds, but its results have other elements than its values.
#[derive(Clone, Copy)]
struct Narrowed;
impl Reducer<f64> for Narrowed {
    const NAME: &'static str = "narrowed";
    const FOLDS: bool = true;
    type Out = f32;
    type State<L: Lanes> = Lane<L, f64>;
    fn identity<L: Lanes>() -> Self::State<L> {
        Lane::zero()
    }
    fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, f64>, _: Lane<L, i64>) -> Self::State<L> {
        state.max(x)
    }
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        a.max(b)
    }
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, f32> {
        state.cast()
    }
}

#[test]
fn a_reducer_to_other_elements_does_not_fold() -> Result<()> {
    let x = Tape::new(&Cpu).watch(&random([3, 5], 68))?;
    let error = x.scan(Narrowed, Axis::<1>).unwrap_err().to_string();
    assert!(error.contains("a scan by `narrowed` has no derivative"), "{error}");
    Ok(())
}

#[test]
fn running_sums_of_exponentials_at_infinity() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([0.0, f64::INFINITY, 1.0]))?;
    let y = x.logcumsumexp(Axis::<0>)?;
    let found = tape.vjp(&y, &Tensor::from([3.0, 30.0, 100.0]))?.of(&x)?.to_vec()?;
    close("the later sums are the infinite number", &found, &[3.0, 130.0, 0.0]);
    Ok(())
}
