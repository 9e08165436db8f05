//! Functions of one and two real numbers, rounding.
//!
//! Imports: `ops::functions`.

use super::operators;

operators! {
    /// Functions of real numbers, elementwise.
    pub trait Math;
    /// eˣ.
    fn exp = Exp(x) where Float { x.exp() }
    /// Square root, correctly rounded; NaN below 0.
    fn sqrt = Sqrt(x) where Float { x.sqrt() }
}
