//! A row of elements through a program: quick forms first, the full ones where these do not hold.
// Imports: `scalar`, `element`, `kernel`.

use super::{Body, Io, Program};
use crate::element::{Compute, Element};
use crate::scalar::{Eval, FastEval, Lane};
use std::ops::Range;

/// Elements that are tried together. One of them in doubt makes all of them run in full.
const BLOCK: usize = 512;

/// Runs `program` at the positions from 0 to `n`: block by block by [`FastEval`] forms and, where one is in doubt, again.
///
/// `at` gives access to a position; as a position may be run twice, no output may be an input. For programs without a
/// function that has a quick form the compiler leaves one plain loop.
#[inline(always)]
pub fn run_row<P: Program, IO: Io<Eval>>(program: &P, n: usize, at: impl Fn(usize) -> IO) {
    run_row_in_place(program, n, BLOCK, at, |_| {}, |_| {});
}

/// As [`run_row`], where outputs may be inputs: `keep` saves what `block` positions hold before they are tried, and
/// `restore` brings it back before they run in full. Where nothing can be in doubt, the compiler drops both.
#[inline(always)]
pub fn run_row_in_place<P: Program, IO: Io<Eval>>(
    program: &P,
    n: usize,
    block: usize,
    at: impl Fn(usize) -> IO,
    keep: impl Fn(Range<usize>),
    restore: impl Fn(Range<usize>),
) {
    let mut start = 0;
    while start < n {
        let end = start + block.max(1).min(n - start);
        keep(start..end);
        let mut doubt = false;
        for i in start..end {
            let mut tried = Tried { io: at(i), doubt: false };
            program.run::<FastEval>(&mut tried);
            doubt |= tried.doubt;
        }
        if doubt {
            restore(start..end);
            for i in start..end {
                program.run::<Eval>(&mut at(i));
            }
        }
        start = end;
    }
}

/// The values of `body` at the positions from 0 to `n`, as [`run_row`] computes them; `put` may be told one twice.
#[inline(always)]
pub fn eval_row<B: Body, IO: Io<Eval>>(
    body: &B,
    n: usize,
    at: impl Fn(usize) -> IO,
    put: impl Fn(usize, Compute<B::Out>),
) {
    for start in (0..n).step_by(BLOCK) {
        let end = start + BLOCK.min(n - start);
        let mut doubt = false;
        for i in start..end {
            let value = body.eval::<FastEval>(&mut Tried { io: at(i), doubt: false });
            doubt |= value.in_doubt();
            put(i, value.tried());
        }
        if doubt {
            for i in start..end {
                put(i, body.eval::<Eval>(&mut at(i)).value());
            }
        }
    }
}

/// Loads and stores of a quick run, and whether a stored value was in doubt.
struct Tried<IO> {
    io: IO,
    doubt: bool,
}

impl<IO: Io<Eval>> Io<FastEval> for Tried<IO> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<FastEval, Compute<T>> {
        Lane::certain(self.io.load::<T>().value())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, value: T) -> Lane<FastEval, Compute<T>> {
        Lane::certain(self.io.param(value).value())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, value: Lane<FastEval, Compute<T>>) {
        self.doubt |= value.in_doubt();
        self.io.store::<T>(Lane::from_raw(value.tried()));
    }
    #[inline(always)]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<FastEval, Compute<T>> {
        Lane::certain(self.io.row_constant::<T>(value, loads).value())
    }
    #[inline(always)]
    fn cached<T: Element>(&mut self, place: usize, loads: usize) -> Option<Lane<FastEval, Compute<T>>> {
        self.io.cached::<T>(place, loads).map(|value| Lane::certain(value.value()))
    }
}
