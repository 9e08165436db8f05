//! Booleans in order; parts, pairs of indices, repeats, diagonals, histograms, medians and random orders,
//! against loops over vectors on the host.

use crate::arrange::{Arranged, SIZE, arranged};
use crate::value::{Random, Value, differ};
use rankform::Complex;
use rankform::ops::{self, Bins, QuantileMethod, ScatterReduction, Side};
use rankform::prelude::*;
use std::cmp::Ordering;

/// The order of the crate: NaN after every number.
fn order<T: Comparable>(x: &T, y: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    x.partial_cmp(y).unwrap_or(is_nan(x).cmp(&is_nan(y)))
}

/// One number after the other.
fn counted(next: &mut i32) -> i32 {
    *next += 1;
    *next - 1
}

fn bools(size: [usize; 3], seed: u64) -> Vec<Arranged<bool>> {
    let mut random = Random(seed);
    arranged(size, move || random.chance(2))
}

#[test]
fn booleans_are_sorted_and_compared_with_false_as_the_smaller() -> Result<()> {
    for size in [SIZE, [0, 3, 2], [3, 1, 0], [1, 1, 1], [2, 3, 700]] {
        for Arranged { kind, tensor } in bools(size, 5) {
            let x = tensor.view();
            let of_numbers = x.cast::<u8>()?;
            for axis in 0..3 {
                let what = format!("axis {axis} of {size:?}, {kind}");
                assert_eq!(x.sort_axis(axis)?.cast::<u8>()?, of_numbers.sort_axis(axis)?, "{what}");
                assert_eq!(
                    x.argsort_descending_axis(axis)?,
                    of_numbers.argsort_descending_axis(axis)?,
                    "{what}"
                );
                assert_eq!(x.cummax_axis(axis)?.cast::<u8>()?, of_numbers.cummax_axis(axis)?, "{what}");
                assert_eq!(x.cummin_axis(axis)?.cast::<u8>()?, of_numbers.cummin_axis(axis)?, "{what}");
                let differences: Tensor<bool, 3> = x.diff_axis(axis)?;
                let n = x.size()[axis];
                if n > 0 {
                    let (after, before) = (x.slice_axis(axis, 1..n, 1)?, x.slice_axis(axis, 0..n - 1, 1)?);
                    assert_eq!(differences, after.not_equal(before)?, "{what}");
                    let (max, at): (Tensor<bool, 2>, Tensor<i64, 2>) =
                        (x.max_axis(axis)?, x.argmax_axis(axis)?);
                    assert_eq!(
                        (max.cast::<u8>()?, at),
                        (of_numbers.max_axis(axis)?, of_numbers.argmax_axis(axis)?),
                        "{what}"
                    );
                    let (min, at): (Tensor<bool, 2>, Tensor<i64, 2>) =
                        (x.min_axis(axis)?, x.argmin_axis(axis)?);
                    assert_eq!(
                        (min.cast::<u8>()?, at),
                        (of_numbers.min_axis(axis)?, of_numbers.argmin_axis(axis)?),
                        "{what}"
                    );
                    let (mode, at): (Tensor<bool, 2>, _) = x.mode_axis(axis)?;
                    assert_eq!((mode.cast::<u8>()?, at), of_numbers.mode_axis(axis)?, "{what}");
                    let (middle, at): (Tensor<bool, 2>, _) = x.median_axis(axis)?;
                    assert_eq!((middle.cast::<u8>()?, at), of_numbers.median_axis(axis)?, "{what}");
                }
            }
            assert_eq!(x.unique()?.cast::<u8>()?, of_numbers.unique()?);
            assert_eq!(x.less(true)?, x.logical_not()?);
            assert_eq!(x.greater_equal(x)?, x.equal(x)?);
            assert_eq!(
                (x.maximum(x.logical_not()?.view())?.all(All)?.item()?, x.minimum(false)?.any(All)?.item()?),
                (true, false)
            );
            assert_eq!(
                (x.fmax(false)?, x.fmin(true)?, x.clamp(false, true)?),
                (x.copy()?, x.copy()?, x.copy()?)
            );
            assert!(x.allclose(x, 0.0, 0.0, false)?);
        }
    }
    let (x, y) = (Tensor::from([false, false, true, true]), Tensor::from([false, true, false, true]));
    assert_eq!(x.less(&y)?.to_vec()?, [false, true, false, false]);
    assert_eq!(x.less_equal(&y)?.to_vec()?, [true, true, false, true]);
    assert_eq!(x.greater(&y)?.to_vec()?, [false, false, true, false]);
    assert_eq!(x.isclose(&y, 1e-5, 1e-8, false)?.to_vec()?, [true, false, false, true]);
    assert_eq!(x.isclose(&y, 1e-5, 1.0, false)?.to_vec()?, [true; 4]);
    assert_eq!(Tensor::<bool, 2>::eye(2, &Cpu)?.to_vec()?, [true, false, false, true]);
    assert_eq!(Tensor::from([false, true]).isin(&Tensor::from([true, true]))?.to_vec()?, [false, true]);
    Ok(())
}

