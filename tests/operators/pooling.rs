//! Positions of windows' maxima and unpooling, padding that differs at both ends, other divisors, grouped
//! queries.

use crate::value::Random;
use rankform::ops::Pad;
use rankform::prelude::*;

/// The largest of a window and its position in the plane, by PyTorch's rule: of equals the first, of NaNs the
/// last.
fn largest_of<T: Comparable>(
    x: &Tensor<T, 4>,
    pool: Pool<2>,
    before: [usize; 2],
    at: [usize; 4],
) -> (Option<T>, i64) {
    let mut best: (Option<T>, i64) = (None, -1);
    for window in Dim(pool.window).indices() {
        let place =
            |k: usize| (at[k + 2] * pool.stride[k] + window[k] * pool.dilation[k]).wrapping_sub(before[k]);
        let Some(&value) = x.get([at[0], at[1], place(0), place(1)]) else { continue };
        #[allow(clippy::eq_op)] // NaN
        if best.0.is_none_or(|best| value > best || value != value) {
            best = (Some(value), (place(0) * x.size()[3] + place(1)) as i64);
        }
    }
    best
}

#[test]
fn positions_of_maxima_follow_the_rule_of_pytorch() -> Result<()> {
    let mut random = Random(11);
    let pools = [
        (Pool::new([2, 2]), [0, 0]),
        (Pool::new([3, 3]).stride([2, 1]).padding([1, 1]), [1, 1]),
        (Pool::new([3, 2]).stride([1, 2]).padding([1, 1]).dilation([2, 1]), [1, 1]),
        (Pool::new([3, 3]).stride([2, 2]).padding_ends([0, 1], [1, 0]).ceil(true), [0, 1]),
        (Pool::new([6, 5]), [0, 0]), // few and long
        (Pool::new([7, 8]).stride([3, 2]).padding([3, 1]), [3, 1]),
        (Pool::new([2, 2]).stride([1, 1]).same_lower(), [1, 1]),
    ];
    for (pool, before) in pools {
        for nan in [false, true] {
            let mut value =
                || if nan && random.below(4) == 0 { f64::NAN } else { random.below(4) as f64 - 2.0 };
            let plain = Tensor::from_fn([2, 3, 7, 8], |_| value(), &Cpu)?;
            let turned = Tensor::from_fn([2, 7, 8, 3], |_| value(), &Cpu)?.into_permuted([0, 3, 1, 2])?;
            let sliced = Tensor::from_fn([2, 3, 14, 8], |_| value(), &Cpu)?.into_slice_axis(2, 0..14, -2)?;
            for x in [plain, turned, sliced] {
                let (largest, indices) = x.max_pool2d_with_indices(pool)?;
                let only = x.max_pool2d(pool)?;
                for at in largest.size().indices() {
                    let truth = largest_of(&x, pool, before, at);
                    let found = largest[at];
                    assert_eq!(indices[at], truth.1, "{pool:?} {at:?}");
                    assert!(
                        truth.0.is_none_or(|truth| found == truth || found.is_nan() && truth.is_nan()),
                        "{pool:?} {at:?}"
                    );
                    assert_eq!(found.to_bits(), only[at].to_bits(), "the values are those of max_pool2d");
                }
                let (mut values, mut places) = (largest.copy()?, indices.copy()?);
                values.fill(0.0)?;
                places.fill(0)?;
                x.max_pool2d_with_indices_into(pool, &mut values, &mut places)?;
                assert!(values.allclose(&largest, 0.0, 0.0, true)? && places == indices);
            }
        }
    }
    Ok(())
}

