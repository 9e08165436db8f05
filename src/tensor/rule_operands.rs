//! Tensors as operands of operators that state their own backward pass, and back.
// Imports: `error`, `dim`, `layout`, `element`, `device`.

use super::external::base_and_layout;
use super::{TensorView, TensorViewMut};
use crate::device::{Device, OperandRef, RuleOperand, RuleOutput, TypedRef};
use crate::dim::{Dim, Stride};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;

/// The address and the layout of an operand, as a tensor of `T` and this rank. If the operand has fewer axes,
/// there are more of size 1 before them.
fn base_and_layout_of<T: Element, const RANK: usize>(
    operand: TypedRef<'_>,
) -> Result<(*mut u8, Layout<RANK>)> {
    let rank = operand.sizes.len();
    if operand.dtype != T::DTYPE || rank > RANK || operand.slot.stride.len() != rank {
        let what = text(format_args!("{} of rank {RANK}, not {} of rank {rank}", T::DTYPE, operand.dtype));
        return Err(Error::Value { op: "ruled", what });
    }
    let (mut size, mut stride) = ([1; RANK], [1; RANK]);
    size[RANK - rank..].copy_from_slice(operand.sizes);
    stride[RANK - rank..].copy_from_slice(operand.slot.stride);
    base_and_layout::<T, RANK>(operand.slot.address.cast(), Dim(size), Stride(stride))
}

impl<'a, D: Device> RuleOperand<'a, D> {
    /// The operand as a tensor, with axes of size 1 before its own if it has fewer than `RANK`.
    ///
    /// # Errors
    /// [`Error::Value`] if it has another element type, or more axes.
    pub(crate) fn view<T: Element, const RANK: usize>(&self) -> Result<TensorView<'a, T, RANK, D>> {
        let (operand, device) = self.parts();
        let (base, layout) = base_and_layout_of::<T, RANK>(operand)?;
        // SAFETY: the operand's invariant.
        Ok(unsafe { TensorView::new(base, layout, true, device) })
    }
}

impl<'a, D: Device> RuleOutput<'a, D> {
    /// The operand as a tensor, with axes of size 1 before its own if it has fewer than `RANK`.
    ///
    /// # Errors
    /// [`Error::Value`] if it has another element type, or more axes.
    pub(crate) fn view_mut<T: Element, const RANK: usize>(self) -> Result<TensorViewMut<'a, T, RANK, D>> {
        let (operand, device) = self.parts();
        let (base, layout) = base_and_layout_of::<T, RANK>(operand)?;
        // SAFETY: the operand's invariant.
        Ok(unsafe { TensorViewMut::new(base, layout, device) })
    }
}

impl<'a, T: Element, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// The view as an operand. Its elements have memory.
    pub(crate) fn rule_operand(&self) -> RuleOperand<'_, D> {
        let (sizes, stride) = self.layout().sizes_and_strides();
        let slot = OperandRef { address: self.raw_ptr().cast_mut().cast(), stride, element: size_of::<T>() };
        // SAFETY: the invariants of a view.
        unsafe { RuleOperand::new(TypedRef { slot, sizes, dtype: T::DTYPE }, self.device()) }
    }
}

impl<'a, T: Element, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> {
    /// The view as an operand that is written.
    pub(crate) fn rule_output(&mut self) -> RuleOutput<'_, D> {
        let (sizes, stride) = self.layout().sizes_and_strides();
        let slot = OperandRef {
            address: self.as_view().raw_ptr().cast_mut().cast(),
            stride,
            element: size_of::<T>(),
        };
        // SAFETY: the invariants of an exclusive view.
        unsafe { RuleOutput::new(TypedRef { slot, sizes, dtype: T::DTYPE }, self.device()) }
    }
}
