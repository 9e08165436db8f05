//! PyTorch's `c10::TensorImpl`, ability by ability; the table of rows is in `docs/parity.md`.
//!
//! A test states where c10 and this crate differ.

use crate::alloc;
use rankform::device::{Deleter, Init};
use rankform::prelude::*;
use rankform::{MetadataLock, ResizePolicy, delegate_device};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The same claims on every device.
macro_rules! on_devices {
    ($check:ident) => {
        $check(&Cpu).unwrap();
        $check(&Meta::new()).unwrap();
    };
}

/// 1, 2, 3, …
fn counted<const RANK: usize>(size: [usize; RANK]) -> Tensor<i32, RANK> {
    let numel = size.iter().product::<usize>() as i32;
    Tensor::from_slice(&(1..=numel).collect::<Vec<_>>(), size, &Cpu).unwrap()
}

// ---------------------------------------------------------------- views

#[test]
fn views_have_sizes_strides_and_offset_of_their_own_over_shared_storage() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<i32, 3, D>::zeros([2, 3, 4], device)?;
        let part = x.share_data().into_slice((1, .., (1..4).step(2)))?;
        assert_eq!((part.size(), part.stride(), part.layout().offset()), (dim![3, 2], Stride([4, 2]), 13));
        let turned = part.share_data().into_transposed()?;
        assert_eq!(
            (turned.size(), turned.stride(), turned.layout().offset()),
            (dim![2, 3], Stride([2, 4]), 13)
        );
        let any = x.as_strided([2, 2], [0, 5], 3)?;
        assert_eq!((any.size(), any.stride(), any.layout().offset()), (dim![2, 2], Stride([0, 5]), 3));
        assert_eq!(
            (x.use_count(), turned.nbytes(), turned.capacity()),
            (3, 24, 24),
            "one storage, of 24 elements"
        );
        assert!(std::ptr::eq(x.allocation(), turned.allocation()));
        assert_eq!(
            (x.size(), x.layout().offset()),
            (dim![2, 3, 4], 0),
            "the others' layouts are not this one's"
        );
        Ok(())
    }
    on_devices!(check);
    let x = counted([2, 3, 4]);
    let part = x.share_data().into_slice((1, .., (1..4).step(2))).unwrap();
    assert_eq!(part.to_vec().unwrap(), [14, 16, 18, 20, 22, 24]);
    assert_eq!(part.raw_ptr(), x.raw_ptr().wrapping_add(13), "a pointer to the view's first element");
    drop(x);
    assert_eq!(
        part.into_transposed().unwrap().to_vec().unwrap(),
        [14, 18, 22, 16, 20, 24],
        "the storage outlives its first tensor"
    );
}

#[test]
fn numel_and_contiguity_are_right_after_every_change_of_metadata() {
    // c10 keeps both with the sizes and must refresh them; here they are counted from the sizes when asked.
    fn agree<const RANK: usize, D: Device>(x: &Tensor<i32, RANK, D>, numel: usize, contiguous: bool) {
        assert_eq!(
            (x.numel(), x.is_contiguous(), x.is_empty()),
            (numel, contiguous, numel == 0),
            "{:?}",
            x.layout()
        );
        assert_eq!((x.view().numel(), x.view().is_contiguous()), (numel, contiguous));
        assert_eq!(x.nbytes(), numel * 4);
    }
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 2, D>::zeros([3, 4], device)?;
        agree(&x, 12, true);
        x.set_sizes_and_strides([4, 3], [1, 4])?;
        agree(&x, 12, false);
        x.resize([2, 5])?;
        agree(&x, 10, true);
        x.resize_axis(1, 6)?;
        agree(&x, 12, true);
        x.set_sizes_and_strides([2, 3], [6, 2])?;
        agree(&x, 6, false);
        x.restride(MemoryFormat::Contiguous)?;
        agree(&x, 6, true);
        x.extend(1, 0)?;
        agree(&x, 9, true);
        x.shrink_to(2)?;
        agree(&x, 6, true);
        x.reshape_in_place([3, 2])?;
        agree(&x, 6, true);
        let x = x.into_transposed()?;
        agree(&x, 6, false);
        let x = x.into_slice((.., 1..2))?;
        agree(&x, 2, true); // [2, 1] with strides [1, 2]
        let x = x.into_broadcast([2, 7])?;
        agree(&x, 14, false);
        let x = x.into_slice((.., 0))?;
        agree(&x, 2, true);
        agree(&x.into_slice((0..0,))?, 0, true);
        Ok(())
    }
    on_devices!(check);
}

// ---------------------------------------------------------------- formats

