//! Generic code for types known at run time: one function serves all of them.
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`.

use super::tensor::DynTensor;
use crate::device::Device;
use crate::dtype::DType;
use crate::element::{Element, Number};
use crate::error::{Error, Result};
use crate::tensor::TensorView;

/// Code for any element; see [`DType::visit`].
pub trait ElementVisitor {
    /// The type of the result.
    type Output;
    /// Called with the Rust type.
    fn visit<T: Element>(self) -> Self::Output;
}

/// Code for any number; see [`DType::visit_number`].
pub trait NumberVisitor {
    /// The type of the result.
    type Output;
    /// Called with the Rust type.
    fn visit<T: Number>(self) -> Self::Output;
}

/// Code for a tensor of any element and rank; see [`DynTensor::visit`].
pub trait TensorVisitor<D: Device> {
    /// The type of the result.
    type Output;
    /// Called with the tensor.
    fn visit<T: Element, const RANK: usize>(self, tensor: TensorView<'_, T, RANK, D>) -> Self::Output;
}

/// Evaluates an expression in which `$T` is the Rust type of a dtype, for some dtypes or for `all`. An 8-bit
/// float has the same name as its dtype.
macro_rules! by_dtype {
    ([$($name:ident)*] $dtype:expr, $T:ident => $value:expr) => {
        match $dtype {
            $($crate::dtype::DType::$name => { type $T = $crate::dynamic::by_dtype!(@ $name); $value })*
        }
    };
    ($dtype:expr, $T:ident in all => $value:expr) => {
        $crate::dtype::each_dtype! { by_dtype $dtype, $T => $value }
    };
    ($dtype:expr, $T:ident in [$($name:ident)*] => $value:expr, else $other:expr) => {
        match $dtype {
            $($crate::dtype::DType::$name => { type $T = $crate::dynamic::by_dtype!(@ $name); $value })*
            _ => $other,
        }
    };
    (@ Bool) => { bool };
    (@ I8) => { i8 };
    (@ I16) => { i16 };
    (@ I32) => { i32 };
    (@ I64) => { i64 };
    (@ U8) => { u8 };
    (@ U16) => { u16 };
    (@ U32) => { u32 };
    (@ U64) => { u64 };
    (@ F16) => { crate::element::f16 };
    (@ BF16) => { crate::element::bf16 };
    (@ F32) => { f32 };
    (@ F64) => { f64 };
    (@ C16) => { num_complex::Complex<crate::element::f16> };
    (@ C32) => { num_complex::Complex<f32> };
    (@ C64) => { num_complex::Complex<f64> };
    (@ QI8) => { $crate::element::QInt8 };
    (@ QU8) => { $crate::element::QUInt8 };
    (@ QI32) => { $crate::element::QInt32 };
    (@ $float8:ident) => { $crate::element::float8::$float8 };
}
pub(crate) use by_dtype;

impl DType {
    /// Calls generic code with the Rust type of this dtype.
    ///
    /// # Examples
    /// ```
    /// use rankform::dynamic::ElementVisitor;
    /// use rankform::{DType, Element};
    /// struct Bytes;
    /// impl ElementVisitor for Bytes {
    ///     type Output = usize;
    ///     fn visit<T: Element>(self) -> usize {
    ///         size_of::<T>()
    ///     }
    /// }
    /// assert!(DType::ALL.iter().all(|dtype| dtype.visit(Bytes) == dtype.size()));
    /// ```
    pub fn visit<V: ElementVisitor>(self, visitor: V) -> V::Output {
        by_dtype!(self, T in all => visitor.visit::<T>())
    }

    /// Calls generic code with the Rust type of this dtype if that is a number: not for booleans, 8-bit
    /// floats and quantized integers.
    pub fn visit_number<V: NumberVisitor>(self, visitor: V) -> Option<V::Output> {
        by_dtype!(
            self,
            T in [I8 I16 I32 I64 U8 U16 U32 U64 F16 BF16 F32 F64 C16 C32 C64] => Some(visitor.visit::<T>()),
            else None
        )
    }
}

impl DynTensor {
    /// Calls generic code with the tensor as a typed view on device `D`.
    ///
    /// # Errors
    /// [`Error::Type`] on another device or for more than 8 axes.
    ///
    /// # Examples
    /// ```
    /// use rankform::dynamic::TensorVisitor;
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// /// The largest absolute value.
    /// struct Largest;
    /// impl TensorVisitor<Cpu> for Largest {
    ///     type Output = Result<f64>;
    ///     fn visit<T: Element, const RANK: usize>(self, x: TensorView<'_, T, RANK>) -> Result<f64> {
    ///         Ok(x.cast::<f64>()?.to_vec()?.into_iter().fold(0.0, |a, x| x.abs().max(a)))
    ///     }
    /// }
    /// assert_eq!(DynTensor::from(Tensor::from([[1, -5], [2, 3]])).visit(Largest)??, 5.0);
    /// assert_eq!(DynTensor::from(Tensor::from([-0.5_f32])).visit(Largest)??, 0.5);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn visit<D: Device, V: TensorVisitor<D>>(&self, visitor: V) -> Result<V::Output> {
        struct Ranked<'a, V>(&'a DynTensor, V);
        impl<V> Ranked<'_, V> {
            fn at<T: Element, const RANK: usize, D: Device>(self) -> Result<V::Output>
            where
                V: TensorVisitor<D>,
            {
                Ok(self.1.visit(self.0.downcast_ref::<T, RANK, D>()?))
            }
        }
        struct TypedVisitor<'a, V, D>(Ranked<'a, V>, std::marker::PhantomData<D>);
        impl<D: Device, V: TensorVisitor<D>> ElementVisitor for TypedVisitor<'_, V, D> {
            type Output = Result<V::Output>;
            fn visit<T: Element>(self) -> Self::Output {
                match self.0.0.rank() {
                    0 => self.0.at::<T, 0, D>(),
                    1 => self.0.at::<T, 1, D>(),
                    2 => self.0.at::<T, 2, D>(),
                    3 => self.0.at::<T, 3, D>(),
                    4 => self.0.at::<T, 4, D>(),
                    5 => self.0.at::<T, 5, D>(),
                    6 => self.0.at::<T, 6, D>(),
                    7 => self.0.at::<T, 7, D>(),
                    8 => self.0.at::<T, 8, D>(),
                    _ => Err(Error::Type {
                        op: "visit",
                        expected: "at most 8 axes".into(),
                        found: self.0.0.kind_in_words(),
                    }),
                }
            }
        }
        self.dtype().visit(TypedVisitor(Ranked(self, visitor), std::marker::PhantomData))
    }
}
