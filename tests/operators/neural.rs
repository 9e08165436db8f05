//! Losses, norms over channels, windows as columns, pooling and interpolation to given sizes, covariances:
//! against loops.

use crate::arrange::{arranged, read};
use crate::value::Random;
use rankform::f16;
use rankform::ops::Conv;
use rankform::ops::Interpolate;
use rankform::ops::Pool;
use rankform::ops::{ClassLoss, Cov};
use rankform::prelude::*;

fn near(found: f64, truth: f64, what: &str) {
    assert!(
        (found - truth).abs() <= 1e-13 * truth.abs().max(1.0) || found.is_nan() && truth.is_nan(),
        "{what}: {found}, not {truth}"
    );
}

/// Numbers in every kind of layout of a rank-4 tensor: row-major, channels last, part of a larger tensor with
/// negative strides.
fn images(size: [usize; 4], random: &mut Random) -> Vec<Tensor<f64, 4>> {
    let [n, c, h, w] = size;
    let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| random.unit() * 4.0, &Cpu).unwrap();
    let larger = fresh(size.map(|n| 2 * n + 1));
    let part = (0..4).fold(larger, |x, axis| {
        x.into_slice_axis(axis, 1..2 * size[axis] + 1, if axis == 3 { -2 } else { 2 }).unwrap()
    });
    vec![fresh(size), fresh([n, h, w, c]).into_permuted([0, 3, 1, 2]).unwrap(), part]
}

#[test]
fn losses_are_those_of_their_definition_and_exact_in_the_tails() -> Result<()> {
    let mut random = Random(211);
    for (x, y) in arranged([3, 4, 5], || random.unit() * 5.0)
        .iter()
        .zip(arranged([3, 4, 5], || Random(7).unit().abs()).iter().rev())
    {
        let (x, y) = (&x.tensor, &y.tensor);
        let size = std::array::from_fn(|axis| x.size()[axis].max(y.size()[axis]));
        let check = |found: Tensor<f64, 3>, rule: &dyn Fn(f64, f64) -> f64, what: &str| {
            let pairs = read(x, size).into_iter().zip(read(y, size));
            pairs.zip(read(&found, size)).for_each(|((x, y), found)| near(found, rule(x, y), what));
        };
        check(x.mse_loss(y)?, &|x, y| (x - y).powi(2), "mse");
        check(x.l1_loss(y)?, &|x, y| (x - y).abs(), "l1");
        check(
            x.binary_cross_entropy_with_logits(y)?,
            &|x, y| x.max(0.0) - x * y + (-x.abs()).exp().ln_1p(),
            "logits",
        );
        check(x.kl_div(y)?, &|x, y| if y == 0.0 { 0.0 } else { y * (y.ln() - x) }, "kl");
        check(x.kl_div_log_target(y)?, &|x, y| y.exp() * (y - x), "kl of logarithms");
        let p = x.sigmoid()?;
        let found = p.lazy().binary_cross_entropy(y).mean(All)?.item()?;
        let terms = read(&p, size)
            .into_iter()
            .zip(read(y, size))
            .map(|(p, y)| -y * p.ln() - (1.0 - y) * (1.0 - p).ln());
        near(found, terms.sum::<f64>() / size.iter().product::<usize>() as f64, "bce");
    }
    let infinity = f64::INFINITY;
    let (x, y) =
        (Tensor::from([1000.0, -1000.0, 40.0, infinity, -infinity]), Tensor::from([1.0, 0.0, 1.0, 1.0, 1.0]));
    assert_eq!(x.binary_cross_entropy_with_logits(&y)?.to_vec()?, [0.0, 0.0, (-40f64).exp(), 0.0, infinity]);
    // A logarithm counts as −100 at least; of nothing there is none.
    let (x, y) = (Tensor::from([0.0, 1.0, 0.0, 1.0]), Tensor::from([1.0, 0.0, 0.0, 1.0]));
    assert_eq!(x.binary_cross_entropy(&y)?.to_vec()?, [100.0, 100.0, 0.0, 0.0]);
    assert_eq!(Tensor::from([-infinity]).kl_div(&Tensor::from([0.0]))?.to_vec()?, [0.0]);
    assert_eq!(Tensor::from([0.0]).kl_div_log_target(&Tensor::from([-infinity]))?.to_vec()?, [0.0]);
    // A class that is impossible and has no share costs nothing.
    let (scores, share) = (Tensor::from([[0.0, 0.0, -infinity]]), Tensor::from([[0.5, 0.5, 0.0]]));
    near(scores.soft_cross_entropy(Axis::<1>, &share, ClassLoss::new())?.item()?, 2f64.ln(), "soft");
    let weight = Tensor::from([1.0, 1.0, 0.0]);
    let plan = ClassLoss::new().weight(weight.view()).smoothing(0.3);
    near(
        scores.cross_entropy(Axis::<1>, &Tensor::from([1_i64]), plan)?.item()?,
        (0.7 + 0.2) * 2f64.ln(),
        "smoothed",
    );
    assert_eq!(
        Tensor::from([[[1.0, infinity]]]).interpolate_linear(Interpolate::new([2]))?.to_vec()?,
        [1.0, infinity]
    );
    Ok(())
}

