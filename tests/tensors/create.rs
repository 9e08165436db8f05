//! Creation of tensors: sizes, values, refusals, and that nothing is lost or dropped twice when a closure
//! panics.

use num_complex::Complex;
use rankform::prelude::*;
use rankform::{bf16, f16};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An element with a destructor that counts the living.
struct Living(Arc<AtomicUsize>);

impl Living {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Living(count.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An iterator that says `said` and gives `given`.
struct Liar {
    said: (usize, Option<usize>),
    given: std::ops::Range<i32>,
}

impl Iterator for Liar {
    type Item = i32;
    fn next(&mut self) -> Option<i32> {
        self.given.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.said
    }
}
impl ExactSizeIterator for Liar {
    fn len(&self) -> usize {
        self.said.0
    }
}

#[test]
fn ones_and_full_hold_one_value_at_every_size() -> Result<()> {
    for size in [[0, 3], [3, 0], [1, 1], [1, 5], [5, 1], [7, 1000]] {
        let numel = size[0] * size[1];
        let ones = Tensor::<f32, 2>::ones(size, &Cpu)?;
        assert_eq!((ones.size(), ones.to_vec()?), (Dim(size), vec![1.0; numel]));
        assert!(ones.layout().is_contiguous() && ones.is_unique());
        assert_eq!(Tensor::full(size, f16::from_f32(2.5), &Cpu)?.to_vec()?, vec![f16::from_f32(2.5); numel]);
        assert_eq!(
            Tensor::full(size, Complex::new(1.0, -2.0), &Cpu)?.to_vec()?,
            vec![Complex::new(1.0, -2.0); numel]
        );
        assert_eq!(Tensor::full(size, true, &Cpu)?.to_vec()?, vec![true; numel]);
    }
    assert_eq!(Tensor::full([], 3_u8, &Cpu)?.item()?, 3);
    assert_eq!(Tensor::<i64, 1>::ones([3], &Cpu)?.to_vec()?, [1; 3]);
    Ok(())
}

#[test]
fn a_full_tensor_may_be_written_element_by_element() -> Result<()> {
    let mut x = Tensor::full([2, 2], 1, &Cpu)?;
    x.view_mut()?[[0, 1]] = 5;
    assert_eq!(x.to_vec()?, [1, 5, 1, 1]);
    Ok(())
}

#[test]
fn zeros_like_keeps_size_and_format_but_not_gaps() -> Result<()> {
    let x = Tensor::from([[1, 2, 3], [4, 5, 6]]).into_transposed()?;
    let zeros = x.zeros_like()?;
    assert_eq!((zeros.size(), zeros.stride(), zeros.to_vec()?), (x.size(), x.stride(), vec![0; 6]));
    let repeated = Tensor::from([[1, 2]]).into_broadcast([3, 2])?;
    assert_eq!(repeated.zeros_like()?.stride(), [2, 1]);
    Ok(())
}

#[test]
fn from_fn_and_collect_fn_visit_every_index_once_in_row_major_order() -> Result<()> {
    for size in [[0, 2, 2], [2, 0, 2], [1, 1, 1], [2, 3, 4], [3, 1, 5]] {
        let mut seen = Vec::new();
        let x = Tensor::from_fn(
            size,
            |index| {
                seen.push(index);
                Dim(size).linearize(index) as i64
            },
            &Cpu,
        )?;
        assert_eq!(seen, Dim(size).indices().collect::<Vec<_>>());
        assert_eq!(x.to_vec()?, (0..seen.len() as i64).collect::<Vec<_>>());
        let y = Tensor::collect_fn(size, |index| format!("{index:?}"))?;
        assert_eq!(y.into_vec()?, seen.iter().map(|index| format!("{index:?}")).collect::<Vec<_>>());
    }
    assert_eq!(Tensor::from_fn([], |[]| 7.0, &Cpu)?.item()?, 7.0);
    Ok(())
}

#[test]
fn a_panic_at_the_kth_construction_drops_each_element_before_it_once() {
    for k in 0..=6 {
        let living = Arc::new(AtomicUsize::new(0));
        let mut made = 0;
        let built = catch_unwind(AssertUnwindSafe(|| {
            Tensor::collect_fn([2, 3], |_| {
                assert!(made < k, "the {k}-th construction fails");
                made += 1;
                Living::new(&living)
            })
        }));
        assert_eq!(built.is_ok(), k == 6, "{k}");
        if let Ok(tensor) = built {
            let tensor = tensor.unwrap();
            assert_eq!(living.load(Ordering::SeqCst), 6);
            let other = tensor.share_data();
            drop(tensor);
            assert_eq!(living.load(Ordering::SeqCst), 6);
            drop(other);
        }
        assert_eq!(living.load(Ordering::SeqCst), 0, "{k}");
    }
}

#[test]
fn from_iter_counts_for_itself_when_an_iterator_lies_about_its_length() -> Result<()> {
    for (said, given) in [(0, 5), (5, 0), (usize::MAX, 3), (3, 10), (10, 3), (isize::MAX as usize, 100)] {
        let liar = Liar { said: (said, Some(said)), given: 0..given };
        let x = Tensor::from_iter(liar)?;
        assert_eq!(x.to_vec()?, (0..given).collect::<Vec<_>>(), "{said} {given}");
    }
    let x = Tensor::from_iter(Liar { said: (0, None), given: 0..100_000 })?;
    assert_eq!((x.size(), x[[99_999]]), (dim![100_000], 99_999));
    Ok(())
}

#[test]
fn from_iter_drops_its_elements_when_the_iterator_panics() {
    let living = Arc::new(AtomicUsize::new(0));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Tensor::from_iter((0..10).map(|i| if i < 7 { Living::new(&living) } else { panic!("at 7") }))
    }));
    assert!(panicked.is_err());
    assert_eq!(living.load(Ordering::SeqCst), 0);
}

