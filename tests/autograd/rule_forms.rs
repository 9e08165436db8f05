//! Operators that state their own backward pass, in every form: layouts, sizes, weights, biases, second
//! order, checkpoints; against differences, copies of the operands, and the same programs written out.

use crate::check::{between, check, check_within, close, random, unit, weighted};
use rankform::autograd::{Differentiable, Jvp, Tape, Var, grad, grad_and_hvp, hvp, jvp};
use rankform::element::{bf16, f16};
use rankform::ops::{Attention, ClassLoss};
use rankform::prelude::*;

/// The gradients of some variables, with random gradients of the result.
fn pulled<const N: usize, const RANK: usize, const OUT: usize>(
    xs: [&Tensor<f64, RANK>; N],
    f: impl Fn([&Var<f64, RANK>; N], &Tape) -> Result<Var<f64, OUT>>,
) -> [Vec<f64>; N] {
    let tape = Tape::new(&Cpu);
    let xs = xs.map(|x| tape.watch(x).unwrap());
    let y = f(xs.each_ref(), &tape).unwrap();
    let found = tape.vjp(&y, &random(y.size().0, 77)).unwrap();
    xs.each_ref().map(|x| found.of(x).unwrap().to_vec().unwrap())
}

/// Without a score the mean loss depends on no weight of a class.
#[test]
fn an_empty_batch_has_gradients_of_zeros() -> Result<()> {
    let device = crate::counted::Counted::default();
    let tape = Tape::new(&device);
    let x = tape.watch(&Tensor::<f64, 2, _>::zeros([0, 3], &device)?)?;
    let w = tape.watch(&Tensor::from([1.0, 2.0, 3.0]).to(&device)?)?;
    let target = tape.constant(&Tensor::<i64, 1, _>::zeros([0], &device)?)?;
    let loss = x.cross_entropy_mean(Axis::<1>, &target, ClassLoss::new().weight(w.view()))?;
    let gradients = tape.backward(&loss)?;
    assert_eq!(gradients.of(&w)?.to(&Cpu)?.to_vec()?, [0.0; 3]);
    assert_eq!(gradients.of(&x)?.size(), [0, 3]);
    Ok(())
}

// ------------------------------------------------------------ layer norm with weight and bias

fn affine_steps(x: &Var<f64, 2>, w: &Var<f64, 2>, b: &Var<f64, 2>) -> Result<Var<f64, 2>> {
    let centered = x.lazy() - x.mean_along(Last);
    (centered / (centered.square().mean_along(Last) + 1e-3).sqrt() * w + b).eval()
}

/// Rows of several blocks, and weights that are constant along rows, along columns, or not at all.
#[test]
fn layer_norm_of_several_blocks() {
    let x = random([500, 301], 1);
    for size in [[1, 301], [500, 1], [500, 301], [1, 1]] {
        let (w, b) = (random(size, 2), random([1, 301], 3));
        let found = pulled([&x, &w, &b], |[x, w, b], _| x.layer_norm_affine(Last, w, b, 1e-3));
        let expected = pulled([&x, &w, &b], |[x, w, b], _| affine_steps(x, w, b));
        for (found, expected) in found.iter().zip(&expected) {
            close("layer_norm_affine", found, expected);
        }
    }
    // Rows along the first axis, read backwards, and from an offset.
    let (w, b) = (random([500, 1], 4), random([1, 301], 5));
    let reversed = |x: &Var<f64, 2>, w: &Var<f64, 2>, b: &Var<f64, 2>| -> Result<Var<f64, 2>> {
        let x = x.slice(((..).step(-1), 1..))?;
        x.layer_norm_affine(Axis::<0>, w, b.slice((.., 1..))?, 1e-3)
    };
    let copied = |x: &Var<f64, 2>, w: &Var<f64, 2>, b: &Var<f64, 2>| -> Result<Var<f64, 2>> {
        let x = x.slice(((..).step(-1), 1..))?.transposed().to_contiguous()?;
        let [w, b] = [w.transposed().to_contiguous()?, b.slice((.., 1..))?.transposed().to_contiguous()?];
        affine_steps(&x, &w, &b)?.transposed().to_contiguous()
    };
    let found = pulled([&x, &w, &b], |[x, w, b], _| reversed(x, w, b));
    let expected = pulled([&x, &w, &b], |[x, w, b], _| copied(x, w, b));
    for (found, expected) in found.iter().zip(&expected) {
        close("reversed columns", found, expected);
    }
}

