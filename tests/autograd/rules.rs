//! Operators that state their own backward pass, against the same programs written out, which are
//! differentiated step by step.

use crate::check::{check, close, random, weighted};
use rankform::autograd::{Differentiable, Jvp, Tape, Var, grad, grad_and_hvp, hvp, jvp};
use rankform::element::{bf16, f16};
use rankform::ops::ClassLoss;
use rankform::prelude::*;

type Program<const RANK: usize> = fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, RANK>>;

/// The gradient of `Σ w · f(x)`.
fn gradient<const RANK: usize, const OUT: usize>(
    x: &Tensor<f64, RANK>,
    f: &dyn Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>,
) -> Vec<f64> {
    grad(x, |x, tape| weighted(&f(x, tape)?, tape)).unwrap().to_vec().unwrap()
}

/// Compares the gradients of two programs, and the number of steps of the first one.
#[track_caller]
fn same<const RANK: usize, const OUT: usize>(
    name: &str,
    steps: usize,
    x: &Tensor<f64, RANK>,
    ruled: impl Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>,
    plain: impl Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>,
) {
    let tape = Tape::new(&Cpu);
    let _y = ruled(&tape.watch(x).unwrap(), &tape).unwrap();
    assert_eq!(tape.len(), steps, "{name}: steps");
    close(name, &gradient(x, &ruled), &gradient(x, &plain));
}

fn softmax_steps<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    let powers = (x.lazy() - x.max_along(Last)).exp();
    (powers / powers.sum_along(Last)).eval()
}
fn log_softmax_steps<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    let shifted = x.lazy() - x.max_along(Last);
    (shifted - shifted.exp().sum_along(Last).ln()).eval()
}
fn layer_norm_steps<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    let centered = x.lazy() - x.mean_along(Last);
    (centered / (centered.square().mean_along(Last) + 1e-3).sqrt()).eval()
}
fn rms_norm_steps<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    (x.lazy() / (x.lazy().square().mean_along(Last) + 1e-3).sqrt()).eval()
}

/// Each operator, and its program written out.
const ALONG_ROWS: [(&str, Program<2>, Program<2>); 4] = [
    ("softmax", |x, _| x.softmax(Last), |x, _| softmax_steps(x)),
    ("log_softmax", |x, _| x.log_softmax(Last), |x, _| log_softmax_steps(x)),
    ("layer_norm", |x, _| x.layer_norm(Last, 1e-3), |x, _| layer_norm_steps(x)),
    ("rms_norm", |x, _| x.rms_norm(Last, 1e-3), |x, _| rms_norm_steps(x)),
];

#[test]
fn one_step_with_the_gradient_of_the_program_written_out() {
    for size in [[3, 5], [1, 1], [7, 33], [4, 1]] {
        let x = random(size, 1);
        for (name, ruled, plain) in ALONG_ROWS {
            same(name, 1, &x, ruled, plain);
        }
    }
}

/// Programs of operands with strides: transposed, reversed, with an offset, stretched.
#[test]
fn strided_and_stretched_operands() {
    let x = random([5, 4], 2);
    same(
        "transposed",
        1,
        &x,
        |x, _| x.transposed().softmax(Last),
        |x, _| softmax_steps(&x.transposed().to_contiguous()?),
    );
    same(
        "reversed with an offset",
        1,
        &x,
        |x, _| x.slice((1.., (..).step(-1)))?.log_softmax(Last),
        |x, _| log_softmax_steps(&x.slice((1.., (..).step(-1)))?.to_contiguous()?),
    );
    same(
        "every second column",
        1,
        &x,
        |x, _| x.slice((.., (1..).step(2)))?.layer_norm(Last, 1e-3),
        |x, _| layer_norm_steps(&x.slice((.., (1..).step(2)))?.to_contiguous()?),
    );
    same(
        "one row for all",
        1,
        &random([1, 6], 3),
        |x, _| x.broadcast_to([4, 6])?.rms_norm(Last, 1e-3),
        |x, _| rms_norm_steps(&x.broadcast_to([4, 6])?.to_contiguous()?),
    );
    same(
        "one column for all",
        1,
        &random([4, 1], 4),
        |x, _| x.broadcast_to([4, 6])?.softmax(Axis::<0>),
        |x, _| {
            let wide = x.broadcast_to([4, 6])?.to_contiguous()?;
            softmax_steps(&wide.transposed().to_contiguous()?)?.transposed().to_contiguous()
        },
    );
    same(
        "overlapping windows",
        1,
        &random([6], 5),
        |x, _| x.windows(Axis::<0>, 3, 1)?.softmax(Last),
        |x, _| softmax_steps(&x.windows(Axis::<0>, 3, 1)?.to_contiguous()?),
    );
}

