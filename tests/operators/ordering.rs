//! Orders along every axis, on every kind of layout, against the standard library's stable sort.

use crate::arrange::{Arranged, arranged_or_sampled};
use crate::is_sampled;
use crate::value::{Random, Value, differ};
use rankform::ops::Side;
use rankform::prelude::*;
use rankform::{bf16, f16};
use std::cmp::Ordering;

/// The order of the crate: NaN, which equals itself here, after every number.
fn order<T: Comparable>(x: &T, y: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    x.partial_cmp(y).unwrap_or(is_nan(x).cmp(&is_nan(y)))
}

fn check<T: Value + Comparable, const RANK: usize>(x: TensorView<T, RANK>, kind: &str) {
    let size = x.size().0;
    for axis in 0..RANK {
        let n = size[axis];
        let what = |name: &str| format!("{name} {} along {axis} of {size:?}, {kind}", T::DTYPE);
        let (rising, falling) = (x.sort_axis(axis).unwrap(), x.sort_descending_axis(axis).unwrap());
        let (places, falling_places) =
            (x.argsort_axis(axis).unwrap(), x.argsort_descending_axis(axis).unwrap());
        let ks = [0, 1, 3, n / 40, n / 9, n / 2, n].map(|k| k.min(n));
        let tops = ks.map(|k| (x.topk_axis(axis, k).unwrap(), x.bottomk_axis(axis, k).unwrap()));
        let others = Dim(std::array::from_fn::<_, RANK, _>(|a| if a == axis { 1 } else { size[a] }));
        // Of many lines some, on every lane of a vector: an odd step meets all of them.
        for at in others.indices().step_by(1 | (others.0.iter().product::<usize>() / 150)) {
            let index = |i: usize| std::array::from_fn::<_, RANK, _>(|a| if a == axis { i } else { at[a] });
            let line: Vec<T> = (0..n).map(|i| x[index(i)]).collect();
            let (mut up, mut down): (Vec<usize>, Vec<usize>) = ((0..n).collect(), (0..n).collect());
            up.sort_by(|&i, &j| order(&line[i], &line[j]));
            down.sort_by(|&i, &j| order(&line[j], &line[i]));
            let values = |places: &[usize]| places.iter().map(|&i| line[i]).collect::<Vec<_>>();
            let read = |x: &Tensor<T, RANK>, n: usize| (0..n).map(|i| x[index(i)]).collect::<Vec<_>>();
            let numbers =
                |x: &Tensor<i64, RANK>, n: usize| (0..n).map(|i| x[index(i)] as usize).collect::<Vec<_>>();
            assert_eq!(differ(&read(&rising, n), &values(&up)), None, "{}", what("sort"));
            assert_eq!(differ(&read(&falling, n), &values(&down)), None, "{}", what("sort_descending"));
            assert_eq!(numbers(&places, n), up, "{}", what("argsort"));
            assert_eq!(numbers(&falling_places, n), down, "{}", what("argsort_descending"));
            for (k, (top, bottom)) in ks.into_iter().zip(&tops) {
                assert_eq!(differ(&read(&top.0, k), &values(&down[..k])), None, "{} {k}", what("topk"));
                assert_eq!(numbers(&top.1, k), down[..k], "{} {k}", what("topk"));
                assert_eq!(differ(&read(&bottom.0, k), &values(&up[..k])), None, "{} {k}", what("bottomk"));
                assert_eq!(numbers(&bottom.1, k), up[..k], "{} {k}", what("bottomk"));
            }
        }
    }
}

/// Samples with every special value, in a random order with repetitions.
fn mixed<T: Value>(random: &mut Random, samples: &[T]) -> T {
    if random.chance(3) { T::moderate(random) } else { samples[random.below(samples.len())] }
}

fn layouts<T: Value + Comparable>() {
    let (mut random, samples) = (Random(41), T::samples());
    for size in [[5, 6, 7], [3, 20, 2], [0, 3, 2], [3, 0, 2], [1, 1, 1]] {
        for Arranged { kind, tensor } in arranged_or_sampled(size, || mixed(&mut random, &samples)) {
            check(tensor.view(), kind);
        }
    }
    // Long enough for the network, for digits, and for lines that are taken together.
    let long = [[40, 33], [2, 64], [3, 1000], [900, 20], [1, 3001], [1, 8200]];
    for (_, size) in long.into_iter().enumerate().filter(|(at, _)| is_sampled(at + T::DTYPE as usize, 3)) {
        let x = Tensor::from_fn(size, |_| mixed(&mut random, &samples), &Cpu).unwrap();
        check(x.view(), "contiguous");
        check(x.transposed().reversed(Axis::<0>), "transposed, reversed");
    }
}

#[test]
fn orders_of_every_element_and_layout_are_those_of_a_stable_sort() {
    layouts::<u8>();
    layouts::<i8>();
    layouts::<u16>();
    layouts::<i16>();
    layouts::<u32>();
    layouts::<i32>();
    layouts::<u64>();
    layouts::<i64>();
    layouts::<f16>();
    layouts::<bf16>();
    layouts::<f32>();
    layouts::<f64>();
}

