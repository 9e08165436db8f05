//! NumPy's `.npz`: an archive of named tensors, stored or deflated, also of more than 4 GiB.
//!
//! ```
//! use rankform::io::npz::{self, Compression, Npz};
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-npz-example.npz");
//! let (weight, bias) = (Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), Tensor::from([0.5_f32, 0.25]));
//! npz::write(&path, &[("weight", &weight), ("bias", &bias)], Compression::Deflated)?;
//! let mut file = Npz::open(&path)?;
//! assert_eq!(file.names().collect::<Vec<_>>(), ["weight", "bias"]);
//! assert_eq!(file.read::<f32, 1>("bias")?, bias);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `element`, `tensor`, `dynamic`, `io`.

use super::file::{Progress, distinct, io_error, no_such, open as open_file, with_name, write_file};
use super::npy::{Npy, put_tensor};
use super::tensor_bytes::{TensorBytes, nbytes_of};
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const READ: &str = "npz::read";
const WRITE: &str = "npz::write";

/// The extension of a tensor's name inside the archive.
const ENDING: &str = ".npy";

/// Whether the tensors of an archive are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Uncompressed: NumPy's `savez`.
    Stored,
    /// Deflated, which is smaller and slower: NumPy's `savez_compressed`.
    Deflated,
}

/// An open archive. Its names are known, and tensors are read on demand.
///
/// Of two tensors with the same name the last counts. A member that is no tensor has a name and cannot be
/// read.
pub struct Npz<R = BufReader<File>> {
    archive: ZipArchive<R>,
    names: Vec<String>,
    length: u64,
}

impl Npz {
    /// Opens a file and reads the names of its tensors.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (file, _) = open_file(READ, path.as_ref())?;
        Self::new(BufReader::new(file)).map_err(|error| match error {
            Error::Io { op, kind, what } => {
                Error::Io { op, kind, what: text(format_args!("{}: {what}", path.as_ref().display())) }
            }
            other => other,
        })
    }
}

impl<R: Read + Seek> Npz<R> {
    /// Reads the names of the tensors from any reader that can seek.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Io`].
    pub fn new(mut reader: R) -> Result<Self> {
        let length =
            reader.seek(SeekFrom::End(0)).map_err(|error| io_error(READ, Path::new("archive"), error))?;
        let archive = ZipArchive::new(reader).map_err(|error| report(READ, error))?;
        let mut names = Vec::new();
        for name in archive.file_names() {
            let name = name.map_err(|error| report(READ, error))?;
            names.push(name.strip_suffix(ENDING).unwrap_or(&name).to_string());
        }
        Ok(Npz { archive, names, length })
    }

    /// The names of the tensors, in the order of the archive, without `.npy`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Opens one tensor and reads its header.
    ///
    /// # Errors
    /// [`Error::Value`] if no tensor has this name, [`Error::Format`], [`Error::Io`].
    pub fn entry(&mut self, name: &str) -> Result<Npy<impl Read>> {
        let Some(at) = self.names.iter().rposition(|known| known == name) else {
            return Err(no_such(READ, name, &self.names));
        };
        let entry = self.archive.by_index(at).map_err(|error| report(READ, error))?;
        // The size that the archive claims is trusted up to the number of bytes that its compressed size can
        // hold.
        let packed = entry.compressed_size().min(self.length);
        let limit =
            if entry.compression() == CompressionMethod::Stored { packed } else { packed.saturating_mul(16) };
        Npy::of_archive(entry, limit)
    }

    /// Reads one tensor of elements `T` with `RANK` axes.
    ///
    /// # Errors
    /// As [`npy::read`](super::npy::read()); [`Error::Value`] if no tensor has this name.
    pub fn read<T: Element, const RANK: usize>(&mut self, name: &str) -> Result<Tensor<T, RANK>> {
        self.entry(name)?.read().map_err(|error| with_name(format_args!("{name:?}"), error))
    }

    /// Reads one tensor with `RANK` axes. Elements of another type are cast to `T`, by the rules of
    /// [`cast`](crate::ops::Cast::cast).
    ///
    /// # Errors
    /// As [`read`](Npz::read), except that [`Error::Type`] is for another number of axes only.
    pub fn read_as<T: Element, const RANK: usize>(&mut self, name: &str) -> Result<Tensor<T, RANK>> {
        self.entry(name)?.read_as().map_err(|error| with_name(format_args!("{name:?}"), error))
    }

    /// Reads one tensor of any element type and rank.
    ///
    /// # Errors
    /// As [`read`](Npz::read).
    pub fn read_dyn(&mut self, name: &str) -> Result<DynTensor> {
        self.entry(name)?.read_dyn().map_err(|error| with_name(format_args!("{name:?}"), error))
    }
}

/// Writes an archive of named tensors, completely or not at all.
///
/// # Errors
/// [`Error::Value`] if two tensors have the same name; as [`npy::write`](super::npy::write()).
pub fn write(
    path: impl AsRef<Path>,
    tensors: &[(&str, &dyn TensorBytes)],
    compression: Compression,
) -> Result<()> {
    write_with(path, tensors, compression, &mut |_, _| {})
}

/// As [`write()`], and calls `progress` on the way.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    path: impl AsRef<Path>,
    tensors: &[(&str, &dyn TensorBytes)],
    compression: Compression,
    progress: Progress<'_>,
) -> Result<()> {
    distinct(WRITE, tensors.iter().map(|(name, _)| *name))?;
    let total = tensors.iter().map(|(_, x)| nbytes_of(*x)).sum();
    let method = match compression {
        Compression::Stored => CompressionMethod::Stored,
        Compression::Deflated => CompressionMethod::Deflated,
    };
    let mut before = 0;
    write_file(WRITE, path.as_ref(), |file| {
        let mut archive = ZipWriter::new(file);
        for (name, x) in tensors {
            // Sizes get 8 bytes if 4 might not suffice. A tensor's header and the overhead of deflating are
            // small.
            let large = nbytes_of(*x) > u64::from(u32::MAX) - (64 << 20);
            let options = SimpleFileOptions::default().compression_method(method).large_file(large);
            archive.start_file([*name, ENDING].concat(), options).map_err(|error| report(WRITE, error))?;
            put_tensor(&mut archive, *x, &mut |done, _| progress(before + done, total))?;
            before += nbytes_of(*x);
        }
        archive.finish().map_err(|error| report(WRITE, error))?;
        Ok(())
    })
}

fn report(op: &'static str, error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) => {
            Error::Io { op, kind: error.kind(), what: text(format_args!("{error}")) }
        }
        other => Error::Format { op, what: text(format_args!("{other}")) },
    }
}
