//! Layouts of views: permuted, sliced, broadcast, reshaped. Each function preserves the positions of the
//! elements that it keeps.
// Imports: `error`, `dim`, `rank`, `layout`.

use super::Layout;
use crate::dim::{Dim, Stride};
use crate::error::{Error, Result, text};
use crate::rank::{LiftTo, Rank, RankMinusOne, RemoveAxis, ResolvedSlice, SliceList, SliceOfRank, SliceSpec};

impl<const RANK: usize> Layout<RANK> {
    #[inline]
    fn fits(&self, op: &'static str, axis: usize) -> Result<()> {
        if axis < RANK { Ok(()) } else { Err(Error::Axis { op, axis, sizes: self.size.0.into() }) }
    }

    /// Axis `a` of the result is axis `order[a]` of this layout.
    ///
    /// Law: `permuted(order).at(index) = at(inverse)`, where `inverse[order[a]] = index[a]`.
    ///
    /// # Errors
    /// [`Error::Permutation`] unless `order` names every axis once.
    #[inline]
    pub fn permuted(&self, order: [usize; RANK]) -> Result<Self> {
        let mut seen = [false; RANK];
        for axis in order {
            if axis >= RANK || std::mem::replace(&mut seen[axis], true) {
                return Err(Error::Permutation { op: "permuted", order: order.into() });
            }
        }
        Ok(self.reordered(order))
    }

    #[inline]
    pub(crate) fn reordered(&self, order: [usize; RANK]) -> Self {
        // Loops, here and below: `array::map` would add much code to each program.
        let mut layout = *self;
        for (place, &axis) in order.iter().enumerate() {
            (layout.size.0[place], layout.stride.0[place]) = (self.size.0[axis], self.stride.0[axis]);
        }
        layout
    }

    /// All axes in reverse order; the transpose of a matrix.
    #[inline]
    pub fn transposed(&self) -> Self {
        let mut layout = *self;
        layout.size.0.reverse();
        layout.stride.0.reverse();
        layout
    }

    /// Axis `axis` read backwards.
    ///
    /// Law: `reversed(a)` maps `index[a]` to `size[a] - 1 - index[a]`; twice changes nothing.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis.
    #[inline]
    pub fn reversed(&self, axis: usize) -> Result<Self> {
        self.fits("reversed", axis)?;
        let mut layout = *self;
        if self.size.0[axis] > 1 && !self.size.0.contains(&0) {
            let last = (self.size.0[axis] as isize - 1).wrapping_mul(self.stride.0[axis]);
            layout.offset = (self.offset as isize).wrapping_add(last) as usize;
        }
        layout.stride.0[axis] = self.stride.0[axis].wrapping_neg();
        Ok(layout)
    }

    /// Broadcasts axes of size 1 to `size` by a stride of 0.
    ///
    /// # Errors
    /// [`Error::Sizes`] when another axis differs, [`Error::Overflow`] when the elements cannot be counted.
    #[inline]
    pub fn broadcast_to(&self, size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = size.into();
        size.numel_of("broadcast_to", 1)?;
        if (0..RANK).any(|axis| self.size.0[axis] != 1 && self.size.0[axis] != size.0[axis]) {
            return Err(Error::Sizes { op: "broadcast_to", left: self.size.0.into(), right: size.0.into() });
        }
        Ok(self.stretched(size))
    }

    /// As `broadcast_to`, for sizes that are known to fit.
    #[inline]
    pub(crate) fn stretched(&self, size: Dim<RANK>) -> Self {
        let mut stride = self.stride;
        for axis in 0..RANK {
            if self.size.0[axis] != size.0[axis] {
                stride.0[axis] = 0;
            }
        }
        Layout { size, stride, offset: self.offset }
    }

    /// New leading axes of size 1 up to rank `N`.
    pub fn lifted<const N: usize>(&self) -> Layout<N>
    where
        Dim<RANK>: LiftTo<N>,
    {
        self.raised()
    }

    #[inline]
    fn raised<const N: usize>(&self) -> Layout<N> {
        let (mut size, mut stride) = ([1; N], [0; N]);
        size[N - RANK..].copy_from_slice(&self.size.0);
        stride[N - RANK..].copy_from_slice(&self.stride.0);
        Layout { size: Dim(size), stride: Stride(stride), offset: self.offset }
    }

