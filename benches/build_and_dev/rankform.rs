//! A small user of rankform: ten built-in operators, then one fused expression with an operator of its own.
use rankform::prelude::*;
use std::hint::black_box;
use std::time::Instant;

elementwise! {
    fn wave(x, y) { x * y + x.sin() }
}

fn built_in(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>) -> Result<f32> {
    let c = a + b;
    let d = &c * a;
    let e = (&d - b).exp()?;
    let f = e.ln()?.tanh()?;
    let g = f.square()?.sqrt()?;
    let h = g.maximum(b)?;
    let rows = h.sum(Axis::<1>)?;
    rows.max(All)?.item()
}

fn fused(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>) -> Result<f32> {
    ((a.lazy() * b + 1.0) / (b.lazy().abs() + 0.5)).zip(wave, a).sum(All)?.item()
}

fn main() -> Result<()> {
    let a = Tensor::<f32, 2>::random_uniform([256, 256], 0.5..1.5, 1, &Cpu)?;
    let b = Tensor::<f32, 2>::random_uniform([256, 256], 0.5..1.5, 2, &Cpu)?;
    for (name, run) in [("built-in", built_in as fn(&_, &_) -> _), ("fused", fused)] {
        let mut times: Vec<f64> = (0..20)
            .map(|_| {
                let start = Instant::now();
                black_box(run(black_box(&a), black_box(&b))).unwrap();
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{name} {:.0}", times[times.len() / 2]);
    }
    Ok(())
}
