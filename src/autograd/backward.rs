//! The backward pass: gradients of blocks, and the ways in which a contribution is added to one.
//!
//! A gradient belongs to a block of memory and has its layout. A view of a tensor is therefore a view of its
//! gradient: an operand with stride 0 receives a sum, and overlapping windows are added one by one.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `allocation`, `ops`, `autograd`.

use super::facts::Facts;
use super::state::{Before, Memory, Node, Spot, has_gradient};
use super::vjp::{MASKED, Variable, VjpMap};
use crate::allocation::Allocation;
use crate::device::{Device, Init, Inputs, MAX_OPERANDS, OperandRef, Reduction};
use crate::dtype::DType;
use crate::error::{Error, Result, text};
use crate::kernel::{Call, InPlace, Input, Param, Program, Store};
use crate::ops::{Add, Sum};
use std::collections::HashMap;
use std::marker::PhantomData;

/// Runs code for the element type of a gradient.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $run:expr) => {
        match $dtype {
            crate::dtype::DType::F32 => {
                type $T = f32;
                $run
            }
            crate::dtype::DType::F64 => {
                type $T = f64;
                $run
            }
            crate::dtype::DType::F16 => {
                type $T = crate::element::f16;
                $run
            }
            crate::dtype::DType::BF16 => {
                type $T = crate::element::bf16;
                $run
            }
            crate::dtype::DType::C32 => {
                type $T = num_complex::Complex<f32>;
                $run
            }
            crate::dtype::DType::C64 => {
                type $T = num_complex::Complex<f64>;
                $run
            }
            dtype => Err(crate::autograd::backward::no_gradient(dtype)),
        }
    };
}
pub(super) use with_element;

/// The error for elements that have no gradients.
pub(super) fn no_gradient(dtype: DType) -> Error {
    Error::Value { op: "backward", what: text(format_args!("elements {dtype} have no gradient")) }
}

/// Strides of an operand that is one element.
static ZERO_STRIDES: [isize; 64] = [0; 64];

/// Row-major memory of the backward pass.
pub(super) struct Buffer<D: Device> {
    memory: Memory<D>,
    stride: Vec<isize>,
    element: usize,
}

impl<D: Device> Buffer<D> {
    pub(super) fn new(device: &D, sizes: &[usize], element: usize) -> Result<Self> {
        Buffer::with_content(device, sizes, element, Init::Unspecified)
    }
    pub(super) fn with_content(device: &D, sizes: &[usize], element: usize, init: Init) -> Result<Self> {
        let mut stride = vec![0; sizes.len()];
        let mut step = 1usize;
        for axis in (0..sizes.len()).rev() {
            stride[axis] = step as isize;
            step = step.saturating_mul(sizes[axis]);
        }
        let memory = Allocation::fresh(device, step.saturating_mul(element), init)?;
        Ok(Buffer { memory, stride, element })
    }
    pub(super) fn slot(&self) -> OperandRef<'_> {
        OperandRef { address: self.memory.ptr(), stride: &self.stride, element: self.element }
    }
    /// The buffer with more axes at the end, along which it is broadcast.
    pub(super) fn broadcast(mut self, axes: usize) -> Self {
        self.stride.extend(std::iter::repeat_n(0, axes));
        self
    }
}

/// The gradients of the blocks of a tape during a backward pass.
pub struct Backward<D: Device> {
    pub(super) inner: D,
    gradients: HashMap<u64, Memory<D>>,
    zero: Memory<D>,
}

/// The destination of a contribution.
pub(super) enum Target<'a, D: Device> {
    Spot(&'a Spot),
    /// A buffer of one value for each row, for an operand that is constant along the last axes.
    Rows(&'a mut Option<Buffer<D>>, DType),
}

/// Writes a contribution into a strided operand of the inner device.
pub(super) type Write<'a, D> = dyn FnMut(&D, OperandRef<'_>) -> Result<()> + 'a;

impl<D: Device> Backward<D> {
    pub(super) fn new(inner: &D) -> Result<Self> {
        let zero = Allocation::fresh(inner, 64, Init::Zeroed)?;
        Ok(Backward { inner: inner.clone(), gradients: HashMap::new(), zero })
    }

