//! Printing: `Display` as of the typed tensor, `Debug` with its types.
//!
//! Imports: `error`, `device`, `element`, `tensor`, `dynamic`.

use super::tensor::DynTensor;
use super::visit::ElementVisitor;
use crate::device::Cpu;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::{Cell, Cells, cells};
use std::fmt;
use std::ops::Range;

/// The elements of a row.
struct Row(DynTensor);
impl ElementVisitor for Row {
    type Output = Result<Vec<Cell>>;
    fn visit<T: Element>(self) -> Self::Output {
        self.0.downcast_ref::<T, 1, Cpu>()?.to_vec().map(cells)
    }
}

fn print(here: &DynTensor, f: &fmt::Formatter<'_>) -> Result<String> {
    let part = |ranges: &[Range<usize>]| {
        let mut part = here.share_data();
        for (axis, range) in ranges.iter().enumerate() {
            part = part.ranged(axis, range.start, range.end, 1)?;
        }
        let row = part.to_contiguous()?.reshaped(&[part.numel()])?;
        row.dtype().visit(Row(row))
    };
    Cells { kind: here.dtype(), size: here.size(), part: &part }.display(f)
}

/// The elements, as NumPy prints them; they come to the CPU for it. Without elements to print: what the tensor is.
impl fmt::Display for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = if self.is_on::<Cpu>() { Ok(self.share_data()) } else { self.to(&Cpu) };
        match here.and_then(|here| print(&here, f)) {
            Ok(text) => f.write_str(&text),
            Err(_) => fmt::Debug::fmt(self, f),
        }
    }
}

/// What the tensor is, without its elements.
impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynTensor({}, sizes {:?}, on {})", self.dtype(), self.size(), self.device_name())
    }
}
