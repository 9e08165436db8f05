// Functions for any element, rank and axes that lack a bound: the prelude has the bound of the message.
use rankform::prelude::*;

fn elements<T, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) {
    let _ = (x.exp(), x.sum(All), x.lazy() + x, -x);
    let _ = (x.sort_axis(0), x.any(All), x.bit_and(x), x.re(), x.gcd(x));
}

fn products<T: Number, D: Device>(x: &Tensor<T, 2, D>) {
    let _ = (x.matmul_wide(x), x.pack_wide());
}

fn attended<T: Float, D: Device>(x: &Tensor<T, 4, D>) {
    let _ = TensorView::attention(x.view(), x, x, None, Attention::new());
}

fn devices<T, const RANK: usize, D>(_: &Tensor<T, RANK, D>) {}

fn axes<T: Float, const RANK: usize, D: Device, AXES>(x: &Tensor<T, RANK, D>, axes: AXES) {
    let _ = (x.sum(axes), x.norm(axes), x.mean_along(axes));
}

fn slices<T: Float, const RANK: usize, D: Device, SLICE>(x: &Tensor<T, RANK, D>, slice: SLICE) {
    let _ = x.slice(slice);
}

fn operands<T: Float, const RANK: usize, D: Device, X, Y>(x: X, y: Y, z: &Tensor<T, RANK, D>) {
    let _ = (z.add(x), z.lazy().eval_into(y));
}

fn stored<D: Device, X, Y>(x: X, y: Y, z: &Tensor<f32, 2, D>) {
    let _ = (z.matmul(x), z.index_select(Axis::<0>, y));
}

fn own<T: Float, const RANK: usize, D: Device, F, Q>(f: F, q: Q, x: &Tensor<T, RANK, D>) {
    let _ = (x.map(f), x.reduce(q, All));
}

fn main() {}