/// Each operand alone has the gradient that it has beside the others.
#[test]
fn layer_norm_of_some_operands() {
    let (x, w, b) = (random([40, 7], 6), random([1, 7], 7), random([40, 1], 8));
    let all = pulled([&x, &w, &b], |[x, w, b], _| x.layer_norm_affine(Last, w, b, 1e-3));
    let [of_x] = pulled([&x], |[x], t| x.layer_norm_affine(Last, &t.constant(&w)?, &t.constant(&b)?, 1e-3));
    let [of_w] = pulled([&w], |[w], t| t.constant(&x)?.layer_norm_affine(Last, w, &t.constant(&b)?, 1e-3));
    let [of_b] = pulled([&b], |[b], t| t.constant(&x)?.layer_norm_affine(Last, &t.constant(&w)?, b, 1e-3));
    close("x", &of_x, &all[0]);
    close("weight", &of_w, &all[1]);
    close("bias", &of_b, &all[2]);
    // No rows, and rows of no elements.
    for size in [[0, 7], [3, 0]] {
        let (x, w) = (random(size, 9), random([1, size[1]], 10));
        let [of_x, of_w] = pulled([&x, &w], |[x, w], _| x.layer_norm_affine(Last, w, 0.5, 1e-3));
        assert_eq!((of_x.len(), of_w), (0, vec![0.0; size[1]]), "{size:?}");
    }
}

/// The weight's gradient of many rows is not rounded once a row.
#[test]
fn weights_of_many_rows_in_16_bits() {
    let x = Tensor::<f64, 2>::from_fn([4096, 64], |[i, j]| unit(1, i * 64 + j) - 0.25, &Cpu).unwrap();
    fn weight_of<T: Float + Differentiable>(x: &Tensor<f64, 2>) -> Vec<f64> {
        let tape = Tape::new(&Cpu);
        let x = tape.watch(&x.cast::<T>().unwrap()).unwrap();
        let w = tape.watch(&Tensor::<T, 2>::ones([1, 64], &Cpu).unwrap()).unwrap();
        let y = x.layer_norm_affine(Last, &w, T::zero(), T::constant(1e-3)).unwrap();
        let g = Tensor::<f64, 2>::from_fn([4096, 64], |[_, j]| 1.0 + j as f64 / 64.0, &Cpu).unwrap();
        let found = tape.vjp(&y, &g.cast().unwrap()).unwrap();
        found.of(&w).unwrap().cast::<f64>().unwrap().to_vec().unwrap()
    }
    for (name, found, unit) in [("f16", weight_of::<f16>(&x), 4e-3), ("bf16", weight_of::<bf16>(&x), 3e-2)] {
        let exact = weight_of::<f64>(&x);
        let largest = exact.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        for (a, b) in found.iter().zip(&exact) {
            assert!((a - b).abs() <= unit * largest, "{name}: {a}, not {b}");
        }
    }
}

#[test]
fn second_derivatives_of_layer_norm_with_weight() {
    let (x, v, w) = (random([3, 4], 11), random([3, 4], 12), random([1, 4], 13));
    let on = |w: &Tensor<f64, 2>, t: &Tape<Tape>| t.constant(&t.inner().constant(w)?);
    let found = hvp(&x, &v, |x, t| {
        let y = x.layer_norm_affine(Last, x.slice((..1, ..))?.lazy() * &on(&w, t)?, 0.5, 1e-3)?;
        (y.lazy() * &y * &y).sum(All)
    });
    let expected = hvp(&x, &v, |x, t| {
        let weight = (x.slice((..1, ..))?.lazy() * &on(&w, t)?).eval()?;
        let centered = x.lazy() - x.mean_along(Last);
        let y = (centered / (centered.square().mean_along(Last) + 1e-3).sqrt() * &weight + 0.5).eval()?;
        (y.lazy() * &y * &y).sum(All)
    });
    close("Hessian", &found.unwrap().to_vec().unwrap(), &expected.unwrap().to_vec().unwrap());
}

// ------------------------------------------------------------ attention with a bias and a cap

