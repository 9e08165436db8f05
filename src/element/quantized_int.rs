//! Quantized integers: whole numbers that stand for real ones, by a scale and a zero point kept beside them.
//!
//! They are elements so that they can be stored, moved and indexed on every device; they are no numbers, since sums and
//! products of them mean nothing without scale and zero point.
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

        // SAFETY: a transparent integer.
        unsafe impl bytemuck::Zeroable for $t {}
        // SAFETY: a transparent integer.
        unsafe impl bytemuck::Pod for $t {}
        #[diagnostic::do_not_recommend] // few mean these
        // SAFETY: a transparent integer: zeros are 0, there is no padding.
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
    /// A signed byte that stands for a real number. `cast` gives the integer that is stored.
    QInt8 i8 QI8;
    /// A byte that stands for a real number. `cast` gives the integer that is stored.
    QUInt8 u8 QU8;
    /// A 32-bit integer that stands for a real number. `cast` gives the integer that is stored.
    QInt32 i32 QI32;
}
