//! Every function that ends in `_into` writes what its sibling returns, whatever the strides, and nothing beside it.

use crate::value::Random;
use rankform::ops::attention::Attention;
use rankform::ops::conv::Conv;
use rankform::ops::pool::Pool;
use rankform::ops::{CumSum, Pad, Sum};
use rankform::prelude::*;
use std::fmt::Debug;

/// No result here has this element.
const BESIDE: i16 = 7777;

/// The part of a larger tensor that has these sizes: axes in reverse order, every second position, from the end.
fn part<T: Element, const RANK: usize>(whole: &mut Tensor<T, RANK>, size: Dim<RANK>) -> Result<TensorViewMut<'_, T, RANK>> {
    let mut view = whole.view_mut()?.transposed();
    for axis in 0..RANK {
        view = view.slice_axis(axis, 1..2 * size[axis] + 1, -2)?;
    }
    Ok(view)
}

fn check<T, const RANK: usize>(name: &str, expected: Result<Tensor<T, RANK>>, into: impl Fn(TensorViewMut<'_, T, RANK>) -> Result<()>)
where
    T: Number + Debug + PartialEq + From<i16>,
{
    let expected = expected.unwrap_or_else(|error| panic!("{name}: {error}"));
    let (size, beside) = (expected.size(), T::from(BESIDE));
    assert!(!expected.to_vec().unwrap().contains(&beside), "{name}");

    let mut whole = Tensor::full(size, beside, &Cpu).unwrap();
    into(whole.view_mut().unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(whole, expected, "{name}");

    let around = Dim(std::array::from_fn::<_, RANK, _>(|axis| 2 * size[RANK - 1 - axis] + 1));
    let mut around = Tensor::full(around, beside, &Cpu).unwrap();
    into(part(&mut around, size).unwrap()).unwrap_or_else(|error| panic!("{name}, in steps: {error}"));
    assert_eq!(part(&mut around, size).unwrap().as_view().copy().unwrap(), expected, "{name}, in steps");
    let untouched = around.to_vec().unwrap().iter().filter(|&&element| element == beside).count();
    assert_eq!(untouched, around.numel() - expected.numel(), "{name}, in steps: what is beside");

    for axis in 0..RANK {
        let mut other = size;
        other.0[axis] += 1;
        let mut other = Tensor::full(other, beside, &Cpu).unwrap();
        let error = into(other.view_mut().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Output { .. }) || name == "eval", "{name}: {error}");
        assert!(other.to_vec().unwrap().iter().all(|&element| element == beside), "{name}: written in spite of {error}");
    }
}

fn tensor<const RANK: usize>(random: &mut Random, size: [usize; RANK]) -> Tensor<f32, RANK> {
    Tensor::from_fn(size, |_| random.below(41) as f32 * 0.25 - 5.0, &Cpu).unwrap()
}

elementwise! {
    /// A sum of three.
    fn three(x, y, z) { x + y * z }
    /// Sum and difference.
    fn both(x, y) -> (T, T) { (x + y, x - y) }
}

#[test]
fn elements_are_moved_into_what_is_there() -> Result<()> {
    let random = &mut Random(5);
    let (x, y) = (tensor(random, [5, 7]), tensor(random, [3, 7]));
    let index = Tensor::from([4_i64, 0, 4]);
    let parts = [x.view(), y.view(), x.view()];
    check("concat", Tensor::concat(&parts, Axis::<0>), |out| Tensor::concat_into(&parts, Axis::<0>, out));
    let parts = [x.view(), x.reversed(Axis::<0>)];
    check("stack", Tensor::stack(&parts, Axis::<1>), |out| Tensor::stack_into(&parts, Axis::<1>, out));
    for pad in [Pad::Constant(1.5), Pad::Edge, Pad::Reflect, Pad::Symmetric, Pad::Wrap] {
        check("pad", x.pad([(2, 1), (0, 3)], pad), |out| x.pad_into([(2, 1), (0, 3)], pad, out));
    }
    let empty = Tensor::<f32, 2>::zeros([0, 3], &Cpu)?;
    check("pad", empty.pad([(1, 1), (0, 1)], Pad::Constant(2.0)), |out| empty.pad_into([(1, 1), (0, 1)], Pad::Constant(2.0), out));
    check("pad", empty.pad([(0, 0), (1, 1)], Pad::Edge), |out| empty.pad_into([(0, 0), (1, 1)], Pad::Edge, out));
    check("roll", x.roll(Axis::<1>, -3), |out| x.roll_into(Axis::<1>, -3, out));
    check("repeat", x.repeat(Axis::<0>, 3), |out| x.repeat_into(Axis::<0>, 3, out));
    check("tile", x.tile([2, 3]), |out| x.tile_into([2, 3], out));
    check("index_select", x.index_select(Axis::<0>, &index), |out| x.index_select_into(Axis::<0>, &index, out));
    let places = Tensor::from_fn([5, 2], |[i, j]| ((3 * i + 5 * j) % 7) as i64, &Cpu)?;
    check("gather", x.gather(Axis::<1>, &places), |out| x.gather_into(Axis::<1>, &places, out));
    check("take", x.transposed().take(&places), |out| x.transposed().take_into(&places, out));
    let none = Tensor::from_fn([], |[]| 12_i64, &Cpu)?;
    check("take one", x.take(&none), |out| x.take_into(&none, out));
    check("embedding", y.embedding(&places.minimum(2)?), |out| y.embedding_into(&places.minimum(2)?, out));
    check("embedding of one", x.transposed().embedding(&none.lazy().rem(7).eval()?), |out| {
        x.transposed().embedding_into(&none.lazy().rem(7).eval()?, out)
    });
    // What fails while it is written leaves an error, and memory that can be read.
    let outside = Tensor::from([0_i64, 5]);
    let mut out = Tensor::<f32, 2>::zeros([2, 7], &Cpu)?;
    let error = x.index_select_into(Axis::<0>, &outside, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "index_select_into: index [5] is outside sizes [5]");
    Ok(())
}

#[test]
fn lines_are_ordered_and_scanned_into_what_is_there() -> Result<()> {
    let random = &mut Random(6);
    for size in [[5, 7], [3, 300], [40, 2], [0, 4]] {
        let x = tensor(random, size);
        check("sort", x.sort(Axis::<1>), |out| x.sort_into(Axis::<1>, out));
        check("sort_descending", x.sort_descending(Axis::<0>), |out| x.sort_descending_into(Axis::<0>, out));
        check("argsort", x.argsort(Axis::<0>), |out| x.argsort_into(Axis::<0>, out));
        check("argsort_descending", x.argsort_descending(Axis::<1>), |out| x.argsort_descending_into(Axis::<1>, out));
        let (values, places) = (x.topk(Axis::<1>, 2)?, x.bottomk(Axis::<1>, 2)?);
        check("topk", Ok(values.0.copy()?), |out| x.topk_into(Axis::<1>, 2, out, &mut Tensor::zeros(values.1.size(), &Cpu)?));
        check("topk", Ok(values.1.copy()?), |out| x.topk_into(Axis::<1>, 2, &mut Tensor::zeros(values.0.size(), &Cpu)?, out));
        check("bottomk", Ok(places.1.copy()?), |out| x.bottomk_into(Axis::<1>, 2, &mut Tensor::zeros(places.0.size(), &Cpu)?, out));
        check("cumsum", x.cumsum(Axis::<1>), |out| x.cumsum_into(Axis::<1>, out));
        check("cumsum of an expression", (x.lazy() * 2.0).cumsum(Axis::<0>), |out| (x.lazy() * 2.0).scan_into(CumSum, Axis::<0>, out));
        check("scan_exclusive", x.scan_exclusive(Sum, Axis::<1>), |out| x.scan_by_into(Sum, 1, true, out));
        let centred = x.lazy() - x.mean_along(Axis::<1>);
        check("scan by rows", centred.cumsum(Axis::<1>), |out| centred.scan_into(CumSum, Axis::<1>, out));
    }
    let x = tensor(random, [3, 4]);
    let error = x.scan_by_into(Sum, 2, false, &mut Tensor::zeros([3, 4], &Cpu)?).unwrap_err();
    assert!(matches!(error, Error::Axis { axis: 2, .. }), "{error}");
    Ok(())
}

#[test]
fn values_are_computed_into_what_is_there() -> Result<()> {
    let random = &mut Random(7);
    for size in [[5, 7], [33, 70], [1, 1]] {
        let (x, y) = (tensor(random, size), tensor(random, size));
        // What stretches is written to larger sizes too.
        if size != [1, 1] {
            check("eval", (x.lazy() * &y + 1.0).eval(), |out| (x.lazy() * &y + 1.0).eval_into(out));
        }
        check("apply", apply(three, (&x, &y, 0.5_f32)), |out| apply_into(three, (&x, &y, 0.5_f32), out));
        let (sums, differences) = apply_many(both, (&x, &y))?;
        check("apply_many", Ok(sums), |out| apply_many_into(both, (&x, &y), (out, &mut Tensor::zeros(size, &Cpu)?)));
        check("apply_many", Ok(differences), |out| apply_many_into(both, (&x, &y), (&mut Tensor::zeros(size, &Cpu)?, out)));
        check("mean", x.mean(Axis::<1>), |out| x.mean_into(Axis::<1>, out));
        check("softmax", x.softmax(Axis::<1>), |out| x.softmax_into(Axis::<1>, out));
        check("log_softmax", x.view().log_softmax(All), |out| x.view().log_softmax_into(All, out));
        check("layer_norm", x.layer_norm(Axis::<0>, 1e-3), |out| x.layer_norm_into(Axis::<0>, 1e-3, out));
        check("rms_norm", x.rms_norm(Axis::<1>, 1e-3), |out| x.rms_norm_into(Axis::<1>, 1e-3, out));
        check("normalize", x.normalize(Axis::<1>, 1e-3), |out| x.normalize_into(Axis::<1>, 1e-3, out));
        check("matmul", x.matmul(y.transposed()), |out| x.matmul_into(y.transposed(), out));
        check("einsum", einsum!("ij,kj->ki", &x, &y), |out| einsum_into!("ij,kj->ki", &x, &y, out));
        check("einsum of one", einsum!("ij->j", &x), |out| einsum_into!("ij->j", &x, out));
    }
    Ok(())
}

#[test]
fn windows_are_computed_into_what_is_there() -> Result<()> {
    let random = &mut Random(8);
    let (x, w) = (tensor(random, [3, 4, 9, 8]), tensor(random, [6, 2, 3, 3]));
    let conv = Conv::new().stride([2, 1]).padding([1, 2]).groups(2);
    for x in [x.copy()?, x.permuted([0, 2, 3, 1])?.copy()?.into_permuted([0, 3, 1, 2])?] {
        check("conv2d", x.conv2d(&w, conv), |out| x.conv2d_into(&w, conv, out));
        let deep = tensor(random, [4, 1, 3, 3]);
        let conv = Conv::new().padding([1, 1]).groups(4);
        check("depthwise conv2d", x.conv2d(&deep, conv), |out| x.conv2d_into(&deep, conv, out));
        let point = tensor(random, [5, 4, 1, 1]);
        check("conv2d of points", x.conv2d(&point, Conv::new()), |out| x.conv2d_into(&point, Conv::new(), out));
        let back = tensor(random, [4, 3, 3, 3]);
        let conv = Conv::new().stride([2, 2]).groups(2);
        check("conv_transpose2d", x.conv_transpose2d(&back, conv, [1, 0]), |out| x.conv_transpose2d_into(&back, conv, [1, 0], out));
        let pool = Pool::new([3, 2]).stride([2, 1]).padding([1, 1]);
        check("max_pool2d", x.max_pool2d(pool), |out| x.max_pool2d_into(pool, out));
        check("avg_pool2d", x.avg_pool2d(pool), |out| x.avg_pool2d_into(pool, out));
    }
    let (q, k, v) = (tensor(random, [2, 3, 10, 8]), tensor(random, [2, 1, 6, 8]), tensor(random, [2, 3, 6, 5]));
    for options in [Attention::new(), Attention::new().causal(true)] {
        check("attention", q.attention(&k, &v, None, options), |out| q.attention_into(&k, &v, None, options, out));
    }
    let nothing = tensor(random, [2, 1, 0, 8]);
    let values = tensor(random, [2, 3, 0, 5]);
    let options = Attention::new();
    check("attention", q.attention(&nothing, &values, None, options), |out| q.attention_into(&nothing, &values, None, options, out));
    Ok(())
}

#[test]
fn what_is_shared_is_not_written() -> Result<()> {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let mut y = x.copy()?;
    let mut sums = Tensor::from([5.0, 6.0]);
    let others = (y.share_data(), sums.share_data());
    for result in [
        x.lazy().eval_into(&mut y),
        x.reduce_into(Sum, Axis::<0>, &mut sums),
        x.softmax_into(Axis::<1>, &mut y),
        x.matmul_into(&x, &mut y),
        x.sort_into(Axis::<1>, &mut y),
        x.roll_into(Axis::<1>, 1, &mut y),
        x.scan_into(CumSum, Axis::<1>, &mut y),
        einsum_into!("ij->ji", &x, &mut y),
        apply_into(three, (&x, &x, 1.0), &mut y),
        apply_many_into(both, (&x, &x), (&mut x.copy()?, &mut y)),
    ] {
        assert!(matches!(result, Err(Error::Shared { .. })), "{result:?}");
    }
    assert_eq!((others.0, others.1.to_vec()?), (x, vec![5.0, 6.0]));
    Ok(())
}
