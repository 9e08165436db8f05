//! `sin`, `cos`, `tan`.
//!
//! `f32` is computed in `f64`: three words of `1/2π` reduce every finite `f32` by whole turns without a
//! table. `f64` subtracts multiples of `π/2` in three words (Cody and Waite), which is right for
//! `|x| ≤ 2^45`. For larger numbers it multiplies by six words of `1/2π` chosen by the exponent (Payne and
//! Hanek), each product less its whole turns. Rows are computed by the first form, and again by both if they
//! have a larger number.
// Imports: `scalar`.

use super::bits::{shifter, sign, signed, single, word};
use super::double_double::Double;
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};

/// The largest `|x|` of type `f64` that [`quarter`] reduces: 2^45.
pub(super) const NEAR: f64 = 35_184_372_088_832.0;

/// The position of an `f32` on the circle: `whole` parts and `rest` of a turn.
struct Turn<L: Lanes> {
    rest: Lane<L, f64>,
    whole: Lane<L, u64>,
}

/// `1/2π` in three words.
const TURNS: [f64; 3] = [0.15915494309189535, -9.839338337591243e-18, -5.360718141446502e-34];
/// `2^77/2π` without its whole turns.
const HIGH_TURNS: [f64; 3] = [0.2294702328862784, 1.1876391880837858e-17, 3.971835056863728e-34];

/// Reduces `x ≥ 0`, a value of type `f32`, to `|rest| ≤ 1/(2·parts)` turns beyond `whole/parts − shift`.
#[inline(always)]
fn turn<L: Lanes>(x: Lane<L, f64>, parts: f64, shift: f64) -> Turn<L> {
    let [a, b, c] = fractions(x);
    let place = if shift == 0.0 { a + b } else { a + b + shift };
    let nearest = place.mul_add(Lane::real(parts), Lane::real(shifter::<f64>()));
    let whole = (nearest - shifter::<f64>()).mul_add(Lane::real(-1.0 / parts), Lane::real(shift));
    Turn { rest: ((a + whole) + b) + c, whole: nearest.to_bits() }
}

/// Three numbers, the third small. Their sum is `x/2π` less whole turns, for any value `x ≥ 0` of type `f32`.
///
/// Each product with a word of `1/2π` is exact in two floats, and loses its whole turns before the sum. The
/// rounding error is then at most 2^-56; the closest that an `f32` comes to a multiple of a quarter turn is
/// 2^-33. From 2^100 on `x` is a multiple of 2^77, which moves into the constant.
#[inline(always)]
fn fractions<L: Lanes>(x: Lane<L, f64>) -> [Lane<L, f64>; 3] {
    let high = x.ge(Lane::real(2f64.powi(100)));
    let [first, second, third] =
        [0, 1, 2].map(|i| high.select(Lane::<L, f64>::real(HIGH_TURNS[i]), Lane::real(TURNS[i])));
    let x = x * high.select(Lane::real(2f64.powi(-77)), Lane::one());
    let fraction = |t: Lane<L, f64>| t - t.round();
    let (first, second) = (Double::product(x, first), Double::product(x, second));
    [fraction(first.hi), fraction(first.lo) + fraction(second.hi), x.mul_add(third, second.lo)]
}

/// `sin 2πt` for `|t| ≤ 1/4`, to 2^-35.
#[inline(always)]
fn sin_turn<L: Lanes>(turn: Turn<L>) -> Lane<L, f64> {
    let z = turn.rest * turn.rest;
    let c = [
        6.2831853070466135,
        -41.341702096851655,
        81.6052236796397,
        -76.70416973868514,
        42.00778693045325,
        -14.38132010535262,
    ];
    signed(turn.rest * poly(z, c), turn.whole.shl(63))
}

