//! Tensors of other libraries: every layout both ways, at the same address where no copy is needed.

#[cfg(any(
    feature = "ndarray",
    feature = "nalgebra",
    feature = "faer",
    feature = "image",
    feature = "serde",
    feature = "shared-memory"
))]
use rankform::prelude::*;

/// A matrix under every layout that a view can have.
#[cfg(any(feature = "ndarray", feature = "nalgebra", feature = "faer", feature = "serde"))]
fn each_view(check: impl Fn(TensorView<'_, f64, 2>)) {
    let x = Tensor::from_fn([3, 4], |[i, j]| (10 * i + j) as f64, &Cpu).unwrap();
    let row = Tensor::from([[1.0, 2.0]]);
    check(x.view());
    check(x.transposed());
    check(x.slice(((..).step(2), 1..3)).unwrap());
    check(x.slice(((..).step(-1), (..).step(-3))).unwrap());
    check(x.slice((1..1, ..)).unwrap());
    check(x.slice((.., 4..4)).unwrap());
    check(x.slice((2..3, (..).step(-1))).unwrap());
    check(row.broadcast_to([5, 2]).unwrap());
}

#[cfg(feature = "nalgebra")]
fn has_negative(x: &TensorView<'_, f64, 2>) -> bool {
    (0..2).any(|axis| x.stride()[axis] < 0 && x.size()[axis] > 1)
}

#[cfg(feature = "ndarray")]
mod nd {
    use super::*;
    use ndarray::{Array3, ShapeBuilder, s};
    use rankform::interop::ndarray as nd;

    #[test]
    fn views_of_every_layout_go_both_ways_at_one_address() {
        each_view(|x| {
            let array = nd::array_view(x).unwrap();
            assert_eq!(array.shape(), x.size().0);
            assert!(x.is_empty() || array.as_ptr() == x.raw_ptr());
            assert!(array.indexed_iter().all(|((i, j), value)| *value == x[[i, j]]));
            assert_eq!(nd::view(array).unwrap(), x);
            assert_eq!(nd::view(array.slice(s![..;-1, ..])).unwrap(), x.reversed_axis(0).unwrap());
        });
    }

    #[test]
    fn arrays_become_tensors_in_their_memory_and_back() {
        let array = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| 100 * i + 10 * j + k);
        let address = array.as_ptr();
        let x = nd::tensor(array.clone()).unwrap();
        assert_eq!(x[[1, 2, 3]], 123);
        assert_eq!(nd::array(x).unwrap(), array);
        assert_eq!(nd::tensor(array).unwrap().raw_ptr(), address);
        let turned = Array3::from_shape_fn((2, 3, 4).f(), |(i, j, k)| 100 * i + 10 * j + k);
        assert_eq!(nd::tensor(turned).unwrap()[[1, 2, 3]], 123);
        let part =
            Array3::from_shape_fn((4, 3, 2), |(i, j, k)| 100 * i + 10 * j + k).slice_move(s![2.., .., ..]);
        assert_eq!(nd::tensor(part).unwrap().into_vec().unwrap()[..3], [200, 201, 210]);
        let back =
            Array3::from_shape_fn((4, 3, 2), |(i, j, k)| 100 * i + 10 * j + k).slice_move(s![..;-1, .., ..]);
        assert_eq!(nd::tensor(back).unwrap().into_vec().unwrap()[..3], [300, 301, 310]);
        let names = ndarray::arr1(&["a".to_string(), "b".into()]);
        assert_eq!(nd::array(nd::tensor(names.clone()).unwrap()).unwrap(), names);
    }

    #[test]
    fn a_write_on_one_side_is_seen_on_the_other() {
        let mut x = Tensor::<i32, 2>::zeros([2, 3], &Cpu).unwrap();
        nd::array_view_mut(x.view_mut().unwrap().slice((.., (..).step(-1))).unwrap()).unwrap()[[1, 0]] = 5;
        assert_eq!(x[[1, 2]], 5);
        let mut array = ndarray::Array2::<i32>::zeros((2, 3));
        nd::view_mut(array.slice_mut(s![..;-1, 1..])).unwrap()[[0, 0]] = 7;
        assert_eq!(array[[1, 1]], 7);
    }
}

#[cfg(feature = "nalgebra")]
mod na {
    use super::*;
    use rankform::interop::nalgebra as na;

    #[test]
    fn views_of_every_layout_without_negative_strides_go_both_ways_at_one_address() {
        each_view(|x| {
            let matrix = na::matrix_view(x);
            if has_negative(&x) {
                return assert!(matches!(matrix, Err(Error::NeedsCopy { .. })));
            }
            let matrix = matrix.unwrap();
            assert_eq!([matrix.nrows(), matrix.ncols()], x.size().0);
            assert!((0..matrix.nrows()).all(|i| (0..matrix.ncols()).all(|j| matrix[(i, j)] == x[[i, j]])));
            assert_eq!(na::view(matrix).unwrap(), x);
        });
    }

