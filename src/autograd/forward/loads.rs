//! The operands of the loads of a kernel with their tangents, and the kernels for them.
// Imports: `error`, `dtype`, `device`, `autograd`.

use super::programs::{ALL, MAX_WINDOWS, WINDOW, has_tangent, is_wide, room};
use super::state::TangentOperands;
use crate::autograd::backward::{Backward, Temporary, distinct};
use crate::autograd::facts::Facts;
use crate::autograd::small_vec::SmallVec;
use crate::autograd::state::has_gradient;
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Runs code for the mask of the loads that have tangents. Kernels of one or two loads are compiled for each
/// mask. In kernels of more loads all have tangents, some of them zeros; in kernels without room for that,
/// the loads of a window.
macro_rules! with_mask {
    ($loads:expr, $others:expr, $in_place:expr, $mask:expr, $MASK:ident => $run:expr) => {{
        use $crate::autograd::forward::programs::{ALL, WINDOW, is_wide};
        if const { $loads == 0 } {
            Ok(())
        } else if const { is_wide($loads, $others) } {
            match $mask - WINDOW {
                0 => with_mask!($MASK = WINDOW => $run),
                1 => with_mask!($MASK = WINDOW + 1 => $run),
                2 => with_mask!($MASK = WINDOW + 2 => $run),
                _ => with_mask!($MASK = WINDOW + 3 => $run),
            }
        } else if const { $loads > 2 } {
            with_mask!($MASK = ALL => $run)
        } else if const { $loads == 1 } || $mask == 1 {
            with_mask!($MASK = 1 => $run)
        } else if const { !$in_place } && $mask == 2 {
            with_mask!($MASK = 2 => $run)
        } else {
            with_mask!($MASK = 3 => $run)
        }
    }};
    ($MASK:ident = $mask:expr => $run:expr) => {{
        const $MASK: u64 = $mask;
        $run
    }};
}
pub(super) use with_mask;

/// The operands of the loads of a kernel.
pub(super) struct LoadOperands<'a> {
    pub(super) values: Vec<OperandRef<'a>>,
    pub(super) tangents: Vec<Option<OperandRef<'a>>>,
}

/// Whether an output depends on a tangent.
pub(super) fn depends(facts: &Facts, reads: &[u8], active: &[Option<DType>]) -> bool {
    reads.iter().zip(&facts.slopes).any(|(&k, slope)| slope.is_some() && active[k as usize].is_some())
}

impl<'a> LoadOperands<'a> {
    /// The operands of the loads, from those of the kernel, and the tangents on which an output depends.
    pub(super) fn new(operands: &TangentOperands<'a>, reads: &[u8], facts: &Facts) -> Self {
        let mut loads = LoadOperands::of_rows(operands, reads);
        loads.keep(facts);
        loads
    }

    /// As [`new`](LoadOperands::new), with all tangents.
    pub(super) fn of_rows(operands: &TangentOperands<'a>, reads: &[u8]) -> Self {
        let values = reads.iter().map(|&k| operands.inputs[k as usize]).collect();
        let tangents = reads.iter().map(|&k| operands.tangents[k as usize]).collect();
        LoadOperands { values, tangents }
    }

    /// Keeps the tangents on which an output depends.
    pub(super) fn keep(&mut self, facts: &Facts) {
        for (tangent, slope) in self.tangents.iter_mut().zip(&facts.slopes) {
            *tangent = tangent.filter(|_| slope.is_some());
        }
    }

    pub(super) fn has_tangents(&self) -> bool {
        self.tangents.iter().any(Option::is_some)
    }

