//! Functions that the lanes of a warp call together have the results of CUDA, and wrong calls are faults with
//! a name. So are misaligned accesses, races between warps, and libraries of NVIDIA's.

mod common;

use cuda_sim::*;
use std::sync::{Mutex, PoisonError};

const LAUNCH_FAILED: i32 = 719;
const MISALIGNED_ADDRESS: i32 = 716;

/// Kernels of tests run one at a time, so that the last report is that of this test.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a body for `threads` threads of each of two blocks on a device of its own: `at` is the number of the
/// thread, `lane` that of its lane, and `out` has a word for each thread. Returns the status and the words.
fn run(device: usize, threads: u32, body: &str) -> (i32, Vec<u32>, String) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let source = format!(
        "struct Args {{ long long begun, operation; unsigned* out; }};
        extern \"C\" __global__ void kernel(const Args a) {{
          const unsigned t = threadIdx.x, lane = t % 32, at = blockIdx.x * blockDim.x + t;
          unsigned* const out = a.out;
          {body} }}"
    );
    let function = common::load(&source);
    let (mut stream, mut memory, nbytes) = (0, 0, 2 * threads as usize * 4);
    let mut words = vec![0u32; 2 * threads as usize];
    // SAFETY: the outputs are valid for writes, and the memory has that many bytes.
    unsafe {
        assert_eq!(cuCtxSetCurrent(0x1000 + device), 0);
        assert_eq!((cuStreamCreate(&mut stream, 1), cuMemAlloc_v2(&mut memory, nbytes)), (0, 0));
        assert_eq!(cuMemsetD8Async(memory, 0, nbytes, stream), 0);
        assert_eq!(common::launch(function, stream, 2, threads, 0, &[0, 1, memory]), 0);
        let status = cuStreamSynchronize(stream);
        if status == 0 {
            assert_eq!(cuMemcpyDtoHAsync_v2(words.as_mut_ptr().cast(), memory, nbytes, stream), 0);
        }
        (status, words, last_report())
    }
}

#[test]
fn each_function_has_the_results_of_cuda() {
    if !common::has_compiler() {
        return;
    }
    let all = "0xffffffffu";
    let cases: Vec<(String, fn(u32) -> u32)> = vec![
        (format!("__shfl_sync({all}, t * 3, 5)"), |t| (t / 32 * 32 + 5) * 3),
        (format!("__shfl_sync({all}, t, (int)lane + 1)"), |t| t / 32 * 32 + (t + 1) % 32),
        (format!("__shfl_sync({all}, t, 9, 8)"), |t| t / 8 * 8 + 1),
        (format!("__shfl_up_sync({all}, t, 3)"), |t| if t % 32 < 3 { t } else { t - 3 }),
        (format!("__shfl_up_sync({all}, t, 1, 4)"), |t| if t % 4 < 1 { t } else { t - 1 }),
        (format!("__shfl_down_sync({all}, t, 16)"), |t| if t % 32 < 16 { t + 16 } else { t }),
        (format!("__shfl_down_sync({all}, t, 2, 8)"), |t| if t % 8 < 6 { t + 2 } else { t }),
        (format!("__shfl_xor_sync({all}, t, 7)"), |t| t ^ 7),
        (format!("__shfl_xor_sync({all}, t, 4, 4)"), |t| if t % 8 < 4 { t } else { t - 4 }),
        (format!("(unsigned)(__shfl_xor_sync({all}, (long long)t << 33, 1) >> 33)"), |t| t ^ 1),
        (format!("(unsigned)__shfl_xor_sync({all}, (double)t, 2)"), |t| t ^ 2),
        (format!("(unsigned)__shfl_down_sync({all}, (float)t, 1)"), |t| if t % 32 < 31 { t + 1 } else { t }),
        (format!("__ballot_sync({all}, t % 3 == 0)"), |t| {
            (0..32).filter(|lane| (t / 32 * 32 + lane) % 3 == 0).fold(0, |set, lane| set | 1 << lane)
        }),
        (format!("__any_sync({all}, t == 40)"), |t| u32::from(t / 32 == 1)),
        (format!("__all_sync({all}, t < 64)"), |t| u32::from(t < 64)),
        (format!("__match_any_sync({all}, lane % 16)"), |t| 0x0001_0001 << (t % 16)),
        (format!("__reduce_add_sync({all}, t)"), |t| t / 32 * 1024 + 496),
        (format!("(unsigned)__reduce_min_sync({all}, -(int)lane)"), |_| -31i32 as u32),
        (format!("(unsigned)__reduce_max_sync({all}, -(int)lane)"), |_| 0),
        (format!("__reduce_min_sync({all}, (unsigned)-(int)lane)"), |_| 0),
        (format!("__reduce_max_sync({all}, (unsigned)-(int)lane)"), |_| u32::MAX),
        (format!("__reduce_and_sync({all}, t | 64u)"), |t| (t & 32) | 64),
        (format!("__reduce_or_sync({all}, t)"), |t| t | 31),
        (format!("__reduce_xor_sync({all}, lane == 3 ? 6u : 0u)"), |_| 6),
        // The lanes of one half exchange values by themselves.
        ("lane < 16 ? __shfl_xor_sync(0xffffu, t, 1) : 7u".into(), |t| if t % 32 < 16 { t ^ 1 } else { 7 }),
    ];
    let body: Vec<String> =
        cases.iter().map(|(call, _)| format!("r = {call}; sum = sum * 31 + r;")).collect();
    let (status, words, report) =
        run(200, 96, &format!("unsigned r, sum = 0; {}\n out[at] = sum;", body.join("\n")));
    assert_eq!(status, 0, "{report}");
    for (at, word) in words.into_iter().enumerate() {
        let t = at as u32 % 96;
        let expected = cases.iter().fold(0u32, |sum, (_, f)| sum.wrapping_mul(31).wrapping_add(f(t)));
        if word != expected {
            // Which of them it is.
            for (k, (call, f)) in cases.iter().enumerate() {
                let (_, words, _) = run(201 + k, 96, &format!("out[at] = {call};"));
                assert_eq!(words[at], f(t), "thread {t}: {call}");
            }
            unreachable!("the sum of thread {t} differs");
        }
    }
}

