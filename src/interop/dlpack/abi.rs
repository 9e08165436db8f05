//! The structs of DLPack 1.x in C's layout. Fields of foreign structs are integers here, which are matched
//! before they are used.
// Imports: nothing.

use std::ffi::c_void;

/// The version of the structs. A reader of a major version can read all of its minor versions.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLPackVersion {
    /// Structs of different major versions differ in layout.
    pub major: u32,
    /// Minor versions add to it.
    pub minor: u32,
}

/// The device of memory: 1 is the host, 2 a GPU of CUDA.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDevice {
    /// The kind of device.
    pub device_type: i32,
    /// The number of the device among those of its kind.
    pub device_id: i32,
}

/// The type of an element: its class, the bits of a number, and the numbers of an element.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// Signed 0, unsigned 1, float 2, bf16 4, complex 5, boolean 6, 8-bit floats from 7 on.
    pub code: u8,
    /// The bits of a number.
    pub bits: u8,
    /// The numbers of an element.
    pub lanes: u16,
}

/// A tensor without its owner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The memory; may be null if the tensor has no elements.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// The number of axes.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// `ndim` sizes.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null for row-major ones.
    pub strides: *mut i64,
    /// Bytes from `data` to the element with index 0.
    pub byte_offset: u64,
}

/// A tensor with its owner's deleter, since version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The producer's version. It and `deleter` are at the same position in all versions.
    pub version: DLPackVersion,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// Called once, from any thread, by the consumer that no longer needs the tensor; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`] and other flags.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// A tensor with its owner's deleter, before version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// Called once, from any thread, by the consumer that no longer needs the tensor; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The consumer of the tensor must not write it.
pub const READ_ONLY: u64 = 1;
/// The tensor was copied for its consumer.
pub const IS_COPIED: u64 = 2;

/// The version that this crate writes.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(
        size_of::<DLTensor>() == 48
            && size_of::<DLManagedTensorVersioned>() == 80
            && size_of::<DLManagedTensor>() == 64
    );
    assert!(
        offset_of!(DLTensor, device) == 8
            && offset_of!(DLTensor, ndim) == 16
            && offset_of!(DLTensor, dtype) == 20
    );
    assert!(
        offset_of!(DLTensor, shape) == 24
            && offset_of!(DLTensor, strides) == 32
            && offset_of!(DLTensor, byte_offset) == 40
    );
    assert!(
        offset_of!(DLManagedTensorVersioned, deleter) == 16
            && offset_of!(DLManagedTensorVersioned, dl_tensor) == 32
    );
    assert!(offset_of!(DLManagedTensor, manager_ctx) == 48 && offset_of!(DLManagedTensor, deleter) == 56);
};