#[test]
fn elements_without_size_need_no_memory() -> Result<()> {
    assert_eq!(Tensor::collect_fn([3, 2], |_| ())?.into_vec()?.len(), 6);
    assert_eq!(Tensor::from_iter([(); 4])?.numel(), 4);
    Ok(())
}

#[test]
fn arange_of_integers_is_exact_up_to_the_ends_of_their_type() -> Result<()> {
    assert_eq!(Tensor::arange(0, 5, 1, &Cpu)?.to_vec()?, [0, 1, 2, 3, 4]);
    assert_eq!(Tensor::arange(0, 5, 2, &Cpu)?.to_vec()?, [0, 2, 4]);
    assert_eq!(Tensor::arange(0, 4, 2, &Cpu)?.to_vec()?, [0, 2]);
    assert_eq!(Tensor::arange(3, -3, -2, &Cpu)?.to_vec()?, [3, 1, -1]);
    assert_eq!(Tensor::arange(0, 5, -1, &Cpu)?.to_vec()?, [0; 0]);
    assert_eq!(Tensor::arange(5, 0, 1, &Cpu)?.to_vec()?, [0; 0]);
    assert_eq!(Tensor::arange(2, 2, 1, &Cpu)?.to_vec()?, [0; 0]);
    assert_eq!(Tensor::arange(-128_i8, 127, 100, &Cpu)?.to_vec()?, [-128, -28, 72]);
    assert_eq!(Tensor::arange(i64::MIN, i64::MAX, i64::MAX, &Cpu)?.to_vec()?, [i64::MIN, -1, i64::MAX - 1]);
    assert_eq!(
        Tensor::arange(u64::MAX - 5, u64::MAX, 2, &Cpu)?.to_vec()?,
        [u64::MAX - 5, u64::MAX - 3, u64::MAX - 1]
    );
    assert_eq!(Tensor::arange(0_u64, u64::MAX, 1 << 63, &Cpu)?.to_vec()?, [0, 1 << 63]);
    Ok(())
}

