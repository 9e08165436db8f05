//! Fusing: `lazy()` begins an expression that runs in one pass over memory, without a tensor in between.
//!
//! `cargo run --release --example 06_fuse`

use rankform::prelude::*;

/// How far rows are from a center, one operator after the other.
fn eager<D: Device>(x: &Tensor<f32, 2, D>, center: &Tensor<f32, 1, D>) -> Result<Tensor<f32, 1, D>> {
    let difference = x.sub(center.lift())?;
    let squares = difference.square()?;
    squares.sum(Axis::<1>)?.sqrt()
}

/// The same as one expression up to the reduction, which swallows it.
fn fused<D: Device>(x: &Tensor<f32, 2, D>, center: &Tensor<f32, 1, D>) -> Result<Tensor<f32, 1, D>> {
    let squares = (x.lazy() - center.lift()).square(); // nothing has been computed yet
    squares.sum(Axis::<1>)?.sqrt()
}

pub fn main() -> Result<()> {
    let x = Tensor::from([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]]);
    let center = Tensor::from([0.0, 0.0]);
    println!("distances: {}", fused(&x, &center)?);
    assert_eq!(fused(&x, &center)?.to_vec()?, [5.0, 1.0, 10.0]);
    assert_eq!(eager(&x, &center)?.to_vec()?, fused(&x, &center)?.to_vec()?);

    // The kernel that ran: the device `Meta` computes nothing and keeps every kernel as text.
    let kernels_of =
        |run: &dyn Fn(&Tensor<f32, 2, Meta>, &Tensor<f32, 1, Meta>) -> Result<Tensor<f32, 1, Meta>>| {
            let device = Meta::tracing();
            let (x, center) = (x.to(&device)?, center.to(&device)?);
            run(&x, &center)?;
            Ok(device.kernels())
        };
    let (one_by_one, together) =
        (kernels_of(&|x, center| eager(x, center))?, kernels_of(&|x, center| fused(x, center))?);
    println!("\neager: {} kernels, of which two fill a tensor as large as x", one_by_one.len());
    println!("fused: {} kernels; the first of them is\n{}", together.len(), together[0]);
    assert_eq!((one_by_one.len(), together.len()), (4, 2));

    // An expression is a small value: copied, kept, reused. Equal operands are loaded once.
    let logistic = 1.0 / ((x.lazy() * -1.0).exp() + 1.0);
    let slope = (logistic * (1.0 - logistic)).eval()?;
    println!("slope of the logistic function:\n{slope:.4}\n");
    assert_eq!(slope[[1, 0]], 0.25);

    // Into memory that is there already: no allocation at all.
    let mut out = Tensor::<f32, 2>::zeros([3, 2], &Cpu)?;
    let address = out.raw_ptr();
    (x.lazy() * 2.0 + 1.0).eval_into(&mut out)?;
    println!("2x + 1:\n{out}");
    assert_eq!((out.to_vec()?, out.raw_ptr()), (vec![7.0, 9.0, 1.0, 3.0, 13.0, 17.0], address));

    // A choice on every element, inside the pass.
    let clipped = x.lazy().greater(5.0).select(5.0, &x).eval()?;
    assert_eq!(clipped.to_vec()?, [3.0, 4.0, 0.0, 1.0, 5.0, 5.0]);
    Ok(())
}
