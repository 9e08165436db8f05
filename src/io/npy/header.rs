//! The header of an `.npy` file: a dictionary of three entries, as Python writes it.
//!
//! ```text
//! \x93NUMPY  major minor  length (2 bytes in version 1, else 4)
//! {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  ␠…\n
//! ```
// Imports: `error`, `dtype`, `io`.

use crate::dtype::DType;
use crate::error::{Error, Result, text};
use crate::io::file::{format_error, read_exactly, read_short};
use crate::io::tensor_bytes::{Description, Order};
use std::io::Read;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The largest header that is read, in bytes; NumPy itself refuses more than 10 000.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The elements, by the header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Descr {
    Known(DType),
    /// Untyped bytes of this size, which NumPy writes for elements that it does not know, like bfloat16 and
    /// 8-bit floats.
    Void(usize),
}

/// Reads a header, up to the first element.
pub(super) fn read(op: &'static str, reader: &mut dyn Read) -> Result<(Descr, Description)> {
    let mut start = [0; 8];
    read_exactly(op, reader, &mut start)?;
    if start[..6] != MAGIC {
        return format_error(op, format_args!("not an npy file: it begins with {:02x?}", &start[..6]));
    }
    let length = match start[6..] {
        [1, 0] => {
            let mut length = [0; 2];
            read_exactly(op, reader, &mut length)?;
            u16::from_le_bytes(length).into()
        }
        [2 | 3, 0] => {
            let mut length = [0; 4];
            read_exactly(op, reader, &mut length)?;
            u32::from_le_bytes(length) as usize
        }
        _ => {
            return format_error(
                op,
                format_args!("version {}.{} is none of 1.0, 2.0 and 3.0", start[6], start[7]),
            );
        }
    };
    if length > MAX_HEADER_BYTES {
        return format_error(op, format_args!("a header of {length} bytes; {MAX_HEADER_BYTES} are the most"));
    }
    let header = read_short(op, reader, length)?;
    // Version 3 is UTF-8, the others are Latin-1. Apart from names of fields, which are refused, all three
    // are ASCII.
    let mut parser = Parser { op, text: &header, at: 0 };
    parser.header()
}

/// The bytes of a header for little-endian elements in this order.
pub(super) fn write(op: &'static str, dtype: DType, size: &[usize], order: Order) -> Result<Vec<u8>> {
    let Some(descr) = dtype.npy_name() else {
        return Err(Error::Value { op, what: text(format_args!("npy has no name for {dtype}")) });
    };
    let column = if order == Order::ColumnMajor { "True" } else { "False" };
    let mut shape = String::new();
    for size in size {
        shape.push_str(&format!("{size}, "));
    }
    if size.len() > 1 {
        shape.truncate(shape.len() - 2); // Python writes `(2, 3)`, but `(2,)`
    } else if size.len() == 1 {
        shape.pop();
    }
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {column}, 'shape': ({shape}), }}");
    // Padding, which leaves space for the first axis to grow in place, as in NumPy's files, and which ends
    // the header at a multiple of 64 bytes, with the end of the line.
    let grown = size.first().map_or(0, |first| 21usize.saturating_sub(first.to_string().len()));
    let before = if header.len() + grown + 64 > u16::MAX.into() { 12 } else { 10 };
    let total = (before + header.len() + grown + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', total - before - header.len() - 1));
    header.push('\n');
    let mut bytes = Vec::with_capacity(total);
    bytes.extend(MAGIC);
    match before {
        10 => bytes.extend([1, 0].into_iter().chain((header.len() as u16).to_le_bytes())),
        _ => bytes.extend([2, 0].into_iter().chain((header.len() as u32).to_le_bytes())),
    }
    bytes.extend(header.into_bytes());
    Ok(bytes)
}

/// Whether NumPy has no name for an element, which is then read only on demand.
pub(super) fn is_nameless(dtype: DType) -> bool {
    dtype.npy_name().is_some_and(|name| name.contains('V'))
}

/// The element with a name, and whether its byte order is not this machine's.
fn element(op: &'static str, name: &[u8]) -> Result<(Descr, bool)> {
    let refused = |why: &str| format_error(op, format_args!("elements {:?} are {why}", Text(name)));
    let (order, rest) = match name {
        [order @ (b'<' | b'>' | b'|' | b'='), rest @ ..] => (*order, rest),
        _ => (b'=', name),
    };
    let swapped = match order {
        b'<' => cfg!(target_endian = "big"),
        b'>' => cfg!(target_endian = "little"),
        _ => false,
    };
    let mut names = DType::ALL.iter().filter_map(|&dtype| Some((dtype, dtype.npy_name()?)));
    if let Some((dtype, known)) = names.find(|(_, name)| name.as_bytes()[1..] == *rest) {
        if is_nameless(dtype) {
            return Ok((Descr::Void(dtype.size()), swapped && dtype.size() > 1));
        }
        if order == b'|' && !known.starts_with('|') {
            return refused("of several bytes and have no byte order");
        }
        return Ok((Descr::Known(dtype), swapped && !known.starts_with('|')));
    }
    match rest {
        [b'O', ..] => refused("Python objects; they are pickled code, which is never run"),
        [b'M' | b'm', ..] => refused("dates or durations; in NumPy, `.view('i8')` makes them integers"),
        [b'S' | b'a' | b'U' | b'T', ..] => refused("text, not numbers"),
        b"f1" => Ok((Descr::Void(1), false)), // the name of an 8-bit float in `ml_dtypes`
        [b'f' | b'c', ..] => refused("floats of a size that no element has"),
        [b'V', digits @ ..] => {
            match std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()) {
                Some(nbytes @ 1..) => Ok((Descr::Void(nbytes), false)),
                _ => refused("bytes without a meaning"),
            }
        }
        _ => refused("unknown"),
    }
}

