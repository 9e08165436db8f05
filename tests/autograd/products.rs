//! Products that sum: matrices, labels, convolutions, attention.

use crate::check::{check, close, random};
use rankform::autograd::{Tape, Var, grad};
use rankform::prelude::*;

/// Checks the gradient by each of two operands.
macro_rules! both {
    ($name:literal, $x:expr, $y:expr, |$a:ident, $b:ident| $of:expr) => {{
        let (x, y) = ($x, $y);
        check(concat!($name, ", left"), &x, |$a, tape| {
            let $b = &tape.constant(&y)?;
            $of
        });
        check(concat!($name, ", right"), &y, |$b, tape| {
            let $a = &tape.constant(&x)?;
            $of
        });
    }};
}

#[test]
fn matrix_products_of_every_pair_of_ranks() {
    both!("vectors", random([4], 1), random([4], 2), |x, y| x.matmul(y));
    both!("matrix, vector", random([3, 4], 3), random([4], 4), |x, y| x.matmul(y));
    both!("vector, matrix", random([4], 5), random([4, 3], 6), |x, y| x.matmul(y));
    both!("matrices", random([3, 4], 7), random([4, 2], 8), |x, y| x.matmul(y));
    both!("batches", random([2, 3, 4], 9), random([2, 4, 2], 10), |x, y| x.matmul(y));
    both!("a batch and a matrix", random([2, 3, 4], 11), random([4, 2], 12), |x, y| x.matmul(y));
    both!("a batch that stretches", random([1, 3, 4], 13), random([5, 4, 2], 14), |x, y| x.matmul(y));
    both!("transposed", random([4, 3], 15), random([2, 4], 16), |x, y| x.transposed().matmul(y.transposed()));
    both!("reversed", random([3, 4], 17), random([4, 2], 18), |x, y| {
        x.reversed(Axis::<1>).matmul(y.reversed(Axis::<0>))
    });
    both!("parts", random([5, 9], 19), random([6, 4], 20), |x, y| {
        x.slice(((..).step(2), 1..5))?.matmul(y.slice((1..5, (..).step(-2)))?)
    });
    both!("stretched", random([3, 1], 21), random([1, 2], 22), |x, y| {
        x.broadcast_to([3, 4])?.matmul(y.broadcast_to([4, 2])?)
    });
    check("a square", &random([3, 3], 23), |x, _| x.matmul(x));
    check("with its transpose", &random([3, 4], 24), |x, _| x.matmul(x.transposed()));
    check("matrix_power", &random([3, 3], 25), |x, _| x.matrix_power(3));
    both!("windows", random([8], 26), random([3, 2], 27), |x, y| x.windows(Axis::<0>, 3, 1)?.matmul(y));
}

#[test]
fn products_by_labels() {
    both!("einsum", random([2, 3, 4], 30), random([4, 3, 5], 31), |x, y| einsum!("bij,jik->bk", x, y));
    both!("an outer product", random([2, 3], 32), random([4], 33), |x, y| einsum!("ij,k->kij", x, y));
    both!("elementwise", random([2, 3], 34), random([3, 2], 35), |x, y| einsum!("ij,ji->ij", x, y));
    both!("sums beside", random([2, 3], 36), random([4, 5], 37), |x, y| einsum!("ij,kl->ik", x, y));
    check("a trace", &random([4, 4], 38), |x, _| einsum!("ii->", x));
    check("a diagonal", &random([4, 4], 39), |x, _| einsum!("ii->i", x));
    both!("tensordot", random([2, 3, 4], 40), random([4, 3, 5], 41), |x, y| x.tensordot(y, [(1, 1), (2, 0)]));
    both!("outer", random([3], 42), random([4], 43), |x, y| x.outer(y));
    both!("kron", random([2, 3], 44), random([3, 2], 45), |x, y| x.kron(y));
    both!("vecdot", random([3, 4], 46), random([3, 4], 47), |x, y| x.vecdot(y, Axis::<1>));
    both!("cross", random([3, 4], 48), random([3, 4], 49), |x, y| x.cross(y, Axis::<0>));
    check("trace", &random([4, 5], 50), |x, _| x.trace());
    both!("linear", random([3, 4], 51), random([2, 4], 52), |x, w| {
        x.linear(w, &w.slice((.., 0))?.copy()?)
    });
    both!("linear_with", random([3, 4], 53), random([2, 4], 54), |x, w| {
        x.linear_with(w, &w.slice((.., 1))?.copy()?, rankform::ops::Silu)
    });
}