/// `tan 2πt` from `|t| ≤ 1/8` and the number of its quarter.
#[inline(always)]
fn tan_turn<L: Lanes>(turn: Turn<L>) -> Lane<L, f64> {
    let z = turn.rest * turn.rest;
    let sin = turn.rest
        * poly(
            z,
            [6.283185307150986, -41.34170215051888, 81.60520379349262, -76.69777250809314, 41.46983091345154],
        );
    let cos = poly(
        z,
        [0.999999999943909, -19.739208632966804, 64.93931071909036, -85.44229501866494, 59.202690608110196],
    );
    let odd = turn.whole.shl(63);
    let swap = odd.ne(Lane::zero());
    signed(swap.select(cos, sin), odd) / swap.select(sin, cos)
}

/// `π/2` in three words.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];

/// `x = k·π/2 + r`, with `r` as a double-double and the low bits of `k`.
#[inline(always)]
fn quarter<L: Lanes, P: Real>(x: Lane<L, P>) -> (Lane<L, P::Bits>, Double<L, P>) {
    let shifted = x.mul_add(Lane::real(std::f64::consts::FRAC_2_PI), Lane::real(shifter::<P>()));
    let k = shifted - shifter::<P>();
    let [first, second, third] = HALF_PI.map(Lane::<L, P>::real);
    let product = Double::product(k, second);
    let rest = Double::sum((-k).mul_add(first, x), -product.hi);
    (shifted.to_bits(), Double::new(rest.hi, (-k).mul_add(third, rest.lo - product.lo)).normal())
}

/// `2^128k/2π` without its whole turns in six words, for `k` from 0. This is enough for numbers below
/// `2^(180 + 128k)`, none of which comes nearer to a multiple of a quarter turn than 2^-61.
const FAR_TURNS: [[f64; 6]; 8] = [
    [
        0.15915494309189535,
        -9.839338337591243e-18,
        -5.360718141446502e-34,
        4.026781963297056e-50,
        -7.801382953409857e-67,
        1.4185069655957361e-83,
    ],
    [
        0.21424325702452368,
        8.94377744103428e-19,
        -1.1024876734099253e-35,
        2.031294154355459e-52,
        -1.8190373095652232e-68,
        -6.290214625825202e-85,
    ],
    [
        0.42884990912041393,
        9.97499275816504e-18,
        -6.947428806792178e-34,
        3.2850087894004273e-50,
        -1.0031042675952219e-67,
        -2.0395665840890445e-84,
    ],
    [
        0.24816100466368032,
        -2.6168813635855343e-18,
        1.5733177308087007e-34,
        -7.769045293444727e-51,
        5.333188284269373e-67,
        1.2295696386349813e-83,
    ],
    [
        0.2281358264563944,
        -6.054931925541655e-18,
        1.553449663790413e-34,
        -1.3542430212427635e-51,
        -1.2307808327418446e-69,
        -5.863805965008723e-86,
    ],
    [
        0.1528487137834357,
        8.012916365255464e-19,
        -1.9548519314125474e-35,
        -1.3091685446198322e-51,
        -7.831600588137052e-69,
        -7.7103449893192e-86,
    ],
    [
        -0.016422010297437572,
        4.259100231652291e-19,
        1.8273865379440333e-36,
        -8.374639407660452e-53,
        -7.281412205768428e-70,
        -4.2526051987381475e-87,
    ],
    [
        -0.1725835889450594,
        7.554959770248538e-18,
        2.86158846486757e-34,
        6.897439683249612e-51,
        4.555206598784272e-67,
        -2.6731615299960658e-83,
    ],
];

