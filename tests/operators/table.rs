//! The crate's table of elementwise operators, row by row: a new operator is tested without a new test.
//!
//! Each operator, on each element it takes: on every pair of layouts the tensor's elements are those of its
//! body, run on one element at a time (bit for bit); the body's values are those of `truth.rs`; without data
//! the sizes are the same.

use crate::arrange::{SIZE, arranged, read, rows_past_caches};
use crate::truth::{BoolElement, truth};
use crate::value::{Exact, Value, differ};
use num_complex::Complex;
use rankform::kernel::Op;
use rankform::ops::{Visit, built_in, each_operator};
use rankform::prelude::*;
use rankform::scalar::{DType, Eval, Lane};
use rankform::{bf16, f16};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

/// Samples in pairs, every one with many others; the length is prime.
const PAIRS: usize = 601;

/// One operator on one element type: the small part that is generic over the operator. The tests are below.
struct Row<T, U> {
    name: &'static str,
    operands: usize,
    scalar: fn(T, T) -> U,
    cpu: Box<dyn Fn(TensorView<T, 3>, TensorView<T, 3>) -> Result<Tensor<U, 3>> + Send + Sync>,
    /// With a scalar operand, and without data: for [chosen](is_chosen) elements.
    param: Option<Box<Beside<T, U>>>,
    meta: Option<Box<NoData<T, U>>>,
}

type Beside<T, U> = dyn Fn(TensorView<T, 3>, T) -> Result<Tensor<U, 3>> + Send + Sync;
type NoData<T, U> =
    dyn Fn(TensorView<T, 3, Meta>, TensorView<T, 3, Meta>) -> Result<Tensor<U, 3, Meta>> + Send + Sync;

/// Whether operators on this element are compiled with scalar operands and without data too, as programs of
/// their own: one element of a kind and width of computing. `.ci/nightly` has every element.
const fn is_chosen(dtype: DType) -> bool {
    cfg!(rankform_every_element)
        || matches!(dtype, DType::Bool | DType::I32 | DType::F16 | DType::F32 | DType::C32)
}

/// Its tests.
trait Case: Send + Sync {
    fn name(&self) -> &'static str;
    fn dtype(&self) -> DType;
    fn layouts(&self);
    /// Around the widths of vectors, rows and blocks; `many` blocks, or few.
    fn blocks(&self, many: bool);
    fn refusals(&self);
    fn sizes_without_data(&self);
    /// Compares the body with `truth.rs`: how many values had an entry there, and the first that is wrong.
    fn values(&self) -> (usize, Option<String>);
    /// On f64, the body's value as bits.
    fn at(&self, x: f64, y: f64) -> Option<u64>;
}

impl<T: Value, U: Value> Row<T, U> {
    fn pairs(&self) -> Vec<(T, T)> {
        let samples = T::samples();
        let n = samples.len();
        (0..PAIRS).map(|k| (samples[k % n], samples[(k / n * 3 + k * 5) % n])).collect()
    }
    /// The operator on every operand of a kind of layout, and the expected elements.
    fn compare(&self, size: [usize; 3], x: &Tensor<T, 3>, y: &Tensor<T, 3>, kinds: [&str; 2]) {
        let found = (self.cpu)(x.view(), y.view()).unwrap();
        let expected: Vec<U> =
            read(x, size).into_iter().zip(read(y, size)).map(|(x, y)| (self.scalar)(x, y)).collect();
        assert_eq!(found.size(), size, "{} {} {kinds:?}", self.name, T::DTYPE);
        if let Some(at) = differ(&found.to_vec().unwrap(), &expected) {
            let (x, y) = (read(x, size)[at], read(y, size)[at]);
            panic!(
                "{} {} {kinds:?}: number {at}, of ({x}, {y}), is {}, not {}",
                self.name,
                T::DTYPE,
                found.to_vec().unwrap()[at],
                expected[at]
            );
        }
    }
}

