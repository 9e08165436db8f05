//! Ownership: reading needs `&Tensor`, writing needs `&mut Tensor` and the only handle on its memory.
//!
//! `cargo run --release --example 03_ownership`

use rankform::prelude::*;
use rankform::{Error, MetadataLock};

pub fn main() -> Result<()> {
    let mut x = Tensor::from([1.0, 2.0, 3.0]);

    // Two ways to have it twice, and each says which: `copy` makes new memory, `share_data` another handle on
    // the same.
    let deep = x.copy()?;
    let shallow = x.share_data();
    println!(
        "copy at another address: {}, shared at the same: {}",
        deep.raw_ptr() != x.raw_ptr(),
        shallow.raw_ptr() == x.raw_ptr()
    );

    // While two handles share the memory, nobody writes it: no element changes behind anybody's back.
    let refused = x.fill(0.0).unwrap_err();
    println!("refused: {refused}");

    // `make_unique` copies where it must and returns whether it did. Then each handle has its own memory.
    let copied = x.make_unique()?;
    x.fill(9.0)?;
    println!("copied: {copied}; x is {x}, the other handle still {shallow}");

    // Dropping the other handle is the way without a copy.
    let mut y = shallow;
    y *= 10.0;
    println!("y is {y}, written in place");

    // Views are for the length of a scope: the borrow checker knows them, and keeps writers apart.
    let mut z = Tensor::from([[1, 2], [3, 4]]);
    let (mut left, right) = z.view_mut()?.split_at_mut(Axis::<1>, 1)?;
    left.assign(right.as_view())?;
    println!("left column overwritten by the right one:\n{z}");

    // To keep a part for longer than a scope, turn a handle into that part: no lifetime, no copy.
    let second_row: Tensor<i32, 1> = z.share_data().into_slice((1, ..))?;
    drop(z);
    println!("all that is left of z: {second_row}");

    // A detached handle counts the writes to its memory from 0, and its sizes may be frozen.
    let w = Tensor::from([0.0; 4]);
    let mut frozen = w.detach(MetadataLock::Frozen);
    println!("refused: {}", frozen.resize([2]).unwrap_err());

    // Writing from several places is spelled by the element type, as for slices: cells, or atomics across
    // threads.
    let counts = Tensor::<u32, 1>::zeros([3], &Cpu)?.into_atomics()?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| counts[[1]].fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
    });
    let counts = Tensor::<u32, 1>::from_atomics(counts)?;
    println!("counted by four threads: {counts}");

    assert!(matches!(refused, Error::Shared { handles: 2, .. }) && copied);
    assert_eq!((x.to_vec()?, y.to_vec()?), (vec![9.0; 3], vec![10.0, 20.0, 30.0]));
    assert_eq!((second_row.to_vec()?, second_row.use_count()), (vec![4, 4], 1));
    assert_eq!(counts.to_vec()?, [0, 4, 0]);
    Ok(())
}
