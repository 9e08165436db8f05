//! Functions for any float, rank and device with no bound but `T: Float, D: Device`, against plain loops.

use crate::value::{Random, Value};
use rankform::ops::{Mean, Norm, Sum};
use rankform::prelude::*;
use rankform::{bf16, f16};

/// Mean 0 and deviation 1 over all elements, as one expression.
fn zscore<T: Float, const RANK: usize, D: Device>(x: TensorView<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
    ((x.lazy() - x.mean_along(All)) / x.std_along(All)).eval()
}
/// The same by tensors of rank 0.
fn zscore_by_parts<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    let (mean, std) = (x.mean(All)?, x.std(All)?);
    ((x.lazy() - mean.lift()) / std.lift()).eval()
}
fn zscore_of_rows<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    ((x.lazy() - x.mean_along(Last)) / x.std_along(Last)).eval()
}
fn softmax_of_rows<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    x.softmax(Last)
}
fn centered<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
    axis: usize,
) -> Result<Tensor<T, RANK, D>> {
    (x.lazy() - x.mean_along_axis(axis)).eval()
}
/// The same by a tensor with an axis of size 1.
fn centred_by_parts<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
    axis: usize,
) -> Result<Tensor<T, RANK, D>> {
    let mean = x.reduce_keepdims_axis(Mean, axis)?;
    x.sub(&mean)
}
/// The cosine of every row of `x` with that of `y`; the last axis has size 1.
fn cosine_of_rows<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
    y: TensorView<T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    let least = T::constant(1e-6);
    (x.lazy().normalize(Last, least) * y.lazy().normalize(Last, least)).reduce_keepdims(Sum, Last)
}
fn cosine<T: Float, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
    y: TensorView<T, RANK, D>,
) -> Result<Tensor<T, 0, D>> {
    x.cosine_similarity(y, All, T::constant(1e-6))
}
/// Constants and several operators.
fn squashed<T: Float, const RANK: usize, D: Device>(x: TensorView<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
    (x.lazy() * T::constant(0.5)).tanh().mul(T::constant(0.5)).add(T::constant(0.5)).eval()
}

fn real<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap()
}

type Rule = fn(&[f64]) -> Vec<f64>;

fn standardised(x: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let std = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
    x.iter().map(|x| (x - mean) / std).collect()
}
fn shares(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}
fn differences(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.iter().map(|x| x - mean).collect()
}
fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// The line of `x` along `axis` through `index`.
fn line<T: Float, const RANK: usize>(x: TensorView<T, RANK>, axis: usize, index: [usize; RANK]) -> Vec<f64> {
    (0..x.size()[axis])
        .map(|k| real(x[std::array::from_fn(|a| if a == axis { k } else { index[a] })]))
        .collect()
}

/// How much larger the numbers are than the differences between them, which a rounded mean is to be measured
/// by.
fn condition(x: &[f64]) -> f64 {
    let (least, most) = x.iter().fold((f64::MAX, f64::MIN), |(least, most), &x| (least.min(x), most.max(x)));
    let largest = least.abs().max(most.abs());
    1.0 + if most > least { largest / (most - least) } else { 0.0 }
}

fn near<T: Value>(found: f64, truth: f64, condition: f64, what: &str) {
    let bound = 2f64.powi(-T::FRACTION) * 8.0 * truth.abs().max(1.0) * condition;
    let is_none = found.is_nan() && truth.is_nan(); // a line of one number has no deviation
    assert!(is_none || (found - truth).abs() <= bound, "{what} of {}: {found}, not {truth}", T::DTYPE);
}

/// Every line along `axis` as the rule has it.
fn by_lines<T: Value + Float, const RANK: usize>(
    x: TensorView<T, RANK>,
    found: Result<Tensor<T, RANK>>,
    axis: usize,
    rule: Rule,
    what: &str,
) {
    let found = found.unwrap();
    assert_eq!(found.size(), x.size(), "{what}");
    for index in x.size().indices() {
        let line = line(x, axis, index);
        near::<T>(real(found[index]), rule(&line)[index[axis]], condition(&line), what);
    }
}

fn by_all<T: Value + Float, const RANK: usize>(
    x: TensorView<T, RANK>,
    found: Result<Tensor<T, RANK>>,
    rule: Rule,
    what: &str,
) {
    let all: Vec<f64> = x.iter().map(|&x| real(x)).collect();
    for (found, truth) in found.unwrap().to_vec().unwrap().into_iter().zip(rule(&all)) {
        near::<T>(real(found), truth, condition(&all), what);
    }
}

