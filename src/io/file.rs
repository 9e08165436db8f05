//! Files that are written completely or not at all, and bytes that are read in chunks.
// Imports: `error`, `dim`, `layout`, `device`, `tensor`.

use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::tensor::Tensor;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Called as bytes are read or written, with the number of bytes done and the total. In the last call the two
/// are equal.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Bytes that are read at a time: they stay in the cache of one core, and are a
/// multiple of every element's size.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of memory that are taken before the first byte arrives from a source of unknown length.
const FIRST_CHUNK_BYTES: usize = 16 << 10;

/// The system's error, with the name of the file.
pub(super) fn io_error(op: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::Io { op, kind: error.kind(), what: text(format_args!("{}: {error}", path.display())) }
}

/// Adds the name of the file or tensor to an error.
pub(super) fn with_name(name: impl std::fmt::Display, error: Error) -> Error {
    match error {
        Error::Type { op, expected, found } => {
            Error::Type { op, expected, found: text(format_args!("{found} in {name}")) }
        }
        Error::Format { op, what } => Error::Format { op, what: text(format_args!("{name}: {what}")) },
        other => other,
    }
}

pub(super) fn format_error<T>(op: &'static str, what: std::fmt::Arguments<'_>) -> Result<T> {
    Err(Error::Format { op, what: text(what) })
}

/// The error for a name that no tensor has, with some of the names that exist.
#[cfg(any(feature = "npz", feature = "safetensors"))]
pub(super) fn no_such(op: &'static str, name: &str, names: &[String]) -> Error {
    let (some, more) = (&names[..names.len().min(16)], if names.len() > 16 { ", …" } else { "" });
    Error::Value { op, what: text(format_args!("there is no tensor {name:?}; there are {some:?}{more}")) }
}

/// Checks that no name occurs twice: [`Error::Value`] otherwise.
#[cfg(any(feature = "npz", feature = "safetensors"))]
pub(super) fn distinct<'a>(op: &'static str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::Value { op, what: text(format_args!("the name {:?} occurs twice", pair[0])) })
        }
        None => Ok(()),
    }
}

/// Opens a file for reading. Returns its length too, which a pipe does not have.
pub(super) fn open(op: &'static str, path: &Path) -> Result<(File, Option<u64>)> {
    let file = File::open(path).map_err(|error| io_error(op, path, error))?;
    let about = file.metadata().map_err(|error| io_error(op, path, error))?;
    Ok((file, about.is_file().then_some(about.len())))
}

/// Reads some bytes, at least one unless the reader is at its end.
fn read_some(op: &'static str, reader: &mut dyn Read, room: &mut [u8]) -> Result<usize> {
    loop {
        match reader.read(room) {
            Ok(count) if count <= room.len() => return Ok(count),
            Ok(count) => {
                return format_error(
                    op,
                    format_args!("a reader says that it read {count} bytes into {}", room.len()),
                );
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::Io { op, kind: error.kind(), what: text(format_args!("{error}")) });
            }
        }
    }
}

/// Fills `room`, or returns an error with the number of missing bytes.
pub(super) fn read_exactly(op: &'static str, reader: &mut dyn Read, room: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < room.len() {
        match read_some(op, reader, &mut room[done..])? {
            0 => {
                return format_error(op, format_args!("the file ends {} bytes too early", room.len() - done));
            }
            count => done += count,
        }
    }
    Ok(())
}

/// Checks that the reader is at its end: [`Error::Format`] otherwise.
pub(super) fn expect_end(op: &'static str, reader: &mut dyn Read) -> Result<()> {
    match read_some(op, reader, &mut [0])? {
        0 => Ok(()),
        _ => format_error(op, format_args!("the file goes on after the tensor")),
    }
}