impl<T: Value, U: Value> Case for Row<T, U> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn layouts(&self) {
        let pairs = self.pairs();
        let mut k = 0;
        let mut next = |second: bool| {
            k = (k + 1) % PAIRS;
            if second { pairs[k].1 } else { pairs[k].0 }
        };
        let left = arranged(SIZE, || next(false));
        if self.operands == 1 {
            return left.iter().for_each(|x| {
                let size = x.tensor.size().0;
                self.compare(size, &x.tensor, &x.tensor, [x.kind, ""]);
            });
        }
        let right = arranged(SIZE, || next(true));
        for (i, x) in left.iter().enumerate() {
            // Every pair of kinds would be 121; these are all kinds on both sides, and the neighbors of each.
            for y in right.iter().cycle().skip(i).take(3) {
                let size = std::array::from_fn(|axis| x.tensor.size()[axis].max(y.tensor.size()[axis]));
                self.compare(size, &x.tensor, &y.tensor, [x.kind, y.kind]);
            }
            let Some(beside) = &self.param else { continue };
            let number = pairs[i].1;
            let found = beside(x.tensor.view(), number).unwrap().to_vec().unwrap();
            let expected: Vec<U> =
                x.tensor.to_vec().unwrap().into_iter().map(|x| (self.scalar)(x, number)).collect();
            assert_eq!(
                differ(&found, &expected),
                None,
                "{} {} {} beside the number {number}",
                self.name,
                T::DTYPE,
                x.kind
            );
        }
        for x in arranged([5, 0, 7], || T::default()) {
            let y = (self.cpu)(x.tensor.view(), x.tensor.view()).unwrap();
            assert_eq!(
                (y.size(), y.to_vec().unwrap()),
                (dim![5, 0, 7], vec![]),
                "{} {}",
                self.name,
                T::DTYPE
            );
        }
    }

    fn blocks(&self, many: bool) {
        let pairs = self.pairs();
        let expected: Vec<U> = pairs.iter().map(|&(x, y)| (self.scalar)(x, y)).collect();
        for n in [
            1,
            2,
            3,
            7,
            8,
            9,
            15,
            17,
            31,
            32,
            33,
            63,
            65,
            127,
            255,
            256,
            257,
            if many { 40_003 } else { 4_099 },
        ] {
            let common = [DType::F32, DType::I32].contains(&T::DTYPE);
            if n > 1000 && !common {
                continue;
            }
            let make = |second: bool| {
                let pick =
                    |[_, i, _]: [usize; 3]| if second { pairs[i % PAIRS].1 } else { pairs[i % PAIRS].0 };
                Tensor::from_fn([1, n, 1], pick, &Cpu).unwrap()
            };
            let (x, y) = (make(false), make(true));
            for (kind, x, y) in [
                ("forwards", x.view(), y.view()),
                ("backwards", x.reversed(Axis::<1>), y.reversed(Axis::<1>)),
            ] {
                let found = (self.cpu)(x, y).unwrap().to_vec().unwrap();
                let at = |k: usize| if kind == "forwards" { k } else { n - 1 - k };
                let wrong = (0..n).find(|&k| !found[k].same(expected[at(k) % PAIRS]));
                assert_eq!(wrong, None, "{} {} {kind}, {n} elements", self.name, T::DTYPE);
            }
        }
    }

    fn refusals(&self) {
        let (x, y) = (
            Tensor::<T, 3>::zeros([2, 3, 4], &Cpu).unwrap(),
            Tensor::<T, 3>::zeros([2, 2, 4], &Cpu).unwrap(),
        );
        let waiting = Tensor::<T, 3>::empty([2, 3, 4], &Cpu).unwrap();
        assert!(
            matches!(
                (self.cpu)(waiting.view(), waiting.view()),
                Err(Error::Unallocated { op, .. }) if op == self.name
            ),
            "{}",
            self.name
        );
        if self.operands == 2 {
            let error = (self.cpu)(x.view(), y.view()).unwrap_err().to_string();
            assert_eq!(error, format!("{}: sizes [2, 3, 4] and [2, 2, 4] do not broadcast", self.name));
        }
    }

    fn sizes_without_data(&self) {
        let Some(meta) = &self.meta else { return };
        let device = Meta::tracing();
        let x = Tensor::<T, 3, Meta>::zeros([4, 1, 3], &device).unwrap();
        let y = Tensor::<T, 3, Meta>::zeros([1, 5, 3], &device).unwrap().into_reversed(Axis::<1>).unwrap();
        let z = meta(x.view(), if self.operands == 2 { y.view() } else { x.view() }).unwrap();
        assert_eq!(z.size(), if self.operands == 2 { [4, 5, 3] } else { [4, 1, 3] }, "{}", self.name);
        assert!(matches!(z.to_vec(), Err(Error::NoData { .. })), "{}", self.name);
        let kernels = device.kernels();
        assert!(kernels.last().unwrap().contains("output 0"), "{}: {kernels:?}", self.name);
        // Dense operands of full size give the result their order of axes, here as there.
        let x = Tensor::<T, 3, Meta>::zeros([4, 2, 3], &device).unwrap().into_transposed().unwrap();
        let here = Tensor::<T, 3>::zeros([4, 2, 3], &Cpu).unwrap().into_transposed().unwrap();
        let strides = (
            meta(x.view(), x.view()).unwrap().stride(),
            (self.cpu)(here.view(), here.view()).unwrap().stride(),
        );
        assert_eq!(strides, (Stride([1, 3, 6]), Stride([1, 3, 6])), "{}", self.name);
    }

    fn values(&self) -> (usize, Option<String>) {
        let (mut known, mut wrong) = (0, None);
        for (x, y) in self.pairs() {
            let Some(BoolElement { exact: expected, ulp }) = truth(self.name, x, y) else { continue };
            known += 1;
            let found = (self.scalar)(x, y);
            let fine = match expected {
                Exact::Real(truth) => found.ulp(truth) <= ulp,
                Exact::Complex(re, im) => {
                    let Exact::Complex(a, b) = found.exact() else { panic!("{}", self.name) };
                    (a - re).hypot(b - im) <= ulp * 2f64.powi(-T::FRACTION) * re.hypot(im).max(1e-30)
                }
                exact => found.exact() == exact,
            };
            if !fine && wrong.is_none() {
                wrong = Some(format!(
                    "{} {} of ({x:?}, {y:?}) is {found:?}, not {expected:?} within {ulp}",
                    self.name,
                    T::DTYPE
                ));
            }
        }
        (known, wrong)
    }

    fn at(&self, x: f64, y: f64) -> Option<u64> {
        let scalar = (&self.scalar as &dyn Any).downcast_ref::<fn(f64, f64) -> f64>()?;
        Some(scalar(x, y).to_bits())
    }
}

