//! Work that is queued on a GPU: its memory, its order on several streams, its deferred errors; graphs,
//! asynchronous copies, kernels from CUDA source. Without a GPU the tests say that they were skipped.
//!
//! The simulator checks the order of every kernel's uses of memory among all streams, and fails where a test
//! plans it (`cudaSimFail`). A test that loses a GPU has a GPU of its own.

use crate::{gpu, numbers, on_gpu};
use rankform::cuda::{Input, KernelSource, LaunchConfig, Output, Scalar};
use rankform::kernel::Reducer;
use rankform::prelude::*;
use rankform::{AnyDevice, Complex, Cuda};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Plans a failure of the simulator's: of allocations (0), or of kernels when they run (1). False on a real
/// GPU.
fn fail(gpu: &Cuda, kind: i32, skip: usize, times: usize, status: i32) -> bool {
    // SAFETY: the driver, which is loaded, or the simulator in its place; the function has this type there.
    unsafe {
        let Ok(driver) = libloading::Library::new("libcuda.so.1") else { return false };
        let Ok(plan) =
            driver.get::<unsafe extern "C" fn(i32, i32, usize, usize, i32) -> i32>(b"cudaSimFail\0")
        else {
            println!("skipped: failures can be planned on the simulator only");
            return false;
        };
        plan(gpu.ordinal() as i32, kind, skip, times, status) == 0
    }
}
fn is_simulated() -> bool {
    // SAFETY: as in `fail`; the function is not called.
    unsafe {
        libloading::Library::new("libcuda.so.1")
            .is_ok_and(|driver| driver.get::<()>(b"cudaSimFail\0").is_ok())
    }
}
const ALLOCATIONS: i32 = 0;
const KERNELS: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const LAUNCH_FAILED: i32 = 719;

// ------------------------------------------------------------ memory

on_gpu!(memory_is_counted_kept_and_given_back, |gpu| {
    gpu.trim()?;
    let before = gpu.memory();
    assert_eq!((before.live, before.kept), (0, 0));
    let x = Tensor::<f32, 1, Cuda>::zeros([4 << 20], gpu)?;
    let live = gpu.memory().live;
    assert!(live >= 16 << 20, "{live}");
    drop(x);
    assert_eq!((gpu.memory().live, gpu.memory().kept), (0, live));
    let y = Tensor::<f32, 1, Cuda>::full([4 << 20], 1.0, gpu)?;
    let now = gpu.memory();
    assert_eq!(
        (now.kept, now.fresh - before.fresh, now.reused - before.reused),
        (0, 1, 1),
        "the same block again"
    );
    drop(y);
    assert_eq!((gpu.trim()?, gpu.memory().kept), (live, 0));
});

on_gpu!(beyond_the_limit_kept_memory_goes_first_and_then_there_is_none, |gpu| {
    gpu.trim()?;
    let x = Tensor::<u8, 1, Cuda>::zeros([12 << 20], gpu)?;
    gpu.set_memory_limit(36 << 20);
    assert_eq!(gpu.memory().limit, 36 << 20);
    let y = Tensor::<u8, 1, Cuda>::zeros([12 << 20], gpu)?;
    drop(y);
    // The kept block of 12 MiB does not serve 24, and is given back.
    let z = Tensor::<u8, 1, Cuda>::zeros([24 << 20], gpu)?;
    assert_eq!(gpu.memory().kept, 0);
    let beyond = Tensor::<u8, 1, Cuda>::zeros([1], gpu).err();
    gpu.set_memory_limit(usize::MAX);
    assert_eq!(beyond, Some(Error::OutOfMemory { op: "allocate", nbytes: 1 }));
    assert_eq!(
        (x.add(1)?.sum(All)?.item()?, z.sum(All)?.item()?),
        (0, 0),
        "12 · 2²⁰ ones in a byte, and zeros"
    );
});

on_gpu!(large_copies_of_host_memory_arrive, |gpu| {
    // More than all staging buffers hold, and not a multiple of one.
    let rows = 1 << 11;
    let x = Tensor::from_fn([rows, 2500], |[i, j]| (i * 2500 + j) as f32, &Cpu)?;
    let y = x.to(gpu)?;
    let back = y.to(&Cpu)?;
    assert!(back.to_vec()? == x.to_vec()? && y.to_vec()? == x.to_vec()?);
    // Every second column, a part of the rows, and another order of the axes.
    let part = x.view().slice((3.., (..).step(2)))?.transposed();
    assert!(part.to(gpu)?.to_vec()? == part.to_vec()?);
    let part = y.view().slice((3.., (..).step(2)))?.transposed();
    assert!(part.to(&Cpu)?.to_vec()? == part.to_vec()?);
    assert_eq!(Tensor::<f32, 2>::zeros([0, 3], &Cpu)?.to(gpu)?.to(&Cpu)?.size(), [0, 3]);
});

