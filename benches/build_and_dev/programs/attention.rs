//! Attention, softmax and an embedding.
use rankform::prelude::*;
fn main() -> Result<()> {
    let q = Tensor::<f32, 4>::random_uniform([2, 4, 32, 16], 0.0..1.0, 1, &Cpu)?;
    let y = q.attention(&q, &q, None, rankform::ops::Attention::new())?;
    let index = Tensor::from([3i64, 1, 2]);
    let e = Tensor::<f32, 2>::random_uniform([10, 16], 0.0..1.0, 2, &Cpu)?.embedding(&index)?;
    println!("{:?} {:?}", y.softmax(Axis::<3>)?.size(), e.size());
    Ok(())
}