#[test]
fn packed_matrices_are_constants() -> Result<()> {
    let (x, w) = (random([3, 4], 55), random([4, 2], 56));
    let by_packed = grad(&x, |x, tape| x.matmul_packed(&tape.constant(&w)?.pack()?)?.sum(All))?;
    let plain = grad(&x, |x, tape| x.matmul(&tape.constant(&w)?)?.sum(All))?;
    assert_eq!(by_packed.to_vec()?, plain.to_vec()?);
    Ok(())
}

#[test]
fn a_packed_variable_has_its_gradient() {
    check("packed", &random([4, 2], 57), |w, tape| {
        tape.constant(&random([3, 4], 58))?.matmul_packed(&w.pack()?)
    });
}

#[test]
fn products_over_no_elements_have_zero_gradients() -> Result<()> {
    let (x, y) = (Tensor::<f64, 2>::zeros([2, 0], &Cpu)?, Tensor::<f64, 2>::zeros([0, 3], &Cpu)?);
    let (dx, dy) = grad((&x, &y), |(x, y), _| x.matmul(y)?.sum(All))?;
    assert_eq!((dx.size().0, dy.size().0), ([2, 0], [0, 3]));
    let z = Tensor::<f64, 2>::zeros([0, 4], &Cpu)?;
    let w = random([4, 3], 59);
    let (dz, dw) = grad((&z, &w), |(z, w), _| z.matmul(w)?.sum(All))?;
    assert_eq!((dz.size().0, dw.to_vec()?), ([0, 4], vec![0.0; 12]));
    Ok(())
}

#[test]
fn convolutions() {
    both!("1d", random([2, 2, 7], 60), random([3, 2, 3], 61), |x, w| x.conv1d(w, Conv::new()));
    both!("1d, strided", random([1, 2, 9], 62), random([3, 2, 3], 63), |x, w| {
        x.conv1d(w, Conv::new().stride([2]).padding([1]).dilation([2]))
    });
    both!("2d", random([1, 2, 5, 4], 64), random([2, 2, 3, 2], 65), |x, w| x.conv2d(w, Conv::new()));
    both!("2d, padded", random([2, 2, 4, 4], 66), random([3, 2, 3, 3], 67), |x, w| {
        x.conv2d(w, Conv::new().padding([1, 1]))
    });
    both!("2d, strided, dilated, groups", random([1, 4, 6, 5], 68), random([2, 2, 2, 2], 69), |x, w| {
        x.conv2d(w, Conv::new().stride([2, 1]).dilation([2, 2]).padding([1, 2]).groups(2))
    });
    both!("2d, depthwise", random([1, 3, 5, 5], 70), random([3, 1, 3, 3], 71), |x, w| {
        x.conv2d(w, Conv::new().padding([1, 1]).groups(3))
    });
    both!("2d, depthwise, strided", random([2, 3, 7, 6], 92), random([3, 1, 2, 3], 93), |x, w| {
        x.conv2d(w, Conv::new().stride([2, 1]).dilation([1, 2]).padding([1, 2]).groups(3))
    });
    both!("2d, points", random([1, 3, 4, 4], 72), random([2, 3, 1, 1], 73), |x, w| x.conv2d(w, Conv::new()));
    both!("2d, channels last", random([1, 4, 4, 2], 74), random([3, 2, 3, 3], 75), |x, w| {
        x.permuted([0, 3, 1, 2])?.conv2d(w, Conv::new().padding([1, 1]))
    });
    both!("3d", random([1, 2, 3, 3, 4], 76), random([2, 2, 2, 2, 2], 77), |x, w| {
        x.conv3d(w, Conv::new().padding([1, 0, 1]))
    });
    both!("1d, transposed", random([1, 2, 4], 78), random([2, 3, 3], 79), |x, w| {
        x.conv_transpose1d(w, Conv::new().stride([2]), [1])
    });
    both!("2d, transposed", random([1, 2, 3, 3], 80), random([2, 2, 2, 3], 81), |x, w| {
        x.conv_transpose2d(w, Conv::new().stride([2, 1]).padding([1, 1]), [0, 0])
    });
    both!("2d, transposed, groups", random([1, 4, 3, 3], 82), random([4, 1, 2, 2], 83), |x, w| {
        x.conv_transpose2d(w, Conv::new().groups(2), [0, 0])
    });
    both!("causal", random([1, 1, 6], 84), random([1, 1, 3], 85), |x, w| {
        x.conv1d(w, Conv::new().padding_ends([2], [0]))
    });
    both!("same", random([1, 1, 5, 6], 86), random([1, 1, 3, 2], 87), |x, w| {
        x.conv2d(w, Conv::new().stride([2, 2]).same())
    });
}

