//! The laws of `Dim`, `Stride` and `Layout`, checked against the most obvious loop: list every index, compute
//! every position in `i128`, compare. Ranks 0 to 4, sizes 0 to 4, strides of every kind; then the numbers at
//! the edge of `isize`.

use rankform::layout::joint_size;
use rankform::rank::{
    HasAxes, LiftTo, Matmul, NewAxis, Rank, RankMinusOne, RemoveAxes, RemoveAxis, SliceOfRank, SliceSpec,
    SliceStep,
};
use rankform::{All, Axis, Dim, Error, Last, Layout, MemoryFormat, Stride, dim};
use std::collections::HashSet;
use typenum::Unsigned;

const MAX: usize = isize::MAX as usize;

// ---------------------------------------------------------------- the oracle

/// Every index inside `size`, in row-major order.
fn indices<const R: usize>(size: [usize; R]) -> Vec<[usize; R]> {
    if size.contains(&0) {
        return vec![];
    }
    let (mut all, mut index) = (vec![[0; R]], [0; R]);
    while let Some(axis) = (0..R).rev().find(|&axis| index[axis] + 1 < size[axis]) {
        index[axis] += 1;
        index[axis + 1..].fill(0);
        all.push(index);
    }
    all
}

/// The position of `index`, by the definition of a layout, in unbounded integers.
fn place<const R: usize>(layout: &Layout<R>, index: [usize; R]) -> i128 {
    let mut place = layout.offset() as i128;
    for (axis, at) in index.into_iter().enumerate() {
        place += at as i128 * layout.stride()[axis] as i128;
    }
    place
}

/// Every position, in row-major order of the indices.
fn places<const R: usize>(layout: &Layout<R>) -> Vec<i128> {
    indices(layout.size().0).into_iter().map(|index| place(layout, index)).collect()
}

fn is_consecutive(places: &[i128]) -> bool {
    places.iter().enumerate().all(|(i, &place)| place == places[0] + i as i128)
}

fn differ(places: &[i128]) -> bool {
    places.iter().collect::<HashSet<_>>().len() == places.len()
}

/// Whether the positions are consecutive when the axes are walked in `order`, slowest first.
fn is_stored_in<const R: usize>(layout: &Layout<R>, order: [usize; R]) -> bool {
    let walk = indices(order.map(|axis| layout.size()[axis])).into_iter();
    let places = walk.map(|at| {
        place(layout, std::array::from_fn(|axis| at[order.iter().position(|&o| o == axis).unwrap()]))
    });
    is_consecutive(&places.collect::<Vec<_>>())
}

/// Asserts that `view` has `size`, that its element at `index` is the element of `base` at `from(index)`, and
/// that it is a layout that `within` accepts for the memory which `base` spans. Large layouts are looked at
/// in their corners.
#[track_caller]
fn shows<const N: usize, const R: usize>(
    view: &Layout<N>,
    base: &Layout<R>,
    size: [usize; N],
    from: impl Fn([usize; N]) -> [usize; R],
) {
    assert_eq!(view.size(), size, "a view of {base:?}");
    for index in some_indices(size) {
        let wanted = place(base, from(index));
        assert_eq!(view.position(index), Some(wanted as usize), "{index:?} of {view:?}, a view of {base:?}");
        assert_eq!(place(view, index), wanted, "{index:?} of {view:?}, a view of {base:?}");
    }
    let again = Layout::within("again", view.size(), view.stride(), view.offset() as i128, base.span().end);
    assert_eq!(again, Ok(*view), "a view of {base:?}");
}

/// Every index where they are few, otherwise the first, second and last of each axis.
fn some_indices<const R: usize>(size: [usize; R]) -> Vec<[usize; R]> {
    if size.iter().try_fold(1usize, |product, &n| product.checked_mul(n)).is_some_and(|n| n <= 4096) {
        return indices(size);
    }
    let ends = size.map(|n| n.min(3));
    indices(ends)
        .into_iter()
        .map(|at| std::array::from_fn(|a| if at[a] == 2 { size[a] - 1 } else { at[a] }))
        .collect()
}

// ---------------------------------------------------------------- the layouts

/// All sizes from 0 to 4.
fn sizes<const R: usize>() -> Vec<[usize; R]> {
    indices([5; R])
}

/// All orders of `R` axes.
fn orders<const R: usize>() -> Vec<[usize; R]> {
    indices([R; R]).into_iter().filter(|order| (0..R).all(|axis| order.contains(&axis))).collect()
}

/// All strides from −2 to 3.
fn strides<const R: usize>() -> Vec<[isize; R]> {
    indices([6; R]).into_iter().map(|stride| stride.map(|s| s as isize - 2)).collect()
}

/// The axes that the bits of `set` name.
fn axes_of<const R: usize>(set: usize) -> impl Iterator<Item = usize> {
    (0..R).filter(move |axis| set >> axis & 1 == 1)
}

/// Every `step`-th, starting at another one each time: together the sizes see all of them.
fn rotating<T: Copy>(all: &[T], number: usize, step: usize) -> impl Iterator<Item = T> {
    all.iter().copied().skip(number % step).step_by(step)
}

/// A dense layout with its axes permuted by `order`.
fn permuted<const R: usize>(size: [usize; R], order: [usize; R]) -> Layout<R> {
    let mut stored = [0; R];
    (0..R).for_each(|axis| stored[order[axis]] = size[axis]);
    Layout::contiguous(stored).unwrap().permuted(order).unwrap()
}

/// For all sizes: row-major, permuted and reversed on any axes; sliced with offset and steps; broadcast;
/// as-strided. Rank 4 has all the sizes too, each row-major, permuted and in a rotating choice of the rest.
fn bases<const R: usize>() -> Vec<Layout<R>> {
    let orders = orders::<R>();
    let flips: Vec<_> = orders.iter().flat_map(|&order| (0..1 << R).map(move |set| (order, set))).collect();
    let (sets, strides): (Vec<usize>, _) = ((1..1 << R).collect(), strides());
    let [few, fewer] = if R == 4 { [5, 97] } else { [1, 1] };
    let mut all = vec![];
    for (number, size) in sizes::<R>().into_iter().enumerate() {
        all.push(Layout::contiguous(size).unwrap());
        all.push(permuted(size, orders[number % orders.len()]));
        for (order, set) in rotating(&flips, number, fewer) {
            all.push(
                axes_of::<R>(set).fold(permuted(size, order), |layout, axis| layout.reversed(axis).unwrap()),
            );
        }
        for step in [1, 2, -1, -3isize] {
            let wide = Layout::contiguous(size.map(|n| n * step.unsigned_abs() + 2)).unwrap();
            let part = |layout: Layout<R>, axis| {
                layout.ranged("base", axis, 1, size[axis] * step.unsigned_abs() + 1, step).unwrap()
            };
            all.push((0..R).fold(wide, part));
        }
        for set in rotating(&sets, number, few) {
            let mut narrow = size;
            axes_of::<R>(set).for_each(|axis| narrow[axis] = 1);
            all.push(Layout::contiguous(narrow).unwrap().broadcast_to(size).unwrap());
        }
        for stride in rotating(&strides, number, fewer) {
            let low: isize = (0..R).map(|a| (stride[a] * (size[a].max(1) as isize - 1)).min(0)).sum();
            all.push(Layout::new(size, stride, (2 - low) as usize).unwrap());
        }
    }
    all
}

