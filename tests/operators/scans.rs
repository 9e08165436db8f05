//! Scans along every axis, on every kind of layout, against one running loop; leaves, fusion, reducers of
//! one's own.

use crate::arrange::{Arranged, arranged_or_sampled, on_many_threads, rows_past_caches};
use crate::sampled;
use crate::value::{Exact, Random, Value, differ};
use num_complex::Complex;
use rankform::kernel::Reducer;
use rankform::ops::{ArgMax, CumMax, CumMin, CumProd, CumSum, LogCumSumExp, Mean, Sum};
use rankform::prelude::*;
use rankform::{bf16, f16};

/// The positions of each line along `axis`, in row-major order of the other axes.
fn lines<const RANK: usize>(size: [usize; RANK], axis: usize) -> Vec<Vec<[usize; RANK]>> {
    let others = Dim(std::array::from_fn::<_, RANK, _>(|a| if a == axis { 1 } else { size[a] }));
    let along = |mut index: [usize; RANK], i| {
        index[axis] = i;
        index
    };
    others.indices().map(|index| (0..size[axis]).map(|i| along(index, i)).collect()).collect()
}

/// The result of a loop for one line; floats in f64.
fn truth(name: &str, line: &[Exact]) -> Vec<Exact> {
    let mut state: Option<Exact> = None;
    let step = |state: Exact, x: Exact| match (name, state, x) {
        ("cumsum", Exact::Integer(a), Exact::Integer(b)) => Exact::Integer(a.wrapping_add(b)),
        ("cumprod", Exact::Integer(a), Exact::Integer(b)) => Exact::Integer(a.wrapping_mul(b)),
        ("cummax", Exact::Integer(a), Exact::Integer(b)) => Exact::Integer(a.max(b)),
        ("cummin", Exact::Integer(a), Exact::Integer(b)) => Exact::Integer(a.min(b)),
        ("cumsum", Exact::Real(a), Exact::Real(b)) => Exact::Real(a + b),
        ("cumprod", Exact::Real(a), Exact::Real(b)) => Exact::Real(a * b),
        ("cummax" | "cummin", Exact::Real(a), Exact::Real(b)) if a.is_nan() || b.is_nan() => {
            Exact::Real(f64::NAN)
        }
        ("cummax", Exact::Real(a), Exact::Real(b)) => Exact::Real(a.max(b)),
        ("cummin", Exact::Real(a), Exact::Real(b)) => Exact::Real(a.min(b)),
        ("cumsum", Exact::Complex(a, b), Exact::Complex(c, d)) => Exact::Complex(a + c, b + d),
        ("cumprod", Exact::Complex(a, b), Exact::Complex(c, d)) => {
            Exact::Complex(a * c - b * d, a * d + b * c)
        }
        _ => panic!("no truth for {name}"),
    };
    let running = line.iter().map(|&x| {
        let next = state.map_or(x, |state| step(state, x));
        state = Some(next);
        next
    });
    running.collect()
}

/// Whether a result is right: rounded once from a sum in f64, which itself has an error of a fraction of the
/// largest partial sum.
fn right<T: Value>(found: T, truth: Exact, largest: f64) -> bool {
    let close = |a: f64, b: f64| {
        let slack = 2f64.powi(-T::FRACTION - 1) * b.abs() * 1.001 + 1e-13 * largest + T::LEAST;
        (a.is_nan() && b.is_nan())
            || (a - b).abs() <= slack
            || (b.abs() >= T::LARGEST && a == b.signum() * f64::INFINITY)
    };
    match (found.exact(), truth) {
        (Exact::Integer(found), Exact::Integer(truth)) => {
            found.wrapping_sub(truth) % (1 << (8 * size_of::<T>())) == 0
        }
        (Exact::Real(a), Exact::Real(b)) => close(a, b),
        (Exact::Complex(a, b), Exact::Complex(c, d)) => close(a, c) && close(b, d),
        _ => false,
    }
}

