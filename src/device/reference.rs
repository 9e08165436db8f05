//! The reference engine: every mechanism of [`Device`] as a plain loop, for devices whose memory the host can
//! address.
//!
//! A new device begins with its memory and this engine, and replaces one mechanism at a time by a faster one.
//! The engine evaluates one element at a time through [`Eval`]. It shares no code with the CPU's engine, and
//! tests compare the two.
//!
//! **The engine is taken by a macro, and is not a set of provided methods of `Device`.** A provided method
//! would give a slow loop to each device that forgot a mechanism, without a message. It would also compile
//! for a device whose memory the host cannot address, and fail at run time. With
//! [`reference_engine!`](crate::reference_engine) a device takes the mechanisms by name, only if it is
//! [`HostAddressable`], and the compiler reports a missing one. A blanket implementation of `Device` for
//! every `HostAddressable` would replace the compile errors of types that are not devices.
// Imports: `error`, `scalar`, `element`, `kernel`.

use super::{Device, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Compute, Element, Number};
use crate::error::Result;
use crate::kernel::{Body, ContractPlan, GatherPlan, Io, Op, Program, Reducer, Row, ScanPlan, SortPlan};
use crate::scalar::{Eval, Lane};
use std::mem::MaybeUninit;

/// A device whose memory the host can address: [`ReferenceEngine`] computes on it. The example is at
/// [`reference_engine!`](crate::reference_engine).
///
/// # Safety
/// For each block of the device, with `nbytes` bytes at `address`:
/// 1. `host(address)` is a pointer of the host to the same bytes. It is valid for reads and writes of the
///    whole block, before and after `address`, until the block is dropped.
/// 2. `host(address + n)` is `host(address) + n` for each `n` up to `nbytes`.
/// 3. `host(address)` has the alignment of `address`, up to 64 bytes.
pub unsafe trait HostAddressable: Device {
    /// The host's pointer to the byte at an address of the device. For an address outside every block it may
    /// return any pointer, which the engine does not dereference.
    fn host(&self, address: *mut u8) -> *mut u8;

    /// Called before the engine runs a mechanism other than `read` and `write`, with its name and the number
    /// of positions that it visits. A device can count or record its work here. The default does nothing.
    fn enter(&self, mechanism: &'static str, positions: usize) {
        let _ = (mechanism, positions);
    }
}

/// Writes mechanisms into an `unsafe impl Device` that run on the
/// [reference engine](crate::device::ReferenceEngine): the named ones, or `read`, `write` and all required
/// mechanisms. The device is [`HostAddressable`](crate::device::HostAddressable).
///
/// # Examples
/// Host memory as a device:
/// ```
/// use rankform::device::{Deleter, HostAddressable, Init};
/// use rankform::{prelude::*, reference_engine};
///
/// #[derive(Clone, PartialEq, Debug)]
/// struct Plain;
///
/// // SAFETY: (1) to (3): addresses of the device are addresses of the host.
/// unsafe impl HostAddressable for Plain {
///     fn host(&self, address: *mut u8) -> *mut u8 {
///         address
///     }
/// }
///
/// // SAFETY: (1) blocks are those of `Cpu`; (2) and (3) the engine keeps them.
/// unsafe impl Device for Plain {
///     type Block = <Cpu as Device>::Block;
///     fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Self::Block> {
///         Cpu.allocate(nbytes, fresh)
///     }
///     unsafe fn external_block(&self, at: *mut u8, nbytes: usize, free: Deleter) -> Result<Self::Block> {
///         // SAFETY: the caller's promise.
///         unsafe { Cpu.external_block(at, nbytes, free) }
///     }
///     fn address(block: &Self::Block) -> *mut u8 {
///         Cpu::address(block)
///     }
///     reference_engine!();
/// }
///
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]).to(&Plain)?;
/// assert_eq!((x.matmul(&x)? + 1.0).sum(Axis::<0>)?.to_vec()?, [24.0, 34.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// A device that has products of its own writes `contract` and takes the others:
/// `reference_engine!(write read copy map reduce scan gather scatter compact sort)`.
#[macro_export]
macro_rules! reference_engine {
    () => {
        $crate::reference_engine! { write read copy map reduce contract scan gather scatter compact sort }
    };
    ($($mechanism:ident)+) => { $( $crate::__mechanism! { [$crate::__by_reference_engine] $mechanism } )+ };
}

/// Evaluates a call on the reference engine of a device.
#[doc(hidden)]
#[macro_export]
macro_rules! __by_reference_engine {
    ($own:expr, |$engine:ident| $call:expr) => {{
        let $engine = $crate::device::ReferenceEngine($own);
        $call
    }};
}

