//! Operators that move elements: views, joined and repeated tensors, elements by index and mask, sorts.

use crate::check::{between, check, close, random};
use rankform::autograd::{Tape, grad};
use rankform::ops::{Add, QuantileMethod, Replace};
use rankform::prelude::*;

/// A constant of indices.
fn index<const RANK: usize>(tape: &Tape, size: [usize; RANK], values: &[i64]) -> Tensor<i64, RANK, Tape> {
    tape.constant(&Tensor::from_slice(values, size, &Cpu).unwrap()).unwrap()
}

/// A constant mask.
fn mask<const RANK: usize>(
    tape: &Tape,
    size: [usize; RANK],
    of: impl Fn(usize) -> bool,
) -> Tensor<bool, RANK, Tape> {
    let values: Vec<bool> = (0..size.iter().product()).map(of).collect();
    tape.constant(&Tensor::from_slice(&values, size, &Cpu).unwrap()).unwrap()
}

/// Products of a view with itself: the gradient reads the view and goes back through it.
macro_rules! squared {
    ($view:expr) => {{
        let view = $view;
        (view.lazy() * view).eval()
    }};
}

#[test]
fn views_are_views_of_the_gradient() {
    let x = random([3, 4, 5], 2);
    check("slice", &x, |x, _| squared!(x.slice((1..3, 2, ..))?));
    check("steps", &x, |x, _| squared!(x.slice(((..).step(2), (..).step(-1), (1..).step(3)))?));
    check("permuted", &x, |x, _| squared!(x.permuted([2, 0, 1])?));
    check("transposed", &x, |x, _| squared!(x.transposed()));
    check("reversed", &x, |x, _| squared!(x.reversed(Axis::<1>)));
    check("reshape", &x, |x, _| squared!(&x.reshape([6, 10])?));
    check("broadcast", &random([3, 1, 5], 3), |x, _| squared!(x.broadcast_to([3, 4, 5])?));
    check("lift", &random([5], 4), |x, tape| {
        let y = tape.constant(&random([3, 5], 5))?;
        (x.lift().lazy() * &y * x.lift()).eval()
    });
    check("an index", &x, |x, _| squared!(x.slice((.., 3, ..))?));
    check("diagonal", &random([4, 4, 3], 6), |x, _| squared!(x.diagonal(Axis::<0>, Axis::<1>)?));
}

#[test]
fn overlapping_windows_are_added() {
    let x = random([4, 9], 7);
    check("windows", &x, |x, _| squared!(x.windows(Axis::<1>, 4, 2)?));
    check("dense windows", &x, |x, _| squared!(x.windows(Axis::<1>, 5, 1)?));
    check("windows of rows", &x, |x, _| squared!(x.windows(Axis::<0>, 2, 1)?));
    check("copied windows", &x, |x, _| {
        let y = x.windows(Axis::<1>, 3, 1)?.copy()?;
        (y.lazy() * &y).eval()
    });
    check("summed windows", &x, |x, _| x.windows(Axis::<1>, 3, 1)?.sum(Axis::<2>));
    check("windows of a reversed view", &x, |x, _| {
        let y = x.reversed(Axis::<1>);
        squared!(y.windows(Axis::<1>, 4, 3)?)
    });
}