#[test]
fn channels_last_2d_and_3d_and_density_follow_from_strides() {
    // sizes, strides, contiguous, channels last, non-overlapping and dense: as `TensorImpl` computes them.
    const CASES_2D: &[([usize; 4], [isize; 4], bool, bool, bool)] = &[
        ([2, 3, 4, 5], [60, 20, 5, 1], true, false, true),
        ([2, 3, 4, 5], [60, 1, 15, 3], false, true, true),
        ([2, 3, 4, 5], [60, 1, 3, 12], false, false, true), // a transposed picture
        ([2, 3, 4, 5], [120, 1, 15, 3], false, false, false), // every second picture
        ([2, 1, 4, 5], [20, 20, 5, 1], true, true, true),   // one channel: both
        ([2, 3, 1, 1], [3, 1, 1, 1], true, true, true),     // one pixel: both
        ([1, 1, 1, 1], [9, 9, 9, 9], true, true, true),     // one element: axes of size 1 never decide
        ([1, 3, 4, 5], [7, 1, 15, 3], false, true, true),
        ([2, 3, 4, 5], [0, 1, 15, 3], false, false, false), // broadcast
        ([2, 3, 4, 5], [60, 1, 15, 4], false, false, false), // a gap behind each pixel, and overlap
        ([2, 3, 4, 4], [48, 16, 1, 4], false, false, true),
    ];
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<i32, 1, D>::zeros([1000], device)?;
        for &(size, stride, contiguous, channels_last, dense) in CASES_2D {
            let view = x.as_strided(size, stride, 7)?;
            let found = (view.is_contiguous(), view.is_channels_last(), view.is_non_overlapping_and_dense());
            assert_eq!(found, (contiguous, channels_last, dense), "{size:?} {stride:?}");
            let [n, c, h, w] = size;
            let [sn, sc, sh, sw] = stride;
            let deep = x.as_strided([n, c, 1, h, w], [sn, sc, 999, sh, sw], 7)?;
            let found =
                (deep.is_contiguous(), deep.is_channels_last_3d(), deep.is_non_overlapping_and_dense());
            assert_eq!(
                found,
                (contiguous, channels_last, dense),
                "with one more axis of size 1: {size:?} {stride:?}"
            );
        }
        let deep = x.as_strided([2, 3, 2, 4, 5], [120, 1, 60, 15, 3], 0)?;
        assert!(deep.is_channels_last_3d() && !deep.is_contiguous() && deep.is_non_overlapping_and_dense());
        let empty = Tensor::<i32, 4, D>::zeros([2, 0, 4, 5], device)?;
        assert!(empty.is_contiguous() && empty.is_channels_last() && empty.is_non_overlapping_and_dense());
        Ok(())
    }
    on_devices!(check);
    // Rank 4 and rank 5 are part of the type: another rank does not compile
    // (`tests/compile_fail/channels_last_of_rank_3.rs`).
}

#[test]
fn non_overlapping_and_dense_is_asked_of_every_rank() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<u8, 1, D>::zeros([64], device)?;
        assert!(x.is_non_overlapping_and_dense() && x.as_strided([], [], 5)?.is_non_overlapping_and_dense());
        assert!(
            !x.as_strided([32], [2], 0)?.is_non_overlapping_and_dense()
                && x.as_strided([1], [2], 0)?.is_non_overlapping_and_dense()
        );
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let view = x.reshape([4, 2, 8])?.permuted(order)?;
            assert!(view.is_non_overlapping_and_dense() && !view.may_overlap(), "{order:?}");
            assert_eq!(view.is_contiguous(), order == [0, 1, 2]);
        }
        assert!(!x.as_strided([4, 4], [1, 1], 0)?.is_non_overlapping_and_dense(), "overlapping");
        assert!(!x.as_strided([4, 4], [8, 1], 0)?.is_non_overlapping_and_dense(), "gaps");
        // c10 has no negative strides; here they are not dense, because dense means: stored from the first
        // element on.
        assert!(
            !x.reversed(Axis::<0>).is_non_overlapping_and_dense() && !x.reversed(Axis::<0>).may_overlap()
        );
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn resize_dim_sets_one_size_and_fits_the_strides() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 3, D>::zeros([2, 3, 4], device)?;
        let start = x.raw_ptr();
        x.resize_axis(1, 2)?;
        assert_eq!((x.size(), x.stride(), x.raw_ptr()), (dim![2, 2, 4], Stride([8, 4, 1]), start));
        assert_eq!(
            x.resize_axis(3, 1).unwrap_err().to_string(),
            "resize_axis: axis 3 does not fit sizes [2, 2, 4]"
        );
        assert!(matches!(x.resize_axis(0, usize::MAX), Err(Error::Overflow { .. })));
        assert_eq!((x.size(), x.is_allocated()), (dim![2, 2, 4], true), "after an error nothing has changed");
        x.resize_axis(0, 4)?;
        assert_eq!(
            (x.size(), x.is_allocated()),
            (dim![4, 2, 4], false),
            "more than the memory holds: it comes when it is written"
        );
        x.mutable_data()?;
        assert_eq!((x.is_allocated(), x.capacity()), (true, 32));
        // The number of axes is part of the type: another one is another tensor.
        let y: Tensor<f32, 2, D> = x.share_as([8, 4])?;
        assert_eq!((y.size(), y.use_count()), (dim![8, 4], 2));
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn set_sizes_and_strides_is_bounds_checked_and_derives_a_stride_of_minus_1() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 3, D>::zeros([2, 3, 4], device)?;
        // As `TensorImpl::set_sizes_and_strides`: from the last axis on, next stride × max(next size, 1).
        for (size, stride, derived) in [
            ([2, 3, 4], [-1, -1, -1], [12, 4, 1]),
            ([4, 3, 2], [-1, -1, 1], [6, 2, 1]),
            ([2, 2, 2], [-1, 3, 1], [6, 3, 1]),
            ([2, 2, 3], [1, -1, 4], [1, 12, 4]),
            ([3, 0, 4], [-1, -1, -1], [4, 4, 1]),
            ([2, 1, 5], [10, -1, 2], [10, 10, 2]),
        ] {
            x.set_sizes_and_strides(size, stride)?;
            assert_eq!((x.size(), x.stride()), (Dim(size), Stride(derived)), "{size:?} {stride:?}");
        }
        let before = *x.layout();
        for (size, stride) in [
            ([2, 3, 5], [-1, -1, -1]),
            ([2, 2, 2], [23, 1, 1]),
            ([2, 1, 1], [-3, 1, 1]),
            ([3, 1, 1], [isize::MAX, 1, 1]),
        ] {
            assert!(
                matches!(x.set_sizes_and_strides(size, stride), Err(Error::Bounds { .. })),
                "{size:?} {stride:?}"
            );
        }
        assert!(matches!(
            x.set_sizes_and_strides([usize::MAX, 2, 1], [0, 0, 0]),
            Err(Error::Overflow { .. })
        ));
        assert_eq!(*x.layout(), before, "after an error nothing has changed");
        // A part stays at its offset, and may reach to the end of the memory.
        let mut part = Tensor::<i32, 1, D>::zeros([10], device)?.into_slice((4..6,))?;
        part.set_sizes_and_strides([6], [1])?;
        assert_eq!((part.size(), part.layout().offset()), (dim![6], 4));
        assert!(part.set_sizes_and_strides([7], [1]).is_err());
        part.set_sizes_and_strides([2], [-4])?; // c10 has no negative strides
        Ok(())
    }
    on_devices!(check);
    let mut part = counted([10]).into_slice((4..6,)).unwrap();
    part.set_sizes_and_strides([2], [-4]).unwrap();
    assert_eq!(part.to_vec().unwrap(), [5, 1]);
}

