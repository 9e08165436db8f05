//! `DType`: the name of an element type at run time, with its size, kind, names in other libraries, and
//! promotion.
// Imports: `error`.

use crate::error::{Error, Result, text};
use std::fmt;
use std::str::FromStr;

/// The name of an element type.
///
/// | | PyTorch's name | its legacy name | storage |
/// |---|---|---|---|
/// | `F32` | `float32` | `float` | `FloatStorage` |
/// | `C64` | `complex128` | `cdouble` | `ComplexDoubleStorage` |
///
/// The variants of complex numbers count the bits of one part; PyTorch's names count those of both.
///
/// # Examples
/// ```
/// use rankform::DType;
/// let kind: DType = "float".parse()?; // also "float32", "f32"
/// assert_eq!((kind, kind.size()), (DType::F32, 4));
/// assert_eq!((kind.name(), kind.storage_name()), ("float32", "FloatStorage"));
/// assert_eq!(DType::U8.promote(DType::I8)?, DType::I16);
/// let error = "float31".parse::<DType>().unwrap_err();
/// assert_eq!(error.to_string(), "dtype: \"float31\" is not the name of an element type");
/// # Ok::<(), rankform::Error>(())
/// ```
#[allow(missing_docs)] // the names explain themselves
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// 8-bit float with 4 bits of exponent and 3 of fraction; no infinity (OCP, `float8_e4m3fn`).
    F8E4M3,
    /// 8-bit float with 5 bits of exponent and 2 of fraction.
    F8E5M2,
    F16,
    BF16,
    F32,
    F64,
    /// Two `F16`.
    C16,
    /// Two `F32`.
    C32,
    /// Two `F64`.
    C64,
    /// An `I8` that represents a real number, by a scale and a zero point that the tensor holds.
    QI8,
    /// A `U8` that represents a real number.
    QU8,
    /// An `I32` that represents a real number.
    QI32,
}

/// The classes of elements by which promotion decides, in rising order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `true` and `false`.
    Bool,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Floating-point numbers.
    Float,
    /// Pairs of floating-point numbers.
    Complex,
    /// Integers that represent real numbers.
    Quantized,
}

/// One row of names.
struct Row {
    dtype: DType,
    kind: Kind,
    size: usize,
    /// The name in Rust.
    rust: &'static str,
    /// The name in PyTorch and, for most, in NumPy.
    name: &'static str,
    /// The older name in PyTorch.
    legacy: Option<&'static str>,
    /// The scalar type, from which the names of storages and tensor types are made.
    scalar: &'static str,
}

macro_rules! rows {
    ($(
        $dtype:ident $kind:ident $size:literal $rust:literal $name:literal $legacy:expr, $scalar:literal;
    )*) => {
        const ROWS: &[Row] = &[$(
            Row {
                dtype: DType::$dtype,
                kind: Kind::$kind,
                size: $size,
                rust: $rust,
                name: $name,
                legacy: $legacy,
                scalar: $scalar,
            },
        )*];
        impl DType {
            /// Every element type.
            pub const ALL: &'static [DType] = &[$(DType::$dtype),*];
        }
    };
}
rows! {
    Bool Bool 1 "bool" "bool" None, "Bool";
    I8 Signed 1 "i8" "int8" None, "Char";
    I16 Signed 2 "i16" "int16" Some("short"), "Short";
    I32 Signed 4 "i32" "int32" Some("int"), "Int";
    I64 Signed 8 "i64" "int64" Some("long"), "Long";
    U8 Unsigned 1 "u8" "uint8" None, "Byte";
    U16 Unsigned 2 "u16" "uint16" None, "UInt16";
    U32 Unsigned 4 "u32" "uint32" None, "UInt32";
    U64 Unsigned 8 "u64" "uint64" None, "UInt64";
    F8E4M3 Float 1 "f8e4m3" "float8_e4m3fn" None, "Float8_e4m3fn";
    F8E5M2 Float 1 "f8e5m2" "float8_e5m2" None, "Float8_e5m2";
    F16 Float 2 "f16" "float16" Some("half"), "Half";
    BF16 Float 2 "bf16" "bfloat16" None, "BFloat16";
    F32 Float 4 "f32" "float32" Some("float"), "Float";
    F64 Float 8 "f64" "float64" Some("double"), "Double";
    C16 Complex 4 "Complex<f16>" "complex32" Some("chalf"), "ComplexHalf";
    C32 Complex 8 "Complex<f32>" "complex64" Some("cfloat"), "ComplexFloat";
    C64 Complex 16 "Complex<f64>" "complex128" Some("cdouble"), "ComplexDouble";
    QI8 Quantized 1 "qi8" "qint8" None, "QInt8";
    QU8 Quantized 1 "qu8" "quint8" None, "QUInt8";
    QI32 Quantized 4 "qi32" "qint32" None, "QInt32";
}

