//! Row 21: types that may go to another thread, at compile time. Then handles that eight threads drop
//! together.

use crate::alloc::live;
use rankform::expr::Lazy;
use rankform::prelude::*;
use rankform::{MetadataLock, kernel};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, MutexGuard};

/// That a type has, and has not, the traits named: ambiguous where it has one that it must not have.
macro_rules! table {
    ($($t:ty: $($is:ident)* $(, not $($not:ident)+)?;)*) => { $(
        $(const _: fn() = || { fn is<T: ?Sized + $is>() {} is::<$t>(); };)*
        $($(const _: fn() = || {
            trait AmbiguousIfImplemented<A> { fn some() {} }
            impl<T: ?Sized> AmbiguousIfImplemented<()> for T {}
            #[allow(dead_code)]
            struct Implemented;
            impl<T: ?Sized + $not> AmbiguousIfImplemented<Implemented> for T {}
            let _ = <$t as AmbiguousIfImplemented<_>>::some;
        };)+)?
    )* };
}

type Guard = MutexGuard<'static, u8>; // Sync and not Send
table! {
    // A tensor is as an `Arc<T>`: handles on two threads read, and the last of them drops.
    Tensor<f32, 2>: Send Sync, not Clone Copy;
    Tensor<f32, 0, Meta>: Send Sync, not Clone;
    Tensor<String, 1>: Send Sync;
    Tensor<AtomicU32, 1>: Send Sync;
    Tensor<Cell<f32>, 2>: , not Send Sync Clone;
    Tensor<Rc<u8>, 2>: , not Send Sync;
    Tensor<Guard, 1>: , not Send Sync;
    Tensor<*mut u8, 1>: , not Send Sync;
    // A view is as a `&[T]`.
    TensorView<'static, f32, 2>: Send Sync Copy;
    TensorView<'static, String, 2, Meta>: Send Sync Copy;
    TensorView<'static, Guard, 2>: Send Sync Copy;
    TensorView<'static, Cell<f32>, 2>: Copy, not Send Sync;
    TensorView<'static, Rc<u8>, 2>: Copy, not Send Sync;
    // An exclusive view is as a `&mut [T]`.
    TensorViewMut<'static, f32, 2>: Send Sync, not Clone Copy;
    TensorViewMut<'static, Cell<f32>, 2>: Send, not Sync Clone;
    TensorViewMut<'static, Guard, 2>: Sync, not Send Clone;
    TensorViewMut<'static, Rc<u8>, 2>: , not Send Sync Clone;
    // Expressions and memory.
    Lazy<'static, f32, 2, Cpu, TensorView<'static, f32, 2>>: Send Sync Copy;
    Allocation<Cpu>: Send Sync, not Clone;
    Allocation<Meta>: Send Sync, not Clone;
    Cpu: Send Sync Copy;
    Meta: Send Sync Clone;
    Error: Send Sync Clone;
    Layout<3>: Send Sync Copy;
    kernel::Param<f32>: Send Sync Copy;
    MetadataLock: Send Sync Copy;
}

const THREADS: usize = 8;
const ROUNDS: usize = 50;

/// Runs `work` on all threads at once, for some rounds.
fn race<T: Send>(prepare: impl Fn() -> Vec<T>, work: impl Fn(usize, T) + Sync) {
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(THREADS);
        let parts = prepare();
        assert_eq!(parts.len(), THREADS);
        std::thread::scope(|scope| {
            for (number, part) in parts.into_iter().enumerate() {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(number, part);
                });
            }
        });
    }
}

/// An element that counts the living.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);
impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Counted(alive.clone())
    }
}
impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(&self.0)
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        assert_ne!(self.0.fetch_sub(1, SeqCst), 0, "dropped twice");
    }
}

fn handles<T, const R: usize>(x: Tensor<T, R>) -> Vec<Tensor<T, R>> {
    (1..THREADS).map(|_| x.share_data()).chain([x.share_data()]).collect()
}

