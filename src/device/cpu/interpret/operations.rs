//! The operations of the instructions: a function for each step of the operator language and each compute
//! type.
//!
//! They are the functions of compiled loops, and their results have the same bits.
// Imports: `error`, `scalar`, `element`.

use super::instructions::{BinaryLoop, InstructionFn, TernaryLoop, UnaryLoop, binary, ternary, unary};
use crate::element::float8::each_float8;
use crate::element::{self, Element, bf16, f16};
use crate::error::{Error, Result, text};
use crate::scalar::{
    Arith, Bits, Compare, ComplexPrim, DType, IntegerPrim, Logic, MinMaxRem, Node, Num, Ordered, Part, Prim,
    Real, Shift, Unary,
};
use num_complex::Complex;
use std::marker::PhantomData;

const COMPARE: [Compare; 2] = [Compare::Lt, Compare::Le];
const LOGIC: [Logic; 3] = [Logic::And, Logic::Or, Logic::Xor];

struct ArithmeticLoop<P, const OP: usize>(PhantomData<P>);
impl<P: Num, const OP: usize> BinaryLoop for ArithmeticLoop<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::arith(const { Arith::ALL[OP] }, a, b)
    }
}
struct Negated<P>(PhantomData<P>);
impl<P: Num> UnaryLoop for Negated<P> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, _: u32) -> P {
        P::negate(a)
    }
}
struct MinMaxRemLoop<P, const OP: usize>(PhantomData<P>);
impl<P: Ordered, const OP: usize> BinaryLoop for MinMaxRemLoop<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::order(const { MinMaxRem::ALL[OP] }, a, b)
    }
}
struct Compared<P, const OP: usize>(PhantomData<P>);
impl<P: Ordered, const OP: usize> BinaryLoop for Compared<P, OP> {
    type A = P;
    type Out = bool;
    #[inline(always)]
    fn of(a: P, b: P) -> bool {
        P::compare(const { COMPARE[OP] }, a, b)
    }
}
struct Equal<P>(PhantomData<P>);
impl<P: Prim> BinaryLoop for Equal<P> {
    type A = P;
    type Out = bool;
    #[inline(always)]
    fn of(a: P, b: P) -> bool {
        a == b
    }
}
struct Logical<P, const OP: usize>(PhantomData<P>);
impl<P: Bits, const OP: usize> BinaryLoop for Logical<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::logic(const { LOGIC[OP] }, a, b)
    }
}
struct Shifted<P, const LEFT: bool>(PhantomData<P>);
impl<P: IntegerPrim, const LEFT: bool> UnaryLoop for Shifted<P, LEFT> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, by: u32) -> P {
        P::shift(if LEFT { Shift::Left } else { Shift::Right }, a, by)
    }
}
struct UnaryOp<P, const OP: usize>(PhantomData<P>);
impl<P: Real, const OP: usize> UnaryLoop for UnaryOp<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, _: u32) -> P {
        P::unary(const { Unary::ALL[OP] }, a)
    }
}
struct Fused<P>(PhantomData<P>);
impl<P: Real> TernaryLoop for Fused<P> {
    type A = P;
    type B = P;
    #[inline(always)]
    fn of(a: P, b: P, c: P) -> P {
        P::fused(a, b, c)
    }
}
/// Selects by width alone: the values are only moved.
struct Selected<W>(PhantomData<W>);
impl<W: Copy> TernaryLoop for Selected<W> {
    type A = bool;
    type B = W;
    #[inline(always)]
    fn of(mask: bool, a: W, b: W) -> W {
        if mask { a } else { b }
    }
}
/// Copies by width alone.
struct Copied<W>(PhantomData<W>);
impl<W: Copy> UnaryLoop for Copied<W> {
    type A = W;
    type Out = W;
    #[inline(always)]
    fn of(a: W, _: u32) -> W {
        a
    }
}
struct Converted<P, U>(PhantomData<(P, U)>);
impl<P: Prim, U: Prim> UnaryLoop for Converted<P, U> {
    type A = P;
    type Out = U;
    #[inline(always)]
    fn of(a: P, _: u32) -> U {
        a.cast()
    }
}
struct Widened<T>(PhantomData<T>);
impl<T: Element> UnaryLoop for Widened<T> {
    type A = T;
    type Out = T::Compute;
    #[inline(always)]
    fn of(a: T, _: u32) -> T::Compute {
        a.widen()
    }
}
struct Narrowed<T>(PhantomData<T>);
impl<T: Element> UnaryLoop for Narrowed<T> {
    type A = T::Compute;
    type Out = T;
    #[inline(always)]
    fn of(a: T::Compute, _: u32) -> T {
        T::narrow(a)
    }
}
struct PartOf<P, const RE: bool>(PhantomData<P>);
impl<P: ComplexPrim, const RE: bool> UnaryLoop for PartOf<P, RE> {
    type A = P;
    type Out = P::Part;
    #[inline(always)]
    fn of(a: P, _: u32) -> P::Part {
        P::part(if RE { Part::Re } else { Part::Im }, a)
    }
}
struct Paired<P>(PhantomData<P>);
impl<P: ComplexPrim> BinaryLoop for Paired<P> {
    type A = P::Part;
    type Out = P;
    #[inline(always)]
    fn of(re: P::Part, im: P::Part) -> P {
        P::complex(re, im)
    }
}

