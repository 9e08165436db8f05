//! Values that no result depends on: infinite slopes beside the variable, branches that were not taken.

use rankform::autograd::grad;
use rankform::prelude::*;

#[test]
fn slopes_of_other_operands_do_not_reach_a_gradient() -> Result<()> {
    let (x, w, c) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]), Tensor::from([0.0, 4.0]));
    let of_three = grad(&x, |x, tape| {
        let (w, c) = (tape.constant(&w)?, tape.constant(&c)?);
        (x.lazy() * &w + c.lazy().sqrt()).eval()?.sum(All)
    })?;
    assert_eq!(of_three.to_vec()?, [3.0, 4.0]);
    let reduced = grad(&x, |x, tape| {
        let (w, c) = (tape.constant(&w)?, tape.constant(&c)?);
        (x.lazy() * &w + c.lazy().ln()).sum(All)
    })?;
    assert_eq!(reduced.to_vec()?, [3.0, 4.0]);
    let by_a_number = grad(&x, |x, tape| {
        let c = tape.constant(&Tensor::from([1.0, 0.0]))?;
        (x.lazy() * 5.0 + 1.0 / c.lazy()).eval()?.sum(All)
    })?;
    assert_eq!(by_a_number.to_vec()?, [5.0, 5.0]);
    let by_quotients = grad(&x, |x, tape| {
        let (w, c) = (tape.constant(&w)?, tape.constant(&Tensor::from([4.0, 0.0]))?);
        let d = tape.constant(&Tensor::from([2.0, 3.0]))?;
        let quotients = 1.0 / c.lazy() + c.lazy() / &d;
        (x.lazy() * &w + quotients).eval()?.sum(All)
    })?;
    assert_eq!(by_quotients.to_vec()?, [3.0, 4.0]);
    let by_remainders = grad(&x, |x, tape| {
        let (w, c) = (tape.constant(&w)?, tape.constant(&Tensor::from([4.0, 1.0]))?);
        let d = tape.constant(&Tensor::from([2.0, 3.0]))?;
        (x.lazy() * &w + c.lazy().rem(&d)).eval()?.sum(All)
    })?;
    assert_eq!(by_remainders.to_vec()?, [3.0, 4.0]);
    let in_both = grad((&x, &w), |(x, w), tape| {
        let c = tape.constant(&c)?;
        (x.lazy() * w + c.lazy().sqrt() * w).sum(All)
    })?;
    assert_eq!((in_both.0.to_vec()?, in_both.1.to_vec()?), (vec![3.0, 4.0], vec![1.0, 4.0]));
    Ok(())
}
