//! The catalog of other libraries' bugs, rows 1 to 14 and 23: sizes, strides, views, overlap.
//!
//! Each test has the number and the symptom of its row in its name. Whatever makes or views a tensor goes
//! through it.

use crate::alloc::live_here;
use crate::{caught, refused};
use rankform::kernel::Op;
use rankform::prelude::*;
use rankform::{Element, ops};

const MAX: usize = isize::MAX as usize;
/// Sizes, strides and offsets at the edge.
const EDGES: [usize; 11] = [0, 1, 2, 3, 7, 1 << 31, 1 << 32, 1 << 62, MAX, MAX + 1, usize::MAX];

/// Every function that takes sizes, and its result, in order. `x` has 5 elements or more, for those that need
/// some.
fn through_everything<const R: usize>(
    size: [usize; R],
) -> Vec<(&'static str, std::result::Result<(), Error>)> {
    let meta = Meta::new();
    let five = Tensor::from([1.0_f32, 2.0, 3.0, 4.0, 5.0]);
    let one = Tensor::from_slice(&[1.0_f32], [1; R], &Cpu).unwrap();
    let mut values = [1.0_f32; 5];
    let values_ptr = values.as_mut_ptr();
    vec![
        ("zeros", Tensor::<f32, R>::zeros(size, &Cpu).map(drop)),
        ("ones", Tensor::<f32, R>::ones(size, &Cpu).map(drop)),
        ("full", Tensor::full(size, 1.0_f32, &Cpu).map(drop)),
        ("from_fn", Tensor::from_fn(size, |_| 1.0_f32, &Cpu).map(drop)),
        ("collect_fn", Tensor::collect_fn(size, |_| 1.0_f32).map(drop)),
        ("from_slice", Tensor::from_slice(&values, size, &Cpu).map(drop)),
        ("from_vec", Tensor::from_vec(values.to_vec(), size).map(drop)),
        ("TensorView::from_slice", TensorView::from_slice(&values, size).map(drop)),
        ("TensorViewMut::from_slice", TensorViewMut::from_slice(&mut values, size).map(drop)),
        // SAFETY: five elements that outlive the tensor; more than those are refused or never followed.
        ("from_external", unsafe { Tensor::from_external(values_ptr, size, &Cpu, |_, _| ()) }.map(drop)),
        ("reshape", five.reshape(size).map(drop)),
        ("share_as", five.share_as(size).map(drop)),
        ("into_shape", five.share_data().into_shape(size).map(drop)),
        ("to_shape", five.to_shape(size).map(drop)),
        ("reshape of every second", five.slice(((..).step(2),)).unwrap().reshape(size).map(drop)),
        ("broadcast_to", one.broadcast_to(size).map(drop)),
        ("into_broadcast", one.share_data().into_broadcast(size).map(drop)),
        ("as_strided", five.as_strided(size, [0; R], 0).map(drop)),
        ("Layout::contiguous", Layout::contiguous(size).map(drop)),
        ("Layout::new", Layout::new(size, [0; R], 0).map(drop)),
        ("Meta zeros", Tensor::<f32, R, Meta>::zeros(size, &meta).map(drop)),
    ]
}

/// Of those, the ones that make no elements: sizes that can be counted may be fine for them.
const VIEWS: [&str; 6] =
    ["broadcast_to", "into_broadcast", "as_strided", "Layout::contiguous", "Layout::new", "Meta zeros"];