#[test]
fn wrong_calls_are_faults_with_a_name() {
    if !common::has_compiler() {
        return;
    }
    for (k, (threads, body, words)) in [
        (64, "out[at] = __shfl_xor_sync(0x7fffffffu, t, 1);", "lane 31 calls `__shfl_xor_sync`"),
        (64, "if (lane != 7) out[at] = __shfl_xor_sync(0xffffffffu, t, 1);", "and lane 7 has returned"),
        (
            64,
            "out[at] = lane < 9 ? __ballot_sync(0xffffffffu, 1) : 0; __syncthreads();",
            "and lane 9 waits at a barrier",
        ),
        (
            64,
            "out[at] = lane == 4 ? __ballot_sync(0xffffffffu, 1) : __shfl_sync(0xffffffffu, t, 0);",
            "calls `__ballot_sync`",
        ),
        (
            64,
            "if (lane < 16) out[at] = __shfl_down_sync(0xffffu, t, 16);",
            "reads lane 16 by `__shfl_down_sync`",
        ),
        (40, "out[at] = __reduce_add_sync(0xffffffffu, t);", "which names lane 8 of a warp of 8"),
        (64, "out[at] = __shfl_sync(0xffffffffu, t, 0, 12);", "among 12 lanes"),
        (64, "if (t < 33) __syncthreads(); out[at] = 1;", "33 of 64 threads wait at a barrier"),
        (64, "if (lane == 5) return; __syncwarp(); out[at] = 1;", "`__syncwarp`"),
        (
            64,
            "unsigned l[4] = {}, r[2] = {}; float sum[4] = {};
             if (t != 37) mma_bf16_sync(sum, l, r); out[at] = 1;",
            "calls `mma.m16n8k16 of bf16`",
        ),
        (
            64,
            "unsigned l[4] = {}, r[2] = {}; float sum[4] = {};
             if (lane == 3) mma_f16_sync(sum, l, r); else mma_bf16_sync(sum, l, r); out[at] = 1;",
            "calls `mma.m16n8k16 of",
        ),
        (
            40,
            "unsigned l[4] = {}, r[2] = {}; float sum[4] = {}; mma_f16_sync(sum, l, r); out[at] = 1;",
            "which names lane 8",
        ),
        (
            64,
            "__shared__ __align__(16) unsigned s[64]; unsigned to[4]; s[t] = t; __syncthreads();
             if (lane > 30) __syncthreads(); ldmatrix_sync(to, s + 4 * (lane % 8)); out[at] = to[0];",
            "calls `ldmatrix.x4`",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, _, report) = run(300 + k, threads, body);
        assert_eq!(status, LAUNCH_FAILED, "{body}: {report}");
        assert!(
            report.contains(words) && report.contains("warp") | report.contains("barrier"),
            "{body}: {report}"
        );
    }
}

