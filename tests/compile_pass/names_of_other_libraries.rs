// Code that must compile: a user's traits that give tensors names of other libraries, which rankform catches.
use rankform::prelude::*;
use std::ops::Deref;

trait Sizes {
    fn len(&self) -> usize;
    fn shape(&self) -> Vec<usize>;
    fn dims(self) -> usize;
}
impl<T, const RANK: usize, D: Device> Sizes for Tensor<T, RANK, D> {
    fn len(&self) -> usize {
        self.numel()
    }
    fn shape(&self) -> Vec<usize> {
        self.size().0.to_vec()
    }
    fn dims(self) -> usize {
        RANK
    }
}

trait Rows {
    fn rows(self) -> usize;
}
impl<T, D: Device> Rows for &Tensor<T, 2, D> {
    fn rows(self) -> usize {
        self.size()[0]
    }
}
impl<T, D: Device> Rows for TensorView<'_, T, 2, D> {
    fn rows(self) -> usize {
        self.size()[0]
    }
}

/// Of every type.
trait Ndim {
    fn ndim(&self) -> usize {
        7
    }
}
impl<X> Ndim for X {}

/// As near as the names that are caught: called by their trait.
trait Mine {
    fn clip(&mut self, low: f32, high: f32) -> Result<()>;
    fn randn(n: usize) -> Result<Tensor<f32, 1>>;
}
impl Mine for Tensor<f32, 1> {
    fn clip(&mut self, low: f32, high: f32) -> Result<()> {
        let limited = self.clamp(low, high)?;
        self.assign(&limited)
    }
    fn randn(n: usize) -> Result<Tensor<f32, 1>> {
        Tensor::random_normal([n], 0.0, 1.0, 1, &Cpu)
    }
}

struct Batch(Tensor<f32, 1>);
impl Deref for Batch {
    type Target = Tensor<f32, 1>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn count(x: &impl Sizes) -> usize {
    x.len()
}

fn main() -> Result<()> {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    assert_eq!(
        (x.len(), (&x).len(), count(&x), x.shape(), x.rows(), x.view().rows()), (2, 2, 2, vec![1, 2], 1, 1)
    );
    assert_eq!((x.ndim(), x.view().ndim(), x.lazy().ndim(), x.dims()), (7, 7, 7, 2));
    // Methods of a struct that holds tensors, not of tensors.
    let batch = Batch(Tensor::from([3.0, -4.0]));
    assert_eq!(
        (batch.len(), batch.ndim(), [batch].iter().map(|batch| batch.len()).sum::<usize>()), (2, 7, 2)
    );
    let mut y = <Tensor<f32, 1> as Mine>::randn(100)?;
    Mine::clip(&mut y, 0.0, 0.5)?;
    assert_eq!((y.len(), y.max(All)?.item()?), (100, 0.5));
    Ok(())
}
