//! Every built-in elementwise operator as data, for tests and tools. The rows are in the operators' own
//! files.
// Imports: `scalar`, `element`, `kernel`, `ops`.

use crate::element::Element;
use crate::kernel::Op;
use crate::ops::elementwise::{activation, arithmetic, comparison, math};
use crate::ops::nn::loss;
use crate::scalar::{Dual, Eval, Lane, Lanes, Num};

/// One operator as data: its name, and its value and derivatives on f64 if it maps numbers to numbers.
#[derive(Clone, Copy, Debug)]
pub struct OperatorRow {
    /// The method's name.
    pub name: &'static str,
    /// The number of operands; 0 if the operator does not compute on f64.
    pub operands: usize,
    /// The value at a point.
    pub value: fn([f64; 2]) -> f64,
    /// The partial derivatives at a point.
    pub slope: fn([f64; 2]) -> [f64; 2],
    /// The partial derivatives at a point in f32.
    pub slope_f32: fn([f32; 2]) -> [f32; 2],
    /// The second derivatives at a point, by each operand twice.
    pub curvature: fn([f64; 2]) -> [f64; 2],
}

impl OperatorRow {
    pub(super) const fn named(name: &'static str) -> OperatorRow {
        OperatorRow {
            name,
            operands: 0,
            value: |_| f64::NAN,
            slope: |_| [f64::NAN; 2],
            slope_f32: |_| [f32::NAN; 2],
            curvature: |_| [f64::NAN; 2],
        }
    }
    pub(super) const fn unary<F: Op<(f64,), Out = f64> + Op<(f32,), Out = f32>>() -> OperatorRow {
        OperatorRow {
            name: <F as Op<(f64,)>>::NAME,
            operands: 1,
            value: |[x, _]| <F as Op<(f64,)>>::call::<Eval>((Lane(x),)).value(),
            slope: |[x, _]| [slope_of_one::<F, Eval, f64>(Lane(x)).value(), 0.0],
            slope_f32: |[x, _]| [slope_of_one::<F, Eval, f32>(Lane(x)).value(), 0.0],
            curvature: |[x, _]| {
                [slope_of_one::<F, Dual<Eval>, f64>(Lane::variable(Lane(x))).tangent().value(), 0.0]
            },
        }
    }
    pub(super) const fn binary<F: Op<(f64, f64), Out = f64> + Op<(f32, f32), Out = f32>>() -> OperatorRow {
        OperatorRow {
            name: <F as Op<(f64, f64)>>::NAME,
            operands: 2,
            value: |[x, y]| <F as Op<(f64, f64)>>::call::<Eval>((Lane(x), Lane(y))).value(),
            slope: |[x, y]| slopes_of_two::<F, Eval, f64>([[Lane(x), Lane(y)]; 2]).map(Lane::value),
            slope_f32: |[x, y]| slopes_of_two::<F, Eval, f32>([[Lane(x), Lane(y)]; 2]).map(Lane::value),
            curvature: |[x, y]| {
                let (x, y) = (Lane::<Eval, f64>(x), Lane::<Eval, f64>(y));
                let vary = [[Lane::variable(x), Lane::constant(y)], [Lane::constant(x), Lane::variable(y)]];
                slopes_of_two::<F, Dual<Eval>, f64>(vary).map(|slope| slope.tangent().value())
            },
        }
    }
}

fn slope_of_one<F: Op<(T,), Out = T>, L: Lanes, T: Element<Compute = T> + Num>(x: Lane<L, T>) -> Lane<L, T> {
    F::call::<Dual<L>>((Lane::variable(x),)).tangent()
}

/// The derivative by the first operand at the first point, and by the second operand at the second.
fn slopes_of_two<F: Op<(T, T), Out = T>, L: Lanes, T: Element<Compute = T> + Num>(
    [a, b]: [[Lane<L, T>; 2]; 2],
) -> [Lane<L, T>; 2] {
    let slope = |x, y| F::call::<Dual<L>>((x, y)).tangent();
    [slope(Lane::variable(a[0]), Lane::constant(a[1])), slope(Lane::constant(b[0]), Lane::variable(b[1]))]
}

/// Every built-in elementwise operator. The test suite iterates over them, and a new operator needs no new
/// test. `#[inline]` compiles the hundred operators and their derivatives only in crates that call this.
#[inline]
pub fn built_in() -> Vec<OperatorRow> {
    ROWS.concat()
}

/// A visitor of operators whose types do not fit into a list of functions; see [`each_operator`].
pub trait Visit {
    /// Visits an operator of one operand.
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F);
    /// Visits an operator of two operands.
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F);
}

/// Passes every built-in elementwise operator to `visit`, once for every element type that it takes.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::kernel::Op;
/// use rankform::ops::{Visit, each_operator};
/// #[derive(Default)]
/// struct Count(usize);
/// impl Visit for Count {
///     fn unary<F: Op<(T,)>, T: Element>(&mut self, _: F) { self.0 += 1 }
///     fn binary<F: Op<(T, T)>, T: Element>(&mut self, _: F) { self.0 += 1 }
/// }
/// let mut count = Count::default();
/// each_operator(&mut count);
/// assert!(count.0 > 100);
/// ```
pub fn each_operator(visit: &mut impl Visit) {
    visit_all(visit);
}

/// Passes the operators of every file.
fn visit_all(to: &mut impl Visit) {
    arithmetic::visit(to);
    math::visit(to);
    activation::visit(to);
    loss::visit(to);
    comparison::visit(to);
}
const ROWS: &[&[OperatorRow]] =
    &[arithmetic::ROWS, math::ROWS, activation::ROWS, loss::ROWS, comparison::ROWS];

/// A one-word name for each element type, for the tables.
#[allow(non_camel_case_types)]
pub(super) mod names {
    pub(in crate::ops) use crate::element::{bf16, f16};
    pub(in crate::ops) use std::primitive::{bool, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64};
    pub(in crate::ops) type c32 = num_complex::Complex<f32>;
    pub(in crate::ops) type c64 = num_complex::Complex<f64>;
}
