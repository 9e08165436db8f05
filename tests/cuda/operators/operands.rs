//! Operators of one to six operands on a GPU: eager, lazy, inside a reduction and a scan, in place,
//! by derivative.

#[path = "../../common/operands.rs"]
mod each;

use crate::{numbers, on_gpu};
use rankform::Cuda;
use rankform::ops::{Norm, Tanh};
use rankform::prelude::*;

on_gpu!(an_operator_of_one_operand, |gpu| { each::an_operator_of_one_operand(gpu)? });
on_gpu!(an_operator_of_two_operands, |gpu| { each::an_operator_of_two_operands(gpu)? });
on_gpu!(an_operator_of_three_operands, |gpu| { each::an_operator_of_three_operands(gpu)? });
on_gpu!(an_operator_of_four_operands, |gpu| { each::an_operator_of_four_operands(gpu)? });
on_gpu!(an_operator_of_five_operands, |gpu| { each::an_operator_of_five_operands(gpu)? });
on_gpu!(an_operator_of_six_operands, |gpu| { each::an_operator_of_six_operands(gpu)? });
on_gpu!(maps_and_zips, |gpu| { each::maps_and_zips(gpu)? });

on_gpu!(norms_in_expressions_and_linear_layers_agree, |gpu| {
    let close = |found: Vec<f32>, wanted: Vec<f32>| {
        found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs().max(1.0))
    };
    let x = Tensor::from_vec(numbers(2 * 30 * 40), [2, 30, 40])?;
    let (bias, weight) = (Tensor::from_vec(numbers(40), [40])?, Tensor::from_vec(numbers(7 * 40), [7, 40])?);
    let (y, c, w) = (x.to(gpu)?, bias.to(gpu)?, weight.to(gpu)?);
    let fused = (y.lazy() * 0.5 + c.lift()).softmax(Last).eval()?;
    assert!(close(fused.to_vec()?, (x.lazy() * 0.5 + bias.lift()).softmax(Last).eval()?.to_vec()?));
    let fused = (y.lazy() * 0.5 + c.lift()).layer_norm_affine(Last, c.lift(), 0.25, 1e-3).eval()?;
    assert!(close(
        fused.to_vec()?,
        (x.lazy() * 0.5 + bias.lift()).layer_norm_affine(Last, bias.lift(), 0.25, 1e-3).eval()?.to_vec()?
    ));
    assert!(close(y.rms_norm_axis(1, 1e-3)?.to_vec()?, x.rms_norm_axis(1, 1e-3)?.to_vec()?));
    assert!(close(
        (y.lazy() - y.mean_along_axis(0)).eval()?.to_vec()?,
        (x.lazy() - x.mean_along_axis(0)).eval()?.to_vec()?
    ));
    assert!(close(y.reduce_keepdims(Norm, Last)?.to_vec()?, x.reduce_keepdims(Norm, Last)?.to_vec()?));
    let outputs = Tensor::from_vec(numbers(7), [7])?;
    let layer = y.linear_with(&w, &outputs.to(gpu)?, Tanh)?;
    assert!(close(layer.to_vec()?, x.linear_with(&weight, &outputs, Tanh)?.to_vec()?));
    assert!(close(y.matmul(w.transposed())?.to_vec()?, x.matmul(weight.transposed())?.to_vec()?));
});
