//! Programs over elements: one contiguous loop for each program.
//!
//! Three formulations of that loop fail to vectorize without a word: pointers read through a slice inside it, an output
//! that is an input by another pointer, lanes that are arrays. Hence: pointers in a local array, one scalar evaluation an
//! index, and programs in place store through the pointers of their loads.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::call::{Loops, MAX_ELEMENT_BYTES, RowAdvance, RowsFn};
use super::row_constants::{self, RowPreparation};
use super::stream_target;
use crate::device::MAX_OPERANDS;
use crate::device::cpu::cursor::{By, Cursor, Mode, NO_OPERAND};
use crate::device::cpu::fold::{SHORT, STEP};
use crate::device::cpu::isa::{self, Call, Level};
use crate::device::cpu::memory::scratch::StackScratch;
use crate::device::cpu::strided::Pointers;
use crate::device::cpu::tuning::SAVED_OUTPUT_BYTES;
use crate::element::{Compute, Element};
use crate::kernel::{Io, Program, run_row, run_row_in_place};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;
use std::ops::Range;

/// The contiguous loop of one program, with the program's type erased: over some rows of some length, whose pointers move
/// by steps from row to row.
///
/// Its pointers are the outputs, but those of a program in place, then one for each load.
#[derive(Clone, Copy)]
pub(crate) struct MapKernel {
    pub(super) loops: Loops,
    /// What the program says of itself; see [`Program`].
    pub(super) operands: usize,
    pub(super) loads: usize,
    pub(super) by_rows: bool,
    pub(super) cached_nbytes: usize,
    pub(super) cheap: bool,
    pub(crate) in_place: bool,
    pub(super) copy: bool,
}

impl MapKernel {
    /// The kernel of program `P`.
    pub(super) const fn of<P: Program>() -> Self {
        // What computes long is worth packing the operand that stands still.
        let two = P::LOADS == 2 && !P::BY_ROWS && P::LIGHT;
        let first: Option<RowsFn> = if two && !P::IN_PLACE { Some(run_rows_of::<P, 0>) } else { None };
        let second: Option<RowsFn> = if two { Some(run_rows_of::<P, 1>) } else { None };
        Self::by::<P>(Loops {
            rows: run_rows_of::<P, NO_OPERAND>,
            broadcast_row: [first, second],
            streaming: stream_target::can_stream::<P>(),
        })
    }

    /// A kernel that runs program `P` by these loops.
    pub(crate) const fn by<P: Program>(loops: Loops) -> Self {
        MapKernel {
            loops,
            operands: P::OUTPUTS + P::LOADS,
            loads: P::LOADS,
            by_rows: P::BY_ROWS,
            cached_nbytes: P::HELD,
            cheap: P::LIGHT,
            in_place: P::IN_PLACE,
            copy: P::COPY,
        }
    }
}

/// # Safety
/// The processor has `level`; `program` points to a `P`; each pointer has rows of `n` contiguous elements of the type that
/// `P` loads or stores there, and the last of `Pointers` room for what it holds, if anything; no output overlaps another
/// operand, nor the operand of any other load. The load with the number `STILL`, if there is one, has one element a row.
/// Where rows go on past the caches, that is as [`StreamTarget::put`] says.
/// Short rows of a program by rows ([`row_constants::is_short`]) go on up to a whole step: with elements that are initialized where it
/// loads, and where it stores with room of its own or rows that it comes to later.
unsafe fn run_rows_of<P: Program, const BROADCAST: usize>(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const RowAdvance,
) {
    // Beside what stands still, vectors of 512 bits gain nothing (light programs alone have such a loop).
    let level = if BROADCAST == NO_OPERAND { level } else { isa::at_most_avx2(level) };
    // SAFETY: the caller's promise.
    unsafe { isa::dispatch_call::<RowLoop<P, BROADCAST>, _, _, _>(level, program, rows, n, pointers, down) }
}

struct RowLoop<P, const BROADCAST: usize>(PhantomData<P>);

