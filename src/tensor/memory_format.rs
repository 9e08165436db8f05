//! Strides and memory formats: setters and queries.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::dim::{Dim, Stride};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::{Layout, MemoryFormat};
use crate::rank::{IsRank4, IsRank5};

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Sets any sizes and strides, at this handle's offset, that stay inside the memory (or, before there is
    /// memory, inside the largest possible allocation). A stride of −1 is derived, as in PyTorch: from the
    /// last axis to the first it becomes the next axis' stride × max(its size, 1), and 1 at the last.
    /// Explicit strides are kept, and derived ones before them continue from there. PyTorch derives every
    /// negative stride; here the others run backwards.
    ///
    /// # Errors
    /// [`Error::Bounds`] when a position would lie outside or a derived stride overflows,
    /// [`Error::Overflow`], [`Error::MetadataFrozen`]; nothing has changed then.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::<i32, 2>::zeros([1, 7], &Cpu)?;
    /// x.set_sizes_and_strides([2, 2], [-1, 2])?; // derived: 2 · 2
    /// assert!(x.stride() == [4, 2] && x.capacity() == 7);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn set_sizes_and_strides(
        &mut self,
        size: impl Into<Dim<RANK>>,
        stride: impl Into<Stride<RANK>>,
    ) -> Result<()> {
        let (op, size, stride) = ("set_sizes_and_strides", size.into(), stride.into());
        self.ensure_unfrozen(op)?;
        size.numel_of(op, size_of::<T>())?;
        let waits = self.is_deferred();
        let len = if waits { isize::MAX as usize / size_of::<T>().max(1) } else { self.capacity() };
        let offset = self.layout().offset() as i128;
        let too_large = || Error::Bounds { op, sizes: size.0.into(), strides: stride.0.into(), offset, len };
        let derived = Layout::derived_strides(size, stride).ok_or_else(too_large)?;
        self.set_layout(Layout::within(op, size, derived, offset, len)?);
        Ok(())
    }

    /// Sets the strides of a format for the present sizes: c10's `empty_tensor_restride`. No bytes move: an
    /// index may address another element afterwards. `to_format` moves the elements.
    ///
    /// # Errors
    /// [`Error::MetadataFrozen`], [`Error::Overflow`] (of a broadcast tensor).
    pub fn restride(&mut self, format: MemoryFormat) -> Result<()> {
        self.set_format_layout("restride", self.layout().in_format(format))
    }

    /// As [`restride`](Tensor::restride), the channel fastest: `[batch, channel, height, width]` only.
    ///
    /// # Errors
    /// Those of [`restride`](Tensor::restride).
    pub fn restride_channels_last(&mut self) -> Result<()>
    where
        Dim<RANK>: IsRank4,
    {
        self.set_format_layout("restride_channels_last", Layout::with_channel_fastest(self.size()))
    }

    /// As [`restride`](Tensor::restride), the channel fastest: `[batch, channel, depth, height, width]` only.
    ///
    /// # Errors
    /// Those of [`restride`](Tensor::restride).
    pub fn restride_channels_last_3d(&mut self) -> Result<()>
    where
        Dim<RANK>: IsRank5,
    {
        self.set_format_layout("restride_channels_last_3d", Layout::with_channel_fastest(self.size()))
    }

    fn set_format_layout(&mut self, op: &'static str, layout: Layout<RANK>) -> Result<()> {
        self.ensure_unfrozen(op)?;
        self.size().numel_of(op, size_of::<T>())?;
        self.set_layout(self.at_own_offset(layout));
        Ok(())
    }
}

/// Queries of the layout, for all three forms of a tensor.
macro_rules! queries {
    ($($(#[$doc:meta])* fn $name:ident $([$rank:ident])? = $query:ident;)*) => {
        queries! { @of [Tensor<T, RANK, D>] [$($(#[$doc])* $name $([$rank])? $query;)*] }
        queries! { @of [TensorView<'_, T, RANK, D>] [$($(#[$doc])* $name $([$rank])? $query;)*] }
        queries! { @of [TensorViewMut<'_, T, RANK, D>] [$($(#[$doc])* $name $([$rank])? $query;)*] }
    };
    (@of [$form:ty] [$($(#[$doc:meta])* $name:ident $([$rank:ident])? $query:ident;)*]) => {
        impl<T, const RANK: usize, D: Device> $form { $(
            $(#[$doc])*
            pub fn $name(&self) -> bool $(where Dim<RANK>: $rank)? {
                self.layout().$query()
            }
        )* }
    };
}
queries! {
    /// Whether row-major order is the order of memory, without gaps. Axes of size 1 do not count; empty
    /// tensors are contiguous.
    fn is_contiguous = is_contiguous;
    /// Whether the channel axis of `[batch, channel, height, width]` is the fastest and the layout is dense.
    fn is_channels_last[IsRank4] = is_dense_with_channel_fastest;
    /// Whether the channel axis of `[batch, channel, depth, height, width]` is the fastest and the layout is
    /// dense.
    fn is_channels_last_3d[IsRank5] = is_dense_with_channel_fastest;
    /// Whether some order of the axes is the order of memory, without gaps.
    fn is_non_overlapping_and_dense = is_non_overlapping_and_dense;
    /// Whether two indices may address one element; see [`Layout::may_overlap`].
    fn may_overlap = may_overlap;
}
