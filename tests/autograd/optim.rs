//! Trees of parameters and optimizers: values of several steps against the formulas in f64, names, files,
//! groups, errors.

use rankform::autograd::{
    Buffer, Differentiable, Name, Parameters, Tape, TensorVisitor, grad, value_and_grad,
};
use rankform::optim::{
    Adam, AdamW, Group, Lion, Optimizer, RmsProp, Sgd, UpdateRule, accumulate, clip_norm, clip_value,
    schedule,
};
use rankform::prelude::*;
use rankform::{Complex, bf16, f16};

parameters! {
    /// A linear layer.
    #[derive(Debug)]
    pub struct Layer<D> {
        pub weight: Tensor<f32, 2, D>,
        pub bias: Option<Tensor<f32, 1, D>>,
    }

    /// A network with everything that a tree can have.
    struct Net<D> {
        layers: Vec<Layer<D>>,
        heads: [Layer<D>; 2],
        scales: (Tensor<f64, 0, D>, Tensor<f64, 1, D>),
        positions: Buffer<i64, 1, D>,
        slope: f32,
    }

    struct Line<T: Float, D> { slope: Tensor<T, 1, D>, offset: Tensor<T, 1, D> }
    struct Empty<D> { nothing: Vec<Tensor<f32, 1, D>> }
}

impl<T: Float + Differentiable, D: Device> Line<T, D> {
    fn at(&self, x: &Tensor<T, 1, D>) -> Result<Tensor<T, 1, D>> {
        (x.lazy() * &self.slope + &self.offset).eval()
    }
}

impl<D: Device> Net<D> {
    fn forward(&self, x: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 2, D>> {
        let mut x = x.copy()?;
        for layer in self.layers.iter().chain(&self.heads) {
            x = x.matmul(&layer.weight)?;
            if let Some(bias) = &layer.bias {
                x = (x.lazy() + bias.lift()).eval()?;
            }
            x = x.maximum(x.lazy() * self.slope)?;
        }
        let scales = (self.scales.1.lazy() * self.scales.0.lift()).cast::<f32>().eval()?;
        (x.lazy() * scales.lift()).eval()
    }
}

/// A net whose elements are small numbers, all different.
fn net() -> Result<Net> {
    let mut next = 0.0_f32;
    let mut number = move || {
        next += 1.0;
        (next * 0.7).sin()
    };
    let mut layer = |has_bias: bool| -> Result<Layer> {
        let weight = Tensor::from_fn([3, 3], |_| number(), &Cpu)?;
        let bias = if has_bias { Some(Tensor::from_fn([3], |_| number(), &Cpu)?) } else { None };
        Ok(Layer { weight, bias })
    };
    Ok(Net {
        layers: vec![layer(true)?, layer(false)?],
        heads: [layer(false)?, layer(true)?],
        scales: (Tensor::from(0.5), Tensor::from([1.0, 2.0, 3.0])),
        positions: Tensor::from([3_i64, 1, 2]).into(),
        slope: 0.25,
    })
}

const NAMES: [&str; 8] = [
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "heads.0.weight",
    "heads.1.weight",
    "heads.1.bias",
    "scales.0",
    "scales.1",
];

/// All elements of all parameters.
struct Values(Vec<f64>);
impl<D: Device> TensorVisitor<D, 0, 1> for Values {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.0.extend(x.cast::<f64>()?.to_vec()?);
        Ok(())
    }
}
fn values<P: ParameterTree<D>, D: Device>(tree: &P) -> Vec<f64> {
    let mut values = Values(Vec::new());
    tree.visit(&mut values).unwrap();
    values.0
}

