//! Small linear algebra: dot, outer, cross and Kronecker products, traces, powers of a matrix.
//!
//! All are compositions of reductions and products.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Number;
use crate::error::{Error, Result};
use crate::expr::IntoView;
use crate::layout::{Layout, joint_size};
use crate::ops::Sum;
use crate::ops::define::of_numbers;
use crate::ops::linalg::matmul::labelled;
use crate::rank::{RemoveAxes, RemoveAxis};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

of_numbers! {
    /// `Σ x · y` along axis `A`, fused; complex numbers are not conjugated: `x.conj()?.vecdot(…)`.
    ///
    /// # Errors
    /// [`Error::Sizes`] when the operands do not broadcast, [`Error::Device`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// let mut y = x.vecdot(&x, Axis::<1>)?;
    /// assert_eq!(y.to_vec()?, [5, 25]);
    /// x.vecdot_into(&x, Axis::<0>, &mut y)?; // no allocation
    /// assert_eq!(y.to_vec()?, [10, 20]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn vecdot, vecdot_into ['b, const A: usize, const M: usize](
        other: impl IntoView<'b, T, RANK, D>, axis: Axis<A>
    ) -> M
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A> + RemoveAxes<Axis<A>, Output = Dim<M>>]
    = |op, x, destination| {
        (x.lazy() * other.into_view()).reduce_at(op, Sum, axis, destination)
    };

    /// The vector product along axis `A`, which has size 3.
    ///
    /// # Errors
    /// [`Error::Axis`] when the axis has another size, [`Error::Sizes`] when the operands do not broadcast,
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1.0, 0.0, 0.0]), Tensor::from([0.0, 1.0, 0.0]));
    /// let mut z = x.cross(&y, Axis::<0>)?;
    /// assert_eq!(z.to_vec()?, [0.0, 0.0, 1.0]);
    /// y.cross_into(&x, Axis::<0>, &mut z)?; // no allocation
    /// assert_eq!(z.to_vec()?, [0.0, 0.0, -1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cross, cross_into ['b, const A: usize](other: impl IntoView<'b, T, RANK, D>, axis: Axis<A>) -> RANK
    where [T: 'b, D: 'b, Dim<RANK>: RemoveAxis<A>] = |op, x, destination| {
        let _ = axis;
        cross_product(op, x, other.into_view(), A, destination)
    };
}

/// The vector product along an existing axis.
fn cross_product<T: Number, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: TensorView<'_, T, RANK, D>,
    axis: usize,
    destination: P,
) -> Result<P::Done> {
    for sizes in [x.size().0, y.size().0] {
        if sizes[axis] != 3 {
            return Err(Error::Axis { op, axis, sizes: sizes.into() });
        }
    }
    let size = joint_size(op, x.size(), y.size())?;
    same_device(op, x.device(), y.device())?;
    x.ensure_allocated(op)?;
    y.ensure_allocated(op)?;
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |out| {
        let (x, y) = (|i: usize| x.slice_axis(axis, i..i + 1, 1), |i: usize| y.slice_axis(axis, i..i + 1, 1));
        for (i, j, k) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
            let part = out.reborrow().slice_axis(axis, i..i + 1, 1)?;
            (x(j)?.lazy() * y(k)? - x(k)?.lazy() * y(j)?).eval_into(part)?;
        }
        Ok(())
    })
}

/// `Σ x[i, i]`.
fn diagonal_sum<T: Number, D: Device, P: Destination<T, 0, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    destination: P,
) -> Result<P::Done> {
    x.diagonal(Axis::<0>, Axis::<1>)?.lazy().reduce_at(op, Sum, Axis::<0>, destination)
}

/// Kronecker's product.
fn kronecker<T: Number, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    y: TensorView<'_, T, 2, D>,
    destination: P,
) -> Result<P::Done> {
    let (Dim([m, n]), Dim([p, q])) = (x.size(), y.size());
    let size = Dim([m.saturating_mul(p), n.saturating_mul(q)]);
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |out| {
        let blocks = out.reborrow().reshape([m, p, n, q]).map_err(|error| error.with_op(op))?;
        labelled(op, [b"ij", b"kl", b"ikjl"], x, y, Existing(blocks))
    })
}

/// The `n`-th power of a square matrix.
fn power<T: Number, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    n: u32,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let (sizes, device) = (x.size().0, x.device());
    if sizes[0] != sizes[1] {
        return Err(Error::Inner {
            op,
            inner: [sizes[1], sizes[0]],
            left: sizes.into(),
            right: sizes.into(),
        });
    }
    destination.put(op, Layout::row_major_of(op, x.size(), size_of::<T>())?, device, |out| {
        if n == 0 {
            out.fill(T::zero())?;
            return out.reborrow().diagonal(Axis::<0>, Axis::<1>)?.fill(T::one());
        }
        // Repeated squaring: one square for each bit of `n`, multiplied for the bits that are set; the last
        // product goes to `out`.
        let (mut square, mut product): (Option<Tensor<T, 2, D>>, Option<Tensor<T, 2, D>>) = (None, None);
        for bit in 0..n.ilog2() {
            let last = square.as_ref().map_or(x, Tensor::view);
            if n >> bit & 1 == 1 {
                product = Some(match &product {
                    Some(product) => product.matmul(last)?,
                    None => last.copy()?,
                });
            }
            if n == 2 << bit {
                return last.matmul_into(last, out);
            }
            square = Some(last.matmul(last)?);
        }
        let last = square.as_ref().map_or(x, Tensor::view);
        match product {
            Some(product) => product.matmul_into(last, out),
            None => out.assign(last),
        }
    })
}