/// Elements of 16 bits in a line that is longer than there are of them.
#[test]
fn long_lines_of_short_elements_are_in_order() {
    fn check<T: Value + Comparable>() {
        let (mut random, samples) = (Random(43), T::samples());
        let mut values: Vec<T> = (0..70_001).map(|_| mixed(&mut random, &samples)).collect();
        let x = Tensor::from_vec(values.clone(), [70_001]).unwrap();
        let (rising, falling) = (x.sort(Axis::<0>).unwrap(), x.sort_descending(Axis::<0>).unwrap());
        values.sort_by(|x, y| order(y, x));
        assert_eq!(differ(&falling.to_vec().unwrap(), &values), None, "sort_descending {}", T::DTYPE);
        let mut values = x.to_vec().unwrap();
        values.sort_by(order);
        assert_eq!(differ(&rising.to_vec().unwrap(), &values), None, "sort {}", T::DTYPE);
    }
    check::<u16>();
    check::<i16>();
    check::<f16>();
    check::<bf16>();
}

#[test]
fn unique_elements_come_with_their_places_counts_and_the_way_back() -> Result<()> {
    fn check<T: Value + Comparable>(x: TensorView<T, 2>) -> Result<()> {
        let all = x.to_vec()?;
        let mut places: Vec<usize> = (0..all.len()).collect();
        places.sort_by(|&i, &j| order(&all[i], &all[j]));
        let mut groups: Vec<Vec<usize>> = vec![];
        for i in places {
            match groups.last_mut() {
                Some(group) if all[group[0]] == all[i] => group.push(i),
                _ => groups.push(vec![i]), // NaN equals nothing
            }
        }
        let unique = x.unique_all()?;
        let values: Vec<T> = groups.iter().map(|group| all[group[0]]).collect();
        assert_eq!(differ(&unique.values.to_vec()?, &values), None);
        assert_eq!(differ(&x.unique()?.to_vec()?, &values), None);
        assert_eq!(
            unique.positions.to_vec()?,
            groups.iter().map(|group| group[0] as i64).collect::<Vec<_>>()
        );
        assert_eq!(
            unique.counts.to_vec()?,
            groups.iter().map(|group| group.len() as i64).collect::<Vec<_>>()
        );
        assert_eq!(unique.inverse.size(), x.size());
        let inverse = unique.inverse.to_vec()?;
        for (number, group) in groups.iter().enumerate() {
            assert!(group.iter().all(|&i| inverse[i] == number as i64));
        }
        Ok(())
    }
    let mut random = Random(42);
    for size in [[7, 30], [1, 1], [0, 4], [1, 500]] {
        let x = Tensor::from_fn(size, |_| random.below(40) as i32 - 20, &Cpu)?;
        check(x.view())?;
        check(x.transposed())?;
        let samples = f32::samples();
        let y = Tensor::from_fn(size, |_| samples[random.below(samples.len())], &Cpu)?;
        check(y.view())?;
    }
    Ok(())
}

#[test]
fn searches_count_elements_less_or_not_greater() -> Result<()> {
    let mut random = Random(43);
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 1001] {
        let samples = f64::samples();
        let line = Tensor::from_fn([n], |_| samples[random.below(samples.len())], &Cpu)?.sort(Axis::<0>)?;
        let x = Tensor::from_fn([9, 11], |_| samples[random.below(samples.len())], &Cpu)?;
        let count = |x: f64, after: bool| {
            line.iter().filter(|y| order(*y, &x).is_lt() || (after && order(*y, &x).is_eq())).count() as i64
        };
        for x in [x.view(), x.transposed()] {
            let (left, right) = (line.searchsorted(x, Side::Left)?, line.searchsorted(x, Side::Right)?);
            for index in x.size().indices() {
                assert_eq!(
                    (left[index], right[index]),
                    (count(x[index], false), count(x[index], true)),
                    "{} in {n}",
                    x[index]
                );
            }
        }
    }
    let backwards = Tensor::from([5, 3, 1]);
    assert_eq!(backwards.view().reversed(Axis::<0>).searchsorted(&Tensor::from(4), Side::Left)?.item()?, 2);
    Ok(())
}

#[test]
fn sorts_have_their_sizes_without_data_and_refuse_missing_axes() -> Result<()> {
    let device = Meta::tracing();
    let x = Tensor::<f32, 2, _>::zeros([4, 6], &device)?;
    assert_eq!((x.sort(Axis::<0>)?.size(), x.topk(Axis::<1>, 2)?.1.size()), (dim![4, 6], dim![4, 2]));
    assert!(device.kernels()[1].starts_with("sort f32 [4] along 6, the first 2"), "{:?}", device.kernels());
    assert!(matches!(x.unique(), Err(Error::NoData { .. })));
    let x = Tensor::from([1.0, 2.0]);
    assert_eq!(
        x.topk(Axis::<0>, 3).unwrap_err().to_string(),
        "topk: 3 wanted of the 2 elements along axis 0"
    );
    assert!(matches!(x.sort_axis(1), Err(Error::Axis { axis: 1, .. })));
    Ok(())
}