fn check<T: Value, R: Reducer<T, Out = T>, const RANK: usize>(
    reducer: R,
    x: TensorView<T, RANK>,
    kind: &str,
) -> usize {
    let size = x.size().0;
    // The reduction of no elements.
    let of_none = x.slice_axis(0, 0..0, 1).unwrap().reduce(reducer, All).unwrap().item().unwrap();
    for axis in 0..RANK {
        let y = x.scan_by(reducer, axis, false).unwrap();
        let before = x.scan_by(reducer, axis, true).unwrap();
        assert_eq!((y.size().0, before.size().0), (size, size));
        for line in lines(size, axis) {
            let values: Vec<Exact> = line.iter().map(|&index| x[index].exact()).collect();
            let truths = truth(R::NAME, &values);
            let mut largest = 0f64;
            for (i, &index) in line.iter().enumerate() {
                largest = match truths[i] {
                    Exact::Real(x) => largest.max(x.abs()),
                    Exact::Complex(x, y) => largest.max(x.hypot(y)),
                    _ => 0.0,
                };
                let what =
                    || format!("{} {} along {axis} of {size:?} at {index:?}, {kind}", R::NAME, T::DTYPE);
                assert!(
                    right(y[index], truths[i], largest),
                    "{}: {} is not {:?}",
                    what(),
                    y[index],
                    truths[i]
                );
                // Exclusive: the one before.
                let expected = if i == 0 { of_none } else { y[line[i - 1]] };
                assert!(
                    before[index].same(expected),
                    "exclusive {}: {} is not {expected}",
                    what(),
                    before[index]
                );
            }
        }
    }
    RANK * x.numel()
}

fn layouts<T: Value, R: Reducer<T, Out = T>>(reducer: R) -> usize {
    let (mut random, mut results) = (Random(31), 0);
    for size in [[5, 6, 7], [2, 3, 70], [40, 2, 9], [3, 40, 5], [0, 3, 2], [3, 0, 2], [2, 3, 0], [1, 1, 1]] {
        for Arranged { kind, tensor } in arranged_or_sampled(size, || T::moderate(&mut random)) {
            results += check(reducer, tensor.view(), kind);
        }
    }
    results
}

#[test]
fn scans_of_every_element_and_layout_are_those_of_one_running_loop() {
    macro_rules! all {
        ($($R:ident: $($t:ty)+;)*) => { 0 $($(+ layouts::<$t, _>($R))+)* };
    }
    let results = all! {
        CumSum: i8 u16 i32 u64 i64 f16 bf16 f32 f64 Complex<f32> Complex<f64>;
        CumProd: i8 u8 i64 f16 f32 f64 Complex<f64>;
        CumMax: i8 i16 u32 u64 f16 bf16 f32 f64;
        CumMin: u8 i32 i64 f32 f64;
    };
    println!("{results} results");
}

#[test]
fn long_lines_are_scanned_in_leaves_with_the_same_bits_in_every_layout() -> Result<()> {
    let mut random = Random(32);
    let sizes =
        [[1, 3, 2003], [1, 300, 1100], [3, 700, 9], [9, 513, 2], [1, 1, 5000], [2003, 3, 1], [2, 40, 600]];
    for size in sampled(sizes, 2) {
        let x = Tensor::from_fn(size, |_| f32::moderate(&mut random), &Cpu)?;
        check(CumSum, x.view(), "contiguous");
        check(CumMax, x.reversed(Axis::<0>).reversed(Axis::<2>), "reversed");
        let bits = |y: &Tensor<f32, 3>| y.to_vec().unwrap();
        for axis in 0..3 {
            let expected = x.cumsum_axis(axis)?;
            let turned = x.to_shape(size)?.transposed().cumsum_axis(2 - axis)?.into_transposed()?;
            assert_eq!(differ(&bits(&turned), &bits(&expected)), None, "{size:?} along {axis}, transposed");
            let apart = x.repeat(Axis::<2>, 2)?.into_slice((.., .., (..).step(2)))?;
            assert_eq!(
                differ(&bits(&apart.cumsum_axis(axis)?), &bits(&expected)),
                None,
                "{size:?} along {axis}, apart"
            );
            let fused = (x.lazy() * 1.0).cumsum_axis(axis)?;
            assert_eq!(differ(&bits(&fused), &bits(&expected)), None, "{size:?} along {axis}, fused");
        }
    }
    Ok(())
}

#[test]
fn a_long_sum_of_narrow_floats_is_the_rounded_sum() -> Result<()> {
    // A running sum in f32 would stay at 2^24, one in f16 at 2048.
    let x = Tensor::full([(1 << 24) + 1000], 1f32, &Cpu)?.cumsum(Axis::<0>)?;
    assert_eq!(x[[(1 << 24) + 999]], ((1 << 24) + 1000) as f32);
    let x = Tensor::full([5000], f16::ONE, &Cpu)?.cumsum(Axis::<0>)?;
    assert_eq!(x[[4999]], f16::from_f32(5000.0));
    let x = Tensor::full([5000], bf16::ONE, &Cpu)?.cumsum(Axis::<0>)?;
    assert_eq!(x[[4999]], bf16::from_f32(5000.0));
    Ok(())
}

