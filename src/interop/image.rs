//! image: images as tensors `(row, column, channel)` and the reverse, without a copy.
//!
//! ```
//! use rankform::interop::image as im;
//! use rankform::prelude::*;
//! let picture = image::RgbImage::from_pixel(4, 2, image::Rgb([10, 20, 30]));
//! let x = im::tensor(picture)?;
//! assert_eq!((x.size(), x[[1, 3, 2]]), (dim![2, 4, 3], 30));
//! let back: image::RgbImage = im::picture(x)?;
//! assert_eq!(back.get_pixel(3, 1).0, [10, 20, 30]);
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `tensor`.

use crate::error::{Error, Result, text};
use crate::tensor::{Tensor, TensorView};
use image::{ImageBuffer, Pixel};

/// An image of pixels `P` in a vector.
pub type Picture<P> = ImageBuffer<P, Vec<<P as Pixel>::Subpixel>>;

fn sizes<P: Pixel>(picture: &Picture<P>) -> [usize; 3] {
    [picture.height() as usize, picture.width() as usize, P::CHANNEL_COUNT.into()]
}

/// A view of an image's numbers, without a copy.
///
/// # Errors
/// [`Error::Length`] if the image has fewer numbers than its sizes require.
pub fn view<P: Pixel>(picture: &Picture<P>) -> Result<TensorView<'_, P::Subpixel, 3>> {
    let size = sizes(picture);
    let numbers = picture.as_raw();
    // The vector may be longer than the image.
    TensorView::from_slice(&numbers[..size.iter().product::<usize>().min(numbers.len())], size)
}

/// A tensor in the memory of an image.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn tensor<P: Pixel<Subpixel: Send + Sync + 'static>>(
    picture: Picture<P>,
) -> Result<Tensor<P::Subpixel, 3>> {
    let size = sizes(&picture);
    let mut numbers = picture.into_raw();
    numbers.truncate(size.iter().product());
    Tensor::from_vec(numbers, size)
}

/// An image in the memory of a tensor, with a copy if [`Tensor::into_vec`] makes one.
///
/// # Errors
/// [`Error::Value`] if the size of the last axis is not the number of channels of a pixel, or another size
/// exceeds 2³² − 1; [`Error::Unallocated`], [`Error::OutOfMemory`].
pub fn picture<P: Pixel<Subpixel: Send + Sync + 'static>>(
    tensor: Tensor<P::Subpixel, 3>,
) -> Result<Picture<P>> {
    let [rows, columns, channels] = tensor.size().0;
    let refused = || {
        let what =
            text(format_args!("sizes {} are no picture of {} channels", tensor.size(), P::CHANNEL_COUNT));
        Error::Value { op: "image::picture", what }
    };
    let (Ok(height), Ok(width)) = (u32::try_from(rows), u32::try_from(columns)) else {
        return Err(refused());
    };
    if channels != usize::from(P::CHANNEL_COUNT) {
        return Err(refused());
    }
    let error = refused();
    ImageBuffer::from_raw(width, height, tensor.into_vec()?).ok_or(error)
}
