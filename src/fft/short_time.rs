//! Spectra of short parts of a line, and the line from them.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::transforms::{half, inverse_half};
use super::{Fft, FourierReal, Norm};
use crate::device::Cpu;
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::{Arithmetic as _, Arrange as _, Pad};
use crate::rank::{Rank, RankMinusOne, Without};
use crate::tensor::{Tensor, TensorView};
use num_complex::Complex;

/// The elements around a line that its first and last parts read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Half of a part on each side, the line mirrored at its ends: part `m` is centered at element
    /// `m · hop`.
    Reflect,
    /// Half of a part on each side, of zeros.
    Zeros,
    /// Nothing: part `m` begins at element `m · hop`.
    Cut,
}

/// Options of [`stft`] and [`istft`].
///
/// # Examples
/// ```
/// use rankform::fft::{Edges, Norm, Stft};
/// let options = Stft::new(512).hop(256).edges(Edges::Zeros).norm(Norm::Ortho);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stft {
    n: usize,
    hop: usize,
    edges: Edges,
    norm: Norm,
    length: Option<usize>,
}

impl Stft {
    /// Parts of `n` elements, `n / 4` apart (at least 1), [`Edges::Reflect`], [`Norm::Backward`].
    pub fn new(n: usize) -> Self {
        Stft { n, hop: (n / 4).max(1), edges: Edges::Reflect, norm: Norm::Backward, length: None }
    }

    /// The distance from one part to the next.
    #[must_use]
    pub fn hop(mut self, hop: usize) -> Self {
        self.hop = hop;
        self
    }

    /// The elements around the line.
    #[must_use]
    pub fn edges(mut self, edges: Edges) -> Self {
        self.edges = edges;
        self
    }

    /// The factor of the transforms: [`Norm::Ortho`] is PyTorch's `normalized`.
    #[must_use]
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }

    /// The length of the line that [`istft`] returns. Without it, it is the longest that the parts have
    /// elements of: `(count − 1) · hop`, and `n` more if the edges are [cut](Edges::Cut), `n mod 2`
    /// otherwise.
    #[must_use]
    pub fn length(mut self, length: usize) -> Self {
        self.length = Some(length);
        self
    }

    /// The number of elements on each side of the line.
    fn margin(&self) -> usize {
        if self.edges == Edges::Cut { 0 } else { self.n / 2 }
    }

    /// The window of a part, with zeros on both sides if it is shorter.
    fn window<T: FourierReal>(
        &self,
        op: &'static str,
        window: TensorView<'_, T, 1, Cpu>,
    ) -> Result<Tensor<T, 1>> {
        let len = window.numel();
        if self.n == 0 || self.hop == 0 || len == 0 || len > self.n {
            let what = text(format_args!(
                "a window of {len} elements in parts of {}, {} apart: a window has from 1 element to those of \
                 a part",
                self.n, self.hop
            ));
            return Err(Error::Value { op, what });
        }
        let before = (self.n - len) / 2;
        window.pad([(before, self.n - len - before)], Pad::Constant(T::constant(0.0)))
    }

    fn transform(&self) -> Fft {
        Fft::new().length(self.n).norm(self.norm)
    }
}

