//! Products of complex numbers by a kernel of their parts: each row of the left operand is two, of its real and of its imaginary
//! parts, by which the kernel multiplies the right operand's parts as they stand; the sums of both are then put together.
//!
//! Imports: `scalar`.

use super::super::simd::{self, Loop};
use super::tile::{Kernel, MOST_BYTES, Parts, Tile};
use crate::scalar::{Arith, Num};
use num_complex::Complex;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Tiles of complex numbers, by a kernel of their parts.
#[derive(Clone, Copy)]
pub(super) struct Pairs<K>(PhantomData<K>);

impl<K: Parts> Pairs<K> {
    pub(super) fn of(_: K) -> Self {
        Pairs(PhantomData)
    }
}

impl<K: Parts<Unit = <K as Kernel>::Sum, Sum: Num>> Kernel for Pairs<K> {
    type Unit = Complex<K::Sum>;
    type Sum = Complex<K::Sum>;
    const ROWS: usize = K::ROWS / 2;
    const LANES: usize = K::LANES / 2;
    const DEPTH: usize = 1;
    const DIRECT: bool = K::DIRECT;

    unsafe fn tile(tile: &Tile<'_>) {
        let mut sums = [MaybeUninit::<u64>::uninit(); MOST_BYTES / 8];
        let sums = sums.as_mut_ptr().cast::<u8>();
        let step = tile.vectors * K::LANES * size_of::<K::Sum>();
        let parts = Tile {
            out: sums,
            out_step: step as isize,
            soon: sums,
            add: false,
            ..*tile
        };
        // SAFETY: the caller's promise, of numbers whose parts stand side by side; the room holds a tile.
        unsafe { K::both(&parts) };
        simd::dispatch_two(Joined::<K::Sum> { tile, sums: sums.cast(), columns: tile.vectors * Self::LANES, part: PhantomData });
    }
}

/// The sums of two rows of parts as those of one row of numbers.
struct Joined<'a, P> {
    tile: &'a Tile<'a>,
    sums: *const [P; 2],
    columns: usize,
    part: PhantomData<P>,
}

impl<P: Num> Loop for Joined<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Joined { tile, sums, columns, .. } = self;
        for row in 0..tile.rows {
            let out = tile.out.wrapping_offset(row as isize * tile.out_step).cast::<[P; 2]>();
            let (by_real, by_imaginary) = (sums.wrapping_add(row * columns), sums.wrapping_add((tile.rows + row) * columns));
            for column in 0..columns {
                // SAFETY: a kernel wrote these rows of sums; the caller promises the row of the output, written before where it is added to.
                unsafe {
                    let ([a, b], [c, d]) = (by_real.add(column).read(), by_imaginary.add(column).read());
                    let (mut re, mut im) = (P::arith(Arith::Sub, a, d), P::arith(Arith::Add, b, c));
                    if tile.add {
                        let before = out.add(column).read();
                        (re, im) = (P::arith(Arith::Add, before[0], re), P::arith(Arith::Add, before[1], im));
                    }
                    out.add(column).write([re, im]);
                }
            }
        }
    }
}
