//! Equality, approximate equality, bytes.

use approx::{abs_diff_eq, abs_diff_ne, assert_relative_eq, assert_ulps_eq, relative_ne, ulps_ne};
use num_complex::Complex;
use rankform::prelude::*;

#[test]
fn equality_compares_sizes_and_elements_in_any_layout() -> Result<()> {
    let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let y = Tensor::from([[1, 4], [2, 5], [3, 6]]);
    assert_eq!(x, y.transposed());
    assert_eq!(x.transposed(), y);
    assert_eq!(x.slice((1, ..))?, Tensor::from([4, 5, 6]));
    assert_ne!(x, x.reversed(Axis::<0>));
    assert_ne!(x, x.slice((.., ..2))?, "other sizes");
    assert_ne!(Tensor::<i32, 2>::zeros([0, 2], &Cpu)?, Tensor::<i32, 2>::zeros([2, 0], &Cpu)?, "both empty");
    assert_eq!(Tensor::<i32, 2>::zeros([0, 2], &Cpu)?, Tensor::<i32, 2>::ones([0, 2], &Cpu)?);
    assert_ne!(Tensor::from([f64::NAN]), Tensor::from([f64::NAN]));
    assert_eq!(Tensor::from([0.0]), Tensor::from([-0.0]));
    let mut z = x.copy()?;
    assert!(z.view_mut()? == x && x == z.view_mut()? && z.view_mut()? == y.transposed());
    *z.view_mut()?.get_mut([1, 2]).unwrap() = 0;
    assert_ne!(z, x, "the last element");
    let words = Tensor::from_vec(vec!["a".to_string(), "b".to_string()], [2])?;
    assert!(words == words.share_data());
    Ok(())
}

#[test]
#[should_panic(expected = "no memory yet")]
fn comparing_tensors_without_memory_panics() {
    let x = Tensor::<f32, 1>::empty([2], &Cpu).unwrap();
    let _ = x == Tensor::from([0.0, 0.0]);
}

#[test]
fn the_macros_of_approx_compare_tensors() -> Result<()> {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let y = (&x * (1.0 + 1e-9)).into_transposed()?;
    assert_relative_eq!(x, y.transposed(), max_relative = 1e-8);
    assert!(relative_ne!(x, y.transposed(), max_relative = 1e-10) && relative_ne!(x, y, max_relative = 1e-8));
    assert!(abs_diff_eq!(x.slice((.., 0))?, Tensor::from([1.0, 3.1]), epsilon = 0.11));
    assert!(abs_diff_ne!(x.slice((.., 0))?, Tensor::from([1.0, 3.1]), epsilon = 0.09));
    assert!(abs_diff_ne!(x, x.slice((.., ..1))?), "other sizes");
    let next = x.map(one_more_ulp)?;
    assert_ulps_eq!(x, next, max_ulps = 1, epsilon = 0.0);
    assert!(ulps_ne!(x, next.map(one_more_ulp)?, max_ulps = 1, epsilon = 0.0));
    assert_relative_eq!(
        Tensor::from([Complex::new(1.0, 2.0)]),
        Tensor::from([Complex::new(1.0, 2.0 + 1e-16)])
    );
    Ok(())
}

elementwise! {
    fn one_more_ulp(x) { Lane::from_bits(x.to_bits() + 1) }
}

#[test]
fn elements_are_seen_as_bytes_where_they_lie_in_order() -> Result<()> {
    let mut x = Tensor::from([[1_u32, 2], [3, 4]]);
    let wanted: Vec<u8> = [1_u32, 2, 3, 4].into_iter().flat_map(u32::to_ne_bytes).collect();
    assert_eq!(x.as_bytes(), Some(&wanted[..]));
    assert_eq!(x.slice((1, ..))?.as_bytes(), Some(&wanted[8..]));
    assert_eq!(x.transposed().as_bytes(), None);
    assert_eq!(Tensor::from([true, false]).as_bytes(), Some(&[1, 0][..]));
    x.view_mut()?.as_bytes_mut().unwrap()[4..8].copy_from_slice(&7_u32.to_ne_bytes());
    assert_eq!(x[[0, 1]], 7);
    assert_eq!(x.view_mut()?.transposed().as_bytes_mut(), None);
    Ok(())
}

#[test]
fn elements_are_read_from_bytes_of_any_alignment() -> Result<()> {
    let bytes: Vec<u8> =
        std::iter::once(0).chain([1.5_f64, -2.0, 3.0].into_iter().flat_map(f64::to_ne_bytes)).collect();
    assert_eq!(Tensor::from_bytes(&bytes[1..], [3])?, Tensor::from([1.5, -2.0, 3.0]));
    assert_eq!(
        Tensor::<Complex<f32>, 1>::from_bytes(&[0; 16], [2])?,
        Tensor::<Complex<f32>, 1>::zeros([2], &Cpu)?
    );
    let told = |result: Result<Tensor<i32, 1>>| result.unwrap_err().to_string();
    assert_eq!(told(Tensor::from_bytes(&[0; 7], [1])), "from_bytes: 7 bytes are not whole elements of 4");
    assert_eq!(told(Tensor::from_bytes(&[0; 8], [1])), "from_bytes: [1] holds 1 elements, found 2");
    let wrong = Tensor::<bool, 1>::from_bytes(&[0, 1, 2], [3]).unwrap_err().to_string();
    assert_eq!(wrong, "from_bytes: bytes [2] of element 2 are no bool");
    Ok(())
}
