//! Tensors joined, cut, padded, turned, repeated and counted, on every kind of layout, against one loop over
//! indices.

use crate::arrange::{SIZE, arranged, arranged_or_sampled, on_many_threads, on_one_thread, rows_past_caches};
use crate::sampled;
use crate::value::{Random, Value, differ};
use num_complex::Complex;
use rankform::bf16;
use rankform::ops::Pad;
use rankform::prelude::*;

/// `make(x)` of every layout of `x` is the tensor of `size(x)` with the elements that `element` returns.
fn each_layout<T: Value>(
    sizes: &[[usize; 3]],
    make: impl Fn(TensorView<T, 3>) -> Result<Tensor<T, 3>>,
    size: impl Fn([usize; 3]) -> [usize; 3],
    element: impl Fn(TensorView<T, 3>, [usize; 3]) -> T,
) {
    let mut random = Random(61);
    for &sizes in sizes {
        for x in arranged_or_sampled(sizes, || T::moderate(&mut random)) {
            let x_size = x.tensor.size().0;
            let y = make(x.tensor.view()).unwrap();
            assert_eq!(y.size(), size(x_size), "{} of {sizes:?}", x.kind);
            let expected: Vec<T> = y.size().indices().map(|p| element(x.tensor.view(), p)).collect();
            assert_eq!(
                differ(&y.to_vec().unwrap(), &expected),
                None,
                "{} of {sizes:?}, {}",
                T::DTYPE,
                x.kind
            );
        }
    }
}

const SIZES: &[[usize; 3]] = &[SIZE, [2, 3, 40], [1, 1, 1], [3, 1, 2]];

/// The source of the element at a padded position, by NumPy's definition: one step at a time.
fn source<T>(pad: Pad<T>, at: isize, n: usize) -> Option<usize> {
    let n = n as isize;
    let mut at = at;
    loop {
        at = match pad {
            _ if (0..n).contains(&at) => return Some(at as usize),
            Pad::Constant(_) => return None,
            Pad::Edge => at.clamp(0, n - 1),
            Pad::Wrap => at + if at < 0 { n } else { -n },
            Pad::Reflect if n == 1 => 0,
            Pad::Reflect => {
                if at < 0 {
                    -at
                } else {
                    2 * (n - 1) - at
                }
            }
            Pad::Symmetric => {
                if at < 0 {
                    -1 - at
                } else {
                    2 * n - 1 - at
                }
            }
        };
    }
}

fn pads<T: Value>(constant: T) {
    for widths in [[(0, 0); 3], [(1, 2), (0, 3), (2, 0)], [(9, 4), (11, 17), (23, 8)]] {
        for pad in [Pad::Constant(constant), Pad::Edge, Pad::Reflect, Pad::Symmetric, Pad::Wrap] {
            each_layout(
                SIZES,
                |x| x.pad(widths, pad),
                |size| std::array::from_fn(|a| size[a] + widths[a].0 + widths[a].1),
                |x, p| {
                    let from: [Option<usize>; 3] = std::array::from_fn(|a| {
                        source(pad, p[a] as isize - widths[a].0 as isize, x.size()[a])
                    });
                    match from {
                        [Some(i), Some(j), Some(k)] => x[[i, j, k]],
                        _ => constant,
                    }
                },
            );
        }
    }
}

#[test]
fn padding_follows_its_mode_for_any_width() -> Result<()> {
    pads::<f32>(-7.0);
    pads::<u8>(9);
    pads::<Complex<f64>>(Complex::new(1.0, -1.0));
    let empty = Tensor::<f32, 2>::zeros([0, 3], &Cpu)?;
    assert_eq!(empty.pad([(1, 1), (0, 1)], Pad::Constant(2.0))?, Tensor::full([2, 4], 2.0, &Cpu)?);
    assert_eq!(empty.pad([(0, 0), (2, 1)], Pad::Wrap)?.size(), [0, 6]);
    let error = empty.pad([(1, 0), (0, 0)], Pad::Edge).unwrap_err();
    assert_eq!(error.to_string(), "pad: axis 0 of sizes [0, 3] has nothing to repeat");
    assert!(matches!(empty.pad([(usize::MAX, 1), (0, 0)], Pad::Constant(0.0)), Err(Error::Overflow { .. })));
    assert_eq!(Tensor::from(3.0).pad([], Pad::Reflect)?.item()?, 3.0);
    Ok(())
}

