//! Slopes of reducers: against differences of their values, at ties, zeros and infinities, of complex
//! numbers.
//!
//! Reductions come from `each_reduction`, so that a new one is tested without a new test. Other reducers are
//! listed here.

use crate::value::Random;
use num_complex::Complex;
use rankform::kernel::{ExtraVisitor, Reducer, Slope};
use rankform::ops::{self, VisitReductions, each_reduction};
use rankform::prelude::*;
use rankform::scalar::{DType, Dual, Eval, Prim};
use rankform::{bf16, f16};

/// The reductions without a slope: the result is an index, a truth value or a count.
const WITHOUT: &[&str] = &["ArgMax", "ArgMin", "Any", "AllTrue", "Count"];

/// The result of a reducer of elements `T`.
fn reduced<R: Reducer<T>, T: Element>(reducer: R, x: &[Compute<T>]) -> Compute<R::Out> {
    let x = Tensor::from_vec(x.iter().map(|&x| T::narrow(x)).collect(), [x.len()]).unwrap();
    x.reduce(reducer, All).unwrap().item().unwrap().widen()
}

/// The result of the extra reducer over these values.
struct ExtraResult<'a, P>(&'a [P]);

impl<T: Element> ExtraVisitor<T> for ExtraResult<'_, Compute<T>> {
    type Result = Compute<T>;
    fn none(self) -> Compute<T> {
        Default::default()
    }
    fn reducer<Q: Reducer<T, Out = T>>(self, reducer: Q) -> Compute<T> {
        reduced(reducer, self.0)
    }
}

/// The slope at `x`, and its derivative by `x` alone, with the result and the extra result of `values`.
fn slope<R: Reducer<T>, T: Element>(reducer: R, x: Compute<T>, values: &[Compute<T>]) -> [Compute<T>; 2] {
    let (result, n) = (reduced(reducer, values), values.len() as f64);
    let extra = R::extra(ExtraResult(values));
    let literal = Lane::<Eval, Compute<T>>::literal;
    let slope = R::slope(literal(x), Lane::literal(result), literal(extra), Lane::literal(n));
    let variable = Lane::<Dual<Eval>, _>::new(literal(x), literal(Prim::from_f64(1.0)));
    let dual = R::slope(variable, Lane::literal(result), Lane::literal(extra), Lane::literal(n));
    [slope.value(), dual.tangent().value()]
}

/// A reducer of real elements, of values given as f64.
struct Row {
    name: &'static str,
    dtype: DType,
    kind: Slope,
    value: Box<dyn Fn(&[f64]) -> f64>,
    /// [`slope`].
    slope: Box<dyn Fn(f64, &[f64]) -> [f64; 2]>,
    extra: Option<Box<Row>>,
}

impl Row {
    fn of<R: Reducer<T>, T: Element>(reducer: R) -> Row {
        struct Extra;
        impl<T: Element> ExtraVisitor<T> for Extra {
            type Result = Option<Box<Row>>;
            fn none(self) -> Self::Result {
                None
            }
            fn reducer<Q: Reducer<T, Out = T>>(self, reducer: Q) -> Self::Result {
                Some(Box::new(Row::of::<Q, T>(reducer)))
            }
        }
        let widened = |x: &[f64]| x.iter().map(|&x| T::narrow(Prim::from_f64(x)).widen()).collect::<Vec<_>>();
        Row {
            name: std::any::type_name::<R>().rsplit("::").next().unwrap(),
            dtype: T::DTYPE,
            kind: R::SLOPE,
            value: Box::new(move |x| reduced::<R, T>(reducer, &widened(x)).cast()),
            slope: Box::new(move |x, values| {
                slope::<R, T>(reducer, widened(&[x])[0], &widened(values)).map(Prim::cast)
            }),
            extra: R::extra(Extra),
        }
    }
    /// The derivative of the result by each value.
    fn derivatives(&self, values: &[f64]) -> Vec<f64> {
        let slopes = values.iter().map(|&x| (self.slope)(x, values)[0]).collect::<Vec<_>>();
        let shares = if self.kind == Slope::Shared { slopes.iter().sum() } else { 1.0 };
        slopes.iter().map(|slope| slope / shares).collect()
    }
}

