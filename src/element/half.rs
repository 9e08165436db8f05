//! The 16-bit floats [`f16`] and [`bf16`]: stored in two bytes, computed with as `f32`, rounded to nearest even.
//!
//! Conversions are integer steps without branches, which vectorise. The processor's instructions for them convert one
//! element, or need a feature that is chosen at run time.
//!
//! Imports: `dtype`, `element`.

use super::Element;
use crate::dtype::DType;
use num_complex::Complex;
use num_traits::{Bounded, Float, FromPrimitive, Num, NumCast, One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::fmt;
use std::num::FpCategory;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign};

/// The exact value of an f16. A normal number is scaled by a power of two, a subnormal one is found by a subtraction.
#[inline(always)]
const fn widen_f16(bits: u16) -> f32 {
    let word = (bits as u32) << 16;
    let twice = word.wrapping_add(word);
    let normal = f32::from_bits((twice >> 4).wrapping_add(0xe0 << 23)) * f32::from_bits(0x0780_0000);
    let subnormal = f32::from_bits((twice >> 17) | (126 << 23)) - 0.5;
    let magnitude = if twice < 1 << 27 { subnormal.to_bits() } else { normal.to_bits() };
    // The product of a NaN may have either sign.
    f32::from_bits((word & 0x8000_0000) | (magnitude & 0x7fff_ffff))
}

/// The f16 nearest to an f32. A normal number is rounded by adding almost half a unit, a subnormal one by adding 0.5, whose
/// last place is the smallest subnormal number. A NaN keeps its sign and becomes quiet.
#[inline(always)]
const fn narrow_f16(value: f32) -> u16 {
    let (magnitude, sign) = (value.to_bits() & 0x7fff_ffff, value.to_bits() >> 16 & 0x8000);
    let even = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_add(0xfff + even).wrapping_sub(112 << 23) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(126 << 23);
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let number = if magnitude < 143 << 23 { finite } else { 0x7c00 };
    let quiet = 0x7e00 | magnitude >> 13 & 0x3ff;
    (sign | if magnitude > 0x7f80_0000 { quiet } else { number }) as u16
}

/// The exact value of a bf16: the upper half of the bits of an f32.
#[inline(always)]
const fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The bf16 nearest to an f32, by adding almost half a unit. A NaN keeps its sign and becomes quiet.
#[inline(always)]
const fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x0040;
    if value.is_nan() { quiet } else { rounded }
}

/// An f32 that rounds to the same 16-bit float as the f64: rounded to odd, so that the second rounding sees no false tie.
const fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if near as f64 == value || !near.is_finite() || value.is_nan() {
        return near;
    }
    let toward_zero = if (near as f64).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(toward_zero | 1)
}

/// An f64 that rounds to the same 16-bit float as the integer.
fn integer_to_odd(value: i128) -> f64 {
    let near = value as f64;
    if near as i128 == value {
        return near;
    }
    let toward_zero = if (near as i128).unsigned_abs() > value.unsigned_abs() { near.to_bits() - 1 } else { near.to_bits() };
    f64::from_bits(toward_zero | 1)
}

