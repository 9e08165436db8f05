//! Tensors of run-time types on a tape, and operators by name there; packed, sparse and quantized tensors on
//! a tape.

use num_complex::Complex;
use rankform::autograd::Tape;
use rankform::dispatch::{Any, Argument, DispatchKey, DispatchKeySet, Dispatcher, Kernel, View};
use rankform::prelude::*;
use rankform::quantized::{Quantization, QuantizedTensor};
use rankform::{DType, DynTensor, QInt8, SparseTensor};
use std::sync::OnceLock;

fn recording() -> &'static Dispatcher {
    static KEPT: OnceLock<Dispatcher> = OnceLock::new();
    KEPT.get_or_init(|| {
        let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>().unwrap();
        dispatcher.differentiate(&Cpu).unwrap();
        dispatcher
    })
}

fn plain() -> &'static Dispatcher {
    static KEPT: OnceLock<Dispatcher> = OnceLock::new();
    KEPT.get_or_init(|| Dispatcher::with_arithmetic::<Cpu>().unwrap())
}

fn vector(values: &[f64]) -> DynTensor {
    DynTensor::from(Tensor::from_slice(values, [values.len()], &Cpu).unwrap())
}

fn variable(tape: &Tape, x: &DynTensor) -> DynTensor {
    let x = x.on_tape(tape).unwrap();
    x.set_requires_grad(true).unwrap();
    x
}

