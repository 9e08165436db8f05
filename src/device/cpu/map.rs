//! Programs over elements: one contiguous loop for each program, fed in blocks.
//!
//! Three formulations of that loop fail to vectorize without a word: pointers read through a slice inside it, an output
//! that is an input by another pointer, lanes that are arrays. Hence: pointers in a local array, one scalar evaluation an
//! index, and programs in place store through the pointers of their loads.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::drive::{Down, Job, Loops, RowsFn, goes_past_caches, is_larger_than_caches};
use super::fold::{self, SHORT, STEP};
use super::io::{At, By, Mode, NONE, Words};
use super::simd::{self, Call, Level};
use super::walk::{self, Addresses};
use super::{copy, past, rows};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Body, Cached, Io, Program, Reducer, Row, eval_row, run_row, run_row_in_place};
use crate::scalar::{CollectParams, Eval, Lane};
use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes that hold what a block of a program in place was before.
const BEFORE: usize = 16 << 10;
/// Outputs and loads of most programs.
const FEW: usize = 6;
/// Bytes of an element, at most.
pub(super) const WIDEST: usize = 16;

/// The contiguous loop of one program, with the program's type erased: over some rows of some length, whose pointers move
/// by steps from row to row.
///
/// Its pointers are the outputs, but those of a program in place, then one for each load.
#[derive(Clone, Copy)]
pub(super) struct MapKernel {
    loops: Loops,
    /// What the program says of itself; see [`Program`].
    operands: usize,
    loads: usize,
    by_rows: bool,
    held: usize,
    light: bool,
    pub(super) in_place: bool,
    copy: bool,
}

impl MapKernel {
    /// The kernel of program `P`.
    const fn of<P: Program>() -> Self {
        // What computes long is worth packing the operand that stands still.
        let two = P::LOADS == 2 && !P::BY_ROWS && P::CHEAP;
        let first: Option<RowsFn> = if two && !P::IN_PLACE { Some(rows_of::<P, 0>) } else { None };
        let second: Option<RowsFn> = if two { Some(rows_of::<P, 1>) } else { None };
        Self::by::<P>(Loops { rows: rows_of::<P, NONE>, still: [first, second], past: past::takes::<P>() })
    }

    /// A kernel that runs program `P` by these loops.
    pub(super) const fn by<P: Program>(loops: Loops) -> Self {
        MapKernel {
            loops,
            operands: P::OUTPUTS + P::LOADS,
            loads: P::LOADS,
            by_rows: P::BY_ROWS,
            held: P::CACHED_BYTES,
            light: P::CHEAP,
            in_place: P::IN_PLACE,
            copy: P::COPY,
        }
    }
}

/// # Safety
/// The processor has `level`; `program` points to a `P`; each pointer has rows of `n` contiguous elements of the type that
/// `P` loads or stores there, and the last of `Addresses` room for what it holds, if anything; no output overlaps another
/// operand, nor the operand of any other load. The load with the number `STILL`, if there is one, has one element a row.
/// Where rows go on past the caches, that is as [`past::Past::put`] says.
/// Short rows of a program by rows ([`rows::is_short`]) go on up to a whole step: with elements that are initialized where it
/// loads, and where it stores with room of its own or rows that it comes to later.
unsafe fn rows_of<P: Program, const STILL: usize>(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const Down,
) {
    // Beside what stands still, vectors of 512 bits gain nothing (light programs alone have such a loop).
    let level = if STILL == NONE { level } else { simd::at_most_avx2(level) };
    // SAFETY: the caller's promise.
    unsafe { simd::dispatch_call::<Rows<P, STILL>, _, _, _>(level, program, rows, n, pointers, down) }
}

struct Rows<P, const STILL: usize>(PhantomData<P>);

