//! Printing: `Display` as NumPy prints arrays, `Debug` as a call that makes the tensor.
//!
//! Neither fails: a tensor without data prints its sizes.
// Imports: `error`, `dtype`, `scalar`, `element`, `device`, `tensor`.

mod numbers;

use super::bytes::Strided;
use super::{Tensor, TensorView, TensorViewMut};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Result;
use crate::scalar::Prim;
use num_complex::Complex;
use std::fmt;
use std::ops::Range;

/// Above this number of elements, only the edges are printed.
const SUMMARY_ELEMENTS: usize = 1000;
/// The number of elements of an edge.
const EDGE_ELEMENTS: usize = 3;
/// Characters of a line.
const LINE_CHARACTERS: usize = 75;

/// The elements to print, as strings in row-major order.
struct Page<'a> {
    texts: std::vec::IntoIter<String>,
    size: &'a [usize],
    /// Whether each axis shows only its edges.
    is_cut: &'a [bool],
    separator: &'static str,
}

impl Page<'_> {
    /// The text from `axis` on, with `indent` spaces at the start of every line but the first.
    fn text(&mut self, axis: usize, indent: usize, width: usize) -> String {
        if axis == self.size.len() {
            return self.texts.next().unwrap_or_default();
        }
        let is_last = axis + 1 == self.size.len();
        let comma = self.separator.trim_end();
        let count = if self.is_cut[axis] { 2 * EDGE_ELEMENTS + 1 } else { self.size[axis] };
        let (mut text, mut line) = (String::new(), 0);
        for item in 0..count {
            let word = match item {
                EDGE_ELEMENTS if self.is_cut[axis] => "...".into(),
                _ => self.text(axis + 1, indent + 1, width.saturating_sub(1)),
            };
            if !is_last && item > 0 {
                text.extend([comma, &"\n".repeat(self.size.len() - axis - 1), &" ".repeat(indent)]);
            } else if is_last {
                // A number that does not fit begins a new line, unless the line is empty.
                if line > 0 && indent + line + word.len() > width.saturating_sub(1) {
                    text.truncate(text.trim_end().len());
                    text.extend(["\n", &" ".repeat(indent)]);
                    line = 0;
                }
                line += word.len() + self.separator.len();
            }
            text += &word;
            if is_last && item + 1 < count {
                text += self.separator;
            }
        }
        format!("[{text}]")
    }
}

/// A tensor of any element, rank and device, for printing.
pub(crate) struct Cells<'a> {
    pub(crate) kind: DType,
    /// The value of the bytes of one element.
    pub(crate) decode: fn(&[u8]) -> Cell,
    pub(crate) elements: Strided<'a>,
}

/// The value of one element: as an integer, and as a complex number.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) whole: i128,
    pub(crate) parts: (f64, f64),
}

/// The value of the bytes of an element `T`.
pub(crate) fn decode<T: Element>(bytes: &[u8]) -> Cell {
    let value = bytemuck::checked::pod_read_unaligned::<T>(bytes).widen();
    let whole = if T::DTYPE == DType::U64 { value.cast::<u64>().into() } else { value.cast::<i64>().into() };
    let parts: Complex<f64> = value.cast();
    Cell { whole, parts: (parts.re, parts.im) }
}

impl Cells<'_> {
    /// The text of `Display`.
    pub(crate) fn display(&self, f: &fmt::Formatter<'_>) -> Result<String> {
        match f.precision() {
            None if self.size().is_empty() => {
                Ok(self.part(&[])?.into_iter().map(|cell| numbers::scalar(self.kind, cell)).collect())
            }
            _ => self.page(f, " ", 0),
        }
    }

    /// The elements in brackets; lines after the first are indented by `indent` characters.
    fn page(&self, f: &fmt::Formatter<'_>, separator: &'static str, indent: usize) -> Result<String> {
        let is_long = self.size().iter().fold(1, |numel: usize, &size| numel.saturating_mul(size))
            > SUMMARY_ELEMENTS
            && !f.alternate();
        let is_cut: Vec<bool> = self.size().iter().map(|&size| is_long && size > 2 * EDGE_ELEMENTS).collect();
        let cells = self.read(&is_cut, &mut Vec::new())?;
        if cells.is_empty() {
            return Ok("[]".into());
        }
        let texts = numbers::aligned(self.kind, &cells, f.precision().unwrap_or(8)).into_iter();
        let page = Page { texts, size: self.size(), is_cut: &is_cut, separator }.text(
            0,
            indent + 1,
            LINE_CHARACTERS,
        );
        Ok(if self.size().is_empty() { page.trim_start().into() } else { page })
    }

    /// The elements that are printed: all, or the edges of the axes that are cut. `part` has the ranges of
    /// the leading axes.
    fn read(&self, is_cut: &[bool], part: &mut Vec<Range<usize>>) -> Result<Vec<Cell>> {
        let leading = part.len();
        let whole = |axis: usize| 0..self.size()[axis];
        let Some(cut) = (leading..self.size().len()).find(|&axis| is_cut[axis]) else {
            part.extend((leading..self.size().len()).map(whole));
            let cells = self.part(part);
            part.truncate(leading);
            return cells;
        };
        part.extend((leading..cut).map(whole));
        let outer: usize = part.iter().map(Range::len).product();
        let mut edge = |edge: Range<usize>| {
            part.push(edge);
            let cells = self.read(is_cut, part);
            part.pop();
            cells
        };
        let edges = [edge(0..EDGE_ELEMENTS)?, edge(self.size()[cut] - EDGE_ELEMENTS..self.size()[cut])?];
        part.truncate(leading);
        // Each position of the axes before has its part of the first edge, then of the second.
        let share = edges[0].len().checked_div(outer).unwrap_or(0);
        Ok((0..outer)
            .flat_map(|at| edges.iter().flat_map(move |edge| edge[at * share..][..share].iter().copied()))
            .collect())
    }

    fn size(&self) -> &[usize] {
        self.elements.size
    }

    /// The elements inside the ranges of the axes, in row-major order.
    fn part(&self, ranges: &[Range<usize>]) -> Result<Vec<Cell>> {
        let OperandRef { address, stride, element } = self.elements.slot;
        let first: isize = ranges.iter().zip(stride).map(|(range, &step)| range.start as isize * step).sum();
        let size: Vec<usize> = ranges.iter().map(Range::len).collect();
        let slot = OperandRef { address: address.wrapping_offset(first * element as isize), stride, element };
        let mut cells = Vec::with_capacity(size.iter().product());
        // SAFETY: a part of the elements.
        unsafe {
            Strided { size: &size, slot, ..self.elements }.for_each_chunk(&mut |bytes| {
                cells.extend(bytes.chunks_exact(element).map(self.decode));
                Ok(())
            })?;
        }
        Ok(cells)
    }
}

