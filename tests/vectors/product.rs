//! Products by letters and by pairs of axes, norms, convolutions.

use crate::case::{Case, CaseDevice, N, Out, Run, Seen, Stop, axis, one, real, real_or, unrun, wholes};
use crate::contract::Factor;
use crate::reduce::Axes;
use crate::{Row, by_type};
use rankform::ops::Conv;
use rankform::ops::{Norm, NormMax, NormOne};
use rankform::prelude::*;
use serde_json::Value;

/// A result, with the same of magnitudes for the bound.
fn with_sizes<T: Seen, D: CaseDevice, const R: usize>(x: Tensor<T, R, D>, sizes: Tensor<f64, R>) -> Run {
    Ok(vec![Out::of(x.view()).magnitude(&sizes)])
}

/// Products by labels, which must be in the program's text: one row for each that the cases use.
fn einsum<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.op == "Einsum";
    let equation =
        if onnx { case.kw("equation") } else { case.arg(1) }.as_str().unwrap_or("").replace(' ', "");
    let parts = if onnx { &case.json["in"] } else { case.arg(0) };
    macro_rules! by_letters {
        (
            $T:ty: $($one:literal $a:literal;)* / $($two:literal $b:literal $c:literal;)*
        ) => { match &*equation {
            $($one => {
                let x = Factor::<$T, D>::of(case, &parts[0])?;
                with_sizes(einsum!($one, x.values.at::<$a>()?)?, einsum!($one, x.sizes.at::<$a>()?)?)
            })*
            $($two => {
                let (x, y) = (Factor::<$T, D>::of(case, &parts[0])?, Factor::<$T, D>::of(case, &parts[1])?);
                with_sizes(
                    einsum!($two, x.values.at::<$b>()?, y.values.at::<$c>()?)?,
                    einsum!($two, x.sizes.at::<$b>()?, y.sizes.at::<$c>()?)?
                )
            })*
            _ => unrun("does not compile: dots for the other axes"),
        } };
    }
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => by_letters! { T:
        "i->" 1;
        "ij->i" 2;
        "ij->ji" 2;
        "iji->j" 3;
        "ii->i" 2;
        /
        "i,j->ij" 1 1;
        "ij,kj->ik" 2 2;
        "ij,Ab->ijAb" 2 2;
        "aij,ajk->aik" 3 3;
        "aij,jk->aik" 3 2;
        "ijk,ik->j" 3 2;
        "bij,bjk->bik" 3 3;
        "ij,jk->ik" 2 2;
        "i,i->" 1 1;
    })
}

/// Products summed over pairs of axes.
fn tensordot<D: CaseDevice>(case: &Case<D>) -> Run {
    let pairs: Vec<(usize, usize)> = match case.get(2, "dims") {
        Value::Number(n) => {
            let (n, rank) = (n.as_u64().unwrap_or(0) as usize, case.spec(0)?.rank());
            (0..n).map(|k| (rank - n + k, k)).collect()
        }
        lists => {
            let list = |k: usize| wholes(&lists[k]).unwrap_or_default().into_iter().map(|axis| axis as usize);
            list(0).zip(list(1)).collect()
        }
    };
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let (x, y) = (Factor::<T, D>::of(case, case.arg(0))?, Factor::<T, D>::of(case, case.arg(1))?);
        let [a, b] = pairs[..] else { return unrun("another number of pairs than 2") };
        if [a, b].iter().any(|&(a, b)| x.values.spec().size[a] != y.values.spec().size[b]) {
            return unrun("a summed axis of size 1, which the reference stretches");
        }
        with_sizes(
            x.values.at::<3>()?.tensordot(y.values.at::<3>()?, [a, b])?,
            x.sizes.at::<3>()?.tensordot(y.sizes.at::<3>()?, [a, b])?
        )
    })
}

fn kron<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        if x.spec().rank() > 2 || y.spec().rank() > 2 {
            return unrun("other ranks than 2");
        }
        one(x.at::<2>()?.copy()?.kron(y.at::<2>()?))
    })
}
fn cross<D: CaseDevice>(case: &Case<D>) -> Run {
    let rank = case.spec(0)?.rank();
    let dim = axis(
        case.get(2, "dim")
            .as_i64()
            .unwrap_or_else(|| case.spec(0).unwrap().size.iter().position(|&n| n == 3).unwrap_or(0) as i64),
        rank,
    )? + N
        - rank;
    let mut order: [usize; N] = std::array::from_fn(|axis| axis);
    order.swap(dim, 0);
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let z = x.view()?.permuted(order)?.cross(y.view()?.permuted(order)?, Axis::<0>)?;
        // Differences of two products each.
        let turned = |at: usize| Ok::<_, Stop>(case.magnitude(case.arg(at))?.view().permuted(order)?.copy()?);
        let largest = turned(0)?.max(All)?.item()? * turned(1)?.max(All)?.item()? * 2.0;
        let out = Out::of(z.view().permuted(order)?);
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }])
    })
}

