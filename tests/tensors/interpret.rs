//! Interpreted programs, as in builds with debug assertions and by name, have the bits of compiled loops.

use num_complex::Complex;
use rankform::device::{Inputs, Interpreted, OperandRef};
use rankform::kernel::{Call, Input, Op, Program, Store};
use rankform::ops::{
    ArgMax, ArgMin, Count, CumSum, LogSumExp, Max, Mean, MeanVar, Min, Prod, SampleStd, SampleVar, Std, Sum,
    Var, Visit, each_operator,
};
use rankform::prelude::*;
use rankform::scalar::Eval;
use rankform::testing::Differential;
use rankform::{F8E4M3, F8E5M2, QInt8, bf16, f16};
use std::marker::PhantomData;

/// Values of every kind: small, large, special, and any bits.
fn values<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 16
    };
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e30,
        -1e-30,
        88.0,
        1e5,
        127.5,
        -128.5,
        3e9,
        2.5,
    ];
    let mut one = |k: usize| {
        let word = next();
        let number = match k % 4 {
            0 => special[word as usize % special.len()],
            1 => (word % 2000) as f64 / 100.0 - 10.0,
            2 => (word % 40) as f64 - 20.0,
            _ => f64::from_bits(word << 17 | next()),
        };
        // Blocks within the fast path, and blocks with a value outside it.
        let number = if (k / 600).is_multiple_of(2) { (word % 2000) as f64 / 1000.0 - 1.0 } else { number };
        T::narrow(rankform::scalar::Prim::cast(number))
    };
    (0..n).map(&mut one).collect()
}

fn bits<T: Element>(values: &[T]) -> Vec<u8> {
    // All NaNs are one.
    #[allow(clippy::eq_op)]
    let of = |x: &T| if x == x { bytemuck::bytes_of(x).to_vec() } else { vec![0xff; size_of::<T>()] };
    values.iter().flat_map(of).collect()
}

/// Runs a program of contiguous operands.
fn interpreted<P: Program, T: Element, O: Element>(program: &P, inputs: &[&[T]]) -> Vec<O> {
    let n = inputs[0].len();
    let mut out = vec![O::default(); n];
    let slot = |address: *mut u8, element: usize| OperandRef { address, stride: &[1], element };
    let slots: Vec<OperandRef<'_>> =
        inputs.iter().map(|x| slot(x.as_ptr().cast_mut().cast(), size_of::<T>())).collect();
    let reads: Vec<u8> = (0..inputs.len() as u8).collect();
    let outputs = [slot(out.as_mut_ptr().cast(), size_of::<O>())];
    // SAFETY: `n` elements of every operand, and room for as many.
    unsafe { Interpreted.map(program, &[n], 0, &outputs, Inputs { slots: &slots, reads: &reads }).unwrap() };
    out
}

struct Every(usize);

impl Visit for Every {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, _: F) {
        self.0 += 1;
        for n in [1, 31, 64, 2437] {
            let x = values::<T>(n, self.0 as u64);
            let program = Store(Call::<F, _>::new((Input::<T>(PhantomData),)));
            let wanted: Vec<F::Out> = x
                .iter()
                .map(|x| F::Out::narrow(F::call::<Eval>((Lane::from_raw(x.widen()),)).value()))
                .collect();
            assert_eq!(
                bits(&interpreted::<_, T, F::Out>(&program, &[&x])),
                bits(&wanted),
                "{} of {n} {}",
                F::NAME,
                T::DTYPE
            );
        }
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, _: F) {
        self.0 += 1;
        for n in [1, 31, 64, 2437] {
            let (x, y) = (values::<T>(n, self.0 as u64), values::<T>(n, 77 + self.0 as u64));
            let program = Store(Call::<F, _>::new((Input::<T>(PhantomData), Input::<T>(PhantomData))));
            let lane = |x: &T| Lane::from_raw(x.widen());
            let wanted: Vec<F::Out> = x
                .iter()
                .zip(&y)
                .map(|(x, y)| F::Out::narrow(F::call::<Eval>((lane(x), lane(y))).value()))
                .collect();
            assert_eq!(
                bits(&interpreted::<_, T, F::Out>(&program, &[&x, &y])),
                bits(&wanted),
                "{} of {n} {}",
                F::NAME,
                T::DTYPE
            );
        }
    }
}

