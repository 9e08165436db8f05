//! A product of one row by packed panels of the right operand, with the bits of a vector times a matrix whose
//! rows are contiguous.
// Imports: `error`, `scalar`, `element`.

use super::super::super::isa::{self, Loop};
use super::super::super::parallel;
use super::super::packing::Convert;
use super::super::panels::PanelLayout;
use super::super::problem::GemmProblem;
use super::super::tasks::{PARALLEL_MULTIPLY_ADDS, SyncPtr, try_for_each};
use super::loops::multiply_add;
use super::task::{StoreRowsFn, store, widen, widened_vector};
use crate::element::Element;
use crate::error::Result;
use crate::scalar::Num;
use std::marker::PhantomData;

/// How elements are laid out in the units of a panel.
pub(in super::super) trait UnitLayout: 'static {
    type Unit: Copy;
    type Element: Num;
    const DEPTH: usize;
    /// Element `depth` of a unit.
    fn element(unit: Self::Unit, depth: usize) -> Self::Element;
}

/// One element a unit.
pub(in super::super) struct Single<P>(PhantomData<P>);
impl<P: Num> UnitLayout for Single<P> {
    type Unit = P;
    type Element = P;
    const DEPTH: usize = 1;
    #[inline(always)]
    fn element(unit: P, _: usize) -> P {
        unit
    }
}

/// Two bf16 a unit, the first in the lower half.
pub(in super::super) struct Bf16Pairs;
impl UnitLayout for Bf16Pairs {
    type Unit = u32;
    type Element = f32;
    const DEPTH: usize = 2;
    #[inline(always)]
    fn element(unit: u32, depth: usize) -> f32 {
        f32::from_bits(if depth == 0 { unit << 16 } else { unit & 0xffff_0000 })
    }
}

/// The [`RowByPanelsFn`](super::super::problem::RowByPanelsFn) of a left operand of `L`, panels of `P` and an
/// output of `T`.
///
/// # Safety
/// 1. The left operand has one row and holds the elements of `L` at every index, the output the elements `T`;
///    they do not overlap.   2. The panels are those of the right operand, in units of `P` and with this
///    layout.
pub(in super::super) unsafe fn row_by_panels<L, P, T>(
    problem: &GemmProblem,
    panels: *const u8,
    layout: PanelLayout,
) -> Result<()>
where
    L: Convert<To = P::Element>,
    P: UnitLayout,
    T: Element,
{
    // SAFETY: (1) the caller's promise.
    let vector = unsafe { widened_vector(problem.left, &problem.k, 0, widen::<L>, size_of::<P::Element>())? };
    let (vector, panels) = (SyncPtr(vector.start().cast_const().cast::<P::Element>()), SyncPtr(panels));
    let tasks = if problem.work() >= PARALLEL_MULTIPLY_ADDS { 2 * parallel::count() } else { 1 };
    let share = layout.count.div_ceil(tasks);
    try_for_each(layout.count.div_ceil(share), true, &|task| {
        for panel in task * share..layout.count.min((task + 1) * share) {
            let at = panels.get().wrapping_add(panel * layout.nbytes);
            isa::dispatch(RowByPanel::<P> {
                problem,
                vector: vector.get(),
                panel: at.cast(),
                width: layout.width,
                first: panel * layout.width,
                store: store::<P::Element, T>,
            });
        }
        Ok(())
    })
}

/// The columns of one panel.
struct RowByPanel<'a, P: UnitLayout> {
    problem: &'a GemmProblem,
    vector: *const P::Element,
    panel: *const P::Unit,
    width: usize,
    /// The first column.
    first: usize,
    store: StoreRowsFn,
}

impl<P: UnitLayout> Loop for RowByPanel<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.width {
            32 => self.columns::<32>(),
            16 => self.columns::<16>(),
            8 => self.columns::<8>(),
            _ => self.columns::<4>(),
        }
    }
    /// The same sums, lane by lane.
    fn run_scalar(self) {
        let terms = self.problem.k.total();
        for lane in 0..self.width.min(self.problem.n.total() - self.first) {
            let mut sum = P::Element::default();
            for p in 0..terms {
                // SAFETY: (2) of `row_by_panels`: the unit of this lane; the vector has an element for each
                // term.
                let (unit, x) = unsafe {
                    (self.panel.add(p / P::DEPTH * self.width + lane).read(), self.vector.add(p).read())
                };
                sum = multiply_add(sum, P::element(unit, p % P::DEPTH), x);
            }
            self.put(lane, &[sum]);
        }
    }
}

impl<P: UnitLayout> RowByPanel<'_, P> {
    #[inline(always)]
    fn columns<const WIDTH: usize>(&self) {
        debug_assert_eq!(self.width, WIDTH);
        let GemmProblem { k, n, .. } = self.problem;
        let mut sums = [P::Element::default(); WIDTH];
        let terms = k.total();
        for unit in 0..terms.div_ceil(P::DEPTH) {
            // SAFETY: (2) of `row_by_panels`: a unit of each lane of the panel.
            let values = unsafe { self.panel.add(unit * WIDTH).cast::<[P::Unit; WIDTH]>().read_unaligned() };
            for depth in 0..P::DEPTH.min(terms - unit * P::DEPTH) {
                // SAFETY: the vector has an element for each term.
                let x = unsafe { self.vector.add(unit * P::DEPTH + depth).read() };
                for lane in 0..WIDTH {
                    sums[lane] = multiply_add(sums[lane], P::element(values[lane], depth), x);
                }
            }
        }
        self.put(0, &sums[..WIDTH.min(n.total() - self.first)]);
    }

    /// Writes the sums of the columns from `lane` on.
    #[inline(never)]
    fn put(&self, lane: usize, sums: &[P::Element]) {
        let mut offsets = [0; 32];
        let offsets = &mut offsets[..sums.len()];
        self.problem.n.offsets(0, self.first + lane, offsets);
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: a sum, and its column of the output.
            unsafe { (self.store)(sums.as_ptr().add(i).cast(), 1, self.problem.out, offset, 1) };
        }
    }
}
