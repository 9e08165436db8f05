//! A small convolutional net that learns to read handwritten digits.
//!
//! `cargo run --release --example digits_conv` trains on four fifths of the 1 797 images of 8 × 8 and
//! classifies the others, every fifth one. `-- --device cuda:0` computes on a GPU (with `--features cuda`),
//! `-- --epochs 2` stops early.
//!
//! The net is a function of any device. [`value_and_grad`] calls it with tensors on a tape and returns the
//! gradients of its parameters, in a struct of the same fields. The optimizer goes over both.

use indicatif::{ProgressBar, ProgressStyle};
use rankform::AnyDevice;
use rankform::autograd::value_and_grad;
use rankform::io::npy;
use rankform::optim::{AdamW, schedule};
use rankform::prelude::*;
use std::{path::Path, time::Instant};

const CLASSES: usize = 10;
const BATCH: usize = 64;
const RATE: f64 = 6e-3;

type AnyError = Box<dyn std::error::Error>;

parameters! {
    /// A convolution by 3 × 3 filters.
    struct Convolution<D> {
        filters: Tensor<f32, 4, D>, // (output channel, input channel, row, column)
        bias: Tensor<f32, 1, D>,
    }
    /// Three convolutions and a linear layer.
    struct Net<D> {
        convolutions: [Convolution<D>; 3],
        weight: Tensor<f32, 2, D>, // (feature, class)
        bias: Tensor<f32, 1, D>,
    }
}

impl<D: Device> Convolution<D> {
    fn new(input: usize, output: usize, seed: u64, device: &D) -> Result<Self> {
        let deviation = (2.0 / (9 * input) as f32).sqrt();
        let filters = Tensor::random_normal([output, input, 3, 3], 0.0, deviation, seed, device)?;
        Ok(Convolution { filters, bias: Tensor::zeros([output], device)? })
    }

    /// Images of the same height and width. The bias and the activation are one pass over memory.
    fn apply(&self, images: &Tensor<f32, 4, D>) -> Result<Tensor<f32, 4, D>> {
        let y = images.conv2d(&self.filters, Conv::new().padding([1, 1]))?;
        (y.lazy() + self.bias.reshape([1, self.bias.numel(), 1, 1])?).relu().eval()
    }
}

impl<D: Device> Net<D> {
    fn new(device: &D) -> Result<Self> {
        Ok(Net {
            convolutions: [
                Convolution::new(1, 16, 1, device)?,
                Convolution::new(16, 32, 2, device)?,
                Convolution::new(32, 64, 3, device)?,
            ],
            weight: Tensor::random_normal([64 * 2 * 2, CLASSES], 0.0, 0.05, 4, device)?,
            bias: Tensor::zeros([CLASSES], device)?,
        })
    }

    /// The scores of each class: (image, 1, 8, 8) → (image, class).
    fn scores(&self, images: &Tensor<f32, 4, D>) -> Result<Tensor<f32, 2, D>> {
        let [first, second, third] = &self.convolutions;
        let y = second.apply(&first.apply(images)?)?.max_pool2d(Pool::new([2, 2]))?; // (image, 32, 4, 4)
        let y = third.apply(&y)?.max_pool2d(Pool::new([2, 2]))?; // (image, 64, 2, 2)
        let features = y.reshape([images.size()[0], self.weight.size()[0]])?;
        Ok(features.matmul(&self.weight)? + self.bias.lift())
    }
}

/// Images with their labels.
struct Digits<D: Device> {
    images: Tensor<f32, 4, D>, // (image, 1, row, column), 0 to 1
    labels: Tensor<i64, 1, D>,
}

impl<D: Device> Digits<D> {
    fn choose(&self, index: TensorView<'_, i64, 1, D>) -> Result<Self> {
        let images = self.images.index_select(Axis::<0>, index)?;
        Ok(Digits { images, labels: self.labels.index_select(Axis::<0>, index)? })
    }

    /// The images moved by up to one pixel.
    fn moved(&self, seed: u64) -> Result<Tensor<f32, 4, D>> {
        let by = Tensor::<usize, 1>::random_integers([2], 0..3, seed, &Cpu)?;
        let (down, right) = (by[[0]], by[[1]]);
        let padded = self.images.pad([(0, 0), (0, 0), (1, 1), (1, 1)], Pad::Constant(0.0))?;
        padded.slice((.., .., down..down + 8, right..right + 8))?.to_contiguous()
    }
}

