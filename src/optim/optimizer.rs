//! The optimizer: a rule, its options, and the state of each parameter.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`, `io`, `optim`.

use super::parts::{ensure_same_sizes, parts_count, parts_of, update_parts};
use crate::autograd::{Differentiable, Name, ParameterVisitor, ParametersMut};
use crate::device::Device;
use crate::element::{Compute, Float};
use crate::error::{Error, Result, text};
#[cfg(feature = "safetensors")]
use crate::io::TensorBytes;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::any::Any;
use std::fmt;

/// A rule by which gradients change parameters: the hyperparameters of an optimizer, and its operator.
///
/// # Examples
/// A rule of one's own, without state:
/// ```
/// use rankform::element::Compute;
/// use rankform::kernel::OpMany;
/// use rankform::optim::{Optimizer, ParameterStep, UpdateRule};
/// use rankform::prelude::*;
///
/// /// Steps of one length against the sign of the gradient.
/// struct SignDescent;
/// #[derive(Clone, Copy)]
/// struct SignStep;
/// impl<P: Float, S: Float<Compute = Compute<P>>> OpMany<(P, P, S)> for SignStep {
///     type Out = (P,);
///     fn call<L: Lanes>((p, g, rate): (Lane<L, Compute<P>>, Lane<L, Compute<P>>, Lane<L, Compute<S>>))
///         -> (Lane<L, Compute<P>>,)
///     {
///         (g.gt(0.0).select(p - rate, g.lt(0.0).select(p + rate, p)),)
///     }
/// }
/// impl UpdateRule for SignDescent {
///     fn state_names(&self) -> &'static [&'static str] { &[] }
///     fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
///         &self,
///         step: ParameterStep,
///         parameter: TensorViewMut<'_, P, 2, D>,
///         _: &mut [Tensor<S, 2, D>],
///         gradient: TensorView<'_, P, 2, D>,
///     ) -> Result<()> {
///         apply_in_place(SignStep, (parameter,), (gradient, S::constant(step.learning_rate)))
///     }
/// }
/// let mut w = Tensor::from([1.0_f32, 2.0]);
/// Optimizer::with_rule(SignDescent, 0.5).step(&mut w, &Tensor::from([3.0, -0.1]))?;
/// assert_eq!(w.to_vec()?, [0.5, 2.5]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait UpdateRule {
    /// The names of the tensors of a parameter's state, which begin as zeros.
    fn state_names(&self) -> &'static [&'static str];

    /// Updates one parameter and its state. All tensors have the sizes `[elements, parts]`: one part for real
    /// elements, two for complex ones. The state, and the numbers of a step, are in `S`: f32 for elements of
    /// 16 bits, else the element of the parts.
    ///
    /// # Errors
    /// Those of the operator.
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        parameter: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        gradient: TensorView<'_, P, 2, D>,
    ) -> Result<()>;
}

/// One step of one parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParameterStep {
    /// The number of this step for the parameter: 1 for the first.
    pub count: u64,
    /// The learning rate.
    pub learning_rate: f64,
    /// The weight decay.
    pub weight_decay: f64,
}

/// Options of a group of parameters; see [`Optimizer::group`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    rate_factor: f64,
    weight_decay: Option<f64>,
    is_frozen: bool,
}

impl Group {
    /// The options of the optimizer.
    pub const fn new() -> Self {
        Group { rate_factor: 1.0, weight_decay: None, is_frozen: false }
    }
    /// With the optimizer's learning rate times a factor.
    pub const fn rate_factor(mut self, factor: f64) -> Self {
        self.rate_factor = factor;
        self
    }
    /// With a weight decay of its own.
    pub const fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = Some(weight_decay);
        self
    }
    /// Without updates: the parameters keep their values.
    pub const fn frozen(mut self) -> Self {
        self.is_frozen = true;
        self
    }
}

impl Default for Group {
    fn default() -> Self {
        Group::new()
    }
}

/// A predicate on the names of parameters, and the options of those that it selects.
struct Selection {
    selects: Box<dyn Fn(&str) -> bool + Send + Sync>,
    group: Group,
}

/// The tensors of a parameter's state, of any element and device.
trait ParameterState: Any + Send + Sync {
    #[cfg(feature = "safetensors")]
    fn tensors(&self) -> Vec<&dyn TensorBytes>;
}
impl<S: Float, D: Device> ParameterState for Vec<Tensor<S, 2, D>> {
    #[cfg(feature = "safetensors")]
    fn tensors(&self) -> Vec<&dyn TensorBytes> {
        self.iter().map(|tensor| tensor as &dyn TensorBytes).collect()
    }
}