fn call1<F: Op<(T,)>, T: Element>(x: T, _: T) -> F::Out {
    F::Out::narrow(F::call::<Eval>((Lane::from_raw(x.widen()),)).value())
}
fn call2<F: Op<(T, T)>, T: Element>(x: T, y: T) -> F::Out {
    F::Out::narrow(F::call::<Eval>((Lane::from_raw(x.widen()), Lane::from_raw(y.widen()))).value())
}

/// Every operator on every element.
#[derive(Default)]
struct Cases(Vec<Box<dyn Case>>);

impl Cases {
    /// Keeps a row: its two element types, which are `Element`s in general and `Value`s in fact, are named
    /// here.
    fn keep<T: Element, U: Element>(&mut self, row: Row<T, U>) {
        let row: Box<dyn Any> = Box::new(row);
        macro_rules! find {
            ($($t:ty)*) => { $(
                let row = match row.downcast::<Row<$t, $t>>() {
                    Ok(row) => return self.0.push(row),
                    Err(row) => row
                };
                let row = match row.downcast::<Row<$t, bool>>() {
                    Ok(row) => return self.0.push(row),
                    Err(row) => row
                };
            )* let _ = row; };
        }
        find!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>);
        panic!("no case for {} to {}", T::DTYPE, U::DTYPE);
    }
}

impl Visit for Cases {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F) {
        self.keep::<T, F::Out>(Row {
            name: F::NAME,
            operands: 1,
            scalar: call1::<F, T>,
            cpu: Box::new(move |x, _| x.map(operator)),
            param: None,
            meta: if const { is_chosen(T::DTYPE) } {
                Some(Box::new(move |x, _| x.map(operator)))
            } else {
                None
            },
        });
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F) {
        self.keep::<T, F::Out>(Row {
            name: F::NAME,
            operands: 2,
            scalar: call2::<F, T>,
            cpu: Box::new(move |x, y| x.zip(operator, y)),
            param: if const { is_chosen(T::DTYPE) } {
                Some(Box::new(move |x, y| x.zip(operator, y)))
            } else {
                None
            },
            meta: if const { is_chosen(T::DTYPE) } {
                Some(Box::new(move |x, y| x.zip(operator, y)))
            } else {
                None
            },
        });
    }
}

