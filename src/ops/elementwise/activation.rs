//! Activations as compositions of functions, in forms that stay accurate in the tails.
// Imports: `scalar`, `ops`.

use crate::ops::define::operators;
use crate::ops::functions::{SoftsignFn, TanhShrinkFn};
use crate::scalar::{Lane, Lanes, Num, Ordered, Real};

impl<L: Lanes, P: Num + Ordered> Lane<L, P> {
    /// max(x, 0), with derivative 0 at 0; NaN for NaN.
    #[inline(always)]
    pub fn relu(self) -> Self {
        self.le(Lane::zero()).select(Lane::zero(), self)
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// `ln(1 + eˣ)` without overflow and exact in the left tail.
    #[inline(always)]
    pub fn softplus(self) -> Self {
        // Not composed of |x| and max(x, 0): one formula on both sides of 0 keeps the derivative right there.
        let positive = self.gt(Lane::zero());
        positive.select(self, Lane::zero()) + positive.select(-self, self).exp().ln_1p()
    }
}

operators! {
    /// Activations of neural networks, elementwise.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([-1.0, 0.0, 2.0]);
    /// assert_eq!(x.relu()?.to_vec()?, [0.0, 0.0, 2.0]);
    /// let gated = (x.lazy().silu() * &x).eval()?; // one pass
    /// assert_eq!((gated[[1]], x.sigmoid()?[[1]]), (0.0, 0.5));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Activation;
    /// max(x, 0).
    fn relu = Relu(x) where RealNumber { x.relu() } slope of y {
        y.le(Lane::zero()).select(Lane::zero(), Lane::one())
    }
    /// The logistic function, 1 / (1 + e^(−x)).
    fn sigmoid = Sigmoid(x) where Float { x.sigmoid() } slope of y { y * (1.0 - y) } unless rounded
    /// ln(sigmoid(x)).
    fn log_sigmoid = LogSigmoid(x) where Float { -(-x).softplus() }
    /// x · sigmoid(x), also called swish.
    fn silu = Silu(x) where Float { x.silu() }
    /// ln(1 + eˣ).
    fn softplus = Softplus(x) where Float { x.softplus() }
    /// Gaussian error linear unit, x · Φ(x).
    fn gelu = Gelu(x) where Float { x.gelu() }
    /// Gaussian error linear unit in its tanh form: x · sigmoid(2u) with u = √(2/π) · (x + 0.044715 x³).
    fn gelu_tanh = GeluTanh(x) where Float { x.gelu_tanh() }
    /// x · tanh(softplus(x)).
    fn mish = Mish(x) where Float {
        // tanh(ln(1 + e)) = (e² + 2e) / (e² + 2e + 2), with e = eˣ for x ≤ 0 and divided through by e² above.
        let positive = x.gt(Lane::zero());
        let small = positive.select(-x, x).exp();
        let below = small * (small + 2.0);
        let above = small * 2.0 + 1.0;
        let twice = small * small * 2.0;
        let quotient = positive.select(1.0 - twice / (twice + above), below / (below + 2.0));
        x.eq(Lane::lowest()).select(-Lane::zero(), x * quotient)
    }
    /// min(max(x, 0), 6).
    fn relu6 = Relu6(x) where Float { x.max(Lane::zero()).min(6.0) }
    /// x clamped to [−1, 1].
    fn hard_tanh = HardTanh(x) where Float { x.max(-1.0).min(1.0) }
    /// x · max(0, min(1, x/6 + 1/2)); −0 at −∞.
    fn hard_swish = HardSwish(x) where Float {
        let x = x.lt(-3.0).select(-3.0, x);
        x * (x + 3.0).min(6.0) / 6.0
    }
    /// The scaled `elu` of self-normalizing networks: 1.0507 · (x above 0, 1.6733 · (eˣ − 1) below).
    fn selu = Selu(x) where Float {
        let positive = x.gt(Lane::zero());
        let below = positive.select(Lane::zero(), x).exp_m1() * 1.758_099_340_847_376_6; // scale · alpha
        positive.select(x * 1.050_700_987_355_480_5, below)
    }
    /// x − tanh(x).
    fn tanh_shrink = TanhShrink(x) where Float { x.call::<TanhShrinkFn>() }
    /// x moved towards 0 by λ outside of ±λ, and 0 between; `other` is λ.
    fn soft_shrink = SoftShrink(x, lambda) where Float {
        x.gt(lambda).select(x - lambda, x.lt(-lambda).select(x + lambda, x * Lane::zero()))
    }
    /// x outside of ±λ and 0 between; `other` is λ.
    fn hard_shrink = HardShrink(x, lambda) where Float {
        (x.ge(-lambda) & x.le(lambda)).select(Lane::zero(), x)
    }
    /// x above 0, eˣ − 1 below.
    fn elu = Elu(x) where Float {
        // Not min(x, 0), whose derivative at 0 is half of the one on either side here.
        let positive = x.gt(Lane::zero());
        positive.select(x, positive.select(Lane::zero(), x).exp_m1())
    }
    /// x for x > 0, slope · x below; `other` is the slope.
    fn leaky_relu = LeakyRelu(x, slope) where Float { x.gt(Lane::zero()).select(x, x * slope) }
    /// x / (1 + |x|).
    fn softsign = Softsign(x) where Float { x.call::<SoftsignFn>() }
    /// max(0, min(6, x + 3)) / 6.
    fn hard_sigmoid = HardSigmoid(x) where Float { (x + 3.0).max(Lane::zero()).min(6.0) / 6.0 }
}
