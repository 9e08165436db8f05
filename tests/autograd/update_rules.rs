//! Optimizers against their formulas in f64, for every kind of element and layout.

use rankform::autograd::Differentiable;
use rankform::optim::{Adam, AdamW, Lion, Optimizer, RmsProp, Sgd, UpdateRule, clip_norm, clip_value};
use rankform::prelude::*;
use rankform::{Complex, bf16, f16};

/// A step of one element in f64: parameter, gradient, state of up to three numbers, number of the step.
type Formula = dyn Fn(f64, f64, &mut [f64; 3], i32) -> f64;

/// A gradient that differs from element to element and from step to step, of several magnitudes.
fn gradient_at(k: usize, t: i32) -> f64 {
    (k as f64 * 1.3 + f64::from(t) * 0.9).sin() * 10f64.powi(k as i32 % 5 - 2)
}

/// The largest error of five steps of an optimizer, relative to the change of the parameter or to `T`'s unit
/// at 1.
fn error_of<T: Differentiable + Float, R: UpdateRule>(
    mut optimizer: Optimizer<R>,
    formula: &Formula,
) -> Result<f64> {
    const N: usize = 37;
    let start = |k: usize| T::constant((k as f64 * 0.37).cos() * 2.0);
    let mut x = Tensor::<T, 2>::from_fn([1, N], |[_, k]| start(k), &Cpu)?;
    let mut expected: Vec<(f64, [f64; 3])> =
        (0..N).map(|k| (num_traits_to_f64(start(k)), [0.0; 3])).collect();
    let mut worst = 0.0_f64;
    for t in 1..=5 {
        let gradient = Tensor::<T, 2>::from_fn([1, N], |[_, k]| T::constant(gradient_at(k, t)), &Cpu)?;
        optimizer.step(&mut x, &gradient)?;
        for (k, (p, state)) in expected.iter_mut().enumerate() {
            *p = formula(*p, num_traits_to_f64(gradient[[0, k]]), state, t);
            let found = num_traits_to_f64(x[[0, k]]);
            worst = worst.max((found - *p).abs() / p.abs().max(1.0));
        }
    }
    Ok(worst)
}

pub fn num_traits_to_f64<T: Float>(x: T) -> f64 {
    Tensor::from([x]).cast::<f64>().unwrap()[[0]]
}

/// An optimizer with its formula.
macro_rules! agree {
    ($make:expr, |$p:ident, $g:ident, $s:ident, $t:ident| $formula:expr) => {{
        let formula: &Formula = &|$p: f64, $g: f64, $s: &mut [f64; 3], $t: i32| $formula;
        assert!(error_of::<f64, _>($make, formula)? < 1e-15, "f64");
        assert!(error_of::<f32, _>($make, formula)? < 1e-6, "f32");
        assert!(error_of::<f16, _>($make, formula)? < 5e-3, "f16");
        assert!(error_of::<bf16, _>($make, formula)? < 4e-2, "bf16");
    }};
}

#[test]
fn gradient_descent_computes_its_formula() -> Result<()> {
    agree!(Sgd::new(0.05), |p, g, _s, _t| p - 0.05 * g);
    agree!(Sgd::new(0.05).weight_decay(0.1), |p, g, _s, _t| p - 0.05 * (g + 0.1 * p));
    agree!(Sgd::new(0.05).momentum(0.9).weight_decay(0.1), |p, g, s, t| {
        let g = g + 0.1 * p;
        s[0] = if t == 1 { g } else { 0.9 * s[0] + g };
        p - 0.05 * s[0]
    });
    agree!(Sgd::new(0.05).momentum(0.9).dampening(0.25), |p, g, s, t| {
        s[0] = if t == 1 { g } else { 0.9 * s[0] + 0.75 * g };
        p - 0.05 * s[0]
    });
    agree!(Sgd::new(0.05).momentum(0.9).nesterov(true), |p, g, s, t| {
        s[0] = if t == 1 { g } else { 0.9 * s[0] + g };
        p - 0.05 * (g + 0.9 * s[0])
    });
    Ok(())
}

/// Adam's direction: the state is the mean of gradients and the mean of squares.
fn adam(g: f64, s: &mut [f64; 3], t: i32, [beta1, beta2]: [f64; 2], epsilon: f64) -> f64 {
    s[0] = beta1 * s[0] + (1.0 - beta1) * g;
    s[1] = beta2 * s[1] + (1.0 - beta2) * g * g;
    let (m, v) = (s[0] / (1.0 - beta1.powi(t)), s[1] / (1.0 - beta2.powi(t)));
    m / (v.sqrt() + epsilon)
}

#[test]
fn adam_and_adamw_compute_their_formulas() -> Result<()> {
    agree!(Adam::new(1e-2), |p, g, s, t| p - 1e-2 * adam(g, s, t, [0.9, 0.999], 1e-8));
    agree!(Adam::new(1e-2).betas(0.3, 0.5).epsilon(0.1).weight_decay(0.1), |p, g, s, t| {
        p - 1e-2 * adam(g + 0.1 * p, s, t, [0.3, 0.5], 0.1)
    });
    agree!(AdamW::new(1e-2), |p, g, s, t| {
        p * (1.0 - 1e-2 * 1e-2) - 1e-2 * adam(g, s, t, [0.9, 0.999], 1e-8)
    });
    agree!(AdamW::new(1e-2).betas(0.8, 0.9).weight_decay(0.5), |p, g, s, t| {
        p * (1.0 - 1e-2 * 0.5) - 1e-2 * adam(g, s, t, [0.8, 0.9], 1e-8)
    });
    Ok(())
}

