//! Operators that state their own backward pass, at the limits of their elements: 16 bits, infinities, NaN,
//! numbers whose squares leave the range.

use crate::check::random;
use rankform::autograd::{Differentiable, Tape, grad};
use rankform::element::{bf16, f16};
use rankform::ops::{Attention, ClassLoss};
use rankform::prelude::*;

/// Compares elements of two gradients, relative to each and to a small part of the largest.
#[track_caller]
fn near<T: Float>(name: &str, tolerance: f64, found: &[T], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    for (k, (a, b)) in found.iter().zip(expected).enumerate() {
        let a = a.to_f64().unwrap();
        let same = (a - b).abs() <= tolerance * b.abs().max(1e-2 * largest);
        assert!(same, "{name}: element {k}: {a}, not {b}; {found:?}, not {expected:?}");
    }
}

#[test]
fn norms_of_tiny_rows() {
    let x = (Tensor::from([[1.0f64, 2.0, 4.0]]).lazy() * 1e-20).eval().unwrap();
    let narrow = x.cast::<f32>().unwrap();
    let w = Tensor::from([[1.0f64, 0.5, -0.25]]);
    macro_rules! of {
        ($name:literal, |$x:ident| $f:expr) => {{
            let by = |t: &Tape| t.constant(&w);
            let expected = grad(&x, |$x, t| ($f?.lazy() * &by(t)?).sum(All)).unwrap().to_vec().unwrap();
            let by = |t: &Tape| t.constant(&w.cast::<f32>()?);
            let found = grad(&narrow, |$x, t| ($f?.lazy() * &by(t)?).sum(All)).unwrap().to_vec().unwrap();
            near($name, 1e-3, &found, &expected);
        }};
    }
    of!("rms_norm", |x| x.rms_norm(Last, 0.0));
    of!("layer_norm", |x| x.layer_norm(Last, 0.0));
    of!("layer_norm_affine", |x| x.layer_norm_affine(Last, 1.5, 0.0, 0.0));
}

/// The gradient of a mean of losses, and that of the losses.
fn scores_of<T: Float + Differentiable>(x: &Tensor<f64, 2>, target: i64, smoothing: f64) -> [Vec<T>; 2] {
    let (x, classes) = (x.cast::<T>().unwrap(), Tensor::from([target]));
    fn plan<'a, T: Float>(smoothing: f64) -> ClassLoss<'a, T, Tape> {
        ClassLoss::new().smoothing(smoothing)
    }
    let of_mean = grad(&x, |x, t| x.cross_entropy_mean(Axis::<1>, &t.constant(&classes)?, plan(smoothing)));
    let of_each =
        grad(&x, |x, t| x.cross_entropy(Axis::<1>, &t.constant(&classes)?, plan(smoothing))?.sum(All));
    [of_mean, of_each].map(|found| found.unwrap().to_vec().unwrap())
}

#[test]
fn confident_scores_of_16_bits() {
    let x = Tensor::from([[8.0, 0.0, 0.5, 1.0]]);
    for (target, smoothing) in [(0, 0.0), (0, 0.1), (2, 0.0), (3, 1.0)] {
        let [exact, _] = scores_of::<f64>(&x, target, smoothing);
        for found in scores_of::<f32>(&x, target, smoothing) {
            near("f32", 1e-4, &found, &exact);
        }
        for found in scores_of::<f16>(&x, target, smoothing) {
            near("f16", 1e-2, &found, &exact);
        }
        for found in scores_of::<bf16>(&x, target, smoothing) {
            near("bf16", 2e-2, &found, &exact);
        }
    }
}

