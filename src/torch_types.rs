//! PyTorch's registry of tensor types: device × layout × element, by name, with the Rust type of each.
// Imports: `error`, `dtype`, `device`, `element`, `tensor`, `sparse`, `dynamic`.

use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::sparse::SparseTensor;
use crate::tensor::Tensor;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// The memory of a tensor type's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// On the host.
    Host,
    /// On a GPU.
    Gpu,
}

/// The storage layout of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StorageLayout {
    /// Strided: [`Tensor`].
    Strided,
    /// Each element with its index: [`SparseTensor`].
    Sparse,
}

/// One of the 38 tensor types of PyTorch's registry.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::{DynTensor, torch_types::TensorType};
/// let kind: TensorType = "cuda.sparse.DoubleTensor".parse()?; // also with "torch." before it
/// assert_eq!(kind.to_string(), "cuda.sparse.DoubleTensor");
/// let x = DynTensor::from(Tensor::from([1.0_f32]));
/// assert!("FloatTensor".parse::<TensorType>()?.is_instance(&x) && !kind.is_instance(&x));
/// assert!("sparse.BoolTensor".parse::<TensorType>().is_err());
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    location: Location,
    storage_layout: StorageLayout,
    dtype: DType,
}

/// The elements of the registry, in its order.
const ELEMENTS: [DType; 10] = [
    DType::U8,
    DType::I8,
    DType::F64,
    DType::F32,
    DType::I32,
    DType::I64,
    DType::I16,
    DType::F16,
    DType::Bool,
    DType::BF16,
];

thread_local! {
    static DEFAULT: Cell<TensorType> =
        const { Cell::new(TensorType::FLOAT) };
}

impl TensorType {
    /// `FloatTensor`.
    const FLOAT: TensorType =
        TensorType { location: Location::Host, storage_layout: StorageLayout::Strided, dtype: DType::F32 };

    /// The type of a location, a layout and an element.
    ///
    /// # Errors
    /// [`Error::Value`] for an element that the registry does not contain, and for sparse booleans.
    pub fn new(location: Location, storage_layout: StorageLayout, dtype: DType) -> Result<TensorType> {
        let is_there =
            ELEMENTS.contains(&dtype) && (storage_layout, dtype) != (StorageLayout::Sparse, DType::Bool);
        let none = || Error::Value {
            op: "TensorType",
            what: text(format_args!("no {storage_layout:?} tensor type of {dtype} on {location:?}")),
        };
        if is_there { Ok(TensorType { location, storage_layout, dtype }) } else { Err(none()) }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = TensorType> {
        let locations = [Location::Host, Location::Gpu].into_iter();
        let backends = locations.flat_map(|location| {
            [StorageLayout::Strided, StorageLayout::Sparse].map(|storage_layout| (location, storage_layout))
        });
        backends.flat_map(|(location, storage_layout)| {
            ELEMENTS.into_iter().filter_map(move |dtype| Self::new(location, storage_layout, dtype).ok())
        })
    }

    /// The memory of the elements.
    pub fn location(self) -> Location {
        self.location
    }
    /// The storage layout.
    pub fn storage_layout(self) -> StorageLayout {
        self.storage_layout
    }
    /// The element type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The type of tensors of element `T` on `D`, if the registry contains one.
    pub fn of<T: Element, D: Device>() -> Option<TensorType> {
        Self::new(location_of::<D>()?, StorageLayout::Strided, T::DTYPE).ok()
    }
    /// The type of sparse tensors of element `T` on `D`, if the registry contains one.
    pub fn of_sparse<T: Element, D: Device>() -> Option<TensorType> {
        Self::new(location_of::<D>()?, StorageLayout::Sparse, T::DTYPE).ok()
    }

    /// Whether a tensor is of this type: PyTorch's `isinstance`.
    pub fn is_instance<X: HasTensorType + ?Sized>(self, tensor: &X) -> bool {
        tensor.tensor_type() == Some(self)
    }

    /// The default type of this thread, for tensors created without a type: `FloatTensor`, until another is
    /// set.
    pub fn default_type() -> TensorType {
        DEFAULT.get()
    }

    /// Sets the default type of this thread, until the returned guard is dropped.
    ///
    /// # Errors
    /// [`Error::Value`] unless the type is strided and its elements are floats.
    ///
    /// # Examples
    /// ```
    /// use rankform::{DType, torch_types::TensorType};
    /// {
    ///     let _kept = "DoubleTensor".parse::<TensorType>()?.set_default()?;
    ///     assert_eq!(TensorType::default_type().zeros(&[2])?.dtype(), DType::F64);
    /// }
    /// assert_eq!(TensorType::default_type().zeros(&[2])?.dtype(), DType::F32);
    /// assert!("IntTensor".parse::<TensorType>()?.set_default().is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn set_default(self) -> Result<DefaultTensorTypeGuard> {
        if self.storage_layout == StorageLayout::Sparse || self.dtype.is_discrete() {
            return Err(Error::Value {
                op: "set_default",
                what: text(format_args!("{self} has no strided floats")),
            });
        }
        Ok(DefaultTensorTypeGuard { before: DEFAULT.replace(self), thread: PhantomData })
    }

