//! Convolutions, pooling and products over any axes agree with those of the CPU. Elements are small whole
//! numbers: sums in any order are the same.

use super::training::launches;
use crate::on_gpu;
use num_complex::Complex;
use rankform::ops::{Conv, Pool};
use rankform::prelude::*;
use rankform::{Cuda, Error, bf16, einsum};

/// Whole numbers from −3 to 3.
pub fn small<T: Number, const RANK: usize>(size: [usize; RANK], seed: u64) -> Result<Tensor<T, RANK>> {
    Tensor::<i32, RANK>::random_integers(size, -3..4, seed, &Cpu)?.cast::<T>()
}

/// Both memory orders of images.
fn layouts<T: Number>(x: &Tensor<T, 4>) -> Result<[Tensor<T, 4>; 2]> {
    let last = x.permuted([0, 2, 3, 1])?.to_contiguous()?.into_permuted([0, 3, 1, 2])?;
    Ok([x.to_contiguous()?, last])
}

/// Every second column of images, with their rows in reverse.
fn strided<T: Number, D: Device>(wide: &Tensor<T, 4, D>) -> Result<TensorView<'_, T, 4, D>> {
    Ok(wide.slice((.., .., .., (..).step(2)))?.reversed(Axis::<2>))
}

/// The bits of numbers: NaN equals itself.
fn bits(x: &Tensor<f32, 4>) -> Result<Vec<u32>> {
    Ok(x.to_vec()?.into_iter().map(f32::to_bits).collect())
}

fn convolutions<T: Number>(gpu: &Cuda) -> Result<()> {
    for (size, weights, conv) in [
        ([2, 3, 9, 10], [4, 3, 3, 2], Conv::new().stride([1, 2]).padding([1, 1])),
        ([3, 8, 12, 13], [70, 8, 3, 3], Conv::new()),
        ([1, 6, 17, 11], [8, 3, 3, 3], Conv::new().groups(2).padding([2, 1]).dilation([2, 1])),
        ([2, 5, 9, 9], [5, 1, 3, 3], Conv::new().groups(5).padding([1, 1])),
        ([2, 5, 12, 9], [5, 1, 3, 2], Conv::new().groups(5).stride([2, 1]).dilation([2, 3])),
        ([2, 33, 5, 4], [9, 33, 1, 1], Conv::new()),
    ] {
        let (x, w) = (small::<T, 4>(size, 1)?, small::<T, 4>(weights, 2)?);
        let on_gpu = w.to(gpu)?;
        for x in layouts(&x)? {
            let (y, z) = (x.conv2d(&w, conv)?, x.to(gpu)?.conv2d(&on_gpu, conv)?);
            assert_eq!(z.to_vec()?, y.to_vec()?, "{size:?} {weights:?} {conv:?}");
        }
        let wide = small::<T, 4>([size[0], size[1], size[2], 2 * size[3]], 3)?;
        let copy = wide.to(gpu)?;
        let (y, z) = (strided(&wide)?.conv2d(&w, conv)?, strided(&copy)?.conv2d(&on_gpu, conv)?);
        assert_eq!(z.to_vec()?, y.to_vec()?, "{size:?} {weights:?} {conv:?}, strided");
    }
    Ok(())
}

on_gpu!(convolutions_agree_with_the_cpu, |gpu| {
    convolutions::<f32>(gpu)?;
    convolutions::<f64>(gpu)?;
    convolutions::<bf16>(gpu)?;
    convolutions::<i32>(gpu)?;
    convolutions::<Complex<f64>>(gpu)?;
    let (x, w) = (small::<f32, 3>([2, 4, 50], 1)?, small::<f32, 3>([6, 4, 5], 2)?);
    let conv = Conv::new().padding([2]).stride([3]);
    assert_eq!(x.to(gpu)?.conv1d(&w.to(gpu)?, conv)?.to_vec()?, x.conv1d(&w, conv)?.to_vec()?);
    let (x, w) = (small::<f32, 5>([1, 3, 6, 7, 5], 1)?, small::<f32, 5>([3, 1, 2, 3, 3], 2)?);
    let conv = Conv::new().padding([1; 3]).groups(3);
    assert_eq!(x.to(gpu)?.conv3d(&w.to(gpu)?, conv)?.to_vec()?, x.conv3d(&w, conv)?.to_vec()?);
    let (x, w) = (small::<f32, 4>([2, 4, 6, 5], 1)?, small::<f32, 4>([4, 3, 3, 3], 2)?);
    let conv = Conv::new().padding([1, 1]).stride([2, 2]);
    assert_eq!(
        x.to(gpu)?.conv_transpose2d(&w.to(gpu)?, conv, [1, 0])?.to_vec()?,
        x.conv_transpose2d(&w, conv, [1, 0])?.to_vec()?
    );
});

