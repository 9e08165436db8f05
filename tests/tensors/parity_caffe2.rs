//! Caffe2's `Tensor`, `TensorImpl` and `Storage`, ability by ability; the table of rows is in
//! `docs/parity.md`.

use num_complex::Complex;
use rankform::ResizePolicy;
use rankform::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The same claims on every device.
macro_rules! on_devices {
    ($check:ident) => {
        $check(&Cpu).unwrap();
        $check(&Meta::new()).unwrap();
    };
}

fn tensor<const RANK: usize>(size: [usize; RANK]) -> Tensor<i32, RANK> {
    let numel = size.iter().product::<usize>() as i32;
    Tensor::from_slice(&(1..=numel).collect::<Vec<_>>(), size, &Cpu).unwrap()
}

// ---------------------------------------------------------------- storage

#[test]
fn storage_is_shared_between_tensors_with_use_count_unique_and_capacity() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 2, D>::zeros([4, 5], device)?;
        assert_eq!((x.use_count(), x.is_unique(), x.capacity(), x.allocation().size()), (1, true, 20, 80));
        let y = x.share_data();
        let z = x.share_data().into_slice((1..3, ..))?;
        assert_eq!((x.use_count(), z.use_count(), y.is_unique()), (3, 3, false));
        assert!(std::ptr::eq(x.allocation(), z.allocation()));
        assert!(matches!(x.mutable_data(), Err(Error::Shared { handles: 3, .. })));
        drop((y, z));
        assert!(x.is_unique() && x.mutable_data().is_ok());
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn sharing_of_unallocated_memory_is_refused_and_new_memory_is_not_shared() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 1, D>::empty([4], device)?;
        assert!(matches!(x.share_as([2, 2]), Err(Error::Unallocated { .. })));
        let mut taker = Tensor::<f32, 1, D>::zeros([2], device)?;
        assert!(matches!(taker.shallow_copy_from(&x), Err(Error::Unallocated { .. })));
        let y = x.share_data(); // a handle on sizes: the memory that comes is each one's own
        x.mutable_data()?;
        assert_eq!((x.is_allocated(), y.is_allocated(), x.use_count(), y.use_count()), (true, false, 1, 1));
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn share_data_between_different_shapes_of_one_numel() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 2, D>::zeros([4, 6], device)?;
        let y = x.share_as([2, 12])?;
        assert_eq!(
            (y.raw_ptr(), y.use_count(), y.size(), x.size()),
            (x.raw_ptr(), 2, dim![2, 12], dim![4, 6])
        );
        assert!(matches!(x.share_as([5, 5]), Err(Error::Length { .. })));
        assert!(matches!(x.share_data().into_transposed()?.share_as([24]), Err(Error::NeedsCopy { .. })));
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn an_external_pointer_is_given_back_once_by_its_deleter() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let deleter = || {
        let calls = calls.clone();
        move |address: *mut u8, nbytes: usize| calls.lock().unwrap().push((address as usize, nbytes))
    };
    let taken = || std::mem::take(&mut *calls.lock().unwrap());
    let mut values = [1.0f32, 2.0, 3.0, 4.0];
    let address = values.as_mut_ptr(); // once: asked for again, it would end the first
    let start = address as usize;

    // SAFETY (here and below): the array outlives every tensor on it and is not used meanwhile.
    // SAFETY: four valid elements, which nobody else uses while the tensor lives.
    let x = unsafe { Tensor::from_external(address, [2, 2], &Cpu, deleter()) }.unwrap();
    let y = x.share_data().into_slice((1, ..)).unwrap();
    assert_eq!((x.raw_ptr() as usize, y.to_vec().unwrap()), (start, vec![3.0, 4.0]));
    drop(x);
    assert_eq!(taken(), [], "a handle is left");
    drop(y);
    assert_eq!(taken(), [(start, 16)]);

    // SAFETY: as above.
    let x = unsafe { Tensor::from_external(address, [4], &Cpu, deleter()) }.unwrap();
    std::thread::spawn(move || assert_eq!(x.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0])).join().unwrap();
    assert_eq!(taken(), [(start, 16)], "on another thread");

    // SAFETY: as above.
    let mut x = unsafe { Tensor::from_external(address, [4], &Cpu, deleter()) }.unwrap();
    x.mutable_data().unwrap()[[0]] = 5.0;
    x.resize([5]).unwrap();
    assert_eq!(taken(), [], "resizing moves no bytes");
    x.mutable_data().unwrap();
    assert_eq!((taken(), x.to_vec().unwrap()), (vec![(start, 16)], vec![0.0; 5]), "replaced by new memory");
    drop(x);
    assert_eq!((taken(), values), (vec![], [5.0, 2.0, 3.0, 4.0]));

    // SAFETY: as above; refused before anything is read.
    let refused = [
        unsafe { Tensor::<f32, 2>::from_external(address, [usize::MAX, 2], &Cpu, deleter()) }.err(),
        unsafe { Tensor::<f32, 2>::from_external(address.wrapping_byte_add(1), [1, 1], &Cpu, deleter()) }
            .err(),
        unsafe { Tensor::<f32, 2, Meta>::from_external(address, [2, 2], &Meta::new(), deleter()) }.err(),
    ];
    assert!(matches!(
        refused,
        [Some(Error::Overflow { .. }), Some(Error::Value { .. }), Some(Error::Unsupported { .. })]
    ));
    assert_eq!(
        taken(),
        [(start, 0), (start + 1, 4), (start, 16)],
        "once each, also when the constructor fails"
    );

    for address in [address, std::ptr::null_mut()] {
        // SAFETY: no elements.
        let x = unsafe { Tensor::from_external(address, [0, 3], &Cpu, deleter()) }.unwrap();
        assert_eq!((x.to_vec().unwrap(), taken()), (vec![], vec![]));
        drop(x);
        assert_eq!(taken(), [(address as usize, 0)], "without elements, and the address as it was given");
    }
}