impl<P: Program, const STILL: usize> Call<*const (), *const *mut u8, *const Down> for Rows<P, STILL> {
    const WIDEST: bool = STILL == NONE;
    #[inline(always)]
    unsafe fn call<const PLAIN: bool>(
        wide: bool,
        program: *const (),
        rows: usize,
        n: usize,
        from: *const *mut u8,
        down: *const Down,
    ) {
        // SAFETY: the caller's promise; programs are `Copy`.
        let program = unsafe { program.cast::<P>().read() };
        let first = if P::IN_PLACE { 0 } else { P::OUTPUTS };
        let still = if STILL == NONE { NONE } else { first + STILL };
        // A local array: see the module's head.
        let mut next: Addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
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
            if P::BY_ROWS && P::CACHED_BYTES > 0 {
                // SAFETY: the caller's promise: room for what is held.
                pointers[MAX_OPERANDS] = unsafe { *from.add(MAX_OPERANDS) };
            }
            if !P::BY_ROWS {
                along::<P, By<false, PLAIN>>(&program, n, &pointers, first, still);
                if const { past::takes::<P>() && STILL == NONE && !PLAIN } {
                    // Asked in each row: of what stays the same the compiler would make two loops.
                    // SAFETY: the caller's promise.
                    if let Some(past) = unsafe { (*down).past.as_ref() } {
                        // SAFETY: as above; the row is in its tiles.
                        unsafe { past.put(wide, P::OUTPUTS, row, &pointers) };
                    }
                }
            } else if !PLAIN && rows::is_short(n, P::IN_PLACE) {
                by_steps::<P, By<true, PLAIN>>(program, n, &pointers, first);
            } else {
                let mut known = [None; 8];
                program.prepare_row(&mut RowPreparation::<By<true, PLAIN>, false>::new(
                    &pointers, first, n, &mut known,
                ));
                along::<P, By<true, PLAIN>>(&program, n, &pointers, first, still);
            }
        }
    }
}

/// One short row, by whole steps.
#[inline(always)]
fn by_steps<P: Program, M: Mode>(mut program: P, n: usize, pointers: &Addresses, first: usize) {
    const { assert!(P::OUTPUTS > 0, "without outputs a program is one in place") };
    let n = n.min(SHORT); // for the compiler, which leaves out what never runs (softmax, rows of 10: 68 → 42 ns)
    let mut known = [None; 8];
    program.prepare_row(&mut RowPreparation::<M, true>::new(pointers, first, n, &mut known));
    for start in (0..n).step_by(STEP) {
        run_row(&program, STEP, |i| At::<M>::new(pointers, first, start.wrapping_add(i)));
    }
}

/// One row; the loads' pointers begin with the one at `next`, and the one at `still` has one element.
#[inline(always)]
fn along<P: Program, M: Mode>(program: &P, n: usize, pointers: &Addresses, next: usize, still: usize) {
    let at = |i| At::<M>::beside(pointers, next, still, i);
    if const { M::PLAIN || P::CHEAP } {
        // The full form alone: where a quick one holds, it has the same bits, and light programs have none.
        for i in 0..n {
            program.run::<Eval>(&mut at(i));
        }
        return;
    }
    if const { !P::IN_PLACE } {
        return run_row(program, n, at);
    }
    let mut words = Words::<{ BEFORE / 8 }>::uninit();
    let before = words.as_mut_ptr().cast::<u8>();
    let block = BEFORE / WIDEST / P::OUTPUTS.max(1) / 64 * 64;
    let kept = |from: usize, back: bool| Kept { pointers, before, block, from, i: from, output: 0, back };
    run_row_in_place(
        program,
        n,
        block,
        at,
        |range| kept(range.start, false).each(program, range),
        |range| kept(range.start, true).each(program, range),
    );
}

/// One position of a program in place whose outputs, unchanged, are copied to where they are kept, or back.
#[derive(Clone, Copy)]
struct Kept<'a> {
    pointers: &'a Addresses,
    before: *mut u8,
    /// Elements that are kept of each output, and the position of the first.
    block: usize,
    from: usize,
    i: usize,
    output: usize,
    back: bool,
}

