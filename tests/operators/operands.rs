//! Operators of one to twelve operands: eager, lazy, inside a reduction and a scan, in place, by derivative,
//! with data and without.

#[path = "../common/operands.rs"]
mod each;

use rankform::Complex;
use rankform::kernel::Op;
use rankform::prelude::*;

macro_rules! on_devices {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() -> Result<()> {
            each::$name(&Cpu)?;
            each::$name(&Meta::new())
        }
    )* };
}
on_devices! {
    an_operator_of_one_operand
    an_operator_of_two_operands
    an_operator_of_three_operands
    an_operator_of_four_operands
    an_operator_of_five_operands
    an_operator_of_six_operands
    maps_and_zips
}

elementwise! {
    fn twelve(a, b, c, d, e, f, g, h, i, j, k, l) where Number {
        a + b * c - d + e * f - g + h * i - j + k * l
    }
    fn mix(a, b, t) { a + (b - a) * t }
    /// An operator inside a body.
    fn twice_mixed(a, b, t) {
        let once = <mix as Op<(T, T, T)>>::call::<L>((a, b, t));
        <mix as Op<(T, T, T)>>::call::<L>((once, b, t))
    }
    fn chosen(yes, no, x, least) -> bool { x.ge(least).select(yes, no).gt(0.0) }
    fn rotated(x, y) where Number { x * y }
}

#[test]
fn an_operator_of_twelve_operands_works_in_an_expression() -> Result<()> {
    let x: Vec<Tensor<i32, 1>> = (0..12)
        .map(|k| Tensor::from_fn([700], |[i]| ((i + 7) * (k + 3) % 13) as i32 - 6, &Cpu))
        .collect::<Result<_>>()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = std::array::from_fn(|n| &x[n]);
    let y = (a.lazy() + 1).apply(twelve, (b, c, d, e, f, g, h, i, j, k, l)) * 2;
    let at = |n: usize| {
        let v: Vec<i32> = x.iter().map(|x| x[[n]]).collect();
        (v[0] + 1 + v[1] * v[2] - v[3] + v[4] * v[5] - v[6] + v[7] * v[8] - v[9] + v[10] * v[11]) * 2
    };
    assert_eq!(y.eval()?.to_vec()?, (0..700).map(at).collect::<Vec<_>>());
    assert_eq!(y.sum(All)?.item()?, (0..700).map(at).sum::<i32>());
    let mut z = a.copy()?;
    z.apply_in_place(twelve, (b, c, d, e, f, g, h, i, j, k, l))?;
    assert_eq!(z.to_vec()?, (0..700).map(|n| at(n) / 2 - 1).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn operators_of_operators_reductions_and_other_elements_are_one_pass() -> Result<()> {
    let (x, y) = (Tensor::from([[1.0_f32, 3.0], [5.0, 9.0]]), Tensor::from([[0.5_f32, 0.25]]));
    // An expression in an expression, a reduction along rows among the operands.
    let found = x.lazy().apply(mix, (x.lazy().apply(mix, (&y, 0.5)), x.max_along(Last))).eval()?;
    let plain = |i: usize, j: usize| {
        let (x, row) = (x[[i, j]], x[[i, 1]]);
        let inner = x + (y[[0, j]] - x) * 0.5;
        x + (inner - x) * row
    };
    assert_eq!(found, Tensor::from([[plain(0, 0), plain(0, 1)], [plain(1, 0), plain(1, 1)]]));
    assert_eq!(x.lazy().apply(twice_mixed, (&y, 0.5)).eval()?[[1, 1]], 0.25 + (9.0 - 0.25) / 4.0);
    assert_eq!(x.lazy().apply(chosen, (0.0, &x, 4.0)).count(All)?.item()?, 2);
    let z = Tensor::from([Complex::new(1.0, 2.0), Complex::new(0.0, -1.0)]);
    assert_eq!(z.lazy().apply(rotated, (Complex::new(0.0, 1.0),)).sum(All)?.item()?, Complex::new(-1.0, 1.0));
    let half = rankform::f16::from_f32;
    let halves = Tensor::from([half(2048.0), half(1.0)]);
    // Rounded once, at the end: 2048 + 3 is no f16.
    let mixed = (halves.lazy() + half(3.0)).apply(mix, (half(1.0), half(0.875))).eval()?;
    assert_eq!(mixed.to_vec()?, [half(257.25), half(1.375)]);
    Ok(())
}

#[test]
fn operators_of_many_operands_refuse_mismatched_sizes() -> Result<()> {
    let (x, y) = (Tensor::<f64, 2>::zeros([3, 4], &Cpu)?, Tensor::<f64, 2>::zeros([3, 5], &Cpu)?);
    let error = x.lazy().apply(mix, (&y, 0.5)).eval().unwrap_err();
    assert_eq!(error.to_string(), "eval: sizes [3, 4] and [3, 5] do not broadcast");
    let mut row = Tensor::<f64, 2>::zeros([1, 4], &Cpu)?;
    assert!(
        matches!(row.apply_in_place(mix, (&x, 0.5)), Err(Error::Output { op: "mix", .. })),
        "what is updated does not stretch"
    );
    assert!(matches!(row.apply_in_place(mix, (&y, 0.5)), Err(Error::Sizes { op: "mix", .. })));
    let other = row.share_data();
    assert!(matches!(row.apply_in_place(mix, (0.0, 0.5)), Err(Error::Shared { .. })));
    drop(other);
    row.apply_in_place(mix, (1.0, 0.5))?;
    assert_eq!(row.to_vec()?, [0.5; 4]);
    let unready = Tensor::<f64, 2>::empty([3, 4], &Cpu)?;
    assert!(matches!(x.lazy().apply(mix, (&unready, 0.5)).sum(All), Err(Error::Unallocated { .. })));
    let mut none = Tensor::<f64, 2>::zeros([0, 4], &Cpu)?;
    none.apply_in_place(mix, (&row, 0.5))?;
    assert_eq!(none.lazy().apply(mix, (&row, 0.5)).sum(Axis::<0>)?.to_vec()?, [0.0; 4]);
    let mut point = Tensor::from(3.0);
    point.apply_in_place(mix, (5.0, 0.5))?;
    assert_eq!(point.item()?, 4.0);
    assert_eq!(point.lazy().apply(mix, (0.0, 0.25)).eval()?.item()?, 3.0);
    Ok(())
}
