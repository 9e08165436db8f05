//! A tensor for writing, and the description of a tensor in a file, both without static types.
// Imports: `error`, `dim`, `layout`, `dtype`, `element`, `device`, `tensor`.

use super::file::{Progress, read_elements};
use crate::device::{Cpu, Device};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, SizeList, text};
use crate::layout::Layout;
use crate::tensor::{Tensor, TensorView};
use std::io::Read;

/// The order of elements in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The last axis varies fastest, as in C and in this crate.
    RowMajor,
    /// The first axis varies fastest, as in Fortran.
    ColumnMajor,
}

/// A tensor that can be written to a file, without its element and rank in the type: any tensor or view of
/// elements, on any device. Its bytes are produced in chunks, so that a strided tensor is never copied as a
/// whole.
///
/// # Examples
/// ```
/// use rankform::io::{Order, TensorBytes};
/// use rankform::prelude::*;
/// let (x, y) = (Tensor::from([[1.0_f32, 2.0]]), Tensor::from([1_u8]));
/// let tensors: [&dyn TensorBytes; 2] = [&x.transposed(), &y];
/// let rows: Vec<String> = tensors.iter().map(|x| format!("{} {:?}", x.dtype(), x.sizes())).collect();
/// assert_eq!(rows, ["f32 [2, 1]", "u8 [1]"]);
/// ```
pub trait TensorBytes {
    /// The element type.
    fn dtype(&self) -> DType;
    /// The sizes, first axis first.
    fn sizes(&self) -> Vec<usize>;
    /// The order in which the elements are contiguous; row-major if they are in neither.
    fn order(&self) -> Order;
    /// Calls `each` with the bytes of all elements, in native byte order and in this order of elements, a
    /// chunk of whole elements at a time.
    ///
    /// # Errors
    /// Those of `each`; [`Error::Unallocated`], [`Error::OutOfMemory`], [`Error::NoData`] on a device without
    /// data.
    fn for_each_chunk(&self, order: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

impl<T: Element, const RANK: usize, D: Device> TensorBytes for TensorView<'_, T, RANK, D> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }
    fn sizes(&self) -> Vec<usize> {
        self.size().0.to_vec()
    }
    fn order(&self) -> Order {
        if !self.layout().is_contiguous() && self.transposed().layout().is_contiguous() {
            Order::ColumnMajor
        } else {
            Order::RowMajor
        }
    }
    fn for_each_chunk(&self, order: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match order {
            Order::RowMajor => self.for_each_chunk("write", each),
            Order::ColumnMajor => self.transposed().for_each_chunk("write", each),
        }
    }
}

impl<T: Element, const RANK: usize, D: Device> TensorBytes for Tensor<T, RANK, D> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }
    fn sizes(&self) -> Vec<usize> {
        self.size().0.to_vec()
    }
    fn order(&self) -> Order {
        self.view().order()
    }
    fn for_each_chunk(&self, order: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        TensorBytes::for_each_chunk(&self.view(), order, each)
    }
}

impl<X: TensorBytes + ?Sized> TensorBytes for &X {
    fn dtype(&self) -> DType {
        (**self).dtype()
    }
    fn sizes(&self) -> Vec<usize> {
        (**self).sizes()
    }
    fn order(&self) -> Order {
        (**self).order()
    }
    fn for_each_chunk(&self, order: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        (**self).for_each_chunk(order, each)
    }
}

/// The bytes of all elements, by the sizes.
pub(super) fn nbytes_of(x: &dyn TensorBytes) -> u64 {
    x.sizes().iter().product::<usize>() as u64 * x.dtype().size() as u64
}

