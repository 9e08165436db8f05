//! Conversion between tensors on a device chosen at run time and on a device known by its type, in the same
//! memory.
// Imports: `error`, `fallible`, `device`, `allocation`.

use super::tensor::{Parts, Tensor};
use crate::allocation::Allocation;
use crate::device::{AnyDevice, AnyDeviceKind, Device};
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;

impl<T, const RANK: usize, D: AnyDeviceKind> Tensor<T, RANK, D> {
    /// The same memory on an [`AnyDevice`], without a copy.
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory, [`Error::OutOfMemory`] for the handle.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::AnyDevice;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let address = x.raw_ptr();
    /// let any: Tensor<f64, 1, AnyDevice> = x.into_any()?;
    /// assert_eq!((any.add(1.0)?.to_vec()?, any.raw_ptr()), (vec![2.0, 3.0], address));
    /// let back = any.into_device::<Cpu>()?;
    /// assert_eq!(back.as_slice(), Some(&[1.0, 2.0][..]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn into_any(self) -> Result<Tensor<T, RANK, AnyDevice>> {
        self.ensure_unique("into_any")?;
        // SAFETY: the same bytes, at the same address, on the same device.
        unsafe {
            self.with_allocation(|memory| {
                let device = memory.device().clone().into();
                if D::BLOCKS_MOVE {
                    return Allocation::with_block(memory, device, |block| Ok(D::into_any(block)));
                }
                // The bytes may be stored inline next to the reference count: the new handle keeps the old
                // one alive.
                let (address, nbytes, version, policy) =
                    (memory.ptr(), memory.size(), memory.version(), memory.policy());
                let other = Allocation::external(&device, address, nbytes, move |_, _| drop(memory))?;
                other.set_history(version, policy);
                FallibleArc::new(other)
            })
        }
    }
}

impl<T, const RANK: usize> Tensor<T, RANK, AnyDevice> {
    /// The same memory with the type of its device; without a copy.
    ///
    /// # Errors
    /// [`Error::Device`] when the memory is on another kind of device (`.to(&device)` copies),
    /// [`Error::Shared`] when other handles share it, [`Error::OutOfMemory`] for the handle. The tensor is
    /// dropped then; [`is_on`](Tensor::is_on) tests the device before.
    pub fn into_device<D: AnyDeviceKind>(self) -> Result<Tensor<T, RANK, D>> {
        let Some(device) = D::of_any(self.device()).cloned() else {
            let right = std::any::type_name::<D>().rsplit("::").next().unwrap_or_default();
            let left = text(format_args!("{:?}", self.device()));
            return Err(Error::Device { op: "into_device", left, right: right.into() });
        };
        self.ensure_unique("into_device")?;
        let other = || Error::Value { op: "into_device", what: "the memory is not its device's".into() };
        // SAFETY: as above.
        unsafe {
            self.with_allocation(|memory| {
                Allocation::with_block(memory, device, |block| D::from_any(block).ok_or_else(other))
            })
        }
    }

    /// Whether it is on a device of this type.
    pub fn is_on<D: AnyDeviceKind>(&self) -> bool {
        D::of_any(self.device()).is_some()
    }
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The same handle, whose memory `convert` moves to another type of device.
    ///
    /// # Safety
    /// 1. `convert` returns the same bytes at the same address.
    /// 2. No other handle has them.
    unsafe fn with_allocation<E: Device>(
        self,
        convert: impl FnOnce(FallibleArc<Allocation<D>>) -> Result<FallibleArc<Allocation<E>>>,
    ) -> Result<Tensor<T, RANK, E>> {
        let (Parts { memory, state }, layout) = self.into_parts();
        // SAFETY: (1) the same elements under the same layout; (2) is the caller's promise.
        Ok(unsafe { Tensor::from_parts(Parts { memory: convert(memory)?, state }, layout) })
    }
}
