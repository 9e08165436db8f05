//! Thresholds, sizes and prefetch distances of the engines, and the questions about processors that decide
//! between them.
//!
//! Measurements chose these values; `docs/measurements` has the figures. Each may change without a change of
//! results. Constants that fix the order of a sum, and thereby its bits, are not here: they stay in the
//! engines.
// Imports: nothing.

use super::isa::{self, Level};
#[cfg(feature = "threads")]
use std::time::Duration;

// ---- tasks and threads ----

/// Elements of the smallest task that is worth a thread of its own.
pub(crate) const TASK_ELEMENTS: usize = 1 << 14;
/// Elements from which on several threads share a call.
pub(crate) const SHARED_ELEMENTS: usize = 2 * TASK_ELEMENTS;
/// Tasks for each thread in a long job: one delayed thread then delays the others only a little.
pub(crate) const TASKS_PER_THREAD: usize = 4;
/// Bytes of operands of a task that an operator cuts out of its work: with what it computes from them, they
/// fit in the L2 cache of one core.
pub(crate) const TASK_BYTES: usize = 256 << 10;
/// A job that is worth this many tasks is long: it pays to wake threads for it.
pub(crate) const LONG_JOB_TASKS: usize = 16;

/// How long an idle worker spins for further jobs. Sleeping between the tasks of one call is worse: the
/// system may wake the worker on the core of its caller and leave it there.
#[cfg(feature = "threads")]
pub(crate) const IDLE_SPIN: Duration = Duration::from_micros(500);
/// How long a worker stays before it registers again: it may run on top of a job that waits for other work to
/// end.
#[cfg(feature = "threads")]
pub(crate) const MAX_STAY: Duration = Duration::from_millis(50);
/// How long a worker leaves other work of the pool to workers that were called and have not arrived. They may
/// never arrive, because all of them may be waiting.
#[cfg(feature = "threads")]
pub(crate) const YIELD_AFTER: Duration = Duration::from_millis(1);
/// Short jobs that follow each other within this time form a burst.
#[cfg(feature = "threads")]
pub(crate) const BURST_WINDOW: Duration = Duration::from_micros(100);
/// Spins between two readings of the clock, at which the system may give the core to another thread: a few
/// microseconds.
#[cfg(feature = "threads")]
pub(crate) const SPINS_PER_CLOCK_READ: usize = 100;

// ---- caches, non-temporal stores, prefetch ----

/// Bytes of an output that no cache keeps: half of a large cache. Unoptimized builds use a smaller value,
/// with which tests reach the loops for large outputs.
pub(crate) const UNCACHED_OUTPUT_BYTES: usize = if cfg!(rankform_unoptimized) { 1 << 20 } else { 16 << 20 };
/// With this many threads non-temporal stores pay off on every processor: no line is read before it is
/// written.
pub(crate) const MANY_WRITERS_THREADS: usize = 4;
/// Bytes of the packed elements of all operands together: they fit in L1.
pub(crate) const L1_SCRATCH_BYTES: usize = 32 * 1024;
/// How far ahead of a contiguous read L1 is filled.
pub(crate) const L1_PREFETCH_BYTES: usize = 8 << 10;
/// Operands that are prefetched together, at most: with four, the prefetched lines evict those that are read.
pub(crate) const PREFETCHED_OPERANDS: usize = 2;

/// How many bytes ahead a contiguous read of `nbytes` bytes in all fills L2. 0 where L3 holds all of them:
/// there the hints make sums slower. The distance is a compromise between processors that prefetch well by
/// themselves and others.
#[inline]
pub(crate) fn l2_prefetch_bytes(nbytes: usize) -> usize {
    const L3_BYTES: usize = 32 << 20;
    if nbytes > L3_BYTES { 2 << 10 } else { 0 }
}

/// Whether rows of `nbytes` bytes that begin `stride` bytes apart are worth prefetching. Between short rows
/// with gaps, most of the prefetched bytes would belong to the gaps.
pub(crate) fn is_worth_prefetching(nbytes: usize, stride: isize) -> bool {
    stride == nbytes as isize || nbytes >= 4 * L1_PREFETCH_BYTES
}

/// The instruction set for memory-bound loops. On Intel's processors before Sapphire Rapids these loops use
/// 256-bit vectors, since 512-bit vectors lower the clock.
#[inline]
pub(crate) fn memory_bound_level() -> Level {
    #[cfg(target_arch = "x86_64")]
    if isa::level() == Level::Avx512 && is_old_intel() {
        return Level::Avx2;
    }
    isa::level()
}

/// Whether one core writes large outputs faster by non-temporal stores. On Intel's processors before Sapphire
/// Rapids it does not: a buffer of the core stays occupied until memory has taken the line.
pub(crate) fn prefers_non_temporal() -> bool {
    !is_old_intel()
}

/// Whether an ordinary store that fills a cache line avoids reading that line first. Then a kernel without
/// loads writes through the caches. Intel's processors read the line.
pub(crate) fn stores_whole_lines() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa::level() == Level::Avx512 && !isa::is_intel();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether products of `bf16` are faster by the processor's own vector instruction than widened to `f32`. On
/// Sapphire Rapids, the only processor of Intel that was measured, they are not.
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefers_bf16_dot() -> bool {
    !isa::is_intel()
}

