// Code that must compile: generic over element, rank and device with one bound each.
use rankform::prelude::*;

fn standardised<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<Tensor<T, RANK, D>>
{
    let y = x + x;
    (y.lazy() * x - T::one()).tanh().eval()
}

fn spread<T: Float, const RANK: usize, const M: usize, D: Device, A>(
    x: &Tensor<T, RANK, D>, axes: A
) -> Result<Tensor<T, M, D>>
where
    Dim<RANK>: rankform::rank::RemoveAxes<A, Output = Dim<M>>,
{
    x.lazy().square().sum(axes)
}

/// All axes of any rank: no bound.
fn total<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<T> {
    (x.lazy() - x.mean(All)?.item()?).sum(All)?.item()
}

/// The slope of any operator of one operand.
fn slope<T: Float, const RANK: usize, D: Device, F: rankform::kernel::Op<(T,), Out = T>>(
    f: F,
    x: &Tensor<T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    x.map(derivative::<_, 0>(f))
}

/// The last axis, an axis known at run time, constants, rank 0 as any rank: no bound.
fn of_any_rank<T: Float, const RANK: usize, D: Device>(
    x: &Tensor<T, RANK, D>, axis: usize
) -> Result<Tensor<T, RANK, D>> {
    let rows = x.softmax(Last)?;
    let centered = (rows.lazy() * T::constant(0.5) - rows.mean_along_axis(axis)).eval()?;
    let largest = centered.reduce_keepdims(rankform::ops::Max, Last)?;
    (centered.lazy() / &largest + x.mean(All)?.lift()).layer_norm(Last, T::constant(1e-5)).eval()
}

/// The last axis goes: the rank that is left is named.
fn totals<T: Float, const RANK: usize, const M: usize, D: Device>(x: &Tensor<T, RANK, D>)
    -> Result<Tensor<T, M, D>>
where
    Dim<RANK>: rankform::rank::RemoveAxes<Last, Output = Dim<M>>,
{
    (x.lazy() / x.std_along(Last)).sum(Last)
}

elementwise! {
    fn mixed(x, y, t) { x + (y - x) * t }
}

/// An operator of three operands.
fn halfway<T: Float, const RANK: usize, D: Device>(
    x: &Tensor<T, RANK, D>, y: TensorView<'_, T, RANK, D>
) -> Result<T> {
    x.lazy().apply(mixed, (y, T::constant(0.5))).sum(All)?.item()
}

fn main() {
    let x = Tensor::from([[0.5_f32, 2.0]]);
    let y = standardised(&x).unwrap();
    assert_eq!(spread(&y, Axis::<0>).unwrap().size(), [2]);
    let column = Tensor::from([1.0_f32]).into_insert_axis(Axis::<1>).unwrap();
    assert_eq!((&x + &column).size(), [1, 2]);
    let shapes = standardised(&Tensor::<f64, 3, Meta>::zeros([2, 3, 4], &Meta::new()).unwrap()).unwrap();
    assert_eq!(spread(&shapes, (Axis::<0>, Axis::<2>)).unwrap().size(), [3]);
    let _ = (1.0 - &x, 1.0 - x.view(), -x.view(), -&x);
    assert_eq!(total(&x).unwrap(), 0.0);
    assert_eq!(slope(rankform::ops::Square, &x).unwrap(), &x * 2.0);
    assert_eq!((of_any_rank(&x, 0).unwrap().size(), totals(&x).unwrap().size()), (x.size(), dim![1]));
    assert_eq!(halfway(&x, x.view()).unwrap(), 2.5);
    let _ = 2.0 * -x;
}
