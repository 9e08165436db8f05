//! Products of plain matrices by cuBLAS, if it is installed: one batch of matrices, each contiguous along
//! rows or columns.
//!
//! Products of f32 are computed in f32, and in TF32 where a program asks for it.
// Imports: `error`, `scalar`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::axes::Axes;
use crate::device::cuda::driver::loading;
use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::thread_state::is_compile_only;
use crate::device::cuda::stream::queue::Stream;
use crate::error::{Error, Result, text};
use crate::scalar::DType;
use cudarc::cublas::{result, sys};
use num_complex::Complex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// The library's handle of one stream. Two threads must not use it at once.
struct CublasHandle(sys::cublasHandle_t);
// SAFETY: the handle may move between threads. A mutex guards it.
unsafe impl Send for CublasHandle {}

/// A product of matrices in the form of cuBLAS: `out[b, i, j] = Σₖ left[b, i, k] · right[b, k, j]`.
pub(in crate::device::cuda) struct PlainProduct {
    batch: i32,
    height: i32,
    width: i32,
    depth: i32,
    /// The strides of the output between rows, and between matrices.
    out: (i32, i64),
    left: Factor,
    right: Factor,
}

/// A batch of matrices that are contiguous along rows, or, `transposed`, along columns.
struct Factor {
    transposed: bool,
    /// The leading dimension.
    pitch: i32,
    /// The stride between matrices.
    matrix: i64,
}

/// The factor of these sizes and strides, rows first. `None` if no axis is contiguous, or a number does not
/// fit.
fn factor(sizes: [usize; 2], strides: [isize; 2], matrix: isize) -> Option<Factor> {
    let [rows, columns] = sizes;
    let pitch = |step: isize, least: usize| {
        i32::try_from(step).ok().filter(|&pitch| pitch as usize >= least.max(1) && pitch > 0)
    };
    if matrix < 0 {
        return None;
    }
    // The stride along an axis of size 1 has no meaning.
    let [down, along] = strides;
    if along == 1 || columns == 1 {
        let pitch = if rows == 1 { i32::try_from(columns).ok() } else { pitch(down, columns) };
        return pitch.map(|pitch| Factor { transposed: false, pitch, matrix: matrix as i64 });
    }
    if down == 1 || rows == 1 {
        return pitch(along, rows).map(|pitch| Factor { transposed: true, pitch, matrix: matrix as i64 });
    }
    None
}

impl PlainProduct {
    /// The product of these groups of axes, if each group is one axis at most and the operands are plain
    /// matrices.
    pub(in crate::device::cuda) fn of(
        batch: &Axes,
        rows: &Axes,
        columns: &Axes,
        along: &Axes,
    ) -> Option<PlainProduct> {
        if [batch, rows, columns, along].iter().any(|axes| axes.rank() > 1) {
            return None;
        }
        let (height, width, depth) = (rows.numel(), columns.numel(), along.numel());
        let (down, side) = (|k| rows.inner_stride(k), |k| columns.inner_stride(k));
        let out = factor([height, width], [down(0), side(0)], batch.inner_stride(0))
            .filter(|out| !out.transposed)?;
        let number = |n: usize| i32::try_from(n).ok();
        Some(PlainProduct {
            batch: number(batch.numel())?,
            height: number(height)?,
            width: number(width)?,
            depth: number(depth)?,
            out: (out.pitch, out.matrix),
            left: factor([height, depth], [down(1), along.inner_stride(1)], batch.inner_stride(1))?,
            right: factor([depth, width], [along.inner_stride(2), side(2)], batch.inner_stride(2))?,
        })
    }
}

/// The types of output and factors in cuBLAS, and the type of the sums. `None` if cuBLAS lacks the
/// combination.
fn types(
    out: DType,
    left: DType,
    right: DType,
    tf32: bool,
) -> Option<(sys::cudaDataType, sys::cudaDataType, sys::cublasComputeType_t)> {
    use sys::cublasComputeType_t as Sum;
    use sys::cudaDataType as Type;
    let name = |dtype| match dtype {
        DType::F16 => Some(Type::CUDA_R_16F),
        DType::BF16 => Some(Type::CUDA_R_16BF),
        DType::F32 => Some(Type::CUDA_R_32F),
        DType::F64 => Some(Type::CUDA_R_64F),
        DType::C32 => Some(Type::CUDA_C_32F),
        DType::C64 => Some(Type::CUDA_C_64F),
        _ => None,
    };
    if left != right || out != left && !(left.is_half() && out == DType::F32) {
        return None;
    }
    let sum = if matches!(left, DType::F64 | DType::C64) {
        Sum::CUBLAS_COMPUTE_64F
    } else if tf32 && matches!(left, DType::F32 | DType::C32) {
        Sum::CUBLAS_COMPUTE_32F_FAST_TF32
    } else {
        Sum::CUBLAS_COMPUTE_32F
    };
    Some((name(out)?, name(left)?, sum))
}

