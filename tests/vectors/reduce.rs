//! Reductions over any axes, and operators that are one view away from them.

use crate::case::{Case, CaseDevice, N, Out, Run, Seen, Stop, axis, one, unrun, wholes};
use crate::elementwise::truth;
use crate::{Row, by_type};
use rankform::kernel::Reducer;
use rankform::ops::*;
use rankform::prelude::*;
use rankform::scalar::DType;
use serde_json::Value;

/// The axes of a reduction, and the sizes of its result.
pub struct Axes {
    gone: [bool; N],
    size: Vec<usize>,
}

impl Axes {
    /// Of the argument `dim`, a number, a list or nothing, which means all.
    pub fn of<D: CaseDevice>(case: &Case<D>, dim: &Value, keep: &Value) -> Result<Axes, Stop> {
        let spec = case.spec(0)?;
        let rank = spec.rank();
        if rank > N {
            return unrun(format!("rank {rank}"));
        }
        let named = wholes(dim)
            .unwrap_or_default()
            .into_iter()
            .map(|dim| axis(dim, rank))
            .collect::<Result<Vec<_>, _>>()?;
        let mut kept: Vec<bool> = vec![!named.is_empty(); rank];
        for &axis in &named {
            if rank == 0 && axis == 0 {
                continue;
            }
            match kept.get_mut(axis) {
                Some(true) => kept[axis] = false,
                Some(false) => return unrun("does not compile: an axis twice"),
                None => return unrun("does not compile: no such axis"),
            }
        }
        let keep = keep.as_bool().unwrap_or(false);
        let size = (0..rank)
            .filter(|&axis| keep || kept[axis])
            .map(|axis| if kept[axis] { spec.size[axis] } else { 1 });
        let all = kept.iter().all(|kept| !kept);
        let gone = std::array::from_fn(|axis| all || axis + rank >= N && !kept[axis + rank - N]);
        Ok(Axes { gone, size: size.collect() })
    }
    fn default<D: CaseDevice>(case: &Case<D>) -> Result<Axes, Stop> {
        Axes::of(case, case.get(1, "dim"), case.get(2, "keepdim"))
    }
    /// Reduces a tensor over them.
    pub fn reduce<T: Seen, Q: Reducer<T, Out: Seen>, D: CaseDevice>(
        &self,
        q: Q,
        x: TensorView<'_, T, N, D>,
    ) -> Result<Out, Stop> {
        Ok(self.out(self.reduced(q, x)?))
    }
    /// Reduces a tensor over them; the results one after the other.
    fn reduced<T: Seen, Q: Reducer<T, Out: Seen>, D: CaseDevice>(
        &self,
        q: Q,
        x: TensorView<'_, T, N, D>,
    ) -> Result<Tensor<Q::Out, 1, D>, Stop> {
        let order: Vec<usize> =
            (0..N).filter(|&axis| !self.gone[axis]).chain((0..N).filter(|&axis| self.gone[axis])).collect();
        let permuted = x.permuted(order.try_into().unwrap())?;
        let line = [self.size.iter().product::<usize>()];
        Ok(match self.gone.iter().filter(|gone| **gone).count() {
            1 => x.reduce_axis(q, self.gone.iter().position(|gone| *gone).unwrap())?.to_shape(line)?,
            2 => permuted.reduce(q, (Axis::<3>, Axis::<4>))?.to_shape(line)?,
            3 => permuted.reduce(q, (Axis::<2>, Axis::<3>, Axis::<4>))?.to_shape(line)?,
            N => x.reduce(q, All)?.to_shape(line)?,
            _ => return unrun("an axis alone of five"),
        })
    }
    /// Results one after the other under their sizes.
    fn out<T: Seen, D: CaseDevice>(&self, line: Tensor<T, 1, D>) -> Out {
        Out::of(line.view()).sized(self.size.clone())
    }
    /// The norm of any order over them.
    pub fn norm_p<T: Seen + Float, D: CaseDevice>(
        &self,
        p: T,
        x: TensorView<'_, T, N, D>,
    ) -> Result<Out, Stop> {
        let order: Vec<usize> =
            (0..N).filter(|&axis| !self.gone[axis]).chain((0..N).filter(|&axis| self.gone[axis])).collect();
        let x = x.permuted(order.try_into().unwrap())?;
        let out = match self.gone.iter().filter(|gone| **gone).count() {
            1 => Out::of(x.norm_p(p, Axis::<4>)?.view()),
            2 => Out::of(x.norm_p(p, (Axis::<3>, Axis::<4>))?.view()),
            3 => Out::of(x.norm_p(p, (Axis::<2>, Axis::<3>, Axis::<4>))?.view()),
            N => Out::of(x.norm_p(p, All)?.view()),
            _ => return unrun("an axis alone of five"),
        };
        Ok(out.sized(self.size.clone()))
    }
    /// The sums of magnitudes, for bounds of rounding.
    pub fn magnitude(&self, x: &Tensor<f64, N>) -> Result<Vec<f64>, Stop> {
        Ok(self.reduce(Sum, x.view())?.values.into_iter().map(|x| x.magnitude()).collect())
    }
}

