//! Tensors of run-time types: conversion both ways without a copy or an allocation, views, errors.

use crate::alloc;
use num_complex::Complex;
use rankform::dtype::{Kind, Wrapped};
use rankform::dynamic::{ElementVisitor, TensorVisitor};
use rankform::prelude::*;
use rankform::quantized::{Quantization, QuantizedTensor};
use rankform::{AnyDevice, DType, DynTensor, F8E4M3, F8E5M2, QInt8, QInt32, QUInt8, SparseTensor};
use rankform::{bf16, f16};

/// Calls a generic function with each built-in element.
macro_rules! each_element {
    ($f:ident) => {
        $f::<bool>();
        $f::<i8>();
        $f::<i16>();
        $f::<i32>();
        $f::<i64>();
        $f::<u8>();
        $f::<u16>();
        $f::<u32>();
        $f::<u64>();
        $f::<F8E4M3>();
        $f::<F8E5M2>();
        $f::<f16>();
        $f::<bf16>();
        $f::<f32>();
        $f::<f64>();
        $f::<Complex<f16>>();
        $f::<Complex<f32>>();
        $f::<Complex<f64>>();
        $f::<QInt8>();
        $f::<QUInt8>();
        $f::<QInt32>();
    };
}

#[test]
fn every_element_is_its_name_and_goes_both_ways_on_one_memory() {
    fn check<T: Element>() {
        assert_eq!(
            (T::DTYPE.size(), T::DTYPE.to_string().parse::<DType>().unwrap()),
            (size_of::<T>(), T::DTYPE)
        );
        struct Same<T>(std::marker::PhantomData<T>);
        impl<T: Element> ElementVisitor for Same<T> {
            type Output = bool;
            fn visit<U: Element>(self) -> bool {
                std::any::TypeId::of::<T>() == std::any::TypeId::of::<U>()
                    && align_of::<T>() == align_of::<U>()
            }
        }
        assert!(T::DTYPE.visit(Same::<T>(std::marker::PhantomData)));
        let x = Tensor::<T, 3>::zeros([2, 3, 4], &Cpu).unwrap();
        let address = x.raw_ptr();
        let y = DynTensor::from(x);
        assert_eq!(
            (y.dtype(), y.size(), y.stride(), y.use_count()),
            (T::DTYPE, &[2, 3, 4][..], &[12, 4, 1][..], 1)
        );
        assert_eq!(y.to_bytes().unwrap(), vec![0; 24 * size_of::<T>()]);
        let z: Tensor<T, 3> = y.try_into().unwrap();
        assert_eq!((z.raw_ptr(), z.use_count()), (address, 1));
    }
    each_element!(check);
    assert_eq!(DType::ALL.len(), 21);
}

#[test]
fn a_conversion_copies_and_allocates_nothing() {
    let x = Tensor::<f32, 4>::zeros([2, 3, 4, 5], &Cpu).unwrap();
    let address = x.raw_ptr();
    let mut tensor = Some(x);
    let armed = alloc::fail_from(0); // an allocation would be refused, and counted
    {
        for _ in 0..100 {
            let there = DynTensor::from(tensor.take().unwrap());
            let shared = there.share_data();
            assert_eq!(shared.downcast_ref::<f32, 4, Cpu>().unwrap().numel(), 120);
            drop(shared);
            tensor = Some(there.downcast::<f32, 4, Cpu>().unwrap());
        }
    }
    assert_eq!((armed.refused(), tensor.unwrap().raw_ptr()), (0, address));
}

