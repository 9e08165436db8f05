//! The portable microkernel: the compiler vectorizes it, for every compute type and every processor.
// Imports: `scalar`.

use super::super::super::isa::{self, Loop};
use super::{ComplexKernel, Microkernel, Tile};
use crate::scalar::{Arith, Num};
use std::marker::PhantomData;

/// Sums in `P`; one step multiplies one element of each lane.
pub(in super::super) struct Portable<P>(pub(in super::super) PhantomData<P>);

impl<P> Clone for Portable<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Portable<P> {}

/// Rows of a tile, and columns of a vector.
const MR: usize = 4;
const LANES: usize = 8;

impl<P: Num> Microkernel for Portable<P> {
    type Unit = P;
    type Sum = P;
    const MR: usize = MR;
    const LANES: usize = LANES;
    const DEPTH: usize = 1;
    const READS_IN_PLACE: bool = false;

    unsafe fn tile(tile: &Tile) {
        run::<P>(tile, false);
    }
}

impl<P: Num> ComplexKernel for Portable<P> {
    unsafe fn complex_tile(tile: &Tile) {
        run::<P>(tile, true);
    }
}

fn run<P: Num>(tile: &Tile, complex: bool) {
    for column in (0..tile.vectors * LANES).step_by(LANES) {
        let rows = TileColumns::<P> { tile, complex, column, sum: PhantomData };
        // On processors with AVX2 only products of i64 use this kernel, and only their loop is compiled for
        // AVX2.
        if P::DTYPE == crate::scalar::DType::I64 || cfg!(not(target_arch = "x86_64")) {
            isa::dispatch_up_to_avx2(rows)
        } else {
            rows.run()
        }
    }
}

/// All rows of a tile, and `LANES` columns from `column` on.
struct TileColumns<'a, P> {
    tile: &'a Tile,
    /// Whether rows and columns are the parts of complex numbers, which are neighbors in both panels.
    complex: bool,
    column: usize,
    sum: PhantomData<P>,
}

impl<P: Num> Loop for TileColumns<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let TileColumns { tile, complex, column, .. } = self;
        let [mut s0, mut s1, mut s2, mut s3] = [[P::default(); LANES]; MR];
        for unit in 0..tile.units[0] + tile.units[1] {
            let right = tile
                .right
                .wrapping_offset(unit as isize * tile.right_stride)
                .cast::<P>()
                .wrapping_add(column)
                .cast::<[P; LANES]>();
            let left = tile.left.cast::<P>().wrapping_add(unit * MR).cast::<[P; MR]>();
            // SAFETY: (2) of `Microkernel::tile`: this row of the right panel; a left panel has `MR` rows,
            // even if the tile has fewer.
            let ([a0, a1, a2, a3], b) = unsafe { (left.read_unaligned(), right.read_unaligned()) };
            for c in 0..LANES {
                s0[c] = P::arith(Arith::Add, s0[c], P::arith(Arith::Mul, a0, b[c]));
            }
            for c in 0..LANES {
                s1[c] = P::arith(Arith::Add, s1[c], P::arith(Arith::Mul, a1, b[c]));
            }
            for c in 0..LANES {
                s2[c] = P::arith(Arith::Add, s2[c], P::arith(Arith::Mul, a2, b[c]));
            }
            for c in 0..LANES {
                s3[c] = P::arith(Arith::Add, s3[c], P::arith(Arith::Mul, a3, b[c]));
            }
        }
        let mut sums = [s0, s1, s2, s3];
        if complex {
            for row in 0..MR / 2 {
                let (by_real, by_imaginary) = (sums[2 * row], sums[2 * row + 1]);
                for c in (0..LANES).step_by(2) {
                    sums[row][c] = P::arith(Arith::Sub, by_real[c], by_imaginary[c + 1]);
                    sums[row][c + 1] = P::arith(Arith::Add, by_real[c + 1], by_imaginary[c]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate().take(tile.rows) {
            let out =
                tile.out.wrapping_offset(row as isize * tile.out_stride).cast::<P>().wrapping_add(column);
            for (c, &sum) in sums.iter().enumerate() {
                let out = out.wrapping_add(c);
                // SAFETY: (3) of `Microkernel::tile`: this row of the output, which holds sums if they are
                // added to.
                unsafe {
                    out.write(if tile.accumulate { P::arith(Arith::Add, out.read(), sum) } else { sum })
                };
            }
        }
    }
}
