//! Elements by index and by mask, on every kind of layout of elements, indices and masks, against one loop
//! over indices.

use crate::arrange::{Arranged, SIZE, arranged, read};
use crate::value::{Random, Value, differ};
use num_complex::Complex;
use rankform::f16;
use rankform::ops::{self, Replace};
use rankform::prelude::*;

/// Indices below `bound` in every kind of layout.
fn indices(random: &mut Random, size: [usize; 3], bound: usize) -> Vec<Arranged<i64>> {
    arranged(size, || random.below(bound) as i64)
}

fn gathers<T: Value>() -> Result<()> {
    let mut random = Random(51);
    let x = arranged(SIZE, || T::moderate(&mut random));
    for axis in 0..3 {
        let mut size = SIZE;
        size[axis] = 9;
        for (x, index) in x.iter().zip(indices(&mut random, size, SIZE[axis]).iter().rev()) {
            let (x, kind, index) = (&x.tensor, x.kind, &index.tensor);
            if x.size()[axis] != SIZE[axis] {
                continue; // an axis of 1 has other indices
            }
            let y = x.gather_axis(axis, index)?;
            let at = |p: [usize; 3], a: usize, of: [usize; 3]| if of[a] == 1 { 0 } else { p[a] };
            for p in y.size().indices() {
                let place = index[std::array::from_fn(|a| at(p, a, index.size().0))] as usize;
                let from = std::array::from_fn(|a| if a == axis { place } else { at(p, a, x.size().0) });
                assert!(y[p].same(x[from]), "{} along {axis} from {kind} at {p:?}", T::DTYPE);
            }
            let line = index.slice((0, 0, ..))?.contiguous_below(x.size()[axis])?;
            let backwards = line.slice(((..).step(-2),))?;
            let y = x.index_select_axis(axis, backwards)?;
            for p in y.size().indices() {
                let from = std::array::from_fn(|a| if a == axis { backwards[[p[a]]] as usize } else { p[a] });
                assert!(y[p].same(x[from]), "{} rows along {axis} from {kind} at {p:?}", T::DTYPE);
            }
        }
    }
    for x in &x {
        let all = x.tensor.to_vec()?;
        let index = Tensor::from_fn([4, 5], |_| random.below(all.len()) as i64, &Cpu)?;
        let expected: Vec<T> = index.iter().map(|&i| all[i as usize]).collect();
        assert_eq!(differ(&x.tensor.take(&index)?.to_vec()?, &expected), None, "take from {}", x.kind);
    }
    Ok(())
}

trait Below {
    fn contiguous_below(&self, bound: usize) -> Result<Tensor<i64, 1>>;
}
impl Below for TensorView<'_, i64, 1> {
    fn contiguous_below(&self, bound: usize) -> Result<Tensor<i64, 1>> {
        Tensor::from_fn([self.numel()], |[i]| self[[i]] % bound as i64, &Cpu)
    }
}

#[test]
fn gathered_elements_are_those_that_the_indices_name() -> Result<()> {
    gathers::<bool>()?;
    gathers::<u8>()?;
    gathers::<f16>()?;
    gathers::<i32>()?;
    gathers::<f64>()?;
    gathers::<Complex<f64>>()
}

