//! Kernels of sparse matrices. Their values are tensors without static types, so the code is compiled once
//! for a device and not once for each element.
// Imports: `error`, `dim`, `element`, `device`, `dynamic`, `tensor`, `sparse`, `ops`, `dispatch`.

use super::context::Argument;
use super::dispatcher::Dispatcher;
use super::kernel::{Kernel, Sparse, View, Wanted, wanted};
use super::keys::DispatchKey;
use crate::device::Device;
use crate::dim::Dim;
use crate::dynamic::{DynTensor, NamedElementwise, Summing};
use crate::element::Number;
use crate::error::{Error, Result, text};
use crate::ops::Mul;
use crate::sparse::{SparseTensor, coalesced, indices_of, places};
use crate::tensor::Tensor;

/// A sparse matrix without static types.
struct ErasedMatrix {
    /// Shape `[2, n]`, on the host.
    indices: Tensor<i64, 2>,
    /// Shape `[n]`.
    values: DynTensor,
    size: Dim<2>,
    coalesced: bool,
}

impl ErasedMatrix {
    fn of<T: Number, D: Device>(x: &DynTensor) -> Result<ErasedMatrix> {
        let x = x.as_sparse::<T, 2, D>()?;
        let values = DynTensor::from(x.values().share_data());
        Ok(ErasedMatrix {
            indices: x.indices().share_data(),
            values,
            size: x.size(),
            coalesced: x.is_coalesced(),
        })
    }

    fn typed<T: Number, D: Device>(self) -> Result<DynTensor> {
        let ErasedMatrix { indices, values, size, coalesced } = self;
        DynTensor::from_sparse(SparseTensor::<T, 2, D>::of_parts(
            indices,
            values.downcast()?,
            size,
            coalesced,
        ))
    }
}

/// Operators on the values of one element type.
struct Steps<D> {
    sum: Summing<D>,
    mul: NamedElementwise<D>,
}

impl<D: Device> Steps<D> {
    fn device<'a>(&self, x: &'a DynTensor) -> Result<&'a D> {
        let expected = || text(format_args!("a tensor on {}", std::any::type_name::<D>()));
        x.device::<D>().ok_or_else(|| Error::Type {
            op: "kernel",
            expected: expected(),
            found: x.kind_in_words(),
        })
    }

    /// As [`SparseTensor::add`].
    fn add(&self, x: ErasedMatrix, y: ErasedMatrix) -> Result<ErasedMatrix> {
        if x.size != y.size {
            return Err(Error::Sizes { op: "add", left: x.size.0.into(), right: y.size.0.into() });
        }
        let device = self.device(&x.values)?;
        let (mut all, more) = (places(&x.indices, x.size)?, places(&y.indices, y.size)?);
        let first = all.len();
        all.extend(more);
        let (unique, cells) = coalesced(&all)?;
        let (before, after) = cells.split_at(first);
        let mut pairs = [(before, &x.values), (after, &y.values)].into_iter().map(|(cells, values)| {
            Ok((Tensor::from_slice(cells, [cells.len()], device)?, values.share_data()))
        });
        let values = self.sum.sums("scatter", &[unique.len()], device, &mut pairs)?;
        Ok(ErasedMatrix { indices: indices_of(&unique, x.size)?, values, size: x.size, coalesced: true })
    }

    /// As [`SparseTensor::mul`].
    fn mul(&self, x: ErasedMatrix, dense: &DynTensor) -> Result<ErasedMatrix> {
        if x.size.0 != dense.size() {
            return Err(Error::Sizes { op: "mul", left: x.size.0.into(), right: dense.size().into() });
        }
        let places = places(&x.indices, x.size)?;
        let index = Tensor::from_vec(places, [x.values.numel()])?.to(self.device(dense)?)?;
        let line = dense.to_contiguous()?.reshaped(&[dense.numel()])?;
        let values = self.mul.call("mul", &[&x.values, &line.selected("take", &index)?])?;
        Ok(ErasedMatrix { values, ..x })
    }

    /// As [`SparseTensor::to_dense`].
    fn to_dense(&self, x: &ErasedMatrix) -> Result<DynTensor> {
        let device = self.device(&x.values)?;
        let count = x.size.numel_of("to_dense", x.values.dtype().size())?;
        let index = Tensor::from_vec(places(&x.indices, x.size)?, [x.values.numel()])?.to(device)?;
        let dense = self.sum.sums(
            "scatter",
            &[count],
            device,
            &mut std::iter::once(Ok((index, x.values.share_data()))),
        )?;
        dense.reshaped(&x.size.0)
    }

    /// As [`SparseTensor::matmul`].
    fn matmul(&self, x: &ErasedMatrix, dense: &DynTensor) -> Result<DynTensor> {
        let ([m, k], [inner, n]) = (x.size.0, [dense.size()[0], dense.size()[1]]);
        if k != inner {
            return Err(Error::Inner {
                op: "matmul",
                inner: [k, inner],
                left: x.size.0.into(),
                right: dense.size().into(),
            });
        }
        let (device, kept) = (self.device(dense)?, x.values.numel());
        let mut parts = (0..kept).step_by(4096).map(|start| {
            let part = start..kept.min(start + 4096);
            let line = |axis: usize| -> Result<Tensor<i64, 1, D>> {
                x.indices.slice((axis, part.clone()))?.to(device)
            };
            let values = x.values.ranged(0, part.start, part.end, 1)?.inserted(1)?;
            let rows = dense.selected("gather", &line(1)?)?;
            Ok((line(0)?, self.mul.call("mul", &[&rows, &values])?))
        });
        self.sum.sums("scatter", &[m, n], device, &mut parts)
    }
}

