//! A device without data: it stores and computes no elements, and can record every kernel as text.
//!
//! Its uses are shape inference, tests without a GPU, and a view of the kernels into which an expression is
//! fused.
// Imports: `error`, `element`, `kernel`.

use super::{Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result};
use crate::kernel::{
    Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan, trace_body, trace_program,
};
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A device of sizes without data.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let device = Meta::tracing();
/// let x = Tensor::<f32, 2, Meta>::zeros([1 << 20, 1 << 12], &device)?; // 16 GiB, had it data
/// let y = (x.lazy() * &x + 1.0).sum(Axis::<1>)?;
/// assert_eq!(y.size(), [1 << 20]);
/// assert!(y.to_vec().is_err());
/// assert!(device.kernels()[0].contains("reduce sum"));
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Meta {
    kernels: Option<Arc<Mutex<Vec<String>>>>,
}

impl Meta {
    /// A device that records no kernels.
    pub fn new() -> Self {
        Meta::default()
    }

    /// A device that records every kernel as text; its clones share the list.
    pub fn tracing() -> Self {
        Meta { kernels: Some(Arc::default()) }
    }

    /// The kernels that would have run, in order; empty except for a device made by [`Meta::tracing`].
    pub fn kernels(&self) -> Vec<String> {
        let locked =
            |list: &Arc<Mutex<Vec<String>>>| list.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.kernels.as_ref().map(locked).unwrap_or_default()
    }

    fn keep(&self, text: impl FnOnce() -> Result<String>) -> Result<()> {
        if let Some(list) = &self.kernels {
            let text = text()?;
            list.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
        Ok(())
    }
}

impl PartialEq for Meta {
    /// All meta devices are equal, whatever they record.
    fn eq(&self, _: &Meta) -> bool {
        true
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meta")
    }
}

/// Addresses for blocks without memory. No two blocks have the same address, because kernels tell operands
/// apart by it.
static NEXT: AtomicUsize = AtomicUsize::new(64);

// SAFETY: (1) blocks have no memory, and `read` reports that; (2) no address is dereferenced; (3) no work is
// deferred.
unsafe impl Device for Meta {
    type Block = usize;

    fn allocate(&self, nbytes: usize, _: Init) -> Result<usize> {
        Ok(NEXT.fetch_add((nbytes | 63).wrapping_add(1), Ordering::Relaxed))
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<usize> {
        free(address, nbytes);
        Err(Error::Unsupported { op: "adopt", device: "Meta" })
    }

    fn address(block: &usize) -> *mut u8 {
        std::ptr::without_provenance_mut(*block)
    }

    unsafe fn write(&self, _: *mut u8, _: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn read(&self, _: *const u8, _: &mut [MaybeUninit<u8>]) -> Result<()> {
        Err(Error::NoData { op: "read", device: "Meta" })
    }

    unsafe fn copy(&self, sizes: &[usize], _: OperandRef<'_>, _: OperandRef<'_>) -> Result<()> {
        self.keep(|| Ok(format!("copy {sizes:?}\n")))
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        _: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let (outer, row) = sizes.split_at(sizes.len() - row);
        let rows = if P::BY_ROWS { format!(" rows of {row:?}") } else { String::new() };
        self.keep(|| Ok(format!("map {outer:?}{rows}\n{}", trace_program(program, inputs.reads)?)))
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        _: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        self.keep(|| {
            Ok(format!(
                "reduce {} {:?} over {:?}\n{}",
                R::NAME,
                axes.kept,
                axes.reduced,
                trace_body(body, inputs.reads)?
            ))
        })
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
    ) -> Result<()> {
        let ContractPlan { batch, m, k, n } = plan;
        self.keep(|| {
            Ok(format!(
                "contract {} = {} · {}: {batch:?} [{m:?}, {k:?}] · [{k:?}, {n:?}]\n",
                T::DTYPE,
                L::DTYPE,
                R::DTYPE
            ))
        })
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        _: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let ScanPlan { lines, along, exclusive } = plan;
        let kind = if exclusive { "exclusive scan" } else { "scan" };
        self.keep(|| {
            let body = trace_body(body, inputs.reads)?;
            Ok(format!("{kind} {} {lines:?} along {along}\n{body}", R::NAME))
        })
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
    ) -> Result<()> {
        self.keep(|| Ok(format!("gather {:?} from {}\n", plan.sizes, plan.bound)))
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        _: F,
        plan: GatherPlan<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
    ) -> Result<()> {
        self.keep(|| Ok(format!("scatter {} {} {:?} to {}\n", F::NAME, T::DTYPE, plan.sizes, plan.bound)))
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
        _: OperandRef<'_>,
    ) -> Result<()> {
        self.keep(|| Ok(format!("compact {sizes:?} to {count}\n")))
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        _: Option<OperandRef<'_>>,
        _: Option<OperandRef<'_>>,
        _: OperandRef<'_>,
    ) -> Result<()> {
        let SortPlan { lines, along, first, keep, .. } = plan;
        self.keep(|| {
            Ok(format!("sort {} {lines:?} along {along}, the first {keep} after {first}\n", T::DTYPE))
        })
    }
}
