//! The same user, with ndarray.
use ndarray::{Array2, Axis, Zip};
use std::hint::black_box;
use std::time::Instant;

fn wave(x: f32, y: f32) -> f32 {
    x * y + x.sin()
}

fn built_in(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    let c = a + b;
    let d = &c * a;
    let e = (&d - b).mapv(f32::exp);
    let f = e.mapv(f32::ln).mapv(f32::tanh);
    let g = f.mapv(|x| x * x).mapv(f32::sqrt);
    let h = Zip::from(&g).and(b).map_collect(|&x, &y| x.max(y));
    let rows = h.sum_axis(Axis(1));
    rows.fold(f32::MIN, |m, &x| m.max(x))
}

fn fused(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    Zip::from(a).and(b).fold(0.0, |sum, &x, &y| sum + wave((x * y + 1.0) / (y.abs() + 0.5), x))
}

fn main() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        0.5 + (state >> 8) as f32 / (1 << 24) as f32
    };
    let a = Array2::from_shape_simple_fn((256, 256), &mut next);
    let b = Array2::from_shape_simple_fn((256, 256), &mut next);
    for (name, run) in [("built-in", built_in as fn(&_, &_) -> f32), ("fused", fused)] {
        let mut times: Vec<f64> = (0..20)
            .map(|_| {
                let start = Instant::now();
                black_box(run(black_box(&a), black_box(&b)));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{name} {:.0}", times[times.len() / 2]);
    }
}
