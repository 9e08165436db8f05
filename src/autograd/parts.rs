//! Complex numbers as pairs of real numbers.
// Imports: `dtype`, `device`.

use super::axes::Axes;
use crate::device::OperandRef;
use crate::dtype::DType;

/// An operand of complex numbers as one of real numbers, with the two parts along one more axis, which comes
/// at `at`.
pub(super) struct Parts(Axes<isize>);

impl Parts {
    pub(super) fn new(slot: OperandRef<'_>, at: usize) -> Self {
        let (before, after) = slot.stride.split_at(at);
        let double = |stride: &isize| stride * 2;
        Parts(before.iter().map(double).chain([1]).chain(after.iter().map(double)).collect())
    }
    pub(super) fn slot(&self, slot: OperandRef<'_>) -> OperandRef<'_> {
        OperandRef { address: slot.address, stride: &self.0, element: slot.element / 2 }
    }
}

/// The element type of the parts of complex numbers.
pub(super) fn part_of(dtype: DType) -> Option<DType> {
    match dtype {
        DType::C32 => Some(DType::F32),
        DType::C64 => Some(DType::F64),
        _ => None,
    }
}