#[test]
fn a_struct_of_parameters_has_names_counts_copies_and_gradients_in_its_own_form() -> Result<()> {
    let net = net()?;
    assert_eq!(net.parameter_names()?, NAMES);
    assert_eq!(net.parameter_count()?, 4 * 9 + 2 * 3 + 4);
    let copy: Net = net.to(&Cpu)?;
    assert_eq!((values(&copy), copy.positions.to_vec()?), (values(&net), vec![3, 1, 2]));
    let shapes: Net<Meta> = net.to(&Meta::new())?;
    assert_eq!((shapes.layers[0].weight.size(), shapes.slope), (dim![3, 3], 0.25));
    assert!(values(&net.zeros_like()?).iter().all(|x| *x == 0.0));

    let x = Tensor::from([[1.0_f32, -2.0, 0.5], [0.1, 0.2, 0.3]]);
    let (loss, gradients) = value_and_grad(&net, |net, tape| net.forward(&tape.constant(&x)?)?.sum(All))?;
    assert_eq!(loss.item()?, net.forward(&x)?.sum(All)?.item()?);
    let gradients: Net = gradients;
    assert!(!gradients.positions.is_allocated());
    let zeros: Net = gradients.zeros_like()?;
    assert!(!zeros.positions.is_allocated() && values(&zeros).iter().all(|x| *x == 0.0));
    assert_eq!(values(&gradients.to(&Cpu)?), values(&gradients));
    // The same by a tuple of the tensors, for two of them.
    let first = |weight: &Tensor<f32, 2, Tape>, scale: &Tensor<f64, 1, Tape>, tape: &Tape| {
        let mut on_tape = (&net).watch(tape)?;
        on_tape.layers[0].weight = weight.share_data();
        on_tape.scales.1 = scale.share_data();
        on_tape.forward(&tape.constant(&x)?)?.sum(All)
    };
    let (weight, scale) = grad((&net.layers[0].weight, &net.scales.1), |(w, s), tape| first(w, s, tape))?;
    assert_eq!(gradients.layers[0].weight.to_vec()?, weight.to_vec()?);
    assert_eq!(gradients.scales.1.to_vec()?, scale.to_vec()?);
    assert!(values(&gradients).iter().filter(|x| **x != 0.0).count() > 20);
    Ok(())
}

#[test]
fn parameters_are_arrays_vectors_and_tuples_of_references_or_trees() -> Result<()> {
    let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    let expected = (vec![3.0, 4.0], vec![1.0, 2.0]);
    let product = |a: &Tensor<f64, 1, Tape>, b: &Tensor<f64, 1, Tape>| (a.lazy() * b).sum(All);
    let both = |[a, b]: [&Tensor<f64, 1>; 2]| Ok::<_, Error>((a.to_vec()?, b.to_vec()?));
    let array = grad([&a, &b], |[a, b], _| product(a, b))?;
    assert_eq!(both(array.each_ref())?, expected);
    let vector = grad(vec![&a, &b], |tensors, _| product(&tensors[0], &tensors[1]))?;
    assert_eq!(both([&vector[0], &vector[1]])?, expected);
    let nested = grad((&a, [&b]), |(a, [b]), _| product(a, b))?;
    assert_eq!(both([&nested.0, &nested.1[0]])?, expected);
    let trees = vec![a, b];
    let gradients = grad(&trees, |tensors, _| product(&tensors[0], &tensors[1]))?;
    assert_eq!(both([&gradients[0], &gradients[1]])?, expected);
    let none: Vec<Tensor<f64, 1>> = Vec::new();
    let error = grad(&none, |_, tape| tape.constant(&Tensor::from(1.0))).unwrap_err();
    assert_eq!(error.to_string(), "value_and_grad: there is no tensor among the parameters");
    let empty: Empty = Empty { nothing: Vec::new() };
    assert_eq!((empty.parameter_count()?, empty.device_of_tensors()), (0, None));
    Ok(())
}

#[test]
fn trees_of_other_forms_are_refused_with_the_place() -> Result<()> {
    let (mut one, mut other) = (net()?, net()?.zeros_like()?);
    other.layers[1].bias = Some(Tensor::zeros([3], &Cpu)?);
    let error = accumulate(&mut one, 1.0, &other).unwrap_err();
    assert_eq!(error.to_string(), "layers.1.bias: walk: the trees have different options");
    other.layers.truncate(1);
    let error = accumulate(&mut one, 1.0, &other).unwrap_err();
    assert_eq!(error.to_string(), "layers: walk: the trees have different lengths");
    let mut sum = net()?.zeros_like()?;
    accumulate(&mut sum, 2.0, &net()?)?;
    accumulate(&mut sum, -1.0, &net()?)?;
    assert_eq!(values(&sum), values(&net()?));
    Ok(())
}

// ------------------------------------------------------------ formulas

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

