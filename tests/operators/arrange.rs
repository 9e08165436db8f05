//! One set of sizes in many layouts: contiguous, permuted, reversed, sliced with steps and an offset,
//! stretched, and more.

use crate::is_sampled;
use rankform::prelude::*;

/// A tensor of rank 3 in one kind of layout.
pub struct Arranged<T> {
    pub kind: &'static str,
    pub tensor: Tensor<T, 3>,
}

/// The sizes of [`arranged`].
pub const SIZE: [usize; 3] = [5, 6, 7];

/// Tensors of `size` in every kind of layout, and some with axes of size 1 that stretch to it; `next` gives
/// the elements.
pub fn arranged<T: Element>(size: [usize; 3], mut next: impl FnMut() -> T) -> Vec<Arranged<T>> {
    let [a, b, c] = size;
    let mut fresh = |size: [usize; 3]| Tensor::from_fn(size, |_| next(), &Cpu).unwrap();
    let mut all = vec![
        ("contiguous", fresh([a, b, c])),
        ("permuted", fresh([c, a, b]).into_permuted([1, 2, 0]).unwrap()),
        ("transposed", fresh([c, b, a]).into_transposed().unwrap()),
        (
            "reversed",
            fresh([a, b, c]).into_reversed::<0>(Axis::<0>).unwrap().into_reversed(Axis::<2>).unwrap(),
        ),
        (
            "sliced",
            fresh([2 * a + 1, b + 2, 3 * c + 1])
                .into_slice(((1..).step(2), 1..b + 1, (1..).step(3)))
                .unwrap(),
        ),
        ("cut", fresh([a, b + 3, c]).into_slice((.., 2..b + 2, ..)).unwrap()),
        ("stretched inside", fresh([a, 1, c]).into_broadcast([a, b, c]).unwrap()),
        ("stretched outside", fresh([1, b, 1]).into_broadcast([a, b, c]).unwrap()),
    ];
    if a > 0 && b > 0 && c > 0 {
        all.push((
            "backwards by 2",
            fresh([2 * a, b, 2 * c - 1]).into_slice(((..).step(-2), .., (..).step(-2))).unwrap(),
        ));
        all.push(("axis of 1", fresh([a, 1, c])));
        all.push(("one element", fresh([1, 1, 1])));
    }
    all.into_iter().map(|(kind, tensor)| Arranged { kind, tensor }).collect()
}

/// As [`arranged`]; under MemorySanitizer every fourth layout, beginning with another one for other sizes.
pub fn arranged_or_sampled<T: Element>(
    size: [usize; 3],
    next: impl FnMut() -> T,
) -> impl Iterator<Item = Arranged<T>> {
    let first: usize = size.iter().sum();
    let all = arranged(size, next).into_iter().enumerate();
    all.filter(move |(layout, _)| is_sampled(first + layout, 4)).map(|(_, arranged)| arranged)
}

/// The elements of `tensor`, stretched to `size`, read one by one.
pub fn read<T: Element, const RANK: usize>(tensor: &Tensor<T, RANK>, size: [usize; RANK]) -> Vec<T> {
    let at = |index: [usize; RANK]| {
        std::array::from_fn(|axis| if tensor.size()[axis] == 1 { 0 } else { index[axis] })
    };
    Dim(size).indices().map(|index| tensor[at(index)]).collect()
}

/// An odd number of rows of `columns` elements of this size, enough for non-temporal stores.
pub const fn rows_past_caches(columns: usize, element: usize) -> usize {
    let large = if cfg!(rankform_unoptimized) { 1 << 20 } else { 16 << 20 };
    (large / (columns * element) + 1) | 1
}

/// Runs `work` on as many threads as write large results past the caches on every processor; without the
/// feature `threads`, on this one.
pub fn on_many_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    on_threads(4, work)
}

/// Runs `work` on one thread, where some processors write large results through the caches.
pub fn on_one_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    on_threads(1, work)
}

fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "threads")]
    return rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
    #[cfg(not(feature = "threads"))]
    {
        let _ = threads;
        work()
    }
}