#[test]
fn axes_of_every_kind() {
    let x = random([2, 3, 4], 6);
    check("softmax, first axis", &x, |x, _| x.softmax(Axis::<0>));
    check("softmax, axis at run time", &x, |x, _| x.softmax_axis(1));
    check("log_softmax, two axes", &x, |x, _| x.log_softmax((Axis::<0>, Axis::<2>)));
    check("layer_norm, two axes", &x, |x, _| x.layer_norm((Axis::<1>, Axis::<2>), 1e-3));
    check("layer_norm, all axes", &x, |x, _| x.layer_norm(All, 1e-3));
    check("rms_norm, middle axis", &x, |x, _| x.rms_norm(Axis::<1>, 1e-3));
    let tape = Tape::new(&Cpu);
    let scalar = tape.watch(&Tensor::from(2.0)).unwrap();
    assert_eq!(scalar.softmax(All).unwrap().item().unwrap(), 1.0);
    assert!(matches!(scalar.softmax(Last), Err(rankform::Error::Axis { op: "softmax", axis: 0, .. })));
    let x = tape.watch(&x).unwrap();
    assert!(matches!(x.softmax_axis(3), Err(rankform::Error::Axis { op: "softmax_axis", axis: 3, .. })));
}

#[test]
fn into_a_part_of_a_larger_tensor() {
    let x = random([3, 4], 7);
    let into = |x: &Var<f64, 2>, t: &Tape| -> Result<Var<f64, 2>> {
        let mut out = Tensor::zeros([3, 9], t)?;
        out.view_mut()?.fill(1.0)?;
        x.softmax_into(Last, out.view_mut()?.slice((.., (1..).step(2)))?)?;
        Ok(out)
    };
    let plain = |x: &Var<f64, 2>, t: &Tape| -> Result<Var<f64, 2>> {
        let mut out = Tensor::ones([3, 9], t)?;
        out.view_mut()?.slice((.., (1..).step(2)))?.assign(&softmax_steps(x)?)?;
        Ok(out)
    };
    close("into", &gradient(&x, &into), &gradient(&x, &plain));
}

/// The backward pass reads the result as it was, also if it is updated in place later.
#[test]
fn results_that_are_updated_in_place() {
    let x = random([3, 4], 8);
    let updated = |softmax: fn(&Var<f64, 2>) -> Result<Var<f64, 2>>| {
        move |x: &Var<f64, 2>, _: &Tape| {
            let mut y = softmax(x)?;
            let square = y.square()?;
            y *= &square;
            y += x;
            Ok(y)
        }
    };
    close("updated", &gradient(&x, &updated(|x| x.softmax(Last))), &gradient(&x, &updated(softmax_steps)));
}

