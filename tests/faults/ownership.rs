//! The catalog of other libraries' bugs, rows 15 to 20: ownership, release and drops, also when code panics.
//! And elements that most libraries forget: of size 0, of huge alignment.

use crate::alloc::live_here;
use crate::{caught, refused};
use rankform::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};

/// Counts live elements and panics at a chosen step.
#[derive(Default)]
struct Census {
    alive: AtomicIsize,
    steps: AtomicUsize,
    panic_at: AtomicUsize,
}

impl Census {
    /// A new count, in which step `k`, counted from 1, panics; none for 0.
    fn panicking_at(k: usize) -> Arc<Self> {
        Arc::new(Census { panic_at: AtomicUsize::new(k), ..Census::default() })
    }
    fn step(&self) {
        assert_ne!(self.steps.fetch_add(1, SeqCst) + 1, self.panic_at.load(SeqCst), "step");
    }
}

/// An element that is counted, and has memory of its own.
struct Member(Arc<Census>, Box<usize>);

impl Member {
    fn new(census: &Arc<Census>, number: usize) -> Self {
        census.step();
        census.alive.fetch_add(1, SeqCst);
        Member(census.clone(), Box::new(number))
    }
}
impl Clone for Member {
    fn clone(&self) -> Self {
        Member::new(&self.0, *self.1)
    }
}
impl Drop for Member {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

/// Runs `work` with a panic at step 1, 2, … until it gets through: each time all members are gone and no byte
/// is left.
fn panic_everywhere(work: impl Fn(&Arc<Census>)) -> usize {
    for k in 1.. {
        let before = live_here();
        let census = Census::panicking_at(k);
        let result = caught(|| work(&census));
        let through = result.is_ok();
        drop(result);
        assert_eq!(census.alive.load(SeqCst), 0, "alive after a panic at step {k}");
        drop(census);
        assert_eq!(live_here(), before, "bytes after a panic at step {k}");
        if through {
            return k - 1;
        }
    }
    unreachable!()
}

#[test]
fn row_15_memory_goes_back_with_the_layout_it_came_with() -> Result<()> {
    let before = live_here();
    for spare in [0, 1, 100] {
        let mut values = Vec::with_capacity(6 + spare);
        values.extend([1_u32, 2, 3, 4, 5, 6]);
        let (address, capacity) = (values.as_ptr(), values.capacity());
        let x = Tensor::from_vec(values, [2, 3])?;
        let x = Tensor::from_cells(x.into_cells()?)?; // as other types and back
        let x = Tensor::<u32, 2>::from_atomics(x.into_atomics()?)?;
        let x = x.into_shape([6])?.into_shape([3, 2])?;
        let values = x.into_vec()?;
        assert_eq!(
            (values.as_ptr(), values.capacity(), &values[..]),
            (address, capacity, &[1, 2, 3, 4, 5, 6][..])
        );
        // As other types to the end.
        drop(Tensor::from_vec(values.clone(), [6])?.into_cells()?);
        drop(Tensor::from_vec(values.clone(), [6])?.into_atomics()?);
        drop(Tensor::from_vec(vec![true; 5], [5])?.into_atomics()?);
        // Not whole, not alone, not in order: clones.
        let part = Tensor::from_vec(values.clone(), [6])?.into_slice((1..4,))?;
        assert_eq!(part.into_vec()?, [2, 3, 4]);
        let x = Tensor::from_vec(values, [6])?;
        let other = x.share_data();
        assert_eq!(
            (x.into_vec()?, other.into_reversed(Axis::<0>)?.into_vec()?),
            (vec![1, 2, 3, 4, 5, 6], vec![6, 5, 4, 3, 2, 1])
        );
    }
    // Memory of the crate's own, which is aligned to more than the element.
    assert_eq!(Tensor::from([1_u8, 2, 3]).into_vec()?, [1, 2, 3]);
    let freed = Arc::new(AtomicUsize::new(0));
    for spare in [0, 7] {
        let mut foreign = Vec::with_capacity(4 + spare);
        foreign.extend(["a", "b", "c", "d"].map(String::from));
        let mut foreign = std::mem::ManuallyDrop::new(foreign);
        let (address, capacity, count) = (foreign.as_mut_ptr(), foreign.capacity(), freed.clone());
        // SAFETY: four strings of a vector that nobody else has; the deleter makes it whole again.
        let x = unsafe {
            Tensor::from_external(address, [2, 2], &Cpu, move |p, nbytes| {
                drop(Vec::from_raw_parts(p.cast::<String>(), nbytes / size_of::<String>(), capacity));
                count.fetch_add(1, SeqCst);
            })
        }?;
        let y = x.share_data().into_transposed()?;
        drop(x);
        assert_eq!(y.into_vec()?, ["a", "c", "b", "d"]);
    }
    assert_eq!(freed.load(SeqCst), 2);
    drop(freed);
    assert_eq!(live_here(), before);
    Ok(())
}

#[test]
fn row_16_fresh_memory_is_written_before_it_is_read() -> Result<()> {
    // The allocator fills memory with 0xA5: an unwritten element shows.
    let zeros = Tensor::<u8, 2>::zeros([31, 17], &Cpu)?;
    assert_eq!(zeros.to_vec()?, vec![0; 31 * 17]);
    let a = Tensor::from_fn([33, 5], |[i, j]| (i + j) as f32, &Cpu)?;
    let nothing = Tensor::<f32, 2>::zeros([33, 0], &Cpu)?.matmul(&Tensor::zeros([0, 9], &Cpu)?)?;
    assert_eq!(nothing.to_vec()?, vec![0.0; 33 * 9]); // k = 0: the output is never read, and yet defined
    for (m, k, n) in [(1, 1, 1), (3, 5, 2), (33, 5, 33), (17, 16, 31), (40, 40, 40)] {
        let left = Tensor::from_fn([m, k], |[i, j]| (i * 7 + j) as f64, &Cpu)?;
        let right = Tensor::from_fn([k, n], |[i, j]| i as f64 - j as f64, &Cpu)?;
        let product = left.matmul(&right)?;
        let oracle =
            |[i, j]: [usize; 2]| (0..k).map(|p| (i * 7 + p) as f64 * (p as f64 - j as f64)).sum::<f64>();
        assert_eq!(product.to_vec()?, dim![m, n].indices().map(oracle).collect::<Vec<_>>());
        let whole = left.cast::<i32>()?.matmul(&right.cast::<i32>()?)?;
        assert_eq!(whole.to_vec()?, dim![m, n].indices().map(|at| oracle(at) as i32).collect::<Vec<_>>());
    }
    // Every layout of an output is written to its last element.
    for view in [a.view(), a.transposed(), a.reversed(Axis::<0>), a.slice(((..).step(3), 1..4))?] {
        let expected: Vec<f32> = view.to_vec()?.iter().map(|x| x + 1.0).collect();
        assert_eq!(Arithmetic::add(view, 1.0)?.to_vec()?, expected);
        assert_eq!(view.copy()?.to_vec()?, view.to_vec()?);
    }
    Ok(())
}

#[test]
fn row_18_a_panic_while_elements_are_made_drops_those_made_and_no_others() {
    let made = |census: &Arc<Census>, n| (0..n).map(|i| Member::new(census, i)).collect::<Vec<_>>();
    let steps = [
        panic_everywhere(|census| {
            drop(Tensor::collect_fn([3, 4], |[i, j]| Member::new(census, i + j)).unwrap())
        }),
        panic_everywhere(|census| drop(Tensor::collect_fn([3, 0], |_| Member::new(census, 0)).unwrap())),
        panic_everywhere(|census| drop(Tensor::from_iter((0..9).map(|i| Member::new(census, i))).unwrap())),
        panic_everywhere(|census| drop(Tensor::from_vec(made(census, 6), [2, 3]).unwrap())),
        // Clones, of a part, of shared memory, of another order.
        panic_everywhere(|census| {
            let x = Tensor::from_vec(made(census, 6), [2, 3]).unwrap();
            let values = x.into_slice((.., 1..)).unwrap().into_vec().unwrap();
            assert_eq!(values.iter().map(|member| *member.1).collect::<Vec<_>>(), [1, 2, 4, 5]);
        }),
        panic_everywhere(|census| {
            let x = Tensor::from_vec(made(census, 5), [5]).unwrap();
            let y = x.share_data().into_reversed(Axis::<0>).unwrap();
            assert_eq!(y.into_vec().unwrap().len(), 5);
            assert_eq!(x.into_vec().unwrap().len(), 5); // the last handle: without a copy
        }),
        panic_everywhere(|census| {
            let x = Tensor::from_vec(made(census, 4), [4, 1]).unwrap().into_broadcast([4, 3]).unwrap();
            assert_eq!(x.into_vec().unwrap().len(), 12);
        }),
        // A refused value is dropped.
        panic_everywhere(|census| refused!(Tensor::from_vec(made(census, 5), [2, 3]), Error::Length { .. })),
        panic_everywhere(|census| {
            refused!(Tensor::from_vec(made(census, 2), [usize::MAX, 2]), Error::Overflow { .. })
        }),
        panic_everywhere(|census| drop(Tensor::from_vec(made(census, 0), [0, 3]).unwrap())),
        // Assigned over, through a view.
        panic_everywhere(|census| {
            let mut x = Tensor::from_vec(made(census, 4), [2, 2]).unwrap();
            let replacement = Member::new(census, 9);
            x.data_mut().unwrap()[2] = replacement;
            x.view_mut().unwrap()[[0, 1]] = Member::new(census, 8);
            assert_eq!((*x[[0, 1]].1, *x[[1, 0]].1), (8, 9));
            drop(x.into_cells().unwrap());
        }),
    ];
    assert_eq!(steps, [12, 0, 9, 6, 10, 10, 16, 5, 2, 0, 6]);
}

/// An element with a destructor that panics at a chosen drop.
struct Grenade(Arc<Census>);
impl Drop for Grenade {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
        self.0.step();
    }
}

