//! Page-locked tensors of the host, and copies between them and a card that are queued and not waited for.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use crate::device::{Cpu, Cuda, Queued};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tensor::Tensor;
use std::fmt;

/// What a queued copy reads or writes on the host: to be had when the copy is done. Dropping it waits.
#[must_use = "dropping it waits for the copy"]
pub struct Pending<T> {
    value: Option<T>,
    queued: Queued,
}

impl<T> Pending<T> {
    /// Waits for the copy and gives the tensor back.
    ///
    /// # Errors
    /// Those of the work before it on its stream.
    pub fn wait(mut self) -> Result<T> {
        self.queued.wait()?;
        // It is there until this or the destructor takes it.
        self.value.take().ok_or(Error::Value { op: "wait", what: "the copy has been waited for".into() })
    }

    /// Whether the copy is done; does not wait.
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
            // Nobody knows whether the card has let go of the memory.
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
    /// Zeros in page-locked memory of the host: a card copies them by itself, faster, and while the host does other work.
    /// The system cannot move such memory; have little of it and use it again.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`]; what the driver reports.
    pub fn pinned(size: impl Into<Dim<RANK>>, card: &Cuda) -> Result<Self> {
        let size = size.into();
        let nbytes = size.numel_of("pinned", size_of::<T>())? * size_of::<T>();
        if nbytes == 0 {
            return Tensor::zeros(size, &Cpu);
        }
        let (room, owner) = (card.host_memory(nbytes)?, card.clone());
        // SAFETY: fresh memory of so many bytes, aligned to a page; zeros are valid elements. It is given back once, when
        // the last handle is gone.
        unsafe {
            room.write_bytes(0, nbytes);
            Tensor::from_external(room.cast(), size, &Cpu, move |room, _| owner.free_host(room))
        }
    }

    /// A copy on a card, queued: the tensor there can be used at once, this one when the copy is done. Until then nobody
    /// can write it: the copy has a handle.
    ///
    /// Of memory that is not [pinned](Tensor::pinned) the host copies the bytes first.
    ///
    /// # Errors
    /// [`Error::NeedsCopy`] when row-major order is not the order of memory; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`]; what the driver reports.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(card) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let mut batch = Tensor::<f32, 2>::pinned([32, 4], &card)?;
    /// for step in 0..3 {
    ///     batch.fill(step as f32)?;
    ///     let (x, copied) = batch.upload(&card)?;
    ///     let y = x.exp()?; // queued behind the copy
    ///     let result = y.download(Tensor::pinned([32, 4], &card)?)?;
    ///     batch = copied.wait()?; // to be filled again
    ///     assert_eq!(result.wait()?[[0, 0]], (step as f32).exp());
    /// }
    /// # Ok(())
    /// ```
    pub fn upload(self, card: &Cuda) -> Result<(Tensor<T, RANK, Cuda>, Pending<Self>)> {
        self.view().ensure_allocated("upload")?;
        dense("upload", &self)?;
        let mut copy = Tensor::<T, RANK, Cuda>::uninit("upload", Layout::row_major(self.size()), card)?;
        let to = copy.try_view_mut("upload")?.raw_ptr().cast();
        // SAFETY: fresh memory for exactly these elements; `Pending` keeps the others, which nobody writes.
        let queued = unsafe { card.write_later(to, self.raw_ptr().cast(), self.nbytes())? };
        Ok((copy, Pending { value: Some(self), queued }))
    }
}

impl<T: Element, const RANK: usize> Tensor<T, RANK, Cuda> {
    /// Copies the elements into a tensor of the host, queued: it is given back when the copy is done.
    ///
    /// Into memory that is not [pinned](Tensor::pinned) the copy is waited for here.
    ///
    /// # Errors
    /// [`Error::Output`] when the sizes differ, [`Error::Shared`] when `into` has other handles, [`Error::NeedsCopy`] when
    /// its elements do not stand in row-major order; [`Error::Unallocated`], [`Error::OutOfMemory`]; what the driver
    /// reports.
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
        dense("download", &into)?;
        let nbytes = into.nbytes();
        let to = into.try_view_mut("download")?.raw_ptr().cast();
        // SAFETY: contiguous elements, and room for as many, which `Pending` keeps for itself.
        let queued = unsafe { self.device().read_later(self.raw_ptr().cast(), to, nbytes)? };
        Ok(Pending { value: Some(into), queued })
    }
}

/// [`Error::NeedsCopy`] unless the elements are one run of memory.
fn dense<T, const RANK: usize>(op: &'static str, x: &Tensor<T, RANK, Cpu>) -> Result<()> {
    if x.layout().is_contiguous() {
        return Ok(());
    }
    let (sizes, strides) = (x.size().0, x.stride().0);
    Err(Error::NeedsCopy { op, sizes: sizes.into(), strides: strides.into(), to: sizes.into() })
}
