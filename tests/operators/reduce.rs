//! Reductions over every set of axes of every rank up to 4, on every kind of layout, against one loop over
//! indices.
//!
//! Sums and products of floats may be off by a few units of the sum of magnitudes, as pairwise summation is;
//! all else is exact. The oracle sums in f64, compensated.

use crate::IS_SANITIZED;
use crate::arrange::{Arranged, arranged, arranged_or_sampled, read};
use crate::value::{Exact, Random, Value};
use num_complex::Complex;
use rankform::kernel::Reducer;
use rankform::ops::{
    AllTrue, Any, ArgMax, ArgMin, Count, LogSumExp, Max, Mean, Min, Prod, SampleStd, SampleVar, Std, Sum, Var,
};
use rankform::prelude::*;
use rankform::scalar::Eval;
use rankform::{bf16, f16};

/// Groups `values`, row-major of `size`, by their index on the axes that stay.
fn groups<const RANK: usize>(values: &[Exact], size: [usize; RANK], gone: [bool; RANK]) -> Vec<Vec<Exact>> {
    let kept = Dim(std::array::from_fn::<usize, RANK, _>(|axis| if gone[axis] { 1 } else { size[axis] }));
    let mut groups = vec![vec![]; kept.0.iter().product()];
    for (index, value) in Dim(size).indices().zip(values) {
        groups[kept.linearize(std::array::from_fn::<usize, RANK, _>(|axis| {
            if gone[axis] { 0 } else { index[axis] }
        }))]
        .push(*value);
    }
    groups
}

