//! Products by labels against loops over every index, and operators built on them.

use crate::sampled;
use crate::value::Random;
use rankform::prelude::*;
use std::collections::BTreeMap;

/// The sum over every assignment of indices to letters, in whole numbers.
fn oracle(labels: &str, operands: &[(&[usize], &dyn Fn(&[usize]) -> i64)]) -> Vec<i64> {
    let letters = |part: &str| part.chars().filter(|letter| letter.is_alphabetic()).collect::<Vec<char>>();
    let (left, out) = labels.split_once("->").unwrap();
    let parts: Vec<Vec<char>> = left.split(',').map(&letters).collect();
    let out = letters(out);
    let mut sizes = BTreeMap::new();
    for (part, (size, _)) in parts.iter().zip(operands) {
        for (&letter, &size) in part.iter().zip(*size) {
            let known = sizes.entry(letter).or_insert(size);
            *known = (*known).max(size);
        }
    }
    let summed: Vec<char> = sizes.keys().copied().filter(|letter| !out.contains(letter)).collect();
    let order: Vec<char> = out.iter().chain(&summed).copied().collect();
    let lengths: Vec<usize> = order.iter().map(|letter| sizes[letter]).collect();
    let axis_of = |letter: &char| order.iter().position(|of_axis| of_axis == letter).unwrap();
    let parts: Vec<Vec<usize>> = parts.iter().map(|part| part.iter().map(axis_of).collect()).collect();
    let [outer, inner] =
        [&lengths[..out.len()], &lengths[out.len()..]].map(|part| part.iter().product::<usize>());
    let (mut values, mut index) = (vec![0; outer], vec![0; order.len()]);
    for at in 0..outer * inner {
        let mut rest = at;
        for axis in (0..order.len()).rev() {
            index[axis] = rest % lengths[axis];
            rest /= lengths[axis];
        }
        let mut product = 1i64;
        for (part, (size, value)) in parts.iter().zip(operands) {
            let here: Vec<usize> = part
                .iter()
                .zip(*size)
                .map(|(&axis, &size)| if size == 1 { 0 } else { index[axis] })
                .collect();
            product = product.wrapping_mul(value(&here));
        }
        values[at / inner] += product;
    }
    values
}

/// Small integers, with exact sums in floats too, in a layout chosen at random.
fn operand<T: Number + From<i8>, const RANK: usize>(
    size: [usize; RANK],
    random: &mut Random,
) -> Tensor<T, RANK> {
    let order = random.shuffled::<RANK>();
    let mut stored = [0; RANK];
    for axis in 0..RANK {
        stored[order[axis]] = size[axis];
    }
    let mut x = Tensor::from_fn(stored, |_| T::from(random.below(7) as i8 - 3), &Cpu)
        .unwrap()
        .into_permuted(order)
        .unwrap();
    for axis in 0..RANK {
        if random.chance(3) {
            x = x.into_reversed_axis(axis).unwrap();
        }
    }
    assert_eq!(x.size().0, size);
    x
}

macro_rules! agree {
    ($($labels:literal [$($a:literal)*] [$($b:literal)*];)*) => { $({
        fn run<T: Number + From<i8> + Into<f64>>(random: &mut Random) {
            let (a, b) = (operand::<T, _>([$($a),*], random), operand::<T, _>([$($b),*], random));
            let found = einsum!($labels, &a, &b).unwrap();
            let value = |x: T| Into::<f64>::into(x) as i64;
            let truth = oracle($labels, &[
                (&[$($a),*], &|index| value(*a.get(index.try_into().unwrap()).unwrap())),
                (&[$($b),*], &|index| value(*b.get(index.try_into().unwrap()).unwrap())),
            ]);
            let found: Vec<i64> = found.to_vec().unwrap().into_iter().map(value).collect();
            assert_eq!(found, truth, "{} of {}", $labels, T::DTYPE);
        }
        for seed in sampled(0..2, 2) {
            run::<f32>(&mut Random(seed));
            run::<f64>(&mut Random(seed + 10));
            run::<i32>(&mut Random(seed + 20));
        }
    })* };
}

