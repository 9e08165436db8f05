//! Functions of reducers that accumulate a slice, compiled in this crate. Builds with debug assertions
//! interpret programs and call these; compiled in an unoptimized crate they would be slow.
// Imports: `scalar`, `kernel`, `device`, `ops`.

use crate::device::slice_of;
use crate::kernel::SliceFn;
use crate::ops::{ArgMax, ArgMin, LogSumExp, MeanF64, MeanVar, Norm, Var};
use crate::scalar::DType;

macro_rules! slices {
    ($($name:ident $R:ident: $($dtype:ident $t:ty),*;)*) => { $(
        /// The function for this compute type.
        #[inline(never)]
        pub(super) fn $name(dtype: DType) -> Option<SliceFn> {
            match dtype {
                $(DType::$dtype => Some(slice_of::<$t, $R>),)*
                _ => None,
            }
        }
    )* };
}
slices! {
    largest ArgMax: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64;
    smallest ArgMin: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64;
    moments Var: F32 f32, F64 f64;
    moments_and_sum MeanVar: F32 f32, F64 f64;
    norm Norm: F32 f32, F64 f64;
    shifted MeanF64: F32 f32, F64 f64;
    exp_sums LogSumExp: F32 f32, F64 f64;
}
