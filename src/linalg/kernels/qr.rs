//! QR factorization by Householder reflections.
// Imports: `error`.

use super::{ONE_THREAD, Part, finite, places};
use crate::error::Result;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::Conj;
use faer::dyn_stack::StackReq;
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as apply_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as apply,
};
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::linalg::temp_mat_scratch;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::ComplexField;
use faer::traits::math_utils::{copy, one, zero};

/// `a = q · r`; `q` has as many columns as its output.
pub(in crate::linalg) fn qr<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    q: BatchMut<'_, T>,
    r: BatchMut<'_, T>,
) -> Result<()> {
    let ([rows, columns], width) = (a.size(), q.size()[1]);
    let (least, block) = (rows.min(columns), recommended_block_size::<T>(rows, columns).max(1));
    let scratch = StackReq::all_of(&[
        temp_mat_scratch::<T>(rows, columns),
        temp_mat_scratch::<T>(block, least),
        StackReq::any_of(&[
            qr_in_place_scratch::<T>(rows, columns, block, ONE_THREAD, Default::default()),
            apply_scratch::<T>(rows, block, width),
        ]),
    ]);
    let work = rows.saturating_mul(least).saturating_mul(columns.saturating_add(width));
    for_each(op, work, scratch, (q, r), |number, (mut q, mut r), stack| {
        let matrix = finite(op, &a, number, Part::All)?;
        zeroed!(stack => both: T, rows, columns);
        zeroed!(stack => coefficients: T, block, least);
        both.copy_from(matrix);
        if least > 0 {
            qr_in_place(both.rb_mut(), coefficients.rb_mut(), ONE_THREAD, stack, Default::default());
        }
        for (row, column) in places(&r) {
            r[(row, column)] = if row > column { zero() } else { copy(&both[(row, column)]) };
        }
        for (row, column) in places(&q) {
            q[(row, column)] = if row == column { one() } else { zero() };
        }
        if least > 0 {
            let basis = both.rb().subcols(0, least);
            apply(basis, coefficients.rb(), Conj::No, q, ONE_THREAD, stack);
        }
        Ok(())
    })
}
