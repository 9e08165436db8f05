//! Matrix products of every pair of ranks, every element, every kind of layout, against three loops.
//!
//! Floats may be off by the usual bound of a dot product: one unit, times the length, times the magnitudes'
//! product.

use crate::is_sampled;
use crate::value::{Exact, Random, Value};
use num_complex::Complex;
use rankform::prelude::*;
use rankform::{bf16, f16};

/// Complex numbers serve for all: whole and real ones have no imaginary part.
fn number<T: Value>(x: T) -> Complex<f64> {
    match x.exact() {
        Exact::Real(x) => Complex::new(x, 0.0),
        Exact::Integer(x) => Complex::new(x as f64, 0.0),
        Exact::Complex(re, im) => Complex::new(re, im),
        Exact::BoolElement(_) => unreachable!(),
    }
}

/// The value of an integer.
fn integer<T: Value>(x: T) -> i128 {
    if let Exact::Integer(x) = x.exact() { x } else { unreachable!() }
}

/// The rows of stacks of matrices, one after the other.
fn rows<T: Element, N>(x: TensorView<T, 4>, of: impl Fn(T) -> N) -> Vec<Vec<N>> {
    let [p, q, m, k] = x.size().0;
    Dim([p, q, m]).indices().map(|[b, c, i]| (0..k).map(|l| of(x[[b, c, i, l]])).collect()).collect()
}

/// Checks one product of stacks of matrices, all of rank 4 with batches that stretch.
fn check<T: Value>(found: &[T], left: TensorView<T, 4>, right: TensorView<T, 4>, what: &str) {
    let ([p, q, m, k], [r, s, _, n]) = (left.size().0, right.size().0);
    let pick = |size: usize, index: usize| if size == 1 { 0 } else { index };
    let stretch = |a: usize, b: usize| if a == 1 { b } else { a };
    let size = [stretch(p, r), stretch(q, s), m, n];
    assert_eq!(found.len(), size.iter().product::<usize>(), "{what}");
    let columns = right.permuted([0, 1, 3, 2]).unwrap();
    let row = |[b, c, i, _]: [usize; 4]| (pick(p, b) * q + pick(q, c)) * m + i;
    let column = |[b, c, _, j]: [usize; 4]| (pick(r, b) * s + pick(s, c)) * n + j;
    if found.first().is_some_and(|x| matches!(x.exact(), Exact::Integer(_))) {
        let (left, right) = (rows(left, integer), rows(columns, integer));
        for (at, found) in Dim(size).indices().zip(found) {
            let terms = left[row(at)].iter().zip(&right[column(at)]);
            let truth = terms.fold(0i128, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)));
            let error = integer(*found).wrapping_sub(truth) % (1 << (8 * size_of::<T>()));
            assert_eq!(error, 0, "{what} {at:?}");
        }
        return;
    }
    let sized = |x: T| (number(x), number(x).norm());
    let (left, right) = (rows(left, sized), rows(columns, sized));
    for (at, found) in Dim(size).indices().zip(found) {
        let (mut truth, mut sizes) = (Complex::new(0.0, 0.0), 0.0);
        for ((x, of_x), (y, of_y)) in left[row(at)].iter().zip(&right[column(at)]) {
            truth += x * y;
            sizes += of_x * of_y;
        }
        // 16-bit floats are accumulated in f32 and rounded once.
        let unit = 2f64.powi(-T::FRACTION);
        let bound =
            if T::FRACTION < 23 { unit * truth.norm() + 1e-6 * sizes } else { unit * k as f64 * sizes };
        assert!(
            (number(*found) - truth).norm() <= 2.0 * bound + T::LEAST,
            "{what} {at:?}: {found}, not {truth}"
        );
    }
}

