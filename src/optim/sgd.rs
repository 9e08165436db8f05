//! Stochastic gradient descent.
// Imports: `error`, `element`, `device`, `tensor`, `expr`, `optim`.

use super::operator::updates;
use super::optimizer::missing_state;
use super::{Optimizer, ParameterStep, UpdateRule};
use crate::device::Device;
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The rule of [`Sgd`](super::Sgd).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sgd {
    /// The weight of earlier gradients.
    pub momentum: f64,
    /// 1 minus the weight of a gradient in the momentum.
    pub dampening: f64,
    /// Whether a step is along `g + momentum · b`, and not along the momentum `b`.
    pub nesterov: bool,
}

updates! {
    /// A step without momentum.
    fn Descent(p;; g; rate, decay) {
        (p - rate * (g + decay * p),)
    }
    /// A step with momentum. `ahead` is 1 for Nesterov's momentum, else 0.
    fn Momentum(p; buffer; g; rate, decay, momentum, weight, ahead) {
        let g = g + decay * p;
        let buffer = buffer * momentum + weight * g;
        let direction = ahead.gt(0.0).select(g + momentum * buffer, buffer);
        (p - rate * direction, buffer)
    }
}

impl Optimizer<Sgd> {
    /// Gradient descent with this learning rate.
    pub fn new(learning_rate: f64) -> Self {
        Optimizer::with_rule(Sgd { momentum: 0.0, dampening: 0.0, nesterov: false }, learning_rate)
    }
    /// With momentum, the weight of earlier gradients; 0 by default.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.rule_mut().momentum = momentum;
        self
    }
    /// With dampening: the gradient's weight in the momentum is `1 − dampening`; 0 by default.
    pub fn dampening(mut self, dampening: f64) -> Self {
        self.rule_mut().dampening = dampening;
        self
    }
    /// With Nesterov's momentum, or without; the default is without.
    pub fn nesterov(mut self, nesterov: bool) -> Self {
        self.rule_mut().nesterov = nesterov;
        self
    }
}

impl UpdateRule for Sgd {
    fn state_names(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum_buffer"] }
    }
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        parameter: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        gradient: TensorView<'_, P, 2, D>,
    ) -> Result<()> {
        let [rate, decay] = [step.learning_rate, step.weight_decay].map(S::constant);
        if self.momentum == 0.0 {
            return apply_in_place(Descent, (parameter,), (gradient, rate, decay));
        }
        let [buffer, ..] = state else { return Err(missing_state()) };
        // The buffer is 0 at first: the first gradient enters with weight 1.
        let weight = if step.count == 1 { 1.0 } else { 1.0 - self.dampening };
        let ahead = f64::from(u8::from(self.nesterov));
        let [momentum, weight, ahead] = [self.momentum, weight, ahead].map(S::constant);
        apply_in_place(Momentum, (parameter, buffer), (gradient, rate, decay, momentum, weight, ahead))
    }
}