#[test]
fn row_19_a_panic_in_a_destructor_drops_the_others_once_and_frees_the_memory() {
    let make = |census: &Arc<Census>| {
        let members = (0..5).map(|_| {
            census.alive.fetch_add(1, SeqCst);
            Grenade(census.clone())
        });
        Tensor::from_vec(members.collect(), [5]).unwrap()
    };
    let works: &[fn(Tensor<Grenade, 1>)] = &[
        drop,
        |x| drop(x.share_data()),
        |x| drop((x.share_data(), x.into_reversed(Axis::<0>))),
        |x| drop(x.into_cells()),
        |x| drop(x.into_slice((1..3,))),
        |mut x| x.shallow_copy_from(&Tensor::from_vec(vec![], [0]).unwrap()).unwrap(),
    ];
    for work in works {
        assert_eq!(panic_everywhere(|census| work(make(census))), 5);
    }
    // A deleter that panics runs once all the same.
    let before = live_here();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    // SAFETY: no elements.
    let x = unsafe {
        Tensor::<u8, 1>::from_external(std::ptr::dangling_mut(), [0], &Cpu, move |_, _| {
            count.fetch_add(1, SeqCst);
            panic!("deleter");
        })
    };
    let y = x.as_ref().unwrap().share_data();
    assert!(caught(|| drop(x)).is_ok() && caught(|| drop(y)).is_err());
    assert_eq!(runs.load(SeqCst), 1);
    drop(runs);
    assert_eq!(live_here(), before);
}