#[test]
fn the_last_handle_frees_once_whichever_thread_has_it() {
    let alive = Arc::new(AtomicUsize::new(0));
    let prepare = || handles(Tensor::collect_fn([3, 4], |_| Counted::new(&alive)).unwrap());
    race(prepare, |_, x| drop(x));
    assert_eq!(alive.load(SeqCst), 0);
    race(prepare, |_, x| {
        for _ in 0..20 {
            let (y, z) = (x.share_data(), x.detach(MetadataLock::Frozen).share_data());
            assert!(x.use_count() >= 3 && !y.is_unique());
            drop(y);
            assert_eq!(z.numel(), 12);
        }
    });
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn into_vec_on_all_threads_gives_each_its_own_elements() {
    let alive = Arc::new(AtomicUsize::new(0));
    let moved = AtomicUsize::new(0);
    race(
        || handles(Tensor::collect_fn([6], |_| Counted::new(&alive)).unwrap()),
        |_, x| {
            let at = x.raw_ptr();
            let values = x.into_vec().unwrap();
            assert_eq!(values.len(), 6);
            moved.fetch_add(usize::from(values.as_ptr() == at), SeqCst);
        },
    );
    assert_eq!(alive.load(SeqCst), 0);
    assert!(moved.load(SeqCst) <= ROUNDS, "two threads took one vector");
}

/// The only remaining handle writes plain memory: reads by the others, before they were dropped, must be
/// ordered before it.
#[test]
fn the_only_handle_writes_and_no_other_thread_still_reads() {
    let written = AtomicUsize::new(0);
    race(
        || handles(Tensor::from([1_u64; 16])),
        |number, mut x| {
            let sum: u64 = x.as_slice().unwrap().iter().sum();
            assert_eq!(sum, 16, "somebody wrote while this handle was there");
            for attempt in 0..200 {
                match x.view_mut() {
                    Ok(mut view) => {
                        view.as_slice_mut().unwrap().fill(number as u64 + 100);
                        written.fetch_add(1, SeqCst);
                        break;
                    }
                    Err(Error::Shared { handles, .. }) => assert!(handles <= THREADS),
                    Err(other) => panic!("{other:?}"),
                }
                if attempt == 100 && number % 2 == 1 {
                    break;
                }
                std::thread::yield_now();
            }
        },
    );
    assert!(written.load(SeqCst) <= ROUNDS);
}

#[test]
fn make_unique_on_all_threads_leaves_each_with_memory_of_its_own() {
    race(
        || handles(Tensor::from([[1, 2], [3, 4]])),
        |number, mut x| {
            x.make_unique().unwrap();
            x += number as i32;
            x.version();
            assert_eq!(x.to_vec().unwrap(), [1, 2, 3, 4].map(|value| value + number as i32));
        },
    );
}

#[test]
fn atomics_are_written_from_all_threads() {
    race(
        || handles(Tensor::<u32, 1>::zeros([5], &Cpu).unwrap().into_atomics().unwrap()),
        |_, x: Tensor<AtomicU32, 1>| {
            x.as_slice().unwrap().iter().for_each(|count| {
                count.fetch_add(1, SeqCst);
            });
            let seen = x[[4]].load(SeqCst) as usize;
            assert!((1..=THREADS).contains(&seen));
            if let Ok(counts) = Tensor::<u32, 1>::from_atomics(x) {
                assert_eq!(
                    counts.to_vec().unwrap(),
                    [THREADS as u32; 5],
                    "the last handle sees what all wrote"
                );
            }
        },
    );
}

#[test]
fn operators_run_on_shared_tensors_from_all_threads_at_once() {
    let n = if cfg!(debug_assertions) { 1 << 17 } else { 1 << 18 }; // enough for the pool
    let x = Tensor::from_fn([n], |[i]| (i % 7) as f32, &Cpu).unwrap();
    let expected = x.sum(All).unwrap().item().unwrap();
    let (cpu, shared) = (&Cpu, &x);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(shared.sum(All).unwrap().item(), Ok(expected));
                    let doubled = (shared.lazy() * 2.0).eval().unwrap();
                    assert_eq!(doubled.sum(All).unwrap().item(), Ok(2.0 * expected));
                    assert_eq!(doubled.device(), cpu);
                }
            });
        }
    });
    assert!(live() > 0);
}
