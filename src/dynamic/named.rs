//! Operators on tensors whose types are known at run time, one for each element. On devices that interpret
//! they are graphs ([`Device::map_by_name`]): for an operator only the code that traces it is compiled.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`, `dynamic`.

use super::tensor::DynTensor;
use crate::device::{Device, Init, Inputs, OperandRef, Reduction, same_device};
use crate::dtype::DType;
use crate::element::{Element, Number};
use crate::error::{Error, Result, text};
use crate::expr::{MapFn, ReduceFn, eval_named, reduce_named};
use crate::kernel::{
    Call, ContractPlan, GatherPlan, IndexKind, IndexedAxes, Input, Op, Program, Reducer, Store,
};
use crate::ops::Add;
use crate::tensor::{Leaf, Tensor};
use num_complex::Complex;
use std::marker::PhantomData;

/// A program without data.
trait Plain: Program {
    const PROGRAM: Self;
}
macro_rules! plain {
    ($($($T:ident)+;)*) => { $(
        impl<F: Op<($($T,)+)>, $($T: Element),+> Plain for Store<Call<F, ($(Input<$T>,)+)>> {
            const PROGRAM: Self = Store(Call::new(($(Input::<$T>(PhantomData),)+)));
        }
    )* };
}
plain! {
    A;
    A B;
    A B C;
}

/// # Safety
/// As [`Device::map`].
unsafe fn map_of<P: Plain, D: Device>(
    device: &D,
    sizes: &[usize],
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { device.map_by_name(&P::PROGRAM, sizes, outputs, inputs) }
}

/// Makes a tensor of elements `$dtype` from a tensor of words of the same size.
macro_rules! by_width {
    ($dtype:expr, $W:ident => $tensor:expr) => {{
        macro_rules! of {
            ($word:ty) => {{
                type $W = $word;
                DynTensor::from($tensor)
            }};
        }
        let words = match $dtype.size() {
            1 => of!(u8),
            2 => of!(u16),
            4 => of!(u32),
            8 => of!(u64),
            _ => of!(Complex<f64>),
        };
        // SAFETY: the kernel wrote elements of this type, which have the size of the words.
        unsafe { words.renamed($dtype) }
    }};
}

/// The name of a device's type without its path.
fn name_of<D>() -> &'static str {
    let name = std::any::type_name::<D>();
    let path = name.split('<').next().unwrap_or(name);
    name.get(path.rfind("::").map_or(0, |at| at + 2)..).unwrap_or(name)
}

fn unlike<D: Device>(op: &'static str, of: DType, x: &DynTensor) -> Error {
    let expected = text(format_args!("{of} of at most 8 axes on {}", name_of::<D>()));
    Error::Type { op, expected, found: x.kind_in_words() }
}

/// An operand at rank 8 or 16, whose axes are at these places.
fn leaf<'a, const N: usize, D: Device>(
    op: &'static str,
    of: DType,
    x: &'a DynTensor,
    places: [Option<usize>; N],
) -> Result<Leaf<'a, N, D>> {
    let fits = x.rank() <= 8 && x.dtype() == of;
    x.leaf::<N, D>(if fits { places } else { [None; N] })
        .filter(|_| fits)
        .ok_or_else(|| unlike::<D>(op, of, x))
}

/// An elementwise operator: the types of its operands and of its result, and the function that runs it on
/// `D`.
pub(crate) struct NamedElementwise<D> {
    pub(crate) op: &'static str,
    pub(crate) operands: &'static [DType],
    out: DType,
    run: MapFn<D>,
}

impl<D> Clone for NamedElementwise<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for NamedElementwise<D> {}

impl<D: Device> NamedElementwise<D> {
    /// The operator `F` of one operand.
    pub(crate) const fn of_one<F: Op<(A,)>, A: Element>() -> Self {
        NamedElementwise {
            op: F::NAME,
            operands: &[A::DTYPE],
            out: F::Out::DTYPE,
            run: map_of::<Store<Call<F, (Input<A>,)>>, D>,
        }
    }
    /// The operator `F` of two operands.
    pub(crate) const fn of_two<F: Op<(A, B)>, A: Element, B: Element>() -> Self {
        let run: MapFn<D> = map_of::<Store<Call<F, (Input<A>, Input<B>)>>, D>;
        NamedElementwise { op: F::NAME, operands: &[A::DTYPE, B::DTYPE], out: F::Out::DTYPE, run }
    }
    /// The operator `F` of three operands.
    pub(crate) const fn of_three<F: Op<(A, B, C)>, A: Element, B: Element, C: Element>() -> Self {
        let run: MapFn<D> = map_of::<Store<Call<F, (Input<A>, Input<B>, Input<C>)>>, D>;
        NamedElementwise { op: F::NAME, operands: &[A::DTYPE, B::DTYPE, C::DTYPE], out: F::Out::DTYPE, run }
    }

