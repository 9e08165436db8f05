//! Symbolic sizes: expressions of named sizes, solved when numbers are bound to the names.
// Imports: `error`.

use crate::error::{Error, Result, text};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// A size that is not yet a number.
///
/// # Examples
/// ```
/// use rankform::symbolic::{Bindings, Extent};
/// let (batch, width) = (Extent::named("batch"), Extent::named("width"));
/// let mut sizes = Bindings::default();
/// // An image of twice the width and a row for each: the sizes determine `batch` and `width`.
/// sizes.bind(&[batch.clone(), width.clone() * 2], &[3, 8])?;
/// assert_eq!(sizes.get("width"), Some(4));
/// assert_eq!((batch.clone() * width + 1).eval(&sizes)?, 13);
/// let error = sizes.bind(&[batch], &[5]).unwrap_err();
/// assert_eq!(error.to_string(), "bind: batch is 3, and axis 0 of sizes [5] makes it 5");
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// A number.
    Fixed(usize),
    /// A name whose number is bound later.
    Named(String),
    /// A sum.
    Sum(Box<Extent>, Box<Extent>),
    /// A difference, at least 0.
    Difference(Box<Extent>, Box<Extent>),
    /// A product.
    Product(Box<Extent>, Box<Extent>),
    /// A quotient without a remainder.
    Quotient(Box<Extent>, Box<Extent>),
}

impl Extent {
    /// A size with a name.
    pub fn named(name: &str) -> Extent {
        Extent::Named(name.into())
    }

    /// The value, with the bound numbers of its names.
    ///
    /// # Errors
    /// [`Error::Value`] for an unbound name, a difference below 0, a quotient with a remainder, or a value
    /// that overflows.
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

    /// The only unbound name in this expression, if there is exactly one and it occurs once.
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

    /// Solves `self = value` for its only unbound name.
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

/// The numbers bound to names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bindings(BTreeMap<String, usize>);

impl Bindings {
    /// The number bound to a name.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// Binds a number to a name.
    ///
    /// # Errors
    /// [`Error::Value`] if another number is bound to it.
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

    /// Solves for the names, axis by axis, until no new name is bound. An axis with one unbound name that
    /// occurs once is solved for it; all other axes are compared.
    ///
    /// # Errors
    /// [`Error::Value`] if the number of axes differs, a size contradicts the bindings or has no solution, or
    /// a name stays unbound. The bindings do not change then.
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
