//! Reductions along rows inside an expression: bit for bit the same reduction as a tensor of its own.

use crate::IS_SANITIZED;
use crate::arrange::{SIZE, arranged, arranged_or_sampled, rows_past_caches};
use crate::value::{Random, Value};
use rankform::f16;
use rankform::prelude::*;

fn same<T: Value>(found: &Tensor<T, 3>, expected: &Tensor<T, 3>, what: &str) {
    assert_eq!(found.size(), expected.size(), "{what}");
    for index in expected.size().indices() {
        let (a, b) = (found[index], expected[index]);
        assert!(a.same(b), "{what} at {index:?}: {a:?}, not {b:?}");
    }
}

/// Expressions with parts along `$axes`; `$keep` puts the axes of a reduced tensor back.
macro_rules! agree {
    ($x:expr, $kind:expr, $axes:expr, |$y:ident| $keep:expr) => {{
        let (x, axes, kind) = ($x, $axes, $kind);
        let $y = x.max(axes)?;
        let largest = $keep.copy()?;
        let $y = x.sum(axes)?;
        let sum = $keep.copy()?;
        same(&(x.lazy() - x.max_along(axes)).eval()?, &(x - &largest), kind);
        same(&(x.lazy() * x.sum_along(axes) + x).eval()?, &(x.lazy() * &sum + x).eval()?, kind);
        // A part inside a part: computed twice, or held.
        let (shifted, apart) = (x.lazy() - x.max_along(axes), x.lazy() - &largest);
        let $y = apart.square().sum(axes)?;
        let squares = $keep.copy()?;
        let expected = (apart + &squares).eval()?;
        same(&(shifted + shifted.square().sum_along(axes)).eval()?, &expected, kind);
        let held = shifted.cached();
        same(&(held + held.square().sum_along(axes)).eval()?, &expected, kind);
        same(&(held + held.square().cached().sum_along(axes)).eval()?, &expected, kind);
        // Reduced last along the same axes, and written into an existing tensor.
        let $y = held.square().sum(axes)?;
        same(&$keep.copy()?, &squares, kind);
        let mut out = expected.copy()?;
        shifted.eval_into(&mut out.view_mut()?)?;
        same(&out, &apart.eval()?, kind);
        let mut out = x.copy()?;
        out -= x.max_along(axes);
        same(&out, &apart.eval()?, kind);
    }};
}

fn every_layout<T: Value + Number + Comparable + num_traits::NumCast>() -> Result<()> {
    let mut random = Random(17);
    for sizes in [SIZE, [3, 70, 2], [1, 300, 5], [40, 1, 33], [0, 3, 2], [1, 1, 1]] {
        // Whole numbers: their sums are exact in every order.
        let next = || <T as num_traits::NumCast>::from(random.below(9)).unwrap();
        for arranged in arranged_or_sampled(sizes, next) {
            let (x, kind) = (&arranged.tensor, arranged.kind);
            if x.is_empty() {
                assert_eq!((x.lazy() - x.max_along(Axis::<1>)).eval()?.size(), x.size());
                assert_eq!((x.lazy() - x.sum_along(All)).eval()?.size(), x.size());
                continue;
            }
            agree!(x, kind, Axis::<0>, |y| y.insert_axis(Axis::<0>));
            agree!(x, kind, Axis::<1>, |y| y.insert_axis(Axis::<1>));
            agree!(x, kind, Axis::<2>, |y| y.insert_axis(Axis::<2>));
            agree!(x, kind, (Axis::<0>, Axis::<2>), |y| y.insert_axis(Axis::<0>).insert_axis(Axis::<2>));
            agree!(x, kind, All, |y| y.lift());
        }
    }
    Ok(())
}

#[test]
fn parts_along_rows_agree_with_tensors_of_their_own_on_every_layout() -> Result<()> {
    every_layout::<f32>()?;
    every_layout::<f64>()?;
    every_layout::<i32>()?;
    every_layout::<u8>()
}

#[test]
fn rows_longer_than_a_leaf_and_outputs_past_the_caches_agree_too() -> Result<()> {
    let x = Tensor::<f32, 2>::random_normal([3, 50_000], 0.0, 1.0, 5, &Cpu)?;
    let expected = (x.lazy() - x.mean(Axis::<1>)?.insert_axis(Axis::<1>)).eval()?;
    let found = (x.lazy() - x.mean_along(Axis::<1>)).eval()?;
    if cfg!(rankform_through_cuda) {
        // A GPU shares out a row in another way where it is settled than where it is reduced.
        assert!(found.sub(&expected)?.abs()?.max(All)?.item()? < 1e-6);
    } else {
        assert_eq!(found, expected); // one tree for a row, whoever climbs it
    }
    let rows = if IS_SANITIZED { rows_past_caches(2100, 4) } else { 2100 };
    let wide = Tensor::from_fn([rows, 2100], |[i, j]| ((i * 7 + j * j) % 11) as f32, &Cpu)?;
    for x in [wide.view(), wide.transposed()] {
        let expected = (x.lazy() - x.mean(Axis::<1>)?.insert_axis(Axis::<1>)).eval()?;
        assert_eq!((x.lazy() - x.mean_along(Axis::<1>)).cached().eval()?, expected);
    }
    Ok(())
}

