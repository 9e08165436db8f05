//! Convolutions, pooling and attention against loops over every index.

use crate::value::Random;
use crate::{IS_SANITIZED, is_sampled, sampled};
use rankform::ops::Attention;
use rankform::ops::Conv;
use rankform::ops::Pool;
use rankform::prelude::*;

/// Small whole numbers, exact in every element; plain, channels last, or a part of a larger tensor with
/// negative strides.
fn operand<T: Number + From<i8>, const RANK: usize>(
    size: [usize; RANK],
    kind: usize,
    random: &mut Random,
) -> Tensor<T, RANK> {
    let mut value = || T::from(random.below(5) as i8 - 2);
    let last: [usize; RANK] = std::array::from_fn(|axis| {
        if axis == 0 {
            0
        } else if axis == 1 {
            RANK - 1
        } else {
            axis - 1
        }
    });
    match kind {
        0 => Tensor::from_fn(size, |_| value(), &Cpu).unwrap(),
        1 => {
            let stored: [usize; RANK] = std::array::from_fn(|place| {
                if place == 0 {
                    size[0]
                } else if place == RANK - 1 {
                    size[1]
                } else {
                    size[place + 1]
                }
            });
            Tensor::from_fn(stored, |_| value(), &Cpu).unwrap().into_permuted(last).unwrap()
        }
        _ => {
            let mut x = Tensor::from_fn(size.map(|n| 2 * n + 1), |_| value(), &Cpu).unwrap();
            for axis in 0..RANK {
                x = x
                    .into_slice_axis(axis, 1..2 * size[axis] + 1, if axis == RANK - 1 { -2 } else { 2 })
                    .unwrap();
            }
            x
        }
    }
}

/// One output of a convolution, by its definition.
fn convolved<T: Number + Into<f64>, const RANK: usize, const N: usize>(
    x: &Tensor<T, RANK>,
    w: &Tensor<T, RANK>,
    conv: &Conv<N>,
    at: [usize; RANK],
) -> f64 {
    let (outputs, inputs) = (w.size()[0] / conv.groups, w.size()[1]);
    let mut sum = 0.0;
    let mut weights = w.size().0;
    weights[0] = 1;
    for mut place in Dim(weights).indices() {
        place[0] = at[1];
        let mut index = at;
        index[1] = at[1] / outputs * inputs + place[1];
        let mut inside = true;
        for axis in 0..N {
            let here = (at[axis + 2] * conv.stride[axis] + place[axis + 2] * conv.dilation[axis])
                .wrapping_sub(conv.padding[axis]);
            inside &= here < x.size()[axis + 2];
            index[axis + 2] = here;
        }
        if inside {
            sum += Into::<f64>::into(x[index]) * Into::<f64>::into(w[place]);
        }
    }
    sum
}

