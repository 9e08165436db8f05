//! Bodies differentiate: a raw lane is a value and its derivative, over any other interpretation.
//!
//! Forward mode, first order; `Dual<Dual<L>>` is the second. Over [`Trace`](super::Trace) the derivative is a graph again.
//! Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, Integer, Lane, Lanes, Logic, Num, Order, Ordered, Part, Prim, Real, Shift, Unary,
};
use std::marker::PhantomData;

/// The interpretation that carries a derivative along; see [`derivative`](crate::ops::derivative).
///
/// # Examples
/// ```
/// use rankform::scalar::{Dual, Lane, Run};
/// let x = Lane::<Dual<Run>, f64>::variable(Lane::literal(3.0));
/// let y = x * x + 1.0;
/// assert_eq!((y.primal().value(), y.tangent().value()), (10.0, 6.0));
/// ```
pub struct Dual<L>(PhantomData<L>);

impl<L: Lanes, P: Prim> Lane<Dual<L>, P> {
    /// A value and its derivative.
    #[inline(always)]
    pub fn new(primal: Lane<L, P>, tangent: Lane<L, P>) -> Self {
        Lane((primal.0, tangent.0))
    }
    /// The value.
    #[inline(always)]
    pub fn primal(self) -> Lane<L, P> {
        Lane(self.0.0)
    }
    /// The derivative.
    #[inline(always)]
    pub fn tangent(self) -> Lane<L, P> {
        Lane(self.0.1)
    }
    /// Something that does not depend on the variable.
    #[inline(always)]
    pub fn constant(value: Lane<L, P>) -> Self {
        Self::new(value, Lane::literal(P::default()))
    }
}

impl<L: Lanes, P: Num> Lane<Dual<L>, P> {
    /// The variable itself: derivative 1.
    #[inline(always)]
    pub fn variable(value: Lane<L, P>) -> Self {
        Self::new(value, Lane::one())
    }
}

type Pair<L, P> = (<L as Lanes>::Raw<P>, <L as Lanes>::Raw<P>);

#[inline(always)]
fn zero<L: Lanes, P: Prim>() -> L::Raw<P> {
    L::literal(P::default())
}

/// A pair whose derivative is 0: what steps that jump or stand still give.
#[inline(always)]
fn flat<L: Lanes, P: Prim>(value: L::Raw<P>) -> Pair<L, P> {
    (value, zero::<L, P>())
}

/// `slope · tangent`; 0 along what does not vary, also where the slope is infinite or has no value: x² has a slope in x
/// at −3, although x^y has none in y there.
#[inline(always)]
fn along<L: Lanes, P: Real>(slope: Lane<L, P>, tangent: Lane<L, P>) -> Lane<L, P> {
    let counts = tangent.ne(Lane::zero()) | slope.abs().lt(Lane::highest());
    counts.select(slope, Lane::zero()) * tangent
}

