//! No memory: the n-th allocation of an operation fails, for all n; then requests that are too large for any
//! machine.
//!
//! Two ways to fail: allocation n alone, as when memory is freed elsewhere a moment later; n and all after
//! it: then making the error, unwinding the partial work and dropping it must need no memory either. Every
//! call returns [`Error::OutOfMemory`], the number of bytes in use returns to its old value, and the inputs
//! are unchanged.

use crate::alloc::{Armed, LIMIT, fail_from, fail_once, live_here};
use crate::{caught, digest, refused};
use rankform::MetadataLock;
use rankform::kernel::Reducer;
use rankform::ops::{self, Operator};
use rankform::prelude::*;

/// The operands of the operations.
struct Inputs {
    a: Tensor<f64, 2>,
    b: Tensor<f64, 2>,
    row: Tensor<f64, 1>,
    cube: Tensor<f32, 3>,
    whole: Tensor<i32, 2>,
    flags: Tensor<bool, 2>,
    complex: Tensor<num_complex::Complex<f32>, 1>,
    half: Tensor<rankform::f16, 1>,
}

impl Inputs {
    fn new() -> Result<Self> {
        Ok(Inputs {
            a: Tensor::from_vec(vec![0.5, -1.5, 2.0, 3.25, 0.0, -7.0], [2, 3])?,
            b: Tensor::from_slice(&[4.0, 0.5, -2.0, 1.0, 9.0, 3.0], [2, 3], &Cpu)?,
            row: Tensor::from([1.0, 2.0, 3.0]),
            cube: Tensor::from_fn([2, 3, 4], |[i, j, k]| (12 * i + 4 * j + k) as f32, &Cpu)?,
            whole: Tensor::from([[1, -2, 3], [4, 5, -6]]),
            flags: Tensor::from([[true, false, true], [false, false, true]]),
            complex: Tensor::from([
                num_complex::Complex::new(3.0, 4.0),
                num_complex::Complex::new(-1.0, 0.5),
            ]),
            half: Tensor::from_vec([1.5, -2.25].map(rankform::f16::from_f32).to_vec(), [2])?,
        })
    }

    /// Elements, handles and versions, which no failed call may change.
    fn state(&self) -> Result<[u64; 4]> {
        let (row, cube, whole, flags) =
            (digest(&self.row)?, digest(&self.cube)?, digest(&self.whole)?, digest(&self.flags)?);
        let elements = row ^ cube.rotate_left(1) ^ whole.rotate_left(2) ^ flags.rotate_left(3);
        let handles = self.a.use_count()
            + self.b.use_count()
            + self.row.use_count()
            + self.cube.use_count()
            + self.whole.use_count();
        Ok([
            digest(&self.a)?,
            digest(&self.b)?,
            elements,
            handles as u64 + self.a.version() + self.b.version(),
        ])
    }
}