#[test]
fn memory_comes_with_the_first_mutable_data() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f64, 2, D>::empty([3, 4], device)?;
        assert_eq!((x.capacity(), x.is_allocated(), x.version()), (0, false, 0));
        assert!(matches!(x.view_mut(), Err(Error::Unallocated { .. })));
        assert!(matches!(x.copy(), Err(Error::Unallocated { .. })));
        assert!(matches!(x.as_strided([1], [1], 0), Err(Error::Unallocated { .. })));
        let first = x.mutable_data()?.raw_ptr();
        assert_eq!((x.capacity(), x.mutable_data()?.raw_ptr()), (12, first));
        x.resize([2, 2])?; // the capacity serves
        assert_eq!((x.mutable_data()?.raw_ptr(), x.capacity()), (first, 12));
        x.resize([12, 1])?;
        assert_eq!((x.mutable_data()?.raw_ptr(), x.capacity()), (first, 12));
        x.resize([13, 1])?; // it does not
        assert!(!x.is_allocated());
        x.mutable_data()?;
        assert_eq!((x.is_allocated(), x.capacity()), (true, 13));
        x.release_memory()?;
        assert_eq!((x.is_allocated(), x.capacity(), x.size()), (false, 0, dim![13, 1]));
        x.mutable_data()?;
        Ok(())
    }
    on_devices!(check);
    let mut x = Tensor::<f64, 1>::empty([3], &Cpu).unwrap();
    assert!(x.as_slice().is_none() && x.get([0]).is_none() && x.share_data().into_vec().is_err());
    x.mutable_data().unwrap().as_slice_mut().unwrap().fill(1.5);
    x.resize([4]).unwrap();
    x.mutable_data().unwrap();
    assert_eq!(x.to_vec().unwrap(), [0.0; 4], "new memory reads 0, never what was there before");
}

#[test]
fn a_tensor_beyond_memory_is_an_error_and_changes_nothing() {
    let mut x = tensor([2]);
    x.resize([1 << 60]).unwrap(); // countable: 2⁶² bytes
    assert!(matches!(x.mutable_data(), Err(Error::OutOfMemory { .. })));
    assert_eq!((x.size(), x.capacity()), (dim![1 << 60], 2));
    assert!(matches!(x.resize([1 << 62]), Err(Error::Overflow { .. })));
    x.resize([2]).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1, 2]);
    assert!(matches!(x.reserve([1 << 60]), Err(Error::OutOfMemory { .. })));
    assert!(matches!(x.extend(1 << 60, 0), Err(Error::OutOfMemory { .. })));
    assert!(matches!(x.extend(usize::MAX, 0), Err(Error::Overflow { .. })));
    assert_eq!((x.to_vec().unwrap(), x.capacity()), (vec![1, 2], 2));
}

