//! DLPack 1.x in both directions: tensors of NumPy, PyTorch, JAX, CuPy and others, on the host and on GPUs of
//! CUDA, without a copy.
//!
//! ```
//! use rankform::interop::dlpack;
//! use rankform::prelude::*;
//! let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
//! let pointer = dlpack::export(x)?.into_raw(); // for a capsule named `dltensor_versioned`
//! // … through another library, and back …
//! // SAFETY: it is from a producer that satisfies DLPack's contract, and is imported once.
//! let y: Tensor<f32, 2> = unsafe { dlpack::import(pointer) }?.into_tensor()?.try_into()?;
//! assert_eq!(y, Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `dynamic`.

mod abi;

pub use abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, IS_COPIED,
    READ_ONLY, VERSION,
};

#[cfg(feature = "cuda")]
use crate::device::Cuda;
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::dynamic::{DynTensor, MAX_RANK};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::TensorView;
use std::alloc::Layout;
use std::ptr::NonNull;

const EXPORT: &str = "dlpack::export";
const IMPORT: &str = "dlpack::import";

const CPU: i32 = 1;
const CUDA: i32 = 2;

fn refused<T>(op: &'static str, what: std::fmt::Arguments<'_>) -> Result<T> {
    Err(Error::Value { op, what: text(what) })
}

// ------------------------------------------------------------ export

/// One of the two structs with a tensor and its deleter.
pub trait Managed: sealed::Sealed {}
impl Managed for DLManagedTensorVersioned {}
impl Managed for DLManagedTensor {}

mod sealed {
    use super::*;
    pub trait Sealed: Sized {
        /// The struct of a tensor of this crate. Its deleter frees the `ExportedTensor` that begins with it.
        fn of(dl_tensor: DLTensor, flags: u64) -> Self;
        /// Calls the deleter, if the struct has one.
        ///
        /// # Safety
        /// The struct is alive, and its deleter was not called before.
        unsafe fn delete(this: NonNull<Self>);
    }

    impl Sealed for DLManagedTensorVersioned {
        fn of(dl_tensor: DLTensor, flags: u64) -> Self {
            let deleter = Some(free::<Self> as unsafe extern "C" fn(*mut Self));
            DLManagedTensorVersioned {
                version: VERSION,
                manager_ctx: std::ptr::null_mut(),
                deleter,
                flags,
                dl_tensor,
            }
        }
        unsafe fn delete(this: NonNull<Self>) {
            // SAFETY: the caller's promise.
            if let Some(deleter) = unsafe { this.as_ref() }.deleter {
                // SAFETY: as above; the caller calls this once.
                unsafe { deleter(this.as_ptr()) }
            }
        }
    }

    impl Sealed for DLManagedTensor {
        fn of(dl_tensor: DLTensor, _: u64) -> Self {
            let deleter = Some(free::<Self> as unsafe extern "C" fn(*mut Self));
            DLManagedTensor { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter }
        }
        unsafe fn delete(this: NonNull<Self>) {
            // SAFETY: the caller's promise.
            if let Some(deleter) = unsafe { this.as_ref() }.deleter {
                // SAFETY: as above; the caller calls this once.
                unsafe { deleter(this.as_ptr()) }
            }
        }
    }
}

/// The heap block of an exported struct, which comes first: the arrays to which it points, and the handle
/// that keeps the memory.
#[repr(C)]
struct ExportedTensor<M> {
    managed: M,
    _tensor: DynTensor,
    /// The sizes, then the strides.
    _numbers: Vec<i64>,
}

/// # Safety
/// `managed` is the first field of an `ExportedTensor` from [`export_as`], and this is called once.
unsafe extern "C" fn free<M>(managed: *mut M) {
    // SAFETY: the caller's promise: a block of the global allocator with this layout, as a `Box` has it.
    drop(unsafe { Box::from_raw(managed.cast::<ExportedTensor<M>>()) });
}

/// An exported tensor without a consumer. Dropping it calls the deleter, as a consumer would.
#[derive(Debug)]
pub struct Exported<M: Managed = DLManagedTensorVersioned>(NonNull<M>);

// SAFETY: it owns a handle on the tensor, which is `Send`, and no other owner has the struct.
unsafe impl<M: Managed> Send for Exported<M> {}

