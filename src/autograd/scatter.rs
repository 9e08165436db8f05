//! The backward function of scatters.
//!
//! A scatter applies an operator `f(cell, x)` for each element. If both derivatives are constants, as those
//! of sums, differences and replacements, the gradient of the cells is gathered. Products and extremes, which
//! are recognized by the steps of the operator's body, are reductions of the values of each cell, the earlier
//! value among them, and have the slopes of these reducers.
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `ops`.

use super::backward::{Backward, Temporary};
use super::cells::{CellMap, CellReducer};
use super::moves::Addressing;
use super::small_vec::SmallVec;
use super::state::{
    BackwardFn, BackwardOperands, Before, Begun, BlockView, OutputType, Step, TapeState, has_gradient,
};
use crate::device::{Init, OperandRef};
use crate::dtype::DType;
use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result, text};
use crate::kernel::{Call, GatherPlan, Input, Op, Store, trace_program};
use crate::ops::{Maximum, Minimum, Mul};
use crate::scalar::{Dual, Graph, Lane, Need, Needs};
use std::marker::PhantomData;

/// The derivative of the operator of a scatter.
#[derive(Clone, Copy, Debug)]
enum ScatterKind {
    /// `cell` or 0, plus `slope · x`.
    Linear { keeps: bool, slope: f64 },
    /// The values of a cell are reduced.
    Reduced(CellReducer),
    /// There is none.
    None,
}

/// The operator of a scatter.
#[derive(Clone, Copy)]
pub(super) struct ScatterOperator {
    name: &'static str,
    dtype: DType,
    kind: ScatterKind,
}

impl ScatterOperator {
    pub(super) fn named<T: Element, F: Op<(T, T)>>() -> Result<Self> {
        let slope = |of: usize| {
            let load = |k: usize| Lane::from_raw((Need::load(k), (k == of).then_some(Need::ONE)));
            match F::call::<Dual<Needs>>((load(0), load(1))).raw().1 {
                Some(slope) => slope.literal,
                None => Some(0.0),
            }
        };
        let kind = match (slope(0), slope(1)) {
            (Some(kept @ (0.0 | 1.0)), Some(slope)) if slope == 1.0 || !T::DTYPE.is_complex() => {
                ScatterKind::Linear { keeps: kept == 1.0, slope }
            }
            _ => match T::DTYPE {
                DType::F32 => reduction_of::<f32>(&steps_of::<T, F>()?)?,
                DType::F64 => reduction_of::<f64>(&steps_of::<T, F>()?)?,
                _ => ScatterKind::None,
            },
        };
        Ok(ScatterOperator { name: F::NAME, dtype: T::DTYPE, kind })
    }

    /// The element type of the cells.
    pub(super) fn dtype(self) -> DType {
        self.dtype
    }

    /// Whether elements are added to the cells.
    pub(super) fn is_sum(self) -> bool {
        matches!(self.kind, ScatterKind::Linear { keeps: true, .. })
    }

    /// [`Error::Value`] unless the operator is linear: then it also applies to tangents.
    pub(super) fn ensure_linear(self, op: &'static str) -> Result<()> {
        if matches!(self.kind, ScatterKind::Linear { .. }) {
            return Ok(());
        }
        let ScatterOperator { name, dtype, .. } = self;
        let what = text(format_args!(
            "scatter of {dtype} with `{name}` has no derivative in forward mode; sums, differences and \
             replacements have"
        ));
        Err(Error::Value { op, what })
    }
}

/// The steps of the body of an operator.
fn steps_of<T: Element, F: Op<(T, T)>>() -> Result<Graph> {
    let two = (Input::<T>(PhantomData), Input::<T>(PhantomData));
    Ok(trace_program(&Store(Call::<F, _>::new(two)), &[0, 1])?.graph)
}

/// The reduction whose steps these are.
fn reduction_of<T: Number + Comparable>(steps: &Graph) -> Result<ScatterKind> {
    Ok(if *steps == steps_of::<T, Mul>()? {
        ScatterKind::Reduced(CellReducer::Product)
    } else if [steps_of::<T, Maximum>()?, steps_of::<T, Minimum>()?].contains(steps) {
        ScatterKind::Reduced(CellReducer::Extreme)
    } else {
        ScatterKind::None
    })
}

