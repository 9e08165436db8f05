//! Quantized tensors against their definition, element by element, in f64.

use rankform::prelude::*;
use rankform::quantized::{QuantScheme, Quantization, QuantizedElement, QuantizedTensor};
use rankform::{QInt8, QInt32, QUInt8};

fn numbers(n: usize, scale: f32) -> Vec<f32> {
    let mut state = 7u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
        })
        .collect()
}

fn schemes() -> [Quantization; 5] {
    [
        Quantization::per_tensor(0.05, 3).unwrap(),
        Quantization::per_tensor_symmetric(0.04).unwrap(),
        Quantization::per_channel(1, &[0.01, 0.5, 0.125], &[0, 5, 100]).unwrap(),
        Quantization::per_channel_symmetric(1, &[0.01, 0.5, 0.125]).unwrap(),
        Quantization::per_channel_float(1, &[0.01, 0.5, 0.125], &[0.25, -1.5, 7.75]).unwrap(),
    ]
}

#[test]
fn the_five_schemes_are_their_definitions() {
    fn check<Q: QuantizedElement>() {
        let x = Tensor::from_vec(numbers(60, 12.0), [4, 3, 5]).unwrap();
        for scheme in schemes() {
            let q = QuantizedTensor::<Q, 3>::quantize(&x, scheme.clone()).unwrap();
            let back = q.dequantize().unwrap();
            for ((index, &value), &found) in x.indexed_iter().zip(back.iter()) {
                let channel = if scheme.axis().is_some() { index[1] } else { 0 };
                let (scale, zero) = (scheme.scales()[channel], scheme.zero_points()[channel]);
                let steps = f64::from(value / scale);
                let stored = match scheme.scheme() {
                    QuantScheme::PerChannelAffineFloat => (steps + zero).round_ties_even(),
                    _ => steps.round_ties_even() + zero,
                };
                let stored = stored.clamp(Q::LOW as f64, Q::HIGH as f64);
                assert_eq!(found, (stored - zero) as f32 * scale, "{scheme:?} at {index:?}: {value}");
            }
        }
    }
    check::<QInt8>();
    check::<QUInt8>();
    check::<QInt32>();
    assert_eq!(schemes().map(|scheme| scheme.scheme()), {
        use QuantScheme::*;
        [PerTensorAffine, PerTensorSymmetric, PerChannelAffine, PerChannelSymmetric, PerChannelAffineFloat]
    });
}