#[test]
fn row_01_element_counts_that_wrap_are_refused_everywhere() {
    fn all<const R: usize>(size: [usize; R], wrapped: usize) {
        assert_eq!(size.iter().fold(1, |product: usize, &size| product.wrapping_mul(size)), wrapped);
        for (name, result) in through_everything(size) {
            assert!(matches!(result, Err(Error::Overflow { .. })), "{name} {size:?}: {result:?}");
        }
    }
    all([3, 7, 29, 36_760_123, 823_996_703], 5); // ndarray#64: `zeros(5)` reshaped to it
    all([2, 13, 419, 691, 823, 2_977_518_503], 10); // numpy#7455: `ones(20)[::2]` reshaped to it
    all([1 << 32, 1 << 32], 0);
    all([usize::MAX, usize::MAX], 1);
    all([usize::MAX], usize::MAX);
    // Overlapping windows of memory that is not there hold more elements than their tensor.
    let wide = Tensor::from([1.0_f32]);
    let wide = wide.broadcast_to([1 << 62]).unwrap();
    refused!(wide.windows(Axis::<0>, 1 << 61, 1), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::eye(1 << 32, &Cpu), Error::Overflow { .. });
    // Two operands with joint sizes beyond `usize`.
    let (down, along) = (Tensor::from([[1.0]]), Tensor::from([[1.0]]));
    let (down, along) = (down.broadcast_to([1 << 40, 1]).unwrap(), along.broadcast_to([1, 1 << 40]).unwrap());
    refused!(Arithmetic::add(down, along), Error::Overflow { .. });
    refused!((down.lazy() * along).sum(Axis::<0>), Error::Overflow { .. });
    refused!(down.matmul(along), Error::Overflow { .. });
}

#[test]
fn row_02_no_constructor_panics_whatever_the_sizes() {
    let mut seen = [0, 0];
    for a in EDGES {
        for b in EDGES {
            for c in EDGES {
                let (size, factors) = ([a, b, c], [a, b, c].map(|size| size.max(1)));
                let product = factors.iter().try_fold(4_usize, |product, &size| product.checked_mul(size));
                let countable = product.is_some_and(|bytes| bytes <= MAX);
                for (name, result) in through_everything(size) {
                    if !countable && !VIEWS.contains(&name) {
                        assert!(
                            matches!(result, Err(Error::Overflow { .. } | Error::Length { .. })),
                            "{name} {size:?}: {result:?}"
                        );
                    }
                    seen[usize::from(result.is_ok())] += 1;
                }
            }
        }
    }
    println!("{} refused, {} made", seen[0], seen[1]);
}

#[test]
fn row_03_the_limit_is_isize_max_bytes_over_the_non_zero_sizes() {
    refused!(Tensor::<f32, 1>::zeros([MAX / 4 + 1], &Cpu), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::zeros([0, usize::MAX], &Cpu), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::zeros([usize::MAX, 0], &Cpu), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::zeros([0, MAX / 4 + 1], &Cpu), Error::Overflow { .. });
    assert!(Tensor::<f32, 2>::zeros([0, MAX / 4], &Cpu).is_ok());
    refused!(Tensor::from_vec(Vec::<[u64; 4]>::new(), [0, 1 << 59]), Error::Overflow { .. });
    // A view without memory is counted in elements; a function that would allocate them counts bytes.
    let one = Tensor::from([1.0_f64]);
    refused!(one.broadcast_to([MAX + 1]), Error::Overflow { .. });
    let wide = one.share_data().into_broadcast([MAX]).unwrap();
    assert_eq!((wide.numel(), wide.size(), wide.get([MAX - 1])), (MAX, Dim([MAX]), Some(&1.0)));
    assert!(wide.nbytes() >= MAX); // more than can be counted: as many as can be said
    refused!(wide.copy(), Error::Overflow { .. });
    refused!(wide.to_vec(), Error::Overflow { .. });
    refused!(wide.to_shape([1, MAX]), Error::Overflow { .. });
    refused!(wide.to(&Meta::new()), Error::Overflow { .. });
    refused!(wide.exp(), Error::Overflow { .. });
    refused!(wide.share_data().make_unique(), Error::Overflow { .. });
    refused!(wide.share_data().view_mut(), Error::Shared { .. });
    refused!(wide.into_vec(), Error::OutOfMemory { .. } | Error::Overflow { .. });
    // Zero-size elements take no bytes, and are counted all the same.
    let mut units = Tensor::from_vec(vec![(); 3], [3]).unwrap();
    assert_eq!((units.nbytes(), units.numel(), units.capacity()), (0, 3, units.capacity()));
    assert_eq!(units.data_mut().map(|units| units.len()), Ok(3));
}

