//! Matrix products: the `gemm` crate for floats and complex numbers of some size, own loops for the rest.
//!
//! Imports: `scalar`, `element`, `kernel`, `device`.

use super::simd::{self, Loop};
use crate::device::Slot;
use crate::element::{Compute, Number};
use crate::kernel::Contraction;
use crate::scalar::{Arith, Num, Prim};

/// Rows and columns of the output that are computed together.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// One matrix product: addresses of the three matrices, their row and column steps in elements.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    n: usize,
    out: (*mut u8, [isize; 2]),
    left: (*const u8, [isize; 2]),
    right: (*const u8, [isize; 2]),
}

/// # Safety
/// As [`Device::contract`](crate::device::Device::contract).
pub(super) unsafe fn run<T: Number>(plan: Contraction<'_>, output: Slot<'_>, left: Slot<'_>, right: Slot<'_>) {
    if plan.m == 0 || plan.n == 0 || plan.batch.contains(&0) {
        return; // nothing to write, whatever the other sizes are
    }
    let batch = plan.batch.len();
    let matrix = |slot: &Slot<'_>| [slot.stride[batch], slot.stride[batch + 1]];
    let mut index = [0usize; 16];
    let index = &mut index[..batch];
    for _ in 0..plan.batch.iter().product::<usize>() {
        let at = |slot: &Slot<'_>| {
            let steps = index.iter().zip(slot.stride).map(|(&i, &step)| (i as isize).wrapping_mul(step));
            slot.address.wrapping_offset(steps.fold(0, isize::wrapping_add).wrapping_mul(slot.element as isize))
        };
        let product = Product {
            m: plan.m,
            k: plan.k,
            n: plan.n,
            out: (at(&output), matrix(&output)),
            left: (at(&left).cast_const(), matrix(&left)),
            right: (at(&right).cast_const(), matrix(&right)),
        };
        // SAFETY: one matrix of each operand's batch, within what the caller promised.
        unsafe { one::<T>(&product) };
        for axis in (0..batch).rev() {
            index[axis] += 1;
            if index[axis] < plan.batch[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

unsafe fn one<T: Number>(product: &Product) {
    #[cfg(feature = "gemm")]
    if product.m.saturating_mul(product.n).saturating_mul(product.k) > 16 * 16 * 16 {
        use crate::scalar::DType;
        use num_complex::Complex;
        // SAFETY: the caller's promise, with the element type that DTYPE names.
        unsafe {
            match T::DTYPE {
                DType::F32 => return library(product, 0f32, 1f32),
                DType::F64 => return library(product, 0f64, 1f64),
                DType::C32 => return library(product, Complex::new(0f32, 0.0), Complex::new(1f32, 0.0)),
                DType::C64 => return library(product, Complex::new(0f64, 0.0), Complex::new(1f64, 0.0)),
                _ => {}
            }
        }
    }
    // SAFETY: the caller's promise.
    simd::dispatch(Tiles::<T> { product: *product, _element: std::marker::PhantomData });
}

/// The `gemm` crate: packed and register-tiled, at run time for the widest instruction set. It never reads the output.
///
/// # Safety
/// The product's matrices hold elements `T`.
#[cfg(feature = "gemm")]
unsafe fn library<T: 'static + Copy>(product: &Product, zero: T, one: T) {
    let Product { m, k, n, out, left, right } = *product;
    #[cfg(feature = "rayon")]
    let parallelism =
        if m.saturating_mul(n).saturating_mul(k) >= 64 * 64 * 64 { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    #[cfg(not(feature = "rayon"))]
    let parallelism = gemm::Parallelism::None;
    // SAFETY: the caller's promise; steps are (column, row) in elements.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.0.cast(),
            out.1[1],
            out.1[0],
            false,
            left.0.cast(),
            left.1[1],
            left.1[0],
            right.0.cast(),
            right.1[1],
            right.1[0],
            zero,
            one,
            false,
            false,
            false,
            parallelism,
        )
    }
}

/// A product of any element type, in tiles of registers; no memory of its own.
struct Tiles<T> {
    product: Product,
    _element: std::marker::PhantomData<T>,
}

impl<T: Number> Loop for Tiles<T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Product { m, n, .. } = self.product;
        for i in (0..m).step_by(ROWS) {
            for j in (0..n).step_by(COLUMNS) {
                if m - i >= ROWS && n - j >= COLUMNS && self.product.right.1[1] == 1 {
                    self.tile::<ROWS, COLUMNS>(i, j, ROWS, COLUMNS, 1);
                } else {
                    self.tile::<ROWS, COLUMNS>(i, j, ROWS.min(m - i), COLUMNS.min(n - j), self.product.right.1[1]);
                }
            }
        }
    }
}

impl<T: Number> Tiles<T> {
    #[inline(always)]
    fn tile<const R: usize, const C: usize>(&self, i: usize, j: usize, rows: usize, columns: usize, right_step: isize) {
        let Product { k, out, left, right, .. } = self.product;
        let mut sums = [[Compute::<T>::from_i64(0); C]; R];
        let at = |row: usize, [down, along]: [isize; 2], column: usize| row as isize * down + column as isize * along;
        for p in 0..k {
            let mut b = [Compute::<T>::from_i64(0); C];
            for (c, b) in b.iter_mut().enumerate().take(columns) {
                // SAFETY: row `p` < k and column `j + c` < n of the right operand.
                *b = unsafe { right.0.cast::<T>().offset(p as isize * right.1[0] + (j + c) as isize * right_step).read() }.widen();
            }
            for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                // SAFETY: row `i + r` < m and column `p` < k of the left operand.
                let a = unsafe { left.0.cast::<T>().offset(at(i + r, left.1, p)).read() }.widen();
                for c in 0..C {
                    sums[c] = Num::arith(Arith::Add, sums[c], Num::arith(Arith::Mul, a, b[c]));
                }
            }
        }
        for (r, sums) in sums.iter().enumerate().take(rows) {
            for (c, &sum) in sums.iter().enumerate().take(columns) {
                // SAFETY: row `i + r` < m and column `j + c` < n of the output.
                unsafe { out.0.cast::<T>().offset(at(i + r, out.1, j + c)).write(T::narrow(sum)) };
            }
        }
    }
}
