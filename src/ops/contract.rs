//! Matrix products, of every pair of ranks that has one.
//!
//! Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::{Device, Slot, same_device};
use crate::dim::Dim;
use crate::element::Number;
use crate::error::{Error, Result};
use crate::expr::Stored;
use crate::kernel::Contraction;
use crate::layout::Layout;
use crate::rank::Matmul;
use crate::tensor::{Tensor, TensorView};

/// A matrix of a stack: sizes and strides of the batch axes and of the last two.
struct Stack {
    batch: Vec2,
    matrix: ([usize; 2], [isize; 2]),
}
type Vec2 = [(usize, isize); 2];

impl<T: Number, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// The matrix product; see [`Tensor::matmul`].
    ///
    /// # Errors
    /// [`Error::Inner`] when the inner sizes differ, [`Error::Sizes`] when the batches do not broadcast, …
    pub fn matmul<'b, const N: usize, const M: usize>(self, other: impl Stored<'b, T, N, D>) -> Result<Tensor<T, M, D>>
    where
        D: 'b,
        T: 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul", self, other.into_view())
    }
}

impl<T: Number, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The matrix product of `self` and `other`, accumulated in the element's machine type (f32 for 16-bit floats).
    ///
    /// # Shapes
    /// | ranks | sizes |
    /// |---|---|
    /// | 1 · 1 → 0 | `[k] · [k] → []` |
    /// | 2 · 1 → 1 | `[m, k] · [k] → [m]` |
    /// | 1 · 2 → 1 | `[k] · [k, n] → [n]` |
    /// | 2 · 2 → 2 | `[m, k] · [k, n] → [m, n]` |
    /// | 3 · 3 → 3, 4 · 4 → 4 | `[.., m, k] · [.., k, n] → [.., m, n]`, batch sizes of 1 stretch |
    ///
    /// Other ranks do not compile. `k = 0` gives zeros.
    ///
    /// # Cost
    /// One allocation of the result; operands are read as they stand, transposed or not. With feature `gemm`, products
    /// of f32, f64 and complex numbers run at the machine's peak.
    ///
    /// # Errors
    /// [`Error::Inner`] when the inner sizes differ, [`Error::Sizes`] when the batches do not broadcast,
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let x = Tensor::from([1.0, -1.0]);
    /// assert_eq!(a.matmul(&x)?.to_vec()?, [-1.0, -1.0]);
    /// assert_eq!(a.matmul(a.transposed())?.to_vec()?, [5.0, 11.0, 11.0, 25.0]);
    /// let error = a.matmul(Tensor::<f64, 2>::zeros([3, 1], &Cpu)?.view()).unwrap_err();
    /// assert_eq!(error.to_string(), "matmul: inner sizes differ: [2, 2] · [3, 1]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "dot")]
    pub fn matmul<'b, const N: usize, const M: usize>(&self, other: impl Stored<'b, T, N, D>) -> Result<Tensor<T, M, D>>
    where
        D: 'b,
        T: 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul", self.view(), other.into_view())
    }
}

/// Any operand as a stack of matrices; a vector is a row on the left and a column on the right.
fn stack<const RANK: usize>(layout: &Layout<RANK>, vector_is_row: bool) -> Stack {
    let (size, stride) = (layout.size().0, layout.stride().0);
    let axis = |from_end: usize| if RANK >= from_end { (size[RANK - from_end], stride[RANK - from_end]) } else { (1, 0) };
    let (rows, columns) = match RANK {
        1 if vector_is_row => ((1, 0), axis(1)),
        1 => (axis(1), (1, 0)),
        _ => (axis(2), axis(1)),
    };
    let batch = if RANK > 2 { [axis(4), axis(3)] } else { [(1, 0); 2] };
    Stack { batch, matrix: ([rows.0, columns.0], [rows.1, columns.1]) }
}

fn product<T: Number, L: Number, R: Number, const RANK: usize, const N: usize, const M: usize, D: Device>(
    op: &'static str,
    left: TensorView<'_, L, RANK, D>,
    right: TensorView<'_, R, N, D>,
) -> Result<Tensor<T, M, D>> {
    same_device(op, left.device(), right.device())?;
    left.ready(op)?;
    right.ready(op)?;
    let (a, b) = (stack(left.layout(), true), stack(right.layout(), false));
    let (([m, k], _), ([inner, n], _)) = (a.matrix, b.matrix);
    if k != inner {
        return Err(Error::Inner { op, left: left.size().0.into(), right: right.size().0.into() });
    }
    let mut batch = [1; 2];
    for (batch, (a, b)) in batch.iter_mut().zip(a.batch.iter().zip(&b.batch)) {
        *batch = match (a.0, b.0) {
            (a, b) if a == b => a,
            (1, size) | (size, 1) => size,
            _ => return Err(Error::Sizes { op, left: left.size().0.into(), right: right.size().0.into() }),
        };
    }
    // The result's axes are the last M of (batch, batch, m, n), without the axis that a vector does not have.
    let all = [batch[0], batch[1], m, n];
    let size: [usize; M] = match (RANK, N) {
        (1, 1) => [0; M], // rank 0
        (_, 1) => [m; M],
        (1, _) => [n; M],
        _ => std::array::from_fn(|axis| all[4 - M + axis]),
    };
    let mut out = Tensor::<T, M, D>::unwritten(op, Layout::row_major_of(op, Dim(size), size_of::<T>())?, left.device())?;
    let stretch = |stack: &Stack| {
        let batch: [isize; 2] = std::array::from_fn(|axis| if stack.batch[axis].0 == batch[axis] { stack.batch[axis].1 } else { 0 });
        [batch[0], batch[1], stack.matrix.1[0], stack.matrix.1[1]]
    };
    let rows = n as isize;
    let out_stride = [(batch[1] as isize).wrapping_mul(m as isize).wrapping_mul(rows), (m as isize).wrapping_mul(rows), rows, 1];
    let (a_stride, b_stride) = (stretch(&a), stretch(&b));
    let plan = Contraction { batch: &batch, m: &[m], k: &[k], n: &[n] };
    let out_slot = Slot { address: out.writable(op)?.raw_ptr().cast(), stride: &out_stride, element: size_of::<T>() };
    let left_slot = Slot { address: left.raw_ptr().cast_mut().cast(), stride: &a_stride, element: size_of::<L>() };
    let right_slot = Slot { address: right.raw_ptr().cast_mut().cast(), stride: &b_stride, element: size_of::<R>() };
    // SAFETY: two ready views and fresh memory of `batch · m · n` elements, with the strides of their own layouts.
    unsafe { left.device().contract::<T, L, R>(plan, out_slot, left_slot, right_slot)? };
    Ok(out)
}
