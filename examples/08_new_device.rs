//! A user's device, in one file: memory, a loop, and every operator runs on it unchanged.
//!
//! `cargo run --release --example 08_new_device`
//!
//! `Ledger` has an address space that the host cannot read, as a GPU has, and keeps a ledger of its work. Its
//! engine is the simplest one possible: for each index, run the body once. It names no operator; `Eval`
//! interprets the body, one element at a time.

use rankform::device::{Deleter, Init, Inputs, OperandRef, Reduction};
use rankform::kernel::{Body, ContractPlan, GatherPlan, Io, Op, Program, Reducer, Row, ScanPlan, SortPlan};
use rankform::prelude::*;
use rankform::{element::Compute, scalar::Eval};
use std::alloc;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

// ------------------------------------------------------------ the device

/// Clones are the same device; `default` makes another one.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Entries>);

/// The memory in use, and the work done.
#[derive(Default)]
pub struct Entries {
    bytes: AtomicUsize,
    kernels: AtomicUsize,
    elements: AtomicUsize,
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({:p})", Arc::as_ptr(&self.0))
    }
}

impl Ledger {
    /// How many bytes its blocks hold now.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    fn enter(&self, sizes: &[usize]) {
        self.0.kernels.fetch_add(1, Relaxed);
        self.0.elements.fetch_add(sizes.iter().product(), Relaxed);
    }
}

// ------------------------------------------------------------ memory

/// Between an address here and the same one on the host; a multiple of the alignment.
const AWAY: usize = 1 << (usize::BITS - 2);
const ALIGNMENT: usize = 64;

/// The host's address of `address` of this device, for the engine alone.
fn here(address: *mut u8) -> *mut u8 {
    address.wrapping_sub(AWAY)
}

/// Freed when it is dropped.
pub struct Block {
    address: *mut u8,
    nbytes: usize,
    owner: Owner,
}
enum Owner {
    Ledger(Arc<Entries>),
    Somebody(Option<Deleter>),
}

// SAFETY: the block owns its bytes, and gives their address only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn room(nbytes: usize) -> Result<alloc::Layout> {
    alloc::Layout::from_size_align(nbytes.max(1), ALIGNMENT)
        .map_err(|_| Error::OutOfMemory { op: "allocate", nbytes })
}

impl Drop for Block {
    fn drop(&mut self) {
        match &mut self.owner {
            Owner::Ledger(entries) => {
                entries.bytes.fetch_sub(self.nbytes, Relaxed);
                if let Ok(room) = room(self.nbytes) {
                    // SAFETY: from `allocate`, with this layout.
                    unsafe { alloc::dealloc(here(self.address), room) };
                }
            }
            Owner::Somebody(free) => free.take().into_iter().for_each(|free| free(self.address, self.nbytes)),
        }
    }
}

// ------------------------------------------------------------ the engine

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

/// The host's address of the element with this index.
fn at(slot: OperandRef<'_>, index: impl IntoIterator<Item = usize>) -> *mut u8 {
    let steps: isize = index.into_iter().zip(slot.stride).map(|(i, stride)| i as isize * stride).sum();
    here(slot.address).wrapping_offset(steps * slot.element as isize)
}

/// Feeds a body at one index: its loads come in order, then its stores.
struct Cursor<'a> {
    index: &'a [usize],
    inputs: Inputs<'a>,
    outputs: &'a [OperandRef<'a>],
    loads: usize,
    stores: usize,
}

impl<'a> Cursor<'a> {
    /// # Safety
    /// That of `Device::map`, for an index inside the sizes.
    unsafe fn new(index: &'a [usize], inputs: Inputs<'a>, outputs: &'a [OperandRef<'a>]) -> Self {
        Cursor { index, inputs, outputs, loads: 0, stores: 0 }
    }
}

impl Io<Eval> for Cursor<'_> {
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        let slot = self.inputs.slots[self.inputs.reads[self.loads] as usize];
        self.loads += 1;
        // SAFETY: `Cursor::new`: a valid element `T`.
        let value = unsafe { at(slot, self.index.iter().copied()).cast::<T>().read() };
        Lane::literal(value.widen())
    }
    fn param<T: Element>(&mut self, value: T) -> Lane<Eval, Compute<T>> {
        Lane::literal(value.widen())
    }
    fn store<T: Element>(&mut self, value: Lane<Eval, Compute<T>>) {
        let slot = self.outputs[self.stores];
        self.stores += 1;
        // SAFETY: `Cursor::new`: room for a `T`.
        unsafe { at(slot, self.index.iter().copied()).cast::<T>().write(T::narrow(value.value())) };
    }
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Eval, Compute<T>> {
        self.loads += loads;
        Lane::literal(value)
    }
}

/// The elements at `[outer, ..]`, reduced in turn.
struct Line<'a> {
    outer: &'a [usize],
    row: &'a [usize],
    inputs: Inputs<'a>,
    next: usize,
}

