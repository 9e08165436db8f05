//! PyTorch's registries: element types, layouts, memory formats, quantization schemes, tensor types.

use num_complex::Complex;
use rankform::prelude::*;
use rankform::quantized::{QuantScheme, Quantization};
use rankform::torch_types::{HasTensorType, Location, StorageLayout, TensorType, types};
use rankform::{DType, DynTensor, QInt8, QInt32, QUInt8, QuantizedTensor, SparseTensor};
use rankform::{bf16, f16};

#[test]
fn the_sixteen_element_types_have_their_names_and_legacy_names() {
    fn row<T: Element>(name: &str, legacy: Option<&str>, storage: &str) {
        assert_eq!(
            (T::DTYPE.name(), T::DTYPE.legacy_name(), T::DTYPE.storage_name()),
            (name, legacy, storage)
        );
        assert_eq!((name.parse(), DType::of_storage(storage)), (Ok(T::DTYPE), Ok(T::DTYPE)));
        assert!(legacy.is_none_or(|legacy| legacy.parse() == Ok(T::DTYPE)));
        let x = Tensor::<T, 1>::zeros([3], &Cpu).unwrap();
        assert_eq!((DynTensor::from(x).dtype().size(), size_of::<T>()), (size_of::<T>(), T::DTYPE.size()));
    }
    row::<u8>("uint8", None, "ByteStorage");
    row::<i8>("int8", None, "CharStorage");
    row::<i16>("int16", Some("short"), "ShortStorage");
    row::<i32>("int32", Some("int"), "IntStorage");
    row::<i64>("int64", Some("long"), "LongStorage");
    row::<f16>("float16", Some("half"), "HalfStorage");
    row::<f32>("float32", Some("float"), "FloatStorage");
    row::<f64>("float64", Some("double"), "DoubleStorage");
    row::<Complex<f16>>("complex32", Some("chalf"), "ComplexHalfStorage");
    row::<Complex<f32>>("complex64", Some("cfloat"), "ComplexFloatStorage");
    row::<Complex<f64>>("complex128", Some("cdouble"), "ComplexDoubleStorage");
    row::<bool>("bool", None, "BoolStorage");
    row::<QInt8>("qint8", None, "QInt8Storage");
    row::<QUInt8>("quint8", None, "QUInt8Storage");
    row::<QInt32>("qint32", None, "QInt32Storage");
    row::<bf16>("bfloat16", None, "BFloat16Storage");
}

#[test]
fn complex_halves_are_computed_in_f32_and_rounded_once() {
    let of = |re: f32, im: f32| Complex::new(f16::from_f32(re), f16::from_f32(im));
    let (x, y) =
        (Tensor::from([of(1.0, 2.0), of(100.0, -3.0)]), Tensor::from([of(0.5, -1.0), of(700.0, 1.0)]));
    assert_eq!(
        x.mul(&y).unwrap().to_vec().unwrap(),
        [of(2.5, 0.0), Complex::new(f16::INFINITY, f16::from_f32(-2000.0))]
    );
    let wide = x.cast::<Complex<f64>>().unwrap();
    assert_eq!(wide.cast::<Complex<f16>>().unwrap(), x);
    assert_eq!(x.re().unwrap().to_vec().unwrap(), [f16::from_f32(1.0), f16::from_f32(100.0)]);
    assert_eq!(x.to_string(), "[  1.+2.j 100.-3.j]");
    let z = x.insert_axis(Axis::<0>).matmul(y.insert_axis(Axis::<1>)).unwrap();
    assert_eq!(z.size(), dim![1, 1]);
}