/// The elements of a tensor of f64, on any device.
fn elements(x: &DynTensor) -> Vec<f64> {
    assert_eq!(x.dtype(), DType::F64);
    x.to_bytes().unwrap().chunks(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

/// The sum of all elements, as a tensor of rank 0.
fn sum(dispatcher: &Dispatcher, x: &DynTensor) -> DynTensor {
    let axes: Vec<usize> = (0..x.rank()).collect();
    dispatcher.call("sum", &[x.into(), axes[..].into()]).unwrap()
}

/// Differences of the sum of an operator's results by each element of operand `k`.
fn differences(name: &str, operands: &[DynTensor], k: usize, axes: Option<&[usize]>) -> Vec<f64> {
    let values = elements(&operands[k]);
    let total = |at: usize, step: f64| {
        let mut moved = values.clone();
        moved[at] += step;
        let moved = vector(&moved).reshaped(operands[k].size()).unwrap();
        let of = |i: usize| if i == k { &moved } else { &operands[i] };
        let mut arguments: Vec<Argument<'_>> = (0..operands.len()).map(|i| of(i).into()).collect();
        arguments.extend(axes.map(Argument::from));
        elements(&sum(plain(), &plain().call(name, &arguments).unwrap()))[0]
    };
    let step = 1e-6;
    (0..values.len()).map(|at| (total(at, step) - total(at, -step)) / (2.0 * step)).collect()
}

#[test]
fn gradients_of_operators_by_name_are_the_differences_of_their_values() {
    let x = vector(&[0.37, 0.61, 0.83, 0.29, 0.71, 0.47]).reshaped(&[2, 3]).unwrap();
    let y = vector(&[0.53, 1.21, 0.67]);
    let matrix = x.permuted(&[1, 0]).unwrap();
    let (mut compared, mut wrong, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for name in recording().names() {
        let calls: [(&[&DynTensor], Option<&[usize]>); 5] = [
            (&[&x], None),
            (&[&x, &y], None),
            (&[&x], Some(&[1])),
            (&[&x], Some(&[1, 0])),
            (&[&x, &matrix], None),
        ];
        for (operands, axes) in calls {
            let tape = Tape::new(&Cpu);
            let on_tape: Vec<DynTensor> = operands.iter().map(|x| variable(&tape, x)).collect();
            let mut arguments: Vec<Argument<'_>> = on_tape.iter().map(Argument::from).collect();
            arguments.extend(axes.map(Argument::from));
            let mut plain_arguments: Vec<Argument<'_>> = operands.iter().map(|&x| x.into()).collect();
            plain_arguments.extend(axes.map(Argument::from));
            if plain().call(name, &plain_arguments).is_err() {
                continue; // the operator takes other arguments
            }
            let result = match recording().call(name, &arguments) {
                Ok(result) => result,
                Err(error) => {
                    refused.push(error.to_string());
                    continue;
                }
            };
            if result.dtype() != DType::F64 {
                assert!(!result.requires_grad(), "{name} has results without a gradient");
                continue;
            }
            let gradients = sum(recording(), &result).backward::<Cpu>();
            let operands: Vec<DynTensor> = operands.iter().map(|x| x.share_data()).collect();
            for (k, x) in on_tape.iter().enumerate() {
                let wanted = differences(name, &operands, k, axes);
                let found = match &gradients {
                    Ok(gradients) => elements(&gradients.of_dyn(x).unwrap()),
                    // Steps: their slope is 0 everywhere else, and nothing is recorded.
                    Err(_) => vec![0.0; wanted.len()],
                };
                for (found, wanted) in found.iter().zip(&wanted) {
                    let close = (found - wanted).abs() <= 2e-6 * wanted.abs().max(1.0);
                    if !close && !wanted.is_nan() {
                        wrong.push(format!("{name}, operand {k}, axes {axes:?}: {found} and {wanted}"));
                    }
                }
            }
            compared.push(name);
        }
    }
    assert!(wrong.is_empty() && refused.is_empty(), "{wrong:#?} {refused:#?}");
    assert!(compared.len() > 110, "{}: {compared:?}", compared.len());
    for name in ["matmul", "logsumexp", "prod", "max", "atan2", "gelu", "var"] {
        assert!(compared.contains(&name), "{name} is missing among {compared:?}");
    }
}

#[test]
fn a_program_by_name_has_the_gradients_of_the_typed_one() -> Result<()> {
    let w = Tensor::from([[0.5_f32, -0.25, 0.75], [1.0, 0.5, -1.5]]);
    let x = Tensor::from([1.0_f32, 2.0, 3.0]);
    let typed = {
        let tape = Tape::new(&Cpu);
        let (w, x) = (tape.watch(&w)?, tape.constant(&x)?);
        let y = w.matmul(&x)?.tanh()?;
        tape.backward(&(y.lazy() * &y).sum(All)?.mul(0.5)?)?.of(&w)?
    };
    let dispatcher = recording();
    let tape = Tape::new(&Cpu);
    let (w, x) = (DynTensor::from(w).on_tape(&tape)?, DynTensor::from(x).on_tape(&tape)?);
    w.set_requires_grad(true)?;
    let y = dispatcher.call("matmul", &[(&w).into(), (&x).into()])?;
    let y = dispatcher.call("tanh", &[(&y).into()])?;
    let loss = dispatcher.call("mul", &[(&y).into(), (&y).into()])?;
    let loss = dispatcher.call("sum", &[(&loss).into(), (&[0]).into()])?;
    let loss = dispatcher.call("mul", &[(&loss).into(), 0.5.into()])?;
    assert!(loss.requires_grad() && !x.requires_grad());
    let gradients = loss.backward::<Cpu>()?;
    assert_eq!(gradients.of_dyn(&w)?.downcast::<f32, 2, Cpu>()?, typed);
    // A typed handle on the same memory has the same gradient.
    let handle = w.downcast::<f32, 2, Tape>()?;
    assert_eq!(gradients.of(&handle)?, typed);
    Ok(())
}

#[test]
fn views_copies_and_parts_have_the_gradients_of_their_tensor() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = variable(&tape, &vector(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshaped(&[2, 3])?);
    let part = x.ranged(1, 1, 3, 1)?.transposed(0, 1)?;
    let copy = part.to_contiguous()?;
    assert!(part.requires_grad() && copy.requires_grad());
    let y = recording().call("mul", &[(&copy).into(), (&part).into()])?;
    let gradients = sum(recording(), &y).backward::<Cpu>()?;
    assert_eq!(elements(&gradients.of_dyn(&x)?), [0.0, 4.0, 6.0, 0.0, 10.0, 12.0]);
    let of_part = gradients.of_dyn(&part)?;
    assert_eq!((of_part.size(), elements(&of_part)), (&[2, 2][..], vec![4.0, 10.0, 6.0, 12.0]));
    // More axes than a typed tensor has.
    let deep = variable(&tape, &vector(&[1.0, 2.0, 3.0, 4.0]))
        .reshaped(&[2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])?;
    let turned = deep.transposed(0, 13)?.to_contiguous()?.reshaped(&[4])?;
    let weights = vector(&[1.0, 10.0, 100.0, 1000.0]).on_tape(&tape)?;
    let y = recording().call("mul", &[(&turned).into(), (&weights).into()])?;
    let gradients = sum(recording(), &y).backward::<Cpu>()?;
    assert_eq!(elements(&gradients.of_dyn(&deep)?), [1.0, 100.0, 10.0, 1000.0]);
    // A vector-Jacobian product, of a strided gradient.
    let x = variable(&tape, &vector(&[1.0, 2.0]));
    let y = recording().call("exp", &[(&x).into()])?;
    let reversed = vector(&[3.0, 2.0]).ranged(0, 0, 2, -1)?;
    let found = elements(&y.vjp::<Cpu>(&reversed)?.of_dyn(&x)?);
    let wanted = [2.0 * 1f64.exp(), 3.0 * 2f64.exp()];
    assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-14), "{found:?}");
    Ok(())
}

#[test]
fn names_and_lazy_views_on_a_tape_are_resolved_below_its_key() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = variable(&tape, &vector(&[1.0, 2.0, 3.0]).with_names(&["row"])?.negative()?);
    assert_eq!(x.key_set().to_string(), "{AutogradCPU, Negative, Named, CPU}");
    let y = recording().call("mul", &[(&x).into(), 2.0.into()])?;
    assert_eq!((y.names(), elements(&y)), (&["row".to_string()][..], vec![-2.0, -4.0, -6.0]));
    let y = recording().call("mul", &[(&y).into(), (&y).into()])?;
    // The variable is the memory behind the lazy view: d(4 x²) by x.
    let gradients = sum(recording(), &y).backward::<Cpu>()?;
    assert_eq!(elements(&gradients.of_dyn(&x.negative()?)?), [8.0, 16.0, 24.0]);
    assert!(gradients.of_dyn(&x).unwrap_err().to_string().contains("a lazy view"));
    // Conjugates, in a kernel of a user's own. |z|² has the gradient 2z.
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    dispatcher.differentiate(&Cpu)?;
    type C = Complex<f64>;
    let product = Kernel::of_two::<View<C, 1, Tape>, View<C, 1, Tape>, _>(|x, y| x.mul(y));
    dispatcher.register("product", DispatchKey::CPU, product)?;
    let z = DynTensor::from(Tensor::from([C::new(1.0, 2.0), C::new(0.0, -1.0)])).on_tape(&tape)?;
    z.set_requires_grad(true)?;
    let squares = dispatcher.call("product", &[(&z).into(), (&z.conjugate()).into()])?;
    let one = DynTensor::from(Tensor::from([C::new(1.0, 0.0); 2]));
    let gradient = squares.vjp::<Cpu>(&one)?.of_dyn(&z)?.downcast::<C, 1, Cpu>()?;
    assert_eq!(gradient.to_vec()?, [C::new(2.0, 4.0), C::new(0.0, -2.0)]);
    // A constant is resolved by the function of the inner device.
    let lazy = vector(&[1.0]).negative()?.on_tape(&tape)?;
    assert_eq!(elements(&plain().call("exp", &[(&lazy).into()])?), [(-1f64).exp()]);
    Ok(())
}

