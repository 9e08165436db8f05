//! Forward mode of programs with row constants: the tangent of each row constant is a reduction, and an
//! operand of the bodies that use it.
// Imports: `error`, `element`, `kernel`, `device`, `autograd`.

use super::loads::{LoadOperands, MaskedKernel};
use super::outputs::{TangentBuffers, tangents_only};
use super::reduce::ReduceKernels;
use super::state::TangentOperands;
use crate::autograd::backward::no_slope;
use crate::autograd::backward::{Backward, Temporary};
use crate::autograd::facts::{Facts, facts_of_reduction};
use crate::autograd::rows::{ErasedConstant, RowConstants, values_of_rows};
use crate::autograd::state::has_gradient;
use crate::autograd::vjp::ConstantsAsLoads;
use crate::device::{Device, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, Slope};
use std::marker::PhantomData;
use std::ops::Range;

/// A row constant with its tangent.
pub(super) trait TangentConstant {
    /// The values of all rows.
    fn values(
        &self,
        pass: &Backward,
        sizes: (&[usize], usize),
        slots: &[OperandRef<'_>],
    ) -> Result<Temporary>;
    /// The tangents of all rows, if the constant depends on a tangent.
    fn tangents(
        &self,
        pass: &Backward,
        sizes: (&[usize], usize),
        loads: LoadOperands<'_>,
        values: OperandRef<'_>,
    ) -> Result<Option<Temporary>>;
}

struct TangentConstantOf<B, R, D>(ConstantsAsLoads<B>, D, PhantomData<R>);

impl<D: Device> ErasedConstant<D> for dyn TangentConstant {
    fn new<B: Body, R: Reducer<B::Out>>(body: ConstantsAsLoads<B>, device: D) -> Box<Self> {
        Box::new(TangentConstantOf::<B, R, D>(body, device, PhantomData))
    }
}

impl<D: Device, B: Body, R: Reducer<B::Out>> TangentConstant for TangentConstantOf<B, R, D> {
    fn values(
        &self,
        pass: &Backward,
        sizes: (&[usize], usize),
        slots: &[OperandRef<'_>],
    ) -> Result<Temporary> {
        values_of_rows::<B, R, D>(pass, &self.1, &self.0, sizes, slots)
    }
    fn tangents(
        &self,
        pass: &Backward,
        (sizes, row): (&[usize], usize),
        mut loads: LoadOperands<'_>,
        values: OperandRef<'_>,
    ) -> Result<Option<Temporary>> {
        loads.keep(facts_of_reduction::<_, R>(&self.0));
        if !has_gradient(R::Out::DTYPE) || !loads.has_tangents() {
            return Ok(None);
        }
        if const { matches!(R::SLOPE, Slope::None) } {
            return Err(no_slope(R::NAME));
        }
        let out = Temporary::new(&*pass.inner, &sizes[..sizes.len() - row], size_of::<R::Out>())?;
        let kernels = ReduceKernels::<_, R, D, false>::new(&self.0, &self.1);
        kernels.tangents(pass, (sizes, row), &loads, values, out.slot())?;
        Ok(Some(out))
    }
}

/// The row constants of a program, with the values and tangents of those that were computed.
struct Constants {
    constants: RowConstants<dyn TangentConstant>,
    values: Vec<Temporary>,
    tangents: Vec<Option<Temporary>>,
}

impl Constants {
    /// Some of the loads, with constants in place of the loads from which they were computed.
    fn loads<'s>(
        &'s self,
        all: &LoadOperands<'s>,
        range: Range<usize>,
        constants: &[usize],
        zeros: OperandRef<'s>,
    ) -> LoadOperands<'s> {
        let values =
            self.constants.with_constants(&all.values, range.clone(), constants, &self.values, zeros);
        let mut tangents = all.tangents[range.clone()].to_vec();
        for &constant in constants {
            let placed = &self.constants.all[constant];
            let inside = placed.load(range.start)..placed.loads.end - range.start;
            tangents[inside.clone()].fill(None);
            tangents[inside.start] = self.tangents[constant].as_ref().map(Temporary::slot);
        }
        LoadOperands { values, tangents }
    }

    /// Computes all row constants and their tangents.
    fn compute(
        pass: &Backward,
        constants: RowConstants<dyn TangentConstant>,
        (sizes, row): (&[usize], usize),
        all: &LoadOperands<'_>,
    ) -> Result<Self> {
        let mut constants = Constants { constants, values: Vec::new(), tangents: Vec::new() };
        for number in 0..constants.constants.all.len() {
            let placed = &constants.constants.all[number];
            let zeros = pass.zeros(sizes.len(), size_of::<u8>());
            let loads = constants.loads(all, placed.loads.clone(), &placed.children, zeros);
            let values = placed.constant.values(pass, (sizes, row), &loads.values)?.broadcast(row);
            let tangents = placed.constant.tangents(pass, (sizes, row), loads, values.slot())?;
            constants.values.push(values);
            constants.tangents.push(tangents.map(|tangents| tangents.broadcast(row)));
        }
        Ok(constants)
    }
}

/// Writes the tangents of a program with row constants, and lets `values` write its values.
#[allow(clippy::too_many_arguments)]
pub(super) fn run(
    pass: &Backward,
    kernel: &MaskedKernel<'_>,
    constants: RowConstants<dyn TangentConstant>,
    facts: &Facts,
    (sizes, row): (&[usize], usize),
    all: &LoadOperands<'_>,
    operands: &TangentOperands<'_>,
    values: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let constants = Constants::compute(pass, constants, (sizes, row), all)?;
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    // An output with stride 0 along the row is one value for each row.
    let is_constant = |slot: &OperandRef<'_>| {
        slot.stride[kept.len()..].iter().zip(reduced).all(|(&stride, &size)| stride == 0 || size == 1)
    };
    let is_one_value = row > 0 && operands.outputs.iter().all(is_constant);
    let main = if is_one_value { kept } else { sizes };
    let zeros = pass.zeros(sizes.len(), size_of::<u8>());
    let mut loads = constants.loads(all, 0..all.values.len(), &constants.constants.outer, zeros);
    loads.keep(facts);
    let cut = |slot: &mut OperandRef<'_>| slot.stride = &slot.stride[..main.len()];
    loads.values.iter_mut().for_each(cut);
    loads.tangents.iter_mut().flatten().for_each(cut);
    let mut tangents = operands.output_tangents.clone();
    tangents.iter_mut().flatten().for_each(cut);
    // The tangents are computed from the values before a program in place replaces these.
    let buffers = TangentBuffers::new(&*pass.inner, main, &operands.outputs)?;
    tangents_only(pass, kernel, main, &loads, &buffers.outputs(facts))?;
    values()?;
    // SAFETY: the tangents have the layouts of the outputs, to which the caller has the only access.
    unsafe { buffers.copy_to(&*pass.inner, main, &tangents) }
}
