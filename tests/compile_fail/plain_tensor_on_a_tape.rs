// Plain tensors beside variables.
use rankform::autograd::Tape;
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let tape = Tape::new(&Cpu);
    let w = tape.watch(&x).unwrap();
    let _ = &w + &x;
    let _ = w.mul(&x);
    let _ = w.lazy() * &x;
    let _ = w.matmul(x.transposed());
}
