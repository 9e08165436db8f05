//! 16-bit floats: stored so, computed with as f32. Conversions are steps on whole vectors: the crate `half` asks for the
//! processor's instruction at each element, which made an addition of f16 twelve times as long as one of f32.
//!
//! Imports: `dtype`, `element`.

use super::Element;
use crate::dtype::DType;
use crate::half::{bf16, f16};
use num_complex::Complex;

// SAFETY: a transparent u16: zeros are 0.0, there is no padding.
unsafe impl Element for f16 {
    type Compute = f32;
    const DTYPE: DType = DType::F16;
    const PLAIN: bool = true;
    #[inline(always)]
    fn widen(self) -> f32 {
        widen_f16(self.to_bits())
    }
    #[inline(always)]
    fn narrow(value: f32) -> f16 {
        f16::from_bits(narrow_f16(value))
    }
}

// SAFETY: a transparent u16: zeros are 0.0, there is no padding.
unsafe impl Element for bf16 {
    type Compute = f32;
    const DTYPE: DType = DType::BF16;
    const PLAIN: bool = true;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(value: f32) -> bf16 {
        // Round to nearest even by adding just under half; a NaN keeps its sign and stays quiet.
        let bits = value.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
        let quiet = (bits >> 16) as u16 | 0x0040;
        bf16::from_bits(if value.is_nan() { quiet } else { rounded })
    }
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

/// f16 to f32, exactly: normal numbers by their exponent, subnormal ones by a subtraction.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
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
fn narrow_f16(value: f32) -> u16 {
    let (size, sign) = (value.to_bits() & 0x7fff_ffff, value.to_bits() >> 16 & 0x8000);
    let even = size >> 13 & 1;
    let normal = size.wrapping_add(0xfff + even).wrapping_sub(112 << 23) >> 13;
    let subnormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(126 << 23);
    let finite = if size < 113 << 23 { subnormal } else { normal };
    let number = if size < 143 << 23 { finite } else { 0x7c00 };
    let quiet = 0x7e00 | size >> 13 & 0x3ff;
    (sign | if size > 0x7f80_0000 { quiet } else { number }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_what_the_crate_half_says_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (value, expected) = (f16::from_bits(bits), f16::from_bits(bits).to_f32());
            if cfg!(miri) && value.is_nan() {
                assert!(value.widen().is_nan()); // whose bits the language leaves open
                continue;
            }
            assert_eq!(value.widen().to_bits(), expected.to_bits(), "{bits:#x}");
            let back = if value.is_nan() { bits | 0x200 } else { bits };
            assert_eq!(f16::narrow(value.widen()).to_bits(), back, "{bits:#x}");
        }
    }

    /// Every f16, the middle between it and the next, and their neighbours; and a sample of all f32.
    #[test]
    fn f16_are_rounded_as_the_crate_half_rounds() {
        let same = |bits: u32| {
            let value = f32::from_bits(bits);
            assert_eq!(f16::narrow(value).to_bits(), f16::from_f32(value).to_bits(), "{value} {bits:#x}");
        };
        // What rounds beyond the largest.
        for bits in [65519.996f32, 65520.0, 65520.004, 65535.996, 65536.0, f32::MAX].map(f32::to_bits) {
            same(bits);
            same(bits | 1 << 31);
        }
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let value = f16::from_bits(bits).to_f32();
            let next = f16::from_bits(bits.wrapping_add(1)).to_f32();
            for near in [value, (value + next) / 2.0] {
                (-2..3).for_each(|step| same(near.to_bits().wrapping_add_signed(step)));
            }
        }
        (0..=u32::MAX).step_by(if cfg!(miri) { 1 << 20 } else { 997 }).for_each(same);
    }
}
