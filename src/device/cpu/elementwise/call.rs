//! One call of a kernel, without the types of its program: the loops, the operands and how to run rows of them.
// Imports: `device`.

use super::stream_target::StreamTarget;
use crate::device::cpu::isa::Level;
use crate::device::cpu::memory::non_temporal;
use crate::device::cpu::memory::scratch::StackScratch;
use crate::device::cpu::parallel::partition;
use crate::device::cpu::strided::{ByteStrides, Pointers, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::ALIAS_WINDOW_BYTES;
use crate::device::{MAX_OPERANDS, OperandRef};

/// Bytes of the widest element.
pub(super) const MAX_ELEMENT_BYTES: usize = 16;

/// The contiguous loop of a program, by some instructions: so many rows, each of `n` elements; see `kernel.rs`. Only where
/// [`Loops::past`] says so may rows go on past the caches.
pub(crate) type RowsFn = unsafe fn(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const RowAdvance,
);

/// What is done from row to row.
pub(crate) struct RowAdvance {
    /// What each pointer moves by.
    pub(crate) steps: ByteStrides,
    /// Where the outputs of a row go on to, or null.
    pub(crate) stream: *const StreamTarget,
}

/// What is done for one row.
pub(super) const SINGLE_ROW: &RowAdvance = &RowAdvance { steps: ZERO_STRIDES, stream: std::ptr::null() };

/// The contiguous loops of a program.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    pub(crate) rows: RowsFn,
    /// The same for a program of two loads of which the first, or the second, has one element a row.
    pub(crate) broadcast_row: [Option<RowsFn>; 2],
    /// Whether `rows` takes rows on past the caches; see `stream_target.rs`.
    pub(crate) streaming: bool,
}