#[test]
fn arange_of_floats_counts_as_numpy_and_does_not_accumulate() -> Result<()> {
    // NumPy's known surprise
    assert_eq!(Tensor::arange(1.0, 1.3, 0.1, &Cpu)?.to_vec()?, [1.0, 1.1, 1.2, 1.3]);
    assert_eq!(Tensor::arange(0.0, 1e-320, 1.0, &Cpu)?.to_vec()?, [0.0]);
    assert_eq!(Tensor::arange(0.0, 5e-324, 1e300, &Cpu)?.to_vec()?, [0.0]); // the quotient underflows
    assert_eq!(Tensor::arange(0.0, -5e-324, 1e300, &Cpu)?.to_vec()?, [0.0; 0]);
    let x = Tensor::arange(0.0_f32, 1000.0, 0.1, &Cpu)?;
    assert_eq!(x.numel(), 10_000);
    for i in 0..10_000 {
        assert_eq!(x[[i]], (i as f64 * 0.1_f32 as f64) as f32);
    }
    let halves = Tensor::arange(f16::from_f32(0.0), f16::from_f32(2.0), f16::from_f32(0.5), &Cpu)?;
    assert_eq!(halves.to_vec()?, [0.0, 0.5, 1.0, 1.5].map(f16::from_f32));
    Ok(())
}

#[test]
fn arange_refuses_a_step_of_0_and_infinite_numbers() {
    assert_eq!(
        Tensor::arange(0, 5, 0, &Cpu).err().unwrap().to_string(),
        "arange: from 0 to 5 by 0: the step is 0"
    );
    for (start, end, step) in
        [(0.0, f64::INFINITY, 1.0), (f64::NAN, 1.0, 1.0), (0.0, 1.0, f64::NAN), (0.0, 1.0, f64::INFINITY)]
    {
        assert!(
            matches!(Tensor::arange(start, end, step, &Cpu), Err(Error::Value { .. })),
            "{start} {end} {step}"
        );
    }
    assert!(matches!(Tensor::arange(0.0, 1.0, -0.0, &Cpu), Err(Error::Value { .. })));
    assert!(matches!(Tensor::arange(-f64::MAX, f64::MAX, 1e-300, &Cpu), Err(Error::Overflow { .. })));
    assert!(matches!(Tensor::arange(0_u64, u64::MAX, 1, &Cpu), Err(Error::Overflow { .. })));
    assert!(matches!(Tensor::arange(i64::MIN, i64::MAX, 1, &Cpu), Err(Error::Overflow { .. })));
}

