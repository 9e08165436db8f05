//! Filters of a picture of bytes: box and Sobel by slices, brightness, threshold, histogram.
use rankform::prelude::*;

fn picture(height: usize, width: usize) -> Result<Tensor<u8, 2>> {
    let y = Tensor::arange(0i32, height as i32, 1, &Cpu)?;
    let x = Tensor::arange(0i32, width as i32, 1, &Cpu)?;
    let y = y.insert_axis(Axis::<1>);
    let bits = (y.lazy() * 3 + x.lift().lazy() * 5).bit_and(255).eval()?;
    bits.cast::<u8>()
}

/// The mean of 3 × 3 pixels around each, without the frame.
fn blurred(image: &Tensor<u8, 2>) -> Result<Tensor<u8, 2>> {
    let [h, w] = image.size().0;
    let wide = image.cast::<u16>()?;
    let mut sum = Tensor::<u16, 2>::zeros([h - 2, w - 2], &Cpu)?;
    for dy in 0..3 {
        for dx in 0..3 {
            sum += &wide.slice((dy..h - 2 + dy, dx..w - 2 + dx))?;
        }
    }
    (sum.lazy() / 9).cast::<u8>().eval()
}

/// The length of the gradient, cut off at 255.
fn edges(image: &Tensor<u8, 2>) -> Result<Tensor<u8, 2>> {
    let [h, w] = image.size().0;
    let x = image.cast::<f32>()?;
    let at = |dy: usize, dx: usize| x.slice((dy..h - 2 + dy, dx..w - 2 + dx));
    let right = (at(0, 2)?.lazy() + at(1, 2)?.lazy() * 2.0 + at(2, 2)?).eval()?;
    let left = (at(0, 0)?.lazy() + at(1, 0)?.lazy() * 2.0 + at(2, 0)?).eval()?;
    let below = (at(2, 0)?.lazy() + at(2, 1)?.lazy() * 2.0 + at(2, 2)?).eval()?;
    let above = (at(0, 0)?.lazy() + at(0, 1)?.lazy() * 2.0 + at(0, 2)?).eval()?;
    let (gx, gy) = (&right - &left, &below - &above);
    let length = (gx.lazy().square() + gy.lazy().square()).sqrt().minimum(255.0).eval()?;
    length.cast::<u8>()
}

fn brightened(image: &Tensor<u8, 2>, factor: f32) -> Result<Tensor<u8, 2>> {
    (image.lazy().cast::<f32>() * factor).minimum(255.0).cast::<u8>().eval()
}

fn thresholded(image: &Tensor<u8, 2>, level: u8) -> Result<Tensor<u8, 2>> {
    image.lazy().greater(level).select(255u8, 0u8).eval()
}

fn main() -> Result<()> {
    let image = picture(480, 640)?;
    let soft = blurred(&image)?;
    let lines = edges(&image)?;
    let light = brightened(&image, 1.5)?;
    let black = thresholded(&soft, 128)?;
    for (name, x) in [("soft", &soft), ("lines", &lines), ("light", &light), ("black", &black)] {
        let mean = x.cast::<f64>()?.mean(All)?.item()?;
        println!(
            "{name}: {:?}, mean {mean:.2}, {} to {}",
            x.size(),
            x.min(All)?.item()?,
            x.max(All)?.item()?
        );
    }
    let turned = image.transposed().copy()?;
    let rows = turned.lazy().cast::<i64>().sum(Axis::<1>)?;
    println!("first rows {}", rows.slice((..4,))?);
    Ok(())
}
