//! Products that sum over axes: matrix products for all supported pairs of ranks, and the general form by
//! labels.
//!
//! Axes have labels, as in `einsum`: `ik, kj -> ij` is the matrix product. Labels of both operands and the
//! result are the batch; labels of the operands alone are summed over; labels of one operand and the result
//! are rows and columns.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::{Number, WideningMul};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::kernel::{ContractPlan, MAX_GROUP};
use crate::layout::Layout;
use crate::rank::Matmul;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

impl<T: Number, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// The matrix product; see [`Tensor::matmul`].
    ///
    /// # Errors
    /// [`Error::Inner`] when the inner sizes differ, [`Error::Sizes`] when the batches do not broadcast, …
    pub fn matmul<'b, const N: usize, const M: usize>(
        self,
        other: impl IntoView<'b, T, N, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        D: 'b,
        T: 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul", self, other.into_view())
    }

    /// The matrix product in a wider element; see [`Tensor::matmul_wide`].
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn matmul_wide<'b, U, const N: usize, const M: usize>(
        self,
        other: impl IntoView<'b, U, N, D>,
    ) -> Result<Tensor<U::Wide, M, D>>
    where
        D: 'b,
        U: WideningMul<T> + 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul_wide", self, other.into_view())
    }

    /// Writes the matrix product; see [`Tensor::matmul_into`].
    ///
    /// # Errors
    /// As there.
    pub fn matmul_into<'b, 'o, const N: usize, const M: usize>(
        self,
        other: impl IntoView<'b, T, N, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
        T: 'b + 'o,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        let other = other.into_view();
        labelled("matmul_into", labels::<RANK, N, M>(), self, other, Existing(out))
    }

    /// Writes the matrix product in a wider element; see [`Tensor::matmul_into`] and [`Tensor::matmul_wide`].
    ///
    /// # Errors
    /// As [`Tensor::matmul_into`].
    pub fn matmul_wide_into<'b, 'o, U, const N: usize, const M: usize>(
        self,
        other: impl IntoView<'b, U, N, D>,
        out: impl IntoViewMut<'o, U::Wide, M, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
        U: WideningMul<T, Wide: 'o> + 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        let other = other.into_view();
        labelled("matmul_wide_into", labels::<RANK, N, M>(), self, other, Existing(out))
    }
}

