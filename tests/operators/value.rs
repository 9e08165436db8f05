//! Elements as tests see them: samples with every special value, equality of bits but for NaN, exact value,
//! error in ulp.

use num_complex::Complex;
use rankform::prelude::*;
use rankform::{bf16, f16};

/// Knuth's linear congruential generator, its high bits.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 32
        };
        (next() << 32) | next()
    }
    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.bits() as u128 * n as u128) >> 64) as usize
    }
    /// Evenly in [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    pub fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
    pub fn shuffled<const N: usize>(&mut self) -> [usize; N] {
        let mut order = std::array::from_fn(|k| k);
        for k in (1..N).rev() {
            order.swap(k, self.below(k + 1));
        }
        order
    }
}

/// The exact value of an element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Exact {
    Real(f64),
    Integer(i128),
    BoolElement(bool),
    Complex(f64, f64),
}

/// An element as tests see it.
pub trait Value: Element {
    /// Special values, then random ones.
    fn samples() -> Vec<Self>;
    /// A random number of moderate size: a whole number below 10 in magnitude, or a real one in [-2, 2).
    fn moderate(random: &mut Random) -> Self;
    fn exact(self) -> Exact;
    /// Bits of the fraction that are stored, the leading one not counted; 0 for whole numbers.
    const FRACTION: i32 = 0;
    /// The smallest positive number.
    const LEAST: f64 = 0.0;
    /// The largest number.
    const LARGEST: f64 = 0.0;
    /// Same bits, or both NaN.
    fn same(self, other: Self) -> bool;
    /// Error of `self` in units in the last place of `truth`: infinite for a wrong NaN, 0 or infinity.
    fn ulp(self, truth: f64) -> f64 {
        let Exact::Real(y) = self.exact() else { panic!("{} has no ulp", Self::DTYPE) };
        if y.is_nan() || truth.is_nan() {
            return if y.is_nan() && truth.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if y == truth {
            return if y != 0.0 || y.is_sign_negative() == truth.is_sign_negative() {
                0.0
            } else {
                f64::INFINITY
            };
        }
        // An infinity counts as the power of two after the largest number; in f64 that is the largest number
        // itself.
        let end = (Self::LARGEST + unit::<Self>(Self::LARGEST)).min(f64::MAX);
        (y.clamp(-end, end) - truth.clamp(-end, end)).abs() / unit::<Self>(truth)
    }
}

/// The unit in the last place of a number as large as `x`.
pub fn unit<T: Value>(x: f64) -> f64 {
    let binade = f64::from_bits(x.to_bits() & (0x7ff << 52));
    (binade.min(T::LARGEST) * 2f64.powi(-T::FRACTION)).max(T::LEAST)
}

const POSITIVE: [f64; 18] =
    [0.0, 1.0, 0.5, 0.75, 2.0, 3.0, 6.0, 1.5, 2.5, 0.1, 1e-3, 10.0, 20.0, 100.0, 1e4, 6e4, 1e-5, 1e-7];

macro_rules! floats {
    ($($t:ty, $from:expr, $to:expr, $fraction:literal, $least:expr, $decades:expr;)*) => { $(
        impl Value for $t {
            fn samples() -> Vec<Self> {
                let own = [
                    <$t>::MIN_POSITIVE, <$t>::MAX, <$t>::EPSILON, <$t>::INFINITY, <$t>::NAN, $from($least)
                ];
                let positive = POSITIVE.iter().map(|x| $from(*x)).chain(own);
                let mut all: Vec<Self> = positive.flat_map(|x| [x, -x]).collect();
                let mut random = Random(7);
                for _ in 0..30 {
                    let (sign, decade) = (random.unit(), random.unit());
                    all.push($from(10f64.powf(decade * $decades).copysign(sign)));
                    all.push($from(random.unit() * 4.0));
                }
                all
            }
            fn moderate(random: &mut Random) -> Self { $from(random.unit() * 2.0) }
            fn exact(self) -> Exact { Exact::Real($to(self)) }
            const FRACTION: i32 = $fraction;
            const LEAST: f64 = $least;
            const LARGEST: f64 = largest($fraction, $least);
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }
    )* };
}
const fn largest(fraction: i32, least: f64) -> f64 {
    match (fraction, least > 1e-10) {
        (10, _) => 65504.0,
        (7, _) => 3.3895313892515355e38,
        (23, _) => f32::MAX as f64,
        _ => f64::MAX,
    }
}
floats! {
    f16, f16::from_f64, f16::to_f64, 10, 5.960464477539063e-8, 5.0;
    bf16, bf16::from_f64, bf16::to_f64, 7, 9.183549615799121e-41, 30.0;
    f32, |x: f64| x as f32, |x: f32| x as f64, 23, 1.401298464324817e-45, 30.0;
    f64, |x: f64| x, |x: f64| x, 52, 5e-324, 200.0;
}

macro_rules! integers {
    ($($t:ident)*) => { $(
        impl Value for $t {
            fn samples() -> Vec<Self> {
                let special = [0, 1, 2, 3, 5, 7, 10, 100];
                let mut all: Vec<Self> = special.iter().flat_map(|x: &$t| [*x, x.wrapping_neg()]).collect();
                all.extend([$t::MIN, $t::MAX, $t::MIN + 1, $t::MAX - 1, $t::MAX / 2, $t::MIN / 2]);
                let mut random = Random(11);
                all.extend((0..40).map(|_| random.bits() as $t));
                all
            }
            fn moderate(random: &mut Random) -> Self { (random.below(19) as i64 - 9) as $t }
            fn exact(self) -> Exact { Exact::Integer(self as i128) }
            fn same(self, other: Self) -> bool { self == other }
        }
    )* };
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Value for bool {
    fn samples() -> Vec<Self> {
        vec![false, true, true, false, true]
    }
    fn moderate(random: &mut Random) -> Self {
        random.chance(2)
    }
    fn exact(self) -> Exact {
        Exact::BoolElement(self)
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}

macro_rules! complexes {
    ($($part:ty)*) => { $(
        impl Value for Complex<$part> {
            fn samples() -> Vec<Self> {
                let parts = [0.0, 1.0, -1.0, 0.5, -3.0, 1e-3, 100.0, <$part>::INFINITY, <$part>::NAN];
                parts.iter().flat_map(|re| parts.map(|im| Complex::new(*re, im))).collect()
            }
            fn moderate(random: &mut Random) -> Self {
                Complex::new(random.unit() as $part, random.unit() as $part)
            }
            fn exact(self) -> Exact { Exact::Complex(self.re as f64, self.im as f64) }
            const FRACTION: i32 = <$part as Value>::FRACTION;
            const LEAST: f64 = <$part as Value>::LEAST;
            const LARGEST: f64 = <$part as Value>::LARGEST;
            fn same(self, other: Self) -> bool { self.re.same(other.re) && self.im.same(other.im) }
        }
    )* };
}
complexes!(f32 f64);

/// Whether two slices are the same, bit for bit but for NaN; where they first differ if not.
pub fn differ<T: Value>(found: &[T], expected: &[T]) -> Option<usize> {
    assert_eq!(found.len(), expected.len());
    (0..found.len()).find(|&k| !found[k].same(expected[k]))
}
