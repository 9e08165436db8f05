//! 8-bit floats: stored in a byte, read and written as f32.
// Imports: `dtype`, `element`.

use super::Element;
use crate::dtype::DType;
use std::fmt;

/// An 8-bit float type as data.
pub(crate) struct Float8 {
    pub(crate) dtype: DType,
    /// Bits of the fraction.
    pub(crate) fraction_bits: i32,
    /// The nearest number of this type.
    pub(crate) rounded: fn(f32) -> f32,
}

impl Float8 {
    /// The 8-bit float type of this name.
    pub(crate) fn of(dtype: DType) -> Option<&'static Float8> {
        FLOAT8.iter().find(|float8| float8.dtype == dtype)
    }
}

/// Passes the names of the 8-bit floats, as a list in brackets, to a macro.
#[cfg(any(debug_assertions, feature = "dynamic"))]
macro_rules! each_float8 {
    ($then:ident) => {
        $then! { [F8E4M3 F8E5M2] }
    };
}
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) use each_float8;

/// The bits of an 8-bit float type. Codes have no sign.
struct Format {
    /// Bits of the fraction.
    fraction: u32,
    bias: u32,
    /// The code of the largest finite number.
    largest: u32,
    /// The code of numbers beyond it.
    beyond: u32,
    nan: u32,
    /// The code of ∞; beyond all codes in a type without ∞.
    infinity: u32,
}

impl Format {
    /// The number with these bits.
    #[inline(always)]
    fn widen(self, bits: u8) -> f32 {
        // Exponent and fraction, at the position that f32 has for them, give the number up to the bias, for
        // subnormals too.
        let code = u32::from(bits & 0x7f);
        let scale = f32::from_bits((254 - self.bias) << 23);
        let finite = f32::from_bits(code << (23 - self.fraction)) * scale;
        let beyond = if code == self.infinity { f32::INFINITY } else { f32::NAN };
        let number = if code > self.largest { beyond } else { finite };
        f32::from_bits(number.to_bits() | u32::from(bits >> 7) << 31)
    }

