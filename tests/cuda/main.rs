//! CUDA: without a GPU these tests say that they were skipped, and fail where `RANKFORM_REQUIRE_CUDA` is
//! set.
//!
//! | file | |
//! |---|---|
//! | `classes.rs` | the kernels of each class of work compile, for `tools/sass` |
//! | `operators/gradients.rs` | gradients agree with those of the CPU |
//! | `operators/training.rs` | steps of training as graphs, and their number of kernels |
//! | `operators/operands.rs` | operators of one to six operands, in all forms of calls |
//! | `operators/products.rs` | products of 16-bit floats on tensor cores |
//! | `operators/windows.rs` | convolutions, pooling, products over any axes; their number of kernels |
//! | `operators.rs` | operators agree with the CPU |
//! | `indices.rs` | moves by index, and their deferred errors |
//! | `shapes.rs` | reductions and programs by rows of many shapes |
//! | `sorts.rs` | sorts of all elements, lengths and layouts |
//! | `queue.rs` | memory, order, deferred errors, graphs, copies, kernels from CUDA source |

mod classes;
mod indices;
mod operators;
mod queue;
mod shapes;
mod sorts;

use rankform::Cuda;
use std::sync::Mutex;

/// The GPU of this ordinal, if there is one.
pub fn gpu(ordinal: usize) -> Option<Cuda> {
    match Cuda::new(ordinal) {
        Ok(gpu) => Some(gpu),
        Err(missing) => {
            assert!(ordinal > 0 || std::env::var_os("RANKFORM_REQUIRE_CUDA").is_none(), "{missing}");
            println!("skipped: {missing}");
            None
        }
    }
}

/// The holder of this lock has the first GPU for itself, and can count its bytes.
pub static FIRST_GPU: Mutex<()> = Mutex::new(());

/// A test on the first GPU, which must give back all its memory.
#[macro_export]
macro_rules! on_gpu {
    ($name:ident, |$gpu:ident| $body:block) => {
        #[test]
        fn $name() -> Result<()> {
            let _mine = $crate::FIRST_GPU.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Some($gpu) = $crate::gpu(0) else { return Ok(()) };
            fn body($gpu: &Cuda) -> Result<()> {
                $body
                Ok(())
            }
            body(&$gpu)?;
            $gpu.synchronize()?;
            assert_eq!($gpu.memory().live, 0, "memory of the GPU that was not given back");
            Ok(())
        }
    };
}

pub fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 2654435761 % 1000) as f32 - 500.0) / 37.0).collect()
}