#[test]
fn a_kernel_of_the_key_of_derivatives_runs_before_that_of_the_device() -> Result<()> {
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    // `sign` with the derivative 1, a straight-through estimator.
    let straight = Kernel::boxed(&[rankform::dispatch::Class::Tensor], |call, arguments| {
        let Some(x) = arguments[0].tensor() else { unreachable!("one tensor") };
        // Below the key nothing is recorded.
        let below = call.below(arguments)?;
        assert!(!below.requires_grad());
        let signs = below.value()?.downcast::<f64, 1, Cpu>()?;
        let x = x.share_data().downcast::<f64, 1, Tape>()?;
        let tape = x.device().clone();
        let y = tape.custom((&x,), |_| Ok(signs), |_, _, gradient| Ok((gradient.share_data(),)))?;
        Ok(DynTensor::from(y))
    });
    dispatcher.register("signum", DispatchKey::AutogradCPU, straight)?;
    let tape = Tape::new(&Cpu);
    let x = variable(&tape, &vector(&[-2.0, 3.0]));
    let y = dispatcher.call("signum", &[(&x).into()])?;
    assert_eq!((elements(&y), y.requires_grad()), (vec![-1.0, 1.0], true));
    let gradient = y.vjp::<Cpu>(&vector(&[5.0, 7.0]))?.of_dyn(&x)?;
    assert_eq!(elements(&gradient), [5.0, 7.0]);
    // The key is absent for constants, and while the tape is paused.
    let constant = vector(&[-2.0]).on_tape(&tape)?;
    let y = dispatcher.call("signum", &[(&constant).into()])?;
    assert_eq!((elements(&y), y.requires_grad(), tape.len()), (vec![-1.0], false, 0));
    let y = tape.paused(|| dispatcher.call("signum", &[(&x).into()]))?;
    assert_eq!((elements(&y), y.requires_grad(), tape.len()), (vec![-1.0, 1.0], false, 0));
    Ok(())
}