fn num_traits_to_f64<T: Float>(x: T) -> f64 {
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

// ------------------------------------------------------------ groups, errors, memory

#[test]
fn groups_have_their_own_rates_and_decay_and_the_last_one_counts() -> Result<()> {
    let mut net = net()?;
    let before = values(&net);
    let ones = || -> Result<Net> {
        let mut ones = net.zeros_like()?;
        ones.visit_mut(&mut Fill(1.0))?;
        Ok(ones)
    };
    let ones = ones()?;
    let mut optimizer = Sgd::new(0.5)
        .weight_decay(1.0)
        .group(|name| name.starts_with("heads"), Group::new().rate_factor(0.5))
        .group(|name| name.ends_with("bias"), Group::new().weight_decay(0.0))
        .group(|name| name.starts_with("scales"), Group::new().frozen());
    optimizer.step(&mut net, &ones)?;
    let after = values(&net);
    let mut k = 0;
    for (name, count) in NAMES.iter().zip([9, 3, 9, 9, 9, 3, 1, 3]) {
        for _ in 0..count {
            let p = before[k];
            let expected = match *name {
                "layers.0.bias" | "heads.1.bias" => p - 0.5,
                name if name.starts_with("heads") => p - 0.25 * (1.0 + p),
                name if name.starts_with("scales") => p,
                _ => p - 0.5 * (1.0 + p),
            };
            assert!((after[k] - expected).abs() < 1e-6, "{name}: {} and not {expected}", after[k]);
            k += 1;
        }
    }
    assert_eq!((k, optimizer.steps(), optimizer.learning_rate()), (after.len(), 1, 0.5));
    Ok(())
}

/// Writes one number everywhere.
struct Fill(f64);
impl<D: Device> TensorVisitor<D, 1, 0> for Fill {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        [x]: [&mut Tensor<T, RANK, D>; 1],
        _: [&Tensor<T, RANK, D>; 0],
    ) -> Result<()> {
        let value = Tensor::from([self.0]).cast::<T>()?[[0]];
        x.fill(value)
    }
}

#[test]
fn errors_name_the_parameter() -> Result<()> {
    let mut net = net()?;
    let mut gradients = net.zeros_like()?;
    let mut optimizer = Adam::new(0.1);
    let held = net.heads[0].weight.share_data();
    let error = optimizer.step(&mut net, &gradients).unwrap_err();
    let text =
        "heads.0.weight: step: the memory has 2 handles and writing needs the only one; `make_unique` copies";
    assert_eq!(error.to_string(), text);
    let Error::Parameter { name, error } = error else { panic!("{error}") };
    assert_eq!((name.as_str(), matches!(*error, Error::Shared { .. })), ("heads.0.weight", true));
    drop(held);
    gradients.scales.1 = Tensor::zeros([2], &Cpu)?;
    let error = optimizer.step(&mut net, &gradients).unwrap_err();
    assert_eq!(error.to_string(), "scales.1: step: the gradient has the sizes [2] and the parameter [3]");
    let mut other = net.to(&Cpu)?;
    other.layers[0].weight = Tensor::zeros([2, 2], &Cpu)?;
    let zeros = other.zeros_like()?;
    let error = optimizer.step(&mut other, &zeros).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layers.0.weight: step: the state has the sizes [3, 3] and the parameter [2, 2]"
    );
    // A change of options that needs other tensors.
    let (mut w, g) = (Tensor::from([1.0]), Tensor::from([1.0]));
    let mut optimizer = RmsProp::new(0.1);
    optimizer.step(&mut w, &g)?;
    let mut optimizer = optimizer.centered(true);
    let error = optimizer.step(&mut w, &g).unwrap_err();
    let text =
        "step: the state has other tensors, elements or another device; after a change of options: `reset`";
    assert_eq!(error.to_string(), text);
    optimizer.reset();
    optimizer.step(&mut w, &g)?;
    assert_eq!(optimizer.steps(), 1);
    Ok(())
}

#[cfg(not(any(rankform_through_cuda, miri)))]
#[test]
fn a_step_allocates_no_memory_after_the_first() -> Result<()> {
    fn check<R: UpdateRule>(mut optimizer: Optimizer<R>) -> Result<()> {
        let mut net = net()?;
        let gradients = net.to(&Cpu)?;
        optimizer.step(&mut net, &gradients)?;
        let steady = Cpu.steady_state();
        for _ in 0..3 {
            optimizer.set_learning_rate(0.5 * optimizer.learning_rate());
            optimizer.step(&mut net, &gradients)?;
        }
        drop(steady);
        Ok(())
    }
    check(Sgd::new(0.1))?;
    check(Sgd::new(0.1).momentum(0.9))?;
    check(Adam::new(0.1))?;
    check(AdamW::new(0.1))?;
    check(RmsProp::new(0.1).centered(true).momentum(0.9))?;
    check(Lion::new(0.1))
}

