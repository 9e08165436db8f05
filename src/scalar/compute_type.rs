//! The compute types: the primitive types in which bodies compute, and their steps.
// Imports: `dtype`, and `scalar`'s step names and classes.

use super::classes::{Bits, ComplexPrim, IntegerPrim, Num, Ordered, Prim, Real};
use super::{Arith, Compare, Lane, Lanes, Logic, MinMaxRem, Part, Shift, Unary};
use crate::dtype::DType;
use num_complex::Complex;

/// Casts of a type, one row for each type: `$cast` names the `from_` function of the other type that takes
/// this one.
macro_rules! prim {
    (
        $t:ty, $dtype:ident,
        |$self:ident| $cast:expr, |$b:ident| $from_bool:expr, |$v:ident| $from:expr,
        |$f:ident| $from_float:expr, |$c:ident| $from_complex:expr, |$x:ident, $y:ident| $difference:expr
    ) => {
        impl Prim for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn cast<U: Prim>($self) -> U { $cast }
            #[inline(always)]
            fn from_bool($b: bool) -> Self { $from_bool }
            #[inline(always)]
            fn from_i64($v: i64) -> Self { $from }
            #[inline(always)]
            fn from_u64($v: u64) -> Self { $from }
            #[inline(always)]
            fn from_f32($f: f32) -> Self { $from_float }
            #[inline(always)]
            fn from_f64($f: f64) -> Self { $from_float }
            #[inline(always)]
            fn from_complex($c: Complex<f64>) -> Self { $from_complex }
            #[inline(always)]
            fn difference<L: Lanes>($x: Lane<L, $t>, $y: Lane<L, $t>) -> Lane<L, $t> { $difference }
        }
    };
}
macro_rules! real_prims {
    ($($t:ty, $dtype:ident, $from:ident, $via:ty, |$v:ident| $from_float:expr;)*) => { $(
        prim!(
            $t, $dtype, |self| U::$from(self as $via), |b| b as u8 as $t, |v| v as $t,
            |$v| $from_float, |c| <$t>::from_f64(c.re), |a, b| a - b
        );
    )* };
}
/// `$v as $t`, in steps that vectorize: truncated, saturated at the ends of the type, 0 for NaN.
macro_rules! saturated {
    ($v:expr, $t:ty) => {{
        let [value, least, half] = [$v, <$t>::MIN as _, (<$t>::MAX / 2 + 1) as _];
        let beyond = 2.0 * half;
        let inside = if value >= least && value < beyond { value } else { 0.0 };
        // SAFETY: the value is not NaN, at least the smallest integer, and less than the largest plus one.
        let number = unsafe { inside.to_int_unchecked::<$t>() };
        if value >= beyond {
            <$t>::MAX
        } else if value < least {
            <$t>::MIN
        } else {
            number
        }
    }};
}
real_prims! {
    i8, I8, from_i64, i64, |v| saturated!(v, i8);
    i16, I16, from_i64, i64, |v| saturated!(v, i16);
    i32, I32, from_i64, i64, |v| saturated!(v, i32);
    i64, I64, from_i64, i64, |v| saturated!(v, i64);
    u8, U8, from_u64, u64, |v| saturated!(v, u8);
    u16, U16, from_u64, u64, |v| saturated!(v, u16);
    u32, U32, from_u64, u64, |v| saturated!(v, u32);
    u64, U64, from_u64, u64, |v| saturated!(v, u64);
    f32, F32, from_f32, f32, |v| v as f32;
    f64, F64, from_f64, f64, |v| v as f64;
}
prim!(
    bool,
    Bool,
    |self| U::from_bool(self),
    |b| b,
    |v| v != Default::default(),
    |v| v != 0.0,
    |c| c.re != 0.0 || c.im != 0.0,
    |a, b| a ^ b
);
prim!(
    Complex<f32>,
    C32,
    |self| U::from_complex(Complex::new(self.re as f64, self.im as f64)),
    |b| Complex::new(b as u8 as f32, 0.0),
    |v| Complex::new(v as f32, 0.0),
    |v| Complex::new(v as f32, 0.0),
    |c| Complex::new(c.re as f32, c.im as f32),
    |a, b| a - b
);
prim!(
    Complex<f64>,
    C64,
    |self| U::from_complex(self),
    |b| Complex::new(b as u8 as f64, 0.0),
    |v| Complex::new(v as f64, 0.0),
    |v| Complex::new(v as f64, 0.0),
    |c| c,
    |a, b| a - b
);

