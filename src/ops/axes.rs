//! Checks and sizes for axes that are known at run time.
// Imports: `error`, `dim`, `device`.

use crate::device::MAX_AXES;
use crate::dim::Dim;
use crate::error::{Error, Result, text};

/// Sizes that are `n` along axis `axis` and 1 along every other.
pub(super) fn sizes_along<const RANK: usize>(axis: usize, n: usize) -> [usize; RANK] {
    std::array::from_fn(|a| if a == axis { n } else { 1 })
}

/// [`Error::Axis`] unless the axis exists; [`Error::Value`] for more axes than devices support.
pub(super) fn check_axis<const RANK: usize>(op: &'static str, axis: usize, size: Dim<RANK>) -> Result<()> {
    if axis >= RANK {
        return Err(Error::Axis { op, axis, sizes: size.0.into() });
    }
    if RANK > MAX_AXES {
        return Err(Error::Value {
            op,
            what: text(format_args!("{RANK} axes, of which devices walk at most {MAX_AXES}")),
        });
    }
    Ok(())
}

/// `size` with `n` positions along `axis`.
pub(super) fn with_size<const RANK: usize>(size: Dim<RANK>, axis: usize, n: usize) -> Dim<RANK> {
    Dim(std::array::from_fn(|a| if a == axis { n } else { size.0[a] }))
}
