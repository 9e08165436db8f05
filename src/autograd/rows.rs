//! The backward pass of programs with row constants: each row constant is a reduction, and an operand of the
//! bodies that use it.
// Imports: `error`, `element`, `kernel`, `device`.

use super::backward::{Backward, Target, Temporary, Vjp, no_slope, saved_slots, variables};
use super::facts::{Facts, facts_of_reduction};
use super::record::FactsOfLoads;
use super::reduce::{ReduceBackward as _, ReducedBody};
use super::row_blocks::{ProgramOperands, run_by_blocks};
use super::small_vec::SmallVec;
use super::step::{BlockView, Step, has_gradient};
use super::vjp::ConstantsAsLoads;
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Body, Program, Reducer, Row, RowConstantCount, Slope};
use std::marker::PhantomData;
use std::ops::Range;

/// A kind of row constant, with the types of its body, its reducer and its device erased.
pub(super) trait ErasedConstant<D> {
    /// The constant that is the reduction of `body` by `R`.
    fn new<B: Body, R: Reducer<B::Out>>(body: ConstantsAsLoads<B>, device: D) -> Box<Self>;
}

/// A row constant with its backward pass.
pub(super) trait RecordedConstant: Send + Sync {
    fn facts(&self) -> &'static Facts;
    /// The values of all rows.
    fn forward(&self, b: &Backward, sizes: (&[usize], usize), slots: &[OperandRef<'_>]) -> Result<Temporary>;
    /// Adds the gradients by the loads of each target.
    fn backward(
        &self,
        b: &mut Backward,
        sizes: (&[usize], usize),
        slots: &[OperandRef<'_>],
        value_and_gradient: [OperandRef<'_>; 2],
        targets: Vec<(u64, Target<'_>)>,
    ) -> Result<()>;
}

struct RecordedConstantOf<B, R, D>(ConstantsAsLoads<B>, D, PhantomData<R>);

impl<D: Device> ErasedConstant<D> for dyn RecordedConstant {
    fn new<B: Body, R: Reducer<B::Out>>(body: ConstantsAsLoads<B>, device: D) -> Box<Self> {
        Box::new(RecordedConstantOf::<B, R, D>(body, device, PhantomData))
    }
}

/// The values of a row constant in all rows: the reduction of a body, of which `slots` are the operands.
pub(super) fn values_of_rows<B: Body, R: Reducer<B::Out>, D: Device>(
    b: &Backward,
    device: &D,
    body: &ConstantsAsLoads<B>,
    (sizes, row): (&[usize], usize),
    slots: &[OperandRef<'_>],
) -> Result<Temporary> {
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    let out = Temporary::new(&*b.inner, kept, size_of::<R::Out>())?;
    let reads: Vec<u8> = (0..slots.len() as u8).collect();
    let (axes, inputs) = (Reduction { kept, reduced }, Inputs { slots, reads: &reads });
    // SAFETY: (1) the operands of the constant at the sizes of the program; (2) new memory.
    unsafe { device.reduce::<_, R>(body, reducer_value::<R>(), axes, out.slot(), inputs)? };
    Ok(out)
}

impl<D: Device, B: Body, R: Reducer<B::Out>> RecordedConstant for RecordedConstantOf<B, R, D> {
    fn facts(&self) -> &'static Facts {
        facts_of_reduction::<_, R>(&self.0)
    }
    fn forward(&self, b: &Backward, sizes: (&[usize], usize), slots: &[OperandRef<'_>]) -> Result<Temporary> {
        values_of_rows::<B, R, D>(b, &self.1, &self.0, sizes, slots)
    }
    fn backward(
        &self,
        b: &mut Backward,
        sizes: (&[usize], usize),
        slots: &[OperandRef<'_>],
        [value, gradient]: [OperandRef<'_>; 2],
        targets: Vec<(u64, Target<'_>)>,
    ) -> Result<()> {
        let facts = facts_of_reduction::<_, R>(&self.0);
        let reduced = ReducedBody::<_, R, D, false>::new(self.0, self.1.clone());
        let extra = reduced.extra(b, sizes, slots, value)?;
        let zeros = b.zeros(sizes.0.len(), size_of::<B::Out>());
        let extra = extra.as_ref().map_or(zeros, Temporary::slot);
        for (mask, target) in targets {
            let numbers = [value, extra, gradient];
            reduced.vjp(b, facts, mask, sizes, slots, numbers, target)?;
        }
        Ok(())
    }
}

/// The value of a reducer, a type without state.
fn reducer_value<R: Copy>() -> R {
    const { assert!(size_of::<R>() == 0, "a reducer has no state") };
    // SAFETY: a `Copy` type of size 0 has one value, which has no bytes.
    unsafe { std::mem::zeroed() }
}

/// A row constant of a program, and its place among the loads.
pub(super) struct Placed<K: ?Sized> {
    pub(super) constant: Box<K>,
    pub(super) loads: Range<usize>,
    /// The constants that are directly inside of this one.
    pub(super) children: Vec<usize>,
    /// The name of its reducer, if that states no slope for values that have gradients.
    without_slope: Option<&'static str>,
    /// Of a recorded step: the operands that receive a gradient through its loads outside of its children.
    variables: Vec<(usize, u64)>,
}

impl<K: ?Sized> Placed<K> {
    /// The constant as a load of the body or program whose loads begin at `start`.
    pub(super) fn load(&self, start: usize) -> usize {
        self.loads.start - start
    }
}

/// The row constants of a program, inner ones before outer ones.
pub(super) struct RowConstants<K: ?Sized = dyn RecordedConstant> {
    next: usize,
    pub(super) all: Vec<Placed<K>>,
    /// The constants that are inside of no other.
    pub(super) outer: Vec<usize>,
    /// Of a recorded step: the operands that receive a gradient through the loads outside of all constants.
    variables: Vec<(usize, u64)>,
}

/// Collects the row constants of a program that runs on `D`.
pub(super) struct Collect<'a, K: ?Sized, D>(pub(super) &'a mut RowConstants<K>, pub(super) &'a D);

impl<K: ErasedConstant<D> + ?Sized, D: Device> Row for Collect<'_, K, D> {
    fn next(&mut self) -> &mut usize {
        &mut self.0.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let Collect(constants, device) = self;
        let inside = RowConstantCount::of(body).reduced;
        let is_refused = matches!(R::SLOPE, Slope::None) && has_gradient(R::Out::DTYPE);
        let constant = K::new::<B, R>(ConstantsAsLoads(*body), device.clone());
        constants.push(constant, B::LOADS, inside, is_refused.then_some(R::NAME));
        Default::default()
    }
}

impl<K: ?Sized> RowConstants<K> {
    pub(super) fn new() -> Self {
        RowConstants { next: 0, all: Vec::new(), outer: Vec::new(), variables: Vec::new() }
    }

    /// Adds a constant of `loads` loads, which has `inside` constants inside of it.
    fn push(&mut self, constant: Box<K>, loads: usize, inside: usize, without_slope: Option<&'static str>) {
        let from = self.all.len() - inside;
        let (children, outer) = self.outer.iter().partition(|&&constant| constant >= from);
        self.outer = outer;
        self.outer.push(self.all.len());
        let (loads, variables) = (self.next..self.next + loads, Vec::new());
        self.all.push(Placed { constant, loads, children, without_slope, variables });
    }

    /// Some of the loads, with the values of row constants in place of the loads from which they were
    /// computed.
    pub(super) fn with_constants<'s>(
        &self,
        all: &[OperandRef<'s>],
        loads: Range<usize>,
        constants: &[usize],
        values: &'s [Temporary],
        zeros: OperandRef<'s>,
    ) -> Vec<OperandRef<'s>> {
        let mut slots = all[loads.clone()].to_vec();
        for &constant in constants {
            let placed = &self.all[constant];
            let inside = placed.load(loads.start)..placed.loads.end - loads.start;
            slots[inside.clone()].fill(zeros);
            slots[inside.start] = values[constant].slot();
        }
        slots
    }
}

impl RowConstants {
    /// Collects the row constants of a program, and finds the operands that receive a gradient.
    ///
    /// # Errors
    /// [`Error::Value`](crate::Error::Value) if a reducer states no slope and reduces values that depend on a
    /// variable.
    pub(super) fn collect<P: Program, D: Device>(
        &mut self,
        mut program: P,
        device: &D,
        step: &Step,
        loads: FactsOfLoads<'_>,
    ) -> Result<()> {
        program.prepare_row(&mut Collect(self, device));
        self.find_variables(step, loads)
    }

    fn find_variables(&mut self, step: &Step, (facts, reads): FactsOfLoads<'_>) -> Result<()> {
        // Inner constants come before outer ones.
        let mut depends: Vec<bool> = Vec::new();
        for constant in 0..self.all.len() {
            let Placed { constant: kind, loads, children, without_slope, .. } = &self.all[constant];
            let facts = kind.facts();
            let of_child =
                |&child: &usize| depends[child] && facts.slopes[self.all[child].load(loads.start)].is_some();
            let variables = self.variables_of(reads, loads.clone(), children, step, facts);
            let is_active = !variables.is_empty() || children.iter().any(of_child);
            match without_slope {
                Some(name) if is_active => return Err(no_slope(name)),
                _ => depends.push(is_active),
            }
            self.all[constant].variables = variables;
        }
        self.variables = self.variables_of(reads, 0..reads.len(), &self.outer, step, facts);
        Ok(())
    }

    /// The operands that receive a gradient through the loads that are not inside of a constant.
    fn variables_of(
        &self,
        reads: &[u8],
        loads: Range<usize>,
        constants: &[usize],
        step: &Step,
        facts: &Facts,
    ) -> Vec<(usize, u64)> {
        let start = loads.start;
        let inside = constants.iter().flat_map(|&constant| self.all[constant].loads.clone());
        let inside = inside.fold(0, |mask, load| mask | 1u64 << (load - start));
        let found = variables(reads, loads, step, facts);
        found
            .iter()
            .map(|&(operand, mask)| (operand, mask & !inside))
            .filter(|(_, mask)| *mask != 0)
            .collect()
    }
}

/// A program with row constants, whose backward pass runs on all rows or on some.
struct RowsBackward<'a> {
    step: &'a Step,
    program: &'a dyn Vjp,
    facts: &'static Facts,
    constants: &'a RowConstants,
    /// The number of axes of a row.
    row: usize,
}

/// The backward function of a program with row constants, of which `row` axes are a row. `taken` has the
/// gradients of outputs that were updated in place.
pub(super) fn rows_backward(
    b: &mut Backward,
    step: &Step,
    program: &dyn Vjp,
    facts: &'static Facts,
    constants: &RowConstants,
    (row, reads): (usize, &[u8]),
    taken: &[Option<Temporary>],
) -> Result<()> {
    let sizes = &step.sizes[..];
    let saved = saved_slots(b, step);
    let loads: SmallVec<OperandRef<'_>> = reads.iter().map(|&k| saved[k as usize]).collect();
    let outputs = step.outputs.iter().enumerate();
    let gradients: SmallVec<OperandRef<'_>> = outputs
        .map(|(k, output)| {
            let zeros = b.zeros(sizes.len(), output.view.element);
            match taken.get(k) {
                Some(copy) => copy.as_ref().map_or(zeros, Temporary::slot),
                None => b.gradient(&output.view).unwrap_or(zeros),
            }
        })
        .collect();
    // An operand without a slope has no gradient, not one of zeros.
    let is_reached = |operand| {
        let lists = constants.all.iter().map(|placed| &placed.variables).chain([&constants.variables]);
        lists.flatten().any(|&(reached, _)| reached == operand)
    };
    let inputs = step.inputs.iter().enumerate();
    let views: Vec<Option<BlockView>> =
        inputs.map(|(k, input)| input.view.clone().filter(|_| is_reached(k))).collect();
    let operands = ProgramOperands { sizes, loads: &loads, gradients: &gradients, views: &views };
    let rows = RowsBackward { step, program, facts, constants, row };
    let pass = |b: &mut Backward, operands: ProgramOperands<'_>| rows.run(b, operands);
    if run_by_blocks(b, operands, sizes.len() - row, &pass)? {
        return Ok(());
    }
    pass(b, operands)
}

impl RowsBackward<'_> {
    fn run(&self, b: &mut Backward, operands: ProgramOperands<'_>) -> Result<()> {
        let RowsBackward { constants, row, .. } = *self;
        let ProgramOperands { sizes, loads: all, .. } = operands;
        let zeros = b.zeros(sizes.len(), size_of::<u8>());
        let mut values: Vec<Temporary> = Vec::new();
        for placed in &constants.all {
            let slots = constants.with_constants(all, placed.loads.clone(), &placed.children, &values, zeros);
            let value = placed.constant.forward(b, (sizes, row), &slots)?;
            values.push(value.broadcast(row));
        }
        // The gradients of the constants.
        let mut gradients: Vec<Option<Temporary>> = constants.all.iter().map(|_| None).collect();
        self.run_main(b, operands, &values, &mut gradients)?;
        // Outer constants first: they contribute to the gradients of inner ones.
        for constant in (0..constants.all.len()).rev() {
            let Some(gradient) = gradients[constant].take() else { continue };
            let gradient = gradient.broadcast(row);
            let placed = &constants.all[constant];
            let (loads, children) = (placed.loads.clone(), &placed.children);
            let of_constant = placed.constant.facts();
            let slots = constants.with_constants(all, loads.clone(), children, &values, zeros);
            let mut targets: Vec<(u64, Target<'_>)> = Vec::new();
            for &(operand, mask) in &placed.variables {
                if let Some(view) = &operands.views[operand] {
                    targets.push((mask, Target::BlockView(view)));
                }
            }
            let places = gradients.iter_mut().enumerate();
            for (child, place) in places.filter(|(child, _)| children.contains(child)) {
                let k = constants.all[child].load(loads.start);
                if of_constant.slopes[k].is_some() {
                    targets.push((1 << k, Target::Rows(place, of_constant.loads[k])));
                }
            }
            let numbers = [values[constant].slot(), gradient.slot()];
            placed.constant.backward(b, (sizes, row), &slots, numbers, targets)?;
        }
        Ok(())
    }

    /// The gradients by the operands and the constants that are inside of no other constant.
    fn run_main(
        &self,
        b: &mut Backward,
        operands: ProgramOperands<'_>,
        values: &[Temporary],
        gradients: &mut [Option<Temporary>],
    ) -> Result<()> {
        let RowsBackward { step, program, facts, constants, row } = *self;
        let sizes = operands.sizes;
        let (kept, reduced) = sizes.split_at(sizes.len() - row);
        // An output with stride 0 along the row is one value for each row.
        let is_constant = |view: &BlockView| {
            view.stride[kept.len()..].iter().zip(reduced).all(|(&stride, &size)| stride == 0 || size == 1)
        };
        let one_value = row > 0 && step.outputs.iter().all(|output| is_constant(&output.view));
        let (main, main_row) = if one_value { (kept, 0) } else { (sizes, row) };
        let (loads, zeros) = (operands.loads, b.zeros(sizes.len(), size_of::<u8>()));
        let mut slots = constants.with_constants(loads, 0..loads.len(), &constants.outer, values, zeros);
        slots.extend(operands.gradients);
        slots.iter_mut().for_each(|slot| slot.stride = &slot.stride[..main.len()]);
        for &(operand, mask) in &constants.variables {
            if let Some(view) = &operands.views[operand] {
                let view = BlockView { stride: SmallVec::new(&view.stride[..main.len()]), ..view.clone() };
                b.vjp(program, facts, mask, (main, 0), &slots, Target::BlockView(&view))?;
            }
        }
        for &constant in &constants.outer {
            let k = constants.all[constant].load(0);
            if facts.slopes[k].is_some() {
                let target = Target::Rows(&mut gradients[constant], facts.loads[k]);
                b.vjp(program, facts, 1 << k, (main, main_row), &slots, target)?;
            }
        }
        Ok(())
    }
}
