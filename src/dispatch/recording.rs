//! Kernels of tensors on a tape: those operators on f32 and f64 whose results have gradients.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`, `ops`, `dynamic`, `dispatch`.

use super::dispatcher::Dispatcher;
use super::operators::{Fill, key_of};
use crate::autograd::Tape;
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::dynamic::{DynTensor, NamedElementwise, Product, by_dtype};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Op, Reducer};
use crate::ops::{Conj, Neg, Visit, VisitReductions};

/// Adds the operators from f32 or f64 to f32 or f64. Other results have no gradient, and the dispatcher
/// computes them on the values.
struct RecordingFill<'a, D: Device>(Fill<'a, Tape<D>, false>);

const fn has_kernel(of: DType, to: DType) -> bool {
    matches!(of, DType::F32 | DType::F64) && matches!(to, DType::F32 | DType::F64)
}

impl<'a, D: Device> Visit for RecordingFill<'a, D> {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, _: F) {
        let add: fn(&mut Fill<'a, Tape<D>, false>) =
            const { if has_kernel(T::DTYPE, F::Out::DTYPE) { Fill::one::<F, T> } else { Fill::nothing } };
        add(&mut self.0);
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, _: F) {
        let add: fn(&mut Fill<'a, Tape<D>, false>) =
            const { if has_kernel(T::DTYPE, F::Out::DTYPE) { Fill::two::<F, T> } else { Fill::nothing } };
        add(&mut self.0);
    }
}

impl<'a, D: Device> VisitReductions for RecordingFill<'a, D> {
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) {
        let add: fn(&mut Fill<'a, Tape<D>, false>) =
            const { if has_kernel(T::DTYPE, R::Out::DTYPE) { Fill::reduced::<R, T> } else { Fill::nothing } };
        add(&mut self.0);
    }
}

/// The elements of a lazy view on a tape, of types that have gradients.
fn resolved<D: Device>(x: &DynTensor) -> Result<DynTensor> {
    let op = "resolved";
    let refuse = || {
        let found = x.kind_in_words();
        Err(Error::Type { op, expected: "f32, f64, c32 or c64 on a tape".into(), found })
    };
    let mut plain = x.share_data();
    if plain.is_conjugate() {
        plain = plain.conjugate();
    }
    if plain.is_negative() {
        plain = plain.negative()?;
    }
    if x.is_conjugate() {
        let conj = by_dtype!(x.dtype(), T in [C32 C64] => {
            NamedElementwise::<Tape<D>>::of_one::<Conj, T>()
        }, else return refuse());
        plain = conj.call(op, &[&plain])?;
    }
    if x.is_negative() {
        let neg = by_dtype!(x.dtype(), T in [F32 F64 C32 C64] => {
            NamedElementwise::<Tape<D>>::of_one::<Neg, T>()
        }, else return refuse());
        plain = neg.call(op, &[&plain])?;
    }
    Ok(plain)
}

impl Dispatcher {
    /// Adds kernels for tensors on tapes of `device`: the elementwise operators, reductions and matrix
    /// products on f32 and f64 whose results have gradients. They run on the tape, which records them as it
    /// does those of typed tensors.
    ///
    /// Operators without such a kernel run on the values, and the result is a constant of the tape. If its
    /// elements are floats or complex numbers and an operand depends on a variable, that is an error. A
    /// kernel of the keys `Autograd…` is called before these if an operand depends on a variable and the tape
    /// is not [paused](Tape::paused): an operator with its own derivative ([`Tape::custom`]).
    ///
    /// # Cost
    /// As [`with_arithmetic`](Dispatcher::with_arithmetic): the kernels of `Tape<Cpu>` are compiled with
    /// rankform.
    ///
    /// # Errors
    /// [`Error::Value`] if the dispatcher has these kernels; [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::dispatch::Dispatcher;
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    /// dispatcher.differentiate(&Cpu)?;
    /// let tape = Tape::new(&Cpu);
    /// let w = DynTensor::from(tape.watch(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]))?);
    /// let x = DynTensor::from(tape.constant(&Tensor::from([1.0, 10.0]))?);
    /// assert_eq!(w.key_set().to_string(), "{AutogradCPU, CPU}");
    /// assert_eq!(x.key_set().to_string(), "{CPU}");
    /// let y = dispatcher.call("matmul", &[(&w).into(), (&x).into()])?;
    /// let loss = dispatcher.call("sum", &[(&y).into(), (&[0]).into()])?;
    /// let gradient = loss.backward::<Cpu>()?.of_dyn(&w)?;
    /// assert_eq!(gradient.downcast_ref::<f64, 2, Cpu>()?.to_vec()?, [1.0, 10.0, 1.0, 10.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn differentiate<D: Device>(&mut self, device: &D) -> Result<()> {
        let add: fn(&mut Dispatcher, &D) -> Result<()> = const {
            if D::IS_CPU { |dispatcher, _| dispatcher.add_for_cpu() } else { Self::add_recording::<D> }
        };
        add(self, device)
    }

    /// Compiled with this crate, once for all programs.
    fn add_for_cpu(&mut self) -> Result<()> {
        self.add_recording::<Cpu>(&Cpu)
    }

    fn add_recording<D: Device>(&mut self, device: &D) -> Result<()> {
        let key = key_of(device)?;
        let place = text(format_args!(" on a tape of {}", short_name(std::any::type_name::<D>())));
        let mut fill = RecordingFill(Fill::<Tape<D>, false>::new(self, key, &place));
        crate::ops::each_operator(&mut fill);
        crate::ops::each_reduction(&mut fill);
        fill.0.product(Product::of::<f32>());
        fill.0.product(Product::of::<f64>());
        fill.0.result?;
        self.resolve_by(DynTensor::is_on::<Tape<D>>, resolved::<D>);
        Ok(())
    }
}

/// A type's name without the paths of modules.
fn short_name(name: &str) -> String {
    let mut short = String::new();
    for part in name.split_inclusive(['<', '>', ',', ' ']) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}
