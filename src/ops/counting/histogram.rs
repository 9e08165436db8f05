//! Histograms of one and several dimensions.
// Imports: `error`, `dim`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::{All, Dim};
use crate::element::{Comparable, Compute};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval};
use crate::kernel::{Call, Op, Param};
use crate::ops::indexing::gather::FlatElements;
use crate::ops::indexing::multi_index::LinearIndex;
use crate::ops::{Cast as _, Comparisons as _, Reductions as _};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Tensor, TensorView};

/// The index of the bin of a number among `bins` equal bins of a range, or `bins` if it is outside:
/// `(x, low, high, bins)`.
#[derive(Clone, Copy, Debug)]
struct BinIndex;

impl<T: Comparable> Op<(T, f64, f64, f64)> for BinIndex {
    const NAME: &'static str = "histogram";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>(
        (x, low, high, bins): (Lane<L, Compute<T>>, Lane<L, f64>, Lane<L, f64>, Lane<L, f64>),
    ) -> Lane<L, i64> {
        let x = x.cast::<f64>();
        let bin = ((x - low) / (high - low) * bins).floor().min(bins - 1.0).cast::<i64>();
        (x.ge(low) & x.le(high)).select(bin, bins.cast())
    }
}

/// The index of the bin of an element by its edges, which are those of `linspace`, `step` apart; the number
/// of bins for an element outside. With a step of NaN there are no edges to compare with.
#[derive(Clone, Copy, Debug)]
struct BinByEdges;

impl<T: Comparable> Op<(T, f64, f64, f64, f64)> for BinByEdges {
    const NAME: &'static str = "histogram";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>(
        (x, low, high, bins, step): (
            Lane<L, Compute<T>>,
            Lane<L, f64>,
            Lane<L, f64>,
            Lane<L, f64>,
            Lane<L, f64>,
        ),
    ) -> Lane<L, i64> {
        let (x, last) = (x.cast::<f64>(), bins - 1.0);
        let bin = ((x - low) / (high - low) * bins).floor().min(last);
        // The quotient and the edges are rounded; compare with the edges.
        let (before, behind) = (x.lt(low + bin * step), x.ge(low + (bin + 1.0) * step) & bin.lt(last));
        let bin = bin - before.cast::<f64>() + behind.cast::<f64>();
        (x.ge(low) & x.le(high)).select(bin, bins).cast()
    }
}

/// The parameters of a histogram of `K` dimensions: see [`Histogram::histogram_with`].
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::ops::Bins;
/// let weights = Tensor::from([1.0, 0.5]);
/// let plan = Bins::<1, Cpu>::new([10]).range([(0.0, 1.0)]).weights(weights.view()).density();
/// assert_eq!((plan.bins, plan.density), ([10], true));
/// ```
#[derive(Clone, Copy)]
pub struct Bins<'a, const K: usize, D: Device> {
    /// The number of equal bins along each dimension.
    pub bins: [usize; K],
    /// The range along each dimension; `None` is the smallest and the largest element.
    pub range: Option<[(f64, f64); K]>,
    /// The weight of each sample; `None` is 1 for all.
    pub weights: Option<TensorView<'a, f64, 1, D>>,
    /// Whether counts are divided by their sum and by the size of a bin: their integral is then 1.
    pub density: bool,
}

impl<'a, const K: usize, D: Device> Bins<'a, K, D> {
    /// Equal bins from the smallest element to the largest.
    pub const fn new(bins: [usize; K]) -> Self {
        Bins { bins, range: None, weights: None, density: false }
    }
    /// With this range, which includes both ends.
    pub fn range(self, range: [(f64, f64); K]) -> Self {
        Bins { range: Some(range), ..self }
    }
    /// With a weight for each sample, in row-major order.
    pub fn weights(self, weights: TensorView<'a, f64, 1, D>) -> Self {
        Bins { weights: Some(weights), ..self }
    }
    /// As a density.
    pub fn density(self) -> Self {
        Bins { density: true, ..self }
    }
}

/// The result of [`Histogram::histogram_with`] and [`Histogram::histogramdd`].
pub struct Counts<const K: usize, D: Device> {
    /// The number of samples in each bin, or the sum of their weights, or the density.
    pub values: Tensor<f64, K, D>,
    /// The edges of the bins along each dimension: one more than the number of bins.
    pub edges: [Tensor<f64, 1, D>; K],
}

