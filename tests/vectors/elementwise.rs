//! Elementwise operators: a row each, most of them a type of the crate.

use crate::Row;
use crate::by_type;
use crate::case::{
    Case, CaseDevice, N, Operand, Out, Run, Seen, Stop, moved, number, one, real_or, slack, unrun,
};
use num_complex::Complex;
use rankform::kernel::Op;
use rankform::ops::{self, *};
use rankform::prelude::*;
use rankform::scalar::DType;
use rankform::{bf16, f16};

/// An operator on each of some elements that gives the same element.
macro_rules! classes {
    ($($one:ident $two:ident: $($t:ty)*;)*) => { $(
        pub trait $one: $(Op<($t,), Out = $t> +)* Copy {}
        impl<F: $(Op<($t,), Out = $t> +)* Copy> $one for F {}
        pub trait $two: $(Op<($t, $t), Out = $t> +)* Copy {}
        impl<F: $(Op<($t, $t), Out = $t> +)* Copy> $two for F {}
    )* };
}
classes! {
    Float1 Float2: f16 bf16 f32 f64;
    Ordered1 Ordered2: f16 bf16 f32 f64 i64 i32 u8;
    Number1 Number2: f16 bf16 f32 f64 i64 i32 u8 Complex<f32>;
    Bits1 Bits2: i64 i32 u8 bool;
}

trait Order2: Ordered2 + Op<(bool, bool), Out = bool> {}
impl<F: Ordered2 + Op<(bool, bool), Out = bool>> Order2 for F {}

type A<T, D = Cpu> = Tensor<T, N, D>;
type V<'a, T> = TensorView<'a, T, N>;
type Answer<T> = Result<T, rankform::Error>;

/// The float that a function of real numbers computes in: integers and truth values become `f32` first, as a
/// user casts.
pub fn float(dtype: DType) -> DType {
    if dtype.is_discrete() { DType::F32 } else { dtype }
}

/// A function of one real number, with its derivative.
pub fn function<F: Float1, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
    case.only(&[])?;
    by_type!(float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let y = one(x.view()?.map(f))?;
        slopes1(case, |x| x.map(derivative::<_, 0>(f)))?;
        Ok(y)
    })
}

/// As `function`; where the file has no truth, the reference's own results are off by a rounding of 1 on the
/// way, or of the larger operand.
fn function_of_sums<F: Float1, D: CaseDevice>(case: &Case<D>, f: F, slope: bool) -> Run {
    case.only(&[])?;
    by_type!(float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let y = x.view()?.map(f)?;
        if slope {
            slopes1(case, |x| x.map(derivative::<_, 0>(f)))?;
        }
        let out = Out::of(y.view());
        let sizes = out.values.iter().map(|y| 1.0 + y.magnitude()).collect();
        Ok(vec![if case.json.get("ulp").is_none() { Out { magnitude: Some(sizes), ..out } } else { out }])
    })
}

/// The first two arguments as elements `T`.
fn both<T: Seen, D: CaseDevice>(case: &Case<D>) -> Result<[Operand<T, D>; 2], Stop> {
    if case.spec(0).is_err() {
        return unrun("does not compile: a number on the left");
    }
    Ok([case.operand::<T>(case.arg(0))?, case.operand::<T>(case.arg(1))?])
}

/// An operator of one number.
macro_rules! unary {
    ($name:ident, $class:ident, [$($t:ident)*]) => {
        pub fn $name<F: $class, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
            case.only(&[])?;
            by_type!(
                case.spec(0)?.dtype, T in [$($t)*] => one(case.operand::<T>(case.arg(0))?.view()?.map(f))
            )
        }
    };
}
unary!(ordered, Ordered1, [f16 bf16 f32 f64 i64 i32 u8]);
unary!(numbers, Number1, [f16 bf16 f32 f64 i64 i32 u8 c64]);
unary!(bits, Bits1, [i64 i32 u8 bool]);
unary!(rounding, Float1, [f16 bf16 f32 f64]);

/// An operator of two numbers.
macro_rules! binary {
    ($name:ident, $class:ident, [$($t:ident)*]) => {
        fn $name<F: $class, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
            case.only(&["rounding_mode"])?;
            by_type!(case.dtype()?, T in [$($t)*] => {
                let [x, y] = both::<T, D>(case)?;
                one(x.view()?.zip(f, y.view()?))
            })
        }
    };
}
binary!(ordered2, Ordered2, [f16 bf16 f32 f64 i64 i32 u8]);
binary!(order2, Order2, [f16 bf16 f32 f64 i64 i32 u8 bool]);
binary!(numbers2, Number2, [f16 bf16 f32 f64 i64 i32 u8 c64]);
binary!(bits2, Bits2, [i64 i32 u8 bool]);

