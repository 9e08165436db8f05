//! A small transformer that learns to write sonnets, character by character.
//!
//! `cargo run --release --example char_transformer --features autograd` trains on `examples/data/sonnets.txt`
//! and prints what the model writes, before and after. The last tenth of the text is held out: its loss is
//! printed beside the entropy of single characters. Options after `--`:
//!
//! | option | effect |
//! |---|---|
//! | `--device cuda:0` | computes on a GPU (with `--features cuda`) |
//! | `--steps 900` | the number of steps |
//! | `--checkpoint` | keeps the inputs of each block only, and computes the block again in the backward pass |
//! | `--seed 1` | other weights, batches and samples |
//!
//! The model is a function of any device: training calls it with tensors on a tape, sampling with plain ones.

use indicatif::{ProgressBar, ProgressStyle};
use rankform::AnyDevice;
use rankform::autograd::{Tape, Var, value_and_grad};
use rankform::optim::{AdamW, Group, clip_norm, schedule};
use rankform::prelude::*;
use std::{fs, path::Path, time::Instant};

const CONTEXT: usize = 64; // characters that the model sees
const CHANNELS: usize = 96;
const HEADS: usize = 4;
const BLOCKS: usize = 3;
const BATCH: usize = 16;
const RATE: f64 = 3e-3;

type AnyError = Box<dyn std::error::Error>;

parameters! {
    /// Layer normalization with a weight and a bias for each channel.
    struct Norm<D> {
        weight: Tensor<f32, 1, D>,
        bias: Tensor<f32, 1, D>,
    }
    /// Attention and a layer of hidden units; each adds to its input.
    struct Block<D> {
        attention_norm: Norm<D>,
        attention: Tensor<f32, 2, D>, // (channel, query | key | value)
        projection: Tensor<f32, 2, D>, // (channel, channel)
        hidden_norm: Norm<D>,
        hidden: Tensor<f32, 2, D>, // (channel, hidden unit)
        output: Tensor<f32, 2, D>, // (hidden unit, channel)
    }
    /// The embedding of a character is also its row of the last layer.
    struct Model<D> {
        characters: Tensor<f32, 2, D>, // (character, channel)
        positions: Tensor<f32, 2, D>, // (position, channel)
        blocks: Vec<Block<D>>,
        norm: Norm<D>,
    }
}

impl<D: Device> Norm<D> {
    fn new(device: &D) -> Result<Self> {
        Ok(Norm { weight: Tensor::ones([CHANNELS], device)?, bias: Tensor::zeros([CHANNELS], device)? })
    }
    fn apply(&self, x: &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>> {
        x.layer_norm_affine(Last, self.weight.lift(), self.bias.lift(), 1e-5)
    }
}

impl<D: Device> Block<D> {
    fn new(seed: u64, device: &D) -> Result<Self> {
        let random = |size, deviation, k| Tensor::random_normal(size, 0.0, deviation, seed + k, device);
        Ok(Block {
            attention_norm: Norm::new(device)?,
            attention: random([CHANNELS, 3 * CHANNELS], 0.05, 0)?,
            projection: random([CHANNELS, CHANNELS], 0.02, 1)?,
            hidden_norm: Norm::new(device)?,
            hidden: random([CHANNELS, 4 * CHANNELS], 0.05, 2)?,
            output: random([4 * CHANNELS, CHANNELS], 0.02, 3)?,
        })
    }

    /// (text, position, channel) → the same.
    fn apply(&self, x: &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>> {
        let [texts, length, channels] = x.size().0;
        let all = self.attention_norm.apply(x)?.matmul(&self.attention)?;
        let all = all.reshape([texts, length, 3, HEADS, channels / HEADS])?.permuted([2, 0, 3, 1, 4])?;
        let [query, key, value] = [0, 1, 2].map(|part| all.index_axis(Axis::<0>, part)); // (text, head, position, channel)
        let y = query?.attention(key?, value?, None, Attention::new().causal(true))?;
        let y = y.permuted([0, 2, 1, 3])?.to_shape(x.size())?; // (text, position, channel)
        let x = x + y.matmul(&self.projection)?;

        let hidden = self.hidden_norm.apply(&x)?.matmul(&self.hidden)?.gelu()?;
        Ok(hidden.matmul(&self.output)? + x)
    }
}