/// The weights of a convolution add up images of several blocks.
#[test]
fn weights_of_many_images() {
    let x = Tensor::<bf16, 3>::ones([40, 1, 1 << 16], &Cpu).unwrap();
    let w = Tensor::<bf16, 3>::ones([2, 1, 3], &Cpu).unwrap();
    let tape = Tape::new(&Cpu);
    let (x, w) = (tape.constant(&x).unwrap(), tape.watch(&w).unwrap());
    let y = x.conv1d(&w, Conv::new().padding([1])).unwrap();
    // Each image adds a little less than half a unit in the last place of the sum.
    let part = Tensor::from_fn(y.size().0, |[image, ..]| if image == 0 { 1.0 } else { 1.0 / 520.0 }, &Cpu);
    let part = part.unwrap().cast::<bf16>().unwrap();
    let found = tape.vjp(&y, &part).unwrap().of(&w).unwrap().to_vec().unwrap();
    let row = part.cast::<f64>().unwrap().slice((.., 0, 0)).unwrap().sum(All).unwrap().item().unwrap();
    let all = row * f64::from(1 << 16);
    near("weights", 4e-3, &found, &[all; 6]);
}

/// Scores that overflow without their scale.
#[test]
fn attention_of_large_operands() {
    for (size, scale) in [(1e20, 1e-40), (1e19, 1e-38), (1e-10, 1e20)] {
        let of = |n: usize, seed| (random([1, 1, n, 4], seed).lazy() * size).cast::<f32>().eval().unwrap();
        let (q, k, v) = (of(2, 1), of(3, 2), random([1, 1, 3, 2], 3).cast::<f32>().unwrap());
        let g = random([1, 1, 2, 2], 4).cast::<f32>().unwrap();
        let tape = Tape::new(&Cpu);
        let [a, b, c] = [&q, &k, &v].map(|x| tape.watch(x).unwrap());
        let found = tape.vjp(&a.attention(&b, &c, None, Attention::new().scale(scale)).unwrap(), &g).unwrap();
        let exact = Tape::new(&Cpu);
        let wide = [&q, &k, &v].map(|x| exact.watch(&x.cast::<f64>().unwrap()).unwrap());
        let y = wide[0].attention(&wide[1], &wide[2], None, Attention::new().scale(scale)).unwrap();
        let expected = exact.vjp(&y, &g.cast::<f64>().unwrap()).unwrap();
        for (x, wide) in [&a, &b, &c].into_iter().zip(&wide) {
            let (found, expected) = (found.of(x).unwrap(), expected.of(wide).unwrap());
            near("attention", 1e-3, &found.to_vec().unwrap(), &expected.to_vec().unwrap());
        }
    }
}

/// Keys that are hidden, and queries that see no key, may be infinite or NaN.
#[test]
fn hidden_keys_and_queries_reach_no_gradient() {
    let (q, k, v) = (random([1, 1, 3, 2], 25), random([1, 1, 4, 2], 26), random([1, 1, 4, 2], 27));
    // Keys 1 and 3 are hidden from all queries, and all keys from query 2.
    let mask = Tensor::from_fn([1, 1, 3, 4], |[.., i, j]| i < 2 && j % 2 == 0, &Cpu).unwrap();
    let gradients = |q: &Tensor<f64, 4>, k: &Tensor<f64, 4>| {
        let tape = Tape::new(&Cpu);
        let [q, k, v] = [q, k, &v].map(|x| tape.watch(x).unwrap());
        let mask = tape.constant(&mask).unwrap();
        let y = q.attention(&k, &v, Some(mask.view()), Attention::new()).unwrap();
        let found = tape.vjp(&y, &random([1, 1, 3, 2], 28)).unwrap();
        [&q, &k, &v].map(|x| found.of(x).unwrap().to_vec().unwrap())
    };
    let clean = gradients(&q, &k);
    for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let (mut bad_q, mut bad_k) = (q.copy().unwrap(), k.copy().unwrap());
        bad_q.view_mut().unwrap().slice((.., .., 2, ..)).unwrap().fill(bad).unwrap();
        bad_k.view_mut().unwrap().slice((.., .., 1, ..)).unwrap().fill(bad).unwrap();
        assert_eq!(gradients(&q, &bad_k), clean, "keys of {bad}");
        assert_eq!(gradients(&bad_q, &k), clean, "queries of {bad}");
        assert_eq!(gradients(&bad_q, &bad_k), clean, "both of {bad}");
        // A visible one does.
        let mut seen = k.copy().unwrap();
        seen.view_mut().unwrap().slice((.., .., 2, ..)).unwrap().fill(f64::NAN).unwrap();
        assert!(gradients(&q, &seen)[0][..4].iter().all(|g| g.is_nan()));
    }
}

