//! Constructors: values, slices, arrays, functions, iterators, ranges.
//!
//! `external.rs` takes over vectors and foreign memory without a copy.
// Imports: `error`, `dim`, `layout`, `scalar`, `element`, `kernel`, `device`, `allocation`, `tensor`.

use super::Tensor;
use super::external::checked_size;
use crate::allocation::Allocation;
use crate::device::{Cpu, Device, Init, Inputs};
use crate::dim::Dim;
use crate::element::{Compute, Element, Number, RealNumber};
use crate::error::{Error, Result, text};
use crate::kernel::{Param, Store};
use crate::layout::Layout;
use crate::scalar::{DType, Prim};
use num_complex::Complex;

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Memory for a dense layout; the caller writes every element before it is read.
    #[inline]
    pub(crate) fn uninit(op: &'static str, layout: Layout<RANK>, device: &D) -> Result<Self> {
        Self::fresh(op, layout, device, Init::Unspecified)
    }

    #[inline(always)] // returning a tensor through memory costs as much as its allocation
    fn fresh(op: &'static str, layout: Layout<RANK>, device: &D, fresh: Init) -> Result<Self> {
        let numel = layout.size().numel_of(op, size_of::<T>())?;
        let memory = Allocation::fresh(device, numel * size_of::<T>(), fresh)?;
        // SAFETY: a dense layout of `numel` elements; zeros are valid elements, and the caller writes
        // unspecified bytes before they are read.
        Ok(unsafe { Tensor::from_memory(memory, layout) })
    }

    /// All elements 0 (`false` for booleans).
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    #[inline]
    pub fn zeros(size: impl Into<Dim<RANK>>, device: &D) -> Result<Self> {
        let size = size.into();
        Self::fresh("zeros", Layout::row_major(size), device, Init::Zeroed)
    }

    /// All elements 1.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    #[inline]
    pub fn ones(size: impl Into<Dim<RANK>>, device: &D) -> Result<Self>
    where
        T: Number,
    {
        Self::filled("ones", size.into(), T::one(), device)
    }

    /// All elements `value`.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::full([2, 2], true, &Cpu)?.to_vec()?, [true; 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[inline]
    pub fn full(size: impl Into<Dim<RANK>>, value: T, device: &D) -> Result<Self> {
        Self::filled("full", size.into(), value, device)
    }

    #[inline(always)]
    fn filled(op: &'static str, size: Dim<RANK>, value: T, device: &D) -> Result<Self> {
        let numel = size.numel_of(op, size_of::<T>())?;
        let mut tensor = Self::fresh(op, Layout::row_major(size), device, Init::Unspecified)?;
        let to = tensor.fresh_leaf().slot(&[1]);
        // SAFETY: new contiguous memory for `numel` elements; the program loads nothing.
        unsafe { device.map(&Store(Param(value)), &[numel], 0, &[to], Inputs { slots: &[], reads: &[] })? };
        Ok(tensor)
    }

    /// The elements of `values`, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of elements does not match `size`, [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    pub fn from_slice(values: &[T], size: impl Into<Dim<RANK>>, device: &D) -> Result<Self> {
        let size = checked_size("from_slice", size.into(), values.len(), size_of::<T>())?;
        let mut tensor = Self::uninit("from_slice", Layout::row_major(size), device)?;
        let to = tensor.fresh_leaf().slot(&[]).address;
        // SAFETY: new memory for exactly these elements.
        unsafe { device.write(to, bytemuck::cast_slice(values))? };
        Ok(tensor)
    }

    /// The element at each index is `value(index)`, which is called once for each index in row-major order.
    ///
    /// # Cost
    /// The elements are collected on the host and copied to the device; [`collect_fn`](Tensor::collect_fn)
    /// saves the copy on the CPU.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from_fn([2, 3], |[row, column]| 10 * row as i32 + column as i32, &Cpu)?;
    /// assert_eq!(x.to_vec()?, [0, 1, 2, 10, 11, 12]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_fn(
        size: impl Into<Dim<RANK>>,
        value: impl FnMut([usize; RANK]) -> T,
        device: &D,
    ) -> Result<Self> {
        let size = size.into();
        Self::from_slice(&values_of("from_fn", size, value)?, size, device)
    }

    /// The elements of an array of arrays, up to six deep; see [`NestedArray`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from_array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &Cpu)?;
    /// assert_eq!(x.size(), [2, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_array<A: NestedArray<T, RANK>>(array: A, device: &D) -> Result<Self> {
        Self::from_slice(array.flat(), A::SIZE, device)
    }

    /// All elements 0, with the sizes, format and device of this tensor.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn zeros_like(&self) -> Result<Self> {
        Self::fresh("zeros_like", self.layout().preserved(), self.device(), Init::Zeroed)
    }
}

