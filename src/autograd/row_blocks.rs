//! The backward pass of a program in blocks of rows, as tasks of the device: a block stays in the cache of a
//! core through all kernels of the pass.
// Imports: `error`, `dtype`, `device`.

use super::axes::Axes;
use super::backward::{Backward, Buffer};
use super::inner::Inner;
use super::overlap::{covers_block, is_injective};
use super::step::Spot;
use crate::device::{Init, OperandRef, Reduction};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::Result;

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
pub(super) struct Block {
    pub(super) number: usize,
    /// Its first index along each axis that is divided.
    first: Axes<usize>,
    pub(super) sizes: Axes<usize>,
}

impl<'a> Division<'a> {
    /// Blocks of at most `numel` elements along the first `axes` axes. `None` if one block has all, or a block
    /// of one index would be larger.
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

    pub(super) fn block(&self, number: usize) -> Block {
        let (mut first, mut sizes) = (Axes::new(&self.sizes[..=self.axis]), Axes::new(self.sizes));
        let mut rest = number;
        for axis in (0..=self.axis).rev() {
            let span = if axis == self.axis { self.span } else { 1 };
            let count = self.sizes[axis].div_ceil(span);
            first[axis] = rest % count * span;
            rest /= count;
            sizes[axis] = span.min(self.sizes[axis] - first[axis]);
        }
        Block { number, first, sizes }
    }

    /// Whether an operand has one element for all blocks, or `None` if that depends on the axis.
    fn is_broadcast(&self, stride: &[isize]) -> Option<bool> {
        let mut long = (0..=self.axis).filter(|&axis| self.sizes[axis] > 1).map(|axis| stride[axis] == 0);
        let first = long.next()?;
        long.all(|is_broadcast| is_broadcast == first).then_some(first)
    }
}

impl Block {
    /// The elements of an operand in the block.
    pub(super) fn of<'s>(&self, slot: OperandRef<'s>) -> OperandRef<'s> {
        let steps = self.first.iter().zip(slot.stride);
        let step = steps.fold(0isize, |step, (&first, &stride)| step + first as isize * stride);
        OperandRef { address: slot.address.wrapping_offset(step * slot.element as isize), ..slot }
    }

    pub(super) fn of_all<'s>(&self, slots: &[OperandRef<'s>]) -> Axes<OperandRef<'s>> {
        slots.iter().map(|slot| self.of(*slot)).collect()
    }
}

/// Sums of the contributions of blocks to an operand that is broadcast along the divided axes: one for each
/// block, in f32 for elements of 16 bits.
pub(super) struct BlockSums {
    sums: Buffer,
    /// Their number, then the sizes of the axes along which the operand is not broadcast.
    sizes: Axes<usize>,
    /// The strides of the operand along these.
    stride: Axes<isize>,
}

impl BlockSums {
    pub(super) fn new(inner: &dyn Inner, blocks: usize, spot: &Spot, sizes: &[usize]) -> Result<Self> {
        let kept = || (0..sizes.len()).filter(|&axis| spot.stride[axis] != 0);
        let sizes: Axes<usize> = std::iter::once(blocks).chain(kept().map(|axis| sizes[axis])).collect();
        let stride = kept().map(|axis| spot.stride[axis]).collect();
        let element = if has_16_bits(spot.dtype) { size_of::<f32>() } else { spot.element };
        Ok(BlockSums { sums: Buffer::new(inner, &sizes, element)?, sizes, stride })
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
    pub(super) fn add_to(&self, b: &mut Backward, spot: &Spot) -> Result<()> {
        let (blocks, kept) = self.sizes.split_at(1);
        let spot = Spot { stride: self.stride.clone(), ..spot.clone() };
        let slot = self.sums.slot();
        let stride = Axes::concat(&[&slot.stride[1..], &slot.stride[..1]]);
        let from = OperandRef { stride: &stride, ..slot };
        let inner = b.inner.clone();
        b.add(&spot, kept, &mut |to| {
            let axes = Reduction { kept, reduced: blocks };
            // SAFETY: (1) the sums of the blocks, with strides for both groups of axes; (2) new memory.
            unsafe { inner.sum(spot.dtype, axes, to, from) }
        })
    }
}

fn has_16_bits(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The operands of a program's backward pass, in a block or everywhere.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) sizes: &'a [usize],
    pub(super) loads: &'a [OperandRef<'a>],
    /// The gradients of the outputs.
    pub(super) gradients: &'a [OperandRef<'a>],
    /// The places of the gradients of operands that depend on a variable.
    pub(super) spots: &'a [Option<Spot>],
}

