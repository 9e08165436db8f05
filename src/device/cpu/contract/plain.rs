//! The kernel that the compiler vectorises, for every machine type and every processor.
//!
//! Imports: `scalar`.

use super::super::simd::{self, Loop};
use super::tile::{Kernel, Tile};
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

    unsafe fn tile(tile: &Tile) {
        // With vectors of 256 bits only products of i64 come here.
        if P::DTYPE == crate::scalar::DType::I64 || cfg!(not(target_arch = "x86_64")) {
            if tile.vectors == 1 {
                simd::dispatch_two(Rows::<P, LANES>(tile, PhantomData))
            } else {
                simd::dispatch_two(Rows::<P, { 2 * LANES }>(tile, PhantomData))
            }
        } else if tile.vectors == 1 {
            Rows::<P, LANES>(tile, PhantomData).run();
        } else {
            Rows::<P, { 2 * LANES }>(tile, PhantomData).run();
        }
    }
}

struct Rows<'a, P, const COLUMNS: usize>(&'a Tile, PhantomData<P>);

impl<P: Num, const COLUMNS: usize> Loop for Rows<'_, P, COLUMNS> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let tile = self.0;
        let [mut s0, mut s1, mut s2, mut s3] = [[P::default(); COLUMNS]; ROWS];
        for unit in 0..tile.units {
            let right = tile.right.cast::<P>().wrapping_offset(unit as isize * tile.right_step).cast::<[P; COLUMNS]>();
            let left = tile.left.cast::<P>().wrapping_add(unit * ROWS).cast::<[P; ROWS]>();
            // SAFETY: the caller of `Kernel::tile` promises this row of the right panel; a left panel has `ROWS` rows,
            // whatever the tile has.
            let ([a0, a1, a2, a3], b) = unsafe { (left.read_unaligned(), right.read_unaligned()) };
            for c in 0..COLUMNS {
                s0[c] = P::arith(Arith::Add, s0[c], P::arith(Arith::Mul, a0, b[c]));
            }
            for c in 0..COLUMNS {
                s1[c] = P::arith(Arith::Add, s1[c], P::arith(Arith::Mul, a1, b[c]));
            }
            for c in 0..COLUMNS {
                s2[c] = P::arith(Arith::Add, s2[c], P::arith(Arith::Mul, a2, b[c]));
            }
            for c in 0..COLUMNS {
                s3[c] = P::arith(Arith::Add, s3[c], P::arith(Arith::Mul, a3, b[c]));
            }
        }
        let sums = [s0, s1, s2, s3];
        for (sums, out) in sums.iter().zip(&tile.out).take(tile.rows) {
            for (c, &sum) in sums.iter().enumerate() {
                let out = out.cast::<P>().wrapping_add(c);
                // SAFETY: the caller promises this row of the output, written before where it is added to.
                unsafe { out.write(if tile.add { P::arith(Arith::Add, out.read(), sum) } else { sum }) };
            }
        }
    }
}