    /// The gradient of an operand, if any contribution has reached its block.
    pub(super) fn gradient<'s>(&self, spot: &'s Spot) -> Option<OperandRef<'s>> {
        let memory = self.gradients.get(&spot.id)?;
        let address = memory.ptr().wrapping_add(spot.offset);
        Some(OperandRef { address, stride: &spot.stride, element: spot.dtype.size() })
    }

    /// Another handle on the gradient of a block.
    pub(super) fn memory_of(&self, id: u64) -> Option<Memory<D>> {
        self.gradients.get(&id).map(Memory::<D>::share)
    }

    pub(super) fn into_gradients(self) -> HashMap<u64, Memory<D>> {
        self.gradients
    }

    /// An operand of zeros, for loads whose values no result depends on.
    pub(super) fn zeros(&self, axes: usize) -> OperandRef<'static> {
        OperandRef { address: self.zero.ptr(), stride: &ZERO_STRIDES[..axes], element: 1 }
    }

    /// Makes the gradient of a block, if no contribution has reached it.
    pub(super) fn ensure_gradient(&mut self, spot: &Spot) -> Result<()> {
        if !self.gradients.contains_key(&spot.id) {
            let memory = Allocation::fresh(&self.inner, spot.nbytes, Init::Zeroed)?;
            self.gradients.insert(spot.id, memory);
        }
        Ok(())
    }

    /// Runs the rules of the steps, the last step first. The gradient of a block is freed after the step that
    /// wrote the block first.
    pub(super) fn run(&mut self, nodes: Vec<Node<D>>, retained: &[u64]) -> Result<()> {
        for Node { step, rule } in nodes.into_iter().rev() {
            let reached = |id: &u64| self.gradients.contains_key(id);
            if !step.outputs.iter().any(|output| reached(&output.spot.id)) {
                continue;
            }
            step.check_versions()?;
            if !step.sizes.contains(&0) {
                rule(self, &step)?;
            }
            for output in &step.outputs {
                match output.before {
                    Before::Nothing if !retained.contains(&output.spot.id) => {
                        self.gradients.remove(&output.spot.id);
                    }
                    Before::Replaced => self.clear(&output.spot, &step.sizes)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Sets the gradient of an operand to 0.
    pub(super) fn clear(&mut self, spot: &Spot, sizes: &[usize]) -> Result<()> {
        let Some(slot) = self.gradient(spot) else { return Ok(()) };
        if sizes.contains(&0) || !has_gradient(spot.dtype) {
            return Ok(());
        }
        // SAFETY: (1) the gradient has the layout of the block; (2) the pass owns its gradients.
        unsafe { fill_with_zeros(&self.inner, spot.dtype, sizes, slot) }
    }

    /// Adds what `write` writes to the gradient of an operand.
    pub(super) fn add(&mut self, spot: &Spot, sizes: &[usize], write: &mut Write<'_, D>) -> Result<()> {
        if !self.gradients.contains_key(&spot.id) && covers_block(spot, sizes) {
            let memory = Allocation::fresh(&self.inner, spot.nbytes, Init::Unspecified)?;
            let address = memory.ptr().wrapping_add(spot.offset);
            let to = OperandRef { address, stride: &spot.stride, element: spot.dtype.size() };
            write(&self.inner, to)?;
            self.gradients.insert(spot.id, memory);
            return Ok(());
        }
        let buffer = Buffer::<D>::new(&self.inner, sizes, spot.dtype.size())?;
        write(&self.inner, buffer.slot())?;
        self.add_values(spot, sizes, buffer.slot())
    }

    /// Adds values to the gradient of an operand: their sum over the axes along which it has stride 0.
    pub(super) fn add_values(&mut self, spot: &Spot, sizes: &[usize], from: OperandRef<'_>) -> Result<()> {
        let axes = (0..sizes.len()).filter(|&axis| sizes[axis] != 1);
        let (kept, summed): (Vec<usize>, Vec<usize>) = axes.partition(|&axis| spot.stride[axis] != 0);
        let pick = |axes: &[usize], of: &[isize]| axes.iter().map(|&axis| of[axis]).collect::<Vec<_>>();
        let sizes_of = |axes: &[usize]| axes.iter().map(|&axis| sizes[axis]).collect::<Vec<_>>();
        let (kept_sizes, summed_sizes) = (sizes_of(&kept), sizes_of(&summed));
        let here = Spot { stride: super::axes::Axes::new(&pick(&kept, &spot.stride)), ..spot.clone() };
        let mut steps = pick(&kept, from.stride);
        if summed.is_empty() {
            return self.add_elements(&here, &kept_sizes, OperandRef { stride: &steps, ..from });
        }
        steps.extend(pick(&summed, from.stride));
        let from = OperandRef { stride: &steps, ..from };
        self.add(&here, &kept_sizes, &mut |inner, to| {
            let inputs = Inputs { slots: &[from], reads: &[0] };
            let axes = Reduction { kept: &kept_sizes, reduced: &summed_sizes };
            // SAFETY: (1) values of the element, with strides for both groups of axes; (2) new memory, or a
            // buffer of the pass.
            with_element!(spot.dtype, T => unsafe {
                inner.reduce(&Input::<T>(PhantomData), Sum, axes, to, inputs)
            })
        })
    }

    /// Adds one value to each element of an operand that has no axis of stride 0.
    fn add_elements(&mut self, spot: &Spot, sizes: &[usize], from: OperandRef<'_>) -> Result<()> {
        if !self.gradients.contains_key(&spot.id) {
            if covers_block(spot, sizes) {
                // SAFETY: (1) values of these sizes; (2) `add` passes new memory; (3) the pass owns both.
                return self.add(spot, sizes, &mut |inner, to| unsafe { inner.copy(sizes, to, from) });
            }
            self.ensure_gradient(spot)?;
        }
        let Some(base) = self.gradient(spot) else { return Ok(()) };
        let (free, looped) = without_overlap(&spot.stride, sizes);
        let of = |stride: &[isize]| free.iter().map(|&axis| stride[axis]).collect::<Vec<_>>();
        let free_sizes: Vec<usize> = free.iter().map(|&axis| sizes[axis]).collect();
        let (to_stride, from_stride) = (of(&spot.stride), of(from.stride));
        let count: usize = looped.iter().map(|&axis| sizes[axis]).product();
        for position in 0..count {
            let (mut rest, mut to_step, mut from_step) = (position, 0isize, 0isize);
            for &axis in &looped {
                let index = (rest % sizes[axis]) as isize;
                rest /= sizes[axis];
                to_step += index * spot.stride[axis];
                from_step += index * from.stride[axis];
            }
            let at = |slot: OperandRef<'_>, step: isize| {
                slot.address.wrapping_offset(step * base.element as isize)
            };
            let to = OperandRef { address: at(base, to_step), stride: &to_stride, element: base.element };
            let from =
                OperandRef { address: at(from, from_step), stride: &from_stride, element: base.element };
            let inputs = Inputs { slots: &[to, from], reads: &[0, 1] };
            // SAFETY: (1) the gradient has the layout of the block; (2) the axes of one call do not overlap;
            // (3) the program updates its first load in place; (4) the pass owns its gradients.
            with_element!(spot.dtype, T => unsafe {
                let program =
                    InPlace(Store(Call::<Add, _>::new((Input::<T>(PhantomData), Input::<T>(PhantomData)))));
                self.inner.map(&program, &free_sizes, 0, &[to], inputs)
            })?;
        }
        Ok(())
    }

    /// Gives what `write` writes to a target; the last `row` axes are those of a row.
    pub(super) fn give(
        &mut self,
        target: Target<'_, D>,
        sizes: &[usize],
        row: usize,
        write: &mut Write<'_, D>,
    ) -> Result<()> {
        match target {
            Target::Spot(spot) => self.add(spot, sizes, write),
            Target::Rows(place, dtype) => {
                let all = Buffer::<D>::new(&self.inner, sizes, dtype.size())?;
                write(&self.inner, all.slot())?;
                let (kept, reduced) = sizes.split_at(sizes.len() - row);
                let sums = Buffer::<D>::new(&self.inner, kept, dtype.size())?;
                let inputs = Inputs { slots: &[all.slot()], reads: &[0] };
                // SAFETY: (1) values of the element; (2) new memory of the sizes that are kept.
                with_element!(dtype, T => unsafe {
                    let axes = Reduction { kept, reduced };
                    self.inner.reduce(&Input::<T>(PhantomData), Sum, axes, sums.slot(), inputs)
                })?;
                *place = Some(sums);
                Ok(())
            }
        }
    }

    /// Adds the gradient of a program by one variable, the loads `ks` of one operand. `slots` are the
    /// operands of all loads, then the gradients of all outputs.
    pub(super) fn vjp(
        &mut self,
        program: &dyn Vjp<D>,
        facts: &Facts,
        ks: &[usize],
        (sizes, row): (&[usize], usize),
        slots: &[OperandRef<'_>],
        target: Target<'_, D>,
    ) -> Result<()> {
        if ks.len() > 1
            && !program.has_mask()
            && let Target::Spot(spot) = target
        {
            // One operand that is read twice: one kernel for each load.
            for k in ks {
                self.vjp(program, facts, &[*k], (sizes, row), slots, Target::Spot(spot))?;
            }
            return Ok(());
        }
        if let ([k], [dtype], Target::Spot(spot)) = (ks, &facts.outputs[..], &target)
            && facts.slopes[*k].is_some_and(|slope| slope.literal == Some(1.0))
            && *dtype == spot.dtype
        {
            return self.add_values(spot, sizes, slots[facts.loads.len()]);
        }
        let reads = facts.reads(ks);
        let zeros = self.zeros(sizes.len());
        let slots = slots.iter().enumerate().map(|(k, slot)| match facts.loads.get(k) {
            Some(dtype) if reads >> k & 1 == 0 => OperandRef { element: dtype.size(), ..zeros },
            _ => *slot,
        });
        let slots: Vec<OperandRef<'_>> = slots.collect();
        let (distinct, reads) = distinct(&slots)?;
        let inputs = Inputs { slots: &distinct, reads: &reads };
        let mask = ks.iter().fold(0, |mask, &k| mask | 1u64 << k);
        let target = &mut Some(target);
        self.each_direction(facts.loads[ks[0]], sizes, row, target, &mut |inner, is_imaginary, to| {
            program.run(inner, ks[0], Variable { mask, is_imaginary }, sizes, to, inputs)
        })
    }

    /// Gives what `write` writes to a target, for complex elements once along 1 and once along the imaginary
    /// unit.
    pub(super) fn each_direction(
        &mut self,
        dtype: DType,
        sizes: &[usize],
        row: usize,
        target: &mut Option<Target<'_, D>>,
        write: &mut dyn FnMut(&D, bool, OperandRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(target) = target.take() else { return Ok(()) };
        if !dtype.is_complex() {
            return self.give(target, sizes, row, &mut |inner, to| write(inner, false, to));
        }
        match target {
            Target::Spot(spot) => [false, true].into_iter().try_for_each(|is_imaginary| {
                self.give(Target::Spot(spot), sizes, row, &mut |inner, to| write(inner, is_imaginary, to))
            }),
            Target::Rows(place, dtype) => {
                let what =
                    text(format_args!("{dtype} numbers that are reduced along a row have no gradient"));
                let _ = place;
                Err(Error::Value { op: "backward", what })
            }
        }
    }
}

/// Each different operand once, and the operand of each load.
pub(super) fn distinct<'a>(slots: &[OperandRef<'a>]) -> Result<(Vec<OperandRef<'a>>, Vec<u8>)> {
    let mut distinct: Vec<OperandRef<'a>> = Vec::with_capacity(slots.len());
    let mut reads = Vec::with_capacity(slots.len());
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
    // One operand is the output.
    if distinct.len() >= MAX_OPERANDS {
        return Err(Error::Operands { op: "backward", limit: MAX_OPERANDS - 1 });
    }
    Ok((distinct, reads))
}

/// The kernels of the backward pass of a program, with its type erased.
pub(super) trait Vjp<D: Device> {
    /// Whether one kernel serves several loads of one operand.
    fn has_mask(&self) -> bool;
    /// Runs the kernel of a variable, whose first load is `k`.
    fn run(
        &self,
        inner: &D,
        k: usize,
        variable: Variable,
        sizes: &[usize],
        to: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;
}

/// A program and the way in which the device runs it.
pub(super) struct VjpOf<P, const BY_NAME: bool>(pub(super) P);

impl<P: Program, const BY_NAME: bool> VjpOf<P, BY_NAME> {
    /// One kernel for all variables: for complex elements, which need run-time directions, and for many
    /// loads, of which each would need a kernel.
    const HAS_MASK: bool = P::COMPLEX || P::LOADS > 2;
}

impl<P: Program, const BY_NAME: bool, D: Device> Vjp<D> for VjpOf<P, BY_NAME> {
    fn has_mask(&self) -> bool {
        Self::HAS_MASK
    }
    fn run(
        &self,
        inner: &D,
        k: usize,
        variable: Variable,
        sizes: &[usize],
        to: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        macro_rules! run {
            ($k:expr) => {{
                let program = VjpMap::<P, { $k }> { program: self.0, variable };
                // SAFETY: (1) the operands of the program, at its sizes, and its gradients; (2) and (3) the
                // output is new memory for the element of the variable; (4) the pass owns it.
                unsafe {
                    match BY_NAME {
                        true => inner.map_by_name(&program, sizes, &[to], inputs),
                        false => inner.map_apart(&program, sizes, 0, &[to], inputs),
                    }
                }
            }};
        }
        if const { Self::HAS_MASK } {
            return run!(MASKED);
        }
        if const { P::LOADS == 2 } && k == 1 {
            return run!(1);
        }
        if const { P::LOADS >= 1 } {
            return run!(0);
        }
        Ok(())
    }
}

/// The axes of a strided operand that address each element once together, and the others, over which a caller
/// loops. Long axes stay together.
fn without_overlap(stride: &[isize], sizes: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    if is_injective(stride, sizes, &order) {
        return (order, Vec::new());
    }
    order.sort_by_key(|&axis| std::cmp::Reverse(sizes[axis]));
    let (mut free, mut looped) = (Vec::new(), Vec::new());
    for &axis in &order {
        free.push(axis);
        if !is_injective(stride, sizes, &free) {
            free.pop();
            looped.push(axis);
        }
    }
    free.sort_unstable();
    (free, looped)
}

/// Whether each index along these axes certainly addresses its own element.
fn is_injective(stride: &[isize], sizes: &[usize], axes: &[usize]) -> bool {
    let mut rising: Vec<usize> = axes.iter().copied().filter(|&axis| sizes[axis] > 1).collect();
    rising.sort_by_key(|&axis| stride[axis].unsigned_abs());
    let mut reach = 0;
    rising.into_iter().all(|axis| {
        let step = stride[axis].unsigned_abs();
        let is_beyond = step > reach;
        reach += (sizes[axis] - 1) * step;
        is_beyond
    })
}

/// Whether an operand is all of its block, each element once.
fn covers_block(spot: &Spot, sizes: &[usize]) -> bool {
    covers(&spot.stride, sizes, spot.dtype.size(), spot.nbytes)
}

/// Whether a strided operand is all of a block of `nbytes` bytes, each element once.
pub(super) fn covers(stride: &[isize], sizes: &[usize], element: usize, nbytes: usize) -> bool {
    let axes: Vec<usize> = (0..sizes.len()).collect();
    sizes.iter().product::<usize>() * element == nbytes && is_injective(stride, sizes, &axes)
}

/// Sets an operand of elements `dtype` to 0.
///
/// # Safety
/// 1. The operand reaches only positions inside its memory.
/// 2. No other code uses this memory.
pub(super) unsafe fn fill_with_zeros<D: Device>(
    inner: &D,
    dtype: DType,
    sizes: &[usize],
    to: OperandRef<'_>,
) -> Result<()> {
    let kept: Vec<usize> = (0..sizes.len()).filter(|&axis| to.stride[axis] != 0).collect();
    let (sizes, stride): (Vec<_>, Vec<_>) = kept.iter().map(|&axis| (sizes[axis], to.stride[axis])).unzip();
    let to = OperandRef { stride: &stride, ..to };
    let inputs = Inputs { slots: &[], reads: &[] };
    // SAFETY: (1) and (4) are the caller's promises; (2) axes of stride 0 are left out; (3) there are no inputs.
    with_element!(dtype, T => unsafe {
        inner.map(&Store(Param::<T>(T::default())), &sizes, 0, &[to], inputs)
    })
}
