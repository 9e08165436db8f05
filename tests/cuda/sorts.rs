//! Sorts of all elements, and of lines of many lengths and layouts: several lines in a block, one line in a
//! block, lines that several blocks share.

use crate::on_gpu;
use rankform::prelude::*;
use rankform::{Comparable, Cuda, bf16, f16};

/// Numbers in no order.
fn pattern(at: usize) -> usize {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 23) % 99_991
}

/// The elements of a line and their positions, sorted by the standard library.
fn sorted<T: Copy, K: PartialOrd>(line: &[T], key: fn(T) -> K, descending: bool) -> (Vec<T>, Vec<i64>) {
    let mut order: Vec<usize> = (0..line.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = if descending { (b, a) } else { (a, b) };
        key(line[a]).partial_cmp(&key(line[b])).unwrap()
    });
    (order.iter().map(|&at| line[at]).collect(), order.iter().map(|&at| at as i64).collect())
}

fn bytes<T: bytemuck::NoUninit>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

/// Compares sorts of rows with those of the standard library, of elements bit by bit.
fn check<T: Comparable + bytemuck::NoUninit, K: PartialOrd>(
    gpu: &Cuda,
    [rows, columns]: [usize; 2],
    of: fn(usize) -> T,
    key: fn(T) -> K,
) -> Result<()> {
    let elements: Vec<T> = (0..rows * columns).map(|at| of(pattern(at + columns))).collect();
    let x = Tensor::from_vec(elements.clone(), [rows, columns])?.to(gpu)?;
    let shape = format!("{rows} × {columns} of {}", T::DTYPE);
    let expected = |descending| {
        let lines: (Vec<_>, Vec<_>) =
            elements.chunks(columns.max(1)).map(|line| sorted(line, key, descending)).unzip();
        (lines.0.concat(), lines.1.concat())
    };
    for (descending, (values, positions)) in
        [(false, x.bottomk(Axis::<1>, columns)?), (true, x.topk(Axis::<1>, columns)?)]
    {
        let (expected_values, expected_positions) = expected(descending);
        assert_eq!(positions.to_vec()?, expected_positions, "{shape}");
        assert!(bytes(&values.to_vec()?) == bytes(&expected_values), "{shape}");
    }
    let ascending = expected(false);
    assert!(bytes(&x.sort(Axis::<1>)?.to_vec()?) == bytes(&ascending.0), "{shape}");
    Ok(())
}

/// A test of one element type: its element from a number, and a key in its order.
macro_rules! lines_of_all_lengths {
    ($($name:ident: $t:ty, $of:expr, $key:expr;)*) => { $(
        on_gpu!($name, |gpu| {
            for shape in [
                [3, 1],
                [5, 2],
                [70, 37],
                [2, 1024],
                [3, 1500],
                [2, 2048],
                [2, 2049],
                [1, 4096],
                [2, 4097],
                [1, 20_001],
            ] {
                check::<$t, _>(gpu, shape, $of, $key)?;
            }
        });
    )* };
}

/// The key of a float: NaN is the largest.
fn number(x: f64) -> (bool, f64) {
    if x.is_nan() { (true, 0.0) } else { (false, x) }
}

/// Floats of both signs, many of them equal, with both zeros, infinities and NaN of several bits.
macro_rules! float {
    ($t:ty, $bits:ty, $from:expr) => {
        |at| match at % 23 {
            0 => $from(0.0),
            1 => $from(-0.0),
            2 => $from(f32::INFINITY),
            3 => $from(f32::NEG_INFINITY),
            4 => <$t>::from_bits($from(f32::NAN).to_bits() + (at % 5) as $bits),
            5 => <$t>::from_bits(1 + (at % 3) as $bits),
            _ => $from((at as f32 - 50_000.0) / 37.0),
        }
    };
}

