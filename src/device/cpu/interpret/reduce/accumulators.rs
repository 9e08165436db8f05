//! The accumulators of an interpreted reducer, in the layout of compiled ones: their lanes follow each other
//! in memory.
// Imports: `error`, `device`.

use super::super::frame::Machine;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{List, Outcome, ScratchArena, splat};
use super::program::ReduceProgram;
use crate::device::cpu::reduce::accumulators::AccumulatorFns;
use crate::error::Result;
use std::marker::PhantomData;

/// The argument of the functions on accumulators: the reducer, and the results of the functions.
pub(crate) struct Accumulation<'a> {
    pub(crate) program: &'a ReduceProgram,
    pub(crate) outcome: &'a Outcome,
}

impl Accumulation<'_> {
    /// The functions on accumulators, which interpret the reducer.
    pub(crate) fn fns(&self) -> AccumulatorFns<'_> {
        AccumulatorFns {
            size: self.program.size,
            out: self.program.out,
            reducer: std::ptr::from_ref(self).cast(),
            borrowed: PhantomData,
            identity,
            combine,
            finalize,
        }
    }
}

impl ReduceProgram {
    /// Writes `n` identities.
    ///
    /// # Safety
    /// `to` has room for `n` accumulators.
    pub(crate) unsafe fn write_identities(&self, to: *mut u8, n: usize) {
        if n == 0 {
            return;
        }
        for ((at, width), bytes) in self.places().zip(&self.reducer.identity) {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.wrapping_add(at), width) };
        }
        let mut done = 1;
        while done < n {
            let more = done.min(n - done);
            // SAFETY: the caller's promise; the accumulators that are written are copied behind themselves.
            unsafe { std::ptr::copy_nonoverlapping(to, to.wrapping_add(done * self.size), more * self.size) };
            done += more;
        }
    }

    /// The offset of each lane in an accumulator, and its bytes.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.reducer.widths.iter().scan(0, |next, &width| {
            *next += width;
            Some((*next - width, width))
        })
    }

    /// Copies the lanes of `n` accumulators to registers. The first accumulator fills the rest of the last
    /// chunks.
    ///
    /// # Safety
    /// 1. `accumulators` holds `n` accumulators.
    /// 2. The registers have room for their chunks.
    pub(crate) unsafe fn spread(&self, accumulators: *const u8, n: usize, columns: &[*mut u8]) {
        for ((at, width), &to) in self.places().zip(columns) {
            // SAFETY: (1) and (2).
            unsafe {
                if !n.is_multiple_of(CHUNK_ELEMENTS) {
                    splat(
                        to.wrapping_add(n / CHUNK_ELEMENTS * CHUNK_ELEMENTS * width),
                        accumulators.wrapping_add(at),
                        width,
                    );
                }
                strided(to, width, accumulators.wrapping_add(at), self.size, n, width);
            }
        }
    }

    /// Copies registers to `n` accumulators, which are `step` elements from each other in the registers.
    ///
    /// # Safety
    /// 1. `accumulators` has room for `n` accumulators.
    /// 2. The registers hold them.
    pub(crate) unsafe fn collect(&self, columns: &[*mut u8], step: usize, n: usize, accumulators: *mut u8) {
        for ((at, width), &from) in self.places().zip(columns) {
            // SAFETY: (1) and (2).
            unsafe { strided(accumulators.wrapping_add(at), self.size, from, step * width, n, width) };
        }
    }
}

/// Copies `n` equidistant values of `width` bytes.
///
/// # Safety
/// 1. `from` holds the values, `from_step` bytes apart.
/// 2. `to` has room for them, `to_step` bytes apart.
unsafe fn strided(to: *mut u8, to_step: usize, from: *const u8, from_step: usize, n: usize, width: usize) {
    if to_step == width && from_step == width {
        // SAFETY: (1) and (2).
        return unsafe { std::ptr::copy_nonoverlapping(from, to, n * width) };
    }
    macro_rules! of {
        ($t:ty) => {
            for k in 0..n {
                // SAFETY: (1) and (2).
                unsafe {
                    let value = from.wrapping_add(k * from_step).cast::<$t>().read_unaligned();
                    to.wrapping_add(k * to_step).cast::<$t>().write_unaligned(value);
                }
            }
        };
    }
    match width {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        _ => of!([u64; 2]),
    }
}

