//! Files whose elements and sizes are known when they are read.
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`.

use super::tensor_bytes::{Description, Order, TensorBytes};
use crate::device::Cpu;
use crate::dtype::DType;
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;

/// A tensor on the host is written as a [`Tensor`] is. A tensor on another device, or with more than 8 axes,
/// is copied first.
impl TensorBytes for DynTensor {
    fn dtype(&self) -> DType {
        DynTensor::dtype(self)
    }
    fn sizes(&self) -> Vec<usize> {
        self.size().to_vec()
    }
    fn order(&self) -> Order {
        let turned = reversed(self).is_ok_and(|turned| turned.is_contiguous());
        if !self.is_contiguous() && turned { Order::ColumnMajor } else { Order::RowMajor }
    }
    fn for_each_chunk(&self, order: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.ensure_allocated("write")?;
        if order == Order::ColumnMajor {
            return reversed(self)?.for_each_chunk(Order::RowMajor, each);
        }
        if let Some(elements) = self.strided::<Cpu>().filter(|_| self.rank() <= 8) {
            // SAFETY: the bytes are this tensor's elements, which the borrow keeps.
            return unsafe { elements.for_each_chunk(each) };
        }
        let here = self.to(&Cpu)?.to_contiguous()?;
        here.as_bytes().unwrap_or_default().chunks(4 << 20).try_for_each(each)
    }
}

/// Converts a tensor from a file to elements `T` and `RANK` axes, with a cast if its elements are others.
pub(super) fn converted<T: Element, const RANK: usize>(x: DynTensor) -> Result<Tensor<T, RANK, Cpu>> {
    if x.dtype() == T::DTYPE { x.downcast() } else { x.cast::<Cpu>(T::DTYPE)?.downcast() }
}

/// The axes in reverse order.
fn reversed(x: &DynTensor) -> Result<DynTensor> {
    x.permuted(&(0..x.rank()).rev().collect::<Vec<_>>())
}

impl Description {
    /// Makes a tensor of bytes from a file, as the file describes it.
    pub(super) fn dynamic(&self, op: &'static str, bytes: Tensor<u8, 1, Cpu>) -> Result<DynTensor> {
        let elements = DynTensor::of_bytes(op, self.dtype, bytes)?;
        match self.order {
            Order::RowMajor => elements.reshaped(&self.size),
            Order::ColumnMajor => {
                reversed(&elements.reshaped(&self.size.iter().rev().copied().collect::<Vec<_>>())?)
            }
        }
    }
}
