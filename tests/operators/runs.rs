//! Runs of equal neighbors, the most frequent elements, reductions by index, members of sets, quantiles,
//! values by mask, combinations of lines; and orders of elements of a user's own.

use crate::arrange::{SIZE, arranged, read};
use crate::value::{Random, Value, differ};
use rankform::f16;
use rankform::ops::{QuantileMethod, ScatterReduction};
use rankform::prelude::*;
use std::collections::BTreeMap;

fn neighbors<T: Value>() -> Result<()> {
    let mut random = Random(91);
    let few = T::samples();
    for size in [SIZE, [0, 3, 2], [1, 1, 1], [3, 1, 40]] {
        for x in arranged(size, || few[random.below(2)]) {
            let all = read(&x.tensor, x.tensor.size().0);
            let runs = x.tensor.unique_consecutive()?;
            let (mut starts, mut group) = (vec![], vec![]);
            for (k, value) in all.iter().enumerate() {
                if k == 0 || all[k - 1] != *value {
                    starts.push(k as i64);
                }
                group.push(starts.len() as i64 - 1);
            }
            let values: Vec<T> = starts.iter().map(|&k| all[k as usize]).collect();
            assert_eq!(differ(&runs.values.to_vec()?, &values), None, "{} {}", T::DTYPE, x.kind);
            assert_eq!(
                (runs.positions.to_vec()?, runs.inverse.to_vec()?),
                (starts.clone(), group),
                "{} {}",
                T::DTYPE,
                x.kind
            );
            let ends = starts[starts.len().min(1)..].iter().copied().chain([all.len() as i64]);
            assert_eq!(
                runs.counts.to_vec()?,
                ends.zip(&starts).map(|(end, start)| end - start).collect::<Vec<_>>()
            );
            assert_eq!(runs.inverse.size(), x.tensor.size());
        }
    }
    Ok(())
}

#[test]
fn runs_are_those_of_one_loop() -> Result<()> {
    neighbors::<f32>()?;
    neighbors::<bool>()?;
    neighbors::<u8>()?;
    neighbors::<num_complex::Complex<f64>>()?;
    let x = Tensor::from([f64::NAN, f64::NAN, 0.0, -0.0]);
    assert_eq!(x.unique_consecutive()?.counts.to_vec()?, [1, 1, 2]);
    Ok(())
}

#[test]
fn parts_along_an_axis_are_one_where_all_their_elements_are_equal() -> Result<()> {
    let mut random = Random(93);
    for x in arranged([6, 2, 3], || random.chance(9) as i32) {
        for axis in 0..3 {
            let x = &x.tensor;
            let n = x.size()[axis];
            let part = |k: usize| {
                read(
                    &x.view().slice_axis(axis, k..k + 1, 1).unwrap().copy().unwrap(),
                    std::array::from_fn(|a| if a == axis { 1 } else { x.size()[a] }),
                )
            };
            let parts = x.unique_consecutive_axis(axis)?;
            let starts: Vec<i64> =
                (0..n).filter(|&k| k == 0 || part(k) != part(k - 1)).map(|k| k as i64).collect();
            assert_eq!(parts.positions.to_vec()?, starts);
            assert_eq!(parts.values, x.index_select_axis(axis, &parts.positions)?);
            assert_eq!((parts.counts.sum(All)?.item()?, parts.inverse.numel()), (n as i64, n));
            assert_eq!(*x, parts.values.index_select_axis(axis, &parts.inverse)?);
        }
    }
    // Parts without elements are equal; an axis without parts has no runs.
    let none = Tensor::<f32, 2>::zeros([3, 0], &Cpu)?;
    assert_eq!(none.unique_consecutive_slices(Axis::<0>)?.counts.to_vec()?, [3]);
    assert_eq!(none.unique_consecutive_slices(Axis::<1>)?.values.size(), [3, 0]);
    assert!(matches!(none.unique_consecutive_axis(2), Err(Error::Axis { .. })));
    Ok(())
}

