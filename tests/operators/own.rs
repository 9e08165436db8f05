//! Operators of one's own: several outputs, run-time numbers, tuples of up to six operands, booleans, equal
//! operands.

use crate::arrange::{SIZE, arranged, read};
use crate::value::{Random, Value, differ};
use rankform::kernel::{Op, Reducer, trace_op};
use rankform::prelude::*;

elementwise! {
    pub fn scaled(x, a, b) { x * a + b }
    fn parity(x) -> bool where Integer { (x.shr(0) % Lane::int(2)).ne(Lane::zero()) }
    fn divided(x, y) -> (T, T, bool) where Integer { (x / y, x % y, y.eq(Lane::zero())) }
    fn both(x, y) -> (T, bool) { (x.max(y) * 2.0, x.gt(y)) }
    fn six(a, b, c, d, e, f) where Number { a + b * c - d * e + f * f }
    fn six_out(a) -> (T, T, T, T, T, T) where Number { (a, a + a, a * a, -a, a - 1, a * a * a) }
    fn bits(x, y) where Bitwise { (x & !y) ^ (x | y) }
    fn shifts(x) where Integer { x.shl(3) ^ x.shr(2) }
}

#[test]
fn operators_with_several_outputs_write_each_of_them_on_every_layout() -> Result<()> {
    let mut random = Random(71);
    let left = arranged(SIZE, || f32::moderate(&mut random));
    let right = arranged(SIZE, || f32::moderate(&mut random));
    for (x, y) in left.iter().zip(right.iter().rev()) {
        let (x, y) = (&x.tensor, &y.tensor);
        let size: [usize; 3] = std::array::from_fn(|axis| x.size()[axis].max(y.size()[axis]));
        let (doubled, above) = apply_many(both, (x.view(), y))?;
        assert_eq!((doubled.size(), above.size()), (Dim(size), Dim(size)));
        let (xs, ys) = (read(x, size), read(y, size));
        assert!((0..xs.len()).all(|k| doubled.to_vec().unwrap()[k] == xs[k].max(ys[k]) * 2.0));
        assert_eq!(above.to_vec()?, xs.iter().zip(&ys).map(|(x, y)| x > y).collect::<Vec<_>>());
    }
    for n in [0, 1, 33, 257, 5000] {
        let x = Tensor::from_fn([n], |[i]| (i % 997) as i16 * 7 - 300, &Cpu)?;
        let y = Tensor::from_fn([n], |[i]| (i % 5) as i16 - 2, &Cpu)?;
        let (quotient, remainder, by_zero) = apply_many(divided, (x.reversed(Axis::<0>), &y))?;
        for (i, y) in y.iter().enumerate() {
            let x = x[[n - 1 - i]];
            let expected = (x.checked_div(*y).unwrap_or(0), x.checked_rem(*y).unwrap_or(0), *y == 0);
            assert_eq!((quotient[[i]], remainder[[i]], by_zero[[i]]), expected);
        }
    }
    let (a, b, c, d, e, f) = apply_many(six_out, (Tensor::from([3_u8, 100]).view(),))?;
    let all = [a, b, c, d, e, f].map(|x| x.to_vec().unwrap());
    assert_eq!(all, [[3, 100], [6, 200], [9, 16], [253, 156], [2, 99], [27, 64]]);
    Ok(())
}

#[test]
fn run_time_numbers_reach_their_operands_and_no_kernel_keeps_them() -> Result<()> {
    let x = Tensor::from_fn([1000], |[i]| i as f32, &Cpu)?;
    for k in 0..20 {
        let (a, b) = (k as f32 * 0.5, 3.0 - k as f32);
        let y = apply(scaled, (x.view(), a, b))?;
        assert!(x.iter().zip(y.iter()).all(|(x, y)| *y == x * a + b), "{a} {b}");
        let z = (x.lazy() * a + b).eval()?;
        assert_eq!(z.to_vec()?, y.to_vec()?);
        assert_eq!((a * x.lazy() - b).eval()?[[7]], a * 7.0 - b);
    }
    let half = rankform::f16::from_f32;
    let y = apply(scaled, (Tensor::from([half(1.0), half(3.0)]).view(), half(0.1), half(2.0)))?;
    assert_eq!(y.to_vec()?, [1.0, 3.0].map(|x| half(x * half(0.1).to_f32() + 2.0)));
    Ok(())
}

