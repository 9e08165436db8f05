//! 16-bit floats: a number is its bits; arithmetic is that of `f32`, rounded to nearest even.
//!
//! Imports: nothing.

use num_traits::{Bounded, Float, FromPrimitive, Num, NumCast, One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::fmt;
use std::num::FpCategory;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign};

/// f16 to f32, exactly: normal numbers by their exponent, subnormal ones by a subtraction.
#[inline(always)]
pub(crate) fn widen_f16(bits: u16) -> f32 {
    let word = (bits as u32) << 16;
    let twice = word.wrapping_add(word);
    let normal = f32::from_bits((twice >> 4).wrapping_add(0xe0 << 23)) * f32::from_bits(0x0780_0000);
    let subnormal = f32::from_bits((twice >> 17) | (126 << 23)) - 0.5;
    let size = if twice < 1 << 27 { subnormal.to_bits() } else { normal.to_bits() };
    // A NaN that was multiplied may have any sign.
    f32::from_bits((word & 0x8000_0000) | (size & 0x7fff_ffff))
}

/// f32 to f16, to nearest even: normal numbers by adding just under half of what is cut off, subnormal ones by an addition to
/// 0.5, whose last place is the smallest of them. A NaN keeps its sign and is quiet.
#[inline(always)]
pub(crate) fn narrow_f16(value: f32) -> u16 {
    let (size, sign) = (value.to_bits() & 0x7fff_ffff, value.to_bits() >> 16 & 0x8000);
    let even = size >> 13 & 1;
    let normal = size.wrapping_add(0xfff + even).wrapping_sub(112 << 23) >> 13;
    let subnormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(126 << 23);
    let finite = if size < 113 << 23 { subnormal } else { normal };
    let number = if size < 143 << 23 { finite } else { 0x7c00 };
    let quiet = 0x7e00 | size >> 13 & 0x3ff;
    (sign | if size > 0x7f80_0000 { quiet } else { number }) as u16
}

/// bf16 to f32, exactly.
#[inline(always)]
pub(crate) fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// f32 to bf16, to nearest even, by adding just under half; a NaN keeps its sign and stays quiet.
#[inline(always)]
pub(crate) fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x0040;
    if value.is_nan() { quiet } else { rounded }
}

/// f64 to f32 so that what is rounded again is rounded once: what is cut off leaves its trace in the last place.
fn sticky(value: f64) -> f32 {
    let near = value as f32;
    let exact = near as f64 == value || !near.is_finite() || value.is_nan();
    let towards_zero = if (near as f64).abs() > value.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    if exact { near } else { f32::from_bits(towards_zero.to_bits() | 1) }
}

