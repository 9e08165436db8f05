//! A program along a row: by fast paths first, in full where a value is out of their range.
// Imports: `scalar`, `element`, `kernel`.

use super::{Body, Io, Program};
use crate::element::{Compute, Element};
use crate::scalar::{Eval, FastEval, Lane};
use std::ops::Range;

/// Elements that are evaluated together. If one of them is out of range of a fast path, all of them are
/// evaluated in full.
const BLOCK_ELEMENTS: usize = 512;

/// Runs `program` at the positions `0..n`, block by block: by [`FastEval`] first, and again in full if a
/// value of the block is out of range of a fast path.
///
/// `at` gives access to a position. A position may be run twice, so no output may be an input. If no function
/// of the program has a fast path, the compiler leaves one plain loop.
#[inline(always)]
pub fn run_row<P: Program, IO: Io<Eval>>(program: &P, n: usize, at: impl Fn(usize) -> IO) {
    run_row_in_place(program, n, BLOCK_ELEMENTS, at, |_| {}, |_| {});
}

/// As [`run_row`], for programs whose outputs may be inputs. `save` copies the contents of `block` positions
/// before their fast run, and `restore` writes them back before their full run. If no function has a fast
/// path, the compiler removes both.
#[inline(always)]
pub fn run_row_in_place<P: Program, IO: Io<Eval>>(
    program: &P,
    n: usize,
    block: usize,
    at: impl Fn(usize) -> IO,
    save: impl Fn(Range<usize>),
    restore: impl Fn(Range<usize>),
) {
    let mut start = 0;
    while start < n {
        let end = start + block.max(1).min(n - start);
        save(start..end);
        let mut doubt = false;
        for i in start..end {
            let mut io = FastIo { io: at(i), doubt: false };
            program.run::<FastEval>(&mut io);
            doubt |= io.doubt;
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

/// Computes the values of `body` at the positions `0..n`, as [`run_row`] does. `put` may receive a position
/// twice.
#[inline(always)]
pub fn eval_row<B: Body, IO: Io<Eval>>(
    body: &B,
    n: usize,
    at: impl Fn(usize) -> IO,
    put: impl Fn(usize, Compute<B::Out>),
) {
    for start in (0..n).step_by(BLOCK_ELEMENTS) {
        let end = start + BLOCK_ELEMENTS.min(n - start);
        let mut doubt = false;
        for i in start..end {
            let value = body.eval::<FastEval>(&mut FastIo { io: at(i), doubt: false });
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

/// The loads and stores of a fast run, and whether a stored value is out of range of a fast path.
struct FastIo<IO> {
    io: IO,
    doubt: bool,
}

impl<IO: Io<Eval>> Io<FastEval> for FastIo<IO> {
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