impl<T: Number, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The matrix product of `self` and `other`, accumulated in the element's compute type: f32 for 16-bit
    /// floats. Integers wrap; [`matmul_wide`](Tensor::matmul_wide) gives wider ones.
    ///
    /// # Shapes
    /// | ranks | sizes |
    /// |---|---|
    /// | 1 · 1 → 0 | `[k] · [k] → []` |
    /// | 2 · 1 → 1 | `[m, k] · [k] → [m]` |
    /// | 1 · 2 → 1 | `[k] · [k, n] → [n]` |
    /// | 2 · 2 → 2 | `[m, k] · [k, n] → [m, n]` |
    /// | 3 · 2 → 3, … 8 · 2 → 8 | `[.., m, k] · [k, n] → [.., m, n]`: one product of all leading axes |
    /// | 3 · 3 → 3, 4 · 4 → 4 | `[.., m, k] · [.., k, n] → [.., m, n]`, batch sizes of 1 stretch |
    ///
    /// Other ranks do not compile. `k = 0` gives zeros.
    ///
    /// # Cost
    /// One allocation of the result. Operands, transposed or not, are read in place and packed in blocks. The
    /// order of every sum depends only on the sizes: results do not depend on the number of threads, but may
    /// differ in the last bits between instruction sets. If the processor multiplies bf16 natively
    /// (`avx512bf16`, `amx-bf16`), it may treat subnormal factors and sums as 0. On a GPU the order also depends
    /// on strides and on the GPU.
    ///
    /// # Errors
    /// [`Error::Inner`] when the inner sizes differ, [`Error::Sizes`] when the batches do not broadcast,
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let x = Tensor::from([1.0, -1.0]);
    /// assert_eq!(a.matmul(&x)?.to_vec()?, [-1.0, -1.0]);
    /// assert_eq!(a.matmul(a.transposed())?.to_vec()?, [5.0, 11.0, 11.0, 25.0]);
    /// let error = a.matmul(Tensor::<f64, 2>::zeros([3, 1], &Cpu)?.view()).unwrap_err();
    /// assert_eq!(error.to_string(), "matmul: inner sizes 2 and 3 differ: [2, 2] · [3, 1]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "dot")]
    pub fn matmul<'b, const N: usize, const M: usize>(
        &self,
        other: impl IntoView<'b, T, N, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        D: 'b,
        T: 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul", self.view(), other.into_view())
    }
    /// The matrix product in a wider element: i8 and u8 give i32 or u32, integers of 16 bits 32 bits, of 32
    /// bits 64 bits; f16 and bf16 give f32, f32 gives f64. The factors are widened before they are
    /// multiplied; only a sum that exceeds the wider element wraps.
    ///
    /// Shapes, cost and errors are those of [`matmul`](Tensor::matmul); 8-bit integers use the processor's
    /// four-way dot products if it has them.
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (a, b) = (Tensor::full([2, 1000], 100_i8, &Cpu)?, Tensor::full([1000, 3], -100_i8, &Cpu)?);
    /// assert_eq!(a.matmul_wide(&b)?[[1, 2]], -10_000_000_i32);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matmul_wide<'b, U, const N: usize, const M: usize>(
        &self,
        other: impl IntoView<'b, U, N, D>,
    ) -> Result<Tensor<U::Wide, M, D>>
    where
        D: 'b,
        U: WideningMul<T> + 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        product("matmul_wide", self.view(), other.into_view())
    }

    /// The matrix product, written to an existing tensor or view; its previous elements are not read.
    ///
    /// # Shapes
    /// Those of [`matmul`](Tensor::matmul); `out`, a tensor or an exclusive view, has the sizes of the result
    /// and any layout.
    ///
    /// # Cost
    /// As `matmul`, without the allocation of a result. Panels of operands are scratch blocks that the device
    /// reuses.
    ///
    /// # Errors
    /// [`Error::Output`] when `out` has other sizes than the result, [`Error::Shared`] when it has other
    /// handles, and those of `matmul`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let mut y = Tensor::from([[f64::NAN; 3]; 2]);
    /// a.matmul_into(&a, y.view_mut()?.slice((.., 1..))?)?; // two columns of three
    /// assert_eq!(y.slice((.., 1..))?.to_vec()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matmul_into<'b, 'o, const N: usize, const M: usize>(
        &self,
        other: impl IntoView<'b, T, N, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
        T: 'b + 'o,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        self.view().matmul_into(other, out)
    }

    /// The matrix product in a wider element, written to an existing tensor or view; see
    /// [`matmul_wide`](Tensor::matmul_wide) and [`matmul_into`](Tensor::matmul_into).
    ///
    /// # Errors
    /// As [`matmul_into`](Tensor::matmul_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (a, x) = (Tensor::from([[100_i8, 100]]), Tensor::from([100_i8, 100]));
    /// let mut y = Tensor::from([0_i32]);
    /// a.matmul_wide_into(&x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [20_000]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matmul_wide_into<'b, 'o, U, const N: usize, const M: usize>(
        &self,
        other: impl IntoView<'b, U, N, D>,
        out: impl IntoViewMut<'o, U::Wide, M, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
        U: WideningMul<T, Wide: 'o> + 'b,
        Dim<RANK>: Matmul<Dim<N>, Output = Dim<M>>,
    {
        self.view().matmul_wide_into(other, out)
    }
}