/// The smallest and the largest element. If they are equal, a range of length 1 around them; 0 and 1 if there
/// are no elements.
fn element_range<T: Comparable, const RANK: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
) -> Result<(f64, f64)> {
    if x.numel() == 0 {
        return Ok((0.0, 1.0));
    }
    let (low, high) = (x.lazy().cast::<f64>().min(All)?.item()?, x.lazy().cast::<f64>().max(All)?.item()?);
    if !(low.is_finite() && high.is_finite()) {
        return Err(Error::Value {
            op,
            what: text(format_args!("elements from {low} to {high} have no finite range")),
        });
    }
    Ok(if low == high { (low - 0.5, high + 0.5) } else { (low, high) })
}

/// Counts samples by their coordinates: one view per dimension, all of the same size.
fn counted<T: Comparable, const RANK: usize, const K: usize, D: Device>(
    op: &'static str,
    device: &D,
    of: [TensorView<'_, T, RANK, D>; K],
    plan: Bins<'_, K, D>,
) -> Result<Counts<K, D>> {
    let samples = of.first().map_or(0, |x| x.numel());
    if let Some(weights) = plan.weights {
        same_device(op, device, weights.device())?;
        weights.ensure_allocated(op)?;
        if weights.numel() != samples {
            return Err(Error::Value {
                op,
                what: text(format_args!("{} weights for {samples} samples", weights.numel())),
            });
        }
    }
    let cells = Dim(plan.bins).numel_of(op, size_of::<f64>())?;
    let mut ranges = [(0.0, 1.0); K];
    let mut numbers: Option<Tensor<i64, RANK, D>> = None;
    for (k, x) in of.into_iter().enumerate() {
        let (low, high) = match plan.range {
            Some(range) => range[k],
            None => element_range(op, x)?,
        };
        ranges[k] = (low, high);
        let bins = plan.bins[k];
        check_range(op, bins, low, high)?;
        let step = (high - low) / bins as f64;
        let step = if step.is_normal() { step } else { f64::NAN };
        let bin = Call::<BinByEdges, _>::new((x, Param(low), Param(high), Param(bins as f64), Param(step)));
        let size = Param(bins as i64);
        // An index equal to the number of bins means outside.
        numbers = Some(match &numbers {
            None => eval(op, &Call::<LinearIndex, _>::new((Param(0_i64), bin, size, Param(0))), device)?,
            Some(numbers) => {
                eval(op, &Call::<LinearIndex, _>::new((numbers.view(), bin, size, Param(0))), device)?
            }
        });
    }
    let Some(numbers) = numbers else {
        return Err(Error::Value { op, what: text(format_args!("of no dimension")) });
    };
    // Samples outside are counted in an extra cell after the last one, which is discarded.
    let numbers = numbers.lazy().less(0).select(cells as i64, &numbers).eval()?;
    let line = FlatElements::of(numbers.view())?;
    let sums = match plan.weights {
        Some(weights) => line.view().bincount_of(weights, cells.saturating_add(1)),
        None => line.view().bincount(cells.saturating_add(1)).and_then(|counts| counts.cast::<f64>()),
    };
    let sums = sums.map_err(|error| error.with_op(op))?;
    let sums = sums.view().slice((..cells,))?;
    let values = if plan.density {
        let volume: f64 =
            ranges.iter().zip(plan.bins).map(|((low, high), bins)| (high - low) / bins as f64).product();
        (sums.lazy() / sums.sum(All)?.lift() / volume).eval()?
    } else {
        sums.copy()?
    };
    let edges = ranges
        .iter()
        .zip(plan.bins)
        .map(|(&(low, high), bins)| Tensor::linspace(low, high, bins + 1, device));
    let edges: Vec<_> = edges.collect::<Result<_>>()?;
    let Ok(edges) = edges.try_into() else {
        return Err(Error::Value { op, what: text(format_args!("edges of {K} dimensions")) });
    };
    Ok(Counts { values: values.into_shape(plan.bins)?, edges })
}

/// [`Error::Value`] unless there are bins and the ends form a range.
fn check_range(op: &'static str, bins: usize, low: f64, high: f64) -> Result<()> {
    if bins == 0 || !(high - low).is_finite() || low >= high {
        return Err(Error::Value { op, what: text(format_args!("{bins} bins from {low} to {high}")) });
    }
    Ok(())
}

/// Histograms of tensors and views.
pub trait Histogram<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The number of elements in each of `bins` equal bins of `low ..= high`; the last bin includes both its
    /// ends.
    ///
    /// The bin of `x` is `⌊(x − low) / (high − low) · bins⌋`, computed in f64. NaN and elements outside the
    /// range are not counted.
    ///
    /// # Errors
    /// [`Error::Value`] for no bins or ends that form no range; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([0.0, 0.4, 0.5, 1.0, 7.0]);
    /// assert_eq!(x.histogram(2, 0.0, 1.0)?.to_vec()?, [2, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn histogram(self, bins: usize, low: f64, high: f64) -> Result<Tensor<i64, 1, D>>
    where
        T: Comparable,
    {
        let (op, x) = ("histogram", self.into_view());
        check_range(op, bins, low, high)?;
        let parts = eval(
            op,
            &Call::<BinIndex, _>::new((x, Param(low), Param(high), Param(bins as f64))),
            x.device(),
        )?;
        // Elements outside are counted in an extra bin after the last one, which is discarded.
        let counts = FlatElements::of(parts.view())?
            .view()
            .bincount(bins.saturating_add(1))
            .map_err(|error| error.with_op(op))?;
        counts.into_slice((..bins,))?.view().copy()
    }

    /// As [`histogram`](Histogram::histogram), with a given range or that of the elements, weights, and an
    /// optional density. It also returns the edges of all bins; each element is in the bin with
    /// `edges[i] ≤ x < edges[i + 1]`, as in NumPy and `torch.histogram`.
    ///
    /// Without a range it is that from the smallest to the largest element; if these are equal, from ½ below
    /// to ½ above.
    ///
    /// # Cost
    /// Without a range, one synchronization with the device.
    ///
    /// # Errors
    /// [`Error::Value`] for no bins, ends that form no range, elements without a finite range, or another
    /// number of weights than elements; [`Error::NoData`] on a device without data if no range is given;
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Bins;
    /// let x = Tensor::from([1.0, 2.0, 2.5, 5.0]);
    /// let found = x.histogram_with(Bins::new([4]))?;
    /// assert_eq!(found.values.to_vec()?, [1.0, 2.0, 0.0, 1.0]);
    /// assert_eq!(found.edges[0].to_vec()?, [1.0, 2.0, 3.0, 4.0, 5.0]);
    /// let weights = Tensor::from([4.0, 1.0, 1.0, 2.0]);
    /// let density = x.histogram_with(Bins::new([2]).range([(0.0, 5.0)]).weights(weights.view()).density())?;
    /// assert_eq!(density.values.to_vec()?, [5.0 / 8.0 / 2.5, 3.0 / 8.0 / 2.5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn histogram_with(self, plan: Bins<'_, 1, D>) -> Result<Counts<1, D>>
    where
        T: Comparable,
    {
        let (op, x) = ("histogram_with", self.into_view());
        x.ensure_allocated(op)?;
        counted(op, x.device(), [x], plan)
    }

    /// The number of samples in each cell of a grid of `K` dimensions; the last axis holds the `K`
    /// coordinates of a sample.
    ///
    /// # Errors
    /// As [`histogram_with`](Histogram::histogram_with); [`Error::Value`] unless samples have `K`
    /// coordinates.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Bins;
    /// let points = Tensor::from([[0.1, 0.9], [0.2, 0.1], [0.8, 0.7], [0.9, 0.6]]);
    /// let found = points.histogramdd(Bins::new([2, 2]).range([(0.0, 1.0); 2]))?;
    /// assert_eq!(found.values, Tensor::from([[1.0, 1.0], [0.0, 2.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn histogramdd<const K: usize>(self, plan: Bins<'_, K, D>) -> Result<Counts<K, D>>
    where
        T: Comparable,
    {
        let (op, x) = ("histogramdd", self.into_view());
        x.ensure_allocated(op)?;
        if K == 0 || x.size().0.last() != Some(&K) {
            return Err(Error::Value {
                op,
                what: text(format_args!("{K} coordinates in the last axis of sizes {}", x.size())),
            });
        }
        let mut columns = [x; K];
        for (k, column) in columns.iter_mut().enumerate() {
            *column = x.slice_axis(RANK - 1, k..k + 1, 1)?;
        }
        counted(op, x.device(), columns, plan)
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Histogram<'a, T, RANK, D> for X {}