#[test]
fn tuples_of_six_operands_stretch_together() -> Result<()> {
    let mut random = Random(72);
    let all = arranged(SIZE, || i32::moderate(&mut random));
    for k in 0..all.len() {
        let [a, b, c, d, e, f] = std::array::from_fn(|j| &all[(k + j * 3) % all.len()].tensor);
        let size: [usize; 3] =
            std::array::from_fn(|axis| [a, b, c, d, e, f].map(|x| x.size()[axis]).into_iter().max().unwrap());
        let found = apply(six, (a.view(), b, c.view(), d.lazy(), e.lazy() + 0, f))?;
        let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(|x| read(x, size));
        let expected: Vec<i32> =
            (0..a.len()).map(|k| a[k] + b[k] * c[k] - d[k] * e[k] + f[k] * f[k]).collect();
        assert_eq!(differ(&found.to_vec()?, &expected), None);
    }
    Ok(())
}

#[test]
fn classes_of_elements_have_their_own_bodies() -> Result<()> {
    let x = Tensor::from_fn([300], |[i]| i as i16 - 150, &Cpu)?;
    assert_eq!(x.map(parity)?.to_vec()?, x.iter().map(|x| x % 2 != 0).collect::<Vec<_>>());
    assert_eq!(x.map(shifts)?.to_vec()?, x.iter().map(|x| x.wrapping_shl(3) ^ (x >> 2)).collect::<Vec<_>>());
    let (p, q) = (Tensor::from([true, true, false, false]), Tensor::from([true, false, true, false]));
    assert_eq!(p.zip(bits, &q)?.to_vec()?, [true, false, true, false]);
    assert_eq!(Tensor::from([0b1100_u8]).zip(bits, 0b1010_u8)?.to_vec()?, [0b0100 ^ 0b1110]);
    Ok(())
}

#[test]
fn an_operand_that_occurs_twice_in_an_expression_is_read_once() -> Result<()> {
    let device = Meta::tracing();
    let x = Tensor::<f32, 2, _>::zeros([3, 4], &device)?;
    let y = (x.lazy() * &x + x.transposed().permuted([1, 0])? - &x).eval()?;
    assert_eq!(
        (y.size(), device.kernels()[0].matches("input").count()),
        (dim![3, 4], 1),
        "{:?}",
        device.kernels()
    );
    let others = [Tensor::<f32, 2, _>::zeros([3, 4], &device)?, Tensor::zeros([3, 4], &device)?];
    (x.lazy() * &others[0] + &others[1]).eval()?;
    assert_eq!(
        device.kernels().last().unwrap().matches("input").count(),
        3,
        "tensors without data are not one another"
    );
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    // The same memory under another layout is another operand.
    assert_eq!((x.lazy() * 10.0 + x.transposed()).eval()?.to_vec()?, [11.0, 23.0, 32.0, 44.0]);
    assert_eq!((x.lazy() - x.reversed(Axis::<1>)).eval()?.to_vec()?, [-1.0, 1.0, -1.0, 1.0]);
    assert!(trace_op::<scaled, (f64, f64, f64)>().unwrap().len() == 6);
    Ok(())
}

#[test]
fn an_expression_reads_23_operands_and_refuses_more() -> Result<()> {
    let x: Vec<Tensor<f32, 1>> =
        (0..26).map(|k| Tensor::full([300], k as f32, &Cpu)).collect::<Result<_>>()?;
    macro_rules! sum {
        ($first:literal $($k:literal)*) => { (x[$first].lazy() $(+ &x[$k])*) };
    }
    let y = sum!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22).eval()?;
    assert_eq!(y.to_vec()?, [253.0; 300]);
    let error = sum!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23).eval().unwrap_err();
    assert!(matches!(error, Error::Operands { limit: 23, .. }), "{error}");
    let sum = sum!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
    let (doubled, above) = apply_many(both, (&x[21], sum))?;
    assert_eq!((doubled.to_vec()?, above.to_vec()?), (vec![420.0; 300], vec![false; 300]));
    let error = apply_many(both, (&x[21], sum + &x[22])).unwrap_err();
    assert!(
        matches!(error, Error::Operands { limit: 22, .. }),
        "two outputs leave room for one less: {error}"
    );
    let strided = x[1].slice(((..).step(-1),))?;
    assert_eq!(
        (sum!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21) + strided).sum(All)?.item()?,
        232.0 * 300.0
    );
    Ok(())
}