#[test]
fn restride_takes_the_strides_of_a_memory_format_and_moves_nothing() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<i32, 4, D>::zeros([2, 3, 4, 5], device)?;
        let start = x.raw_ptr();
        x.restride_channels_last()?;
        assert_eq!((x.stride(), x.is_channels_last(), x.raw_ptr()), (Stride([60, 1, 15, 3]), true, start));
        x.restride(MemoryFormat::Preserve)?;
        assert!(x.is_channels_last());
        assert!(
            x.copy()?.is_channels_last() && x.zeros_like()?.is_channels_last() && x.abs()?.is_channels_last(),
            "results keep it"
        );
        assert!(
            x.to_contiguous()?.is_contiguous() && x.to_format(MemoryFormat::Preserve)?.is_channels_last()
        );
        x.restride(MemoryFormat::Contiguous)?;
        assert_eq!((x.stride(), x.use_count()), (Stride([60, 20, 5, 1]), 1));
        let mut deep = Tensor::<i32, 5, D>::zeros([2, 3, 2, 2, 2], device)?;
        deep.restride_channels_last_3d()?;
        assert_eq!((deep.stride(), deep.is_channels_last_3d()), (Stride([24, 1, 12, 6, 3]), true));
        Ok(())
    }
    on_devices!(check);
    let mut x = counted([1, 2, 1, 3]);
    x.restride_channels_last().unwrap();
    assert_eq!(x.to_vec().unwrap(), [1, 3, 5, 2, 4, 6], "the same bytes under other indices");
    let moved = counted([1, 2, 1, 3]).to_channels_last().unwrap();
    assert_eq!(
        (moved.to_vec().unwrap(), moved.is_channels_last()),
        (vec![1, 2, 3, 4, 5, 6], true),
        "to_channels_last moves them"
    );
}

// ---------------------------------------------------------------- handles