on_gpu!(products_use_tf32_only_where_a_program_asks, |gpu| {
    // 1 + 2⁻¹² is a number of f32 and not of TF32.
    let x = Tensor::full([4, 4], 1.0 + 2f32.powi(-12), gpu)?;
    let exact = 4.0 * (1.0 + 2f32.powi(-12)).powi(2);
    // cuBLAS may use TF32, and the simulator does.
    let rounded = match is_simulated() {
        true => 4.0,
        false => gpu.with_tf32(true).scope(|| x.matmul(&x))?.to_vec()?[0],
    };
    assert!((rounded - exact).abs() <= 4.0 * 2f32.powi(-10));
    let product = |x: &Tensor<f32, 2, Cuda>| x.matmul(x)?.to_vec();
    let fast = gpu.with_tf32(true);
    assert_eq!(product(&x)?, [exact; 16]);
    assert_eq!(fast.scope(|| product(&x))?, [rounded; 16]);
    assert_eq!(fast.scope(|| gpu.scope(|| product(&x)))?, [exact; 16], "the inner scope decides");
    // A tensor keeps the setting of the device that it was made on, and so do results and further streams.
    for device in [fast.clone(), fast.stream()?] {
        let y = Tensor::full([4, 4], 1.0 + 2f32.powi(-12), &device)?;
        assert_eq!(product(&y.copy()?)?, [rounded; 16]);
        assert_eq!(y.matmul(&x)?.to_vec()?, [rounded; 16], "the first operand decides");
        assert_eq!(x.matmul(&y)?.to_vec()?, [exact; 16]);
        assert_eq!(device.with_tf32(false).scope(|| product(&y))?, [exact; 16]);
    }
    // A graph keeps the setting under which it was recorded.
    for (device, wanted) in [(&fast, rounded), (gpu, exact)] {
        let graph = device.capture(|| x.matmul(&x))?;
        fast.scope(|| graph.replay())?;
        assert_eq!(graph.value().to_vec()?, [wanted; 16]);
    }
    let wide = Tensor::full([4, 4], 1.0 + 2f64.powi(-30), &fast)?;
    assert_eq!(wide.matmul(&wide)?.to_vec()?, [4.0 * (1.0 + 2f64.powi(-30)).powi(2); 16], "f32 alone");
    let z = Tensor::full([2, 2], Complex::new(1.0 + 2f32.powi(-12), 0.0), &fast)?;
    assert!((z.matmul(&z)?.to_vec()?[3].re - exact / 2.0).abs() <= 2.0 * 2f32.powi(-10));
});

on_gpu!(each_allocation_that_fails_is_an_error_and_leaves_nothing, |gpu| {
    let x = Tensor::from_vec(numbers(300), [3, 100])?.to(gpu)?;
    let index = Tensor::from([2i64, 0]).to(gpu)?;
    let work = || -> Result<Vec<f32>> {
        let y = x.softmax(Axis::<1>)?.matmul(x.transposed())?;
        let sorted = y.index_select(Axis::<0>, &index)?.sort(Axis::<1>)?;
        sorted.exp()?.cumsum(Axis::<1>)?.sum(Axis::<0>)?.to_vec()
    };
    let expected = work()?;
    let live = gpu.memory().live;
    let mut failures = 0;
    for n in 0.. {
        gpu.trim()?;
        // The second attempt, after kept memory was given back, fails as well.
        if !fail(gpu, ALLOCATIONS, n, 2, OUT_OF_MEMORY) {
            return Ok(());
        }
        match work() {
            Err(Error::OutOfMemory { nbytes, .. }) => assert!(nbytes > 0),
            Err(other) => panic!("{other}"),
            Ok(result) => {
                assert_eq!(result, expected);
                break;
            }
        }
        failures += 1;
        assert_eq!(gpu.memory().live, live, "allocation {n}");
    }
    // In release builds one segment of the pool serves small blocks.
    assert!(failures > 5 || !cfg!(debug_assertions), "{failures}");
    while Tensor::<u8, 1, Cuda>::zeros([12345], gpu).is_err() {}
    assert_eq!(work()?, expected);
});

// ------------------------------------------------------------ order

on_gpu!(streams_wait_where_they_use_the_same_memory, |gpu| {
    let (a, b) = (gpu.stream()?, gpu.stream()?);
    assert_eq!(&a, gpu);
    let x = Tensor::from_vec(numbers(5000), [5000])?;
    let mut expected = x.copy()?;
    let mut y = x.to(gpu)?;
    for round in 0..6 {
        // Two streams read memory that a third has written; it writes where they have read; drops follow.
        let (e, s) = (a.scope(|| y.exp())?, b.scope(|| y.sin())?);
        y = gpu.scope(|| (e.lazy() * 0.0 + &s + &y).eval())?;
        drop(e);
        let noise = a.scope(|| Tensor::full([5000], round as f32, &a))?;
        b.scope(|| noise.lazy().abs().eval_into(&mut y.view_mut()?))?;
        b.scope(|| (y.lazy() + &s).eval_into(&mut noise.copy()?.view_mut()?))?;
        expected = expected.map(rankform::ops::Abs)?;
        expected.fill(round as f32)?;
    }
    assert_eq!(y.to_vec()?, expected.to_vec()?);
    let z = a.scope(|| y.copy())?;
    a.synchronize()?;
    assert_eq!(z.to_vec()?, y.to_vec()?);
});

