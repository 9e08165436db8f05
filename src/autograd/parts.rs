//! Complex numbers as pairs of real numbers.
// Imports: `dtype`, `device`.

use crate::device::{MAX_AXES, OperandRef};
use crate::dtype::DType;

/// An operand of complex numbers as one of real numbers, with the two parts along one more axis, which comes at
/// `at`.
pub(super) struct Parts {
    stride: [isize; MAX_AXES + 1],
    axes: usize,
}

impl Parts {
    pub(super) fn new(slot: OperandRef<'_>, at: usize) -> Self {
        let (axes, mut stride) = (slot.stride.len() + 1, [0; MAX_AXES + 1]);
        for (axis, stride) in stride[..axes].iter_mut().enumerate() {
            *stride = match axis.cmp(&at) {
                std::cmp::Ordering::Less => slot.stride[axis] * 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Greater => slot.stride[axis - 1] * 2,
            };
        }
        Parts { stride, axes }
    }
    pub(super) fn slot(&self, slot: OperandRef<'_>) -> OperandRef<'_> {
        OperandRef { address: slot.address, stride: &self.stride[..self.axes], element: slot.element / 2 }
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
