//! The 16-bit floats [`f16`] and [`bf16`]: stored in two bytes, computed with as `f32`, rounded to nearest
//! even.
//!
//! Conversions are integer steps without branches, which vectorize. The processor's conversion instructions
//! take one element, or need a feature that is chosen at run time.
// Imports: `dtype`, `element`.

mod traits;

use super::Element;
use crate::dtype::DType;
use num_complex::Complex;
use std::cmp::Ordering;
use std::num::FpCategory;

/// The exact value of an f16. A normal number is scaled by a power of two, and a subnormal number is found by
/// a subtraction.
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

/// The f16 nearest to an f32. A normal number is rounded by adding almost half a ULP, and a subnormal number
/// by adding 0.5, whose last place is the smallest subnormal number. A NaN keeps its sign and becomes quiet.
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

/// The bf16 nearest to an f32, by adding almost half a ULP. A NaN keeps its sign and becomes quiet.
#[inline(always)]
const fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x0040;
    if value.is_nan() { quiet } else { rounded }
}

/// An f32 that rounds to the same 16-bit float as the f64: it is rounded to odd, so that the second rounding
/// sees no false tie.
const fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if near as f64 == value || !near.is_finite() || value.is_nan() {
        return near;
    }
    let toward_zero = if (near as f64).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(toward_zero | 1)
}

/// The category of the magnitude of a 16-bit float, with these bits of its smallest normal number and of ∞.
const fn category(magnitude: u16, min_positive: u16, infinity: u16) -> FpCategory {
    match magnitude {
        0 => FpCategory::Zero,
        bits if bits < min_positive => FpCategory::Subnormal,
        bits if bits < infinity => FpCategory::Normal,
        bits if bits == infinity => FpCategory::Infinite,
        _ => FpCategory::Nan,
    }
}

/// The constants of a type.
macro_rules! constants {
    ($one:literal $infinity:literal $nan:literal $max:literal $min_positive:literal $epsilon:literal
     $digits:literal) => {
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
        /// The number of binary digits of a normal number, including the leading one.
        pub const MANTISSA_DIGITS: u32 = $digits;
    };
}

/// The conversions from and to f32 and f64.
macro_rules! conversions {
    ($widen:ident $narrow:ident) => {
        /// The nearest number, ties to even. Beyond `MAX` it is ±∞.
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
    };
}

/// The conversions from and to bits.
macro_rules! bits {
    () => {
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
        /// The bytes in little-endian order.
        #[inline]
        pub const fn to_le_bytes(self) -> [u8; 2] {
            self.0.to_le_bytes()
        }
        /// The number with these bytes, in little-endian order.
        #[inline]
        pub const fn from_le_bytes(bytes: [u8; 2]) -> Self {
            Self(u16::from_le_bytes(bytes))
        }
    };
}

/// The questions about the category of a number.
macro_rules! categories {
    ($min_positive:literal $infinity:literal) => {
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
            category(self.0 & 0x7fff, $min_positive, $infinity)
        }
    };
}

/// The sign, the absolute value and the total order.
macro_rules! signs {
    () => {
        /// Whether its sign bit is set, which −0 and some NaNs have too.
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
    };
}

/// A type with these conversions and constants.
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

        impl $t {
            constants! { $one $infinity $nan $max $min_positive $epsilon $digits }
            bits! {}
            conversions! { $widen $narrow }
            categories! { $min_positive $infinity }
            signs! {}
        }
        // SAFETY: a transparent u16; zero bits are 0.0.
        unsafe impl bytemuck::Zeroable for $t {}
        // SAFETY: a transparent u16, of which all bits are values.
        unsafe impl bytemuck::Pod for $t {}
        // SAFETY: a transparent u16: zero bits are 0.0, and it has no padding.
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
    };
}
half_precision! {
    /// IEEE 754's binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
    ///
    /// Arithmetic is that of `f32`, rounded after each operation, which for `+ - * /` and `sqrt` is the
    /// correctly rounded result. The layout is that of `u16` and of `half::f16`; the feature `half` has
    /// conversions.
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
    /// Arithmetic is that of `f32`, rounded after each operation. The layout is that of `u16` and of
    /// `half::bf16`; the feature `half` has conversions.
    ///
    /// # Examples
    /// ```
    /// use rankform::bf16;
    /// let x = bf16::from_f32(1e38) * bf16::from_f32(0.5);
    /// assert_eq!(x.to_f32(), 4.984605e37);
    /// ```
    bf16, BF16: widen_bf16, narrow_bf16;
    ONE 0x3f80, INFINITY 0x7f80, NAN 0x7fc0, MAX 0x7f7f, MIN_POSITIVE 0x0080, EPSILON 0x3c00, DIGITS 8
}

