//! Parts of CUDA that programs use in addition to operators: page-locked memory and asynchronous copies,
//! recorded work, and kernels from CUDA source.
// Imports: `device`.

mod transfer;
mod user_kernel;

pub use crate::device::CudaGraph;
pub use transfer::Pending;
pub use user_kernel::{
    Input, KernelArgument, KernelArguments, KernelOperand, KernelOperands, KernelSource, Launch,
    LaunchConfig, Output, Scalar, StridedArg,
};
