//! Rare properties of a tensor, in a separate heap block: names of axes, symbolic sizes, data of a backend,
//! an error of access.
// Imports: `error`, `fallible`, `symbolic`, `dynamic`.

use super::opaque::Opaque;
use super::tensor::DynTensor;
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::symbolic::{Bindings, Extent};
use std::any::Any;
use std::sync::Arc;

/// Data of any type, shared by handles.
type Data = Arc<dyn Any + Send + Sync>;

/// The heap block. Handles share it, and a change makes a new one.
#[derive(Default)]
pub(crate) struct Extra {
    /// One name for each axis, or none at all; `""` for an axis without a name.
    names: Vec<String>,
    symbols: Vec<Extent>,
    backend: Option<Data>,
    access_error: Option<Arc<str>>,
    /// The sparse or quantized tensor with these sizes, if the elements have no strides.
    opaque: Option<(Opaque, Data)>,
}

impl Extra {
    fn without_names(&self) -> Extra {
        let Extra { symbols, backend, access_error, opaque, .. } = self;
        let (symbols, backend, access_error, opaque) =
            (symbols.clone(), backend.clone(), access_error.clone(), opaque.clone());
        Extra { names: Vec::new(), symbols, backend, access_error, opaque }
    }

    /// The reason why the elements cannot be reached by strides.
    #[inline]
    fn access_error(&self) -> Option<&str> {
        self.access_error.as_deref().or_else(|| self.opaque.as_ref().map(|(what, _)| what.why()))
    }
}

/// The error with the reason `refused`, if there is one.
#[inline]
fn fail_if(op: &'static str, refused: Option<&str>) -> Result<()> {
    match refused {
        Some(why) => Err(Error::Value { op, what: text(format_args!("{why}")) }),
        None => Ok(()),
    }
}

/// Copies words into new memory, whose allocation can fail.
fn owned_words<'a>(op: &'static str, words: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        let missing = |_| Error::OutOfMemory { op, nbytes: word.len() + size_of::<String>() };
        let mut own = String::new();
        own.try_reserve_exact(word.len()).and_then(|()| all.try_reserve(1)).map_err(missing)?;
        own.push_str(word);
        all.push(own);
    }
    Ok(all)
}

impl DynTensor {
    fn with_extra(self, change: impl FnOnce(&mut Extra)) -> Result<DynTensor> {
        let mut change = Some(change);
        self.with_changed(&mut |extra| {
            if let Some(change) = change.take() {
                change(extra);
            }
        })
    }

    /// As [`with_extra`](DynTensor::with_extra), but compiled once.
    fn with_changed(mut self, change: &mut dyn FnMut(&mut Extra)) -> Result<DynTensor> {
        let mut extra = match self.extra.as_deref() {
            None => Extra::default(),
            Some(extra) => Extra {
                names: owned_words("names", extra.names.iter().map(String::as_str))?,
                ..extra.without_names()
            },
        };
        change(&mut extra);
        let Extra { names, symbols, backend, access_error, opaque } = &extra;
        let empty = names.is_empty()
            && symbols.is_empty()
            && backend.is_none()
            && access_error.is_none()
            && opaque.is_none();
        self.extra = if empty { None } else { Some(FallibleArc::new(extra)?) };
        Ok(self)
    }

    /// The kind of tensor behind the handle, if the elements have no strides.
    #[inline]
    pub fn opaque(&self) -> Option<Opaque> {
        self.extra.as_ref()?.opaque.as_ref().map(|(what, _)| *what)
    }

    /// A handle on a tensor without strides. Its sizes can no longer change.
    pub(super) fn made_opaque<X: Any + Send + Sync>(self, what: Opaque, tensor: X) -> Result<DynTensor> {
        let tensor: Arc<dyn Any + Send + Sync> = Arc::new(tensor);
        self.with_extra(|extra| extra.opaque = Some((what, tensor))).map(DynTensor::frozen)
    }

    /// The tensor without strides behind the handle, if it has this type and the handle is no lazy view of
    /// it.
    pub(crate) fn behind<X: Any>(&self) -> Option<&X> {
        if self.is_conjugate() || self.is_negative() {
            return None;
        }
        self.extra.as_ref()?.opaque.as_ref()?.1.downcast_ref()
    }

    /// The error of [`without_access`](DynTensor::without_access), if it was called.
    #[inline]
    pub(super) fn permitted(&self, op: &'static str) -> Result<()> {
        fail_if(op, self.extra.as_ref().and_then(|extra| extra.access_error.as_deref()))
    }

