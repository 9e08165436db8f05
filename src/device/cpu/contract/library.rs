//! The `gemm` crate: products of plain matrices, packed and register-tiled, by the widest instruction set found at run
//! time. It never reads the output.
//!
//! Imports: `scalar`.

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

unsafe fn library<T: 'static + Num>(product: &Product, [m, n, k]: [[isize; 2]; 3]) {
    #[cfg(feature = "rayon")]
    let parallelism = if product.work() >= PARALLEL { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    #[cfg(not(feature = "rayon"))]
    let parallelism = gemm::Parallelism::None;
    // SAFETY: the caller's promise; steps are (column, row) in elements.
    unsafe {
        gemm::gemm(
            product.m.total(),
            product.n.total(),
            product.k.total(),
            product.out.cast(),
            n[0],
            m[0],
            false,
            product.left.cast(),
            k[0],
            m[1],
            product.right.cast(),
            n[1],
            k[1],
            T::from_i64(0),
            T::from_i64(1),
            false,
            false,
            false,
            parallelism,
        )
    }
}
