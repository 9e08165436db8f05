//! The structs of DLPack 1.x as C lays them out. What comes from outside is integers here, and matched before it is believed.
// Imports: nothing.

use std::ffi::c_void;

/// The version of the structs; a reader of one major version reads all its minor ones.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLPackVersion {
    /// Structs of another major version look different.
    pub major: u32,
    /// What was added since.
    pub minor: u32,
}

/// Where memory is: 1 is the host, 2 a card of CUDA's.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDevice {
    /// The kind of device.
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

/// An element: its class, bits, and how many of them one element is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// Signed 0, unsigned 1, float 2, bf16 4, complex 5, boolean 6, 8-bit floats from 7 on.
    pub code: u8,
    /// Bits of a number.
    pub bits: u8,
    /// Numbers of an element.
    pub lanes: u16,
}

/// A tensor that somebody else owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The memory; may be null when there are no elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// How many axes.
    pub ndim: i32,
    /// The element.
    pub dtype: DLDataType,
    /// `ndim` sizes.
    pub shape: *mut i64,
    /// `ndim` steps in elements; null for row-major ones.
    pub strides: *mut i64,
    /// Bytes from `data` to the element with index 0.
    pub byte_offset: u64,
}

/// A tensor and how its owner gets it back, since version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version that the producer wrote; it and `deleter` stand where they are in all versions.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Called once, from any thread, by who does not need the tensor any more; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// As before version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Called once, from any thread, by who does not need the tensor any more; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// Whoever takes the tensor must not write it.
pub const READ_ONLY: u64 = 1;
/// The tensor was copied for whoever takes it.
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
