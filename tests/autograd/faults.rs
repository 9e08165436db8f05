//! Faults: every allocation of a program fails in turn, forward and backward; threads; what a tape holds.

use crate::check::{close, random};
use crate::counted::Counted;
use rankform::autograd::{Gradients, Tape, Var, grad};
use rankform::prelude::*;
use std::sync::Barrier;

type X = Var<f64, 2, Counted>;
type Program<const N: usize> = fn(&[X; N], &Tape<Counted>) -> Result<Var<f64, 0, Counted>>;

/// A program of every kind of step, with a custom operator and a checkpoint.
fn program([x]: &[X; 1], tape: &Tape<Counted>) -> Result<Var<f64, 0, Counted>> {
    let y = x.matmul(x.transposed())?.softmax(Last)?;
    let y = tape.checkpoint((&y,), |(y,)| (y.lazy() * y).sin().eval())?;
    let mut y = tape.custom((&y,), |(y,)| y.exp(), |_, y, g| Ok((y.mul(g)?,)))?;
    y.zip_in_place(rankform::ops::Mul, x.slice((.., ..3))?)?;
    y.view_mut()?.slice((0, ..))?.assign(x.slice((1, 1..))?)?;
    let places = Tensor::from_slice(&[2_i64, 0, 2], [3], tape)?;
    let rows = y.index_select(Axis::<0>, &places)?.sort(Axis::<1>)?.cumsum(Axis::<1>)?;
    let rows = Tensor::concat([rows.view(), x.slice((.., 1..))?], Axis::<0>)?;
    let positive = rows.masked_select(&rows.greater(0.0)?)?;
    (rows.lazy().square().max(Axis::<1>)?.lazy() + positive.sum(All)?.lift::<1>()).var(All)
}

/// A program whose steps run by blocks, forward and backward, where a device has tasks.
fn program_by_blocks([x, row]: &[X; 2], _: &Tape<Counted>) -> Result<Var<f64, 0, Counted>> {
    let scaled = x.lazy() * row.broadcast_to([12, 8])?;
    let powers = (scaled - scaled.max_along(Last)).exp();
    let shares = (powers / powers.sum_along(Last)).eval()?;
    let images = shares.layer_norm(Last, 1e-3)?.into_shape([3, 4, 8])?;
    let weights = x.slice((..3, ..))?.reshape([2, 4, 3])?;
    images.conv1d(weights, Conv::new().padding([1]))?.square()?.sum(All)
}

/// Refuses each allocation of a program and its backward pass in turn. Returns the number of refusals, and
/// the number of those before the backward pass.
fn refuse_in_turn<const N: usize>(
    device: &Counted,
    operands: [Tensor<f64, 2>; N],
    program: Program<N>,
) -> Result<[usize; 2]> {
    let of_large_kernels = Counted::default();
    let on = |device: &Counted| operands.iter().map(|x| x.to(device)).collect::<Result<Vec<_>>>();
    let values = |gradients: Vec<Tensor<f64, 2, Counted>>| {
        gradients.iter().map(Tensor::to_vec).collect::<Result<Vec<_>>>().map(|lists| lists.concat())
    };
    let array = |list: Vec<_>| <[_; N]>::try_from(list).expect("as many as operands");
    let expected = values(grad(&array(on(&of_large_kernels)?), program)?.into())?;
    let x = on(device)?;
    let (bytes, blocks) = (device.bytes(), device.blocks());
    let tape = Tape::new(device);
    let variables = x.iter().map(|x| tape.watch(x)).collect::<Result<Vec<_>>>()?;
    let variables = <[X; N]>::try_from(variables).expect("as many as operands");
    let backward = |loss: &Var<f64, 0, Counted>| {
        let gradients = tape.backward(loss)?;
        values(variables.iter().map(|x| gradients.of(x)).collect::<Result<_>>()?)
    };
    let (mut refused, mut forward) = (0, 0);
    for n in 1.. {
        device.refuse(n);
        let loss = program(&variables, &tape);
        forward += usize::from(loss.is_err());
        let result = loss.and_then(|loss| backward(&loss));
        tape.clear(); // where the program failed, its first steps are recorded
        if device.is_armed() {
            device.refuse(0);
            close("when nothing fails", &result?, &expected);
            break;
        }
        let error = result.unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert_eq!((device.bytes(), device.blocks(), tape.len()), (bytes, blocks, 0), "allocation {n}");
        refused += 1;
        // The same tape computes the right gradients afterwards.
        close("after a refusal", &backward(&program(&variables, &tape)?)?, &expected);
    }
    drop((variables, tape));
    assert_eq!((device.bytes(), device.blocks()), (bytes, blocks));
    Ok([refused, forward])
}