#[test]
fn layer_norm_with_weight_and_bias() {
    let (x, w, b) = (random([2, 3, 4], 40), random([4], 41), random([3, 1], 42));
    let whole = random([2, 3, 4], 43);
    let steps = |x: &Var<f64, 3>, w: &Var<f64, 3>, b: &Var<f64, 3>| -> Result<Var<f64, 3>> {
        let centered = x.lazy() - x.mean_along(Last);
        (centered / (centered.square().mean_along(Last) + 1e-3).sqrt() * w + b).eval()
    };
    let gradients = |ruled: bool, whole: &Tensor<f64, 3>| {
        let tape = Tape::new(&Cpu);
        let (x, whole) = (tape.watch(&x).unwrap(), tape.watch(whole).unwrap());
        let (w, b) = (tape.watch(&w).unwrap(), tape.watch(&b).unwrap());
        let y = |weight: &Var<f64, 3>, bias: &Var<f64, 3>| match ruled {
            true => x.layer_norm_affine(Last, weight, bias, 1e-3),
            false => steps(&x, weight, bias),
        };
        let lifted = |x: TensorView<'_, f64, 3, Tape>| x.to_contiguous().unwrap();
        let first = y(&lifted(w.lift()), &lifted(b.lift())).unwrap();
        let second = y(&whole, &lifted(w.lift())).unwrap();
        let loss = weighted(&(first.lazy() * &second).eval().unwrap(), &tape).unwrap();
        let found = tape.backward(&loss).unwrap();
        let of = |x: &Var<f64, 3>| found.of(x).unwrap().to_vec().unwrap();
        [of(&x), of(&whole), found.of(&w).unwrap().to_vec().unwrap(), found.of(&b).unwrap().to_vec().unwrap()]
    };
    for whole in [&whole, &whole.slice((..1, .., ..)).unwrap().to_contiguous().unwrap()] {
        for (found, expected) in gradients(true, whole).iter().zip(&gradients(false, whole)) {
            close("layer_norm_affine", found, expected);
        }
    }
    // Stored operands are read in place.
    let tape = Tape::new(&Cpu);
    let [one, two] = [&w, &random([4], 47)].map(|w| tape.watch(w).unwrap());
    let y = tape.watch(&x).unwrap().layer_norm_affine(Last, one.lift(), two.lift(), 1e-3).unwrap();
    assert_eq!(tape.len(), 1);
    assert!(tape.vjp(&y, &random([2, 3, 4], 48)).unwrap().of(&one).is_ok());
    // A number as weight, and a weight that makes the result larger.
    check("numbers", &x, |x, _| x.layer_norm_affine(Last, 2.0, 0.5, 1e-3));
    check("larger", &random([1, 4], 44), |x, t| {
        x.layer_norm_affine(Last, &t.constant(&random([3, 4], 45))?, 0.0, 1e-3)
    });
    check("two axes", &x, |x, t| {
        x.layer_norm_affine((Axis::<0>, Axis::<2>), t.constant(&w)?.lift(), 0.0, 1e-3)
    });
}

