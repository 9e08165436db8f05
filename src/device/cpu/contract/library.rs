//! The `gemm` crate: products of plain matrices, packed and register-tiled, by the widest instruction set found at run
//! time. It never reads the output.
//!
//! Imports: `scalar`.

use super::block::{PARALLEL, Product};
use crate::scalar::DType;
use num_complex::Complex;

/// Whether no kernel of this crate is better than the library, whatever the sizes.
pub(super) fn always(element: DType) -> bool {
    matches!(element, DType::C32 | DType::C64) || matches!(element, DType::F32 | DType::F64) && alone()
}

/// Whether the product is one of plain matrices for which the library is the fastest.
pub(super) fn takes(product: &Product, types: [DType; 3]) -> bool {
    let plain = [product.m, product.n, product.k].iter().all(|axes| axes.single().is_some());
    plain
        && types[1..] == [types[0]; 2]
        && product.work() > 16 * 16 * 16
        && match types[0] {
            DType::F32 => alone() || prefers(product, 768),
            DType::F64 => alone() || prefers(product, usize::MAX),
            element => always(element),
        }
}

/// Runs the product, if the library [`takes`] it; says whether it did.
///
/// # Safety
/// As [`Device::contract`](crate::device::Device::contract).
pub(super) unsafe fn run(product: &Product, types: [DType; 3]) -> bool {
    let (true, Some(m), Some(n), Some(k)) = (takes(product, types), product.m.single(), product.n.single(), product.k.single()) else {
        return false;
    };
    // SAFETY: the caller's promise, with the element type that the name says.
    unsafe {
        match types[0] {
            DType::F32 => library(product, [m, n, k], 0f32, 1f32),
            DType::F64 => library(product, [m, n, k], 0f64, 1f64),
            DType::C32 => library(product, [m, n, k], Complex::new(0f32, 0.0), Complex::new(1f32, 0.0)),
            DType::C64 => library(product, [m, n, k], Complex::new(0f64, 0.0), Complex::new(1f64, 0.0)),
            _ => return false,
        }
    }
    true
}

/// Whether this crate has no kernels of its own for real numbers here.
fn alone() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::micro::Float256::here().is_none();
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Whether the library is faster than this crate's kernels, for products with at least `large` rows and columns or not: it
/// packs better, which counts between what is not packed at all and what is read so often that packing is forgotten.
fn prefers(product: &Product, large: usize) -> bool {
    let few = product.m.total().min(product.n.total());
    product.work() > 140 * 140 * 140 && few > 32 && few < large
}

unsafe fn library<T: 'static + Copy>(product: &Product, [m, n, k]: [[isize; 2]; 3], zero: T, one: T) {
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
            zero,
            one,
            false,
            false,
            false,
            parallelism,
        )
    }
}
