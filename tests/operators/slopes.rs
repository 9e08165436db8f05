//! Derivatives: every operator's against differences of its values, their values at kinks, and the chain
//! rule.

use crate::arrange::{SIZE, arranged};
use crate::value::Random;
use rankform::ops::{self, built_in};
use rankform::prelude::*;

/// A five-point difference: relative errors of 1e-16 by the step and 1e-12 by rounding.
fn difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let step = 1e-4 * x.abs();
    (8.0 * (f(x + step) - f(x - step)) - (f(x + 2.0 * step) - f(x - 2.0 * step))) / (12.0 * step)
}

fn close(slope: f64, expected: f64) -> bool {
    expected.is_nan() || (slope - expected).abs() <= 1e-8 * expected.abs().max(1.0)
}

#[test]
fn the_slope_of_every_operator_is_the_difference_of_its_values() {
    // No operator has a kink, jump or pole here, and no x is a multiple of a y.
    let xs = [-7.3, -4.45, -2.6, -0.93, -0.35, -1e-3, 2e-3, 0.23, 0.61, 0.97, 1.26, 3.4, 5.7, 19.3];
    let ys = [-3.77, -1.31, -0.41, 0.173, 0.83, 1.87, 2.71];
    let mut compared = 0;
    for row in built_in().iter().filter(|row| row.operands > 0) {
        let mut known = 0;
        for x in xs {
            for y in ys.iter().take(if row.operands == 1 { 1 } else { ys.len() }) {
                let (slope, at) = ((row.slope)([x, *y]), [x, *y]);
                let expected =
                    [difference(|x| (row.value)([x, *y]), x), difference(|y| (row.value)([x, y]), *y)];
                for by in 0..row.operands {
                    known += !expected[by].is_nan() as usize;
                    assert!(
                        close(slope[by], expected[by]),
                        "{} at {at:?} by operand {by}: {}, not {}",
                        row.name,
                        slope[by],
                        expected[by]
                    );
                }
            }
        }
        assert!(known >= 3, "{}: {known}", row.name);
        compared += known;
    }
    println!("{compared} slopes");
}

#[test]
fn at_kinks_a_slope_is_the_middle_of_the_two_sides() {
    let kinks = [
        ("abs", [0.0, 0.0], [0.0, 0.0]),
        ("relu", [0.0, 0.0], [0.0, 0.0]),
        ("maximum", [3.0, 3.0], [0.5, 0.5]),
        ("minimum", [3.0, 3.0], [0.5, 0.5]),
        ("maximum", [3.0, 4.0], [0.0, 1.0]),
        ("minimum", [3.0, 4.0], [1.0, 0.0]),
        ("hard_sigmoid", [3.0, 0.0], [1.0 / 12.0, 0.0]),
        ("round", [0.5, 0.0], [0.0, 0.0]),
        ("signum", [0.0, 0.0], [0.0, 0.0]),
        ("copysign", [-2.0, 5.0], [-1.0, 0.0]),
        ("next_after", [1.5, 2.0], [1.0, 0.0]),
        ("next_after", [0.0, -2.0], [1.0, 0.0]),
        // No kink, though their bodies tell the sides of 0 apart.
        ("sigmoid", [0.0, 0.0], [0.25, 0.0]),
        ("silu", [0.0, 0.0], [0.5, 0.0]),
        ("elu", [0.0, 0.0], [1.0, 0.0]),
        ("log_sigmoid", [0.0, 0.0], [0.5, 0.0]),
        ("softplus", [0.0, 0.0], [0.5, 0.0]),
    ];
    let rows = built_in();
    for (name, at, expected) in kinks {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!((row.slope)(at), expected, "{name} at {at:?}");
    }
}

