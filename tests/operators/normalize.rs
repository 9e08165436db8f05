//! Softmax, log-softmax and layer norm along every axis, on every kind of layout, against one loop in f64.

use crate::arrange::{SIZE, arranged};
use crate::value::{Exact, Random, Value};
use rankform::element::Compute;
use rankform::kernel::Reducer;
use rankform::prelude::*;
use rankform::{bf16, f16};

fn real<T: Value>(x: T) -> f64 {
    if let Exact::Real(x) = x.exact() { x } else { unreachable!() }
}

type Rule = fn(&[f64]) -> Vec<f64>;

fn softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - largest).exp()).sum();
    x.iter().map(|x| (x - largest).exp() / sum).collect()
}
fn log_softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - largest).exp()).sum();
    x.iter().map(|x| x - largest - sum.ln()).collect()
}
const EPSILON: f64 = 1.0 / 1024.0;
fn layer_norm(x: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let var = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    x.iter().map(|x| (x - mean) / (var + EPSILON).sqrt()).collect()
}

/// Checks one result along one axis; errors are measured in units of `size`.
fn check<T: Value, const RANK: usize>(
    found: &Tensor<T, RANK>,
    x: TensorView<T, RANK>,
    axis: usize,
    rule: Rule,
    size: f64,
    what: &str,
) {
    assert_eq!(found.size(), x.size(), "{what}");
    let others =
        Dim(std::array::from_fn::<_, RANK, _>(
            |a| if a == axis { x.size()[axis].min(1) } else { x.size()[a] },
        ));
    for index in others.indices() {
        let along = |k: usize| std::array::from_fn(|a| if a == axis { k } else { index[a] });
        let line: Vec<f64> = (0..x.size()[axis]).map(|k| real(x[along(k)])).collect();
        for (k, truth) in rule(&line).into_iter().enumerate() {
            let found = real(found[along(k)]);
            let bound = 2f64.powi(-T::FRACTION)
                * size
                * truth.abs().max(if rule as usize == softmax as Rule as usize { 0.0 } else { 1.0 });
            assert!(
                (found - truth).abs() <= bound + 2.0 * T::LEAST,
                "{what} {} along {axis} at {:?}: {found}, not {truth}",
                T::DTYPE,
                along(k)
            );
        }
    }
}

fn every_layout<T: Value + Float>(size: f64) -> Result<()> {
    let mut random = Random(41);
    let scale = T::from(3.0).unwrap();
    for sizes in [SIZE, [2, 70, 3], [1, 1, 1]] {
        for x in arranged(sizes, || T::moderate(&mut random) * scale) {
            let (view, kind) = (x.tensor.view(), x.kind);
            check(&view.softmax(Axis::<0>)?, view, 0, softmax, size, kind);
            check(&view.softmax(Axis::<1>)?, view, 1, softmax, size, kind);
            check(&view.softmax(Axis::<2>)?, view, 2, softmax, size, kind);
            check(&view.log_softmax(Axis::<1>)?, view, 1, log_softmax, 4.0 * size, kind);
            check(&view.log_softmax(Axis::<2>)?, view, 2, log_softmax, 4.0 * size, kind);
            let epsilon = T::from(EPSILON).unwrap();
            check(&view.layer_norm(Axis::<0>, epsilon)?, view, 0, layer_norm, 64.0 * size, kind);
            check(&view.layer_norm(Axis::<2>, epsilon)?, view, 2, layer_norm, 64.0 * size, kind);
        }
    }
    Ok(())
}

#[test]
fn normalizations_agree_with_one_loop_on_every_axis_and_layout() -> Result<()> {
    every_layout::<f32>(16.0)?;
    every_layout::<f64>(16.0)?;
    every_layout::<f16>(1.0)?;
    every_layout::<bf16>(1.0)
}

