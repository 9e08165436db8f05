//! Products of complex numbers by a kernel of their parts. Each row of the left operand counts as two rows,
//! of its real and of its imaginary parts. The kernel multiplies both by the parts of the right operand as
//! they are in memory, and then combines the sums of both rows.
// Imports: nothing.

use super::{ComplexKernel, Microkernel, Tile};
use num_complex::Complex;
use std::marker::PhantomData;

/// Tiles of complex numbers, by a kernel `K` of their parts.
#[derive(Clone, Copy)]
pub(in super::super) struct ComplexOf<K>(PhantomData<K>);

impl<K: Microkernel> ComplexOf<K> {
    pub(in super::super) fn new(_: K) -> Self {
        ComplexOf(PhantomData)
    }
}

impl<K: ComplexKernel> Microkernel for ComplexOf<K> {
    type Unit = Complex<K::Unit>;
    type Sum = Complex<K::Sum>;
    const MR: usize = K::MR / 2;
    const LANES: usize = K::LANES / 2;
    const DEPTH: usize = 1;
    const READS_IN_PLACE: bool = K::READS_IN_PLACE;

    unsafe fn tile(tile: &Tile) {
        // SAFETY: the caller's promise; the two parts of a complex number are contiguous.
        unsafe { K::complex_tile(tile) };
    }
}
