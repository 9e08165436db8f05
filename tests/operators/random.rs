//! Random expressions of two to four operands on random views of rank 0 to 4: fused into one pass, step by
//! step through memory, and one element at a time.
//!
//! A fused expression is a type: the shapes of trees are a list; the operators at some of their nodes are
//! chosen at run time, by number. All three ways agree bit for bit.

use crate::value::{Random, Value, differ};
use rankform::prelude::*;

/// A random view of `size`, or of sizes of 1 that stretch to it, of fresh memory with an offset, gaps, any
/// order of axes.
fn view<T: Value, const RANK: usize>(size: [usize; RANK], random: &mut Random) -> Tensor<T, RANK> {
    let order = random.shuffled::<RANK>();
    let kept: [usize; RANK] = std::array::from_fn(|axis| if random.chance(6) { 1 } else { size[axis] });
    let steps: [usize; RANK] = std::array::from_fn(|_| 1 + random.below(6) / 4);
    let starts: [usize; RANK] = std::array::from_fn(|_| random.below(6) / 4);
    // In memory, axis `a` of the view is at place `order[a]`.
    let mut stored = [0; RANK];
    for axis in 0..RANK {
        stored[order[axis]] = starts[axis] + kept[axis] * steps[axis] + random.below(5) / 4;
    }
    let mut x = Tensor::from_fn(stored, |_| T::moderate(random), &Cpu).unwrap().into_permuted(order).unwrap();
    for axis in 0..RANK {
        let range = starts[axis]..starts[axis] + kept[axis] * steps[axis];
        let step = steps[axis] as isize;
        x = x.into_slice_axis(axis, range, if random.chance(3) { -step } else { step }).unwrap();
        if kept[axis] == 1 && random.chance(2) {
            let mut stretched = x.size().0;
            stretched[axis] = size[axis];
            x = x.into_broadcast(stretched).unwrap();
        }
    }
    x
}

/// The element of a view that stretches to the index's sizes; anything for an operand that the expression
/// leaves out.
fn at<T: Element, const RANK: usize>(x: &Tensor<T, RANK>, index: [usize; RANK]) -> T {
    let index = std::array::from_fn(|axis| if x.size()[axis] == 1 { 0 } else { index[axis] });
    x.get(index).copied().unwrap_or_default()
}

elementwise! {
    /// One of eight operators, by number.
    fn node(x, y, number) where RealNumber {
        let is = |n| number.eq(Lane::int(n));
        let low = is(0).select(x + y, is(1).select(x - y, is(2).select(x * y, x.max(y))));
        let high = is(4)
            .select(x.min(y), is(5).select(x * x - y, is(6).select(x.lt(y).select(x, y - x), x / y)));
        number.lt(Lane::int(4)).select(low, high)
    }
}

/// The meaning of `node`, in Rust.
trait Node: Value + RealNumber + num_traits::NumCast {
    fn node(self, y: Self, number: Self) -> Self;
}
macro_rules! nodes {
    ($($t:ty, |$x:ident, $y:ident| $add:expr, $sub:expr, $mul:expr, $div:expr;)*) => { $(
        impl Node for $t {
            fn node(self, $y: $t, number: $t) -> $t {
                let $x = self;
                let square = { let $y = $x; $mul };
                match number as i64 {
                    0 => $add,
                    1 => $sub,
                    2 => $mul,
                    3 => if $x > $y { $x } else { $y },
                    4 => if $x < $y { $x } else { $y },
                    5 => { let $x = square; $sub }
                    6 => if $x < $y { $x } else { let ($x, $y) = ($y, $x); $sub },
                    _ => $div,
                }
            }
        }
    )* };
}
nodes! {
    f32, |x, y| x + y, x - y, x * y, x / y;
    i16, |x, y| x.wrapping_add(y), x.wrapping_sub(y), x.wrapping_mul(y), if y == 0 {
        0
    } else {
        x.wrapping_div(y)
    };
}

/// The shapes of trees; `d` may occur twice.
const SHAPES: usize = 5;

