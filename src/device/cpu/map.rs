//! Programs over elements: one contiguous loop for each program, fed in blocks.
//!
//! Three formulations of that loop fail to vectorise without a word: pointers read through a slice inside it, an output
//! that is also an input, lanes that are arrays. Hence: pointers in a local array, one scalar evaluation an index, and a
//! block buffer where an output is an input.
//! Imports: `scalar`, `element`, `kernel`, `device`.

use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Addresses, Order, Walk};
use crate::device::{Inputs, MAX_OPERANDS, Slot};
use crate::element::{Compute, Element};
use crate::kernel::{Io, Program};
use crate::scalar::{Lane, Run};
use std::any::TypeId;
use std::mem::MaybeUninit;

/// Elements that are packed at a time, at most.
pub(super) const BLOCK: usize = 256;
/// Bytes of packed elements of all operands together: they stay in the first-level cache.
const SCRATCH: usize = 32 * 1024;

/// The contiguous loop of one program, with the program's type erased.
///
/// Its pointers are the outputs, then one for each load.
#[derive(Clone, Copy)]
pub(crate) struct MapKernel {
    /// The program's type: hooks that hand out kernels are safe to write, so what they return is checked.
    program: TypeId,
    row: unsafe fn(program: *const (), n: usize, pointers: &Addresses),
}

impl MapKernel {
    /// The kernel of program `P`.
    pub(crate) const fn of<P: Program>() -> Self {
        MapKernel { program: TypeId::of::<P>(), row: row::<P> }
    }
}

/// # Safety
/// `program` points to a `P`; each pointer has `n` contiguous elements of the type that `P` loads or stores there; no
/// output overlaps another operand.
unsafe fn row<P: Program>(program: *const (), n: usize, pointers: &Addresses) {
    // SAFETY: the caller's promise; programs are `Copy`.
    let program = unsafe { program.cast::<P>().read() };
    simd::dispatch(Rows { program, n, pointers: *pointers });
}

struct Rows<P> {
    program: P,
    n: usize,
    pointers: Addresses,
}

impl<P: Program> Loop for Rows<P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { program, n, pointers } = self; // a local array: see the module's head
        for i in 0..n {
            program.run::<Run>(&mut At { pointers: &pointers, next: P::OUTPUTS, output: 0, i });
        }
    }
}

/// One position of contiguous operands.
pub(super) struct At<'a> {
    /// Outputs, then one for each load.
    pub(super) pointers: &'a Addresses,
    /// The next load's pointer.
    pub(super) next: usize,
    /// The next store's pointer.
    pub(super) output: usize,
    /// The position.
    pub(super) i: usize,
}

impl Io<Run> for At<'_> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Run, Compute<T>> {
        let pointer = self.pointers[self.next].cast::<T>();
        self.next += 1;
        // SAFETY: whoever made this `At` promised an element of type T here (`row`, `fold`, `columns`).
        Lane(unsafe { pointer.add(self.i).read() }.widen())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, value: T) -> Lane<Run, Compute<T>> {
        Lane(value.widen())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, value: Lane<Run, Compute<T>>) {
        let pointer = self.pointers[self.output].cast::<T>();
        self.output += 1;
        // SAFETY: as for `load`; stores go to outputs.
        unsafe { pointer.add(self.i).write(T::narrow(value.0)) };
    }
}

