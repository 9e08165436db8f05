//! The interpretation that finds the loads on which a value depends, and the value itself where it is known
//! before any element is loaded.
//!
//! Over [`Dual`](super::Dual) it tells what a derivative reads: that of `x + y` reads nothing and is 1, that
//! of `x · y` by `x` reads `y` alone.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lanes, Logic, MinMaxRem, Num, Ordered, Part,
    Prim, Real, Shift, Unary,
};

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
/// ```
pub struct Needs;

/// The dependencies of one value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Need {
    /// Bit `k` is set if the value depends on load `k`.
    pub loads: u64,
    /// The value, if it is the same number at every position and is written in the body.
    pub literal: Option<f64>,
}

impl Need {
    /// The number 1.
    pub const ONE: Need = Need { loads: 0, literal: Some(1.0) };
    /// A number that is known at run time only, and depends on no load.
    pub const RUN_TIME: Need = Need { loads: 0, literal: None };

    /// The element of load `k`, below 64.
    pub const fn load(k: usize) -> Need {
        Need { loads: 1 << k, literal: None }
    }
    /// A value that depends on everything on which the two depend.
    pub const fn union(self, other: Need) -> Need {
        Need { loads: self.loads | other.loads, literal: None }
    }
    fn literal(value: f64) -> Need {
        Need { loads: 0, literal: Some(value) }
    }
    fn is(self, value: f64) -> bool {
        self.literal == Some(value)
    }
    fn unknown(self) -> Need {
        Need { literal: None, ..self }
    }
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
            _ => a.union(b),
        }
    }
    fn negate<P: Num>(a: Need) -> Need {
        Need { literal: a.literal.map(|x| -x), ..a }
    }
    fn order<P: Ordered>(_: MinMaxRem, a: Need, b: Need) -> Need {
        a.union(b)
    }
    fn compare<P: Ordered>(_: Compare, a: Need, b: Need) -> Need {
        a.union(b)
    }
    fn equal<P: Prim>(a: Need, b: Need) -> Need {
        match (a.literal, b.literal) {
            (Some(x), Some(y)) if is_small(x) && is_small(y) => Need::literal((x == y).into()),
            _ => a.union(b),
        }
    }
    fn logic<P: Bits>(_: Logic, a: Need, b: Need) -> Need {
        a.union(b)
    }
    fn shift<P: IntegerPrim>(_: Shift, a: Need, _: u32) -> Need {
        a.unknown()
    }
    fn unary<P: Real>(_: Unary, a: Need) -> Need {
        a.unknown()
    }
    fn mul_add<P: Real>(a: Need, b: Need, c: Need) -> Need {
        Self::arith::<P>(Arith::Add, Self::arith::<P>(Arith::Mul, a, b), c)
    }
    fn select<P: Prim>(mask: Need, a: Need, b: Need) -> Need {
        match mask.literal {
            Some(0.0) => b,
            Some(_) => a,
            None if a == b && a.literal.is_some() => a,
            None => mask.union(a).union(b),
        }
    }
    fn cast<P: Prim, U: Prim>(a: Need) -> Need {
        // A number that another type rounds is no longer the one that was written.
        match a.literal {
            Some(value) if is_small(value) && !U::DTYPE.is_discrete() => a,
            _ => a.unknown(),
        }
    }
    fn to_bits<P: Real>(a: Need) -> Need {
        a.unknown()
    }
    fn from_bits<P: Real>(a: Need) -> Need {
        a.unknown()
    }
    fn part<P: ComplexPrim>(_: Part, a: Need) -> Need {
        a.unknown()
    }
    fn complex<P: ComplexPrim>(re: Need, im: Need) -> Need {
        re.union(im)
    }
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Need; N]) -> Need {
        x.iter().fold(Need::RUN_TIME, |all, x| all.union(*x))
    }
}