/// A function of two real numbers, with both derivatives.
fn function2<F: Float2, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
    case.only(&[])?;
    by_type!(float(case.dtype()?), T in [f16 bf16 f32 f64] => {
        let [x, y] = both::<T, D>(case)?;
        let z = one(x.view()?.zip(f, y.view()?))?;
        slopes2(case, |x, y| Ok([x.zip(derivative::<_, 0>(f), y)?, x.zip(derivative::<_, 1>(f), y)?]))?;
        Ok(z)
    })
}

/// Gradients of an operator of one number, from its derivative.
fn slopes1<D: CaseDevice>(case: &Case<D>, slope: impl Fn(V<f64>) -> Answer<A<f64>>) -> Result<(), Stop> {
    if case.json.get("grad").is_none() || !D::EVERY_ELEMENT {
        return Ok(());
    }
    let x = case.on_cpu().tensor::<f64>(case.arg(0))?;
    slopes(case, &[slope(x.view()?)?])
}
/// Gradients of an operator of two numbers.
fn slopes2<D: CaseDevice>(
    case: &Case<D>,
    slope: impl Fn(V<f64>, V<f64>) -> Answer<[A<f64>; 2]>,
) -> Result<(), Stop> {
    if case.json.get("grad").is_none() || !D::EVERY_ELEMENT {
        return Ok(());
    }
    let host = case.on_cpu();
    let (x, y) = (host.tensor::<f64>(case.arg(0))?, host.operand::<f64>(case.arg(1))?);
    slopes(case, &slope(x.view()?, y.view()?)?)
}

/// Compares derivatives times the weights of the case, summed over stretched axes, with its gradients.
fn slopes<D: CaseDevice>(case: &Case<D>, derivatives: &[A<f64>]) -> Result<(), Stop> {
    let grad = &case.json["grad"];
    let host = case.on_cpu();
    let weights = host.tensor::<f64>(&grad["go"][0])?;
    let weights = weights.view()?;
    for (k, expected) in grad["g"].as_array().into_iter().flatten().enumerate() {
        if expected.is_null() {
            continue;
        }
        let operand = grad["wrt"][k].as_u64().unwrap() as usize;
        let expected = host.tensor::<f64>(expected)?;
        let expected = expected.view()?;
        let terms = derivatives[operand].mul(weights)?;
        let zeros = || Tensor::<f64, N>::zeros(expected.size(), &Cpu);
        let (mut sums, mut magnitudes) = (zeros()?, zeros()?);
        for (index, term) in terms.indexed_iter() {
            let at = std::array::from_fn(|axis| if expected.size().0[axis] == 1 { 0 } else { index[axis] });
            sums[at] += term;
            // The reference takes slopes from values, 1 − tanh² or 1/(1 − x²) say, and is then off by a
            // rounding of 1.
            magnitudes[at] += term.abs() * (1.0 + derivatives[operand][index].abs()) + weights[index].abs();
        }
        for (index, &given) in expected.indexed_iter() {
            let found = sums[index];
            let same = found == given || found.is_nan() && given.is_nan();
            let near = (found - given).abs() <= 16.0 * f64::EPSILON * magnitudes[index];
            if !same && !near {
                return case.complain(format!(
                    "the gradient by operand {operand} at {index:?} is {found:e}, expected {given:e}"
                ));
            }
        }
    }
    Ok(())
}

