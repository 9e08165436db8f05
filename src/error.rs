//! Errors at run time: sizes, memory, sharing, devices.
//!
//! A wrong rank, device kind or element type is not among them: such programs do not compile.
// Imports: nothing.

use std::fmt;

/// The result of the crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a running program, with the operation and its operands in the text.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let (a, b) = (Tensor::from([[1.0, 2.0]]), Tensor::from([[1.0, 2.0, 3.0]]));
/// assert_eq!(a.add(&b).unwrap_err().to_string(), "add: sizes [1, 2] and [1, 3] do not broadcast");
/// ```
/// `{:?}` prints the same text, because `fn main() -> Result<()>` and `unwrap` print that form.
#[non_exhaustive]
#[derive(Clone, PartialEq)]
pub enum Error {
    /// Two operands whose sizes do not broadcast.
    Sizes {
        /// The operation.
        op: &'static str,
        /// The sizes of the left operand, or the expected sizes.
        left: SizeList,
        /// The sizes of the right operand, or the actual sizes.
        right: SizeList,
    },
    /// The output has sizes other than the result's; outputs are not broadcast.
    Output {
        /// The operation.
        op: &'static str,
        /// The sizes of the result.
        sizes: SizeList,
        /// The sizes of the output.
        found: SizeList,
    },
    /// A matrix product whose inner sizes differ.
    Inner {
        /// The operation.
        op: &'static str,
        /// The sizes that differ.
        inner: [usize; 2],
        /// The sizes of the left operand.
        left: SizeList,
        /// The sizes of the right operand.
        right: SizeList,
    },
    /// A number of elements that does not match the sizes.
    Length {
        /// The operation.
        op: &'static str,
        /// The sizes asked for.
        sizes: SizeList,
        /// The number of elements of those sizes.
        expected: usize,
        /// The actual number of elements.
        found: usize,
        /// The sizes of the elements, if they have sizes.
        of: Option<SizeList>,
    },
    /// A tensor of several elements, or of none, where exactly one is required.
    NotOne {
        /// The operation.
        op: &'static str,
        /// The sizes of the tensor.
        sizes: SizeList,
        /// The number of its elements.
        found: usize,
    },
    /// Sizes whose elements or bytes cannot be counted in an `isize`.
    Overflow {
        /// The operation.
        op: &'static str,
        /// The sizes asked for.
        sizes: SizeList,
        /// Bytes of one element.
        element: usize,
    },
    /// An index outside the sizes.
    Index {
        /// The operation.
        op: &'static str,
        /// The index: one number for each axis, one along `axis`, or one among all elements.
        index: SizeList,
        /// The axis of the index, if it is along one axis.
        axis: Option<usize>,
        /// The sizes that bound it.
        sizes: SizeList,
    },
    /// An axis, known only at run time, that the tensor does not have; or one that is not of size 1.
    Axis {
        /// The operation.
        op: &'static str,
        /// The axis asked for.
        axis: usize,
        /// The sizes of the tensor.
        sizes: SizeList,
    },
    /// A range, step, window or chunk that does not fit its axis.
    Slice {
        /// The operation.
        op: &'static str,
        /// The entry, with its ends filled in.
        entry: String,
        /// The axis it was applied to.
        axis: usize,
        /// The size of that axis.
        size: usize,
    },
    /// An order of axes that is not a permutation.
    Permutation {
        /// The operation.
        op: &'static str,
        /// The order asked for.
        order: SizeList,
    },
    /// A layout that would reach outside its memory.
    Bounds {
        /// The operation.
        op: &'static str,
        /// The sizes asked for.
        sizes: SizeList,
        /// The strides asked for, in elements.
        strides: SizeList,
        /// The offset asked for, in elements.
        offset: i128,
        /// The number of elements in the memory.
        len: usize,
    },
    /// A mutable layout in which one element would have two indices.
    Overlap {
        /// The operation.
        op: &'static str,
        /// The sizes.
        sizes: SizeList,
        /// The strides, in elements.
        strides: SizeList,
    },
    /// A layout that no view can express: copy first (`to_shape`, `to_contiguous`).
    NeedsCopy {
        /// The operation.
        op: &'static str,
        /// The sizes of the tensor.
        sizes: SizeList,
        /// Its strides, in elements.
        strides: SizeList,
        /// The sizes asked for.
        to: SizeList,
    },
    /// A tensor whose types are known at run time is not of the types asked for.
    Type {
        /// The operation.
        op: &'static str,
        /// The requested types: element, rank, device.
        expected: String,
        /// The actual types.
        found: String,
    },
    /// Writing while other handles share the memory.
    Shared {
        /// The operation.
        op: &'static str,
        /// The number of handles.
        handles: usize,
    },
    /// Reading a tensor that has sizes but no memory yet.
    Unallocated {
        /// The operation.
        op: &'static str,
        /// The sizes of the tensor.
        sizes: SizeList,
    },
    /// Changing the sizes or strides of a handle whose metadata is frozen.
    MetadataFrozen {
        /// The operation.
        op: &'static str,
    },
    /// Operands on two devices of one kind.
    Device {
        /// The operation.
        op: &'static str,
        /// The device of the first operand.
        left: String,
        /// The device of the other.
        right: String,
    },
    /// Reading from a device that keeps no data.
    NoData {
        /// The operation.
        op: &'static str,
        /// The device.
        device: &'static str,
    },
    /// An operation that the device cannot do by its nature.
    Unsupported {
        /// The operation.
        op: &'static str,
        /// The device.
        device: &'static str,
    },
    /// A library of the system that could not be opened.
    Library {
        /// The operation.
        op: &'static str,
        /// The library, and the product that installs it.
        library: &'static str,
        /// The paths that were tried, and the reason why a file at one of them was not usable.
        tried: String,
    },
    /// A device ordinal that does not exist.
    NoDevice {
        /// The operation.
        op: &'static str,
        /// The requested ordinal, from 0.
        ordinal: usize,
        /// The number of devices.
        found: usize,
    },
    /// A report of a device, its driver or its compiler.
    Fault {
        /// The operation.
        op: &'static str,
        /// The report.
        what: String,
    },
    /// An allocation that failed.
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The requested number of bytes.
        nbytes: usize,
    },
    /// A reduction over no elements that has no value for them, for example `max`.
    Empty {
        /// The operation.
        op: &'static str,
        /// The sizes of the operand.
        sizes: SizeList,
    },
    /// One fused expression with too many operands; an operand that occurs twice counts twice (`x.square()`
    /// instead of `x * x`).
    Operands {
        /// The operation.
        op: &'static str,
        /// The largest number of operands.
        limit: usize,
    },
    /// A report of the system about a file, a reader or a writer.
    Io {
        /// The operation.
        op: &'static str,
        /// The kind of failure, as the standard library names it.
        kind: std::io::ErrorKind,
        /// The report, with the file's name where it has one.
        what: String,
    },
    /// Bytes that do not follow their format.
    Format {
        /// The operation.
        op: &'static str,
        /// The fault and its place.
        what: String,
    },
    /// An error about one of several parameters.
    Parameter {
        /// The name of the parameter, for example `layers.0.weight`.
        name: String,
        /// The error.
        error: Box<Error>,
    },
    /// A value that the operation does not accept.
    Value {
        /// The operation.
        op: &'static str,
        /// The reason.
        what: String,
    },
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Sizes { op, left, right } => write!(f, "{op}: sizes {left} and {right} do not broadcast"),
            Error::Output { op, sizes, found } => {
                write!(f, "{op}: a result of sizes {sizes} does not fit the output, of sizes {found}")
            }
            Error::Inner { op, inner, left, right } => {
                write!(f, "{op}: inner sizes {} and {} differ: {left} · {right}", inner[0], inner[1])
            }
            Error::Length { op, sizes, expected, found, of } => {
                write!(f, "{op}: {sizes} holds {expected} elements, found {found}{}", OfSizes(of.as_ref()))
            }
            Error::NotOne { op, sizes, found } => {
                write!(f, "{op}: sizes {sizes} hold {found} elements, not one")
            }
            Error::Overflow { op, sizes, element } => {
                write!(f, "{op}: {sizes} × {element} bytes is more than isize::MAX bytes")
            }
            Error::Index { op, index, axis, sizes } => match (*op, index.as_slice(), sizes.as_slice()) {
                ("one_hot" | "one_hot_into", [class], [classes]) => {
                    write!(f, "{op}: class {class} is none of {classes}, counted from 0")
                }
                _ => write!(f, "{op}: {}", Outside(index, *axis, sizes)),
            },
            Error::Axis { op, axis, sizes } => match (sizes.as_slice().get(*axis), only_size(op)) {
                (Some(size), Some(only)) => {
                    write!(f, "{op}: axis {axis} of sizes {sizes} has size {size}, not {only}")
                }
                _ => write!(f, "{op}: axis {axis} does not fit sizes {sizes}"),
            },
            Error::Slice { op, entry, axis, size } => {
                write!(f, "{op}: {entry} does not fit axis {axis} of size {size}")
            }
            Error::Permutation { op, order } => write!(f, "{op}: {order} is not a permutation of the axes"),
            Error::Bounds { op, sizes, strides, offset, len } => {
                write!(
                    f,
                    "{op}: sizes {sizes}, strides {strides}, offset {offset} reach outside {len} elements"
                )
            }
            Error::Overlap { op, sizes, strides } => {
                write!(f, "{op}: with sizes {sizes} and strides {strides} two indices name one element")
            }
            Error::NeedsCopy { op, sizes, strides, to } => {
                write!(
                    f,
                    "{op}: sizes {sizes} with strides {strides} are not a view of sizes {to}; `to_shape` \
                        copies"
                )
            }
            Error::Type { op, expected, found } => write!(f, "{op}: expected {expected}, found {found}"),
            Error::Shared { op, handles } => {
                write!(
                    f,
                    "{op}: the memory has {handles} handles and writing needs the only one; `make_unique` \
                        copies"
                )
            }
            Error::Unallocated { op, sizes } => {
                write!(f, "{op}: the tensor of sizes {sizes} has no memory yet; `mutable_data` allocates it")
            }
            Error::MetadataFrozen { op } => write!(f, "{op}: the metadata of this detached tensor is frozen"),
            Error::Device { op, left, right } => {
                write!(f, "{op}: operands live on {left} and {right}; `.to(&device)` moves one")
            }
            Error::NoData { op, device } => write!(f, "{op}: {device} keeps shapes only, no data"),
            Error::Unsupported { op, device } => write!(f, "{op}: {device} cannot do this"),
            Error::Library { op, library, tried } => {
                write!(f, "{op}: the library {library}, could not be opened; looked in: {tried}")
            }
            Error::NoDevice { op, ordinal, found } => {
                write!(f, "{op}: there is no device {ordinal}; {found} found")
            }
            Error::Fault { op, what } => write!(f, "{op}: {what}"),
            Error::OutOfMemory { op, nbytes } => write!(f, "{op}: {nbytes} bytes could not be allocated"),
            Error::Empty { op, sizes } => write!(f, "{op}: no elements to reduce in sizes {sizes}"),
            Error::Operands { op, limit } => write!(
                f,
                "{op}: an expression reads at most {limit} operands, each counted as often as it occurs; \
                    evaluate a part of it first"
            ),
            Error::Io { op, what, .. } => write!(f, "{op}: {what}"),
            Error::Format { op, what } => write!(f, "{op}: {what}"),
            Error::Parameter { name, error } => write!(f, "{name}: {error}"),
            Error::Value { op, what } => write!(f, "{op}: {what}"),
        }
    }
}

