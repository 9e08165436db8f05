//! Operators whose derivative is a function of their result: a tape keeps the result in place of the operand.

use crate::check::{check, close, random};
use crate::counted::Counted;
use rankform::autograd::{Tape, Var, grad};
use rankform::element::{Compute, Float};
use rankform::kernel::{Call, Input, Op, Program, Slopes, Store};
use rankform::ops::{Add, Cbrt, Exp, Exp2, Recip, Relu, Rsqrt, Sigmoid, Sqrt, Tan, Tanh};
use rankform::prelude::*;

elementwise! {
    /// e^(−x).
    fn decay(x) { (-x).exp() } slope of y { -y }
    /// The same without a stated slope.
    fn plain_decay(x) { (-x).exp() }
    /// A sum in another order than that of its operands.
    fn sum_backwards(x, y, z) { z + (y + x) }
    /// The result, with a slope that is not that of the body.
    fn doubled_slope(x) { x } slope of y { Lane::literal(Default::default()) + 2.0 }
}

/// A product that says that it is a sum.
#[derive(Clone, Copy, Debug)]
struct NoSum;
impl<T: Float> Op<(T, T)> for NoSum {
    const IS_SUM: bool = true;
    type Out = T;
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        x * y
    }
}

/// The derivatives by the result, against those of dual numbers.
macro_rules! same_slopes {
    ($($F:ident: $values:expr;)*) => { $(
        let x = Tensor::from($values);
        let found = grad(&x, |x, _| x.map($F)?.sum(All))?;
        close(stringify!($F), &found.to_vec()?, &x.map(derivative::<_, 0>($F))?.to_vec()?);
    )* };
}

#[test]
fn slopes_by_results_are_those_by_operands() -> Result<()> {
    same_slopes! {
        Relu: [-2.0, -0.0, 0.0, 1e-300, 3.0, f64::INFINITY, f64::NEG_INFINITY];
        Exp: [-800.0, -2.0, 0.0, 1.0, 20.0, f64::INFINITY, f64::NEG_INFINITY];
        Exp2: [-2000.0, -2.0, 0.0, 1.5, 20.0];
        Sqrt: [0.0, 1e-200, 0.25, 7.0, f64::INFINITY];
        Rsqrt: [0.25, 7.0, 1e12, f64::INFINITY];
        Cbrt: [-8.0, 0.001, 27.0];
        Recip: [-4.0, 0.125, 1e9, f64::INFINITY];
        Tan: [-1.5, 0.0, 0.3, 1.2];
        Tanh: [-3.0, -1e-9, 0.0, 0.7, 2.0, f64::INFINITY];
        Sigmoid: [-700.0, -3.0, 0.0, 0.7, 5.0, f64::INFINITY];
        decay: [-1.0, 0.0, 3.0];
    }
    let x = Tensor::from([f64::NAN]);
    assert_eq!(grad(&x, |x, _| x.relu()?.sum(All))?.to_vec()?, [1.0]);
    Ok(())
}

#[test]
fn fused_programs_by_their_result() {
    let x = random([5, 4], 1);
    let row = random([4], 2);
    check("bias and relu", &row, |row, tape| (tape.constant(&x)?.lazy() + row.lift()).relu().eval());
    check("an inner product", &x, |x, _| (x.lazy() * x.transposed().transposed() * 0.5).exp().eval());
    check("a row", &x, |x, tape| (x.lazy() * tape.constant(&row)?.lift()).sigmoid().eval());
    check("a user's operator", &x, |x, _| x.map(decay));
    check("in place", &x, |x, _| {
        let mut y = (x.lazy() * 2.0).eval()?;
        y.map_in_place(decay)?;
        y *= 3.0;
        y.map_in_place(Tanh)?;
        Ok(y)
    });
    check("reduced", &x, |x, _| x.lazy().exp().sum(Axis::<0>));
    check("scanned", &x, |x, _| x.lazy().exp().cumsum(Axis::<1>));
}

/// A sum of operands that are elements of a list.
macro_rules! sum_of {
    ($x:ident: $($k:literal)*) => { $x[0].lazy() $(+ &$x[$k])* };
}

