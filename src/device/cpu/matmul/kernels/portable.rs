//! The kernel that the compiler vectorizes, for every machine type and every processor.
// Imports: `scalar`.

use super::super::super::simd::{self, Loop};
use super::{ComplexKernel, Kernel, Tile};
use crate::scalar::{Arith, Num};
use std::marker::PhantomData;

/// Sums in `P`, one product a step.
pub(in super::super) struct Portable<P>(pub(in super::super) PhantomData<P>);

impl<P> Clone for Portable<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Portable<P> {}

const ROWS: usize = 4;
const LANES: usize = 8;

impl<P: Num> Kernel for Portable<P> {
    type Unit = P;
    type Sum = P;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const DEPTH: usize = 1;
    const READS_UNPACKED: bool = false;

    unsafe fn tile(tile: &Tile) {
        run::<P>(tile, false);
    }
}

impl<P: Num> ComplexKernel for Portable<P> {
    unsafe fn complex_tile(tile: &Tile) {
        run::<P>(tile, true);
    }
}

fn run<P: Num>(tile: &Tile, pairs: bool) {
    for column in (0..tile.vectors * LANES).step_by(LANES) {
        let rows = Rows::<P> { tile, pairs, column, sum: PhantomData };
        // With vectors of 256 bits only products of i64 come here.
        if P::DTYPE == crate::scalar::DType::I64 || cfg!(not(target_arch = "x86_64")) {
            simd::dispatch_two(rows)
        } else {
            rows.run()
        }
    }
}

/// `LANES` columns from the one given on.
struct Rows<'a, P> {
    tile: &'a Tile,
    /// Whether rows are parts of complex numbers, which stand beside each other in both panels.
    pairs: bool,
    column: usize,
    sum: PhantomData<P>,
}

impl<P: Num> Loop for Rows<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { tile, pairs, column, .. } = self;
        let [mut s0, mut s1, mut s2, mut s3] = [[P::default(); LANES]; ROWS];
        for unit in 0..tile.units[0] + tile.units[1] {
            let right = tile
                .right
                .wrapping_offset(unit as isize * tile.right_step)
                .cast::<P>()
                .wrapping_add(column)
                .cast::<[P; LANES]>();
            let left = tile.left.cast::<P>().wrapping_add(unit * ROWS).cast::<[P; ROWS]>();
            // SAFETY: the caller of `Kernel::tile` promises this row of the right panel; a left panel has `ROWS` rows,
            // whatever the tile has.
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
        if pairs {
            for row in 0..ROWS / 2 {
                let (by_real, by_imaginary) = (sums[2 * row], sums[2 * row + 1]);
                for c in (0..LANES).step_by(2) {
                    sums[row][c] = P::arith(Arith::Sub, by_real[c], by_imaginary[c + 1]);
                    sums[row][c + 1] = P::arith(Arith::Add, by_real[c + 1], by_imaginary[c]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate().take(tile.rows) {
            let out = tile.out.wrapping_offset(row as isize * tile.out_step).cast::<P>().wrapping_add(column);
            for (c, &sum) in sums.iter().enumerate() {
                let out = out.wrapping_add(c);
                // SAFETY: the caller promises this row of the output, written before where it is added to.
                unsafe { out.write(if tile.add { P::arith(Arith::Add, out.read(), sum) } else { sum }) };
            }
        }
    }
}
