//! A product by a prepacked matrix, compared with the plain product: microseconds, the minimum of many runs,
//! of `[m, 1024] · [1024, 1024]`, with a row-major matrix and with a transposed one, as weights often are.
//!
//! `RAYON_NUM_THREADS=1 cargo bench --bench packed`

use rankform::prelude::*;
use rankform::{Number, WideningMul};
use rankform::{bf16, f16};
use std::hint::black_box;
use std::time::Instant;

const N: usize = 1024;

/// Interleaved: a disturbance of the machine then affects all cases.
fn least(mut runs: [&mut dyn FnMut(); 3]) -> [f64; 3] {
    let mut least = [f64::INFINITY; 3];
    for _ in 0..60 {
        for (least, run) in least.iter_mut().zip(&mut runs) {
            let start = Instant::now();
            run();
            *least = least.min(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    least
}

fn of<T: Element>(size: [usize; 2], seed: u64) -> Result<Tensor<T, 2>> {
    Tensor::<f32, 2>::random_uniform(size, -9.0..9.0, seed, &Cpu)?.cast::<T>()
}

fn row(name: &str, m: usize, [rows, columns, packed]: [f64; 3]) {
    let gain = [rows / packed, columns / packed];
    println!("| {name} | {m} | {rows:.0} | {columns:.0} | {packed:.0} | {:.2} | {:.2} |", gain[0], gain[1]);
}

fn narrow<T: Number>(name: &str) -> Result<()> {
    let y = of::<T>([N, N], 2)?;
    let turned = y.transposed().to_contiguous()?;
    let packed = y.pack()?;
    for m in [1, 2, 8, 16, 32, 64, 256] {
        let x = of::<T>([m, N], 1)?;
        let times = least([
            &mut || drop(black_box(x.matmul(&y))),
            &mut || drop(black_box(x.matmul(turned.transposed()))),
            &mut || drop(black_box(x.matmul_packed(&packed))),
        ]);
        row(name, m, times);
    }
    Ok(())
}

fn wide<T: Number + WideningMul<T>>(name: &str) -> Result<()> {
    let y = of::<T>([N, N], 2)?;
    let turned = y.transposed().to_contiguous()?;
    let packed = y.pack_wide()?;
    for m in [1, 2, 8, 16, 32, 64, 256] {
        let x = of::<T>([m, N], 1)?;
        let times = least([
            &mut || drop(black_box(x.matmul_wide(&y))),
            &mut || drop(black_box(x.matmul_wide(turned.transposed()))),
            &mut || drop(black_box(x.matmul_packed(&packed))),
        ]);
        row(name, m, times);
    }
    Ok(())
}

fn main() -> Result<()> {
    println!(
        "| elements | m | in rows | in columns | packed | rows ÷ packed | columns ÷ packed |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    narrow::<f32>("f32")?;
    narrow::<f64>("f64")?;
    narrow::<f16>("f16")?;
    narrow::<bf16>("bf16")?;
    wide::<i8>("i8 → i32")
}
