//! Tapes beside each other, memory that a tape shares with plain tensors, and gradients that operands share.

use crate::check::{check, close, random};
use rankform::autograd::Tape;
use rankform::prelude::*;
use std::sync::{Arc, Mutex};

#[test]
fn gradients_of_one_tape_refuse_tensors_of_another() -> Result<()> {
    let (a, b) = (Tape::new(&Cpu), Tape::new(&Cpu));
    let small = a.watch(&Tensor::from([1.0]))?;
    let large = b.watch(&Tensor::from([[1.0; 100]; 10]))?;
    let gradients = a.backward(&small.sum(All)?)?;
    let error = gradients.of(&large).unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
    Ok(())
}

#[test]
fn a_custom_gradient_of_other_sizes_is_refused() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let y = tape.custom((&x,), |(x,)| Ok(x.share_data()), |_, _, _| Ok((Tensor::from([1.0; 1000]),)))?;
    let error = tape.backward(&y.sum(All)?).unwrap_err();
    assert!(matches!(error, Error::Output { .. } | Error::Sizes { .. }), "{error}");
    Ok(())
}

#[test]
fn a_tape_shares_memory_until_either_side_writes() -> Result<()> {
    let mut x = Tensor::from([1.0, 2.0]);
    let tape = Tape::new(&Cpu);
    let mut on_tape = tape.watch(&x)?;
    // The plain tensor is not the only handle.
    let error = x.map_in_place(rankform::ops::Neg).unwrap_err();
    assert!(matches!(error, Error::Shared { .. }), "{error}");
    // A write on the tape moves the variable, and leaves the plain tensor as it was.
    on_tape.zip_in_place(rankform::ops::Mul, 3.0)?;
    assert_eq!((x.to_vec()?, on_tape.to_vec()?), (vec![1.0, 2.0], vec![3.0, 6.0]));
    x.map_in_place(rankform::ops::Neg)?;
    assert_eq!((x.to_vec()?, on_tape.to_vec()?), (vec![-1.0, -2.0], vec![3.0, 6.0]));
    // The gradient of the variable is that of its first values.
    let gradient = tape.backward(&(on_tape.lazy() * &on_tape).sum(All)?)?.of(&on_tape)?;
    assert_eq!(gradient.to_vec()?, [18.0, 36.0]);
    Ok(())
}

#[test]
fn a_constant_is_in_the_memory_of_a_tensor_and_a_copy_of_a_view() -> Result<()> {
    let mut x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let tape = Tape::new(&Cpu);
    let row = tape.constant(x.slice((1, ..))?)?;
    let column = tape.constant(x.transposed().slice((1, ..))?)?;
    assert_eq!(x.use_count(), 1);
    x.map_in_place(rankform::ops::Neg)?; // the copies stay
    assert_eq!((row.to_vec()?, column.to_vec()?), (vec![3.0, 4.0], vec![2.0, 4.0]));
    let whole = tape.constant(&mut x)?;
    assert_eq!((x.use_count(), whole.to_vec()?), (2, vec![-1.0, -2.0, -3.0, -4.0]));
    assert!(!tape.depends_on_variable(&row) && !tape.depends_on_variable(&whole));
    let variable = tape.watch(&Tensor::from([1.0, 1.0]))?;
    let gradients = tape.backward(&(variable.lazy() * &row * &column).sum(All)?)?;
    assert_eq!(gradients.of(&variable)?.to_vec()?, [6.0, 16.0]);
    // A stretched view has one element twice, its copy as well.
    let stretched = tape.constant(Tensor::from([5.0]).broadcast_to([2])?)?;
    assert_eq!(stretched.to_vec()?, [5.0, 5.0]);
    Ok(())
}

#[test]
fn a_tensor_of_the_inner_tape_keeps_its_history_on_the_outer_one() -> Result<()> {
    let outer = Tape::new(&Cpu);
    let inner = Tape::new(&outer);
    let x = outer.watch(&Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))?;
    let weights = Tensor::from([1.0, 10.0, 100.0]).to(&outer)?;
    assert!(outer.depends_on_variable(&inner.value(&x.to(&inner)?)?));
    // A view with strides too.
    let flipped = x.reversed(Axis::<1>).to(&inner)?;
    let y = (flipped.lazy() * inner.constant(&weights)?.lift()).sum(All)?;
    let gradient = outer.backward(&inner.value(&y)?)?.of(&x)?;
    assert_eq!(gradient, Tensor::from([[100.0, 10.0, 1.0]; 2]));
    Ok(())
}