/// Evaluates an expression with the compute type of a dynamic type.
macro_rules! with_type {
    ($dtype:expr, [$($name:ident $t:ty),*], |$P:ident| $body:expr) => {
        match $dtype {
            $(DType::$name => { type $P = $t; $body })*
            _ => return None,
        }
    };
}
/// The unsigned type of the same width: signed integers are added, subtracted and multiplied as unsigned
/// ones.
fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    }
}

/// A step of a program that the interpreter has; an error, if it has not.
pub(super) fn known<T>(step: Option<T>) -> Result<T> {
    step.ok_or_else(|| Error::Value {
        op: "interpret",
        what: text(format_args!("the interpreter has no instruction for a step of this program")),
    })
}

/// The loop of a step on operands of type `of`, if the language has this step. [`cast`] gives the loops of
/// casts.
pub(super) fn find(node: Node, of: DType) -> Option<InstructionFn> {
    macro_rules! by_op {
        ($pick:ident $kind:ident [$($op:literal),*] $at:expr, $P:ident) => {
            match $at { $($op => $pick::<$kind<$P, $op>>(),)* _ => return None }
        };
    }
    Some(match node {
        Node::Arith(Arith::Div) => with_type!(
            of,
            [
                I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
                C32 Complex<f32>, C64 Complex<f64>
            ],
            |P| binary::<ArithmeticLoop<P, 3>>()
        ),
        Node::Arith(op) => with_type!(
            unsigned(of),
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| by_op!(binary ArithmeticLoop [0, 1, 2] op as usize, P)
        ),
        Node::Negate => with_type!(
            unsigned(of),
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| unary::<Negated<P>>()
        ),
        Node::Order(op) => with_type!(
            of,
            [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64],
            |P| by_op!(binary MinMaxRemLoop [0, 1, 2] op as usize, P)
        ),
        Node::Compare(op) => with_type!(
            of,
            [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64],
            |P| by_op!(binary Compared [0, 1] op as usize, P)
        ),
        Node::Equal => with_type!(
            if of == DType::Bool { DType::U8 } else { unsigned(of) },
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| binary::<Equal<P>>()
        ),
        Node::Logic(op) => with_type!(
            if of == DType::Bool { DType::U8 } else { unsigned(of) },
            [U8 u8, U16 u16, U32 u32, U64 u64],
            |P| by_op!(binary Logical [0, 1, 2] op as usize, P)
        ),
        Node::Shift(Shift::Left, _) => {
            with_type!(unsigned(of), [U8 u8, U16 u16, U32 u32, U64 u64], |P| unary::<Shifted<P, true>>())
        }
        Node::Shift(Shift::Right, _) => with_type!(
            of,
            [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64],
            |P| unary::<Shifted<P, false>>()
        ),
        Node::Unary(op) => {
            with_type!(of, [F32 f32, F64 f64], |P| by_op!(unary UnaryOp [0, 1, 2, 3, 4, 5] op as usize, P))
        }
        Node::MulAdd => with_type!(of, [F32 f32, F64 f64], |P| ternary::<Fused<P>>()),
        Node::Part(Part::Re) => {
            with_type!(of, [C32 Complex<f32>, C64 Complex<f64>], |P| unary::<PartOf<P, true>>())
        }
        Node::Part(Part::Im) => {
            with_type!(of, [C32 Complex<f32>, C64 Complex<f64>], |P| unary::<PartOf<P, false>>())
        }
        Node::Complex => match of {
            DType::F32 => binary::<Paired<Complex<f32>>>(),
            DType::F64 => binary::<Paired<Complex<f64>>>(),
            _ => return None,
        },
        _ => return None,
    })
}

