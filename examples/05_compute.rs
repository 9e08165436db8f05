//! Computing at once: every operator is a method that returns a new tensor or an error.
//!
//! `cargo run --release --example 05_compute`

use rankform::prelude::*;

pub fn main() -> Result<()> {
    // Four pupils, three exams.
    // (pupil, exam)
    let marks = Tensor::from([[12.0, 15.0, 9.0], [18.0, 17.0, 19.0], [8.0, 11.0, 10.0], [14.0, 19.0, 16.0]]);

    // The operators of Rust work on tensors and numbers; they panic where sizes do not fit.
    let percent = &marks * 5.0;
    println!("in percent:\n{percent}\n");

    // Reductions say the axis in their type: it is gone from the result, and a wrong one does not compile.
    let of_pupil = marks.mean(Axis::<1>)?; // Tensor<f64, 1>
    let best = marks.argmax(Axis::<0>)?; // which pupil, for each exam
    let all = marks.mean(All)?.item()?;
    println!("mean of each pupil: {of_pupil:.2}\nbest pupil of each exam: {best}\nmean of all: {all:.2}\n");

    // A column gets its axis back before it meets a matrix; sizes of 1 are broadcast.
    let centered = &marks - of_pupil.insert_axis(Axis::<1>);
    println!("above or below one's own mean:\n{centered:.2}\n");

    // Operators have names too, for sizes that may be wrong: an `Err` instead of a panic.
    let roots = marks.sqrt()?;
    let refused = marks.add(&Tensor::from([[1.0, 2.0]])).unwrap_err();
    println!("refused: {refused}\n");

    // Comparisons give booleans, which count, choose and combine.
    let passed = marks.greater_equal(10.0)?;
    println!("passed, for each pupil: {}", passed.count(Axis::<1>)?);
    println!("failed marks blanked:\n{}\n", passed.select(&marks, f64::NAN)?);

    // Matrix products: weighted means, how the exams vary together.
    let weights = Tensor::from([0.5, 0.25, 0.25]);
    let weighted = marks.matmul(&weights)?; // (pupil, exam) · (exam) → (pupil)
    let together = centered.transposed().matmul(&centered)?; // (exam, exam)
    println!("weighted: {weighted}\nproducts of exams:\n{together:.1}\n");

    // Shares that sum to 1; large scores do not overflow.
    let shares = marks.softmax(Axis::<1>)?;
    let certain = (&marks * 1000.0).softmax(Axis::<1>)?;
    println!("softmax:\n{shares:.3}\n");

    // In place, in the memory that is there.
    let mut total = weighted.zeros_like()?;
    total += &weighted;
    total.maximum(10.0)?.copy_to(&mut total)?;

    assert_eq!(percent[[1, 2]], 95.0);
    assert_eq!(best.to_vec()?, [1, 3, 1]);
    assert_eq!(passed.count(All)?.item()?, 10);
    assert_eq!(weighted.to_vec()?, [12.0, 18.0, 9.25, 15.75]);
    assert_eq!(total.to_vec()?, [12.0, 18.0, 10.0, 15.75]);
    assert_eq!(together.size(), [3, 3]);
    assert!(centered.sum(All)?.item()?.abs() < 1e-12);
    assert_eq!(certain[[1, 2]], 1.0);
    assert!((shares.sum(Axis::<1>)? - 1.0).abs()?.max(All)?.item()? < 1e-12);
    assert!((roots.square()? - &marks).abs()?.max(All)?.item()? < 1e-12);
    Ok(())
}