/// Whether this is a processor of Intel before Sapphire Rapids, which was the first with AVX512-FP16.
fn is_old_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa::is_intel() && !is_x86_feature_detected!("avx512fp16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

// ---- strided copies ----

/// Elements from which on a strided row is worth a loop that was compiled for its stride.
pub(crate) const CONSTANT_STRIDE_ELEMENTS: isize = 16;
/// Bytes of the tile through which a transposed operand reaches non-temporal stores.
pub(crate) const COPY_TILE_BYTES: usize = 16 << 10;
/// Columns of a tile of a transposed operand: a loop reads this many sequences at a time, and writes rows of
/// this length.
pub(crate) const STRIP_COLUMNS: usize = 256;
/// Bytes of a row that are stored non-temporally at a time: they outweigh the call and the beginning and end
/// of its loop.
pub(crate) const NON_TEMPORAL_PIECE_BYTES: usize = 4096;

// ---- elementwise kernels ----

/// Outputs and loads of most programs.
pub(crate) const STACK_OPERANDS: usize = 6;
/// Bytes of an operand that one step of the longest vector loop takes, at most. An output that begins less
/// than this after an input would be taken for an overlap.
pub(crate) const ALIAS_WINDOW_BYTES: usize = 256;
/// Bytes that hold the former outputs of a block of a program in place.
pub(crate) const SAVED_OUTPUT_BYTES: usize = 16 << 10;

/// Elements of a row that are packed at a time, at most.
pub(crate) const PACKED_ROW_ELEMENTS: usize = 1024;
/// Rows that are packed next to each other where no operand is transposed.
pub(crate) const PACKED_ROWS: usize = 8;
/// Elements from which on a row is processed by itself although operands are packed for it. In shorter rows
/// the tail loop dominates.
pub(crate) const WHOLE_ROW_ELEMENTS: usize = 32;
/// Up to this many rows, replicating a broadcast operand does not pay off.
pub(crate) const FEW_ROWS: usize = 64;
/// Elements from which on rows that several threads share are not worth replicating a broadcast operand for.
pub(crate) const LONG_ROW_ELEMENTS: usize = 256;
/// Planes of rows, at most, that a loop visits without an iteration space.
pub(crate) const FEW_PLANES: usize = 8;

/// Bytes of a row, at most, that is stored non-temporally together with its neighbors.
pub(crate) const SHORT_ROW_BYTES: usize = 2048;
/// Bytes of a row that are computed at a time where outputs use ordinary stores and only reads overlap with
/// computing: short pieces overlap best.
pub(crate) const READ_PIECE_BYTES: usize = 1536;
/// Bytes that are read at a time from several strided inputs. As many are prefetched meanwhile, and L1 has
/// room for both and for the tiles.
pub(crate) const STRIDED_READ_BYTES: usize = 4096;
/// Elements of the longest stride that is read in pieces: longer strides use too few of the prefetched bytes.
pub(crate) const SHORT_STRIDE_ELEMENTS: usize = 4;
/// The lengths of pieces of strided inputs are multiples of this many elements: whole cache lines for every
/// element type.
pub(crate) const PIECE_UNIT_ELEMENTS: usize = 64;

/// Elements of a non-temporal chunk. Few, so that computing and writing overlap; enough to hide the work
/// around the chunk.
pub(crate) const NON_TEMPORAL_CHUNK_ELEMENTS: usize = 128;
/// Elements of the shortest row that is stored non-temporally by chunks, if it consists of whole chunks.
pub(crate) const NON_TEMPORAL_ROW_ELEMENTS: usize = NON_TEMPORAL_CHUNK_ELEMENTS;
/// The same for a row whose ends are computed separately.
pub(crate) const NON_TEMPORAL_ROW_WITH_ENDS_ELEMENTS: usize = 10 * NON_TEMPORAL_CHUNK_ELEMENTS;
/// Bytes of a broadcast row, at most, that stays in a cache while other rows are stored non-temporally.
pub(crate) const CACHED_ROW_BYTES: usize = 256 << 10;

/// Elements of a row, at most, of which several copies are written as one.
pub(crate) const REPEATED_ROW_ELEMENTS: usize = 1024;
/// Rows that replication must save, at least: writing the copies and a new iteration space cost as much as
/// these.
pub(crate) const SAVED_ROWS: usize = 32;
/// Bytes of all replicated operands: they fit in L1 and leave room for others.
pub(crate) const REPEATED_BYTES: usize = 8 << 10;

// ---- kernels with row constants ----

/// Bytes of rows that are packed next to each other: they fit in L2.
pub(crate) const PACKED_ROWS_BYTES: usize = 256 << 10;
/// Bytes of packed short rows: they fit in L1.
pub(crate) const PACKED_SHORT_ROWS_BYTES: usize = 16 << 10;
/// Bytes of a row, at most, that is prefetched before it is read.
pub(crate) const PREFETCHED_ROW_BYTES: usize = 64 << 10;
/// Bytes on the stack for the cached values of a row and for one row of each operand.
pub(crate) const SMALL_ROWS_BYTES: usize = 8 << 10;
