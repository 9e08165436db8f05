//! Creating tensors and printing them.
//!
//! `cargo run --release --example 01_create`

use rankform::prelude::*;

pub fn main() -> Result<()> {
    // Written down: element and rank follow from the array.
    let written = Tensor::from([[1.0, 2.5, 3.0], [4.0, 5.0, 6.25]]); // Tensor<f64, 2>
    println!("written down:\n{written}\n");

    // Filled: zeros say their type, the others have a value to take it from.
    let zeros = Tensor::<f32, 2>::zeros([2, 3], &Cpu)?;
    let sevens = Tensor::full([2, 3], 7_i32, &Cpu)?;
    println!("zeros:\n{zeros}\nsevens:\n{sevens}\n");

    // Counted: steps as integers, or equal distances as floats.
    let steps = Tensor::arange(10, 0, -3, &Cpu)?;
    let grid = Tensor::linspace(0.0, 1.0, 5, &Cpu)?;
    println!("steps of -3: {steps}\nfive points from 0 to 1: {grid}\n");

    // Computed from the index.
    let table = Tensor::from_fn([4, 5], |[row, column]| ((row + 1) * (column + 1)) as i32, &Cpu)?;
    println!("a multiplication table:\n{table}\n");

    // At random: the seed and the place decide, whatever the device and the number of threads.
    let dice = Tensor::<f64, 2>::random_uniform([2, 6], 1.0..7.0, 42, &Cpu)?.cast::<u8>()?;
    println!("dice, thrown twelve times:\n{dice}\n");

    // From Rust's own collections: a slice is copied, a vector is taken over, an iterator is collected.
    let readings = [20.5, 21.0, 19.5, 22.0];
    let copied = Tensor::from_slice(&readings, [2, 2], &Cpu)?;
    let vector = vec![1_u8, 2, 3];
    let address = vector.as_ptr();
    let taken = Tensor::from_vec(vector, [3])?;
    let squares = Tensor::from_iter((1..=5).map(|i| i * i))?;
    println!("from a slice:\n{copied}\nfrom a vector: {taken}\nfrom an iterator: {squares}\n");

    // On the CPU an element may have any type, also one that no operator computes with.
    let squares_of_a_board =
        Tensor::collect_fn([2, 3], |[row, column]| format!("{}{}", ["a", "b", "c"][column], row + 1))?;
    println!("a board has a square {}", squares_of_a_board[[1, 2]]);

    // Printing: `{}` as NumPy does, `{:.2}` with two digits, `{:?}` with type, sizes and device.
    let thirds = Tensor::from([1.0, 10.0, 100.0]) / 3.0;
    println!("{thirds}\n{thirds:.2}\n{thirds:?}");
    println!("what is long is cut: {}", Tensor::arange(0, 5000, 1, &Cpu)?);

    assert_eq!(written.size(), [2, 3]);
    assert_eq!((zeros.to_vec()?, sevens.to_vec()?), (vec![0.0; 6], vec![7; 6]));
    assert_eq!(steps.to_vec()?, [10, 7, 4, 1]);
    assert_eq!(grid[[4]], 1.0);
    assert_eq!(table[[3, 4]], 20);
    assert!(dice.iter().all(|eyes| (1..=6).contains(eyes)));
    assert_eq!(taken.raw_ptr(), address); // not one byte was copied
    assert_eq!(squares_of_a_board[[1, 2]], "c2");
    assert_eq!(format!("{thirds:.2}"), "[ 0.33  3.33 33.33]");
    Ok(())
}