#[test]
fn the_mode_is_the_most_frequent_and_of_several_the_smallest() -> Result<()> {
    let mut random = Random(97);
    for x in arranged([4, 9, 5], || random.below(4) as i16 - 2) {
        let x = &x.tensor;
        for axis in 0..3 {
            let (values, places): (Tensor<i16, 2>, Tensor<i64, 2>) = x.mode_axis(axis)?;
            let rows = x.size().indices().filter(|index| index[axis] == 0);
            for ((index, value), place) in rows.zip(values.iter()).zip(places.iter()) {
                let at = |k: usize| x[std::array::from_fn(|a| if a == axis { k } else { index[a] })];
                let mut counts = BTreeMap::new();
                (0..x.size()[axis]).for_each(|k| *counts.entry(at(k)).or_insert(0) += 1);
                let most = counts.values().max().unwrap();
                let expected = counts.iter().find(|(_, count)| *count == most).unwrap().0;
                assert_eq!((value, at(*place as usize)), (expected, *expected));
                assert!(
                    (*place as usize + 1..x.size()[axis]).all(|k| at(k) != *expected),
                    "the last of them"
                );
            }
        }
    }
    assert!(matches!(Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.mode(Axis::<1>), Err(Error::Empty { .. })));
    assert_eq!(Tensor::<f32, 2>::zeros([0, 2], &Cpu)?.mode(Axis::<1>)?.0.size(), [0]);
    let (values, _) = Tensor::<f32, 2, _>::zeros([4, 5], &Meta::new())?.mode(Axis::<0>)?;
    assert_eq!(values.size(), [5]);
    Ok(())
}

/// The reduction of a cell's elements, by the definition, in integers.
fn meeting(meeting: ScatterReduction, all: &[i128]) -> i128 {
    match meeting {
        ScatterReduction::Sum => all.iter().sum(),
        ScatterReduction::Prod => all.iter().product(),
        ScatterReduction::Mean => all.iter().sum::<i128>().div_euclid(all.len() as i128),
        ScatterReduction::Max => *all.iter().max().unwrap(),
        ScatterReduction::Min => *all.iter().min().unwrap(),
    }
}

