//! Handwritten digits, recognized by their neighbors: real data in, an answer and a picture out.
//!
//! `cargo run --release --example digits` reads 1 797 images of 8 × 8, learns from the first 1 437 and
//! classifies the last 360 by the nearest image, by the three nearest, by the nearest mean of a class, and by
//! a layer that is trained. Every step is a typed tensor expression: the ranks of images, distances and votes
//! are checked when this compiles. `-- --device cuda:0` computes on a GPU (with `--features cuda`).

use rankform::AnyDevice;
use rankform::autograd::value_and_grad;
use rankform::io::npy;
use rankform::prelude::*;
use std::{fs, path::Path};

const TRAINING: usize = 1437;
const CLASSES: usize = 10;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let device = chosen_device()?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let images: Tensor<u8, 3> = npy::read(data.join("digits_images.npy"))?; // (image, row, column)
    let labels: Tensor<u8, 1> = npy::read(data.join("digits_labels.npy"))?; // (image)

    let pixels = images.to_shape([images.size()[0], 64])?.to(&device)?.cast::<f32>()?; // (image, pixel)
    let labels = labels.to(&device)?;
    let (train, test) = pixels.split_at(Axis::<0>, TRAINING)?;
    let (known, truth) = labels.split_at(Axis::<0>, TRAINING)?;

    let classes = Tensor::arange(0u8, CLASSES as u8, 1, &device)?;
    let is_class = one_hot(known, &classes)?; // (training image, class)
    let distances = squared_distances(test, train)?; // (test image, training image)

    let nearest = vote(&distances, &is_class, 1)?;
    let three_nearest = vote(&distances, &is_class, 3)?;

    // The mean of a class: the sum of its images, which is a matrix product, over their number.
    let members = is_class.sum(Axis::<0>)?; // (class)
    let means = is_class.transposed().matmul(train)? / members.insert_axis(Axis::<1>); // (class, pixel)
    let nearest_mean = squared_distances(test, means.view())?.argmin(Axis::<1>)?;

    let (weight, bias) = trained(train, known)?;
    let layer = (test.matmul(&weight)? + bias.lift()).argmax(Axis::<1>)?;

    for (name, guess) in
        [("1-NN", &nearest), ("3-NN", &three_nearest), ("nearest mean", &nearest_mean), ("layer", &layer)]
    {
        let right = guess.lazy().equal(&truth.cast::<i64>()?).count(All)?.item()?;
        let n = truth.numel();
        println!("{name:>12}: {right} of {n} right, {:.1} %", 100.0 * right as f64 / n as f64);
    }

    let guessed = one_hot(three_nearest.cast::<u8>()?.view(), &classes)?; // (test image, class)
    let actual = one_hot(truth, &classes)?;
    let confusion = actual.transposed().matmul(&guessed)?.cast::<i32>()?; // (true class, guessed class)
    println!("\n3-NN, true class downwards, guessed class to the right:\n{confusion}");

    let (guessed, actual) = (three_nearest.to(&Cpu)?, truth.to(&Cpu)?);
    let wrong: Vec<usize> = (0..truth.numel()).filter(|&i| guessed[[i]] != actual[[i]] as i64).collect();
    let path = Path::new("digits_mistakes.png");
    write_contact_sheet(path, &images, &wrong)?;
    println!("\nthe {} mistakes of the three nearest, in {}:", wrong.len(), path.display());
    for i in wrong {
        println!("  image {}: {}, taken for {}", TRAINING + i, actual[[i]], guessed[[i]]);
    }
    Ok(())
}

/// The device that `--device` names; the CPU by default.
fn chosen_device() -> Result<AnyDevice, AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => Ok(Cpu.into()),
        [option, name] if option == "--device" => Ok(name.parse()?),
        _ => Err("usage: digits [--device cpu|cuda:0]".into()),
    }
}

/// `y[i, c] = 1` where `labels[i]` is `classes[c]`, 0 elsewhere.
fn one_hot<D: Device>(
    labels: TensorView<'_, u8, 1, D>,
    classes: &Tensor<u8, 1, D>,
) -> Result<Tensor<f32, 2, D>> {
    labels.insert_axis(Axis::<1>).lazy().equal(classes.lift()).cast::<f32>().eval()
}

