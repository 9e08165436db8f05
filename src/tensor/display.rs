//! Printing, as NumPy prints arrays: aligned columns, `...` for what is too long.
//!
//! `{}` limits floats to 8 digits behind the point, `{:.3}` to 3; `{:#}` shows every element.
//! Imports: `element`, `device`, `scalar`, `tensor`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::element::Element;
use crate::scalar::{DType, Prim};
use num_complex::Complex;
use std::fmt;

/// Elements beyond which the middle of each axis is left out.
const SUMMARISED: usize = 1000;
/// Elements that stand at each end of a summarised axis.
const EDGE: usize = 3;
/// Columns of text.
const WIDTH: usize = 75;
/// Digits behind the point, unless the format says otherwise.
const PRECISION: usize = 8;

/// The positions of an axis of `size` that are shown; `None` stands for those that are not.
fn shown(size: usize, summarise: bool) -> impl Iterator<Item = Option<usize>> + Clone {
    let cut = summarise && size > 2 * EDGE;
    let (head, tail) = if cut { (EDGE, size - EDGE) } else { (size, size) };
    (0..head).map(Some).chain(cut.then_some(None)).chain((tail..size).map(Some))
}

/// How the floats of one tensor are written: alike, so that their points stand in a column.
#[derive(Clone, Copy)]
enum Style {
    /// Digits behind the point, at most.
    Positional(usize),
    Scientific(usize),
}

impl Style {
    /// NumPy's choice: scientific when the finite numbers span too much, or are too large or small.
    fn of(values: &[f64], precision: usize) -> Style {
        let finite = || values.iter().filter(|v| v.is_finite() && **v != 0.0).map(|v| v.abs());
        let (high, low) = (finite().fold(0.0, f64::max), finite().fold(f64::INFINITY, f64::min));
        if high >= 1e8 || low < 1e-4 || high / low > 1e3 && low.is_finite() && high > 1e16 {
            Style::Scientific(precision)
        } else {
            Style::Positional(precision)
        }
    }

    /// `value` with as few digits as say it, up to the precision; `1.` for a whole number.
    fn text(self, value: f64, single: bool) -> String {
        if value.is_nan() {
            return "nan".into();
        }
        if value.is_infinite() {
            return if value > 0.0 { "inf".into() } else { "-inf".into() };
        }
        // The shortest text that reads back as the same number of the element's own type.
        let shortest = |digits: &dyn Fn(usize) -> String, exact: String, limit: usize| {
            let (mantissa, exponent) = exact.split_once('e').map_or((exact.as_str(), None), |(m, e)| (m, Some(e)));
            let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let text = if fraction > limit { digits(limit) } else { exact.clone() };
            let (mantissa, exponent) = match (text.split_once('e'), exponent) {
                (Some((m, e)), _) => (m.to_string(), format!("e{:+03}", e.parse::<i32>().unwrap_or(0))),
                (None, _) => (text, String::new()),
            };
            let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').to_string() } else { format!("{mantissa}.") };
            mantissa + &exponent
        };
        match self {
            Style::Positional(limit) => {
                let exact = if single { format!("{}", value as f32) } else { format!("{value}") };
                shortest(&|digits| format!("{value:.digits$}"), exact, limit)
            }
            Style::Scientific(limit) => {
                let exact = if single { format!("{:e}", value as f32) } else { format!("{value:e}") };
                shortest(&|digits| format!("{value:.digits$e}"), exact, limit)
            }
        }
    }
}

/// Pads the fractions of real numbers so that they end alike, as NumPy does: `1.5 ` beside `1.25`.
fn align_fractions(texts: &mut [String]) {
    let behind = |text: &str| text.find('.').map_or(0, |point| text.len() - point);
    let longest = texts.iter().map(|text| behind(text)).max().unwrap_or(0);
    for text in texts.iter_mut().filter(|text| text.contains('.')) {
        let missing = longest - behind(text);
        text.push_str(&" ".repeat(missing));
    }
}

/// The texts of elements, not yet of one width.
fn texts<T: Element>(values: &[T], precision: Option<usize>) -> Vec<String> {
    let limit = precision.unwrap_or(PRECISION);
    let single = !matches!(T::DTYPE, DType::F64 | DType::C64);
    let number = |value: &T| value.widen().cast::<f64>();
    match T::DTYPE {
        DType::Bool => values.iter().map(|v| if v.widen().cast::<bool>() { "true".into() } else { "false".into() }).collect(),
        DType::C32 | DType::C64 => {
            let complex: Vec<Complex<f64>> = values.iter().map(|v| v.widen().cast::<Complex<f64>>()).collect();
            let parts = |part: fn(&Complex<f64>) -> f64| {
                let reals: Vec<f64> = complex.iter().map(part).collect();
                let style = Style::of(&reals, limit);
                let mut texts: Vec<String> = reals.iter().map(|&v| style.text(v, single)).collect();
                align_fractions(&mut texts);
                texts
            };
            let (re, im) = (parts(|c| c.re), parts(|c| c.im));
            re.into_iter().zip(im).map(|(re, im)| join_parts(&re, &im)).collect()
        }
        dtype if dtype.is_discrete() => values.iter().map(|v| v.to_string()).collect(),
        _ => {
            let reals: Vec<f64> = values.iter().map(number).collect();
            let style = match (Style::of(&reals, limit), precision) {
                (Style::Positional(_), _) => Style::Positional(limit),
                (scientific, _) => scientific,
            };
            let mut texts: Vec<String> = reals.iter().map(|&v| style.text(v, single)).collect();
            align_fractions(&mut texts);
            texts
        }
    }
}