impl Kept<'_> {
    /// What a program stores says which elements it changes.
    #[inline(always)]
    fn each<P: Program>(self, program: &P, range: Range<usize>) {
        for i in range {
            program.run::<Eval>(&mut Kept { i, ..self });
        }
    }
}

impl Io<Eval> for Kept<'_> {
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
        const { assert!(size_of::<T>() <= WIDEST) };
        let kept =
            self.before.wrapping_add(self.output.wrapping_mul(self.block).wrapping_mul(WIDEST)).cast::<T>();
        let (at, kept) = (
            self.pointers[self.output].cast::<T>().wrapping_add(self.i),
            kept.wrapping_add(self.i.wrapping_sub(self.from)),
        );
        self.output += 1;
        let (to, from) = if self.back { (at, kept) } else { (kept, at) };
        // SAFETY: elements of type T stand where the program stores them (`rows_of`); each output has room for a block of
        // the widest elements, which `along` made on the stack, at a place for any.
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

/// A contiguous row, on which a program settles; a short one ([`rows::is_short`]) by whole steps.
struct RowPreparation<'a, M, const SHORT: bool> {
    pointers: &'a Addresses,
    /// The pointer of the first load.
    first: usize,
    next: usize,
    n: usize,
    /// Bytes that are held.
    held: usize,
    /// How much is known: at any place in a program as much in every row, what is known twice counted twice.
    count: usize,
    /// Elsewhere: an index that is not constant would keep the numbers above in memory, and loops from vectorizing.
    known: &'a mut [Known; 8],
    mode: PhantomData<M>,
}

/// A part of an expression that is computed once a row: its type, its first load, its numbers, and the value or the place.
type Known = Option<(TypeId, usize, Numbers, [u64; 2])>;

/// The run-time numbers of a body, and what is settled and held inside of it, which follows from numbers as well as from loads.
type Numbers = [u64; 4];

/// The numbers of a body that is settled, if they are few; a fixed one has none that count.
#[inline(always)]
fn numbers_of<B: Body>(body: &B) -> Option<Numbers> {
    let mut few = Few { numbers: [0; 4], count: 0 };
    if const { !B::FIXED } {
        body.eval::<CollectParams>(&mut few);
    }
    (few.count <= few.numbers.len()).then_some(few.numbers)
}

/// A value of the widest elements at most, and zeros behind it.
#[inline(always)]
fn bytes_of<T: Copy>(value: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= WIDEST) };
    let mut bytes = [0; 2];
    // SAFETY: the value fits.
    unsafe { std::ptr::from_mut(&mut bytes).cast::<T>().write_unaligned(value) };
    bytes
}

/// Collects the numbers of a body, and counts them.
struct Few {
    numbers: Numbers,
    count: usize,
}

impl Few {
    #[inline(always)]
    fn push<T: Copy>(&mut self, value: T) {
        for word in &bytes_of(value)[..size_of::<T>().div_ceil(8)] {
            if let Some(free) = self.numbers.get_mut(self.count) {
                *free = *word;
            }
            self.count += 1;
        }
    }
}

impl Io<CollectParams> for Few {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<CollectParams, Compute<T>> {
        Lane(())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, value: T) -> Lane<CollectParams, Compute<T>> {
        self.push(value);
        Lane(())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, _: Lane<CollectParams, Compute<T>>) {}
    #[inline(always)]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, _: usize) -> Lane<CollectParams, Compute<T>> {
        self.push(value);
        Lane(())
    }
    #[inline(always)]
    fn cached<T: Element>(&mut self, place: usize, _: usize) -> Option<Lane<CollectParams, Compute<T>>> {
        self.push(place);
        Some(Lane(()))
    }
}