#[test]
fn every_allocation_fails_in_turn_and_the_tape_stays_usable() -> Result<()> {
    let [refused, forward] = refuse_in_turn(&Counted::default(), [random([3, 4], 1)], program)?;
    assert!(refused > 40 && forward > 10 && refused - forward > 20, "{forward} of {refused}");
    Ok(())
}

/// Two rows are a task.
#[test]
fn every_allocation_of_a_pass_by_blocks_of_rows_fails_in_turn() -> Result<()> {
    let device = Counted::with_tasks(128);
    let tape = Tape::new(&device);
    let operands = [random([12, 8], 50), random([1, 8], 51)];
    let x = [tape.watch(&operands[0].to(&device)?)?, tape.watch(&operands[1].to(&device)?)?];
    let loss = program_by_blocks(&x, &tape)?;
    let forward = device.take_tasks();
    tape.backward(&loss)?;
    let backward = device.take_tasks();
    // The softmax, the normalization and both gradients of the convolution.
    assert!(forward >= 3 && backward >= 6 + 3, "{forward} tasks forward, {backward} backward");
    let [refused, forward] = refuse_in_turn(&device, operands, program_by_blocks)?;
    assert!(refused > 60 && forward > 8 && refused - forward > 50, "{forward} of {refused}");
    Ok(())
}

#[test]
fn an_error_of_a_custom_gradient_ends_the_pass_and_leaks_nothing() -> Result<()> {
    let device = Counted::default();
    let x = random([3, 4], 2).to(&device)?;
    let (bytes, tape) = (device.bytes(), Tape::new(&device));
    let on_tape = tape.watch(&x)?;
    let refuse = || Error::Value { op: "mine", what: "refused".into() };
    let y = tape.custom((&on_tape,), |(x,)| x.exp(), move |_, _, _| Err(refuse()))?;
    let error = tape.backward(&y.sum(All)?).unwrap_err();
    assert_eq!(error.to_string(), "mine: refused");
    drop(y);
    assert_eq!((device.bytes(), tape.len()), (bytes, 0));
    assert!(tape.backward(&on_tape.sum(All)?).is_ok());
    Ok(())
}

#[test]
fn a_panic_of_a_custom_gradient_leaks_nothing() -> Result<()> {
    let device = Counted::default();
    let x = random([3, 4], 3).to(&device)?;
    let (bytes, tape) = (device.bytes(), Tape::new(&device));
    let on_tape = tape.watch(&x)?;
    let y = tape.custom((&on_tape,), |(x,)| x.exp(), |_, _, _| panic!("a user's panic"))?;
    let loss = y.sum(All)?;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tape.backward(&loss)));
    assert!(caught.is_err());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tape.paused(|| panic!("paused"))));
    assert!(caught.is_err());
    drop((y, loss));
    assert_eq!(device.bytes(), bytes);
    let gradient = tape.backward(&on_tape.sum(All)?)?.of(&on_tape)?;
    assert_eq!(gradient.to_vec()?, [1.0; 12]);
    Ok(())
}

#[test]
fn a_tape_and_its_parts_go_to_other_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Tape>();
    is_shared::<Tape<Tape<Counted>>>();
    is_shared::<Var<f32, 3>>();
    is_shared::<Gradients>();
}

#[test]
fn threads_that_share_a_tape_have_their_own_gradients() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let shared = tape.watch(&random([3, 3], 4))?;
    let barrier = Barrier::new(8);
    let losses: Vec<_> = std::thread::scope(|scope| {
        let work = |k: u64| {
            let own = tape.watch(&random([3, 3], 10 + k))?;
            barrier.wait();
            let mut y = own.matmul(&shared)?;
            for _ in 0..20 {
                y = (y.lazy() * &shared).sin().eval()?;
                y.zip_in_place(rankform::ops::Add, &own)?;
            }
            Ok((y.sum(All)?, own))
        };
        let threads: Vec<_> = (0..8).map(|k| scope.spawn(move || work(k))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<_>>()
    })?;
    let total = losses.iter().try_fold(tape.constant(&Tensor::from(0.0))?, |sum, (loss, _)| sum.add(loss))?;
    let gradients = tape.backward(&total)?;
    for (k, (_, own)) in losses.iter().enumerate() {
        let alone = grad(&random([3, 3], 10 + k as u64), |own, tape| {
            let shared = tape.constant(&random([3, 3], 4))?;
            let mut y = own.matmul(&shared)?;
            for _ in 0..20 {
                y = (y.lazy() * &shared).sin().eval()?;
                y.zip_in_place(rankform::ops::Add, own)?;
            }
            y.sum(All)
        })?;
        close("own", &gradients.of(own)?.to_vec()?, &alone.to_vec()?);
    }
    Ok(())
}

