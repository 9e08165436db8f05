// Names of NumPy, PyTorch, ndarray and candle for operators with another name here: the message gives it.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let (y, index) = (x.copy().unwrap(), Tensor::from([0_i64, 1]));
    let [_rows, _columns] = x.shape();
    let _ = x.dims()[0];
    for _ in 0..x.len() {}
    let _ = (x.nelement(), x.elem_count());
    assert_eq!(x.ndim(), 2);
    let _ = (x.rank(), x.dim());
    let _ = x.dtype();
    let _ = x.t().matmul(&y);
    let _ = (x.transpose(0, 1), x.swap_axes(0, 1), x.swapaxes(0, 1));
    let _ = (x.permute([1, 0]), x.view().permuted_axes([1, 0]));
    let _ = (x.dot(&y), x.mm(&y), x.bmm(&y), x.mv(&y));
    let _ = (x.flatten(), x.ravel(), x.flatten_all());
    let _ = x.transposed().contiguous();
    let _ = (x.expand([2, 2]), x.broadcast([2, 2]), x.broadcast_as([2, 2]));
    let _ = (x.flip(0), x.fliplr(), x.flipud(), x.invert_axis(Axis::<0>));
    let _ = (x.unsqueeze(0), x.expand_dims(0), x.squeeze(0));
    let _ = (x.slice_mut((0, ..)), x.row_mut(0));
    let _ = (x.row(0), x.column(1), x.index_axis(Axis::<0>, 1), x.narrow(0, 1, 1));
    let _ = (x.rows(), x.outer_iter());
    let _ = (x.tolist(), x.to_vec1(), x.to_vec2(), x.to_array());
    let _ = x.clip(0.0, 1.0);
    let _ = x.less(1.0).unwrap().where_(&x, &y);
    let _ = (x.where_cond(&x, &y), x.select(0, 1));
    let _ = (x.index_add(0, &index, &y), x.scatter_add(0, &index, &y));
    let _ = (x.repeat_interleave(&index, 0), x.chunk(2, 0));
    let _ = (x.mse_loss_mean(&y), x.l1_loss_mean(&y), x.huber_loss_mean(&y));
    let _ = (x.log(), x.log1p(), x.expm1(), x.powi(3));
    let _ = (x.lt(&y), x.le(1.0), x.gt(&y), x.ge(0.5));
    let _ = (x.mapv(|x| x + 1.0), x.mapv_into(|x| x), x.mapv_inplace(|x| x), x.map_inplace(|x| *x = 0.0));
    let _ = (x.astype("f32"), x.to_dtype("f32"), x.as_type("f32"));
    let _ = (x.cpu(), x.cuda(), x.to_device(&Cpu));
    let _ = (x.backward(), x.grad(), x.requires_grad(), x.requires_grad_());
    let _ = (x.inv(), x.inverse(), x.try_inverse(), x.det(), x.determinant(), x.solve(&y));
    let _ = (x.cholesky(), x.lu(), x.qr(), x.svd(), x.eig(), x.eigh());
    // Of expressions and views too.
    let _ = x.lazy().exp().shape();
    let _ = (x.lazy() * 2.0).iter();
    let _ = (x.lazy().slice((0, ..)), x.lazy().transposed(), x.lazy().permuted([1, 0]), x.lazy().reversed(Axis::<0>));
    let _ = (x.lazy().reshape([4]), x.lazy().insert_axis(Axis::<0>), x.lazy().broadcast_to([2, 2]));
    let _ = (x.lazy().to_vec(), x.lazy().item(), x.lazy().size(), x.lazy().numel(), x.lazy().copy());
    let _ = x.lazy().exp().matmul(&y);
    let _ = x.slice((0, ..)).unwrap().len();
}

fn generic<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>, y: &mut Tensor<T, RANK, D>) {
    let _ = (x.shape(), y.len(), x.iter());
    let _ = y.view_mut().unwrap().flatten();
    let mut w = y.view_mut().unwrap();
    let _ = (w.lazy(), w.sum(All), w.mean(All), w.max(All), w.min(All), w.to_vec(), w.item(), w.copy());
    let _ = (w.matmul(&x), w.broadcast_to(x.size()));
}
