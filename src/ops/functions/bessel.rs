//! Bessel functions `J₀`, `J₁`, `Y₀`, `Y₁`.
//!
//! All are computed in `f64`, also for `f32`. Up to 8 they are polynomials in `x²`, with the zeros of `J`
//! factored out. From 8 on they are computed from modulus and phase, `√(2/πx)·(P·cos χ − Q·sin χ)` with
//! `χ = x − (2n + 1)·π/4`, where `P` and `Q` are polynomials in `1/x²`. Terms that cancel are double-doubles.
//! From 8 on errors are relative to the amplitude `√(2/πx)`: at a zero of the function, the values at
//! neighboring `x` differ by more.
// Imports: `scalar`.

use super::bits::{clamp, nan, single};
use super::double_double::Double;
use super::polynomial::{long_poly, poly};
use super::power::ln_double;
use super::trig::{is_far, waves};
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::FRAC_2_PI;

/// The first zeros of `J₀` and `J₁`, as double-doubles.
const ZEROS: [[[f64; 2]; 2]; 2] = [
    [[2.404825557695773, -1.176691651530894e-16], [5.520078110286311, 8.088597146146722e-17]],
    [[3.8317059702075125, -1.5269184090088067e-16], [7.015586669815619, -9.414165653410389e-17]],
];
/// `J₀(x)` and `J₁(x)/x` without these zeros, in `x²/32 − 1`: the first coefficients as double-doubles, and
/// the others.
const J: [[[f64; 2]; 7]; 2] = [
    [
        [0.0011434937743762545, 5.3372653576439715e-20],
        [-0.002119794289479692, -1.0143527406202187e-19],
        [0.0015636431645931661, 9.228404393558955e-20],
        [-0.0006415390646406127, 3.647955578028532e-20],
        [0.00016977200713997844, -1.2984115636411046e-20],
        [-3.157342540223125e-05, -2.2455111570606965e-21],
        [4.3669323246406834e-06, 1.173469812693523e-22],
    ],
    [
        [0.00019498936985895625, -1.0436654743797359e-20],
        [-0.0002697522746716368, -2.362164735763309e-20],
        [0.00015860016799369874, -1.2370245341921936e-20],
        [-5.408003239085507e-05, 3.28255957136762e-21],
        [1.224217365301561e-05, -3.994562668542367e-22],
        [-1.98909351591414e-06, -2.480015450537972e-23],
        [2.442522260752042e-07, 8.970941664409749e-24],
    ],
];
const J_REST: [[f64; 9]; 2] = [
    [
        -4.677128021500413e-07,
        3.99883934547248e-08,
        -2.7948629190252563e-09,
        1.6276489491802434e-10,
        -8.023536495592505e-12,
        3.3923298939988384e-13,
        -1.244037126995673e-14,
        4.0068947189799594e-16,
        -1.1358872733053948e-17,
    ],
    [
        -2.3521922546334314e-08,
        1.826854769532134e-09,
        -1.1696932385923217e-10,
        6.284733827928662e-12,
        -2.8755486539015503e-13,
        1.1343125417561167e-14,
        -3.8985659874911057e-16,
        1.1811464430757053e-17,
        -3.1618386969569665e-19,
    ],
];
/// `Y₀ − 2/π·ln x·J₀` and `(Y₁ − 2/π·(ln x·J₁ − 1/x)) / x`, in the same form.
const Y: [[[f64; 2]; 10]; 2] = [
    [
        [-0.382250654459425, 4.821480680857738e-18],
        [-0.8284358903604587, -4.686801747165676e-17],
        [1.6470964788745466, 9.628486023536068e-17],
        [0.14412632369302442, 4.804884408363078e-18],
        [-1.0775477338215995, -1.6138789481228235e-19],
        [0.6721770783431723, 2.6557641321330994e-17],
        [-0.21895747096171628, -8.715598505646776e-18],
        [0.046367047681347105, -3.3296795558822144e-18],
        [-0.0070257410572709695, -4.2622169195672197e-19],
        [0.0008061586060550506, -4.28892845529727e-20],
    ],
    [
        [0.07075985882118005, 3.881163678080901e-18],
        [-0.24337743079193114, -2.381768087802779e-19],
        [0.023367571720993584, 1.2550670687569214e-19],
        [0.23507209206669755, -1.0900526376240035e-17],
        [-0.19639839859930425, -3.0841295480682284e-18],
        [0.07854786922242545, -2.599694832152643e-18],
        [-0.019628756833099423, -4.536804534063632e-19],
        [0.0034224907399180455, 1.6800593821146287e-19],
        [-0.00044381734351149876, 1.857961549775495e-20],
        [4.4674330129143775e-05, -2.5816672416815735e-21],
    ],
];
const Y_REST: [[f64; 8]; 2] = [
    [
        -7.279541882454126e-05,
        5.321318633761208e-06,
        -3.218507844592323e-07,
        1.6391065240160875e-08,
        -7.130461466149226e-10,
        2.6818237435502344e-11,
        -8.840111900737966e-13,
        2.5576616218907466e-14,
    ],
    [
        -3.6009998743578177e-06,
        2.3804929913727272e-07,
        -1.3153322551124148e-08,
        6.16974260611845e-10,
        -2.488750990528334e-11,
        8.728814257439169e-13,
        -2.6951389107285232e-14,
        7.338090945282559e-16,
    ],
];
/// `P − 1` over `(8/x)²`, in `(8/x)²`.
const P: [[f64; 11]; 2] = [
    [
        -0.0010986328124947843,
        2.738088342549617e-05,
        -2.1839141648272434e-06,
        3.619833228408068e-07,
        -1.0209084776749287e-07,
        4.264546302523778e-08,
        -2.2384863139510215e-08,
        1.1957606071172692e-08,
        -5.2579549027947616e-09,
        1.5430648405954496e-09,
        -2.1622711588707783e-10,
    ],
    [
        0.001831054687494465,
        -3.520399303592352e-05,
        2.5809901269395073e-06,
        -4.1025199155008033e-07,
        1.1285413542930311e-07,
        -4.639749246086369e-08,
        2.4117609872054723e-08,
        -1.2812288042978908e-08,
        5.616792852564649e-09,
        -1.6455648437122099e-09,
        2.3035329470924103e-10,
    ],
];
/// `Q·x` in `(8/x)²`.
const Q: [[f64; 12]; 2] = [
    [
        -0.12499999999999986,
        0.0011444091796444361,
        -5.544628725421814e-05,
        6.590711978254828e-06,
        -1.4527071523294014e-06,
        5.10328896659192e-07,
        -2.522481136589197e-07,
        1.4879225020462871e-07,
        -8.53820562240294e-08,
        3.913990291013824e-08,
        -1.177323814255298e-08,
        1.675374957929429e-09,
    ],
    [
        0.37499999999999983,
        -0.0016021728515169015,
        6.776768478603043e-05,
        -7.604672007583784e-06,
        1.6236429151219627e-06,
        -5.590507351123767e-07,
        2.727418812690457e-07,
        -1.5959622210891145e-07,
        9.116763266627313e-08,
        -4.168737987728629e-08,
        1.252143036393349e-08,
        -1.7802669189087854e-09,
    ],
];

