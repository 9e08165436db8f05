//! Matrices that were packed before their products: the bits of the plain product, and the matrix back.

use crate::value::{Random, Value};
use num_complex::Complex;
use rankform::WideningMul;
use rankform::ops::Packed;
use rankform::prelude::*;
use rankform::{bf16, f16};

/// Sizes for each strategy of products: tiny, vectors, unpacked, read once, packed, by several blocks.
const SIZES: &[[usize; 3]] = &[
    [1, 1, 1],
    [3, 5, 7],
    [1, 40, 1],
    [5, 40, 1],
    [1, 40, 77],
    [1, 700, 100],
    [2, 17, 16],
    [7, 64, 48],
    [8, 600, 70],
    [24, 1100, 33],
    [30, 600, 70],
    [33, 200, 40],
    [250, 90, 50],
    [70, 600, 90],
    [2, 33, 0],
    [0, 33, 4],
    [2, 0, 4],
];

fn bytes<T: Element>(x: &Tensor<T, 2>) -> Vec<u8> {
    rankform::DynTensor::from(x.share_data()).to_bytes().unwrap()
}

/// Panels, where smaller ones are the library's on the CPU.
const LARGE: &[[usize; 3]] = if cfg!(rankform_through_cuda) { &[] } else { &[[257, 890, 900]] };

fn check<T: Value + Number, U: Number>(
    sizes: &[[usize; 3]],
    plain: impl Fn(TensorView<T, 2>, TensorView<T, 2>) -> Tensor<U, 2>,
    pack: impl Fn(TensorView<T, 2>) -> Packed<T, Cpu, U>,
) {
    let mut random = Random(7);
    let mut blocked = 0;
    for &[m, k, n] in sizes {
        let what = format!("{} to {}: [{m}, {k}] · [{k}, {n}]", T::DTYPE, U::DTYPE);
        let mut of = |size: [usize; 2]| {
            let elements = (0..size[0] * size[1]).map(|_| T::moderate(&mut random)).collect();
            Tensor::from_vec(elements, size).unwrap()
        };
        let (x, y) = (of([m, k]), of([k, n]));
        let (x_turned, y_turned) =
            (x.transposed().to_contiguous().unwrap(), y.transposed().to_contiguous().unwrap());
        let lefts = [x.view(), x_turned.transposed()].map(|left| (left, bytes(&plain(left, y.view()))));
        for matrix in [y.view(), y_turned.transposed()] {
            let packed = pack(matrix);
            blocked += usize::from(packed.is_blocked());
            assert_eq!(packed.size(), dim![k, n], "{what}");
            for (left, expected) in &lefts {
                assert_eq!(&bytes(&left.matmul_packed(&packed).unwrap()), expected, "{what}");
            }
            assert_eq!(bytes(&packed.unpack().unwrap()), bytes(&y), "{what}");
        }
    }
    let complex = T::DTYPE.is_complex();
    assert!(
        blocked > 0 || complex || cfg!(not(target_arch = "x86_64")) || cfg!(rankform_through_cuda),
        "{} is never packed",
        T::DTYPE
    );
}

fn narrow<T: Value + Number>() {
    check::<T, T>(SIZES, |x, y| x.matmul(y).unwrap(), |y| y.pack().unwrap());
}

fn wide<T: Value + Number + WideningMul<T>>() {
    check::<T, T::Wide>(SIZES, |x, y| x.matmul_wide(y).unwrap(), |y| y.pack_wide().unwrap());
}

#[test]
fn a_product_by_a_packed_matrix_has_the_bits_of_the_plain_product() {
    narrow::<f32>();
    narrow::<f64>();
    check::<f32, f32>(LARGE, |x, y| x.matmul(y).unwrap(), |y| y.pack().unwrap());
    check::<f64, f64>(LARGE, |x, y| x.matmul(y).unwrap(), |y| y.pack().unwrap());
    narrow::<f16>();
    narrow::<bf16>();
    narrow::<i8>();
    narrow::<u8>();
    narrow::<i16>();
    narrow::<u16>();
    narrow::<i32>();
    narrow::<u32>();
    narrow::<i64>();
    narrow::<u64>();
    narrow::<Complex<f32>>();
    narrow::<Complex<f64>>();
}

#[test]
fn a_wide_product_by_a_packed_matrix_has_the_bits_of_the_plain_product() {
    wide::<f32>();
    wide::<f16>();
    wide::<bf16>();
    wide::<i8>();
    wide::<u8>();
    wide::<i16>();
    wide::<u16>();
    wide::<i32>();
    wide::<u32>();
}