macro_rules! half_precision {
    (
        $(#[$doc:meta])* $t:ident, $dtype:ident: $widen:ident, $narrow:ident;
        ONE $one:literal, INFINITY $infinity:literal, NAN $nan:literal, MAX $max:literal,
        MIN_POSITIVE $min_positive:literal, EPSILON $epsilon:literal, DIGITS $digits:literal
    ) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $t(u16);

        // SAFETY: a transparent u16; zero bits are 0.0.
        unsafe impl bytemuck::Zeroable for $t {}
        // SAFETY: a transparent u16, of which any bits are a value.
        unsafe impl bytemuck::Pod for $t {}

        // SAFETY: a transparent u16: zeros are 0.0, there is no padding.
        unsafe impl Element for $t {
            type Compute = f32;
            const DTYPE: DType = DType::$dtype;
            const PLAIN: bool = true;
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self.0)
            }
            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self($narrow(value))
            }
        }

        impl $t {
            /// 0.
            pub const ZERO: Self = Self(0);
            /// −0.
            pub const NEG_ZERO: Self = Self(0x8000);
            /// 1.
            pub const ONE: Self = Self($one);
            /// −1.
            pub const NEG_ONE: Self = Self($one | 0x8000);
            /// ∞.
            pub const INFINITY: Self = Self($infinity);
            /// −∞.
            pub const NEG_INFINITY: Self = Self($infinity | 0x8000);
            /// A quiet NaN.
            pub const NAN: Self = Self($nan);
            /// The largest finite number.
            pub const MAX: Self = Self($max);
            /// The smallest finite number, `-MAX`.
            pub const MIN: Self = Self($max | 0x8000);
            /// The smallest positive normal number.
            pub const MIN_POSITIVE: Self = Self($min_positive);
            /// The smallest positive number, which is subnormal.
            pub const MIN_POSITIVE_SUBNORMAL: Self = Self(1);
            /// The distance from 1 to the next number.
            pub const EPSILON: Self = Self($epsilon);
            /// The binary digits of a normal number, the leading one included.
            pub const MANTISSA_DIGITS: u32 = $digits;

            /// The number with these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u16) -> Self {
                Self(bits)
            }
            /// The bits of the number.
            #[inline(always)]
            pub const fn to_bits(self) -> u16 {
                self.0
            }
            /// The nearest number; of two equally near the even one. Beyond `MAX`: ±∞.
            #[inline]
            pub const fn from_f32(value: f32) -> Self {
                Self($narrow(value))
            }
            /// The nearest number, rounded once.
            #[inline]
            pub const fn from_f64(value: f64) -> Self {
                Self($narrow(round_to_odd(value)))
            }
            /// The same number; exact.
            #[inline]
            pub const fn to_f32(self) -> f32 {
                $widen(self.0)
            }
            /// The same number; exact.
            #[inline]
            pub const fn to_f64(self) -> f64 {
                self.to_f32() as f64
            }
            /// The bytes, the lower one first.
            #[inline]
            pub const fn to_le_bytes(self) -> [u8; 2] {
                self.0.to_le_bytes()
            }
            /// The number with these bytes, the lower one first.
            #[inline]
            pub const fn from_le_bytes(bytes: [u8; 2]) -> Self {
                Self(u16::from_le_bytes(bytes))
            }
            /// Whether this is a NaN.
            #[inline]
            pub const fn is_nan(self) -> bool {
                self.0 & 0x7fff > $infinity
            }
            /// Whether this is ∞ or −∞.
            #[inline]
            pub const fn is_infinite(self) -> bool {
                self.0 & 0x7fff == $infinity
            }
            /// Whether this is neither infinite nor a NaN.
            #[inline]
            pub const fn is_finite(self) -> bool {
                self.0 & 0x7fff < $infinity
            }
            /// Whether this is neither zero, subnormal, infinite nor a NaN.
            #[inline]
            pub const fn is_normal(self) -> bool {
                matches!(self.classify(), FpCategory::Normal)
            }
            /// Its category.
            #[inline]
            pub const fn classify(self) -> FpCategory {
                match self.0 & 0x7fff {
                    0 => FpCategory::Zero,
                    bits if bits < $min_positive => FpCategory::Subnormal,
                    bits if bits < $infinity => FpCategory::Normal,
                    $infinity => FpCategory::Infinite,
                    _ => FpCategory::Nan,
                }
            }
            /// Whether its sign bit is set, as that of −0 and of some NaNs is.
            #[inline]
            pub const fn is_sign_negative(self) -> bool {
                self.0 & 0x8000 != 0
            }
            /// Whether its sign bit is not set.
            #[inline]
            pub const fn is_sign_positive(self) -> bool {
                !self.is_sign_negative()
            }
            /// Its absolute value.
            #[inline]
            pub const fn abs(self) -> Self {
                Self(self.0 & 0x7fff)
            }
            /// IEEE 754's total order, as [`f32::total_cmp`].
            #[inline]
            pub fn total_cmp(&self, other: &Self) -> Ordering {
                (*self).to_f32().total_cmp(&(*other).to_f32())
            }
        }

        impl PartialEq for $t {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                (*self).to_f32() == (*other).to_f32()
            }
        }
        impl PartialOrd for $t {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                (*self).to_f32().partial_cmp(&(*other).to_f32())
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&(*self).to_f32(), f)
            }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&(*self).to_f32(), f)
            }
        }
        impl fmt::LowerExp for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerExp::fmt(&(*self).to_f32(), f)
            }
        }
        impl fmt::UpperExp for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::UpperExp::fmt(&(*self).to_f32(), f)
            }
        }
        impl std::str::FromStr for $t {
            type Err = std::num::ParseFloatError;
            #[inline]
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self::from_f64)
            }
        }
        impl From<$t> for f32 {
            #[inline]
            fn from(x: $t) -> f32 {
                x.to_f32()
            }
        }
        impl From<$t> for f64 {
            #[inline]
            fn from(x: $t) -> f64 {
                x.to_f64()
            }
        }
        impl From<i8> for $t {
            #[inline]
            fn from(x: i8) -> $t {
                Self::from_f32(x.into())
            }
        }
        impl From<u8> for $t {
            #[inline]
            fn from(x: u8) -> $t {
                Self::from_f32(x.into())
            }
        }
        impl Neg for $t {
            type Output = Self;
            #[inline]
            fn neg(self) -> Self {
                Self(self.0 ^ 0x8000)
            }
        }
        half_precision! { @operators $t Add add AddAssign add_assign, Sub sub SubAssign sub_assign, Mul mul MulAssign mul_assign,
            Div div DivAssign div_assign, Rem rem RemAssign rem_assign }
        impl std::iter::Sum for $t {
            #[inline]
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                Self::from_f32(all.map(Self::to_f32).sum())
            }
        }
        impl std::iter::Product for $t {
            #[inline]
            fn product<I: Iterator<Item = Self>>(all: I) -> Self {
                Self::from_f32(all.map(Self::to_f32).product())
            }
        }

        impl Zero for $t {
            #[inline]
            fn zero() -> Self {
                Self::ZERO
            }
            #[inline]
            fn is_zero(&self) -> bool {
                self.0 & 0x7fff == 0
            }
        }
        impl One for $t {
            #[inline]
            fn one() -> Self {
                Self::ONE
            }
        }
        impl Num for $t {
            type FromStrRadixErr = <f64 as Num>::FromStrRadixErr;
            #[inline]
            fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
                <f64 as Num>::from_str_radix(text, radix).map(Self::from_f64)
            }
        }
        impl ToPrimitive for $t {
            #[inline]
            fn to_i64(&self) -> Option<i64> {
                (*self).to_f32().to_i64()
            }
            #[inline]
            fn to_u64(&self) -> Option<u64> {
                (*self).to_f32().to_u64()
            }
            #[inline]
            fn to_f32(&self) -> Option<f32> {
                Some((*self).to_f32())
            }
            #[inline]
            fn to_f64(&self) -> Option<f64> {
                Some((*self).to_f64())
            }
        }
        impl FromPrimitive for $t {
            #[inline]
            fn from_i64(n: i64) -> Option<Self> {
                Some(Self::from_f64(integer_to_odd(n.into())))
            }
            #[inline]
            fn from_u64(n: u64) -> Option<Self> {
                Some(Self::from_f64(integer_to_odd(n.into())))
            }
            #[inline]
            fn from_f32(n: f32) -> Option<Self> {
                Some(Self::from_f32(n))
            }
            #[inline]
            fn from_f64(n: f64) -> Option<Self> {
                Some(Self::from_f64(n))
            }
        }
        impl NumCast for $t {
            #[inline]
            fn from<N: ToPrimitive>(n: N) -> Option<Self> {
                n.to_f64().map(Self::from_f64)
            }
        }
        impl Bounded for $t {
            #[inline]
            fn min_value() -> Self {
                Self::MIN
            }
            #[inline]
            fn max_value() -> Self {
                Self::MAX
            }
        }
        impl Signed for $t {
            #[inline]
            fn abs(&self) -> Self {
                (*self).abs()
            }
            #[inline]
            fn abs_sub(&self, other: &Self) -> Self {
                if *self <= *other { Self::ZERO } else { *self - *other }
            }
            #[inline]
            fn signum(&self) -> Self {
                Self::from_f32((*self).to_f32().signum())
            }
            #[inline]
            fn is_positive(&self) -> bool {
                (*self).is_sign_positive()
            }
            #[inline]
            fn is_negative(&self) -> bool {
                (*self).is_sign_negative()
            }
        }
        impl Float for $t {
            half_precision! { @constants nan NAN, infinity INFINITY, neg_infinity NEG_INFINITY, neg_zero NEG_ZERO, min_value MIN,
                min_positive_value MIN_POSITIVE, max_value MAX, epsilon EPSILON }
            half_precision! { @same is_nan bool, is_infinite bool, is_finite bool, is_normal bool, is_sign_positive bool,
                is_sign_negative bool, classify FpCategory, abs Self }
            half_precision! { @by_f32 floor ceil round trunc fract signum recip sqrt exp exp2 ln log2 log10 cbrt sin cos tan asin
                acos atan exp_m1 ln_1p sinh cosh tanh asinh acosh atanh }
            half_precision! { @by_two_f32 powf log max min hypot atan2 }
            #[inline]
            fn abs_sub(self, other: Self) -> Self {
                if self <= other { Self::ZERO } else { self - other }
            }
            #[inline]
            fn mul_add(self, a: Self, b: Self) -> Self {
                // The product is exact in f64.
                Self::from_f64(self.to_f64().mul_add(a.to_f64(), b.to_f64()))
            }
            #[inline]
            fn powi(self, n: i32) -> Self {
                Self::from_f32(self.to_f32().powi(n))
            }
            #[inline]
            fn sin_cos(self) -> (Self, Self) {
                (self.sin(), self.cos())
            }
            #[inline]
            fn integer_decode(self) -> (u64, i16, i8) {
                Float::integer_decode(self.to_f32())
            }
        }
    };
    (@operators $t:ident $($Operator:ident $operator:ident $Assign:ident $assign:ident),*) => { $(
        impl $Operator for $t {
            type Output = Self;
            #[inline]
            fn $operator(self, other: Self) -> Self {
                Self::from_f32($Operator::$operator(self.to_f32(), other.to_f32()))
            }
        }
        impl $Assign for $t {
            #[inline]
            fn $assign(&mut self, other: Self) {
                *self = $Operator::$operator(*self, other)
            }
        }
    )* };
    (@constants $($name:ident $value:ident),*) => { $(
        #[inline]
        fn $name() -> Self {
            Self::$value
        }
    )* };
    (@same $($name:ident $out:ty),*) => { $(
        #[inline]
        fn $name(self) -> $out {
            // An inherent method comes before one of the trait.
            self.$name()
        }
    )* };
    (@by_f32 $($name:ident)*) => { $(
        #[inline]
        fn $name(self) -> Self {
            Self::from_f32(self.to_f32().$name())
        }
    )* };
    (@by_two_f32 $($name:ident)*) => { $(
        #[inline]
        fn $name(self, other: Self) -> Self {
            Self::from_f32(self.to_f32().$name(other.to_f32()))
        }
    )* };
}
half_precision! {
    /// IEEE 754's binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
    ///
    /// Arithmetic is that of `f32`, rounded after each operation, which for `+ - * /` and `sqrt` is the correctly rounded
    /// result. The layout is that of `u16` and of `half::f16`; the feature `half` has conversions.
    ///
    /// # Examples
    /// ```
    /// use rankform::f16;
    /// let x = f16::from_f32(0.1);
    /// assert_eq!(x.to_bits(), 0x2e66);
    /// assert_eq!((x + f16::ONE).to_f32(), 1.0996094);
    /// assert_eq!(f16::from_f32(65520.0), f16::INFINITY);
    /// ```
    f16, F16: widen_f16, narrow_f16;
    ONE 0x3c00, INFINITY 0x7c00, NAN 0x7e00, MAX 0x7bff, MIN_POSITIVE 0x0400, EPSILON 0x1400, DIGITS 11
}
half_precision! {
    /// The upper 16 bits of an `f32`: 1 bit of sign, 8 of exponent, 7 of fraction ("brain float").
    ///
    /// Arithmetic is that of `f32`, rounded after each operation. The layout is that of `u16` and of `half::bf16`; the
    /// feature `half` has conversions.
    ///
    /// # Examples
    /// ```
    /// use rankform::bf16;
    /// let x = bf16::from_f32(1e38) * bf16::from_f32(0.5);
    /// assert_eq!(x.to_f32(), 4.9917507e37);
    /// ```
    bf16, BF16: widen_bf16, narrow_bf16;
    ONE 0x3f80, INFINITY 0x7f80, NAN 0x7fc0, MAX 0x7f7f, MIN_POSITIVE 0x0080, EPSILON 0x3c00, DIGITS 8
}