#[test]
fn positions_of_maxima_of_integers_halves_lines_and_cubes() -> Result<()> {
    let line = Tensor::from([[[i64::MIN, i64::MIN, 3, i64::MAX, i64::MAX]]]);
    let (values, places) = line.max_pool1d_with_indices(Pool::new([2]).stride([1]))?;
    assert_eq!(
        (values.to_vec()?, places.to_vec()?),
        (vec![i64::MIN, 3, i64::MAX, i64::MAX], vec![0, 2, 3, 3])
    );
    let (values, places) = line.max_pool1d_with_indices(Pool::new([5]))?;
    assert_eq!((values.to_vec()?, places.to_vec()?), (vec![i64::MAX], vec![3]));
    let infinite = Tensor::from([[[f32::NEG_INFINITY; 3]]]);
    assert_eq!(infinite.max_pool1d_with_indices(Pool::new([3]))?.1.to_vec()?, [0]);
    let halves = infinite.cast::<rankform::f16>()?;
    assert_eq!(halves.max_pool1d_with_indices(Pool::new([1]))?.1.to_vec()?, [0, 1, 2]);
    let zeros = Tensor::from([[[-0.0_f64, 0.0]]]).max_pool1d_with_indices(Pool::new([2]))?;
    assert_eq!((zeros.0[[0, 0, 0]].to_bits(), zeros.1[[0, 0, 0]]), (0.0_f64.to_bits(), 0));

    let mut random = Random(3);
    let cubes = Tensor::from_fn([2, 2, 4, 3, 5], |_| random.below(1000) as u8, &Cpu)?;
    let (values, places) =
        cubes.max_pool3d_with_indices(Pool::new([2, 2, 2]).stride([1, 1, 2]).padding([0, 1, 0]))?;
    for at in values.size().indices() {
        let [i, j, k] = Dim([4, 3, 5]).delinearize(places[at] as usize).0;
        assert_eq!(cubes[[at[0], at[1], i, j, k]], values[at]);
    }
    // A dilated window that steps over the input reads no element.
    let gaps = Tensor::from([[[1.0, 2.0]]])
        .max_pool1d_with_indices(Pool::new([2]).stride([1]).padding([2]).dilation([4]))?;
    assert_eq!((gaps.0.to_vec()?, gaps.1.to_vec()?), (vec![f64::NEG_INFINITY; 2], vec![-1; 2]));

    let none = Tensor::<f32, 4>::zeros([0, 3, 4, 4], &Cpu)?;
    assert_eq!(none.max_pool2d_with_indices(Pool::new([2, 2]))?.1.size(), [0, 3, 2, 2]);
    let device = Meta::new();
    let (values, places) =
        Tensor::<f32, 4, Meta>::zeros([1, 2, 4, 4], &device)?.max_pool2d_with_indices(Pool::new([2, 2]))?;
    assert_eq!((values.size(), places.size()), (dim![1, 2, 2, 2], dim![1, 2, 2, 2]));
    assert_eq!(values.max_unpool2d(&places, [4, 4])?.size(), [1, 2, 4, 4]);
    let error = line.max_pool1d_with_indices(Pool::new([2]).padding([2])).unwrap_err().to_string();
    assert_eq!(
        error,
        "max_pool1d_with_indices: axis 2: padding 2 is more than half a window that reaches over 2"
    );
    Ok(())
}

