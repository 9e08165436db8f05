//! Extremes and their positions, sums and booleans: ties, NaN, infinities, empty operands.

use rankform::f16;
use rankform::prelude::*;

/// Every place of a special value, in rows and in columns, at lengths around the engine's widths.
fn everywhere(check: impl Fn(&Tensor<f32, 2>, usize, usize)) -> Result<()> {
    for n in [1, 2, 5, 31, 32, 33, 100, 4097] {
        for at in [0, 1, n / 2, n - 1].into_iter().filter(|at| *at < n) {
            // 40 columns are reduced side by side, 1 as a row.
            for columns in [1, 3, 40] {
                let x = Tensor::from_fn([n, columns], |[i, j]| ((i * 7 + j) % 5) as f32, &Cpu)?;
                check(&x, at, columns);
            }
        }
    }
    Ok(())
}

/// `x` with `value` at row `at` of every column.
fn with(x: &Tensor<f32, 2>, at: usize, value: f32) -> Tensor<f32, 2> {
    Tensor::from_fn(x.size(), |[i, j]| if i == at { value } else { x[[i, j]] }, &Cpu).unwrap()
}

#[test]
fn a_nan_anywhere_is_every_extreme_and_the_first_gives_the_position() -> Result<()> {
    everywhere(|x, at, columns| {
        let y = with(x, at, f32::NAN);
        let y = if at + 1 < x.size()[0] { with(&y, x.size()[0] - 1, f32::NAN) } else { y };
        for values in [
            y.max(Axis::<0>),
            y.min(Axis::<0>),
            y.sum(Axis::<0>),
            y.mean(Axis::<0>),
            y.var(Axis::<0>),
            y.prod(Axis::<0>),
        ] {
            assert!(values.unwrap().iter().all(|x| x.is_nan()), "{at} of {}", x.size());
        }
        for places in [y.argmax(Axis::<0>), y.argmin(Axis::<0>)] {
            assert_eq!(places.unwrap().to_vec().unwrap(), vec![at as i64; columns], "{at} of {}", x.size());
        }
    })
}

#[test]
fn of_ties_the_first_counts_and_infinities_are_numbers_like_others() -> Result<()> {
    everywhere(|x, at, columns| {
        for infinity in [f32::INFINITY, f32::NEG_INFINITY] {
            let y = with(&with(x, at, infinity), x.size()[0] - 1, infinity);
            let (extreme, place) = if infinity > 0.0 {
                (y.max(Axis::<0>), y.argmax(Axis::<0>))
            } else {
                (y.min(Axis::<0>), y.argmin(Axis::<0>))
            };
            assert_eq!(extreme.unwrap().to_vec().unwrap(), vec![infinity; columns]);
            assert_eq!(place.unwrap().to_vec().unwrap(), vec![at as i64; columns], "{at} of {}", x.size());
            assert_eq!(y.sum(Axis::<0>).unwrap().to_vec().unwrap(), vec![infinity; columns]);
        }
        let constant = Tensor::full(x.size(), f32::NEG_INFINITY, &Cpu).unwrap();
        assert_eq!(constant.argmax(Axis::<0>).unwrap().to_vec().unwrap(), vec![0; columns]);
        assert_eq!(constant.argmin(Axis::<0>).unwrap().to_vec().unwrap(), vec![0; columns]);
    })
}

#[test]
fn the_smallest_and_largest_integers_are_found_though_they_are_the_identities() -> Result<()> {
    for n in [1, 5, 40, 5000] {
        let (low, high) = (Tensor::full([n], i8::MIN, &Cpu)?, Tensor::full([n], i8::MAX, &Cpu)?);
        assert_eq!((low.max(All)?.item()?, low.argmax(All)?.item()?), (i8::MIN, 0));
        assert_eq!((high.min(All)?.item()?, high.argmin(All)?.item()?), (i8::MAX, 0));
        let zero = Tensor::full([n], 0_u64, &Cpu)?;
        assert_eq!((zero.max(All)?.item()?, zero.argmax(All)?.item()?), (0, 0));
    }
    Ok(())
}

#[test]
fn zeros_keep_their_signs_in_extremes() -> Result<()> {
    let x = Tensor::from([-0.0_f64, 0.0, -0.0]);
    assert_eq!(x.max(All)?.item()?.to_bits(), 0.0_f64.to_bits());
    assert_eq!(x.min(All)?.item()?.to_bits(), (-0.0_f64).to_bits());
    assert_eq!(Tensor::from([-0.0_f32]).max(All)?.item()?.to_bits(), (-0.0_f32).to_bits());
    assert_eq!((x.argmax(All)?.item()?, x.argmin(All)?.item()?), (0, 0)); // equal, as numbers
    Ok(())
}

