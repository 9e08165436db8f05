//! Symbolic sizes: expressions of named sizes, solved when numbers are bound to them.
// Imports: `error`.

use crate::error::{Error, Result, text};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// A size that is not a number yet.
///
/// # Examples
/// ```
/// use rankform::symbolic::{Bindings, Extent};
/// let (batch, width) = (Extent::named("batch"), Extent::named("width"));
/// let mut sizes = Bindings::default();
/// // An image of twice the width and a row for each: the sizes say what `batch` and `width` are.
/// sizes.bind(&[batch.clone(), width.clone() * 2], &[3, 8])?;
/// assert_eq!(sizes.get("width"), Some(4));
/// assert_eq!((batch.clone() * width + 1).eval(&sizes)?, 13);
/// assert_eq!(sizes.bind(&[batch], &[5]).unwrap_err().to_string(), "bind: batch is 3, and axis 0 of sizes [5] makes it 5");
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// A number.
    Fixed(usize),
    /// A name for a number.
    Named(String),
    /// A sum.
    Sum(Box<Extent>, Box<Extent>),
    /// A difference, at least 0.
    Difference(Box<Extent>, Box<Extent>),
    /// A product.
    Product(Box<Extent>, Box<Extent>),
    /// A quotient without a rest.
    Quotient(Box<Extent>, Box<Extent>),
}

impl Extent {
    /// A size by name.
    pub fn named(name: &str) -> Extent {
        Extent::Named(name.into())
    }

    /// The number, of names that are bound.
    ///
    /// # Errors
    /// [`Error::Value`] for a name that is not bound, a difference below 0, a quotient with a rest, or more than can be
    /// counted.
    pub fn eval(&self, bindings: &Bindings) -> Result<usize> {
        use Extent::*;
        let refuse = |what: std::fmt::Arguments<'_>| Error::Value { op: "extent", what: text(what) };
        let pair = |l: &Extent, r: &Extent| Ok::<_, Error>((l.eval(bindings)?, r.eval(bindings)?));
        let number = match self {
            Fixed(number) => Some(*number),
            Named(name) => {
                return bindings.get(name).ok_or_else(|| refuse(format_args!("{name} is not bound")));
            }
            Sum(l, r) => pair(l, r).map(|(l, r)| l.checked_add(r))?,
            Difference(l, r) => pair(l, r).map(|(l, r)| l.checked_sub(r))?,
            Product(l, r) => pair(l, r).map(|(l, r)| l.checked_mul(r))?,
            Quotient(l, r) => pair(l, r).map(|(l, r)| l.checked_div(r).filter(|q| q * r == l))?,
        };
        number.ok_or_else(|| refuse(format_args!("{self} is no size")))
    }

    /// The name whose number is not known, if it stands here once and is the only one.
    fn open<'a>(&'a self, bindings: &Bindings, found: &mut Vec<&'a str>) {
        match self {
            Extent::Fixed(_) => {}
            Extent::Named(name) if bindings.get(name).is_some() => {}
            Extent::Named(name) => found.push(name),
            Extent::Sum(l, r) | Extent::Difference(l, r) | Extent::Product(l, r) | Extent::Quotient(l, r) => {
                l.open(bindings, found);
                r.open(bindings, found);
            }
        }
    }

    /// The number of the only open name in this, when this is `value`.
    fn solve(&self, bindings: &Bindings, value: usize) -> Option<(String, usize)> {
        use Extent::*;
        let known = |x: &Extent| x.eval(bindings).ok();
        match self {
            Fixed(_) => None,
            Named(name) => Some((name.clone(), value)),
            Sum(l, r) => match (known(l), known(r)) {
                (None, Some(r)) => l.solve(bindings, value.checked_sub(r)?),
                (Some(l), None) => r.solve(bindings, value.checked_sub(l)?),
                _ => None,
            },
            Difference(l, r) => match (known(l), known(r)) {
                (None, Some(r)) => l.solve(bindings, value.checked_add(r)?),
                (Some(l), None) => r.solve(bindings, l.checked_sub(value)?),
                _ => None,
            },
            Product(l, r) => {
                let (open, known) = if let Some(r) = known(r) { (l, r) } else { (r, known(l)?) };
                open.solve(bindings, value.checked_div(known).filter(|q| q * known == value)?)
            }
            Quotient(l, r) => match (known(l), known(r)) {
                (None, Some(r)) => l.solve(bindings, value.checked_mul(r)?),
                (Some(l), None) => r.solve(bindings, l.checked_div(value).filter(|q| q * value == l)?),
                _ => None,
            },
        }
    }
}

