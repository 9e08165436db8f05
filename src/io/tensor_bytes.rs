//! What can be written to a file, and what was read from one, before its type is looked at.
// Imports: `error`, `dim`, `layout`, `dtype`, `element`, `device`, `tensor`.

use super::file::{Progress, fill};
use crate::device::{Cpu, Device};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, SizeList, text};
use crate::layout::Layout;
use crate::tensor::{Tensor, TensorView};
use std::io::Read;

/// In which order elements stand in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The last axis is fastest: C, and this crate.
    RowMajor,
    /// The first axis is fastest: Fortran.
    ColumnMajor,
}

/// A tensor that can be written to a file, its type and rank not part of the type: any tensor or view of elements, on any
/// device. Its bytes come in pieces, so that a strided tensor needs no copy as a whole.
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
    /// The element.
    fn dtype(&self) -> DType;
    /// The sizes, first axis first.
    fn sizes(&self) -> Vec<usize>;
    /// The order in which the elements stand without gaps; row-major if in none.
    fn order(&self) -> Order;
    /// Calls `each` with the bytes of all elements, native and in this order, a piece of whole elements at a time.
    ///
    /// # Errors
    /// Those of `each`; [`Error::Unallocated`], [`Error::OutOfMemory`], [`Error::NoData`] on a device without data.
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
            Order::RowMajor => self.pieces("write", each),
            Order::ColumnMajor => self.transposed().pieces("write", each),
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

/// Bytes of all elements, as the sizes say.
pub(super) fn nbytes_of(x: &dyn TensorBytes) -> u64 {
    x.sizes().iter().product::<usize>() as u64 * x.dtype().size() as u64
}

/// Calls `each` with little-endian bytes, which is what files hold; copies on machines of the other order alone. As many as the
/// sizes say, or it is an error.
pub(super) fn each_little_endian(
    op: &'static str,
    x: &dyn TensorBytes,
    order: Order,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut left = nbytes_of(x);
    let mut turned = Vec::new();
    x.for_each_chunk(order, &mut |bytes| {
        let wrong = || Error::Value {
            op,
            what: text(format_args!("a tensor gave other bytes than its sizes {:?} have", x.sizes())),
        };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(wrong)?;
        if cfg!(target_endian = "little") {
            return each(bytes);
        }
        turned.clear();
        turned
            .try_reserve_exact(bytes.len())
            .map_err(|_| Error::OutOfMemory { op: "write", nbytes: bytes.len() })?;
        turned.extend_from_slice(bytes);
        swap(&mut turned, word(x.dtype()));
        each(&turned)
    })?;
    match left {
        0 => Ok(()),
        _ => Err(Error::Value {
            op,
            what: text(format_args!("a tensor of sizes {:?} gave {left} bytes too few", x.sizes())),
        }),
    }
}

/// Bytes of what has a byte order: an element, or one part of a complex number.
fn word(dtype: DType) -> usize {
    dtype.part().size()
}

/// Turns the bytes of each word around.
fn swap(bytes: &mut [u8], word: usize) {
    match word {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|word| word.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse()),
        _ => {}
    }
}

/// What a file says of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) dtype: DType,
    pub(super) size: Vec<usize>,
    pub(super) order: Order,
    /// Whether the file has the other byte order than this machine.
    pub(super) swapped: bool,
}

impl Description {
    /// Bytes of all elements. The limit is over the sizes that are not 0, so that strides can be counted too.
    pub(super) fn nbytes(&self, op: &'static str) -> Result<usize> {
        let element = self.dtype.size();
        let overflow = || Error::Overflow { op, sizes: self.size.as_slice().into(), element };
        let bytes = self.size.iter().try_fold(element, |bytes, &size| bytes.checked_mul(size.max(1)));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(overflow)?;
        Ok(if self.size.contains(&0) { 0 } else { bytes })
    }

    /// [`Error::Type`] unless these are elements `T` with `RANK` axes.
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

    /// The elements, read from where they begin.
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
        fill(op, reader, nbytes, known, &mut |piece| {
            if self.swapped {
                swap(piece, word(self.dtype));
            }
            done += piece.len() as u64;
            if let Some(progress) = &mut progress {
                progress(done, nbytes as u64);
            }
        })
    }

    /// Bytes that were read, as the tensor that they are.
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
