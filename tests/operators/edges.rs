//! Derivatives at special points: near 0, at infinity, at branch points, and the digits that they keep.

use rankform::ops::{self, Channels, Covariances, OperatorRow, built_in};
use rankform::prelude::*;

/// The other operand, where there are two.
const OTHERS: [f64; 9] = [-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 2.0, 2.5, 7.0];

fn near(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    a == b || (a - b).abs() <= relative * a.abs().max(b.abs()) + absolute
}

/// An operator along one operand, with one fixed other operand.
struct Line {
    name: String,
    row: OperatorRow,
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

/// Every operator with a numeric derivative, by every operand, with every other operand. Operators that step
/// by one ULP have none.
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

/// Points where no derivative exists, or the middle of two sides is another convention than the one that
/// holds there.
const SINGULAR: [(&str, f64); 4] = [
    ("atan2 (x, 0)", 0.0), // no angle at the origin
    ("atan2 (0, y)", 0.0),
    ("soft_shrink (x, 0)", 0.0), // within λ = 0 all is 0
    ("hard_shrink (x, 0)", 0.0),
];

/// Points where branches of operators meet, and where exponentials overflow.
const POINTS: [f64; 18] =
    [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0, 20.0, 30.0, 88.0, 100.0, 710.0];

/// The places, of those that count, where `slope` jumps out of its neighbors, though they agree; at ±∞ out of
/// its limit.
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
        if !line.value(end).is_nan()
            && counts(end)
            && near(a, b, 1e-6, 1e-7)
            && near(b, c, 1e-7, 1e-9)
            && !near(here, c, 1e-6, 1e-8)
        {
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
        // No slope is expected where it jumps or is infinite.
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
                // A NaN is an error without end.
                let error = Some((got - want).abs() / unit)
                    .filter(|error| !f64::is_nan(*error))
                    .unwrap_or(f64::INFINITY);
                if (1e-35..1e37).contains(&want.abs()) && error > worst.0 {
                    worst =
                        (error, format!("{} at {x:e}: {got:e}, not {want:e}, {error:.0} units", line.name));
                }
            }
        }
        // e^y (y − x + 1) near x = 1: y − 1 is rounded before 1 is added.
        if worst.0 > 16.0 && line.name != "kl_div_log_target (1, y)" {
            wrong.push(worst.1);
        }
    }
    assert!(wrong.is_empty(), "{} operators\n{}", wrong.len(), wrong.join("\n"));
}

fn close(a: f64, b: f64) -> bool {
    near(a, b, 4e-7, 0.0)
}

