//! The backward pass of a program in blocks of rows, as tasks of the device: a block stays in the cache of a
//! core through all kernels of the pass.
// Imports: `error`, `dtype`, `device`, `erased_memory`.

use super::backward::{Backward, Temporary};
use super::inner::Inner;
use super::overlap::{covers_block, is_injective};
use super::small_vec::SmallVec;
use super::step::BlockView;
use crate::device::{Init, OperandRef, Reduction};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// A division of sizes into blocks: one index along each axis before `axis`, a range of it, and all of the
/// axes after it.
pub(super) struct Division<'a> {
    sizes: &'a [usize],
    axis: usize,
    /// Indices of a block along the axis; the last block has fewer.
    span: usize,
    pub(super) blocks: usize,
}

/// One block of a division.
pub(super) struct DivisionBlock {
    pub(super) number: usize,
    /// Its first index along each axis that is divided.
    first: SmallVec<usize>,
    pub(super) sizes: SmallVec<usize>,
}

impl<'a> Division<'a> {
    /// Blocks of at most `numel` elements along the first `axes` axes. `None` if one block has all, or a
    /// block of one index would be larger.
    pub(super) fn new(sizes: &'a [usize], axes: usize, numel: usize) -> Option<Self> {
        let mut inside: usize = sizes.iter().product();
        if inside <= numel {
            return None;
        }
        let axis = (0..axes).find(|&axis| {
            inside /= sizes[axis];
            inside <= numel
        })?;
        let count = sizes[axis].div_ceil(numel / inside);
        let span = sizes[axis].div_ceil(count);
        let blocks = sizes[..axis].iter().product::<usize>() * sizes[axis].div_ceil(span);
        Some(Division { sizes, axis, span, blocks })
    }

    pub(super) fn block(&self, number: usize) -> DivisionBlock {
        let (mut first, mut sizes) = (SmallVec::new(&self.sizes[..=self.axis]), SmallVec::new(self.sizes));
        let mut rest = number;
        for axis in (0..=self.axis).rev() {
            let span = if axis == self.axis { self.span } else { 1 };
            let count = self.sizes[axis].div_ceil(span);
            first[axis] = rest % count * span;
            rest /= count;
            sizes[axis] = span.min(self.sizes[axis] - first[axis]);
        }
        DivisionBlock { number, first, sizes }
    }

    /// Whether an operand has one element for all blocks, or `None` if that depends on the axis.
    fn is_broadcast(&self, stride: &[isize]) -> Option<bool> {
        let mut long = (0..=self.axis).filter(|&axis| self.sizes[axis] > 1).map(|axis| stride[axis] == 0);
        let first = long.next()?;
        long.all(|is_broadcast| is_broadcast == first).then_some(first)
    }
}

impl DivisionBlock {
    /// The elements of an operand in the block.
    pub(super) fn of<'s>(&self, slot: OperandRef<'s>) -> OperandRef<'s> {
        let steps = self.first.iter().zip(slot.stride);
        let step = steps.fold(0isize, |step, (&first, &stride)| step + first as isize * stride);
        OperandRef { address: slot.address.wrapping_offset(step * slot.element as isize), ..slot }
    }

    pub(super) fn of_all<'s>(&self, slots: &[OperandRef<'s>]) -> SmallVec<OperandRef<'s>> {
        slots.iter().map(|slot| self.of(*slot)).collect()
    }
}

/// Sums of the contributions of blocks to an operand that is broadcast along the divided axes: one for each
/// block, in f32 for elements of 16 bits.
pub(super) struct BlockSums {
    sums: Temporary,
    /// Their number, then the sizes of the axes along which the operand is not broadcast.
    sizes: SmallVec<usize>,
    /// The strides of the operand along these.
    stride: SmallVec<isize>,
}

