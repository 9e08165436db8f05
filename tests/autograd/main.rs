//! Gradients, against differences of values and by their laws.

mod forward;