fn cases() -> Vec<Box<dyn Case>> {
    let mut cases = Cases::default();
    each_operator(&mut cases);
    cases.0
}

#[test]
fn operators_on_every_pair_of_layouts_equal_their_bodies_one_by_one() {
    cases().iter().for_each(|case| case.layouts());
}

#[test]
fn operators_around_the_sizes_of_vectors_and_blocks_equal_their_bodies() {
    cases().iter().enumerate().for_each(|(number, case)| case.blocks(number % 7 == 0));
}

#[test]
fn operators_refuse_sizes_that_do_not_stretch_and_memory_that_is_not_there_by_their_own_name() {
    cases().iter().for_each(|case| case.refusals());
}

#[test]
fn operators_have_their_sizes_and_layouts_without_data() {
    cases().iter().for_each(|case| case.sizes_without_data());
}

#[test]
fn values_agree_with_the_truth_on_every_element() {
    let mut known = BTreeMap::<&str, usize>::new();
    let mut wrong = vec![];
    for case in cases() {
        let (count, first_wrong) = case.values();
        *known.entry(case.name()).or_default() += count;
        wrong.extend(first_wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{} values; without a truth: {:?}",
        known.values().sum::<usize>(),
        known.iter().filter(|row| *row.1 == 0).collect::<Vec<_>>()
    );
    // Every operator that this suite was written with has its truth; a later one may.
    assert!(known.values().filter(|count| **count > 0).count() >= 68, "{known:?}");
}

#[test]
fn the_table_holds_every_operator_once_and_its_values_are_those_of_the_bodies() {
    let cases = cases();
    let names: BTreeSet<&str> = built_in().iter().map(|row| row.name).collect();
    assert_eq!(names.len(), built_in().len());
    assert_eq!(names, cases.iter().map(|case| case.name()).collect());
    for row in built_in().iter().filter(|row| row.operands > 0) {
        let case = cases.iter().find(|case| case.name() == row.name && case.dtype() == DType::F64).unwrap();
        let samples = f64::samples();
        for (x, y) in samples.iter().zip(samples.iter().rev()) {
            let (value, scalar) = ((row.value)([*x, *y]), f64::from_bits(case.at(*x, *y).unwrap()));
            assert!(value.same(scalar), "{} of ({x}, {y})", row.name);
        }
    }
}

/// Short rows and long ones, few and many, in the caches and beyond them: operands that are broadcast along rows
/// or over rows, or are parts of larger ones; outputs too.
#[test]
fn rows_of_any_length_equal_one_loop() -> Result<()> {
    let small = [
        [1, 1, 1],
        [2, 2, 2],
        [3, 70, 1],
        [70, 3, 2],
        [1, 200, 3],
        [65, 2, 5],
        [10, 10, 31],
        [4, 90, 33],
        [2, 3, 300],
    ];
    // Shared by threads, and past the caches.
    let [short, long] = [rows_past_caches(1100 * 3, 4), rows_past_caches(150 * 101, 4)];
    let large = [[100, 111, 3], [150, 1, 257], [7, 90, 100], [short, 1100, 3], [long, 150, 101]];
    let sizes =
        if cfg!(any(miri, rankform_through_cuda)) { &small[..] } else { &[&small[..], &large].concat() };
    for &[l, m, n] in sizes {
        let value = |i: usize, j: usize, k: usize| (i * 7 + j * 3 + k) as f32;
        let x = Tensor::from_fn([l, m, n], |[i, j, k]| value(i, j, k), &Cpu)?;
        let column = Tensor::from_fn([l, m, 1], |[i, j, _]| (i + 2 * j) as f32, &Cpu)?;
        let middle = Tensor::from_fn([l, 1, n], |[i, _, k]| (3 * i + k) as f32, &Cpu)?;
        let row = Tensor::from_fn([1, 1, n], |[_, _, k]| (5 * k) as f32, &Cpu)?;
        let wide = Tensor::from_fn([l + 1, m + 2, n + 3], |[i, j, k]| value(i, j, k), &Cpu)?;
        let turned = Tensor::from_fn([m, l, n], |[j, i, k]| value(i, j, k), &Cpu)?;
        let (part, turned) = (wide.slice((0..l, 0..m, 0..n))?, turned.permuted([1, 0, 2])?);
        let expected = |f: &dyn Fn(usize, usize, usize) -> f32| {
            let all = (0..l).flat_map(|i| (0..m).flat_map(move |j| (0..n).map(move |k| [i, j, k])));
            all.map(|[i, j, k]| f(i, j, k)).collect::<Vec<f32>>()
        };
        let sums = expected(&|i, j, k| value(i, j, k) + (i + 2 * j) as f32);
        let what = format!("{l} × {m} × {n}");
        assert!((&x + &column).iter().eq(&sums), "a column, {what}");
        assert!((&column + part).iter().eq(&sums), "a column and a part, {what}");
        assert!((turned + &column).iter().eq(&sums), "a column and what is turned, {what}");
        assert!(
            (&x + &middle).iter().eq(&expected(&|i, j, k| value(i, j, k) + (3 * i + k) as f32)),
            "a matrix, {what}"
        );
        assert!(
            (&x - &row).iter().eq(&expected(&|i, j, k| value(i, j, k) - (5 * k) as f32)),
            "a row, {what}"
        );
        let three = expected(&|i, j, k| value(i, j, k) * (i + 2 * j) as f32 + (5 * k) as f32);
        assert!((x.lazy() * &column + &row).eval()?.iter().eq(&three), "three, {what}");
        assert!((-part).iter().eq(&expected(&|i, j, k| -value(i, j, k))), "a part, {what}");
        let mut out = Tensor::<f32, 3>::full([l + 1, m + 1, n + 1], -1.0, &Cpu)?;
        (x.lazy() + &column).eval_into(&mut out.view_mut()?.slice((1.., 1.., 1..))?)?;
        assert!(out.slice((1.., 1.., 1..))?.iter().eq(&sums), "into a part, {what}");
        let beside = (l + 1) * (m + 1) * (n + 1) - l * m * n;
        assert_eq!(out.iter().filter(|&&x| x == -1.0).count(), beside, "beside a part, {what}");
        let mut place = x.copy()?;
        place += &column;
        assert!(place.iter().eq(&sums), "in place, {what}");
    }
    Ok(())
}

/// Outputs that run backwards or in steps, as wide as a tile of each element, between elements that stay as
/// they are.
#[test]
fn a_view_with_negative_strides_is_written_in_place() -> Result<()> {
    macro_rules! check {
        ($($t:ty: $($n:literal)*;)*) => { $( for n in [$($n),*] {
            let m = 24;
            let value = |i: usize, j: usize| ((i * 3 + j) % 50) as u8;
            let x = Tensor::from_fn([m, n], |[i, j]| value(i, j) as $t, &Cpu)?;
            let turned = Tensor::from_fn([n, m], |[j, i]| value(i, j) as $t, &Cpu)?;
            let expected = |i: usize, j: usize| (2 * value(i, j)) as $t;
            for (down, along) in [(1, -1), (-1, 1), (-1, -1), (1, 2), (2, -2)] {
                for kind in ["run", "turned", "in place"] {
                    let mut out = Tensor::<$t, 2>::full([3 * m, 3 * n], 120 as $t, &Cpu)?;
                    let [rows, columns] = [(m, down as isize), (n, along as isize)]
                        .map(|(n, step)| (n..n + n * step.unsigned_abs()).step(step));
                    let mut part = out.view_mut()?.slice((rows, columns))?;
                    match kind {
                        "run" => (x.lazy() + &x).eval_into(&mut part)?,
                        "turned" => (x.lazy() + turned.transposed()).eval_into(&mut part)?,
                        _ => {
                            part.assign(&x)?;
                            part += &x;
                        }
                    }
                    // Element `i` of the range from `n` to `n + n · |step|`.
                    let at = |step: isize, n: usize, i: usize| {
                        let far = i * step.unsigned_abs();
                        if step < 0 { n + n * step.unsigned_abs() - 1 - far } else { n + far }
                    };
                    let mut all = vec![120 as $t; 9 * m * n];
                    for i in 0..m {
                        for j in 0..n {
                            all[at(down, m, i) * 3 * n + at(along, n, j)] = expected(i, j);
                        }
                    }
                    assert_eq!(
                        out.to_vec()?, all, "{} {n}, {kind}, steps {down} and {along}", stringify!($t)
                    );
                }
            }
        } )* };
    }
    check! { f32: 240 320 480 976; f64: 240 480 976; u8: 976 1024; u16: 1024; }
    Ok(())
}
