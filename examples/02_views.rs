//! Views: another look at the same memory. Slicing, turning, sliding and repeating move no element.
//!
//! `cargo run --release --example 02_views`

use rankform::prelude::*;

pub fn main() -> Result<()> {
    let x = Tensor::from_fn([3, 4], |[row, column]| (10 * row + column) as i32, &Cpu)?;
    println!("x, element = 10 · row + column:\n{x}\n");

    // A slice is a tuple, one entry an axis. An index drops its axis: the rank is known at compile time.
    let row = x.slice((1, ..))?; // TensorView<i32, 1>
    let corner = x.slice((..2, 2..))?; // TensorView<i32, 2>
    let every_other = x.slice((.., (..).step(2)))?;
    println!("row 1: {row}\ncorner:\n{corner}\nevery other column:\n{every_other}\n");

    // The axes in another order, or one of them backwards: only strides change.
    let turned = x.transposed();
    let mirrored = x.reversed(Axis::<1>);
    println!(
        "transposed, strides {:?}:\n{turned}\nmirrored, strides {:?}:\n{mirrored}\n",
        turned.stride(),
        mirrored.stride()
    );

    // A window slides along an axis; the new last axis runs inside the window. Windows overlap in memory.
    let week = Tensor::from([3.0, 5.0, 4.0, 8.0, 6.0]);
    let windows = week.windows(Axis::<0>, 3, 1)?; // (place, inside the window)
    println!("windows of 3:\n{windows}\ntheir means: {}\n", windows.mean(Axis::<1>)?);

    // Repeated with a stride of 0: a million rows in the memory of one.
    let tall = row.lift::<2>().broadcast_to([1_000_000, 4])?;
    println!("{} elements in the memory of {}", tall.numel(), row.numel());

    // `lift` adds leading axes and `insert_axis` one anywhere, until ranks agree; sizes of 1 are then
    // broadcast.
    let (days, hours) = (Tensor::from([100, 200, 300]), Tensor::from([1, 2, 3, 4]));
    let sums = days.insert_axis(Axis::<1>) + hours.lift(); // (day, 1) + (1, hour)
    println!("days downwards, hours to the right:\n{sums}\n");

    // A view is `Copy` and borrows; the same memory seen through two of them is fine.
    let diagonal = x.diagonal(Axis::<0>, Axis::<1>)?;
    println!("diagonal: {diagonal}");

    // Other sizes for the same elements are a view where strides can express it, and an error where they
    // cannot.
    let flat = x.reshape([12])?;
    let refused = turned.reshape([12]).unwrap_err();
    println!("refused: {refused}");

    assert_eq!(row.to_vec()?, [10, 11, 12, 13]);
    assert_eq!(every_other.to_vec()?, [0, 2, 10, 12, 20, 22]);
    assert_eq!((turned.size(), turned.stride()), (dim![4, 3], Stride([1, 4])));
    assert_eq!(mirrored[[0, 0]], 3);
    assert_eq!(windows.mean(Axis::<1>)?.to_vec()?, [4.0, 17.0 / 3.0, 6.0]);
    assert_eq!(tall.stride(), [0, 1]);
    assert_eq!(sums[[2, 3]], 304);
    assert_eq!(diagonal.to_vec()?, [0, 11, 22]);
    // All of them look into the memory of `x`.
    for first in [
        flat.raw_ptr(),
        corner.raw_ptr(),
        turned.raw_ptr(),
        mirrored.raw_ptr(),
        diagonal.raw_ptr(),
        tall.raw_ptr(),
    ] {
        assert!(x.as_slice().unwrap().as_ptr_range().contains(&first));
    }
    Ok(())
}
