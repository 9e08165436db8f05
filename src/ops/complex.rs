//! Complex numbers: parts, conjugates, absolute values. Real numbers have them too, and are their own conjugates.
//!
//! Imports: `dtype`, `scalar`, `element`, `kernel`, `device`, `expr`.

use crate::device::Device;
use crate::dtype::Kind;
use crate::element::{Compute, Conjugate, Inexact};
use crate::expr::Elementwise;
use crate::kernel::Op;
use crate::scalar::{Lane, Lanes};

macro_rules! parts {
    ($($(#[$doc:meta])* fn $name:ident = $F:ident -> $out:ty where $class:ident, |$x:ident| $body:expr;)*) => {
        $(
            #[doc = concat!("The operator of [`ComplexParts::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $F;
            impl<T: $class> Op<(T,)> for $F {
                const NAME: &'static str = stringify!($name);
                type Out = $out;
                #[inline(always)]
                fn call<L: Lanes>(($x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<$out>> {
                    $body
                }
            }
        )*
        /// What a complex number is made of. A real number or a truth value is its own real part and conjugate, and its imaginary
        /// part is 0.
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
        #[allow(clippy::wrong_self_convention)] // receivers are references and views: small and `Copy`
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
    /// The real part. Without a copy it is `z.view_as_real()?` at 0 of the last axis.
    #[doc(alias = "real")]
    fn re = Re -> T::Real where Conjugate, |x| T::re(x);
    /// The imaginary part.
    #[doc(alias = "imag")]
    fn im = Im -> T::Real where Conjugate, |x| T::im(x);
    /// The conjugate.
    #[doc(alias = "conj_physical")]
    fn conj = Conj -> T where Conjugate, |x| T::conj(x);
    /// Whether the imaginary part is 0; always so of a real number, NaN too.
    fn is_real = IsReal -> bool where Conjugate, |x| T::im(x).eq(Lane::literal(Default::default()));
    /// The absolute value.
    fn modulus = Modulus -> T::Real where Inexact, |x| {
        if T::DTYPE.kind() == Kind::Complex { T::re(x).hypot(T::im(x)) } else { T::re(x).abs() }
    };
    /// The angle, in [−π, π]: of a real number 0 or π, π of −0, as of `Complex::new(-0.0, 0.0)`.
    fn angle = Angle -> T::Real where Inexact, |x| T::im(x).atan2(T::re(x));
}
