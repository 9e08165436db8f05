//! The steps of the operator language as loops over columns, each compiled once for each machine type.
//!
//! A column is a number of chunks of 32 values. A step goes over some rows of some chunks; an operand that is the same at every
//! position has one chunk, which does not move. Loops are whole chunks: the ends of rows are brought into chunks before.
// Imports: `scalar`, `element`.

use super::super::simd::{self, Level};
use crate::element::{self, Element, bf16, f16};
use crate::scalar::{
    Arith, Bits, Compare, ComplexPrim, DType, IntegerPrim, Logic, MinMaxRem, Node, Num, Ordered, Part, Prim,
    Real, Shift, Unary,
};
use num_complex::Complex;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Values of a chunk.
pub(super) const WIDTH: usize = 32;

/// Where a column stands: its first chunk, the bytes from chunk to chunk (of one, or 0), and from row to row.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: *mut u8,
    pub(super) along: isize,
    pub(super) down: isize,
}

impl Place {
    pub(super) const NONE: Place = Place { at: std::ptr::null_mut(), along: 0, down: 0 };
}

/// What a loop reads: the first chunk, and the bytes from chunk to chunk.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    at: *const u8,
    along: isize,
}

/// The loop of a step over one row, for the instructions that this processor has. That what is written is an argument by itself
/// tells the compiler that it is none of what is read.
///
/// # Safety
/// `out` is a number of chunks, and so is what is read, of the types that the loop was made for.
pub(super) type StepFn = unsafe fn(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], by: u32);

/// One step: its loop, the columns that it writes and reads, by number, how many it reads, bytes of a value that it writes, and how
/// far it shifts.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) run: StepFn,
    pub(super) out: u16,
    pub(super) args: [u16; 3],
    pub(super) count: u8,
    pub(super) width: u8,
    pub(super) by: u32,
}

impl Step {
    /// Runs it over `rows` rows of `chunks` chunks.
    ///
    /// # Safety
    /// The columns that it names have so many, of the types that its loop was made for; the one that it writes is none of those
    /// that it reads.
    pub(super) unsafe fn run(&self, places: &[Place], mut rows: usize, mut chunks: usize) {
        // What is written, then what is read.
        let mut all = [places[self.out as usize]; 4];
        for (place, &arg) in all[1..].iter_mut().zip(&self.args[..self.count as usize]) {
            *place = places[arg as usize];
        }
        let all = &mut all[..=self.count as usize];
        if rows > 1 && all.iter().all(|place| place.down == place.along * chunks as isize) {
            // Every column goes on from row to row as it does from chunk to chunk.
            (rows, chunks) = (1, rows * chunks);
        } else if rows > 1 && chunks == 1 && all[0].down == all[0].along {
            // A row is a chunk.
            all.iter_mut().for_each(|place| place.along = place.down);
            (rows, chunks) = (1, rows);
        }
        let nbytes = chunks * WIDTH * self.width as usize;
        for row in 0..rows as isize {
            let at = |place: &Place| place.at.wrapping_offset(row.wrapping_mul(place.down));
            let mut args = [Arg { at: std::ptr::null(), along: 0 }; 3];
            for (arg, place) in args.iter_mut().zip(&all[1..]) {
                *arg = Arg { at: at(place), along: place.along };
            }
            // SAFETY: the caller's promise.
            unsafe { (self.run)(std::slice::from_raw_parts_mut(at(&all[0]).cast(), nbytes), &args, self.by) };
        }
    }
}

/// A step of one value.
trait One {
    type A: Copy;
    type Out: Copy;
    fn of(a: Self::A, by: u32) -> Self::Out;
}
/// A step of two values.
trait Two {
    type A: Copy;
    type Out: Copy;
    fn of(a: Self::A, b: Self::A) -> Self::Out;
}
/// A step of three values.
trait Three {
    type A: Copy;
    type B: Copy;
    fn of(a: Self::A, b: Self::B, c: Self::B) -> Self::B;
}

/// What is written, as chunks of values.
///
/// # Safety
/// It is a number of such chunks.
#[inline(always)]
unsafe fn chunks<T>(out: &mut [MaybeUninit<u8>]) -> &mut [[MaybeUninit<T>; WIDTH]] {
    let count = out.len() / (WIDTH * size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), count) }
}

