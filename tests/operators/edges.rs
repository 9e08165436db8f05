//! Slopes where operators are delicate: beside 0, at infinity, where branches meet, and how many digits they keep.

use rankform::ops::{Row, built_in};

/// The other operand, where there are two.
const OTHERS: [f64; 9] = [-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 2.0, 2.5, 7.0];

fn near(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    a == b || (a - b).abs() <= relative * a.abs().max(b.abs()) + absolute
}

/// An operator along one operand, beside one other.
struct Line {
    name: String,
    row: Row,
    by: usize,
    other: f64,
}

impl Line {
    fn at(&self, x: f64) -> [f64; 2] {
        if self.by == 0 { [x, self.other] } else { [self.other, x] }
    }
    fn value(&self, x: f64) -> f64 {
        (self.row.value)(self.at(x))
    }
    fn slope(&self, x: f64) -> f64 {
        (self.row.slope)(self.at(x))[self.by]
    }
    fn slope_f32(&self, x: f64) -> f64 {
        f64::from((self.row.slope_f32)(self.at(x).map(|x| x as f32))[self.by])
    }
    fn curvature(&self, x: f64) -> f64 {
        (self.row.curvature)(self.at(x))[self.by]
    }
}

/// Every operator with numbers for slopes, by every operand, beside every other one. A step in the last place has none.
fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for row in built_in().into_iter().filter(|row| row.operands > 0 && row.name != "next_after") {
        for by in 0..row.operands {
            for &other in if row.operands == 1 { &OTHERS[..1] } else { &OTHERS[..] } {
                let name = match (row.operands, by) {
                    (1, _) => row.name.to_owned(),
                    (_, 0) => format!("{} (x, {other})", row.name),
                    _ => format!("{} ({other}, y)", row.name),
                };
                lines.push(Line { name, row, by, other });
            }
        }
    }
    lines
}

/// Points where no derivative exists, or the middle of two sides is another convention than the one that holds there.
const SINGULAR: [(&str, f64); 4] = [
    ("atan2 (x, 0)", 0.0), // no angle at the origin
    ("atan2 (0, y)", 0.0),
    ("soft_shrink (x, 0)", 0.0), // within λ = 0 all is 0
    ("hard_shrink (x, 0)", 0.0),
];

/// Where branches of operators meet, and where exponentials end.
const POINTS: [f64; 18] = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0, 20.0, 30.0, 88.0, 100.0, 710.0];

/// The places, of those that count, where `slope` jumps out of its neighbours, though they agree; at ±∞ out of its limit.
fn jumps(line: &Line, slope: impl Fn(f64) -> f64, counts: impl Fn(f64) -> bool, wrong: &mut Vec<String>) {
    for at in POINTS.into_iter().flat_map(|x| [x, -x]) {
        if line.value(at).is_nan() || !counts(at) || SINGULAR.contains(&(&line.name, at.abs())) {
            continue;
        }
        let [left, right] = [-1e-9, 1e-9].map(|by| slope(if at == 0.0 { by } else { at + by * at.abs() }));
        let here = slope(at);
        if near(left, right, 1e-6, 1e-8) && !near(here, left, 2e-6, 2e-8) {
            wrong.push(format!("{} at {at:?}: {here}, but {left} and {right} beside it", line.name));
        }
    }
    for end in [f64::INFINITY, f64::NEG_INFINITY] {
        let [a, b, c] = [1e8, 1e10, 1e12].map(|x| slope(x * end.signum()));
        let here = slope(end);
        if !line.value(end).is_nan() && counts(end) && near(a, b, 1e-6, 1e-7) && near(b, c, 1e-7, 1e-9) && !near(here, c, 1e-6, 1e-8) {
            wrong.push(format!("{} at {end}: {here}, but {c} at 1e12", line.name));
        }
    }
}

#[test]
fn a_slope_at_a_point_is_that_on_both_sides_where_these_agree() {
    let mut wrong = Vec::new();
    for line in lines() {
        jumps(&line, |x| line.slope(x), |_| true, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} slopes\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_second_derivative_at_a_point_is_that_on_both_sides_where_these_agree() {
    let mut wrong = Vec::new();
    for line in lines() {
        // Where a slope jumps, or has no end, there is none.
        let is_smooth = |x: f64| {
            let around = [x * (1.0 - 1e-9) - 1e-12, x, x * (1.0 + 1e-9) + 1e-12].map(|x| line.slope(x));
            around.iter().all(|slope| near(*slope, around[1], 1e-4, 1e-4))
        };
        jumps(&line, |x| line.curvature(x), is_smooth, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} derivatives\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn second_derivatives_are_the_differences_of_slopes() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    // A remainder jumps as often as its divisor fits.
    for line in lines().iter().filter(|line| line.by == 0 || !line.name.starts_with("rem")) {
        for x in [-7.3, -4.45, -2.6, -0.93, -0.35, -1e-3, 2e-3, 0.23, 0.61, 0.97, 1.26, 3.4, 5.7, 19.3] {
            let step = 1e-4 * f64::abs(x);
            let [a, b, c, d] = [2.0, 1.0, -1.0, -2.0].map(|by| line.slope(x + by * step));
            let (want, got) = ((8.0 * (b - c) - (a - d)) / (12.0 * step), line.curvature(x));
            // Rounding of slopes, over the step.
            let rounding = 1e-15 * a.abs().max(d.abs()) / step;
            compared += usize::from(!want.is_nan());
            if !want.is_nan() && !near(got, want, 1e-6, 1e-8 + 16.0 * rounding) {
                wrong.push(format!("{} at {x}: {got}, not {want}", line.name));
            }
        }
    }
    assert!(wrong.is_empty() && compared > 5_000, "{} of {compared}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn slopes_of_f32_keep_their_digits() {
    let mut wrong = Vec::new();
    for line in lines() {
        let mut worst = (0.0, String::new());
        for k in -60..60 {
            for sign in [1.0, -1.0] {
                let x = f64::from((sign * 1.37 * 10f64.powf(f64::from(k) / 6.0)) as f32);
                let (want, got) = (line.slope(x), line.slope_f32(x));
                // A slope may change much along the last place of x.
                let beside = line.slope(x * (1.0 + 6e-8)) - want;
                let unit = f64::from(f32::EPSILON) * want.abs() + 2.0 * beside.abs();
                let error = (got - want).abs() / unit;
                if (1e-35..1e37).contains(&want.abs()) && !(error <= worst.0) {
                    worst = (error, format!("{} at {x:e}: {got:e}, not {want:e}, {error:.0} units", line.name));
                }
            }
        }
        // e^y (y − x + 1) beside x = 1: y − 1 is rounded before 1 is added.
        if !(worst.0 <= 16.0) && line.name != "kl_div_log_target (1, y)" {
            wrong.push(worst.1);
        }
    }
    assert!(wrong.is_empty(), "{} operators\n{}", wrong.len(), wrong.join("\n"));
}
