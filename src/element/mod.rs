//! Elements of numeric tensors: the type in memory, the compute type, and the conversions between them.
// Imports: `dtype`, `scalar`.

pub(crate) mod float8;
mod half;
mod quantized_int;

pub use float8::*;
pub use half::{bf16, f16};
pub use quantized_int::{QInt8, QInt32, QUInt8};

use crate::dtype::DType;
use crate::scalar::{Bits, ComplexPrim, IntegerPrim, Lane, Lanes, Num, Ordered, Prim, Real};
use num_complex::Complex;
use std::fmt;

/// A number or boolean that kernels compute with, on every device.
///
/// # Safety
/// 1. The value of zero bytes is valid. A value has no padding and at most 16 bytes, and the same holds for
///    its [`Compute`] type.
/// 2. `DTYPE` names the layout of the bytes: size and alignment are those of the crate's own element of that
///    name, and the bytes of every element of that name are a value of this type, and the reverse. Kernels
///    rely on this where they pack elements in blocks.
/// 3. `PLAIN` is set only if its condition holds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a numeric element",
    label = "kernels compute with bool, i8…i64, u8…u64, usize, f16, bf16, f32, f64, Complex<f16>, \
             Complex<f32> and Complex<f64>",
    note = "a tensor is an operand by reference: `&x`",
    note = "from a vector or slice of numbers: `Tensor::from_vec(values, [n])`, `Tensor::from_slice(&values, \
            [n], &Cpu)`",
    note = "elements of any other type can be stored, viewed and shared on the CPU, but not computed with: \
            `Tensor::from_vec`"
)]
pub unsafe trait Element:
    Copy
    + Default
    + PartialEq
    + Send
    + Sync
    + fmt::Debug
    + fmt::Display
    + bytemuck::NoUninit
    + bytemuck::CheckedBitPattern
    + bytemuck::Zeroable
    + 'static
{
    /// The type in which bodies compute: the type itself, or `f32` for 16-bit floats.
    type Compute: Prim;
    /// Its name at run time.
    const DTYPE: DType;
    /// Whether `DTYPE` describes it completely: `widen` and `narrow` are the casts between the type that
    /// `DTYPE` names and its compute type, which is `Compute`. A GPU identifies elements by `DTYPE` alone and
    /// refuses to compute with others ([`Error::Value`](crate::Error::Value)).
    const PLAIN: bool = false;
    /// Converts to the compute type, exactly.
    fn widen(self) -> Self::Compute;
    /// Converts from the compute type, rounded to nearest even. Like `widen` it must accept every value,
    /// because loops may process more elements than requested.
    fn narrow(value: Self::Compute) -> Self;
}

/// The compute type of an element `T`.
pub type Compute<T> = <T as Element>::Compute;

/// An element with a conjugate and real parts. A real number and a boolean are their own conjugate and real
/// part; only a complex number has an imaginary part other than 0. One definition therefore serves all of
/// them.
///
/// # Examples
/// ```
/// use num_complex::Complex;
/// use rankform::prelude::*;
/// /// Σ |x|², of real and of complex numbers.
/// fn energy<T: Inexact>(x: &Tensor<T, 1>) -> Result<Tensor<T::Real, 0>> {
///     (x.lazy().modulus() * x.lazy().modulus()).sum(All)
/// }
/// assert_eq!(energy(&Tensor::from([3.0, -4.0]))?.item()?, 25.0);
/// assert_eq!(energy(&Tensor::from([Complex::new(3.0_f64, -4.0)]))?.item()?, 25.0);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no real and imaginary part",
    label = "this operator needs numbers or truth values, not `{Self}`",
    note = "an element of one's own has them if it is `Comparable`, or says so: `impl Conjugate for \
            MyElement {{ type Real = Self; }}`"
)]
pub trait Conjugate: Element {
    /// The element type of its parts.
    type Real: Element;
    /// The real part.
    #[inline(always)]
    fn re<L: Lanes>(x: Lane<L, Compute<Self>>) -> Lane<L, Compute<Self::Real>> {
        x.cast()
    }
    /// The imaginary part.
    #[inline(always)]
    fn im<L: Lanes>(_: Lane<L, Compute<Self>>) -> Lane<L, Compute<Self::Real>> {
        Lane::literal(Default::default())
    }
    /// The conjugate.
    #[inline(always)]
    fn conj<L: Lanes>(x: Lane<L, Compute<Self>>) -> Lane<L, Compute<Self>> {
        x
    }
    /// Applies `f` to each part, and returns the number with the resulting parts.
    #[inline(always)]
    fn each_part<L: Lanes>(
        x: Lane<L, Compute<Self>>,
        f: impl Fn(Lane<L, Compute<Self::Real>>) -> Lane<L, Compute<Self::Real>>,
    ) -> Lane<L, Compute<Self>> {
        f(x.cast()).cast()
    }
}

