//! Printing: `Display` as of the typed tensor, `Debug` with its types.
//!
//! Imports: `element`, `device`, `tensor`, `dynamic`.

use super::tensor::DynTensor;
use super::visit::TensorVisitor;
use crate::device::{Cpu, Device};
use crate::element::Element;
use crate::tensor::TensorView;
use std::fmt;

struct Print<'a, 'b>(&'a mut fmt::Formatter<'b>);
impl<D: Device> TensorVisitor<D> for Print<'_, '_> {
    type Output = fmt::Result;
    fn visit<T: Element, const RANK: usize>(self, tensor: TensorView<'_, T, RANK, D>) -> fmt::Result {
        fmt::Display::fmt(&tensor, self.0)
    }
}

/// The elements, as NumPy prints them; they come to the CPU for it. Without elements to print: what the tensor is.
impl fmt::Display for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = if self.device::<Cpu>().is_some() { Ok(self.share_data()) } else { self.to(&Cpu) };
        match here {
            Ok(here) if here.rank() <= 8 && here.device::<Cpu>().is_some() => here.visit::<Cpu, _>(Print(f)).unwrap_or(Err(fmt::Error)),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

/// What the tensor is, without its elements.
impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynTensor({}, sizes {:?}, on {})", self.dtype(), self.size(), self.device_name())
    }
}