// ---------------------------------------------------------------- elements

#[test]
fn raw_access_changes_the_element_type_and_keeps_memory_that_serves() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f64, 2, D>::zeros([2, 3], device)?;
        let start = x.raw_ptr() as usize;
        let x = x.into_element::<u8>()?;
        assert_eq!(
            (x.raw_ptr() as usize, x.capacity(), x.size(), x.is_allocated()),
            (start, 48, dim![2, 3], true)
        );
        let x = x.into_element::<Complex<f64>>()?; // 96 bytes
        assert_eq!((x.capacity(), x.size(), x.is_allocated()), (0, dim![2, 3], false));
        let mut shared = Tensor::<i32, 1, D>::zeros([4], device)?;
        let other = shared.share_data();
        assert!(!shared.into_element::<u32>()?.is_allocated(), "the other handle keeps its elements");
        assert!(other.is_allocated() && other.is_unique());
        shared = other;
        assert!(matches!(
            shared.detach(MetadataLock::Frozen).into_element::<u32>(),
            Err(Error::MetadataFrozen { .. })
        ));
        let huge = Tensor::<u8, 1, D>::empty([isize::MAX as usize], device)?;
        assert!(matches!(huge.into_element::<u16>(), Err(Error::Overflow { .. })));
        Ok(())
    }
    use rankform::MetadataLock;
    on_devices!(check);

    let x = Tensor::<u8, 1>::from_slice(&[7; 8], [8], &Cpu).unwrap();
    let y = x.share_data();
    let mut flags = x.into_element::<bool>().unwrap();
    flags.resize([2]).unwrap();
    assert!(flags.to_vec().is_err(), "bytes of another type are never read");
    flags.mutable_data().unwrap();
    assert_eq!((flags.to_vec().unwrap(), y.to_vec().unwrap()), (vec![false; 2], vec![7; 8]));
    assert_eq!(y.into_element::<bool>().unwrap().to_vec().unwrap(), [false; 8]);

    let mut pending = Tensor::<f64, 1>::zeros([4], &Cpu).unwrap();
    pending.resize([8]).unwrap();
    assert_eq!(
        pending.into_element::<f32>().unwrap().to_vec().unwrap(),
        [0.0; 8],
        "what was too small for f64 serves f32"
    );
}

#[test]
fn a_vector_whose_element_type_was_changed_is_given_back_as_a_copy() {
    let x = Tensor::from_vec(vec![1.0f64, 2.0], [2]).unwrap().into_element::<Complex<f32>>().unwrap();
    assert_eq!(x.capacity(), 2);
    assert_eq!(x.into_vec().unwrap(), [Complex::new(0.0f32, 0.0); 2]);
    let x = Tensor::from_vec(vec![1.0f64, 2.0], [2]).unwrap();
    let start = x.raw_ptr() as usize;
    let back = x.into_element::<u64>().unwrap().into_vec().unwrap();
    assert_eq!((back.as_ptr() as usize, back), (start, vec![0; 2]), "of one layout: without a copy");
}

/// Counts live values; panics at the k-th clone or drop.
#[derive(Default)]
struct World {
    alive: AtomicIsize,
    clones: AtomicUsize,
    drops: AtomicUsize,
    fail_clone: usize,
    fail_drop: usize,
}

struct Counted(Arc<World>);