fn product<T: Number, L: Number, R: Number, const RANK: usize, const N: usize, const M: usize, D: Device>(
    op: &'static str,
    left: TensorView<'_, L, RANK, D>,
    right: TensorView<'_, R, N, D>,
) -> Result<Tensor<T, M, D>> {
    if RANK == 2 && N == 2 && M == 2 {
        return matrix_product(op, left, right);
    }
    labelled(op, labels::<RANK, N, M>(), left, right, Allocate)
}

/// The labels of a matrix product: the last two axes of a stack of matrices are rows and columns. A vector
/// has no row label on the left and no column label on the right.
fn labels<const RANK: usize, const N: usize, const M: usize>() -> [&'static [u8]; 3] {
    let left: &[u8] = if RANK == 1 { b"k" } else { b"abcdefik" };
    let right: &[u8] = if N == 1 { b"k" } else { b"abcdefkj" };
    let out: &[u8] = match (RANK, N) {
        (1, 1) => b"",
        (_, 1) => b"i",
        (1, _) => b"j",
        _ => b"abcdefij",
    };
    let last = |labels: &'static [u8], rank: usize| &labels[labels.len() - rank..];
    [last(left, RANK), last(right, N), last(out, M)]
}

/// The product of two matrices, without labels.
fn matrix_product<
    T: Number,
    L: Number,
    R: Number,
    const RANK: usize,
    const N: usize,
    const M: usize,
    D: Device,
>(
    op: &'static str,
    left: TensorView<'_, L, RANK, D>,
    right: TensorView<'_, R, N, D>,
) -> Result<Tensor<T, M, D>> {
    same_device(op, left.device(), right.device())?;
    left.ensure_allocated(op)?;
    right.ensure_allocated(op)?;
    let (sizes, others) = (left.size().0, right.size().0);
    if sizes[1] != others[0] {
        return Err(Error::Inner {
            op,
            inner: [sizes[1], others[0]],
            left: sizes.into(),
            right: others.into(),
        });
    }
    let size = Dim(std::array::from_fn(|axis| [sizes[0], others[1]][axis]));
    let mut out =
        Tensor::<T, M, D>::uninit(op, Layout::row_major_of(op, size, size_of::<T>())?, left.device())?;
    let (leaf, left_leaf, right_leaf) = (out.fresh_leaf(), left.leaf(), right.leaf());
    let (stride, left_stride, right_stride) = (leaf.layout().stride().0, left.stride().0, right.stride().0);
    let plan = ContractPlan { batch: &[], m: &sizes[..1], k: &sizes[1..2], n: &others[1..2] };
    // SAFETY: two allocated views and fresh memory, which overlaps neither, with their own strides.
    unsafe {
        left.device().contract::<T, L, R>(
            plan,
            leaf.slot(&stride),
            left_leaf.slot(&left_stride),
            right_leaf.slot(&right_stride),
        )?;
    }
    Ok(out)
}

// ------------------------------------------------------------ labels

/// One label: its size, and its strides in the output, the left and the right operand, 0 in those without it.
#[derive(Clone, Copy, Default)]
struct Label {
    size: usize,
    step: [isize; 3],
}

/// The labels of one group.
#[derive(Clone, Copy)]
struct LabelGroup {
    labels: [Label; MAX_GROUP],
    count: usize,
}

impl LabelGroup {
    const EMPTY: LabelGroup = LabelGroup { labels: [Label { size: 1, step: [0; 3] }; MAX_GROUP], count: 0 };

    fn push(&mut self, op: &'static str, label: Label) -> Result<()> {
        let Some(free) = self.labels.get_mut(self.count) else {
            return Err(Error::Value {
                op,
                what: text(format_args!("more than {MAX_GROUP} axes are summed over")),
            });
        };
        (*free, self.count) = (label, self.count + 1);
        Ok(())
    }

    fn sizes(&self) -> [usize; MAX_GROUP] {
        self.labels.map(|label| label.size)
    }
}