#[derive(Default)]
struct Rows(Vec<Row>);

impl VisitReductions for Rows {
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) {
        if !T::DTYPE.is_complex() {
            self.0.push(Row::of::<R, T>(R::default()));
        }
    }
}

/// Every reducer of the crate: those of `Reductions`, and all others.
fn rows() -> Vec<Row> {
    let mut rows = Rows::default();
    each_reduction(&mut rows);
    macro_rules! others {
        ($t:ty: $($R:ident)*) => { rows.0.extend([$(Row::of::<_, $t>(ops::$R)),*]) };
    }
    macro_rules! of_floats {
        ($($t:ty)*) => { $(others! {
            $t: MeanF64 Norm NormF64 NormOne NormMax CumSum CumProd CumMax CumMin LogCumSumExp
        })* };
    }
    of_floats!(f64 f32 f16 bf16);
    rows.0
}

fn with_slope(dtype: DType) -> impl Iterator<Item = Row> {
    rows().into_iter().filter(move |row| row.dtype == dtype && row.kind != Slope::None)
}

fn row(name: &str) -> Row {
    with_slope(DType::F64).find(|row| row.name == name).unwrap()
}

/// A five-point difference.
fn difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-3;
    (8.0 * (f(x + h) - f(x - h)) - (f(x + 2.0 * h) - f(x - 2.0 * h))) / (12.0 * h)
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * b.abs().max(1.0)
}

/// Numbers in (−2.3, 2.4) whose magnitudes are at least 0.1 and at least 0.1 apart.
fn apart(random: &mut Random, n: usize) -> Vec<f64> {
    let order = random.shuffled::<13>();
    order[..n].iter().map(|&k| (k as f64 - 6.0) * 0.37 + 0.11 + 0.01 * random.unit()).collect()
}

#[test]
fn reductions_without_a_slope_are_those_with_a_discrete_result() {
    for row in rows() {
        let is_without = WITHOUT.contains(&row.name);
        assert_eq!(row.kind == Slope::None, is_without, "{} of {:?}", row.name, row.dtype);
        assert!(row.extra.is_none_or(|extra| extra.kind != Slope::None), "{}: second derivatives", row.name);
    }
    // Its result has two parts.
    assert_eq!(<ops::MeanVar as Reducer<f64>>::SLOPE, Slope::Parts);
}

