//! Uses the operator of `one_operator.patch` in every way that an operator has.

use rankform::ops::{built_in, SignedSquare};
use rankform::prelude::*;

/// In generic code, for every element, rank and device.
fn twice<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
    x.signed_square()?.signed_square()
}

fn main() -> Result<()> {
    let x = Tensor::from([[1.0, -2.0], [3.0, 0.5]]);
    assert_eq!(x.signed_square()?.to_vec()?, [1.0, -4.0, 9.0, 0.25]);
    assert_eq!(x.transposed().signed_square()?.to_vec()?, [1.0, 9.0, -4.0, 0.25]);
    assert_eq!(twice(&x)?.to_vec()?, [1.0, -16.0, 81.0, 0.0625]);

    let fused = (x.lazy().signed_square() + 1.0).eval()?;
    assert_eq!(fused.to_vec()?, [2.0, -3.0, 10.0, 1.25]);
    assert_eq!(x.lazy().signed_square().sum(Axis::<1>)?.to_vec()?, [-3.0, 9.25]);

    let slope = x.map(derivative::<_, 0>(SignedSquare))?; // 2 · |x|
    assert_eq!(slope.to_vec()?, [2.0, 4.0, 6.0, 1.0]);

    let mut y = x.copy()?;
    y.map_in_place(SignedSquare)?;
    assert_eq!(y.to_vec()?, [1.0, -4.0, 9.0, 0.25]);

    let shapes = Tensor::<f32, 3, Meta>::zeros([2, 0, 5], &Meta::new())?;
    assert_eq!(twice(&shapes)?.size(), [2, 0, 5]);

    let rows = built_in();
    let row = rows.iter().find(|row| row.name == "signed_square").expect("a row of the table");
    assert_eq!((row.operands, (row.value)([-3.0, 0.0]), (row.slope)([-3.0, 0.0])), (1, -9.0, [6.0, 0.0]));
    Ok(())
}
