//! From many axes to few, and index arithmetic in generated source.
//!
//! Imports: `device`.

use super::emit::Source;
use crate::device::Slot;

/// Axes that several operands are walked along together, from the slowest to the fastest; strides in elements.
#[derive(Clone, Debug, Default)]
pub(super) struct Axes {
    pub(super) sizes: Vec<usize>,
    /// `strides[operand][axis]`.
    pub(super) strides: Vec<Vec<isize>>,
}

impl Axes {
    /// The axes of `sizes` that are not 1, merged where every operand is one run over both; `strides[k]` says those of
    /// operand `k`. They stay in order, or are sorted by falling strides of operand 0.
    pub(super) fn merged(sizes: &[usize], strides: &[&[isize]], by_first: bool) -> Axes {
        let mut order: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != 1).collect();
        if by_first && let Some(first) = strides.first() {
            order.sort_by_key(|&axis| std::cmp::Reverse(first[axis].unsigned_abs()));
        }
        let mut axes = Axes { sizes: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        for axis in order {
            let size = sizes[axis];
            let continues = !axes.sizes.is_empty()
                && axes.strides.iter().zip(strides).all(|(merged, own)| merged.last() == Some(&own[axis].wrapping_mul(size as isize)));
            if continues && let Some(last) = axes.sizes.last_mut() {
                *last *= size;
                for (merged, own) in axes.strides.iter_mut().zip(strides) {
                    merged.pop();
                    merged.push(own[axis]);
                }
            } else {
                axes.sizes.push(size);
                for (merged, own) in axes.strides.iter_mut().zip(strides) {
                    merged.push(own[axis]);
                }
            }
        }
        axes
    }

    pub(super) fn of(sizes: &[usize], slots: &[Slot<'_>], by_first: bool) -> Axes {
        let strides: Vec<_> = slots.iter().map(|slot| slot.stride).collect();
        Axes::merged(sizes, &strides, by_first)
    }

    pub(super) fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The step of an operand along the fastest axis; 0 when there is none.
    pub(super) fn inner_step(&self, operand: usize) -> isize {
        self.strides[operand].last().copied().unwrap_or(0)
    }

    /// Whether positions or steps need more than 31 bits; some room is left for the last block.
    pub(super) fn is_wide(&self) -> bool {
        let limit = (i32::MAX / 2) as usize;
        let span = |steps: &Vec<isize>| {
            let reach = |(&step, &size): (&isize, &usize)| step.unsigned_abs().saturating_mul(size.saturating_sub(1));
            steps.iter().zip(&self.sizes).map(reach).fold(0usize, usize::saturating_add)
        };
        self.numel() > limit || self.strides.iter().any(|steps| span(steps) > limit)
    }

    /// The words of sizes and strides, as [`Place`] numbers them.
    pub(super) fn words(&self) -> impl Iterator<Item = i64> + '_ {
        let sizes = self.sizes.iter().map(|&size| size as i64);
        sizes.chain(self.strides.iter().flatten().map(|&stride| stride as i64))
    }
}

/// Where the sizes and strides of [`Axes`] stand among a kernel's words.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) word: usize,
    pub(super) rank: usize,
    pub(super) operands: usize,
}

impl Place {
    /// The word after the last.
    pub(super) fn end(&self) -> usize {
        self.word + self.rank * (1 + self.operands)
    }

    pub(super) fn size(&self, axis: usize) -> String {
        format!("(idx)a.v[{}]", self.word + axis)
    }

    pub(super) fn step(&self, axis: usize, operand: usize) -> String {
        format!("(idx)a.v[{}]", self.word + self.rank * (1 + operand) + axis)
    }

    /// Adds the steps of position `position` to variables: `into[k]` names that of operand `k`.
    pub(super) fn offsets(&self, source: &mut Source, position: &str, into: &[String]) {
        self.offsets_before(self.rank, source, position, into);
    }

    /// As [`offsets`](Self::offsets), of a position within the axes before `end`.
    pub(super) fn offsets_before(&self, end: usize, source: &mut Source, position: &str, into: &[String]) {
        source.line(format_args!("  {{ idx rest = {position};"));
        for axis in (0..end).rev() {
            if axis == 0 {
                source.line(format_args!("    const idx c0 = rest;"));
            } else {
                let size = self.size(axis);
                source.line(format_args!("    const idx c{axis} = rest % {size}; rest /= {size};"));
            }
            for (operand, name) in into.iter().enumerate() {
                source.line(format_args!("    {name} += c{axis} * {};", self.step(axis, operand)));
            }
        }
        source.line(format_args!("    (void)rest; }}"));
    }
}
