//! Kernels whose source a program brings.
// Imports: `error`, `device`.

use crate::device::cuda::codegen::source::PRELUDE;
use crate::device::cuda::stream::queue::Key;
use crate::device::cuda::Cuda;
use crate::device::cuda::bytes_at;
use crate::error::{Error, Result, text};
use std::any::TypeId;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most words of an argument that every card takes, behind those of the launch.
const MOST_WORDS: usize = 510;

/// CUDA source behind the prelude, which defines `kernel`.
#[derive(Debug)]
pub(crate) struct SourceKernel {
    source: String,
    /// What it is known by.
    class: Vec<u32>,
}

impl SourceKernel {
    pub(crate) fn new(source: String) -> SourceKernel {
        let hash = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &source).hash(&mut hasher);
            hasher.finish()
        };
        let class =
            [hash(1), hash(2)].into_iter().flat_map(|hash| [hash as u32, (hash >> 32) as u32]).collect();
        SourceKernel { source, class }
    }
}

impl Cuda {
    /// Queues a kernel: blocks, threads, bytes of shared memory; the words of its argument; what it writes and reads.
    ///
    /// # Safety
    /// The words are what the source takes, and with them it keeps to the memory named here.
    pub(crate) unsafe fn launch_source(
        &self,
        op: &'static str,
        kernel: &SourceKernel,
        (blocks, threads, shared): ([u32; 3], [u32; 3], u32),
        words: &[i64],
        writes: &[*mut u8],
        reads: &[*mut u8],
    ) -> Result<()> {
        if words.len() > MOST_WORDS {
            let what = text(format_args!(
                "{} bytes of operands are more than the 4080 that a kernel takes",
                8 * words.len()
            ));
            return Err(Error::Value { op, what });
        }
        let (writes, reads): (Vec<_>, Vec<_>) =
            (writes.iter().map(|&at| bytes_at(at)).collect(), reads.iter().map(|&at| bytes_at(at)).collect());
        self.run(op, &writes, &reads, |stream| {
            let key =
                Key { mechanism: "source", types: [TypeId::of::<()>(); 2], class: kernel.class.clone() };
            let ready = stream.kernel(key, || format!("{PRELUDE}{}", kernel.source))?;
            // SAFETY: the caller's promise.
            unsafe { stream.launch_grid(op, ready, blocks, threads, shared, words) }
        })
    }
}
