//! What is queued on a graphics card: its memory, its order on several streams, its errors, which come late;
//! graphs, copies that nobody waits for, kernels of one's own. Without a card it says that it was skipped.
//!
//! On the simulator every kernel's use of memory is checked for its order beside other streams', and failures
//! are planned (`cudaSimFail`); a test that loses a card has a card of its own.

use crate::{card, numbers, on_card};
use rankform::cuda::{Input, KernelSource, LaunchConfig, Output, Scalar};
use rankform::kernel::Reducer;
use rankform::prelude::*;
use rankform::{AnyDevice, Cuda};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Plans a failure of the simulator's: of allocations (0), or of kernels when they run (1). False on a real
/// card.
fn fail(card: &Cuda, kind: i32, skip: usize, times: usize, status: i32) -> bool {
    // SAFETY: the driver, which is loaded, or the simulator in its place; the function has this type there.
    unsafe {
        let Ok(driver) = libloading::Library::new("libcuda.so.1") else { return false };
        let Ok(plan) =
            driver.get::<unsafe extern "C" fn(i32, i32, usize, usize, i32) -> i32>(b"cudaSimFail\0")
        else {
            println!("skipped: failures can be planned on the simulator only");
            return false;
        };
        plan(card.ordinal() as i32, kind, skip, times, status) == 0
    }
}
const ALLOCATIONS: i32 = 0;
const KERNELS: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const LAUNCH_FAILED: i32 = 719;

// ------------------------------------------------------------ memory

on_card!(memory_is_counted_kept_and_given_back, |card| {
    card.trim()?;
    let before = card.memory();
    assert_eq!((before.live, before.kept), (0, 0));
    let x = Tensor::<f32, 1, Cuda>::zeros([1 << 18], card)?;
    let live = card.memory().live;
    assert!(live >= 1 << 20, "{live}");
    drop(x);
    assert_eq!((card.memory().live, card.memory().kept), (0, live));
    let y = Tensor::<f32, 1, Cuda>::full([1 << 18], 1.0, card)?;
    let now = card.memory();
    assert_eq!(
        (now.kept, now.fresh - before.fresh, now.reused - before.reused),
        (0, 1, 1),
        "the same block again"
    );
    drop(y);
    assert_eq!((card.trim()?, card.memory().kept), (live, 0));
});

on_card!(beyond_the_limit_there_is_no_memory_and_what_is_kept_goes_first, |card| {
    card.trim()?;
    let x = Tensor::<u8, 1, Cuda>::zeros([1 << 20], card)?;
    card.set_memory_limit(3 << 20);
    assert_eq!(card.memory().limit, 3 << 20);
    let y = Tensor::<u8, 1, Cuda>::zeros([1 << 20], card)?;
    drop(y);
    // The kept megabyte does not serve two, and has to go.
    let z = Tensor::<u8, 1, Cuda>::zeros([2 << 20], card)?;
    assert_eq!(card.memory().kept, 0);
    let beyond = Tensor::<u8, 1, Cuda>::zeros([1], card).err();
    card.set_memory_limit(usize::MAX);
    assert_eq!(beyond, Some(Error::OutOfMemory { op: "allocate", nbytes: 1 }));
    assert_eq!(
        (x.add(1)?.sum(All)?.item()?, z.sum(All)?.item()?),
        (0, 0),
        "1048576 ones in a byte, and zeros"
    );
});