#[test]
fn a_value_is_the_memory_without_its_history() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let mut y = (x.lazy() * 2.0).eval()?;
    let mut value = tape.value(&y)?;
    assert_eq!(value.use_count(), 2);
    assert!(matches!(value.fill(0.0).unwrap_err(), Error::Shared { .. }));
    y.zip_in_place(rankform::ops::Add, 1.0)?;
    assert_eq!((value.to_vec()?, y.to_vec()?), (vec![2.0, 4.0], vec![3.0, 5.0]));
    value.fill(9.0)?;
    assert_eq!(tape.backward(&y.sum(All)?)?.of(&x)?.to_vec()?, [2.0, 2.0]);
    // As a constant it has no history.
    let (x, z) = (tape.watch(&value)?, tape.constant(&value)?);
    assert!(tape.depends_on_variable(&x) && !tape.depends_on_variable(&z));
    let gradients = tape.backward(&(x.lazy() * &z).sum(All)?)?;
    assert_eq!((gradients.of(&x)?.to_vec()?, gradients.of(&z)?.to_vec()?), (vec![9.0, 9.0], vec![0.0, 0.0]));
    Ok(())
}

#[test]
fn saved_values_survive_writes() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let mut c = tape.constant(&Tensor::from([5.0, 7.0]))?.copy()?;
    let y = x.mul(&c)?;
    c.fill(0.0)?;
    assert_eq!(tape.backward(&y.sum(All)?)?.of(&x)?.to_vec()?, [5.0, 7.0]);
    Ok(())
}

#[test]
fn a_second_backward_and_an_older_result_are_refused_by_text() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let y = x.sin()?;
    let loss = y.sum(All)?;
    let first = tape.backward(&loss)?;
    assert_eq!(first.of(&x)?.to_vec()?, [1f64.cos(), 2f64.cos()]);
    let text = "belongs to a recording that has ended";
    for error in
        [tape.backward(&loss).unwrap_err(), y.sum(All).unwrap_err(), (y.lazy() * &x).eval().unwrap_err()]
    {
        assert!(matches!(&error, Error::Value { .. }) && error.to_string().contains(text), "{error}");
    }
    // Its values remain, and the variable begins anew.
    assert_eq!(tape.value(&y)?.to_vec()?, [1f64.sin(), 2f64.sin()]);
    assert_eq!(tape.backward(&x.sum(All)?)?.of(&x)?.to_vec()?, [1.0, 1.0]);
    assert_eq!(first.of(&x)?.to_vec()?, [1f64.cos(), 2f64.cos()]);
    Ok(())
}

#[test]
fn a_buffer_of_an_older_recording_can_be_written_anew() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let mut buffer = x.sin()?;
    tape.backward(&buffer.sum(All)?)?;
    buffer.assign(&x.cos()?)?;
    assert_eq!(tape.backward(&buffer.sum(All)?)?.of(&x)?.to_vec()?, [-1f64.sin(), -2f64.sin()]);
    // Constants leave no dependency.
    buffer.fill(3.0)?;
    let y = (buffer.lazy() * &x).sum(All)?;
    assert_eq!(tape.backward(&y)?.of(&x)?.to_vec()?, [3.0, 3.0]);
    Ok(())
}

#[test]
fn results_that_depend_on_no_variable_are_refused_by_text() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let (x, c) = (tape.watch(&Tensor::from([1.0, 2.0]))?, tape.constant(&Tensor::from([1.0, 2.0]))?);
    let text = "depends on no variable of this tape";
    for loss in [c.sum(All)?, x.floor()?.sum(All)?, tape.paused(|| x.sum(All))?] {
        let error = tape.backward(&loss).unwrap_err();
        assert!(matches!(&error, Error::Value { .. }) && error.to_string().contains(text), "{error}");
    }
    Ok(())
}

#[test]
fn two_tapes_do_not_mix() -> Result<()> {
    let (a, b) = (Tape::new(&Cpu), Tape::new(&Cpu));
    let (x, y) = (a.watch(&Tensor::from([1.0]))?, b.watch(&Tensor::from([1.0]))?);
    for error in [
        x.add(&y).unwrap_err(),
        a.value(&y).unwrap_err(),
        a.backward(&y.sum(All)?).unwrap_err(),
        a.retain(&y).unwrap_err(),
        a.custom((&y,), |(y,)| y.exp(), |_, y, g| Ok((y.mul(g)?,))).unwrap_err(),
        a.checkpoint((&y,), |(y,)| y.exp()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Device { .. }), "{error}");
    }
    assert!(a == a.clone() && a != b);
    Ok(())
}

