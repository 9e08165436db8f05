//! Instructions a call takes on tensors of 4 × 4 f32, counted by `valgrind --tool=callgrind`: the difference
//! between a process that calls 5000 times and one that does not, divided by 5000.
//!
//! `cargo bench --bench tiny`

use rankform::autograd::{Tape, Var};
use rankform::prelude::*;
use std::hint::black_box;
use std::process::{Command, exit};

const CASES: [&str; 16] = [
    "`a + b`",
    "`(a + b).eval_into(&mut c)`",
    "`c += b`",
    "`a.exp()`",
    "`a.sum(Axis::<1>)`",
    "`a.softmax(Axis::<1>)`",
    "`a.matmul(b)`",
    "`Tensor::full`",
    "`a.slice((1..3, 0..2))`",
    "`a.transposed()`",
    "`a.reshape([2, 8])`",
    "`Tensor::zeros`",
    "`Tensor::from_vec`, `into_vec`",
    "`a + b` on a tape",
    "`a + b` on a tape, and its part of `backward`",
    "`a * b` on a tape, and its part of `backward`",
];
const CALLS: usize = 5000;
/// The steps of one recording.
const STEPS: usize = 100;

/// Applies an operator to its own result, on a tape, `calls` times; takes gradients after every 100 calls, if
/// asked.
fn record(
    calls: usize,
    takes_gradients: bool,
    operator: fn(&Matrix, &Matrix) -> Result<Matrix>,
) -> Result<()> {
    let ones = Tensor::<f32, 2>::ones([4, 4], &Cpu)?;
    let tape = Tape::new(&Cpu);
    let b = tape.watch(&ones)?;
    for _ in 0..calls / STEPS {
        let mut y = tape.watch(&ones)?;
        for _ in 0..STEPS {
            y = operator(black_box(&y), black_box(&b))?;
        }
        match takes_gradients {
            true => drop(black_box(tape.vjp(&y, &ones)?)),
            false => tape.clear(),
        }
    }
    Ok(())
}
type Matrix = Var<f32, 2>;

/// Calls a case `calls` times, after the initialization that every process does once.
fn run(case: usize, calls: usize) -> Result<()> {
    let ones = || Tensor::<f32, 2>::ones([4, 4], &Cpu);
    let (a, b, mut c) = (ones()?, ones()?, ones()?);
    let mut values = vec![1.0f32; 16];
    if case >= 13 {
        record(STEPS, true, |a, b| a.mul(b))?;
        let operator: fn(&Matrix, &Matrix) -> Result<Matrix> =
            if case == 15 { |a, b| a.mul(b) } else { |a, b| a.add(b) };
        return record(calls, case > 13, operator);
    }
    black_box((a.add(&b)?, a.sum(Axis::<1>)?, a.matmul(&b)?, a.softmax(Axis::<1>)?, a.exp()?));
    for _ in 0..calls {
        let (a, b) = (black_box(&a), black_box(&b));
        match case {
            0 => drop(black_box(a.add(b)?)),
            1 => (a.lazy() + b).eval_into(&mut c)?,
            2 => c += b,
            3 => drop(black_box(a.exp()?)),
            4 => drop(black_box(a.sum(Axis::<1>)?)),
            5 => drop(black_box(a.softmax(Axis::<1>)?)),
            6 => drop(black_box(a.matmul(b)?)),
            7 => drop(black_box(Tensor::<f32, 2>::full([4, 4], 2.0, &Cpu)?)),
            8 => _ = black_box(a.slice((1..3, 0..2))?),
            9 => _ = black_box(a.transposed()),
            10 => _ = black_box(a.reshape([a.size()[0] / 2, a.size()[1] * 2])?),
            11 => drop(black_box(Tensor::<f32, 2>::zeros([4, 4], &Cpu)?)),
            _ => values = black_box(Tensor::from_vec(values, [4, 4])?).into_vec()?,
        }
    }
    Ok(())
}

/// The instructions of a process that calls a case that often, if valgrind is installed.
fn instructions(case: usize, calls: usize) -> Option<usize> {
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["count", &case.to_string(), &calls.to_string()])
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&counted.stderr).into_owned();
    report.split("Collected : ").nth(1)?.split_whitespace().next()?.parse().ok()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, case, calls] = arguments.as_slice()
        && word == "count"
        && let (Ok(case), Ok(calls)) = (case.parse(), calls.parse())
    {
        return run(case, calls);
    }
    println!("| case | instructions a call |\n|---|---:|");
    for (case, name) in CASES.iter().enumerate() {
        let (Some(none), Some(all)) = (instructions(case, 0), instructions(case, CALLS)) else {
            eprintln!("tiny: valgrind counted nothing; is it installed?");
            exit(1);
        };
        println!("| {name} | {} |", (all - none) / CALLS);
    }
    Ok(())
}