impl From<usize> for Extent {
    fn from(number: usize) -> Extent {
        Extent::Fixed(number)
    }
}

macro_rules! steps {
    ($($trait:ident $method:ident $variant:ident;)*) => { $(
        impl<RIGHT: Into<Extent>> $trait<RIGHT> for Extent {
            type Output = Extent;
            fn $method(self, right: RIGHT) -> Extent {
                Extent::$variant(Box::new(self), Box::new(right.into()))
            }
        }
    )* };
}
steps! {
    Add add Sum;
    Sub sub Difference;
    Mul mul Product;
    Div div Quotient;
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Fixed(number) => write!(f, "{number}"),
            Extent::Named(name) => f.write_str(name),
            Extent::Sum(l, r) => write!(f, "({l} + {r})"),
            Extent::Difference(l, r) => write!(f, "({l} - {r})"),
            Extent::Product(l, r) => write!(f, "({l} * {r})"),
            Extent::Quotient(l, r) => write!(f, "({l} / {r})"),
        }
    }
}

/// What names stand for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bindings(BTreeMap<String, usize>);

impl Bindings {
    /// The number of a name.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// Says what a name stands for.
    ///
    /// # Errors
    /// [`Error::Value`] when it stands for another number.
    pub fn set(&mut self, name: &str, number: usize) -> Result<()> {
        match self.get(name) {
            Some(other) if other != number => Err(Error::Value {
                op: "bind",
                what: text(format_args!("{name} is {other}, and would be {number}")),
            }),
            _ => {
                self.0.insert(name.into(), number);
                Ok(())
            }
        }
    }

    /// Finds what names stand for, from the sizes that there are: axis by axis, until nothing new is found. An axis with one open
    /// name that occurs once is solved for it; all others are compared.
    ///
    /// # Errors
    /// [`Error::Value`] when the number of axes differs, when a size contradicts what is known or has no solution, or when a
    /// name stays open; the bindings are then as before.
    pub fn bind(&mut self, sizes: &[Extent], found: &[usize]) -> Result<()> {
        let refuse = |what: std::fmt::Arguments<'_>| Error::Value { op: "bind", what: text(what) };
        if sizes.len() != found.len() {
            return Err(refuse(format_args!("{} symbolic sizes for sizes {found:?}", sizes.len())));
        }
        let mut bindings = self.clone();
        let mut waiting: Vec<usize> = (0..sizes.len()).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for axis in waiting {
                let (extent, size) = (&sizes[axis], found[axis]);
                let mut open = Vec::new();
                extent.open(&bindings, &mut open);
                match open[..] {
                    [] => {
                        let known = extent.eval(&bindings)?;
                        if known != size {
                            return Err(refuse(format_args!(
                                "{extent} is {known}, and axis {axis} of sizes {found:?} makes it {size}"
                            )));
                        }
                    }
                    [_] => {
                        let solved = extent
                            .solve(&bindings, size)
                            .ok_or_else(|| refuse(format_args!("{extent} cannot be {size}")))?;
                        bindings.set(&solved.0, solved.1)?;
                    }
                    _ => later.push(axis),
                }
            }
            if later.len() == before {
                let axis = later[0];
                return Err(refuse(format_args!("{} leaves several names open", sizes[axis])));
            }
            waiting = later;
        }
        *self = bindings;
        Ok(())
    }
}