#[test]
fn slopes_in_the_far_tails_are_their_limits_and_not_nan() {
    let tails = [
        ("sigmoid", 0.0, 0.0),
        ("log_sigmoid", 1.0, 0.0),
        ("softplus", 0.0, 1.0),
        ("tanh", 0.0, 0.0),
        ("silu", 0.0, 1.0),
        ("gelu", 0.0, 1.0),
        ("elu", 0.0, 1.0),
        ("mish", 0.0, 1.0),
        ("gelu_tanh", 0.0, 1.0),
        ("erf", 0.0, 0.0),
        ("atan", 1e-6, 1e-6),
    ];
    let rows = built_in();
    for (name, below, above) in tails {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        for (x, expected) in [(-1e3, below), (1e3, above)] {
            let [slope, _] = (row.slope)([x, 0.0]);
            assert!((slope - expected).abs() < 1e-11, "{name} at {x}: {slope}, not {expected}");
        }
    }
}

elementwise! {
    fn wave(x, y) { (x * y).sin() * (-x.square()).exp() / (y + 3.0) }
    fn cubes(x, y, z) where Number { x * x * x + y * y * z - x * z }
    fn hinge(x, y) where RealNumber { x.max(y) - x.min(y) + x.lt(y).select(x * x, y) }
    fn fused(x, y) { x.mul_add(y, x).sqrt() }
    fn sizes(x) where ComplexElement { x * x.conj() }
}

fn wave_at(x: f64, y: f64) -> f64 {
    (x * y).sin() * (-x * x).exp() / (y + 3.0)
}

#[test]
fn the_derivative_of_a_body_is_an_operator_on_every_layout() -> Result<()> {
    let mut random = Random(3);
    let (left, right) = (arranged(SIZE, || random.unit() + 1.1), arranged(SIZE, || Random(5).unit() + 1.6));
    for (x, y) in left.iter().zip(right.iter().rev()) {
        let found = [
            x.tensor.zip(derivative::<_, 0>(wave), &y.tensor)?,
            x.tensor.zip(derivative::<_, 1>(wave), &y.tensor)?,
        ];
        let second = x.tensor.zip(derivative::<_, 1>(derivative::<_, 0>(wave)), &y.tensor)?;
        let size = found[0].size();
        let (x, y) = (x.tensor.broadcast_to(size)?.to_vec()?, y.tensor.broadcast_to(size)?.to_vec()?);
        let (by_x, by_y, by_both) = (found[0].to_vec()?, found[1].to_vec()?, second.to_vec()?);
        for (k, (&x, &y)) in x.iter().zip(&y).enumerate() {
            assert!(close(by_x[k], difference(|x| wave_at(x, y), x)), "{x} {y}");
            assert!(close(by_y[k], difference(|y| wave_at(x, y), y)), "{x} {y}");
            let mixed = difference(|y| (wave_at(x + 1e-4, y) - wave_at(x - 1e-4, y)) / 2e-4, y);
            assert!((by_both[k] - mixed).abs() < 1e-6, "{x} {y}: {} {mixed}", by_both[k]);
        }
    }
    Ok(())
}

