//! Fields that are no parameters, and parameters that are not passed by reference.
use rankform::autograd::grad;
use rankform::optim::Adam;
use rankform::prelude::*;
use std::collections::BTreeMap;

parameters! {
    struct Net<D> {
        weight: Tensor<f32, 2, D>,
        layers: BTreeMap<String, Tensor<f32, 2, D>>,
        positions: Tensor<i64, 1, D>,
    }
}

fn main() -> Result<()> {
    let (mut w, gradient) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 2.0]));
    Adam::new(0.1).step(&w, &gradient)?;
    grad(w, |w, _| w.sum(All))?;
    Ok(())
}