/// Sums, products: of elements of the result's type, as a user casts.
macro_rules! folds {
    ($name:ident, $op:ident, [$($t:ident)*]) => {
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            case.only(&["dim", "keepdim", "dtype"])?;
            by_type!(case.dtype()?, T in [$($t)*] => {
                let axes = Axes::default(case)?;
                let x = case.operand::<T>(case.arg(0))?;
                let mut out = axes.reduce($op, x.view()?)?;
                let magnitudes = case.magnitude(case.arg(0))?;
                out.magnitude = Some(axes.magnitude(&magnitudes)?);
                if stringify!($op) == "Prod" {
                    // Rounded at every step: some units for each factor.
                    out.budget = 4.0 + x.view()?.numel() as f64;
                    out.magnitude = None;
                    if case.json.get("ulp").is_none() {
                        // The reference rounds 16-bit floats at every step and does not say how far off that
                        // is.
                        let sizes = out.values.iter().map(|x| x.magnitude()).collect();
                        (out.magnitude, out.roundings) = (Some(sizes), x.view()?.numel() as f64);
                    }
                }
                Ok(vec![out])
            })
        }
    };
}
folds!(sum, Sum, [f16 bf16 f32 f64 i64 i32 u8 c64]);
folds!(product, Prod, [f16 bf16 f32 f64 i64 i32 u8 c64]);
folds!(mean, Mean, [f16 bf16 f32 f64 c64]);

/// Sums and means of the elements other than NaN.
fn without_nan<D: CaseDevice>(case: &Case<D>, mean: bool) -> Run {
    case.only(&["dim", "keepdim"])?;
    let axes = Axes::default(case)?;
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let x = x.view()?;
        let nan = x.is_nan()?;
        let clean = nan.select(T::from_f64(0.0), x)?;
        let mut sums = axes.reduced(Sum, clean.view())?;
        if mean {
            sums = sums.zip(Div, &axes.reduced(Count, nan.not()?.view())?.cast::<T>()?)?;
        }
        let out = axes.out(sums);
        let sizes = magnitudes_without_nan(case)?;
        Ok(vec![Out { magnitude: Some(axes.magnitude(&sizes)?), ..out }])
    })
}
fn magnitudes_without_nan<D: CaseDevice>(case: &Case<D>) -> Result<Tensor<f64, N>, Stop> {
    let sizes = case.magnitude(case.arg(0))?;
    Ok(sizes.is_nan()?.select(0.0, &sizes)?)
}

