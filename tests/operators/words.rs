//! Errors name the operation and its wrong operands; division that refuses 0; the plain methods of lanes.

use rankform::ops::{self, Cov, QuantileMethod, ScatterReduction, Side};
use rankform::prelude::*;
use rankform::{AnyDevice, Error};

/// The text of an error.
#[track_caller]
fn text<X>(result: Result<X>) -> String {
    result.err().map_or_else(|| String::from("accepted"), |error| error.to_string())
}

#[test]
fn errors_name_the_operation_that_was_called() -> Result<()> {
    let x = Tensor::<f32, 2>::ones([2, 3], &Cpu)?;
    let y = Tensor::<f32, 2>::ones([4, 5], &Cpu)?;
    let line = Tensor::from([1.0_f32, 2.0]);
    let far = Tensor::from([[7_i64, 0, 0]]);
    let (index, five) = (Tensor::from([7_i64]), Tensor::from([5_i64]));
    let mask = Tensor::from([[true, false]]);
    let whole = Tensor::from([1_i32, 2]);
    let handle = || x.share_data();
    let fresh = || x.copy().expect("memory");
    let pool = Pool::new([9, 9]);
    let images = Tensor::<f32, 4>::ones([1, 1, 3, 3], &Cpu)?;
    let mut wrong = Vec::new();
    macro_rules! named {
        ($($name:literal $result:expr;)*) => { $(
            let found = text($result);
            if !found.starts_with(concat!($name, ": ")) {
                wrong.push(format!("{}: {found}", stringify!($result)));
            }
        )* };
    }
    named! {
        "add" x.add(&y);
        "maximum" x.maximum(&y);
        "atan2" x.atan2(&y);
        "less" x.less(&y);
        "clamp" x.clamp(&y, 1.0);
        "select" x.less(0.0)?.select(&y, &x);
        "checked_div" whole.checked_div(0);
        "assign" fresh().assign(&y);
        "sum" x.sum_axis(5);
        "var" x.var_axis(5);
        "max" Tensor::<f32, 2>::zeros([0, 3], &Cpu)?.max(Axis::<0>);
        "cumsum" x.cumsum_axis(5);
        "sort" x.sort_axis(5);
        "argsort" x.argsort_axis(5);
        "topk" x.topk(Axis::<1>, 9);
        "quantile" x.quantile(2.0, Axis::<0>, QuantileMethod::Linear);
        "histogram" x.histogram(0, 0.0, 1.0);
        "cov" x.cov(Cov::default().frequencies(index.view()));
        "gather" x.gather(Axis::<0>, &far);
        "gather" x.gather_axis(5, &far);
        "take" x.take(&index);
        "index_select" x.index_select(Axis::<1>, &index);
        "index_select" x.index_select_axis(5, &index);
        "embedding" x.embedding(&index);
        "masked_fill" x.masked_fill(&Tensor::from([[true, false]]), 0.0);
        "masked_select" x.masked_select(&mask);
        "masked_scatter" fresh().masked_scatter(&x.less(9.0)?, &line);
        "scatter" fresh().scatter(ops::Add, Axis::<0>, &far, &x);
        "scatter" fresh().scatter_axis(ops::Add, 5, &far, &x);
        "index_scatter" fresh().index_scatter(ops::Add, Axis::<1>, &index, &x.slice((.., ..1))?);
        "index_scatter" fresh().index_scatter_axis(ops::Add, 5, &index, &x);
        "index_scatter" handle().index_scatter(ops::Add, Axis::<1>, &index, &x);
        "scatter_reduce" fresh().scatter_reduce(ScatterReduction::Mean, Axis::<0>, &far, &x, true);
        "scatter_reduce" fresh().scatter_reduce(ScatterReduction::Sum, Axis::<0>, &far, &x, true);
        "scatter_reduce" fresh().scatter_reduce(ScatterReduction::Sum, Axis::<0>, &far, &y, true);
        "scatter_reduce" fresh().scatter_reduce_axis(ScatterReduction::Max, 5, &far, &x, true);
        "index_reduce" fresh().index_reduce(ScatterReduction::Mean, Axis::<1>, &index, &x, false);
        "index_reduce" fresh().index_reduce(ScatterReduction::Prod, Axis::<1>, &index, &y, false);
        "index_reduce" fresh().index_reduce_axis(ScatterReduction::Min, 5, &index, &x, false);
        "one_hot" five.one_hot::<f32, _>(5);
        "bincount" five.bincount(2);
        "reshape" x.reshape([5]);
        "into_shape" fresh().into_shape([5]);
        "into_shape" x.copy()?.into_transposed()?.into_shape([6]);
        "to_shape" x.to_shape([5]);
        "share_as" x.share_as([5]);
        "reshape_in_place" fresh().reshape_in_place([5, 1]);
        "permuted" x.permuted([0, 0]);
        "into_permuted" fresh().into_permuted([0, 0]);
        "broadcast_to" x.broadcast_to([4, 3]);
        "into_broadcast" fresh().into_broadcast([4, 3]);
        "remove_axis" x.remove_axis(Axis::<0>);
        "into_remove_axis" fresh().into_remove_axis(Axis::<0>);
        "slice" x.slice((5, ..));
        "into_slice" fresh().into_slice((5, ..));
        "slice_axis" x.slice_axis(0, 0..5, 1);
        "reversed_axis" x.reversed_axis(5);
        "windows" x.windows(Axis::<0>, 5, 1);
        "diagonal" x.diagonal(Axis::<0>, Axis::<0>);
        "split" x.split(Axis::<1>, [1, 1]);
        "concat" Tensor::concat([x.view(), y.view()], Axis::<0>);
        "stack" Tensor::stack([x.view(), y.view()], Axis::<0>);
        "roll" x.roll_axis(5, 1);
        "repeat" x.repeat_axis(5, 1);
        "pad" x.pad([(usize::MAX, 0), (0, 9)], Pad::Reflect);
        "matmul" x.matmul(&y);
        "matmul_packed" x.matmul_packed(&y.pack()?);
        "vecdot" x.vecdot(&y, Axis::<0>);
        "cross" x.cross(&x, Axis::<0>);
        "tensordot" x.tensordot(&y, [(0, 0)]);
        "matrix_power" x.matrix_power(2);
        "einsum" einsum!("ij,ij->i", &x, &y);
        "einsum_into" einsum_into!("ij,ij->i", &x, &y, &mut Tensor::from([0.0_f32, 0.0]));
        "searchsorted" line.searchsorted(&Tensor::<f32, 1>::empty([2], &Cpu)?, Side::Left);
        "isin" x.isin(&Tensor::<f32, 1>::empty([2], &Cpu)?);
        "glu" x.glu(Axis::<1>);
        "max_pool2d" images.max_pool2d(pool);
        "conv2d" images.conv2d(&Tensor::<f32, 4>::ones([1, 2, 1, 1], &Cpu)?, Conv::new());
        "cross_entropy" x.cross_entropy(Axis::<1>, &Tensor::from([5_i64, 0]), ClassLoss::new());
        "random_uniform" Tensor::<f32, 1>::random_uniform([1], 1.0..0.0, 0, &Cpu);
        "random_normal" Tensor::<f32, 1>::random_normal([1], 0.0, -1.0, 0, &Cpu);
        "arange" Tensor::<f32, 1>::arange(0.0, 1.0, 0.0, &Cpu);
        "item" x.item();
        "to_vec" Tensor::<f32, 1>::empty([2], &Cpu)?.to_vec();
        "softmax" Tensor::<f32, 1>::empty([2], &Cpu)?.softmax(Axis::<0>);
        "resize_axis" fresh().resize_axis(5, 1);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn errors_describe_the_fault_in_the_words_of_the_operation() -> Result<()> {
    let x = Tensor::<f32, 2>::ones([2, 3], &Cpu)?;
    let cases = [
        (text(x.remove_axis(Axis::<0>)), "remove_axis: axis 0 of sizes [2, 3] has size 2, not 1"),
        (
            text(x.copy()?.into_remove_axis(Axis::<1>)),
            "into_remove_axis: axis 1 of sizes [2, 3] has size 3, not 1",
        ),
        (text(x.cross(&x, Axis::<0>)), "cross: axis 0 of sizes [2, 3] has size 2, not 3"),
        (text(x.copy()?.into_shape([4])), "into_shape: [4] holds 4 elements, found 6 of sizes [2, 3]"),
        (text(x.to_shape([4])), "to_shape: [4] holds 4 elements, found 6 of sizes [2, 3]"),
        (
            text(x.copy()?.index_scatter(ops::Add, Axis::<1>, &Tensor::from([3]), &Tensor::from([[1.0]]))),
            "index_scatter: index 3 is outside axis 1 of size 3, of sizes [2, 3]",
        ),
        (
            text(x.copy()?.index_reduce(
                ScatterReduction::Mean,
                Axis::<0>,
                &Tensor::from([-1]),
                &Tensor::from([[1.0]]),
                true,
            )),
            "index_reduce: index -1 is outside axis 0 of size 2, of sizes [2, 3]",
        ),
        (
            text(Tensor::from([2_i64, 3]).one_hot::<f32, _>(3)),
            "one_hot: class 3 is none of 3, counted from 0",
        ),
        (
            text(Tensor::from([[-1_i64]]).one_hot::<f32, _>(3)),
            "one_hot: class -1 is none of 3, counted from 0",
        ),
        (
            text(Tensor::<f64, 1>::random_uniform([2], 1.0..0.0, 7, &Cpu)),
            "random_uniform: the range 1..0 must be of finite numbers, the first below the second",
        ),
        (
            text(einsum!("ij,jk->ik", &x, &Tensor::from([[1.0_f32]; 4]))),
            "einsum: letter `j` stands for 3 indices in sizes [2, 3] and for 4 in [4, 1]",
        ),
        (
            text(einsum!("bi,bj->bij", &x, &Tensor::from([[1.0_f32]; 4]))),
            "einsum: letter `b` stands for 2 indices in sizes [2, 3] and for 4 in [4, 1]",
        ),
    ];
    for (found, wanted) in cases {
        assert_eq!(found, wanted);
    }
    // One `Error` in a lazily chosen device too.
    let there = Tensor::<f32, 2, AnyDevice>::ones([2, 3], &AnyDevice::from(Cpu))?;
    assert_eq!(text(there.remove_axis(Axis::<0>)), "remove_axis: axis 0 of sizes [2, 3] has size 2, not 1");
    Ok(())
}

macro_rules! checked_division {
    ($($t:ident)*) => { $( {
        let values: Vec<$t> = vec![$t::MIN, $t::MAX, 0, 1, 7, 100, $t::MAX - 1];
        let divisors: Vec<$t> = vec![1, 2, 3, 7, $t::MAX, (0 as $t).wrapping_sub(1), 0];
        let (n, m) = (values.len(), divisors.len());
        let (x, y) = (Tensor::from_vec(values.clone(), [n, 1])?, Tensor::from_vec(divisors.clone(), [1, m])?);
        // Row by row of divisors: all quotients, or the first that is none.
        for (j, &divisor) in divisors.iter().enumerate() {
            let expected: Option<Vec<$t>> = values.iter().map(|x| x.checked_div(divisor)).collect();
            let column = y.slice((.., j..j + 1))?;
            let found = x.checked_div(column);
            match expected {
                Some(expected) => assert_eq!(
                    (found?.to_vec()?, x.checked_div(divisor)?.to_vec()?), (expected.clone(), expected)
                ),
                None => {
                    let first = values.iter().position(|x| x.checked_div(divisor).is_none())
                        .expect("one has none");
                    let wanted = format!(
                        "checked_div: {} / {divisor} at [{first}, 0] is no {}", values[first], stringify!($t)
                    );
                    assert_eq!(found.unwrap_err().to_string(), wanted);
                }
            }
        }
        assert!(x.checked_div(&y).is_err());
        let good = x.slice((1.., ..))?.checked_div(y.slice((.., ..4))?)?;
        assert_eq!(good, x.slice((1.., ..))?.div(y.slice((.., ..4))?)?);
    } )* };
}

#[test]
fn checked_division_refuses_zero_and_overflow_and_else_is_division() -> Result<()> {
    checked_division!(i8 i16 i32 i64 u8 u16 u32 u64);
    // Views, expressions, sizes of 0, rank 0.
    let x = Tensor::from_fn([40, 50], |[i, j]| (50 * i + j) as i32 - 900, &Cpu)?;
    let halves = x.transposed().checked_div(x.lazy().square().minimum(5).maximum(2).eval()?.transposed())?;
    assert_eq!(halves, x.transposed().div(x.lazy().square().minimum(5).maximum(2).eval()?.transposed())?);
    assert_eq!(text(x.checked_div(x.lazy() - 3)), "checked_div: 3 / 0 at [18, 3] is no i32");
    let none = Tensor::<i64, 2>::zeros([0, 3], &Cpu)?;
    assert_eq!(none.checked_div(&none)?.size(), [0, 3]);
    assert_eq!(Tensor::<i64, 0>::from(9).checked_div(2)?.item()?, 4);
    assert!(Tensor::<i64, 0>::from(9).checked_div(0).is_err());
    // The output is unchanged where an element has no quotient.
    let mut out = Tensor::from([7_i32, 7]);
    assert!(Tensor::from([4, 6]).checked_div_into(&Tensor::from([2, 0]), &mut out).is_err());
    assert_eq!(out.to_vec()?, [7, 7]);
    Tensor::from([4, 6]).checked_div_into(2, &mut out)?;
    assert_eq!(out.to_vec()?, [2, 3]);
    // Without data there is nothing to refuse but sizes.
    let shapes = Tensor::<i32, 2, Meta>::zeros([2, 3], &Meta::new())?;
    assert_eq!(shapes.checked_div(&shapes)?.size(), [2, 3]);
    assert!(matches!(
        shapes.checked_div(&Tensor::<i32, 2, Meta>::zeros([2, 4], shapes.device())?),
        Err(Error::Sizes { .. })
    ));
    Ok(())
}

#[test]
fn division_of_integers_without_a_check_gives_zero_and_wraps() -> Result<()> {
    let (x, y) = (Tensor::from([7_i32, i32::MIN]), Tensor::from([0, -1]));
    assert_eq!(((&x / &y).to_vec()?, (&x % &y).to_vec()?), (vec![0, i32::MIN], vec![0, 0]));
    assert_eq!((Tensor::from([200_u8]) + Tensor::from([100_u8])).to_vec()?, [44]);
    assert_eq!((Tensor::from([i32::MAX]) + 1).to_vec()?, [i32::MIN]);
    Ok(())
}

elementwise! {
    fn plain(x) { x.square() + x.recip() - x.rsqrt() }
    fn kept(x) { x.relu() * x.softplus() }
    fn squared(x) where Number { x.square() }
    fn above(x) where RealNumber { x.relu() }
}

#[test]
fn a_body_may_call_the_plain_methods_of_tensors() -> Result<()> {
    let x = Tensor::from([0.25_f64, 1.0, 3.0]);
    let wanted: Vec<f64> = x.iter().map(|x| x * x + 1.0 / x - 1.0 / x.sqrt()).collect();
    assert_eq!(x.map(plain)?.to_vec()?, wanted);
    let x = Tensor::from([-2.0, 0.0, 0.5, f64::NAN]);
    assert!(
        x.map(kept)?
            .iter()
            .zip(x.relu()?.mul(&x.softplus()?)?.iter())
            .all(|(a, b)| a == b || a.is_nan() && b.is_nan())
    );
    assert_eq!(x.map(derivative::<_, 0>(squared))?.slice((..3,))?.to_vec()?, [-4.0, 0.0, 1.0]);
    assert_eq!(Tensor::from([-3_i8, 5]).map(squared)?.to_vec()?, [9, 25]);
    assert_eq!(Tensor::from([-3_i8, 5]).map(above)?.to_vec()?, [0, 5]);
    Ok(())
}
