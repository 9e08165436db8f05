//! Products of matrices of a few elements, for which grouping axes and packing would cost more than the sums.
// Imports: `scalar`, `device`, `kernel`.

use super::super::isa::{self, Loop};
use super::axis_group::AxisGroup;
use super::problem::GemmProblem;
use crate::device::OperandRef;
use crate::kernel::ContractPlan;
use crate::scalar::{Arith, DType, Num};

/// The longest side.
const MAX_SIDE: usize = 16;

/// A product of two matrices with at most [`MAX_SIDE`] rows, terms and columns. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct TinyProduct {
    /// `m`, `n`, `k`.
    size: [usize; 3],
    /// Strides in the output and the left operand.
    row: [isize; 2],
    /// Strides in the output and the right operand.
    column: [isize; 2],
    /// Strides in the left and the right operand.
    term: [isize; 2],
    out: *mut u8,
    left: *const u8,
    right: *const u8,
    /// The loop for these elements.
    sums: fn(TinyProduct),
}

impl TinyProduct {
    /// The product of a plan, if there is a loop for its elements, it has no batch, and each of its groups
    /// has one short axis.
    #[inline]
    pub(super) fn from_plan(
        types: [DType; 3],
        plan: &ContractPlan<'_>,
        out: &OperandRef<'_>,
        left: &OperandRef<'_>,
        right: &OperandRef<'_>,
    ) -> Option<TinyProduct> {
        let sums = TinyProduct::sums(types)?;
        let ([], [m @ 0..=MAX_SIDE], [n @ 0..=MAX_SIDE], [k @ 0..=MAX_SIDE]) =
            (plan.batch, plan.m, plan.n, plan.k)
        else {
            return None;
        };
        let ([out_row, out_column], [left_row, left_term], [right_term, right_column]) =
            (out.stride, left.stride, right.stride)
        else {
            return None;
        };
        Some(TinyProduct {
            size: [*m, *n, *k],
            row: [*out_row, *left_row],
            column: [*out_column, *right_column],
            term: [*left_term, *right_term],
            out: out.address,
            left: left.address,
            right: right.address,
            sums,
        })
    }

    /// As [`from_plan`](TinyProduct::from_plan), for one product of a batch.
    pub(super) fn from_problem(product: &GemmProblem, types: [DType; 3]) -> Option<TinyProduct> {
        let sums = TinyProduct::sums(types)?;
        let group = |axes: &AxisGroup<2>| {
            Some((axes.total(), axes.as_single_axis()?)).filter(|&(size, _)| size <= MAX_SIDE)
        };
        let ((m, row), (n, column), (k, term)) = (group(&product.m)?, group(&product.n)?, group(&product.k)?);
        Some(TinyProduct {
            size: [m, n, k],
            row,
            column,
            term,
            out: product.out,
            left: product.left,
            right: product.right,
            sums,
        })
    }

    /// The loop for these elements, if there is one. Terms are added in the order of `k`.
    #[inline]
    fn sums(types: [DType; 3]) -> Option<fn(TinyProduct)> {
        use DType::*;
        Some(match types {
            [F32, F32, F32] => floats,
            [F64, F64, F64] => doubles,
            // Sums of integers wrap, so signed and unsigned elements have the same bits.
            [I32, I32, I32] | [U32, U32, U32] => ints,
            [I64, I64, I64] | [U64, U64, U64] => longs,
            _ => return None,
        })
    }

    /// Computes it.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract), with elements of the types that the product
    /// was made for.
    pub(super) unsafe fn run(self) {
        (self.sums)(self);
    }
}

/// Functions without generic parameters are compiled in this crate, and not in the crate that calls a
/// product.
macro_rules! loops {
    ($($name:ident $p:ty;)*) => { $(
        fn $name(product: TinyProduct) {
            isa::dispatch(TinyLoop::<$p>(product, std::marker::PhantomData));
        }
    )* };
}
loops! { floats f32; doubles f64; ints i32; longs i64; }

struct TinyLoop<P>(TinyProduct, std::marker::PhantomData<P>);

impl<P: Num> Loop for TinyLoop<P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut from = 0;
        while from < self.0.size[1] {
            from += match self.0.size[1] - from {
                16.. => self.columns::<16>(from),
                8.. => self.columns::<8>(from),
                4.. => self.columns::<4>(from),
                _ => self.columns::<1>(from),
            };
        }
    }
    /// The same sums, column by column.
    fn run_scalar(self) {
        (0..self.0.size[1]).for_each(|column| self.rows::<1, false>(column));
    }
}

impl<P: Num> TinyLoop<P> {
    /// Computes `COLUMNS` columns of every row, from column `from` on; returns their number.
    #[inline(always)]
    fn columns<const COLUMNS: usize>(&self, from: usize) -> usize {
        // Columns that are contiguous in both operands are one vector.
        if self.0.column == [1, 1] {
            self.rows::<COLUMNS, true>(from)
        } else {
            self.rows::<COLUMNS, false>(from)
        }
        COLUMNS
    }

    #[inline(always)]
    fn rows<const COLUMNS: usize, const CONTIGUOUS: bool>(&self, from: usize) {
        let TinyProduct { size: [rows, _, terms], row, column, term, out, left, right, .. } = self.0;
        let at = |index: usize, step: isize| (index as isize).wrapping_mul(step);
        let right = right.cast::<P>().wrapping_offset(at(from, column[1]));
        let (mut out, mut left) = (out.cast::<P>().wrapping_offset(at(from, column[0])), left.cast::<P>());
        for _ in 0..rows {
            let mut sums = [P::default(); COLUMNS];
            let (mut a, mut b) = (left, right);
            for _ in 0..terms {
                // SAFETY: the promise of `TinyProduct::run`: an index of the left operand, and `COLUMNS`
                // indices of the right one.
                let factor = unsafe { a.read() };
                let mut line = [P::default(); COLUMNS];
                if CONTIGUOUS {
                    // SAFETY: as above; the columns are contiguous.
                    line = unsafe { b.cast::<[P; COLUMNS]>().read_unaligned() };
                } else {
                    for j in 0..COLUMNS {
                        // SAFETY: as above.
                        line[j] = unsafe { b.wrapping_offset(at(j, column[1])).read() };
                    }
                }
                for j in 0..COLUMNS {
                    sums[j] = P::arith(Arith::Add, sums[j], P::arith(Arith::Mul, factor, line[j]));
                }
                (a, b) = (a.wrapping_offset(term[0]), b.wrapping_offset(term[1]));
            }
            if CONTIGUOUS {
                // SAFETY: `COLUMNS` elements of a row of the output.
                unsafe { out.cast::<[P; COLUMNS]>().write_unaligned(sums) };
            } else {
                for j in 0..COLUMNS {
                    // SAFETY: as above.
                    unsafe { out.wrapping_offset(at(j, column[0])).write(sums[j]) };
                }
            }
            (out, left) = (out.wrapping_offset(row[0]), left.wrapping_offset(row[1]));
        }
    }
}