impl<M: Managed> Exported<M> {
    /// The struct, for its consumer, which must then call the deleter.
    pub fn into_raw(self) -> NonNull<M> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl<M: Managed> std::ops::Deref for Exported<M> {
    type Target = M;
    fn deref(&self) -> &M {
        // SAFETY: the struct is alive until this is dropped or converted to a raw pointer.
        unsafe { self.0.as_ref() }
    }
}

impl<M: Managed> Drop for Exported<M> {
    fn drop(&mut self) {
        // SAFETY: the struct has no consumer, so its deleter was not called.
        unsafe { M::delete(self.0) }
    }
}

/// Exports a tensor with its strides, whatever they are. The memory lives until the consumer has called the
/// deleter.
///
/// If other handles share the memory, or an element has several indices, the struct forbids writing
/// ([`READ_ONLY`]). Otherwise the consumer has the only handle. All work on a GPU is done when this returns,
/// so that the consumer may use any stream.
///
/// # Cost
/// One small heap block; on a GPU, a wait for its work.
///
/// # Errors
/// [`Error::Unallocated`]; [`Error::Type`] for a lazy view; [`Error::Value`] for a quantized element, a
/// device without a number in DLPack, or a tensor without access; [`Error::OutOfMemory`]. After an error the
/// tensor is dropped.
///
/// # Source
/// <https://dmlc.github.io/dlpack/latest/c_api.html>
pub fn export(tensor: impl Into<DynTensor>) -> Result<Exported> {
    export_as(tensor.into())
}

/// As [`export`], for consumers from before version 1.0. The struct cannot forbid them to write.
///
/// # Errors
/// As [`export`]; [`Error::Shared`] if other handles share the memory, [`Error::Overlap`] if an element has
/// several indices.
pub fn export_unversioned(tensor: impl Into<DynTensor>) -> Result<Exported<DLManagedTensor>> {
    let tensor = tensor.into();
    if tensor.numel() > 0 {
        if !tensor.is_unique() {
            return Err(Error::Shared { op: EXPORT, handles: tensor.use_count() });
        }
        if tensor.may_overlap() {
            return Err(Error::Overlap {
                op: EXPORT,
                sizes: tensor.size().into(),
                strides: tensor.stride().into(),
            });
        }
    }
    export_as(tensor)
}

fn export_as<M: Managed>(tensor: DynTensor) -> Result<Exported<M>> {
    if tensor.numel() > 0 {
        tensor.ensure_allocated(EXPORT)?;
    }
    let Some((code, bits)) = tensor.dtype().dlpack_code() else {
        return refused(EXPORT, format_args!("DLPack has no name for {}", tensor.dtype()));
    };
    let device = device_of(&tensor)?;
    let ndim = tensor.rank();
    let mut numbers = Vec::new();
    let out_of_memory = |nbytes| Error::OutOfMemory { op: EXPORT, nbytes };
    numbers.try_reserve_exact(2 * ndim).map_err(|_| out_of_memory(16 * ndim))?;
    numbers.extend(tensor.size().iter().map(|&size| size as i64));
    numbers.extend(tensor.stride().iter().map(|&stride| stride as i64));
    let shape = numbers.as_mut_ptr();
    let dl_tensor = DLTensor {
        data: if tensor.numel() == 0 { std::ptr::null_mut() } else { tensor.raw_ptr().cast_mut().cast() },
        device,
        ndim: ndim as i32, // 64 at most
        dtype: DLDataType { code, bits, lanes: 1 },
        shape,
        strides: shape.wrapping_add(ndim),
        byte_offset: 0,
    };
    let flags = if tensor.is_unique() && !tensor.may_overlap() { 0 } else { READ_ONLY };
    let layout = Layout::new::<ExportedTensor<M>>();
    // SAFETY: the layout is not of size 0.
    let Some(held) = NonNull::new(unsafe { std::alloc::alloc(layout) }.cast::<ExportedTensor<M>>()) else {
        return Err(out_of_memory(layout.size()));
    };
    // SAFETY: new memory of that layout. The struct is at its start, and the data to which it points lives as
    // long.
    unsafe {
        held.write(ExportedTensor { managed: M::of(dl_tensor, flags), _tensor: tensor, _numbers: numbers })
    };
    Ok(Exported(held.cast()))
}

/// The device of a tensor in DLPack's numbers, after its work is done.
fn device_of(tensor: &DynTensor) -> Result<DLDevice> {
    #[cfg(feature = "cuda")]
    if let Some(cuda) = tensor.device::<Cuda>() {
        Cuda::new(cuda.ordinal())?.synchronize()?; // a handle on its own stream waits for that stream only
        return Ok(DLDevice { device_type: CUDA, device_id: cuda.ordinal() as i32 });
    }
    match tensor.device::<Cpu>() {
        Some(_) => Ok(DLDevice { device_type: CPU, device_id: 0 }),
        None => refused(EXPORT, format_args!("DLPack has no number for the device {}", tensor.device_name())),
    }
}

// ------------------------------------------------------------ import

/// A tensor in the memory of another library. When it or the last handle on it is dropped, its deleter is
/// called.
pub struct Imported {
    tensor: DynTensor,
    flags: u64,
}

/// Imports a struct. Its deleter is called once: when the last handle on the memory is dropped, or before an
/// error returns.
///
/// # Errors
/// [`Error::Value`] for another major version, an unknown device or element, elements of several numbers,
/// negative sizes, more than 64 axes, a null address of elements, or elements that are not aligned;
/// [`Error::Overflow`] for sizes that cannot be counted; [`Error::OutOfMemory`]; for a GPU, the errors of
/// opening it.
///
/// # Safety
/// 1. `managed` points to a struct as DLPack 1.x defines it, whose version and deleter are valid in any
///    version, and which has no other consumer. Sizes and strides reach elements that are valid until the
///    deleter is called; the bytes of booleans are 0 or 1.
/// 2. Until then nothing else writes those elements. Nothing else reads them either while they are written
///    here, which only [`into_tensor`](Imported::into_tensor) makes possible. On a GPU, the work that
///    produces them is done, or the producer has arranged the wait (`stream` in Python's protocol).
/// 3. The deleter may be called on any thread.
pub unsafe fn import(managed: NonNull<DLManagedTensorVersioned>) -> Result<Imported> {
    let owner = ManagedTensor(managed);
    // SAFETY: (1): the version is at the same position in every version.
    let version = unsafe { managed.cast::<DLPackVersion>().read() };
    if version.major != VERSION.major {
        return refused(
            IMPORT,
            format_args!("version {}.{}, where {}.x is known", version.major, version.minor, VERSION.major),
        );
    }
    // SAFETY: (1), for this major version. The struct is copied, because the original belongs to the
    // producer.
    let (about, flags) = unsafe { (managed.as_ref().dl_tensor, managed.as_ref().flags) };
    // SAFETY: (1), (2) and (3).
    Ok(Imported { tensor: unsafe { take(about, owner)? }, flags })
}

/// As [`import`], from producers from before version 1.0. They cannot forbid writing.
///
/// # Errors
/// As [`import`].
///
/// # Safety
/// As [`import`].
pub unsafe fn import_unversioned(managed: NonNull<DLManagedTensor>) -> Result<Imported> {
    let owner = ManagedTensor(managed);
    // SAFETY: (1).
    let about = unsafe { managed.as_ref().dl_tensor };
    // SAFETY: (1), (2) and (3).
    Ok(Imported { tensor: unsafe { take(about, owner)? }, flags: 0 })
}

/// Calls the deleter when dropped.
struct ManagedTensor<M: Managed>(NonNull<M>);

// SAFETY: a deleter may be called on any thread.
unsafe impl<M: Managed> Send for ManagedTensor<M> {}

impl<M: Managed> Drop for ManagedTensor<M> {
    fn drop(&mut self) {
        // SAFETY: this owns the struct, and the call is the only one.
        unsafe { M::delete(self.0) }
    }
}

/// # Safety
/// As [`import`], for a struct that `owner` releases.
unsafe fn take<M: Managed + 'static>(about: DLTensor, owner: ManagedTensor<M>) -> Result<DynTensor> {
    let DLTensor { data, device, ndim, dtype: DLDataType { code, bits, lanes }, byte_offset, .. } = about;
    let found = DType::ALL.iter().find(|dtype| dtype.dlpack_code() == Some((code, bits)));
    let Some(&dtype) = found.filter(|_| lanes == 1) else {
        return refused(IMPORT, format_args!("no element has code {code}, {bits} bits and {lanes} lanes"));
    };
    let Some(rank) = usize::try_from(ndim).ok().filter(|&rank| rank <= MAX_RANK) else {
        return refused(IMPORT, format_args!("{ndim} axes, where {MAX_RANK} are the most"));
    };
    if rank > 0 && about.shape.is_null() {
        return refused(IMPORT, format_args!("{rank} axes without sizes"));
    }
    let (mut size, mut stride) = ([0usize; MAX_RANK], [0isize; MAX_RANK]);
    for axis in 0..rank {
        // SAFETY: the array has `rank` sizes, which need not be aligned for this machine's integers.
        let wide = unsafe { about.shape.wrapping_add(axis).read_unaligned() };
        let Ok(narrow) = usize::try_from(wide) else {
            return refused(IMPORT, format_args!("axis {axis} has size {wide}"));
        };
        size[axis] = narrow;
        if !about.strides.is_null() {
            // SAFETY: the array has as many strides.
            let wide = unsafe { about.strides.wrapping_add(axis).read_unaligned() };
            let Ok(narrow) = isize::try_from(wide) else {
                return refused(IMPORT, format_args!("axis {axis} has stride {wide}"));
            };
            stride[axis] = narrow;
        }
    }
    let (size, stride) = (&size[..rank], &mut stride[..rank]);
    let empty = size.contains(&0);
    if data.is_null() && !empty {
        return refused(IMPORT, format_args!("no memory for sizes {size:?}"));
    }
    let Ok(offset) = isize::try_from(byte_offset) else {
        return refused(IMPORT, format_args!("an offset of {byte_offset} bytes"));
    };
    // Finds the element with the lowest address. Axes with negative strides are reversed here, and reversed
    // back afterwards.
    let mut lowest = offset as i128;
    let mut backwards = [false; MAX_RANK];
    for axis in 0..rank {
        if stride[axis] < 0 && size[axis] > 1 && !empty {
            let steps = stride[axis] as i128 * (size[axis] as i128 - 1); // 63 bits each
            lowest = lowest.saturating_add(steps.saturating_mul(dtype.size() as i128));
            stride[axis] = match stride[axis].checked_neg() {
                Some(forwards) => forwards,
                None => return refused(IMPORT, format_args!("axis {axis} has stride {}", stride[axis])),
            };
            backwards[axis] = true;
        }
    }
    let exists =
        |&lowest: &isize| empty || data.addr().checked_add_signed(lowest).is_some_and(|address| address != 0);
    let Some(lowest) = isize::try_from(lowest).ok().filter(exists) else {
        return refused(
            IMPORT,
            format_args!("elements at {lowest} bytes from {data:?} reach beyond any memory"),
        );
    };
    // Without elements the address refers to no memory and may have any value.
    let address =
        if empty { std::ptr::without_provenance_mut(64) } else { data.cast::<u8>().wrapping_offset(lowest) };
    let stride = (!about.strides.is_null() && !empty).then_some(&*stride);
    let free = move |_: *mut u8, _: usize| drop(owner);
    let mut tensor = match (device.device_type, device.device_id) {
        // SAFETY: the caller's promise: the elements are valid until the deleter has run.
        (CPU, _) => unsafe { DynTensor::from_external(dtype, address, size, stride, &Cpu, free)? },
        #[cfg(feature = "cuda")]
        (CUDA, ordinal @ 0..) => {
            let cuda = Cuda::new(ordinal as usize)?;
            // SAFETY: as above, on that GPU.
            unsafe { DynTensor::from_external(dtype, address, size, stride, &cuda, free)? }
        }
        #[cfg(not(feature = "cuda"))]
        (CUDA, _) => {
            return refused(IMPORT, format_args!("a tensor on a GPU, which needs the feature `cuda`"));
        }
        (kind, number) => {
            return refused(IMPORT, format_args!("no device is of kind {kind}, number {number}"));
        }
    };
    for axis in (0..rank).filter(|&axis| backwards[axis]) {
        tensor = tensor.ranged(axis, 0, size[axis], -1)?;
    }
    Ok(tensor)
}

impl Imported {
    /// Whether the producer forbids writing.
    pub fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    /// Whether the producer copied the tensor for its consumer.
    pub fn is_copied(&self) -> bool {
        self.flags & IS_COPIED != 0
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// The sizes.
    pub fn size(&self) -> &[usize] {
        self.tensor.size()
    }

    /// Borrows it for reading.
    ///
    /// # Errors
    /// [`Error::Type`] for another element type, rank or device.
    pub fn view<T: Element, const RANK: usize, D: Device>(&self) -> Result<TensorView<'_, T, RANK, D>> {
        self.tensor.downcast_ref()
    }

    /// A copy in new memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn copy(&self) -> Result<DynTensor> {
        self.tensor.copy()
    }

    /// The tensor in the producer's memory, which may be written as any other.
    ///
    /// # Errors
    /// [`Error::Value`] if the producer forbids writing; use [`copy`](Imported::copy) or
    /// [`view`](Imported::view) then.
    pub fn into_tensor(self) -> Result<DynTensor> {
        if self.is_read_only() {
            return refused(
                IMPORT,
                format_args!("the tensor must not be written: `view` reads it, `copy` copies it"),
            );
        }
        Ok(self.tensor)
    }
}