#[test]
fn every_operator_has_the_same_bits() {
    let mut every = Every(0);
    each_operator(&mut every);
    assert!(every.0 > 500, "{}", every.0);
}

/// The same expression on both devices.
macro_rules! same {
    ($what:expr; $($x:ident),*; $result:expr) => {{
        let wanted = $result.unwrap();
        let found = {
            $(let $x = $x.to(&Interpreted).unwrap();)*
            $result.unwrap()
        };
        assert_eq!(bits(&found.to_vec().unwrap()), bits(&wanted.to_vec().unwrap()), "{}", $what);
    }};
}

fn tensor<T: Element, const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<T, RANK> {
    Tensor::from_vec(values(size.iter().product(), seed), size).unwrap()
}

/// Casts between every two elements.
#[test]
fn casts_have_the_same_bits() {
    macro_rules! each {
        ($($from:ty),*) => { $(each!(@one $from);)* };
        (@one $from:ty) => {{
            let x = tensor::<$from, 1>([2437], 5);
            each!(
                @to x,
                $from: bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f16> Complex<f32>
                Complex<f64>
            );
        }};
        (@to $x:ident, $from:ty: $($to:ty)*) => { $(
            same!(format!("{} to {}", stringify!($from), stringify!($to)); $x; $x.cast::<$to>());
        )* };
    }
    each!(
        bool,
        i8,
        i16,
        i32,
        i64,
        u8,
        u16,
        u32,
        u64,
        f16,
        bf16,
        f32,
        f64,
        Complex<f16>,
        Complex<f32>,
        Complex<f64>
    );
    let x = tensor::<f32, 1>([999], 6);
    same!("f8"; x; x.cast::<F8E4M3>().unwrap().cast::<f32>());
    same!("f8"; x; x.cast::<F8E5M2>().unwrap().cast::<f32>());
    let x = tensor::<QInt8, 1>([999], 6);
    same!("q8"; x; x.cast::<i32>());
}

#[test]
fn reductions_of_every_kind_have_the_same_bits() {
    macro_rules! each {
        ($differences:ident: $($t:ty: $($R:expr),*;)*) => {
            $($($differences.reduce::<_, $t>($R, 0).unwrap();)*)*
        };
    }
    let mut differences = Differential::new(&Interpreted, 11);
    each! {
        differences:
        f32: Sum, Prod, Max, Min, Mean, ArgMax, ArgMin, Var, SampleVar, Std, SampleStd, MeanVar, LogSumExp;
        f64: Sum, Max, ArgMin, Var, LogSumExp;
        f16: Sum, ArgMax, Mean;
        i32: Sum, Prod, Max, Min, ArgMax;
        u8: Sum, Max, ArgMin;
        i64: Sum, Min;
        Complex<f32>: Sum, Prod;
        bool: rankform::ops::Any, rankform::ops::AllTrue, Count;
    }
    let mut differences = Differential::new(&Interpreted, 12).large();
    each! {
        differences:
        f32: Sum, Max, ArgMax, Var, LogSumExp;
        f64: Sum;
        i8: Sum;
    }
}

