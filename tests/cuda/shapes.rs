//! Reductions and programs by rows of many shapes: short and long rows, vectors and single elements, rows
//! that threads of one warp, of several warps and of several blocks share.

use crate::on_gpu;
use rankform::prelude::*;
use rankform::{Cuda, Element, bf16, f16};

/// Numbers of −8 to 8, in no order, whose sums are exact in every element.
fn pattern(at: usize) -> i32 {
    (at.wrapping_mul(2654435761) >> 7) as i32 % 9 - (at % 5) as i32 + 1
}

/// Rows and columns: at the borders of vectors, warps, blocks and parts.
const SHAPES: &[[usize; 2]] = &[
    [1, 9000],
    [3, 5000],
    [64, 130],
    [64, 128],
    [63, 132],
    [300, 33],
    [2100, 4],
    [2101, 5],
    [9000, 1],
    [1203, 8],
    [70, 1024],
    [5, 4096],
    [2, 20_000],
    [601, 17],
    [4097, 2],
];

macro_rules! sums_and_extremes {
    ($name:ident, $t:ty, $of:expr) => {
        on_gpu!($name, |gpu| {
            let of: fn(i32) -> $t = $of;
            for &[rows, columns] in SHAPES {
                let x = Tensor::from_fn([rows, columns + 1], |[i, j]| of(pattern(i * columns + j)), &Cpu)?;
                let y = x.to(gpu)?;
                // All columns, and parts that begin at an odd address or have a step.
                for (first, step) in [(0, 1), (1, 1), (0, 2)] {
                    let parts = first..columns + first;
                    let (x, y) = (x.slice_axis(1, parts.clone(), step)?, y.slice_axis(1, parts, step)?);
                    let shape = format!("{rows} × {columns} from {first} by {step}");
                    assert_eq!(y.sum(Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?, "rows of {shape}");
                    assert_eq!(
                        y.sum(Axis::<0>)?.to_vec()?,
                        x.sum(Axis::<0>)?.to_vec()?,
                        "columns of {shape}"
                    );
                    assert_eq!(y.sum(All)?.to_vec()?, x.sum(All)?.to_vec()?, "all of {shape}");
                    assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?, "rows of {shape}");
                    assert_eq!(
                        y.argmin(Axis::<0>)?.to_vec()?,
                        x.argmin(Axis::<0>)?.to_vec()?,
                        "columns of {shape}"
                    );
                    assert_eq!(
                        y.argmax(Axis::<1>)?.to_vec()?,
                        x.argmax(Axis::<1>)?.to_vec()?,
                        "rows of {shape}"
                    );
                    let (t, u) = (x.transposed(), y.transposed());
                    assert_eq!(
                        u.sum(Axis::<1>)?.to_vec()?,
                        t.sum(Axis::<1>)?.to_vec()?,
                        "transposed {shape}"
                    );
                }
            }
        });
    };
}

sums_and_extremes!(sums_and_extremes_of_i32, i32, |x| x);
sums_and_extremes!(sums_and_extremes_of_u8, u8, |x| x as u8);
sums_and_extremes!(sums_and_extremes_of_f32, f32, |x| x as f32);
sums_and_extremes!(sums_and_extremes_of_f64, f64, f64::from);
sums_and_extremes!(sums_and_extremes_of_bf16, bf16, |x| bf16::from_f32(x as f32));

on_gpu!(reductions_of_several_axes_and_operands, |gpu| {
    let x = Tensor::from_fn([24, 20, 36], |[i, j, k]| pattern(i * 720 + j * 36 + k) as f32, &Cpu)?;
    let row = Tensor::from_fn([36], |[k]| (k % 7) as f32 - 3.0, &Cpu)?;
    let column = Tensor::from_fn([24, 1, 1], |[i, _, _]| (i % 3) as f32, &Cpu)?;
    let (y, there, beside) = (x.to(gpu)?, row.to(gpu)?, column.to(gpu)?);
    assert_eq!(y.sum((Axis::<0>, Axis::<2>))?.to_vec()?, x.sum((Axis::<0>, Axis::<2>))?.to_vec()?);
    assert_eq!(y.sum((Axis::<0>, Axis::<1>))?.to_vec()?, x.sum((Axis::<0>, Axis::<1>))?.to_vec()?);
    assert_eq!(y.sum(Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?);
    assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?);
    assert_eq!(
        y.permuted([2, 0, 1])?.sum(Axis::<1>)?.to_vec()?,
        x.permuted([2, 0, 1])?.sum(Axis::<1>)?.to_vec()?
    );
    let products = (x.lazy() * row.lift() + &column).sum(Axis::<2>)?.to_vec()?;
    assert_eq!((y.lazy() * there.lift() + &beside).sum(Axis::<2>)?.to_vec()?, products);
    let products = (x.lazy() * row.lift() + &column).sum(Axis::<0>)?.to_vec()?;
    assert_eq!((y.lazy() * there.lift() + &beside).sum(Axis::<0>)?.to_vec()?, products);
});

