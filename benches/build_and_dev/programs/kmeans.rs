//! k-means by broadcasting: points around five centers, found again.
use rankform::prelude::*;

const POINTS: usize = 5000;
const K: usize = 5;
const D: usize = 2;

fn assign(x: &Tensor<f32, 2>, c: &Tensor<f32, 2>) -> Result<(Tensor<i64, 1>, f32)> {
    // (point, 1, axis) − (1, center, axis) → (point, center)
    let distance = (x.insert_axis(Axis::<1>).lazy() - c.insert_axis(Axis::<0>)).square().sum(Axis::<2>)?;
    let nearest = distance.argmin(Axis::<1>)?;
    let inertia = distance.min(Axis::<1>)?.sum(All)?.item()?;
    Ok((nearest, inertia))
}

fn update(x: &Tensor<f32, 2>, nearest: &Tensor<i64, 1>, old: &Tensor<f32, 2>) -> Result<Tensor<f32, 2>> {
    let classes = Tensor::arange(0i64, K as i64, 1, &Cpu)?;
    let member = nearest.insert_axis(Axis::<1>).lazy().equal(classes.lift()).cast::<f32>().eval()?;
    let count = member.sum(Axis::<0>)?;
    let sums = member.transposed().matmul(x)?;
    let count = count.insert_axis(Axis::<1>);
    let means = (sums.lazy() / count.lazy().maximum(1.0)).eval()?;
    count.lazy().greater(0.0).select(&means, old).eval()
}

fn main() -> Result<()> {
    let truth = Tensor::from([[0.0f32, 0.0], [5.0, 5.0], [-5.0, 5.0], [5.0, -5.0], [-5.0, -5.0]]);
    let noise = Tensor::<f32, 2>::random_normal([POINTS, D], 0.0, 1.0, 7, &Cpu)?;
    let which: Vec<i64> = (0..POINTS).map(|i| (i % K) as i64).collect();
    let which = Tensor::from_vec(which, [POINTS])?;
    let x = truth.index_select(Axis::<0>, &which)? + &noise;
    let low = x.min(Axis::<0>)?;
    let high = x.max(Axis::<0>)?;
    println!("from {low} to {high}");
    let first = Tensor::from_vec((0..K as i64).map(|k| k * 31 + 3).collect::<Vec<_>>(), [K])?;
    let mut centers = x.index_select(Axis::<0>, &first)?;
    let mut last = f32::INFINITY;
    for step in 0..100 {
        let (nearest, inertia) = assign(&x, &centers)?;
        let next = update(&x, &nearest, &centers)?;
        let moved = (&next - &centers).abs()?.max(All)?.item()?;
        centers = next;
        if step % 5 == 0 {
            println!("step {step}: inertia {inertia:.2}, moved {moved:.4}");
        }
        if moved < 1e-4 || (last - inertia).abs() < 1e-3 {
            break;
        }
        last = inertia;
    }
    println!("{centers:.3}");
    let spread = (&x - &x.mean(Axis::<0>)?.lift()).square()?.mean(Axis::<0>)?.sqrt()?;
    println!("spread {spread:.3}");
    Ok(())
}
