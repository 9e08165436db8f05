//! The operands of one kernel: broadcasts their sizes, finds their memory and passes their addresses and strides
//! to the device.
//!
//! Most code here is not generic over the expression: it is compiled once for each rank and device.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::operand::{Expr, Leaves, RowAxes};
use crate::device::{Device, Inputs, MAX_OPERANDS, OperandRef, same_device};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::Program;
use crate::layout::{Layout, joint_size};
use crate::tensor::{Leaf, Tensor};

/// The largest number of outputs of one program.
const MAX_OUTPUTS: usize = 6;

/// The operands of one kernel, at most `CAPACITY`: each distinct operand once, and the operand that each load
/// reads.
pub(super) struct LeafList<'a, const RANK: usize, D: Device, const CAPACITY: usize> {
    pub(super) op: &'static str,
    pub(super) device: &'a D,
    leaves: [Option<Leaf<'a, RANK, D>>; CAPACITY],
    count: usize,
    reads: [u8; CAPACITY],
    loads: usize,
    limit: usize,
    size: Dim<RANK>,
    /// Whether all operands added have one size and are row-major.
    all_contiguous: bool,
    error: Option<Error>,
}

impl<'a, const RANK: usize, D: Device, const CAPACITY: usize> Leaves<'a, RANK, D>
    for LeafList<'a, RANK, D, CAPACITY>
{
    #[inline(never)]
    fn add(&mut self, leaf: Leaf<'a, RANK, D>) {
        if self.error.is_none()
            && let Err(error) = self.try_add(leaf)
        {
            self.error = Some(error);
        }
    }
}

impl<'a, const RANK: usize, D: Device, const CAPACITY: usize> LeafList<'a, RANK, D, CAPACITY> {
    pub(super) fn new(op: &'static str, device: &'a D, outputs: usize) -> Self {
        LeafList {
            op,
            device,
            leaves: [None; CAPACITY],
            count: 0,
            reads: [0; CAPACITY],
            loads: 0,
            limit: MAX_OPERANDS - outputs,
            size: Dim([1; RANK]),
            all_contiguous: true,
            error: None,
        }
    }

    fn try_add(&mut self, leaf: Leaf<'a, RANK, D>) -> Result<()> {
        let op = self.op;
        same_device(op, self.device, leaf.device())?;
        if !leaf.is_allocated() {
            return Err(Error::Unallocated { op, sizes: leaf.layout().size().0.into() });
        }
        let size = leaf.layout().size();
        self.all_contiguous &= leaf.layout().is_contiguous() && (self.count == 0 || self.size == size);
        if self.size != size {
            self.size = joint_size(op, self.size, size)?;
        }
        let known = self.leaves[..self.count]
            .iter()
            .position(|known| known.is_some_and(|known| known.is_same(&leaf)));
        if self.loads == self.limit {
            return Err(Error::Operands { op, limit: self.limit });
        }
        let at = known.unwrap_or(self.count);
        if known.is_none() {
            self.leaves[at] = Some(leaf);
            self.count += 1;
        }
        self.reads[self.loads] = at as u8;
        self.loads += 1;
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = Leaf<'a, RANK, D>> {
        self.leaves[..self.count].iter().copied().flatten()
    }

