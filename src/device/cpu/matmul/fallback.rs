//! Products of elements without a kernel: one sum after the other.
// Imports: `scalar`, `element`.

use super::axis_group::AxisGroup;
use super::problem::GemmProblem;
use crate::element::{Compute, Number};
use crate::scalar::{Arith, Num, Prim};

/// Computes a product of any elements. The terms of each sum are added in the order of `k`.
///
/// # Safety
/// The operands hold elements `T`, `L` and `R` at every index, and the output overlaps neither of the others.
pub(super) unsafe fn run<T: Number, L: Number, R: Number>(problem: &GemmProblem) {
    /// Terms whose offsets are computed together.
    const CHUNK_TERMS: usize = 64;
    let (rows, columns, terms) = (problem.m.total(), problem.n.total(), problem.k.total());
    let offset = |axes: &AxisGroup<2>, operand: usize, index: usize| {
        let mut at = [0];
        axes.offsets(operand, index, &mut at);
        at[0]
    };
    for i in 0..rows {
        let (out, left) = (offset(&problem.m, 0, i), offset(&problem.m, 1, i));
        for j in 0..columns {
            let (to, right) = (offset(&problem.n, 0, j), offset(&problem.n, 1, j));
            let mut sum = Compute::<T>::from_i64(0);
            for first in (0..terms).step_by(CHUNK_TERMS) {
                let (mut a, mut b) = ([0; CHUNK_TERMS], [0; CHUNK_TERMS]);
                let count = CHUNK_TERMS.min(terms - first);
                problem.k.offsets(0, first, &mut a[..count]);
                problem.k.offsets(1, first, &mut b[..count]);
                for (&a, &b) in a.iter().zip(&b).take(count) {
                    // SAFETY: index (i, k) of the left operand and (k, j) of the right one.
                    let (a, b) = unsafe {
                        (
                            problem.left.cast::<L>().offset(left.wrapping_add(a)).read(),
                            problem.right.cast::<R>().offset(right.wrapping_add(b)).read(),
                        )
                    };
                    sum = Num::arith(
                        Arith::Add,
                        sum,
                        Num::arith(Arith::Mul, a.widen().cast(), b.widen().cast()),
                    );
                }
            }
            // SAFETY: index (i, j) of the output.
            unsafe { problem.out.cast::<T>().offset(out.wrapping_add(to)).write(T::narrow(sum)) };
        }
    }
}