macro_rules! integers {
    ($($t:ident)*) => { $(
        impl Num for $t {
            #[inline(always)]
            fn arith(op: Arith, a: $t, b: $t) -> $t {
                match op {
                    Arith::Add => a.wrapping_add(b),
                    Arith::Sub => a.wrapping_sub(b),
                    Arith::Mul => a.wrapping_mul(b),
                    Arith::Div => if b == 0 { 0 } else { a.wrapping_div(b) },
                }
            }
            #[inline(always)]
            fn negate(a: $t) -> $t { a.wrapping_neg() }
        }
        impl Bits for $t {
            const ONES: $t = !0;
            #[inline(always)]
            fn logic(op: Logic, a: $t, b: $t) -> $t {
                match op { Logic::And => a & b, Logic::Or => a | b, Logic::Xor => a ^ b }
            }
        }
        impl IntegerPrim for $t {
            #[inline(always)]
            fn shift(op: Shift, a: $t, by: u32) -> $t {
                match op { Shift::Left => a.wrapping_shl(by), Shift::Right => a.wrapping_shr(by) }
            }
        }
    )* };
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! integer_orders {
    ($($t:ident $key:ident),*) => { $(
        impl Ordered for $t {
            const HIGHEST: $t = $t::MAX;
            const LOWEST: $t = $t::MIN;
            #[inline(always)]
            fn order(op: MinMaxRem, a: $t, b: $t) -> $t {
                match op {
                    MinMaxRem::Max => if a > b { a } else { b },
                    MinMaxRem::Min => if a < b { a } else { b },
                    MinMaxRem::Rem => if b == 0 { 0 } else { a.wrapping_rem(b) },
                }
            }
            type Key = $key;
            #[inline(always)]
            fn order_key<L: Lanes>(x: Lane<L, $t>) -> Lane<L, $key> {
                // The cast wraps the upper half of an unsigned type below 0, and flipping the sign bit
                // restores the order. A signed type needs no flip.
                x.cast::<$key>() ^ Lane::literal(if $t::MIN == 0 { $key::MIN } else { 0 })
            }
            #[inline(always)]
            fn of_order_key<L: Lanes>(key: Lane<L, $key>) -> Lane<L, $t> {
                (key ^ Lane::literal(if $t::MIN == 0 { $key::MIN } else { 0 })).cast()
            }
            #[inline(always)]
            fn reverse_key<L: Lanes>(x: Lane<L, $t>) -> Lane<L, $key> { !x.order_key() }
            #[inline(always)]
            fn of_reverse_key<L: Lanes>(key: Lane<L, $key>) -> Lane<L, $t> { Lane::of_order_key(!key) }
            #[inline(always)]
            fn sum<L: Lanes>(a: Lane<L, $t>, b: Lane<L, $t>) -> Lane<L, $t> { a + b }
            #[inline(always)]
            fn product<L: Lanes>(a: Lane<L, $t>, b: Lane<L, $t>) -> Lane<L, $t> { a * b }
            #[inline(always)]
            fn compare(op: Compare, a: $t, b: $t) -> bool {
                match op { Compare::Lt => a < b, Compare::Le => a <= b }
            }
        }
    )* };
}
integer_orders!(i8 i8, i16 i16, i32 i32, i64 i64, u8 i8, u16 i16, u32 i32, u64 i64);

impl Ordered for bool {
    const HIGHEST: bool = true;
    const LOWEST: bool = false;
    #[inline(always)]
    fn order(op: MinMaxRem, a: bool, b: bool) -> bool {
        match op {
            MinMaxRem::Max => a | b,
            MinMaxRem::Min => a & b,
            MinMaxRem::Rem => false,
        }
    }
    type Key = i8;
    #[inline(always)]
    fn order_key<L: Lanes>(x: Lane<L, bool>) -> Lane<L, i8> {
        x.cast()
    }
    #[inline(always)]
    fn of_order_key<L: Lanes>(key: Lane<L, i8>) -> Lane<L, bool> {
        key.gt(0)
    }
    #[inline(always)]
    fn reverse_key<L: Lanes>(x: Lane<L, bool>) -> Lane<L, i8> {
        (!x).cast()
    }
    #[inline(always)]
    fn of_reverse_key<L: Lanes>(key: Lane<L, i8>) -> Lane<L, bool> {
        key.le(0)
    }
    #[inline(always)]
    fn sum<L: Lanes>(a: Lane<L, bool>, b: Lane<L, bool>) -> Lane<L, bool> {
        a | b
    }
    #[inline(always)]
    fn product<L: Lanes>(a: Lane<L, bool>, b: Lane<L, bool>) -> Lane<L, bool> {
        a & b
    }
    #[inline(always)]
    fn compare(op: Compare, a: bool, b: bool) -> bool {
        match op {
            Compare::Lt => !a & b,
            Compare::Le => !a | b,
        }
    }
}

impl Bits for bool {
    const ONES: bool = true;
    #[inline(always)]
    fn logic(op: Logic, a: bool, b: bool) -> bool {
        match op {
            Logic::And => a & b,
            Logic::Or => a | b,
            Logic::Xor => a ^ b,
        }
    }
}

macro_rules! reals {
    ($($t:ident $bits:ident $fraction:literal $bias:literal),*) => { $(
        impl Num for $t {
            #[inline(always)]
            fn arith(op: Arith, a: $t, b: $t) -> $t {
                match op {
                    Arith::Add => a + b,
                    Arith::Sub => a - b,
                    Arith::Mul => a * b,
                    Arith::Div => a / b,
                }
            }
            #[inline(always)]
            fn negate(a: $t) -> $t { -a }
        }
        impl Real for $t {
            type Bits = $bits;
            const FRACTION: u32 = $fraction;
            const BIAS: i32 = $bias;
            #[inline(always)]
            fn unary(op: Unary, a: $t) -> $t {
                match op {
                    Unary::Round => a.round_ties_even(),
                    Unary::Floor => a.floor(),
                    Unary::Ceil => a.ceil(),
                    Unary::Trunc => a.trunc(),
                    Unary::Abs => a.abs(),
                    Unary::Sqrt => a.sqrt(),
                }
            }
            #[inline(always)]
            fn fused(a: $t, b: $t, c: $t) -> $t { a.mul_add(b, c) }
            #[inline(always)]
            fn bits(self) -> $bits { self.to_bits() }
            #[inline(always)]
            fn of_bits(bits: $bits) -> $t { $t::from_bits(bits) }
        }
    )* };
}
reals!(f32 u32 23 127, f64 u64 52 1023);

/// Maximum, minimum and remainder of floats.
macro_rules! real_order {
    ($t:ident $bits:ident) => {
        #[inline(always)]
        fn order(op: MinMaxRem, a: $t, b: $t) -> $t {
            // `a` may be the accumulator of a long reduction, so the code puts a single comparison on its
            // dependency chain. It keeps `a` if `a` is NaN or equal to `b`. Zeros of different signs are
            // equal here. A NaN `b` is chosen last.
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            match op {
                MinMaxRem::Max => {
                    let larger = if b > a { b } else { a };
                    let zero = $bits::from(b.to_bits() == 0) << ($bits::BITS - 1);
                    let signed = $t::from_bits(larger.to_bits() & !zero);
                    if b != b { b } else { signed }
                }
                MinMaxRem::Min => {
                    let smaller = if b < a { b } else { a };
                    let zero = $bits::from(b.to_bits() == SIGN) << ($bits::BITS - 1);
                    let signed = $t::from_bits(smaller.to_bits() | zero);
                    if b != b { b } else { signed }
                }
                MinMaxRem::Rem => a % b,
            }
        }
    };
}

/// The keys of floats.
macro_rules! real_keys {
    ($t:ident $bits:ident $signed:ident $fraction:literal) => {
        type Key = $signed;
        #[inline(always)]
        fn order_key<L: Lanes>(x: Lane<L, $t>) -> Lane<L, $signed> {
            // As signed integers, the bits of positive numbers rise with the number, and those of
            // negative numbers fall. NaNs are above +∞ or, with a sign, below −∞. Subtracting the number
            // of the latter wraps them to the top.
            let bits = x.to_bits().cast::<$signed>();
            let rising = bits ^ (bits.shr($bits::BITS - 1) & Lane::literal($signed::MAX));
            rising - Lane::literal((1 << $fraction) - 1)
        }
        #[inline(always)]
        fn of_order_key<L: Lanes>(key: Lane<L, $signed>) -> Lane<L, $t> {
            let bits = key + Lane::literal((1 << $fraction) - 1);
            Lane::from_bits((bits ^ (bits.shr($bits::BITS - 1) & Lane::literal($signed::MAX))).cast())
        }
        #[inline(always)]
        fn reverse_key<L: Lanes>(x: Lane<L, $t>) -> Lane<L, $signed> {
            (-x).order_key()
        }
        #[inline(always)]
        fn of_reverse_key<L: Lanes>(key: Lane<L, $signed>) -> Lane<L, $t> {
            -Lane::of_order_key(key)
        }
    };
}

macro_rules! real_orders {
    ($($t:ident $bits:ident $signed:ident $fraction:literal),*) => { $(
        impl Ordered for $t {
            const HIGHEST: $t = $t::INFINITY;
            const LOWEST: $t = $t::NEG_INFINITY;
            real_order! { $t $bits }
            real_keys! { $t $bits $signed $fraction }
            #[inline(always)]
            fn order_tangent<L: Lanes>(
                op: MinMaxRem,
                at: [Lane<L, $t>; 3],
                tangents: [Lane<L, $t>; 2],
            ) -> Lane<L, $t> {
                super::dual::order_tangent(op, at, tangents)
            }
            #[inline(always)]
            fn one_zero<L: Lanes>(x: Lane<L, $t>) -> Lane<L, $t> { x + Lane::zero() }
            #[inline(always)]
            fn sum<L: Lanes>(a: Lane<L, $t>, b: Lane<L, $t>) -> Lane<L, $t> { a + b }
            #[inline(always)]
            fn product<L: Lanes>(a: Lane<L, $t>, b: Lane<L, $t>) -> Lane<L, $t> { a * b }
            #[inline(always)]
            fn compare(op: Compare, a: $t, b: $t) -> bool {
                match op { Compare::Lt => a < b, Compare::Le => a <= b }
            }
        }
    )* };
}
real_orders!(f32 u32 i32 23, f64 u64 i64 52);

macro_rules! complexes {
    ($($part:ident)*) => { $(
        impl Num for Complex<$part> {
            #[inline(always)]
            fn arith(op: Arith, a: Self, b: Self) -> Self {
                match op {
                    Arith::Add => a + b,
                    Arith::Sub => a - b,
                    Arith::Mul => a * b,
                    // Smith's algorithm (1962): no square of a part overflows or underflows.
                    Arith::Div => {
                        let steep = b.re.abs() < b.im.abs();
                        let (large, small) = if steep { (b.im, b.re) } else { (b.re, b.im) };
                        let ratio = if large == 0.0 { large } else { small / large };
                        let below = small * ratio + large;
                        let (re, im) = if steep {
                            (a.re * ratio + a.im, a.im * ratio - a.re)
                        } else {
                            (a.im * ratio + a.re, a.im - a.re * ratio)
                        };
                        Complex::new(re / below, im / below)
                    }
                }
            }
            #[inline(always)]
            fn negate(a: Self) -> Self { -a }
        }
        impl ComplexPrim for Complex<$part> {
            type Part = $part;
            #[inline(always)]
            fn part(part: Part, a: Self) -> $part {
                match part { Part::Re => a.re, Part::Im => a.im }
            }
            #[inline(always)]
            fn complex(re: $part, im: $part) -> Self { Complex::new(re, im) }
        }
    )* };
}
complexes!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_whole_numbers_as_casts_of_the_language_do() {
        // Every sign and exponent, with fractions at and near their ends, and the neighbors of each integer
        // type's ends.
        fn casts<F: Prim + std::fmt::Debug>(value: F, expected: [i128; 8]) {
            let [a, b, c, d] = [
                value.cast::<i8>() as i128,
                value.cast::<i16>() as _,
                value.cast::<i32>() as _,
                value.cast::<i64>() as _,
            ];
            let [e, f, g, h] = [
                value.cast::<u8>() as i128,
                value.cast::<u16>() as _,
                value.cast::<u32>() as _,
                value.cast::<u64>() as _,
            ];
            assert_eq!([a, b, c, d, e, f, g, h], expected, "{value:?}");
        }
        macro_rules! all {
            ($value:expr) => {{
                let v = $value;
                casts(
                    v,
                    [
                        v as i8 as i128,
                        v as i16 as _,
                        v as i32 as _,
                        v as i64 as _,
                        v as u8 as _,
                        v as u16 as _,
                        v as u32 as _,
                        v as u64 as _,
                    ],
                );
            }};
        }
        for head in (0..1 << 9).step_by(if cfg!(miri) { 7 } else { 1 }) {
            for tail in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff, 0x12_3456] {
                all!(f32::from_bits(head << 23 | tail));
            }
        }
        for head in (0..1 << 12).step_by(if cfg!(miri) { 61 } else { 1 }) {
            for tail in [0, 1, 2, (1 << 51) - 1, 1 << 51, (1 << 52) - 2, (1 << 52) - 1, 0x0001_2345_6789_abcd]
            {
                all!(f64::from_bits(head << 52 | tail));
            }
        }
        for end in [
            i8::MIN as f64,
            -1.0,
            0.0,
            127.0,
            255.0,
            32767.0,
            65535.0,
            i32::MIN as f64,
            2147483647.0,
            4294967295.0,
        ] {
            for step in [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0] {
                all!(end + step);
                all!((end + step) as f32);
            }
        }
    }
}