/// The state of one parameter.
pub(super) struct Slot {
    pub(super) name: String,
    /// The sizes of the parameter, and a 2 behind them for complex elements.
    pub(super) sizes: Vec<usize>,
    pub(super) count: u64,
    group: Group,
    /// The names of the tensors of the state.
    pub(super) state_names: &'static [&'static str],
    /// The tensors, which the first step allocates.
    state: Option<Box<dyn ParameterState>>,
}

impl Slot {
    /// The tensors of the state, which are made if there are none.
    ///
    /// # Errors
    /// [`Error::Value`] if the state has other tensors; [`Error::OutOfMemory`].
    pub(super) fn state<S: Float, D: Device>(
        &mut self,
        names: &'static [&'static str],
        rows: [usize; 2],
        device: &D,
    ) -> Result<&mut Vec<Tensor<S, 2, D>>> {
        if self.state.is_none() {
            let tensors = names.iter().map(|_| Tensor::<S, 2, D>::zeros(rows, device));
            self.state = Some(Box::new(tensors.collect::<Result<Vec<_>>>()?));
            self.state_names = names;
        }
        let state: Option<&mut dyn Any> = self.state.as_mut().map(|state| &mut **state as _);
        let state = state.and_then(|state| state.downcast_mut::<Vec<Tensor<S, 2, D>>>());
        state.filter(|_| self.state_names == names).ok_or_else(missing_state)
    }

    /// The tensors of the state, to be written to a file.
    #[cfg(feature = "safetensors")]
    pub(super) fn tensors(&self) -> Vec<&dyn TensorBytes> {
        self.state.as_ref().map_or(Vec::new(), |state| state.tensors())
    }
}

/// The error of a rule that is given other tensors than it names.
pub(super) fn missing_state() -> Error {
    let what = "the state has other tensors, elements or another device; after a change of options: `reset`";
    Error::Value { op: "step", what: what.into() }
}

/// An optimizer: updates parameters by their gradients with a rule `R`.
///
/// It keeps the state of each parameter, by the name of the parameter: zeros at first, on the device of the
/// parameter. It serves any number of trees of parameters whose names differ.
///
/// # Examples
/// ```
/// use rankform::optim::{AdamW, Group};
/// use rankform::prelude::*;
/// let (mut w, mut b) = (Tensor::from([[1.0_f32, 2.0]]), Tensor::from([3.0_f32]));
/// let gradients = (Tensor::from([[0.5_f32, -0.5]]), Tensor::from([0.0_f32]));
/// // `b`, whose name is "1", is not updated.
/// let mut optimizer = AdamW::new(1e-3).group(|name| name == "1", Group::new().frozen());
/// optimizer.step((&mut w, &mut b), &gradients)?;
/// assert_eq!((optimizer.steps(), b.to_vec()?), (1, vec![3.0]));
/// assert!(w[[0, 0]] < 1.0 && w[[0, 1]] > 1.999);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Optimizer<R> {
    rule: R,
    learning_rate: f64,
    weight_decay: f64,
    pub(super) steps: u64,
    selections: Vec<Selection>,
    pub(super) slots: Vec<Slot>,
}

impl<R: fmt::Debug> fmt::Debug for Optimizer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("rule", &self.rule)
            .field("learning_rate", &self.learning_rate)
            .field("weight_decay", &self.weight_decay)
            .field("steps", &self.steps)
            .field("parameters", &self.slots.len())
            .finish_non_exhaustive()
    }
}

impl<R> Optimizer<R> {
    /// An optimizer by a rule, without weight decay.
    pub fn with_rule(rule: R, learning_rate: f64) -> Self {
        let (selections, slots) = (Vec::new(), Vec::new());
        Optimizer { rule, learning_rate, weight_decay: 0.0, steps: 0, selections, slots }
    }

    /// With this weight decay.
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// With other options for the parameters whose names `selects` accepts. Of several groups with the same
    /// parameter the last one counts.
    pub fn group(mut self, selects: impl Fn(&str) -> bool + Send + Sync + 'static, group: Group) -> Self {
        self.selections.push(Selection { selects: Box::new(selects), group });
        let Optimizer { selections, slots, .. } = &mut self;
        slots.iter_mut().for_each(|slot| slot.group = group_of(selections, &slot.name));
        self
    }