#[test]
fn misaligned_accesses_are_faults_and_aligned_ones_are_not() {
    if !common::has_compiler() {
        return;
    }
    for (k, (body, right)) in [
        ("const uint4 v = *(const uint4*)(out + at / 4 * 4); out[at] = v.x;", true),
        ("const uint4 v = *(const uint4*)(out + at / 4 * 4 + 2 * (at == 9)); out[at] = v.x;", false),
        ("if (lane == 3) *(float4*)(out + 1) = make_float4(1, 2, 3, 4);", false),
        ("if (lane == 3) *(uint2*)(out + 2) = make_uint2(1, 2);", true),
        ("out[at] = *(const unsigned short*)((const char*)out + 1);", false),
        (
            "__shared__ unsigned s[64]; s[t] = t; __syncthreads(); \
             out[at] = ((const uint2*)(s + (t == 5)))->x;",
            false,
        ),
        (
            "__shared__ __align__(16) unsigned s[64]; unsigned to[4]; \
             s[t] = t; s[t + 32] = t; __syncthreads(); \
             ldmatrix_sync(to, s + 4 * (lane % 8) + 2 * (lane == 9)); out[at] = to[1];",
            false,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, _, report) = run(400 + k, 32, body);
        let expected = if right { 0 } else { MISALIGNED_ADDRESS };
        assert_eq!(status, expected, "{body}: {report}");
        assert!(right || report.contains("which is no multiple of"), "{report}");
    }
}

/// A whole number from −30 to 30 for an element of a matrix.
fn element(row: usize, column: usize, seed: usize) -> i32 {
    ((row * 16 + column + seed) * 37 % 61) as i32 - 30
}

#[test]
fn products_of_fragments_are_those_of_matrices() {
    if !common::has_compiler() {
        return;
    }
    // Elements of f16 are subnormal in one operand.
    for (k, (name, convert, scale)) in [
        ("mma_f16_sync", "to_f16((float)((row * 16 + column + seed) * 37 % 61 - 30) * by)", "0x1p-20f"),
        (
            "mma_bf16_sync",
            "__float_as_uint((float)((row * 16 + column + seed) * 37 % 61 - 30) * by) >> 16",
            "1.0f",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for register in 0..4 {
            let body = format!(
                "const auto bits = [](int row, int column, int seed, float by) {{
                  return (unsigned)({convert});
                }};
                const int group = (int)lane / 4, pair = (int)lane % 4 * 2;
                unsigned l[4], r[2]; float sum[4];
                for (int k = 0; k < 4; k++) {{
                  const int row = group + k % 2 * 8, column = pair + k / 2 * 8;
                  l[k] = bits(row, column, 0, {scale}) | bits(row, column + 1, 0, {scale}) << 16;
                  sum[k] = (float)((group + k / 2 * 8) * 8 + pair + k % 2) * {scale};
                }}
                for (int k = 0; k < 2; k++)
                  r[k] = bits(pair + k * 8, group, 7, 1) | bits(pair + k * 8 + 1, group, 7, 1) << 16;
                {name}(sum, l, r);
                out[at] = (unsigned)(int)(sum[{register}] / {scale});"
            );
            let (status, words, report) = run(600 + 4 * k + register, 64, &body);
            assert_eq!(status, 0, "{report}");
            for (at, word) in words.into_iter().enumerate() {
                let lane = at % 32;
                let (row, column) = (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2);
                let product: i32 = (0..16).map(|k| element(row, k, 0) * element(k, column, 7)).sum();
                assert_eq!(word as i32, product + (row * 8 + column) as i32, "{name}: {row}, {column}");
            }
        }
    }
    // Infinity and NaN are results.
    let body = "unsigned l[4] = {}, r[2] = {0x3c003c00u, 0x3c003c00u}; float sum[4] = {};
        if (lane == 4) l[0] = 0x7c00u; if (lane == 8) l[0] = 0x7e00u; mma_f16_sync(sum, l, r);
        out[at] = __float_as_uint(sum[0]);";
    let (_, words, _) = run(610, 32, body);
    for (lane, word) in words.into_iter().map(f32::from_bits).enumerate() {
        match lane % 32 / 4 {
            1 => assert_eq!(word, f32::INFINITY),
            2 => assert!(word.is_nan()),
            _ => assert_eq!(word, 0.0),
        }
    }
}

