use rankform::prelude::*;
use std::time::Instant;
elementwise! { fn swish(x) { x / (1.0 + (-x).exp()) } }
fn bench<R>(name: &str, n: usize, mut f: impl FnMut() -> R) { let _ = f(); let mut best = f64::MAX; let t0 = Instant::now(); let mut k = 0; while k < 400 && t0.elapsed().as_secs_f64() < 0.3 { let t = Instant::now(); std::hint::black_box(f()); best = best.min(t.elapsed().as_secs_f64()); k += 1; } println!("  {name:24} {:9.3} ns", best * 1e9 / n as f64); }
fn main() -> Result<()> {
    let v: Vec<f32> = (0..65536).map(|i| i as f32 / 65536.0).collect();
    let x = Tensor::from_slice(&v, [256, 256], &Cpu)?;
    let y = &x + x.slice((0, ..))?.lift();
    bench("add", 65536, || &x + &y);
    bench("add t", 65536, || &x + y.transposed());
    bench("sum lazy", 65536, || (x.lazy() * &y + x.lazy().exp()).eval());
    bench("map", 65536, || x.map(swish));
    let (a,b) = (Tensor::<f32,2>::zeros([4,4], &Cpu)?, Tensor::<f32,2>::zeros([4,4], &Cpu)?); bench("4x4", 1, || &a + &b);
    Ok(())
}