#[test]
fn rolling_repeating_and_tiling_move_every_element_to_its_place() -> Result<()> {
    for axis in 0..3 {
        for shift in [0, 1, -1, 3, -17, isize::MAX, isize::MIN] {
            let from = |x: TensorView<bf16, 3>, mut p: [usize; 3]| {
                let n = x.size()[axis] as i128;
                p[axis] = (p[axis] as i128 - shift as i128).rem_euclid(n) as usize;
                x[p]
            };
            each_layout(SIZES, |x| x.roll_axis(axis, shift), |size| size, from);
        }
        for times in [0, 1, 4] {
            let size = |mut size: [usize; 3]| {
                size[axis] *= times;
                size
            };
            let from = |x: TensorView<i32, 3>, mut p: [usize; 3]| {
                p[axis] /= times;
                x[p]
            };
            each_layout(SIZES, |x| x.repeat_axis(axis, times), size, from);
        }
    }
    for times in [[1, 1, 1], [2, 3, 1], [1, 2, 5], [3, 0, 1]] {
        let from = |x: TensorView<f64, 3>, p: [usize; 3]| x[std::array::from_fn(|a| p[a] % x.size()[a])];
        each_layout(SIZES, |x| x.tile(times), |size| std::array::from_fn(|a| size[a] * times[a]), from);
    }
    let empty = Tensor::<f32, 2>::zeros([0, 3], &Cpu)?;
    assert_eq!((empty.roll(Axis::<0>, 2)?.size(), empty.tile([2, 2])?.size()), (dim![0, 3], dim![0, 6]));
    assert_eq!(Tensor::from(1).tile([])?.item()?, 1);
    assert!(matches!(Tensor::from([1]).tile([usize::MAX]), Err(Error::Overflow { .. })));
    let x = Tensor::from([1, 2]);
    assert!(
        matches!(x.roll_axis(1, 0), Err(Error::Axis { .. }))
            && matches!(x.repeat_axis(1, 2), Err(Error::Axis { .. }))
    );
    Ok(())
}

#[test]
fn tensors_are_joined_and_cut_along_any_axis() -> Result<()> {
    let mut random = Random(62);
    let all = arranged(SIZE, || f32::moderate(&mut random));
    let parts: Vec<_> = all.iter().map(|x| x.tensor.broadcast_to(SIZE).unwrap()).collect();
    let stacked = [
        Tensor::stack(&parts, Axis::<0>)?,
        Tensor::stack(&parts, Axis::<2>)?,
        Tensor::stack(&parts, Axis::<3>)?,
    ];
    for p in Dim(SIZE).indices() {
        let [i, j, k] = p;
        for (n, part) in parts.iter().enumerate() {
            assert_eq!(
                [stacked[0][[n, i, j, k]], stacked[1][[i, j, n, k]], stacked[2][[i, j, k, n]]],
                [part[p]; 3]
            );
        }
    }
    for axis in 0..3 {
        let joined = Tensor::concat_axis(&parts, axis)?;
        assert_eq!(joined.size()[axis], SIZE[axis] * parts.len());
        for (n, part) in parts.iter().enumerate() {
            let cut = joined.slice_axis(axis, n * SIZE[axis]..(n + 1) * SIZE[axis], 1)?;
            assert_eq!(cut.to_vec()?, part.to_vec()?);
        }
        let n = SIZE[axis];
        let [a, b, c, d] = joined.split_axis(axis, [1, 0, n, joined.size()[axis] - n - 1])?;
        assert_eq!((a.size()[axis], b.size()[axis], c.size()[axis]), (1, 0, n));
        assert_eq!(Tensor::concat_axis([a, b, c, d], axis)?, joined);
    }
    let x = Tensor::from([1, 2, 3]);
    assert!(matches!(
        Tensor::stack([x.view(), x.slice((..2,))?], Axis::<0>),
        Err(Error::Value { op: "stack", .. })
    ));
    assert!(matches!(
        Tensor::stack([] as [TensorView<f64, 1>; 0], Axis::<0>),
        Err(Error::Value { op: "stack", .. })
    ));
    assert!(matches!(x.split(Axis::<0>, [usize::MAX, 4]), Err(Error::Value { op: "split", .. })));
    let [] = Tensor::<f32, 1>::zeros([0], &Cpu)?.view().split(Axis::<0>, [])?;
    Ok(())
}

