//! PaddlePaddle's "Tensor Design", ability by ability; the table of rows is in `docs/parity.md`.
//!
//! Not here because they are compile errors (`tests/compile_fail/`): `x = y` as a copy (a tensor is not
//! `Clone`), an operator on operands of two kinds of devices.

use rankform::device::{Deleter, Init};
use rankform::{delegate_device, prelude::*};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Host memory with a number, as CUDA devices have one, that counts its blocks.
#[derive(Clone, Debug)]
struct Numbered {
    id: usize,
    blocks: Arc<AtomicUsize>,
}

impl Numbered {
    fn new(id: usize) -> Self {
        Numbered { id, blocks: Arc::default() }
    }
    fn blocks(&self) -> usize {
        self.blocks.load(Ordering::SeqCst)
    }
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

struct Block(<Cpu as Device>::Block, Arc<AtomicUsize>);
impl Drop for Block {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Evaluates a call on the CPU.
macro_rules! on_cpu {
    ($numbered:expr, |$cpu:ident| $call:expr) => {{
        let $cpu = Cpu;
        $call
    }};
}

// SAFETY: everything is done by `Cpu`, which keeps the contract.
unsafe impl Device for Numbered {
    type Block = Block;
    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Block> {
        let block = Cpu.allocate(nbytes, fresh)?;
        self.blocks.fetch_add(1, Ordering::SeqCst);
        Ok(Block(block, self.blocks.clone()))
    }
    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Block> {
        // SAFETY: the caller's promise.
        let block = unsafe { Cpu.external_block(address, nbytes, free)? };
        self.blocks.fetch_add(1, Ordering::SeqCst);
        Ok(Block(block, self.blocks.clone()))
    }
    fn address(block: &Block) -> *mut u8 {
        Cpu::address(&block.0)
    }
    delegate_device! { on_cpu: write read copy map reduce contract scan gather scatter compact sort }
}

/// Ambiguous, hence a compile error, for a type that is `Clone`.
trait NotClone<A> {
    fn check() {}
}
impl<T> NotClone<()> for T {}
impl<T: Clone> NotClone<u8> for T {}

/// The same claims on every device.
macro_rules! on_devices {
    ($check:ident) => {
        $check(&Cpu).unwrap();
        $check(&Meta::new()).unwrap();
        $check(&Numbered::new(0)).unwrap();
    };
}

#[test]
fn allocation_is_raii_empty_owning_not_copyable_with_ptr_end_size_device() {
    <Allocation<Cpu> as NotClone<_>>::check();
    <Tensor<f32, 2> as NotClone<_>>::check();
    let device = Numbered::new(3);
    {
        let empty = Allocation::new(&device, 0).unwrap();
        assert_eq!((empty.size(), empty.end()), (0, empty.ptr()));
        let owning = Allocation::new(&device, 2000).unwrap();
        assert_eq!(owning.end() as usize - owning.ptr() as usize, 2000);
        assert_eq!((owning.size(), owning.device(), owning.ptr() as usize % 64), (2000, &device, 0));
        assert_eq!(device.blocks(), 2);
        let moved = owning;
        assert_eq!((moved.size(), device.blocks()), (2000, 2));
    }
    assert_eq!(device.blocks(), 0, "each block is freed once, at the end of its scope");

    let freed = Arc::new(Mutex::new(vec![]));
    let mut bytes = [7u8; 16];
    let log = freed.clone();
    // SAFETY: the array outlives the block, and nobody else uses it meanwhile.
    let borrowing = unsafe {
        Allocation::external(&Cpu, bytes.as_mut_ptr(), 16, move |p, n| {
            log.lock().unwrap().push((p as usize, n))
        })
    };
    let start = bytes.as_ptr() as usize;
    assert_eq!((borrowing.as_ref().unwrap().ptr() as usize, borrowing.as_ref().unwrap().size()), (start, 16));
    drop(borrowing);
    assert_eq!(*freed.lock().unwrap(), [(start, 16)]);

    let shapes = Allocation::new(&Meta::new(), usize::MAX / 2).unwrap();
    let others = Allocation::new(&Meta::new(), 1).unwrap();
    assert_eq!(
        (shapes.ptr() == others.ptr(), shapes.size()),
        (false, usize::MAX / 2),
        "an address each, with nothing behind it"
    );
    assert_eq!(
        Allocation::new(&Cpu, isize::MAX as usize).unwrap_err(),
        Error::OutOfMemory { op: "allocate", nbytes: isize::MAX as usize }
    );
}

#[test]
fn devices_compare_equal_by_id() {
    let (a, b) = (Numbered::new(0), Numbered::new(1));
    assert!(
        a == Numbered::new(0) && a != b && a == a.clone() && Cpu == Cpu && Meta::new() == Meta::tracing()
    );
    let x = Tensor::<f32, 1, _>::zeros([2], &a).unwrap();
    let y = Tensor::<f32, 1, _>::zeros([2], &b).unwrap();
    assert!(matches!(x.maximum(&y), Err(Error::Device { .. })), "one type, two devices: found at run time");
    assert!(x.maximum(&y.to(&a).unwrap()).is_ok());
}

#[test]
fn tensor_new_is_empty() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 3, D>::new(device)?;
        assert_eq!((x.size(), x.numel(), x.nbytes(), x.capacity()), (dim![0, 0, 0], 0, 0, 0));
        assert!(x.is_empty() && x.is_undefined() && !x.is_allocated() && x.is_contiguous() && x.is_unique());
        assert_eq!(x.device(), device);
        Ok(())
    }
    on_devices!(check);
    assert_eq!(Tensor::<f32, 3>::new(&Cpu).unwrap().to_vec().unwrap(), [0f32; 0]);
}

