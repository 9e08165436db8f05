//! Adam, with weight decay in the gradient or decoupled from it.
// Imports: `error`, `element`, `device`, `tensor`, `expr`, `optim`.

use super::operator::{lerp, updates};
use super::optimizer::missing_state;
use super::{Optimizer, ParameterStep, UpdateRule};
use crate::device::Device;
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The rule of [`Adam`](super::Adam).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adam {
    /// The weights of the earlier mean of gradients, and of their squares.
    pub betas: [f64; 2],
    /// The number that is added to the root of the mean of squares.
    pub epsilon: f64,
}

/// The rule of [`AdamW`](super::AdamW).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamW {
    /// The weights of the earlier mean of gradients, and of their squares.
    pub betas: [f64; 2],
    /// The number that is added to the root of the mean of squares.
    pub epsilon: f64,
}

updates! {
    /// A step with weight decay in the gradient.
    fn Coupled(p; m, v; g; rate, root, epsilon, weight, beta2, square_weight, decay) {
        let g = g + decay * p;
        let m = lerp(m, g, weight);
        let v = v * beta2 + square_weight * g * g;
        (p - rate * m / (v.sqrt() / root + epsilon), m, v)
    }
    /// A step after the parameter is multiplied by `kept`.
    fn Decoupled(p; m, v; g; rate, root, epsilon, weight, beta2, square_weight, kept) {
        let m = lerp(m, g, weight);
        let v = v * beta2 + square_weight * g * g;
        (p * kept - rate * m / (v.sqrt() / root + epsilon), m, v)
    }
}

/// The numbers of a step: the rate with its correction, the root of the other correction, ε, the weight of
/// the gradient in its mean, and the weights of the mean of squares and of the square.
fn numbers<S: Float>(step: ParameterStep, [beta1, beta2]: [f64; 2], epsilon: f64) -> [S; 6] {
    let t = step.count as f64;
    let rate = step.learning_rate / (1.0 - beta1.powf(t));
    let root = (1.0 - beta2.powf(t)).sqrt();
    [rate, root, epsilon, 1.0 - beta1, beta2, 1.0 - beta2].map(S::constant)
}

macro_rules! options {
    ($($Rule:ident: $decay:literal, $new:literal;)*) => { $(
        impl Optimizer<$Rule> {
            #[doc = $new]
            pub fn new(learning_rate: f64) -> Self {
                let rule = $Rule { betas: [0.9, 0.999], epsilon: 1e-8 };
                Optimizer::with_rule(rule, learning_rate).weight_decay($decay)
            }
            /// With these weights of the earlier mean of gradients and of their squares; 0.9 and 0.999 by
            /// default.
            pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
                self.rule_mut().betas = [beta1, beta2];
                self
            }
            /// With this number added to the root of the mean of squares; 1e-8 by default.
            pub fn epsilon(mut self, epsilon: f64) -> Self {
                self.rule_mut().epsilon = epsilon;
                self
            }
        }
    )* };
}
options! {
    Adam: 0.0, "Adam with this learning rate, without weight decay.";
    AdamW: 0.01, "AdamW with this learning rate and a weight decay of 0.01.";
}

impl UpdateRule for Adam {
    fn state_names(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_avg_sq"]
    }
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        parameter: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        gradient: TensorView<'_, P, 2, D>,
    ) -> Result<()> {
        let [m, v, ..] = state else { return Err(missing_state()) };
        let [rate, root, epsilon, weight, beta2, square_weight]: [S; 6] =
            numbers(step, self.betas, self.epsilon);
        let decay = S::constant(step.weight_decay);
        let read = (gradient, rate, root, epsilon, weight, beta2, square_weight, decay);
        apply_in_place(Coupled, (parameter, m, v), read)
    }
}

impl UpdateRule for AdamW {
    fn state_names(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_avg_sq"]
    }
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        parameter: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        gradient: TensorView<'_, P, 2, D>,
    ) -> Result<()> {
        let [m, v, ..] = state else { return Err(missing_state()) };
        let [rate, root, epsilon, weight, beta2, square_weight]: [S; 6] =
            numbers(step, self.betas, self.epsilon);
        let kept = S::constant(1.0 - step.learning_rate * step.weight_decay);
        let read = (gradient, rate, root, epsilon, weight, beta2, square_weight, kept);
        apply_in_place(Decoupled, (parameter, m, v), read)
    }
}
