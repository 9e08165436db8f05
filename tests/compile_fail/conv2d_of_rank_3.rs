// A convolution over two axes of one image, without a batch.
use rankform::prelude::*;

fn main() {
    let (x, w) = (Tensor::from([[[1.0_f32, 2.0]]]), Tensor::from([[[1.0_f32]]]));
    let _ = x.conv2d(&w, rankform::ops::Conv::new());
}