/// # Safety
/// As [`Device::map`](crate::device::Device::map).
pub(super) unsafe fn run<P: Program>(program: &P, sizes: &[usize], outputs: &[Slot<'_>], inputs: Inputs<'_>) {
    let compiled = P::compiled().and_then(|kernel| kernel.downcast_ref::<MapKernel>());
    let compiled = compiled.filter(|kernel| kernel.program == TypeId::of::<P>());
    let kernel = compiled.copied().unwrap_or(MapKernel::of::<P>());
    let job = Job { kernel, program: std::ptr::from_ref(program).cast(), outputs: outputs.len(), reads: inputs.reads };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe { job.drive(sizes, outputs, inputs.slots) }
}

/// A kernel and its program, without their type: everything from here on is compiled once.
struct Job<'a> {
    kernel: MapKernel,
    program: *const (),
    outputs: usize,
    reads: &'a [u8],
}
// SAFETY: programs are `Send + Sync` by their trait's bounds and outlive the job.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    unsafe fn drive(&self, sizes: &[usize], outputs: &[Slot<'_>], inputs: &[Slot<'_>]) {
        let count = outputs.len() + inputs.len();
        let mut slots = [Slot { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
        slots[..outputs.len()].copy_from_slice(outputs);
        slots[outputs.len()..count].copy_from_slice(inputs);
        let slots = &slots[..count];
        let in_place = outputs.iter().any(|out| inputs.iter().any(|input| input.address == out.address));
        if !in_place && let Some(n) = walk::small_run(sizes, slots) {
            let base = std::array::from_fn(|k| slots.get(k).map_or(std::ptr::null_mut(), |slot| slot.address));
            // SAFETY: every operand is one run of `n` elements.
            return unsafe { (self.kernel.row)(self.program, n, &self.spread(&base)) };
        }
        walk::each(sizes, slots, Order::OfOutput, &mut |walk| {
            walk::parallel(walk, 1, &|part| {
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe { self.part(&part, slots, in_place) }
            });
        });
    }

    /// The program's pointers: outputs, then one for each load.
    fn spread(&self, base: &Addresses) -> Addresses {
        let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS];
        pointers[..self.outputs].copy_from_slice(&base[..self.outputs]);
        for (pointer, &read) in pointers[self.outputs..].iter_mut().zip(self.reads) {
            *pointer = base[self.outputs + read as usize];
        }
        pointers
    }

    unsafe fn part(&self, walk: &Walk, slots: &[Slot<'_>], in_place: bool) {
        let linear: [bool; MAX_OPERANDS] = std::array::from_fn(|k| k < slots.len() && walk.is_linear(k, slots[k].element));
        let all_linear = linear[..slots.len()].iter().all(|&linear| linear);
        let n = walk.numel();
        if all_linear && !in_place {
            // SAFETY: every operand is one run of `n` elements.
            return unsafe { (self.kernel.row)(self.program, n, &self.spread(&walk.address)) };
        }
        // Rows that are long enough are taken whole, in blocks; short ones are gathered, several to a block.
        let by_rows = walk.inner() >= 32;
        let mut room = Scratch { bytes: [MaybeUninit::uninit(); SCRATCH / 8], used: 0 };
        let mut scratch = [None; MAX_OPERANDS];
        let widths: usize = slots.iter().map(|slot| slot.element).sum();
        let block = BLOCK.min((SCRATCH - 8 * MAX_OPERANDS) / widths.max(1));
        for (k, slot) in slots.iter().enumerate() {
            let direct = linear[k] || (by_rows && walk.inner_step(k) == slot.element as isize);
            if !direct || (in_place && k < self.outputs) {
                scratch[k] = Some(room.take(block * slot.element));
            }
        }
        let buffered = scratch.iter().any(Option::is_some);
        let (mut index, mut done) = (walk.index_of(0), 0);
        while done < n {
            let limit = if by_rows { walk.left_in_row(&index) } else { n - done };
            let len = if buffered { limit.min(block) } else { limit };
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = scratch[k].unwrap_or_else(|| walk.address_at(k, &index));
                if k >= self.outputs && scratch[k].is_some() {
                    // SAFETY: `len` ≤ `block` elements of this operand, which the caller promised, into a block.
                    unsafe { pack::gather(walk, k, index, len, slot.element, base[k]) };
                }
            }
            // SAFETY: every pointer has `len` contiguous elements; outputs are fresh blocks or overlap nothing.
            unsafe { (self.kernel.row)(self.program, len, &self.spread(&base)) };
            for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                if scratch[k].is_some() {
                    // SAFETY: the block holds `len` elements; the caller promised the output's positions.
                    unsafe { pack::scatter(walk, k, index, len, slot.element, base[k]) };
                }
            }
            walk.advance(&mut index, len);
            done += len;
        }
    }
}

/// Room for packed elements, on the stack.
pub(super) struct Scratch<const WORDS: usize> {
    pub(super) bytes: [MaybeUninit<u64>; WORDS],
    pub(super) used: usize,
}

impl<const WORDS: usize> Scratch<WORDS> {
    /// The next `nbytes`, aligned for every element; the caller has counted them.
    pub(super) fn take(&mut self, nbytes: usize) -> *mut u8 {
        let at = self.used;
        self.used += nbytes.div_ceil(8);
        assert!(self.used <= WORDS, "scratch: blocks are counted before they are taken");
        self.bytes[at..].as_mut_ptr().cast()
    }
}
