//! The interpretation that differentiates: a raw lane is a value and its derivative, over any other
//! interpretation.
//!
//! Forward mode of first order; `Dual<Dual<L>>` is of second order. Over [`Trace`](super::Trace) the
//! derivative is a graph again.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lane, Lanes, Logic, MinMaxRem, Num, Ordered,
    Part, Prim, Real, Shift, Unary,
};
use std::marker::PhantomData;

/// The interpretation that carries a derivative along; see [`derivative`](crate::ops::derivative).
///
/// A number that does not depend on the variable has no tangent, and no step multiplies by a missing one: the
/// derivative of `x * 0.5` is 0.5 at ∞ too.
///
/// # Examples
/// ```
/// use rankform::scalar::{Dual, Lane, Eval};
/// let x = Lane::<Dual<Eval>, f64>::variable(Lane::literal(3.0));
/// let y = x * x + 1.0;
/// assert_eq!((y.primal().value(), y.tangent().value()), (10.0, 6.0));
/// ```
pub struct Dual<L>(PhantomData<L>);

impl<L: Lanes, P: Prim> Lane<Dual<L>, P> {
    /// A value and its derivative.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn new(primal: Lane<L, P>, tangent: Lane<L, P>) -> Self {
        Lane((primal.0, Some(tangent.0)))
    }
    /// The value.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn primal(self) -> Lane<L, P> {
        Lane(self.0.0)
    }
    /// The derivative.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn tangent(self) -> Lane<L, P> {
        Lane(or_zero::<L, P>(self.0.1))
    }
    /// A number that does not depend on the variable.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn constant(value: Lane<L, P>) -> Self {
        Lane((value.0, None))
    }
}

/// A value, and its tangent if it depends on the variable. Whether it has a tangent never depends on a value,
/// so the compiler removes the branch.
type Pair<L, P> = (<L as Lanes>::Raw<P>, Option<<L as Lanes>::Raw<P>>);

#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn or_zero<L: Lanes, P: Prim>(tangent: Option<L::Raw<P>>) -> L::Raw<P> {
    match tangent {
        Some(tangent) => tangent,
        None => L::literal(P::default()),
    }
}

/// The tangent of a step, if its operand has one. It is a macro because a closure would be compiled without
/// the instruction set of the loop around it.
macro_rules! tangent {
    ($tangent:expr, |$dx:ident: $P:ty| $then:expr) => {
        match $tangent {
            Some(tangent) => {
                let $dx = Lane::<L, $P>(tangent);
                Some($then.0)
            }
            None => None,
        }
    };
}

impl<L: Lanes, P: Num> Lane<Dual<L>, P> {
    /// The result `value` of a function of `self` that has this slope here.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn with_slope(self, value: Lane<L, P>, slope: Lane<L, P>) -> Self {
        Lane((value.0, tangent!(self.0.1, |dx: P| times(slope, dx))))
    }
    /// The variable itself: derivative 1.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    pub fn variable(value: Lane<L, P>) -> Self {
        Self::new(value, Lane::one())
    }
}

/// The sum of two tangents.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn plus<L: Lanes, P: Num>(a: Option<L::Raw<P>>, b: Option<L::Raw<P>>) -> Option<L::Raw<P>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(L::arith(Arith::Add, a, b)),
        (None, tangent) | (tangent, None) => tangent,
    }
}

/// `slope · tangent`, but 0 where the tangent is 0 and the slope infinite or NaN: the derivative of
/// `x · min(x, 6)` is 6 at ∞ too.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn times<L: Lanes, P: Num>(slope: Lane<L, P>, tangent: Lane<L, P>) -> Lane<L, P> {
    // A number is finite if its product with 0 is 0.
    let is_finite = (slope * Lane::zero()).eq(Lane::zero());
    (is_finite | tangent.ne(Lane::zero())).select(slope * tangent, tangent)
}

/// `tangent / y`, but 0 where the tangent is 0 and 1 / y infinite or NaN.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn divided<L: Lanes, P: Num>(tangent: Lane<L, P>, y: Lane<L, P>) -> Lane<L, P> {
    let quotient = tangent / y;
    (quotient.eq(quotient) | tangent.ne(Lane::zero())).select(quotient, tangent)
}

