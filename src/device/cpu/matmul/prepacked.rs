//! Right operands in the layout that the kernels read: panels, packed once and read by many products.
//!
//! What a panel holds follows from the three elements and the processor, so nothing but these kernels can read it. Products
//! have the bits of the same products with the matrix in rows: where these would not go by panels, neither do they.
// Imports: `error`, `device`, `element`, `kernel`, `scalar`.

use super::axis_group::AxisGroup;
use super::blocked::{self, GemmProblem, PanelLayout};
use super::kernels::SyncPtr;
use super::packing::{PANEL_PADDING_BYTES, PanelBuffer};
use super::{Algorithm, is_own, kernel, run};
use crate::device::OperandRef;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::DType;

/// The elements of a product of two operands of `R` in `T`, if there are kernels that pack them. Complex ones read rows as well.
fn types<T: Number, R: Number>() -> Option<[DType; 3]> {
    let packs = !matches!(R::DTYPE, DType::C32 | DType::C64);
    (packs && is_own::<T>() && is_own::<R>()).then_some([T::DTYPE, R::DTYPE, R::DTYPE])
}

/// Rows of `n` that stand one after the other.
fn in_rows([k, n]: [usize; 2], right: *const u8) -> GemmProblem {
    let [mut columns, mut along] = [AxisGroup::new(), AxisGroup::new()];
    columns.push(n, [1, 1]);
    along.push(k, [1, n as isize]);
    GemmProblem {
        m: AxisGroup::new(),
        n: columns,
        k: along,
        out: std::ptr::null_mut(),
        left: std::ptr::null(),
        right,
    }
}

/// Bytes of a right operand of `k` rows and `n` columns in panels; `None` where rows serve as well: one column is read where it
/// stands.
pub(in super::super) fn packed_nbytes<T: Number, R: Number>([k, n]: [usize; 2]) -> Option<usize> {
    if k == 0 || n <= 1 {
        return None;
    }
    let (form, _) = kernel(types::<T, R>()?)?;
    let panels = PanelLayout::of(form, k, n);
    panels.nbytes.checked_mul(panels.count).and_then(|nbytes| nbytes.checked_add(PANEL_PADDING_BYTES))
}

/// # Safety
/// As [`Device::pack`](crate::device::Device::pack).
pub(in super::super) unsafe fn pack<T: Number, R: Number>(
    [k, n]: [usize; 2],
    to: *mut u8,
    right: OperandRef<'_>,
) -> Result<()> {
    let mut product = in_rows([k, n], right.address);
    let [mut columns, mut along] = [AxisGroup::new(), AxisGroup::new()];
    columns.push(n, [1, right.stride[1]]);
    along.push(k, [1, right.stride[0]]);
    (product.n, product.k) = (columns, along);
    if let Some((form, transfer)) = types::<T, R>().and_then(kernel) {
        // SAFETY: the caller's promise.
        unsafe { blocked::pack_all(form, &product, transfer, PanelLayout::of(form, k, n), SyncPtr(to))? };
    }
    Ok(())
}

/// # Safety
/// As [`Device::unpack`](crate::device::Device::unpack).
pub(in super::super) unsafe fn unpack<T: Number, R: Number>(
    size: [usize; 2],
    to: *mut u8,
    packed: *const u8,
) -> Result<()> {
    let Some((form, transfer)) = types::<T, R>().and_then(kernel) else { return Ok(()) };
    let ([k, n], element) = (size, size_of::<R>());
    let panels = PanelLayout::of(form, k, n);
    /// Rows that are written together: what is read and what is written are runs of a page.
    const ROWS: usize = 16;
    for row in (0..k).step_by(ROWS) {
        for panel in 0..panels.count {
            let first = panel * panels.width;
            let from =
                packed.wrapping_add(panel * panels.nbytes + row / form.depth * panels.width * form.unit);
            let to = to.wrapping_add((row * n + first) * element);
            // SAFETY: the caller's promise; units have 1, 2 or 4 rows.
            unsafe {
                (transfer.back)(from, panels.width.min(n - first), ROWS.min(k - row), panels.width, to, n)
            };
        }
    }
    Ok(())
}

/// # Safety
/// As [`Device::contract_packed`](crate::device::Device::contract_packed).
pub(in super::super) unsafe fn run_packed<T: Number, R: Number>(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    packed: *const u8,
) -> Result<()> {
    let (Some(types), &[k], &[n]) = (types::<T, R>(), plan.k, plan.n) else { return Ok(()) }; // nothing else is packed
    let mut product = in_rows([k, n], std::ptr::null());
    let (mut rows, mut along, mut columns) = (AxisGroup::new(), AxisGroup::new(), AxisGroup::new());
    for (axis, &size) in plan.m.iter().enumerate() {
        rows.push(size, [output.stride[axis], left.stride[axis]]);
    }
    let last = plan.m.len();
    along.push(k, [left.stride[last], n as isize]);
    columns.push(n, [output.stride[last], 1]);
    (product.m, product.k, product.n) = (rows.coalesced(0), along, columns);
    (product.out, product.left) = (output.address, left.address.cast_const());
    if product.m.total() == 0 {
        return Ok(());
    }
    if !matches!(Algorithm::of(&product, types), Algorithm::Gemv(_) | Algorithm::PanelLayout) {
        let room = PanelBuffer::new(k, n, size_of::<R>())?;
        // SAFETY: the caller's promise, and room for every element.
        unsafe { unpack::<T, R>([k, n], room.at(), packed)? };
        let stride = [n as isize, 1];
        // SAFETY: the caller's promise, and a right operand of all elements.
        return unsafe {
            run::<T, R, R>(
                plan,
                output,
                left,
                OperandRef { address: room.at(), stride: &stride, element: size_of::<R>() },
            )
        };
    }
    let Some((form, transfer)) = kernel(types) else { return Ok(()) };
    if let (1, Some(row)) = (product.m.total(), transfer.row) {
        // SAFETY: the caller's promise.
        return unsafe { row(&product, packed, PanelLayout::of(form, product.k.total(), product.n.total())) };
    }
    // SAFETY: as above.
    unsafe { blocked::run(form, &product, transfer, Some(packed)) }
}