fn reductions<T: Value + Comparable>(of: fn(i128) -> T) -> Result<()> {
    let mut random = Random(101);
    for kind in [
        ScatterReduction::Sum,
        ScatterReduction::Prod,
        ScatterReduction::Mean,
        ScatterReduction::Max,
        ScatterReduction::Min,
    ] {
        for include_self in [false, true] {
            for axis in 0..3 {
                let mut size = SIZE;
                size[axis] = 8;
                let start = Tensor::from_fn(SIZE, |_| of(random.below(3) as i128 + 1), &Cpu)?;
                let index = Tensor::from_fn(size, |_| random.below(SIZE[axis]) as i64, &Cpu)?;
                for values in arranged(size, || of(random.below(4) as i128)) {
                    let mut cells = start.copy()?;
                    cells.scatter_reduce_axis(kind, axis, &index, &values.tensor, include_self)?;
                    let whole = |x: T| x.to_string().parse::<f64>().unwrap() as i128;
                    for at in Dim(SIZE).indices() {
                        let place = |k: usize| std::array::from_fn(|a| if a == axis { k } else { at[a] });
                        let of_value = |p: [usize; 3]| {
                            std::array::from_fn(|a| if values.tensor.size()[a] == 1 { 0 } else { p[a] })
                        };
                        let mut met: Vec<i128> = (0..8)
                            .filter(|&k| index[place(k)] == at[axis] as i64)
                            .map(|k| whole(values.tensor[of_value(place(k))]))
                            .collect();
                        if include_self && !met.is_empty() || met.is_empty() {
                            met.push(whole(start[at]));
                        }
                        let expected = of(meeting(kind, &met));
                        let is_mean_of_floats = kind == ScatterReduction::Mean && T::FRACTION > 0;
                        let mean = met.iter().sum::<i128>() as f64 / met.len() as f64;
                        let same = if is_mean_of_floats {
                            (cells[at].to_string().parse::<f64>().unwrap() - mean).abs()
                                <= mean.abs() * 2f64.powi(-T::FRACTION)
                        } else {
                            cells[at] == expected
                        };
                        assert!(
                            same,
                            "{kind:?} {} {} along {axis} at {at:?}: {} of {met:?}",
                            T::DTYPE,
                            values.kind,
                            cells[at]
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn reductions_by_index_are_those_of_all_values_that_come() -> Result<()> {
    reductions::<f64>(|x| x as f64)?;
    reductions::<f32>(|x| x as f32)?;
    reductions::<f16>(|x| f16::from_f64(x as f64))?;
    reductions::<i64>(|x| x as i64)?;
    reductions::<u64>(|x| x as u64)
}

#[test]
fn means_by_index_are_rounded_down_and_do_not_wrap() -> Result<()> {
    let mut x = Tensor::from([0_i8, 5]);
    x.index_reduce(
        ScatterReduction::Mean,
        Axis::<0>,
        &Tensor::from([0, 0, 0]),
        &Tensor::from([-100_i8, -100, -101]),
        false,
    )?;
    assert_eq!(x.to_vec()?, [-101, 5]);
    let mut x = Tensor::from([u64::MAX]);
    x.index_reduce(
        ScatterReduction::Mean,
        Axis::<0>,
        &Tensor::from([0]),
        &Tensor::from([u64::MAX - 2]),
        false,
    )?;
    assert_eq!(x.item()?, u64::MAX - 2);
    let mut x = Tensor::<f16, 1>::zeros([1], &Cpu)?;
    x.index_reduce(
        ScatterReduction::Mean,
        Axis::<0>,
        &Tensor::<i64, 1>::zeros([5000], &Cpu)?,
        &Tensor::full([5000], f16::from_f64(40.0), &Cpu)?,
        false,
    )?;
    assert_eq!(x.item()?, f16::from_f64(40.0)); // their sum is beyond f16
    // Nothing is written where an index is wrong.
    let mut x = Tensor::from([1.0, 2.0]);
    for kind in [ScatterReduction::Max, ScatterReduction::Mean] {
        assert!(matches!(
            x.index_reduce(kind, Axis::<0>, &Tensor::from([0, 2]), &Tensor::from([9.0, 9.0]), false),
            Err(Error::Index { .. })
        ));
        // A GPU leaves out one element only.
        assert!(x.to_vec()? == [1.0, 2.0] || cfg!(rankform_through_cuda));
    }
    // Nor where sizes are, nor where values stretch to none.
    let mut x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let (none, row) = (Tensor::<f64, 2>::zeros([0, 2], &Cpu)?, Tensor::from([[0_i64, 0]]));
    for kind in [ScatterReduction::Sum, ScatterReduction::Mean, ScatterReduction::Max] {
        let wrong = Tensor::<f64, 2>::zeros([1, 3], &Cpu)?;
        let error = x.scatter_reduce(kind, Axis::<0>, &row, &wrong, false).unwrap_err();
        assert!(matches!(error, Error::Sizes { .. }), "{error}");
        x.scatter_reduce(kind, Axis::<0>, &row, &none, false)?;
        assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0, 4.0], "{kind:?}");
    }
    let mut x = Tensor::<f32, 2, _>::zeros([4, 5], &Meta::new())?;
    let index = Tensor::<i64, 1, _>::zeros([3], &Meta::new())?;
    let values = Tensor::<f32, 2, _>::zeros([3, 5], &Meta::new())?;
    x.index_reduce(ScatterReduction::Mean, Axis::<0>, &index, &values, true)
}

#[test]
fn combinations_come_in_the_order_of_the_line_and_are_as_many_as_there_are() -> Result<()> {
    for n in 0..7_usize {
        let line = Tensor::from_fn([2 * n], |[i]| i as u8, &Cpu)?.into_slice(((..).step(-2),))?;
        let all: Vec<u8> = line.to_vec()?;
        for r in 0..5 {
            for repeat in [false, true] {
                let mut expected: Vec<Vec<usize>> = vec![vec![]];
                for _ in 0..r {
                    let next = |row: &Vec<usize>| row.last().map_or(0, |last| last + usize::from(!repeat));
                    expected = expected
                        .iter()
                        .flat_map(|row| (next(row)..n).map(|k| [&row[..], &[k]].concat()))
                        .collect();
                }
                let found = line.combinations(r, repeat)?;
                assert_eq!(found.size(), [expected.len(), r], "{r} of {n}");
                assert_eq!(
                    found.to_vec()?,
                    expected.concat().into_iter().map(|k| all[k]).collect::<Vec<_>>(),
                    "{r} of {n}"
                );
            }
        }
    }
    let many = Tensor::<u8, 1>::zeros([400], &Cpu)?.combinations(200, false).unwrap_err().to_string();
    assert_eq!(many, "combinations: more combinations of 200 of 400 elements than can be counted");
    Ok(())
}

#[test]
fn products_of_lines_blocks_and_triangles_are_those_of_loops() -> Result<()> {
    let (x, y, z) = (Tensor::from([1, 2]), Tensor::from([3, 4, 5]), Tensor::from([6]));
    let all = Tensor::cartesian_prod([x.view(), y.reversed(Axis::<0>), z.view()])?;
    assert_eq!(all.to_vec()?, [1, 5, 6, 1, 4, 6, 1, 3, 6, 2, 5, 6, 2, 4, 6, 2, 3, 6]);
    assert_eq!(
        Tensor::cartesian_prod([x.view(), Tensor::<i32, 1>::zeros([0], &Cpu)?.view()])?.size(),
        [0, 2]
    );
    assert_eq!(
        Tensor::<i32, 2>::cartesian_prod([]).unwrap_err().to_string(),
        "cartesian_prod: there are no lines"
    );

    let wide = Tensor::from([[1, 2], [3, 4]]);
    let none = Tensor::<i32, 2>::zeros([0, 2], &Cpu)?;
    let blocks = Tensor::block_diag([wide.transposed(), none.view(), Tensor::from([[5]]).view()])?;
    assert_eq!(blocks, Tensor::from([[1, 3, 0, 0, 0], [2, 4, 0, 0, 0], [0, 0, 0, 0, 5]]));
    assert_eq!(
        Tensor::block_diag([] as [&Tensor<i32, 2>; 0]).unwrap_err().to_string(),
        "block_diag: there are no parts"
    );

    for (rows, columns) in [(0, 3), (3, 0), (4, 3), (2, 5)] {
        for diagonal in -4..=5 {
            let cells = || Dim([rows, columns]).indices().map(|at| at.map(|k| k as i64));
            let below: Vec<_> = cells().filter(|[i, j]| j - i <= diagonal).collect();
            let above: Vec<_> = cells().filter(|[i, j]| j - i >= diagonal).collect();
            let lines = |cells: &[[i64; 2]]| {
                (0..2).flat_map(|k| cells.iter().map(move |cell| cell[k])).collect::<Vec<_>>()
            };
            assert_eq!(Tensor::tril_indices(rows, columns, diagonal, &Cpu)?.to_vec()?, lines(&below));
            assert_eq!(Tensor::triu_indices(rows, columns, diagonal, &Cpu)?.to_vec()?, lines(&above));
        }
    }
    let powers = Tensor::<f32, 1>::logspace(-2.0, 3.0, 6, 2.0, &Cpu)?;
    assert_eq!(powers.to_vec()?, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]);
    assert_eq!(Tensor::<f64, 1>::logspace(1.0, 2.0, 0, 10.0, &Cpu)?.numel(), 0);
    Ok(())
}

#[test]
fn elements_are_members_where_one_of_a_set_equals_them() -> Result<()> {
    let mut random = Random(107);
    for x in arranged(SIZE, || random.below(30) as f32) {
        for n in [0, 1, 2, 9] {
            let set =
                Tensor::from_fn([2 * n], |[i]| (7 * i % 31) as f32, &Cpu)?.into_slice(((..).step(-2),))?;
            let members = set.to_vec()?;
            let found = x.tensor.isin(&set)?;
            let expected: Vec<bool> =
                read(&x.tensor, x.tensor.size().0).iter().map(|x| members.contains(x)).collect();
            assert_eq!((found.size(), found.to_vec()?), (x.tensor.size(), expected), "{} of {n}", x.kind);
        }
    }
    let x = Tensor::from([f64::NAN, -0.0, f64::INFINITY]);
    assert_eq!(
        x.isin(&Tensor::from([[f64::NAN, f64::INFINITY], [0.0, 1.0]]))?.to_vec()?,
        [false, true, true]
    );
    Ok(())
}

#[test]
fn quantiles_lie_between_neighbors_of_the_order() -> Result<()> {
    let mut random = Random(109);
    for x in arranged([3, 8, 5], || random.unit() * 9.0) {
        let x = &x.tensor;
        for (q, axis) in [(0.0, 0), (1.0, 1), (0.5, 1), (0.25, 2), (0.9, 1), (1.0 / 7.0, 1)] {
            let n = x.size()[axis];
            let place = q * (n - 1) as f64;
            let (low, part) = (place as usize, place.fract());
            for rule in [
                QuantileMethod::Linear,
                QuantileMethod::Lower,
                QuantileMethod::Higher,
                QuantileMethod::Nearest,
                QuantileMethod::Midpoint,
            ] {
                let found: Tensor<f64, 2> = x.quantile_axis(q, axis, rule)?;
                let rows = x.size().indices().filter(|index| index[axis] == 0);
                for (index, found) in rows.zip(found.iter()) {
                    let mut line: Vec<f64> = (0..n)
                        .map(|k| x[std::array::from_fn(|a| if a == axis { k } else { index[a] })])
                        .collect();
                    line.sort_by(f64::total_cmp);
                    let (a, b) = (line[low], line[place.ceil() as usize]);
                    let nearer = if part < 0.5 || part == 0.5 && low % 2 == 0 { a } else { b };
                    let truth = match rule {
                        QuantileMethod::Linear => a + (b - a) * part,
                        QuantileMethod::Lower => a,
                        QuantileMethod::Higher => b,
                        QuantileMethod::Nearest => nearer,
                        QuantileMethod::Midpoint => 0.5 * (a + b),
                    };
                    assert!(
                        (found - truth).abs() <= 1e-14 * truth.abs(),
                        "{rule:?} {q}: {found}, not {truth}"
                    );
                }
            }
        }
    }
    let infinity = f64::INFINITY;
    let x = Tensor::from([[infinity, 1.0, infinity], [f64::NAN, 1.0, 2.0]]);
    let found = x.quantile(0.75, Axis::<1>, QuantileMethod::Linear)?;
    assert!(found[[0]] == infinity && found[[1]].is_nan());
    assert_eq!(
        x.quantile(1.5, Axis::<1>, QuantileMethod::Linear).unwrap_err().to_string(),
        "quantile: a share of 1.5, not from 0 to 1"
    );
    assert!(matches!(
        Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.quantile(0.5, Axis::<1>, QuantileMethod::Linear),
        Err(Error::Empty { .. })
    ));
    assert_eq!(
        Tensor::<f32, 2>::zeros([0, 3], &Cpu)?.quantile(0.5, Axis::<1>, QuantileMethod::Linear)?.size(),
        [0]
    );
    Ok(())
}

#[test]
fn values_fill_the_places_of_a_mask_in_order() -> Result<()> {
    let mut random = Random(113);
    for mask in arranged(SIZE, || random.chance(3)) {
        let start = Tensor::from_fn([7, 5, 6], |[i, j, k]| -((i * 30 + j * 6 + k) as i32), &Cpu)?
            .into_permuted([1, 2, 0])?;
        let values = Tensor::from_fn([420], |[i]| i as i32, &Cpu)?.into_slice(((..).step(-2),))?;
        let mut x = start.copy()?;
        x.masked_scatter(&mask.tensor, &values)?;
        let (mut next, holds) = (0, read(&mask.tensor, SIZE));
        for (at, holds) in Dim(SIZE).indices().zip(holds) {
            let expected = if holds { values[[next]] } else { start[at] };
            next += usize::from(holds);
            assert_eq!(x[at], expected, "{} at {at:?}", mask.kind);
        }
    }
    let mut x = Tensor::from([1, 2, 3]);
    let error = x.masked_scatter(&Tensor::from([true]), &Tensor::from([9, 9])).unwrap_err().to_string();
    assert_eq!((error.as_str(), x.to_vec()?), ("masked_scatter: 2 values for 3 places", vec![1, 2, 3]));
    x.masked_scatter(&Tensor::from([false]), &Tensor::<i32, 1>::zeros([0], &Cpu)?)?;
    assert_eq!(x.to_vec()?, [1, 2, 3]);
    Ok(())
}

// ------------------------------------------------------------ elements of a user's own

/// Strokes in golf: in memory an i32, in kernels its negative: fewer strokes are better.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Strokes(i32);

// SAFETY: a transparent i32, for which any bits are a value.
unsafe impl bytemuck::Zeroable for Strokes {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Strokes {}

impl std::fmt::Display for Strokes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl PartialOrd for Strokes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        other.0.partial_cmp(&self.0)
    }
}
// SAFETY: a transparent i32, computed in i32.
unsafe impl Element for Strokes {
    type Compute = i32;
    const DTYPE: rankform::scalar::DType = rankform::scalar::DType::I32;
    fn widen(self) -> i32 {
        -self.0
    }
    fn narrow(value: i32) -> Self {
        Strokes(-value)
    }
}
macro_rules! arithmetic {
    ($($op:ident $method:ident)*) => { $(
        impl std::ops::$op for Strokes {
            type Output = Strokes;
            fn $method(self, other: Strokes) -> Strokes { Strokes(std::ops::$op::$method(self.0, other.0)) }
        }
    )* };
}
arithmetic!(Add add Sub sub Mul mul Div div Rem rem);
impl num_traits::Zero for Strokes {
    fn zero() -> Self {
        Strokes(0)
    }
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}
impl num_traits::One for Strokes {
    fn one() -> Self {
        Strokes(1)
    }
}
impl num_traits::Num for Strokes {
    type FromStrRadixErr = std::num::ParseIntError;
    fn from_str_radix(text: &str, radix: u32) -> std::result::Result<Self, Self::FromStrRadixErr> {
        i32::from_str_radix(text, radix).map(Strokes)
    }
}
impl Number for Strokes {
    type Running = i32;
}
impl Comparable for Strokes {}

#[test]
fn elements_of_a_users_own_are_sorted_by_their_own_order() -> Result<()> {
    if cfg!(rankform_through_cuda) {
        // Their conversions are the host's code: a GPU knows elements by their name, and refuses others.
        let error = Tensor::from_slice(&[Strokes(3), Strokes(-3)], [2], &Cpu)?.max(All).unwrap_err();
        assert!(matches!(&error, Error::Value { op: "max", what } if what.contains("Strokes")), "{error}");
        return Ok(());
    }
    let mut random = Random(103);
    let line: Vec<Strokes> = (0..500).map(|_| Strokes(random.below(90) as i32 - 45)).collect();
    let x = Tensor::from_slice(&line, [5, 100], &Cpu)?;
    let mut expected: Vec<Vec<Strokes>> = line.chunks(100).map(<[_]>::to_vec).collect();
    expected.iter_mut().for_each(|row| row.sort_by(|a, b| a.partial_cmp(b).unwrap()));
    assert_eq!(x.sort(Axis::<1>)?.to_vec()?, expected.concat());
    assert_eq!(x.gather(Axis::<1>, &x.argsort(Axis::<1>)?)?, x.sort(Axis::<1>)?);
    let mut sorted = x.copy()?;
    x.sort_into(Axis::<1>, &mut sorted)?;
    assert_eq!(sorted, x.sort(Axis::<1>)?);
    let (largest, places) = x.topk(Axis::<1>, 2)?;
    let (mut out, mut places_out) = (x.bottomk(Axis::<1>, 2)?.0, Tensor::zeros(places.size(), &Cpu)?);
    x.topk_into(Axis::<1>, 2, &mut out, &mut places_out)?;
    assert_eq!((out, places_out), (largest, places));
    let (best, places) = x.topk(Axis::<1>, 3)?;
    for row in 0..5 {
        let last: Vec<Strokes> = expected[row].iter().rev().take(3).copied().collect();
        assert_eq!(best.slice((row, ..))?.to_vec()?, last);
        assert_eq!(best[[row, 0]], x.max(Axis::<1>)?[[row]]);
        assert_eq!(places[[row, 0]], x.argmax(Axis::<1>)?[[row]]);
    }
    let unique = x.unique()?.to_vec()?;
    assert!(unique.windows(2).all(|pair| pair[0] < pair[1]));
    Ok(())
}
