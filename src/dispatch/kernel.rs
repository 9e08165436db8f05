//! Kernels: typed functions with erased types, which one table can hold.
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `quantized`, `sparse`, `dynamic`, `dispatch`.

use super::context::{Argument, Dispatching};
#[cfg(feature = "cuda")]
use crate::device::Cuda;
use crate::device::{Cpu, Device, Meta};
use crate::dtype::{DType, Kind};
use crate::dynamic::DynTensor;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::quantized::{QuantizedElement, QuantizedTensor};
use crate::sparse::SparseTensor;
use crate::tensor::TensorView;
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

/// The kind of a parameter of an operator, for all of its kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A tensor.
    Tensor,
    /// A tensor or a number.
    Operand,
    /// A number.
    Number,
    /// Axes.
    Axes,
}

/// A parameter of one kernel.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) class: Class,
    /// The element type, if the kernel takes only one.
    pub(super) dtype: Option<DType>,
    pub(super) words: String,
    fits: fn(&DynTensor) -> bool,
}

impl Wanted {
    pub(super) fn new(
        class: Class,
        dtype: Option<DType>,
        words: String,
        fits: fn(&DynTensor) -> bool,
    ) -> Self {
        Wanted { class, dtype, words, fits }
    }

    fn takes(&self, argument: &Argument<'_>) -> bool {
        match (self.class, argument) {
            (Class::Tensor | Class::Operand, Argument::Tensor(tensor)) => {
                self.dtype.is_none_or(|dtype| dtype == tensor.dtype()) && (self.fits)(tensor)
            }
            (Class::Operand, Argument::Number(number)) => {
                self.dtype.is_none_or(|dtype| holds(dtype, *number))
            }
            (Class::Number, Argument::Number(_)) | (Class::Axes, Argument::Axes(_)) => true,
            _ => false,
        }
    }
}

/// Whether a number may be combined with elements of a type: for integers it must be an integer of the type's
/// range.
fn holds(dtype: DType, number: f64) -> bool {
    let bits = 8 * dtype.size() as i32;
    let (low, high) = match dtype.kind() {
        Kind::Bool => (0.0, 2.0),
        Kind::Unsigned => (0.0, 2f64.powi(bits)),
        Kind::Signed => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
        _ => return true,
    };
    number.fract() == 0.0 && (low..high).contains(&number)
}

/// The type of a parameter of a typed kernel: [`View`], [`Sparse`], [`Quantized`] or [`Any`] tensor, or
/// `f64`.
pub trait Parameter: 'static {
    /// The type of the function's argument.
    type Value<'a>;
    /// The parameter without its types.
    #[doc(hidden)]
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool);
    /// Converts the argument to that type.
    #[doc(hidden)]
    fn take<'a>(argument: Argument<'a>) -> Result<Self::Value<'a>>;
}

/// A tensor of element `T` and rank `RANK` on device `D`: the function receives a [`TensorView`].
pub struct View<T, const RANK: usize, D: Device = Cpu>(PhantomData<fn() -> (T, D)>);
/// A sparse tensor: the function receives a [`&SparseTensor`](SparseTensor). Its kernels are registered with
/// the keys `Sparse…`.
pub struct Sparse<T, const RANK: usize, D: Device = Cpu>(PhantomData<fn() -> (T, D)>);
/// A quantized tensor: the function receives a [`&QuantizedTensor`](QuantizedTensor). Its kernels are
/// registered with the keys `Quantized…`.
pub struct Quantized<Q, const RANK: usize, D: Device = Cpu>(PhantomData<fn() -> (Q, D)>);
/// A tensor of any types: the function receives a `&DynTensor`.
pub struct Any;

