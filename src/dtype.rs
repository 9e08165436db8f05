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
struct DTypeNames {
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
    /// The name of a storage.
    storage: &'static str,
    /// The name in the language of generated CUDA kernels (`prelude.cuh`).
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    cuda: &'static str,
    /// The type string in `.npy` files: untyped bytes (`V`) for elements that NumPy does not know, as the
    /// package `ml_dtypes` writes them.
    npy: Option<&'static str>,
    /// The name in the header of a safetensors file.
    #[cfg_attr(not(feature = "safetensors"), allow(dead_code))]
    safetensors: Option<&'static str>,
    /// The type code and the bits in DLPack.
    #[cfg_attr(not(feature = "dlpack"), allow(dead_code))]
    dlpack: Option<(u8, u8)>,
}

macro_rules! rows {
    ($(
        $dtype:ident $kind:ident $size:literal $rust:literal $name:literal $legacy:expr, $scalar:literal
        | $cuda:literal $npy:expr, $safetensors:expr, $dlpack:expr;
    )*) => {
        const ROWS: &[DTypeNames] = &[$(
            DTypeNames {
                dtype: DType::$dtype,
                kind: Kind::$kind,
                size: $size,
                rust: $rust,
                name: $name,
                legacy: $legacy,
                scalar: $scalar,
                storage: concat!($scalar, "Storage"),
                cuda: $cuda,
                npy: $npy,
                safetensors: $safetensors,
                dlpack: $dlpack,
            },
        )*];
        impl DType {
            /// Every element type.
            pub const ALL: &'static [DType] = &[$(DType::$dtype),*];
        }
    };
}
rows! {
    // dtype, kind, bytes | Rust, PyTorch, PyTorch's older name, scalar | CUDA, NumPy, safetensors, DLPack
    Bool Bool 1 "bool" "bool" None, "Bool" | "bool" Some("|b1"), Some("BOOL"), Some((6, 8));
    I8 Signed 1 "i8" "int8" None, "Char" | "i8" Some("|i1"), Some("I8"), Some((0, 8));
    I16 Signed 2 "i16" "int16" Some("short"), "Short" | "i16" Some("<i2"), Some("I16"), Some((0, 16));
    I32 Signed 4 "i32" "int32" Some("int"), "Int" | "i32" Some("<i4"), Some("I32"), Some((0, 32));
    I64 Signed 8 "i64" "int64" Some("long"), "Long" | "i64" Some("<i8"), Some("I64"), Some((0, 64));
    U8 Unsigned 1 "u8" "uint8" None, "Byte" | "u8" Some("|u1"), Some("U8"), Some((1, 8));
    U16 Unsigned 2 "u16" "uint16" None, "UInt16" | "u16" Some("<u2"), Some("U16"), Some((1, 16));
    U32 Unsigned 4 "u32" "uint32" None, "UInt32" | "u32" Some("<u4"), Some("U32"), Some((1, 32));
    U64 Unsigned 8 "u64" "uint64" None, "UInt64" | "u64" Some("<u8"), Some("U64"), Some((1, 64));
    F8E4M3 Float 1 "f8e4m3" "float8_e4m3fn" None, "Float8_e4m3fn"
        | "f8e4m3" Some("<V1"), Some("F8_E4M3"), Some((10, 8));
    F8E5M2 Float 1 "f8e5m2" "float8_e5m2" None, "Float8_e5m2"
        | "f8e5m2" Some("<V1"), Some("F8_E5M2"), Some((12, 8));
    F16 Float 2 "f16" "float16" Some("half"), "Half" | "f16" Some("<f2"), Some("F16"), Some((2, 16));
    BF16 Float 2 "bf16" "bfloat16" None, "BFloat16" | "bf16" Some("<V2"), Some("BF16"), Some((4, 16));
    F32 Float 4 "f32" "float32" Some("float"), "Float" | "f32" Some("<f4"), Some("F32"), Some((2, 32));
    F64 Float 8 "f64" "float64" Some("double"), "Double" | "f64" Some("<f8"), Some("F64"), Some((2, 64));
    C16 Complex 4 "Complex<f16>" "complex32" Some("chalf"), "ComplexHalf" | "c16" None, None, Some((5, 32));
    C32 Complex 8 "Complex<f32>" "complex64" Some("cfloat"), "ComplexFloat"
        | "c32" Some("<c8"), Some("C64"), Some((5, 64));
    C64 Complex 16 "Complex<f64>" "complex128" Some("cdouble"), "ComplexDouble"
        | "c64" Some("<c16"), None, Some((5, 128));
    QI8 Quantized 1 "qi8" "qint8" None, "QInt8" | "i8" None, None, None;
    QU8 Quantized 1 "qu8" "quint8" None, "QUInt8" | "u8" None, None, None;
    QI32 Quantized 4 "qi32" "qint32" None, "QInt32" | "i32" None, None, None;
}

