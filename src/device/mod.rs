//! Devices: memory, and the mechanisms that run kernels over it. No operator is named here.
//!
//! | content | file |
//! |---|---|
//! | the trait `Device`: fourteen required functions, and optional ones | this file |
//! | the CPU | `cpu/` |
//! | NVIDIA's GPUs | `cuda/`, with the feature `cuda` |
//! | CPU or GPU, chosen at run time | `any.rs` |
//! | shapes without data, kernels as text | `meta.rs` |
//! | every mechanism as a plain loop, for a user's device | `reference.rs` |
//! | mechanisms by calls of another device | `delegate.rs` |
//! | operators with a backward pass of their own | `operator_rule.rs`, `erased_rule.rs` |
//!
//! **Adding a device** takes one folder (or one file: `examples/08_new_device.rs`) with one `unsafe impl
//! Device`. A device whose memory the host can address begins with its memory alone:
//! [`reference_engine!`](crate::reference_engine) supplies the mechanisms. Operands arrive as addresses and
//! strides, without their ranks, so an engine is compiled once for all ranks.
// Imports: `error`, `element`, `kernel`.

mod any;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod delegate;
#[cfg(feature = "autograd")]
mod erased_rule;
mod meta;
mod operator_rule;
mod reference;

pub use any::{AnyBlock, AnyDevice, AnyDeviceKind};
#[cfg(feature = "dynamic")]
#[doc(hidden)]
pub use cpu::Interpreted;
pub(crate) use cpu::alignment;
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) use cpu::slice_of;
pub use cpu::{Cpu, CpuBlock, MemoryStatistics, NoAllocGuard};
#[cfg(feature = "cuda")]
pub use cuda::{Cuda, CudaBlock, CudaGraph, CudaStatistics};
#[cfg(feature = "cuda")]
pub(crate) use cuda::{QueuedCopy, UserKernel, c_name};
#[cfg(feature = "autograd")]
pub(crate) use erased_rule::{COMPILED_RANK, erase_rule, is_compiled};
#[doc(hidden)]
pub use meta::Meta;
#[cfg(feature = "autograd")]
pub(crate) use operator_rule::{ErasedRule, RuleOperands};
pub use operator_rule::{OperatorRule, RuleOperand, RuleOutput};
pub(crate) use operator_rule::{Recorded, TypedRef};
pub use reference::{HostAddressable, ReferenceEngine};

use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result, text};
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::fmt::Debug;
use std::ptr::NonNull;

/// The largest number of loads and outputs of one kernel together.
pub const MAX_OPERANDS: usize = 24;

/// The largest number of axes of one iteration space.
pub const MAX_AXES: usize = 12;

/// The initial content of allocated memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Init {
    /// Zero bytes.
    Zeroed,
    /// Unspecified: the caller writes every byte before it is read.
    Unspecified,
}

/// Frees external memory. It is called once, with the address and the number of bytes.
pub type Deleter = Box<dyn FnOnce(*mut u8, usize) + Send>;

/// One operand of a kernel: the address of its element with index `[0, …, 0]`, and the strides from there.
#[derive(Clone, Copy, Debug)]
pub struct OperandRef<'a> {
    /// An address in the device's own address space; only the device may dereference it.
    pub address: *mut u8,
    /// The stride along each axis, in elements.
    pub stride: &'a [isize],
    /// Bytes of one element.
    pub element: usize,
}

impl Default for OperandRef<'_> {
    /// An operand of elements of no bytes, at the null address.
    fn default() -> Self {
        OperandRef { address: std::ptr::null_mut(), stride: &[], element: 0 }
    }
}

// SAFETY: an address and strides; code that dereferences the address upholds (2) of `Device`.
unsafe impl Send for OperandRef<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for OperandRef<'_> {}

/// The operands that a kernel reads, each different one once, and the operand of each load of the program.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The operands.
    pub slots: &'a [OperandRef<'a>],
    /// The k-th load reads `slots[reads[k]]`.
    pub reads: &'a [u8],
}