#[test]
fn the_layouts_are_strided_and_sparse() {
    let dense = Tensor::from([[0, 2, 0], [0, 0, 0], [5, 0, 7]]);
    let sparse = SparseTensor::from_dense(&dense).unwrap();
    assert_eq!(sparse.indices(), &Tensor::from([[0_i64, 2, 2], [1, 0, 2]]));
    assert_eq!(
        (sparse.values().to_vec().unwrap(), sparse.kept(), sparse.is_coalesced()),
        (vec![2, 5, 7], 3, true)
    );
    assert_eq!(sparse.to_dense().unwrap(), dense);
    assert_eq!(sparse.transposed().unwrap().to_dense().unwrap(), dense.transposed().to_contiguous().unwrap());
    // Two elements at one index are their sum.
    let twice =
        SparseTensor::new(Tensor::from([[2, 0, 2, 2], [2, 0, 2, 1]]), Tensor::from([1, 2, 3, 4]), [3, 3])
            .unwrap();
    assert!(!twice.is_coalesced());
    let once = twice.coalesce().unwrap();
    assert_eq!(
        (once.values().to_vec().unwrap(), once.indices()),
        (vec![2, 4, 4], &Tensor::from([[0_i64, 2, 2], [0, 1, 2]]))
    );
    assert_eq!(once.to_dense().unwrap(), twice.to_dense().unwrap());
    let sum = sparse.add(&twice).unwrap();
    assert_eq!(sum.to_dense().unwrap(), dense.add(&twice.to_dense().unwrap()).unwrap());
    let factors = Tensor::from_vec((1..10).collect(), [3, 3]).unwrap();
    assert_eq!(sparse.mul(&factors).unwrap().to_dense().unwrap(), dense.mul(&factors).unwrap());
    let right = Tensor::from_vec((0..12).collect(), [3, 4]).unwrap();
    assert_eq!(sparse.matmul(&right).unwrap(), dense.matmul(&right).unwrap());
    assert_eq!(twice.matmul(&right).unwrap(), twice.to_dense().unwrap().matmul(&right).unwrap());
    let rows = twice.rows().unwrap();
    assert_eq!(
        (rows.starts.to_vec().unwrap(), rows.columns.to_vec().unwrap(), rows.values.to_vec().unwrap()),
        (vec![0, 1, 1, 3], vec![0, 1, 2], vec![2, 4, 4])
    );
    // Of any rank, empty too, more than one part of a product.
    let cube =
        Tensor::from_vec((0..60).map(|i| if i % 7 == 0 { i as f32 } else { 0.0 }).collect(), [3, 4, 5])
            .unwrap();
    assert_eq!(
        SparseTensor::from_dense(&cube)
            .unwrap()
            .permuted([2, 0, 1])
            .unwrap()
            .coalesce()
            .unwrap()
            .to_dense()
            .unwrap(),
        cube.permuted([2, 0, 1]).unwrap().to_contiguous().unwrap()
    );
    let none = SparseTensor::from_dense(&Tensor::<f32, 2>::zeros([0, 3], &Cpu).unwrap()).unwrap();
    assert_eq!(
        (none.kept(), none.matmul(&Tensor::zeros([3, 2], &Cpu).unwrap()).unwrap().size()),
        (0, dim![0, 2])
    );
    let large = Tensor::from_vec((0..90_000).map(|i| f64::from(i % 3)).collect(), [300, 300]).unwrap();
    assert_eq!(
        SparseTensor::from_dense(&large).unwrap().matmul(&large).unwrap(),
        large.matmul(&large).unwrap()
    );
    // A type that does not fit is refused.
    let error = SparseTensor::new(Tensor::from([[0, 3], [0, 1]]), Tensor::from([1, 2]), [3, 3])
        .map(drop)
        .unwrap_err();
    assert_eq!(error.to_string(), "sparse: index [3, 1] is outside sizes [3, 3]");
    assert!(SparseTensor::new(Tensor::from([[-1_i64]]), Tensor::from([1]), [3]).is_err());
    assert!(SparseTensor::new(Tensor::from([[0_i64]]), Tensor::from([1, 2]), [3]).is_err());
    assert!(SparseTensor::new(Tensor::from([[0_i64], [0]]), Tensor::from([1]), [usize::MAX, 2]).is_err());
    assert!(
        sparse.matmul(&Tensor::zeros([2, 2], &Cpu).unwrap()).is_err() && sparse.permuted([0, 0]).is_err()
    );
}

