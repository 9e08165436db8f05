//! Elementwise operators, reductions, scans and row programs give the same bits on every instruction set.
//!
//! Matrix products do not promise it: their kernels sum in blocks that fit the registers.

use rankform::prelude::*;
use std::process::Command;

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
    hash("mixed", (x.lazy() * y.transposed() + x.lazy().sigmoid() / (y.transposed().lazy().square() + T::one())).eval());
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

#[test]
#[ignore = "run by the test below, in processes of its own"]
fn digest() -> Result<()> {
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