lines_of_all_lengths! {
    lines_of_bool: bool, |at| at % 3 == 0, |x| x;
    lines_of_u8: u8, |at| at as u8, |x| x;
    lines_of_i8: i8, |at| at as i8, |x| x;
    lines_of_u16: u16, |at| at as u16, |x| x;
    lines_of_i16: i16, |at| (at as i16).wrapping_mul(3), |x| x;
    lines_of_u32: u32, |at| (at as u32).wrapping_mul(1 << 17 | 1), |x| x;
    lines_of_i32: i32, |at| (at as i32 % 501).wrapping_mul(10_000_019), |x| x;
    lines_of_u64: u64, |at| (at as u64).wrapping_mul(1 << 50 | 1), |x| x;
    lines_of_i64: i64, |at| at as i64 % 301 - 150, |x| x;
    lines_of_f16: f16, float!(f16, u16, f16::from_f32), |x| number(f64::from(x.to_f32()));
    lines_of_bf16: bf16, float!(bf16, u16, bf16::from_f32), |x| number(f64::from(x.to_f32()));
    lines_of_f32: f32, float!(f32, u32, |x: f32| x), |x| number(f64::from(x));
    lines_of_f64: f64, float!(f64, u64, f64::from), number;
}

on_gpu!(groups_of_short_lines_and_their_borders, |gpu| {
    for shape in [
        [0, 5],
        [5, 0],
        [257, 1],
        [600, 2],
        [1000, 3],
        [513, 4],
        [300, 5],
        [129, 31],
        [33, 256],
        [9, 257],
        [5, 513],
        [3, 1023],
        [2, 1025],
        [1, 1],
    ] {
        check::<f32, _>(gpu, shape, |at| at as f32 % 17.0, |x| x)?;
    }
});

/// Sorts of a view, on any device.
fn results<D: Device>(x: TensorView<'_, i16, 2, D>) -> Result<(Vec<i16>, Vec<i64>, Vec<i16>, Vec<i64>)> {
    let (middle, place) = x.median(Axis::<1>)?;
    let (sorted, order) = (x.sort(Axis::<1>)?, x.argsort_descending(Axis::<1>)?);
    Ok((sorted.to_vec()?, order.to_vec()?, middle.to_vec()?, place.to_vec()?))
}

/// Views of 40 lines: with a step, reversed, transposed, from an odd address, broadcast.
fn views<D: Device>(x: &Tensor<i16, 3, D>) -> Result<Vec<TensorView<'_, i16, 2, D>>> {
    let columns = x.size().0[1];
    Ok(vec![
        x.slice((.., .., 0))?,
        x.slice((.., .., 1))?.reversed_axis(1)?,
        x.slice((.., .., 1))?.slice_axis(1, 1..columns, 3)?,
        x.view().reshape([columns, 80])?.transposed().slice_axis(0, 0..40, 1)?,
        x.view().reshape([columns, 80])?.transposed().slice_axis(0, 0..80, 2)?.reversed_axis(1)?,
        x.view().reshape([40, 2 * columns])?.slice_axis(1, 1..columns, 1)?,
        x.view().reshape([40, 2 * columns])?.slice_axis(1, 0..1, 1)?.broadcast_to([40, columns])?,
    ])
}

on_gpu!(a_line_of_many_tiles, |gpu| {
    check::<f32, _>(gpu, [1, 140_000], |at| at as f32 * 0.25 - 9000.0, |x| x)?;
});

on_gpu!(strided_reversed_and_transposed_lines, |gpu| {
    for columns in [40, 1100, 4500] {
        let x =
            Tensor::from_fn([40, columns, 2], |[i, j, k]| (pattern(i * columns + j) % 401 + k) as i16, &Cpu)?;
        let y = x.to(gpu)?;
        for (at, (on_gpu, on_cpu)) in views(&y)?.into_iter().zip(views(&x)?).enumerate() {
            assert_eq!(results(on_gpu)?, results(on_cpu)?, "view {at} of {columns} columns");
        }
    }
    // Results with strides of their own, of lines along each axis.
    let x = Tensor::from_fn([40, 5, 60], |[i, j, k]| pattern(i * 300 + j * 60 + k) as f32, &Cpu)?;
    let y = x.to(gpu)?;
    macro_rules! along {
        ($axis:literal, $size:expr) => {
            let (mut values, mut places) =
                (Tensor::<f32, 3, _>::zeros($size, gpu)?, Tensor::<i64, 3, _>::zeros($size, gpu)?);
            y.topk_into(
                Axis::<$axis>,
                4,
                values.view_mut()?.permuted([2, 1, 0])?,
                places.view_mut()?.permuted([2, 1, 0])?,
            )?;
            let (expected, order) = x.topk(Axis::<$axis>, 4)?;
            assert_eq!(values.permuted([2, 1, 0])?.to_vec()?, expected.to_vec()?);
            assert_eq!(places.permuted([2, 1, 0])?.to_vec()?, order.to_vec()?);
        };
    }
    along!(0, [60, 5, 4]);
    along!(1, [60, 4, 40]);
    along!(2, [4, 5, 40]);
});

