//! `Dispatcher`: operators by name, their kernels by key, and the behavior for a key without a kernel.
// Imports: `error`, `dtype`, `device`, `dynamic`.

use super::context::{Argument, Dispatching, RunWithKeys, keys_of, with_tensors};
use super::kernel::{Class, Kernel};
use super::keys::{DispatchKey, DispatchKeySet};
use crate::device::Device;
use crate::dtype::{DType, Wrapped};
use crate::dynamic::DynTensor;
use crate::error::{Error, Result, text};
use std::collections::BTreeMap;

const KEY_COUNT: usize = DispatchKey::ALL.len();
/// One list of kernels for each element type, and one for kernels of any type.
const LIST_COUNT: usize = DType::ALL.len() + 1;

/// The kernels of one operator for one key.
#[derive(Default)]
struct KernelEntry {
    /// The kernels by the element type of the first tensor.
    by_type: Vec<Vec<Kernel>>,
    skips: bool,
}

/// One operator.
struct RegisteredOperator {
    classes: Vec<Class>,
    entries: [KernelEntry; KEY_COUNT],
}

/// A function for any operator that has no kernel of its own for a key.
type Fallback = Box<dyn for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync>;

/// The behavior of a key for operators that have no kernel for it.
enum WithoutKernel {
    Fail,
    Skip,
    /// Computes lazy views.
    Resolve,
    Run(Fallback),
}

/// Operators by name. The keys of the operands select the kernel, the highest key first. A kernel may call
/// the kernels of lower keys.
///
/// # Examples
/// ```
/// use rankform::dispatch::Dispatcher;
/// use rankform::prelude::*;
/// use rankform::DynTensor;
/// let dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
/// let (x, y) = (DynTensor::from(Tensor::from([[1, 2], [3, 4]])), DynTensor::from(Tensor::from([10, 20])));
/// // Ranks broadcast.
/// let sum: Tensor<i32, 2> = dispatcher.call("add", &[(&x).into(), (&y).into()])?.try_into()?;
/// assert_eq!(sum.to_vec()?, [11, 22, 13, 24]);
/// let total = dispatcher.call("sum", &[(&x).into(), (&[0, 1][..]).into()])?;
/// assert_eq!(total.downcast::<i32, 0, Cpu>()?.item()?, 10);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Dispatcher {
    operators: BTreeMap<String, RegisteredOperator>,
    without_kernel: [WithoutKernel; KEY_COUNT],
    casts: ByDevice<CastFn>,
    resolves: ByDevice<Resolve>,
}

/// Casts a tensor to another element type.
type CastFn = fn(&DynTensor, DType) -> Result<DynTensor>;
/// Computes the elements of a lazy view.
type Resolve = fn(&DynTensor) -> Result<DynTensor>;

/// An operator of a [`Dispatcher`]; see [`Dispatcher::operator`].
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    dispatcher: &'a Dispatcher,
    name: &'a str,
    operator: &'a RegisteredOperator,
}

impl Handle<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// As [`Dispatcher::call`].
    pub fn call(&self, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        self.dispatcher.run(self.name, self.operator, keys_of(arguments), arguments)
    }
}

impl RunWithKeys for Handle<'_> {
    fn run(&self, keys: DispatchKeySet, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        self.dispatcher.run(self.name, self.operator, keys, arguments)
    }
}

impl Default for Dispatcher {
    fn default() -> Self {
        Dispatcher::new()
    }
}

