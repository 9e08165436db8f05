//! Safetensors: many named tensors in one file, or in several under one index; read one by one, or mapped.
//!
//! ```
//! use rankform::io::safetensors::{self, SafeTensors};
//! use rankform::prelude::*;
//! let path = std::env::temp_dir().join("rankform-example.safetensors");
//! let (weight, bias) = (Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), Tensor::from([1_i64, 2]));
//! safetensors::write(&path, &[("weight", &weight), ("bias", &bias)], &[("format", "pt")])?;
//! let file = SafeTensors::open(&path)?;
//! assert_eq!(file.metadata()["format"], "pt");
//! assert_eq!(file.names().collect::<Vec<_>>(), ["bias", "weight"]); // as they stand: the widest elements first
//! assert_eq!(file.read::<f32, 2>("weight")?, weight);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`, `io`.

mod header;
mod json;

use super::dynamic::converted;
use super::file::{
    Progress, about, distinct, exactly, format_error, io_error, no_such, open as open_file, put, save, short,
};
use super::tensor_bytes::{Description, Order, TensorBytes, each_little_endian, nbytes_of};
use crate::device::Cpu;
use crate::dtype::DType;
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use header::Entry;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const READ: &str = "safetensors::read";
const WRITE: &str = "safetensors::write";

/// The longest header that is read, as in the format's own library.
const LONGEST: u64 = 100_000_000;

