//! The path of contiguous operands of one size, whatever the number of elements. Its overhead is small enough
//! for small tensors.
// Imports: `error`, `dim`, `kernel`, `device`, `tensor`.

use super::operand::{Expr, Leaves};
use crate::device::{Device, Inputs, OperandRef};
use crate::dim::Dim;
use crate::error::Result;
use crate::kernel::{Body, Program};
use crate::tensor::Leaf;

/// The number of operands that most programs do not exceed. The arrays of a larger program would cost too
/// much time for a small tensor.
pub(super) const CONTIGUOUS_OPERANDS: usize = 4;

/// The operands of a program with few operands, as long as they are different, row-major and of one size. The
/// device then sees one axis: no sizes are joined, broadcast or iterated. If an operand does not qualify,
/// `eval.rs` collects the operands again and reports the reason.
///
/// All functions are inlined. The path is then a few comparisons, which a tensor of a few elements can
/// afford.
pub(super) struct ContiguousOperands<'a, const RANK: usize, D: Device> {
    device: &'a D,
    /// The size of the first operand.
    pub(super) size: Option<Dim<RANK>>,
    pub(super) fits: bool,
    slots: [OperandRef<'static>; CONTIGUOUS_OPERANDS],
    loads: usize,
}

/// The stride of a contiguous operand.
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
        ContiguousOperands { device, size: None, fits: true, slots: [none; CONTIGUOUS_OPERANDS], loads: 0 }
    }

    #[inline(always)]
    pub(super) fn add_expr<E: Expr<RANK, D>>(&mut self, expr: &E) {
        // One place is reserved for the operand that is updated in place.
        if const { E::Body::LOADS < CONTIGUOUS_OPERANDS && !E::Body::BY_ROWS } {
            expr.leaves(self);
        } else {
            self.fits = false;
        }
    }

    /// Whether the device can compute an output of `size` from the operands.
    #[inline(always)]
    pub(super) fn fits_output(&self, size: Dim<RANK>) -> bool {
        self.fits && self.size.is_none_or(|own| own == size)
    }

    /// Runs `program` into `out`, which is contiguous and has their size.
    ///
    /// # Safety
    /// 1. The promises of [`Device::map`].
    /// 2. The operands are the loads of `program` in order, and `out` is its store.
    #[inline(always)]
    pub(super) unsafe fn map<P: Program>(&self, program: &P, out: &Leaf<'_, RANK, D>) -> Result<()> {
        let slots = self.slots; // only the copy that the device reads goes through memory
        let inputs = Inputs { slots: &slots[..self.loads], reads: &[0, 1, 2, 3][..self.loads] };
        // SAFETY: (1) and (2) are the caller's promises; one axis of unit stride addresses the same elements.
        unsafe { self.device.map(program, &[out.layout().numel()], 0, &[out.slot(UNIT_STRIDE)], inputs) }
    }
}