/// As [`quarter`], for every `x ≥ 0` of type `f64`.
#[inline(always)]
fn quarter_far<L: Lanes, P: Real>(x: Lane<L, P>) -> (Lane<L, P::Bits>, Double<L, P>) {
    // From 2^(52 + 128k) on, x is a multiple of 2^128k, which moves into the constant.
    let mut turns = FAR_TURNS[0].map(Lane::<L, P>::real);
    let mut scale = Lane::<L, P>::one();
    for (k, words) in (1..).zip(&FAR_TURNS[1..]) {
        let far = x.ge(Lane::real(2f64.powi(52 + 128 * k)));
        scale = far.select(Lane::<L, P>::real(2f64.powi(-128 * k)), scale);
        turns = std::array::from_fn(|i| far.select(Lane::<L, P>::real(words[i]), turns[i]));
    }
    let x = x * scale;
    // Each product is exact in two floats. These lose their whole turns and are added in three words.
    let fraction = |t: Lane<L, P>| t - t.round();
    let mut sum = [Lane::<L, P>::zero(); 3];
    let mut add = |term: Lane<L, P>| {
        let first = Double::sum(sum[0], term);
        let second = Double::sum(sum[1], first.lo);
        sum = [first.hi, second.hi, sum[2] + second.lo];
    };
    for word in &turns[..5] {
        let product = Double::product(x, *word);
        add(fraction(product.hi));
        add(fraction(product.lo));
    }
    add(x * turns[5]);
    let [first, second, third] = sum;
    let first = fraction(first) * 4.0;
    let shifted = first + shifter::<P>();
    let rest = Double::sum(first - (shifted - shifter::<P>()), second * 4.0);
    let rest = Double::new(rest.hi, third.mul_add(Lane::real(4.0), rest.lo)).normal();
    let half_pi = Double::new(Lane::real(HALF_PI[0]), Lane::real(HALF_PI[1]));
    (shifted.to_bits(), rest.mul(half_pi).normal())
}

/// Whether `x ≥ 0` is outside the range of [`quarter`].
#[inline(always)]
pub(super) fn is_far<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, bool> {
    x.gt(Lane::real(NEAR))
}

/// By [`quarter`] inside its range, by [`quarter_far`] outside.
#[inline(always)]
fn quarter_anywhere<L: Lanes, P: Real>(x: Lane<L, P>) -> (Lane<L, P::Bits>, Double<L, P>) {
    let (far, (k, r), (far_k, far_r)) = (is_far(x), quarter(x), quarter_far(x));
    (far.select(far_k, k), Double::new(far.select(far_r.hi, r.hi), far.select(far_r.lo, r.lo)))
}

/// `sin r` and `cos r` for `|r| ≤ π/4`, as double-doubles.
#[inline(always)]
fn sin_cos<L: Lanes, P: Real>(r: Double<L, P>) -> [Double<L, P>; 2] {
    let z = Double::product(r.hi, r.hi);
    let s = [
        -0.1666666666666663,
        0.008333333333321839,
        -0.00019841269829356338,
        2.7557313537566764e-06,
        -2.505073421893515e-08,
        1.5895422400501231e-10,
    ];
    let c = [
        0.041666666666666595,
        -0.0013888888888873303,
        2.4801587288947083e-05,
        -2.755731419187103e-07,
        2.087570073071425e-09,
        -1.1358445813230356e-11,
    ];
    let half = z.hi * 0.5;
    let sin = Double::new(r.hi, (z.hi * r.hi).mul_add(poly(z.hi, s), (-half).mul_add(r.lo, r.lo)));
    let head = Double::fast_sum(Lane::one(), -half);
    let tail = (z.hi * z.hi).mul_add(poly(z.hi, c), head.lo);
    let cos = Double::new(head.hi, (-r.hi).mul_add(r.lo, z.lo.mul_add(Lane::real(-0.5), tail)));
    [sin, cos]
}

/// `sin(k·π/2 + r)`.
#[inline(always)]
fn sin_quarter<L: Lanes, P: Real>(k: Lane<L, P::Bits>, r: Double<L, P>) -> Lane<L, P> {
    let [sin, cos] = sin_cos(r).map(Double::value);
    let odd = (k & word::<L, P>(1)).ne(Lane::zero());
    signed(odd.select(cos, sin), k.shr(1).shl(sign_place::<P>()))
}

/// `sin(k·π/2 + r)` as a double-double, from `sin r` and `cos r`.
#[inline(always)]
fn sin_of<L: Lanes, P: Real>([sin, cos]: [Double<L, P>; 2], k: Lane<L, P::Bits>) -> Double<L, P> {
    let odd = (k & word::<L, P>(1)).ne(Lane::zero());
    let sign = k.shr(1).shl(sign_place::<P>());
    Double::new(signed(odd.select(cos.hi, sin.hi), sign), signed(odd.select(cos.lo, sin.lo), sign))
}