    /// The masks of the kernels that compute with all these tangents: one, unless a kernel with `others`
    /// other operands has no room for all; none, if there are no tangents.
    ///
    /// # Errors
    /// [`Error::Operands`] if the loads leave too little room.
    pub(super) fn masks(&self, others: usize) -> Result<SmallVec<u64>> {
        let (loads, mut masks) = (self.values.len(), SmallVec::new(&[]));
        if !self.has_tangents() {
            return Ok(masks);
        }
        if !is_wide(loads, others) {
            // More than two loads all have tangents.
            let bits = self.tangents.iter().enumerate().filter(|(_, tangent)| tangent.is_some());
            masks.push(if loads > 2 { ALL } else { bits.map(|(k, _)| 1 << k).sum() });
            return Ok(masks);
        }
        let room = room(loads, others);
        if room * MAX_WINDOWS < loads {
            let limit = MAX_OPERANDS.saturating_sub(others) * MAX_WINDOWS / (MAX_WINDOWS + 1);
            return Err(Error::Operands { op: "jvp", limit });
        }
        for (window, tangents) in self.tangents.chunks(room).enumerate() {
            if tangents.iter().any(Option::is_some) {
                masks.push(WINDOW + window as u64);
            }
        }
        Ok(masks)
    }

    /// The operands of a kernel with this mask and `others` other operands: each value, followed by its
    /// tangent if the mask has one, which may be `zeros`.
    pub(super) fn slots(&self, mask: u64, others: usize, zeros: OperandRef<'a>) -> Vec<OperandRef<'a>> {
        let room = room(self.values.len(), others);
        let mut slots = Vec::with_capacity(2 * self.values.len());
        for (k, (value, tangent)) in self.values.iter().zip(&self.tangents).enumerate() {
            slots.push(*value);
            if has_tangent(mask, room, k) {
                slots.push(tangent.unwrap_or(OperandRef { element: value.element, ..zeros }));
            }
        }
        slots
    }
}

/// A kernel whose program is erased: it runs for a mask, at these sizes, on outputs and inputs.
pub(super) type MaskedKernel<'a> = dyn Fn(u64, &[usize], &[OperandRef<'_>], Inputs<'_>) -> Result<()> + 'a;

/// Runs a kernel on each different operand once.
pub(super) fn run(
    kernel: &MaskedKernel<'_>,
    mask: u64,
    sizes: &[usize],
    outputs: &[OperandRef<'_>],
    slots: &[OperandRef<'_>],
) -> Result<()> {
    let (slots, reads) = distinct(slots)?;
    kernel(mask, sizes, outputs, Inputs { slots: &slots, reads: &reads })
}

/// Runs a kernel that writes tangents, with each mask, and adds what it writes to outputs of these sizes. The
/// calls after the first one write to memory of their own. `numbers` are operands after those of the loads.
pub(super) fn run_each_mask(
    pass: &Backward,
    kernel: &MaskedKernel<'_>,
    loads: &LoadOperands<'_>,
    numbers: &[OperandRef<'_>],
    (sizes, written): (&[usize], &[usize]),
    outputs: &[(OperandRef<'_>, DType)],
) -> Result<()> {
    let others = numbers.len() + outputs.len();
    let zeros = pass.zeros(sizes.len(), size_of::<u8>());
    let own: Vec<OperandRef<'_>> = outputs.iter().map(|(slot, _)| *slot).collect();
    for (number, &mask) in loads.masks(others)?.iter().enumerate() {
        let mut slots = loads.slots(mask, others, zeros);
        slots.extend(numbers);
        if number == 0 {
            run(kernel, mask, sizes, &own, &slots)?;
            continue;
        }
        let buffer = |slot: &OperandRef<'_>| Temporary::new(&*pass.inner, written, slot.element);
        let buffers = own.iter().map(buffer).collect::<Result<Vec<_>>>()?;
        let terms: Vec<OperandRef<'_>> = buffers.iter().map(Temporary::slot).collect();
        run(kernel, mask, sizes, &terms, &slots)?;
        for ((to, dtype), term) in outputs.iter().zip(&terms).filter(|((_, dtype), _)| has_gradient(*dtype)) {
            // SAFETY: (1) both have these sizes; (2) the output of a kernel overlaps neither itself nor new
            // memory; (3) the caller of the kernel has the only access to its outputs.
            unsafe { pass.inner.add(*dtype, written, *to, *term)? };
        }
    }
    Ok(())
}
