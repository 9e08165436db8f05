//! Right operands that are packed into panels once and read by many products.
//!
//! The format of a panel depends on the three element types and on the processor, so only the kernels of this
//! processor can read it. A product has the bits of the same product with the matrix in contiguous rows: if
//! that product would not use panels, the matrix is unpacked first.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::axis_group::AxisGroup;
use super::batches::{is_own, run};
use super::blocked;
use super::panels::{PANEL_PADDING_BYTES, PanelBuffer};
use super::problem::GemmProblem;
use super::routes::{Algorithm, kernel};
use super::tasks::SyncPtr;
use crate::device::OperandRef;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::DType;

/// The element types of a product of two operands of `R` in `T`, if there are kernels that pack them. Complex
/// kernels read contiguous rows equally well.
fn types<T: Number, R: Number>() -> Option<[DType; 3]> {
    let packs = !matches!(R::DTYPE, DType::C32 | DType::C64);
    (packs && is_own::<T>() && is_own::<R>()).then_some([T::DTYPE, R::DTYPE, R::DTYPE])
}

/// A right operand with contiguous rows; the other operands are missing.
fn in_rows([k, n]: [usize; 2], right: *const u8) -> GemmProblem {
    let [mut columns, mut terms] = [AxisGroup::new(), AxisGroup::new()];
    columns.push(n, [1, 1]);
    terms.push(k, [1, n as isize]);
    GemmProblem {
        m: AxisGroup::new(),
        n: columns,
        k: terms,
        out: std::ptr::null_mut(),
        left: std::ptr::null(),
        right,
    }
}

/// Bytes of a right operand of `k` rows and `n` columns in panels; `None` where contiguous rows are as good:
/// a single column is read in place.
pub(in super::super) fn packed_nbytes<T: Number, R: Number>([k, n]: [usize; 2]) -> Option<usize> {
    if k == 0 || n <= 1 {
        return None;
    }
    let (kernel, _) = kernel(types::<T, R>()?)?;
    let panels = kernel.panel_layout(k, n);
    panels.nbytes.checked_mul(panels.count).and_then(|nbytes| nbytes.checked_add(PANEL_PADDING_BYTES))
}

/// Packs a right operand.
///
/// # Safety
/// As [`Device::pack`](crate::device::Device::pack).
pub(in super::super) unsafe fn pack<T: Number, R: Number>(
    [k, n]: [usize; 2],
    to: *mut u8,
    right: OperandRef<'_>,
) -> Result<()> {
    let mut problem = in_rows([k, n], right.address);
    let [mut columns, mut terms] = [AxisGroup::new(), AxisGroup::new()];
    columns.push(n, [1, right.stride[1]]);
    terms.push(k, [1, right.stride[0]]);
    (problem.n, problem.k) = (columns, terms);
    if let Some((kernel, fns)) = types::<T, R>().and_then(kernel) {
        // SAFETY: (1), (2) the caller's promise.
        unsafe { blocked::pack_all(kernel, &problem, fns, kernel.panel_layout(k, n), SyncPtr(to))? };
    }
    Ok(())
}

/// Unpacks a right operand into contiguous rows.
///
/// # Safety
/// As [`Device::unpack`](crate::device::Device::unpack).
pub(in super::super) unsafe fn unpack<T: Number, R: Number>(
    size: [usize; 2],
    to: *mut u8,
    packed: *const u8,
) -> Result<()> {
    let Some((kernel, fns)) = types::<T, R>().and_then(kernel) else { return Ok(()) };
    let ([k, n], nbytes) = (size, size_of::<R>());
    let panels = kernel.panel_layout(k, n);
    /// Rows that are unpacked together, so that reads and writes are contiguous spans of about a page.
    const ROWS: usize = 16;
    for row in (0..k).step_by(ROWS) {
        for panel in 0..panels.count {
            let first = panel * panels.width;
            let from = packed
                .wrapping_add(panel * panels.nbytes + row / kernel.depth * panels.width * kernel.unit_nbytes);
            let to = to.wrapping_add((row * n + first) * nbytes);
            // SAFETY: the caller's promise; `row` begins a unit, because units have 1, 2 or 4 rows.
            unsafe {
                (fns.unpack_right)(from, panels.width.min(n - first), ROWS.min(k - row), panels.width, to, n)
            };
        }
    }
    Ok(())
}

/// Runs a plan whose right operand was packed.
///
/// # Safety
/// As [`Device::contract_packed`](crate::device::Device::contract_packed).
pub(in super::super) unsafe fn run_packed<T: Number, R: Number>(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    packed: *const u8,
) -> Result<()> {
    let (Some(types), &[k], &[n]) = (types::<T, R>(), plan.k, plan.n) else {
        return Ok(()); // no other operands are packed
    };
    let mut problem = in_rows([k, n], std::ptr::null());
    let (mut rows, mut terms, mut columns) = (AxisGroup::new(), AxisGroup::new(), AxisGroup::new());
    for (axis, &size) in plan.m.iter().enumerate() {
        rows.push(size, [output.stride[axis], left.stride[axis]]);
    }
    let last = plan.m.len();
    terms.push(k, [left.stride[last], n as isize]);
    columns.push(n, [output.stride[last], 1]);
    rows.coalesce(0);
    (problem.m, problem.k, problem.n) = (rows, terms, columns);
    (problem.out, problem.left) = (output.address, left.address.cast_const());
    if problem.m.total() == 0 {
        return Ok(());
    }
    if !matches!(Algorithm::choose(&problem, types), Algorithm::Gemv(_) | Algorithm::Blocked) {
        let rows = PanelBuffer::new(k, n, size_of::<R>())?;
        // SAFETY: the caller's promise; the buffer has room for every element.
        unsafe { unpack::<T, R>([k, n], rows.start(), packed)? };
        let stride = [n as isize, 1];
        // SAFETY: the caller's promise; the unpacked right operand has every element.
        return unsafe {
            run::<T, R, R>(
                plan,
                output,
                left,
                OperandRef { address: rows.start(), stride: &stride, element: size_of::<R>() },
            )
        };
    }
    let Some((kernel, fns)) = kernel(types) else { return Ok(()) };
    if let (1, Some(row)) = (problem.m.total(), fns.row_by_panels) {
        // SAFETY: the caller's promise.
        return unsafe { row(&problem, packed, kernel.panel_layout(problem.k.total(), problem.n.total())) };
    }
    // SAFETY: as above.
    unsafe { blocked::run(kernel, &problem, fns, Some(packed)) }
}
