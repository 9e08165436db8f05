//! Another meaning for the same body: an interpretation gives each step a value, here the latency of its
//! result.
//!
//! `cargo run --release --example 09_new_meaning`
//!
//! A body is generic over `Lanes`. The CPU computes it, `Meta` writes it down, `derivative` differentiates
//! it; an interpretation of a user is one `impl`. This one finds the longest chain of dependent steps, which
//! bounds the speed of a loop with its operands in registers.

use rankform::kernel::Op;
use rankform::prelude::*;
use rankform::scalar::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Logic, MinMaxRem, Num, Ordered, Part, Prim,
    Real, Shift, Unary,
};

elementwise! {
    /// 1 + x + … + x⁷, from the inside out: each step needs the one before.
    fn nested(x) {
        let mut sum = x + 1.0;
        for _ in 0..6 {
            sum = sum * x + 1.0;
        }
        sum
    }
    /// The same in pairs, then pairs of pairs: halves that do not wait for each other.
    fn paired(x) {
        let x2 = x * x;
        let pair = x + 1.0;
        let four = pair * x2 + pair;
        four * (x2 * x2) + four
    }
}

/// A value is the number of the step after which it is known.
struct Depth;

fn after<const N: usize>(operands: [u32; N]) -> u32 {
    operands.into_iter().max().unwrap_or(0) + 1
}

#[rustfmt::skip]
impl Lanes for Depth {
    type Raw<P: Prim> = u32;
    fn literal<P: Prim>(_: P) -> u32 { 0 }
    fn arith<P: Num>(_: Arith, a: u32, b: u32) -> u32 { after([a, b]) }
    fn negate<P: Num>(a: u32) -> u32 { after([a]) }
    fn order<P: Ordered>(_: MinMaxRem, a: u32, b: u32) -> u32 { after([a, b]) }
    fn compare<P: Ordered>(_: Compare, a: u32, b: u32) -> u32 { after([a, b]) }
    fn equal<P: Prim>(a: u32, b: u32) -> u32 { after([a, b]) }
    fn logic<P: Bits>(_: Logic, a: u32, b: u32) -> u32 { after([a, b]) }
    fn shift<P: IntegerPrim>(_: Shift, a: u32, _: u32) -> u32 { after([a]) }
    fn unary<P: Real>(_: Unary, a: u32) -> u32 { after([a]) }
    fn mul_add<P: Real>(a: u32, b: u32, c: u32) -> u32 { after([a, b, c]) }
    fn select<P: Prim>(mask: u32, a: u32, b: u32) -> u32 { after([mask, a, b]) }
    fn cast<P: Prim, U: Prim>(a: u32) -> u32 { after([a]) }
    fn to_bits<P: Real>(a: u32) -> u32 { a } // nothing happens
    fn from_bits<P: Real>(a: u32) -> u32 { a }
    fn part<P: ComplexPrim>(_: Part, a: u32) -> u32 { a }
    fn complex<P: ComplexPrim>(re: u32, im: u32) -> u32 { re.max(im) }
    fn function<F: Function<N>, P: Real, const N: usize>(x: [u32; N]) -> u32 {
        F::value::<Depth, P>(x.map(Lane::from_raw)).raw() // the steps of its own body
    }
}

fn depth<F: Op<(f64,)>>(_: F) -> u32 {
    F::call::<Depth>((Lane::from_raw(0),)).raw()
}

pub fn main() -> Result<()> {
    let x = Tensor::from([0.5, 2.0]);
    println!("nested: {} after {} steps", x.map(nested)?, depth(nested));
    println!("paired: {} after {} steps", x.map(paired)?, depth(paired));
    println!(
        "slope of paired: {} after {} steps",
        x.map(derivative::<_, 0>(paired))?,
        depth(derivative::<_, 0>(paired))
    );
    println!("exp: {} steps", depth(rankform::ops::Exp));

    assert_eq!(x.map(nested)?, x.map(paired)?);
    assert_eq!((depth(nested), depth(paired)), (13, 5));
    Ok(())
}
