//! Small linear algebra: norms, dot, outer, cross and Kronecker products, traces, powers of a matrix.
//!
//! All are compositions of reductions and products.
//! Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use super::contract::labelled;
use super::moments::{SUMS, joined};
use super::{Arithmetic as _, Cast as _, Math as _, Min, Reductions, Sum};
#[cfg(all(not(debug_assertions), feature = "dynamic"))]
use crate::device::slice_of;
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Float, Number};
use crate::error::{Error, Result, text};
use crate::expr::{Elementwise as _, Reduce, Stored};
#[cfg(any(debug_assertions, feature = "dynamic"))]
use crate::kernel::SliceFn;
use crate::kernel::{Op, Reducer};
use crate::layout::{Layout, joint_size};
use crate::rank::{RemoveAxes, RemoveAxis};
use crate::scalar::{DType, Lane, Lanes, Prim, Real, Run};
use crate::tensor::{Fresh, Place, Tensor, TensorView, There, Writable};

/// `Σ x²` in f64: a unit, and the sum of squares in this unit. It is 1 but for f64, whose squares leave the range of f64: there it is 1 or
/// 2^±600, as the numbers are (after Blue 1978).
type Squares<L> = (Lane<L, f64>, Lane<L, f64>);

const FAR: f64 = f64::from_bits((1023 + 600) << 52); // 2⁶⁰⁰
/// Beyond it, or its inverse, numbers have another unit.
const END: f64 = f64::from_bits((1023 + 500) << 52); // 2⁵⁰⁰

/// The unit of numbers up to this magnitude.
#[inline(always)]
fn unit_of<L: Lanes, P: Prim>(largest: Lane<L, f64>) -> Lane<L, f64> {
    if P::DTYPE != DType::F64 {
        return Lane::one();
    }
    largest.gt(END).select(FAR, largest.lt(1.0 / END).select(Lane::real(1.0 / FAR), Lane::one()))
}

/// `Σ x²` of nothing.
#[inline(always)]
fn no_squares<L: Lanes, P: Prim>() -> Squares<L> {
    (unit_of::<L, P>(Lane::zero()), Lane::zero())
}

/// `x / unit`.
#[inline(always)]
fn in_unit<L: Lanes>(x: Lane<L, f64>, unit: Lane<L, f64>) -> Lane<L, f64> {
    x * unit.gt(1.0).select(1.0 / FAR, unit.lt(1.0).select(Lane::real(FAR), Lane::one()))
}

/// One number more.
#[inline(always)]
fn with_square<L: Lanes, P: Prim>(s: Squares<L>, x: Lane<L, P>) -> Squares<L> {
    let x = x.cast::<f64>();
    if P::DTYPE != DType::F64 {
        return (s.0, x.mul_add(x, s.1));
    }
    let unit = unit_of::<L, P>(x.abs());
    let x = in_unit(x, unit);
    both_squares::<L, P>(s, (unit, x * x))
}

/// The sum of both, in the larger unit.
#[inline(always)]
fn both_squares<L: Lanes, P: Prim>(a: Squares<L>, b: Squares<L>) -> Squares<L> {
    if P::DTYPE != DType::F64 {
        return (a.0, a.1 + b.1);
    }
    let unit = a.0.max(b.0);
    let (a_in, b_in) = (in_unit(a.0, unit), in_unit(b.0, unit));
    (unit, a.1 * a_in * a_in + b.1 * b_in * b_in)
}

/// `Σ x²` of some values: in the unit 1, and once more where that is too large or has lost digits.
#[inline(always)]
fn squares<P: Real>(values: &[P]) -> Squares<Run> {
    let sum = sum_of_squares(values, |x| x);
    if P::DTYPE != DType::F64 || (2f64.powi(-900)..=2f64.powi(900)).contains(&sum) {
        return (Lane(1.0), Lane(sum));
    }
    let largest = values.iter().fold(0.0, |largest, x| f64::max(largest, x.cast::<f64>().abs()));
    let unit = unit_of::<Run, P>(Lane(largest));
    let inverse = 1.0 / unit.value();
    (unit, Lane(sum_of_squares(values, |x| x * inverse)))
}