    /// A new axis of size 1 at `axis`.
    ///
    /// # Errors
    /// [`Error::Axis`] when `axis` is beyond the rank.
    pub fn inserted<const N: usize>(&self, axis: usize) -> Result<Layout<N>>
    where
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        if axis > RANK {
            return Err(Error::Axis { op: "insert_axis", axis, sizes: self.size.0.into() });
        }
        Ok(self.grown(axis))
    }

    /// A new axis of size 1 at `axis`, known to be at most `RANK`; `N = RANK + 1`.
    #[inline]
    pub(crate) fn grown<const N: usize>(&self, axis: usize) -> Layout<N> {
        let mut layout = self.raised::<N>();
        layout.size.0[..=axis].rotate_left(1);
        layout.stride.0[..=axis].rotate_left(1);
        layout
    }

    /// Axis `A`, which exists by its type, read backwards.
    pub(crate) fn reversed_at<const A: usize>(&self) -> Self
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        self.reversed(A).expect("the type says that axis A exists")
    }

    /// Drops `axis` at position `at`, both known to exist; `M = RANK - 1`.
    #[inline]
    pub(crate) fn indexed<const M: usize>(&self, axis: usize, at: usize) -> Layout<M> {
        let other = |a: usize| if a < axis { a } else { a + 1 };
        let step = (at as isize).wrapping_mul(self.stride.0[axis]);
        let (mut size, mut stride) = (Dim([0; M]), Stride([0; M]));
        for a in 0..M {
            (size.0[a], stride.0[a]) = (self.size.0[other(a)], self.stride.0[other(a)]);
        }
        // An empty result addresses no element, and the new offset could lie outside the memory: the old one
        // is kept.
        let offset = if size.0.contains(&0) {
            self.offset
        } else {
            (self.offset as isize).wrapping_add(step) as usize
        };
        Layout { size, stride, offset }
    }

    /// Drops an axis of size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] when the axis has another size or does not exist.
    #[inline]
    pub fn removed<const M: usize>(&self, axis: usize) -> Result<Layout<M>>
    where
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        match self.size.0.get(axis) {
            Some(1) => Ok(self.indexed(axis, 0)),
            _ => Err(Error::Axis { op: "remove_axis", axis, sizes: self.size.0.into() }),
        }
    }

    /// Positions `start..end` of `axis`, every `step`-th, from the last when the step is negative; `op` is
    /// the operation of the error.
    ///
    /// # Errors
    /// [`Error::Slice`] when they leave the axis or the step is 0.
    #[inline]
    pub fn ranged(
        &self,
        op: &'static str,
        axis: usize,
        start: usize,
        end: usize,
        step: isize,
    ) -> Result<Self> {
        self.fits(op, axis)?;
        let (size, stride) = (self.size.0[axis], self.stride.0[axis]);
        let Some(AxisSelection { len, first, stride_factor }) = AxisSelection::new(size, start, end, step)
        else {
            return Err(Error::Slice {
                op,
                entry: entry(ResolvedSlice::Range(start, Some(end), step), size),
                axis,
                size,
            });
        };
        let mut layout = *self;
        layout.size.0[axis] = len;
        if layout.size.0.contains(&0) {
            return Ok(layout); // the result is empty and addresses no element
        }
        layout.offset = (self.offset as isize).wrapping_add((first as isize).wrapping_mul(stride)) as usize;
        layout.stride.0[axis] = stride.wrapping_mul(stride_factor);
        Ok(layout)
    }

    /// The part that a tuple of indices, ranges and new axes selects.
    ///
    /// # Errors
    /// [`Error::Slice`] when an entry leaves its axis or a step is 0.
    #[inline]
    pub fn sliced<S: SliceSpec<Output = Dim<M>>, const M: usize>(&self, spec: &S) -> Result<Layout<M>>
    where
        S::Reads: SliceOfRank<RANK>,
    {
        let mut slicing = SliceBuilder {
            of: *self,
            size: [1; M],
            stride: [0; M],
            offset: self.offset as isize,
            axis: 0,
            out: 0,
        };
        if let Some(pick) = spec.each(&mut slicing) {
            let (axis, size) = (slicing.axis, self.size.0[slicing.axis]);
            return Err(Error::Slice { op: "slice", entry: entry(pick, size), axis, size });
        }
        let SliceBuilder { size, stride, offset, .. } = slicing;
        // An empty result addresses no element: the old offset is kept.
        let offset = if size.contains(&0) { self.offset } else { offset as usize };
        Ok(Layout { size: Dim(size), stride: Stride(stride), offset })
    }

    /// Whether two slices, both of which fit, select disjoint sets of indices.
    pub(crate) fn are_apart(&self, first: &impl SliceSpec, second: &impl SliceSpec) -> bool {
        let none = || SelectedPositions { size: self.size.0, picked: [(0, 0, 1); RANK], axis: 0 };
        let (mut one, mut other) = (none(), none());
        let fit = first.each(&mut one).is_none() && second.each(&mut other).is_none();
        fit && one.picked.into_iter().zip(other.picked).any(|(a, b)| !have_common(a, b))
    }

    /// Windows of `len` positions of `axis`, `step` apart; the new last axis runs inside a window.
    ///
    /// # Errors
    /// [`Error::Slice`] when `len` or `step` is 0 or the window is longer than the axis, [`Error::Axis`] when
    /// there is no such axis, [`Error::Overflow`] when overlapping windows hold more elements than can be
    /// counted.
    pub fn windowed<const N: usize>(&self, axis: usize, len: usize, step: usize) -> Result<Layout<N>>
    where
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        self.fits("windows", axis)?;
        let size = self.size.0[axis];
        if len == 0 || step == 0 || len > size {
            return Err(Error::Slice {
                op: "windows",
                entry: text(format_args!("a window of {len} with step {step}")),
                axis,
                size,
            });
        }
        let mut layout = self.inserted::<N>(RANK)?;
        let count = (size - len) / step + 1;
        layout.size.0[axis] = count;
        if count > 1 {
            layout.stride.0[axis] = self.stride.0[axis].wrapping_mul(step as isize);
        }
        layout.size.0[N - 1] = len;
        layout.stride.0[N - 1] = self.stride.0[axis];
        layout.size.numel_of("windows", 1)?;
        Ok(layout)
    }

    /// The elements whose indices along `first` and `second` are equal, as a new last axis.
    ///
    /// # Errors
    /// [`Error::Axis`] unless the axes differ and exist.
    pub fn diagonal<const M: usize>(&self, first: usize, second: usize) -> Result<Layout<M>>
    where
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        self.fits("diagonal", first)?;
        self.fits("diagonal", second)?;
        if first == second {
            return Err(Error::Axis { op: "diagonal", axis: second, sizes: self.size.0.into() });
        }
        let (mut size, mut stride, mut out) = ([0; M], [0; M], 0);
        for axis in (0..RANK).filter(|&axis| axis != first && axis != second) {
            (size[out], stride[out]) = (self.size.0[axis], self.stride.0[axis]);
            out += 1;
        }
        size[M - 1] = self.size.0[first].min(self.size.0[second]);
        stride[M - 1] = self.stride.0[first].wrapping_add(self.stride.0[second]);
        Ok(Layout { size: Dim(size), stride: Stride(stride), offset: self.offset })
    }

    /// Other sizes for the same elements in row-major order, if strides can express them.
    ///
    /// Law: the i-th position in row-major order is the same before and after.
    ///
    /// # Errors
    /// [`Error::Length`] when the numbers of elements differ, [`Error::NeedsCopy`] when no strides fit,
    /// [`Error::Overflow`] when the elements of `to` cannot be counted.
    #[inline]
    pub fn reshaped<const N: usize>(&self, to: impl Into<Dim<N>>) -> Result<Layout<N>> {
        let to: Dim<N> = to.into();
        if self.is_contiguous() && to.counted(1) == Some(self.numel()) {
            return Ok(Layout { offset: self.offset, ..Layout::row_major(to) });
        }
        (*self).reshaped_strided(to)
    }

    /// [`reshaped`](Layout::reshaped) for a layout that is not contiguous, and the error if `to` does not
    /// fit. It is a separate function to keep the common case short.
    #[inline(never)]
    fn reshaped_strided<const N: usize>(self, to: Dim<N>) -> Result<Layout<N>> {
        let numel = to.numel_of("reshape", 1)?;
        if numel != self.numel() {
            let of = Some(self.size.0.into());
            return Err(Error::Length {
                op: "reshape",
                sizes: to.0.into(),
                expected: numel,
                found: self.numel(),
                of,
            });
        }
        // Walks both layouts from the fastest axis: each group of old axes that coalesce is divided among the
        // new axes.
        let mut stride = [0isize; N];
        let mut new = N;
        let mut old = RANK;
        while old > 0 {
            old -= 1;
            if self.size.0[old] == 1 {
                continue;
            }
            let step = self.stride.0[old];
            let mut run = self.size.0[old];
            while old > 0
                && (self.size.0[old - 1] == 1 || self.stride.0[old - 1] == step.wrapping_mul(run as isize))
            {
                old -= 1;
                run *= self.size.0[old];
            }
            let mut filled = 1usize;
            while filled < run && new > 0 {
                new -= 1;
                stride[new] = step.wrapping_mul(filled as isize);
                filled = filled.saturating_mul(to.0[new]);
            }
            if filled != run {
                return Err(Error::NeedsCopy {
                    op: "reshape",
                    sizes: self.size.0.into(),
                    strides: self.stride.0.into(),
                    to: to.0.into(),
                });
            }
        }
        // The remaining axes have size 1 and take the stride that a dense layout would give them.
        for axis in (0..new).rev() {
            stride[axis] =
                if axis + 1 < N { stride[axis + 1].wrapping_mul(to.0[axis + 1] as isize) } else { 1 };
        }
        Ok(Layout { size: to, stride: Stride(stride), offset: self.offset })
    }

    /// The same strides at another offset.
    pub(crate) fn with_offset(&self, offset: usize) -> Self {
        Layout { offset, ..*self }
    }
}