/// Scatters with one operator, from every layout into every layout.
fn scatters<T: Value, F: kernel_op::Op2<T>>(operator: F, apply: impl Fn(T, T) -> T) -> Result<()> {
    let mut random = Random(52);
    for axis in 0..3 {
        let mut size = SIZE;
        size[axis] = 12; // more than there are cells: some meet
        let values = arranged(size, || T::moderate(&mut random));
        for (values, index) in values.iter().zip(indices(&mut random, size, SIZE[axis]).iter().rev()) {
            let (v, index) = (&values.tensor, &index.tensor);
            let mut cells: Vec<T> = (0..SIZE.iter().product()).map(|_| T::moderate(&mut random)).collect();
            let mut whole = Tensor::from_slice(&cells, SIZE, &Cpu)?;
            let mut turned = whole.transposed().to_contiguous()?;
            if v.size()[axis] == 1 && index.size()[axis] == 1 {
                size[axis] = 1;
            }
            let (v_all, index_all) = (read(v, size), read(index, size));
            for (k, p) in Dim(size).indices().enumerate() {
                let mut cell = p;
                cell[axis] = index_all[k] as usize;
                let cell = &mut cells[Dim(SIZE).linearize(cell)];
                *cell = apply(*cell, v_all[k]);
            }
            size[axis] = 12;
            whole.scatter_axis(operator, axis, index, v)?;
            turned.view_mut()?.transposed().scatter_axis(operator, axis, index, v)?;
            assert_eq!(
                differ(&whole.to_vec()?, &cells),
                None,
                "{} along {axis} from {}",
                T::DTYPE,
                values.kind
            );
            assert_eq!(
                differ(&turned.transposed().to_vec()?, &cells),
                None,
                "{} along {axis}, transposed",
                T::DTYPE
            );
        }
        let rows = Tensor::from_fn([12], |_| random.below(SIZE[axis]) as i64, &Cpu)?;
        for values in &values {
            let v = values.tensor.broadcast_to(size)?;
            let mut cells = Tensor::from_fn(SIZE, |_| T::moderate(&mut random), &Cpu)?;
            let mut truth = cells.copy()?;
            cells.index_scatter_axis(operator, axis, &rows, v)?;
            let mut view = truth.view_mut()?;
            for p in Dim(size).indices() {
                let mut cell = p;
                cell[axis] = rows[[p[axis]]] as usize;
                view[cell] = apply(view[cell], v[p]);
            }
            assert_eq!(
                differ(&cells.to_vec()?, &truth.to_vec()?),
                None,
                "{} rows along {axis} from {}",
                T::DTYPE,
                values.kind
            );
        }
    }
    Ok(())
}

/// An operator of two equal elements.
mod kernel_op {
    pub trait Op2<T: rankform::Element>: rankform::kernel::Op<(T, T), Out = T> {}
    impl<T: rankform::Element, F: rankform::kernel::Op<(T, T), Out = T>> Op2<T> for F {}
}

#[test]
fn scattered_elements_go_where_the_indices_say_in_order_where_they_meet() -> Result<()> {
    scatters::<i32, _>(Replace, |_, y| y)?;
    scatters::<Complex<f64>, _>(Replace, |_, y| y)?;
    scatters::<bool, _>(Replace, |_, y| y)?;
    scatters::<i64, _>(ops::Add, |x, y| x.wrapping_add(y))?;
    scatters::<f32, _>(ops::Add, |x, y| x + y)?; // the order of sums is the order of elements
    scatters::<f16, _>(ops::Add, |x, y| f16::from_f32(x.to_f32() + y.to_f32()))?;
    scatters::<u8, _>(ops::Mul, |x, y| x.wrapping_mul(y))?;
    scatters::<f64, _>(ops::Maximum, |x, y| x.max(y))?;
    scatters::<i16, _>(ops::Minimum, |x, y| x.min(y))
}