/// One loop for each instruction set and number of operands. A chunk is a function of its own, whose arguments say that what is
/// written is none of what is read: without that, and with debug assertions, the compiler takes value by value.
macro_rules! loops {
    ($(#[$feature:meta])* $one:ident $two:ident $three:ident) => {
        $(#[$feature])*
        unsafe fn $one<K: One>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], by: u32) {
            #[inline(always)]
            fn chunk<K: One>(out: &mut [MaybeUninit<K::Out>; WIDTH], a: &[K::A; WIDTH], by: u32) {
                for j in 0..WIDTH {
                    out[j].write(K::of(a[j], by));
                }
            }
            let [mut a, ..] = *args;
            // SAFETY: the caller's promise.
            for out in unsafe { chunks::<K::Out>(out) } {
                // SAFETY: as above.
                unsafe { chunk::<K>(out, &*a.at.cast(), by) };
                a.at = a.at.wrapping_offset(a.along);
            }
        }
        $(#[$feature])*
        unsafe fn $two<K: Two>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], _: u32) {
            #[inline(always)]
            fn chunk<K: Two>(out: &mut [MaybeUninit<K::Out>; WIDTH], a: &[K::A; WIDTH], b: &[K::A; WIDTH]) {
                for j in 0..WIDTH {
                    out[j].write(K::of(a[j], b[j]));
                }
            }
            let [mut a, mut b, _] = *args;
            // SAFETY: the caller's promise.
            for out in unsafe { chunks::<K::Out>(out) } {
                // SAFETY: as above.
                unsafe { chunk::<K>(out, &*a.at.cast(), &*b.at.cast()) };
                (a.at, b.at) = (a.at.wrapping_offset(a.along), b.at.wrapping_offset(b.along));
            }
        }
        $(#[$feature])*
        unsafe fn $three<K: Three>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], _: u32) {
            #[inline(always)]
            fn chunk<K: Three>(out: &mut [MaybeUninit<K::B>; WIDTH], a: &[K::A; WIDTH], b: &[K::B; WIDTH], c: &[K::B; WIDTH]) {
                for j in 0..WIDTH {
                    out[j].write(K::of(a[j], b[j], c[j]));
                }
            }
            let [mut a, mut b, mut c] = *args;
            // SAFETY: the caller's promise.
            for out in unsafe { chunks::<K::B>(out) } {
                // SAFETY: as above.
                unsafe { chunk::<K>(out, &*a.at.cast(), &*b.at.cast(), &*c.at.cast()) };
                (a.at, b.at) = (a.at.wrapping_offset(a.along), b.at.wrapping_offset(b.along));
                c.at = c.at.wrapping_offset(c.along);
            }
        }
    };
}
loops!(one_plain two_plain three_plain);
#[cfg(target_arch = "x86_64")]
loops!(#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")] one_avx2 two_avx2 three_avx2);
#[cfg(target_arch = "x86_64")]
loops!(
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    one_avx512 two_avx512 three_avx512
);

/// The copy of a loop for this processor.
macro_rules! pick {
    ($name:ident $kind:ident $plain:ident $avx2:ident $avx512:ident) => {
        fn $name<K: $kind>() -> StepFn {
            match simd::level() {
                Level::Baseline => $plain::<K>,
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => $avx2::<K>,
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => $avx512::<K>,
            }
        }
    };
}
pick!(one One one_plain one_avx2 one_avx512);
pick!(two Two two_plain two_avx2 two_avx512);
pick!(three Three three_plain three_avx2 three_avx512);

// ---------------------------------------------------------------- the steps

const COMPARE: [Compare; 2] = [Compare::Lt, Compare::Le];
const LOGIC: [Logic; 3] = [Logic::And, Logic::Or, Logic::Xor];

struct Arithmetic<P, const OP: usize>(PhantomData<P>);
impl<P: Num, const OP: usize> Two for Arithmetic<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::arith(const { Arith::ALL[OP] }, a, b)
    }
}
struct Negated<P>(PhantomData<P>);
impl<P: Num> One for Negated<P> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, _: u32) -> P {
        P::negate(a)
    }
}
struct Chosen<P, const OP: usize>(PhantomData<P>);
impl<P: Ordered, const OP: usize> Two for Chosen<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::order(const { MinMaxRem::ALL[OP] }, a, b)
    }
}
struct Compared<P, const OP: usize>(PhantomData<P>);
impl<P: Ordered, const OP: usize> Two for Compared<P, OP> {
    type A = P;
    type Out = bool;
    #[inline(always)]
    fn of(a: P, b: P) -> bool {
        P::compare(const { COMPARE[OP] }, a, b)
    }
}
struct Same<P>(PhantomData<P>);
impl<P: Prim> Two for Same<P> {
    type A = P;
    type Out = bool;
    #[inline(always)]
    fn of(a: P, b: P) -> bool {
        a == b
    }
}
struct Logical<P, const OP: usize>(PhantomData<P>);
impl<P: Bits, const OP: usize> Two for Logical<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, b: P) -> P {
        P::logic(const { LOGIC[OP] }, a, b)
    }
}
struct Shifted<P, const LEFT: bool>(PhantomData<P>);
impl<P: IntegerPrim, const LEFT: bool> One for Shifted<P, LEFT> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, by: u32) -> P {
        P::shift(if LEFT { Shift::Left } else { Shift::Right }, a, by)
    }
}
struct Exact<P, const OP: usize>(PhantomData<P>);
impl<P: Real, const OP: usize> One for Exact<P, OP> {
    type A = P;
    type Out = P;
    #[inline(always)]
    fn of(a: P, _: u32) -> P {
        P::unary(const { Unary::ALL[OP] }, a)
    }
}
struct Fused<P>(PhantomData<P>);
impl<P: Real> Three for Fused<P> {
    type A = P;
    type B = P;
    #[inline(always)]
    fn of(a: P, b: P, c: P) -> P {
        P::fused(a, b, c)
    }
}
/// By width alone: nothing is computed with what is chosen.
struct Selected<W>(PhantomData<W>);
impl<W: Copy> Three for Selected<W> {
    type A = bool;
    type B = W;
    #[inline(always)]
    fn of(mask: bool, a: W, b: W) -> W {
        if mask { a } else { b }
    }
}
/// By width alone.
struct Copied<W>(PhantomData<W>);
impl<W: Copy> One for Copied<W> {
    type A = W;
    type Out = W;
    #[inline(always)]
    fn of(a: W, _: u32) -> W {
        a
    }
}
struct Converted<P, U>(PhantomData<(P, U)>);
impl<P: Prim, U: Prim> One for Converted<P, U> {
    type A = P;
    type Out = U;
    #[inline(always)]
    fn of(a: P, _: u32) -> U {
        a.cast()
    }
}
struct Widened<T>(PhantomData<T>);
impl<T: Element> One for Widened<T> {
    type A = T;
    type Out = T::Compute;
    #[inline(always)]
    fn of(a: T, _: u32) -> T::Compute {
        a.widen()
    }
}
struct Narrowed<T>(PhantomData<T>);
impl<T: Element> One for Narrowed<T> {
    type A = T::Compute;
    type Out = T;
    #[inline(always)]
    fn of(a: T::Compute, _: u32) -> T {
        T::narrow(a)
    }
}
struct PartOf<P, const RE: bool>(PhantomData<P>);
impl<P: ComplexPrim, const RE: bool> One for PartOf<P, RE> {
    type A = P;
    type Out = P::Part;
    #[inline(always)]
    fn of(a: P, _: u32) -> P::Part {
        P::part(if RE { Part::Re } else { Part::Im }, a)
    }
}
struct Paired<P>(PhantomData<P>);
impl<P: ComplexPrim> Two for Paired<P> {
    type A = P::Part;
    type Out = P;
    #[inline(always)]
    fn of(re: P::Part, im: P::Part) -> P {
        P::complex(re, im)
    }
}