/// `|aᵢ − bⱼ|² = |aᵢ|² − 2 aᵢ·bⱼ + |bⱼ|²`, exact here: all numbers are integers below 2²⁴.
fn squared_distances<D: Device>(
    a: TensorView<'_, f32, 2, D>,
    b: TensorView<'_, f32, 2, D>,
) -> Result<Tensor<f32, 2, D>> {
    let (aa, bb) = (a.lazy().square().sum(Axis::<1>)?, b.lazy().square().sum(Axis::<1>)?);
    let ab = a.matmul(b.transposed())?;
    (ab.lazy() * -2.0 + aa.insert_axis(Axis::<1>) + bb.lift()).eval()
}

/// The class that most of the `k` nearest have; the smallest of several.
fn vote<D: Device>(
    distances: &Tensor<f32, 2, D>,
    is_class: &Tensor<f32, 2, D>,
    k: usize,
) -> Result<Tensor<i64, 1, D>> {
    let device = distances.device();
    let index = Tensor::arange(0, distances.size()[1] as i64, 1, device)?; // (training image)
    let mut left = distances.copy()?;
    let mut votes = Tensor::<f32, 2, D>::zeros([distances.size()[0], CLASSES], device)?;
    for _ in 0..k {
        let nearest = left.argmin(Axis::<1>)?; // (test image)
        // (test image, training image)
        let chosen = index.lift().lazy().equal(nearest.insert_axis(Axis::<1>)).eval()?;
        votes += &chosen.cast::<f32>()?.matmul(is_class)?;
        left = chosen.select(f32::INFINITY, &left)?;
    }
    votes.argmax(Axis::<1>)
}

elementwise! {
    /// A step of gradient descent with momentum: the parameter and its velocity.
    fn descent(parameter, velocity, gradient, rate) -> (T, T) {
        let velocity = 0.9 * velocity + gradient;
        (parameter - rate * velocity, velocity)
    }
}

/// Weight (pixel, class) and bias (class) of one layer, trained on all images at a time: softmax regression.
fn trained<D: Device>(
    x: TensorView<'_, f32, 2, D>,
    labels: TensorView<'_, u8, 1, D>,
) -> Result<(Tensor<f32, 2, D>, Tensor<f32, 1, D>)> {
    let device = x.device();
    let (x, labels) = (x.to_contiguous()?, labels.cast::<i64>()?);
    let (mut weight, mut bias) =
        (Tensor::zeros([x.size()[1], CLASSES], device)?, Tensor::zeros([CLASSES], device)?);
    let (mut weight_velocity, mut bias_velocity) = (Tensor::zeros_like(&weight)?, Tensor::zeros_like(&bias)?);
    for step in 0..60 {
        let (loss, (to_weight, to_bias)) = value_and_grad((&weight, &bias), |(weight, bias), tape| {
            let scores = tape.constant(&x)?.matmul(weight)? + bias.lift(); // (image, class)
            scores.cross_entropy_mean(Axis::<1>, &tape.constant(&labels)?, ClassLoss::new())
        })?;
        if step % 20 == 0 {
            println!("step {step:2}: cross entropy {:.3}", loss.item()?);
        }
        apply_in_place(descent, (&mut weight, &mut weight_velocity), (&to_weight, 0.01))?;
        apply_in_place(descent, (&mut bias, &mut bias_velocity), (&to_bias, 0.01))?;
    }
    Ok((weight, bias))
}

/// Draws the test images `which` side by side, dark on light, magnified eight times.
fn write_contact_sheet(path: &Path, images: &Tensor<u8, 3>, which: &[usize]) -> Result<(), AnyError> {
    const SCALE: usize = 8;
    const FRAME: usize = 4;
    const ACROSS: usize = 6;
    let cell = 8 * SCALE + 2 * FRAME;
    // (row, column)
    let mut sheet = Tensor::full([which.len().div_ceil(ACROSS).max(1) * cell, ACROSS * cell], 128u8, &Cpu)?;
    for (place, &i) in which.iter().enumerate() {
        // Each pixel repeated SCALE × SCALE times: two new axes, stretched without memory.
        let image = images.slice((TRAINING + i, .., NewAxis, .., NewAxis))?; // (row, 1, column, 1)
        let large = image.broadcast_to([8, SCALE, 8, SCALE])?.to_shape([8 * SCALE, 8 * SCALE])?;
        let (top, left) = (place / ACROSS * cell + FRAME, place % ACROSS * cell + FRAME);
        let shade = (255 - large.lazy() * 15).eval()?; // 0 to 16 → light to dark
        sheet.view_mut()?.slice((top..top + 8 * SCALE, left..left + 8 * SCALE))?.assign(&shade)?;
    }
    let [height, width] = sheet.size().0;
    let mut encoder = png::Encoder::new(fs::File::create(path)?, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header()?.write_image_data(&sheet.into_vec()?)?;
    Ok(())
}
