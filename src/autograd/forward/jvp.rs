//! The forward-mode device: the methods with which a program makes dual tensors and takes their tangents.
// Imports: `error`, `fallible`, `layout`, `element`, `device`, `allocation`, `erased_memory`, `tensor`,
// `autograd`.

use super::state::{JvpBlock, JvpState, Tangent};
use crate::allocation::Allocation;
use crate::autograd::Differentiable;
use crate::autograd::inner::inner_of;
use crate::autograd::tape::tensor_in;
use crate::device::{Cpu, Device, Init, OperandRef, same_device};
use crate::element::Element;
use crate::erased_memory::Memory;
use crate::error::{Error, Result};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use crate::tensor::{Parts, Tensor};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that computes derivatives along one direction beside the values: forward mode.
///
/// A tensor on it has values and, if they depend on a [dual](Jvp::dual) tensor, a tangent of the same sizes:
/// the product of the Jacobian matrix and the direction. Programs compute both in one kernel. Clones are the
/// same device.
///
/// One forward pass gives the derivative of every result along one direction; one backward pass of a
/// [`Tape`](crate::autograd::Tape) gives the derivative of one result along every direction. Forward mode
/// keeps no intermediate results.
///
/// # Examples
/// ```
/// use rankform::autograd::Jvp;
/// use rankform::prelude::*;
/// let device = Jvp::new(&Cpu);
/// let x = device.dual(&Tensor::from([1.0, 2.0]), &Tensor::from([1.0, 0.5]))?;
/// let y = (x.lazy() * &x).eval()?;
/// assert_eq!(device.value(&y)?.to_vec()?, [1.0, 4.0]);
/// assert_eq!(device.tangent(&y)?.to_vec()?, [2.0, 2.0]); // 2·x·dx
/// # Ok::<(), rankform::Error>(())
/// ```
/// A device inside a device has derivatives of higher order, and `Tape<Jvp<D>>` the product of a Hessian and
/// a vector; see [`grad_and_hvp`](crate::autograd::grad_and_hvp).
///
/// # Threads
/// Several threads may use one device. Each kernel takes a lock once; the kernels themselves run in parallel.
pub struct Jvp<D: Device = Cpu> {
    pub(super) device: D,
    pub(super) shared: Arc<JvpState>,
}

impl<D: Device> Clone for Jvp<D> {
    fn clone(&self) -> Self {
        Jvp { device: self.device.clone(), shared: self.shared.clone() }
    }
}
impl<D: Device> PartialEq for Jvp<D> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}
impl<D: Device> fmt::Debug for Jvp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jvp({:?}, number {})", self.device, self.shared.number)
    }
}