    #[test]
    fn matrices_become_tensors_in_their_memory_and_back() {
        let matrix = nalgebra::DMatrix::from_row_slice(2, 3, &[1, 2, 3, 4, 5, 6]);
        let address = matrix.as_ptr();
        let x = na::tensor(matrix.clone()).unwrap();
        assert_eq!(x, Tensor::from([[1, 2, 3], [4, 5, 6]]));
        assert_eq!(na::matrix(x).unwrap(), matrix);
        assert_eq!(na::matrix(Tensor::from([[1, 2, 3], [4, 5, 6]])).unwrap(), matrix);
        let back = na::matrix(na::tensor(matrix).unwrap()).unwrap();
        assert_eq!(back.as_ptr(), address);
    }

    #[test]
    fn a_write_on_one_side_is_seen_on_the_other() {
        let mut x = Tensor::<f32, 2>::zeros([2, 3], &Cpu).unwrap();
        na::matrix_view_mut(x.view_mut().unwrap()).unwrap()[(1, 2)] = 5.0;
        assert_eq!(x[[1, 2]], 5.0);
        let mut matrix = nalgebra::DMatrix::<f32>::zeros(2, 3);
        na::view_mut(matrix.as_view_mut()).unwrap()[[1, 2]] = 7.0;
        assert_eq!(matrix[(1, 2)], 7.0);
    }
}

#[cfg(feature = "faer")]
mod fa {
    use super::*;
    use rankform::interop::faer as fa;

    #[test]
    fn views_of_every_layout_go_both_ways_at_one_address() {
        each_view(|x| {
            let matrix = fa::mat_ref(x).unwrap();
            assert_eq!([matrix.nrows(), matrix.ncols()], x.size().0);
            assert!((0..matrix.nrows()).all(|i| (0..matrix.ncols()).all(|j| matrix[(i, j)] == x[[i, j]])));
            assert_eq!(fa::view(matrix).unwrap(), x);
            assert_eq!(fa::view(matrix.reverse_rows()).unwrap(), x.reversed_axis(0).unwrap());
        });
    }

    #[test]
    fn a_write_on_one_side_is_seen_on_the_other() {
        let mut x = Tensor::<f64, 2>::zeros([2, 3], &Cpu).unwrap();
        fa::mat_mut(x.view_mut().unwrap().slice((.., (..).step(-1))).unwrap()).unwrap()[(1, 0)] = 5.0;
        assert_eq!(x[[1, 2]], 5.0);
        let mut matrix = faer::Mat::<f64>::zeros(2, 3);
        fa::view_mut(matrix.as_mut()).unwrap()[[1, 2]] = 7.0;
        assert_eq!(matrix[(1, 2)], 7.0);
    }
}

#[cfg(feature = "image")]
#[test]
fn pictures_are_tensors_of_rows_columns_and_channels() {
    use rankform::interop::image as im;
    let picture = image::RgbaImage::from_fn(5, 3, |x, y| image::Rgba([x as u8, y as u8, 7, 255]));
    let address = picture.as_raw().as_ptr();
    assert_eq!(im::view(&picture).unwrap()[[2, 4, 1]], 2);
    let x = im::tensor(picture.clone()).unwrap();
    assert_eq!((x.size(), x[[2, 4, 0]], x[[2, 4, 1]]), (dim![3, 5, 4], 4, 2));
    assert_eq!(im::picture::<image::Rgba<u8>>(x).unwrap(), picture);
    let back: image::RgbaImage = im::picture(im::tensor(picture).unwrap()).unwrap();
    assert_eq!(back.as_raw().as_ptr(), address);
    let gray = im::picture::<image::Luma<f32>>(Tensor::<f32, 3>::zeros([2, 3, 3], &Cpu).unwrap());
    assert!(gray.unwrap_err().to_string().contains("[2, 3, 3] are no picture of 1 channels"));
}