impl Counted {
    fn new(world: &Arc<World>) -> Self {
        world.alive.fetch_add(1, SeqCst);
        Counted(world.clone())
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        assert_ne!(self.0.clones.fetch_add(1, SeqCst) + 1, self.0.fail_clone, "told to");
        Counted::new(&self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
        assert_ne!(self.0.drops.fetch_add(1, SeqCst) + 1, self.0.fail_drop, "told to");
    }
}

#[test]
fn elements_with_constructors_and_destructors_are_made_and_dropped_once() {
    let world = Arc::new(World::default());
    let make = |n| (0..n).map(|_| Counted::new(&world)).collect::<Vec<_>>();
    let alive = || world.alive.load(SeqCst);
    let x = Tensor::from_vec(make(6), [2, 3]).unwrap();
    assert_eq!((alive(), x.numel()), (6, 6));
    let row = x.share_data().into_slice((1, ..)).unwrap();
    drop(x);
    assert_eq!(alive(), 6, "the memory lives as long as its last handle");
    let clones = row.into_vec().unwrap();
    assert_eq!((clones.len(), alive()), (3, 3));
    drop(clones);
    let whole = Tensor::from_vec(make(4), [4]).unwrap().into_vec().unwrap();
    assert_eq!(
        (whole.len(), alive(), world.clones.load(SeqCst)),
        (4, 4, 3),
        "the only handle gives its vector back"
    );
    drop(whole);
    assert!(Tensor::from_vec(make(5), [2, 2]).is_err());
    assert_eq!(alive(), 0, "also those of a refused vector");
    std::thread::spawn({
        let x = Tensor::from_vec(make(2), [2]).unwrap();
        move || drop(x)
    })
    .join()
    .unwrap();
    assert_eq!((alive(), Tensor::from_vec(Vec::<Counted>::new(), [0, 2]).unwrap().numel()), (0, 0));
}

#[test]
fn counts_balance_when_the_kth_clone_or_drop_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let attempts = (1..=8).flat_map(|k| [(k, 0), (0, k)]).map(|(fail_clone, fail_drop)| {
        let world = Arc::new(World { fail_clone, fail_drop, ..World::default() });
        let x = Tensor::from_vec((0..6).map(|_| Counted::new(&world)).collect(), [6]).unwrap();
        let y = x.share_data();
        let result = catch_unwind(AssertUnwindSafe(move || {
            let clones = y.into_vec(); // shared: six clones
            drop((clones, x)); // twelve drops
        }));
        (fail_clone, fail_drop, result.is_err(), world.alive.load(SeqCst), Arc::strong_count(&world))
    });
    let attempts: Vec<_> = attempts.collect();
    std::panic::set_hook(hook);
    for (fail_clone, fail_drop, panicked, alive, references) in attempts {
        assert_eq!(
            panicked,
            (1..=6).contains(&fail_clone) || fail_drop > 0,
            "clone {fail_clone}, drop {fail_drop}"
        );
        assert_eq!((alive, references), (0, 1), "clone {fail_clone}, drop {fail_drop}");
    }
}

// ---------------------------------------------------------------- sizes

#[test]
fn extend_costs_amortised_constant_time_and_keeps_elements() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 2, D>::new(device)?;
        x.resize([0, 3])?;
        let mut capacities = vec![x.capacity()];
        for rows in 1..=10_000 {
            x.extend(1, 50)?;
            assert_eq!((x.size(), x.stride(), x.is_allocated()), (dim![rows, 3], Stride([3, 1]), true));
            if *capacities.last().unwrap() != x.capacity() {
                capacities.push(x.capacity());
            }
        }
        assert!(capacities.len() < 30, "log₁.₅ 10 000 ≈ 23 allocations: {capacities:?}");
        assert!(x.capacity() <= 15_000 * 3);
        Ok(())
    }
    on_devices!(check);

    let mut x = Tensor::<i32, 2>::new(&Cpu).unwrap();
    x.resize([0, 2]).unwrap();
    for row in 0..100 {
        x.extend(1, 30).unwrap();
        assert_eq!((x[[row, 0]], x[[row, 1]]), (0, 0), "new elements read 0");
        x.mutable_data().unwrap()[[row, 1]] = row as i32;
    }
    assert_eq!(x.to_vec().unwrap(), (0..100).flat_map(|row| [0, row]).collect::<Vec<_>>());
}