impl<P: Program, const BROADCAST: usize> Call<*const (), *const *mut u8, *const RowAdvance>
    for RowLoop<P, BROADCAST>
{
    const HAS_AVX512: bool = BROADCAST == NO_OPERAND;
    #[inline(always)]
    unsafe fn call<const PLAIN: bool>(
        wide: bool,
        program: *const (),
        rows: usize,
        n: usize,
        from: *const *mut u8,
        down: *const RowAdvance,
    ) {
        // SAFETY: the caller's promise; programs are `Copy`.
        let program = unsafe { program.cast::<P>().read() };
        let first = if P::IN_PLACE { 0 } else { P::OUTPUTS };
        let broadcast = if BROADCAST == NO_OPERAND { NO_OPERAND } else { first + BROADCAST };
        // A local array: see the module's head.
        let mut next: Pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for k in 0..first + P::LOADS {
            // SAFETY: the caller's promise: a pointer for each output and load.
            next[k] = unsafe { *from.add(k) };
        }
        for row in 0..rows {
            let mut program = program;
            if row > 0 {
                for k in 0..first + P::LOADS {
                    // SAFETY: as above, and a step.
                    next[k] = next[k].wrapping_offset(unsafe { (*down).steps[k] });
                }
            }
            let mut pointers = next;
            if P::BY_ROWS && P::HELD > 0 {
                // SAFETY: the caller's promise: room for what is held.
                pointers[MAX_OPERANDS] = unsafe { *from.add(MAX_OPERANDS) };
            }
            if !P::BY_ROWS {
                compute_row::<P, By<false, PLAIN>>(&program, n, &pointers, first, broadcast);
                if const { stream_target::can_stream::<P>() && BROADCAST == NO_OPERAND && !PLAIN } {
                    // Asked in each row: of what stays the same the compiler would make two loops.
                    // SAFETY: the caller's promise.
                    if let Some(stream) = unsafe { (*down).stream.as_ref() } {
                        // SAFETY: as above; the row is in its tiles.
                        unsafe { stream.store_row(wide, P::OUTPUTS, row, &pointers) };
                    }
                }
            } else if !PLAIN && row_constants::is_short(n, P::IN_PLACE) {
                padded_row::<P, By<true, PLAIN>>(program, n, &pointers, first);
            } else {
                let mut memo = [None; 8];
                program.prepare_row(&mut RowPreparation::<By<true, PLAIN>, false>::new(
                    &pointers, first, n, &mut memo,
                ));
                compute_row::<P, By<true, PLAIN>>(&program, n, &pointers, first, broadcast);
            }
        }
    }
}

/// One short row, by whole steps.
#[inline(always)]
fn padded_row<P: Program, M: Mode>(mut program: P, n: usize, pointers: &Pointers, first: usize) {
    const { assert!(P::OUTPUTS > 0, "without outputs a program is one in place") };
    let n = n.min(SHORT); // for the compiler, which leaves out what never runs (softmax, rows of 10: 68 → 42 ns)
    let mut memo = [None; 8];
    program.prepare_row(&mut RowPreparation::<M, true>::new(pointers, first, n, &mut memo));
    for start in (0..n).step_by(STEP) {
        run_row(&program, STEP, |i| Cursor::<M>::new(pointers, first, start.wrapping_add(i)));
    }
}

/// One row; the loads' pointers begin with the one at `next`, and the one at `still` has one element.
#[inline(always)]
fn compute_row<P: Program, M: Mode>(
    program: &P,
    n: usize,
    pointers: &Pointers,
    next: usize,
    broadcast: usize,
) {
    let at = |i| Cursor::<M>::with_broadcast(pointers, next, broadcast, i);
    if const { M::PLAIN || P::LIGHT } {
        // The full form alone: where a quick one holds, it has the same bits, and light programs have none.
        for i in 0..n {
            program.run::<Eval>(&mut at(i));
        }
        return;
    }
    if const { !P::IN_PLACE } {
        return run_row(program, n, at);
    }
    let mut words = StackScratch::<{ SAVED_OUTPUT_BYTES / 8 }>::uninit();
    let before = words.as_mut_ptr().cast::<u8>();
    let block = SAVED_OUTPUT_BYTES / MAX_ELEMENT_BYTES / P::OUTPUTS.max(1) / 64 * 64;
    let saved =
        |from: usize, back: bool| SavedOutputs { pointers, before, block, from, i: from, output: 0, back };
    run_row_in_place(
        program,
        n,
        block,
        at,
        |range| saved(range.start, false).each(program, range),
        |range| saved(range.start, true).each(program, range),
    );
}

/// One position of a program in place whose outputs, unchanged, are copied to where they are kept, or back.
#[derive(Clone, Copy)]
struct SavedOutputs<'a> {
    pointers: &'a Pointers,
    before: *mut u8,
    /// Elements that are kept of each output, and the position of the first.
    block: usize,
    from: usize,
    i: usize,
    output: usize,
    back: bool,
}

impl SavedOutputs<'_> {
    /// What a program stores says which elements it changes.
    #[inline(always)]
    fn each<P: Program>(self, program: &P, range: Range<usize>) {
        for i in range {
            program.run::<Eval>(&mut SavedOutputs { i, ..self });
        }
    }
}

impl Io<Eval> for SavedOutputs<'_> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, _: T) -> Lane<Eval, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, _: Lane<Eval, Compute<T>>) {
        const { assert!(size_of::<T>() <= MAX_ELEMENT_BYTES) };
        let saved = self
            .before
            .wrapping_add(self.output.wrapping_mul(self.block).wrapping_mul(MAX_ELEMENT_BYTES))
            .cast::<T>();
        let (at, saved) = (
            self.pointers[self.output].cast::<T>().wrapping_add(self.i),
            saved.wrapping_add(self.i.wrapping_sub(self.from)),
        );
        self.output += 1;
        let (to, from) = if self.back { (at, saved) } else { (saved, at) };
        // SAFETY: elements of type T stand where the program stores them (`rows_of`); each output has room for a block of
        // the widest elements, which `along` made on the stack, at a place for any.
        unsafe { *to = *from };
    }
    #[inline(always)]
    fn settled<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<Eval, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn held<T: Element>(&mut self, _: usize, _: usize) -> Option<Lane<Eval, Compute<T>>> {
        Some(Lane(Default::default()))
    }
}