/// The axes of a reduction. The strides of every input are those of `kept`, then those of `reduced`; the
/// output has the axes of `kept`.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// Sizes of the axes that remain.
    pub kept: &'a [usize],
    /// Sizes of the axes that are reduced.
    pub reduced: &'a [usize],
}

/// A device: its memory, and kernels over it.
///
/// # Safety
/// 1. A block from `allocate` or `external_block` owns at least `nbytes` bytes at `address` until it is
///    dropped. They are aligned to 64 bytes, or to 16 if they are fewer than 1024 (external memory: as
///    given). Allocated memory is zero if [`Init::Zeroed`] was requested.
/// 2. Kernels access only positions that sizes and strides reach, write only outputs, and write every
///    position of them.
/// 3. A call may return before its work is finished only if every later call on the same memory is ordered
///    after it.
/// 4. `for_each_task` calls its task with each number at most once, exactly once if it returns `Ok`, and
///    returns after all calls have.
/// 5. If `is_host` is true, the host may read and write memory of the device by its addresses, and calls
///    return after their work is finished.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "expected `Cpu`, `Cuda`, `Meta`, `AnyDevice` or your own type with `unsafe impl Device`",
    note = "elements are converted by `.cast::<f32>()?`; `.to(&device)?` goes to a device"
)]
pub unsafe trait Device: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Memory of this device; its `Drop` frees it.
    type Block: Send + Sync + 'static;

    /// Whether this is [`Cpu`]. Kernels that this crate compiled for it are then not compiled again in the
    /// crate that uses them.
    #[doc(hidden)]
    const IS_CPU: bool = false;

    /// Whether this device records operators by [`ruled`](Device::ruled). No other device calls it.
    #[doc(hidden)]
    const RECORDS: bool = false;

    /// Allocates memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the device has too little free memory.
    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Self::Block>;

    /// The constructor of a block inside the heap allocation of a tensor's reference count. Host devices may
    /// place small blocks there: a small tensor then takes one heap allocation, which is freed after the
    /// block is dropped. `None`, the default, means that [`allocate`](Device::allocate) makes the block; it
    /// is the only choice for memory that is not the host's.
    ///
    /// The constructor is called with the address and `nbytes`, which satisfy (1) of [`Device`], and no other
    /// code uses these bytes.
    fn inline_block(&self, nbytes: usize) -> Option<unsafe fn(NonNull<u8>, usize) -> Self::Block> {
        let _ = nbytes;
        None
    }

    /// Wraps memory that other code owns, and returns it through `free` when the block is dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device has no memory of its own; `free` was called then.
    ///
    /// # Safety
    /// `nbytes` bytes at `address` stay valid on this device until `free` is called.
    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Self::Block>;

    /// The address of a block, in the device's own address space.
    fn address(block: &Self::Block) -> *mut u8;

    /// Whether addresses of the device are addresses of the host, which may read and write them: copies
    /// between host and device then need no memory in between. The default is false, which is always right.
    fn is_host(&self) -> bool {
        false
    }

    /// Copies bytes from the host to the device.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// `to` has room for the bytes, and no other code reads or writes it.
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()>;

    /// Copies bytes to the host, and waits until they have arrived.
    ///
    /// # Errors
    /// [`Error::NoData`] on a device without data, or errors that the device reports.
    ///
    /// # Safety
    /// `from` holds as many bytes as `bytes`, and no other code writes them. `bytes` may be uninitialized
    /// before.
    unsafe fn read(&self, from: *const u8, bytes: &mut [std::mem::MaybeUninit<u8>]) -> Result<()>;

    /// Copies `numel` contiguous elements of `element` bytes from another device, if a way exists that does
    /// not lead through the host. Returns whether it copied them; the default does not.
    ///
    /// # Errors
    /// Errors that the devices report.
    ///
    /// # Safety
    /// 1. `to` has room for the elements, and no other code reads or writes it.
    /// 2. `address` holds the elements on the device `from`, and no other code writes them.
    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        numel: usize,
        element: usize,
    ) -> Result<bool> {
        let _ = (to, from, address, numel, element);
        Ok(false)
    }

    /// Copies elements of any type between two layouts of the same sizes.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. Both operands reach only positions inside their memory.
    /// 2. The output overlaps neither itself nor the input.
    /// 3. No other code writes to this memory.
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()>;

    /// Runs a program once for every index inside `sizes`.
    ///
    /// The last `row` axes together form a row: a program that prepares rows ([`Program::BY_ROWS`]) computes
    /// its row constants before it runs on each row. `row` is 0 for every other program.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. Every operand reaches only positions inside its memory, with the element types of the program's
    ///    loads and stores.
    /// 2. No output overlaps itself. The exception is stride 0 along a row, where one element remains.
    /// 3. Outputs overlap no other operand. The exception is a program in place ([`Program::IN_PLACE`]): its
    ///    outputs are exactly the operands of its first loads, in order, with the same addresses and strides,
    ///    and of no other loads.
    /// 4. No other code writes to this memory.
    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// As [`map`](Device::map), but never inlined. The CPU inlines `map` where small tensors are computed;
    /// all other calls use this function.
    ///
    /// # Errors
    /// As [`map`](Device::map).
    ///
    /// # Safety
    /// As [`map`](Device::map).
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn map_apart<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map(program, sizes, row, outputs, inputs) }
    }

    /// As [`map`](Device::map), for one of many programs, which is chosen by name at run time. A device that
    /// would have to compile each of them may interpret it instead. These programs have no row constants.
    ///
    /// # Errors
    /// As [`map`](Device::map).
    ///
    /// # Safety
    /// As [`map`](Device::map).
    unsafe fn map_by_name<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map(program, sizes, 0, outputs, inputs) }
    }

    /// As [`reduce`](Device::reduce), for a reducer that is chosen by name at run time.
    ///
    /// # Errors
    /// As [`reduce`](Device::reduce).
    ///
    /// # Safety
    /// As [`reduce`](Device::reduce).
    unsafe fn reduce_by_name<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.reduce(body, reducer, axes, output, inputs) }
    }

    /// Reduces the values of a body over the axes `axes.reduced`. If they have no elements, the result is
    /// `finalize` of the identity.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::map`].
    /// 2. The output overlaps no input.
    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// Computes a product that sums over axes, of elements `L` and `R` into elements `T`. It never reads the
    /// output.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if scratch memory cannot be allocated, or errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::map`], for these elements.
    /// 2. The output overlaps no input.
    /// 3. No group of the plan has more than [`MAX_GROUP`](crate::kernel::MAX_GROUP) axes.
    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()>;

    /// Bytes of a matrix of `R` with `size` rows and columns in the device's own layout of right operands for
    /// products that sum in `T`. Only the device can read this layout, for example panels or tiles. `None`,
    /// the default, means that a matrix in row-major order is as fast; the other three functions are then not
    /// called.
    fn packed_nbytes<T: Number, R: Number>(&self, size: [usize; 2]) -> Option<usize> {
        let _ = size;
        None
    }

    /// Copies a matrix into that layout.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::copy`].
    /// 2. `to` has room for [`packed_nbytes`](Device::packed_nbytes) of the same types and sizes.
    unsafe fn pack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        matrix: OperandRef<'_>,
    ) -> Result<()> {
        let _ = (size, to, matrix);
        Err(Error::Value { op: "pack", what: text(format_args!("{self:?} has no layout of its own")) })
    }

    /// Copies a packed matrix back into row-major order.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. `packed` comes from [`pack`](Device::pack) with the same types and sizes.
    /// 2. `to` has room for the elements.
    unsafe fn unpack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        packed: *const u8,
    ) -> Result<()> {
        let _ = (size, to, packed);
        Err(Error::Value { op: "unpack", what: text(format_args!("{self:?} has no layout of its own")) })
    }

    /// As [`contract`](Device::contract), for operands `R` whose right one was packed: no batch axes, and one
    /// axis in each of `k` and `n`.
    ///
    /// # Errors
    /// As [`contract`](Device::contract).
    ///
    /// # Safety
    /// 1. As [`contract`](Device::contract).
    /// 2. `packed` comes from [`pack`](Device::pack) with the same types and the sizes of `k` and `n`.
    unsafe fn contract_packed<T: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        packed: *const u8,
    ) -> Result<()> {
        let _ = (plan, output, left, packed);
        Err(Error::Value {
            op: "contract_packed",
            what: text(format_args!("{self:?} has no layout of its own")),
        })
    }

    /// Computes the running results of a reducer along one axis, over the values of a body.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::map`].
    /// 2. The output overlaps no input.
    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// Copies cells by index, `to[p] = cells[p + index[p] · step]`, for elements of any type.
    ///
    /// # Errors
    /// [`GatherPlan::outside`] for an index outside `0..plan.bound`, which is never dereferenced. A device
    /// whose work is queued may return it later, by [`check`](Device::check), and then writes 0 for such
    /// an element. Errors that the device reports.
    ///
    /// # Safety
    /// 1. Operands reach only positions inside their memory, `cells` with every index in bounds.
    /// 2. `index` holds `i64`.
    /// 3. The output overlaps neither itself nor another operand.
    /// 4. No other code writes to this memory.
    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;

    /// Applies an operator to cells by index, `cell ← F(cell, from[p])`, in row-major order of `p` if several
    /// elements have the same cell.
    ///
    /// # Errors
    /// As [`Device::gather`]. An index out of bounds means that no cell is written, or, if the error comes
    /// later, that its element is left out.
    ///
    /// # Safety
    /// As [`Device::gather`], with the cells as the output, and elements `T`.
    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;

    /// Copies the elements of `from` whose `mask` is true, in row-major order, to the first `count` elements
    /// of `to`, which has one axis.
    ///
    /// # Errors
    /// Errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::copy`].
    /// 2. `mask` holds `bool`, and is true `count` times.
    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()>;

    /// Sorts along an axis: the elements in order, their original positions (`i64`), or both.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if scratch memory cannot be allocated, or errors that the device reports.
    ///
    /// # Safety
    /// 1. As [`Device::map`], for elements `T`.
    /// 2. Outputs have `plan.keep` positions along the axis, and overlap no input.
    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()>;

    /// Runs an operator that states its own backward pass. A device that records takes its rule; every other
    /// device computes it.
    ///
    /// # Errors
    /// Those of the operator.
    #[doc(hidden)]
    fn ruled<R: OperatorRule>(
        &self,
        rule: R,
        inputs: &[RuleOperand<'_, Self>],
        output: RuleOutput<'_, Self>,
    ) -> Result<()> {
        rule.forward(inputs, output)
    }

    /// Bytes of operands that one of the device's cores keeps in its own cache. Operators whose work can be
    /// cut into independent parts cut it into parts of about this size, for
    /// [`for_each_task`](Device::for_each_task). `None`, the default, means that large parts are better.
    fn task_nbytes(&self) -> Option<usize> {
        None
    }

    /// Calls `task` with every number below `count`, in any order, and on several threads if the device has
    /// them. The default calls them one after the other. The results of tasks must not depend on each other.
    ///
    /// # Errors
    /// The error of a task; after the first one no further task starts.
    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        (0..count).try_for_each(task)
    }

    /// Waits until all work is finished.
    ///
    /// # Errors
    /// Errors of that work.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Takes the deferred error: one that work reported after its call had returned, or while a block was
    /// dropped.
    ///
    /// # Errors
    /// The first deferred error.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// [`Error::Device`] unless the two devices are equal.
pub(crate) fn same_device<D: Device>(op: &'static str, left: &D, right: &D) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(Error::Device { op, left: text(format_args!("{left:?}")), right: text(format_args!("{right:?}")) })
}
