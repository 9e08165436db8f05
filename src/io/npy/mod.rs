//! NumPy's `.npy`: one tensor in a file.
//!
//! It supports the versions 1.0, 2.0 and 3.0, both byte orders, both orders of axes, and every element that
//! NumPy and this crate share. A file in Fortran order is read without a reordering, and its tensor has the
//! strides of that order. Python objects, dates, text and elements with fields are refused with an
//! explanation.
//!
//! NumPy has no name for bfloat16. The package `ml_dtypes` writes it as untyped bytes, `V2`; so does this
//! module, and it reads them if the caller requests bf16.
//!
//! ```
//! use rankform::io::npy;
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-npy-example.npy");
//! let x = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
//! npy::write(&path, &x.transposed())?;
//! let y = npy::read::<f32, 2>(&path)?;
//! assert_eq!(y, x.transposed());
//! assert_eq!(y.stride(), x.transposed().stride()); // the order of the file
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`, `io`.

mod header;

#[cfg(feature = "dynamic")]
use super::dynamic::converted;
use super::file::{
    Progress, expect_end, format_error, open as open_file, with_name, write_bytes, write_file,
};
use super::tensor_bytes::{Description, Order, TensorBytes, each_little_endian, nbytes_of};
use crate::device::Cpu;
use crate::dtype::DType;
#[cfg(feature = "dynamic")]
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use header::Descr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Reads a file of elements `T` with `RANK` axes.
///
/// # Cost
/// One allocation, into which the bytes are read directly. Bytes of the other byte order are swapped on the
/// way.
///
/// # Errors
/// [`Error::Type`] if the file has another element type or rank, [`Error::Format`] if it is not in this
/// format, or is too short or too long, [`Error::Overflow`], [`Error::OutOfMemory`], [`Error::Io`].
///
/// # Source
/// Format: `numpy.lib.format`.
pub fn read<T: Element, const RANK: usize>(path: impl AsRef<Path>) -> Result<Tensor<T, RANK>> {
    let name = path.as_ref().display();
    open(&path)?.read().map_err(|error| with_name(name, error))
}

/// Reads a file of `RANK` axes. Elements of another type are cast to `T`, by the rules of
/// [`cast`](crate::ops::Cast::cast).
///
/// # Cost
/// As [`read()`]. A cast makes two more copies, of at most 16 bytes an element.
///
/// # Errors
/// As [`read()`], except that [`Error::Type`] is for another number of axes only.
///
/// # Examples
/// ```
/// use rankform::io::npy;
/// use rankform::prelude::*;
/// let path = std::env::temp_dir().join("rankform-npy-as.npy");
/// npy::write(&path, &Tensor::from([[1_u8, 2]]))?;
/// assert_eq!(npy::read_as::<f32, 2>(&path)?, Tensor::from([[1.0, 2.0]]));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), rankform::Error>(())
/// ```
#[cfg(feature = "dynamic")]
pub fn read_as<T: Element, const RANK: usize>(path: impl AsRef<Path>) -> Result<Tensor<T, RANK>> {
    let name = path.as_ref().display();
    open(&path)?.read_as().map_err(|error| with_name(name, error))
}

/// Reads a file of any element type and rank.
///
/// # Errors
/// As [`read()`].
///
/// # Examples
/// ```
/// use rankform::io::npy;
/// use rankform::prelude::*;
/// let path = std::env::temp_dir().join("rankform-npy-dyn.npy");
/// npy::write(&path, &Tensor::from([[1_u8, 2]]))?;
/// let x = npy::read_dyn(&path)?;
/// assert_eq!((x.dtype().name(), x.size()), ("uint8", &[1, 2][..]));
/// npy::write(&path, &x)?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), rankform::Error>(())
/// ```
#[cfg(feature = "dynamic")]
pub fn read_dyn(path: impl AsRef<Path>) -> Result<DynTensor> {
    let name = path.as_ref().display();
    open(&path)?.read_dyn().map_err(|error| with_name(name, error))
}