/// The arguments in words.
fn described(arguments: &[Argument<'_>]) -> String {
    arguments.iter().map(Argument::in_words).collect::<Vec<_>>().join(", ")
}

/// A function of a tensor for each type of device.
type ByDevice<F> = Vec<(fn(&DynTensor) -> bool, F)>;

/// Applies the function for the device of a tensor. A constant of a tape may take that for the inner device.
fn by_device<F: Copy>(
    op: &str,
    functions: &ByDevice<F>,
    x: &DynTensor,
    apply: &dyn Fn(F, &DynTensor) -> Result<DynTensor>,
) -> Result<DynTensor> {
    if let Some((_, function)) = functions.iter().find(|(is_on, _)| is_on(x)) {
        return apply(*function, x);
    }
    #[cfg(feature = "autograd")]
    if x.tape_block().is_some() && !x.requires_grad() {
        return x.constant_beside(by_device(op, functions, &x.value()?, apply)?);
    }
    Err(value(text(format_args!("no function of the dispatcher {op} {}", x.kind_in_words()))))
}

fn value(what: String) -> Error {
    Error::Value { op: "dispatch", what }
}

impl Dispatcher {
    /// A dispatcher without operators. Keys of derivatives are skipped unless an operator has a kernel for
    /// them.
    pub fn new() -> Self {
        let without_kernel = DispatchKey::ALL
            .map(|key| if key.is_autograd() { WithoutKernel::Skip } else { WithoutKernel::Fail });
        Dispatcher { operators: BTreeMap::new(), without_kernel, casts: Vec::new(), resolves: Vec::new() }
    }

    /// The names of the operators, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.operators.keys().map(String::as_str)
    }

    /// Adds a kernel. The first kernel of a name defines the operator's parameters: a tensor, an operand (a
    /// tensor or a number), a number, or axes, in each position.
    ///
    /// # Errors
    /// [`Error::Value`] if other kernels of that name have other parameters, or if a kernel for these types
    /// exists.
    pub fn register(&mut self, name: &str, key: DispatchKey, kernel: Kernel) -> Result<()> {
        let classes: Vec<Class> = kernel.wanted.iter().map(|wanted| wanted.class).collect();
        let operator = self.operators.entry(name.into()).or_insert_with(|| RegisteredOperator {
            classes: classes.clone(),
            entries: std::array::from_fn(|_| KernelEntry::default()),
        });
        // If the operator takes a tensor or a number, a kernel may take only one of the two.
        let fits = |(&all, &own): (&Class, &Class)| {
            all == own || all == Class::Operand && matches!(own, Class::Tensor | Class::Number)
        };
        if operator.classes.len() != classes.len() || !operator.classes.iter().zip(&classes).all(fits) {
            return Err(value(text(format_args!(
                "{name} takes {:?}, and a kernel {kernel} does not",
                operator.classes
            ))));
        }
        let first =
            kernel.wanted.iter().find(|wanted| matches!(wanted.class, Class::Tensor | Class::Operand));
        let place = first.and_then(|wanted| wanted.dtype).map_or(LIST_COUNT - 1, |dtype| dtype as usize);
        let entry = &mut operator.entries[key as usize];
        entry.by_type.resize_with(LIST_COUNT, Vec::new);
        let words = kernel.to_string();
        if entry.by_type[place].iter().any(|other| other.to_string() == words) {
            return Err(value(text(format_args!("{name} has a kernel {kernel} for {key:?}"))));
        }
        entry.by_type[place].push(kernel);
        Ok(())
    }

    /// Makes an operator skip a key, whatever other operators do.
    ///
    /// # Errors
    /// [`Error::Value`] if no operator has this name.
    pub fn fall_through(&mut self, name: &str, key: DispatchKey) -> Result<()> {
        let unknown = self.unknown(name);
        self.operators.get_mut(name).ok_or(unknown)?.entries[key as usize].skips = true;
        Ok(())
    }

    /// Makes operators without a kernel for a key skip the key.
    pub fn fall_through_all(&mut self, key: DispatchKey) {
        self.without_kernel[key as usize] = WithoutKernel::Skip;
    }

    /// Makes operators without a kernel for a key run this function.
    pub fn fallback(
        &mut self,
        key: DispatchKey,
        run: impl for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync + 'static,
    ) {
        self.without_kernel[key as usize] = WithoutKernel::Run(Box::new(run));
    }

    /// Lets operators promote from now on. If an operator has no kernel for operands of several element
    /// types, or for a number and integer elements, the tensors on `D` are cast to one type. This is the type
    /// that holds the elements of all of them ([`DType::promote`]). Then a number counts by its kind, not by
    /// its value, as in PyTorch ([`DType::with_number`]): a real number turns bool and every integer type
    /// into f32 (i64 too, of which f32 keeps 24 bits), an integer turns bool into i64, and any other pair
    /// keeps the type. The number 300 with a tensor of u8 therefore stays an error: cast the tensor first.
    ///
    /// Without this call nothing is converted, as everywhere in this crate, and such a call is an error that
    /// lists the kernels.
    ///
    /// # Examples
    /// ```
    /// use rankform::dispatch::Dispatcher;
    /// use rankform::prelude::*;
    /// use rankform::{DType, DynTensor};
    /// let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    /// let x = DynTensor::from(Tensor::from([1_i32, 2]));
    /// let y = DynTensor::from(Tensor::from([0.5_f64, 0.25]));
    /// assert!(dispatcher.call("add", &[(&x).into(), (&y).into()]).is_err());
    /// dispatcher.promote::<Cpu>();
    /// let sum = dispatcher.call("add", &[(&x).into(), (&y).into()])?;
    /// assert_eq!(sum.downcast::<f64, 1, Cpu>()?.to_vec()?, [1.5, 2.25]);
    /// assert_eq!(dispatcher.call("mul", &[(&x).into(), 0.5.into()])?.dtype(), DType::F32);
    /// // An integer out of range of i32:
    /// assert!(dispatcher.call("mul", &[(&x).into(), 3e9.into()]).is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn promote<D: Device>(&mut self) {
        self.casts.push((DynTensor::is_on::<D>, DynTensor::cast::<D>));
    }

    /// Makes operators without a kernel for lazy views compute these, by a function for a device.
    pub(super) fn resolve_by(&mut self, is_on: fn(&DynTensor) -> bool, resolve: Resolve) {
        self.resolves.push((is_on, resolve));
        for key in [DispatchKey::Conjugate, DispatchKey::Negative] {
            let place = &mut self.without_kernel[key as usize];
            if matches!(place, WithoutKernel::Fail) {
                *place = WithoutKernel::Resolve;
            }
        }
    }

    /// Runs an operator.
    ///
    /// # Errors
    /// [`Error::Value`], with a list, if no operator has this name, or if the operator has no kernel for
    /// these operands; the errors of the kernel.
    pub fn call(&self, name: &str, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        self.operator(name)?.call(arguments)
    }

    /// Looks up an operator, to run it often.
    ///
    /// # Errors
    /// [`Error::Value`], with a list, if no operator has this name.
    pub fn operator(&self, name: &str) -> Result<Handle<'_>> {
        let (name, operator) = self.operators.get_key_value(name).ok_or_else(|| self.unknown(name))?;
        Ok(Handle { dispatcher: self, name, operator })
    }

    fn run(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<DynTensor> {
        match self.attempt(name, operator, keys, arguments) {
            Some(result) => result,
            None => self.otherwise(name, operator, keys, arguments),
        }
    }

    /// Runs an operator that has no kernel for the arguments as they are: with casts, if that is allowed, or
    /// on the values of tensors that are on a tape.
    #[cold]
    fn otherwise(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<DynTensor> {
        if !self.casts.is_empty()
            && let Some(result) = self.promoted(name, operator, keys, arguments)?
        {
            return Ok(result);
        }
        #[cfg(feature = "autograd")]
        if let Some(result) = self.on_values(name, operator, keys, arguments)? {
            return Ok(result);
        }
        Err(self.missing(name, operator, keys, arguments))
    }

    /// Runs an operator that has no kernel for a tape on the values of its tensors. The result is a constant
    /// of the tape. `None` if no tensor is on a tape.
    ///
    /// # Errors
    /// [`Error::Value`] if the result would depend on a variable: its gradient would be lost. Elements that
    /// have no gradient, as of comparisons, lose none.
    #[cfg(feature = "autograd")]
    fn on_values(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<Option<DynTensor>> {
        let tensors = || arguments.iter().filter_map(Argument::tensor);
        let Some(first) = tensors().find(|x| x.tape_block().is_some()) else { return Ok(None) };
        if tensors().any(|x| x.opaque().is_some()) {
            return Ok(None);
        }
        if let Some(other) = tensors().find(|x| !x.is_on_tape_of(first)) {
            return Err(value(text(format_args!(
                "{name} takes tensors of one tape, and {} is beside {}; `x.on_tape(&tape)?` brings it onto \
                 the tape",
                other.kind_in_words(),
                first.kind_in_words()
            ))));
        }
        let records = keys.iter().any(DispatchKey::is_autograd);
        let result = with_tensors(arguments, DynTensor::value, |values| {
            // A tape inside the tape records for itself.
            let inner = keys_of(values).iter().filter(|key| key.is_autograd() || keys.contains(*key));
            let inner = inner.fold(DispatchKeySet::EMPTY, DispatchKeySet::with);
            self.attempt(name, operator, inner, values)
                .unwrap_or_else(|| self.otherwise(name, operator, inner, values))
        })?;
        if records && !result.dtype().is_discrete() {
            return Err(value(text(format_args!(
                "{name} has no kernel that records ({}): `dispatcher.differentiate(&device)?` adds those of \
                 rankform for f32 and f64; a result without a gradient needs `tape.paused(…)` or the values \
                 `x.value()?`",
                described(arguments)
            ))));
        }
        first.constant_beside(result).map(Some)
    }

    /// Runs the kernel for the arguments without casts; `None` if no kernel takes them.
    #[inline]
    fn attempt(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Option<Result<DynTensor>> {
        let handle = Handle { dispatcher: self, name, operator };
        let mut rest = keys;
        let first =
            arguments.iter().find_map(Argument::tensor).map_or(LIST_COUNT - 1, |x| x.dtype() as usize);
        while let Some(key) = rest.highest() {
            rest = rest.without(key);
            let call = Dispatching::new(name, &handle, rest);
            let entry = &operator.entries[key as usize];
            let of = |place: usize| entry.by_type.get(place).into_iter().flatten();
            if let Some(kernel) = of(first).chain(of(LIST_COUNT - 1)).find(|kernel| kernel.takes(arguments)) {
                return Some((kernel.run)(&call, arguments));
            }
            if entry.skips {
                continue;
            }
            match &self.without_kernel[key as usize] {
                WithoutKernel::Skip => continue,
                WithoutKernel::Run(run) => return Some(run(&call, arguments)),
                WithoutKernel::Resolve => {
                    let resolve = |x: &DynTensor| {
                        if !x.is_conjugate() && !x.is_negative() {
                            return Ok(x.share_data());
                        }
                        let names: Vec<&str> = x.names().iter().map(String::as_str).collect();
                        let plain =
                            by_device("resolves lazy views of", &self.resolves, x, &|resolve, x| resolve(x))?;
                        plain.with_names(&names)
                    };
                    return Some(with_tensors(arguments, resolve, |x| call.below(x)));
                }
                WithoutKernel::Fail => break,
            }
        }
        None
    }

    /// Casts all tensors to one element type and runs the kernel for it, if they have several types, or a
    /// type that a number does not fit. `None` if no kernel takes that type.
    fn promoted(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<Option<DynTensor>> {
        let dense = |x: &&DynTensor| x.opaque().is_none() && !x.dtype().is_quantized();
        let mut common: Option<DType> = None;
        for x in arguments.iter().filter_map(Argument::tensor).filter(dense) {
            common = Some(common.map_or(Ok(x.dtype()), |common| common.promote(x.dtype()))?);
        }
        for argument in arguments {
            if let (Argument::Number(number), Some(dtype)) = (argument, common) {
                common = Some(dtype.with_number(if number.fract() == 0.0 {
                    Wrapped::Integer
                } else {
                    Wrapped::Real
                })?);
            }
        }
        let tensors = || arguments.iter().filter_map(Argument::tensor);
        let Some(common) = common.filter(|&common| tensors().any(|x| dense(&x) && x.dtype() != common))
        else {
            return Ok(None);
        };
        let change = |x: &DynTensor| match dense(&x) && x.dtype() != common {
            true => by_device("casts", &self.casts, x, &|cast, x| cast(x, common)),
            false => Ok(x.share_data()),
        };
        let mut is_missing = false;
        // The error describes the arguments of the caller, not their casts.
        let result = with_tensors(arguments, change, |cast| {
            let result = self.attempt(name, operator, keys, cast);
            is_missing = result.is_none();
            result.unwrap_or_else(|| Ok(DynTensor::undefined()))
        })?;
        Ok(Some(result).filter(|_| !is_missing))
    }

    #[cold]
    fn unknown(&self, name: &str) -> Error {
        let names: Vec<&str> = self.names().collect();
        value(text(format_args!("no operator {name:?}; there are: {}", names.join(", "))))
    }

    #[cold]
    fn missing(
        &self,
        name: &str,
        operator: &RegisteredOperator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Error {
        let mut there = Vec::new();
        for (key, entry) in DispatchKey::ALL.iter().zip(&operator.entries) {
            there.extend(entry.by_type.iter().flatten().map(|kernel| text(format_args!("{key:?} {kernel}"))));
        }
        value(text(format_args!(
            "no kernel of {name} for ({}) with keys {keys}; there are: {}",
            described(arguments),
            there.join(", ")
        )))
    }
}
