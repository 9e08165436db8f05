//! Iterators: against the list of indices, from both ends, cut in parts, on one core and on all.

use rankform::prelude::*;
use rankform::tensor::{Iter, IterMut};
use std::cell::Cell;

/// Views of every kind, each with its name.
fn views(x: &Tensor<i32, 3>) -> Vec<(&'static str, TensorView<'_, i32, 3>)> {
    vec![
        ("contiguous", x.view()),
        ("permuted", x.permuted([2, 0, 1]).unwrap()),
        ("reversed", x.reversed(Axis::<1>)),
        ("all reversed", x.reversed(Axis::<0>).reversed(Axis::<1>).reversed(Axis::<2>)),
        ("with an offset", x.slice((1.., 1.., ..)).unwrap()),
        ("with steps", x.slice((.., (..).step(2), (..).step(-3))).unwrap()),
        ("with an axis of size 1", x.slice((.., 2..3, ..)).unwrap()),
        ("repeated", x.slice((0..1, .., ..)).unwrap().broadcast_to([5, x.size()[1], x.size()[2]]).unwrap()),
        ("empty", x.slice((.., 1..1, ..)).unwrap()),
        ("empty and reversed", x.slice((.., 1..1, ..)).unwrap().reversed(Axis::<0>)),
    ]
}

fn counted(size: [usize; 3]) -> Tensor<i32, 3> {
    Tensor::from_fn(size, |index| Dim(size).linearize(index) as i32, &Cpu).unwrap()
}

/// The expected elements of an iterator.
fn oracle<const RANK: usize>(view: TensorView<'_, i32, RANK>) -> Vec<([usize; RANK], i32)> {
    view.size().indices().map(|index| (index, view[index])).collect()
}

#[test]
fn elements_come_in_row_major_order_from_both_ends() {
    let x = counted([3, 4, 5]);
    for (name, view) in views(&x) {
        let wanted = oracle(view);
        let values: Vec<i32> = wanted.iter().map(|pair| pair.1).collect();
        assert_eq!(view.iter().len(), values.len(), "{name}");
        assert_eq!(view.iter().copied().collect::<Vec<_>>(), values, "{name}");
        assert_eq!(
            view.iter().rev().copied().collect::<Vec<_>>(),
            values.iter().rev().copied().collect::<Vec<_>>(),
            "{name}"
        );
        assert_eq!(
            view.indexed_iter().map(|(index, &value)| (index, value)).collect::<Vec<_>>(),
            wanted,
            "{name}"
        );
        let backwards: Vec<_> = view.indexed_iter().rev().map(|(index, &value)| (index, value)).collect();
        assert_eq!(backwards, wanted.iter().rev().copied().collect::<Vec<_>>(), "{name}");
        let (mut next, mut both) = (view.iter(), view.iter());
        let stepped: Vec<i32> = std::iter::from_fn(|| next.next().copied()).collect();
        assert_eq!(stepped, values, "{name}, by next");
        assert!(next.next().is_none() && next.next_back().is_none(), "{name} ends");
        // From both ends in turn, until they meet.
        let (mut front, mut back) = (Vec::<i32>::new(), Vec::<i32>::new());
        while let Some(value) = both.next() {
            front.push(*value);
            assert_eq!(both.len(), values.len() - front.len() - back.len(), "{name}");
            let cloned: Vec<i32> = both.clone().copied().collect(); // `fold` from the middle
            assert_eq!(cloned, values[front.len()..values.len() - back.len()], "{name}");
            back.extend(both.next_back());
        }
        front.extend(back.into_iter().rev());
        assert_eq!(front, values, "{name}, from both ends");
    }
}

#[test]
fn a_tensor_without_axes_has_one_element() {
    let x = Tensor::from(7);
    assert_eq!(x.iter().collect::<Vec<_>>(), [&7]);
    assert_eq!(x.indexed_iter().rev().collect::<Vec<_>>(), [([], &7)]);
}

