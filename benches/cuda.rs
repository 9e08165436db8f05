//! A GPU: operators compared with a copy within its memory, products compared with cuBLAS called directly,
//! the cost of a call. Prints a table in Markdown; `tools/gpu-run` keeps it under `benches/results/`.
//!
//! `RANKFORM_BENCH_MIB` is the size of an operand (512), `RANKFORM_BENCH_MATRIX` the side of the square
//! matrices (8192). `RANKFORM_TORCH` names a file of lines `case<TAB>seconds`, as `benches/cuda_torch.py`
//! prints them.

use cudarc::cublas::{result as blas, sys};
use rankform::prelude::*;
use rankform::{AnyDevice, Cuda};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::time::Instant;

type Bf16 = rankform::bf16;

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The least seconds of one run, of several rounds of several runs.
fn seconds(gpu: &Cuda, runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    run()?;
    let mut least = f64::INFINITY;
    for _ in 0..7 {
        gpu.synchronize()?;
        let start = Instant::now();
        (0..runs).try_for_each(|_| run())?;
        gpu.synchronize()?;
        least = least.min(start.elapsed().as_secs_f64() / runs as f64);
    }
    Ok(least)
}

struct Row {
    case: String,
    seconds: f64,
    /// The reference, and its time.
    limit: Option<(&'static str, f64)>,
    /// The work: bytes or operations, in `unit`.
    amount: f64,
    unit: &'static str,
}

fn main() -> Result<()> {
    let gpu = match Cuda::new(0) {
        Ok(gpu) => gpu,
        Err(missing) => {
            assert!(std::env::var_os("RANKFORM_REQUIRE_CUDA").is_none(), "{missing}");
            println!("skipped: {missing}");
            return Ok(());
        }
    };
    let torch: BTreeMap<String, f64> = std::env::var("RANKFORM_TORCH")
        .ok()
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            line.split_once('\t')
                .and_then(|(case, seconds)| Some((case.to_string(), seconds.trim().parse().ok()?)))
        })
        .collect();
    let mut rows = bandwidth(&gpu)?;
    rows.extend(products(&gpu)?);
    println!("| case | time | rate | beside | of it | torch | torch ÷ ours |\n|---|---|---|---|---|---|---|");
    for Row { case, seconds, limit, amount, unit } in &rows {
        let micro = |seconds: f64| format!("{:.1} µs", seconds * 1e6);
        let (beside, part) = match limit {
            Some((name, limit)) => {
                (format!("{name} {}", micro(*limit)), format!("{:.1} %", 100.0 * limit / seconds))
            }
            None => ("—".into(), "—".into()),
        };
        let (other, ratio) = match torch.get(case) {
            Some(other) => (micro(*other), format!("{:.2}", other / seconds)),
            None => ("—".into(), "—".into()),
        };
        println!(
            "| {case} | {} | {:.1} {unit} | {beside} | {part} | {other} | {ratio} |",
            micro(*seconds),
            amount / seconds
        );
    }
    calls(&gpu, &torch)
}

/// Memory-bound operators, compared with a copy of as many bytes.
fn bandwidth(gpu: &Cuda) -> Result<Vec<Row>> {
    let numel = setting("RANKFORM_BENCH_MIB", 512) << 18;
    let (lines, along) = ((numel / 4096).max(1), 4096);
    let of = |scale: f32| -> Result<Tensor<f32, 2, Cuda>> {
        Tensor::<f32, 2, Cuda>::random_uniform([lines, along], 0.0..1.0, 7, gpu)?.mul(scale)
    };
    let (x, y, z) = (of(1.0)?, of(0.5)?, of(0.25)?);
    let (xh, yh) = (x.cast::<Bf16>()?, y.cast::<Bf16>()?);
    let bytes = (lines * along * 4) as f64;
    let runs = 10;
    // From a device of run-time kind the bytes go by the driver's own copy.
    let any: Tensor<f32, 2, AnyDevice> = x.copy()?.into_any()?;
    let copy = seconds(gpu, runs, || any.to(gpu).map(drop))?;
    drop(any);
    // A copy moves the bytes twice.
    let rate = 2.0 * bytes / copy;
    let mut rows = Vec::new();
    let mut row = |case: &str, moved: f64, run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let seconds = seconds(gpu, runs, run)?;
        rows.push(Row {
            case: case.into(),
            seconds,
            limit: Some(("copy", moved / rate)),
            amount: moved / 1e9,
            unit: "GB/s",
        });
        Ok(())
    };
    row("copy f32", 2.0 * bytes, &mut || x.copy().map(drop))?;
    row("add f32", 3.0 * bytes, &mut || x.add(&y).map(drop))?;
    row("exp f32", 2.0 * bytes, &mut || x.exp().map(drop))?;
    row("add bf16", 1.5 * bytes, &mut || xh.add(&yh).map(drop))?;
    row("chain f32", 4.0 * bytes, &mut || ((x.lazy() * &y + &z).tanh() * 0.5).exp().eval().map(drop))?;
    row("sum rows f32", bytes, &mut || x.sum(Axis::<1>).map(drop))?;
    row("sum columns f32", bytes, &mut || x.sum(Axis::<0>).map(drop))?;
    row("sum all f32", bytes, &mut || x.sum(All).map(drop))?;
    row("max rows bf16", bytes / 2.0, &mut || xh.max(Axis::<1>).map(drop))?;
    row("transpose f32", 2.0 * bytes, &mut || x.transposed().to_contiguous().map(drop))?;
    row("softmax f32", 2.0 * bytes, &mut || x.softmax(Axis::<1>).map(drop))?;
    row("softmax bf16", bytes, &mut || xh.softmax(Axis::<1>).map(drop))?;
    row("layer norm f32", 2.0 * bytes, &mut || x.layer_norm(Axis::<1>, 1e-5).map(drop))?;
    Ok(rows)
}