    /// As `permitted`; also an error if the elements have no strides.
    #[inline]
    pub(crate) fn accessible(&self, op: &'static str) -> Result<()> {
        fail_if(op, self.extra.as_ref().and_then(|extra| extra.access_error()))
    }

    /// Whether the handle has any of these properties. Their heap block exists only then.
    pub fn has_extra(&self) -> bool {
        self.extra.is_some()
    }

    // ------------------------------------------------------------ names

    /// The names of the axes, `""` for an axis without a name; empty for a tensor without names.
    pub fn names(&self) -> &[String] {
        self.extra.as_ref().map_or(&[], |extra| &extra.names)
    }

    /// Names the axes: `""` for an axis without a name, `&[]` for no names at all.
    ///
    /// # Errors
    /// [`Error::Value`] if the number of names is not that of axes, or for a repeated name or one that is no
    /// word; [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let images = DynTensor::from(Tensor::<f32, 3>::zeros([2, 4, 5], &Cpu)?);
    /// let images = images.with_names(&["batch", "row", "column"])?;
    /// assert_eq!(images.axis("row")?, 1);
    /// assert_eq!(images.align_to(&["column", "batch", "channel", "row"])?.size(), [5, 2, 1, 4]);
    /// assert!(images.axis("depth").unwrap_err().to_string().contains("batch, row, column"));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn with_names(self, names: &[&str]) -> Result<DynTensor> {
        let op = "with_names";
        let is_word = |name: &str| name.is_empty() || name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let twice = names.iter().enumerate().any(|(at, name)| !name.is_empty() && names[..at].contains(name));
        if !(names.is_empty() || names.len() == self.rank())
            || twice
            || !names.iter().all(|name| is_word(name))
        {
            return Err(Error::Value {
                op,
                what: text(format_args!("{names:?} do not name the axes of sizes {:?}", self.size())),
            });
        }
        let names = owned_words(op, names.iter().copied())?;
        self.with_extra(|extra| extra.names = names)
    }

    /// The axis with a name.
    ///
    /// # Errors
    /// [`Error::Value`], which lists the names.
    pub fn axis(&self, name: &str) -> Result<usize> {
        let found = self.names().iter().position(|own| own == name && !name.is_empty());
        found.ok_or_else(|| Error::Value {
            op: "axis",
            what: text(format_args!("no axis {name:?} among {}", self.names().join(", "))),
        })
    }

    /// The axes in the order of these names. For a name that the tensor does not have, there is a new axis of
    /// size 1.
    ///
    /// # Errors
    /// [`Error::Value`] if an axis has no name or its name is missing in `names`.
    pub fn align_to(&self, names: &[&str]) -> Result<DynTensor> {
        let op = "align_to";
        let unnamed = self.names().is_empty() && self.rank() > 0;
        if let Some(missing) = self
            .names()
            .iter()
            .find(|own| !names.contains(&own.as_str()))
            .map(String::as_str)
            .or(unnamed.then_some(""))
        {
            return Err(Error::Value {
                op,
                what: text(format_args!("axis {missing:?} of {:?} has no place in {names:?}", self.names())),
            });
        }
        let order: Vec<usize> = names.iter().filter_map(|name| self.axis(name).ok()).collect();
        let mut aligned = self.permuted(&order)?;
        for (at, name) in names.iter().enumerate() {
            if self.axis(name).is_err() {
                aligned = aligned.inserted(at)?;
            }
        }
        aligned.with_names(names)
    }

    /// The names of a result that has the axes `from` of this tensor, in order; `None` is a new axis.
    pub(super) fn names_of(
        &self,
        result: DynTensor,
        from: impl Iterator<Item = Option<usize>>,
    ) -> Result<DynTensor> {
        let backend = self.extra.as_ref().and_then(|extra| extra.backend.clone());
        let access_error = self.extra.as_ref().and_then(|extra| extra.access_error.clone());
        if self.extra.is_none() {
            return Ok(result);
        }
        if let Some(opaque) = self.opaque() {
            let (expected, found) = (
                "a tensor with strides".into(),
                text(format_args!("a handle on one that has none: {opaque:?}")),
            );
            return Err(Error::Type { op: "view", expected, found });
        }
        let names = if self.names().is_empty() {
            Vec::new()
        } else {
            owned_words("names", from.map(|axis| axis.map_or("", |axis| self.names()[axis].as_str())))?
        };
        result.with_extra(|extra| {
            *extra = Extra { names, symbols: Vec::new(), backend, access_error, opaque: None }
        })
    }

    /// The names of the result of an operator on two tensors, whose axes are aligned at the last one.
    ///
    /// # Errors
    /// [`Error::Value`] if two aligned axes have different names, or a name would occur twice.
    pub fn joint_names(op: &'static str, left: &DynTensor, right: &DynTensor) -> Result<Vec<String>> {
        if left.names().is_empty() && right.names().is_empty() {
            return Ok(Vec::new());
        }
        let rank = left.rank().max(right.rank());
        fn of(x: &DynTensor, rank: usize, axis: usize) -> &str {
            let own = axis.checked_sub(rank - x.rank());
            own.and_then(|own| x.names().get(own)).map_or("", String::as_str)
        }
        let mut names: Vec<&str> = Vec::new();
        names
            .try_reserve_exact(rank)
            .map_err(|_| Error::OutOfMemory { op, nbytes: rank * size_of::<&str>() })?;
        for axis in 0..rank {
            let name = match (of(left, rank, axis), of(right, rank, axis)) {
                (l, r) if l == r || r.is_empty() => l,
                ("", r) => r,
                (l, r) => {
                    let what = text(format_args!(
                        "axis {l:?} of {:?} meets axis {r:?} of {:?}",
                        left.names(),
                        right.names()
                    ));
                    return Err(Error::Value { op, what });
                }
            };
            if !name.is_empty() && names.contains(&name) {
                let what = text(format_args!(
                    "axis {name:?} would stand twice: {:?} and {:?}",
                    left.names(),
                    right.names()
                ));
                return Err(Error::Value { op, what });
            }
            names.push(name);
        }
        owned_words(op, names.into_iter())
    }

    // ------------------------------------------------------------ symbolic sizes

    /// Sets expressions for its sizes, one for each axis. Views do not inherit them.
    ///
    /// # Errors
    /// [`Error::Value`] if their number is not that of axes, [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::symbolic::{Bindings, Extent};
    /// use rankform::{DType, DynTensor};
    /// // The example input of a traced program, with a batch of 2 that may become any size.
    /// let batch = Extent::named("batch");
    /// let input = DynTensor::zeros(DType::F32, &[2, 8], &Meta::new())?;
    /// let input = input.with_symbolic_sizes(vec![batch.clone(), 8.into()])?;
    /// let mut sizes = Bindings::default();
    /// input.bind(&DynTensor::zeros(DType::F32, &[64, 8], &Cpu)?, &mut sizes)?;
    /// assert_eq!((batch * 3).eval(&sizes)?, 192);
    /// assert!(input.bind(&DynTensor::zeros(DType::F32, &[64, 9], &Cpu)?, &mut sizes).is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn with_symbolic_sizes(self, sizes: Vec<Extent>) -> Result<DynTensor> {
        if sizes.len() != self.rank() && !sizes.is_empty() {
            let what = text(format_args!("{} symbolic sizes for sizes {:?}", sizes.len(), self.size()));
            return Err(Error::Value { op: "with_symbolic_sizes", what });
        }
        self.with_extra(|extra| extra.symbols = sizes)
    }
    /// The expressions of its sizes; empty for most tensors.
    pub fn symbolic_sizes(&self) -> &[Extent] {
        self.extra.as_ref().map_or(&[], |extra| &extra.symbols)
    }
    /// Solves its symbolic sizes for the sizes of `other`, which takes its place.
    ///
    /// # Errors
    /// [`Error::Value`] as [`Bindings::bind`].
    pub fn bind(&self, other: &DynTensor, bindings: &mut Bindings) -> Result<()> {
        bindings.bind(self.symbolic_sizes(), other.size())
    }

    // ------------------------------------------------------------ backend data, access

    /// Attaches data of a backend, which handles and views share. It replaces earlier data. A sparse or
    /// quantized tensor behind the handle stays.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_backend_data<T: Any + Send + Sync>(self, data: T) -> Result<DynTensor> {
        self.with_extra(|extra| extra.backend = Some(Arc::new(data)))
    }
    /// The data of a backend, if it has this type.
    pub fn backend_data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extra.as_ref()?.backend.as_deref()?.downcast_ref()
    }

    /// Forbids access to the elements: each attempt returns an error with these words, also of
    /// [`as_sparse`](DynTensor::as_sparse) and [`as_quantized`](DynTensor::as_quantized). Sizes, strides and
    /// views stay available.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let x = DynTensor::from(Tensor::from([1.0, 2.0]));
    /// let x = x.without_access("a placeholder, bound when the graph runs")?;
    /// assert_eq!(x.reshaped(&[2, 1])?.size(), [2, 1]);
    /// let error = x.to_bytes().unwrap_err();
    /// assert_eq!(error.to_string(), "to_bytes: a placeholder, bound when the graph runs");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn without_access(self, why: &str) -> Result<DynTensor> {
        self.with_extra(|extra| extra.access_error = Some(why.into()))
    }
}