    /// The bits of the nearest number, ties to even.
    #[inline(always)]
    fn narrow(self, value: f32) -> u8 {
        let (bits, sign) = (value.to_bits() & 0x7fff_ffff, (value.to_bits() >> 31) << 7);
        let smallest = (128 - self.bias) << 23; // the smallest normal number
        let scale = f32::from_bits((126 + self.bias + self.fraction) << 23);
        let steps = (f32::from_bits(bits) * scale).round_ties_even() as u32;
        let shift = 23 - self.fraction;
        let rounded = bits.wrapping_add((1 << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
        let normal = rounded.wrapping_sub((127 - self.bias) << self.fraction);
        let code = if bits < smallest { steps } else { normal };
        let code = if code > self.largest { self.beyond } else { code };
        (sign | if bits > 0x7f80_0000 { self.nan } else { code }) as u8
    }
}

/// An 8-bit float type of this format.
macro_rules! float8 {
    ($(#[$doc:meta])* $t:ident $format:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $t(u8);

        impl $t {
            const FORMAT: Format = $format;
            /// The number with these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self { $t(bits) }
            /// Its bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 { self.0 }
            /// The same number as f32.
            #[inline(always)]
            pub fn to_f32(self) -> f32 { Self::FORMAT.widen(self.0) }
            /// The nearest number, ties to even. A number that rounds beyond the largest becomes infinite, or
            /// NaN in a type without infinity.
            #[inline(always)]
            pub fn from_f32(value: f32) -> Self { $t(Self::FORMAT.narrow(value)) }
        }
        /// As for floats: NaN equals no number, and both zeros are equal.
        impl PartialEq for $t {
            fn eq(&self, other: &Self) -> bool { self.to_f32() == other.to_f32() }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(&self.to_f32(), f) }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Debug::fmt(&self.to_f32(), f) }
        }
    };
}

/// The 8-bit float types, their elements, and a table of them.
macro_rules! float8_types {
    ($(
        $(#[$doc:meta])* $t:ident $dtype:ident $format:expr;
    )*) => {
        $(
            float8! { $(#[$doc])* $t $format }
            // SAFETY: a transparent u8, of which 0 is a value.
            unsafe impl bytemuck::Zeroable for $t {}
            // SAFETY: a transparent u8, of which all bits are values.
            unsafe impl bytemuck::Pod for $t {}
            #[diagnostic::do_not_recommend] // few users mean these types
            // SAFETY: a transparent u8: zero bits are 0.0, and it has no padding.
            unsafe impl Element for $t {
                type Compute = f32;
                const DTYPE: DType = DType::$dtype;
                const PLAIN: bool = true;
                #[inline(always)]
                fn widen(self) -> f32 { self.to_f32() }
                #[inline(always)]
                fn narrow(value: f32) -> Self { Self::from_f32(value) }
            }
        )*
        /// The 8-bit floats.
        pub(crate) const FLOAT8: &[Float8] = &[$(
            Float8 {
                dtype: DType::$dtype,
                fraction_bits: $t::FORMAT.fraction as i32,
                rounded: |value| $t::from_f32(value).to_f32(),
            },
        )*];
    };
}
float8_types! {
    /// An 8-bit float with 4 bits of exponent and 3 of fraction: up to 448, without infinities. It is a
    /// storage type: cast it to compute with it.
    ///
    /// # Examples
    /// ```
    /// use rankform::F8E4M3;
    /// assert_eq!([0.3, 448.0, 465.0].map(|x| F8E4M3::from_f32(x).to_f32())[..2], [0.3125, 448.0]);
    /// assert!(F8E4M3::from_f32(465.0).to_f32().is_nan());
    /// ```
    ///
    /// # Source
    /// OCP 8-bit Floating Point Specification, revision 1.0; PyTorch's `float8_e4m3fn`.
    F8E4M3 F8E4M3 Format { fraction: 3, bias: 7, largest: 0x7e, beyond: 0x7f, nan: 0x7f, infinity: 0x100 };
    /// An 8-bit float with 5 bits of exponent and 2 of fraction: up to 57344, the upper half of an `f16`. It
    /// is a storage type: cast it to compute with it.
    ///
    /// # Source
    /// OCP 8-bit Floating Point Specification, revision 1.0.
    F8E5M2 F8E5M2 Format { fraction: 2, bias: 15, largest: 0x7b, beyond: 0x7c, nan: 0x7e, infinity: 0x7c };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest of all codes, ties to even.
    fn nearest(value: f32, all: impl Fn(u8) -> f32, beyond: f64) -> f32 {
        let distance = |code: u8| (f64::from(all(code)) - f64::from(value)).abs();
        let finite = (0..=255).filter(|&code| {
            all(code).is_finite() && all(code).is_sign_negative() == value.is_sign_negative()
        });
        let best =
            finite.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))).unwrap();
        if f64::from(value.abs()) >= beyond { f32::NAN } else { all(best) }
    }

    #[test]
    fn narrow_floats_round_to_the_nearest_even_as_a_search_of_all_codes_says() {
        let (four, five) = (|code| F8E4M3::from_bits(code).to_f32(), |code| F8E5M2::from_bits(code).to_f32());
        for code in 0..=255u8 {
            assert!(
                four(code).is_nan() == (code & 0x7f == 0x7f) && five(code).is_nan() == (code & 0x7f > 0x7c),
                "{code:#x}"
            );
            // An f16 with the same upper byte and a zero lower byte is the same number.
            let upper = crate::element::f16::from_bits(u16::from(code) << 8).to_f32();
            assert!(five(code).to_bits() == upper.to_bits() || five(code).is_nan(), "{code:#x}");
            for (there, back) in [
                (four(code), F8E4M3::from_f32(four(code)).to_bits()),
                (five(code), F8E5M2::from_f32(five(code)).to_bits()),
            ] {
                assert!(back == code || there.is_nan(), "{code:#x} gives {back:#x}");
            }
        }
        assert_eq!(
            (four(0x7e), four(0x01), five(0x7b), five(0x01)),
            (448.0, 2f32.powi(-9), 57344.0, 2f32.powi(-16))
        );
        let mut state = 1u32;
        for step in 0..20_000 {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            // Every other number is an 8-bit float plus half a step, or a little more.
            let value = match step % 2 {
                0 => f32::from_bits((state & 0x807f_ffff) | (95 + state % 50) << 23),
                _ => {
                    (four((state >> 9) as u8 & 0xfe) + four((state >> 9) as u8 | 1)) / 2.0
                        * [1.0, 1.0001, 0.9999][step % 3]
                }
            };
            if value.is_nan() {
                continue;
            }
            let same = |found: f32, wanted: f32| {
                found.to_bits() == wanted.to_bits() || !found.is_finite() && wanted.is_nan()
            };
            assert!(
                same(F8E4M3::from_f32(value).to_f32(), nearest(value, four, 464.0)),
                "{value} {:#x}",
                value.to_bits()
            );
            assert!(
                same(F8E5M2::from_f32(value).to_f32(), nearest(value, five, 61440.0)),
                "{value} {:#x}",
                value.to_bits()
            );
        }
        assert!(
            F8E5M2::from_f32(f32::NEG_INFINITY).to_f32() == f32::NEG_INFINITY
                && F8E5M2::from_f32(f32::NAN).to_f32().is_nan()
        );
    }
}