on_gpu!(programs_by_rows_of_many_lengths, |gpu| {
    let close = |a: Vec<f32>, b: Vec<f32>, most: f32| {
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= most * b.abs().max(0.01))
    };
    for [rows, columns] in [
        [40, 300],
        [9, 1024],
        [200, 64],
        [700, 16],
        [3000, 3],
        [1301, 7],
        [2, 20_000],
        [1, 40_000],
        [33, 512],
        [20, 2048],
        [5, 4100],
        [4, 8200],
    ] {
        let shape = format!("{rows} × {columns}");
        let whole =
            Tensor::from_fn([rows, columns + 1], |[i, j]| pattern(i * columns + j) as f32 * 0.25, &Cpu)?;
        let there = whole.to(gpu)?;
        let weight = Tensor::from_fn([columns], |[j]| (j % 5) as f32 - 2.0, &Cpu)?;
        let beside = weight.to(gpu)?;
        for first in [0, 1] {
            let part = first..columns + first;
            let (x, y) = (whole.slice((.., part.clone()))?, there.slice((.., part))?);
            // These are exact.
            let exact = |z: Tensor<f32, 2>| z.to_vec();
            assert_eq!(
                (y.lazy() - y.lazy().max_along(Last)).eval()?.to_vec()?,
                exact((x.lazy() - x.lazy().max_along(Last)).eval()?)?,
                "{shape}"
            );
            let (x, y) = (x.copy()?, y.copy()?);
            assert_eq!(
                (y.lazy() * beside.lift() - y.lazy().sum_along(Last)).eval()?.to_vec()?,
                exact((x.lazy() * weight.lift() - x.lazy().sum_along(Last)).eval()?)?,
                "{shape}"
            );
            assert!(
                close(y.softmax(Last)?.to_vec()?, x.softmax(Last)?.to_vec()?, 1e-5),
                "softmax of {shape}"
            );
            assert!(close(y.log_softmax(Last)?.to_vec()?, x.log_softmax(Last)?.to_vec()?, 1e-5), "{shape}");
            assert!(
                close(y.layer_norm(Last, 1e-5)?.to_vec()?, x.layer_norm(Last, 1e-5)?.to_vec()?, 2e-4),
                "layer norm of {shape}"
            );
            assert!(
                close(y.rms_norm(Last, 1e-5)?.to_vec()?, x.rms_norm(Last, 1e-5)?.to_vec()?, 1e-5),
                "{shape}"
            );
            assert!(
                close(y.softmax(Axis::<0>)?.to_vec()?, x.softmax(Axis::<0>)?.to_vec()?, 1e-5),
                "columns of {shape}"
            );
            let affine = y.lazy().layer_norm_affine(Last, beside.lift(), beside.lift(), 1e-5).eval()?;
            let expected = x.lazy().layer_norm_affine(Last, weight.lift(), weight.lift(), 1e-5).eval()?;
            assert!(close(affine.to_vec()?, expected.to_vec()?, 2e-4), "affine of {shape}");
        }
    }
});

on_gpu!(programs_by_rows_of_narrow_and_wide_elements, |gpu| {
    for [rows, columns] in [[70, 128], [11, 1024], [600, 24], [3, 6000]] {
        let x = Tensor::from_fn([rows, columns], |[i, j]| pattern(i * columns + j) as f32 * 0.25, &Cpu)?;
        let shape = format!("{rows} × {columns}");
        macro_rules! each {
            ($($t:ty: $most:expr;)*) => { $({
                let x = x.cast::<$t>()?;
                let y = x.to(gpu)?;
                let wide = |z: Tensor<$t, 2>| z.cast::<f64>()?.to_vec();
                let back = |z: &Tensor<$t, 2, Cuda>| wide(z.to(&Cpu)?);
                let close = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b)
                    .all(|(a, b)| (a - b).abs() <= $most * b.abs().max(0.01));
                assert!(close(back(&y.softmax(Last)?)?, wide(x.softmax(Last)?)?), "{shape} {}", <$t>::DTYPE);
                assert_eq!(
                    back(&(y.lazy() - y.lazy().max_along(Last)).eval()?)?,
                    wide((x.lazy() - x.lazy().max_along(Last)).eval()?)?
                );
            })* };
        }
        each!(f16: 2e-3; bf16: 1e-2; f64: 1e-12;);
    }
    // Rows of two axes.
    let x = Tensor::from_fn([16, 24, 32], |[i, j, k]| pattern(i * 768 + j * 32 + k) as f32, &Cpu)?;
    let y = x.to(gpu)?;
    let both = |z: Tensor<f32, 3>| z.to_vec();
    assert_eq!(
        (y.lazy() - y.lazy().sum_along((Axis::<0>, Axis::<2>))).eval()?.to_vec()?,
        both((x.lazy() - x.lazy().sum_along((Axis::<0>, Axis::<2>))).eval()?)?
    );
});

on_gpu!(values_are_combined_in_one_order_whatever_their_strides_and_addresses, |gpu| {
    for count in [7, 64, 65, 1000, 5000, 4100] {
        let rows = 9000usize.div_ceil(count) + 2;
        let x = Tensor::<f32, 2>::random_normal([rows, count], 0.0, 1.0, 5, &Cpu)?;
        let mut wide = Tensor::<f32, 3>::zeros([rows, count, 2], &Cpu)?;
        wide.view_mut()?.slice((.., .., 1))?.assign(&x)?;
        let mut shifted = Tensor::<f32, 1>::zeros([rows * count + 1], &Cpu)?;
        shifted.view_mut()?.slice(1..)?.reshape([rows, count])?.assign(&x)?;
        let (x, wide, shifted) = (x.to(gpu)?, wide.to(gpu)?, shifted.to(gpu)?);
        let (strided, shifted) = (wide.slice((.., .., 1))?, shifted.slice(1..)?.reshape([rows, count])?);
        let (sums, powers) = (x.sum(Last)?.to_vec()?, x.softmax(Last)?.to_vec()?);
        for (view, name) in [(strided, "strided"), (shifted, "at another address")] {
            assert_eq!(view.sum(Last)?.to_vec()?, sums, "{name} {count}");
            assert_eq!(view.softmax(Last)?.to_vec()?, powers, "{name} {count}");
        }
        // Again, in the same order.
        assert_eq!(x.sum(Last)?.to_vec()?, sums, "{count}");
    }
});