/// The values for every index, in row-major order. If `value` panics, the previous values are dropped.
fn values_of<T, const RANK: usize>(
    op: &'static str,
    size: Dim<RANK>,
    value: impl FnMut([usize; RANK]) -> T,
) -> Result<Vec<T>> {
    let numel = size.numel_of(op, size_of::<T>())?;
    let mut values = Vec::new();
    values.try_reserve_exact(numel).map_err(|_| Error::OutOfMemory { op, nbytes: numel * size_of::<T>() })?;
    values.extend(size.indices().map(value));
    Ok(values)
}

impl<T: Send + Sync + 'static, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// As [`from_fn`](Tensor::from_fn), for any element, with or without a destructor. No copy is made.
    ///
    /// If `value` panics, the previous values are dropped.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::collect_fn([2, 2], |[row, column]| format!("{row}{column}"))?;
    /// assert_eq!(x[[1, 0]], "10");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn collect_fn(size: impl Into<Dim<RANK>>, value: impl FnMut([usize; RANK]) -> T) -> Result<Self> {
        let size = size.into();
        Tensor::from_vec(values_of("collect_fn", size, value)?, size)
    }
}

impl<T: Send + Sync + 'static> Tensor<T, 1, Cpu> {
    /// The elements of an iterator; its size hint may be wrong.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the elements are dropped.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let squares = Tensor::from_iter((1..4).map(|i| i * i))?;
    /// assert_eq!(squares.to_vec()?, [1, 4, 9]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[allow(clippy::should_implement_trait)] // `FromIterator` cannot fail
    pub fn from_iter(values: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut all = Vec::new();
        for value in values {
            if all.len() == all.capacity() {
                let nbytes = (all.len() + 1).saturating_mul(size_of::<T>());
                all.try_reserve(1).map_err(|_| Error::OutOfMemory { op: "from_iter", nbytes })?;
            }
            all.push(value);
        }
        let size = [all.len()];
        Tensor::from_vec(all, size)
    }
}

// ------------------------------------------------------------ ranges

/// The value of an integer, exactly.
fn to_integer<T: Element>(value: T) -> i128 {
    let value = value.widen();
    if T::DTYPE == DType::U64 { value.cast::<u64>().into() } else { value.cast::<i64>().into() }
}

fn real<T: Element>(value: T) -> f64 {
    value.widen().cast()
}

fn of_real<T: Element>(value: f64) -> T {
    T::narrow(Compute::<T>::from_f64(value))
}

impl<T: RealNumber, D: Device> Tensor<T, 1, D> {
    /// `start`, `start + step`, `start + 2·step`, … as long as `end` is not reached: NumPy's `arange`.
    ///
    /// There are `⌈(end − start) / step⌉` elements, or none. Integers are exact. A float element is
    /// `start + i · step` in f64, rounded once more to 32 or 16 bits, and never a running sum. With a float
    /// step, rounding can make the last element equal to `end`; [`linspace`](Tensor::linspace) avoids that.
    ///
    /// # Errors
    /// [`Error::Value`] when `step` is 0 or a number is not finite, [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::arange(5, 0, -2, &Cpu)?.to_vec()?, [5, 3, 1]);
    /// assert_eq!(Tensor::arange(0.0, 1.0, 0.25, &Cpu)?.to_vec()?, [0.0, 0.25, 0.5, 0.75]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn arange(start: T, end: T, step: T, device: &D) -> Result<Self> {
        let refused = |what| {
            Err(Error::Value {
                op: "arange",
                what: text(format_args!("from {start} to {end} by {step}: {what}")),
            })
        };
        if step == T::zero() {
            return refused("the step is 0");
        }
        if T::DTYPE.is_discrete() {
            let (first, step) = (to_integer(start), to_integer(step));
            let way = to_integer(end) - first;
            let count =
                if (way < 0) == (step < 0) { way.unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            // Every value lies between `start` and `end`: it is a valid `T`, and its 64 low bits determine
            // it.
            let value =
                |[i]: [usize; 1]| T::narrow(Compute::<T>::from_i64((first + i as i128 * step) as i64));
            return Self::from_slice(&values_of("arange", Dim([count]), value)?, [count], device);
        }
        let [first, last, step] = [start, end, step].map(real);
        if ![first, last, step].iter().all(|value| value.is_finite()) {
            return refused("not finite");
        }
        // A quotient that underflows is still a step towards `end`, or away from it. Beyond usize the cast
        // saturates.
        let steps = (last - first) / step;
        let count = if steps == 0.0 && first != last {
            steps.is_sign_positive() as usize
        } else {
            steps.ceil() as usize
        };
        let value = |[i]: [usize; 1]| of_real(first + i as f64 * step);
        Self::from_slice(&values_of("arange", Dim([count]), value)?, [count], device)
    }
}

/// The i-th of `spaces + 1` numbers at equal distances.
fn interpolated(first: f64, last: f64, spaces: f64, i: f64) -> f64 {
    let step = (last - first) / spaces;
    if step.is_normal() || first == last {
        return first + i * step;
    }
    // The distance overflows or a step underflows: take the weighted mean of the ends instead.
    first * (1.0 - i / spaces) + last * (i / spaces)
}

