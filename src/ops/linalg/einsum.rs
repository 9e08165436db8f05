//! `einsum!`: products, sums, transpositions and diagonals, by labels; and tensordot.
//!
//! A `const fn` parses the literal: wrong labels, and operands of another rank, do not compile.
// Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::ops::linalg::matmul::labelled;
use crate::ops::methods::methods_with_into;
use crate::rank::Tensordot;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// A product of one or two tensors by labels, as in NumPy: `einsum!("bij,bjk->bik", &a, &b)?`.
///
/// Each operand has one letter per axis; after `->` come the letters of the result in any order. A letter
/// that is absent from the result is summed over; a letter that occurs twice in one operand takes its
/// diagonal. Spaces are ignored.
///
/// # Shapes
/// Axes with the same letter have the same size; if both operands and the result have the letter, a size of 1
/// stretches. Letters and ranks are checked at compile time: a missing letter or an operand of another rank
/// does not compile.
///
/// # Cost
/// One allocation of the result. Operands are read in place, for any order of their axes; the sum uses the
/// kernels of [`matmul`](crate::Tensor::matmul). Three operands take two calls.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value), which names the letter, when its sizes differ;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let x = Tensor::from([1.0, -1.0]);
/// assert_eq!(einsum!("ij,j->i", &a, &x)?, a.matmul(&x)?);
/// assert_eq!(einsum!("ij,kj->ik", &a, a.view())?, a.matmul(a.transposed())?);
/// assert_eq!(einsum!("i,j->ji", &x, &x)?.to_vec()?, [1.0, -1.0, -1.0, 1.0]); // outer product
/// assert_eq!(einsum!("ij,ij->", &a, &a)?.item()?, 30.0);                     // sum of squares
/// assert_eq!(einsum!("ii->", &a)?.item()?, 5.0);                             // trace
/// assert_eq!(einsum!("ij->j", &a)?.to_vec()?, [4.0, 6.0]);                   // sum
/// # Ok::<(), rankform::Error>(())
/// ```
#[macro_export]
macro_rules! einsum {
    ($labels:literal, $x:expr $(,)?) => {{
        const RANKS: [usize; 3] = $crate::ops::einsum::ranks($labels, 1);
        $crate::ops::einsum::one::<{ RANKS[0] }, { RANKS[2] }, _, _>($labels, $x)
    }};
    ($labels:literal, $x:expr, $y:expr $(,)?) => {{
        const RANKS: [usize; 3] = $crate::ops::einsum::ranks($labels, 2);
        $crate::ops::einsum::two::<{ RANKS[0] }, { RANKS[1] }, { RANKS[2] }, _, _>($labels, $x, $y)
    }};
    ($($other:tt)*) => {
        compile_error!(
            "`einsum!` takes its letters as a literal and one or two operands: `einsum!(\"ij,jk->ik\", &a, \
             &b)`; three operands are two calls"
        )
    };
}

/// As [`einsum!`](crate::einsum), into an existing tensor or exclusive view:
/// `einsum_into!("bij,bjk->bik", &a, &b, &mut c)?`. No allocation of a result.
///
/// # Errors
/// As there; [`Error::Output`](crate::Error::Output) when the output has other sizes,
/// [`Error::Shared`](crate::Error::Shared) when it has other handles.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let mut traces = Tensor::<f64, 1>::zeros([2], &Cpu)?;
/// einsum_into!("ii->", &a, traces.view_mut()?.slice((0,))?)?;
/// einsum_into!("ij,ij->", &a, &a, traces.view_mut()?.slice((1,))?)?;
/// assert_eq!(traces.to_vec()?, [5.0, 30.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[macro_export]
macro_rules! einsum_into {
    ($labels:literal, $x:expr, $out:expr $(,)?) => {{
        const RANKS: [usize; 3] = $crate::ops::einsum::ranks($labels, 1);
        $crate::ops::einsum::one_into::<{ RANKS[0] }, { RANKS[2] }, _, _>($labels, $x, $out)
    }};
    ($labels:literal, $x:expr, $y:expr, $out:expr $(,)?) => {{
        const RANKS: [usize; 3] = $crate::ops::einsum::ranks($labels, 2);
        $crate::ops::einsum::two_into::<{ RANKS[0] }, { RANKS[1] }, { RANKS[2] }, _, _>($labels, $x, $y, $out)
    }};
    ($($other:tt)*) => {
        compile_error!(
            "`einsum_into!` takes its letters as a literal, one or two operands, and what is written: \
             `einsum_into!(\"ij,jk->ik\", &a, &b, &mut c)`"
        )
    };
}

/// The parsed labels of a literal: those of two operands and of the result.
struct Labels {
    letters: [[u8; MAX_LETTERS]; 3],
    count: [usize; 3],
}

/// The most letters of one operand.
const MAX_LETTERS: usize = 8;
/// The index of the result among the parts.
const RESULT: usize = 2;