    /// The rule, with its hyperparameters.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    pub(super) fn rule_mut(&mut self) -> &mut R {
        &mut self.rule
    }

    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    /// Sets the learning rate of the next steps; see [`schedule`](super::schedule).
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }

    /// The number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Forgets the state and the number of steps.
    pub fn reset(&mut self) {
        self.slots.clear();
        self.steps = 0;
    }
}

/// The options of a parameter.
fn group_of(selections: &[Selection], name: &str) -> Group {
    let selected = selections.iter().rev().find(|selection| (selection.selects)(name));
    selected.map_or(Group::new(), |selection| selection.group)
}

impl<R: UpdateRule> Optimizer<R> {
    /// Updates parameters by their gradients.
    ///
    /// # Cost
    /// One pass over each parameter, its gradient and its state; one kernel for each parameter. The first
    /// step allocates the state, later ones allocate nothing. A parameter that is not contiguous is copied,
    /// and so is such a gradient.
    ///
    /// # Errors
    /// [`Error::Parameter`], with the name of the parameter: [`Error::Shared`] when its memory has other
    /// handles, for example variables of a tape; [`Error::Value`] when its sizes are not those of the
    /// gradient or of the state. Parameters before the one with the error have been updated.
    ///
    /// # Examples
    /// ```
    /// use rankform::optim::Sgd;
    /// use rankform::prelude::*;
    /// let mut w = Tensor::from([1.0, 2.0]);
    /// Sgd::new(0.5).step(&mut w, &Tensor::from([1.0, 0.0]))?;
    /// assert_eq!(w.to_vec()?, [0.5, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn step<D: Device, P: ParametersMut<D>>(
        &mut self,
        parameters: P,
        gradients: &P::Gradients,
    ) -> Result<()> {
        let mut stepping = Stepping { optimizer: self, next: 0 };
        parameters.walk_with(gradients, Name::ROOT, &mut stepping)?;
        self.steps += 1;
        Ok(())
    }

    /// The place of a parameter's slot, which the first step makes. It is usually the `next` one.
    pub(super) fn slot<T: Differentiable, const RANK: usize, D: Device>(
        &mut self,
        name: Name<'_>,
        parameter: &Tensor<T, RANK, D>,
        next: usize,
    ) -> Result<usize> {
        let parts = parts_count::<T>();
        let sizes = || parameter.size().0.into_iter().chain((parts != 1).then_some(parts));
        let place = match self.slots.get(next) {
            Some(slot) if name == *slot.name => Some(next),
            _ => self.slots.iter().position(|slot| name == *slot.name),
        };
        if let Some(place) = place {
            let slot = &self.slots[place];
            if !sizes().eq(slot.sizes.iter().copied()) {
                let (old, new) = (&slot.sizes, parameter.size());
                let what = text(format_args!("the state has the sizes {old:?} and the parameter {new}"));
                return Err(Error::Value { op: "step", what });
            }
            return Ok(place);
        }
        let name = name.to_string();
        let group = group_of(&self.selections, &name);
        let sizes = sizes().collect();
        self.slots.push(Slot { name, sizes, count: 0, group, state_names: &[], state: None });
        Ok(self.slots.len() - 1)
    }
}

/// One step of all parameters.
struct Stepping<'a, R> {
    optimizer: &'a mut Optimizer<R>,
    next: usize,
}

impl<D: Device, R: UpdateRule> ParameterVisitor<D, 1, 1> for Stepping<'_, R> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        [parameter]: [&mut Tensor<T, RANK, D>; 1],
        [gradient]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        ensure_same_sizes("step", parameter, gradient)?;
        let place = self.optimizer.slot(name, parameter, self.next)?;
        self.next = place + 1;
        let Optimizer { rule, learning_rate, weight_decay, slots, .. } = &mut *self.optimizer;
        let slot = &mut slots[place];
        if slot.group.is_frozen {
            return Ok(());
        }
        let step = ParameterStep {
            count: slot.count + 1,
            learning_rate: *learning_rate * slot.group.rate_factor,
            weight_decay: slot.group.weight_decay.unwrap_or(*weight_decay),
        };
        let rows = [parameter.numel(), parts_count::<T>()];
        let state = slot.state::<T::State, D>(rule.state_names(), rows, parameter.device())?;
        parts_of(gradient, |gradient| {
            update_parts("step", parameter, |parameter| rule.update(step, parameter, state, gradient))
        })?;
        slot.count += 1;
        Ok(())
    }
}