/// The divisor of RMSprop: the state is the mean of squares and the mean of gradients.
fn deviation(g: f64, s: &mut [f64; 3], alpha: f64, is_centered: bool) -> f64 {
    s[0] = alpha * s[0] + (1.0 - alpha) * g * g;
    s[1] = alpha * s[1] + (1.0 - alpha) * g;
    (s[0] - if is_centered { s[1] * s[1] } else { 0.0 }).sqrt() + 1e-8
}

#[test]
fn rms_prop_computes_its_formula() -> Result<()> {
    agree!(RmsProp::new(1e-2), |p, g, s, _t| p - 1e-2 * g / deviation(g, s, 0.99, false));
    agree!(RmsProp::new(1e-2).alpha(0.9).weight_decay(0.1), |p, g, s, _t| {
        let g = g + 0.1 * p;
        p - 1e-2 * g / deviation(g, s, 0.9, false)
    });
    agree!(RmsProp::new(1e-2).momentum(0.9), |p, g, s, _t| {
        s[2] = 0.9 * s[2] + g / deviation(g, s, 0.99, false);
        p - 1e-2 * s[2]
    });
    agree!(RmsProp::new(1e-2).alpha(0.9).centered(true), |p, g, s, _t| {
        p - 1e-2 * g / deviation(g, s, 0.9, true)
    });
    agree!(RmsProp::new(1e-2).alpha(0.9).centered(true).momentum(0.5), |p, g, s, _t| {
        s[2] = 0.5 * s[2] + g / deviation(g, s, 0.9, true);
        p - 1e-2 * s[2]
    });
    Ok(())
}

/// A step of Lion with a rate of 0.01.
fn lion(p: f64, g: f64, s: &mut [f64; 3], [beta1, beta2]: [f64; 2], decay: f64) -> f64 {
    let direction = beta1 * s[0] + (1.0 - beta1) * g;
    s[0] = beta2 * s[0] + (1.0 - beta2) * g;
    let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
    p * (1.0 - 1e-2 * decay) - 1e-2 * sign
}

#[test]
fn lion_computes_its_formula() -> Result<()> {
    agree!(Lion::new(1e-2), |p, g, s, _t| lion(p, g, s, [0.9, 0.99], 0.0));
    agree!(Lion::new(1e-2).betas(0.95, 0.98).weight_decay(1.0), |p, g, s, _t| {
        lion(p, g, s, [0.95, 0.98], 1.0)
    });
    let mut x = Tensor::from([1.0]);
    Lion::new(0.5).step(&mut x, &Tensor::from([0.0]))?;
    assert_eq!(x.to_vec()?, [1.0]);
    Ok(())
}

#[test]
fn the_state_of_16_bit_elements_keeps_what_the_elements_round_away() -> Result<()> {
    // Means of squares of 1e-4 are 1e-8: 0 in f16, and steps would be of 1/ε.
    let mut x = Tensor::from([f16::from_f32(1.0)]);
    let gradient = Tensor::from([f16::from_f32(1e-4)]);
    let mut optimizer = Adam::new(0.125);
    for _ in 0..4 {
        optimizer.step(&mut x, &gradient)?;
    }
    assert!((x[[0]].to_f32() - 0.5).abs() < 2e-3, "{x:?}");
    Ok(())
}

#[test]
fn a_complex_parameter_is_updated_as_two_real_numbers() -> Result<()> {
    let gradient = |t: f64| [1.0 + t, -2.0, 0.5, 3.0 * t];
    let (mut real, mut complex) = (
        Tensor::from([[1.0, 2.0], [3.0, 4.0]]),
        Tensor::from([Complex::new(1.0, 2.0), Complex::new(3.0, 4.0)]),
    );
    let (mut of_real, mut of_complex) = (AdamW::new(0.1), AdamW::new(0.1));
    for t in 0..3 {
        let [a, b, c, d] = gradient(f64::from(t));
        of_real.step(&mut real, &Tensor::from([[a, b], [c, d]]))?;
        of_complex.step(&mut complex, &Tensor::from([Complex::new(a, b), Complex::new(c, d)]))?;
    }
    assert_eq!(complex.view_as_real()?.to_vec()?, real.to_vec()?);
    let mut z = Tensor::from([Complex::new(3.0_f32, 4.0)]);
    assert_eq!(clip_norm(&mut z, 10.0)?, 5.0);
    clip_value(&mut z, 3.5)?;
    assert_eq!(z.to_vec()?, [Complex::new(3.0, 3.5)]);
    Ok(())
}

#[test]
fn parameters_and_gradients_may_have_any_layout() -> Result<()> {
    let base = |k: f64| Tensor::from_fn([4, 5], |[i, j]| k * (i as f64 - 0.3 * j as f64), &Cpu);
    let (mut plain, mut turned) =
        (base(1.0)?, base(1.0)?.into_transposed()?.to_contiguous()?.into_transposed()?);
    let (g, turned_g) = (base(0.5)?, base(0.5)?.into_transposed()?.to_contiguous()?.into_transposed()?);
    assert!(!turned.layout().is_contiguous() && !turned_g.layout().is_contiguous());
    let (mut one, mut two) = (Adam::new(0.1), Adam::new(0.1));
    for (first, second) in [(&g, &g), (&g, &turned_g)] {
        one.step(&mut plain, first)?;
        two.step(&mut turned, second)?;
    }
    assert_eq!(plain.to_vec()?, turned.to_vec()?);
    assert!(!turned.layout().is_contiguous());
    // Rank 0 and no elements.
    let (mut scalar, mut none) = (Tensor::from(1.0), Tensor::<f64, 2>::zeros([0, 3], &Cpu)?);
    Sgd::new(1.0).step((&mut scalar, &mut none), &(Tensor::from(0.5), Tensor::zeros([0, 3], &Cpu)?))?;
    assert_eq!(scalar.item()?, 0.5);
    Ok(())
}