#[test]
fn row_04_a_size_of_zero_next_to_a_huge_one_is_an_empty_tensor() -> Result<()> {
    for huge in [(1 << 31) - 1, MAX / 8] {
        for size in [[0, huge], [huge, 0]] {
            let x = Tensor::<f32, 2>::zeros(size, &Cpu)?;
            assert_eq!((x.numel(), x.to_vec()?, x.as_slice()), (0, vec![], Some(&[][..])));
            assert_eq!(x.transposed().copy()?.size(), [size[1], size[0]]);
            assert_eq!(x.reversed(Axis::<0>).reversed(Axis::<1>).to_contiguous()?.size(), size);
            assert_eq!(x.reshape([huge, 1, 0])?.to_vec()?, []);
            assert_eq!(x.to_shape([0])?.numel(), 0);
            assert_eq!(x.slice((.., (..).step(7)))?.to_vec()?, []);
            assert_eq!(Arithmetic::add(&x, 1.0)?.exp()?.size(), size);
            assert_eq!(
                x.axis_iter(Axis::<0>).take(3).filter(|row| row.to_vec() == Ok(vec![])).count(),
                size[0].min(3)
            );
            assert_eq!(x.view().windows(Axis::<0>, 1.max(size[0]), 1).map(|x| x.numel()).unwrap_or(0), 0);
            let reduced = [x.sum(Axis::<0>), x.sum(Axis::<1>)];
            for (axis, reduced) in reduced.into_iter().enumerate() {
                match size[1 - axis] {
                    0 => assert_eq!(reduced?.to_vec()?, []),
                    _ => refused!(reduced, Error::OutOfMemory { .. }), // `huge` zeros
                }
            }
            assert_eq!(x.sum(All)?.item()?, 0.0);
            refused!(x.max(All), Error::Empty { .. });
            assert!(x.mean(All)?.item()?.is_nan());
        }
        let (left, right) =
            (Tensor::<f32, 2>::zeros([0, huge], &Cpu)?, Tensor::<f32, 2>::zeros([huge, 0], &Cpu)?);
        assert_eq!(left.matmul(&right)?.size(), [0, 0]);
    }
    assert_eq!(
        Tensor::<f32, 2>::zeros([2, 0], &Cpu)?.matmul(&Tensor::zeros([0, 3], &Cpu)?)?.to_vec()?,
        [0.0; 6]
    );
    Ok(())
}

#[test]
fn row_05_a_broadcast_that_cannot_be_counted_is_refused() {
    let one = Tensor::from([[1_u8]]);
    refused!(one.broadcast_to([1 << 40, 1 << 40]), Error::Overflow { .. });
    refused!(one.share_data().into_broadcast([1 << 40, 1 << 40]), Error::Overflow { .. });
    refused!(one.lift::<3>().broadcast_to([1 << 40, 1 << 40, 1]), Error::Overflow { .. });
    assert!(one.broadcast_to([1 << 31, 1 << 31]).is_ok());
    refused!(one.broadcast_to([1 << 31, 1 << 31]).unwrap().copy(), Error::OutOfMemory { .. });
    refused!(one.broadcast_to([0, usize::MAX]), Error::Overflow { .. });
}

#[test]
fn row_06_as_strided_takes_exactly_the_layouts_inside_the_memory() {
    let x = Tensor::from([10, 11, 12, 13, 14, 15]);
    let mut seen = [0, 0];
    for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
        for (p, q) in (-3_isize..4).flat_map(|p| (-3_isize..4).map(move |q| (p, q))) {
            for offset in 0..9 {
                let position = |i: usize, j: usize| offset as isize + i as isize * p + j as isize * q;
                let places: Vec<_> = (0..a).flat_map(|i| (0..b).map(move |j| position(i, j))).collect();
                let inside =
                    places.iter().all(|place| (0..6).contains(place)) && (!places.is_empty() || offset <= 6);
                let view = x.as_strided([a, b], [p, q], offset);
                assert_eq!(view.is_ok(), inside, "{:?}", ([a, b], [p, q], offset));
                if let Ok(view) = view {
                    assert_eq!(
                        view.to_vec().unwrap(),
                        places.iter().map(|place| 10 + *place as i32).collect::<Vec<_>>()
                    );
                }
                seen[usize::from(inside)] += 1;
            }
        }
    }
    assert_eq!(seen.iter().sum::<usize>(), 16 * 49 * 9);
    for offset in [MAX, MAX + 1, usize::MAX] {
        refused!(x.as_strided([1], [1], offset), Error::Bounds { .. });
        refused!(x.as_strided([0], [1], offset), Error::Bounds { .. });
        refused!(x.as_strided([], [], offset), Error::Bounds { .. });
    }
    for stride in [isize::MAX, isize::MIN, isize::MIN + 1, MAX as isize / 2 + 1] {
        refused!(x.as_strided([2], [stride], 0), Error::Bounds { .. });
        refused!(x.as_strided([3, 3], [stride, -stride.saturating_add(1)], 3), Error::Bounds { .. });
        assert!(x.as_strided([1, 6], [stride, 1], 0).is_ok());
        assert!(x.as_strided([0, 6], [stride, stride], 0).is_ok());
    }
    refused!(x.as_strided([MAX / 2, 3], [1, 0], 0), Error::Overflow { .. });
    refused!(x.as_strided([0, usize::MAX], [1, 0], 0), Error::Overflow { .. });
    let empty = Tensor::<i32, 1>::zeros([0], &Cpu).unwrap();
    assert!(empty.as_strided([0], [5], 0).is_ok());
    refused!(empty.as_strided([1], [0], 0), Error::Bounds { .. });
    refused!(empty.as_strided([0], [1], 1), Error::Bounds { .. });
}