#[test]
fn shallow_copy_and_detach_shares_storage_and_may_freeze_metadata() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 2, D>::zeros([3, 4], device)?.into_slice((1.., ..))?;
        let mut free = x.detach(MetadataLock::Unlocked);
        assert_eq!((free.raw_ptr(), free.layout(), free.use_count()), (x.raw_ptr(), x.layout(), 2));
        assert!(!free.is_frozen() && !x.is_frozen());
        free.set_sizes_and_strides([1, 4], [-1, -1])?;
        assert_eq!((free.size(), x.size()), (dim![1, 4], dim![2, 4]), "sizes of its own");
        free.resize([9, 9])?;
        assert!(x.is_allocated() && !free.is_allocated());

        let mut frozen = x.detach(MetadataLock::Frozen);
        macro_rules! refused {
            ($($call:expr;)*) => {
                $(assert!(matches!($call, Err(Error::MetadataFrozen { .. })), stringify!($call));)*
            };
        }
        refused! {
            frozen.resize([1, 1]);
            frozen.resize_axis(0, 1);
            frozen.set_sizes_and_strides([1, 1], [1, 1]);
            frozen.restride(MemoryFormat::Contiguous);
            frozen.reshape_in_place([4, 2]);
            frozen.extend(1, 0);
            frozen.shrink_to(1);
            frozen.reserve([100, 100]);
            frozen.shallow_copy_from(&x);
            frozen.share_data().into_transposed();
            frozen.share_data().into_slice((0, ..));
            frozen.share_data().into_element::<i32>();
        }
        assert_eq!(
            frozen.resize([1, 1]).unwrap_err().to_string(),
            "resize: the metadata of this detached tensor is frozen"
        );
        assert_eq!(
            (frozen.size(), frozen.is_frozen(), frozen.share_data().is_frozen()),
            (x.size(), true, true)
        );
        assert_eq!(
            (frozen.transposed().size(), frozen.copy()?.is_frozen()),
            (dim![4, 2], false),
            "views and copies are free"
        );
        drop((x, free));
        assert!(frozen.mutable_data().is_ok(), "elements are not metadata");
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn shallow_copy_from_takes_the_storage_and_sizes_of_another() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let x = Tensor::<f32, 2, D>::zeros([3, 4], device)?.into_transposed()?;
        let mut y = Tensor::<f32, 2, D>::zeros([1, 1], device)?;
        let kept = y.share_data();
        y.shallow_copy_from(&x)?;
        assert_eq!((y.layout(), y.raw_ptr(), x.use_count()), (x.layout(), x.raw_ptr(), 2));
        assert_eq!(
            (kept.size(), kept.use_count()),
            (dim![1, 1], 1),
            "what it had lives on in its other handles"
        );
        assert!(matches!(
            y.shallow_copy_from(&Tensor::empty([2, 2], device)?),
            Err(Error::Unallocated { .. })
        ));
        assert_eq!(y.size(), x.size(), "after an error nothing has changed");
        Ok(())
    }
    on_devices!(check);
    let x = counted([2, 3]);
    let mut y = counted([1, 1]);
    y.shallow_copy_from(&x).unwrap();
    drop(x);
    assert_eq!(y.to_vec().unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn the_version_counter_is_bumped_by_writing_shared_by_handles_and_new_for_a_detached_one() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let mut x = Tensor::<f32, 1, D>::zeros([4], device)?;
        let before = x.version();
        let writes: [fn(&mut Tensor<f32, 1, D>) -> Result<()>; 4] =
            [|x| x.fill(1.0), |x| x.assign(2.0), |x| x.mutable_data().map(drop), |x| x.view_mut().map(drop)];
        for write in writes {
            let last = x.version();
            write(&mut x)?;
            assert!(x.version() > last);
        }
        let now = x.version();
        x.copy()?;
        x.abs()?;
        x.resize([3])?;
        x.set_sizes_and_strides([2], [2])?;
        assert_eq!(x.version(), now, "reading, and changing metadata, are no writes");
        let (y, view, detached) =
            (x.share_data(), x.share_data().into_slice((1..,))?, x.detach(MetadataLock::Unlocked));
        assert_eq!((y.version(), view.version(), detached.version()), (now, now, 0));
        drop((x, y, view));
        let mut detached = detached;
        detached.fill(1.0)?;
        assert_eq!((detached.version(), before), (1, 0));
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn the_version_counter_and_the_policy_go_on_when_memory_is_replaced() {
    fn check<D: Device>(device: &D) -> Result<()> {
        let policy = ResizePolicy { keep_on_shrink: true, max_kept_bytes: 77 };
        let replace: [fn(&mut Tensor<f32, 1, D>) -> Result<()>; 5] = [
            |x| x.resize([1000]).and_then(|()| x.mutable_data().map(drop)),
            |x| x.extend(1000, 0),
            |x| x.reserve([5000]),
            |x| x.release_memory().and_then(|()| x.mutable_data().map(drop)),
            |x| x.make_unique().map(drop),
        ];
        for (number, replace) in replace.into_iter().enumerate() {
            let mut x = Tensor::<f32, 1, D>::zeros([4], device)?;
            x.set_resize_policy(policy);
            for _ in 0..3 {
                x.fill(1.0)?;
            }
            let sharing = (number == 4).then(|| x.share_data()); // makes `make_unique` copy
            let mut detached = x.detach(MetadataLock::Unlocked);
            if number < 4 {
                drop(x);
            } else {
                assert_eq!((x.make_unique()?, x.version() >= 3, x.resize_policy()), (true, true, policy));
            }
            let last = detached.version();
            replace(&mut detached)?;
            assert!(
                (last..10).contains(&detached.version()),
                "way {number}: {} after {last}",
                detached.version()
            );
            assert_eq!(detached.resize_policy(), policy, "way {number}");
            drop(sharing);
        }
        Ok(())
    }
    on_devices!(check);
}

#[test]
fn handles_cross_a_language_border_as_raw_pointers() {
    /// The declarations of a C header: an opaque handle, a query and a deleter.
    extern "C" fn numel(handle: *const c_void) -> usize {
        // SAFETY: a handle from `into_raw`, of this type, which is not taken back meanwhile.
        unsafe { handle.cast::<Tensor<i32, 2>>().as_ref() }.map_or(0, Tensor::numel)
    }
    extern "C" fn free(handle: *mut c_void) {
        // SAFETY: as above; taken back once.
        NonNull::new(handle.cast::<Tensor<i32, 2>>())
            .into_iter()
            .for_each(|raw| drop(unsafe { Tensor::from_raw(raw) }));
    }
    let x = counted([2, 3]);
    let foreign: *mut c_void = x.share_data().into_transposed().unwrap().into_raw().unwrap().as_ptr().cast();
    assert_eq!((numel(foreign), x.use_count(), size_of_val(&foreign)), (6, 2, size_of::<usize>()));
    let kept = foreign as usize;
    std::thread::spawn(move || free(std::ptr::with_exposed_provenance_mut(kept))).join().unwrap();
    assert_eq!(x.use_count(), 1, "one handle fewer, whichever thread gave it back");
    free(std::ptr::null_mut());

    let raw = x.into_raw().unwrap();
    // SAFETY: from `into_raw`; looked at, then taken back once.
    let (strides, mut back) = unsafe { (raw.as_ref().stride(), Tensor::from_raw(raw)) };
    assert_eq!((strides, back.to_vec().unwrap()), (Stride([3, 1]), vec![1, 2, 3, 4, 5, 6]));
    back.fill(0).unwrap();

    let live = alloc::live_here();
    let armed = alloc::fail_from(0);
    let refused = back.into_raw();
    assert_eq!(armed.refused(), 1);
    assert!(matches!(refused, Err(Error::OutOfMemory { op: "into_raw", .. })));
    assert!(alloc::live_here() < live, "the handle is dropped, and its memory with it");
}

// ---------------------------------------------------------------- struct and devices

#[test]
fn meta_tensors_have_sizes_and_no_data() {
    let meta = Meta::tracing();
    let x = Tensor::<f32, 2, Meta>::zeros([1 << 20, 1 << 20], &meta).unwrap(); // 4 TiB
    let y = Tensor::<f32, 1, Meta>::ones([1 << 20], &meta).unwrap();
    let z = (x.lazy() * y.lift() + 1.0).tanh().eval().unwrap();
    assert_eq!(
        (z.size(), z.sum(Axis::<0>).unwrap().size(), z.matmul(&y).unwrap().size()),
        (x.size(), dim![1 << 20], dim![1 << 20])
    );
    assert_eq!(z.cast::<f64>().unwrap().nbytes(), 1 << 43);
    assert_eq!(
        z.slice((0, ..)).unwrap().to_vec().unwrap_err().to_string(),
        "to_vec: Meta keeps shapes only, no data"
    );
    assert!(matches!(z.sum(All).unwrap().item(), Err(Error::NoData { .. })));
    assert!(
        matches!(z.slice((0, ..)).unwrap().to(&Cpu), Err(Error::NoData { .. })),
        "nor does it become data elsewhere"
    );
    assert!(
        matches!(x.add(y.reshape([1 << 10, 1 << 10]).unwrap()), Err(Error::Sizes { .. })),
        "errors are those of data"
    );
    assert!(
        meta.kernels().iter().any(|kernel| kernel.starts_with("map") && kernel.contains("tanh")),
        "what would have run can be read"
    );
    let like = Tensor::from([[1.0, 2.0]]).to(&meta).unwrap();
    assert_eq!((like.size(), like.device()), (dim![1, 2], &meta));
}

#[test]
fn sizes_and_strides_of_every_rank_need_no_heap() {
    fn everything<const RANK: usize>() -> Result<()>
    where
        Dim<RANK>: rankform::rank::LiftTo<8>,
    {
        let mut x = Tensor::<i32, RANK>::zeros([2; RANK], &Cpu)?;
        // from here on every allocation fails; so asserts, which allocate, come after
        let armed = alloc::fail_from(0);
        let y = x.share_data().into_transposed()?;
        let z = y.detach(MetadataLock::Unlocked);
        let lifted: Tensor<i32, 8> = y.share_data().into_lift()?;
        let transposed_twice = *z.view().transposed().layout();
        let broadcast = lifted.view().transposed().broadcast_to([2; 8]).map(|view| view.numel());
        let same = (lifted.may_overlap() == x.may_overlap(), transposed_twice == *x.layout());
        drop((y, z, lifted));
        x.resize([1; RANK])?;
        x.set_sizes_and_strides([1; RANK], [-1; RANK])?;
        x.restride(MemoryFormat::Preserve)?;
        x.shallow_copy_from(&x.share_data())?;
        let numel = x.mutable_data()?.numel();
        assert_eq!((armed.refused(), broadcast, same, numel), (0, Ok(256), (true, true), 1));
        Ok(())
    }
    let ranks = [
        everything::<0>(),
        everything::<1>(),
        everything::<2>(),
        everything::<3>(),
        everything::<4>(),
        everything::<5>(),
    ];
    let more = [everything::<6>(), everything::<7>(), everything::<8>()];
    assert_eq!(ranks.into_iter().chain(more).collect::<Result<Vec<_>>>().map(|ranks| ranks.len()), Ok(9));
    // Beyond the ranks that have names for their relations, too.
    let x = Tensor::<u8, 40>::zeros([1; 40], &Cpu).unwrap();
    let armed = alloc::fail_from(0);
    let numel = x.share_data().view().transposed().numel();
    assert_eq!((armed.refused(), numel), (0, 1));
}

// The size of the struct, as c10 asserts it of `TensorImpl`: a handle, 2 · rank + 1 words, and one word of
// flags. The crate checks its own at compile time too (`src/tensor/tensor.rs`).
const fn most(rank: usize) -> usize {
    (2 * rank + 2) * size_of::<usize>() + 8
}
const _: () = assert!(size_of::<Tensor<f32, 0>>() <= most(0));
const _: () = assert!(size_of::<Tensor<f32, 2>>() <= most(2));
const _: () = assert!(size_of::<Tensor<f64, 4, Meta>>() <= most(4));
const _: () = assert!(size_of::<Tensor<u8, 8>>() <= most(8));

#[test]
fn the_size_of_the_struct_is_checked_at_compile_time() {
    let sizes = [
        size_of::<Tensor<f32, 0>>(),
        size_of::<Tensor<f32, 2>>(),
        size_of::<Tensor<f32, 4>>(),
        size_of::<Tensor<f32, 8>>(),
    ];
    assert!(
        sizes.into_iter().zip([24, 56, 88, 152]).all(|(found, limit)| found <= limit),
        "{sizes:?}; c10's TensorImpl has 208"
    );
    assert_eq!(
        size_of::<Tensor<u8, 3>>(),
        size_of::<Tensor<String, 3, Meta>>(),
        "whatever the element and the device"
    );
    assert_eq!(
        size_of::<Option<Tensor<f32, 2>>>(),
        size_of::<Tensor<f32, 2>>(),
        "no tensor costs nothing more"
    );
}

/// A device with private data, which its methods report.
#[derive(Clone, PartialEq, Debug)]
struct Sealed;

impl Sealed {
    fn refuse<T>(op: &'static str) -> Result<T> {
        Err(Error::Value { op, what: "this tensor lives in a sealed enclave; ask its owner".into() })
    }
}

/// Refuses a call of a mechanism, by its name.
macro_rules! refused {
    ($own:expr, |$device:ident| unsafe { $_device:ident.$mechanism:ident $($call:tt)* }) => {
        Sealed::refuse(stringify!($mechanism))
    };
}

// SAFETY: no memory is owned, no address is followed.
unsafe impl Device for Sealed {
    type Block = ();
    fn allocate(&self, _: usize, _: Init) -> Result<()> {
        Ok(())
    }
    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<()> {
        free(address, nbytes);
        Sealed::refuse("adopt")
    }
    fn address(_: &()) -> *mut u8 {
        std::ptr::null_mut()
    }
    delegate_device! { refused: write read copy map reduce contract scan gather scatter compact sort }
}

#[test]
fn a_device_says_in_its_own_words_why_data_cannot_be_reached() {
    let x = Tensor::<f32, 2, Sealed>::zeros([2, 2], &Sealed).unwrap();
    let refusals = [
        x.to_vec().map(drop).unwrap_err(),
        x.copy().map(drop).unwrap_err(),
        x.exp().map(drop).unwrap_err(),
        x.sum(All).map(drop).unwrap_err(),
        x.matmul(&x).map(drop).unwrap_err(),
        x.cumsum(Axis::<0>).map(drop).unwrap_err(),
        x.sort(Axis::<0>).map(drop).unwrap_err(),
        x.to(&Cpu).map(drop).unwrap_err(),
        Tensor::from_slice(&[1.0f32], [1], &Sealed).map(drop).unwrap_err(),
    ];
    for (refusal, op) in
        refusals.iter().zip(["to_vec", "copy", "map", "reduce", "contract", "scan", "sort", "to", "write"])
    {
        assert_eq!(
            refusal.to_string(),
            format!("{op}: this tensor lives in a sealed enclave; ask its owner")
        );
    }
    assert_eq!((x.size(), x.transposed().is_contiguous()), (dim![2, 2], false), "metadata needs no data");
}

#[test]
fn the_dispatch_key_set_says_which_kernel_runs() {
    use rankform::dispatch::{DispatchKey, DispatchKeySet};
    use rankform::{DType, DynTensor};
    let keys = |keys: &[DispatchKey]| DispatchKeySet::of(keys);
    let x = DynTensor::from(Tensor::from([num_complex::Complex::new(1.0_f32, 2.0)]));
    assert_eq!(x.key_set(), keys(&[DispatchKey::CPU]));
    let named = x.conjugate().negative().unwrap().with_names(&["row"]).unwrap();
    assert_eq!(
        named.key_set(),
        keys(&[DispatchKey::Negative, DispatchKey::Named, DispatchKey::Conjugate, DispatchKey::CPU])
    );
    assert_eq!(named.key_set().to_string(), "{Negative, Conjugate, Named, CPU}");
    assert_eq!(
        DynTensor::zeros(DType::QI8, &[1], &Cpu).unwrap().key_set(),
        keys(&[DispatchKey::QuantizedCPU])
    );
    assert_eq!(
        DynTensor::zeros(DType::F32, &[1], &Meta::new()).unwrap().key_set(),
        keys(&[DispatchKey::Meta])
    );
    assert_eq!(DynTensor::undefined().key_set(), DispatchKeySet::EMPTY);
    // 64 bits: the highest decides, and sets are combined.
    let all = keys(&DispatchKey::ALL);
    assert_eq!(
        (all.iter().count(), all.highest(), all.bits()),
        (16, Some(DispatchKey::AutogradOther), 0xffff)
    );
    assert!(all.iter().zip(all.iter().skip(1)).all(|(higher, lower)| higher > lower));
    assert_eq!(
        keys(&[DispatchKey::CPU]).union(keys(&[DispatchKey::Meta])).without(DispatchKey::Meta),
        keys(&[DispatchKey::CPU])
    );
}

#[test]
fn a_tensor_requires_grad_is_detached_and_has_a_gradient() -> Result<()> {
    use rankform::autograd::Tape;
    use rankform::dispatch::Dispatcher;
    use rankform::{DType, DynTensor};
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    dispatcher.differentiate(&Cpu)?;
    let square = |x: &DynTensor| dispatcher.call("mul", &[x.into(), x.into()]);
    let sum = |x: &DynTensor| dispatcher.call("sum", &[x.into(), (&[0]).into()]);
    let elements = |x: DynTensor| x.downcast::<f32, 1, Cpu>()?.to_vec();
    // Only tensors on a tape have the metadata, and others say how to get there.
    let host = DynTensor::from(Tensor::from([1.0_f32, 2.0]));
    assert!(!host.requires_grad());
    assert_eq!(
        host.set_requires_grad(true).unwrap_err().to_string(),
        "set_requires_grad: f32 of rank 1 on Cpu is on no tape of the expected device: `x.on_tape(&tape)?` \
         brings it onto one, where `tape = Tape::new(&device)`"
    );
    let tape = Tape::new(&Cpu);
    let x = host.on_tape(&tape)?;
    assert!(!x.requires_grad() && x.value()?.shares_memory_with(&host));
    x.set_requires_grad(true)?;
    let y = square(&x)?;
    assert!(x.requires_grad() && x.share_data().requires_grad() && y.requires_grad());
    // Results cannot become constants, but they can be detached.
    let error = y.set_requires_grad(false).unwrap_err().to_string();
    assert!(error.contains("a result that depends on a variable; `x.value()?` has no history"), "{error}");
    assert!(!y.value()?.on_tape(&tape)?.requires_grad());
    // `grad`: a value of its own. It is neither stored in the tensor nor added to an earlier one.
    let gradients = sum(&y)?.backward::<Cpu>()?;
    assert_eq!(elements(gradients.of_dyn(&x)?)?, [2.0, 4.0]);
    let again = sum(&square(&x)?)?.backward::<Cpu>()?;
    assert_eq!(
        (elements(again.of_dyn(&x)?)?, elements(gradients.of_dyn(&x)?)?),
        (vec![2.0, 4.0], vec![2.0, 4.0])
    );
    // A variable on which nothing depends has zeros; a result before the last pass depends on nothing.
    let other = DynTensor::from(Tensor::from([7.0_f32, 8.0, 9.0])).on_tape(&tape)?;
    assert_eq!(elements(again.of_dyn(&other)?)?, [0.0; 3]);
    assert!(!y.requires_grad());
    // `set_requires_grad(false)` on a variable, in place.
    x.set_requires_grad(false)?;
    assert!(!x.requires_grad() && !square(&x)?.requires_grad());
    let error = sum(&square(&x)?)?.backward::<Cpu>().unwrap_err().to_string();
    assert!(error.starts_with("backward: the result depends on no variable of this tape"), "{error}");
    // `no_grad`.
    x.set_requires_grad(true)?;
    assert!(!tape.paused(|| square(&x))?.requires_grad());
    // Only a single number has a backward pass, and integers have no gradients.
    let error = square(&x)?.backward::<Cpu>().unwrap_err().to_string();
    assert!(error.contains("is no single number; `vjp` takes the gradient of a tensor"), "{error}");
    let whole = DynTensor::from(Tensor::from([1_i32])).on_tape(&tape)?;
    let error = whole.set_requires_grad(true).unwrap_err().to_string();
    assert!(error.contains("tensors of i32 have no gradient"), "{error}");
    let waiting = DynTensor::empty(DType::F32, &[2], &tape)?;
    assert!(matches!(waiting.set_requires_grad(true), Err(Error::Unallocated { .. })));
    // Each tape knows its own tensors.
    let foreign = host.on_tape(&Tape::new(&Cpu))?;
    assert!(matches!(again.of_dyn(&foreign), Err(Error::Device { .. })) && again.of_dyn(&host).is_err());
    Ok(())
}

#[test]
fn a_tensor_has_a_forward_gradient() -> Result<()> {
    use rankform::DynTensor;
    use rankform::autograd::{Jvp, Tape};
    let device = Jvp::new(&Cpu);
    let (x, direction) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 0.5]));
    let dual = device.dual(&x, &direction)?;
    assert!(device.has_tangent(&dual) && !device.has_tangent(&device.constant(&x)?));
    // The forward gradient is in the memory of the direction, and a view has a view of it.
    assert_eq!(device.tangent(&dual)?.raw_ptr(), direction.raw_ptr());
    let y = (dual.lazy() * &dual).eval()?;
    assert_eq!(device.tangent(&y)?.to_vec()?, [2.0, 2.0]);
    assert_eq!(device.tangent(&y.share_data().into_slice((1..,))?)?.to_vec()?, [2.0]);
    // `unpack_dual`, and a tensor without a forward gradient.
    assert_eq!(device.value(&y)?.to_vec()?, [1.0, 4.0]);
    assert_eq!(device.tangent(&device.constant(&x)?)?.to_vec()?, [0.0; 2]);
    // It goes with handles whose types are known at run time.
    let handle = DynTensor::from(y).ranged(0, 1, 2, 1)?.to_contiguous()?.downcast::<f64, 1, Jvp>()?;
    assert_eq!(device.tangent(&handle)?.to_vec()?, [2.0]);
    // Levels: the tangent of a gradient. For x³ it is 6x·v.
    let tape = Tape::new(&device);
    let x = tape.watch(&dual)?;
    let gradient = tape.backward(&(x.lazy() * &x * &x).sum(All)?)?.of(&x)?;
    assert_eq!(device.tangent(&gradient)?.to_vec()?, [6.0, 6.0]);
    Ok(())
}

