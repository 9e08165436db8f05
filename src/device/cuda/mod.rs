//! NVIDIA's graphics cards, through `cudarc`: bodies are traced, written as CUDA C++ and compiled when they first run.
//!
//! | file | |
//! |---|---|
//! | `library.rs` `compile.rs` | finding NVIDIA's libraries; from source to machine code, kept on disk |
//! | `context.rs` `memory.rs` | one card: its stream, its kernels, late errors; its memory |
//! | `emit.rs` `prelude.cuh` `geometry.rs` | from graphs to source; what sources begin with; index arithmetic |
//! | `map.rs` `tiles.rs` `rows.rs` `reduce.rs` `scan.rs` | kernels of bodies |
//! | `index.rs` `sort.rs` | moves, orders |
//! | `contract.rs` `blas.rs` | products: of any axes, of plain matrices |
//!
//! All work of a card is queued on one stream, so it is done in the order of the calls. Steps of floating-point numbers are
//! those of IEEE 754, as on the CPU, never contracted: what is computed element by element has the same bits there, but for NaN.
//! Imports: `error`, `element`, `kernel`, `device`.

mod blas;
mod compile;
mod context;
mod contract;
mod emit;
mod geometry;
mod index;
mod library;
mod map;
mod memory;
mod reduce;
mod rows;
mod scan;
mod sort;
mod tiles;

pub use memory::CudaBlock;

use super::{Deleter, Device, Fresh, Inputs, Reduction, Slot};
use crate::element::{Comparable, Element, Number};
use crate::error::Result;
use crate::kernel::{Addressed, Body, Contraction, Op, Program, Reducer, Scanning, Sorting};
use context::Context;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A graphics card of NVIDIA's.
///
/// Nothing of CUDA is needed to build; the driver and NVRTC are looked for when the first card is asked for. Clones are the
/// same card; cards of two ordinals are of one type, and mixing them is [`Error::Device`](crate::Error::Device).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::Cuda;
/// let card = match Cuda::new(0) {
///     Ok(card) => card,
///     Err(missing) => return Ok::<(), rankform::Error>(println!("no card: {missing}")),
/// };
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(&card)?;
/// assert_eq!((x.lazy() * 2.0).sum(Axis::<1>)?.to_vec()?, [6.0, 14.0]);
/// # Ok(())
/// ```
#[derive(Clone)]
pub struct Cuda(Arc<Context>);

/// What a card has done and holds; see [`Cuda::statistics`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaStatistics {
    /// Bytes that blocks hold now.
    pub bytes: usize,
    /// Kernels that were queued.
    pub launches: usize,
    /// Kernels that were compiled, and not found on disk.
    pub compiled: usize,
}

impl Cuda {
    /// The card of this number, from 0.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) without a driver, [`Error::NoDevice`](crate::Error::NoDevice) where there
    /// are fewer cards, [`Error::Fault`](crate::Error::Fault) with what the driver reports.
    pub fn new(ordinal: usize) -> Result<Cuda> {
        Context::of(ordinal).map(Cuda)
    }

    /// How many cards there are.
    ///
    /// # Errors
    /// As [`Cuda::new`]; no card is 0 and no error.
    pub fn count() -> Result<usize> {
        context::count()
    }

    /// Whether there is a card to use.
    pub fn is_available() -> bool {
        Cuda::count().is_ok_and(|count| count > 0)
    }

    /// The number of this card.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// What it has done and holds, in this process.
    pub fn statistics(&self) -> CudaStatistics {
        CudaStatistics {
            bytes: self.0.bytes.load(Ordering::Relaxed),
            launches: self.0.launches.load(Ordering::Relaxed),
            compiled: self.0.compiled.load(Ordering::Relaxed),
        }
    }
}

impl PartialEq for Cuda {
    fn eq(&self, other: &Cuda) -> bool {
        self.0.ordinal == other.0.ordinal
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({})", self.0.ordinal)
    }
}

// SAFETY: blocks come from the driver, aligned to 256 bytes; kernels keep to the sizes and strides that they are given; all
// work goes to one stream, in order.
unsafe impl Device for Cuda {
    type Block = CudaBlock;

    fn allocate(&self, nbytes: usize, fresh: Fresh) -> Result<CudaBlock> {
        CudaBlock::fresh(&self.0, nbytes, fresh)
    }

    unsafe fn adopt(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CudaBlock> {
        // SAFETY: the caller's promise.
        Ok(unsafe { CudaBlock::adopt(&self.0, address, nbytes, free) })
    }

    fn address(block: &CudaBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise; so below.
        unsafe { self.0.write(to, bytes) }
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.read(from, bytes) }
    }

    unsafe fn copy(&self, sizes: &[usize], to: Slot<'_>, from: Slot<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.copy(sizes, to, from) }
    }

    unsafe fn map<P: Program>(&self, program: &P, sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe {
            match P::BY_ROWS {
                true => self.0.rows(program, sizes, row, outputs, inputs),
                false => self.0.map(program, sizes, outputs, inputs),
            }
        }
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: Slot<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.reduce::<B, R>(body, axes, output, inputs) }
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: Contraction<'_>,
        output: Slot<'_>,
        left: Slot<'_>,
        right: Slot<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.contract::<T, L, R>(plan, output, left, right) }
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: Scanning<'_>,
        output: Slot<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.scan::<B, R>(body, plan, output, inputs) }
    }

    unsafe fn gather(&self, plan: Addressed<'_>, to: Slot<'_>, cells: Slot<'_>, index: Slot<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.gather(plan, to, cells, index) }
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        _: F,
        plan: Addressed<'_>,
        cells: Slot<'_>,
        from: Slot<'_>,
        index: Slot<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.scatter::<T, F>(plan, cells, from, index) }
    }

    unsafe fn compact(&self, sizes: &[usize], _: usize, to: Slot<'_>, from: Slot<'_>, mask: Slot<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.compact(sizes, to, from, mask) }
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: Sorting<'_>,
        values: Option<Slot<'_>>,
        positions: Option<Slot<'_>>,
        from: Slot<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.sort::<T>(plan, values, positions, from) }
    }

    fn synchronize(&self) -> Result<()> {
        self.0.synchronize()?;
        self.0.check()
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}