#[test]
fn a_large_convolution_is_bilinear() -> Result<()> {
    // Images of more than the block that is copied at once.
    let (x, w) = (random([3, 8, 60, 60], 88), random([6, 8, 3, 3], 89));
    let (g, v) = (random([3, 6, 60, 60], 90), random([6, 8, 3, 3], 91));
    let conv = Conv::new().padding([1, 1]);
    let tape = Tape::new(&Cpu);
    let (on_x, on_w) = (tape.watch(&x)?, tape.watch(&w)?);
    let gradients = tape.vjp(&on_x.conv2d(&on_w, conv)?, &g)?;
    // By the input it is the transposed convolution; by the weights, ⟨∂w, v⟩ = ⟨g, conv(x, v)⟩.
    close("input", &gradients.of(&on_x)?.to_vec()?, &g.conv_transpose2d(&w, conv, [0, 0])?.to_vec()?);
    let left = (gradients.of(&on_w)?.lazy() * &v).sum(All)?.item()?;
    let right = (x.conv2d(&v, conv)?.lazy() * &g).sum(All)?.item()?;
    assert!((left - right).abs() < 1e-9 * right.abs().max(1.0), "{left} {right}");
    Ok(())
}

#[test]
fn attention_by_each_operand() {
    let (q, k, v) = (random([1, 2, 3, 4], 92), random([1, 2, 5, 4], 93), random([1, 2, 5, 2], 94));
    for causal in [false, true] {
        let options = Attention::new().causal(causal);
        check("queries", &q, |q, t| q.attention(&t.constant(&k)?, &t.constant(&v)?, None, options));
        check("keys", &k, |k, t| t.constant(&q)?.attention(k, &t.constant(&v)?, None, options));
        check("values", &v, |v, t| t.constant(&q)?.attention(&t.constant(&k)?, v, None, options));
        check("all", &random([1, 2, 4, 3], 95), |x, _| x.attention(x, x, None, options));
    }
    let mask = Tensor::from_fn([1, 1, 3, 5], |[_, _, i, j]| (i + j) % 3 != 0, &Cpu).unwrap();
    let masked = |x: &Var<f64, 4>, k: &Var<f64, 4>, v: &Var<f64, 4>, tape: &Tape| {
        let mask = tape.constant(&mask)?;
        x.attention(k, v, Some(mask.view()), Attention::new())
    };
    check("masked queries", &q, |q, t| masked(q, &t.constant(&k)?, &t.constant(&v)?, t));
    check("masked keys", &k, |k, t| masked(&t.constant(&q)?, k, &t.constant(&v)?, t));
    check("masked values", &v, |v, t| masked(&t.constant(&q)?, &t.constant(&k)?, v, t));
    let (grouped, shared) = (random([1, 4, 3, 4], 96), random([1, 2, 3, 4], 97));
    check("grouped queries", &grouped, |q, t| {
        let k = t.constant(&shared)?;
        q.attention(&k, &k, None, Attention::new())
    });
    check("grouped keys", &shared, |k, t| t.constant(&grouped)?.attention(k, k, None, Attention::new()));
    let bias = random([1, 2, 3, 5], 98);
    check("a bias", &bias, |bias, t| {
        let (q, k, v) = (t.constant(&q)?, t.constant(&k)?, t.constant(&v)?);
        q.attention_biased(&k, &v, bias, Attention::new())
    });
}

#[test]
fn attention_over_several_blocks_of_queries_is_that_of_its_definition() -> Result<()> {
    let (q, k, v) =
        (random([1, 1, 40, 2], 102), random([1, 1, 40_000, 2], 103), random([1, 1, 40_000, 1], 104));
    let w = random([1, 1, 40, 1], 105);
    let of = |f: &dyn Fn(&Var<f64, 4>, &Var<f64, 4>, &Var<f64, 4>) -> Result<Var<f64, 4>>| {
        grad((&q, &k, &v), |(q, k, v), tape| (f(q, k, v)?.lazy() * &tape.constant(&w)?).sum(All))
    };
    let found = of(&|q, k, v| q.attention(k, v, None, Attention::new()))?;
    let expected = of(&|q, k, v| {
        let scores = (einsum!("bhqd,bhkd->bhqk", q, k)?.lazy() / 2f64.sqrt()).eval()?;
        einsum!("bhqk,bhke->bhqe", &scores.softmax(Last)?, v)
    })?;
    close("queries", &found.0.to_vec()?, &expected.0.to_vec()?);
    close("keys", &found.1.to_vec()?, &expected.1.to_vec()?);
    close("values", &found.2.to_vec()?, &expected.2.to_vec()?);
    Ok(())
}