#[test]
fn row_07_later_index_arithmetic_wraps_on_a_legally_made_huge_stride() -> Result<()> {
    let x = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for huge in [isize::MAX, isize::MIN, isize::MIN + 1, 1 << 62, -(1 << 62), (1 << 61) + 1] {
        // One row with a stride that must not be multiplied, between two axes of an iteration.
        let v = x.as_strided([2, 1, 3], [3, huge, 1], 0)?;
        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let shows = |view: TensorView<'_, f64, 3>, values: &[f64]| {
            assert_eq!(view.to_vec().unwrap(), values, "stride {huge}");
            assert_eq!(view.sum(All).unwrap().item().unwrap(), values.iter().sum::<f64>());
            assert_eq!(Arithmetic::add(view, 0.0).unwrap().to_vec().unwrap(), values);
            assert_eq!(view.copy().unwrap().to_vec().unwrap(), values);
            assert_eq!(view.cast::<f32>().unwrap().numel(), values.len());
        };
        shows(v, &expected);
        for step in [1, 3, isize::MAX, -1, -3, isize::MIN] {
            shows(v.slice((.., (..).step(step), ..))?, &expected);
            shows(v.slice((.., (0..1).step(step), ..))?, &expected);
        }
        shows(v.reversed(Axis::<1>), &expected);
        shows(v.reversed(Axis::<1>).reversed(Axis::<1>), &expected);
        shows(v.reversed_axis(1)?.reversed_axis(2)?.reversed(Axis::<2>), &expected);
        shows(v.permuted([1, 0, 2])?, &expected);
        shows(v.permuted([2, 1, 0])?, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        shows(v.transposed().transposed(), &expected);
        shows(v.reshape([1, 6])?.reshape([6])?.reshape([2, 1, 3])?, &expected);
        shows(v.remove_axis(Axis::<1>)?.insert_axis(Axis::<2>).permuted([0, 2, 1])?, &expected);
        shows(v.broadcast_to([2, 4, 3])?.slice((.., 3..4, ..))?, &expected);
        for step in [1, 2, usize::MAX] {
            shows(v.windows(Axis::<1>, 1, step)?.remove_axis(Axis::<3>)?, &expected);
        }
        shows(v.diagonal(Axis::<0>, Axis::<1>)?.insert_axis(Axis::<0>), &[1.0, 2.0, 3.0]);
        shows(v.slice((.., 0, ..))?.insert_axis(Axis::<1>), &expected);
        let (none, all) = v.split_at(Axis::<1>, 0)?;
        shows(none, &[]);
        shows(all, &expected);
        for part in v.chunks(Axis::<1>, 5)? {
            shows(part, &expected);
        }
        for part in v.axis_iter(Axis::<1>) {
            shows(part.insert_axis(Axis::<1>), &expected);
        }
        assert_eq!(
            v.slice((.., 0, ..))?.matmul(v.slice((.., 0, ..))?.transposed())?.to_vec()?,
            [14.0, 32.0, 32.0, 77.0]
        );
        assert_eq!(
            (v.layout().is_contiguous(), v.layout().may_overlap(), v.as_slice().is_some()),
            (true, false, true)
        );
        assert_eq!((v.get([1, 0, 2]), v.get([1, 1, 2])), (Some(&6.0), None));
        // Empty: no index is ever multiplied by anything, and no address leaves the memory.
        let none = x.as_strided([4, 0, 3], [huge, huge, huge], 2)?;
        shows(none, &[]);
        for view in [
            none.reversed(Axis::<0>),
            none.slice(((..).step(3), .., (..).step(-2)))?,
            none.permuted([2, 0, 1])?,
        ] {
            shows(view, &[]);
            assert!(view.layout().offset() <= 6, "{:?}", view.layout());
        }
        for part in none.axis_iter(Axis::<0>).chain(none.axis_iter(Axis::<2>).map(|part| part.transposed())) {
            assert_eq!(part.to_vec()?, []);
            assert!(part.layout().offset() <= 6, "{:?}", part.layout());
        }
    }
    Ok(())
}