/// Passes the variants of [`DType`], as a list in brackets, to a macro.
#[cfg(any(test, feature = "dynamic"))]
macro_rules! each_dtype {
    ($then:ident $($with:tt)*) => {
        $then! {
            [Bool I8 I16 I32 I64 U8 U16 U32 U64 F8E4M3 F8E5M2 F16 BF16 F32 F64 C16 C32 C64 QI8 QU8 QI32]
            $($with)*
        }
    };
}
#[cfg(any(test, feature = "dynamic"))]
pub(crate) use each_dtype;

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
    const fn row(self) -> &'static DTypeNames {
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
    #[inline]
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
        self.row().storage
    }
    /// The element type whose storages have this name.
    ///
    /// # Errors
    /// [`Error::Value`] if no storage has this name.
    pub fn of_storage(name: &str) -> Result<DType> {
        let found = ROWS.iter().find(|row| row.storage == name);
        found.map(|row| row.dtype).ok_or_else(|| unknown("of_storage", name, "a storage"))
    }

    /// Whether its values are integers or booleans that represent themselves.
    #[inline]
    pub const fn is_discrete(self) -> bool {
        matches!(self.kind(), Kind::Bool | Kind::Unsigned | Kind::Signed)
    }
    /// Whether it is a 16-bit float.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }
    /// Whether it is an 8-bit float.
    pub(crate) const fn is_float8(self) -> bool {
        matches!(self.kind(), Kind::Float) && self.size() == 1
    }
    /// Its name in the language of generated CUDA kernels.
    #[cfg(feature = "cuda")]
    pub(crate) const fn cuda_name(self) -> &'static str {
        self.row().cuda
    }
    /// Its type string in `.npy` files, if it has one.
    pub(crate) const fn npy_name(self) -> Option<&'static str> {
        self.row().npy
    }
    /// Its name in safetensors files, if it has one.
    #[cfg(feature = "safetensors")]
    pub(crate) const fn safetensors_name(self) -> Option<&'static str> {
        self.row().safetensors
    }
    /// Its type code and bits in DLPack, if it has them.
    #[cfg(feature = "dlpack")]
    pub(crate) const fn dlpack_code(self) -> Option<(u8, u8)> {
        self.row().dlpack
    }
    /// Whether it is a pair of floats.
    #[inline]
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
        let found = match (low.kind(), high.kind()) {
            _ if low.is_float8() || low.is_quantized() || high.is_quantized() => None,
            _ if high.is_float8() => (low.kind() < Kind::Float).then_some(high),
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
        let names = |row: &&DTypeNames| {
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
    fn rows_are_in_the_order_of_the_variants_and_the_list_names_all() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!((row.dtype as usize, DType::ALL[at]), (at, row.dtype));
        }
        macro_rules! names {
            ([$($name:ident)*]) => { [$(DType::$name),*] };
        }
        assert_eq!(each_dtype!(names), DType::ALL);
    }
}
