//! Any numbers as the struct of DLPack that describes a tensor: taken and given back as they were, or
//! refused; and its deleter is called once. The elements are nowhere, and nobody looks at them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rankform::interop::dlpack::{
    self, DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

static DELETED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn delete(_: *mut DLManagedTensorVersioned) {
    DELETED.fetch_add(1, Ordering::SeqCst);
}

/// Numbers out of the bytes; zeros when they end.
struct Numbers<'a>(&'a [u8]);
impl Numbers<'_> {
    fn next(&mut self) -> i64 {
        let kind = self.byte();
        let mut bytes = [0; 8];
        let count = match kind % 4 {
            0 => 1, // small ones more often than others
            1 => 2,
            _ => 8,
        };
        bytes.iter_mut().take(count).for_each(|byte| *byte = self.byte());
        if kind & 4 == 0 { i64::from_le_bytes(bytes) } else { i64::from_le_bytes(bytes).wrapping_neg() }
    }
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut numbers = Numbers(bytes);
    let kind = numbers.byte();
    let ndim = if kind & 1 == 0 { numbers.byte() as i32 % 5 } else { numbers.next() as i32 };
    let (mut shape, mut strides) = ([0i64; 64], [0i64; 64]);
    for axis in 0..(ndim.clamp(0, 64) as usize) {
        (shape[axis], strides[axis]) = (numbers.next(), numbers.next());
    }
    let dtype = match kind & 2 {
        0 => DLDataType { code: 2, bits: 32, lanes: 1 },
        _ => DLDataType { code: numbers.byte(), bits: numbers.byte(), lanes: numbers.byte().into() },
    };
    let dl_tensor = DLTensor {
        data: std::ptr::without_provenance_mut(if kind & 4 == 0 { 1 << 40 } else { numbers.next() as usize }),
        device: DLDevice { device_type: if kind & 8 == 0 { 1 } else { numbers.next() as i32 }, device_id: 0 },
        ndim,
        dtype,
        shape: if kind & 16 == 0 { shape.as_mut_ptr() } else { std::ptr::null_mut() },
        strides: if kind & 32 == 0 { strides.as_mut_ptr() } else { std::ptr::null_mut() },
        byte_offset: if kind & 64 == 0 { 0 } else { numbers.next() as u64 },
    };
    let version = DLPackVersion { major: if kind & 128 == 0 { 1 } else { numbers.next() as u32 }, minor: 0 };
    let mut managed = DLManagedTensorVersioned {
        version,
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    DELETED.store(0, Ordering::SeqCst);
    // SAFETY: taken once; the elements are not there, and nothing here reads them.
    let taken = unsafe { dlpack::import(NonNull::new(&raw mut managed).unwrap()) };
    if let Ok(x) = taken.and_then(|taken| taken.into_tensor()) {
        assert_eq!(DELETED.load(Ordering::SeqCst), 0);
        let exported = dlpack::export(x).unwrap();
        let rank = ndim as usize;
        assert_eq!(exported.dl_tensor.ndim, ndim);
        // SAFETY: sizes and strides of that many axes.
        let (sizes, steps) = unsafe {
            let numbers =
                |at: *mut i64| if rank == 0 { &[][..] } else { std::slice::from_raw_parts(at, rank) };
            (numbers(exported.dl_tensor.shape), numbers(exported.dl_tensor.strides))
        };
        assert_eq!(sizes, &shape[..rank]);
        let dense = sizes.contains(&0) || kind & 32 != 0;
        assert!(
            dense || (0..rank).all(|axis| sizes[axis] == 1 || steps[axis] == strides[axis]),
            "{steps:?} {strides:?}"
        );
        if !sizes.contains(&0) {
            let first = (dl_tensor.data as i128) + dl_tensor.byte_offset as i128;
            assert_eq!(exported.dl_tensor.data as usize, first as usize);
        }
        drop(exported);
    }
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
});