#[test]
fn tensor_new_with_dim_and_device() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let zeros = Tensor::<i32, 2, D>::zeros([2, 3], device)?;
        assert_eq!(
            (zeros.size(), zeros.stride(), zeros.numel(), zeros.nbytes()),
            (dim![2, 3], Stride([3, 1]), 6, 24)
        );
        assert!(zeros.is_allocated() && zeros.device() == device);
        let lazy = Tensor::<i32, 2, D>::empty(dim![2, 3], device)?;
        assert_eq!((lazy.size(), lazy.capacity(), lazy.is_allocated()), (dim![2, 3], 0, false));
        let like = lazy.zeros_like()?;
        assert_eq!((like.size(), like.is_allocated(), like.device()), (dim![2, 3], true, device));
        let huge = [usize::MAX, 2];
        assert!(matches!(Tensor::<i32, 2, D>::zeros(huge, device), Err(Error::Overflow { .. })));
        assert!(matches!(Tensor::<i32, 2, D>::empty(huge, device), Err(Error::Overflow { .. })));
        Ok(())
    }
    on_devices!(check);
    assert_eq!(
        Tensor::<i32, 2>::zeros([2, 3], &Cpu).unwrap().zeros_like().unwrap().to_vec().unwrap(),
        [0; 6]
    );
}

#[test]
fn tensor_from_another_tensor_of_equal_numel_and_other_rank_shares_memory_checked() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f64, 2, D>::zeros([4, 6], device)?;
        let y: Tensor<f64, 3, D> = x.share_as([2, 3, 4])?;
        let z: Tensor<f64, 1, D> = y.share_as([24])?;
        assert_eq!((z.use_count(), z.raw_ptr(), z.size()), (3, x.raw_ptr(), dim![24]));
        let wrong = x.share_as([5, 5, 1]).err().unwrap();
        assert_eq!(wrong.to_string(), "share_as: [5, 5, 1] holds 25 elements, found 24 of sizes [4, 6]");
        assert_eq!(x.use_count(), 3, "a refusal shares nothing");
        assert!(matches!(
            Tensor::<f64, 2, D>::empty([4, 6], device)?.share_as([24]),
            Err(Error::Unallocated { .. })
        ));
        Ok(())
    }
    on_devices!(check);
    let x = Tensor::<i32, 1>::from_slice(&[1, 2, 3, 4, 5, 6], [6], &Cpu).unwrap();
    assert_eq!(x.share_as([3, 2]).unwrap()[[2, 1]], 6);
}

#[test]
fn raw_ptr_size_numel_stride_index_resize_reshape_mutable_data() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 2, D>::new(device)?;
        x.resize([3, 4])?;
        assert_eq!(
            (x.size(), x.numel(), x.stride(), x.is_allocated()),
            (dim![3, 4], 12, Stride([4, 1]), false)
        );
        assert!(matches!(x.view_mut(), Err(Error::Unallocated { .. })));
        let mut data = x.mutable_data()?;
        assert_eq!((data.size(), data.raw_ptr()), (dim![3, 4], data.as_view().raw_ptr().cast_mut()));
        assert_eq!((x.capacity(), x.is_allocated()), (12, true));
        let before = x.raw_ptr();
        x.reshape_in_place([6, 2])?;
        assert_eq!((x.size(), x.stride(), x.raw_ptr()), (dim![6, 2], Stride([2, 1]), before));
        let wrong = x.reshape_in_place([5, 2]).unwrap_err();
        assert_eq!(wrong.to_string(), "reshape_in_place: [5, 2] holds 10 elements, found 12 of sizes [6, 2]");
        x.resize([2, 2])?;
        assert_eq!((x.mutable_data()?.raw_ptr().cast_const(), x.capacity()), (before, 12));
        assert!(matches!(x.resize([usize::MAX, 8]), Err(Error::Overflow { .. })));
        assert_eq!(
            (x.size(), x.raw_ptr(), x.is_allocated()),
            (dim![2, 2], before, true),
            "after an error nothing has changed"
        );
        Ok(())
    }
    on_devices!(check);

    let mut x = Tensor::<i32, 2>::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Cpu).unwrap();
    // SAFETY: the address of the first of six elements, which nobody writes now.
    assert_eq!(unsafe { *x.raw_ptr().add(5) }, 6);
    assert_eq!((x[[1, 0]], x.get([1, 3]), x.get([2, 0])), (4, None, None));
    x.mutable_data().unwrap()[[1, 0]] = 40;
    assert_eq!(x[[1, 0]], 40);
    x.resize([3, 3]).unwrap();
    assert_eq!(x.get([0, 0]), None);
    assert!(
        matches!(x.to_vec(), Err(Error::Unallocated { .. }))
            && matches!(x.maximum(&x), Err(Error::Unallocated { .. }))
    );
    x.mutable_data().unwrap();
    assert_eq!(x.to_vec().unwrap(), [0; 9], "new memory reads 0");
}