/// Reads `nbytes` bytes. `each` receives every chunk, of whole elements, after it is read, and may change it.
///
/// If the source is `known` to have this many bytes, memory is allocated once. Otherwise memory grows with
/// the bytes that arrive, by doubling. A reader never sees uninitialized memory.
pub(super) fn read_elements(
    op: &'static str,
    reader: &mut dyn Read,
    nbytes: usize,
    known: bool,
    each: &mut dyn FnMut(&mut [u8]),
) -> Result<Tensor<u8, 1, Cpu>> {
    let memory = |nbytes: usize| Tensor::<u8, 1, Cpu>::uninit(op, Layout::row_major(Dim([nbytes])), &Cpu);
    let mut done = 0;
    let mut tensor = memory(if known { nbytes } else { nbytes.min(FIRST_CHUNK_BYTES) })?;
    while done < nbytes {
        if done == tensor.numel() {
            let mut larger = memory(done.saturating_mul(2).min(nbytes))?;
            // SAFETY: the first `done` bytes of `tensor` are written, and `larger` has room for more.
            unsafe { larger.try_view_mut(op)?.raw_ptr().copy_from_nonoverlapping(tensor.raw_ptr(), done) };
            tensor = larger;
        }
        let count = CHUNK_BYTES.min(tensor.numel() - done);
        let start = tensor.try_view_mut(op)?.raw_ptr().wrapping_add(done);
        // SAFETY: these are `count` bytes of new memory, which has no other handle. They are written before a
        // slice of them exists.
        let piece = unsafe {
            start.write_bytes(0, count);
            std::slice::from_raw_parts_mut(start, count)
        };
        read_exactly(op, reader, piece)?;
        each(piece);
        done += count;
    }
    Ok(tensor)
}

/// Reads a short header of `nbytes` bytes, a number that the file claims: memory grows with the bytes that
/// arrive.
pub(super) fn read_short(op: &'static str, reader: &mut dyn Read, nbytes: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < nbytes {
        let done = bytes.len();
        let count = (nbytes - done).min(done.max(FIRST_CHUNK_BYTES));
        bytes.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { op, nbytes })?;
        bytes.resize(done + count, 0);
        read_exactly(op, reader, &mut bytes[done..])?;
    }
    Ok(bytes)
}

/// Writes bytes, with the system's error.
pub(super) fn write_bytes(op: &'static str, writer: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    writer.write_all(bytes).map_err(|error| Error::Io {
        op,
        kind: error.kind(),
        what: text(format_args!("{error}")),
    })
}

/// Writes a file that appears under its name only when it is complete: it is written under another name in
/// the same folder and then renamed. After an error an old file of this name is unchanged.
pub(super) fn write_file(
    op: &'static str,
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<()>,
) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // For a link its target is replaced, not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if target.file_name().is_none() {
        let what = text(format_args!("{}: not the name of a file", path.display()));
        return Err(Error::Io { op, kind: ErrorKind::InvalidInput, what });
    }
    // A pipe, or a device like /dev/full, cannot be replaced.
    if std::fs::metadata(&target).is_ok_and(|about| !about.is_file()) {
        let mut file =
            File::options().write(true).open(&target).map_err(|error| io_error(op, path, error))?;
        return write(&mut file);
    }
    // The temporary name is short, because the file's own may be as long as the system allows.
    let hidden = format!(".rankform-{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut part = PartialFile { path: target.with_file_name(hidden), finished: false };
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(&part.path)
        .map_err(|error| io_error(op, path, error))?;
    // The permissions are copied before the file has any contents.
    if let Ok(about) = std::fs::metadata(&target) {
        file.set_permissions(about.permissions()).map_err(|error| io_error(op, path, error))?;
    }
    write(&mut file)?;
    file.sync_data().map_err(|error| io_error(op, path, error))?;
    drop(file);
    std::fs::rename(&part.path, &target).map_err(|error| io_error(op, path, error))?;
    part.finished = true; // the file is renamed now
    Ok(())
}

/// A file that is removed unless it is finished.
struct PartialFile {
    path: PathBuf,
    finished: bool,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
