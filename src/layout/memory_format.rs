//! Memory formats: the order in which the axes are stored.
// Imports: `error`, `dim`.

use super::Layout;
use crate::dim::{Dim, Stride};
use crate::error::Result;

/// The order in which the axes of a tensor are stored; an argument of `to_format`, and the rule for the
/// layout of outputs.
///
/// Axes of size 1 never decide a format, and an empty tensor has all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryFormat {
    /// Row-major: the last axis is the fastest.
    Contiguous,
    /// A dense input keeps its order of axes; any other becomes contiguous. Elementwise operators do this.
    #[default]
    Preserve,
}

impl<const RANK: usize> Layout<RANK> {
    /// The layout that an output of this size gets when it keeps this operand's format: the same order of
    /// axes without gaps if this layout is non-overlapping and dense, row-major otherwise.
    pub fn preserved(&self) -> Layout<RANK> {
        if self.is_non_overlapping_and_dense() && !self.is_contiguous() {
            Layout { size: self.size, stride: self.stride, offset: 0 }
        } else {
            Layout::row_major(self.size)
        }
    }

    /// The layout of a new tensor of this size in `format`.
    pub fn in_format(&self, format: MemoryFormat) -> Layout<RANK> {
        match format {
            MemoryFormat::Contiguous => Layout::row_major(self.size),
            MemoryFormat::Preserve => self.preserved(),
        }
    }

    /// Replaces every stride of −1 by the row-major stride of its axis: the size of the next axis, at
    /// least 1, times its stride, and 1 for the last axis. `None` when a derived stride overflows. The other
    /// strides are kept.
    pub(crate) fn derived_strides(size: Dim<RANK>, stride: Stride<RANK>) -> Option<Stride<RANK>> {
        let mut derived = stride.0;
        for axis in (0..RANK).rev().filter(|&axis| stride.0[axis] == -1) {
            derived[axis] = match size.0.get(axis + 1) {
                Some(&next) => derived[axis + 1].checked_mul(isize::try_from(next.max(1)).ok()?)?,
                None => 1,
            };
        }
        Some(Stride(derived))
    }

    /// `[batch, channel, …]` without gaps, the channel fastest.
    pub(crate) fn with_channel_fastest(size: Dim<RANK>) -> Self {
        Self::dense(size, channel_fastest())
    }

    /// `[batch, channel, …]` without gaps: the channel is the fastest axis, and the batch the next one.
    pub(crate) fn with_batch_and_channel_fastest(size: Dim<RANK>) -> Self {
        Self::dense(size, std::array::from_fn(|place| (place + 2) % RANK))
    }

    /// Whether the channel axis is the fastest and the layout is dense.
    pub(crate) fn is_dense_with_channel_fastest(&self) -> bool {
        self.is_dense_in(channel_fastest())
    }
}

/// The order of the axes, slowest first: batch, the spatial axes, then the channel.
fn channel_fastest<const RANK: usize>() -> [usize; RANK] {
    std::array::from_fn(|place| match place {
        0 => 0,
        last if last + 1 == RANK => 1,
        spatial => spatial + 1,
    })
}

impl Layout<4> {
    /// `[batch, channel, height, width]` stored with the channel fastest.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) when the elements cannot be counted in an `isize`.
    pub fn channels_last(size: impl Into<Dim<4>>) -> Result<Self> {
        let size = size.into();
        size.numel_of("channels_last", 1)?;
        Ok(Self::dense(size, [0, 2, 3, 1]))
    }

    /// Whether the channel axis is the fastest and the layout is dense.
    pub fn is_channels_last(&self) -> bool {
        self.is_dense_in([0, 2, 3, 1])
    }
}

impl Layout<5> {
    /// `[batch, channel, depth, height, width]` stored with the channel fastest.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) when the elements cannot be counted in an `isize`.
    pub fn channels_last_3d(size: impl Into<Dim<5>>) -> Result<Self> {
        let size = size.into();
        size.numel_of("channels_last_3d", 1)?;
        Ok(Self::dense(size, [0, 2, 3, 4, 1]))
    }

    /// Whether the channel axis is the fastest and the layout is dense.
    pub fn is_channels_last_3d(&self) -> bool {
        self.is_dense_in([0, 2, 3, 4, 1])
    }
}