/// A parameter's description, with its device if the key does not identify it: all devices of users share one
/// key.
fn described<D: Device>(layout: &str, dtype: DType, rank: usize) -> String {
    let device = TypeId::of::<D>();
    let has_key = device == TypeId::of::<Cpu>() || device == TypeId::of::<Meta>();
    #[cfg(feature = "cuda")]
    let has_key = has_key || device == TypeId::of::<Cuda>();
    match has_key {
        true => text(format_args!("{layout}{dtype} of rank {rank}")),
        false => text(format_args!("{layout}{dtype} of rank {rank} on {}", std::any::type_name::<D>())),
    }
}

fn mismatch(expected: &str, found: Argument<'_>) -> Error {
    Error::Type { op: "kernel", expected: text(format_args!("{expected}")), found: found.in_words() }
}

impl<T: Element, const RANK: usize, D: Device> Parameter for View<T, RANK, D> {
    type Value<'a> = TensorView<'a, T, RANK, D>;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        let fits = |x: &DynTensor| x.is::<T, RANK, D>() && x.opaque().is_none();
        (Class::Tensor, Some(T::DTYPE), described::<D>("", T::DTYPE, RANK), fits)
    }
    fn take<'a>(argument: Argument<'a>) -> Result<TensorView<'a, T, RANK, D>> {
        argument.tensor().ok_or_else(|| mismatch("a tensor", argument))?.downcast_ref()
    }
}
impl<T: Element, const RANK: usize, D: Device> Parameter for Sparse<T, RANK, D> {
    type Value<'a> = &'a SparseTensor<T, RANK, D>;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        let fits = |x: &DynTensor| x.behind::<SparseTensor<T, RANK, D>>().is_some();
        (Class::Tensor, Some(T::DTYPE), described::<D>("sparse ", T::DTYPE, RANK), fits)
    }
    fn take<'a>(argument: Argument<'a>) -> Result<&'a SparseTensor<T, RANK, D>> {
        argument.tensor().ok_or_else(|| mismatch("a sparse tensor", argument))?.as_sparse()
    }
}
impl<Q: QuantizedElement, const RANK: usize, D: Device> Parameter for Quantized<Q, RANK, D> {
    type Value<'a> = &'a QuantizedTensor<Q, RANK, D>;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        let fits = |x: &DynTensor| x.behind::<QuantizedTensor<Q, RANK, D>>().is_some();
        (Class::Tensor, Some(Q::DTYPE), described::<D>("quantized ", Q::DTYPE, RANK), fits)
    }
    fn take<'a>(argument: Argument<'a>) -> Result<&'a QuantizedTensor<Q, RANK, D>> {
        argument.tensor().ok_or_else(|| mismatch("a quantized tensor", argument))?.as_quantized()
    }
}
impl Parameter for Any {
    type Value<'a> = &'a DynTensor;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        (Class::Tensor, None, "any tensor".into(), |_| true)
    }
    fn take<'a>(argument: Argument<'a>) -> Result<&'a DynTensor> {
        argument.tensor().ok_or_else(|| mismatch("a tensor", argument))
    }
}
impl Parameter for f64 {
    type Value<'a> = f64;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        (Class::Number, None, "number".into(), |_| false)
    }
    fn take<'a>(argument: Argument<'a>) -> Result<f64> {
        match argument {
            Argument::Number(number) => Ok(number),
            other => Err(mismatch("a number", other)),
        }
    }
}

/// A function that an operator can run, with its parameters.
pub struct Kernel {
    pub(super) wanted: Vec<Wanted>,
    pub(super) run: Box<dyn for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync>,
}

pub(super) fn wanted<P: Parameter>() -> Wanted {
    let (class, dtype, words, fits) = P::wanted();
    Wanted::new(class, dtype, words, fits)
}

fn argument<'a>(arguments: &[Argument<'a>], at: usize) -> Result<Argument<'a>> {
    let missing = || Error::Value {
        op: "kernel",
        what: text(format_args!("{} arguments where one more is wanted", arguments.len())),
    };
    arguments.get(at).copied().ok_or_else(missing)
}