impl TapeState {
    /// Runs `run` on the cells, the elements and the indices of the inner device.
    pub(super) fn scatter(
        &self,
        operator: ScatterOperator,
        run: &dyn Fn([OperandRef<'_>; 3]) -> Result<()>,
        plan: GatherPlan<'_>,
        [cells, from, index]: [OperandRef<'_>; 3],
    ) -> Result<()> {
        let ScatterOperator { name, dtype, kind } = operator;
        let outputs = [(cells, OutputType::Is(dtype))];
        let begun = self.begin(plan.op, plan.sizes, &[from, index, cells], &outputs, &mut |active| {
            let to = |active: Option<DType>| active.filter(|_| has_gradient(dtype));
            let reads = if matches!(kind, ScatterKind::Reduced(_)) { 0b111 } else { 0b10 };
            let flow = BackwardOperands {
                to: SmallVec::new(&[to(active[0]), None, to(active[2])]),
                reads,
                ..BackwardOperands::default()
            };
            if matches!(kind, ScatterKind::None) && flow.to.iter().any(Option::is_some) {
                let what = text(format_args!(
                    "scatter of {dtype} with `{name}` has no derivative; sums, differences and replacements \
                     have, and of f32 and f64 products and extremes"
                ));
                return Err(Error::Value { op: plan.op, what });
            }
            Ok(flow)
        })?;
        let Begun { inputs, outputs, mut step, is_recorded, .. } = begun;
        run([outputs[0], inputs[0], inputs[1]])?;
        if !is_recorded {
            // Cells that are not addressed keep their values, and their gradients.
            return Ok(());
        }
        let addressing = Addressing::of(plan);
        // The gradient of the cells goes on to their earlier values, except where these were replaced.
        step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
        let run: BackwardFn = match kind {
            ScatterKind::Reduced(reducer) => {
                step.result = self.lock().save(&cells);
                Box::new(move |b, step| reduced_backward(b, step, addressing.plan(&step.sizes), reducer))
            }
            ScatterKind::Linear { keeps, slope } => {
                Box::new(move |b, step| linear_backward(b, step, addressing.plan(&step.sizes), keeps, slope))
            }
            ScatterKind::None => return Ok(()),
        };
        self.end(step, &[cells], run);
        Ok(())
    }
}

/// The backward function of an operator with constant derivatives.
fn linear_backward(
    b: &mut Backward,
    step: &Step,
    plan: GatherPlan<'_>,
    keeps: bool,
    slope: f64,
) -> Result<()> {
    let (Some(index), cells) = (&step.inputs[1].saved, &step.outputs[0].view) else { return Ok(()) };
    let Some(gradient) = b.gradient(cells) else { return Ok(()) };
    let (inner, dtype, sizes) = (b.inner.clone(), cells.dtype, &step.sizes[..]);
    if let Some(view) = &step.inputs[0].view {
        let found = Temporary::new(&*inner, sizes, gradient.element)?;
        // SAFETY: the operands of the forward pass, with the output in new memory.
        unsafe { inner.gather(plan, found.slot(), gradient, index.slot())? };
        if slope != 1.0 {
            let factor = inner.number(dtype, slope)?;
            let stride = vec![0; sizes.len()];
            let factor = OperandRef { address: factor.address(), stride: &stride, element: dtype.size() };
            // SAFETY: (1) one element for all; (2) to (4) the output is new memory.
            unsafe { inner.multiply(dtype, sizes, found.slot(), factor)? };
        }
        if keeps {
            b.add_values(view, sizes, found.slot())?;
        } else {
            let is_last = last_of_each_cell(b, plan, cells, index.slot())?;
            b.add(view, sizes, &mut |to| {
                // SAFETY: (1) booleans and gradients of the sizes; (2) and (3) new memory.
                unsafe { inner.keep_where(dtype, sizes, to, is_last.slot(), found.slot()) }
            })?;
        }
    }
    if !keeps {
        let zeros = b.zeros(sizes.len(), gradient.element);
        // SAFETY: as above, with the gradient of the cells as the output.
        unsafe { inner.scatter_replace(dtype, plan, gradient, zeros, index.slot())? };
    }
    Ok(())
}

/// The backward function of an operator that reduces the values of each cell.
fn reduced_backward(b: &mut Backward, step: &Step, plan: GatherPlan<'_>, reducer: CellReducer) -> Result<()> {
    let [from, index, earlier] = [0, 1, 2].map(|k| step.inputs[k].saved.as_ref());
    let Some(result) = &step.result else { return Ok(()) };
    let (Some(from), Some(index), Some(earlier)) = (from, index, earlier) else { return Ok(()) };
    let cells = &step.outputs[0].view;
    let Some(gradient) = b.gradient(cells) else { return Ok(()) };
    let (inner, dtype, sizes) = (b.inner.clone(), cells.dtype, &step.sizes[..]);
    let (from, index) = (from.slot(), index.slot());
    let of_cells = |cells: OperandRef<'_>| {
        let to = Temporary::new(&*inner, sizes, cells.element)?;
        // SAFETY: the operands of the forward pass, with the output in new memory.
        unsafe { inner.gather(plan, to.slot(), cells, index)? };
        Ok::<_, Error>(to)
    };
    let (result, earlier, found) = (of_cells(result.slot())?, of_cells(earlier.slot())?, of_cells(gradient)?);
    let (result, earlier, found) = (result.slot(), earlier.slot(), found.slot());
    let extra = CellNumbers { b, cells, plan, index }.extra(reducer, [earlier, from], result)?;
    let vjp = |x: OperandRef<'_>, to: OperandRef<'_>| {
        // SAFETY: (1) operands of the sizes; (2) to (4) the output is new memory.
        unsafe { inner.map_cells(CellMap::Vjp(reducer), dtype, sizes, to, &[x, result, extra.slot(), found]) }
    };
    if step.inputs[2].view.is_some() {
        let rest = Temporary::new(&*inner, sizes, gradient.element)?;
        vjp(earlier, rest.slot())?;
        // SAFETY: as in the forward pass, with the gradient of the cells as the output. Elements with one
        // cell have the same value.
        unsafe { inner.scatter_replace(dtype, plan, gradient, rest.slot(), index)? };
    }
    match &step.inputs[0].view {
        Some(view) => b.add(view, sizes, &mut |to| vjp(from, to)),
        None => Ok(()),
    }
}

/// Reductions of numbers of the elements, for each cell.
struct CellNumbers<'a> {
    b: &'a Backward,
    cells: &'a BlockView,
    plan: GatherPlan<'a>,
    index: OperandRef<'a>,
}

impl CellNumbers<'_> {
    /// The extra number of the reducer's slope for the cell of each element.
    fn extra(
        &self,
        reducer: CellReducer,
        values: [OperandRef<'_>; 2],
        result: OperandRef<'_>,
    ) -> Result<Temporary> {
        if reducer == CellReducer::Extreme {
            return self.reduced(false, CellMap::IsExtreme, values.map(|x| vec![x, result]));
        }
        let product = self.reduced(true, CellMap::Nonzero, values.map(|x| vec![x]))?;
        let zeros = self.reduced(false, CellMap::IsZero, values.map(|x| vec![x]))?;
        self.map(CellMap::ProductIfOneZero, &[product.slot(), zeros.slot()])
    }

    /// The product or the sum of a function of the values of each cell, of the earlier value and of those of
    /// the elements.
    fn reduced(&self, is_product: bool, map: CellMap, values: [Vec<OperandRef<'_>>; 2]) -> Result<Temporary> {
        let CellNumbers { b, cells, plan, index } = *self;
        let [earlier, from] = [self.map(map, &values[0])?, self.map(map, &values[1])?];
        let all = b.inner.fresh(cells.nbytes, Init::Unspecified)?;
        let address = all.address().wrapping_add(cells.offset);
        let numbers = OperandRef { address, stride: &cells.stride, element: cells.dtype.size() };
        let to = Temporary::new(&*b.inner, plan.sizes, cells.dtype.size())?;
        // SAFETY: (1) memory of the layout of the cells; (2) the indices are those of the forward pass;
        // (3) and (4) no other code uses the memory.
        unsafe {
            b.inner.scatter_replace(cells.dtype, plan, numbers, earlier.slot(), index)?;
            match is_product {
                true => b.inner.scatter_multiply(cells.dtype, plan, numbers, from.slot(), index)?,
                false => b.inner.scatter_add(cells.dtype, plan, numbers, from.slot(), index)?,
            }
            b.inner.gather(plan, to.slot(), numbers, index)?;
        }
        Ok(to)
    }

    fn map(&self, map: CellMap, operands: &[OperandRef<'_>]) -> Result<Temporary> {
        let (inner, dtype) = (&*self.b.inner, self.cells.dtype);
        let to = Temporary::new(inner, self.plan.sizes, dtype.size())?;
        // SAFETY: (1) operands of the sizes; (2) to (4) the output is new memory.
        unsafe { inner.map_cells(map, dtype, self.plan.sizes, to.slot(), operands)? };
        Ok(to)
    }
}

/// For each element of a scatter by replacement, whether its cell has kept it: of several elements with one
/// cell, the last.
fn last_of_each_cell(
    b: &Backward,
    plan: GatherPlan<'_>,
    cells: &BlockView,
    index: OperandRef<'_>,
) -> Result<Temporary> {
    let numbers = b.positions(plan.sizes)?;
    let owners = Temporary::new(&*b.inner, plan.sizes, size_of::<i64>())?;
    let is_last = Temporary::new(&*b.inner, plan.sizes, size_of::<bool>())?;
    // A number for each cell, in the layout of the cells.
    let element = cells.dtype.size();
    let all = Temporary::new(&*b.inner, &[cells.nbytes / element], size_of::<i64>())?;
    let address = all.slot().address.wrapping_add(cells.offset / element * size_of::<i64>());
    let numbered = OperandRef { address, stride: &cells.stride, element: size_of::<i64>() };
    // SAFETY: (1) the numbers are in new memory; the cells have as many places as the block has elements,
    // with its layout; (2) the indices are those of the forward pass; (3) and (4) no other code uses the
    // memory.
    unsafe {
        b.inner.scatter_numbers(plan, numbered, numbers.slot(), index)?;
        b.inner.gather(plan, owners.slot(), numbered, index)?;
        b.inner.equal_numbers(plan.sizes, is_last.slot(), numbers.slot(), owners.slot())?;
    }
    Ok(is_last)
}
