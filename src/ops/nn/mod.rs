//! Operators of neural networks: convolutions, pooling, interpolation, normalization, attention, losses.
// Imports: nothing.

mod attention;
mod attention_rule;
mod attention_scores;
mod channels;
mod conv;
mod conv_rule;
mod cross_entropy;
mod depthwise;
mod group_norm;
mod interpolate;
mod layer_norm;
pub(super) mod loss;
mod norm_rules;
mod pixel_shuffle;
mod pooling;
mod pooling_rules;
pub(in crate::ops) mod rules;
mod softmax;
mod unpooling;
mod windows;

pub use attention::Attention;
pub use attention_scores::AttentionFloat;
pub use channels::Channels;
pub use interpolate::{Interpolate, Resample};
pub use loss::*;
pub use pooling::Pool;
pub use unpooling::MaxPools;
pub use windows::{Conv, Ends};