/// `softmax(cap(scale · q · kᵀ) + bias) · v`, written out.
fn attention_steps<D: Device>(
    [q, k, v]: [&Tensor<f64, 4, D>; 3],
    bias: TensorView<'_, f64, 4, D>,
    cap: Option<f64>,
    causal: bool,
) -> Result<Tensor<f64, 4, D>> {
    let shared = q.size().0[1] / k.size().0[1];
    let heads = Tensor::from_fn([q.size().0[1]], |[head]| (head / shared) as i64, &Cpu)?.to(q.device())?;
    let (k, v) = (k.index_select(Axis::<1>, &heads)?, v.index_select(Axis::<1>, &heads)?);
    let scores = einsum!("bhqd,bhkd->bhqk", q, &k)?;
    let scores = (scores.lazy() / (q.size().0[3] as f64).sqrt()).eval()?;
    let scores = match cap {
        Some(cap) => ((scores.lazy() / cap).tanh() * cap).eval()?,
        None => scores,
    };
    let scores = (scores.lazy() + bias).eval()?;
    let sizes = [1, 1, scores.size().0[2], scores.size().0[3]];
    let visible = Tensor::from_fn(sizes, |[.., i, j]| !causal || j <= i, &Cpu)?.to(q.device())?;
    let scores = visible.broadcast_to(scores.size())?.select(&scores, -1e30)?;
    let powers = (scores.lazy() - scores.max_along(Last)).exp();
    let weights = (powers / powers.sum_along(Last)).eval()?;
    einsum!("bhqk,bhke->bhqe", &weights, &v)
}

/// Compares attention of random operands, `[batch, heads of keys, heads that share one, queries, keys]`.
#[track_caller]
fn biased(
    [batch, heads, shared, queries, keys]: [usize; 5],
    bias: [usize; 4],
    cap: Option<f64>,
    causal: bool,
) {
    let h = heads * shared;
    let (q, bias) = (random([batch, h, queries, 3], 23), random(bias, 24));
    let (k, v) = (random([batch, heads, keys, 3], 21), random([batch, heads, keys, 3], 22));
    let mut options = Attention::new().causal(causal);
    options.softcap = cap;
    let found = pulled([&q, &k, &v, &bias], |[q, k, v, bias], t| {
        let y = q.attention_biased(k, v, bias, options)?;
        assert_eq!(t.len(), 1);
        Ok(y)
    });
    let expected = pulled([&q, &k, &v, &bias], |[q, k, v, bias], _| {
        attention_steps([q, k, v], bias.view(), cap, causal)
    });
    for (found, expected) in found.iter().zip(&expected) {
        close(&format!("bias {:?}, {options:?}", bias.size()), found, expected);
    }
}

#[test]
fn attention_with_a_bias_and_a_cap_is_one_step() {
    for sizes @ [batch, heads, shared, queries, keys] in [[2, 2, 1, 5, 5], [2, 2, 3, 4, 7]] {
        let h = heads * shared;
        for bias in
            [[batch, h, queries, keys], [1, 1, queries, keys], [1, h, 1, keys], [batch, 1, queries, 1]]
        {
            for (cap, causal) in [(None, false), (None, true), (Some(0.7), false), (Some(0.7), true)] {
                biased(sizes, bias, cap, causal);
            }
        }
    }
    // Several blocks of queries.
    biased([1, 1, 2, 130, 700], [1, 2, 1, 700], None, true);
    biased([1, 1, 2, 130, 700], [1, 1, 130, 700], Some(0.5), false);
    // A cap alone.
    let [q, k, v] = [23, 21, 22].map(|seed| random([2, 2, 5, 3], seed));
    let options = Attention::new().softcap(0.5);
    let found = pulled([&q, &k, &v], |[q, k, v], t| {
        let y = q.attention(k, v, None, options)?;
        assert_eq!(t.len(), 1);
        Ok(y)
    });
    let expected = pulled([&q, &k, &v], |[q, k, v], t| {
        attention_steps([q, k, v], Tensor::zeros([1; 4], t)?.view(), Some(0.5), false)
    });
    for (found, expected) in found.iter().zip(&expected) {
        close("cap", found, expected);
    }
}

