//! Row constants: the parts of a program that have one value for a row, and the cached values of its
//! elements.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::call::MAX_ELEMENT_BYTES;
use crate::device::MAX_OPERANDS;
use crate::device::cpu::cursor::{By, Cursor};
use crate::device::cpu::isa::{self, LoopCall};
use crate::device::cpu::reduce::accumulate::{self, SHORT_ROW_ELEMENTS, STEP_ELEMENTS};
use crate::device::cpu::strided::Pointers;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Cached, Io, Program, Reducer, Row, eval_row};
use crate::scalar::{CollectParams, Eval, Lane};
use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Whether a kernel processes rows of `n` elements by whole steps: it reads and writes up to the next
/// multiple of [`STEP_ELEMENTS`], and its loops have constant lengths.
#[inline(always)]
pub(crate) const fn is_short(n: usize, in_place: bool) -> bool {
    n <= SHORT_ROW_ELEMENTS && !in_place
}

/// The number of row constants up to which their loops are parts of the program's loop. Expressions repeat
/// row constants: derivatives have most of them several times. A function is compiled once.
const MAX_INLINED: usize = 3;

/// Whether the loops of row constants are functions.
pub(super) const fn are_apart<P: Program>() -> bool {
    P::ROW_CONSTANTS > MAX_INLINED
}

/// A contiguous row on which a program computes its row constants and cached values; a short row
/// ([`is_short`]) by whole steps. The loops of row constants are parts of the program's loop, or (`APART`)
/// functions.
pub(super) struct RowPreparation<'a, const SCALAR: bool, const SHORT: bool, const APART: bool> {
    /// The copy of the program's loop; see [`LoopCall::call`].
    wide: bool,
    pointers: &'a Pointers,
    /// The number of the first load's pointer.
    first: usize,
    next: usize,
    n: usize,
    /// Bytes of the cached values so far.
    held: usize,
    /// The number of memo entries so far. It is the same at a given point of the program for every row
    /// (duplicates are counted), so it is a constant after inlining.
    count: usize,
    /// The memo is outside of this struct: a variable index into it would keep the fields above in memory and
    /// prevent loops from vectorizing.
    memo: &'a mut [MemoEntry; 8],
}

/// A part of an expression that is computed once for each row: its type, its first load, its parameters, and
/// its value or the place of its cached values.
pub(super) type MemoEntry = Option<(TypeId, usize, Params, [u64; 2])>;

/// The run-time parameters of a body, including the row constants and cached values inside of it, which
/// depend on parameters as well as on loads.
type Params = [u64; 4];

/// The parameters of a prepared body, if they are few; a fixed body has none that matter.
#[inline(always)]
fn params_of<B: Body>(body: &B) -> Option<Params> {
    let mut few = FewParams { params: [0; 4], count: 0 };
    if const { !B::FIXED } {
        body.eval::<CollectParams>(&mut few);
    }
    (few.count <= few.params.len()).then_some(few.params)
}

/// The bytes of a value, followed by zeros.
#[inline(always)]
fn bytes_of<T: Copy>(value: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= MAX_ELEMENT_BYTES) };
    let mut bytes = [0; 2];
    // SAFETY: the assertion above says that the value fits.
    unsafe { std::ptr::from_mut(&mut bytes).cast::<T>().write_unaligned(value) };
    bytes
}

/// Collects the parameters of a body, and counts them.
struct FewParams {
    params: Params,
    count: usize,
}

impl FewParams {
    #[inline(always)]
    fn push<T: Copy>(&mut self, value: T) {
        for word in &bytes_of(value)[..size_of::<T>().div_ceil(8)] {
            if let Some(free) = self.params.get_mut(self.count) {
                *free = *word;
            }
            self.count += 1;
        }
    }
}

impl Io<CollectParams> for FewParams {
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

/// A body and its operands. They are copies: a function that receives their address leaves those of the
/// program in registers.
struct RowBody<B> {
    body: B,
    /// The pointers of the body's loads from 0 on, and the one to the cached values. All others are not
    /// initialized.
    pointers: MaybeUninit<Pointers>,
}

impl<B: Body> RowBody<B> {
    /// The first load of the body is pointer `first`.
    #[inline(always)]
    fn new(body: &B, all: &Pointers, first: usize) -> Self {
        let mut pointers = MaybeUninit::<Pointers>::uninit();
        let to = pointers.as_mut_ptr().cast::<*mut u8>();
        for k in 0..B::LOADS {
            // SAFETY: a body has at most as many loads as there are pointers.
            unsafe { *to.wrapping_add(k) = all[first + k] };
        }
        // SAFETY: this is the last pointer.
        unsafe { *to.wrapping_add(MAX_OPERANDS) = all[MAX_OPERANDS] };
        RowBody { body: *body, pointers }
    }

