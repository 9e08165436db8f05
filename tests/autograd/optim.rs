//! Trees of parameters and optimizers: names, files, groups, errors, schedules.

use crate::update_rules::num_traits_to_f64;
use rankform::autograd::{
    Buffer, Differentiable, Name, ParameterVisitor, Parameters, Tape, grad, value_and_grad,
};
use rankform::f16;
use rankform::optim::{
    Adam, AdamW, Group, Lion, Optimizer, RmsProp, Sgd, UpdateRule, accumulate, clip_norm, clip_value,
    schedule,
};
use rankform::prelude::*;

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
impl<D: Device> ParameterVisitor<D, 0, 1> for Values {
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
impl<D: Device> ParameterVisitor<D, 1, 0> for Fill {
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