#[test]
fn triangles_keep_one_side_of_a_diagonal() -> Result<()> {
    for diagonal in [0, 1, -2, 5, -9, i64::MAX, i64::MIN] {
        let on = |p: [usize; 3]| p[2] as i64 - p[1] as i64;
        let lower = |x: TensorView<f32, 3>, p: [usize; 3]| if on(p) <= diagonal { x[p] } else { 0.0 };
        let upper = |x: TensorView<f32, 3>, p: [usize; 3]| if on(p) >= diagonal { x[p] } else { 0.0 };
        each_layout(SIZES, |x| x.tril(diagonal), |size| size, lower);
        each_layout(SIZES, |x| x.triu(diagonal), |size| size, upper);
    }
    let mask = Tensor::full([3, 3], true, &Cpu)?.tril(0)?;
    assert_eq!(mask.count(All)?.item()?, 6);
    // The elements left out may have any value.
    assert_eq!(Tensor::from([[1.0, f64::NAN], [2.0, 3.0]]).tril(0)?, Tensor::from([[1.0, 0.0], [2.0, 3.0]]));
    Ok(())
}

#[test]
fn diagonals_grids_and_differences_are_where_they_belong() -> Result<()> {
    let line = Tensor::from_fn([5], |[i]| i as i32 + 1, &Cpu)?;
    for diagonal in [-3isize, 0, 2] {
        let matrix = line.view().reversed(Axis::<0>).diag(diagonal)?;
        let n = 5 + diagonal.unsigned_abs();
        assert_eq!(matrix.size(), [n, n]);
        let (down, right) = ((-diagonal).max(0) as usize, diagonal.max(0) as usize);
        for [i, j] in matrix.size().indices() {
            let on = i >= down && j >= right && i - down == j - right && i - down < 5;
            assert_eq!(matrix[[i, j]], if on { 5 - (i - down) as i32 } else { 0 });
        }
    }
    assert!(matches!(line.diag(isize::MIN), Err(Error::Overflow { .. })));
    let [x, y, z] = TensorView::meshgrid([line.view(), line.slice((..2,))?, line.slice(((..).step(-1),))?])?;
    assert_eq!(x.size(), [5, 2, 5]);
    assert!(
        x.size().indices().all(|p| [x[p], y[p], z[p]] == [p[0] as i32 + 1, p[1] as i32 + 1, 5 - p[2] as i32])
    );
    let [] = TensorView::<f32, 1>::meshgrid([])?;
    let huge = Tensor::from([1u8]);
    let huge = huge.broadcast_to([1 << 40])?;
    assert!(matches!(TensorView::meshgrid([huge, huge]), Err(Error::Overflow { .. })));
    for axis in 0..3 {
        let size = |mut size: [usize; 3]| {
            size[axis] -= 1;
            size
        };
        let from = |x: TensorView<i16, 3>, p: [usize; 3]| {
            let mut after = p;
            after[axis] += 1;
            x[after] - x[p]
        };
        each_layout(SIZES, |x| x.diff_axis(axis), size, from);
    }
    assert_eq!(Tensor::<f32, 1>::zeros([0], &Cpu)?.diff(Axis::<0>)?.size(), [0]);
    Ok(())
}

