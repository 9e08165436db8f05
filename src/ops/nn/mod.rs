//! Operators of neural networks: convolutions, pooling, interpolation, normalization, attention, losses.
// Imports: nothing.

mod attention;
mod attention_rule;
mod attention_scores;
mod channels;
mod class_losses;
mod conv;
mod cross_entropy;
mod group_norm;
mod interpolate;
mod layer_norm;
pub(super) mod loss;
mod norm_rules;
mod pixel_shuffle;
mod pool_windows;
mod pooling;
pub(in crate::ops) mod rules;
mod softmax;
mod windows;

pub use attention_scores::{Attention, AttentionFloat};
pub use channels::Channels;
pub use class_losses::ClassLoss;
pub use interpolate::{Interpolate, Resample};
pub use loss::*;
pub use pool_windows::Pool;
pub use pooling::MaxPools;
pub use windows::{Conv, Ends};
