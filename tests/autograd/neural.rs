//! Normalizations, losses, pools, images in other sizes.

use crate::check::{between, check, random};
use rankform::autograd::{Tape, grad};
use rankform::ops::ClassLoss;
use rankform::prelude::*;

#[test]
fn normalizations() {
    let x = random([3, 5], 1);
    check("softmax", &x, |x, _| x.softmax(Last));
    check("softmax of columns", &x, |x, _| x.softmax(Axis::<0>));
    check("softmax of both axes", &x, |x, _| x.softmax(All));
    check("log_softmax", &x, |x, _| x.log_softmax(Last));
    check("log_softmax of a view", &x, |x, _| x.transposed().slice(((..).step(-1), ..))?.log_softmax(Last));
    check("softmax of an expression", &x, |x, _| (x.lazy() * x).softmax(Last).eval());
    check("layer_norm", &x, |x, _| x.layer_norm(Last, 1e-3));
    check("layer_norm of columns", &x, |x, _| x.layer_norm(Axis::<0>, 1e-3));
    check("rms_norm", &x, |x, _| x.rms_norm(Last, 1e-3));
    check("layer_norm_affine", &x, |x, tape| {
        let (w, b) = (tape.constant(&random([5], 2))?, tape.constant(&random([5], 3))?);
        x.layer_norm_affine(Last, w.lift(), b.lift(), 1e-3)
    });
    check("layer_norm_affine, weights", &random([5], 4), |w, tape| {
        tape.constant(&x)?.layer_norm_affine(Last, w.lift(), w.reversed(Axis::<0>).lift(), 1e-3)
    });
    let images = random([2, 4, 2, 3], 5);
    check("group_norm", &images, |x, _| x.group_norm(2, 1e-3));
    check("instance_norm", &images, |x, _| x.instance_norm(1e-3));
    check("batch_norm", &images, |x, _| x.batch_norm(1e-3));
    check("batch_norm_by", &images, |x, tape| {
        x.batch_norm_by(&tape.constant(&random([4], 6))?, &tape.constant(&between([4], 7, 0.5, 1.5))?, 1e-3)
    });
    check("batch_norm_by, statistics", &between([4], 8, 0.5, 1.5), |s, tape| {
        tape.constant(&images)?.batch_norm_by(s, s, 1e-3)
    });
    check("glu", &random([3, 6], 9), |x, _| x.glu(Axis::<1>));
}

#[test]
fn losses_by_class() {
    let x = random([4, 3], 10);
    let target = Tensor::from([2_i64, 0, 1, 2]);
    check("cross_entropy", &x, |x, t| x.cross_entropy(Axis::<1>, &t.constant(&target)?, ClassLoss::new()));
    check("cross_entropy_mean", &x, |x, t| {
        x.cross_entropy_mean(Axis::<1>, &t.constant(&target)?, ClassLoss::new().smoothing(0.1))
    });
    check("cross_entropy_mean, weighted", &x, |x, t| {
        let weight = t.constant(&Tensor::from([0.5, 1.0, 2.0]))?;
        let plan = ClassLoss::new().weight(weight.view()).ignore(1);
        x.cross_entropy_mean(Axis::<1>, &t.constant(&target)?, plan)
    });
    check("nll_loss", &x, |x, t| {
        x.log_softmax(Axis::<1>)?.nll_loss(Axis::<1>, &t.constant(&target)?, ClassLoss::new())
    });
    check("nll_loss_mean, ignored", &x, |x, t| {
        x.nll_loss_mean(Axis::<1>, &t.constant(&target)?, ClassLoss::new().ignore(2))
    });
    check("soft_cross_entropy", &x, |x, t| {
        let soft = t.constant(&between([4, 3], 11, 0.0, 1.0))?;
        x.soft_cross_entropy(Axis::<1>, &soft, ClassLoss::new())
    });
    check("of images", &random([2, 3, 2, 2], 12), |x, t| {
        let target =
            t.constant(&Tensor::from_fn([2, 2, 2], |[a, b, c]| ((a + b + 2 * c) % 3) as i64, &Cpu)?)?;
        x.cross_entropy_mean(Axis::<1>, &target, ClassLoss::new())
    });
}