/// The size of a label in an operand, and its stride: several axes of one label are their diagonal.
fn find<T, const RANK: usize, D: Device>(
    op: &'static str,
    x: &TensorView<'_, T, RANK, D>,
    labels: &[u8],
    label: u8,
) -> Result<Option<(usize, isize)>> {
    let mut found: Option<(usize, isize)> = None;
    for axis in (0..RANK).filter(|&axis| labels[axis] == label) {
        let (size, stride) = (x.size().0[axis], x.stride().0[axis]);
        found = match found {
            None => Some((size, stride)),
            Some((other, step)) if other == size => Some((size, step.wrapping_add(stride))),
            Some((other, _)) => {
                let what = format_args!(
                    "axes `{}` of sizes {} have {other} and {size} indices",
                    char::from(label),
                    x.size()
                );
                return Err(Error::Value { op, what: text(what) });
            }
        };
    }
    Ok(found)
}

/// An axis of the result in each operand: its size and stride there.
type Found = [Option<(usize, isize)>; 2];

/// The plan of a product of two labelled operands: the sizes of the result, its axes in the operands, and the
/// summed labels.
struct Joined<const M: usize> {
    size: [usize; M],
    found: [Found; M],
    k: LabelGroup,
}

/// The product of two operands with labelled axes: `labels` are those of the left operand, the right one and
/// the result.
///
/// A label of the result occurs in an operand, and once in the result. If both operands have it, a size of 1
/// stretches.
pub(in crate::ops) fn labelled<
    T: Number,
    L: Number,
    R: Number,
    const A: usize,
    const B: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    labels: [&[u8]; 3],
    left: TensorView<'_, L, A, D>,
    right: TensorView<'_, R, B, D>,
    destination: P,
) -> Result<P::Done> {
    let joined = join::<L, R, A, B, M, D>(op, labels, &left, &right)?;
    let layout = Layout::row_major_of(op, Dim(joined.size), size_of::<T>())?;
    destination.put(op, layout, left.device(), |out| write(op, &joined, out, left, right))
}

fn join<L: Number, R: Number, const A: usize, const B: usize, const M: usize, D: Device>(
    op: &'static str,
    [left_labels, right_labels, out_labels]: [&[u8]; 3],
    left: &TensorView<'_, L, A, D>,
    right: &TensorView<'_, R, B, D>,
) -> Result<Joined<M>> {
    same_device(op, left.device(), right.device())?;
    left.ensure_allocated(op)?;
    right.ensure_allocated(op)?;
    // Only `einsum!` has letters of the caller; those of other products are internal.
    let of_letter = |label: u8, [size, other]: [usize; 2]| {
        let (letter, left, right) = (char::from(label), left.size(), right.size());
        op.starts_with("einsum").then(|| Error::Value {
            op,
            what: text(format_args!(
                "letter `{letter}` stands for {size} indices in sizes {left} and for {other} in {right}"
            )),
        })
    };
    let sizes = || Error::Sizes { op, left: left.size().0.into(), right: right.size().0.into() };
    let mut k = LabelGroup::EMPTY;
    // Summed labels first: an error of inner sizes takes precedence over one of outer sizes.
    for (at, &label) in left_labels.iter().chain(right_labels).enumerate() {
        let before = left_labels.iter().chain(right_labels).take(at);
        if out_labels.contains(&label) || before.into_iter().any(|&other| other == label) {
            continue;
        }
        let found = (find(op, left, left_labels, label)?, find(op, right, right_labels, label)?);
        let inner = match found {
            (Some((size, a)), Some((other, b))) if size == other => Label { size, step: [0, a, b] },
            (Some((size, _)), Some((other, _))) => {
                let inner = || Error::Inner {
                    op,
                    inner: [size, other],
                    left: left.size().0.into(),
                    right: right.size().0.into(),
                };
                return Err(of_letter(label, [size, other]).unwrap_or_else(inner));
            }
            (Some((size, a)), None) => Label { size, step: [0, a, 0] },
            (None, Some((size, b))) => Label { size, step: [0, 0, b] },
            (None, None) => continue,
        };
        k.push(op, inner)?;
    }
    Dim(k.sizes()).numel_of(op, 1)?;
    let mut size = [1; M];
    let mut found = [[None, None]; M];
    for axis in 0..M {
        found[axis] = [
            find(op, left, left_labels, out_labels[axis])?,
            find(op, right, right_labels, out_labels[axis])?,
        ];
        size[axis] = match found[axis] {
            [Some((a, _)), Some((b, _))] if a == b || b == 1 => a,
            [Some((1, _)), Some((b, _))] => b,
            [Some((a, _)), Some((b, _))] => {
                return Err(of_letter(out_labels[axis], [a, b]).unwrap_or_else(sizes));
            }
            [Some((size, _)), None] | [None, Some((size, _))] => size,
            [None, None] => 1,
        };
    }
    Ok(Joined { size, found, k })
}

