//! Kernels from CUDA source that a program brings.
// Imports: `error`.

use crate::device::cuda::codegen::source::PRELUDE;
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::stream::queue::Stream;
use crate::error::{Error, Result, text};
use std::any::TypeId;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The largest number of argument words that every GPU takes, after the two words of each launch.
const MAX_WORDS: usize = 510;

/// CUDA source for use after the prelude. It defines `kernel`.
#[derive(Debug)]
pub(crate) struct UserKernel {
    source: String,
    /// A hash of the source, as numbers of the kernel's key.
    key_numbers: Vec<u32>,
}

impl UserKernel {
    pub(crate) fn new(source: String) -> UserKernel {
        let hash = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &source).hash(&mut hasher);
            hasher.finish()
        };
        let key_numbers =
            [hash(1), hash(2)].into_iter().flat_map(|hash| [hash as u32, (hash >> 32) as u32]).collect();
        UserKernel { source, key_numbers }
    }
}

/// The numbers of blocks and threads of a launch, and its bytes of dynamic shared memory.
pub(crate) type LaunchDims = ([u32; 3], [u32; 3], u32);

/// An error for more argument words than a kernel takes.
pub(in crate::device::cuda) fn ensure_words_fit(op: &'static str, words: &[i64]) -> Result<()> {
    if words.len() <= MAX_WORDS {
        return Ok(());
    }
    let what = text(format_args!(
        "{} bytes of operands are more than the 4080 that a kernel takes",
        8 * words.len()
    ));
    Err(Error::Value { op, what })
}

/// Queues the kernel.
///
/// # Errors
/// [`Error::Fault`] with the report of the compiler; those of the launch.
///
/// # Safety
/// 1. The words are those that the source takes.   2. With them it accesses only memory that is allocated.
pub(in crate::device::cuda) unsafe fn run(
    stream: &Stream,
    op: &'static str,
    kernel: &UserKernel,
    (blocks, threads, shared): LaunchDims,
    words: &[i64],
) -> Result<()> {
    let key = KernelKey {
        mechanism: "source",
        types: [TypeId::of::<()>(); 2],
        key_numbers: kernel.key_numbers.clone(),
    };
    let loaded = stream.kernel(key, || Ok(format!("{PRELUDE}{}", kernel.source)))?;
    // SAFETY: (1) and (2) are the caller's promises.
    unsafe { stream.launch_grid(op, loaded, blocks, threads, shared, words) }
}
