//! The interpretation that finds the loads on which a value depends, and the value itself where it is known
//! before any element is loaded.
//!
//! Over [`Dual`](super::Dual) it tells what a derivative reads: that of `x + y` reads nothing and is 1, that
//! of `x · y` by `x` reads `y` alone. It also tells whether two derivatives are the same expression, as those
//! of `relu(x + y)` are.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lanes, Logic, MinMaxRem, Num, Ordered, Part,
    Prim, Real, Shift, Unary,
};
use std::any::TypeId;
use std::hash::{Hash, Hasher};

/// The interpretation that finds dependencies: a raw lane is a [`Need`].
///
/// # Examples
/// ```
/// use rankform::scalar::{Dual, Lane, Need, Needs};
/// let load = |k, tangent| Lane::<Dual<Needs>, f64>::from_raw((Need::load(k), tangent));
/// let (x, y) = (load(0, Some(Need::ONE)), load(1, None));
/// // ∂(x · y + y)/∂x = y: it reads the second load only.
/// assert_eq!((x * y + y).raw().1, Some(Need::load(1)));
/// // ∂(x + y)/∂x = 1.
/// assert_eq!((x + y).raw().1, Some(Need::ONE));
/// // ∂(x + y)²/∂x and ∂(x + y)²/∂y are one expression.
/// let square = |x: Lane<_, _>| x * x;
/// let (by_x, by_y) = (square(x + y), square(load(0, None) + load(1, Some(Need::ONE))));
/// assert!(by_x.raw().1.unwrap().is_same(by_y.raw().1.unwrap()));
/// ```
pub struct Needs;

/// The dependencies of one value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Need {
    /// Bit `k` is set if the value depends on load `k`.
    pub loads: u64,
    /// The value, if it is the same number at every position and is written in the body.
    pub literal: Option<f64>,
    /// A hash of the steps that compute the value; 0 if they are not known.
    expression: u64,
}

/// A hash of a step, its kind and its operands, by the finalizer of SplitMix64. The hash of a step with an
/// operand that is not known is 0.
fn hashed(step: impl Hash, operands: &[Need]) -> u64 {
    let mut hash = Mixed(0);
    step.hash(&mut hash);
    operands.iter().for_each(|operand| operand.expression.hash(&mut hash));
    if operands.iter().all(|operand| operand.expression != 0) { hash.finish() } else { 0 }
}

struct Mixed(u64);
impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let z = (self.0 ^ u64::from_le_bytes(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            self.0 = z ^ z >> 31;
        }
    }
}

impl Need {
    /// The number 1.
    pub const ONE: Need = Need { loads: 0, literal: Some(1.0), expression: 1 };
    /// A number that is known at run time only, and depends on no load.
    pub const RUN_TIME: Need = Need { loads: 0, literal: None, expression: 0 };

    /// The element of load `k`, below 64.
    pub fn load(k: usize) -> Need {
        Need { loads: 1 << k, literal: None, expression: hashed(("load", k), &[]) }
    }
    /// A number that is known at run time only: the `k`-th one of a program.
    pub fn parameter(k: usize) -> Need {
        Need { expression: hashed(("parameter", k), &[]), ..Need::RUN_TIME }
    }
    /// A value of which nothing is known.
    pub const fn any() -> Need {
        Need { loads: u64::MAX, ..Need::RUN_TIME }
    }
    /// A value that depends on everything on which the two depend.
    pub fn union(self, other: Need) -> Need {
        step_of("union", &[self, other])
    }
    /// The value as that of output `k`.
    pub fn of_output(self, k: usize) -> Need {
        Need { expression: hashed(("output", k), &[self]), ..self }
    }
    /// Whether two values are certainly the same, because the same steps compute them.
    pub fn is_same(self, other: Need) -> bool {
        self.expression != 0 && self.expression == other.expression
    }
    fn literal(value: f64) -> Need {
        let expression = if value == 1.0 { 1 } else { hashed(("literal", value.to_bits()), &[]) };
        Need { loads: 0, literal: Some(value), expression }
    }
    fn is(self, value: f64) -> bool {
        self.literal == Some(value)
    }
}

/// The result of a step.
fn step_of(step: impl Hash, operands: &[Need]) -> Need {
    let loads = operands.iter().fold(0, |loads, operand| loads | operand.loads);
    Need { loads, literal: None, expression: hashed(step, operands) }
}