on_gpu!(new_zeros_are_written_before_another_stream_uses_them, |gpu| {
    let stream = gpu.stream()?;
    for size in [1000, 100_000, 1 << 20] {
        gpu.trim()?; // new memory of the driver
        let mut x = Tensor::<f32, 1, Cuda>::zeros([size], gpu)?;
        let y = stream.scope(|| x.lazy().exp().eval())?;
        stream.scope(|| (y.lazy() + 1.0).eval_into(&mut x.view_mut()?))?;
        assert_eq!((y.max(All)?.item()?, x.min(All)?.item()?), (1.0, 2.0));
    }
});

on_gpu!(memory_released_by_one_stream_serves_another_in_order, |gpu| {
    gpu.trim()?;
    let streams = [gpu.clone(), gpu.stream()?, gpu.stream()?];
    let x = Tensor::from_vec(numbers(4096), [4096])?.to(gpu)?;
    let expected = x.lazy().square().eval()?.to_vec()?;
    let before = gpu.memory();
    for round in 0..30 {
        let (one, other) = (&streams[round % 3], &streams[(round + 1) % 3]);
        let y = one.scope(|| x.lazy().square().eval())?;
        // Used on another stream, and dropped while that work is queued.
        let z = other.scope(|| y.copy())?;
        drop(y);
        if round % 5 == 0 {
            assert_eq!(z.to_vec()?, expected);
        }
    }
    let after = gpu.memory();
    assert!(after.reused - before.reused > 40 && after.fresh - before.fresh < 20, "{before:?} {after:?}");
});

on_gpu!(threads_with_streams_of_their_own_share_a_gpu, |gpu| {
    let x = Arc::new(Tensor::from_vec(numbers(1000), [1000])?.to(gpu)?);
    let expected = x.exp()?.sum(All)?.item()?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (x, gpu) = (x.clone(), gpu.clone());
            scope.spawn(move || {
                let stream = gpu.stream().unwrap();
                for _ in 0..10 {
                    let y = stream.scope(|| x.exp()).unwrap();
                    assert_eq!(y.sum(All).unwrap().item().unwrap(), expected);
                }
            });
        }
    });
});

on_gpu!(an_adopted_block_is_given_back_once_after_its_work_and_not_in_a_child, |gpu| {
    let given = Arc::new(AtomicUsize::new(0));
    let adopt = |owner: &Tensor<f32, 1, Cuda>| {
        let (given, handle) = (given.clone(), owner.share_data());
        let address = owner.raw_ptr().cast_mut();
        let expected = address.addr();
        let free = move |at: *mut u8, nbytes: usize| {
            assert_eq!((at.addr(), nbytes), (expected, 400));
            given.fetch_add(1, SeqCst);
            drop(handle);
        };
        // SAFETY: the memory of `owner`, whose handle the deleter keeps; it is not written.
        unsafe { Tensor::<f32, 1, Cuda>::from_external(address, [100], gpu, free) }
    };
    let owner = Tensor::full([100], 2.0f32, gpu)?;
    let x = adopt(&owner)?;
    let y = x.exp()?;
    std::thread::spawn(move || drop(x)).join().unwrap();
    assert_eq!((given.load(SeqCst), y.to_vec()?[0]), (1, Tensor::full([1], 2.0f32, &Cpu)?.exp()?.item()?));
    #[cfg(target_os = "linux")]
    {
        let x = adopt(&owner)?;
        // SAFETY: the child touches this test's values only, and ends without cleaning up.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let refused = owner.exp().is_err_and(|error| error.to_string().contains("fork"));
                drop(x);
                libc::_exit(if refused && given.load(SeqCst) == 1 { 0 } else { 1 });
            }
            let mut status = 0;
            assert_eq!((libc::waitpid(child, &mut status, 0), status), (child, 0));
        }
        drop(x);
        assert_eq!(given.load(SeqCst), 2);
    }
    drop((owner, y));
});

// ------------------------------------------------------------ deferred errors

/// A GPU that a test may lose; `None` on a machine with real GPUs.
fn losable(ordinal: usize) -> Option<Cuda> {
    let gpu = gpu(ordinal)?;
    fail(&gpu, KERNELS, usize::MAX, 1, LAUNCH_FAILED).then_some(gpu)
}