#[test]
fn products_by_labels_are_sums_over_every_index() {
    agree! {
        "ij,jk->ik" [5 7] [7 33];
        "ij,jk->ki" [5 7] [7 33];
        "ij,kj->ik" [25 20] [34 20];
        "bij,bjk->bik" [3 4 5] [3 5 6];
        "bij,bjk->kbi" [3 4 5] [1 5 6];
        "abcd,cdef->abef" [2 3 4 5] [4 5 3 2];
        "abcd,dcef->efab" [2 3 4 5] [5 4 3 2];
        "abcd,bd->ca" [2 3 4 5] [3 5];
        "i,j->ij" [7] [9];
        "i,i->" [100] [100];
        "i,i->i" [100] [100];
        "ij,ij->" [9 20] [9 20];
        "ij,j->i" [40 70] [70];
        "ij,i->j" [40 70] [40];
        "ii,i->i" [6 6] [6];
        "iij,kj->ik" [4 4 9] [3 9];
        "ij,kl->il" [3 4] [5 6];
        "ij,->ij" [3 4] [];
        "abcdefgh,h->abcdefg" [2 1 2 1 2 1 2 3] [3];
        "ab,ab->ba" [1 5] [4 5];
        " a b , b c -> a c " [3 4] [4 5];
        "ij,jk->ik" [0 7] [7 3];
        "ij,jk->ik" [3 0] [0 4];
        "xyz,zyw->xw" [14 9 17] [17 9 35];
    }
}

#[test]
fn one_operand_is_summed_transposed_and_its_diagonals_taken() -> Result<()> {
    let x = Tensor::from_fn([3, 3, 4], |[i, j, k]| (100 * i + 10 * j + k) as f64, &Cpu)?;
    assert_eq!(einsum!("ijk->kij", &x)?, x.permuted([2, 0, 1])?);
    assert_eq!(einsum!("iij->ij", &x)?, x.diagonal(Axis::<0>, Axis::<1>)?.transposed());
    assert_eq!(einsum!("ijk->j", &x)?, x.sum((Axis::<0>, Axis::<2>))?);
    assert_eq!(einsum!("iij->", &x)?.item()?, x.diagonal(Axis::<0>, Axis::<1>)?.sum(All)?.item()?);
    let error = einsum!("ijj->i", &x).unwrap_err();
    assert_eq!(error.to_string(), "einsum: axes `j` of sizes [3, 3, 4] have 3 and 4 indices");
    Ok(())
}

#[test]
fn products_by_labels_refuse_sizes_that_do_not_fit() -> Result<()> {
    let (x, y) = (Tensor::<f32, 2>::zeros([2, 3], &Cpu)?, Tensor::<f32, 2>::zeros([4, 5], &Cpu)?);
    let words = |letter, n, m| {
        format!("einsum: letter `{letter}` stands for {n} indices in sizes [2, 3] and for {m} in [4, 5]")
    };
    assert_eq!(einsum!("ij,jk->ik", &x, &y).unwrap_err().to_string(), words('j', 3, 4));
    assert_eq!(einsum!("bi,bj->bij", &x, &y).unwrap_err().to_string(), words('b', 2, 4));
    assert_eq!(
        x.tensordot(&y, [(1, 0)]).unwrap_err().to_string(),
        "tensordot: inner sizes 3 and 4 differ: [2, 3] · [4, 5]"
    );
    assert_eq!(
        x.tensordot(&y, [(2, 0)]).unwrap_err().to_string(),
        "tensordot: axis 2 does not fit sizes [2, 3]"
    );
    assert!(x.tensordot(&x, [(0, 0), (0, 1)]).unwrap_err().to_string().contains("stands twice"));
    let waiting = Tensor::<f32, 2>::empty([2, 3], &Cpu)?;
    assert!(matches!(einsum!("ij,ij->", &x, &waiting), Err(rankform::Error::Unallocated { .. })));
    let device = Meta::new();
    let (x, y) =
        (Tensor::<f32, 3, _>::zeros([2, 3, 4], &device)?, Tensor::<f32, 2, _>::zeros([4, 5], &device)?);
    assert_eq!(einsum!("abc,cd->dba", &x, &y)?.size(), [5, 3, 2]);
    Ok(())
}