/// Opens a file and reads its header: for a file whose element type is not known, or to observe the progress.
///
/// # Errors
/// [`Error::Format`], [`Error::Io`].
///
/// # Examples
/// ```
/// use rankform::io::npy;
/// use rankform::prelude::*;
/// let path = std::env::temp_dir().join("rankform-npy-open.npy");
/// npy::write(&path, &Tensor::<u8, 1>::zeros([1_000_000], &Cpu)?)?;
/// let file = npy::open(&path)?;
/// assert_eq!(file.sizes(), [1_000_000]);
/// let mut last = 0;
/// let x = file.read_with::<u8, 1>(&mut |done, of| last = 100 * done / of)?;
/// assert_eq!((last, x.numel()), (100, 1_000_000));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Npy<File>> {
    let (file, length) = open_file(READ, path.as_ref())?;
    let mut npy = Npy::new(file).map_err(|error| with_name(path.as_ref().display(), error))?;
    npy.alone = true;
    // The header is already read, so the rest of the file belongs to the elements.
    if let Some(length) = length {
        let at = std::io::Seek::stream_position(&mut npy.reader)
            .map_err(|error| super::file::io_error(READ, path.as_ref(), error))?;
        npy.left = Left::Exactly(length.saturating_sub(at));
    }
    Ok(npy)
}

/// Writes a file, completely or not at all: under another name in the same folder first, which is then
/// renamed.
///
/// Elements are written little-endian, in Fortran order if they are contiguous in it, else row-major.
///
/// # Cost
/// No memory if the elements are contiguous in either order; other tensors are copied in chunks of 256 KiB.
/// The data is on the disk when this returns.
///
/// # Errors
/// [`Error::Io`], [`Error::Unallocated`], [`Error::NoData`] on a device without data. After an error an old
/// file of this name is unchanged.
pub fn write(path: impl AsRef<Path>, x: &(impl TensorBytes + ?Sized)) -> Result<()> {
    write_with(path, x, &mut |_, _| {})
}

/// As [`write()`], and calls `progress` on the way.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    path: impl AsRef<Path>,
    x: &(impl TensorBytes + ?Sized),
    progress: Progress<'_>,
) -> Result<()> {
    write_file(WRITE, path.as_ref(), |file| put_tensor(file, &x, progress))
}

/// Writes to any writer. Several tensors may follow each other.
///
/// # Errors
/// As [`write()`]. Bytes written before an error remain.
pub fn write_to(writer: &mut impl Write, x: &(impl TensorBytes + ?Sized)) -> Result<()> {
    put_tensor(writer, &x, &mut |_, _| {})
}

const READ: &str = "npy::read";
const WRITE: &str = "npy::write";

pub(super) fn put_tensor(writer: &mut dyn Write, x: &dyn TensorBytes, progress: Progress<'_>) -> Result<()> {
    let (dtype, sizes, order) = (x.dtype(), x.sizes(), x.order());
    write_bytes(WRITE, writer, &header::write(WRITE, dtype, &sizes, order)?)?;
    let total = nbytes_of(x);
    let mut done = 0;
    each_little_endian(WRITE, x, order, &mut |bytes| {
        write_bytes(WRITE, writer, bytes)?;
        done += bytes.len() as u64;
        progress(done, total);
        Ok(())
    })?;
    writer.flush().map_err(|error| Error::Io {
        op: WRITE,
        kind: error.kind(),
        what: text(format_args!("{error}")),
    })
}

/// The number of bytes after the header.
#[derive(Clone, Copy)]
enum Left {
    Unknown,
    Exactly(u64),
    /// The number that an archive claims, which is trusted up to the number that the archive could contain.
    #[cfg(feature = "npz")]
    Perhaps(u64),
}

/// A tensor in NumPy's format whose header is read and whose elements are not.
pub struct Npy<R> {
    reader: R,
    descr: Descr,
    about: Description,
    left: Left,
    /// Whether no bytes may follow the tensor.
    alone: bool,
}

impl<R: Read> Npy<R> {
    /// Reads the header from any reader. The tensor ends where its header says, and later bytes are not read.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Io`].
    pub fn new(mut reader: R) -> Result<Self> {
        let (descr, described) = header::read(READ, &mut reader)?;
        Ok(Npy { reader, descr, about: described, left: Left::Unknown, alone: false })
    }

    /// A tensor that is a whole member of an archive. At most `limit` bytes of it are trusted to exist.
    #[cfg(feature = "npz")]
    pub(super) fn of_archive(reader: R, limit: u64) -> Result<Self> {
        Ok(Npy { left: Left::Perhaps(limit), alone: true, ..Npy::new(reader)? })
    }

