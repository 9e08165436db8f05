//! Operators with parameters, on every kind of layout, against one loop: clamp, nan_to_num, isclose, ldexp,
//! celu, losses with a distance; and logsumexp over any axes.

use crate::arrange::{SIZE, arranged, read};
use crate::value::{Exact, Random, Value, differ};
use rankform::prelude::*;
use rankform::{bf16, f16};

fn real<T: Value>(x: T) -> f64 {
    match x.exact() {
        Exact::Real(x) => x,
        Exact::Integer(x) => x as f64,
        _ => unreachable!(),
    }
}

/// Whether two numbers are close, by the definition.
fn is_close<T: Value>(x: T, y: T, relative: f64, absolute: f64, nan: bool) -> bool {
    if let (Exact::Integer(x), Exact::Integer(y)) = (x.exact(), y.exact()) {
        return x == y || (x - y).abs() as f64 <= absolute + (relative * y as f64).abs();
    }
    let (x, y) = (real(x), real(y));
    if x.is_nan() || y.is_nan() {
        return nan && x.is_nan() && y.is_nan();
    }
    x == y || (x - y).is_finite() && (x - y).abs() <= absolute + (relative * y).abs()
}

fn closeness<T: Value + Comparable>() -> Result<()> {
    let samples = T::samples();
    let mut random = Random(71);
    let mut next = || samples[random.below(samples.len())];
    let pairs: Vec<_> =
        arranged(SIZE, &mut next).into_iter().zip(arranged(SIZE, &mut next).into_iter().rev()).collect();
    for (x, y) in &pairs {
        let size = std::array::from_fn(|axis| x.tensor.size()[axis].max(y.tensor.size()[axis]));
        for (relative, absolute, nan) in
            [(0.0, 0.0, false), (1e-5, 1e-8, true), (0.5, 3.0, false), (f64::INFINITY, 0.0, true)]
        {
            let found = x.tensor.isclose(&y.tensor, relative, absolute, nan)?;
            let pairs = read(&x.tensor, size).into_iter().zip(read(&y.tensor, size));
            let expected: Vec<bool> = pairs.map(|(x, y)| is_close(x, y, relative, absolute, nan)).collect();
            let wrong = found.to_vec()?.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{} {} {} within {relative}, {absolute}", T::DTYPE, x.kind, y.kind);
            assert_eq!(
                x.tensor.allclose(&y.tensor, relative, absolute, nan)?,
                expected.iter().all(|close| *close)
            );
            assert_eq!(x.tensor.lazy().isclose(&y.tensor, relative, absolute, nan).eval()?, found);
        }
    }
    Ok(())
}

#[test]
fn closeness_is_that_of_its_definition_on_every_element() -> Result<()> {
    closeness::<f32>()?;
    closeness::<f64>()?;
    closeness::<f16>()?;
    closeness::<bf16>()?;
    closeness::<i64>()?;
    closeness::<u64>()?;
    closeness::<i8>()?;
    closeness::<u32>()?;
    // A difference that i64 cannot hold, and one that f64 rounds to 0.
    let x = Tensor::from([i64::MIN, i64::MAX - 1]);
    let y = Tensor::from([i64::MAX, i64::MAX]);
    assert_eq!(x.isclose(&y, 0.0, 0.0, false)?.to_vec()?, [false, false]);
    assert_eq!(x.isclose(&y, 0.0, 1.0, false)?.to_vec()?, [false, true]);
    assert!(Tensor::<f32, 2>::zeros([0, 3], &Cpu)?.allclose(1.0, 0.0, 0.0, false)?);
    Ok(())
}

