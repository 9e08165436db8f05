//! A block of a transformer encoder, generic over element and device: attention of several heads, a gated
//! layer, norms.
use rankform::Meta;
use rankform::ops::{Attention, AttentionFloat};
use rankform::prelude::*;

const HEADS: usize = 4;

struct Block<T, D: Device> {
    query: Tensor<T, 2, D>,
    key: Tensor<T, 2, D>,
    value: Tensor<T, 2, D>,
    out: Tensor<T, 2, D>,
    up: Tensor<T, 2, D>,
    down: Tensor<T, 2, D>,
    gain: Tensor<T, 1, D>,
    bias: Tensor<T, 1, D>,
}

impl<T: AttentionFloat, D: Device> Block<T, D> {
    fn new(width: usize, device: &D) -> Result<Self> {
        let square = || Tensor::full([width, width], T::from(0.01).unwrap(), device);
        Ok(Block {
            query: square()?,
            key: square()?,
            value: square()?,
            out: square()?,
            up: Tensor::full([width, 4 * width], T::from(0.01).unwrap(), device)?,
            down: Tensor::full([4 * width, width], T::from(0.01).unwrap(), device)?,
            gain: Tensor::ones([width], device)?,
            bias: Tensor::zeros([width], device)?,
        })
    }

    fn norm(&self, x: &Tensor<T, 2, D>) -> Result<Tensor<T, 2, D>> {
        (x.layer_norm(Axis::<1>, T::from(1e-5).unwrap())?.lazy() * self.gain.lift() + self.bias.lift()).eval()
    }

    fn forward(&self, x: &Tensor<T, 2, D>) -> Result<Tensor<T, 2, D>> {
        let [n, width] = x.size().0;
        let heads = |w: &Tensor<T, 2, D>| -> Result<Tensor<T, 4, D>> {
            x.matmul(w)?.reshape([1, n, HEADS, width / HEADS])?.permuted([0, 2, 1, 3])?.to_contiguous()
        };
        let seen = heads(&self.query)?.attention(
            &heads(&self.key)?,
            &heads(&self.value)?,
            None,
            Attention::new().causal(true),
        )?;
        let joined = seen.permuted([0, 2, 1, 3])?.to_shape([n, width])?;
        let x = self.norm(&(x.lazy() + &joined.matmul(&self.out)?).eval()?)?;
        let hidden = x.matmul(&self.up)?.gelu()?;
        self.norm(&(x.lazy() + &hidden.matmul(&self.down)?).eval()?)
    }
}

fn encode<T: AttentionFloat, D: Device>(device: &D) -> Result<[usize; 2]> {
    let mut x = Tensor::<T, 2, D>::full([32, 64], T::from(0.5).unwrap(), device)?;
    for _ in 0..2 {
        x = Block::new(64, device)?.forward(&x)?;
    }
    Ok(x.size().0)
}

fn main() -> Result<()> {
    println!("{:?} {:?}", encode::<f32, Cpu>(&Cpu)?, encode::<f64, Cpu>(&Cpu)?);
    println!("{:?} {:?}", encode::<f32, Meta>(&Meta::new())?, encode::<f64, Meta>(&Meta::new())?);
    Ok(())
}
