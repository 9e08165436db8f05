//! Row constants: reductions along a row, and values cached along it.
// Imports: `scalar`, `element`, `kernel`.

use super::{Body, Io, Reducer, Row, ValueSource};
use crate::element::{Compute, Element};
use crate::scalar::{Lane, Lanes};

/// The reduction of the values of `B` along a row by `R`: one value, broadcast along the row.
#[derive(Debug)]
pub struct RowReduce<R: Reducer<B::Out>, B: Body> {
    body: B,
    value: Compute<R::Out>,
}

impl<R: Reducer<B::Out>, B: Body> RowReduce<R, B> {
    /// The reduction of `body`, before a row is prepared.
    pub fn new(body: B) -> Self {
        RowReduce { body, value: Default::default() }
    }
}
impl<R: Reducer<B::Out>, B: Body> Clone for RowReduce<R, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R: Reducer<B::Out>, B: Body> Copy for RowReduce<R, B> {}

impl<R: Reducer<B::Out>, B: Body> Body for RowReduce<R, B> {
    type Out = R::Out;
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = true;
    const ROW_CONSTANTS: usize = 1 + B::ROW_CONSTANTS;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = B::CACHED_BYTES;
    const PLAIN: bool = B::PLAIN && R::Out::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = R::CHEAP && B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<R::Out>> {
        io.row_constant::<R::Out>(self.value, B::LOADS)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, row: &mut impl Row) {
        let first = *row.next();
        self.body.prepare_row(row);
        let last = std::mem::replace(row.next(), first);
        self.value = row.reduce::<B, R>(&self.body);
        *row.next() = last;
    }
}

/// A body whose values along a row are computed once and cached, however often it is used.
#[derive(Clone, Copy, Debug)]
pub struct Cached<B> {
    body: B,
    place: usize,
}

impl<B> Cached<B> {
    /// Caches `body`.
    pub fn new(body: B) -> Self {
        Cached { body, place: 0 }
    }
    pub(crate) fn inner(&self) -> &B {
        &self.body
    }
}

impl<B: Body> Cached<B> {
    /// Whether the body is an operand, whose elements are in memory already.
    const IS_OPERAND: bool = matches!(B::SOURCE, ValueSource::Operand);
}

impl<B: Body> Body for Cached<B> {
    type Out = B::Out;
    const SOURCE: ValueSource = if Self::IS_OPERAND { ValueSource::Operand } else { ValueSource::Cached };
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = B::BY_ROWS;
    const ROW_CONSTANTS: usize = B::ROW_CONSTANTS;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize =
        B::CACHED_BYTES + if Self::IS_OPERAND { 0 } else { size_of::<Compute<B::Out>>() };
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        if Self::IS_OPERAND {
            return self.body.eval::<L>(io);
        }
        match io.cached::<B::Out>(self.place, B::LOADS) {
            Some(value) => value,
            None => self.body.eval::<L>(io),
        }
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, row: &mut impl Row) {
        if Self::IS_OPERAND {
            return self.body.prepare_row(row);
        }
        let first = *row.next();
        self.body.prepare_row(row);
        let last = std::mem::replace(row.next(), first);
        self.place = row.cache(&self.body);
        *row.next() = last;
    }
}

/// The row constants inside a body.
#[derive(Default)]
pub(crate) struct RowConstantCount {
    next: usize,
    /// Reductions.
    pub reduced: usize,
    /// Values that are cached.
    pub cached: usize,
}

impl RowConstantCount {
    pub fn of<B: Body>(body: &B) -> Self {
        let (mut count, mut copy) = (RowConstantCount::default(), *body);
        copy.prepare_row(&mut count);
        count
    }
}

impl Row for RowConstantCount {
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, _: &B) -> Compute<R::Out> {
        self.reduced += 1;
        Default::default()
    }
    fn cache<B: Body>(&mut self, _: &B) -> usize {
        self.cached += 1;
        0
    }
}
