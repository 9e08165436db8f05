//! One operator of each number of operands, in every way in which it can be called, on any device, against
//! plain loops.

use rankform::prelude::*;

elementwise! {
    pub fn one(a) { a * a * a - a * 0.5 }
    pub fn two(a, b) { a * a * b - b * 0.25 }
    pub fn three(a, b, c) { a + (b - a) * c * c }
    pub fn four(a, b, c, d) { a * b * b - c * d * a }
    pub fn five(a, b, c, d, e) { a * b + c * c * d - e * e * a }
    pub fn six(a, b, c, d, e, f) { a * b * c - d * e * e + f * f * a }
}

/// Sizes of the results.
const SIZE: [usize; 2] = [3, 4];

/// Element `[i, j]` of operand `k`: eighths, for exact arithmetic. Operand 2 is the same in every row, 3 a
/// number, 4 the same in every column.
fn element(k: usize, i: usize, j: usize) -> f64 {
    match k {
        2 => j as f64 * 0.5 - 1.0,
        3 => 1.5,
        4 => i as f64 - 0.5,
        _ => ((i * 7 + j * 5 + k * 3) % 11) as f64 * 0.25 - 1.0,
    }
}

/// All operands at an index.
fn at(i: usize, j: usize) -> [f64; 6] {
    std::array::from_fn(|k| element(k, i, j))
}

/// A row-major result, where a device has data.
fn shows<const RANK: usize, D: Device>(
    what: &str,
    found: &Tensor<f64, RANK, D>,
    size: [usize; RANK],
    expected: Vec<f64>,
) {
    assert_eq!(found.size(), size, "{what}");
    match found.to_vec() {
        Ok(found) => assert_eq!(found, expected, "{what}"),
        Err(error) => assert!(matches!(error, Error::NoData { .. }), "{what}: {error}"),
    }
}

/// The values of a function of an index, in order.
fn each(of: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..SIZE[0]).flat_map(|i| (0..SIZE[1]).map(move |j| (i, j))).map(|(i, j)| of(i, j)).collect()
}

/// The operands: a tensor, a transposed view, a row, a number, an expression of a column, a view that runs
/// backwards.
struct Operands<D: Device> {
    a: Tensor<f64, 2, D>,
    b: Tensor<f64, 2, D>,
    c: Tensor<f64, 1, D>,
    e: Tensor<f64, 2, D>,
    f: Tensor<f64, 2, D>,
}

impl<D: Device> Operands<D> {
    fn new(device: &D) -> Result<Self> {
        Ok(Operands {
            a: Tensor::from_fn(SIZE, |[i, j]| element(0, i, j), &Cpu)?.to(device)?,
            b: Tensor::from_fn([SIZE[1], SIZE[0]], |[j, i]| element(1, i, j), &Cpu)?.to(device)?,
            c: Tensor::from_fn([SIZE[1]], |[j]| element(2, 0, j), &Cpu)?.to(device)?,
            e: Tensor::from_fn([SIZE[0], 1], |[i, _]| element(4, i, 0) - 0.5, &Cpu)?.to(device)?,
            f: Tensor::from_fn(SIZE, |[i, j]| element(5, SIZE[0] - 1 - i, j), &Cpu)?.to(device)?,
        })
    }
}

/// A tuple that begins with one more.
macro_rules! together {
    ($first:expr, ($($other:expr,)*)) => { ($first, $($other,)*) };
}

