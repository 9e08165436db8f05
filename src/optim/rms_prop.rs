//! RMSprop.
// Imports: `error`, `element`, `device`, `tensor`, `expr`, `optim`.

use super::operator::{lerp, updates};
use super::optimizer::missing_state;
use super::{Optimizer, ParameterStep, UpdateRule};
use crate::device::Device;
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The rule of [`RmsProp`](super::RmsProp).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsProp {
    /// The weight of the earlier mean of squares.
    pub alpha: f64,
    /// The number that is added to the root of the mean of squares.
    pub epsilon: f64,
    /// The weight of earlier steps.
    pub momentum: f64,
    /// Whether gradients are divided by an estimate of their deviation from a running mean.
    pub centered: bool,
}

updates! {
    /// A step.
    fn Plain(p; v; g; rate, decay, alpha, weight, epsilon) {
        let g = g + decay * p;
        let v = v * alpha + weight * g * g;
        (p - rate * g / (v.sqrt() + epsilon), v)
    }
    /// A step with momentum.
    fn WithMomentum(p; v, buffer; g; rate, decay, alpha, weight, epsilon, momentum) {
        let g = g + decay * p;
        let v = v * alpha + weight * g * g;
        let buffer = buffer * momentum + g / (v.sqrt() + epsilon);
        (p - rate * buffer, v, buffer)
    }
    /// A centered step.
    fn Centered(p; v, mean; g; rate, decay, alpha, weight, epsilon) {
        let g = g + decay * p;
        let v = v * alpha + weight * g * g;
        let mean = lerp(mean, g, weight);
        (p - rate * g / ((v - mean * mean).sqrt() + epsilon), v, mean)
    }
    /// A centered step with momentum.
    fn CenteredWithMomentum(p; v, mean, buffer; g; rate, decay, alpha, weight, epsilon, momentum) {
        let g = g + decay * p;
        let v = v * alpha + weight * g * g;
        let mean = lerp(mean, g, weight);
        let buffer = buffer * momentum + g / ((v - mean * mean).sqrt() + epsilon);
        (p - rate * buffer, v, mean, buffer)
    }
}

impl Optimizer<RmsProp> {
    /// RMSprop with this learning rate, without momentum or weight decay.
    pub fn new(learning_rate: f64) -> Self {
        let rule = RmsProp { alpha: 0.99, epsilon: 1e-8, momentum: 0.0, centered: false };
        Optimizer::with_rule(rule, learning_rate)
    }
    /// With this weight of the earlier mean of squares; 0.99 by default.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.rule_mut().alpha = alpha;
        self
    }
    /// With this number added to the root of the mean of squares; 1e-8 by default.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.rule_mut().epsilon = epsilon;
        self
    }
    /// With momentum, the weight of earlier steps; 0 by default.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.rule_mut().momentum = momentum;
        self
    }
    /// Centered or not: whether gradients are divided by an estimate of their deviation from a running mean.
    /// The default is not centered.
    pub fn centered(mut self, centered: bool) -> Self {
        self.rule_mut().centered = centered;
        self
    }
}

impl UpdateRule for RmsProp {
    fn state_names(&self) -> &'static [&'static str] {
        match (self.centered, self.momentum != 0.0) {
            (false, false) => &["square_avg"],
            (false, true) => &["square_avg", "momentum_buffer"],
            (true, false) => &["square_avg", "grad_avg"],
            (true, true) => &["square_avg", "grad_avg", "momentum_buffer"],
        }
    }
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        p: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        g: TensorView<'_, P, 2, D>,
    ) -> Result<()> {
        let numbers = [
            step.learning_rate,
            step.weight_decay,
            self.alpha,
            1.0 - self.alpha,
            self.epsilon,
            self.momentum,
        ];
        let [rate, decay, alpha, weight, epsilon, momentum] = numbers.map(S::constant);
        let read = (g, rate, decay, alpha, weight, epsilon);
        let read_with_momentum = (g, rate, decay, alpha, weight, epsilon, momentum);
        match (self.centered, self.momentum != 0.0, state) {
            (false, false, [v, ..]) => apply_in_place(Plain, (p, v), read),
            (false, true, [v, buffer, ..]) => {
                apply_in_place(WithMomentum, (p, v, buffer), read_with_momentum)
            }
            (true, false, [v, mean, ..]) => apply_in_place(Centered, (p, v, mean), read),
            (true, true, [v, mean, buffer, ..]) => {
                apply_in_place(CenteredWithMomentum, (p, v, mean, buffer), read_with_momentum)
            }
            _ => Err(missing_state()),
        }
    }
}