/// A number that may be a fraction: a floating-point or complex number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a floating-point element nor a complex one",
    label = "this operator needs f16, bf16, f32, f64, or a complex number, not `{Self}`",
    note = "numbers and booleans are converted first: `.cast::<f32>()?`"
)]
pub trait Inexact: Number + Conjugate<Real = <Self as Inexact>::Part> {
    /// The element type of its parts: a floating-point element's own.
    type Part: Float;
}

/// An element with `+ - * /`: integers, floats, complex numbers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number",
    label = "this operator needs integers, floats or complex numbers, not `{Self}`",
    note = "a tensor is an operand by reference: `&x`",
    note = "numbers and booleans are converted first: `.cast::<f32>()?`"
)]
pub trait Number: Element<Compute: Num> + num_traits::Num {
    /// The type of running sums and products: f64 for floats, `Complex<f64>` for complex numbers, the compute
    /// type for integers.
    type Running: Num;
}

/// An element with an order: integers, floats, and booleans, of which `false` is the smaller.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order",
    label = "this operator compares elements: integers, floats or booleans, not `{Self}`"
)]
pub trait Comparable: Element<Compute: Ordered> + PartialOrd {}

/// A number with an order: integers and floats.
pub trait RealNumber: Number + Comparable {}
impl<T: Number + Comparable> RealNumber for T {}

/// A floating-point element: f16, bf16, f32, f64. In generic code a number is
/// [`T::constant(0.5)`](Float::constant).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element",
    label = "this operator needs f16, bf16, f32 or f64, not `{Self}`",
    note = "a tensor is an operand by reference: `&x`",
    note = "numbers and booleans are converted first: `.cast::<f32>()?`"
)]
pub trait Float:
    RealNumber<Compute: Real> + Inexact<Part = Self> + Conjugate<Real = Self> + num_traits::Float
{
    /// A number, rounded once to nearest even: a constant in generic code. In a body of an operator a literal
    /// suffices: `x * 0.5`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// fn halved<T: Float, const RANK: usize, D: Device>(
    ///     x: &Tensor<T, RANK, D>,
    /// ) -> Result<Tensor<T, RANK, D>> {
    ///     x.mul(T::constant(0.5))
    /// }
    /// assert_eq!(halved(&Tensor::from([3.0_f32, 4.0]))?.to_vec()?, [1.5, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "from_f64")]
    #[inline]
    fn constant(value: f64) -> Self {
        num_traits::NumCast::from(value).unwrap_or_else(|| Self::narrow(Prim::from_f64(value)))
    }
}

/// An element whose products with the element `LEFT` have their own wider element.
#[diagnostic::on_unimplemented(
    message = "products of `{LEFT}` and `{Self}` have no wider element",
    label = "there are rows for i8 and u8 in every pair, and for i16, u16, i32, u32, f16, bf16 and f32 with \
             themselves",
    note = "`matmul` sums in the element itself; other pairs are cast first: `.cast::<i8>()?`"
)]
pub trait WideningMul<LEFT>: Number {
    /// The wider element.
    type Wide: Number;
}

macro_rules! wider {
    ($($left:ty, $right:ty => $out:ty;)*) => { $(impl WideningMul<$left> for $right { type Wide = $out; })* };
}
wider! {
    i8, i8 => i32;
    u8, i8 => i32;
    i8, u8 => i32;
    u8, u8 => u32;
    i16, i16 => i32;
    u16, u16 => u32;
    i32, i32 => i64;
    u32, u32 => u64;
    f16, f16 => f32;
    bf16, bf16 => f32;
    f32, f32 => f64;
}

/// An integer element.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer element",
    label = "this operator needs i8…i64 or u8…u64, not `{Self}`",
    note = "for a power of floats there is `powf`"
)]
pub trait Integer: RealNumber<Compute: IntegerPrim> {}