/// `1/√π` and `2/π`, as double-doubles.
const ROOT: [f64; 2] = [0.5641895835477563, 7.66772980658294e-18];
const TWO_OVER_PI: [f64; 2] = [0.6366197723675814, -3.935735335036497e-17];

/// `(x − z)·(x + z)` for a double-double zero `z`.
#[inline(always)]
fn around_zero<L: Lanes>(x: Lane<L, f64>, [high, low]: [f64; 2]) -> Double<L, f64> {
    let (below, above) = (Double::sum(x, Lane::real(-high)), Double::sum(x, Lane::real(high)));
    Double::new(below.hi, below.lo - low).mul(Double::new(above.hi, above.lo + low))
}

/// `[J, Y]` of order `n` for `0 ≤ x ≤ 8`.
#[inline(always)]
fn near<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize) -> [Lane<L, f64>; 2] {
    let square = Double::product(x, x * (1.0 / 32.0));
    let w = Double::sum(square.hi, Lane::real(-1.0));
    let w = Double::new(w.hi, w.lo + square.lo);
    let [first, second] = [around_zero(x, ZEROS[n][0]), around_zero(x, ZEROS[n][1])];
    let j = long_poly::<L, R, _, _>(w, J[n], J_REST[n]).mul(first).mul(second);
    let regular = long_poly::<L, R, _, _>(w, Y[n], Y_REST[n]);
    let [j, regular] = if n == 0 { [j, regular] } else { [j.mul_float(x), regular.mul_float(x)] };
    let mut singular = ln_double(x).mul(j);
    if n == 1 {
        let pole = Double::new(Lane::one(), Lane::zero()).div(Double::new(x, Lane::zero()));
        let sum = Double::sum(singular.hi, -pole.hi);
        singular = Double::new(sum.hi, sum.lo + (singular.lo - pole.lo));
    }
    let singular = singular.mul(Double::literal(TWO_OVER_PI, TWO_OVER_PI));
    let sum = Double::sum(regular.hi, singular.hi);
    [j.value(), sum.hi + (sum.lo + (regular.lo + singular.lo))]
}