#[test]
fn classes_and_counts_are_those_of_one_loop() -> Result<()> {
    let mut random = Random(63);
    let classes = Tensor::from_fn([6, 7], |_| random.below(5) as i64, &Cpu)?;
    for classes in [classes.view(), classes.transposed()] {
        let hot = classes.one_hot::<f32, _>(5)?;
        assert!(
            hot.size()
                .indices()
                .all(|[i, j, k]| hot[[i, j, k]] == f32::from(u8::from(classes[[i, j]] == k as i64)))
        );
    }
    assert_eq!(Tensor::from(2_i64).one_hot::<u8, _>(4)?.to_vec()?, [0, 0, 1, 0]);
    assert!(matches!(classes.one_hot::<f32, _>(4), Err(Error::Index { .. })));
    let numbers = Tensor::from_fn([100_000], |_| random.below(100) as i64, &Cpu)?;
    let every_other = numbers.slice(((..).step(-2),))?;
    let count = |n: i64| every_other.iter().filter(|x| **x == n).count() as i64;
    assert_eq!(every_other.bincount(101)?.to_vec()?, (0..101).map(count).collect::<Vec<_>>());
    let error = numbers.bincount(50).unwrap_err();
    assert!(matches!(error, Error::Index { .. }), "{error}");
    let weights = Tensor::from_fn([100_000], |[i]| i as f64, &Cpu)?;
    let sums = numbers.bincount_of(&weights, 100)?;
    let mut truth = [0.0; 100];
    numbers.iter().zip(weights.iter()).for_each(|(n, w)| truth[*n as usize] += w);
    assert_eq!(sums.to_vec()?, truth);
    let x = Tensor::from_fn([30, 40], |_| random.unit() as f32 * 1.5, &Cpu)?;
    let bins = x.transposed().histogram(8, -1.0, 1.0)?.to_vec()?;
    let inside = |x: &&f32| (-1.0..=1.0).contains(*x);
    assert_eq!(bins.iter().sum::<i64>(), x.iter().filter(inside).count() as i64);
    let third = x.iter().filter(|x| (-0.5..-0.25).contains(*x)).count() as i64;
    assert_eq!(bins[2], third);
    let edges = Tensor::from([0.0, 1.0, f64::NAN, -0.1, 1.1, f64::INFINITY, 0.25]);
    assert_eq!(edges.histogram(4, 0.0, 1.0)?.to_vec()?, [1, 1, 0, 1]);
    assert_eq!(Tensor::from([1_u8, 2, 2, 9]).histogram(3, 1.0, 4.0)?.to_vec()?, [1, 2, 0]);
    for (bins, low, high) in [(0, 0.0, 1.0), (3, 1.0, 1.0), (3, f64::NAN, 1.0), (3, 0.0, f64::INFINITY)] {
        assert!(matches!(edges.histogram(bins, low, high), Err(Error::Value { op: "histogram", .. })));
    }
    Ok(())
}

#[test]
fn padding_of_nothing_walks_no_runs() -> Result<()> {
    // As many runs as half of that, if they were walked.
    let none = Tensor::<u8, 2>::zeros([2, 0], &Cpu)?.pad([(1 << 50, 0), (0, 0)], Pad::Wrap)?;
    assert_eq!(none.size(), [(1 << 50) + 2, 0]);
    Ok(())
}

