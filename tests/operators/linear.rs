//! Linear layers and products of stacks of rows by a matrix, against plain loops.

use crate::value::{Random, Value};
use rankform::bf16;
use rankform::ops::{Relu, Square};
use rankform::prelude::*;

elementwise! {
    fn less_one(x) where Number { x * x - 1 }
}

/// A layer of any rank: bounds on element and device only.
fn layer<T: Number, const RANK: usize, D: Device>(
    x: TensorView<T, RANK, D>,
    weight: TensorView<T, 2, D>,
    bias: &Tensor<T, 1, D>,
) -> Result<Tensor<T, RANK, D>> {
    x.linear(weight, bias)
}

fn plain<const RANK: usize>(
    x: TensorView<i32, RANK>,
    weight: TensorView<i32, 2>,
    bias: &[i32],
    then: fn(i32) -> i32,
) -> Vec<i32> {
    let [outputs, inputs] = weight.size().0;
    let mut size = x.size();
    size.0[RANK - 1] = outputs;
    let at = |index: [usize; RANK], last: usize| {
        std::array::from_fn(|a| if a == RANK - 1 { last } else { index[a] })
    };
    let one = |index: [usize; RANK]| {
        let output = index[RANK - 1];
        then(
            (0..inputs).map(|k| x[at(index, k)] * weight[[output, k]]).sum::<i32>()
                + bias[output % bias.len()],
        )
    };
    size.indices().map(one).collect()
}

fn every_form<const RANK: usize>(
    x: TensorView<i32, RANK>,
    weight: TensorView<i32, 2>,
    bias: &Tensor<i32, 1>,
) -> Result<()> {
    let numbers = bias.to_vec()?;
    let (expected, then) = (plain(x, weight, &numbers, |y| y), plain(x, weight, &numbers, |y| y * y - 1));
    let y = layer(x, weight, bias)?;
    let mut size = x.size();
    size.0[RANK - 1] = weight.size()[0];
    assert_eq!((y.size(), y.to_vec()?), (size, expected.clone()));
    assert_eq!(x.linear_with(weight, bias, less_one)?.to_vec()?, then);
    let mut out = Tensor::full(size, 99, &Cpu)?;
    x.linear_into(weight, bias, &mut out)?;
    assert_eq!(out.to_vec()?, expected);
    // Into a view with stride −2.
    let mut wide = size;
    wide.0[RANK - 1] *= 2;
    let mut wide = Tensor::full(wide, 99, &Cpu)?;
    let columns = 0..wide.size()[RANK - 1];
    x.linear_with_into(weight, bias, less_one, wide.view_mut()?.slice_axis(RANK - 1, columns.clone(), -2)?)?;
    assert_eq!(wide.view().slice_axis(RANK - 1, columns.clone(), -2)?.to_vec()?, then);
    assert!(wide.view().slice_axis(RANK - 1, columns, 2)?.iter().all(|&y| y == 99), "beside it");
    Ok(())
}

#[test]
fn linear_layers_agree_with_loops_on_every_rank_and_layout() -> Result<()> {
    let mut random = Random(61);
    let mut next = || i32::moderate(&mut random);
    for (inputs, outputs) in [(1, 1), (3, 5), (17, 4), (40, 33), (0, 3), (3, 0)] {
        let weight = Tensor::from_fn([outputs, inputs], |_| next(), &Cpu)?;
        let turned = Tensor::from_fn([inputs, outputs], |_| next(), &Cpu)?;
        let bias = Tensor::from_fn([outputs], |_| next(), &Cpu)?;
        let line = Tensor::from_fn([inputs], |_| next(), &Cpu)?;
        let rows = Tensor::from_fn([6, inputs], |_| next(), &Cpu)?;
        let columns = Tensor::from_fn([inputs, 6], |_| next(), &Cpu)?;
        let stack = Tensor::from_fn([2, 3, inputs], |_| next(), &Cpu)?;
        let deep = Tensor::from_fn([inputs, 2, 1, 3], |_| next(), &Cpu)?;
        for weight in [weight.view(), turned.transposed()] {
            every_form(line.view(), weight, &bias)?;
            every_form(rows.view(), weight, &bias)?;
            every_form(columns.transposed(), weight, &bias)?;
            every_form(stack.view(), weight, &bias)?;
            every_form(stack.permuted([1, 0, 2])?, weight, &bias)?;
            every_form(deep.permuted([3, 1, 2, 0])?, weight, &bias)?;
            if outputs > 0 {
                every_form(rows.view(), weight, &Tensor::from([7]))?;
            }
        }
    }
    Ok(())
}