/// A compensated sum: its error does not grow with the number of terms (Neumaier).
fn compensated(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for x in values {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    if f64::is_finite(lost) { sum + lost } else { sum }
}

/// Whether `b` takes the place of `a` as the running largest (`sign` 1) or smallest (−1).
fn better(a: Exact, b: Exact, sign: i128) -> bool {
    match (a, b) {
        (Exact::Real(a), Exact::Real(b)) if a.is_nan() || b.is_nan() => b.is_nan() && !a.is_nan(),
        (Exact::Real(a), Exact::Real(b)) => sign as f64 * b > sign as f64 * a,
        (Exact::Integer(a), Exact::Integer(b)) => sign * b > sign * a,
        _ => unreachable!(),
    }
}

/// The true value of one group, and the magnitude by which errors are measured in units.
fn truth(name: &str, group: &[Exact], zero: Exact) -> (Exact, f64) {
    let n = group.len() as f64;
    let real: Vec<f64> =
        group.iter().filter_map(|x| if let Exact::Real(x) = x { Some(*x) } else { None }).collect();
    let whole: Vec<i128> =
        group.iter().filter_map(|x| if let Exact::Integer(x) = x { Some(*x) } else { None }).collect();
    let complex: Vec<Complex<f64>> = group
        .iter()
        .filter_map(|x| if let Exact::Complex(re, im) = x { Some(Complex::new(*re, *im)) } else { None })
        .collect();
    let trues = group.iter().filter(|x| **x == Exact::BoolElement(true)).count();
    let position =
        |sign| (1..group.len()).fold(0, |best, k| if better(group[best], group[k], sign) { k } else { best });
    match name {
        "sum" if group.is_empty() => (zero, 0.0),
        "prod" if group.is_empty() => (one(zero), 0.0),
        "argmax" => (Exact::Integer(position(1) as i128), 0.0),
        "argmin" => (Exact::Integer(position(-1) as i128), 0.0),
        "max" => (group[position(1)], 0.0),
        "min" => (group[position(-1)], 0.0),
        "any" => (Exact::BoolElement(trues > 0), 0.0),
        "all" => (Exact::BoolElement(trues == group.len()), 0.0),
        "count" => (Exact::Integer(trues as i128), 0.0),
        "sample_var" | "sample_std" if n < 2.0 => (Exact::Real(f64::NAN), 0.0),
        "var" | "sample_var" | "std" | "sample_std" => {
            let mean = compensated(real.iter().copied()) / n;
            let by = if name.starts_with("sample") { n - 1.0 } else { n };
            let var = compensated(real.iter().map(|x| (x - mean) * (x - mean))) / by;
            // Welford's bound: linear in the mean over the deviation, where the plain formula has its square.
            let (root, size) = (var.sqrt(), (var + mean * mean).sqrt());
            if name.ends_with("var") {
                (Exact::Real(var), 2.0 * root * size)
            } else {
                (Exact::Real(root), size)
            }
        }
        "mean" => (
            Exact::Real(compensated(real.iter().copied()) / n),
            real.iter().map(|x| x.abs()).sum::<f64>() / n,
        ),
        "sum" if !whole.is_empty() => (Exact::Integer(whole.iter().sum()), 0.0),
        "prod" if !whole.is_empty() => (Exact::Integer(whole.iter().fold(1, |a, b| a.wrapping_mul(*b))), 0.0),
        "sum" if !complex.is_empty() => {
            let (re, im) =
                (compensated(complex.iter().map(|x| x.re)), compensated(complex.iter().map(|x| x.im)));
            (Exact::Complex(re, im), complex.iter().map(|x| x.norm()).sum())
        }
        "prod" if !complex.is_empty() => {
            let product: Complex<f64> = complex.iter().product();
            (Exact::Complex(product.re, product.im), n * product.norm())
        }
        "sum" => (Exact::Real(compensated(real.iter().copied())), real.iter().map(|x| x.abs()).sum()),
        "prod" => (Exact::Real(real.iter().product()), n * real.iter().product::<f64>().abs()),
        _ => panic!("no truth for {name}"),
    }
}

fn one(zero: Exact) -> Exact {
    match zero {
        Exact::Integer(_) => Exact::Integer(1),
        Exact::Complex(..) => Exact::Complex(1.0, 0.0),
        _ => Exact::Real(1.0),
    }
}

/// Whether a result is right; whole numbers wrap.
fn right<U: Value>(found: U, (truth, size): (Exact, f64)) -> bool {
    let unit = 2f64.powi(-U::FRACTION);
    match (found.exact(), truth) {
        (Exact::Integer(found), Exact::Integer(truth)) => {
            found.wrapping_sub(truth) % (1 << (8 * size_of::<U>())) == 0
        }
        (Exact::Real(a), Exact::Real(b)) if size == 0.0 || b == 0.0 => {
            a == b || (a.is_nan() && b.is_nan()) || a.abs() <= U::LEAST
        }
        (Exact::Real(_), Exact::Real(b)) if !b.is_finite() || b.abs() >= U::LARGEST => found.ulp(b) == 0.0,
        (Exact::Real(a), Exact::Real(b)) => (a - b).abs() <= 2.0 * unit * size + U::LEAST,
        (Exact::Complex(a, b), Exact::Complex(c, d)) => (a - c).hypot(b - d) <= 4.0 * unit * size + U::LEAST,
        (a, b) => a == b,
    }
}

/// One set of axes: which they are, and the reduction over them as sizes and elements.
type Set<T, U, const RANK: usize> =
    ([bool; RANK], Box<dyn Fn(TensorView<T, RANK>) -> Result<(Vec<usize>, Vec<U>)>>);

/// Every set of axes of one rank, for one reducer.
macro_rules! sets {
    ($rank:literal $name:ident: $(($($axis:literal)+))*) => {
        fn $name<T: Value, R: Reducer<T>>(reducer: R) -> Vec<Set<T, R::Out, $rank>> {
            vec![
                $((std::array::from_fn(|axis| [$($axis),+].contains(&axis)),
                   Box::new(move |x: TensorView<T, $rank>| {
                    let y = x.reduce(reducer, sets!(@axes $($axis)+))?;
                    Ok((y.size().0.to_vec(), y.to_vec()?))
                })),)*
                (
                    [true; $rank],
                    Box::new(move |x: TensorView<T, $rank>| Ok((vec![], x.reduce(reducer, All)?.to_vec()?)))
                ),
            ]
        }
    };
    (@axes $a:literal) => { Axis::<$a> };
    (@axes $a:literal $b:literal) => { (Axis::<$a>, Axis::<$b>) };
    (@axes $a:literal $b:literal $c:literal) => { (Axis::<$a>, Axis::<$b>, Axis::<$c>) };
}
sets!(0 sets_of_0:);
sets!(1 sets_of_1: (0));
sets!(2 sets_of_2: (0) (1) (0 1));
sets!(3 sets_of_3: (0) (1) (2) (0 1) (0 2) (1 2) (0 1 2));
sets!(4 sets_of_4: (0) (1) (2) (3) (0 1) (0 2) (0 3) (1 2) (1 3) (2 3) (0 1 2) (0 1 3) (0 2 3) (1 2 3));

/// Checks every set of axes of one tensor; how many results that were.
fn check<T: Value, R: Reducer<T, Out: Value>, const RANK: usize>(
    _: R,
    sets: &[Set<T, R::Out, RANK>],
    x: TensorView<T, RANK>,
    kind: &str,
) -> usize {
    let size = x.size().0;
    let values: Vec<Exact> = Dim(size).indices().map(|index| x[index].exact()).collect();
    let mut results = 0;
    for (gone, reduce) in sets {
        let what = || format!("{} {} over {gone:?} of {size:?}, {kind}", R::NAME, T::DTYPE);
        let groups = groups(&values, size, *gone);
        if R::NEEDS_ELEMENTS && groups.iter().any(Vec::is_empty) {
            assert!(matches!(reduce(x), Err(Error::Empty { .. })), "{}", what());
            continue;
        }
        let (sizes, found) = reduce(x).unwrap();
        let kept: Vec<usize> = (0..RANK).filter(|axis| !gone[*axis]).map(|axis| size[axis]).collect();
        assert_eq!((sizes, found.len()), (kept, groups.len()), "{}", what());
        for (at, (found, group)) in found.iter().zip(&groups).enumerate() {
            let truth = truth(R::NAME, group, T::default().exact());
            assert!(right(*found, truth), "{}: number {at} is {found}, not {truth:?}", what());
        }
        results += found.len();
    }
    results
}

/// Every kind of layout of rank 3, at sizes below and above the widths of the engine; empty axes.
fn layouts<T: Value, R: Reducer<T, Out: Value>>(reducer: R) -> usize {
    let mut random = Random(21);
    let sets = sets_of_3::<T, R>(reducer);
    let mut results = 0;
    for size in [[5, 6, 7], [2, 3, 70], [40, 2, 9], [0, 3, 2], [3, 0, 2], [2, 3, 0], [1, 1, 1]] {
        for Arranged { kind, tensor } in arranged_or_sampled(size, || T::moderate(&mut random)) {
            results += check(reducer, &sets, tensor.view(), kind);
        }
    }
    results
}

fn every_rank<T: Value, R: Reducer<T, Out: Value>>(reducer: R) -> usize {
    let mut random = Random(22);
    let mut next = || T::moderate(&mut random);
    let mut results = check(
        reducer,
        &sets_of_0::<T, R>(reducer),
        Tensor::from_fn([], |_| next(), &Cpu).unwrap().view(),
        "",
    );
    for n in [0, 1, 31, 33, 300] {
        let x = Tensor::from_fn([n], |_| next(), &Cpu).unwrap();
        results += check(reducer, &sets_of_1::<T, R>(reducer), x.view(), "contiguous");
        results +=
            check(reducer, &sets_of_1::<T, R>(reducer), x.slice(((..).step(-3),)).unwrap(), "backwards by 3");
    }
    for size in [[1, 5], [33, 34], [3, 130], [130, 3]] {
        let x = Tensor::from_fn(size, |_| next(), &Cpu).unwrap();
        results += check(reducer, &sets_of_2::<T, R>(reducer), x.view(), "contiguous");
        results += check(reducer, &sets_of_2::<T, R>(reducer), x.transposed(), "transposed");
    }
    for size in [[3, 4, 2, 5], [9, 1, 10, 2], [2, 2, 0, 2]] {
        let x = Tensor::from_fn(size, |_| next(), &Cpu).unwrap();
        for order in [[0, 1, 2, 3], [3, 1, 0, 2], [1, 0, 3, 2], [2, 3, 1, 0]] {
            let y = x.permuted(order).unwrap().reversed(Axis::<1>);
            results += check(reducer, &sets_of_4::<T, R>(reducer), y, "permuted, reversed");
        }
    }
    results
}

macro_rules! all_elements {
    ($check:ident $($t:ty)+: $($R:ident)+) => { all_elements!(@each $check [$($t),+] $($R)+) };
    (@each $check:ident $t:tt $($R:ident)+) => { 0 $(+ all_elements!(@one $check $t $R))+ };
    (@one $check:ident [$($t:ty),+] $R:ident) => { 0 $(+ $check::<$t, $R>($R))+ };
}

#[test]
fn reductions_of_every_element_and_layout_are_those_of_one_loop_over_indices() {
    let numbers =
        all_elements!(layouts i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64: Sum Prod Max Min ArgMax ArgMin);
    let floats = all_elements!(layouts f16 bf16 f32 f64: Mean Var SampleVar Std SampleStd);
    let complex = all_elements!(layouts Complex<f32> Complex<f64>: Sum Prod);
    println!("{} results", numbers + floats + complex + all_elements!(layouts bool: Any AllTrue Count));
}

#[test]
fn reductions_of_every_rank_up_to_4_are_those_of_one_loop_over_indices() {
    let results =
        all_elements!(every_rank f32: Sum Max ArgMax Mean) + all_elements!(every_rank i16: Sum ArgMin);
    println!(
        "{} results",
        results + all_elements!(every_rank bool: AllTrue) + all_elements!(every_rank f64: Var)
    );
}

#[test]
fn long_rows_and_columns_are_summed_in_trees_that_lose_nothing_of_note() {
    // Beyond a leaf of rows (4 096) and of columns (128), and no multiples of either.
    let sizes = [[1, 3, 40_003], [40_003, 3, 1], [3, 9_001, 9]];
    fn long<T: Value, R: Reducer<T, Out: Value>>(reducer: R, sizes: &[[usize; 3]]) {
        let mut random = Random(23);
        for &size in sizes {
            let x = Tensor::from_fn(size, |_| T::moderate(&mut random), &Cpu).unwrap();
            let sets = sets_of_3::<T, R>(reducer);
            let sets: Vec<_> = sets.into_iter().filter(|(gone, _)| *gone == size.map(|n| n > 9)).collect();
            check(reducer, &sets, x.view(), "contiguous");
            check(reducer, &sets, x.reversed(Axis::<0>).reversed(Axis::<2>), "reversed");
        }
    }
    long::<f32, _>(Sum, &sizes);
    long::<f64, _>(Mean, &sizes[..1]);
    long::<f32, _>(Var, &sizes);
    long::<f32, _>(ArgMax, &sizes);
    long::<i32, _>(ArgMin, &sizes);
    long::<f16, _>(Mean, &sizes[..1]);
}

#[test]
fn the_variance_of_a_large_mean_keeps_its_digits() -> Result<()> {
    let x = Tensor::from_fn([30_000], |[i]| 1e9 + (i % 5) as f64, &Cpu)?;
    // The CPU takes distances to the first value of a leaf, which are exact here. A GPU has Welford's update
    // alone: each of n values costs κ ulp of the variance at most, κ = mean / deviation (Chan, Golub, LeVeque
    // 1983). There a thread absorbs 8 values, and two trees of 8 levels combine.
    let kappa = 1e9 / 2f64.sqrt();
    let bound =
        if cfg!(rankform_through_cuda) { 2.0 * f64::from(8 + 2 * 8) * kappa * f64::EPSILON } else { 1e-9 };
    assert!((x.var(All)?.item()? - 2.0).abs() < bound);
    assert!((x.sample_var(All)?.item()? - 2.0 * 30_000.0 / 29_999.0).abs() < bound);
    let columns = Tensor::from_fn([30_000, 40], |[i, j]| 1e4 * j as f32 + (i % 5) as f32, &Cpu)?
        .var(Axis::<0>)?
        .to_vec()?;
    assert!(columns.iter().all(|var| (var - 2.0).abs() < 1e-2), "{columns:?}");
    Ok(())
}

#[test]
fn extremes_and_their_places_know_nans_of_both_signs_and_zeros_of_both_signs() -> Result<()> {
    fn check<T: Value + num_traits::Float + Float>(special: [T; 6]) -> Result<()> {
        let [zero, minus_zero, nan, minus_nan, inf, minus_inf] = special;
        for n in [2, 3, 63, 64, 65, 130, 300, 5000] {
            for (low, high, value) in [
                (zero, minus_zero, 0),
                (nan, minus_nan, 1),
                (minus_nan, nan, 1),
                (minus_inf, inf, 2),
                (minus_zero, zero, 3),
            ] {
                let (first, second) = (n / 3, n - 1);
                let x = Tensor::from_fn(
                    [n],
                    |[i]| {
                        if i == first {
                            low
                        } else if i == second {
                            high
                        } else {
                            low.min(high)
                        }
                    },
                    &Cpu,
                )?;
                // Operands with a negative stride are packed, and accumulated value by value.
                let back = x.reversed(Axis::<0>).to_contiguous()?;
                let [max, min] = [x.max(All)?.item()?, x.min(All)?.item()?];
                let [max_back, min_back] =
                    [back.reversed(Axis::<0>).max(All)?.item()?, back.reversed(Axis::<0>).min(All)?.item()?];
                let places = (x.argmax(All)?.item()?, x.argmin(All)?.item()?);
                assert_eq!(
                    places,
                    (
                        back.reversed(Axis::<0>).argmax(All)?.item()?,
                        back.reversed(Axis::<0>).argmin(All)?.item()?
                    )
                );
                match value {
                    0 | 3 => {
                        assert!(
                            max == zero && max.is_sign_positive() && max_back.is_sign_positive(),
                            "{n}: {max}"
                        );
                        assert!(
                            min == zero && min.is_sign_negative() && min_back.is_sign_negative(),
                            "{n}: {min}"
                        );
                        assert_eq!(places, (0, 0), "{n}: zeros are equal");
                    }
                    1 => {
                        assert!(max.is_nan() && min.is_nan() && max_back.is_nan() && min_back.is_nan());
                        assert_eq!(places, (0, 0), "{n}: all are NaN");
                    }
                    _ => {
                        assert!((max, min) == (inf, minus_inf) && (max_back, min_back) == (inf, minus_inf));
                        assert_eq!(places, (second as i64, 0), "{n}");
                    }
                }
                let one = Tensor::from_fn([n], |[i]| if i == first { nan } else { inf }, &Cpu)?;
                assert_eq!(
                    (one.argmax(All)?.item()?, one.argmin(All)?.item()?),
                    (first as i64, first as i64)
                );
                assert!(one.max(All)?.item()?.is_nan() && one.min(All)?.item()?.is_nan());
            }
        }
        Ok(())
    }
    check([0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY])?;
    check([0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY])?;
    check([f16::ZERO, f16::NEG_ZERO, f16::NAN, -f16::NAN, f16::INFINITY, f16::NEG_INFINITY])
}

#[test]
fn a_mean_and_a_variance_in_one_pass_are_those_of_two() -> Result<()> {
    fn check<T: Value + Float>() -> Result<()> {
        let mut random = Random(24);
        for size in [[5, 6, 7], [2, 3, 70], [40, 2, 9], [1, 3, 5000], [5000, 1, 9], [1, 1, 1]] {
            for Arranged { kind, tensor: x } in arranged_or_sampled(size, || T::moderate(&mut random)) {
                let about = |name: &str| format!("{name} of {} {size:?}, {kind}", T::DTYPE);
                macro_rules! along {
                    ($axes:expr) => {
                        let ((mean, var), wide) = (x.mean_var($axes)?, x.lazy().cast::<f64>());
                        assert_eq!(var.to_vec()?, x.var($axes)?.to_vec()?, "{}", about("variance"));
                        let (truth, sizes) = (wide.mean($axes)?.to_vec()?, wide.abs().mean($axes)?.to_vec()?);
                        for ((mean, truth), size) in mean.to_vec()?.into_iter().zip(truth).zip(sizes) {
                            let off = (Lane::from_raw(mean.widen()).cast::<f64>().value() - truth).abs();
                            assert!(
                                off <= 16.0 * 2f64.powi(-T::FRACTION) * size,
                                "{}: {mean:?}, {truth}",
                                about("mean")
                            );
                        }
                    };
                }
                along!(Axis::<0>);
                along!(Axis::<2>);
                along!((Axis::<0>, Axis::<2>));
                along!(All);
            }
        }
        Ok(())
    }
    check::<f16>()?;
    check::<bf16>()?;
    check::<f32>()?;
    check::<f64>()?;
    // Infinite values have a mean, in rows and in columns.
    let inf = f64::INFINITY;
    for pair in [[inf, 1.0], [1.0, inf], [-inf, -inf], [inf, -inf], [f64::NAN, 1.0], [1e308, -1e308]] {
        let x = Tensor::from_fn([40, 2], |[_, j]| pair[j], &Cpu)?;
        let columns = x.transposed().to_contiguous()?;
        for (found, mean) in [
            (x.mean_var_axis(1)?.0, x.mean(Axis::<1>)?),
            (columns.mean_var(Axis::<0>)?.0, columns.mean(Axis::<0>)?),
        ] {
            let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
            assert!(found.iter().zip(mean.iter()).all(same), "{pair:?}: {found}, {mean}");
        }
    }
    let (mean, var) = Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.mean_var(Axis::<1>)?;
    assert!(mean.to_vec()?.iter().chain(&var.to_vec()?).all(|x| x.is_nan()));
    let x = Tensor::from([[1.0, 2.0], [3.0, 8.0]]);
    let (mean, var) = (x.lazy() * 2.0).mean_var(Axis::<1>)?;
    assert_eq!((mean.to_vec()?, var.to_vec()?), (vec![3.0, 11.0], vec![1.0, 25.0]));
    Ok(())
}

#[test]
fn the_variance_of_equal_values_is_0_and_one_far_off_costs_the_others_nothing() -> Result<()> {
    for n in [1, 7, 31, 32, 33, 256, 4096, 4097, 10_000] {
        assert_eq!(Tensor::full([n], 0.1_f32, &Cpu)?.var(All)?.item()?, 0.0);
        assert_eq!(Tensor::full([n], 0.1_f64, &Cpu)?.var(All)?.item()?, 0.0);
    }
    let far = Tensor::from_fn([4000], |[i]| if i == 0 { 1e6_f32 } else { (i % 5) as f32 }, &Cpu)?;
    let wide = far.cast::<f64>()?;
    let mean = wide.mean(All)?.item()?;
    let truth = (wide.lazy() - mean).square().mean(All)?.item()?;
    assert!((f64::from(far.var(All)?.item()?) / truth - 1.0).abs() < 1e-7);
    assert!((wide.var(All)?.item()? / truth - 1.0).abs() < 1e-12);
    for bad in [f32::NAN, f32::INFINITY] {
        let x = Tensor::from_fn([100], |[i]| if i == 50 { bad } else { 1.0 }, &Cpu)?;
        assert!(x.var(All)?.item()?.is_nan() && x.reversed(Axis::<0>).var(All)?.item()?.is_nan());
    }
    Ok(())
}

#[test]
fn integers_wrap_and_a_wider_sum_does_not() -> Result<()> {
    let x = Tensor::full([1000], 100_u8, &Cpu)?;
    assert_eq!(
        (x.sum(All)?.item()?, x.lazy().cast::<i64>().sum(All)?.item()?),
        ((100_000 % 256) as u8, 100_000)
    );
    assert_eq!(Tensor::full([3], i32::MAX, &Cpu)?.sum(All)?.item()?, i32::MAX.wrapping_mul(3));
    assert_eq!(Tensor::full([7], 3_i8, &Cpu)?.prod(All)?.item()?, 2187_i64 as i8);
    // 16-bit floats are summed in f32 and rounded once.
    assert_eq!(Tensor::full([4097], f16::ONE, &Cpu)?.sum(All)?.item()?, f16::from_f32(4096.0));
    assert_eq!(Tensor::full([70_000], f16::ONE, &Cpu)?.mean(All)?.item()?, f16::ONE);
    Ok(())
}

#[test]
fn producers_are_fused_into_reductions_on_every_layout() -> Result<()> {
    let mut random = Random(24);
    for size in [[5, 6, 7], [33, 2, 65]] {
        let left = arranged(size, || f32::moderate(&mut random));
        let right = arranged(size, || f32::moderate(&mut random));
        for (x, y) in left.iter().zip(right.iter().rev()) {
            let (x, y) = (&x.tensor, &y.tensor);
            let joint: [usize; 3] = std::array::from_fn(|axis| x.size()[axis].max(y.size()[axis]));
            let term = |(x, y): (f32, f32)| (x - y) * (x - y) + 0.25;
            let values: Vec<f32> = read(x, joint).into_iter().zip(read(y, joint)).map(term).collect();
            let whole = Tensor::from_slice(&values, joint, &Cpu)?;
            let lazy = (x.lazy() - y).square() + 0.25;
            // The same elements in the same order: but for the way through memory, the same sums.
            let close = |a: Vec<f32>, b: Vec<f32>| {
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs())
            };
            assert!(close(lazy.sum(Axis::<0>)?.to_vec()?, whole.sum(Axis::<0>)?.to_vec()?));
            assert!(close(
                lazy.mean((Axis::<0>, Axis::<2>))?.to_vec()?,
                whole.mean((Axis::<0>, Axis::<2>))?.to_vec()?
            ));
            assert!(close(lazy.sum(All)?.to_vec()?, whole.sum(All)?.to_vec()?));
            assert_eq!(lazy.argmax(Axis::<2>)?.to_vec()?, whole.argmax(Axis::<2>)?.to_vec()?);
            assert_eq!(lazy.max(Axis::<1>)?.to_vec()?, whole.max(Axis::<1>)?.to_vec()?);
            assert_eq!(
                lazy.greater(1.0).count(Axis::<2>)?.to_vec()?,
                whole.greater(1.0)?.count(Axis::<2>)?.to_vec()?
            );
        }
    }
    Ok(())
}

