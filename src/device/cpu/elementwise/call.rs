//! One call of a kernel: its loops and operands, without the types of its program. The code around kernels is
//! thereby compiled once.
// Imports: `device`.

use super::non_temporal_target::NonTemporalTarget;
use crate::device::cpu::isa::Level;
use crate::device::cpu::memory::non_temporal;
use crate::device::cpu::memory::scratch::StackScratch;
use crate::device::cpu::parallel::partition;
use crate::device::cpu::strided::{ByteStrides, Pointers, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::ALIAS_WINDOW_BYTES;
use crate::device::{MAX_OPERANDS, OperandRef};

/// Bytes of the widest element.
pub(super) const MAX_ELEMENT_BYTES: usize = 16;

/// The contiguous loop of a program for one instruction set. It computes `rows` rows of `n` elements each;
/// `kernel::run_rows_of` states the obligations of its caller. Only a kernel with [`Loops::non_temporal`] may
/// get a [`RowAdvance::target`].
pub(crate) type RowsFn = unsafe fn(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    advance: *const RowAdvance,
);

/// The changes from one row to the next.
pub(crate) struct RowAdvance {
    /// The stride of each pointer.
    pub(crate) steps: ByteStrides,
    /// The destination of the outputs by non-temporal stores, or null.
    pub(crate) target: *const NonTemporalTarget,
}

/// The changes for a call that has a single row.
const SINGLE_ROW: &RowAdvance = &RowAdvance { steps: ZERO_STRIDES, target: std::ptr::null() };

/// The contiguous loops of a program.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    pub(crate) rows: RowsFn,
    /// The loops of a program of two loads, of which the first, or the second, is broadcast along rows.
    pub(crate) broadcast_row: [Option<RowsFn>; 2],
    /// Whether `rows` can store its outputs non-temporally; see `non_temporal_target.rs`.
    pub(crate) non_temporal: bool,
}