/// The size that an axis must have for this operation, if only one is possible.
fn only_size(op: &str) -> Option<usize> {
    match op {
        "remove_axis" | "into_remove_axis" | "removed" => Some(1),
        "cross" | "cross_into" => Some(3),
        _ => None,
    }
}

/// The sizes of the elements, if any.
struct OfSizes<'a>(Option<&'a SizeList>);

impl fmt::Display for OfSizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |sizes| write!(f, " of sizes {sizes}"))
    }
}

/// An index, the axis it is along, and the sizes it is outside.
struct Outside<'a>(&'a SizeList, Option<usize>, &'a SizeList);

impl fmt::Display for Outside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Outside(index, axis, sizes) = self;
        match (index.as_slice(), axis, sizes.as_slice()) {
            (&[index], Some(axis), all @ [_, _, ..]) if axis < all.len() => {
                write!(f, "index {index} is outside axis {axis} of size {}, of sizes {sizes}", all[axis])
            }
            (&[index], None, all @ [_, _, ..]) => {
                write!(
                    f,
                    "index {index} is outside the {} elements of sizes {sizes}",
                    all.iter().product::<i128>()
                )
            }
            _ => write!(f, "index {index} is outside sizes {sizes}"),
        }
    }
}

impl Error {
    /// The same error with the name of the outer operation, by which the caller knows it.
    pub(crate) fn with_op(mut self, op: &'static str) -> Self {
        match &mut self {
            Error::Sizes { op: before, .. }
            | Error::Output { op: before, .. }
            | Error::Inner { op: before, .. }
            | Error::Length { op: before, .. }
            | Error::NotOne { op: before, .. }
            | Error::Overflow { op: before, .. }
            | Error::Axis { op: before, .. }
            | Error::Slice { op: before, .. }
            | Error::Permutation { op: before, .. }
            | Error::Bounds { op: before, .. }
            | Error::Overlap { op: before, .. }
            | Error::NeedsCopy { op: before, .. }
            | Error::Type { op: before, .. }
            | Error::Shared { op: before, .. }
            | Error::Unallocated { op: before, .. }
            | Error::MetadataFrozen { op: before, .. }
            | Error::Device { op: before, .. }
            | Error::NoData { op: before, .. }
            | Error::Unsupported { op: before, .. }
            | Error::Library { op: before, .. }
            | Error::NoDevice { op: before, .. }
            | Error::OutOfMemory { op: before, .. }
            | Error::Empty { op: before, .. }
            | Error::Operands { op: before, .. }
            | Error::Io { op: before, .. }
            | Error::Format { op: before, .. }
            | Error::Value { op: before, .. } => *before = op,
            // A device may report a deferred error: the operation that failed may be an earlier one, whose
            // name is kept.
            Error::Fault { .. } | Error::Index { .. } => {}
            Error::Parameter { error, .. } => **error = error.as_ref().clone().with_op(op),
        }
        self
    }