/// # Safety
/// 1. `reducer` points to an [`Accumulation`].
/// 2. As [`AccumulatorFns::identity`].
unsafe fn identity(reducer: *const (), to: *mut u8, n: usize) {
    // SAFETY: (1) and (2).
    unsafe { (*reducer.cast::<Accumulation<'_>>()).program.write_identities(to, n) };
}

/// # Safety
/// 1. `reducer` points to an [`Accumulation`].
/// 2. As [`AccumulatorFns::combine`].
unsafe fn combine(reducer: *const (), earlier: *const u8, later: *mut u8, n: usize) {
    // SAFETY: (1).
    let Accumulation { program, outcome } = unsafe { &*reducer.cast::<Accumulation<'_>>() };
    let scratch = ScratchArena::new();
    // SAFETY: (2).
    let done =
        Combiner::new(&scratch, program).map(|mut combiner| unsafe { combiner.join(earlier, later, n) });
    outcome.add(done);
}

/// # Safety
/// 1. `reducer` points to an [`Accumulation`].
/// 2. As [`AccumulatorFns::finalize`].
unsafe fn finalize(reducer: *const (), accumulators: *const u8, n: usize, count: usize, out: *mut u8) {
    // SAFETY: (1).
    let Accumulation { program, outcome } = unsafe { &*reducer.cast::<Accumulation<'_>>() };
    let scratch = ScratchArena::new();
    // SAFETY: (2). The caller copies results, which must be values of their type.
    let done = Finalizer::new(&scratch, program)
        .map(|mut finalizer| unsafe { finalizer.write(accumulators, n, count, out, program.out as isize) })
        .inspect_err(|_| unsafe { out.write_bytes(0, n * program.out) });
    outcome.add(done);
}

/// A chunk of scratch, as a register.
fn one_chunk(address: *mut u8) -> RegisterRef {
    RegisterRef { address, chunk_step: 0, row_step: 0 }
}

/// Chunks of `n` values of any type.
fn chunks(scratch: &ScratchArena, n: usize) -> Result<List<'_, *mut u8>> {
    let mut chunks = scratch.list(n)?;
    for _ in 0..n {
        chunks.push(scratch.take(16 * CHUNK_ELEMENTS)?);
    }
    Ok(chunks)
}

/// Combines accumulators by a machine.
pub(crate) struct Combiner<'a> {
    program: &'a ReduceProgram,
    combine: Machine<'a>,
    /// A chunk of each lane of both operands and of the result.
    chunks: List<'a, *mut u8>,
    places: List<'a, RegisterRef>,
}

impl<'a> Combiner<'a> {
    pub(crate) fn new(scratch: &'a ScratchArena, program: &'a ReduceProgram) -> Result<Combiner<'a>> {
        let chunks = chunks(scratch, 3 * program.reducer.widths.len())?;
        let places = scratch.list_of(chunks.len(), chunks.iter().map(|&at| one_chunk(at)))?;
        let combine = Machine::exactly(scratch, &program.reducer.combine, &[], 1)?;
        Ok(Combiner { program, combine, chunks, places })
    }

    /// Combines each of `n` accumulators with a later one; the result replaces the later one.
    ///
    /// # Safety
    /// `earlier` and `later` hold `n` accumulators each.
    pub(crate) unsafe fn join(&mut self, earlier: *const u8, later: *mut u8, n: usize) {
        let lanes = self.program.reducer.widths.len();
        for start in (0..n).step_by(CHUNK_ELEMENTS) {
            let (some, at) = (CHUNK_ELEMENTS.min(n - start), start * self.program.size);
            // SAFETY: the caller's promise; each lane has a chunk.
            unsafe {
                self.program.spread(earlier.wrapping_add(at), some, &self.chunks[..lanes]);
                self.program.spread(later.wrapping_add(at), some, &self.chunks[lanes..2 * lanes]);
                self.combine.run(&self.places, 1, 1);
                self.program.collect(&self.chunks[2 * lanes..], 1, some, later.wrapping_add(at));
            }
        }
    }
}

/// Writes the results of accumulators by a machine.
pub(crate) struct Finalizer<'a> {
    program: &'a ReduceProgram,
    finalize: Machine<'a>,
    /// A chunk of each lane, of the number of values, and of the results.
    chunks: List<'a, *mut u8>,
    places: List<'a, RegisterRef>,
}

impl<'a> Finalizer<'a> {
    pub(crate) fn new(scratch: &'a ScratchArena, program: &'a ReduceProgram) -> Result<Finalizer<'a>> {
        let chunks = chunks(scratch, program.reducer.widths.len() + 2)?;
        let places = scratch.list_of(chunks.len(), chunks.iter().map(|&at| one_chunk(at)))?;
        let finalize = Machine::exactly(scratch, &program.reducer.finalize, &[], 1)?;
        Ok(Finalizer { program, finalize, chunks, places })
    }

    /// Writes the results of `n` accumulators of `count` values each, `step` bytes apart.
    ///
    /// # Safety
    /// 1. `accumulators` holds `n` accumulators.
    /// 2. Each output has room for one result.
    pub(crate) unsafe fn write(
        &mut self,
        accumulators: *const u8,
        n: usize,
        count: usize,
        out: *mut u8,
        step: isize,
    ) {
        let lanes = self.program.reducer.widths.len();
        let [number, results] = [self.chunks[lanes], self.chunks[lanes + 1]];
        // SAFETY: the chunk of the number of values has room.
        unsafe { splat(number, (count as i64).to_ne_bytes().as_ptr(), 8) };
        for start in (0..n).step_by(CHUNK_ELEMENTS) {
            let some = CHUNK_ELEMENTS.min(n - start);
            // SAFETY: (1) and (2); each lane has a chunk.
            unsafe {
                self.program.spread(
                    accumulators.wrapping_add(start * self.program.size),
                    some,
                    &self.chunks[..lanes],
                );
                self.finalize.run(&self.places, 1, 1);
                for k in 0..some {
                    let to = out.wrapping_offset(((start + k) as isize).wrapping_mul(step));
                    std::ptr::copy_nonoverlapping(
                        results.wrapping_add(k * self.program.out),
                        to,
                        self.program.out,
                    );
                }
            }
        }
    }
}
