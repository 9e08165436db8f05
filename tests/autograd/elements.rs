//! Programs whose operands have different elements: their kernels of the backward pass have one type, and
//! store the element of the operand by which they differentiate.

use crate::check::close;
use rankform::autograd::{Tape, Var, grad, jvp};
use rankform::device::Interpreted;
use rankform::prelude::*;
use rankform::{bf16, f16};

/// `a² b² c` of three elements, in one kernel.
fn product<D: Device>(
    a: &Tensor<bf16, 1, D>,
    b: &Tensor<f16, 1, D>,
    c: &Tensor<f32, 1, D>,
) -> Result<Tensor<f32, 1, D>> {
    (a.lazy().cast::<f32>().square() * b.lazy().cast::<f32>().square() * c).eval()
}

fn operands<D: Device>(device: &D) -> Result<(Tensor<bf16, 1, D>, Tensor<f16, 1, D>, Tensor<f32, 1, D>)> {
    let [a, b, c] = [[1.5_f32, 2.0, -1.0], [0.5, 1.25, 2.0], [2.0, 4.0, 3.0]].map(Tensor::from);
    Ok((a.cast::<bf16>()?.to(device)?, b.cast::<f16>()?.to(device)?, c.to(device)?))
}

fn wide<T, D: Device>(x: &Tensor<T, 1, D>) -> Result<Vec<f64>>
where
    T: Element + Number,
{
    x.to(&Cpu)?.cast::<f64>()?.to_vec()
}

/// First derivatives. The operands of the three kernels differ in nothing but their elements.
fn first<D: Device>(device: &D) -> Result<()> {
    let (a, b, c) = operands(device)?;
    let (da, db, dc) = grad((&a, &b, &c), |(a, b, c), _| product(a, b, c)?.sum(All))?;
    close("by a bf16", &wide(&da)?, &[1.5, 25.0, -24.0]);
    close("by an f16", &wide(&db)?, &[4.5, 40.0, 12.0]);
    close("by an f32", &wide(&dc)?, &[0.5625, 6.25, 4.0]);
    Ok(())
}

#[test]
fn a_kernel_stores_the_element_of_its_variable() -> Result<()> {
    first(&Cpu)?;
    first(&Interpreted)?;
    // f64 beside f32: elements of other sizes.
    let (a, b, c) = (Tensor::from([2.0_f32; 3]), Tensor::from([3.0_f64; 3]), Tensor::from([5.0_f32; 3]));
    let (da, db, dc) =
        grad((&a, &b, &c), |(a, b, c), _| (a.lazy().cast::<f64>() * b * c.lazy().cast::<f64>()).sum(All))?;
    assert_eq!((da.to_vec()?, db.to_vec()?, dc.to_vec()?), (vec![15.0; 3], vec![10.0; 3], vec![6.0; 3]));
    let (da, db, dc) = grad((&a, &b, &c), |(a, b, c), _| {
        (a.lazy().cast::<f64>() * b * c.lazy().cast::<f64>()).eval()?.sum(All)
    })?;
    assert_eq!((da.to_vec()?, db.to_vec()?, dc.to_vec()?), (vec![15.0; 3], vec![10.0; 3], vec![6.0; 3]));
    Ok(())
}

/// The derivatives of `Σ ∂f/∂a + Σ n ∂f/∂b` of [`product`], by `a` and by `b`, with `n` of [`PLACES`].
const SECOND: [[f64; 3]; 2] = [[13.0, 12.5, 0.0], [24.0, 40.0, -18.0]];
/// Elements that are read once or twice: their gradients are added in their own type.
const PLACES: [i64; 3] = [0, 2, 0];
/// Tangents along `(1, 1, 0)`: `∂²f/∂a² + ∂²f/∂a∂b` and `∂²f/∂b² + ∂²f/∂a∂b`.
const TANGENTS: [[f64; 3]; 2] = [[7.0, 52.5, 0.0], [15.0, 72.0, -18.0]];