#[test]
fn an_index_outside_is_an_error_and_nothing_is_written() -> Result<()> {
    let x = Tensor::from_fn([3, 4], |[i, j]| (4 * i + j) as i32, &Cpu)?;
    for wrong in [-1, 3, i64::MIN, i64::MAX, 1 << 40] {
        let index = Tensor::from([0, wrong, 1]);
        let message = format!("index_select: index {wrong} is outside axis 0 of size 3, of sizes [3, 4]");
        assert_eq!(x.index_select(Axis::<0>, &index).unwrap_err().to_string(), message);
        assert!(matches!(
            x.gather(Axis::<0>, index.insert_axis(Axis::<1>)),
            Err(Error::Index { op: "gather", .. })
        ));
        assert!(matches!(x.embedding(&index), Err(Error::Index { op: "embedding", .. })));
        let mut y = x.copy()?;
        let values = Tensor::<i32, 2>::ones([3, 4], &Cpu)?;
        assert!(matches!(
            y.index_scatter(ops::Add, Axis::<0>, &index, &values),
            Err(Error::Index { op: "index_scatter", .. })
        ));
        // A GPU leaves out one element only.
        assert!(y == x || cfg!(rankform_through_cuda));
    }
    let error = x.take(&Tensor::from([12])).unwrap_err().to_string();
    assert_eq!(error, "take: index 12 is outside the 12 elements of sizes [3, 4]");
    let error = x.reshape([12])?.take(&Tensor::from([12])).unwrap_err().to_string();
    assert_eq!(error, "take: index [12] is outside sizes [12]");
    assert_eq!(x.take(&Tensor::from([11]))?.item()?, 11);
    // No position of an empty axis can be named; none need be.
    let empty = Tensor::<f32, 2>::zeros([0, 4], &Cpu)?;
    assert!(matches!(empty.index_select(Axis::<0>, &Tensor::from([0])), Err(Error::Index { .. })));
    let none = Tensor::<i64, 1>::zeros([0], &Cpu)?;
    assert_eq!(empty.index_select(Axis::<0>, &none)?.size(), [0, 4]);
    assert_eq!(x.index_select(Axis::<1>, &none)?.size(), [3, 0]);
    assert_eq!(x.take(&Tensor::<i64, 2>::zeros([0, 3], &Cpu)?)?.size(), [0, 3]);
    // A million indices, one of which is wrong.
    let many = Tensor::from_fn([1 << 20], |[i]| if i == 777_777 { 3 } else { (i % 3) as i64 }, &Cpu)?;
    assert_eq!(
        x.index_select(Axis::<0>, &many).unwrap_err().to_string(),
        "index_select: index 3 is outside axis 0 of size 3, of sizes [3, 4]"
    );
    Ok(())
}

#[test]
fn sizes_that_do_not_fit_an_index_are_errors() -> Result<()> {
    let mut x = Tensor::<f32, 2>::zeros([3, 4], &Cpu)?;
    let index = Tensor::<i64, 2>::zeros([2, 5], &Cpu)?;
    assert!(matches!(x.gather(Axis::<0>, &index), Err(Error::Sizes { .. })));
    assert_eq!(x.gather(Axis::<0>, index.slice((.., ..1))?)?.size(), [2, 4]);
    assert!(matches!(x.gather_axis(2, &index), Err(Error::Axis { axis: 2, .. })));
    let values = Tensor::<f32, 2>::zeros([2, 5], &Cpu)?;
    assert!(matches!(x.scatter(Replace, Axis::<0>, &index, &values), Err(Error::Sizes { .. })));
    assert!(matches!(
        x.scatter(Replace, Axis::<1>, &index, values.slice((.., ..3))?),
        Err(Error::Sizes { .. })
    ));
    assert!(matches!(
        x.index_scatter(Replace, Axis::<0>, &Tensor::from([0, 1, 2]), &values),
        Err(Error::Sizes { .. })
    ));
    let other = x.share_data();
    assert!(matches!(
        x.index_scatter(Replace, Axis::<0>, &Tensor::from([0]), &values),
        Err(Error::Shared { .. })
    ));
    drop(other);
    Ok(())
}

#[test]
fn rows_of_a_table_come_in_the_sizes_of_their_indices() -> Result<()> {
    let table = Tensor::from_fn([10, 300], |[i, j]| (i * 1000 + j) as f32, &Cpu)?;
    let index = Tensor::from_fn([4, 3, 2], |[i, j, k]| ((i * 7 + j * 3 + k) % 10) as i64, &Cpu)?;
    for table in [table.view(), table.transposed().to_contiguous()?.view().transposed()] {
        let rows = table.embedding(index.transposed())?;
        assert_eq!(rows.size(), [2, 3, 4, 300]);
        assert!(
            rows.size()
                .indices()
                .all(|[k, j, i, d]| rows[[k, j, i, d]] == table[[index[[i, j, k]] as usize, d]])
        );
    }
    assert_eq!(table.embedding(&Tensor::from(3_i64))?.to_vec()?, table.slice((3, ..))?.to_vec()?);
    // Larger than the caches: rows go past them.
    let many = Tensor::from_fn([30_000], |[i]| (i * 7919 % 10) as i64, &Cpu)?;
    let rows = table.index_select(Axis::<0>, &many)?;
    assert!(
        (0..30_000).all(|i| rows[[i, 0]] == (many[[i]] * 1000) as f32
            && rows[[i, 299]] == (many[[i]] * 1000 + 299) as f32)
    );
    Ok(())
}

