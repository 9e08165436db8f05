//! Memory that several processes share, handed over by name or by descriptor (POSIX; on Linux).
//!
//! ```
//! use rankform::interop::shared_memory::SharedMemory;
//! use rankform::prelude::*;
//! let name = format!("/rankform-example-{}", std::process::id());
//! let memory = SharedMemory::create(&name, 24)?;
//! // SAFETY: no other process writes it while this one has the tensors.
//! let mut x: Tensor<f64, 1> = unsafe { memory.into_tensor([3]) }?;
//! x.data_mut()?.copy_from_slice(&[1.0, 2.0, 3.0]);
//! // … in another process …
//! let there = SharedMemory::open(&name)?;
//! SharedMemory::unlink(&name)?;
//! // SAFETY: as above; `x` is not written any more.
//! let y: Tensor<f64, 1> = unsafe { there.into_tensor([3]) }?;
//! assert_eq!(y, x);
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dim`, `dtype`, `element`, `device`, `tensor`.

use crate::device::Cpu;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::Tensor;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

const OP: &str = "shared_memory";

/// A piece of memory that other processes may map too, mapped into this one. It is zero at first.
///
/// It lives until the last process has let go of it, and its name was [unlinked](SharedMemory::unlink) or it had none.
#[derive(Debug)]
pub struct SharedMemory {
    descriptor: OwnedFd,
    /// Invariant 1: a mapping of `nbytes` bytes that this unmaps.
    address: NonNull<u8>,
    nbytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; only its address and size are known here.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// The system's report on what was done last.
fn report(what: &str) -> Error {
    let error = std::io::Error::last_os_error();
    Error::Io { op: OP, kind: error.kind(), what: text(format_args!("{what}: {error}")) }
}

fn name_of(name: &str) -> Result<CString> {
    let valid = name.len() > 1 && name.starts_with('/') && !name[1..].contains('/');
    let refused = || Error::Value {
        op: OP,
        what: text(format_args!("{name:?} is no name: one begins with `/` and has no other")),
    };
    CString::new(name).ok().filter(|_| valid).ok_or_else(refused)
}

impl SharedMemory {
    /// New memory with a name, which begins with `/`; for this user alone.
    ///
    /// # Errors
    /// [`Error::Io`] when there is some of this name, or the system has none left; [`Error::Value`] for no bytes or no name.
    ///
    /// # Cost
    /// All of the memory is taken now, as zeros, so that writing cannot fail later.
    pub fn create(name: &str, nbytes: usize) -> Result<Self> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        let descriptor =
            unsafe { libc::shm_open(c_name.as_ptr(), libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600) };
        let descriptor = Self::owned(descriptor, name)?;
        Self::sized(descriptor, nbytes).inspect_err(|_| drop(Self::unlink(name)))
    }

    /// New memory without a name, for processes that are given its [descriptor](AsFd::as_fd).
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Value`] for no bytes.
    pub fn anonymous(nbytes: usize) -> Result<Self> {
        // SAFETY: a string that ends with 0.
        let descriptor = unsafe { libc::memfd_create(c"rankform".as_ptr(), libc::MFD_CLOEXEC) };
        Self::sized(Self::owned(descriptor, "memfd_create")?, nbytes)
    }

    /// Memory that another process created, by its name.
    ///
    /// # Errors
    /// [`Error::Io`] when there is none of this name.
    pub fn open(name: &str) -> Result<Self> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        let descriptor = unsafe { libc::shm_open(c_name.as_ptr(), libc::O_RDWR, 0) };
        Self::from_descriptor(Self::owned(descriptor, name)?)
    }

    /// Memory that another process created, by a descriptor that came from it.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be mapped, [`Error::Value`] when it has no bytes.
    pub fn from_descriptor(descriptor: OwnedFd) -> Result<Self> {
        let file = File::from(descriptor);
        let about = file.metadata().map_err(|error| Error::Io {
            op: OP,
            kind: error.kind(),
            what: text(format_args!("{error}")),
        })?;
        let nbytes = usize::try_from(about.len()).unwrap_or(usize::MAX);
        Self::mapped(file.into(), nbytes)
    }

    /// Takes a name away: who has the memory keeps it, and nobody else finds it any more.
    ///
    /// # Errors
    /// [`Error::Io`] when there is none of this name.
    pub fn unlink(name: &str) -> Result<()> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        if unsafe { libc::shm_unlink(c_name.as_ptr()) } == 0 { Ok(()) } else { Err(report(name)) }
    }

    fn owned(descriptor: i32, what: &str) -> Result<OwnedFd> {
        if descriptor < 0 {
            return Err(report(what));
        }
        // SAFETY: a fresh descriptor, which nobody else has.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn sized(descriptor: OwnedFd, nbytes: usize) -> Result<Self> {
        let file = File::from(descriptor);
        let failed = |error: std::io::Error| Error::Io {
            op: OP,
            kind: error.kind(),
            what: text(format_args!("{nbytes} bytes: {error}")),
        };
        file.set_len(nbytes as u64).map_err(failed)?;
        // A length alone reserves nothing: whoever writes would be stopped where there is no memory.
        // SAFETY: a file of this length.
        let reserve = || unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, nbytes.max(1) as libc::off_t) };
        let mut code = reserve();
        while code == libc::EINTR {
            code = reserve();
        }
        if code != 0 {
            return Err(failed(std::io::Error::from_raw_os_error(code)));
        }
        Self::mapped(file.into(), nbytes)
    }

    fn mapped(descriptor: OwnedFd, nbytes: usize) -> Result<Self> {
        if nbytes == 0 || nbytes > isize::MAX as usize {
            return Err(Error::Value { op: OP, what: text(format_args!("{nbytes} bytes cannot be mapped")) });
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the system likes.
        let address =
            unsafe { libc::mmap(null_mut(), nbytes, access, libc::MAP_SHARED, descriptor.as_raw_fd(), 0) };
        match NonNull::new(address.cast::<u8>()) {
            Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(SharedMemory { descriptor, address, nbytes })
            }
            _ => Err(report("mmap")),
        }
    }

    /// How many bytes there are.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// A tensor in this memory, row-major from its start. The mapping goes when the last handle is gone.
    ///
    /// # Errors
    /// [`Error::Length`] when there are fewer bytes, [`Error::Overflow`], [`Error::Value`] for booleans, of which another process could
    /// make something else.
    ///
    /// # Safety
    /// While this process reads elements, no process writes them, and while it writes them no other reads or writes them:
    /// processes agree by other means (a pipe, a signal). Nobody shortens the memory.
    pub unsafe fn into_tensor<T: Element, const RANK: usize>(
        self,
        size: impl Into<Dim<RANK>>,
    ) -> Result<Tensor<T, RANK>> {
        let size = size.into();
        if T::DTYPE == DType::Bool {
            return Err(Error::Value {
                op: OP,
                what: text(format_args!("shared memory holds no bool: another process may write any byte")),
            });
        }
        let (numel, found) = (size.numel_of(OP, size_of::<T>())?, self.nbytes / size_of::<T>());
        if numel > found {
            return Err(Error::Length { op: OP, sizes: size.0.into(), expected: numel, found, of: None });
        }
        let address = self.address.as_ptr().cast();
        // SAFETY: the mapping has so many bytes, zeros or what a process wrote, of which any are a `T`; it lives until it is
        // dropped; the caller's promise.
        unsafe { Tensor::from_external(address, size, &Cpu, move |_, _| drop(self)) }
    }
}

/// What another process is given: over a socket, or inherited.
impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: invariant 1; no tensor has it any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.nbytes) };
    }
}