#[test]
fn an_optimizer_serves_trees_in_turn_and_every_device() -> Result<()> {
    let (mut a, mut b) = (Tensor::from([1.0]), Tensor::from([1.0, 2.0]));
    let mut optimizer = Sgd::new(0.5).momentum(0.5);
    for _ in 0..2 {
        optimizer.step([&mut a], &[Tensor::from([1.0])])?;
        optimizer.step((Vec::<&mut Tensor<f64, 1>>::new(), &mut b), &(vec![], Tensor::from([1.0, 1.0])))?;
    }
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![-0.25], vec![-0.25, 0.75]));
    let meta = Meta::new();
    let (mut shapes, gradients) = (net()?.to(&meta)?, net()?.to(&meta)?);
    AdamW::new(0.1).step(&mut shapes, &gradients)?;
    assert_eq!(shapes.parameter_count()?, 46);
    Ok(())
}

#[test]
fn training_by_each_optimizer_finds_a_line() -> Result<()> {
    fn train<T: Float + Differentiable, R: UpdateRule>(mut optimizer: Optimizer<R>) -> Result<f64> {
        let number = T::constant;
        let mut line = Line { slope: Tensor::from([number(0.0)]), offset: Tensor::from([number(0.0)]) };
        let x = Tensor::from_fn([16], |[i]| number(i as f64 / 8.0 - 1.0), &Cpu)?;
        let y = (x.lazy() * number(2.0) - number(0.5)).eval()?;
        let rate = optimizer.learning_rate();
        for step in 0..400 {
            let (_, gradients) = value_and_grad(&line, |line, tape| {
                let (x, y) = (tape.constant(&x)?, tape.constant(&y)?);
                (line.at(&x)?.lazy() - &y).square().mean(All)
            })?;
            optimizer.set_learning_rate(rate * schedule::cosine(step, 400, 0.0));
            optimizer.step(&mut line, &gradients)?;
        }
        let [slope, offset] = [&line.slope, &line.offset].map(|x| num_traits_to_f64(x[[0]]));
        Ok((slope - 2.0).abs().max((offset + 0.5).abs()))
    }
    assert!(train::<f64, _>(Sgd::new(0.1).momentum(0.9))? < 1e-6);
    assert!(train::<f64, _>(Adam::new(0.05))? < 1e-3);
    assert!(train::<f32, _>(AdamW::new(0.05).weight_decay(0.0))? < 1e-3);
    assert!(train::<f64, _>(RmsProp::new(0.02))? < 1e-3);
    assert!(train::<f32, _>(Lion::new(0.02).betas(0.9, 0.95))? < 1e-4);
    Ok(())
}

// ------------------------------------------------------------ clipping, schedules

#[test]
fn the_norm_is_that_of_all_gradients_together() -> Result<()> {
    let mut gradients = net()?;
    let expected = values(&gradients).iter().map(|x| x * x).sum::<f64>().sqrt();
    let before = values(&gradients);
    let norm = clip_norm(&mut gradients, expected * 2.0)?;
    assert!((norm - expected).abs() < 1e-6 * expected);
    assert_eq!(values(&gradients), before, "a norm below the limit");
    let norm = clip_norm(&mut gradients, 0.5)?;
    for (before, after) in before.iter().zip(values(&gradients)) {
        assert!((before * 0.5 / (norm + 1e-6) - after).abs() < 1e-6);
    }
    assert!((clip_norm(&mut gradients, 1.0)? - 0.5).abs() < 1e-5);
    // Squares beyond the largest number.
    let mut large = (Tensor::from([f16::from_f32(6e4), f16::from_f32(6e4)]), Tensor::from([3e38_f32, 3e38]));
    let norm = clip_norm(&mut large, 1.0)?;
    assert!((norm / 3e38 - 2f64.sqrt()).abs() < 1e-6 && (large.1[[0]] - 0.5f32.sqrt()).abs() < 1e-6);
    let mut broken = Tensor::from([1.0, f64::NAN]);
    assert!(clip_norm(&mut broken, 1.0)?.is_nan() && broken[[0]].is_nan());
    clip_value(&mut broken, 0.5)?;
    let mut limited = Tensor::from([f64::NEG_INFINITY, f64::NAN, 0.25]);
    clip_value(&mut limited, 0.5)?;
    assert!(limited[[0]] == -0.5 && limited[[1]].is_nan() && limited[[2]] == 0.25);
    Ok(())
}

