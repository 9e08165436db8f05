//! The bytes of elements without a header: row-major, in this machine's byte order.
//!
//! ```
//! use rankform::io::raw;
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-raw-example.bin");
//! raw::write(&path, &Tensor::from([[1_u16, 2], [3, 4]]).transposed())?;
//! assert_eq!(raw::read::<u16, 2>(&path, [2, 2])?, Tensor::from([[1, 3], [2, 4]]));
//! assert!(raw::read::<u16, 2>(&path, [2, 3]).is_err());
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dim`, `element`, `tensor`, `io`.

use super::file::{Progress, expect_end, format_error, open, write_bytes, write_file};
use super::tensor_bytes::{Description, Order, TensorBytes};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;
use std::path::Path;

const READ: &str = "raw::read";
const WRITE: &str = "raw::write";

/// Reads a file that contains exactly the elements of these sizes.
///
/// # Errors
/// [`Error::Format`](crate::Error::Format) if the file is shorter or longer,
/// [`Error::Value`](crate::Error::Value) if some bytes are no `T`,
/// [`Error::Overflow`](crate::Error::Overflow), [`Error::OutOfMemory`](crate::Error::OutOfMemory),
/// [`Error::Io`](crate::Error::Io).
pub fn read<T: Element, const RANK: usize>(
    path: impl AsRef<Path>,
    size: impl Into<Dim<RANK>>,
) -> Result<Tensor<T, RANK>> {
    read_with(path, size, &mut |_, _| {})
}

/// As [`read()`], and calls `progress` on the way.
///
/// # Errors
/// As [`read()`].
pub fn read_with<T: Element, const RANK: usize>(
    path: impl AsRef<Path>,
    size: impl Into<Dim<RANK>>,
    progress: Progress<'_>,
) -> Result<Tensor<T, RANK>> {
    let (mut file, length) = open(READ, path.as_ref())?;
    let size = size.into();
    let about =
        Description { dtype: T::DTYPE, size: size.0.to_vec(), order: Order::RowMajor, swapped: false };
    let nbytes = about.nbytes(READ)? as u64;
    if let Some(length) = length.filter(|&length| length < nbytes) {
        return format_error(
            READ,
            format_args!("sizes {size} of {} need {nbytes} bytes, the file has {length}", T::DTYPE),
        );
    }
    let bytes = about.fill(READ, &mut file, length.is_some(), Some(progress))?;
    expect_end(READ, &mut file)?;
    about.tensor(READ, bytes)
}

/// Writes a file, completely or not at all.
///
/// # Errors
/// As [`npy::write`](super::npy::write()).
pub fn write(path: impl AsRef<Path>, x: &(impl TensorBytes + ?Sized)) -> Result<()> {
    write_file(WRITE, path.as_ref(), |file| {
        x.for_each_chunk(Order::RowMajor, &mut |bytes| write_bytes(WRITE, file, bytes))
    })
}
