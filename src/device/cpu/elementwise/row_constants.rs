//! Row constants: the parts of a program that have one value for a row, and the cached values of its
//! elements.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::call::MAX_ELEMENT_BYTES;
use crate::device::MAX_OPERANDS;
use crate::device::cpu::cursor::{Cursor, Mode};
use crate::device::cpu::reduce::accumulate::{self, SHORT_ROW_ELEMENTS, STEP_ELEMENTS};
use crate::device::cpu::strided::Pointers;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Cached, Io, Reducer, Row, eval_row};
use crate::scalar::{CollectParams, Eval, Lane};
use std::any::TypeId;
use std::marker::PhantomData;

/// Whether a kernel processes rows of `n` elements by whole steps: it reads and writes up to the next
/// multiple of [`STEP_ELEMENTS`], and its loops have constant lengths.
#[inline(always)]
pub(crate) const fn is_short(n: usize, in_place: bool) -> bool {
    n <= SHORT_ROW_ELEMENTS && !in_place
}

/// A contiguous row on which a program computes its row constants and cached values; a short row
/// ([`is_short`]) by whole steps.
pub(super) struct RowPreparation<'a, M, const SHORT: bool> {
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
    mode: PhantomData<M>,
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

impl<M: Mode, const SHORT: bool> Row for RowPreparation<'_, M, SHORT> {
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
        let pointers = *self.pointers; // a local array: see `kernel.rs`
        let at = self.first + self.next;
        let state = if SHORT {
            accumulate::accumulate_padded_row::<B, R, M>(*body, &pointers, at, self.n)
        } else {
            accumulate::accumulate_row::<B, R, M>(*body, &pointers, at, self.n, 0, 0)
        };
        let value = R::finalize::<Eval>(state, Lane(self.n as i64)).0;
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
        let pointers = *self.pointers; // a local array: see `kernel.rs`
        let room = pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<B::Out>>();
        let at = |i| Cursor::<M>::new(&pointers, self.first + self.next, i);
        let put = |i: usize, value| {
            // SAFETY: the caller of the kernel made room for every cached value, each aligned to a cache
            // line.
            unsafe { *room.wrapping_add(i) = value };
        };
        if const { M::SCALAR || B::CHEAP } {
            for i in 0..n {
                put(i, body.eval::<Eval>(&mut at(i)).value());
            }
        } else if SHORT {
            for start in (0..n).step_by(STEP_ELEMENTS) {
                eval_row(
                    body,
                    STEP_ELEMENTS,
                    |i| at(start.wrapping_add(i)),
                    |i, value| put(start.wrapping_add(i), value),
                );
            }
        } else {
            eval_row(body, n, at, put);
        }
        self.insert(key, [place as u64, 0]);
        place
    }
}

impl<'a, M: Mode, const SHORT: bool> RowPreparation<'a, M, SHORT> {
    #[inline(always)]
    pub(super) fn new(pointers: &'a Pointers, first: usize, n: usize, memo: &'a mut [MemoEntry; 8]) -> Self {
        RowPreparation { pointers, first, next: 0, n, held: 0, count: 0, memo, mode: PhantomData }
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
