//! Products of 16-bit floats over axes of any strides, which tensor cores multiply, agree with those of the
//! CPU. Elements are small whole numbers: their sums are exact in f32, in any order, and rounded once.

use super::training::launches;
use super::windows::small;
use crate::on_gpu;
use rankform::ops::Conv;
use rankform::prelude::*;
use rankform::{Cuda, bf16, einsum, f16};

/// An operand on the CPU and on the GPU, in four layouts: contiguous; from the second of more elements on, so
/// that no access of 16 bytes is aligned; every second element; in reverse.
fn layouts<T: Number>(
    size: [usize; 4],
    seed: u64,
    gpu: &Cuda,
    mut each: impl FnMut(TensorView<'_, T, 4>, TensorView<'_, T, 4, Cuda>, &str) -> Result<()>,
) -> Result<()> {
    let [a, b, c, d] = size;
    let (x, more) = (small::<T, 4>(size, seed)?, small::<T, 4>([a, b, c, 2 * d + 1], seed + 1)?);
    let (y, copy) = (x.to(gpu)?, more.to(gpu)?);
    each(x.view(), y.view(), "contiguous")?;
    each(more.slice((.., .., .., 1..=d))?, copy.slice((.., .., .., 1..=d))?, "from the second")?;
    let second = || (0..2 * d).step(2);
    each(more.slice((.., .., .., second()))?, copy.slice((.., .., .., second()))?, "every second")?;
    each(x.reversed(Axis::<3>), y.reversed(Axis::<3>), "in reverse")
}

/// Both operands are dense along the summed axis, across it, or one of each; and the output along rows.
fn products<T: Number>(gpu: &Cuda, sizes: &[[usize; 3]]) -> Result<()> {
    let [a, b] = [2, 2];
    for &[i, j, k] in sizes {
        macro_rules! agree {
            ($letters:literal: $left:expr, $right:expr) => {
                layouts::<T>($left, 1, gpu, |x, p, first| {
                    layouts::<T>($right, 5, gpu, |y, q, second| {
                        if first != second && [first, second] != ["contiguous", "from the second"] {
                            return Ok(());
                        }
                        let (expected, found) = (einsum!($letters, x, y)?, einsum!($letters, p, q)?);
                        assert_eq!(
                            found.to_vec()?,
                            expected.to_vec()?,
                            "{} {}, {first}, {second}: {i}, {j}, {k}",
                            T::DTYPE,
                            $letters
                        );
                        Ok(())
                    })
                })?
            };
        }
        agree!("aibk,bjak->abij": [a, i, b, k], [b, j, a, k]);
        agree!("akbi,bkaj->abij": [a, k, b, i], [b, k, a, j]);
        agree!("aibk,bkaj->abji": [a, i, b, k], [b, k, a, j]);
    }
    Ok(())
}

on_gpu!(products_of_bf16_agree_with_the_cpu, |gpu| {
    // Around a tile of 64 and of 128, a panel of 32 positions, an access of 8 elements.
    products::<bf16>(
        gpu,
        &[[1, 1, 1], [3, 70, 8], [64, 65, 31], [65, 63, 33], [16, 130, 40], [128, 8, 64], [129, 72, 7]],
    )?;
});

on_gpu!(products_of_f16_agree_with_the_cpu, |gpu| {
    products::<f16>(gpu, &[[5, 3, 16], [64, 64, 32], [72, 136, 24]])?;
});

on_gpu!(long_sums_of_16_bits_are_added_in_parts, |gpu| {
    let (x, y) = (small::<bf16, 3>([1200, 24, 3], 1)?, small::<bf16, 3>([40, 3, 1200], 2)?);
    let (p, q) = (x.to(gpu)?, y.to(gpu)?);
    assert_eq!(launches(gpu, || einsum!("kic,jck->ij", &p, &q))?, 2);
    assert_eq!(einsum!("kic,jck->ij", &p, &q)?.to_vec()?, einsum!("kic,jck->ij", &x, &y)?.to_vec()?);
    // The sums of a wider output, of strided matrices.
    let (x, y) = (small::<f16, 2>([70, 1030], 1)?, small::<f16, 2>([515, 132], 2)?);
    let (p, q) = (x.to(gpu)?, y.to(gpu)?);
    let expected: Tensor<f32, 2> = x.slice((.., (..).step(2)))?.matmul_wide(y.slice((.., (..).step(2)))?)?;
    let found: Tensor<f32, 2, Cuda> =
        p.slice((.., (..).step(2)))?.matmul_wide(q.slice((.., (..).step(2)))?)?;
    assert_eq!(found.to_vec()?, expected.to_vec()?);
});

