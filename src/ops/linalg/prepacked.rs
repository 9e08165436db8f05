//! A matrix packed once for many products: an opaque, blocked layout that only the kernels of its type read.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::{Cpu, Device, same_device};
use crate::dim::Dim;
use crate::element::{Number, WideningMul};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::kernel::{ContractPlan, MAX_GROUP};
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::fmt;
use std::marker::PhantomData;

/// A matrix of `T`, packed as the right operand of matrix products that sum in `OUT`; see [`Tensor::pack`].
///
/// Its elements are in the order in which the device's kernels read them: on the CPU, in panels whose width
/// is a cache line of columns, in the units that the processor multiplies. Elements have no index, hence it
/// has no views; [`unpack`](Packed::unpack) returns the matrix.
///
/// # Source
/// oneDNN calls such a layout opaque and the step to it a reordering, MKL (`gemm_pack`) and FBGEMM
/// (`PackBMatrix`) packing.
pub struct Packed<T: Number, D: Device = Cpu, OUT: Number = T> {
    store: PackedStore<T, D>,
    size: Dim<2>,
    _out: PhantomData<fn() -> OUT>,
}

enum PackedStore<T: Number, D: Device> {
    /// In the order in which the device's kernels for `OUT` read it.
    Blocked(Tensor<u8, 1, D>),
    /// In rows, if the device reads them directly.
    Rows(Tensor<T, 2, D>),
}

impl<T: Number, D: Device, OUT: Number> fmt::Debug for Packed<T, D, OUT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.is_blocked() { "blocked" } else { "in rows" };
        let (size, device, nbytes) = (self.size, self.device(), self.nbytes());
        write!(
            f,
            "Packed {} {size} for sums in {}, {layout}, {nbytes} bytes on {device:?}",
            T::DTYPE,
            OUT::DTYPE
        )
    }
}

impl<T: Number, D: Device, OUT: Number> Packed<T, D, OUT> {
    fn new<'b>(op: &'static str, matrix: impl IntoView<'b, T, 2, D>) -> Result<Self>
    where
        D: 'b,
        T: 'b,
    {
        let matrix = matrix.into_view();
        matrix.ensure_allocated(op)?;
        let (size, device) = (matrix.size(), matrix.device());
        let Some(nbytes) = device.packed_nbytes::<OUT, T>(size.0) else {
            return Ok(Packed { store: PackedStore::Rows(matrix.to_contiguous()?), size, _out: PhantomData });
        };
        let mut panels = Tensor::<u8, 1, D>::uninit(op, Layout::row_major_of(op, Dim([nbytes]), 1)?, device)?;
        let (to, leaf, stride) = (panels.try_view_mut(op)?.raw_ptr(), matrix.leaf(), matrix.stride().0);
        // SAFETY: an allocated view with its own strides, and fresh memory of as many bytes as the device
        // asked for.
        unsafe { device.pack::<OUT, T>(size.0, to.cast(), leaf.slot(&stride))? };
        Ok(Packed { store: PackedStore::Blocked(panels), size, _out: PhantomData })
    }

    /// Rows and columns of the matrix.
    pub fn size(&self) -> Dim<2> {
        self.size
    }
    /// The device.
    pub fn device(&self) -> &D {
        match &self.store {
            PackedStore::Blocked(panels) => panels.device(),
            PackedStore::Rows(matrix) => matrix.device(),
        }
    }
    /// Its size in bytes: that of the matrix, with fewer than 64 columns padded to 64; two to four times as
    /// many if the processor multiplies wider numbers than the elements (16-bit floats, small integers,
    /// `pack_wide`).
    pub fn nbytes(&self) -> usize {
        match &self.store {
            PackedStore::Blocked(panels) => panels.nbytes(),
            PackedStore::Rows(matrix) => matrix.nbytes(),
        }
    }
    /// Returns whether it is in a blocked layout of the device. If not, the device reads plain rows, and the
    /// matrix is stored in rows.
    pub fn is_blocked(&self) -> bool {
        matches!(self.store, PackedStore::Blocked(_))
    }

    /// A copy of the matrix in rows, with the same elements. NaNs stay NaNs; those of 16-bit floats that were
    /// widened become quiet.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn unpack(&self) -> Result<Tensor<T, 2, D>> {
        let op = "unpack";
        match &self.store {
            PackedStore::Rows(matrix) => matrix.copy(),
            PackedStore::Blocked(panels) => {
                let layout = Layout::row_major_of(op, self.size, size_of::<T>())?;
                let mut matrix = Tensor::<T, 2, D>::uninit(op, layout, panels.device())?;
                let to = matrix.try_view_mut(op)?.raw_ptr();
                // SAFETY: memory of all elements, in rows; panels of these types and sizes.
                unsafe { panels.device().unpack::<OUT, T>(self.size.0, to.cast(), panels.raw_ptr().cast())? };
                Ok(matrix)
            }
        }
    }

    /// `left · self`, for any number of axes before the last.
    fn product<const RANK: usize, P: Destination<OUT, RANK, D>>(
        &self,
        op: &'static str,
        left: TensorView<'_, T, RANK, D>,
        destination: P,
    ) -> Result<P::Done> {
        same_device(op, left.device(), self.device())?;
        left.ensure_allocated(op)?;
        let sizes = left.size().0;
        let [k, n] = self.size.0;
        let Some((&inner, rows)) = sizes.split_last().filter(|(_, rows)| rows.len() <= MAX_GROUP) else {
            return Err(Error::Value {
                op,
                what: text(format_args!("an operand of rank {RANK}, not 1 to {}", MAX_GROUP + 1)),
            });
        };
        if inner != k {
            return Err(Error::Inner {
                op,
                inner: [inner, k],
                left: sizes.into(),
                right: self.size.0.into(),
            });
        }
        let size = Dim(std::array::from_fn(|axis| if axis + 1 == RANK { n } else { sizes[axis] }));
        destination.put(op, Layout::row_major_of(op, size, size_of::<OUT>())?, left.device(), |out| {
            let (leaf, left_leaf) = (out.leaf(), left.leaf());
            let (stride, left_stride) = (leaf.layout().stride().0, left.stride().0);
            let plan = ContractPlan { batch: &[], m: rows, k: &[k], n: &[n] };
            let (to, from) = (leaf.slot(&stride), left_leaf.slot(&left_stride));
            match &self.store {
                PackedStore::Blocked(panels) => {
                    // SAFETY: an allocated view and an exclusive one, with their own strides; panels of these
                    // types and sizes.
                    unsafe {
                        left.device().contract_packed::<OUT, T>(plan, to, from, panels.raw_ptr().cast())
                    }
                }
                PackedStore::Rows(matrix) => {
                    let matrix = matrix.view();
                    let (right, stride) = (matrix.leaf(), matrix.stride().0);
                    // SAFETY: two allocated views and an exclusive one, with their own strides.
                    unsafe { left.device().contract::<OUT, T, T>(plan, to, from, right.slot(&stride)) }
                }
            }
        })
    }
}