on_card!(each_allocation_that_fails_is_an_error_and_leaves_nothing, |card| {
    let x = Tensor::from_vec(numbers(300), [3, 100])?.to(card)?;
    let index = Tensor::from([2i64, 0]).to(card)?;
    let work = || -> Result<Vec<f32>> {
        let y = x.softmax(Axis::<1>)?.matmul(x.transposed())?;
        y.index_select(Axis::<0>, &index)?.sort(Axis::<1>)?.sum(Axis::<0>)?.to_vec()
    };
    let expected = work()?;
    let live = card.memory().live;
    let mut failures = 0;
    for n in 0.. {
        card.trim()?;
        // The second attempt, after what is kept was given back, fails as well.
        if !fail(card, ALLOCATIONS, n, 2, OUT_OF_MEMORY) {
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
        assert_eq!(card.memory().live, live, "allocation {n}");
    }
    assert!(failures > 5, "{failures}");
    while Tensor::<u8, 1, Cuda>::zeros([12345], card).is_err() {}
    assert_eq!(work()?, expected);
});

// ------------------------------------------------------------ order

on_card!(streams_wait_where_they_meet_in_memory, |card| {
    let (a, b) = (card.stream()?, card.stream()?);
    assert_eq!(&a, card);
    let x = Tensor::from_vec(numbers(5000), [5000])?;
    let mut expected = x.copy()?;
    let mut y = x.to(card)?;
    for round in 0..6 {
        // Read on two streams what a third has written; write where they have read; drop at once.
        let (e, s) = (a.scope(|| y.exp())?, b.scope(|| y.sin())?);
        y = card.scope(|| (e.lazy() * 0.0 + &s + &y).eval())?;
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

on_card!(fresh_zeros_are_there_before_another_stream_reads_or_writes_them, |card| {
    let stream = card.stream()?;
    for size in [1000, 100_000, 1 << 20] {
        card.trim()?; // memory of the driver's, which nobody had before
        let mut x = Tensor::<f32, 1, Cuda>::zeros([size], card)?;
        let y = stream.scope(|| x.lazy().exp().eval())?;
        stream.scope(|| (y.lazy() + 1.0).eval_into(&mut x.view_mut()?))?;
        assert_eq!((y.max(All)?.item()?, x.min(All)?.item()?), (1.0, 2.0));
    }
});

on_card!(memory_that_one_stream_gives_back_serves_another_in_order, |card| {
    card.trim()?;
    let streams = [card.clone(), card.stream()?, card.stream()?];
    let x = Tensor::from_vec(numbers(4096), [4096])?.to(card)?;
    let expected = x.lazy().square().eval()?.to_vec()?;
    let before = card.memory();
    for round in 0..30 {
        let (one, other) = (&streams[round % 3], &streams[(round + 1) % 3]);
        let y = one.scope(|| x.lazy().square().eval())?;
        // Used on another stream, and dropped with that work queued.
        let z = other.scope(|| y.copy())?;
        drop(y);
        if round % 5 == 0 {
            assert_eq!(z.to_vec()?, expected);
        }
    }
    let after = card.memory();
    assert!(after.reused - before.reused > 50 && after.fresh - before.fresh < 8, "{before:?} {after:?}");
});

on_card!(threads_with_streams_of_their_own_share_a_card, |card| {
    let x = Arc::new(Tensor::from_vec(numbers(1000), [1000])?.to(card)?);
    let expected = x.exp()?.sum(All)?.item()?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (x, card) = (x.clone(), card.clone());
            scope.spawn(move || {
                let stream = card.stream().unwrap();
                for _ in 0..10 {
                    let y = stream.scope(|| x.exp()).unwrap();
                    assert_eq!(y.sum(All).unwrap().item().unwrap(), expected);
                }
            });
        }
    });
});

on_card!(an_adopted_block_is_given_back_once_after_its_work_and_not_in_a_child, |card| {
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
        // SAFETY: the memory of `owner`, whose handle the deleter keeps; nobody writes it.
        unsafe { Tensor::<f32, 1, Cuda>::from_external(address, [100], card, free) }
    };
    let owner = Tensor::full([100], 2.0f32, card)?;
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

// ------------------------------------------------------------ errors that come late

/// A card that a test may lose; none on a machine with real ones.
fn losable(ordinal: usize) -> Option<Cuda> {
    let card = card(ordinal)?;
    fail(&card, KERNELS, usize::MAX, 1, LAUNCH_FAILED).then_some(card)
}

#[test]
fn a_late_error_names_the_operation_that_failed_and_no_other_call_returns_it() -> Result<()> {
    let Some(card) = losable(2) else { return Ok(()) };
    let x = Tensor::from_vec(numbers(100), [10, 10])?.to(&card)?;
    let kept = x.sin()?;
    card.synchronize()?;
    assert!(fail(&card, KERNELS, 1, 1, LAUNCH_FAILED));
    // All three calls return before anything runs; the second kernel fails.
    let y = x.exp()?;
    let z = (y.lazy().cos() + 1.0).eval()?;
    let sum = z.sum(Axis::<0>)?;
    let late = card.synchronize().unwrap_err();
    let Error::Fault { op, what } = &late else { panic!("{late}") };
    assert!(op.contains("cos") && !op.contains("exp") && what.contains("LAUNCH_FAILED"), "{late}");
    // A call that has nothing to do with it refuses in words of its own.
    let refused = kept.add(&kept).unwrap_err();
    let Error::Fault { op: own, what } = &refused else { panic!("{refused}") };
    assert!(!own.contains("cos") && what.contains("earlier operation") && what.contains(op), "{refused}");
    assert_eq!(card.check().unwrap_err(), late);
    assert_eq!(sum.to_vec().unwrap_err(), late, "what waits for the work returns its error");
    // Dropping goes on as ever, and does not hide the error.
    drop((x, y, z, sum, kept));
    assert_eq!(card.memory().live, 0);
    assert_eq!(card.check().unwrap_err(), late);
    Ok(())
}

#[test]
fn a_late_error_of_a_reduction_on_a_stream_comes_where_it_is_waited_for() -> Result<()> {
    let Some(card) = losable(3) else { return Ok(()) };
    let stream = card.stream()?;
    let x = Tensor::from_vec(numbers(3000), [30, 100])?.to(&stream)?;
    card.synchronize()?;
    assert!(fail(&card, KERNELS, 0, 1, LAUNCH_FAILED));
    let y = x.max(Axis::<1>)?;
    let late = y.to_vec().unwrap_err();
    assert!(matches!(late, Error::Fault { op, .. } if op == "max"), "{late}");
    assert_eq!(stream.synchronize().unwrap_err(), late);
    Ok(())
}

#[test]
fn a_kernel_that_writes_outside_is_named() -> Result<()> {
    let Some(card) = losable(4) else { return Ok(()) };
    // SAFETY: none: it writes behind its operand, which the simulator finds.
    let wrong: KernelSource<(Output<f32, 1>,)> = unsafe {
        KernelSource::new(
            "wrong",
            ["y"],
            "__device__ void wrong(const Operands& a) { a.y.data[a.y.size[0]] = 1.0f; }",
        )
    };
    let mut y = Tensor::<f32, 1, Cuda>::zeros([8], &card)?;
    wrong.launch(LaunchConfig::over(1, 1), (&mut y,))?;
    let z = Tensor::full([8], 1.0f32, &card)?;
    let late = card.synchronize().unwrap_err();
    assert!(matches!(late, Error::Fault { op: "wrong", .. }), "{late}");
    drop(z);
    Ok(())
}

// ------------------------------------------------------------ graphs

on_card!(a_graph_runs_its_work_again_on_what_stands_in_memory_now, |card| {
    let mut x = Tensor::from_vec(numbers(60), [6, 10])?.to(card)?;
    let weights = Tensor::from_vec(numbers(40), [10, 4])?.to(card)?;
    let work = |x: &Tensor<f32, 2, Cuda>| x.lazy().exp().eval()?.softmax(Axis::<1>)?.matmul(&weights);
    let graph = card.capture(|| work(&x))?;
    assert_eq!(graph.value().to_vec()?, [0.0; 24], "nothing has run");
    let launches = card.statistics().launches;
    for round in 0..3 {
        let fresh = Tensor::from_vec(numbers(60), [6, 10])?.mul(round as f32 / 9.0)?;
        fresh.copy_to(&mut x)?;
        graph.replay()?;
        let (found, expected) = (graph.value().to_vec()?, work(&x)?.to_vec()?);
        assert_eq!(found, expected, "round {round}");
    }
    assert!(card.statistics().launches > launches);
});

on_card!(a_graph_keeps_the_memory_that_it_uses, |card| {
    card.trim()?;
    let graph = {
        let x = Tensor::full([1000], 3.0f32, card)?;
        let mut total = Tensor::full([1000], 0.0f32, card)?;
        let handle = card.capture(|| {
            let square = x.lazy().square().eval()?; // goes before the graph does
            (total.lazy() + &square).eval()?.copy_to(&mut total)
        })?;
        drop((x, total));
        handle
    };
    assert!(card.memory().live >= 12_000, "{:?}", card.memory());
    let other = Tensor::full([1000], 7.0f32, card)?; // takes none of it
    (0..3).try_for_each(|_| graph.replay())?;
    assert_eq!(other.to_vec()?, [7.0; 1000]);
    drop(graph);
    drop(other);
    assert_eq!(card.memory().live, 0);
});

on_card!(what_a_graph_cannot_hold_is_an_error_and_the_card_goes_on, |card| {
    let x = Tensor::full([4], 1.0f32, card)?;
    let waits = card.capture(|| x.exp()?.to_vec()).unwrap_err();
    assert!(waits.to_string().contains("cannot") && waits.to_string().contains("graph"), "{waits}");
    let index = Tensor::from([0i64, 3]).to(card)?;
    assert!(card.capture(|| x.index_select(Axis::<0>, &index)).is_err());
    let own = card.capture(|| Err::<(), _>(Error::Empty { op: "mine", sizes: [0usize].into() }));
    assert!(matches!(own.unwrap_err(), Error::Empty { op: "mine", .. }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        card.capture(|| -> Result<()> { panic!("as planned") })
    }));
    assert!(panicked.is_err());
    assert!(card.capture(|| card.capture(|| Ok(()))).is_err(), "one in another");
    card.capture(|| Ok(()))?.replay()?;
    assert_eq!(x.exp()?.to_vec()?, Tensor::full([4], 1.0f32, &Cpu)?.exp()?.to_vec()?);
});

on_card!(kernels_are_compiled_beforehand, |card| {
    let (launches, compiled) = (card.statistics().launches, card.statistics().compiled);
    let work = |n: usize| Tensor::<f64, 2, Cuda>::zeros([n, 33], card)?.lazy().cosh().sum(Axis::<1>);
    let nothing = card.warm_up(|| work(17)?.to_vec())?;
    assert_eq!((nothing, card.statistics().launches), (vec![0.0; 17], launches));
    let after = card.statistics().compiled;
    assert!(after > compiled);
    assert_eq!(work(17)?.to_vec()?, [33.0; 17]);
    assert_eq!(card.statistics().compiled, after);
});

// ------------------------------------------------------------ copies

on_card!(copies_to_and_from_pinned_memory_are_not_waited_for, |card| {
    let mut host = Tensor::<f32, 2>::pinned([50, 20], card)?;
    assert_eq!(host.to_vec()?, [0.0; 1000]);
    host.data_mut()?.copy_from_slice(&numbers(1000));
    let beside = host.share_data();
    let (x, copied) = host.upload(card)?;
    // While the copy has a handle, nobody writes.
    let mut beside = beside;
    assert!(matches!(beside.data_mut(), Err(Error::Shared { .. })));
    let result = x.exp()?.download(Tensor::pinned([50, 20], card)?)?;
    drop(x);
    drop(copied.wait()?);
    while !result.is_done()? {}
    let result = result.wait()?;
    assert_eq!(result.to_vec()?, beside.exp()?.to_vec()?);
    // Transposed, of other sizes, empty, dropped without waiting.
    let x = beside.to(card)?;
    let turned = x.share_data().into_transposed()?;
    assert_eq!(
        turned.download(Tensor::pinned([20, 50], card)?)?.wait()?.to_vec()?,
        beside.transposed().to_vec()?
    );
    assert!(matches!(
        turned.download(Tensor::pinned([50, 20], card)?),
        Err(Error::Output { op: "download", .. })
    ));
    assert!(matches!(
        beside.share_data().into_transposed()?.upload(card),
        Err(Error::NeedsCopy { op: "upload", .. })
    ));
    let (empty, none) = Tensor::<f32, 1>::pinned([0], card)?.upload(card)?;
    assert_eq!((empty.to_vec()?.len(), none.wait()?.numel()), (0, 0));
    let (y, _dropped) = beside.share_data().upload(card)?;
    assert_eq!(y.to_vec()?, beside.to_vec()?);
    // Memory that is not pinned is read at once.
    let (z, _) = Tensor::from_vec(numbers(10), [10])?.upload(card)?;
    assert_eq!(z.download(Tensor::zeros([10], &Cpu)?)?.wait()?.to_vec()?, numbers(10));
});

on_card!(cards_copy_to_each_other, |card| {
    let Some(other) = crate::card(1) else { return Ok(()) };
    let x = Tensor::from_vec(numbers(600), [20, 30])?;
    let stream = other.stream()?;
    for _ in 0..3 {
        let there = x.to(card)?.exp()?.to(&other)?; // the source goes at once
        let back = stream.scope(|| there.lazy().ln().eval())?.transposed().to(card)?;
        assert_eq!(there.to_vec()?, x.exp()?.to_vec()?);
        assert_eq!(back.size(), [30, 20]);
        assert_eq!(back.to_vec()?, x.exp()?.ln()?.transposed().to_vec()?);
    }
    let (any, far): (AnyDevice, AnyDevice) = (card.clone().into(), other.clone().into());
    assert_eq!(x.to(&any)?.to(&other)?.to(&far)?.to(card)?.to_vec()?, x.to_vec()?);
    other.synchronize()?;
    assert_eq!(other.memory().live, 0);
});

// ------------------------------------------------------------ AnyDevice

on_card!(a_tensor_changes_the_type_of_its_device_without_a_copy, |card| {
    let (x, y) = (Tensor::from_vec(numbers(12), [3, 4])?, Tensor::from_vec(numbers(5000), [50, 100])?);
    let (there, expected) = (y.to(card)?, y.to_vec()?);
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

// ------------------------------------------------------------ kernels of one's own

on_card!(a_kernel_from_source_finds_its_operands_in_any_layout, |card| {
    // SAFETY: it keeps to the sizes of `y`, and calls give `x` and `rows` the same.
    let scaled: KernelSource<(Input<f32, 2>, Input<f64, 1>, Scalar<f32>, Scalar<bool>, Output<f32, 2>)> = unsafe {
        KernelSource::new(
            "scaled",
            ["x", "rows", "by", "negative", "y"],
            "DI f32 sign(bool negative) { return negative ? -1.0f : 1.0f; }
             __device__ void scaled(const Operands& a) {
               const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, i = at / a.y.size[1], j = at % a.y.size[1];
               if (i < a.y.size[0]) a.y(i, j) = (a.x(i, j) * a.by + (f32)a.rows(i)) * sign(a.negative);
             }",
        )
    };
    let x = Tensor::from_vec(numbers(96), [8, 12])?;
    let rows = Tensor::from_fn([6], |[i]| i as f64, &Cpu)?;
    let there = x.to(card)?;
    let views = [
        (x.slice((..6, ..8))?, there.slice((..6, ..8))?),
        (x.slice((2.., 4..))?.reversed(Axis::<0>), there.slice((2.., 4..))?.reversed(Axis::<0>)),
    ];
    for (host, view) in views {
        let mut y = Tensor::<f32, 2, Cuda>::zeros([6, 8], card)?;
        scaled.launch(LaunchConfig::over(48, 32), (view, &rows.to(card)?, 2.0, true, &mut y))?;
        let expected = Tensor::from_fn([6, 8], |[i, j]| -(host[[i, j]] * 2.0 + rows[[i]] as f32), &Cpu)?;
        assert_eq!(y.to_vec()?, expected.to_vec()?);
    }
    // Into a transposed view, with an expanded operand.
    let mut y = Tensor::<f32, 2, Cuda>::zeros([8, 6], card)?;
    let one = Tensor::full([1, 1], 3.0f32, card)?;
    scaled.launch(
        LaunchConfig::over(48, 64),
        (one.broadcast_to([6, 8])?, &rows.to(card)?, 1.0, false, y.view_mut()?.transposed()),
    )?;
    assert_eq!(y.to_vec()?, Tensor::from_fn([8, 6], |[_, i]| 3.0 + i as f32, &Cpu)?.to_vec()?);
    // What a launch refuses.
    let shared = y.share_data();
    let refused = scaled
        .launch(LaunchConfig::over(48, 64), (one.broadcast_to([6, 8])?, &rows.to(card)?, 1.0, false, &mut y));
    assert!(matches!(refused, Err(Error::Shared { op: "scaled", .. })));
    drop(shared);
    let mut grid = LaunchConfig::over(48, 2000);
    let too_many =
        scaled.launch(grid, (one.broadcast_to([6, 8])?, &rows.to(card)?, 1.0, false, &mut y)).unwrap_err();
    assert!(too_many.to_string().starts_with("scaled: no card takes LaunchConfig"), "{too_many}");
    grid.blocks[0] = 0;
    scaled.launch(grid, (one.broadcast_to([6, 8])?, &rows.to(card)?, 1.0, false, &mut y))?;
    if let Some(other) = crate::card(1) {
        let elsewhere = scaled.launch(
            LaunchConfig::over(48, 64),
            (one.broadcast_to([6, 8])?, &rows.to(&other)?, 1.0, false, &mut y),
        );
        assert!(matches!(elsewhere, Err(Error::Device { op: "scaled", .. })));
    }
});

on_card!(source_that_does_not_compile_is_an_error_with_the_compilers_words, |card| {
    // SAFETY: it never runs.
    let wrong: KernelSource<(Output<i32, 0>,)> = unsafe {
        KernelSource::new("wrong", ["y"], "__device__ void wrong(const Operands& a) { a.y() = nothing; }")
    };
    let mut y = Tensor::<i32, 0, Cuda>::zeros([], card)?;
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

on_card!(operands_that_are_expanded_flipped_or_every_other_give_what_copies_give, |card| {
    let base = Tensor::from_vec(numbers(7 * 16 * 10), [7, 16, 10])?.to(card)?;
    let one = Tensor::full([1, 1, 1], 1.25f32, card)?;
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

on_card!(states_that_the_threads_of_a_block_cannot_share_are_refused, |card| {
    let x = Tensor::from_fn([3, 500], |[i, j]| (i + j % 4) as f32, &Cpu)?;
    let there = x.to(card)?;
    assert_eq!(there.reduce(Copies::<48>, Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?);
    assert_eq!(there.scan(Copies::<48>, Axis::<1>)?.to_vec()?, x.cumsum(Axis::<1>)?.to_vec()?);
    let error = Error::Value {
        op: "copies",
        what: "a state of 196 bytes: 256 threads share 49152 bytes of a card, 192 for each".into(),
    };
    assert_eq!(there.reduce(Copies::<49>, Axis::<1>).unwrap_err(), error);
    assert_eq!(there.scan(Copies::<49>, Axis::<1>).unwrap_err(), error);
    // Rows of 500 are settled by 128 threads, those of 5000 by 1024.
    assert_eq!(
        there.along(Copies::<96>, Axis::<1>).eval()?.to_vec()?,
        x.sum_along(Axis::<1>).eval()?.to_vec()?
    );
    let refused = |what: &str| Error::Value { op: "copies", what: what.into() };
    let error = refused("a state of 388 bytes: 128 threads share 49152 bytes of a card, 384 for each");
    assert_eq!(there.along(Copies::<97>, Axis::<1>).eval().unwrap_err(), error);
    let long = Tensor::full([2, 5000], 1.0f32, card)?;
    assert_eq!(long.along(Copies::<12>, Axis::<1>).eval()?.to_vec()?, vec![5000.0; 10_000]);
    let error = refused("a state of 52 bytes: 1024 threads share 49152 bytes of a card, 48 for each");
    assert_eq!(long.along(Copies::<13>, Axis::<1>).eval().unwrap_err(), error);
});

// ------------------------------------------------------------ kernels on disk

/// Run by the test below in processes of its own.
#[test]
fn with_a_folder_of_kernels() -> Result<()> {
    if std::env::var_os("RANKFORM_TEST_FOLDER").is_none() {
        return Ok(());
    }
    let Some(card) = card(0) else { return Ok(()) };
    let x = Tensor::full([3], 2.0f32, &card)?;
    assert_eq!(x.lazy().tanh().eval()?.to_vec()?, Tensor::full([3], 2.0f32, &Cpu)?.tanh()?.to_vec()?);
    println!("compiled {}.", card.statistics().compiled);
    Ok(())
}

#[test]
fn kernels_are_kept_on_disk_and_a_file_that_is_damaged_is_made_again() {
    if card(0).is_none() {
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
