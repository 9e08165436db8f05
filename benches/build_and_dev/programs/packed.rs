//! A matrix packed once.
use rankform::prelude::*;
fn main() -> Result<()> {
    let x = Tensor::<f32, 2>::random_uniform([64, 256], 0.0..1.0, 1, &Cpu)?;
    let packed = Tensor::<f32, 2>::random_uniform([256, 256], 0.0..1.0, 2, &Cpu)?.pack()?;
    println!("{:?}", x.matmul_packed(&packed)?.sum(All)?.item()?);
    Ok(())
}
