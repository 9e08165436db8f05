//! Elements of matrices, and the kernels that are compiled for each of them.
// Imports: `error`, `element`.

use super::batch::{Batch, BatchMut};
use super::kernels;
use super::{Factors, Triangle};
use crate::element::{ComplexElement, Inexact};
use crate::error::Result;
use num_complex::Complex;

/// An element of matrices: `f32`, `f64`, `Complex<f32>`, `Complex<f64>`.
#[diagnostic::on_unimplemented(
    message = "matrices of `{Self}` have no factorizations",
    label = "needs `f32`, `f64`, `Complex<f32>` or `Complex<f64>`",
    note = "`.cast::<f64>()?` converts the elements"
)]
pub trait MatrixElement: Kernels {}

/// Kernels, one instance for each element: they are compiled with this crate, not with each program.
macro_rules! kernels {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $run:path;)*) => {
        /// The kernels of an element.
        #[doc(hidden)]
        pub trait Kernels: Inexact {
            /// The complex element with the same parts.
            type WithImaginary: ComplexElement + MatrixElement<Part = Self::Part>;
            /// The unit roundoff, doubled: the distance from 1 to the next number.
            const EPSILON: f64;
            $(fn $name(op: &'static str, $($arg: $type),*) -> Result<()>;)*
        }
        kernels!(@each f32, f32; $($name($($arg: $type),*) = $run;)*);
        kernels!(@each f64, f64; $($name($($arg: $type),*) = $run;)*);
        kernels!(@each Complex<f32>, f32; $($name($($arg: $type),*) = $run;)*);
        kernels!(@each Complex<f64>, f64; $($name($($arg: $type),*) = $run;)*);
    };
    (@each $element:ty, $part:ty; $($name:ident($($arg:ident: $type:ty),*) = $run:path;)*) => {
        impl Kernels for $element {
            type WithImaginary = Complex<$part>;
            const EPSILON: f64 = <$part>::EPSILON as f64;
            $(fn $name(op: &'static str, $($arg: $type),*) -> Result<()> {
                $run(op, $($arg),*)
            })*
        }
        impl MatrixElement for $element {}
    };
}
kernels! {
    fn solve(a: Batch<'_, Self>, b: Batch<'_, Self>, x: BatchMut<'_, Self>) = kernels::lu::solve;
    fn inverse(a: Batch<'_, Self>, x: BatchMut<'_, Self>) = kernels::lu::inverse;
    fn lu(
        a: Batch<'_, Self>, permutation: BatchMut<'_, i64>,
        lower: BatchMut<'_, Self>, upper: BatchMut<'_, Self>
    ) = kernels::lu::lu;
    fn determinant(a: Batch<'_, Self>, out: BatchMut<'_, Self>) = kernels::lu::determinant;
    fn log_determinant(a: Batch<'_, Self>, sign: BatchMut<'_, Self>, ln_abs: BatchMut<'_, Self::Part>)
        = kernels::lu::log_determinant;
    fn triangular(a: Batch<'_, Self>, b: Batch<'_, Self>, triangle: Triangle, x: BatchMut<'_, Self>)
        = kernels::triangular::solve;
    fn cholesky(a: Batch<'_, Self>, lower: BatchMut<'_, Self>) = kernels::triangular::cholesky;
    fn qr(a: Batch<'_, Self>, q: BatchMut<'_, Self>, r: BatchMut<'_, Self>) = kernels::qr::qr;
    fn svd(
        a: Batch<'_, Self>, factors: Factors, u: BatchMut<'_, Self>,
        s: BatchMut<'_, Self::Part>, vh: BatchMut<'_, Self>
    ) = kernels::svd::svd;
    fn singular_values(a: Batch<'_, Self>, are_scaled: bool, s: BatchMut<'_, Self::Part>)
        = kernels::svd::values;
    fn pseudo_inverse(a: Batch<'_, Self>, tolerance: f64, x: BatchMut<'_, Self>)
        = kernels::svd::pseudo_inverse;
    fn least_squares(
        a: Batch<'_, Self>, b: Batch<'_, Self>, tolerance: f64,
        x: BatchMut<'_, Self>, rank: BatchMut<'_, i64>, s: BatchMut<'_, Self::Part>
    ) = kernels::svd::least_squares;
    fn hermitian(a: Batch<'_, Self>, values: BatchMut<'_, Self::Part>, vectors: BatchMut<'_, Self>)
        = kernels::eigen::hermitian;
    fn hermitian_values(a: Batch<'_, Self>, values: BatchMut<'_, Self::Part>)
        = kernels::eigen::hermitian_values;
    fn eigen(
        a: Batch<'_, Self>, values: BatchMut<'_, Self::WithImaginary>,
        vectors: BatchMut<'_, Self::WithImaginary>
    ) = kernels::eigen::general;
    fn eigen_values(a: Batch<'_, Self>, values: BatchMut<'_, Self::WithImaginary>)
        = kernels::eigen::general_values;
    fn power(a: Batch<'_, Self>, n: i64, x: BatchMut<'_, Self>) = kernels::powers::power;
    fn exponential(a: Batch<'_, Self>, x: BatchMut<'_, Self>) = kernels::powers::exponential;
}