/// The mechanisms of a device as plain loops on the host, one element at a time. Most of them allocate an
/// index on the host for each position: the engine is for tests and for first versions of a device.
///
/// The methods have the names, arguments, errors and safety obligations of [`Device`]'s. A device calls them
/// through [`reference_engine!`](crate::reference_engine), or for the cases that its own mechanism does not
/// cover.
#[derive(Debug)]
pub struct ReferenceEngine<'a, D>(pub &'a D);

impl<D> Clone for ReferenceEngine<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for ReferenceEngine<'_, D> {}

/// Calls `visit` for every index inside `sizes`, in row-major order.
fn each(sizes: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; sizes.len()];
    for _ in 0..sizes.iter().product() {
        visit(&index);
        for axis in (0..sizes.len()).rev() {
            index[axis] += 1;
            if index[axis] < sizes[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The number of positions inside both groups of sizes.
fn positions(outer: &[usize], inner: &[usize]) -> usize {
    outer.iter().chain(inner).fold(1, |product: usize, &size| product.saturating_mul(size))
}

/// Positions the loads and stores of a body at one index: loads come in order, then stores.
struct ElementCursor<'a, D> {
    engine: ReferenceEngine<'a, D>,
    index: &'a [usize],
    inputs: Inputs<'a>,
    outputs: &'a [OperandRef<'a>],
    loads: usize,
    stores: usize,
}

impl<'a, D: HostAddressable> ElementCursor<'a, D> {
    /// # Safety
    /// 1. As [`Device::map`], for one index inside the sizes.
    unsafe fn new(
        engine: ReferenceEngine<'a, D>,
        index: &'a [usize],
        inputs: Inputs<'a>,
        outputs: &'a [OperandRef<'a>],
    ) -> Self {
        ElementCursor { engine, index, inputs, outputs, loads: 0, stores: 0 }
    }
}

impl<D: HostAddressable> Io<Eval> for ElementCursor<'_, D> {
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        let slot = self.inputs.slots[self.inputs.reads[self.loads] as usize];
        self.loads += 1;
        // SAFETY: (1) of `ElementCursor::new`: the operand has a valid element `T` at this index.
        let value = unsafe { self.engine.at(slot, self.index).cast::<T>().read() };
        Lane::literal(value.widen())
    }
    fn param<T: Element>(&mut self, value: T) -> Lane<Eval, Compute<T>> {
        Lane::literal(value.widen())
    }
    fn store<T: Element>(&mut self, value: Lane<Eval, Compute<T>>) {
        let slot = self.outputs[self.stores];
        self.stores += 1;
        // SAFETY: (1) of `ElementCursor::new`: the output has room for a `T` at this index.
        unsafe { self.engine.at(slot, self.index).cast::<T>().write(T::narrow(value.value())) };
    }
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Eval, Compute<T>> {
        self.loads += loads;
        Lane::literal(value)
    }
}

/// The elements at `[outer, ..]`, reduced in order.
struct ReducedLine<'a, D> {
    engine: ReferenceEngine<'a, D>,
    outer: &'a [usize],
    row: &'a [usize],
    inputs: Inputs<'a>,
    next: usize,
}

impl<'a, D: HostAddressable> ReducedLine<'a, D> {
    /// # Safety
    /// 1. As [`Device::map`], for the indices that begin with `outer` and continue inside `row`.
    unsafe fn new(
        engine: ReferenceEngine<'a, D>,
        outer: &'a [usize],
        row: &'a [usize],
        inputs: Inputs<'a>,
    ) -> Self {
        ReducedLine { engine, outer, row, inputs, next: 0 }
    }
}

impl<D: HostAddressable> Row for ReducedLine<'_, D> {
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let (mut state, mut count) = (R::identity::<Eval>(), 0);
        each(self.row, |row| {
            let index = [self.outer, row].concat();
            // SAFETY: (1) of `ReducedLine::new`: `each` gives indices inside `row`.
            let mut cursor = unsafe { ElementCursor::new(self.engine, &index, self.inputs, &[]) };
            cursor.loads = self.next;
            state = R::accumulate::<Eval>(state, body.eval::<Eval>(&mut cursor), Lane::literal(count));
            count += 1;
        });
        R::finalize::<Eval>(state, Lane::literal(count)).value()
    }
}

/// Each mechanism of [`Device`] by the method of the same name.
///
/// Every operand reaches only positions inside its memory, by the caller's promise, and `each` gives the
/// indices inside the sizes. `HostAddressable` makes the pointers to these positions valid on the host.
#[allow(clippy::missing_errors_doc)] // As for the methods of `Device`.
impl<'a, D: HostAddressable> ReferenceEngine<'a, D> {
    /// The host's pointer to the element with this index.
    fn at(self, slot: OperandRef<'_>, index: &[usize]) -> *mut u8 {
        let steps: isize = index.iter().zip(slot.stride).map(|(&i, stride)| i as isize * stride).sum();
        self.0.host(slot.address).wrapping_offset(steps * slot.element as isize)
    }