/// The spectra of parts of each real line along the last axis, each part multiplied by a window:
/// `X[.., k, m] = Σ window[j] · x[m · hop + j] · exp(−2πi · jk/n)`, where `x` has its [`Edges`].
///
/// A window that is shorter than a part is in its middle. Frequencies are those of [`rfft`](super::rfft()).
///
/// # Shapes
/// `[.., length] → [.., n/2 + 1, count]`: `count = 1 + (length + edges − n) / hop`.
///
/// # Cost
/// O(n · log n) for each part; the parts are copied once, and the spectra once more.
///
/// # Errors
/// [`Error::Value`] if `n` or the distance is 0, if the window has no element or more than `n`, if the line
/// with its edges has fewer than `n` elements, or if it has too few to be mirrored; [`Error::Overflow`],
/// [`Error::Unallocated`], [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::fft::{Sampling, Stft, hann, istft, stft};
/// use rankform::prelude::*;
/// let x = Tensor::<f64, 1>::random_normal([1000], 0.0, 1.0, 7, &Cpu)?;
/// let (window, options) = (hann(64, Sampling::Periodic)?, Stft::new(64).hop(16));
/// let spectra = stft(&x, &window, options)?; // Tensor<Complex<f64>, 2>
/// assert_eq!(spectra.size(), [33, 63]);
/// let back = istft(&spectra, &window, options.length(1000))?;
/// assert!(back.allclose(&x, 0.0, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// PyTorch's `stft` of real lines, with `onesided`.
pub fn stft<'a, 'b, T: FourierReal + 'a + 'b, const RANK: usize, const N: usize>(
    x: impl IntoView<'a, T, RANK, Cpu>,
    window: impl IntoView<'b, T, 1, Cpu>,
    options: Stft,
) -> Result<Tensor<Complex<T>, N>>
where
    Dim<RANK>: Rank<Next = Dim<N>> + Without<1>,
    Complex<T>: Element,
{
    let (op, x) = ("stft", x.into_view());
    x.ensure_allocated(op)?;
    let window = options.window(op, window.into_view())?;
    let size = x.size().0;
    let (leading, length, n) = (&size[..RANK - 1], size[RANK - 1], options.n);
    let count = leading.iter().product();
    let margin = options.margin();
    let is_too_short = options.edges == Edges::Reflect && length <= margin;
    if is_too_short || length.saturating_add(2 * margin) < n {
        let what = text(format_args!("lines of {length} elements, parts of {n}, edges {:?}", options.edges));
        return Err(Error::Value { op, what });
    }
    let lines = x.to_shape([count, length])?;
    let widths = [(0, 0), (margin, margin)];
    let lines = match options.edges {
        Edges::Cut => lines,
        Edges::Zeros => lines.pad(widths, Pad::Constant(T::constant(0.0)))?,
        Edges::Reflect => lines.pad(widths, Pad::Reflect)?,
    };
    let parts = lines.windows(Axis::<1>, n, options.hop)?.mul(window.lift())?;
    let spectra = half(op, parts.view(), 2, options.transform())?;
    let last = [spectra.size()[2], spectra.size()[1]];
    let size: [usize; N] =
        std::array::from_fn(|a| if a + 1 < RANK { leading[a] } else { last[a + 1 - RANK] });
    spectra.permuted([0, 2, 1])?.to_shape(size)
}