/// Of each element, an odd rectangle large enough for non-temporal stores, and a smaller square.
fn crosswise<T: Value + Comparable>(large: [usize; 2]) -> Result<()> {
    for [m, n] in [large, [70, 131], [33, 5], [5, 64]] {
        let x = Tensor::<i64, 2>::from_fn([m, n], |[i, j]| ((i * 31 + j * 17) % 113) as i64, &Cpu)?
            .cast::<T>()?;
        let values = x.to_vec()?;
        let at = |i: usize, j: usize| values[i * n + j];
        let check = |what: &str, found: Tensor<T, 2>, expected: &dyn Fn(usize, usize) -> T| {
            let [rows, columns] = found.size().0;
            let expected: Vec<T> = (0..rows * columns).map(|k| expected(k / columns, k % columns)).collect();
            assert_eq!(differ(&found.to_vec().unwrap(), &expected), None, "{what}, {} {m} × {n}", T::DTYPE);
        };
        let turned = x.transposed().to_contiguous()?;
        check("transposed", x.transposed().to_contiguous()?, &|i, j| at(j, i));
        let mut kept = Tensor::<T, 2>::zeros([n, m], &Cpu)?;
        kept.assign(x.transposed())?;
        check("assigned", kept, &|i, j| at(j, i));
        check("backwards", x.transposed().reversed(Axis::<1>).to_contiguous()?, &|i, j| at(m - 1 - j, i));
        check("every second", x.slice((.., (..).step(2)))?.to_contiguous()?, &|i, j| at(i, 2 * j));
        check("every third, backwards", x.slice((.., (..).step(-3)))?.to_contiguous()?, &|i, j| {
            at(i, n - 1 - 3 * j)
        });
        check("a column", x.slice((.., 2..3))?.broadcast_to([m, n])?.to_contiguous()?, &|i, _| at(i, 2));
        check("side by side", Tensor::concat([x.view(), x.view()], Axis::<1>)?, &|i, j| at(i, j % n));
        // The same inside an expression.
        let larger = |a: T, b: T| if a > b { a } else { b };
        check("with the transposed", x.maximum(turned.transposed())?, &|i, j| at(i, j));
        check("a transposed operand", turned.maximum(x.reversed(Axis::<1>).transposed())?, &|i, j| {
            larger(at(j, i), at(j, n - 1 - i))
        });
        check("with a column", x.maximum(x.slice((.., 1..2))?)?, &|i, j| larger(at(i, j), at(i, 1)));
        check("with a row", x.maximum(x.slice((1..2, ..))?)?, &|i, j| larger(at(i, j), at(1, j)));
        let steps = x.slice((.., (..).step(2)))?;
        check("steps", steps.maximum(steps.reversed(Axis::<0>))?, &|i, j| {
            larger(at(i, 2 * j), at(m - 1 - i, 2 * j))
        });
    }
    Ok(())
}

#[test]
fn transposed_rows_are_copied_to_their_places_in_any_width() -> Result<()> {
    on_many_threads(|| crosswise::<f64>(if cfg!(rankform_unoptimized) { [365, 363] } else { [1457, 1451] }))?;
    crosswise::<f32>([300, 301])?;
    crosswise::<bf16>([61, 207])?;
    crosswise::<i16>([300, 301])?;
    crosswise::<u8>([300, 301])
}

#[test]
fn channels_go_to_the_last_axis_and_back() -> Result<()> {
    for size in [[2, 64, 7, 9], [3, 3, 40, 50], [1, 200, 5, 5], [5, 70, 160, 80]] {
        let x = Tensor::from_fn(size, |[n, c, h, w]| (n * 1000 + c * 100 + h * 10 + w) as f32, &Cpu)?;
        let last = x.permuted([0, 2, 3, 1])?.to_contiguous()?;
        let mut places = last.iter();
        let [batch, channels, height, width] = size;
        for n in 0..batch {
            for h in 0..height {
                for w in 0..width {
                    assert!(
                        (0..channels)
                            .all(|c| *places.next().unwrap() == (n * 1000 + c * 100 + h * 10 + w) as f32),
                        "{size:?}"
                    );
                }
            }
        }
        assert_eq!(last.permuted([0, 3, 1, 2])?.to_contiguous()?.to_vec()?, x.to_vec()?, "{size:?}");
    }
    Ok(())
}

