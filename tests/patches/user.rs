//! Uses the additions of the patches in this folder.

use rankform::io::npy;
use rankform::kernel::Reducer;
use rankform::ops::{SignedSquare, SumSquares, VisitReductions, built_in, each_reduction};
use rankform::prelude::*;
use rankform::{DType, Element, F8E3M4};

/// In generic code, for every element, rank and device.
fn twice<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
    x.signed_square()?.signed_square()
}

/// The operator, in every way that an operator has.
fn operator() -> Result<()> {
    let x = Tensor::from([[1.0, -2.0], [3.0, 0.5]]);
    assert_eq!(x.signed_square()?.to_vec()?, [1.0, -4.0, 9.0, 0.25]);
    assert_eq!(x.transposed().signed_square()?.to_vec()?, [1.0, 9.0, -4.0, 0.25]);
    assert_eq!(twice(&x)?.to_vec()?, [1.0, -16.0, 81.0, 0.0625]);

    let fused = (x.lazy().signed_square() + 1.0).eval()?;
    assert_eq!(fused.to_vec()?, [2.0, -3.0, 10.0, 1.25]);
    assert_eq!(x.lazy().signed_square().sum(Axis::<1>)?.to_vec()?, [-3.0, 9.25]);

    let slope = x.map(derivative::<_, 0>(SignedSquare))?; // 2 · |x|
    assert_eq!(slope.to_vec()?, [2.0, 4.0, 6.0, 1.0]);

    let mut y = x.copy()?;
    y.map_in_place(SignedSquare)?;
    assert_eq!(y.to_vec()?, [1.0, -4.0, 9.0, 0.25]);

    let shapes = Tensor::<f32, 3, Meta>::zeros([2, 0, 5], &Meta::new())?;
    assert_eq!(twice(&shapes)?.size(), [2, 0, 5]);

    let rows = built_in();
    let row = rows.iter().find(|row| row.name == "signed_square").expect("a row of the table");
    assert_eq!((row.operands, (row.value)([-3.0, 0.0]), (row.slope)([-3.0, 0.0])), (1, -9.0, [6.0, 0.0]));
    Ok(())
}

/// The element types for which the reduction is visited.
#[derive(Default)]
struct SumsOfSquares(Vec<DType>);
impl VisitReductions for SumsOfSquares {
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) {
        self.0.extend((R::NAME == "sum_squares").then_some(T::DTYPE));
    }
}

/// The reduction, as a method, in an expression and by its type; dispatch and tests visit it.
fn reduction() -> Result<()> {
    let x = Tensor::from([[1.0, -2.0], [3.0, 0.5]]);
    assert_eq!(x.sum_squares(Axis::<1>)?.to_vec()?, [5.0, 9.25]);
    assert_eq!(x.sum_squares_axis::<1>(0)?.to_vec()?, [10.0, 4.25]);
    assert_eq!((x.lazy() * 2.0).reduce(SumSquares, All)?.item()?, 57.0);
    let mut visited = SumsOfSquares::default();
    each_reduction(&mut visited);
    assert!([DType::F32, DType::I8, DType::C64].iter().all(|dtype| visited.0.contains(dtype)));
    Ok(())
}

/// The element: conversions, text, names, files.
fn element() -> Result<()> {
    let x = Tensor::from([0.3f32, -15.5, 15.9, 0.015625]).cast::<F8E3M4>()?;
    assert_eq!(x.cast::<f32>()?.to_vec()?, [0.296875, -15.5, f32::INFINITY, 0.015625]);
    assert_eq!((F8E3M4::from_f32(1.0).to_bits(), F8E3M4::from_f32(2.5).to_string()), (0x30, "2.5".into()));
    assert_eq!("float8_e3m4".parse::<DType>()?, DType::F8E3M4);
    assert!(DType::F8E3M4.promote(DType::F16).is_err());
    let mut file = Vec::new();
    npy::write_to(&mut file, &x)?;
    assert!(npy::Npy::new(&file[..])?.read::<F8E3M4, 1>()? == x);
    Ok(())
}

/// The microkernel: products of `i64` that wrap.
fn product_kernel() -> Result<()> {
    let n = 70;
    let value = |k: usize| (k as i64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64);
    let numbers = |from: usize| (0..n * n).map(|k| value(k + from)).collect::<Vec<i64>>();
    let (a, b) = (numbers(0), numbers(7));
    let product = Tensor::from_slice(&a, [n, n], &Cpu)?.matmul(&Tensor::from_slice(&b, [n, n], &Cpu)?)?;
    let sum = |row: usize, column: usize| {
        (0..n).fold(0i64, |sum, k| sum.wrapping_add(a[row * n + k].wrapping_mul(b[k * n + column])))
    };
    let expected: Vec<i64> = (0..n * n).map(|at| sum(at / n, at % n)).collect();
    assert_eq!(product.to_vec()?, expected);
    Ok(())
}

fn main() -> Result<()> {
    operator()?;
    reduction()?;
    element()?;
    product_kernel()
}
