//! The contiguous loop of each program over elements.
//!
//! Three formulations of this loop fail to vectorize, without any warning: pointers read through a slice
//! inside the loop, an output that is also an input by another pointer, and lanes that are arrays. Therefore
//! the pointers are in a local array, each index is one scalar evaluation, and programs in place store
//! through the pointers of their loads.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::call::{Loops, MAX_ELEMENT_BYTES, RowAdvance, RowsFn};
use super::non_temporal_target;
use super::row_constants::{self, RowPreparation};
use crate::device::MAX_OPERANDS;
use crate::device::cpu::cursor::{By, Cursor, Mode, NO_OPERAND};
use crate::device::cpu::isa::{self, Level, LoopCall};
use crate::device::cpu::memory::scratch::StackScratch;
use crate::device::cpu::reduce::accumulate::{SHORT_ROW_ELEMENTS, STEP_ELEMENTS};
use crate::device::cpu::strided::Pointers;
use crate::device::cpu::tuning::SAVED_OUTPUT_BYTES;
use crate::element::{Compute, Element};
use crate::kernel::{Io, Program, run_row, run_row_in_place};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;
use std::ops::Range;

/// The contiguous loop of one program, with the program's type erased. It computes several rows of one
/// length, whose pointers advance by strides.
///
/// The pointers are the outputs (none for a program in place) followed by one for each load.
#[derive(Clone, Copy)]
pub(crate) struct MapKernel {
    pub(super) loops: Loops,
    /// The facts about the program; see [`Program`].
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
        // An expensive program is worth packing the broadcast operand, so only cheap ones have a loop for it.
        let two = P::LOADS == 2 && !P::BY_ROWS && P::CHEAP;
        let first: Option<RowsFn> = if two && !P::IN_PLACE { Some(run_rows_of::<P, 0>) } else { None };
        let second: Option<RowsFn> = if two { Some(run_rows_of::<P, 1>) } else { None };
        Self::by::<P>(Loops {
            rows: run_rows_of::<P, NO_OPERAND>,
            broadcast_row: [first, second],
            non_temporal: non_temporal_target::program_can_store_non_temporal::<P>(),
        })
    }

    /// A kernel that runs program `P` by the given loops.
    pub(crate) const fn by<P: Program>(loops: Loops) -> Self {
        MapKernel {
            loops,
            operands: P::OUTPUTS + P::LOADS,
            loads: P::LOADS,
            by_rows: P::BY_ROWS,
            cached_nbytes: P::CACHED_BYTES,
            cheap: P::CHEAP,
            in_place: P::IN_PLACE,
            copy: P::COPY,
        }
    }
}

/// Runs program `P` on rows.
///
/// # Safety
/// 1. The processor supports `level`.
/// 2. `program` points to a `P`.
/// 3. There is a pointer for each output and each load, with rows of `n` contiguous elements of the type that
///    `P` stores or loads there. Loaded elements are initialized. The load number `BROADCAST`, if it exists,
///    has one element for each row.
/// 4. No output overlaps another operand, nor the operand of another load.
/// 5. The last of the [`Pointers`] has room for the cached values of a row, if the program has any.
/// 6. If `advance` has a target, the obligations of
///    [`NonTemporalTarget::store_row`](non_temporal_target::NonTemporalTarget::store_row) hold.
/// 7. Short rows of a program by rows ([`row_constants::is_short`]) extend to a multiple of the step. Their
///    additional elements are initialized for loads. For stores they belong to padding, or to rows that the
///    loop computes later.
unsafe fn run_rows_of<P: Program, const BROADCAST: usize>(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    advance: *const RowAdvance,
) {
    // With a broadcast operand, 512-bit vectors are not faster (only cheap programs have this loop).
    let level = if BROADCAST == NO_OPERAND { level } else { isa::at_most_avx2(level) };
    // SAFETY: (1) to (7) by the caller's promise.
    unsafe {
        isa::dispatch_call::<RowLoop<P, BROADCAST>, _, _, _>(level, program, rows, n, pointers, advance)
    }
}

/// The loop of a program over rows; its caller has the obligations of [`run_rows_of`].
struct RowLoop<P, const BROADCAST: usize>(PhantomData<P>);