on_gpu!(stretched_operands_of_16_bits_agree_with_the_cpu, |gpu| {
    let (x, y) = (small::<bf16, 4>([3, 1, 2, 40], 1)?, small::<bf16, 4>([1, 66, 1, 40], 2)?);
    let (p, q) = (x.to(gpu)?, y.to(gpu)?);
    let (x, p) = (x.broadcast_to([3, 66, 2, 40])?, p.broadcast_to([3, 66, 2, 40])?);
    let (y, q) = (y.broadcast_to([3, 66, 2, 40])?, q.broadcast_to([3, 66, 2, 40])?);
    assert_eq!(einsum!("aibk,ajbk->abij", p, q)?.to_vec()?, einsum!("aibk,ajbk->abij", x, y)?.to_vec()?);
    assert_eq!(einsum!("aibk,ajbk->ij", p, q)?.to_vec()?, einsum!("aibk,ajbk->ij", x, y)?.to_vec()?);
});

#[test]
fn older_gpus_multiply_16_bits_without_tensor_cores() {
    // The simulator has a GPU of this capability in another process, and refuses the instructions.
    let (_, module) = module_path!().split_once("::").unwrap();
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::stretched_operands_of_16_bits_agree_with_the_cpu")])
        .env("CUDA_SIM_CAPABILITY", "75")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}

/// The bits of numbers; those of NaN are one.
fn bits<T: Number>(x: &Tensor<T, 4>) -> Result<Vec<u32>> {
    let bits = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    Ok(x.cast::<f32>()?.to_vec()?.into_iter().map(bits).collect())
}

fn special<T: Number>(gpu: &Cuda, values: &[f32]) -> Result<()> {
    let pick = |at: usize| if at % 97 == 5 { values[at / 97 % values.len()] } else { (at % 5) as f32 - 2.0 };
    let x = Tensor::from_fn([2, 20, 2, 40], |[a, i, b, k]| pick(((a * 20 + i) * 2 + b) * 40 + k), &Cpu)?;
    let y = Tensor::from_fn([2, 9, 2, 40], |[b, j, a, k]| pick(((b * 9 + j) * 2 + a) * 40 + k + 31), &Cpu)?;
    let (x, y) = (x.cast::<T>()?, y.cast::<T>()?);
    let (p, q) = (x.to(gpu)?, y.to(gpu)?);
    let found = einsum!("aibk,bjak->abij", &p, &q)?.to(&Cpu)?;
    assert_eq!(bits(&found)?, bits(&einsum!("aibk,bjak->abij", &x, &y)?)?, "{values:?}");
    Ok(())
}

on_gpu!(infinity_and_nan_and_overflow_are_results, |gpu| {
    special::<f16>(gpu, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY])?;
    special::<bf16>(gpu, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY])?;
    // Sums beyond the largest f16, and of subnormal numbers, which f32 has.
    special::<f16>(gpu, &[60000.0, -60000.0, 128.0])?;
    special::<f16>(gpu, &[2f32.powi(-24), 2f32.powi(-20), -2f32.powi(-23)])?;
});

fn convolutions<T: Number>(gpu: &Cuda) -> Result<()> {
    for (size, weights, conv) in [
        ([2, 16, 9, 10], [24, 16, 3, 3], Conv::new().padding([1, 1])),
        ([2, 8, 16, 16], [65, 8, 3, 3], Conv::new().stride([2, 2]).padding([1, 1])),
        ([1, 16, 12, 11], [16, 8, 3, 3], Conv::new().groups(2).padding([2, 1]).dilation([2, 1])),
        ([2, 40, 6, 8], [130, 40, 1, 1], Conv::new()),
        ([1, 3, 20, 17], [8, 3, 7, 7], Conv::new().stride([2, 2]).padding([3, 3])),
    ] {
        let (x, w) = (small::<T, 4>(size, 1)?, small::<T, 4>(weights, 2)?);
        for x in [x.to_contiguous()?, x.permuted([0, 2, 3, 1])?.to_contiguous()?.into_permuted([0, 3, 1, 2])?]
        {
            for w in
                [w.to_contiguous()?, w.permuted([0, 2, 3, 1])?.to_contiguous()?.into_permuted([0, 3, 1, 2])?]
            {
                let (y, z) = (x.conv2d(&w, conv)?, x.to(gpu)?.conv2d(&w.to(gpu)?, conv)?);
                assert_eq!(z.to_vec()?, y.to_vec()?, "{} {size:?} {weights:?} {conv:?}", T::DTYPE);
            }
        }
    }
    Ok(())
}

on_gpu!(convolutions_of_16_bits_agree_with_the_cpu, |gpu| {
    convolutions::<bf16>(gpu)?;
    convolutions::<f16>(gpu)?;
    let x = Tensor::<bf16, 4, Cuda>::ones([96, 16, 12, 12], gpu)?;
    let w = Tensor::ones([8, 16, 3, 3], gpu)?;
    assert_eq!(launches(gpu, || x.conv2d(&w, Conv::new()))?, 1);
    assert_eq!(launches(gpu, || x.conv2d(&w, Conv::new().padding([1, 1])))?, 3);
});