#[test]
fn one_cycle_rises_and_falls_as_pytorchs() {
    // OneCycleLR(max_lr = 1, total_steps = 10): two phases, to step 2 and to step 9.
    let expected = |step: f64| {
        let cosine = |from: f64, to: f64, part: f64| {
            to + (from - to) / 2.0 * ((part * std::f64::consts::PI).cos() + 1.0)
        };
        if step <= 2.0 { cosine(0.04, 1.0, step / 2.0) } else { cosine(1.0, 4e-6, (step - 2.0) / 7.0) }
    };
    for step in 0..10 {
        assert!((schedule::one_cycle(step, 10) - expected(step as f64)).abs() < 1e-15, "{step}");
    }
    assert_eq!(schedule::one_cycle(20, 10), schedule::one_cycle(9, 10));
    assert!(schedule::one_cycle(0, 1).is_finite() && schedule::one_cycle(0, 0).is_finite());
    assert!((0..5).all(|step| schedule::one_cycle(step, 3).is_finite()));
    assert_eq!((schedule::warm_up(7, 0), schedule::steps(7, 0, 0.5)), (1.0, 0.5_f64.powi(7)));
}

// ------------------------------------------------------------ files

#[cfg(feature = "safetensors")]
#[test]
fn a_tree_and_the_state_of_its_optimizer_come_back_from_files() -> Result<()> {
    use rankform::io::safetensors::{SafeTensors, load, save};
    let folder = std::env::temp_dir().join(format!("rankform-optim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (model, state) = (folder.join("net.safetensors"), folder.join("adam.safetensors"));
    let mut one = net()?;
    let gradients = net()?;
    let make = || AdamW::new(0.1).group(|name| name == "scales.0", Group::new().frozen());
    let mut optimizer = make();
    for _ in 0..3 {
        optimizer.step(&mut one, &gradients)?;
    }
    save(&model, &one)?;
    optimizer.save(&state)?;
    let file = SafeTensors::open(&state)?;
    assert_eq!(file.about("layers.0.weight.exp_avg")?.sizes, [3, 3]);
    assert_eq!(file.read::<i64, 0>("scales.1.step")?.item()?, 3);
    assert!(!file.names().any(|name| name.starts_with("scales.0")));

    let (mut two, mut other) = (net()?.zeros_like()?, make());
    two.positions = Tensor::zeros([3], &Cpu)?.into();
    load(&model, &mut two)?;
    assert_eq!(two.positions.to_vec()?, [3, 1, 2]);
    other.load(&state, &two)?;
    optimizer.step(&mut one, &gradients)?;
    other.step(&mut two, &gradients)?;
    assert_eq!((values(&one), other.steps()), (values(&two), 4));

    // Elements of another type are cast; other tensors are refused, or ignored by the method of the file.
    let mut wide = Line::<f64> { slope: Tensor::zeros([2], &Cpu)?, offset: Tensor::zeros([1], &Cpu)? };
    let narrow = Line { slope: Tensor::from([0.5_f32, 2.0]), offset: Tensor::from([1.5_f32]) };
    save(&model, &narrow)?;
    load(&model, &mut wide)?;
    assert_eq!(wide.slope.to_vec()?, [0.5, 2.0]);
    let error = load(&model, &mut net()?).unwrap_err().to_string();
    let text = "layers.0.weight: safetensors::read: there is no tensor \"layers.0.weight\"; there are ";
    assert_eq!(error, text.to_owned() + "[\"offset\", \"slope\"]");
    wide.slope = Tensor::from([7.0, 7.0, 7.0]);
    let error = load(&model, &mut wide).unwrap_err().to_string();
    assert_eq!(error, "slope: safetensors::read: the file has the sizes [2] and the tree [3]");
    assert_eq!(wide.slope.to_vec()?, [7.0; 3], "nothing is written");
    parameters! { struct Slope<D> { slope: Tensor<f32, 1, D> } }
    let mut part = Slope { slope: Tensor::zeros([2], &Cpu)? };
    let error = load(&model, &mut part).unwrap_err().to_string();
    assert_eq!(error, "safetensors::read: the file has tensors that are not parameters: [\"offset\"]");
    SafeTensors::open(&model)?.load(&mut part)?;
    assert_eq!(part.slope.to_vec()?, [0.5, 2.0]);
    let error = other.load(&state, &part).unwrap_err().to_string();
    assert!(error.contains("belongs to none of the parameters"), "{error}");
    let error = other.load(&model, &wide).unwrap_err().to_string();
    assert!(error.contains("which belongs to none") && other.steps() == 0, "{error}");
    std::fs::remove_dir_all(folder).unwrap();
    Ok(())
}