/// Bytes that should be text, for an error.
struct Text<'a>(&'a [u8]);
impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A parser of the literals that a header may contain.
struct Parser<'a> {
    op: &'static str,
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let rest = &self.text[self.at..];
        let found = Text(&rest[..rest.len().min(24)]);
        format_error(
            self.op,
            format_args!("the header has {found:?} at byte {}, expected {expected}", self.at),
        )
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0c)) {
            self.at += 1;
        }
    }

    /// Consumes this byte if it is the next one, and returns whether it was.
    fn takes(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn wants(&mut self, byte: u8, name: &str) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { self.wrong(name) }
    }

    fn header(&mut self) -> Result<(Descr, Description)> {
        let (mut elements, mut column, mut size) = (None, None, None);
        self.wants(b'{', "`{`")?;
        while !self.takes(b'}') {
            let key = self.string()?;
            self.wants(b':', "`:`")?;
            let twice = match key {
                b"descr" => {
                    self.space();
                    if matches!(self.text.get(self.at), Some(b'[' | b'(' | b'{')) {
                        return format_error(
                            self.op,
                            format_args!("elements with fields (a structured dtype) are no tensor"),
                        );
                    }
                    let name = self.string()?;
                    elements.replace(element(self.op, name)?).is_some()
                }
                b"fortran_order" => column.replace(self.boolean()?).is_some(),
                b"shape" => size.replace(self.sizes()?).is_some(),
                _ => {
                    return format_error(
                        self.op,
                        format_args!("the header has an entry {:?}, which it should not", Text(key)),
                    );
                }
            };
            if twice {
                return format_error(self.op, format_args!("the header has the entry {:?} twice", Text(key)));
            }
            if !self.takes(b',') {
                self.wants(b'}', "`,` or `}`")?;
                break;
            }
        }
        self.space();
        if self.at != self.text.len() {
            return self.wrong("the end of the line");
        }
        let (Some((descr, swapped)), Some(column), Some(size)) = (elements, column, size) else {
            return format_error(
                self.op,
                format_args!("the header lacks one of 'descr', 'fortran_order' and 'shape'"),
            );
        };
        let order = if column { Order::ColumnMajor } else { Order::RowMajor };
        let dtype = match descr {
            Descr::Known(dtype) => dtype,
            Descr::Void(_) => DType::U8, // until the caller determines the type of the bytes
        };
        Ok((descr, Description { dtype, size, order, swapped }))
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        self.space();
        let Some(&quote @ (b'\'' | b'"')) = self.text.get(self.at) else { return self.wrong("a string") };
        let rest: &'a [u8] = &self.text[self.at + 1..];
        let Some(length) = rest.iter().position(|&byte| byte == quote || byte == b'\\') else {
            return self.wrong("the end of a string");
        };
        if rest[length] == b'\\' {
            return self.wrong("a string without escapes");
        }
        self.at += length + 2;
        Ok(&rest[..length])
    }

    fn boolean(&mut self) -> Result<bool> {
        self.space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.wrong("`True` or `False`")
    }

    /// A tuple of sizes. Python 2 wrote `10L`.
    fn sizes(&mut self) -> Result<Vec<usize>> {
        let mut sizes = Vec::new();
        self.wants(b'(', "`(`")?;
        let mut comma = true;
        while !self.takes(b')') {
            if !comma {
                return self.wrong("`,` or `)`");
            }
            let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&self.text[self.at..self.at + digits])
                .ok()
                .and_then(|digits| digits.parse().ok());
            let Some(number) = number else { return self.wrong("a size that fits a usize") };
            self.at += digits;
            self.at += usize::from(self.text.get(self.at) == Some(&b'L'));
            sizes
                .try_reserve(1)
                .map_err(|_| Error::OutOfMemory { op: self.op, nbytes: size_of::<usize>() })?;
            sizes.push(number);
            comma = self.takes(b',');
        }
        if sizes.len() == 1 && !comma {
            return self.wrong("`,`: `(3)` is a number, `(3,)` are sizes");
        }
        Ok(sizes)
    }
}