/// A matrix of rank 4 in one of several layouts, with the sizes asked for.
fn operand<T: Value>(size: [usize; 4], kind: usize, random: &mut Random) -> Tensor<T, 4> {
    let [b, c, m, n] = size;
    let mut fresh = |size: [usize; 4]| Tensor::from_fn(size, |_| T::moderate(random), &Cpu).unwrap();
    match kind {
        0 => fresh(size),
        1 => fresh([b, c, n, m]).into_permuted([0, 1, 3, 2]).unwrap(),
        2 => fresh(size).into_reversed(Axis::<2>).unwrap().into_reversed(Axis::<3>).unwrap(),
        3 => fresh([b, c, 2 * m + 1, 3 * n + 2])
            .into_slice((.., .., (1..2 * m + 1).step(2), (2..).step(3)))
            .unwrap(),
        4 => fresh([n, c, b, m]).into_permuted([2, 1, 3, 0]).unwrap(),
        5 => fresh([b, c, 1, n]).into_broadcast(size).unwrap(),
        6 => fresh([b, c, m, 1]).into_broadcast(size).unwrap(),
        _ => fresh([b, 1, n, m])
            .into_broadcast([b, c, n, m])
            .unwrap()
            .into_permuted([0, 1, 3, 2])
            .unwrap()
            .into_reversed(Axis::<3>)
            .unwrap(),
    }
}
const KINDS: usize = 8;

/// Products of rank 4, and of their first matrices and vectors at every lower rank.
fn products<T: Value + Number>(size: [usize; 3], kinds: [usize; 2]) -> Result<()> {
    let ([m, k, n], mut random) = (size, Random(31));
    let what = format!("{} {size:?} {kinds:?}", T::DTYPE);
    let (x, y) = (
        operand::<T>([1, 1, m, k], kinds[0], &mut random),
        operand::<T>([1, 1, k, n], kinds[1], &mut random),
    );
    let (a, b) = (x.slice((0, 0, .., ..))?, y.slice((0, 0, .., ..))?);
    let matrix = a.matmul(b)?;
    assert_eq!(matrix.size(), [m, n], "{what}");
    check(&matrix.to_vec()?, x.view(), y.view(), &what);
    if m > 0 && n > 0 {
        let (row, column) = (a.slice((m - 1, ..))?, b.slice((.., n - 1))?);
        let (last, first) = (x.slice((.., .., m - 1..m, ..))?, y.slice((.., .., .., n - 1..n))?);
        let (dot, left, right) = (row.matmul(column)?, a.matmul(column)?, row.matmul(b)?);
        check(&[dot.item()?], last, first, &format!("{what} 1 · 1"));
        assert_eq!((left.size(), right.size()), (dim![m], dim![n]));
        check(&left.to_vec()?, x.view(), first, &format!("{what} 2 · 1"));
        check(&right.to_vec()?, last, y.view(), &format!("{what} 1 · 2"));
    }
    Ok(())
}

