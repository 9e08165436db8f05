// Gradients of many numbers, which are not one.
use rankform::autograd::Tape;
use rankform::prelude::*;

fn main() {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([[1.0_f32, 2.0]])).unwrap();
    let _ = tape.backward(&x.sin().unwrap());
}
