//! The operands of the loads of a kernel with their tangents, and the kernels for them.
// Imports: `error`, `dtype`, `kernel`, `device`, `ops`, `autograd`.

use super::programs::{MAX_WINDOWS, WINDOW, has_tangent, is_wide, room};
use super::state::Operands;
use crate::autograd::axes::Axes;
use crate::autograd::backward::{Buffer, with_element};
use crate::autograd::facts::Facts;
use crate::autograd::state::has_gradient;
use crate::device::{Device, Inputs, OperandRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::{Call, InPlace, Input, Store};
use crate::ops::Add;
use std::marker::PhantomData;

/// Runs code for the mask of the loads that have tangents. Kernels of one or two loads are compiled for each
/// mask. In kernels of more loads all have tangents, some of them zeros; in kernels without room for that, the
/// loads of a window.
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
pub(super) struct Loads<'a> {
    pub(super) values: Vec<OperandRef<'a>>,
    pub(super) tangents: Vec<Option<OperandRef<'a>>>,
}

/// Whether an output depends on a tangent.
pub(super) fn depends(facts: &Facts, reads: &[u8], active: &[Option<DType>]) -> bool {
    reads.iter().zip(&facts.slopes).any(|(&k, slope)| slope.is_some() && active[k as usize].is_some())
}

impl<'a> Loads<'a> {
    /// The operands of the loads, from those of the kernel, and the tangents on which an output depends.
    pub(super) fn new(operands: &Operands<'a>, reads: &[u8], facts: &Facts) -> Self {
        let mut loads = Loads::of_rows(operands, reads);
        loads.keep(facts);
        loads
    }

    /// As [`new`](Loads::new), with all tangents.
    pub(super) fn of_rows(operands: &Operands<'a>, reads: &[u8]) -> Self {
        let values = reads.iter().map(|&k| operands.inputs[k as usize]).collect();
        let tangents = reads.iter().map(|&k| operands.tangents[k as usize]).collect();
        Loads { values, tangents }
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

    /// The masks of the kernels that compute with all these tangents: one, unless a kernel with `others` other
    /// operands has no room for all.
    ///
    /// # Errors
    /// [`Error::Operands`] if the loads leave too little room.
    pub(super) fn masks(&self, others: usize) -> Result<Axes<u64>> {
        let loads = self.values.len();
        let bit = |(k, tangent): (usize, &Option<OperandRef<'_>>)| u64::from(tangent.is_some()) << k.min(63);
        if !is_wide(loads, others) {
            return Ok(Axes::new(&[self
                .tangents
                .iter()
                .enumerate()
                .map(bit)
                .fold(0, |mask, bit| mask | bit)]));
        }
        let room = room(loads, others);
        if room * MAX_WINDOWS < loads {
            return Err(Error::Operands { op: "jvp", limit: loads - 1 });
        }
        let mut masks = Axes::new(&[]);
        for (window, tangents) in self.tangents.chunks(room).enumerate() {
            if tangents.iter().any(Option::is_some) {
                masks.push(WINDOW + window as u64);
            }
        }
        Ok(masks)
    }

    /// The operands of a kernel with this mask and `others` other operands: each value, followed by its tangent
    /// if the mask has one, which may be `zeros`.
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

/// Calls `run` with each mask, and adds what it writes to outputs of these elements. The calls after the first
/// one write to memory of their own.
pub(super) fn sum_over_masks<D: Device>(
    inner: &D,
    masks: &[u64],
    sizes: &[usize],
    outputs: &[(OperandRef<'_>, DType)],
    run: &mut dyn FnMut(u64, &[OperandRef<'_>]) -> Result<()>,
) -> Result<()> {
    let own: Vec<OperandRef<'_>> = outputs.iter().map(|(slot, _)| *slot).collect();
    for (number, &mask) in masks.iter().enumerate() {
        if number == 0 {
            run(mask, &own)?;
            continue;
        }
        let buffer = |slot: &OperandRef<'_>| Buffer::<D>::new(inner, sizes, slot.element);
        let buffers = own.iter().map(buffer).collect::<Result<Vec<_>>>()?;
        let slots: Vec<OperandRef<'_>> = buffers.iter().map(Buffer::slot).collect();
        run(mask, &slots)?;
        for ((to, dtype), from) in outputs.iter().zip(&slots).filter(|((_, dtype), _)| has_gradient(*dtype)) {
            // SAFETY: (1) both have these sizes; (2) the output of a kernel overlaps neither itself nor new
            // memory; (3) the caller of the kernel has the only access to its outputs.
            unsafe { add_in_place(inner, *dtype, sizes, *to, *from)? };
        }
    }
    Ok(())
}

/// `to += from`, for elements `dtype`.
///
/// # Safety
/// As [`Device::map`].
pub(super) unsafe fn add_in_place<D: Device>(
    inner: &D,
    dtype: DType,
    sizes: &[usize],
    to: OperandRef<'_>,
    from: OperandRef<'_>,
) -> Result<()> {
    let inputs = Inputs { slots: &[to, from], reads: &[0, 1] };
    // SAFETY: the caller's promise; the program updates its first load in place.
    with_element!(dtype, T => unsafe {
        let program = InPlace(Store(Call::<Add, _>::new((Input::<T>(PhantomData), Input::<T>(PhantomData)))));
        inner.map(&program, sizes, 0, &[to], inputs)
    })
}