/// A bias of −∞ hides keys, which may be infinite or NaN, and a query may see no key.
#[test]
fn keys_that_a_bias_hides_reach_no_gradient() {
    let (q, k, v) = (random([1, 1, 3, 2], 25), random([1, 1, 4, 2], 26), random([1, 1, 4, 2], 27));
    let hide = |i: usize, j: usize| if i < 2 && j.is_multiple_of(2) { 0.25 } else { f64::NEG_INFINITY };
    let bias = Tensor::from_fn([1, 1, 3, 4], |[.., i, j]| hide(i, j), &Cpu).unwrap();
    for options in [Attention::new(), Attention::new().softcap(1.5)] {
        let gradients = |q: &Tensor<f64, 4>, k: &Tensor<f64, 4>, v: &Tensor<f64, 4>| {
            pulled([q, k, v, &bias], |[q, k, v, bias], _| q.attention_biased(k, v, bias, options))
        };
        let clean = gradients(&q, &k, &v);
        assert!(clean.iter().flatten().all(|g| g.is_finite()));
        for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let fill = |x: &Tensor<f64, 4>, at: usize| {
                let mut x = x.copy().unwrap();
                x.view_mut().unwrap().slice((.., .., at, ..)).unwrap().fill(bad).unwrap();
                x
            };
            let found = gradients(&fill(&q, 2), &fill(&k, 1), &fill(&v, 3));
            assert_eq!(found, clean, "{bad}");
        }
    }
}

#[test]
fn second_derivatives_of_attention_with_a_bias() {
    let (x, u, bias) = (random([1, 2, 4, 3], 29), random([1, 2, 4, 3], 30), random([1, 1, 4, 4], 31));
    let options = Attention::new().causal(true).softcap(0.8);
    let on = |bias: &Tensor<f64, 4>, t: &Tape<Tape>| t.constant(&t.inner().constant(bias)?);
    let found = hvp(&x, &u, |x, t| {
        let y = x.attention_biased(x, &x.sin()?, &on(&bias, t)?, options)?;
        (y.lazy() * &y * &y).sum(All)
    });
    let expected = hvp(&x, &u, |x, t| {
        let y = attention_steps([x, x, &x.sin()?], on(&bias, t)?.view(), Some(0.8), true)?;
        (y.lazy() * &y * &y).sum(All)
    });
    close("attention", &found.unwrap().to_vec().unwrap(), &expected.unwrap().to_vec().unwrap());
}

#[test]
fn attention_of_strided_operands() {
    let (x, bias) = (random([2, 6, 4, 9], 32), random([4, 6], 33));
    // Heads and positions are swapped, the three operands lie beside each other, and keys are read backwards.
    type Parts<'x> = [TensorView<'x, f64, 4, Tape>; 3];
    fn parts(x: TensorView<'_, f64, 4, Tape>) -> Result<Parts<'_>> {
        let part = |from: usize| x.slice((.., .., .., from..from + 3));
        Ok([part(0)?, part(3)?.slice((.., .., (..).step(-1), ..))?, part(6)?])
    }
    let expected = pulled([&x], |[x], t| {
        let [q, k, v] = parts(x.permuted([0, 2, 1, 3])?)?;
        let [q, k, v] = [q.to_contiguous()?, k.to_contiguous()?, v.to_contiguous()?];
        let bias = t.constant(&bias)?.to_shape([1, 4, 6, 1])?;
        attention_steps([&q, &k, &v], bias.view(), None, true)
    });
    let found = pulled([&x], |[x], t| {
        let [q, k, v] = parts(x.permuted([0, 2, 1, 3])?)?;
        let bias = t.constant(&bias)?.to_shape([1, 4, 6, 1])?;
        q.attention_biased(k, v, &bias, Attention::new().causal(true))
    });
    close("strided", &found[0], &expected[0]);
}

/// Sizes of 1 stretch in every operand, and vectors may have no element.
#[test]
fn attention_of_stretched_operands() {
    let sizes = [[1, 1, 3, 2], [2, 1, 3, 2], [1, 4, 3, 2]];
    for (q, k, v) in [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2)] {
        let [q, k, v] = [q, k, v].map(|at: usize| random(sizes[at], 34 + at as u64));
        let bias = random([1, 1, 3, 3], 37);
        let found = pulled([&q, &k, &v, &bias], |[q, k, v, bias], _| {
            q.attention_biased(k, v, bias, Attention::new())
        });
        let whole = [2, 4, 3, 2];
        let expected = pulled([&q, &k, &v, &bias], |[q, k, v, bias], _| {
            let [q, k, v] = [q.broadcast_to(whole)?, k.broadcast_to(whole)?, v.broadcast_to(whole)?];
            let [q, k, v] = [q.to_contiguous()?, k.to_contiguous()?, v.to_contiguous()?];
            attention_steps([&q, &k, &v], bias.view(), None, false)
        });
        for (found, expected) in found.iter().zip(&expected) {
            close("stretched", found, expected);
        }
    }
    let (none, v) = (random([1, 1, 3, 0], 38), random([1, 1, 3, 2], 39));
    let [of_none, of_v] = pulled([&none, &v], |[none, v], _| none.attention(none, v, None, Attention::new()));
    let sum = random([1, 1, 3, 2], 77).mean(Axis::<2>).unwrap().to_vec().unwrap();
    assert!(of_none.is_empty());
    close("means", &of_v, &[sum[0], sum[1], sum[0], sum[1], sum[0], sum[1]]);
}