on_gpu!(pools_agree_with_the_cpu, |gpu| {
    let x = small::<f32, 4>([2, 3, 11, 12], 1)?;
    let holes = x.equal(3.0)?.select(f32::NAN, &x)?;
    for pool in [
        Pool::new([2, 2]),
        Pool::new([3, 3]).stride([2, 2]).padding([1, 1]),
        Pool::new([3, 2]).stride([3, 1]).padding_ends([1, 0], [0, 1]).ceil(true),
        Pool::new([2, 3]).stride([1, 1]).dilation([3, 2]),
        Pool::new([2, 2]).stride([3, 3]),
        Pool::new([11, 12]),
        Pool::new([9, 10]).stride([usize::MAX, 1]),
    ] {
        for x in layouts(&x)?.iter().chain(&layouts(&holes)?) {
            let y = x.to(gpu)?;
            let (a, b) = (x.max_pool2d(pool)?, y.max_pool2d(pool)?);
            assert_eq!(bits(&b.to(&Cpu)?)?, bits(&a)?, "{pool:?}");
            for pool in [pool, pool.count_padding(false), pool.divisor(3)] {
                let (a, b) = (x.avg_pool2d(pool)?, y.avg_pool2d(pool)?);
                assert_eq!(bits(&b.to(&Cpu)?)?, bits(&a)?, "{pool:?}");
            }
        }
    }
    let ints = small::<i16, 3>([2, 3, 40], 5)?;
    let pool = Pool::new([4]).stride([3]).padding([2]);
    assert_eq!(ints.to(gpu)?.max_pool1d(pool)?.to_vec()?, ints.max_pool1d(pool)?.to_vec()?);
    let cube = small::<f64, 5>([1, 2, 5, 6, 7], 6)?;
    let pool = Pool::new([2, 3, 2]).stride([2, 2, 1]).padding([1, 1, 0]);
    assert_eq!(cube.to(gpu)?.max_pool3d(pool)?.to_vec()?, cube.max_pool3d(pool)?.to_vec()?);
    assert_eq!(cube.to(gpu)?.avg_pool3d(pool)?.to_vec()?, cube.avg_pool3d(pool)?.to_vec()?);
});

fn contractions<T: Number>(gpu: &Cuda, unit: T) -> Result<()> {
    let both = |size, seed| small::<T, 4>(size, seed)?.add(&small(size, seed + 10)?.mul(unit)?);
    // More rows, columns and products than a tile, a panel or a block has; fewer; sums in several parts.
    for [b, i, j, k] in [
        [2, 70, 150, 37],
        [1, 1, 130, 16],
        [3, 65, 1, 33],
        [2, 5, 3, 1],
        [1, 129, 257, 17],
        [1, 9, 7, 1200],
        [2, 3, 40, 500],
    ] {
        let (x, y) = (both([b, k, i, 2], 1)?, both([j, 2, k, b], 2)?);
        let (p, q) = (x.to(gpu)?, y.to(gpu)?);
        let same = |on_gpu: Tensor<T, 3, Cuda>, expected: Tensor<T, 3>| {
            assert_eq!(on_gpu.to_vec()?, expected.to_vec()?);
            Ok::<_, Error>(())
        };
        same(einsum!("bkic,jckb->bij", &p, &q)?, einsum!("bkic,jckb->bij", &x, &y)?)?;
        same(einsum!("bkic,jckb->jbi", &p, &q)?, einsum!("bkic,jckb->jbi", &x, &y)?)?;
        let (x, p) = (x.reversed(Axis::<1>), p.reversed(Axis::<1>));
        assert_eq!(einsum!("bkic,jckb->ij", p, &q)?.to_vec()?, einsum!("bkic,jckb->ij", x, &y)?.to_vec()?);
    }
    let (x, y) = (small::<T, 2>([3, 0], 1)?, small::<T, 2>([0, 4], 2)?);
    assert_eq!(x.to(gpu)?.matmul(&y.to(gpu)?)?.to_vec()?, x.matmul(&y)?.to_vec()?);
    Ok(())
}

on_gpu!(products_over_any_axes_agree_with_the_cpu, |gpu| {
    contractions::<f32>(gpu, 1.0)?;
    contractions::<f64>(gpu, 1.0)?;
    contractions::<i64>(gpu, 1)?;
    contractions::<u8>(gpu, 1)?;
    contractions::<bf16>(gpu, bf16::ONE)?;
    contractions::<Complex<f32>>(gpu, Complex::i())?;
    contractions::<Complex<f64>>(gpu, Complex::i())?;
});

on_gpu!(windows_take_few_kernels, |gpu| {
    // The padded copy has more than a MiB.
    let x = Tensor::<f32, 4, Cuda>::ones([96, 16, 12, 12], gpu)?;
    let (w, depthwise) = (Tensor::ones([8, 16, 3, 3], gpu)?, Tensor::ones([16, 1, 3, 3], gpu)?);
    let padded = Conv::new().padding([1, 1]);
    // A padded copy is a fill and a copy.
    assert_eq!(launches(gpu, || x.conv2d(&w, Conv::new()))?, 1);
    assert_eq!(launches(gpu, || x.conv2d(&w, padded))?, 3);
    assert_eq!(launches(gpu, || x.conv2d(&depthwise, Conv::new().groups(16)))?, 1);
    assert_eq!(launches(gpu, || x.conv2d(&depthwise, padded.groups(16)))?, 3);
    assert_eq!(launches(gpu, || x.max_pool2d(Pool::new([3, 3])))?, 1);
    assert_eq!(launches(gpu, || x.max_pool2d(Pool::new([1, 1]).stride([9, 9])))?, 1);
    let w = Tensor::ones([16, 2, 3, 3], gpu)?;
    assert_eq!(launches(gpu, || x.conv_transpose2d(&w, Conv::new().stride([2, 2]), [0, 0]))?, 3);
    // A product of few elements with long sums is added in parts.
    let (few, long) = (Tensor::<f32, 3, Cuda>::ones([512, 4, 2], gpu)?, Tensor::ones([5, 2, 512], gpu)?);
    assert_eq!(launches(gpu, || einsum!("kic,jck->ij", &few, &long))?, 2);
    assert_eq!(launches(gpu, || x.max_pool2d(Pool::new([3, 3]).padding([1, 1])))?, 3);
});