/// The loop that selects between values of `width` bytes.
pub(super) fn select(width: usize) -> Option<InstructionFn> {
    Some(match width {
        1 => ternary::<Selected<u8>>(),
        2 => ternary::<Selected<u16>>(),
        4 => ternary::<Selected<u32>>(),
        8 => ternary::<Selected<u64>>(),
        16 => ternary::<Selected<[u64; 2]>>(),
        _ => return None,
    })
}

/// The loop that copies values of `width` bytes.
pub(super) fn copy(width: usize) -> Option<InstructionFn> {
    Some(match width {
        1 => unary::<Copied<u8>>(),
        2 => unary::<Copied<u16>>(),
        4 => unary::<Copied<u32>>(),
        8 => unary::<Copied<u64>>(),
        16 => unary::<Copied<[u64; 2]>>(),
        _ => return None,
    })
}

/// The first step of a cast from one type to another.
pub(super) enum CastStep {
    /// The value already has the bytes of the other type.
    Nothing,
    /// A loop, whose results have the type that is named.
    Loop(InstructionFn, DType),
    /// A comparison with 0.
    BoolElement,
    /// Clamps to two limits in the type itself, before the value becomes a narrower integer.
    Clamp([i32; 2]),
    /// A complex number with imaginary part 0.
    WithZero,
}

/// The cast from an 8-bit float to `f32`, or back.
fn cast_float8(from: DType, to: DType) -> Option<CastStep> {
    macro_rules! casts {
        ([$($t:ident)*]) => {
            match (from, to) {
                $((DType::$t, DType::F32) => Some(CastStep::Loop(unary::<Widened<element::$t>>(), to)),
                (DType::F32, DType::$t) => Some(CastStep::Loop(unary::<Narrowed<element::$t>>(), to)),)*
                _ => None,
            }
        };
    }
    each_float8!(casts)
}

