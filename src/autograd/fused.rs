//! The gradients of all operands of a program in one kernel, which computes what they share once.
// Imports: `dtype`, `scalar`, `element`, `kernel`.

use super::vjp::{LoadTypes, StoreAsLoad, Tangents, Variable, loads_result, run_dual};
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::kernel::{Io, Program, Row};
use crate::scalar::{CollectParams, Lane, Lanes, Prim};

/// The fewest loads of a program. With two, a kernel for both saves one read of the gradient, and would double
/// the compile time of most operators on a tape.
pub(super) const MIN_VARIABLES: usize = 3;
/// The most loads of a program.
pub(super) const MAX_VARIABLES: usize = 4;
/// The most loads: those of the program, its result, and the gradient.
const MAX_LOADS: usize = MAX_VARIABLES + 2;

/// Whether [`VjpOfAll`] exists for a program. Gradients of gradients have none: a program of two loads has
/// backward programs of three.
pub(super) const fn exists<P: Program>() -> bool {
    P::LOADS >= MIN_VARIABLES
        && P::LOADS <= MAX_VARIABLES
        && P::OUTPUTS == 1
        && !P::BY_ROWS
        && !P::COMPLEX
        && !P::IS_BACKWARD
}

/// The gradients of a program by all its loads, which are real numbers of one type, each an operand of its
/// own. Its loads are those of the program with derivatives, then the gradient of the program's output. It
/// has an output for each load of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct VjpOfAll<P>(pub(super) P);

impl<P: Program> Program for VjpOfAll<P> {
    const IS_BACKWARD: bool = true;
    // The compiler checks also the programs for which it makes no kernel.
    const OUTPUTS: usize = if exists::<P>() { P::LOADS } else { 1 };
    const LOADS: usize = P::LOADS + loads_result::<P>() as usize + 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = P::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = P::PLAIN;
    const COMPLEX: bool = false;
    const CHEAP: bool = P::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        self.0.variant()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let mut lanes = [const { RealLane::None }; MAX_LOADS];
        let mut types = LoadTypes::new();
        self.0.run::<CollectParams>(&mut types);
        macro_rules! pass {
            ($($k:literal)*) => {{
                let sums = [$({
                    let mut loaded = Loaded { io: &mut *io, lanes: &mut lanes, next: 0 };
                    let variable = Variable { mask: 1 << $k, is_imaginary: false };
                    let mut tangents = Tangents::<L, _, $k>::new(&mut loaded, variable);
                    if const { P::LOADS > $k } {
                        run_dual::<P, L>(&self.0, &mut tangents);
                    }
                    (variable, tangents.into_sum())
                }),*];
                for (k, (variable, sum)) in sums.into_iter().enumerate().take(P::LOADS) {
                    let mut output = StoreAsLoad::new(&mut *io, variable, k, sum, types);
                    self.0.run::<CollectParams>(&mut output);
                }
            }};
        }
        pass!(0 1 2 3)
    }
}

/// A lane of a real number.
#[derive(Clone, Copy)]
enum RealLane<L: Lanes> {
    None,
    Single(Lane<L, f32>),
    Double(Lane<L, f64>),
}

/// Loads of which each is read by several passes over a program. The first pass loads them.
struct Loaded<'a, L: Lanes, IO> {
    io: &'a mut IO,
    lanes: &'a mut [RealLane<L>; MAX_LOADS],
    next: usize,
}

impl<L: Lanes, IO: Io<L>> Io<L> for Loaded<'_, L, IO> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<L, Compute<T>> {
        let lane = &mut self.lanes[self.next];
        self.next += 1;
        if let RealLane::None = lane {
            let value = self.io.load::<T>();
            *lane = match <Compute<T> as Prim>::DTYPE {
                DType::F64 => RealLane::Double(value.cast()),
                _ => RealLane::Single(value.cast()),
            };
        }
        match *lane {
            RealLane::Single(value) => value.cast(),
            RealLane::Double(value) => value.cast(),
            RealLane::None => Lane::literal(Default::default()),
        }
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, value: T) -> Lane<L, Compute<T>> {
        self.io.param(value)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, value: Lane<L, Compute<T>>) {
        self.io.store::<T>(value);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<L, Compute<T>> {
        self.io.row_constant::<T>(value, loads)
    }
}
