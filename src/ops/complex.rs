//! Complex numbers: parts, conjugates, absolute values, and making them from two reals.
//!
//! Imports: `scalar`, `element`, `kernel`, `device`, `expr`.

use crate::device::Device;
use crate::element::{ComplexElement, Compute};
use crate::expr::Elementwise;
use crate::kernel::Op;
use crate::scalar::{Lane, Lanes};

macro_rules! parts {
    ($($(#[$doc:meta])* fn $name:ident = $F:ident -> $out:ty, |$x:ident| $body:expr;)*) => {
        $(
            #[doc = concat!("The operator of [`ComplexParts::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $F;
            impl<T: ComplexElement> Op<(T,)> for $F {
                const NAME: &'static str = stringify!($name);
                type Out = $out;
                #[inline(always)]
                fn call<L: Lanes>(($x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<$out>> {
                    $body
                }
            }
        )*
        /// What a complex number is made of.
        ///
        /// # Examples
        /// ```
        /// use num_complex::Complex;
        /// use rankform::prelude::*;
        /// let z = Tensor::from([Complex::new(3.0, -4.0)]);
        /// assert_eq!((z.re()?[[0]], z.im()?[[0]], z.modulus()?[[0]]), (3.0, -4.0, 5.0));
        /// # Ok::<(), rankform::Error>(())
        /// ```
        pub trait ComplexParts<T, const RANK: usize, D: Device>: Elementwise<T, RANK, D> { $(
            $(#[$doc])*
            fn $name(self) -> Self::Mapped<$F> where T: ComplexElement {
                self.map($F)
            }
        )* }
        impl<X: Elementwise<T, RANK, D>, T, const RANK: usize, D: Device> ComplexParts<T, RANK, D> for X {}
    };
}
parts! {
    /// The real part.
    fn re = Re -> T::Part, |x| x.re();
    /// The imaginary part.
    fn im = Im -> T::Part, |x| x.im();
    /// The conjugate.
    fn conj = Conj -> T, |x| x.conj();
    /// The absolute value.
    fn modulus = Modulus -> T::Part, |x| x.re().hypot(x.im());
    /// The angle, in (−π, π].
    fn angle = Angle -> T::Part, |x| x.im().atan2(x.re());
}