/// One file of tensors, or all files of a model under one index: the headers were read, the elements are when asked for.
pub struct SafeTensors {
    shards: Vec<Shard>,
    /// The tensors and their shards, in the order of their bytes.
    tensors: Vec<(Entry, usize)>,
    /// Where the tensor of a name stands in `tensors`.
    places: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

/// One file: where its elements come from, and where they begin.
struct Shard {
    source: Source,
    start: u64,
}

enum Source {
    File(File),
    /// All bytes of the file; tensors are handles on parts of them.
    Memory(Tensor<u8, 1, Cpu>),
}

impl SafeTensors {
    /// Opens a file, or by the name of its index (`model.safetensors.index.json`) a model in several files beside it.
    /// Headers are read; every tensor is read into memory of its own when it is asked for.
    ///
    /// # Errors
    /// [`Error::Format`] when a header is not valid or does not fit the file, [`Error::Io`].
    ///
    /// # Source
    /// Format: <https://huggingface.co/docs/safetensors>.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::gather(path.as_ref(), &|path| {
            let (file, length) = open_file(READ, path)?;
            let Some(length) = length else {
                return format_error(READ, format_args!("{}: not a file", path.display()));
            };
            Ok((Source::File(file), length))
        })
    }

    /// As [`open`](SafeTensors::open), mapping the files: tensors are handles on the mapped memory, without a copy where their
    /// elements are aligned in the file. What is written into such a tensor stays in this process.
    ///
    /// # Safety
    /// While the result or a tensor of it lives, nobody writes or shortens the files, in this process or another: elements would
    /// change under references to them, and reading beyond a new end stops the process (`SIGBUS`).
    ///
    /// # Errors
    /// As [`open`](SafeTensors::open).
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        Self::gather(path.as_ref(), &|path| {
            let (file, _) = open_file(READ, path)?;
            // SAFETY: the caller's promise: nobody changes the file. The mapping is private: writing copies a page.
            let mut map = unsafe { memmap2::MmapOptions::new().map_copy(&file) }
                .map_err(|error| io_error(READ, path, error))?;
            let (address, length) = (map.as_mut_ptr(), map.len());
            // SAFETY: so many bytes, which live until the mapping is dropped, and which nobody else knows.
            let bytes = unsafe { Tensor::from_external(address, [length], &Cpu, move |_, _| drop(map))? };
            Ok((Source::Memory(bytes), length as u64))
        })
    }

    /// A file that is in memory already. Tensors share this memory where their elements are aligned in it.
    ///
    /// # Errors
    /// [`Error::Format`] when the header is not valid or does not fit.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let length = bytes.len();
        let mut all = SafeTensors {
            shards: Vec::new(),
            tensors: Vec::new(),
            places: BTreeMap::new(),
            metadata: BTreeMap::new(),
        };
        all.shard(Source::Memory(Tensor::from_vec(bytes, [length])?), length as u64, &|_| true)?;
        Ok(all)
    }

    fn gather(path: &Path, open: &dyn Fn(&Path) -> Result<(Source, u64)>) -> Result<Self> {
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
        let Some(length) = length.filter(|&length| length <= LONGEST) else {
            return format_error(
                READ,
                format_args!("{}: an index has {LONGEST} bytes at most", path.display()),
            );
        };
        let files = header::parse_index(READ, &short(READ, &mut index, length as usize)?)?;
        let mut shards: Vec<&str> = files.values().map(String::as_str).collect();
        shards.sort_unstable();
        shards.dedup();
        for shard in shards {
            // The files stand beside the index: a name must not lead elsewhere.
            if Path::new(shard).file_name().is_none_or(|name| name != shard) || shard.contains(['/', '\\']) {
                return format_error(
                    READ,
                    format_args!("the index names {shard:?}, which is not the name of a file beside it"),
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

    /// Adds the tensors of one file that are wanted from it.
    fn shard(&mut self, source: Source, length: u64, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
        let mut reader = source.reader(0, length);
        let mut prefix = [0; 8];
        exactly(READ, &mut reader, &mut prefix)?;
        let size = u64::from_le_bytes(prefix);
        if size > LONGEST || size > length - 8 {
            return format_error(
                READ,
                format_args!("a header of {size} bytes in a file of {length}; {LONGEST} are the most"),
            );
        }
        let text = short(READ, &mut reader, size as usize)?;
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

    /// The names, in the order of the bytes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|(entry, _)| entry.name.as_str())
    }

    /// What the file says beside its tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// What the header says of one tensor.
    ///
    /// # Errors
    /// [`Error::Value`] when there is none of this name.
    pub fn about(&self, name: &str) -> Result<TensorInfo<'_>> {
        let (Entry { dtype, size, range, .. }, _) = self.find(name)?;
        Ok(TensorInfo {
            dtype: header::element(dtype),
            dtype_name: dtype,
            sizes: size,
            nbytes: range.end - range.start,
        })
    }

    fn find(&self, name: &str) -> Result<&(Entry, usize)> {
        match self.places.get(name) {
            Some(&place) => Ok(&self.tensors[place]),
            None => Err(no_such(
                READ,
                name,
                &self.tensors.iter().map(|(entry, _)| entry.name.clone()).collect::<Vec<_>>(),
            )),
        }
    }

    /// One tensor, of elements `T` with `RANK` axes.
    ///
    /// # Cost
    /// Of an opened file: one allocation, and the bytes go there straight. Of a mapped one, or one in memory, nothing: the
    /// tensor shares it, or is a copy where its elements are not aligned there, or are booleans.
    ///
    /// # Errors
    /// [`Error::Value`] when there is none of this name, [`Error::Type`] when it holds another element or number of axes,
    /// [`Error::OutOfMemory`], [`Error::Io`].
    pub fn read<T: Element, const RANK: usize>(&self, name: &str) -> Result<Tensor<T, RANK>> {
        self.read_with(name, &mut |_, _| {})
    }

    /// As [`read`](SafeTensors::read), calling `progress` as it goes on.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read).
    pub fn read_with<T: Element, const RANK: usize>(
        &self,
        name: &str,
        progress: Progress<'_>,
    ) -> Result<Tensor<T, RANK>> {
        let described = self.description(name)?;
        described.wanted::<T, RANK>(READ).map_err(|error| about(format_args!("{name:?}"), error))?;
        described.tensor(READ, self.bytes(name, &described, progress)?)
    }

    /// One tensor with `RANK` axes, its elements converted to `T` where they are others; by the rules of
    /// [`cast`](crate::ops::Cast::cast).
    ///
    /// # Cost
    /// As [`read`](SafeTensors::read); where elements are converted two copies more, at most 16 bytes an element.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read); [`Error::Type`] for another number of axes alone.
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
        converted(self.read_dyn(name)?).map_err(|error| about(format_args!("{name:?}"), error.renamed(READ)))
    }

    /// One tensor, whatever its elements and axes are.
    ///
    /// # Errors
    /// As [`read`](SafeTensors::read); [`Error::Format`] for elements that no tensor has.
    pub fn read_dyn(&self, name: &str) -> Result<DynTensor> {
        self.read_dyn_with(name, &mut |_, _| {})
    }

    /// As [`read_dyn`](SafeTensors::read_dyn), calling `progress` as it goes on.
    ///
    /// # Errors
    /// As [`read_dyn`](SafeTensors::read_dyn).
    pub fn read_dyn_with(&self, name: &str, progress: Progress<'_>) -> Result<DynTensor> {
        let about = self.description(name)?;
        about.dynamic(READ, self.bytes(name, &about, progress)?)
    }

    fn description(&self, name: &str) -> Result<Description> {
        let (Entry { dtype, size, .. }, _) = self.find(name)?;
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

    /// The bytes of one tensor, in this machine's order.
    fn bytes(&self, name: &str, about: &Description, progress: Progress<'_>) -> Result<Tensor<u8, 1, Cpu>> {
        let (Entry { range, .. }, shard) = self.find(name)?;
        let Shard { source, start } = &self.shards[*shard];
        if let (Source::Memory(bytes), false) = (source, about.swapped) {
            let part = bytes
                .share_data()
                .into_slice(((start + range.start) as usize..(start + range.end) as usize,))?;
            progress(part.numel() as u64, part.numel() as u64);
            return Ok(part);
        }
        about.fill(READ, &mut source.reader(start + range.start, start + range.end), true, Some(progress))
    }
}

/// What the header of a file says of one tensor.
#[derive(Clone, Copy, Debug)]
pub struct TensorInfo<'a> {
    /// The element; `None` of one that no tensor has.
    pub dtype: Option<DType>,
    /// The element's name in the file.
    pub dtype_name: &'a str,
    /// The sizes, first axis first.
    pub sizes: &'a [usize],
    /// How many bytes the elements take.
    pub nbytes: u64,
}

/// Some bytes of a file, whoever else reads it at the same time.
struct Part<'a> {
    source: &'a Source,
    at: u64,
    end: u64,
}

