//! The tape: the methods with which a program records and takes gradients.
// Imports: `error`, `fallible`, `dim`, `layout`, `dtype`, `element`, `device`, `allocation`,
// `erased_memory`, `tensor`.

use super::backward::Backward;
use super::facts::Identity;
use super::inner::inner_of;
use super::parts::Gradient;
use super::state::{BlockView, TapeBlock, TapeState};
use super::{Differentiable, Var};
use crate::allocation::Allocation;
use crate::device::{Cpu, Device, OperandRef, same_device};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::element::Element;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use crate::tensor::{Parts, Tensor};
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that records kernels, so that gradients can be computed.
///
/// Every kernel runs on the inner device `D`. The tape records those of which an operand depends on a
/// variable, a tensor that was [watched](Tape::watch). Clones are the same tape.
///
/// # Examples
/// ```
/// use rankform::autograd::Tape;
/// use rankform::prelude::*;
/// let tape = Tape::new(&Cpu);
/// let x = tape.watch(&Tensor::from([1.0, 2.0, 3.0]))?;
/// let loss = (x.lazy() * &x).sum(All)?;
/// let gradients = tape.backward(&loss)?;
/// assert_eq!(gradients.of(&x)?.to_vec()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Threads
/// Several threads may use one tape. Each kernel takes a lock twice; the kernels themselves run in parallel.
/// A write that moves a block to a copy waits until no kernel runs. The recording is one sequence.
///
/// # Limits
/// On processors with addresses of 64 bits a block has less than 2⁴⁰ bytes, and a tape has less than 2²⁴
/// blocks at a time. More is [`Error::OutOfMemory`].
pub struct Tape<D: Device = Cpu> {
    pub(super) device: D,
    pub(super) shared: Arc<TapeState>,
}

impl<D: Device> Clone for Tape<D> {
    fn clone(&self) -> Self {
        Tape { device: self.device.clone(), shared: self.shared.clone() }
    }
}
impl<D: Device> PartialEq for Tape<D> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}
impl<D: Device> fmt::Debug for Tape<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tape({:?}, number {})", self.device, self.shared.number)
    }
}

/// The number of tapes that were made: the number of the next one.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Ends a pause when it is dropped, also by a panic.
struct Pause<'a>(&'a TapeState);
impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.lock().paused -= 1;
    }
}

impl<D: Device> Tape<D> {
    /// An empty tape that computes on `device`.
    pub fn new(device: &D) -> Self {
        let shared = TapeState::new(
            inner_of(device),
            NEXT.fetch_add(1, Ordering::Relaxed),
            #[cfg(feature = "dynamic")]
            {
                let device = device.clone();
                Box::new(move |shared, memory| constant_memory_of(&device, shared, memory))
            },
        );
        Tape { device: device.clone(), shared: Arc::new(shared) }
    }

    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// The number of recorded steps.
    pub fn len(&self) -> usize {
        self.shared.lock().nodes.len()
    }

    /// Whether no step is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A constant in the memory of `x`; see [`constant`](Tape::constant).
    pub(super) fn constant_of<T: Element, const RANK: usize>(
        &self,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        same_device("constant", self.inner(), x.device())?;
        x.view().ensure_allocated("constant")?;
        let block = TapeBlock::new(&self.shared, Memory::new(x.memory_handle()), true)?;
        self.tensor_of(block, *x.layout())
    }

    /// A variable with the values of `x`: gradients are computed with respect to it. It is in the memory of
    /// `x`; see [`constant`](Tape::constant).
    ///
    /// # Errors
    /// As [`constant`](Tape::constant).
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let gradients = tape.backward(&x.lazy().square().sum(All)?)?;
    /// assert_eq!(gradients.of(&x)?, Tensor::from([2.0, 4.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "requires_grad")]
    pub fn watch<T: Differentiable, const RANK: usize>(
        &self,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        let variable = self.constant_of(x)?;
        self.shared.lock().watch(variable.allocation().block().number(), T::DTYPE);
        Ok(variable)
    }

