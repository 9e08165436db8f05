//! Two exclusive views of one tensor, moves inside one, and indices that count memory.

use rankform::prelude::*;

/// Every slice of an axis of `n` with these ends and steps.
fn ranges(n: usize) -> Vec<(usize, usize, isize)> {
    let steps = [-3, -2, -1, 1, 2, 3, 5];
    (0..=n).flat_map(|start| (start..=n).flat_map(move |end| steps.map(|step| (start, end, step)))).collect()
}

fn positions((start, end, step): (usize, usize, isize)) -> Vec<usize> {
    let all = start..end;
    if step < 0 {
        all.rev().step_by(step.unsigned_abs()).collect()
    } else {
        all.step_by(step as usize).collect()
    }
}

#[test]
fn two_slices_are_given_exactly_where_they_share_no_element() -> Result<()> {
    let n = 7;
    let mut x = Tensor::<i32, 2>::zeros([2, n], &Cpu)?;
    let all = ranges(n);
    for (k, &a) in all.iter().enumerate() {
        for &b in all.iter().skip(k % 3).step_by(3) {
            let (one, other) = (positions(a), positions(b));
            let apart = !one.iter().any(|at| other.contains(at));
            let views = x.view_mut()?.multi_slice_mut((1, (a.0..a.1).step(a.2)), (.., (b.0..b.1).step(b.2)));
            assert_eq!(views.is_ok(), apart, "{a:?} and {b:?}");
            let Ok((mut first, mut second)) = views else { continue };
            first.fill(1)?;
            second.fill(2)?;
            for at in 0..n {
                let wanted = if one.contains(&at) {
                    1
                } else if other.contains(&at) {
                    2
                } else {
                    0
                };
                assert_eq!(x[[1, at]], wanted, "{a:?} and {b:?} at {at}");
                assert_eq!(x[[0, at]], if other.contains(&at) { 2 } else { 0 });
            }
            x.fill(0)?;
        }
    }
    Ok(())
}

#[test]
fn two_slices_of_other_ranks_views_and_no_axes() -> Result<()> {
    let mut x = Tensor::<i32, 3>::zeros([2, 3, 4], &Cpu)?;
    let view = x.view_mut()?.transposed(); // [4, 3, 2]
    let (mut red, black) = view.multi_slice_mut(((..).step(2), 1, ..), ((1..).step(2), .., 0..1))?;
    assert_eq!((red.size(), black.size()), (dim![2, 2], dim![2, 3, 1]));
    red.fill(5)?;
    assert_eq!((x.sum(All)?.item()?, x[[0, 1, 0]], x[[1, 1, 2]], x[[0, 1, 1]]), (20, 5, 5, 0));
    // Beyond an axis, and a step of 0.
    assert!(matches!(
        x.view_mut()?.multi_slice_mut((0, .., ..), (2, .., ..)),
        Err(Error::Slice { axis: 0, size: 2, .. })
    ));
    assert!(matches!(
        x.view_mut()?.multi_slice_mut((0, .., (..).step(0)), (1, .., ..)),
        Err(Error::Slice { axis: 2, .. })
    ));
    let shared = x.view_mut()?.multi_slice_mut((0, .., ..), (.., 1, ..));
    assert_eq!(
        shared.err().unwrap().to_string(),
        "multi_slice_mut: two slices, of sizes [3, 4] and [2, 4], share elements"
    );
    // An axis of no size has nothing to share.
    let mut none = Tensor::<i32, 2>::zeros([0, 3], &Cpu)?;
    assert!(none.view_mut()?.multi_slice_mut((.., ..), (.., ..)).is_ok());
    // One is read while the other is written: a step of Gauss and Seidel on every second element.
    let mut line = Tensor::from([8.0, 0.0, 4.0, 0.0, 2.0]);
    let (even, mut odd) = line.view_mut()?.multi_slice_mut(((..).step(2),), ((1..).step(2),))?;
    let even = even.as_view();
    odd.assign((even.slice((..2,))?.lazy() + even.slice((1..,))?) * 0.5)?;
    assert_eq!(line.to_vec()?, [8.0, 6.0, 4.0, 3.0, 2.0]);
    Ok(())
}

#[test]
fn positions_move_inside_a_tensor_as_in_a_slice() -> Result<()> {
    for n in [0_usize, 1, 5, 6] {
        for start in 0..=n {
            for end in start..=n {
                for to in 0..=n - (end - start) {
                    let mut wanted: Vec<i32> = (0..n as i32).collect();
                    wanted.copy_within(start..end, to);
                    let mut x = Tensor::from_fn([3, n, 2], |[_, j, _]| j as i32, &Cpu)?;
                    x.copy_within(Axis::<1>, start..end, to)?;
                    for i in 0..3 {
                        assert_eq!(x.slice((i, .., 1))?.to_vec()?, wanted, "{start}..{end} of {n} to {to}");
                    }
                    let mut y = Tensor::from_fn([n, 2], |[j, _]| j as i32, &Cpu)?;
                    { y.view_mut()?.transposed() }.copy_within(Axis::<1>, start..end, to)?;
                    assert_eq!(y.slice((.., 0))?.to_vec()?, wanted);
                }
            }
        }
    }
    let mut x = Tensor::from([1, 2, 3]);
    assert!(matches!(
        x.copy_within(Axis::<0>, 1..4, 0),
        Err(Error::Slice { op: "copy_within", axis: 0, size: 3, .. })
    ));
    assert!(matches!(
        x.copy_within(Axis::<0>, 0..2, 2),
        Err(Error::Slice { op: "copy_within", axis: 0, size: 3, .. })
    ));
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = x.copy_within(Axis::<0>, 2..1, 0);
    assert!(reversed.is_err());
    assert!(matches!(x.copy_within(Axis::<0>, 0..1, usize::MAX), Err(Error::Slice { .. })));
    assert_eq!(x.to_vec()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn numbers_of_memory_are_elements_and_cast_to_indices() -> Result<()> {
    let places: Vec<usize> = vec![2, 0, 2];
    let index = Tensor::from_vec(places, [3])?;
    let x = Tensor::from([10.0, 20.0, 30.0]);
    assert_eq!(x.take(&index.cast::<i64>()?)?.to_vec()?, [30.0, 10.0, 30.0]);
    assert_eq!(Tensor::<usize, 1>::arange(1, 4, 1, &Cpu)?.to_vec()?, [1, 2, 3]);
    assert_eq!(
        (index.add(&index)?.to_vec()?, index.max(All)?.item()?, index.sum(All)?.item()?),
        (vec![4, 0, 4], 2, 4)
    );
    assert_eq!(x.argsort(Axis::<0>)?.cast::<usize>()?.to_vec()?, [0, 1, 2]);
    assert_eq!(index.sort(Axis::<0>)?.to_vec()?, [0, 2, 2]);
    assert_eq!(Tensor::from([usize::MAX]).cast::<i64>()?.to_vec()?, [-1]);
    Ok(())
}
