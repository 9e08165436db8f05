//! A small transformer that learns to write sonnets, character by character.
//!
//! `cargo run --release --example char_transformer` trains on `examples/data/sonnets.txt` and prints texts of
//! the model, before and after. The last tenth of the text is held out: its loss is printed beside that of
//! the frequencies of characters. Options after `--`:
//!
//! | option | effect |
//! |---|---|
//! | `--device cuda:0` | computes on a GPU (with `--features cuda`) |
//! | `--steps 900` | the number of steps |
//! | `--checkpoint` | keeps the inputs of each block only, and computes it again in the backward pass |
//! | `--seed 1` | other weights, batches and samples |
//!
//! The model is a function of any device: training calls it with tensors on a tape, sampling with others.

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
const TEMPERATURE: f32 = 0.8; // below 1: likely characters are drawn more often

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
        // Each is (text, head, position, channel).
        let [query, key, value] = [0, 1, 2].map(|part| all.slice((part, .., .., .., ..)));
        let y = query?.attention(key?, value?, None, Attention::new().causal(true))?;
        let y = y.permuted([0, 2, 1, 3])?.to_shape(x.size())?; // (text, position, channel)
        let x = x + y.matmul(&self.projection)?;

        let hidden = self.hidden_norm.apply(&x)?.matmul(&self.hidden)?.gelu()?;
        Ok(hidden.matmul(&self.output)? + x)
    }
}

impl<D: Device> Model<D> {
    fn new(characters: usize, seed: u64, device: &D) -> Result<Self> {
        let random = |rows, k| Tensor::random_normal([rows, CHANNELS], 0.0, 0.05, seed + k, device);
        let blocks = (0..BLOCKS as u64).map(|k| Block::new(seed + 10 * k, device)).collect::<Result<_>>()?;
        Ok(Model {
            characters: random(characters, 100)?,
            positions: random(CONTEXT, 101)?,
            blocks,
            norm: Norm::new(device)?,
        })
    }

