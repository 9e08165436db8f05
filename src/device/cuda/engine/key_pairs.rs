//! Keys with their positions, sorted by a bitonic network (Batcher 1968): in shared memory where the keys are
//! near.
//!
//! Equal keys are ordered by their positions. The order is therefore stable.
// Imports: `error`.

use crate::device::cuda::codegen::args::ArgBlock;
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::error::{Error, Result};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Keys that one block sorts in shared memory.
const BLOCK_KEYS: usize = 2048;

/// Lines of keys, each with its position in the line. Each line is padded to a power of two with keys that
/// come last.
pub(in crate::device::cuda) struct KeyPairs {
    keys: CudaBlock,
    positions: CudaBlock,
    /// Keys of a line, without and with padding.
    along: usize,
    padded: usize,
    /// Keys of all lines, with padding.
    pub(in crate::device::cuda) total: usize,
}

impl KeyPairs {
    /// Allocates `lines` lines of `along` keys.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(in crate::device::cuda) fn new(
        stream: &Arc<Stream>,
        op: &'static str,
        lines: usize,
        along: usize,
    ) -> Result<KeyPairs> {
        let padded = along.checked_next_power_of_two();
        let total = padded
            .and_then(|padded| lines.checked_mul(padded))
            .filter(|&total| total <= isize::MAX as usize / 16);
        let total = total.ok_or(Error::OutOfMemory { op, nbytes: usize::MAX })?;
        let (keys, positions) =
            (CudaBlock::scratch(stream, total * 8)?, CudaBlock::scratch(stream, total * 8)?);
        Ok(KeyPairs { keys, positions, along, padded: total / lines.max(1), total })
    }

    /// Adds the words of [`DECLARE_PAIRS`], which are the first of the block.
    pub(in crate::device::cuda) fn add_words(&self, words: &mut ArgBlock) {
        for word in
            [self.total, self.padded, self.along, self.keys.address().addr(), self.positions.address().addr()]
        {
            words.push(word);
        }
    }

    /// Sorts every line by a bitonic network.
    ///
    /// # Errors
    /// Those of the launches.
    pub(in crate::device::cuda) fn sort(&mut self, stream: &Arc<Stream>, op: &'static str) -> Result<()> {
        let mut words = ArgBlock::new(true);
        self.add_words(&mut words);
        words.list.extend([0, 0]);
        let mut launch = |part: &'static str, blocks: usize, from: usize, to: usize| {
            words.list[5..].copy_from_slice(&[from as i64, to as i64]);
            let key = KernelKey {
                mechanism: part,
                types: [TypeId::of::<()>(); 2],
                key_numbers: words.key_numbers.clone(),
            };
            let kernel = stream.kernel(key, || {
                let mut s = SourceWriter::new();
                words.declare(&mut s);
                network_steps(&mut s, part);
                Ok(s.text())
            })?;
            let shape = LaunchShape { blocks: (block_count(blocks), 1), threads: THREADS as u32, shared: 0 };
            // SAFETY: (1) the words are those of `network_steps`; (2) keys and positions are allocated until
            // `self` is dropped.
            unsafe { stream.launch(op, kernel, shape, &words.list) }
        };
        let (blocks, padded) = (self.total.div_ceil(BLOCK_KEYS), self.padded);
        launch(NEAR, blocks, 2, padded.min(BLOCK_KEYS))?;
        let mut run_length = 2 * BLOCK_KEYS;
        while run_length <= padded {
            let mut far = run_length / 2;
            while far >= BLOCK_KEYS {
                launch("sort far", (self.total / 2).div_ceil(THREADS), run_length, far)?;
                far /= 2;
            }
            launch(NEAR, blocks, run_length, run_length)?;
            run_length *= 2;
        }
        Ok(())
    }
}

/// The mechanism of steps whose keys lie in one block.
const NEAR: &str = "sort near";

/// The declarations of the words of [`KeyPairs::add_words`] in a source.
pub(in crate::device::cuda) const DECLARE_PAIRS: &str =
    "  const i64 total = a.v[0], padded = a.v[1], along = a.v[2];
  u64* const keys = (u64*)a.v[3]; i64* const places = (i64*)a.v[4];";

/// Writes the steps of the network: of keys that are far apart in memory, or of keys in the shared memory of
/// a block.
fn network_steps(s: &mut SourceWriter, part: &str) {
    s.line(format_args!(
        "DI bool after(u64 key, i64 place, u64 other, i64 elsewhere) {{ return key > other || key == other && place > elsewhere; }}"
    ));
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{\n{DECLARE_PAIRS}"
    ));
    s.line(format_args!("  const i64 from = a.v[5], to = a.v[6], inside = padded - 1; (void)along;"));
    if part != NEAR {
        s.line(format_args!("  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x;\n  if (thread >= total / 2) return;"));
        s.line(format_args!("  const i64 i = thread / to * to * 2 + thread % to, j = i + to;"));
        s.line(format_args!(
            "  const u64 ki = keys[i], kj = keys[j]; const i64 pi = places[i], pj = places[j];"
        ));
        s.line(format_args!("  if (after(ki, pi, kj, pj) == ((i & inside & from) == 0)) {{ keys[i] = kj; keys[j] = ki; places[i] = pj; places[j] = pi; }}\n}}"));
        return;
    }
    let half = BLOCK_KEYS / 2;
    s.line(format_args!("  __shared__ u64 k[{BLOCK_KEYS}]; __shared__ i64 p[{BLOCK_KEYS}];\n  const i64 first = (i64)blockIdx.x * {BLOCK_KEYS};"));
    s.line(format_args!("  for (int t = threadIdx.x; t < {BLOCK_KEYS}; t += {THREADS}) if (first + t < total) {{ k[t] = keys[first + t]; p[t] = places[first + t]; }}"));
    s.line(format_args!(
        "  for (i64 run = from; run <= to; run *= 2) for (int far = run / 2 < {half} ? (int)(run / 2) : {half}; far > 0; far /= 2) {{"
    ));
    s.line(format_args!(
        "    __syncthreads();\n    for (int t = threadIdx.x; t < {half}; t += {THREADS}) {{"
    ));
    s.line(format_args!("      const int i = t / far * far * 2 + t % far, j = i + far;"));
    s.line(format_args!("      if (first + j < total && after(k[i], p[i], k[j], p[j]) == (((first + i) & inside & run) == 0)) {{"));
    s.line(format_args!("        const u64 key = k[i]; k[i] = k[j]; k[j] = key; const i64 place = p[i]; p[i] = p[j]; p[j] = place;"));
    s.line(format_args!("      }}\n    }}\n  }}\n  __syncthreads();"));
    s.line(format_args!("  for (int t = threadIdx.x; t < {BLOCK_KEYS}; t += {THREADS}) if (first + t < total) {{ keys[first + t] = k[t]; places[first + t] = p[t]; }}\n}}"));
}