    /// The same error with the name of the parameter that it is about, unless it has one. A lack of memory
    /// gets none, because the name needs memory.
    #[cfg(feature = "autograd")]
    #[cold]
    pub(crate) fn of_parameter(self, name: &dyn fmt::Display) -> Self {
        let is_named = matches!(self, Error::Parameter { .. } | Error::OutOfMemory { .. });
        match text(format_args!("{name}")) {
            name if is_named || name.is_empty() => self,
            name => Error::Parameter { name, error: Box::new(self) },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Sizes, strides or an index in an error; prints as `[2, 3]`.
///
/// An error must not abort when memory runs out: if there is no memory for these numbers, they print as
/// `[…]`.
#[derive(Clone, PartialEq, Eq)]
pub struct SizeList(Option<Vec<i128>>);

impl SizeList {
    /// The numbers; empty if memory had run out.
    pub fn as_slice(&self) -> &[i128] {
        self.0.as_deref().unwrap_or_default()
    }

    fn of(values: impl ExactSizeIterator<Item = i128>) -> Self {
        let mut numbers = Vec::new();
        let room = numbers.try_reserve_exact(values.len());
        SizeList(room.is_ok().then(|| {
            numbers.extend(values);
            numbers
        }))
    }

    fn of_sizes(values: &[usize]) -> Self {
        SizeList::of(values.iter().map(|&v| v as i128))
    }

    fn of_strides(values: &[isize]) -> Self {
        SizeList::of(values.iter().map(|&v| v as i128))
    }
}

impl<const N: usize> From<[usize; N]> for SizeList {
    #[cold]
    fn from(values: [usize; N]) -> Self {
        by_pointer!(SizeList::of_sizes, &values[..])
    }
}

impl<const N: usize> From<[isize; N]> for SizeList {
    #[cold]
    fn from(values: [isize; N]) -> Self {
        by_pointer!(SizeList::of_strides, &values[..])
    }
}

impl From<&[usize]> for SizeList {
    fn from(values: &[usize]) -> Self {
        by_pointer!(SizeList::of_sizes, values)
    }
}

impl From<&[isize]> for SizeList {
    fn from(values: &[isize]) -> Self {
        by_pointer!(SizeList::of_strides, values)
    }
}

impl fmt::Display for SizeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(numbers) => write!(f, "{numbers:?}"),
            None => f.write_str("[…]"),
        }
    }
}

impl fmt::Debug for SizeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text of an error, cut short when memory runs out: `format!` would abort.
pub(crate) fn text(arguments: fmt::Arguments<'_>) -> String {
    by_pointer!(written, arguments)
}

fn written(arguments: fmt::Arguments<'_>) -> String {
    struct Fallible(String);
    impl fmt::Write for Fallible {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0.try_reserve(part.len()).map_err(|_| fmt::Error)?;
            self.0.push_str(part);
            Ok(())
        }
    }
    let mut text = Fallible(String::new());
    let _ = fmt::Write::write_fmt(&mut text, arguments);
    text.0
}