#[test]
fn an_axis_known_at_run_time_equals_the_axis_in_the_type() -> Result<()> {
    let x = Tensor::from_fn([3, 4, 5], |[i, j, k]| ((7 * i + 5 * j + 3 * k) % 11) as f64, &Cpu)?;
    assert_eq!(x.sum_axis(1)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?);
    assert_eq!(x.transposed().max_axis(0)?.to_vec()?, x.transposed().max(Axis::<0>)?.to_vec()?);
    assert_eq!((x.lazy() * 2.0).argmin_axis(2)?.to_vec()?, x.argmin(Axis::<2>)?.to_vec()?);
    assert_eq!(x.greater(3.0)?.any_axis(2)?.to_vec()?, x.greater(3.0)?.any(Axis::<2>)?.to_vec()?);
    assert_eq!(x.var_axis(3).unwrap_err().to_string(), "var: axis 3 does not fit sizes [3, 4, 5]");
    assert!(matches!(x.lazy().sum_axis(3), Err(Error::Axis { axis: 3, .. })));
    Ok(())
}

#[test]
fn reductions_have_their_sizes_without_data() -> Result<()> {
    let device = Meta::tracing();
    let x = Tensor::<f32, 3, _>::zeros([4, 5, 6], &device)?;
    assert_eq!(x.sum((Axis::<0>, Axis::<2>))?.size(), [5]);
    assert_eq!(x.argmax(Axis::<1>)?.size(), [4, 6]);
    assert_eq!(x.mean(All)?.size(), []);
    assert!(matches!(x.var(Axis::<0>)?.to_vec(), Err(Error::NoData { .. })));
    assert!(device.kernels()[0].starts_with("reduce sum [5] over [4, 6]"), "{:?}", device.kernels());
    Ok(())
}