impl Row for Line<'_> {
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let (mut state, mut count) = (R::identity::<Eval>(), 0);
        each(self.row, |row| {
            let index = [self.outer, row].concat();
            // SAFETY: the promise of `Device::map` or `Device::reduce`, for these sizes.
            let mut cursor = unsafe { Cursor::new(&index, self.inputs, &[]) };
            cursor.loads = self.next;
            state = R::accumulate::<Eval>(state, body.eval::<Eval>(&mut cursor), Lane::literal(count));
            count += 1;
        });
        R::finalize::<Eval>(state, Lane::literal(count)).value()
    }
}

// SAFETY: (1) `Block` owns its bytes and aligns them to 64; (2) `each` gives the indices inside the sizes,
// and no others; (3) every call returns when its work is done.
unsafe impl Device for Ledger {
    type Block = Block;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Block> {
        // SAFETY: `room` is never empty.
        let address = unsafe { alloc::alloc_zeroed(room(nbytes)?) };
        if address.is_null() {
            return Err(Error::OutOfMemory { op: "allocate", nbytes });
        }
        if fresh == Init::Unspecified {
            // SAFETY: just allocated. The pattern reveals an element that no kernel wrote.
            unsafe { address.write_bytes(0xA5, nbytes) };
        }
        self.0.bytes.fetch_add(nbytes, Relaxed);
        Ok(Block { address: address.wrapping_add(AWAY), nbytes, owner: Owner::Ledger(self.0.clone()) })
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Block> {
        Ok(Block { address, nbytes, owner: Owner::Somebody(Some(free)) })
    }

    fn address(block: &Block) -> *mut u8 {
        block.address
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller promises room.
        unsafe { here(to).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: the caller promises as many bytes.
        unsafe { here(from.cast_mut()).copy_to_nonoverlapping(bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        self.enter(sizes);
        each(sizes, |index| {
            let index = index.iter().copied();
            // SAFETY: the caller promises that both reach inside their memory and do not overlap.
            unsafe { at(from, index.clone()).copy_to_nonoverlapping(at(to, index), to.element) };
        });
        Ok(())
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.enter(sizes);
        let (outer, row) = sizes.split_at(sizes.len() - row);
        each(outer, |outer| {
            let mut program = *program;
            program.prepare_row(&mut Line { outer, row, inputs, next: 0 });
            each(row, |row| {
                let index = [outer, row].concat();
                // SAFETY: the caller's promise.
                let mut cursor = unsafe { Cursor::new(&index, inputs, outputs) };
                program.run::<Eval>(&mut cursor);
            });
        });
        Ok(())
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.enter(&[axes.kept, axes.reduced].concat());
        each(axes.kept, |kept| {
            let value = Line { outer: kept, row: axes.reduced, inputs, next: 0 }.reduce::<B, R>(body);
            // SAFETY: the caller's promise.
            let mut cursor = unsafe { Cursor::new(kept, inputs, std::slice::from_ref(&output)) };
            cursor.store::<R::Out>(Lane::literal(value));
        });
        Ok(())
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        let ContractPlan { batch, m, k, n } = plan;
        let sizes = [batch, m, n].concat();
        self.enter(&sizes);
        each(&sizes, |index| {
            let (batch, rest) = index.split_at(batch.len());
            let (i, j) = rest.split_at(m.len());
            let mut sum = Lane::<Eval, Compute<T>>::zero();
            each(k, |k| {
                let (left, right) = (at(left, [batch, i, k].concat()), at(right, [batch, k, j].concat()));
                // SAFETY: the caller promises elements `L` and `R` at every index.
                let (a, b) = unsafe { (left.cast::<L>().read().widen(), right.cast::<R>().read().widen()) };
                let (a, b) = (Lane::<Eval, Compute<L>>::literal(a), Lane::<Eval, Compute<R>>::literal(b));
                sum = sum + a.cast() * b.cast();
            });
            // SAFETY: the caller promises room for elements `T`.
            unsafe { at(output, index.iter().copied()).cast::<T>().write(T::narrow(sum.value())) };
        });
        Ok(())
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.enter(&[plan.lines, &[plan.along]].concat());
        each(plan.lines, |line| {
            let mut state = R::identity::<Eval>();
            for i in 0..plan.along {
                let index = [line, &[i]].concat();
                // SAFETY: the caller's promise.
                let mut cursor = unsafe { Cursor::new(&index, inputs, std::slice::from_ref(&output)) };
                let next =
                    R::accumulate::<Eval>(state, body.eval::<Eval>(&mut cursor), Lane::literal(i as i64));
                let (seen, count) = if plan.exclusive { (state, i) } else { (next, i + 1) };
                cursor.store::<R::Out>(R::finalize::<Eval>(seen, Lane::literal(count as i64)));
                state = next;
            }
        });
        Ok(())
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        self.enter(plan.sizes);
        // SAFETY: the caller's promise.
        unsafe { check(plan, index)? };
        each(plan.sizes, |place| {
            let to = at(to, place.iter().copied());
            // SAFETY: the caller promises a cell for each index in bounds, and room for it.
            unsafe { cell(plan, cells, index, place).copy_to_nonoverlapping(to, cells.element) };
        });
        Ok(())
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        _: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        self.enter(plan.sizes);
        // SAFETY: the caller's promise.
        unsafe { check(plan, index)? };
        each(plan.sizes, |place| {
            // SAFETY: the caller promises elements `T`, and a cell for each index in bounds.
            unsafe {
                let (cell, value) = (
                    cell(plan, cells, index, place).cast::<T>(),
                    at(from, place.iter().copied()).cast::<T>(),
                );
                let result = F::call::<Eval>((
                    Lane::literal(cell.read().widen()),
                    Lane::literal(value.read().widen()),
                ));
                cell.write(T::narrow(result.value()));
            }
        });
        Ok(())
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        self.enter(sizes);
        let mut done = 0;
        each(sizes, |index| {
            let index = index.iter().copied();
            // SAFETY: the caller promises that all three reach inside their memory.
            unsafe {
                if done < count && at(mask, index.clone()).read() != 0 {
                    at(from, index).copy_to_nonoverlapping(at(to, [done]), to.element);
                    done += 1;
                }
            }
        });
        Ok(())
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        self.enter(&[plan.lines, &[plan.along]].concat());
        each(plan.lines, |line| {
            let place = |slot, i| at(slot, line.iter().copied().chain([i]));
            // SAFETY: the caller promises elements `T`.
            let element = |i| unsafe { place(from, i).cast::<T>().read() };
            let mut order: Vec<usize> = (0..plan.along).collect();
            order.sort_by(|&i, &j| {
                let (x, y) = (element(i), element(j));
                // NaN, which equals nothing, comes after every number.
                let is_nan = |x: T| x.partial_cmp(&x).is_none();
                let rising = x.partial_cmp(&y).unwrap_or(is_nan(x).cmp(&is_nan(y)));
                if plan.descending { rising.reverse() } else { rising }
            });
            for (i, &from) in order[..plan.keep].iter().enumerate() {
                // SAFETY: the caller promises room for `keep` elements and positions.
                unsafe {
                    values.into_iter().for_each(|slot| place(slot, i).cast::<T>().write(element(from)));
                    positions.into_iter().for_each(|slot| place(slot, i).cast::<i64>().write(from as i64));
                }
            }
        });
        Ok(())
    }
}

/// [`Error::Index`] for the first index out of bounds.
///
/// # Safety
/// `index` holds an `i64` at every index inside the sizes.
unsafe fn check(plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
    let mut wrong = None;
    each(plan.sizes, |place| {
        // SAFETY: the caller's promise.
        let found = unsafe { at(index, place.iter().copied()).cast::<i64>().read() };
        if found as u64 >= plan.bound as u64 {
            wrong.get_or_insert(found);
        }
    });
    wrong.map_or(Ok(()), |wrong| {
        Err(Error::Index {
            op: plan.op,
            index: [wrong as isize].into(),
            axis: None,
            sizes: [plan.bound].into(),
        })
    })
}

/// The cell that the index at `place` names.
///
/// # Safety
/// `index` holds an `i64` there.
unsafe fn cell(
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    index: OperandRef<'_>,
    place: &[usize],
) -> *mut u8 {
    // SAFETY: the caller's promise.
    let step = unsafe { at(index, place.iter().copied()).cast::<i64>().read() } as isize * plan.step;
    at(cells, place.iter().copied()).wrapping_offset(step * cells.element as isize)
}

// ------------------------------------------------------------ and now every operator runs on it

elementwise! {
    /// An operator that knows of no device.
    fn swish(x) { x / ((-x).exp() + 1.0) }
}

/// Some of everything, on any device.
fn work<D: Device>(x: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 2, D>> {
    let mean = x.mean(Axis::<0>)?;
    let centered = (x.lazy() - mean.lift()).map(swish).eval()?;
    let mut product = centered.transposed().matmul(&centered)?;
    product += 1.0;
    let shares = product.softmax(Axis::<1>)?;
    shares.greater(0.3)?.select(&shares, 0.0)
}

pub fn main() -> Result<()> {
    let device = Ledger::default();
    let x = Tensor::from_fn([6, 4], |[i, j]| ((3 * i + 5 * j) % 7) as f32, &Cpu)?;

    let there = work(&x.to(&device)?)?;
    println!("computed by {device:?}:\n{there:.4}\n");
    let (kernels, elements) = (device.0.kernels.load(Relaxed), device.0.elements.load(Relaxed));
    println!("{} bytes held, {kernels} kernels, {elements} elements", device.bytes());

    // The same code on the CPU gives the same numbers.
    let here = work(&x)?;
    assert!((there.to(&Cpu)? - &here).abs()?.max(All)?.item()? < 1e-6);

    // Two devices of one kind have one type, and mixing them is an error at run time.
    let other = Ledger::default();
    let refused = there.add(&there.to(&other)?).unwrap_err();
    println!("refused: {refused}");
    assert!(matches!(refused, Error::Device { .. }));

    // Whatever was allocated is given back.
    assert_eq!(device.bytes(), there.nbytes());
    drop(there);
    assert_eq!(device.bytes(), 0);
    Ok(())
}
