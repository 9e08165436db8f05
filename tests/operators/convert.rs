//! Casts between every two elements, comparisons and choices on every layout, parts of complex numbers.

use crate::arrange::{SIZE, arranged, read};
use crate::value::{Exact, Random, Value, differ};
use num_complex::Complex;
use rankform::prelude::*;
use rankform::{bf16, f16};

/// The result of a cast by its documentation.
fn cast_truth<U: Value>(x: Exact) -> Exact {
    let (re, im) = match x {
        Exact::Real(x) => (x, 0.0),
        Exact::Integer(x) => (x as f64, 0.0),
        Exact::BoolElement(x) => (x as u8 as f64, 0.0),
        Exact::Complex(re, im) => (re, im),
    };
    match U::default().exact() {
        Exact::BoolElement(_) => Exact::BoolElement(re != 0.0 || im != 0.0),
        Exact::Complex(..) => Exact::Complex(re, im),
        Exact::Real(_) => Exact::Real(re),
        Exact::Integer(_) => {
            let (low, high) = ends::<U>();
            Exact::Integer(match x {
                // Whole to whole wraps, real to whole saturates and NaN is 0.
                Exact::Integer(x) => low + (x - low).rem_euclid(high - low + 1),
                _ => (re as i128).clamp(low, high),
            })
        }
    }
}

fn ends<U: Value>() -> (i128, i128) {
    let whole =
        U::samples().into_iter().map(|x| if let Exact::Integer(x) = x.exact() { x } else { unreachable!() });
    let all: Vec<i128> = whole.collect();
    (*all.iter().min().unwrap(), *all.iter().max().unwrap())
}

fn cast<T: Value, U: Value>() -> Result<usize> {
    let samples = T::samples();
    for backwards in [false, true] {
        let x = Tensor::from_slice(&samples, [samples.len()], &Cpu)?;
        let view = if backwards { x.reversed(Axis::<0>) } else { x.view() };
        let found = view.cast::<U>()?;
        for (x, found) in view.iter().zip(found.iter()) {
            let truth = cast_truth::<U>(x.exact());
            let fine = match (truth, found.exact()) {
                // To nearest; to 16 bits by way of f32, which can round once more.
                (Exact::Real(truth), Exact::Real(_)) => {
                    found.ulp(truth) <= 0.5 + if U::FRACTION < 23 { 1e-4 } else { 0.0 }
                }
                (Exact::Complex(re, im), Exact::Complex(a, b)) => {
                    let near = |a: f64, b: f64| {
                        let beyond = b.abs() > U::LARGEST && a.is_infinite() && a.signum() == b.signum();
                        let same = a == b || (a.is_nan() && b.is_nan());
                        same || beyond
                            || (a - b).abs() <= 2f64.powi(-1 - U::FRACTION) * b.abs() + U::LEAST / 2.0
                    };
                    near(a, re) && near(b, im)
                }
                (truth, found) => truth == found,
            };
            assert!(fine, "{x} of {} as {} is {found}, not {truth:?}", T::DTYPE, U::DTYPE);
        }
    }
    Ok(samples.len())
}

#[test]
fn every_element_becomes_every_other_as_documented() -> Result<()> {
    let mut count = 0;
    macro_rules! all {
        ($($t:ty)*; $to:tt) => { $(all!(@to $t; $to);)* };
        (@to $t:ty; [$($u:ty)*]) => { $(count += cast::<$t, $u>()?;)* };
    }
    all!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>;
        [bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>]);
    println!("{count} casts");
    Ok(())
}