/// Calls `each` with little-endian bytes, as files contain; only big-endian machines copy them. It is an
/// error if the number of bytes is not that of the sizes.
pub(super) fn each_little_endian(
    op: &'static str,
    x: &dyn TensorBytes,
    order: Order,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut left = nbytes_of(x);
    let mut reversed = Vec::new();
    x.for_each_chunk(order, &mut |bytes| {
        let wrong = || Error::Value {
            op,
            what: text(format_args!("a tensor gave other bytes than its sizes {:?} have", x.sizes())),
        };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(wrong)?;
        if cfg!(target_endian = "little") {
            return each(bytes);
        }
        reversed.clear();
        reversed
            .try_reserve_exact(bytes.len())
            .map_err(|_| Error::OutOfMemory { op: "write", nbytes: bytes.len() })?;
        reversed.extend_from_slice(bytes);
        reverse_units(&mut reversed, unit_size(x.dtype()));
        each(&reversed)
    })?;
    match left {
        0 => Ok(()),
        _ => Err(Error::Value {
            op,
            what: text(format_args!("a tensor of sizes {:?} gave {left} bytes too few", x.sizes())),
        }),
    }
}

/// The bytes of a unit with a byte order: an element, or one part of a complex number.
fn unit_size(dtype: DType) -> usize {
    dtype.part().size()
}

/// Reverses the bytes of each unit.
fn reverse_units(bytes: &mut [u8], word: usize) {
    match word {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|word| word.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse()),
        _ => {}
    }
}

/// The description of one tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) dtype: DType,
    pub(super) size: Vec<usize>,
    pub(super) order: Order,
    /// Whether the file's byte order is not this machine's.
    pub(super) swapped: bool,
}

impl Description {
    /// The bytes of all elements. Their limit applies to the sizes other than 0, so that strides can be
    /// counted too.
    pub(super) fn nbytes(&self, op: &'static str) -> Result<usize> {
        let element = self.dtype.size();
        let overflow = || Error::Overflow { op, sizes: self.size.as_slice().into(), element };
        let bytes = self.size.iter().try_fold(element, |bytes, &size| bytes.checked_mul(size.max(1)));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(overflow)?;
        Ok(if self.size.contains(&0) { 0 } else { bytes })
    }

    /// The sizes, if these are elements `T` with `RANK` axes; [`Error::Type`] otherwise.
    pub(super) fn wanted<T: Element, const RANK: usize>(&self, op: &'static str) -> Result<Dim<RANK>> {
        match <[usize; RANK]>::try_from(self.size.as_slice()) {
            Ok(size) if self.dtype == T::DTYPE => {
                Dim(size).numel_of(op, size_of::<T>())?;
                Ok(Dim(size))
            }
            _ => {
                let (found, sizes) = (self.dtype, SizeList::from(self.size.as_slice()));
                let expected = text(format_args!("{} of rank {RANK}", T::DTYPE));
                Err(Error::Type { op, expected, found: text(format_args!("{found} of sizes {sizes}")) })
            }
        }
    }

    /// Reads the elements, which begin at the reader's position.
    pub(super) fn fill(
        &self,
        op: &'static str,
        reader: &mut dyn Read,
        known: bool,
        progress: Option<Progress<'_>>,
    ) -> Result<Tensor<u8, 1, Cpu>> {
        let nbytes = self.nbytes(op)?;
        let mut done = 0;
        let mut progress = progress;
        read_elements(op, reader, nbytes, known, &mut |piece| {
            if self.swapped {
                reverse_units(piece, unit_size(self.dtype));
            }
            done += piece.len() as u64;
            if let Some(progress) = &mut progress {
                progress(done, nbytes as u64);
            }
        })
    }

    /// Makes a tensor of bytes from a file.
    pub(super) fn tensor<T: Element, const RANK: usize>(
        &self,
        op: &'static str,
        bytes: Tensor<u8, 1, Cpu>,
    ) -> Result<Tensor<T, RANK, Cpu>> {
        let size = self.wanted::<T, RANK>(op)?;
        let layout = match self.order {
            Order::RowMajor => Layout::row_major(size),
            Order::ColumnMajor => {
                Layout::row_major(Dim(std::array::from_fn(|axis| size.0[RANK - 1 - axis]))).transposed()
            }
        };
        bytes.into_elements(op, layout)
    }
}
