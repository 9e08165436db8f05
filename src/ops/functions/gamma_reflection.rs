//! `lgamma` and `digamma` of negative numbers, with zeros between all poles (`digamma`) or most of them
//! (`lgamma`). All terms are double-doubles, to about 2^-100 of the largest term: results are relatively
//! accurate up to the number next to almost every zero.
//!
//! Next to the zeros that floats come nearest to, the result is computed from the first and second derivative
//! there. The method is reflection as in `gamma`, with Stirling's series from 16 on.
// Imports: `scalar`.

use super::double_double::Double;
use super::log::LogParts;
use super::polynomial::long_poly;
use crate::scalar::{Lane, Lanes};

/// `sin(πw) / w` in `w²`, for `w ≤ 1/4`: the first coefficients as double-doubles, and the others.
const SIN: [[f64; 2]; 8] = [
    [3.141592653589793, 1.2246467991473532e-16],
    [-5.16771278004997, 2.2665622825789447e-16],
    [2.5501640398773455, -7.931006345326563e-17],
    [-0.5992645293207921, 2.84502611270095e-17],
    [0.08214588661112823, -3.847292810293831e-18],
    [-0.0073704309457143504, -3.328275729518676e-19],
    [0.00046630280576761255, 1.0666605609323099e-20],
    [-2.1915353447830214e-05, -1.4794796956807966e-22],
];
const SIN_REST: [f64; 5] = [
    7.952054001474945e-07,
    -2.2948428996021902e-08,
    5.392664477596204e-10,
    -1.0518294794441735e-11,
    1.7203641316475944e-13,
];
/// `cos πw`, in the same form.
const COS: [[f64; 2]; 9] = [
    [1.0, -4.9789865007449814e-45],
    [-4.934802200544679, -3.1326477543698557e-16],
    [4.0587121264167685, -2.6602000824298645e-16],
    [-1.3352627688545895, 3.1815237892149862e-18],
    [0.2353306303588932, -1.2583065576724477e-18],
    [-0.02580689139001406, 1.1701910679399669e-18],
    [0.0019295743094039231, -9.669517947171203e-20],
    [-0.0001046381049248457, -2.4212014089787682e-21],
    [4.303069587032947e-06, -2.8662512827540114e-22],
];
const COS_REST: [f64; 6] = [
    -1.3878952462213771e-07,
    3.604730797462318e-09,
    -7.700707130284302e-11,
    1.376864689798209e-12,
    -2.0906018249243115e-14,
    2.714850753384392e-16,
];
/// `(2·artanh(s) − 2s) / s³` in `s²`, for `s ≤ 3 − √8`, in the same form.
const ARTANH: [[f64; 2]; 10] = [
    [0.6666666666666666, 3.700743415417188e-17],
    [0.4, -2.2204460492503132e-17],
    [0.2857142857142857, 1.586032892321652e-17],
    [0.2222222222222222, 1.2335811384723352e-17],
    [0.18181818181818182, -5.046468293230006e-18],
    [0.15384615384615385, -8.540177383506523e-18],
    [0.13333333333333333, 1.850465347481145e-18],
    [0.11764705882352941, 1.6099883980184847e-18],
    [0.10526315789473685, -4.032215689525936e-18],
    [0.0952380952380947, 5.8135650096290324e-18],
];
const ARTANH_REST: [f64; 9] = [
    0.08695652173918306,
    0.07999999999597249,
    0.0740740743111164,
    0.06896550654117768,
    0.06451649585220343,
    0.06059669521835586,
    0.05731489179841182,
    0.051917148247347666,
    0.06710858502708535,
];
/// `z·(lnΓ(z) − (z − ½)·ln z + z − ½·ln 2π)` in `1/z²`, for `z ≥ 16`, in the same form.
const STIRLING: [[f64; 2]; 5] = [
    [0.08333333333333333, 4.625929269271304e-18],
    [-0.002777777777777778, 1.060108903323886e-19],
    [0.0007936507936507937, 5.731094111178346e-22],
    [-0.0005952380952380947, -2.711623375567228e-20],
    [0.000841750841749894, 1.2870876723333215e-20],
];
const STIRLING_REST: [f64; 6] = [
    -0.0019175269163894115,
    0.006410255557358517,
    -0.029550241569602557,
    0.1795157851066844,
    -1.3672311865451239,
    10.53269400958414,
];
/// `z²·(ln z − 1/2z − ψ(z))`, in the same form.
const DIGAMMA: [[f64; 2]; 5] = [
    [0.08333333333333333, 4.625929269267411e-18],
    [-0.008333333333333333, -1.1564797924846856e-19],
    [0.003968253968253968, 2.1769387236642447e-19],
    [-0.004166666666666656, -1.0600225021275758e-19],
    [0.007575757575736285, 1.5554171700248111e-19],
];
const DIGAMMA_REST: [f64; 6] = [
    -0.021092796067231714,
    0.08333331415412476,
    -0.4432505306378193,
    3.0510563261573926,
    -25.88691600860217,
    216.3135821186928,
];
/// `ln 2`, `½·ln 2π − ½`, and `π`, as double-doubles.
const LN_2: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];
const STIRLING_0: [f64; 2] = [0.4189385332046727, 1.6728209650585413e-17];
const PI: [f64; 2] = [3.141592653589793, 1.2246467991473532e-16];
/// Zeros and the derivatives there as double-doubles, and the relative change of the derivative to the middle
/// of a step of 1.
const LN_GAMMA_ZEROS: [[f64; 5]; 8] = [
    [
        -2.4570247382208006,
        -3.7075610815513266e-17,
        1.5156034480216574,
        -4.0695290379659363e-17,
        3.205535694693519,
    ],
    [
        -2.7476826467274127,
        9.055340329338315e-17,
        -1.9143501856115988,
        -6.288473508186805e-17,
        -5.001796195741781,
    ],
    [
        -3.14358088834998,
        -2.1818179852331714e-16,
        7.781884658131351,
        -1.2366266971852707e-16,
        3.3194193318448373,
    ],
    [
        -3.955294284858598,
        -1.999428391746348e-17,
        -20.725060845803707,
        1.4319348367658305e-15,
        -12.14542550488363,
    ],
    [
        -4.039361839740537,
        2.1143995503980602e-16,
        26.790480886140593,
        7.29303362861673e-16,
        12.103378222881874,
    ],
    [
        -4.991544640560048,
        1.5174411760571722e-16,
        -116.53578161624363,
        -5.71604654736871e-15,
        -60.02650737719011,
    ],
    [
        -5.0082181683225935,
        -4.3926353491015815e-17,
        123.3621845633534,
        -1.7685712092825869e-15,
        60.024572833548696,
    ],
    [
        -5.998607480080875,
        -3.311862478893795e-16,
        -716.2454304275473,
        -2.978324292002825e-14,
        -360.0045161693299,
    ],
];
/// The same for `ψ`.
const DIGAMMA_ZEROS: [[f64; 5]; 16] = [
    [
        -0.5040830082644554,
        -8.15428206243813e-18,
        8.939798558792134,
        4.661730805438714e-16,
        -0.09053285230176397,
    ],
    [
        -1.5734984731623904,
        -1.574185691077347e-17,
        9.941513615924176,
        -3.5066551522020224e-16,
        -0.7848496995753789,
    ],
    [
        -2.6107208684441447,
        9.881960746978353e-17,
        10.84832879920919,
        -8.536942638820942e-16,
        -1.177206732080073,
    ],
    [
        -3.635293366436901,
        5.454396163173039e-17,
        11.650939359651861,
        2.7717347428725115e-16,
        -1.4538173348047934,
    ],
    [
        -4.653237761743142,
        -2.5492686201468193e-16,
        12.369637994669782,
        3.8877487536134796e-17,
        -1.668359047473687,
    ],
    [
        -5.6671624415568855,
        -3.2153051074948335e-18,
        13.021406387509394,
        -6.965089235370473e-16,
        -1.843950864633329,
    ],
    [
        -6.678418213073427,
        3.470798723495241e-16,
        13.61885190419576,
        -7.135780553752631e-16,
        -1.9927318885881709,
    ],
    [
        -7.687788325031626,
        -1.351562494643672e-16,
        14.17134063324115,
        -6.249516188433109e-16,
        -2.1218922488443424,
    ],
    [
        -8.695764163816401,
        -3.2859903716289447e-16,
        14.685967981672645,
        -5.723133091848305e-16,
        -2.23605283678493,
    ],
    [
        -9.702672540001863,
        -3.2563178405401477e-16,
        15.168227153977934,
        6.378153190846254e-16,
        -2.338364245347548,
    ],
    [
        -10.708740838254144,
        -6.287211750540301e-16,
        15.622457622439102,
        -3.671625513240059e-16,
        -2.431073250513743,
    ],
    [
        -11.714133061228955,
        8.598250154343834e-16,
        16.052149399699143,
        -2.276253500863315e-16,
        -2.5158396754802643,
    ],
    [
        -12.718971025749207,
        -4.752312432106917e-16,
        16.460153754774325,
        -1.6912033593757427e-15,
        -2.5939252036679035,
    ],
    [
        -13.723347457363827,
        4.528278691518058e-16,
        16.848832388781286,
        -1.5787597768773472e-15,
        -2.6663117193490904,
    ],
    [
        -14.727334416018529,
        -3.6618399963139786e-17,
        17.220165296986988,
        -5.688225105726854e-16,
        -2.7337786095107464,
    ],
    [
        -15.730988906332882,
        1.0551956373365842e-16,
        17.57583029204343,
        1.7535878417261093e-16,
        -2.7969550301781787,
    ],
];