#[test]
fn tensordot_is_the_product_by_labels_of_its_pairs() -> Result<()> {
    let mut random = Random(5);
    let (x, y) = (operand::<i64, 3>([3, 4, 5], &mut random), operand::<i64, 4>([5, 2, 4, 3], &mut random));
    assert_eq!(x.tensordot(&y, [(1, 2), (2, 0)])?, einsum!("abc,cdbe->ade", &x, &y)?);
    assert_eq!(x.tensordot(&y, [(0, 3), (1, 2), (2, 0)])?, einsum!("abc,cdba->d", &x, &y)?);
    assert_eq!(x.tensordot(y.slice((0, 0, .., ..))?, [])?.size(), [3, 4, 5, 4, 3]);
    Ok(())
}

#[test]
fn norms_neither_overflow_nor_vanish_in_single_precision() -> Result<()> {
    let x = Tensor::from([3e30_f32, -4e30]);
    assert_eq!((x.norm(All)?.item()?, (&x * 1e-38).norm(All)?.is_nan()?.item()?), (5e30, false));
    let tiny = Tensor::from([3e-30_f32, 4e-30]);
    assert!((tiny.norm(All)?.item()? / 5e-30 - 1.0).abs() < 1e-6);
    let none = Tensor::<f64, 2>::zeros([2, 0], &Cpu)?;
    assert_eq!((none.norm(Axis::<1>)?.to_vec()?, none.norm_max(All)?.item()?), (vec![0.0; 2], 0.0));
    assert!(Tensor::from([1.0, f64::NAN]).norm_max(All)?.item()?.is_nan());
    let halves = Tensor::from([6.0, 6.0, -6.0]).cast::<rankform::f16>()?;
    assert!(
        (halves.norm_p(rankform::f16::from_f32(6.0), All)?.item()?.to_f64() - 6.0 * 3f64.powf(1.0 / 6.0))
            .abs()
            < 5e-3
    );
    let row = Tensor::from([[1.0, -2.0, 2.0]]);
    assert_eq!((row.lazy() * 2.0).norm(All)?.item()?, 6.0);
    Ok(())
}

#[test]
fn small_products_follow_their_definitions() -> Result<()> {
    let mut random = Random(9);
    let (x, y) = (operand::<i32, 2>([4, 3], &mut random), operand::<i32, 2>([4, 3], &mut random));
    let cross = x.cross(&y, Axis::<1>)?;
    assert!(cross.vecdot(&x, Axis::<1>)?.to_vec()?.iter().all(|&dot| dot == 0));
    assert_eq!(
        x.cross(&y, Axis::<0>).unwrap_err().to_string(),
        "cross: axis 0 of sizes [4, 3] has size 4, not 3"
    );
    let (a, b) = (operand::<i32, 2>([2, 3], &mut random), operand::<i32, 2>([4, 5], &mut random));
    let kron = a.kron(&b)?;
    assert!(kron.size().indices().all(|[i, j]| kron[[i, j]] == a[[i / 4, j / 5]] * b[[i % 4, j % 5]]));
    let square = operand::<i64, 2>([3, 3], &mut random);
    let mut power = Tensor::eye(3, &Cpu)?;
    for n in 0..8 {
        assert_eq!(square.matrix_power(n)?, power);
        power = power.matmul(&square)?;
    }
    assert!(x.matrix_power(2).is_err());
    Ok(())
}

#[test]
fn more_terms_than_can_be_counted_are_an_error() -> Result<()> {
    let x = Tensor::from([1.0_f32]).into_broadcast([1 << 40])?;
    let error = einsum!("a,b->", &x, &x).unwrap_err();
    assert!(matches!(error, Error::Overflow { op: "einsum", .. }), "{error}");
    Ok(())
}