fn main() -> Result<(), AnyError> {
    let (device, epochs) = options()?;
    let digits = read(&device)?;
    let fifth = |held_out: bool| {
        let chosen =
            (0..digits.labels.numel() as i64).filter(|i| (i % 5 == 0) == held_out).collect::<Vec<_>>();
        Tensor::from_slice(&chosen, [chosen.len()], &device)
    };
    let (train, test) = (digits.choose(fifth(false)?.view())?, digits.choose(fifth(true)?.view())?);

    let mut net = Net::new(&device)?;
    println!("{} parameters on {device:?}", net.parameter_count()?);
    let start = Instant::now();
    learn(&mut net, &train, epochs)?;
    let seconds = start.elapsed().as_secs_f64();

    let guess = net.scores(&test.images)?.argmax(Axis::<1>)?;
    let right = guess.equal(&test.labels)?.count(All)?.item()?;
    let n = test.labels.numel();
    println!(
        "{right} of {n} right, {:.1} %; {epochs} epochs in {seconds:.1} s",
        100.0 * right as f64 / n as f64
    );

    let (guess, truth) = (guess.to(&Cpu)?, test.labels.to(&Cpu)?);
    for i in (0..n).filter(|&i| guess[[i]] != truth[[i]]) {
        println!("  image {}: a {} taken for a {}", 5 * i, truth[[i]], guess[[i]]);
    }
    Ok(())
}

/// Trains the net on batches in random order, every second one moved by up to one pixel.
fn learn<D: Device>(net: &mut Net<D>, train: &Digits<D>, epochs: u64) -> Result<()> {
    let (n, device) = (train.labels.numel(), train.labels.device());
    let steps = epochs * n.div_ceil(BATCH) as u64;
    let mut optimizer = AdamW::new(RATE).weight_decay(0.05);
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} steps, {eta} left, loss {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    for epoch in 0..epochs {
        let order = Tensor::random_permutation(n, epoch, device)?;
        let mut mean = 0.0;
        for index in order.chunks(Axis::<0>, BATCH)? {
            let (step, part) = (bar.position(), index.numel() as f32 / n as f32);
            let batch = train.choose(index)?;
            let images = if step % 2 == 0 { batch.images } else { batch.moved(step)? };
            let (loss, gradients) = value_and_grad(&*net, |net, tape| {
                let scores = net.scores(&tape.constant(&images)?)?;
                scores.cross_entropy_mean(Axis::<1>, &tape.constant(&batch.labels)?, ClassLoss::new())
            })?;
            optimizer
                .set_learning_rate(RATE * schedule::warm_up(step, 50) * schedule::cosine(step, steps, 0.01));
            optimizer.step(&mut *net, &gradients)?;
            mean += part * loss.item()?;
            bar.set_message(format!("{mean:.4}"));
            bar.inc(1);
        }
        if (epoch + 1) % 5 == 0 {
            bar.suspend(|| println!("epoch {:2}: mean loss {mean:.4}", epoch + 1));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// All images with their labels.
fn read<D: Device>(device: &D) -> Result<Digits<D>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let images: Tensor<u8, 3> = npy::read(data.join("digits_images.npy"))?; // (image, row, column), 0 to 16
    let labels: Tensor<u8, 1> = npy::read(data.join("digits_labels.npy"))?;
    let images = (images.insert_axis(Axis::<1>).cast::<f32>()? / 16.0).to(device)?;
    Ok(Digits { images, labels: labels.cast::<i64>()?.to(device)? })
}

/// The device that `--device` names, by default the CPU, and the number of epochs.
fn options() -> Result<(AnyDevice, u64), AnyError> {
    let (mut device, mut epochs) = (AnyDevice::from(Cpu), 30);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        match (option.as_str(), arguments.next()) {
            ("--device", Some(name)) => device = name.parse()?,
            ("--epochs", Some(number)) => epochs = number.parse()?,
            _ => return Err("usage: digits_conv [--device cpu|cuda:0] [--epochs 30]".into()),
        }
    }
    Ok((device, epochs))
}