    /// A tensor of this type, all zeros; on the first GPU, if it is a type of a GPU.
    ///
    /// # Errors
    /// [`Error::Type`] for a sparse type; [`Error::Unsupported`] for a type of a GPU without the feature
    /// `cuda`, or with the reason why no GPU is available; those of [`DynTensor::zeros`].
    pub fn zeros(self, size: &[usize]) -> Result<DynTensor> {
        if self.storage_layout == StorageLayout::Sparse {
            return Err(Error::Type {
                op: "zeros",
                expected: "a strided tensor type".into(),
                found: text(format_args!("{self}")),
            });
        }
        match self.location {
            Location::Host => DynTensor::zeros(self.dtype, size, &Cpu),
            #[cfg(feature = "cuda")]
            Location::Gpu => DynTensor::zeros(self.dtype, size, &crate::device::Cuda::new(0)?),
            #[cfg(not(feature = "cuda"))]
            Location::Gpu => {
                Err(Error::Unsupported { op: "zeros", device: "rankform without the feature `cuda`" })
            }
        }
    }
}

/// Keeps the default type of a thread. Dropping it restores the previous one.
#[must_use = "the type is the default for as long as this is kept"]
pub struct DefaultTensorTypeGuard {
    before: TensorType,
    /// The guard stays on its thread.
    thread: PhantomData<*const ()>,
}
impl Drop for DefaultTensorTypeGuard {
    fn drop(&mut self) {
        let _ = self.thread;
        DEFAULT.set(self.before);
    }
}

fn location_of<D: Device>() -> Option<Location> {
    let of = std::any::TypeId::of::<D>();
    #[cfg(feature = "cuda")]
    if of == std::any::TypeId::of::<crate::device::Cuda>() {
        return Some(Location::Gpu);
    }
    (of == std::any::TypeId::of::<Cpu>()).then_some(Location::Host)
}

/// A tensor with a type of the registry.
pub trait HasTensorType {
    /// Its type, if the registry contains one.
    fn tensor_type(&self) -> Option<TensorType>;
}
impl<T: Element, const RANK: usize, D: Device> HasTensorType for Tensor<T, RANK, D> {
    fn tensor_type(&self) -> Option<TensorType> {
        TensorType::of::<T, D>()
    }
}
impl<T: Element, const RANK: usize, D: Device> HasTensorType for SparseTensor<T, RANK, D> {
    fn tensor_type(&self) -> Option<TensorType> {
        TensorType::of_sparse::<T, D>()
    }
}
impl HasTensorType for DynTensor {
    fn tensor_type(&self) -> Option<TensorType> {
        #[cfg(feature = "cuda")]
        if self.is_on::<crate::device::Cuda>() {
            return TensorType::new(Location::Gpu, StorageLayout::Strided, self.dtype()).ok();
        }
        self.is_on::<Cpu>()
            .then(|| TensorType::new(Location::Host, StorageLayout::Strided, self.dtype()).ok())?
    }
}

/// The name: `FloatTensor`, `cuda.sparse.DoubleTensor`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.location == Location::Gpu { "cuda." } else { "" };
        let layout = if self.storage_layout == StorageLayout::Sparse { "sparse." } else { "" };
        write!(f, "{location}{layout}{}Tensor", self.dtype.scalar_name())
    }
}

/// Parses the name, with or without `torch.` before it.
impl FromStr for TensorType {
    type Err = Error;
    fn from_str(name: &str) -> Result<TensorType> {
        let plain = name.strip_prefix("torch.").unwrap_or(name);
        let found = TensorType::all().find(|kind| kind.to_string() == plain);
        found.ok_or_else(|| Error::Value {
            op: "TensorType",
            what: text(format_args!("{name:?} is not the name of a tensor type")),
        })
    }
}

/// The Rust types by these names, one module for each of the registry's.
macro_rules! aliases {
    ($tensor:ident, $device:ty; $($name:ident $element:ty;)*) => { $(
        #[doc = concat!("The registry's `", stringify!($name), "`.")]
        pub type $name<const RANK: usize> = $crate::$tensor<$element, RANK, $device>;
    )* };
}
macro_rules! module {
    ($tensor:ident, $device:ty $(, $bool:ident)?) => {
        aliases! {
            $tensor, $device;
            ByteTensor u8;
            CharTensor i8;
            DoubleTensor f64;
            FloatTensor f32;
            IntTensor i32;
            LongTensor i64;
            ShortTensor i16;
            HalfTensor crate::element::f16;
            BFloat16Tensor crate::element::bf16;
        }
        $(aliases! { $tensor, $device; $bool bool; })?
    };
}
/// `torch`.
pub mod types {
    module!(Tensor, crate::Cpu, BoolTensor);
    /// `torch.sparse`, which has no booleans.
    pub mod sparse {
        module!(SparseTensor, crate::Cpu);
    }
    /// `torch.cuda`.
    #[cfg(feature = "cuda")]
    pub mod cuda {
        module!(Tensor, crate::Cuda, BoolTensor);
        /// `torch.cuda.sparse`, which has no booleans.
        pub mod sparse {
            module!(SparseTensor, crate::Cuda);
        }
    }
}
