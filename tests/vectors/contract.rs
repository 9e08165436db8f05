//! Products of vectors, matrices and stacks of matrices.

use crate::case::{Case, CaseDevice, Operand, Out, Run, Seen, Stop, number, size_of_number, unrun};
use crate::{Row, by_type};
use num_complex::Complex;
use rankform::ops::{Mul, Sum};
use rankform::prelude::*;
use rankform::scalar::DType;
use serde_json::Value;

/// An operand of a product, and its elements' magnitudes as `f64`.
pub struct Factor<T, D: CaseDevice = Cpu> {
    pub values: Operand<T, D>,
    pub sizes: Operand<f64, Cpu>,
}

impl<T: Seen + Number, D: CaseDevice> Factor<T, D> {
    pub fn of(case: &Case<D>, value: &Value) -> Result<Self, Stop> {
        let values = case.tensor::<T>(value)?;
        let magnitudes = case.values(values.spec()).into_iter().map(|x| x.magnitude()).collect();
        let sizes = Operand::new(magnitudes, &values.spec().size, &Cpu)?;
        Ok(Factor { values, sizes })
    }
    fn rank(&self) -> usize {
        self.values.spec().rank()
    }
    /// The product, and the sums of the products of magnitudes.
    pub fn times(&self, other: &Factor<T, D>) -> Result<Factor<T, D>, Stop> {
        Ok(Factor {
            values: product(&self.values, &other.values)?,
            sizes: product(&self.sizes, &other.sizes)?,
        })
    }
    /// A stack of more than two axes as one of fewer, the rows one after the other.
    fn rows(self) -> Result<Self, Stop> {
        let size = self.values.spec().size.clone();
        if size.len() < 4 {
            return Ok(self);
        }
        let rows: usize = size[..size.len() - 1].iter().product();
        let to = [rows, size[size.len() - 1]];
        Ok(Factor {
            values: Operand::dense(self.values.view()?.to_shape(to)?)?,
            sizes: Operand::dense(self.sizes.view()?.to_shape(to)?)?,
        })
    }
    /// With the last two axes swapped.
    pub fn transposed(self) -> Result<Self, Stop> {
        fn swap<T: Seen, D: CaseDevice>(x: Operand<T, D>) -> Result<Operand<T, D>, Stop> {
            let rank = x.spec().rank();
            if rank < 2 { Ok(x) } else { Ok(x.swapped(rank - 2, rank - 1)) }
        }
        Ok(Factor { values: swap(self.values)?, sizes: swap(self.sizes)? })
    }
    pub fn out(&self) -> Result<Out, Stop> {
        let size = self.values.spec().size.clone();
        Ok(Out::of(self.values.view()?).magnitude(&self.sizes.view()?.copy()?).sized(size))
    }
}

/// The product of operands of any ranks: those that have one as they are, others as stacks of rank 4.
fn product<T: Seen + Number, D: CaseDevice>(
    x: &Operand<T, D>,
    y: &Operand<T, D>,
) -> Result<Operand<T, D>, Stop> {
    fn result<T: Seen, D: CaseDevice, const R: usize>(z: Tensor<T, R, D>) -> Result<Operand<T, D>, Stop> {
        Operand::dense(z)
    }
    let (left, right) = (x.spec().rank(), y.spec().rank());
    match (left, right) {
        (1, 1) => result(x.at::<1>()?.matmul(y.at::<1>()?)?),
        (1, 2) => result(x.at::<1>()?.matmul(y.at::<2>()?)?),
        (2, 1) => result(x.at::<2>()?.matmul(y.at::<1>()?)?),
        (2, 2) => result(x.at::<2>()?.matmul(y.at::<2>()?)?),
        (3, 3) => result(x.at::<3>()?.matmul(y.at::<3>()?)?),
        (0, _) | (_, 0) => unrun("does not compile: a product of a number"),
        _ if left.max(right) > 4 => unrun("more than two axes of stacks"),
        _ => {
            let z = if right == 1 {
                x.at::<4>()?.matmul(y.at::<1>()?.insert_axis(Axis::<1>).lift::<4>())?
            } else {
                x.at::<4>()?.matmul(y.at::<4>()?)?
            };
            // The result has the axes of the longer stack, without that of a vector.
            let mut size = z.size().0[4 - left.max(right).max(2)..].to_vec();
            if left == 1 {
                size.remove(size.len() - 2);
            }
            if right == 1 {
                size.pop();
            }
            Ok(Operand::dense(z)?.reshaped(size))
        }
    }
}

/// The same for every element that products have.
macro_rules! products {
    ($($name:ident |$case:ident, $T:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!(
                $case.spec(0).or_else(|_| $case.spec(1))
                .map_or_else(|_| $case.dtype(), |spec| Ok(spec.dtype))?,
                $T in [f16 bf16 f32 f64 i64 i32 u8 c64] => $body
            )
        }
    )* };
}