#[test]
fn reductions_write_into_existing_tensors_of_every_layout() -> Result<()> {
    let mut random = Random(19);
    for arranged in arranged(SIZE, || f64::moderate(&mut random)) {
        let x = &arranged.tensor;
        let mut out = Tensor::<f64, 2>::zeros([2 * x.size()[2], x.size()[0]], &Cpu)?;
        let mut part = out.view_mut()?.transposed().slice((.., (..).step(-2)))?;
        x.reduce_into(rankform::ops::Sum, Axis::<1>, &mut part)?;
        assert_eq!(
            out.transposed().slice((.., (..).step(-2)))?.to_vec()?,
            x.sum(Axis::<1>)?.to_vec()?,
            "{}",
            arranged.kind
        );
        let centered = x.lazy() - x.sum_along(Axis::<1>);
        let mut part = out.view_mut()?.transposed().slice((.., (..).step(-2)))?;
        centered.reduce_into(rankform::ops::Max, Axis::<1>, &mut part)?;
        assert_eq!(
            out.transposed().slice((.., (..).step(-2)))?.to_vec()?,
            centered.eval()?.max(Axis::<1>)?.to_vec()?,
            "{}",
            arranged.kind
        );
    }
    let x = Tensor::<f32, 2>::ones([2, 3], &Cpu)?;
    let error = x
        .reduce_into(rankform::ops::Sum, Axis::<0>, &mut Tensor::<f32, 1>::ones([2], &Cpu)?.view_mut()?)
        .unwrap_err();
    assert_eq!(error.to_string(), "sum: a result of sizes [3] does not fit the output, of sizes [2]");
    Ok(())
}

