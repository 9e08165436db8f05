//! Quantized integers: integers that represent real numbers by a scale and a zero point, which the tensor
//! holds.
//!
//! They are elements, so that they can be stored, moved and indexed on every device. They have no arithmetic,
//! since sums and products need the scale and the zero point.
// Imports: `dtype`, `element`.

use super::Element;
use crate::dtype::DType;
use std::fmt;

macro_rules! quantized {
    ($($(#[$doc:meta])* $t:ident $int:ident $dtype:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $t(pub $int);

        // SAFETY: a transparent integer, of which 0 is a value.
        unsafe impl bytemuck::Zeroable for $t {}
        // SAFETY: a transparent integer, of which all bits are values.
        unsafe impl bytemuck::Pod for $t {}
        #[diagnostic::do_not_recommend] // few users mean these types
        // SAFETY: a transparent integer: zero bytes are 0, and it has no padding.
        unsafe impl Element for $t {
            type Compute = $int;
            const DTYPE: DType = DType::$dtype;
            const PLAIN: bool = true;
            #[inline(always)]
            fn widen(self) -> $int { self.0 }
            #[inline(always)]
            fn narrow(value: $int) -> Self { $t(value) }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )* };
}
quantized! {
    /// An 8-bit signed integer that represents a real number. `cast` gives the stored integer.
    QInt8 i8 QI8;
    /// An 8-bit unsigned integer that represents a real number. `cast` gives the stored integer.
    QUInt8 u8 QU8;
    /// A 32-bit integer that represents a real number. `cast` gives the stored integer.
    QInt32 i32 QI32;
}