/// Sizes of a program of layers: rows of a batch, width, number of layers.
const BATCH: usize = 32;
const WIDTH: usize = 16;
const LAYERS: usize = 6;

#[test]
fn a_tape_holds_what_the_derivatives_read_and_then_the_gradients_alone() -> Result<()> {
    let device = Counted::default();
    let weights: Vec<_> =
        (0..LAYERS).map(|k| random([WIDTH, WIDTH], 20 + k as u64).to(&device)).collect::<Result<_>>()?;
    let x = random([BATCH, WIDTH], 19).to(&device)?;
    let (given, number, activation) = (device.bytes(), size_of::<f64>(), BATCH * WIDTH * size_of::<f64>());
    let tape = Tape::new(&device);
    let on_tape: Vec<_> = weights.iter().map(|w| tape.watch(w)).collect::<Result<_>>()?;
    assert_eq!(device.bytes(), given, "variables and constants share memory");
    let mut y = tape.constant(&x)?;
    for w in &on_tape {
        y = y.matmul(w)?.relu()?;
    }
    let loss = y.sum(All)?;
    drop(y);
    // Each relu reads its result, as the product after it does; the sum reads nothing.
    let kept = LAYERS * activation;
    assert_eq!(device.bytes() - given, kept + number);
    device.take_peak();
    let gradients = tape.backward(&loss)?;
    let weight_bytes = LAYERS * WIDTH * WIDTH * number;
    let scratch = 3 * activation + 256;
    let peak = device.take_peak() - given;
    assert!(peak <= kept + weight_bytes + scratch, "{peak} > {kept} + {weight_bytes} + {scratch}");
    drop(loss);
    assert_eq!((device.bytes() - given, tape.len()), (weight_bytes, 0));
    // The gradients are handles on this memory.
    let of_first = gradients.of(&on_tape[0])?;
    assert_eq!((device.bytes() - given, of_first.size().0), (weight_bytes, [WIDTH, WIDTH]));
    drop((gradients, on_tape, tape));
    assert_eq!(device.bytes() - given, WIDTH * WIDTH * number);
    Ok(())
}

#[test]
fn parts_written_beside_constants_leave_no_gradient_behind() -> Result<()> {
    let device = Counted::default();
    let x = random([4, 4], 30).to(&device)?;
    let tape = Tape::new(&device);
    let (on_tape, given) = (tape.watch(&x)?, device.bytes());
    let zeros = tape.constant(&Tensor::<f64, 2, _>::zeros([4, 4], &device)?)?;
    let gradients = tape.backward(&Tensor::concat([zeros.view(), on_tape.view()], Axis::<0>)?.sum(All)?)?;
    drop(zeros);
    assert_eq!(device.bytes() - given, x.nbytes(), "{gradients:?}");
    Ok(())
}

#[test]
fn checkpoints_hold_their_inputs_only() -> Result<()> {
    let device = Counted::default();
    let x = random([BATCH, WIDTH], 31).to(&device)?;
    let (tape, given) = (Tape::new(&device), device.bytes());
    let on_tape = tape.watch(&x)?;
    let y = tape.checkpoint((&on_tape,), |(x,)| x.sin()?.exp()?.sin()?.exp()?.sin())?;
    assert_eq!(device.bytes() - given, x.nbytes());
    let loss = y.sum(All)?;
    drop(y);
    assert_eq!(device.bytes() - given, size_of::<f64>());
    tape.backward(&loss)?;
    Ok(())
}

#[test]
fn a_cleared_tape_holds_nothing() -> Result<()> {
    let device = Counted::default();
    let x = random([BATCH, WIDTH], 32).to(&device)?;
    let (tape, given) = (Tape::new(&device), device.bytes());
    let on_tape = tape.watch(&x)?;
    let y = on_tape.sin()?.exp()?.sum(All)?;
    let z = tape.custom((&on_tape,), |(x,)| x.exp(), |_, y, g| Ok((y.mul(g)?,)))?;
    assert!(device.bytes() > given);
    drop((y, z));
    tape.clear();
    assert_eq!((device.bytes(), tape.len()), (given, 0));
    // A recording that nothing ends is freed with its tape.
    let y = on_tape.sin()?.exp()?;
    drop((y, on_tape, tape));
    assert_eq!(device.bytes(), given);
    Ok(())
}