/// Outputs, then inputs.
pub(crate) fn concat_operands<'a>(
    outputs: &[OperandRef<'a>],
    inputs: &[OperandRef<'a>],
) -> [OperandRef<'a>; MAX_OPERANDS] {
    let mut slots = [OperandRef { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
    slots[..outputs.len()].copy_from_slice(outputs);
    slots[outputs.len()..outputs.len() + inputs.len()].copy_from_slice(inputs);
    slots
}

/// A kernel and its program, without their type: so that what feeds it is compiled once.
pub(crate) struct KernelCall<'a> {
    pub(crate) loops: Loops,
    pub(crate) program: *const (),
    /// How many operands are written: the first.
    pub(crate) outputs: usize,
    /// The first operand that is read: in place they are the same.
    pub(crate) first: usize,
    pub(crate) reads: &'a [u8],
    /// The instructions of its loops, which this processor has: `isa::level` or `tuning::memory_bound_level`.
    pub(crate) level: Level,
    /// Whether it computes in a few instructions.
    pub(crate) cheap: bool,
    /// Whether outputs go past the caches.
    pub(crate) streaming: bool,
    /// Whether outputs go through the caches, are larger than these, and little is computed: memory is what it waits for.
    pub(crate) memory_bound: bool,
}
// SAFETY: programs are `Send + Sync` by their trait's bounds and outlive the job.
unsafe impl Sync for KernelCall<'_> {}

/// Where the elements of each operand are packed; `None` where they can be used as they stand.
pub(crate) type Packed = [Option<*mut u8>; MAX_OPERANDS];

impl KernelCall<'_> {
    /// Operands that are one contiguous run each, without threads: nothing to walk. At most `FEW` outputs and loads.
    ///
    /// Inlined, since the numbers of operands are known where it is called, and little is left then.
    #[inline(always)]
    pub(crate) unsafe fn run_contiguous<const FEW: usize>(
        &self,
        n: usize,
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) {
        let mut pointers = [std::ptr::null_mut(); FEW];
        for (pointer, slot) in pointers.iter_mut().zip(outputs) {
            *pointer = slot.address;
        }
        for (pointer, &read) in pointers[outputs.len()..].iter_mut().zip(self.reads) {
            *pointer = inputs[read as usize].address;
        }
        let in_place = outputs.is_empty();
        if let (1, Some(output)) = (self.outputs, if in_place { inputs.first() } else { outputs.first() })
            && n * output.element <= ALIAS_WINDOW_BYTES
            && inputs
                .iter()
                .skip(in_place as usize)
                .any(|slot| output.address.addr().wrapping_sub(slot.address.addr()) < ALIAS_WINDOW_BYTES)
        {
            // SAFETY: the caller's promise.
            return unsafe { self.via_staging(n, n * output.element, in_place, &mut pointers) };
        }
        // SAFETY: the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW) };
    }

    /// As [`run_contiguous`](KernelCall::run_contiguous), shared by threads: each takes parts of the run.
    ///
    /// # Safety
    /// The kernel's promise, for `n` elements.
    pub(crate) unsafe fn run_contiguous_parallel(
        &self,
        n: usize,
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) {
        let slots = concat_operands(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        partition::parallel_run(n, &|part| {
            let mut base = [std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1];
            for (base, slot) in base.iter_mut().zip(slots) {
                *base = slot.address.wrapping_add(part.start * slot.element);
            }
            // SAFETY: the parts of a run reach each of its elements once.
            unsafe { self.run_rows(&base, &ZERO_STRIDES, 1, part.len()) }
        });
    }

    /// An output of at most `ALIAS_WINDOW_BYTES` bytes that begins near an input, which the vector loop would take for an overlap and go
    /// element by element: it is computed elsewhere and copied.
    #[inline(never)]
    unsafe fn via_staging(&self, n: usize, nbytes: usize, in_place: bool, pointers: &mut [*mut u8]) {
        let mut room = StackScratch::<{ ALIAS_WINDOW_BYTES / 8 }>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        let output = std::mem::replace(&mut pointers[0], room);
        // SAFETY: the caller's promise: an output of `nbytes` bytes, for which there is room.
        unsafe {
            if in_place {
                std::ptr::copy_nonoverlapping(output, room, nbytes);
            }
            (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW);
            // Of common sizes in words: a longer vector than those just stored would wait until they have left the core.
            match nbytes {
                64 => output.cast::<[u64; 8]>().write_unaligned(room.cast::<[u64; 8]>().read()),
                128 => output.cast::<[u64; 16]>().write_unaligned(room.cast::<[u64; 16]>().read()),
                _ => std::ptr::copy_nonoverlapping(room, output, nbytes),
            }
        }
    }

    /// What the program's outputs have, then what each of its loads has, from what each operand has.
    pub(crate) fn expand_loads<T: Copy>(&self, base: &[T; MAX_OPERANDS + 1]) -> [T; MAX_OPERANDS + 1] {
        let mut pointers = *base;
        for (pointer, &read) in pointers[self.first..].iter_mut().zip(self.reads) {
            *pointer = base[self.first + read as usize];
        }
        pointers
    }

    /// Runs the kernel on `rows` rows of `n` elements, which begin at `base` and stand `down` bytes apart.
    ///
    /// # Safety
    /// The kernel's promise, for every row.
    pub(crate) unsafe fn run_rows(&self, base: &Pointers, down: &ByteStrides, rows: usize, n: usize) {
        // SAFETY: the caller's promise.
        let down = RowAdvance { steps: self.expand_loads(down), stream: std::ptr::null() };
        // SAFETY: the caller's promise.
        unsafe {
            (self.loops.rows)(self.level, self.program, rows, n, self.expand_loads(base).as_ptr(), &down)
        };
    }

    /// The operand of one load of two that stands still along rows, if the other does not, and the loop for that.
    pub(super) fn broadcast_load(&self, stands: impl Fn(usize) -> bool) -> Option<(usize, RowsFn)> {
        let &[left, right] = self.reads else { return None };
        let [left, right] = [left, right].map(|read| self.first + read as usize);
        let (load, operand) = match [left, right].map(stands) {
            [true, false] => (0, left),
            [false, true] => (1, right),
            _ => return None,
        };
        self.loops.broadcast_row[load].map(|rows| (operand, rows))
    }

    pub(crate) unsafe fn store_row(
        &self,
        to: *mut u8,
        step: isize,
        from: *mut u8,
        n: usize,
        element: usize,
        ahead: &[*mut u8],
    ) {
        // SAFETY: the caller's promise: `n` elements at both ends.
        unsafe {
            if self.streaming && step == element as isize {
                non_temporal::copy_and_prefetch(to, from, n * element, ahead);
            } else {
                pack::strided(to, step, from, element as isize, n, element);
            }
        }
    }
}
