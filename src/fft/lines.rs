//! Transforms of the lines of a contiguous operand, as tasks of the CPU.
// Imports: `error`, `element`, `device`, `tensor`.

use crate::device::Cpu;
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::tensor::TensorViewMut;
use num_complex::Complex;
use realfft::{ComplexToReal, FftNum, RealToComplex};
use rustfft::Fft;

/// One task has lines of at least this many elements, if there are enough.
const TASK_ELEMENTS: usize = 1 << 14;

/// The transform of one line.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Request {
    pub(super) op: &'static str,
    pub(super) n: usize,
    pub(super) is_inverse: bool,
    pub(super) factor: f64,
}

/// The results of lines, one in each row.
pub type Rows<'o, R> = TensorViewMut<'o, R, 2, Cpu>;

/// Lines of equal length, one behind the other.
#[doc(hidden)]
pub struct Lines<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) length: usize,
}

impl<'a, T> Lines<'a, T> {
    fn line(&self, number: usize) -> &'a [T] {
        &self.elements[number * self.length..(number + 1) * self.length]
    }
}

/// Zeros in scratch memory.
fn zeros<T: Default + Clone>(op: &'static str, n: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(n)
        .map_err(|_| Error::OutOfMemory { op, nbytes: n.saturating_mul(size_of::<T>()) })?;
    list.resize(n, T::default());
    Ok(list)
}

/// Calls `run` with each line, its result, and scratch memory of two lengths, as tasks.
fn each_line<T: Sync, R: Element, S: Default + Clone, C: Default + Clone>(
    lines: &Lines<'_, T>,
    out: Rows<'_, R>,
    plan: Request,
    (first, second): (usize, usize),
    run: impl Fn(&[T], &mut [R], &mut [S], &mut [C]) + Sync,
) -> Result<()> {
    let [_, width] = out.size().0;
    let in_task = (TASK_ELEMENTS / plan.n).max(1);
    out.for_each_block([in_task, width], &|[numbers, _], block| {
        let (mut first, mut second) = (zeros(plan.op, first)?, zeros(plan.op, second)?);
        let not_contiguous = || Error::Value { op: plan.op, what: text(format_args!("results with gaps")) };
        let results = block.into_slice_mut().ok_or_else(not_contiguous)?.chunks_exact_mut(width);
        for (number, result) in numbers.zip(results) {
            run(lines.line(number), result, &mut first, &mut second);
        }
        Ok(())
    })
}

/// Writes the first elements of a line, and zeros behind them.
fn fill<T: Copy, R: Default>(to: &mut [R], from: &[T], number: impl Fn(T) -> R) {
    for (index, to) in to.iter_mut().enumerate() {
        *to = from.get(index).map_or_else(R::default, |&from| number(from));
    }
}

/// The whole spectrum of each line.
pub(super) fn full<T: Copy + Sync, R: Float + FftNum + Default>(
    lines: &Lines<'_, T>,
    out: Rows<'_, Complex<R>>,
    plan: Request,
    transform: &dyn Fft<R>,
    number: impl Fn(T) -> Complex<R> + Sync,
) -> Result<()>
where
    Complex<R>: Element,
{
    let (factor, scratch) = (R::constant(plan.factor), transform.get_inplace_scratch_len());
    each_line(lines, out, plan, (0, scratch), |line, result, _: &mut [R], scratch| {
        fill(result, line, &number);
        transform.process_with_scratch(result, scratch);
        scale(result, plan.factor, |x| x * factor);
    })
}

/// Multiplies each number, unless the factor is 1.
fn scale<T: Copy>(numbers: &mut [T], factor: f64, multiplied: impl Fn(T) -> T) {
    if factor != 1.0 {
        numbers.iter_mut().for_each(|x| *x = multiplied(*x));
    }
}

/// The first half of the spectrum of each real line.
pub(super) fn half<R: Float + FftNum + Default>(
    lines: &Lines<'_, R>,
    out: Rows<'_, Complex<R>>,
    plan: Request,
    transform: &dyn RealToComplex<R>,
) -> Result<()>
where
    Complex<R>: Element,
{
    let (factor, scratch) = (R::constant(plan.factor), (plan.n, transform.get_scratch_len()));
    each_line(lines, out, plan, scratch, |line, result, numbers: &mut [R], scratch| {
        fill(numbers, line, |x| x);
        // The lengths are right, which is the only error.
        let _ = transform.process_with_scratch(numbers, result, scratch);
        scale(result, plan.factor, |x| x * factor);
    })
}

/// The real line of each first half of a spectrum.
pub(super) fn inverse_half<R: Float + FftNum + Default>(
    lines: &Lines<'_, Complex<R>>,
    out: Rows<'_, R>,
    plan: Request,
    transform: &dyn ComplexToReal<R>,
) -> Result<()> {
    let (factor, scratch) = (R::constant(plan.factor), (plan.n / 2 + 1, transform.get_scratch_len()));
    each_line(lines, out, plan, scratch, |line, result, numbers: &mut [Complex<R>], scratch| {
        fill(numbers, line, |x| x);
        // Real numbers have no imaginary part at frequency 0, and at the highest one of an even length.
        numbers[0].im = R::default();
        if plan.n.is_multiple_of(2) {
            numbers[plan.n / 2].im = R::default();
        }
        // The lengths are right, and so are these parts: there is no other error.
        let _ = transform.process_with_scratch(numbers, result, scratch);
        scale(result, plan.factor, |x| x * factor);
    })
}
