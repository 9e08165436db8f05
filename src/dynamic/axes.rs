//! Sizes and strides of a rank known at run time, without heap memory up to 8 axes.
// Imports: `error`, `fallible`, `dim`, `layout`.

use crate::dim::{Dim, Stride};
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::layout::Layout;

/// The most axes of a tensor whose rank is known at run time, as in NumPy and PyTorch.
pub const MAX_RANK: usize = 64;
/// The most axes that the handle itself holds.
pub(crate) const FEW: usize = 8;

/// Sizes and strides. Together with an offset they satisfy the invariants of a [`Layout`].
pub(crate) enum SizesAndStrides {
    Few { rank: usize, size: [usize; FEW], stride: [isize; FEW] },
    Many(FallibleArc<(Vec<usize>, Vec<isize>)>),
}

impl SizesAndStrides {
    /// One axis of size 0, as an undefined tensor has.
    pub(crate) const NONE: SizesAndStrides =
        SizesAndStrides::Few { rank: 1, size: [0; FEW], stride: [1; FEW] };

    /// # Errors
    /// [`Error::Value`] for more than [`MAX_RANK`] axes or if the number of strides differs,
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(op: &'static str, sizes: &[usize], strides: &[isize]) -> Result<Self> {
        let rank = sizes.len();
        if rank > MAX_RANK || strides.len() != rank {
            return Err(Error::Value {
                op,
                what: text(format_args!("{rank} sizes and {} strides; at most {MAX_RANK}", strides.len())),
            });
        }
        if rank <= FEW {
            let (mut size, mut stride) = ([0; FEW], [0; FEW]);
            size[..rank].copy_from_slice(sizes);
            stride[..rank].copy_from_slice(strides);
            return Ok(SizesAndStrides::Few { rank, size, stride });
        }
        Ok(SizesAndStrides::Many(FallibleArc::new((owned(op, sizes)?, owned(op, strides)?))?))
    }

    /// From a layout with at most [`FEW`] axes.
    #[inline]
    pub(crate) fn few<const RANK: usize>(layout: &Layout<RANK>) -> Self {
        const { assert!(RANK <= FEW, "a layout of few axes") };
        let (mut size, mut stride) = ([0; FEW], [0; FEW]);
        size[..RANK].copy_from_slice(&layout.size().0);
        stride[..RANK].copy_from_slice(&layout.stride().0);
        SizesAndStrides::Few { rank: RANK, size, stride }
    }

    /// From the last `rank` axes of a layout.
    pub(crate) fn last<const N: usize>(op: &'static str, layout: &Layout<N>, rank: usize) -> Result<Self> {
        SizesAndStrides::new(op, &layout.size().0[N - rank..], &layout.stride().0[N - rank..])
    }

    /// The same axes. More than [`FEW`] axes are shared.
    #[inline]
    pub(crate) fn another(&self) -> Self {
        match self {
            SizesAndStrides::Few { rank, size, stride } => {
                SizesAndStrides::Few { rank: *rank, size: *size, stride: *stride }
            }
            SizesAndStrides::Many(many) => SizesAndStrides::Many(many.share()),
        }
    }

    /// Drops leading axes of size 1 down to the rank `wanted`, if there are at most [`FEW`] axes.
    #[inline]
    pub(crate) fn drop_leading(&mut self, wanted: usize) {
        if let SizesAndStrides::Few { rank, size, stride } = self
            && let Some(new @ 1..) = rank.checked_sub(wanted)
            && size[..new].iter().all(|&n| n == 1)
        {
            size.copy_within(new..*rank, 0);
            stride.copy_within(new..*rank, 0);
            *rank = wanted;
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> &[usize] {
        match self {
            SizesAndStrides::Few { rank, size, .. } => &size[..*rank],
            SizesAndStrides::Many(many) => &many.0,
        }
    }

    #[inline]
    pub(crate) fn stride(&self) -> &[isize] {
        match self {
            SizesAndStrides::Few { rank, stride, .. } => &stride[..*rank],
            SizesAndStrides::Many(many) => &many.1,
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.size().len()
    }

    /// The layout at a constant rank, with new leading axes of size 1 if that rank is larger; `None` if it is
    /// smaller.
    #[inline]
    pub(crate) fn lifted<const N: usize>(&self, offset: usize) -> Option<Layout<N>> {
        (self.rank() <= N).then(|| self.behind(offset))
    }

    /// The layout at the largest rank, with new leading axes of size 1.
    pub(crate) fn all(&self, offset: usize) -> Layout<MAX_RANK> {
        self.behind(offset)
    }

    #[inline]
    fn behind<const N: usize>(&self, offset: usize) -> Layout<N> {
        let (sizes, strides) = (self.size(), self.stride());
        let (mut size, mut stride) = ([1; N], [0; N]);
        size[N - sizes.len()..].copy_from_slice(sizes);
        stride[N - sizes.len()..].copy_from_slice(strides);
        Layout::from_parts(Dim(size), Stride(stride), offset)
    }
}

/// Copies into a vector whose allocation can fail.
pub(crate) fn owned<T: Copy>(op: &'static str, values: &[T]) -> Result<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len())
        .map_err(|_| Error::OutOfMemory { op, nbytes: size_of_val(values) })?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// Evaluates an expression of a layout of constant rank, with leading axes of size 1: 8 axes for at most 8,
/// [`MAX_RANK`] for more.
macro_rules! laid_out {
    ($axes:expr, $offset:expr, |$layout:ident| $value:expr) => {
        match $axes.lifted::<{ $crate::dynamic::axes::FEW }>($offset) {
            Some($layout) => $value,
            None => {
                let $layout = $axes.all($offset);
                $value
            }
        }
    };
}
pub(crate) use laid_out;

/// Checks that the bytes of these sizes can be counted, and returns the number of elements.
pub(super) fn counted(op: &'static str, size: &[usize], element: usize) -> Result<usize> {
    let nonzero = size.iter().filter(|&&n| n > 0).try_fold(1usize, |all, &n| all.checked_mul(n));
    let fits = nonzero
        .and_then(|all| all.checked_mul(element.max(1)))
        .is_some_and(|nbytes| nbytes <= isize::MAX as usize);
    if !fits {
        return Err(Error::Overflow { op, sizes: size.into(), element });
    }
    Ok(size.iter().product())
}

/// Row-major sizes and strides.
pub(super) fn row_major(op: &'static str, size: &[usize], element: usize) -> Result<SizesAndStrides> {
    counted(op, size, element)?;
    let axes = SizesAndStrides::new(op, size, &[0; MAX_RANK][..size.len().min(MAX_RANK)])?;
    laid_out!(axes, 0, |layout| SizesAndStrides::last(op, &Layout::row_major(layout.size()), size.len()))
}