/// More windows than 16 bits count one by one.
#[test]
fn pools_of_many_windows_in_16_bits() {
    let x = Tensor::<bf16, 3>::from_fn([1, 1, 801], |[.., k]| bf16::from_f32((k == 400) as u8 as f32), &Cpu);
    let x = x.unwrap();
    let pool = Pool::new([401]).stride([1]);
    let found = grad(&x, |x, _| x.max_pool1d(pool)?.sum(All)).unwrap();
    assert_eq!(found[[0, 0, 400]].to_f32(), 400.0);
    let found = grad(&x, |x, _| x.avg_pool1d(pool.divisor(1))?.sum(All)).unwrap();
    assert_eq!(found[[0, 0, 400]].to_f32(), 400.0);
    // Long windows, a reduction of each.
    let x =
        Tensor::<bf16, 3>::from_fn([1, 1, 2400], |[.., k]| bf16::from_f32((k == 1200) as u8 as f32), &Cpu);
    let x = x.unwrap();
    let pool = Pool::new([2000]).stride([1]);
    let found = grad(&x, |x, _| x.max_pool1d(pool)?.sum(All)).unwrap();
    assert_eq!(found[[0, 0, 1200]].to_f32(), 400.0);
    let found = grad(&x, |x, _| x.avg_pool1d(pool.divisor(1))?.sum(All)).unwrap();
    assert_eq!(found[[0, 0, 1200]].to_f32(), 400.0);
}