#[test]
fn equal_parts_of_different_operands_and_numbers_are_told_apart() -> Result<()> {
    let (x, y) = (Tensor::from([[1.0, 2.0], [3.0, 5.0]]), Tensor::from([[10.0, 20.0], [30.0, 50.0]]));
    let sums = (x.sum_along(Axis::<1>) + y.sum_along(Axis::<1>)).eval()?;
    assert_eq!(sums.to_vec()?, [33.0, 33.0, 88.0, 88.0]);
    let scaled = |by: f64| (x.lazy() * by).cached();
    let sums =
        (scaled(1.0).sum_along(Axis::<1>) + scaled(100.0).sum_along(Axis::<1>) + scaled(0.5)).eval()?;
    assert_eq!(sums.to_vec()?, [303.5, 304.0, 809.5, 810.5]);
    // An operand with one row for all, and a bias of one row.
    let bias = Tensor::from([1.0, -1.0]);
    let y = (x.lazy() - x.mean_along(Axis::<1>) + bias.lift()).eval()?;
    assert_eq!(y.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
    let y = apply(crate::own::scaled, (x.view(), x.max_along(Axis::<0>), 1.0))?;
    assert_eq!(y.to_vec()?, [4.0, 11.0, 10.0, 26.0]);
    Ok(())
}

#[test]
fn parts_without_loads_are_found_in_the_order_in_which_they_were_settled() {
    use rankform::kernel::{Cached, Call, Param, RowConstant, RowReduce, Store, trace_program};
    use rankform::ops::{Add, Max, Sub, Sum};
    let part = |x: f64| Param(x);
    let inner = Call::<Sub, _>::new((part(1.0), RowReduce::<Max, _>::new(part(2.0))));
    let left = RowReduce::<Sum, _>::new(inner);
    let right = RowReduce::<Max, _>::new(Cached::new(RowReduce::<Sum, _>::new(part(3.0))));
    let program = trace_program(&Store(Call::<Add, _>::new((left, right))), &[]).unwrap();
    // 0: max 2; 1: sum (1 − given 0); 2: sum 3; 3: held given 2; 4: max of given 3.
    let given = |body: &rankform::scalar::Graph| {
        let nodes = body.nodes().filter_map(|(node, ..)| {
            if let rankform::scalar::Node::Given { index } = node { Some(index) } else { None }
        });
        nodes.collect::<Vec<_>>()
    };
    let kinds: Vec<_> =
        program.row_constants.iter().map(|settled| matches!(settled, RowConstant::Cached { .. })).collect();
    assert_eq!(kinds, [false, false, false, true, false]);
    let bodies: Vec<_> = program.row_constants.iter().map(|settled| given(settled.body())).collect();
    assert_eq!(bodies, [vec![], vec![0], vec![], vec![2], vec![3]]);
    assert_eq!(given(&program.graph), [1, 4]);
}

#[test]
fn halves_keep_their_reduction_in_single_precision() -> Result<()> {
    let x = Tensor::<f16, 1>::ones([5000], &Cpu)?; // 2049 and more are not all halves
    let y = (x.lazy() / x.sum_along(Axis::<0>)).eval()?;
    assert_eq!(y[[4999]], f16::from_f64(1.0 / 5000.0));
    Ok(())
}

#[test]
fn axes_that_differ_and_parts_that_are_shorter_are_errors() -> Result<()> {
    let x = Tensor::<f32, 2>::ones([2, 3], &Cpu)?;
    let error = (x.sum_along(Axis::<0>) + x.sum_along(Axis::<1>)).eval().unwrap_err();
    assert_eq!(
        error.to_string(),
        "eval: one expression is reduced along different axes; evaluate one of its parts first"
    );
    let none = Tensor::<f32, 2>::ones([2, 0], &Cpu)?;
    assert_eq!((none.lazy() - none.sum_along(Axis::<1>)).sum(Axis::<1>)?.to_vec()?, [0.0, 0.0]);
    assert!(matches!((none.lazy() - none.sum_along(Axis::<1>)).max(Axis::<1>), Err(Error::Empty { .. })));
    assert!(matches!(x.sum_along(Axis::<0>).square().sum(Axis::<1>), Err(Error::Value { op: "sum", .. })));
    let row = Tensor::<f32, 2>::ones([2, 1], &Cpu)?;
    let error = (x.lazy() + row.sum_along(Axis::<1>)).eval().unwrap_err();
    assert_eq!(
        error.to_string(),
        "eval: a part of sizes [2, 1] is reduced along an axis that has another size in the whole, of sizes \
         [2, 3]; evaluate that part first"
    );
    let y = Tensor::<f32, 2, _>::ones([2, 3], &Meta::new())?;
    assert_eq!((y.lazy() - y.mean_along(Axis::<1>)).eval()?.size(), dim![2, 3]);
    Ok(())
}

#[test]
fn an_operand_of_one_element_a_row_is_that_of_its_rows_whatever_their_length() -> Result<()> {
    for n in [1, 2, 7, 10, 31, 33, 64, 100, 1000] {
        let x = Tensor::from_fn([4, 5, n], |[a, i, j]| ((a * 31 + i * 17 + j * 7) % 23) as f32 - 11.0, &Cpu)?;
        // One number for all, one for each of four blocks of rows, one for each row.
        for sizes in [[1, 1, 1], [4, 1, 1], [4, 5, 1], [1, 5, 1]] {
            let c = Tensor::from_fn(sizes, |[a, i, _]| (a * 2 + i + 1) as f32 * 0.25, &Cpu)?;
            let whole = c.broadcast_to([4, 5, n])?.copy()?;
            let softmax = |x: rankform::TensorView<'_, f32, 3>, c: rankform::TensorView<'_, f32, 3>| {
                let s = x.lazy() * c;
                let p = (s - s.max_along(Axis::<2>)).exp().cached();
                (p * p.sum_along(Axis::<2>).recip()).eval()
            };
            assert_eq!(softmax(x.view(), c.view())?, softmax(x.view(), whole.view())?, "{n} {sizes:?}");
            let mut y = Tensor::<f32, 3>::zeros([n, 4, 5], &Cpu)?;
            (x.lazy() - (x.lazy() * &c).max_along(Axis::<2>))
                .eval_into(&mut y.view_mut()?.permuted([1, 2, 0])?)?;
            assert_eq!(
                y.view().permuted([1, 2, 0])?.copy()?,
                x.sub((x.lazy() * &c).max(Axis::<2>)?.insert_axis(Axis::<2>))?,
                "{n} {sizes:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn parts_that_differ_in_a_number_inside_of_them_are_told_apart() -> Result<()> {
    let x = Tensor::from_fn([3, 70], |[i, j]| ((i * 5 + j * 3) % 13) as f64, &Cpu)?;
    // The same type and loads; the number is in a reduction inside a cached expression.
    let part = |c: f64| ((x.lazy() * c).max_along(Axis::<1>) - x.lazy()).cached();
    let found = (part(1.0).sum_along(Axis::<1>) + part(3.0) * 2.0 + part(1.0)).eval()?;
    let whole = |c: f64| ((x.lazy() * c).max(Axis::<1>)?.insert_axis(Axis::<1>).lazy() - &x).eval();
    let want =
        (whole(1.0)?.sum(Axis::<1>)?.insert_axis(Axis::<1>).lazy() + whole(3.0)?.lazy() * 2.0 + &whole(1.0)?)
            .eval()?;
    assert_eq!(found, want);
    Ok(())
}