/// Bodies are evaluated for each element in compiled loops only.
#[cfg(feature = "compiled")]
mod bodies {
    use super::*;
    use rankform::kernel::Op;

    /// Evaluations of [`Fuse`] that are left until it panics.
    static LEFT: AtomicIsize = AtomicIsize::new(0);

    /// A body that panics after a given number of evaluations, on any thread.
    #[derive(Clone, Copy)]
    struct Fuse;
    impl Op<(f32,)> for Fuse {
        type Out = f32;
        fn call<L: Lanes>((x,): (Lane<L, f32>,)) -> Lane<L, f32> {
            assert_ne!(LEFT.fetch_sub(1, SeqCst), 1, "fuse");
            x + 1.0
        }
    }

    #[test]
    fn row_19_a_panic_in_a_body_reaches_the_caller_once_from_every_thread_and_the_pool_goes_on() -> Result<()>
    {
        // The first large operation starts the threads of the pool, which keep their memory.
        let large = if cfg!(debug_assertions) { 1 << 18 } else { 1 << 20 };
        let x = Tensor::from_fn([large], |[i]| i as f32, &Cpu)?;
        LEFT.store(isize::MAX, SeqCst);
        let warm = x.map(Fuse)?;
        assert_eq!(warm[[large - 1]], large as f32);
        drop(warm);
        for (numel, fuse) in
            [(5, 1), (5, 5), (large, 1), (large, large / 2), (large, large - 1), (large, large)]
        {
            let part = x.slice((..numel,))?;
            let works: &[&dyn Fn() -> Result<f32>] = &[
                &|| part.map(Fuse)?.slice((0,))?.item(),
                &|| part.lazy().map(Fuse).map(Fuse).eval()?.slice((0,))?.item(),
                &|| part.lazy().map(Fuse).sum(All)?.item(),
                &|| {
                    let mut y = part.copy()?;
                    y.map_in_place(Fuse)?;
                    y.slice((0,))?.item()
                },
            ];
            for work in works {
                Cpu.trim();
                let before = live_here();
                LEFT.store(fuse as isize, SeqCst);
                assert!(caught(work).is_err(), "{numel} elements, fuse {fuse}");
                LEFT.store(isize::MAX, SeqCst);
                Cpu.trim();
                // the pool's own apart
                assert!(live_here() <= before + 4096, "the result of {numel} elements is not given back");
                assert!(work()? <= 2.0 + numel as f32 * numel as f32);
            }
        }
        assert_eq!(x.sum(All)?.item()?, x.to_vec()?.iter().map(|&x| f64::from(x)).sum::<f64>() as f32);
        Ok(())
    }
}