type Work = (&'static str, fn(&Inputs) -> Result<u64>);

macro_rules! works {
    ($($name:literal: |$x:ident| $work:expr;)*) => {
        &[$(($name, |$x: &Inputs| -> Result<u64> { $work })),*]
    };
}

elementwise! {
    fn mix(a, b, t) { a + (b - a) * t }
    fn halves(x) -> (T, T) { (x.floor(), x - x.floor()) }
}

/// Every operation alone. A new one is one line.
const WORKS: &[Work] = works! {
    "zeros": |_x| digest(&Tensor::<f32, 2>::zeros([2, 3], &Cpu)?);
    "zeros, empty": |_x| digest(&Tensor::<f32, 2>::zeros([0, 3], &Cpu)?);
    "ones": |_x| digest(&Tensor::<f32, 1>::ones([5], &Cpu)?);
    "full": |_x| digest(&Tensor::full([2, 2], 7_u8, &Cpu)?);
    "zeros_like": |x| digest(&x.a.zeros_like()?);
    "from_slice": |_x| digest(&Tensor::from_slice(&[1_i64, 2, 3], [3], &Cpu)?);
    "from_fn": |_x| digest(&Tensor::from_fn([2, 2], |[i, j]| (i + j) as u8, &Cpu)?);
    "from_array": |_x| digest(&Tensor::from_array([[1.0, 2.0], [3.0, 4.0]], &Cpu)?);
    "from_iter": |_x| digest(&Tensor::from_iter((0..50).map(|i| i * i))?);
    "collect_fn": |_x| digest(&Tensor::collect_fn([2, 2], |[i, j]| (i * j) as u16)?);
    "arange": |_x| digest(&Tensor::arange(0, 10, 3, &Cpu)?);
    "linspace": |_x| digest(&Tensor::linspace(0.0, 1.0, 5, &Cpu)?);
    "eye": |_x| digest(&Tensor::<f32, 2>::eye(3, &Cpu)?);
    "from_vec": |_x| {
        let mut values = Vec::new();
        values.try_reserve_exact(3).map_err(|_| Error::OutOfMemory { op: "test", nbytes: 3 })?;
        values.extend([1_u8, 2, 3]);
        digest(&Tensor::from_vec(values, [3])?)
    };
    "into_vec": |x| Ok(x.a.copy()?.into_vec()?.len() as u64);
    "from_external": |_x| {
        let mut freed = [0_u8; 4];
        let memory = freed.as_mut_ptr();
        // SAFETY: four bytes that outlive the tensor, of which only the deleter writes.
        let made = unsafe {
            Tensor::from_external(memory, [4], &Cpu, |p, n| (0..n).for_each(|i| *p.add(i) += 1))
        };
        let made = made.map(|tensor| tensor.numel() as u64);
        assert_eq!(freed, [1; 4], "the deleter runs once");
        made
    };
    "from_external, with a deleter that holds something": |_x| {
        let mut freed = 0_u64;
        let (memory, held) = ([0_u8; 4], std::ptr::from_mut(&mut freed).expose_provenance());
        // SAFETY: four bytes that outlive the tensor, which nobody writes; the counter outlives the deleter.
        let made = unsafe {
            let free = move |_: *mut u8, n: usize| {
                *std::ptr::with_exposed_provenance_mut::<u64>(held) += n as u64
            };
            Tensor::from_external(memory.as_ptr().cast_mut(), [4], &Cpu, free)
        };
        let made = made.map(|tensor| tensor.numel() as u64);
        assert_eq!(freed, 4, "the deleter runs once");
        made
    };
    "allocation": |_x| Ok(Allocation::new(&Cpu, 100)?.size() as u64);
    "copy": |x| digest(&x.cube.copy()?);
    "copy of a transposed view": |x| digest(&x.cube.transposed().copy()?);
    "to_contiguous of a reversed slice": |x| digest(&x.cube.slice((1, .., (..).step(-2)))?.to_contiguous()?);
    "to_shape": |x| digest(&x.cube.transposed().to_shape([24])?);
    "to_format": |x| digest(&x.cube.to_format(MemoryFormat::Preserve)?);
    "to_channels_last": |x| digest(&x.cube.insert_axis(Axis::<0>).copy()?.to_channels_last()?);
    "to_vec of a broadcast": |x| Ok(
        x.row.insert_axis(Axis::<0>).broadcast_to([4, 3])?.to_vec()?.len() as u64
    );
    "item": |x| Ok(x.row.slice((1..2,))?.item()?.to_bits());
    "to": |x| digest(&x.cube.transposed().to(&Cpu)?);
    "to Meta": |x| Ok(x.cube.to(&Meta::new())?.numel() as u64);
    "copy_to": |x| { let mut out = x.b.copy()?; x.a.copy_to(&mut out)?; digest(&out) };
    "share_data": |x| digest(&x.a.share_data());
    "share_as": |x| digest(&x.a.share_as([3, 2])?);
    "into_raw": |x| {
        let raw = x.a.share_data().into_raw()?;
        // SAFETY: from `into_raw`, taken back once.
        digest(&unsafe { Tensor::from_raw(raw) })
    };
    "detach": |x| digest(&x.a.detach(MetadataLock::Frozen));
    "make_unique": |x| { let mut y = x.a.share_data(); assert!(y.make_unique()?); digest(&y) };
    "into views": |x| {
        let part = x.cube.share_data().into_permuted([2, 0, 1])?.into_slice((.., 1, ..))?;
        digest(&part.into_reversed(Axis::<0>)?.into_transposed()?)
    };
    "cumsum": |x| digest(&x.cube.cumsum(Axis::<1>)?);
    "cummax, fused": |x| digest(&(x.a.lazy() + &x.b).cummax(Axis::<1>)?);
    "scan_exclusive": |x| digest(&x.whole.scan_exclusive(ops::Sum, Axis::<0>)?);
    "sort": |x| digest(&x.a.sort(Axis::<1>)?);
    "argsort": |x| digest(&x.cube.argsort(Axis::<0>)?);
    "topk": |x| {
        let (values, places) = x.cube.to_shape([24])?.topk(Axis::<0>, 2)?;
        Ok(digest(&values)? ^ digest(&places)?)
    };
    "unique": |x| digest(&x.whole.unique()?);
    "unique_all": |x| {
        let unique = x.whole.transposed().unique_all()?;
        Ok(
            digest(&unique.values)? ^ digest(&unique.positions)? ^ digest(&unique.inverse)?
                ^ digest(&unique.counts)?
        )
    };
    "searchsorted": |x| digest(&x.row.searchsorted(&x.a, ops::Side::Right)?);
    "index_select": |x| digest(&x.cube.index_select(Axis::<2>, &Tensor::from_slice(&[3, 0], [2], &Cpu)?)?);
    "gather": |x| digest(&x.a.gather(Axis::<1>, &x.flags.cast::<i64>()?)?);
    "take": |x| digest(&x.cube.transposed().take(&x.flags.cast::<i64>()?)?);
    "embedding": |x| digest(&x.a.embedding(&x.flags.cast::<i64>()?)?);
    "scatter": |x| {
        let mut y = x.a.copy()?;
        y.scatter(ops::Add, Axis::<0>, &x.flags.cast::<i64>()?, &x.b)?;
        digest(&y)
    };
    "masked_select": |x| digest(&x.a.masked_select(&x.flags)?);
    "masked_fill": |x| digest(&x.a.masked_fill(&x.flags, 1.0)?);
    "nonzero": |x| digest(&x.flags.nonzero()?);
    "one_hot": |x| digest(&x.flags.cast::<i64>()?.one_hot::<f32, _>(3)?);
    "bincount": |x| digest(&x.flags.cast::<i64>()?.into_shape([6])?.bincount(2)?);
    "histogram": |x| digest(&x.cube.histogram(4, 0.0, 10.0)?);
    "concat": |x| digest(&Tensor::concat([x.a.view(), x.b.view()], Axis::<1>)?);
    "stack": |x| digest(&Tensor::stack([x.a.view(), x.b.view()], Axis::<1>)?);
    "pad": |x| digest(&x.a.pad([(1, 2), (0, 4)], ops::Pad::Reflect)?);
    "roll": |x| digest(&x.cube.roll(Axis::<1>, 1)?);
    "tile": |x| digest(&x.cube.transposed().tile([1, 2, 3])?);
    "tril": |x| digest(&x.cube.tril(0)?);
    "diag": |x| digest(&x.row.diag(1)?);
    "diff": |x| digest(&x.a.diff(Axis::<1>)?);
    "windows": |x| digest(&x.row.windows(Axis::<0>, 2, 1)?.copy()?);
    "diagonal": |x| digest(&x.a.diagonal(Axis::<0>, Axis::<1>)?.copy()?);
    "as_strided": |x| digest(&x.cube.as_strided([4, 2], [1, 12], 0)?.copy()?);
    "cells": |x| digest(&Tensor::from_cells(x.a.copy()?.into_cells()?)?);
    "atomics": |x| digest(&Tensor::<i32, 2>::from_atomics(x.whole.copy()?.into_atomics()?)?);
    "add": |x| digest(&Arithmetic::add(&x.a, &x.b)?);
    "add, of a transposed view": |x| digest(&Arithmetic::add(x.cube.transposed(), 1.0)?);
    "mul, stretched": |x| digest(&Arithmetic::mul(&x.a, x.row.lift())?);
    "rem": |x| digest(&Arithmetic::rem(&x.whole, 4)?);
    "exp, ln, tanh": |x| digest(&x.a.exp()?.ln()?.tanh()?);
    "gelu": |x| digest(&x.a.gelu()?);
    "f16": |x| digest(&x.half.square()?);
    "greater, select": |x| digest(&x.a.greater(&x.b)?.select(&x.a, 0.0)?);
    "not": |x| digest(&Arithmetic::not(&x.flags)?);
    "cast": |x| digest(&x.a.cast::<i8>()?.cast::<f32>()?);
    "modulus": |x| digest(&x.complex.modulus()?);
    "apply": |x| digest(&apply(mix, (x.a.view(), &x.b, 0.25))?);
    "apply_many": |x| {
        let (whole, part) = apply_many(halves, (x.a.view(),))?;
        Ok(digest(&whole)? ^ digest(&part)?)
    };
    "derivative": |x| digest(&x.a.map(derivative::<_, 0>(ops::Square))?);
    "fused": |x| digest(&((x.a.lazy() * &x.b + 1.0).sqrt() / (x.row.lift().lazy() - 9.0)).eval()?);
    "fused with casts": |x| digest(&x.whole.lazy().cast::<f32>().square().cast::<u8>().eval()?);
    "fused select": |x| digest(&x.a.lazy().less(&x.b).select(&x.a, &x.b).eval()?);
    "sum": |x| digest(&x.a.sum(Axis::<1>)?);
    "sum of columns": |x| digest(&x.cube.sum(Axis::<0>)?);
    "sum of all": |x| Ok(x.cube.sum(All)?.item()?.to_bits().into());
    "sum, fused": |x| digest(&(x.a.lazy() - &x.b).square().sum(Axis::<0>)?);
    "max, argmax": |x| Ok(digest(&x.a.max(Axis::<1>)?)? ^ digest(&x.a.argmax(Axis::<0>)?)?);
    "mean_axis": |x| digest(&x.a.mean_axis(1)?);
    "var of two axes": |x| digest(&x.cube.var((Axis::<0>, Axis::<2>))?);
    "any": |x| digest(&x.flags.any(Axis::<1>)?);
    "a reducer of one's own": |x| digest(&x.cube.reduce(Last, Axis::<1>)?);
    "softmax": |x| digest(&x.a.softmax(Axis::<1>)?);
    "log_softmax": |x| digest(&x.a.log_softmax(Axis::<0>)?);
    "layer_norm": |x| digest(&x.a.layer_norm(Axis::<1>, 1e-5)?);
    "matmul": |x| digest(&x.a.matmul(x.b.transposed())?);
    "matmul, batched": |x| digest(&x.cube.matmul(x.cube.permuted([0, 2, 1])?)?);
    "matmul of integers and a vector": |x| digest(&x.whole.matmul(&x.whole.slice((0, ..))?.copy()?)?);
    "an operator with code of its own": |x| digest(&ops::run(&Cpu, &Reversed, x.row.view())?);
    "new, resize, mutable_data": |_x| {
        let mut y = Tensor::<f32, 2>::new(&Cpu)?;
        y.resize([3, 4])?;
        y.mutable_data()?.fill(2.0)?;
        y.resize_axis(0, 2)?;
        digest(&y)
    };
    "empty, into_element": |x| {
        let mut y = x.a.copy()?.into_element::<u8>()?.into_element::<f64>()?;
        y.mutable_data()?;
        let mut z = y.share_data().into_element::<i16>()?;
        z.mutable_data()?;
        Ok(digest(&y)? ^ digest(&z)?)
    };
    "reserve, extend": |x| {
        let mut y = x.a.copy()?;
        y.reserve([4, 3])?;
        let room = y.extend(2, 0).and_then(|()| digest(&y));
        let before = (y.size(), digest(&y)?);
        if let Err(error) = y.extend(1, 100) {
            assert_eq!((y.size(), digest(&y)?), before, "sizes and elements are as before");
            return Err(error);
        }
        y.shrink_to(1)?;
        Ok(room? ^ digest(&y)?)
    };
    "release_memory, policy": |x| {
        let mut y = x.a.copy()?;
        y.set_resize_policy(rankform::ResizePolicy { keep_on_shrink: false, max_kept_bytes: 0 });
        y.resize([1, 1])?;
        assert!(!y.is_allocated());
        y.mutable_data()?;
        y.release_memory()?;
        Ok(y.numel() as u64)
    };
    "strides set": |x| {
        let mut y = x.cube.share_data();
        y.set_sizes_and_strides([2, 2, 2], [-1, 4, 1])?;
        y.restride(MemoryFormat::Contiguous)?;
        y.reshape_in_place([1, 8, 1])?;
        digest(&y)
    };
    "assign, fill": |x| { let mut y = x.a.copy()?; y.fill(2.0)?; y.assign(x.row.lift())?; digest(&y) };
    "in place": |x| {
        let mut y = x.a.copy()?;
        y.map_in_place(ops::Square)?;
        y.zip_in_place(ops::Sub, &x.b)?;
        y.view_mut()?.slice((.., 1))?.fill(0.0)?;
        y.data_mut()?[0] = 5.0;
        digest(&y)
    };
    "eval_into": |x| {
        let mut y = x.a.copy()?;
        (x.a.lazy() + &x.b).eval_into(&mut y.view_mut()?)?;
        digest(&y)
    };
    "writing to windows that do not meet": |x| {
        let mut y = x.cube.copy()?.into_slice((.., 0, ..))?.into_windows(Axis::<1>, 2, 2)?;
        y.fill(1.0)?;
        digest(&y)
    };
};

/// A reducer of one's own: the last element.
#[derive(Clone, Copy)]
struct Last;
impl Reducer<f32> for Last {
    const NAME: &'static str = "last";
    const NEEDS_ELEMENTS: bool = true;
    type Out = f32;
    type State<L: Lanes> = (Lane<L, f32>, Lane<L, i64>);
    fn identity<L: Lanes>() -> Self::State<L> {
        (Lane::literal(0.0), Lane::literal(-1))
    }
    fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, f32>, at: Lane<L, i64>) -> Self::State<L> {
        <Self as Reducer<f32>>::combine::<L>(state, (x, at))
    }
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        let later = b.1.gt(a.1);
        (later.select(b.0, a.0), later.select(b.1, a.1))
    }
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, f32> {
        state.0
    }
}

