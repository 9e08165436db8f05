//! `Dispatcher`: operators by name, their kernels by key, and what to do where there is none.
// Imports: `error`, `dtype`, `device`, `dynamic`, `dispatch`.

use super::context::{Argument, Dispatching, RunWithKeys, keys_of, with_tensors};
use super::kernel::{Class, Kernel};
use super::keys::{DispatchKey, DispatchKeySet};
use crate::device::Device;
use crate::dtype::{DType, Wrapped};
use crate::dynamic::DynTensor;
use crate::error::{Error, Result, text};
use std::collections::BTreeMap;

const KEYS: usize = DispatchKey::ALL.len();
/// One place for each element type, and one for kernels of any.
const TYPES: usize = DType::ALL.len() + 1;

/// The kernels of one operator for one key.
#[derive(Default)]
struct Entry {
    /// By the element type of the first tensor.
    by_type: Vec<Vec<Kernel>>,
    passes: bool,
}

/// One operator.
struct Operator {
    classes: Vec<Class>,
    entries: [Entry; KEYS],
}

/// A function for any operator that has no kernel of its own for a key.
type Fallback = Box<dyn for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync>;

/// What to do for a key where an operator has no kernel.
enum Otherwise {
    Fail,
    Pass,
    Run(Fallback),
}

/// Operators by name. Which kernel runs is found by the keys of the operands, the highest first; a kernel may call those
/// below it.
///
/// # Examples
/// ```
/// use rankform::dispatch::Dispatcher;
/// use rankform::prelude::*;
/// use rankform::DynTensor;
/// let dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
/// let (x, y) = (DynTensor::from(Tensor::from([[1, 2], [3, 4]])), DynTensor::from(Tensor::from([10, 20])));
/// let sum: Tensor<i32, 2> = dispatcher.call("add", &[(&x).into(), (&y).into()])?.try_into()?; // ranks stretch here
/// assert_eq!(sum.to_vec()?, [11, 22, 13, 24]);
/// let total = dispatcher.call("sum", &[(&x).into(), (&[0, 1][..]).into()])?;
/// assert_eq!(total.downcast::<i32, 0, Cpu>()?.item()?, 10);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Dispatcher {
    operators: BTreeMap<String, Operator>,
    otherwise: [Otherwise; KEYS],
    promotes: Option<Cast>,
}

/// The same numbers as other elements.
type Cast = fn(&DynTensor, DType) -> Result<DynTensor>;

/// An operator of a [`Dispatcher`]; see [`Dispatcher::operator`].
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    dispatcher: &'a Dispatcher,
    name: &'a str,
    operator: &'a Operator,
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

fn value(what: String) -> Error {
    Error::Value { op: "dispatch", what }
}

impl Dispatcher {
    /// Without operators. Keys of derivatives are passed by until there is a kernel.
    pub fn new() -> Self {
        let otherwise =
            DispatchKey::ALL.map(|key| if key.is_autograd() { Otherwise::Pass } else { Otherwise::Fail });
        Dispatcher { operators: BTreeMap::new(), otherwise, promotes: None }
    }

