//! Kernels of operators that are chosen by name, over operands without their types: what stands around them is compiled once for
//! each device, not once for each operator.
//!
//! Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use super::eval::{Gathered, last, slots};
use super::runs::FEW;
use crate::device::{Device, Inputs, MAX_REDUCED, Reduction, Slot};
use crate::dim::{Dim, Stride};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::tensor::{Leaf, Tensor};

/// Runs an operator: [`Device::map_by_name`] of its program.
pub(crate) type MapFn<D> = unsafe fn(device: &D, sizes: &[usize], outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()>;
/// Runs a reducer: [`Device::reduce_by_name`].
///
/// To be called as that is.
pub(crate) type ReduceFn<D> = Box<dyn Fn(&D, Reduction<'_>, Slot<'_>, Inputs<'_>) -> Result<()> + Send + Sync>;

/// A fresh tensor with the values of an operator, as words `W`.
///
/// # Safety
/// `run` takes elements of the leaves, in order, and gives elements as wide as words.
pub(crate) unsafe fn eval_named<W: Element, D: Device>(
    op: &'static str,
    leaves: &[Leaf<'_, 8, D>],
    device: &D,
    run: MapFn<D>,
) -> Result<Tensor<W, 8, D>> {
    let mut gathered = Gathered::<8, D, FEW>::new(op, device, 1);
    leaves.iter().for_each(|&leaf| gathered.take(leaf));
    let size = gathered.size()?;
    let mut out = Tensor::unwritten(op, gathered.preserved(size), device)?;
    let leaf = out.fresh_leaf();
    // SAFETY: the caller's promise; the output is fresh.
    let run = |sizes: &[usize], _: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>| unsafe { run(device, sizes, outputs, inputs) };
    gathered.each(size, None, &[leaf], run)?;
    Ok(out)
}

/// A fresh tensor with an operand reduced over the marked axes, as words `W`; `needs` says that no elements have no value.
///
/// # Safety
/// As [`eval_named`].
pub(crate) unsafe fn reduce_named<W: Element, D: Device>(
    (op, needs): (&'static str, bool),
    leaf: Leaf<'_, 16, D>,
    gone: [bool; 16],
    run: &ReduceFn<D>,
) -> Result<Tensor<W, 8, D>> {
    let device = leaf.device();
    let mut gathered = Gathered::<16, D, FEW>::new(op, device, 1);
    gathered.take(leaf);
    let size = gathered.size()?;
    size.numel_of(op, size_of::<W>())?;
    let order = last(gone);
    let sizes = order.map(|axis| size.0[axis]);
    let (kept, reduced) = sizes.split_at(gone.iter().filter(|&&gone| !gone).count());
    if reduced.len() > MAX_REDUCED {
        let what = text(format_args!("{} axes, of which at most {MAX_REDUCED} go at once", reduced.len()));
        return Err(Error::Value { op, what });
    }
    if needs && reduced.contains(&0) && !kept.contains(&0) {
        return Err(Error::Empty { op, sizes: size.0.into() });
    }
    let kept_size: Dim<8> = Dim(std::array::from_fn(|axis| kept[axis]));
    let mut out = Tensor::unwritten(op, Layout::row_major(kept_size), device)?;
    let to = out.fresh_leaf();
    let strides: [Stride<16>; 1] = [leaf.layout().reordered(order).stride()];
    let (slots, stride) = (slots([leaf].into_iter(), &strides), to.layout().stride());
    // As it is to be called: strides stand in the order of `kept` and `reduced`, and the output is fresh.
    run(device, Reduction { kept, reduced }, to.slot(&stride.0), Inputs { slots: &slots, reads: &[0] })?;
    Ok(out)
}