/// The outputs followed by the inputs.
pub(crate) fn concat_operands<'a>(
    outputs: &[OperandRef<'a>],
    inputs: &[OperandRef<'a>],
) -> [OperandRef<'a>; MAX_OPERANDS] {
    let mut slots = [OperandRef { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
    slots[..outputs.len()].copy_from_slice(outputs);
    slots[outputs.len()..outputs.len() + inputs.len()].copy_from_slice(inputs);
    slots
}

/// A kernel and its program with their types erased.
pub(crate) struct KernelCall<'a> {
    pub(crate) loops: Loops,
    pub(crate) program: *const (),
    /// The number of operands that are written; they come first.
    pub(crate) outputs: usize,
    /// The number of the first operand that is read: 0 for a program in place.
    pub(crate) first: usize,
    pub(crate) reads: &'a [u8],
    /// The instruction set of the loops, which the processor supports: `isa::level` or
    /// `tuning::memory_bound_level`.
    pub(crate) level: Level,
    /// Whether the program computes an element in a few instructions.
    pub(crate) cheap: bool,
    /// Whether outputs are written by non-temporal stores.
    pub(crate) non_temporal: bool,
    /// Whether memory limits the call: the outputs use ordinary stores and exceed the caches, and the program
    /// is cheap.
    pub(crate) memory_bound: bool,
}
// SAFETY: programs are `Send + Sync` by the bounds of their trait, and outlive the call.
unsafe impl Sync for KernelCall<'_> {}

/// The packed elements of each operand; `None` where the kernel uses the operand in place.
pub(crate) type PackedOperands = [Option<*mut u8>; MAX_OPERANDS];
/// No packed operand.
pub(crate) const NOT_PACKED: PackedOperands = [None; MAX_OPERANDS];

impl KernelCall<'_> {
    /// Runs on operands that are contiguous as a whole, in this thread. There are at most `FEW` outputs and
    /// loads.
    ///
    /// It is inlined, because its callers know the number of operands and little code remains then.
    ///
    /// # Safety
    /// The obligations of the kernel, for one row of `n` elements.
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
            // SAFETY: by the caller's promise.
            return unsafe { self.via_staging(n, n * output.element, in_place, &mut pointers) };
        }
        // SAFETY: by the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW) };
    }

    /// As [`run_contiguous`](KernelCall::run_contiguous), shared by threads: each takes ranges of the
    /// elements.
    ///
    /// # Safety
    /// The obligations of the kernel, for one row of `n` elements.
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
            // SAFETY: by the caller's promise; the ranges reach each element once.
            unsafe { self.run_rows(&base, &ZERO_STRIDES, 1, part.len()) }
        });
    }

    /// Computes an output of at most `ALIAS_WINDOW_BYTES` bytes in a staging buffer and copies it. The output
    /// begins shortly after an input, which the vector loop would take for an overlap and compute element by
    /// element.
    ///
    /// # Safety
    /// The obligations of the kernel, for one row of `n` elements; the output has `nbytes` bytes.
    #[inline(never)]
    unsafe fn via_staging(&self, n: usize, nbytes: usize, in_place: bool, pointers: &mut [*mut u8]) {
        let mut staging = StackScratch::<{ ALIAS_WINDOW_BYTES / 8 }>::uninit();
        let staging = staging.as_mut_ptr().cast::<u8>();
        let output = std::mem::replace(&mut pointers[0], staging);
        // SAFETY: by the caller's promise; the staging buffer has room for `nbytes` bytes.
        unsafe {
            if in_place {
                std::ptr::copy_nonoverlapping(output, staging, nbytes);
            }
            (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW);
            // Common sizes are copied by words. A vector wider than the stores just made would have to wait
            // until they have left the core.
            match nbytes {
                64 => output.cast::<[u64; 8]>().write_unaligned(staging.cast::<[u64; 8]>().read()),
                128 => output.cast::<[u64; 16]>().write_unaligned(staging.cast::<[u64; 16]>().read()),
                _ => std::ptr::copy_nonoverlapping(staging, output, nbytes),
            }
        }
    }

    /// Expands values of the operands to values of the outputs followed by those of each load.
    pub(crate) fn expand_loads<T: Copy>(&self, base: &[T; MAX_OPERANDS + 1]) -> [T; MAX_OPERANDS + 1] {
        let mut pointers = *base;
        for (pointer, &read) in pointers[self.first..].iter_mut().zip(self.reads) {
            *pointer = base[self.first + read as usize];
        }
        pointers
    }

    /// Runs the kernel on `rows` rows of `n` elements, which begin at `base` and are `down` bytes apart.
    ///
    /// # Safety
    /// The obligations of the kernel, for every row.
    pub(crate) unsafe fn run_rows(&self, base: &Pointers, down: &ByteStrides, rows: usize, n: usize) {
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], ZERO_STRIDES);
        let mut copy = |to: usize, from: usize| (pointers[to], steps[to]) = (base[from], down[from]);
        (0..self.outputs).for_each(|k| copy(k, k));
        for (at, &read) in self.reads.iter().enumerate() {
            copy(self.first + at, self.first + read as usize);
        }
        copy(MAX_OPERANDS, MAX_OPERANDS); // the cached values of a row
        let advance = RowAdvance { steps, target: std::ptr::null() };
        // SAFETY: by the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, rows, n, pointers.as_ptr(), &advance) };
    }

    /// Runs the kernel on one row of `n` elements; `pointers` are those of the outputs followed by each load.
    ///
    /// # Safety
    /// The obligations of the kernel, for this row.
    #[inline(always)]
    pub(super) unsafe fn run_row(&self, pointers: &Pointers, n: usize) {
        // SAFETY: by the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), SINGLE_ROW) };
    }

    /// The operand of a broadcast load, and the loop for it. `is_broadcast` says whether an operand is
    /// broadcast along rows; exactly one of two loads must be.
    pub(super) fn broadcast_load(&self, is_broadcast: impl Fn(usize) -> bool) -> Option<(usize, RowsFn)> {
        let &[left, right] = self.reads else { return None };
        let [left, right] = [left, right].map(|read| self.first + read as usize);
        let (load, operand) = match [left, right].map(is_broadcast) {
            [true, false] => (0, left),
            [false, true] => (1, right),
            _ => return None,
        };
        self.loops.broadcast_row[load].map(|rows| (operand, rows))
    }

    /// Stores `n` packed elements to a row, by non-temporal stores if the call uses them and the row is
    /// contiguous. Prefetches as many bytes at each address of `ahead` where it uses non-temporal stores.
    ///
    /// # Safety
    /// 1. `from` has `n` elements of `element` bytes.
    /// 2. `to` has room for `n` elements `step` bytes apart, and they do not overlap `from`.
    pub(crate) unsafe fn store_row(
        &self,
        to: *mut u8,
        step: isize,
        from: *mut u8,
        n: usize,
        element: usize,
        ahead: &[*mut u8],
    ) {
        // SAFETY: (1), (2) by the caller's promise.
        unsafe {
            if self.non_temporal && step == element as isize {
                non_temporal::copy_and_prefetch(to, from, n * element, ahead);
            } else {
                pack::strided(to, step, from, element as isize, n, element);
            }
        }
    }
}
