//! Errors of the driver: their texts, the deferred errors of one GPU, and the error that ended all work on
//! it.
// Imports: `error`.

use crate::device::cuda::driver::lock::locked;
use crate::error::{Error, Result, text};
use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use std::sync::Mutex;

/// The text of an error that the driver reports.
pub(in crate::device::cuda) fn report(error: &DriverError) -> String {
    text(format_args!("the CUDA driver reports {error:?}"))
}

/// Whether an error is the result of earlier work. After such an error the GPU does no more work for this
/// process.
pub(in crate::device::cuda) fn is_deferred(error: &DriverError) -> bool {
    use sys::CUresult as Code;
    matches!(
        error.0,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
            | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
    )
}

/// The error of a call that is refused because the GPU is lost. It names the operation that failed, and
/// differs from the error of that operation.
pub(in crate::device::cuda) fn refused(op: &'static str, lost: &Error) -> Error {
    let Error::Fault { op: earlier, .. } = lost else { return lost.clone() };
    Error::Fault {
        op,
        what: text(format_args!("the GPU stopped in an earlier operation, {earlier}; `check` says why")),
    }
}

/// The errors of one GPU that no call has returned yet.
#[derive(Default)]
pub(in crate::device::cuda) struct ErrorState {
    /// The first error that no call could return.
    deferred: Mutex<Option<Error>>,
    /// The error that ended all work on this GPU.
    lost: Mutex<Option<Error>>,
}

impl ErrorState {
    /// The error that ended all work, if the GPU is lost.
    pub(in crate::device::cuda) fn lost(&self) -> Option<Error> {
        locked(&self.lost).clone()
    }

    /// Marks the GPU as lost by `error`, and returns the first error that did so.
    pub(in crate::device::cuda) fn mark_lost(&self, error: Error) -> Error {
        locked(&self.lost).get_or_insert(error).clone()
    }

    /// Keeps the first error that no call can return. Errors of a GPU that is already lost are dropped.
    pub(in crate::device::cuda) fn defer(&self, error: Error) {
        if locked(&self.lost).is_none() {
            locked(&self.deferred).get_or_insert(error);
        }
    }

    /// Takes the deferred error. The error of a lost GPU stays.
    pub(in crate::device::cuda) fn take(&self) -> Result<()> {
        let deferred = locked(&self.deferred).take().map_or(Ok(()), Err);
        deferred.and_then(|()| self.lost().map_or(Ok(()), Err))
    }
}