/// One loss by classes and its weight, by the definition.
fn class_loss(scores: &[f64], target: i64, weight: &[f64], ignore: i64, smoothing: f64) -> (f64, f64) {
    if target == ignore {
        return (0.0, 0.0);
    }
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log = largest + scores.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
    let terms: Vec<f64> = scores.iter().zip(weight).map(|(x, w)| w * (log - x)).collect();
    let all = terms.iter().sum::<f64>() / scores.len() as f64;
    ((1.0 - smoothing) * terms[target as usize] + smoothing * all, weight[target as usize])
}

#[test]
fn losses_by_classes_pick_weigh_ignore_and_smooth() -> Result<()> {
    let mut random = Random(223);
    let weights = [0.5, 2.0, 1.25, 0.0, 3.0];
    let weight = Tensor::from(weights);
    for x in images([3, 5, 2, 4], &mut random) {
        let target = Tensor::from_fn([3, 2, 4], |_| random.below(6) as i64 - 1, &Cpu)?;
        for (weighted, smoothing) in [(false, 0.0), (true, 0.0), (false, 0.1), (true, 0.3)] {
            let mut plan = ClassLoss::new().ignore(-1).smoothing(smoothing);
            if weighted {
                plan = plan.weight(weight.view());
            }
            let each = x.cross_entropy(Axis::<1>, &target, plan)?;
            let (mut total, mut below) = (0.0, 0.0);
            for at in each.size().indices() {
                let scores: Vec<f64> = (0..5).map(|c| x[[at[0], c, at[1], at[2]]]).collect();
                let (loss, of) = class_loss(
                    &scores,
                    target[at],
                    if weighted { &weights } else { &[1.0; 5] },
                    -1,
                    smoothing,
                );
                near(each[at], loss, "cross entropy");
                (total, below) = (total + loss, below + of);
            }
            near(x.cross_entropy_mean(Axis::<1>, &target, plan)?.item()?, total / below, "mean");
            if smoothing == 0.0 {
                let logs = x.log_softmax(Axis::<1>)?;
                assert_eq!(logs.nll_loss(Axis::<1>, &target, plan)?, each);
                near(logs.nll_loss_mean(Axis::<1>, &target, plan)?.item()?, total / below, "mean");
            }
            // Of targets that are certain, probabilities say the same; and other axes of classes too.
            let certain = target.lazy().maximum(0).eval()?;
            let shares = certain.one_hot::<f64, _>(5)?.into_permuted([0, 3, 1, 2])?;
            let (soft, hard) = (
                x.soft_cross_entropy(Axis::<1>, &shares, plan)?,
                x.cross_entropy(Axis::<1>, &certain, plan)?,
            );
            soft.iter().zip(hard.iter()).for_each(|(soft, hard)| near(*soft, *hard, "soft"));
            let last = x.permuted([0, 2, 3, 1])?;
            last.cross_entropy(Axis::<3>, &certain, plan)?
                .iter()
                .zip(hard.iter())
                .for_each(|(last, hard)| near(*last, *hard, "last axis"));
        }
    }
    Ok(())
}