#[test]
fn errors_name_the_expected_and_the_found() {
    let x = DynTensor::from(Tensor::<f32, 2>::zeros([2, 3], &Cpu).unwrap());
    let says = |error: Error, text: &str| assert_eq!(error.to_string(), text);
    says(
        x.downcast_ref::<f32, 3, Cpu>().unwrap_err(),
        "downcast_ref: expected f32 of rank 3 on Cpu, found f32 of rank 2 on Cpu",
    );
    says(
        x.downcast_ref::<i8, 2, Cpu>().unwrap_err(),
        "downcast_ref: expected i8 of rank 2 on Cpu, found f32 of rank 2 on Cpu",
    );
    says(
        x.downcast_ref::<f32, 2, AnyDevice>().unwrap_err(),
        "downcast_ref: expected f32 of rank 2 on AnyDevice, found f32 of rank 2 on Cpu",
    );
    says(
        DynTensor::undefined().downcast::<f32, 1, Cpu>().unwrap_err(),
        "downcast: expected f32 of rank 1 on Cpu, found an undefined tensor",
    );
    let mut y = x.share_data();
    says(
        y.downcast_mut::<f32, 2, Cpu>().map(drop).unwrap_err(),
        "downcast_mut: the memory has 2 handles and writing needs the only one; `make_unique` copies",
    );
    drop(x);
    y.downcast_mut::<f32, 2, Cpu>().unwrap().as_slice_mut().unwrap()[0] = 1.0;
    assert_eq!(y.version(), 1);
    says(
        DynTensor::from_bytes(DType::Bool, &[3], &[0, 1, 2]).unwrap_err(),
        "from_bytes: byte 2 of element 2 is no bool",
    );
    says(
        DynTensor::from_bytes(DType::I16, &[3], &[0; 5]).unwrap_err(),
        "from_bytes: [3] holds 3 elements, found 2",
    );
    assert!(
        DynTensor::zeros(DType::F64, &[usize::MAX, 2], &Cpu).is_err()
            && DynTensor::zeros(DType::F64, &[1; 65], &Cpu).is_err()
    );
}