    /// The names of the operators, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.operators.keys().map(String::as_str)
    }

    /// Adds a kernel. The first of a name says what the operator takes: tensors, operands (a tensor or a number), numbers,
    /// axes, each in its place.
    ///
    /// # Errors
    /// [`Error::Value`] when others of that name take something else, or one for these types is there.
    pub fn register(&mut self, name: &str, key: DispatchKey, kernel: Kernel) -> Result<()> {
        let classes: Vec<Class> = kernel.wanted.iter().map(|wanted| wanted.class).collect();
        let operator = self.operators.entry(name.into()).or_insert_with(|| Operator {
            classes: classes.clone(),
            entries: std::array::from_fn(|_| Entry::default()),
        });
        // Where operators take a tensor or a number, a kernel may take one of these alone.
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
        let place = first.and_then(|wanted| wanted.dtype).map_or(TYPES - 1, |dtype| dtype as usize);
        let entry = &mut operator.entries[key as usize];
        entry.by_type.resize_with(TYPES, Vec::new);
        let words = kernel.to_string();
        if entry.by_type[place].iter().any(|other| other.to_string() == words) {
            return Err(value(text(format_args!("{name} has a kernel {kernel} for {key:?}"))));
        }
        entry.by_type[place].push(kernel);
        Ok(())
    }

    /// Makes an operator pass a key by, whatever others do.
    ///
    /// # Errors
    /// [`Error::Value`] for an operator that is not there.
    pub fn fall_through(&mut self, name: &str, key: DispatchKey) -> Result<()> {
        let unknown = self.unknown(name);
        self.operators.get_mut(name).ok_or(unknown)?.entries[key as usize].passes = true;
        Ok(())
    }

    /// What operators without a kernel do for a key: they pass it by.
    pub fn fall_through_all(&mut self, key: DispatchKey) {
        self.otherwise[key as usize] = Otherwise::Pass;
    }

    /// What operators without a kernel do for a key: they run this.
    pub fn fallback(
        &mut self,
        key: DispatchKey,
        run: impl for<'a> Fn(&Dispatching<'_>, &[Argument<'a>]) -> Result<DynTensor> + Send + Sync + 'static,
    ) {
        self.otherwise[key as usize] = Otherwise::Run(Box::new(run));
    }

    /// Lets operators promote from now on: where an operator has no kernel for elements of several types, or for a number
    /// beside whole ones, tensors on `D` are cast to one type. It is the one that holds the elements of all of them
    /// ([`DType::promote`]), and then a number counts by its kind, whatever its value, as in PyTorch ([`DType::with_number`]):
    /// a real number makes f32 of bool and of every whole type (i64 too, of which f32 keeps 24 bits), a whole number makes i64
    /// of bool, and any other pair leaves the type as it is. So 300 beside u8 stays an error: cast the tensor first.
    /// Until it is called nothing is converted, as nowhere in this crate, and such a call is an error that says what there is.
    ///
    /// # Examples
    /// ```
    /// use rankform::dispatch::Dispatcher;
    /// use rankform::prelude::*;
    /// use rankform::{DType, DynTensor};
    /// let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    /// let (x, y) = (DynTensor::from(Tensor::from([1_i32, 2])), DynTensor::from(Tensor::from([0.5_f64, 0.25])));
    /// assert!(dispatcher.call("add", &[(&x).into(), (&y).into()]).is_err());
    /// dispatcher.promote::<Cpu>();
    /// assert_eq!(dispatcher.call("add", &[(&x).into(), (&y).into()])?.downcast::<f64, 1, Cpu>()?.to_vec()?, [1.5, 2.25]);
    /// assert_eq!(dispatcher.call("mul", &[(&x).into(), 0.5.into()])?.dtype(), DType::F32);
    /// assert!(dispatcher.call("mul", &[(&x).into(), 3e9.into()]).is_err()); // a whole number, and no i32
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn promote<D: Device>(&mut self) {
        self.promotes = Some(DynTensor::cast::<D>);
    }

    /// Runs an operator.
    ///
    /// # Errors
    /// [`Error::Value`] for an operator that is not there or has no kernel for these operands, with what there is; those of
    /// the kernel.
    pub fn call(&self, name: &str, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        self.operator(name)?.call(arguments)
    }

    /// An operator, found once to be run often.
    ///
    /// # Errors
    /// [`Error::Value`] for an operator that is not there, with what there is.
    pub fn operator(&self, name: &str) -> Result<Handle<'_>> {
        let (name, operator) = self.operators.get_key_value(name).ok_or_else(|| self.unknown(name))?;
        Ok(Handle { dispatcher: self, name, operator })
    }

    fn run(
        &self,
        name: &str,
        operator: &Operator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<DynTensor> {
        match (self.attempt(name, operator, keys, arguments), self.promotes) {
            (Some(result), _) => result,
            (None, Some(cast)) => self.promoted(cast, name, operator, keys, arguments),
            (None, None) => Err(self.missing(name, operator, keys, arguments)),
        }
    }

    /// Runs what there is for arguments as they are; `None` where nothing is.
    #[inline]
    fn attempt(
        &self,
        name: &str,
        operator: &Operator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Option<Result<DynTensor>> {
        let handle = Handle { dispatcher: self, name, operator };
        let mut rest = keys;
        let first = arguments.iter().find_map(Argument::tensor).map_or(TYPES - 1, |x| x.dtype() as usize);
        while let Some(key) = rest.highest() {
            rest = rest.without(key);
            let call = Dispatching::new(name, &handle, rest);
            let entry = &operator.entries[key as usize];
            let of = |place: usize| entry.by_type.get(place).into_iter().flatten();
            if let Some(kernel) = of(first).chain(of(TYPES - 1)).find(|kernel| kernel.takes(arguments)) {
                return Some((kernel.run)(&call, arguments));
            }
            if entry.passes {
                continue;
            }
            match &self.otherwise[key as usize] {
                Otherwise::Pass => continue,
                Otherwise::Run(run) => return Some(run(&call, arguments)),
                Otherwise::Fail => break,
            }
        }
        None
    }

    /// Runs with all tensors as elements of one type, where they have several, or one that a number does not fit.
    #[cold]
    fn promoted(
        &self,
        cast: Cast,
        name: &str,
        operator: &Operator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Result<DynTensor> {
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
        // Of what the caller passed, not of what it was cast to.
        let missing = || Err(self.missing(name, operator, keys, arguments));
        let Some(common) = common.filter(|&common| tensors().any(|x| dense(&x) && x.dtype() != common))
        else {
            return missing();
        };
        let change = |x: &DynTensor| {
            if dense(&x) && x.dtype() != common { cast(x, common) } else { Ok(x.share_data()) }
        };
        with_tensors(arguments, change, |cast| {
            self.attempt(name, operator, keys, cast).unwrap_or_else(missing)
        })
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
        operator: &Operator,
        keys: DispatchKeySet,
        arguments: &[Argument<'_>],
    ) -> Error {
        let found: Vec<String> = arguments.iter().map(Argument::in_words).collect();
        let mut there = Vec::new();
        for (key, entry) in DispatchKey::ALL.iter().zip(&operator.entries) {
            there.extend(entry.by_type.iter().flatten().map(|kernel| text(format_args!("{key:?} {kernel}"))));
        }
        value(text(format_args!(
            "no kernel of {name} for ({}) with keys {keys}; there are: {}",
            found.join(", "),
            there.join(", ")
        )))
    }
}