impl<T: Number, D: Device> Tensor<T, 1, D> {
    /// `n` numbers at equal distances, the first `start`, the last exactly `end`; `n = 1` gives `start`.
    ///
    /// The i-th is `start + i · (end − start) / (n − 1)`, computed in f64; complex numbers by parts; integers
    /// exactly, then rounded towards 0, as in PyTorch.
    ///
    /// # Errors
    /// [`Error::Value`] when an end is not finite, [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5, &Cpu)?.to_vec()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn linspace(start: T, end: T, n: usize, device: &D) -> Result<Self> {
        let [first, last] = [start, end].map(|end| end.widen().cast::<Complex<f64>>());
        if !(first.is_finite() && last.is_finite()) {
            return Err(Error::Value {
                op: "linspace",
                what: text(format_args!("from {start} to {end}: not finite")),
            });
        }
        let spaces = n.saturating_sub(1).max(1);
        let [low, high] = if T::DTYPE.is_discrete() { [to_integer(start), to_integer(end)] } else { [0; 2] };
        let value = |[i]: [usize; 1]| match i {
            0 => start,
            i if i + 1 == n => end,
            i if T::DTYPE.is_discrete() => {
                let sum = low * (spaces - i) as i128 + high * i as i128;
                T::narrow(Compute::<T>::from_i64((sum / spaces as i128) as i64))
            }
            i => {
                let part = |first, last| interpolated(first, last, spaces as f64, i as f64);
                T::narrow(Compute::<T>::from_complex(Complex::new(
                    part(first.re, last.re),
                    part(first.im, last.im),
                )))
            }
        };
        Self::from_slice(&values_of("linspace", Dim([n]), value)?, [n], device)
    }
}

impl<T: Element, D: Device> Tensor<T, 2, D> {
    /// The identity matrix: `[n, n]`, 1 (or `true`) on the diagonal, 0 elsewhere.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::<i32, 2>::eye(2, &Cpu)?.to_vec()?, [1, 0, 0, 1]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn eye(n: usize, device: &D) -> Result<Self> {
        let one = |[row, column]: [usize; 2]| T::narrow(Compute::<T>::from_bool(row == column));
        Self::from_slice(&values_of("eye", Dim([n, n]), one)?, [n, n], device)
    }
}

// ------------------------------------------------------------ arrays

mod sealed {
    pub trait Sealed {}
    impl<T, const N: usize> Sealed for [T; N] {}
}

/// An array of arrays, `RANK` deep, of elements `T`; `RANK` is 1 to 6. Lengths of 0 are sizes of 0.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array, {RANK} deep, of `{T}`",
    label = "expected arrays in arrays with elements `{T}`, from 1 to 6 deep"
)]
pub trait NestedArray<T, const RANK: usize>: sealed::Sealed {
    /// The lengths, outermost first.
    const SIZE: [usize; RANK];
    /// The elements in row-major order.
    fn flat(&self) -> &[T];
}

macro_rules! nested {
    ($($rank:literal: $array:ty, [$($len:ident),+] = |$x:ident| $flat:expr;)*) => { $(
        impl<T: Element, $(const $len: usize),+> NestedArray<T, $rank> for $array {
            const SIZE: [usize; $rank] = [$($len),+];
            fn flat(&self) -> &[T] {
                let $x = self;
                $flat
            }
        }
        impl<T: Element, $(const $len: usize),+> From<$array> for Tensor<T, $rank, Cpu> {
            /// The elements of an array of arrays.
            ///
            /// # Panics
            /// When memory runs out; [`from_array`](Tensor::from_array) returns an error instead.
            #[track_caller]
            fn from(array: $array) -> Self {
                Tensor::from_array(array, &Cpu).unwrap_or_else(|error| panic!("{error}"))
            }
        }
    )* };
}
nested! {
    1: [T; A], [A] = |x| x;
    2: [[T; B]; A], [A, B] = |x| x.as_flattened();
    3: [[[T; C]; B]; A], [A, B, C] = |x| x.as_flattened().as_flattened();
    4: [[[[T; E]; C]; B]; A], [A, B, C, E] = |x| x.as_flattened().as_flattened().as_flattened();
    5: [[[[[T; F]; E]; C]; B]; A], [A, B, C, E, F] =
        |x| x.as_flattened().as_flattened().as_flattened().as_flattened();
    6: [[[[[[T; G]; F]; E]; C]; B]; A], [A, B, C, E, F, G] =
        |x| x.as_flattened().as_flattened().as_flattened().as_flattened().as_flattened();
}

impl<T: Element> From<T> for Tensor<T, 0, Cpu> {
    /// A tensor of one element, without axes.
    ///
    /// # Panics
    /// When memory runs out.
    #[track_caller]
    fn from(value: T) -> Self {
        Tensor::from_slice(&[value], [], &Cpu).unwrap_or_else(|error| panic!("{error}"))
    }
}