/// An element whose values are bits: integers and booleans.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bits to combine",
    label = "this operator needs integers or booleans, not `{Self}`"
)]
pub trait Bitwise: Element<Compute: Bits> {}

/// A complex element.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a complex element",
    label = "this operator needs a complex number, not `{Self}`"
)]
pub trait ComplexElement:
    Inexact + Number<Compute: ComplexPrim<Part = Compute<<Self as Inexact>::Part>>>
{
}

macro_rules! elements {
    ($($t:ty)*) => { $(
        // SAFETY: (1) a primitive number or a pair of them: zero bytes are 0, without padding; (2) `DTYPE` is
        // the type's own.
        unsafe impl Element for $t {
            type Compute = $t;
            const DTYPE: DType = <$t as Prim>::DTYPE;
            const PLAIN: bool = true;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(value: $t) -> $t { value }
        }
    )* };
}
elements!(bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 Complex<f32> Complex<f64>);

#[cfg(target_pointer_width = "64")]
type Pointer = u64;
#[cfg(target_pointer_width = "32")]
type Pointer = u32;

// SAFETY: (1) an integer; (2) it has the size and alignment of the integer type whose name it has.
unsafe impl Element for usize {
    type Compute = Pointer;
    const DTYPE: DType = <Pointer as Prim>::DTYPE;
    const PLAIN: bool = true;
    #[inline(always)]
    fn widen(self) -> Pointer {
        self as Pointer
    }
    #[inline(always)]
    fn narrow(value: Pointer) -> usize {
        value as usize
    }
}

macro_rules! classes {
    ($($class:ident: $($t:ty)*;)*) => { $($(impl $class for $t {})*)* };
}
classes! {
    Comparable: bool i8 i16 i32 i64 u8 u16 u32 u64 usize f16 bf16 f32 f64;
    Float: f16 bf16 f32 f64;
    Integer: i8 i16 i32 i64 u8 u16 u32 u64 usize;
    Bitwise: bool i8 i16 i32 i64 u8 u16 u32 u64 usize;
}
macro_rules! numbers {
    ($($running:ty: $($t:ty)*;)*) => { $($(impl Number for $t { type Running = $running; })*)* };
}
numbers! {
    f64: f16 bf16 f32 f64;
    Complex<f64>: Complex<f16> Complex<f32> Complex<f64>;
    i8: i8;
    i16: i16;
    i32: i32;
    i64: i64;
    u8: u8;
    u16: u16;
    u32: u32;
    u64: u64;
    Pointer: usize;
}
macro_rules! inexact {
    ($($t:ty)*) => { $(impl Inexact for $t { type Part = $t; })* };
}
inexact!(f16 bf16 f32 f64);

// Numbers with an order are real.
impl<T: Comparable> Conjugate for T {
    type Real = T;
    #[inline(always)]
    fn re<L: Lanes>(x: Lane<L, Compute<T>>) -> Lane<L, Compute<T>> {
        x
    }
    #[inline(always)]
    fn each_part<L: Lanes>(
        x: Lane<L, Compute<T>>,
        f: impl Fn(Lane<L, Compute<T>>) -> Lane<L, Compute<T>>,
    ) -> Lane<L, Compute<T>> {
        f(x)
    }
}

macro_rules! complex {
    ($($part:ty)*) => { $(
        impl Conjugate for Complex<$part> {
            type Real = $part;
            #[inline(always)]
            fn re<L: Lanes>(x: Lane<L, Compute<Self>>) -> Lane<L, Compute<$part>> { x.re() }
            #[inline(always)]
            fn im<L: Lanes>(x: Lane<L, Compute<Self>>) -> Lane<L, Compute<$part>> { x.im() }
            #[inline(always)]
            fn conj<L: Lanes>(x: Lane<L, Compute<Self>>) -> Lane<L, Compute<Self>> { x.conj() }
            #[inline(always)]
            fn each_part<L: Lanes>(
                x: Lane<L, Compute<Self>>,
                f: impl Fn(Lane<L, Compute<$part>>) -> Lane<L, Compute<$part>>,
            ) -> Lane<L, Compute<Self>> { Lane::complex(f(x.re()), f(x.im())) }
        }
        impl Inexact for Complex<$part> {
            type Part = $part;
        }
        impl ComplexElement for Complex<$part> {}
    )* };
}
complex!(f16 f32 f64);