/// `Σ f(x)²`.
#[inline(always)]
fn sum_of_squares<P: Real>(values: &[P], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; SUMS];
    let (chunks, rest) = values.as_chunks::<SUMS>();
    for chunk in chunks {
        for j in 0..SUMS {
            let x = f(chunk[j].cast::<f64>());
            sums[j] += x * x;
        }
    }
    let mut last = 0.0;
    for x in rest {
        let x = f(x.cast::<f64>());
        last += x * x;
    }
    joined(&sums) + last
}

/// Reducers of norms. The states are f64.
macro_rules! reducers {
    ($($(#[$doc:meta])* $R:ident: $name:literal -> $out:ident, state $state:ty, $identity:expr; |$s:ident, $x:ident| $absorb:expr; |$a:ident, $b:ident| $combine:expr; |$f:ident| $finish:expr; $([by_slice $of_slice:ident, $slices:ident])?)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $R;
        impl<T: Float> Reducer<T> for $R {
            const NAME: &'static str = $name;
            const NEEDS_ELEMENTS: bool = false;
            type Out = $out;
            type State<L: Lanes> = $state;
            #[inline(always)]
            fn identity<L: Lanes>() -> $state { $identity }
            #[inline(always)]
            fn absorb<L: Lanes>($s: $state, $x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> $state { $absorb }
            #[inline(always)]
            fn combine<L: Lanes>($a: $state, $b: $state) -> $state { $combine }
            #[inline(always)]
            fn finish<L: Lanes>($f: $state, _: Lane<L, i64>) -> Lane<L, Compute<$out>> { ($finish).cast() }
            $(const BY_SLICE: bool = true;
            #[inline(always)]
            fn of_slice(values: &[Compute<T>], _: usize) -> Self::State<Run> { $of_slice(values) }
            #[cfg(debug_assertions)]
            fn slice() -> Option<SliceFn> { super::slices::$slices(<Compute<T> as Prim>::DTYPE) }
            #[cfg(all(not(debug_assertions), feature = "dynamic"))]
            fn slice() -> Option<SliceFn> { Some(slice_of::<T, Self>) })?
        }
    )* };
}
reducers! {
    /// The reducer of [`Norms::norm`].
    Norm: "norm" -> T, state Squares<L>, no_squares::<L, Compute<T>>();
    |s, x| with_square(s, x); |a, b| both_squares::<L, Compute<T>>(a, b); |s| s.1.sqrt() * s.0; [by_slice squares, norm]
    /// The same as an f64, which the norm of an f32 may need.
    NormF64: "norm" -> f64, state Squares<L>, no_squares::<L, Compute<T>>();
    |s, x| with_square(s, x); |a, b| both_squares::<L, Compute<T>>(a, b); |s| s.1.sqrt() * s.0; [by_slice squares, norm]
    /// The reducer of [`Norms::norm_one`].
    NormOne: "norm_one" -> T, state Lane<L, f64>, Lane::zero(); |s, x| s + x.cast::<f64>().abs(); |a, b| a + b; |s| s;
    /// The reducer of [`Norms::norm_max`].
    NormMax: "norm_max" -> T, state Lane<L, f64>, Lane::zero(); |s, x| s.max(x.cast::<f64>().abs()); |a, b| a.max(b); |s| s;
}

/// Norms, each a method with one that writes into what is there.
macro_rules! norms {
    ($($(#[$doc:meta])* fn $name:ident, $name_into:ident = $R:ident;)*) => {
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
                self.reduce_into($R, axes, out).map_err(|error| error.renamed(stringify!($name_into)))
            }
        )* }
        impl<X: Reduce<T, RANK, D>, T, const RANK: usize, D: Device> Norms<T, RANK, D> for X {}
    };
}
norms! {
    /// `√ Σ x²`: Euclid's, Frobenius'. Neither overflows nor loses digits where the norm itself is a number.
    fn norm, norm_into = Norm;
    /// `Σ |x|`.
    fn norm_one, norm_one_into = NormOne;
    /// `max |x|`.
    fn norm_max, norm_max_into = NormMax;
}

/// What magnitudes are divided by: the number, or 1 where that is 0 or infinite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit;

impl Op<(f64,)> for Unit {
    const NAME: &'static str = "norm_p";
    type Out = f64;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, f64>,)) -> Lane<L, f64> {
        (x.gt(Lane::zero()) & x.lt(Lane::highest())).select(x, Lane::one())
    }
}