impl BlockSums {
    pub(super) fn new(inner: &dyn Inner, blocks: usize, view: &BlockView, sizes: &[usize]) -> Result<Self> {
        let kept = || (0..sizes.len()).filter(|&axis| view.stride[axis] != 0);
        let sizes: SmallVec<usize> = std::iter::once(blocks).chain(kept().map(|axis| sizes[axis])).collect();
        let stride = kept().map(|axis| view.stride[axis]).collect();
        let element = if has_16_bits(view.dtype) { size_of::<f32>() } else { view.element };
        Ok(BlockSums { sums: Temporary::new(inner, &sizes, element)?, sizes, stride })
    }

    /// The sizes of the sums of one block.
    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes[1..]
    }

    /// The sums of a block.
    pub(super) fn of_block(&self, number: usize) -> OperandRef<'_> {
        let slot = self.sums.slot();
        let step = number * slot.stride[0] as usize * slot.element;
        OperandRef { address: slot.address.wrapping_add(step), stride: &slot.stride[1..], ..slot }
    }

    /// Adds the sums of all blocks to the gradient of the operand.
    pub(super) fn add_to(&self, b: &mut Backward, view: &BlockView) -> Result<()> {
        let (blocks, kept) = self.sizes.split_at(1);
        let view = BlockView { stride: self.stride.clone(), ..view.clone() };
        let slot = self.sums.slot();
        let stride = SmallVec::concat(&[&slot.stride[1..], &slot.stride[..1]]);
        let from = OperandRef { stride: &stride, ..slot };
        let inner = b.inner.clone();
        b.add(&view, kept, &mut |to| {
            let axes = Reduction { kept, reduced: blocks };
            // SAFETY: (1) the sums of the blocks, with strides for both groups of axes; (2) new memory.
            unsafe { inner.sum(view.dtype, axes, to, from) }
        })
    }
}

fn has_16_bits(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The operands of a program's backward pass, in a block or everywhere.
#[derive(Clone, Copy)]
pub(super) struct ProgramOperands<'a> {
    pub(super) sizes: &'a [usize],
    pub(super) loads: &'a [OperandRef<'a>],
    /// The gradients of the outputs.
    pub(super) gradients: &'a [OperandRef<'a>],
    /// The places of the gradients of operands that depend on a variable.
    pub(super) views: &'a [Option<BlockView>],
}

/// The backward pass of a program on some of its rows.
pub(super) type BlockPass<'a> = dyn Fn(&mut Backward, ProgramOperands<'_>) -> Result<()> + Sync + 'a;

/// The way in which the contributions of blocks reach the gradient of an operand.
enum Goal<'a> {
    /// Each block is a part of a new gradient, or is added to a part of an earlier one.
    Part {
        to: OperandRef<'a>,
        new: Option<Memory>,
    },
    Sums(BlockSums),
}

impl<'a> Goal<'a> {
    /// `None` if blocks of the operand overlap, or if it is broadcast along some of the divided axes.
    fn new(b: &mut Backward, view: &'a BlockView, division: &Division<'_>) -> Result<Option<Self>> {
        let sizes = division.sizes;
        let kept: SmallVec<usize> = (0..sizes.len()).filter(|&axis| view.stride[axis] != 0).collect();
        Ok(match division.is_broadcast(&view.stride) {
            // Sums of a block are rounded to 16 bits inside of the pass.
            Some(true) if !has_16_bits(view.dtype) => {
                Some(Goal::Sums(BlockSums::new(&*b.inner, division.blocks, view, sizes)?))
            }
            Some(false) if is_injective(&view.stride, sizes, kept) => {
                let mut new = None;
                if b.gradient(view).is_none() && covers_block(view, sizes) {
                    new = Some(b.inner.fresh(view.nbytes, Init::Unspecified)?);
                } else {
                    b.ensure_gradient(view)?;
                }
                let to = new.as_ref().map(|memory| view.slot(memory)).or(b.gradient(view));
                to.map(|to| Goal::Part { to, new })
            }
            _ => None,
        })
    }

