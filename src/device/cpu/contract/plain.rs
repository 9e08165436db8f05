//! The kernel that the compiler vectorises, for every machine type and every processor.
//!
//! Imports: `scalar`.

use super::super::simd::{self, Loop};
use super::tile::{Kernel, Parts, Tile};
use crate::scalar::{Arith, Num};
use std::marker::PhantomData;

/// Sums in `P`, one product a step.
pub(super) struct Plain<P>(pub(super) PhantomData<P>);

impl<P> Clone for Plain<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Plain<P> {}

const ROWS: usize = 4;
const LANES: usize = 8;

impl<P: Num> Kernel for Plain<P> {
    type Unit = P;
    type Sum = P;
    const ROWS: usize = ROWS;
    const LANES: usize = LANES;
    const DEPTH: usize = 1;
    const DIRECT: bool = false;

    unsafe fn tile(tile: &Tile<'_>) {
        run::<P>(tile, tile.rows, [0, 1, 2, 3]);
    }
}

impl<P: Num> Parts for Plain<P> {
    unsafe fn both(tile: &Tile<'_>) {
        // Parts stand beside each other in the panel.
        run::<P>(tile, 2 * tile.rows, if tile.rows == 1 { [0, 1, 2, 3] } else { [0, 2, 1, 3] });
    }
}

/// Writes `rows` rows of sums in this order.
fn run<P: Num>(tile: &Tile<'_>, rows: usize, order: [usize; ROWS]) {
        for column in (0..tile.vectors * LANES).step_by(LANES) {
            let rows = Rows::<P> { tile, rows, order, column, sum: PhantomData };
            // With vectors of 256 bits only products of i64 come here.
            if P::DTYPE == crate::scalar::DType::I64 || cfg!(not(target_arch = "x86_64")) { simd::dispatch_two(rows) } else { rows.run() }
        }
}

/// `LANES` columns from the one given on.
struct Rows<'a, P> {
    tile: &'a Tile<'a>,
    rows: usize,
    order: [usize; ROWS],
    column: usize,
    sum: PhantomData<P>,
}

impl<P: Num> Loop for Rows<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { tile, rows, order, column, .. } = self;
        let [mut s0, mut s1, mut s2, mut s3] = [[P::default(); LANES]; ROWS];
        for unit in 0..tile.units {
            let right = tile.right.wrapping_offset(unit as isize * tile.right_step).cast::<P>().wrapping_add(column).cast::<[P; LANES]>();
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
        let sums = [s0, s1, s2, s3];
        for (row, &from) in order.iter().enumerate().take(rows) {
            let sums = &sums[from];
            let out = tile.out.wrapping_offset(row as isize * tile.out_step).cast::<P>().wrapping_add(column);
            for (c, &sum) in sums.iter().enumerate() {
                let out = out.wrapping_add(c);
                // SAFETY: the caller promises this row of the output, written before where it is added to.
                unsafe { out.write(if tile.add { P::arith(Arith::Add, out.read(), sum) } else { sum }) };
            }
        }
    }
}
