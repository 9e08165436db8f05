//! NumPy's `.npy`: one tensor in a file.
//!
//! Versions 1.0, 2.0 and 3.0, both byte orders, both orders of axes, and every element that NumPy and this crate share.
//! A file in Fortran's order is read as it stands, and its tensor has the strides that say so. Python objects, dates, text
//! and elements with fields are refused in words.
//!
//! NumPy has no name for bfloat16; the package `ml_dtypes` writes it as bytes without a meaning, `V2`. So does this, and
//! such bytes are read where bf16 is asked for.
//!
//! ```
//! use rankform::io::npy;
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-npy-example.npy");
//! let x = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
//! npy::write(&path, &x.transposed())?;
//! let y = npy::read::<f32, 2>(&path)?;
//! assert_eq!(y, x.transposed());
//! assert_eq!(y.stride(), x.transposed().stride()); // in the order in which it was
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`, `io`.

mod header;

#[cfg(feature = "dynamic")]
use super::dynamic::converted;
use super::file::{Progress, about, ends, format_error, open as open_file, put, save};
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
/// One allocation, and the bytes go there straight; those of the other byte order are turned on the way.
///
/// # Errors
/// [`Error::Type`] when it holds another element or another number of axes, [`Error::Format`] when it is not such a file,
/// is too short or too long, [`Error::Overflow`], [`Error::OutOfMemory`], [`Error::Io`].
///
/// # Source
/// Format: `numpy.lib.format`.
pub fn read<T: Element, const RANK: usize>(path: impl AsRef<Path>) -> Result<Tensor<T, RANK>> {
    let name = path.as_ref().display();
    open(&path)?.read().map_err(|error| about(name, error))
}

/// Reads a file of `RANK` axes, its elements converted to `T` where they are others; by the rules of
/// [`cast`](crate::ops::Cast::cast).
///
/// # Cost
/// As [`read()`]; where elements are converted two copies more, at most 16 bytes an element.
///
/// # Errors
/// As [`read()`]; [`Error::Type`] for another number of axes alone.
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
    open(&path)?.read_as().map_err(|error| about(name, error))
}

/// Reads a file of elements and axes that are known when it is read.
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
    open(&path)?.read_dyn().map_err(|error| about(name, error))
}

/// Opens a file and reads its header: for one whose element is not known, or to see how reading goes on.
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
    let mut npy = Npy::new(file).map_err(|error| about(path.as_ref().display(), error))?;
    npy.alone = true;
    // The header has been read: what is left is the rest of the file.
    if let Some(length) = length {
        let at = std::io::Seek::stream_position(&mut npy.reader)
            .map_err(|error| super::file::io_error(READ, path.as_ref(), error))?;
        npy.left = Left::Exactly(length.saturating_sub(at));
    }
    Ok(npy)
}

/// Writes a file, whole or not at all: under another name beside it first, which then is renamed.
///
/// Elements are written little-endian, in Fortran's order where that is the order in memory, else row-major.
///
/// # Cost
/// None but the file's where elements stand without gaps in either order; other tensors are copied 256 KiB at a time. The
/// data is on the disk when this returns.
///
/// # Errors
/// [`Error::Io`], [`Error::Unallocated`], [`Error::NoData`] on a device without data; an old file of this name is then as it
/// was.
pub fn write(path: impl AsRef<Path>, x: &(impl TensorBytes + ?Sized)) -> Result<()> {
    write_with(path, x, &mut |_, _| {})
}

/// As [`write()`], calling `progress` as it goes on.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    path: impl AsRef<Path>,
    x: &(impl TensorBytes + ?Sized),
    progress: Progress<'_>,
) -> Result<()> {
    save(WRITE, path.as_ref(), |file| put_tensor(file, &x, progress))
}

/// Writes to anything that takes bytes. Several tensors may follow each other.
///
/// # Errors
/// As [`write()`]; what was written before an error stays.
pub fn write_to(writer: &mut impl Write, x: &(impl TensorBytes + ?Sized)) -> Result<()> {
    put_tensor(writer, &x, &mut |_, _| {})
}

const READ: &str = "npy::read";
const WRITE: &str = "npy::write";

pub(super) fn put_tensor(writer: &mut dyn Write, x: &dyn TensorBytes, progress: Progress<'_>) -> Result<()> {
    let (dtype, sizes, order) = (x.dtype(), x.sizes(), x.order());
    put(WRITE, writer, &header::write(WRITE, dtype, &sizes, order)?)?;
    let total = nbytes_of(x);
    let mut done = 0;
    each_little_endian(WRITE, x, order, &mut |bytes| {
        put(WRITE, writer, bytes)?;
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

/// How many bytes there are behind the header.
#[derive(Clone, Copy)]
enum Left {
    Unknown,
    Exactly(u64),
    /// An archive says so many, of which as many are believed as could be in it.
    #[cfg(feature = "npz")]
    Perhaps(u64),
}

/// A tensor in NumPy's format whose header has been read, and its elements not yet.
pub struct Npy<R> {
    reader: R,
    descr: Descr,
    about: Description,
    left: Left,
    /// Whether nothing may follow the tensor.
    alone: bool,
}

impl<R: Read> Npy<R> {
    /// Reads the header from anything that gives bytes. The tensor ends where its header says; what follows is left.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Io`].
    pub fn new(mut reader: R) -> Result<Self> {
        let (descr, described) = header::read(READ, &mut reader)?;
        Ok(Npy { reader, descr, about: described, left: Left::Unknown, alone: false })
    }

    /// A tensor in an archive, where it stands alone; it is believed to have `limit` bytes.
    #[cfg(feature = "npz")]
    pub(super) fn of_archive(reader: R, limit: u64) -> Result<Self> {
        Ok(Npy { left: Left::Perhaps(limit), alone: true, ..Npy::new(reader)? })
    }

    /// The element; `None` of bytes that NumPy has no name for.
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

    /// The order in which the elements stand.
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

    /// As [`read`](Npy::read), calling `progress` as it goes on.
    ///
    /// # Errors
    /// As [`read()`].
    pub fn read_with<T: Element, const RANK: usize>(self, progress: Progress<'_>) -> Result<Tensor<T, RANK>> {
        self.elements::<T, RANK>(Some(progress))
    }

    /// Reads the elements and converts them to `T` where they are others.
    ///
    /// # Errors
    /// As [`read_as()`].
    #[cfg(feature = "dynamic")]
    pub fn read_as<T: Element, const RANK: usize>(self) -> Result<Tensor<T, RANK>> {
        // Bytes that NumPy has no name for mean what the caller says they do.
        if matches!(self.descr, Descr::Void(_)) {
            return self.read();
        }
        converted(self.read_dyn()?).map_err(|error| error.renamed(READ))
    }

    /// Reads the elements, whatever they are.
    ///
    /// # Errors
    /// As [`read()`]; [`Error::Format`] for bytes that NumPy has no name for.
    #[cfg(feature = "dynamic")]
    pub fn read_dyn(self) -> Result<DynTensor> {
        self.read_dyn_with(&mut |_, _| {})
    }

    /// As [`read_dyn`](Npy::read_dyn), calling `progress` as it goes on.
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
        // Bytes without a meaning mean what the caller says they do, if NumPy has no name for that.
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

    /// The bytes of the elements, in this machine's order.
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
            ends(READ, &mut self.reader)?;
        }
        Ok(bytes)
    }
}
