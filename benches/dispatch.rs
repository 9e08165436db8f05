//! The cost of types known only at run time: conversions between `Tensor` and `DynTensor`, and an operator by
//! name on 4 × 4 f32, compared with the typed one. Nanoseconds a call, the minimum of many runs, and calls of
//! the allocator.
//!
//! `RAYON_NUM_THREADS=1 cargo bench --bench dispatch`

use rankform::DynTensor;
use rankform::dispatch::Dispatcher;
use rankform::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Counts the calls that take memory.
struct Counting;
static TAKEN: AtomicUsize = AtomicUsize::new(0);
// SAFETY: as `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn measure<R>(name: &str, mut run: impl FnMut() -> R) {
    const CALLS: usize = 10_000;
    let before = TAKEN.load(Ordering::Relaxed);
    (0..CALLS).for_each(|_| drop(black_box(run())));
    let taken = (TAKEN.load(Ordering::Relaxed) - before) as f64 / CALLS as f64;
    let mut least = f64::INFINITY;
    for _ in 0..300 {
        let start = Instant::now();
        (0..CALLS).for_each(|_| drop(black_box(run())));
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / CALLS as f64);
    }
    println!("| {name} | {least:.1} | {taken:.0} |");
}

fn main() -> Result<()> {
    let (a, b) = (Tensor::<f32, 2>::full([4, 4], 1.5, &Cpu)?, Tensor::<f32, 2>::full([4, 4], 2.5, &Cpu)?);
    let (x, y) = (DynTensor::from(a.share_data()), DynTensor::from(b.share_data()));
    let dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    let add = dispatcher.operator("add")?;
    println!("| what | ns | allocations |\n|---|---:|---:|");
    let mut kept = Some(a.share_data());
    measure("`Tensor` → `DynTensor` → `Tensor`", || {
        let there = DynTensor::from(black_box(kept.take().expect("put back each time")));
        kept = Tensor::try_from(black_box(there)).ok();
    });
    measure("`downcast_ref`, a typed view", || {
        black_box(&x).downcast_ref::<f32, 2, Cpu>().map(|view| view.numel())
    });
    measure("typed: `a.add(&b)`", || black_box(&a).add(black_box(&b)));
    measure("`Dispatcher::operator(\"add\")` once, then `call`", || {
        add.call(black_box(&[(&x).into(), (&y).into()]))
    });
    measure("`Dispatcher::call(\"add\", …)`", || {
        dispatcher.call(black_box("add"), black_box(&[(&x).into(), (&y).into()]))
    });
    Ok(())
}
