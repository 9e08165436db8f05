//! Differential tests: compares the results of a device with those of the CPU, on random tensors in every
//! kind of layout.
//!
//! For authors of devices, and of operators that run on one.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::{Cpu, Device};
use crate::dim::{All, Axis};
use crate::element::float8::Float8;
use crate::element::{Compute, Element};
use crate::error::{Error, Result, text};
use crate::expr::{Elementwise, Reduce, Scan, Zip};
use crate::kernel::{Op, Reducer};
use crate::rank::SliceStep;
use crate::scalar::{DType, Eval, Lane, Prim};
use crate::tensor::Tensor;
use num_complex::Complex;

/// Runs operators on a device and on the CPU, and compares.
///
/// Every method takes a number of *units*: the largest difference of two results, in units in the last place.
/// Integers and booleans must be equal. A difference is [`Error::Value`] with the operator, the layout, and
/// both values.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::testing::Differential;
/// elementwise! {
///     /// x² + y
///     fn squared_plus(x, y) { x * x + y }
/// }
/// let mut differences = Differential::new(&Cpu, 1); // your device in place of `Cpu`
/// differences.binary::<_, f32>(squared_plus, 0)?;
/// differences.reduce::<_, f32>(rankform::ops::Sum, 8)?;
/// assert!(differences.cases() > 30);
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Debug)]
pub struct Differential<D> {
    device: D,
    state: u64,
    cases: usize,
    large: bool,
}

/// An operator on a device: of one operand, of two operands, of an operand and a number.
type UnaryFn<'a, T, U, D> = &'a dyn Fn(&Tensor<T, 3, D>) -> Result<Tensor<U, 3, D>>;
type BinaryFn<'a, T, U, D> = &'a dyn Fn(&Tensor<T, 3, D>, &Tensor<T, 3, D>) -> Result<Tensor<U, 3, D>>;
type WithNumberFn<'a, T, U, D> = &'a dyn Fn(&Tensor<T, 3, D>, T) -> Result<Tensor<U, 3, D>>;

/// The kinds of layout that are tested.
const LAYOUT_KINDS: [&str; 7] =
    ["contiguous", "permuted", "transposed", "reversed", "every other", "cut", "stretched"];

impl<D: Device> Differential<D> {
    /// A test of this device against the CPU; the same seed gives the same tensors.
    pub fn new(device: &D, seed: u64) -> Self {
        Differential {
            device: device.clone(),
            state: seed.wrapping_mul(2).wrapping_add(1),
            cases: 0,
            large: false,
        }
    }

    /// Uses tensors of at least 16,384 elements from now on. Devices may run other code for these than for
    /// small ones.
    pub fn large(mut self) -> Self {
        self.large = true;
        self
    }

    /// The number of pairs of results that have been compared.
    pub fn cases(&self) -> usize {
        self.cases
    }

