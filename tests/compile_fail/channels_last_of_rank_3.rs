// Channels-last order is defined for rank 4.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[[1.0_f32]]]);
    let _ = x.to_channels_last();
}