#[test]
fn a_gradient_to_pull_has_the_sizes_of_the_result() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let y = x.sin()?;
    let error = tape.vjp(&y, &Tensor::from([1.0, 2.0, 3.0])).unwrap_err();
    assert!(matches!(error, Error::Output { .. }), "{error}");
    // Nothing was pulled.
    assert_eq!(tape.vjp(&y, &Tensor::from([1.0, 2.0]))?.of(&x)?.to_vec()?, [1f64.cos(), 2.0 * 2f64.cos()]);
    Ok(())
}

#[test]
fn a_pause_records_nothing_and_ends() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let mut mean = tape.constant(&Tensor::from([0.0, 0.0]))?;
    let y = x.sin()?;
    let steps = tape.len();
    tape.paused(|| tape.paused(|| mean.assign(y.lazy() * 0.5)))?;
    assert_eq!((tape.len(), tape.depends_on_variable(&mean)), (steps, false));
    let loss = (y.lazy() * &mean).sum(All)?;
    let found = tape.backward(&loss)?.of(&x)?.to_vec()?;
    let expected: Vec<f64> = [1f64, 2.0].iter().map(|x| x.cos() * 0.5 * x.sin()).collect();
    crate::check::close("a constant", &found, &expected);
    Ok(())
}

#[test]
fn retained_tensors_keep_their_gradients_for_one_pass() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let y = x.sin()?;
    tape.retain(&y)?;
    let gradients = tape.backward(&(y.lazy() * &y).sum(All)?)?;
    assert_eq!(gradients.of(&y)?.to_vec()?, [2.0 * 1f64.sin(), 2.0 * 2f64.sin()]);
    let other = x.cos()?;
    let gradients = tape.backward(&other.sum(All)?)?;
    assert_eq!(gradients.of(&other)?.to_vec()?, [0.0, 0.0]);
    Ok(())
}

#[test]
fn a_part_that_was_rewritten_after_a_pass_does_not_hide_the_old_rest() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let mut y = Tensor::<f64, 1, Tape>::zeros([4], &tape)?;
    y.view_mut()?.slice((..2,))?.assign(&(x.lazy() * 2.0).eval()?)?;
    y.view_mut()?.slice((2..,))?.assign(&(x.lazy() * 3.0).eval()?)?;
    assert_eq!(tape.backward(&y.sum(All)?)?.of(&x)?.to_vec()?, [5.0, 5.0]);
    let rewritten = (x.lazy() * 2.0).eval()?;
    let error = y.view_mut()?.slice((..2,))?.assign(&rewritten).unwrap_err().to_string();
    assert!(error.contains("a recording that has ended"), "{error}");
    // A whole new value is allowed.
    y.assign(Tensor::concat([rewritten.view(), x.view()], Axis::<0>)?.lazy())?;
    assert_eq!(tape.backward(&y.sum(All)?)?.of(&x)?.to_vec()?, [3.0, 3.0]);
    Ok(())
}

