//! Fields that are no parameters, and parameters that are not passed by reference.
use rankform::autograd::grad;
use rankform::optim::Adam;
use rankform::prelude::*;
use std::collections::BTreeMap;

parameters! {
    struct Named<D> {
        weight: Tensor<f32, 2, D>,
        layers: BTreeMap<String, Tensor<f32, 2, D>>,
    }
    struct Counted<D> {
        weight: Tensor<f32, 2, D>,
        count: Tensor<i64, 0, D>,
    }
}

fn main() -> Result<()> {
    let (mut w, gradient) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 2.0]));
    grad(w, |w, _| w.sum(All))?;
    Adam::new(0.1).step(&w, &gradient)?;
    Adam::new(0.1).step(&mut w, &(&gradient,))?;
    Ok(())
}