#[test]
fn losses_by_classes_refuse_invalid_classes() -> Result<()> {
    let x = Tensor::<f32, 2>::zeros([2, 3], &Cpu)?;
    let wrong = |target: [i64; 2]| x.cross_entropy(Axis::<1>, &Tensor::from(target), ClassLoss::new());
    assert!(matches!(wrong([0, 3]), Err(Error::Index { .. })));
    assert!(matches!(wrong([-1, 0]), Err(Error::Index { .. })));
    assert_eq!(wrong([-100, -100])?.to_vec()?, [0.0, 0.0]);
    assert!(x.cross_entropy_mean(Axis::<1>, &Tensor::from([-100, -100]), ClassLoss::new())?.item()?.is_nan());
    let error = x.nll_loss_mean(Axis::<1>, &Tensor::from([0_i64]), ClassLoss::new()).unwrap_err().to_string();
    assert_eq!(error, "nll_loss_mean: targets of sizes [1]; [2, 3] with classes along axis 1 want [2]");
    let weight = Tensor::<f32, 1>::ones([3], &Cpu)?;
    let error = x
        .cross_entropy(Axis::<1>, &Tensor::from([0, 7]), ClassLoss::new().weight(weight.view()))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "cross_entropy: index 7 is outside axis 1 of size 3, of sizes [2, 3]");
    // With no classes only the ignored index can be a target.
    let (none, plan) = (Tensor::<f32, 2>::zeros([2, 0], &Cpu)?, ClassLoss::new().smoothing(0.1));
    let no_weights = Tensor::<f32, 1>::zeros([0], &Cpu)?;
    for plan in [ClassLoss::new(), plan, plan.weight(no_weights.view())] {
        assert_eq!(none.cross_entropy(Axis::<1>, &Tensor::from([-100, -100]), plan)?.to_vec()?, [0.0, 0.0]);
        assert_eq!(none.nll_loss(Axis::<1>, &Tensor::from([-100, -100]), plan)?.to_vec()?, [0.0, 0.0]);
        assert!(none.nll_loss_mean(Axis::<1>, &Tensor::from([-100, -100]), plan)?.item()?.is_nan());
        assert!(matches!(none.nll_loss(Axis::<1>, &Tensor::from([-100, 0]), plan), Err(Error::Index { .. })));
    }
    let two = Tensor::from([1.0_f32, 2.0]);
    let error = x
        .nll_loss(Axis::<1>, &Tensor::from([0_i64, 1]), ClassLoss::new().weight(two.view()))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "nll_loss: 2 weights of 3 classes");
    for smoothing in [-0.5, 1.5, f64::NAN] {
        let error = x
            .cross_entropy(Axis::<1>, &Tensor::from([0_i64, 1]), ClassLoss::new().smoothing(smoothing))
            .unwrap_err()
            .to_string();
        assert_eq!(error, format!("cross_entropy: a smoothing of {smoothing}, not from 0 to 1"));
    }
    let meta = Meta::new();
    let (x, y) = (Tensor::<f32, 3, _>::zeros([2, 3, 4], &meta)?, Tensor::<i64, 2, _>::zeros([2, 4], &meta)?);
    assert_eq!(x.cross_entropy(Axis::<1>, &y, ClassLoss::new())?.size(), [2, 4]);
    assert_eq!(x.cross_entropy_mean(Axis::<1>, &y, ClassLoss::new())?.size(), []);
    // More rows than f16 can count.
    let x = Tensor::<f16, 2>::zeros([70_000, 2], &Cpu)?;
    let mean = x
        .cross_entropy_mean(Axis::<1>, &Tensor::<i64, 1>::zeros([70_000], &Cpu)?, ClassLoss::new())?
        .item()?;
    assert_eq!(mean, f16::from_f64(2f64.ln()));
    Ok(())
}