#[test]
fn biases_of_16_bits() {
    fn gradients<T: rankform::ops::AttentionFloat + Differentiable>(
        x: [&Tensor<f64, 4>; 4],
    ) -> [Vec<f64>; 4] {
        let tape = Tape::new(&Cpu);
        let [q, k, v, bias] = x.map(|x| tape.watch(&x.cast::<T>().unwrap()).unwrap());
        let y = q.attention_biased(&k, &v, &bias, Attention::new().softcap(2.0)).unwrap();
        let found = tape.vjp(&y, &random(y.size().0, 78).cast().unwrap()).unwrap();
        [&q, &k, &v, &bias].map(|x| found.of(x).unwrap().cast::<f64>().unwrap().to_vec().unwrap())
    }
    let of = |size, seed| random(size, seed).cast::<bf16>().unwrap().cast::<f64>().unwrap();
    let [q, k, v] = [41, 42, 43].map(|seed| of([2, 3, 40, 8], seed));
    // Each element of the bias has as many scores as there are images, heads and queries.
    let bias = of([1, 1, 1, 40], 44);
    let exact = gradients::<f64>([&q, &k, &v, &bias]);
    for (name, found, unit) in [
        ("f32", gradients::<f32>([&q, &k, &v, &bias]), 1e-5),
        ("f16", gradients::<f16>([&q, &k, &v, &bias]), 4e-3),
        ("bf16", gradients::<bf16>([&q, &k, &v, &bias]), 3e-2),
    ] {
        for (found, exact) in found.iter().zip(&exact) {
            let largest = exact.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            for (a, b) in found.iter().zip(exact) {
                assert!((a - b).abs() <= unit * largest, "{name}: {a}, not {b}");
            }
        }
    }
}

// ------------------------------------------------------------ cross entropy with weights of classes

#[test]
fn cross_entropy_with_weights_of_classes() {
    let (x, w) = (random([5, 4], 41), between([1, 4], 42, 0.2, 2.0));
    let classes = Tensor::from([2_i64, 0, -7, 3, 2]);
    for smoothing in [0.0, 0.25, 1.0] {
        fn plan<'a>(w: TensorView<'a, f64, 1, Tape>, smoothing: f64) -> ClassLoss<'a, f64, Tape> {
            ClassLoss::new().ignore(-7).smoothing(smoothing).weight(w)
        }
        let line = |w: &Var<f64, 2>| w.to_shape([4]);
        let losses = |x: &Var<f64, 2>, w: &Var<f64, 2>, t: &Tape| {
            x.cross_entropy(Axis::<1>, &t.constant(&classes)?, plan(line(w)?.view(), smoothing))
        };
        let mean = |x: &Var<f64, 2>, w: &Var<f64, 2>, t: &Tape| {
            x.cross_entropy_mean(Axis::<1>, &t.constant(&classes)?, plan(line(w)?.view(), smoothing))
        };
        check("losses by scores", &x, |x, t| losses(x, &t.constant(&w)?, t));
        check("mean by scores", &x, |x, t| mean(x, &t.constant(&w)?, t));
        check("losses by weights", &w, |w, t| losses(&t.constant(&x)?, w, t));
        check("mean by weights", &w, |w, t| mean(&t.constant(&x)?, w, t));
        let columns = x.transposed().to_contiguous().unwrap();
        check("classes along the first axis", &columns, |x, t| {
            let (w, classes) = (t.constant(&w)?.to_shape([4])?, t.constant(&classes)?);
            x.cross_entropy(Axis::<0>, &classes, plan(w.view(), smoothing))
        });
        // One step.
        let tape = Tape::new(&Cpu);
        let (x, w) = (tape.watch(&x).unwrap(), tape.constant(&w).unwrap());
        let _y = mean(&x, &w, &tape).unwrap();
        assert_eq!(tape.len(), 1);
    }
}