/// Computes the joined product into `out`, which has its sizes.
fn write<T: Number, L: Number, R: Number, const A: usize, const B: usize, const M: usize, D: Device>(
    op: &'static str,
    Joined { size, found, k }: &Joined<M>,
    out: &mut TensorViewMut<'_, T, M, D>,
    left: TensorView<'_, L, A, D>,
    right: TensorView<'_, R, B, D>,
) -> Result<()> {
    let [mut batch, mut m, mut n] = [LabelGroup::EMPTY; 3];
    let stride = out.stride().0;
    for axis in 0..M {
        // A size of 1 stretches by a stride of 0.
        let step = |(own, step): (usize, isize)| if own == size[axis] { step } else { 0 };
        let label = |a, b| Label { size: size[axis], step: [stride[axis], a, b] };
        match found[axis] {
            [Some(a), Some(b)] => batch.push(op, label(step(a), step(b)))?,
            [Some(a), None] => m.push(op, label(step(a), 0))?,
            [None, Some(b)] => n.push(op, label(0, step(b)))?,
            [None, None] => {}
        }
    }
    // SAFETY: (1) two allocated views and an output of the sizes of their product, with the strides of their
    // own axes or 0; (2) an exclusive view overlaps neither itself nor an operand.
    unsafe { run(out, left, right, [&batch, &m, k, &n]) }
}

/// # Safety
/// 1. The labels' strides stay inside the operands.
/// 2. They reach every element of the output once, and it overlaps no operand.
unsafe fn run<T: Number, L: Number, R: Number, const A: usize, const B: usize, const M: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, M, D>,
    left: TensorView<'_, L, A, D>,
    right: TensorView<'_, R, B, D>,
    [batch, m, k, n]: [&LabelGroup; 4],
) -> Result<()> {
    // The strides of one operand, group after group.
    let steps = |operand: usize, groups: [&LabelGroup; 3]| {
        let (mut steps, mut count) = ([0; 3 * MAX_GROUP], 0);
        for label in groups.into_iter().flat_map(|group| &group.labels[..group.count]) {
            (steps[count], count) = (label.step[operand], count + 1);
        }
        steps
    };
    let (out_steps, left_steps, right_steps) =
        (steps(0, [batch, m, n]), steps(1, [batch, m, k]), steps(2, [batch, k, n]));
    let sizes = [batch, m, k, n].map(LabelGroup::sizes);
    let plan = ContractPlan {
        batch: &sizes[0][..batch.count],
        m: &sizes[1][..m.count],
        k: &sizes[2][..k.count],
        n: &sizes[3][..n.count],
    };
    let out_ref = out.leaf().slot(&out_steps);
    let left_ref = left.leaf().slot(&left_steps);
    let right_ref = right.leaf().slot(&right_steps);
    // SAFETY: (1) and (2), which the caller guarantees.
    unsafe { left.device().contract::<T, L, R>(plan, out_ref, left_ref, right_ref) }
}