/// `x · 2ⁿ` rounded once, by way of whole numbers.
fn scaled(x: f64, n: i64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let bits = x.to_bits();
    let (mut exponent, mut fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
    if exponent == 0 {
        exponent = 1;
    } else {
        fraction |= 1 << 52;
    }
    // x = fraction · 2^(exponent − 1075)
    let n = n.clamp(-5000, 5000);
    let mut power = exponent - 1075 + n;
    while power < -1074 {
        // One bit at a time would round often: lost bits stick to the last one.
        let down = (-1074 - power).min(62) as u32;
        let whole = (fraction as u128) << 64 >> down;
        let (kept, rest) = ((whole >> 64) as u64, whole as u64);
        let half = 1u64 << 63;
        let sticky = down >= 62 && fraction >> 53 == 0 && kept == 0;
        if sticky && down > 55 {
            fraction = 0;
        } else {
            fraction = kept + u64::from(rest > half || rest == half && kept & 1 == 1);
        }
        power += i64::from(down);
        if fraction == 0 {
            break;
        }
    }
    let mut value = fraction as f64;
    while power > 0 && value.is_finite() {
        value *= 2.0;
        power -= 1;
    }
    while power < 0 && value != 0.0 {
        value /= 2.0; // exact: the lowest bit stays above the smallest number
        power += 1;
    }
    value.copysign(x)
}

#[test]
fn ldexp_rounds_once_for_every_exponent() -> Result<()> {
    let mut random = Random(73);
    let mut x: Vec<f64> = f64::samples();
    x.extend((0..2000).map(|_| f64::from_bits(random.bits())));
    let special = [0, 1, -1, 52, -52, 1023, -1022, -1074, -1075, 2047, -2098, -2200, i64::MAX, i64::MIN];
    let n: Vec<i64> = (0..x.len())
        .map(|k| if k % 3 == 0 { special[k / 3 % special.len()] } else { random.below(4400) as i64 - 2200 })
        .collect();
    let found = Tensor::from_slice(&x, [x.len()], &Cpu)?
        .ldexp(&Tensor::from_slice(&n, [n.len()], &Cpu)?)?
        .to_vec()?;
    for k in 0..x.len() {
        let expected = scaled(x[k], n[k]);
        assert!(
            found[k].to_bits() == expected.to_bits() || found[k].is_nan() && expected.is_nan(),
            "{:e} · 2^{} is {:e}, not {expected:e}",
            x[k],
            n[k],
            found[k]
        );
    }
    // f32 by f64, where products are exact; f16 rounds once more, from f32.
    let x: Vec<f32> = (0..4000).map(|_| f32::from_bits(random.bits() as u32)).collect();
    let n: Vec<i64> = (0..x.len()).map(|_| random.below(600) as i64 - 300).collect();
    let found = Tensor::from_slice(&x, [x.len()], &Cpu)?
        .ldexp(&Tensor::from_slice(&n, [n.len()], &Cpu)?)?
        .to_vec()?;
    let expected: Vec<f32> =
        x.iter().zip(&n).map(|(x, n)| (f64::from(*x) * 2f64.powi(*n as i32)) as f32).collect();
    assert_eq!(differ(&found, &expected), None);
    assert_eq!(
        Tensor::from([f16::from_f32(1.5)]).ldexp(-20)?.to_vec()?,
        [f16::from_f64(1.5 * 2f64.powi(-20))]
    );
    // Lazy, with a number and a tensor of exponents that stretches.
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(x.lazy().ldexp(&Tensor::from([[1_i64, 2]])).eval()?, Tensor::from([[2.0, 8.0], [6.0, 16.0]]));
    Ok(())
}

fn bounds<T: Value + Float>() -> Result<()> {
    let samples = T::samples();
    let mut random = Random(79);
    let (low, high) = (T::from(-1.5).unwrap(), T::from(2.0).unwrap());
    let [zero, one] = [T::zero(), T::one()];
    for x in arranged(SIZE, || samples[random.below(samples.len())]) {
        let size = x.tensor.size().0;
        let all = read(&x.tensor, size);
        let held: Vec<T> = all
            .iter()
            .map(|&x| {
                if x.is_nan() {
                    x
                } else {
                    if x < low {
                        low
                    } else if x > high {
                        high
                    } else {
                        x
                    }
                }
            })
            .collect();
        assert_eq!(
            differ(&x.tensor.clamp(low, high)?.to_vec()?, &held),
            None,
            "clamp {} {}",
            T::DTYPE,
            x.kind
        );
        let finite: Vec<T> = all
            .iter()
            .map(|&x| {
                if x.is_nan() {
                    zero
                } else if x == T::infinity() {
                    one
                } else if x == T::neg_infinity() {
                    -one
                } else {
                    x
                }
            })
            .collect();
        assert_eq!(
            differ(&x.tensor.nan_to_num(zero, one, -one)?.to_vec()?, &finite),
            None,
            "nan_to_num {} {}",
            T::DTYPE,
            x.kind
        );
    }
    Ok(())
}

#[test]
fn bounds_and_numbers_for_nan_are_chosen_element_by_element() -> Result<()> {
    bounds::<f32>()?;
    bounds::<f64>()?;
    bounds::<f16>()?;
    bounds::<bf16>()?;
    let x = Tensor::from([1.0, 2.0, 3.0]);
    assert_eq!(x.clamp(&Tensor::from([2.0]), 1.0)?.to_vec()?, [1.0; 3]);
    let error = x.isclose(&Tensor::from([1.0, 2.0]), 0.0, 0.0, false).unwrap_err().to_string();
    assert_eq!(error, "isclose: sizes [3] and [2] do not broadcast");
    let x = Tensor::<f32, 2, _>::zeros([4, 1], &Meta::new())?;
    assert_eq!(x.nan_to_num(0.0, 1.0, 2.0)?.size(), [4, 1]);
    Ok(())
}

#[test]
fn activations_and_losses_with_a_parameter_are_those_of_their_definition() -> Result<()> {
    let mut random = Random(83);
    for (x, y) in arranged(SIZE, || random.unit() * 6.0)
        .iter()
        .zip(arranged(SIZE, || Random(5).unit() * 6.0).iter().rev())
    {
        let (x, y) = (&x.tensor, &y.tensor);
        let size = std::array::from_fn(|axis| x.size()[axis].max(y.size()[axis]));
        let near = |found: Tensor<f64, 3>, rule: &dyn Fn(f64, f64) -> f64| {
            for ((x, y), found) in read(x, size).into_iter().zip(read(y, size)).zip(read(&found, size)) {
                assert!((found - rule(x, y)).abs() <= 1e-14 * rule(x, y).abs(), "{found} of {x}, {y}");
            }
        };
        near(x.smooth_l1_loss(y, 2.0)?, &|x, y| {
            if (x - y).abs() < 2.0 { 0.25 * (x - y) * (x - y) } else { (x - y).abs() - 1.0 }
        });
        near(x.huber_loss(y, 2.0)?, &|x, y| {
            if (x - y).abs() < 2.0 { 0.5 * (x - y) * (x - y) } else { 2.0 * ((x - y).abs() - 1.0) }
        });
    }
    let x = Tensor::from([-1e4, -1.0, -0.0, 2.0]);
    assert_eq!(x.celu(0.5)?.to_vec()?, [-0.5, 0.5 * (-2f64).exp_m1(), -0.0, 2.0]);
    assert_eq!(x.smooth_l1_loss(0.0, 0.0)?.to_vec()?, [1e4, 1.0, 0.0, 2.0]);
    Ok(())
}

#[test]
fn the_logarithm_of_a_sum_of_powers_neither_overflows_nor_vanishes() -> Result<()> {
    let mut random = Random(89);
    for (scale, shift) in [(1.0, 0.0), (300.0, 0.0), (5.0, 1e4), (5.0, -1e4)] {
        for x in arranged([4, 70, 5], || random.unit() * scale + shift) {
            for axis in 0..3 {
                let found: Tensor<f64, 2> = x.tensor.logsumexp_axis(axis)?;
                let beside = x.tensor.size().indices().filter(|index| index[axis] == 0);
                for (index, found) in beside.zip(found.iter()) {
                    let line =
                        |k: usize| x.tensor[std::array::from_fn(|a| if a == axis { k } else { index[a] })];
                    let line: Vec<f64> = (0..x.tensor.size()[axis]).map(line).collect();
                    let largest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let truth = largest + line.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
                    assert!(
                        (found - truth).abs() <= 4.0 * f64::EPSILON * truth.abs().max(1.0),
                        "{} along {axis}: {found}, not {truth}",
                        x.kind
                    );
                }
            }
        }
    }
    let infinity = f32::INFINITY;
    let x = Tensor::from([
        [infinity, 0.0, 1.0],
        [-infinity, -infinity, -infinity],
        [-infinity, 2.0, -infinity],
        [f32::NAN, 0.0, 0.0],
        [infinity, infinity, -infinity],
    ]);
    let found = x.logsumexp(Axis::<1>)?.to_vec()?;
    assert_eq!((found[0], found[1], found[2], found[4]), (infinity, -infinity, 2.0, infinity));
    assert!(found[3].is_nan());
    assert_eq!(Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.logsumexp(Axis::<1>)?.to_vec()?, [-infinity; 2]);
    // 70 000 equal halves: more than f16 can count. Softmax uses it next to its elements.
    let x = Tensor::<f16, 1>::zeros([70_000], &Cpu)?;
    assert_eq!(x.logsumexp(All)?.item()?, f16::from_f64(70_000f64.ln()));
    let x = Tensor::from([[0.0, 3f64.ln()]]);
    let shares = (x.lazy() - x.logsumexp_along(Axis::<1>)).exp().eval()?;
    assert!((shares[[0, 1]] - 0.75).abs() < 1e-15);
    // A long falling line and a rising one: the largest comes first, or last.
    let x = Tensor::from_fn([1000], |[i]| -(i as f32), &Cpu)?;
    let truth = (1.0 / (1.0 - (-1f64).exp())).ln() as f32;
    assert!((x.logsumexp(All)?.item()? - truth).abs() <= 2.0 * f32::EPSILON * truth);
    assert!((x.reversed(Axis::<0>).logsumexp(All)?.item()? - truth).abs() <= 2.0 * f32::EPSILON * truth);
    Ok(())
}

/// Rows of six kinds, of `n` elements, with the true values.
fn sums_of_powers<T: Value + Float>(n: usize, random: &mut Random) -> Result<()> {
    let of = |x: f64| <T as num_traits::NumCast>::from(x).unwrap_or(T::zero());
    let truth = |row: &[T]| {
        let row: Vec<f64> = row.iter().map(|&x| real(x)).collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + row.iter().map(|&x| if x == largest { 1.0 } else { (x - largest).exp() }).sum::<f64>().ln()
    };
    // The largest at both ends, values negligible next to them, −∞, a row of nothing else, any values, and ∞.
    let mut rows = vec![vec![T::zero(); n]; 6];
    for row in &mut rows {
        row.fill_with(|| of(random.unit() * 8.0));
    }
    (rows[0][0], rows[1][n - 1]) = (of(60.0), of(300.0));
    rows[2].iter_mut().step_by(3).for_each(|x| *x = of(f64::NEG_INFINITY));
    rows[3].fill(of(f64::NEG_INFINITY));
    rows[5][n / 2] = of(f64::INFINITY);
    let x = Tensor::from_vec(rows.concat(), [6, n])?;
    let found = x.logsumexp(Axis::<1>)?;
    for (row, &found) in rows.iter().zip(found.iter()) {
        let (found, truth) = (real(found), truth(row));
        let unit = real(T::epsilon()).max(f64::EPSILON * 2.0);
        assert!(
            found == truth || (found - truth).abs() <= 2.0 * unit * truth.abs().max(1.0),
            "{n}: {found}, not {truth}"
        );
    }
    // The same bits for strided, computed and broadcast elements; a GPU has its own order for each.
    if !cfg!(rankform_through_cuda) {
        let mut apart = Tensor::<T, 3>::zeros([6, n, 2], &Cpu)?;
        apart.view_mut()?.slice((.., .., 1))?.assign(&x)?;
        assert_eq!(apart.slice((.., .., 1))?.logsumexp(Axis::<1>)?, found, "{n}");
        assert_eq!((x.lazy() + T::zero()).logsumexp(Axis::<1>)?, found, "{n}");
        assert_eq!(
            x.logsumexp_along(Axis::<1>).eval()?,
            found.insert_axis(Axis::<1>).broadcast_to([6, n])?.copy()?,
            "{n}"
        );
    }
    // NaN at any position.
    let mut row = rows[4].clone();
    row[random.below(n)] = of(f64::NAN);
    assert!(real(Tensor::from_vec(row, [n])?.logsumexp(All)?.item()?).is_nan(), "{n}");
    Ok(())
}

#[test]
fn rows_of_any_length_have_the_logarithm_of_their_sum_of_powers() -> Result<()> {
    let mut random = Random(97);
    // Around steps of 16, around a chunk, and around a block of the pairwise sum.
    for n in (1..=70).chain(254..=260).chain(1020..=1030).chain(4090..=4100).chain([
        4096 + 100,
        4096 + 1025,
        3 * 4096 + 7,
    ]) {
        sums_of_powers::<f32>(n, &mut random)?;
        sums_of_powers::<f64>(n, &mut random)?;
        sums_of_powers::<f16>(n, &mut random)?;
        sums_of_powers::<bf16>(n, &mut random)?;
    }
    Ok(())
}

#[test]
fn positive_targets_weigh_and_alpha_scales() -> Result<()> {
    let mut random = crate::value::Random(77);
    let x = Tensor::from_fn([40, 3], |_| random.unit() * 60.0 - 30.0, &Cpu)?;
    let y = Tensor::from_fn([40, 3], |_| random.unit(), &Cpu)?;
    let weights = Tensor::from([0.5, 1.0, 4.0]);
    let loss = x.weighted_binary_cross_entropy_with_logits(&y, weights.lift())?;
    // −ln sigmoid(x) = ln(1 + e^(−x)), in the tail where it has digits.
    let log = |x: f64| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
    for [i, j] in loss.size().indices() {
        let (x, y) = (x[[i, j]], y[[i, j]]);
        let truth = weights[[j]] * y * log(-x) + (1.0 - y) * log(x);
        assert!((loss[[i, j]] - truth).abs() <= 4e-15 * truth.abs(), "{x} {y}: {} not {truth}", loss[[i, j]]);
    }
    let one = x.weighted_binary_cross_entropy_with_logits(&y, 1.0)?;
    use rankform::ops::Losses;
    assert!(one.allclose(&x.binary_cross_entropy_with_logits(&y)?, 1e-14, 0.0, false)?);
    let ends = Tensor::from([f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, -0.0]);
    let targets = Tensor::from([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let at_ends = ends.weighted_binary_cross_entropy_with_logits(&targets, 2.0)?.to_vec()?;
    assert_eq!(at_ends, [0.0, f64::INFINITY, f64::INFINITY, 0.0, 2.0 * 2f64.ln(), 2f64.ln()]);
    // The slope: (1 − y) · sigmoid(x) − p · y · sigmoid(−x), at 0 too.
    use rankform::ops::WeightedBinaryCrossEntropyWithLogits as Weighted;
    for (x, y, p) in [
        (0.0, 1.0, 3.0),
        (0.0, 0.0, 3.0),
        (-0.0, 0.25, 2.0),
        (30.0, 0.5, 2.0),
        (-40.0, 1.0, 5.0),
        (800.0, 0.0, 2.0),
    ] {
        let slope = apply(derivative::<_, 0>(Weighted), (&Tensor::from([x]), y, p))?[[0]];
        let share = |x: f64| 1.0 / (1.0 + (-x).exp());
        let truth = (1.0 - y) * share(x) - p * y * share(-x);
        assert!((slope - truth).abs() <= 1e-15 * truth.abs().max(1e-300), "{x} {y} {p}: {slope} not {truth}");
    }

    let x = Tensor::from([-1e-10_f64, -3.0, 0.0, 2.0, f64::NEG_INFINITY, f64::INFINITY, f64::NAN]);
    let y = x.elu_alpha(0.5)?.to_vec()?;
    assert!(y[..6] == [0.5 * (-1e-10f64).exp_m1(), 0.5 * (-3f64).exp_m1(), 0.0, 2.0, -0.5, f64::INFINITY]);
    assert!(y[6].is_nan());
    assert_eq!(x.lazy().elu_alpha(1.0).eval()?.slice((..6,))?.copy()?, x.elu()?.slice((..6,))?.copy()?);
    Ok(())
}

#[test]
fn vectors_have_length_1_by_any_norm() -> Result<()> {
    let mut random = crate::value::Random(78);
    let x = Tensor::from_fn([5, 4, 3], |_| random.unit() * 8.0 - 4.0, &Cpu)?;
    let inf = f64::INFINITY;
    for p in [2.0, 1.0, 0.0, 3.0, 0.5, inf, -inf, -1.0, -2.5] {
        for x in [x.view(), x.permuted([2, 1, 0])?] {
            let y = x.normalize_p(p, Axis::<1>, 1e-12)?;
            let norms = x.norm_p(p, Axis::<1>)?;
            let truth = x.lazy().div(norms.insert_axis(Axis::<1>)).eval()?;
            assert!(y.allclose(&truth, 1e-13, 0.0, false)?, "{p}");
            assert!(p == 0.0 || y.norm_p(p, Axis::<1>)?.allclose(1.0, 1e-13, 0.0, false)?, "{p}");
            let both = x.normalize_p(p, (Axis::<0>, Axis::<2>), 1e-12)?;
            assert!(
                p == 0.0 || both.norm_p(p, (Axis::<0>, Axis::<2>))?.allclose(1.0, 1e-13, 0.0, false)?,
                "{p}"
            );
        }
        // A vector of zeros stays one; the largest and smallest numbers have a length.
        let zeros = Tensor::<f64, 2>::zeros([2, 3], &Cpu)?;
        assert_eq!(zeros.normalize_p(p, Axis::<1>, 1e-12)?, zeros, "{p}");
        let line = Tensor::from([3e38_f32, -3e38]).normalize_p(p as f32, All, 1e-12)?;
        assert!(p == 0.0 || (line.norm_p(p as f32, All)?.item()? - 1.0).abs() < 1e-5, "{p} {line:?}");
    }
    let far = Tensor::from([3e200_f64, -4e200]).normalize_p(3.0, All, 1e-12)?;
    assert!((far.norm_p(3.0, All)?.item()? - 1.0).abs() < 1e-14);
    let halves = Tensor::from([3.0_f32, 1.0]).cast::<rankform::f16>()?.normalize_p(
        rankform::f16::from_f64(1.0),
        All,
        rankform::f16::ZERO,
    )?;
    assert_eq!(halves.to_vec()?.iter().map(|x| x.to_f64()).collect::<Vec<_>>(), [0.75, 0.25]);
    let mut out = x.copy()?;
    x.normalize_p_into(1.0, Axis::<2>, 1e-12, &mut out)?;
    assert_eq!(out, x.normalize_p(1.0, Axis::<2>, 1e-12)?);
    assert_eq!(
        x.normalize_p(f64::NAN, All, 1e-12).unwrap_err().to_string(),
        "normalize_p: the norm of p = NaN"
    );
    Ok(())
}