/// A kernel of the backward pass has room for 21 operands and the result, or for 22 operands.
#[test]
fn functions_of_as_many_operands_as_a_kernel_takes() -> Result<()> {
    let x: Vec<_> = (0..22).map(|k| random([9], k)).collect();
    let y = sum_of!(x: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21).eval()?.to_vec()?;
    let slopes: Vec<f64> = y.iter().map(|y| f64::from(*y > 0.0)).collect();
    assert!(slopes.contains(&0.0) && slopes.contains(&1.0));
    let of_22 = grad(&x, |x, _| {
        let y = sum_of!(x: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21);
        y.relu().eval()?.sum(All)
    })?;
    for gradient in of_22 {
        assert_eq!(gradient.to_vec()?, slopes);
    }
    let y = sum_of!(x: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20).exp().eval()?.to_vec()?;
    let of_21 = grad(&x, |x, _| {
        let y = sum_of!(x: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
        y.exp().eval()?.sum(All)
    })?;
    for gradient in &of_21[..21] {
        close("exp", &gradient.to_vec()?, &y);
    }
    Ok(())
}

/// The bytes that a tape keeps for an operator between two products.
fn kept(f: impl Fn(&Var<f64, 2, Counted>) -> Result<Var<f64, 2, Counted>>) -> Result<usize> {
    let device = Counted::default();
    let tape = Tape::new(&device);
    let (x, w) = (tape.watch(&random([8, 8], 1).to(&device)?)?, tape.watch(&random([8, 8], 2).to(&device)?)?);
    let given = device.bytes();
    let y = f(&x.matmul(&w)?)?.matmul(&w)?;
    let kept = device.bytes() - given - y.nbytes();
    tape.backward(&y.sum(All)?)?;
    Ok(kept / y.nbytes())
}

#[test]
fn the_result_is_kept_and_not_the_operand() -> Result<()> {
    assert_eq!(kept(|x| x.relu())?, 1);
    assert_eq!(kept(|x| (x.lazy() + x.lazy()).relu().eval())?, 1);
    assert_eq!(kept(|x| x.tanh())?, 1);
    assert_eq!(kept(|x| x.map(decay))?, 1);
    assert_eq!(kept(|x| x.map(plain_decay))?, 2);
    assert_eq!(kept(|x| x.sin())?, 2);
    Ok(())
}

#[test]
fn sums_are_found_in_any_order_and_wrong_statements_are_refused() -> Result<()> {
    type Of<F, A> = Store<Call<F, A>>;
    type X = Input<f64>;
    assert_eq!(Of::<sum_backwards, (X, X, X)>::SLOPES, Slopes::One);
    assert_eq!(Of::<Add, (X, X)>::SLOPES, Slopes::One);
    assert_eq!(Of::<Exp, (Call<sum_backwards, (X, X, X)>,)>::SLOPES, Slopes::Equal);
    assert_eq!(Of::<doubled_slope, (X,)>::SLOPES, Slopes::Equal);
    assert_eq!(grad(&Tensor::from([3.0]), |x, _| x.map(doubled_slope)?.sum(All))?.to_vec()?, [2.0]);
    let x = [Tensor::from([2.0, 3.0]), Tensor::from([5.0, 7.0])];
    let of_sum = grad(&x, |[x, y], _| apply(sum_backwards, (x, y, y))?.sum(All))?;
    assert_eq!((of_sum[0].to_vec()?, of_sum[1].to_vec()?), (vec![1.0; 2], vec![2.0; 2]));
    // With no kernel, and with one kernel for both operands.
    let alone = grad(&x, |[x, y], _| x.zip(NoSum, y)?.sum(All));
    let inside = grad(&x, |[x, y], _| x.lazy().zip(NoSum, y).exp().eval()?.sum(All));
    for found in [alone, inside] {
        let error = found.unwrap_err().to_string();
        assert!(error.contains("IS_SUM"), "{error}");
    }
    // Without a gradient nothing is wrong.
    assert_eq!(x[0].zip(NoSum, &x[1])?.to_vec()?, [10.0, 21.0]);
    Ok(())
}

#[test]
fn a_saved_result_survives_writes_to_it() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([-1.0, 2.0, 3.0]))?;
    let mut y = x.relu()?;
    let loss = y.sum(All)?;
    y.fill(-5.0)?;
    assert_eq!(tape.backward(&loss)?.of(&x)?.to_vec()?, [0.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn second_derivatives_by_results() -> Result<()> {
    let tape = Tape::new(&Tape::new(&Cpu));
    let x = Tensor::from([0.3, -0.8, 1.1]);
    let inner = tape.inner().watch(&x)?;
    let both = tape.watch(&inner)?;
    let first = tape.backward(&both.tanh()?.sum(All)?)?.of(&both)?;
    let second = tape.inner().backward(&first.sum(All)?)?.of(&inner)?;
    let expected =
        x.to_vec()?.iter().map(|x| -2.0 * f64::tanh(*x) * (1.0 - f64::tanh(*x).powi(2))).collect::<Vec<_>>();
    close("tanh", &second.to_vec()?, &expected);
    Ok(())
}
