//! Complex numbers where real ones are served: parts, means, deviations, norms, closeness; as pairs without a
//! copy.

use crate::value::Random;
use num_complex::Complex;
use rankform::ops::ComplexParts;
use rankform::prelude::*;

type C = Complex<f64>;

fn near(x: f64, y: f64, bound: f64) -> bool {
    x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound * y.abs()
}

#[test]
fn real_numbers_are_their_own_conjugates() -> Result<()> {
    fn check<T: Conjugate<Real = T> + From<u8> + PartialEq>(zero: T) -> Result<()> {
        let x = Tensor::from([[T::from(3), T::from(0)], [T::from(1), T::from(2)]]).into_transposed()?;
        assert_eq!((x.re()?, x.conj()?), (x.copy()?, x.copy()?));
        assert_eq!(x.im()?.to_vec()?, [zero; 4]);
        assert_eq!(x.lazy().is_real().eval()?.to_vec()?, [true; 4]);
        Ok(())
    }
    check(0u8)?;
    check(0i16)?;
    check(0u64)?;
    check(0i64)?;
    check(0f32)?;
    check(0f64)?;
    let truth = Tensor::from([true, false]);
    assert_eq!(
        (truth.re()?.to_vec()?, truth.im()?.to_vec()?, truth.conj()?.to_vec()?),
        (vec![true, false], vec![false; 2], vec![true, false])
    );
    let x = Tensor::from([2.0, 0.0, -3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    let pi = std::f64::consts::PI;
    let angle = x.angle()?.to_vec()?;
    assert!(angle[..5] == [0.0, 0.0, pi, 0.0, pi] && angle[5].is_nan(), "{angle:?}");
    assert_eq!(x.modulus()?.to_vec()?[..5], [2.0, 0.0, 3.0, f64::INFINITY, f64::INFINITY]);
    assert_eq!(x.is_real()?.to_vec()?, [true; 6]);
    let z = Tensor::from([C::new(1.0, 0.0), C::new(1.0, -0.0), C::new(0.0, 1.0), C::new(0.0, f64::NAN)]);
    assert_eq!(z.is_real()?.to_vec()?, [true, true, false, false]);
    assert_eq!(
        Tensor::from([rankform::f16::from_f64(-1.0)]).angle()?.to_vec()?[0].to_f64(),
        rankform::f16::from_f64(pi).to_f64()
    );
    Ok(())
}

#[test]
fn means_and_deviations_of_complex_numbers_are_those_of_the_plane() -> Result<()> {
    let mut random = Random(31);
    for (center, size) in [(C::new(0.0, 0.0), 1.0), (C::new(1e8, -3e8), 1.0), (C::new(0.0, 0.0), 1e-30)] {
        let x = Tensor::from_fn([3, 1000], |_| center + C::new(random.unit(), random.unit()) * size, &Cpu)?;
        let turned = x.transposed().copy()?;
        for x in [x.view(), turned.transposed()] {
            let (mean, var, std) = (x.mean(Axis::<1>)?, x.var(Axis::<1>)?, x.sample_std(Axis::<1>)?);
            for row in 0..3 {
                let values: Vec<C> = (0..1000).map(|k| x[[row, k]]).collect();
                let true_mean = values.iter().map(|z| z - values[0]).sum::<C>() / 1000.0 + values[0];
                let squares: f64 = values.iter().map(|z| (z - true_mean).norm_sqr()).sum();
                assert!(
                    (mean[[row]] - true_mean).norm() <= 1e-13 * true_mean.norm().max(size),
                    "{}",
                    mean[[row]]
                );
                assert!(
                    near(var[[row]], squares / 1000.0, 1e-6)
                        && near(std[[row]], (squares / 999.0).sqrt(), 1e-6),
                    "{} {squares}",
                    var[[row]]
                );
            }
        }
        assert_eq!(x.std(All)?.item()?, x.lazy().std(All)?.item()?);
    }
    // Numbers that are equal have no deviation; a mean of one infinity keeps the other part.
    let equal = Tensor::<C, 1>::full([37], C::new(1000000.1, -0.3), &Cpu)?;
    assert_eq!((equal.var(All)?.item()?, equal.std(All)?.item()?), (0.0, 0.0));
    let infinite = Tensor::from([C::new(1.0, f64::INFINITY), C::new(3.0, 0.0)]).mean(All)?.item()?;
    assert_eq!((infinite.re, infinite.im), (2.0, f64::INFINITY));
    let none = Tensor::<C, 1>::zeros([0], &Cpu)?;
    assert!(
        none.mean(All)?.item()?.re.is_nan()
            && none.var(All)?.item()?.is_nan()
            && equal.slice((0..1,))?.sample_var(All)?.item()?.is_nan()
    );
    // Halves: in single precision, rounded once; f32 with squares that would overflow.
    let halves =
        Tensor::from([Complex::new(1.0, 2.0), Complex::new(3.0, 6.0)]).cast::<Complex<rankform::f16>>()?;
    let (mean, var) = (halves.mean(All)?.item()?, halves.var(All)?.item()?);
    assert_eq!((mean.re.to_f64(), mean.im.to_f64(), var.to_f64()), (2.0, 4.0, 5.0));
    let far = Tensor::from([Complex::new(1e20f32, 0.0), Complex::new(-1e20, 0.0)]);
    assert_eq!(far.std(All)?.item()?, 1e20);
    let mut out = Tensor::<f32, 0>::zeros([], &Cpu)?;
    far.std_into(All, &mut out)?;
    assert_eq!(out.item()?, 1e20);
    let meta = Tensor::<C, 2, Meta>::zeros([2, 3], &Meta::new())?;
    assert_eq!(
        (meta.mean(Axis::<0>)?.size(), meta.var(Axis::<1>)?.size(), meta.norm(All)?.size()),
        (dim![3], dim![2], dim![])
    );
    Ok(())
}

#[test]
fn norms_of_complex_numbers_are_those_of_their_absolute_values() -> Result<()> {
    let z = Tensor::from([[C::new(3.0, -4.0), C::new(0.0, 0.0)], [C::new(5.0, 12.0), C::new(-8.0, 15.0)]]);
    assert_eq!(z.norm(Axis::<1>)?.to_vec()?, [5.0, (169.0f64 + 289.0).sqrt()]);
    assert_eq!((z.norm_one(All)?.item()?, z.norm_max(Axis::<0>)?.to_vec()?), (35.0, vec![13.0, 17.0]));
    let huge = Tensor::from([C::new(3e200, -4e200), C::new(0.0, 0.0)]);
    assert!(near(huge.norm(All)?.item()?, 5e200, 1e-15));
    let tiny = Tensor::from([C::new(3e-200, 4e-200)]);
    assert!(near(tiny.norm(All)?.item()?, 5e-200, 1e-15) && near(tiny.norm_one(All)?.item()?, 5e-200, 1e-15));
    let single = Tensor::from([Complex::new(3e38f32, 0.0), Complex::new(0.0, 1e38)]);
    assert!((single.norm(All)?.item()? / 3.1622776e38 - 1.0).abs() < 1e-6);
    assert!(Tensor::from([C::new(0.0, f64::NAN)]).norm(All)?.item()?.is_nan());
    assert_eq!(Tensor::<C, 1>::zeros([0], &Cpu)?.norm(All)?.item()?, 0.0);
    Ok(())
}

#[test]
fn complex_numbers_and_truth_values_are_close_by_their_distance() -> Result<()> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = Tensor::from([
        C::new(1.0, 1.0),
        C::new(1.0, 1.0),
        C::new(inf, 0.0),
        C::new(inf, 1.0),
        C::new(nan, 0.0),
        C::new(0.0, nan),
    ]);
    let y = Tensor::from([
        C::new(1.0, 1.1),
        C::new(1.3, 1.4),
        C::new(inf, 0.0),
        C::new(inf, 2.0),
        C::new(nan, 0.0),
        C::new(nan, 0.0),
    ]);
    assert_eq!(x.isclose(&y, 0.0, 0.2, false)?.to_vec()?, [true, false, true, false, false, false]);
    assert_eq!(x.isclose(&y, 0.0, 0.5, true)?.to_vec()?, [true, true, true, false, true, true]);
    assert!(!x.allclose(&y, 0.0, 0.5, true)? && y.allclose(&y, 0.0, 0.0, true)?);
    // The allowance is relative to the absolute value of the other.
    let far = Tensor::from([C::new(3.0, 4.0)]);
    assert!(
        far.allclose(Complex::new(3.0, 4.5), 0.1, 0.0, false)?
            && !far.allclose(Complex::new(3.0, 4.6), 0.1, 0.0, false)?
    );
    let truth = Tensor::from([true, false]);
    assert_eq!(truth.isclose(true, 0.0, 0.0, false)?.to_vec()?, [true, false]);
    let ends = Tensor::from([u64::MAX, 0, 5]);
    assert_eq!(
        ends.isclose(&Tensor::from([0, u64::MAX, 7]), 0.0, 2.0, false)?.to_vec()?,
        [false, false, true]
    );
    let ends = Tensor::from([i64::MAX, i64::MIN, -1]);
    assert_eq!(
        ends.isclose(&Tensor::from([i64::MIN, i64::MAX, 1]), 0.0, 2.0, false)?.to_vec()?,
        [false, false, true]
    );
    Ok(())
}

#[test]
fn complex_numbers_are_seen_as_pairs_without_a_copy() -> Result<()> {
    let mut z = Tensor::from_fn([3, 4], |[i, j]| C::new(i as f64, j as f64), &Cpu)?;
    let part = z.slice((1..3, (0..4).step(2)))?;
    let pairs = part.view_as_real()?;
    assert_eq!(
        (pairs.size(), pairs.stride().0, pairs.raw_ptr().cast()),
        (dim![2, 2, 2], [8, 4, 1], part.raw_ptr())
    );
    assert_eq!(pairs.to_vec()?, [1.0, 0.0, 1.0, 2.0, 2.0, 0.0, 2.0, 2.0]);
    let again = pairs.view_as_complex()?;
    assert_eq!((again.layout(), again.raw_ptr()), (part.layout(), part.raw_ptr()));
    let turned = z.transposed().view_as_real()?.view_as_complex()?.copy()?;
    assert_eq!(turned, z.transposed().copy()?);
    assert_eq!(Tensor::from(C::new(1.0, 2.0)).view_as_real()?.to_vec()?, [1.0, 2.0]);
    assert_eq!(z.slice((.., 4..))?.view_as_real()?.size(), [3, 0, 2]);
    let stretched = z.slice((0..1, ..))?.broadcast_to([5, 4])?.view_as_real()?;
    assert_eq!((stretched.size(), stretched.sum(All)?.item()?), (dim![5, 4, 2], 30.0));
    z.view_mut()?.view_as_real()?.slice((.., .., 0))?.fill(7.0)?;
    assert!(z.re()?.to_vec()?.iter().all(|&x| x == 7.0) && z[[2, 3]].im == 3.0);

    let x = Tensor::from_fn([2, 3, 2], |[i, j, k]| (6 * i + 2 * j + k) as f32, &Cpu)?;
    assert_eq!(x.view_as_complex()?[[1, 2]], Complex::new(10.0, 11.0));
    let mut written = x.copy()?;
    written.view_mut()?.view_as_complex()?.slice((0, 1))?.fill(Complex::new(-1.0, -2.0))?;
    assert_eq!(written.slice((0, 1, ..))?.to_vec()?, [-1.0, -2.0]);
    let text = |error: Result<TensorView<'_, Complex<f32>, 2>>| error.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        text(x.permuted([0, 2, 1])?.view_as_complex()),
        "view_as_complex: the last axis of sizes [2, 2, 3] has not the size 2, of a real and an imaginary \
         part"
    );
    assert!(text(x.reversed_axis(2)?.view_as_complex()).contains("parts do not stand side by side"));
    let line = Tensor::from_fn([9], |[k]| k as f32, &Cpu)?;
    assert!(line.as_strided([3, 2], [3, 1], 0)?.view_as_complex().is_err(), "odd strides");
    assert!(line.slice((1..3,))?.view_as_complex().is_err(), "an odd offset");
    assert_eq!(line.slice((2..4,))?.view_as_complex()?.to_vec()?, [Complex::new(2.0, 3.0)]);
    assert_eq!(Tensor::<f32, 2>::zeros([0, 2], &Cpu)?.view_as_complex()?.size(), [0]);
    Ok(())
}

#[test]
fn the_deviation_of_equal_large_complex_numbers_is_0() -> Result<()> {
    for n in [1, 2, 3, 100] {
        let z = Tensor::<C, 1>::full([n], C::new(1e200, -1e200), &Cpu)?;
        assert_eq!((z.var(All)?.item()?, z.std(All)?.item()?), (0.0, 0.0), "{n}");
    }
    let apart = Tensor::from([C::new(1e200, 0.0), C::new(-1e200, 0.0)]);
    assert_eq!(apart.var(All)?.item()?, f64::INFINITY); // no NaN
    Ok(())
}