#[test]
fn a_deferred_error_names_the_operation_that_failed_and_no_other_call_returns_it() -> Result<()> {
    let Some(gpu) = losable(2) else { return Ok(()) };
    let x = Tensor::from_vec(numbers(100), [10, 10])?.to(&gpu)?;
    let kept = x.sin()?;
    gpu.synchronize()?;
    assert!(fail(&gpu, KERNELS, 1, 1, LAUNCH_FAILED));
    // All three calls return before anything runs; the second kernel fails.
    let y = x.exp()?;
    let z = (y.lazy().cos() + 1.0).eval()?;
    let sum = z.sum(Axis::<0>)?;
    let deferred = gpu.synchronize().unwrap_err();
    let Error::Fault { op, what } = &deferred else { panic!("{deferred}") };
    assert!(op.contains("cos") && !op.contains("exp") && what.contains("LAUNCH_FAILED"), "{deferred}");
    // An unrelated call is refused with an error of its own.
    let refused = kept.add(&kept).unwrap_err();
    let Error::Fault { op: own, what } = &refused else { panic!("{refused}") };
    assert!(!own.contains("cos") && what.contains("earlier operation") && what.contains(op), "{refused}");
    assert_eq!(gpu.check().unwrap_err(), deferred);
    assert_eq!(sum.to_vec().unwrap_err(), deferred, "a read of the result returns the error of the work");
    // Drops still work, and do not hide the error.
    drop((x, y, z, sum, kept));
    assert_eq!(gpu.memory().live, 0);
    assert_eq!(gpu.check().unwrap_err(), deferred);
    Ok(())
}

#[test]
fn a_deferred_error_of_a_reduction_on_a_stream_comes_where_it_is_waited_for() -> Result<()> {
    let Some(gpu) = losable(3) else { return Ok(()) };
    let stream = gpu.stream()?;
    let x = Tensor::from_vec(numbers(3000), [30, 100])?.to(&stream)?;
    gpu.synchronize()?;
    assert!(fail(&gpu, KERNELS, 0, 1, LAUNCH_FAILED));
    let y = x.max(Axis::<1>)?;
    let deferred = y.to_vec().unwrap_err();
    assert!(matches!(deferred, Error::Fault { op, .. } if op == "max"), "{deferred}");
    assert_eq!(stream.synchronize().unwrap_err(), deferred);
    Ok(())
}

#[test]
fn a_kernel_that_writes_outside_is_named() -> Result<()> {
    let Some(gpu) = losable(4) else { return Ok(()) };
    // SAFETY: unsound on purpose: it writes past its operand, which the simulator reports.
    let wrong: KernelSource<(Output<f32, 1>,)> = unsafe {
        KernelSource::new(
            "wrong",
            ["y"],
            "__device__ void wrong(const Operands& a) { a.y.data[a.y.size[0]] = 1.0f; }",
        )
    };
    let mut y = Tensor::<f32, 1, Cuda>::zeros([8], &gpu)?;
    wrong.launch(LaunchConfig::over(1, 1), (&mut y,))?;
    let z = Tensor::full([8], 1.0f32, &gpu)?;
    let deferred = gpu.synchronize().unwrap_err();
    assert!(matches!(deferred, Error::Fault { op: "wrong", .. }), "{deferred}");
    drop(z);
    Ok(())
}

// ------------------------------------------------------------ graphs

on_gpu!(a_graph_runs_its_work_again_on_the_present_contents_of_memory, |gpu| {
    let mut x = Tensor::from_vec(numbers(60), [6, 10])?.to(gpu)?;
    let weights = Tensor::from_vec(numbers(40), [10, 4])?.to(gpu)?;
    let work = |x: &Tensor<f32, 2, Cuda>| x.lazy().exp().eval()?.softmax(Axis::<1>)?.matmul(&weights);
    let graph = gpu.capture(|| work(&x))?;
    assert_eq!(graph.value().to_vec()?, [0.0; 24], "nothing has run");
    let launches = gpu.statistics().launches;
    for round in 0..3 {
        let fresh = Tensor::from_vec(numbers(60), [6, 10])?.mul(round as f32 / 9.0)?;
        fresh.copy_to(&mut x)?;
        graph.replay()?;
        let (found, expected) = (graph.value().to_vec()?, work(&x)?.to_vec()?);
        assert_eq!(found, expected, "round {round}");
    }
    assert!(gpu.statistics().launches > launches);
});