type Words<L> = Double<L, f64>;

#[inline(always)]
fn words<L: Lanes>(words: [f64; 2]) -> Words<L> {
    Double::new(Lane::real(words[0]), Lane::real(words[1]))
}

/// `a + b`, to 2^-104 of the larger.
#[inline(always)]
fn add<L: Lanes>(a: Words<L>, b: Words<L>) -> Words<L> {
    let sum = Double::sum(a.hi, b.hi);
    Double::new(sum.hi, sum.lo + (a.lo + b.lo)).normal()
}

/// A polynomial of double-doubles.
#[inline(always)]
fn series<L: Lanes, const K: usize, const N: usize>(
    x: Words<L>,
    lead: [[f64; 2]; K],
    rest: [f64; N],
) -> Words<L> {
    long_poly::<L, f64, K, N>(x, lead, rest).normal()
}

/// `ln a` for a positive normal number.
#[inline(always)]
fn ln<L: Lanes>(a: Words<L>) -> Words<L> {
    let parts = LogParts::of(a.hi);
    let f = parts.mantissa - 1.0;
    let s = Double::new(f, Lane::zero()).div(Double::fast_sum(Lane::real(2.0), f)).normal();
    let z = s.mul(s).normal();
    let cubic = series(z, ARTANH, ARTANH_REST).mul(z).mul(s).normal();
    let fraction = add(s.scale(Lane::real(2.0)), cubic);
    let whole = add(words::<L>(LN_2).mul_float(parts.exponent).normal(), fraction);
    Double::new(whole.hi, whole.lo + a.lo / a.hi)
}