    /// Compares an operator of one operand with its body, which runs for one element after another.
    ///
    /// # Errors
    /// [`Error::Value`] when results differ; the errors of the device.
    pub fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F, units: u32) -> Result<()> {
        let value: fn(T) -> F::Out = |x| F::Out::narrow(F::call::<Eval>((Lane(x.widen()),)).value());
        self.unary_of(F::NAME, value, &|x| x.map(operator), units)
    }

    /// [`unary`](Self::unary) for all operators of one type: this function is compiled once for many
    /// operators.
    fn unary_of<T: Element, U: Element>(
        &mut self,
        name: &'static str,
        value: fn(T) -> U,
        run: UnaryFn<T, U, D>,
        units: u32,
    ) -> Result<()> {
        for kind in self.some_kinds() {
            let (x, y) = self.pair::<T>(kind)?;
            let expected = Tensor::from_vec(x.to_vec()?.into_iter().map(value).collect(), x.size())?;
            self.compare(name, LAYOUT_KINDS[kind], &expected, &run(&y)?, units)?;
        }
        Ok(())
    }

    /// Compares an operator of two operands with its body: in different layouts, and with a number as one
    /// operand.
    ///
    /// # Errors
    /// As [`unary`](Self::unary).
    pub fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F, units: u32) -> Result<()> {
        let value: fn(T, T) -> F::Out =
            |x, v| F::Out::narrow(F::call::<Eval>((Lane(x.widen()), Lane(v.widen()))).value());
        self.binary_of(
            F::NAME,
            value,
            &|x, v| x.zip(operator, v),
            &|x, number| x.zip(operator, number),
            units,
        )
    }

    /// [`binary`](Self::binary) for all operators of one type.
    fn binary_of<T: Element, U: Element>(
        &mut self,
        name: &'static str,
        value: fn(T, T) -> U,
        run: BinaryFn<T, U, D>,
        beside: WithNumberFn<T, U, D>,
        units: u32,
    ) -> Result<()> {
        for kind in self.some_kinds() {
            let size = self.size();
            let (x, y) = self.pair_of::<T>(kind, size)?;
            let other = self.below(LAYOUT_KINDS.len());
            let (v, w) = self.pair_of::<T>(other, size)?;
            let (x, v, number) = (x.to_vec()?, v.to_vec()?, self.element::<T>());
            let expected = Tensor::from_vec(x.iter().zip(v).map(|(&x, v)| value(x, v)).collect(), size)?;
            self.compare(name, LAYOUT_KINDS[kind], &expected, &run(&y, &w)?, units)?;
            let expected = Tensor::from_vec(x.iter().map(|&x| value(x, number)).collect(), size)?;
            self.compare(name, LAYOUT_KINDS[kind], &expected, &beside(&y, number)?, units)?;
        }
        Ok(())
    }

    /// Compares a reduction over each axis, over two axes, and over all.
    ///
    /// # Errors
    /// As [`unary`](Self::unary).
    pub fn reduce<R: Reducer<T>, T: Element>(&mut self, reducer: R, units: u32) -> Result<()> {
        for kind in 0..LAYOUT_KINDS.len() {
            let (x, y) = self.pair::<T>(kind)?;
            macro_rules! over {
                ($($axes:expr),*) => { $(
                    let (expected, found) = (x.reduce(reducer, $axes), y.reduce(reducer, $axes));
                    self.agree(R::NAME, LAYOUT_KINDS[kind], expected, found, units)?;
                )* };
            }
            over!(Axis::<0>, Axis::<1>, Axis::<2>, (Axis::<0>, Axis::<2>), All);
        }
        Ok(())
    }

    /// Compares the running states of a reduction along each axis.
    ///
    /// # Errors
    /// As [`unary`](Self::unary).
    pub fn scan<R: Reducer<T>, T: Element>(&mut self, reducer: R, units: u32) -> Result<()> {
        for kind in 0..LAYOUT_KINDS.len() {
            let (x, y) = self.pair::<T>(kind)?;
            macro_rules! along {
                ($($axis:expr),*) => { $(
                    let (expected, found) = (x.scan(reducer, $axis), y.scan(reducer, $axis));
                    self.agree(R::NAME, LAYOUT_KINDS[kind], expected, found, units)?;
                    let (expected, found) = (
                        x.scan_exclusive(reducer, $axis), y.scan_exclusive(reducer, $axis)
                    );
                    self.agree(R::NAME, LAYOUT_KINDS[kind], expected, found, units)?;
                )* };
            }
            along!(Axis::<0>, Axis::<2>);
        }
        Ok(())
    }

    /// Compares two tensors of one computation: `expected` on the CPU, `found` on the device.
    ///
    /// # Errors
    /// [`Error::Value`] when they differ by more than `units` in the last place.
    pub fn compare<T: Element, const RANK: usize>(
        &mut self,
        op: &'static str,
        layout: &str,
        expected: &Tensor<T, RANK>,
        found: &Tensor<T, RANK, D>,
        units: u32,
    ) -> Result<()> {
        self.cases += 1;
        let differ = |what| Err(Error::Value { op, what });
        if expected.size() != found.size() {
            return differ(text(format_args!(
                "sizes {:?} on the CPU and {:?} on {:?}",
                expected.size(),
                found.size(),
                self.device
            )));
        }
        let pairs = expected.to_vec()?.into_iter().zip(found.to_vec()?).enumerate();
        match pairs.into_iter().find(|&(_, (a, b))| !is_close(a, b, units)) {
            None => Ok(()),
            Some((at, (a, b))) => {
                let size = expected.size();
                differ(text(format_args!(
                    "element {at} of {size:?} ({}, {layout}) is {a:?} on the CPU and {b:?} on {:?}",
                    T::DTYPE,
                    self.device
                )))
            }
        }
    }

    /// Compares both results of one computation; equal errors are no difference.
    fn agree<T: Element, const RANK: usize>(
        &mut self,
        op: &'static str,
        layout: &str,
        expected: Result<Tensor<T, RANK>>,
        found: Result<Tensor<T, RANK, D>>,
        units: u32,
    ) -> Result<()> {
        match (expected, found) {
            (Err(expected), Err(found)) if expected == found => {
                self.cases += 1;
                Ok(())
            }
            (expected, found) => self.compare(op, layout, &expected?, &found?, units),
        }
    }

    fn pair<T: Element>(&mut self, kind: usize) -> Result<(Tensor<T, 3>, Tensor<T, 3, D>)> {
        let size = self.size();
        self.pair_of(kind, size)
    }

    /// A random tensor of these sizes, in the given kind of layout, on the CPU and on the device.
    fn pair_of<T: Element>(
        &mut self,
        kind: usize,
        size: [usize; 3],
    ) -> Result<(Tensor<T, 3>, Tensor<T, 3, D>)> {
        let [a, b, c] = size;
        let whole = match kind {
            1 => [c, a, b],
            2 => [c, b, a],
            4 => [2 * a, b, 2 * c],
            5 => [a + 1, b + 2, c + 1],
            6 => [a, 1, c],
            _ => size,
        };
        let x = Tensor::from_fn(whole, |_| self.element::<T>(), &Cpu)?;
        let y = x.to(&self.device)?;
        Ok((arranged(x, kind, size)?, arranged(y, kind, size)?))
    }

    /// The contiguous kind of layout and two others. A table of many operators covers all kinds.
    fn some_kinds(&mut self) -> [usize; 3] {
        [0, 1 + self.below(LAYOUT_KINDS.len() - 1), 1 + self.below(LAYOUT_KINDS.len() - 1)]
    }

    /// Random sizes; a few are 0 or 1, and a few are large enough for several blocks.
    fn size(&mut self) -> [usize; 3] {
        if self.large {
            // Half of the rows have a length with many neighbors as divisors.
            let ragged = self.below(2) * self.below(9);
            return [8 + self.below(9), 8 + self.below(9), 16 * (16 + self.below(16)) + ragged];
        }
        let mut size = std::array::from_fn(|_| self.below(9));
        match self.below(8) {
            0 => size[2] = 300 + self.below(1000),
            1 => size[0] = 300 + self.below(1000),
            _ => {}
        }
        size
    }

    /// An integer of at most 16 bits, a fraction, or any bits that are a valid element.
    fn element<T: Element>(&mut self) -> T {
        let (kind, bits) = (self.below(4), self.next());
        let small = |value: f64| T::narrow(<Compute<T> as Prim>::from_f64(value));
        match kind {
            0 => small((bits % 9) as f64 - 4.0),
            1 => small(bits as i16 as f64 / 1024.0),
            2 => small((bits >> 11) as f64 / (1u64 << 53) as f64),
            _ => {
                let mut bytes = [0u8; 16];
                bytes[..8].copy_from_slice(&bits.to_ne_bytes());
                bytes[8..].copy_from_slice(&self.next().to_ne_bytes());
                bytemuck::checked::try_pod_read_unaligned(&bytes[..size_of::<T>()])
                    .unwrap_or_else(|_| small(1.0))
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 32) as usize % n
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

fn arranged<T: Element, D: Device>(
    x: Tensor<T, 3, D>,
    kind: usize,
    [a, b, c]: [usize; 3],
) -> Result<Tensor<T, 3, D>> {
    match kind {
        1 => x.into_permuted([1, 2, 0]),
        2 => x.into_transposed(),
        3 => x.into_reversed(Axis::<0>)?.into_reversed(Axis::<2>),
        4 => x.into_slice(((..).step(2), .., (..).step(2))),
        5 => x.into_slice((1..a + 1, 1..b + 1, 1..c + 1)),
        6 => x.into_broadcast([a, b, c]),
        _ => Ok(x),
    }
}

fn is_close<T: Element>(a: T, b: T, units: u32) -> bool {
    if a == b {
        return true;
    }
    let float8 = Float8::of(T::DTYPE).map(|float8| 2f64.powi(-float8.fraction_bits));
    let unit = match T::DTYPE {
        DType::F16 | DType::C16 => f64::from(crate::element::f16::EPSILON),
        DType::BF16 => f64::from(crate::element::bf16::EPSILON),
        DType::F32 | DType::C32 => f64::from(f32::EPSILON),
        DType::F64 | DType::C64 => f64::EPSILON,
        _ => match float8 {
            Some(unit) => unit,
            None => return false,
        },
    };
    let parts = |x: T| {
        let x: Complex<f64> = x.widen().cast();
        [x.re, x.im]
    };
    parts(a).into_iter().zip(parts(b)).all(|(a, b)| {
        a == b
            || a.is_nan() && b.is_nan()
            || a.is_finite()
                && b.is_finite()
                && (a - b).abs() <= f64::from(units) * unit * a.abs().max(b.abs())
    })
}
