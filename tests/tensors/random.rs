//! Random numbers: reproducible, evenly and normally distributed, within their bounds.

use rankform::prelude::*;
use rankform::{bf16, f16};

fn uniform<T: Float>(n: usize, seed: u64) -> Vec<f64> {
    let x = Tensor::<T, 1>::random_uniform([n], T::zero()..T::one(), seed, &Cpu).unwrap();
    x.iter().map(|v| v.to_f64().unwrap()).collect()
}

fn normal<T: Float>(n: usize, seed: u64) -> Vec<f64> {
    let x = Tensor::<T, 1>::random_normal([n], T::zero(), T::one(), seed, &Cpu).unwrap();
    x.iter().map(|v| v.to_f64().unwrap()).collect()
}

/// The largest distance between the distribution of a sample and a distribution function (Kolmogorov and
/// Smirnov), in units of 1/√n: above 1.95 for one sample in a thousand.
fn distance(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let gaps = sample.iter().enumerate().map(|(i, &x)| {
        (distribution(x) - i as f64 / n).abs().max((distribution(x) - (i + 1) as f64 / n).abs())
    });
    gaps.fold(0.0, f64::max) * n.sqrt()
}

fn normal_distribution(x: f64) -> f64 {
    Tensor::from(x / -std::f64::consts::SQRT_2).erfc().unwrap().item().unwrap() / 2.0
}

#[test]
fn uniform_numbers_are_evenly_distributed() {
    for seed in [0, 1, u64::MAX] {
        assert!(distance(uniform::<f32>(50_000, seed), |x| x) < 1.95, "f32, seed {seed}");
        assert!(distance(uniform::<f64>(50_000, seed), |x| x) < 1.95, "f64, seed {seed}");
    }
    // Narrow floats take few values: each comes about as often as the others.
    let mut counts = [0_u32; 256];
    uniform::<bf16>(256 * 1000, 3).iter().for_each(|x| counts[(x * 256.0) as usize] += 1);
    assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    let mut counts = vec![0_u32; 2048];
    uniform::<f16>(2048 * 1000, 3).iter().for_each(|x| counts[(x * 2048.0) as usize] += 1);
    assert!(counts.iter().all(|&count| (850..1150).contains(&count)));
}

#[test]
fn normal_numbers_are_normally_distributed() {
    for seed in [0, 1, u64::MAX] {
        assert!(distance(normal::<f32>(50_000, seed), normal_distribution) < 1.95, "f32, seed {seed}");
        assert!(distance(normal::<f64>(50_000, seed), normal_distribution) < 1.95, "f64, seed {seed}");
    }
    let x = Tensor::<f64, 1>::random_normal([100_000], -3.0, 0.25, 9, &Cpu).unwrap();
    let (mean, var) = (x.mean(All).unwrap().item().unwrap(), x.var(All).unwrap().item().unwrap());
    assert!((mean + 3.0).abs() < 0.004 && (var.sqrt() - 0.25).abs() < 0.003, "{mean} {var}");
}

#[test]
fn neighbors_and_neighboring_seeds_do_not_correlate() {
    let product = |a: &[f64], b: &[f64]| {
        a.iter().zip(b).map(|(x, y)| (x - 0.5) * (y - 0.5)).sum::<f64>() * 12.0 / (a.len() as f64).sqrt()
    };
    let (a, b) = (uniform::<f64>(100_000, 5), uniform::<f64>(100_000, 6));
    assert!(product(&a, &b).abs() < 3.3);
    for lag in [1, 2, 3, 4, 4096] {
        assert!(product(&a[lag..], &a[..a.len() - lag]).abs() < 3.3, "lag {lag}");
    }
    let z = normal::<f64>(100_000, 5);
    assert!(
        distance(z.iter().zip(&a).map(|(z, u)| normal_distribution(z + 2.0 * u - 1.0)).collect(), |x| x)
            > 1.95,
        "the test can fail"
    );
    assert!(
        product(&z.iter().map(|&z| normal_distribution(z)).collect::<Vec<_>>(), &a).abs() < 3.3,
        "uniform and normal, one seed"
    );
}

