//! A kernel from CUDA source: rotary embedding, with operands that the compiler checks.
//!
//! `cargo run --features cuda --example 12_cuda_source`. Without a GPU it says that it was skipped. On a
//! machine without a GPU it runs on the simulator: `tools/cuda-sim/run cargo run --features cuda --example
//! 12_cuda_source`.

use rankform::Cuda;
use rankform::cuda::{Input, KernelSource, LaunchConfig, Output};
use rankform::prelude::*;

/// Each thread rotates one pair of one head: `(x₁, x₂) ↦ (x₁ cos − x₂ sin, x₁ sin + x₂ cos)`. `x₂` is half a
/// head after `x₁` (Su et al. 2021, in the order of pairs that GPT-NeoX uses).
const ROTARY: &str = "
__device__ void rotary(const Operands& a) {
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 half = a.cos.size[1], heads = a.x.size[1];
  const i64 pair = at % half, head = at / half % heads, token = at / half / heads;
  if (token >= a.x.size[0]) return;
  const f32 cos = a.cos(token, pair), sin = a.sin(token, pair);
  const f32 first = a.x(token, head, pair), second = a.x(token, head, pair + half);
  a.y(token, head, pair) = first * cos - second * sin;
  a.y(token, head, pair + half) = first * sin + second * cos;
}";

/// Queries or keys `[token, head, 2 · pair]`, angles `[token, pair]`.
type Rotary = KernelSource<(Input<f32, 3>, Input<f32, 2>, Input<f32, 2>, Output<f32, 3>)>;

/// The same by operators, on any device.
fn by_operators<D: Device>(
    x: &Tensor<f32, 3, D>,
    cos: &Tensor<f32, 2, D>,
    sin: &Tensor<f32, 2, D>,
) -> Result<Tensor<f32, 3, D>> {
    let half = cos.size()[1];
    let (first, second) = (x.slice((.., .., ..half))?, x.slice((.., .., half..))?);
    let (cos, sin) = (cos.insert_axis(Axis::<1>), sin.insert_axis(Axis::<1>)); // the same for every head
    let mut y = Tensor::empty(x.size(), x.device())?;
    y.mutable_data()?;
    (first.lazy() * cos - second.lazy() * sin).eval_into(&mut y.view_mut()?.slice((.., .., ..half))?)?;
    (first.lazy() * sin + second.lazy() * cos).eval_into(&mut y.view_mut()?.slice((.., .., half..))?)?;
    Ok(y)
}

pub fn main() -> Result<()> {
    let (tokens, heads, pairs) = (37, 4, 16);
    let x = Tensor::from_fn(
        [tokens, heads, 2 * pairs],
        |[t, h, k]| ((t * 31 + h * 17 + k * 7) % 23) as f32 / 11.0 - 1.0,
        &Cpu,
    )?;
    let angle = |[t, k]: [usize; 2]| t as f32 * 10_000f32.powf(-(k as f32) / pairs as f32);
    let angles = Tensor::from_fn([tokens, pairs], angle, &Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    let expected = by_operators(&x, &cos, &sin)?;

    let gpu = match Cuda::new(0) {
        Ok(gpu) => gpu,
        Err(missing) => {
            println!("skipped: {missing}");
            return Ok(());
        }
    };
    // SAFETY: (1) threads access only the sizes of `x` and `cos`; the launches give `y` and `sin` the same
    // sizes; (2) they write only `y`; (3) each writes its own elements, which are valid.
    let rotary: Rotary = unsafe { KernelSource::new("rotary", ["x", "cos", "sin", "y"], ROTARY) };
    let (x, cos, sin) = (x.to(&gpu)?, cos.to(&gpu)?, sin.to(&gpu)?);
    let mut y = Tensor::zeros(x.size(), &gpu)?;
    rotary.launch(LaunchConfig::over(tokens * heads * pairs, 128), (&x, &cos, &sin, &mut y))?;
    assert_eq!(y.to_vec()?, expected.to_vec()?); // the same IEEE 754 steps give the same bits
    assert_eq!(by_operators(&x, &cos, &sin)?.to_vec()?, expected.to_vec()?);

    // Views are operands, too: every other token, into a transposed view.
    let mut transposed = Tensor::zeros([2 * pairs, heads, 19], &gpu)?;
    let (x2, c2, s2) =
        (x.slice(((..).step(2), .., ..))?, cos.slice(((..).step(2), ..))?, sin.slice(((..).step(2), ..))?);
    rotary.launch(
        LaunchConfig::over(19 * heads * pairs, 128),
        (x2, c2, s2, transposed.view_mut()?.permuted([2, 1, 0])?),
    )?;
    assert_eq!(transposed.permuted([2, 1, 0])?.to_vec()?, expected.slice(((..).step(2), .., ..))?.to_vec()?);
    println!("rotary: {} pairs rotated on {gpu:?}, the bits of the CPU", tokens * heads * pairs);
    Ok(())
}