products! {
    matmul |case, T| {
        case.only(&[])?;
        Ok(vec![Factor::<T, D>::of(case, case.arg(0))?.times(&Factor::of(case, case.arg(1))?)?.out()?])
    };
    inner |case, T| {
        let (x, y) = (Factor::<T, D>::of(case, case.arg(0))?, Factor::of(case, case.arg(1))?);
        Ok(vec![x.times(&y.transposed()?)?.out()?])
    };
    outer |case, T| {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        Ok(vec![Out::of(x.at::<1>()?.insert_axis(Axis::<1>).mul(y.at::<2>()?)?.view())])
    };
    linear |case, T| {
        let (x, w) = (Factor::<T, D>::of(case, case.arg(0))?, Factor::of(case, case.arg(1))?);
        let z = x.rows()?.times(&w.transposed()?)?;
        let size = case.expected().and_then(|out| out.into_iter().next().flatten())
            .map_or(vec![], |spec| spec.size);
        Ok(vec![
            if case.get(2, "bias").is_null() {
                z.out()?.sized(size)
            } else {
                plus(case, case.get(2, "bias"), z, &Value::Null, &Value::Null)?
            }
        ])
    };
    chain |case, T| {
        let mut parts = case.arg(0).as_array().unwrap().iter().map(|part| Factor::<T, D>::of(case, part))
            .collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut all = parts.next().unwrap();
        for part in parts {
            all = all.times(&part)?;
        }
        Ok(vec![all.out()?.rounded(3.0)])
    };
    added |case, T| {
        case.only(&["alpha", "beta"])?;
        let (x, y) = (Factor::<T, D>::of(case, case.arg(1))?, Factor::of(case, case.arg(2))?);
        Ok(vec![plus(case, case.arg(0), x.times(&y)?, case.kw("beta"), case.kw("alpha"))?])
    };
    added_batches |case, T| {
        case.only(&["alpha", "beta"])?;
        let (x, y) = (Factor::<T, D>::of(case, case.arg(1))?, Factor::of(case, case.arg(2))?);
        let z = x.times(&y)?;
        let sum = Operand::dense(z.values.at::<3>()?.reduce_axis(Sum, 0)?)?;
        let sizes = Operand::dense(z.sizes.at::<3>()?.reduce_axis(Sum, 0)?)?;
        Ok(vec![plus(case, case.arg(0), Factor { values: sum, sizes }, case.kw("beta"), case.kw("alpha"))?])
    };
    added_outer |case, T| {
        case.only(&["alpha", "beta"])?;
        let factor = |x: Tensor<T, 2, D>, sizes: Tensor<f64, 2>| Ok::<_, Stop>(
            Factor { values: Operand::dense(x)?, sizes: Operand::dense(sizes)? }
        );
        let (x, y) = (Factor::<T, D>::of(case, case.arg(1))?, Factor::<T, D>::of(case, case.arg(2))?);
        let z = x.values.at::<1>()?.insert_axis(Axis::<1>).mul(y.values.at::<2>()?)?;
        let sizes = x.sizes.at::<1>()?.insert_axis(Axis::<1>).mul(y.sizes.at::<2>()?)?;
        Ok(vec![plus(case, case.arg(0), factor(z, sizes)?, case.kw("beta"), case.kw("alpha"))?])
    };
}

/// `beta · x + alpha · product`.
pub fn plus<T: Seen + Number, D: CaseDevice>(
    case: &Case<D>,
    x: &Value,
    product: Factor<T, D>,
    beta: &Value,
    alpha: &Value,
) -> Result<Out, Stop> {
    let size = product.values.spec().size.clone();
    let scale = |value: &Value| if value.is_null() { Ok(T::from_f64(1.0)) } else { number::<T>(value) };
    let sizes = case.magnitude(x)?.mul(size_of_number(beta))?;
    let scaled = product.sizes.view()?.mul(size_of_number(alpha))?;
    let sizes = scaled.add(&sizes)?;
    let x = case.operand::<T>(x)?;
    let z = product.values.view()?.zip(Mul, scale(alpha)?)?;
    let whole = if beta.as_f64() == Some(0.0) { z } else { z.add(x.view()?.zip(Mul, scale(beta)?)?.view())? };
    let out = Out::of(whole.view()).magnitude(&sizes).rounded(8.0);
    let expected =
        case.expected().and_then(|out| out.into_iter().next().flatten()).map_or(size, |spec| spec.size);
    let fits = expected.iter().product::<usize>() == out.values.len();
    Ok(if fits { out.sized(expected) } else { out })
}

fn conjugate_dot<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.spec(0)?.dtype != DType::C32 {
        return matmul(case);
    }
    let (x, y) = (case.tensor::<Complex<f32>>(case.arg(0))?, case.tensor::<Complex<f32>>(case.arg(1))?);
    Ok(vec![Out::of(x.at::<1>()?.conj()?.matmul(y.at::<1>()?)?.view())])
}

/// A power of square matrices, by products.
fn power<D: CaseDevice>(case: &Case<D>) -> Run {
    let Some(n) = case.get(1, "n").as_u64() else { return unrun("inverses") };
    by_type!(case.spec(0)?.dtype, T in [f32 f64 c64] => {
        let x = Factor::<T, D>::of(case, case.arg(0))?;
        if x.rank() == 2 {
            let power = |n: u32| Ok::<_, Stop>(
                (x.values.at::<2>()?.copy()?.matrix_power(n)?, x.sizes.at::<2>()?.copy()?.matrix_power(n)?)
            );
            let (power, sizes) = power(n as u32)?;
            return Ok(vec![Out::of(power.view()).magnitude(&sizes)]);
        }
        if n == 0 {
            return unrun("powers of 0");
        }
        let mut all = Factor::of(case, case.arg(0))?;
        for _ in 1..n {
            all = all.times(&x)?;
        }
        Ok(vec![all.out()?])
    })
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("matmul", matmul),
        ("mm", matmul),
        ("bmm", matmul),
        ("mv", matmul),
        ("dot", matmul),
        ("vdot", conjugate_dot),
        ("inner", inner),
        ("outer", outer),
        ("nn.functional.linear", linear),
        ("linalg.multi_dot", chain),
        ("linalg.matrix_power", power),
        ("addmm", added),
        ("addmv", added),
        ("baddbmm", added),
        ("addbmm", added_batches),
        ("addr", added_outer),
    ];
    rows.to_vec()
}