fn every_function<T: Value + Float, const RANK: usize>(
    x: TensorView<T, RANK>,
    y: TensorView<T, RANK>,
) -> Result<()> {
    by_all(x, zscore(x), standardised, "zscore");
    by_all(x, zscore_by_parts(x), standardised, "zscore by parts");
    by_all(x, squashed(x), |x| x.iter().map(|x| 0.5 + 0.5 * (0.5 * x).tanh()).collect(), "squashed");
    by_lines(x, zscore_of_rows(x), RANK - 1, standardised, "zscore of rows");
    by_lines(x, softmax_of_rows(x), RANK - 1, shares, "softmax of rows");
    for axis in 0..RANK {
        by_lines(x, centered(x, axis), axis, differences, "centered");
        by_lines(x, centred_by_parts(x, axis), axis, differences, "centered by parts");
        by_lines(x, x.softmax_axis(axis), axis, shares, "softmax_axis");
        by_lines(
            x,
            x.log_softmax_axis(axis),
            axis,
            |x| shares(x).iter().map(|x| x.ln()).collect(),
            "log_softmax_axis",
        );
        by_lines(x, x.layer_norm_axis(axis, T::zero()), axis, standardised, "layer_norm_axis");
        by_lines(
            x,
            x.rms_norm_axis(axis, T::zero()),
            axis,
            |x| x.iter().map(|v| v / (dot(x, x) / x.len() as f64).sqrt()).collect(),
            "rms_norm_axis",
        );
        by_lines(
            x,
            x.normalize_axis(axis, T::zero()),
            axis,
            |x| x.iter().map(|v| v / dot(x, x).sqrt()).collect(),
            "normalize_axis",
        );
    }
    let of_rows = cosine_of_rows(x, y)?;
    let mut size = x.size();
    size.0[RANK - 1] = 1;
    assert_eq!(of_rows.size(), size);
    for index in size.indices() {
        let (a, b) = (line(x, RANK - 1, index), line(y, RANK - 1, index));
        near::<T>(
            real(of_rows[index]),
            dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt(),
            1.0,
            "cosine of rows",
        );
    }
    let all = |x: TensorView<T, RANK>| x.iter().map(|&x| real(x)).collect::<Vec<_>>();
    let (a, b) = (all(x), all(y));
    near::<T>(real(cosine(x, y)?.item()?), dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt(), 1.0, "cosine");
    Ok(())
}

fn every_rank<T: Value + Float>() -> Result<()> {
    let mut random = Random(33);
    let mut next = || T::moderate(&mut random);
    fn both<T: Value + Float, const RANK: usize>(
        size: [usize; RANK],
        mut next: impl FnMut() -> T,
    ) -> Result<()> {
        let x = Tensor::from_fn(size, |_| next(), &Cpu)?;
        let y = Tensor::from_fn(size, |_| next(), &Cpu)?;
        every_function(x.view(), y.view())?;
        // Turned, backwards.
        every_function(x.transposed(), y.transposed())?;
        every_function(x.view().reversed_axis(0)?, y.view())
    }
    both([7], &mut next)?;
    both([3, 5], &mut next)?;
    both([2, 3, 4], &mut next)?;
    both([2, 1, 3, 2], &mut next)
}

#[test]
fn functions_of_any_float_rank_and_device_need_no_other_bound() -> Result<()> {
    every_rank::<f32>()?;
    every_rank::<f64>()?;
    every_rank::<f16>()?;
    every_rank::<bf16>()
}

#[test]
fn functions_of_any_rank_keep_to_sizes_on_devices_without_data_and_of_any_rank() -> Result<()> {
    let meta = Meta::new();
    let x = Tensor::<f32, 3, Meta>::zeros([2, 3, 4], &meta)?;
    for y in [
        zscore(x.view())?,
        zscore_by_parts(x.view())?,
        zscore_of_rows(x.view())?,
        softmax_of_rows(x.view())?,
        centered(x.view(), 1)?,
    ] {
        assert_eq!(y.size(), [2, 3, 4]);
    }
    assert_eq!(
        (cosine_of_rows(x.view(), x.view())?.size(), cosine(x.view(), x.view())?.size()),
        (dim![2, 3, 1], dim![])
    );
    assert_eq!(x.reduce_keepdims(Norm, (Axis::<0>, Axis::<2>))?.size(), [1, 3, 1]);
    // More axes than relations of ranks know.
    let x = Tensor::<f64, 10>::from_fn(
        [1, 2, 1, 2, 1, 1, 2, 1, 1, 3],
        |index| index.iter().sum::<usize>() as f64,
        &Cpu,
    )?;
    by_all(x.view(), zscore(x.view()), standardised, "rank 10");
    by_lines(x.view(), softmax_of_rows(x.view()), 9, shares, "rank 10");
    by_lines(x.view(), centered(x.view(), 6), 6, differences, "rank 10");
    assert_eq!(cosine_of_rows(x.view(), x.view())?.numel(), 8);
    Ok(())
}