impl<T: Element, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    fn cells(self, run: impl FnOnce(&Cells<'_>) -> Result<String>) -> Result<String> {
        self.erased("display", |elements| run(&Cells { kind: T::DTYPE, decode: decode::<T>, elements }))
    }

    fn display(self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cells(|cells| cells.display(f)) {
            Ok(text) => f.write_str(&text),
            Err(_) => self.describe(name, None, f),
        }
    }

    fn debug(self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = format!("{name}<{}, {RANK}>(", T::DTYPE).len();
        self.describe(name, self.cells(|cells| cells.page(f, ", ", indent)).ok(), f)
    }

    fn describe(self, name: &str, page: Option<String>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}<{}, {RANK}>(", T::DTYPE)?;
        if let Some(page) = page {
            write!(f, "{page}, ")?;
        }
        let memory = if self.ensure_allocated("debug").is_ok() { "" } else { ", unallocated" };
        write!(f, "size={}, device={:?}{memory})", self.size(), self.device())
    }
}

macro_rules! printed {
    ($($name:ident: $type:ty, |$x:ident| $view:expr;)*) => { $(
        /// Prints as NumPy prints arrays; `{:.3}` gives at most 3 digits after the point, `{:#}` prints every
        /// element.
        ///
        /// Floats have the fewest digits that distinguish them from their neighbors, at most 8 after the
        /// point. Above 1 000 elements each axis shows 3 at either end. A tensor without data prints its
        /// sizes and is no error.
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// let x = Tensor::from([[1.0, 2.5], [3.0, 4.0]]);
        /// assert_eq!(x.to_string(), "[[1.  2.5]\n [3.  4. ]]");
        /// assert_eq!(format!("{:.0}", x.transposed()), "[[1. 3.]\n [2. 4.]]");
        /// ```
        impl<T: Element, const RANK: usize, D: Device> fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $x = self;
                $view.display(stringify!($name), f)
            }
        }
        /// The type, the elements as in `Display`, the sizes and the device.
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// let text = format!("{:?}", Tensor::from([1.0, 2.0]));
        /// assert_eq!(text, "Tensor<f64, 1>([1., 2.], size=[2], device=Cpu)");
        /// ```
        impl<T: Element, const RANK: usize, D: Device> fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $x = self;
                $view.debug(stringify!($name), f)
            }
        }
    )* };
}
printed! {
    Tensor: Tensor<T, RANK, D>, |x| x.view();
    TensorView: TensorView<'_, T, RANK, D>, |x| *x;
    TensorViewMut: TensorViewMut<'_, T, RANK, D>, |x| x.as_view();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Allocation;
    use crate::device::Cpu;
    use crate::dim::Dim;
    use crate::fallible::FallibleArc;
    use crate::layout::Layout;

    #[test]
    fn a_tensor_that_waits_for_its_memory_prints_its_sizes() {
        let memory = || FallibleArc::new(Allocation::new(&Cpu, 0).unwrap()).unwrap();
        let x = Tensor::<f32, 2>::deferred(memory(), Layout::row_major(Dim([2000, 3])));
        assert_eq!(x.to_string(), "Tensor<f32, 2>(size=[2000, 3], device=Cpu, unallocated)");
        assert_eq!(format!("{x:?}"), x.to_string());
        let scalar = Tensor::<f32, 0>::deferred(memory(), Layout::row_major(Dim([])));
        assert_eq!(scalar.to_string(), "Tensor<f32, 0>(size=[], device=Cpu, unallocated)");
    }
}