#[test]
fn extra_metadata_is_kept_in_a_box_of_its_own() {
    use rankform::symbolic::{Bindings, Extent};
    use rankform::{DType, DynTensor};
    let plain = DynTensor::zeros(DType::F32, &[2, 6], &Cpu).unwrap();
    assert!(!plain.has_extra());
    // Names go with their axes.
    let named = plain.share_data().with_names(&["batch", "feature"]).unwrap();
    assert!(named.has_extra() && !plain.has_extra());
    assert_eq!(named.transposed(0, 1).unwrap().names(), ["feature", "batch"]);
    assert_eq!(named.align_to(&["feature", "time", "batch"]).unwrap().size(), [6, 1, 2]);
    // Symbolic sizes are solved when a tensor is bound.
    let (batch, width) = (Extent::named("batch"), Extent::named("width"));
    let traced =
        plain.share_data().with_symbolic_sizes(vec![batch.clone(), width.clone() * batch.clone()]).unwrap();
    let mut sizes = Bindings::default();
    traced.bind(&DynTensor::zeros(DType::F32, &[4, 20], &Cpu).unwrap(), &mut sizes).unwrap();
    assert_eq!(
        (sizes.get("batch"), sizes.get("width"), traced.symbolic_sizes().len()),
        (Some(4), Some(5), 2)
    );
    let wrong = traced.bind(&DynTensor::zeros(DType::F32, &[3, 20], &Cpu).unwrap(), &mut sizes).unwrap_err();
    assert_eq!(wrong.to_string(), "bind: batch is 4, and axis 0 of sizes [3, 20] makes it 3");
    let odd = |extents: &[Extent], found: &[usize]| {
        Bindings::default().bind(extents, found).unwrap_err().to_string()
    };
    assert_eq!(odd(&[batch.clone() * 2], &[5]), "bind: (batch * 2) cannot be 5");
    assert_eq!(
        odd(&[batch.clone() + width.clone()], &[5]),
        "bind: (batch + width) leaves several names open"
    );
    assert_eq!(odd(&[batch.clone() / 3 - 1], &[]), "bind: 1 symbolic sizes for sizes []");
    let mut solved = Bindings::default();
    solved.bind(&[(batch.clone() - 3) / 2, Extent::from(24) / width.clone()], &[5, 8]).unwrap();
    assert_eq!((solved.get("batch"), solved.get("width")), (Some(13), Some(3)));
    // Data of a backend goes with handles and views.
    let held = plain.share_data().with_backend_data("a graph's node".to_string()).unwrap();
    assert_eq!(held.at(0, 1).unwrap().backend_data::<String>().map(String::as_str), Some("a graph's node"));
    assert!(held.backend_data::<u8>().is_none() && plain.backend_data::<String>().is_none());
}

