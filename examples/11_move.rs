//! Moving and ordering: by index, by mask, by value; running sums; products and windows over named axes.
//!
//! `cargo run --release --example 11_move`

use rankform::ops::{Add, Conv};
use rankform::prelude::*;

pub fn main() -> Result<()> {
    // Rows by their numbers, and back: rows that meet are added, in order, on any number of threads.
    let table = Tensor::from([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]);
    let words = Tensor::from([2, 0, 2]);
    let read = table.index_select(Axis::<0>, &words)?;
    assert_eq!(read.to_vec()?, [2.0, 2.5, 0.0, 0.5, 2.0, 2.5]);
    let mut gradient = Tensor::<f64, 2>::zeros([3, 2], &Cpu)?;
    gradient.index_scatter(Add, Axis::<0>, &words, &read)?;
    println!("rows that were read, added up where they came from:\n{gradient}\n");
    assert_eq!(gradient.to_vec()?, [0.0, 0.5, 0.0, 0.0, 4.0, 5.0]);
    println!("a row that is not there: {}\n", table.index_select(Axis::<0>, &Tensor::from([3])).unwrap_err());

    // By value.
    let scores = Tensor::from([[0.1, 0.7, 0.2], [0.6, 0.3, 0.9]]);
    let (best, places) = scores.topk(Axis::<1>, 2)?;
    println!("the two best of each row:\n{best}\nat\n{places}\n");
    assert_eq!(places.to_vec()?, [1, 2, 2, 0]);
    assert_eq!(scores.masked_select(&scores.greater(0.5)?)?.to_vec()?, [0.7, 0.6, 0.9]);
    assert_eq!(scores.sort(Axis::<1>)?.slice((0, ..))?.to_vec()?, [0.1, 0.2, 0.7]);

    // Running sums, of an expression too; any reducer runs.
    let steps = Tensor::from([1.0, -2.0, 3.0, 4.0]);
    assert_eq!(steps.lazy().abs().cumsum(Axis::<0>)?.to_vec()?, [1.0, 3.0, 6.0, 10.0]);
    assert_eq!(steps.cummax(Axis::<0>)?.to_vec()?, [1.0, 1.0, 3.0, 4.0]);

    // Products by named axes: the letters are read by the compiler, which counts the ranks.
    let heads = Tensor::<f64, 3>::ones([2, 3, 4], &Cpu)?;
    let similar = einsum!("hqd,hkd->hqk", &heads, &heads)?;
    assert_eq!((similar.size(), similar[[0, 1, 2]]), (dim![2, 3, 3], 4.0));

    // A blur of an image, and the brightest of each window.
    let image = Tensor::from_fn([1, 1, 6, 6], |[_, _, i, j]| (i * 6 + j) as f32, &Cpu)?;
    let blur = Tensor::<f32, 4>::full([1, 1, 3, 3], 1.0 / 9.0, &Cpu)?;
    let blurred = image.conv2d(&blur, Conv::new().padding([1, 1]))?;
    println!("blurred:\n{:.1}", blurred.slice((0, 0, .., ..))?);
    assert!((blurred[[0, 0, 2, 2]] - image[[0, 0, 2, 2]]).abs() < 1e-4);
    Ok(())
}
