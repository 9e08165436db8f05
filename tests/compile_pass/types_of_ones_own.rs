// Code that must compile: a program that names its types as operators' traits are named and calls the
// operators.
use rankform::prelude::*;

struct Linear {
    weight: Tensor<f32, 2>,
    bias: Tensor<f32, 1>,
}

enum Activation {
    Relu,
    Tanh,
}

#[allow(dead_code)]
enum Reduce {
    Sum,
}
#[allow(dead_code)]
struct Sorts;
#[allow(dead_code)]
struct Math;

impl Linear {
    fn forward(&self, x: &Tensor<f32, 2>, activation: Activation) -> Result<Tensor<f32, 2>> {
        let y = x.linear(&self.weight, &self.bias)?;
        match activation {
            Activation::Relu => y.relu(),
            Activation::Tanh => y.lazy().tanh().eval(),
        }
    }
}

fn main() -> Result<()> {
    let layer = Linear { weight: Tensor::from([[1.0, -2.0]]), bias: Tensor::from([0.5]) };
    let x = Tensor::from([[1.0, 1.0], [2.0, 0.0]]);
    assert_eq!(layer.forward(&x, Activation::Relu)?.to_vec()?, [0.0, 2.5]);
    assert!(
        layer.forward(&x, Activation::Tanh)?
            .allclose(&Tensor::from([[(-0.5_f32).tanh()], [2.5_f32.tanh()]]), 1e-6, 0.0, false)?
    );
    assert_eq!(
        (x.sort(Axis::<0>)?.exp()?.size(), x.reduce(rankform::ops::Sum, All)?.item()?), (dim![2, 2], 4.0)
    );
    Ok(())
}