/// A rotating choice of `bases`, for laws that try many arguments on each.
fn some_bases<const R: usize>(step: usize) -> Vec<Layout<R>> {
    bases().into_iter().step_by(step).collect()
}

/// Runs a check for the ranks 0 to 4.
macro_rules! each_rank {
    ($check:ident) => {
        $check::<0>();
        $check::<1>();
        $check::<2>();
        $check::<3>();
        $check::<4>();
    };
}

#[test]
fn the_base_layouts_are_of_every_kind() {
    let all = bases::<4>();
    let some = |what: &str, is: fn(&Layout<4>) -> bool| {
        assert!(all.iter().filter(|layout| is(layout)).count() > 250, "{what}")
    };
    some("contiguous", |x| x.is_contiguous());
    some("dense and not contiguous", |x| x.is_non_overlapping_and_dense() && !x.is_contiguous());
    some("with holes", |x| !x.is_non_overlapping_and_dense() && !x.may_overlap());
    some("overlapping", |x| x.may_overlap());
    some("backwards", |x| x.stride().0.iter().any(|&s| s < 0));
    some("empty", |x| x.numel() == 0);
    assert_eq!(
        (bases::<0>().len(), bases::<1>().len(), bases::<2>().len(), bases::<3>().len()),
        (8, 75, 1325, 34_625)
    );
}

// ---------------------------------------------------------------- Dim

#[test]
fn numel_counts_the_indices_and_indices_lists_them() {
    fn check<const R: usize>() {
        for size in sizes::<R>() {
            let (size, all) = (Dim(size), indices(size));
            assert_eq!(size.indices().collect::<Vec<_>>(), all);
            assert_eq!(size.checked_numel(), Some(all.len()));
            assert_eq!(size.numel_of("test", 16), Ok(all.len()));
            assert_eq!(Layout::contiguous(size).unwrap().numel(), all.len());
        }
    }
    each_rank!(check);
}

#[test]
fn contains_knows_the_indices_from_all_others() {
    fn check<const R: usize>() {
        let around = indices([if R == 4 { 4 } else { 6 }; R]);
        for (number, size) in sizes::<R>().into_iter().enumerate() {
            let inside: HashSet<_> = indices(size).into_iter().collect();
            for index in rotating(&around, number, if R == 4 { 7 } else { 1 }) {
                assert_eq!(Dim(size).contains(index), inside.contains(&index), "{index:?} in {size:?}");
            }
        }
    }
    each_rank!(check);
    assert!(!Dim([3, 3]).contains([0, usize::MAX]));
}

#[test]
fn linearize_numbers_the_indices_and_delinearize_reads_the_number() {
    fn check<const R: usize>() {
        for size in sizes::<R>() {
            for (number, index) in indices(size).into_iter().enumerate() {
                assert_eq!(Dim(size).linearize(index), number);
                assert_eq!(Dim(size).delinearize(number), index);
            }
            let counted = size.map(|n| n.max(1)); // sizes of 0 count as 1
            for (number, index) in indices(counted).into_iter().enumerate() {
                assert_eq!(Dim(size).delinearize(number), index);
            }
        }
    }
    each_rank!(check);
}

#[test]
fn prefix_products_are_the_strides_of_a_column_major_layout() {
    fn check<const R: usize>() {
        for size in sizes::<R>() {
            let products = Dim(size).prefix_products();
            (0..R).for_each(|axis| assert_eq!(products[axis], size[..axis].iter().product::<usize>()));
        }
    }
    each_rank!(check);
}

