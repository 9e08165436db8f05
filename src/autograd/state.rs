//! The state of a tape: its blocks of memory, the ones that depend on a variable, and the recorded steps.
//!
//! A block of a tape has an address of its own: the block's number and an offset. The memory behind it is an
//! allocation of the inner device, which other handles can share. A write to shared memory moves the block to
//! a copy first, so the values that a step has saved never change.
// Imports: `error`, `dtype`, `device`, `erased_memory`.

pub(super) use super::backward::{BackwardFn, TapeNode};
use super::blocks::{Blocks, address_of, copy_of, number_of, offset_of};
use super::facts::Ids;
use super::inner::Inner;
use super::small_vec::SmallVec;
pub(super) use super::step::{Before, BlockView, Saved, Step, StepInput, StepOutput, has_gradient};
use crate::device::OperandRef;
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One block of a tape.
pub(super) struct TapeEntry {
    memory: Memory,
    /// Identifies the block among all blocks that the tape ever had.
    id: u64,
    /// The element type of its values, if they depend on a variable.
    active: Option<DType>,
    is_variable: bool,
    /// The recording in which it came to depend on a variable.
    recording: u64,
    /// Whether a kernel or the host has written to it.
    is_written: bool,
}

/// The result of [`TapeContents::begin`].
pub(super) struct Begun<'a> {
    /// The operands, in the address space of the inner device.
    pub(super) inputs: SmallVec<OperandRef<'a>>,
    pub(super) outputs: SmallVec<OperandRef<'a>>,
    /// The step, before its kernel runs.
    pub(super) step: Box<Step>,
    /// Whether an output depends on a variable.
    pub(super) is_recorded: bool,
    /// Keeps blocks from being moved until the kernel has run.
    pub(super) _running: Option<RwLockReadGuard<'a, ()>>,
}

impl Begun<'_> {
    /// A kernel of which nothing is known yet.
    pub(super) fn new(op: &'static str) -> Self {
        let mut step = Box::<Step>::default();
        step.op = op;
        let (inputs, outputs) = (SmallVec::default(), SmallVec::default());
        Begun { inputs, outputs, step, is_recorded: false, _running: None }
    }
}

/// The operands to which a gradient flows, with their elements, and those whose values the backward pass
/// reads.
#[derive(Default)]
pub(super) struct BackwardOperands {
    pub(super) to: SmallVec<Option<DType>>,
    /// Bit `k`: operand `k`.
    pub(super) reads: u64,
    /// Whether the backward pass reads the result.
    pub(super) reads_result: bool,
}

/// The element type of an output; mechanisms that move bytes take that of the first operand.
#[derive(Clone, Copy, Default)]
pub(super) enum OutputType {
    Is(DType),
    #[default]
    OfFirstOperand,
}

pub(super) struct TapeContents {
    blocks: Blocks<TapeEntry>,
    next_id: u64,
    pub(super) nodes: Vec<TapeNode>,
    pub(super) paused: usize,
    /// The number of recordings that are finished.
    recording: u64,
    /// The blocks whose gradients are kept although they are no variables.
    pub(super) retained: Ids,
}

impl TapeContents {
    fn new() -> Self {
        TapeContents {
            blocks: Blocks::new(),
            next_id: 1,
            nodes: Vec::new(),
            paused: 0,
            recording: 0,
            retained: Ids::default(),
        }
    }

    /// Adds a block under a reserved number, and returns its id.
    fn put(&mut self, number: usize, memory: Memory, is_written: bool) -> u64 {
        let id = self.next_id;
        let entry = TapeEntry { memory, id, active: None, is_variable: false, recording: 0, is_written };
        self.blocks.put(number, entry);
        self.next_id += 1;
        id
    }

    pub(super) fn entry(&mut self, number: usize) -> Option<&mut TapeEntry> {
        self.blocks.get(number)
    }

    fn entry_at(&mut self, address: *const u8) -> Option<&mut TapeEntry> {
        self.blocks.at(address)
    }

    /// The address of the inner device.
    pub(super) fn inner_address(&mut self, address: *const u8) -> *mut u8 {
        match self.entry_at(address) {
            Some(entry) => entry.memory.address().wrapping_add(offset_of(address)),
            None => address.cast_mut(),
        }
    }