#[test]
fn the_memory_formats_are_preserve_contiguous_and_channels_last() {
    let x = Tensor::<f32, 4>::zeros([2, 3, 4, 5], &Cpu).unwrap();
    let last = x.to_channels_last().unwrap();
    assert!(last.is_channels_last() && !last.is_contiguous() && x.is_contiguous());
    assert_eq!(last.to_format(MemoryFormat::Preserve).unwrap().stride(), last.stride());
    assert_eq!(last.to_format(MemoryFormat::Contiguous).unwrap().stride(), x.stride());
}

#[test]
fn the_five_quantization_schemes_are_there() {
    let x = Tensor::from([[1.0_f32, -2.0], [0.5, 4.0]]);
    let schemes = [
        (Quantization::per_tensor(0.5, 3), QuantScheme::PerTensorAffine, [5, -1, 4, 11]),
        (Quantization::per_tensor_symmetric(0.5), QuantScheme::PerTensorSymmetric, [2, -4, 1, 8]),
        (Quantization::per_channel(1, &[0.5, 2.0], &[0, 7]), QuantScheme::PerChannelAffine, [2, 6, 1, 9]),
        (
            Quantization::per_channel_symmetric(0, &[0.5, 0.25]),
            QuantScheme::PerChannelSymmetric,
            [2, -4, 2, 16],
        ),
        (
            Quantization::per_channel_float(0, &[0.5, 0.25], &[0.6, 0.0]),
            QuantScheme::PerChannelAffineFloat,
            [3, -3, 2, 16],
        ),
    ];
    for (quantization, scheme, stored) in schemes {
        let q = QuantizedTensor::<QInt8, 2>::quantize(&x, quantization.unwrap()).unwrap();
        assert_eq!((q.quantization().scheme(), q.int_repr().to_vec().unwrap()), (scheme, stored.to_vec()));
    }
}

#[test]
fn the_thirty_eight_tensor_types_have_their_names() {
    let elements = ["Byte", "Char", "Double", "Float", "Int", "Long", "Short", "Half", "Bool", "BFloat16"];
    let mut names = Vec::new();
    for module in ["", "sparse.", "cuda.", "cuda.sparse."] {
        for element in elements.iter().filter(|&&element| !(module.contains("sparse") && element == "Bool")) {
            names.push(format!("{module}{element}Tensor"));
        }
    }
    assert_eq!(names, TensorType::all().map(|kind| kind.to_string()).collect::<Vec<_>>());
    assert_eq!(names.len(), 38);
    for (name, kind) in names.iter().zip(TensorType::all()) {
        assert_eq!((name.parse(), format!("torch.{name}").parse()), (Ok(kind), Ok(kind)));
        assert_eq!(TensorType::new(kind.location(), kind.storage_layout(), kind.dtype()), Ok(kind));
    }
    let error = "sparse.BoolTensor".parse::<TensorType>().unwrap_err();
    assert_eq!(error.to_string(), "TensorType: \"sparse.BoolTensor\" is not the name of a tensor type");
    assert!(
        TensorType::new(Location::Host, StorageLayout::Sparse, DType::Bool).is_err()
            && TensorType::new(Location::Host, StorageLayout::Strided, DType::C32).is_err()
    );
}