on_gpu!(a_graph_keeps_the_memory_that_it_uses, |gpu| {
    gpu.trim()?;
    let graph = {
        let x = Tensor::full([1000], 3.0f32, gpu)?;
        let mut total = Tensor::full([1000], 0.0f32, gpu)?;
        let handle = gpu.capture(|| {
            let square = x.lazy().square().eval()?; // dropped before the graph
            (total.lazy() + &square).eval()?.copy_to(&mut total)
        })?;
        drop((x, total));
        handle
    };
    assert!(gpu.memory().live >= 12_000, "{:?}", gpu.memory());
    let other = Tensor::full([1000], 7.0f32, gpu)?; // does not reuse its memory
    (0..3).try_for_each(|_| graph.replay())?;
    assert_eq!(other.to_vec()?, [7.0; 1000]);
    drop(graph);
    drop(other);
    assert_eq!(gpu.memory().live, 0);
});

on_gpu!(work_that_a_graph_cannot_record_is_an_error_and_the_gpu_goes_on, |gpu| {
    let x = Tensor::full([4], 1.0f32, gpu)?;
    let waits = gpu.capture(|| x.exp()?.to_vec()).unwrap_err();
    assert!(waits.to_string().contains("cannot") && waits.to_string().contains("graph"), "{waits}");
    assert!(gpu.capture(|| x.greater(0.0)?.nonzero()).is_err());
    let own = gpu.capture(|| Err::<(), _>(Error::Empty { op: "mine", sizes: [0usize].into() }));
    assert!(matches!(own.unwrap_err(), Error::Empty { op: "mine", .. }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        gpu.capture(|| -> Result<()> { panic!("as planned") })
    }));
    assert!(panicked.is_err());
    assert!(gpu.capture(|| gpu.capture(|| Ok(()))).is_err(), "one in another");
    gpu.capture(|| Ok(()))?.replay()?;
    assert_eq!(x.exp()?.to_vec()?, Tensor::full([4], 1.0f32, &Cpu)?.exp()?.to_vec()?);
});

on_gpu!(kernels_are_compiled_beforehand, |gpu| {
    let (launches, compiled) = (gpu.statistics().launches, gpu.statistics().compiled);
    let work = |n: usize| Tensor::<f64, 2, Cuda>::zeros([n, 33], gpu)?.lazy().cosh().sum(Axis::<1>);
    let nothing = gpu.warm_up(|| work(17)?.to_vec())?;
    assert_eq!((nothing, gpu.statistics().launches), (vec![0.0; 17], launches));
    let after = gpu.statistics().compiled;
    assert!(after > compiled);
    assert_eq!(work(17)?.to_vec()?, [33.0; 17]);
    assert_eq!(gpu.statistics().compiled, after);
});

// ------------------------------------------------------------ copies

on_gpu!(copies_to_and_from_pinned_memory_are_not_waited_for, |gpu| {
    let mut host = Tensor::<f32, 2>::pinned([50, 20], gpu)?;
    assert_eq!(host.to_vec()?, [0.0; 1000]);
    host.data_mut()?.copy_from_slice(&numbers(1000));
    let beside = host.share_data();
    let (x, copied) = host.upload(gpu)?;
    // The copy holds a handle, and the tensor cannot be written.
    let mut beside = beside;
    assert!(matches!(beside.data_mut(), Err(Error::Shared { .. })));
    let result = x.exp()?.download(Tensor::pinned([50, 20], gpu)?)?;
    drop(x);
    drop(copied.wait()?);
    while !result.is_done()? {}
    let result = result.wait()?;
    assert_eq!(result.to_vec()?, beside.exp()?.to_vec()?);
    // Transposed, of other sizes, empty, dropped without waiting.
    let x = beside.to(gpu)?;
    let turned = x.share_data().into_transposed()?;
    assert_eq!(
        turned.download(Tensor::pinned([20, 50], gpu)?)?.wait()?.to_vec()?,
        beside.transposed().to_vec()?
    );
    assert!(matches!(
        turned.download(Tensor::pinned([50, 20], gpu)?),
        Err(Error::Output { op: "download", .. })
    ));
    assert!(matches!(
        beside.share_data().into_transposed()?.upload(gpu),
        Err(Error::NeedsCopy { op: "upload", .. })
    ));
    let (empty, none) = Tensor::<f32, 1>::pinned([0], gpu)?.upload(gpu)?;
    assert_eq!((empty.to_vec()?.len(), none.wait()?.numel()), (0, 0));
    let (y, _dropped) = beside.share_data().upload(gpu)?;
    assert_eq!(y.to_vec()?, beside.to_vec()?);
    // Memory that is not pinned is read at once.
    let (z, _) = Tensor::from_vec(numbers(10), [10])?.upload(gpu)?;
    assert_eq!(z.download(Tensor::zeros([10], &Cpu)?)?.wait()?.to_vec()?, numbers(10));
});