#[test]
fn casts_at_the_ends_of_the_types() -> Result<()> {
    let x = Tensor::from([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 127.9, -128.9, 255.5, 256.0, -0.9]);
    assert_eq!(x.cast::<i8>()?.to_vec()?, [0, 127, -128, 127, -128, 127, 127, 0]);
    assert_eq!(x.cast::<u8>()?.to_vec()?, [0, 255, 0, 127, 0, 255, 255, 0]);
    assert_eq!(x.cast::<i64>()?.to_vec()?[..3], [0, i64::MAX, i64::MIN]);
    assert_eq!(x.cast::<u64>()?.to_vec()?[..3], [0, u64::MAX, 0]);
    assert_eq!(Tensor::from([300_i32, -1, i32::MIN]).cast::<u8>()?.to_vec()?, [44, 255, 0]);
    assert_eq!(Tensor::from([-1_i8]).cast::<u64>()?.to_vec()?, [u64::MAX]);
    assert_eq!(Tensor::from([u64::MAX, 1 << 63]).cast::<i64>()?.to_vec()?, [-1, i64::MIN]);
    assert_eq!(Tensor::from([u64::MAX]).cast::<f32>()?.to_vec()?, [18446744073709551616.0]);
    assert_eq!(
        Tensor::from([f64::NAN, 0.0, -0.0, 1e-320]).cast::<bool>()?.to_vec()?,
        [true, false, false, true]
    );
    assert_eq!(Tensor::from([65519.9_f32, 65520.0]).cast::<f16>()?.to_vec()?, [f16::MAX, f16::INFINITY]);
    assert_eq!(Tensor::from([1e39_f64, -1e39]).cast::<f32>()?.to_vec()?, [f32::INFINITY, f32::NEG_INFINITY]);
    let complex = Tensor::from([Complex::new(2.5_f64, 9.0), Complex::new(0.0, 1.0)]);
    assert_eq!(
        (complex.cast::<i32>()?.to_vec()?, complex.cast::<bool>()?.to_vec()?),
        (vec![2, 0], vec![true, true])
    );
    Ok(())
}

#[test]
fn a_cast_in_an_expression_is_the_same_as_one_through_memory() -> Result<()> {
    let x = Tensor::from_fn([300], |[i]| (i as f32 - 150.0) * 1.7, &Cpu)?;
    let fused = (x.lazy().cast::<i8>().cast::<f64>() + 0.5).cast::<u16>().eval()?;
    let steps = (&x.cast::<i8>()?.cast::<f64>()? + 0.5).cast::<u16>()?;
    assert_eq!(fused.to_vec()?, steps.to_vec()?);
    Ok(())
}

#[test]
fn select_takes_each_element_from_its_side_on_every_layout() -> Result<()> {
    fn check<T: Value>(
        yes: &Tensor<T, 3>,
        no: &Tensor<T, 3>,
        mask: &Tensor<bool, 3>,
        what: [&str; 3],
    ) -> Result<()> {
        let size = std::array::from_fn(|axis| yes.size()[axis].max(no.size()[axis]).max(mask.size()[axis]));
        let sides = read(yes, size).into_iter().zip(read(no, size));
        let expected: Vec<T> =
            sides.zip(read(mask, size)).map(|((yes, no), mask)| if mask { yes } else { no }).collect();
        assert_eq!(differ(&mask.select(yes, no)?.to_vec()?, &expected), None, "{what:?}");
        assert_eq!(differ(&mask.lazy().select(yes, no).eval()?.to_vec()?, &expected), None, "{what:?}");
        let number = expected[0];
        let beside: Vec<T> = read(mask, size)
            .iter()
            .zip(read(yes, size))
            .map(|(mask, yes)| if *mask { yes } else { number })
            .collect();
        let joint = mask.broadcast_to(size)?;
        assert_eq!(differ(&joint.select(yes, number)?.to_vec()?, &beside), None, "{what:?} beside a number");
        Ok(())
    }
    fn every<T: Value>() -> Result<()> {
        let mut random = Random(51);
        let masks = arranged(SIZE, || Random(random.bits()).chance(2));
        let (yes, no) =
            (arranged(SIZE, || T::moderate(&mut random)), arranged(SIZE, || T::moderate(&mut Random(9))));
        for (k, mask) in masks.iter().enumerate() {
            for j in 0..yes.len() {
                let (yes, no) = (&yes[j], &no[(j + k) % no.len()]);
                check(&yes.tensor, &no.tensor, &mask.tensor, [yes.kind, no.kind, mask.kind])?;
            }
        }
        Ok(())
    }
    every::<f32>()?;
    every::<u8>()?;
    every::<Complex<f64>>()?;
    every::<bf16>()?;
    every::<bool>()
}