/// Variances and deviations, with means where wanted.
fn spread<D: CaseDevice>(case: &Case<D>, root: bool, with_mean: bool) -> Run {
    case.only(&["dim", "keepdim", "unbiased", "correction"])?;
    let positional = case.arg(1).is_boolean();
    let axes =
        Axes::of(case, if positional { &Value::Null } else { case.get(1, "dim") }, case.kw("keepdim"))?;
    let unbiased = if positional { case.arg(1) } else { case.kw("unbiased") };
    let correction =
        case.kw("correction").as_f64().unwrap_or(if unbiased.as_bool() == Some(false) { 0.0 } else { 1.0 });
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 c64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let x = x.view()?;
        let out = match (root, correction) {
            (true, 0.0) => axes.reduce(Std, x)?,
            (true, 1.0) => axes.reduce(SampleStd, x)?,
            (false, 0.0) => axes.reduce(Var, x)?,
            (false, 1.0) => axes.reduce(SampleVar, x)?,
            _ => {
                // The sum of squares over another number.
                let variances = axes.reduced(Var, x)?;
                let n = x.numel() as f64 / variances.numel() as f64;
                let other = n / (n - correction).max(0.0);
                let variances = variances.mul(<T as Inexact>::Part::from_f64(other))?;
                let out = axes.out(if root { variances.sqrt()? } else { variances });
                let sizes = out.values.iter().map(|x| x.magnitude()).collect();
                Out { magnitude: Some(sizes), ..out }.rounded(2.0)
            }
        };
        let mut all = vec![out];
        if with_mean {
            let mut mean = axes.reduce(Mean, x)?;
            mean.magnitude = Some(axes.magnitude(&case.magnitude(case.arg(0))?)?);
            all.push(mean);
        }
        // A variance is a sum of squares: rounded about as often as there are terms.
        all[0].budget = 4.0 + (x.numel() as f64).log2().max(0.0) * 2.0;
        Ok(all)
    })
}
/// The values of a result as a tensor.
pub fn values<T: Seen>(out: &Out) -> Result<Tensor<T, 1>, Stop> {
    let real = |x: &crate::case::Scalar| match x {
        crate::case::Scalar::Real(x) => *x,
        crate::case::Scalar::Integer(x) => *x as f64,
        crate::case::Scalar::Complex(..) => f64::NAN,
    };
    Ok(Tensor::from_vec(out.values.iter().map(|x| T::from_f64(real(x))).collect(), [out.values.len()])?)
}

/// Extremes.
macro_rules! extremes {
    ($name:ident, $op:ident) => {
        fn $name<D: CaseDevice>(case: &Case<D>, axes: &Axes) -> Result<Out, Stop> {
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
                Ok(axes.reduce($op, case.operand::<T>(case.arg(0))?.view()?)?.exact())
            })
        }
    };
}
extremes!(max, Max);
extremes!(min, Min);

/// The position of the first extreme.
macro_rules! places {
    ($name:ident, $op:ident) => {
        fn $name<D: CaseDevice>(case: &Case<D>, axes: &Axes) -> Result<Out, Stop> {
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
                axes.reduce($op, case.operand::<T>(case.arg(0))?.view()?)
            })
        }
    };
}
places!(argmax, ArgMax);
places!(argmin, ArgMin);

type Part<D> = fn(&Case<D>, &Axes) -> Result<Out, Stop>;
fn parts<D: CaseDevice>(case: &Case<D>, parts: &[Part<D>]) -> Run {
    case.only(&["dim", "keepdim"])?;
    let axes = Axes::default(case)?;
    parts.iter().map(|part| part(case, &axes)).collect()
}

fn truths<Q: Reducer<bool, Out: Seen>, D: CaseDevice>(case: &Case<D>, q: Q) -> Run {
    case.only(&["dim", "keepdim"])?;
    let mut out = Axes::default(case)?.reduce(q, truth(case, 0)?.view())?;
    if case.dtype()? == DType::U8 {
        out.dtype = DType::U8; // the reference's truth values of bytes are bytes
    }
    Ok(vec![out])
}