#[test]
fn strided_inputs_are_read_for_large_outputs() -> Result<()> {
    elementwise! {
        fn mixed(x, y, z) -> (T, bool) where Number { (x * y + z + x, x.eq(z)) }
    }
    // Elements of 16 bytes: fewer of them are past the caches.
    fn check([m, n]: [usize; 2], step: isize) -> Result<()> {
        let wide = step.unsigned_abs();
        let at = |i: usize, j: usize| Complex::new((i * 7 + j) as f64, (j % 5) as f64);
        let x = Tensor::from_fn([m, n * wide], |[i, j]| at(i, j), &Cpu)?;
        let (stepped, row) = (x.slice((.., (..).step(step)))?, x.slice((.., ..n))?);
        let (sum, same) = apply_many(mixed, (stepped, row, stepped))?;
        for ([i, j], (sum, same)) in Dim([m, n]).indices().zip(sum.iter().zip(same.iter())) {
            let x = at(i, if step > 0 { j * wide } else { n * wide - 1 - j * wide });
            assert!(*sum == x * at(i, j) + x + x && *same, "{i}, {j} in steps of {step}");
        }
        Ok(())
    }
    let work = || {
        for step in [2, 3, -1, -4, 5] {
            check([rows_past_caches(2050, 16), 2050], step)?;
        }
        // Rows that begin anywhere in a cache line.
        check([rows_past_caches(2049, 16) + 1, 2049], 3)?;
        check([rows_past_caches(33, 16), 33], 2)?;
        // Elements of one row are interleaved with those of another.
        let pairs =
            Tensor::from_fn([rows_past_caches(2, 16), 2], |[i, j]| Complex::new(i as f64, j as f64), &Cpu)?;
        let sum = (pairs.lazy() * Complex::new(2.0, 0.0)).eval()?;
        let turned = (pairs.transposed().lazy() * Complex::new(2.0, 0.0)).eval()?;
        assert!(turned.transposed().iter().eq(sum.iter()));
        Ok(())
    };
    on_one_thread(work)?;
    on_many_threads(work)
}

#[test]
fn large_results_are_those_of_small_ones() -> Result<()> {
    elementwise! {
        fn wave(x, y) -> (T, bool) where Float { (x.sin() * y, x.lt(y)) }
        fn product(x, y) -> (bool, T) where Number { (x.eq(y), x * y) }
    }
    fn check([m, n]: [usize; 2], kinds: &[&str]) -> Result<()> {
        // Some numbers with a sine outside the fast path.
        let at = |i: usize, j: usize| {
            if (i * n + j) % 70_001 == 5 { 1e300 } else { ((i * 31 + j * 17) % 1009) as f64 - 500.0 }
        };
        let x = Tensor::from_fn([m, n], |[i, j]| at(i, j), &Cpu)?;
        let (row, column) =
            (x.slice((m - 1..m, ..))?.broadcast_to([m, n])?, x.slice((.., n - 1..n))?.broadcast_to([m, n])?);
        let one = x.slice((0..1, 3..4))?.broadcast_to([m, n])?;
        let all = [("itself", x.view()), ("a row", row), ("a column", column), ("one element", one)];
        let some = all.into_iter().filter(|(what, _)| kinds.contains(what));
        for (what, y) in sampled(some, 3) {
            let (values, less) = apply_many(wave, (x.view(), y))?;
            // Lines that begin where cache lines do not.
            let mut wide = Tensor::<f64, 2>::zeros([m, n + 1], &Cpu)?;
            wide.view_mut()?.slice((.., 1..))?.assign(x.lazy().sin() * y)?;
            // Pieces that stay in the caches.
            let cuts = (0..m).step_by(37).flat_map(|top| (0..n).step_by(50_000).map(move |left| (top, left)));
            for (top, left) in cuts {
                let (rows, columns) = (top..m.min(top + 37), left..n.min(left + 50_000));
                let part = (rows.clone(), columns.clone());
                let (expected, expected_less) =
                    apply_many(wave, (x.slice(part.clone())?, y.slice(part.clone())?))?;
                let same = |found: TensorView<f64, 2>| {
                    found.iter().zip(expected.iter()).all(|(a, b)| a.to_bits() == b.to_bits())
                };
                assert!(same(values.slice(part.clone())?), "{m} × {n} with {what}, from {top}, {left}");
                let beside = (rows, columns.start + 1..columns.end + 1);
                assert!(
                    same(wide.slice(beside)?),
                    "{m} × {n} with {what}, beside a column, from {top}, {left}"
                );
                assert!(
                    less.slice(part)?.iter().eq(expected_less.iter()),
                    "{m} × {n} below {what}, from {top}, {left}"
                );
            }
            assert!(wide.slice((.., 0..1))?.iter().all(|&x| x == 0.0), "what stands between lines");
        }
        Ok(())
    }
    on_many_threads(|| {
        check([rows_past_caches(2050, 8), 2050], &["itself", "a row", "one element"])?;
        check([rows_past_caches(128, 8), 128], &["a row"])?;
        check([rows_past_caches(1487, 8), 1487], &["a column"])?;
        check([1, 50 + rows_past_caches(1, 8)], &["itself"])?;
        // The widest elements with the narrowest, which come first.
        let rows = rows_past_caches(2050, 16);
        let x =
            Tensor::from_fn([rows, 2050], |[i, j]| Complex::new((i * 7 + j) as f64, (j % 5) as f64), &Cpu)?;
        let (equal, times) = apply_many(product, (&x, x.reversed(Axis::<0>)))?;
        for ([i, j], (equal, times)) in Dim([rows, 2050]).indices().zip(equal.iter().zip(times.iter())) {
            let (x, y) = (x[[i, j]], x[[rows - 1 - i, j]]);
            assert!(*equal == (x == y) && *times == x * y, "{i}, {j}");
        }
        Ok(())
    })
}