    /// The values of `y` on the inner device, without its history. No element is copied: both are in the same
    /// memory until one of them is written.
    ///
    /// # Errors
    /// [`Error::Device`] if `y` is on another tape; [`Error::Unallocated`] if it has no memory yet.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let norm = tape.value(&x.norm(All)?)?; // on the CPU, without a history
    /// let norm = tape.constant(&norm)?;
    /// let scaled = x.lazy() / norm.lift();
    /// let gradients = tape.backward(&scaled.sum(All)?)?;
    /// assert_eq!(gradients.of(&x)?.to_vec()?, [0.2_f64.sqrt(); 2]); // the norm is a constant
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "detach")]
    pub fn value<T: Element, const RANK: usize>(&self, y: &Var<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
        self.ensure_own("value", y)?;
        y.view().ensure_allocated("value")?;
        let memory =
            self.shared.lock().entry(y.allocation().block().number()).map(|entry| entry.memory().share());
        let Some(memory) = memory else { return Err(Error::NoData { op: "value", device: "Tape" }) };
        // SAFETY: the memory of the block, under the layout that has its elements.
        unsafe { tensor_in(memory, *y.layout(), &self.device) }
    }

    /// Whether `y` depends on a variable: PyTorch's `requires_grad`.
    pub fn depends_on_variable<T: Element, const RANK: usize>(&self, y: &Var<T, RANK, D>) -> bool {
        matches!(self.view_of("depends_on_variable", y), Ok(Some(_)))
    }

    /// Keeps the gradient of a tensor that is not a variable, for [`Gradients::of`].
    ///
    /// # Errors
    /// [`Error::Device`] if `y` is on another tape; [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let y = (x.lazy() * 3.0).eval()?;
    /// tape.retain(&y)?;
    /// let gradients = tape.backward(&y.lazy().square().sum(All)?)?;
    /// assert_eq!(gradients.of(&y)?, Tensor::from([6.0, 12.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "retain_grad")]
    pub fn retain<T: Differentiable, const RANK: usize>(&self, y: &Var<T, RANK, D>) -> Result<()> {
        self.ensure_own("retain", y)?;
        let mut state = self.shared.lock();
        let no_room = |_| Error::OutOfMemory { op: "retain", nbytes: size_of::<u64>() };
        state.retained.try_reserve(1).map_err(no_room)?;
        state.retained.insert(y.allocation().block().id());
        Ok(())
    }

    /// Runs `f` without recording.
    ///
    /// # Threads
    /// The pause is that of the tape, as the recording is: other threads that use this tape do not record
    /// either until the last pause has ended. A part of a program that shall run without recording beside
    /// threads that record computes on [values](Tape::value), on the inner device.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let mean = tape.paused(|| x.mean(All))?;
    /// assert!(tape.is_empty() && !tape.depends_on_variable(&mean));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "no_grad")]
    pub fn paused<R>(&self, f: impl FnOnce() -> R) -> R {
        self.shared.lock().paused += 1;
        let _pause = Pause(&self.shared);
        f()
    }

    /// The gradients of one number with respect to all variables. The recording ends: results that were made
    /// before depend on no variable afterwards.
    ///
    /// # Cost
    /// A few kernels for each recorded step whose result the number depends on, and memory for the gradients
    /// in use; the values that steps have saved are freed on the way.
    ///
    /// # Errors
    /// [`Error::Value`] if the number depends on no variable; errors of the inner device. The recording has
    /// ended then too.
    pub fn backward<T: Differentiable>(&self, loss: &Var<T, 0, D>) -> Result<Gradients<D>> {
        let one = Tensor::full([], T::one(), self.inner())?;
        self.vjp(loss, &one)
    }

    /// The gradients of `Σ gradient · y`: a vector-Jacobian product. For complex numbers it is
    /// `Re(Σ conj(gradient) · y)`. The recording ends.
    ///
    /// # Errors
    /// [`Error::Output`] if the sizes differ, [`Error::Device`] if `gradient` is not on the inner device, and
    /// as [`backward`](Tape::backward).
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let y = x.lazy().square().eval()?;
    /// let gradients = tape.vjp(&y, &Tensor::from([1.0, 10.0]))?;
    /// assert_eq!(gradients.of(&x)?, Tensor::from([2.0, 40.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn vjp<T: Differentiable, const RANK: usize>(
        &self,
        y: &Var<T, RANK, D>,
        gradient: &Tensor<T, RANK, D>,
    ) -> Result<Gradients<D>> {
        ensure_fits("vjp", self.inner(), y.size(), gradient)?;
        self.ensure_own("backward", y)?;
        let stride = y.stride();
        let slot =
            OperandRef { address: y.raw_ptr().cast_mut().cast(), stride: &stride.0, element: size_of::<T>() };
        self.run_back(&slot, T::DTYPE, &mut |b, view| b.add_gradient(view, gradient))
    }

    /// Ends the recording with a backward pass from an operand, whose gradient `start` adds.
    pub(super) fn run_back(
        &self,
        y: &OperandRef<'_>,
        dtype: DType,
        start: &mut dyn FnMut(&mut Backward, &BlockView) -> Result<()>,
    ) -> Result<Gradients<D>> {
        // Under one lock: the recording that ends is the one to which the operand belongs.
        let (view, (nodes, kept)) = {
            let mut state = self.shared.lock();
            let is_active = state.active("backward", y)?.is_some();
            (state.view(y, dtype).filter(|_| is_active), state.take())
        };
        let Some(view) = view else {
            let what = "the result depends on no variable of this tape: it was not made from watched \
                        tensors, or while the tape was paused, or before the last backward pass";
            return Err(Error::Value { op: "backward", what: what.into() });
        };
        let mut b = Backward::new(&self.shared.inner)?;
        start(&mut b, &view)?;
        b.run(nodes, &kept)?;
        let (gradients, device) = (b.into_gradients(), self.inner().clone());
        Ok(Gradients { gradients, device, tape: self.shared.number })
    }

    /// Ends the recording without a backward pass, and frees what its steps have saved.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let _y = x.exp()?;
    /// assert_eq!(tape.len(), 1);
    /// tape.clear();
    /// assert!(tape.is_empty());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn clear(&self) {
        let recording = self.shared.lock().take();
        drop(recording); // after the lock is released
    }

    pub(super) fn ensure_own<T, const RANK: usize>(
        &self,
        op: &'static str,
        y: &Var<T, RANK, D>,
    ) -> Result<()> {
        same_device(op, self, y.device())
    }

    /// The place of a tensor, if it depends on a variable.
    pub(super) fn view_of<T: Element, const RANK: usize>(
        &self,
        op: &'static str,
        y: &Var<T, RANK, D>,
    ) -> Result<Option<BlockView>> {
        self.ensure_own(op, y)?;
        let stride = y.stride();
        let slot =
            OperandRef { address: y.raw_ptr().cast_mut().cast(), stride: &stride.0, element: size_of::<T>() };
        let mut state = self.shared.lock();
        Ok(match state.active(op, &slot)? {
            Some(_) => state.view(&slot, T::DTYPE),
            None => None,
        })
    }

    fn tensor_of<T: Element, const RANK: usize>(
        &self,
        block: TapeBlock,
        layout: Layout<RANK>,
    ) -> Result<Var<T, RANK, D>> {
        let nbytes = self.shared.lock().entry(block.number()).map_or(0, |entry| entry.memory().nbytes());
        let memory = FallibleArc::new(Allocation::from_block(block, nbytes, self.clone()))?;
        // SAFETY: the block has the memory for which the layout was made.
        Ok(unsafe { Tensor::from_parts(Parts { memory, state: Default::default() }, layout) })
    }
}

