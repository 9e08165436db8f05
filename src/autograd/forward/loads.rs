//! The operands of the loads of a kernel with their tangents, as many at once as a kernel has room for.
// Imports: `error`, `dtype`, `kernel`, `device`, `ops`, `autograd`.

use super::programs::has_tangent;
use super::state::Operands;
use crate::autograd::backward::{Buffer, distinct, with_element};
use crate::autograd::facts::Facts;
use crate::autograd::state::has_gradient;
use crate::device::{Device, Inputs, MAX_OPERANDS, OperandRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::{Call, InPlace, Input, Store};
use crate::ops::Add;
use std::marker::PhantomData;

/// Runs code for the mask of the loads that have tangents: for one or two loads, which are compiled for each
/// mask, and for more loads, of which all have tangents, some of them zeros.
macro_rules! with_mask {
    ($loads:expr, $first:expr, $mask:expr, $MASK:ident => $run:expr) => {
        if const { $loads == 1 } {
            const $MASK: u64 = 1;
            $run
        } else if const { $loads == 2 && !$first } && $mask == 2 {
            const $MASK: u64 = 2;
            $run
        } else if const { $loads == 2 } && $mask == 1 {
            const $MASK: u64 = 1;
            $run
        } else if const { $loads == 2 } {
            const $MASK: u64 = 3;
            $run
        } else if const { $loads > 2 } {
            const $MASK: u64 = $crate::autograd::forward::programs::ALL;
            $run
        } else {
            Ok(())
        }
    };
}
pub(super) use with_mask;

/// The operands of the loads of a kernel.
#[derive(Clone)]
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

    /// The mask of the tangents that are there.
    pub(super) fn mask(&self) -> u64 {
        let bit = |(k, tangent): (usize, &Option<OperandRef<'_>>)| u64::from(tangent.is_some()) << k.min(63);
        self.tangents.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
    }

    /// The operands of a kernel whose loads with a tangent are those of `mask`: each value, followed by its
    /// tangent, or by `zeros`.
    pub(super) fn slots(&self, mask: u64, zeros: OperandRef<'a>) -> Vec<OperandRef<'a>> {
        let mut slots = Vec::with_capacity(2 * self.values.len());
        for (k, (value, tangent)) in self.values.iter().zip(&self.tangents).enumerate() {
            slots.push(*value);
            if has_tangent(mask, k) {
                slots.push(tangent.unwrap_or(OperandRef { element: value.element, ..zeros }));
            }
        }
        slots
    }

    /// The loads with as many of their tangents at once as fit into one kernel, whose other operands are
    /// `others`.
    ///
    /// # Errors
    /// [`Error::Operands`] if the values leave no room for a tangent.
    pub(super) fn groups(&self, others: usize, zeros: OperandRef<'a>) -> Result<Vec<Loads<'a>>> {
        let none = || Loads { values: self.values.clone(), tangents: vec![None; self.values.len()] };
        let fits = |group: &Loads<'a>| {
            let slots = group.slots(super::programs::ALL, zeros);
            distinct(&slots).is_ok_and(|(slots, _)| slots.len() + others <= MAX_OPERANDS)
        };
        if fits(self) {
            return Ok(vec![self.clone()]);
        }
        let (mut groups, mut group) = (Vec::new(), none());
        for (k, tangent) in self.tangents.iter().enumerate().filter(|(_, tangent)| tangent.is_some()) {
            group.tangents[k] = *tangent;
            if !fits(&group) {
                group.tangents[k] = None;
                groups.push(std::mem::replace(&mut group, none()));
                group.tangents[k] = *tangent;
            }
            if !fits(&group) {
                return Err(Error::Operands { op: "jvp", limit: MAX_OPERANDS - 1 });
            }
        }
        groups.push(group);
        groups.retain(Loads::has_tangents);
        Ok(groups)
    }
}

/// Calls `run` with each group of tangents and adds what it writes to outputs of these elements. The calls
/// after the first one write to memory of their own.
pub(super) fn sum_of_groups<'a, D: Device>(
    inner: &D,
    groups: &[Loads<'a>],
    sizes: &[usize],
    outputs: &[(OperandRef<'_>, DType)],
    run: &mut dyn FnMut(&Loads<'a>, &[OperandRef<'_>]) -> Result<()>,
) -> Result<()> {
    let own: Vec<OperandRef<'_>> = outputs.iter().map(|(slot, _)| *slot).collect();
    for (number, group) in groups.iter().enumerate() {
        if number == 0 {
            run(group, &own)?;
            continue;
        }
        let buffer = |slot: &OperandRef<'_>| Buffer::<D>::new(inner, sizes, slot.element);
        let buffers = own.iter().map(buffer).collect::<Result<Vec<_>>>()?;
        let slots: Vec<OperandRef<'_>> = buffers.iter().map(Buffer::slot).collect();
        run(group, &slots)?;
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