#[test]
fn row_08_overlapping_memory_is_never_written() -> Result<()> {
    let repeated = Tensor::from([[1.0], [2.0]]).into_broadcast([2, 3])?; // stride 0
    // [2, 3], strides [2, 1]
    let sliding = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0]).into_windows(Axis::<0>, 3, 2)?;
    let diagonal = Tensor::from([1.0, 2.0, 3.0]).into_windows(Axis::<0>, 2, 1)?; // strides [1, 1]
    assert_eq!(sliding.stride(), Stride([2, 1]));
    for mut x in [repeated, sliding, diagonal] {
        let before = x.to_vec()?;
        refused!(x.view_mut(), Error::Overlap { .. });
        refused!(x.data_mut(), Error::Overlap { .. });
        refused!(x.fill(0.0), Error::Overlap { .. });
        refused!(x.assign(0.0), Error::Overlap { .. });
        refused!(x.map_in_place(ops::Square), Error::Overlap { .. });
        refused!(x.zip_in_place(ops::Add, 1.0), Error::Overlap { .. });
        let source = Tensor::<f64, 2>::zeros(x.size(), &Cpu)?;
        refused!(source.copy_to(&mut x), Error::Overlap { .. });
        assert!(caught(|| x += 1.0).is_err());
        assert_eq!(x.to_vec()?, before);
        let unlike = x.share_data() + 0.5; // an operand that cannot be reused is not
        assert_eq!(unlike.to_vec()?, before.iter().map(|x| x + 0.5).collect::<Vec<_>>());
        assert!(x.make_unique()?);
        x.fill(0.0)?;
        assert!(x.layout().is_contiguous());
    }
    // Beyond the positions that are checked one by one, an undecided overlap is refused too.
    let mut wide = Tensor::<u8, 1>::zeros([70_000], &Cpu)?.into_windows(Axis::<0>, 3, 2)?;
    refused!(wide.view_mut(), Error::Overlap { .. });
    Ok(())
}

#[test]
fn row_09_strides_of_axes_of_size_1_and_shared_reading_are_no_overlap() -> Result<()> {
    let mut x = Tensor::from([1.0, 2.0, 3.0]).into_lift::<3>()?;
    assert_eq!(x.stride(), Stride([0, 0, 1]));
    x.fill(2.0)?;
    x += 1.0;
    x.view_mut()?.slice((0, .., 1..))?.fill(0.0)?;
    assert_eq!(x.to_vec()?, [3.0, 0.0, 0.0]);
    let windows = x.windows(Axis::<2>, 2, 1)?;
    assert_eq!((windows.to_vec()?, x.view().to_vec()?), (vec![3.0, 0.0, 0.0, 0.0], x.to_vec()?));
    // Interleaved without meeting: written.
    let mut apart = Tensor::from([0; 8]).into_windows(Axis::<0>, 2, 3)?; // [3, 2], strides [3, 1]
    apart.fill(1)?;
    assert_eq!(apart.share_as([6]).err().map(|_| ()), Some(()));
    assert_eq!(apart.as_strided([8], [1], 0)?.to_vec()?, [1, 1, 0, 1, 1, 0, 1, 1]);
    Ok(())
}