    /// All pointers; those that the body does not read are null.
    #[inline(always)]
    fn pointers(&self) -> Pointers {
        let from = self.pointers.as_ptr().cast::<*mut u8>();
        let mut pointers: Pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for k in 0..B::LOADS {
            // SAFETY: `new` wrote this pointer.
            pointers[k] = unsafe { *from.wrapping_add(k) };
        }
        // SAFETY: as above.
        pointers[MAX_OPERANDS] = unsafe { *from.wrapping_add(MAX_OPERANDS) };
        pointers
    }
}

/// The loop that reduces the values of a body along a row of `n` elements, and writes the result to `to`.
struct ReduceLoop<B, R, const SHORT: bool>(PhantomData<(B, R)>);

impl<B: Body, R: Reducer<B::Out>, const SHORT: bool> LoopCall<*const RowBody<B>, (), *mut Compute<R::Out>>
    for ReduceLoop<B, R, SHORT>
{
    const HAS_AVX512: bool = true;
    /// # Safety
    /// 1. `of` and `to` are valid.
    /// 2. As for `run_rows_of` in `kernel.rs`: (3), (5) and (7).
    #[inline(always)]
    unsafe fn call<const SCALAR: bool>(
        _: bool,
        of: *const RowBody<B>,
        _: usize,
        n: usize,
        (): (),
        to: *mut Compute<R::Out>,
    ) {
        // SAFETY: (1) by the caller's promise.
        let (body, pointers) = unsafe { ((*of).body, (*of).pointers()) };
        let accumulator = if SHORT && !SCALAR {
            accumulate::accumulate_padded_row::<B, R, By<true, false>>(body, &pointers, 0, n)
        } else {
            accumulate::accumulate_row::<B, R, By<true, SCALAR>>(body, &pointers, 0, n, 0, 0)
        };
        // SAFETY: (1) by the caller's promise.
        unsafe { *to = R::finalize::<Eval>(accumulator, Lane(n as i64)).0 };
    }
}

/// The loop that writes the values of a body along a row of `n` elements to `to`.
struct CacheLoop<B, const SHORT: bool>(PhantomData<B>);

impl<B: Body, const SHORT: bool> LoopCall<*const RowBody<B>, (), *mut Compute<B::Out>>
    for CacheLoop<B, SHORT>
{
    const HAS_AVX512: bool = true;
    /// # Safety
    /// 1. `of` is valid.
    /// 2. As for `run_rows_of` in `kernel.rs`: (3), (5) and (7).
    /// 3. `to` has room for `n` values; for a short row, up to the next multiple of a step.
    #[inline(always)]
    unsafe fn call<const SCALAR: bool>(
        _: bool,
        of: *const RowBody<B>,
        _: usize,
        n: usize,
        (): (),
        to: *mut Compute<B::Out>,
    ) {
        // SAFETY: (1) by the caller's promise.
        let (body, pointers) = unsafe { ((*of).body, (*of).pointers()) };
        let at = |i| Cursor::<By<true, SCALAR>>::new(&pointers, 0, i);
        // SAFETY: (3) by the caller's promise.
        let put = |i: usize, value| unsafe { *to.wrapping_add(i) = value };
        let padded = if SHORT { n.next_multiple_of(STEP_ELEMENTS) } else { n };
        if const { SCALAR || B::CHEAP } {
            for i in 0..padded {
                put(i, body.eval::<Eval>(&mut at(i)).value());
            }
        } else if SHORT {
            for start in (0..n).step_by(STEP_ELEMENTS) {
                eval_row(
                    &body,
                    STEP_ELEMENTS,
                    |i| at(start.wrapping_add(i)),
                    |i, value| put(start.wrapping_add(i), value),
                );
            }
        } else {
            eval_row(&body, n, at, put);
        }
    }
}

impl<const SCALAR: bool, const SHORT: bool, const APART: bool> Row
    for RowPreparation<'_, SCALAR, SHORT, APART>
{
    #[inline(always)]
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    #[inline(always)]
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let key = params_of(body).map(|params| (TypeId::of::<(B, R)>(), params));
        if let Some(bytes) = self.lookup::<B>(key) {
            self.insert(key, bytes);
            // SAFETY: these bytes were written below from this very type. It fits, as asserted there, and any
            // alignment is permitted.
            return unsafe { std::ptr::from_ref(&bytes).cast::<Compute<R::Out>>().read_unaligned() };
        }
        let mut value = Compute::<R::Out>::default();
        let of = RowBody::new(body, self.pointers, self.first + self.next);
        // SAFETY: (1), (2) the caller of the kernel promised the operands of the row.
        unsafe {
            self.call::<ReduceLoop<B, R, SHORT>, _, _>(&of, &mut value);
        }
        self.insert(key, bytes_of(value));
        value
    }
    #[inline(always)]
    fn cache<B: Body>(&mut self, body: &B) -> usize {
        let key = params_of(body).map(|params| (TypeId::of::<Cached<B>>(), params));
        if let Some([place, _]) = self.lookup::<B>(key) {
            self.insert(key, [place, 0]);
            return place as usize;
        }
        let place = self.held.next_multiple_of(64);
        let n = if SHORT { self.n.next_multiple_of(STEP_ELEMENTS) } else { self.n };
        self.held = place + n * size_of::<Compute<B::Out>>();
        let to = self.pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<B::Out>>();
        let of = RowBody::new(body, self.pointers, self.first + self.next);
        // SAFETY: (1), (2) the caller of the kernel promised the operands of the row; (3) it made room for
        // every cached value, each aligned to a cache line.
        unsafe {
            self.call::<CacheLoop<B, SHORT>, _, _>(&of, to);
        }
        self.insert(key, [place as u64, 0]);
        place
    }
}