/// A number in a program, which has a kind but no size: it takes the element type of the tensor that it is
/// combined with if its kind allows that. PyTorch calls these wrapped numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrapped {
    /// `true`, `false`.
    Bool,
    /// An integer.
    Integer,
    /// A real number.
    Real,
    /// A complex number.
    Complex,
}

impl DType {
    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
    /// The bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        self.row().size
    }
    /// The alignment of an element.
    pub(crate) const fn align(self) -> usize {
        match self.part().size() {
            8 => align_of::<u64>(),
            size => size,
        }
    }
    /// The kind of its elements.
    pub const fn kind(self) -> Kind {
        self.row().kind
    }
    /// PyTorch's name: `float32`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
    /// PyTorch's older name, if there is one: `float`.
    pub const fn legacy_name(self) -> Option<&'static str> {
        self.row().legacy
    }
    /// The name of the scalar type, as in `FloatTensor`: `Float`.
    pub const fn scalar_name(self) -> &'static str {
        self.row().scalar
    }
    /// The name of a storage of such elements: `FloatStorage`.
    pub fn storage_name(self) -> &'static str {
        STORAGES[self as usize]
    }
    /// The element type whose storages have this name.
    ///
    /// # Errors
    /// [`Error::Value`] if no storage has this name.
    pub fn of_storage(name: &str) -> Result<DType> {
        let found = STORAGES.iter().position(|&storage| storage == name);
        found.map(|at| ROWS[at].dtype).ok_or_else(|| unknown("of_storage", name, "a storage"))
    }

    /// Whether its values are integers or booleans that represent themselves.
    pub const fn is_discrete(self) -> bool {
        matches!(self.kind(), Kind::Bool | Kind::Unsigned | Kind::Signed)
    }
    /// Whether it is a 16-bit float.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }
    /// Whether it is a pair of floats.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }
    /// Whether it is quantized.
    pub const fn is_quantized(self) -> bool {
        matches!(self.kind(), Kind::Quantized)
    }
    /// Whether some of its numbers lose digits in an f32.
    pub const fn is_wider_than_f32(self) -> bool {
        matches!(self, DType::I32 | DType::I64 | DType::U32 | DType::U64 | DType::F64 | DType::C64)
    }
    /// The type of the parts of a complex type; any other type itself.
    pub const fn part(self) -> DType {
        match self {
            DType::C16 => DType::F16,
            DType::C32 => DType::F32,
            DType::C64 => DType::F64,
            other => other,
        }
    }
    /// The complex type of two floats of this type; that of two f32 for a float type without a complex type.
    const fn complex(self) -> DType {
        match self {
            DType::F16 | DType::C16 => DType::C16,
            DType::F64 | DType::C64 => DType::C64,
            _ => DType::C32,
        }
    }

    /// The element type of the result of two operands: the table of the Python Array API standard (2024.12).
    /// For kinds that the standard does not combine, the higher kind gives the type, as in PyTorch: `I64` and
    /// `F16` give `F16`.
    ///
    /// # Errors
    /// [`Error::Value`] if no type holds both: `U64` with a signed type, an 8-bit float with another float, a
    /// quantized type with any other.
    pub fn promote(self, other: DType) -> Result<DType> {
        use DType::*;
        if self == other {
            return Ok(self);
        }
        let (low, high) = if self.kind() <= other.kind() { (self, other) } else { (other, self) };
        let narrow = |dtype: DType| matches!(dtype, F8E4M3 | F8E5M2);
        let found = match (low.kind(), high.kind()) {
            _ if narrow(low) || low.is_quantized() || high.is_quantized() => None,
            _ if narrow(high) => (low.kind() < Kind::Float).then_some(high),
            (Kind::Unsigned, Kind::Signed) if low.size() < high.size() => Some(high),
            (Kind::Unsigned, Kind::Signed) => match low {
                U8 => Some(I16),
                U16 => Some(I32),
                U32 => Some(I64),
                _ => None,
            },
            (Kind::Float, Kind::Float) if low.is_half() && high.is_half() => Some(F32),
            // A pair of f16 does not have the range of bf16.
            (Kind::Float, Kind::Complex) if low == BF16 => Some(C32.max(high)),
            (Kind::Float, Kind::Complex) => Some(low.complex().max(high)),
            (l, h) if l < h => Some(high),
            _ => Some(if low.size() >= high.size() { low } else { high }),
        };
        found.ok_or_else(|| Error::Value {
            op: "promote",
            what: text(format_args!("no element type holds both {self} and {other}")),
        })
    }

    /// The element type of the result of a tensor of this type and a number, as in PyTorch: the tensor's,
    /// unless the number is of a higher kind. Then it is f32 or, for a complex number, the complex type of
    /// the tensor's floats.
    ///
    /// # Errors
    /// [`Error::Value`] for a quantized type.
    ///
    /// # Examples
    /// ```
    /// use rankform::dtype::{DType, Wrapped};
    /// assert_eq!(DType::I8.with_number(Wrapped::Integer)?, DType::I8);
    /// assert_eq!(DType::I64.with_number(Wrapped::Real)?, DType::F32);
    /// assert_eq!(DType::F64.with_number(Wrapped::Complex)?, DType::C64);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn with_number(self, number: Wrapped) -> Result<DType> {
        match (self.kind(), number) {
            (Kind::Quantized, _) => Err(Error::Value {
                op: "with_number",
                what: text(format_args!("{self} is dequantized before it meets numbers")),
            }),
            (Kind::Bool, Wrapped::Integer) => Ok(DType::I64),
            (Kind::Bool | Kind::Unsigned | Kind::Signed, Wrapped::Real) => Ok(DType::F32),
            (kind, Wrapped::Complex) if kind < Kind::Complex => Ok(self.complex()),
            _ => Ok(self),
        }
    }
}

