//! The devices of matrices.
// Imports: `dim`, `error`, `device`, `tensor`.

use super::{Eigh, Factors, MatrixElement, MatrixRank, Qr, RightHandSide, Slogdet, Svd, Triangle};
use crate::device::Device;
use crate::dim::Dim;
use crate::error::Result;
use crate::tensor::{Tensor, TensorView};

/// A device with linear algebra of elements `T`: [`Cpu`](crate::Cpu). With the feature `autograd` also tapes
/// and devices of forward mode over it, for real elements.
///
/// The functions of this module are documented where they are called: [`solve`](super::solve()) and others.
#[diagnostic::on_unimplemented(
    message = "there is no linear algebra of `{T}` on `{Self}`",
    label = "needs a tensor on `Cpu`, or one with real elements on a tape over it",
    note = "`.to(&Cpu)?` copies a tensor to the CPU"
)]
pub trait MatrixDevice<T: MatrixElement>: Device {
    #[doc(hidden)]
    fn inv<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank;
    #[doc(hidden)]
    fn solve<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>;
    #[doc(hidden)]
    fn solve_triangular<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
        triangle: Triangle,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>;
    #[doc(hidden)]
    fn det<const RANK: usize, const M: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>;
    #[doc(hidden)]
    fn slogdet<const RANK: usize, const M: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Slogdet<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>;
    #[doc(hidden)]
    fn cholesky<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank;
    #[doc(hidden)]
    fn qr<const RANK: usize>(a: TensorView<'_, T, RANK, Self>, factors: Factors) -> Result<Qr<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank;
    #[doc(hidden)]
    fn svd<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
        factors: Factors,
    ) -> Result<Svd<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>;
    #[doc(hidden)]
    fn svd_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T::Part, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>;
    #[doc(hidden)]
    fn eigh<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Eigh<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>;
    #[doc(hidden)]
    fn eigh_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T::Part, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>;
}