impl<M: Mode, const SHORT: bool> Row for RowPreparation<'_, M, SHORT> {
    #[inline(always)]
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    #[inline(always)]
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let what = numbers_of(body).map(|numbers| (TypeId::of::<(B, R)>(), numbers));
        if let Some(bytes) = self.recall::<B>(what) {
            self.remember(what, bytes);
            // SAFETY: bytes that were written below as this very type, which fits, as asserted there, and is read at any alignment.
            return unsafe { std::ptr::from_ref(&bytes).cast::<Compute<R::Out>>().read_unaligned() };
        }
        let pointers = *self.pointers; // a local array, again
        let at = self.first + self.next;
        let state = if SHORT {
            fold::padded::<B, R, M>(*body, &pointers, at, self.n)
        } else {
            fold::row::<B, R, M>(*body, &pointers, at, self.n, 0, 0)
        };
        let value = R::finalize::<Eval>(state, Lane(self.n as i64)).0;
        self.remember(what, bytes_of(value));
        value
    }
    #[inline(always)]
    fn cache<B: Body>(&mut self, body: &B) -> usize {
        let what = numbers_of(body).map(|numbers| (TypeId::of::<Cached<B>>(), numbers));
        if let Some([place, _]) = self.recall::<B>(what) {
            self.remember(what, [place, 0]);
            return place as usize;
        }
        let place = self.held.next_multiple_of(64);
        let n = if SHORT { self.n.next_multiple_of(STEP) } else { self.n };
        self.held = place + n * size_of::<Compute<B::Out>>();
        let pointers = *self.pointers; // a local array, again
        let room = pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<B::Out>>();
        let at = |i| At::<M>::new(&pointers, self.first + self.next, i);
        let put = |i: usize, value| {
            // SAFETY: the driver made room for every value that the program holds, each aligned to a cache line.
            unsafe { *room.wrapping_add(i) = value };
        };
        if const { M::PLAIN || B::CHEAP } {
            for i in 0..n {
                put(i, body.eval::<Eval>(&mut at(i)).value());
            }
        } else if SHORT {
            for start in (0..n).step_by(STEP) {
                eval_row(
                    body,
                    STEP,
                    |i| at(start.wrapping_add(i)),
                    |i, value| put(start.wrapping_add(i), value),
                );
            }
        } else {
            eval_row(body, n, at, put);
        }
        self.remember(what, [place as u64, 0]);
        place
    }
}

impl<'a, M: Mode, const SHORT: bool> RowPreparation<'a, M, SHORT> {
    #[inline(always)]
    fn new(pointers: &'a Addresses, first: usize, n: usize, known: &'a mut [Known; 8]) -> Self {
        RowPreparation { pointers, first, next: 0, n, held: 0, count: 0, known, mode: PhantomData }
    }

    /// What was remembered of this row, made from the same operands and numbers as the next `B` would be.
    #[inline(always)]
    fn recall<B: Body>(&self, what: Option<(TypeId, Numbers)>) -> Option<[u64; 2]> {
        let (what, numbers) = what?;
        let at = self.first + self.next;
        // Written out, without closures: what a loop looks through stays in memory, and types are compared where this is compiled
        // (rows of 64, softmax: 52 → 45 µs).
        macro_rules! first_of {
            ($($place:literal)*) => { $(
                if let Some((of, from, its, bytes)) = self.known[$place]
                    && of == what
                    && (B::FIXED || its == numbers)
                    && self.reads_alike::<B>(from, at)
                {
                    return Some(bytes);
                }
            )* };
        }
        first_of!(0 1 2 3 4 5 6 7);
        None
    }

    /// Whether the loads of a body stand in the same places from two pointers on.
    #[inline(always)]
    fn reads_alike<B: Body>(&self, from: usize, at: usize) -> bool {
        let mut k = 0;
        while k < B::LOADS {
            if self.pointers[from + k] != self.pointers[at + k] {
                return false;
            }
            k += 1;
        }
        true
    }