/// The index of the sign bit.
#[inline(always)]
fn sign_place<P: Real>() -> u32 {
    8 * size_of::<P>() as u32 - 1
}

/// `sin x` and `cos x` for `x ≥ 0` as double-doubles, for results of type `R`; if it is not `anywhere`, for
/// an `x` in the range of the fast path.
#[inline(always)]
pub(super) fn waves<L: Lanes, R: Real>(x: Lane<L, f64>, anywhere: bool) -> [Double<L, f64>; 2] {
    if single::<R>() {
        let (sin, cos) = (sin_turn(turn(x, 2.0, 0.0)), sin_turn(turn(x, 2.0, 0.25)));
        return [Double::new(sin, Lane::zero()), Double::new(cos, Lane::zero())];
    }
    let (k, r) = if anywhere { quarter_anywhere(x) } else { quarter(x) };
    let parts = sin_cos(r).map(Double::normal);
    [sin_of(parts, k), sin_of(parts, k + word::<L, f64>(1))]
}

/// `π/2` for `f32` in three words; the second is short enough that its product with 1024 quarter turns is
/// exact.
const HALF_PI_F32: [f64; 3] = [1.5707963705062866, -4.371031536720693e-08, -1.074634630414406e-12];
/// The largest `x` of type `f32` that [`sin_f32`] takes.
const FAST_LIMIT_F32: f64 = 1600.0;

/// `sin(x + turns·π/2)` for `0 ≤ x ≤ FAST_LIMIT_F32` of type `f32`.
#[inline(always)]
fn sin_f32<L: Lanes, P: Real>(x: Lane<L, P>, turns: u64) -> Lane<L, P> {
    // x = k·π/2 + r + lost: the first product is subtracted exactly, the second is exact.
    let start = Lane::real(shifter::<P>());
    let nearest = x.mul_add(Lane::real(std::f64::consts::FRAC_2_PI), start);
    let k = nearest - start;
    let [first, second, third] = HALF_PI_F32.map(|word| Lane::<L, P>::real(-word));
    let rest = k.mul_add(first, x);
    let product = k * second;
    let r = rest + product;
    let lost = k.mul_add(third, (rest - r) + product);
    let square = r * r;
    let sin = r + (square * r).mul_add(poly(square, [-0.16666655, 0.008332188, -0.00019518008]), lost);
    let half = square * 0.5;
    let head = 1.0 - half;
    let tail = (-r).mul_add(lost, (1.0 - head) - half);
    let cos =
        head + (square * square).mul_add(poly(square, [0.041666646, -0.0013887301, 2.443067e-05]), tail);
    let turns = nearest.to_bits() + word::<L, P>(turns);
    let odd = (turns & word::<L, P>(1)).ne(Lane::zero());
    signed(odd.select(cos, sin), turns.shr(1).shl(sign_place::<P>()))
}

/// `sin(x + turns·π/2)` for `x ≥ 0` by the fast path, and whether `x` is outside its range.
#[inline(always)]
fn sin_fast<L: Lanes, P: Real>(x: Lane<L, P>, turns: u64) -> (Lane<L, P>, Lane<L, bool>) {
    if single::<P>() {
        return (sin_f32(x, turns), x.gt(Lane::real(FAST_LIMIT_F32)));
    }
    let (k, r) = quarter(x);
    (sin_quarter(k + word::<L, P>(turns), r), is_far(x))
}

/// The same for every `x ≥ 0`. Inside the range of the fast path a number has the result of the fast path,
/// independent of its row and of the loop that computes it.
#[inline(always)]
fn sin_full<L: Lanes, P: Real>(x: Lane<L, P>, turns: u64) -> Lane<L, P> {
    if single::<P>() {
        let (y, is_out_of_range) = sin_fast(x, turns);
        return is_out_of_range.select(sin_turn(turn(x.cast(), 2.0, 0.25 * turns as f64)).cast(), y);
    }
    let (k, r) = quarter_anywhere(x);
    sin_quarter(k + word::<L, P>(turns), r)
}

