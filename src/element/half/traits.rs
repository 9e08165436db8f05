//! The traits of numbers for 16-bit floats: comparison, formatting, arithmetic, and those of `num-traits`.
// Imports: its own files.

use super::{bf16, f16};
use num_traits::{Bounded, Float, FromPrimitive, Num, NumCast, One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::fmt;
use std::num::FpCategory;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign};

/// An f64 that rounds to the same 16-bit float as the integer.
fn integer_to_odd(value: i128) -> f64 {
    let near = value as f64;
    if near as i128 == value {
        return near;
    }
    let toward_zero = if (near as i128).unsigned_abs() > value.unsigned_abs() {
        near.to_bits() - 1
    } else {
        near.to_bits()
    };
    f64::from_bits(toward_zero | 1)
}

macro_rules! number_traits {
    ($t:ident) => {
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
        number_traits! { @operators $t Add add AddAssign add_assign, Sub sub SubAssign sub_assign, Mul mul MulAssign mul_assign,
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
            fn to_i128(&self) -> Option<i128> {
                (*self).to_f32().to_i128()
            }
            #[inline]
            fn to_u128(&self) -> Option<u128> {
                (*self).to_f32().to_u128()
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
            fn from_i128(n: i128) -> Option<Self> {
                Some(Self::from_f64(integer_to_odd(n)))
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
                let near = n.to_f64()?;
                // An integer beyond 2⁵³ may not be an f64.
                match n.to_i128() {
                    Some(whole) if near.abs() > 9e15 => Some(Self::from_f64(integer_to_odd(whole))),
                    _ => Some(Self::from_f64(near)),
                }
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
            number_traits! { @constants nan NAN, infinity INFINITY, neg_infinity NEG_INFINITY, neg_zero NEG_ZERO, min_value MIN,
                min_positive_value MIN_POSITIVE, max_value MAX, epsilon EPSILON }
            number_traits! { @same is_nan bool, is_infinite bool, is_finite bool, is_normal bool, is_sign_positive bool,
                is_sign_negative bool, classify FpCategory, abs Self }
            number_traits! { @by_f32 floor ceil round trunc fract signum recip sqrt exp exp2 ln log2 log10 cbrt sin cos tan asin
                acos atan exp_m1 ln_1p sinh cosh tanh asinh acosh atanh }
            number_traits! { @by_two_f32 powf log max min hypot atan2 }
            #[inline]
            fn abs_sub(self, other: Self) -> Self {
                if self <= other { Self::ZERO } else { self - other }
            }
            #[inline]
            fn mul_add(self, a: Self, b: Self) -> Self {
                // The product is exact in f64, and for f16 the sum is too. That of bf16 may be rounded twice.
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
            // An inherent method takes precedence over a method of a trait.
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
number_traits!(f16);
number_traits!(bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_texts_are_rounded_once() {
        // Halfway between two bf16 and a little more, which an f64 cannot represent.
        let tie = (1i64 << 62) + (1 << 54);
        assert_eq!(bf16::from_i64(tie).unwrap().to_f64(), 2f64.powi(62));
        assert_eq!(bf16::from_i64(tie + 1).unwrap().to_f64(), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(bf16::from_i64(-tie - 1).unwrap().to_f64(), -2f64.powi(62) - 2f64.powi(55));
        assert_eq!(<bf16 as NumCast>::from(tie + 1).unwrap().to_f64(), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(bf16::from_i128(tie as i128 + 1).unwrap().to_f64(), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(bf16::from_f32(1e30).to_i128(), Some(bf16::from_f32(1e30).to_f64() as i128));
        assert_eq!(f16::from_u64(u64::MAX).unwrap(), f16::INFINITY);
        assert_eq!("1.00048828125".parse::<f16>().unwrap(), f16::ONE);
        assert_eq!("1.000488281250001".parse::<f16>().unwrap(), f16::from_bits(0x3c01));
        assert!("one".parse::<bf16>().is_err());
        assert_eq!(format!("{:?} {} {:e}", f16::from_f32(1.5), bf16::NEG_ONE, f16::MAX), "1.5 -1 6.5504e4");
    }

    #[test]
    fn arithmetic_is_rounded_after_each_step() {
        let [a, b] = [2049.0, 3.0].map(f16::from_f32);
        assert_eq!(
            [a + b, a - b, a * b, a / b, a % b].map(f16::to_f32),
            [2052.0, 2045.0, 6144.0, 682.5, 2.0]
        );
        let mut sum = bf16::from_f32(256.0);
        sum += bf16::ONE;
        assert_eq!(sum.to_f32(), 256.0);
        assert_eq!([bf16::ONE; 300].into_iter().sum::<bf16>().to_f32(), 300.0);
        assert_eq!(
            Float::mul_add(f16::from_bits(0x3c01), f16::from_bits(0x3c01), f16::NEG_ONE).to_bits(),
            0x1800
        ); // 2^-9 + 2^-20, a tie
        assert_eq!([f16::from_f32(2.0).sqrt().to_bits(), f16::ONE.exp().to_bits()], [0x3da8, 0x4170]);
        assert!(f16::NAN != f16::NAN && f16::NAN.partial_cmp(&a).is_none() && f16::NEG_ZERO == f16::ZERO);
        assert_eq!(f16::NEG_ZERO.total_cmp(&f16::ZERO), Ordering::Less);
    }
}
