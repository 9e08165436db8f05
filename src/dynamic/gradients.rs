//! Tensors on a tape, with types known at run time: variables, and their gradients.
//!
//! A tape is a device, so operators, views and copies need nothing here.
// Imports: `error`, `device`, `erased_memory`, `tensor`, `autograd`.

use super::tensor::DynTensor;
use super::visit::by_dtype;
use crate::autograd::{Gradients, Tape, TapeBlock};
use crate::device::{Device, same_device};
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use crate::tensor::HandleState;

impl DynTensor {
    pub(crate) fn tape_block(&self) -> Option<&TapeBlock> {
        self.memory()?.block()
    }

    pub(crate) fn is_on_tape_of(&self, other: &DynTensor) -> bool {
        self.tape_block().zip(other.tape_block()).is_some_and(|(own, other)| own.is_on_tape_of(other))
    }

    #[cold]
    fn on_no_tape(&self, op: &'static str) -> Error {
        let what = text(format_args!(
            "{} is on no tape of the expected device: `x.on_tape(&tape)?` brings it onto one, where \
             `tape = Tape::new(&device)`",
            self.kind_in_words()
        ));
        Error::Value { op, what }
    }

    fn block_of(&self, op: &'static str) -> Result<&TapeBlock> {
        self.accessible(op)?;
        self.tape_block().ok_or_else(|| self.on_no_tape(op))
    }

    fn memory_in(&self, op: &'static str) -> Result<&Memory> {
        self.accessible(op)?;
        match self.memory().filter(|_| self.has_memory()) {
            Some(memory) => Ok(memory),
            None => Err(Error::Unallocated { op, sizes: self.size().into() }),
        }
    }

    fn has_memory(&self) -> bool {
        self.is_allocated() || self.numel() == 0
    }

