//! The algorithm of a product, and the microkernel for its three element types.
//!
//! [`kernel`] is the table of element types. A row lists microkernels from the fastest to the slowest, each
//! with the conversions of both operands to its units; the first one that this processor has is taken.
// Imports: `scalar`, `element`.

#[cfg(target_arch = "x86_64")]
use super::super::tuning;
use super::gemv::{Bf16Pairs, Gemv, Single, row_by_panels};
use super::kernels::complex::ComplexOf;
use super::kernels::portable::Portable;
use super::kernels::{KernelInfo, Microkernel};
#[cfg(target_arch = "x86_64")]
use super::kernels::{amx, amx::Amx, x86_64::*};
use super::packing::*;
use super::problem::{GemmProblem, PackFns, RowByPanelsFn};
use super::store::store_sums;
use super::tiny::TinyProduct;
use crate::element::{Element, bf16, f16};
use crate::scalar::{DType, Prim};
use num_complex::Complex;
use std::any::TypeId;
use std::marker::PhantomData;

/// How a product of elements of this crate is computed.
#[allow(clippy::large_enum_variant)] // it is matched where it is made
pub(super) enum Algorithm {
    Tiny(TinyProduct),
    Gemv(Gemv),
    Blocked,
}

impl Algorithm {
    pub(super) fn choose(problem: &GemmProblem, types: [DType; 3]) -> Algorithm {
        if let Some(tiny) = TinyProduct::from_problem(problem, types) {
            return Algorithm::Tiny(tiny);
        }
        if let Some(gemv) = Gemv::from_problem(problem) {
            return Algorithm::Gemv(gemv);
        }
        Algorithm::Blocked
    }
}

/// A microkernel and the conversions between elements and its panels.
type Route = (KernelInfo, PackFns);

/// The route by `kernel`, if there is one: operands are converted by `L` and `R`, sums are narrowed to `T`.
fn route<K, L, R, T>(kernel: Option<K>, row_by_panels: Option<RowByPanelsFn>) -> Option<Route>
where
    K: Microkernel<Sum: Prim>,
    L: Convert,
    R: Convert,
    T: Element,
{
    kernel?;
    let fns = PackFns {
        pack_left: L::PACK,
        pack_right: R::PACK,
        unpack_right: R::UNPACK,
        row_by_panels,
        store: store_sums::<K::Sum, T>,
        out_nbytes: size_of::<T>(),
        units_are_elements: TypeId::of::<(Same<K::Sum>, Same<K::Sum>)>() == TypeId::of::<(L, R)>(),
        sums_are_elements: TypeId::of::<K::Sum>() == TypeId::of::<T>(),
    };
    Some((K::INFO, fns))
}

/// The route by the first kernel that this processor has.
macro_rules! first {
    (
        $row:expr, $T:ty, x86_64 [$($kernel:expr, $L:ty, $R:ty;)*]
        $(any [$portable:expr, $PL:ty, $PR:ty])?
    ) => {{
        let (first, _row): (Option<Route>, Option<RowByPanelsFn>) = (None, $row);
        #[cfg(target_arch = "x86_64")]
        let first = first$(.or_else(|| route::<_, $L, $R, $T>($kernel, _row)))*;
        $(let first = first.or_else(|| route::<_, $PL, $PR, $T>($portable, _row));)?
        first
    }};
}

fn portable<P>() -> Option<Portable<P>> {
    Some(Portable(PhantomData))
}

/// Sums in f32.
fn f32_sums<L: Convert<To = f32>, R: Convert<To = f32>, T: Element>() -> Option<Route> {
    let row: Option<RowByPanelsFn> = Some(row_by_panels::<L, Single<f32>, T>);
    first!(
        row, T, x86_64 [Avx512F32::available(), L, R; Avx2F32::available(), L, R;]
        any [portable::<f32>(), L, R]
    )
}

/// Sums in f64.
fn f64_sums<L: Convert<To = f64>, R: Convert<To = f64>>() -> Option<Route> {
    let row: Option<RowByPanelsFn> = Some(row_by_panels::<L, Single<f64>, f64>);
    first!(
        row, f64, x86_64 [Avx512F64::available(), L, R; Avx2F64::available(), L, R;]
        any [portable::<f64>(), L, R]
    )
}

/// Products of bf16: in pairs if the processor has fast instructions for them, in f32 otherwise.
fn bf16_products<T: Element>() -> Option<Route> {
    let row: Option<RowByPanelsFn> = Some(row_by_panels::<Bf16AsF32, Bf16Pairs, T>);
    let pairs = first!(row, T, x86_64 [
        Amx::<amx::Bf16>::available(), Bf16x2, Bf16x2;
        Avx512Bf16::available().filter(|_| tuning::prefers_bf16_dot()), Bf16x2, Bf16x2;
    ]);
    pairs.or_else(f32_sums::<Bf16AsF32, Bf16AsF32, T>)
}