#[test]
fn storage_that_must_not_be_reached_says_so_in_the_tensors_own_words() {
    use rankform::{DType, DynTensor};
    let mut x = DynTensor::zeros(DType::F32, &[2, 2], &Cpu)
        .unwrap()
        .without_access("no storage: this is a placeholder")
        .unwrap();
    let says =
        |error: Error| assert!(error.to_string().ends_with(": no storage: this is a placeholder"), "{error}");
    says(x.to_bytes().unwrap_err());
    says(x.copy().unwrap_err());
    says(x.downcast_ref::<f32, 2, Cpu>().map(drop).unwrap_err());
    says(x.downcast_mut::<f32, 2, Cpu>().map(drop).unwrap_err());
    says(x.mutable_data::<f32, 2, Cpu>().map(drop).unwrap_err());
    says(x.at(0, 1).unwrap().to_contiguous().map(drop).unwrap_err());
    says(x.cast::<Cpu>(DType::F64).unwrap_err());
    assert!(x.as_bytes().is_none());
    assert_eq!(x.transposed(0, 1).unwrap().size(), [2, 2]);
    says(x.downcast::<f32, 2, Cpu>().map(drop).unwrap_err());
}

#[test]
fn handles_of_tensors_typed_at_run_time_are_retained_and_released_through_c() {
    use rankform::DynTensor;
    use rankform::dynamic::*;
    let header = include_str!("../../include/rankform.h");
    let typed = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let raw = DynTensor::from(typed.share_data()).into_raw().unwrap();
    // SAFETY: a handle from `into_raw`, retained once and released twice.
    unsafe {
        let raw = raw.as_ptr();
        assert_eq!(rankform_tensor_retain(raw), raw);
        let sizes = std::slice::from_raw_parts(rankform_tensor_sizes(raw), rankform_tensor_rank(raw));
        let strides = std::slice::from_raw_parts(rankform_tensor_strides(raw), rankform_tensor_rank(raw));
        assert_eq!((sizes, strides), (&[2, 3][..], &[3, 1][..]));
        let mut name = [0xff_u8; 8];
        assert_eq!((rankform_tensor_dtype(raw, name.as_mut_ptr(), 8), &name), (7, b"float32\0"));
        assert_eq!((rankform_tensor_dtype(raw, name.as_mut_ptr(), 4), &name[..4]), (7, &b"flo\0"[..]));
        assert_eq!(rankform_tensor_data(raw).cast::<f32>(), typed.raw_ptr());
        rankform_tensor_release(raw);
        assert_eq!(typed.use_count(), 2);
        rankform_tensor_release(raw);
    }
    assert_eq!(typed.use_count(), 1);
    for function in ["retain", "release", "rank", "sizes", "strides", "dtype", "data"] {
        assert!(
            header.contains(&format!("rankform_tensor_{function}(rankform_tensor* tensor")),
            "{function}"
        );
    }
}