    /// The tensor on a tape, in the same memory; a constant until
    /// [`set_requires_grad`](DynTensor::set_requires_grad). Names and lazy views stay. See
    /// [`Tape::constant`].
    ///
    /// # Errors
    /// [`Error::Device`] if it is on another device than the inner one of the tape, [`Error::Unallocated`],
    /// [`Error::OutOfMemory`]; [`Error::Value`] for a sparse or quantized tensor.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::dispatch::Dispatcher;
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    /// dispatcher.differentiate(&Cpu)?;
    /// let tape = Tape::new(&Cpu);
    /// let x = DynTensor::from(Tensor::from([1.0, 2.0, 3.0])).on_tape(&tape)?;
    /// x.set_requires_grad(true)?;
    /// let y = dispatcher.call("mul", &[(&x).into(), (&x).into()])?;
    /// let loss = dispatcher.call("sum", &[(&y).into(), (&[0]).into()])?;
    /// assert!(loss.requires_grad());
    /// let gradients = loss.backward::<Cpu>()?;
    /// assert_eq!(gradients.of_dyn(&x)?.downcast_ref::<f64, 1, Cpu>()?.to_vec()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn on_tape<D: Device>(&self, tape: &Tape<D>) -> Result<DynTensor> {
        let memory = tape.constant_memory(self.memory_in("on_tape")?.share())?;
        // SAFETY: the same memory, as that of a tape.
        Ok(unsafe { self.in_memory(memory) })
    }

    /// The values on the inner device of its tape, without their history, in the same memory: c10's `detach`.
    /// See [`Tape::value`].
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is on no tape, [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn value(&self) -> Result<DynTensor> {
        let op = "value";
        let block = self.block_of(op)?;
        self.memory_in(op)?;
        let values = block.values().ok_or_else(|| self.on_no_tape(op))?;
        // SAFETY: the memory behind that of the tape.
        Ok(unsafe { self.in_memory(values) })
    }

    /// The result of a kernel on the inner device, as a constant of the tape of `self`.
    pub(crate) fn constant_beside(&self, result: DynTensor) -> Result<DynTensor> {
        let memory = self.block_of("on_tape")?.constant(result.memory_in("on_tape")?.share())?;
        // SAFETY: the same memory, as that of a tape.
        Ok(unsafe { result.in_memory(memory) })
    }

    /// Whether it depends on a variable of its tape, so that operators record: c10's `requires_grad`. It is
    /// false on a device that is no tape, and for a handle on a sparse or quantized tensor.
    pub fn requires_grad(&self) -> bool {
        self.tape_block().is_some_and(TapeBlock::is_active)
    }

    /// Makes it a variable of its tape, or a constant: c10's `set_requires_grad`. It concerns the memory and
    /// thus all handles on it. Recorded steps stay as they are.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is on no tape, for elements that have no gradient, and if the
    /// result of an operator on variables is to become a constant ([`value`](DynTensor::value) has no
    /// history); [`Error::Unallocated`].
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let x = DynTensor::from(Tensor::from([1.0_f32, 2.0]));
    /// let error = x.set_requires_grad(true).unwrap_err().to_string();
    /// assert!(error.contains("`x.on_tape(&tape)?`"));
    /// let x = x.on_tape(&Tape::new(&Cpu))?;
    /// x.set_requires_grad(true)?;
    /// assert!(x.requires_grad() && x.at(0, 1)?.requires_grad());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        let op = "set_requires_grad";
        let block = self.block_of(op)?;
        self.memory_in(op)?;
        block.set_variable(op, self.dtype(), requires_grad)
    }

    /// The gradients of one number with respect to the variables of its tape, which is one on `D`; see
    /// [`Tape::backward`].
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is on no tape on `D` or has axes, and as [`Tape::backward`].
    pub fn backward<D: Device>(&self) -> Result<Gradients<D>> {
        let op = "backward";
        if self.rank() > 0 {
            let what = text(format_args!(
                "{} is no single number; `vjp` takes the gradient of a tensor",
                self.kind_in_words()
            ));
            return Err(Error::Value { op, what });
        }
        let tape = self.device::<Tape<D>>().ok_or_else(|| self.on_no_tape(op))?;
        let no_gradient = || {
            let what = text(format_args!("elements {} have no gradient", self.dtype()));
            Err(Error::Value { op, what })
        };
        let one = by_dtype!(self.dtype(), T in [F16 BF16 F32 F64 C32 C64] => {
            DynTensor::from_bytes(self.dtype(), &[], bytemuck::bytes_of(&<T as num_traits::One>::one()))?
        }, else return no_gradient());
        self.vjp(&one.to(tape.inner())?)
    }

    /// The gradients of `Σ gradient · self`, a vector-Jacobian product; see [`Tape::vjp`].
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is on no tape on `D`; [`Error::Type`] for a gradient of another
    /// element type or device, [`Error::Output`] for one of other sizes; as [`Tape::vjp`].
    pub fn vjp<D: Device>(&self, gradient: &DynTensor) -> Result<Gradients<D>> {
        let op = "vjp";
        self.ensure_allocated(op)?;
        gradient.ensure_allocated(op)?;
        let own = self.device::<Tape<D>>().zip(self.strided::<Tape<D>>());
        let (tape, y) = own.ok_or_else(|| self.on_no_tape(op))?;
        let from = gradient.device::<D>().zip(gradient.strided::<D>());
        let Some((device, from)) = from.filter(|_| gradient.dtype() == self.dtype()) else {
            let expected = text(format_args!("{} on {:?}", self.dtype(), tape.inner()));
            return Err(Error::Type { op, expected, found: gradient.kind_in_words() });
        };
        same_device(op, tape.inner(), device)?;
        if y.size != from.size {
            return Err(Error::Output { op, sizes: y.size.into(), found: from.size.into() });
        }
        tape.vjp_of_operand(&y.slot, self.dtype(), y.size, from.slot)
    }
}

impl<D: Device> Gradients<D> {
    /// As [`of`](Gradients::of), for a tensor whose types are known at run time: c10's `grad`.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that is on no tape on `D`, [`Error::Type`] for a lazy view; as
    /// [`of`](Gradients::of).
    pub fn of_dyn(&self, x: &DynTensor) -> Result<DynTensor> {
        let op = "gradients";
        x.ensure_allocated(op)?;
        let own = x.device::<Tape<D>>().zip(x.tape_block());
        let (tape, block) = own.ok_or_else(|| x.on_no_tape(op))?;
        let (device, memory) = self.of_block(tape, block)?;
        let Some(memory) = memory else { return DynTensor::zeros(x.dtype(), x.size(), device) };
        // SAFETY: a gradient has as many bytes as its block, and its layout.
        let gradient = unsafe {
            DynTensor::assemble(memory, x.axes().another(), x.offset(), x.dtype(), HandleState::default())
        };
        if gradient.is_contiguous() { Ok(gradient) } else { gradient.to_contiguous() }
    }
}
