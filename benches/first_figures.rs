//! Nanoseconds an element over 256×256 f32 on one thread, beside the limit of memory and a loop over the C library.
//!
//! `RAYON_NUM_THREADS=1 cargo bench --bench first_figures`. Each figure is the median of many runs, interleaved.

use rankform::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const N: usize = 256;

unsafe extern "C" {
    safe fn erff(x: f32) -> f32;
    safe fn expf(x: f32) -> f32;
    safe fn sinf(x: f32) -> f32;
}

elementwise! {
    fn wave(x, y) { x * y + x.sin() }
}

/// One case: a name and three loops over the same elements.
struct Case<'a> {
    name: &'static str,
    limit: Box<dyn FnMut() + 'a>,
    libm: Box<dyn FnMut() + 'a>,
    ours: Box<dyn FnMut() + 'a>,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The medians of the three loops, in nanoseconds an element.
fn measure(case: &mut Case<'_>) -> [f64; 3] {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..401 {
        for (times, run) in times.iter_mut().zip([&mut case.limit, &mut case.libm, &mut case.ours]) {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64() * 1e9 / (N * N) as f64);
        }
    }
    times.map(median)
}

fn main() -> Result<()> {
    if std::env::var("RAYON_NUM_THREADS").as_deref() != Ok("1") {
        eprintln!("set RAYON_NUM_THREADS=1 for figures of one thread");
    }
    let a = Tensor::<f32, 2>::random_normal([N, N], 0.0, 1.0, 1, &Cpu)?;
    let b = Tensor::<f32, 2>::random_normal([N, N], 0.0, 1.0, 2, &Cpu)?;
    let (xs, ys) = (a.as_slice().expect("row-major"), b.as_slice().expect("row-major"));
    let copy = || {
        let mut to = vec![0.0_f32; N * N];
        Box::new(move || black_box(&mut to).copy_from_slice(black_box(xs)))
    };
    let map = |f: fn(f32, f32) -> f32| {
        let mut to = vec![0.0_f32; N * N];
        Box::new(move || {
            for ((to, &x), &y) in to.iter_mut().zip(black_box(xs)).zip(black_box(ys)) {
                *to = f(x, y);
            }
            black_box(&mut to);
        })
    };
    let mut cases = [
        Case {
            name: "gelu",
            limit: copy(),
            libm: map(|x, _| 0.5 * x * (1.0 + erff(x * std::f32::consts::FRAC_1_SQRT_2))),
            ours: Box::new(|| drop(black_box(black_box(&a).gelu().unwrap()))),
        },
        Case {
            name: "x·y + sin x",
            limit: copy(),
            libm: map(|x, y| x * y + sinf(x)),
            ours: Box::new(|| drop(black_box(black_box(&a).zip(wave, &b).unwrap()))),
        },
        Case {
            name: "softmax, rows",
            limit: copy(),
            libm: {
                let mut to = vec![0.0_f32; N * N];
                Box::new(move || {
                    for (to, x) in to.chunks_exact_mut(N).zip(black_box(xs).chunks_exact(N)) {
                        let max = x.iter().copied().fold(f32::MIN, f32::max);
                        let mut sum = 0.0;
                        for (to, x) in to.iter_mut().zip(x) {
                            *to = expf(x - max);
                            sum += *to;
                        }
                        to.iter_mut().for_each(|to| *to /= sum);
                    }
                    black_box(&mut to);
                })
            },
            ours: Box::new(|| drop(black_box(black_box(&a).softmax(Axis::<1>).unwrap()))),
        },
        Case {
            name: "sum, all",
            limit: Box::new(|| {
                black_box(read(black_box(xs)));
            }),
            libm: Box::new(|| {
                black_box(black_box(xs).iter().sum::<f32>());
            }),
            ours: Box::new(|| drop(black_box(black_box(&a).sum(All).unwrap()))),
        },
        Case {
            name: "sum, rows",
            limit: Box::new(|| {
                black_box(read(black_box(xs)));
            }),
            libm: Box::new(|| {
                drop(black_box(
                    black_box(xs).chunks_exact(N).map(|row| row.iter().sum::<f32>()).collect::<Vec<_>>(),
                ))
            }),
            ours: Box::new(|| drop(black_box(black_box(&a).sum(Axis::<1>).unwrap()))),
        },
        Case {
            name: "sum, columns",
            limit: Box::new(|| {
                black_box(read(black_box(xs)));
            }),
            libm: Box::new(|| {
                let mut sums = vec![0.0_f32; N];
                black_box(xs)
                    .chunks_exact(N)
                    .for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
                black_box(sums);
            }),
            ours: Box::new(|| drop(black_box(black_box(&a).sum(Axis::<0>).unwrap()))),
        },
    ];
    println!("| case | limit of memory | C library | rankform | ÷ limit | C library ÷ rankform |");
    println!("|---|---:|---:|---:|---:|---:|");
    for case in &mut cases {
        let [limit, libm, ours] = measure(case);
        println!(
            "| {} | {limit:.3} | {libm:.2} | {ours:.3} | {:.1} | {:.1} |",
            case.name,
            ours / limit,
            libm / ours
        );
    }
    Ok(())
}

/// Reads every element, and does as little with it as may be.
fn read(x: &[f32]) -> u32 {
    let mut lanes = [0_u32; 64];
    for chunk in x.chunks_exact(64) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane ^= x.to_bits();
        }
    }
    lanes.iter().fold(0, |a, b| a ^ b)
}