/// The first step of a cast from type `from` to type `to`; the cast continues from its result.
///
/// Storage types are cast from and to the compute types that they are computed in.
pub(super) fn cast(from: DType, to: DType) -> Option<CastStep> {
    use DType::*;
    let size = |dtype: DType| dtype.size();
    let is_whole = |dtype: DType| matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64);
    macro_rules! loops {
        ($($from:ident $a:ty => $($to:ident $b:ty),+;)+) => {
            match (from, to) {
                $($((DType::$from, DType::$to) => CastStep::Loop(unary::<Converted<$a, $b>>(), to),)+)+
                _ => return None,
            }
        };
    }
    let via = |middle: DType| cast(from, middle);
    Some(match (from, to) {
        _ if from == to => CastStep::Nothing,
        // From storage types to compute types, and back.
        (F16, F32) => CastStep::Loop(unary::<Widened<f16>>(), F32),
        (BF16, F32) => CastStep::Loop(unary::<Widened<bf16>>(), F32),
        (float8, F32) | (F32, float8) if float8.is_float8() => return cast_float8(from, to),
        (C16, C32) => CastStep::Loop(unary::<Widened<Complex<f16>>>(), C32),
        (F32, F16) => CastStep::Loop(unary::<Narrowed<f16>>(), F16),
        (F32, BF16) => CastStep::Loop(unary::<Narrowed<bf16>>(), BF16),
        (C32, C16) => CastStep::Loop(unary::<Narrowed<Complex<f16>>>(), C16),
        (QI8, I8) | (I8, QI8) | (QU8, U8) | (U8, QU8) | (QI32, I32) | (I32, QI32) => CastStep::Nothing,
        // A boolean is 0 or 1.
        (Bool, U8 | I8) => CastStep::Nothing,
        (Bool, _) => return cast(U8, to),
        (_, Bool) => CastStep::BoolElement,
        // Integers lose their high bytes, or gain some by sign extension.
        _ if is_whole(from) && is_whole(to) => {
            if size(from) == size(to) {
                return Some(CastStep::Nothing);
            }
            // A narrowing cast loses the sign with the high bytes.
            let from = if size(to) < size(from) { unsigned(from) } else { from };
            let wanted = unsigned(to);
            macro_rules! whole {
                ($($a:ident $x:ty => $($b:ident $y:ty),+;)+) => {
                    match (from, wanted) {
                        $($((DType::$a, DType::$b) => unary::<Converted<$x, $y>>(),)+)+
                        _ => return None,
                    }
                };
            }
            CastStep::Loop(
                whole! {
                    U8 u8 => U16 u16, U32 u32, U64 u64;
                    U16 u16 => U8 u8, U32 u32, U64 u64;
                    U32 u32 => U8 u8, U16 u16, U64 u64;
                    U64 u64 => U8 u8, U16 u16, U32 u32;
                    I8 i8 => U16 u16, U32 u32, U64 u64;
                    I16 i16 => U32 u32, U64 u64;
                    I32 i32 => U64 u64;
                },
                to,
            )
        }
        // Narrow integers are exact in `i32`, and 32-bit ones in `i64`.
        (I8 | I16 | U8 | U16, F32 | F64) => return via(I32),
        (U32, F32 | F64) => return via(I64),
        (F32 | F64, I8) => CastStep::Clamp([i8::MIN.into(), i8::MAX.into()]),
        (F32 | F64, I16) => CastStep::Clamp([i16::MIN.into(), i16::MAX.into()]),
        (F32 | F64, U8) => CastStep::Clamp([0, u8::MAX.into()]),
        (F32 | F64, U16) => CastStep::Clamp([0, u16::MAX.into()]),
        (F32, U32 | I64 | U64) => return via(F64),
        // In two steps: the real part first.
        (C32, C64) => CastStep::Loop(unary::<Converted<Complex<f32>, Complex<f64>>>(), C64),
        (C64, C32) => CastStep::Loop(unary::<Converted<Complex<f64>, Complex<f32>>>(), C32),
        (C32, F64) => CastStep::Loop(unary::<Converted<Complex<f32>, f64>>(), F64),
        (C32, F32) => CastStep::Loop(unary::<Converted<Complex<f32>, f32>>(), F32),
        (C64, F64) => CastStep::Loop(unary::<Converted<Complex<f64>, f64>>(), F64),
        (C32 | C64, _) => return via(F64),
        (F32, C32) | (F64, C64) => CastStep::WithZero,
        (_, C32) => return via(F32),
        (_, C64) => return via(F64),
        _ => loops! {
            I32 i32 => F32 f32, F64 f64;
            I64 i64 => F32 f32, F64 f64;
            U64 u64 => F32 f32, F64 f64;
            F32 f32 => F64 f64, I32 i32;
            F64 f64 => F32 f32, I32 i32, U32 u32, I64 i64, U64 u64;
        },
    })
}
