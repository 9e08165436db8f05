//! The backward pass: gradients of blocks, and the ways in which a contribution is added to one.
//!
//! A gradient belongs to a block of memory and has its layout. A view of a tensor is therefore a view of its
//! gradient: an operand with stride 0 receives a sum, and overlapping windows are added one by one.
// Imports: `error`, `dtype`, `device`, `erased_memory`.

use super::facts::{Facts, Identity, Ids};
use super::inner::Inner;
pub(super) use super::kernels::{Vjp, VjpOf};
use super::overlap::{covers_block, is_injective, without_overlap};
use super::parts::Gradient;
use super::small_vec::SmallVec;
use super::step::{Before, BlockView, Step, StepInput, StepOutput};
use super::temporary::FreeBlocks;
pub(super) use super::temporary::{Place, Temporary};
use super::vjp::Variable;
use crate::device::{Init, Inputs, MAX_OPERANDS, OperandRef, Reduction};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

/// Strides of an operand that is one element.
static ZERO_STRIDES: [isize; 64] = [0; 64];

/// The gradients of the blocks of a tape during a backward pass.
pub struct Backward {
    pub(super) inner: Arc<dyn Inner>,
    gradients: HashMap<u64, Gradient, BuildHasherDefault<Identity>>,
    zero: Memory,
    free: FreeBlocks,
    /// The blocks whose gradients are freed after the present step.
    freed: SmallVec<u64>,
    /// A gradient of such a block that becomes the gradient of an operand, after all others were added.
    passed: Option<Passed>,
}

/// The gradient of a block, all of which is to be added to an operand of the same layout.
struct Passed {
    from: u64,
    to: BlockView,
    sizes: SmallVec<usize>,
}

/// The destination of a contribution.
pub(super) enum Target<'a> {
    BlockView(&'a BlockView),
    /// A buffer of one value for each row, for an operand that is constant along the last axes.
    Rows(&'a mut Option<Temporary>, DType),
}

/// Some of the axes of a contribution: their sizes, and the strides of the gradient and of the contribution.
#[derive(Default)]
struct Strides {
    sizes: SmallVec<usize>,
    to: SmallVec<isize>,
    from: SmallVec<isize>,
}

impl Strides {
    fn push(&mut self, size: usize, to: isize, from: isize) {
        self.sizes.push(size);
        self.to.push(to);
        self.from.push(from);
    }
}

/// Writes a contribution into a strided operand of the inner device.
pub(super) type WriteTo<'a> = dyn FnMut(OperandRef<'_>) -> Result<()> + 'a;

impl Backward {
    pub(super) fn new(inner: &Arc<dyn Inner>) -> Result<Self> {
        let zero = inner.fresh(64, Init::Zeroed)?;
        Ok(Backward::with(inner.clone(), zero))
    }

    /// A pass of its own, without gradients.
    pub(super) fn part(&self) -> Self {
        Backward::with(self.inner.clone(), self.zero.share())
    }

    fn with(inner: Arc<dyn Inner>, zero: Memory) -> Self {
        let (gradients, freed) = (HashMap::default(), SmallVec::default());
        Backward { inner, gradients, zero, free: FreeBlocks::default(), freed, passed: None }
    }

    /// Memory of unspecified content: a block that the pass has used before, or a new one.
    fn fresh(&mut self, nbytes: usize) -> Result<Memory> {
        self.free.take(nbytes).map_or_else(|| self.inner.fresh(nbytes, Init::Unspecified), Ok)
    }

