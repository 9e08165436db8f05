// Variables whose elements are discrete.
use rankform::autograd::{Tape, grad};
use rankform::prelude::*;

fn main() {
    let tape = Tape::new(&Cpu);
    let _ = tape.watch(&Tensor::from([1_i64, 2]));
    let _ = grad(&Tensor::from([1_i32, 2]), |x, _| x.sum(All));
}