#[test]
fn rank_0_goes_through_every_kind_of_operator() -> Result<()> {
    let (x, y) = (Tensor::from(3.0), Tensor::from(4.0));
    assert_eq!(((&x + &y).item()?, x.exp()?.item()?, x.hypot(&y)?.item()?), (7.0, 3f64.exp(), 5.0));
    assert_eq!((x.lazy() * &y - 2.0).eval()?.item()?, 10.0);
    assert_eq!(
        (x.sum(All)?.item()?, x.argmax(All)?.item()?, x.greater(&y)?.select(&x, &y)?.item()?),
        (3.0, 0, 4.0)
    );
    let mut z = x.copy()?;
    z += &y;
    z.map_in_place(rankform::ops::Square)?;
    assert_eq!(z.item()?, 49.0);
    let (doubled, above) = apply_many(both, (x.view(), &y))?;
    assert_eq!((doubled.item()?, above.item()?), (8.0, false));
    Ok(())
}

/// An operator that doubles, and a reducer that sums.
#[derive(Clone, Copy)]
struct Twice;

impl Op<(f32,)> for Twice {
    type Out = f32;
    fn call<L: Lanes>((x,): (Lane<L, f32>,)) -> Lane<L, f32> {
        x + x
    }
}

impl Reducer<f32> for Twice {
    const NAME: &'static str = "twice";
    type Out = f32;
    type State<L: Lanes> = Lane<L, f32>;
    fn identity<L: Lanes>() -> Self::State<L> {
        Lane::zero()
    }
    fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, f32>, _: Lane<L, i64>) -> Self::State<L> {
        state + x
    }
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        a + b
    }
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, f32> {
        state
    }
}

#[test]
fn one_type_is_an_operator_and_a_reducer() -> Result<()> {
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    assert_eq!(x.map(Twice)?.to_vec()?, [2.0, 4.0, 6.0]);
    assert_eq!(x.view().reduce(Twice, All)?.item()?, 6.0);
    Ok(())
}

/// A table of `elementwise!`, whose rows state slopes.
macro_rules! table {
    ($($name:ident)*) => { elementwise! { $(pub(crate) fn $name(x) { x.exp() } slope of y { y })* } };
}
table! {
    row_0 row_1 row_2 row_3 row_4 row_5 row_6 row_7 row_8 row_9 row_10 row_11 row_12 row_13 row_14 row_15
    row_16 row_17 row_18 row_19 row_20 row_21 row_22 row_23 row_24 row_25 row_26 row_27 row_28 row_29
    row_30 row_31 row_32 row_33 row_34 row_35 row_36 row_37 row_38 row_39 row_40 row_41 row_42 row_43
    row_44 row_45 row_46 row_47 row_48 row_49 row_50 row_51 row_52 row_53 row_54 row_55 row_56 row_57
    row_58 row_59 row_60 row_61 row_62 row_63 row_64 row_65 row_66 row_67 row_68 row_69 row_70 row_71
    row_72 row_73 row_74 row_75 row_76 row_77 row_78 row_79 row_80 row_81 row_82 row_83 row_84 row_85
    row_86 row_87 row_88 row_89 row_90 row_91 row_92 row_93 row_94 row_95 row_96 row_97 row_98 row_99
    row_100 row_101 row_102 row_103 row_104 row_105 row_106 row_107 row_108 row_109 row_110 row_111
    row_112 row_113 row_114 row_115 row_116 row_117 row_118 row_119 row_120 row_121 row_122 row_123
    row_124 row_125 row_126 row_127 row_128 row_129 row_130 row_131 row_132 row_133 row_134 row_135
    row_136 row_137 row_138 row_139
}

/// Rows whose visibility another macro passes on.
macro_rules! passed {
    ($($visible:vis fn $name:ident;)*) => {
        elementwise! { $($visible fn $name(x) { x + 1.0 } slope of _y { Lane::one() })* }
    };
}
passed! {
    pub fn public;
    fn private;
}

#[test]
fn a_table_of_any_length_states_slopes() -> Result<()> {
    let x = Tensor::from([0.5, -1.0]);
    assert_eq!((x.map(row_0)?, x.map(row_139)?), (x.exp()?, x.exp()?));
    assert_eq!((x.map(public)?, x.map(private)?), (&x + 1.0, &x + 1.0));
    Ok(())
}