#[test]
fn losses_with_parameters() {
    let (x, y) = (random([3, 4], 13), between([3, 4], 14, 0.1, 0.9));
    let p = between([3, 4], 15, 0.1, 0.9);
    check("mse_loss", &x, |x, t| x.mse_loss(&t.constant(&y)?));
    check("l1_loss", &x, |x, t| x.l1_loss(&t.constant(&y)?));
    check("binary_cross_entropy", &p, |x, t| x.binary_cross_entropy(&t.constant(&y)?));
    check("with logits", &x, |x, t| x.binary_cross_entropy_with_logits(&t.constant(&y)?));
    check("with weights", &x, |x, t| x.weighted_binary_cross_entropy_with_logits(&t.constant(&y)?, 2.0));
    check("kl_div", &x, |x, t| x.kl_div(&t.constant(&y)?));
    check("kl_div, target", &p, |y, t| t.constant(&x)?.kl_div(y));
    check("smooth_l1_loss", &x, |x, t| x.smooth_l1_loss(&t.constant(&y)?, 0.5));
    check("huber_loss", &x, |x, t| x.huber_loss(&t.constant(&y)?, 0.5));
    check("clamp", &x, |x, _| x.clamp(-0.5, 0.5));
    check("nan_to_num", &x, |x, _| x.nan_to_num(0.0, 1.0, 2.0));
    check("ldexp", &x, |x, t| x.ldexp(&t.constant(&Tensor::full([3, 4], 3_i64, &Cpu)?)?));
    check("ldexp of 0 and of small numbers", &Tensor::from([0.0, 1e-3, -2.0, 0.0]), |x, t| {
        x.ldexp(&t.constant(&Tensor::from([3_i64, -1, 2, -2]))?)
    });
    check("elu_alpha", &x, |x, _| x.elu_alpha(0.7));
    check("celu", &x, |x, _| x.celu(0.7));
}

#[test]
fn pools() {
    let x = random([1, 2, 6, 5], 16);
    check("max_pool1d", &random([2, 2, 7], 17), |x, _| x.max_pool1d(Pool::new([3]).stride([2])));
    check("max_pool2d", &x, |x, _| x.max_pool2d(Pool::new([2, 2])));
    check("overlapping", &x, |x, _| x.max_pool2d(Pool::new([3, 2]).stride([1, 1]).padding([1, 1])));
    check("dilated", &x, |x, _| x.max_pool2d(Pool::new([2, 2]).stride([1, 1]).dilation([2, 2])));
    check("ceil", &x, |x, _| x.max_pool2d(Pool::new([4, 3]).stride([3, 2]).ceil(true)));
    check("max_pool3d", &random([1, 1, 4, 4, 4], 18), |x, _| x.max_pool3d(Pool::new([2, 2, 2])));
    check("avg_pool1d", &random([2, 2, 7], 19), |x, _| x.avg_pool1d(Pool::new([3]).stride([2])));
    check("avg_pool2d", &x, |x, _| x.avg_pool2d(Pool::new([2, 2])));
    check("avg, padded", &x, |x, _| x.avg_pool2d(Pool::new([3, 3]).stride([2, 1]).padding([1, 1])));
    check("avg, padding not counted", &x, |x, _| {
        x.avg_pool2d(Pool::new([3, 3]).stride([2, 2]).padding([1, 1]).count_padding(false))
    });
    check("avg_pool3d", &random([1, 1, 4, 4, 4], 20), |x, _| x.avg_pool3d(Pool::new([2, 2, 2])));
    check("adaptive_avg_pool", &x, |x, _| x.adaptive_avg_pool([3, 2]));
    check("adaptive_max_pool", &x, |x, _| x.adaptive_max_pool([4, 2]));
    check("with indices", &x, |x, _| Ok(x.max_pool2d_with_indices(Pool::new([2, 2]))?.0));
    check("unpooled", &x, |x, _| {
        let pool = Pool::new([2, 2]);
        let (largest, places) = x.max_pool2d_with_indices(pool)?;
        largest.max_unpool2d(&places, [6, 5])
    });
}