/// `[J, Y]` of order `n` for finite `x ≥ 8`.
#[inline(always)]
fn far<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize, anywhere: bool) -> [Lane<L, f64>; 2] {
    let inverse = 1.0 / x;
    let z = (inverse * 8.0) * (inverse * 8.0);
    let p = Double::fast_sum(Lane::one(), z * poly(z, P[n]));
    let q = poly(z, Q[n]) * inverse;
    // √2·sin χ and √2·cos χ.
    let [sin, cos] = waves::<L, R>(x, anywhere);
    let add = |a: Double<L, f64>, b: Double<L, f64>| {
        let sum = Double::sum(a.hi, b.hi);
        Double::new(sum.hi, sum.lo + (a.lo + b.lo))
    };
    let minus = |a: Double<L, f64>| a.scale(Lane::real(-1.0));
    let (sum, difference) = (add(sin, cos), add(sin, minus(cos)));
    let (sin, cos) = if n == 0 { (difference, sum) } else { (minus(sum), difference) };
    let size = Double::<L, f64>::literal(ROOT, ROOT).div(Double::new(x, Lane::zero()).sqrt());
    let of = |wave: Double<L, f64>, bend: Lane<L, f64>| {
        let main = wave.mul(p);
        let sum = Double::sum(main.hi, bend);
        Double::new(sum.hi, sum.lo + main.lo).mul(size).value()
    };
    [of(cos, -(q * sin.hi)), of(sin, q * cos.hi)]
}

/// `[J, Y]` of order `n` at `x ≥ 0`; if it is not `anywhere`, at an `x` in the range of the fast path.
#[inline(always)]
fn both<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize, anywhere: bool) -> [Lane<L, f64>; 2] {
    let eight = Lane::real(8.0);
    let is_near = x.lt(eight);
    let (inside, outside) = (is_near.select(x, eight), is_near.select(eight, x));
    let end = x.eq(Lane::highest());
    let (near, far) = (near::<L, R>(inside, n), far::<L, R>(outside, n, anywhere));
    [0, 1].map(|i| end.select(Lane::zero(), is_near.select(near[i], far[i])))
}

/// `J` of order `n` at any `x`.
#[inline(always)]
fn j<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize, anywhere: bool) -> Lane<L, f64> {
    let magnitude = x.abs();
    let [y, _] = both::<L, R>(magnitude, n, anywhere);
    let y = magnitude.is_nan().select(magnitude, y);
    if n == 0 {
        return y;
    }
    // x/2 where its square is negligible against 1.
    let y = magnitude.lt(Lane::real(1e-9)).select(magnitude * 0.5, y);
    x.lt(Lane::zero()).select(-y, x.eq(Lane::zero()).select(x, y))
}

/// `Y` of order `n`: NaN below 0, −∞ at 0.
#[inline(always)]
fn y<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize, anywhere: bool) -> Lane<L, f64> {
    let [_, y] = both::<L, R>(x, n, anywhere);
    // All but the pole is negligible there.
    let y = if n == 0 { y } else { x.lt(Lane::real(1e-9)).select(-FRAC_2_PI / x, y) };
    let y = x.ge(Lane::zero()).select(y, nan());
    x.eq(Lane::zero()).select(Lane::lowest(), y)
}