#[test]
fn without_kernels_for_a_tape_constants_are_computed_and_variables_are_an_error() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let constant = vector(&[1.0, 2.0]).on_tape(&tape)?;
    let y = plain().call("add", &[(&constant).into(), (&constant).into()])?;
    assert!(y.is_on::<Tape>() && !y.requires_grad());
    assert_eq!(elements(&y), [2.0, 4.0]);
    // The result is a tensor of the tape like any other.
    assert_eq!(elements(&recording().call("exp", &[(&y).into()])?), [2f64.exp(), 4f64.exp()]);
    let x = variable(&tape, &vector(&[1.0, 3.0]));
    let error = plain().call("add", &[(&x).into(), (&constant).into()]).unwrap_err().to_string();
    assert!(
        error.starts_with("dispatch: add has no kernel that records (f64 of rank 1 on Tape(Cpu, number ")
            && error.contains("`dispatcher.differentiate(&device)?`"),
        "{error}"
    );
    // No gradient is lost by a comparison, nor while the tape is paused.
    let less = plain().call("less", &[(&constant).into(), (&x).into()])?;
    assert_eq!((less.dtype(), less.to_bytes()?, less.requires_grad()), (DType::Bool, vec![0, 1], false));
    let sum = tape.paused(|| plain().call("add", &[(&x).into(), (&constant).into()]))?;
    assert_eq!((elements(&sum), sum.requires_grad()), (vec![2.0, 5.0], false));
    // Integers have no gradients: kernels of the inner device serve them.
    let whole = DynTensor::from(Tensor::from([1_i64, 2])).on_tape(&tape)?;
    let twice = recording().call("add", &[(&whole).into(), (&whole).into()])?;
    assert_eq!(twice.downcast::<i64, 1, Tape>()?.to_vec()?, [2, 4]);
    // A tensor that is not on the tape, or on another one.
    let other = vector(&[1.0, 2.0]).on_tape(&Tape::new(&Cpu))?;
    for beside in [&vector(&[1.0, 2.0]), &other] {
        let error = recording().call("atan2", &[(&x).into(), beside.into()]).unwrap_err().to_string();
        assert!(error.contains("on_tape") || error.contains("operands live on Tape(Cpu, number "), "{error}");
    }
    // Twice the same kernels.
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    dispatcher.differentiate(&Cpu)?;
    let error = dispatcher.differentiate(&Cpu).unwrap_err().to_string();
    assert!(error.contains("has a kernel (f32 on a tape of Cpu"), "{error}");
    Ok(())
}