#[test]
fn extend_grows_by_percent_of_the_first_axis_and_at_least_by_the_need() {
    // (rows, n, percent, capacity in rows), by Caffe2's rule max(rows + n, ⌈rows · (1 + percent/100)⌉)
    for (rows, n, percent, expected) in [
        (10, 1, 0, 11),
        (10, 1, 50, 15),
        (10, 7, 50, 17),
        (10, 1, 41, 15),
        (3, 1, 1, 4),
        (0, 2, 100, 2),
        (8, 1, usize::MAX, 9),
    ] {
        let mut x = Tensor::<i32, 2, Meta>::zeros([rows, 2], &Meta::new()).unwrap();
        x.extend(n, percent).unwrap();
        assert_eq!((x.size(), x.capacity()), (dim![rows + n, 2], expected * 2), "{rows} {n} {percent}");
    }
}

#[test]
fn extend_zeroes_the_old_contents_of_the_memory() {
    let mut x = tensor([4, 2]);
    x.shrink_to(1).unwrap();
    x.extend(2, 0).unwrap();
    assert_eq!(
        (x.to_vec().unwrap(), x.capacity()),
        (vec![1, 2, 0, 0, 0, 0], 8),
        "no allocation, no old elements"
    );
    let mut part = tensor([5, 2]).into_slice((1..3, ..)).unwrap();
    part.extend(1, 0).unwrap();
    assert_eq!((part.to_vec().unwrap(), part.layout().offset()), (vec![3, 4, 5, 6, 0, 0], 2));
    part.extend(2, 0).unwrap(); // rows 1..6 of 5: new memory
    assert_eq!((part.to_vec().unwrap(), part.layout().offset()), (vec![3, 4, 5, 6, 0, 0, 0, 0, 0, 0], 0));
}

#[test]
fn extend_is_refused_when_shared_or_not_contiguous_and_waits_with_a_waiting_tensor() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 2, D>::zeros([2, 3], device)?;
        let y = x.share_data();
        assert!(matches!(x.extend(1, 50), Err(Error::Shared { op: "extend", handles: 2 })));
        drop(y);
        let mut t = x.into_transposed()?;
        assert!(matches!(t.extend(1, 50), Err(Error::NeedsCopy { op: "extend", .. })));
        assert_eq!((t.size(), t.capacity()), (dim![3, 2], 6));
        let mut waiting = Tensor::<i32, 2, D>::empty([2, 3], device)?;
        waiting.extend(1, 50)?;
        assert_eq!((waiting.size(), waiting.is_allocated(), waiting.capacity()), (dim![3, 3], false, 0));
        waiting.mutable_data()?;
        waiting.extend(0, 50)?;
        assert_eq!((waiting.size(), waiting.capacity()), (dim![3, 3], 9));
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn shrink_to_keeps_the_capacity_and_is_refused_when_shared() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 2, D>::zeros([4, 3], device)?;
        x.set_resize_policy(ResizePolicy { keep_on_shrink: false, max_kept_bytes: 0 });
        let start = x.raw_ptr();
        x.shrink_to(2)?;
        assert_eq!(
            (x.size(), x.capacity(), x.raw_ptr()),
            (dim![2, 3], 12, start),
            "whatever the policy of resize"
        );
        assert_eq!(x.shrink_to(3).unwrap_err().to_string(), "shrink_to: 0..3 does not fit axis 0 of size 2");
        let y = x.share_data();
        assert!(matches!(x.shrink_to(1), Err(Error::Shared { .. })));
        drop(y);
        x.shrink_to(0)?;
        assert_eq!((x.size(), x.capacity()), (dim![0, 3], 12));
        Ok(())
    }
    on_devices!(check);
    let mut x = tensor([3, 2]);
    x.shrink_to(2).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1, 2, 3, 4]);
    let mut columns = tensor([3, 2]).into_transposed().unwrap();
    columns.shrink_to(1).unwrap();
    assert_eq!(columns.to_vec().unwrap(), [1, 3, 5], "of any layout");
}

