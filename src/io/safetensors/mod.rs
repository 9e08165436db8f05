//! Safetensors: many named tensors in one file, or in several files with an index, read one by one or mapped.
//!
//! ```
//! use rankform::io::safetensors::{self, SafeTensors};
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-example.safetensors");
//! let (weight, bias) = (Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), Tensor::from([1_i64, 2]));
//! safetensors::write(&path, &[("weight", &weight), ("bias", &bias)], &[("format", "pt")])?;
//! let file = SafeTensors::open(&path)?;
//! assert_eq!(file.metadata()["format"], "pt");
//! // In the order of the file: the widest elements first.
//! assert_eq!(file.names().collect::<Vec<_>>(), ["bias", "weight"]);
//! assert_eq!(file.read::<f32, 2>("weight")?, weight);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`, `io`.

mod header;
mod json;
#[cfg(feature = "autograd")]
mod parameters;

#[cfg(feature = "autograd")]
pub use parameters::{load, save};

use super::dynamic::converted;
use super::file::{
    Progress, distinct, format_error, io_error, no_such, open as open_file, read_exactly, read_short,
    with_name, write_bytes, write_file,
};
use super::tensor_bytes::{Description, Order, TensorBytes, each_little_endian, nbytes_of};
use crate::device::Cpu;
use crate::dtype::DType;
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use header::TensorEntry;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const READ: &str = "safetensors::read";
const WRITE: &str = "safetensors::write";