/// Products of matrices, compared with cuBLAS called directly.
fn products(gpu: &Cuda) -> Result<Vec<Row>> {
    let side = setting("RANKFORM_BENCH_MATRIX", 8192);
    let x = Tensor::<f32, 2, Cuda>::random_uniform([side, side], 0.0..1.0, 1, gpu)?;
    let xh = x.cast::<Bf16>()?;
    let operations = 2.0 * (side as f64).powi(3) / 1e12;
    let mut rows = Vec::new();
    macro_rules! product {
        ($case:literal, $x:expr, $kind:ident) => {{
            let ours = seconds(gpu, 5, || $x.matmul(&$x).map(drop))?;
            let out = $x.copy()?;
            gpu.synchronize()?;
            let direct = direct(
                gpu,
                $x.raw_ptr().cast(),
                out.raw_ptr().cast_mut().cast(),
                side,
                sys::cudaDataType::$kind,
            )?;
            rows.push(Row {
                case: $case.into(),
                seconds: ours,
                limit: direct.map(|direct| ("cuBLAS", direct)),
                amount: operations,
                unit: "TFLOP/s",
            });
        }};
    }
    product!("matmul f32", x, CUDA_R_32F);
    product!("matmul bf16", xh, CUDA_R_16BF);
    Ok(rows)
}

/// The square of a matrix by cuBLAS on a stream of the driver's; none without the library.
fn direct(
    gpu: &Cuda,
    x: *const c_void,
    out: *mut c_void,
    side: usize,
    kind: sys::cudaDataType,
) -> Result<Option<f64>> {
    let one = 1.0f32;
    let zero = 0.0f32;
    let side = side as i32;
    // SAFETY: the crate has opened cuBLAS for its own product before; matrices of that side, factors of its
    // sum's type.
    unsafe {
        let Ok(handle) = blas::create_handle() else { return Ok(None) };
        let stream =
            cudarc::driver::result::stream::create(cudarc::driver::result::stream::StreamKind::NonBlocking);
        let Ok(stream) = stream else { return Ok(None) };
        let _ = blas::set_stream(handle, stream.cast());
        let mut least = f64::INFINITY;
        for _ in 0..7 {
            let start = Instant::now();
            for _ in 0..5 {
                let n = sys::cublasOperation_t::CUBLAS_OP_N;
                let sum = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
                let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
                let algorithm = sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
                let done = blas::gemm_strided_batched_ex(
                    handle, n, n, side, side, side, alpha, x, kind, side, 0, x, kind, side, 0, beta, out,
                    kind, side, 0, 1, sum, algorithm,
                );
                if done.is_err() {
                    return Ok(None);
                }
            }
            if cudarc::driver::result::stream::synchronize(stream).is_err() {
                return Ok(None);
            }
            least = least.min(start.elapsed().as_secs_f64() / 5.0);
        }
        gpu.synchronize()?;
        Ok(Some(least))
    }
}

/// The host's cost of calls: queueing, allocating, replaying.
fn calls(gpu: &Cuda, torch: &BTreeMap<String, f64>) -> Result<()> {
    let x = Tensor::full([64], 1.0f32, gpu)?;
    let count = setting("RANKFORM_BENCH_CALLS", 2000);
    let queueing = |run: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..7 {
            gpu.synchronize()?;
            let start = Instant::now();
            (0..count).try_for_each(|_| run())?;
            least = least.min(start.elapsed().as_secs_f64() / count as f64);
        }
        gpu.synchronize()?;
        Ok(least)
    };
    println!("\n| call | host | torch | torch ÷ ours |\n|---|---|---|---|");
    let row = |case: &str, ours: f64| {
        let other = torch.get(case);
        let (other, ratio) = other.map_or(("—".into(), "—".into()), |other| {
            (format!("{:.2} µs", other * 1e6), format!("{:.2}", other / ours))
        });
        println!("| {case} | {:.2} µs | {other} | {ratio} |", ours * 1e6);
    };
    let mut y = x.copy()?;
    row("launch", queueing(&mut || x.lazy().abs().eval_into(&mut y))?);
    row("launch and result", queueing(&mut || x.abs().map(drop))?);
    row(
        "allocate and free",
        queueing(&mut || Tensor::<u8, 1, Cuda>::empty([1 << 16], gpu)?.mutable_data().map(drop))?,
    );
    let graph = gpu.capture(|| {
        let mut y = x.abs()?;
        for _ in 0..19 {
            y = y.abs()?;
        }
        Ok(y)
    })?;
    row("graph of 20 launches", queueing(&mut || graph.replay())?);
    Ok(())
}