#[test]
fn second_derivatives() {
    let (x, v) = (random([3, 4], 9), random([3, 4], 10));
    fn total<D: Device>(y: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 0, D>> {
        let w = Tensor::from([1.0, -2.0, 0.5, 3.0]).to(y.device())?;
        (y.lazy() * y * y * w.lift() + y).sum(All)
    }
    macro_rules! second {
        ($name:literal, $ruled:expr, $plain:expr) => {{
            let ruled = hvp(&x, &v, |x, _| total(&$ruled(x)?)).unwrap().to_vec().unwrap();
            close($name, &ruled, &hvp(&x, &v, |x, _| total(&$plain(x)?)).unwrap().to_vec().unwrap());
            let (first, along) = grad_and_hvp(&x, &v, |x, _| total(&$ruled(x)?)).unwrap();
            close(concat!($name, ", forward over reverse"), &along.to_vec().unwrap(), &ruled);
            let plain = grad(&x, |x, _| total(&$plain(x)?)).unwrap();
            close(concat!($name, ", gradient"), &first.to_vec().unwrap(), &plain.to_vec().unwrap());
            // The Jacobian and its transpose: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩.
            let w = random([3, 4], 11);
            let forward: Tensor<f64, 2> = jvp(&x, &v, |x, _: &Jvp| $ruled(x)).unwrap().1;
            let tape = Tape::new(&Cpu);
            let variable = tape.watch(&x).unwrap();
            let back = tape.vjp(&$ruled(&variable).unwrap(), &w).unwrap().of(&variable).unwrap();
            let dot =
                |a: &Tensor<f64, 2>, b: &Tensor<f64, 2>| (a.lazy() * b).sum(All).unwrap().item().unwrap();
            assert!((dot(&w, &forward) - dot(&back, &v)).abs() < 1e-12, $name);
        }};
    }
    second!("softmax", |x: &Tensor<f64, 2, _>| x.softmax(Last), softmax_steps);
    second!("log_softmax", |x: &Tensor<f64, 2, _>| x.log_softmax(Last), log_softmax_steps);
    second!("layer_norm", |x: &Tensor<f64, 2, _>| x.layer_norm(Last, 1e-3), layer_norm_steps);
    second!("rms_norm", |x: &Tensor<f64, 2, _>| x.rms_norm(Last, 1e-3), rms_norm_steps);
}

fn cross_entropy_steps<D: Device>(
    x: &Tensor<f64, 2, D>,
    (target, ignore, smoothing): (&Tensor<i64, 1, D>, i64, f64),
) -> Result<Tensor<f64, 1, D>> {
    let logs = log_softmax_steps(x)?;
    let counts = target.not_equal(ignore)?;
    let index = counts.select(target, 0)?.to_shape([x.size().0[0], 1])?;
    let picked = logs.gather(Axis::<1>, &index)?.to_shape([x.size().0[0]])?;
    let all = logs.mean(Axis::<1>)?;
    let loss = (picked.lazy() * (smoothing - 1.0) - all.lazy() * smoothing).eval()?;
    counts.select(&loss, 0.0)
}

#[test]
fn cross_entropy_of_one_step() {
    let (x, classes) = (random([5, 4], 12), Tensor::from([2_i64, 0, -7, 3, 2]));
    for smoothing in [0.0, 0.25] {
        fn plan<'a, D: Device>(smoothing: f64) -> ClassLoss<'a, f64, D> {
            ClassLoss::new().ignore(-7).smoothing(smoothing)
        }
        let of = |t: &Tape| t.constant(&classes);
        same(
            "losses",
            1,
            &x,
            |x, t| x.cross_entropy(Axis::<1>, &of(t)?, plan(smoothing)),
            |x, t| cross_entropy_steps(x, (&of(t)?, -7, smoothing)),
        );
        same(
            "mean",
            1,
            &x,
            |x, t| x.cross_entropy_mean(Axis::<1>, &of(t)?, plan(smoothing)),
            |x, t| (cross_entropy_steps(x, (&of(t)?, -7, smoothing))?.sum(All)?.lazy() / 4.0).eval(),
        );
        let transposed = x.transposed().to_contiguous().unwrap();
        same(
            "classes along the first axis",
            1,
            &transposed,
            |x, t| x.cross_entropy(Axis::<0>, &of(t)?, plan(smoothing)),
            |x, t| cross_entropy_steps(&x.transposed().to_contiguous()?, (&of(t)?, -7, smoothing)),
        );
        let v = random([5, 4], 13);
        let on = |t: &Tape<Tape>| t.constant(&t.inner().constant(&classes)?);
        let ruled = hvp(&x, &v, |x, t| x.cross_entropy_mean(Axis::<1>, &on(t)?, plan(smoothing)));
        let plain = hvp(&x, &v, |x, t| {
            (cross_entropy_steps(x, (&on(t)?, -7, smoothing))?.sum(All)?.lazy() / 4.0).eval()
        });
        close("Hessian", &ruled.unwrap().to_vec().unwrap(), &plain.unwrap().to_vec().unwrap());
    }
}

/// No gradient flows to rows that do not count, whatever they contain.
#[test]
fn rows_that_do_not_count() {
    let x = Tensor::from([[f64::NAN, 1.0], [0.5, 0.25], [f64::INFINITY, f64::NEG_INFINITY]]);
    let classes = Tensor::from([-100_i64, 1, -100]);
    let found = grad(&x, |x, t| x.cross_entropy_mean(Axis::<1>, &t.constant(&classes)?, ClassLoss::new()));
    let found = found.unwrap().to_vec().unwrap();
    assert_eq!([found[0], found[1], found[4], found[5]], [0.0; 4]);
    assert!((found[2] + found[3]).abs() < 1e-15 && found[2] > 0.5);
    // Rows that are selected after the operator.
    let hidden = Tensor::from([[f64::NEG_INFINITY; 3], [0.5, f64::NEG_INFINITY, -1.0], [f64::NAN, 0.0, 1.0]]);
    let keep = Tensor::from([[false], [true], [false]]);
    for (name, ruled, _) in &ALONG_ROWS[..2] {
        let found = grad(&hidden, |x, t| {
            let (keep, y) = (t.constant(&keep)?, ruled(x, t)?);
            let w = t.constant(&Tensor::from([[1.0, 0.0, 3.0]]))?;
            (keep.lazy().select(&y, 0.0) * &w).sum(All)
        });
        let found = found.unwrap().to_vec().unwrap();
        assert!(found.iter().all(|g| g.is_finite()), "{name}: {found:?}");
        assert_eq!((found[4], found[0], found[8]), (0.0, 0.0, 0.0), "{name}");
        assert!(found[3] != 0.0, "{name}");
    }
}

#[test]
fn elements_of_16_and_32_bits() {
    let x = random([6, 40], 14);
    let w = random([6, 40], 15);
    macro_rules! narrow {
        ($T:ty, $tolerance:expr, |$x:ident| $f:expr) => {
            narrow!($T, $tolerance, &x, |$x| $f)
        };
        ($T:ty, $tolerance:expr, $of:expr, |$x:ident| $f:expr) => {{
            let (narrow, weights) = ($of.cast::<$T>().unwrap(), w.cast::<$T>().unwrap());
            let (exact, of) = (narrow.cast::<f64>().unwrap(), weights.cast::<f64>().unwrap());
            let expected = grad(&exact, |$x, t| ($f?.lazy() * &t.constant(&of)?).sum(All)).unwrap();
            let found = grad(&narrow, |$x, t| ($f?.lazy() * &t.constant(&weights)?).sum(All)).unwrap();
            let (found, expected) =
                (found.cast::<f64>().unwrap().to_vec().unwrap(), expected.to_vec().unwrap());
            let largest = expected.iter().fold(0.0, |most: f64, b| most.max(b.abs()));
            for (a, b) in found.iter().zip(&expected) {
                let scale = $tolerance * b.abs().max(0.05 * largest);
                assert!((a - b).abs() < scale, "{}: {a}, not {b}", stringify!($f));
            }
        }};
    }
    narrow!(f32, 2e-5, |x| x.softmax(Last));
    narrow!(f16, 0.04, |x| x.softmax(Last));
    narrow!(bf16, 0.3, |x| x.softmax(Last));
    narrow!(f32, 2e-5, |x| x.log_softmax(Last));
    narrow!(f16, 0.04, |x| x.log_softmax(Last));
    narrow!(f32, 2e-5, |x| x.layer_norm(Last, 0.001f64 as _));
    narrow!(f32, 2e-5, |x| x.rms_norm(Last, 0.001f64 as _));
    // A variance that f16 cannot represent, a mean of which bf16 keeps no digit after the point.
    let (wide, far) = ((x.lazy() * 500.0).eval().unwrap(), (x.lazy() + 100.0).eval().unwrap());
    narrow!(f16, 0.01, &wide, |x| x.layer_norm(Last, epsilon(1e-3)));
    narrow!(bf16, 0.01, &far, |x| x.layer_norm(Last, epsilon(1e-3)));
    narrow!(f16, 0.01, &wide, |x| affine(x));
    narrow!(bf16, 0.01, &wide, |x| affine(x));
    narrow!(f16, 0.01, &far, |x| affine(x));
    narrow!(bf16, 0.01, &far, |x| affine(x));
    narrow!(f32, 2e-5, &far, |x| affine(x));
    // The gradient of the weight.
    for (of, tolerance) in [(&wide, 0.01), (&far, 0.01)] {
        let of = of.cast::<bf16>().unwrap();
        let (found, exact) = (weight_of(&of), weight_of(&of.cast::<f64>().unwrap()));
        for (a, b) in found.iter().zip(&exact) {
            assert!((a - b).abs() < tolerance * b.abs().max(0.5), "weight: {a}, not {b}");
        }
    }
}

fn epsilon<T: Float>(value: f64) -> T {
    T::constant(value)
}

/// Layer norm with a weight and a bias.
fn affine<T: Float>(x: &Var<T, 2>) -> Result<Var<T, 2>> {
    x.layer_norm_affine(Last, T::constant(1.5), T::constant(0.25), T::constant(1e-3))
}

/// The gradient of a weight of [`affine`].
fn weight_of<T: Float + Differentiable>(x: &Tensor<T, 2>) -> Vec<f64> {
    let tape = Tape::new(&Cpu);
    let (x, w) = (tape.watch(x).unwrap(), tape.watch(&Tensor::ones([1, 40], &Cpu).unwrap()).unwrap());
    let y = x.layer_norm_affine(Last, &w, T::zero(), T::constant(1e-3)).unwrap();
    let factors = random([6, 40], 46).cast::<bf16>().unwrap().cast::<T>().unwrap();
    let found = tape.vjp(&y, &factors).unwrap().of(&w).unwrap();
    found.cast::<f64>().unwrap().to_vec().unwrap()
}

/// `softmax(scale · q · kᵀ, visible keys only) · v`, written out.
fn attention_steps<D: Device>(
    [q, k, v]: [&Tensor<f64, 4, D>; 3],
    visible: Option<&Tensor<bool, 4, D>>,
) -> Result<Tensor<f64, 4, D>> {
    let shared = q.size().0[1] / k.size().0[1];
    let heads = Tensor::from_fn([q.size().0[1]], |[head]| (head / shared) as i64, &Cpu)?.to(q.device())?;
    let (k, v) = (k.index_select(Axis::<1>, &heads)?, v.index_select(Axis::<1>, &heads)?);
    let scores = einsum!("bhqd,bhkd->bhqk", q, &k)?;
    let scores = (scores.lazy() / (q.size().0[3] as f64).sqrt()).eval()?;
    let scores = match visible {
        Some(visible) => visible.select(&scores, -1e30)?,
        None => scores,
    };
    let powers = (scores.lazy() - scores.max_along(Last)).exp();
    let weights = (powers / powers.sum_along(Last)).eval()?;
    einsum!("bhqk,bhke->bhqe", &weights, &v)
}

#[test]
fn attention_of_one_step() {
    use rankform::ops::Attention;
    let options = Attention::new();
    for (heads, shared, queries, keys) in [(2, 1, 5, 5), (2, 3, 4, 7), (1, 1, 300, 260)] {
        let of = |h, n, d, seed| random([2, h, n, d], seed);
        let (k, v) = (of(heads, keys, 3, 21), of(heads, keys, 4, 22));
        let q = of(heads * shared, queries, 3, 23);
        let causal = Tensor::from_fn([1, 1, queries, keys], |[.., i, j]| j <= i, &Cpu).unwrap();
        let masked =
            Tensor::from_fn([2, 1, queries, keys], |[b, _, i, j]| (i + j + b) % 3 != 0, &Cpu).unwrap();
        for (name, mask, hidden, options) in [
            ("all visible", None, None, options),
            ("causal", None, Some(&causal), options.causal(true)),
            ("masked", Some(&masked), Some(&masked), options),
        ] {
            let gradients = |ruled: bool| {
                let tape = Tape::new(&Cpu);
                let [q, k, v] = [&q, &k, &v].map(|x| tape.watch(x).unwrap());
                let y = if ruled {
                    let mask = mask.map(|mask| tape.constant(mask).unwrap());
                    let y = q.attention(&k, &v, mask.as_ref().map(|mask| mask.view()), options).unwrap();
                    assert_eq!(tape.len(), 1, "{name}");
                    y
                } else {
                    let hidden = hidden.map(|mask| tape.constant(mask).unwrap());
                    attention_steps([&q, &k, &v], hidden.as_ref()).unwrap()
                };
                let found = tape.vjp(&y, &random(y.size().0, 24)).unwrap();
                [&q, &k, &v].map(|x| found.of(x).unwrap().to_vec().unwrap())
            };
            for (found, expected) in gradients(true).iter().zip(&gradients(false)) {
                close(name, found, expected);
            }
        }
    }
}

/// Hidden keys and values may be infinite or NaN, and a query may see no key.
#[test]
fn hidden_values_reach_no_gradient() {
    use rankform::ops::Attention;
    let (q, k) = (random([1, 1, 3, 2], 25), random([1, 1, 4, 2], 26));
    let clean = random([1, 1, 4, 2], 27);
    let mut v = clean.copy().unwrap();
    v.view_mut().unwrap().slice((.., .., 1, ..)).unwrap().fill(f64::NAN).unwrap();
    v.view_mut().unwrap().slice((.., .., 3, ..)).unwrap().fill(f64::INFINITY).unwrap();
    // Keys 1 and 3 are hidden from all queries, and all keys from query 2.
    let mask = Tensor::from_fn([1, 1, 3, 4], |[.., i, j]| i < 2 && j % 2 == 0, &Cpu).unwrap();
    let gradients = |v: &Tensor<f64, 4>| {
        let tape = Tape::new(&Cpu);
        let [q, k, v] = [&q, &k, v].map(|x| tape.watch(x).unwrap());
        let mask = tape.constant(&mask).unwrap();
        let y = q.attention(&k, &v, Some(mask.view()), Attention::new()).unwrap();
        let found = tape.vjp(&y, &random([1, 1, 3, 2], 28)).unwrap();
        [&q, &k, &v].map(|x| found.of(x).unwrap().to_vec().unwrap())
    };
    assert_eq!(gradients(&v), gradients(&clean));
    assert_eq!(gradients(&v)[0][4..], [0.0, 0.0]);
}

#[test]
fn second_derivatives_of_attention() {
    use rankform::ops::Attention;
    let (x, u) = (random([1, 2, 4, 3], 29), random([1, 2, 4, 3], 30));
    let visible = Tensor::from_fn([1, 1, 4, 4], |[.., i, j]| j <= i, &Cpu).unwrap();
    let found = hvp(&x, &u, |x, _| {
        let y = x.attention(x, &x.sin()?, None, Attention::new().causal(true))?;
        (y.lazy() * &y * &y).sum(All)
    });
    let expected = hvp(&x, &u, |x, t| {
        let visible = t.constant(&t.inner().constant(&visible)?)?;
        let y = attention_steps([x, x, &x.sin()?], Some(&visible))?;
        (y.lazy() * &y * &y).sum(All)
    });
    close("attention", &found.unwrap().to_vec().unwrap(), &expected.unwrap().to_vec().unwrap());
}

/// Max pooling gives the gradient to the first of equal elements, as PyTorch does.
#[test]
fn pools_of_one_step() {
    let ties = Tensor::from([[[[1.0, 1.0, 0.0, 2.0], [0.0, 1.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0]]]]);
    let largest = |pool: Pool<2>| {
        move |x: &Var<f64, 4>, t: &Tape| {
            let y = x.max_pool2d(pool)?;
            assert_eq!(t.len(), usize::from(t.depends_on_variable(&y)));
            Ok(y)
        }
    };
    let of = |pool: Pool<2>| grad(&ties, |x, t| largest(pool)(x, t)?.sum(All)).unwrap().to_vec().unwrap();
    let found = of(Pool::new([2, 2]).stride([1, 2]));
    assert_eq!(found, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    // One window of all, a reduction; and windows that overlap.
    assert_eq!(of(Pool::new([3, 4])), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let found = of(Pool::new([3, 3]).stride([1, 1]).padding([1, 1]));
    assert_eq!(found.iter().sum::<f64>(), 12.0);
    assert_eq!(found[0..4], [1.0, 0.0, 0.0, 2.0]);
    let nan = Tensor::from([[[f64::NAN, 1.0, 2.0, 2.0]]]);
    let found = grad(&nan, |x, _| x.max_pool1d(Pool::new([2]))?.sum(All)).unwrap();
    assert_eq!(found.to_vec().unwrap(), [1.0, 0.0, 1.0, 0.0]);
    let x = random([2, 3, 5, 6], 31);
    for pool in [
        Pool::new([2, 2]),
        Pool::new([3, 3]).stride([2, 1]).padding([1, 1]),
        Pool::new([2, 3]).stride([1, 2]).dilation([2, 1]).ceil(true),
        Pool::new([5, 6]),
        Pool::new([3, 2]).padding_ends([1, 0], [0, 1]).count_padding(false),
        Pool::new([2, 2]).divisor(3),
    ] {
        check("max_pool2d", &x, largest(pool));
        check("avg_pool2d", &x, |x, t| {
            let y = x.avg_pool2d(pool)?;
            assert_eq!(t.len(), usize::from(t.depends_on_variable(&y)));
            Ok(y)
        });
        check("max_pool2d of channels last", &x, |x, _| {
            x.permuted([0, 2, 3, 1])?.to_contiguous()?.permuted([0, 3, 1, 2])?.max_pool2d(pool)
        });
    }
}

/// Convolutions by each operand, against their definition.
#[test]
fn convolutions_of_one_step() {
    let (x, w) = (random([2, 4, 6, 5], 32), random([6, 4, 3, 2], 33));
    let (grouped, depthwise) = (random([6, 2, 3, 2], 34), random([4, 1, 3, 2], 38));
    for (conv, w) in [
        (Conv::new(), &w),
        (Conv::new().padding([1, 1]).stride([2, 1]), &w),
        (Conv::new().padding_ends([2, 0], [1, 1]).stride([2, 3]), &w),
        (Conv::new().dilation([2, 3]).padding([3, 1]), &w),
        (Conv::new().same().stride([3, 2]), &w),
        (Conv::new().groups(2).padding([1, 0]).stride([1, 2]), &grouped),
        (Conv::new().stride([3, 2]), &w),
        (Conv::new().stride([4, 3]).padding_ends([1, 0], [2, 1]), &w),
        (Conv::new().groups(2).stride([3, 3]).padding([0, 1]), &grouped),
        (Conv::new().groups(4).padding([1, 0]), &depthwise),
        (Conv::new().groups(4).padding_ends([2, 0], [0, 1]).stride([2, 1]).dilation([1, 2]), &depthwise),
    ] {
        let one_step = |y: Var<f64, 4>, t: &Tape| {
            assert_eq!(t.len(), usize::from(t.depends_on_variable(&y)));
            Ok(y)
        };
        check("input", &x, |x, t| one_step(x.conv2d(&t.constant(w)?, conv)?, t));
        check("weights", w, |w, t| one_step(t.constant(&x)?.conv2d(w, conv)?, t));
        check("channels last", &x, |x, t| {
            x.permuted([0, 2, 3, 1])?.to_contiguous()?.permuted([0, 3, 1, 2])?.conv2d(&t.constant(w)?, conv)
        });
    }
}

/// The derivative of a gradient of convolutions along a direction, against differences.
#[test]
fn convolutions_in_second_order() {
    let (x, u) = (random([1, 2, 7], 35), random([1, 2, 7], 37));
    for (w, conv) in [
        (random([3, 2, 3], 36), Conv::new().padding([1])),
        (random([2, 1, 3], 39), Conv::new().padding([1]).groups(2)),
    ] {
        let product = hvp(&x, &u, |x, t| {
            let w = t.constant(&t.inner().constant(&w)?)?;
            let y = x.conv1d(&w, conv)?;
            (y.lazy() * &y * &y).sum(All)
        });
        let step = 1e-4;
        let gradient = |by: f64| {
            let moved = (x.lazy() + u.lazy() * by).eval().unwrap();
            let found = grad(&moved, |x, t| {
                let y = x.conv1d(&t.constant(&w)?, conv)?;
                (y.lazy() * &y * &y).sum(All)
            });
            found.unwrap().to_vec().unwrap()
        };
        let (above, below) = (gradient(step), gradient(-step));
        for (k, found) in product.unwrap().to_vec().unwrap().iter().enumerate() {
            let expected = (above[k] - below[k]) / (2.0 * step);
            assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{found}, not {expected}");
        }
    }
}