#[test]
fn row_20_iterators_that_lie_about_their_length_are_not_believed() -> Result<()> {
    struct Liar(std::ops::Range<u16>, (usize, Option<usize>));
    impl Iterator for Liar {
        type Item = u16;
        fn next(&mut self) -> Option<u16> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            self.1
        }
    }
    impl ExactSizeIterator for Liar {}
    for said in [(0, Some(0)), (3, Some(3)), (5, Some(5)), (100, Some(100)), (usize::MAX, None)] {
        assert_eq!(Tensor::from_iter(Liar(0..5, said))?.to_vec()?, [0, 1, 2, 3, 4]);
    }
    Ok(())
}

// ---------------------------------------------------------------- elements of no size, of huge alignment

#[test]
fn elements_of_no_size_are_counted_viewed_and_dropped_like_others() -> Result<()> {
    thread_local!(static ALIVE: Cell<isize> = const { Cell::new(0) });
    struct Nothing;
    impl Nothing {
        fn new() -> Self {
            ALIVE.set(ALIVE.get() + 1);
            Nothing
        }
    }
    impl Clone for Nothing {
        fn clone(&self) -> Self {
            Nothing::new()
        }
    }
    impl Drop for Nothing {
        fn drop(&mut self) {
            ALIVE.set(ALIVE.get() - 1);
        }
    }
    let make = || Tensor::collect_fn([4, 6], |_| Nothing::new());
    drop(make()?);
    assert_eq!(ALIVE.get(), 0);
    assert_eq!(make()?.into_vec()?.len(), 24);
    assert_eq!(make()?.into_slice((1..3, 2))?.into_vec()?.len(), 2);
    // dense from the first element, and not all of it
    assert_eq!(make()?.into_slice((1..3, ..))?.into_vec()?.len(), 12);
    assert_eq!(make()?.into_slice((..0, ..))?.into_vec()?.len(), 0);
    assert_eq!(make()?.into_transposed()?.into_vec()?.len(), 24);
    assert_eq!(make()?.into_reversed(Axis::<0>)?.into_vec()?.len(), 24);
    let shared = make()?;
    assert_eq!(shared.share_data().into_vec()?.len(), 24);
    assert_eq!(shared.into_cells()?.numel(), 24);
    assert_eq!(ALIVE.get(), 0);

    let mut units = Tensor::from_vec(vec![(); 12], [3, 4])?;
    assert_eq!(
        (units.as_slice().map(<[()]>::len), units.get([2, 3]), units.get([3, 0])),
        (Some(12), Some(&()), None)
    );
    assert_eq!(units.view_mut()?.slice((1.., ..))?.into_slice_mut().map(|units| units.len()), Some(8));
    let parts = units.view_mut()?.split_at_mut(Axis::<1>, 1)?;
    assert_eq!((parts.0.numel(), parts.1.numel()), (3, 9));
    assert_eq!(units.windows(Axis::<1>, 2, 1)?.size(), [3, 3, 2]);
    refused!(Tensor::from_vec(vec![(); 12], [3, 5]), Error::Length { .. });
    refused!(TensorView::from_slice(&[(); 12], [usize::MAX, 2]), Error::Overflow { .. });
    assert_eq!(TensorView::from_slice(&[[0_f64; 0]; 7], [7])?.as_slice().map(<[_]>::len), Some(7));
    // SAFETY: elements of size 0 may be at any aligned address.
    let external = unsafe {
        Tensor::<(), 1>::from_external(std::ptr::dangling_mut(), [5], &Cpu, |_, nbytes| assert_eq!(nbytes, 0))
    }?;
    assert_eq!(external.into_vec()?.len(), 5);
    Ok(())
}