/// Brought to mean 0 and variance 1 over the places for which `together` holds.
fn normed(x: &Tensor<f64, 4>, epsilon: f64, together: impl Fn([usize; 4], [usize; 4]) -> bool) -> Vec<f64> {
    let value = |at: [usize; 4]| {
        let all: Vec<f64> =
            x.size().indices().filter(|other| together(at, *other)).map(|other| x[other]).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let var = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (x[at] - mean) / (var + epsilon).sqrt()
    };
    x.size().indices().map(value).collect()
}

#[test]
fn norms_over_channels_are_those_of_loops() -> Result<()> {
    let mut random = Random(227);
    let check = |found: Tensor<f64, 4>, truth: Vec<f64>, what: &str| {
        let found = read(&found, found.size().0);
        found.into_iter().zip(truth).for_each(|(found, truth)| near(found, truth, what));
    };
    for x in images([2, 6, 3, 2], &mut random) {
        for groups in [1, 2, 3, 6] {
            let of = 6 / groups;
            check(
                x.group_norm(groups, 0.25)?,
                normed(&x, 0.25, |a, b| a[0] == b[0] && a[1] / of == b[1] / of),
                "group norm",
            );
        }
        check(x.instance_norm(0.5)?, normed(&x, 0.5, |a, b| a[..2] == b[..2]), "instance norm");
        check(x.batch_norm(0.5)?, normed(&x, 0.5, |a, b| a[1] == b[1]), "batch norm");
        // By the statistics of the batch it is the same.
        let axes = (Axis::<0>, Axis::<2>, Axis::<3>);
        let by = x.batch_norm_by(&x.mean(axes)?, &x.var(axes)?, 0.5)?;
        check(by, read(&x.batch_norm(0.5)?, x.size().0), "batch norm by statistics");
        let rms = x.rms_norm((Axis::<1>, Axis::<3>), 0.5)?;
        let unit = x.normalize(Axis::<2>, 1e-12)?;
        for at in x.size().indices() {
            let square = |inside: &dyn Fn([usize; 4]) -> bool| {
                x.size().indices().filter(|other| inside(*other)).map(|other| x[other].powi(2)).sum::<f64>()
            };
            near(
                rms[at],
                x[at] / (square(&|other| [other[0], other[2]] == [at[0], at[2]]) / 12.0 + 0.5).sqrt(),
                "rms norm",
            );
            near(
                unit[at],
                x[at] / square(&|other| [other[0], other[1], other[3]] == [at[0], at[1], at[3]]).sqrt(),
                "normalize",
            );
        }
        let cosine = x.cosine_similarity(x.slice((.., 0..1, .., ..))?, Axis::<3>, 1e-8)?;
        for at in cosine.size().indices() {
            let row = |c: usize| (0..2).map(|k| x[[at[0], c, at[2], k]]).collect::<Vec<_>>();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (a, b) = (row(at[1]), row(0));
            near(cosine[at], dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt(), "cosine");
        }
    }
    let x = Tensor::<f32, 3>::zeros([2, 0, 3], &Cpu)?;
    assert_eq!((x.instance_norm(1e-5)?.size(), x.batch_norm(1e-5)?.size()), (dim![2, 0, 3], dim![2, 0, 3]));
    let x = Tensor::<f32, 3>::zeros([2, 4, 3], &Cpu)?;
    assert_eq!(x.group_norm(0, 1e-5).unwrap_err().to_string(), "group_norm: 4 channels in 0 groups");
    let one = Tensor::from([1.0_f32]);
    assert_eq!(
        x.batch_norm_by(&one, &one, 0.0).unwrap_err().to_string(),
        "batch_norm_by: sizes [2, 4, 3] and [1] do not broadcast"
    );
    assert!(matches!(
        Tensor::<f32, 2>::empty([2, 4], &Cpu)?.group_norm(2, 0.0),
        Err(Error::Unallocated { .. })
    ));
    assert_eq!(Tensor::<f32, 2, _>::zeros([2, 4], &Meta::new())?.group_norm(2, 0.0)?.size(), [2, 4]);
    // Gates: halves along an axis.
    let x = Tensor::from([[1.0, -2.0], [0.0, 3.0]]);
    assert_eq!(x.glu(Axis::<0>)?, Tensor::from([[0.5, -2.0 / (1.0 + (-3f64).exp())]]));
    assert_eq!(
        Tensor::from([1.0, 2.0, 3.0]).glu(Axis::<0>).unwrap_err().to_string(),
        "glu: axis 0 of size 3 has no half"
    );
    Ok(())
}

