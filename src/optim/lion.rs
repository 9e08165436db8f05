//! Lion: steps of the sign of a mean.
// Imports: `error`, `element`, `device`, `tensor`, `expr`, `optim`.

use super::operator::updates;
use super::optimizer::missing_state;
use super::{Optimizer, ParameterStep, UpdateRule};
use crate::device::Device;
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The rule of [`Lion`](super::Lion).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lion {
    /// The weight of the mean in a step, and its weight in the next mean.
    pub betas: [f64; 2],
}

updates! {
    /// A step after the parameter is multiplied by `kept`.
    fn Signs(p; m; g; rate, kept, beta1, weight, beta2, mean_weight) {
        let direction = m * beta1 + weight * g;
        let sign = direction.gt(0.0).select(1.0, direction.lt(0.0).select(-1.0, direction));
        (p * kept - rate * sign, m * beta2 + mean_weight * g)
    }
}

impl Optimizer<Lion> {
    /// Lion with this learning rate, without weight decay.
    pub fn new(learning_rate: f64) -> Self {
        Optimizer::with_rule(Lion { betas: [0.9, 0.99] }, learning_rate)
    }
    /// With these weights of the mean in a step and in the next mean; 0.9 and 0.99 by default.
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        self.rule_mut().betas = [beta1, beta2];
        self
    }
}

impl UpdateRule for Lion {
    fn state_names(&self) -> &'static [&'static str] {
        &["exp_avg"]
    }
    fn update<P: Float, S: Float<Compute = Compute<P>>, D: Device>(
        &self,
        step: ParameterStep,
        parameter: TensorViewMut<'_, P, 2, D>,
        state: &mut [Tensor<S, 2, D>],
        gradient: TensorView<'_, P, 2, D>,
    ) -> Result<()> {
        let [mean, ..] = state else { return Err(missing_state()) };
        let ([beta1, beta2], rate) = (self.betas, step.learning_rate);
        let numbers = [rate, 1.0 - rate * step.weight_decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2];
        let [rate, kept, beta1, weight, beta2, mean_weight] = numbers.map(S::constant);
        let read = (gradient, rate, kept, beta1, weight, beta2, mean_weight);
        apply_in_place(Signs, (parameter, mean), read)
    }
}
