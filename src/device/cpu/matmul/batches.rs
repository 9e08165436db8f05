//! A plan as a batch of products: axes grouped and coalesced, the output's rows contiguous where possible.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::super::parallel;
use super::axis_group::AxisGroup;
use super::problem::GemmProblem;
use super::routes::{Algorithm, kernel};
use super::tasks::PARALLEL_MULTIPLY_ADDS;
use super::tiny::TinyProduct;
use super::{blocked, fallback};
use crate::device::OperandRef;
use crate::element::{Element, Number, bf16, f16};
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::DType;
use num_complex::Complex;
use std::any::TypeId;

/// Runs a plan.
///
/// # Safety
/// As [`Device::contract`](crate::device::Device::contract).
pub(in super::super) unsafe fn run<T: Number, L: Number, R: Number>(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<()> {
    if is_own::<T>()
        && is_own::<L>()
        && is_own::<R>()
        && let Some(tiny) =
            TinyProduct::from_plan([T::DTYPE, L::DTYPE, R::DTYPE], &plan, &output, &left, &right)
    {
        // SAFETY: the caller's promise, with elements of these types.
        unsafe { tiny.run() };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { batches(plan, output, left, right, product::<T, L, R>, product::<T, R, L>) }
}

/// Computes one product of a batch.
type ProductFn = unsafe fn(&GemmProblem) -> Result<()>;

/// Computes one product: by the best kernel for elements of this crate, and one sum after the other for
/// foreign elements.
///
/// # Safety
/// The operands hold elements `T`, `L` and `R` at every index, and the output overlaps neither of the others.
unsafe fn product<T: Number, L: Number, R: Number>(problem: &GemmProblem) -> Result<()> {
    let own = is_own::<T>() && is_own::<L>() && is_own::<R>();
    // SAFETY: the caller's promise, with elements of these types.
    if own && unsafe { by_own_kernel(problem, [T::DTYPE, L::DTYPE, R::DTYPE]) }? {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { fallback::run::<T, L, R>(problem) };
    Ok(())
}

/// Whether `T` is the element type of this crate with its `DTYPE`, and not a foreign type with the same
/// bytes.
pub(super) fn is_own<T: Element>() -> bool {
    let t = TypeId::of::<T>();
    macro_rules! any {
        ($($own:ty)*) => { $(t == TypeId::of::<$own>())||* };
    }
    any!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>)
}

/// Groups the axes of a plan and runs its products. `transposed` computes a product whose operands changed
/// places.
///
/// # Safety
/// As [`run`], with the elements of the functions.
unsafe fn batches(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
    product: ProductFn,
    transposed: ProductFn,
) -> Result<()> {
    if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
        return Ok(()); // the output is empty, whatever the other sizes are
    }
    let (b, m, k) = (plan.batch.len(), plan.m.len(), plan.k.len());
    let mut batch = AxisGroup::new();
    for (axis, &size) in plan.batch.iter().enumerate() {
        batch.push(size, [output.stride[axis], left.stride[axis], right.stride[axis]]);
    }
    let group = |sizes: &[usize], x: &OperandRef<'_>, x_at: usize, y: &OperandRef<'_>, y_at: usize| {
        let mut axes = AxisGroup::new();
        for (axis, &size) in sizes.iter().enumerate() {
            axes.push(size, [x.stride[x_at + axis], y.stride[y_at + axis]]);
        }
        axes
    };
    let mut problem = GemmProblem {
        m: group(plan.m, &output, b, &left, b),
        n: group(plan.n, &output, b + m, &right, b + k),
        k: group(plan.k, &left, b + m, &right, b),
        out: output.address,
        left: left.address.cast_const(),
        right: right.address.cast_const(),
    };
    // A batch axis that is broadcast in one operand is an axis of the other operand alone.
    batch.drain_if(|stride| stride[2] == 0, |size, stride| problem.m.push(size, [stride[0], stride[1]]));
    batch.drain_if(|stride| stride[1] == 0, |size, stride| problem.n.push(size, [stride[0], stride[2]]));
    batch.coalesce(0);
    for axes in [&mut problem.m, &mut problem.n, &mut problem.k] {
        axes.coalesce(0);
    }
    let nbytes = [output.element, left.element, right.element];
    // Contiguous columns of the output are written as vectors. Where its rows are contiguous instead, the
    // transposed product is computed.
    let contiguous = |axes: &AxisGroup<2>| axes.innermost().1[0] == 1;
    // Many rows that are contiguous along `k`, and windows of an image, are better read in place than packed.
    let in_place = problem.k.innermost().1[0] == 1
        && (problem.k.single_stride(0).is_none() || problem.m.total() / 8 > problem.n.total());
    if !contiguous(&problem.n) && contiguous(&problem.m) && !in_place {
        let swapped = |[a, b, c]: [usize; 3]| [a, c, b];
        // SAFETY: the caller's promise, with the operands exchanged.
        return unsafe {
            run_batch(
                &batch.reordered(swapped([0, 1, 2])),
                &problem.transposed(),
                swapped(nbytes),
                transposed,
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe { run_batch(&batch, &problem, nbytes, product) }
}

/// Computes the products of a batch, several in each task.
///
/// # Safety
/// As [`batches`]; `problem` is the first product, and `nbytes` are the sizes of the elements.
unsafe fn run_batch(
    batch: &AxisGroup<3>,
    problem: &GemmProblem,
    nbytes: [usize; 3],
    product: ProductFn,
) -> Result<()> {
    let count = batch.total();
    if count == 1 {
        // SAFETY: the caller's promise.
        return unsafe { product(problem) };
    }
    const PRODUCTS_PER_TASK: usize = 16;
    let parallel = problem.work().saturating_mul(count) >= PARALLEL_MULTIPLY_ADDS;
    let tasks = if parallel { 4 * parallel::count() } else { 1 };
    let share = (count / tasks).clamp(1, PRODUCTS_PER_TASK);
    let run = |task: usize| {
        let first = task * share;
        let here = share.min(count - first);
        let mut offsets = [[0; PRODUCTS_PER_TASK]; 3];
        for (operand, offsets) in offsets.iter_mut().enumerate() {
            batch.offsets(operand, first, &mut offsets[..here]);
        }
        for i in 0..here {
            let at = |operand: usize| offsets[operand][i].wrapping_mul(nbytes[operand] as isize);
            let mut problem = *problem;
            problem.out = problem.out.wrapping_offset(at(0));
            problem.left = problem.left.wrapping_offset(at(1));
            problem.right = problem.right.wrapping_offset(at(2));
            // SAFETY: one product of the batch, inside the operands of the caller's promise.
            unsafe { product(&problem)? };
        }
        Ok(())
    };
    match count.div_ceil(share) {
        tasks if parallel => parallel::for_each_independent_task(tasks, &run),
        tasks => (0..tasks).try_for_each(run),
    }
}

/// Computes a product of elements of this crate by the best kernel of this processor; whether there is one.
/// With `k = 0` there is none.
///
/// # Safety
/// As [`product`], with the elements that `types` names.
unsafe fn by_own_kernel(problem: &GemmProblem, types: [DType; 3]) -> Result<bool> {
    if problem.k.total() == 0 {
        return Ok(false);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match Algorithm::choose(problem, types) {
            Algorithm::Tiny(tiny) => tiny.run(),
            Algorithm::Gemv(gemv) => return gemv.run(types),
            Algorithm::Blocked => {
                let Some((kernel, fns)) = kernel(types) else { return Ok(false) };
                if blocked::is_faster_transposed(kernel, problem, fns) {
                    // Both operands have the elements of the kernel.
                    blocked::run(kernel, &problem.transposed(), fns, None)?;
                } else {
                    blocked::run(kernel, problem, fns, None)?;
                }
            }
        }
    }
    Ok(true)
}
