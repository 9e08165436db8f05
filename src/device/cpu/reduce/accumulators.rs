//! The accumulators of a reducer whose type is erased: their size, and how they are initialized, combined and
//! finalized.
// Imports: `element`, `kernel`, `scalar`.

use super::super::memory::scratch::CACHE_LINE_BYTES;
use crate::element::Element;
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;

/// The accumulator of reducer `R` over body `B`.
pub(crate) type AccumulatorOf<B, R> = <R as Reducer<<B as Body>::Out>>::State<Eval>;

/// The largest accumulator in bytes for which a reduction goes by columns.
pub(crate) const COLUMN_ACCUMULATOR_BYTES: usize = 64;

/// The functions on a reducer's accumulators, with its type erased. They borrow an interpreted reducer.
#[derive(Clone, Copy)]
pub(crate) struct AccumulatorFns<'a> {
    /// Bytes of one accumulator.
    pub(crate) size: usize,
    /// Bytes of one result.
    pub(crate) out: usize,
    /// The first argument of the functions: the reducer's program where it is interpreted, null otherwise.
    pub(crate) reducer: *const (),
    pub(crate) borrowed: PhantomData<&'a ()>,
    /// Writes `n` identities.
    pub(crate) identity: unsafe fn(reducer: *const (), to: *mut u8, n: usize),
    /// Combines each of `n` accumulators with a later one; the result replaces the later one.
    pub(crate) combine: unsafe fn(reducer: *const (), earlier: *const u8, later: *mut u8, n: usize),
    /// Writes the results of `n` accumulators of `count` values each, one after another.
    pub(crate) finalize:
        unsafe fn(reducer: *const (), accumulators: *const u8, n: usize, count: usize, out: *mut u8),
}

impl AccumulatorFns<'static> {
    pub(crate) const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        assert!(
            align_of::<AccumulatorOf<B, R>>() <= CACHE_LINE_BYTES,
            "the alignment of accumulators is at most that of scratch memory"
        );
        AccumulatorFns {
            size: size_of::<AccumulatorOf<B, R>>(),
            out: size_of::<R::Out>(),
            reducer: std::ptr::null(),
            borrowed: PhantomData,
            identity: identity::<B, R>,
            combine: combine::<B, R>,
            finalize: finalize_all::<B, R>,
        }
    }
}

impl AccumulatorFns<'_> {
    /// Writes `n` identities.
    ///
    /// # Safety
    /// `to` has room for `n` accumulators.
    pub(crate) unsafe fn identity(&self, to: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the functions belong to this reducer.
        unsafe { (self.identity)(self.reducer, to, n) };
    }

    /// Combines each of `n` accumulators with a later one; the result replaces the later one.
    ///
    /// # Safety
    /// `earlier` and `later` hold `n` accumulators each.
    pub(crate) unsafe fn combine(&self, earlier: *const u8, later: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the functions belong to this reducer.
        unsafe { (self.combine)(self.reducer, earlier, later, n) };
    }

    /// Writes the results of `n` accumulators of `count` values each, one after another.
    ///
    /// # Safety
    /// 1. `accumulators` holds `n` accumulators.
    /// 2. `out` has room for `n` elements of the result.
    pub(crate) unsafe fn finalize(&self, accumulators: *const u8, n: usize, count: usize, out: *mut u8) {
        // SAFETY: (1) and (2) are the caller's promise; the functions belong to this reducer.
        unsafe { (self.finalize)(self.reducer, accumulators, n, count, out) };
    }
}

/// # Safety
/// As [`AccumulatorFns::identity`]; `to` is aligned for accumulators.
unsafe fn identity<B: Body, R: Reducer<B::Out>>(_: *const (), to: *mut u8, n: usize) {
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<AccumulatorOf<B, R>>().add(k).write(R::identity::<Eval>()) };
    }
}

/// # Safety
/// As [`AccumulatorFns::combine`]; both are aligned for accumulators.
unsafe fn combine<B: Body, R: Reducer<B::Out>>(_: *const (), earlier: *const u8, later: *mut u8, n: usize) {
    let (earlier, later) = (earlier.cast::<AccumulatorOf<B, R>>(), later.cast::<AccumulatorOf<B, R>>());
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe { later.add(k).write(R::combine::<Eval>(earlier.add(k).read(), later.add(k).read())) };
    }
}

/// # Safety
/// As [`AccumulatorFns::finalize`]; `accumulators` and `out` are aligned.
unsafe fn finalize_all<B: Body, R: Reducer<B::Out>>(
    _: *const (),
    accumulators: *const u8,
    n: usize,
    count: usize,
    out: *mut u8,
) {
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            finalize::<B, R>(
                accumulators.cast::<AccumulatorOf<B, R>>().add(k).read(),
                count,
                out.wrapping_add(k * size_of::<R::Out>()),
            )
        };
    }
}

/// Writes the result of a row of `count` values with this accumulator.
///
/// # Safety
/// `out` has room for one `R::Out`.
#[inline(always)]
pub(crate) unsafe fn finalize<B: Body, R: Reducer<B::Out>>(
    accumulator: AccumulatorOf<B, R>,
    count: usize,
    out: *mut u8,
) {
    let value = R::finalize::<Eval>(accumulator, Lane(count as i64)).0;
    // SAFETY: the caller's promise.
    unsafe { *out.cast::<R::Out>() = R::Out::narrow(value) };
}