fn every_layout<T: Value + Number>() -> Result<()> {
    // Below and above a tile of 4 · 16 and, the last, the size from which the library is asked.
    for (at, size) in [[5, 7, 18], [4, 1, 16], [1, 5, 1], [3, 0, 2], [0, 2, 3], [2, 3, 0], [17, 18, 19]]
        .into_iter()
        .enumerate()
    {
        for left in 0..KINDS {
            for right in (0..KINDS).filter(|right| is_sampled(at + left + right, 8)) {
                if size[0] < 17 || (left + right + at) % 2 == 0 {
                    products::<T>(size, [left, right])?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn products_of_integers_wrap_and_are_exact_on_every_layout() -> Result<()> {
    every_layout::<i8>()?;
    every_layout::<i32>()?;
    every_layout::<u64>()?;
    for kinds in [[0, 0], [1, 3], [2, 5]] {
        products::<i16>([9, 40, 20], kinds)?;
        products::<i64>([9, 40, 20], kinds)?;
        products::<u8>([9, 40, 20], kinds)?;
        products::<u16>([9, 40, 20], kinds)?;
        products::<u32>([9, 40, 20], kinds)?;
    }
    let x = Tensor::full([3, 3], i32::MAX, &Cpu)?;
    assert_eq!(x.matmul(&x)?[[1, 2]], i32::MAX.wrapping_mul(i32::MAX).wrapping_mul(3));
    Ok(())
}

#[test]
fn products_of_floats_stay_within_their_bound_on_every_layout() -> Result<()> {
    every_layout::<f32>()?;
    every_layout::<f64>()?;
    every_layout::<f16>()?;
    every_layout::<bf16>()
}

#[test]
fn products_of_complex_numbers_stay_within_their_bound_on_every_layout() -> Result<()> {
    every_layout::<Complex<f32>>()?;
    every_layout::<Complex<f64>>()
}

#[test]
fn long_and_skinny_products_stay_within_their_bound() -> Result<()> {
    for size in
        [[1, 5000, 1], [1, 300, 40], [40, 300, 1], [70, 2, 70], [65, 66, 67], [2, 2000, 3], [33, 129, 17]]
    {
        products::<f32>(size, [0, 0])?;
        products::<f32>(size, [1, 2])?;
        products::<f64>(size, [3, 1])?;
        products::<bf16>(size, [0, 1])?;
    }
    Ok(())
}

/// Products of small whole numbers, which every order of summation gives exactly: tiles of one to four
/// vectors, whole and partial, sums over several blocks of `k`, contiguous and strided operands and results.
#[test]
fn products_of_every_width_are_exact_on_every_layout() -> Result<()> {
    fn width<T: Value + Number>([m, k, n]: [usize; 3], kinds: [usize; 2], strided: bool) -> Result<()> {
        let what = format!("{} [{m}, {k}, {n}] {kinds:?} {strided}", T::DTYPE);
        let mut random = Random(41);
        let mut whole =
            |size: [usize; 2]| Tensor::from_fn(size, |_| (random.bits() % 5) as f32 - 2.0, &Cpu)?.cast::<T>();
        let mut operand = |[rows, columns]: [usize; 2], kind: usize| match kind {
            0 => whole([rows, columns]),
            1 => whole([columns, rows])?.into_transposed(),
            2 => whole([rows, columns + 3])?.into_slice((.., 2..columns + 2)),
            _ => whole([2 * rows, 3 * columns])?
                .into_slice(((..).step(2), (..).step(3)))?
                .into_reversed(Axis::<0>),
        };
        let (x, y) = (operand([m, k], kinds[0])?, operand([k, n], kinds[1])?);
        let product = if strided {
            let mut all = Tensor::<T, 2>::zeros([n, 2 * m], &Cpu)?;
            x.matmul_into(&y, all.view_mut()?.slice((.., (..).step(2)))?.transposed())?;
            all.into_slice((.., (..).step(2)))?.into_transposed()?.to_contiguous()?
        } else {
            x.matmul(&y)?
        };
        let (x, y, product) =
            (x.cast::<f32>()?.to_vec()?, y.cast::<f32>()?.to_vec()?, product.cast::<f32>()?.to_vec()?);
        // Of many rows some, and the last.
        let step = if m * k * n < 1 << 20 { 1 } else { 37 };
        for (i, row) in product.chunks(n).enumerate().filter(|(i, _)| i % step == 0 || i + 1 == m) {
            let mut sums = vec![0.0f32; n];
            for (x, y) in x[i * k..(i + 1) * k].iter().zip(y.chunks(n)) {
                sums.iter_mut().zip(y).for_each(|(sum, y)| *sum += x * y);
            }
            assert_eq!(row, sums, "{what}, row {i}");
        }
        Ok(())
    }
    for n in [33, 48, 50, 64, 65, 96, 112, 200] {
        for (at, [m, k]) in [[2, 40], [6, 5], [13, 60], [30, 33], [47, 50]].into_iter().enumerate() {
            for left in (0..4).filter(|left| is_sampled(n + at + left, 8)) {
                width::<f32>([m, k, n], [left, (left + at) % 4], at == 2)?;
                width::<f64>([m, k, n / 2], [left, (left + at) % 4], at == 2)?;
                width::<f16>([m, k, n], [left, (left + at) % 4], at == 2)?;
                width::<bf16>([m, k, n], [left, (left + at) % 4], at == 2)?;
                width::<i8>([m, k, n], [left, (left + at) % 4], at == 2)?;
            }
        }
    }
    // Sums that wait for the rest of `k`, blocks of rows, and right operands beyond the second cache.
    let large: &[[usize; 3]] =
        if cfg!(rankform_through_cuda) { &[] } else { &[[250, 700, 70], [7, 1100, 130], [259, 890, 900]] };
    for (at, &size) in large.iter().enumerate() {
        for left in (0..4).filter(|left| is_sampled(at + left, 8)) {
            width::<f32>(size, [left, (left + at) % 4], left == 1)?;
            width::<f64>(size, [left, (left + at) % 4], left == 1)?;
        }
    }
    Ok(())
}

/// Products of bytes and of bf16 in wider elements, which are exact here: sizes next to those of tiles (16,
/// 32 and 240 rows, 16 and 32 columns, 32 and 64 along `k`, blocks of 1024 and 2048), both operands in rows
/// and in columns.
#[test]
fn wide_products_are_exact_near_the_edges_of_tiles() -> Result<()> {
    let (rows, columns) = ([1, 2, 15, 16, 17, 31, 32, 33, 50, 241], [2, 15, 16, 17, 31, 32, 33, 50, 65]);
    let deep = [1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 130, 1027, 2051];
    let mut random = Random(43);
    let mut case = 0;
    for m in rows {
        for n in columns {
            case += 1;
            let ks = if m * n < 300 {
                &deep[..]
            } else {
                &deep[case % 3..deep.len() - 2 + usize::from(case % 7 == 0)]
            };
            for (at, &k) in ks.iter().enumerate().filter(|(at, _)| m * n < 300 || (at + case) % 3 == 0) {
                if !is_sampled(at + case, 7) {
                    continue;
                }
                let turned = [(case + at) % 2 == 1, (case + at) / 2 % 2 == 1];
                let mut bytes = |[rows, columns]: [usize; 2], turned: bool| {
                    let stands = if turned { [columns, rows] } else { [rows, columns] };
                    Tensor::from_fn(stands, |_| random.bits() as i8, &Cpu)
                };
                let (x, y) = (bytes([m, k], turned[0])?, bytes([k, n], turned[1])?);
                macro_rules! product {
                    ($T:ty, $wide:ty) => {{
                        let (x, y) = (x.cast::<$T>()?, y.cast::<$T>()?);
                        let x = if turned[0] { x.transposed() } else { x.view() };
                        let y = if turned[1] { y.transposed() } else { y.view() };
                        let expected = x.cast::<f64>()?.matmul(&y.cast::<f64>()?)?;
                        let product: Tensor<$wide, 2> = x.matmul_wide(y)?;
                        assert!(
                            product.cast::<f64>()?.to_vec()? == expected.to_vec()?,
                            "{} [{m}, {k}, {n}] {turned:?}",
                            <$T>::DTYPE
                        );
                    }};
                }
                product!(i8, i32);
                product!(u8, u32);
                if k < 900 {
                    product!(bf16, f32); // sums below 2²⁴
                }
            }
        }
    }
    Ok(())
}

/// Sides up to 16 have a loop of their own, over 16, 8, 4 columns and single ones.
#[test]
fn small_products_are_right_for_every_number_of_columns() -> Result<()> {
    for n in (1..=17).filter(|n| is_sampled(n + 3, 4)) {
        for kinds in [[0, 0], [1, 2], [3, 5], [6, 7]] {
            products::<i32>([3, 5, n], kinds)?;
            products::<u64>([16, 16, n], kinds)?;
            products::<f32>([n, 4, 16], kinds)?;
            products::<f64>([2, n, n], kinds)?;
        }
    }
    Ok(())
}

#[test]
fn stacks_of_matrices_stretch_where_a_batch_is_1() -> Result<()> {
    fn stacks<T: Value + Number>() -> Result<()> {
        let mut random = Random(33);
        for (left, right) in
            [([2, 3], [2, 3]), ([1, 3], [2, 1]), ([2, 1], [1, 1]), ([1, 1], [3, 2]), ([0, 2], [1, 2])]
        {
            for (m, k, n) in [(3, 4, 5), (1, 2, 3), (17, 17, 17), (2, 0, 2)] {
                for kind in (0..KINDS).filter(|kind| is_sampled(m + kind, 4)) {
                    let x = operand::<T>([left[0], left[1], m, k], kind, &mut random);
                    let y = operand::<T>([right[0], right[1], k, n], (kind + 3) % KINDS, &mut random);
                    let what = format!("{} {left:?} {right:?} [{m}, {k}, {n}] {kind}", T::DTYPE);
                    let product = x.matmul(&y)?;
                    assert_eq!(
                        product.size(),
                        [left[0].max(right[0]) * left[0].min(1), left[1].max(right[1]), m, n],
                        "{what}"
                    );
                    check(&product.to_vec()?, x.view(), y.view(), &what);
                    if left[0] == 2 && right[0] == 2 {
                        // The same, of rank 3.
                        let (x, y) = (x.slice((1, .., .., ..))?, y.slice((1, .., .., ..))?);
                        check(&x.matmul(y)?.to_vec()?, x.lift(), y.lift(), &what);
                    }
                }
            }
        }
        Ok(())
    }
    stacks::<f32>()?;
    stacks::<Complex<f64>>()?;
    stacks::<i16>()
}

#[test]
fn infinities_and_nan_go_through_products_as_through_sums() -> Result<()> {
    for n in [3, 20] {
        let mut x = Tensor::<f64, 2>::ones([n, n], &Cpu)?;
        x.view_mut()?[[1, 2]] = f64::NAN;
        x.view_mut()?[[0, 1]] = f64::INFINITY;
        let y = x.matmul(&Tensor::eye(n, &Cpu)?)?; // ∞ · 0 is NaN
        assert!((0..n).all(|j| y[[1, j]].is_nan() && y[[0, j]].is_nan() == (j != 1)), "{y}");
        assert!((0..n).all(|j| y[[2, j]] == 1.0));
        let z = x.matmul(&Tensor::ones([n, n], &Cpu)?)?;
        assert!((0..n).all(|j| z[[1, j]].is_nan() && z[[0, j]] == f64::INFINITY));
    }
    Ok(())
}

#[test]
fn a_product_reads_operands_of_which_both_are_one_tensor() -> Result<()> {
    let x = Tensor::from_fn([20, 20], |[i, j]| (3 * i + j) as f64, &Cpu)?;
    let y = x.matmul(x.transposed())?;
    assert!(
        Dim([20, 20])
            .indices()
            .all(|[i, j]| y[[i, j]] == (0..20).map(|k| x[[i, k]] * x[[j, k]]).sum::<f64>())
    );
    Ok(())
}

#[test]
fn products_that_have_no_elements_take_no_time_however_large_their_batches() -> Result<()> {
    let x = Tensor::<f32, 3>::zeros([1 << 40, 0, 3], &Cpu)?;
    let y = Tensor::<f32, 3>::zeros([1, 3, 2], &Cpu)?;
    assert_eq!(x.matmul(&y)?.size(), [1 << 40, 0, 2]);
    Ok(())
}

#[test]
fn products_refuse_sizes_that_do_not_fit_and_have_their_sizes_without_data() -> Result<()> {
    let (x, y) = (Tensor::<f32, 2>::zeros([2, 3], &Cpu)?, Tensor::<f32, 2>::zeros([4, 5], &Cpu)?);
    assert_eq!(x.matmul(&y).unwrap_err().to_string(), "matmul: inner sizes 3 and 4 differ: [2, 3] · [4, 5]");
    let (x, y) = (Tensor::<f32, 3>::zeros([2, 2, 3], &Cpu)?, Tensor::<f32, 3>::zeros([3, 3, 2], &Cpu)?);
    assert_eq!(
        x.matmul(&y).unwrap_err().to_string(),
        "matmul: sizes [2, 2, 3] and [3, 3, 2] do not broadcast"
    );
    let waiting = Tensor::<f32, 3>::empty([2, 2, 3], &Cpu)?;
    assert!(matches!(waiting.matmul(&x), Err(Error::Unallocated { .. })));
    let device = Meta::tracing();
    let (x, y) = (
        Tensor::<f32, 4, _>::zeros([2, 1, 3, 4], &device)?,
        Tensor::<f32, 4, _>::zeros([1, 5, 4, 6], &device)?,
    );
    let z = x.matmul(&y)?;
    assert_eq!((z.size(), z.to_vec().is_err()), (dim![2, 5, 3, 6], true));
    assert_eq!(device.kernels(), ["contract f32 = f32 · f32: [2, 5] [[3], [4]] · [[4], [6]]\n"]);
    Ok(())
}

/// Products in a wider element, against sums in 128 bits.
fn wide<L: Value + Number, R: Value + rankform::WideningMul<L>>(random: &mut Random)
where
    R::Wide: Value,
{
    for [m, k, n] in [[1, 300, 1], [5, 70, 40], [13, 257, 33], [40, 5, 3], [2, 600, 64]] {
        for kinds in [[0, 0], [1, 3], [2, 1], [4, 5]] {
            let (left, right, from) = (L::samples(), R::samples(), random.below(1000));
            let a = operand_of::<L>([m, k], kinds[0], |i| left[(i * 7919 + from) % left.len()]);
            let b = operand_of::<R>([k, n], kinds[1], |i| right[(i * 104_729 + from) % right.len()]);
            let c = a.matmul_wide(&b).unwrap();
            let (rows, columns) = (rows(a.lift(), integer), rows(b.transposed().lift(), integer));
            for [i, j] in c.size().indices() {
                let truth: i128 = rows[i].iter().zip(&columns[j]).map(|(x, y)| x * y).sum();
                assert_eq!(
                    (integer(c[[i, j]]) - truth) % (1i128 << (8 * size_of::<R::Wide>())),
                    0,
                    "{} {} [{m}, {k}, {n}] {kinds:?} [{i}, {j}]",
                    L::DTYPE,
                    R::DTYPE
                );
            }
        }
    }
}

fn operand_of<T: Value>(size: [usize; 2], kind: usize, value: impl Fn(usize) -> T) -> Tensor<T, 2> {
    let [m, n] = size;
    let of = |size: [usize; 2]| Tensor::from_fn(size, |[i, j]| value(i * size[1] + j), &Cpu).unwrap();
    match kind {
        0 => of(size),
        1 => of([n, m]).into_permuted([1, 0]).unwrap(),
        2 => of(size).into_reversed(Axis::<1>).unwrap(),
        3 => of([2 * m, 3 * n]).into_slice(((..).step(2), (..).step(3))).unwrap(),
        4 => of([m, 1]).into_broadcast(size).unwrap(),
        _ => of([1, n]).into_broadcast(size).unwrap(),
    }
}

#[test]
fn wide_products_of_integers_hold_every_extreme() {
    let mut random = Random(12);
    wide::<i8, i8>(&mut random);
    wide::<u8, i8>(&mut random);
    wide::<i8, u8>(&mut random);
    wide::<u8, u8>(&mut random);
    wide::<i16, i16>(&mut random);
    wide::<u16, u16>(&mut random);
    wide::<i32, i32>(&mut random);
    wide::<u32, u32>(&mut random);
}

#[test]
fn wide_products_of_floats_are_not_rounded_to_their_factors() -> Result<()> {
    let mut random = Random(13);
    let x = Tensor::from_fn([20, 300], |_| rankform::bf16::from_f64(random.unit()), &Cpu)?;
    let y = x.matmul_wide(x.transposed())?;
    let (exact, half) = (x.cast::<f64>()?, x.cast::<rankform::f16>()?);
    let truth = exact.matmul(exact.transposed())?;
    let error = |y: Tensor<f32, 2>| (y.cast::<f64>()?.lazy() - &truth).abs().max(All)?.item();
    assert!(error(y)? < 1e-3 && error(half.matmul_wide(half.transposed())?)? < 1e-1);
    let single = x.cast::<f32>()?;
    assert!((single.matmul_wide(single.transposed())?.lazy() - &truth).abs().max(All)?.item()? < 1e-12);
    Ok(())
}

#[test]
fn a_product_never_reads_the_old_contents_of_its_memory() -> Result<()> {
    fn soiled<T: Number>(nan: T, size: [usize; 2]) -> Result<()> {
        drop(Tensor::full(size, nan, &Cpu)?); // the memory of the next tensor of this size, most likely
        Ok(())
    }
    for [m, k, n] in
        [[4, 4, 4], [64, 64, 64], [90, 600, 70], [57, 300, 31], [100, 1, 100], [60, 5000, 1], [33, 0, 65]]
    {
        let (x, y) = (Tensor::<f32, 2>::ones([m, k], &Cpu)?, Tensor::<f32, 2>::ones([k, n], &Cpu)?);
        let (a, b) = (x.cast::<bf16>()?, y.cast::<bf16>()?);
        for _ in 0..3 {
            soiled(f32::NAN, [m, n])?;
            assert!(x.matmul(&y)?.to_vec()?.iter().all(|&value| value == k as f32), "f32 [{m}, {k}, {n}]");
            soiled(bf16::NAN, [m, n])?;
            assert!(
                a.matmul(&b)?.to_vec()?.iter().all(|&value| value == bf16::from_f64(k as f64)),
                "bf16 [{m}, {k}, {n}]"
            );
        }
    }
    Ok(())
}

/// `rows` · `columns` small whole numbers: every order of summation is exact.
fn whole(size: [usize; 2]) -> Tensor<f32, 2> {
    Tensor::from_fn(size, |[i, j]| ((i * 31 + j * 17 + i * j) % 13) as f32 - 6.0, &Cpu).unwrap()
}

/// Checks every seventh element of a product of whole numbers.
fn exact(x: TensorView<f32, 2>, y: TensorView<f32, 2>, found: TensorView<f32, 2>, what: &str) {
    let (k, n) = (x.size()[1], y.size()[1]);
    let (x, y) = (x.to_vec().unwrap(), y.to_vec().unwrap());
    for [i, j] in found.size().indices().step_by(7) {
        let truth: f32 = (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
        assert_eq!(found[[i, j]], truth, "{what} [{i}, {j}]");
    }
}

#[test]
fn few_rows_and_long_vectors_read_their_matrix_in_place() -> Result<()> {
    // Beyond the sizes of the tiny kernel; whole panels of columns and a remainder; one and several tiles of
    // rows, and one more row.
    for [m, k, n] in [
        [16, 530, 300],
        [1, 200, 9001],
        [9001, 200, 1],
        [24, 257, 128],
        [25, 257, 100],
        [13, 1030, 33],
        [3, 70, 1024],
    ] {
        let (x, y, what) = (whole([m, k]), whole([k, n]), format!("[{m}, {k}, {n}]"));
        exact(x.view(), y.view(), x.matmul(&y)?.view(), &what);
        let (left, right) = (x.transposed().copy()?, y.transposed().copy()?);
        exact(x.view(), y.view(), left.transposed().matmul(&y)?.view(), &format!("{what} of columns"));
        exact(x.view(), y.view(), x.matmul(right.transposed())?.view(), &format!("{what} by columns"));
    }
    Ok(())
}

#[test]
fn products_write_into_memory_of_any_layout_and_read_none_of_it() -> Result<()> {
    for [m, k, n] in
        [[1, 1, 1], [4, 5, 3], [33, 40, 17], [70, 300, 90], [150, 160, 170], [5, 0, 6], [16, 300, 256]]
    {
        let (x, y) = (whole([m, k]), whole([k, n]));
        let what = format!("[{m}, {k}, {n}]");
        let mut plain = Tensor::full([m, n], f32::NAN, &Cpu)?;
        x.matmul_into(&y, &mut plain.view_mut()?)?;
        exact(x.view(), y.view(), plain.view(), &what);
        let mut columns = Tensor::full([n, m], f32::NAN, &Cpu)?.into_transposed()?;
        x.view().matmul_into(y.view(), &mut columns.view_mut()?)?;
        exact(x.view(), y.view(), columns.view(), &format!("{what} into columns"));
        let mut part = Tensor::full([2 * m, 3 * n], f32::NAN, &Cpu)?;
        x.matmul_into(&y, &mut part.view_mut()?.slice(((..).step(2), (2..).step(3)))?)?;
        exact(x.view(), y.view(), part.slice(((..).step(2), (2..).step(3)))?, &format!("{what} into a part"));
        assert!(part.slice((1, ..))?.to_vec()?.iter().all(|x| x.is_nan()), "{what}: beside the part");
        let mut back =
            Tensor::full([m, n], f32::NAN, &Cpu)?.into_reversed(Axis::<0>)?.into_reversed(Axis::<1>)?;
        x.matmul_into(&y, &mut back.view_mut()?)?;
        exact(x.view(), y.view(), back.view(), &format!("{what} backwards"));
    }
    let (x, y) = (Tensor::full([2, 3], 100_i8, &Cpu)?, Tensor::full([3], -100_i8, &Cpu)?);
    let mut sums = Tensor::zeros([2], &Cpu)?;
    x.matmul_wide_into(&y, &mut sums.view_mut()?)?;
    assert_eq!(sums.to_vec()?, [-30_000, -30_000]);
    let error = x.matmul_wide_into(&y, &mut Tensor::zeros([3], &Cpu)?.view_mut()?).unwrap_err();
    assert!(matches!(error, Error::Output { op: "matmul_wide_into", .. }), "{error}");
    let error = x.matmul_wide_into(&x, &mut Tensor::zeros([2, 3], &Cpu)?.view_mut()?).unwrap_err();
    assert_eq!(error.to_string(), "matmul_wide_into: inner sizes 3 and 2 differ: [2, 3] · [2, 3]");
    Ok(())
}