#[test]
fn row_10_the_first_element_is_not_where_the_memory_begins() -> Result<()> {
    let at = |[i, j, k]: [usize; 3]| (12 * i + 4 * j + k) as i32;
    for subset in 0..8 {
        let make = || Tensor::collect_fn([2, 3, 4], at);
        let mut x = make()?;
        for axis in (0..3).filter(|axis| subset >> axis & 1 == 1) {
            x = x.into_reversed_axis(axis)?;
        }
        let mirrored = |index: [usize; 3]| {
            let turn = |axis: usize| {
                if subset >> axis & 1 == 1 { [2, 3, 4][axis] - 1 - index[axis] } else { index[axis] }
            };
            at([turn(0), turn(1), turn(2)])
        };
        let expected: Vec<i32> = dim![2, 3, 4].indices().map(mirrored).collect();
        assert_eq!(
            (x.to_vec()?, x.raw_ptr() == x.allocation().ptr().cast()),
            (expected.clone(), subset == 0)
        );
        assert_eq!(x.to_contiguous()?.as_slice(), Some(&expected[..]));
        assert_eq!(x.copy()?.to_vec()?, expected);
        assert_eq!(x.to_shape([24])?.to_vec()?, expected);
        assert_eq!(x.share_data().into_vec()?, expected);
        assert_eq!((x[[0, 0, 0]], x.get([1, 2, 3])), (mirrored([0, 0, 0]), Some(&mirrored([1, 2, 3]))));
        assert_eq!(Arithmetic::neg(&x)?.to_vec()?, expected.iter().map(|x| -x).collect::<Vec<_>>());
        assert_eq!(x.cast::<f32>()?.sum(All)?.item()?, 276.0);
        x.fill(7)?;
        assert_eq!(x.as_strided([24], [1], 0)?.to_vec()?, [7; 24]);
        assert_eq!(x.into_vec()?, [7; 24]);
    }
    Ok(())
}

#[test]
fn row_11_no_pointer_comes_from_a_reference_to_one_element() -> Result<()> {
    // Visible to a test: pointers of views reach the whole memory, and writes go through the address of the
    // block.
    let mut x = Tensor::from([[1, 2], [3, 4]]);
    let base = x.allocation().ptr();
    assert_eq!(x.slice((1, 1..)).map(|view| view.raw_ptr().cast::<u8>().addr() - base.addr()), Ok(12));
    let mut view = x.view_mut()?.slice((1, ..))?;
    assert_eq!(view.raw_ptr().cast::<u8>(), base.wrapping_add(8));
    *view.get_mut([0]).unwrap() = 30;
    assert_eq!(x.to_vec()?, [1, 2, 30, 4]);
    // The rest is a rule about the source: `tests/project/architecture.rs` searches it for casts of
    // references.
    Ok(())
}