/// The largest header that is read, in bytes, as in the format's own library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// One file of tensors, or all files of a model with an index. The headers are read, and elements are read on
/// demand.
pub struct SafeTensors {
    shards: Vec<Shard>,
    /// The tensors and the indices of their shards, in the order of their bytes.
    tensors: Vec<(TensorEntry, usize)>,
    /// The position of a name in `tensors`.
    places: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

/// One file: the source of its elements, and the position of the first.
struct Shard {
    source: DataSource,
    start: u64,
}

enum DataSource {
    File(File),
    /// All bytes of the file. Tensors are handles on parts of them.
    Memory(Tensor<u8, 1, Cpu>),
}

impl SafeTensors {
    /// Opens a file, or a model of several files by the name of its index (`model.safetensors.index.json`) in
    /// the same folder. The headers are read. Each tensor is read into its own memory on demand.
    ///
    /// # Errors
    /// [`Error::Format`] if a header is not valid or does not fit the file, [`Error::Io`].
    ///
    /// # Source
    /// Format: <https://huggingface.co/docs/safetensors>.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::collect_shards(path.as_ref(), &|path| {
            let (file, length) = open_file(READ, path)?;
            let Some(length) = length else {
                return format_error(READ, format_args!("{}: not a file", path.display()));
            };
            Ok((DataSource::File(file), length))
        })
    }

    /// As [`open`](SafeTensors::open), but maps the files. Tensors are handles on the mapped memory, without
    /// a copy if their elements are aligned in the file. Writes to a tensor stay in this process.
    ///
    /// # Safety
    /// While the result or a tensor of it lives, no process, this one included, writes or shortens the files:
    /// elements would change under references to them, and a read beyond a new end stops the process
    /// (`SIGBUS`).
    ///
    /// # Errors
    /// As [`open`](SafeTensors::open).
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        Self::collect_shards(path.as_ref(), &|path| {
            let (file, _) = open_file(READ, path)?;
            // SAFETY: the caller's promise: no process changes the file. The mapping is private, so a write
            // copies the page.
            let mut map = unsafe { memmap2::MmapOptions::new().map_copy(&file) }
                .map_err(|error| io_error(READ, path, error))?;
            let (address, length) = (map.as_mut_ptr(), map.len());
            // SAFETY: the mapping has `length` bytes, which live until it is dropped, and no other handle
            // refers to them.
            let bytes = unsafe { Tensor::from_external(address, [length], &Cpu, move |_, _| drop(map))? };
            Ok((DataSource::Memory(bytes), length as u64))
        })
    }

    /// Reads a file that is in memory. Tensors share this memory if their elements are aligned in it.
    ///
    /// # Errors
    /// [`Error::Format`] if the header is not valid or does not fit.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let length = bytes.len();
        let mut all = SafeTensors {
            shards: Vec::new(),
            tensors: Vec::new(),
            places: BTreeMap::new(),
            metadata: BTreeMap::new(),
        };
        all.shard(DataSource::Memory(Tensor::from_vec(bytes, [length])?), length as u64, &|_| true)?;
        Ok(all)
    }

    fn collect_shards(path: &Path, open: &dyn Fn(&Path) -> Result<(DataSource, u64)>) -> Result<Self> {
        let mut all = SafeTensors {
            shards: Vec::new(),
            tensors: Vec::new(),
            places: BTreeMap::new(),
            metadata: BTreeMap::new(),
        };
        if path.extension().is_none_or(|ending| ending != "json") {
            let (source, length) = open(path)?;
            all.shard(source, length, &|_| true)?;
            return Ok(all);
        }
        let (mut index, length) = open_file(READ, path)?;
        let Some(length) = length.filter(|&length| length <= MAX_HEADER_BYTES) else {
            return format_error(
                READ,
                format_args!("{}: an index has {MAX_HEADER_BYTES} bytes at most", path.display()),
            );
        };
        let files = header::parse_index(READ, &read_short(READ, &mut index, length as usize)?)?;
        let mut shards: Vec<&str> = files.values().map(String::as_str).collect();
        shards.sort_unstable();
        shards.dedup();
        for shard in shards {
            // The files are in the folder of the index: a name must not lead to another folder.
            if Path::new(shard).file_name().is_none_or(|name| name != shard) || shard.contains(['/', '\\']) {
                return format_error(
                    READ,
                    format_args!("the index names {shard:?}, which is not the name of a file in its folder"),
                );
            }
            let (source, length) = open(&path.with_file_name(shard))?;
            all.shard(source, length, &|name| files.get(name).is_some_and(|file| file == shard))?;
        }
        match files.iter().find(|(name, _)| !all.places.contains_key(*name)) {
            Some((name, file)) => {
                format_error(READ, format_args!("{file:?} has no tensor {name:?}, as the index says"))
            }
            None => Ok(all),
        }
    }

    /// Adds the wanted tensors of one file.
    fn shard(&mut self, source: DataSource, length: u64, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
        let mut reader = source.reader(0, length);
        let mut prefix = [0; 8];
        read_exactly(READ, &mut reader, &mut prefix)?;
        let size = u64::from_le_bytes(prefix);
        if size > MAX_HEADER_BYTES || size > length - 8 {
            return format_error(
                READ,
                format_args!(
                    "a header of {size} bytes in a file of {length}; {MAX_HEADER_BYTES} are the most"
                ),
            );
        }
        let text = read_short(READ, &mut reader, size as usize)?;
        let header = header::parse(READ, &text, length - 8 - size)?;
        self.shards.push(Shard { source, start: 8 + size });
        self.metadata.extend(header.metadata);
        for entry in header.tensors {
            if wanted(&entry.name) {
                self.places.insert(entry.name.clone(), self.tensors.len());
                self.tensors.push((entry, self.shards.len() - 1));
            }
        }
        Ok(())
    }

    /// The names of the tensors, in the order of the bytes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|(entry, _)| entry.name.as_str())
    }

    /// The metadata of the file, apart from its tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The description of one tensor in the header.
    ///
    /// # Errors
    /// [`Error::Value`] if no tensor has this name.
    pub fn about(&self, name: &str) -> Result<TensorInfo<'_>> {
        let (TensorEntry { dtype, size, range, .. }, _) = self.find(name)?;
        Ok(TensorInfo {
            dtype: header::element(dtype),
            dtype_name: dtype,
            sizes: size,
            nbytes: range.end - range.start,
        })
    }

    fn find(&self, name: &str) -> Result<&(TensorEntry, usize)> {
        match self.places.get(name) {
            Some(&place) => Ok(&self.tensors[place]),
            None => Err(no_such(
                READ,
                name,
                &self.tensors.iter().map(|(entry, _)| entry.name.clone()).collect::<Vec<_>>(),
            )),
        }
    }

    /// Reads one tensor of elements `T` with `RANK` axes.
    ///
    /// # Cost
    /// For an opened file: one allocation, into which the bytes are read directly. For a mapped file or one
    /// in memory, nothing: the tensor shares that memory. It is copied if its elements are not aligned there,
    /// or are booleans.
    ///
    /// # Errors
    /// [`Error::Value`] if no tensor has this name, [`Error::Type`] if it has another element type or rank,
    /// [`Error::OutOfMemory`], [`Error::Io`].
    pub fn read<T: Element, const RANK: usize>(&self, name: &str) -> Result<Tensor<T, RANK>> {
        self.read_with(name, &mut |_, _| {})
    }

    /// As [`read`](SafeTensors::read), and calls `progress` on the way.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read).
    pub fn read_with<T: Element, const RANK: usize>(
        &self,
        name: &str,
        progress: Progress<'_>,
    ) -> Result<Tensor<T, RANK>> {
        let described = self.description(name)?;
        described.wanted::<T, RANK>(READ).map_err(|error| with_name(format_args!("{name:?}"), error))?;
        described.tensor(READ, self.bytes(name, &described, progress)?)
    }

    /// Reads one tensor with `RANK` axes. Elements of another type are cast to `T`, by the rules of
    /// [`cast`](crate::ops::Cast::cast).
    ///
    /// # Cost
    /// As [`read`](SafeTensors::read). A cast makes two more copies, of at most 16 bytes an element.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read), except that [`Error::Type`] is for another number of axes only.
    ///
    /// # Examples
    /// ```
    /// use rankform::io::safetensors::{SafeTensors, write};
    /// use rankform::prelude::*;
    /// let path = std::env::temp_dir().join("rankform-read-as.safetensors");
    /// write(&path, &[("w", &Tensor::from([1.5_f32, -2.0]))], &[])?;
    /// let file = SafeTensors::open(&path)?;
    /// assert!(file.read::<f64, 1>("w").is_err());
    /// assert_eq!(file.read_as::<f64, 1>("w")?.to_vec()?, [1.5, -2.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn read_as<T: Element, const RANK: usize>(&self, name: &str) -> Result<Tensor<T, RANK>> {
        converted(self.read_dyn(name)?)
            .map_err(|error| with_name(format_args!("{name:?}"), error.with_op(READ)))
    }

    /// Reads one tensor of any element type and rank.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read); [`Error::Format`] for elements that no tensor has.
    pub fn read_dyn(&self, name: &str) -> Result<DynTensor> {
        self.read_dyn_with(name, &mut |_, _| {})
    }

    /// As [`read_dyn`](SafeTensors::read_dyn), and calls `progress` on the way.
    ///
    /// # Errors
    /// As [`read_dyn`](SafeTensors::read_dyn).
    pub fn read_dyn_with(&self, name: &str, progress: Progress<'_>) -> Result<DynTensor> {
        let about = self.description(name)?;
        about.dynamic(READ, self.bytes(name, &about, progress)?)
    }

    fn description(&self, name: &str) -> Result<Description> {
        let (TensorEntry { dtype, size, .. }, _) = self.find(name)?;
        let Some(known) = header::element(dtype) else {
            return format_error(
                READ,
                format_args!("tensor {name:?} has elements {dtype}, which no tensor has"),
            );
        };
        Ok(Description {
            dtype: known,
            size: size.clone(),
            order: Order::RowMajor,
            swapped: cfg!(target_endian = "big"),
        })
    }

    /// The bytes of one tensor, in this machine's byte order.
    fn bytes(&self, name: &str, about: &Description, progress: Progress<'_>) -> Result<Tensor<u8, 1, Cpu>> {
        let (TensorEntry { range, .. }, shard) = self.find(name)?;
        let Shard { source, start } = &self.shards[*shard];
        if let (DataSource::Memory(bytes), false) = (source, about.swapped) {
            let part = bytes
                .share_data()
                .into_slice(((start + range.start) as usize..(start + range.end) as usize,))?;
            progress(part.numel() as u64, part.numel() as u64);
            return Ok(part);
        }
        about.fill(READ, &mut source.reader(start + range.start, start + range.end), true, Some(progress))
    }
}