#[test]
fn second_derivatives_of_a_weighted_cross_entropy() {
    let (x, v, w) = (random([3, 4], 43), random([3, 4], 44), between([4], 45, 0.2, 2.0));
    let classes = Tensor::from([2_i64, 0, 3]);
    let found = hvp(&x, &v, |x, t| {
        let on = t.inner();
        let (w, classes) = (t.constant(&on.constant(&w)?)?, t.constant(&on.constant(&classes)?)?);
        x.cross_entropy_mean(Axis::<1>, &classes, ClassLoss::new().weight(w.view()).smoothing(0.1))
    });
    let gradient = |by: f64| {
        let moved = (x.lazy() + v.lazy() * by).eval().unwrap();
        let found = grad(&moved, |x, t| {
            let (w, classes) = (t.constant(&w)?, t.constant(&classes)?);
            x.cross_entropy_mean(Axis::<1>, &classes, ClassLoss::new().weight(w.view()).smoothing(0.1))
        });
        found.unwrap().to_vec().unwrap()
    };
    let (above, below) = (gradient(1e-4), gradient(-1e-4));
    for (k, found) in found.unwrap().to_vec().unwrap().iter().enumerate() {
        let expected = (above[k] - below[k]) / 2e-4;
        assert!((found - expected).abs() < 1e-7, "{found}, not {expected}");
    }
}

/// Scores whose loss has no weight receive no gradient, whatever they are.
#[test]
fn targets_of_no_weight() {
    let x = Tensor::from([[f64::NAN, 1.0], [0.5, 0.25], [f64::INFINITY, 1.0]]);
    let (classes, w) = (Tensor::from([0_i64, 1, 0]), Tensor::from([0.0, 3.0]));
    for mean in [false, true] {
        let found = grad(&x, |x, t| {
            let (classes, w) = (t.constant(&classes)?, t.constant(&w)?);
            let plan = ClassLoss::new().weight(w.view());
            match mean {
                true => x.cross_entropy_mean(Axis::<1>, &classes, plan),
                false => x.cross_entropy(Axis::<1>, &classes, plan)?.sum(All),
            }
        });
        let found = found.unwrap().to_vec().unwrap();
        assert_eq!([found[0], found[1], found[4], found[5]], [0.0; 4], "{found:?}");
        assert!(found[2] > 0.1 && (found[2] + found[3]).abs() < 1e-15);
    }
}

// ------------------------------------------------------------ every rule, in every form

