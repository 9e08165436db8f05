//! Kernels compiled in advance, and rows for the tests; both are filled by the operators' own files.
//!
//! Generic kernels are compiled in the crate that uses them, and in the dev profile without optimisation: 100 to 600
//! times slower. So that built-in operators on common elements are fast there too, their kernels are compiled here,
//! where `[profile.dev.package.rankform] opt-level = 3` reaches them, and found by type at run time. In a release build
//! the kernels of the calling crate are as good, and this table is empty.
//! Imports: `scalar`, `element`, `kernel`, `device`.

use crate::device::{MapKernel, ReduceKernel, ScanKernel};
use crate::element::Element;
use crate::kernel::{Call, Compiled, InPlace, Input, Op, Param, Program, Reducer, Store};
use crate::scalar::{Dual, Lane, Run};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The kernels compiled in advance, by the type of their program, or of their body and reducer.
#[derive(Default)]
pub(crate) struct Table(HashMap<TypeId, Compiled>);

#[cfg_attr(not(debug_assertions), allow(dead_code))] // then the table is empty
impl Table {
    /// Where memory has run out a kernel is left out, and found in the calling crate instead.
    fn keep(&mut self, key: TypeId, kernel: Compiled) {
        if self.0.try_reserve(1).is_ok() {
            self.0.insert(key, kernel);
        }
    }
    pub(super) fn map<P: Program>(&mut self) {
        self.keep(TypeId::of::<P>(), const { &MapKernel::of::<P>() });
    }
    pub(super) fn unary<F: Op<(T,)>, T: Element>(&mut self) {
        self.map::<Store<Call<F, (Input<T>,)>>>();
    }
    pub(super) fn binary<F: Op<(T, T)>, T: Element>(&mut self) {
        self.map::<Store<Call<F, (Input<T>, Input<T>)>>>();
        self.map::<Store<Call<F, (Input<T>, Param<T>)>>>();
    }
    pub(super) fn in_place<F: Op<(T, T), Out = T>, T: Element>(&mut self) {
        self.map::<InPlace<Store<Call<F, (Input<T>, Input<T>)>>>>();
        self.map::<InPlace<Store<Call<F, (Input<T>, Param<T>)>>>>();
    }
    pub(super) fn scan<R: Reducer<T>, T: Element>(&mut self) {
        self.keep(ScanKernel::key::<Input<T>, R>(), const { &ScanKernel::of::<Input<T>, R>() });
    }
    pub(super) fn reduce<R: Reducer<T>, T: Element>(&mut self) {
        self.keep(TypeId::of::<(Input<T>, R)>(), const { &ReduceKernel::of::<Input<T>, R>() });
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    #[allow(unused_mut)]
    let mut table = Table::default();
    #[cfg(debug_assertions)]
    for compile in super::COMPILED {
        compile(&mut table);
    }
    table
});

/// The kernel of this type, if it was compiled in advance.
#[inline]
pub(super) fn compiled(kernel: TypeId) -> Option<Compiled> {
    if cfg!(debug_assertions) { TABLE.0.get(&kernel).copied() } else { None }
}

/// One operator, as tests see it: its name, and its value and slopes on f64 where it takes and gives numbers.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The method's name.
    pub name: &'static str,
    /// How many operands it has; 0 when it does not compute on f64.
    pub operands: usize,
    /// The value at a point.
    pub value: fn([f64; 2]) -> f64,
    /// The partial derivatives at a point.
    pub slope: fn([f64; 2]) -> [f64; 2],
}

impl Row {
    pub(super) const fn named(name: &'static str) -> Row {
        Row { name, operands: 0, value: |_| f64::NAN, slope: |_| [f64::NAN; 2] }
    }
    pub(super) const fn unary<F: Op<(f64,), Out = f64>>() -> Row {
        let slope = |x: [f64; 2]| [F::call::<Dual<Run>>((Lane::variable(Lane(x[0])),)).tangent().value(), 0.0];
        Row { name: F::NAME, operands: 1, value: |x| F::call::<Run>((Lane(x[0]),)).value(), slope }
    }
    pub(super) const fn binary<F: Op<(f64, f64), Out = f64>>() -> Row {
        let slope = |[x, y]: [f64; 2]| {
            let (vary, keep) = (|v| Lane::variable(Lane::<Run, f64>(v)), |v| Lane::constant(Lane::<Run, f64>(v)));
            [F::call::<Dual<Run>>((vary(x), keep(y))).tangent().value(), F::call::<Dual<Run>>((keep(x), vary(y))).tangent().value()]
        };
        Row { name: F::NAME, operands: 2, value: |x| F::call::<Run>((Lane(x[0]), Lane(x[1]))).value(), slope }
    }
}

/// Every built-in elementwise operator: what the suite iterates, so that a new operator is tested without a new test.
pub static OPERATORS: LazyLock<Vec<Row>> = LazyLock::new(|| super::ROWS.concat());

/// Something done to operators whose types a list of functions cannot hold: see [`each_operator`].
pub trait Visit {
    /// To an operator of one operand.
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F);
    /// To an operator of two operands.
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F);
}

/// Shows every built-in elementwise operator to `visit`, once for every element that it takes.
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
    super::visit(visit);
}

/// One word for each element, for the tables.
#[allow(non_camel_case_types)]
pub(super) mod names {
    pub(in crate::ops) use half::{bf16, f16};
    pub(in crate::ops) use std::primitive::{bool, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64};
    pub(in crate::ops) type c32 = num_complex::Complex<f32>;
    pub(in crate::ops) type c64 = num_complex::Complex<f64>;
}
