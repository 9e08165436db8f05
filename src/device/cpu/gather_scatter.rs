//! Moves by index: gather, scatter, and the elements that a mask picks.
//!
//! Every index is looked at before anything moves. Runs of elements with one index are copied as a whole.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::drive::goes_past_caches;
use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Order, Walk};
use crate::device::{MAX_REDUCED, OperandRef};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{GatherPlan, Op};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, Ordering};

/// [`Error::Index`] if an index lies outside; where several do, one of them.
///
/// # Safety
/// `index` holds `i64` at every index inside the sizes.
unsafe fn check(plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
    // An axis along which the index does not change is looked at once.
    let mut sizes = [1; MAX_REDUCED];
    for (axis, size) in sizes[..plan.sizes.len()].iter_mut().enumerate() {
        *size = if index.stride[axis] == 0 { plan.sizes[axis].min(1) } else { plan.sizes[axis] };
    }
    let found = AtomicI64::new(0);
    walk::each(&sizes[..plan.sizes.len()], &[index], Order::OfOutput, &mut |walk| {
        walk::parallel(walk, 1, &|part| {
            let mut at = part.index_of(0);
            for _ in 0..part.numel() / part.inner() {
                let row = Bounds {
                    first: part.address_at(0, &at),
                    step: part.inner_step(0),
                    n: part.inner(),
                    bound: plan.bound,
                };
                // The loop that finds whether there is one vectorizes; which one it is matters once.
                if simd::dispatch(row)
                    && let Some(wrong) = row.wrong()
                {
                    found.store(wrong, Ordering::Relaxed);
                }
                part.advance(&mut at, part.inner());
            }
        });
    });
    // Index 0 lies outside an empty axis, and is what nothing found looks like; such a plan is refused whole.
    match found.into_inner() {
        0 if plan.bound > 0 || sizes.contains(&0) => Ok(()),
        wrong => Err(Error::Index {
            op: plan.op,
            index: [wrong as isize].into(),
            axis: None,
            sizes: [plan.bound].into(),
        }),
    }
}

/// A row of `n` indices, whose makers promise that they are there.
#[derive(Clone, Copy)]
struct Bounds {
    first: *mut u8,
    step: isize,
    n: usize,
    bound: usize,
}

impl Bounds {
    #[inline(always)]
    fn at(&self, i: usize) -> i64 {
        // SAFETY: by promise.
        unsafe { self.first.wrapping_offset((i as isize).wrapping_mul(self.step)).cast::<i64>().read() }
    }
    fn wrong(&self) -> Option<i64> {
        (0..self.n).map(|i| self.at(i)).find(|&index| index as u64 >= self.bound as u64)
    }
}

impl Loop for Bounds {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let bound = self.bound as u64;
        if self.step == size_of::<i64>() as isize {
            let first = self.first.cast::<i64>();
            // SAFETY: by promise.
            return (0..self.n)
                .fold(false, |wrong, i| wrong | (unsafe { first.wrapping_add(i).read() } as u64 >= bound));
        }
        (0..self.n).fold(false, |wrong, i| wrong | (self.at(i) as u64 >= bound))
    }
}

/// Copies addressed cells.
///
/// # Safety
/// As [`Device::gather`](crate::device::Device::gather).
pub(super) unsafe fn gather(
    plan: GatherPlan<'_>,
    to: OperandRef<'_>,
    cells: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { check(plan, index)? };
    let step = plan.step.wrapping_mul(to.element as isize);
    let streams = goes_past_caches(plan.sizes, &to);
    walk::each(plan.sizes, &[to, cells, index], Order::OfOutput, &mut |walk| {
        walk::parallel(walk, 1, &|part| {
            // SAFETY: the parts of the walk reach only what the caller promised; every index is in bounds.
            unsafe { gather_part(part, step, to.element, streams) }
            pack::fence();
        });
    });
    Ok(())
}