on_gpu!(gpus_copy_to_each_other, |gpu| {
    let Some(other) = crate::gpu(1) else { return Ok(()) };
    let x = Tensor::from_vec(numbers(600), [20, 30])?;
    let stream = other.stream()?;
    for _ in 0..3 {
        let there = x.to(gpu)?.exp()?.to(&other)?; // the source is dropped at once
        let back = stream.scope(|| there.lazy().ln().eval())?.transposed().to(gpu)?;
        assert_eq!(there.to_vec()?, x.exp()?.to_vec()?);
        assert_eq!(back.size(), [30, 20]);
        assert_eq!(back.to_vec()?, x.exp()?.ln()?.transposed().to_vec()?);
    }
    let (any, far): (AnyDevice, AnyDevice) = (gpu.clone().into(), other.clone().into());
    assert_eq!(x.to(&any)?.to(&other)?.to(&far)?.to(gpu)?.to_vec()?, x.to_vec()?);
    other.synchronize()?;
    assert_eq!(other.memory().live, 0);
});

// ------------------------------------------------------------ AnyDevice

on_gpu!(a_tensor_changes_the_type_of_its_device_without_a_copy, |gpu| {
    let (x, y) = (Tensor::from_vec(numbers(12), [3, 4])?, Tensor::from_vec(numbers(5000), [50, 100])?);
    let (there, expected) = (y.to(gpu)?, y.to_vec()?);
    let addresses = [x.raw_ptr(), y.raw_ptr(), there.raw_ptr()];
    let mixed: Vec<Tensor<f32, 2, AnyDevice>> = vec![x.into_any()?, y.into_any()?, there.into_any()?];
    for (tensor, address) in mixed.iter().zip(addresses) {
        assert_eq!(tensor.raw_ptr(), address);
        assert_eq!(tensor.max(All)?.item()?, tensor.to(&Cpu)?.max(All)?.item()?);
    }
    assert!(mixed[0].is_on::<Cpu>() && !mixed[0].is_on::<Cuda>() && mixed[2].is_on::<Cuda>());
    let [x, y, there] = <[_; 3]>::try_from(mixed).unwrap();
    assert!(matches!(x.into_device::<Cuda>(), Err(Error::Device { op: "into_device", .. })));
    let shared = y.share_data();
    assert!(matches!(y.into_device::<Cpu>(), Err(Error::Shared { op: "into_device", handles: 2 })));
    let y = shared.into_device::<Cpu>()?;
    assert_eq!((y.as_slice(), y.raw_ptr()), (Some(&expected[..]), addresses[1]));
    let mut there = there.into_device::<Cuda>()?;
    there += 1.0;
    assert_eq!((there.to_vec()?, there.raw_ptr()), (y.add(1.0)?.to_vec()?, addresses[2]));
    let again = there.into_any()?.into_device::<Cuda>()?.into_any()?;
    assert_eq!(again.to_vec()?, y.add(1.0)?.to_vec()?);
});

// ------------------------------------------------------------ kernels from CUDA source

on_gpu!(a_kernel_from_source_finds_its_operands_in_any_layout, |gpu| {
    type Operands = (Input<f32, 2>, Input<f64, 1>, Scalar<f32>, Scalar<bool>, Output<f32, 2>);
    // SAFETY: it accesses only the sizes of `y`, and launches give `x` and `rows` the same sizes.
    let scaled: KernelSource<Operands> = unsafe {
        KernelSource::new(
            "scaled",
            ["x", "rows", "by", "negative", "y"],
            "DI f32 sign(bool negative) { return negative ? -1.0f : 1.0f; }
             __device__ void scaled(const Operands& a) {
               const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
               const i64 i = at / a.y.size[1], j = at % a.y.size[1];
               if (i < a.y.size[0]) a.y(i, j) = (a.x(i, j) * a.by + (f32)a.rows(i)) * sign(a.negative);
             }",
        )
    };
    let x = Tensor::from_vec(numbers(96), [8, 12])?;
    let rows = Tensor::from_fn([6], |[i]| i as f64, &Cpu)?;
    let there = x.to(gpu)?;
    let views = [
        (x.slice((..6, ..8))?, there.slice((..6, ..8))?),
        (x.slice((2.., 4..))?.reversed(Axis::<0>), there.slice((2.., 4..))?.reversed(Axis::<0>)),
    ];
    for (host, view) in views {
        let mut y = Tensor::<f32, 2, Cuda>::zeros([6, 8], gpu)?;
        scaled.launch(LaunchConfig::over(48, 32), (view, &rows.to(gpu)?, 2.0, true, &mut y))?;
        let expected = Tensor::from_fn([6, 8], |[i, j]| -(host[[i, j]] * 2.0 + rows[[i]] as f32), &Cpu)?;
        assert_eq!(y.to_vec()?, expected.to_vec()?);
    }
    // Into a transposed view, with an expanded operand.
    let mut y = Tensor::<f32, 2, Cuda>::zeros([8, 6], gpu)?;
    let one = Tensor::full([1, 1], 3.0f32, gpu)?;
    scaled.launch(
        LaunchConfig::over(48, 64),
        (one.broadcast_to([6, 8])?, &rows.to(gpu)?, 1.0, false, y.view_mut()?.transposed()),
    )?;
    assert_eq!(y.to_vec()?, Tensor::from_fn([8, 6], |[_, i]| 3.0 + i as f32, &Cpu)?.to_vec()?);
    // A launch refuses these.
    let shared = y.share_data();
    let refused = scaled
        .launch(LaunchConfig::over(48, 64), (one.broadcast_to([6, 8])?, &rows.to(gpu)?, 1.0, false, &mut y));
    assert!(matches!(refused, Err(Error::Shared { op: "scaled", .. })));
    drop(shared);
    let mut config = LaunchConfig::over(48, 2000);
    let too_many =
        scaled.launch(config, (one.broadcast_to([6, 8])?, &rows.to(gpu)?, 1.0, false, &mut y)).unwrap_err();
    assert!(too_many.to_string().starts_with("scaled: no GPU takes LaunchConfig"), "{too_many}");
    config.blocks[0] = 0;
    scaled.launch(config, (one.broadcast_to([6, 8])?, &rows.to(gpu)?, 1.0, false, &mut y))?;
    if let Some(other) = crate::gpu(1) {
        let elsewhere = scaled.launch(
            LaunchConfig::over(48, 64),
            (one.broadcast_to([6, 8])?, &rows.to(&other)?, 1.0, false, &mut y),
        );
        assert!(matches!(elsewhere, Err(Error::Device { op: "scaled", .. })));
    }
});