/// A selection of positions along one axis: their number, the first one, and the factor of the stride.
struct AxisSelection {
    len: usize,
    first: usize,
    stride_factor: isize,
}

impl AxisSelection {
    /// Positions `start..end`, every `step`-th, from the last when the step is negative; `None` when they
    /// leave the axis or the step is 0.
    #[inline]
    fn new(size: usize, start: usize, end: usize, step: isize) -> Option<AxisSelection> {
        if start > end || end > size || step == 0 {
            return None;
        }
        if step == 1 {
            return Some(AxisSelection { len: end - start, first: start, stride_factor: 1 });
        }
        let len = (end - start).div_ceil(step.unsigned_abs());
        let first = if step > 0 || len == 0 { start } else { end - 1 };
        // One position: its stride is not used and must not overflow.
        Some(AxisSelection { len, first, stride_factor: if len > 1 { step } else { 1 } })
    }
}

/// A slice under construction: the axis that is read next, and the axis of the result that is written next.
struct SliceBuilder<const RANK: usize, const M: usize> {
    of: Layout<RANK>,
    size: [usize; M],
    stride: [isize; M],
    offset: isize,
    axis: usize,
    out: usize,
}

impl<const RANK: usize, const M: usize> SliceList for SliceBuilder<RANK, M> {
    #[inline(always)] // straight-line code: the type of an entry determines its selection
    fn take(&mut self, pick: ResolvedSlice) -> bool {
        if let ResolvedSlice::New = pick {
            self.out += 1;
            return true;
        }
        let (size, stride) = (self.of.size.0[self.axis], self.of.stride.0[self.axis]);
        let first = match pick {
            ResolvedSlice::Index(at) if at < size => at,
            ResolvedSlice::Range(start, end, step) => {
                let Some(AxisSelection { len, first, stride_factor }) =
                    AxisSelection::new(size, start, end.unwrap_or(size), step)
                else {
                    return false;
                };
                (self.size[self.out], self.stride[self.out]) = (len, stride.wrapping_mul(stride_factor));
                self.out += 1;
                first
            }
            _ => return false,
        };
        self.offset = self.offset.wrapping_add((first as isize).wrapping_mul(stride));
        self.axis += 1;
        true
    }
}