#[test]
fn matrices_are_loaded_as_fragments() {
    if !common::has_compiler() {
        return;
    }
    for (k, name) in ["ldmatrix_sync", "ldmatrix_transposed_sync"].into_iter().enumerate() {
        for register in 0..4 {
            // Matrix m has the elements 64 · m + 8 · row + column, and its rows are in reverse.
            let body = format!(
                "__shared__ __align__(16) unsigned short s[32][8]; unsigned to[4];
                if (t < 32) for (int k = 0; k < 8; k++) s[31 - t][k] = (unsigned short)(t * 8 + k);
                __syncthreads(); {name}(to, s[31 - lane]); out[at] = to[{register}];"
            );
            let (status, words, report) = run(620 + 4 * k + register, 64, &body);
            assert_eq!(status, 0, "{report}");
            for (at, word) in words.into_iter().enumerate() {
                let (group, pair) = (at as u32 % 32 / 4, at as u32 % 4 * 2);
                let element = |k: u32| {
                    let (row, column) =
                        if name == "ldmatrix_sync" { (group, pair + k) } else { (pair + k, group) };
                    64 * register as u32 + 8 * row + column
                };
                assert_eq!(word, element(0) | element(1) << 16, "{name}, lane {}", at % 32);
            }
        }
    }
}

/// Run by the test below in a process of its own, where every kernel runs in two orders.
#[test]
fn in_two_orders() {
    if std::env::var_os("CUDA_SIM_TWICE").is_none() {
        return;
    }
    let exchange = |before: &str, after: &str| {
        format!(
            "__shared__ unsigned s[2]; {before}
            if (lane == 0) s[t / 32] = __shfl_sync(0xffffffffu, t, 0) + 1;
            else __shfl_sync(0xffffffffu, t, 0); {after} const unsigned other = s[1 - t / 32];
            out[at] = __shfl_xor_sync(0xffffffffu, other, 1);"
        )
    };
    // The two branches call one function in two lines.
    let (status, _, report) = run(500, 64, &exchange("", "__syncthreads();"));
    assert!(status == LAUNCH_FAILED && report.contains("and lane"), "{report}");
    let exchange = |after: &str| {
        format!(
            "__shared__ unsigned s[2]; const unsigned sum = __reduce_add_sync(0xffffffffu, t);
            if (lane == 0) s[t / 32] = sum; {after} unsigned other = s[1 - t / 32];
            for (int k = 0; k < 4; k++) other = __shfl_xor_sync(0xffffffffu, other, 1); out[at] = other;"
        )
    };
    let (status, words, report) = run(501, 64, &exchange("__syncthreads();"));
    assert_eq!((status, words[0], words[32]), (0, 1520, 496), "{report}");
    let (status, _, report) = run(502, 64, &exchange(""));
    assert_eq!(status, LAUNCH_FAILED, "a race between warps");
    assert!(report.contains("gives another result"), "{report}");
    // Lanes of one warp race without `__syncwarp`.
    let within = |between: &str| {
        format!("__shared__ unsigned s[64]; s[t] = t; {between} out[at] = s[t ^ 1]; __syncthreads();")
    };
    let (status, words, report) = run(503, 64, &within("__syncwarp();"));
    assert_eq!((status, words[2]), (0, 3), "{report}");
    assert_eq!(run(504, 64, &within("")).0, LAUNCH_FAILED, "a race within a warp");
}

#[test]
fn races_between_warps_and_within_a_warp_are_found() {
    if !common::has_compiler() {
        return;
    }
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_two_orders", "--nocapture"])
        .env("CUDA_SIM_TWICE", "1")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn machine_code_of_nvidias_compiler_is_refused() {
    let mut module = 0;
    // SAFETY: the image has more bytes than the calls read.
    let status = unsafe { cuModuleLoadData(&mut module, c"\x7fELF\x02\x01\x01".as_ptr()) };
    assert_eq!(status, 803);
    let mut function = std::ptr::dangling_mut();
    // SAFETY: the name ends with a zero, and the output is valid for writes.
    let status = unsafe { cuGetProcAddress(c"cuInit".as_ptr(), &mut function, 13000, 0) };
    assert!(status == 803 && function.is_null());
}