on_gpu!(long_lines_whose_keys_share_digits, |gpu| {
    let keys: [fn(usize) -> i64; 5] = [
        |_| 7,
        |at| (at % 2) as i64 * 255,
        |at| (pattern(at) as i64 - 50_000) << 20,
        |at| (pattern(at) as i64 % 100) << 56 | 5,
        |at| pattern(at) as i64,
    ];
    for of in keys {
        let x = Tensor::from_fn([2, 6001], |[i, j]| of(i * 6001 + j), &Cpu)?;
        let y = x.to(gpu)?;
        assert_eq!(y.sort(Axis::<1>)?.to_vec()?, x.sort(Axis::<1>)?.to_vec()?);
        assert_eq!(y.argsort_descending(Axis::<1>)?.to_vec()?, x.argsort_descending(Axis::<1>)?.to_vec()?);
    }
    // One line has equal keys, and the other has not.
    let x = Tensor::from_fn([2, 9000], |[i, j]| i as u32 * pattern(j) as u32, &Cpu)?;
    assert_eq!(x.to(gpu)?.argsort(Axis::<1>)?.to_vec()?, x.argsort(Axis::<1>)?.to_vec()?);
});

on_gpu!(parts_of_the_order, |gpu| {
    let x = Tensor::from_fn([3, 30_000], |[i, j]| pattern(i * 30_000 + j) as f32, &Cpu)?;
    let y = x.to(gpu)?;
    let ((a, b), (c, d)) = (y.topk(Axis::<1>, 10)?, x.topk(Axis::<1>, 10)?);
    assert_eq!((a.to_vec()?, b.to_vec()?), (c.to_vec()?, d.to_vec()?));
    let ((a, b), (c, d)) = (y.median(Axis::<1>)?, x.median(Axis::<1>)?);
    assert_eq!((a.to_vec()?, b.to_vec()?), (c.to_vec()?, d.to_vec()?));
    let (found, expected) = (y.unique_all()?, x.unique_all()?);
    assert_eq!(found.values.to_vec()?, expected.values.to_vec()?);
    assert_eq!(found.positions.to_vec()?, expected.positions.to_vec()?);
    assert_eq!(found.counts.to_vec()?, expected.counts.to_vec()?);
    assert_eq!(found.inverse.to_vec()?, expected.inverse.to_vec()?);
});

on_gpu!(kernels_of_a_sort, |gpu| {
    let launches = |work: &dyn Fn() -> Result<()>| {
        let before = gpu.statistics().launches;
        work()?;
        Ok::<usize, Error>(gpu.statistics().launches - before)
    };
    let rows = Tensor::<f32, 2>::zeros([6, 2048], &Cpu)?.to(gpu)?;
    assert_eq!(launches(&|| rows.sort(Axis::<1>).map(drop))?, 1);
    let line = Tensor::<f32, 1>::zeros([5000], &Cpu)?.to(gpu)?;
    assert_eq!(launches(&|| line.argsort(Axis::<0>).map(drop))?, 12);
    // Columns are sorted as rows between two copies.
    let columns = Tensor::<f32, 2>::zeros([100, 100], &Cpu)?.to(gpu)?;
    assert_eq!(launches(&|| columns.sort(Axis::<0>).map(drop))?, 3);
});