#[test]
fn a_reduction_over_more_axes_than_devices_walk_is_refused() -> Result<()> {
    assert_eq!(Tensor::<f64, 12>::ones([2; 12], &Cpu)?.transposed().sum(All)?.item()?, 4096.0);
    let error = Tensor::<f64, 13>::ones([2; 13], &Cpu)?.sum(All).unwrap_err();
    assert_eq!(error.to_string(), "sum: 13 axes, of which at most 12 go at once");
    Ok(())
}

#[test]
fn columns_of_many_strided_operands_fit_their_room() -> Result<()> {
    // As many f64 as one kernel reads, all strided: each row of columns is packed.
    let x: Vec<_> = (0..20)
        .map(|k| Tensor::from_fn([9, 600], |[i, j]| (i * 7 + j * 3 + k) as f64, &Cpu))
        .collect::<Result<_>>()?;
    let v: Vec<_> = x.iter().map(|x| x.slice((.., (..).step(2)))).collect::<Result<_>>()?;
    let some = v[0].lazy() + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7] + v[8] + v[9];
    let all = some + v[10] + v[11] + v[12] + v[13] + v[14] + v[15] + v[16] + v[17] + v[18] + v[19];
    let truth: Vec<f64> =
        (0..300).map(|j| (0..9).map(|i| (20 * (i * 7 + 2 * j * 3) + 190) as f64).sum()).collect();
    assert_eq!(all.sum(Axis::<0>)?.to_vec()?, truth);
    Ok(())
}