impl<'a, const SCALAR: bool, const SHORT: bool, const APART: bool> RowPreparation<'a, SCALAR, SHORT, APART> {
    #[inline(always)]
    pub(super) fn new(
        wide: bool,
        pointers: &'a Pointers,
        first: usize,
        n: usize,
        memo: &'a mut [MemoEntry; 8],
    ) -> Self {
        RowPreparation { wide, pointers, first, next: 0, n, held: 0, count: 0, memo }
    }

    /// Runs the loop of a row constant, or of cached values.
    ///
    /// # Safety
    /// The caller keeps the obligations of the loop.
    #[inline(always)]
    unsafe fn call<L: LoopCall<A, (), C>, A, C>(&self, of: A, to: C) {
        // SAFETY: the caller's promise; the copy is that of the program's loop.
        unsafe {
            match APART {
                true => isa::call_inner::<L, A, (), C, SCALAR>(self.wide, of, 0, self.n, (), to),
                false => L::call::<SCALAR>(self.wide, of, 0, self.n, (), to),
            }
        }
    }

    /// The memo's value for the next `B`, if the row has one with the same type, operands and parameters.
    #[inline(always)]
    fn lookup<B: Body>(&self, key: Option<(TypeId, Params)>) -> Option<[u64; 2]> {
        let (key, params) = key?;
        let at = self.first + self.next;
        // The loop is unrolled by hand, without closures: a loop would keep the memo in memory, and the types
        // are then compared at compile time.
        macro_rules! first_of {
            ($($place:literal)*) => { $(
                if let Some((of, from, its, bytes)) = self.memo[$place]
                    && of == key
                    && (B::FIXED || its == params)
                    && self.same_loads::<B>(from, at)
                {
                    return Some(bytes);
                }
            )* };
        }
        first_of!(0 1 2 3 4 5 6 7);
        None
    }

    /// Whether the loads of a body have the same addresses from pointer `from` on as from pointer `at` on.
    #[inline(always)]
    fn same_loads<B: Body>(&self, from: usize, at: usize) -> bool {
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
    fn insert(&mut self, key: Option<(TypeId, Params)>, bytes: [u64; 2]) {
        let at = self.first + self.next;
        if let Some((key, params)) = key
            && let Some(free) = self.memo.get_mut(self.count)
        {
            *free = Some((key, at, params, bytes));
            self.count += 1;
        }
    }
}
