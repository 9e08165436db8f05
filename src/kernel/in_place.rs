//! Programs that update their first operands in place.
// Imports: `scalar`.

use super::{Io, Program, Row, Slopes};
use crate::scalar::{Dual, Lanes};

/// A program whose k-th output is the operand of its k-th load, for every output.
///
/// It has its own type because a loop that may write its inputs is compiled differently. With this knowledge
/// a device needs no buffer between, and may ignore the outputs' addresses.
///
/// The caller promises that outputs and loads share addresses and elements
/// ([`Device::map`](crate::Device::map) is unsafe). The type checks that each output has a load.
///
/// # Examples
/// ```
/// use rankform::kernel::{Call, InPlace, Input, Program, Store};
/// type Doubled = Store<Call<rankform::ops::Neg, (Input<f32>,)>>;
/// assert_eq!((InPlace::<Doubled>::OUTPUTS, InPlace::<Doubled>::LOADS), (1, 1));
/// ```
///
/// A program without loads cannot update in place:
///
/// ```compile_fail,E0080
/// use rankform::kernel::{InPlace, Param, Program, Store};
/// let _ = InPlace::<Store<Param<f32>>>::OUTPUTS;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InPlace<P>(pub P);

impl<P: Program> Program for InPlace<P> {
    const OUTPUTS: usize = {
        assert!(P::OUTPUTS <= P::LOADS, "a program in place loads each of its outputs");
        P::OUTPUTS
    };
    const LOADS: usize = P::LOADS;
    const BY_ROWS: bool = P::BY_ROWS;
    const ROW_CONSTANTS: usize = P::ROW_CONSTANTS;
    const FIXED: bool = P::FIXED;
    const CACHED_BYTES: usize = P::CACHED_BYTES;
    const PLAIN: bool = P::PLAIN;
    const COMPLEX: bool = P::COMPLEX;
    const CHEAP: bool = P::CHEAP;
    const IN_PLACE: bool = true;
    const SLOPES: Slopes = P::SLOPES;
    const BY_RESULT: bool = P::BY_RESULT;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        self.0.variant()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, row: &mut impl Row) {
        self.0.prepare_row(row);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        self.0.run::<L>(io);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run_dual<L: Lanes>(&self, io: &mut impl Io<Dual<L>>) {
        self.0.run_dual::<L>(io);
    }
}