macro_rules! halves {
    ($($(#[$doc:meta])* $t:ident: $widen:ident, $narrow:ident, $one:literal, $infinity:literal, $nan:literal, $max:literal, $least:literal, $epsilon:literal;)*) => { $(
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $t(u16);

        // SAFETY: a transparent u16: any bits are a number.
        unsafe impl bytemuck::Zeroable for $t {}
        // SAFETY: as above.
        unsafe impl bytemuck::Pod for $t {}

        #[allow(missing_docs)]
        impl $t {
            pub const ZERO: Self = Self(0);
            pub const NEG_ZERO: Self = Self(0x8000);
            pub const ONE: Self = Self($one);
            pub const NEG_ONE: Self = Self($one | 0x8000);
            pub const INFINITY: Self = Self($infinity);
            pub const NEG_INFINITY: Self = Self($infinity | 0x8000);
            pub const NAN: Self = Self($nan);
            pub const MAX: Self = Self($max);
            pub const MIN: Self = Self($max | 0x8000);
            pub const MIN_POSITIVE: Self = Self($least);
            pub const EPSILON: Self = Self($epsilon);

            /// The number of these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u16) -> Self { Self(bits) }
            /// The bits of the number.
            #[inline(always)]
            pub const fn to_bits(self) -> u16 { self.0 }
            /// The nearest number.
            #[inline]
            pub fn from_f32(value: f32) -> Self { Self($narrow(value)) }
            /// The nearest number.
            #[inline]
            pub fn from_f64(value: f64) -> Self { Self($narrow(sticky(value))) }
            #[inline]
            pub fn to_f32(self) -> f32 { $widen(self.0) }
            #[inline]
            fn wide(self) -> f32 { $widen(self.0) }
            #[inline]
            pub fn to_f64(self) -> f64 { self.wide() as f64 }
            #[inline]
            pub fn is_nan(self) -> bool { self.0 & 0x7fff > $infinity }
            #[inline]
            pub fn is_infinite(self) -> bool { self.0 & 0x7fff == $infinity }
            #[inline]
            pub fn is_finite(self) -> bool { self.0 & 0x7fff < $infinity }
            #[inline]
            pub fn is_sign_negative(self) -> bool { self.0 & 0x8000 != 0 }
            #[inline]
            pub fn is_sign_positive(self) -> bool { self.0 & 0x8000 == 0 }
            #[inline]
            pub fn total_cmp(&self, other: &Self) -> Ordering { self.wide().total_cmp(&other.wide()) }
        }

        impl PartialEq for $t {
            #[inline]
            fn eq(&self, other: &Self) -> bool { self.wide() == other.wide() }
        }
        impl PartialOrd for $t {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> { self.wide().partial_cmp(&other.wide()) }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Debug::fmt(&self.wide(), f) }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(&self.wide(), f) }
        }
        impl fmt::LowerExp for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::LowerExp::fmt(&self.wide(), f) }
        }
        impl std::str::FromStr for $t {
            type Err = std::num::ParseFloatError;
            fn from_str(text: &str) -> Result<Self, Self::Err> { text.parse().map(Self::from_f32) }
        }
        impl From<$t> for f32 {
            #[inline]
            fn from(x: $t) -> f32 { x.wide() }
        }
        impl From<$t> for f64 {
            #[inline]
            fn from(x: $t) -> f64 { x.wide() as f64 }
        }
        impl From<i8> for $t {
            #[inline]
            fn from(x: i8) -> $t { Self::from_f32(x.into()) }
        }
        impl From<u8> for $t {
            #[inline]
            fn from(x: u8) -> $t { Self::from_f32(x.into()) }
        }
        impl Neg for $t {
            type Output = Self;
            #[inline]
            fn neg(self) -> Self { Self(self.0 ^ 0x8000) }
        }
        halves!(@operators $t Add add AddAssign add_assign, Sub sub SubAssign sub_assign, Mul mul MulAssign mul_assign, Div div DivAssign div_assign, Rem rem RemAssign rem_assign);
        impl std::iter::Sum for $t {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self { Self::from_f32(all.map(Self::wide).sum()) }
        }
        impl std::iter::Product for $t {
            fn product<I: Iterator<Item = Self>>(all: I) -> Self { Self::from_f32(all.map(Self::wide).product()) }
        }

        impl Zero for $t {
            fn zero() -> Self { Self::ZERO }
            fn is_zero(&self) -> bool { *self == Self::ZERO }
        }
        impl One for $t {
            fn one() -> Self { Self::ONE }
        }
        impl Num for $t {
            type FromStrRadixErr = <f32 as Num>::FromStrRadixErr;
            fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
                <f32 as Num>::from_str_radix(text, radix).map(Self::from_f32)
            }
        }
        impl ToPrimitive for $t {
            fn to_i64(&self) -> Option<i64> { ToPrimitive::to_i64(&self.wide()) }
            fn to_u64(&self) -> Option<u64> { ToPrimitive::to_u64(&self.wide()) }
            fn to_f32(&self) -> Option<f32> { Some(self.wide()) }
            fn to_f64(&self) -> Option<f64> { Some(self.wide() as f64) }
        }
        impl FromPrimitive for $t {
            fn from_i64(n: i64) -> Option<Self> { Some(Self::from_f64(n as f64)) }
            fn from_u64(n: u64) -> Option<Self> { Some(Self::from_f64(n as f64)) }
            fn from_f32(n: f32) -> Option<Self> { Some(Self::from_f32(n)) }
            fn from_f64(n: f64) -> Option<Self> { Some(Self::from_f64(n)) }
        }
        impl NumCast for $t {
            fn from<N: ToPrimitive>(n: N) -> Option<Self> { n.to_f64().map(Self::from_f64) }
        }
        impl Bounded for $t {
            fn min_value() -> Self { Self::MIN }
            fn max_value() -> Self { Self::MAX }
        }
        impl Signed for $t {
            fn abs(&self) -> Self { Self(self.0 & 0x7fff) }
            fn abs_sub(&self, other: &Self) -> Self { if *self <= *other { Self::ZERO } else { *self - *other } }
            fn signum(&self) -> Self { Self::from_f32(self.wide().signum()) }
            fn is_positive(&self) -> bool { self.is_sign_positive() }
            fn is_negative(&self) -> bool { self.is_sign_negative() }
        }
        impl Float for $t {
            fn nan() -> Self { Self::NAN }
            fn infinity() -> Self { Self::INFINITY }
            fn neg_infinity() -> Self { Self::NEG_INFINITY }
            fn neg_zero() -> Self { Self::NEG_ZERO }
            fn min_value() -> Self { Self::MIN }
            fn min_positive_value() -> Self { Self::MIN_POSITIVE }
            fn max_value() -> Self { Self::MAX }
            fn epsilon() -> Self { Self::EPSILON }
            fn is_nan(self) -> bool { self.is_nan() }
            fn is_infinite(self) -> bool { self.is_infinite() }
            fn is_finite(self) -> bool { self.is_finite() }
            fn is_normal(self) -> bool { self.classify() == FpCategory::Normal }
            fn classify(self) -> FpCategory {
                match self.0 & 0x7fff {
                    0 => FpCategory::Zero,
                    bits if bits < $least => FpCategory::Subnormal,
                    bits if bits < $infinity => FpCategory::Normal,
                    $infinity => FpCategory::Infinite,
                    _ => FpCategory::Nan,
                }
            }
            fn abs(self) -> Self { Self(self.0 & 0x7fff) }
            fn is_sign_positive(self) -> bool { self.is_sign_positive() }
            fn is_sign_negative(self) -> bool { self.is_sign_negative() }
            halves!(@by_f32 floor ceil round trunc fract signum recip sqrt exp exp2 ln log2 log10 cbrt sin cos tan asin acos atan exp_m1 ln_1p sinh cosh tanh asinh acosh atanh);
            halves!(@by_f32_two powf log max min hypot atan2);
            fn abs_sub(self, other: Self) -> Self { if self <= other { Self::ZERO } else { self - other } }
            fn mul_add(self, a: Self, b: Self) -> Self { Self::from_f32(self.wide().mul_add(a.wide(), b.wide())) }
            fn powi(self, n: i32) -> Self { Self::from_f32(self.wide().powi(n)) }
            fn sin_cos(self) -> (Self, Self) {
                let (sin, cos) = self.wide().sin_cos();
                (Self::from_f32(sin), Self::from_f32(cos))
            }
            fn integer_decode(self) -> (u64, i16, i8) { Float::integer_decode(self.wide()) }
        }
    )* };
    (@operators $t:ident $($Operator:ident $operator:ident $Assign:ident $assign:ident),*) => { $(
        impl $Operator for $t {
            type Output = Self;
            #[inline]
            fn $operator(self, other: Self) -> Self { Self::from_f32($Operator::$operator(self.wide(), other.wide())) }
        }
        impl $Assign for $t {
            #[inline]
            fn $assign(&mut self, other: Self) { *self = $Operator::$operator(*self, other) }
        }
    )* };
    (@by_f32 $($name:ident)*) => { $(fn $name(self) -> Self { Self::from_f32(f32::$name(self.wide())) })* };
    (@by_f32_two $($name:ident)*) => { $(fn $name(self, other: Self) -> Self { Self::from_f32(f32::$name(self.wide(), other.wide())) })* };
}
halves! {
    /// IEEE 754's 16-bit float: 5 bits of exponent, 10 of fraction.
    f16: widen_f16, narrow_f16, 0x3c00, 0x7c00, 0x7e00, 0x7bff, 0x0400, 0x1400;
    /// The upper half of an `f32`: 8 bits of exponent, 7 of fraction.
    bf16: widen_bf16, narrow_bf16, 0x3f80, 0x7f80, 0x7fc0, 0x7f7f, 0x0080, 0x3c00;
}