#[test]
fn constants_of_a_tape_are_promoted_beside_its_variables() -> Result<()> {
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    dispatcher.differentiate(&Cpu)?;
    let tape = Tape::new(&Cpu);
    let x = variable(&tape, &vector(&[1.5, 2.5]));
    let whole = DynTensor::from(Tensor::from([2_i32, 4])).on_tape(&tape)?;
    assert!(dispatcher.call("mul", &[(&x).into(), (&whole).into()]).is_err());
    dispatcher.promote::<Cpu>();
    let y = dispatcher.call("mul", &[(&x).into(), (&whole).into()])?;
    assert_eq!(elements(&y), [3.0, 10.0]);
    assert_eq!(elements(&sum(&dispatcher, &y).backward::<Cpu>()?.of_dyn(&x)?), [2.0, 4.0]);
    let halves = dispatcher.call("mul", &[(&whole).into(), 0.5.into()])?;
    assert_eq!(halves.downcast::<f32, 1, Tape>()?.to_vec()?, [1.0, 2.0]);
    // A variable that would be cast by a function that does not record.
    let narrow = DynTensor::from(Tensor::from([1.0_f32, 2.0])).on_tape(&tape)?;
    narrow.set_requires_grad(true)?;
    let error = dispatcher.call("mul", &[(&x).into(), (&narrow).into()]).unwrap_err().to_string();
    assert!(
        error.contains("no function of the dispatcher casts f32 of rank 1 on Tape(Cpu, number"),
        "{error}"
    );
    Ok(())
}

#[test]
fn tapes_of_other_devices_have_the_keys_of_these() -> Result<()> {
    let meta = Tape::new(&Meta::new());
    let x = DynTensor::zeros(DType::F32, &[2, 3], meta.inner())?.on_tape(&meta)?;
    assert_eq!(x.key_set(), DispatchKeySet::of(&[DispatchKey::Meta]));
    x.set_requires_grad(true)?;
    assert_eq!(x.key_set(), DispatchKeySet::of(&[DispatchKey::Meta, DispatchKey::AutogradOther]));
    // A tape of a tape: each level has its own variables.
    let inner = Tape::new(&Cpu);
    let outer = Tape::new(&inner);
    let x = variable(&inner, &vector(&[1.0, 2.0]));
    let both = x.on_tape(&outer)?;
    assert!(!both.requires_grad() && both.value()?.requires_grad());
    assert_eq!(both.key_set(), DispatchKeySet::of(&[DispatchKey::CPU]));
    both.set_requires_grad(true)?;
    assert_eq!(both.key_set(), DispatchKeySet::of(&[DispatchKey::CPU, DispatchKey::AutogradCPU]));
    // Constants of the outer tape are computed on the inner one, which records.
    let constant = x.on_tape(&outer)?;
    let y = recording().call("exp", &[(&constant).into()])?;
    assert!(y.is_on::<Tape<Tape>>() && !y.requires_grad() && y.value()?.requires_grad());
    // The wrong device: nothing is adopted.
    let error = vector(&[1.0]).on_tape(&outer).unwrap_err().to_string();
    assert!(error.starts_with("tape: operands live on Tape(Cpu, number "), "{error}");
    Ok(())
}

#[test]
fn a_kernel_of_any_tensor_sees_tensors_of_a_tape_as_they_are() -> Result<()> {
    let mut dispatcher = Dispatcher::new();
    let kind = Kernel::of_one::<Any, _>(|x: &DynTensor| Ok(DynTensor::from(Tensor::from(x.requires_grad()))));
    dispatcher.register("kind", DispatchKey::CPU, kind)?;
    let x = variable(&Tape::new(&Cpu), &vector(&[1.0]));
    assert!(dispatcher.call("kind", &[(&x).into()])?.downcast::<bool, 0, Cpu>()?.item()?);
    Ok(())
}

