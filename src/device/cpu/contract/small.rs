//! Products of matrices of a few elements, whose plan would cost more than their sums.
//!
//! Imports: `scalar`, `device`, `kernel`.

use super::super::simd::{self, Loop};
use super::axes::Axes;
use super::block::Product;
use crate::device::Slot;
use crate::kernel::Contraction;
use crate::scalar::{Arith, DType, Num};

/// No side is longer.
const MOST: usize = 16;

/// One matrix each: rows, terms and columns, and their steps in elements.
#[derive(Clone, Copy)]
pub(super) struct Small {
    /// `m`, `n`, `k`.
    size: [usize; 3],
    /// Steps in the output and the left operand.
    row: [isize; 2],
    /// Steps in the output and the right operand.
    column: [isize; 2],
    /// Steps in the left and the right operand.
    term: [isize; 2],
    out: *mut u8,
    left: *const u8,
    right: *const u8,
    sums: fn(Small),
}

impl Small {
    /// The product, if there is a loop for its elements, and its groups have one axis each, and few indices.
    #[inline]
    pub(super) fn planned(types: [DType; 3], plan: &Contraction<'_>, out: &Slot<'_>, left: &Slot<'_>, right: &Slot<'_>) -> Option<Small> {
        let sums = Small::sums(types)?;
        let ([], [m @ 0..=MOST], [n @ 0..=MOST], [k @ 0..=MOST]) = (plan.batch, plan.m, plan.n, plan.k) else { return None };
        let ([out_row, out_column], [left_row, left_term], [right_term, right_column]) = (out.stride, left.stride, right.stride) else {
            return None;
        };
        Some(Small {
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

    /// As [`planned`](Small::planned), of one product of many.
    pub(super) fn of(product: &Product, types: [DType; 3]) -> Option<Small> {
        let sums = Small::sums(types)?;
        let group = |axes: &Axes<2>| Some((axes.total(), axes.single()?)).filter(|&(size, _)| size <= MOST);
        let ((m, row), (n, column), (k, term)) = (group(&product.m)?, group(&product.n)?, group(&product.k)?);
        Some(Small { size: [m, n, k], row, column, term, out: product.out, left: product.left, right: product.right, sums })
    }

    /// The loop for these elements, if there is one. Terms are added in order.
    #[inline]
    fn sums(types: [DType; 3]) -> Option<fn(Small)> {
        use DType::*;
        Some(match types {
            [F32, F32, F32] => floats,
            [F64, F64, F64] => doubles,
            // Sums wrap, so their lower bits do not depend on the sign.
            [I32, I32, I32] | [U32, U32, U32] => ints,
            [I64, I64, I64] | [U64, U64, U64] => longs,
            _ => return None,
        })
    }

    /// Computes it.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract), with the elements that the names say.
    pub(super) unsafe fn run(self) {
        (self.sums)(self);
    }
}

/// Functions that are not generic are compiled here, and not where a product is called.
macro_rules! loops {
    ($($name:ident $p:ty;)*) => { $(
        fn $name(small: Small) {
            simd::dispatch(Sums::<$p>(small, std::marker::PhantomData));
        }
    )* };
}
loops! { floats f32; doubles f64; ints i32; longs i64; }

struct Sums<P>(Small, std::marker::PhantomData<P>);

impl<P: Num> Loop for Sums<P> {
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
}

impl<P: Num> Sums<P> {
    /// `COLUMNS` columns of every row, from column `from` on; how many that are.
    #[inline(always)]
    fn columns<const COLUMNS: usize>(&self, from: usize) -> usize {
        let Small { size: [rows, _, terms], row, column, term, out, left, right, .. } = self.0;
        let (out, left, right) = (out.cast::<P>(), left.cast::<P>(), right.cast::<P>());
        let at = |index: usize, step: isize| (index as isize).wrapping_mul(step);
        let right = right.wrapping_offset(at(from, column[1]));
        let out = out.wrapping_offset(at(from, column[0]));
        for i in 0..rows {
            let mut sums = [P::default(); COLUMNS];
            for p in 0..terms {
                let b = right.wrapping_offset(at(p, term[1]));
                // SAFETY: the caller of `Small::run` promises index (i, p) of the left operand, and below (p, j) of the right.
                let a = unsafe { left.wrapping_offset(at(i, row[1]).wrapping_add(at(p, term[0]))).read() };
                let b: [P; COLUMNS] = if column[1] == 1 {
                    // SAFETY: as above, of `COLUMNS` columns that stand side by side.
                    unsafe { b.cast::<[P; COLUMNS]>().read_unaligned() }
                } else {
                    let mut row = [P::default(); COLUMNS];
                    for j in 0..COLUMNS {
                        // SAFETY: as above.
                        row[j] = unsafe { b.wrapping_offset(at(j, column[1])).read() };
                    }
                    row
                };
                for j in 0..COLUMNS {
                    sums[j] = P::arith(Arith::Add, sums[j], P::arith(Arith::Mul, a, b[j]));
                }
            }
            for j in 0..COLUMNS {
                // SAFETY: index (i, j) of the output.
                unsafe { out.wrapping_offset(at(i, row[0]).wrapping_add(at(j, column[0]))).write(sums[j]) };
            }
        }
        COLUMNS
    }
}
