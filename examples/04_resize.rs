//! Sizes now, memory later: a tensor is resized as often as one likes, and allocates when it is first
//! written.
//!
//! `cargo run --release --example 04_resize`

use rankform::prelude::*;
use rankform::{Error, ResizePolicy};

fn show<const RANK: usize>(what: &str, x: &Tensor<f32, RANK>) {
    println!("{what:>30}: sizes {}, room for {}, allocated: {}", x.size(), x.capacity(), x.is_allocated());
}

pub fn main() -> Result<()> {
    // A tensor without memory. Reading it is an error, never garbage.
    let mut x = Tensor::<f32, 2>::new(&Cpu)?;
    x.resize([4, 3])?;
    show("after resize", &x);
    let unread = x.to_vec().unwrap_err();
    println!("{:>30}  {unread}", "");

    // The first mutable access allocates, and fresh memory is zero.
    x.mutable_data()?.fill(1.0)?;
    show("after mutable_data", &x);

    // Smaller sizes keep the memory; going back up to them is free.
    x.resize([2, 3])?;
    show("smaller", &x);
    let address = x.raw_ptr();
    x.resize([4, 3])?;
    show("and back", &x);
    assert!(x.raw_ptr() == address && x.is_allocated());

    // How much may be kept is a property of the memory.
    x.set_resize_policy(ResizePolicy { keep_on_shrink: true, max_kept_bytes: 16 });
    x.resize([1, 3])?;
    show("smaller, with a limit", &x);

    // A log that grows by rows: the capacity doubles when it is full, and the cost of a row stays constant.
    let mut log = Tensor::<f32, 2>::empty([0, 2], &Cpu)?;
    let mut moves = 0;
    for step in 0..1000 {
        let before = log.capacity();
        log.extend(1, 100)?;
        log.view_mut()?.slice((step, 1))?.fill(step as f32)?;
        moves += (log.capacity() != before) as usize;
    }
    show("a log of 1000 rows", &log);
    println!("{:>30}  moved {moves} times", "");

    // With `reserve` it would not have moved at all; `shrink_to` forgets rows and keeps the room.
    log.shrink_to(10)?;
    show("its first ten rows", &log);
    log.reserve([5000, 2])?;
    show("with room for 5000", &log);

    assert!(matches!(unread, Error::Unallocated { .. }));
    assert!(!x.is_allocated());
    assert!(moves <= 12);
    assert_eq!((log.size(), log.capacity()), (dim![10, 2], 10_000));
    assert_eq!(log.slice((9, ..))?.to_vec()?, [0.0, 9.0]);
    Ok(())
}
