//! Contributions to gradients of parts of a block.

use num_complex::Complex;
use rankform::autograd::grad;
use rankform::ops::Square;
use rankform::prelude::*;

/// Numbers without a pattern.
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// A range of `n` that is not empty, with a step.
fn range(random: &mut Random, n: usize) -> (usize, usize, isize) {
    let start = random.below(n);
    let end = start + 1 + random.below(n - start);
    (start, end, [1, 1, 2, -1][random.below(4)])
}

#[test]
fn gradients_of_slices_add_up() -> Result<()> {
    let mut random = Random(7);
    let size = dim![4, 6];
    for _ in 0..200 {
        let values = (0..24).map(|_| random.below(9) as f64 - 4.0).collect();
        let x = Tensor::from_vec(values, size)?;
        let slices: Vec<_> =
            (0..1 + random.below(6)).map(|_| (range(&mut random, 4), range(&mut random, 6))).collect();
        let sees_all = random.below(4) == 0;
        let gradient = grad(&x, |x, _| {
            let mut sum = if sees_all { x.lazy().square().sum(All)? } else { (x.lazy() * 0.0).sum(All)? };
            for (k, &((top, bottom, down), (left, right, along))) in slices.iter().enumerate() {
                let part = x.slice((top..bottom, left..right))?;
                let part = part.slice(((..).step(down), (..).step(along)))?;
                // A sum, a product with itself, a copy, and the values alone.
                sum += match k % 4 {
                    0 => part.sum(All)?,
                    1 => (part.lazy() * part).sum(All)?,
                    2 => (part.copy()?.lazy() * 3.0).sum(All)?,
                    _ => (part.lazy() * part.transposed().transposed()).sum(All)?,
                };
            }
            Ok(sum)
        })?;
        let mut expected = [[0.0; 6]; 4];
        for (row, values) in expected.iter_mut().enumerate() {
            for (column, slope) in values.iter_mut().enumerate() {
                let value = x.get([row, column]).unwrap();
                *slope = if sees_all { 2.0 * value } else { 0.0 };
                for (k, &(rows, columns)) in slices.iter().enumerate() {
                    let holds = |(start, end, step): (usize, usize, isize), at: usize| {
                        let first = if step < 0 { end - 1 } else { start };
                        (start..end).contains(&at) && at.abs_diff(first) % step.unsigned_abs() == 0
                    };
                    if holds(rows, row) && holds(columns, column) {
                        *slope += [1.0, 2.0 * value, 3.0, 2.0 * value][k % 4];
                    }
                }
            }
        }
        assert_eq!(gradient, Tensor::from(expected), "{slices:?}");
    }
    Ok(())
}

#[test]
fn a_gradient_of_parts_follows_updates_in_place() -> Result<()> {
    let x = Tensor::from([1.0, 2.0, 3.0, 4.0]);
    let gradient = grad(&x, |x, tape| {
        let mut y = x.copy()?;
        y.view_mut()?.slice((..2,))?.map_in_place(Square)?;
        let first = (y.slice((..2,))?.lazy() * 1.0).sum(All)?; // 2 x
        y.view_mut()?.assign(&tape.constant(&Tensor::from([1.0; 4]))?)?;
        let second = (y.slice((2..,))?.lazy() * 5.0).sum(All)?; // constants
        Ok(first + second)
    })?;
    assert_eq!(gradient.to_vec()?, [2.0, 4.0, 0.0, 0.0]);
    Ok(())
}

#[test]
fn parts_of_real_and_of_complex_numbers_share_a_block() -> Result<()> {
    let x = Tensor::from([Complex::new(1.0_f64, 0.0); 8]);
    for real_parts_first in [true, false] {
        let gradient = grad(&x, |x, _| {
            let real_parts = || (x.view_as_real()?.slice((4..6, 0))?.lazy() * 10.0).sum(All);
            let elements = || x.slice(((4..).step(2),))?.copy()?.view_as_real()?.sum(All);
            Ok(if real_parts_first { real_parts()? + elements()? } else { elements()? + real_parts()? })
        })?;
        let expected = [[0.0, 0.0], [11.0, 1.0], [10.0, 0.0], [1.0, 1.0], [0.0, 0.0]];
        let found = gradient.to_vec()?[3..].iter().map(|x| [x.re, x.im]).collect::<Vec<_>>();
        assert_eq!(found, expected, "{real_parts_first}");
    }
    let x = Tensor::from([1.0_f64; 32]);
    let gradient = grad(&x, |x, _| {
        let pairs = x.reshape([16, 2])?;
        let complex = pairs.view_as_complex()?.slice(((4..8).step(2),))?.copy()?;
        let real = (x.slice(((8..12).step(2),))?.lazy() * 10.0).sum(All)?;
        Ok(complex.view_as_real()?.sum(All)? + real)
    })?;
    assert_eq!(gradient.slice((8..14,))?.to_vec()?, [11.0, 1.0, 10.0, 0.0, 1.0, 1.0]);
    Ok(())
}