#[test]
fn pixels_and_windows_move_between_channels_and_space() -> Result<()> {
    let mut random = Random(229);
    for x in images([2, 8, 3, 2], &mut random) {
        let y = x.pixel_shuffle(2)?;
        assert_eq!(y.size(), [2, 2, 6, 4]);
        for [n, c, i, j] in y.size().indices() {
            assert_eq!(y[[n, c, i, j]], x[[n, 4 * c + 2 * (i % 2) + j % 2, i / 2, j / 2]]);
        }
        assert_eq!(y.pixel_unshuffle(2)?, x.to_contiguous()?);
        assert_eq!(
            x.pixel_shuffle(3).unwrap_err().to_string(),
            "pixel_shuffle: 8 channels are no blocks of 3 × 3"
        );
        assert!(
            x.pixel_shuffle(0).is_err()
                && x.pixel_unshuffle(2).is_err()
                && x.pixel_shuffle(usize::MAX).is_err()
        );
    }
    for x in images([2, 3, 5, 6], &mut random) {
        for conv in [
            Conv::new(),
            Conv::new().stride([2, 1]).padding([1, 2]),
            Conv::new().dilation([2, 1]).padding([0, 1]).stride([1, 3]),
        ] {
            let columns = x.unfold([2, 3], conv)?;
            // The columns times the weights are the convolution.
            let w = Tensor::from_fn([4, 3, 2, 3], |_| random.unit(), &Cpu)?;
            let truth = x.conv2d(&w, conv)?;
            let [_, _, h, width] = truth.size().0;
            let found: Tensor<f64, 3> = w.reshape([1, 4, 18])?.matmul(&columns)?;
            let truth = truth.to_shape([2, 4, h * width])?;
            found.iter().zip(truth.iter()).for_each(|(found, truth)| near(*found, *truth, "unfold"));
        }
        assert!(x.unfold([6, 1], Conv::new()).is_err() && x.unfold([1, 1], Conv::new().groups(3)).is_err());
    }
    assert_eq!(Tensor::<bool, 4>::zeros([0, 1, 5, 5], &Cpu)?.unfold([2, 2], Conv::new())?.size(), [0, 4, 16]);
    assert_eq!(
        Tensor::<f32, 4, _>::zeros([1, 4, 2, 2], &Meta::new())?.pixel_shuffle(2)?.size(),
        [1, 1, 4, 4]
    );
    Ok(())
}

