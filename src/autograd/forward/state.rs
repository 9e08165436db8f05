//! The blocks of a forward-mode device, each with its values and perhaps a tangent, and the operands of a
//! kernel on the inner device. Nothing here depends on the inner device's type.
// Imports: `error`, `dtype`, `device`, `erased_memory`, `autograd`.

use crate::autograd::backward::Backward;
use crate::autograd::blocks::{Blocks, address_of, copy_of, offset_of};
use crate::autograd::inner::Inner;
use crate::autograd::overlap::covers;
use crate::autograd::state::{OutputType, element_of, has_gradient};
use crate::device::{Init, OperandRef};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::Result;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The derivative of the values of a block, in memory of the same size.
pub(super) struct Tangent {
    pub(super) memory: Memory,
    pub(super) dtype: DType,
}

pub(super) struct JvpEntry {
    pub(super) value: Memory,
    pub(super) tangent: Option<Tangent>,
}

impl JvpEntry {
    /// The address of the values on the inner device.
    fn value_at(&self, address: *const u8) -> *mut u8 {
        self.value.address().wrapping_add(offset_of(address))
    }
    /// The tangent of an operand on the inner device.
    fn tangent_of<'a>(&self, slot: &OperandRef<'a>) -> Option<OperandRef<'a>> {
        let memory = &self.tangent.as_ref()?.memory;
        Some(OperandRef { address: memory.address().wrapping_add(offset_of(slot.address)), ..*slot })
    }
}

/// How a kernel writes its outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteKind {
    /// Every element of the operand is replaced.
    Replaced,
    /// The operand is read and updated in place.
    Updated,
    /// Elements that an index selects are written.
    Indexed,
}

/// The operands of a kernel, on the inner device.
pub(super) struct TangentOperands<'a> {
    pub(super) inputs: Vec<OperandRef<'a>>,
    /// The tangents of the inputs that have one.
    pub(super) tangents: Vec<Option<OperandRef<'a>>>,
    pub(super) outputs: Vec<OperandRef<'a>>,
    /// The tangents of the outputs, if the kernel writes them.
    pub(super) output_tangents: Vec<Option<OperandRef<'a>>>,
    /// Whether the outputs depend on a tangent.
    pub(super) flows: bool,
    /// Keeps blocks from being moved until the kernel has run.
    pub(super) _running: RwLockReadGuard<'a, ()>,
}

/// The device itself, which its clones and its blocks share.
pub(super) struct JvpState {
    pub(super) inner: Arc<dyn Inner>,
    pub(super) number: u64,
    blocks: Mutex<Blocks<JvpEntry>>,
    /// A backward pass without gradients: it has zeros, and computes what the slopes of reducers read.
    pass: OnceLock<Backward>,
    /// Kernels hold it for reading while they run. A block is moved while it is held for writing, when no
    /// kernel has the address of its memory.
    moves: RwLock<()>,
}

impl JvpState {
    pub(super) fn new(inner: Arc<dyn Inner>, number: u64) -> Self {
        let (blocks, moves) = (Mutex::new(Blocks::new()), RwLock::new(()));
        JvpState { inner, number, blocks, pass: OnceLock::new(), moves }
    }

    /// Keeps blocks from being moved.
    pub(super) fn running(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Blocks<JvpEntry>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pass(&self) -> Result<&Backward> {
        match self.pass.get() {
            Some(pass) => Ok(pass),
            None => {
                let pass = Backward::new(&self.inner)?;
                Ok(self.pass.get_or_init(|| pass))
            }
        }
    }

    /// The address on the inner device.
    pub(super) fn inner_address(&self, address: *const u8) -> *mut u8 {
        match self.lock().at(address) {
            Some(entry) => entry.value_at(address),
            None => address.cast_mut(),
        }
    }

    /// Prepares bytes that are written without a kernel. They have no tangent.
    ///
    /// # Errors
    /// As [`prepare`](JvpState::prepare).
    pub(super) fn prepare_write(&self, to: *mut u8, nbytes: usize) -> Result<TangentOperands<'_>> {
        let slot = OperandRef { address: to, stride: &[1], element: 1 };
        let outputs = [(slot, OutputType::Is(DType::U8))];
        self.prepare(&[nbytes], &[], &outputs, WriteKind::Replaced, &mut |_| Ok(false))
    }