#[test]
fn booleans_that_meet_in_a_cell_are_reduced_as_words_say() -> Result<()> {
    let mut random = Random(6);
    for n in [0, 1, 5, 300] {
        let (cells, values) = (
            Tensor::from_fn([4], |_| random.chance(2), &Cpu)?,
            Tensor::from_fn([n], |_| random.chance(2), &Cpu)?,
        );
        let index = Tensor::from_fn([n], |_| random.below(3) as i64, &Cpu)?;
        for whole in [false, true] {
            for how in [
                ScatterReduction::Sum,
                ScatterReduction::Prod,
                ScatterReduction::Max,
                ScatterReduction::Min,
                ScatterReduction::Mean,
            ] {
                let mut found = cells.copy()?;
                found.scatter_reduce(how, Axis::<0>, &index, &values, whole)?;
                for cell in 0..4 {
                    let come: Vec<bool> =
                        (0..n).filter(|&i| index[[i]] == cell as i64).map(|i| values[[i]]).collect();
                    let all: Vec<bool> = come
                        .iter()
                        .copied()
                        .chain((whole || come.is_empty()).then_some(cells[[cell]]))
                        .collect();
                    let any = matches!(how, ScatterReduction::Sum | ScatterReduction::Max);
                    let wanted = if any { all.contains(&true) } else { !all.contains(&false) };
                    assert_eq!(found[[cell]], wanted, "{how:?}, {n} values, {whole}, cell {cell}");
                }
            }
        }
    }
    Ok(())
}