#[test]
fn a_short_broadcast_row_equals_its_copies() -> Result<()> {
    elementwise! {
        fn both(x, y) -> (T, bool) where Float { (x * y + x, x.lt(y)) }
    }
    fn check<const RANK: usize>(size: [usize; RANK], of_row: [usize; RANK]) -> Result<()> {
        let number =
            |index: [usize; RANK]| index.iter().fold(7, |sum, &i| (sum * 31 + i) % 4093) as f64 - 2000.0;
        let (mut x, row) = (Tensor::from_fn(size, number, &Cpu)?, Tensor::from_fn(of_row, number, &Cpu)?);
        // Contiguous, and with stride −2 from the last element.
        let doubled = Tensor::from_fn(of_row.map(|n| 2 * n), |index| number(index) - 1.0, &Cpu)?;
        let mut stepped = doubled.view();
        for (axis, n) in of_row.into_iter().enumerate() {
            stepped = stepped.slice_axis(axis, 0..2 * n, 2)?.reversed_axis(axis)?;
        }
        for row in [row.view(), stepped] {
            let wide = row.broadcast_to(size)?;
            let copies = Tensor::from_fn(size, |index| wide[index], &Cpu)?;
            let bits = |t: &Tensor<f64, RANK>| t.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let ((found, less), (expected, expected_less)) =
                (apply_many(both, (&x, wide))?, apply_many(both, (&x, &copies))?);
            assert!(
                bits(&found) == bits(&expected) && less.iter().eq(expected_less.iter()),
                "{size:?} with {row:?}"
            );
            let narrow = (x.lazy().cast::<f32>() * row.lazy().cast::<f32>()).eval()?;
            assert!(
                narrow.iter().eq((x.lazy().cast::<f32>() * copies.lazy().cast::<f32>()).eval()?.iter()),
                "narrow, {size:?}"
            );
            let two = ((x.lazy() - row) / (row.lazy().abs() + 1.0)).eval()?;
            assert_eq!(
                bits(&two),
                bits(&((x.lazy() - &copies) / (copies.lazy().abs() + 1.0)).eval()?),
                "twice, {size:?}"
            );
            let mut there = x.copy()?;
            there += row;
            x = &x + &copies;
            assert_eq!(bits(&there), bits(&x), "in place, {size:?}");
        }
        Ok(())
    }
    // Several that stay, of other widths, one of them a single element.
    fn mixed([m, n]: [usize; 2]) -> Result<()> {
        let x = Tensor::from_fn([m, n], |[i, j]| (i * 37 + j * 5) as u8, &Cpu)?;
        let (narrow, wide) =
            (Tensor::from_fn([n], |[j]| j as u8, &Cpu)?, Tensor::from_fn([n], |[j]| j as f64 - 3.5, &Cpu)?);
        let (one, complex) =
            (Tensor::from([[2.5f32]]), Tensor::from_fn([n], |[j]| Complex::new(j as f32, -1.0), &Cpu)?);
        let one = one.broadcast_to([m, n])?;
        let fused =
            ((x.lazy() + narrow.lift()).cast::<f64>() * wide.lift() - one.lazy().cast::<f64>()).eval()?;
        let turned = Tensor::from_fn([m, n], |[i, j]| Complex::new(i as f32, j as f32), &Cpu)?;
        let product = &turned * complex.lift();
        for ([i, j], (found, product)) in Dim([m, n]).indices().zip(fused.iter().zip(product.iter())) {
            assert_eq!(
                *found,
                f64::from(x[[i, j]].wrapping_add(narrow[[j]])) * wide[[j]] - 2.5,
                "{m} × {n} at {i}, {j}"
            );
            assert_eq!(*product, turned[[i, j]] * complex[[j]], "complex, {m} × {n} at {i}, {j}");
        }
        Ok(())
    }
    on_many_threads(|| {
        for size in [[50, 1], [1000, 3], [100, 65], [300, 127], [70, 250]] {
            mixed(size)?;
        }
        for [m, n] in [[2, 1], [5, 3], [999, 7], [1023, 64], [77, 300], [3, 1024], [2, 1025]] {
            check([m, n], [1, n])?;
            check([n, m], [n, 1])?;
        }
        check([4, 300, 3], [4, 1, 3])?;
        check([4, 300, 3], [1, 1, 3])?;
        check([40, 5, 3], [40, 1, 3])?;
        check([3, 2, 200, 5], [3, 1, 1, 5])?;
        check([3, 2, 200, 5], [1, 2, 1, 5])?;
        check([3, 2, 2, 70, 9], [3, 1, 2, 1, 9])?;
        // Past the caches.
        check([rows_past_caches(3, 8), 3], [1, 3])?;
        check([rows_past_caches(200, 8), 200], [1, 200])
    })
}

