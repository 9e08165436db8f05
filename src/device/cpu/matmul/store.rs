//! Stores of sums: narrowed to elements of the output, contiguous or at given offsets.
// Imports: `scalar`, `element`.

use super::super::isa::{self, Loop};
use crate::element::Element;
use crate::scalar::Prim;

/// Writes sums that are `stride` sums apart, narrowed to elements `T`, to the given offsets.
///
/// # Safety
/// 1. `sums` holds a sum for each offset.   2. Each offset from `to` is an element of the output.   3.
///    `contiguous` only if the offsets are consecutive.
pub(super) unsafe fn store_sums<S: Prim, T: Element>(
    sums: *const u8,
    stride: usize,
    to: *mut u8,
    offsets: &[isize],
    contiguous: bool,
) {
    isa::dispatch_up_to_avx2(StoreLoop::<S, T> {
        sums: sums.cast(),
        stride,
        to: to.cast(),
        offsets,
        contiguous,
    });
}

struct StoreLoop<'a, S, T> {
    sums: *const S,
    stride: usize,
    to: *mut T,
    offsets: &'a [isize],
    contiguous: bool,
}

impl<S: Prim, T: Element> Loop for StoreLoop<'_, S, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let StoreLoop { sums, stride, to, offsets, contiguous } = self;
        if stride == 1 && contiguous {
            // SAFETY: (2) the first offset is an element of the output.
            let to = unsafe { to.offset(offsets[0]) };
            let (by_sixteen, by_four) = (offsets.len() / 16 * 16, offsets.len() / 4 * 4);
            // Closures given to an adapter here, and `map` of an array in `narrow`, would compile to calls of
            // functions without the instructions of this processor.
            // SAFETY: (1) as many sums; (2), (3) as many consecutive elements.
            unsafe {
                for at in (0..by_sixteen).step_by(16) {
                    narrow::<S, T, 16>(sums.add(at), to.add(at));
                }
                for at in (by_sixteen..by_four).step_by(4) {
                    narrow::<S, T, 4>(sums.add(at), to.add(at));
                }
                for at in by_four..offsets.len() {
                    narrow::<S, T, 1>(sums.add(at), to.add(at));
                }
            }
            return;
        }
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: (1) a sum for each offset; (2) an element at each offset.
            unsafe { narrow::<S, T, 1>(sums.add(i * stride), to.offset(offset)) };
        }
    }
}

/// Writes `N` consecutive sums as elements.
///
/// # Safety
/// 1. `sums` holds `N` sums.   2. `to` is aligned and has `N` elements.
#[inline(always)]
unsafe fn narrow<S: Prim, T: Element, const N: usize>(sums: *const S, to: *mut T) {
    // SAFETY: (1) `N` sums are read; (2) `N` elements are written.
    unsafe {
        // All sums are read before the first is written, so that the compiler vectorizes the loop.
        let sums = sums.cast::<[S; N]>().read_unaligned();
        for (i, sum) in sums.into_iter().enumerate() {
            to.add(i).write(T::narrow(sum.cast()));
        }
    }
}
