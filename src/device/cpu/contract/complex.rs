//! Products of complex numbers as products of their parts: a number `b` of the right operand is the matrix [[re, im], [−im, re]],
//! by which the parts of a number of the left one give those of the product.
//!
//! Imports: `scalar`, `error`.

use super::axes::Axes;
use super::block::{Product, Room, each};
use super::by_panels;
use crate::error::Result;
use crate::scalar::DType;
use std::ops::Neg;

/// Whether these elements are complex numbers.
pub(super) fn has(types: [DType; 3]) -> bool {
    matches!(types, [DType::C32, DType::C32, DType::C32] | [DType::C64, DType::C64, DType::C64])
}

/// # Safety
/// As [`by_name`](super::by_name), for elements that are complex.
pub(super) unsafe fn run(product: &Product, types: [DType; 3]) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match types[0] {
            DType::C32 => by_parts::<f32>(product, DType::F32),
            _ => by_parts::<f64>(product, DType::F64),
        }
    }
}

unsafe fn by_parts<P: Copy + Neg<Output = P>>(product: &Product, part: DType) -> Result<()> {
    let (k, all) = (product.k.total(), product.n.total());
    /// Bytes of the parts that stand together.
    const NEAR: usize = 16 << 20;
    let together = (NEAR / k.saturating_mul(4 * size_of::<P>()).max(1) / 64 * 64).max(256).min(all);
    if let (true, Some([out, right])) = (together < all, product.n.single()) {
        for first in (0..all).step_by(together) {
            let mut part_of = *product;
            part_of.n = Axes::new();
            part_of.n.push(together.min(all - first), [out, right]);
            part_of.out = product.out.cast::<[P; 2]>().wrapping_offset(first as isize * out).cast();
            part_of.right = product.right.cast::<[P; 2]>().wrapping_offset(first as isize * right).cast();
            // SAFETY: some columns of the caller's product.
            unsafe { by_parts::<P>(&part_of, part)? };
        }
        return Ok(());
    }
    let n = all;
    let room = Room::new(4, k.saturating_mul(n), size_of::<P>())?;
    struct To<P>(*mut P);
    // SAFETY: an address only; each row is written by one thread.
    unsafe impl<P> Sync for To<P> {}
    impl<P> To<P> {
        fn row(&self, at: usize) -> *mut P {
            self.0.wrapping_add(at)
        }
    }
    let to = To(room.at().cast::<P>());
    const TOGETHER: usize = 64;
    each(k.div_ceil(TOGETHER), k.saturating_mul(n) > 1 << 16, &|chunk| {
        let first = chunk * TOGETHER;
        let mut along = [0; TOGETHER];
        let along = &mut along[..TOGETHER.min(k - first)];
        product.k.offsets(1, first, along);
        let mut across = [0; TOGETHER];
        for column in (0..n).step_by(TOGETHER) {
            let across = &mut across[..TOGETHER.min(n - column)];
            product.n.offsets(1, column, across);
            for (i, &row) in along.iter().enumerate() {
                let upper = to.row((first + i) * 4 * n + 2 * column);
                let lower = upper.wrapping_add(2 * n);
                for (j, &at) in across.iter().enumerate() {
                    // SAFETY: an element of the right operand, and room for four parts.
                    unsafe {
                        let [re, im] = product.right.cast::<[P; 2]>().offset(row.wrapping_add(at)).read();
                        upper.add(2 * j).cast::<[P; 2]>().write([re, im]);
                        lower.add(2 * j).cast::<[P; 2]>().write([-im, re]);
                    }
                }
            }
        }
        Ok(())
    })?;
    let step = 2 * n as isize;
    let parts = Product {
        m: product.m.doubled(),
        n: product.n.parts(2, 1),
        k: product.k.parts(2 * step, step),
        out: product.out,
        left: product.left,
        right: room.at(),
    };
    // SAFETY: the parts of the caller's operands.
    unsafe { by_panels([part; 3], &parts)? };
    Ok(())
}
