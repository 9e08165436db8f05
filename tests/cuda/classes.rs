//! The kernels of each class of work, for `tools/sass`, which counts their instructions:
//! `RANKFORM_KERNEL_CLASS` names a class, and the simulator writes its sources. Without the variable every
//! class is compiled.

use rankform::ops::Conv;
use rankform::prelude::*;
use rankform::{Cuda, bf16, einsum, ops};

/// A class: its name, and the calls that queue its kernels on a GPU.
type Class = (&'static str, fn(&Cuda) -> Result<()>);

/// A tensor of large size, on which nothing runs.
fn large<T: Number, const RANK: usize>(size: [usize; RANK], gpu: &Cuda) -> Result<Tensor<T, RANK, Cuda>> {
    Tensor::zeros(size, gpu)
}

/// A convolution of 64 images of 56² with 64 channels by 3 × 3 elements to as many.
fn conv2d<T: Number>(gpu: &Cuda) -> Result<()> {
    large::<T, 4>([64, 64, 58, 58], gpu)?.conv2d(&large([64, 64, 3, 3], gpu)?, Conv::new()).map(drop)
}

const CLASSES: &[Class] = &[
    ("contract-f32", conv2d::<f32>),
    ("contract-bf16", conv2d::<bf16>),
    // Channels are contiguous, of images and of weights.
    ("contract-bf16-last", |gpu| {
        let images = large::<bf16, 4>([64, 58, 58, 64], gpu)?.into_permuted([0, 3, 1, 2])?;
        let weights = large::<bf16, 4>([64, 3, 3, 64], gpu)?.into_permuted([0, 3, 1, 2])?;
        images.conv2d(&weights, Conv::new()).map(drop)
    }),
    // The scores of attention, whose heads are not the slowest axis.
    ("contract-bf16-heads", |gpu| {
        let [queries, keys] = [large::<bf16, 4>([8, 2048, 16, 64], gpu)?, large([8, 2048, 16, 64], gpu)?];
        einsum!("bqhe,bkhe->bhqk", &queries, &keys).map(drop)
    }),
    ("map-f32", |gpu| large::<f32, 2>([1024, 4096], gpu)?.add(&large([1024, 4096], gpu)?).map(drop)),
    ("map-bf16", |gpu| large::<bf16, 2>([1024, 4096], gpu)?.add(&large([1024, 4096], gpu)?).map(drop)),
    ("exp-f32", |gpu| large::<f32, 2>([1024, 4096], gpu)?.exp().map(drop)),
    ("exp-bf16", |gpu| large::<bf16, 2>([1024, 4096], gpu)?.exp().map(drop)),
    ("softmax-bf16-1024", |gpu| large::<bf16, 2>([16384, 1024], gpu)?.softmax(Last).map(drop)),
    ("softmax-bf16-64", |gpu| large::<bf16, 2>([131072, 64], gpu)?.softmax(Last).map(drop)),
    ("softmax-bf16-131072", |gpu| large::<bf16, 2>([64, 131072], gpu)?.softmax(Last).map(drop)),
    ("softmax-f32-4096", |gpu| large::<f32, 2>([4096, 4096], gpu)?.softmax(Last).map(drop)),
    ("softmax-f32-1000", |gpu| large::<f32, 2>([4096, 1000], gpu)?.softmax(Last).map(drop)),
    ("log_softmax-f32-4096", |gpu| large::<f32, 2>([4096, 4096], gpu)?.log_softmax(Last).map(drop)),
    ("layer_norm-bf16-1024", |gpu| {
        large::<bf16, 2>([16384, 1024], gpu)?.layer_norm(Last, bf16::from_f32(1e-5)).map(drop)
    }),
    ("layer_norm-f32-4096", |gpu| large::<f32, 2>([4096, 4096], gpu)?.layer_norm(Last, 1e-5).map(drop)),
    ("rms_norm-f32-4096", |gpu| large::<f32, 2>([4096, 4096], gpu)?.rms_norm(Last, 1e-5).map(drop)),
    ("sum-rows-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.sum(Last).map(drop)),
    ("sum-rows-bf16", |gpu| large::<bf16, 2>([4096, 4096], gpu)?.sum(Last).map(drop)),
    ("sum-rows-f32-64", |gpu| large::<f32, 2>([131072, 64], gpu)?.sum(Last).map(drop)),
    ("max-rows-bf16", |gpu| large::<bf16, 2>([4096, 4096], gpu)?.max(Last).map(drop)),
    ("argmax-rows-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.argmax(Last).map(drop)),
    ("var-rows-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.var(Last).map(drop)),
    ("logsumexp-rows-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.logsumexp(Last).map(drop)),
    ("sum-columns-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.sum(Axis::<0>).map(drop)),
    ("sum-columns-bf16", |gpu| large::<bf16, 2>([4096, 4096], gpu)?.sum(Axis::<0>).map(drop)),
    ("var-columns-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.var(Axis::<0>).map(drop)),
    ("sort-rows-f32-4096", |gpu| large::<f32, 2>([4096, 4096], gpu)?.sort(Axis::<1>).map(drop)),
    ("sort-rows-f32-64", |gpu| large::<f32, 2>([131072, 64], gpu)?.sort(Axis::<1>).map(drop)),
    ("sort-line-f32", |gpu| large::<f32, 1>([1 << 22], gpu)?.sort(Axis::<0>).map(drop)),
    ("argsort-line-f32", |gpu| large::<f32, 1>([1 << 22], gpu)?.argsort(Axis::<0>).map(drop)),
    ("gather-rows-f32", |gpu| {
        let index = large::<i64, 1>([16384], gpu)?;
        large::<f32, 2>([16384, 1024], gpu)?.index_select(Axis::<0>, &index).map(drop)
    }),
    ("gather-rows-bf16", |gpu| {
        let index = large::<i64, 2>([16, 1024], gpu)?;
        large::<bf16, 2>([32768, 1024], gpu)?.embedding(&index).map(drop)
    }),
    ("gather-rows-f32-3", |gpu| {
        let index = large::<i64, 1>([1 << 20], gpu)?;
        large::<f32, 2>([16384, 3], gpu)?.index_select(Axis::<0>, &index).map(drop)
    }),
    ("gather-elements-f32", |gpu| {
        let index = large::<i64, 2>([1024, 4096], gpu)?;
        large::<f32, 2>([1024, 4096], gpu)?.gather(Axis::<1>, &index).map(drop)
    }),
    ("scatter-rows-f32", |gpu| {
        let index = large::<i64, 1>([16384], gpu)?;
        let values = large::<f32, 2>([16384, 1024], gpu)?;
        large::<f32, 2>([16384, 1024], gpu)?.index_scatter(ops::Add, Axis::<0>, &index, &values)
    }),
    ("scatter-columns-f32", |gpu| {
        let index = large::<i64, 1>([64], gpu)?;
        let values = large::<f32, 2>([64, 65536], gpu)?;
        large::<f32, 2>([100, 65536], gpu)?.index_scatter(ops::Add, Axis::<0>, &index, &values)
    }),
    ("sum-all-f32", |gpu| large::<f32, 2>([4096, 4096], gpu)?.sum(All).map(drop)),
];

#[test]
fn kernels_of_all_classes_compile() -> Result<()> {
    let _mine = crate::FIRST_GPU.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(gpu) = crate::gpu(0) else { return Ok(()) };
    let chosen = std::env::var("RANKFORM_KERNEL_CLASS").ok();
    let before = gpu.statistics().compiled;
    for (name, queue) in
        CLASSES.iter().filter(|(name, _)| chosen.as_ref().is_none_or(|chosen| chosen == name))
    {
        gpu.warm_up(|| queue(&gpu))?;
        println!("{name}");
    }
    assert!(gpu.statistics().compiled > before || chosen.is_some_and(|chosen| chosen == "none"));
    Ok(())
}