/// 1 but for 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsNotZero;

impl<T: Float> Op<(T,)> for IsNotZero {
    const NAME: &'static str = "norm_p";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<T>> {
        x.eq(Lane::zero()).select(Lane::zero(), Lane::one())
    }
}

/// The order of a norm, which is a number.
pub(super) fn order_of<T: Float>(op: &'static str, p: T) -> Result<f64> {
    let p = num_traits::ToPrimitive::to_f64(&p).filter(|p| !p.is_nan());
    p.ok_or_else(|| Error::Value { op, what: text(format_args!("the norm of p = NaN")) })
}

/// Methods of views, and of tensors by way of them, each with the one that writes into what is there.
macro_rules! products {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $into:ident [$($generics:tt)*] ($($arg:ident: $type:ty),*) -> $rank:tt where [$($bound:tt)*]
        = |$op:ident, $x:ident, $place:ident| $body:expr;
    )*) => { $(
        impl<T: Number, const RANK: usize, D: Device> Tensor<T, RANK, D> {
            $(#[$doc])*
            pub fn $name<$($generics)*>(&self, $($arg: $type),*) -> Result<Tensor<T, $rank, D>> where $($bound)* {
                self.view().$name($($arg),*)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), into an existing tensor or exclusive view.")]
            ///
            /// # Errors
            /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
            pub fn $into<'o, $($generics)*>(&self, $($arg: $type,)* out: impl Writable<'o, T, $rank, D>) -> Result<()> where D: 'o, $($bound)* {
                self.view().$into($($arg,)* out)
            }
        }
        impl<T: Number, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $name<$($generics)*>(self, $($arg: $type),*) -> Result<Tensor<T, $rank, D>> where $($bound)* {
                let ($op, $x, $place) = (stringify!($name), self, Fresh);
                $body
            }
            #[doc = concat!("See [`Tensor::", stringify!($into), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $into<'o, $($generics)*>(self, $($arg: $type,)* out: impl Writable<'o, T, $rank, D>) -> Result<()> where D: 'o, $($bound)* {
                let ($op, $x, $place) = (stringify!($into), self, There(out));
                $body
            }
        }
    )* };
}
products! {
    /// `(Σ |x|^p)^(1/p)` over some axes, in f64 and in units of the largest (for `p < 0` the smallest) magnitude, so that no power overflows.
    ///
    /// `p` of ∞ gives the largest magnitude, −∞ the smallest, 0 how many elements are not 0; for 1 and 2 see [`Norms`].
    /// [`norm_p_into`](Tensor::norm_p_into) allocates the sums.
    ///
    /// # Errors
    /// [`Error::Value`] for a `p` that is no number; those of [`Reductions`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, -1.0, 1.0, 1.0]);
    /// let mut y = x.norm_p(4.0, All)?;
    /// assert!((y.item()? - f64::sqrt(2.0)).abs() < 1e-14);
    /// x.norm_p_into(1.0, All, &mut y)?;
    /// assert_eq!(y.item()?, 4.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn norm_p, norm_p_into [AXES: Copy, const M: usize](p: T, axes: AXES) -> M
    where [T: Float, Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>] = |op, x, place| {
        let p = order_of(op, p)?;
        if p == f64::INFINITY {
            return x.lazy().reduce_at(op, NormMax, axes, place);
        }
        if p == f64::NEG_INFINITY {
            return x.lazy().abs().reduce_at(op, Min, axes, place);
        }
        if p == 0.0 {
            return x.lazy().map(IsNotZero).reduce_at(op, Sum, axes, place);
        }
        let magnitude = x.lazy().cast::<f64>().abs();
        let renamed = |error: Error| error.renamed(op);
        let (unit, sums) = if p > 0.0 {
            let sums = (magnitude / magnitude.along(NormMax, axes).map(Unit)).powf(p).sum(axes);
            (magnitude.reduce(NormMax, axes).map_err(renamed)?, sums.map_err(renamed)?)
        } else {
            let sums = (magnitude / magnitude.along(Min, axes).map(Unit)).powf(p).sum(axes);
            (magnitude.min(axes).map_err(renamed)?, sums.map_err(renamed)?)
        };
        (unit.lazy().map(Unit) * sums.lazy().powf(1.0 / p)).cast::<T>().eval_at(op, place)
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
    /// let mut y = x.vecdot(&x, Axis::<1>)?;
    /// assert_eq!(y.to_vec()?, [5, 25]);
    /// x.vecdot_into(&x, Axis::<0>, &mut y)?; // no allocation
    /// assert_eq!(y.to_vec()?, [10, 20]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn vecdot, vecdot_into ['b, const A: usize, const M: usize](other: impl Stored<'b, T, RANK, D>, axis: Axis<A>) -> M
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A> + RemoveAxes<Axis<A>, Output = Dim<M>>] = |op, x, place| {
        (x.lazy() * other.into_view()).reduce_at(op, Sum, axis, place)
    };

    /// The vector product along axis `A`, which has size 3.
    ///
    /// # Errors
    /// [`Error::Axis`] when the axis has another size, [`Error::Sizes`] when the operands do not broadcast,
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 0.0, 0.0]), Tensor::from([0.0, 1.0, 0.0]));
    /// let mut z = x.cross(&y, Axis::<0>)?;
    /// assert_eq!(z.to_vec()?, [0.0, 0.0, 1.0]);
    /// y.cross_into(&x, Axis::<0>, &mut z)?; // no allocation
    /// assert_eq!(z.to_vec()?, [0.0, 0.0, -1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross, cross_into ['b, const A: usize](other: impl Stored<'b, T, RANK, D>, axis: Axis<A>) -> RANK
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A>] = |op, x, place| {
        let _ = axis;
        crossed(op, x, other.into_view(), A, place)
    };
}