/// An error of the labels: the letter, or 0, and the message.
struct LabelError(u8, &'static str);

impl LabelError {
    /// The capacity of a message with its letter, in bytes.
    const CAPACITY_BYTES: usize = 120;

    /// The message and its length in bytes.
    const fn text(&self) -> ([u8; Self::CAPACITY_BYTES], usize) {
        let (mut text, mut len, letter) = ([0; Self::CAPACITY_BYTES], 0, [self.0]);
        let parts: [&[u8]; 4] = [b"the letter `", &letter, b"` ", self.1.as_bytes()];
        let mut part = if self.0 == 0 { 3 } else { 0 };
        while part < parts.len() {
            let mut at = 0;
            while at < parts[part].len() {
                text[len] = parts[part][at];
                (at, len) = (at + 1, len + 1);
            }
            part += 1;
        }
        (text, len)
    }
}

/// Parses the labels of this number of operands.
const fn parse(labels: &str, operands: usize) -> Result<Labels, LabelError> {
    let text = labels.as_bytes();
    let mut read = Labels { letters: [[0; MAX_LETTERS]; 3], count: [0; 3] };
    let (mut part, mut at) = (0, 0);
    while at < text.len() {
        let letter = text[at];
        match letter {
            b' ' => {}
            b',' => {
                if part + 1 >= operands {
                    return Err(LabelError(0, "more operands in the letters than tensors beside them"));
                }
                part += 1;
            }
            b'-' => {
                if at + 1 == text.len() || text[at + 1] != b'>' {
                    return Err(LabelError(0, "`-` stands only in `->`"));
                }
                if part + 1 != operands {
                    return Err(LabelError(
                        0,
                        "fewer operands in the letters than tensors beside them, or two arrows",
                    ));
                }
                part = RESULT;
                at += 1;
            }
            _ => {
                if !letter.is_ascii_alphabetic() {
                    return Err(LabelError(0, "labels are letters, one an axis, as in `ij,jk->ik`"));
                }
                if read.count[part] == MAX_LETTERS {
                    return Err(LabelError(0, "an operand has at most 8 axes"));
                }
                if part == RESULT && has(&read, RESULT, letter) {
                    return Err(LabelError(letter, "stands twice in the result"));
                }
                if part == RESULT && !has(&read, 0, letter) && !has(&read, 1, letter) {
                    return Err(LabelError(letter, "of the result is in no operand"));
                }
                read.letters[part][read.count[part]] = letter;
                read.count[part] += 1;
            }
        }
        at += 1;
    }
    if part == RESULT {
        Ok(read)
    } else {
        Err(LabelError(0, "the result is missing: write `->` and its letters, or none for a single number"))
    }
}

const fn has(labels: &Labels, part: usize, letter: u8) -> bool {
    let mut at = 0;
    while at < labels.count[part] {
        if labels.letters[part][at] == letter {
            return true;
        }
        at += 1;
    }
    false
}

/// The numbers of letters of the operands and of the result, for [`einsum!`](crate::einsum).
///
/// # Panics
/// If the labels are wrong. The macro calls it in a constant, which makes this a compile error.
#[doc(hidden)]
pub const fn ranks(labels: &str, operands: usize) -> [usize; 3] {
    match parse(labels, operands) {
        Ok(labels) => labels.count,
        Err(wrong) => {
            let (text, len) = wrong.text();
            let (text, _) = text.split_at(len);
            let what = if let Ok(text) = std::str::from_utf8(text) { text } else { wrong.1 };
            panic!("{}", what)
        }
    }
}

fn read(labels: &str, operands: usize) -> Result<Labels> {
    parse(labels, operands).map_err(|wrong| {
        let (words, len) = wrong.text();
        Error::Value { op: "einsum", what: text(format_args!("{}", String::from_utf8_lossy(&words[..len]))) }
    })
}

/// [`einsum!`](crate::einsum) of one operand.
///
/// # Errors
/// As there.
#[doc(hidden)]
pub fn one<'a, const A: usize, const M: usize, T: Number, D: Device>(
    labels: &str,
    x: impl IntoView<'a, T, A, D>,
) -> Result<Tensor<T, M, D>> {
    of_one("einsum", labels, x.into_view(), Allocate)
}

/// [`einsum_into!`](crate::einsum_into) of one operand.
///
/// # Errors
/// As there.
#[doc(hidden)]
pub fn one_into<'a, 'o, const A: usize, const M: usize, T: Number + 'o, D: Device + 'o>(
    labels: &str,
    x: impl IntoView<'a, T, A, D>,
    out: impl IntoViewMut<'o, T, M, D>,
) -> Result<()> {
    of_one("einsum_into", labels, x.into_view(), Existing(out))
}

fn of_one<const A: usize, const M: usize, T: Number, D: Device, P: Destination<T, M, D>>(
    op: &'static str,
    labels: &str,
    x: TensorView<'_, T, A, D>,
    destination: P,
) -> Result<P::Done> {
    let labels = read(labels, 1)?;
    let unit = Tensor::<T, 0, D>::ones([], x.device())?;
    labelled(op, [&labels.letters[0][..A], &[], &labels.letters[RESULT][..M]], x, unit.view(), destination)
}

