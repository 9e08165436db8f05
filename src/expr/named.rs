//! Kernels of operators that are chosen by name, over operands without their types. The code around the
//! kernels is compiled once for each device, not once for each operator.
// Imports: `error`, `element`, `device`, `tensor`.

use super::contiguous::CONTIGUOUS_OPERANDS;
use super::leaf_list::{KernelArgs, LeafList};
use super::operand::Leaves as _;
use super::reduce::LeafReduction;
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::element::Element;
use crate::error::Result;
use crate::tensor::{Leaf, Tensor};

/// Runs an operator: [`Device::map_by_name`] of its program.
pub(crate) type MapFn<D> =
    unsafe fn(device: &D, sizes: &[usize], outputs: &[OperandRef<'_>], inputs: Inputs<'_>) -> Result<()>;
/// Runs a reducer: [`Device::reduce_by_name`].
pub(crate) type ReduceFn<D> =
    unsafe fn(device: &D, axes: Reduction<'_>, output: OperandRef<'_>, inputs: Inputs<'_>) -> Result<()>;

/// A new tensor with the values of an operator, in elements `W` of the same width.
///
/// # Safety
/// 1. `run` takes elements of the leaves, in order.
/// 2. Its outputs are as wide as `W`.
pub(crate) unsafe fn eval_named<W: Element, D: Device>(
    op: &'static str,
    leaves: &[Leaf<'_, 8, D>],
    device: &D,
    run: MapFn<D>,
) -> Result<Tensor<W, 8, D>> {
    let mut list = LeafList::<8, D, CONTIGUOUS_OPERANDS>::new(op, device, 1);
    leaves.iter().for_each(|&leaf| list.add(leaf));
    let size = list.size()?;
    // SAFETY: (1) and (2) are the caller's promises; the output is new.
    list.eval(size, None, &mut |args| unsafe { run(device, args.sizes, args.outputs, args.inputs) })
}

/// A new tensor with an operand reduced over the marked axes, in elements `W` of the same width; `needs`
/// states that a reduction of no elements has no value.
///
/// # Safety
/// As [`eval_named`].
pub(crate) unsafe fn reduce_named<W: Element, D: Device>(
    (op, needs): (&'static str, bool),
    leaf: Leaf<'_, 16, D>,
    marked: [bool; 16],
    run: ReduceFn<D>,
) -> Result<Tensor<W, 8, D>> {
    let device = leaf.device();
    let mut list = LeafList::<16, D, CONTIGUOUS_OPERANDS>::new(op, device, 1);
    list.add(leaf);
    let reduction = LeafReduction::from_operands(list, marked, size_of::<W>(), needs)?;
    // The strides are in the order of `kept` and `reduced`, and the output is new.
    reduction.eval(&mut |KernelArgs { sizes, row, outputs, inputs }| {
        let (kept, reduced) = sizes.split_at(sizes.len() - row);
        let output = OperandRef { stride: &outputs[0].stride[..kept.len()], ..outputs[0] };
        // SAFETY: (1) and (2) are the caller's promises; the output is new.
        unsafe { run(device, Reduction { kept, reduced }, output, inputs) }
    })
}