/// `quotient · tangent` for the tangent of a divisor, but 0 where one is 0 and the other infinite, and where
/// the tangent is 0: 1/x² keeps the derivative 0 at ∞, where the derivative of x² is infinite.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn across<L: Lanes, P: Num>(quotient: Lane<L, P>, tangent: Lane<L, P>) -> Lane<L, P> {
    let product = quotient * tangent;
    let is_limit = tangent.eq(Lane::zero()) | (quotient.eq(quotient) & tangent.eq(tangent));
    (product.ne(product) & is_limit).select(Lane::zero(), product)
}

/// As [`times`], for real numbers: x² has a derivative in x at −3, although x^y has none in y there.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn along<L: Lanes, P: Real>(slope: Lane<L, P>, tangent: Lane<L, P>) -> Lane<L, P> {
    let counts = tangent.ne(Lane::zero()) | slope.abs().lt(Lane::highest());
    counts.select(slope, Lane::zero()) * tangent
}

/// [`Ordered::order_tangent`] of real numbers.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
pub(super) fn order_tangent<L: Lanes, P: Real>(
    op: MinMaxRem,
    [x, y, value]: [Lane<L, P>; 3],
    [dx, dy]: [Lane<L, P>; 2],
) -> Lane<L, P> {
    // At a tie each operand takes half, as in PyTorch, so that the derivatives of max and min add up to those
    // of the operands.
    let half = |a: Lane<L, P>, b: Lane<L, P>| (a + b) / 2;
    match op {
        MinMaxRem::Max => x.eq(y).select(half(dx, dy), x.gt(y).select(dx, dy)),
        MinMaxRem::Min => x.eq(y).select(half(dx, dy), x.lt(y).select(dx, dy)),
        // x = q·y + r, where q = trunc(x / y) is locally constant, and (x − r) / y is q up to rounding.
        MinMaxRem::Rem => dx - times((x - value) / y, dy),
    }
}