macro_rules! convolutions {
    ($name:ident $conv:ident $transposed:ident $rank:literal $n:literal: $($x:expr, $w:expr, $c:expr;)*) => {
        #[test]
        fn $name() {
            fn run<T: Number + From<i8> + Into<f64>>() {
                let mut random = Random(3);
                for (case, (x, w, c)) in [$(($x, $w, $c)),*].into_iter().enumerate() {
                    for (kind, [left, right]) in [[0, 0], [1, 2], [2, 1]].into_iter().enumerate() {
                        let (x, w) = (
                            operand::<T, $rank>(x, left, &mut random),
                            operand::<T, $rank>(w, right, &mut random)
                        );
                        let y = x.$conv(&w, c).unwrap();
                        for at in y.size().indices() {
                            assert_eq!(
                                Into::<f64>::into(y[at]), convolved(&x, &w, &c, at),
                                "{} case {case} kind {kind} {at:?}", T::DTYPE
                            );
                        }
                        // ⟨conv(x), y⟩ = ⟨x, convᵀ(y)⟩, for whole numbers exactly.
                        let mut extra = [0; $n];
                        for axis in 0..$n {
                            let reach = x.size()[axis + 2] + 2 * c.padding[axis]
                                - c.dilation[axis] * (w.size()[axis + 2] - 1) - 1;
                            extra[axis] = reach % c.stride[axis];
                        }
                        let z = y.$transposed(&w, c, extra).unwrap();
                        assert_eq!(z.size(), x.size());
                        let dot = |a: &Tensor<T, $rank>, b: &Tensor<T, $rank>| Into::<f64>::into(
                            (a.lazy() * b).sum(All).unwrap().item().unwrap()
                        );
                        assert_eq!(
                            dot(&y, &y), dot(&x, &z), "{} transposed, case {case} kind {kind}", T::DTYPE
                        );
                    }
                }
            }
            run::<f32>();
            run::<f64>();
            run::<i32>();
        }
    };
}
convolutions! {
    convolutions_over_one_axis conv1d conv_transpose1d 3 1:
    [2, 3, 9], [4, 3, 3], Conv::new();
    [1, 4, 11], [6, 2, 4], Conv::new().groups(2).padding([2]).stride([2]);
    [2, 2, 13], [2, 1, 3], Conv::new().groups(2).dilation([3]).padding([3]);
}
convolutions! {
    convolutions_over_two_axes conv2d conv_transpose2d 4 2:
    [2, 3, 6, 7], [5, 3, 3, 3], Conv::new().padding([1, 1]);
    [1, 4, 7, 6], [4, 4, 1, 1], Conv::new();
    [1, 6, 9, 8], [4, 3, 3, 2], Conv::new().groups(2).stride([2, 3]).padding([2, 0]).dilation([2, 1]);
    [2, 4, 5, 5], [4, 1, 3, 3], Conv::new().groups(4).padding([1, 1]);
    [1, 2, 6, 9], [2, 1, 2, 7], Conv::new().groups(2).padding([1, 4]);
    [2, 3, 5, 9], [3, 1, 3, 4], Conv::new().groups(3).stride([1, 2]).dilation([1, 2]).padding([1, 3]);
}
convolutions! {
    convolutions_over_three_axes conv3d conv_transpose3d 5 3:
    [1, 2, 4, 5, 4], [3, 2, 2, 3, 2], Conv::new().padding([1, 0, 1]);
    [2, 2, 5, 4, 3], [2, 1, 3, 2, 1], Conv::new().groups(2).stride([2, 1, 2]).dilation([1, 2, 1]);
}

#[test]
fn large_convolutions_run_through_every_block() -> Result<()> {
    let mut random = Random(8);
    let c = Conv::new().padding([1, 1]);
    let w = operand::<f32, 4>([34, 40, 3, 3], 0, &mut random);
    for kind in 0..3 {
        let x = operand::<f32, 4>([2, 40, 14, 19], kind, &mut random);
        let y = x.conv2d(&w, c)?;
        assert_eq!(y.is_channels_last(), kind == 1);
        for _ in 0..300 {
            let at = [random.below(2), random.below(34), random.below(14), random.below(19)];
            assert_eq!(y[at] as f64, convolved(&x, &w, &c, at), "kind {kind} {at:?}");
        }
    }
    Ok(())
}