#[test]
fn seed_and_number_of_an_element_give_its_value() -> Result<()> {
    // Recorded: a change of these values is a change of everybody's experiments.
    let x = Tensor::<f64, 1>::random_uniform([3], 0.0..1.0, 42, &Cpu)?.to_vec()?;
    let z = Tensor::<f32, 1>::random_normal([3], 0.0, 1.0, 42, &Cpu)?.to_vec()?;
    assert_eq!((x, z), (RECORDED_UNIFORM.to_vec(), RECORDED_NORMAL.to_vec()));
    // Sizes and rank do not matter, nor on which side of a block a number falls, nor the number of threads.
    let long = uniform::<f32>(100_003, 7);
    for n in [0, 1, 4095, 4096, 4097, 12_288] {
        assert_eq!(uniform::<f32>(n, 7), long[..n], "{n}");
    }
    let cube = Tensor::<f32, 3>::random_uniform([4, 30, 100], 0.0..1.0, 7, &Cpu)?;
    assert!(cube.iter().zip(&long).all(|(&a, &b)| a as f64 == b));
    // The first bits are common to the element types.
    assert!(uniform::<f64>(1000, 7).iter().zip(&long).all(|(wide, narrow)| (wide - narrow).abs() < 1.2e-7));
    assert_ne!(uniform::<f32>(10, 8), long[..10]);
    Ok(())
}

/// These agree with a few lines of another language: Philox4x32-10 of (number, 0, 0, 0) under the key (42,
/// 0).
const RECORDED_UNIFORM: [f64; 3] = [0.6129598811894158, 0.9877186509145105, 0.8258668271960493];
const RECORDED_NORMAL: [f32; 3] = [0.3410315, 1.5944732, -1.6351473];

#[test]
fn numbers_stay_within_their_range() -> Result<()> {
    let x = Tensor::<f64, 1>::random_uniform([100_000], -7.0..11.0, 1, &Cpu)?;
    assert!(x.iter().all(|v| (-7.0..11.0).contains(v)));
    let huge = Tensor::<f32, 1>::random_uniform([10_000], f32::MIN..f32::MAX, 1, &Cpu)?;
    assert!(huge.iter().all(|v| v.is_finite()), "the width of the range overflows, its numbers do not");
    assert!(
        uniform::<f16>(300_000, 2).iter().chain(&uniform::<bf16>(300_000, 2)).all(|v| (0.0..1.0).contains(v))
    );
    assert!(normal::<f32>(1_000_000, 2).iter().all(|z| z.abs() < 6.7));
    assert!(Tensor::<f32, 1>::random_normal([5], 2.0, 0.0, 1, &Cpu)?.iter().all(|&v| v == 2.0));
    Ok(())
}

#[test]
fn wrong_parameters_are_refused_and_meta_keeps_the_sizes() -> Result<()> {
    for range in [1.0..1.0, 1.0..0.0, f64::NAN..1.0, 0.0..f64::INFINITY] {
        assert!(matches!(Tensor::<f64, 1>::random_uniform([2], range, 0, &Cpu), Err(Error::Value { .. })));
    }
    for (mean, deviation) in [(0.0, -1.0), (f32::NAN, 1.0), (0.0, f32::INFINITY)] {
        assert!(matches!(
            Tensor::<f32, 1>::random_normal([2], mean, deviation, 0, &Cpu),
            Err(Error::Value { .. })
        ));
    }
    assert!(matches!(
        Tensor::<f32, 2>::random_uniform([usize::MAX, 2], 0.0..1.0, 0, &Cpu),
        Err(Error::Overflow { .. })
    ));
    assert_eq!(
        Tensor::<f32, 2, Meta>::random_normal([3, 5000], 0.0, 1.0, 0, &Meta::new())?.size(),
        [3, 5000]
    );
    assert_eq!(Tensor::<f32, 0>::random_uniform([], 0.0..1.0, 0, &Cpu)?.numel(), 1);
    Ok(())
}