#[test]
fn max_unpool_puts_the_largest_back_where_they_stood() -> Result<()> {
    let mut random = Random(5);
    let x = Tensor::from_fn([2, 3, 6, 8], |_| random.unit() + 1.0, &Cpu)?;
    let (largest, indices) = x.max_pool2d_with_indices(Pool::new([2, 2]))?;
    let back = largest.max_unpool2d(&indices, [6, 8])?;
    let mut kept = 0;
    for at in x.size().indices() {
        assert!(back[at] == 0.0 || back[at] == x[at]);
        kept += usize::from(back[at] != 0.0);
    }
    assert_eq!(kept, largest.numel());
    assert_eq!(back.max_pool2d(Pool::new([2, 2]))?, largest);
    // Into a part of a larger tensor, of any strides.
    let mut whole = Tensor::<f64, 4>::full([2, 3, 8, 12], 9.0, &Cpu)?.into_permuted([0, 1, 3, 2])?;
    largest.max_unpool2d_into(
        &indices,
        [6, 8],
        whole.view_mut()?.permuted([0, 1, 3, 2])?.slice((.., .., 1..7, 2..10))?,
    )?;
    let whole = whole.permuted([0, 1, 3, 2])?;
    assert_eq!(whole.slice((.., .., 1..7, 2..10))?.copy()?, back);
    assert_eq!(whole[[0, 0, 0, 0]], 9.0);
    let line = Tensor::from([[[7, 8]]]).max_unpool1d(&Tensor::from([[[2, 0]]]), [4])?;
    assert_eq!(line.to_vec()?, [8, 0, 7, 0]);
    let cube = Tensor::<bool, 5>::full([1, 1, 1, 1, 1], true, &Cpu)?
        .max_unpool3d(&Tensor::full([1; 5], 5, &Cpu)?, [1, 2, 3])?;
    assert_eq!(cube.to_vec()?, [false, false, false, false, false, true]);
    let outside = Tensor::from([[[7, 8]]]).max_unpool1d(&Tensor::from([[[4, -1]]]), [4]).unwrap_err();
    assert!(
        matches!(outside, Error::Index { .. }) && outside.to_string().starts_with("max_unpool1d"),
        "{outside}"
    );
    let sizes = Tensor::from([[[7, 8]]]).max_unpool1d(&Tensor::from([[[0]]]), [4]).unwrap_err();
    assert!(matches!(sizes, Error::Sizes { .. }), "{sizes}");
    Ok(())
}

#[test]
fn padding_that_differs_at_both_ends_is_that_of_a_padded_input() -> Result<()> {
    let mut random = Random(8);
    let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| random.below(5) as i32 - 2, &Cpu);
    let x = fresh([2, 4, 5, 6])?;
    for (groups, w) in [
        (1, fresh([3, 4, 3, 2])?),
        (2, fresh([4, 2, 2, 3])?),
        (4, fresh([4, 1, 3, 3])?),
        (1, fresh([2, 4, 1, 1])?),
    ] {
        for ([top, left], [bottom, right]) in [([0, 0], [2, 1]), ([1, 2], [0, 0]), ([3, 0], [1, 2])] {
            for (stride, dilation) in [([1, 1], [1, 1]), ([2, 3], [1, 2])] {
                let conv = Conv::new().groups(groups).stride(stride).dilation(dilation);
                let padded = x.pad([(0, 0), (0, 0), (top, bottom), (left, right)], Pad::Constant(0))?;
                let y = x.conv2d(&w, conv.padding_ends([top, left], [bottom, right]))?;
                assert_eq!(y, padded.conv2d(&w, conv)?, "{groups} {top} {left} {bottom} {right}");
                // The transposed one is cut where the other is padded.
                if stride == [1, 1] {
                    let whole = y.conv_transpose2d(&w, conv, [0, 0])?;
                    let cut =
                        y.conv_transpose2d(&w, conv.padding_ends([top, left], [bottom, right]), [0, 0])?;
                    let [_, _, h, wide] = whole.size().0;
                    assert_eq!(cut, whole.slice((.., .., top..h - bottom, left..wide - right))?.copy()?);
                    assert_eq!(cut.size(), x.size());
                }
            }
        }
    }
    let (x, w) = (Tensor::<f32, 4>::ones([1, 1, 7, 6], &Cpu)?, Tensor::<f32, 4>::ones([1, 1, 4, 3], &Cpu)?);
    for stride in 1..9 {
        let (upper, lower) =
            (Conv::new().stride([stride; 2]).same(), Conv::new().stride([stride; 2]).same_lower());
        let size = dim![1, 1, 7usize.div_ceil(stride), 6usize.div_ceil(stride)];
        assert_eq!((x.conv2d(&w, upper)?.size(), x.conv2d(&w, lower)?.size()), (size, size), "{stride}");
        let back = x.conv_transpose2d(&w, upper, [0, 0])?.size();
        assert_eq!(back, [1, 1, (7 * stride).min(6 * stride + 4), (6 * stride).min(5 * stride + 3)]);
    }
    // The odd place: at the end, or at the start.
    let line = Tensor::from([[[1.0, 2.0, 4.0]]]);
    let two = Tensor::from([[[1.0, 1.0]]]);
    assert_eq!(line.conv1d(&two, Conv::new().same())?.to_vec()?, [3.0, 6.0, 4.0]);
    assert_eq!(line.conv1d(&two, Conv::new().same_lower())?.to_vec()?, [1.0, 3.0, 6.0]);
    // Infinite weights at padding: the product 0 · ∞ is NaN, for one channel as for two.
    for channels in [1, 2] {
        let x = Tensor::<f32, 3>::ones([1, channels, 3], &Cpu)?;
        let w =
            Tensor::from_fn([channels, 1, 2], |[_, _, k]| if k == 1 { f32::INFINITY } else { 1.0 }, &Cpu)?;
        let y = x.conv1d(&w, Conv::new().groups(channels).padding_ends([0], [1]))?;
        assert!(y[[0, 0, 2]].is_nan() && y[[0, 0, 1]] == f32::INFINITY);
    }
    let error = line
        .conv1d(&Tensor::<f64, 3>::ones([1, 1, 9], &Cpu)?, Conv::new().padding_ends([1], [2]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "conv1d: axis 2 of size 3: a window of 9 with dilation 1 is longer than the axis with padding 1 \
         before and 2 after it"
    );
    let huge = Conv::new().padding_ends([usize::MAX], [usize::MAX]);
    assert!(line.conv1d(&two, huge).is_err() && line.conv_transpose1d(&two, huge, [0]).is_err());
    assert!(
        Tensor::<f32, 3>::zeros([1, 1, 0], &Cpu)?
            .conv1d(&Tensor::ones([1, 1, 2], &Cpu)?, Conv::new().same())
            .is_err()
    );
    Ok(())
}