    /// The element type; `None` for bytes that NumPy has no name for.
    pub fn dtype(&self) -> Option<DType> {
        match self.descr {
            Descr::Known(dtype) => Some(dtype),
            Descr::Void(_) => None,
        }
    }

    /// The sizes, first axis first.
    pub fn sizes(&self) -> &[usize] {
        &self.about.size
    }

    /// The order of the elements.
    pub fn order(&self) -> Order {
        self.about.order
    }

    /// Reads the elements.
    ///
    /// # Errors
    /// As [`read()`].
    pub fn read<T: Element, const RANK: usize>(self) -> Result<Tensor<T, RANK>> {
        self.elements::<T, RANK>(None)
    }

    /// As [`read`](Npy::read), and calls `progress` on the way.
    ///
    /// # Errors
    /// As [`read()`].
    pub fn read_with<T: Element, const RANK: usize>(self, progress: Progress<'_>) -> Result<Tensor<T, RANK>> {
        self.elements::<T, RANK>(Some(progress))
    }

    /// Reads the elements. Elements of another type are cast to `T`.
    ///
    /// # Errors
    /// As [`read_as()`].
    #[cfg(feature = "dynamic")]
    pub fn read_as<T: Element, const RANK: usize>(self) -> Result<Tensor<T, RANK>> {
        // The caller determines the type of bytes that NumPy has no name for.
        if matches!(self.descr, Descr::Void(_)) {
            return self.read();
        }
        converted(self.read_dyn()?).map_err(|error| error.with_op(READ))
    }

    /// Reads the elements, of any type.
    ///
    /// # Errors
    /// As [`read()`]; [`Error::Format`] for bytes that NumPy has no name for.
    #[cfg(feature = "dynamic")]
    pub fn read_dyn(self) -> Result<DynTensor> {
        self.read_dyn_with(&mut |_, _| {})
    }

    /// As [`read_dyn`](Npy::read_dyn), and calls `progress` on the way.
    ///
    /// # Errors
    /// As [`read_dyn`](Npy::read_dyn).
    #[cfg(feature = "dynamic")]
    pub fn read_dyn_with(mut self, progress: Progress<'_>) -> Result<DynTensor> {
        self.meaning()?;
        let bytes = self.bytes(Some(progress))?;
        self.about.dynamic(READ, bytes)
    }

    fn elements<T: Element, const RANK: usize>(
        mut self,
        progress: Option<Progress<'_>>,
    ) -> Result<Tensor<T, RANK>> {
        // The caller determines the type of untyped bytes, if NumPy has no name for that type.
        if self.descr == Descr::Void(size_of::<T>()) && header::is_nameless(T::DTYPE) {
            self.about.dtype = T::DTYPE;
            self.descr = Descr::Known(T::DTYPE);
        }
        self.meaning()?;
        self.about.wanted::<T, RANK>(READ)?;
        let bytes = self.bytes(progress)?;
        self.about.tensor(READ, bytes)
    }

    fn meaning(&self) -> Result<DType> {
        match self.descr {
            Descr::Known(dtype) => Ok(dtype),
            Descr::Void(nbytes) => {
                format_error(READ, format_args!("elements are {nbytes} bytes each, without a meaning"))
            }
        }
    }

    /// The bytes of the elements, in this machine's byte order.
    fn bytes(&mut self, progress: Option<Progress<'_>>) -> Result<Tensor<u8, 1, Cpu>> {
        let nbytes = self.about.nbytes(READ)?;
        let known = match self.left {
            Left::Exactly(left) if left < nbytes as u64 => {
                let sizes = &self.about.size;
                return format_error(
                    READ,
                    format_args!(
                        "sizes {sizes:?} of {} need {nbytes} bytes, the file has {left}",
                        self.about.dtype
                    ),
                );
            }
            Left::Exactly(_) => true,
            #[cfg(feature = "npz")]
            Left::Perhaps(limit) => nbytes as u64 <= limit,
            Left::Unknown => false,
        };
        let bytes = self.about.fill(READ, &mut self.reader, known, progress)?;
        if self.alone {
            expect_end(READ, &mut self.reader)?;
        }
        Ok(bytes)
    }
}