#[test]
fn select_keeps_the_side_that_is_not_taken_out_of_the_result() -> Result<()> {
    let x = Tensor::from([-1.0, 4.0, 0.0]);
    let y = x.lazy().greater(0.0).select(x.lazy().ln(), 7.0).eval()?;
    assert_eq!(y.to_vec()?, [7.0, 4f64.ln(), 7.0]);
    let nan = Tensor::from([f64::NAN; 3]);
    assert!(x.greater(0.0)?.select(&x, &nan)?.iter().map(|x| x.is_nan()).eq([true, false, true]));
    Ok(())
}

#[test]
fn comparisons_with_nan_are_false_but_for_not_equal_also_with_scalars() -> Result<()> {
    let (x, y) = (Tensor::from([f32::NAN, 1.0, -0.0]), Tensor::from([f32::NAN, f32::NAN, 0.0]));
    assert_eq!(x.equal(&y)?.to_vec()?, [false, false, true]);
    assert_eq!(x.not_equal(&y)?.to_vec()?, [true, true, false]);
    assert_eq!([x.less(&y)?, x.greater(&y)?].map(|z| z.to_vec()), [Ok(vec![false; 3]), Ok(vec![false; 3])]);
    assert_eq!(
        [x.less_equal(&y)?, x.greater_equal(&y)?].map(|z| z.to_vec()),
        [Ok(vec![false, false, true]), Ok(vec![false, false, true])]
    );
    assert_eq!(x.less(f32::NAN)?.to_vec()?, [false; 3]);
    assert_eq!((x.lazy().less(2.0)).bit_and(x.lazy().greater(-2.0)).eval()?.to_vec()?, [false, true, true]);
    Ok(())
}

#[test]
fn complex_numbers_come_apart_and_together_on_every_layout() -> Result<()> {
    let mut random = Random(52);
    for x in arranged(SIZE, || Complex::<f64>::moderate(&mut random)) {
        let x = x.tensor;
        let values = x.to_vec()?;
        let map = |f: fn(&Complex<f64>) -> f64| values.iter().map(f).collect::<Vec<f64>>();
        assert_eq!((x.re()?.to_vec()?, x.im()?.to_vec()?), (map(|x| x.re), map(|x| x.im)));
        assert_eq!(x.conj()?.to_vec()?, values.iter().map(|x| x.conj()).collect::<Vec<_>>());
        for (found, truth) in x.modulus()?.to_vec()?.iter().zip(map(|x| x.norm())) {
            assert!((found - truth).abs() <= 4.0 * f64::EPSILON * truth);
        }
        for (found, truth) in x.angle()?.to_vec()?.iter().zip(map(|x| x.arg())) {
            assert!((found - truth).abs() <= 4.0 * f64::EPSILON * truth.abs());
        }
    }
    let x = Tensor::from([
        Complex::new(-1.0_f32, 0.0),
        Complex::new(-1.0, -0.0),
        Complex::new(0.0, 0.0),
        Complex::new(3e30, 4e30),
    ]);
    assert_eq!(x.angle()?.to_vec()?[..3], [std::f32::consts::PI, -std::f32::consts::PI, 0.0]);
    assert!(x.angle()?.to_vec()?[3].ulp(4f64.atan2(3.0)) <= 1.5);
    assert_eq!(x.modulus()?.to_vec()?[3], 5e30);
    Ok(())
}

#[test]
fn complex_quotients_do_not_overflow_on_the_way() -> Result<()> {
    use num_complex::Complex;
    for (re, im) in [(1.0, 1.0), (3.0, -4.0), (-0.5, 2.0), (2.0, 0.0), (0.0, -2.0)] {
        for scale in [1e-30f32, 1.0, 1e30] {
            let y = Complex::new(re * scale, im * scale);
            let x = Tensor::from([y, y * 2.0]);
            let found = (&x / y).to_vec()?;
            assert!(found.iter().zip([1.0, 2.0]).all(|(z, w)| (z - w).norm() < 1e-6), "{y}: {found:?}");
        }
    }
    let none = (&Tensor::from([Complex::new(1.0, 0.0)]) / Complex::new(0.0, 0.0)).item()?;
    assert!(none.re == f64::INFINITY && none.im.is_nan(), "as NumPy has it: {none}");
    Ok(())
}