#[test]
fn means_of_windows_have_any_divisor_and_padding() -> Result<()> {
    let x = Tensor::from([[[1.0, 2.0, 3.0, 4.0, 6.0]]]);
    let pool = Pool::new([2]);
    assert_eq!(x.avg_pool1d(pool.ceil(true).divisor(4))?.to_vec()?, [0.75, 1.75, 1.5]);
    assert_eq!(x.avg_pool1d(pool.divisor(-1))?.to_vec()?, [-3.0, -7.0]);
    assert_eq!(x.avg_pool1d(pool.padding_ends([0], [1]))?.to_vec()?, [1.5, 3.5, 3.0]);
    assert_eq!(x.avg_pool1d(pool.padding_ends([0], [1]).count_padding(false))?.to_vec()?, [1.5, 3.5, 6.0]);
    assert_eq!(
        x.avg_pool1d(Pool::new([3]).stride([1]).same().count_padding(false))?.to_vec()?,
        [1.5, 2.0, 3.0, 13.0 / 3.0, 5.0]
    );
    assert_eq!(x.avg_pool1d(pool.divisor(0)).unwrap_err().to_string(), "avg_pool1d: a divisor of 0");
    // Few windows that are long.
    assert_eq!(x.avg_pool1d(Pool::new([5]).divisor(2))?.to_vec()?, [8.0]);
    Ok(())
}

