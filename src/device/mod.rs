//! A device: where bytes live and how a kernel runs over them. Mechanisms only; no operator is named here.
//!
//! | what | where |
//! |---|---|
//! | the contract, in some twenty functions | this file |
//! | the host | `cpu/` |
//! | NVIDIA's graphics cards | `cuda/`, with the feature `cuda` |
//! | either, chosen at run time | `any.rs` |
//! | shapes without data, kernels as text | `meta.rs` |
//!
//! **Adding a device** is one folder (or one file: `examples/08_new_device.rs`) with one `unsafe impl Device`. Operands
//! arrive erased to an address and strides, so an engine is compiled once, not once a rank.
// Imports: `error`, `element`, `kernel`.

mod any;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod meta;

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
pub use meta::Meta;

use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result, text};
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::fmt::Debug;
use std::ptr::NonNull;

/// How much one kernel may read and write: its loads and its outputs together.
pub const MAX_OPERANDS: usize = 24;

/// How many axes one reduction goes over, at most.
pub const MAX_REDUCED: usize = 12;

/// What fresh memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Init {
    /// Zero bytes.
    Zeroed,
    /// Anything: the caller writes every byte that is read.
    Unspecified,
}

/// Gives external memory back: called once, with its address and number of bytes.
pub type Deleter = Box<dyn FnOnce(*mut u8, usize) + Send>;

/// One operand of a kernel: where its element with index `[0, …, 0]` stands, and the steps from there.
#[derive(Clone, Copy, Debug)]
pub struct OperandRef<'a> {
    /// In the device's own address space; only the device may follow it.
    pub address: *mut u8,
    /// Steps along each axis, in elements.
    pub stride: &'a [isize],
    /// Bytes of one element.
    pub element: usize,
}

// SAFETY: an address and steps; whoever follows the address answers for it (see `Device`, safety 2).
unsafe impl Send for OperandRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for OperandRef<'_> {}

/// The operands that a kernel reads: each different one once, and which of them each load of the program reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The operands.
    pub slots: &'a [OperandRef<'a>],
    /// `slots[reads[k]]` is what the k-th load reads.
    pub reads: &'a [u8],
}

/// The axes of a reduction: every input's strides are those of `kept`, then those of `reduced`; the output has `kept`.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// Sizes of the axes that stay.
    pub kept: &'a [usize],
    /// Sizes of the axes that go.
    pub reduced: &'a [usize],
}