impl<T: Number, D: Device> Tensor<T, 1, D> {
    /// `out[i, j] = x[i] · y[j]`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let y = Tensor::from([1, 2]).outer(&Tensor::from([3, 4, 5]))?;
    /// assert_eq!(y, Tensor::from([[3, 4, 5], [6, 8, 10]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn outer<'b>(&self, other: impl IntoView<'b, T, 1, D>) -> Result<Tensor<T, 2, D>>
    where
        T: 'b,
        D: 'b,
    {
        labelled("outer", [b"i", b"j", b"ij"], self.view(), other.into_view(), Allocate)
    }

    /// As [`outer`](Tensor::outer), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`outer`](Tensor::outer); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it
    /// has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 2>::zeros([2, 3], &Cpu)?;
    /// Tensor::from([1, 2]).outer_into(&Tensor::from([3, 4, 5]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[3, 4, 5], [6, 8, 10]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn outer_into<'b, 'o>(
        &self,
        other: impl IntoView<'b, T, 1, D>,
        out: impl IntoViewMut<'o, T, 2, D>,
    ) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        labelled("outer_into", [b"i", b"j", b"ij"], self.view(), other.into_view(), Existing(out))
    }
}

impl<T: Number, D: Device> Tensor<T, 2, D> {
    /// `Σ x[i, i]`; of a stack of matrices it is `einsum!("bii->b", &x)`.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[1, 2, 3], [4, 5, 6]]).trace()?.item()?, 6);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn trace(&self) -> Result<Tensor<T, 0, D>> {
        diagonal_sum("trace", self.view(), Allocate)
    }

    /// As [`trace`](Tensor::trace), into an existing tensor or exclusive view of rank 0. No allocation.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::Shared`] when `out` has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut traces = Tensor::from([0, 0]);
    /// Tensor::from([[1, 2, 3], [4, 5, 6]]).trace_into(traces.view_mut()?.slice((1,))?)?;
    /// assert_eq!(traces.to_vec()?, [0, 6]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn trace_into<'o>(&self, out: impl IntoViewMut<'o, T, 0, D>) -> Result<()>
    where
        D: 'o,
    {
        diagonal_sum("trace_into", self.view(), Existing(out))
    }

    /// Kronecker's product: every element of `self` times the matrix `other`.
    ///
    /// # Shapes
    /// `[m, n] ⊗ [p, q] → [m p, n q]`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2]]).kron(&Tensor::from([[1, 0], [0, 1]]))?;
    /// assert_eq!(x, Tensor::from([[1, 0, 2, 0], [0, 1, 0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn kron<'b>(&self, other: impl IntoView<'b, T, 2, D>) -> Result<Tensor<T, 2, D>>
    where
        T: 'b,
        D: 'b,
    {
        kronecker("kron", self.view(), other.into_view(), Allocate)
    }

    /// As [`kron`](Tensor::kron), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`kron`](Tensor::kron); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has
    /// other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::<i32, 2>::zeros([2, 4], &Cpu)?;
    /// Tensor::from([[1, 2]]).kron_into(&Tensor::from([[1, 0], [0, 1]]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 0, 2, 0], [0, 1, 0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn kron_into<'b, 'o>(
        &self,
        other: impl IntoView<'b, T, 2, D>,
        out: impl IntoViewMut<'o, T, 2, D>,
    ) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        kronecker("kron_into", self.view(), other.into_view(), Existing(out))
    }

    /// The `n`-th power of the matrix, by repeated squaring; the identity matrix for 0.
    ///
    /// # Errors
    /// [`Error::Inner`] when the matrix is not square, and those of [`matmul`](Tensor::matmul).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let fibonacci = Tensor::from([[1_u64, 1], [1, 0]]);
    /// assert_eq!(fibonacci.matrix_power(90)?[[0, 1]], 2_880_067_194_370_816_120);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matrix_power(&self, n: u32) -> Result<Self> {
        power("matrix_power", self.view(), n, Allocate)
    }

    /// As [`matrix_power`](Tensor::matrix_power), into an existing tensor or exclusive view. Intermediate
    /// powers are allocated.
    ///
    /// # Errors
    /// As [`matrix_power`](Tensor::matrix_power); [`Error::Output`] when `out` has other sizes,
    /// [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[0_u64; 2]; 2]);
    /// Tensor::from([[1_u64, 1], [1, 0]]).matrix_power_into(10, &mut y)?;
    /// assert_eq!(y, Tensor::from([[89, 55], [55, 34]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matrix_power_into<'o>(&self, n: u32, out: impl IntoViewMut<'o, T, 2, D>) -> Result<()>
    where
        D: 'o,
    {
        power("matrix_power_into", self.view(), n, Existing(out))
    }
}