#[test]
fn linspace_hits_both_ends_exactly() -> Result<()> {
    for n in 0..50 {
        let x = Tensor::linspace(0.1, 0.7, n, &Cpu)?.to_vec()?;
        assert_eq!(x.len(), n);
        assert_eq!(
            (x.first(), x.get(1..).and_then(<[_]>::last)),
            ((n > 0).then_some(&0.1), (n > 1).then_some(&0.7))
        );
        assert!(x.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert_eq!(Tensor::linspace(2.0, -2.0, 5, &Cpu)?.to_vec()?, [2.0, 1.0, 0.0, -1.0, -2.0]);
    assert_eq!(Tensor::linspace(0.1, 0.1, 4, &Cpu)?.to_vec()?, [0.1; 4]);
    assert_eq!(Tensor::linspace(-f64::MAX, f64::MAX, 3, &Cpu)?.to_vec()?, [-f64::MAX, 0.0, f64::MAX]);
    assert_eq!(
        Tensor::linspace(bf16::ZERO, bf16::ONE, 3, &Cpu)?.to_vec()?,
        [0.0, 0.5, 1.0].map(bf16::from_f32)
    );
    assert!(matches!(Tensor::linspace(0.0, f32::INFINITY, 3, &Cpu), Err(Error::Value { .. })));
    Ok(())
}

#[test]
fn eye_is_1_where_the_indices_agree() -> Result<()> {
    for n in [0, 1, 2, 5] {
        let x = Tensor::<Complex<f32>, 2>::eye(n, &Cpu)?;
        assert_eq!(x.size(), [n, n]);
        for [i, j] in x.size().indices() {
            assert_eq!(x[[i, j]], Complex::from((i == j) as u8 as f32));
        }
    }
    Ok(())
}

#[test]
fn arrays_up_to_six_deep_become_tensors_lengths_of_0_included() -> Result<()> {
    assert_eq!(Tensor::from(4.5).item()?, 4.5);
    assert_eq!(Tensor::from([true, false]).to_vec()?, [true, false]);
    assert_eq!(Tensor::from([[1, 2], [3, 4], [5, 6]]).size(), [3, 2]);
    let x = Tensor::from([[[1_u8, 2], [3, 4], [5, 6]]]);
    assert_eq!((x.size(), x[[0, 2, 1]]), (dim![1, 3, 2], 6));
    assert_eq!(Tensor::from([[[[1.0]]], [[[2.0]]]]).size(), [2, 1, 1, 1]);
    assert_eq!(Tensor::from([[[[[1.0], [2.0]]]]]).size(), [1, 1, 1, 2, 1]);
    let deep = Tensor::from([[[[[[1_i16, 2], [3, 4]]]]]]);
    assert_eq!((deep.size(), deep.to_vec()?), (dim![1, 1, 1, 1, 2, 2], vec![1, 2, 3, 4]));
    assert_eq!(Tensor::from([] as [f32; 0]).size(), [0]);
    assert_eq!(Tensor::from([[0.0_f32; 0]; 3]).size(), [3, 0]);
    assert_eq!(Tensor::from([[[0.0_f32; 2]; 0]; 3]).size(), [3, 0, 2]);
    assert_eq!(Tensor::from_array([[1.0, 2.0]], &Meta::new())?.size(), [1, 2]);
    Ok(())
}

#[test]
fn every_constructor_works_without_data() -> Result<()> {
    let meta = Meta::new();
    assert_eq!(Tensor::<f32, 2, _>::ones([1 << 20, 1 << 20], &meta)?.size(), [1 << 20, 1 << 20]);
    assert_eq!(Tensor::full([3], 1, &meta)?.size(), [3]);
    assert_eq!(Tensor::from_fn([3, 1], |_| 1.0, &meta)?.size(), [3, 1]);
    assert_eq!(Tensor::arange(0, 10, 3, &meta)?.size(), [4]);
    assert_eq!(Tensor::linspace(0.0, 1.0, 7, &meta)?.size(), [7]);
    assert_eq!(Tensor::<f32, 2, _>::eye(3, &meta)?.size(), [3, 3]);
    Ok(())
}

#[test]
fn sizes_beyond_isize_are_refused_before_anything_is_allocated_or_called() {
    let huge = [usize::MAX, 2];
    assert!(matches!(Tensor::full(huge, 1.0, &Cpu), Err(Error::Overflow { op: "full", .. })));
    assert!(matches!(Tensor::<f32, 2>::ones(huge, &Cpu), Err(Error::Overflow { op: "ones", .. })));
    assert!(matches!(
        Tensor::from_fn(huge, |_| -> f32 { unreachable!() }, &Cpu),
        Err(Error::Overflow { op: "from_fn", .. })
    ));
    assert!(matches!(
        Tensor::collect_fn(huge, |_| -> String { unreachable!() }),
        Err(Error::Overflow { .. })
    ));
    assert!(matches!(Tensor::<f32, 2>::eye(usize::MAX, &Cpu), Err(Error::Overflow { op: "eye", .. })));
    assert!(matches!(Tensor::linspace(0.0, 1.0, usize::MAX, &Cpu), Err(Error::Overflow { .. })));
    let large = [1 << 40, 1 << 15];
    assert!(matches!(Tensor::full(large, 1_u8, &Cpu), Err(Error::OutOfMemory { .. })));
    assert!(matches!(
        Tensor::from_fn(large, |_| -> u8 { unreachable!() }, &Cpu),
        Err(Error::OutOfMemory { op: "from_fn", .. })
    ));
    assert!(matches!(
        Tensor::collect_fn(large, |_| -> u8 { unreachable!() }),
        Err(Error::OutOfMemory { .. })
    ));
}