    /// The sizes of the result, or the error of an operand.
    pub(super) fn size(&mut self) -> Result<Dim<RANK>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.size),
        }
    }

    /// The layout of a new result of the joint size, or the error of an operand.
    pub(super) fn layout(mut self) -> Result<Layout<RANK>> {
        let size = self.size()?;
        Ok(self.output_layout(size))
    }

    /// The layout of a new result: that of the first dense operand of full size, row-major if there is none.
    pub(super) fn output_layout(&self, size: Dim<RANK>) -> Layout<RANK> {
        if self.all_contiguous {
            return Layout::row_major(size);
        }
        let full = self
            .all()
            .find(|leaf| leaf.layout().size() == size && leaf.layout().is_non_overlapping_and_dense());
        full.map_or(Layout::row_major(size), |leaf| leaf.layout().preserved())
    }

    /// Runs `program` for every index inside `size`, along `rows` if it has row axes.
    ///
    /// # Safety
    /// 1. The leaves are the loads of `program` in order, and `outputs` its stores, with their element types.
    /// 2. The outputs have that size and overlap no input; the outputs of a program in place are its first
    ///    leaves.
    /// 3. A program that reduces along rows has `rows`.
    pub(super) unsafe fn map<P: Program>(
        &self,
        program: &P,
        size: Dim<RANK>,
        rows: Option<[bool; RANK]>,
        outputs: &[Leaf<'_, RANK, D>],
    ) -> Result<()> {
        // SAFETY: (1) to (3) are the caller's promises; views address only their memory, which their borrows
        // keep and protect.
        self.launch_map(size, rows, outputs, &mut |args| unsafe {
            self.device.map_apart(program, args.sizes, args.row, args.outputs, args.inputs)
        })
    }

    /// Passes the arguments of a program to `launch`. They are the same for every program, and this code is
    /// compiled once.
    #[inline(never)]
    fn launch_map(
        &self,
        size: Dim<RANK>,
        rows: Option<[bool; RANK]>,
        outputs: &[Leaf<'_, RANK, D>],
        launch: &mut LaunchFn<'_>,
    ) -> Result<()> {
        let mut slots = [NO_OPERAND; MAX_OUTPUTS];
        if rows.is_none()
            && self.all_contiguous
            && self.size == size
            && outputs.iter().all(|out| out.layout().is_contiguous())
        {
            // Every operand is contiguous: the device sees one axis.
            for (slot, out) in slots.iter_mut().zip(outputs) {
                *slot = out.slot(&[1]);
            }
            let mut inputs = [NO_OPERAND; CAPACITY];
            for k in 0..self.count {
                if let Some(leaf) = &self.leaves[k] {
                    inputs[k] = leaf.slot(&[1]);
                }
            }
            let inputs = Inputs { slots: &inputs[..self.count], reads: &self.reads[..self.loads] };
            return launch(KernelArgs {
                sizes: &[Layout::row_major(size).numel()],
                row: 0,
                outputs: &slots[..outputs.len()],
                inputs,
            });
        }
        let mut strides = [[0; RANK]; MAX_OUTPUTS];
        let order = rows.map(marked_last);
        for (stride, out) in strides.iter_mut().zip(outputs) {
            *stride = reordered(out.layout().stride().0, order);
        }
        for ((slot, stride), out) in slots.iter_mut().zip(&strides).zip(outputs) {
            *slot = out.slot(stride);
        }
        let row = rows.map_or(0, |rows| rows.iter().filter(|&&of_row| of_row).count());
        self.launch_strided(size, order, row, &slots[..outputs.len()], launch)
    }

    /// Passes the operands to `launch`, for every index inside `size` with its axes in `order`; the strides
    /// of the outputs are in that order already. The last `row` axes are those of a row.
    #[inline(never)]
    pub(super) fn launch_strided(
        &self,
        size: Dim<RANK>,
        order: Option<[usize; RANK]>,
        row: usize,
        outputs: &[OperandRef<'_>],
        launch: &mut LaunchFn<'_>,
    ) -> Result<()> {
        // An index loop: the compiler would make many copies of iterator adapters.
        let mut strides = [[0; RANK]; CAPACITY];
        for k in 0..self.count {
            if let Some(leaf) = &self.leaves[k] {
                strides[k] = reordered(leaf.layout().stretched(size).stride().0, order);
            }
        }
        let mut slots = [NO_OPERAND; CAPACITY];
        for k in 0..self.count {
            if let Some(leaf) = &self.leaves[k] {
                slots[k] = leaf.slot(&strides[k]);
            }
        }
        let inputs = Inputs { slots: &slots[..self.count], reads: &self.reads[..self.loads] };
        launch(KernelArgs { sizes: &reordered(size.0, order), row, outputs, inputs })
    }

    /// A new tensor of `size`, in the memory format of the operands, which `launch` writes; `rows` as for
    /// [`map`](Self::map).
    #[inline(never)]
    pub(super) fn eval<T: Element>(
        &self,
        size: Dim<RANK>,
        rows: Option<[bool; RANK]>,
        launch: &mut LaunchFn<'_>,
    ) -> Result<Tensor<T, RANK, D>> {
        let mut out = Tensor::uninit(self.op, self.output_layout(size), self.device)?;
        let leaf = out.fresh_leaf();
        self.launch_map(size, rows, &[leaf], launch)?;
        Ok(out)
    }

    /// Checks that the joint size broadcasts to `wanted`.
    #[inline(never)]
    pub(super) fn check_broadcasts_to(&mut self, wanted: Dim<RANK>) -> Result<()> {
        let size = self.size()?;
        if !joint_size(self.op, size, wanted).is_ok_and(|joint| joint == wanted) {
            return Err(Error::Output { op: self.op, sizes: size.0.into(), found: wanted.0.into() });
        }
        Ok(())
    }

    /// Checks that the joint size is `wanted`.
    #[inline(never)]
    pub(super) fn check_size_is(&mut self, wanted: Dim<RANK>) -> Result<()> {
        let size = self.size()?;
        if size != wanted {
            return Err(Error::Output { op: self.op, sizes: size.0.into(), found: wanted.0.into() });
        }
        Ok(())
    }
}

/// The arguments of a kernel: sizes and operands.
pub(super) struct KernelArgs<'a> {
    pub(super) sizes: &'a [usize],
    /// The number of axes, counted from the last, that form a row or are reduced.
    pub(super) row: usize,
    pub(super) outputs: &'a [OperandRef<'a>],
    pub(super) inputs: Inputs<'a>,
}

