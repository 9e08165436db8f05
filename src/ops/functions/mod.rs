//! The named functions of `<math.h>`: branch-free bodies that vectorize, each with its error budget.
//!
//! Every function states `ULP_F32` and `ULP_F64`: the largest error, in units in the last place of the true
//! result, over all inputs, or over the range that its documentation names. 16-bit floats are computed in
//! `f32`. Special values are those of C99 Annex F. Bodies keep rounding errors in the second word of a
//! double-double (`Double`), which a fused multiply-add makes cheap. Coefficients are minimax fits (Remez)
//! for the interval after argument reduction.
// Imports: nothing.

#![allow(clippy::approx_constant, clippy::excessive_precision)] // constants in two words, and coefficients

mod bessel;
mod bessel_modified;
mod bits;
mod double_double;
mod error_function;
mod exp;
mod gamma;
mod gamma_reflection;
mod hyperbolic;
mod inverse_hyperbolic;
mod inverse_trig;
mod log;
mod logistic;
mod normal;
mod polynomial;
mod power;
mod root;
mod sinc;
mod softsign;
mod trig;

pub use bessel::{J0Fn, J1Fn, Y0Fn, Y1Fn};
pub use bessel_modified::{I0Fn, I0eFn, I1Fn, I1eFn};
pub use error_function::{ErfFn, ErfcFn};
pub use exp::{Exp2Fn, ExpFn, ExpM1Fn};
pub use gamma::{DigammaFn, GammaFn, LgammaFn};
pub use hyperbolic::{CoshFn, SinhFn, TanhFn};
pub use inverse_hyperbolic::{AcoshFn, AsinhFn, AtanhFn};
pub use inverse_trig::{AcosFn, AsinFn, Atan2Fn, AtanFn};
pub use log::{Ln1pFn, LnFn, Log2Fn, Log10Fn};
pub use logistic::{GeluFn, GeluTanhFn, SigmoidFn, SiluFn};
pub use normal::{ErfInvFn, LogNdtrFn, NdtrFn};
pub use power::PowFn;
pub use root::{CbrtFn, HypotFn};
pub use trig::{CosFn, SinFn, TanFn};

pub(super) use exp::{ExpDifferenceFn, exp_beside_one};
pub(super) use hyperbolic::TanhShrinkFn;
pub(super) use logistic::LogitFn;
pub(super) use sinc::SincFn;
pub(super) use softsign::SoftsignFn;

pub(super) use bits::sign;