    /// The gradient of an operand, if any contribution has reached its block.
    pub(super) fn gradient<'s>(&self, view: &'s BlockView) -> Option<OperandRef<'s>> {
        self.gradients.get(&view.id).map(|gradient| view.slot(&gradient.memory))
    }

    /// Another handle on the gradient of a block.
    pub(super) fn memory_of(&self, id: u64) -> Option<Memory> {
        self.gradients.get(&id).map(|gradient| gradient.memory.share())
    }

    pub(super) fn into_gradients(self) -> HashMap<u64, Gradient, BuildHasherDefault<Identity>> {
        self.gradients
    }

    /// An operand of zeros of `element` bytes: a kernel may copy its elements before it reads them.
    pub(super) fn zeros(&self, axes: usize, element: usize) -> OperandRef<'static> {
        OperandRef { address: self.zero.address(), stride: &ZERO_STRIDES[..axes], element }
    }

    /// The positions of elements in row-major order, made on the device.
    pub(super) fn positions(&self, sizes: &[usize]) -> Result<Temporary> {
        let positions = Temporary::new(&*self.inner, sizes, size_of::<i64>())?;
        let to = OperandRef { stride: &[1], ..positions.slot() };
        // SAFETY: (1) as many elements as the sizes have, and a byte that is 0; (2) the output is new memory.
        unsafe { self.inner.count_up(sizes.iter().product(), to, self.zeros(1, 1))? };
        Ok(positions)
    }

    /// Makes the gradient of a block, if no contribution has reached it. The caller adds to any part of it.
    pub(super) fn ensure_gradient(&mut self, view: &BlockView) -> Result<()> {
        self.ensure_zeros(view)?.set_written();
        Ok(())
    }

    /// As [`ensure_gradient`](Backward::ensure_gradient), for a caller that claims the part it writes.
    fn ensure_zeros(&mut self, view: &BlockView) -> Result<&mut Gradient> {
        self.reserve()?;
        Ok(match self.gradients.entry(view.id) {
            Entry::Occupied(gradient) => gradient.into_mut(),
            Entry::Vacant(place) => {
                let memory = match self.free.take(view.nbytes) {
                    None => self.inner.fresh(view.nbytes, Init::Zeroed)?,
                    Some(memory) => {
                        let to =
                            OperandRef { address: memory.address(), stride: &[1], element: view.element };
                        let zeros = OperandRef { stride: &[0], address: self.zero.address(), ..to };
                        // SAFETY: (1) as many elements as the block has, and one that is 0; (2) their addresses
                        // differ; (3) the pass owns the block.
                        unsafe { self.inner.copy(&[view.nbytes / view.element], to, zeros)? };
                        memory
                    }
                };
                place.insert(Gradient::of_zeros(memory))
            }
        })
    }

    /// The gradient of a block that has none.
    pub(super) fn insert(&mut self, view: &BlockView, memory: Memory) -> Result<()> {
        self.reserve()?;
        self.gradients.insert(view.id, Gradient::new(memory));
        Ok(())
    }

    /// Makes room for one more gradient.
    fn reserve(&mut self) -> Result<()> {
        let no_room = |_| Error::OutOfMemory { op: "backward", nbytes: size_of::<(u64, Gradient)>() };
        self.gradients.try_reserve(1).map_err(no_room)
    }

    /// Runs the backward functions of the steps, the last step first. The gradient of a block is freed after
    /// the step that wrote the block first.
    pub(super) fn run(&mut self, nodes: Vec<TapeNode>, kept: &Ids) -> Result<()> {
        for TapeNode { step, run } in nodes.into_iter().rev() {
            let reached = |id: &u64| self.gradients.contains_key(id);
            if !step.outputs.iter().any(|output| reached(&output.view.id)) {
                continue;
            }
            step.check_versions()?;
            for output in step.outputs.iter().filter(|output| output.before != Before::Nothing) {
                // The step reads a gradient of this block, and its operands may be in the same block.
                if let Some(gradient) = self.gradients.get_mut(&output.view.id) {
                    gradient.set_written();
                }
            }
            let is_freed =
                |output: &&StepOutput| output.before == Before::Nothing && !kept.contains(&output.view.id);
            self.freed = step.outputs.iter().filter(is_freed).map(|output| output.view.id).collect();
            if !step.sizes.contains(&0) {
                run(self, &step)?;
                self.pass_on()?;
            }
            for id in std::mem::take(&mut self.freed).iter() {
                if let Some(gradient) = self.gradients.remove(id) {
                    self.free.keep(gradient.memory);
                }
            }
            for output in step.outputs.iter().filter(|output| output.before == Before::Replaced) {
                self.clear(&output.view, &step.sizes)?;
            }
        }
        // Those of blocks that constants wrote first.
        self.gradients.retain(|id, _| kept.contains(id));
        Ok(())
    }

    /// Sets the gradient of an operand to 0. That of a whole block is dropped: earlier steps do not run.
    pub(super) fn clear(&mut self, view: &BlockView, sizes: &[usize]) -> Result<()> {
        let sizes = &sizes[..view.stride.len()]; // the result of a reduction has the first axes
        if covers_block(view, sizes) {
            self.gradients.remove(&view.id);
            return Ok(());
        }
        let Some(slot) = self.gradient(view).filter(|_| !sizes.contains(&0)) else { return Ok(()) };
        let kept: SmallVec<usize> = (0..sizes.len()).filter(|&axis| view.stride[axis] != 0).collect();
        let stride: SmallVec<isize> = kept.iter().map(|&axis| view.stride[axis]).collect();
        let sizes: SmallVec<usize> = kept.iter().map(|&axis| sizes[axis]).collect();
        let slot = OperandRef { stride: &stride, ..slot };
        let zeros = self.zeros(sizes.len(), slot.element);
        // SAFETY: (1) the gradient has the layout of the block; (2) axes of stride 0 are left out; (3) the
        // pass owns its gradients.
        unsafe { self.inner.copy(&sizes, slot, zeros) }
    }

    /// Memory for one contribution to the gradient of an operand: the gradient itself if this is the first
    /// one to any of its elements.
    pub(super) fn place(&mut self, view: &BlockView, sizes: &[usize]) -> Result<Place> {
        if !self.gradients.contains_key(&view.id) && covers_block(view, sizes) {
            return Ok(Place::Gradient(self.fresh(view.nbytes)?));
        }
        if (0..sizes.len()).all(|axis| sizes[axis] == 1 || view.stride[axis] != 0) {
            let gradient = self.ensure_zeros(view)?;
            if gradient.claim(view, sizes)? {
                return Ok(Place::Part(gradient.memory.share()));
            }
        }
        Ok(Place::Temporary(Temporary::on(sizes, view.element, |nbytes| self.fresh(nbytes))?))
    }

    /// Adds a contribution, which its place holds, to the gradient of an operand.
    pub(super) fn accept(&mut self, view: &BlockView, sizes: &[usize], place: Place) -> Result<()> {
        match place {
            Place::Gradient(memory) if !self.gradients.contains_key(&view.id) => self.insert(view, memory),
            Place::Part(_) => Ok(()),
            place => {
                self.add_values(view, sizes, place.slot(view))?;
                self.free.keep(place.into_memory());
                Ok(())
            }
        }
    }

    /// Adds what `write` writes to the gradient of an operand.
    pub(super) fn add(&mut self, view: &BlockView, sizes: &[usize], write: &mut WriteTo<'_>) -> Result<()> {
        if let Some(buffer) = self.add_and_keep(view, sizes, write)? {
            self.free.keep(buffer.into_memory());
        }
        Ok(())
    }

    /// As [`add`](Backward::add). Returns the memory in which it was written, if that is not the gradient
    /// itself.
    fn add_and_keep(
        &mut self,
        view: &BlockView,
        sizes: &[usize],
        write: &mut WriteTo<'_>,
    ) -> Result<Option<Temporary>> {
        let place = self.place(view, sizes)?;
        write(place.slot(view))?;
        match place {
            Place::Temporary(buffer) => {
                self.add_values(view, sizes, buffer.slot())?;
                Ok(Some(buffer))
            }
            place => self.accept(view, sizes, place).map(|()| None),
        }
    }

    /// Adds values to the gradient of an operand: their sum over the axes along which it has stride 0.
    pub(super) fn add_values(
        &mut self,
        view: &BlockView,
        sizes: &[usize],
        from: OperandRef<'_>,
    ) -> Result<()> {
        if self.will_pass(view, sizes, from) {
            return Ok(());
        }
        let (mut kept, mut summed) = (Strides::default(), Strides::default());
        for (axis, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            let axes = if view.stride[axis] == 0 { &mut summed } else { &mut kept };
            axes.push(size, view.stride[axis], from.stride[axis]);
        }
        let here = BlockView { stride: kept.to, ..*view };
        if summed.sizes.is_empty() {
            return self.add_elements(&here, &kept.sizes, OperandRef { stride: &kept.from, ..from });
        }
        let steps = SmallVec::concat(&[&kept.from, &summed.from]);
        let from = OperandRef { stride: &steps, ..from };
        let inner = self.inner.clone();
        self.add(&here, &kept.sizes, &mut |to| {
            let axes = Reduction { kept: &kept.sizes, reduced: &summed.sizes };
            // SAFETY: (1) values of the element, with strides for both groups of axes; (2) memory of a place.
            unsafe { inner.sum(view.dtype, axes, to, from) }
        })
    }

    /// Adds one value to each element of an operand that has no axis of stride 0.
    fn add_elements(&mut self, view: &BlockView, sizes: &[usize], from: OperandRef<'_>) -> Result<()> {
        if !self.gradients.contains_key(&view.id) && covers_block(view, sizes) {
            let inner = self.inner.clone();
            // SAFETY: (1) values of these sizes; (2) `add` passes new memory; (3) the pass owns both.
            return self.add(view, sizes, &mut |to| unsafe { inner.copy(sizes, to, from) });
        }
        let is_first = self.ensure_zeros(view)?.claim(view, sizes)?;
        let Some(base) = self.gradient(view) else { return Ok(()) };
        if is_first {
            // SAFETY: (1) values of these sizes; (2) the operand addresses each element once; (3) the pass owns
            // its gradients.
            return unsafe { self.inner.copy(sizes, base, from) };
        }
        if is_injective(&view.stride, sizes, (0..sizes.len()).collect()) {
            // SAFETY: (1) the gradient has the layout of the block; (2) its elements do not overlap; (3) the
            // sum is in place; (4) the pass owns its gradients.
            return unsafe { self.inner.add(view.dtype, sizes, base, from) };
        }
        self.add_overlapping(view, sizes, base, from)
    }

    /// As `add_elements`, for an operand of which several indices address one element.
    fn add_overlapping(
        &self,
        view: &BlockView,
        sizes: &[usize],
        base: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let (free, looped) = without_overlap(&view.stride, sizes);
        let of = |stride: &[isize]| free.iter().map(|&axis| stride[axis]).collect::<SmallVec<_>>();
        let free_sizes: SmallVec<usize> = free.iter().map(|&axis| sizes[axis]).collect();
        let (to_stride, from_stride) = (of(&view.stride), of(from.stride));
        let count: usize = looped.iter().map(|&axis| sizes[axis]).product();
        for position in 0..count {
            let (mut rest, mut to_step, mut from_step) = (position, 0isize, 0isize);
            for &axis in looped.iter() {
                let index = (rest % sizes[axis]) as isize;
                rest /= sizes[axis];
                to_step += index * view.stride[axis];
                from_step += index * from.stride[axis];
            }
            let at = |slot: OperandRef<'_>, step: isize| {
                slot.address.wrapping_offset(step * base.element as isize)
            };
            let to = OperandRef { address: at(base, to_step), stride: &to_stride, element: base.element };
            let from =
                OperandRef { address: at(from, from_step), stride: &from_stride, element: base.element };
            // SAFETY: (1) the gradient has the layout of the block; (2) the axes of one call do not overlap;
            // (3) the sum is in place; (4) the pass owns its gradients.
            unsafe { self.inner.add(view.dtype, &free_sizes, to, from)? };
        }
        Ok(())
    }

    /// Whether values are the gradient of a block, which is freed after the step and can become that of an
    /// operand of the same layout. This happens after the step: until then the values stay.
    fn will_pass(&mut self, view: &BlockView, sizes: &[usize], from: OperandRef<'_>) -> bool {
        if self.passed.is_some() {
            return false;
        }
        let is_all = |id: &u64| {
            self.gradients.get(id).is_some_and(|Gradient { memory, .. }| {
                memory.nbytes() == view.nbytes && memory.address().wrapping_add(view.offset) == from.address
            })
        };
        let Some(&id) = self.freed.iter().find(|id| is_all(id)) else { return false };
        let has_same_layout = (0..sizes.len())
            .all(|axis| sizes[axis] == 1 || view.stride[axis] == from.stride[axis])
            && view.element == from.element
            && covers_block(view, sizes);
        if has_same_layout {
            self.passed = Some(Passed { from: id, to: view.clone(), sizes: SmallVec::new(sizes) });
        }
        has_same_layout
    }

    /// Makes the gradient of a block that of an operand, or adds it to the gradient that the operand has.
    fn pass_on(&mut self) -> Result<()> {
        let Some(Passed { from, to, sizes }) = self.passed.take() else { return Ok(()) };
        let Some(Gradient { memory, .. }) = self.gradients.remove(&from) else { return Ok(()) };
        // The backward function of a custom operator may have kept a handle.
        if !self.gradients.contains_key(&to.id) && memory.handles() == 1 {
            return self.insert(&to, memory);
        }
        self.add_elements(&to, &sizes, to.slot(&memory))?;
        self.free.keep(memory);
        Ok(())
    }

    /// Gives what `write` writes to a target; the last `row` axes are those of a row.
    pub(super) fn give(
        &mut self,
        target: Target<'_>,
        sizes: &[usize],
        row: usize,
        write: &mut WriteTo<'_>,
    ) -> Result<()> {
        match target {
            Target::BlockView(view) => self.add(view, sizes, write),
            Target::Rows(place, dtype) => {
                let all = Temporary::new(&*self.inner, sizes, dtype.size())?;
                write(all.slot())?;
                let (kept, reduced) = sizes.split_at(sizes.len() - row);
                let sums = Temporary::new(&*self.inner, kept, dtype.size())?;
                let axes = Reduction { kept, reduced };
                // SAFETY: (1) values of the element; (2) new memory of the sizes that are kept.
                unsafe { self.inner.sum(dtype, axes, sums.slot(), all.slot())? };
                *place = Some(sums);
                Ok(())
            }
        }
    }

    /// Adds the gradient of a program by one variable, the loads of a mask, which are one operand. `slots`
    /// are the operands of all loads, then the gradients of all outputs.
    pub(super) fn vjp(
        &mut self,
        program: &dyn Vjp,
        facts: &Facts,
        mask: u64,
        (sizes, row): (&[usize], usize),
        slots: &[OperandRef<'_>],
        target: Target<'_>,
    ) -> Result<()> {
        let first = mask & mask.wrapping_neg();
        if mask != first
            && !program.has_mask()
            && let Target::BlockView(view) = target
        {
            // One operand that is read twice: one kernel for each load.
            self.vjp(program, facts, first, (sizes, row), slots, Target::BlockView(view))?;
            return self.vjp(program, facts, mask & !first, (sizes, row), slots, target);
        }
        let k = mask.trailing_zeros() as usize;
        if let (true, Target::BlockView(view)) = (mask == first, &target)
            && facts.is_identity(k, view.dtype)
        {
            return self.add_values(view, sizes, slots[facts.loads.len()]);
        }
        let (distinct, reads) = distinct(&self.with_read(facts, mask, sizes.len(), slots.iter()))?;
        let inputs = Inputs { slots: &distinct, reads: &reads };
        if let Target::BlockView(view) = &target {
            let variable = Variable { mask, is_imaginary: false };
            let run = |sizes: &[usize], to: OperandRef<'_>, inputs: Inputs<'_>| {
                program.run(k, variable, sizes, to, inputs)
            };
            if self.add_by_blocks(view, sizes, inputs, &run)? {
                return Ok(());
            }
        }
        self.each_direction(facts.loads[k], sizes, row, target, &mut |is_imaginary, to| {
            program.run(k, Variable { mask, is_imaginary }, sizes, to, inputs)
        })
    }

    /// Adds the gradient of a program by one load to several operands: its derivatives by their loads are
    /// equal, and not 1. `slots` as above.
    pub(super) fn vjp_of_several(
        &mut self,
        program: &dyn Vjp,
        facts: &Facts,
        k: usize,
        sizes: &[usize],
        slots: &[OperandRef<'_>],
        views: &[&BlockView],
    ) -> Result<()> {
        let mask = 1 << k;
        let (distinct, reads) = distinct(&self.with_read(facts, mask, sizes.len(), slots.iter()))?;
        let inputs = Inputs { slots: &distinct, reads: &reads };
        // The gradient of an operand that is all of its block is computed where it stays.
        let stays = |view: &&&BlockView| !self.gradients.contains_key(&view.id) && covers_block(view, sizes);
        let Some(whole) = views.iter().find(stays).or(views.first()).copied() else { return Ok(()) };
        let buffer = self.add_and_keep(whole, sizes, &mut |to| {
            program.run(k, Variable { mask, is_imaginary: false }, sizes, to, inputs)
        })?;
        for view in views.iter().filter(|view| !std::ptr::eq(**view, whole)) {
            match buffer.as_ref().map(Temporary::slot).or(self.gradient(whole)) {
                Some(from) => self.add_values(view, sizes, from)?,
                None => return Ok(()),
            }
        }
        if let Some(buffer) = buffer {
            self.free.keep(buffer.into_memory());
        }
        Ok(())
    }

    /// Operands of a kernel that differentiates by the loads of a mask. Those that its derivatives do not
    /// read are replaced by another operand, so that the kernel has fewer, or by zeros.
    pub(super) fn with_read<'s>(
        &self,
        facts: &Facts,
        mask: u64,
        axes: usize,
        slots: impl Iterator<Item = &'s OperandRef<'s>> + Clone,
    ) -> SmallVec<OperandRef<'s>> {
        let reads = facts.reads(mask);
        let is_read = |k: usize| k >= facts.loads.len() || reads >> k & 1 == 1;
        // All bytes are numbers, but not all are a `bool`.
        let in_place_of = |dtype: DType| {
            let mut read = slots.clone().enumerate().filter(|(k, _)| is_read(*k)).map(|(_, slot)| *slot);
            let other = read.find(|slot| slot.element == dtype.size() && dtype.size() > 1);
            other.unwrap_or(self.zeros(axes, dtype.size()))
        };
        let slot = |(k, slot): (usize, &'s OperandRef<'s>)| match is_read(k) {
            true => *slot,
            false => in_place_of(facts.loads[k]),
        };
        slots.clone().enumerate().map(slot).collect()
    }

    /// Gives what `write` writes to a target, for complex elements once along 1 and once along the imaginary
    /// unit.
    pub(super) fn each_direction(
        &mut self,
        dtype: DType,
        sizes: &[usize],
        row: usize,
        target: Target<'_>,
        write: &mut dyn FnMut(bool, OperandRef<'_>) -> Result<()>,
    ) -> Result<()> {
        if !dtype.is_complex() {
            return self.give(target, sizes, row, &mut |to| write(false, to));
        }
        match target {
            Target::BlockView(view) => [false, true].into_iter().try_for_each(|is_imaginary| {
                self.give(Target::BlockView(view), sizes, row, &mut |to| write(is_imaginary, to))
            }),
            Target::Rows(_, dtype) => {
                let what =
                    text(format_args!("{dtype} numbers that are reduced along a row have no gradient"));
                Err(Error::Value { op: "backward", what })
            }
        }
    }
}