/// The number of the next device.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl<D: Device> Jvp<D> {
    /// A forward-mode device that computes on `device`.
    pub fn new(device: &D) -> Self {
        let shared = JvpState::new(inner_of(device), NEXT.fetch_add(1, Ordering::Relaxed));
        Jvp { device: device.clone(), shared: Arc::new(shared) }
    }

    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// A tensor of this device in the memory of `x`, without a tangent. No element is copied.
    ///
    /// While the result exists, `x` cannot be written. A write to the result moves it to memory of its own.
    ///
    /// # Errors
    /// [`Error::Device`] if `x` is not on the inner device; [`Error::Unallocated`] if it has no memory yet;
    /// [`Error::OutOfMemory`] for the handle.
    pub fn constant<T: Element, const RANK: usize>(
        &self,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, Jvp<D>>> {
        same_device("constant", self.inner(), x.device())?;
        x.view().ensure_allocated("constant")?;
        let block = JvpBlock::new(&self.shared, Memory::new(x.memory_handle()), None)?;
        self.tensor_of(block, x.allocation().size(), *x.layout())
    }

    /// A tensor with the values of `x` and this tangent: results are differentiated along it. It is in the
    /// memory of `x` and of `tangent`; see [`constant`](Jvp::constant).
    ///
    /// # Cost
    /// A copy of `x` if it is not contiguous; a copy of `tangent` if it is not laid out as `x`.
    ///
    /// # Errors
    /// As [`constant`](Jvp::constant); [`Error::Sizes`] if the sizes differ.
    pub fn dual<T: Differentiable, const RANK: usize>(
        &self,
        x: &Tensor<T, RANK, D>,
        tangent: &Tensor<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, Jvp<D>>> {
        if x.size() != tangent.size() {
            let (left, right) = (x.size().0.into(), tangent.size().0.into());
            return Err(Error::Sizes { op: "dual", left, right });
        }
        same_device("dual", self.inner(), x.device())?;
        same_device("dual", self.inner(), tangent.device())?;
        x.view().ensure_allocated("dual")?;
        tangent.view().ensure_allocated("dual")?;
        let x = if x.layout().is_contiguous() { x.share_data() } else { x.to_contiguous()? };
        let (nbytes, layout) = (x.allocation().size(), *x.layout());
        let mut memory = tangent.memory_handle();
        if *tangent.layout() != layout || memory.size() != nbytes {
            memory = Allocation::fresh(self.inner(), nbytes, Init::Zeroed)?;
            let (to, from) = (x.stride(), tangent.stride());
            let element = size_of::<T>();
            let to = OperandRef {
                address: memory.ptr().wrapping_add(layout.offset() * element),
                stride: &to.0,
                element,
            };
            let from = OperandRef { address: tangent.raw_ptr().cast_mut().cast(), stride: &from.0, element };
            if !x.is_empty() {
                // SAFETY: (1) the layout of `x` in memory of the same size, and a tensor; (2) and (3) the
                // memory is new.
                unsafe { self.inner().copy(&x.size().0, to, from)? };
            }
        }
        let tangent = Tangent { memory: Memory::new(memory), dtype: T::DTYPE };
        let block = JvpBlock::new(&self.shared, Memory::new(x.memory_handle()), Some(tangent))?;
        self.tensor_of(block, nbytes, layout)
    }

    /// The values of `y` on the inner device. No element is copied: both are in the same memory until one of
    /// them is written.
    ///
    /// # Errors
    /// [`Error::Device`] if `y` is on another device; [`Error::Unallocated`] if it has no memory yet.
    pub fn value<T: Element, const RANK: usize>(
        &self,
        y: &Tensor<T, RANK, Jvp<D>>,
    ) -> Result<Tensor<T, RANK, D>> {
        same_device("value", self, y.device())?;
        y.view().ensure_allocated("value")?;
        let memory = self.shared.lock().get(y.allocation().block().number()).map(|entry| entry.value.share());
        let Some(memory) = memory else { return Err(Error::NoData { op: "value", device: "Jvp" }) };
        // SAFETY: the memory of the block, under the layout that has its elements.
        unsafe { tensor_in(memory, *y.layout(), self.inner()) }
    }

    /// The tangent of `y` on the inner device: zeros if it depends on no dual tensor. No element of a tangent
    /// is copied; see [`value`](Jvp::value).
    ///
    /// # Errors
    /// As [`value`](Jvp::value); [`Error::OutOfMemory`] for zeros.
    pub fn tangent<T: Differentiable, const RANK: usize>(
        &self,
        y: &Tensor<T, RANK, Jvp<D>>,
    ) -> Result<Tensor<T, RANK, D>> {
        same_device("tangent", self, y.device())?;
        y.view().ensure_allocated("tangent")?;
        let memory = self
            .shared
            .lock()
            .get(y.allocation().block().number())
            .and_then(|entry| entry.tangent.as_ref().map(|tangent| tangent.memory.share()));
        let Some(memory) = memory else { return Tensor::zeros(y.size(), self.inner()) };
        // SAFETY: a tangent has as many bytes as its block, and its layout.
        unsafe { tensor_in(memory, *y.layout(), self.inner()) }
    }

    /// Whether `y` has a tangent: whether its memory depends on a dual tensor.
    pub fn has_tangent<T: Element, const RANK: usize>(&self, y: &Tensor<T, RANK, Jvp<D>>) -> bool {
        self == y.device()
            && y.view().ensure_allocated("has_tangent").is_ok()
            && self
                .shared
                .lock()
                .get(y.allocation().block().number())
                .is_some_and(|entry| entry.tangent.is_some())
    }

    fn tensor_of<T: Element, const RANK: usize>(
        &self,
        block: JvpBlock,
        nbytes: usize,
        layout: Layout<RANK>,
    ) -> Result<Tensor<T, RANK, Jvp<D>>> {
        let memory = FallibleArc::new(Allocation::from_block(block, nbytes, self.clone()))?;
        // SAFETY: the block has the memory for which the layout was made.
        Ok(unsafe { Tensor::from_parts(Parts { memory, state: Default::default() }, layout) })
    }
}
