//! Every row of the crate's table of elementwise operators: its gradient by each operand, on views of every
//! kind, against differences of its values; and the list of those without a gradient.
//!
//! Programs are interpreted, as in builds without the feature `compiled`: the rules are the same, and a
//! hundred operators compile in a fraction of the time. With `--cfg rankform_every_element` they are compiled
//! loops.

use crate::check::{difference, random, unit};
#[cfg(rankform_every_element)]
use Cpu as Host;
use rankform::autograd::{Tape, Var};
#[cfg(not(rankform_every_element))]
use rankform::device::Interpreted as Host;
use rankform::kernel::Op;
use rankform::ops::{OperatorRow, Visit, built_in, each_operator};
use rankform::prelude::*;
use rankform::scalar::DType;
use std::any::Any;
use std::collections::BTreeSet;

/// The operators on f64 whose results carry no gradient, with the reason. Those with results of other
/// elements, as comparisons, are discrete; `signum`, `heaviside` and `floor_divide` have the gradient 0.
const WITHOUT: &[(&str, &str)] = &[
    ("round", "steps"),
    ("floor", "steps"),
    ("ceil", "steps"),
    ("trunc", "steps"),
    ("next_after", "the next number is one of bits"),
];

/// Sizes of the results.
const SIZE: [usize; 2] = [3, 4];

type OnTape = Var<f64, 2, Host>;

/// One value as a value of another type, if both are the same.
fn as_type<A: 'static, B: 'static>(value: A) -> Option<B> {
    let value: Box<dyn Any> = Box::new(value);
    value.downcast().ok().map(|value| *value)
}

/// A layout of a watched tensor: the sizes of the whole tensor, and the view.
struct Kind {
    name: &'static str,
    whole: [usize; 2],
    view: fn(&OnTape) -> Result<OnTape>,
}

/// Every kind of view, as a tensor that shares the memory.
const KINDS: [Kind; 6] = [
    Kind { name: "contiguous", whole: [3, 4], view: |x| Ok(x.share_data()) },
    Kind { name: "transposed", whole: [4, 3], view: |x| x.share_data().into_transposed() },
    Kind {
        name: "strided",
        whole: [6, 9],
        view: |x| x.share_data().into_slice(((..).step(2), (1..).step(2))),
    },
    Kind {
        name: "reversed",
        whole: [3, 4],
        view: |x| x.share_data().into_slice(((..).step(-1), (..).step(-1))),
    },
    Kind { name: "offset", whole: [5, 6], view: |x| x.share_data().into_slice((2.., 1..5)) },
    Kind { name: "broadcast", whole: [1, 4], view: |x| x.share_data().into_broadcast(SIZE) },
];

/// Where each element of a view comes from.
fn origins(kind: &Kind) -> Vec<usize> {
    let [rows, columns] = kind.whole;
    let numbers = Tensor::from_fn(kind.whole, |[i, j]| (i * columns + j) as f64, &Host).unwrap();
    assert!(rows * columns == numbers.numel());
    let tape = Tape::new(&Host);
    let places = (kind.view)(&tape.constant(&numbers).unwrap()).unwrap();
    places.to_vec().unwrap().into_iter().map(|place| place as usize).collect()
}

/// Points where the values are smooth: differences with two steps agree.
fn points(row: &OperatorRow, count: usize, seed: u64) -> Vec<[f64; 2]> {
    let ranges = [(-2.5, 2.5), (0.05, 0.95), (1.05, 4.0), (-0.9, -0.1)];
    let is_smooth = |at: [f64; 2]| {
        (0..row.operands).all(|by| {
            let slope = |step: f64| slope_at(row, at, by, step);
            let (wide, narrow) = (slope(2e-4), slope(1e-4));
            wide.is_finite() && narrow.abs() < 1e3 && (wide - narrow).abs() < 1e-8 * narrow.abs().max(1.0)
        })
    };
    let point = |k: usize| {
        let [a, b] = [ranges[k % 4], ranges[k / 4 % 4]];
        [a.0 + (a.1 - a.0) * unit(seed, 2 * k), b.0 + (b.1 - b.0) * unit(seed, 2 * k + 1)]
    };
    let found: Vec<[f64; 2]> = (0..4000).map(point).filter(|at| is_smooth(*at)).take(count).collect();
    assert_eq!(found.len(), count, "{}: too few smooth points", row.name);
    found
}