macro_rules! bessel {
    (
        $(
            $(#[$meta:meta])* $F:ident $name:literal $body:ident $n:literal [$f32:literal $f64:literal],
            |$x:ident, $y:ident| $slope:expr;
        )*
    ) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`, in units of the larger of the result and the amplitude.
            pub const ULP_F32: f64 = $f32;
            /// Error budget for `f64`, in the same units.
            pub const ULP_F64: f64 = $f64;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                $body::<L, P>(x.cast(), $n, true).cast()
            }
            #[inline(always)]
            fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
                if single::<P>() {
                    return (Self::value([x]), Lane::literal(false));
                }
                ($body::<L, P>(x.cast(), $n, false).cast(), is_far(x.abs()))
            }
            #[inline(always)]
            fn derivative<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}
bessel! {
    /// `J₀(x)`; see [`Lane::j0`].
    J0Fn "j0" j 0 [1.0 1.5], |x, _y| -x.j1();
    /// `J₁(x)`; see [`Lane::j1`].
    J1Fn "j1" j 1 [1.0 1.5], |x, _y| x.j0() - x.call::<J1OverFn>();
    /// `Y₀(x)`; see [`Lane::y0`].
    Y0Fn "y0" y 0 [1.0 1.5], |x, _y| -x.y1();
    /// `Y₁(x)`; see [`Lane::y1`].
    Y1Fn "y1" y 1 [1.0 1.5], |x, y| x.y0() - y / x;
}

/// `1 / (k! (k + 2)!)` for `k = 0, 1, …` with the signs that `sign` begins: `J₂` and `I₂` near 0 (DLMF
/// 10.2.2).
const fn second_order(sign: f64) -> [f64; 12] {
    let (mut series, mut term, mut k) = ([0.0; 12], 0.5, 0);
    while k < 12 {
        series[k] = term;
        term *= sign / ((k + 1) * (k + 3)) as f64;
        k += 1;
    }
    series
}

/// `J₂(x)/x` (`sign` −1) or `I₂(x)/x` (1) for `|x| ≤ 2`.
#[inline(always)]
pub(super) fn second_over<L: Lanes, P: Real>(x: Lane<L, P>, sign: f64) -> Lane<L, P> {
    let x = clamp(x, Lane::real(-2.0), Lane::real(2.0));
    x * 0.25 * poly(x * x * 0.25, second_order(sign))
}

/// `J₁(x)/x`. It is a function because the quotient rule cancels near 0.
struct J1OverFn;

impl Function<1> for J1OverFn {
    const NAME: &'static str = "j1_over";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        x.eq(Lane::zero()).select(Lane::real(0.5), x.j1() / x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        // −J₂(x)/x, and J₂ = 2·J₁/x − J₀.
        [-x.abs().lt(2.0).select(second_over(x, -1.0), (y * 2.0 - x.j0()) / x)]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The Bessel function `J₀`, to 1 (`f32`) or 1.5 (`f64`) units in the last place. From 8 on (`Y` from 1/4
    /// on) the unit is that of the larger of the result and `√(2/πx)`, because near a zero any rounding of
    /// `x` changes the result by more.
    #[inline(always)]
    pub fn j0(self) -> Self {
        self.call::<J0Fn>()
    }
    /// The Bessel function `J₁`, with the range and error of [`j0`](Lane::j0).
    #[inline(always)]
    pub fn j1(self) -> Self {
        self.call::<J1Fn>()
    }
    /// The Bessel function `Y₀`, with the range and error of [`j0`](Lane::j0); NaN below 0, −∞ at 0.
    #[inline(always)]
    pub fn y0(self) -> Self {
        self.call::<Y0Fn>()
    }
    /// The Bessel function `Y₁`, with the range and error of [`j0`](Lane::j0); NaN below 0, −∞ at 0.
    #[inline(always)]
    pub fn y1(self) -> Self {
        self.call::<Y1Fn>()
    }
}