/// The positions that a slice selects along each axis: the first, their number, and the step. The entries
/// fit.
struct SelectedPositions<const RANK: usize> {
    size: [usize; RANK],
    picked: [(usize, usize, usize); RANK],
    axis: usize,
}

impl<const RANK: usize> SliceList for SelectedPositions<RANK> {
    fn take(&mut self, pick: ResolvedSlice) -> bool {
        let picked = match pick {
            ResolvedSlice::New => return true,
            ResolvedSlice::Index(at) => (at, 1, 1),
            ResolvedSlice::Range(start, end, step) => {
                let Some(AxisSelection { len, first, stride_factor }) = AxisSelection::new(
                    self.size[self.axis],
                    start,
                    end.unwrap_or(self.size[self.axis]),
                    step,
                ) else {
                    return false;
                };
                let step = stride_factor.unsigned_abs();
                (if stride_factor < 0 { first - step * (len - 1) } else { first }, len, step)
            }
            ResolvedSlice::Endless => return false,
        };
        self.picked[self.axis] = picked;
        self.axis += 1;
        true
    }
}

/// Whether two progressions of positions, `(first, number, step)`, have a common member.
fn have_common(
    (first, len, step): (usize, usize, usize),
    (other, others, stride): (usize, usize, usize),
) -> bool {
    if len == 0 || others == 0 {
        return false;
    }
    let end = (first + step * (len - 1)).min(other + stride * (others - 1));
    let start = first + other.saturating_sub(first).div_ceil(step) * step;
    // The remainders by the other step repeat with that period.
    (start..=end).step_by(step).take(stride).any(|at| (at - other) % stride == 0)
}

/// The text of a slice entry in an error, with its ends filled in.
#[cold]
fn entry(pick: ResolvedSlice, size: usize) -> String {
    match pick {
        ResolvedSlice::Index(at) => text(format_args!("{at}")),
        ResolvedSlice::Range(start, end, 1) => text(format_args!("{start}..{}", end.unwrap_or(size))),
        ResolvedSlice::Range(start, end, step) => {
            text(format_args!("({start}..{}).step({step})", end.unwrap_or(size)))
        }
        ResolvedSlice::Endless => text(format_args!("..=usize::MAX")),
        ResolvedSlice::New => text(format_args!("a new axis")),
    }
}
