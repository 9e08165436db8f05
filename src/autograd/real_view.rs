//! Complex numbers as pairs of real numbers.
// Imports: `dtype`, `device`.

use super::small_vec::SmallVec;
use crate::device::OperandRef;
use crate::dtype::DType;

/// An operand of complex numbers as one of real numbers, with the two parts along one more axis, which comes
/// at `at`.
pub(super) struct RealView(SmallVec<isize>);

impl RealView {
    pub(super) fn new(slot: OperandRef<'_>, at: usize) -> Self {
        let (before, after) = slot.stride.split_at(at);
        let double = |stride: &isize| stride * 2;
        RealView(before.iter().map(double).chain([1]).chain(after.iter().map(double)).collect())
    }
    pub(super) fn slot(&self, slot: OperandRef<'_>) -> OperandRef<'_> {
        OperandRef { address: slot.address, stride: &self.0, element: slot.element / 2 }
    }
}

/// The element type of the parts of complex numbers.
pub(super) fn real_of(dtype: DType) -> Option<DType> {
    match dtype {
        DType::C32 => Some(DType::F32),
        DType::C64 => Some(DType::F64),
        _ => None,
    }
}