/// Rows of operators with gradients.
pub fn reals<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("acos", |c| function(c, Acos)),
        ("acosh", |c| function(c, Acosh)),
        ("asin", |c| function(c, Asin)),
        ("asinh", |c| function(c, Asinh)),
        ("atan", |c| function(c, Atan)),
        ("atanh", |c| function(c, Atanh)),
        ("cos", |c| function(c, Cos)),
        ("cosh", |c| function(c, Cosh)),
        ("erf", |c| function(c, Erf)),
        ("erfc", |c| function(c, Erfc)),
        ("exp", |c| function(c, Exp)),
        ("exp2", |c| function(c, Exp2)),
        ("expm1", |c| function(c, ExpM1)),
        ("log", |c| function(c, Ln)),
        ("log10", |c| function(c, Log10)),
        ("log1p", |c| function(c, Ln1p)),
        ("log2", |c| function(c, Log2)),
        ("reciprocal", |c| if c.dtype()? == DType::C32 { complex_reciprocal(c) } else { function(c, Recip) }),
        ("rsqrt", |c| function(c, Rsqrt)),
        ("sigmoid", |c| function(c, Sigmoid)),
        ("sin", |c| function(c, Sin)),
        ("sinh", |c| function(c, Sinh)),
        ("sqrt", |c| function(c, Sqrt)),
        ("tan", |c| function(c, Tan)),
        ("tanh", |c| function(c, Tanh)),
        ("nn.functional.silu", |c| function(c, Silu)),
        ("nn.functional.mish", |c| function(c, Mish)),
        ("nn.functional.softsign", |c| function(c, Softsign)),
        ("nn.functional.elu", |c| function(c, Elu)),
        // the reference's slope is 1/6 in single precision
        ("nn.functional.hardsigmoid", |c| rounding(c, HardSigmoid)),
        ("nn.functional.logsigmoid", |c| function(c, LogSigmoid)),
        ("nn.functional.gelu", |c| match c.kw("approximate").as_str() {
            Some("tanh") => gelu(c, GeluTanh),
            Some("none") => gelu(c, Gelu),
            _ => unrun("does not compile: no such operator"),
        }),
        ("erfinv", |c| function(c, ErfInv)),
        ("lgamma", |c| function(c, Lgamma)),
        ("digamma", |c| function_of_sums(c, Digamma, false)), // the reference's slope has twelve digits
        ("i0", |c| function(c, I0)),
        ("sinc", |c| function_of_sums(c, Sinc, true)),
        (
            "logit",
            |c| if c.get(1, "eps").is_null() { function_of_sums(c, Logit, true) } else { held_logit(c) },
        ),
        ("deg2rad", |c| function(c, ToRadians)),
        ("rad2deg", |c| function(c, ToDegrees)),
        ("nn.functional.selu", |c| function(c, Selu)),
        ("nn.functional.hardswish", |c| function(c, HardSwish)),
        ("nn.functional.tanhshrink", |c| function(c, TanhShrink)),
        ("xlogy", |c| function2(c, Xlogy)),
        ("logaddexp2", |c| function2(c, LogAddExp2)),
        ("logaddexp", |c| {
            let mut out = function2(c, LogAddExp)?;
            if c.json.get("ulp").is_none() {
                let sizes = c.magnitude(c.arg(0))?.maximum(&c.magnitude(c.arg(1))?)?;
                out[0].magnitude = Some(sizes.iter().copied().collect());
            }
            Ok(out)
        }),
        ("nextafter", next),
        ("ceil", |c| rounding(c, Ceil)),
        ("floor", |c| rounding(c, Floor)),
        ("round", |c| rounding(c, Round)),
        ("trunc", |c| rounding(c, Trunc)),
        ("atan2", |c| function2(c, Atan2)),
        ("hypot", |c| function2(c, Hypot)),
        ("copysign", |c| function2(c, Copysign)),
    ];
    rows.to_vec()
}
fn next<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64] => {
        let [x, y] = both::<T, D>(case)?;
        moved(x.view()?.next_after(y.view()?))
    })
}
fn sign_bits<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        one(case.operand::<T>(case.arg(0))?.view()?.sign_bit())
    })
}
/// Rows of operators without.
pub const DISCRETE_REALS: &[Row] = &[("signbit", sign_bits)];

pub fn gelu<F: Float1, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
    case.only(&["approximate"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let y = case.operand::<T>(case.arg(0))?.view()?.map(f)?;
        slopes1(case, |x| x.map(derivative::<_, 0>(f)))?;
        // The reference adds 1 to a number near −1, and is off by a rounding of that.
        let magnitude = case.magnitude(case.arg(0))?;
        Ok(vec![
            if case.json.get("ulp").is_none() {
                Out::of(y.view()).magnitude(&magnitude)
            } else {
                Out::of(y.view())
            }
        ])
    })
}