/// # Safety
/// That of `gather`, for a part of its walk.
unsafe fn gather_part(part: &Walk, step: isize, element: usize, streams: bool) {
    let n = part.inner();
    let width = element as isize;
    let (to_step, from_step, index_step) = (part.inner_step(0), part.inner_step(1), part.inner_step(2));
    let mut at = part.index_of(0);
    for _ in 0..part.numel() / n {
        let (to, from) = (part.address_at(0, &at), part.address_at(1, &at));
        let index = part.address_at(2, &at).cast_const().cast::<i64>();
        if index_step == 0 {
            // The rows are met in no order that the processor could guess: one is fetched ahead of its turn.
            let mut ahead = at;
            part.advance(&mut ahead, AHEAD.saturating_mul(n));
            // SAFETY: a row of this part, whichever it is; one index for a whole row of cells, both rows promised.
            unsafe {
                let next = part.address_at(2, &ahead).cast_const().cast::<i64>().read() as isize;
                simd::fetch(
                    part.address_at(1, &ahead).wrapping_offset(next.wrapping_mul(step)),
                    (n * element).min(FETCHED),
                );
                let from = from.wrapping_offset((index.read() as isize).wrapping_mul(step));
                if streams && to_step == width && from_step == width {
                    pack::stream(to, from, n * element);
                } else {
                    pack::strided(to, to_step, from, from_step, n, element);
                }
            }
        } else {
            let row = Row { to, to_step, from, from_step, index, index_step, step, n };
            // SAFETY: `n` promised elements, each moved whole, as bytes that may hold any type.
            unsafe {
                match element {
                    1 => row.each::<1>(),
                    2 => row.each::<2>(),
                    4 => row.each::<4>(),
                    8 => row.each::<8>(),
                    _ => row.any(element),
                }
            }
        }
        part.advance(&mut at, n);
    }
}

/// How many rows ahead one is fetched, and how many bytes of it at most.
const AHEAD: usize = 4;
const FETCHED: usize = 1024;

/// A row of cells with an index each; steps in bytes.
#[derive(Clone, Copy)]
struct Row {
    to: *mut u8,
    to_step: isize,
    from: *const u8,
    from_step: isize,
    index: *const i64,
    index_step: isize,
    step: isize,
    n: usize,
}

impl Row {
    #[inline(always)]
    unsafe fn cell(&self, i: isize) -> *const u8 {
        // SAFETY: the row has this index.
        let index = unsafe { self.index.wrapping_byte_offset(i.wrapping_mul(self.index_step)).read() };
        self.from
            .wrapping_offset(i.wrapping_mul(self.from_step))
            .wrapping_offset((index as isize).wrapping_mul(self.step))
    }
    unsafe fn each<const SIZE: usize>(self) {
        type Bytes<const SIZE: usize> = [std::mem::MaybeUninit<u8>; SIZE];
        for i in 0..self.n as isize {
            // SAFETY: promised by whoever made the row; arrays of bytes need no alignment.
            unsafe {
                let cell = self.cell(i).cast::<Bytes<SIZE>>().read();
                self.to.wrapping_offset(i.wrapping_mul(self.to_step)).cast::<Bytes<SIZE>>().write(cell);
            }
        }
    }
    unsafe fn any(self, element: usize) {
        for i in 0..self.n as isize {
            // SAFETY: as above.
            unsafe {
                self.to
                    .wrapping_offset(i.wrapping_mul(self.to_step))
                    .copy_from_nonoverlapping(self.cell(i), element)
            };
        }
    }
}

/// Applies `F` to addressed cells.
///
/// Threads share out the cells, so each is met in the order of the elements, whatever their number.
///
/// # Safety
/// As [`Device::scatter`](crate::device::Device::scatter).
pub(super) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    from: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { check(plan, index)? };
    let meeting = plan.sizes.len() - plan.own;
    let outer = [cells, from, index].map(|slot| OperandRef { stride: &slot.stride[meeting..], ..slot });
    let inner = [cells, from, index].map(|slot| OperandRef {
        stride: &slot.stride[..meeting],
        address: std::ptr::null_mut(),
        ..slot
    });
    let step = plan.step.wrapping_mul(size_of::<T>() as isize);
    // Where elements meet, they come in row-major order; beside that, cells are taken as they lie in memory.
    walk::each(&plan.sizes[..meeting], &inner, Order::RowMajor, &mut |inner| {
        walk::each(&plan.sizes[meeting..], &outer, Order::OfOutput, &mut |outer| {
            walk::parallel(outer, inner.numel(), &|part| {
                // SAFETY: the parts of the walk reach only what the caller promised, and other cells than one another.
                unsafe { scatter_part::<T, F>(part, inner, step) }
            });
        });
    });
    Ok(())
}

