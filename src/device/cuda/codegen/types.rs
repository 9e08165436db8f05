//! Elements and states in CUDA C++: names, sizes, literals, and the elements and states that kernels cannot
//! use.
// Imports: `error`, `scalar`, `element`, `kernel`.

use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Accumulator, LaneVisitor, Reducer};
use crate::scalar::{DType, Eval, Lane, Prim};

/// Refuses elements that kernels cannot compute with, because their type in C++ lacks their conversions.
///
/// # Errors
/// [`Error::Value`] if `element`, the name of such an element, is not `None`.
pub(in crate::device::cuda) fn ensure_computable(
    op: &'static str,
    element: Option<&'static str>,
) -> Result<()> {
    let what = |name| {
        text(format_args!(
            "a GPU cannot compute with `{name}`, which has conversions of its own (it is not `PLAIN`)"
        ))
    };
    element.map_or(Ok(()), |name| Err(Error::Value { op, what: what(name) }))
}

/// The name of an element that kernels cannot compute with, or `None`.
pub(in crate::device::cuda) fn unsupported<T: Element>() -> Option<&'static str> {
    if T::PLAIN { None } else { Some(std::any::type_name::<T>()) }
}

/// The name of an element's type in C++.
pub(crate) fn c_type(dtype: DType) -> &'static str {
    dtype.cuda_name()
}

/// Bytes of a value in C++, and its alignment.
pub(in crate::device::cuda) fn c_size(dtype: DType) -> (usize, usize) {
    (dtype.size(), dtype.part().size())
}

/// A constant of a body, with the same bits.
pub(in crate::device::cuda) fn literal(bytes: [u8; 16], dtype: DType) -> String {
    let word = |at: usize, n: usize| {
        bytes[at..at + n].iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte))
    };
    let f32_at = |at| format!("FromBits((u32)0x{:08x}u)", word(at, 4));
    let f64_at = |at| format!("FromBits((u64)0x{:016x}ull)", word(at, 8));
    match dtype {
        DType::Bool => (bytes[0] != 0).to_string(),
        DType::F32 => f32_at(0),
        DType::F64 => f64_at(0),
        DType::C32 => format!("Complex({}, {})", f32_at(0), f32_at(4)),
        DType::C64 => format!("Complex({}, {})", f64_at(0), f64_at(8)),
        float8 if float8.is_float8() => format!("{}{{(u8)0x{:02x}}}", c_type(dtype), bytes[0]),
        DType::C16 => format!("c16{{(u16)0x{:04x}, (u16)0x{:04x}}}", word(0, 2), word(2, 2)),
        DType::F16 | DType::BF16 => format!("{}{{(u16)0x{:04x}}}", c_type(dtype), word(0, 2)),
        integer => format!("({})0x{:x}ull", c_type(integer), word(0, c_size(integer).0)),
    }
}

/// Bytes of static shared memory of a block.
const SHARED_BYTES: usize = 48 << 10;

/// Checks that a state for each thread fits in shared memory.
///
/// # Errors
/// [`Error::Value`] if it does not.
pub(in crate::device::cuda) fn ensure_states_fit(
    op: &'static str,
    threads: usize,
    state: usize,
) -> Result<()> {
    if threads * state <= SHARED_BYTES {
        return Ok(());
    }
    let what = text(format_args!(
        "a state of {state} bytes: {threads} threads share {SHARED_BYTES} bytes of a GPU, {} for each",
        SHARED_BYTES / threads
    ));
    Err(Error::Value { op, what })
}

/// Bytes of a struct of these fields in C++.
pub(in crate::device::cuda) fn size_of_fields(dtypes: &[DType]) -> usize {
    let (mut end, mut widest) = (0usize, 1);
    for &dtype in dtypes {
        let (size, alignment) = c_size(dtype);
        (end, widest) = (end.next_multiple_of(alignment) + size, widest.max(alignment));
    }
    end.next_multiple_of(widest).max(1)
}

/// Bytes of one state of a reducer in C++.
pub(in crate::device::cuda) fn state_size<T: Element, R: Reducer<T>>() -> usize {
    /// The end of the last field, and the widest alignment so far.
    struct Fields(usize, usize);
    impl LaneVisitor<Eval> for Fields {
        fn lane<P: Prim>(&mut self, lane: Lane<Eval, P>) -> Lane<Eval, P> {
            let (size, alignment) = c_size(P::DTYPE);
            self.0 = self.0.next_multiple_of(alignment) + size;
            self.1 = self.1.max(alignment);
            lane
        }
    }
    let mut fields = Fields(0, 1);
    R::identity::<Eval>().each(&mut fields);
    fields.0.next_multiple_of(fields.1).max(1)
}