impl Kernel {
    /// A kernel from a function of one argument.
    ///
    /// # Examples
    /// ```
    /// use rankform::dispatch::{Dispatcher, DispatchKey, Kernel, View};
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let mut dispatcher = Dispatcher::new();
    /// let scale = Kernel::of_two::<View<f32, 2>, f64, _>(|x, factor| x.mul(factor as f32));
    /// dispatcher.register("my::scale", DispatchKey::CPU, scale)?;
    /// // A kernel with other parameters than the first is refused.
    /// let wrong = Kernel::of_one::<View<f64, 2>, _>(|x| x.neg());
    /// assert!(dispatcher.register("my::scale", DispatchKey::CPU, wrong).is_err());
    ///
    /// let x = DynTensor::from(Tensor::from([[1.0_f32, 2.0]]));
    /// let y = dispatcher.call("my::scale", &[(&x).into(), 10.0.into()])?;
    /// assert_eq!(y.downcast_ref::<f32, 2, Cpu>()?.to_vec()?, [10.0, 20.0]);
    /// let z = DynTensor::from(Tensor::from([1_i8]));
    /// let error = dispatcher.call("my::scale", &[(&z).into(), 1.0.into()]).unwrap_err();
    /// assert!(error.to_string().contains("there are: CPU (f32 of rank 2, number)"));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn of_one<A: Parameter, O: Into<DynTensor>>(
        f: impl for<'a> Fn(A::Value<'a>) -> Result<O> + Send + Sync + 'static,
    ) -> Kernel {
        Kernel {
            wanted: vec![wanted::<A>()],
            run: Box::new(move |_, x| Ok(f(A::take(argument(x, 0)?)?)?.into())),
        }
    }

    /// A kernel from a function of two arguments.
    pub fn of_two<A: Parameter, B: Parameter, O: Into<DynTensor>>(
        f: impl for<'a> Fn(A::Value<'a>, B::Value<'a>) -> Result<O> + Send + Sync + 'static,
    ) -> Kernel {
        let run = move |_: &Dispatching<'_>, x: &[Argument<'_>]| {
            Ok(f(A::take(argument(x, 0)?)?, B::take(argument(x, 1)?)?)?.into())
        };
        Kernel { wanted: vec![wanted::<A>(), wanted::<B>()], run: Box::new(run) }
    }

    /// A kernel from a function of three arguments.
    pub fn of_three<A: Parameter, B: Parameter, C: Parameter, O: Into<DynTensor>>(
        f: impl for<'a> Fn(A::Value<'a>, B::Value<'a>, C::Value<'a>) -> Result<O> + Send + Sync + 'static,
    ) -> Kernel {
        let run = move |_: &Dispatching<'_>, x: &[Argument<'_>]| {
            Ok(f(A::take(argument(x, 0)?)?, B::take(argument(x, 1)?)?, C::take(argument(x, 2)?)?)?.into())
        };
        Kernel { wanted: vec![wanted::<A>(), wanted::<B>(), wanted::<C>()], run: Box::new(run) }
    }

    /// A kernel from a function that inspects its arguments itself and may call the kernels of lower keys.
    /// `classes` lists the kinds of its parameters.
    pub fn boxed(
        classes: &[Class],
        run: impl for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync + 'static,
    ) -> Kernel {
        let word = |class| match class {
            Class::Tensor => "any tensor",
            Class::Operand => "any operand",
            Class::Number => "number",
            Class::Axes => "axes",
        };
        let wanted =
            classes.iter().map(|&class| Wanted::new(class, None, word(class).into(), |_| true)).collect();
        Kernel { wanted, run: Box::new(run) }
    }

    pub(super) fn takes(&self, arguments: &[Argument<'_>]) -> bool {
        self.wanted.len() == arguments.len()
            && self.wanted.iter().zip(arguments).all(|(wanted, argument)| wanted.takes(argument))
    }
}

/// Shows the parameters: `(f32 of rank 2, number)`.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (at, wanted) in self.wanted.iter().enumerate() {
            write!(f, "{}{}", if at > 0 { ", " } else { "" }, wanted.words)?;
        }
        f.write_str(")")
    }
}