/// # Safety
/// That of `scatter`, for a part of its cells.
unsafe fn scatter_part<T: Element, F: Op<(T, T), Out = T>>(part: &Walk, inner: &Walk, step: isize) {
    let run = |walk: &Walk, base: [*mut u8; 3]| {
        let [to, from, index] = base;
        let steps = [walk.inner_step(0), walk.inner_step(1), walk.inner_step(2)];
        simd::dispatch(Cells::<T, F> {
            to,
            from,
            index: index.cast(),
            steps,
            step,
            n: walk.inner(),
            operator: PhantomData,
        });
    };
    let bases = |walk: &Walk, at: &walk::Index| std::array::from_fn::<_, 3, _>(|k| walk.address_at(k, at));
    // The longer rows are the inner loop: of the cells' own axes, or of those where elements meet.
    let along_cells = part.inner() >= inner.inner().min(16);
    let (slow, fast) = if along_cells { (inner, part) } else { (part, inner) };
    let mut at = slow.index_of(0);
    for _ in 0..slow.numel() {
        let base = bases(slow, &at);
        let mut row = fast.index_of(0);
        for _ in 0..fast.numel() / fast.inner() {
            let from_here = bases(fast, &row);
            let sum = |k: usize| match along_cells {
                true => from_here[k].wrapping_add(base[k].addr()),
                false => base[k].wrapping_add(from_here[k].addr()),
            };
            run(fast, [sum(0), sum(1), sum(2)]);
            fast.advance(&mut row, fast.inner());
        }
        slow.advance(&mut at, 1);
    }
}

/// A row of cells and elements; the makers promise that all are there and that indices are in bounds.
struct Cells<T, F> {
    to: *mut u8,
    from: *const u8,
    index: *const i64,
    /// Of the three, in bytes.
    steps: [isize; 3],
    /// Of the addressed axis, in bytes.
    step: isize,
    n: usize,
    operator: PhantomData<(T, F)>,
}

impl<T: Element, F: Op<(T, T), Out = T>> Loop for Cells<T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Cells { to, from, index, steps: [to_step, from_step, index_step], step, n, .. } = self;
        let apply = |to: *mut u8, from: *const u8| {
            let (to, from) = (to.cast::<T>(), from.cast::<T>());
            // SAFETY: by promise.
            unsafe {
                to.write(T::narrow(F::call::<Eval>((Lane(to.read().widen()), Lane(from.read().widen()))).0))
            };
        };
        if index_step == 0 {
            // SAFETY: by promise.
            let to = to.wrapping_offset((unsafe { index.read() } as isize).wrapping_mul(step));
            let element = size_of::<T>() as isize;
            if to_step == element && from_step == element {
                for i in 0..n {
                    apply(to.cast::<T>().wrapping_add(i).cast(), from.cast::<T>().wrapping_add(i).cast());
                }
                return;
            }
            for i in 0..n as isize {
                apply(
                    to.wrapping_offset(i.wrapping_mul(to_step)),
                    from.wrapping_offset(i.wrapping_mul(from_step)),
                );
            }
            return;
        }
        for i in 0..n as isize {
            // SAFETY: by promise.
            let at = unsafe { index.wrapping_byte_offset(i.wrapping_mul(index_step)).read() } as isize;
            let cell = to.wrapping_offset(i.wrapping_mul(to_step)).wrapping_offset(at.wrapping_mul(step));
            apply(cell, from.wrapping_offset(i.wrapping_mul(from_step)));
        }
    }
}