/// The lines whose [`stft`] is nearest to `spectra`: the sum of the parts, each multiplied by the window,
/// divided by the sum of the windows' squares. It inverts [`stft`] wherever that sum is not 0.
///
/// # Shapes
/// `[.., n/2 + 1, count] → [.., length]`, the [length](Stft::length) of the options.
///
/// # Cost
/// O(n · log n) for each part.
///
/// # Errors
/// As [`stft`]; [`Error::Value`] if there are no parts or not `n/2 + 1` frequencies, and if the sum of the
/// windows' squares is at most 1e-11 at an element of the result: no part has it, or the windows are 0 there.
///
/// # Examples
/// ```
/// use rankform::fft::{Edges, Sampling, Stft, hann, istft, stft};
/// use rankform::prelude::*;
/// let x = Tensor::from([1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
/// let options = Stft::new(4).hop(2).edges(Edges::Cut);
/// // Without edges only one part has the first element, where this window is 0.
/// let window = hann(4, Sampling::Periodic)?;
/// let error = istft(&stft(&x, &window, options)?, &window, options).unwrap_err().to_string();
/// assert_eq!(error, "istft: the squares of the windows sum to 0 at element 0 of 8: it is not determined");
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// PyTorch's `istft`.
pub fn istft<'a, 'b, T: FourierReal + 'a + 'b, const N: usize, const RANK: usize>(
    spectra: impl IntoView<'a, Complex<T>, N, Cpu>,
    window: impl IntoView<'b, T, 1, Cpu>,
    options: Stft,
) -> Result<Tensor<T, RANK>>
where
    Dim<N>: RankMinusOne<Output = Dim<RANK>> + Without<2>,
    Complex<T>: Element,
{
    let (op, spectra) = ("istft", spectra.into_view());
    spectra.ensure_allocated(op)?;
    let window = options.window(op, window.into_view())?;
    let size = spectra.size().0;
    let (frequencies, parts, n) = (size[N - 2], size[N - 1], options.n);
    if frequencies != n / 2 + 1 || parts == 0 {
        let what = text(format_args!(
            "spectra of {frequencies} frequencies of {parts} parts; parts of {n} elements have {}",
            n / 2 + 1
        ));
        return Err(Error::Value { op, what });
    }
    let count: usize = size[..N - 2].iter().product();
    let by_parts = spectra.to_shape::<3>([count, frequencies, parts])?;
    let lines = inverse_half(op, by_parts.permuted([0, 2, 1])?, 2, options.transform())?;
    let first = options.margin();
    let covered = (parts - 1).saturating_mul(options.hop).saturating_add(n);
    let length = options.length.unwrap_or(covered - 2 * first);
    let factors = factors(op, &window, (parts, options.hop), (first, length))?;
    let layout = Layout::row_major_of(op, Dim([count, length]), size_of::<T>())?;
    let mut out = Tensor::<T, 2>::uninit(op, layout, &Cpu)?;
    let (lines, window) = (lines.as_slice().unwrap_or_default(), window.as_slice().unwrap_or_default());
    let factors = factors.as_slice().unwrap_or_default();
    out.view_mut()?.for_each_block([1, length], &|[numbers, _], block| {
        let block = block.into_slice_mut().unwrap_or_default();
        block.fill(T::constant(0.0));
        let line = &lines[numbers.start * parts * n..][..parts * n];
        for (part, elements) in line.chunks_exact(n).enumerate() {
            add_part(block, (part.saturating_mul(options.hop), first), elements, window);
        }
        block.iter_mut().zip(factors).for_each(|(sum, &factor)| *sum = *sum * factor);
        Ok(())
    })?;
    out.into_shape(std::array::from_fn::<_, RANK, _>(
        |axis| if axis + 1 < RANK { size[axis] } else { length },
    ))
}

/// Adds a part that begins at `at`, times the window, to a line that begins at `first`.
fn add_part<T: FourierReal>(line: &mut [T], (at, first): (usize, usize), part: &[T], window: &[T]) {
    let skipped = first.saturating_sub(at).min(part.len());
    let to = line.get_mut((at + skipped).saturating_sub(first)..).unwrap_or_default();
    let weighted = part[skipped..].iter().zip(&window[skipped..]);
    to.iter_mut().zip(weighted).for_each(|(sum, (&x, &w))| *sum = *sum + x * w);
}

/// What the sums of parts are multiplied by: 1 / the sum of the windows' squares.
fn factors<T: FourierReal>(
    op: &'static str,
    window: &Tensor<T, 1>,
    (parts, hop): (usize, usize),
    (first, length): (usize, usize),
) -> Result<Tensor<T, 1>> {
    let mut sums = Tensor::<T, 1>::zeros([length], &Cpu)?;
    let window = window.as_slice().unwrap_or_default();
    let line = sums.data_mut()?;
    for part in 0..parts {
        add_part(line, (part.saturating_mul(hop), first), window, window);
    }
    if let Some(place) = line.iter().position(|&sum| sum <= T::constant(1e-11)) {
        let sum = line[place];
        let what = text(format_args!(
            "the squares of the windows sum to {sum} at element {place} of {length}: it is not determined"
        ));
        return Err(Error::Value { op, what });
    }
    line.iter_mut().for_each(|sum| *sum = T::constant(1.0) / *sum);
    Ok(sums)
}