impl<L: Lanes> Lanes for Dual<L> {
    type Raw<P: Prim> = Pair<L, P>;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn literal<P: Prim>(value: P) -> Pair<L, P> {
        (L::literal(value), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn arith<P: Num>(op: Arith, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        let value = L::arith(op, a.0, b.0);
        if const { P::DTYPE.is_discrete() } {
            return (value, None);
        }
        let (x, y) = (Lane::<L, P>(a.0), Lane::<L, P>(b.0));
        let tangent = match op {
            Arith::Add => plus::<L, P>(a.1, b.1),
            Arith::Sub => plus::<L, P>(a.1, tangent!(b.1, |dy: P| -dy)),
            Arith::Mul => match (a.1, b.1) {
                (Some(dx), Some(dy)) => Some((times(y, Lane(dx)) + times(x, Lane(dy))).0),
                (dx, dy) => plus::<L, P>(tangent!(dx, |dx: P| dx * y), tangent!(dy, |dy: P| x * dy)),
            },
            Arith::Div => match (a.1, b.1) {
                (dx, None) => tangent!(dx, |dx: P| divided(dx, y)),
                (None, Some(dy)) => Some((-divided(across(Lane(value), Lane(dy)), y)).0),
                (Some(dx), Some(dy)) => Some(divided(Lane::<L, P>(dx) - across(Lane(value), Lane(dy)), y).0),
            },
        };
        (value, tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn negate<P: Num>(a: Pair<L, P>) -> Pair<L, P> {
        (L::negate(a.0), tangent!(a.1, |dx: P| -dx))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn order<P: Ordered>(op: MinMaxRem, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        let value = L::order(op, a.0, b.0);
        if const { P::DTYPE.is_discrete() } || (a.1.is_none() && b.1.is_none()) {
            return (value, None);
        }
        let (x, y) = (Lane::<L, P>(a.0), Lane::<L, P>(b.0));
        let (dx, dy) = (Lane::<L, P>(or_zero::<L, P>(a.1)), Lane::<L, P>(or_zero::<L, P>(b.1)));
        let tangent = if op == MinMaxRem::Rem && b.1.is_none() {
            dx
        } else {
            P::order_tangent(op, [x, y, Lane(value)], [dx, dy])
        };
        (value, Some(tangent.0))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn compare<P: Ordered>(op: Compare, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, bool> {
        (L::compare(op, a.0, b.0), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn equal<P: Prim>(a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, bool> {
        (L::equal(a.0, b.0), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn logic<P: Bits>(op: Logic, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        (L::logic(op, a.0, b.0), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn shift<P: IntegerPrim>(op: Shift, a: Pair<L, P>, by: u32) -> Pair<L, P> {
        (L::shift(op, a.0, by), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn unary<P: Real>(op: Unary, a: Pair<L, P>) -> Pair<L, P> {
        let value = L::unary(op, a.0);
        let x = Lane::<L, P>(a.0);
        let tangent = match op {
            // |x| has the derivative 0 at 0, the mean of its one-sided derivatives.
            Unary::Abs => tangent!(a.1, |dx: P| x.lt(Lane::zero()).select(
                -dx,
                x.gt(Lane::zero()).select(dx, dx.ne(Lane::zero()).select(x * Lane::zero(), Lane::zero()))
            )),
            // The root has an infinite derivative at 0, but the result is 0 along a tangent that is 0 there.
            Unary::Sqrt => tangent!(a.1, |dx: P| {
                let still = !x.gt(Lane::zero()) & dx.eq(Lane::zero());
                dx / still.select(Lane::highest(), Lane(value) * 2.0)
            }),
            Unary::Round | Unary::Floor | Unary::Ceil | Unary::Trunc => None,
        };
        (value, tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn mul_add<P: Real>(a: Pair<L, P>, b: Pair<L, P>, c: Pair<L, P>) -> Pair<L, P> {
        let (x, y) = (Lane::<L, P>(a.0), Lane::<L, P>(b.0));
        let tangent = match (a.1, b.1, c.1) {
            (None, None, dz) => dz,
            (Some(dx), None, Some(dz)) => Some(L::mul_add(dx, b.0, dz)),
            (None, Some(dy), Some(dz)) => Some(L::mul_add(a.0, dy, dz)),
            (Some(dx), Some(dy), dz) => plus::<L, P>(Some((times(y, Lane(dx)) + times(x, Lane(dy))).0), dz),
            (Some(dx), None, None) => Some((Lane::<L, P>(dx) * y).0),
            (None, Some(dy), None) => Some((x * Lane(dy)).0),
        };
        (L::mul_add(a.0, b.0, c.0), tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn select<P: Prim>(mask: Pair<L, bool>, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        let tangent = match (a.1, b.1) {
            (None, None) => None,
            (dx, dy) => Some(L::select(mask.0, or_zero::<L, P>(dx), or_zero::<L, P>(dy))),
        };
        (L::select(mask.0, a.0, b.0), tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn cast<P: Prim, U: Prim>(a: Pair<L, P>) -> Pair<L, U> {
        let is_discrete = const { P::DTYPE.is_discrete() || U::DTYPE.is_discrete() };
        let tangent = if is_discrete { None } else { tangent!(a.1, |dx: P| dx.cast::<U>()) };
        (L::cast::<P, U>(a.0), tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn to_bits<P: Real>(a: Pair<L, P>) -> Pair<L, P::Bits> {
        (L::to_bits::<P>(a.0), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn from_bits<P: Real>(a: Pair<L, P::Bits>) -> Pair<L, P> {
        (L::from_bits::<P>(a.0), None)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn part<P: ComplexPrim>(part: Part, a: Pair<L, P>) -> Pair<L, P::Part> {
        (L::part::<P>(part, a.0), tangent!(a.1, |dx: P| Lane::<L, P::Part>(L::part::<P>(part, dx.0))))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn complex<P: ComplexPrim>(re: Pair<L, P::Part>, im: Pair<L, P::Part>) -> Pair<L, P> {
        let tangent = match (re.1, im.1) {
            (None, None) => None,
            (re, im) => Some(L::complex::<P>(or_zero::<L, P::Part>(re), or_zero::<L, P::Part>(im))),
        };
        (L::complex::<P>(re.0, im.0), tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Pair<L, P>; N]) -> Pair<L, P> {
        let value = Lane::<L, P>(L::function::<F, P, N>(x.map(|x| x.0)));
        if x.iter().all(|x| x.1.is_none()) {
            return (value.0, None);
        }
        let slope = F::derivative::<L, P>(x.map(|x| Lane(x.0)), value);
        let mut tangent = None;
        for i in 0..N {
            tangent = plus::<L, P>(tangent, tangent!(x[i].1, |dx: P| along(slope[i], dx)));
        }
        (value.0, tangent)
    }
}