#[test]
fn row_13_misaligned_addresses_are_refused_and_given_back() {
    use std::cell::Cell;
    thread_local!(static FREED: Cell<usize> = const { Cell::new(0) });
    let mut words = [0_u64; 16];
    let base = words.as_mut_ptr().cast::<u8>();
    macro_rules! at_every_misalignment {
        ($($t:ty)*) => { $(for by in 0..64 {
            let before = FREED.get();
            let address = base.wrapping_add(by).cast::<$t>();
            // SAFETY: 128 bytes of zeros, of which the elements take less than 24 from the address on;
            // misaligned ones are refused before they are read.
            let x = unsafe { Tensor::from_external(address, [2], &Cpu, |_, _| FREED.set(FREED.get() + 1)) };
            match x {
                Ok(x) => assert_eq!(
                    (by % align_of::<$t>(), x.to_vec().unwrap()), (0, vec![<$t>::default(); 2])
                ),
                Err(Error::Value { .. }) => assert_ne!(by % align_of::<$t>(), 0),
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(FREED.get(), before + 1, "given back once");
        })* };
    }
    at_every_misalignment!(
        u8 i16 rankform::f16 rankform::bf16 f32 i32 u64 f64 num_complex::Complex<f32>
        num_complex::Complex<f64>
    );
}

#[test]
fn row_14_counts_that_do_not_fit_the_sizes_are_refused_and_nothing_is_written_past_an_end() -> Result<()> {
    fn counts<T: Element>(value: impl Fn(usize) -> T) -> Result<()> {
        let values: Vec<T> = (0..18).map(value).collect();
        for given in 0..18 {
            for wanted in 0..18 {
                let fits = given == wanted;
                let made = Tensor::from_slice(&values[..given], [wanted], &Cpu);
                assert_eq!(
                    (made.is_ok(), Tensor::from_vec(values[..given].to_vec(), [1, wanted]).is_ok()),
                    (fits, fits)
                );
                assert_eq!(TensorView::from_slice(&values[..given], [wanted, 1]).is_ok(), fits);
                if let Ok(x) = made {
                    assert_eq!((x.to_vec()?, x.nbytes()), (values[..given].to_vec(), given * size_of::<T>()));
                    // Strided copies of every element size end where they should: the guard of the allocator
                    // looks on.
                    let twice = x.slice(((..).step(2),))?.copy()?;
                    assert_eq!(
                        twice.to_vec()?,
                        values[..given].iter().step_by(2).copied().collect::<Vec<_>>()
                    );
                    let turned = x.reversed(Axis::<0>).copy()?.into_vec()?;
                    assert!(turned.iter().eq(values[..given].iter().rev()));
                }
            }
        }
        Ok(())
    }
    counts(|i| i as u8)?;
    counts(|i| i as i16)?;
    counts(|i| i as u32)?;
    counts(|i| i as i64)?;
    counts(|i| i % 3 == 0)?;
    counts(|i| rankform::f16::from_f32(i as f32))?;
    counts(|i| rankform::bf16::from_f32(i as f32))?;
    counts(|i| i as f32)?;
    counts(|i| i as f64)?;
    counts(|i| num_complex::Complex::new(i as f32, 1.0))?;
    counts(|i| num_complex::Complex::new(i as f64, 1.0))
}

// ---------------------------------------------------------------- nothing, through everything

const EMPTY: [[usize; 3]; 5] = [[0, 3, 2], [3, 0, 2], [3, 2, 0], [0, 0, 0], [1, 0, 1]];

fn empty_unary<F: Op<(f32,)> + Copy>(f: F) -> Result<()> {
    for size in EMPTY {
        let x = Tensor::<f32, 3>::zeros(size, &Cpu)?;
        for view in
            [x.view(), x.transposed().transposed(), x.reversed(Axis::<1>), x.slice((.., .., (..).step(2)))?]
        {
            assert_eq!((view.map(f)?.size(), view.lazy().map(f).eval()?.numel()), (view.size(), 0));
        }
    }
    Ok(())
}

fn empty_binary<F: Op<(f32, f32)> + Copy>(f: F) -> Result<()> {
    for size in EMPTY {
        let x = Tensor::<f32, 3>::zeros(size, &Cpu)?;
        assert_eq!((x.zip(f, &x)?.size(), x.zip(f, 1.0)?.size()), (Dim(size), Dim(size)));
        assert_eq!(x.zip(f, x.reversed(Axis::<0>))?.size(), size);
        let stretched = Tensor::<f32, 3>::ones(size.map(|size| size.min(1)), &Cpu)?;
        assert_eq!(x.zip(f, &stretched)?.size(), size);
    }
    Ok(())
}

#[test]
fn row_23_no_elements_through_every_operator() -> Result<()> {
    macro_rules! each {
        ($test:ident: $($F:ident)*) => { $($test(ops::$F)?;)* };
    }
    each!(empty_unary: Neg Square Recip Abs Signum Exp Exp2 ExpM1 Ln Log2 Log10 Ln1p Sin Cos Tan Asin Acos
        Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Erfc Sqrt Rsqrt Cbrt Round Floor Ceil Trunc Relu Sigmoid
        LogSigmoid Silu Softplus Gelu GeluTanh Mish Elu Softsign HardSigmoid IsNan IsFinite IsInfinite);
    each!(empty_binary: Add Sub Mul Div Rem Maximum Minimum Atan2 Powf Hypot Copysign LeakyRelu Equal NotEqual
        Less LessEqual Greater GreaterEqual);
    let through_all = || -> Result<()> {
        for size in EMPTY {
            let mut x = Tensor::<f32, 3>::zeros(size, &Cpu)?;
            let kept = [size[1], size[2]];
            let (flags, whole) = (x.cast::<bool>()?, x.cast::<i32>()?);
            for n in [
                Arithmetic::not(&flags)?.numel(),
                whole.bit_xor(3)?.numel(),
                flags.select(&x, 1.0)?.numel(),
                whole.rem(0)?.numel(),
            ] {
                assert_eq!(n, 0);
            }
            assert_eq!(
                (x.sum(Axis::<0>)?.size(), x.prod(Axis::<0>)?.size(), x.mean(Axis::<0>)?.size()),
                (Dim(kept), Dim(kept), Dim(kept))
            );
            assert_eq!(
                (x.var(Axis::<0>)?.size(), flags.any(Axis::<0>)?.size(), flags.count(All)?.item()?),
                (Dim(kept), Dim(kept), 0)
            );
            assert_eq!(
                (x.sum(All)?.item()?, x.prod(All)?.item()?, flags.all(All)?.item()?),
                (0.0, 1.0, true)
            );
            for extreme in [
                x.max(Axis::<0>),
                x.min(Axis::<0>),
                x.argmax(Axis::<0>).and_then(|at| at.cast()),
                x.argmin(Axis::<0>).and_then(|at| at.cast()),
            ] {
                match size[0] == 0 && !kept.contains(&0) {
                    true => refused!(extreme, Error::Empty { .. }),
                    false => assert_eq!(extreme?.size(), kept),
                }
            }
            assert_eq!(
                (x.softmax(Axis::<1>)?.size(), x.log_softmax(Axis::<1>)?.size()),
                (Dim(size), Dim(size))
            );
            assert_eq!(x.layer_norm(Axis::<1>, 1e-5)?.size(), size);
            assert_eq!(x.matmul(x.permuted([0, 2, 1])?)?.size(), [size[0], size[1], size[1]]);
            x.fill(1.0)?;
            x.assign(&Tensor::<f32, 3>::zeros(size, &Cpu)?)?;
            x.map_in_place(ops::Exp)?;
            x += 1.0;
            assert_eq!(
                (
                    x.as_slice().map(<[f32]>::len),
                    x.data_mut()?.len(),
                    x.view_mut()?.as_slice_mut().map(|x| x.len())
                ),
                (Some(0), 0, Some(0))
            );
            assert_eq!(
                (x.to_vec()?, x.copy()?.into_vec()?, x.share_data().into_vec()?),
                (vec![], vec![], vec![])
            );
            assert_eq!(x.to(&Cpu)?.size(), size);
            assert!(x.make_unique().is_ok() && !x.layout().may_overlap() && x.layout().is_contiguous());
            Tensor::from_cells(x.into_cells()?)?.view_mut()?.chunks_mut(Axis::<1>, 1)?.for_each(drop);
        }
        Ok(())
    };
    through_all()?; // programs that are interpreted are compiled to bytecode, which stays
    let before = live_here();
    through_all()?;
    assert_eq!(live_here(), before);
    // A foreign null pointer for no elements is fine, and goes back as it came.
    let (sent, got) = std::sync::mpsc::channel();
    // SAFETY: no elements.
    let none = unsafe {
        Tensor::<f64, 2>::from_external(std::ptr::null_mut(), [0, 5], &Cpu, move |p, n| {
            sent.send((p.addr(), n)).unwrap()
        })
    }?;
    assert_eq!(
        (none.to_vec()?, none.as_slice().map(<[f64]>::len), none.exp()?.numel()),
        (vec![], Some(0), 0)
    );
    drop(none);
    assert_eq!(got.try_iter().collect::<Vec<_>>(), [(0, 0)]);
    Ok(())
}

#[test]
fn no_elements_are_no_elements_wherever_they_began() {
    // Sizes larger than the memory, with a negative stride: the first element is the last one in memory.
    let mut x = Tensor::<f32, 2>::empty([5, 9], &Cpu).unwrap().into_reversed(Axis::<0>).unwrap();
    x.shrink_to(0).unwrap();
    assert_eq!(x.into_transposed().unwrap().to_vec().unwrap(), []);
    let mut x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).into_slice((1.., ..)).unwrap();
    x.shrink_to(0).unwrap();
    x.release_memory().unwrap();
    x.extend(2, 0).unwrap();
    assert_eq!(x.into_slice(((..).step(-1), 1)).unwrap().to_vec().unwrap(), [0.0, 0.0]);
}
