//! Programs: whole kernels, which load any number of elements and then store their outputs.
// Imports: `scalar`, `kernel`.

use super::{Body, ElementTuple, Io, OpMany, Row, Slopes, ValueSource};
use crate::scalar::{Dual, Lanes};
use std::marker::PhantomData;

/// A whole kernel: any number of loads, then its stores.
pub trait Program: Copy + Send + Sync + 'static {
    /// The number of outputs that it stores.
    const OUTPUTS: usize;
    /// The number of loads that it makes.
    const LOADS: usize;
    /// Whether it has row constants, which are computed before each row.
    const BY_ROWS: bool;
    /// See [`Body::ROW_CONSTANTS`].
    const ROW_CONSTANTS: usize = 0;
    /// Whether its type describes it completely: it carries no run-time numbers.
    const FIXED: bool;
    /// Bytes that it caches for each element of a row.
    const CACHED_BYTES: usize;
    /// Whether all its elements are [`Element::PLAIN`](crate::element::Element::PLAIN): then its trace
    /// describes it completely.
    const PLAIN: bool;
    /// See [`Body::COMPLEX`].
    const COMPLEX: bool;
    /// See [`Body::CHEAP`].
    const CHEAP: bool;
    /// Whether its k-th output is the operand of its k-th load, for every output; see
    /// [`InPlace`](super::InPlace).
    const IN_PLACE: bool = false;
    /// Whether it stores exactly the elements that it loads: a copy.
    const COPY: bool = false;
    /// The properties of the derivatives of its output that its type states.
    const SLOPES: Slopes = Slopes::Any;
    /// Whether [`run_dual`](Program::run_dual) loads the value of the output: see [`Body::BY_RESULT`].
    const BY_RESULT: bool = false;
    /// Distinguishes the programs of this type that load or store other elements. Kernels that are kept for
    /// later calls belong to a type and a variant. Programs of a [fixed](Program::FIXED) type have one.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        0
    }
    /// Computes the row constants; see [`Body::prepare_row`].
    fn prepare_row(&mut self, row: &mut impl Row);
    /// Runs it at the current position.
    fn run<L: Lanes>(&self, io: &mut impl Io<L>);
    /// Runs it with derivatives. A program with [`BY_RESULT`](Program::BY_RESULT) makes one more load, the
    /// last one: the value of its output.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run_dual<L: Lanes>(&self, io: &mut impl Io<Dual<L>>) {
        self.run::<Dual<L>>(io);
    }
}

/// The program that stores the value of one body.
#[derive(Clone, Copy, Debug)]
pub struct Store<B>(pub B);

impl<B: Body> Program for Store<B> {
    const OUTPUTS: usize = 1;
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = B::BY_ROWS;
    const ROW_CONSTANTS: usize = B::ROW_CONSTANTS;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = B::CACHED_BYTES;
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    const COPY: bool = matches!(B::SOURCE, ValueSource::Operand);
    const SLOPES: Slopes = B::SLOPES;
    const BY_RESULT: bool = B::BY_RESULT;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, row: &mut impl Row) {
        self.0.prepare_row(row);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let value = self.0.eval::<L>(io);
        io.store::<B::Out>(value);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run_dual<L: Lanes>(&self, io: &mut impl Io<Dual<L>>) {
        let value = self.0.eval_dual::<L>(io);
        io.store::<B::Out>(value);
    }
}

/// The program that stores the outputs of an [`OpMany`].
#[derive(Debug)]
pub struct StoreMany<F, A>(PhantomData<F>, A);

impl<F, A> StoreMany<F, A> {
    /// `F` applied to `arguments`.
    pub fn new(arguments: A) -> Self {
        StoreMany(PhantomData, arguments)
    }
}
impl<F, A: Clone> Clone for StoreMany<F, A> {
    fn clone(&self) -> Self {
        StoreMany(PhantomData, self.1.clone())
    }
}
impl<F, A: Copy> Copy for StoreMany<F, A> {}

macro_rules! stores_of_many {
    ($($($element:ident $index:tt),*;)*) => { $(
        impl<FUNCTION: OpMany<($($element::Out,)*)>, $($element: Body),*> Program
            for StoreMany<FUNCTION, ($($element,)*)>
        {
            const OUTPUTS: usize = FUNCTION::Out::COUNT;
            const LOADS: usize = 0 $(+ $element::LOADS)*;
            const BY_ROWS: bool = false $(|| $element::BY_ROWS)*;
            const ROW_CONSTANTS: usize = 0 $(+ $element::ROW_CONSTANTS)*;
            const FIXED: bool = true $(&& $element::FIXED)*;
            const CACHED_BYTES: usize = 0 $(+ $element::CACHED_BYTES)*;
            const PLAIN: bool = FUNCTION::Out::PLAIN $(&& $element::PLAIN)*;
            const COMPLEX: bool = false $(|| $element::COMPLEX)*;
            const CHEAP: bool = FUNCTION::CHEAP $(&& $element::CHEAP)*;
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn prepare_row(&mut self, row: &mut impl Row) {
                $(self.1.$index.prepare_row(row);)*
            }
            #[cfg_attr(not(rankform_unoptimized), inline(always))]
            fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
                let x = ($(self.1.$index.eval::<L>(io),)*);
                let y = FUNCTION::call::<L>(x);
                FUNCTION::Out::store::<L>(y, io);
            }
        }
    )* };
}
stores_of_many! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11;
}