#[test]
fn views_at_run_time_are_those_of_typed_tensors() {
    let x = Tensor::from_vec((0..120).collect::<Vec<i32>>(), [2, 3, 4, 5]).unwrap();
    let y = DynTensor::from(x.share_data());
    fn same<const R: usize>(name: &str, found: DynTensor, wanted: TensorView<'_, i32, R>) {
        let found = found.downcast::<i32, R, Cpu>().unwrap();
        assert_eq!((found.layout(), found.raw_ptr()), (wanted.layout(), wanted.raw_ptr()), "{name}");
        assert_eq!(found.to_vec().unwrap(), wanted.to_vec().unwrap(), "{name}");
    }
    same("permuted", y.permuted(&[2, 0, 3, 1]).unwrap(), x.permuted([2, 0, 3, 1]).unwrap());
    same("at", y.at(2, 3).unwrap(), x.slice((.., .., 3, ..)).unwrap());
    same("ranged", y.ranged(3, 1, 5, 2).unwrap(), x.slice((.., .., .., (1..5).step(2))).unwrap());
    same("reversed", y.ranged(1, 0, 3, -1).unwrap(), x.slice((.., (..).step(-1), .., ..)).unwrap());
    same("inserted", y.inserted(1).unwrap(), x.insert_axis(Axis::<1>));
    same("reshaped", y.reshaped(&[6, 20]).unwrap(), x.share_as([6, 20]).unwrap().view());
    same("diagonal", y.diagonal(1, 2).unwrap(), x.diagonal(Axis::<1>, Axis::<2>).unwrap());
    let row = DynTensor::from(Tensor::from([1, 2, 3]));
    let stretched = row.downcast_ref::<i32, 1, Cpu>().unwrap().lift::<2>().broadcast_to([2, 3]).unwrap();
    same("broadcast_to", row.broadcast_to(&[2, 3]).unwrap(), stretched);
    for (error, text) in [
        (y.permuted(&[0, 1, 1, 2]).unwrap_err(), "permuted: [0, 1, 1, 2] is not a permutation of the axes"),
        (y.at(1, 3).unwrap_err(), "at: index 3 is outside axis 1 of size 3, of sizes [2, 3, 4, 5]"),
        (y.at(4, 0).unwrap_err(), "at: axis 4 does not fit sizes [2, 3, 4, 5]"),
        (y.ranged(1, 2, 4, 1).unwrap_err(), "ranged: 2..4 does not fit axis 1 of size 3"),
        (y.reshaped(&[7]).unwrap_err(), "reshaped: [7] holds 7 elements, found 120 of sizes [2, 3, 4, 5]"),
        (row.broadcast_to(&[2, 4]).unwrap_err(), "broadcast_to: sizes [2, 4] and [3] do not broadcast"),
        (
            y.permuted(&[3, 2, 1, 0]).unwrap().reshaped(&[120]).unwrap_err(),
            "reshaped: sizes [5, 4, 3, 2] with strides [1, 5, 20, 60] are not a view of sizes [120]; \
             `to_shape` copies",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(
        y.permuted(&[3, 2, 1, 0]).unwrap().to_contiguous().unwrap().reshaped(&[120]).unwrap().size(),
        [120]
    );
}

#[test]
fn more_than_eight_axes_are_kept_on_the_heap() {
    let mut x = DynTensor::from(Tensor::from_vec((0..8).collect::<Vec<i64>>(), [2, 2, 2]).unwrap());
    for _ in 0..10 {
        x = x.inserted(1).unwrap();
    }
    assert_eq!((x.rank(), x.numel(), x.is_contiguous()), (13, 8, true));
    let y = x.permuted(&[12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
    assert!(!y.is_contiguous() && y.is_non_overlapping_and_dense());
    let z = y.reshaped(&[2, 2, 2]).unwrap().downcast::<i64, 3, Cpu>().unwrap();
    assert_eq!(z.to_vec().unwrap(), [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(x.share_data().downcast::<i64, 13, Cpu>().unwrap().size().0[..3], [2, 1, 1]);
    assert_eq!(DynTensor::from_tensor(x.downcast::<i64, 13, Cpu>().unwrap()).unwrap().rank(), 13);
}

#[test]
fn bytes_go_in_and_out_in_row_major_order_on_any_device() {
    let bytes: Vec<u8> = (0..24).collect();
    let x = DynTensor::from_bytes(DType::U16, &[3, 4], &bytes).unwrap();
    assert_eq!((x.as_bytes().unwrap(), x.to_bytes().unwrap()), (&bytes[..], bytes.clone()));
    let turned = x.transposed(0, 1).unwrap();
    assert_eq!(
        (turned.as_bytes(), turned.to_bytes().unwrap()[..6].to_vec()),
        (None, vec![0, 1, 8, 9, 16, 17])
    );
    let there = turned.to(&AnyDevice::from(Cpu)).unwrap();
    assert_eq!(
        (there.size(), there.to_bytes().unwrap(), there.as_bytes()),
        (&[4, 3][..], turned.to_bytes().unwrap(), None)
    );
    let meta = x.to(&Meta::new()).unwrap();
    assert!(matches!(meta.to_bytes(), Err(Error::NoData { .. })) && meta.device::<Meta>().is_some());
    let part = x.ranged(0, 1, 3, 1).unwrap();
    assert_eq!(
        (part.as_bytes().unwrap(), part.copy().unwrap().to_bytes().unwrap()),
        (&bytes[8..], bytes[8..].to_vec())
    );
    assert_eq!(format!("{x}"), format!("{}", x.downcast_ref::<u16, 2, Cpu>().unwrap()));
    assert_eq!(format!("{meta:?}"), "DynTensor(u16, sizes [3, 4], on Meta)");
}

#[test]
fn foreign_memory_with_any_strides_is_given_back_once_also_on_failure() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    static FREED: AtomicUsize = AtomicUsize::new(0);
    let make = |size: &[usize], stride: Option<&[isize]>, shift: usize| {
        let memory = vec![7u32; 6].leak();
        let address = memory.as_mut_ptr().cast::<u8>();
        let kept = address as usize;
        // SAFETY: six elements, given back below.
        unsafe {
            DynTensor::from_external(
                DType::U32,
                address.wrapping_add(shift),
                size,
                stride,
                &Cpu,
                move |_, _| {
                    FREED.fetch_add(1, SeqCst);
                    drop(Vec::from_raw_parts(kept as *mut u32, 6, 6));
                },
            )
        }
    };
    let x = make(&[3, 2], Some(&[1, 3]), 0).unwrap();
    assert_eq!((x.capacity_in_bytes(), x.stride(), FREED.load(SeqCst)), (24, &[1, 3][..], 0));
    assert_eq!(x.downcast_ref::<u32, 2, Cpu>().unwrap().to_vec().unwrap(), [7; 6]);
    drop(x);
    assert_eq!(FREED.load(SeqCst), 1);
    for (size, stride, shift) in [
        (&[3, 2][..], Some(&[1][..]), 0),
        (&[2], Some(&[-1]), 0),
        (&[1], None, 1),
        (&[usize::MAX, 3], None, 0),
        (&[2], Some(&[isize::MAX]), 0),
    ] {
        let before = FREED.load(SeqCst);
        assert!(make(size, stride, shift).is_err(), "{size:?} {stride:?}");
        assert_eq!(FREED.load(SeqCst), before + 1);
    }
}

#[test]
fn gaps_between_foreign_elements_are_neither_read_nor_written() {
    let mut matrix = [1_i32, 2, 3, 4, 5, 6];
    let address = matrix.as_mut_ptr().cast::<u8>();
    let column = || {
        // SAFETY: the first column of three rows, which no other code uses until the tensor is gone.
        unsafe { DynTensor::from_external(DType::I32, address, &[3], Some(&[2]), &Cpu, |_, _| {}) }.unwrap()
    };
    let typed = || Tensor::<i32, 1>::try_from(column()).unwrap();
    assert_eq!((column().capacity_in_bytes(), typed().capacity()), (0, 0));
    let mut x = column();
    // in memory of its own
    assert_eq!(x.mutable_data::<f32, 1, Cpu>().unwrap().as_slice_mut().unwrap(), [0.0; 3]);
    let mut x = column();
    x.mutable_data::<i32, 1, Cpu>().unwrap().fill(7).unwrap(); // the same elements
    drop(x);
    assert_eq!(matrix, [7, 2, 7, 4, 7, 6]);
    let mut x = typed();
    x.resize([2]).unwrap();
    assert!(!x.is_allocated() && x.mutable_data().unwrap().as_slice_mut().unwrap() == [0, 0]);
    let mut x = typed();
    x.restride(MemoryFormat::Contiguous).unwrap();
    assert!(matches!(x.to_vec(), Err(Error::Unallocated { .. })));
    let x = typed();
    assert!(matches!(x.as_strided::<1>([5], [1], 0).map(drop), Err(Error::Bounds { .. })));
    assert_eq!(x.into_element::<f32>().unwrap().mutable_data().unwrap().as_slice_mut().unwrap(), [0.0; 3]);
    let mut x = typed();
    x.shrink_to(2).unwrap(); // a part of the same elements
    assert_eq!(x.to_vec().unwrap(), [7, 7]);
    x.reserve([4]).unwrap();
    x.extend(2, 0).unwrap();
    assert_eq!(x.to_vec().unwrap(), [7, 7, 0, 0]);
    assert_eq!(matrix, [7, 2, 7, 4, 7, 6]);
}

#[test]
fn a_lazy_view_is_not_taken_for_the_memory_itself() {
    let mut x = DynTensor::from(Tensor::from([1.0_f32, -2.0])).negative().unwrap();
    assert!(matches!(x.mutable_data::<i32, 1, Cpu>().map(drop), Err(Error::Type { .. })));
    assert_eq!((x.dtype(), x.resolved::<Cpu>().unwrap().to_bytes().unwrap().len()), (DType::F32, 8));
    let plain: Tensor<f32, 1> = x.resolved::<Cpu>().unwrap().try_into().unwrap();
    assert_eq!(plain.to_vec().unwrap(), [-1.0, 2.0]);
    let sparse = SparseTensor::from_dense(&Tensor::from([[0.0, 2.0]])).unwrap();
    let sparse = DynTensor::from_sparse(sparse).unwrap().negative().unwrap();
    assert!(matches!(sparse.as_sparse::<f64, 2, Cpu>().map(drop), Err(Error::Type { .. })));
    assert!(matches!(
        DynTensor::zeros(DType::F8E4M3, &[1], &Cpu).unwrap().negative().map(drop),
        Err(Error::Type { .. })
    ));
}

#[test]
fn strides_of_axes_of_size_1_may_be_anything() {
    let mut row = [1_i32, 2];
    let address = row.as_mut_ptr().cast::<u8>();
    // SAFETY: two elements that nobody else touches.
    let x = unsafe {
        DynTensor::from_external(DType::I32, address, &[1, 2], Some(&[isize::MAX, 1]), &Cpu, |_, _| {})
    }
    .unwrap();
    assert_eq!(x.diagonal(0, 1).unwrap().downcast_ref::<i32, 1, Cpu>().unwrap().to_vec().unwrap(), [1]);
    let waiting = Tensor::<i64, 2>::empty([1, 3], &Cpu).unwrap();
    let values = Tensor::from([1.0, 2.0, 3.0]);
    assert!(matches!(
        SparseTensor::<f64, 1>::new(waiting, values, [9]).map(drop),
        Err(Error::Unallocated { .. })
    ));
}

#[test]
fn a_visitor_serves_every_element_and_rank() {
    struct Count;
    impl<D: Device> TensorVisitor<D> for Count {
        type Output = (DType, usize, usize);
        fn visit<T: Element, const RANK: usize>(self, x: TensorView<'_, T, RANK, D>) -> Self::Output {
            (T::DTYPE, RANK, x.numel())
        }
    }
    for &dtype in DType::ALL {
        for rank in 0..=8 {
            let x = DynTensor::zeros(dtype, &[2; 8][..rank], &Meta::new()).unwrap();
            assert_eq!(x.visit::<Meta, _>(Count).unwrap(), (dtype, rank, 1 << rank));
            assert!(matches!(x.visit::<Cpu, _>(Count), Err(Error::Type { .. })));
        }
    }
}

#[test]
fn mutable_data_changes_the_element_type_and_keeps_memory_that_serves() {
    let mut x = DynTensor::from(Tensor::from([1.5_f32, 2.5]));
    let (address, before) = (x.raw_ptr(), x.version());
    assert_eq!(x.mutable_data::<f32, 1, Cpu>().unwrap().as_slice_mut().unwrap(), [1.5, 2.5]);
    assert_eq!(x.mutable_data::<u8, 1, Cpu>().unwrap().as_slice_mut().unwrap(), [0, 0]);
    assert_eq!((x.raw_ptr(), x.dtype(), x.capacity_in_bytes()), (address, DType::U8, 8));
    x.mutable_data::<Complex<f64>, 1, Cpu>().unwrap().as_slice_mut().unwrap()[1] = Complex::new(1.0, 2.0);
    assert_eq!((x.dtype(), x.capacity_in_bytes(), x.version() - before), (DType::C64, 32, 3));
    let shared = x.share_data();
    x.mutable_data::<i64, 1, Cpu>().unwrap(); // memory of its own
    assert!(!x.shares_memory_with(&shared) && shared.dtype() == DType::C64);
    assert!(matches!(x.mutable_data::<i64, 2, Cpu>().map(drop), Err(Error::Type { .. })));
    let mut waiting = DynTensor::empty(DType::F32, &[2, 2], &Cpu).unwrap();
    assert!(!waiting.is_allocated() && matches!(waiting.to_bytes(), Err(Error::Unallocated { .. })));
    assert_eq!(waiting.mutable_data::<f32, 2, Cpu>().unwrap().as_slice_mut().unwrap(), [0.0; 4]);
    let undefined = DynTensor::undefined();
    assert!(
        undefined.is_undefined()
            && undefined.share_data().copy().unwrap().is_undefined()
            && undefined.device_type().is_empty()
    );
}

#[test]
fn data_of_a_backend_is_never_the_data_behind_a_handle() {
    let dense = Tensor::from([[0.0_f32, 2.0, 0.0], [3.0, 0.0, 0.0]]);
    let matrix = || SparseTensor::from_dense(&dense).unwrap();
    let held = DynTensor::from_sparse(matrix()).unwrap().with_backend_data(7_u8).unwrap();
    assert_eq!((held.backend_data::<u8>(), held.as_sparse::<f32, 2, Cpu>().unwrap().kept()), (Some(&7), 2));
    assert!(held.backend_data::<SparseTensor<f32, 2>>().is_none() && held.to_bytes().is_err());
    let posing = DynTensor::from(dense.share_data()).with_backend_data(matrix()).unwrap();
    assert!(posing.opaque().is_none() && posing.to_bytes().is_ok());
    let words = posing.as_sparse::<f32, 2, Cpu>().map(drop).unwrap_err().to_string();
    assert!(words.contains("expected a sparse tensor, f32 of rank 2, found f32 of rank 2"), "{words}");
    // A user's texts replace those of the handle, for the data behind it too.
    let hidden = DynTensor::from_sparse(matrix()).unwrap().without_access("a placeholder").unwrap();
    assert_eq!(
        hidden.as_sparse::<f32, 2, Cpu>().map(drop).unwrap_err().to_string(),
        "as_sparse: a placeholder"
    );
    assert_eq!(hidden.to_bytes().unwrap_err().to_string(), "to_bytes: a placeholder");

    let integers = || {
        QuantizedTensor::<QInt8, 1>::quantize(
            &Tensor::from([-1.0_f32, 0.5]),
            Quantization::per_tensor(0.5, 0).unwrap(),
        )
        .unwrap()
    };
    let held = DynTensor::from_quantized(integers()).unwrap().with_backend_data(integers()).unwrap();
    assert_eq!(
        held.as_quantized::<QInt8, 1, Cpu>().unwrap().dequantize().unwrap().to_vec().unwrap(),
        [-1.0, 0.5]
    );
    let posing = DynTensor::from(Tensor::from([1_i8])).with_backend_data(integers()).unwrap();
    assert!(posing.as_quantized::<QInt8, 1, Cpu>().is_err());
}

#[test]
fn names_are_read_and_promotion_is_the_array_apis() {
    for (names, dtype) in [
        (["float32", "float", "f32", "Float"], DType::F32),
        (["complex64", "cfloat", "Complex<f32>", "ComplexFloat"], DType::C32),
    ] {
        for name in names {
            assert_eq!(name.parse::<DType>().unwrap(), dtype);
        }
    }
    for &dtype in DType::ALL {
        assert_eq!(
            (dtype.name().parse::<DType>().unwrap(), DType::of_storage(dtype.storage_name()).unwrap()),
            (dtype, dtype)
        );
        assert!(dtype.legacy_name().is_none_or(|name| name.parse() == Ok(dtype)));
        assert_eq!(dtype.is_quantized(), dtype.kind() == Kind::Quantized);
    }
    use DType::*;
    // The Array API's table, by rows: integers, then floats and complex numbers.
    let whole = [I8, I16, I32, I64, U8, U16, U32, U64];
    let table = "
        I8  I16 I32 I64 I16 I32 I64 -
        I16 I16 I32 I64 I16 I32 I64 -
        I32 I32 I32 I64 I32 I32 I64 -
        I64 I64 I64 I64 I64 I64 I64 -
        I16 I16 I32 I64 U8  U16 U32 U64
        I32 I32 I32 I64 U16 U16 U32 U64
        I64 I64 I64 I64 U32 U32 U32 U64
        -   -   -   -   U64 U64 U64 U64";
    check(&whole, table);
    check(&[F32, F64, C32, C64], "F32 F64 C32 C64  F64 F64 C64 C64  C32 C64 C32 C64  C64 C64 C64 C64");
    // As PyTorch, where the standard leaves kinds apart.
    check(
        &[Bool, I64, F16, BF16, C16],
        "Bool I64 F16 BF16 C16  I64 I64 F16 BF16 C16  F16 F16 F16 F32 C16  BF16 BF16 F32 BF16 C32  C16 C16 \
         C16 C32 C16",
    );
    fn check(types: &[DType], table: &str) {
        for (at, wanted) in table.split_whitespace().enumerate() {
            let (left, right) = (types[at / types.len()], types[at % types.len()]);
            assert_eq!(
                left.promote(right).map_or("-".into(), |dtype| format!("{dtype:?}")),
                wanted,
                "{left} {right}"
            );
        }
    }
    assert_eq!(QI8.promote(F32).unwrap_err().to_string(), "promote: no element type holds both qi8 and f32");
    assert!(F8E4M3.promote(F16).is_err() && F8E4M3.promote(I8) == Ok(F8E4M3));
    for (dtype, number, wanted) in [
        (U8, Wrapped::Integer, U8),
        (Bool, Wrapped::Integer, I64),
        (I32, Wrapped::Real, F32),
        (F16, Wrapped::Real, F16),
        (F16, Wrapped::Complex, C16),
        (BF16, Wrapped::Complex, C32),
        (F64, Wrapped::Complex, C64),
        (I8, Wrapped::Complex, C32),
        (C32, Wrapped::Real, C32),
        (F32, Wrapped::Bool, F32),
    ] {
        assert_eq!(dtype.with_number(number), Ok(wanted), "{dtype} {number:?}");
    }
}