/// The backward pass of a program on some of its rows.
pub(super) type Pass<'a> = dyn Fn(&mut Backward, Operands<'_>) -> Result<()> + Sync + 'a;

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
    fn new(b: &mut Backward, spot: &'a Spot, division: &Division<'_>) -> Result<Option<Self>> {
        let sizes = division.sizes;
        let kept: Axes<usize> = (0..sizes.len()).filter(|&axis| spot.stride[axis] != 0).collect();
        Ok(match division.is_broadcast(&spot.stride) {
            // Sums of a block are rounded to 16 bits inside of the pass.
            Some(true) if !has_16_bits(spot.dtype) => {
                Some(Goal::Sums(BlockSums::new(&*b.inner, division.blocks, spot, sizes)?))
            }
            Some(false) if is_injective(&spot.stride, sizes, kept) => {
                let mut new = None;
                if b.gradient(spot).is_none() && covers_block(spot, sizes) {
                    new = Some(b.inner.fresh(spot.nbytes, Init::Unspecified)?);
                } else {
                    b.ensure_gradient(spot)?;
                }
                let to = new.as_ref().map(|memory| spot.slot(memory)).or(b.gradient(spot));
                to.map(|to| Goal::Part { to, new })
            }
            _ => None,
        })
    }

    /// Takes the gradient of an operand in a block.
    fn take(&self, b: &Backward, dtype: DType, block: &Block, of_block: &Spot) -> Result<()> {
        let kept: Axes<usize> = (0..block.sizes.len()).filter(|&axis| of_block.stride[axis] != 0).collect();
        let of = |stride: &[isize]| kept.iter().map(|&axis| stride[axis]).collect::<Axes<_>>();
        let sizes: Axes<usize> = kept.iter().map(|&axis| block.sizes[axis]).collect();
        let from = b.gradient(of_block);
        let is_reached = from.is_some();
        let from = from.unwrap_or(OperandRef { element: of_block.element, ..b.zeros(block.sizes.len()) });
        let from_stride = of(from.stride);
        let from = OperandRef { stride: &from_stride, ..from };
        // SAFETY: (of all) (1) the gradient in the block, its part of the gradient or its sums, at these sizes;
        // (2) blocks do not overlap, and each is taken once; (3) a sum is in place; (4) the pass owns both.
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
    }
}

/// Runs a backward pass in blocks along the first `axes` axes. Returns `false`, and runs nothing, if the device
/// prefers large kernels, the pass is small, or two blocks would write to one element.
pub(super) fn run_by_blocks(
    b: &mut Backward,
    operands: Operands<'_>,
    axes: usize,
    pass: &Pass<'_>,
) -> Result<bool> {
    let Operands { sizes, loads, gradients, spots } = operands;
    let element = spots.iter().flatten().map(|spot| spot.element).max();
    let (Some(nbytes), Some(element)) = (b.inner.task_nbytes(), element) else { return Ok(false) };
    let Some(division) = Division::new(sizes, axes, nbytes / element) else { return Ok(false) };
    let ids: Vec<u64> = spots.iter().flatten().map(|spot| spot.id).collect();
    if (1..ids.len()).any(|k| ids[..k].contains(&ids[k])) {
        return Ok(false);
    }
    let mut goals = Vec::new();
    for spot in spots {
        goals.push(match spot {
            Some(spot) => match Goal::new(b, spot, &division)? {
                None => return Ok(false),
                goal => goal,
            },
            None => None,
        });
    }
    let whole = &*b;
    b.inner.for_each_task(division.blocks, &|number| {
        let block = division.block(number);
        let of_block = |(k, spot): (usize, &Option<Spot>)| Some(spot.as_ref()?.dense(k as u64, &block.sizes));
        let spots: Vec<Option<Spot>> = spots.iter().enumerate().map(of_block).collect();
        let (loads, gradients) = (block.of_all(loads), block.of_all(gradients));
        let mut part = whole.part();
        let operands = Operands { sizes: &block.sizes, loads: &loads, gradients: &gradients, spots: &spots };
        pass(&mut part, operands)?;
        goals.iter().zip(&spots).try_for_each(|(goal, spot)| match (goal, spot) {
            (Some(goal), Some(spot)) => goal.take(&part, spot.dtype, &block, spot),
            _ => Ok(()),
        })
    })?;
    for (goal, spot) in goals.into_iter().zip(spots) {
        match (goal, spot) {
            (Some(Goal::Sums(sums)), Some(spot)) => sums.add_to(b, spot)?,
            (Some(Goal::Part { new: Some(memory), .. }), Some(spot)) => b.insert(spot, memory)?,
            _ => {}
        }
    }
    Ok(true)
}
