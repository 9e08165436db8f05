//! The `gemm` crate: products of plain matrices, packed and register-tiled, by the widest instruction set found at run
//! time. It never reads the output.
//!
//! Imports: `scalar`.

use super::super::threads;
use super::block::{FEW_ROWS, PARALLEL, Product};
use crate::scalar::{DType, Num};
use num_complex::Complex;

/// Whether no kernel of this crate is better than the library, whatever the sizes.
pub(super) fn always(element: DType) -> bool {
    matches!(element, DType::C32 | DType::C64) || matches!(element, DType::F32 | DType::F64) && alone()
}

/// A product of plain matrices for which the library is the fastest.
pub(super) struct Matrices {
    product: Product,
    /// The steps of its three groups of axes.
    steps: [[isize; 2]; 3],
    run: unsafe fn(&Product, [[isize; 2]; 3]),
}

impl Matrices {
    pub(super) fn of(product: &Product, types: [DType; 3]) -> Option<Matrices> {
        let steps = [product.m.single()?, product.n.single()?, product.k.single()?];
        // Few rows or columns: this crate reads the other operand where it stands, the library packs it first.
        let many = product.m.total().min(product.n.total()) > FEW_ROWS;
        let best = || alone() || many && !(has_wide() && is_large(product, types[0].size()));
        let (fastest, run): (bool, unsafe fn(&Product, [[isize; 2]; 3])) = match types[0] {
            DType::F32 => (best(), library::<f32>),
            DType::F64 => (best(), library::<f64>),
            DType::C32 => (true, library::<Complex<f32>>),
            DType::C64 => (true, library::<Complex<f64>>),
            _ => return None,
        };
        let fits = types[1..] == [types[0]; 2] && product.work() > 16 * 16 * 16;
        (fits && fastest).then_some(Matrices { product: *product, steps, run })
    }

    /// Computes it.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract), with the elements that the names say.
    pub(super) unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(&self.product, self.steps) }
    }
}

/// Bytes of a right operand that is large: packed, it leaves the second cache, where wide tiles use it more often.
const LARGE_BYTES: usize = 3 << 20;
/// Rows that use it often enough.
const LARGE_ROWS: usize = 256;

/// Whether wide tiles are faster than the library: not over products deeper than wide, whose panels this crate packs whole.
fn is_large(product: &Product, element: usize) -> bool {
    let (m, n, k) = (product.m.total(), product.n.total(), product.k.total());
    m >= LARGE_ROWS && k.saturating_mul(n).saturating_mul(element) >= LARGE_BYTES && k <= n.saturating_mul(2)
}

/// Whether this crate has tiles of four vectors here.
fn has_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::micro::Float512::here().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether this crate has no kernels of its own for real numbers here.
fn alone() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::micro::Float256::here().is_none();
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Rows or columns of a part: fewer pack too much of the other operand.
const LEAST: usize = 48;

/// Up to here in both sizes `gemm` cuts `k` into other blocks, and up to so many sums in all it may go along `k` by vectors:
/// parts must not be so small where the whole is not, for their sums would have other bits.
const SMALL: usize = 64;
const FEW: usize = 16 * 16;

/// Parts begin at multiples of this, as vectors do.
const LANES: usize = 16;

/// Into how many parts a product is cut along its rows or columns, whichever are more: `size`; the others are `other`.
fn parts(work: usize, size: usize, other: usize) -> usize {
    let least = if other > SMALL { LEAST } else { (SMALL + 1).max(FEW / other + 1) + LANES };
    match (work / (PARALLEL / 4)).min(size / least) {
        0 | 1 => 1,
        most => threads::count().min(most),
    }
}

/// Each thread computes some rows, or columns, of its own: the bits do not depend on how many.
unsafe fn library<T: 'static + Num>(product: &Product, [m, n, k]: [[isize; 2]; 3]) {
    let (rows, columns) = (product.m.total(), product.n.total());
    let by_rows = rows >= columns;
    let (size, other) = if by_rows { (rows, columns) } else { (columns, rows) };
    let parts = parts(product.work(), size, other);
    threads::each(parts, product.work() < PARALLEL, &|part| {
        let begin = |part: usize| if part == parts { size } else { size * part / parts / LANES * LANES };
        let (first, count) = (begin(part), begin(part + 1) - begin(part));
        let (row, rows, column, columns) = if by_rows { (first, count, 0, columns) } else { (0, rows, first, count) };
        let (row, column) = (row as isize, column as isize);
        // SAFETY: the caller's promise; each part writes rows or columns of its own. Steps are (column, row) in elements.
        unsafe {
            gemm::gemm(
                rows,
                columns,
                product.k.total(),
                product.out.cast::<T>().wrapping_offset(row * m[0] + column * n[0]),
                n[0],
                m[0],
                false,
                product.left.cast::<T>().wrapping_offset(row * m[1]),
                k[0],
                m[1],
                product.right.cast::<T>().wrapping_offset(column * n[1]),
                n[1],
                k[1],
                T::from_i64(0),
                T::from_i64(1),
                false,
                false,
                false,
                gemm::Parallelism::None,
            )
        }
    });
}