impl<P: Program, const BROADCAST: usize> LoopCall<*const (), *const *mut u8, *const RowAdvance>
    for RowLoop<P, BROADCAST>
{
    const HAS_AVX512: bool = BROADCAST == NO_OPERAND;
    #[inline(always)]
    unsafe fn call<const SCALAR: bool>(
        wide: bool,
        program: *const (),
        rows: usize,
        n: usize,
        from: *const *mut u8,
        advance: *const RowAdvance,
    ) {
        // SAFETY: (2) by the caller's promise; programs are `Copy`.
        let program = unsafe { program.cast::<P>().read() };
        let first = if P::IN_PLACE { 0 } else { P::OUTPUTS };
        let broadcast = if BROADCAST == NO_OPERAND { NO_OPERAND } else { first + BROADCAST };
        // A local array: see the module's documentation.
        let mut next: Pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for k in 0..first + P::LOADS {
            // SAFETY: (3) by the caller's promise.
            next[k] = unsafe { *from.add(k) };
        }
        for row in 0..rows {
            let mut program = program;
            if row > 0 {
                for k in 0..first + P::LOADS {
                    // SAFETY: by the caller's promise; `advance` has a stride for each pointer.
                    next[k] = next[k].wrapping_offset(unsafe { (*advance).steps[k] });
                }
            }
            let mut pointers = next;
            if P::BY_ROWS && P::CACHED_BYTES > 0 {
                // SAFETY: (5) by the caller's promise.
                pointers[MAX_OPERANDS] = unsafe { *from.add(MAX_OPERANDS) };
            }
            if !P::BY_ROWS {
                compute_row::<P, By<false, SCALAR>>(&program, n, &pointers, first, broadcast);
                if const {
                    non_temporal_target::program_can_store_non_temporal::<P>()
                        && BROADCAST == NO_OPERAND
                        && !SCALAR
                } {
                    // This is tested in each row: the compiler would make two loops of a condition outside.
                    // SAFETY: by the caller's promise, `advance` is valid.
                    if let Some(target) = unsafe { (*advance).target.as_ref() } {
                        // SAFETY: (6) by the caller's promise; the tiles hold the row.
                        unsafe { target.store_row(wide, P::OUTPUTS, row, &pointers) };
                    }
                }
            } else if !SCALAR && row_constants::is_short(n, P::IN_PLACE) {
                padded_row::<P>(wide, program, n, &pointers, first);
            } else {
                prepare_row::<P, SCALAR, false>(wide, &mut program, n, &pointers, first);
                compute_row::<P, By<true, SCALAR>>(&program, n, &pointers, first, broadcast);
            }
        }
    }
}

/// Computes the row constants and the cached values of a row.
#[inline(always)]
fn prepare_row<P: Program, const SCALAR: bool, const SHORT: bool>(
    wide: bool,
    program: &mut P,
    n: usize,
    pointers: &Pointers,
    first: usize,
) {
    let mut memo = [None; 8];
    if const { row_constants::are_apart::<P>() } {
        let new = RowPreparation::<SCALAR, SHORT, true>::new;
        program.prepare_row(&mut new(wide, pointers, first, n, &mut memo));
    } else {
        let new = RowPreparation::<SCALAR, SHORT, false>::new;
        program.prepare_row(&mut new(wide, pointers, first, n, &mut memo));
    }
}

/// Computes a short row by whole steps.
#[inline(always)]
fn padded_row<P: Program>(wide: bool, mut program: P, n: usize, pointers: &Pointers, first: usize) {
    const { assert!(P::OUTPUTS > 0, "without outputs a program is one in place") };
    let n = n.min(SHORT_ROW_ELEMENTS); // for the compiler, which omits code for longer rows
    prepare_row::<P, false, true>(wide, &mut program, n, pointers, first);
    for start in (0..n).step_by(STEP_ELEMENTS) {
        let at = |i| Cursor::<By<true, false>>::new(pointers, first, start.wrapping_add(i));
        run_row(&program, STEP_ELEMENTS, at);
    }
}

/// Computes a row. The pointers of the loads begin with the one at `next`; the one at `broadcast` has one
/// element.
#[inline(always)]
fn compute_row<P: Program, M: Mode>(
    program: &P,
    n: usize,
    pointers: &Pointers,
    next: usize,
    broadcast: usize,
) {
    let at = |i| Cursor::<M>::with_broadcast(pointers, next, broadcast, i);
    if const { M::SCALAR || P::CHEAP } {
        // The full form only: the fast path would have the same bits where it holds, and cheap programs have
        // no fast path.
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

/// One position of a program in place: its unchanged outputs are copied to the buffer of saved outputs, or
/// back.
#[derive(Clone, Copy)]
struct SavedOutputs<'a> {
    pointers: &'a Pointers,
    before: *mut u8,
    /// The number of saved elements of each output, and the position of the first.
    block: usize,
    from: usize,
    i: usize,
    output: usize,
    back: bool,
}

impl SavedOutputs<'_> {
    /// Copies the range. The program's stores determine the elements, because it changes these only.
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
        // SAFETY: (3) the program stores elements of type `T` at this position; `compute_row` made room on
        // the stack for a block of the widest elements of each output.
        unsafe { *to = *from };
    }
    #[inline(always)]
    fn row_constant<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<Eval, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn cached<T: Element>(&mut self, _: usize, _: usize) -> Option<Lane<Eval, Compute<T>>> {
        Some(Lane(Default::default()))
    }
}
