//! First and second derivatives of the built-in operators are as accurate as their values, by `slopes.txt`,
//! which `slopes.py` computed to 60 digits.
//!
//! An error is measured in units in the last place of the derivative, or in changes of the derivative by half
//! a unit of the operand, whichever is larger: e^(−x²) far out, for one, changes by hundreds of units there.

use rankform::ops::{OperatorRow, built_in};
use std::collections::BTreeMap;

/// The largest error that an operator may have: first derivative in f32 and f64, second in f64.
const BUDGET: [f64; 3] = [4.0, 4.0, 8.0];

/// Operators with budgets of their own. The slopes of `i0e` and `i1e` are differences of two functions that
/// agree in more and more digits as x grows; beyond 128 a series takes their place.
const BUDGETS: [(&str, [f64; 3]); 4] = [
    ("gelu_tanh", [8.0; 3]),
    ("i0e", [4.0, 64.0, 4096.0]),
    ("i1e", [4.0, 64.0, 4096.0]),
    ("log_ndtr", [4.0, 4.0, 16.0]),
];

/// The distance of `x` to its neighbor, for numbers with `bits` bits of fraction.
fn unit(x: f64, fraction: i32) -> f64 {
    f64::from_bits(x.to_bits() & 0x7ff << 52) * 2f64.powi(-fraction)
}

/// The error of `got`, in units as above; `next` is the next derivative.
fn error(got: f64, want: f64, next: f64, x: f64, fraction: i32) -> f64 {
    let unit = unit(want, fraction).max(0.5 * next.abs() * unit(x, fraction));
    if got.is_nan() { f64::INFINITY } else { (got - want).abs() / unit }
}

#[test]
fn derivatives_stay_within_their_budgets() {
    let rows: BTreeMap<&str, OperatorRow> = built_in().into_iter().map(|row| (row.name, row)).collect();
    let mut worst: BTreeMap<&str, [(f64, f64); 3]> = BTreeMap::new();
    for line in include_str!("slopes.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, by) = (words[0], words[1].parse::<usize>().unwrap());
        let numbers: Vec<f64> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
        let (at, truth) = numbers.split_at(numbers.len() - 3);
        let row = rows.get(name).unwrap_or_else(|| panic!("no operator `{name}`"));
        assert_eq!(at.len(), row.operands, "{line}");
        let at = [at[0], *at.last().unwrap()];
        let [first, second, third] = [truth[0], truth[1], truth[2]];
        let seen = worst.entry(name).or_default();
        let mut see = |column: usize, error: f64| {
            if error > seen[column].0 {
                seen[column] = (error, at[by]);
            }
        };
        see(0, error((row.slope_f32)(at.map(|x| x as f32))[by].into(), first, second, at[by], 23));
        see(1, error((row.slope)(at)[by], first, second, at[by], 52));
        if second != 0.0 {
            see(2, error((row.curvature)(at)[by], second, third, at[by], 52));
        }
    }
    let mut wrong = Vec::new();
    for (name, errors) in &worst {
        let budget = BUDGETS.iter().find(|of| of.0 == *name).map_or(BUDGET, |of| of.1);
        let [f32, f64, second] = errors;
        println!(
            "| {name} | {:.2} | {:.4e} | {:.2} | {:.4e} | {:.2} | {:.4e} |",
            f32.0, f32.1, f64.0, f64.1, second.0, second.1
        );
        if errors.iter().zip(budget).any(|(error, budget)| error.0 > budget) {
            wrong.push(format!("{name}: {errors:?}"));
        }
    }
    assert!(
        worst.len() > 75 && wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        worst.len(),
        wrong.join("\n")
    );
}

/// The slope of `gelu` has a form of its own in f32. It is compared with that of f64 on a grid, and on every
/// number beside the zero of the slope.
#[test]
fn the_slope_of_gelu_in_f32() {
    let row = built_in().into_iter().find(|row| row.name == "gelu").unwrap();
    let zero = -0.751_791_5_f32;
    let beside = (0..4000).map(|k| f32::from_bits(zero.to_bits() - 2000 + k));
    let grid = (0..3_200_000).map(|k| (k as f32 - 1_600_000.0) * 1e-5);
    let mut worst = (0.0, 0.0_f32);
    for x in beside.chain(grid) {
        let (found, truth) = (f64::from((row.slope_f32)([x, 0.0])[0]), (row.slope)([x.into(), 0.0])[0]);
        // Down to the subnormals, whose unit is constant.
        let error = (found - truth).abs() / unit(truth, 23).max(f64::from(f32::from_bits(1)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    assert!(worst.0 < 4.0, "{} units at {}", worst.0, worst.1);
    for (x, slope) in [(f32::INFINITY, 1.0), (f32::NEG_INFINITY, 0.0), (0.0, 0.5), (-40.0, 0.0), (40.0, 1.0)]
    {
        assert_eq!((row.slope_f32)([x, 0.0])[0], slope, "{x}");
    }
    assert!((row.slope_f32)([f32::NAN, 0.0])[0].is_nan());
}