#[test]
fn writing_reaches_each_element_of_the_view_once_and_no_other() -> Result<()> {
    type Change = fn(TensorViewMut<'_, i32, 3>) -> TensorViewMut<'_, i32, 3>;
    let changes: [(&str, Change); 6] = [
        ("contiguous", |x| x),
        ("permuted", |x| x.permuted([1, 2, 0]).unwrap()),
        ("reversed", |x| x.reversed(Axis::<2>)),
        ("with an offset and steps", |x| x.slice((1.., (..).step(-2), 1..3)).unwrap()),
        ("with an axis of size 1", |x| x.slice((.., .., 4..)).unwrap()),
        ("empty", |x| x.slice((.., 3..3, ..)).unwrap()),
    ];
    for (name, change) in changes {
        let before = counted([3, 4, 5]);
        for by in 0..4 {
            let (mut x, mut wanted) = (before.copy()?, before.copy()?);
            let mut view = change(wanted.view_mut()?);
            for (number, index) in view.size().indices().enumerate() {
                view[index] = -100 - number as i32;
            }
            let mut view = change(x.view_mut()?);
            match by {
                0 => view.iter_mut().enumerate().for_each(|(number, value)| *value = -100 - number as i32),
                1 => {
                    let count = view.numel();
                    view.iter_mut()
                        .rev()
                        .enumerate()
                        .for_each(|(number, value)| *value = -100 - (count - 1 - number) as i32);
                }
                2 => {
                    let size = view.size();
                    view.indexed_iter_mut()
                        .for_each(|(index, value)| *value = -100 - size.linearize(index) as i32);
                }
                _ => {
                    for (number, value) in view.into_iter().enumerate() {
                        *value = -100 - number as i32;
                    }
                }
            }
            assert_eq!(x.to_vec()?, wanted.to_vec()?, "{name}, way {by}");
        }
    }
    Ok(())
}

#[test]
fn for_loops_take_tensors_and_views_by_reference_and_views_by_value() -> Result<()> {
    let mut x = Tensor::from([[1, 2], [3, 4]]);
    let mut sum = 0;
    for value in &x {
        sum += value;
    }
    for value in x.transposed() {
        sum += value;
    }
    for value in &x.view() {
        sum += value;
    }
    let mut view = x.view_mut()?;
    for value in &mut view {
        *value += 1;
    }
    for value in &view {
        sum += value;
    }
    for value in view {
        *value *= 2;
    }
    assert_eq!((sum, x.to_vec()?), (44, vec![4, 6, 8, 10]));
    Ok(())
}

#[test]
fn elements_with_destructors_and_cells_are_visited_in_place() -> Result<()> {
    let mut names = Tensor::collect_fn([2, 3], |[row, column]| format!("{row}{column}"))?;
    names.view_mut()?.transposed().iter_mut().for_each(|name| name.push('!'));
    assert_eq!(names.transposed().iter().cloned().collect::<String>(), "00!10!01!11!02!12!");
    let cells = Tensor::from([1, 2, 3]).into_cells()?;
    cells.iter().for_each(|cell: &Cell<i32>| cell.set(cell.get() * 2));
    assert_eq!(Tensor::from_cells(cells)?.to_vec()?, [2, 4, 6]);
    assert_eq!(Tensor::collect_fn([2, 2], |_| ())?.transposed().iter().count(), 4);
    Ok(())
}

#[test]
fn lanes_cover_every_element_once_along_each_axis() -> Result<()> {
    fn check<const A: usize>(name: &str, view: TensorView<'_, i32, 3>, axis: Axis<A>)
    where
        Dim<3>: rankform::rank::RemoveAxis<A, Output = Dim<2>>,
    {
        let mut others = view.size().0;
        let length = std::mem::replace(&mut others[A], 1);
        let wanted: Vec<Vec<i32>> = Dim(others)
            .indices()
            .map(|mut index| {
                let lane = (0..length).map(|at| {
                    index[A] = at;
                    view[index]
                });
                lane.collect()
            })
            .collect();
        let lanes: Vec<Vec<i32>> = view.lanes(axis).map(|lane| lane.iter().copied().collect()).collect();
        assert_eq!(lanes, wanted, "{name}, axis {A}");
        let backwards: Vec<Vec<i32>> = view.lanes(axis).rev().map(|lane| lane.to_vec().unwrap()).collect();
        assert_eq!(backwards, wanted.into_iter().rev().collect::<Vec<_>>(), "{name}, axis {A}");
    }
    let x = counted([3, 4, 5]);
    for (name, view) in views(&x) {
        check(name, view, Axis::<0>);
        check(name, view, Axis::<1>);
        check(name, view, Axis::<2>);
    }
    let mut y = counted([2, 3, 4]);
    for (number, lane) in y.view_mut()?.permuted([2, 1, 0])?.lanes_mut(Axis::<1>).enumerate() {
        assert_eq!(lane.size(), [3]);
        lane.into_iter().for_each(|value| *value = number as i32);
    }
    assert_eq!(y.slice((.., 0, ..))?.to_vec()?, [0, 2, 4, 6, 1, 3, 5, 7]);
    assert_eq!(y.slice((.., 2, ..))?.to_vec()?, [0, 2, 4, 6, 1, 3, 5, 7]);
    assert_eq!(Tensor::<f32, 2, _>::zeros([5, 3], &Meta::new())?.lanes(Axis::<0>).len(), 3);
    Ok(())
}

#[test]
fn lanes_of_an_empty_tensor_have_no_elements_whatever_its_strides() -> Result<()> {
    let x = Tensor::from([1, 2, 3]);
    let strange = x.as_strided([0, 5], [1, isize::MAX], 3)?;
    assert_eq!(strange.lanes(Axis::<1>).count(), 0);
    let lanes: Vec<usize> = strange.lanes(Axis::<0>).map(|lane| lane.iter().count()).collect();
    assert_eq!(lanes, [0; 5]);
    Ok(())
}

#[test]
fn iterators_go_where_references_to_their_elements_go() {
    fn is_send<X: Send>() {}
    fn is_sync<X: Sync>() {}
    is_send::<Iter<'static, f32, 2>>();
    is_sync::<Iter<'static, f32, 2>>();
    // as `&mut Cell`; that `Iter` of cells stays is in `tests/compile_fail`
    is_send::<IterMut<'static, Cell<f32>, 2>>();
}

#[cfg(feature = "rayon")]
mod parallel {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn all_cores_see_each_element_once_and_in_order() {
        let x = counted([30, 40, 50]);
        for (name, view) in views(&x) {
            let wanted: Vec<i32> = view.iter().copied().collect();
            assert_eq!(view.par_iter().copied().collect::<Vec<_>>(), wanted, "{name}");
            assert_eq!(view.par_iter().len(), wanted.len(), "{name}");
            assert_eq!(
                view.into_par_iter().rev().copied().collect::<Vec<_>>(),
                wanted.iter().rev().copied().collect::<Vec<_>>()
            );
            for parts in [1, 7, 1000] {
                assert_eq!(
                    view.par_iter().with_max_len(parts).map(|&v| v as i64).sum::<i64>(),
                    wanted.iter().map(|&v| v as i64).sum::<i64>()
                );
            }
        }
    }

    #[test]
    fn all_cores_write_each_element_once() -> Result<()> {
        let mut x = Tensor::<i32, 3>::zeros([30, 40, 50], &Cpu)?;
        x.view_mut()?.par_iter_mut().with_max_len(11).for_each(|value| *value += 1);
        x.view_mut()?
            .permuted([2, 0, 1])?
            .par_iter_mut()
            .with_max_len(11)
            .enumerate()
            .for_each(|(i, value)| *value += i as i32);
        x.view_mut()?.slice((.., (..).step(-1), ..))?.into_par_iter().for_each(|value| *value *= 2);
        for (i, value) in x.permuted([2, 0, 1])?.iter().enumerate() {
            assert_eq!(*value, 2 * (i as i32 + 1));
        }
        assert!((&x).into_par_iter().all(|&value| value > 0));
        Ok(())
    }

    #[test]
    fn the_positions_of_an_axis_are_worked_on_all_cores() -> Result<()> {
        let mut x = counted([20, 30, 4]);
        let wanted: Vec<i64> =
            x.axis_iter(Axis::<1>).map(|part| part.iter().map(|&v| v as i64).sum()).collect();
        let sums: Vec<i64> =
            x.view().par_axis_iter(Axis::<1>).map(|part| part.iter().map(|&v| v as i64).sum()).collect();
        assert_eq!(sums, wanted);
        x.view_mut()?
            .par_axis_iter_mut(Axis::<1>)
            .enumerate()
            .for_each(|(at, part)| part.into_iter().for_each(|v| *v = at as i32));
        assert!(x.indexed_iter().all(|([_, at, _], &value)| value == at as i32));
        assert_eq!(x.slice((.., 0..0, ..))?.par_axis_iter(Axis::<1>).count(), 0);
        Ok(())
    }
}