/// The vector product along an axis that exists.
fn crossed<T: Number, const RANK: usize, D: Device, P: Place<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: TensorView<'_, T, RANK, D>,
    axis: usize,
    place: P,
) -> Result<P::Done> {
    for sizes in [x.size().0, y.size().0] {
        if sizes[axis] != 3 {
            return Err(Error::Axis { op, axis, sizes: sizes.into() });
        }
    }
    let size = joint_size(op, x.size(), y.size())?;
    same_device(op, x.device(), y.device())?;
    x.ready(op)?;
    y.ready(op)?;
    place.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |out| {
        let (x, y) = (|i: usize| x.slice_axis(axis, i..i + 1, 1), |i: usize| y.slice_axis(axis, i..i + 1, 1));
        for (i, j, k) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
            let part = out.reborrow().slice_axis(axis, i..i + 1, 1)?;
            (x(j)?.lazy() * y(k)? - x(k)?.lazy() * y(j)?).eval_into(part)?;
        }
        Ok(())
    })
}

/// `Σ x[i, i]`.
fn diagonal_sum<T: Number, D: Device, P: Place<T, 0, D>>(op: &'static str, x: TensorView<'_, T, 2, D>, place: P) -> Result<P::Done> {
    x.diagonal(Axis::<0>, Axis::<1>)?.lazy().reduce_at(op, Sum, Axis::<0>, place)
}

/// Kronecker's product.
fn kronecker<T: Number, D: Device, P: Place<T, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    y: TensorView<'_, T, 2, D>,
    place: P,
) -> Result<P::Done> {
    let (Dim([m, n]), Dim([p, q])) = (x.size(), y.size());
    let size = Dim([m.saturating_mul(p), n.saturating_mul(q)]);
    place.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |out| {
        let blocks = out.reborrow().reshape([m, p, n, q]).map_err(|error| error.renamed(op))?;
        labelled(op, [b"ij", b"kl", b"ikjl"], x, y, There(blocks))
    })
}