/// Memory of `device` as a constant of a tape on it.
///
/// # Errors
/// [`Error::Device`] for memory of another device, [`Error::OutOfMemory`].
#[cfg(feature = "dynamic")]
fn constant_memory_of<D: Device>(device: &D, shared: &Arc<TapeState>, memory: Memory) -> Result<Memory> {
    if memory.get::<D>().is_none_or(|own| own.device() != device) {
        let (left, right) = (text(format_args!("{device:?}")), memory.device());
        return Err(Error::Device { op: "tape", left, right });
    }
    let nbytes = memory.nbytes();
    let tape = Tape { device: device.clone(), shared: shared.clone() };
    let block = TapeBlock::new(shared, memory, true)?;
    Ok(Memory::new(FallibleArc::new(Allocation::from_block(block, nbytes, tape))?))
}

/// The gradients of one backward pass.
pub struct Gradients<D: Device = Cpu> {
    gradients: HashMap<u64, Gradient, BuildHasherDefault<Identity>>,
    pub(super) device: D,
    /// The number of the tape.
    tape: u64,
}

impl<D: Device> Gradients<D> {
    /// The gradient with respect to `x`, a variable or a [retained](Tape::retain) tensor: zeros if the result
    /// does not depend on it. Each call returns another handle on the same memory.
    ///
    /// # Errors
    /// [`Error::Device`] if `x` is on another tape; [`Error::OutOfMemory`]. If `x` is a part of a larger
    /// tensor, its gradient is copied.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let (x, unused) = (tape.watch(&Tensor::from(3.0))?, tape.watch(&Tensor::from([1.0]))?);
    /// let gradients = tape.backward(&x.mul(&x)?)?;
    /// assert_eq!(gradients.of(&x)?.item()?, 6.0);
    /// assert_eq!(gradients.of(&unused)?, Tensor::from([0.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn of<T: Differentiable, const RANK: usize>(
        &self,
        x: &Var<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        let Some(memory) = self.memory_of(x.device(), x.allocation().block())? else {
            return Tensor::zeros(x.size(), &self.device);
        };
        // SAFETY: a gradient has as many bytes as its block, and its layout.
        let gradient: Tensor<T, RANK, D> = unsafe { tensor_in(memory, *x.layout(), &self.device)? };
        if gradient.layout().is_contiguous() { Ok(gradient) } else { gradient.to_contiguous() }
    }

    /// The gradient of a block of a tape; `None` if no contribution has reached it.
    pub(super) fn memory_of(&self, tape: &Tape<D>, block: &TapeBlock) -> Result<Option<Memory>> {
        if tape.shared.number != self.tape {
            let left = text(format_args!("Tape({:?}, number {})", self.device, self.tape));
            return Err(Error::Device { op: "of", left, right: text(format_args!("{tape:?}")) });
        }
        Ok(self.gradients.get(&block.id()).map(|gradient| gradient.memory.share()))
    }
}