/// `sin π|u|` and `cos πu` for `|u| ≤ 1/2`.
#[inline(always)]
fn waves<L: Lanes>(u: Lane<L, f64>) -> [Words<L>; 2] {
    let far = u.abs().gt(Lane::real(0.25));
    let w = far.select(0.5 - u.abs(), u.abs());
    let square = Double::product(w, w);
    let sin = series(square, SIN, SIN_REST).mul_float(w).normal();
    let cos = series(square, COS, COS_REST);
    [Double::select(far, cos, sin), Double::select(far, sin, cos)]
}

/// `v ≥ 1` moved up to 16 by steps of 1, the product of the steps, and that product times the sum of their
/// inverses.
#[inline(always)]
fn moved_up<L: Lanes>(v: Words<L>) -> [Words<L>; 3] {
    let (zero, one) = (Lane::zero(), Lane::one());
    let (mut z, mut product, mut sum) = (v, Double::new(one, zero), Double::new(zero, zero));
    for step in 1..16 {
        let small = z.hi.lt(Lane::real(16.0));
        sum = Double::select(small, add(sum.mul(z), product), sum);
        product = Double::select(small, product.mul(z).normal(), product);
        let next = Double::sum(v.hi, Lane::int(step));
        z = Double::select(small, Double::new(next.hi, next.lo + v.lo).normal(), z);
    }
    [z, product, sum]
}