/// One random case: fused, by steps and one by one.
fn case<T: Node, const RANK: usize>(random: &mut Random) -> usize {
    let size: [usize; RANK] =
        std::array::from_fn(|_| if random.chance(25) { 0 } else { [1, 2, 3, 5, 9, 34][random.below(6)] });
    let size = if size.iter().product::<usize>() > 4000 { size.map(|n| n.min(5)) } else { size };
    let [a, b, c, d] = std::array::from_fn(|_| view::<T, RANK>(size, random));
    let [p, q] = std::array::from_fn(|_| <T as num_traits::NumCast>::from(random.below(8)).unwrap());
    let number = T::moderate(random);
    let shape = random.below(SHAPES);
    let step = |x: &Tensor<T, RANK>, y: &Tensor<T, RANK>, number| apply(node, (x.view(), y, number)).unwrap();
    let (la, lb, lc, ld) = (a.lazy(), b.lazy(), c.lazy(), d.lazy());
    let fused = match shape {
        0 => apply(node, (a.view(), lb, p)),
        1 => apply(node, (a.view(), (lb * &c).maximum(ld), p)),
        2 => apply(node, (a.view(), lb + number, p)).and_then(|x| apply(node, (x.view(), lc - la, q))),
        3 => ((la - lb) * (lc + ld) - number).minimum(la).eval(),
        _ => apply(node, (a.view(), lb - lc, p)).and_then(|x| ((x.lazy() + ld) * (x.lazy() - ld)).eval()),
    };
    let fused = fused.unwrap();
    let steps = match shape {
        0 => step(&a, &b, p),
        1 => step(&a, &b.mul(&c).unwrap().maximum(&d).unwrap(), p),
        2 => step(&step(&a, &b.add(number).unwrap(), p), &c.sub(&a).unwrap(), q),
        3 => (&a - &b).mul(&(&c + &d)).unwrap().sub(number).unwrap().minimum(&a).unwrap(),
        _ => {
            let x = step(&a, &(&b - &c), p);
            &(&x + &d) * &(&x - &d)
        }
    };
    let whole = |n: i64| <T as num_traits::NumCast>::from(n).unwrap();
    let [add, sub, mul, max, min] = [0, 1, 2, 3, 4].map(whole);
    let single = |index| {
        let [a, b, c, d] = [at(&a, index), at(&b, index), at(&c, index), at(&d, index)];
        match shape {
            0 => a.node(b, p),
            1 => a.node(b.node(c, mul).node(d, max), p),
            2 => a.node(b.node(number, add), p).node(c.node(a, sub), q),
            3 => a.node(b, sub).node(c.node(d, add), mul).node(number, sub).node(a, min),
            _ => {
                let x = a.node(b.node(c, sub), p);
                x.node(d, add).node(x.node(d, sub), mul)
            }
        }
    };
    let what = || {
        format!(
            "{} {size:?} shape {shape}, {p} {q} {number}: {:?}",
            T::DTYPE,
            [&a, &b, &c, &d].map(|x| *x.layout())
        )
    };
    assert_eq!(fused.size(), steps.size(), "{}", what());
    let expected: Vec<T> = fused.size().indices().map(single).collect();
    let (fused_values, steps) = (fused.to_vec().unwrap(), steps.to_vec().unwrap());
    for (found, way) in [(&fused_values, "fused"), (&steps, "by steps")] {
        // A NaN is beyond the words of `Node`: its maxima are not those of IEEE 754.
        let wrong = (0..found.len()).find(|&k| {
            !found[k].same(expected[k])
                && found[k].partial_cmp(&found[k]).is_some()
                && !zeros(found[k], expected[k])
        });
        assert_eq!(wrong.map(|k| (found[k], expected[k])), None, "{way}, {}", what());
    }
    assert_eq!(differ(&fused_values, &steps), None, "{}", what());
    into_a_part(&fused, random, &what);
    fused_values.len()
}

/// Zeros of either sign: maxima of them are not those of Rust's comparisons.
fn zeros<T: Number>(x: T, y: T) -> bool {
    x.is_zero() && y.is_zero()
}