#[cfg(feature = "serde")]
#[test]
fn tensors_are_serialized_by_their_elements_and_mismatches_are_refused() {
    each_view(|x| {
        let text = serde_json::to_string(&x).unwrap();
        assert_eq!(serde_json::from_str::<Tensor<f64, 2>>(&text).unwrap(), x);
    });
    let halves = Tensor::from([rankform::f16::ONE, rankform::f16::MAX]);
    let text = serde_json::to_string(&halves).unwrap();
    assert_eq!(text, r#"{"size":[2],"data":[1.0,65504.0]}"#);
    assert_eq!(serde_json::from_str::<Tensor<rankform::f16, 1>>(&text).unwrap(), halves);
    assert_eq!(serde_json::from_str::<rankform::bf16>("7").unwrap(), rankform::bf16::from_f32(7.0));
    let scalar: Tensor<f64, 0> = serde_json::from_str(r#"{"data":[1.5],"size":[],"more":null}"#).unwrap();
    assert_eq!(scalar.item().unwrap(), 1.5);
    assert_eq!(
        serde_json::from_str::<Tensor<u8, 1>>("[[2],[3,4]]").unwrap(),
        Tensor::from([3, 4]),
        "as formats without names write it"
    );
    for (text, words) in [
        (r#"{"size":[2],"data":[1,2,3]}"#, "[2] holds 2 elements, found 3"),
        (r#"{"size":[4],"data":[1,2,3]}"#, "[4] holds 4 elements, found 3"),
        (r#"{"size":[18446744073709551615],"data":[]}"#, "more than isize::MAX"),
        (r#"{"size":[3,1],"data":[1,2,3]}"#, "2 sizes, expected 1"),
        (r#"{"size":[3],"size":[3],"data":[1,2,3]}"#, "duplicate field `size`"),
        (r#"{"size":[3]}"#, "missing field `data`"),
        (r#"{"size":[-1],"data":[]}"#, "invalid value"),
        (r#"{"size":[1],"data":[300]}"#, "invalid value"),
        ("3", "a tensor with 1 axes"),
    ] {
        let error = serde_json::from_str::<Tensor<u8, 1>>(text).unwrap_err();
        assert!(error.to_string().contains(words), "{error}: without {words:?}");
    }
    let names = Tensor::from_vec(vec!["a".to_string()], [1]).unwrap();
    let back: Tensor<String, 1> = serde_json::from_str(&serde_json::to_string(&names).unwrap()).unwrap();
    assert_eq!(back.into_vec().unwrap(), ["a"]);
}

#[cfg(all(feature = "shared-memory", target_os = "linux"))]
mod shared {
    use super::*;
    use rankform::interop::shared_memory::SharedMemory;
    use std::os::fd::AsFd;
    use std::process::Command;

    const NAME: &str = "RANKFORM_SHARED_MEMORY";

    #[test]
    fn memory_is_handed_to_another_process_by_name_and_back() {
        if let Ok(name) = std::env::var(NAME) {
            let memory = SharedMemory::open(&name).unwrap();
            // SAFETY: the parent waits for this process, and has no tensor meanwhile.
            let mut x: Tensor<f64, 2> = unsafe { memory.into_tensor([2, 3]) }.unwrap();
            assert_eq!(x.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            x *= 2.0;
            return;
        }
        let name = format!("/rankform-test-{}", std::process::id());
        let memory = SharedMemory::create(&name, 48).unwrap();
        let second = SharedMemory::open(&name).unwrap();
        assert!(matches!(
            SharedMemory::create(&name, 48),
            Err(Error::Io { kind: std::io::ErrorKind::AlreadyExists, .. })
        ));
        // SAFETY: no other process knows it yet.
        let mut x: Tensor<f64, 2> = unsafe { memory.into_tensor([2, 3]) }.unwrap();
        x.data_mut().unwrap().copy_from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        drop(x);
        let program = std::env::current_exe().unwrap();
        let test = "interop::shared::memory_is_handed_to_another_process_by_name_and_back";
        let child = Command::new(program).args(["--exact", test]).env(NAME, &name).output().unwrap();
        SharedMemory::unlink(&name).unwrap();
        assert!(child.status.success(), "{child:?}");
        // SAFETY: the other process has ended.
        let x: Tensor<f64, 2> = unsafe { second.into_tensor([2, 3]) }.unwrap();
        assert_eq!(x.to_vec().unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert!(matches!(
            SharedMemory::open(&name),
            Err(Error::Io { kind: std::io::ErrorKind::NotFound, .. })
        ));
    }

    #[test]
    fn memory_that_the_system_does_not_have_is_an_error_now_and_not_a_signal_later() {
        let name = format!("/rankform-test-large-{}", std::process::id());
        assert!(matches!(SharedMemory::create(&name, 1 << 50), Err(Error::Io { .. })));
        assert!(matches!(
            SharedMemory::open(&name),
            Err(Error::Io { kind: std::io::ErrorKind::NotFound, .. })
        ));
        assert!(matches!(SharedMemory::create(&name, 0), Err(Error::Value { .. })));
    }

    #[test]
    fn memory_without_a_name_is_handed_over_by_its_descriptor() {
        let memory = SharedMemory::anonymous(12).unwrap();
        let there = SharedMemory::from_descriptor(memory.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((memory.nbytes(), there.nbytes()), (12, 12));
        // SAFETY: one is written, then the other is read.
        let (mut x, y): (Tensor<i32, 1>, Tensor<i32, 1>) =
            unsafe { (memory.into_tensor([3]).unwrap(), there.into_tensor([2]).unwrap()) };
        x.data_mut().unwrap().copy_from_slice(&[1, 2, 3]);
        assert_eq!(y.to_vec().unwrap(), [1, 2]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for name in ["", "/", "name", "/a/b", "/a\0b"] {
            assert!(matches!(SharedMemory::create(name, 8), Err(Error::Value { .. })), "{name:?}");
        }
        assert!(SharedMemory::anonymous(0).is_err());
        // SAFETY: refused.
        unsafe {
            assert!(matches!(
                SharedMemory::anonymous(12).unwrap().into_tensor::<i32, 1>([4]),
                Err(Error::Length { .. })
            ));
            assert!(matches!(
                SharedMemory::anonymous(12).unwrap().into_tensor::<bool, 1>([4]),
                Err(Error::Value { .. })
            ));
        }
    }
}