// SAFETY: a pair of transparent u16: zero bits are 0.0, and it has no padding.
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

    /// The number with `fraction` bits of fraction and the exponent's bias `bias`, by its definition.
    fn by_definition(bits: u16, fraction: u32, bias: i32) -> f64 {
        let (exponent, digits) =
            (((bits & 0x7fff) >> fraction) as i32, (bits & ((1 << fraction) - 1)) as f64);
        let leading = (1u32 << fraction) as f64;
        let magnitude = match exponent {
            0 => digits * 2f64.powi(1 - bias - fraction as i32),
            _ if exponent == (0x7fff >> fraction) && digits == 0.0 => f64::INFINITY,
            _ if exponent == (0x7fff >> fraction) => f64::NAN,
            _ => (leading + digits) * 2f64.powi(exponent - bias - fraction as i32),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    /// The nearest multiple of a ULP, by division and multiplication.
    fn nearest(value: f64, fraction: i32, bias: i32, max: f64) -> f64 {
        let exponent = (value.abs().log2().floor() as i32).max(1 - bias);
        let exponent =
            if 2f64.powi(exponent) > value.abs() { (exponent - 1).max(1 - bias) } else { exponent };
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
                        // Rust does not specify the bits of a NaN.
                        assert!(cfg!(miri) || back.to_bits() == bits | 1 << ($fraction - 1), "{bits:#x}");
                        continue;
                    }
                    assert_eq!(x.to_f64().to_bits(), value.to_bits(), "{bits:#x}");
                    assert_eq!(
                        ($t::from_f32(x.to_f32()).to_bits(), $t::from_f64(value).to_bits()),
                        (bits, bits)
                    );
                    assert_eq!((x.is_finite(), x.is_infinite()), (value.is_finite(), value.is_infinite()));
                    assert_eq!(x.is_normal(), value.abs() >= 2f64.powi(1 - $bias) && value.is_finite());
                    assert_eq!((x.abs().to_f64(), (-x).to_f64()), (value.abs(), -value));
                }
            };
        }
        for_both!(check);
    }

    /// The midpoint between two neighbors and numbers near it, as f32 and as f64; and a sample of all f32.
    #[test]
    fn numbers_are_rounded_once_to_the_nearest() {
        macro_rules! check {
            ($t:ident, $fraction:literal, $bias:literal) => {{
                let max = $t::MAX.to_f64();
                let same = |value: f64| {
                    let expected = nearest(value, $fraction, $bias, max);
                    assert_eq!($t::from_f64(value).to_f64().to_bits(), expected.to_bits(), "{value:e}");
                    if (value as f32) as f64 == value {
                        assert_eq!(
                            $t::from_f32(value as f32).to_f64().to_bits(),
                            expected.to_bits(),
                            "{value:e}"
                        );
                    }
                };
                for bits in (1..$t::INFINITY.to_bits()).step_by(if cfg!(miri) { 997 } else { 1 }) {
                    let (value, next) =
                        ($t::from_bits(bits).to_f64(), by_definition(bits + 1, $fraction, $bias));
                    let middle = if next.is_finite() {
                        (value + next) / 2.0
                    } else {
                        value + (value - max / 2.0) * 2f64.powi(-$fraction - 1)
                    };
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
}