    /// Looks at the operands of a kernel before it runs, and prepares the outputs. `flows` receives the
    /// element types of the inputs that have a tangent, and says whether the outputs depend on one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); errors of `flows` and of the inner device.
    pub(super) fn prepare<'a>(
        &'a self,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        write: WriteKind,
        flows: &mut dyn FnMut(&[Option<DType>]) -> Result<bool>,
    ) -> Result<TangentOperands<'a>> {
        // Memory that a write moves away from is dropped after the lock: its deleter may use the device.
        let mut dropped = Vec::new();
        let mut running = self.running();
        let mut blocks = self.lock();
        let is_shared = |entry: &JvpEntry| {
            let tangent = entry.tangent.as_ref();
            entry.value.handles() > 1 || tangent.is_some_and(|tangent| tangent.memory.handles() > 1)
        };
        if outputs.iter().any(|(slot, _)| blocks.at(slot.address).is_some_and(|entry| is_shared(entry))) {
            drop(blocks);
            drop(running);
            running = RwLockWriteGuard::downgrade(self.moves.write().unwrap_or_else(PoisonError::into_inner));
            blocks = self.lock();
        }
        let mut active = Vec::with_capacity(inputs.len());
        for slot in inputs {
            let tangent = blocks.at(slot.address).and_then(|entry| entry.tangent.as_ref());
            active.push(tangent.and_then(|tangent| element_of(tangent.dtype, slot.element)));
        }
        let first = active.first().copied().flatten();
        let dtypes = outputs.iter().map(|(_, dtype)| match dtype {
            OutputType::Is(dtype) => Some(*dtype).filter(|dtype| has_gradient(*dtype)),
            OutputType::OfFirstOperand => first,
        });
        let dtypes: Vec<Option<DType>> = dtypes.collect();
        let flows =
            active.iter().any(Option::is_some) && dtypes.iter().any(Option::is_some) && flows(&active)?;
        for ((slot, _), dtype) in outputs.iter().zip(&dtypes) {
            if let Some(entry) = blocks.at(slot.address) {
                self.before_write(entry, slot, sizes, (write, dtype.filter(|_| flows)), &mut dropped)?;
            }
        }
        let mut inner = |slot: &OperandRef<'a>| match blocks.at(slot.address) {
            Some(entry) => {
                (OperandRef { address: entry.value_at(slot.address), ..*slot }, entry.tangent_of(slot))
            }
            None => (*slot, None),
        };
        let (inputs, mut tangents): (Vec<_>, Vec<_>) = inputs.iter().map(&mut inner).unzip();
        let (outputs, mut output_tangents): (Vec<_>, Vec<_>) =
            outputs.iter().map(|(slot, _)| inner(slot)).unzip();
        // An input gets a tangent here only as a part of a block that the kernel writes: it is 0.
        let only = |slots: &mut [Option<OperandRef<'a>>], dtypes: &[Option<DType>]| {
            for (slot, dtype) in slots.iter_mut().zip(dtypes) {
                *slot = slot.filter(|_| flows && dtype.is_some());
            }
        };
        only(&mut tangents, &active);
        only(&mut output_tangents, &dtypes);
        Ok(TangentOperands { inputs, tangents, outputs, output_tangents, flows, _running: running })
    }

    /// Prepares a write to an operand of a block: moves the block to a copy if other handles share its
    /// memory, and makes a tangent of elements `dtype`, or clears that of the operand. Other handles on the
    /// memory go to `dropped`.
    fn before_write(
        &self,
        entry: &mut JvpEntry,
        slot: &OperandRef<'_>,
        sizes: &[usize],
        (write, dtype): (WriteKind, Option<DType>),
        dropped: &mut Vec<Memory>,
    ) -> Result<()> {
        let nbytes = entry.value.nbytes();
        let is_replaced = write == WriteKind::Replaced && covers(slot.stride, sizes, slot.element, nbytes);
        let unshared = |memory: &Memory| match is_replaced {
            true => self.inner.fresh(nbytes, Init::Unspecified),
            false => copy_of(&*self.inner, memory, slot.element),
        };
        if entry.value.handles() > 1 {
            let own = unshared(&entry.value)?;
            dropped.push(std::mem::replace(&mut entry.value, own));
        }
        match (&mut entry.tangent, dtype) {
            (None, None) => {}
            (Some(_), None) if write == WriteKind::Indexed => {}
            (Some(_), None) if is_replaced => {
                dropped.extend(entry.tangent.take().map(|tangent| tangent.memory));
            }
            (None, Some(dtype)) => {
                let init = if is_replaced { Init::Unspecified } else { Init::Zeroed };
                entry.tangent = Some(Tangent { memory: self.inner.fresh(nbytes, init)?, dtype });
            }
            (Some(tangent), dtype) => {
                if tangent.memory.handles() > 1 {
                    let own = unshared(&tangent.memory)?;
                    dropped.push(std::mem::replace(&mut tangent.memory, own));
                }
                if dtype.is_none() {
                    let address = tangent.memory.address().wrapping_add(offset_of(slot.address));
                    // SAFETY: (1) the tangent has the layout of the operand; (2) the caller of the kernel has
                    // the only access to an operand that it writes.
                    unsafe { self.clear(sizes, OperandRef { address, ..*slot })? };
                }
            }
        }
        Ok(())
    }

    /// Sets a tangent to 0.
    ///
    /// # Safety
    /// 1. The operand reaches only positions inside its memory.
    /// 2. No other code uses this memory.
    pub(super) unsafe fn clear(&self, sizes: &[usize], to: OperandRef<'_>) -> Result<()> {
        if sizes.contains(&0) {
            return Ok(());
        }
        let kept = || (0..sizes.len()).filter(|&axis| to.stride[axis] != 0);
        let stride: Vec<isize> = kept().map(|axis| to.stride[axis]).collect();
        let sizes: Vec<usize> = kept().map(|axis| sizes[axis]).collect();
        let zeros = self.pass()?.zeros(sizes.len(), to.element);
        // SAFETY: (1) the caller's promise, and zeros are one element; (2) axes of stride 0 are left out, and
        // zeros are memory of their own; (3) the caller's promise.
        unsafe { self.inner.copy(&sizes, OperandRef { stride: &stride, ..to }, zeros) }
    }
}

/// A block of memory of a forward-mode device.
pub struct JvpBlock {
    shared: Arc<JvpState>,
    number: usize,
}

impl JvpBlock {
    pub(super) fn new(shared: &Arc<JvpState>, value: Memory, tangent: Option<Tangent>) -> Result<Self> {
        // Where there is no room, the memory is dropped after the lock: its deleter may use the device.
        let mut blocks = shared.lock();
        let number = blocks.reserve("jvp", value.nbytes())?;
        blocks.put(number, JvpEntry { value, tangent });
        drop(blocks);
        Ok(JvpBlock { shared: shared.clone(), number })
    }
    pub(super) fn number(&self) -> usize {
        self.number
    }
    pub(super) fn address(&self) -> *mut u8 {
        address_of(self.number)
    }
}

impl Drop for JvpBlock {
    fn drop(&mut self) {
        // The memory is dropped without the lock: its deleter may use the device.
        let entry = self.shared.lock().remove(self.number);
        drop(entry);
    }
}

impl std::fmt::Debug for JvpBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JvpBlock").field("number", &self.number).finish()
    }
}