#[test]
fn selected_rows_go_past_the_caches() -> Result<()> {
    let x = Tensor::from_fn([50, 1101], |[i, j]| (i * 2000 + j) as f64, &Cpu)?;
    let count = rows_past_caches(1101, 8);
    let index = Tensor::from_fn([count], |[k]| (k * 7 % 50) as i64, &Cpu)?;
    let rows = on_many_threads(|| x.index_select(Axis::<0>, &index))?;
    assert!(
        Dim([count, 1101]).indices().zip(rows.iter()).all(|([k, j], &x)| x == (k * 7 % 50 * 2000 + j) as f64)
    );
    Ok(())
}

#[test]
fn large_outputs_come_with_other_outputs() -> Result<()> {
    elementwise! { fn parts(x, y, z) -> (T, bool, T) where Number { (x * y + z, x.eq(y), x - z) } }
    let [m, n] = [rows_past_caches(2050, 4), 2050];
    let x = Tensor::from_fn([m, n], |[i, j]| (i * 7 + j) as i32, &Cpu)?;
    let (column, row) = (
        Tensor::from_fn([m, 1], |[i, _]| i as i32, &Cpu)?,
        Tensor::from_fn([1, n], |[_, j]| j as i32 * 3, &Cpu)?,
    );
    let work = || apply_many(parts, (&x, &column, &row));
    for (sum, equal, rest) in [on_one_thread(work)?, on_many_threads(work)?] {
        for ([i, j], ((sum, equal), rest)) in
            Dim([m, n]).indices().zip(sum.iter().zip(equal.iter()).zip(rest.iter()))
        {
            let (x, column, row) = ((i * 7 + j) as i32, i as i32, j as i32 * 3);
            assert!((*sum, *equal, *rest) == (x * column + row, x == column, x - row), "{i}, {j}");
        }
    }
    Ok(())
}
