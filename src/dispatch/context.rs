//! The input of a kernel: its arguments, and the context of the call, which can run the kernels of lower
//! keys.
//!
//! This file depends neither on kernels nor on the dispatcher; both import it.
// Imports: `error`, `autograd`, `dynamic`, `dispatch`.

#[cfg(feature = "autograd")]
use super::keys::DispatchKey;
use super::keys::DispatchKeySet;
#[cfg(feature = "autograd")]
use crate::autograd::TapeBlock;
use crate::dynamic::DynTensor;
use crate::error::{Result, text};

/// One argument of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A tensor.
    Tensor(&'a DynTensor),
    /// A number.
    Number(f64),
    /// Axes.
    Axes(&'a [usize]),
}
impl<'a> From<&'a DynTensor> for Argument<'a> {
    fn from(tensor: &'a DynTensor) -> Self {
        Argument::Tensor(tensor)
    }
}
impl From<f64> for Argument<'_> {
    fn from(number: f64) -> Self {
        Argument::Number(number)
    }
}
impl From<i32> for Argument<'_> {
    fn from(number: i32) -> Self {
        Argument::Number(number.into())
    }
}
impl<'a, const N: usize> From<&'a [usize; N]> for Argument<'a> {
    fn from(axes: &'a [usize; N]) -> Self {
        Argument::Axes(axes)
    }
}
impl<'a> From<&'a [usize]> for Argument<'a> {
    fn from(axes: &'a [usize]) -> Self {
        Argument::Axes(axes)
    }
}

impl<'a> Argument<'a> {
    /// The tensor, if the argument is one.
    #[inline]
    pub fn tensor(&self) -> Option<&'a DynTensor> {
        match self {
            Argument::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
    /// A description for error texts.
    pub(super) fn in_words(&self) -> String {
        match self {
            Argument::Tensor(tensor) => match tensor.opaque() {
                Some(opaque) => text(format_args!("{opaque:?} {}", tensor.kind_in_words())),
                None => tensor.kind_in_words(),
            },
            Argument::Number(number) => text(format_args!("the number {number}")),
            Argument::Axes(_) => "axes".into(),
        }
    }
}

/// The keys of all tensors among some arguments. While a tape is paused, its tensors have no key of
/// derivatives: PyTorch's `no_grad`.
#[inline]
pub(super) fn keys_of(arguments: &[Argument<'_>]) -> DispatchKeySet {
    arguments
        .iter()
        .filter_map(Argument::tensor)
        .fold(DispatchKeySet::EMPTY, |keys, x| keys.union(recording_keys(x)))
}

#[inline]
fn recording_keys(x: &DynTensor) -> DispatchKeySet {
    let keys = x.key_set();
    #[cfg(feature = "autograd")]
    if keys.highest().is_some_and(DispatchKey::is_autograd)
        && x.tape_block().is_some_and(TapeBlock::is_paused)
    {
        return keys.without_derivatives();
    }
    keys
}

/// One operator of a dispatcher, which runs the kernel of the highest of some keys.
pub(super) trait RunWithKeys {
    fn run(&self, keys: DispatchKeySet, arguments: &[Argument<'_>]) -> Result<DynTensor>;
}

/// The context of a call, which a kernel receives: the operator's name, and the keys below the kernel's own.
pub struct Dispatching<'a> {
    name: &'a str,
    operator: &'a (dyn RunWithKeys + Sync),
    below: DispatchKeySet,
}

impl<'a> Dispatching<'a> {
    #[inline]
    pub(super) fn new(name: &'a str, operator: &'a (dyn RunWithKeys + Sync), below: DispatchKeySet) -> Self {
        Dispatching { name, operator, below }
    }
}

impl Dispatching<'_> {
    /// The operator's name.
    pub fn name(&self) -> &str {
        self.name
    }
    /// Runs the kernel of the next lower key. The arguments may differ from those of the call.
    ///
    /// # Errors
    /// Those of [`Dispatcher::call`](super::Dispatcher::call).
    pub fn below(&self, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        let keys = keys_of(arguments)
            .iter()
            .filter(|&key| self.below.contains(key))
            .fold(DispatchKeySet::EMPTY, DispatchKeySet::with);
        self.operator.run(keys, arguments)
    }
}

/// Calls `call` with the arguments in which `change` has replaced every tensor.
pub(super) fn with_tensors(
    arguments: &[Argument<'_>],
    change: impl Fn(&DynTensor) -> Result<DynTensor>,
    call: impl FnOnce(&[Argument<'_>]) -> Result<DynTensor>,
) -> Result<DynTensor> {
    let changed: Vec<Option<DynTensor>> =
        arguments.iter().map(|x| x.tensor().map(&change).transpose()).collect::<Result<_>>()?;
    let others: Vec<Argument<'_>> =
        changed.iter().zip(arguments).map(|(new, &old)| new.as_ref().map_or(old, Argument::Tensor)).collect();
    call(&others)
}