impl Dispatcher {
    /// Kernels of sparse matrices: `add` of two, `mul` and `matmul` by a dense one, `to_dense`.
    pub(super) fn sparse_of<T: Number, D: Device>(&mut self, key: DispatchKey) -> Result<()> {
        const fn steps<T: Number, D: Device>() -> Steps<D> {
            Steps { sum: Summing::of::<T>(), mul: NamedElementwise::of_two::<Mul, T, T>() }
        }
        let sparse = wanted::<Sparse<T, 2, D>>;
        let dense = wanted::<View<T, 2, D>>;
        let add = |x: &[&DynTensor]| match x {
            [x, y] => steps::<T, D>()
                .add(ErasedMatrix::of::<T, D>(x)?, ErasedMatrix::of::<T, D>(y)?)?
                .typed::<T, D>(),
            _ => Err(unlike("add", x)),
        };
        let mul = |x: &[&DynTensor]| match x {
            [x, y] => steps::<T, D>().mul(ErasedMatrix::of::<T, D>(x)?, y)?.typed::<T, D>(),
            _ => Err(unlike("mul", x)),
        };
        let matmul = |x: &[&DynTensor]| match x {
            [x, y] => steps::<T, D>().matmul(&ErasedMatrix::of::<T, D>(x)?, y),
            _ => Err(unlike("matmul", x)),
        };
        let to_dense = |x: &[&DynTensor]| match x {
            [x] => steps::<T, D>().to_dense(&ErasedMatrix::of::<T, D>(x)?),
            _ => Err(unlike("to_dense", x)),
        };
        self.register("add", key, kernel(vec![sparse(), sparse()], add))?;
        self.register("mul", key, kernel(vec![sparse(), dense()], mul))?;
        self.register("matmul", key, kernel(vec![sparse(), dense()], matmul))?;
        self.register("to_dense", key, kernel(vec![sparse()], to_dense))
    }
}

fn unlike(op: &'static str, found: &[&DynTensor]) -> Error {
    let words: Vec<String> = found.iter().map(|x| x.kind_in_words()).collect();
    Error::Type { op, expected: "sparse matrices and dense ones".into(), found: words.join(", ") }
}

/// A kernel from a function of tensors.
fn kernel(wanted: Vec<Wanted>, run: fn(&[&DynTensor]) -> Result<DynTensor>) -> Kernel {
    Kernel {
        wanted,
        run: Box::new(move |_, arguments| {
            run(&arguments.iter().filter_map(Argument::tensor).collect::<Vec<_>>())
        }),
    }
}
