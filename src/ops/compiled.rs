//! Kernels compiled in advance, of the operators that most programs use, on the elements that most programs use.
//!
//! Generic kernels are compiled in the crate that uses them, and in the dev profile without optimisation: 100 to 600
//! times slower. So that common built-in operators are fast there too, their kernels are compiled here, where
//! `[profile.dev.package.rankform] opt-level = 3` reaches them, and found by type at run time. Each row costs every such
//! build. In a release build the kernels of the calling crate are as good, and there are none here.
//! Imports: `element`, `kernel`, `device`.

/// The kernel of this type, if it was compiled in advance.
#[cfg(not(debug_assertions))]
#[inline]
pub(super) fn compiled(_: std::any::TypeId) -> Option<crate::kernel::Compiled> {
    None
}

#[cfg(debug_assertions)]
pub(super) use debug::compiled;

#[cfg(debug_assertions)]
mod debug {
    use crate::device::{MapKernel, ReduceKernel, ScanKernel};
    use crate::element::{Element, Float};
    use crate::kernel::{Call, Compiled, InPlace, Input, Op, Param, Program, Reducer, Store};
    use crate::ops::random::{Normal, Uniform};
    use crate::ops::*;
    use std::any::TypeId;
    use std::collections::HashMap;
    use std::sync::LazyLock;

    /// The kernel of this type, if it was compiled in advance.
    #[inline]
    pub(in crate::ops) fn compiled(kernel: TypeId) -> Option<Compiled> {
        TABLE.0.get(&kernel).copied()
    }

    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut table = Table::default();
        macro_rules! rows {
            ($kind:ident for $($t:ident)+: $($operator:ident)+) => { rows!(@each $kind [$($t)+] $($operator)+) };
            (@each $kind:ident $t:tt $($operator:ident)+) => { $(rows!(@one $kind $t $operator);)+ };
            (@one $kind:ident [$($t:ident)+] $operator:ident) => { $(table.$kind::<$operator, $t>();)+ };
        }
        rows!(unary for f32 f64 i32 i64: Neg Square Abs Relu);
        rows!(unary for f32 f64: Recip Sqrt Rsqrt Exp ExpM1 Ln Ln1p Log2 Log10 Sin Cos Tanh Erf);
        rows!(unary for f32 f64: Sigmoid Silu Softplus Gelu Round Floor Ceil IsNan IsFinite);
        rows!(unary for bool: LogicalNot);
        rows!(binary for f32 f64 i32 i64: Add Sub Mul Div Maximum Minimum);
        rows!(binary for f32 f64 i32 i64: Equal NotEqual Less LessEqual Greater GreaterEqual);
        rows!(binary for f32 f64: Powf);
        rows!(binary for bool: LogicalAnd LogicalOr);
        rows!(in_place for f32 f64 i32 i64: Add Sub Mul Div);
        rows!(reduce for f32 f64 i32 i64: Sum Max Min);
        rows!(reduce for f32 f64: Prod ArgMax ArgMin Mean Var MeanVar LogSumExp);
        rows!(reduce for bool: Any AllTrue Count);
        rows!(scan for f32 f64 i32 i64: CumSum);
        table.random::<Uniform<f32>, f32>();
        table.random::<Uniform<f64>, f64>();
        table.random::<Normal<f32>, f32>();
        table.random::<Normal<f64>, f64>();
        table
    });

    /// The kernels, by the type of their program, or of their body and reducer.
    #[derive(Default)]
    struct Table(HashMap<TypeId, Compiled>);

    impl Table {
        /// Where memory has run out a kernel is left out, and found in the calling crate instead.
        fn keep(&mut self, key: TypeId, kernel: Compiled) {
            if self.0.try_reserve(1).is_ok() {
                self.0.insert(key, kernel);
            }
        }
        fn map<P: Program>(&mut self) {
            self.keep(TypeId::of::<P>(), const { &MapKernel::of::<P>() });
        }
        fn unary<F: Op<(T,)>, T: Element>(&mut self) {
            self.map::<Store<Call<F, (Input<T>,)>>>();
        }
        fn binary<F: Op<(T, T)>, T: Element>(&mut self) {
            self.map::<Store<Call<F, (Input<T>, Input<T>)>>>();
            self.map::<Store<Call<F, (Input<T>, Param<T>)>>>();
        }
        fn in_place<F: Op<(T, T), Out = T>, T: Element>(&mut self) {
            self.map::<InPlace<Store<Call<F, (Input<T>, Input<T>)>>>>();
            self.map::<InPlace<Store<Call<F, (Input<T>, Param<T>)>>>>();
        }
        fn scan<R: Reducer<T>, T: Element>(&mut self) {
            self.keep(ScanKernel::key::<Input<T>, R>(), const { &ScanKernel::of::<Input<T>, R>() });
        }
        fn reduce<R: Reducer<T>, T: Element>(&mut self) {
            self.keep(TypeId::of::<(Input<T>, R)>(), const { &ReduceKernel::of::<Input<T>, R>() });
        }
        fn random<F: Op<(u64, u64, u64, T, T)>, T: Float>(&mut self) {
            self.map::<Store<Call<F, (Input<u64>, Input<u64>, Param<u64>, Param<T>, Param<T>)>>>();
            self.map::<Store<Call<F, (Param<u64>, Input<u64>, Param<u64>, Param<T>, Param<T>)>>>();
        }
    }
}