#[test]
fn many_images_are_convolved_some_at_a_time() -> Result<()> {
    let mut random = Random(9);
    let cases = [
        ([40, 40, 3, 3], Conv::new().padding([1, 1])),
        ([40, 1, 3, 3], Conv::new().padding([1, 1]).groups(40)),
        ([40, 1, 3, 3], Conv::new().padding([1, 1]).stride([2, 2]).groups(40)),
        ([40, 1, 2, 5], Conv::new().dilation([3, 2]).stride([1, 3]).groups(40)),
        ([40, 1, 4, 2], Conv::new().padding([2, 0]).stride([3, 2]).groups(40)),
        ([6, 20, 4, 2], Conv::new().padding([3, 0]).stride([2, 3]).dilation([3, 1]).groups(2)),
        ([7, 40, 1, 1], Conv::new()),
        ([7, 40, 1, 1], Conv::new().stride([2, 1])),
    ];
    for (case, (weights, c)) in cases.into_iter().enumerate() {
        let w = operand::<f32, 4>(weights, 0, &mut random);
        for kind in (0..3).filter(|kind| is_sampled(case + kind, 3)) {
            let x = operand::<f32, 4>([5, 40, 50, 50], kind, &mut random);
            let y = x.conv2d(&w, c)?;
            for _ in 0..300 {
                let at = y.size().0.map(|n| random.below(n));
                assert_eq!(y[at] as f64, convolved(&x, &w, &c, at), "{weights:?} kind {kind} {at:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn bits_of_a_depthwise_convolution_do_not_depend_on_the_images_beside_it() -> Result<()> {
    let mut random = Random(11);
    let mut value = |_| random.below(1000) as f32 / 7.0 - 70.0;
    let x = Tensor::<f32, 4>::from_fn([20, 3, 9, 8], &mut value, &Cpu)?;
    let w = Tensor::from_fn([3, 1, 3, 5], &mut value, &Cpu)?;
    for c in [Conv::new().padding([1, 2]).groups(3), Conv::new().stride([2, 2]).groups(3)] {
        let y = x.conv2d(&w, c)?;
        for image in 0..20 {
            let alone = x.slice_axis(0, image..image + 1, 1)?.conv2d(&w, c)?;
            assert_eq!(alone, y.slice_axis(0, image..image + 1, 1)?, "image {image}");
        }
    }
    Ok(())
}

#[test]
fn weights_larger_than_a_cache_are_ordered_by_parts() -> Result<()> {
    let mut random = Random(10);
    let cases = [
        ([3, 40, 14, 15], [70, 40, 10, 10], Conv::new().padding([2, 1])),
        ([3, 40, 14, 15], [70, 40, 10, 10], Conv::new().stride([2, 1])),
        ([2, 80, 13, 14], [140, 40, 10, 10], Conv::new().padding([1, 1]).groups(2)),
    ];
    for (case, (images, weights, c)) in cases.into_iter().enumerate() {
        let w = operand::<f32, 4>(weights, 0, &mut random);
        for kind in (0..3).filter(|kind| is_sampled(case + kind, 3)) {
            let x = operand::<f32, 4>(images, kind, &mut random);
            let y = x.conv2d(&w, c)?;
            for _ in 0..30 {
                let at = y.size().0.map(|n| random.below(n));
                assert_eq!(y[at] as f64, convolved(&x, &w, &c, at), "{weights:?} kind {kind} {at:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn convolutions_refuse_mismatched_operands() -> Result<()> {
    let (x, w) = (Tensor::<f32, 4>::zeros([1, 4, 5, 5], &Cpu)?, Tensor::<f32, 4>::zeros([2, 4, 3, 3], &Cpu)?);
    let says = |c: Conv<2>, text: &str| assert_eq!(x.conv2d(&w, c).unwrap_err().to_string(), text);
    says(Conv::new().groups(2), "conv2d: weights [2, 4, 3, 3] do not fit 4 channels in 2 groups");
    says(
        Conv::new().dilation([3, 1]),
        "conv2d: axis 2 of size 5: a window of 3 with dilation 3 is longer than the axis with padding 0",
    );
    says(
        Conv::new().stride([0, 1]),
        "conv2d: axis 2 of size 5: a window of 3, stride 0, dilation 1: none may be 0",
    );
    assert!(x.conv2d(&w, Conv::new().padding([usize::MAX, 0])).is_err());
    assert!(x.conv2d(&w, Conv::new().padding([isize::MAX as usize / 4, 0])).is_err());
    assert!(x.max_pool2d(Pool::new([2, 2]).padding([2, 0])).is_err());
    // One window, and a stride beyond any second one.
    assert_eq!(x.max_pool2d(Pool::new([4, 4]).padding([2, 2]).stride([usize::MAX; 2]))?.size(), [1, 4, 1, 1]);
    let none = Tensor::<f32, 4>::zeros([0, 4, 5, 5], &Cpu)?.conv2d(&w, Conv::new())?;
    assert_eq!(none.size(), [0, 2, 3, 3]);
    let device = Meta::new();
    assert_eq!(x.to(&device)?.conv2d(&w.to(&device)?, Conv::new())?.size(), [1, 2, 3, 3]);
    Ok(())
}

#[test]
fn pools_are_the_maximum_and_the_mean_of_a_window() -> Result<()> {
    let mut random = Random(4);
    let pools = [
        Pool::new([2, 2]),
        Pool::new([3, 3]).stride([2, 1]).padding([1, 1]),
        Pool::new([3, 2]).stride([1, 2]).padding([1, 1]).dilation([2, 1]),
        Pool::new([3, 3]).stride([2, 2]).padding([1, 1]).count_padding(false),
        Pool::new([2, 1]).stride([3, 4]),
    ];
    for (case, pool) in pools.into_iter().enumerate() {
        for kind in 0..3 {
            let x = operand::<f32, 4>([2, 3, 7, 8], kind, &mut random);
            let (largest, mean) = (x.max_pool2d(pool)?, x.avg_pool2d(pool)?);
            for at in largest.size().indices() {
                let seen = |[i, j]: [usize; 2]| {
                    let row = (at[2] * pool.stride[0] + i * pool.dilation[0]).wrapping_sub(pool.padding[0]);
                    let column =
                        (at[3] * pool.stride[1] + j * pool.dilation[1]).wrapping_sub(pool.padding[1]);
                    x.get([at[0], at[1], row, column]).copied()
                };
                let all: Vec<f32> = Dim(pool.window).indices().filter_map(seen).collect();
                let count = if pool.count_padding { pool.window.iter().product() } else { all.len() };
                assert_eq!(
                    largest[at],
                    all.iter().copied().fold(f32::NEG_INFINITY, f32::max),
                    "case {case} kind {kind} {at:?}"
                );
                let truth = all.iter().sum::<f32>() / count as f32;
                assert!(
                    (mean[at] - truth).abs() <= 1e-6,
                    "case {case} kind {kind} {at:?}: {} not {truth}",
                    mean[at]
                );
            }
        }
    }
    let x = Tensor::from([[[1_u8, 5, 2, 9]]]);
    assert_eq!(x.max_pool1d(Pool::new([2]).stride([1]))?.to_vec()?, [5, 5, 9]);
    let x = Tensor::from([[[1.0, f64::NAN, 2.0, 3.0]]]).max_pool1d(Pool::new([2]))?;
    assert!(x[[0, 0, 0]].is_nan() && x[[0, 0, 1]] == 3.0);
    let cubes = Tensor::<f32, 5>::ones([1, 2, 4, 4, 4], &Cpu)?;
    assert_eq!(cubes.avg_pool3d(Pool::new([2, 2, 2]))?.sum(All)?.item()?, 16.0);
    Ok(())
}

/// Attention of one query by its definition, in f64.
fn attended<T: Number + Into<f64>>(
    [q, k, v]: [&Tensor<T, 4>; 3],
    sees: &dyn Fn([usize; 4]) -> bool,
    scale: f64,
    [b, h, i]: [usize; 3],
) -> Vec<f64> {
    let at = |x: &Tensor<T, 4>, [b, h, i, j]: [usize; 4]| -> f64 {
        x[[b.min(x.size()[0] - 1), h.min(x.size()[1] - 1), i, j]].into()
    };
    let keys: Vec<usize> = (0..k.size()[2]).filter(|&j| sees([b, h, i, j])).collect();
    let query: Vec<f64> = (0..q.size()[3]).map(|d| at(q, [b, h, i, d])).collect();
    let score =
        |&j: &usize| query.iter().enumerate().map(|(d, x)| x * at(k, [b, h, j, d])).sum::<f64>() * scale;
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mean = |e: usize| {
        keys.iter().zip(&weights).map(|(&j, weight)| weight * at(v, [b, h, j, e])).sum::<f64>() / total
    };
    (0..v.size()[3]).map(|e| if keys.is_empty() { 0.0 } else { mean(e) }).collect()
}

#[test]
fn attention_is_a_mean_of_values_by_softmax_of_scores() -> Result<()> {
    fn run<T: rankform::ops::AttentionFloat + Into<f64>>(bound: f64, of: impl Fn(f64) -> T) -> Result<()> {
        let mut random = Random(6);
        for (case, [b, h, kv, queries, keys, d, e]) in [
            [2, 3, 3, 7, 9, 8, 5],
            [1, 2, 1, 40, 40, 8, 3],
            [2, 1, 1, 1, 300, 4, 2],
            [1, 1, 1, 33, 5, 3, 33],
            [1, 1, 1, 150, 600, 3, 1], // two blocks of keys for each of two blocks of queries
        ]
        .into_iter()
        .enumerate()
        {
            let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| of(random.unit() * 4.0), &Cpu);
            let (q, k, v) = (
                fresh([b, h, queries, d])?,
                fresh([b, kv, keys, d])?,
                fresh([b, kv, e, keys])?.into_permuted([0, 1, 3, 2])?,
            );
            let mask = Tensor::from_fn(
                [1, h, queries, keys],
                |[_, h, i, j]| (i * 7 + j * 3 + h) % 3 != 0 && i != 0,
                &Cpu,
            )?;
            for (causal, masked) in [(false, false), (true, false), (false, true), (true, true)] {
                let attention = Attention { causal, ..Attention::new() };
                let y = q.attention(&k, &v, masked.then(|| mask.view()), attention)?;
                assert_eq!(y.size(), [b, h, queries, e]);
                let sees = |[_, h, i, j]: [usize; 4]| (!causal || j <= i) && (!masked || mask[[0, h, i, j]]);
                for [b, h, i] in Dim([b, h, queries]).indices() {
                    let truth = attended([&q, &k, &v], &sees, 1.0 / (d as f64).sqrt(), [b, h, i]);
                    for (e, truth) in truth.into_iter().enumerate() {
                        let found: f64 = y[[b, h, i, e]].into();
                        assert!(
                            (found - truth).abs() <= bound * 4.0,
                            "{} case {case} {causal} {masked} {:?}: {found}, not {truth}",
                            T::DTYPE,
                            [b, h, i, e]
                        );
                    }
                }
            }
        }
        Ok(())
    }
    run::<f64>(1e-14, |x| x)?;
    run::<f32>(2e-6, |x| x as f32)?;
    run::<rankform::f16>(2e-3, rankform::f16::from_f64)?;
    run::<rankform::bf16>(1.2e-2, rankform::bf16::from_f64)
}

/// Sequences of several blocks of queries and keys: results do not change if hidden keys and values do.
#[test]
fn hidden_keys_and_values_do_not_reach_any_block() -> Result<()> {
    let mut random = Random(12);
    let mut fresh = |size: [usize; 4]| Tensor::<f32, 4>::from_fn(size, |_| random.unit() as f32, &Cpu);
    let (n, first_hidden) = if IS_SANITIZED { (520, 200) } else { (700, 300) };
    let (q, k, v) = (fresh([1, 2, n, 4])?, fresh([1, 2, n, 4])?, fresh([1, 2, n, 3])?);
    let mask = Tensor::from_fn([1, 1, 1, n], |[.., j]| j < first_hidden && j % 5 != 2, &Cpu)?;
    let causal = Attention::new().causal(true);
    let (masked, diagonal) =
        (q.attention(&k, &v, Some(mask.view()), Attention::new())?, q.attention(&k, &v, None, causal)?);
    for hidden in sampled([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX], 4) {
        let replaced = |x: &Tensor<f32, 4>| -> Result<Tensor<f32, 4>> {
            let mut x = x.copy()?;
            x.view_mut()?.slice((.., .., first_hidden.., ..))?.fill(hidden)?;
            x.view_mut()?.slice((.., .., 2, ..))?.fill(hidden)?;
            Ok(x)
        };
        let (k, v) = (replaced(&k)?, replaced(&v)?);
        let near = |a: &Tensor<f32, 4>, b: &Tensor<f32, 4>, queries: usize| {
            b.size().indices().filter(|at| at[2] < queries).all(|at| (a[at] - b[at]).abs() <= 1e-6)
        };
        assert!(near(&q.attention(&k, &v, Some(mask.view()), Attention::new())?, &masked, n), "{hidden}");
        // Queries 0 and 1 see no replaced key.
        assert!(near(&q.attention(&k, &v, None, causal)?, &diagonal, 2), "{hidden}");
    }
    Ok(())
}

#[test]
fn attention_is_stable_and_takes_long_sequences_in_blocks() -> Result<()> {
    let q = Tensor::<f32, 4>::full([1, 1, 400, 4], 1e4, &Cpu)?; // scores of 2e8
    let k = Tensor::from_fn([1, 1, 3000, 4], |[_, _, j, _]| if j == 1234 { 1e4 } else { -1e4 }, &Cpu)?;
    let v = Tensor::from_fn([1, 1, 3000, 1], |[_, _, j, _]| j as f32, &Cpu)?;
    let y = q.attention(&k, &v, None, Attention::new())?;
    assert!(y.to_vec()?.iter().all(|&value| value == 1234.0));
    assert_eq!(
        q.attention(&k, &v, None, Attention::new().scale(-1.0)).unwrap_err().to_string(),
        "attention: the scale -1 is not a positive number"
    );
    assert!(matches!(q.attention(&v, &v, None, Attention::new()), Err(rankform::Error::Inner { .. })));
    let none = Tensor::<f32, 4>::zeros([1, 1, 0, 4], &Cpu)?;
    assert_eq!(q.attention(&none, &none, None, Attention::new())?.max(All)?.item()?, 0.0);
    Ok(())
}
