//! The crate `half`: its `f16` and `bf16` have the bits of this crate's, and `From` converts in both
//! directions.
//!
//! ```
//! let x: rankform::f16 = half::f16::PI.into();
//! assert_eq!(x.to_bits(), half::f16::PI.to_bits());
//! assert_eq!(half::bf16::from(rankform::bf16::ONE), half::bf16::ONE);
//! ```
//! Whole slices need no conversion: use `bytemuck::cast_slice::<half::f16, rankform::f16>(values)`, with the
//! feature `bytemuck` of `half`.
// Imports: `element`.

use crate::element::{bf16, f16};

macro_rules! same_bits {
    ($($t:ident)*) => { $(
        impl From<half::$t> for $t {
            #[inline]
            fn from(x: half::$t) -> $t {
                $t::from_bits(x.to_bits())
            }
        }
        impl From<$t> for half::$t {
            #[inline]
            fn from(x: $t) -> half::$t {
                half::$t::from_bits(x.to_bits())
            }
        }
    )* };
}
same_bits!(f16 bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_the_crate_half_rounds() {
        macro_rules! same {
            ($t:ident, $value:expr) => {
                let (ours, theirs) = ($t::from_f32($value), half::$t::from_f32($value));
                assert!(ours.to_bits() == theirs.to_bits(), "{} {ours} {theirs}", $value);
                assert_eq!(
                    (ours.to_f32().to_bits(), $t::from(theirs).to_bits()),
                    (theirs.to_f32().to_bits(), ours.to_bits())
                );
            };
        }
        for bits in (0..=u32::MAX).step_by(if cfg!(miri) { 1 << 22 } else { 991 }) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                same!(f16, value);
                same!(bf16, value);
            }
        }
    }
}