#[test]
fn head_and_tail_are_the_first_size_and_the_others() {
    fn check<const R: usize, const M: usize>()
    where
        Dim<R>: RemoveAxis<0, Output = Dim<M>>,
    {
        for size in sizes::<R>() {
            assert_eq!(Dim(size).head(), size[0]);
            assert_eq!(Dim(size).tail().0[..], size[1..]);
            assert_eq!(Dim(size).as_array(), &size);
        }
    }
    check::<1, 0>();
    check::<2, 1>();
    check::<3, 2>();
    check::<4, 3>();
    assert_eq!(dim![8, 7, 6, 5, 4, 3, 2, 1].tail(), dim![7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn dims_and_strides_print_compare_and_index_as_their_numbers() {
    let (size, stride) = (dim![2, 3], Stride([3, -1]));
    assert_eq!(
        (format!("{size} {size:?}"), format!("{stride:?}")),
        ("[2, 3] [2, 3]".into(), "[3, -1]".into())
    );
    assert!(size == [2, 3] && size != [3, 2] && stride == [3, -1] && stride != [3, 1]);
    assert_eq!((size[1], stride[1], Dim::from([2, 3]), Stride::from([3, -1])), (3, -1, size, stride));
}

#[test]
fn joint_size_stretches_ones_and_nothing_else() {
    fn check<const R: usize>() {
        for left in sizes::<R>() {
            for right in sizes::<R>() {
                let fits = (0..R).all(|a| left[a] == right[a] || left[a] == 1 || right[a] == 1);
                let wanted = std::array::from_fn(|a| if left[a] == 1 { right[a] } else { left[a] });
                match joint_size("test", Dim(left), Dim(right)) {
                    Ok(size) => assert!(fits && size == wanted, "{left:?} and {right:?} to {size}"),
                    Err(error) => assert!(
                        !fits && matches!(error, Error::Sizes { .. }),
                        "{left:?} and {right:?}: {error}"
                    ),
                }
            }
        }
    }
    check::<0>();
    check::<1>();
    check::<2>();
    check::<3>();
}

// ---------------------------------------------------------------- making a layout

#[test]
fn a_contiguous_layout_counts_its_elements_in_row_major_order() {
    fn check<const R: usize>() {
        for size in sizes::<R>() {
            let layout = Layout::contiguous(size).unwrap();
            assert_eq!((layout.size(), layout.offset()), (Dim(size), 0));
            for (number, index) in indices(size).into_iter().enumerate() {
                assert_eq!(layout.position(index), Some(number));
            }
        }
    }
    each_rank!(check);
}

#[test]
fn a_layout_is_accepted_exactly_when_all_its_positions_lie_inside() {
    fn check<const R: usize>() {
        let (strides, ends) = (strides::<R>(), [0, 1, 2, 5, 9, 14, 40]);
        let (every, offsets) = [(1, -4..10), (1, -4..10), (1, -4..10), (7, -1..10), (97, -1..10)][R].clone();
        for (number, size) in sizes::<R>().into_iter().enumerate() {
            for stride in rotating(&strides, number, every) {
                let steps = indices(size)
                    .into_iter()
                    .map(|index| (0..R).map(|a| index[a] as i128 * stride[a] as i128).sum::<i128>());
                let (low, high) =
                    steps.fold((i128::MAX, i128::MIN), |(low, high), step| (low.min(step), high.max(step)));
                for offset in offsets.clone() {
                    let accepted = |len: usize| match size.contains(&0) {
                        true => (0..=len as i128).contains(&offset),
                        false => offset + low >= 0 && offset + high < len as i128,
                    };
                    for len in ends {
                        match Layout::within("test", Dim(size), Stride(stride), offset, len) {
                            Ok(layout) => {
                                assert!(accepted(len), "{layout:?} within {len}");
                                assert_eq!((layout.size(), layout.stride()), (Dim(size), Stride(stride)));
                                assert_eq!(layout.offset() as i128, offset);
                            }
                            Err(error) => {
                                assert!(!accepted(len) && matches!(error, Error::Bounds { .. }), "{error}")
                            }
                        }
                    }
                    if let Ok(offset) = usize::try_from(offset) {
                        assert_eq!(
                            Layout::new(size, stride, offset).is_ok(),
                            accepted(MAX),
                            "{size:?} {stride:?} {offset}"
                        );
                    }
                }
            }
        }
    }
    each_rank!(check);
}

// ---------------------------------------------------------------- asking a layout

#[test]
fn position_is_the_definition_inside_and_none_outside() {
    fn check<const R: usize>() {
        for layout in some_bases::<R>(if R > 2 { 5 } else { 1 }) {
            for index in indices(layout.size().0.map(|n| n + 1)) {
                let inside = (0..R).all(|a| index[a] < layout.size()[a]);
                assert_eq!(
                    layout.position(index),
                    inside.then(|| place(&layout, index) as usize),
                    "{index:?} of {layout:?}"
                );
            }
        }
    }
    each_rank!(check);
}

#[test]
fn span_contiguity_density_and_overlap_follow_from_the_positions() {
    fn check<const R: usize>() {
        for layout in bases::<R>() {
            let places = places(&layout);
            let (low, end) = match (places.iter().min(), places.iter().max()) {
                (Some(&low), Some(&high)) => (low, high + 1),
                _ => (layout.offset() as i128, layout.offset() as i128),
            };
            let (empty, distinct) = (places.is_empty(), differ(&places));
            let forward = (0..R).all(|a| layout.size()[a] == 1 || layout.stride()[a] >= 0);
            let dense = empty || (forward && distinct && end - low == places.len() as i128);
            assert_eq!(layout.numel(), places.len());
            assert_eq!(layout.span(), low as usize..end as usize, "{layout:?}");
            assert_eq!(layout.is_contiguous(), is_consecutive(&places), "{layout:?}");
            assert_eq!(layout.is_non_overlapping_and_dense(), dense, "{layout:?}");
            assert_eq!(layout.may_overlap(), !distinct, "{layout:?}");
        }
    }
    each_rank!(check);
}

#[test]
fn overlap_is_exact_to_4096_elements_and_never_missed_beyond() {
    const SIDE: usize = 1 << (usize::BITS / 2 - 2); // its square is a sixteenth of what can be addressed
    for (size, stride, may) in [
        ([2, 3], [2, 1], true),     // 0 1 2 | 2 3 4
        ([2, 3], [3, 2], false),    // 0 2 4 | 3 5 7
        ([2, 2048], [3, 2], false), // even | odd
        ([2, 2049], [3, 2], true),  // not decided: too many
        ([64, 64], [64, 1], false),
        ([64, 64], [63, 1], true),
        ([SIDE; 2], [SIDE as isize, 1], false), // each axis steps over the faster one: decided at any size
        ([SIDE; 2], [SIDE as isize, -1], false),
        ([SIDE; 2], [0, 1], true),
    ] {
        let layout = Layout::new(size, stride, SIDE).unwrap();
        assert_eq!(layout.may_overlap(), may, "{layout:?}");
    }
}

#[test]
fn the_required_spans_are_those_of_mdspan() {
    fn required<const R: usize>(size: [usize; R], stride: [isize; R]) -> usize {
        Layout::new(size, stride, 0).unwrap().span().end
    }
    assert_eq!(required([], []), 1);
    assert_eq!(required([7], [5]), 31);
    assert_eq!(required([7, 8], [20, 2]), 135);
    assert_eq!(required([7, 8, 9, 10], [1, 7, 56, 504]), 5040);
    assert_eq!(required([1, 8, 9, 10], [1, 7, 56, 504]), 5034);
    assert_eq!(required([7, 8, 9, 10], [0; 4]), 1);
    assert_eq!(required([7, 0, 9, 10], [1, 7, 56, 504]), 0);
    assert_eq!(required([16, 32], [1, 128]), 1 + 15 + 31 * 128);
    let holes = Layout::new([16, 32], [1, 128], 0).unwrap();
    assert!(!holes.is_non_overlapping_and_dense() && !holes.is_contiguous() && !holes.may_overlap());
    let dense = Layout::new([7, 8, 9, 10], [1, 7, 56, 504], 0).unwrap();
    assert!(dense.is_non_overlapping_and_dense() && !dense.is_contiguous());
}

// ---------------------------------------------------------------- views

#[test]
fn a_permuted_layout_finds_the_same_elements() {
    fn check<const R: usize>() {
        let valid = orders::<R>();
        for (number, base) in bases::<R>().into_iter().enumerate() {
            for order in rotating(&valid, number, [1, 1, 1, 3, 11][R]) {
                let mut inverse = [0; R];
                (0..R).for_each(|axis| inverse[order[axis]] = axis);
                let permuted = base.permuted(order).unwrap();
                shows(&permuted, &base, order.map(|axis| base.size()[axis]), |index| {
                    inverse.map(|axis| index[axis])
                });
                assert_eq!(permuted.permuted(inverse), Ok(base));
            }
        }
        let base = Layout::contiguous([2; R]).unwrap();
        for order in indices([R + 1; R]).into_iter().filter(|order| !valid.contains(order)) {
            assert_eq!(base.permuted(order), Err(Error::Permutation { op: "permuted", order: order.into() }));
        }
    }
    each_rank!(check);
}

#[test]
fn a_transposed_layout_reads_the_index_backwards() {
    fn check<const R: usize>() {
        for base in bases::<R>() {
            let backwards = |mut numbers: [usize; R]| {
                numbers.reverse();
                numbers
            };
            shows(&base.transposed(), &base, backwards(base.size().0), backwards);
            assert_eq!(base.transposed().transposed(), base);
        }
    }
    each_rank!(check);
}

#[test]
fn a_reversed_axis_runs_from_its_last_position_and_twice_changes_nothing() {
    fn check<const R: usize>() {
        for (number, base) in bases::<R>().into_iter().enumerate() {
            let axes: [usize; R] = std::array::from_fn(|axis| axis);
            for axis in rotating(&axes, number, if R > 2 { 2 } else { 1 }) {
                let reversed = base.reversed(axis).unwrap();
                shows(&reversed, &base, base.size().0, |mut index| {
                    index[axis] = base.size()[axis] - 1 - index[axis];
                    index
                });
                assert_eq!(reversed.reversed(axis), Ok(base));
            }
            if number % 100 == 0 {
                assert!(matches!(base.reversed(R), Err(Error::Axis { axis, .. }) if axis == R));
                assert!(matches!(base.reversed(usize::MAX), Err(Error::Axis { .. })));
            }
        }
    }
    each_rank!(check);
}

#[test]
fn a_broadcast_layout_repeats_its_axes_of_size_1() {
    fn check<const R: usize>() {
        let targets = sizes::<R>();
        for (number, base) in bases::<R>().into_iter().enumerate() {
            let from = base.size().0;
            for to in rotating(&targets, number, [1, 1, 1, 29, 97][R]) {
                let stretches = (0..R).all(|a| from[a] == to[a] || from[a] == 1);
                match base.broadcast_to(to) {
                    Ok(view) => {
                        assert!(stretches, "{from:?} to {to:?}");
                        shows(&view, &base, to, |index| {
                            std::array::from_fn(|a| if from[a] == 1 { 0 } else { index[a] })
                        });
                    }
                    Err(error) => assert!(
                        !stretches && matches!(error, Error::Sizes { .. }),
                        "{from:?} to {to:?}: {error}"
                    ),
                }
            }
        }
    }
    each_rank!(check);
}

#[test]
fn a_lifted_layout_has_leading_axes_of_size_1() {
    fn check<const R: usize, const N: usize>()
    where
        Dim<R>: LiftTo<N>,
    {
        for base in some_bases::<R>(if R > 2 { 10 } else { 1 }) {
            let size = std::array::from_fn(|a| if a < N - R { 1 } else { base.size()[a - (N - R)] });
            shows(&base.lifted::<N>(), &base, size, |index| std::array::from_fn(|a| index[a + N - R]));
        }
    }
    check::<0, 0>();
    check::<0, 1>();
    check::<0, 8>();
    check::<0, 11>();
    check::<1, 1>();
    check::<1, 3>();
    check::<2, 3>();
    check::<2, 4>();
    check::<3, 4>();
    check::<4, 4>();
    check::<4, 6>();
}

#[test]
fn an_inserted_axis_has_size_1_and_removing_it_gives_the_layout_back() {
    fn check<const R: usize, const N: usize>()
    where
        Dim<R>: Rank<Next = Dim<N>>,
        Dim<N>: RankMinusOne<Output = Dim<R>>,
    {
        for base in some_bases::<R>(if R > 2 { 5 } else { 1 }) {
            for axis in 0..=R {
                let other = |a: usize| if a < axis { a } else { a + 1 };
                let mut size = [1; N];
                (0..R).for_each(|a| size[other(a)] = base.size()[a]);
                let inserted: Layout<N> = base.inserted(axis).unwrap();
                shows(&inserted, &base, size, |index| std::array::from_fn(|a| index[other(a)]));
                assert_eq!(inserted.removed(axis), Ok(base));
            }
            assert!(matches!(base.inserted(R + 1), Err(Error::Axis { .. })));
            assert!(matches!(base.inserted(usize::MAX), Err(Error::Axis { .. })));
        }
    }
    check::<0, 1>();
    check::<1, 2>();
    check::<2, 3>();
    check::<3, 4>();
    check::<4, 5>();
}

#[test]
fn only_an_axis_of_size_1_can_be_removed() {
    fn check<const R: usize, const M: usize>()
    where
        Dim<R>: RankMinusOne<Output = Dim<M>>,
    {
        for base in some_bases::<R>(if R > 2 { 3 } else { 1 }) {
            for axis in 0..=R + 1 {
                let other = |a: usize| if a < axis { a } else { a + 1 };
                match base.removed(axis) {
                    Ok(view) => {
                        assert_eq!(base.size()[axis], 1);
                        let with_zero = |index: [usize; M]| {
                            let mut full = [0; R];
                            (0..M).for_each(|a| full[other(a)] = index[a]);
                            full
                        };
                        shows(&view, &base, std::array::from_fn(|a| base.size()[other(a)]), with_zero);
                    }
                    Err(error) => {
                        assert!(axis >= R || base.size()[axis] != 1, "{axis} of {base:?}");
                        assert_eq!(
                            error,
                            Error::Axis { op: "remove_axis", axis, sizes: base.size().0.into() }
                        );
                    }
                }
            }
        }
    }
    check::<1, 0>();
    check::<2, 1>();
    check::<3, 2>();
    check::<4, 3>();
}

/// The positions that `(start..end).step(step)` picks from an axis, one by one; `None` when it does not fit.
fn picked(start: usize, end: usize, step: isize, size: usize) -> Option<Vec<usize>> {
    if start > end || end > size || step == 0 {
        return None;
    }
    let mut all: Vec<usize> = (start..end).collect();
    if step < 0 {
        all.reverse();
    }
    Some(all.into_iter().step_by(step.unsigned_abs()).collect())
}

/// Starts and ends from 0 to 5, steps from −3 to 3 and the two extremes.
fn ranges() -> Vec<(usize, usize, isize)> {
    let step = |s| [isize::MIN, -3, -2, -1, 0, 1, 2, 3, isize::MAX][s];
    indices([6, 6, 9]).into_iter().map(|[start, end, s]| (start, end, step(s))).collect()
}

#[test]
fn a_ranged_axis_holds_the_positions_that_the_range_lists() {
    fn check<const R: usize>() {
        let ranges = ranges();
        for (number, base) in bases::<R>().into_iter().enumerate() {
            for axis in 0..R {
                for (start, end, step) in rotating(&ranges, number + axis, [1, 1, 7, 97, 199][R]) {
                    let size = base.size()[axis];
                    match (base.ranged("test", axis, start, end, step), picked(start, end, step, size)) {
                        (Ok(view), Some(picked)) => {
                            let mut wanted = base.size().0;
                            wanted[axis] = picked.len();
                            shows(&view, &base, wanted, |mut index| {
                                index[axis] = picked[index[axis]];
                                index
                            });
                        }
                        (Err(error), None) => assert!(matches!(error, Error::Slice { .. }), "{error}"),
                        (found, _) => {
                            panic!("({start}..{end}).step({step}) on axis {axis} of {base:?}: {found:?}")
                        }
                    }
                }
            }
        }
        assert!(matches!(
            Layout::contiguous([1; R]).unwrap().ranged("test", R, 0, 1, 1),
            Err(Error::Axis { .. })
        ));
    }
    each_rank!(check);
}

/// The expected effect of one entry of a slice, or `None` when it does not fit its axis.
type Entry = Option<Picked>;

#[derive(Clone)]
enum Picked {
    New,
    Index(usize),
    Range(Vec<usize>),
}

fn new() -> Entry {
    Some(Picked::New)
}

fn index(at: usize, size: usize) -> Entry {
    (at < size).then_some(Picked::Index(at))
}

fn range(start: usize, end: usize, step: isize, size: usize) -> Entry {
    picked(start, end, step, size).map(Picked::Range)
}

/// Asserts that `spec` has the effect of `entries`, one by one.
#[track_caller]
fn slices<S: SliceSpec<Output = Dim<M>>, const R: usize, const M: usize>(
    base: &Layout<R>,
    spec: S,
    entries: &[Entry],
) where
    S::Reads: SliceOfRank<R>,
{
    let found = base.sliced(&spec);
    let Some(entries) = entries.iter().cloned().collect::<Option<Vec<Picked>>>() else {
        return assert!(matches!(found, Err(Error::Slice { op: "slice", .. })), "{found:?} of {base:?}");
    };
    let sizes = entries.iter().filter_map(|entry| match entry {
        Picked::New => Some(1),
        Picked::Index(_) => None,
        Picked::Range(picked) => Some(picked.len()),
    });
    let size = sizes.collect::<Vec<_>>().try_into().unwrap();
    shows(&found.unwrap(), base, size, |index| {
        let (mut from, mut axis, mut out) = ([0; R], 0, 0);
        for entry in &entries {
            match entry {
                Picked::New => out += 1,
                Picked::Index(at) => {
                    from[axis] = *at;
                    axis += 1;
                }
                Picked::Range(picked) => {
                    from[axis] = picked[index[out]];
                    (axis, out) = (axis + 1, out + 1);
                }
            }
        }
        from
    });
}

#[test]
fn every_form_of_a_slice_entry_picks_its_positions() {
    for base in bases::<1>() {
        let size = base.size()[0];
        slices(&base, (..,), &[range(0, size, 1, size)]);
        slices(&base, (NewAxis, .., NewAxis), &[new(), range(0, size, 1, size), new()]);
        slices(&base, (..=usize::MAX,), &[None]);
        slices(&base, (0..=usize::MAX,), &[None]);
        slices(&base, (usize::MAX..=usize::MAX,), &[None]);
        slices(&base, ((..=usize::MAX).step(-1),), &[None]);
        slices(&base, (usize::MAX,), &[None]);
        slices(&base, (0..usize::MAX,), &[None]);
        slices(&base, (usize::MAX..,), &[None]);
        for (start, end, step) in ranges() {
            slices(&base, (start,), &[index(start, size)]);
            slices(&base, (start, NewAxis), &[index(start, size), new()]);
            slices(&base, (start..end,), &[range(start, end, 1, size)]);
            slices(&base, (start..,), &[range(start, size, 1, size)]);
            slices(&base, (..end,), &[range(0, end, 1, size)]);
            slices(&base, (start..=end,), &[range(start, end + 1, 1, size)]);
            slices(&base, (..=end,), &[range(0, end + 1, 1, size)]);
            slices(&base, ((..).step(step),), &[range(0, size, step, size)]);
            slices(&base, ((start..end).step(step),), &[range(start, end, step, size)]);
            slices(&base, ((start..).step(step),), &[range(start, size, step, size)]);
            slices(&base, ((..end).step(step),), &[range(0, end, step, size)]);
            slices(&base, ((start..=end).step(step),), &[range(start, end + 1, step, size)]);
            slices(&base, ((..=end).step(step),), &[range(0, end + 1, step, size)]);
        }
    }
}

#[test]
fn the_entries_of_a_slice_work_together_as_they_do_alone() {
    slices(&Layout::contiguous([]).unwrap(), (NewAxis,), &[new()]);
    slices(&Layout::contiguous([]).unwrap(), (NewAxis, NewAxis), &[new(), new()]);
    let ranges = ranges();
    for (number, base) in bases::<2>().into_iter().enumerate() {
        let [m, n] = base.size().0;
        for (a, b, s) in rotating(&ranges, number, 23) {
            let i = number % 4;
            slices(&base, ((a..b).step(s), i), &[range(a, b, s, m), index(i, n)]);
            slices(&base, (i, (a..b).step(s)), &[index(i, m), range(a, b, s, n)]);
            slices(&base, (.., (a..b).step(s)), &[range(0, m, 1, m), range(a, b, s, n)]);
            slices(&base, ((a..b).step(s), (..).step(-1)), &[range(a, b, s, m), range(0, n, -1, n)]);
            slices(
                &base,
                (NewAxis, (..b).step(s), NewAxis, i, NewAxis),
                &[new(), range(0, b, s, m), new(), index(i, n), new()],
            );
            slices(&base, (i, i), &[index(i, m), index(i, n)]);
        }
    }
    for (number, base) in some_bases::<3>(3).into_iter().enumerate() {
        let [l, m, n] = base.size().0;
        let (i, j) = (number % 3, number % 4);
        slices(&base, (i, .., (..).step(-1)), &[index(i, l), range(0, m, 1, m), range(0, n, -1, n)]);
        slices(
            &base,
            ((..).step(-2), NewAxis, i, j..),
            &[range(0, l, -2, l), new(), index(i, m), range(j, n, 1, n)],
        );
        slices(&base, (1..1, i, ..), &[range(1, 1, 1, l), index(i, m), range(0, n, 1, n)]);
        slices(&base, (i, j, i), &[index(i, l), index(j, m), index(i, n)]);
    }
    for (number, base) in some_bases::<4>(2).into_iter().enumerate() {
        let [k, l, m, n] = base.size().0;
        let (i, j) = (number % 3, number % 4);
        let each = (i, (..).step(-1), j, NewAxis, (1..).step(2));
        slices(&base, each, &[index(i, k), range(0, l, -1, l), index(j, m), new(), range(1, n, 2, n)]);
        slices(
            &base,
            (.., i, ..=j, ..),
            &[range(0, k, 1, k), index(i, l), range(0, j + 1, 1, m), range(0, n, 1, n)],
        );
    }
}

#[test]
fn windows_run_along_their_axis_in_steps() {
    fn check<const R: usize, const N: usize>()
    where
        Dim<R>: Rank<Next = Dim<N>>,
        Dim<N>: RankMinusOne<Output = Dim<R>>,
    {
        let arguments: Vec<_> =
            indices([6, 5]).into_iter().chain([[1, usize::MAX], [2, MAX], [usize::MAX, 1]]).collect();
        for (number, base) in bases::<R>().into_iter().enumerate() {
            for axis in 0..R {
                for [len, step] in rotating(&arguments, number, [1, 1, 1, 23, 23][R]) {
                    let size = base.size()[axis];
                    let starts: Vec<usize> = match step {
                        0 => vec![],
                        _ => (0..size).step_by(step).filter(|start| start + len.min(9) <= size).collect(),
                    };
                    match base.windowed::<N>(axis, len, step) {
                        Ok(view) => {
                            assert!(len > 0 && step > 0 && len <= size);
                            let mut wanted: [usize; N] =
                                std::array::from_fn(|a| if a < R { base.size()[a] } else { len });
                            wanted[axis] = starts.len();
                            shows(&view, &base, wanted, |index| {
                                std::array::from_fn(|a| {
                                    if a == axis { starts[index[a]] + index[R] } else { index[a] }
                                })
                            });
                        }
                        Err(error) => {
                            assert!(
                                len == 0 || step == 0 || len > size,
                                "{len}, {step} on axis {axis} of {base:?}"
                            );
                            assert!(matches!(error, Error::Slice { .. }), "{error}");
                        }
                    }
                }
            }
        }
        assert!(matches!(Layout::contiguous([1; R]).unwrap().windowed(R, 1, 1), Err(Error::Axis { .. })));
    }
    check::<0, 1>();
    check::<1, 2>();
    check::<2, 3>();
    check::<3, 4>();
    check::<4, 5>();
}

#[test]
fn a_diagonal_takes_the_elements_where_two_indices_agree() {
    fn check<const R: usize, const M: usize>()
    where
        Dim<R>: RankMinusOne<Output = Dim<M>>,
    {
        let pairs = indices([R + 1; 2]);
        for (number, base) in bases::<R>().into_iter().enumerate() {
            for [first, second] in rotating(&pairs, number, [1, 1, 1, 5, 5][R]) {
                match base.diagonal(first, second) {
                    Ok(view) => {
                        assert!(first != second && first < R && second < R);
                        let others: Vec<usize> = (0..R).filter(|&a| a != first && a != second).collect();
                        let agree = base.size()[first].min(base.size()[second]);
                        let size =
                            std::array::from_fn(|a| others.get(a).map_or(agree, |&other| base.size()[other]));
                        shows(&view, &base, size, |index| {
                            std::array::from_fn(|a| {
                                index[others.iter().position(|&other| other == a).unwrap_or(M - 1)]
                            })
                        });
                    }
                    Err(error) => {
                        assert!(first == second || first == R || second == R);
                        assert!(matches!(error, Error::Axis { .. }), "{error}");
                    }
                }
            }
        }
    }
    check::<1, 0>();
    check::<2, 1>();
    check::<3, 2>();
    check::<4, 3>();
}

/// All sizes of rank `N` that hold `numel` elements; for none, those up to 2 with a 0 among them.
fn factorings<const N: usize>(numel: usize) -> Vec<[usize; N]> {
    fn split(numel: usize, axes: usize) -> Vec<Vec<usize>> {
        let parts = (1..=numel).filter(|part| numel.is_multiple_of(*part));
        match axes {
            0 if numel == 1 => vec![vec![]],
            0 => vec![],
            _ => parts
                .flat_map(|part| {
                    split(numel / part, axes - 1).into_iter().map(move |rest| [vec![part], rest].concat())
                })
                .collect(),
        }
    }
    match numel {
        0 => indices([3; N]).into_iter().filter(|size| size.contains(&0)).collect(),
        _ => split(numel, N).into_iter().map(|size| size.try_into().unwrap()).collect(),
    }
}

/// Whether some strides lead through `places`, in order: only the second place of each axis can be its
/// stride.
fn is_a_view_of<const N: usize>(size: [usize; N], places: &[i128]) -> bool {
    let step = |axis: usize| places[size[axis + 1..].iter().product::<usize>()] - places[0];
    let stride: [i128; N] = std::array::from_fn(|axis| if size[axis] > 1 { step(axis) } else { 0 });
    let along =
        indices(size).into_iter().map(|index| (0..N).map(|a| index[a] as i128 * stride[a]).sum::<i128>());
    along.zip(places).all(|(along, place)| places[0] + along == *place)
}

#[test]
fn reshaping_is_a_view_exactly_when_strides_exist_and_keeps_the_order() {
    fn to<const R: usize, const N: usize>(base: &Layout<R>, number: usize) {
        let old = places(base);
        for size in rotating(&factorings::<N>(old.len()), number, if R > 2 { 1 + N * N } else { 1 }) {
            match base.reshaped(size) {
                Ok(view) => {
                    assert_eq!(places(&view), old, "{base:?} to {view:?}");
                    let all = indices(base.size().0);
                    shows(&view, base, size, |index| all[Dim(size).linearize(index)]);
                }
                Err(error) => {
                    assert!(!is_a_view_of(size, &old), "{base:?} to {size:?}: {error}");
                    assert!(matches!(error, Error::NeedsCopy { .. }), "{error}");
                }
            }
        }
        let more = [old.len() + 1; N];
        match more.iter().try_fold(1_usize, |all, &size| all.checked_mul(size)) {
            Some(numel) if numel == old.len() => {}
            Some(_) => assert!(matches!(base.reshaped(more), Err(Error::Length { .. }))),
            None => assert!(matches!(base.reshaped(more), Err(Error::Overflow { .. }))),
        }
    }
    fn check<const R: usize>() {
        for (number, base) in bases::<R>().into_iter().enumerate() {
            // four of eight large layouts go to one rank each
            let wants = |n: usize| R < 3 || number % 8 == n;
            wants(0).then(|| to::<R, 0>(&base, number));
            wants(1).then(|| to::<R, 1>(&base, number));
            wants(2).then(|| to::<R, 2>(&base, number));
            wants(3).then(|| to::<R, 3>(&base, number));
            wants(4).then(|| to::<R, 4>(&base, number));
        }
    }
    each_rank!(check);
}

#[test]
fn reshaping_back_gives_the_positions_back() {
    for base in bases::<3>().into_iter().step_by(3) {
        let [l, m, n] = base.size().0;
        for size in [[l * m, n, 1], [l, m * n, 1], [1, l, m * n], [l * m * n, 1, 1]] {
            if let Ok(view) = base.reshaped(size) {
                assert_eq!(
                    places(&view.reshaped(base.size()).unwrap()),
                    places(&base),
                    "{base:?} by {view:?}"
                );
            }
        }
    }
}

// ---------------------------------------------------------------- formats

#[test]
fn a_preserved_format_keeps_the_order_of_dense_layouts_and_no_other() {
    fn check<const R: usize>() {
        for layout in bases::<R>() {
            let kept = layout.preserved();
            let plain = Layout::contiguous(layout.size()).unwrap();
            let wanted: Vec<i128> = match layout.is_non_overlapping_and_dense() {
                true => places(&layout).iter().map(|place| place - layout.offset() as i128).collect(),
                false => places(&plain),
            };
            assert_eq!((kept.size(), kept.offset(), places(&kept)), (layout.size(), 0, wanted), "{layout:?}");
            assert!(kept.is_non_overlapping_and_dense());
            assert_eq!(layout.in_format(MemoryFormat::Preserve), kept);
            assert_eq!(layout.in_format(MemoryFormat::Contiguous), plain);
        }
    }
    each_rank!(check);
    assert_eq!(MemoryFormat::default(), MemoryFormat::Preserve);
}

#[test]
fn channels_last_stores_the_channels_of_a_pixel_side_by_side() {
    for size in sizes::<4>() {
        let (layout, [_, channels, height, width]) = (Layout::channels_last(size).unwrap(), size);
        for [b, c, h, w] in indices(size) {
            assert_eq!(layout.position([b, c, h, w]), Some(((b * height + h) * width + w) * channels + c));
        }
        assert!(layout.is_channels_last() && layout.is_non_overlapping_and_dense());
    }
    for size in indices([4; 5]) {
        let (layout, [_, channels, depth, height, width]) = (Layout::channels_last_3d(size).unwrap(), size);
        for [b, c, d, h, w] in indices(size) {
            assert_eq!(
                layout.position([b, c, d, h, w]),
                Some((((b * depth + d) * height + h) * width + w) * channels + c)
            );
        }
        assert!(layout.is_channels_last_3d() && layout.is_non_overlapping_and_dense());
    }
}

#[test]
fn the_channels_last_queries_ask_the_positions_and_axes_of_size_1_never_decide() {
    let fresh = sizes().into_iter().map(|size| Layout::channels_last(size).unwrap());
    for layout in bases::<4>().into_iter().chain(fresh) {
        assert_eq!(layout.is_channels_last(), is_stored_in(&layout, [0, 2, 3, 1]), "{layout:?}");
    }
    let orders = orders::<5>();
    for (number, size) in indices([4; 5]).into_iter().enumerate() {
        for order in rotating(&orders, number, 29) {
            let layout = permuted(size, order);
            assert_eq!(layout.is_channels_last_3d(), is_stored_in(&layout, [0, 2, 3, 4, 1]), "{layout:?}");
        }
    }
    let odd = Layout::new([2, 1, 3, 1], [3, -7, 1, isize::MIN], 0).unwrap();
    assert!(odd.is_contiguous() && odd.is_channels_last() && odd.is_non_overlapping_and_dense());
    let empty = Layout::new([2, 0, 3, 1], [-5, 9, isize::MAX, isize::MIN], 0).unwrap();
    assert!(
        empty.is_contiguous()
            && empty.is_channels_last()
            && empty.is_non_overlapping_and_dense()
            && !empty.may_overlap()
    );
}

// ---------------------------------------------------------------- ranks

#[test]
fn the_rows_of_a_rank_follow_from_its_number() {
    fn rank<const R: usize>()
    where
        Dim<R>: Rank,
    {
        assert_eq!(<Dim<R> as Rank>::Len::USIZE, R);
        assert_eq!(<<Dim<R> as Rank>::Next as Rank>::Len::USIZE, R + 1);
    }
    fn removes<AXES: Default, const R: usize, const M: usize>(gone: &[usize])
    where
        Dim<R>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let mut marks = [false; R];
        assert_eq!(<Dim<R> as HasAxes<AXES>>::mark(AXES::default(), &mut marks), None);
        (0..R).for_each(|axis| assert_eq!(marks[axis], gone.contains(&axis)));
        assert_eq!(M, R - gone.len());
    }
    fn product<const L: usize, const R: usize, const M: usize>()
    where
        Dim<L>: Matmul<Dim<R>, Output = Dim<M>>,
    {
    }
    each_rank!(rank);
    rank::<8>();
    removes::<All, 0, 0>(&[]);
    removes::<All, 3, 0>(&[0, 1, 2]);
    removes::<Axis<0>, 1, 0>(&[0]);
    removes::<Axis<2>, 4, 3>(&[2]);
    removes::<Axis<7>, 8, 7>(&[7]);
    removes::<Last, 1, 0>(&[0]);
    removes::<Last, 8, 7>(&[7]);
    assert_eq!(<Dim<0> as HasAxes<Last>>::mark(Last, &mut []), Some(0), "rank 0 has no last axis");
    removes::<(Axis<0>, Axis<1>), 2, 0>(&[0, 1]);
    removes::<(Axis<0>, Axis<3>), 4, 2>(&[0, 3]);
    removes::<(Axis<0>, Axis<2>, Axis<3>), 4, 1>(&[0, 2, 3]);
    removes::<(Axis<1>, Axis<6>, Axis<7>), 8, 5>(&[1, 6, 7]);
    product::<1, 1, 0>();
    product::<2, 1, 1>();
    product::<1, 2, 1>();
    product::<2, 2, 2>();
    product::<3, 3, 3>();
    product::<4, 4, 4>();
}

// ---------------------------------------------------------------- the edge of isize

/// Products that cannot be counted are errors, everything below is exact; nothing panics, with overflow
/// checks or without.
#[test]
fn elements_are_counted_exactly_or_not_at_all() {
    let edges = [
        0,
        1,
        2,
        3,
        7,
        (1 << 31) - 1,
        1 << 31,
        1 << (usize::BITS * 5 / 8),
        1 << (usize::BITS - 2),
        MAX / 4,
        MAX / 4 + 1,
        MAX - 1,
        MAX,
        MAX + 1,
        usize::MAX,
    ];
    let product =
        |sizes: &[usize]| sizes.iter().try_fold(1u128, |product, &size| product.checked_mul(size as u128));
    for size in indices([edges.len(); 3]).into_iter().map(|at| at.map(|at| edges[at])) {
        let nonzero: Vec<usize> = size.into_iter().filter(|&n| n != 0).collect();
        let exact =
            product(&size).or(size.contains(&0).then_some(0)).and_then(|numel| usize::try_from(numel).ok());
        assert_eq!(Dim(size).checked_numel(), exact, "{size:?}");
        for element in [0, 1, 4, 16, usize::MAX] {
            let bytes = product(&nonzero).and_then(|numel| numel.checked_mul(element.max(1) as u128));
            let wanted = match bytes {
                Some(bytes) if bytes <= MAX as u128 => Ok(exact.unwrap()),
                _ => Err(Error::Overflow { op: "test", sizes: size.into(), element }),
            };
            assert_eq!(Dim(size).numel_of("test", element), wanted);
        }
        let counted = Dim(size).numel_of("test", 1);
        let last = size.map(|n| n.saturating_sub(1));
        match Layout::contiguous(size) {
            Ok(layout) if layout.numel() > 0 => {
                assert_eq!(counted, Ok(layout.numel()));
                assert_eq!(layout.position(last), Some(layout.numel() - 1));
                assert_eq!((layout.span(), layout.is_contiguous()), (0..layout.numel(), true));
                assert_eq!(
                    (Dim(size).linearize(last), Dim(size).delinearize(layout.numel() - 1)),
                    (layout.numel() - 1, Dim(last))
                );
            }
            Ok(layout) => assert_eq!((counted, layout.span()), (Ok(0), 0..0)),
            Err(error) => assert!(counted.is_err() && matches!(error, Error::Overflow { .. }), "{error}"),
        }
        // Wrapping arithmetic does not panic.
        let [a, b, c] = size;
        assert_eq!(Dim(size).prefix_products(), [1, a, a.wrapping_mul(b)]);
        assert_eq!(
            Dim(size).linearize(size),
            a.wrapping_mul(b).wrapping_add(b).wrapping_mul(c).wrapping_add(c)
        );
        assert!(!Dim(size).contains(size) && Dim(size).delinearize(usize::MAX) <= Dim([usize::MAX; 3]));
        assert_eq!(Dim(size).indices().next(), (!size.contains(&0)).then_some([0; 3]));
    }
}

#[test]
fn products_that_wrap_to_a_small_number_are_refused() {
    fn refused<const R: usize>(size: [usize; R], element: usize) {
        let overflow = |op, element| Error::Overflow { op, sizes: size.into(), element };
        assert_eq!(Dim(size).numel_of("test", element), Err(overflow("test", element)));
        if element == 1 {
            assert_eq!(Layout::contiguous(size), Err(overflow("contiguous", 1)));
            assert_eq!(Layout::new(size, [0; R], 0), Err(overflow("Layout::new", 1)));
            assert_eq!(
                Layout::contiguous([1; R]).unwrap().broadcast_to(size),
                Err(overflow("broadcast_to", 1))
            );
            assert_eq!(Layout::contiguous([1]).unwrap().reshaped(size), Err(overflow("reshape", 1)));
            assert_eq!(Layout::contiguous([0]).unwrap().reshaped(size), Err(overflow("reshape", 1)));
        }
    }
    refused([3, 7, 29, 36_760_123, 823_996_703], 1); // 2⁶⁴ + 1
    refused([2, 13, 419, 691, 823, 2_977_518_503], 1); // 2⁶⁴ + 14
    refused([MAX / 4 + 1], 4);
    refused([1 << (usize::BITS * 5 / 8), 1 << (usize::BITS * 5 / 8)], 1);
    refused([0, usize::MAX], 1);
    refused([usize::MAX, 0], 1);
    refused([1 << 31, 0, 1 << (usize::BITS / 2)], 1);
    refused([usize::MAX, usize::MAX, usize::MAX], 1);
    assert_eq!(Dim([MAX / 4]).numel_of("test", 4), Ok(MAX / 4));
    assert_eq!(Dim([0, usize::MAX]).checked_numel(), Some(0));
    assert_eq!(Layout::contiguous([0, (1 << 31) - 1]).unwrap().numel(), 0);
    assert!(matches!(Layout::channels_last([2, 1 << 31, 1, 1 << 31]), Err(Error::Overflow { .. })));
    assert!(matches!(Layout::channels_last_3d([2, 1 << 31, 1, 1, 1 << 31]), Err(Error::Overflow { .. })));
    let long = Layout::new([1 << (usize::BITS * 5 / 8)], [0], 0).unwrap();
    assert!(matches!(
        long.windowed::<2>(0, 1 << (usize::BITS * 5 / 8 - 1), 1),
        Err(Error::Overflow { op: "windows", .. })
    ));
}

#[test]
fn an_unused_stride_may_be_anything_and_never_overflows() {
    for stride in [1 << (usize::BITS - 2), isize::MAX, isize::MIN, isize::MIN + 1, -1] {
        let base = Layout::new([1, 3], [stride, 1], 0).unwrap();
        for step in [3, -3, isize::MAX, isize::MIN] {
            slices(&base, ((..).step(step), ..), &[range(0, 1, step, 1), range(0, 3, 1, 3)]);
        }
        shows(&base.windowed::<3>(0, 1, usize::MAX).unwrap(), &base, [1, 3, 1], |[i, j, _]| [i, j]);
        everything_holds(&base);
        let pair = Layout::new([1, 1], [stride; 2], MAX - 1).unwrap(); // the strides of a diagonal add up
        everything_holds(&pair);
        everything_holds(&Layout::new([3, 0], [stride; 2], MAX).unwrap()); // an empty layout uses none
    }
}

/// Runs every function of a layout of rank 2 and checks the results; by corners where it is large.
fn everything_holds(base: &Layout<2>) {
    let [m, n] = base.size().0;
    let ends = |n: usize| if n > 1 { vec![0, n - 1] } else { vec![0; n] };
    let corners = ends(m).into_iter().flat_map(|i| ends(n).into_iter().map(move |j| [i, j]));
    let corners: Vec<i128> = corners.map(|index| place(base, index)).collect();
    let span = match (corners.iter().min(), corners.iter().max()) {
        (Some(&low), Some(&high)) => low as usize..high as usize + 1,
        _ => base.offset()..base.offset(),
    };
    assert_eq!(base.span(), span, "{base:?}");
    shows(base, base, [m, n], |index| index);
    shows(&base.transposed(), base, [n, m], |[j, i]| [i, j]);
    shows(&base.reversed(0).unwrap(), base, [m, n], |[i, j]| [m - 1 - i, j]);
    shows(&base.reversed(1).unwrap(), base, [m, n], |[i, j]| [i, n - 1 - j]);
    shows(&base.lifted::<4>(), base, [1, 1, m, n], |[_, _, i, j]| [i, j]);
    shows(&base.inserted(1).unwrap(), base, [m, 1, n], |[i, _, j]| [i, j]);
    shows(&base.diagonal(0, 1).unwrap(), base, [m.min(n)], |[i]| [i, i]);
    if m == 1 {
        shows(&base.removed(0).unwrap(), base, [n], |[j]| [0, j]);
        if let Ok(view) = base.broadcast_to([5, n]) {
            shows(&view, base, [5, n], |[_, j]| [0, j]);
        }
    }
    for (start, end) in [(0, m), (m / 2, m), (m, m), (0, m.min(2))] {
        for step in [1, -1, 3, -3, isize::MAX, isize::MIN] {
            let by = step.unsigned_abs();
            let at = |i: usize| if step > 0 { start + i * by } else { end - 1 - i * by };
            let len = (end - start).div_ceil(by);
            shows(&base.ranged("test", 0, start, end, step).unwrap(), base, [len, n], |[i, j]| [at(i), j]);
            shows(&base.sliced(&((start..end).step(step), ..)).unwrap(), base, [len, n], |[i, j]| [at(i), j]);
        }
    }
    if m > 0 {
        shows(&base.sliced(&(m - 1, ..)).unwrap(), base, [n], |[j]| [m - 1, j]);
        for len in [1, m.min(2), m / 2 + 1, m] {
            for step in [1, 2, m, usize::MAX] {
                match base.windowed::<3>(0, len, step) {
                    Ok(view) => {
                        shows(&view, base, [(m - len) / step + 1, n, len], |[i, j, k]| [i * step + k, j])
                    }
                    Err(error) => assert!(matches!(error, Error::Overflow { .. }), "{error}"),
                }
            }
        }
    }
    for reshaped in
        [base.reshaped([m * n]).map(|x| x.lifted()), base.reshaped([1, m * n]), base.reshaped([m * n, 1])]
    {
        match reshaped {
            Ok(view) if m * n > 0 => {
                assert_eq!((place(&view, [0, 0]), view.span()), (base.offset() as i128, base.span()))
            }
            Ok(view) => assert_eq!(view.numel(), 0),
            Err(error) => assert!(matches!(error, Error::NeedsCopy { .. }), "{error}"),
        }
    }
    let kept = base.preserved();
    assert!(kept.is_non_overlapping_and_dense() && kept.span() == (0..m * n), "{base:?}");
    if m * n <= 4096 {
        let places = places(base);
        assert_eq!(base.is_contiguous(), is_consecutive(&places));
        assert_eq!(base.may_overlap(), !differ(&places));
    } else {
        assert!(base.may_overlap() || differ(&corners));
    }
}

#[test]
fn positions_at_the_edge_are_exact_or_refused() {
    let sizes = [0, 1, 2, 3, 1 << 31, 1 << (usize::BITS - 2), MAX, usize::MAX];
    let strides = [
        isize::MIN,
        isize::MIN + 1,
        -(1 << (usize::BITS - 2)),
        -1,
        0,
        1,
        3,
        1 << 31,
        1 << (usize::BITS - 2),
        isize::MAX - 1,
        isize::MAX,
    ];
    let max = MAX as i128;
    let offsets =
        [i128::MIN, i64::MIN as i128, -1, 0, 1, 1 << 62, max - 1, max, max + 1, u64::MAX as i128, i128::MAX];
    let lens = [0, 1, MAX - 1, MAX, MAX + 1, usize::MAX];
    let mut accepted = 0;
    for [m, n] in indices([sizes.len(); 2]).into_iter().map(|at| at.map(|at| sizes[at])) {
        for stride in indices([strides.len(); 2]).into_iter().map(|at| at.map(|at| strides[at])) {
            for offset in offsets {
                for len in lens {
                    let limit = len.min(MAX) as i128; // no memory is longer
                    let reach = |size: usize, stride: isize| (size as i128 - 1).checked_mul(stride as i128);
                    let fits = match (reach(m, stride[0]), reach(n, stride[1])) {
                        _ if Dim([m, n]).numel_of("test", 1).is_err() => false,
                        _ if m == 0 || n == 0 => 0 <= offset && offset <= limit,
                        (Some(i), Some(j)) => [0, i, j, i + j]
                            .into_iter()
                            .all(|step| (0..limit).contains(&offset.saturating_add(step))),
                        _ => unreachable!("the sizes can be counted"),
                    };
                    let found = Layout::within("test", Dim([m, n]), Stride(stride), offset, len);
                    assert_eq!(found.is_ok(), fits, "{m} {n} {stride:?} {offset} in {len}: {found:?}");
                    if let (Ok(layout), true) = (&found, len == MAX) {
                        accepted += 1;
                        everything_holds(layout);
                        assert_eq!(Layout::new([m, n], stride, layout.offset()), found);
                    }
                }
            }
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