/// `tan(k·π/2 + r)`.
#[inline(always)]
fn tan_quarter<L: Lanes, P: Real>(k: Lane<L, P::Bits>, r: Double<L, P>) -> Lane<L, P> {
    let [sin, cos] = sin_cos(r);
    let odd = k.shl(sign_place::<P>());
    let swap = odd.ne(Lane::zero());
    let over = Double::new(swap.select(cos.hi, sin.hi), swap.select(cos.lo, sin.lo));
    let under = Double::new(swap.select(sin.hi, cos.hi), swap.select(sin.lo, cos.lo));
    signed(over.normal().div(under.normal()).value(), odd)
}

/// `sin πx` as a double-double.
#[inline(always)]
pub(super) fn sin_half_turns<L: Lanes>(x: Lane<L, f64>) -> Double<L, f64> {
    // Whole turns are removed first, which keeps the number of quarters small; all these differences are
    // exact.
    let x = x - (x * 0.5).round() * 2.0;
    let shifted = (x + x) + shifter::<f64>();
    let u = x - (shifted - shifter::<f64>()) * 0.5;
    let [high, low] = [2.0 * HALF_PI[0], 2.0 * HALF_PI[1]].map(Lane::<L, f64>::real);
    let product = Double::product(u, high);
    let parts = sin_cos(Double::new(product.hi, u.mul_add(low, product.lo))).map(Double::normal);
    sin_of(parts, shifted.to_bits())
}

/// `sin x` for an `x` in the range of the fast path, for use inside other functions, which define their own
/// derivatives.
#[inline(always)]
pub(super) fn sin_near<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    signed(sin_fast(x.abs(), 0).0, sign(x))
}

/// `tan x` for the same use, of type `f64`.
#[inline(always)]
pub(super) fn tan_near<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let (k, r) = quarter(x.abs());
    signed(tan_quarter(k, r), sign(x))
}

/// `sin x`; see [`Lane::sin`].
pub struct SinFn;

impl SinFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for SinFn {
    const NAME: &'static str = "sin";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        signed(sin_full(x.abs(), 0), sign(x))
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
        let (y, is_out_of_range) = sin_fast(x.abs(), 0);
        (signed(y, sign(x)), is_out_of_range)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.cos()]
    }
}

/// `cos x`; see [`Lane::cos`].
pub struct CosFn;

impl CosFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for CosFn {
    const NAME: &'static str = "cos";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        sin_full(x.abs(), 1)
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
        sin_fast(x.abs(), 1)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [-x.sin()]
    }
}

/// `tan x`; see [`Lane::tan`].
pub struct TanFn;

impl TanFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for TanFn {
    const NAME: &'static str = "tan";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let y = if single::<P>() {
            tan_turn(turn(magnitude.cast(), 4.0, 0.0)).cast()
        } else {
            let (k, r) = quarter_anywhere(magnitude);
            tan_quarter(k, r)
        };
        signed(y, sign(x))
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
        if single::<P>() {
            return (Self::value([x]), Lane::literal(false));
        }
        let (k, r) = quarter(x.abs());
        (signed(tan_quarter(k, r), sign(x)), is_far(x.abs()))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>(_: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y.mul_add(y, Lane::one())]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The sine, to 1 unit in the last place, of every number; NaN for infinities.
    #[inline(always)]
    pub fn sin(self) -> Self {
        self.call::<SinFn>()
    }
    /// The cosine, with the error of [`sin`](Lane::sin).
    #[inline(always)]
    pub fn cos(self) -> Self {
        self.call::<CosFn>()
    }
    /// The tangent, with the error of [`sin`](Lane::sin).
    #[inline(always)]
    pub fn tan(self) -> Self {
        self.call::<TanFn>()
    }
}