/// Whether a number is a small integer, which every type of floats holds exactly.
fn is_small(value: f64) -> bool {
    value.abs() <= 256.0 && value == value.trunc()
}

/// Whether a step of two numbers written in the body has the result that it has in f64.
fn is_exact<P: Prim>(op: Arith, a: f64, b: f64) -> bool {
    is_small(a) && is_small(b) && !P::DTYPE.is_discrete() && op != Arith::Div
}

impl Lanes for Needs {
    type Raw<P: Prim> = Need;
    fn literal<P: Prim>(value: P) -> Need {
        Need::literal(value.cast::<f64>())
    }
    fn arith<P: Num>(op: Arith, a: Need, b: Need) -> Need {
        let steps: fn(f64, f64) -> f64 = match op {
            Arith::Add if a.is(0.0) => return b,
            Arith::Add | Arith::Sub if b.is(0.0) => return a,
            Arith::Mul if a.is(1.0) => return b,
            Arith::Mul | Arith::Div if b.is(1.0) => return a,
            Arith::Add => |x, y| x + y,
            Arith::Sub => |x, y| x - y,
            Arith::Mul => |x, y| x * y,
            Arith::Div => |x, y| x / y,
        };
        match (a.literal, b.literal) {
            (Some(x), Some(y)) if is_exact::<P>(op, x, y) => Need::literal(steps(x, y)),
            _ => step_of(("arith", op as u8, P::DTYPE), &[a, b]),
        }
    }
    fn negate<P: Num>(a: Need) -> Need {
        match a.literal {
            Some(x) => Need::literal(-x),
            None => step_of(("negate", P::DTYPE), &[a]),
        }
    }
    fn order<P: Ordered>(op: MinMaxRem, a: Need, b: Need) -> Need {
        step_of(("order", op as u8, P::DTYPE), &[a, b])
    }
    fn compare<P: Ordered>(op: Compare, a: Need, b: Need) -> Need {
        step_of(("compare", op as u8, P::DTYPE), &[a, b])
    }
    fn equal<P: Prim>(a: Need, b: Need) -> Need {
        match (a.literal, b.literal) {
            (Some(x), Some(y)) if is_small(x) && is_small(y) => Need::literal((x == y).into()),
            _ => step_of(("equal", P::DTYPE), &[a, b]),
        }
    }
    fn logic<P: Bits>(op: Logic, a: Need, b: Need) -> Need {
        step_of(("logic", op as u8, P::DTYPE), &[a, b])
    }
    fn shift<P: IntegerPrim>(op: Shift, a: Need, by: u32) -> Need {
        step_of(("shift", op as u8, by, P::DTYPE), &[a])
    }
    fn unary<P: Real>(op: Unary, a: Need) -> Need {
        step_of(("unary", op as u8, P::DTYPE), &[a])
    }
    fn mul_add<P: Real>(a: Need, b: Need, c: Need) -> Need {
        Self::arith::<P>(Arith::Add, Self::arith::<P>(Arith::Mul, a, b), c)
    }
    fn select<P: Prim>(mask: Need, a: Need, b: Need) -> Need {
        match mask.literal {
            Some(0.0) => b,
            Some(_) => a,
            None if a == b && a.literal.is_some() => a,
            None => step_of(("select", P::DTYPE), &[mask, a, b]),
        }
    }
    fn cast<P: Prim, U: Prim>(a: Need) -> Need {
        // A number that another type rounds is no longer the one that was written.
        match a.literal {
            Some(value) if is_small(value) && !U::DTYPE.is_discrete() => a,
            _ => step_of(("cast", P::DTYPE, U::DTYPE), &[a]),
        }
    }
    fn to_bits<P: Real>(a: Need) -> Need {
        step_of(("to_bits", P::DTYPE), &[a])
    }
    fn from_bits<P: Real>(a: Need) -> Need {
        step_of(("from_bits", P::DTYPE), &[a])
    }
    fn part<P: ComplexPrim>(part: Part, a: Need) -> Need {
        step_of(("part", part as u8, P::DTYPE), &[a])
    }
    fn complex<P: ComplexPrim>(re: Need, im: Need) -> Need {
        step_of(("complex", P::DTYPE), &[re, im])
    }
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Need; N]) -> Need {
        step_of((TypeId::of::<F>(), P::DTYPE), &x)
    }
}