#[test]
fn heads_of_queries_share_heads_of_keys() -> Result<()> {
    let mut random = Random(21);
    for (b, [qb, kb, vb], h, [kh, vh]) in [
        (2, [2, 2, 2], 6, [3, 3]),
        (2, [2, 1, 2], 6, [2, 2]),
        (3, [1, 3, 3], 4, [1, 2]),
        (3, [1, 3, 1], 4, [4, 1]),
        (1, [1, 1, 1], 5, [5, 5]),
    ] {
        let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| random.unit() * 4.0, &Cpu);
        let (q, k, v) = (fresh([qb, h, 7, 8])?, fresh([kb, kh, 9, 8])?, fresh([vb, vh, 9, 5])?);
        let mask = Tensor::from_fn([1, h, 7, 9], |[_, h, i, j]| (i * 7 + j * 3 + h) % 3 != 0, &Cpu)?;
        // Each head of keys and values written out for each head of queries.
        let heads = |x: &Tensor<f64, 4>| -> Result<Tensor<f64, 4>> {
            let n = x.size()[1];
            Tensor::from_fn(
                [b, h, x.size()[2], x.size()[3]],
                |[i, head, j, d]| x[[i.min(x.size()[0] - 1), head * n / h, j, d]],
                &Cpu,
            )
        };
        let (whole_q, whole_k, whole_v) = (heads(&q)?, heads(&k)?, heads(&v)?);
        for causal in [false, true] {
            for masked in [false, true] {
                let (plan, mask) = (Attention::new().causal(causal), masked.then(|| mask.view()));
                let y = q.attention(&k, &v, mask, plan)?;
                let truth = whole_q.attention(&whole_k, &whole_v, mask, plan)?;
                assert!(y.allclose(&truth, 1e-13, 1e-13, false)?, "{b} {h} {kh} {vh} {causal} {masked}");
            }
        }
    }
    // One head of queries and several of keys: the queries stretch.
    let (q, k) = (Tensor::<f32, 4>::ones([1, 1, 2, 4], &Cpu)?, Tensor::<f32, 4>::ones([2, 3, 5, 4], &Cpu)?);
    assert_eq!(q.attention(&k, &k, None, Attention::new())?.size(), [2, 3, 2, 4]);
    // Elements outside a group do not reach it.
    let v = Tensor::from_fn(
        [1, 2, 2, 1],
        |[_, head, key, _]| if (head, key) == (1, 1) { f32::NAN } else { 1.0 },
        &Cpu,
    )?;
    let (q, k) = (Tensor::<f32, 4>::ones([1, 4, 2, 4], &Cpu)?, Tensor::<f32, 4>::ones([1, 2, 2, 4], &Cpu)?);
    let y = q.attention(&k, &v, None, Attention::new().causal(true))?;
    assert_eq!(
        y.to_vec()?.iter().map(|y| y.is_nan()).collect::<Vec<_>>(),
        [false, false, false, false, false, true, false, true]
    );
    let error = |q: [usize; 4], k: [usize; 4], v: [usize; 4]| -> Result<Error> {
        let [q, k, v] = [q, k, v].map(|size| Tensor::<f32, 4>::zeros(size, &Cpu));
        Ok(q?.attention(&k?, &v?, None, Attention::new()).unwrap_err())
    };
    assert!(matches!(error([1, 5, 2, 4], [1, 2, 3, 4], [1, 2, 3, 4])?, Error::Sizes { .. }));
    assert!(matches!(error([1, 6, 2, 4], [1, 2, 3, 4], [1, 3, 3, 4])?, Error::Sizes { .. }));
    assert!(matches!(error([3, 6, 2, 4], [2, 2, 3, 4], [2, 2, 3, 4])?, Error::Sizes { .. }));
    assert!(matches!(error([1, 2, 2, 4], [1, 4, 3, 4], [1, 4, 3, 4])?, Error::Sizes { .. }));
    // No heads, and no queries.
    let none = Tensor::<f32, 4>::zeros([2, 0, 3, 4], &Cpu)?;
    assert_eq!(none.attention(&none, &none, None, Attention::new())?.size(), [2, 0, 3, 4]);
    Ok(())
}