#[test]
fn lengths_around_those_of_leaves_and_steps() {
    for n in [
        0, 1, 2, 15, 16, 31, 32, 33, 63, 64, 65, 127, 129, 200, 255, 256, 257, 1023, 1025, 4095, 4096, 4097,
        4160, 9000,
    ] {
        let (x, y) = (tensor::<f32, 2>([3, n], 1), tensor::<f64, 2>([3, n], 2));
        same!(n; x; x.sum(Axis::<1>));
        same!(n; x; x.view().permuted([1, 0]).unwrap().sum(Axis::<0>));
        same!(n; x; x.sum(Axis::<0>));
        same!(n; y; y.sum(Axis::<1>));
        same!(n; x; x.var(Axis::<1>));
        same!(n; x; (x.lazy() * 2.0 + 1.0).sum(Axis::<1>));
        same!(n; x; (x.lazy() * 2.0).var(Axis::<1>));
        same!(n; x; x.sum(All));
        same!(n; x; x.cumsum(Axis::<1>));
        same!(n; x; x.cumsum(Axis::<0>));
        same!(n; x; x.view().permuted([1, 0]).unwrap().cumsum(Axis::<0>));
        if n > 0 {
            same!(n; x; x.argmax(Axis::<1>));
            same!(n; x; x.argmax(Axis::<0>));
            same!(n; x; x.softmax(Axis::<1>));
            same!(n; x; x.softmax(Axis::<0>));
            same!(
                n; x;
                ((x.lazy() - x.lazy().mean_along(Axis::<1>)) / (x.lazy().var_along(Axis::<1>) + 1e-5).sqrt())
                    .eval()
            );
        }
    }
    // More leaves than are taken side by side; more than one thread takes.
    for n in [40_000, 140_000] {
        let x = tensor::<f32, 2>([1, n], 4);
        same!(n; x; x.sum(Axis::<1>));
        same!(n; x; x.view().permuted([1, 0]).unwrap().sum(Axis::<0>));
        same!(n; x; x.var(Axis::<1>));
        same!(n; x; (x.lazy() * 2.0).var(Axis::<1>));
        same!(n; x; x.softmax(Axis::<1>));
        same!(n; x; x.cumsum(Axis::<1>));
        same!(n; x; x.argmax(Axis::<1>));
    }
    let y = tensor::<f64, 2>([2, 140_000], 5);
    same!("turned"; y; y.view().permuted([1, 0]).unwrap().sum(Axis::<0>));
    same!("every other"; y; y.view().slice((.., (..).step(2))).unwrap().sum(Axis::<1>));
    let x = tensor::<f32, 2>([70, 3000], 3);
    same!("many rows"; x; x.cumsum(Axis::<1>));
    same!("many rows"; x; x.cumsum(Axis::<0>));
    same!("many rows"; x; x.softmax(Axis::<1>));
    same!("many rows"; x; x.logsumexp(Axis::<1>));
}

#[test]
fn scans_have_the_same_bits() {
    let mut differences = Differential::new(&Interpreted, 13);
    differences.scan::<_, f32>(CumSum, 0).unwrap();
    differences.scan::<_, f64>(CumSum, 0).unwrap();
    differences.scan::<_, i32>(CumSum, 0).unwrap();
    differences.scan::<_, f32>(Max, 0).unwrap();
    differences.scan::<_, f32>(Var, 0).unwrap();
    differences.scan::<_, f32>(LogSumExp, 0).unwrap();
    differences.scan::<_, i8>(ArgMax, 0).unwrap();
}

elementwise! {
    /// An operator of three operands.
    fn mixed(x, y, z) { (x * y + z.sin()).max(0.0) / (x.abs() + 1.0) }
    /// Of two outputs.
    fn turned(x, y) -> (T, T) { (x * 0.6 - y * 0.8, x * 0.8 + y * 0.6) }
    /// Of two outputs that are its operands.
    fn swapped(x, y) -> (T, T) { (y, x) }
}

#[test]
fn layouts_numbers_and_fused_expressions() {
    let (x, y) = (tensor::<f32, 3>([7, 33, 40], 1), tensor::<f32, 3>([40, 33, 7], 2));
    let r = tensor::<f32, 1>([40], 3);
    same!("permuted"; x, y; x.add(y.permuted([2, 1, 0]).unwrap()));
    same!("row"; x, r; x.mul(r.lift()));
    same!("number"; x; x.powf(0.5));
    same!("column"; x, y; x.sub(y.sum(Axis::<0>).unwrap().permuted([1, 0]).unwrap().insert_axis(Axis::<2>)));
    same!("fused"; x, r; ((x.lazy() * 2.5 + 1.0) / (x.lazy().abs() + r.lift().lazy())).exp().tanh().eval());
    same!("three"; x, r; apply(mixed, (&x, &x, r.lift())));
    same!("numbers"; x; apply(mixed, (&x, 0.5, 3.0)));
    same!("halves"; x; x.cast::<f16>().unwrap().mul(f16::from_f32(0.1)).unwrap().cast::<f32>());
    let many = |x: &Tensor<f32, 3>| apply_many(turned, (x, x)).unwrap();
    let (a, b) = many(&x);
    let xi = x.to(&Interpreted).unwrap();
    let (c, d) = apply_many(turned, (&xi, &xi)).unwrap();
    assert_eq!(bits(&a.to_vec().unwrap()), bits(&c.to_vec().unwrap()));
    assert_eq!(bits(&b.to_vec().unwrap()), bits(&d.to_vec().unwrap()));
}