#[test]
fn dim_head_tail_make_dim_linearize_product_contained_prefix_products() {
    let size = dim![2, 3, 4];
    assert_eq!(size, Dim::from([2, 3, 4]));
    assert_eq!(
        (size.head(), size.tail(), size.tail().tail(), size.tail().tail().tail()),
        (2, dim![3, 4], dim![4], dim![])
    );
    assert_eq!(
        (size.checked_numel(), dim![].checked_numel(), dim![7, 0].checked_numel()),
        (Some(24), Some(1), Some(0))
    );
    assert_eq!(dim![usize::MAX, 2].checked_numel(), None);
    for (number, index) in size.indices().enumerate() {
        assert_eq!((size.linearize(index), size.delinearize(number)), (number, Dim(index)));
        assert!(size.contains(index));
    }
    for outside in [[2, 0, 0], [0, 3, 0], [0, 0, 4], [usize::MAX; 3]] {
        assert!(!size.contains(outside));
    }
    assert_eq!((size.prefix_products(), dim![5].prefix_products()), (dim![1, 2, 6], dim![1]));
    assert_eq!((size[1], size.to_string(), size < dim![2, 4, 0]), (3, "[2, 3, 4]".to_string(), true));
}

#[test]
fn copy_makes_new_memory_with_the_same_elements() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<i16, 2, D>::zeros([2, 3], device)?;
        let y = x.copy()?;
        assert_eq!((x.use_count(), y.use_count(), y.size(), y.device()), (1, 1, x.size(), device));
        assert!(matches!(Tensor::<i16, 2, D>::empty([2, 3], device)?.copy(), Err(Error::Unallocated { .. })));
        Ok(())
    }
    on_devices!(check);
    let x = Tensor::<i16, 2>::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Cpu).unwrap();
    let mut y = x.copy().unwrap();
    y.mutable_data().unwrap()[[0, 0]] = 9;
    assert_eq!((x[[0, 0]], y[[0, 0]], x.raw_ptr() == y.raw_ptr()), (1, 9, false));
    let mut z = Tensor::<i16, 2, _>::zeros([2, 3], &Numbered::new(1)).unwrap();
    x.copy_to(&mut z).unwrap();
    assert_eq!(z.to_vec().unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn share_data_makes_another_handle_on_the_same_memory() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<u8, 2, D>::zeros([2, 3], device)?;
        let y = x.share_data();
        assert_eq!((x.use_count(), y.use_count(), y.raw_ptr(), y.layout()), (2, 2, x.raw_ptr(), x.layout()));
        assert!(matches!(x.mutable_data(), Err(Error::Shared { op: "mutable_data", handles: 2 })));
        drop(y);
        assert!(x.mutable_data().is_ok());
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn the_last_handle_frees_the_memory() {
    let device = Numbered::new(0);
    let x = Tensor::<f32, 1, _>::zeros([100], &device).unwrap();
    let handles: Vec<_> = (0..10).map(|_| x.share_data()).collect();
    assert_eq!((device.blocks(), x.use_count()), (1, 11));
    drop(x);
    assert_eq!(device.blocks(), 1);
    drop(handles);
    assert_eq!(device.blocks(), 0);
}

#[test]
fn operators_run_on_one_kind_of_device_and_return_on_it() {
    // Two kinds in one operator do not compile; here: every kind runs the same operator.
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 2, D>::zeros([2, 3], device)?;
        let y: Tensor<f32, 2, D> = x.maximum(&x)?;
        assert_eq!((y.device(), y.size()), (device, dim![2, 3]));
        Ok(())
    }
    on_devices!(check);
}