#[test]
fn a_tensor_is_an_instance_of_its_type_and_each_type_has_a_rust_type() {
    fn check<X: HasTensorType>(x: &X, name: &str) {
        let own: TensorType = name.parse().unwrap();
        TensorType::all().for_each(|kind| assert_eq!(kind.is_instance(x), kind == own, "{kind} {name}"));
    }
    let float: types::FloatTensor<2> = Tensor::from([[1.0]]);
    check(&float, "FloatTensor");
    check(&DynTensor::from(float), "FloatTensor");
    check::<types::BoolTensor<1>>(&Tensor::from([true]), "BoolTensor");
    check::<types::BFloat16Tensor<0>>(&Tensor::zeros([], &Cpu).unwrap(), "BFloat16Tensor");
    let sparse: types::sparse::LongTensor<2> = SparseTensor::from_dense(&Tensor::from([[1_i64]])).unwrap();
    check(&sparse, "sparse.LongTensor");
    let complex = DynTensor::zeros(DType::C32, &[1], &Cpu).unwrap();
    assert!(complex.tensor_type().is_none() && TensorType::all().all(|kind| !kind.is_instance(&complex)));
    for kind in TensorType::all()
        .filter(|kind| (kind.location(), kind.storage_layout()) == (Location::Host, StorageLayout::Strided))
    {
        let zeros = kind.zeros(&[2, 3]).unwrap();
        assert!(kind.is_instance(&zeros) && zeros.size() == [2, 3]);
    }
    assert!("sparse.IntTensor".parse::<TensorType>().unwrap().zeros(&[1]).is_err());
}

#[test]
fn the_default_tensor_type_is_set_and_restored_for_each_thread() {
    let of = |name: &str| name.parse::<TensorType>().unwrap();
    assert_eq!(TensorType::default_type(), of("FloatTensor"));
    let outer = of("DoubleTensor").set_default().unwrap();
    {
        let _inner = of("HalfTensor").set_default().unwrap();
        assert_eq!(TensorType::default_type(), of("HalfTensor"));
        std::thread::spawn(move || assert_eq!(TensorType::default_type().to_string(), "FloatTensor"))
            .join()
            .unwrap();
    }
    assert_eq!(TensorType::default_type(), of("DoubleTensor"));
    drop(outer);
    assert_eq!(TensorType::default_type(), of("FloatTensor"));
    assert!(of("LongTensor").set_default().is_err() && of("sparse.FloatTensor").set_default().is_err());
}

#[test]
fn fresh_elements_of_every_kind_print_and_move() {
    for &dtype in DType::ALL {
        let x = DynTensor::zeros(dtype, &[2, 2], &Cpu).unwrap();
        assert!(x.to_string().starts_with("[["), "{dtype}");
        assert_eq!(x.transposed(0, 1).unwrap().copy().unwrap().to_bytes().unwrap(), x.to_bytes().unwrap());
    }
}

#[test]
fn the_opaque_layout_is_blocked_and_read_by_its_own_kernels_alone() {
    let weights = Tensor::from_vec((0..40 * 50).map(|i| (i % 17) as f32 - 8.0).collect(), [40, 50]).unwrap();
    let packed = weights.pack().unwrap();
    assert_eq!(packed.size(), dim![40, 50]);
    let x = Tensor::from_vec((0..3 * 40).map(|i| (i % 5) as f32).collect(), [3, 40]).unwrap();
    assert_eq!(x.matmul_packed(&packed).unwrap(), x.matmul(&weights).unwrap());
    assert_eq!(packed.unpack().unwrap(), weights);
    // By type nothing else reads it: it is no operand, and no index leads to an element.
    let words = format!("{packed:?}");
    assert!(words.starts_with("Packed f32 [40, 50] for sums in f32, "), "{words}");
    if packed.is_blocked() {
        assert!(words.contains("blocked") && packed.nbytes() >= 40 * 50 * 4);
    }
    let bytes = weights.cast::<i8>().unwrap();
    let wide: Tensor<i32, 2> = x.cast::<i8>().unwrap().matmul_packed(&bytes.pack_wide().unwrap()).unwrap();
    assert_eq!(wide.cast::<f32>().unwrap(), x.matmul(&weights).unwrap());
}