#[test]
fn reserve_makes_room_and_keeps_elements_and_sizes() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 2, D>::zeros([2, 3], device)?;
        x.reserve([100, 3])?;
        let start = x.raw_ptr();
        assert_eq!((x.size(), x.capacity()), (dim![2, 3], 300));
        for _ in 0..98 {
            x.extend(1, 0)?;
        }
        x.reserve([1, 1])?;
        assert_eq!((x.size(), x.raw_ptr(), x.capacity()), (dim![100, 3], start, 300));
        let y = x.share_data();
        assert!(matches!(x.reserve([101, 3]), Err(Error::Shared { .. })));
        assert!(x.reserve([99, 3]).is_ok(), "nothing to do");
        drop(y);
        let mut waiting = Tensor::<i32, 2, D>::empty([4, 4], device)?;
        waiting.reserve([1, 2])?;
        assert_eq!((waiting.is_allocated(), waiting.capacity()), (true, 16));
        assert!(matches!(x.reserve([usize::MAX, 3]), Err(Error::Overflow { .. })));
        Ok(())
    }
    on_devices!(check);
    let mut x = tensor([2, 3]).into_transposed().unwrap();
    x.reserve([4, 4]).unwrap();
    assert_eq!(
        (x.to_vec().unwrap(), x.stride()),
        (vec![1, 4, 2, 5, 3, 6], Stride([1, 3])),
        "a dense layout stays"
    );
    let mut x = tensor([1, 3]).into_broadcast([2, 3]).unwrap();
    x.reserve([4, 4]).unwrap();
    assert_eq!((x.to_vec().unwrap(), x.stride()), (vec![1, 2, 3, 1, 2, 3], Stride([3, 1])));
}

#[test]
fn resize_keeps_memory_on_shrinking_as_the_policy_says() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let sized = |keep_on_shrink, max_kept_bytes, to: usize| -> Result<Tensor<i32, 1, D>> {
            let mut x = Tensor::<i32, 1, D>::zeros([100], device)?;
            x.set_resize_policy(ResizePolicy { keep_on_shrink, max_kept_bytes });
            x.resize([to])?;
            Ok(x)
        };
        assert_eq!(Tensor::<i32, 1, D>::zeros([1], device)?.resize_policy(), ResizePolicy::default());
        for (keep, max, to, capacity) in [
            (true, usize::MAX, 1, 100),
            (true, 396, 1, 100),
            (true, 395, 1, 0),
            (true, 395, 2, 100),
            (false, usize::MAX, 99, 0),
            (false, usize::MAX, 100, 100),
            (false, 0, 101, 100), // does not shrink: kept until there is new memory
            (false, 0, 0, 0),
        ] {
            let mut x = sized(keep, max, to)?;
            assert_eq!((x.capacity(), x.size()), (capacity, dim![to]), "{keep} {max} {to}");
            x.mutable_data()?;
            assert_eq!(x.capacity(), capacity.max(to));
            assert_eq!(x.resize_policy().keep_on_shrink, keep, "new memory inherits the policy");
        }
        let mut x = Tensor::<i32, 1, D>::zeros([100], device)?;
        let y = x.share_data();
        x.set_resize_policy(ResizePolicy { keep_on_shrink: false, max_kept_bytes: 0 });
        x.resize([10])?;
        assert_eq!(
            (x.capacity(), y.capacity(), y.use_count(), y.is_allocated()),
            (0, 100, 1, true),
            "lets go of its own share"
        );
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn resize_of_a_part_stays_at_its_offset_while_the_memory_serves() {
    let mut part = tensor([10]).into_slice((4..10,)).unwrap();
    part.resize([3]).unwrap();
    assert_eq!(part.to_vec().unwrap(), [5, 6, 7]);
    part.resize([6]).unwrap();
    assert_eq!(part.to_vec().unwrap(), [5, 6, 7, 8, 9, 10]);
    part.resize([7]).unwrap();
    assert_eq!(
        (part.layout().offset(), part.is_allocated()),
        (0, true),
        "beyond that at the start of the memory"
    );
    part.resize([11]).unwrap();
    assert!(!part.is_allocated());
}