fn failed(error: result::CublasError) -> Error {
    Error::Fault { op: "matmul", what: text(format_args!("cuBLAS reports {error:?}")) }
}

/// The handle of a stream, which is made at the first use.
type StreamHandle = Arc<Mutex<Option<CublasHandle>>>;

/// The handle of a stream, by GPU and number of the stream.
fn handle_of(stream: &Stream) -> StreamHandle {
    static HANDLES: Mutex<BTreeMap<(usize, usize), StreamHandle>> = Mutex::new(BTreeMap::new());
    locked(&HANDLES).entry((stream.gpu.context.ordinal, stream.id)).or_default().clone()
}

/// Makes the handle of this stream, if it does not exist yet. It cannot be made while the stream records a
/// graph.
///
/// # Errors
/// The report of the driver or of cuBLAS.
pub(in crate::device::cuda) fn open(stream: &Stream) -> Result<()> {
    make(stream, &mut locked(&handle_of(stream)))
}

fn make(stream: &Stream, handle: &mut Option<CublasHandle>) -> Result<()> {
    if handle.is_some() {
        return Ok(());
    }
    let mut done = Ok(());
    // SAFETY: the handle is new, and the stream stays for the rest of the process. The math mode forbids sums
    // of 16-bit factors that are rounded to 16 bits on the way.
    unsafe {
        stream.with("matmul", |stream| {
            done = result::create_handle().and_then(|made| {
                result::set_stream(made, stream.cast())?;
                sys::cublasSetMathMode(
                    made,
                    sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
                )
                .result()?;
                *handle = Some(CublasHandle(made));
                Ok(())
            });
            Ok(())
        })
    }?;
    done.map_err(failed)
}

/// Queues the product, if cuBLAS is installed and supports these elements. Returns whether it did.
///
/// # Errors
/// [`Error::OutOfMemory`]; the report of the driver or of cuBLAS.
///
/// # Safety
/// As [`Device::contract`](crate::device::Device::contract), for operands of these element types (output,
/// left, right).
pub(in crate::device::cuda) unsafe fn run(
    stream: &Stream,
    plain: &PlainProduct,
    dtypes: [DType; 3],
    tf32: bool,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<bool> {
    let Some((out, factor, sum)) = types(dtypes[0], dtypes[1], dtypes[2], tf32) else { return Ok(false) };
    // The library needs addresses that are multiples of the element, also for complex numbers.
    let is_aligned =
        [&output, &left, &right].iter().all(|slot| slot.address.addr().is_multiple_of(slot.element.max(1)));
    if !is_aligned || loading::open("cublas").is_err() {
        return Ok(false);
    }
    let handle = handle_of(stream);
    let mut handle = locked(&handle);
    make(stream, &mut handle)?;
    let Some(CublasHandle(handle)) = *handle else { return Ok(false) };
    if is_compile_only() {
        return Ok(true);
    }
    stream.begin("contract")?;
    let mut done = Ok(());
    // Scale factors, in the type of the sum.
    let (one, zero) = (Complex::new(1.0f32, 0.0), Complex::new(0.0f32, 0.0));
    let (one_64, zero_64) = (Complex::new(1.0f64, 0.0), Complex::new(0.0f64, 0.0));
    let is_double = sum == sys::cublasComputeType_t::CUBLAS_COMPUTE_64F;
    let scale = |single: &Complex<f32>, double: &Complex<f64>| -> *const c_void {
        if is_double { std::ptr::from_ref(double).cast() } else { std::ptr::from_ref(single).cast() }
    };
    let operation = |factor: &Factor| match factor.transposed {
        true => sys::cublasOperation_t::CUBLAS_OP_T,
        false => sys::cublasOperation_t::CUBLAS_OP_N,
    };
    // SAFETY: the caller's promise. cuBLAS is column-major: the call computes the transposed product, with
    // exchanged factors.
    unsafe {
        stream.with("matmul", |_| {
            done = result::gemm_strided_batched_ex(
                handle,
                operation(&plain.right),
                operation(&plain.left),
                plain.width,
                plain.height,
                plain.depth,
                scale(&one, &one_64),
                right.address.cast_const().cast(),
                factor,
                plain.right.pitch,
                plain.right.matrix,
                left.address.cast_const().cast(),
                factor,
                plain.left.pitch,
                plain.left.matrix,
                scale(&zero, &zero_64),
                output.address.cast(),
                out,
                plain.out.0,
                plain.out.1,
                plain.batch,
                sum,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            );
            Ok(())
        })
    }?;
    use sys::cublasStatus_t as Status;
    match done {
        Ok(()) => Ok(true),
        // The kernel of `matmul.rs` computes it.
        Err(result::CublasError(
            Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_ARCH_MISMATCH,
        )) => Ok(false),
        Err(result::CublasError(Status::CUBLAS_STATUS_ALLOC_FAILED)) => {
            Err(Error::OutOfMemory { op: "matmul", nbytes: 0 })
        }
        Err(error) => Err(failed(error)),
    }
}
