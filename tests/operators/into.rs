//! Every function that ends in `_into` writes its sibling's result, for any strides, and no other element.

use crate::value::Random;
use rankform::ops::Attention;
use rankform::ops::Conv;
use rankform::ops::Interpolate;
use rankform::ops::Pool;
use rankform::ops::{ClassLoss, Cov, Covariances, CumSum, Pad, QuantileMethod, Side, Sum};
use rankform::prelude::*;
use std::fmt::Debug;

/// No result here has this element.
const BESIDE: i16 = 7777;

/// The part of a larger tensor that has these sizes: axes in reverse order, every second position, from the
/// end.
fn part<T: Element, const RANK: usize>(
    whole: &mut Tensor<T, RANK>,
    size: Dim<RANK>,
) -> Result<TensorViewMut<'_, T, RANK>> {
    let mut view = whole.view_mut()?.transposed();
    for axis in 0..RANK {
        view = view.slice_axis(axis, 1..2 * size[axis] + 1, -2)?;
    }
    Ok(view)
}

fn check<T, const RANK: usize>(
    name: &str,
    expected: Result<Tensor<T, RANK>>,
    into: impl Fn(TensorViewMut<'_, T, RANK>) -> Result<()>,
) where
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
        assert!(
            other.to_vec().unwrap().iter().all(|&element| element == beside),
            "{name}: written in spite of {error}"
        );
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
fn elements_are_moved_into_existing_tensors() -> Result<()> {
    let random = &mut Random(5);
    let (x, y) = (tensor(random, [5, 7]), tensor(random, [3, 7]));
    let index = Tensor::from([4_i64, 0, 4]);
    let parts = [x.view(), y.view(), x.view()];
    check("concat", Tensor::concat(parts, Axis::<0>), |out| Tensor::concat_into(parts, Axis::<0>, out));
    let parts = [x.view(), x.reversed(Axis::<0>)];
    check("stack", Tensor::stack(parts, Axis::<1>), |out| Tensor::stack_into(parts, Axis::<1>, out));
    for pad in [Pad::Constant(1.5), Pad::Edge, Pad::Reflect, Pad::Symmetric, Pad::Wrap] {
        check("pad", x.pad([(2, 1), (0, 3)], pad), |out| x.pad_into([(2, 1), (0, 3)], pad, out));
    }
    let empty = Tensor::<f32, 2>::zeros([0, 3], &Cpu)?;
    check("pad", empty.pad([(1, 1), (0, 1)], Pad::Constant(2.0)), |out| {
        empty.pad_into([(1, 1), (0, 1)], Pad::Constant(2.0), out)
    });
    check("pad", empty.pad([(0, 0), (1, 1)], Pad::Edge), |out| {
        empty.pad_into([(0, 0), (1, 1)], Pad::Edge, out)
    });
    check("roll", x.roll(Axis::<1>, -3), |out| x.roll_into(Axis::<1>, -3, out));
    check("repeat", x.repeat(Axis::<0>, 3), |out| x.repeat_into(Axis::<0>, 3, out));
    check("tile", x.tile([2, 3]), |out| x.tile_into([2, 3], out));
    check("index_select", x.index_select(Axis::<0>, &index), |out| {
        x.index_select_into(Axis::<0>, &index, out)
    });
    let places = Tensor::from_fn([5, 2], |[i, j]| ((3 * i + 5 * j) % 7) as i64, &Cpu)?;
    check("gather", x.gather(Axis::<1>, &places), |out| x.gather_into(Axis::<1>, &places, out));
    check("take", x.transposed().take(&places), |out| x.transposed().take_into(&places, out));
    let none = Tensor::from_fn([], |[]| 12_i64, &Cpu)?;
    check("take one", x.take(&none), |out| x.take_into(&none, out));
    check("embedding", y.embedding(&places.minimum(2)?), |out| y.embedding_into(&places.minimum(2)?, out));
    check("embedding of one", x.transposed().embedding(&none.lazy().rem(7).eval()?), |out| {
        x.transposed().embedding_into(&none.lazy().rem(7).eval()?, out)
    });
    // A failure during the write gives an error, and memory that can be read.
    let outside = Tensor::from([0_i64, 5]);
    let mut out = Tensor::<f32, 2>::zeros([2, 7], &Cpu)?;
    let error = x.index_select_into(Axis::<0>, &outside, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "index_select_into: index 5 is outside axis 0 of size 5, of sizes [5, 7]");
    Ok(())
}

#[test]
fn lines_are_sorted_and_scanned_into_existing_tensors() -> Result<()> {
    let random = &mut Random(6);
    for size in [[5, 7], [3, 300], [40, 2], [0, 4]] {
        let x = tensor(random, size);
        check("sort", x.sort(Axis::<1>), |out| x.sort_into(Axis::<1>, out));
        check("sort_descending", x.sort_descending(Axis::<0>), |out| x.sort_descending_into(Axis::<0>, out));
        check("argsort", x.argsort(Axis::<0>), |out| x.argsort_into(Axis::<0>, out));
        check("argsort_descending", x.argsort_descending(Axis::<1>), |out| {
            x.argsort_descending_into(Axis::<1>, out)
        });
        let (values, places) = (x.topk(Axis::<1>, 2)?, x.bottomk(Axis::<1>, 2)?);
        check("topk", Ok(values.0.copy()?), |out| {
            x.topk_into(Axis::<1>, 2, out, &mut Tensor::zeros(values.1.size(), &Cpu)?)
        });
        check("topk", Ok(values.1.copy()?), |out| {
            x.topk_into(Axis::<1>, 2, &mut Tensor::zeros(values.0.size(), &Cpu)?, out)
        });
        check("bottomk", Ok(places.1.copy()?), |out| {
            x.bottomk_into(Axis::<1>, 2, &mut Tensor::zeros(places.0.size(), &Cpu)?, out)
        });
        check("cumsum", x.cumsum(Axis::<1>), |out| x.cumsum_into(Axis::<1>, out));
        check("cumsum of an expression", (x.lazy() * 2.0).cumsum(Axis::<0>), |out| {
            (x.lazy() * 2.0).scan_into(CumSum, Axis::<0>, out)
        });
        check("scan_exclusive", x.scan_exclusive(Sum, Axis::<1>), |out| x.scan_by_into(Sum, 1, true, out));
        let centered = x.lazy() - x.mean_along(Axis::<1>);
        check("scan by rows", centered.cumsum(Axis::<1>), |out| centered.scan_into(CumSum, Axis::<1>, out));
    }
    let x = tensor(random, [3, 4]);
    let error = x.scan_by_into(Sum, 2, false, &mut Tensor::zeros([3, 4], &Cpu)?).unwrap_err();
    assert!(matches!(error, Error::Axis { axis: 2, .. }), "{error}");
    Ok(())
}

#[test]
fn values_are_computed_into_existing_tensors() -> Result<()> {
    let random = &mut Random(7);
    for size in [[5, 7], [33, 70], [1, 1]] {
        let (x, y) = (tensor(random, size), tensor(random, size));
        // A broadcast result is written to larger sizes too.
        if size != [1, 1] {
            check("eval", (x.lazy() * &y + 1.0).eval(), |out| (x.lazy() * &y + 1.0).eval_into(out));
        }
        check("apply", apply(three, (&x, &y, 0.5_f32)), |out| apply_into(three, (&x, &y, 0.5_f32), out));
        let (sums, differences) = apply_many(both, (&x, &y))?;
        check("apply_many", Ok(sums), |out| {
            apply_many_into(both, (&x, &y), (out, &mut Tensor::zeros(size, &Cpu)?))
        });
        check("apply_many", Ok(differences), |out| {
            apply_many_into(both, (&x, &y), (&mut Tensor::zeros(size, &Cpu)?, out))
        });
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
fn windows_are_computed_into_existing_tensors() -> Result<()> {
    let random = &mut Random(8);
    let (x, w) = (tensor(random, [3, 4, 9, 8]), tensor(random, [6, 2, 3, 3]));
    let conv = Conv::new().stride([2, 1]).padding([1, 2]).groups(2);
    for x in [x.copy()?, x.permuted([0, 2, 3, 1])?.copy()?.into_permuted([0, 3, 1, 2])?] {
        check("conv2d", x.conv2d(&w, conv), |out| x.conv2d_into(&w, conv, out));
        let deep = tensor(random, [4, 1, 3, 3]);
        let conv = Conv::new().padding([1, 1]).groups(4);
        check("depthwise conv2d", x.conv2d(&deep, conv), |out| x.conv2d_into(&deep, conv, out));
        let point = tensor(random, [5, 4, 1, 1]);
        check("conv2d of points", x.conv2d(&point, Conv::new()), |out| {
            x.conv2d_into(&point, Conv::new(), out)
        });
        let back = tensor(random, [4, 3, 3, 3]);
        let conv = Conv::new().stride([2, 2]).groups(2);
        check("conv_transpose2d", x.conv_transpose2d(&back, conv, [1, 0]), |out| {
            x.conv_transpose2d_into(&back, conv, [1, 0], out)
        });
        let pool = Pool::new([3, 2]).stride([2, 1]).padding([1, 1]);
        check("max_pool2d", x.max_pool2d(pool), |out| x.max_pool2d_into(pool, out));
        check("avg_pool2d", x.avg_pool2d(pool), |out| x.avg_pool2d_into(pool, out));
    }
    let (q, k, v) =
        (tensor(random, [2, 3, 10, 8]), tensor(random, [2, 1, 6, 8]), tensor(random, [2, 3, 6, 5]));
    for options in [Attention::new(), Attention::new().causal(true)] {
        check("attention", q.attention(&k, &v, None, options), |out| {
            q.attention_into(&k, &v, None, options, out)
        });
    }
    let nothing = tensor(random, [2, 1, 0, 8]);
    let values = tensor(random, [2, 3, 0, 5]);
    let options = Attention::new();
    check("attention", q.attention(&nothing, &values, None, options), |out| {
        q.attention_into(&nothing, &values, None, options, out)
    });
    Ok(())
}

#[test]
fn results_of_known_sizes_are_written_into_existing_tensors() -> Result<()> {
    let random = &mut Random(9);
    let (x, y) = (tensor(random, [5, 7]), tensor(random, [5, 7]));
    let classes = Tensor::from_fn([3, 4], |[i, j]| ((2 * i + 3 * j) % 6) as i64, &Cpu)?;
    check("one_hot", classes.one_hot::<f32, _>(6), |out| classes.one_hot_into(6, out));
    check("one_hot of one", classes.slice((1, 2))?.one_hot::<i32, _>(6), |out| {
        classes.slice((1, 2))?.one_hot_into(6, out)
    });
    let numbers = classes.slice((1, ..))?;
    check("bincount", numbers.bincount(7), |out| numbers.bincount_into(7, out));
    let weights = x.slice((0, ..4))?;
    check("bincount_of", numbers.bincount_of(weights, 6), |out| numbers.bincount_of_into(weights, 6, out));
    for diagonal in [-9, -2, 0, 1, 9] {
        check("tril", x.tril(diagonal), |out| x.tril_into(diagonal, out));
        check("triu", x.transposed().triu(diagonal), |out| x.transposed().triu_into(diagonal, out));
        let line = x.slice((.., 2))?;
        check("diag", line.diag(diagonal as isize), |out| line.diag_into(diagonal as isize, out));
    }
    let mask = y.greater(0.0)?;
    check("masked_fill", x.masked_fill(&mask, 8.5), |out| x.masked_fill_into(&mask, 8.5, out));
    let column = mask.slice((.., 2..3))?;
    check("masked_fill", x.masked_fill(column, 8.5), |out| x.masked_fill_into(column, 8.5, out));
    check("diff", x.diff(Axis::<0>), |out| x.diff_into(Axis::<0>, out));
    check("diff", x.transposed().diff(Axis::<0>), |out| x.transposed().diff_into(Axis::<0>, out));
    check("diff of one", x.slice((.., 2..3))?.diff(Axis::<1>), |out| {
        x.slice((.., 2..3))?.diff_into(Axis::<1>, out)
    });
    let parts = [x.view(), y.transposed(), x.slice((..0, 1..))?];
    check("block_diag", Tensor::block_diag(parts), |out| Tensor::block_diag_into(parts, out));
    let lines = [x.slice((0, ..))?, x.slice((.., 1))?, y.slice((1, ..2))?];
    check("cartesian_prod", Tensor::cartesian_prod(lines), |out| Tensor::cartesian_prod_into(lines, out));
    for (r, repeat) in [(0, false), (1, true), (3, false), (2, true), (8, false)] {
        check("combinations", lines[0].combinations(r, repeat), |out| {
            lines[0].combinations_into(r, repeat, out)
        });
    }
    for line in [x.slice((0, ..))?.sort(Axis::<0>)?, Tensor::zeros([0], &Cpu)?] {
        for side in [Side::Left, Side::Right] {
            check("searchsorted", line.searchsorted(&y, side), |out| line.searchsorted_into(&y, side, out));
        }
        let mut found = Tensor::full([7, 5], true, &Cpu)?;
        y.isin_into(&line, found.view_mut()?.transposed())?;
        assert_eq!(found.into_transposed()?, y.isin(&line)?);
    }
    check("mode", Ok(x.mode(Axis::<1>)?.0), |out| {
        x.mode_into(Axis::<1>, out, &mut Tensor::zeros([5], &Cpu)?)
    });
    check("mode", Ok(x.mode(Axis::<0>)?.1), |out| {
        x.mode_into(Axis::<0>, &mut Tensor::zeros([7], &Cpu)?, out)
    });
    // The old contents of the output have no effect, and an index outside gives an error.
    let mut out = Tensor::full([3, 4, 5], f32::NAN, &Cpu)?;
    let error = classes.one_hot_into(5, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "one_hot_into: class 5 is none of 5, counted from 0");
    Ok(())
}

#[test]
fn products_of_all_kinds_are_computed_into_existing_tensors() -> Result<()> {
    let random = &mut Random(10);
    let (x, y) = (tensor(random, [5, 3]), tensor(random, [5, 3]));
    let (line, other) = (Tensor::from([1.0_f32, -2.0, 0.5]), Tensor::from([3.0_f32, 4.0]));
    check("outer", line.outer(&other), |out| line.outer_into(&other, out));
    check("kron", x.kron(y.transposed()), |out| x.kron_into(y.transposed(), out));
    check("kron of none", x.kron(y.slice((..0, ..))?), |out| x.kron_into(y.slice((..0, ..))?, out));
    check("trace", x.trace(), |out| x.trace_into(out));
    check("cross", x.cross(&y, Axis::<1>), |out| x.cross_into(&y, Axis::<1>, out));
    let row = y.slice((1..2, ..))?;
    check("cross", row.cross(&x, Axis::<1>), |out| row.cross_into(&x, Axis::<1>, out));
    let error = x.cross_into(&y, Axis::<0>, &mut y.copy()?).unwrap_err();
    assert!(matches!(error, Error::Axis { op: "cross_into", axis: 0, .. }), "{error}");
    check("vecdot", x.vecdot(&y, Axis::<0>), |out| x.vecdot_into(&y, Axis::<0>, out));
    check("norm_p", x.norm_p(3.0, Axis::<1>), |out| x.norm_p_into(3.0, Axis::<1>, out));
    check("tensordot", x.tensordot(&y, [(0, 0)]), |out| x.tensordot_into(&y, [(0, 0)], out));
    let square = Tensor::from([[1_i64, 1], [1, 0]]);
    for n in [0, 1, 2, 3, 6, 8, 13] {
        check("matrix_power", square.matrix_power(n), |out| square.matrix_power_into(n, out));
    }
    let packed = y.transposed().pack()?;
    check("matmul_packed", x.matmul_packed(&packed), |out| x.matmul_packed_into(&packed, out));
    Ok(())
}

#[test]
fn statistics_and_losses_are_computed_into_existing_tensors() -> Result<()> {
    let random = &mut Random(11);
    let (x, y) = (tensor(random, [5, 7]), tensor(random, [5, 7]));
    check("mean_var", Ok(x.mean_var(Axis::<1>)?.0), |out| {
        x.mean_var_into(Axis::<1>, out, &mut Tensor::zeros([5], &Cpu)?)
    });
    check("mean_var", Ok(x.mean_var(Axis::<0>)?.1), |out| {
        x.mean_var_into(Axis::<0>, &mut Tensor::zeros([7], &Cpu)?, out)
    });
    let (mut mean, mut var) = (Tensor::from([7.0; 5]), Tensor::from([7.0; 6]));
    assert!(x.cast::<f64>()?.mean_var_into(Axis::<1>, &mut mean, &mut var).is_err());
    assert_eq!(mean.to_vec()?, [7.0; 5], "the sizes of both are looked at first");
    check("cosine_similarity", x.cosine_similarity(&y, Axis::<1>, 1e-8), |out| {
        x.cosine_similarity_into(&y, Axis::<1>, 1e-8, out)
    });
    check("cov", x.cov(Cov::new()), |out| x.cov_into(Cov::new(), out));
    check("corrcoef", x.corrcoef(), |out| x.corrcoef_into(out));
    for between in [
        QuantileMethod::Linear,
        QuantileMethod::Lower,
        QuantileMethod::Higher,
        QuantileMethod::Nearest,
        QuantileMethod::Midpoint,
    ] {
        check("quantile", x.quantile(0.3, Axis::<1>, between), |out| {
            x.quantile_into(0.3, Axis::<1>, between, out)
        });
        check("quantile", x.quantile(0.9, Axis::<0>, between), |out| {
            x.quantile_into(0.9, Axis::<0>, between, out)
        });
    }
    let target = Tensor::from([6_i64, 0, -100, 2, 2]);
    let weights = y.slice((0, ..))?.abs()?;
    for plan in [ClassLoss::new(), ClassLoss::new().weight(weights.view()).smoothing(0.1)] {
        let (axis, share) = (Axis::<1>, y.softmax(Axis::<1>)?);
        check("nll_loss", x.nll_loss(axis, &target, plan), |out| x.nll_loss_into(axis, &target, plan, out));
        check("nll_loss_mean", x.nll_loss_mean(axis, &target, plan), |out| {
            x.nll_loss_mean_into(axis, &target, plan, out)
        });
        check("cross_entropy", x.cross_entropy(axis, &target, plan), |out| {
            x.cross_entropy_into(axis, &target, plan, out)
        });
        check("cross_entropy", x.cross_entropy_mean(axis, &target, plan), |out| {
            x.cross_entropy_mean_into(axis, &target, plan, out)
        });
        check("soft_cross_entropy", x.soft_cross_entropy(axis, &share, plan), |out| {
            x.soft_cross_entropy_into(axis, &share, plan, out)
        });
    }
    let (nothing, none) = (Tensor::<f32, 2>::zeros([3, 0], &Cpu)?, Tensor::from([-100_i64; 3]));
    let plan = ClassLoss::new();
    check("nll_loss of none", nothing.nll_loss(Axis::<1>, &none, plan), |out| {
        nothing.nll_loss_into(Axis::<1>, &none, plan, out)
    });
    Ok(())
}

#[test]
fn channels_are_computed_into_existing_tensors() -> Result<()> {
    let random = &mut Random(12);
    let x = tensor(random, [3, 4, 6, 5]);
    let (mean, var) = (Tensor::from([0.5_f32, -1.0, 0.0, 2.0]), Tensor::from([1.0_f32, 4.0, 0.25, 2.0]));
    let padded = Conv::new().stride([2, 1]).padding([1, 0]);
    // Row-major, channels last, and a part of a larger tensor.
    for x in [
        x.view(),
        x.permuted([0, 2, 3, 1])?.copy()?.permuted([0, 3, 1, 2])?,
        tensor(random, [3, 8, 6, 9]).slice((.., ..4, .., 4..))?,
    ] {
        check("group_norm", x.group_norm(2, 1e-3), |out| x.group_norm_into(2, 1e-3, out));
        check("instance_norm", x.instance_norm(1e-3), |out| x.instance_norm_into(1e-3, out));
        check("batch_norm", x.batch_norm(1e-3), |out| x.batch_norm_into(1e-3, out));
        check("batch_norm_by", x.batch_norm_by(&mean, &var, 1e-3), |out| {
            x.batch_norm_by_into(&mean, &var, 1e-3, out)
        });
        check("glu", x.glu(Axis::<1>), |out| x.glu_into(Axis::<1>, out));
        check("pixel_shuffle", x.pixel_shuffle(2), |out| x.pixel_shuffle_into(2, out));
        let even = x.slice((.., .., .., ..4))?;
        check("pixel_unshuffle", even.pixel_unshuffle(2), |out| even.pixel_unshuffle_into(2, out));
        check("unfold", x.unfold([3, 2], padded), |out| x.unfold_into([3, 2], padded, out));
        check("adaptive_avg_pool", x.adaptive_avg_pool([4, 2]), |out| x.adaptive_avg_pool_into([4, 2], out));
        check("adaptive_max_pool", x.adaptive_max_pool([4, 2]), |out| x.adaptive_max_pool_into([4, 2], out));
        for plan in [
            Interpolate::new([9, 3]),
            Interpolate::new([4, 10]).align_corners(true),
            Interpolate::new([3, 7]).scale([0.5, 1.5]),
        ] {
            check("interpolate_nearest", x.interpolate_nearest(plan), |out| {
                x.interpolate_nearest_into(plan, out)
            });
            check("interpolate_linear", x.interpolate_linear(plan), |out| {
                x.interpolate_linear_into(plan, out)
            });
        }
    }
    let line = x.slice((.., .., 0, ..))?;
    check("adaptive_max_pool", line.adaptive_max_pool([3]), |out| line.adaptive_max_pool_into([3], out));
    Ok(())
}

#[test]
fn channels_last_stay_so() -> Result<()> {
    let x =
        tensor(&mut Random(13), [2, 4, 3, 5]).permuted([0, 2, 3, 1])?.copy()?.into_permuted([0, 3, 1, 2])?;
    assert_eq!(x.batch_norm(1e-3)?.stride(), x.stride());
    assert!(x.group_norm(2, 1e-3)?.is_contiguous());
    Ok(())
}

#[test]
fn shared_memory_is_not_written() -> Result<()> {
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
        x.tril_into(0, &mut y),
        x.kron_into(&Tensor::from([[1.0]]), &mut y),
        x.mean_var_into(Axis::<0>, &mut x.sum(Axis::<0>)?, &mut sums),
        x.batch_norm_into(0.0, &mut y),
        Tensor::from([1_i64, 0]).one_hot_into(2, &mut y),
        einsum_into!("ij->ji", &x, &mut y),
        apply_into(three, (&x, &x, 1.0), &mut y),
        apply_many_into(both, (&x, &x), (&mut x.copy()?, &mut y)),
    ] {
        assert!(matches!(result, Err(Error::Shared { .. })), "{result:?}");
    }
    assert_eq!((others.0, others.1.to_vec()?), (x, vec![5.0, 6.0]));
    Ok(())
}

#[test]
fn an_output_that_overlaps_itself_is_not_written() -> Result<()> {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let y = Tensor::from([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]);
    let mut once = Tensor::from([[5.0, 6.0], [7.0, 8.0]]);
    once.set_sizes_and_strides([2, 2], [0, 1])?;
    let mut thrice = Tensor::from([[5.0, 6.0, 7.0], [5.0, 6.0, 7.0]]);
    thrice.set_sizes_and_strides([2, 3], [0, 1])?;
    for result in [
        x.triu_into(0, &mut once),
        x.batch_norm_into(0.0, &mut once),
        x.matmul_into(&x, &mut once),
        x.matrix_power_into(3, &mut once),
        x.sort_into(Axis::<1>, &mut once),
        x.lazy().eval_into(&mut once),
        x.cov_into(Cov::new(), &mut once),
        y.cross_into(&y, Axis::<1>, &mut thrice),
    ] {
        assert!(matches!(result, Err(Error::Overlap { .. })), "{result:?}");
    }
    assert_eq!(
        (once.to_vec()?, thrice.to_vec()?),
        (vec![5.0, 6.0, 5.0, 6.0], vec![5.0, 6.0, 7.0, 5.0, 6.0, 7.0])
    );
    Ok(())
}

#[test]
fn errors_name_the_operator_that_was_called() -> Result<()> {
    let (x, none) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::<f64, 2>::empty([2, 2], &Cpu)?);
    let (mut sums, other) = (Tensor::from([0.0; 3]), Tensor::from([[1.0, 2.0, 3.0]]));
    let (image, tall) =
        (Tensor::<f64, 4>::empty([1, 1, 4, 4], &Cpu)?, Tensor::<f64, 2>::zeros([1 << 40, 0], &Cpu)?);
    let classes = Tensor::from([0_i64, 1]);
    let told = |result: Result<()>| result.expect_err("something is wrong here").to_string();
    for (name, text) in [
        ("vecdot", told(x.vecdot(&other, Axis::<1>).map(drop))),
        ("vecdot_into", told(x.vecdot_into(&x, Axis::<1>, &mut sums))),
        ("trace_into", told(none.trace_into(Tensor::from([0.0]).view_mut()?.slice((0,))?))),
        ("cosine_similarity_into", told(x.cosine_similarity_into(&x, Axis::<1>, 1e-8, &mut sums))),
        (
            "soft_cross_entropy_into",
            told(x.soft_cross_entropy_into(Axis::<1>, &x, ClassLoss::new(), &mut sums).map(drop)),
        ),
        (
            "pixel_shuffle",
            told(Tensor::<f32, 4>::zeros([1, 0, 2, 2], &Cpu)?.pixel_shuffle(1 << 31).map(drop)),
        ),
        ("searchsorted", told(Tensor::<f64, 1>::empty([2], &Cpu)?.searchsorted(&x, Side::Left).map(drop))),
        ("cross", told(Tensor::<f64, 2>::empty([2, 3], &Cpu)?.cross(&other, Axis::<1>).map(drop))),
        (
            "cross_into",
            told(other.cross_into(&Tensor::<f64, 2>::empty([1, 3], &Cpu)?, Axis::<1>, &mut other.copy()?)),
        ),
        ("group_norm", told(none.group_norm(1, 1e-5).map(drop))),
        ("group_norm_into", told(none.group_norm_into(1, 1e-5, &mut x.copy()?))),
        ("instance_norm", told(none.instance_norm(1e-5).map(drop))),
        ("batch_norm_into", told(none.batch_norm_into(1e-5, &mut x.copy()?))),
        ("softmax", told(none.softmax(Axis::<1>).map(drop))),
        ("mean_var_into", told(none.mean_var_into(Axis::<1>, &mut sums.copy()?, &mut sums.copy()?))),
        ("mean_into", told(none.mean_into(Axis::<1>, &mut sums))),
        ("sum_into", told(x.sum_into(Axis::<1>, &mut sums))),
        ("argmax_into", told(none.argmax_into(Axis::<1>, &mut Tensor::from([0_i64, 0])))),
        ("norm_into", told(x.norm_into(Axis::<1>, &mut sums))),
        ("cumsum_into", told(none.cumsum_into(Axis::<1>, &mut x.copy()?))),
        ("norm_p", told(none.norm_p(3.0, Axis::<1>).map(drop))),
        ("norm_p_into", told(none.norm_p_into(3.0, Axis::<1>, &mut sums))),
        ("isin_into", told(x.isin_into(&none, &mut Tensor::from([[true; 2]; 2])))),
        ("isin", told(none.isin(&x).map(drop))),
        ("quantile", told(none.quantile(0.5, Axis::<1>, QuantileMethod::Linear).map(drop))),
        ("quantile_into", told(none.quantile_into(0.5, Axis::<1>, QuantileMethod::Linear, &mut sums))),
        ("cov", told(none.cov(Cov::new()).map(drop))),
        ("cov_into", told(x.cov_into(Cov::new().weights(Tensor::empty([2], &Cpu)?.view()), &mut x.copy()?))),
        ("corrcoef_into", told(none.corrcoef_into(&mut x.copy()?))),
        (
            "adaptive_avg_pool_into",
            told(image.adaptive_avg_pool_into([1, 1], &mut Tensor::zeros([1, 1, 1, 1], &Cpu)?)),
        ),
        (
            "interpolate_linear_into",
            told(
                image.interpolate_linear_into(
                    Interpolate::new([2, 2]),
                    &mut Tensor::zeros([1, 1, 2, 2], &Cpu)?,
                ),
            ),
        ),
        (
            "cross_entropy_into",
            told(none.cross_entropy_into(Axis::<1>, &classes, ClassLoss::new(), &mut sums)),
        ),
        (
            "cross_entropy",
            told(x.cross_entropy(Axis::<1>, &Tensor::empty([2], &Cpu)?, ClassLoss::new()).map(drop)),
        ),
        (
            "nll_loss",
            told(
                x.nll_loss(Axis::<1>, &classes, ClassLoss::new().weight(Tensor::empty([2], &Cpu)?.view()))
                    .map(drop),
            ),
        ),
        ("mode", told(Tensor::<f64, 2>::zeros([3, 0], &Cpu)?.mode(Axis::<1>).map(drop))),
        ("kron", told(tall.kron(tall.transposed()).map(drop))),
        ("stack", told(Tensor::stack([x.view(), none.view()], Axis::<0>).map(drop))),
        ("to_vec", told(Tensor::<f64, 1, _>::zeros([2], &Meta::new())?.to_vec().map(drop))),
        ("item", told(Tensor::<f64, 0, _>::zeros([], &Meta::new())?.item().map(drop))),
    ] {
        assert!(text.starts_with(&format!("{name}: ")), "{name} says \"{text}\"");
    }
    Ok(())
}

#[test]
fn operands_are_refused_before_anything_is_written() -> Result<()> {
    let (numbers, weights) = (Tensor::from([0_i64, 1]), Tensor::from([1.0, 2.0]));
    let (no_numbers, no_weights) = (Tensor::<i64, 1>::empty([2], &Cpu)?, Tensor::<f64, 1>::empty([2], &Cpu)?);
    let mut counts = Tensor::from([9.0, 9.0]);
    for (error, text) in [
        (
            numbers.bincount_of_into(&Tensor::from([1.0, 2.0, 3.0]), 2, &mut counts),
            "sizes [2] and [3] do not broadcast",
        ),
        (
            numbers.bincount_of_into(&no_weights, 2, &mut counts),
            "the tensor of sizes [2] has no memory yet; `mutable_data` allocates it",
        ),
        (
            no_numbers.bincount_of_into(&weights, 2, &mut counts),
            "the tensor of sizes [2] has no memory yet; `mutable_data` allocates it",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), format!("bincount_of_into: {text}"));
    }
    assert_eq!(counts.to_vec()?, [9.0, 9.0]);

    let mut pairs = Tensor::from([[9.0; 2]; 4]);
    let error = Tensor::cartesian_prod_into([weights.view(), no_weights.view()], &mut pairs).unwrap_err();
    assert!(matches!(error, Error::Unallocated { op: "cartesian_prod_into", .. }), "{error}");
    let mut line = Tensor::from([9.0; 4]);
    let error = Tensor::concat_into([weights.view(), no_weights.view()], Axis::<0>, &mut line).unwrap_err();
    assert!(matches!(error, Error::Unallocated { op: "concat_into", .. }), "{error}");
    assert!(pairs.to_vec()?.into_iter().chain(line.to_vec()?).all(|element| element == 9.0));

    let (x, y) = (Tensor::<f64, 2>::zeros([2, 3], &Cpu)?, Tensor::<f64, 2>::zeros([4, 3], &Cpu)?);
    let error = Tensor::stack([x.view(), y.view()], Axis::<0>).unwrap_err();
    assert_eq!(error.to_string(), "stack: sizes [2, 3] and [4, 3] differ");
    Ok(())
}