/// Norms over any axes.
fn norm<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["ord", "dim", "keepdim"])?;
    let order = match case.get(1, "ord") {
        Value::Null => 2.0,
        Value::String(word) if word == "fro" => 2.0,
        value => real(value).map_or_else(|| unrun("a norm by another name"), Ok)?,
    };
    let axes = Axes::of(case, case.get(2, "dim"), case.get(3, "keepdim"))?;
    let judged = |out: Out| {
        let (sizes, roundings) =
            (out.values.iter().map(|x| x.magnitude()).collect(), if order == 2.0 { 1.0 } else { 4.0 });
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(roundings)])
    };
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.view()?;
        judged(if order == 2.0 {
            axes.reduce(Norm, x)?
        } else if order == 1.0 {
            axes.reduce(NormOne, x)?
        } else if order == f64::INFINITY {
            axes.reduce(NormMax, x)?
        } else {
            of_order(&axes, x.modulus()?.view(), order)?
        })
    })
}
/// The norm of another order. Powers of 16-bit floats leave their range: in single precision, as a user
/// casts.
fn of_order<T: Seen + Float, D: CaseDevice>(
    axes: &Axes,
    x: TensorView<'_, T, N, D>,
    order: f64,
) -> Result<Out, Stop> {
    if size_of::<T>() == 2 {
        let norm = axes.norm_p(order as f32, x.cast::<f32>()?.view())?;
        return Ok(Out {
            dtype: T::DTYPE,
            values: norm.values.iter().map(|x| T::from_f64(x.magnitude()).scalar()).collect(),
            ..norm
        });
    }
    axes.norm_p(T::from_f64(order), x)
}
/// Numbers of an argument, one an axis.
pub fn each<const M: usize>(value: &Value, default: usize) -> Result<[usize; M], Stop> {
    if value.is_null() {
        return Ok([default; M]);
    }
    let Some(numbers) = wholes(value) else { return unrun("does not compile: not numbers") };
    let number = |axis: usize| usize::try_from(numbers[if numbers.len() == 1 { 0 } else { axis }]);
    if numbers.len() != 1 && numbers.len() != M || numbers.iter().any(|&n| n < 0) {
        return unrun("does not compile: other numbers than one an axis");
    }
    Ok(std::array::from_fn(|axis| number(axis).unwrap()))
}

/// Convolutions over one, two and three axes, forward or transposed.
macro_rules! convolutions {
    ($($name:ident $turned:ident $method:ident $transposed:ident $n:literal $rank:literal;)*) => { $(
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            run_conv::<$n, D>(case, |case, conv, batched| by_type!(case.spec(0)?.dtype,
                T in [f16 bf16 f32 f64 i64 c64] => {
                let (x, w) = (Factor::<T, D>::of(case, case.arg(0))?, Factor::<T, D>::of(case, case.arg(1))?);
                let z = x.values.at::<$rank>()?.$method(w.values.at::<$rank>()?, conv)?;
                let sizes = x.sizes.at::<$rank>()?.$method(w.sizes.at::<$rank>()?, conv)?;
                with_bias(case, z, sizes, batched)
            }))
        }
        fn $turned<D: CaseDevice>(case: &Case<D>) -> Run {
            run_conv::<$n, D>(case, |case, conv, batched| by_type!(case.spec(0)?.dtype,
                T in [f16 bf16 f32 f64 i64 c64] => {
                let (x, w) = (Factor::<T, D>::of(case, case.arg(0))?, Factor::<T, D>::of(case, case.arg(1))?);
                let extra = each::<$n>(case.kw("output_padding"), 0)?;
                let z = x.values.at::<$rank>()?.$transposed(w.values.at::<$rank>()?, conv, extra)?;
                let sizes = x.sizes.at::<$rank>()?.$transposed(w.sizes.at::<$rank>()?, conv, extra)?;
                with_bias(case, z, sizes, batched)
            }))
        }
    )* };
}
convolutions! {
    conv1d turned1d conv1d conv_transpose1d 1 3;
    conv2d turned2d conv2d conv_transpose2d 2 4;
    conv3d turned3d conv3d conv_transpose3d 3 5;
}