#[test]
fn no_last_axis_and_axes_out_of_range_are_errors_of_the_call() -> Result<()> {
    let (point, x) = (Tensor::from(2.0_f64), Tensor::from([[1.0, 3.0], [5.0, 7.0]]));
    assert_eq!(zscore_of_rows(point.view()).unwrap_err().to_string(), "eval: axis 0 does not fit sizes []");
    assert_eq!(
        softmax_of_rows(point.view()).unwrap_err().to_string(),
        "softmax: axis 0 does not fit sizes []"
    );
    assert!(matches!(point.reduce_keepdims(Mean, Last), Err(Error::Axis { op: "mean", axis: 0, .. })));
    let mut out = point.copy()?;
    assert!(matches!(point.softmax_into(Last, &mut out), Err(Error::Axis { op: "softmax_into", .. })));
    assert_eq!((point.softmax(All)?.item()?, zscore_by_parts(point.view())?.item()?.is_nan()), (1.0, true));
    assert_eq!(centered(x.view(), 2).unwrap_err().to_string(), "eval: axis 2 does not fit sizes [2, 2]");
    assert_eq!(
        x.softmax_axis(usize::MAX).unwrap_err().to_string(),
        "softmax_axis: axis 18446744073709551615 does not fit sizes [2, 2]"
    );
    assert!(matches!(
        x.view().layer_norm_axis(2, 0.0),
        Err(Error::Axis { op: "layer_norm_axis", axis: 2, .. })
    ));
    assert!(matches!(x.reduce_keepdims_axis(Sum, 2), Err(Error::Axis { op: "sum", axis: 2, .. })));
    // The sizes of a computed operand are in the text too.
    assert_eq!(
        (x.lazy() + 1.0).sum_axis(3).unwrap_err().to_string(),
        "sum: axis 3 does not fit sizes [2, 2]"
    );
    assert_eq!(
        (x.lazy() + 1.0).cumsum_axis(2).unwrap_err().to_string(),
        "cumsum: axis 2 does not fit sizes [2, 2]"
    );
    // A missing axis in a part of an expression, next to one that exists.
    assert!(matches!(
        (x.lazy() - x.mean_along(Last) - x.mean_along_axis(5)).sum(Last),
        Err(Error::Axis { axis: 5, .. })
    ));
    assert_eq!(
        (x.mean(Last)?.to_vec()?, x.argmax(Last)?.to_vec()?, x.mean_axis(1)?.to_vec()?),
        (vec![2.0, 6.0], vec![1, 1], vec![2.0, 6.0])
    );
    // Nothing at all has a mean of rows, and no largest.
    let none = Tensor::<f64, 2>::zeros([2, 0], &Cpu)?;
    assert!(none.reduce_keepdims(Mean, Last)?.iter().all(|mean| mean.is_nan()));
    assert_eq!(
        (none.reduce_keepdims(Sum, Axis::<0>)?.size(), centered(none.view(), 1)?.size()),
        (dim![1, 0], dim![2, 0])
    );
    assert!(matches!(none.reduce_keepdims(rankform::ops::Max, Last), Err(Error::Empty { .. })));
    Ok(())
}

/// A function takes tensors and views alike.
fn spread<'a, T: Float + 'a, const RANK: usize, D: Device + 'a>(
    x: impl Into<TensorView<'a, T, RANK, D>>,
) -> Result<T> {
    let x = x.into();
    Ok(x.max(All)?.item()? - x.min(All)?.item()?)
}

#[test]
fn tensors_are_views_where_views_are_wanted() -> Result<()> {
    let mut x = Tensor::from([[1.0_f32, 3.0], [5.0, 9.0]]);
    assert_eq!((spread(&x)?, spread(x.transposed())?, spread(x.slice((0, ..))?)?), (8.0, 8.0, 2.0));
    TensorViewMut::try_from(&mut x)?.slice((0, ..))?.fill(9.0)?;
    assert_eq!(spread(x.view_mut()?)?, 4.0);
    let other = x.share_data();
    assert!(matches!(TensorViewMut::try_from(&mut x), Err(Error::Shared { .. })));
    assert_eq!(Tensor::concat([&x, &other], Axis::<0>)?.size(), [4, 2]);
    assert_eq!(Tensor::concat(vec![x.view(), other.transposed()], Axis::<1>)?.size(), [2, 4]);
    assert_eq!(Tensor::stack([&x, &other], Axis::<0>)?.size(), [2, 2, 2]);
    assert_eq!(Tensor::concat_axis([&x; 3], 1)?.size(), [2, 6]);
    Ok(())
}

#[test]
fn constants_of_any_float_are_rounded_once() {
    assert_eq!((<f32 as Float>::constant(0.1), <f64 as Float>::constant(0.1)), (0.1_f32, 0.1_f64));
    // 1 + 2^-11 + 2^-40 is above the middle of two f16, and exactly there as an f32.
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(<f16 as Float>::constant(above), f16::from_f32(1.0 + 2f32.powi(-10)));
    assert_eq!(
        <bf16 as Float>::constant(1.0 + 2f64.powi(-8) + 2f64.powi(-40)),
        bf16::from_f32(1.0 + 2f32.powi(-7))
    );
    assert!(<f16 as Float>::constant(f64::NAN).is_nan() && <f32 as Float>::constant(1e300) == f32::INFINITY);
}
