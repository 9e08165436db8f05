//! Equality, exact and approximate, and elements as bytes, on the CPU.
// Imports: `error`, `dim`, `element`, `device`.

use super::external::checked_size;
use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use approx::{AbsDiffEq, RelativeEq, UlpsEq};

/// A tensor or a view, for reading.
trait AsTensorView<T, const RANK: usize> {
    fn as_tensor_view(&self) -> TensorView<'_, T, RANK>;
}
impl<T, const RANK: usize> AsTensorView<T, RANK> for Tensor<T, RANK> {
    fn as_tensor_view(&self) -> TensorView<'_, T, RANK> {
        self.view()
    }
}
impl<T, const RANK: usize> AsTensorView<T, RANK> for TensorView<'_, T, RANK> {
    fn as_tensor_view(&self) -> TensorView<'_, T, RANK> {
        *self
    }
}
impl<T, const RANK: usize> AsTensorView<T, RANK> for TensorViewMut<'_, T, RANK> {
    fn as_tensor_view(&self) -> TensorView<'_, T, RANK> {
        self.as_view()
    }
}

/// Whether the sizes are equal, and each pair of elements with the same index agrees.
#[track_caller]
fn all_agree<T, const RANK: usize>(
    x: &impl AsTensorView<T, RANK>,
    y: &impl AsTensorView<T, RANK>,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let (x, y) = (x.as_tensor_view(), y.as_tensor_view());
    x.size() == y.size() && x.iter().zip(y).all(|(x, y)| same(x, y))
}

/// `==`, and the comparisons of the crate `approx`, between tensors and views in any combination.
macro_rules! comparisons {
    ($([$($life:lifetime),*] $left:ty, $right:ty;)*) => { $(
        impl<$($life,)* T: PartialEq, const RANK: usize> PartialEq<$right> for $left {
            /// Whether sizes and elements are equal; the layout does not matter, NaN equals nothing.
            ///
            /// # Panics
            /// On a tensor that has sizes and no memory yet.
            #[track_caller]
            fn eq(&self, other: &$right) -> bool {
                all_agree(self, other, T::eq)
            }
        }
        approximate_comparisons! { [$($life),*] $left, $right }
    )* };
}

/// The comparisons of the crate `approx`.
macro_rules! approximate_comparisons {
    ([$($life:lifetime),*] $left:ty, $right:ty) => {
        impl<$($life,)* T: AbsDiffEq<Epsilon: Copy>, const RANK: usize> AbsDiffEq<$right> for $left {
            type Epsilon = T::Epsilon;
            fn default_epsilon() -> T::Epsilon {
                T::default_epsilon()
            }
            #[track_caller]
            fn abs_diff_eq(&self, other: &$right, epsilon: T::Epsilon) -> bool {
                all_agree(self, other, |x, y| x.abs_diff_eq(y, epsilon))
            }
        }
        impl<$($life,)* T: RelativeEq<Epsilon: Copy>, const RANK: usize> RelativeEq<$right> for $left {
            fn default_max_relative() -> T::Epsilon {
                T::default_max_relative()
            }
            #[track_caller]
            fn relative_eq(&self, other: &$right, epsilon: T::Epsilon, max_relative: T::Epsilon) -> bool {
                all_agree(self, other, |x, y| x.relative_eq(y, epsilon, max_relative))
            }
        }
        impl<$($life,)* T: UlpsEq<Epsilon: Copy>, const RANK: usize> UlpsEq<$right> for $left {
            fn default_max_ulps() -> u32 {
                T::default_max_ulps()
            }
            #[track_caller]
            fn ulps_eq(&self, other: &$right, epsilon: T::Epsilon, max_ulps: u32) -> bool {
                all_agree(self, other, |x, y| x.ulps_eq(y, epsilon, max_ulps))
            }
        }
    };
}
comparisons! {
    [] Tensor<T, RANK>, Tensor<T, RANK>;
    ['b] Tensor<T, RANK>, TensorView<'b, T, RANK>;
    ['b] Tensor<T, RANK>, TensorViewMut<'b, T, RANK>;
    ['a] TensorView<'a, T, RANK>, Tensor<T, RANK>;
    ['a, 'b] TensorView<'a, T, RANK>, TensorView<'b, T, RANK>;
    ['a, 'b] TensorView<'a, T, RANK>, TensorViewMut<'b, T, RANK>;
    ['a] TensorViewMut<'a, T, RANK>, Tensor<T, RANK>;
    ['a, 'b] TensorViewMut<'a, T, RANK>, TensorView<'b, T, RANK>;
    ['a, 'b] TensorViewMut<'a, T, RANK>, TensorViewMut<'b, T, RANK>;
}

// ------------------------------------------------------------ bytes

impl<'a, T: Element, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// The bytes of the elements, in native order, if row-major order is the order of memory.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1_u16, 0x0203]);
    /// assert_eq!(x.as_bytes(), Some([1_u16.to_ne_bytes(), 0x0203_u16.to_ne_bytes()].as_flattened()));
    /// ```
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        self.as_slice().map(bytemuck::cast_slice)
    }
}

impl<T: Element + bytemuck::Pod, const RANK: usize> TensorViewMut<'_, T, RANK, Cpu> {
    /// The bytes of the elements, in native order, for writing, if row-major order is the order of memory.
    /// Not for booleans, for which most bytes are invalid; complex numbers are pairs of floats.
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.as_slice_mut().map(bytemuck::cast_slice_mut)
    }
}

impl<T: Element, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// The bytes of the elements, in native order, if row-major order is the order of memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.view().as_bytes()
    }

    /// A copy of elements from bytes, in native order and row-major; any alignment is accepted.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of bytes does not match, [`Error::Value`] when some bytes are not a
    /// valid element (a boolean is 0 or 1), [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::<i16, 2>::from_bytes(&[1, 0, 2, 0], [2, 1])?, Tensor::from([[1], [2]]));
    /// assert!(Tensor::<bool, 1>::from_bytes(&[0, 1, 2], [3]).is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_bytes(bytes: &[u8], size: impl Into<Dim<RANK>>) -> Result<Self> {
        let op = "from_bytes";
        let (parts, rest) = (bytes.chunks_exact(size_of::<T>()), bytes.len() % size_of::<T>());
        if rest != 0 {
            let what =
                text(format_args!("{} bytes are not whole elements of {}", bytes.len(), size_of::<T>()));
            return Err(Error::Value { op, what });
        }
        let size = checked_size(op, size.into(), parts.len(), size_of::<T>())?;
        let mut values = Vec::new();
        values.try_reserve_exact(parts.len()).map_err(|_| Error::OutOfMemory { op, nbytes: bytes.len() })?;
        for (at, part) in parts.enumerate() {
            let value = bytemuck::checked::try_pod_read_unaligned(part);
            values.push(value.map_err(|_| Error::Value {
                op,
                what: text(format_args!("bytes {part:?} of element {at} are no {}", T::DTYPE)),
            })?);
        }
        Tensor::from_vec(values, size)
    }
}