#[test]
fn pools_to_given_sizes_cut_axes_into_parts_as_equal_as_can_be() -> Result<()> {
    let mut random = Random(233);
    for x in images([2, 2, 5, 7], &mut random) {
        for to in [[1, 1], [5, 7], [3, 2], [2, 5], [8, 10], [0, 3]] {
            let (mean, largest) = (x.adaptive_avg_pool(to)?, x.adaptive_max_pool(to)?);
            assert_eq!((mean.size(), largest.size()), (dim![2, 2, to[0], to[1]], dim![2, 2, to[0], to[1]]));
            for at in mean.size().indices() {
                let part = |k: usize, n: usize| at[k + 2] * n / to[k]..((at[k + 2] + 1) * n).div_ceil(to[k]);
                let all: Vec<f64> = part(0, 5)
                    .flat_map(|i| part(1, 7).map(move |j| [i, j]))
                    .map(|[i, j]| x[[at[0], at[1], i, j]])
                    .collect();
                near(mean[at], all.iter().sum::<f64>() / all.len() as f64, "mean");
                assert_eq!(largest[at], all.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
    let x = Tensor::from([[[f64::INFINITY, 1.0, 2.0]]]);
    assert_eq!(x.adaptive_avg_pool([2])?.to_vec()?, [f64::INFINITY, 1.5]); // what a window lacks is not 0 · ∞
    assert_eq!(Tensor::<i32, 5>::ones([1, 1, 2, 3, 4], &Cpu)?.adaptive_max_pool([1, 1, 1])?.item()?, 1);
    let error = Tensor::<f32, 3>::zeros([1, 1, 0], &Cpu)?.adaptive_avg_pool([2]).unwrap_err().to_string();
    assert_eq!(error, "adaptive_avg_pool: 2 places of axis 2 of sizes [1, 1, 0]");
    assert_eq!(
        Tensor::<f32, 4, _>::zeros([1, 2, 8, 8], &Meta::new())?.adaptive_avg_pool([3, 3])?.size(),
        [1, 2, 3, 3]
    );
    Ok(())
}

#[test]
fn windows_without_a_place_inside_are_refused_or_have_the_lowest_number() -> Result<()> {
    let x = Tensor::from([[[1.0_f32, 2.0]]]);
    // Places −1 and 2 of two: gaps reach over the whole input.
    let wide = Pool::new([2]).padding([1]).dilation([3]);
    assert_eq!(x.max_pool1d(wide)?.to_vec()?, [f32::NEG_INFINITY]);
    assert_eq!(x.avg_pool1d(wide)?.to_vec()?, [0.0]);
    assert!(x.avg_pool1d(wide.count_padding(false))?.item()?.is_nan());
    assert_eq!(Tensor::from([[[1_i8, 2]]]).max_pool1d(wide)?.to_vec()?, [i8::MIN]);
    let error = x.max_pool1d(Pool::new([3]).padding([2])).unwrap_err().to_string();
    assert_eq!(error, "max_pool1d: axis 2: padding 2 is more than half a window that reaches over 3");
    let none = Tensor::<f32, 3>::zeros([1, 2, 0], &Cpu)?;
    let error = none.max_pool1d(Pool::new([2]).padding([1])).unwrap_err().to_string();
    assert_eq!(error, "max_pool1d: axis 2 of sizes [1, 2, 0] has no places");
    assert_eq!(Tensor::<f32, 3>::zeros([0, 2, 4], &Cpu)?.max_pool1d(Pool::new([2]))?.size(), [0, 2, 2]);
    Ok(())
}

#[test]
fn interpolation_lies_between_the_nearest_samples() -> Result<()> {
    let mut random = Random(239);
    for x in images([1, 2, 4, 5], &mut random) {
        for to in [[4, 5], [7, 3], [1, 1], [8, 10], [2, 9]] {
            for (align, scale) in [(false, None), (true, None), (false, Some([1.7, 0.6]))] {
                let mut plan = Interpolate::new(to).align_corners(align);
                if let Some(scale) = scale {
                    plan = plan.scale(scale);
                }
                let (linear, nearest) = (x.interpolate_linear(plan)?, x.interpolate_nearest(plan)?);
                let place = |k: usize, i: usize| {
                    let n = [4, 5][k];
                    let ratio = scale.map_or(n as f64 / to[k] as f64, |scale| 1.0 / scale[k]);
                    let at = if align {
                        i as f64 * (n - 1) as f64 / (to[k].max(2) - 1) as f64
                    } else {
                        (i as f64 + 0.5) * ratio - 0.5
                    };
                    let at = at.clamp(0.0, (n - 1) as f64);
                    let below = at.floor() as usize;
                    let near = scale.map_or(i * n / to[k], |scale| (i as f64 / scale[k]) as usize);
                    (below, (below + 1).min(n - 1), at - below as f64, near.min(n - 1))
                };
                for at in linear.size().indices() {
                    let ((a, b, s, i), (c, d, t, j)) = (place(0, at[2]), place(1, at[3]));
                    let x = |i: usize, j: usize| x[[at[0], at[1], i, j]];
                    let truth = (x(a, c) * (1.0 - t) + x(a, d) * t) * (1.0 - s)
                        + (x(b, c) * (1.0 - t) + x(b, d) * t) * s;
                    near(linear[at], truth, "linear");
                    assert_eq!(nearest[at], x(i, j), "nearest");
                }
            }
        }
    }
    // A part that is exact in whole numbers only.
    let x = Tensor::from_fn([1, 1, 49], |[_, _, i]| i as i64, &Cpu)?;
    assert_eq!(
        x.interpolate_nearest(Interpolate::new([49 * 3]))?.to_vec()?,
        (0..147).map(|i| i / 3).collect::<Vec<i64>>()
    );
    assert!(x.cast::<f32>()?.interpolate_linear(Interpolate::new([4]).scale([0.0])).is_err());
    let cube = Tensor::<f32, 5>::ones([1, 1, 2, 2, 2], &Cpu)?;
    assert_eq!(cube.interpolate_linear(Interpolate::new([3, 3, 3]))?.sum(All)?.item()?, 27.0);
    assert!(Tensor::<f32, 3>::zeros([1, 1, 0], &Cpu)?.interpolate_nearest(Interpolate::new([2])).is_err());
    Ok(())
}

#[test]
fn covariances_and_correlations_are_those_of_loops() -> Result<()> {
    let mut random = Random(241);
    let (times, weights) = ([1_i64, 3, 0, 2, 1, 1], [0.5, 1.0, 2.0, 0.25, 1.5, 0.0]);
    let (counts, importance) = (Tensor::from(times), Tensor::from(weights));
    for x in arranged([2, 4, 6], || random.unit() * 3.0 + 100.0) {
        let x = x.tensor.slice((0, .., ..))?;
        if x.size() != [4, 6] {
            continue;
        }
        for (repeated, weighted, correction) in [
            (false, false, 1.0),
            (false, false, 0.0),
            (true, false, 1.0),
            (false, true, 1.0),
            (true, true, 0.5),
        ] {
            let mut plan = Cov::new().correction(correction);
            if repeated {
                plan = plan.frequencies(counts.view());
            }
            if weighted {
                plan = plan.weights(importance.view());
            }
            let part = |k: usize| {
                (if repeated { times[k] as f64 } else { 1.0 }, if weighted { weights[k] } else { 1.0 })
            };
            let share = |k: usize| part(k).0 * part(k).1;
            let total: f64 = (0..6).map(share).sum();
            let below = total - correction * (0..6).map(|k| share(k) * part(k).1).sum::<f64>() / total;
            let mean = |row: usize| (0..6).map(|k| share(k) * x[[row, k]]).sum::<f64>() / total;
            let cov = x.cov(plan)?;
            for [i, j] in cov.size().indices() {
                let truth =
                    (0..6).map(|k| share(k) * (x[[i, k]] - mean(i)) * (x[[j, k]] - mean(j))).sum::<f64>()
                        / below;
                assert!((cov[[i, j]] - truth).abs() <= 1e-11, "{} not {truth}", cov[[i, j]]);
            }
            if !repeated && !weighted && correction == 1.0 {
                let correlation = x.corrcoef()?;
                for [i, j] in cov.size().indices() {
                    let truth = cov[[i, j]] / (cov[[i, i]] * cov[[j, j]]).sqrt();
                    // A row of one number has no deviation, or one of rounding alone.
                    if cov[[i, i]].min(cov[[j, j]]) < 1e-9 {
                        continue;
                    }
                    assert!((correlation[[i, j]] - truth).abs() <= 1e-12 && correlation[[i, j]].abs() <= 1.0);
                }
            }
        }
    }
    // One observation has no deviation, but for a whole population.
    let x = Tensor::from([[1.0], [2.0]]);
    assert!(x.cov(Cov::new())?.iter().all(|x: &f64| f64::is_nan(*x)));
    assert_eq!(x.cov(Cov::new().correction(0.0))?.to_vec()?, [0.0; 4]);
    let two = Tensor::from([1_i64, 1]);
    assert_eq!(
        x.cov(Cov::new().frequencies(two.view())).unwrap_err().to_string(),
        "cov: sizes [2, 1] and [2] do not broadcast"
    );
    Ok(())
}