// ---------------------------------------------------------------- which loop is whose

/// Calls a macro with the machine type of a name.
macro_rules! with_type {
    ($dtype:expr, [$($name:ident $t:ty),*], |$P:ident| $body:expr) => {
        match $dtype {
            $(DType::$name => { type $P = $t; $body })*
            _ => return None,
        }
    };
}
/// Whole numbers with a sign are added, subtracted and multiplied as those without.
fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    }
}

/// The loop of a step on operands of type `of`, if the language has such a step. Casts are apart: see [`cast`].
pub(super) fn find(node: Node, of: DType) -> Option<StepFn> {
    macro_rules! by_op {
        ($pick:ident $kind:ident [$($op:literal),*] $at:expr, $P:ident) => {
            match $at { $($op => $pick::<$kind<$P, $op>>(),)* _ => return None }
        };
    }
    Some(match node {
        Node::Arith(Arith::Div) => with_type!(
            of,
            [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| two::<Arithmetic<P, 3>>()
        ),
        Node::Arith(op) => with_type!(
            unsigned(of),
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| by_op!(two Arithmetic [0, 1, 2] op as usize, P)
        ),
        Node::Negate => with_type!(
            unsigned(of),
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| one::<Negated<P>>()
        ),
        Node::Order(op) => with_type!(
            of,
            [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64],
            |P| by_op!(two Chosen [0, 1, 2] op as usize, P)
        ),
        Node::Compare(op) => with_type!(
            of,
            [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64],
            |P| by_op!(two Compared [0, 1] op as usize, P)
        ),
        Node::Equal => with_type!(
            if of == DType::Bool { DType::U8 } else { unsigned(of) },
            [U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, C32 Complex<f32>, C64 Complex<f64>],
            |P| two::<Same<P>>()
        ),
        Node::Logic(op) => with_type!(
            if of == DType::Bool { DType::U8 } else { unsigned(of) },
            [U8 u8, U16 u16, U32 u32, U64 u64],
            |P| by_op!(two Logical [0, 1, 2] op as usize, P)
        ),
        Node::Shift(Shift::Left, _) => {
            with_type!(unsigned(of), [U8 u8, U16 u16, U32 u32, U64 u64], |P| one::<Shifted<P, true>>())
        }
        Node::Shift(Shift::Right, _) => with_type!(
            of,
            [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64],
            |P| one::<Shifted<P, false>>()
        ),
        Node::Unary(op) => {
            with_type!(of, [F32 f32, F64 f64], |P| by_op!(one Exact [0, 1, 2, 3, 4, 5] op as usize, P))
        }
        Node::MulAdd => with_type!(of, [F32 f32, F64 f64], |P| three::<Fused<P>>()),
        Node::Part(Part::Re) => {
            with_type!(of, [C32 Complex<f32>, C64 Complex<f64>], |P| one::<PartOf<P, true>>())
        }
        Node::Part(Part::Im) => {
            with_type!(of, [C32 Complex<f32>, C64 Complex<f64>], |P| one::<PartOf<P, false>>())
        }
        Node::Complex => match of {
            DType::F32 => two::<Paired<Complex<f32>>>(),
            DType::F64 => two::<Paired<Complex<f64>>>(),
            _ => return None,
        },
        _ => return None,
    })
}

/// The loop that chooses between values of so many bytes.
pub(super) fn select(width: usize) -> Option<StepFn> {
    Some(match width {
        1 => three::<Selected<u8>>(),
        2 => three::<Selected<u16>>(),
        4 => three::<Selected<u32>>(),
        8 => three::<Selected<u64>>(),
        16 => three::<Selected<[u64; 2]>>(),
        _ => return None,
    })
}

/// The loop that copies values of so many bytes.
pub(super) fn copy(width: usize) -> Option<StepFn> {
    Some(match width {
        1 => one::<Copied<u8>>(),
        2 => one::<Copied<u16>>(),
        4 => one::<Copied<u32>>(),
        8 => one::<Copied<u64>>(),
        16 => one::<Copied<[u64; 2]>>(),
        _ => return None,
    })
}

/// One step on the way from a type to another.
pub(super) enum Cast {
    /// The bytes are those of the other type.
    Nothing,
    /// A loop, which gives values of this type.
    Loop(StepFn, DType),
    /// Whether it is not 0.
    BoolElement,
    /// No less than one number and no more than another, in the type itself: whole numbers that are cut short next.
    Clamp([i32; 2]),
    /// A complex number with no imaginary part.
    WithZero,
}

/// The first step on the way from type `from` to type `to`; what it gives is then the start of the rest.
///
/// Types in memory are cast from and to the machine types that they are computed in.
pub(super) fn cast(from: DType, to: DType) -> Option<Cast> {
    use DType::*;
    let size = |dtype: DType| dtype.size();
    let is_whole = |dtype: DType| matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64);
    macro_rules! loops {
        ($($from:ident $a:ty => $($to:ident $b:ty),+;)+) => {
            match (from, to) { $($((DType::$from, DType::$to) => Cast::Loop(one::<Converted<$a, $b>>(), to),)+)+ _ => return None }
        };
    }
    let via = |middle: DType| cast(from, middle);
    Some(match (from, to) {
        _ if from == to => Cast::Nothing,
        // As stored, and as computed.
        (F16, F32) => Cast::Loop(one::<Widened<f16>>(), F32),
        (BF16, F32) => Cast::Loop(one::<Widened<bf16>>(), F32),
        (F8E4M3, F32) => Cast::Loop(one::<Widened<element::F8E4M3>>(), F32),
        (F8E5M2, F32) => Cast::Loop(one::<Widened<element::F8E5M2>>(), F32),
        (C16, C32) => Cast::Loop(one::<Widened<Complex<f16>>>(), C32),
        (F32, F16) => Cast::Loop(one::<Narrowed<f16>>(), F16),
        (F32, BF16) => Cast::Loop(one::<Narrowed<bf16>>(), BF16),
        (F32, F8E4M3) => Cast::Loop(one::<Narrowed<element::F8E4M3>>(), F8E4M3),
        (F32, F8E5M2) => Cast::Loop(one::<Narrowed<element::F8E5M2>>(), F8E5M2),
        (C32, C16) => Cast::Loop(one::<Narrowed<Complex<f16>>>(), C16),
        (QI8, I8) | (I8, QI8) | (QU8, U8) | (U8, QU8) | (QI32, I32) | (I32, QI32) => Cast::Nothing,
        // A truth is 0 or 1.
        (Bool, U8 | I8) => Cast::Nothing,
        (Bool, _) => return cast(U8, to),
        (_, Bool) => Cast::BoolElement,
        // Whole numbers lose their high bytes, or gain some by their sign.
        _ if is_whole(from) && is_whole(to) => {
            if size(from) == size(to) {
                return Some(Cast::Nothing);
            }
            // What narrows loses its sign with its high bytes.
            let from = if size(to) < size(from) { unsigned(from) } else { from };
            let wanted = unsigned(to);
            macro_rules! whole {
                ($($a:ident $x:ty => $($b:ident $y:ty),+;)+) => {
                    match (from, wanted) { $($((DType::$a, DType::$b) => one::<Converted<$x, $y>>(),)+)+ _ => return None }
                };
            }
            Cast::Loop(
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
        // Narrow whole numbers are exact in 32 bits with a sign, and those in 64.
        (I8 | I16 | U8 | U16, F32 | F64) => return via(I32),
        (U32, F32 | F64) => return via(I64),
        (F32 | F64, I8) => Cast::Clamp([i8::MIN.into(), i8::MAX.into()]),
        (F32 | F64, I16) => Cast::Clamp([i16::MIN.into(), i16::MAX.into()]),
        (F32 | F64, U8) => Cast::Clamp([0, u8::MAX.into()]),
        (F32 | F64, U16) => Cast::Clamp([0, u16::MAX.into()]),
        (F32, U32 | I64 | U64) => return via(F64),
        // The real part alone, in two words.
        (C32, C64) => Cast::Loop(one::<Converted<Complex<f32>, Complex<f64>>>(), C64),
        (C64, C32) => Cast::Loop(one::<Converted<Complex<f64>, Complex<f32>>>(), C32),
        (C32, F64) => Cast::Loop(one::<Converted<Complex<f32>, f64>>(), F64),
        (C32, F32) => Cast::Loop(one::<Converted<Complex<f32>, f32>>(), F32),
        (C64, F64) => Cast::Loop(one::<Converted<Complex<f64>, f64>>(), F64),
        (C32 | C64, _) => return via(F64),
        (F32, C32) | (F64, C64) => Cast::WithZero,
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
