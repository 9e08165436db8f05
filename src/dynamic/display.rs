//! Printing: `Display` as for typed tensors, `Debug` with the types.
// Imports: `error`, `device`, `element`, `tensor`, `dynamic`.

use super::tensor::DynTensor;
use super::visit::ElementVisitor;
use crate::device::Cpu;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::tensor::{Cell, Cells, decode};
use std::fmt;

/// A function that formats the elements of one type.
struct Decode;
impl ElementVisitor for Decode {
    type Output = fn(&[u8]) -> Cell;
    fn visit<T: Element>(self) -> Self::Output {
        decode::<T>
    }
}

fn print(here: &DynTensor, f: &fmt::Formatter<'_>) -> Result<String> {
    let (op, kind) = ("display", here.dtype());
    here.ensure_allocated(op)?;
    let elements = here.strided::<Cpu>().ok_or(Error::NoData { op, device: "another device" })?;
    Cells { kind, decode: kind.visit(Decode), elements }.display(f)
}

/// Prints the elements as NumPy does, after a copy to the CPU. A tensor without accessible elements is
/// described.
impl fmt::Display for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = if self.is_on::<Cpu>() { Ok(self.share_data()) } else { self.to(&Cpu) };
        match here.and_then(|here| print(&here, f)) {
            Ok(text) => f.write_str(&text),
            Err(_) => fmt::Debug::fmt(self, f),
        }
    }
}

/// Describes the tensor, without its elements.
impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynTensor({}, sizes {:?}, on {})", self.dtype(), self.size(), self.device_name())
    }
}