impl<T: Number, D: Device> TensorView<'_, T, 2, D> {
    /// The matrix, packed as the right operand of many products; see [`Tensor::pack`].
    ///
    /// # Errors
    /// As there.
    pub fn pack(self) -> Result<Packed<T, D>> {
        Packed::new("pack", self)
    }

    /// The matrix, packed for products in a wider element; see [`Tensor::pack_wide`].
    ///
    /// # Errors
    /// As there.
    pub fn pack_wide(self) -> Result<Packed<T, D, T::Wide>>
    where
        T: WideningMul<T>,
    {
        Packed::new("pack_wide", self)
    }
}

impl<T: Number, D: Device> Tensor<T, 2, D> {
    /// The matrix, packed as the right operand of many products: [`matmul_packed`](Tensor::matmul_packed)
    /// skips the packing that [`matmul`](Tensor::matmul) repeats in each call.
    ///
    /// # Shapes
    /// `[k, n]`, of any strides: weights stored as `[n, k]` are packed by `weights.transposed().pack()`.
    ///
    /// # Cost
    /// One allocation and one pass. A [`Packed`] is a copy; the matrix can be dropped.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let weights = Tensor::from_vec((0..12).map(|i| i as f32).collect(), [3, 4])?;
    /// let packed = weights.pack()?;
    /// for row in [[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]] {
    ///     let x = Tensor::from([row]);
    ///     assert_eq!(x.matmul_packed(&packed)?, x.matmul(&weights)?); // the same bits
    /// }
    /// assert_eq!(packed.unpack()?, weights);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn pack(&self) -> Result<Packed<T, D>> {
        self.view().pack()
    }

    /// The matrix, packed for products that sum in a wider element, as [`matmul_wide`](Tensor::matmul_wide)
    /// does.
    ///
    /// # Errors
    /// As [`pack`](Tensor::pack).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let packed = Tensor::full([1000, 3], -100_i8, &Cpu)?.pack_wide()?;
    /// assert_eq!(Tensor::full([2, 1000], 100_i8, &Cpu)?.matmul_packed(&packed)?[[1, 2]], -10_000_000_i32);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn pack_wide(&self) -> Result<Packed<T, D, T::Wide>>
    where
        T: WideningMul<T>,
    {
        self.view().pack_wide()
    }
}

methods_with_into! {
    [[T: Number, const RANK: usize,] T, RANK -> OUT]
    /// The matrix product by a matrix packed by [`pack`](Tensor::pack).
    ///
    /// The bits are those of [`matmul`](Tensor::matmul) by [`unpack`](Packed::unpack), for any number of
    /// rows.
    ///
    /// # Shapes
    /// `[.., k] · [k, n] → [.., n]`, for 1 to 9 axes.
    ///
    /// # Cost
    /// One allocation of the result. On the CPU the matrix is not repacked, except for products of at most 16
    /// rows, columns and terms, which read rows.
    ///
    /// # Errors
    /// [`Error::Inner`] when the inner sizes differ; [`Error::Value`] for rank 0 or more than 9;
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let packed = Tensor::from([[1, 2], [3, 4]]).pack()?;
    /// let x = Tensor::from([[[1, 0]], [[0, 1]], [[1, 1]]]); // three matrices of one row
    /// assert_eq!(x.matmul_packed(&packed)?.to_vec()?, [1, 2, 3, 4, 4, 6]);
    /// let error = Tensor::from([1, 2, 3]).matmul_packed(&packed).unwrap_err();
    /// assert_eq!(error.to_string(), "matmul_packed: inner sizes 3 and 2 differ: [3] · [2, 2]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn matmul_packed,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let packed = Tensor::from([[1, 2], [3, 4]]).pack()?;
    /// let mut y = Tensor::from([[0, 0]]);
    /// Tensor::from([[1, 1]]).matmul_packed_into(&packed, &mut y)?;
    /// assert_eq!(y, Tensor::from([[4, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    matmul_packed_into [OUT: Number](right: &Packed<T, D, OUT>) -> RANK
    where []
    = |op, x, place| right.product(op, x, place);
}