#[test]
fn copies_go_back() {
    let x = random([3, 4], 8);
    check("contiguous", &x, |x, _| squared!(&x.transposed().to_contiguous()?));
    check("to_shape", &x, |x, _| squared!(&x.transposed().to_shape([2, 6])?));
    check("concat", &x, |x, _| {
        let parts = [x.view(), x.view(), x.reversed(Axis::<0>)];
        squared!(&Tensor::concat(parts, Axis::<0>)?)
    });
    check("concat with constants", &x, |x, tape| {
        let c = tape.constant(&random([2, 4], 9))?;
        squared!(&Tensor::concat([c.view(), x.view(), c.view()], Axis::<0>)?)
    });
    check("stack", &x, |x, _| {
        let y = x.sin()?;
        squared!(&Tensor::stack([x.view(), y.view(), x.view()], Axis::<1>)?)
    });
    check("pad by a value", &x, |x, _| squared!(&x.pad([(1, 2), (0, 3)], Pad::Constant(0.5))?));
    check("pad by reflection", &x, |x, _| squared!(&x.pad([(1, 2), (2, 1)], Pad::Reflect)?));
    check("pad by symmetry", &x, |x, _| squared!(&x.pad([(1, 2), (2, 1)], Pad::Symmetric)?));
    check("pad by repetition", &x, |x, _| squared!(&x.pad([(1, 2), (2, 3)], Pad::Edge)?));
    check("pad around", &x, |x, _| squared!(&x.pad([(1, 2), (2, 3)], Pad::Wrap)?));
    check("roll", &x, |x, _| squared!(&x.roll(Axis::<1>, 3)?));
    check("repeat", &x, |x, _| squared!(&x.repeat(Axis::<1>, 3)?));
    check("repeat_each", &x, |x, tape| squared!(&x.repeat_each(Axis::<0>, &index(tape, [3], &[2, 0, 3]))?));
    check("tile", &x, |x, _| squared!(&x.tile([2, 3])?));
    check("split", &x, |x, _| {
        let [a, b] = x.split(Axis::<1>, [1, 3])?;
        squared!(&(a.lazy() * b).eval()?)
    });
    check("diff", &x, |x, _| squared!(&x.diff(Axis::<1>)?));
    check("tril", &x, |x, _| squared!(&x.tril(0)?));
    check("triu", &x, |x, _| squared!(&x.triu(1)?));
    check("diag", &random([4], 10), |x, _| squared!(&x.diag(1)?));
    check("diag_embed", &x, |x, _| squared!(&x.diag_embed::<3>(-1)?));
    check("block_diag", &x, |x, _| squared!(&Tensor::block_diag([x.view(), x.transposed()])?));
    check("copy_within", &x, |x, _| {
        let mut y = x.sin()?;
        y.copy_within(Axis::<1>, 0..2, 1)?;
        Ok(y)
    });
    check("pixel_shuffle", &random([1, 4, 2, 3], 11), |x, _| squared!(&x.pixel_shuffle(2)?));
    check("pixel_unshuffle", &random([1, 1, 4, 6], 12), |x, _| squared!(&x.pixel_unshuffle(2)?));
    check("unfold", &random([2, 2, 4, 5], 13), |x, _| {
        squared!(&x.unfold([2, 3], Conv::new().padding([1, 1]))?)
    });
    check("cartesian_prod", &random([3], 14), |x, _| {
        squared!(&Tensor::cartesian_prod([x.view(), x.view()])?)
    });
    check("combinations", &random([4], 15), |x, _| squared!(&x.combinations(2, false)?));
}

#[test]
fn elements_by_index_go_back_to_their_places() {
    let x = random([4, 3], 16);
    check("index_select", &x, |x, tape| {
        squared!(&x.index_select(Axis::<0>, &index(tape, [5], &[3, 0, 0, 2, 3]))?)
    });
    check("index_select of columns", &x, |x, tape| {
        squared!(&x.index_select(Axis::<1>, &index(tape, [4], &[1, 1, 0, 1]))?)
    });
    check("index_select of a view", &x, |x, tape| {
        let view = x.transposed();
        squared!(
            &view.slice(((..).step(-1), 1..))?.index_select(Axis::<1>, &index(tape, [4], &[2, 1, 0, 2]))?
        )
    });
    check("gather", &x, |x, tape| squared!(&x.gather(Axis::<0>, &index(tape, [2, 3], &[0, 3, 1, 0, 2, 3]))?));
    check("take", &x, |x, tape| squared!(&x.take(&index(tape, [2, 2], &[11, 0, 11, 5]))?));
    check("index", &x, |x, tape| {
        squared!(&x.index((&index(tape, [3], &[0, 3, 0]), &index(tape, [3], &[1, 2, 1])))?)
    });
    check("embedding", &x, |x, tape| squared!(&x.embedding::<2, 3>(&index(tape, [2, 2], &[1, 3, 1, 0]))?));
    check("masked_fill", &x, |x, tape| squared!(&x.masked_fill(&mask(tape, [4, 3], |k| k % 3 == 0), 2.0)?));
    check("masked_select", &x, |x, tape| squared!(&x.masked_select(&mask(tape, [4, 3], |k| k % 3 != 1))?));
    check("masked_select of a view", &x, |x, tape| {
        squared!(&x.transposed().masked_select(&mask(tape, [3, 4], |k| k % 2 == 0))?)
    });
    check("masked_scatter", &x, |x, tape| {
        let mut y = x.sin()?;
        let values = x.slice((1..3, ..))?.to_shape([6])?;
        y.masked_scatter(&mask(tape, [4, 3], |k| k % 4 == 1), &values)?;
        Ok(y)
    });
}