/// [`einsum!`](crate::einsum) of two operands.
///
/// # Errors
/// As there.
#[doc(hidden)]
pub fn two<'a, 'b, const A: usize, const B: usize, const M: usize, T: Number, D: Device>(
    labels: &str,
    x: impl IntoView<'a, T, A, D>,
    y: impl IntoView<'b, T, B, D>,
) -> Result<Tensor<T, M, D>> {
    of_two("einsum", labels, x.into_view(), y.into_view(), Allocate)
}

/// [`einsum_into!`](crate::einsum_into) of two operands.
///
/// # Errors
/// As there.
#[doc(hidden)]
pub fn two_into<
    'a,
    'b,
    'o,
    const A: usize,
    const B: usize,
    const M: usize,
    T: Number + 'o,
    D: Device + 'o,
>(
    labels: &str,
    x: impl IntoView<'a, T, A, D>,
    y: impl IntoView<'b, T, B, D>,
    out: impl IntoViewMut<'o, T, M, D>,
) -> Result<()> {
    of_two("einsum_into", labels, x.into_view(), y.into_view(), Existing(out))
}

fn of_two<const A: usize, const B: usize, const M: usize, T: Number, D: Device, P: Destination<T, M, D>>(
    op: &'static str,
    labels: &str,
    x: TensorView<'_, T, A, D>,
    y: TensorView<'_, T, B, D>,
    destination: P,
) -> Result<P::Done> {
    let labels = read(labels, 2)?;
    labelled(
        op,
        [&labels.letters[0][..A], &labels.letters[1][..B], &labels.letters[RESULT][..M]],
        x,
        y,
        destination,
    )
}

methods_with_into! {
    [[T: Number, const RANK: usize,] T, RANK -> T]
    /// The product summed over pairs of axes, one of each operand. The result has the other axes of `self`,
    /// then those of `other`.
    ///
    /// # Shapes
    /// `K` pairs of ranks A · B give rank A + B − 2 K, for ranks 1 to 4; [`einsum!`](crate::einsum) has no
    /// such limit.
    ///
    /// # Cost
    /// As [`matmul`](Tensor::matmul); no operand is copied or transposed.
    ///
    /// # Errors
    /// [`Error::Inner`] when the sizes of a pair differ, [`Error::Axis`] for an axis that does not exist,
    /// [`Error::Value`] when one is named twice, and those of [`matmul`](Tensor::matmul).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::<f32, 3>::ones([2, 3, 4], &Cpu)?;
    /// let y = Tensor::<f32, 3>::ones([4, 3, 5], &Cpu)?;
    /// let z = x.tensordot(&y, [(1, 1), (2, 0)])?;
    /// assert_eq!((z.size(), z[[1, 4]]), (dim![2, 5], 12.0));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn tensordot,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([[1, 2], [3, 4]]), Tensor::from([[0, 0], [0, 0]]));
    /// x.tensordot_into(&x, [(0, 0)], &mut y)?;
    /// assert_eq!(y, Tensor::from([[10, 14], [14, 20]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    tensordot_into ['b, const N: usize, const K: usize, const M: usize](
        other: impl IntoView<'b, T, N, D>,
        pairs: [(usize, usize); K]
    ) -> M
    where [D: 'b, T: 'b, Dim<RANK>: Tensordot<Dim<N>, K, Output = Dim<M>>]
    = |op, x, place| paired(op, x, other.into_view(), pairs, place);
}

fn paired<
    T: Number,
    const A: usize,
    const B: usize,
    const K: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, A, D>,
    y: TensorView<'_, T, B, D>,
    pairs: [(usize, usize); K],
    destination: P,
) -> Result<P::Done> {
    // Letters from `A` and `a` on for the axes of the result; both axes of a pair have the left operand's
    // letter.
    let left: [u8; A] = std::array::from_fn(|axis| b'A' + axis as u8);
    let mut right: [u8; B] = std::array::from_fn(|axis| b'a' + axis as u8);
    let mut out = [0; M];
    for (at, &(a, b)) in pairs.iter().enumerate() {
        if a >= A {
            return Err(Error::Axis { op, axis: a, sizes: x.size().0.into() });
        }
        if b >= B {
            return Err(Error::Axis { op, axis: b, sizes: y.size().0.into() });
        }
        if pairs[..at].iter().any(|before| before.0 == a || before.1 == b) {
            return Err(Error::Value {
                op,
                what: text(format_args!("an axis stands twice in the pairs {pairs:?}")),
            });
        }
        right[b] = left[a];
    }
    let mut letters = out.iter_mut();
    for &letter in left
        .iter()
        .filter(|letter| !right.contains(letter))
        .chain(right.iter().filter(|letter| !left.contains(letter)))
    {
        if let Some(last) = letters.next() {
            *last = letter;
        }
    }
    labelled(op, [&left, &right, &out], x, y, destination)
}
