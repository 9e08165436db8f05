//! Backward passes by blocks of rows, on the CPU, against those of a device that runs large kernels.

use crate::check::{between, close, random};
use crate::counted::Counted;
use rankform::autograd::{Tape, Var, grad};
use rankform::bf16;
use rankform::prelude::*;

/// Rows of which the CPU takes several blocks.
const SIZE: [usize; 2] = [400, 96];

/// A matrix, a row and a column on a tape.
type Operands<'a, D> = [&'a Var<f64, 2, D>; 3];

/// The gradients by the operands of a program on a device.
fn gradients<D: Device>(
    device: &D,
    program: impl FnOnce(Operands<'_, D>, &Tape<D>) -> Result<Var<f64, 2, D>>,
) -> Result<[Vec<f64>; 3]> {
    let tape = Tape::new(device);
    let [rows, columns] = SIZE;
    let on = |x: Tensor<f64, 2>| tape.watch(&x.to(device)?);
    let operands =
        [on(random(SIZE, 1))?, on(between([1, columns], 2, 0.5, 1.5))?, on(between([rows, 1], 3, 0.5, 1.5))?];
    let y = program(operands.each_ref(), &tape)?;
    let gradients = tape.vjp(&y, &random(y.size().0, 4).to(device)?)?;
    let [a, b, c] = operands.map(|x| gradients.of(&x)?.to(&Cpu)?.to_vec());
    Ok([a?, b?, c?])
}

/// Compares programs on both devices.
macro_rules! same_in_blocks {
    ($($name:literal: |$x:ident, $row:ident, $column:ident| $program:expr;)*) => { $(
        let by_blocks = gradients(&Cpu, |[$x, $row, $column], _| $program)?;
        let at_once = gradients(&Counted::default(), |[$x, $row, $column], _| $program)?;
        for (found, expected) in by_blocks.iter().zip(&at_once) {
            close($name, found, expected);
        }
        assert!(by_blocks[0].iter().any(|x| *x != 0.0), $name);
    )* };
}

/// A softmax of any expression of the size of `x`.
fn softmax<D: Device>(x: &Tensor<f64, 2, D>) -> Result<Tensor<f64, 2, D>> {
    let powers = (x.lazy() - x.max_along(Last)).exp();
    (powers / powers.sum_along(Last)).eval()
}

#[test]
fn operands_of_every_form() -> Result<()> {
    same_in_blocks! {
        "softmax": |x, _row, _column| softmax(x);
        "with a row and a column": |x, row, column| {
            let scaled = x.lazy() * row.broadcast_to(SIZE)? + column.broadcast_to(SIZE)?;
            let deviation = (scaled.var_along(Last) + 1e-3).sqrt();
            ((scaled - scaled.mean_along(Last)) / deviation * row.broadcast_to(SIZE)?).eval()
        };
        "transposed": |x, _row, _column| {
            let x = x.transposed();
            (x.lazy() / (x.lazy().square().sum_along(Last) + 1.0).sqrt()).eval()
        };
        "reversed": |x, _row, _column| softmax(&x.reversed(Axis::<1>).to_contiguous()?);
        "windows that overlap": |x, _row, _column| {
            let windows = x.windows(Axis::<1>, 3, 1)?;
            let y = (windows.lazy() - windows.max_along(Last)).exp().eval()?;
            y.reshape([SIZE[0], 3 * (SIZE[1] - 2)])?.to_contiguous()
        };
        "one block twice": |x, _row, _column| {
            let other = x.reversed(Axis::<0>);
            (x.lazy() * other.lazy() - (x.lazy() * other.lazy()).mean_along(Last)).eval()
        };
        "one value for each row": |x, row, _column| {
            let total = (x.lazy() * row.broadcast_to(SIZE)?).eval()?;
            let y = (total.lazy() - total.mean_along(Last)).square().sum_along(Last);
            (y + x.lazy() * 0.0).eval()
        };
        "gradients that exist": |x, row, column| {
            let y = softmax(x)?;
            let z = (x.lazy() * row.broadcast_to(SIZE)?).eval()?;
            let z = (z.lazy() - z.mean_along(Last) + column.broadcast_to(SIZE)?).eval()?;
            (y.lazy() * z.lazy() + x.lazy()).eval()
        };
        "into a part": |x, _row, _column| {
            let upper = x.slice((..SIZE[0] - 100, 1..))?;
            (upper.lazy() - upper.mean_along(Last)).square().eval()
        };
    }
    Ok(())
}

/// Three axes, of which the blocks divide the second one.
#[test]
fn blocks_inside_of_long_axes() -> Result<()> {
    fn by<D: Device>(device: &D) -> Result<[Vec<f64>; 2]> {
        let tape = Tape::new(device);
        let x = tape.watch(&random([2, 700, 64], 1).to(device)?)?;
        let mask = tape.watch(&random([700, 64], 2).to(device)?)?;
        let scores = x.lazy() + mask.lift();
        let powers = (scores - scores.max_along(Last)).exp();
        let y = (powers / powers.sum_along(Last)).eval()?;
        let gradients = tape.vjp(&y, &random([2, 700, 64], 3).to(device)?)?;
        Ok([gradients.of(&x)?.to(&Cpu)?.to_vec()?, gradients.of(&mask)?.to(&Cpu)?.to_vec()?])
    }
    let (found, expected) = (by(&Cpu)?, by(&Counted::default())?);
    close("x", &found[0], &expected[0]);
    close("mask", &found[1], &expected[1]);
    Ok(())
}

#[test]
fn second_derivatives_of_blocks() -> Result<()> {
    let x = random([600, 64], 1);
    let (outer, inner) = {
        let tape = Tape::new(&Tape::new(&Cpu));
        let inner = tape.inner().watch(&x)?;
        (tape, inner)
    };
    let on_both = outer.watch(&inner)?;
    let loss = softmax(&on_both)?.square()?.sum(All)?;
    let first = outer.backward(&loss)?.of(&on_both)?;
    let direction = outer.inner().constant(&random([600, 64], 2))?;
    let second = outer.inner().backward(&(first.lazy() * &direction).sum(All)?)?.of(&inner)?;
    // Along a row a product of the Hessian and a vector is a difference of gradients.
    let at = |step: f64| {
        let moved = (x.lazy() + &(random([600, 64], 2) * step)).eval()?;
        grad(&moved, |x, _| softmax(x)?.square()?.sum(All))?.to_vec()
    };
    let (above, below) = (at(1e-4)?, at(-1e-4)?);
    for ((found, a), b) in second.to_vec()?.iter().zip(&above).zip(&below) {
        assert!((found - (a - b) / 2e-4).abs() < 1e-7, "{found}, not {}", (a - b) / 2e-4);
    }
    Ok(())
}

/// Each block sums to 2055 · 2⁻³, of which 16 bits keep 2048 · 2⁻³: a sum of rounded sums would be too small.
#[test]
fn sums_of_blocks_are_rounded_once() -> Result<()> {
    const ROWS: usize = 1 << 17;
    let row = Tensor::<bf16, 1>::ones([64], &Cpu)?;
    let x = Tensor::<bf16, 2>::ones([ROWS, 64], &Cpu)?;
    let gradient = grad(&row, |row, tape| {
        let y = (tape.constant(&x)?.lazy() * row.lift() * row.lift()).eval()?;
        // The first 2055 of 4096 rows count, in each block.
        let counts = (0..ROWS).map(|k| bf16::from_f32(if k % 2048 < 1031 { 1.0 } else { 0.0 })).collect();
        let counts = tape.constant(&Tensor::from_vec(counts, [ROWS, 1])?)?;
        (y.lazy() * counts.broadcast_to([ROWS, 64])?).sum(All)
    })?;
    let exact = 2.0 * (0..ROWS).filter(|k| k % 2048 < 1031).count() as f32;
    assert!(gradient.to_vec()?.iter().all(|x| *x == bf16::from_f32(exact)), "{gradient}, not {exact}");
    Ok(())
}

#[test]
fn an_operand_without_a_slope_gets_no_gradient_of_zeros() -> Result<()> {
    // 0 · ∞ in the product before would be NaN.
    for rows in [4, 600] {
        let (q, v) = (random([rows, 3], 1), random([rows, 96], 2));
        let w = Tensor::<f64, 2>::from_fn([3, 96], |[i, _]| if i == 1 { f64::INFINITY } else { 1.0 }, &Cpu)?;
        let gradients = grad((&q, &v), |(q, v), tape| {
            let scores = q.matmul(tape.constant(&w)?.view())?;
            let s = || scores.lazy().greater(0.0).select(v, -5.0);
            let shifted = s() - s().max_along(Last);
            let y = (shifted.exp() / shifted.exp().sum_along(Last)).eval()?;
            (y.lazy() * v).sum(All)
        })?;
        assert!(gradients.0.to_vec()?.iter().all(|g| *g == 0.0), "{rows} rows");
        assert!(gradients.1.to_vec()?.iter().any(|g| *g != 0.0), "{rows} rows");
    }
    Ok(())
}