fn trace<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.spec(0)?.rank() != 2 {
        return unrun("does not compile: another rank than 2");
    }
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 c64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let magnitude = case.magnitude(case.arg(0))?.sum(All)?;
        let sum = x.at::<2>()?.diagonal(Axis::<0>, Axis::<1>)?.sum(All)?;
        Ok(vec![Out::of(sum.view()).magnitude(&magnitude)])
    })
}

/// Differences of neighbors, some times.
fn differences<D: CaseDevice>(case: &Case<D>) -> Run {
    let order = case.get(1, "n").as_i64().unwrap_or(1);
    let spec = case.spec(0)?;
    let axis = axis(case.get(2, "dim").as_i64().unwrap_or(-1), spec.rank())? + N - spec.rank();
    let Ok(order) = usize::try_from(order) else { return unrun("does not compile: a count below 0") };
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let mut y = case.operand::<T>(case.arg(0))?.view()?.copy()?;
        let ends = [case.get(3, "prepend"), case.get(4, "append")]
            .map(|end| if end.is_null() { Ok(None) } else { case.operand::<T>(end).map(Some) });
        let [before, after] = ends;
        if let Some(before) = before?.filter(|_| order > 0) {
            y = Tensor::concat_axis([before.view()?, y.view()], axis)?;
        }
        if let Some(after) = after?.filter(|_| order > 0) {
            y = Tensor::concat_axis([y.view(), after.view()?], axis)?;
        }
        for _ in 0..order {
            let n = y.size()[axis];
            if n == 0 {
                break;
            }
            y = y.diff_axis(axis)?;
        }
        one(Ok(y))
    })
}

/// The logarithm of a sum of powers.
fn log_sum_exp<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim", "keepdim"])?;
    by_type!(crate::elementwise::float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        let out = Axes::default(case)?.reduce(LogSumExp, case.operand::<T>(case.arg(0))?.view()?)?;
        let largest = case.magnitude(case.arg(0))?.iter().copied().filter(|x| x.is_finite())
            .fold(1.0, f64::max);
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }])
    })
}

/// Covariances and correlations of rows.
fn covariances<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["correction", "fweights", "aweights"])?;
    if case.spec(0)?.rank() > 2 {
        return unrun("does not compile: another rank than 2");
    }
    // Integers are converted first to the reference's element; weights of another element too.
    by_type!(crate::elementwise::float(case.dtype()?), T in [f16 bf16 f32 f64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let part = |name: &str| Some(case.kw(name)).filter(|value| !value.is_null());
        if part("fweights").and_then(crate::case::Spec::of).is_some_and(|spec| !spec.dtype.is_discrete()) {
            return unrun("does not compile: counts that are no integers");
        }
        let times = part("fweights").map(|value| case.operand::<i64>(value)).transpose()?;
        // Sums of single-precision weights are the reference's in single precision: too few digits for a
        // result in double.
        let weight = |value| if T::DTYPE == DType::F64 {
            case.tensor::<T>(value)
        } else {
            case.operand::<T>(value)
        };
        let weights = part("aweights").map(weight).transpose()?;
        let mut plan = Cov::new().correction(case.kw("correction").as_f64().unwrap_or(1.0));
        if let Some(times) = &times {
            plan = plan.frequencies(times.at::<1>()?);
        }
        if let Some(weights) = &weights {
            plan = plan.weights(weights.at::<1>()?);
        }
        let x = x.at::<2>()?;
        let out = Out::of(if case.op == "cov" { x.cov(plan)? } else { x.corrcoef()? }.view());
        // The reference subtracts means in the element's own precision.
        let largest = case.magnitude(case.arg(0))?.iter().copied().fold(1.0, f64::max);
        let largest = if case.op == "cov" { largest * largest } else { largest };
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(8.0)])
    })
}