/// One thread squares its half, which saves the block, and overwrites it, which moves the block. The other
/// one writes its half and reads it back.
#[test]
fn threads_that_write_parts_of_one_block_lose_nothing() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let half = 1 << 12;
    let mut y = tape.watch(&Tensor::<f32, 1>::zeros([2 * half], &Cpu)?)?;
    let (mut a, mut b) = y.view_mut()?.split_at_mut(Axis::<0>, half)?;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = tape.clone();
        let is_done = &is_done;
        scope.spawn(move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let square = a.as_view().square().unwrap();
                a.fill(1.0).unwrap();
                drop(square);
                other.clear();
            }
        });
        for value in 0..300 {
            let value = value as f32;
            tape.paused(|| b.fill(value)).unwrap();
            let found = b.as_view().to_vec().unwrap();
            if found.iter().any(|&x| x != value) {
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{value} was written, {:?} was read", &found[..4]);
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    Ok(())
}

#[test]
fn a_gradient_that_is_passed_on_or_shared_by_operands_is_that_of_each_of_them() -> Result<()> {
    let (x, w) = (random([4, 4], 50), random([4, 4], 51));
    let row = random([4], 52);
    // The gradient of a sum becomes that of an operand: once, and not where both are one block.
    check("sum with the transposed", &x, |x, _| x.add(x.transposed()));
    check("sum with itself", &x, |x, _| x.add(x));
    check("sum of sums", &x, |x, _| {
        let y = x.add(&x.copy()?.copy()?)?;
        y.add(&x.lazy().sin().eval()?)?.add(x)
    });
    check("a copy that is used twice", &x, |x, tape| {
        let y = x.copy()?;
        y.mul(&tape.constant(&w)?)?.add(&y.square()?)
    });
    check("a copy of other sizes", &x, |x, _| x.reshape([2, 8])?.to_contiguous()?.square());
    // Equal derivatives: of several blocks, of a broadcast operand, of one block in two layouts.
    check("relu of a sum", &x, |x, tape| {
        let (w, row) = (tape.constant(&w)?, tape.constant(&row)?);
        (x.lazy() + &w + row.lift()).relu().eval()
    });
    check("tanh of a sum with the transposed", &x, |x, _| (x.lazy() + x.transposed()).tanh().eval());
    check("a row", &row, |row, tape| (tape.constant(&x)?.lazy() + row.lift()).tanh().eval());
    check("a row and its double", &row, |row, tape| {
        let double = row.lazy().exp().eval()?;
        (tape.constant(&x)?.lazy() + row.lift() + double.lift()).tanh().eval()
    });
    check("two rows and a matrix", &x, |x, _| {
        let (a, b) = (x.sum(Axis::<0>)?, x.prod(Axis::<0>)?);
        (x.lazy() + a.lift() + b.lift()).tanh().eval()
    });
    Ok(())
}

#[test]
fn a_gradient_that_is_kept_is_not_passed_on() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&random([3, 3], 53))?;
    let weights = random([3, 3], 54);
    let y = x.add(&tape.constant(&weights)?)?;
    tape.retain(&y)?;
    let loss = y.mul(&tape.constant(&weights)?)?.add(&x.square()?)?.sum(All)?;
    let gradients = tape.backward(&loss)?;
    assert_eq!(gradients.of(&y)?, weights);
    let expected = (weights.lazy() + tape.value(&x)?.lazy() * 2.0).eval()?;
    close("x", &gradients.of(&x)?.to_vec()?, &expected.to_vec()?);

    // A custom operator that keeps the gradient, after which another one is added.
    let kept = Arc::new(Mutex::new(None));
    let x = tape.watch(&random([3, 3], 55))?;
    let square = x.square()?;
    let into = kept.clone();
    let y = tape.custom(
        (&x,),
        |(x,)| Ok(x.share_data()),
        move |_, _, gradient| {
            *into.lock().unwrap() = Some(gradient.share_data());
            Ok((gradient.share_data(),))
        },
    )?;
    let loss = y.mul(&tape.constant(&weights)?)?.add(&square)?.sum(All)?;
    tape.backward(&loss)?;
    assert_eq!(kept.lock().unwrap().take(), Some(weights));
    Ok(())
}

#[test]
fn a_deleter_may_use_the_tape_that_refuses_its_memory() {
    let tape = Tape::new(&Cpu);
    let (other, freed) = (tape.clone(), std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let count = freed.clone();
    let free = Box::new(move |_: *mut u8, _: usize| {
        count.store(1 + other.len(), std::sync::atomic::Ordering::Relaxed);
    });
    // A block of a tape has less than 2⁴⁰ bytes.
    // SAFETY: no byte is ever accessed.
    let block = unsafe { tape.external_block(std::ptr::dangling_mut(), 1 << 40, free) };
    assert!(matches!(block, Err(Error::OutOfMemory { .. })));
    assert_eq!(freed.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// One thread computes gradients through a custom operator. The other one ends recordings.
#[test]
fn a_custom_step_belongs_to_the_recording_of_its_operands() -> Result<()> {
    let (tape, x) = (Tape::new(&Cpu), Tensor::<f32, 2>::full([64, 64], 0.5, &Cpu)?);
    let on_tape = tape.watch(&x)?;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let expected = 0.5_f32.cos();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                tape.clear();
                std::thread::yield_now();
            }
        });
        let gradient = || -> Result<f32> {
            let y = on_tape.sin()?;
            // The copy of a transposed result takes some time.
            let y = tape.custom(
                (&y,),
                |(y,)| y.share_data().into_transposed(),
                |_, _, gradient| Ok((gradient.transposed().to_contiguous()?,)),
            )?;
            tape.vjp(&y, &Tensor::ones([64, 64], &Cpu)?)?.of(&on_tape)?.slice((3, 4))?.item()
        };
        let wrong = (0..400).find_map(|_| gradient().ok().filter(|found| *found != expected));
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
    Ok(())
}