    /// Takes the gradient of an operand in a block; returns whether it has one.
    fn take(&self, b: &Backward, dtype: DType, block: &DivisionBlock, of_block: &BlockView) -> Result<bool> {
        let kept: SmallVec<usize> =
            (0..block.sizes.len()).filter(|&axis| of_block.stride[axis] != 0).collect();
        let of = |stride: &[isize]| kept.iter().map(|&axis| stride[axis]).collect::<SmallVec<_>>();
        let sizes: SmallVec<usize> = kept.iter().map(|&axis| block.sizes[axis]).collect();
        let from = b.gradient(of_block);
        let is_reached = from.is_some();
        let from = from.unwrap_or(b.zeros(block.sizes.len(), of_block.element));
        let from_stride = of(from.stride);
        let from = OperandRef { stride: &from_stride, ..from };
        // SAFETY: (of all) (1) the gradient in the block, its part of the gradient or its sums, at these
        // sizes; (2) blocks do not overlap, and each is taken once; (3) a sum is in place; (4) the pass owns
        // both.
        unsafe {
            match self {
                Goal::Sums(sums) => b.inner.copy(&sizes, sums.of_block(block.number), from),
                Goal::Part { to, new } => {
                    let to = block.of(*to);
                    let stride = of(to.stride);
                    let to = OperandRef { stride: &stride, ..to };
                    match new {
                        Some(_) => b.inner.copy(&sizes, to, from),
                        None if is_reached => b.inner.add(dtype, &sizes, to, from),
                        None => Ok(()),
                    }
                }
            }
        }
        .map(|()| is_reached)
    }
}

/// Runs a backward pass in blocks along the first `axes` axes. Returns `false`, and runs nothing, if the
/// device prefers large kernels, the pass is small, or two blocks would write to one element.
pub(super) fn run_by_blocks(
    b: &mut Backward,
    operands: ProgramOperands<'_>,
    axes: usize,
    pass: &BlockPass<'_>,
) -> Result<bool> {
    let ProgramOperands { sizes, loads, gradients, views } = operands;
    let element = views.iter().flatten().map(|view| view.element).max();
    let (Some(nbytes), Some(element)) = (b.inner.task_nbytes(), element) else { return Ok(false) };
    let Some(division) = Division::new(sizes, axes, nbytes / element) else { return Ok(false) };
    let ids: Vec<u64> = views.iter().flatten().map(|view| view.id).collect();
    if (1..ids.len()).any(|k| ids[..k].contains(&ids[k])) {
        return Ok(false);
    }
    let mut goals = Vec::new();
    for view in views {
        goals.push(match view {
            Some(view) => match Goal::new(b, view, &division)? {
                None => return Ok(false),
                goal => goal,
            },
            None => None,
        });
    }
    let reached: Vec<AtomicBool> = goals.iter().map(|_| AtomicBool::new(false)).collect();
    let whole = &*b;
    b.inner.for_each_task(division.blocks, &|number| {
        let block = division.block(number);
        let of_block =
            |(k, view): (usize, &Option<BlockView>)| Some(view.as_ref()?.dense(k as u64, &block.sizes));
        let views: Vec<Option<BlockView>> = views.iter().enumerate().map(of_block).collect();
        let (loads, gradients) = (block.of_all(loads), block.of_all(gradients));
        let mut part = whole.part();
        let operands =
            ProgramOperands { sizes: &block.sizes, loads: &loads, gradients: &gradients, views: &views };
        pass(&mut part, operands)?;
        for ((goal, view), reached) in goals.iter().zip(&views).zip(&reached) {
            if let (Some(goal), Some(view)) = (goal, view)
                && goal.take(&part, view.dtype, &block, view)?
            {
                reached.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    })?;
    for ((goal, view), reached) in goals.into_iter().zip(views).zip(reached) {
        match (goal, view) {
            // No gradient flows to the operand: it gets none, not one of zeros.
            _ if !reached.into_inner() => {}
            (Some(Goal::Sums(sums)), Some(view)) => sums.add_to(b, view)?,
            (Some(Goal::Part { new: Some(memory), .. }), Some(view)) => b.insert(view, memory)?,
            _ => {}
        }
    }
    Ok(true)
}
