//! Products of complex numbers by a kernel of their parts: each row of the left operand is two, of its real and of its imaginary
//! parts, by which the kernel multiplies the right operand's parts as they stand; the sums of both are then put together.
// Imports: nothing.

use super::{ComplexKernel, Kernel, Tile};
use num_complex::Complex;
use std::marker::PhantomData;

/// Tiles of complex numbers, by a kernel of their parts.
#[derive(Clone, Copy)]
pub(in super::super) struct ComplexOf<K>(PhantomData<K>);

impl<K: Kernel> ComplexOf<K> {
    pub(in super::super) fn of(_: K) -> Self {
        ComplexOf(PhantomData)
    }
}

impl<K: ComplexKernel> Kernel for ComplexOf<K> {
    type Unit = Complex<K::Unit>;
    type Sum = Complex<K::Sum>;
    const ROWS: usize = K::ROWS / 2;
    const LANES: usize = K::LANES / 2;
    const DEPTH: usize = 1;
    const READS_UNPACKED: bool = K::READS_UNPACKED;

    unsafe fn tile(tile: &Tile) {
        // SAFETY: the caller's promise, of numbers whose parts stand side by side.
        unsafe { K::complex_tile(tile) };
    }
}