/// A square matrix times itself, `n` factors.
fn power<T: Number, D: Device, P: Place<T, 2, D>>(op: &'static str, x: TensorView<'_, T, 2, D>, n: u32, place: P) -> Result<P::Done> {
    x.ready(op)?;
    let (sizes, device) = (x.size().0, x.device());
    if sizes[0] != sizes[1] {
        return Err(Error::Inner { op, inner: [sizes[1], sizes[0]], left: sizes.into(), right: sizes.into() });
    }
    place.put(op, Layout::row_major_of(op, x.size(), size_of::<T>())?, device, |out| {
        if n == 0 {
            out.fill(T::zero())?;
            return out.reborrow().diagonal(Axis::<0>, Axis::<1>)?.fill(T::one());
        }
        // Squares for the bits of `n`, the product of those that are set; the last product of all goes to `out`.
        let (mut square, mut product): (Option<Tensor<T, 2, D>>, Option<Tensor<T, 2, D>>) = (None, None);
        for bit in 0..n.ilog2() {
            let last = square.as_ref().map_or(x, Tensor::view);
            if n >> bit & 1 == 1 {
                product = Some(match &product {
                    Some(product) => product.matmul(last)?,
                    None => last.copy()?,
                });
            }
            if n == 2 << bit {
                return last.matmul_into(last, out);
            }
            square = Some(last.matmul(last)?);
        }
        let last = square.as_ref().map_or(x, Tensor::view);
        match product {
            Some(product) => product.matmul_into(last, out),
            None => out.assign(last),
        }
    })
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

    /// As [`outer`](Tensor::outer), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`outer`](Tensor::outer); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 2>::zeros([2, 3], &Cpu)?;
    /// Tensor::from([1, 2]).outer_into(&Tensor::from([3, 4, 5]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[3, 4, 5], [6, 8, 10]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn outer_into<'b, 'o>(&self, other: impl Stored<'b, T, 1, D>, out: impl Writable<'o, T, 2, D>) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        labelled("outer_into", [b"i", b"j", b"ij"], self.view(), other.into_view(), There(out))
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
        diagonal_sum("trace", self.view(), Fresh)
    }

    /// As [`trace`](Tensor::trace), into an existing tensor or exclusive view of rank 0. No allocation.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::Shared`] when `out` has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut traces = Tensor::from([0, 0]);
    /// Tensor::from([[1, 2, 3], [4, 5, 6]]).trace_into(traces.view_mut()?.slice((1,))?)?;
    /// assert_eq!(traces.to_vec()?, [0, 6]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn trace_into<'o>(&self, out: impl Writable<'o, T, 0, D>) -> Result<()>
    where
        D: 'o,
    {
        diagonal_sum("trace_into", self.view(), There(out))
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
        kronecker("kron", self.view(), other.into_view(), Fresh)
    }

    /// As [`kron`](Tensor::kron), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`kron`](Tensor::kron); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 2>::zeros([2, 4], &Cpu)?;
    /// Tensor::from([[1, 2]]).kron_into(&Tensor::from([[1, 0], [0, 1]]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 0, 2, 0], [0, 1, 0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn kron_into<'b, 'o>(&self, other: impl Stored<'b, T, 2, D>, out: impl Writable<'o, T, 2, D>) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        kronecker("kron_into", self.view(), other.into_view(), There(out))
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
        power("matrix_power", self.view(), n, Fresh)
    }

    /// As [`matrix_power`](Tensor::matrix_power), into an existing tensor or exclusive view. Powers on the way are allocated.
    ///
    /// # Errors
    /// As [`matrix_power`](Tensor::matrix_power); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has
    /// other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[0_u64; 2]; 2]);
    /// Tensor::from([[1_u64, 1], [1, 0]]).matrix_power_into(10, &mut y)?;
    /// assert_eq!(y, Tensor::from([[89, 55], [55, 34]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matrix_power_into<'o>(&self, n: u32, out: impl Writable<'o, T, 2, D>) -> Result<()>
    where
        D: 'o,
    {
        power("matrix_power_into", self.view(), n, There(out))
    }
}
