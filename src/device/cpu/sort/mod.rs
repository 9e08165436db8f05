//! Sorts of lines along an axis, by unsigned integer keys whose order is that of the elements.
//!
//! | file | |
//! |---|---|
//! | `keys.rs` | keys of elements; a key with its position |
//! | `items.rs` | vectors in scratch memory |
//! | `lines.rs` | reads lines, sorts or selects their keys, writes elements and positions |
//! | `radix.rs` | sorts of items: the choice among network, quicksort, comparisons and radix sort |
//! | `bitonic.rs` | a sorting network over vectors |
//! | `quick.rs`, `partition.rs` | quicksort and selection, by partitions of vectors |
//! | `short.rs` | sorts short lines, one in each lane of the network |
//! | `select.rs` | the least keys of a line |
//!
//! Sorts are stable: a key and its position form one item, and no two items are equal. The element types are
//! selected by name at run time; this code is compiled once, in this crate.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

mod bitonic;
mod items;
mod keys;
mod lines;
#[cfg(target_arch = "x86_64")]
mod partition;
mod quick;
mod radix;
mod select;
mod short;

use crate::device::OperandRef;
use crate::element::{bf16, f16};
use crate::error::{Error, Result};
use crate::kernel::SortPlan;
use crate::scalar::DType;
use lines::{KeyFns, SortLines};

/// Sorts lines of elements that `dtype` names.
///
/// # Safety
/// As [`Device::sort`](crate::device::Device::sort), for these elements.
pub(super) unsafe fn run(
    dtype: DType,
    plan: SortPlan<'_>,
    values: Option<OperandRef<'_>>,
    positions: Option<OperandRef<'_>>,
    from: OperandRef<'_>,
) -> Result<()> {
    macro_rules! of {
        ($($name:ident $t:ty,)*) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$name => unsafe {
                    SortLines::run(KeyFns::of::<$t>(), plan, values, positions, from)
                },)*
                _ => Err(Error::Unsupported { op: "sort", device: "Cpu" }),
            }
        };
    }
    of!(
        Bool u8, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
        F16 f16, BF16 bf16, F32 f32, F64 f64,
    )
}