#[test]
fn large_outputs_are_scanned_alike() -> Result<()> {
    let size = [rows_past_caches(1900, 8), 1900];
    let x = Tensor::from_fn(size, |[i, j]| ((i * 7 + j * 5) % 13) as i64 - 6, &Cpu)?;
    for axis in 0..2 {
        // Through the caches and past them, where the processor makes a difference.
        for y in [x.cumsum_axis(axis)?, on_many_threads(|| x.cumsum_axis(axis))?] {
            for line in lines(size, axis) {
                let mut sum = 0;
                for index in line {
                    sum += x[index];
                    assert_eq!(y[index], sum, "{index:?} along {axis}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn reducers_with_places_and_counts_are_scanned_too() -> Result<()> {
    let mut random = Random(33);
    let x = Tensor::from_fn([7, 900], |_| random.below(1000) as i32, &Cpu)?;
    for (x, axis) in [(x.view(), 1), (x.transposed(), 0)] {
        let (places, means) =
            (x.scan_by(ArgMax, axis, false)?, x.lazy().cast::<f64>().scan_by(Mean, axis, false)?);
        for line in lines(x.size().0, axis) {
            let (mut best, mut sum) = (0, 0);
            for (i, &index) in line.iter().enumerate() {
                sum += x[index];
                best = if x[index] > x[line[best]] { i } else { best };
                assert_eq!(places[index], best as i64);
                assert!((means[index] - sum as f64 / (i + 1) as f64).abs() < 1e-9);
            }
        }
    }
    // An expression that holds reductions of whole rows.
    let x = x.cast::<f64>()?;
    let centered = (x.lazy() - x.lazy().along(Mean, Axis::<1>)).cumsum(Axis::<1>)?;
    let expected = (&x - x.mean(Axis::<1>)?.insert_axis(Axis::<1>)).cumsum(Axis::<1>)?;
    assert!((&centered - &expected).abs()?.max(All)?.item()? < 1e-6);
    let x = Tensor::from([1.0, f64::NEG_INFINITY, 1000.0, 1000.0, f64::INFINITY, f64::NAN]);
    let y = x.logcumsumexp(Axis::<0>)?.to_vec()?;
    assert_eq!(y[..5], [1.0, 1.0, 1000.0, 1000.0 + 2f64.ln(), f64::INFINITY]);
    assert!(y[5].is_nan());
    let y = x.slice((1..2,))?.scan(LogCumSumExp, Axis::<0>)?;
    assert_eq!(y.to_vec()?, [f64::NEG_INFINITY]);
    Ok(())
}

#[test]
fn nan_stays_from_its_position_on() -> Result<()> {
    let x = Tensor::from([1.0, f32::NAN, 3.0, -1.0]);
    for y in [x.cummax(Axis::<0>)?, x.cummin(Axis::<0>)?, x.cumsum(Axis::<0>)?, x.cumprod(Axis::<0>)?] {
        let y = y.to_vec()?;
        assert!(y[0] == 1.0 && y[1..].iter().all(|y| y.is_nan()), "{y:?}");
    }
    Ok(())
}

#[test]
fn a_scan_has_its_sizes_without_data_and_refuses_an_axis_that_is_not_there() -> Result<()> {
    let device = Meta::tracing();
    let x = Tensor::<f32, 3, _>::zeros([4, 5, 6], &device)?;
    assert_eq!((x.lazy() + 1.0).cumsum(Axis::<1>)?.size(), [4, 5, 6]);
    assert!(device.kernels()[0].starts_with("scan cumsum [4, 6] along 5"), "{:?}", device.kernels());
    assert_eq!(x.cumsum_axis(3).unwrap_err().to_string(), "cumsum: axis 3 does not fit sizes [4, 5, 6]");
    assert!(matches!(x.lazy().scan_by(Sum, 3, true), Err(Error::Axis { axis: 3, .. })));
    assert!(matches!(Tensor::<f32, 0>::ones([], &Cpu)?.cumsum_axis(0), Err(Error::Axis { .. })));
    Ok(())
}