#[test]
fn gathers_of_repeated_and_overlapping_memory_are_added() {
    let x = random([1, 4], 17);
    check("index_select of a broadcast view", &x, |x, tape| {
        let wide = x.broadcast_to([5, 4])?;
        squared!(&wide.index_select(Axis::<1>, &index(tape, [3], &[3, 0, 3]))?)
    });
    check("gather of a broadcast view", &x, |x, tape| {
        let wide = x.broadcast_to([2, 4])?;
        squared!(&wide.gather(Axis::<1>, &index(tape, [2, 3], &[3, 0, 3, 1, 1, 0]))?)
    });
    check("gather of windows", &random([7], 18), |x, tape| {
        let windows = x.windows(Axis::<0>, 3, 1)?;
        squared!(&windows.index_select(Axis::<1>, &index(tape, [3], &[2, 0, 2]))?)
    });
    check("sort of a broadcast view", &x, |x, _| squared!(&x.broadcast_to([3, 4])?.sort(Axis::<1>)?));
    check("sort of windows", &random([7], 19), |x, _| {
        squared!(&x.windows(Axis::<0>, 4, 1)?.sort(Axis::<1>)?)
    });
    check("masked_select of windows", &random([6], 20), |x, tape| {
        squared!(&x.windows(Axis::<0>, 3, 1)?.masked_select(&mask(tape, [4, 3], |k| k % 3 != 1))?)
    });
}

#[test]
fn large_gathers_of_repeated_memory_are_exact_on_every_thread() -> Result<()> {
    // Each row of the view is the same memory, to which every thread would add.
    const ROWS: usize = 100_000;
    let x = Tensor::from([[1.0, 2.0, 3.0, 4.0]]);
    for _ in 0..5 {
        let gradient = grad(&x, |x, tape| {
            let wide = x.broadcast_to([ROWS, 4])?;
            wide.index_select(Axis::<1>, &index(tape, [4], &[3, 0, 3, 1]))?.sum(All)
        })?;
        assert_eq!(gradient.to_vec()?, [1.0, 1.0, 0.0, 2.0].map(|n| n * ROWS as f64));
        let gradient = grad(&x, |x, _| x.broadcast_to([ROWS, 4])?.sort_descending(Axis::<1>)?.sum(All))?;
        assert_eq!(gradient.to_vec()?, [ROWS as f64; 4]);
    }
    Ok(())
}