/// Where bytes live and how kernels run over them.
///
/// # Safety
/// 1. A block from `allocate` or `adopt` owns at least `nbytes` bytes at `address`, aligned to 64 bytes, or to 16 when there are fewer than 1024 (an adopted one:
///    as given), until it is dropped; fresh memory is zero where [`Init::Zeroed`] was asked for.
/// 2. Kernels touch only positions that sizes and strides reach, write only outputs, and write each of those.
/// 3. A call may return before its work is done only if every later call on the same memory is ordered after it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "expected `Cpu`, `Meta` or your own type with `unsafe impl Device`",
    note = "elements are converted by `.cast::<f32>()?`; `.to(&device)?` goes to a device"
)]
pub unsafe trait Device: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Memory of this device, freed by its `Drop`.
    type Block: Send + Sync + 'static;

    /// Whether this is [`Cpu`], so that what was compiled for it in this crate is not compiled again where it is used.
    #[doc(hidden)]
    const IS_CPU: bool = false;

    /// Fresh memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Self::Block>;

    /// How fresh memory of `nbytes` bytes becomes a block that stands in memory of the host, beside the count of its handles
    /// and freed with it after the block is dropped: a small tensor then takes one block of the heap. `None`, as here, where
    /// memory is not the host's, or is to come from [`allocate`](Device::allocate).
    ///
    /// What it gives is called with the address and `nbytes`; both are as safety 1 says, and nobody else uses these bytes.
    fn inline_block(&self, nbytes: usize) -> Option<unsafe fn(NonNull<u8>, usize) -> Self::Block> {
        let _ = nbytes;
        None
    }

    /// Memory that somebody else owns, given back through `free` when the block is dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the device has no memory of its own; `free` has then run.
    ///
    /// # Safety
    /// `nbytes` bytes at `address` stay valid on this device until `free` is called.
    unsafe fn from_external(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Self::Block>;

    /// Where a block starts, in the device's own address space.
    fn address(block: &Self::Block) -> *mut u8;

    /// Copies bytes from the host.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// `to` has room for them and nobody else reads or writes it.
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()>;

    /// Copies bytes to the host; waits until they are there.
    ///
    /// # Errors
    /// [`Error::NoData`] on a device without data, or what the device reports.
    ///
    /// # Safety
    /// `from` holds that many bytes and nobody writes them; `bytes` may be uninitialized before.
    unsafe fn read(&self, from: *const u8, bytes: &mut [std::mem::MaybeUninit<u8>]) -> Result<()>;

    /// Copies bytes from another device, where there is a way that does not lead through the host; says whether it did.
    ///
    /// # Errors
    /// What the devices report.
    ///
    /// # Safety
    /// `to` has room for `nbytes` bytes, which nobody else reads or writes; `address` holds as many on the device `from`, and
    /// nobody writes them.
    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        nbytes: usize,
    ) -> Result<bool> {
        let _ = (to, from, address, nbytes);
        Ok(false)
    }

    /// Copies elements of any type between two layouts of the same sizes.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// Both slots reach inside their memory, the output does not overlap itself or the input, nobody else writes.
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()>;

    /// Runs a program once for every index inside `sizes`.
    ///
    /// The last `row` axes together are a row: a program that asks for it ([`Program::BY_ROWS`]) is settled on each row
    /// before it runs there. `row` is 0 for every other program.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// Every slot reaches inside its memory and holds the elements that the program loads and stores there; no output
    /// overlaps itself, but that it may have stride 0 along a row, where one element is then left; outputs overlap no other
    /// operand, but that those of a program in place ([`Program::IN_PLACE`]) are the operands of its first loads exactly,
    /// in order (same address and strides), and of no other; nobody else writes.
    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// As [`map`](Device::map), which the CPU has inlined where small tensors are computed: this is for all others, and is not.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
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

    /// As [`map`](Device::map), of a program that is one of many, chosen by name while this runs: a device that would have to compile
    /// each may interpret it instead. Programs are not settled.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
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

    /// As [`reduce`](Device::reduce), of a reducer that is chosen so.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
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

    /// Reduces the values of a body over the axes `axes.reduced`; a count of 0 gives what `finalize` makes of the identity.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// As [`Device::map`]; the output overlaps no input.
    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// A product that sums over axes, of elements `L` and `R` into elements `T`; never reads the output.
    ///
    /// # Errors
    /// What the device reports; [`Error::OutOfMemory`].
    ///
    /// # Safety
    /// As [`Device::map`], for these elements; the output overlaps no input; no group of the plan has more than
    /// [`MAX_GROUP`](crate::kernel::MAX_GROUP) axes.
    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()>;

    /// Bytes of a matrix of `R`, of `size` rows and columns, in the layout in which products that sum in `T` read a right
    /// operand best: panels, tiles, whatever serves the device, which alone can read it. `None`, as here, where a matrix in
    /// rows serves as well; the other three functions are then not called.
    fn packed_nbytes<T: Number, R: Number>(&self, size: [usize; 2]) -> Option<usize> {
        let _ = size;
        None
    }

    /// Brings a matrix into that layout.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// As [`Device::copy`]; `to` has room for [`packed_nbytes`](Device::packed_nbytes) of the same types and sizes.
    unsafe fn pack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        matrix: OperandRef<'_>,
    ) -> Result<()> {
        let _ = (size, to, matrix);
        Err(Error::Value { op: "pack", what: text(format_args!("{self:?} has no layout of its own")) })
    }

    /// Brings a matrix back, into rows that stand one after the other.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// `packed` comes from [`pack`](Device::pack) with the same types and sizes; `to` has room for the elements.
    unsafe fn unpack<T: Number, R: Number>(
        &self,
        size: [usize; 2],
        to: *mut u8,
        packed: *const u8,
    ) -> Result<()> {
        let _ = (size, to, packed);
        Err(Error::Value { op: "unpack", what: text(format_args!("{self:?} has no layout of its own")) })
    }

    /// As [`contract`](Device::contract), of operands `R`, where the right one was packed: no batch, one axis in `k` and in `n`.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there; `packed` comes from [`pack`](Device::pack) with the same types and the sizes of `k` and `n`.
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

    /// The running states of a reducer along one axis, over the values of a body.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// As [`Device::map`]; the output overlaps no input.
    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;

    /// Copies addressed cells, `to[p] = cells[p + index[p] · step]`, for elements of any type.
    ///
    /// # Errors
    /// [`Error::Index`] for an index outside `0..plan.bound`, which is never followed; what the device reports.
    ///
    /// # Safety
    /// Slots reach inside their memory, the cells with every index in bounds; `index` holds `i64`; the output overlaps
    /// neither itself nor another operand; nobody else writes.
    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;

    /// Applies an operator to addressed cells, `cell ← F(cell, from[p])`, in row-major order of `p` where several meet.
    ///
    /// # Errors
    /// As [`Device::gather`]; nothing is written when an index is outside.
    ///
    /// # Safety
    /// As [`Device::gather`], with the cells in place of the output, and elements `T`.
    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;

    /// Copies the elements of `from` where `mask` holds, in row-major order, to the first `count` places of `to`, which
    /// has one axis.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Safety
    /// As [`Device::copy`]; `mask` holds `bool` and holds `count` times.
    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()>;

    /// Sorts lines: the elements in order, where they stood (`i64`), or both.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for want of scratch memory; what the device reports.
    ///
    /// # Safety
    /// As [`Device::map`], for elements `T`; outputs have `plan.keep` positions along the axis and overlap no input.
    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()>;

    /// Waits until all work is done.
    ///
    /// # Errors
    /// Those of the work.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Errors that came after their call had returned, or while dropping.
    ///
    /// # Errors
    /// The first of them.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// [`Error::Device`] unless the two devices are the same.
pub(crate) fn same_device<D: Device>(op: &'static str, left: &D, right: &D) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(Error::Device { op, left: text(format_args!("{left:?}")), right: text(format_args!("{right:?}")) })
}