/// The last of several NaNs receives the gradient of a window, whichever way the windows are read.
#[test]
fn the_last_nan_of_a_window() {
    let nan = f64::NAN;
    let x = Tensor::from([[[1.0, nan, nan, 0.0, 2.0, 2.0, 0.0, nan]]]);
    let of = |pool: Pool<1>| grad(&x, |x, _| x.max_pool1d(pool)?.sum(All)).unwrap().to_vec().unwrap();
    assert_eq!(of(Pool::new([4])), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(of(Pool::new([2])), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(of(Pool::new([8])), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

/// Compares the gradients of `Σ w · f(x)` in f32 and in f64. `T` is the element in `f`.
macro_rules! near_f64 {
    ($name:expr, $x:expr, |$y:ident, $tape:ident| $f:expr) => {{
        macro_rules! gradient_of {
            ($element:ty) => {{
                type T = $element;
                let gradient = grad(&$x.cast::<T>().unwrap(), |$y, $tape| {
                    let y = $f;
                    let w = random(y.size().0, 99).cast::<T>()?;
                    (y.lazy() * &$tape.constant(&w)?).sum(All)
                });
                gradient.unwrap().to_vec().unwrap()
            }};
        }
        near($name, 1e-3, &gradient_of!(f32), &gradient_of!(f64));
    }};
}

/// Rules of f32 of at most four axes are compiled with the crate, those of f64 are not.
#[test]
fn rules_of_f32_along_any_axes_have_the_gradients_of_f64() {
    let (line, matrix) = (random([7], 1), random([3, 5], 2));
    let (cube, four, five) = (random([2, 3, 4], 3), random([2, 3, 2, 5], 4), random([2, 1, 3, 2, 2], 5));
    near_f64!("softmax, rank 1", line, |x, tape| x.softmax(Axis::<0>)?);
    near_f64!("softmax, columns", matrix, |x, tape| x.softmax(Axis::<0>)?);
    near_f64!("softmax, all", cube, |x, tape| x.softmax(All)?);
    near_f64!("log_softmax, inner axis", cube, |x, tape| x.log_softmax(Axis::<1>)?);
    near_f64!("log_softmax, transposed", cube, |x, tape| x.permuted([2, 0, 1])?.log_softmax(Axis::<2>)?);
    near_f64!("layer_norm, rank 1", line, |x, tape| x.layer_norm(Last, 1e-3)?);
    near_f64!("layer_norm, two axes", four, |x, tape| x.layer_norm((Axis::<1>, Axis::<3>), 1e-3)?);
    near_f64!("layer_norm, rank 5", five, |x, tape| x.layer_norm(Axis::<2>, 1e-3)?);
    near_f64!("rms_norm, first axis", four, |x, tape| x.rms_norm(Axis::<0>, 1e-3)?);
    let (weight, bias) = (random([1, 5], 6), random([1, 5], 7));
    near_f64!("layer_norm_affine", matrix, |x, tape| {
        let [w, b] = [weight.cast::<T>()?, bias.cast::<T>()?];
        let [w, b] = [tape.constant(&w)?, tape.constant(&b)?];
        x.layer_norm_affine(Last, w.view(), b.view(), 1e-3)?
    });
    near_f64!("layer_norm_affine, the weight", weight, |w, tape| {
        let [x, b] = [matrix.cast::<T>()?, bias.cast::<T>()?];
        let [x, b] = [tape.constant(&x)?, tape.constant(&b)?];
        x.layer_norm_affine(Last, w.view(), b.view(), 1e-3)?
    });
}

/// Targets of 3 are ignored, and labels are smoothed.
fn smoothed<'a, T, D: Device>() -> ClassLoss<'a, T, D> {
    ClassLoss::new().ignore(3).smoothing(0.1)
}

#[test]
fn cross_entropies_of_f32_of_any_rank_have_the_gradients_of_f64() {
    let weights = random([4], 8).abs().unwrap();
    let (line, of_line) = (random([4], 9), Tensor::from(2_i64));
    near_f64!("rank 1", line, |x, tape| {
        x.cross_entropy_mean(Axis::<0>, &tape.constant(&of_line)?, ClassLoss::new())?
    });
    let (matrix, of_matrix) = (random([3, 4], 10), Tensor::from([1_i64, 3, 0]));
    near_f64!("rank 2", matrix, |x, tape| {
        x.cross_entropy_mean(Axis::<1>, &tape.constant(&of_matrix)?, smoothed())?
    });
    near_f64!("the weights", weights, |w, tape| {
        let x = tape.constant(&matrix.cast::<T>()?)?;
        x.cross_entropy_mean(Axis::<1>, &tape.constant(&of_matrix)?, smoothed().weight(w.view()))?
    });
    let (cube, of_cube) = (random([2, 4, 3], 11), Tensor::from([[0_i64, 1, 2], [3, 1, 0]]));
    near_f64!("rank 3, classes in the middle", cube, |x, tape| {
        let w = tape.constant(&weights.cast::<T>()?)?;
        x.cross_entropy_mean(Axis::<1>, &tape.constant(&of_cube)?, smoothed().weight(w.view()))?
    });
    near_f64!("losses", cube, |x, tape| {
        x.cross_entropy(Axis::<1>, &tape.constant(&of_cube)?, smoothed())?
    });
}

#[test]
fn an_error_of_a_compiled_rule_is_that_of_the_operator() -> Result<()> {
    let (x, tape) = (Tensor::<f32, 2>::zeros([3, 4], &Cpu)?, Tape::new(&Cpu));
    let target = Tensor::from([0i64, 9, 1]);
    let expected = x.cross_entropy_mean(Axis::<1>, &target, ClassLoss::new()).unwrap_err().to_string();
    assert!(expected.contains("axis 1 of size 4, of sizes [3, 4]"), "{expected}");
    let on_tape = tape.watch(&x)?.cross_entropy_mean(Axis::<1>, &tape.constant(&target)?, ClassLoss::new());
    assert_eq!(on_tape.unwrap_err().to_string(), expected);
    Ok(())
}