/// A comparison of any elements.
macro_rules! comparison {
    ($name:ident, $op:ident, [$($t:ident)*]) => {
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            case.only(&[])?;
            let left = case.spec(0).or_else(|_| unrun("does not compile: a number on the left"))?;
            by_type!(left.dtype, T in [$($t)*] => {
                let [x, y] = both::<T, D>(case)?;
                one(x.view()?.zip($op, y.view()?))
            })
        }
    };
}
comparison!(equal, Equal, [f16 bf16 f32 f64 i64 i32 u8 bool c64]);
comparison!(not_equal, NotEqual, [f16 bf16 f32 f64 i64 i32 u8 bool c64]);
comparison!(less, Less, [f16 bf16 f32 f64 i64 i32 u8 bool]);
comparison!(less_equal, LessEqual, [f16 bf16 f32 f64 i64 i32 u8 bool]);
comparison!(greater, Greater, [f16 bf16 f32 f64 i64 i32 u8 bool]);
comparison!(greater_equal, GreaterEqual, [f16 bf16 f32 f64 i64 i32 u8 bool]);

/// Which elements are not 0.
pub fn truth<D: CaseDevice>(case: &Case<D>, at: usize) -> Result<A<bool, D>, Stop> {
    by_type!(case.spec(at)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        Ok(case.operand::<T>(case.arg(at))?.view()?.cast::<bool>()?)
    })
}
comparison!(logical_and, LogicalAnd, [f16 bf16 f32 f64 i64 i32 u8 bool c64]);
comparison!(logical_or, LogicalOr, [f16 bf16 f32 f64 i64 i32 u8 bool c64]);
comparison!(logical_xor, LogicalXor, [f16 bf16 f32 f64 i64 i32 u8 bool c64]);
fn logical_not<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(
        case.spec(0)?.dtype,
        T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => one(
            case.tensor::<T>(case.arg(0))?.view()?.logical_not()
        )
    )
}

/// `x + alpha · y`, `x − alpha · y`.
fn scaled<F: Number2, D: CaseDevice>(case: &Case<D>, f: F, swapped: bool) -> Run {
    case.only(&["alpha"])?;
    if case.spec(0).is_err() {
        return unrun("does not compile: a number on the left");
    }
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let [x, y] = both::<T, D>(case)?;
        let [x, y] = if swapped { [&y, &x] } else { [&x, &y] };
        let (x, mut y) = (x.view()?, Operand::dense(y.view()?.copy()?)?);
        if !case.kw("alpha").is_null() {
            y = Operand::dense(y.view()?.mul(number::<T>(case.kw("alpha"))?)?)?;
        }
        let y = y.view()?;
        let mut out = one(x.zip(f, y))?;
        if !case.kw("alpha").is_null() {
            // The product is rounded before the sum.
            let parts = if swapped { [1, 0] } else { [0, 1] }.map(|at| case.magnitude(case.arg(at)));
            let [x, y] = parts;
            out[0].magnitude = Some(
                y?.mul(&case.magnitude(case.kw("alpha"))?)?.add(&x?)?.iter().copied().collect()
            );
        }
        Ok(out)
    })
}

/// Quotients of real numbers; integers become `f32` first, as a user casts.
fn quotient<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&[])?;
    by_type!(float(case.dtype()?), T in [f16 bf16 f32 f64 c64] => {
        let [x, y] = both::<T, D>(case)?;
        one(x.view()?.div(y.view()?))
    })
}

elementwise! {
    fn lerp(a, b, w) where Number { a + (b - a) * w }
    fn addcmul(x, a, b, v) where Number { x + v * a * b }
    fn addcdiv(x, a, b, v) where Number { x + v * a / b }
}