/// The derivative of the values by one operand.
fn slope_at(row: &OperatorRow, at: [f64; 2], by: usize, step: f64) -> f64 {
    difference(step, |d| {
        let mut moved = at;
        moved[by] += d;
        (row.value)(moved)
    })
}

/// The visitor: names of operators with a gradient, without one, and with discrete results.
#[derive(Default)]
struct Gradients {
    checked: BTreeSet<&'static str>,
    without: BTreeSet<&'static str>,
    discrete: BTreeSet<&'static str>,
}

impl Gradients {
    /// Compares the gradients of an operator by each operand, with operands of every kind of layout.
    fn check(&mut self, name: &'static str, of: &dyn Fn([&OnTape; 2]) -> Result<Box<dyn Any>>) {
        let rows = built_in();
        let Some(row) = rows.iter().find(|row| row.name == name && row.operands > 0) else {
            self.discrete.insert(name);
            return;
        };
        for (k, kind) in KINDS.iter().enumerate() {
            // The second operand has another layout.
            let kinds = [kind, &KINDS[(k + 1) % KINDS.len()]];
            let points = points(row, 54, 7 + k as u64);
            let tape = Tape::new(&Host);
            let whole = |by: usize| {
                let numel = kinds[by].whole.iter().product();
                let values: Vec<f64> = points.iter().map(|at| at[by]).take(numel).collect();
                tape.watch(&Tensor::from_slice(&values, kinds[by].whole, &Host).unwrap()).unwrap()
            };
            let wholes = [whole(0), whole(1)];
            let operands = [0, 1].map(|by| (kinds[by].view)(&wholes[by]).unwrap());
            let y = of([&operands[0], &operands[1]]).unwrap();
            let Ok(y) = y.downcast::<OnTape>() else {
                self.discrete.insert(name);
                return;
            };
            // Where its operands are equal, the next number is the second operand: there it has a slope.
            if !tape.depends_on_variable(&y) || name == "next_after" {
                self.without.insert(name);
                return;
            }
            let w = random(SIZE, 99).to(&Host).unwrap();
            let gradients = tape.vjp(&y, &w).unwrap();
            let w = w.to_vec().unwrap();
            let values = [0, 1].map(|by| tape.value(&operands[by]).unwrap().to_vec().unwrap());
            for by in 0..row.operands {
                let mut expected = vec![0.0; wholes[by].numel()];
                let mut is_known = true;
                for (p, origin) in origins(kinds[by]).into_iter().enumerate() {
                    let slope = slope_at(row, [values[0][p], values[1][p]], by, 1e-4);
                    is_known &= slope.is_finite();
                    expected[origin] += w[p] * slope;
                }
                if !is_known {
                    continue;
                }
                let found = gradients.of(&wholes[by]).unwrap().to_vec().unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs() / expected.abs().max(1.0);
                    assert!(error < 1e-6, "{name}, {}, operand {by}: {found}, not {expected}", kind.name);
                }
                self.checked.insert(name);
            }
        }
    }
}

impl Visit for Gradients {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F) {
        if const { matches!(T::DTYPE, DType::F64) } {
            self.check(F::NAME, &|[x, _]| {
                let x: Tensor<T, 2, Tape<Host>> = as_type(x.share_data()).expect("T is f64");
                Ok(Box::new(x.map(operator)?))
            });
        }
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F) {
        if const { matches!(T::DTYPE, DType::F64) } {
            self.check(F::NAME, &|[x, y]| {
                let [x, y]: [Tensor<T, 2, Tape<Host>>; 2] =
                    [x, y].map(|x| as_type(x.share_data()).expect("T is f64"));
                Ok(Box::new(x.zip(operator, &y)?))
            });
        }
    }
}

#[test]
fn every_operator_of_the_table_has_the_gradient_of_its_differences() {
    let mut gradients = Gradients::default();
    each_operator(&mut gradients);
    let without: BTreeSet<_> = WITHOUT.iter().map(|(name, _)| *name).collect();
    assert_eq!(gradients.without, without, "operators without a gradient");
    assert!(gradients.checked.len() > 80, "{}: {:?}", gradients.checked.len(), gradients.checked);
    // Each operator on numbers is in one of the lists.
    for row in built_in().iter().filter(|row| row.operands > 0) {
        let known = [&gradients.checked, &gradients.without, &gradients.discrete];
        assert!(known.iter().any(|list| list.contains(row.name)), "{} was not visited", row.name);
    }
    println!("{} operators; discrete: {:?}", gradients.checked.len(), gradients.discrete);
}