#[test]
fn packed_matrices_on_a_tape_have_gradients() -> Result<()> {
    let (x, w) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([[0.5, -1.0], [2.0, 0.25]]));
    let gradients_of = |packed: bool| -> Result<[Tensor<f64, 2>; 2]> {
        let tape = Tape::new(&Cpu);
        let (x, w) = (tape.watch(&x)?, tape.watch(&w)?);
        let y = if packed { x.matmul_packed(&w.pack()?)? } else { x.matmul(&w)? };
        let gradients = tape.backward(&(y.lazy() * &y).sum(All)?)?;
        Ok([gradients.of(&x)?, gradients.of(&w)?])
    };
    assert_eq!(gradients_of(true)?, gradients_of(false)?);
    Ok(())
}

#[test]
fn values_of_a_sparse_tensor_on_a_tape_have_gradients() -> Result<()> {
    let indices = || Tensor::from([[0_i64, 1, 0], [2, 0, 2]]);
    let dense = Tensor::from([[1.0], [10.0], [100.0]]);
    let tape = Tape::new(&Cpu);
    let (values, dense) = (tape.watch(&Tensor::from([3.0, 4.0, 5.0]))?, tape.watch(&dense)?);
    let sparse = SparseTensor::new(indices(), values.share_data(), [2, 3])?;
    // y = [[800], [4]], the sum of squares of which is differentiated.
    let y = sparse.matmul(&dense)?;
    let gradients = tape.backward(&(y.lazy() * &y).sum(All)?)?;
    assert_eq!(gradients.of(&values)?.to_vec()?, [1600.0 * 100.0, 8.0, 1600.0 * 100.0]);
    assert_eq!(gradients.of(&dense)?.to_vec()?, [8.0 * 4.0, 0.0, 1600.0 * 8.0]);
    // Equal indices: the gradient of a sum goes to each of its values.
    let whole = SparseTensor::new(indices(), values.share_data(), [2, 3])?.coalesce()?.to_dense()?;
    let gradients = tape.backward(&(whole.lazy() * &whole).sum(All)?)?;
    assert_eq!(gradients.of(&values)?.to_vec()?, [16.0, 8.0, 16.0]);
    // Behind a handle: the dispatcher says that it has no kernel, and nothing is lost in silence.
    let sparse = SparseTensor::new(indices(), values, [2, 3])?;
    let x = DynTensor::from_sparse(sparse)?;
    assert_eq!(x.key_set(), DispatchKeySet::of(&[DispatchKey::SparseCPU]));
    let error = recording().call("add", &[(&x).into(), (&x).into()]).unwrap_err().to_string();
    assert!(
        error.starts_with("dispatch: no kernel of add for (Sparse f64 of rank 2 on Tape(Cpu, "),
        "{error}"
    );
    for error in [x.set_requires_grad(true), x.value().map(drop), x.on_tape(&Tape::new(&tape)).map(drop)] {
        assert!(error.unwrap_err().to_string().contains("a sparse tensor has no elements by strides"));
    }
    Ok(())
}

#[test]
fn quantized_tensors_on_a_tape_are_constants() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([-1.0_f32, 0.5]))?;
    let quantized = QuantizedTensor::<QInt8, 1, Tape>::quantize(&x, Quantization::per_tensor(0.5, 0)?)?;
    let real = quantized.dequantize()?;
    assert_eq!((real.to_vec()?, tape.depends_on_variable(&real)), (vec![-1.0, 0.5], false));
    // Rounding has no slope. A straight-through estimator is an operator with its own derivative.
    let rounded = tape.custom(
        (&x,),
        |(x,)| QuantizedTensor::<QInt8, 1>::quantize(x, Quantization::per_tensor(0.5, 0)?)?.dequantize(),
        |_, _, gradient| Ok((gradient.share_data(),)),
    )?;
    let gradients = tape.backward(&(rounded.lazy() * &rounded).sum(All)?)?;
    assert_eq!(gradients.of(&x)?.to_vec()?, [-2.0, 1.0]);
    let handle = DynTensor::from_quantized(quantized)?;
    assert_eq!((handle.key_set().to_string(), handle.requires_grad()), ("{QuantizedCPU}".into(), false));
    let error = recording().call("dequantize", &[(&handle).into()]).unwrap_err().to_string();
    assert!(
        error.starts_with("dispatch: no kernel of dequantize for (Quantized qi8 of rank 1 on Tape("),
        "{error}"
    );
    Ok(())
}