#[test]
fn second_derivatives_of_elements_of_one_size() -> Result<()> {
    let (a, b, c) = operands(&Cpu)?;
    let found = grad((&a, &b, &c), |(a, b, c), _| {
        let (da, db, _) = grad((a, b, c), |(a, b, c), _| product(a, b, c)?.sum(All))?;
        let places = Tensor::from_slice(&PLACES, [3], a.device())?;
        let db = db.index_select(Axis::<0>, &places)?;
        (da.lazy().cast::<f32>() + db.lazy().cast::<f32>()).sum(All)
    })?;
    close("by a bf16", &wide(&found.0)?, &SECOND[0]);
    close("by an f16", &wide(&found.1)?, &SECOND[1]);
    // Forward over backward.
    let ones = (Tensor::<bf16, 1>::ones([3], &Cpu)?, Tensor::<f16, 1>::ones([3], &Cpu)?);
    let zeros = Tensor::<f32, 1>::zeros([3], &Cpu)?;
    for (k, expected) in TANGENTS.iter().enumerate() {
        let (_, tangent) = jvp((&a, &b, &c), (&ones.0, &ones.1, &zeros), |(a, b, c), _| {
            let (da, db, _) = grad((a, b, c), |(a, b, c), _| product(a, b, c)?.sum(All))?;
            if k == 0 { da.cast::<f32>() } else { db.cast::<f32>() }
        })?;
        close("a product with a Hessian", &wide(&tangent)?, expected);
    }
    Ok(())
}

#[test]
fn second_derivatives_of_pairs_of_numbers_and_wide_numbers() -> Result<()> {
    use num_complex::Complex;
    // |z|² w² of z in C32 and w in f64, which have 8 bytes.
    let program = |z: &Var<Complex<f32>, 1, Tape>, w: &Var<f64, 1, Tape>| {
        let length = (z.lazy().re().square() + z.lazy().im().square()).cast::<f64>();
        (length * w.lazy().square()).sum(All)
    };
    let (z, w) =
        (Tensor::from([Complex::new(1.0_f32, 2.0), Complex::new(-0.5, 1.0)]), Tensor::from([3.0, 0.5]));
    let (dz, dw) = grad((&z, &w), |(z, w), _| {
        // ∂/∂z = 2 z w² and ∂/∂w = 2 |z|² w, of which the first element is read twice.
        let (dz, dw) = grad((z, w), |(z, w), _| program(z, w))?;
        let dw = dw.index_select(Axis::<0>, &Tensor::from_slice(&[0_i64, 0], [2], w.device())?)?;
        (dz.lazy().re().cast::<f64>() + dw.lazy()).sum(All)
    })?;
    let dz: Vec<f64> = dz.to_vec()?.iter().flat_map(|z| [f64::from(z.re), f64::from(z.im)]).collect();
    close("by a complex number", &dz, &[42.0, 48.0, 0.5, 0.0]);
    close("by an f64", &dw.to_vec()?, &[32.0, -1.0]);
    Ok(())
}

/// Loads of one operand beside each other and apart, of three elements: one kernel serves all of them.
#[test]
fn one_kernel_for_many_loads_of_different_elements() -> Result<()> {
    let (a, b, c) = operands(&Cpu)?;
    let (da, db, dc) = grad((&a, &b, &c), |(a, b, c), _| {
        let y = a.lazy().cast::<f32>() * b.lazy().cast::<f32>() * c * a.lazy().cast::<f32>();
        (y * c * b.lazy().cast::<f32>() * b.lazy().cast::<f32>() + c).eval()?.sum(All)
    })?;
    // Of a² b³ c² + c.
    close("by a bf16", &wide(&da)?, &[1.5, 125.0, -144.0]);
    close("by an f16", &wide(&db)?, &[27.0 * 0.25, 3.0 * 4.0 * 1.5625 * 16.0, 3.0 * 4.0 * 9.0]);
    close("by an f32", &wide(&dc)?, &[2.25 * 0.125 * 4.0 + 1.0, 4.0 * 1.953125 * 8.0 + 1.0, 49.0]);
    Ok(())
}