#[test]
fn the_slope_of_every_reducer_is_the_difference_of_its_values() {
    let mut random = Random(11);
    let mut compared = 0;
    for n in [1, 2, 3, 5, 9, 13] {
        let values = apart(&mut random, n);
        for row in with_slope(DType::F64) {
            for row in std::iter::once(&row).chain(row.extra.as_deref()) {
                let found = row.derivatives(&values);
                for k in 0..n {
                    let moved = |x: f64| {
                        let mut moved = values.clone();
                        moved[k] = x;
                        (row.value)(&moved)
                    };
                    let expected = difference(moved, values[k]);
                    assert!(
                        close(found[k], expected, 1e-8),
                        "{} at {k} of {values:?}: {}, not {expected}",
                        row.name,
                        found[k]
                    );
                    let [slope, second] = (row.slope)(values[k], &values);
                    // Extremes have constant slopes, and jumps where other values lead.
                    let is_extreme = row.kind == Slope::Shared || row.name == "NormMax";
                    let near = |x| if is_extreme { slope } else { (row.slope)(x, &values)[0] };
                    let expected = difference(near, values[k]);
                    // The variance of a population is not known from one number.
                    let is_close = slope.is_nan() && n == 1 || close(second, expected, 1e-6);
                    assert!(is_close, "{}, twice: {second}, not {expected}", row.name);
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} slopes");
}

#[test]
fn slopes_at_ties_zeros_and_infinities() {
    const INFINITE: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let third = 1.0 / 3.0;
    let root = 0.5_f64.sqrt();
    let cases: &[(&str, &[f64], &[f64])] = &[
        ("Sum", &[INFINITE, NAN], &[1.0, 1.0]),
        ("Mean", &[INFINITE, NAN], &[0.5, 0.5]),
        ("Max", &[3.0, 1.0, 3.0, 3.0], &[third, 0.0, third, third]),
        ("Max", &[-0.0, 0.0], &[0.5, 0.5]),
        ("Max", &[-INFINITE, -INFINITE], &[0.5, 0.5]),
        ("Max", &[INFINITE, 2.0, INFINITE], &[0.5, 0.0, 0.5]),
        ("Max", &[NAN, 2.0, -NAN], &[0.5, 0.0, 0.5]),
        ("Min", &[1.0, 1.0, 3.0], &[0.5, 0.5, 0.0]),
        ("Min", &[NAN, 2.0], &[1.0, 0.0]),
        ("CumMax", &[3.0, 1.0, 3.0], &[0.5, 0.0, 0.5]),
        ("Prod", &[2.0, 0.0, 5.0], &[0.0, 10.0, 0.0]),
        ("Prod", &[2.0, 0.0, -0.0], &[0.0, 0.0, 0.0]),
        ("Prod", &[0.0], &[1.0]),
        ("Prod", &[0.0, NAN], &[NAN, NAN]),
        ("Prod", &[0.0, INFINITE], &[INFINITE, NAN]),
        ("CumProd", &[2.0, 0.0, 5.0], &[0.0, 10.0, 0.0]),
        ("Var", &[4.0, 4.0], &[0.0, 0.0]),
        ("Std", &[0.1, 0.1, 0.1], &[0.0, 0.0, 0.0]),
        ("Std", &[5.0], &[0.0]),
        ("SampleStd", &[0.1, 0.1, 0.1], &[0.0, 0.0, 0.0]),
        ("SampleVar", &[5.0], &[NAN]),
        ("SampleStd", &[5.0], &[NAN]),
        ("LogSumExp", &[1000.0, 1000.0], &[0.5, 0.5]),
        ("LogSumExp", &[-INFINITE, 3.0], &[0.0, 1.0]),
        ("LogSumExp", &[INFINITE, 3.0, -INFINITE], &[1.0, 0.0, 0.0]),
        ("LogSumExp", &[-INFINITE, -INFINITE], &[0.0, 0.0]),
        ("LogSumExp", &[NAN, 1.0], &[NAN, NAN]),
        ("LogSumExp", &[INFINITE, NAN], &[NAN, NAN]),
        ("LogCumSumExp", &[-INFINITE, 3.0], &[0.0, 1.0]),
        ("Norm", &[0.0, -0.0], &[0.0, 0.0]),
        ("Norm", &[1e300, -1e300], &[root, -root]),
        ("Norm", &[1e-310, -1e-310], &[root, -root]),
        ("NormF64", &[0.0, 0.0], &[0.0, 0.0]),
        ("Norm", &[-INFINITE, 2.0], &[NAN, 0.0]),
        ("NormOne", &[0.0, -2.0, INFINITE], &[0.0, -1.0, 1.0]),
        ("NormMax", &[-3.0, 1.0, 3.0, 3.0], &[-third, 0.0, third, third]),
        ("NormMax", &[0.0, 0.0], &[0.0, 0.0]),
        ("NormMax", &[-INFINITE, 0.0], &[-1.0, 0.0]),
    ];
    for (name, values, expected) in cases {
        let found = row(name).derivatives(values);
        let is_expected = found.iter().zip(*expected).all(|(&a, &b)| close(a, b, 1e-12));
        assert!(is_expected, "{name} of {values:?}: {found:?}, not {expected:?}");
    }
}

#[test]
fn where_a_slope_is_0_by_definition_its_own_derivative_is_finite() {
    for (name, values) in [
        ("Prod", [0.0, 2.0]),
        ("Std", [3.0, 3.0]),
        ("SampleStd", [3.0, 3.0]),
        ("Norm", [0.0, 0.0]),
        ("NormOne", [0.0, 0.0]),
        ("NormMax", [0.0, 0.0]),
        ("LogSumExp", [f64::NEG_INFINITY; 2]),
    ] {
        let [_, second] = (row(name).slope)(values[0], &values);
        assert!(second.is_finite(), "{name}: {second}");
    }
}

#[test]
fn slopes_of_narrow_elements_are_those_of_f64_elements() {
    let mut random = Random(12);
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 1e-2), (DType::BF16, 5e-2)] {
        for n in [1, 4, 10] {
            // Each is a number of every element.
            let values = apart(&mut random, n).iter().map(|x| (x * 64.0).round() / 64.0).collect::<Vec<_>>();
            let mut compared = 0;
            for (narrow, wide) in with_slope(dtype).zip(with_slope(DType::F64)) {
                assert_eq!(narrow.name, wide.name);
                for (found, expected) in narrow.derivatives(&values).iter().zip(wide.derivatives(&values)) {
                    assert!(
                        close(*found, expected, tolerance),
                        "{} of {dtype:?}, {values:?}: {found}, not {expected}",
                        narrow.name
                    );
                }
                compared += 1;
            }
            assert_eq!(compared, 20);
        }
    }
}

/// Compares the slope of a reducer of complex numbers with differences along both axes: the result changes by
/// `slope · dx`, and a real result by the real part of it.
fn compare_complex<R: Reducer<Complex<f64>>>(reducer: R, values: &[Complex<f64>]) {
    let is_real = !R::Out::DTYPE.is_complex();
    let value = |x: &[Complex<f64>]| reduced(reducer, x).cast::<Complex<f64>>();
    for k in 0..values.len() {
        let [slope, _] = slope(reducer, values[k], values);
        for direction in [Complex::ONE, Complex::I] {
            let part = |part: fn(Complex<f64>) -> f64| {
                difference(
                    |t| {
                        let mut moved = values.to_vec();
                        moved[k] += direction * t;
                        part(value(&moved))
                    },
                    0.0,
                )
            };
            let change = slope * direction;
            let expected = if is_real { change.re.into() } else { change };
            let found = Complex::new(part(|z| z.re), part(|z| z.im));
            let name = std::any::type_name::<R>();
            assert!((found - expected).norm() < 1e-8, "{name} at {k} of {values:?}: {expected}, not {found}");
        }
    }
}

#[test]
fn slopes_of_complex_numbers_are_derivatives_along_both_axes() {
    use ops::*;
    let mut random = Random(13);
    for n in [2, 3, 7] {
        let (re, im) = (apart(&mut random, n), apart(&mut random, n));
        let mut values: Vec<_> = re.iter().zip(&im).map(|(&re, &im)| Complex::new(re, im)).collect();
        macro_rules! compare {
            ($($R:ident)*) => { $(compare_complex($R, &values);)* };
        }
        compare!(Sum Mean Prod Var SampleVar Std SampleStd Norm NormF64 NormOne NormMax CumSum CumProd);
        values[1] = Complex::ZERO;
        compare!(Prod CumProd Norm NormF64 Var Std);
        values[0] = Complex::ZERO;
        compare!(Prod CumProd);
    }
    let ties = [Complex::new(3.0, 4.0), Complex::new(-5.0, 0.0), Complex::ONE];
    let slopes = ties.map(|x| slope::<_, Complex<f64>>(NormMax, x, &ties)[0]);
    assert_eq!(slopes, [Complex::new(0.3, -0.4), Complex::new(-0.5, 0.0), Complex::ZERO]);
    assert_eq!(slope::<_, Complex<f64>>(NormOne, Complex::ZERO, &ties)[0], Complex::ZERO);
}

#[test]
fn every_reducer_in_the_source_says_its_slope() {
    fn files(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut texts = Vec::new();
    files(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"), &mut texts);
    // The macro `reducer!` requires a slope.
    let says_slope = |line: &&str| line.contains("slope! {") || line.contains("reducer! {");
    let mut reducers = 0;
    for text in texts {
        let lines: Vec<&str> = text.lines().collect();
        for (k, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let of_reducer = [" Reducer<", "::Reducer<"].iter().any(|name| code.contains(name));
            if !(code.starts_with("impl<") && of_reducer && code.contains(" for ")) {
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - code.len()]);
            let body: Vec<&str> = lines[k..].iter().copied().take_while(|&line| line != end).collect();
            assert_eq!(body.iter().filter(|line| says_slope(line)).count(), 1, "{}", body.join("\n"));
            reducers += 1;
        }
    }
    assert!(reducers >= 8, "{reducers}"); // `reducers!` has one for all of its blocks
}