impl<L: Lanes> Lanes for Dual<L> {
    type Raw<P: Prim> = Pair<L, P>;
    #[inline(always)]
    fn literal<P: Prim>(value: P) -> Pair<L, P> {
        flat::<L, P>(L::literal(value))
    }
    #[inline(always)]
    fn arith<P: Num>(op: Arith, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        let value = L::arith(op, a.0, b.0);
        if P::DTYPE.is_discrete() {
            return flat::<L, P>(value);
        }
        let (x, dx, y, dy) = (Lane::<L, P>(a.0), Lane::<L, P>(a.1), Lane::<L, P>(b.0), Lane::<L, P>(b.1));
        let tangent = match op {
            Arith::Add => dx + dy,
            Arith::Sub => dx - dy,
            Arith::Mul => dx * y + x * dy,
            Arith::Div => (dx - Lane(value) * dy) / y,
        };
        (value, tangent.0)
    }
    #[inline(always)]
    fn negate<P: Num>(a: Pair<L, P>) -> Pair<L, P> {
        (L::negate(a.0), L::negate(a.1))
    }
    #[inline(always)]
    fn order<P: Ordered>(op: Order, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        let value = L::order(op, a.0, b.0);
        if P::DTYPE.is_discrete() {
            return flat::<L, P>(value);
        }
        let (x, dx, y, dy) = (Lane::<L, P>(a.0), Lane::<L, P>(a.1), Lane::<L, P>(b.0), Lane::<L, P>(b.1));
        // At a tie each operand takes half, as PyTorch does: the derivatives of max and min add up to the operands' own.
        let half = |a: Lane<L, P>, b: Lane<L, P>| (a + b) / 2;
        let tangent = match op {
            Order::Max => x.eq(y).select(half(dx, dy), x.gt(y).select(dx, dy)),
            Order::Min => x.eq(y).select(half(dx, dy), x.lt(y).select(dx, dy)),
            // x = q·y + r with q = trunc(x / y) constant; (x − r) / y is q up to rounding.
            Order::Rem => dx - (x - Lane(value)) / y * dy,
        };
        (value, tangent.0)
    }
    #[inline(always)]
    fn compare<P: Ordered>(op: Compare, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, bool> {
        flat::<L, bool>(L::compare(op, a.0, b.0))
    }
    #[inline(always)]
    fn equal<P: Prim>(a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, bool> {
        flat::<L, bool>(L::equal(a.0, b.0))
    }
    #[inline(always)]
    fn logic<P: Bits>(op: Logic, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        flat::<L, P>(L::logic(op, a.0, b.0))
    }
    #[inline(always)]
    fn shift<P: Integer>(op: Shift, a: Pair<L, P>, by: u32) -> Pair<L, P> {
        flat::<L, P>(L::shift(op, a.0, by))
    }
    #[inline(always)]
    fn unary<P: Real>(op: Unary, a: Pair<L, P>) -> Pair<L, P> {
        let value = L::unary(op, a.0);
        let (x, dx) = (Lane::<L, P>(a.0), Lane::<L, P>(a.1));
        let tangent = match op {
            // |x| has slope 0 at 0, the middle of its two one-sided slopes.
            Unary::Abs => x.lt(Lane::zero()).select(-dx, x.gt(Lane::zero()).select(dx, x * Lane::zero())),
            Unary::Sqrt => {
                // The root of 0 is infinitely steep, but not along what does not vary.
                let still = x.eq(Lane::zero()) & dx.eq(Lane::zero());
                dx / still.select(Lane::highest(), Lane(value) * 2.0)
            }
            Unary::Round | Unary::Floor | Unary::Ceil | Unary::Trunc => Lane::zero(),
        };
        (value, tangent.0)
    }
    #[inline(always)]
    fn mul_add<P: Real>(a: Pair<L, P>, b: Pair<L, P>, c: Pair<L, P>) -> Pair<L, P> {
        let inner = L::mul_add(a.0, b.1, c.1);
        (L::mul_add(a.0, b.0, c.0), L::mul_add(a.1, b.0, inner))
    }
    #[inline(always)]
    fn select<P: Prim>(mask: Pair<L, bool>, a: Pair<L, P>, b: Pair<L, P>) -> Pair<L, P> {
        (L::select(mask.0, a.0, b.0), L::select(mask.0, a.1, b.1))
    }
    #[inline(always)]
    fn cast<P: Prim, U: Prim>(a: Pair<L, P>) -> Pair<L, U> {
        let value = L::cast::<P, U>(a.0);
        if P::DTYPE.is_discrete() || U::DTYPE.is_discrete() { flat::<L, U>(value) } else { (value, L::cast::<P, U>(a.1)) }
    }
    #[inline(always)]
    fn to_bits<P: Real>(a: Pair<L, P>) -> Pair<L, P::Bits> {
        flat::<L, P::Bits>(L::to_bits::<P>(a.0))
    }
    #[inline(always)]
    fn from_bits<P: Real>(a: Pair<L, P::Bits>) -> Pair<L, P> {
        flat::<L, P>(L::from_bits::<P>(a.0))
    }
    #[inline(always)]
    fn part<P: ComplexPrim>(part: Part, a: Pair<L, P>) -> Pair<L, P::Part> {
        (L::part::<P>(part, a.0), L::part::<P>(part, a.1))
    }
    #[inline(always)]
    fn complex<P: ComplexPrim>(re: Pair<L, P::Part>, im: Pair<L, P::Part>) -> Pair<L, P> {
        (L::complex::<P>(re.0, im.0), L::complex::<P>(re.1, im.1))
    }
    #[inline(always)]
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Pair<L, P>; N]) -> Pair<L, P> {
        let value = Lane::<L, P>(L::function::<F, P, N>(x.map(|x| x.0)));
        let slope = F::slope::<L, P>(x.map(|x| Lane(x.0)), value);
        let mut tangent = along(slope[0], Lane(x[0].1));
        for i in 1..N {
            tangent = tangent + along(slope[i], Lane(x[i].1));
        }
        (value.0, tangent.0)
    }
}
