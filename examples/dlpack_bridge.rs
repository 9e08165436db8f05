//! Functions for Python's `ctypes`: a tensor is imported and read, or exported under another layout of the
//! same memory.

use rankform::DynTensor;
use rankform::interop::dlpack::{self, DLManagedTensorVersioned};
use std::ptr::{NonNull, null_mut};

/// The tensor, and whether it must not be written; prints why not.
fn take(managed: *mut DLManagedTensorVersioned) -> Option<DynTensor> {
    let managed = NonNull::new(managed)?;
    // SAFETY: from a capsule of NumPy's or PyTorch's, which Python takes once.
    let taken = unsafe { dlpack::import(managed) };
    let tensor =
        taken.and_then(|taken| if taken.is_read_only() { taken.copy() } else { taken.into_tensor() });
    tensor.map_err(|error| println!("{error}")).ok()
}

/// Takes a tensor and writes its bytes, row-major, to `room`; returns their number, or −1.
///
/// # Safety
/// `managed` comes from a capsule and is passed once; `room` has capacity for the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bridge_bytes(
    managed: *mut DLManagedTensorVersioned,
    room: *mut u8,
    nbytes: usize,
) -> isize {
    let Some(bytes) = take(managed).and_then(|tensor| tensor.to_bytes().ok()) else { return -1 };
    if bytes.len() > nbytes {
        return -1;
    }
    // SAFETY: the caller's promise.
    unsafe { room.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    bytes.len() as isize
}

/// Takes a tensor and gives it back: 0 as it is, 1 with its axes in the other order, 2 with every axis
/// backwards, 3 with every second position of the last axis. Null if it cannot.
///
/// # Safety
/// A capsule's struct, taken once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bridge_turn(
    managed: *mut DLManagedTensorVersioned,
    form: u32,
) -> *mut DLManagedTensorVersioned {
    let turned = take(managed).and_then(|tensor| {
        let rank = tensor.rank();
        match form {
            0 => Some(tensor),
            1 => tensor.permuted(&(0..rank).rev().collect::<Vec<_>>()).ok(),
            2 => (0..rank)
                .try_fold(tensor, |tensor, axis| tensor.ranged(axis, 0, tensor.size()[axis], -1).ok()),
            _ if rank == 0 => Some(tensor),
            _ => tensor.ranged(rank - 1, 0, tensor.size()[rank - 1], 2).ok(),
        }
    });
    turned
        .and_then(|tensor| dlpack::export(tensor).ok())
        .map_or(null_mut(), |exported| exported.into_raw().as_ptr())
}

/// Takes a tensor and lets go of it on another thread.
///
/// # Safety
/// A capsule's struct, taken once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bridge_drop_elsewhere(managed: *mut DLManagedTensorVersioned) {
    let tensor = take(managed);
    let _ = std::thread::spawn(move || drop(tensor)).join();
}