/// The description of one tensor in a file's header.
#[derive(Clone, Copy, Debug)]
pub struct TensorInfo<'a> {
    /// The element type; `None` for elements that no tensor has.
    pub dtype: Option<DType>,
    /// The element's name in the file.
    pub dtype_name: &'a str,
    /// The sizes, first axis first.
    pub sizes: &'a [usize],
    /// The bytes of the elements.
    pub nbytes: u64,
}

/// A range of bytes of a file, whose position is independent of other readers.
struct FileRange<'a> {
    source: &'a DataSource,
    at: u64,
    end: u64,
}

impl DataSource {
    fn reader(&self, at: u64, end: u64) -> FileRange<'_> {
        FileRange { source: self, at, end }
    }
}

impl Read for FileRange<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let count = left.min(room.len());
        let room = &mut room[..count];
        let count = match self.source {
            #[cfg(unix)]
            DataSource::File(file) => std::os::unix::fs::FileExt::read_at(file, room, self.at)?,
            #[cfg(windows)]
            DataSource::File(file) => std::os::windows::fs::FileExt::seek_read(file, room, self.at)?,
            #[cfg(not(any(unix, windows)))]
            DataSource::File(file) => {
                std::io::Seek::seek(&mut &*file, std::io::SeekFrom::Start(self.at))?;
                (&*file).read(room)?
            }
            DataSource::Memory(bytes) => {
                bytes.as_slice().unwrap_or_default().get(self.at as usize..).unwrap_or_default().read(room)?
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}

/// Writes a file of named tensors and of pairs of strings, completely or not at all. The widest elements come
/// first, so that all are aligned when the file is mapped. Tensors with elements of the same width are
/// ordered by name.
///
/// # Errors
/// [`Error::Value`] if two tensors have the same name, or the format has no name for an element; as
/// [`npy::write`](super::npy::write()).
pub fn write(
    path: impl AsRef<Path>,
    tensors: &[(&str, &dyn TensorBytes)],
    metadata: &[(&str, &str)],
) -> Result<()> {
    write_with(path, tensors, metadata, &mut |_, _| {})
}

/// As [`write()`], and calls `progress` on the way.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    path: impl AsRef<Path>,
    tensors: &[(&str, &dyn TensorBytes)],
    metadata: &[(&str, &str)],
    progress: Progress<'_>,
) -> Result<()> {
    let mut tensors = tensors.to_vec();
    tensors.sort_by_key(|(name, x)| (std::cmp::Reverse(x.dtype().size()), *name));
    distinct(WRITE, tensors.iter().map(|(name, _)| *name).chain(["__metadata__"]))?;
    distinct(WRITE, metadata.iter().map(|(key, _)| *key))?;
    let mut rows = Vec::new();
    let mut end = 0;
    for (name, x) in &tensors {
        let (dtype, sizes) = (x.dtype(), x.sizes());
        let Some(dtype_name) = header::name_of(dtype) else {
            return Err(Error::Value {
                op: WRITE,
                what: text(format_args!("safetensors has no name for {dtype}, of {name:?}")),
            });
        };
        let nbytes = nbytes_of(*x);
        rows.push((*name, dtype_name, sizes, end..end + nbytes));
        end += nbytes;
    }
    let header = header::compose(metadata, &rows);
    let mut done = 0;
    write_file(WRITE, path.as_ref(), |file| {
        write_bytes(WRITE, file, &(header.len() as u64).to_le_bytes())?;
        write_bytes(WRITE, file, &header)?;
        for (_, x) in &tensors {
            each_little_endian(WRITE, *x, Order::RowMajor, &mut |bytes| {
                write_bytes(WRITE, file, bytes)?;
                done += bytes.len() as u64;
                progress(done, end);
                Ok(())
            })?;
        }
        Ok(())
    })
}