    fn inner_slot<'a>(&mut self, slot: &OperandRef<'a>) -> OperandRef<'a> {
        OperandRef { address: self.inner_address(slot.address), ..*slot }
    }

    /// The element type of an operand that depends on a variable.
    ///
    /// # Errors
    /// [`Error::Value`] for an operand of a recording that has ended.
    pub(super) fn active(&mut self, op: &'static str, slot: &OperandRef<'_>) -> Result<Option<DType>> {
        let recording = self.recording;
        let Some(entry) = self.entry_at(slot.address) else { return Ok(None) };
        let Some(dtype) = entry.active else { return Ok(None) };
        if !entry.is_variable && entry.recording != recording {
            return Err(made_before(op));
        }
        Ok(element_of(dtype, slot.element))
    }

    pub(super) fn view(&mut self, slot: &OperandRef<'_>, dtype: DType) -> Option<BlockView> {
        let entry = self.entry_at(slot.address)?;
        let (id, nbytes) = (entry.id, entry.memory.nbytes());
        let (offset, stride) = (offset_of(slot.address), SmallVec::new(slot.stride));
        Some(BlockView { id, nbytes, offset, stride, dtype, element: slot.element })
    }

    pub(super) fn save(&mut self, slot: &OperandRef<'_>) -> Option<Saved> {
        let entry = self.entry_at(slot.address)?;
        Some(Saved {
            memory: entry.memory.share(),
            version: entry.memory.version(),
            offset: offset_of(slot.address),
            stride: SmallVec::new(slot.stride),
            element: slot.element,
        })
    }

    /// Prepares a write to an operand: moves its block to a copy if other handles share the memory. Returns
    /// whether the block was written before, and the type of its elements if they depend on a variable.
    fn before_write(&mut self, inner: &dyn Inner, slot: &OperandRef<'_>) -> Result<(bool, Option<DType>)> {
        let Some(entry) = self.entry_at(slot.address) else { return Ok((false, None)) };
        if entry.memory.handles() > 1 {
            entry.memory = copy_of(inner, &entry.memory, slot.element)?;
        }
        let element = |dtype| element_of(dtype, slot.element).unwrap_or(BYTES);
        let before = entry.active.map(element);
        Ok((std::mem::replace(&mut entry.is_written, true), before))
    }

    /// Whether a write to an operand replaces a whole block.
    fn replaces_block(entry: &TapeEntry, slot: &OperandRef<'_>, sizes: &[usize]) -> bool {
        let axes = sizes.iter().zip(slot.stride).filter(|(_, stride)| **stride != 0);
        axes.map(|(size, _)| size).product::<usize>() * slot.element == entry.memory.nbytes()
    }

    /// Whether an operand is a whole block.
    pub(super) fn is_whole_block(&mut self, slot: &OperandRef<'_>, sizes: &[usize]) -> bool {
        self.entry_at(slot.address).is_some_and(|entry| Self::replaces_block(entry, slot, sizes))
    }

    /// Whether a step that is not recorded replaces all values of a block that an earlier recording made. The
    /// block depends on no variable then.
    fn forgets(&mut self, slot: &OperandRef<'_>, sizes: &[usize]) -> bool {
        let recording = self.recording;
        let Some(entry) = self.entry_at(slot.address) else { return false };
        let is_old = !entry.is_variable && entry.recording != recording;
        let forgets = is_old && Self::replaces_block(entry, slot, sizes);
        if forgets {
            entry.active = None;
        }
        forgets
    }

    /// [`Error::Value`] if a recorded step would replace only a part of a block whose other values
    /// an earlier recording made.
    fn ensure_current(&mut self, op: &'static str, slot: &OperandRef<'_>, sizes: &[usize]) -> Result<()> {
        let recording = self.recording;
        let Some(entry) = self.entry_at(slot.address) else { return Ok(()) };
        let is_old = entry.active.is_some() && !entry.is_variable && entry.recording != recording;
        if is_old && !Self::replaces_block(entry, slot, sizes) {
            return Err(made_before(op));
        }
        Ok(())
    }

    /// Whether a step may move the block of an output: another handle shares its memory, or the step saves
    /// it.
    pub(super) fn may_move(
        &mut self,
        inputs: &[OperandRef<'_>],
        outputs: &[(OperandRef<'_>, OutputType)],
    ) -> bool {
        outputs.iter().any(|(slot, _)| {
            let number = number_of(slot.address);
            inputs.iter().any(|input| number_of(input.address) == number)
                || self.entry(number).is_some_and(|entry| entry.memory.handles() > 1)
        })
    }

    /// Looks at the operands of a kernel before it runs, and fills `begun`. `flow` receives the element types
    /// of the inputs that depend on a variable.
    ///
    /// # Errors
    /// [`Error::Value`] for an operand of a recording that has ended; [`Error::OutOfMemory`].
    pub(super) fn begin<'a>(
        &mut self,
        inner: &dyn Inner,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<BackwardOperands>,
        begun: &mut Begun<'a>,
    ) -> Result<()> {
        let Begun { step, is_recorded, .. } = begun;
        let op = step.op;
        step.recording = self.recording;
        let mut first = None;
        if self.paused == 0 {
            let mut active = SmallVec::default();
            let mut any = false;
            for slot in inputs {
                let dtype = self.active(op, slot)?;
                any |= dtype.is_some();
                active.push(dtype);
            }
            first = active.first().copied().flatten();
            let flows = |dtype: OutputType| match dtype {
                OutputType::Is(dtype) => has_gradient(dtype),
                OutputType::OfFirstOperand => first.is_some(),
            };
            if any && outputs.iter().any(|(_, dtype)| flows(*dtype)) {
                let flow = flow(&active)?;
                *is_recorded = flow.to.iter().any(Option::is_some);
                if *is_recorded {
                    step.reads_result = flow.reads_result;
                    self.reserve_step(op)?;
                    self.keep_inputs(step, inputs, &flow)?;
                }
            }
        }
        for (slot, dtype) in outputs {
            if *is_recorded {
                self.ensure_current(op, slot, sizes)?;
            }
            let (is_written, before) = self.before_write(inner, slot)?;
            let was_active = before.is_some() && (*is_recorded || !self.forgets(slot, sizes));
            let dtype = match dtype {
                OutputType::Is(dtype) => *dtype,
                // Moved values that depend on no variable have the type of those that they replace.
                OutputType::OfFirstOperand => first.or(before).unwrap_or(BYTES),
            };
            if self.paused == 0
                && (*is_recorded || was_active)
                && let Some(view) = self.view(slot, dtype)
            {
                let before = if is_written { Before::Replaced } else { Before::Nothing };
                step.outputs.push(StepOutput { view, before, was_active });
            }
            begun.outputs.push(self.inner_slot(slot));
        }
        if *is_recorded || !step.outputs.is_empty() {
            step.sizes = SmallVec::new(sizes);
        }
        inputs.iter().for_each(|slot| begun.inputs.push(self.inner_slot(slot)));
        Ok(())
    }

    /// Keeps the places and the values of inputs that the backward pass needs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn keep_inputs(
        &mut self,
        step: &mut Step,
        inputs: &[OperandRef<'_>],
        flow: &BackwardOperands,
    ) -> Result<()> {
        let no_room = |_| Error::OutOfMemory { op: step.op, nbytes: size_of_val(inputs) };
        step.inputs.try_reserve_exact(inputs.len()).map_err(no_room)?;
        for (k, slot) in inputs.iter().enumerate() {
            step.inputs.push(StepInput { view: None, saved: None, element: slot.element });
            let Some(input) = step.inputs.last_mut() else { continue };
            if let Some(dtype) = flow.to[k] {
                input.view = self.view(slot, dtype);
            }
            if flow.reads >> k & 1 == 1 {
                input.saved = self.save(slot);
            }
        }
        Ok(())
    }

    /// Makes room for a step.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn reserve_step(&mut self, op: &'static str) -> Result<()> {
        let no_room = |_| Error::OutOfMemory { op, nbytes: size_of::<TapeNode>() };
        self.nodes.try_reserve(1).map_err(no_room)
    }

    /// Records a step after its kernel has run: its outputs depend on a variable now. Returns the step if
    /// another thread has ended its recording in the meantime; the caller drops it after the lock.
    #[inline]
    #[must_use]
    pub(super) fn end(
        &mut self,
        step: Box<Step>,
        outputs: &[OperandRef<'_>],
        run: BackwardFn,
    ) -> Option<TapeNode> {
        for (output, slot) in step.outputs.iter().zip(outputs) {
            if has_gradient(output.view.dtype)
                && let Some(entry) = self.entry_at(slot.address)
            {
                (entry.active, entry.recording) = (Some(output.view.dtype), step.recording);
            }
        }
        let node = TapeNode { step, run };
        if node.step.recording != self.recording {
            return Some(node);
        }
        self.nodes.push(node);
        None
    }

    /// After a kernel of which no output depends on a variable. No gradient flows to the values that it
    /// replaced.
    pub(super) fn end_unrecorded(&mut self, mut step: Box<Step>) {
        // A step in place without a derivative replaces the values too.
        let replaced = |output: &StepOutput| StepOutput { before: Before::Replaced, ..output.clone() };
        step.outputs = step.outputs.iter().filter(|output| output.was_active).map(replaced).collect();
        if !step.outputs.is_empty() && step.recording == self.recording {
            self.nodes.push(TapeNode { step, run: Box::new(|_, _| Ok(())) });
        }
    }

    /// Whether a block depends on a variable, and whether it is one.
    #[cfg(feature = "dynamic")]
    pub(super) fn dependence(&mut self, number: usize) -> (bool, bool) {
        let recording = self.recording;
        let of = |entry: &mut TapeEntry| {
            let is_current = entry.is_variable || entry.recording == recording;
            (entry.active.is_some() && is_current, entry.is_variable)
        };
        self.entry(number).map_or((false, false), of)
    }

    /// Makes a block a constant.
    #[cfg(feature = "dynamic")]
    pub(super) fn unwatch(&mut self, number: usize) {
        if let Some(entry) = self.entry(number) {
            (entry.active, entry.is_variable) = (None, false);
        }
    }

    /// Makes a block a variable.
    pub(super) fn watch(&mut self, number: usize, dtype: DType) {
        if let Some(entry) = self.entry(number) {
            (entry.active, entry.is_variable, entry.is_written) = (Some(dtype), true, true);
        }
    }

    /// The number of the present recording.
    pub(super) fn recording(&self) -> u64 {
        self.recording
    }

    /// Ends the recording, and returns its steps and the blocks whose gradients are kept: the variables and
    /// the retained ones.
    pub(super) fn take(&mut self) -> (Vec<TapeNode>, Ids) {
        self.recording += 1;
        let mut kept = std::mem::take(&mut self.retained);
        let variables = self.blocks.iter().filter(|entry| entry.is_variable);
        kept.extend(variables.map(|entry| entry.id));
        (std::mem::take(&mut self.nodes), kept)
    }
}

impl TapeEntry {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// The type of elements of `element` bytes in a block of `dtype`: `dtype`, or a part or a pair of it.
pub(super) fn element_of(dtype: DType, element: usize) -> Option<DType> {
    match (dtype, element) {
        _ if dtype.size() == element => Some(dtype),
        (DType::C32, 4) => Some(DType::F32),
        (DType::C64, 8) => Some(DType::F64),
        (DType::F32, 8) => Some(DType::C32),
        (DType::F64, 16) => Some(DType::C64),
        _ => None,
    }
}

/// The type of elements of which only the bytes are known: they have no gradient.
const BYTES: DType = DType::U8;

/// Makes memory of the inner device memory of a tape on it.
#[cfg(feature = "dynamic")]
pub(super) type OnTape = Box<dyn Fn(&Arc<TapeState>, Memory) -> Result<Memory> + Send + Sync>;

/// The error for values of a recording that has ended.
fn made_before(op: &'static str) -> Error {
    let what = "an operand belongs to a recording that has ended, so no steps lead from it to a \
                variable; make it again, or take its value: `tape.value(&y)?`";
    Error::Value { op, what: what.into() }
}

/// The tape itself, which its clones and its blocks share.
pub(super) struct TapeState {
    pub(super) inner: Arc<dyn Inner>,
    pub(super) number: u64,
    /// Makes memory of the inner device a constant of the tape.
    #[cfg(feature = "dynamic")]
    pub(super) on_tape: OnTape,
    state: Mutex<TapeContents>,
    /// Kernels hold it for reading while they run. A block is moved while it is held for writing, when no
    /// kernel has the address of its memory.
    moves: RwLock<()>,
}

impl TapeState {
    pub(super) fn new(
        inner: Arc<dyn Inner>,
        number: u64,
        #[cfg(feature = "dynamic")] on_tape: OnTape,
    ) -> Self {
        let state = Mutex::new(TapeContents::new());
        TapeState {
            inner,
            number,
            #[cfg(feature = "dynamic")]
            on_tape,
            state,
            moves: RwLock::new(()),
        }
    }
    /// Keeps blocks from being moved.
    pub(super) fn running(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.read().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits until no kernel runs, and keeps others from starting.
    pub(super) fn moving(&self) -> RwLockWriteGuard<'_, ()> {
        self.moves.write().unwrap_or_else(PoisonError::into_inner)
    }
    pub(super) fn lock(&self) -> MutexGuard<'_, TapeContents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block of memory of a tape.
pub struct TapeBlock {
    pub(super) shared: Arc<TapeState>,
    number: usize,
    id: u64,
}

impl TapeBlock {
    pub(super) fn new(shared: &Arc<TapeState>, memory: Memory, is_written: bool) -> Result<Self> {
        // If there is no room, the memory is dropped after the lock: its deleter may use the tape.
        let mut state = shared.lock();
        let number = state.blocks.reserve("tape", memory.nbytes())?;
        let id = state.put(number, memory, is_written);
        drop(state);
        Ok(TapeBlock { shared: shared.clone(), number, id })
    }
    pub(super) fn number(&self) -> usize {
        self.number
    }
    pub(super) fn id(&self) -> u64 {
        self.id
    }
    pub(super) fn address(&self) -> *mut u8 {
        address_of(self.number)
    }
}

impl Drop for TapeBlock {
    fn drop(&mut self) {
        // The memory is dropped without the lock: its deleter may use the tape.
        let entry = self.shared.lock().blocks.remove(self.number);
        drop(entry);
    }
}

impl std::fmt::Debug for TapeBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TapeBlock").field("number", &self.number).field("id", &self.id).finish()
    }
}