/// Few equidistant rows, strided ones too, take a shorter path, which gives the same bits as the general one.
#[test]
fn rows_at_equal_distances_are_reduced_as_those_that_are_not() -> Result<()> {
    fn same<T: Value + Float>() -> Result<()> {
        let mut random = Random(91);
        let is_same =
            |x: Vec<T>, y: Vec<T>| x.len() == y.len() && x.into_iter().zip(y).all(|(x, y)| x.same(y));
        for count in [1, 2, 7, 31, 64, 65, 200, 5000] {
            let x = Tensor::<T, 3>::from_fn([2, 5, count], |_| T::moderate(&mut random), &Cpu)?;
            let apart = x.slice((.., 0..3, ..))?;
            // Every second element: packed first.
            let mut wide = Tensor::<T, 4>::zeros([2, 5, count, 2], &Cpu)?;
            wide.view_mut()?.slice((.., .., .., 1))?.assign(&x)?;
            let packed = wide.slice((.., 0..3, .., 1))?.sum(Axis::<2>)?;
            let (sums, powers) = (apart.sum(Axis::<2>)?, apart.softmax(Axis::<2>)?);
            assert!(is_same(packed.to_vec()?, sums.to_vec()?), "packed {count} {}", T::DTYPE);
            for i in 0..2 {
                let few = x.slice((i, 0..3, ..))?;
                assert!(
                    is_same(few.sum(Axis::<1>)?.to_vec()?, sums.slice((i, ..))?.to_vec()?),
                    "sum {count} {}",
                    T::DTYPE
                );
                assert!(
                    is_same(few.softmax(Axis::<1>)?.to_vec()?, powers.slice((i, .., ..))?.to_vec()?),
                    "softmax {count} {}",
                    T::DTYPE
                );
            }
        }
        Ok(())
    }
    same::<f32>()?;
    same::<f64>()
}

