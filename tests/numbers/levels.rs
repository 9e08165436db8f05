//! Elementwise operators, of large results too, reductions, scans and row programs give the same bits on
//! every instruction set.
//!
//! Matrix products do not promise it: their kernels sum in blocks that fit the registers.

use rankform::prelude::*;
use std::ops::Range;
use std::process::Command;

/// This many elements take non-temporal stores; unoptimized builds use them from fewer. Cache lines start at
/// another column in each row.
const ROWS: usize = if cfg!(rankform_unoptimized) { 129 } else { 2049 };
const COLUMNS: usize = 2053;

fn hash<T: Element, const RANK: usize>(name: &str, x: Result<Tensor<T, RANK>>) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
    for value in x.unwrap().to_vec().unwrap() {
        for byte in format!("{value:?} ").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("digest {name} {} {hash:016x}", T::DTYPE);
}

fn all<T: Float>() -> Result<()> {
    let x = Tensor::<T, 2>::random_normal([67, 301], T::zero(), T::one(), 1, &Cpu)?;
    let y = Tensor::<T, 2>::random_normal([301, 67], T::one(), T::one(), 2, &Cpu)?;
    hash("exp", x.exp());
    hash("log", x.abs()?.ln());
    hash("sin", (x.lazy() * of::<T>(40.0)).sin().eval());
    hash("tanh", x.tanh());
    hash("erf", x.erf());
    hash("gelu", x.gelu());
    hash("pow", x.abs()?.powf(&y.transposed().to_contiguous()?));
    hash(
        "mixed",
        (x.lazy() * y.transposed() + x.lazy().sigmoid() / (y.transposed().lazy().square() + T::one())).eval(),
    );
    hash("sum", x.sum(All));
    hash("rows", x.sum(Axis::<1>));
    hash("columns", y.mean(Axis::<0>));
    hash("var", x.var(Axis::<1>));
    hash("max", x.max(Axis::<0>));
    hash("argmin", y.argmin(Axis::<1>));
    hash("softmax", x.softmax(Axis::<1>));
    hash("softmax of columns", x.softmax(Axis::<0>));
    hash("layer norm", y.layer_norm(Axis::<1>, T::epsilon()));
    hash("cumsum", x.cumsum(Axis::<1>));
    hash("cumprod", y.cumprod(Axis::<0>));
    hash("sort", y.sort(Axis::<0>));
    Ok(())
}

/// A number of any element.
fn of<T: Float>(x: f64) -> T {
    num_traits::NumCast::from(x).unwrap()
}

elementwise! {
    fn both(x, y) -> (T, T) { (x * y + 1.0, x - y.sin()) }
}

/// Results that are stored non-temporally have the bits of their parts, which are not.
fn non_temporal() -> Result<()> {
    let x = Tensor::<f32, 2>::random_normal([ROWS, COLUMNS + 1], 0.0, 1.0, 1, &Cpu)?;
    let y = Tensor::<f32, 2>::random_normal([ROWS, COLUMNS + 2], 1.0, 1.0, 2, &Cpu)?;
    let of = |part: Range<usize>| (x.slice((part.clone(), 1..)).unwrap(), y.slice((part, 2..)).unwrap());
    let (row, column) = (y.slice((0, ..COLUMNS))?, y.slice((.., ..1))?);
    let single = |x: f32| u64::from(x.to_bits());
    same("add", single, |part| of(part.clone()).0.add(of(part).1));
    same("exp", single, |part| of(part).0.exp());
    same("gelu", single, |part| of(part).0.gelu());
    same("row", single, |part| of(part).0.add(row.lift()));
    same("column", single, |part| of(part.clone()).0.lazy().hypot(column.slice((part, ..))?).eval());
    same("cast", f64::to_bits, |part| of(part).0.cast::<f64>());
    same("first", single, |part| Ok(apply_many(both, of(part))?.0));
    same("second", single, |part| Ok(apply_many(both, of(part))?.1));
    Ok(())
}

fn same<T: Element>(name: &str, bits: impl Fn(T) -> u64, of: impl Fn(Range<usize>) -> Result<Tensor<T, 2>>) {
    let elements =
        |part: Range<usize>| of(part).unwrap().to_vec().unwrap().into_iter().map(&bits).collect::<Vec<_>>();
    let whole = elements(0..ROWS);
    for start in (0..ROWS).step_by(64) {
        let end = ROWS.min(start + 64);
        assert!(
            elements(start..end) == whole[start * COLUMNS..end * COLUMNS],
            "{name}: rows from {start} to {end}"
        );
    }
}

#[test]
#[ignore = "run by the test below, in processes of its own"]
fn digest() -> Result<()> {
    non_temporal()?;
    all::<f32>()?;
    all::<f64>()?;
    all::<rankform::f16>()?;
    all::<rankform::bf16>()
}

#[test]
fn the_bits_are_the_same_on_every_instruction_set() {
    let on = |level: &str| {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["levels::digest", "--exact", "--ignored", "--nocapture"])
            .env("RANKFORM_SIMD", level)
            // Enough elements for non-temporal stores on every processor.
            .env("RAYON_NUM_THREADS", "4")
            .output()
            .unwrap();
        let text = String::from_utf8(run.stdout).unwrap();
        assert!(run.status.success(), "{level}: {text}");
        text.lines().filter(|line| line.starts_with("digest ")).map(String::from).collect::<Vec<_>>()
    };
    let widest = on("");
    assert_eq!(widest.len(), 80);
    for level in ["avx2", "baseline"] {
        for (narrow, wide) in on(level).iter().zip(&widest) {
            assert_eq!(narrow, wide, "{level}");
        }
    }
}