/// `y`, or the parabola at the zero next to `x`.
#[inline(always)]
fn beside_zeros<L: Lanes, const N: usize>(
    x: Lane<L, f64>,
    y: Lane<L, f64>,
    zeros: [[f64; 5]; N],
) -> Lane<L, f64> {
    let mut row = [Lane::<L, f64>::zero(); 5];
    for zero in zeros {
        let beside = (x - zero[0]).abs().lt(Lane::real(2f64.powi(-40)));
        row = std::array::from_fn(|i| beside.select(Lane::real(zero[i]), row[i]));
    }
    let [high, low, slope, slope_low, bend] = row;
    let distance = Double::sum(x - high, -low);
    let tangent = Double::new(slope, slope_low).mul(distance);
    let parabola = tangent.hi + tangent.hi.mul_add(bend * distance.hi, tangent.lo);
    slope.eq(Lane::zero()).select(y, parabola)
}

/// `ln |Γ(x)|` for `x < 0`.
#[inline(always)]
pub(super) fn ln_gamma_below<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let [z, product, _] = moved_up(Double::sum(Lane::one(), -x));
    let [sin, _] = waves(x - x.round());
    // lnΓ(z) = (ln z − 1)·(z − ½) + ½·ln 2π − ½ + …
    let inverse = Double::new(Lane::one(), Lane::zero()).div(z).normal();
    let correction = series(inverse.mul(inverse).normal(), STIRLING, STIRLING_REST).mul(inverse);
    let minus = |x: f64| Double::new(Lane::real(x), Lane::zero());
    let main = add(ln(z), minus(-1.0)).mul(add(z, minus(-0.5))).normal();
    let above = add(main, add(words(STIRLING_0), correction));
    let y = add(ln(product.mul(words(PI)).normal().div(sin).normal()), above.scale(Lane::real(-1.0)));
    beside_zeros(x, y.value(), LN_GAMMA_ZEROS)
}

/// `ψ(x)` for `x < 0`.
#[inline(always)]
pub(super) fn psi_below<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let [z, product, sum] = moved_up(Double::sum(Lane::one(), -x));
    let u = x - x.round();
    let [sin, cos] = waves(u);
    let inverse = Double::new(Lane::one(), Lane::zero()).div(z).normal();
    let square = inverse.mul(inverse).normal();
    let correction =
        add(inverse.scale(Lane::real(0.5)), series(square, DIGAMMA, DIGAMMA_REST).mul(square).normal());
    let above = add(ln(z), add(correction, sum.div(product).normal()).scale(Lane::real(-1.0)));
    let turn = words(PI)
        .mul(cos)
        .normal()
        .div(sin)
        .normal()
        .scale(u.lt(Lane::zero()).select(Lane::one(), Lane::real(-1.0)));
    beside_zeros(x, add(above, turn).value(), DIGAMMA_ZEROS)
}