#[test]
fn elements_of_huge_alignment_keep_it() -> Result<()> {
    fn check<T: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static>(
        value: impl Fn(u8) -> T,
    ) -> Result<()> {
        let before = live_here();
        for n in [0_u8, 1, 5] {
            let values: Vec<T> = (0..n).map(&value).collect();
            let x = Tensor::from_vec(values.clone(), [usize::from(n)])?;
            assert!(x.raw_ptr().is_aligned() && x.as_slice() == Some(&values[..]));
            let last = x.reversed(Axis::<0>).slice((..usize::from(n.min(1)),))?;
            assert_eq!(last.get([0]), values.last());
            assert!(last.is_empty() || last.raw_ptr().is_aligned());
            let (x, y) = (x.share_data().into_reversed(Axis::<0>)?, x);
            assert_eq!(x.into_vec()?, values.iter().rev().copied().collect::<Vec<_>>());
            let back = y.into_vec()?;
            assert!(back.as_ptr().is_aligned() && back == values);
            drop(Tensor::from_vec(back, [usize::from(n), 1])?.into_cells()?);
            let collected = Tensor::collect_fn([usize::from(n)], |[i]| value(i as u8))?;
            assert!(collected.raw_ptr().is_aligned());
        }
        assert_eq!(live_here(), before);
        Ok(())
    }
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(128))]
    struct Line(u8);
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(4096))]
    struct Page(u8);
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(4096))]
    struct Mark;
    check(Line)?;
    check(Page)?;
    check(|_| Mark)
}

/// Computes when its thread has ended, and sends the result of a program that ran before, and whether one
/// that did not run before has a result or an error.
struct Last(Sender<(Result<Vec<f64>>, Result<Vec<f64>>)>);

impl Last {
    fn known() -> Result<Vec<f64>> {
        (Tensor::from([1.0, 2.0]).lazy() * 2.0 + 1.0).eval()?.to_vec()
    }
}
impl Drop for Last {
    fn drop(&mut self) {
        let new = (Tensor::from([1.0, 2.0]).lazy() * 3.0 - 1.0).square().eval().and_then(|y| y.to_vec());
        let _ = self.0.send((Last::known(), new));
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn operators_run_while_their_thread_ends() {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(|| {
        // The memory that a thread keeps for programs is made later, and is freed before.
        LAST.set(Some(Last(sender)));
        Last::known()
    });
    assert_eq!(thread.join().unwrap().unwrap(), [3.0, 5.0]);
    let (known, new) = receiver.recv().unwrap();
    assert_eq!(known.unwrap(), [3.0, 5.0]);
    match new {
        Ok(new) => assert_eq!(new, [4.0, 25.0]),
        Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
    }
}
