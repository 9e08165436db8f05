//! DLPack both ways: the release of memory, once and in time; hostile structs; and NumPy and PyTorch on the
//! other side, through `examples/dlpack_bridge.rs`, a library that Python opens, and `check.py`.

use crate::with_python::{python, say};
use rankform::interop::dlpack::{
    self, DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, Imported, READ_ONLY,
};
use rankform::prelude::*;
use rankform::{DType, DynTensor};
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A producer of another library: its struct, the data of that, and the calls of its deleter.
struct Foreign {
    managed: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    data: Vec<f32>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is the `Foreign` that contains the struct, boxed by `give`.
    let foreign = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    foreign.deleted.fetch_add(1, Ordering::SeqCst);
}

/// Hands over `0.0, 1.0, …` under some sizes and strides, after `change` was made to the struct; and the
/// counter of its deleter.
fn give(
    shape: &[i64],
    strides: Option<&[i64]>,
    change: impl FnOnce(&mut DLManagedTensorVersioned),
) -> (NonNull<DLManagedTensorVersioned>, Arc<AtomicUsize>) {
    let deleted = Arc::new(AtomicUsize::new(0));
    let dl_tensor = DLTensor {
        data: std::ptr::null_mut(),
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: shape.len() as i32,
        dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let version = DLPackVersion { major: 1, minor: 0 };
    let managed = DLManagedTensorVersioned {
        version,
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    let data = (0..100).map(|value| value as f32).collect();
    let foreign = Foreign {
        managed,
        shape: shape.to_vec(),
        strides: strides.map(<[i64]>::to_vec),
        data,
        deleted: deleted.clone(),
    };
    let foreign = Box::into_raw(Box::new(foreign));
    // SAFETY: a fresh box; the struct points to its neighbors, which stay where they are.
    unsafe {
        let Foreign { managed, shape, strides, data, .. } = &mut *foreign;
        managed.manager_ctx = foreign.cast();
        managed.dl_tensor.data = data.as_mut_ptr().cast();
        managed.dl_tensor.shape = shape.as_mut_ptr();
        managed.dl_tensor.strides =
            strides.as_mut().map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr());
        change(managed);
        (NonNull::new_unchecked(&raw mut (*foreign).managed), deleted)
    }
}

fn import(managed: NonNull<DLManagedTensorVersioned>) -> Result<Imported> {
    // SAFETY: from `give` or `export`, and taken once; where the struct is wrong on purpose, it is refused
    // before it is followed.
    unsafe { dlpack::import(managed) }
}

fn tensor<const RANK: usize>(managed: NonNull<DLManagedTensorVersioned>) -> Result<Tensor<f32, RANK>> {
    import(managed)?.into_tensor()?.try_into()
}

#[test]
fn the_deleter_is_called_once_when_the_last_handle_is_gone_on_any_thread() {
    let (managed, deleted) = give(&[2, 3], None, |_| {});
    let x = tensor::<2>(managed).unwrap();
    assert_eq!(x.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let y = x.share_data();
    drop(x);
    assert_eq!(deleted.load(Ordering::SeqCst), 0);
    std::thread::spawn(move || drop(y)).join().unwrap();
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn an_import_that_fails_at_any_step_calls_the_deleter_once() {
    let cases: [(&str, fn(&mut DLManagedTensorVersioned)); 17] = [
        ("version 2.0", |managed| managed.version.major = 2),
        ("version 0.8", |managed| managed.version = DLPackVersion { major: 0, minor: 8 }),
        ("no device is of kind 99", |managed| managed.dl_tensor.device.device_type = 99),
        ("a GPU", |managed| managed.dl_tensor.device = DLDevice { device_type: 2, device_id: 77 }),
        ("code 2, 128 bits", |managed| managed.dl_tensor.dtype.bits = 128),
        ("code 3, 32 bits", |managed| managed.dl_tensor.dtype.code = 3),
        ("code 255", |managed| managed.dl_tensor.dtype.code = 255),
        ("and 4 lanes", |managed| managed.dl_tensor.dtype.lanes = 4),
        ("and 0 lanes", |managed| managed.dl_tensor.dtype.lanes = 0),
        ("-1 axes", |managed| managed.dl_tensor.ndim = -1),
        ("65 axes", |managed| managed.dl_tensor.ndim = 65),
        ("without sizes", |managed| managed.dl_tensor.shape = std::ptr::null_mut()),
        // SAFETY: the first size.
        ("axis 0 has size -2", |managed| unsafe { managed.dl_tensor.shape.write(-2) }),
        // SAFETY: as above.
        ("more than isize::MAX bytes", |managed| unsafe { managed.dl_tensor.shape.write(i64::MAX) }),
        ("no memory for sizes [2, 3]", |managed| managed.dl_tensor.data = std::ptr::null_mut()),
        ("not aligned", |managed| managed.dl_tensor.byte_offset = 1),
        ("an offset of", |managed| managed.dl_tensor.byte_offset = u64::MAX),
    ];
    for (words, change) in cases {
        let (managed, deleted) = give(&[2, 3], None, change);
        match import(managed) {
            Ok(_) => panic!("{words}: taken"),
            Err(error) if cfg!(feature = "cuda") && words == "a GPU" => drop(error),
            Err(error) => assert!(error.to_string().contains(words), "{error}: without {words:?}"),
        }
        assert_eq!(deleted.load(Ordering::SeqCst), 1, "{words}");
    }
    let (managed, deleted) = give(&[2, 3], None, |managed| managed.flags = READ_ONLY);
    assert!(tensor::<2>(managed).unwrap_err().to_string().contains("must not be written"));
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
    let (managed, deleted) = give(&[2, 3], None, |_| {});
    assert_eq!(
        tensor::<1>(managed).unwrap_err().to_string(),
        "downcast: expected f32 of rank 1 on Cpu, found f32 of rank 2 on Cpu"
    );
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn strides_offsets_and_no_axes_are_followed() {
    let (managed, _deleted) = give(&[], None, |managed| managed.dl_tensor.byte_offset = 40);
    assert_eq!(tensor::<0>(managed).unwrap().item().unwrap(), 10.0);
    let (managed, _deleted) = give(&[2, 3], Some(&[1, 2]), |managed| managed.dl_tensor.byte_offset = 4);
    assert_eq!(tensor::<2>(managed).unwrap().to_vec().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    let (managed, _deleted) = give(&[2, 3], Some(&[-10, -1]), |managed| managed.dl_tensor.byte_offset = 48);
    assert_eq!(tensor::<2>(managed).unwrap().to_vec().unwrap(), [12.0, 11.0, 10.0, 2.0, 1.0, 0.0]);
    let (managed, _deleted) = give(&[2, 3], Some(&[0, 4]), |_| {});
    assert_eq!(tensor::<2>(managed).unwrap().to_vec().unwrap(), [0.0, 4.0, 8.0, 0.0, 4.0, 8.0]);
    let (managed, _deleted) = give(&[1, 2], Some(&[i64::MIN + 1, 3]), |_| {});
    assert_eq!(
        tensor::<2>(managed).unwrap().to_vec().unwrap(),
        [0.0, 3.0],
        "the stride of one position is nothing"
    );
    let (managed, deleted) = give(&[0, 3], None, |managed| managed.dl_tensor.data = std::ptr::null_mut());
    assert_eq!(tensor::<2>(managed).unwrap().size(), [0, 3]);
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
    let (managed, deleted) = give(&[2, 3], Some(&[i64::MIN, 1]), |_| {});
    assert!(tensor::<2>(managed).is_err());
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn an_axis_that_runs_backwards_for_more_bytes_than_128_bits_hold_is_refused() {
    let (managed, deleted) = give(&[2, i64::MAX], Some(&[1, i64::MIN + 1]), |_| {});
    assert!(tensor::<2>(managed).unwrap_err().to_string().contains("beyond any memory"));
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn an_offset_that_leads_around_the_end_of_memory_is_refused() {
    let around = |managed: &mut DLManagedTensorVersioned| {
        managed.dl_tensor.byte_offset =
            (managed.dl_tensor.data.addr().wrapping_neg() & isize::MAX as usize) as u64;
        managed.dl_tensor.data =
            std::ptr::without_provenance_mut(managed.dl_tensor.byte_offset.wrapping_neg() as usize);
    };
    let (managed, deleted) = give(&[3], None, around);
    assert!(tensor::<1>(managed).unwrap_err().to_string().contains("beyond any memory"));
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn a_deleter_that_is_null_is_not_called() {
    let (managed, deleted) = give(&[3], None, |managed| managed.deleter = None);
    drop(tensor::<1>(managed).unwrap());
    assert_eq!(deleted.load(Ordering::SeqCst), 0);
    // SAFETY: nobody else did.
    unsafe { delete(managed.as_ptr()) };
}

#[test]
fn read_only_tensors_are_viewed_or_copied() {
    let (managed, deleted) = give(&[3], None, |managed| managed.flags = READ_ONLY | dlpack::IS_COPIED);
    let x = import(managed).unwrap();
    assert!(x.is_read_only() && x.is_copied());
    assert_eq!((x.dtype(), x.size()), (DType::F32, &[3][..]));
    assert_eq!(x.view::<f32, 1, Cpu>().unwrap().to_vec().unwrap(), [0.0, 1.0, 2.0]);
    let mut copy: Tensor<f32, 1> = x.copy().unwrap().try_into().unwrap();
    drop(x);
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
    copy.view_mut().unwrap().fill(7.0).unwrap();
}

#[test]
fn an_export_that_nobody_takes_frees_its_memory_and_one_that_is_taken_when_it_is_given_back() {
    Cpu.set_memory_limit(0);
    let before = crate::alloc::live_here();
    let exported = dlpack::export(Tensor::<f64, 2>::ones([100, 100], &Cpu).unwrap()).unwrap();
    assert_eq!((exported.version.major, exported.flags, exported.dl_tensor.ndim), (1, 0, 2));
    drop(exported);
    assert_eq!(crate::alloc::live_here(), before, "never consumed");
    let x = Tensor::from_fn([3, 4], |[i, j]| (10 * i + j) as f32, &Cpu).unwrap();
    let address = x.raw_ptr();
    let turned = x.into_reversed_axis(1).unwrap().into_transposed().unwrap();
    let expected = turned.to_vec().unwrap();
    let exported = dlpack::export(turned).unwrap();
    // SAFETY: two strides.
    assert_eq!(unsafe { std::slice::from_raw_parts(exported.dl_tensor.strides, 2) }, [-1, 4]);
    let y = tensor::<2>(exported.into_raw()).unwrap();
    assert_eq!((y.to_vec().unwrap(), y.raw_ptr()), (expected, address.wrapping_add(3)));
    drop((y, crate::alloc::live_here()));
    assert_eq!(crate::alloc::live_here(), before, "consumed");
    let x = Tensor::from([1_i32, 2]);
    // SAFETY: from the export, taken once.
    let y = unsafe { dlpack::import_unversioned(dlpack::export_unversioned(x).unwrap().into_raw()) }.unwrap();
    assert_eq!(y.view::<i32, 1, Cpu>().unwrap().to_vec().unwrap(), [1, 2]);
}

#[test]
fn shared_and_repeated_memory_is_exported_as_not_to_be_written() {
    let x = Tensor::from([1.0_f32, 2.0]);
    assert_eq!(dlpack::export(x.share_data()).unwrap().flags, READ_ONLY);
    assert!(matches!(dlpack::export_unversioned(x.share_data()), Err(Error::Shared { handles: 2, .. })));
    let wide = x.into_shape([1, 2]).unwrap().into_broadcast([3, 2]).unwrap();
    assert_eq!(dlpack::export(wide).unwrap().flags, READ_ONLY);
    let windows = || Tensor::from([1.0_f32, 2.0, 3.0, 4.0]).into_windows(Axis::<0>, 2, 1).unwrap();
    assert_eq!(dlpack::export(windows()).unwrap().flags, READ_ONLY);
    assert!(matches!(dlpack::export_unversioned(windows()), Err(Error::Overlap { .. })));
    let x = DynTensor::from(Tensor::from([1.0_f32, 2.0]));
    assert!(matches!(dlpack::export(x.negative().unwrap()), Err(Error::Type { .. })));
    assert!(
        dlpack::export(x.without_access("not here").unwrap()).unwrap_err().to_string().contains("not here")
    );
    assert!(
        dlpack::export(DynTensor::zeros(DType::QI8, &[2], &Cpu).unwrap())
            .unwrap_err()
            .to_string()
            .contains("no name for qi8")
    );
    assert!(
        dlpack::export(Tensor::<f32, 1, Meta>::zeros([2], &Meta::new()).unwrap())
            .unwrap_err()
            .to_string()
            .contains("no number")
    );
    let empty = dlpack::export(Tensor::<u8, 1>::zeros([0], &Cpu).unwrap()).unwrap();
    assert!(empty.dl_tensor.data.is_null());
}

#[test]
fn memory_that_runs_out_gives_everything_back() {
    for n in 0..4 {
        let (managed, deleted) = give(&[2, 3], None, |_| {});
        let armed = crate::alloc::fail_from(n);
        let taken = import(managed);
        let refused = armed.refused();
        assert_eq!(
            (taken.is_err(), deleted.load(Ordering::SeqCst)),
            (refused > 0, usize::from(refused > 0)),
            "{n}"
        );
        let x = Tensor::from([1.0]);
        let armed = crate::alloc::fail_from(n);
        let given = dlpack::export(x);
        assert_eq!(given.is_err(), armed.refused() > 0);
    }
}

// ------------------------------------------------------------ Python

#[test]
fn numpy_and_pytorch_import_and_export_tensors() {
    let Some(python) = python() else { return };
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "--example",
        "dlpack_bridge",
        "--features",
        "dlpack",
        "--message-format",
        "short",
    ]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let output = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // …/target/debug/deps/dlpack-… is this program.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let library =
        folder.join(format!("{}dlpack_bridge{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensors/dlpack/check.py");
    let output = Command::new(python).arg(script).arg(library).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    say(text.trim());
}
