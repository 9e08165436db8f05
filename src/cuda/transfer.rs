//! Page-locked tensors of the host, and asynchronous copies between them and a GPU.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use crate::device::{Cpu, Cuda, QueuedCopy};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tensor::Tensor;
use std::fmt;

/// The host tensor of a queued copy, which [`wait`](Pending::wait) returns when the copy is complete. A drop
/// waits, too.
#[must_use = "dropping it waits for the copy"]
pub struct Pending<T> {
    value: Option<T>,
    queued: QueuedCopy,
}

impl<T> Pending<T> {
    /// Waits for the copy, and returns the tensor.
    ///
    /// # Errors
    /// Those of the work before it on its stream, deferred errors included.
    pub fn wait(mut self) -> Result<T> {
        self.queued.wait()?;
        self.queued.check()?;
        // The value is present until this call or the destructor takes it.
        self.value.take().ok_or(Error::Value { op: "wait", what: "the copy has been waited for".into() })
    }

    /// Whether the copy is complete. Does not wait.
    ///
    /// # Errors
    /// Those of the work before it on its stream.
    pub fn is_done(&self) -> Result<bool> {
        self.queued.is_done()
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if self.value.is_some() && self.queued.wait().is_err() {
            // The GPU may still use the memory.
            std::mem::forget(self.value.take());
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl<T: Element, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// Zeros in page-locked host memory. A GPU copies such memory faster than other memory, and while the
    /// host does other work. The system cannot move it: allocate little of it, and reuse it.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`]; the report of the driver.
    pub fn pinned(size: impl Into<Dim<RANK>>, gpu: &Cuda) -> Result<Self> {
        let size = size.into();
        let nbytes = size.numel_of("pinned", size_of::<T>())? * size_of::<T>();
        if nbytes == 0 {
            return Tensor::zeros(size, &Cpu);
        }
        let (address, owner) = (gpu.host_memory(nbytes)?, gpu.clone());
        // SAFETY: new memory of `nbytes` bytes, aligned to a page; zeros are valid elements. The deleter runs
        // once, after the last handle is dropped.
        unsafe {
            address.write_bytes(0, nbytes);
            Tensor::from_external(address.cast(), size, &Cpu, move |address, _| owner.free_host(address))
        }
    }

    /// Queues a copy to a GPU. The tensor on the GPU can be used at once, this one after the copy is
    /// complete. Until then it cannot be written, because the copy holds a handle.
    ///
    /// If the memory is not [pinned](Tensor::pinned), the host copies the bytes first.
    ///
    /// # Errors
    /// [`Error::NeedsCopy`] unless the elements are contiguous in row-major order; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`]; the report of the driver.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let mut batch = Tensor::<f32, 2>::pinned([32, 4], &gpu)?;
    /// for step in 0..3 {
    ///     batch.fill(step as f32)?;
    ///     let (x, copied) = batch.upload(&gpu)?;
    ///     let y = x.exp()?; // queued after the copy
    ///     let result = y.download(Tensor::pinned([32, 4], &gpu)?)?;
    ///     batch = copied.wait()?; // can be filled again
    ///     assert_eq!(result.wait()?[[0, 0]], (step as f32).exp());
    /// }
    /// # Ok(())
    /// ```
    pub fn upload(self, gpu: &Cuda) -> Result<(Tensor<T, RANK, Cuda>, Pending<Self>)> {
        self.view().ensure_allocated("upload")?;
        ensure_contiguous("upload", &self)?;
        let mut copy = Tensor::<T, RANK, Cuda>::uninit("upload", Layout::row_major(self.size()), gpu)?;
        let to = copy.try_view_mut("upload")?.raw_ptr().cast();
        // SAFETY: (1) new memory for exactly these elements; (2) `Pending` holds the host tensor, which is
        // not written.
        let queued = unsafe { gpu.queue_write(to, self.raw_ptr().cast(), self.nbytes())? };
        Ok((copy, Pending { value: Some(self), queued }))
    }
}

impl<T: Element, const RANK: usize> Tensor<T, RANK, Cuda> {
    /// Queues a copy of the elements into a tensor of the host, which is returned when the copy is complete.
    ///
    /// If the memory of `into` is not [pinned](Tensor::pinned), this call waits for the copy.
    ///
    /// # Errors
    /// [`Error::Output`] if the sizes differ; [`Error::Shared`] if `into` has other handles;
    /// [`Error::NeedsCopy`] unless its elements are contiguous in row-major order; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`]; the report of the driver.
    pub fn download(&self, mut into: Tensor<T, RANK, Cpu>) -> Result<Pending<Tensor<T, RANK, Cpu>>> {
        if self.size() != into.size() {
            return Err(Error::Output {
                op: "download",
                sizes: self.size().0.into(),
                found: into.size().0.into(),
            });
        }
        self.view().ensure_allocated("download")?;
        if !self.layout().is_contiguous() {
            return self.to_contiguous()?.download(into);
        }
        ensure_contiguous("download", &into)?;
        let nbytes = into.nbytes();
        let to = into.try_view_mut("download")?.raw_ptr().cast();
        // SAFETY: (1) the elements are contiguous, and `into` has as many; (2) `Pending` holds `into` alone.
        let queued = unsafe { self.device().queue_read(self.raw_ptr().cast(), to, nbytes)? };
        Ok(Pending { value: Some(into), queued })
    }
}

/// [`Error::NeedsCopy`] unless the elements are contiguous.
fn ensure_contiguous<T, const RANK: usize>(op: &'static str, x: &Tensor<T, RANK, Cpu>) -> Result<()> {
    if x.layout().is_contiguous() {
        return Ok(());
    }
    let (sizes, strides) = (x.size().0, x.stride().0);
    Err(Error::NeedsCopy { op, sizes: sizes.into(), strides: strides.into(), to: sizes.into() })
}