/// A closure that runs a kernel with these arguments.
pub(super) type LaunchFn<'r> = dyn FnMut(KernelArgs<'_>) -> Result<()> + 'r;

const NO_OPERAND: OperandRef<'static> = OperandRef { address: std::ptr::null_mut(), stride: &[], element: 0 };

/// The values of the axes, in the given order.
pub(super) fn reordered<V: Copy + Default, const RANK: usize>(
    values: [V; RANK],
    order: Option<[usize; RANK]>,
) -> [V; RANK] {
    let Some(order) = order else { return values };
    let mut ordered = [V::default(); RANK];
    for (place, &axis) in order.iter().enumerate() {
        ordered[place] = values[axis];
    }
    ordered
}

/// An order of the axes with the marked ones last.
pub(super) fn marked_last<const RANK: usize>(marked: [bool; RANK]) -> [usize; RANK] {
    let mut order = [0; RANK];
    let mut place = 0;
    for pass in [false, true] {
        for axis in (0..RANK).filter(|&axis| marked[axis] == pass) {
            order[place] = axis;
            place += 1;
        }
    }
    order
}

/// The axes along which parts of a program's expression are reduced.
pub(super) fn row_axes<const RANK: usize>(
    by_rows: bool,
    op: &'static str,
    size: Dim<RANK>,
    tell: impl FnOnce(&mut RowAxes<RANK>),
) -> Result<Option<[bool; RANK]>> {
    if !by_rows {
        return Ok(None);
    }
    let mut rows = RowAxes::new(op, size);
    tell(&mut rows);
    rows.found()
}

/// The operands of an expression. Inlined: the struct is large and is built in place.
#[inline(always)]
pub(super) fn leaves_of<'a, const RANK: usize, D: Device, E: Expr<RANK, D>, const CAPACITY: usize>(
    op: &'static str,
    expr: &'a E,
    device: &'a D,
) -> LeafList<'a, RANK, D, CAPACITY> {
    let mut list = LeafList::new(op, device, 1);
    expr.leaves(&mut list);
    list
}
