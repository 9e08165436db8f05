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

/// An f64 that rounds to the same 16-bit float as the number.
#[inline]
fn number_to_odd<N: ToPrimitive>(n: N) -> Option<f64> {
    let near = n.to_f64()?;
    // An integer beyond 2⁵³ may not be an f64.
    match n.to_i128() {
        Some(whole) if near.abs() > 9e15 => Some(integer_to_odd(whole)),
        _ => Some(near),
    }
}

/// Passes both types to each macro, with the macro's own arguments.
macro_rules! for_both {
    ($($each:ident: $($arguments:ident)*;)*) => { $(
        $each! { f16 $($arguments)* }
        $each! { bf16 $($arguments)* }
    )* };
}

/// Equality, order, and conversions that lose nothing.
macro_rules! values {
    ($t:ident $($Small:ident)*) => {
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
        $(impl From<$Small> for $t {
            #[inline]
            fn from(x: $Small) -> $t {
                Self::from_f32(x.into())
            }
        })*
    };
}

/// Texts.
macro_rules! texts {
    ($t:ident $($Format:ident)*) => {
        $(impl fmt::$Format for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::$Format::fmt(&(*self).to_f32(), f)
            }
        })*
        impl std::str::FromStr for $t {
            type Err = std::num::ParseFloatError;
            #[inline]
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self::from_f64)
            }
        }
    };
}

/// Binary operators, rounded after each.
macro_rules! operators {
    ($t:ident $($Operator:ident $operator:ident $Assign:ident $assign:ident)*) => { $(
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
}

/// The sign, and the sums and products of iterators, which are rounded once.
macro_rules! sums {
    ($t:ident) => {
        impl Neg for $t {
            type Output = Self;
            #[inline]
            fn neg(self) -> Self {
                Self(self.0 ^ 0x8000)
            }
        }
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
    };
}

/// Functions without arguments that return a constant of the type.
macro_rules! constants {
    ($($name:ident $value:ident),*) => { $(
        #[inline]
        fn $name() -> Self {
            Self::$value
        }
    )* };
}

/// `num-traits`' basic numbers.
macro_rules! numbers {
    ($t:ident) => {
        impl Zero for $t {
            constants! { zero ZERO }
            #[inline]
            fn is_zero(&self) -> bool {
                self.0 & 0x7fff == 0
            }
        }
        impl One for $t {
            constants! { one ONE }
        }
        impl Bounded for $t {
            constants! { min_value MIN, max_value MAX }
        }
        impl Num for $t {
            type FromStrRadixErr = <f64 as Num>::FromStrRadixErr;
            #[inline]
            fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
                <f64 as Num>::from_str_radix(text, radix).map(Self::from_f64)
            }
        }
    };
}

/// `num-traits`' sign.
macro_rules! signed {
    ($t:ident) => {
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
    };
}

/// `num-traits`' casts to primitive types.
macro_rules! casts_to {
    ($t:ident $($to:ident $Integer:ident)*) => {
        impl ToPrimitive for $t {
            $(#[inline]
            fn $to(&self) -> Option<$Integer> {
                (*self).to_f32().$to()
            })*
            #[inline]
            fn to_f32(&self) -> Option<f32> {
                Some((*self).to_f32())
            }
            #[inline]
            fn to_f64(&self) -> Option<f64> {
                Some((*self).to_f64())
            }
        }
    };
}

/// `num-traits`' casts from primitive types.
macro_rules! casts_from {
    ($t:ident $($from:ident $Integer:ident)*) => {
        impl FromPrimitive for $t {
            $(#[inline]
            fn $from(n: $Integer) -> Option<Self> {
                Some(Self::from_f64(integer_to_odd(n.into())))
            })*
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
                number_to_odd(n).map(Self::from_f64)
            }
        }
    };
}

/// Functions that the type has under the same name.
macro_rules! same {
    ($($name:ident $out:ty),*) => { $(
        #[inline]
        fn $name(self) -> $out {
            // An inherent method takes precedence over a method of a trait.
            self.$name()
        }
    )* };
}

/// Functions of f32, rounded.
macro_rules! by_f32 {
    ($($name:ident)* $(, two $($binary:ident)*)?) => {
        $(#[inline]
        fn $name(self) -> Self {
            Self::from_f32(self.to_f32().$name())
        })*
        $($(#[inline]
        fn $binary(self, other: Self) -> Self {
            Self::from_f32(self.to_f32().$binary(other.to_f32()))
        })*)?
    };
}

/// `num-traits`' functions of floats.
macro_rules! floats {
    ($t:ident) => {
        impl Float for $t {
            constants! { nan NAN, infinity INFINITY, neg_infinity NEG_INFINITY, neg_zero NEG_ZERO,
            min_value MIN, min_positive_value MIN_POSITIVE, max_value MAX, epsilon EPSILON }
            same! { is_nan bool, is_infinite bool, is_finite bool, is_normal bool, is_sign_positive bool,
            is_sign_negative bool, classify FpCategory, abs Self }
            by_f32! { floor ceil round trunc fract signum recip sqrt exp exp2 ln log2 log10 cbrt sin cos tan
            asin acos atan exp_m1 ln_1p sinh cosh tanh asinh acosh atanh,
            two powf log max min hypot atan2 }
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
}

for_both! {
    values: i8 u8;
    texts: Debug Display LowerExp UpperExp;
    operators: Add add AddAssign add_assign Sub sub SubAssign sub_assign Mul mul MulAssign mul_assign
        Div div DivAssign div_assign Rem rem RemAssign rem_assign;
    sums: ;
    numbers: ;
    signed: ;
    casts_to: to_i64 i64 to_u64 u64 to_i128 i128 to_u128 u128;
    casts_from: from_i64 i64 from_u64 u64 from_i128 i128;
    floats: ;
}

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