/// One function an operator: its operands but the first, its value, its slope by each operand.
macro_rules! operators {
    (
        $($name:ident = $op:ident $o:ident $beside:tt; |$v:ident| $value:expr; $($k:literal: $slope:expr),+;)*
    ) => { $(
        pub fn $name<D: Device>(device: &D) -> Result<()> {
            let $o = Operands::new(device)?;
            let value = |$v: [f64; 6]| $value;
            let expected = each(|i, j| value(at(i, j)));

            shows("apply", &apply($op, together!(&$o.a, $beside))?, SIZE, expected.clone());
            shows("lazy", &$o.a.lazy().apply($op, $beside).eval()?, SIZE, expected.clone());
            // Fused with operators before and after it.
            let shifted = |i, j| {
                let mut operands = at(i, j);
                operands[0] += 1.0;
                value(operands) * 2.0
            };
            let fused = ($o.a.lazy() + 1.0).apply($op, $beside) * 2.0;
            shows("fused", &fused.eval()?, SIZE, each(shifted));
            let mut out = $o.a.copy()?;
            fused.eval_into(&mut out)?;
            shows("into", &out, SIZE, each(shifted));
            let mut out = $o.a.copy()?;
            apply_into($op, together!(&$o.a, $beside), out.view_mut()?.slice((.., ..))?)?;
            shows("apply_into", &out, SIZE, expected.clone());

            // Reduced, along rows and columns, and scanned.
            let row = |i: usize| (0..SIZE[1]).map(|j| shifted(i, j)).sum::<f64>();
            shows("sum", &fused.sum(Axis::<1>)?, [3], (0..3).map(row).collect());
            let largest = |j: usize| (0..SIZE[0]).map(|i| shifted(i, j)).fold(f64::MIN, f64::max);
            shows("max", &fused.max(Axis::<0>)?, [4], (0..4).map(largest).collect());
            shows("all", &fused.sum(All)?, [], vec![(0..3).map(row).sum()]);
            shows(
                "along", &(fused - fused.sum_along(Last)).eval()?, SIZE, each(|i, j| shifted(i, j) - row(i))
            );
            shows(
                "cumsum", &fused.cumsum(Axis::<0>)?, SIZE, each(|i, j| (0..=i).map(|i| shifted(i, j)).sum())
            );

            // In place: a tensor, and a part of one.
            let mut x = $o.a.copy()?;
            x.apply_in_place($op, $beside)?;
            shows("in place", &x, SIZE, expected.clone());
            let mut wide = Tensor::full([3, 6], 9.0, device)?;
            wide.view_mut()?.slice((.., 1..5))?.assign(&$o.a)?;
            wide.view_mut()?.slice((.., 1..5))?.apply_in_place($op, $beside)?;
            shows("a part in place", &wide.slice((.., 1..5))?.copy()?, SIZE, expected.clone());
            shows("beside it", &wide.slice((.., (..).step(5)))?.copy()?, [3, 2], vec![9.0; 6]);

            // By each operand.
            $(
                let slopes = each(|i, j| {
                    let $v = at(i, j);
                    $slope
                });
                shows(
                    "slope", &apply(derivative::<_, $k>($op), together!(&$o.a, $beside))?, SIZE,
                    slopes.clone()
                );
                let fused = $o.a.lazy().apply(derivative::<_, $k>($op), $beside) * 2.0;
                shows("slope, fused", &fused.sum(All)?, [], vec![slopes.iter().sum::<f64>() * 2.0]);
                let mut x = $o.a.copy()?;
                x.apply_in_place(derivative::<_, $k>($op), $beside)?;
                shows("slope in place", &x, SIZE, slopes);
            )+
            Ok(())
        }
    )* };
}
operators! {
    an_operator_of_one_operand = one o ();
        |v| v[0] * v[0] * v[0] - v[0] * 0.5;
        0: 3.0 * v[0] * v[0] - 0.5;
    an_operator_of_two_operands = two o (o.b.transposed(),);
        |v| v[0] * v[0] * v[1] - v[1] * 0.25;
        0: 2.0 * v[0] * v[1], 1: v[0] * v[0] - 0.25;
    an_operator_of_three_operands = three o (o.b.transposed(), o.c.lift(),);
        |v| v[0] + (v[1] - v[0]) * v[2] * v[2];
        0: 1.0 - v[2] * v[2], 1: v[2] * v[2], 2: 2.0 * v[2] * (v[1] - v[0]);
    an_operator_of_four_operands = four o (o.b.transposed(), o.c.lift(), 1.5,);
        |v| v[0] * v[1] * v[1] - v[2] * v[3] * v[0];
        0: v[1] * v[1] - v[2] * v[3], 1: 2.0 * v[0] * v[1], 2: -v[3] * v[0], 3: -v[2] * v[0];
    an_operator_of_five_operands = five o (o.b.transposed(), o.c.lift(), 1.5, o.e.lazy() + 0.5,);
        |v| v[0] * v[1] + v[2] * v[2] * v[3] - v[4] * v[4] * v[0];
        0: v[1] - v[4] * v[4], 1: v[0], 2: 2.0 * v[2] * v[3], 3: v[2] * v[2], 4: -2.0 * v[4] * v[0];
    an_operator_of_six_operands = six o (
        o.b.transposed(), o.c.lift(), 1.5, o.e.lazy() + 0.5, o.f.reversed(Axis::<0>),
    );
        |v| v[0] * v[1] * v[2] - v[3] * v[4] * v[4] + v[5] * v[5] * v[0];
        0: v[1] * v[2] + v[5] * v[5], 1: v[0] * v[2], 2: v[0] * v[1], 3: -v[4] * v[4], 4: -2.0 * v[3] * v[4],
            5: 2.0 * v[5] * v[0];
}

/// The methods that are there for one and for two operands alone.
pub fn maps_and_zips<D: Device>(device: &D) -> Result<()> {
    let o = Operands::new(device)?;
    let of_one = |v: [f64; 6]| v[0] * v[0] * v[0] - v[0] * 0.5;
    let of_two = |v: [f64; 6]| v[0] * v[0] * v[1] - v[1] * 0.25;
    shows("map", &o.a.map(one)?, SIZE, each(|i, j| of_one(at(i, j))));
    shows("zip", &o.a.zip(two, o.b.transposed())?, SIZE, each(|i, j| of_two(at(i, j))));
    let (mut x, mut y) = (o.a.copy()?, o.a.copy()?);
    x.map_in_place(one)?;
    y.zip_in_place(two, o.b.transposed())?;
    shows("map_in_place", &x, SIZE, each(|i, j| of_one(at(i, j))));
    shows("zip_in_place", &y, SIZE, each(|i, j| of_two(at(i, j))));
    Ok(())
}
