//! Tensors without strides behind a handle that has their sizes: sparse and quantized ones, for dispatchers.
// Imports: `error`, `dtype`, `element`, `device`, `quantized`, `sparse`, `dynamic`.

use super::tensor::DynTensor;
use crate::device::Device;
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::quantized::{QuantizedElement, QuantizedTensor};
use crate::sparse::SparseTensor;

/// The kinds of tensors behind a handle whose elements have no strides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opaque {
    /// A [`SparseTensor`].
    Sparse,
    /// A [`QuantizedTensor`].
    Quantized,
}

impl DynTensor {
    /// A sparse tensor behind a handle: sizes, element and device are known at run time, and handles share
    /// it. Only [`as_sparse`](DynTensor::as_sparse) reaches its elements; every other access to them is an
    /// error that says this.
    ///
    /// # Errors
    /// [`Error::Overflow`] if its sizes have more bytes than can be counted, [`Error::Value`] for more than
    /// 64 axes, [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::{DynTensor, SparseTensor};
    /// let x = SparseTensor::from_dense(&Tensor::from([[0.0, 2.0], [0.0, 0.0]]))?;
    /// let x = DynTensor::from_sparse(x)?;
    /// assert_eq!((x.size(), x.key_set().to_string().as_str()), (&[2, 2][..], "{SparseCPU}"));
    /// assert_eq!(x.as_sparse::<f64, 2, Cpu>()?.kept(), 1);
    /// assert!(x.to_bytes().unwrap_err().to_string().contains("a sparse tensor"));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_sparse<T: Element, const RANK: usize, D: Device>(
        x: SparseTensor<T, RANK, D>,
    ) -> Result<DynTensor> {
        DynTensor::empty(T::DTYPE, &x.size().0, x.values().device())?.made_opaque(Opaque::Sparse, x)
    }

    /// The sparse tensor behind the handle.
    ///
    /// # Errors
    /// [`Error::Type`], with the expected and the found type; that of
    /// [`without_access`](DynTensor::without_access).
    pub fn as_sparse<T: Element, const RANK: usize, D: Device>(&self) -> Result<&SparseTensor<T, RANK, D>> {
        self.unmarked("as_sparse")?;
        self.permitted("as_sparse")?;
        self.behind().ok_or_else(|| self.is_no("as_sparse", "sparse", T::DTYPE, RANK))
    }

    /// A quantized tensor behind a handle, as [`from_sparse`](DynTensor::from_sparse). (A `DynTensor` of an
    /// element such as [`QInt8`](crate::QInt8) holds the integers without their scales.)
    ///
    /// # Errors
    /// As [`from_sparse`](DynTensor::from_sparse).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::quantized::{Quantization, QuantizedTensor};
    /// use rankform::{DynTensor, QInt8};
    /// let x = Tensor::from([-1.0_f32, 0.5]);
    /// let q = QuantizedTensor::<QInt8, 1>::quantize(&x, Quantization::per_tensor(0.5, 0)?)?;
    /// let q = DynTensor::from_quantized(q)?;
    /// assert_eq!(q.key_set().to_string(), "{QuantizedCPU}");
    /// assert_eq!(q.as_quantized::<QInt8, 1, Cpu>()?.dequantize()?, x);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_quantized<Q: QuantizedElement, const RANK: usize, D: Device>(
        x: QuantizedTensor<Q, RANK, D>,
    ) -> Result<DynTensor> {
        DynTensor::empty(Q::DTYPE, &x.size().0, x.int_repr().device())?.made_opaque(Opaque::Quantized, x)
    }

    /// The quantized tensor behind the handle.
    ///
    /// # Errors
    /// [`Error::Type`], with the expected and the found type; that of
    /// [`without_access`](DynTensor::without_access).
    pub fn as_quantized<Q: QuantizedElement, const RANK: usize, D: Device>(
        &self,
    ) -> Result<&QuantizedTensor<Q, RANK, D>> {
        self.unmarked("as_quantized")?;
        self.permitted("as_quantized")?;
        self.behind().ok_or_else(|| self.is_no("as_quantized", "quantized", Q::DTYPE, RANK))
    }

    fn is_no(&self, op: &'static str, layout: &str, dtype: DType, rank: usize) -> Error {
        let found = match self.opaque() {
            Some(opaque) => text(format_args!(
                "{} of another element, rank or device: {}",
                opaque.in_words(),
                self.kind_in_words()
            )),
            None => self.kind_in_words(),
        };
        Error::Type { op, expected: text(format_args!("a {layout} tensor, {dtype} of rank {rank}")), found }
    }
}

impl Opaque {
    fn in_words(self) -> &'static str {
        match self {
            Opaque::Sparse => "a sparse tensor",
            Opaque::Quantized => "a quantized tensor",
        }
    }

    /// The reason why its elements are not reached as those of other tensors.
    pub(super) fn why(self) -> &'static str {
        match self {
            Opaque::Sparse => "a sparse tensor has no elements by strides; `as_sparse` gives it",
            Opaque::Quantized => {
                "a quantized tensor has a scale apart from its integers; `as_quantized` gives it"
            }
        }
    }
}