#[test]
fn a_large_pool_has_the_gradient_of_its_windows() {
    check("wide windows", &random([1, 1, 4, 40], 21), |x, _| x.max_pool2d(Pool::new([4, 20])));
    check("wide averages", &random([1, 1, 4, 40], 22), |x, _| x.avg_pool2d(Pool::new([4, 20])));
}

#[test]
fn images_in_other_sizes() {
    let x = random([1, 2, 4, 5], 23);
    check("nearest", &x, |x, _| x.interpolate_nearest(Interpolate::new([7, 3])));
    check("linear", &x, |x, _| x.interpolate_linear(Interpolate::new([7, 9])));
    check("linear, corners", &x, |x, _| x.interpolate_linear(Interpolate::new([7, 3]).align_corners(true)));
    check("1d", &random([1, 2, 5], 24), |x, _| x.interpolate_linear(Interpolate::new([8])));
    check("3d", &random([1, 1, 2, 3, 2], 25), |x, _| x.interpolate_linear(Interpolate::new([3, 4, 3])));
}

#[test]
fn dropout_by_a_mask_of_random_numbers() {
    check("dropout", &random([4, 5], 26), |x, tape: &Tape| {
        let keep = Tensor::<f64, 2, _>::random_uniform([4, 5], 0.0..1.0, 7, tape)?;
        (x.lazy() * keep.lazy().less(0.7).cast::<f64>() / 0.7).eval()
    });
}

#[test]
fn infinities_of_hidden_keys_do_not_reach_gradients() -> Result<()> {
    let (q, k) = (random([1, 1, 3, 2], 27), random([1, 1, 3, 2], 28));
    let gradients = |hidden: f64, attention: Attention| {
        let mut v = random([1, 1, 3, 2], 29);
        v.view_mut()?.slice((0, 0, 2, ..))?.fill(hidden)?;
        let (dq, dk, dv) = grad((&q, &k, &v), |(q, k, v), tape| {
            let mask = tape.constant(&Tensor::from([[[[true, true, false]]]]))?;
            let y = q.attention(k, v, Some(mask.view()), attention)?;
            let w = tape.constant(&random([1, 1, 3, 2], 30))?;
            (y.lazy() * &w).sum(All)
        })?;
        Ok::<_, Error>([dq.to_vec()?, dk.to_vec()?, dv.to_vec()?])
    };
    for attention in [Attention::new(), Attention::new().causal(true), Attention::new().softcap(2.0)] {
        let expected = gradients(0.0, attention)?;
        for hidden in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            for (found, expected) in gradients(hidden, attention)?.iter().zip(&expected) {
                crate::check::close("beside a hidden key", found, expected);
            }
        }
    }
    Ok(())
}

#[test]
fn a_tape_inside_records_the_values_of_a_pool_and_not_its_search() -> Result<()> {
    let x = random([2, 3, 18, 18], 40);
    for pool in [
        Pool::new([2, 2]),
        Pool::new([3, 2]).stride([1, 2]).padding([1, 1]),
        Pool::new([18, 18]),
        Pool::new([16, 16]).stride([1, 2]),
    ] {
        let tape = Tape::new(&Tape::new(&Cpu));
        let inner = tape.inner().watch(&x)?;
        let on_both = tape.watch(&inner)?;
        let before = tape.inner().len();
        let y = on_both.max_pool2d(pool)?;
        assert_eq!(tape.inner().len() - before, 1, "{pool:?}");
        let first = tape.backward(&(y.lazy() * &y).sum(All)?)?.of(&on_both)?;
        let plain = grad(&x, |x, _| x.max_pool2d(pool)?.square()?.sum(All))?;
        assert_eq!(first.to_vec()?, plain.to_vec()?, "{pool:?}");
        // The gradient is 2 x where an element is the largest of windows, once for each.
        let second = tape.inner().backward(&first.sum(All)?)?.of(&inner)?.to_vec()?;
        let counts = grad(&x, |x, _| x.max_pool2d(pool)?.sum(All))?.to_vec()?;
        for (second, count) in second.iter().zip(counts) {
            assert_eq!(*second, 2.0 * count, "{pool:?}");
        }
    }
    Ok(())
}