impl Source {
    fn reader(&self, at: u64, end: u64) -> Part<'_> {
        Part { source: self, at, end }
    }
}

impl Read for Part<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let count = left.min(room.len());
        let room = &mut room[..count];
        let count = match self.source {
            #[cfg(unix)]
            Source::File(file) => std::os::unix::fs::FileExt::read_at(file, room, self.at)?,
            #[cfg(windows)]
            Source::File(file) => std::os::windows::fs::FileExt::seek_read(file, room, self.at)?,
            #[cfg(not(any(unix, windows)))]
            Source::File(file) => {
                std::io::Seek::seek(&mut &*file, std::io::SeekFrom::Start(self.at))?;
                (&*file).read(room)?
            }
            Source::Memory(bytes) => {
                bytes.as_slice().unwrap_or_default().get(self.at as usize..).unwrap_or_default().read(room)?
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}

/// Writes a file of tensors with names, and of pairs of words, whole or not at all. The widest elements come first, so that
/// all are aligned when the file is mapped; those of one width in the order of their names.
///
/// # Errors
/// [`Error::Value`] when two tensors have one name, or an element has no name in the format; as
/// [`npy::write`](super::npy::write()).
pub fn write(
    path: impl AsRef<Path>,
    tensors: &[(&str, &dyn TensorBytes)],
    metadata: &[(&str, &str)],
) -> Result<()> {
    write_with(path, tensors, metadata, &mut |_, _| {})
}

/// As [`write()`], calling `progress` as it goes on.
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
    save(WRITE, path.as_ref(), |file| {
        put(WRITE, file, &(header.len() as u64).to_le_bytes())?;
        put(WRITE, file, &header)?;
        for (_, x) in &tensors {
            each_little_endian(WRITE, *x, Order::RowMajor, &mut |bytes| {
                put(WRITE, file, bytes)?;
                done += bytes.len() as u64;
                progress(done, end);
                Ok(())
            })?;
        }
        Ok(())
    })
}