    /// As [`Device::write`].
    ///
    /// # Safety
    /// As [`Device::write`].
    pub unsafe fn write(self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller promises room, and that no other code uses it.
        unsafe { self.0.host(to).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// As [`Device::read`].
    ///
    /// # Safety
    /// As [`Device::read`].
    pub unsafe fn read(self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        let from = self.0.host(from.cast_mut());
        // SAFETY: the caller promises as many bytes.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(())
    }

    /// As [`Device::copy`].
    ///
    /// # Safety
    /// As [`Device::copy`].
    pub unsafe fn copy(self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        self.0.enter("copy", positions(sizes, &[]));
        each(sizes, |index| {
            // SAFETY: (1) both positions are inside their memory; (2) the operands do not overlap.
            unsafe { self.at(from, index).copy_to_nonoverlapping(self.at(to, index), to.element) };
        });
        Ok(())
    }

    /// As [`Device::map`].
    ///
    /// # Safety
    /// As [`Device::map`].
    pub unsafe fn map<P: Program>(
        self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.0.enter("map", positions(sizes, &[]));
        let (outer, row) = sizes.split_at(sizes.len() - row);
        each(outer, |outer| {
            let mut program = *program;
            // SAFETY: (1) the caller's promise, for the sizes that `outer` and `row` make up.
            program.prepare_row(&mut unsafe { ReducedLine::new(self, outer, row, inputs) });
            each(row, |row| {
                let index = [outer, row].concat();
                // SAFETY: (1) the caller's promise, for an index inside the sizes.
                let mut cursor = unsafe { ElementCursor::new(self, &index, inputs, outputs) };
                program.run::<Eval>(&mut cursor);
            });
        });
        Ok(())
    }

    /// As [`Device::reduce`].
    ///
    /// # Safety
    /// As [`Device::reduce`].
    pub unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.0.enter("reduce", positions(axes.kept, axes.reduced));
        each(axes.kept, |kept| {
            // SAFETY: (1) the caller's promise: inputs have the sizes of both groups of axes.
            let value = unsafe { ReducedLine::new(self, kept, axes.reduced, inputs) }.reduce::<B, R>(body);
            // SAFETY: the output has room for an `R::Out` at every index inside `axes.kept`.
            unsafe { self.at(output, kept).cast::<R::Out>().write(R::Out::narrow(value)) };
        });
        Ok(())
    }

    /// As [`Device::contract`].
    ///
    /// # Safety
    /// As [`Device::contract`].
    pub unsafe fn contract<T: Number, L: Number, R: Number>(
        self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        let ContractPlan { batch, m, k, n } = plan;
        let sizes = [batch, m, n].concat();
        self.0.enter("contract", positions(&sizes, k));
        each(&sizes, |index| {
            let (batch, rest) = index.split_at(batch.len());
            let (i, j) = rest.split_at(m.len());
            let mut sum = Lane::<Eval, Compute<T>>::zero();
            each(k, |k| {
                let left = self.at(left, &[batch, i, k].concat()).cast::<L>();
                let right = self.at(right, &[batch, k, j].concat()).cast::<R>();
                // SAFETY: the operands have elements `L` and `R` at every index inside the sizes.
                let (a, b) = unsafe { (left.read().widen(), right.read().widen()) };
                let (a, b) = (Lane::<Eval, Compute<L>>::literal(a), Lane::<Eval, Compute<R>>::literal(b));
                sum = sum + a.cast() * b.cast();
            });
            // SAFETY: the output has room for a `T` at every index inside the sizes.
            unsafe { self.at(output, index).cast::<T>().write(T::narrow(sum.value())) };
        });
        Ok(())
    }

    /// As [`Device::scan`].
    ///
    /// # Safety
    /// As [`Device::scan`].
    pub unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.0.enter("scan", positions(plan.lines, &[plan.along]));
        let outputs = [output];
        each(plan.lines, |line| {
            let mut state = R::identity::<Eval>();
            for i in 0..plan.along {
                let index = [line, &[i]].concat();
                // SAFETY: (1) the caller's promise, for an index inside the sizes.
                let mut cursor = unsafe { ElementCursor::new(self, &index, inputs, &outputs) };
                let value = body.eval::<Eval>(&mut cursor);
                let next = R::accumulate::<Eval>(state, value, Lane::literal(i as i64));
                let (seen, count) = if plan.exclusive { (state, i) } else { (next, i + 1) };
                cursor.store::<R::Out>(R::finalize::<Eval>(seen, Lane::literal(count as i64)));
                state = next;
            }
        });
        Ok(())
    }

