//! Operands that are runs of memory, all of one size: the short way of a small tensor.
// Imports: `error`, `dim`, `kernel`, `device`, `tensor`.

use super::operand::{Expr, Leaves};
use crate::device::{Device, Inputs, OperandRef};
use crate::dim::Dim;
use crate::error::Result;
use crate::kernel::{Body, Program};
use crate::tensor::Leaf;

/// How many operands most kernels have at most: a small tensor should not pay for room that a large program needs.
pub(super) const FEW_OPERANDS: usize = 4;

/// The operands of a kernel of few, as long as they are different row-major runs of one size: to the device they have one
/// axis, and there is nothing to join, stretch or walk. Where one does not fit, `eval.rs`
/// gathers them again and says why.
///
/// All of it is inlined: then it is a few comparisons of numbers, and a tensor of a few elements pays no more.
pub(super) struct ContiguousOperands<'a, const RANK: usize, D: Device> {
    device: &'a D,
    /// That of the first of them.
    pub(super) size: Option<Dim<RANK>>,
    pub(super) fits: bool,
    slots: [OperandRef<'static>; FEW_OPERANDS],
    loads: usize,
}

/// The stride of a run.
const UNIT_STRIDE: &[isize] = &[1];

impl<'a, const RANK: usize, D: Device> Leaves<'_, RANK, D> for ContiguousOperands<'a, RANK, D> {
    #[inline(always)]
    fn add(&mut self, leaf: Leaf<'_, RANK, D>) {
        let (layout, slot) = (leaf.layout(), leaf.slot(UNIT_STRIDE));
        let one_size = *self.size.get_or_insert(layout.size()) == layout.size();
        let is_new = (0..self.loads).all(|k| self.slots[k].address != slot.address);
        self.fits &= one_size
            && is_new
            && layout.is_contiguous()
            && leaf.is_allocated()
            && leaf.device() == self.device;
        self.slots[self.loads] = slot;
        self.loads += 1;
    }
}

impl<'a, const RANK: usize, D: Device> ContiguousOperands<'a, RANK, D> {
    #[inline(always)]
    pub(super) fn new(device: &'a D) -> Self {
        let none = OperandRef { address: std::ptr::null_mut(), stride: UNIT_STRIDE, element: 0 };
        ContiguousOperands { device, size: None, fits: true, slots: [none; FEW_OPERANDS], loads: 0 }
    }

    #[inline(always)]
    pub(super) fn add_expr<E: Expr<RANK, D>>(&mut self, expr: &E) {
        // One is left for what is updated in place.
        if const { E::Body::LOADS < FEW_OPERANDS && !E::Body::BY_ROWS } {
            expr.leaves(self);
        } else {
            self.fits = false;
        }
    }

    /// Whether the device can run over them into an output of `size`.
    #[inline(always)]
    pub(super) fn fits_output(&self, size: Dim<RANK>) -> bool {
        self.fits && self.size.is_none_or(|own| own == size)
    }

    /// Runs `program` into `out`, which is one run of their size.
    ///
    /// # Safety
    /// As [`Device::map`]; the operands are the loads of `program` in order, and `out` its store.
    #[inline(always)]
    pub(super) unsafe fn map<P: Program>(&self, program: &P, out: &Leaf<'_, RANK, D>) -> Result<()> {
        let slots = self.slots; // what the device is shown goes through memory; the rest need not
        let inputs = Inputs { slots: &slots[..self.loads], reads: &[0, 1, 2, 3][..self.loads] };
        // SAFETY: the caller's promise, under a shorter name for the same elements.
        unsafe { self.device.map(program, &[out.layout().numel()], 0, &[out.slot(UNIT_STRIDE)], inputs) }
    }
}
