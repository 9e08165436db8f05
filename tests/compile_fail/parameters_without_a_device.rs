// A struct of parameters without a type for its device.
use rankform::prelude::*;

parameters! {
    struct Net {
        weight: Tensor<f32, 2>,
    }
}

fn main() {}