#[test]
fn numbers_beyond_saturate_and_views_serve() {
    let x = Tensor::from([f32::NEG_INFINITY, -1e30, -0.75, -0.25, 0.25, 0.75, f32::INFINITY, f32::NAN]);
    let q = QuantizedTensor::<QInt8, 1>::quantize(&x, Quantization::per_tensor(0.5, -3).unwrap()).unwrap();
    assert_eq!(q.int_repr().to_vec().unwrap(), [-128, -128, -5, -3, -3, -1, 127, -3]); // ties to even
    let empty = Tensor::<f32, 2>::zeros([0, 3], &Cpu).unwrap();
    let scheme = Quantization::per_channel_symmetric(1, &[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(
        QuantizedTensor::<QUInt8, 2>::quantize(&empty, scheme.clone()).unwrap().dequantize().unwrap().size(),
        dim![0, 3]
    );
    for (error, text) in [
        (
            Quantization::per_tensor(0.0, 1).unwrap_err(),
            "quantization: the scale 0 is not positive and finite",
        ),
        (
            Quantization::per_channel(0, &[1.0], &[1, 2]).unwrap_err(),
            "quantization: 1 scales and the zero points [1.0, 2.0]",
        ),
        (
            QuantizedTensor::<QInt8, 1>::quantize(&x, Quantization::per_tensor(1.0, 128).unwrap())
                .map(drop)
                .unwrap_err(),
            "quantization: the zero point 128 is not in -128..=127",
        ),
        (
            QuantizedTensor::<QInt8, 1>::quantize(&x, scheme).map(drop).unwrap_err(),
            "quantization: 3 scales along axis 1 of sizes [8]",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn products_of_integers_take_zero_points_off_exactly() {
    fn check<A: QuantizedElement, B: QuantizedElement>(rows: Quantization, columns: Quantization)
    where
        B::Int: rankform::WideningMul<A::Int>,
    {
        let (m, k, n) = (5, 37, 3);
        let a =
            QuantizedTensor::<A, 2>::quantize(&Tensor::from_vec(numbers(m * k, 30.0), [m, k]).unwrap(), rows)
                .unwrap();
        let b = QuantizedTensor::<B, 2>::quantize(
            &Tensor::from_vec(numbers(k * n, 30.0), [k, n]).unwrap(),
            columns,
        )
        .unwrap();
        let product = a.matmul_integer(&b).unwrap();
        let of = |quantization: &Quantization, at: usize| {
            quantization.zero_points()[if quantization.axis().is_some() { at } else { 0 }]
        };
        let (ia, ib) = (a.int_repr().cast::<f64>().unwrap(), b.int_repr().cast::<f64>().unwrap());
        for i in 0..m {
            for j in 0..n {
                let terms = (0..k)
                    .map(|l| (ia[[i, l]] - of(a.quantization(), i)) * (ib[[l, j]] - of(b.quantization(), j)));
                assert_eq!(f64::from(product[[i, j]]), terms.sum::<f64>(), "{i} {j}");
            }
        }
        let scheme = Quantization::per_tensor(40.0, 12).unwrap();
        let y: QuantizedTensor<QUInt8, 2> = a.matmul(&b, scheme).unwrap();
        let exact = a
            .dequantize()
            .unwrap()
            .cast::<f64>()
            .unwrap()
            .matmul(&b.dequantize().unwrap().cast::<f64>().unwrap())
            .unwrap();
        for (found, wanted) in y.dequantize().unwrap().iter().zip(exact.iter()) {
            let wanted = wanted.clamp(-12.0 * 40.0, (255.0 - 12.0) * 40.0);
            assert!((f64::from(*found) - wanted).abs() <= 20.001, "{found} {wanted}");
        }
    }
    let (row, column) = (
        || Quantization::per_channel(0, &[0.5; 5], &[1, 2, 3, 4, 5]).unwrap(),
        || Quantization::per_channel(1, &[0.25; 3], &[7, 0, 9]).unwrap(),
    );
    let one = |zero| Quantization::per_tensor(0.3, zero).unwrap();
    check::<QInt8, QInt8>(one(-7), one(5));
    check::<QUInt8, QUInt8>(one(128), one(100));
    check::<QUInt8, QInt8>(one(128), column());
    check::<QInt8, QUInt8>(row(), column());
    check::<QInt8, QInt8>(row(), one(0));
    let x = QuantizedTensor::<QInt8, 2>::quantize(
        &Tensor::zeros([2, 2], &Cpu).unwrap(),
        Quantization::per_channel(1, &[1.0, 2.0], &[0, 1]).unwrap(),
    )
    .unwrap();
    assert!(x.matmul_integer(&x).is_err(), "zero points along the sum");
    let long =
        QuantizedTensor::<QInt8, 2>::quantize(&Tensor::zeros([1, 40_000], &Cpu).unwrap(), one(0)).unwrap();
    let tall =
        QuantizedTensor::<QInt8, 2>::quantize(&Tensor::zeros([40_000, 1], &Cpu).unwrap(), one(0)).unwrap();
    assert!(long.matmul_integer(&tall).unwrap_err().to_string().contains("along 40000 terms"));
    let wide = QuantizedTensor::<QInt32, 2>::quantize(
        &Tensor::from([[1e5]]),
        Quantization::per_tensor(1.0, 0).unwrap(),
    )
    .unwrap();
    assert!(wide.matmul_integer(&wide).unwrap_err().to_string().contains("no exact product of qi32"));
}

#[test]
fn a_scheme_spans_numbers_that_are_finite() {
    let spanning = |x: &[f32]| {
        Quantization::spanning::<QInt8, 1, Cpu>(&Tensor::from_vec(x.to_vec(), [x.len()]).unwrap())
    };
    for x in [[f32::NAN, 5.0], [5.0, f32::INFINITY], [f32::NEG_INFINITY, f32::NAN]] {
        assert!(matches!(spanning(&x), Err(Error::Value { .. })), "{x:?}");
    }
    let all = spanning(&[-3e38, 3e38]).unwrap();
    assert_eq!((all.scales(), all.zero_points()), (&[(6e38 / 255.0) as f32][..], &[0.0][..]));
    assert_eq!(spanning(&[]).unwrap().scales(), [1.0]);
}

#[test]
fn a_tensor_is_quantized_again_and_added_within_half_a_step() {
    let (x, y) = (
        Tensor::from_vec(numbers(100, 3.0), [10, 10]).unwrap(),
        Tensor::from_vec(numbers(100, 1.5), [10, 10]).unwrap(),
    );
    let scheme = Quantization::spanning::<QUInt8, 2, Cpu>(&x).unwrap();
    let q = QuantizedTensor::<QUInt8, 2>::quantize(&x, scheme.clone()).unwrap();
    let near = |found: &Tensor<f32, 2>, wanted: &Tensor<f32, 2>, step: f32| {
        found
            .iter()
            .zip(wanted.iter())
            .for_each(|(f, w)| assert!((f - w).abs() <= step / 2.0 * 1.0001, "{f} {w}"));
    };
    near(&q.dequantize().unwrap(), &x, scheme.scales()[0]);
    let again = q.requantize::<QInt8>(Quantization::per_tensor_symmetric(0.1).unwrap()).unwrap();
    near(&again.dequantize().unwrap(), &q.dequantize().unwrap(), 0.1);
    let r = QuantizedTensor::<QUInt8, 2>::quantize(&y, scheme).unwrap();
    let (sum, product) = (
        q.dequantize().unwrap().add(&r.dequantize().unwrap()).unwrap(),
        q.dequantize().unwrap().mul(&r.dequantize().unwrap()).unwrap(),
    );
    near(&q.add(&r, Quantization::per_tensor(0.05, 128).unwrap()).unwrap().dequantize().unwrap(), &sum, 0.05);
    near(
        &q.mul(&r, Quantization::per_tensor(0.05, 128).unwrap()).unwrap().dequantize().unwrap(),
        &product,
        0.05,
    );
}