on_gpu!(source_that_does_not_compile_is_an_error_with_the_compilers_words, |gpu| {
    // SAFETY: it never runs.
    let wrong: KernelSource<(Output<i32, 0>,)> = unsafe {
        KernelSource::new("wrong", ["y"], "__device__ void wrong(const Operands& a) { a.y() = nothing; }")
    };
    let mut y = Tensor::<i32, 0, Cuda>::zeros([], gpu)?;
    let error = wrong.launch(LaunchConfig::over(1, 1), (&mut y,)).unwrap_err().to_string();
    assert!(error.starts_with("nvrtc: ") && error.contains("nothing"), "{error}");
    // SAFETY: it writes its only element.
    let right: KernelSource<(Output<i32, 0>, Scalar<i64>)> = unsafe {
        KernelSource::new(
            "right",
            ["y", "n"],
            "__device__ void right(const Operands& a) { a.y() = (i32)a.n; }",
        )
    };
    right.launch(LaunchConfig::over(1, 1), (&mut y, -7))?;
    assert_eq!(y.item()?, -7);
});

// ------------------------------------------------------------ operands in any layout

on_gpu!(operands_that_are_expanded_flipped_or_strided_agree_with_copies, |gpu| {
    let base = Tensor::from_vec(numbers(7 * 16 * 10), [7, 16, 10])?.to(gpu)?;
    let one = Tensor::full([1, 1, 1], 1.25f32, gpu)?;
    let upstream = [
        ("expanded", one.broadcast_to([7, 8, 5])?),
        ("rows expanded", base.slice((..1, ..8, ..5))?.broadcast_to([7, 8, 5])?),
        ("flipped", base.slice((.., ..8, ..5))?.reversed(Axis::<0>).reversed(Axis::<2>)),
        ("every other", base.slice((.., (..).step(2), (..).step(2)))?),
        ("turned", base.slice((..5, ..8, ..7))?.permuted([2, 1, 0])?),
    ];
    let other = base.slice((.., 8.., 5..))?;
    for (name, x) in upstream {
        let copy = x.to_contiguous()?;
        let c = copy.view();
        assert_eq!(x.mul(other)?.to_vec()?, c.mul(other)?.to_vec()?, "{name}");
        assert_eq!(other.sub(x)?.to_vec()?, other.sub(c)?.to_vec()?, "{name}");
        assert_eq!(x.max(Axis::<1>)?.to_vec()?, c.max(Axis::<1>)?.to_vec()?, "{name}");
        assert_eq!(x.argmin(Axis::<2>)?.to_vec()?, c.argmin(Axis::<2>)?.to_vec()?, "{name}");
        assert_eq!(x.cumsum(Axis::<1>)?.to_vec()?, c.cumsum(Axis::<1>)?.to_vec()?, "{name}");
        assert_eq!(x.sort(Axis::<2>)?.to_vec()?, c.sort(Axis::<2>)?.to_vec()?, "{name}");
        let close =
            |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
        assert!(close(x.softmax(Axis::<2>)?.to_vec()?, c.softmax(Axis::<2>)?.to_vec()?), "{name}");
        assert!(
            close(x.sum((Axis::<0>, Axis::<2>))?.to_vec()?, c.sum((Axis::<0>, Axis::<2>))?.to_vec()?),
            "{name}"
        );
        let (line, straight) = (x.slice((3, .., ..))?, c.slice((3, .., ..))?);
        assert!(
            close(
                line.matmul(line.transposed())?.to_vec()?,
                straight.matmul(straight.transposed())?.to_vec()?
            ),
            "{name}"
        );
        // One element of a strided slice.
        assert_eq!(
            x.slice((2..3, 3..4, 1..2))?.exp()?.to_vec()?,
            c.slice((2..3, 3..4, 1..2))?.exp()?.to_vec()?,
            "{name}"
        );
    }
});