/// The same values, added to a random part of a larger tensor, which is unchanged elsewhere.
fn into_a_part<T: Node, const RANK: usize>(
    values: &Tensor<T, RANK>,
    random: &mut Random,
    what: &impl Fn() -> String,
) {
    let order = random.shuffled::<RANK>();
    let mut stored = [0; RANK];
    for axis in 0..RANK {
        stored[order[axis]] = values.size()[axis];
    }
    let mut whole = Tensor::from_fn(stored, |_| T::moderate(random), &Cpu).unwrap();
    let before = whole.copy().unwrap().into_permuted(order).unwrap();
    let back: Vec<usize> = (0..RANK).filter(|_| random.chance(2)).collect();
    let mut part = whole.view_mut().unwrap().permuted(order).unwrap();
    for axis in &back {
        part = part.reversed_axis(*axis).unwrap();
    }
    part += values;
    let mut after = whole.permuted(order).unwrap();
    for axis in &back {
        after = after.reversed_axis(*axis).unwrap();
    }
    let mut old = before.view();
    for axis in &back {
        old = old.reversed_axis(*axis).unwrap();
    }
    let add = T::default();
    for index in values.size().indices() {
        assert!(after[index].same(old[index].node(values[index], add)), "{}", what());
    }
}

fn cases<const RANK: usize>(count: usize, seed: u64) {
    let mut random = Random(seed);
    let mut elements = 0;
    for _ in 0..count {
        elements += case::<f32, RANK>(&mut random);
        elements += case::<i16, RANK>(&mut random);
    }
    println!("{} cases of rank {RANK}, {elements} elements", 2 * count);
}

#[test]
fn random_expressions_of_rank_0_and_1_agree_fused_by_steps_and_one_by_one() {
    cases::<0>(50, 1);
    cases::<1>(450, 2);
}

#[test]
fn random_expressions_of_rank_2_agree_fused_by_steps_and_one_by_one() {
    cases::<2>(450, 3);
}

#[test]
fn random_expressions_of_rank_3_agree_fused_by_steps_and_one_by_one() {
    cases::<3>(300, 4);
}

#[test]
fn random_expressions_of_rank_4_agree_fused_by_steps_and_one_by_one() {
    cases::<4>(250, 5);
}

#[test]
fn random_reductions_of_random_expressions_agree_with_those_of_their_values() {
    let mut random = Random(6);
    for _ in 0..300 {
        let size: [usize; 3] = std::array::from_fn(|_| [1, 2, 5, 9, 40][random.below(5)]);
        let (x, y) = (view::<i16, 3>(size, &mut random), view::<i16, 3>(size, &mut random));
        let lazy = x.lazy() * &y - &x;
        let values = lazy.eval().unwrap();
        let sum = |gone: [bool; 3]| {
            let kept: [usize; 3] =
                std::array::from_fn(|axis| if gone[axis] { 1 } else { values.size()[axis] });
            let mut sums = vec![0i16; kept.iter().product()];
            for index in values.size().indices() {
                let at = Dim(kept).linearize(std::array::from_fn::<usize, 3, _>(|axis| {
                    if gone[axis] { 0 } else { index[axis] }
                }));
                sums[at] = sums[at].wrapping_add(at_value(&x, &y, index));
            }
            sums
        };
        assert_eq!(lazy.sum(Axis::<0>).unwrap().to_vec().unwrap(), sum([true, false, false]));
        assert_eq!(lazy.sum(Axis::<1>).unwrap().to_vec().unwrap(), sum([false, true, false]));
        assert_eq!(lazy.sum((Axis::<0>, Axis::<2>)).unwrap().to_vec().unwrap(), sum([true, false, true]));
        assert_eq!(lazy.sum((Axis::<1>, Axis::<2>)).unwrap().to_vec().unwrap(), sum([false, true, true]));
        assert_eq!(lazy.sum(All).unwrap().to_vec().unwrap(), sum([true, true, true]));
        assert_eq!(
            lazy.max(Axis::<2>).unwrap().to_vec().unwrap(),
            values.max(Axis::<2>).unwrap().to_vec().unwrap()
        );
    }
}

fn at_value(x: &Tensor<i16, 3>, y: &Tensor<i16, 3>, index: [usize; 3]) -> i16 {
    at(x, index).wrapping_mul(at(y, index)).wrapping_sub(at(x, index))
}