#[test]
fn a_bias_and_a_cap_shift_and_hold_scores() -> Result<()> {
    let mut random = Random(17);
    let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| random.unit() * 6.0 - 3.0, &Cpu);
    let (q, k, v) = (fresh([2, 4, 7, 8])?, fresh([2, 2, 9, 8])?, fresh([2, 2, 9, 3])?);
    let mut bias = fresh([1, 4, 7, 9])?;
    bias.map_in_place(rankform::ops::Sin)?;
    let hidden = Tensor::from_fn([1, 1, 7, 9], |[_, _, i, j]| (i + 2 * j) % 4 == 1 || i == 3, &Cpu)?;
    bias = hidden.select(f64::NEG_INFINITY, &bias)?;
    for (causal, cap, scale) in
        [(false, None, 0.5), (true, None, 0.3), (true, Some(1.5), 0.5), (false, Some(0.1), 3.0)]
    {
        let plan = Attention { softcap: cap, ..Attention::new().causal(causal).scale(scale) };
        let y = q.attention_biased(&k, &v, &bias, plan)?;
        let plain = q.attention(&k, &v, None, plan)?;
        for [b, h, i, e] in y.size().indices() {
            let mean = |with: bool| {
                let (mut sum, mut total) = (0.0, 0.0);
                for j in 0..9 {
                    let score = (0..8).map(|d| q[[b, h, i, d]] * k[[b, h / 2, j, d]]).sum::<f64>() * scale;
                    let score = cap.map_or(score, |cap: f64| cap * (score / cap).tanh())
                        + if with { bias[[0, h, i, j]] } else { 0.0 };
                    let weight = if causal && j > i { 0.0 } else { score.exp() };
                    (sum, total) = (sum + weight * v[[b, h / 2, j, e]], total + weight);
                }
                if total == 0.0 { 0.0 } else { sum / total }
            };
            assert!((y[[b, h, i, e]] - mean(true)).abs() < 1e-12, "{causal} {cap:?}");
            assert!((plain[[b, h, i, e]] - mean(false)).abs() < 1e-12, "{causal} {cap:?}");
        }
        let mut out = y.copy()?;
        out.fill(9.0)?;
        q.attention_biased_into(&k, &v, &bias, plan, &mut out)?;
        assert_eq!(out, y);
    }
    // A position hidden by a bias of −∞ does not reach a result, for any value; halves keep a bias beyond
    // their range hidden.
    let mut poisoned = v.copy()?;
    poisoned.view_mut()?.slice((.., .., 1, ..))?.fill(f64::NAN)?;
    let hide =
        Tensor::from_fn([1, 1, 1, 9], |[_, _, _, j]| if j == 1 { f64::NEG_INFINITY } else { 0.0 }, &Cpu)?;
    assert!(q.attention_biased(&k, &poisoned, &hide, Attention::new())?.is_finite()?.all(All)?.item()?);
    let [q16, k16, v16, hide16] = [&q, &k, &poisoned, &hide].map(|x| x.cast::<rankform::f16>());
    let (q16, k16, v16, hide16) = (q16?, k16?, v16?, hide16?);
    assert!(q16.attention_biased(&k16, &v16, &hide16, Attention::new())?.is_finite()?.all(All)?.item()?);
    let error = q.attention_biased(&k, &v, &v, Attention::new()).unwrap_err();
    assert!(error.to_string().starts_with("attention_biased"), "{error}");
    let error = q.attention(&k, &v, None, Attention::new().softcap(0.0)).unwrap_err().to_string();
    assert_eq!(error, "attention: the cap 0 is not a positive number");
    Ok(())
}

#[test]
fn a_cap_or_scale_beyond_f32_gives_numbers() -> Result<()> {
    let mut random = Random(4);
    let mut draw = |size: [usize; 4]| Tensor::from_fn(size, |_| random.unit() as f32 * 2.0 - 1.0, &Cpu);
    let (q, k, v) = (draw([1, 2, 3, 4])?, draw([1, 2, 5, 4])?, draw([1, 2, 5, 3])?);
    let plain = q.attention(&k, &v, None, Attention::new())?;
    assert_eq!(q.attention(&k, &v, None, Attention::new().softcap(1e60))?, plain);
    let even = v.mean(Axis::<2>)?;
    for flat in [Attention::new().softcap(1e-60), Attention::new().scale(1e-60)] {
        let found = q.mul(0.0)?.attention(&k, &v, None, flat)?; // scores of 0
        assert!(
            found.allclose(even.insert_axis(Axis::<2>).broadcast_to([1, 2, 3, 3])?, 1e-6, 1e-6, false)?,
            "{flat:?}"
        );
    }
    let best: Tensor<i64, 3> = einsum!("bhqd,bhkd->bhqk", &q, &k)?.argmax(Axis::<3>)?;
    let found = q.attention(&k, &v, None, Attention::new().scale(1e60))?;
    for at in found.size().indices() {
        assert_eq!(found[at], v[[at[0], at[1], best[[at[0], at[1], at[2]]] as usize, at[3]]]);
    }
    Ok(())
}
