//! Copies between layouts, for elements of any type.
//!
//! A transposed operand is copied in strips of columns by in-register transposes. Down a strip, every source
//! line is read in order, one cache line for each square, and a few lines of the output are written. Large
//! outputs use non-temporal stores; if the operand is not contiguous in the order of the output, it passes
//! through a tile in L1.
// Imports: `device`.

use super::iteration::{AxisOrder, IterSpace, for_each_space};
use super::pack;
use super::partition::parallel;
use crate::device::OperandRef;
use crate::device::cpu::memory::non_temporal;
use crate::device::cpu::memory::scratch::{Scratch, StackScratch};
use crate::device::cpu::tuning::{
    COPY_TILE_BYTES, L1_PREFETCH_BYTES, NON_TEMPORAL_PIECE_BYTES, STRIP_COLUMNS, is_worth_prefetching,
};

/// Copies every element of `from` to the same index of `to`.
///
/// # Safety
/// As [`Device::copy`](crate::device::Device::copy).
pub(crate) unsafe fn copy(sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) {
    let non_temporal = non_temporal::pays_off(sizes, &to);
    for_each_space(sizes, &[to, from], AxisOrder::OfOutput, &mut |space| {
        parallel(space, 1, &|part| {
            // SAFETY: the parts of the space reach only the elements that the caller promised, and each
            // element of `to` once.
            unsafe { copy_part(part, to.element, non_temporal) };
            non_temporal::fence();
        });
    });
}

/// Copies a part of the iteration space, whose operands are `to` and `from`. `non_temporal` asks for
/// non-temporal stores.
///
/// # Safety
/// As for [`copy`], for this part.
unsafe fn copy_part(space: &IterSpace, element: usize, non_temporal: bool) {
    let (along_to, along_from) = (space.inner_step(0), space.inner_step(1));
    let width = element as isize;
    let transposed = if along_from == width { None } else { space.transposed_axis(1, element) };
    let axis = transposed.or(space.outer_axis());
    let (height, inner) = (axis.map_or(1, |axis| space.size(axis)), space.inner());
    let (down_to, down_from) = axis.map_or((0, 0), |axis| (space.step(axis, 0), space.step(axis, 1)));
    let stores_non_temporal = non_temporal && along_to == width && 0 < element && element <= 16;
    let (rows, columns) = match transposed {
        _ if stores_non_temporal && along_from == width => (1, inner),
        _ if stores_non_temporal => tile(inner, element, transposed.is_some()),
        Some(_) => (height, STRIP_COLUMNS),
        None => (height, inner),
    };
    let follows = stores_non_temporal && is_worth_prefetching(inner * element, space.row_stride(1));
    let mut words = StackScratch::<{ COPY_TILE_BYTES / 8 }>::uninit();
    let room = Scratch::over(&mut words).take(COPY_TILE_BYTES);
    let outer = space.outer_space(axis);
    let mut index = outer.index_of(0);
    for _ in 0..outer.numel() {
        let (to, from) = (outer.address_at(0, &index), outer.address_at(1, &index));
        for left in (0..inner).step_by(columns) {
            for top in (0..height).step_by(rows) {
                let (rows, columns) = (rows.min(height - top), columns.min(inner - left));
                let at = |down: isize, along: isize| {
                    (top as isize).wrapping_mul(down).wrapping_add((left as isize).wrapping_mul(along))
                };
                let to = to.wrapping_offset(at(down_to, along_to));
                let from = from.wrapping_offset(at(down_from, along_from));
                let nbytes = columns * element;
                // SAFETY: the rectangle is inside both operands, as the caller promised; the tile has room
                // for it.
                unsafe {
                    if !stores_non_temporal {
                        pack::rectangle(
                            to,
                            [down_to, along_to],
                            from,
                            [down_from, along_from],
                            [rows, columns],
                            element,
                        );
                    } else if along_from == width {
                        let ahead = [from.wrapping_add(L1_PREFETCH_BYTES)];
                        non_temporal::copy_and_prefetch(to, from, nbytes, if follows { &ahead } else { &[] });
                    } else {
                        pack::rectangle(
                            room,
                            [nbytes as isize, width],
                            from,
                            [down_from, along_from],
                            [rows, columns],
                            element,
                        );
                        if down_to == nbytes as isize {
                            non_temporal::copy(to, room, rows * nbytes);
                        } else {
                            for row in 0..rows {
                                non_temporal::copy(
                                    to.wrapping_offset(row as isize * down_to),
                                    room.wrapping_add(row * nbytes),
                                    nbytes,
                                );
                            }
                        }
                    }
                }
            }
        }
        outer.advance(&mut index, 1);
    }
}

/// Rows and columns of a tile: whole cache lines of a transposed operand, and many rows if they are short.
fn tile(inner: usize, element: usize, transposed: bool) -> (usize, usize) {
    let line = if transposed { 64 / element } else { 1 };
    let columns = inner.min(if transposed { STRIP_COLUMNS } else { NON_TEMPORAL_PIECE_BYTES / element });
    let rows = if columns == inner { COPY_TILE_BYTES / (columns * element) / line * line } else { line };
    (rows, columns)
}