/// The backward pass of one step.
pub(super) type BackwardFn = Box<dyn FnOnce(&mut Backward, &Step) -> Result<()> + Send>;

/// A step with its backward function.
pub(super) struct TapeNode {
    pub(super) step: Box<Step>,
    pub(super) run: BackwardFn,
}

/// The error for a reducer that states no slope.
pub(super) fn no_slope(name: &'static str) -> Error {
    let what = text(format_args!("`{name}` has no derivative: its reducer states no `slope`"));
    Error::Value { op: name, what }
}

/// The saved operands of a step; zeros where nothing was saved.
pub(super) fn saved_slots<'s>(b: &Backward, step: &'s Step) -> SmallVec<OperandRef<'s>> {
    let slot = |input: &'s StepInput| match &input.saved {
        Some(saved) => saved.slot(),
        None => b.zeros(step.sizes.len(), input.element),
    };
    step.inputs.iter().map(slot).collect()
}

/// The operands that receive a gradient through some of the loads, each with the mask of these loads.
pub(super) fn variables(
    reads: &[u8],
    loads: Range<usize>,
    step: &Step,
    facts: &Facts,
) -> SmallVec<(usize, u64)> {
    let mask_of = |operand: usize| {
        let is_read = |k: &usize| reads[loads.start + k] as usize == operand && facts.slopes[*k].is_some();
        (0..loads.len()).filter(is_read).fold(0, |mask, k| mask | 1u64 << k)
    };
    let operands = step.inputs.iter().enumerate().filter(|(_, input)| input.view.is_some());
    operands.map(|(operand, _)| (operand, mask_of(operand))).filter(|(_, mask)| *mask != 0).collect()
}

/// Each different operand once, and the operand of each load.
pub(super) fn distinct<'a>(slots: &[OperandRef<'a>]) -> Result<(SmallVec<OperandRef<'a>>, SmallVec<u8>)> {
    let (mut distinct, mut reads) = (SmallVec::<OperandRef<'a>>::default(), SmallVec::default());
    for slot in slots {
        let is_same = |known: &OperandRef<'_>| {
            known.address == slot.address && known.stride == slot.stride && known.element == slot.element
        };
        let at = distinct.iter().position(is_same);
        reads.push(at.unwrap_or(distinct.len()) as u8);
        if at.is_none() {
            distinct.push(*slot);
        }
    }
    // A kernel counts each load, and one output.
    if slots.len() >= MAX_OPERANDS {
        return Err(Error::Operands { op: "backward", limit: MAX_OPERANDS - 1 });
    }
    Ok((distinct, reads))
}
