//! Files that are there whole or not at all, and bytes that come in pieces.
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

/// Called as bytes come or go: how many are done, of how many. The last call has both equal.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How many bytes are read at a time, a multiple of every element's size: what stays in the cache of one core.
const PIECE: usize = 256 << 10;

/// How much memory is taken before any byte has come from a source whose length nobody knows.
const FIRST: usize = 16 << 10;

/// The system's report, with the file's name.
pub(super) fn io_error(op: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::Io { op, kind: error.kind(), what: text(format_args!("{}: {error}", path.display())) }
}

/// The error with the name of the file or tensor that it is about.
pub(super) fn about(name: impl std::fmt::Display, error: Error) -> Error {
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

/// There is no tensor of this name; some of those that there are.
#[cfg(any(feature = "npz", feature = "safetensors"))]
pub(super) fn no_such(op: &'static str, name: &str, names: &[String]) -> Error {
    let (some, more) = (&names[..names.len().min(16)], if names.len() > 16 { ", …" } else { "" });
    Error::Value { op, what: text(format_args!("there is no tensor {name:?}; there are {some:?}{more}")) }
}

/// [`Error::Value`] where a name occurs twice.
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

/// Opens a file to be read; its length where it has one: a pipe has none.
pub(super) fn open(op: &'static str, path: &Path) -> Result<(File, Option<u64>)> {
    let file = File::open(path).map_err(|error| io_error(op, path, error))?;
    let about = file.metadata().map_err(|error| io_error(op, path, error))?;
    Ok((file, about.is_file().then_some(about.len())))
}

/// Some bytes of a reader, at least one unless it ends.
fn some(op: &'static str, reader: &mut dyn Read, room: &mut [u8]) -> Result<usize> {
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

/// Fills `room`, or says how far the bytes went.
pub(super) fn exactly(op: &'static str, reader: &mut dyn Read, room: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < room.len() {
        match some(op, reader, &mut room[done..])? {
            0 => {
                return format_error(op, format_args!("the file ends {} bytes too early", room.len() - done));
            }
            count => done += count,
        }
    }
    Ok(())
}

/// [`Error::Format`] unless the reader is at its end.
pub(super) fn ends(op: &'static str, reader: &mut dyn Read) -> Result<()> {
    match some(op, reader, &mut [0])? {
        0 => Ok(()),
        _ => format_error(op, format_args!("the file goes on after the tensor")),
    }
}

/// `nbytes` bytes of a reader. `each` gets every piece, of whole elements, once it is there, and may change it.
///
/// Where `known` says that a source has so many bytes, memory is taken once; otherwise it grows with the bytes that came,
/// to twice as much at a time. A reader never sees memory that nobody wrote.
pub(super) fn fill(
    op: &'static str,
    reader: &mut dyn Read,
    nbytes: usize,
    known: bool,
    each: &mut dyn FnMut(&mut [u8]),
) -> Result<Tensor<u8, 1, Cpu>> {
    let memory = |nbytes: usize| Tensor::<u8, 1, Cpu>::uninit(op, Layout::row_major(Dim([nbytes])), &Cpu);
    let mut done = 0;
    let mut tensor = memory(if known { nbytes } else { nbytes.min(FIRST) })?;
    while done < nbytes {
        if done == tensor.numel() {
            let mut larger = memory(done.saturating_mul(2).min(nbytes))?;
            // SAFETY: the first `done` bytes of the one are written, and the other has room for more.
            unsafe { larger.try_view_mut(op)?.raw_ptr().copy_from_nonoverlapping(tensor.raw_ptr(), done) };
            tensor = larger;
        }
        let count = PIECE.min(tensor.numel() - done);
        let start = tensor.try_view_mut(op)?.raw_ptr().wrapping_add(done);
        // SAFETY: `count` bytes inside fresh memory that nobody else has; they are written before they are a slice.
        let piece = unsafe {
            start.write_bytes(0, count);
            std::slice::from_raw_parts_mut(start, count)
        };
        exactly(op, reader, piece)?;
        each(piece);
        done += count;
    }
    Ok(tensor)
}

/// Bytes of a short header, as many as it says it has: memory grows with what came.
pub(super) fn short(op: &'static str, reader: &mut dyn Read, nbytes: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < nbytes {
        let done = bytes.len();
        let count = (nbytes - done).min(done.max(FIRST));
        bytes.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { op, nbytes })?;
        bytes.resize(done + count, 0);
        exactly(op, reader, &mut bytes[done..])?;
    }
    Ok(bytes)
}

/// Writes to a reader's other end, with the system's report.
pub(super) fn put(op: &'static str, writer: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    writer.write_all(bytes).map_err(|error| Error::Io {
        op,
        kind: error.kind(),
        what: text(format_args!("{error}")),
    })
}

/// A file that is there under its name only when all of it is: written beside it under another name, then renamed.
/// After an error the old file, if there was one, is as it was.
pub(super) fn save(op: &'static str, path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // What a link points to is replaced, not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if target.file_name().is_none() {
        let what = text(format_args!("{}: not the name of a file", path.display()));
        return Err(Error::Io { op, kind: ErrorKind::InvalidInput, what });
    }
    // A pipe, or a device such as /dev/full, cannot be replaced.
    if std::fs::metadata(&target).is_ok_and(|about| !about.is_file()) {
        let mut file =
            File::options().write(true).open(&target).map_err(|error| io_error(op, path, error))?;
        return write(&mut file);
    }
    // Short: a name may be as long as the system allows.
    let hidden = format!(".rankform-{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut part = Part { path: target.with_file_name(hidden), finished: false };
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(&part.path)
        .map_err(|error| io_error(op, path, error))?;
    // Before there is anything to read.
    if let Ok(about) = std::fs::metadata(&target) {
        file.set_permissions(about.permissions()).map_err(|error| io_error(op, path, error))?;
    }
    write(&mut file)?;
    file.sync_data().map_err(|error| io_error(op, path, error))?;
    drop(file);
    std::fs::rename(&part.path, &target).map_err(|error| io_error(op, path, error))?;
    part.finished = true; // it has another name now
    Ok(())
}

/// A file that is removed unless it was finished.
struct Part {
    path: PathBuf,
    finished: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
