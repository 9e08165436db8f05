//! The operators of Rust on tensors: every mixture of owned, borrowed, viewed and lazy operands.

#![allow(clippy::op_ref, clippy::needless_borrows_for_generic_args)] // references to views are tested

use rankform::prelude::*;

#[test]
fn the_right_operand_may_be_owned_borrowed_a_view_lazy_or_a_number() -> Result<()> {
    let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([10.0, 20.0]));
    let wanted = Tensor::from([11.0, 22.0]);
    assert_eq!(&x + &y, wanted);
    assert_eq!(&x + y.copy()?, wanted);
    assert_eq!(&x + y.view(), wanted);
    assert_eq!(&x + &y.view(), wanted);
    assert_eq!(&x + &y.copy()?.view_mut()?, wanted);
    assert_eq!(&x + y.lazy() * 1.0, wanted);
    assert_eq!(x.view() + y.copy()?, wanted);
    assert_eq!(x.copy()? + y.copy()?, wanted);
    let (left, right) = (x.view(), y.view());
    assert_eq!(&left + &right, wanted);
    assert_eq!(&left + &y, wanted);
    assert_eq!(2.0 * &left - -&right, Tensor::from([12.0, 24.0]));
    assert_eq!(left.matmul(&right)?.item()?, 50.0, "products take views by reference too");
    assert_eq!(&x + &y * 2.0 - 1.0 / (&x + 0.0), Tensor::from([20.0, 41.5]));
    assert_eq!(-(&x - 3.0) * (2.0 - y.view()), Tensor::from([-16.0, -18.0]));
    let mut z = x.copy()?;
    z += &x * 2.0;
    z *= y.view();
    z -= y.lazy() / &x;
    z /= 5.0;
    assert_eq!(z, Tensor::from([4.0, 22.0]));
    Ok(())
}

#[test]
fn bits_are_combined_by_the_symbols_of_rust() -> Result<()> {
    let (x, y) = (Tensor::from([true, true, false]), Tensor::from([true, false, false]));
    assert_eq!(
        (&x & &y, &x | &y, &x ^ &y, !&x),
        (y.copy()?, x.copy()?, Tensor::from([false, true, false]), Tensor::from([false, false, true]))
    );
    assert_eq!((x.lazy() & !y.lazy()).eval()?, Tensor::from([false, true, false]));
    assert_eq!(&x.view() & !&y.view(), Tensor::from([false, true, false]));
    let mut z = Tensor::from([0b1100_u8, 0b1010]);
    z &= 0b1000;
    z |= Tensor::from([1_u8, 2]);
    z ^= &Tensor::from([0xff_u8, 0]);
    assert_eq!(z, Tensor::from([0b1111_0110_u8, 0b1010]));
    Ok(())
}

#[test]
fn an_owned_left_operand_gives_its_memory_to_the_result() -> Result<()> {
    let (x, y) = (Tensor::from([1, 2]), Tensor::from([3, 4]));
    let address = x.raw_ptr();
    let z = x + y;
    assert_eq!((z.raw_ptr(), z.to_vec()?), (address, vec![4, 6]));
    let shared = z.share_data();
    let sum = z + &shared;
    assert_ne!(sum.raw_ptr(), address, "somebody else reads that memory");
    assert_eq!((sum.to_vec()?, shared.to_vec()?), (vec![8, 12], vec![4, 6]));
    Ok(())
}

#[test]
fn an_element_is_written_by_its_index() -> Result<()> {
    let mut x = Tensor::<f32, 2>::zeros([2, 2], &Cpu)?;
    x[[0, 1]] = 2.0;
    x[[1, 0]] += 3.0;
    assert_eq!(x, Tensor::from([[0.0, 2.0], [3.0, 0.0]]));
    let shared = x.share_data();
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x[[0, 0]] = 1.0)).unwrap_err();
    assert!(refused.downcast_ref::<String>().unwrap().contains("2 handles"), "{refused:?}");
    drop(shared);
    let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x[[0, 2]] = 1.0)).unwrap_err();
    assert_eq!(outside.downcast_ref::<String>().unwrap(), "index: index [0, 2] is outside sizes [2, 2]");
    Ok(())
}

#[test]
fn a_tuple_of_operands_may_begin_with_a_tensor() -> Result<()> {
    elementwise! {
        fn fused(a, b, c) { a * b + c }
        fn both(a, b) -> (T, T) { (a + b, a - b) }
    }
    let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([10.0, 20.0]));
    assert_eq!(apply(fused, (&x, &y, 1.0))?, Tensor::from([11.0, 41.0]));
    let (sum, difference) = apply_many(both, (&x, y.view()))?;
    assert_eq!((sum, difference), (Tensor::from([11.0, 22.0]), Tensor::from([-9.0, -18.0])));
    Ok(())
}
