//! Complex numbers: parts, conjugates, absolute values, deviations. Real numbers have parts too, and are
//! their own conjugates.
// Imports: `dtype`, `scalar`, `element`, `kernel`, `device`, `expr`, `ops`.

use crate::device::Device;
use crate::dtype::Kind;
use crate::element::{ComplexElement, Compute, Conjugate, Float, Inexact};
use crate::expr::Elementwise;
use crate::kernel::{Op, Reducer};
use crate::ops::reduction::define::reducer;
use crate::ops::reduction::moments::{join_moments, mean_square};
use crate::ops::reduction::slopes::{of_std, of_var};
use crate::ops::{Mean, SampleStd, SampleVar, Std, Var};
use crate::scalar::{ComplexPrim, Lane, Lanes};
use num_complex::Complex;

/// Operators of one operand, one row each: a type, and a method of `ComplexParts`.
macro_rules! parts {
    ($(
        $(#[$doc:meta])* fn $name:ident = $F:ident -> $out:ty where $class:ident, |$x:ident| $body:expr;
    )*) => {
        $(
            #[doc = concat!("The operator of [`ComplexParts::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $F;
            impl<T: $class> Op<(T,)> for $F {
                const NAME: &'static str = stringify!($name);
                type Out = $out;
                #[inline(always)]
                fn call<L: Lanes>(($x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<$out>> { $body }
            }
        )*
        /// Parts of complex numbers. A real number or a boolean is its own real part and conjugate, and its
        /// imaginary part is 0.
        ///
        /// # Examples
        /// ```
        /// use num_complex::Complex;
        /// use rankform::prelude::*;
        /// let z = Tensor::from([Complex::new(3.0, -4.0)]);
        /// assert_eq!((z.re()?[[0]], z.im()?[[0]], z.modulus()?[[0]]), (3.0, -4.0, 5.0));
        /// let x = Tensor::from([-2.0]);
        /// assert_eq!((x.conj()?[[0]], x.im()?[[0]], x.modulus()?[[0]]), (-2.0, 0.0, 2.0));
        /// assert_eq!((z.is_real()?[[0]], x.is_real()?[[0]]), (false, true));
        /// # Ok::<(), rankform::Error>(())
        /// ```
        #[allow(clippy::wrong_self_convention)] // receivers are small and `Copy`: references and views
        pub trait ComplexParts<T, const RANK: usize, D: Device>: Elementwise<T, RANK, D> { $(
            $(#[$doc])*
            fn $name(self) -> Self::Mapped<$F> where T: $class {
                self.map($F)
            }
        )* }
        impl<X: Elementwise<T, RANK, D>, T, const RANK: usize, D: Device> ComplexParts<T, RANK, D> for X {}
    };
}
parts! {
    /// The real part. To read it without a copy, use `z.view_as_real()?` at index 0 of the last axis.
    #[doc(alias = "real")]
    fn re = Re -> T::Real where Conjugate, |x| T::re(x);
    /// The imaginary part.
    #[doc(alias = "imag")]
    fn im = Im -> T::Real where Conjugate, |x| T::im(x);
    /// The conjugate.
    #[doc(alias = "conj_physical")]
    fn conj = Conj -> T where Conjugate, |x| T::conj(x);
    /// Whether the imaginary part is 0; always true for a real number, NaN included.
    fn is_real = IsReal -> bool where Conjugate, |x| T::im(x).eq(Lane::literal(Default::default()));
    /// The absolute value.
    fn modulus = Modulus -> T::Real where Inexact, |x| {
        if T::DTYPE.kind() == Kind::Complex { T::re(x).hypot(T::im(x)) } else { T::re(x).abs() }
    };
    /// The angle, in [−π, π]. For a real number it is 0 or π, and π for −0, as of `Complex::new(-0.0, 0.0)`.
    fn angle = Angle -> T::Real where Inexact, |x| T::im(x).atan2(T::re(x));
}

/// Moments of complex numbers: count, both parts of the mean, and the sum of squared distances to it.
type PlaneMoments<L> = (Lane<L, f64>, Lane<L, f64>, Lane<L, f64>, Lane<L, f64>);

/// Joins the moments of two sets of complex numbers, by [`join_moments`] of each part.
#[inline(always)]
fn join_plane<L: Lanes>(a: PlaneMoments<L>, b: PlaneMoments<L>) -> PlaneMoments<L> {
    let (n, re, from_re) = join_moments((a.0, a.1, a.3), (b.0, b.1, b.3));
    let (_, im, from_both) = join_moments((a.0, a.2, from_re), (b.0, b.2, Lane::zero()));
    (n, re, im, from_both)
}

/// Adds one complex number.
#[inline(always)]
fn with_point<L: Lanes, P: ComplexPrim>(s: PlaneMoments<L>, x: Lane<L, P>) -> PlaneMoments<L> {
    let n = s.0 + 1;
    let (re, im) = (x.re().cast::<f64>(), x.im().cast::<f64>());
    let (a, b) = (re - s.1, im - s.2);
    let mean = (s.1 + a / n, s.2 + b / n);
    (n, mean.0, mean.1, b.mul_add(im - mean.1, a.mul_add(re - mean.0, s.3)))
}

/// Variances and deviations of complex numbers, which are real: the mean of `|x − mean|²`.
macro_rules! of_complex {
    ($(
        $R:ident $name:literal, |$s:ident, $count:ident| $finalize:expr;
        |$x:ident, $y:ident, $mean:ident, $n:ident| $slope:expr;
    )*) => { $(
        impl<P: Float> Reducer<Complex<P>> for $R
        where
            Complex<P>: ComplexElement + Inexact<Part = P>,
        {
            reducer! {
                $name, <Complex<P>, L> -> P, state PlaneMoments<L>;
                identity (Lane::zero(), Lane::zero(), Lane::zero(), Lane::zero());
                accumulate |s, x, _at| with_point(s, x);
                combine |a, b| join_plane(a, b);
                finalize |$s, $count| {
                    let $s = ($s.0, $s.1, $s.3);
                    $finalize
                };
                slope Values beside Mean |$x, $y, $mean, $n| $slope;
            }
        }
    )* };
}
of_complex! {
    Var "var", |s, count| mean_square(s, count, 0).cast();
    |x, _y, mean, n| of_var::<Complex<P>, L>(x, mean, n);
    SampleVar "sample_var", |s, count| mean_square(s, count, 1).cast();
    |x, _y, mean, n| of_var::<Complex<P>, L>(x, mean, n - 1);
    Std "std", |s, count| mean_square(s, count, 0).sqrt().cast();
    |x, y, mean, n| of_std::<Complex<P>, L>(x, y, mean, n);
    SampleStd "sample_std", |s, count| mean_square(s, count, 1).sqrt().cast();
    |x, y, mean, n| of_std::<Complex<P>, L>(x, y, mean, n - 1);
}