    /// Applies it; the operands' ranks broadcast. `op` is the name in errors.
    ///
    /// # Errors
    /// [`Error::Type`] for operands of other types and for more than 8 axes; those of expressions.
    pub(crate) fn call(&self, op: &'static str, operands: &[&DynTensor]) -> Result<DynTensor> {
        if operands.len() != self.operands.len() {
            let what =
                text(format_args!("{} operands where {} are wanted", operands.len(), self.operands.len()));
            return Err(Error::Value { op, what });
        }
        let mut leaves = Vec::with_capacity(operands.len());
        for (x, &of) in operands.iter().zip(self.operands) {
            x.accessible(op)?;
            let new = 8usize.saturating_sub(x.rank());
            leaves.push(leaf::<8, D>(op, of, x, std::array::from_fn(|axis| axis.checked_sub(new)))?);
        }
        // Errors name the operands' own sizes, which are the last of those at rank 8.
        for (k, left) in operands.iter().enumerate() {
            let misfit = |right: &&&DynTensor| {
                let mut pairs = left.size().iter().rev().zip(right.size().iter().rev());
                pairs.any(|(a, b)| a != b && *a != 1 && *b != 1)
            };
            if let Some(right) = operands[k + 1..].iter().find(misfit) {
                return Err(Error::Sizes { op, left: left.size().into(), right: right.size().into() });
            }
        }
        let device = leaves[0].device();
        let rank = operands.iter().map(|x| x.rank()).max().unwrap_or(0);
        let of_rank = |error| match error {
            Error::Overflow { op, sizes, element } => {
                let sizes: Vec<usize> = sizes.as_slice().iter().map(|&size| size as usize).collect();
                Error::Overflow { op, sizes: sizes[sizes.len().saturating_sub(rank)..].into(), element }
            }
            other => other,
        };
        let out = by_width!(
            self.out,
            // SAFETY: the operands have the operator's element types.
            W => unsafe { eval_named::<W, D>(op, &leaves, device, self.run) }.map_err(of_rank)?
        );
        Ok(out.with_rank(rank))
    }
}

/// A reduction over axes, likewise.
pub(crate) struct Reducing<D> {
    pub(crate) op: &'static str,
    pub(crate) of: DType,
    out: DType,
    /// Whether an empty reduction has no value.
    needs: bool,
    run: ReduceFn<D>,
}

impl<D> Clone for Reducing<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Reducing<D> {}

impl<D: Device> Reducing<D> {
    /// The reducer `R`.
    pub(crate) fn of<R: Reducer<T> + Default, T: Element>() -> Self {
        /// # Safety
        /// As [`Device::reduce`].
        unsafe fn run<R: Reducer<T> + Default, T: Element, D: Device>(
            device: &D,
            axes: Reduction<'_>,
            output: OperandRef<'_>,
            inputs: Inputs<'_>,
        ) -> Result<()> {
            // SAFETY: the caller's promise.
            unsafe { device.reduce_by_name(&Input::<T>(PhantomData), R::default(), axes, output, inputs) }
        }
        Reducing {
            op: R::NAME,
            of: T::DTYPE,
            out: R::Out::DTYPE,
            needs: R::NEEDS_ELEMENTS,
            run: run::<R, T, D>,
        }
    }

    /// Reduces over some axes. An empty list reduces no axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range or twice, and as [`NamedElementwise::call`].
    pub(crate) fn call(&self, x: &DynTensor, axes: &[usize]) -> Result<DynTensor> {
        let op = self.op;
        let wrong =
            axes.iter().enumerate().find(|&(at, axis)| *axis >= x.rank() || axes[..at].contains(axis));
        if let Some((_, &axis)) = wrong {
            return Err(Error::Axis { op, axis, sizes: x.size().into() });
        }
        if x.rank() > 8 {
            return Err(unlike::<D>(op, self.of, x));
        }
        // The kept axes are at the places 0 to 7, the reduced ones at 8 to 15.
        let (mut places, kept) = ([None; 16], x.rank() - axes.len());
        let (mut stay, mut go) = (8 - kept, 16 - axes.len());
        for axis in 0..x.rank() {
            let place = if axes.contains(&axis) { &mut go } else { &mut stay };
            places[*place] = Some(axis);
            *place += 1;
        }
        x.ensure_allocated(op)?;
        let leaf = leaf::<16, D>(op, self.of, x, places)?;
        let gone = std::array::from_fn(|axis| axis >= 8);
        let of_x = |error| match error {
            Error::Empty { op, .. } => Error::Empty { op, sizes: x.size().into() },
            other => other,
        };
        let out = by_width!(
            self.out,
            // SAFETY: the operand has the reducer's element type.
            W => unsafe { reduce_named::<W, D>((op, self.needs), leaf, gone, self.run) }.map_err(of_x)?
        );
        Ok(out.with_rank(kept))
    }
}

