//! Memory shared by processes, which exchange it by name or by descriptor (POSIX; on Linux).
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

/// Memory that other processes may map too, mapped into this one. It is zero at first.
///
/// It lives until every process has unmapped it, and its name was [unlinked](SharedMemory::unlink), unless it
/// has no name.
#[derive(Debug)]
pub struct SharedMemory {
    descriptor: OwnedFd,
    /// Invariant 1: a mapping of `nbytes` bytes, which this unmaps.
    address: NonNull<u8>,
    nbytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this struct holds only its address and size.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// The system's error of the last call.
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
    /// New memory with a name, which begins with `/`, for this user only.
    ///
    /// # Errors
    /// [`Error::Io`] if the name exists or the system has no memory left; [`Error::Value`] for 0 bytes or no
    /// name.
    ///
    /// # Cost
    /// The whole memory is allocated now, as zeros, so that later writes cannot fail.
    pub fn create(name: &str, nbytes: usize) -> Result<Self> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        let descriptor =
            unsafe { libc::shm_open(c_name.as_ptr(), libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600) };
        let descriptor = Self::owned(descriptor, name)?;
        Self::sized(descriptor, nbytes).inspect_err(|_| drop(Self::unlink(name)))
    }

    /// New memory without a name, for processes that receive its [descriptor](AsFd::as_fd).
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Value`] for 0 bytes.
    pub fn anonymous(nbytes: usize) -> Result<Self> {
        // SAFETY: a string that ends with 0.
        let descriptor = unsafe { libc::memfd_create(c"rankform".as_ptr(), libc::MFD_CLOEXEC) };
        Self::sized(Self::owned(descriptor, "memfd_create")?, nbytes)
    }

    /// Opens the memory of another process by its name.
    ///
    /// # Errors
    /// [`Error::Io`] if the name does not exist.
    pub fn open(name: &str) -> Result<Self> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        let descriptor = unsafe { libc::shm_open(c_name.as_ptr(), libc::O_RDWR, 0) };
        Self::from_descriptor(Self::owned(descriptor, name)?)
    }

    /// Opens the memory of another process by a descriptor from it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be mapped, [`Error::Value`] if it has 0 bytes.
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

    /// Removes a name. Processes that have the memory keep it, and no other process can find it any more.
    ///
    /// # Errors
    /// [`Error::Io`] if the name does not exist.
    pub fn unlink(name: &str) -> Result<()> {
        let c_name = name_of(name)?;
        // SAFETY: a string that ends with 0.
        if unsafe { libc::shm_unlink(c_name.as_ptr()) } == 0 { Ok(()) } else { Err(report(name)) }
    }

    fn owned(descriptor: i32, what: &str) -> Result<OwnedFd> {
        if descriptor < 0 {
            return Err(report(what));
        }
        // SAFETY: a new descriptor, which has no other owner.
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
        // Setting the length alone reserves no memory: a later write would stop the process if none is left.
        // SAFETY: the file has this length.
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
        // SAFETY: a new mapping, at an address that the system chooses.
        let address =
            unsafe { libc::mmap(null_mut(), nbytes, access, libc::MAP_SHARED, descriptor.as_raw_fd(), 0) };
        match NonNull::new(address.cast::<u8>()) {
            Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(SharedMemory { descriptor, address, nbytes })
            }
            _ => Err(report("mmap")),
        }
    }

    /// The number of bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// A tensor in this memory, row-major from its start. The memory is unmapped when the last handle is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Length`] if the memory is too small, [`Error::Overflow`], [`Error::Value`] for booleans,
    /// which another process could make invalid.
    ///
    /// # Safety
    /// 1. While this process reads elements, no process writes them.
    /// 2. While this process writes elements, no other process reads or writes them.
    /// 3. No process shortens the memory.
    ///
    /// Processes synchronize by other means (a pipe, a signal).
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
        // SAFETY: the mapping has at least these bytes, zeros or bytes that a process wrote, and any bytes
        // are a `T`. It lives until it is dropped. The rest is the caller's promise.
        unsafe { Tensor::from_external(address, size, &Cpu, move |_, _| drop(self)) }
    }
}

/// The descriptor for another process, sent over a socket or inherited.
impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: invariant 1. No tensor has the mapping any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.nbytes) };
    }
}