fn lerped<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 c64] => {
        let ([a, b], w) = (both::<T, D>(case)?, case.operand::<T>(case.arg(2))?);
        let [a, b, w] = [a.view()?, b.view()?, w.view()?];
        let [part, from, to] = [
            case.magnitude(case.arg(2))?, case.magnitude(case.arg(0))?, case.magnitude(case.arg(1))?
        ];
        let magnitude = from.add(&to)?.mul(&part.add(1.0 + slack::<T>(case.arg(2)))?)?;
        Ok(vec![Out::of(apply(lerp, (a, b, w))?.view()).magnitude(&magnitude)])
    })
}
macro_rules! three {
    ($name:ident, $op:ident, [$($t:ident)*]) => {
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            by_type!(case.dtype()?, T in [$($t)*] => {
                let [x, a, b] = [
                    case.operand::<T>(case.arg(0))?, case.operand::<T>(case.arg(1))?,
                    case.operand::<T>(case.arg(2))?
                ];
                let v = number::<T>(
                    if case.kw("value").is_null() { &serde_json::Value::Bool(true) } else { case.kw("value") }
                )?;
                let [x, a, b] = [x.view()?, a.view()?, b.view()?];
                let [m, n, o] = [
                    case.magnitude(case.arg(0))?, case.magnitude(case.arg(1))?, case.magnitude(case.arg(2))?
                ];
                let magnitude = apply(
                    $op,
                    (&m, &n, &o, case.magnitude(case.kw("value"))?[[0; N]] + slack::<T>(case.kw("value")))
                )?;
                Ok(vec![Out::of(apply($op, (x, a, b, v))?.view()).magnitude(&magnitude)])
            })
        }
    };
}
three!(products, addcmul, [f16 bf16 f32 f64 i64 i32 u8 c64]);
three!(quotients, addcdiv, [f16 bf16 f32 f64 c64]);

/// Held between two bounds, of which either may be missing.
fn clamped<D: CaseDevice>(
    case: &Case<D>,
    low: Option<&serde_json::Value>,
    high: Option<&serde_json::Value>,
) -> Run {
    if case.spec(0).is_err() {
        return unrun("does not compile: a number on the left");
    }
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
        let x = case.operand::<T>(case.arg(0))?;
        let mut y = x.view()?.copy()?;
        if let Some(low) = low.filter(|low| !low.is_null()) {
            y = y.maximum(case.operand::<T>(low)?.view()?)?;
        }
        if let Some(high) = high.filter(|high| !high.is_null()) {
            y = y.minimum(case.operand::<T>(high)?.view()?)?;
        }
        moved(Ok(y))
    })
}

fn chosen<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let mask = case.tensor::<bool>(case.arg(1))?;
        let [yes, no] = [case.operand::<T>(case.arg(0))?, case.operand::<T>(case.arg(2))?];
        moved(mask.view()?.select(yes.view()?, no.view()?))
    })
}
fn filled<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let (x, mask) = (case.tensor::<T>(case.arg(0))?, case.tensor::<bool>(case.arg(1))?);
        moved(mask.view()?.select(case.operand::<T>(case.arg(2))?.view()?, x.view()?))
    })
}

/// A composition of operators on floats; integers become `f32` first.
macro_rules! composed {
    ($($name:ident [$($t:ident)*] |$x:ident, $case:ident, $T:ident| $body:expr;)*) => { $(
        pub fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!(float($case.spec(0)?.dtype), $T in [$($t)*] => {
                let $x = $case.operand::<$T>($case.arg(0))?;
                let $x = $x.view()?;
                one($body)
            })
        }
    )* };
}
composed! {
    fraction [f16 bf16 f32 f64] |x, case, T| x.sub(x.trunc()?.view());
    leaky [f16 bf16 f32 f64] |x, case, T| x.leaky_relu(
        number::<T>(case.get(1, "negative_slope")).unwrap_or(T::from_f64(0.01))
    );
    positive_infinity [f16 bf16 f32 f64] |x, case, T| x.equal(T::from_f64(f64::INFINITY));
    negative_infinity [f16 bf16 f32 f64] |x, case, T| x.equal(T::from_f64(f64::NEG_INFINITY));
    finite [f16 bf16 f32 f64] |x, case, T| x.is_finite();
    infinite [f16 bf16 f32 f64] |x, case, T| x.is_infinite();
    number_or_not [f16 bf16 f32 f64] |x, case, T| x.is_nan();
}

/// The logit of a value clamped away from 0 and 1.
fn held_logit<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        let eps = number::<T>(case.get(1, "eps"))?;
        if eps > T::from_f64(0.5) {
            return unrun("bounds that cross");
        }
        let out = Out::of(
            case.operand::<T>(case.arg(0))?.view()?.clamp(eps, T::from_f64(1.0) - eps)?.logit()?.view()
        );
        let ones = vec![1.0; out.values.len()];
        Ok(vec![Out { magnitude: Some(ones), ..out }])
    })
}