/// The product of matrices, or of stacks of matrices, of one element type.
pub(crate) struct Product<D> {
    pub(crate) of: DType,
    run: unsafe fn(&D, ContractPlan<'_>, OperandRef<'_>, OperandRef<'_>, OperandRef<'_>) -> Result<()>,
}

impl<D> Clone for Product<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Product<D> {}

impl<D: Device> Product<D> {
    /// The product of elements `T`.
    pub(crate) const fn of<T: Number>() -> Self {
        /// # Safety
        /// As [`Device::contract`].
        unsafe fn run<T: Number, D: Device>(
            device: &D,
            plan: ContractPlan<'_>,
            out: OperandRef<'_>,
            left: OperandRef<'_>,
            right: OperandRef<'_>,
        ) -> Result<()> {
            // SAFETY: the caller's promise.
            unsafe { device.contract::<T, T, T>(plan, out, left, right) }
        }
        Product { of: T::DTYPE, run: run::<T, D> }
    }

    /// The product of two tensors of the same rank, at least 2. Batch axes of size 1 broadcast.
    ///
    /// # Errors
    /// As those of [`Tensor::matmul`](crate::Tensor::matmul); [`Error::Type`] for elements of another type,
    /// another device or other ranks.
    pub(crate) fn call(&self, op: &'static str, x: &DynTensor, y: &DynTensor) -> Result<DynTensor> {
        let rank = x.rank();
        for operand in [x, y] {
            operand.accessible(op)?;
            if operand.dtype() != self.of
                || operand.rank() != rank
                || rank < 2
                || operand.device::<D>().is_none()
            {
                let expected = text(format_args!("{} of {rank} axes on {}", self.of, name_of::<D>()));
                return Err(Error::Type { op, expected, found: operand.kind_in_words() });
            }
            operand.ensure_allocated(op)?;
        }
        let (Some(device), Some(beside)) = (x.device::<D>(), y.device::<D>()) else {
            return Err(unlike::<D>(op, self.of, x));
        };
        let (Some(left), Some(right)) = (x.strided::<D>(), y.strided::<D>()) else {
            return Err(unlike::<D>(op, self.of, x));
        };
        same_device(op, device, beside)?;
        let (batch, [row, inner]) = (rank - 2, [rank - 2, rank - 1]);
        if left.size[inner] != right.size[row] {
            let sizes = [left.size[inner], right.size[row]];
            return Err(Error::Inner { op, inner: sizes, left: left.size.into(), right: right.size.into() });
        }
        let mut size = left.size.to_vec();
        size[inner] = right.size[inner];
        for axis in 0..batch {
            size[axis] = match (left.size[axis], right.size[axis]) {
                (a, b) if a == b || b == 1 => a,
                (1, b) => b,
                _ => return Err(Error::Sizes { op, left: left.size.into(), right: right.size.into() }),
            };
        }
        let out = DynTensor::fresh(op, self.of, &size, device, Init::Unspecified)?;
        let Some(to) = out.strided::<D>() else { return Ok(out) };
        // A size of 1 broadcasts by the stride 0.
        let steps = |own: &[usize], stride: &[isize]| -> Vec<isize> {
            (0..rank)
                .map(|axis| if axis < batch && own[axis] != size[axis] { 0 } else { stride[axis] })
                .collect()
        };
        let (left_steps, right_steps) =
            (steps(left.size, left.slot.stride), steps(right.size, right.slot.stride));
        let (left_slot, right_slot) = (
            OperandRef { stride: &left_steps, ..left.slot },
            OperandRef { stride: &right_steps, ..right.slot },
        );
        let (m, k, n) = (&left.size[row..=row], &left.size[inner..=inner], &right.size[inner..=inner]);
        // SAFETY: two allocated operands of these elements, with the strides of their own axes or 0, and new
        // memory for the output.
        unsafe {
            (self.run)(
                device,
                ContractPlan { batch: &size[..batch], m, k, n },
                to.slot,
                left_slot,
                right_slot,
            )?
        };
        Ok(out)
    }
}

/// The sum of values into cells: [`Device::scatter`] by [`Add`](crate::ops::Add) for one element type.
pub(crate) struct Summing<D> {
    pub(crate) of: DType,
    run: unsafe fn(&D, GatherPlan<'_>, OperandRef<'_>, OperandRef<'_>, OperandRef<'_>) -> Result<()>,
}