    /// [`GatherPlan::outside`] for the first index out of bounds.
    ///
    /// # Safety
    /// 1. `index` holds an `i64` at every index inside the sizes.
    unsafe fn check_bounds(self, plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
        let mut wrong = None;
        each(plan.sizes, |place| {
            // SAFETY: (1) the caller's promise.
            let found = unsafe { self.at(index, place).cast::<i64>().read() };
            if found as u64 >= plan.bound as u64 {
                wrong.get_or_insert(found);
            }
        });
        wrong.map_or(Ok(()), |wrong| Err(plan.outside(wrong)))
    }

    /// The host's pointer to the cell that the index at `place` selects.
    ///
    /// # Safety
    /// 1. `index` holds an `i64` at `place`.
    unsafe fn cell(
        self,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
        place: &[usize],
    ) -> *mut u8 {
        // SAFETY: (1) the caller's promise.
        let step = unsafe { self.at(index, place).cast::<i64>().read() } as isize * plan.step;
        self.at(cells, place).wrapping_offset(step * cells.element as isize)
    }

    /// As [`Device::gather`].
    ///
    /// # Safety
    /// As [`Device::gather`].
    pub unsafe fn gather(
        self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        self.0.enter("gather", positions(plan.sizes, &[]));
        // SAFETY: (1) the caller promises indices `i64`.
        unsafe { self.check_bounds(plan, index)? };
        each(plan.sizes, |place| {
            let to = self.at(to, place);
            // SAFETY: every index is in bounds, where the caller promises a cell; `to` overlaps none.
            unsafe { self.cell(plan, cells, index, place).copy_to_nonoverlapping(to, cells.element) };
        });
        Ok(())
    }

    /// As [`Device::scatter`].
    ///
    /// # Safety
    /// As [`Device::scatter`].
    pub unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        self,
        _: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        self.0.enter("scatter", positions(plan.sizes, &[]));
        // SAFETY: (1) the caller promises indices `i64`.
        unsafe { self.check_bounds(plan, index)? };
        each(plan.sizes, |place| {
            // SAFETY: (1) the caller promises an index `i64` at each place.
            let cell = unsafe { self.cell(plan, cells, index, place) }.cast::<T>();
            let value = self.at(from, place).cast::<T>();
            // SAFETY: every index is in bounds, and the caller promises elements `T` in `cells` and `from`.
            let (old, value) = unsafe { (cell.read().widen(), value.read().widen()) };
            let result = F::call::<Eval>((Lane::literal(old), Lane::literal(value)));
            // SAFETY: as above; no other code uses the cell.
            unsafe { cell.write(T::narrow(result.value())) };
        });
        Ok(())
    }

    /// As [`Device::compact`].
    ///
    /// # Safety
    /// As [`Device::compact`].
    pub unsafe fn compact(
        self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        self.0.enter("compact", positions(sizes, &[]));
        let mut done = 0;
        each(sizes, |index| {
            // SAFETY: the mask holds a `bool`, one byte, at every index inside the sizes.
            let chosen = unsafe { self.at(mask, index).read() } != 0;
            if chosen && done < count {
                // SAFETY: `to` has room for `count` elements, and overlaps no input.
                unsafe { self.at(from, index).copy_to_nonoverlapping(self.at(to, &[done]), to.element) };
                done += 1;
            }
        });
        Ok(())
    }

    /// As [`Device::sort`].
    ///
    /// # Safety
    /// As [`Device::sort`].
    pub unsafe fn sort<T: Comparable>(
        self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        places: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        self.0.enter("sort", positions(plan.lines, &[plan.along]));
        each(plan.lines, |line| {
            let at = |slot, i| self.at(slot, &[line, &[i]].concat());
            // SAFETY: the input has elements `T` at every index inside the sizes.
            let element = |i| unsafe { at(from, i).cast::<T>().read() };
            let mut order: Vec<usize> = (0..plan.along).collect();
            order.sort_by(|&i, &j| {
                let (x, y) = (element(i), element(j));
                // NaN, which equals nothing, comes after every number.
                let unordered = |x: T| x.partial_cmp(&x).is_none();
                let rising = x.partial_cmp(&y).unwrap_or(unordered(x).cmp(&unordered(y)));
                if plan.descending { rising.reverse() } else { rising }
            });
            for (i, &position) in order[plan.first..plan.first + plan.keep].iter().enumerate() {
                if let Some(values) = values {
                    // SAFETY: the output has room for `plan.keep` elements `T` along the axis.
                    unsafe { at(values, i).cast::<T>().write(element(position)) };
                }
                if let Some(places) = places {
                    // SAFETY: the output has room for `plan.keep` positions `i64` along the axis.
                    unsafe { at(places, i).cast::<i64>().write(position as i64) };
                }
            }
        });
        Ok(())
    }
}