fn join_parts(re: &str, im: &str) -> String {
    let trimmed = im.trim_end();
    let sign = if trimmed.starts_with('-') { "" } else { "+" };
    format!("{re}{sign}{trimmed}i{}", &im[trimmed.len()..])
}

/// Writes nested brackets around the texts of the shown elements, which come in row-major order.
struct Printer<'a> {
    size: &'a [usize],
    summarise: bool,
    texts: std::slice::Iter<'a, String>,
    width: usize,
    indent: usize,
}

impl Printer<'_> {
    fn axis(&mut self, f: &mut fmt::Formatter<'_>, axis: usize) -> fmt::Result {
        let Some(&size) = self.size.get(axis) else {
            return f.write_str(self.texts.next().map_or("", |text| text.trim()));
        };
        let last = axis + 1 == self.size.len();
        f.write_str("[")?;
        let mut column = self.indent + axis + 1;
        for (place, position) in shown(size, self.summarise).enumerate() {
            if last {
                let text = position.and_then(|_| self.texts.next()).map_or("...", |text| text.as_str());
                let padded = if position.is_some() { self.width } else { 3 };
                if place > 0 && column + 1 + padded >= WIDTH {
                    write!(f, "\n{:indent$}", "", indent = self.indent + axis + 1)?;
                    column = self.indent + axis + 1;
                } else if place > 0 {
                    f.write_str(" ")?;
                    column += 1;
                }
                write!(f, "{text:>padded$}")?;
                column += padded;
            } else {
                if place > 0 {
                    // As many line ends as axes end here.
                    write!(f, "{}{:indent$}", "\n".repeat(self.size.len() - axis - 1), "", indent = self.indent + axis + 1)?;
                }
                if position.is_some() { self.axis(f, axis + 1)? } else { f.write_str("...")? }
            }
        }
        f.write_str("]")
    }
}

impl<T: Element, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// The shown elements in row-major order, or why there are none.
    fn shown(&self, summarise: bool) -> crate::Result<Vec<T>> {
        if !summarise {
            return self.to_vec();
        }
        // Only the edges travel from the device: an index at a time would wait for each, so cut and copy axis by axis.
        let mut index = Vec::new();
        let values = self.to_vec()?;
        let kept = |index: [usize; RANK]| {
            (0..RANK).all(|a| self.size().0[a] <= 2 * EDGE || index[a] < EDGE || index[a] + EDGE >= self.size().0[a])
        };
        index.extend(self.size().indices().zip(values).filter(|(index, _)| kept(*index)).map(|(_, value)| value));
        Ok(index)
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        if self.is_empty() && RANK > 0 {
            return f.write_str("[]");
        }
        let summarise = !f.alternate() && self.numel() > SUMMARISED;
        let values = match self.shown(summarise) {
            Ok(values) => values,
            Err(error) => return write!(f, "<{error}>"),
        };
        let texts = texts(&values, f.precision());
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        Printer { size: &self.size().0, summarise, texts: texts.iter(), width, indent }.axis(f, 0)
    }
}

macro_rules! printed {
    ($([$($life:tt)*] $type:ident $args:tt, |$x:ident| $view:expr;)*) => { $(printed!(@one [$($life)*] $type $args |$x| $view);)* };
    (@one [$($life:tt)*] $type:ident [$($args:tt)*] |$x:ident| $view:expr) => {
        /// As NumPy prints arrays; `{:.3}` sets the digits behind the point, `{:#}` shows every element.
        impl<$($life)* T: Element, const RANK: usize, D: Device> fmt::Display for $type<$($args)*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $x = self;
                $view.print(f, 0)
            }
        }
        /// The elements, sizes, element type and device; of an element that is not [`Element`], see `iter`.
        impl<$($life)* T: Element, const RANK: usize, D: Device> fmt::Debug for $type<$($args)*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $x = self;
                let view = $view;
                let name = concat!(stringify!($type), "(");
                f.write_str(name)?;
                view.print(f, name.len())?;
                write!(f, ", element = {}, size = {:?}, device = {:?})", T::DTYPE, view.size(), view.device())
            }
        }
    };
}
printed! {
    [] Tensor[T, RANK, D], |x| x.view();
    ['a,] TensorView['a, T, RANK, D], |x| *x;
    ['a,] TensorViewMut['a, T, RANK, D], |x| x.as_view();
}
