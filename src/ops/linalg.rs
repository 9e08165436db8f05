//! Small linear algebra: norms, dot, outer, cross and Kronecker products, traces, powers of a matrix.
//!
//! All are compositions of reductions and products.
//! Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use super::contract::labelled;
use super::{Arithmetic as _, Cast as _, Math as _, Reductions};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Float, Number};
use crate::error::{Error, Result};
use crate::expr::{Reduce, Stored};
use crate::kernel::Reducer;
use crate::rank::{RemoveAxes, RemoveAxis};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Fresh, Tensor, TensorView, Writable};

macro_rules! norms {
    ($($(#[$doc:meta])* fn $name:ident, $name_into:ident = $R:ident; |$s:ident, $x:ident| $absorb:expr; |$a:ident, $b:ident| $combine:expr; |$f:ident| $finish:expr;)*) => {
        $(
            #[doc = concat!("The reducer of [`Norms::", stringify!($name), "`]; its state is f64.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $R;
            impl<T: Float> Reducer<T> for $R {
                const NAME: &'static str = stringify!($name);
                const NEEDS_ELEMENTS: bool = false;
                type Out = T;
                type State<L: Lanes> = Lane<L, f64>;
                #[inline(always)]
                fn identity<L: Lanes>() -> Lane<L, f64> { Lane::zero() }
                #[inline(always)]
                fn absorb<L: Lanes>($s: Lane<L, f64>, x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> Lane<L, f64> {
                    let $x = x.cast::<f64>();
                    $absorb
                }
                #[inline(always)]
                fn combine<L: Lanes>($a: Lane<L, f64>, $b: Lane<L, f64>) -> Lane<L, f64> { $combine }
                #[inline(always)]
                fn finish<L: Lanes>($f: Lane<L, f64>, _: Lane<L, i64>) -> Lane<L, Compute<T>> { $finish.cast() }
            }
        )*
        /// Vector norms over one axis (`Axis::<1>`), several or all (`All`); of a matrix over both, the Frobenius norm.
        ///
        /// Summed in f64, so that f32 neither overflows nor vanishes on the way. 0 for no elements, NaN if any is NaN. The
        /// norm of complex numbers is that of their [`modulus`](super::ComplexParts::modulus).
        ///
        /// # Errors
        /// Those of [`Reductions`].
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// let x = Tensor::from([[3.0, -4.0], [0.0, 5.0]]);
        /// assert_eq!(x.norm(Axis::<1>)?.to_vec()?, [5.0, 5.0]);
        /// assert_eq!(x.norm(All)?.item()?, f64::sqrt(50.0));
        /// assert_eq!((x.norm_one(Axis::<0>)?.to_vec()?, x.norm_max(All)?.item()?), (vec![3.0, 9.0], 5.0));
        /// # Ok::<(), rankform::Error>(())
        /// ```
        pub trait Norms<T, const RANK: usize, D: Device>: Reduce<T, RANK, D> { $(
            $(#[$doc])*
            fn $name<AXES, const M: usize>(self, axes: AXES) -> Result<Tensor<T, M, D>>
            where
                T: Float,
                Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
            {
                self.reduce($R, axes)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Norms::", stringify!($name), "), into an existing tensor or exclusive view of the sizes that stay; see [`reduce_into`](Reduce::reduce_into).")]
            fn $name_into<'o, AXES, const M: usize>(self, axes: AXES, out: impl Writable<'o, T, M, D>) -> Result<()>
            where
                T: Float,
                Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
                D: 'o,
            {
                self.reduce_into($R, axes, out)
            }
        )* }
        impl<X: Reduce<T, RANK, D>, T, const RANK: usize, D: Device> Norms<T, RANK, D> for X {}
    };
}
norms! {
    /// `√ Σ x²`: Euclid's, Frobenius'.
    fn norm, norm_into = Norm; |s, x| x.mul_add(x, s); |a, b| a + b; |s| s.sqrt();
    /// `Σ |x|`.
    fn norm_one, norm_one_into = NormOne; |s, x| s + x.abs(); |a, b| a + b; |s| s;
    /// `max |x|`.
    fn norm_max, norm_max_into = NormMax; |s, x| s.max(x.abs()); |a, b| a.max(b); |s| s;
}

/// Methods of views, and of tensors by way of them.
macro_rules! products {
    ($($(#[$doc:meta])* fn $name:ident [$($generics:tt)*] ($($arg:ident: $type:ty),*) -> $out:ty where [$($bound:tt)*] = |$x:ident| $body:expr;)*) => { $(
        impl<T: Number, const RANK: usize, D: Device> Tensor<T, RANK, D> {
            $(#[$doc])*
            pub fn $name<$($generics)*>(&self, $($arg: $type),*) -> $out where $($bound)* {
                self.view().$name($($arg),*)
            }
        }
        impl<T: Number, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $name<$($generics)*>(self, $($arg: $type),*) -> $out where $($bound)* {
                let $x = self;
                $body
            }
        }
    )* };
}
products! {
    /// `(Σ |x|^p)^(1/p)` over some axes, for any `p > 0`, summed in f64; see [`Norms`] for `p` of 1, 2 and ∞.
    ///
    /// # Errors
    /// Those of [`Reductions`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, -1.0, 1.0, 1.0]);
    /// assert!((x.norm_p(4.0, All)?.item()? - f64::sqrt(2.0)).abs() < 1e-14);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn norm_p[AXES, const M: usize](p: T, axes: AXES) -> Result<Tensor<T, M, D>>
    where [T: Float, Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>] = |x| {
        let p = num_traits::ToPrimitive::to_f64(&p).unwrap_or(f64::NAN);
        x.lazy().cast::<f64>().abs().powf(p).sum(axes)?.powf(1.0 / p)?.cast::<T>()
    };

    /// `Σ x · y` along axis `A`, fused; complex numbers are not conjugated: `x.conj()?.vecdot(…)`.
    ///
    /// # Errors
    /// [`Error::Sizes`] when the operands do not broadcast, [`Error::Device`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.vecdot(&x, Axis::<1>)?.to_vec()?, [5, 25]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn vecdot['b, const A: usize, const M: usize](other: impl Stored<'b, T, RANK, D>, axis: Axis<A>) -> Result<Tensor<T, M, D>>
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A> + RemoveAxes<Axis<A>, Output = Dim<M>>] = |x| (x.lazy() * other.into_view()).sum(axis);

    /// The vector product along axis `A`, which has size 3.
    ///
    /// # Errors
    /// [`Error::Axis`] when the axis has another size, [`Error::Sizes`] when the operands do not broadcast, and those of
    /// [`Tensor::concat`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 0.0, 0.0]), Tensor::from([0.0, 1.0, 0.0]));
    /// assert_eq!(x.cross(&y, Axis::<0>)?.to_vec()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross['b, const A: usize](other: impl Stored<'b, T, RANK, D>, axis: Axis<A>) -> Result<Tensor<T, RANK, D>>
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A>] = |x| {
        let (op, y) = ("cross", other.into_view());
        for v in [x, y] {
            if v.size().0[A] != 3 {
                return Err(Error::Axis { op, axis: A, sizes: v.size().0.into() });
            }
        }
        let part = |i: usize, j: usize| {
            let (x, y) = (|i: usize| x.slice_axis(A, i..i + 1, 1), |i: usize| y.slice_axis(A, i..i + 1, 1));
            (x(i)?.lazy() * y(j)? - x(j)?.lazy() * y(i)?).eval()
        };
        let parts = [part(1, 2)?, part(2, 0)?, part(0, 1)?];
        Tensor::concat(&parts.each_ref().map(|part| part.view()), axis)
    };
}

impl<T: Number, D: Device> Tensor<T, 1, D> {
    /// `out[i, j] = x[i] · y[j]`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([1, 2]).outer(&Tensor::from([3, 4, 5]))?, Tensor::from([[3, 4, 5], [6, 8, 10]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn outer<'b>(&self, other: impl Stored<'b, T, 1, D>) -> Result<Tensor<T, 2, D>>
    where
        T: 'b,
        D: 'b,
    {
        labelled("outer", [b"i", b"j", b"ij"], self.view(), other.into_view(), Fresh)
    }
}

impl<T: Number, D: Device> Tensor<T, 2, D> {
    /// `Σ x[i, i]`; of a stack of matrices it is `einsum!("bii->b", &x)`.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[1, 2, 3], [4, 5, 6]]).trace()?.item()?, 6);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn trace(&self) -> Result<Tensor<T, 0, D>> {
        self.diagonal(Axis::<0>, Axis::<1>)?.sum(Axis::<0>)
    }

    /// Kronecker's product: every element of `self` times the matrix `other`.
    ///
    /// # Shapes
    /// `[m, n] ⊗ [p, q] → [m p, n q]`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2]]).kron(&Tensor::from([[1, 0], [0, 1]]))?;
    /// assert_eq!(x, Tensor::from([[1, 0, 2, 0], [0, 1, 0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn kron<'b>(&self, other: impl Stored<'b, T, 2, D>) -> Result<Tensor<T, 2, D>>
    where
        T: 'b,
        D: 'b,
    {
        let (x, y) = (self.view(), other.into_view());
        let (Dim([m, n]), Dim([p, q])) = (x.size(), y.size());
        let all: Tensor<T, 4, D> = labelled("kron", [b"ij", b"kl", b"ikjl"], x, y, Fresh)?;
        all.into_shape([m * p, n * q])
    }

    /// The matrix times itself, `n` factors, by squaring; the unit matrix for 0.
    ///
    /// # Errors
    /// [`Error::Inner`] when the matrix is not square, and those of [`matmul`](Tensor::matmul).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let fibonacci = Tensor::from([[1_u64, 1], [1, 0]]);
    /// assert_eq!(fibonacci.matrix_power(90)?[[0, 1]], 2_880_067_194_370_816_120);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matrix_power(&self, n: u32) -> Result<Self> {
        let Dim([rows, columns]) = self.size();
        if rows != columns {
            return Err(Error::Inner {
                op: "matrix_power",
                inner: [columns, rows],
                left: self.size().0.into(),
                right: self.size().0.into(),
            });
        }
        let mut power: Option<Self> = None;
        let mut square = self.copy()?;
        let mut rest = n;
        while rest > 0 {
            if rest & 1 == 1 {
                power = Some(match &power {
                    Some(power) => power.matmul(&square)?,
                    None => square.copy()?,
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = square.matmul(&square)?;
            }
        }
        power.map_or_else(|| Tensor::eye(rows, self.device()), Ok)
    }
}