type Program<const OUT: usize> = fn(TensorView<'_, f64, 4, Tape>, &Tape) -> Result<Var<f64, OUT>>;

/// Operators of a tensor `[2, 3, 4, 5]`.
const PROGRAMS: [(&str, Program<4>); 12] = [
    ("softmax", |x, _| x.softmax(Axis::<1>)),
    ("log_softmax", |x, _| x.log_softmax((Axis::<1>, Axis::<3>))),
    ("layer_norm", |x, _| x.layer_norm((Axis::<2>, Axis::<3>), 1e-3)),
    ("layer_norm of size 1", |x, _| x.slice((.., .., .., ..1))?.layer_norm(Axis::<1>, 1e-3)),
    ("rms_norm", |x, _| x.rms_norm(Axis::<0>, 1e-3)),
    ("affine", |x, t| {
        let w = t.constant(&between([1, 1, 1, 5], 51, 0.5, 1.5))?;
        x.layer_norm_affine(Last, &w, 0.25, 1e-3)
    }),
    ("max_pool2d", |x, _| x.max_pool2d(Pool::new([3, 2]).stride([1, 2]).padding([1, 0]))),
    ("max_pool2d of all", |x, _| x.max_pool2d(Pool::new([4, 5]))),
    ("avg_pool2d", |x, _| x.avg_pool2d(Pool::new([3, 2]).stride([1, 2]).padding([1, 0]))),
    ("attention", |x, _| x.attention(x, x, None, Attention::new())),
    ("causal", |x, _| x.attention(x, x, None, Attention::new().causal(true).softcap(0.5))),
    ("cross_entropy", |x, t| {
        let target = t.constant(&Tensor::from_fn([2, 4, 5], |[i, j, k]| ((i + j + k) % 3) as i64, &Cpu)?)?;
        x.cross_entropy(Axis::<1>, &target, ClassLoss::new().smoothing(0.1))?
            .insert_axis(Axis::<1>)
            .to_contiguous()
    }),
];

/// Numbers in (-1, 1), at least 1/60 apart.
fn apart(k: usize) -> f64 {
    (k * 37 % 120) as f64 / 60.0 - 1.0
}

/// The gradient of a view of an operand is that of a copy of the view, added to what the operand receives
/// otherwise.
#[test]
fn views_and_copies_have_one_gradient() {
    type View = fn(&Var<f64, 4>) -> Result<TensorView<'_, f64, 4, Tape>>;
    let views: [(&str, [usize; 4], View); 6] = [
        ("permuted", [5, 4, 3, 2], |x| x.permuted([3, 2, 1, 0])),
        ("reversed", [2, 3, 4, 5], |x| x.slice((.., (..).step(-1), .., (..).step(-1)))),
        ("every second, from an offset", [3, 4, 4, 11], |x| x.slice((1.., 1.., .., (1..).step(2)))),
        ("stretched along a row", [2, 3, 4, 1], |x| x.broadcast_to([2, 3, 4, 5])),
        ("stretched along columns", [1, 3, 1, 5], |x| x.broadcast_to([2, 3, 4, 5])),
        ("a part", [2, 3, 9, 5], |x| x.slice((.., .., 2..6, ..))),
    ];
    for (name, program) in PROGRAMS {
        for (form, size, view) in views {
            let x = random(size, 52);
            let both = |copied: bool| {
                pulled([&x], |[x], t| {
                    // Contributions before and after that of the operator.
                    let early = weighted(&x.sin()?, t)?;
                    let y = match copied {
                        true => program(view(x)?.to_contiguous()?.view(), t)?,
                        false => program(view(x)?, t)?,
                    };
                    let late = weighted(&x.cos()?, t)?;
                    (weighted(&y, t)?.lazy() + early.lazy() * &late).eval()
                })
            };
            close(&format!("{name}, {form}"), &both(false)[0], &both(true)[0]);
        }
        // Different numbers, none of which a difference makes equal.
        let x =
            Tensor::from_fn([2, 3, 4, 5], |[a, b, c, d]| apart(a * 60 + b * 20 + c * 5 + d), &Cpu).unwrap();
        check_within(1e-7, name, &x, |x, t| program(x.view(), t));
    }
}

/// A checkpoint around a rule, a pause, and values on a tape are those without.
#[test]
fn checkpoints_pauses_and_values() {
    let x = random([2, 3, 4, 5], 54);
    for (name, program) in PROGRAMS {
        let plain = pulled([&x], |[x], t| program(x.view(), t)?.sin());
        let checked =
            pulled([&x], |[x], t| t.checkpoint((x,), move |(x,)| program(x.view(), x.device())?.sin()));
        assert_eq!(plain, checked, "{name}");
        let tape = Tape::new(&Cpu);
        let v = tape.watch(&x).unwrap();
        let recorded = program(v.view(), &tape).unwrap().to_vec().unwrap();
        let steps = tape.len();
        let paused = tape.paused(|| program(v.view(), &tape)).unwrap();
        assert_eq!((paused.to_vec().unwrap(), tape.len()), (recorded.clone(), steps), "{name}");
        let constant = program(tape.constant(&x).unwrap().view(), &tape).unwrap();
        assert_eq!(constant.to_vec().unwrap(), recorded, "{name}");
    }
}

/// Values of a recorded max pool are those of a plain one, with the signs of zeros.
#[test]
fn recorded_max_pools_have_the_bits_of_plain_ones() {
    let x = Tensor::from([[[-0.0, 0.0, -1.0, 0.0, -0.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NAN]]]);
    let bits = |x: Vec<f64>| x.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    for pool in [
        Pool::new([2]),
        Pool::new([3]).stride([1]).padding([1]),
        Pool::new([8]),
        Pool::new([4]).dilation([2]),
    ] {
        let tape = Tape::new(&Cpu);
        let v = tape.watch(&x).unwrap();
        let recorded = v.max_pool1d(pool).unwrap();
        assert_eq!(bits(recorded.to_vec().unwrap()), bits(x.max_pool1d(pool).unwrap().to_vec().unwrap()));
        let found = tape.vjp(&recorded, &Tensor::ones(recorded.size(), &Cpu).unwrap()).unwrap();
        let sum: f64 = found.of(&v).unwrap().to_vec().unwrap().iter().sum();
        assert_eq!(sum, recorded.numel() as f64, "each window gives its gradient to one element");
    }
    let found = grad(&x, |x, _| x.max_pool1d(Pool::new([2]))?.sum(All)).unwrap();
    assert_eq!(found.to_vec().unwrap(), [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
}

/// Windows of more elements than a byte counts, neither long nor few.
#[test]
fn max_pools_of_large_windows() {
    let x = random([1, 2, 24, 24], 55);
    for pool in [
        Pool::new([16, 15]).stride([1, 1]),
        Pool::new([15, 17]).stride([1, 1]),
        Pool::new([16, 16]).stride([1, 1]),
    ] {
        let found = grad(&x, |x, _| x.max_pool2d(pool)?.sum(All)).unwrap();
        let (y, x) = (x.max_pool2d(pool).unwrap(), x.to_vec().unwrap());
        let y = y.to_vec().unwrap();
        for (k, found) in found.to_vec().unwrap().iter().enumerate() {
            let expected = y.iter().filter(|y| **y == x[k]).count() as f64;
            assert_eq!(*found, expected, "{pool:?}: element {k}");
        }
    }
}

/// Second derivatives of every operator: the Jacobian and its transpose agree, forward over reverse and
/// reverse over reverse.
#[test]
fn both_orders_of_second_derivatives() {
    let (x, v, w) = (random([2, 3, 4, 5], 56), random([2, 3, 4, 5], 57), between([1, 1, 1, 5], 58, 0.5, 1.5));
    macro_rules! second {
        ($name:literal, |$x:ident| $f:expr) => {{
            fn total<const OUT: usize, D: Device>(y: &Tensor<f64, OUT, D>) -> Result<Tensor<f64, 0, D>> {
                (y.lazy() * y * y + y).sum(All)
            }
            let over = hvp(&x, &v, |$x, _| total(&$f?)).unwrap().to_vec().unwrap();
            let (_, forward) = grad_and_hvp(&x, &v, |$x, _| total(&$f?)).unwrap();
            close(concat!($name, ": forward over reverse"), &forward.to_vec().unwrap(), &over);
            let at = |by: f64| {
                let moved = (x.lazy() + v.lazy() * by).eval().unwrap();
                grad(&moved, |$x, _| total(&$f?)).unwrap().to_vec().unwrap()
            };
            let (above, below) = (at(1e-5), at(-1e-5));
            for (k, found) in over.iter().enumerate() {
                let expected = (above[k] - below[k]) / 2e-5;
                assert!(
                    (found - expected).abs() < 1e-5 * expected.abs().max(1.0),
                    "{}: {found}, not {expected}",
                    $name
                );
            }
            // ⟨g, J v⟩ = ⟨Jᵀ g, v⟩
            let (y, tangent): (Tensor<f64, _>, Tensor<f64, _>) = jvp(&x, &v, |$x, _: &Jvp| $f).unwrap();
            let g = random(y.size().0, 59);
            let tape = Tape::new(&Cpu);
            let variable = tape.watch(&x).unwrap();
            let result = {
                let $x = &variable;
                $f.unwrap()
            };
            let back = tape.vjp(&result, &g).unwrap().of(&variable).unwrap();
            let left = (g.lazy() * &tangent).sum(All).unwrap().item().unwrap();
            let right = (back.lazy() * &v).sum(All).unwrap().item().unwrap();
            assert!((left - right).abs() < 1e-11, "{}: {left}, not {right}", $name);
        }};
    }
    second!("softmax", |x| x.softmax((Axis::<1>, Axis::<2>)));
    second!("layer_norm", |x| x.layer_norm(All, 1e-3));
    second!("affine", |x| {
        let w = w.to(x.device()).unwrap();
        x.layer_norm_affine(Last, &w, 0.25, 1e-3)
    });
    second!("max_pool2d", |x| x.max_pool2d(Pool::new([3, 2]).stride([1, 2]).padding([1, 0])));
    second!("max_pool2d of all", |x| x.max_pool2d(Pool::new([4, 5])));
    second!("avg_pool2d", |x| x.avg_pool2d(Pool::new([3, 2]).stride([1, 2]).padding([1, 0])));
    second!("attention", |x| x.attention(x, x, None, Attention::new().causal(true).softcap(0.5)));
}