fn quantile<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim", "keepdim", "interpolation"])?;
    let spec = case.spec(0)?;
    let rank = spec.rank();
    let between = match case.kw("interpolation").as_str() {
        Some("linear") | None => QuantileMethod::Linear,
        Some("lower") => QuantileMethod::Lower,
        Some("higher") => QuantileMethod::Higher,
        Some("nearest") => QuantileMethod::Nearest,
        Some("midpoint") => QuantileMethod::Midpoint,
        _ => return unrun("does not compile: nothing between"),
    };
    by_type!(spec.dtype, T in [f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let largest = case.magnitude(case.arg(0))?.iter().copied().filter(|x| x.is_finite())
            .fold(0.0, f64::max);
        let Some(q) = crate::case::real(case.arg(1)) else {
            let Some(shares) = crate::case::Spec::of(case.arg(1)) else { return unrun("no shares") };
            let shares: Vec<f64> = case.values(&shares).into_iter().map(|q| q.magnitude()).collect();
            let keep = case.kw("keepdim").as_bool() == Some(true);
            let (out, mut size) = match case.kw("dim").as_i64() {
                None => {
                    let line = x.view()?.to_shape([spec.numel()])?;
                    (
                        Out::of(line.quantiles(&shares, Axis::<0>, between)?.view()),
                        vec![1; if keep { rank } else { 0 }]
                    )
                }
                Some(dim) => {
                    let (dim, mut size) = (axis(dim, rank)?, spec.size.clone());
                    match keep {
                        _ if rank == 0 => {}
                        true => size[dim] = 1,
                        false => drop(size.remove(dim)),
                    }
                    (Out::of(x.view()?.quantiles_axis(&shares, dim + N - rank.max(1), between)?.view()), size)
                }
            };
            size.insert(0, shares.len());
            let sizes = vec![largest; out.values.len()];
            return Ok(vec![Out { magnitude: Some(sizes), ..out }.sized(size)]);
        };
        let (out, size) = if case.kw("dim").is_null() {
            (
                Out::of(x.view()?.to_shape([spec.numel()])?.quantile(q, Axis::<0>, between)?.view()),
                vec![1; if case.kw("keepdim").as_bool() == Some(true) { rank } else { 0 }]
            )
        } else {
            let dim = axis(case.kw("dim").as_i64().unwrap_or(0), rank)?;
            let mut size = spec.size.clone();
            if rank > 0 {
                if case.kw("keepdim").as_bool() == Some(true) {
                    size[dim] = 1;
                } else {
                    size.remove(dim);
                }
            }
            (Out::of(x.view()?.quantile_axis(q, dim + N - rank.max(1), between)?.view()), size)
        };
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }.sized(size)])
    })
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("quantile", quantile),
        ("logsumexp", log_sum_exp),
        ("cov", covariances),
        ("corrcoef", covariances),
        ("sum", sum),
        ("prod", product),
        ("mean", mean),
        ("nansum", |c| without_nan(c, false)),
        ("nanmean", |c| without_nan(c, true)),
        ("var", |c| spread(c, false, false)),
        ("std", |c| spread(c, true, false)),
        ("var.unbiased", |c| spread(c, false, false)),
        ("std.unbiased", |c| spread(c, true, false)),
        ("var_mean", |c| spread(c, false, true)),
        ("std_mean", |c| spread(c, true, true)),
        ("amax", |c| parts(c, &[max])),
        ("amin", |c| parts(c, &[min])),
        ("aminmax", |c| parts(c, &[min, max])),
        ("max.reduction_no_dim", |c| parts(c, &[max])),
        ("min.reduction_no_dim", |c| parts(c, &[min])),
        ("max.reduction_with_dim", |c| parts(c, &[max, argmax])),
        ("min.reduction_with_dim", |c| parts(c, &[min, argmin])),
        ("trace", trace),
        ("diff", differences),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[
    ("argmax", |c| parts(c, &[argmax])),
    ("argmin", |c| parts(c, &[argmin])),
    ("all", |c| truths(c, AllTrue)),
    ("any", |c| truths(c, Any)),
    ("count_nonzero", |c| truths(c, Count)),
];