    /// The scores of each next character: (text, position) → (text, position, character). `apply` applies a
    /// block.
    fn scores(
        &self,
        text: TensorView<'_, i64, 2, D>,
        apply: impl Fn(&Block<D>, &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>>,
    ) -> Result<Tensor<f32, 3, D>> {
        let positions = self.positions.slice((..text.size()[1], ..))?;
        let mut x = self.characters.embedding(text)? + positions.lift(); // (text, position, channel)
        for block in &self.blocks {
            x = apply(block, &x)?;
        }
        self.norm.apply(&x)?.matmul(self.characters.transposed())
    }

    /// The mean cross entropy of the characters after the first of each text.
    fn loss(
        &self,
        text: &Tensor<i64, 2, D>,
        apply: impl Fn(&Block<D>, &Tensor<f32, 3, D>) -> Result<Tensor<f32, 3, D>>,
    ) -> Result<Tensor<f32, 0, D>> {
        let last = text.size()[1] - 1;
        let next = text.slice((.., 1..))?.to_contiguous()?;
        self.scores(text.slice((.., ..last))?, apply)?.cross_entropy_mean(Axis::<2>, &next, ClassLoss::new())
    }

    /// Continues a text by `length` characters, each drawn with the probability that the model gives it.
    fn continued(&self, text: &[i64], length: usize, seed: u64) -> Result<Vec<i64>> {
        let (mut text, device) = (text.to_vec(), self.positions.device());
        for step in 0..length as u64 {
            let seen = &text[text.len().saturating_sub(CONTEXT)..];
            let seen = Tensor::from_slice(seen, [1, seen.len()], device)?;
            let scores = self.scores(seen.view(), Block::apply)?;
            let scores = scores.slice((0, seen.numel() - 1, ..))?; // (character)
            // The largest of scores with Gumbel noise: a draw from their softmax.
            let uniform = Tensor::<f32, 1, D>::random_uniform(scores.size(), 1e-6..1.0, seed + step, device)?;
            let noisy = (scores.lazy() / TEMPERATURE - (-uniform.lazy().ln()).ln()).eval()?;
            text.push(noisy.argmax(Axis::<0>)?.item()?);
        }
        Ok(text)
    }
}

/// A block on a tape, which keeps its inputs only, if `checkpoint`.
fn apply_on<D: Device>(
    tape: &Tape<D>,
    checkpoint: bool,
    block: &Block<Tape<D>>,
    x: &Var<f32, 3, D>,
) -> Result<Var<f32, 3, D>> {
    if checkpoint { tape.checkpoint((x, block), |(x, block)| block.apply(x)) } else { block.apply(x) }
}

fn main() -> Result<(), AnyError> {
    let Options { device, steps, checkpoint, seed } = options()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/sonnets.txt");
    let text = fs::read_to_string(path)?;
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c: char| alphabet.binary_search(&c).map_or(0, |at| at as i64);
    let written = |text: &[i64]| text.iter().map(|&c| alphabet[c as usize]).collect::<String>();
    let numbers: Vec<i64> = text.chars().map(number).collect();
    let (train, test) = numbers.split_at(numbers.len() * 9 / 10);

    let mut model = Model::new(alphabet.len(), 1000 * seed, &device)?;
    println!(
        "{} characters of {} kinds, {:.3} nats each by their frequencies; {} parameters on {device:?}",
        text.len(),
        alphabet.len(),
        entropy(train, test, alphabet.len()),
        model.parameter_count()?
    );
    let prompt: Vec<i64> = "Shall I".chars().map(number).collect();
    let untrained = model.continued(&prompt, 60, seed)?;
    println!("before: {:?}", written(&untrained));

    let start = Instant::now();
    learn(&mut model, train, steps, checkpoint, seed)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{steps} steps in {seconds:.1} s; held out: {:.3} nats", held_out(&model, test)?);
    let sample = model.continued(&prompt, 600, seed)?;
    println!("\n{}", written(&sample));
    Ok(())
}

/// Trains the model on random parts of a text.
fn learn<D: Device>(
    model: &mut Model<D>,
    text: &[i64],
    steps: u64,
    checkpoint: bool,
    seed: u64,
) -> Result<()> {
    let device = model.positions.device().clone();
    let text = Tensor::from_slice(text, [text.len()], &device)?;
    let parts = text.windows(Axis::<0>, CONTEXT + 1, 1)?; // (start, character), in the memory of the text
    let no_decay = Group::new().weight_decay(0.0);
    let mut optimizer = AdamW::new(RATE)
        .betas(0.9, 0.99)
        .weight_decay(0.1)
        .group(|name| name.contains("norm") || name == "positions", no_decay);
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} steps, {eta} left, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut mean = 0.0;
    for step in 0..steps {
        let last = parts.size()[0] as i64;
        let starts = Tensor::random_integers([BATCH], 0..last, seed.wrapping_mul(1 << 32) + step, &device)?;
        let batch = parts.index_select(Axis::<0>, &starts)?;
        let (loss, mut gradients) = value_and_grad(&*model, |model, tape| {
            model.loss(&tape.constant(&batch)?, |block, x| apply_on(tape, checkpoint, block, x))
        })?;
        let norm = clip_norm(&mut gradients, 1.0)?;
        optimizer.set_learning_rate(RATE * schedule::warm_up(step, 50) * schedule::cosine(step, steps, 0.1));
        optimizer.step(&mut *model, &gradients)?;
        let loss = loss.item()?;
        mean = if step == 0 { loss } else { 0.95 * mean + 0.05 * loss };
        bar.set_message(format!("loss {mean:.3}, norm {norm:.2}"));
        bar.inc(1);
        if (step + 1) % 100 == 0 {
            bar.suspend(|| println!("step {:4}: loss {mean:.3}", step + 1));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// The mean loss of a text, in parts of `CONTEXT` characters.
fn held_out<D: Device>(model: &Model<D>, text: &[i64]) -> Result<f32> {
    let text = Tensor::from_slice(text, [text.len()], model.positions.device())?;
    let parts = text.windows(Axis::<0>, CONTEXT + 1, CONTEXT)?.to_contiguous()?;
    model.loss(&parts, Block::apply)?.item()
}

/// The cross entropy of a text by the frequencies of characters in another.
fn entropy(train: &[i64], test: &[i64], characters: usize) -> f64 {
    let mut counts = vec![1.0; characters];
    train.iter().for_each(|&c| counts[c as usize] += 1.0);
    let sum: f64 = counts.iter().sum();
    test.iter().map(|&c| -(counts[c as usize] / sum).ln()).sum::<f64>() / test.len() as f64
}

struct Options {
    device: AnyDevice,
    steps: u64,
    checkpoint: bool,
    seed: u64,
}

/// The options of the command line.
fn options() -> Result<Options, AnyError> {
    let mut options = Options { device: Cpu.into(), steps: 900, checkpoint: false, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--device" => options.device = value()?.parse()?,
            "--steps" => options.steps = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "--checkpoint" => options.checkpoint = true,
            _ => {
                let usage = "char_transformer [--device cpu|cuda:0] [--steps 900] [--checkpoint] [--seed 1]";
                return Err(format!("usage: {usage}").into());
            }
        }
    }
    Ok(options)
}