// ------------------------------------------------------------ states

/// A sum that carries `N` copies of itself.
#[derive(Clone, Copy)]
struct Copies<const N: usize>;
impl<const N: usize> Reducer<f32> for Copies<N> {
    const NAME: &'static str = "copies";
    type Out = f32;
    type State<L: Lanes> = [Lane<L, f32>; N];
    fn identity<L: Lanes>() -> [Lane<L, f32>; N] {
        [Lane::zero(); N]
    }
    fn accumulate<L: Lanes>(state: [Lane<L, f32>; N], x: Lane<L, f32>, _: Lane<L, i64>) -> [Lane<L, f32>; N] {
        state.map(|sum| sum + x)
    }
    fn combine<L: Lanes>(a: [Lane<L, f32>; N], b: [Lane<L, f32>; N]) -> [Lane<L, f32>; N] {
        std::array::from_fn(|k| a[k] + b[k])
    }
    fn finalize<L: Lanes>(state: [Lane<L, f32>; N], _: Lane<L, i64>) -> Lane<L, f32> {
        state[N - 1]
    }
}

on_gpu!(states_that_the_threads_of_a_block_cannot_share_are_refused, |gpu| {
    let x = Tensor::from_fn([3, 500], |[i, j]| (i + j % 4) as f32, &Cpu)?;
    let there = x.to(gpu)?;
    assert_eq!(there.reduce(Copies::<48>, Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?);
    assert_eq!(there.scan(Copies::<48>, Axis::<1>)?.to_vec()?, x.cumsum(Axis::<1>)?.to_vec()?);
    let error = Error::Value {
        op: "copies",
        what: "a state of 196 bytes: 256 threads share 49152 bytes of a GPU, 192 for each".into(),
    };
    assert_eq!(there.reduce(Copies::<49>, Axis::<1>).unwrap_err(), error);
    assert_eq!(there.scan(Copies::<49>, Axis::<1>).unwrap_err(), error);
    // Rows of any length have the same limit.
    assert_eq!(
        there.along(Copies::<48>, Axis::<1>).eval()?.to_vec()?,
        x.sum_along(Axis::<1>).eval()?.to_vec()?
    );
    assert_eq!(there.along(Copies::<49>, Axis::<1>).eval().unwrap_err(), error);
    let long = Tensor::full([2, 5000], 1.0f32, gpu)?;
    assert_eq!(long.along(Copies::<12>, Axis::<1>).eval()?.to_vec()?, vec![5000.0; 10_000]);
    assert_eq!(long.along(Copies::<49>, Axis::<1>).eval().unwrap_err(), error);
});

// ------------------------------------------------------------ kernels on disk

/// Run by the test below in processes of its own.
#[test]
fn with_a_folder_of_kernels() -> Result<()> {
    if std::env::var_os("RANKFORM_TEST_FOLDER").is_none() {
        return Ok(());
    }
    let Some(gpu) = gpu(0) else { return Ok(()) };
    let x = Tensor::full([3], 2.0f32, &gpu)?;
    assert_eq!(x.lazy().tanh().eval()?.to_vec()?, Tensor::full([3], 2.0f32, &Cpu)?.tanh()?.to_vec()?);
    println!("compiled {}.", gpu.statistics().compiled);
    Ok(())
}

#[test]
fn kernels_are_kept_on_disk_and_a_file_that_is_damaged_is_made_again() {
    if gpu(0).is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("rankform-kept-{}", std::process::id()));
    let compiled = || {
        let mut run = std::process::Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", "queue::with_a_folder_of_kernels", "--nocapture"])
            .env("RANKFORM_TEST_FOLDER", "1");
        let done = run.env("RANKFORM_KERNEL_CACHE", &folder).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{text}");
        text.split_once("compiled ").unwrap().1.split_once('.').unwrap().0.parse::<usize>().unwrap()
    };
    let fresh = compiled();
    assert!(fresh > 0);
    assert_eq!(compiled(), 0);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), fresh);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    *bytes.last_mut().unwrap() ^= 0x55;
    std::fs::write(&files[0], &bytes).unwrap();
    assert_eq!(compiled(), 1);
    std::fs::write(&files[0], b"").unwrap();
    assert_eq!(compiled(), 1);
    assert_eq!(compiled(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}