/// Integers of 16 bits (`L`, `R`) in pairs, or integers of 32 bits (`WideL`, `WideR`) by the portable kernel.
fn i16_pairs<L: Convert, R: Convert, WideL: Convert, WideR: Convert, T: Element>() -> Option<Route> {
    first!(
        None, T, x86_64 [Avx512I16::available(), L, R; Avx2I16::available(), L, R;]
        any [portable::<i32>(), WideL, WideR]
    )
}

/// Integers of 32 bits.
fn i32_sums<C: Convert<To = i32>>() -> Option<Route> {
    first!(
        None, i32, x86_64 [Avx512I32::available(), C, C; Avx2I32::available(), C, C;]
        any [portable::<i32>(), C, C]
    )
}

/// Integers of 64 bits.
fn i64_sums<C: Convert<To = i64>>() -> Option<Route> {
    first!(None, i64, x86_64 [Avx512I64::available(), C, C;] any [portable::<i64>(), C, C])
}

/// Products i8 · i8.
fn i8_products<T: Element>() -> Option<Route> {
    let quads = first!(None, T, x86_64 [
        Amx::<amx::I8I8>::available(), I8x4, I8x4;
        Avx512I8I8::available(), I8x4, I8x4Biased;
    ]);
    quads.or_else(i16_pairs::<I8AsI16, I8AsI16, I8AsI32, I8AsI32, T>)
}

/// Products u8 · i8.
fn u8_i8_products() -> Option<Route> {
    let quads = first!(None, i32, x86_64 [
        Amx::<amx::U8I8>::available(), U8x4, I8x4;
        Avx512U8I8::available(), U8x4, I8x4;
    ]);
    quads.or_else(i16_pairs::<U8AsI16, I8AsI16, U8AsI32, I8AsI32, i32>)
}

/// Products i8 · u8.
fn i8_u8_products() -> Option<Route> {
    let quads = first!(None, i32, x86_64 [
        Amx::<amx::I8U8>::available(), I8x4, U8x4;
        Avx512I8U8::available(), I8x4, U8x4;
    ]);
    quads.or_else(i16_pairs::<I8AsI16, U8AsI16, I8AsI32, U8AsI32, i32>)
}

/// Products u8 · u8.
fn u8_products() -> Option<Route> {
    let quads = first!(None, i32, x86_64 [Amx::<amx::U8U8>::available(), U8x4, U8x4;]);
    quads.or_else(i16_pairs::<U8AsI16, U8AsI16, U8AsI32, U8AsI32, i32>)
}

/// Complex numbers, by a kernel of their parts.
macro_rules! complex {
    ($part:ty, $Wide:ident, $Narrow:ident) => {
        first!(None, Complex<$part>, x86_64 [
            $Wide::available().map(ComplexOf::new), Same<Complex<$part>>, Same<Complex<$part>>;
            $Narrow::available().map(ComplexOf::new), Same<Complex<$part>>, Same<Complex<$part>>;
        ] any [portable::<$part>().map(ComplexOf::new), Same<Complex<$part>>, Same<Complex<$part>>])
    };
}

/// The best kernel of this processor for elements `[out, left, right]`, if there is one.
///
/// Sums of integers wrap, and their lower bits do not depend on the signs of the factors: unsigned elements
/// use the kernels of signed ones where the bits are the same.
pub(super) fn kernel([out, left, right]: [DType; 3]) -> Option<Route> {
    use DType::*;
    match (left, right, out) {
        (F32, F32, F32) => f32_sums::<Same<f32>, Same<f32>, f32>(),
        (F64, F64, F64) => f64_sums::<Same<f64>, Same<f64>>(),
        (F32, F32, F64) => f64_sums::<F32AsF64, F32AsF64>(),
        (BF16, BF16, BF16) => bf16_products::<bf16>(),
        (BF16, BF16, F32) => bf16_products::<f32>(),
        (F16, F16, F16) => f32_sums::<F16AsF32, F16AsF32, f16>(),
        (F16, F16, F32) => f32_sums::<F16AsF32, F16AsF32, f32>(),
        (I8, I8, I8) | (U8, U8, U8) => i8_products::<i8>(),
        (I8, I8, I32) => i8_products::<i32>(),
        (U8, I8, I32) => u8_i8_products(),
        (I8, U8, I32) => i8_u8_products(),
        (U8, U8, I32 | U32) => u8_products(),
        (I16, I16, I16) | (U16, U16, U16) => i16_pairs::<I16x2, I16x2, I16AsI32, I16AsI32, i16>(),
        (I16, I16, I32) => i16_pairs::<I16x2, I16x2, I16AsI32, I16AsI32, i32>(),
        (U16, U16, U32) => i32_sums::<U16AsI32>(),
        (I32, I32, I32) | (U32, U32, U32) => i32_sums::<Same<i32>>(),
        (I32, I32, I64) => i64_sums::<I32AsI64>(),
        (U32, U32, U64) => i64_sums::<U32AsI64>(),
        (I64, I64, I64) | (U64, U64, U64) => i64_sums::<Same<i64>>(),
        (C32, C32, C32) => complex!(f32, Avx512F32, Avx2F32),
        (C64, C64, C64) => complex!(f64, Avx512F64, Avx2F64),
        _ => None,
    }
}