impl<D> Clone for Summing<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Summing<D> {}

impl<D: Device> Summing<D> {
    /// The sum of elements `T`.
    pub(crate) const fn of<T: Number>() -> Self {
        /// # Safety
        /// As [`Device::scatter`].
        unsafe fn run<T: Number, D: Device>(
            device: &D,
            plan: GatherPlan<'_>,
            cells: OperandRef<'_>,
            from: OperandRef<'_>,
            index: OperandRef<'_>,
        ) -> Result<()> {
            // SAFETY: the caller's promise.
            unsafe { device.scatter::<T, Add>(Add, plan, cells, from, index) }
        }
        Summing { of: T::DTYPE, run: run::<T, D> }
    }

    /// A tensor of zeros with these sizes, to which values are added: for each pair in turn, the values at
    /// position `i` go to the position `index[i]` of the first axis.
    ///
    /// # Errors
    /// [`Error::Index`] for an index out of range, [`Error::Type`] and [`Error::Sizes`] for values that do
    /// not fit; [`Error::OutOfMemory`].
    pub(crate) fn sums(
        &self,
        op: &'static str,
        size: &[usize],
        device: &D,
        values: &mut dyn Iterator<Item = Result<(Tensor<i64, 1, D>, DynTensor)>>,
    ) -> Result<DynTensor> {
        let out = DynTensor::fresh(op, self.of, size, device, Init::Zeroed)?;
        let Some(cells) = out.strided::<D>() else { return Ok(out) };
        let mut stride = cells.slot.stride.to_vec();
        let step = std::mem::replace(&mut stride[0], 0);
        for pair in values {
            let (index, values) = pair?;
            let mut wanted = size.to_vec();
            wanted[0] = index.numel();
            if values.dtype() != self.of || values.size() != wanted {
                return Err(Error::Sizes { op, left: wanted.as_slice().into(), right: values.size().into() });
            }
            same_device(op, device, index.device())?;
            let from = values
                .device::<D>()
                .zip(values.strided::<D>())
                .ok_or_else(|| unlike::<D>(op, self.of, &values))?;
            same_device(op, device, from.0)?;
            if values.numel() == 0 {
                continue;
            }
            let mut places = vec![0; size.len()];
            places[0] = index.stride().0[0];
            let of = IndexedAxes { kind: IndexKind::Axis(0), sizes: size };
            let plan = GatherPlan { op, sizes: &wanted, own: size.len() - 1, step, bound: size[0], of };
            let index = index.view();
            let to = OperandRef { stride: &stride, ..cells.slot };
            // SAFETY: the memory is new and no other handle has it; the operands are allocated and have the
            // sizes of the elements.
            unsafe { (self.run)(device, plan, to, from.1.slot, index.leaf().slot(&places)) }?;
        }
        Ok(out)
    }
}

impl DynTensor {
    /// Selects the positions `index` of the first axis.
    ///
    /// # Errors
    /// [`Error::Index`] for an index out of range, [`Error::Type`] on another device than `D`;
    /// [`Error::Device`], [`Error::OutOfMemory`].
    pub(crate) fn selected<D: Device>(
        &self,
        op: &'static str,
        index: &Tensor<i64, 1, D>,
    ) -> Result<DynTensor> {
        self.accessible(op)?;
        self.ensure_allocated(op)?;
        let (Some(device), Some(cells)) = (self.device::<D>(), self.strided::<D>()) else {
            return Err(unlike::<D>(op, self.dtype(), self));
        };
        same_device(op, device, index.device())?;
        let (mut size, mut stride, mut places) =
            (self.size().to_vec(), self.stride().to_vec(), vec![0; self.rank()]);
        let (bound, step) = (size[0], std::mem::replace(&mut stride[0], 0));
        (size[0], places[0]) = (index.numel(), index.stride().0[0]);
        let out = DynTensor::fresh(op, self.dtype(), &size, device, Init::Unspecified)?;
        let Some(to) = out.strided::<D>() else { return Ok(out) };
        let of = IndexedAxes { kind: IndexKind::Axis(0), sizes: self.size() };
        let plan = GatherPlan { op, sizes: &size, own: 0, step, bound, of };
        let index = index.view();
        // SAFETY: the memory is new and has these sizes; the operands are allocated; the cells are those
        // along the first axis, which the indices address.
        unsafe {
            device.gather(
                plan,
                to.slot,
                OperandRef { stride: &stride, ..cells.slot },
                index.leaf().slot(&places),
            )
        }?;
        Ok(out)
    }
}