/// The parts along the first axis, sorted and counted by the host.
fn check_parts<T: Value + Comparable>(x: TensorView<T, 3>, axis: usize, what: &str) -> Result<()> {
    let n = x.size()[axis];
    let parts: Vec<Vec<T>> =
        (0..n).map(|i| x.slice_axis(axis, i..i + 1, 1)?.to_vec()).collect::<Result<_>>()?;
    let by = |a: &usize, b: &usize| {
        let pairs = parts[*a].iter().zip(&parts[*b]);
        pairs
            .map(|(x, y)| if x == y { Ordering::Equal } else { order(x, y).then(a.cmp(b)) })
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut places: Vec<usize> = (0..n).collect();
    places.sort_by(by);
    let mut groups: Vec<Vec<usize>> = vec![];
    for i in places {
        match groups.last_mut() {
            Some(group) if parts[group[0]] == parts[i] => group.push(i),
            _ => groups.push(vec![i]), // a part with a NaN equals nothing
        }
    }
    let unique = x.unique_axis(axis)?;
    assert_eq!(
        unique.positions.to_vec()?,
        groups.iter().map(|group| group[0] as i64).collect::<Vec<_>>(),
        "{what}"
    );
    assert_eq!(
        unique.counts.to_vec()?,
        groups.iter().map(|group| group.len() as i64).collect::<Vec<_>>(),
        "{what}"
    );
    let mut inverse = vec![0; n];
    groups
        .iter()
        .enumerate()
        .for_each(|(number, group)| group.iter().for_each(|&i| inverse[i] = number as i64));
    assert_eq!(unique.inverse.to_vec()?, inverse, "{what}");
    for (k, group) in groups.iter().enumerate() {
        assert_eq!(
            differ(&unique.values.slice_axis(axis, k..k + 1, 1)?.to_vec()?, &parts[group[0]]),
            None,
            "{what}"
        );
    }
    Ok(())
}

#[test]
fn different_parts_come_in_lexicographic_order_with_places_counts_and_the_way_back() -> Result<()> {
    fn check<T: Value + Comparable>(few: usize, samples: &[T]) -> Result<()> {
        let mut random = Random(7);
        for size in [[5, 2, 2], [7, 1, 3], [3, 5, 1], [0, 2, 2], [2, 0, 3], [1, 1, 1], [40, 3, 3]] {
            for Arranged { kind, tensor } in arranged(size, || samples[random.below(few)]) {
                for axis in 0..3 {
                    check_parts(
                        tensor.view(),
                        axis,
                        &format!("{} along {axis} of {size:?}, {kind}", T::DTYPE),
                    )?;
                }
            }
        }
        Ok(())
    }
    check::<i32>(2, &[3, -1])?;
    check::<u64>(3, &[u64::MAX, 0, 1 << 63])?;
    check::<bool>(2, &[true, false])?;
    check::<f32>(4, &[0.0, -0.0, 1.5, f32::NEG_INFINITY])?;
    check::<f64>(3, &[f64::NAN, 2.0, -2.0])?;
    let none = Tensor::<i32, 2>::zeros([3, 0], &Cpu)?.unique_slices(Axis::<0>)?;
    assert_eq!((none.values.size(), none.counts.to_vec()?), (dim![1, 0], vec![3]));
    assert!(matches!(
        Tensor::<i32, 2, _>::zeros([3, 2], &Meta::new())?.unique_slices(Axis::<0>),
        Err(Error::NoData { .. })
    ));
    assert!(matches!(Tensor::from([1]).unique_axis(1), Err(Error::Axis { axis: 1, .. })));
    Ok(())
}

#[test]
fn each_row_is_searched_in_its_own_line() -> Result<()> {
    let mut random = Random(8);
    let samples = f64::samples();
    for (size, values) in [
        ([3, 9, 2], [3, 4, 2]),
        ([1, 9, 2], [3, 4, 1]),
        ([3, 0, 2], [3, 4, 2]),
        ([2, 5, 1], [2, 0, 1]),
        ([2, 1, 3], [1, 7, 3]),
    ] {
        let lines = Tensor::from_fn(size, |_| samples[random.below(samples.len())], &Cpu)?.sort(Axis::<1>)?;
        let x = Tensor::from_fn(values, |_| samples[random.below(samples.len())], &Cpu)?;
        for side in [Side::Left, Side::Right] {
            let found = lines.searchsorted_along(Axis::<1>, &x, side)?;
            let out: [usize; 3] =
                std::array::from_fn(|a| if a == 1 { values[1] } else { size[a].max(values[a]) });
            assert_eq!(found.size(), out);
            let at = |of: [usize; 3], [i, j, k]: [usize; 3]| [i.min(of[0] - 1), j, k.min(of[2] - 1)];
            for [i, j, k] in Dim(out).indices() {
                let value = x[at(values, [i, j, k])];
                let before =
                    |y: &f64| order(y, &value).is_lt() || (side == Side::Right && order(y, &value).is_eq());
                let wanted = (0..size[1]).filter(|&line| before(&lines[at(size, [i, line, k])])).count();
                assert_eq!(
                    found[[i, j, k]],
                    wanted as i64,
                    "{size:?} {values:?} {side:?} at {:?}",
                    [i, j, k]
                );
            }
        }
    }
    let error = Tensor::from([[1, 2], [3, 4]])
        .searchsorted_along(Axis::<1>, &Tensor::from([[1], [2], [3]]), Side::Left)
        .unwrap_err();
    assert!(matches!(error, Error::Sizes { op: "searchsorted", .. }), "{error}");
    Ok(())
}

#[test]
fn several_indices_name_elements_and_parts_of_every_layout() -> Result<()> {
    let mut random = Random(9);
    let mut next = 0;
    for Arranged { kind, tensor } in arranged(SIZE, || counted(&mut next)) {
        let x = &tensor;
        let size = x.size();
        let mut index =
            |n: [usize; 2], below: usize| Tensor::from_fn(n, |_| random.below(below) as i64, &Cpu);
        let (i, j, k) = (index([2, 1], size[0])?, index([1, 3], size[1])?, index([2, 3], size[2])?);
        let all = x.index((&i, &j, &k))?;
        assert_eq!(all.size(), [2, 3]);
        let pairs = x.index((&i, j.view()))?;
        assert_eq!(pairs.size(), [2, 3, size[2]]);
        let first = x.index((&i,))?;
        for [a, b] in Dim([2, 3]).indices() {
            let at = [i[[a, 0]], j[[0, b]], k[[a, b]]].map(|at| at as usize);
            assert_eq!(all[[a, b]], x[at], "{kind}");
            (0..size[2]).for_each(|c| assert_eq!(pairs[[a, b, c]], x[[at[0], at[1], c]], "{kind}"));
            (0..size[1]).for_each(|c| assert_eq!(first[[a, 0, c, 0]], x[[at[0], c, 0]], "{kind}"));
        }
        // Sums of colliding elements, and the last of assigned ones, against a loop.
        let places = Tensor::from_fn([40], |_| random.below(2) as i64, &Cpu)?;
        let others = Tensor::from_fn([40], |_| random.below(size[1].min(2)) as i64, &Cpu)?;
        let places = places.minimum(size[0] as i64 - 1)?;
        let values = Tensor::from_fn([40, size[2]], |_| random.below(100) as i32, &Cpu)?;
        let mut memory = x.copy()?;
        let (mut sums, mut set) = (memory.to_vec()?, memory.to_vec()?);
        for p in 0..40 {
            for c in 0..size[2] {
                let at = (places[[p]] as usize * size[1] + others[[p]] as usize) * size[2] + c;
                sums[at] += values[[p, c]];
                set[at] = values[[p, c]];
            }
        }
        let mut again = memory.copy()?;
        memory.index_put(ops::Add, (&places, &others), &values)?;
        again.index_put(ops::Replace, (&places, &others), &values)?;
        assert_eq!((memory.to_vec()?, again.to_vec()?), (sums, set), "{kind}");
    }
    // Axes that do not follow each other in memory, written through a view; values that stretch.
    let mut x = Tensor::<i32, 3>::zeros([3, 4, 5], &Cpu)?;
    let view = x.view_mut()?.permuted([2, 0, 1])?;
    { view }.index_put(
        ops::Replace,
        (&Tensor::from([1, 4]), &Tensor::from([0, 2])),
        &Tensor::from([[7], [9]]),
    )?;
    assert_eq!(
        (x.sum(All)?.item()?, x.slice((0, .., 1))?.to_vec()?, x.slice((2, .., 4))?.to_vec()?),
        (64, vec![7; 4], vec![9; 4])
    );
    Ok(())
}

#[test]
fn several_indices_that_are_wrong_are_refused_and_write_nothing() -> Result<()> {
    let mut x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let (i, j) = (Tensor::from([0, 1]), Tensor::from([0, -1]));
    let error = x.index((&i, &j)).unwrap_err();
    assert_eq!(error.to_string(), "index: index -1 is outside axis 1 of size 3, of sizes [2, 3]");
    let error = x.index_put(ops::Add, (&Tensor::from([0, 2]), &i), &Tensor::from([1, 1])).unwrap_err();
    assert_eq!(error.to_string(), "index_put: index 2 is outside axis 0 of size 2, of sizes [2, 3]");
    // A GPU leaves out one element only.
    let kept = if cfg!(rankform_through_cuda) { [2, 2, 3, 4, 5, 6] } else { [1, 2, 3, 4, 5, 6] };
    assert_eq!(x.to_vec()?, kept);
    assert!(matches!(x.index((&i, &Tensor::from([0, 1, 2]))), Err(Error::Sizes { op: "index", .. })));
    let error = x.index_put(ops::Add, (&i, &i), &Tensor::from([1, 1, 1])).unwrap_err();
    assert!(matches!(error, Error::Sizes { op: "index_put", .. }), "{error}");
    let one = Tensor::from([0]);
    assert!(matches!(
        x.index_put(ops::Add, (&one, &one), &Tensor::from([1, 1])),
        Err(Error::Output { op: "index_put", .. })
    ));
    let none = Tensor::from_slice(&[0_i64; 0], [0], &Cpu)?;
    assert_eq!((x.index((&none, &none))?.numel(), x.index((&none,))?.size()), (0, dim![0, 3]));
    let empty = Tensor::<i32, 2>::zeros([0, 3], &Cpu)?;
    assert!(matches!(empty.index((&one, &one)), Err(Error::Index { op: "index", axis: Some(0), .. })));
    assert_eq!(empty.index((&none, &none))?.numel(), 0);
    // Of no axis.
    let at = Tensor::from(1_i64);
    assert_eq!(x.index((&at, &at))?.item()?, 5);
    let mut out = Tensor::from([0; 3]);
    assert!(matches!(x.index_into((&i, &i), &mut out), Err(Error::Output { op: "index_into", .. })));
    let meta = Tensor::<f32, 3, _>::zeros([2, 3, 4], &Meta::new())?;
    let index = Tensor::<i64, 1, _>::zeros([7], meta.device())?;
    assert_eq!(meta.index((&index, &index))?.size(), [7, 4]);
    Ok(())
}

#[test]
fn positions_are_repeated_as_often_as_their_counts_say() -> Result<()> {
    let mut next = 0;
    for Arranged { kind, tensor } in arranged([3, 4, 2], || counted(&mut next)) {
        for axis in 0..3 {
            let n = tensor.size()[axis];
            let counts: Vec<usize> = (0..n).map(|i| [2, 0, 3, 1][i]).collect();
            let places: Vec<usize> = (0..n).flat_map(|i| std::iter::repeat_n(i, counts[i])).collect();
            let given = Tensor::from_iter(counts.iter().map(|&count| count as i64))?;
            let found = tensor.repeat_each_axis(axis, &given)?;
            let mut size = tensor.size().0;
            size[axis] = places.len();
            let wanted = Tensor::from_fn(
                size,
                |at| tensor[std::array::from_fn(|a| if a == axis { places[at[a]] } else { at[a] })],
                &Cpu,
            )?;
            assert_eq!(found, wanted, "{kind}, axis {axis}");
        }
    }
    let x = Tensor::from([1, 2]);
    assert_eq!(x.repeat_each(Axis::<0>, &Tensor::from([0_i64, 0]))?.numel(), 0);
    assert_eq!(
        x.repeat_each(Axis::<0>, &Tensor::from([1, -2])).unwrap_err().to_string(),
        "repeat_each: a count of -2"
    );
    let error = x.repeat_each(Axis::<0>, &Tensor::from([1])).unwrap_err();
    assert_eq!(error.to_string(), "repeat_each: 1 counts for axis 0 of sizes [2]");
    let none = Tensor::<f32, 2>::zeros([0, 3], &Cpu)?;
    assert_eq!(none.repeat_each(Axis::<0>, &Tensor::from_slice(&[0_i64; 0], [0], &Cpu)?)?.size(), [0, 3]);
    assert_eq!(
        x.split_equal::<0, 3>(Axis::<0>).unwrap_err().to_string(),
        "split_equal: 3 equal parts do not make up axis 0 of sizes [2]"
    );
    Ok(())
}

#[test]
fn diagonals_of_stacks_of_matrices_hold_the_lines() -> Result<()> {
    let mut next = 1;
    for Arranged { kind, tensor } in arranged([2, 3, 4], || counted(&mut next)) {
        for diagonal in [-2_isize, 0, 1] {
            let y = tensor.diag_embed(diagonal)?;
            let [a, b, n] = tensor.size().0;
            assert_eq!(y.size(), [a, b, n + diagonal.unsigned_abs(), n + diagonal.unsigned_abs()]);
            for [i, j, r, c] in y.size().indices() {
                let on = c as isize - r as isize == diagonal;
                assert_eq!(
                    y[[i, j, r, c]],
                    if on { tensor[[i, j, r.min(c)]] } else { 0 },
                    "{kind} {diagonal}"
                );
            }
        }
    }
    assert_eq!(Tensor::from([true, false]).diag_embed(1)?, Tensor::from([true, false]).diag(1)?);
    assert_eq!(Tensor::<f32, 2>::zeros([3, 0], &Cpu)?.diag_embed(0)?.size(), [3, 0, 0]);
    assert!(matches!(Tensor::from([1]).diag_embed(isize::MIN), Err(Error::Overflow { .. })));
    Ok(())
}

#[test]
fn several_shares_are_the_quantiles_of_each() -> Result<()> {
    let mut random = Random(10);
    let samples = f32::samples();
    for Arranged { kind, tensor } in arranged([3, 5, 4], || samples[random.below(samples.len())]) {
        for axis in 0..3 {
            for between in [
                QuantileMethod::Linear,
                QuantileMethod::Lower,
                QuantileMethod::Higher,
                QuantileMethod::Nearest,
                QuantileMethod::Midpoint,
            ] {
                let shares = [0.0, 0.3, 0.5, 1.0];
                let all = tensor.quantiles_axis(&shares, axis, between)?;
                for (k, &share) in shares.iter().enumerate() {
                    let one: Tensor<f32, 2> = tensor.quantile_axis(share, axis, between)?;
                    assert_eq!(
                        differ(&all.slice((k, .., ..))?.to_vec()?, &one.to_vec()?),
                        None,
                        "{kind}, axis {axis}, {between:?}"
                    );
                }
            }
        }
    }
    let x = Tensor::from([[1.0, 2.0]]);
    assert!(matches!(
        x.quantiles(&[0.5, 1.5], Axis::<1>, QuantileMethod::Linear),
        Err(Error::Value { op: "quantiles", .. })
    ));
    assert_eq!(x.quantiles(&[], Axis::<1>, QuantileMethod::Linear)?.size(), [0, 1]);
    let none = Tensor::<f32, 2>::zeros([2, 0], &Cpu)?;
    assert!(matches!(none.quantiles(&[0.5], Axis::<1>, QuantileMethod::Linear), Err(Error::Empty { .. })));
    assert_eq!(none.quantiles(&[0.5], Axis::<0>, QuantileMethod::Linear)?.size(), [1, 0]);
    Ok(())
}

#[test]
fn medians_are_the_lower_middle_element_and_a_nan_where_there_is_one() -> Result<()> {
    fn check<T: Value + Comparable>(samples: Vec<T>) -> Result<()> {
        let mut random = Random(11);
        for size in [[3, 5, 4], [1, 1, 2], [2, 101, 1]] {
            for Arranged { kind, tensor } in arranged(size, || samples[random.below(samples.len())]) {
                for axis in 0..3 {
                    let (values, places): (Tensor<T, 2>, Tensor<i64, 2>) = tensor.median_axis(axis)?;
                    let n = tensor.size()[axis];
                    for at in values.size().indices() {
                        let line = |i| {
                            tensor[std::array::from_fn::<_, 3, _>(|a| {
                                if a == axis { i } else { at[a - usize::from(a > axis)] }
                            })]
                        };
                        let mut order_of: Vec<usize> = (0..n).collect();
                        order_of.sort_by(|&i, &j| order(&line(i), &line(j)));
                        let nan = (0..n).find(|&i| line(i).partial_cmp(&line(i)).is_none());
                        let wanted = nan.unwrap_or(order_of[(n - 1) / 2]);
                        assert_eq!(places[at], wanted as i64, "{} {kind} {size:?} axis {axis}", T::DTYPE);
                        assert_eq!(differ(&[values[at]], &[line(wanted)]), None);
                    }
                }
            }
        }
        Ok(())
    }
    check::<i16>(i16::samples())?;
    check::<f32>(f32::samples())?;
    check::<f64>(vec![1.0, -2.0, 0.0, -0.0, 5.5])?;
    assert!(matches!(Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.median(Axis::<1>), Err(Error::Empty { .. })));
    assert_eq!(Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.median(Axis::<0>)?.0.numel(), 0);
    Ok(())
}

#[test]
fn histograms_find_their_ends_weigh_and_have_several_dimensions() -> Result<()> {
    let mut random = Random(12);
    let points = Tensor::from_fn([500, 2], |_| random.unit() * 3.0, &Cpu)?;
    let weights = Tensor::from_fn([500], |_| random.unit() + 1.0, &Cpu)?;
    let range = [(-2.0, 1.0), (-1.0, 2.5)];
    for weigh in [false, true] {
        let plan = Bins::new([4, 3]).range(range);
        let plan = if weigh { plan.weights(weights.view()) } else { plan };
        let found = points.histogramdd(plan)?;
        let mut wanted = [[0.0; 3]; 4];
        let mut total = 0.0;
        for i in 0..500 {
            let part = |k: usize, bins: usize| {
                let (low, high) = range[k];
                let x = points[[i, k]];
                (low..=high)
                    .contains(&x)
                    .then(|| (((x - low) / (high - low) * bins as f64) as usize).min(bins - 1))
            };
            if let (Some(a), Some(b)) = (part(0, 4), part(1, 3)) {
                wanted[a][b] += if weigh { weights[[i]] } else { 1.0 };
                total += if weigh { weights[[i]] } else { 1.0 };
            }
        }
        assert!(found.values.allclose(&Tensor::from(wanted), 1e-12, 0.0, false)?);
        assert_eq!(found.edges[1].to_vec()?.len(), 4);
        let density = points.histogramdd(plan.density())?.values;
        let volume = (3.0 / 4.0) * (3.5 / 3.0);
        assert!(density.allclose(&Tensor::from(wanted).div(total * volume)?, 1e-12, 0.0, false)?);
    }
    let x = Tensor::from([[3, 5], [9, 3]]);
    let found = x.transposed().histogram_with(Bins::new([3]))?;
    assert_eq!(
        (found.values.to_vec()?, found.edges[0].to_vec()?),
        (vec![2.0, 1.0, 1.0], vec![3.0, 5.0, 7.0, 9.0])
    );
    let same = Tensor::from([2.0, 2.0]).histogram_with(Bins::new([2]))?;
    assert_eq!((same.values.to_vec()?, same.edges[0].to_vec()?), (vec![0.0, 2.0], vec![1.5, 2.0, 2.5]));
    let none = Tensor::<f32, 1>::zeros([0], &Cpu)?.histogram_with(Bins::new([2]))?;
    assert_eq!((none.values.to_vec()?, none.edges[0].to_vec()?), (vec![0.0; 2], vec![0.0, 0.5, 1.0]));
    for (x, plan) in [
        (Tensor::from([1.0, f64::NAN]), Bins::new([2])),
        (Tensor::from([1.0, f64::INFINITY]), Bins::new([2])),
        (Tensor::from([1.0, 2.0]), Bins::new([0])),
        (Tensor::from([1.0, 2.0]), Bins::new([2]).range([(1.0, 1.0)])),
        (Tensor::from([1.0, 2.0]), Bins::new([2]).weights(weights.view())),
        (Tensor::from([1.0, 2.0]), Bins::new([usize::MAX / 2])),
    ] {
        assert!(x.histogram_with(plan).is_err(), "{x:?}");
    }
    assert!(matches!(points.histogramdd(Bins::new([2; 3])), Err(Error::Value { op: "histogramdd", .. })));
    // With given ends, values outside and NaN are not counted.
    let x = Tensor::from([f64::NAN, -1.0, 0.0, 0.5, 1.0, 2.0]);
    assert_eq!(x.histogram_with(Bins::new([2]).range([(0.0, 1.0)]))?.values.to_vec()?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn integers_and_complex_numbers_are_equally_spaced() -> Result<()> {
    for (start, end) in
        [(0_i64, 10), (-5, 5), (7, -8), (i64::MIN, i64::MAX), (3, 3), (i64::MAX - 3, i64::MAX)]
    {
        for n in [0_usize, 1, 2, 3, 4, 7, 50] {
            let found = Tensor::<i64, 1>::linspace(start, end, n, &Cpu)?.to_vec()?;
            let spaces = n.saturating_sub(1).max(1) as i128;
            let wanted: Vec<i64> = (0..n as i128)
                .map(|i| ((start as i128 * (spaces - i) + end as i128 * i) / spaces) as i64)
                .collect();
            assert_eq!(found, wanted, "{start} to {end}, {n}");
        }
    }
    assert_eq!(Tensor::<u8, 1>::linspace(255, 0, 4, &Cpu)?.to_vec()?, [255, 170, 85, 0]);
    let complex = |re: f32, im: f32| Complex::new(re, im);
    let line = Tensor::linspace(complex(0.0, 4.0), complex(2.0, 0.0), 3, &Cpu)?;
    assert_eq!(line.to_vec()?, [complex(0.0, 4.0), complex(1.0, 2.0), complex(2.0, 0.0)]);
    assert!(Tensor::linspace(complex(0.0, f32::NAN), complex(2.0, 0.0), 3, &Cpu).is_err());
    assert_eq!(Tensor::<i32, 1>::logspace(0.0, 4.0, 5, 10.0, &Cpu)?.to_vec()?, [1, 10, 100, 1000, 10_000]);
    assert_eq!(Tensor::<u8, 1>::logspace(-1.0, 9.0, 3, 2.0, &Cpu)?.to_vec()?, [0, 16, 255]);
    Ok(())
}

#[test]
fn random_numbers_orders_and_events_depend_on_the_seed_alone() -> Result<()> {
    // Of a few numbers each is as probable: χ² of 5 degrees of freedom, beyond 30 once in 10⁵ seeds.
    let n = 60_000;
    let dice = Tensor::<i8, 1>::random_integers([n], -3..3, 1, &Cpu)?;
    let counts = dice.cast::<i64>()?.add(3)?.bincount(6)?.to_vec()?;
    let chi: f64 = counts.iter().map(|&count| (count as f64 - 1e4).powi(2) / 1e4).sum();
    assert!(chi < 30.0, "{counts:?}");
    // The ends of the widest ranges.
    let wide = Tensor::<i64, 1>::random_integers([4096], i64::MIN..i64::MAX, 2, &Cpu)?;
    assert!(wide.less(0)?.count(All)?.item()?.abs_diff(2048) < 200);
    assert_eq!(
        Tensor::<u64, 1>::random_integers([5], u64::MAX - 1..u64::MAX, 2, &Cpu)?.to_vec()?,
        [u64::MAX - 1; 5]
    );
    let error = Tensor::<u32, 1>::random_integers([5], 4..4, 2, &Cpu).unwrap_err();
    assert_eq!(error.to_string(), "random_integers: 4..4 holds no number");
    // The first of more are those of fewer; another seed gives others.
    let (few, many) = (
        Tensor::<u32, 1>::random_integers([100], 0..1000, 9, &Cpu)?,
        Tensor::<u32, 1>::random_integers([9000], 0..1000, 9, &Cpu)?,
    );
    assert_eq!(few, many.slice((..100,))?);
    assert_ne!(few, Tensor::<u32, 1>::random_integers([100], 0..1000, 10, &Cpu)?);

    for n in [0, 1, 2, 1000, 10_000] {
        let order = Tensor::random_permutation(n, 3, &Cpu)?;
        assert_eq!(order.sort(Axis::<0>)?, Tensor::arange(0, n as i64, 1, &Cpu)?);
    }
    // Every order of three is as probable.
    let mut seen = std::collections::HashMap::new();
    for seed in 0..3000 {
        *seen.entry(Tensor::random_permutation(3, seed, &Cpu)?.to_vec()?).or_insert(0.0) += 1.0;
    }
    let chi: f64 = seen.values().map(|count: &f64| (count - 500.0).powi(2) / 500.0).sum();
    assert!(seen.len() == 6 && chi < 30.0, "{seen:?}");
    let x = Tensor::from([[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]]);
    let y = x.shuffle(Axis::<1>, 4)?;
    assert_eq!(y.slice((0, ..))?.mul(10)?, y.slice((1, ..))?);
    assert_eq!(y.sort(Axis::<1>)?, x);
    assert_eq!(x.transposed().shuffle(Axis::<0>, 4)?, y.transposed());

    for (p, expected) in [(0.0, 0.0), (1.0, 1.0), (0.25, 0.25)] {
        let kept =
            Tensor::<bool, 1>::random_bernoulli([40_000], p, 5, &Cpu)?.count(All)?.item()? as f64 / 40_000.0;
        assert!((kept - expected).abs() < 0.012, "{p}: {kept}");
    }
    assert!(Tensor::<bool, 1>::random_bernoulli([4], 1.5, 5, &Cpu).is_err());
    assert!(Tensor::<bool, 1>::random_bernoulli([4], f64::NAN, 5, &Cpu).is_err());
    Ok(())
}

#[test]
fn elements_put_by_index_into_a_tensor_of_none_end() -> Result<()> {
    let (none, one) = (Tensor::<i64, 1>::zeros([0], &Cpu)?, Tensor::from([0_i64]));
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut x = Tensor::<f32, 3>::zeros([3, 0, 2], &Cpu)?;
        let mut x = x.view_mut()?.permuted(order)?;
        let size = x.size();
        x.index_put(ops::Replace, (&none, &none), &Tensor::zeros([0, size[2]], &Cpu)?)?;
        assert_eq!(x.as_view().index((&none, &none))?.size(), [0, size[2]]);
        if size[0] * size[1] == 0 {
            let error = x.index_put(ops::Add, (&one, &one), &Tensor::zeros([1, size[2]], &Cpu)?).unwrap_err();
            assert!(matches!(error, Error::Index { op: "index_put", .. }), "{error}");
        }
    }
    Ok(())
}

#[test]
fn counts_with_a_sum_that_wraps_repeat_nothing() -> Result<()> {
    let x = Tensor::from([1, 2, 3]);
    for counts in
        [[i64::MAX, i64::MAX, 2], [1 << 62, 1 << 62, 0], [i64::MAX, i64::MAX, i64::MAX], [i64::MAX, 0, 0]]
    {
        let error = x.repeat_each(Axis::<0>, &Tensor::from(counts)).unwrap_err();
        assert!(
            error.to_string().starts_with("repeat_each: ") && !matches!(error, Error::Index { .. }),
            "{counts:?}: {error}"
        );
    }
    Ok(())
}

#[test]
fn counts_of_a_histogram_are_those_between_its_edges() -> Result<()> {
    // NumPy 2: np.histogram([0.3, 0.6, 0.7, 0.1, 0.2, 0.9, 1.0, 0.0], 10, (0, 1))
    let x = Tensor::from([0.3, 0.6, 0.7, 0.1, 0.2, 0.9, 1.0, 0.0]);
    let found = x.histogram_with(Bins::new([10]).range([(0.0, 1.0)]))?;
    assert_eq!(found.values.to_vec()?, [1.0, 1.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0]);
    for bins in 1..200 {
        for (low, high) in [(0.0, 1.0), (-0.7, 0.3), (1e-9, 2e-9), (-1e300, 1e300), (1.0, 1.0 + 1e-13)] {
            let edges = Tensor::<f64, 1>::linspace(low, high, bins + 1, &Cpu)?.to_vec()?;
            // Every edge, and its neighbors.
            let points: Vec<f64> =
                edges.iter().flat_map(|&edge| [edge.next_down(), edge, edge.next_up()]).collect();
            let x = Tensor::from_slice(&points, [points.len()], &Cpu)?;
            let found = x.histogram_with(Bins::new([bins]).range([(low, high)]))?;
            let inside = |k: usize, x: f64| x >= edges[k] && (x < edges[k + 1] || k + 1 == bins && x == high);
            let wanted: Vec<f64> =
                (0..bins).map(|k| points.iter().filter(|&&x| inside(k, x)).count() as f64).collect();
            assert_eq!(found.values.to_vec()?, wanted, "{bins} bins from {low} to {high}");
        }
    }
    Ok(())
}

#[test]
fn errors_of_sizes_name_the_operation_that_was_called() {
    let x = Tensor::from([0.5]);
    let text = |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
    assert!(text(x.histogram(usize::MAX, 0.0, 1.0).err()).starts_with("histogram: "));
    assert!(
        text(x.histogram_with(Bins::new([isize::MAX as usize / 8]).range([(0.0, 1.0)])).err())
            .starts_with("histogram_with: ")
    );
    assert!(text(Tensor::<f32, 1>::logspace(0.0, f64::NAN, 2, 10.0, &Cpu).err()).starts_with("logspace: "));
    assert!(text(Tensor::<i32, 1>::logspace(0.0, f64::NAN, 2, 10.0, &Cpu).err()).starts_with("logspace: "));
}