#[test]
fn places_count_row_major_over_the_axes_that_go_whatever_the_layout() -> Result<()> {
    let x = Tensor::from_fn([4, 5, 6], |[i, j, k]| ((i * 31 + j * 17 + k * 7) % 41) as i32, &Cpu)?;
    for view in [x.permuted([2, 0, 1])?, x.permuted([2, 0, 1])?.reversed(Axis::<2>), x.transposed()] {
        let copy = view.to_contiguous()?;
        assert_eq!(view.argmax(All)?.item()?, copy.argmax(All)?.item()?);
        let at = Dim(copy.size().0).delinearize(view.argmax(All)?.item()? as usize);
        assert_eq!(view[at.0], view.max(All)?.item()?);
        assert_eq!(
            view.argmin((Axis::<0>, Axis::<2>))?.to_vec()?,
            copy.argmin((Axis::<0>, Axis::<2>))?.to_vec()?
        );
    }
    Ok(())
}

#[test]
fn of_nothing_sums_are_neutral_means_are_nan_and_extremes_are_errors() -> Result<()> {
    let x = Tensor::<f64, 2>::zeros([3, 0], &Cpu)?;
    assert_eq!(x.sum(Axis::<1>)?.to_vec()?, [0.0; 3]);
    assert_eq!(x.prod(Axis::<1>)?.to_vec()?, [1.0; 3]);
    for nan in [x.mean(Axis::<1>)?, x.var(Axis::<1>)?, x.sample_var(Axis::<1>)?] {
        assert!(nan.iter().all(|x| x.is_nan()) && nan.size() == [3]);
    }
    assert!(Tensor::from([1.0_f64]).sample_var(All)?.item()?.is_nan());
    assert_eq!(x.sum(Axis::<0>)?.size(), [0]);
    assert_eq!(x.max(Axis::<0>)?.size(), [0]); // no result, so none without a value
    for error in [x.max(Axis::<1>).err(), x.min(All).err(), x.argmax(Axis::<1>).err(), x.argmin(All).err()] {
        assert!(matches!(error, Some(Error::Empty { .. })), "{error:?}");
    }
    let y = Tensor::<bool, 1>::zeros([0], &Cpu)?;
    assert_eq!((y.any(All)?.item()?, y.all(All)?.item()?, y.count(All)?.item()?), (false, true, 0));
    Ok(())
}

#[test]
fn sizes_that_count_nothing_are_reduced_however_long_the_other_axes_are() -> Result<()> {
    let huge = 1 << 40;
    for size in [[0, huge, 2], [huge, 0, 2], [2, huge, 0]] {
        let x = Tensor::<f32, 3>::zeros(size, &Cpu)?;
        assert_eq!(x.sum(All)?.item()?, 0.0);
        assert!(matches!(x.max(All), Err(Error::Empty { .. })));
        assert_eq!(x.exp()?.size(), size);
    }
    let x = Tensor::<f32, 3>::zeros([2, huge, 0], &Cpu)?;
    assert_eq!(x.mean((Axis::<1>, Axis::<2>))?.is_nan()?.to_vec()?, [true, true]);
    Ok(())
}

#[test]
fn any_all_and_count_see_every_place() -> Result<()> {
    for n in [1, 2, 31, 32, 33, 64, 100, 5000] {
        for at in [0, n / 2, n - 1] {
            let x = Tensor::from_fn([n], |[i]| i == at, &Cpu)?;
            assert_eq!((x.any(All)?.item()?, x.count(All)?.item()?, x.all(All)?.item()?), (true, 1, n == 1));
            let y = x.not()?;
            assert_eq!(
                (y.all(All)?.item()?, y.count(All)?.item()?, y.any(All)?.item()?),
                (false, n as i64 - 1, n > 1)
            );
        }
        let none = Tensor::<bool, 1>::zeros([n], &Cpu)?;
        assert_eq!(
            (none.any(All)?.item()?, none.not()?.all(All)?.item()?, none.count(All)?.item()?),
            (false, true, 0)
        );
    }
    // As a step from numbers to truth values.
    let x = Tensor::from([[1.0, f64::NAN], [2.0, 3.0]]);
    assert_eq!(x.is_nan()?.any(Axis::<1>)?.to_vec()?, [true, false]);
    assert_eq!(x.lazy().is_finite().all(Axis::<0>)?.to_vec()?, [true, false]);
    assert_eq!(x.cast::<f16>()?.greater(f16::ONE)?.count(All)?.item()?, 2);
    Ok(())
}