/// Parts of complex numbers, and of real ones.
macro_rules! parts {
    ($($name:ident [$($t:ident)*] |$x:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            by_type!(case.spec(0)?.dtype, T in [$($t)*] => {
                let $x = case.operand::<T>(case.arg(0))?;
                let $x = $x.view()?;
                one($body)
            })
        }
    )* };
}
parts! {
    re [f16 bf16 f32 f64 i64 i32 u8 bool c64] |x| x.re();
    im [c64] |x| x.im();
    conjugate [f16 bf16 f32 f64 i64 i32 u8 bool c64] |x| x.conj();
    modulus [c64] |x| x.modulus();
    is_real [f16 bf16 f32 f64 i64 i32 u8 bool c64] |x| x.is_real();
    complex_reciprocal [c64] |x| Ok(Complex::new(1.0, 0.0) / x);
    complex_finite [c64] |x| x.re()?.is_finite()?.bit_and(&x.im()?.is_finite()?);
}

/// An operator of integers.
macro_rules! whole {
    ($name:ident, $op:ident) => {
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            by_type!(case.dtype()?, T in [i64 i32 u8] => {
                let [x, y] = both::<T, D>(case)?;
                one(x.view()?.zip($op, y.view()?))
            })
        }
    };
}
whole!(whole_power, Pow);
whole!(divisor, Gcd);
whole!(multiple, Lcm);
whole!(shift_left, Shl);
whole!(shift_right, Shr);

fn power<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.dtype()?.is_discrete() {
        return whole_power(case);
    }
    function2(case, Powf)
}
fn double_power<D: CaseDevice>(case: &Case<D>) -> Run {
    if matches!(case.dtype()?, DType::C32 | DType::C64) {
        return unrun("a power of complex numbers");
    }
    let [x, y] = both::<f64, D>(case)?;
    one(x.view()?.powf(y.view()?))
}
fn truncated<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.dtype()?.is_discrete() {
        return ordered2(case, Div);
    }
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64] => {
        let [x, y] = both::<T, D>(case)?;
        one((x.view()?.lazy() / y.view()?).trunc().eval())
    })
}
fn same(case: &Case) -> Run {
    type D = Cpu;
    let [x, y] = [case.spec(0)?, case.spec(1)?];
    if x.rank() != y.rank() || x.dtype != y.dtype {
        return unrun("does not compile: other ranks or elements");
    }
    by_type!(x.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let [x, y] = both::<T, D>(case)?;
        one(Ok(Tensor::from(x.view()? == y.view()?)))
    })
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("abs", |c| if c.spec(0)?.dtype == DType::C32 { modulus(c) } else { ordered(c, Abs) }),
        ("sign", |c| ordered(c, Signum)),
        ("sgn", |c| ordered(c, Signum)),
        ("neg", |c| numbers(c, ops::Neg)),
        ("square", |c| numbers(c, Square)),
        ("nn.functional.relu", |c| ordered(c, Relu)),
        ("nn.functional.relu6", |c| clamped(c, Some(&0.into()), Some(&6.into()))),
        ("nn.functional.hardtanh", hard_tanh),
        ("nn.functional.leaky_relu", leaky),
        ("frac", fraction),
        ("real", re),
        ("conj", conjugate),
        ("conj_physical", conjugate),
        ("angle", angle),
        ("clamp", |c| clamped(c, Some(c.get(1, "min")), Some(c.get(2, "max")))),
        ("clamp_min", |c| clamped(c, Some(c.arg(1)), None)),
        ("clamp_max", |c| clamped(c, None, Some(c.arg(1)))),
        (
            "add",
            |c| if c.dtype()? == DType::Bool { bits2(c, ops::BitOr) } else { scaled(c, ops::Add, false) },
        ),
        ("sub", |c| scaled(c, ops::Sub, false)),
        ("rsub", |c| scaled(c, ops::Sub, true)),
        ("mul", |c| if c.dtype()? == DType::Bool { bits2(c, ops::BitAnd) } else { numbers2(c, ops::Mul) }),
        ("div.no_rounding_mode", quotient),
        ("div.trunc_rounding", truncated),
        ("true_divide", quotient),
        ("div.floor_rounding", |c| ordered2(c, FloorDivide)),
        ("remainder", |c| ordered2(c, Remainder)),
        ("fmod", |c| ordered2(c, Rem)),
        ("fmax", |c| order2(c, Fmax)),
        ("fmin", |c| order2(c, Fmin)),
        ("ldexp", scaled_by_two),
        ("nan_to_num", numbers_for_nan),
        ("round.decimals_0", decimals),
        ("round.decimals_3", decimals),
        ("pow", power),
        ("float_power", double_power),
        ("maximum", |c| largest(c, true)),
        ("max.binary", |c| largest(c, true)),
        ("minimum", |c| largest(c, false)),
        ("min.binary", |c| largest(c, false)),
        ("lerp", lerped),
        ("addcmul", products),
        ("addcdiv", quotients),
        ("where", chosen),
        ("masked_fill", filled),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[
    ("bitwise_not", |c| bits(c, ops::Not)),
    ("logical_not", logical_not),
    ("isfinite", |c| if c.spec(0)?.dtype == DType::C32 { complex_finite(c) } else { finite(c) }),
    ("isinf", infinite),
    ("isnan", number_or_not),
    ("isposinf", positive_infinity),
    ("isneginf", negative_infinity),
    ("isreal", is_real),
    ("imag", im),
    ("floor_divide", |c| ordered2(c, FloorDivide)),
    ("bitwise_left_shift", shift_left),
    ("bitwise_right_shift", shift_right),
    ("heaviside", |c| ordered2(c, Heaviside)),
    ("gcd", divisor),
    ("lcm", multiple),
    ("isclose", close),
    ("allclose", close),
    ("eq", equal),
    ("ne", not_equal),
    ("lt", less),
    ("le", less_equal),
    ("gt", greater),
    ("ge", greater_equal),
    ("equal", same),
    ("logical_and", logical_and),
    ("logical_or", logical_or),
    ("logical_xor", logical_xor),
    ("bitwise_and", |c| bits2(c, ops::BitAnd)),
    ("bitwise_or", |c| bits2(c, ops::BitOr)),
    ("bitwise_xor", |c| bits2(c, ops::BitXor)),
];