impl<D: Device> fmt::Debug for Gradients<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients({} blocks, {:?})", self.gradients.len(), self.device)
    }
}

/// [`Error::Output`] unless a gradient has the sizes of its operand; [`Error::Device`] unless it is on the
/// inner device.
fn ensure_fits<T, const RANK: usize, D: Device>(
    op: &'static str,
    device: &D,
    size: Dim<RANK>,
    gradient: &Tensor<T, RANK, D>,
) -> Result<()> {
    same_device(op, device, gradient.device())?;
    if size == gradient.size() {
        return Ok(());
    }
    Err(Error::Output { op, sizes: size.0.into(), found: gradient.size().0.into() })
}

/// A tensor in memory of the inner device.
///
/// # Safety
/// The memory has valid elements `T` at the positions of the layout.
pub(super) unsafe fn tensor_in<T, const RANK: usize, D: Device>(
    memory: Memory,
    layout: Layout<RANK>,
    device: &D,
) -> Result<Tensor<T, RANK, D>> {
    let Ok(memory) = memory.downcast::<D>() else {
        let (left, right) = (text(format_args!("{device:?}")), "another device".into());
        return Err(Error::Device { op: "tape", left, right });
    };
    // SAFETY: the caller's promise.
    Ok(unsafe { Tensor::from_parts(Parts { memory, state: Default::default() }, layout) })
}

impl Backward {
    /// Adds a tensor to the gradient of an operand of the sizes of `of`.
    pub(super) fn add_tensor<T: Element, const RANK: usize, D: Device>(
        &mut self,
        op: &'static str,
        view: &BlockView,
        of: &Tensor<T, RANK, D>,
        gradient: &Tensor<T, RANK, D>,
    ) -> Result<()> {
        ensure_fits(op, of.device(), of.size(), gradient)?;
        self.add_gradient(view, gradient)
    }

    /// Adds a tensor to the gradient of an operand of its sizes.
    pub(super) fn add_gradient<T: Element, const RANK: usize, D: Device>(
        &mut self,
        view: &BlockView,
        gradient: &Tensor<T, RANK, D>,
    ) -> Result<()> {
        let stride = gradient.stride();
        let address = gradient.raw_ptr().cast_mut().cast();
        let from = OperandRef { address, stride: &stride.0, element: size_of::<T>() };
        if gradient.is_empty() {
            return self.ensure_gradient(view);
        }
        self.add_values(view, &gradient.size().0, from)
    }
}