#[test]
fn derivatives_of_three_operands_of_integers_of_halves_and_of_complex_numbers() -> Result<()> {
    let (x, y, z) = (Tensor::from([2.0, -1.0]), Tensor::from([3.0, 0.5]), Tensor::from([-4.0, 1.5]));
    assert_eq!(apply(derivative::<_, 0>(cubes), (x.view(), &y, &z))?.to_vec()?, [16.0, 1.5]); // 3x² − z
    assert_eq!(apply(derivative::<_, 1>(cubes), (x.view(), &y, &z))?.to_vec()?, [-24.0, 1.5]); // 2yz
    assert_eq!(apply(derivative::<_, 2>(cubes), (x.view(), &y, &z))?.to_vec()?, [7.0, 1.25]); // y² − x
    // Whole numbers have no slope: 0.
    assert_eq!(Tensor::from([2, 3]).zip(derivative::<_, 0>(ops::Mul), 5)?.to_vec()?, [0, 0]);
    let half = x.cast::<rankform::f16>()?;
    assert_eq!(half.map(derivative::<_, 0>(ops::Square))?.cast::<f64>()?.to_vec()?, [4.0, -2.0]);
    let error =
        x.zip(derivative::<_, 0>(derivative::<_, 1>(hinge)), &Tensor::from([1.0, 2.0, 3.0])).unwrap_err();
    assert_eq!(error.to_string(), "hinge: sizes [2] and [3] do not broadcast");
    assert_eq!(x.zip(derivative::<_, 0>(hinge), &y)?.to_vec()?, [3.0, -3.0]); // below y: −1 + 2x
    assert_eq!(x.zip(derivative::<_, 1>(hinge), &y)?.to_vec()?, [1.0, 1.0]);
    let root = y.zip(derivative::<_, 1>(fused), 3.0)?.to_vec()?; // y / (2 √(y · 3 + y))
    assert!((root[0] - 3.0 / (2.0 * 12f64.sqrt())).abs() < 1e-15);
    let complex = Tensor::from([num_complex::Complex::new(1.0, 2.0)]);
    assert_eq!(complex.map(derivative::<_, 0>(ops::Square))?.item()?, num_complex::Complex::new(2.0, 4.0));
    // along the real axis
    assert_eq!(complex.map(derivative::<_, 0>(sizes))?.item()?, num_complex::Complex::new(2.0, 0.0));
    Ok(())
}

#[test]
fn the_chain_rule_holds_through_nested_operators() -> Result<()> {
    elementwise! {
        fn inner(x) { (x * 0.7).sin() + x * x }
        fn outer(u) { (u * 0.5).tanh() * u }
        fn nested(x) {
            let u = (x * 0.7).sin() + x * x;
            (u * 0.5).tanh() * u
        }
    }
    let x = Tensor::linspace(-2.0_f64, 2.0, 301, &Cpu)?;
    let whole = x.map(derivative::<_, 0>(nested))?.to_vec()?;
    let product = (x.lazy().map(inner).map(derivative::<_, 0>(outer))
        * x.lazy().map(derivative::<_, 0>(inner)))
    .eval()?
    .to_vec()?;
    for (whole, product) in whole.iter().zip(product) {
        assert!((whole - product).abs() <= 1e-14 * product.abs().max(1.0), "{whole} {product}");
    }
    // Second derivatives, of f32: 6x + sin″.
    elementwise! { fn cubic(x) { x * x * x } }
    let y = Tensor::from([1.5_f32, -2.0]).map(derivative::<_, 0>(derivative::<_, 0>(cubic)))?;
    assert_eq!(y.to_vec()?, [9.0, -12.0]);
    Ok(())
}

#[test]
fn a_constant_adds_no_slope_even_where_the_slope_is_nan() -> Result<()> {
    elementwise! {
        fn squared(x) { x.powf(Lane::real(2.0)) }
        fn by_root(x, y) { x * y.sqrt() }
        fn by_logarithm(x, y) { x * y.cbrt() }
        fn bump(x) { (x * x).exp() }
    }
    let x = Tensor::from([-3.0f64, -1.0, 0.0, 2.0]);
    assert_eq!(x.map(derivative::<_, 0>(squared))?.to_vec()?, [-6.0, -2.0, 0.0, 4.0]);
    assert_eq!(x.zip(derivative::<_, 0>(ops::Powf), 2.0)?.to_vec()?, [-6.0, -2.0, 0.0, 4.0]);
    assert!(x.zip(derivative::<_, 1>(ops::Powf), 2.0)?[[0]].is_nan(), "in the exponent there is none");
    assert_eq!(x.zip(derivative::<_, 0>(by_root), 0.0)?.to_vec()?, [0.0; 4]);
    assert_eq!(x.zip(derivative::<_, 0>(by_logarithm), 0.0)?.to_vec()?, [0.0; 4]);
    // A tangent that is 0 at one place only keeps its own slope.
    assert_eq!(x.map(derivative::<_, 0>(derivative::<_, 0>(bump)))?[[2]], 2.0);
    Ok(())
}