/// Variances with a large mean, and positions of extremes, of packed operands: strided rows, and parts of a
/// matrix.
#[test]
fn packed_operands_are_reduced_by_blocks_as_contiguous_ones_are() -> Result<()> {
    let mut random = Random(92);
    for count in [3, 4095, 4096, 4097, 7809, 9000, 20_000] {
        let x = Tensor::from_fn([2, count], |_| 1e3 + f32::moderate(&mut random), &Cpu)?;
        let mut wide = Tensor::<f32, 2>::zeros([2, 2 * count], &Cpu)?;
        wide.view_mut()?.slice((.., (..).step(-2)))?.assign(&x)?;
        let packed = wide.slice((.., (..).step(-2)))?;
        assert_eq!(packed.var(Axis::<1>)?.to_vec()?, x.var(Axis::<1>)?.to_vec()?, "var {count}");
        assert_eq!(packed.argmax(Axis::<1>)?.to_vec()?, x.argmax(Axis::<1>)?.to_vec()?, "argmax {count}");
        let ((mean, var), (of_mean, of_var)) = (packed.mean_var(Axis::<1>)?, x.mean_var(Axis::<1>)?);
        assert!(mean.iter().eq(of_mean.iter()) && var.iter().eq(of_var.iter()), "mean_var {count}");
    }
    let x = Tensor::from_fn([200, 100], |_| 1e3 + f32::moderate(&mut random), &Cpu)?;
    let part = x.slice((.., 0..50))?;
    let copied = part.copy()?;
    assert_eq!(part.sample_var(All)?.item()?, copied.sample_var(All)?.item()?);
    assert_eq!(part.argmin(All)?.item()?, copied.argmin(All)?.item()?);
    let exact = copied.cast::<f64>()?.var(All)?.item()?;
    // A GPU's threads keep f32 where the CPU's leaves keep f64.
    let bound = if cfg!(rankform_through_cuda) { 1e-5 } else { 1e-6 };
    assert!((f64::from(part.var(All)?.item()?) / exact - 1.0).abs() < bound);
    Ok(())
}