// SAFETY: a pair of transparent u16: zeros are 0.0, there is no padding.
unsafe impl Element for Complex<f16> {
    type Compute = Complex<f32>;
    const DTYPE: DType = DType::C16;
    const PLAIN: bool = true;
    #[inline(always)]
    fn widen(self) -> Complex<f32> {
        Complex::new(self.re.widen(), self.im.widen())
    }
    #[inline(always)]
    fn narrow(value: Complex<f32>) -> Self {
        Complex::new(f16::narrow(value.re), f16::narrow(value.im))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of `fraction` fraction bits whose exponent has the bias `bias`, by its definition.
    fn by_definition(bits: u16, fraction: u32, bias: i32) -> f64 {
        let (exponent, digits) = (((bits & 0x7fff) >> fraction) as i32, (bits & ((1 << fraction) - 1)) as f64);
        let leading = (1u32 << fraction) as f64;
        let magnitude = match exponent {
            0 => digits * 2f64.powi(1 - bias - fraction as i32),
            _ if exponent == (0x7fff >> fraction) && digits == 0.0 => f64::INFINITY,
            _ if exponent == (0x7fff >> fraction) => f64::NAN,
            _ => (leading + digits) * 2f64.powi(exponent - bias - fraction as i32),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    /// The nearest multiple of a unit in the last place, by division and multiplication.
    fn nearest(value: f64, fraction: i32, bias: i32, max: f64) -> f64 {
        let exponent = (value.abs().log2().floor() as i32).max(1 - bias);
        let exponent = if 2f64.powi(exponent) > value.abs() { (exponent - 1).max(1 - bias) } else { exponent };
        let unit = 2f64.powi(exponent - fraction);
        let rounded = (value / unit).round_ties_even() * unit;
        if rounded.abs() > max { f64::INFINITY.copysign(value) } else { rounded }
    }

    macro_rules! for_both {
        ($check:ident) => {
            $check!(f16, 10, 15);
            $check!(bf16, 7, 127);
        };
    }

    #[test]
    fn every_16_bit_float_has_the_value_of_its_definition_and_comes_back() {
        macro_rules! check {
            ($t:ident, $fraction:literal, $bias:literal) => {
                for bits in 0..=u16::MAX {
                    let (x, value) = ($t::from_bits(bits), by_definition(bits, $fraction, $bias));
                    assert_eq!(x.is_nan(), value.is_nan(), "{bits:#x}");
                    if value.is_nan() {
                        let back = $t::from_f32(x.to_f32());
                        assert!(back.is_nan());
                        // The language leaves open which bits a NaN has.
                        assert!(cfg!(miri) || back.to_bits() == bits | 1 << ($fraction - 1), "{bits:#x}");
                        continue;
                    }
                    assert_eq!(x.to_f64().to_bits(), value.to_bits(), "{bits:#x}");
                    assert_eq!(($t::from_f32(x.to_f32()).to_bits(), $t::from_f64(value).to_bits()), (bits, bits));
                    assert_eq!((x.is_finite(), x.is_infinite()), (value.is_finite(), value.is_infinite()));
                    assert_eq!(x.is_normal(), value.abs() >= 2f64.powi(1 - $bias) && value.is_finite());
                    assert_eq!((x.abs().to_f64(), (-x).to_f64()), (value.abs(), -value));
                }
            };
        }
        for_both!(check);
    }

    /// The middle between two neighbours and numbers beside it, as f32 and as f64; and a sample of all f32.
    #[test]
    fn numbers_are_rounded_once_to_the_nearest() {
        macro_rules! check {
            ($t:ident, $fraction:literal, $bias:literal) => {{
                let max = $t::MAX.to_f64();
                let same = |value: f64| {
                    let expected = nearest(value, $fraction, $bias, max);
                    assert_eq!($t::from_f64(value).to_f64().to_bits(), expected.to_bits(), "{value:e}");
                    if (value as f32) as f64 == value {
                        assert_eq!($t::from_f32(value as f32).to_f64().to_bits(), expected.to_bits(), "{value:e}");
                    }
                };
                for bits in (1..$t::INFINITY.to_bits()).step_by(if cfg!(miri) { 997 } else { 1 }) {
                    let (value, next) = ($t::from_bits(bits).to_f64(), by_definition(bits + 1, $fraction, $bias));
                    let middle =
                        if next.is_finite() { (value + next) / 2.0 } else { value + (value - max / 2.0) * 2f64.powi(-$fraction - 1) };
                    for near in [value, middle, middle as f32 as f64] {
                        for step in -2i64..3 {
                            same(f64::from_bits(near.to_bits().wrapping_add_signed(step)));
                            same(-f64::from_bits(near.to_bits().wrapping_add_signed(step << 29)));
                        }
                    }
                }
                for bits in (1..0x7f80_0000u32).step_by(if cfg!(miri) { 1 << 20 } else { 9973 }) {
                    same(f32::from_bits(bits) as f64);
                }
                assert!($t::from_f32(f32::NAN).is_nan() && $t::from_f64(f64::NAN).is_nan());
                assert_eq!($t::from_f64(1e300), $t::INFINITY);
            }};
        }
        for_both!(check);
    }

    #[test]
    fn integers_and_texts_are_rounded_once() {
        // Halfway between two bf16, and a little more, which an f64 does not hold.
        let tie = (1i64 << 62) + (1 << 54);
        assert_eq!(bf16::from_i64(tie).unwrap().to_f64(), 2f64.powi(62));
        assert_eq!(bf16::from_i64(tie + 1).unwrap().to_f64(), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(bf16::from_i64(-tie - 1).unwrap().to_f64(), -2f64.powi(62) - 2f64.powi(55));
        assert_eq!(f16::from_u64(u64::MAX).unwrap(), f16::INFINITY);
        assert_eq!("1.00048828125".parse::<f16>().unwrap(), f16::ONE);
        assert_eq!("1.000488281250001".parse::<f16>().unwrap(), f16::from_bits(0x3c01));
        assert!("one".parse::<bf16>().is_err());
        assert_eq!(format!("{:?} {} {:e}", f16::from_f32(1.5), bf16::NEG_ONE, f16::MAX), "1.5 -1 6.5504e4");
    }

    #[test]
    fn arithmetic_is_rounded_after_each_step() {
        let [a, b] = [2049.0, 3.0].map(f16::from_f32);
        assert_eq!([a + b, a - b, a * b, a / b, a % b].map(f16::to_f32), [2052.0, 2045.0, 6144.0, 682.5, 2.0]);
        let mut sum = bf16::from_f32(256.0);
        sum += bf16::ONE;
        assert_eq!(sum.to_f32(), 256.0);
        assert_eq!([bf16::ONE; 300].into_iter().sum::<bf16>().to_f32(), 300.0);
        assert_eq!(Float::mul_add(f16::from_bits(0x3c01), f16::from_bits(0x3c01), f16::NEG_ONE).to_bits(), 0x1800); // 2^-9 + 2^-20, a tie
        assert_eq!([f16::from_f32(2.0).sqrt().to_bits(), f16::ONE.exp().to_bits()], [0x3da8, 0x4170]);
        assert!(f16::NAN != f16::NAN && f16::NAN.partial_cmp(&a).is_none() && f16::NEG_ZERO == f16::ZERO);
        assert_eq!(f16::NEG_ZERO.total_cmp(&f16::ZERO), Ordering::Less);
    }
}