#[test]
fn a_constant_factor_has_no_part_in_a_slope_at_infinity() -> Result<()> {
    elementwise! {
        fn half_of(x) { x * 0.5 }
        fn over(x) { x / 1e-300 }
        fn quotient(x, c) { x / c }
    }
    let x = Tensor::from([1.0, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(x.map(derivative::<_, 0>(half_of))?.to_vec()?, [0.5; 3]);
    assert_eq!(x.zip(derivative::<_, 0>(ops::LeakyRelu), 0.01)?.to_vec()?, [1.0, 1.0, 0.01]);
    assert_eq!(x.map(derivative::<_, 0>(ops::HardSwish))?.to_vec()?, [5.0 / 6.0, 1.0, 0.0]);
    assert_eq!(x.map(derivative::<_, 0>(ops::Selu))?.to_vec()?[2], 0.0);
    assert_eq!(Tensor::from([2.0]).zip(derivative::<_, 0>(ops::Mul), f64::INFINITY)?.item()?, f64::INFINITY);
    // The quotient overflows, its slope does not.
    assert!(close(Tensor::from([1e10]).map(derivative::<_, 0>(over))?.item()?, 1e300));
    assert_eq!(Tensor::from([1.0]).zip(derivative::<_, 0>(quotient), 0.0)?.item()?, f64::INFINITY);
    Ok(())
}

#[test]
fn binary_cross_entropy_with_logits_has_the_slope_of_a_sigmoid_at_zero() -> Result<()> {
    let slope = |x: f64| {
        Tensor::full([3], x, &Cpu)?
            .zip(derivative::<_, 0>(ops::BinaryCrossEntropyWithLogits), &Tensor::from([0.0, 1.0, 0.5]))
    };
    assert_eq!(slope(0.0)?.to_vec()?, [0.5, -0.5, 0.0]);
    assert_eq!(slope(f64::INFINITY)?.to_vec()?, [1.0, 0.0, 0.5]);
    assert_eq!(slope(f64::NEG_INFINITY)?.to_vec()?, [0.0, -1.0, -0.5]);
    Ok(())
}

#[test]
fn floor_divide_is_infinite_beyond_all_numbers_and_keeps_the_sign_of_zero() -> Result<()> {
    let (x, y) = (
        Tensor::from([1e300, -1e300, 1e308, -0.0, 0.0, 1.0]),
        Tensor::from([1e-300, 1e-300, 0.1, 3.0, -3.0, -0.0]),
    );
    let floors = x.floor_divide(&y)?.to_vec()?;
    assert_eq!(floors, [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, -0.0, -0.0, f64::NEG_INFINITY]);
    assert!(floors[3].is_sign_negative() && floors[4].is_sign_negative());
    assert_eq!(Tensor::from([1e30_f32]).floor_divide(1e-30_f32)?.item()?, f32::INFINITY);
    assert_eq!(
        Tensor::from([7, -7, i32::MAX]).floor_divide(&Tensor::from([2, 2, 1]))?.to_vec()?,
        [3, -4, i32::MAX]
    );
    Ok(())
}

#[test]
fn hard_sigmoid_near_minus_three_keeps_its_digits() -> Result<()> {
    let x = Tensor::from([-2.999_999_f32]);
    assert_eq!(x.hard_sigmoid()?.item()?, (-2.999_999_f32 + 3.0) / 6.0);
    Ok(())
}

#[test]
fn norms_of_a_row_of_one_number_are_zero() -> Result<()> {
    fn zero<T: Float, const RANK: usize>(x: Tensor<T, RANK>) -> Result<()> {
        assert!(x.to_vec()?.iter().all(|x| *x == T::zero()), "{x}");
        Ok(())
    }
    for (number, n) in [(1_000_000.1, 3), (5000.7, 371), (1000.1, 3), (-0.1, 1000), (3e38, 2)] {
        let row = Tensor::full([2, n], number, &Cpu)?;
        zero(row.cast::<f32>()?.layer_norm(Axis::<1>, 1e-5)?)?;
        zero(row.layer_norm(Axis::<1>, 1e-5)?)?;
        zero(row.cast::<rankform::bf16>()?.layer_norm(All, rankform::bf16::from_f32(1e-5))?)?;
        zero(row.transposed().cast::<f32>()?.layer_norm(Axis::<0>, 1e-5)?)?;
    }
    let images = Tensor::full([2, 3, 5, 7], 1_000_000.1_f32, &Cpu)?;
    zero(images.batch_norm(1e-5)?)?;
    zero(images.group_norm(3, 1e-5)?)?;
    zero(images.instance_norm(1e-5)?)
}

#[test]
fn norms_of_rows_with_an_outlying_first_value_keep_their_digits() -> Result<()> {
    for (first, n) in [(1e4, 4096), (1e6, 4096), (1e8, 1 << 16)] {
        let x =
            Tensor::from_fn([1, n], |[_, j]| if j == 0 { first } else { 0.2 + (j % 7) as f64 * 0.05 }, &Cpu)?
                .cast::<f32>()?;
        let (got, want) = (
            x.layer_norm(Axis::<1>, 1e-5)?.to_vec()?,
            x.cast::<f64>()?.layer_norm(Axis::<1>, 1e-5)?.to_vec()?,
        );
        let worst =
            got.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs() / b.abs()).fold(0.0, f64::max);
        assert!(worst < 1e-5, "{first} {n}: {worst}");
    }
    Ok(())
}

#[test]
fn checks_of_values_read_nothing_of_a_device_without_data() -> Result<()> {
    use rankform::Meta;
    use rankform::ops::{Attention, Conv};
    let device = Meta::new();
    let q = Tensor::<f32, 4, Meta>::zeros([2, 3, 5, 4], &device)?;
    let mask = Tensor::<bool, 4, Meta>::full([1, 1, 5, 5], true, &device)?;
    assert_eq!(q.attention(&q, &q, None, Attention::new().causal(true))?.size(), [2, 3, 5, 4]);
    assert_eq!(q.attention(&q, &q, Some(mask.view()), Attention::new())?.size(), [2, 3, 5, 4]);
    let (x, w) =
        (Tensor::<f32, 4, Meta>::zeros([1, 4, 8, 8], &device)?, Tensor::zeros([4, 1, 3, 3], &device)?);
    assert_eq!(x.conv2d(&w, Conv::new().groups(4).padding([1, 1]))?.size(), [1, 4, 8, 8]);
    let times = Tensor::<i64, 1, Meta>::ones([3], &device)?;
    let rows = Tensor::<f64, 2, Meta>::zeros([2, 3], &device)?;
    assert_eq!(rows.cov(ops::Cov::new().frequencies(times.view()))?.size(), [2, 2]);
    Ok(())
}

#[test]
fn observations_that_count_for_nothing_have_no_part_in_a_covariance() -> Result<()> {
    let times = Tensor::from([0_i64, 1, 1, 1]);
    let cov = Tensor::from([[1e20, 1.0, 2.0, 3.0]]).cov(ops::Cov::new().frequencies(times.view()))?;
    assert!(close(cov.to_vec()?[0], 1.0), "{cov}");
    Ok(())
}

#[test]
fn correlations_of_a_constant_row_are_nan_and_of_a_tiny_one_right() -> Result<()> {
    for row in [[0.1_f64; 4], [2.0; 4], [1e300; 4]] {
        let r: Vec<f64> = Tensor::from([row, [1.0, 2.0, 3.0, 5.0]]).corrcoef()?.to_vec()?;
        assert!(r[..3].iter().all(|r| r.is_nan()) && close(r[3], 1.0), "{r:?}");
    }
    for scale in [1e-200, 1.0, 1e200] {
        let row = Tensor::from([1.0, -1.0, 1.0, -1.0]).mul(scale)?;
        let r = Tensor::stack([row.view(), Tensor::from([1.0, 1.0, 1.0, -1.0]).view()], Axis::<0>)?
            .corrcoef()?
            .to_vec()?;
        assert!(close(r[0], 1.0) && close(r[1], 1.0 / 3f64.sqrt()), "{r:?}");
    }
    let times = Tensor::from([-1_i64, 2]);
    let error = Tensor::from([[1.0, 2.0]]).cov(ops::Cov::new().frequencies(times.view())).unwrap_err();
    assert_eq!(error.to_string(), "cov: a frequency of -1");
    Ok(())
}

#[test]
fn norms_of_large_and_small_numbers_are_numbers() -> Result<()> {
    use rankform::ops::{CosineSimilarity, Norms};
    for scale in [1e-308, 1e-200, 1e-150, 1.0, 1e150, 1.42e152, 1e200, 1e307] {
        // Long rows and short ones, columns, and all in parts; numbers far smaller than the largest do not
        // count.
        let x = Tensor::from_fn([300, 40], |[i, j]| if (i + j) % 3 == 0 { -scale } else { scale }, &Cpu)?;
        let x =
            x.add(&Tensor::from_fn([300, 40], |[i, _]| if i == 7 { scale * 1e-300 } else { 0.0 }, &Cpu)?)?;
        let want = |n: f64| n.sqrt() * scale;
        assert!(
            x.norm(Axis::<1>)?.to_vec()?.iter().all(|&norm| near(norm, want(40.0), 1e-14, 0.0)),
            "{scale}"
        );
        assert!(
            x.norm(Axis::<0>)?.to_vec()?.iter().all(|&norm| near(norm, want(300.0), 1e-14, 0.0)),
            "{scale}"
        );
        if scale < 1e306 {
            assert!(near(x.norm(All)?.item()?, want(12000.0), 1e-13, 0.0), "{scale}");
        }
        let unit = x.normalize(Axis::<1>, 0.0)?;
        assert!(unit.to_vec()?.iter().all(|&x| near(x.abs(), 1.0 / 40f64.sqrt(), 1e-14, 0.0)), "{scale}");
        assert!(near(x.norm_p(3.0, All)?.item()?, 12000f64.cbrt() * scale, 1e-13, 0.0), "{scale}");
    }
    // Blocks with finite sums and an infinite total.
    let row = Tensor::full([20_000], 1.42e152, &Cpu)?;
    assert!(near(row.norm(All)?.item()?, 20_000f64.sqrt() * 1.42e152, 1e-13, 0.0));
    assert!(near(row.normalize(Axis::<0>, 0.0)?[[19_999]], 1.0 / 20_000f64.sqrt(), 1e-13, 0.0));
    let x = Tensor::from([3e38_f32, 3e38]);
    assert!(x.normalize(Axis::<0>, 1e-12)?.to_vec()?.iter().all(|&x| close(x.into(), 0.5f64.sqrt())));
    assert!(close(x.cosine_similarity(&x, Axis::<0>, 1e-12)?.item()?.into(), 1.0));
    let special =
        Tensor::from([[f64::INFINITY, 1e-300], [f64::NAN, 1e300], [0.0, 0.0]]).norm(Axis::<1>)?.to_vec()?;
    assert!(special[0] == f64::INFINITY && special[1].is_nan() && special[2] == 0.0, "{special:?}");
    assert_eq!(Tensor::<f64, 2>::zeros([2, 0], &Cpu)?.norm(Axis::<1>)?.to_vec()?, [0.0, 0.0]);
    Ok(())
}

#[test]
fn deviations_of_large_and_small_numbers_are_numbers() -> Result<()> {
    for scale in [1e-38, 1e-30, 1e-23, 1.0, 1e20, 1e38] {
        let x =
            Tensor::from_fn([64, 96], |[i, j]| ((i + j) % 2 * 2) as f32 - 1.0, &Cpu)?.mul(scale as f32)?;
        for std in [x.std(Axis::<0>)?.to_vec()?, x.std(Axis::<1>)?.to_vec()?, vec![x.std(All)?.item()?]] {
            assert!(std.iter().all(|&std| near(std.into(), scale, 1e-6, 0.0)), "{scale}: {std:?}");
        }
        let wide = x.cast::<rankform::bf16>()?.std(Axis::<1>)?.cast::<f64>()?.to_vec()?;
        assert!(wide.iter().all(|&std| near(std, scale, 1e-2, 0.0)), "{scale}: {wide:?}");
    }
    let (mean, var) = Tensor::from([1e308, -1e308]).mean_var(All)?;
    assert_eq!((mean.item()?, var.item()?), (0.0, f64::INFINITY));
    let columns = Tensor::from([[1e308, 1.0, 1e308], [-1e308, 3.0, 1e308]]).var(Axis::<0>)?;
    assert_eq!(columns.to_vec()?, [f64::INFINITY, 1.0, 0.0]);
    assert!(Tensor::from([1.0, f64::INFINITY]).var(All)?.item()?.is_nan());
    Ok(())
}

#[test]
fn sums_and_products_of_16_bits_where_indices_meet_are_not_rounded_at_every_step() -> Result<()> {
    use rankform::{bf16, f16, ops::ScatterReduction};
    fn check<T: Float>(number: impl Fn(f64) -> T) -> Result<()> {
        let index = Tensor::<i64, 1>::zeros([4096], &Cpu)?;
        let mut x = Tensor::full([2], number(8.0), &Cpu)?;
        x.scatter_reduce(
            ScatterReduction::Sum,
            Axis::<0>,
            &index,
            &Tensor::full([4096], number(1.0), &Cpu)?,
            false,
        )?;
        x.index_reduce(
            ScatterReduction::Sum,
            Axis::<0>,
            &index,
            &Tensor::full([4096], number(1.0), &Cpu)?,
            true,
        )?;
        assert_eq!(x.cast::<f64>()?.to_vec()?, [8192.0, 8.0]);
        let steps = Tensor::full([512], number(1.0 + 1.0 / 128.0), &Cpu)?;
        x.scatter_reduce(ScatterReduction::Prod, Axis::<0>, index.slice((0..512,))?, &steps, false)?;
        assert!(near(x.cast::<f64>()?.to_vec()?[0], (1.0 + 1.0 / 128.0f64).powi(512), 4e-3, 0.0));
        Ok(())
    }
    check::<f16>(f16::from_f64)?;
    check::<bf16>(bf16::from_f64)
}

#[test]
fn norm_p_of_any_p_is_a_documented_value_or_an_error() -> Result<()> {
    let x = Tensor::from([3.0, 0.0, -4.0]);
    for (p, want) in [
        (f64::INFINITY, 4.0),
        (f64::NEG_INFINITY, 0.0),
        (0.0, 2.0),
        (1000.0, 4.0),
        (1.0, 7.0),
        (2.0, 5.0),
        (-1.0, 0.0),
    ] {
        assert!(near(x.norm_p(p, All)?.item()?, want, 1e-14, 0.0), "{p}");
    }
    assert!(near(Tensor::from([2.0, 4.0]).norm_p(-1.0, All)?.item()?, 4.0 / 3.0, 1e-14, 0.0));
    assert_eq!(x.norm_p(f64::NAN, All).unwrap_err().to_string(), "norm_p: the norm of p = NaN");
    assert_eq!(Tensor::from([0.0, 0.0]).norm_p(3.0, All)?.item()?, 0.0);
    assert_eq!(Tensor::from([1.0, f64::INFINITY]).norm_p(3.0, All)?.item()?, f64::INFINITY);
    assert!(Tensor::from([1.0, f64::NAN]).norm_p(3.0, All)?.item()?.is_nan());
    Ok(())
}

#[test]
fn attention_does_not_see_infinities_that_are_hidden() -> Result<()> {
    use rankform::ops::Attention;
    let n = 40;
    for heads in [1, 1024] {
        let q = Tensor::<f32, 4>::ones([1, heads, n, 4], &Cpu)?;
        for (hidden, seen) in
            [(f32::NAN, f32::NAN), (f32::INFINITY, f32::INFINITY), (f32::NEG_INFINITY, f32::NEG_INFINITY)]
        {
            let mut v = Tensor::<f32, 4>::ones([1, heads, n, 2], &Cpu)?;
            v.view_mut()?.slice((0, 0, n - 1, 1))?.fill(hidden)?;
            let y = q.attention(&q, &v, None, Attention::new().causal(true))?;
            assert!((0..n - 1).all(|i| y[[0, 0, i, 0]] == 1.0 && y[[0, 0, i, 1]] == 1.0));
            let last = [y[[0, 0, n - 1, 0]], y[[0, 0, n - 1, 1]]];
            assert!(last[0] == 1.0 && (last[1] == seen || seen.is_nan() && last[1].is_nan()), "{last:?}");
        }
    }
    let q = Tensor::<f32, 4>::ones([1, 1, 2, 1], &Cpu)?;
    let v = Tensor::from([[[[5.0_f32], [f32::INFINITY]]]]);
    let mask = Tensor::from([[[[true, false], [true, true]]]]);
    assert_eq!(q.attention(&q, &v, Some(mask.view()), Attention::new())?.to_vec()?, [5.0, f32::INFINITY]);
    // Products beyond f32 with scores within it.
    let big = Tensor::<f32, 4>::full([1, 1, 2, 64], 3e18, &Cpu)?;
    assert_eq!(
        big.attention(&big, &Tensor::ones([1, 1, 2, 1], &Cpu)?, None, Attention::new())?.to_vec()?,
        [1.0, 1.0]
    );
    Ok(())
}

#[test]
fn padding_times_an_infinite_weight_is_nan_for_any_number_of_channels() -> Result<()> {
    use rankform::ops::Conv;
    for channels in [1, 2] {
        let (x, w) = (
            Tensor::<f32, 3>::ones([1, channels, 3], &Cpu)?,
            Tensor::full([1, channels, 3], f32::INFINITY, &Cpu)?,
        );
        let y = x.conv1d(&w, Conv::new().padding([1]))?.to_vec()?;
        assert!(y[0].is_nan() && y[1] == f32::INFINITY && y[2].is_nan(), "{y:?}");
    }
    Ok(())
}

#[test]
fn few_long_windows_are_pooled_as_many_short_ones() -> Result<()> {
    use rankform::ops::Pool;
    let x =
        Tensor::from_fn([2, 3, 23, 31], |[a, b, i, j]| ((a * 7 + b * 5 + i * 3 + j * 11) % 17) as f64, &Cpu)?;
    for (window, stride, padding, dilation) in [
        ([23, 31], [1, 1], [0, 0], [1, 1]),
        ([11, 9], [11, 20], [5, 4], [2, 3]),
        ([20, 7], [3, 24], [0, 3], [1, 5]),
    ] {
        for count_padding in [true, false] {
            let pool = Pool::new(window)
                .stride(stride)
                .padding(padding)
                .dilation(dilation)
                .count_padding(count_padding);
            let (largest, mean) = (x.max_pool2d(pool)?, x.avg_pool2d(pool)?);
            for at in largest.size().indices() {
                let places: Vec<f64> = (0..window[0] * window[1])
                    .filter_map(|k| {
                        let place = [k / window[1], k % window[1]];
                        let i = [0, 1].map(|a| {
                            (at[a + 2] * stride[a] + place[a] * dilation[a])
                                .checked_sub(padding[a])
                                .filter(|&i| i < [23, 31][a])
                        });
                        Some(x[[at[0], at[1], i[0]?, i[1]?]])
                    })
                    .collect();
                let count = if count_padding { window[0] * window[1] } else { places.len() };
                assert_eq!(largest[at], places.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                assert!(
                    near(mean[at], places.iter().sum::<f64>() / count as f64, 1e-14, 0.0),
                    "{pool:?} {at:?}"
                );
            }
        }
    }
    let global = x.adaptive_avg_pool([1, 2])?;
    assert!(near(global[[1, 2, 0, 1]], x.slice((1, 2, .., 15..31))?.mean(All)?.item()?, 1e-14, 0.0));
    assert_eq!(x.adaptive_max_pool([1, 1])?.max(All)?, x.max(All)?);
    Ok(())
}

#[test]
fn tensors_cross_a_caught_panic_as_vectors_do() {
    fn crosses<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    crosses::<Tensor<f32, 2>>();
    crosses::<TensorView<'static, f32, 2, Cpu>>();
    crosses::<Cpu>();
}