#[test]
fn reshape_keeps_the_elements_and_refuses_another_numel() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 3, D>::zeros([2, 3, 4], device)?;
        let y = x.share_data();
        x.reshape_in_place([1, 24, 1])?;
        assert_eq!(
            (x.size(), x.raw_ptr(), y.size(), x.is_contiguous()),
            (dim![1, 24, 1], y.raw_ptr(), dim![2, 3, 4], true)
        );
        assert!(matches!(x.reshape_in_place([5, 5, 1]), Err(Error::Length { expected: 25, found: 24, .. })));
        assert!(matches!(x.reshape_in_place([usize::MAX, 5, 1]), Err(Error::Overflow { .. })));
        let mut t = y.into_transposed()?;
        assert!(matches!(t.reshape_in_place([24, 1, 1]), Err(Error::NeedsCopy { .. })));
        let mut waiting = Tensor::<i32, 2, D>::empty([2, 3], device)?;
        waiting.reshape_in_place([6, 1])?;
        assert_eq!((waiting.size(), waiting.is_allocated()), (dim![6, 1], false));
        Ok(())
    }
    on_devices!(check);
    let mut part = tensor([4, 2]).into_slice((1..3, ..)).unwrap();
    part.reshape_in_place([1, 4]).unwrap();
    assert_eq!(part.to_vec().unwrap(), [3, 4, 5, 6]);
}

#[test]
fn an_undefined_tensor_has_no_sizes_and_no_memory() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 2, D>::new(device)?;
        assert!(x.is_undefined() && x.is_empty() && !x.is_allocated());
        assert_eq!(x.mutable_data()?.numel(), 0);
        assert_eq!((x.copy()?.numel(), x.capacity()), (0, 0));
        x.resize([1, 1])?;
        assert!(!x.is_undefined());
        x.mutable_data()?;
        x.resize([0, 0])?;
        assert!(!x.is_undefined(), "it has memory");
        x.release_memory()?;
        assert!(x.is_undefined());
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn scalar_tensors_have_rank_0_and_one_element() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 0, D>::new(device)?;
        assert_eq!((x.size(), x.numel(), x.is_allocated(), x.is_undefined()), (dim![], 1, false, false));
        x.mutable_data()?;
        assert_eq!((x.capacity(), x.is_contiguous(), x.is_allocated()), (1, true, true));
        x.resize([])?;
        x.reshape_in_place([])?;
        x.set_sizes_and_strides([], [])?;
        assert!(matches!(x.resize_axis(0, 1), Err(Error::Axis { .. })));
        let mut one = x.share_as([1])?;
        assert!(matches!(one.extend(1, 0), Err(Error::Shared { .. })));
        Ok(())
    }
    on_devices!(check);
    let x = Tensor::<f32, 0>::from_slice(&[2.5], [], &Cpu).unwrap();
    assert_eq!((x.item().unwrap(), x[[]]), (2.5, 2.5));
}

#[test]
fn a_context_is_created_from_a_tensors_device() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 1, D>::zeros([2], device)?;
        let y = Tensor::<i64, 3, D>::zeros([1, 2, 3], x.device())?;
        assert_eq!(y.device(), device);
        x.device().synchronize()?;
        x.device().check()
    }
    on_devices!(check);
}

#[test]
fn int8_tensors_have_a_scale_and_a_zero_point() {
    use rankform::quantized::Quantization;
    use rankform::{QUInt8, QuantizedTensor};
    let (x, w) = (Tensor::from([[1.0_f32, -1.0, 0.5]]), Tensor::from([[2.0_f32], [1.0], [-4.0]]));
    let qx = QuantizedTensor::<QUInt8, 2>::quantize(&x, Quantization::per_tensor(0.5, 128).unwrap()).unwrap();
    let qw = QuantizedTensor::<QUInt8, 2>::quantize(&w, Quantization::per_tensor(1.0, 10).unwrap()).unwrap();
    assert_eq!(qx.int_repr().to_vec().unwrap(), [130, 126, 129]);
    assert_eq!((qx.quantization().scales(), qx.quantization().zero_points()), (&[0.5][..], &[128.0][..]));
    assert_eq!((qx.dequantize().unwrap(), qw.dequantize().unwrap()), (x, w));
    let y: QuantizedTensor<QUInt8, 2> = qx.matmul(&qw, Quantization::per_tensor(0.25, 100).unwrap()).unwrap();
    assert_eq!(
        (y.int_repr().to_vec().unwrap(), y.dequantize().unwrap().to_vec().unwrap()),
        (vec![96], vec![-1.0])
    );
}