fn run_conv<const M: usize, D: CaseDevice>(
    case: &Case<D>,
    run: impl Fn(&Case<D>, Conv<M>, bool) -> Run,
) -> Run {
    let onnx = !case.kw("kernel_shape").is_null()
        || !case.kw("strides").is_null()
        || !case.kw("pads").is_null()
        || case.json.get("in").is_some();
    let (x, w) = (case.spec(0)?, case.spec(1)?);
    if x.rank() + 1 < w.rank() || x.rank() > w.rank() || w.rank() != M + 2 {
        return unrun("does not compile: other ranks");
    }
    if x.dtype != w.dtype
        || crate::case::Spec::of(case.get(2, "bias")).is_some_and(|bias| bias.dtype != x.dtype)
    {
        return unrun("does not compile: other elements");
    }
    let name = |torch: &'static str, other: &'static str| if onnx { other } else { torch };
    let (stride, dilation) = (
        each::<M>(case.get(3, name("stride", "strides")), 1)?,
        each::<M>(
            case.get(if case.op.contains("transpose") { 7 } else { 5 }, name("dilation", "dilations")),
            1,
        )?,
    );
    let conv = Conv::new().stride(stride).dilation(dilation);
    let conv = match case.get(4, name("padding", "pads")) {
        Value::String(word) if word == "valid" => conv,
        Value::String(_) => conv.same(),
        Value::Array(pads) if onnx => {
            let of =
                |from: usize| std::array::from_fn(|axis| pads[from + axis].as_u64().unwrap_or(0) as usize);
            conv.padding_ends(of(0), of(M))
        }
        value => conv.padding(each::<M>(value, 0)?),
    };
    let conv = match case.kw("auto_pad").as_str() {
        Some("SAME_UPPER") => conv.same(),
        Some("SAME_LOWER") => conv.same_lower(),
        _ => conv,
    };
    let wanted = each::<M>(case.kw("output_shape"), 0)?;
    // Padding for the wanted sizes, an odd element at the end; further elements are `output_padding`.
    let conv = if case.kw("output_shape").is_null() {
        conv
    } else {
        let extra = each::<M>(case.kw("output_padding"), 0)?;
        let total = |axis: usize| {
            ((x.size[axis + x.rank() - M] - 1) * stride[axis]
                + extra[axis]
                + dilation[axis] * (w.size[axis + 2] - 1)
                + 1)
            .checked_sub(wanted[axis])
        };
        let total: [Option<usize>; M] = std::array::from_fn(total);
        let Some(total) = total.into_iter().collect::<Option<Vec<_>>>() else {
            return unrun("more than the whole of a transposed convolution");
        };
        conv.padding_ends(
            std::array::from_fn(|axis| total[axis] / 2),
            std::array::from_fn(|axis| total[axis].div_ceil(2)),
        )
    };
    let groups = real_or(case.kw(name("groups", "group")), 1.0)? as usize;
    run(case, conv.groups(groups), x.rank() == M + 2)
}
/// One number a channel added.
fn with_bias<T: Seen + Number, const R: usize, D: CaseDevice>(
    case: &Case<D>,
    z: Tensor<T, R, D>,
    sizes: Tensor<f64, R>,
    batched: bool,
) -> Run {
    let bias = case.get(2, "bias");
    let (z, sizes) = if bias.is_null() {
        (z, sizes)
    } else {
        let b = Factor::<T, D>::of(case, bias)?;
        let size: [usize; R] =
            std::array::from_fn(|axis| if axis == 1 { b.values.spec().numel() } else { 1 });
        (z.add(b.values.at::<1>()?.reshape(size)?)?, sizes.add(b.sizes.at::<1>()?.reshape(size)?)?)
    };
    let out = Out::of(z.view()).magnitude(&sizes).rounded(2.0);
    let size = out.size[if batched { 0 } else { 1 }..].to_vec();
    Ok(vec![if batched || out.size[0] == 1 { out.sized(size) } else { out }])
}
fn by_axes<D: CaseDevice>(case: &Case<D>, rows: [fn(&Case<D>) -> Run; 3]) -> Run {
    match case.spec(1)?.rank() {
        rank @ 3..=5 => rows[rank - 3](case),
        _ => unrun("other ranks"),
    }
}

pub const ONNX: &[Row] = &[
    ("Einsum", einsum),
    ("Conv", |c| by_axes(c, [conv1d, conv2d, conv3d])),
    ("ConvTranspose", |c| by_axes(c, [turned1d, turned2d, turned3d])),
];

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("einsum", einsum),
        ("tensordot", tensordot),
        ("kron", kron),
        ("cross", cross),
        ("norm", norm),
        ("norm.fro", norm),
        ("norm.inf", norm),
        ("linalg.vector_norm", norm),
        ("nn.functional.conv1d", conv1d),
        ("nn.functional.conv2d", conv2d),
        ("nn.functional.conv3d", conv3d),
        ("nn.functional.conv_transpose1d", turned1d),
        ("nn.functional.conv_transpose2d", turned2d),
    ];
    rows.to_vec()
}
