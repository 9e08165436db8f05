//! Plain matrix products by cuBLAS, where it is there: one batch of matrices, each contiguous along rows or columns.
//!
//! Products of f32 are computed in f32, not in TF32.
// Imports: `error`, `scalar`, `device`.

use crate::device::cuda::codegen::args::Axes;
use crate::device::cuda::stream::queue::{Stream, locked};
use crate::device::cuda::driver::op_names as here;
use crate::device::cuda::driver::loading as library;
use crate::device::OperandRef;
use crate::error::{Error, Result, text};
use crate::scalar::DType;
use cudarc::cublas::{result, sys};
use num_complex::Complex;
use std::ffi::c_void;

/// The library's handle. It is not safe to use from two threads at once.
pub(in crate::device::cuda) struct Handle(sys::cublasHandle_t);
// SAFETY: the handle may go from thread to thread; the context keeps it behind a lock.
unsafe impl Send for Handle {}

/// A product of matrices as cuBLAS takes it: `out[b, i, j] = Σₖ left[b, i, k] · right[b, k, j]`.
pub(in crate::device::cuda) struct Plain {
    batch: i32,
    height: i32,
    width: i32,
    depth: i32,
    /// From a row of the output to the next, and from one matrix to the next.
    out: (i32, i64),
    left: Factor,
    right: Factor,
}

/// A matrix that is contiguous along rows, or, `turned`, along columns.
struct Factor {
    turned: bool,
    pitch: i32,
    matrix: i64,
}

/// `steps` along rows and columns of a matrix of `sizes`.
fn factor(sizes: [usize; 2], steps: [isize; 2], matrix: isize) -> Option<Factor> {
    let [rows, columns] = sizes;
    let pitch = |step: isize, least: usize| {
        i32::try_from(step).ok().filter(|&pitch| pitch as usize >= least.max(1) && pitch > 0)
    };
    if matrix < 0 {
        return None;
    }
    // A step along an axis of one element may be anything.
    let [down, along] = steps;
    if along == 1 || columns == 1 {
        let pitch = if rows == 1 { i32::try_from(columns).ok() } else { pitch(down, columns) };
        return pitch.map(|pitch| Factor { turned: false, pitch, matrix: matrix as i64 });
    }
    if down == 1 || rows == 1 {
        return pitch(along, rows).map(|pitch| Factor { turned: true, pitch, matrix: matrix as i64 });
    }
    None
}

impl Plain {
    /// The groups of axes as matrices, if they are some.
    pub(in crate::device::cuda) fn of(batch: &Axes, rows: &Axes, columns: &Axes, along: &Axes) -> Option<Plain> {
        if [batch, rows, columns, along].iter().any(|axes| axes.rank() > 1) {
            return None;
        }
        let (height, width, depth) = (rows.numel(), columns.numel(), along.numel());
        let (down, side) = (|k| rows.inner_step(k), |k| columns.inner_step(k));
        let out =
            factor([height, width], [down(0), side(0)], batch.inner_step(0)).filter(|out| !out.turned)?;
        let number = |n: usize| i32::try_from(n).ok();
        Some(Plain {
            batch: number(batch.numel())?,
            height: number(height)?,
            width: number(width)?,
            depth: number(depth)?,
            out: (out.pitch, out.matrix),
            left: factor([height, depth], [down(1), along.inner_step(1)], batch.inner_step(1))?,
            right: factor([depth, width], [along.inner_step(2), side(2)], batch.inner_step(2))?,
        })
    }
}

/// What elements are called in cuBLAS, and in what their products are summed.
fn types(
    out: DType,
    left: DType,
    right: DType,
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
    } else {
        Sum::CUBLAS_COMPUTE_32F
    };
    Some((name(out)?, name(left)?, sum))
}

fn failed(error: result::CublasError) -> Error {
    Error::Fault { op: "matmul", what: text(format_args!("cuBLAS reports {error:?}")) }
}

impl Stream {
    /// Makes this stream's handle, where it is not there yet.
    pub(in crate::device::cuda) fn open_blas(&self) -> Result<()> {
        let mut handle = locked(&self.blas);
        if handle.is_some() {
            return Ok(());
        }
        let mut done = Ok(());
        // SAFETY: a handle of its own, for a stream that stays. Sums of 16-bit factors are never rounded to 16 bits on the way.
        unsafe {
            self.with("matmul", |stream| {
                done = result::create_handle().and_then(|made| {
                    result::set_stream(made, stream.cast())?;
                    sys::cublasSetMathMode(
                        made,
                        sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
                    )
                    .result()?;
                    *handle = Some(Handle(made));
                    Ok(())
                });
                Ok(())
            })
        }?;
        done.map_err(failed)
    }

    /// Computes the product, if cuBLAS is there and has it for these elements.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract), for slots of these elements.
    pub(in crate::device::cuda) unsafe fn by_library(
        &self,
        plain: &Plain,
        dtypes: [DType; 3],
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<bool> {
        let Some((out, factor, sum)) = types(dtypes[0], dtypes[1], dtypes[2]) else { return Ok(false) };
        // The library reads elements whole, complex ones too.
        let whole = [&output, &left, &right]
            .iter()
            .all(|slot| slot.address.addr().is_multiple_of(slot.element.max(1)));
        if !whole || library::open("cublas").is_err() {
            return Ok(false);
        }
        self.open_blas()?;
        let handle = locked(&self.blas);
        let Some(Handle(handle)) = *handle else { return Ok(false) };
        if here::is_dry() {
            return Ok(true);
        }
        self.begin("contract")?;
        let mut done = Ok(());
        // Scale factors, in the type of the sum.
        let (one, zero) = (Complex::new(1.0f32, 0.0), Complex::new(0.0f32, 0.0));
        let (one_64, zero_64) = (Complex::new(1.0f64, 0.0), Complex::new(0.0f64, 0.0));
        let is_double = sum == sys::cublasComputeType_t::CUBLAS_COMPUTE_64F;
        let scale = |single: &Complex<f32>, double: &Complex<f64>| -> *const c_void {
            if is_double { std::ptr::from_ref(double).cast() } else { std::ptr::from_ref(single).cast() }
        };
        let operation = |factor: &Factor| match factor.turned {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        // SAFETY: the caller's promise. cuBLAS counts by columns: the transposed product, with its factors exchanged, is ours.
        unsafe {
            self.with("matmul", |_| {
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
            // Then the kernels of `contract.rs` do it.
            Err(result::CublasError(
                Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_ARCH_MISMATCH,
            )) => Ok(false),
            Err(result::CublasError(Status::CUBLAS_STATUS_ALLOC_FAILED)) => {
                Err(Error::OutOfMemory { op: "matmul", nbytes: 0 })
            }
            Err(error) => Err(failed(error)),
        }
    }
}