/// The scalar names followed by `Storage`.
const STORAGES: [&str; ROWS.len()] = [
    "BoolStorage",
    "CharStorage",
    "ShortStorage",
    "IntStorage",
    "LongStorage",
    "ByteStorage",
    "UInt16Storage",
    "UInt32Storage",
    "UInt64Storage",
    "Float8_e4m3fnStorage",
    "Float8_e5m2Storage",
    "HalfStorage",
    "BFloat16Storage",
    "FloatStorage",
    "DoubleStorage",
    "ComplexHalfStorage",
    "ComplexFloatStorage",
    "ComplexDoubleStorage",
    "QInt8Storage",
    "QUInt8Storage",
    "QInt32Storage",
];

fn unknown(op: &'static str, name: &str, what: &str) -> Error {
    Error::Value { op, what: text(format_args!("{name:?} is not the name of {what}")) }
}

/// The name in Rust: `f32`, `Complex<f32>`.
impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().rust)
    }
}

/// From the name in Rust, PyTorch's, its legacy one, or the scalar's.
impl FromStr for DType {
    type Err = Error;
    fn from_str(name: &str) -> Result<DType> {
        let names = |row: &&Row| {
            row.rust == name || row.name == name || row.legacy == Some(name) || row.scalar == name
        };
        let row = ROWS.iter().find(names);
        row.map(|row| row.dtype).ok_or_else(|| unknown("dtype", name, "an element type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants_and_storages_have_the_names_of_scalars() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!((row.dtype as usize, DType::ALL[at]), (at, row.dtype));
            assert_eq!(STORAGES[at], format!("{}Storage", row.scalar));
        }
    }
}