    #[inline(always)]
    fn remember(&mut self, what: Option<(TypeId, Numbers)>, bytes: [u64; 2]) {
        let at = self.first + self.next;
        if let Some((what, numbers)) = what
            && let Some(free) = self.known.get_mut(self.count)
        {
            *free = Some((what, at, numbers, bytes));
            self.count += 1;
        }
    }
}

/// # Safety
/// As [`Device::map`](crate::device::Device::map).
#[inline(always)] // the little that a small run needs; the rest is apart
pub(super) unsafe fn run<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe { run_job(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// As [`run`], of what is not small: nothing of it is inlined.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map).
#[inline(always)]
pub(super) unsafe fn run_apart<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe { drive(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// Runs a program by a kernel.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map); the kernel is that of what is at `program`.
#[inline(always)]
pub(super) unsafe fn run_job(
    kernel: &MapKernel,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let one_axis = |slot: &OperandRef<'_>| matches!(slot.stride, [1]);
    if let [n @ 0..walk::SHARED] = *sizes
        && !kernel.by_rows
        && kernel.operands <= FEW
        && outputs.iter().all(one_axis)
        && inputs.slots.iter().all(one_axis)
    {
        let (job, apart) = job(kernel, program, outputs, inputs);
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program.
        unsafe { job.one_run::<FEW>(n, apart, inputs.slots) };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { drive(kernel, program, sizes, row, outputs, inputs) }
}

/// The work of a program, and the outputs that are no inputs.
#[inline(always)]
fn job<'a, 's>(
    kernel: &MapKernel,
    program: *const (),
    outputs: &'s [OperandRef<'s>],
    inputs: Inputs<'a>,
) -> (Job<'a>, &'s [OperandRef<'s>]) {
    let first = if kernel.in_place { 0 } else { outputs.len() };
    let job = Job {
        loops: kernel.loops,
        program,
        outputs: outputs.len(),
        first,
        reads: inputs.reads,
        level: simd::level(),
        light: kernel.light,
        streams: false,
        waits: false,
    };
    (job, &outputs[..first])
}

/// # Safety
/// As [`run_job`].
#[inline(never)]
unsafe fn drive(
    kernel: &MapKernel,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let (job, apart) = job(kernel, program, outputs, inputs);
    let run = if kernel.by_rows { None } else { walk::one_run(sizes, apart, inputs.slots) };
    if let Some(n @ 0..walk::SHARED) = run {
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program.
        unsafe { job.one_run::<MAX_OPERANDS>(n, apart, inputs.slots) };
        return Ok(());
    }
    if let ([to], [from], true) = (apart, inputs.slots, kernel.copy) {
        // SAFETY: the caller's promise; both hold elements of one type.
        unsafe { copy::copy(sizes, *to, *from) };
        return Ok(());
    }
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    if !kernel.by_rows && unsafe { job.equal_rows(sizes, apart, inputs.slots) } {
        return Ok(());
    }
    let streams = apart.iter().any(|slot| goes_past_caches(sizes, slot))
        && (kernel.loads > 0 || !simd::writes_whole_lines());
    let waits = kernel.light && !streams && outputs.iter().any(|slot| is_larger_than_caches(sizes, slot));
    // What reads nothing waits for its stores.
    let level = if waits || kernel.loads == 0 { simd::level_for_memory() } else { job.level };
    let job = Job { level, streams, waits, ..job };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe {
        if kernel.by_rows {
            if rows::small(&job, kernel.held, sizes, row, apart, inputs.slots) {
                return Ok(());
            }
            return rows::drive(&job, kernel.held, sizes, row, apart, inputs.slots);
        }
        if let (Some(n), false) = (run, streams) {
            job.run(n, apart, inputs.slots);
            return Ok(());
        }
        job.drive(sizes, apart, inputs.slots);
    }
    Ok(())
}