/// Angles; of whole numbers in single precision, as a user casts.
fn angle<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(
        float(case.spec(0)?.dtype),
        T in [f16 bf16 f32 f64 c64] => one(case.operand::<T>(case.arg(0))?.view()?.angle())
    )
}
/// Which elements are close, or whether all are.
fn close<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["rtol", "atol", "equal_nan"])?;
    let (relative, absolute) = (real_or(case.get(2, "rtol"), 1e-5)?, real_or(case.get(3, "atol"), 1e-8)?);
    let nan = case.get(4, "equal_nan").as_bool() == Some(true);
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        if case.op == "allclose" {
            return one(Ok(Tensor::from(x.view()?.allclose(y.view()?, relative, absolute, nan)?)));
        }
        one(x.view()?.isclose(y.view()?, relative, absolute, nan))
    })
}
fn scaled_by_two<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(float(case.dtype()?), T in [f16 bf16 f32 f64] => {
        let [x, y] = both::<T, D>(case)?;
        if case.magnitude(case.arg(1))?.iter().any(|n| n.fract() != 0.0) {
            // A fractional power is a product with a rounded power.
            let out = Out::of((x.view()?.lazy() * y.view()?.lazy().exp2()).eval()?.view());
            let sizes = out.values.iter().map(|x| x.magnitude()).collect();
            return Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(2.0)]);
        }
        one(x.view()?.ldexp(&y.view()?.cast::<i64>()?))
    })
}
fn numbers_for_nan<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["nan", "posinf", "neginf"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let (largest, least) = (<T as num_traits::Float>::max_value(), <T as num_traits::Float>::min_value());
        let part = |at, name: &str, default: T| if case.get(at, name).is_null() {
            Ok(default)
        } else {
            number::<T>(case.get(at, name))
        };
        moved(x.view()?.nan_to_num(
            part(1, "nan", T::from_f64(0.0))?, part(2, "posinf", largest)?, part(3, "neginf", least)?
        ))
    })
}
/// Rounded at a decimal place, as the user writes it.
fn decimals<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let ten = T::from_f64(10f64.powf(real_or(case.kw("decimals"), 0.0)?));
        let x = case.tensor::<T>(case.arg(0))?;
        one((((x.view()?.lazy() * ten).round()) / ten).eval())
    })
}

fn largest<D: CaseDevice>(case: &Case<D>, largest: bool) -> Run {
    if largest { order2(case, Maximum) } else { order2(case, Minimum) }
}
fn hard_tanh<D: CaseDevice>(case: &Case<D>) -> Run {
    let (low, high) = (real_or(case.get(1, "min_val"), -1.0)?, real_or(case.get(2, "max_val"), 1.0)?);
    clamped(case, Some(&low.into()), Some(&high.into()))
}