#[test]
fn scatters_go_back_to_values_and_to_the_cells_that_remain() {
    let x = random([4, 3], 21);
    check("scatter of sums", &x, |x, tape| {
        let mut y = (x.lazy() * 2.0).eval()?;
        y.scatter(Add, Axis::<0>, &index(tape, [2, 3], &[0, 3, 1, 0, 3, 3]), &x.slice((1..3, ..))?.copy()?)?;
        squared!(&y)
    });
    check("scatter by replacement", &x, |x, tape| {
        let mut y = (x.lazy() * 2.0).eval()?;
        y.scatter(
            Replace,
            Axis::<0>,
            &index(tape, [2, 3], &[0, 3, 1, 2, 1, 3]),
            &x.slice((1..3, ..))?.sin()?,
        )?;
        squared!(&y)
    });
    check("of several replacements the last counts", &x, |x, tape| {
        let mut y = (x.lazy() * 2.0).eval()?;
        y.scatter(
            Replace,
            Axis::<0>,
            &index(tape, [2, 3], &[0, 3, 1, 0, 3, 3]),
            &x.slice((1..3, ..))?.sin()?,
        )?;
        squared!(&y)
    });
    check("index_scatter", &x, |x, tape| {
        let mut y = x.copy()?;
        y.index_scatter(Add, Axis::<0>, &index(tape, [2], &[3, 3]), &x.slice((..2, ..))?.copy()?)?;
        squared!(&y)
    });
    check("index_put", &x, |x, tape| {
        let mut y = x.copy()?;
        let (rows, columns) = (index(tape, [3], &[0, 3, 0]), index(tape, [3], &[1, 2, 1]));
        let values = x.slice((1, ..))?.copy()?;
        y.index_put(Add, (&rows, &columns), &values)?;
        squared!(&y)
    });
    check("scatter of constants", &x, |x, tape| {
        let mut y = x.copy()?;
        let values = tape.constant(&random([2, 3], 22))?;
        y.scatter(Replace, Axis::<0>, &index(tape, [2, 3], &[0, 3, 1, 2, 1, 3]), &values)?;
        squared!(&y)
    });
    check("into constants", &x, |x, tape| {
        let mut y = tape.constant(&random([4, 3], 23))?.copy()?;
        y.scatter(
            Replace,
            Axis::<0>,
            &index(tape, [2, 3], &[0, 3, 1, 2, 1, 3]),
            &x.slice((1..3, ..))?.copy()?,
        )?;
        squared!(&y)
    });
}

#[test]
fn sorted_elements_go_back_to_their_places() {
    let x = random([3, 5], 24);
    check("sort", &x, |x, _| squared!(&x.sort(Axis::<1>)?));
    check("sort of columns", &x, |x, _| squared!(&x.sort_descending(Axis::<0>)?));
    check("sort of a view", &x, |x, _| squared!(&x.slice(((..).step(-1), (..).step(2)))?.sort(Axis::<1>)?));
    check("topk", &x, |x, _| squared!(&x.topk(Axis::<1>, 2)?.0));
    check("bottomk", &x, |x, _| squared!(&x.bottomk(Axis::<0>, 2)?.0));
    check("median", &x, |x, _| squared!(&x.median(Axis::<1>)?.0));
    check("mode", &between([3, 4], 25, 0.0, 9.0), |x, _| squared!(&x.mode(Axis::<1>)?.0));
    check("unique_consecutive", &x, |x, _| squared!(&x.to_shape([15])?.unique_consecutive()?.values));
    check("unique_slices", &x, |x, _| squared!(&x.unique_slices(Axis::<0>)?.values));
    check("quantile", &x, |x, _| squared!(&x.quantile(0.3, Axis::<1>, QuantileMethod::Linear)?));
    check("a lower quantile", &x, |x, _| squared!(&x.quantile(0.6, Axis::<0>, QuantileMethod::Lower)?));
}

#[test]
fn positions_and_counts_are_discrete() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([3, 4], 26))?;
    assert!(!tape.depends_on_variable(&x.argsort(Axis::<1>)?));
    assert!(!tape.depends_on_variable(&x.argmax(All)?));
    assert!(!tape.depends_on_variable(&x.lazy().greater(0.0).eval()?));
    assert!(!tape.depends_on_variable(&x.topk(Axis::<1>, 2)?.1));
    assert!(!tape.depends_on_variable(&x.nonzero()?));
    assert!(!tape.depends_on_variable(&x.cast::<i32>()?));
    close("floor", &grad(&random([3], 27), |x, _| (x.lazy().floor() + x).sum(All))?.to_vec()?, &[1.0; 3]);
    Ok(())
}
