//! `copy` between layouts: a `map` of the elements' words.
// Imports: `error`, `kernel`, `device`.

use crate::device::cuda::codegen::element_words::{strides_in_words, word_of};
use crate::device::cuda::engine::map;
use crate::device::cuda::stream::queue::Stream;
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{Input, Store};
use num_complex::Complex;
use std::marker::PhantomData;
use std::sync::Arc;

/// Queues a copy.
///
/// # Errors
/// Those of the launch.
///
/// # Safety
/// As [`Device::copy`](crate::device::Device::copy).
pub(in crate::device::cuda) unsafe fn run(
    stream: &Arc<Stream>,
    sizes: &[usize],
    to: OperandRef<'_>,
    from: OperandRef<'_>,
) -> Result<()> {
    if to.element == 0 || sizes.contains(&0) {
        return Ok(());
    }
    let (bytes, words) = word_of(to.element);
    let sizes: Vec<usize> = sizes.iter().copied().chain([words]).collect();
    let to_stride = strides_in_words(to.stride, words, 1);
    let from_stride = strides_in_words(from.stride, words, 1);
    let to = [OperandRef { stride: &to_stride, element: bytes, ..to }];
    let from = [OperandRef { stride: &from_stride, element: bytes, ..from }];
    let inputs = Inputs { slots: &from, reads: &[0] };
    // SAFETY: the caller's promise. Words are only loaded and stored, which keeps their bits.
    unsafe {
        match bytes {
            16 => map::run(stream, &Store(Input::<Complex<f64>>(PhantomData)), &sizes, &to, inputs),
            8 => map::run(stream, &Store(Input::<u64>(PhantomData)), &sizes, &to, inputs),
            4 => map::run(stream, &Store(Input::<u32>(PhantomData)), &sizes, &to, inputs),
            2 => map::run(stream, &Store(Input::<u16>(PhantomData)), &sizes, &to, inputs),
            _ => map::run(stream, &Store(Input::<u8>(PhantomData)), &sizes, &to, inputs),
        }
    }
}
