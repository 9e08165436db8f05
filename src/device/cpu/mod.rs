//! The CPU: aligned memory of the host, vectorized loops for several instruction sets, threads.
//!
//! Each mechanism of [`Device`] has a module or a folder. `memory`, `parallel` and `strided` serve all of
//! them, `isa` chooses an instruction set, and `tuning` holds the thresholds.
//!
//! Only the innermost loops are generic over the kernel. The code around them is compiled once, in this
//! crate.
// Imports: `error`, `element`, `kernel`.

mod cursor;
mod elementwise;
mod gather_scatter;
#[cfg(any(debug_assertions, feature = "dynamic"))]
mod interpret;
mod isa;
mod matmul;
mod memory;
mod parallel;
mod reduce;
mod scan;
mod sort;
mod strided;
#[cfg(rankform_through_cuda)]
mod test_on_cuda;
mod tuning;

#[cfg(feature = "dynamic")]
#[doc(hidden)]
pub use interpret::Interpreted;
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) use interpret::slice_of;
pub(crate) use memory::alignment;
pub use memory::{CpuBlock, MemoryStatistics, NoAllocGuard};

use super::{Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::Result;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use memory::pool;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The host's processor and memory.
///
/// The instruction set is chosen at run time; `RANKFORM_SIMD=avx2` (or `baseline`) in the environment limits
/// the choice. With the feature `threads`, the threads of rayon's pool (`RAYON_NUM_THREADS`) share operations
/// on 2¹⁸ elements and more, and on 2¹⁵ and more if calls follow each other closely. After such an operation
/// they spin for 500 µs in search of further work. Results do not depend on the number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu;

/// The memory pool. It keeps freed blocks of 32 KiB and more and uses them again. There is one pool, because
/// there is one host.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::<f32, 2>::zeros([512, 512], &Cpu)?;
/// drop(x);
/// assert!(Cpu.memory().kept >= 512 * 512 * 4);
/// Cpu.set_memory_limit(0); // from now on nothing is kept
/// assert_eq!(Cpu.memory().kept, 0);
/// # Ok::<(), rankform::Error>(())
/// ```
impl Cpu {
    /// The present state of the pool.
    pub fn memory(&self) -> MemoryStatistics {
        pool::statistics()
    }

    /// Sets how many bytes of free memory the pool keeps at most; 1 GiB at first. Beyond the limit, the pool
    /// frees the blocks that it has kept for the longest time.
    pub fn set_memory_limit(&self, nbytes: usize) {
        pool::set_limit(nbytes);
    }

    /// Returns a guard that panics on drop if this thread has taken new memory from the system since its
    /// creation. It serves tests of loops that should need none.
    ///
    /// Each new tensor takes a block. A block of 32 KiB or more comes from the pool if the same step has run
    /// before; the scratch memory of operations does as well. A smaller tensor takes new memory each time. To
    /// avoid that, write into existing tensors: by `eval_into`, `reduce_into`, `matmul_into` and the other
    /// functions that end in `_into`, by `apply_in_place`, `assign`, `copy_to` or the operators in place. The
    /// guard does not count memory that other threads take on behalf of an operation; the pool keeps that
    /// memory too.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let mut y = x.copy()?;
    /// let steady = Cpu.steady_state();
    /// x.lazy().exp().eval_into(&mut y)?;
    /// y *= 2.0;
    /// drop(steady);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    /// ```should_panic
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let steady = Cpu.steady_state();
    /// let z = x.exp()?;
    /// assert_eq!(steady.allocations(), 1);
    /// // Here `steady` is dropped, and panics.
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn steady_state(&self) -> NoAllocGuard {
        NoAllocGuard::new()
    }

    /// Gives all free memory back to the system. Returns the number of bytes freed.
    pub fn trim(&self) -> usize {
        pool::trim()
    }
}

/// Chooses between two functions of one type: the interpreted one, if programs are interpreted and this one
/// can be, otherwise the compiled one. The choice is a constant, because the compiler would otherwise compile
/// both branches and all functions that they call.
#[cfg(not(rankform_through_cuda))]
macro_rules! chosen {
    ($Function:ty, $can:expr, $interpreted:expr, $compiled:expr) => {{
        #[cfg(debug_assertions)]
        let run: $Function = const { if interpret::IS_CHOSEN && $can { $interpreted } else { $compiled } };
        #[cfg(not(debug_assertions))]
        let run = $compiled;
        run
    }};
}

#[cfg(any(debug_assertions, feature = "dynamic"))]
type MapKernelFn<P> = unsafe fn(&P, &[usize], usize, &[OperandRef<'_>], Inputs<'_>) -> Result<()>;
#[cfg(any(debug_assertions, feature = "dynamic"))]
type ReduceKernelFn<B> = unsafe fn(&B, Reduction<'_>, OperandRef<'_>, Inputs<'_>) -> Result<()>;
#[cfg(debug_assertions)]
type ScanFn<B> = unsafe fn(&B, ScanPlan<'_>, OperandRef<'_>, Inputs<'_>) -> Result<()>;

// SAFETY: (1) `CpuBlock` owns its bytes and the pool aligns them; (2) the engines reach exactly the indices
// inside the sizes; (3) every call returns after its work is done.
#[cfg(not(rankform_through_cuda))]
unsafe impl Device for Cpu {
    type Block = CpuBlock;
    const IS_CPU: bool = true;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<CpuBlock> {
        CpuBlock::new(nbytes, fresh)
    }

    #[inline]
    fn inline_block(&self, nbytes: usize) -> Option<unsafe fn(NonNull<u8>, usize) -> CpuBlock> {
        // The pool keeps larger blocks.
        if nbytes < pool::POOLED_BYTES { Some(CpuBlock::inline_block) } else { None }
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CpuBlock> {
        Ok(CpuBlock::external(address, nbytes, free))
    }

    #[inline]
    fn address(block: &CpuBlock) -> *mut u8 {
        block.address()
    }

    fn is_host(&self) -> bool {
        true
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller promises room and exclusive use; a borrowed slice cannot overlap memory in
        // exclusive use.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: the caller promises readable bytes; the exclusive slice cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(())
    }

    fn task_nbytes(&self) -> Option<usize> {
        Some(tuning::TASK_BYTES)
    }

    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        parallel::for_each_independent_task(count, task)
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { strided::copy::copy(sizes, to, from) };
        Ok(())
    }

    #[inline(always)]
    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run = chosen!(MapKernelFn<P>, P::PLAIN, interpret::map::<P>, elementwise::run::<P>);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(program, sizes, row, outputs, inputs) }
    }

    #[inline(always)]
    unsafe fn map_apart<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run = chosen!(MapKernelFn<P>, P::PLAIN, interpret::map::<P>, elementwise::run_large::<P>);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(program, sizes, row, outputs, inputs) }
    }

    #[cfg(any(debug_assertions, feature = "dynamic"))]
    unsafe fn map_by_name<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run: MapKernelFn<P> = const { if P::PLAIN { interpret::map } else { elementwise::run } };
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(program, sizes, 0, outputs, inputs) }
    }

    #[cfg(any(debug_assertions, feature = "dynamic"))]
    unsafe fn reduce_by_name<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run: ReduceKernelFn<B> = const {
            if B::PLAIN && !B::BY_ROWS && R::Out::PLAIN {
                interpret::reduce::<B, R>
            } else {
                reduce::run::<B, R>
            }
        };
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(body, axes, output, inputs) }
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run = chosen!(
            ReduceKernelFn<B>,
            B::PLAIN && !B::BY_ROWS && R::Out::PLAIN,
            interpret::reduce::<B, R>,
            reduce::run::<B, R>
        );
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(body, axes, output, inputs) }
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { matmul::run::<T, L, R>(plan, output, left, right) }
    }

    fn packed_nbytes<T: Number, R: Number>(&self, size: [usize; 2]) -> Option<usize> {
        matmul::packed_nbytes::<T, R>(size)
    }

    unsafe fn pack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        matrix: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { matmul::pack::<T, R>(size, to, matrix) }
    }

    unsafe fn unpack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        packed: *const u8,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { matmul::unpack::<T, R>(size, to, packed) }
    }

    unsafe fn contract_packed<T: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        packed: *const u8,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { matmul::run_packed::<T, R>(plan, output, left, packed) }
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let run = chosen!(
            ScanFn<B>,
            B::PLAIN && !B::BY_ROWS && R::Out::PLAIN,
            interpret::scan::<B, R>,
            scan::run::<B, R>
        );
        // SAFETY: the caller's promise is the one asked for.
        unsafe { run(body, plan, output, inputs) }
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { gather_scatter::gather(plan, to, cells, index) }
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        _: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { gather_scatter::scatter::<T, F>(plan, cells, from, index) }
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { gather_scatter::compact(sizes, count, to, from, mask) };
        Ok(())
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { sort::run(T::DTYPE, plan, values, positions, from) }
    }
}