fn masks<T: Value>() -> Result<()> {
    let mut random = Random(53);
    for size in [SIZE, [2, 3, 200], [70, 1, 3], [0, 3, 2], [1, 1, 1]] {
        for of in [2, 20] {
            let x = arranged(size, || T::moderate(&mut random));
            let masks = arranged(size, || random.chance(of));
            for (x, mask) in x.iter().zip(masks.iter().rev()) {
                let what = format!("{} of {size:?}, from {} by {}", T::DTYPE, x.kind, mask.kind);
                let joint: [usize; 3] =
                    std::array::from_fn(|a| match (x.tensor.size()[a], mask.tensor.size()[a]) {
                        (1, n) => n,
                        (n, _) => n,
                    });
                let pairs = read(&x.tensor, joint).into_iter().zip(read(&mask.tensor, joint));
                let expected: Vec<T> = pairs.filter(|(_, is)| *is).map(|(x, _)| x).collect();
                let found = x.tensor.masked_select(&mask.tensor)?.to_vec()?;
                assert_eq!(found.len(), expected.len(), "{what}");
                assert_eq!(differ(&found, &expected), None, "{what}");
            }
            for x in &x {
                let x = &x.tensor;
                let expected: Vec<i64> = x
                    .size()
                    .indices()
                    .filter(|p| !x[*p].same(T::default()))
                    .flat_map(|p| p.map(|i| i as i64))
                    .collect();
                let found = x.nonzero()?;
                assert_eq!(
                    (found.size(), found.to_vec()?),
                    (dim![expected.len() / 3, 3], expected),
                    "nonzero"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_mask_picks_elements_in_row_major_order() -> Result<()> {
    masks::<bool>()?;
    masks::<u8>()?;
    masks::<i16>()?;
    masks::<i32>()?;
    masks::<u64>()?;
    masks::<Complex<f64>>()?;
    let x = Tensor::from(5.0);
    assert_eq!(x.masked_select(&Tensor::from(true))?.to_vec()?, [5.0]);
    assert_eq!(x.masked_select(&Tensor::from(false))?.size(), [0]);
    assert_eq!((x.nonzero()?.size(), Tensor::from(0).nonzero()?.size()), (dim![1, 0], dim![0, 0]));
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(
        x.masked_fill(Tensor::from([true, false]).lift(), 0.0)?,
        Tensor::from([[0.0, 2.0], [0.0, 4.0]])
    );
    assert!(matches!(x.masked_select(Tensor::from([true; 3]).lift()), Err(Error::Sizes { .. })));
    Ok(())
}

#[test]
fn moves_by_index_have_their_sizes_without_data() -> Result<()> {
    let device = Meta::tracing();
    let x = Tensor::<f32, 2, _>::zeros([4, 6], &device)?;
    let index = Tensor::<i64, 1, _>::zeros([3], &device)?;
    assert_eq!(x.index_select(Axis::<1>, &index)?.size(), [4, 3]);
    let mut y = x.copy()?;
    y.index_scatter(ops::Add, Axis::<0>, &index, &Tensor::<f32, 2, _>::zeros([3, 6], &device)?)?;
    let kernels = device.kernels();
    assert!(kernels.iter().any(|kernel| kernel == "gather [4, 3] from 6\n"), "{kernels:?}");
    assert!(kernels.iter().any(|kernel| kernel == "scatter add f32 [3, 6] to 4\n"), "{kernels:?}");
    assert!(matches!(x.masked_select(&x.greater(0.0)?), Err(Error::NoData { .. })));
    Ok(())
}