/// Copies the elements where a mask holds.
///
/// # Safety
/// As [`Device::compact`](crate::device::Device::compact).
pub(super) unsafe fn compact(
    sizes: &[usize],
    count: usize,
    to: OperandRef<'_>,
    from: OperandRef<'_>,
    mask: OperandRef<'_>,
) {
    let to_step = to.stride[0].wrapping_mul(to.element as isize);
    let mut done = 0;
    walk::each(sizes, &[from, mask], Order::RowMajor, &mut |walk| {
        let start = to.address.wrapping_offset((done as isize).wrapping_mul(to_step));
        // SAFETY: the walks come in row-major order, and `done` places are taken.
        done += unsafe { compact_walk(walk, count - done, start, to_step, to.element) };
    });
}

/// Copies at most `left` elements; how many.
///
/// # Safety
/// That of `compact`, for one walk: there are `left` places at `to`.
unsafe fn compact_walk(walk: &Walk, left: usize, to: *mut u8, to_step: isize, element: usize) -> usize {
    let (mut at, mut done, n) = (walk.index_of(0), 0, walk.inner());
    for _ in 0..walk.numel() / n {
        let row = Picked {
            from: walk.address_at(0, &at),
            mask: walk.address_at(1, &at),
            from_step: walk.inner_step(0),
            mask_step: walk.inner_step(1),
            to: to.wrapping_offset((done as isize).wrapping_mul(to_step)),
            to_step,
            n,
            left: left - done,
        };
        // SAFETY: as the caller promises; elements are moved whole, as bytes that may hold any type.
        done += unsafe {
            match element {
                1 => row.copy::<1>(),
                2 => row.copy::<2>(),
                4 => row.copy::<4>(),
                8 => row.copy::<8>(),
                _ => row.copy::<16>(),
            }
        };
        walk.advance(&mut at, n);
    }
    done
}

/// A row of elements and of truths, and the `left` places that are free; steps in bytes.
struct Picked {
    from: *const u8,
    mask: *const u8,
    from_step: isize,
    mask_step: isize,
    to: *mut u8,
    to_step: isize,
    n: usize,
    left: usize,
}

impl Picked {
    unsafe fn copy<const SIZE: usize>(self) -> usize {
        type Bytes<const SIZE: usize> = [std::mem::MaybeUninit<u8>; SIZE];
        let mut done = 0;
        // SAFETY: a promised element, to a free place.
        let put = |done: usize, i: usize| unsafe {
            let value = self
                .from
                .wrapping_offset((i as isize).wrapping_mul(self.from_step))
                .cast::<Bytes<SIZE>>()
                .read();
            self.to
                .wrapping_offset((done as isize).wrapping_mul(self.to_step))
                .cast::<Bytes<SIZE>>()
                .write(value);
        };
        for start in (0..self.n).step_by(64) {
            let most = (self.n - start).min(64);
            // SAFETY: promised elements of the mask, which are 0 or 1.
            let mut truths = unsafe { self.truths(start, most) };
            if truths.count_ones() >= 16 && self.left - done >= 64 {
                // Many: each goes to the next place, which moves on only if it belongs there.
                for j in 0..most {
                    put(done, start + j);
                    done += (truths >> j & 1) as usize;
                }
                continue;
            }
            while truths != 0 && done < self.left {
                put(done, start + truths.trailing_zeros() as usize);
                done += 1;
                truths &= truths - 1;
            }
        }
        done
    }

    /// Up to 64 truths as bits.
    unsafe fn truths(&self, start: usize, count: usize) -> u64 {
        let at = |j: usize| self.mask.wrapping_offset(((start + j) as isize).wrapping_mul(self.mask_step));
        let mut truths = 0;
        if self.mask_step == 1 && count == 64 {
            for eight in 0..8 {
                // SAFETY: eight bytes of the mask.
                let bytes = u64::from_le_bytes(unsafe { at(8 * eight).cast::<[u8; 8]>().read() });
                // Byte k has bit 0 only; the product brings it to bit 56 + k.
                truths |= (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * eight);
            }
            return truths;
        }
        for j in 0..count {
            // SAFETY: an element of the mask.
            truths |= u64::from(unsafe { at(j).read() } != 0) << j;
        }
        truths
    }
}