/// `combine(a, b)` and `combine(b, a)` of states of random values mean the same, as the laws of [`Reducer`]
/// ask.
#[test]
fn states_of_every_reducer_commute() {
    fn commutes<T: Value, R: Reducer<T>>(_: R, units: f64) {
        let mut random = Random(47);
        for (first, second) in [(0, 0), (0, 3), (1, 1), (5, 2), (40, 70)] {
            let mut state = |from: i64, count: i64| {
                let accumulate = |state, at: i64| {
                    R::accumulate::<Eval>(
                        state,
                        Lane::from_raw(T::moderate(&mut random).widen()),
                        Lane::from_raw(at),
                    )
                };
                (from..from + count).fold(R::identity::<Eval>(), accumulate)
            };
            let (a, b, count) = (state(0, first), state(first, second), first + second);
            let both = [R::combine::<Eval>(a, b), R::combine::<Eval>(b, a)];
            let both = both.map(|state| R::finalize::<Eval>(state, Lane::from_raw(count)));
            let ([x, y], [p, q]) = (both.map(|x| x.value()), both.map(|x| x.cast::<f64>().value()));
            let close = (p - q).abs() <= units * f64::EPSILON * p.abs().max(1.0) * (count + 1) as f64;
            assert!(x == y || p.is_nan() && q.is_nan() || close, "{} {}: {x:?} and {y:?}", R::NAME, T::DTYPE);
        }
    }
    macro_rules! all {
        ($($reducer:ident $units:literal: $($t:ty)*;)*) => { $($(commutes::<$t, _>($reducer, $units);)*)* };
    }
    all! {
        Sum 1.0: f64 i8 u64;
        Prod 1e3: f64 i16;
        Max 0.0: f64 u8;
        Min 0.0: f64 i64;
        Mean 1.0: f64;
        ArgMax 0.0: f64 i32;
        ArgMin 0.0: f64;
        Var 100.0: f64;
        SampleVar 100.0: f64;
        Std 100.0: f64;
        SampleStd 100.0: f64;
        LogSumExp 10.0: f64;
        Any 0.0: bool;
        AllTrue 0.0: bool;
        Count 0.0: bool;
    }
}

