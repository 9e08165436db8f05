//! Lazy views: conjugated and negated elements, computed on demand.
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `ops`.

use super::named::NamedElementwise;
use super::tensor::{DynTensor, Marks};
use super::visit::by_dtype;
use crate::device::Device;
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::ops::{Cast, Conj, Neg};
use crate::tensor::TensorView;

impl DynTensor {
    /// The complex conjugates, lazily: another handle on the same memory, with a mark. A real tensor is its
    /// own conjugate.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// use num_complex::Complex;
    /// let x = DynTensor::from(Tensor::from([Complex::new(1.0, 2.0)]));
    /// let y = x.conjugate();
    /// assert!(y.is_conjugate() && y.shares_memory_with(&x) && !y.conjugate().is_conjugate());
    /// let z: Tensor<Complex<f64>, 1> = y.resolved::<Cpu>()?.try_into()?;
    /// assert_eq!(z[[0]], Complex::new(1.0, -2.0));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn conjugate(&self) -> DynTensor {
        let mut other = self.share_data();
        other.marks.conjugate ^= self.dtype().is_complex();
        other
    }

    /// The negatives, lazily: another handle on the same memory, with a mark.
    ///
    /// # Errors
    /// [`Error::Type`] if the elements are not numbers, and for 8-bit floats, which are numbers for storage
    /// only.
    pub fn negative(&self) -> Result<DynTensor> {
        if self.dtype() == DType::Bool || self.dtype().is_float8() || self.dtype().is_quantized() {
            return Err(Error::Type {
                op: "negative",
                expected: "numbers".into(),
                found: self.kind_in_words(),
            });
        }
        let mut other = self.share_data();
        other.marks.negative ^= true;
        Ok(other)
    }

    /// Whether it is a lazy view of conjugates.
    pub fn is_conjugate(&self) -> bool {
        self.marks.conjugate
    }
    /// Whether it is a lazy view of negatives.
    pub fn is_negative(&self) -> bool {
        self.marks.negative
    }

    /// Computes the elements of a lazy view, in new memory on its device `D`. For any other tensor, another
    /// handle.
    ///
    /// # Errors
    /// [`Error::Type`] on another device than `D` or for more than 8 axes; those of the operators.
    pub fn resolved<D: Device>(&self) -> Result<DynTensor> {
        let Marks { conjugate, negative } = self.marks;
        let mut plain = self.share_data();
        plain.marks = Marks::default();
        if conjugate {
            let conj = by_dtype!(
                self.dtype(), T in [C16 C32 C64]
                    => NamedElementwise::<D>::of_one::<Conj, T>(),
                else return unreached(&plain)
            );
            plain = conj.call("resolved", &[&plain])?;
        }
        if negative {
            let neg = by_dtype!(
                self.dtype(), T in [I8 I16 I32 I64 U8 U16 U32 U64 F16 BF16 F32 F64 C16 C32 C64]
                    => NamedElementwise::<D>::of_one::<Neg, T>(),
                else return unreached(&plain)
            );
            plain = neg.call("resolved", &[&plain])?;
        }
        Ok(plain)
    }

    /// The whole tensor at rank 8.
    pub(crate) fn at_8<T: Element, D: Device>(&self, op: &'static str) -> Result<TensorView<'_, T, 8, D>> {
        self.at_most(op)
    }

    /// The whole tensor at the rank `N`, which is its own or larger: new leading axes have size 1.
    #[inline]
    pub(crate) fn at_most<T: Element, const RANK: usize, D: Device>(
        &self,
        op: &'static str,
    ) -> Result<TensorView<'_, T, RANK, D>> {
        #[cold]
        fn unlike<T: Element, D: Device>(x: &DynTensor, op: &'static str, most: usize) -> Error {
            let expected = format!("{} of at most {most} axes on {}", T::DTYPE, std::any::type_name::<D>());
            Error::Type { op, expected, found: x.kind_in_words() }
        }
        self.accessible(op)?;
        self.lifted_ref().ok_or_else(|| unlike::<T, D>(self, op, RANK))
    }

    /// Casts the elements to another type, with exactly the results of a typed [`Cast::cast`].
    ///
    /// # Errors
    /// [`Error::Type`] on another device than `D` or for more than 8 axes; those of the operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::{DType, DynTensor};
    /// let x = DynTensor::from(Tensor::from([1.7_f32, -300.0]));
    /// assert_eq!(x.cast::<Cpu>(DType::I8)?.downcast_ref::<i8, 1, Cpu>()?.to_vec()?, [1, -128]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn cast<D: Device>(&self, to: DType) -> Result<DynTensor> {
        fn into<T: Element, U: Element, D: Device>(x: &DynTensor) -> Result<DynTensor> {
            Ok(DynTensor::from(x.at_8::<T, D>("cast")?.cast::<U>()?).with_rank(x.rank()))
        }
        /// The cast goes through the widest element of the kind, which holds every number of a narrower one.
        /// There are then as many kernels as elements, not as pairs of them.
        fn widened<T: Element, D: Device>(x: &DynTensor) -> Result<DynTensor> {
            match widest(T::DTYPE) {
                DType::I64 => into::<T, i64, D>(x),
                DType::U64 => into::<T, u64, D>(x),
                DType::F64 => into::<T, f64, D>(x),
                _ => into::<T, num_complex::Complex<f64>, D>(x),
            }
        }
        fn narrowed<U: Element, D: Device>(x: &DynTensor) -> Result<DynTensor> {
            match x.dtype() {
                DType::I64 => into::<i64, U, D>(x),
                DType::U64 => into::<u64, U, D>(x),
                DType::F64 => into::<f64, U, D>(x),
                _ => into::<num_complex::Complex<f64>, U, D>(x),
            }
        }
        let x = self.resolved::<D>()?;
        if x.dtype() == to {
            return x.copy();
        }
        let wide = if x.dtype() == widest(x.dtype()) {
            x
        } else {
            by_dtype!(x.dtype(), T in all => widened::<T, D>(&x))?
        };
        if wide.dtype() == to {
            return Ok(wide);
        }
        by_dtype!(to, U in all => narrowed::<U, D>(&wide))
    }
}

fn widest(dtype: DType) -> DType {
    match dtype {
        DType::U64 => DType::U64,
        dtype if dtype.is_complex() => DType::C64,
        dtype if dtype.is_discrete() || dtype.is_quantized() => DType::I64,
        _ => DType::F64,
    }
}

fn unreached(x: &DynTensor) -> Result<DynTensor> {
    Err(Error::Type { op: "dynamic", expected: "another element".into(), found: x.kind_in_words() })
}
