//! Row constants: the parts of a program that have one value for a row, and the cached values of its elements.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::call::MAX_ELEMENT_BYTES;
use crate::device::MAX_OPERANDS;
use crate::device::cpu::cursor::{Cursor, Mode};
use crate::device::cpu::fold::{self, SHORT, STEP};
use crate::device::cpu::strided::Pointers;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Cached, Io, Reducer, Row, eval_row};
use crate::scalar::{CollectParams, Eval, Lane};
use std::any::TypeId;
use std::marker::PhantomData;

/// Whether a kernel takes rows of `n` elements by whole steps: then it reads and writes up to the next multiple of [`STEP`], so that
/// its loops are of a constant length (rows of 10, Zen 4: `x − mean` 28 → 11 ns, layer norm 58 → 31).
#[inline(always)]
pub(crate) const fn is_short(n: usize, in_place: bool) -> bool {
    n <= SHORT && !in_place
}

/// A contiguous row, on which a program settles; a short one ([`is_short`]) by whole steps.
pub(super) struct RowPreparation<'a, M, const SHORT: bool> {
    pointers: &'a Pointers,
    /// The pointer of the first load.
    first: usize,
    next: usize,
    n: usize,
    /// Bytes that are held.
    held: usize,
    /// How much is known: at any place in a program as much in every row, what is known twice counted twice.
    count: usize,
    /// Elsewhere: an index that is not constant would keep the numbers above in memory, and loops from vectorizing.
    memo: &'a mut [MemoEntry; 8],
    mode: PhantomData<M>,
}

/// A part of an expression that is computed once a row: its type, its first load, its numbers, and the value or the place.
pub(super) type MemoEntry = Option<(TypeId, usize, Params, [u64; 2])>;

/// The run-time numbers of a body, and what is settled and held inside of it, which follows from numbers as well as from loads.
type Params = [u64; 4];

/// The numbers of a body that is settled, if they are few; a fixed one has none that count.
#[inline(always)]
fn params_of<B: Body>(body: &B) -> Option<Params> {
    let mut few = FewParams { params: [0; 4], count: 0 };
    if const { !B::FIXED } {
        body.eval::<CollectParams>(&mut few);
    }
    (few.count <= few.params.len()).then_some(few.params)
}

/// A value of the widest elements at most, and zeros behind it.
#[inline(always)]
fn bytes_of<T: Copy>(value: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= MAX_ELEMENT_BYTES) };
    let mut bytes = [0; 2];
    // SAFETY: the value fits.
    unsafe { std::ptr::from_mut(&mut bytes).cast::<T>().write_unaligned(value) };
    bytes
}

/// Collects the numbers of a body, and counts them.
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
    fn settled<T: Element>(&mut self, value: Compute<T>, _: usize) -> Lane<CollectParams, Compute<T>> {
        self.push(value);
        Lane(())
    }
    #[inline(always)]
    fn held<T: Element>(&mut self, place: usize, _: usize) -> Option<Lane<CollectParams, Compute<T>>> {
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
        self.insert(key, bytes_of(value));
        value
    }
    #[inline(always)]
    fn hold<B: Body>(&mut self, body: &B) -> usize {
        let key = params_of(body).map(|params| (TypeId::of::<Cached<B>>(), params));
        if let Some([place, _]) = self.lookup::<B>(key) {
            self.insert(key, [place, 0]);
            return place as usize;
        }
        let place = self.held.next_multiple_of(64);
        let n = if SHORT { self.n.next_multiple_of(STEP) } else { self.n };
        self.held = place + n * size_of::<Compute<B::Out>>();
        let pointers = *self.pointers; // a local array, again
        let room = pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<B::Out>>();
        let at = |i| Cursor::<M>::new(&pointers, self.first + self.next, i);
        let put = |i: usize, value| {
            // SAFETY: the driver made room for every value that the program holds, each aligned to a cache line.
            unsafe { *room.wrapping_add(i) = value };
        };
        if const { M::PLAIN || B::LIGHT } {
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
        self.insert(key, [place as u64, 0]);
        place
    }
}

impl<'a, M: Mode, const SHORT: bool> RowPreparation<'a, M, SHORT> {
    #[inline(always)]
    pub(super) fn new(pointers: &'a Pointers, first: usize, n: usize, memo: &'a mut [MemoEntry; 8]) -> Self {
        RowPreparation { pointers, first, next: 0, n, held: 0, count: 0, memo, mode: PhantomData }
    }

    /// What was remembered of this row, made from the same operands and numbers as the next `B` would be.
    #[inline(always)]
    fn lookup<B: Body>(&self, key: Option<(TypeId, Params)>) -> Option<[u64; 2]> {
        let (key, params) = key?;
        let at = self.first + self.next;
        // Written out, without closures: what a loop looks through stays in memory, and types are compared where this is compiled
        // (rows of 64, softmax: 52 → 45 µs).
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

    /// Whether the loads of a body stand in the same places from two pointers on.
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