#[test]
fn a_packed_matrix_takes_any_number_of_axes_and_reports_a_mismatch() {
    let matrix = Tensor::from_vec((0..12).map(f64::from).collect(), [3, 4]).unwrap();
    let packed = matrix.pack().unwrap();
    let x = Tensor::from_vec((0..60).map(f64::from).collect(), [2, 5, 2, 3]).unwrap();
    let turned = x.permuted([1, 2, 0, 3]).unwrap();
    let wanted = turned.to_contiguous().unwrap().into_shape([20, 3]).unwrap().matmul(&matrix).unwrap();
    assert_eq!(turned.matmul_packed(&packed).unwrap(), wanted.into_shape([5, 2, 2, 4]).unwrap());
    assert_eq!(
        Tensor::from([1.0, 0.0, 2.0]).matmul_packed(&packed).unwrap().to_vec().unwrap(),
        [16.0, 19.0, 22.0, 25.0]
    );
    let error = |result: Result<Tensor<f64, 2>>| result.unwrap_err().to_string();
    assert_eq!(
        error(matrix.matmul_packed(&packed)),
        "matmul_packed: inner sizes 4 and 3 differ: [3, 4] · [3, 4]"
    );
    let scalar = Tensor::<f64, 0>::zeros([], &Cpu).unwrap();
    assert_eq!(
        scalar.matmul_packed(&packed).unwrap_err().to_string(),
        "matmul_packed: an operand of rank 0, not 1 to 9"
    );
    let empty = Tensor::<f64, 2>::empty([3, 4], &Cpu).unwrap();
    assert!(matches!(empty.pack(), Err(Error::Unallocated { .. })));
    let words = format!("{packed:?}");
    assert!(
        words.starts_with("Packed f64 [3, 4] for sums in f64, ") && words.ends_with(" bytes on Cpu"),
        "{words}"
    );
    // One column is read in place; a device that is chosen at run time packs as the device does.
    let column = matrix.slice((.., 1..2)).unwrap().pack().unwrap();
    assert!(!column.is_blocked() && matrix.transposed().matmul_packed(&column).unwrap().size() == dim![4, 1]);
    let any = matrix.to(&rankform::AnyDevice::from(Cpu)).unwrap().pack().unwrap();
    assert_eq!((any.is_blocked(), any.nbytes()), (packed.is_blocked(), packed.nbytes()));
    assert_eq!(any.unpack().unwrap().to_vec().unwrap(), matrix.to_vec().unwrap());
    // Sizes without data, where rows serve.
    let meta = Tensor::<f32, 2, Meta>::zeros([1 << 20, 1 << 20], &Meta::new()).unwrap().pack().unwrap();
    assert!(!meta.is_blocked() && meta.unpack().unwrap().size() == dim![1 << 20, 1 << 20]);
    assert_eq!(
        Tensor::<f32, 3, Meta>::zeros([2, 3, 1 << 20], &Meta::new())
            .unwrap()
            .matmul_packed(&meta)
            .unwrap()
            .size(),
        dim![2, 3, 1 << 20]
    );
}

#[test]
fn every_byte_and_every_16_bit_float_comes_back_from_panels() {
    let bytes_of = Tensor::from_vec((0..=255).map(|x: u8| x as i8).collect(), [8, 32]).unwrap();
    assert_eq!(bytes_of.pack_wide().unwrap().unpack().unwrap(), bytes_of);
    let halves =
        Tensor::from_vec((0..=u16::MAX).map(f16::from_bits).filter(|x| !x.is_nan()).collect(), [6349, 10])
            .unwrap();
    assert_eq!(bytes(&halves.pack().unwrap().unpack().unwrap()), bytes(&halves));
    let nans =
        Tensor::from_vec((0..=u16::MAX).map(f16::from_bits).filter(|x| x.is_nan()).collect(), [93, 22])
            .unwrap();
    assert!(nans.pack().unwrap().unpack().unwrap().to_vec().unwrap().iter().all(|x| x.is_nan()));
    let brains = Tensor::from_vec((0..=u16::MAX).map(bf16::from_bits).collect(), [256, 256]).unwrap();
    assert_eq!(bytes(&brains.pack().unwrap().unpack().unwrap()), bytes(&brains));
}