/// Operands larger than the caches are prefetched; a prefetch beyond their end is harmless.
#[test]
fn operands_larger_than_the_caches_are_reduced_as_others_are() -> Result<()> {
    let [m, n] = if cfg!(any(rankform_through_cuda, miri)) {
        [30, 29]
    } else if IS_SANITIZED {
        [1000, 290]
    } else {
        [3000, 2900]
    };
    // Whole numbers that f32 holds, in sums of whichever order.
    let x = Tensor::from_fn([m, n], |[i, j]| (i % 2 + j % 2) as f32, &Cpu)?;
    let (down, along) = ((0..m).map(|i| i % 2).sum::<usize>(), (0..n).map(|j| j % 2).sum::<usize>());
    let rows: Vec<f32> = (0..m).map(|i| (along + n * (i % 2)) as f32).collect();
    let columns: Vec<f32> = (0..n).map(|j| (down + m * (j % 2)) as f32).collect();
    assert_eq!(x.sum(Axis::<1>)?.to_vec()?, rows);
    assert_eq!(x.sum(Axis::<0>)?.to_vec()?, columns);
    assert_eq!(x.sum(All)?.item()?, rows.iter().sum::<f32>());
    assert_eq!(x.max(All)?.item()?, 2.0);
    assert_eq!(x.matmul(&Tensor::ones([n], &Cpu)?)?.to_vec()?, rows);
    assert_eq!(Tensor::ones([m], &Cpu)?.matmul(&x)?.to_vec()?, columns);
    let backwards = x.slice(((..).step(-1), (..).step(-1)))?;
    assert_eq!(
        backwards.matmul(&Tensor::ones([n], &Cpu)?)?.to_vec()?,
        rows.iter().rev().copied().collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn columns_of_many_leaves_are_summed_by_strips() -> Result<()> {
    // Whole numbers that f32 holds. Strips that overlap, and as many digits as leave room for few of them.
    let sizes = if IS_SANITIZED {
        [[300, 130], [8100, 90], [9000, 7]]
    } else {
        [[300, 130], [8100, 900], [70_000, 70]]
    };
    for [m, n] in sizes {
        let x = Tensor::from_fn([m, n], |[i, j]| (i % 5 + j % 3) as f32, &Cpu)?;
        let column: usize = (0..m).map(|i| i % 5).sum();
        let expected: Vec<f32> = (0..n).map(|j| (column + m * (j % 3)) as f32).collect();
        assert_eq!(x.sum(Axis::<0>)?.to_vec()?, expected, "{m} × {n}");
        let halves = x.slice((.., (..).step(2)))?.sum(Axis::<0>)?;
        assert!(halves.iter().eq(expected.iter().step_by(2)), "every second of {m} × {n}");
        let weight = Tensor::from_fn([m, 1], |[i, _]| (i % 2) as f32, &Cpu)?;
        let odd: usize = (0..m).filter(|i| i % 2 == 1).map(|i| i % 5).sum();
        let expected: Vec<f32> = (0..n).map(|j| (odd + m / 2 * (j % 3)) as f32).collect();
        assert_eq!((x.lazy() * &weight).sum(Axis::<0>)?.to_vec()?, expected, "{m} × {n} by a column");
    }
    Ok(())
}

/// As distances of points and centers: groups of columns span several rows of the kept axes, or parts of one.
#[test]
fn short_rows_of_broadcast_operands_are_reduced_as_those_that_are_written_out() -> Result<()> {
    // Whole numbers that every element holds: any order of summation gives the same.
    fn check<T: Value + Number>(of: impl Fn(usize) -> T, real: impl Fn(T) -> f64) -> Result<()> {
        let part = |[i, j, l, m]: [usize; 4]| (i * 5 + j * 3 + l + 2 * m) % 7;
        for [a, n, k, d] in [
            [1, 40, 3, 2],
            [1, 90, 1, 5],
            [3, 29, 7, 1],
            [2, 70, 16, 3],
            [1, 9, 63, 63],
            [5, 40, 9, 8],
            [1, 3, 600, 4],
            [2, 2, 1500, 2],
            [1, 65, 130, 17],
            [70, 1, 2, 33],
        ] {
            let sizes = [[a, n, 1, d], [1, 1, k, d], [a, 1, k, d]];
            let [x, y, z] = sizes.map(|size| Tensor::from_fn(size, |at| of(part(at)), &Cpu).unwrap());
            let expected: Vec<f64> = Dim([a, n, k])
                .indices()
                .map(|[i, j, l]| {
                    let term = |m| part([i, j, 0, m]) * part([0, 0, l, m]) + part([i, 0, l, m]);
                    (0..d).map(term).sum::<usize>() as f64
                })
                .collect();
            let sums = |[x, y, z]: [TensorView<'_, T, 4>; 3]| (x.lazy() * y + z).sum(Axis::<3>)?.to_vec();
            let is = |found: Vec<T>| found.into_iter().map(&real).eq(expected.iter().copied());
            let what = format!("{a}, {n}, {k}, {d} of {}", T::DTYPE);
            assert!(is(sums([x.view(), y.view(), z.view()])?), "{what}");
            // Operands with gaps.
            let wide = |x: &Tensor<T, 4>| {
                let [a, n, k, d] = x.size().0;
                let mut wide = Tensor::<T, 4>::zeros([a, n, 2 * k, 3 * d], &Cpu).unwrap();
                let every = wide.view_mut().unwrap().slice((.., .., (..).step(2), (..).step(3))).unwrap();
                { every }.assign(x).unwrap();
                wide
            };
            let wide = [wide(&x), wide(&y), wide(&z)];
            let every = [0, 1, 2].map(|k| wide[k].slice((.., .., (..).step(2), (..).step(3))).unwrap());
            assert!(is(sums(every)?), "with gaps, {what}");
            // Outputs with gaps, in another order.
            let mut out = Tensor::<T, 3>::zeros([k, n, 2 * a], &Cpu)?;
            let place = out.view_mut()?.slice((.., .., (..).step(2)))?.transposed();
            (x.lazy() * &y + &z).sum_into(Axis::<3>, place)?;
            let found = out.slice((.., .., (..).step(2)))?.transposed().to_vec()?;
            assert!(is(found), "to outputs with gaps, {what}");
        }
        Ok(())
    }
    check::<f32>(|i| i as f32, f64::from)?;
    check::<f64>(|i| i as f64, f64::from)?;
    check::<i16>(|i| i as i16, f64::from)?;
    check::<Complex<f64>>(|i| Complex::new(i as f64, 0.0), |z| z.re)
}