/// A reducer that takes many values at once takes those of its own operand, at any place of the program.
#[test]
fn reductions_along_rows_of_other_operands_than_the_first() {
    let (x, y) = (tensor::<f32, 2>([20, 70], 4), tensor::<f32, 2>([20, 70], 5));
    same!("var"; x, y; (x.lazy() - y.var_along(Axis::<1>)).eval());
    same!("logsumexp"; x, y; (x.lazy() * y.logsumexp_along(Axis::<0>)).eval());
    same!(
        "both"; x, y; (x.lazy() / x.std_along(Axis::<1>) - y.lazy() / y.std_along(Axis::<1>)).sum(Axis::<1>)
    );
    same!("where"; x, y; (x.lazy().cast::<i64>() + y.argmax_along(All)).eval());
    same!("cosine"; x, y; x.cosine_similarity(&y, Axis::<1>, 1e-6));
    let (x, y) = (Tensor::from([[3.0, 4.0]]), Tensor::from([[4.0, 3.0]]));
    let cosine =
        x.to(&Interpreted).unwrap().cosine_similarity(&y.to(&Interpreted).unwrap(), Axis::<1>, 1e-8).unwrap();
    assert_eq!(cosine.to_vec().unwrap(), [0.96]);
}

#[test]
fn programs_in_place() {
    macro_rules! both {
        ($($x:ident = $value:expr, $other:ident => $change:expr;)*) => { $({
            let (mut $x, $other) = ($value, tensor::<f32, 1>([1300], 9));
            $change;
            let wanted = bits(&$x.to_vec().unwrap());
            let (mut $x, $other) = ($value.to(&Interpreted).unwrap(), $other.to(&Interpreted).unwrap());
            $change;
            assert_eq!(bits(&$x.to_vec().unwrap()), wanted, "{}", stringify!($change));
        })* };
    }
    both! {
        x = tensor::<f32, 1>([1300], 1), y => { x += &y; let _ = &y; };
        x = tensor::<f32, 1>([1300], 1), y => { x *= 2.0; let _ = &y; };
        x = tensor::<f32, 1>([1300], 1), y => apply_in_place(
            turned, (&mut x, &mut y.copy().unwrap()), ()
        ).unwrap();
        x = tensor::<f32, 1>([1300], 1), y => {
            let mut z = y.copy().unwrap();
            apply_in_place(swapped, (&mut x, &mut z), ()).unwrap();
            x -= &z;
        };
        x = tensor::<f32, 2>([26, 50], 1), y => { x /= y.view().reshape([26, 50]).unwrap(); };
        x = tensor::<f32, 1>([1300], 1), y => { x.map_in_place(rankform::ops::Sin).unwrap(); let _ = &y; };
    }
}

#[test]
fn memory_shared_by_threads_is_not_written() {
    let (x, y) = (tensor::<f32, 1>([1 << 19], 1), tensor::<f32, 1>([1 << 19], 2));
    same!("large"; x, y; x.mul(&y).unwrap().exp());
    same!("large"; x; x.sum(All));
    same!("large"; x; x.reshape([512, 1024]).unwrap().sum(Axis::<0>));
    same!("large"; x; x.reshape([512, 1024]).unwrap().softmax(Axis::<1>));
}

#[test]
fn reducers_with_many_truths_in_an_odd_number_of_rows() {
    // Registers of truths in odd numbers of chunks: more room was taken for them than was counted.
    for planes in 1..10 {
        let x = tensor::<f32, 4>([1, planes, 5, 5], 7);
        let pool = Pool::new([5, 5]).padding([2, 2]).ceil(true);
        let (values, indices) = x.max_pool2d_with_indices(pool).unwrap();
        let (values, indices) = (bits(&values.to_vec().unwrap()), indices.to_vec().unwrap());
        let found = x.to(&Interpreted).unwrap().max_pool2d_with_indices(pool).unwrap();
        assert_eq!(
            (bits(&found.0.to_vec().unwrap()), found.1.to_vec().unwrap()),
            (values, indices),
            "{planes}"
        );
    }
}