/// An operator with code of its own, for the CPU.
struct Reversed;
impl Operator<Cpu> for Reversed {
    type Inputs<'a> = TensorView<'a, f64, 1>;
    type Output = Tensor<f64, 1>;
    fn run_on(&self, _: &Cpu, x: TensorView<'_, f64, 1>) -> Result<Tensor<f64, 1>> {
        let mut values = x.to_vec()?;
        values.reverse();
        Tensor::from_vec(values, x.size())
    }
}

/// Fails each allocation of `work` in turn; how many there are, and how many the work could do without.
fn fail_each(
    name: &str,
    inputs: &Inputs,
    arm: fn(usize) -> Armed,
    work: fn(&Inputs) -> Result<u64>,
) -> [usize; 2] {
    // Otherwise the pool would keep the scratch of one operation for the next one.
    Cpu.set_memory_limit(0);
    let expected = work(inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    let state = inputs.state().unwrap();
    let mut spared = 0;
    for n in 0.. {
        let before = live_here();
        let armed = arm(n);
        let result = work(inputs);
        let refused = armed.refused();
        match &result {
            Ok(value) => assert_eq!(*value, expected, "{name}: another result without allocation {n}"),
            Err(Error::OutOfMemory { .. }) => {
                assert!(refused > 0, "{name}: out of memory, though nothing was refused")
            }
            Err(other) => panic!("{name}: {other:?} when allocation {n} fails"),
        }
        spared += usize::from(result.is_ok() && refused > 0);
        drop(result);
        assert_eq!(live_here(), before, "{name}: bytes are lost when allocation {n} fails");
        assert_eq!(inputs.state().unwrap(), state, "{name}: the inputs changed when allocation {n} failed");
        if refused == 0 {
            return [n, spared];
        }
    }
    unreachable!()
}

#[test]
fn every_failing_allocation_is_an_error_and_leaves_everything_as_it_was() -> Result<()> {
    let inputs = Inputs::new()?;
    let mut total = [0; 2];
    for &(name, work) in WORKS {
        let [sites, spared] = fail_each(name, &inputs, fail_once, work);
        assert_eq!(
            [sites, spared],
            fail_each(name, &inputs, fail_from, work),
            "{name}: each failure is seen"
        );
        println!("{sites:4} allocations, {spared} of them spared: {name}");
        total = [total[0] + sites, total[1] + spared];
    }
    println!(
        "{:4} allocations in {} operations, {} spared, each refused alone and with all after it",
        total[0],
        WORKS.len(),
        total[1]
    );
    Ok(())
}

#[test]
fn a_sequence_of_operations_fails_at_any_of_its_allocations() -> Result<()> {
    fn all(inputs: &Inputs) -> Result<u64> {
        WORKS.iter().try_fold(0_u64, |sum, (_, work)| Ok(sum.rotate_left(1) ^ work(inputs)?))
    }
    let inputs = Inputs::new()?;
    for arm in [fail_once, fail_from] {
        let [sites, spared] = fail_each("all", &inputs, arm, all);
        println!("{sites} allocations in sequence, {spared} spared");
    }
    Ok(())
}

/// `+` and its kin panic with the text of the error; nothing is lost, and the next one works.
#[test]
fn operators_without_memory_panic_with_the_text_of_the_error_and_lose_nothing() -> Result<()> {
    let inputs = Inputs::new()?;
    caught(|| ()).unwrap(); // sets the hook, which needs memory
    let works: &[fn(&Inputs) -> Tensor<f64, 2>] = &[
        |x| &x.a + &x.b,
        |x| &x.a * 2.0,
        |x| 1.0 - &x.a,
        |x| -&x.a,
        |x| x.a.copy().unwrap() + &x.b, // in its own memory
        |x| x.a.share_data() / &x.b,    // shared: in new memory
        |x| x.a.copy().unwrap().into_transposed().unwrap().into_transposed().unwrap() - x.row.lift(),
        |x| {
            let mut y = Tensor::from([[1.0, 2.0, 3.0]]);
            y += x.row.lift();
            y
        },
    ];
    for work in works {
        let expected = digest(&work(&inputs))?;
        let try_without = |n| {
            let before = live_here();
            let armed = fail_once(n);
            let result = caught(|| work(&inputs));
            let refused = armed.refused();
            match result {
                Ok(sum) => assert_eq!(digest(&sum).unwrap(), expected),
                Err(payload) => {
                    let text = payload.downcast_ref::<String>().expect("a panic with a text");
                    assert!(
                        text.contains("could not be allocated") || text.contains("OutOfMemory"),
                        "{text}"
                    );
                }
            }
            (refused, live_here() - before)
        };
        for n in 0.. {
            let (refused, lost) = try_without(n);
            assert_eq!(lost, 0, "bytes are lost when allocation {n} fails");
            if refused == 0 {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn views_handles_and_writing_in_place_ask_for_no_memory() -> Result<()> {
    // The first call of an interpreted program compiles it to bytecode.
    for is_armed in [cfg!(feature = "compiled"), true] {
        let x = Inputs::new()?;
        let (mut y, mut strided) =
            (x.a.copy()?, x.cube.copy()?.into_slice((.., 0, ..))?.into_windows(Axis::<1>, 2, 2)?);
        let cell = x.a.copy()?;
        let armed = is_armed.then(|| fail_from(0));
        let result = (|| {
            let _ = x.cube.slice((1, .., (..).step(-2)))?.permuted([1, 0])?.reversed(Axis::<0>);
            x.row.lift::<4>().broadcast_to([5, 2, 7, 3])?.reshape([10, 7, 3])?;
            let _ = x.cube.windows(Axis::<2>, 2, 1)?.diagonal(Axis::<0>, Axis::<1>)?.transposed();
            x.cube.as_strided([2, 2], [1, 1], 0)?.insert_axis(Axis::<0>).remove_axis(Axis::<0>)?;
            x.cube
                .split_at(Axis::<1>, 1)?
                .0
                .chunks(Axis::<2>, 3)?
                .flat_map(|chunk| chunk.axis_iter(Axis::<0>))
                .count();
            let shared = x.a.share_data().into_shape([6])?.detach(MetadataLock::Unlocked);
            assert_eq!((shared.use_count(), shared.get([3])), (2, Some(&3.25)));
            drop(shared);
            y.fill(1.0)?;
            y.assign(x.row.lift())?;
            y.map_in_place(ops::Square)?;
            y.zip_in_place(ops::Add, &x.b)?;
            y += &x.a;
            y *= 2.0;
            (x.a.lazy().exp() + &x.b).eval_into(&mut y.view_mut()?)?;
            let (mut low, high) = y.view_mut()?.split_at_mut(Axis::<0>, 1)?;
            low.assign(high.as_view())?;
            y.data_mut()?[0] = x.row.slice((1,))?.item()?;
            strided.fill(2.0)?; // whether windows meet is found out without memory too
            let y = y + &x.a; // in its own memory
            let cells = cell.into_cells()?;
            cells[[0, 0]].set(3.0);
            Tensor::from_cells(cells)?.into_transposed()?;
            TensorView::from_slice(&[1.0, 2.0], [2])?;
            Ok::<_, Error>(y[[0, 0]])
        })();
        assert_eq!((armed.map_or(0, |armed| armed.refused()), result.is_ok()), (0, true));
    }
    Ok(())
}

#[test]
fn an_error_is_made_without_memory() -> Result<()> {
    let x = Inputs::new()?;
    let mut turned = x.a.share_data().into_transposed()?;
    let mut overlapping = Tensor::from([[1.0]]).into_broadcast([2, 2])?;
    let bytes = [0_u64; 2];
    let misaligned = bytes.as_ptr().cast::<u8>().wrapping_add(1).cast::<f64>().cast_mut();
    for memory in [true, false] {
        let armed = (!memory).then(|| fail_from(0));
        refused!(x.a.zip(ops::Add, &turned), Error::Sizes { .. });
        refused!(x.a.matmul(&x.b), Error::Inner { .. });
        refused!(x.a.slice((.., 3)), Error::Slice { .. });
        refused!(x.a.slice((.., 2..5)), Error::Slice { .. });
        refused!(x.a.slice((.., (1..9).step(-2))), Error::Slice { .. });
        refused!(x.a.slice((.., ..=usize::MAX)), Error::Slice { .. });
        refused!(x.a.permuted([0, 0]), Error::Permutation { .. });
        refused!(x.a.reshape([4]), Error::Length { .. });
        refused!(x.a.transposed().reshape([6]), Error::NeedsCopy { .. });
        refused!(x.a.broadcast_to([3, 3]), Error::Sizes { .. });
        refused!(x.a.windows(Axis::<0>, 3, 1), Error::Slice { .. });
        refused!(x.a.as_strided([9], [1], 0), Error::Bounds { .. });
        refused!(x.a.reversed_axis(2), Error::Axis { .. });
        refused!(x.a.sum_axis(2), Error::Axis { .. });
        refused!(x.a.item(), Error::NotOne { .. });
        refused!(x.a.view().split_at(Axis::<0>, 3), Error::Slice { .. });
        refused!(x.a.chunks(Axis::<0>, 0), Error::Slice { .. });
        refused!(turned.view_mut(), Error::Shared { .. });
        refused!(turned.data_mut(), Error::Shared { .. });
        refused!(overlapping.view_mut(), Error::Overlap { .. });
        refused!(x.a.detach(MetadataLock::Frozen).into_transposed(), Error::MetadataFrozen { .. });
        refused!(Tensor::<f64, 2>::zeros([1 << 40, 1 << 40], &Cpu), Error::Overflow { .. });
        refused!(Tensor::from_slice(&[1.0], [2], &Cpu), Error::Length { .. });
        refused!(Tensor::arange(0, 1, 0, &Cpu), Error::Value { .. });
        refused!(Tensor::linspace(0.0, f64::NAN, 3, &Cpu), Error::Value { .. });
        // SAFETY: the address is refused, and no code reads it.
        refused!(unsafe { Tensor::from_external(misaligned, [1], &Cpu, |_, _| ()) }, Error::Value { .. });
        drop(armed);
    }
    let armed = fail_from(0);
    let error = x.a.permuted([0, 0]).err().unwrap();
    drop(armed);
    assert_eq!(error.to_string(), "permuted: […] is not a permutation of the axes");
    Ok(())
}

// ---------------------------------------------------------------- the first call of a program

elementwise! {
    fn first_called(x, t) { (x * t).exp() + x.tanh() - x.max(t) }
    fn first_called_twice(x) -> (T, T) { (x.sin(), x.abs().ln() + 1.0) }
}

/// Programs that no other test has.
const FIRST_CALLS: &[Work] = works! {
    "apply": |x| digest(&apply(first_called, (x.a.view(), 0.5))?);
    "apply_many": |x| {
        let (p, q) = apply_many(first_called_twice, (x.b.view(),))?;
        Ok(digest(&p)? ^ digest(&q)?)
    };
    "fused": |x| digest(&((x.a.lazy() * 0.125 + &x.b).square() - x.row.lift()).eval()?);
    "sum, fused": |x| digest(&(x.a.lazy() * 0.125 - &x.b).sum(Axis::<1>)?);
    "sum of columns, fused": |x| digest(&(x.cube.lazy() * 0.125 - 1.0).sum(Axis::<0>)?);
    "argmax, fused": |x| digest(&(x.a.lazy() * 0.125 - 3.0).argmax(Axis::<1>)?);
    "by rows": |x| {
        let exp = (x.a.lazy() * 0.125 - x.a.max_along(Axis::<1>)).exp();
        digest(&(exp / exp.sum_along(Axis::<1>)).eval()?)
    };
    "by rows, held": |x| {
        let held = (x.a.lazy() * 0.125 - x.a.sum_along(Axis::<1>)).cached();
        digest(&(held + held.square().sum_along(Axis::<1>)).eval()?)
    };
    "cumsum, fused": |x| digest(&(x.a.lazy() * 0.125 - &x.b).cumsum(Axis::<1>)?);
    "cumsum of columns, fused": |x| digest(&(x.cube.lazy() * 0.125 - 2.0).cumsum(Axis::<0>)?);
};

/// A call without memory is an error, and leaves nothing half made: the next one with memory works. While
/// calls fail, each is the first that comes as far.
#[test]
fn the_first_call_of_a_program_fails_at_any_of_its_allocations() -> Result<()> {
    let inputs = Inputs::new()?;
    let state = inputs.state()?;
    for &(name, work) in FIRST_CALLS {
        let mut failed = 0;
        let found = loop {
            let armed = fail_once(failed);
            let result = work(&inputs);
            let refused = armed.refused();
            match result {
                Ok(found) if refused == 0 => break found,
                Ok(_) => {}
                Err(Error::OutOfMemory { nbytes, .. }) => {
                    assert!(refused > 0 && nbytes > 0, "{name}: {nbytes}")
                }
                Err(other) => panic!("{name}: {other:?} when allocation {failed} fails"),
            }
            failed += 1;
        };
        assert_eq!(work(&inputs)?, found, "{name}");
        assert_eq!(inputs.state()?, state, "{name}: the inputs changed");
        assert!(failed > 0, "{name}");
        println!("{failed:4} failures: {name}");
    }
    Ok(())
}

// ---------------------------------------------------------------- the first operation of a process

const COLD: &str = "RANKFORM_TEST_COLD";

/// In the dev profile the first operation fills the table of compiled kernels. That wants memory, and works
/// without.
#[test]
fn the_first_operation_of_a_process_may_fail_at_any_allocation() {
    if cfg!(miri) {
        return;
    }
    for n in 0.. {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child
            .args(["--exact", "memory::cold_start", "--ignored", "--nocapture"])
            .env(COLD, n.to_string());
        let output = child.output().unwrap();
        let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "with allocation {n} and all after it refused: {text}{errors}");
        if text.contains("refused nothing") {
            return println!("{n} allocations");
        }
        assert!(text.contains("refused something"), "{text}{errors}");
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn cold_start() {
    let Ok(n) = std::env::var(COLD) else { return };
    let a = Tensor::from_slice(&[1.0, 2.0], [2], &Cpu).unwrap();
    let armed = fail_from(n.parse().unwrap());
    let sum = Arithmetic::add(&a, &a);
    let refused = armed.refused();
    match sum {
        Ok(sum) => assert_eq!(sum.to_vec().unwrap(), [2.0, 4.0]),
        Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
    }
    assert_eq!(Arithmetic::mul(&a, &a).unwrap().to_vec().unwrap(), [1.0, 4.0]);
    println!("refused {}", if refused == 0 { "nothing" } else { "something" });
}

// ---------------------------------------------------------------- too large

#[test]
fn requests_that_nothing_can_serve_are_errors() {
    const MAX: usize = isize::MAX as usize;
    for bytes in [MAX - 63, MAX - 4095, 1 << 62, 1 << 47, 1 << 46, LIMIT + 8] {
        refused!(Tensor::<u8, 1>::zeros([bytes], &Cpu), Error::OutOfMemory { .. });
        refused!(Tensor::<f64, 2>::zeros([1, bytes / 8], &Cpu), Error::OutOfMemory { .. });
        refused!(Tensor::full([bytes], 1_u8, &Cpu), Error::OutOfMemory { .. });
        refused!(Tensor::from_fn([bytes], |_| 1_u8, &Cpu), Error::OutOfMemory { .. });
        refused!(Tensor::collect_fn([bytes], |_| 1_u8), Error::OutOfMemory { .. });
        refused!(Allocation::new(&Cpu, bytes), Error::OutOfMemory { .. });
        let one = Tensor::from([1_u8]);
        let wide = one.broadcast_to([bytes]).unwrap();
        refused!(wide.copy(), Error::OutOfMemory { .. });
        refused!(wide.to_vec(), Error::OutOfMemory { .. });
        refused!(wide.to_contiguous(), Error::OutOfMemory { .. });
        refused!(wide.to(&Cpu), Error::OutOfMemory { .. });
        refused!(Arithmetic::add(wide, 1), Error::OutOfMemory { .. });
        refused!(wide.lazy().square().eval(), Error::OutOfMemory { .. });
        refused!(one.share_data().into_broadcast([bytes]).unwrap().into_vec(), Error::OutOfMemory { .. });
        refused!(one.share_data().into_broadcast([bytes]).unwrap().make_unique(), Error::OutOfMemory { .. });
    }
    for bytes in [MAX, MAX - 62] {
        refused!(Allocation::new(&Cpu, bytes), Error::OutOfMemory { .. });
        refused!(Tensor::<u8, 1>::zeros([bytes], &Cpu), Error::OutOfMemory { .. });
    }
    refused!(Tensor::<f32, 1>::zeros([MAX / 4 + 1], &Cpu), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::eye(1 << 40, &Cpu), Error::Overflow { .. });
    refused!(Tensor::<f32, 2>::eye(1 << 20, &Cpu), Error::OutOfMemory { .. });
    refused!(Tensor::arange(0, i64::MAX, 1, &Cpu), Error::Overflow { .. });
    refused!(Tensor::linspace(0.0_f32, 1.0, MAX / 4, &Cpu), Error::OutOfMemory { .. });
    assert!(Tensor::<f64, 1, Meta>::zeros([MAX / 8], &Meta::new()).is_ok());
}

/// Counter and elements share one block of the heap, unless the pool keeps them.
#[test]
fn a_small_tensor_is_one_block_of_the_heap() -> Result<()> {
    type Work = fn(&Tensor<f32, 2>) -> Result<Tensor<f32, 2>>;
    let works: [(&str, Work); 7] = [
        ("zeros", |x| Tensor::zeros(x.size(), &Cpu)),
        ("full", |x| Tensor::full(x.size(), 2.0, &Cpu)),
        ("copy", |x| x.copy()),
        ("add", |x| x.add(1.0)),
        ("lazy", |x| (x.lazy().exp() * x).eval()),
        ("transposed", |x| x.add(x.transposed())),
        ("sum", |x| x.sum(Axis::<1>)?.into_shape([x.size()[0], 1])),
    ];
    for n in [1, 4, 16, 17, 50] {
        let x = Tensor::<f32, 2>::ones([n, n], &Cpu)?;
        for (name, work) in works {
            work(&x)?; // what is made once and stays
            let armed = fail_from(1);
            let y = work(&x);
            drop(armed);
            let y = y.map_err(|error| panic!("{name}, {n}: a second block: {error}"))?;
            assert_eq!(y.raw_ptr() as usize % if y.nbytes() < 1024 { 16 } else { 64 }, 0, "{name}, {n}");
        }
        if n <= 16 {
            let armed = fail_from(1);
            let product = x.matmul(&x);
            drop(armed);
            assert_eq!(product?[[n - 1, 0]], n as f32);
        }
    }
    Ok(())
}
