//! The physical limits: for each case the time in which this machine moves just the bytes that the case must
//! move, or does just its multiplications. Not a library; a bound on every library.
//!
//! Built for the machine it runs on. Memory lies in huge pages and is there before the clock runs; stores are
//! tried both ways, into the caches and past them.

mod pages;
mod peak;
mod streams;
mod team;

use peers::{Case, Forms, serve, sizes};
use streams::stream;

fn main() {
    serve(limit);
}

fn limit(case: Case<'_>, forms: &mut Forms) {
    let n = case.n;
    let area = n * n;
    let cube = 2.0 * (n as f64).powi(3);
    match case.name {
        _ if n == 4 => {} // what costs there is the call, not the bytes
        "create/full" => stream::<0, 1, 1, false>(area, forms),
        "ew/add" | "ew/add_t" | "fused/swiglu" | "user/f" => stream::<2, 1, 1, false>(area, forms),
        "ew/add_inplace" => stream::<2, 1, 1, true>(area, forms),
        "ew/add_row" | "ew/add_col" => stream::<1, 1, 1, false>(area, forms),
        "ew/step2" => stream::<2, 1, 2, false>(area / 2, forms), // every line of the inputs is read
        "fused/gelu" => stream::<1, 1, 1, false>(area, forms),
        "fused/ratio" => stream::<4, 1, 1, false>(area, forms),
        "fused/adamw" => stream::<4, 3, 1, true>(area, forms),
        "red/softmax" | "red/layernorm" | "red/scaled_softmax" | "red/rmsnorm" => {
            stream::<1, 1, 1, false>(area, forms)
        }
        "mm/gemv" => stream::<1, 0, 1, false>(area, forms),
        "mm/f32" | "mm/f16" => peak::f32(cube, forms),
        "mm/f64" => peak::f64(cube, forms),
        "mm/bf16" => peak::bf16(cube, forms),
        "mm/i8" => peak::i8(cube, forms),
        "mm/skinny16" => peak::f32(2.0 * (sizes::SKINNY * area) as f64, forms),
        "mm/batched64" => peak::f32(sizes::BATCH as f64 * cube, forms),
        "nn/conv2d" => {
            let [images, channels, height, width] = sizes::IMAGES;
            peak::f32(2.0 * (images * channels * channels * 9 * height * width) as f64, forms);
        }
        "nn/conv1d" => {
            let ([signals, _, length], weights) = (sizes::SIGNALS, sizes::SIGNAL_WEIGHTS);
            peak::f32(2.0 * (signals * length * weights.iter().product::<usize>()) as f64, forms);
        }
        "nn/conv3d" => {
            let ([volumes, _, d, h, w], weights) = (sizes::VOLUMES, sizes::VOLUME_WEIGHTS);
            peak::f32(2.0 * (volumes * d * h * w * weights.iter().product::<usize>()) as f64, forms);
        }
        "nn/depthwise" => stream::<1, 1, 1, false>(sizes::IMAGES.iter().product(), forms),
        "nn/max_pool" => stream::<1, 0, 1, false>(sizes::POOLED.iter().product(), forms),
        "nn/attention" => {
            let [batches, heads, tokens, width] = sizes::heads(case.n);
            peak::f32(4.0 * (batches * heads * tokens * tokens * width) as f64, forms);
        }
        "nn/encoder" => {
            let ((batches, width, _), tokens) = (sizes::ENCODER, case.n);
            peak::f32((batches * tokens * width * (24 * width + 4 * tokens)) as f64, forms);
        }
        "mm/einsum3" => peak::f32(2.0 * cube, forms),
        "dm/transpose" | "dm/cumsum0" | "dm/cumsum1" => stream::<1, 1, 1, false>(area, forms),
        "dm/concat0" | "dm/concat1" => stream::<1, 1, 1, false>(2 * area, forms),
        "dm/nhwc" => stream::<1, 1, 1, false>(sizes::NCHW.iter().product(), forms),
        "dm/gather" => stream::<1, 1, 1, false>(sizes::GATHER.0 * sizes::GATHER.2, forms),
        "short/sum" => stream::<1, 0, 1, false>(sizes::SHORT, forms),
        name if name.starts_with("red/") => stream::<1, 0, 1, false>(area, forms),
        name if name.starts_with("trans/") => stream::<1, 1, 1, false>(area, forms),
        _ => {}
    }
}