#[test]
fn large_scores_do_not_overflow_and_rows_without_a_limit_are_nan() -> Result<()> {
    let x = Tensor::from([[1e30_f32, 1e30, -1e30], [f32::MAX, 0.0, f32::MIN], [f32::NEG_INFINITY, 0.0, 0.0]]);
    assert_eq!(x.softmax(Axis::<1>)?.to_vec()?, [0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
    let log = x.log_softmax(Axis::<1>)?;
    assert_eq!((log[[1, 0]], log[[2, 0]], log[[2, 1]]), (0.0, f32::NEG_INFINITY, -(2f32.ln())));
    for bad in [[f64::NEG_INFINITY; 2], [f64::INFINITY, 0.0], [f64::NAN, 0.0]] {
        let x = Tensor::from([bad]);
        assert!(
            x.softmax(Axis::<1>)?.iter().any(|x| x.is_nan())
                && x.log_softmax(Axis::<1>)?.iter().any(|x| x.is_nan()),
            "{bad:?}"
        );
        assert!(
            Tensor::from([[1.0, 2.0], bad]).softmax(Axis::<1>)?.slice((0, ..))?.iter().all(|x| x.is_finite())
        );
    }
    let far = Tensor::from([0.0, -1000.0, -2000.0]);
    assert_eq!(far.log_softmax(Axis::<0>)?.to_vec()?, [0.0, -1000.0, -2000.0]); // where softmax is 0
    Ok(())
}

#[test]
fn halves_are_normalized_in_single_precision_and_rounded_once() -> Result<()> {
    // More terms than f16 can count.
    let x = Tensor::<f16, 1>::zeros([70_000], &Cpu)?;
    assert_eq!(x.softmax(Axis::<0>)?[[17]], f16::from_f64(1.0 / 70_000.0));
    assert_eq!(x.log_softmax(Axis::<0>)?[[17]], f16::from_f64(-(70_000_f64.ln())));
    // A mean between two halves: 2048.5 and a deviation of 0.5 are not to be lost.
    let x = Tensor::from_fn([2, 4], |[_, j]| f16::from_f64(1024.0 + (j % 2) as f64), &Cpu)?;
    let y = x.layer_norm(Axis::<1>, f16::ZERO)?;
    assert_eq!(y.to_vec()?, [-1.0, 1.0].repeat(4).into_iter().map(f16::from_f64).collect::<Vec<_>>());
    let x = Tensor::from_fn([8], |[j]| bf16::from_f64(256.0 + 2.0 * (j % 2) as f64), &Cpu)?;
    assert_eq!(
        x.layer_norm(Axis::<0>, bf16::ZERO)?.to_vec()?,
        [-1.0, 1.0].repeat(4).into_iter().map(bf16::from_f64).collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn normalizations_of_nothing_are_nothing() -> Result<()> {
    for size in [[0, 3], [3, 0], [0, 0]] {
        let x = Tensor::<f32, 2>::zeros(size, &Cpu)?;
        assert_eq!((x.softmax(Axis::<1>)?.size(), x.softmax(Axis::<0>)?.size()), (Dim(size), Dim(size)));
        assert_eq!(
            (x.log_softmax(Axis::<1>)?.size(), x.layer_norm(Axis::<1>, 1e-5)?.size()),
            (Dim(size), Dim(size))
        );
    }
    assert!(matches!(
        Tensor::<f32, 2>::empty([2, 3], &Cpu)?.softmax(Axis::<1>),
        Err(Error::Unallocated { .. })
    ));
    let x = Tensor::<f32, 2, _>::zeros([4, 5], &Meta::new())?;
    assert_eq!(
        (x.softmax(Axis::<1>)?.size(), x.layer_norm(Axis::<0>, 1e-5)?.size()),
        (dim![4, 5], dim![4, 5])
    );
    Ok(())
}

#[test]
fn shares_in_the_tail_keep_their_digits() -> Result<()> {
    // Differences of numbers of other sizes, which f32 rounds by up to 2^-18. Powers, their sum and the
    // quotient round too.
    let mut random = Random(43);
    let x = Tensor::from_fn([64, 50], |_| (random.unit() * 45.0 - 15.0) as f32, &Cpu)?;
    let y = x.softmax(Axis::<1>)?;
    for i in 0..64 {
        let row: Vec<f64> = (0..50).map(|j| f64::from(x[[i, j]])).collect();
        let shares = softmax(&row).into_iter().enumerate();
        for (j, truth) in shares.filter(|(_, truth)| *truth > f64::from(f32::MIN_POSITIVE)) {
            let unit = 2f64.powi(truth.log2().floor() as i32 - 23);
            let found = f64::from(y[[i, j]]);
            assert!(
                (found - truth).abs() <= 4.0 * unit,
                "{found:e} is {} units off",
                (found - truth).abs() / unit
            );
        }
    }
    Ok(())
}

/// Rows of every length around those at which kernels change, dense or parts of wider ones, with a row for
/// all or one for each, into whole tensors and parts of them: each as in one loop, and no other element is
/// written.
#[test]
fn rows_of_any_length_are_normalized_alone() -> Result<()> {
    let mut random = Random(43);
    // A GPU takes rows of any length alike, and its simulator is slow.
    let (lengths, many) = if cfg!(rankform_through_cuda) { (17, 100) } else { (1, 40_000) };
    for count in (1..=70).step_by(lengths).chain([100, 127, 129, 200, 4100]) {
        // Shared by threads around the widths of vectors, and where rows are longer than all of them.
        let most = if count > 70 || [1, 15, 0].contains(&(count % 16)) { many } else { many / 20 };
        for rows in [1, 2, 7, (most / count).max(3)] {
            let x = Tensor::from_fn([rows, count + 3], |_| f32::moderate(&mut random) * 3.0, &Cpu)?;
            let weight = Tensor::from_fn([1, count], |_| f32::moderate(&mut random), &Cpu)?;
            let dense = x.slice((.., 1..=count))?.to_contiguous()?;
            let part = x.slice((.., 1..=count))?;
            let what = format!("{rows} rows of {count}");
            for view in [dense.view(), part] {
                check(&view.softmax(Axis::<1>)?, view, 1, softmax, 16.0, &what);
                check(&view.layer_norm(Axis::<1>, EPSILON as f32)?, view, 1, layer_norm, 1024.0, &what);
                let scaled = view.layer_norm(Axis::<1>, EPSILON as f32)? * &weight;
                let fused = {
                    let centered = view.lazy() - view.mean_along(Axis::<1>);
                    (centered
                        * (centered.square().mean_along(Axis::<1>) + EPSILON as f32).rsqrt()
                        * weight.lazy())
                    .eval()?
                };
                for (at, (fused, scaled)) in fused.to_vec()?.into_iter().zip(scaled.to_vec()?).enumerate() {
                    assert!((fused - scaled).abs() <= 1e-5 * (1.0 + scaled.abs()), "{what}: number {at}");
                }
                let mut wide = Tensor::full([rows, count + 2], 7.0_f32, &Cpu)?;
                view.softmax_into(Axis::<1>, &mut wide.view_mut()?.slice((.., 1..=count))?)?;
                check(&wide.slice((.., 1..=count))?.to_contiguous()?, view, 1, softmax, 16.0, &what);
                for row in 0..rows {
                    assert_eq!([wide[[row, 0]], wide[[row, count + 1]]], [7.0; 2], "{what}");
                }
            }
        }
    }
    Ok(())
}

/// The variance by Chan's combination, which commutes up to rounding alone.
#[derive(Clone, Copy)]
struct Spread;
impl<T: Float> Reducer<T> for Spread {
    const NAME: &'static str = "spread";
    type Out = T;
    type State<L: Lanes> = [Lane<L, Compute<T>>; 3];
    fn identity<L: Lanes>() -> Self::State<L> {
        [Lane::zero(); 3]
    }
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        _: Lane<L, i64>,
    ) -> Self::State<L> {
        <Self as Reducer<T>>::combine::<L>(state, [Lane::one(), x, Lane::zero()])
    }
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        let n = a[0] + b[0];
        let weight = n.eq(Lane::zero()).select(Lane::zero(), b[0] / n);
        let apart = b[1] - a[1];
        [n, apart.mul_add(weight, a[1]), a[2] + b[2] + apart * apart * a[0] * weight]
    }
    fn finalize<L: Lanes>(state: Self::State<L>, count: Lane<L, i64>) -> Lane<L, Compute<T>> {
        state[2] / count.cast()
    }
}

fn settled_in_place<T: Value + Float>() -> Result<()> {
    let mut random = Random(47);
    elementwise! { fn raised(x, sum, spread) -> (T,) where Number { (x + sum * spread,) } }
    let step = if cfg!(rankform_through_cuda) { 17 } else { 1 };
    for count in (1..=130).step_by(step) {
        let x = Tensor::from_fn([5, count], |_| T::moderate(&mut random), &Cpu)?;
        let apart = (&x + x.sum_along(Axis::<1>) * x.along(Spread, Axis::<1>)).to_vec()?;
        let mut y = x.copy()?;
        apply_in_place(raised, (&mut y,), (x.sum_along(Axis::<1>), x.along(Spread, Axis::<1>)))?;
        assert_eq!(y.to_vec()?, apart, "{} in rows of {count}", T::DTYPE);
        // A GPU reduces by itself, in blocks, in another order than along a row.
        if size_of::<T>() > 2 && !cfg!(rankform_through_cuda) {
            let reduced = x.reduce(Spread, Axis::<1>)?;
            let apart = (&x + x.sum_along(Axis::<1>) * reduced.insert_axis(Axis::<1>)).to_vec()?;
            assert_eq!(y.to_vec()?, apart, "{} in rows of {count}, the spread reduced before", T::DTYPE);
        }
    }
    Ok(())
}

#[test]
fn row_programs_in_place_have_the_bits_of_those_into_new_memory() -> Result<()> {
    settled_in_place::<f32>()?;
    settled_in_place::<f64>()?;
    settled_in_place::<f16>()
}

fn bits_of<T: Value, const RANK: usize>(x: &Tensor<T, RANK>) -> Vec<u64> {
    x.iter().map(|&x| if real(x).is_nan() { u64::MAX } else { real(x).to_bits() }).collect()
}

/// Operands computed in the same pass, with run-time numbers, against tensors with the same values.
fn in_expressions<T: Value + Float>() -> Result<()> {
    let mut random = Random(47);
    for size in [[3, 1], [4, 5], [2, 33], [3, 64], [2, 300], [40, 7], [1, 5000], [0, 3], [3, 0]] {
        let mut next = || Tensor::from_fn(size, |_| T::moderate(&mut random), &Cpu);
        let (a, r) = (next()?, next()?);
        let (row, half, epsilon) = (
            Tensor::from_fn([size[1]], |_| T::moderate(&mut random), &Cpu)?,
            T::constant(0.4375),
            T::constant(0.25),
        );
        let fused = a.lazy() * half + &r + row.lift();
        let x = fused.eval()?;
        macro_rules! same {
            ($($lazy:expr, $eager:expr;)*) => {
                $(assert!(bits_of(&$lazy?) == bits_of(&$eager?), "{size:?} {}", stringify!($eager));)*
            };
        }
        macro_rules! over {
            ($axes:expr) => {
                same! {
                    fused.softmax($axes).eval(), x.softmax($axes);
                    fused.log_softmax($axes).eval(), x.log_softmax($axes);
                    fused.layer_norm($axes, epsilon).eval(), x.layer_norm($axes, epsilon);
                    fused.rms_norm($axes, epsilon).eval(), x.rms_norm($axes, epsilon);
                    fused.normalize($axes, epsilon).eval(), x.normalize($axes, epsilon);
                    x.lazy().softmax($axes).eval(), x.softmax($axes);
                    x.lazy().layer_norm($axes, epsilon).eval(), x.layer_norm($axes, epsilon);
                    fused.layer_norm_affine($axes, row.lift(), &r, epsilon).eval(),
                        (x.layer_norm($axes, epsilon)?.lazy() * row.lift() + &r).eval();
                    x.layer_norm_affine($axes, row.lift(), half, epsilon),
                        (x.layer_norm($axes, epsilon)?.lazy() * row.lift() + half).eval();
                }
            };
        }
        over!(Last);
        over!(Axis::<0>);
        over!(All);
        same! {
            fused.softmax_axis(1).eval(), x.softmax_axis(1);
            fused.layer_norm_axis(0, epsilon).eval(), x.layer_norm_axis(0, epsilon);
            // Two expressions that differ by a number are two.
            ((a.lazy() * half).softmax(Last) - (a.lazy() * epsilon).softmax(Last)).eval(),
                a.mul(half)?.softmax(Last)?.sub(&a.mul(epsilon)?.softmax(Last)?);
        }
        // A reduction that follows is fused too.
        let (sums, apart) =
            ((fused.softmax(Last) * &r).sum(Last)?, (x.softmax(Last)?.lazy() * &r).sum(Last)?);
        if cfg!(rankform_through_cuda) {
            // A GPU shares out a row in another way where it is settled than where it is reduced.
            let most = (x.softmax(Last)?.lazy() * &r).abs().sum(Last)?;
            let far = (sums.lazy() - &apart)
                .abs()
                .eval()?
                .iter()
                .zip(most.iter())
                .any(|(&d, &m)| d > m * T::epsilon() * T::constant(8.0));
            assert!(!far, "{size:?}: {sums}, not {apart}");
        } else {
            assert_eq!(bits_of(&sums), bits_of(&apart), "{size:?}");
        }
        let [one, other] = [half, epsilon].map(|number| (a.lazy() * number).exp().cached());
        let shares = (one / one.sum_along(Last)) - (other / other.sum_along(Last));
        let [one, other] = [half, epsilon].map(|number| (a.lazy() * number).exp().eval().unwrap());
        let apart = (one.lazy() / one.sum_along(Last)) - (other.lazy() / other.sum_along(Last));
        same!(shares.eval(), apart.eval(););
    }
    Ok(())
}

#[test]
fn normalizations_in_expressions_have_the_bits_of_those_of_tensors() -> Result<()> {
    in_expressions::<f32>()?;
    in_expressions::<f64>()
}

#[test]
fn normalizations_in_expressions_of_halves_round_once_and_keep_to_sizes() -> Result<()> {
    let x = Tensor::from_fn([3, 50], |[i, j]| f16::from_f64((i * 50 + j) as f64 / 16.0 - 4.0), &Cpu)?;
    assert_eq!(bits_of(&x.lazy().softmax(Last).eval()?), bits_of(&x.softmax(Last)?));
    let row = Tensor::from([f16::from_f64(2049.0), f16::from_f64(1.0)]); // 2048 and 1
    let found = (row.lazy() + f16::ONE).rms_norm(All, f16::ZERO).eval()?;
    let scale = f64::sqrt((2049.0 * 2049.0 + 4.0) / 2.0);
    assert_eq!(found.to_vec()?, [2049.0 / scale, 2.0 / scale].map(f16::from_f64));
    let meta = Tensor::<f32, 3, _>::zeros([2, 3, 4], &Meta::new())?;
    let bias = Tensor::<f32, 1, _>::zeros([4], meta.device())?;
    let y = (meta.lazy() + bias.lift()).layer_norm_affine(Last, bias.lift(), bias.lift(), 1e-5);
    assert_eq!((y.eval()?.size(), y.max(Last)?.size()), (dim![2, 3, 4], dim![2, 3]));
    let wrong = Tensor::<f32, 1, _>::zeros([5], meta.device())?;
    assert!(matches!(
        meta.layer_norm_affine(Last, wrong.lift(), bias.lift(), 1e-5),
        Err(Error::Sizes { op: "layer_norm_affine", .. })
    ));
    let x = Tensor::from([[1.0, 2.0]]);
    assert!(matches!(x.lazy().softmax_axis(2).eval(), Err(Error::Axis { axis: 2, .. })));
    assert!(
        matches!((x.lazy().softmax(Last) - x.mean_along(Axis::<0>)).eval(), Err(Error::Value { .. })),
        "along different axes"
    );
    Ok(())
}