#[test]
fn linear_layers_of_floats_refuse_other_sizes_and_go_to_devices_without_data() -> Result<()> {
    let (weight, bias) =
        (Tensor::from([[1.0, -2.0], [3.0, 4.0], [0.5, 0.5]]), Tensor::from([0.0, -20.0, 1.0]));
    let x = Tensor::from([[1.0, 2.0], [f64::NAN, 0.0]]);
    let y = x.linear_with(&weight, &bias, Relu)?;
    assert_eq!((y.slice((0, ..))?.to_vec()?, y[[1, 2]].is_nan()), (vec![0.0, 0.0, 2.5], true));
    assert_eq!(x.linear_with(&weight, &bias, derivative::<_, 0>(Square))?[[0, 0]], -6.0);
    let half = bf16::from_f32;
    let y = Tensor::from([half(1.0)]).linear(&Tensor::from([[half(2.0)]]), &Tensor::from([half(0.5)]))?;
    assert_eq!(y.to_vec()?, [half(2.5)]);
    let (wide, short, point) =
        (Tensor::<f64, 2>::zeros([2, 3], &Cpu)?, Tensor::from([0.0, 1.0]), Tensor::from(1.0));
    assert_eq!(
        wide.linear(&weight, &bias).unwrap_err().to_string(),
        "linear: inner sizes 3 and 2 differ: [2, 3] · [3, 2]"
    );
    assert!(matches!(x.linear(&weight, &short), Err(Error::Sizes { op: "linear", .. })));
    assert!(matches!(
        point.linear_with(&weight, &bias, Relu),
        Err(Error::Axis { op: "linear_with", axis: 0, .. })
    ));
    let deep = Tensor::<f64, 10>::zeros([1, 1, 1, 1, 1, 1, 1, 1, 1, 2], &Cpu)?;
    let error = deep.linear(&weight, &bias).unwrap_err().to_string();
    assert_eq!(error, "linear: 10 axes, of sizes [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]; products have at most 9");
    let mut out = wide.copy()?;
    assert!(matches!(
        x.linear_into(&weight, &bias, out.view_mut()?.slice((.., ..2))?),
        Err(Error::Output { op: "linear_into", .. })
    ));
    assert!(matches!(
        Tensor::<f64, 2>::empty([1, 2], &Cpu)?.linear(&weight, &bias),
        Err(Error::Unallocated { .. })
    ));
    assert!(matches!(x.linear(&weight, &Tensor::empty([3], &Cpu)?), Err(Error::Unallocated { .. })));
    x.slice((..1, ..))?.linear_into(&weight, &bias, out.view_mut()?.slice((1.., ..))?)?;
    assert_eq!(out.to_vec()?, [0.0, 0.0, 0.0, -3.0, -9.0, 2.5]);
    let meta = Meta::new();
    let y = layer(
        Tensor::<f32, 5, _>::zeros([2, 1, 3, 4, 8], &meta)?.view(),
        Tensor::zeros([6, 8], &meta)?.view(),
        &Tensor::zeros([6], &meta)?,
    )?;
    assert_eq!(y.size(), [2, 1, 3, 4, 6]);
    Ok(())
}

#[test]
fn a_stack_of_rows_times_a_matrix_is_one_product() -> Result<()> {
    let mut random = Random(62);
    let mut next = || i32::moderate(&mut random);
    let right = Tensor::from_fn([5, 4], |_| next(), &Cpu)?;
    let x = Tensor::from_fn([2, 3, 4, 5], |_| next(), &Cpu)?;
    let expected = |x: TensorView<i32, 4>| -> Vec<i32> {
        let [a, b, c, _] = x.size().0;
        let one = |[i, j, k, n]: [usize; 4]| (0..5).map(|m| x[[i, j, k, m]] * right[[m, n]]).sum::<i32>();
        Dim([a, b, c, 4]).indices().map(one).collect()
    };
    for view in [x.view(), x.permuted([1, 2, 0, 3])?, x.slice((.., (..).step(-2), .., ..))?] {
        let (y, [a, b, c, _]) = (view.matmul(&right)?, view.size().0);
        assert_eq!((y.size(), y.to_vec()?), (dim![a, b, c, 4], expected(view)));
        let mut out = Tensor::<i32, 4>::zeros([a, b, c, 4], &Cpu)?;
        view.matmul_into(right.view(), out.view_mut()?)?;
        assert_eq!(out, y);
    }
    let stack = x.slice((1, .., .., ..))?;
    assert_eq!(stack.matmul(&right)?.to_vec()?, x.matmul(&right)?.slice((1, .., .., ..))?.to_vec()?);
    let deep = x.reshape([1, 2, 1, 3, 1, 4, 1, 5])?;
    assert_eq!(deep.matmul(&right)?.to_vec()?, x.matmul(&right)?.to_vec()?);
    assert_eq!(
        stack.cast::<i8>()?.matmul_wide(right.cast::<i8>()?.view())?.to_vec()?,
        stack.matmul(&right)?.to_vec()?
    );
    assert_eq!(
        stack.matmul(right.slice((..4, ..))?).unwrap_err().to_string(),
        "matmul: inner sizes 5 and 4 differ: [3, 4, 5] · [4, 4]"
    );
    assert_eq!(
        Tensor::<f32, 3>::zeros([2, 0, 3], &Cpu)?.matmul(&Tensor::zeros([3, 4], &Cpu)?)?.size(),
        [2, 0, 4]
    );
    assert_eq!(
        Tensor::<f32, 3>::zeros([2, 2, 0], &Cpu)?.matmul(&Tensor::zeros([0, 1], &Cpu)?)?.to_vec()?,
        [0.0; 4]
    );
    Ok(())
}
