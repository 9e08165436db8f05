//! Moves by index: rows of many widths and alignments, and the deferred error of an index out of bounds.

use crate::{gpu, numbers, on_gpu};
use rankform::prelude::*;
use rankform::{Complex, Cuda, Element, bf16, ops};

/// Columns of a table: single elements, vectors, parts of rows, rows of several blocks.
const COLUMNS: &[usize] = &[1, 2, 3, 4, 8, 12, 33, 64, 100, 1024, 1300, 9000];

fn table<T: Element>(columns: usize, of: fn(usize) -> T) -> Result<Tensor<T, 2>> {
    Tensor::from_fn([7, columns + 3], |[i, j]| of(i * 31 + j * 7), &Cpu)
}

macro_rules! rows {
    ($name:ident, $t:ty, $of:expr) => {
        on_gpu!($name, |gpu| {
            let picks = Tensor::from([5i64, 0, 6, 6, 2]);
            let there = picks.to(gpu)?;
            for &columns in COLUMNS {
                let x = table::<$t>(columns, $of)?;
                let y = x.to(gpu)?;
                // At each alignment of a row, and with a step.
                for (first, end, step) in [(0, columns, 1), (1, columns + 1, 1), (0, columns + 3, 2)] {
                    let (x, y) = (x.slice_axis(1, first..end, step)?, y.slice_axis(1, first..end, step)?);
                    let shape = format!("{:?} from {first} by {step}", x.size());
                    let found = y.index_select(Axis::<0>, &there)?;
                    assert_eq!(found.to_vec()?, x.index_select(Axis::<0>, &picks)?.to_vec()?, "{shape}");
                    assert_eq!(y.embedding(&there)?.to_vec()?, found.to_vec()?, "{shape}");
                    let (t, u) = (x.transposed(), y.transposed());
                    let expected = t.index_select(Axis::<1>, &picks)?;
                    assert_eq!(u.index_select(Axis::<1>, &there)?.to_vec()?, expected.to_vec()?, "{shape}");
                    // Into a part of a larger tensor.
                    let mut all = Tensor::<$t, 2, Cuda>::full([5, x.size()[1] + 1], <$t>::default(), gpu)?;
                    y.index_select_into(Axis::<0>, &there, all.view_mut()?.slice((.., 1..))?)?;
                    assert_eq!(all.slice((.., 1..))?.to_vec()?, found.to_vec()?, "{shape}");
                }
                let index = Tensor::from_fn([3, columns], |[i, j]| ((i + j * 5) % 7) as i64, &Cpu)?;
                let expected = x.slice((.., ..columns))?.gather(Axis::<0>, &index)?.to_vec()?;
                let found = y.slice((.., ..columns))?.gather(Axis::<0>, &index.to(gpu)?)?.to_vec()?;
                assert_eq!(found, expected, "gather of {columns}");
            }
        });
    };
}

rows!(rows_of_u8, u8, |n| n as u8);
rows!(rows_of_bf16, bf16, |n| bf16::from_f32(n as f32));
rows!(rows_of_f32, f32, |n| n as f32);
rows!(rows_of_complex_f64, Complex<f64>, |n| Complex::new(n as f64, -(n as f64)));

macro_rules! scatters {
    ($name:ident, $t:ty, $of:expr) => {
        on_gpu!($name, |gpu| {
            // Few elements in a column, and many, which are sorted.
            for &count in &[3usize, 60, 300] {
                let picks = Tensor::from_fn([count], |[i]| (i * i % 7) as i64, &Cpu)?;
                let there = picks.to(gpu)?;
                for &columns in COLUMNS.iter().filter(|&&columns| count * columns < 100_000) {
                    let x = table::<$t>(columns, $of)?;
                    let of: fn(usize) -> $t = $of;
                    let values = Tensor::from_fn([count, columns + 3], |[i, j]| of(i + j * 3), &Cpu)?;
                    let far = values.to(gpu)?;
                    for first in [0, 1] {
                        let part = |n: usize| (.., first..first + n);
                        let (mut a, mut b) = (x.copy()?, x.to(gpu)?);
                        let (v, w) = (values.slice(part(columns))?, far.slice(part(columns))?);
                        let shape = format!("{count} of {columns} from {first}");
                        a.view_mut()?.slice(part(columns))?.index_scatter(ops::Add, Axis::<0>, &picks, v)?;
                        b.view_mut()?.slice(part(columns))?.index_scatter(ops::Add, Axis::<0>, &there, w)?;
                        assert_eq!(b.to_vec()?, a.to_vec()?, "add {shape}");
                        a.view_mut()?.slice(part(columns))?.index_scatter(
                            ops::Replace,
                            Axis::<0>,
                            &picks,
                            v,
                        )?;
                        b.view_mut()?.slice(part(columns))?.index_scatter(
                            ops::Replace,
                            Axis::<0>,
                            &there,
                            w,
                        )?;
                        assert_eq!(b.to_vec()?, a.to_vec()?, "replace {shape}");
                    }
                    // One value for all columns of a row.
                    let (mut a, mut b) =
                        (x.slice((.., ..columns))?.copy()?, x.slice((.., ..columns))?.to(gpu)?);
                    a.index_scatter(ops::Add, Axis::<0>, &picks, values.slice((.., 0..1))?)?;
                    b.index_scatter(ops::Add, Axis::<0>, &there, far.slice((.., 0..1))?)?;
                    assert_eq!(b.to_vec()?, a.to_vec()?, "{count} of {columns}, broadcast");
                }
            }
        });
    };
}

scatters!(scatters_of_u8, u8, |n| n as u8);
scatters!(scatters_of_bf16, bf16, |n| bf16::from_f32((n % 9) as f32));
scatters!(scatters_of_f32, f32, |n| n as f32 / 3.0);

// ------------------------------------------------------------ errors

on_gpu!(an_index_out_of_bounds_is_an_error_of_the_next_check_with_the_text_of_the_cpu, |gpu| {
    let x = Tensor::from_fn([3, 4], |[i, j]| (4 * i + j + 1) as f32, &Cpu)?;
    let y = x.to(gpu)?;
    for wrong in [-1, 3, i64::MIN, i64::MAX, 1 << 40] {
        let index = Tensor::from([2, wrong, 1]);
        let there = index.to(gpu)?;
        let found = y.index_select(Axis::<0>, &there)?;
        let error = gpu.synchronize().unwrap_err();
        assert_eq!(error, x.index_select(Axis::<0>, &index).unwrap_err());
        assert_eq!(
            error.to_string(),
            format!("index_select: index {wrong} is outside axis 0 of size 3, of sizes [3, 4]")
        );
        // It is returned once; the element is 0.
        gpu.check()?;
        assert_eq!(found.to_vec()?, [9.0, 10.0, 11.0, 12.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0]);
        // A read returns it, too.
        let rows = y.embedding(&there)?;
        assert_eq!(rows.to_vec().unwrap_err(), x.embedding(&index).unwrap_err());
        assert_eq!(rows.to_vec()?, found.to_vec()?);
        let column = index.reshape([3, 1])?;
        assert_eq!(
            y.gather(Axis::<0>, &column.to(gpu)?)?.sum(All)?.item().unwrap_err(),
            x.gather(Axis::<0>, column).unwrap_err()
        );
        let all = index.add(9)?;
        let taken = y.take(&all.to(gpu)?)?;
        let host = taken.download(Tensor::pinned([3], gpu)?)?;
        if let Err(expected) = x.take(&all) {
            assert_eq!(host.wait().unwrap_err(), expected);
        }
    }
    let (i, j) = (Tensor::from([0, 1]), Tensor::from([0, -7]));
    let _ = y.index((&i.to(gpu)?, &j.to(gpu)?))?;
    assert_eq!(gpu.synchronize().unwrap_err(), x.index((&i, &j)).unwrap_err());
    let _ = y.index((&j.to(gpu)?, &i.to(gpu)?))?;
    let error = gpu.synchronize().unwrap_err();
    assert_eq!(error.to_string(), "index: index -7 is outside axis 0 of size 3, of sizes [3, 4]");
    let classes = Tensor::from([1i64, 4]);
    let _ = classes.to(gpu)?.one_hot::<f32, _>(4)?;
    assert_eq!(gpu.synchronize().unwrap_err(), classes.one_hot::<f32, _>(4).unwrap_err());
    let _ = classes.to(gpu)?.bincount(3)?;
    assert_eq!(gpu.synchronize().unwrap_err(), classes.bincount(3).unwrap_err());
});

on_gpu!(a_scatter_leaves_out_the_elements_whose_index_is_out_of_bounds, |gpu| {
    let x = Tensor::from_fn([3, 4], |[i, j]| (4 * i + j) as f32, &Cpu)?;
    for count in [3, 100] {
        let mut index = Tensor::from_fn([count], |[i]| (i % 3) as i64, &Cpu)?;
        let values = Tensor::from_fn([count, 4], |[i, j]| (i * j) as f32, &Cpu)?;
        let mut expected = x.copy()?;
        let kept = index.index_select(Axis::<0>, &Tensor::arange(1, count as i64, 1, &Cpu)?)?;
        expected.index_scatter(ops::Add, Axis::<0>, &kept, values.slice((1.., ..))?)?;
        index.data_mut()?[0] = 3;
        let mut y = x.to(gpu)?;
        y.index_scatter(ops::Add, Axis::<0>, &index.to(gpu)?, &values.to(gpu)?)?;
        let error = gpu.synchronize().unwrap_err();
        assert_eq!(error.to_string(), "index_scatter: index 3 is outside axis 0 of size 3, of sizes [3, 4]");
        assert_eq!(y.to_vec()?, expected.to_vec()?);
    }
});

on_gpu!(of_several_errors_the_first_is_returned_and_drops_lose_none, |gpu| {
    let x = Tensor::from_vec(numbers(12), [3, 4])?.to(gpu)?;
    let [first, second] = [Tensor::from([0i64, 3]).to(gpu)?, Tensor::from([9i64]).to(gpu)?];
    let y = x.index_select(Axis::<0>, &first)?;
    let z = x.index_select(Axis::<1>, &second)?;
    drop((first, second, y));
    let copied = x.download(Tensor::pinned([3, 4], gpu)?)?;
    drop(copied);
    drop(z);
    let error = x.sum(All)?.item().unwrap_err();
    assert!(matches!(&error, Error::Index { op: "index_select", axis: Some(0), .. }), "{error}");
    gpu.synchronize()?;
    // An error that this crate's own read finds keeps the name of its operation.
    let _ = x.embedding(&Tensor::from([-4i64]).to(gpu)?)?;
    let error = x.greater(0.0)?.nonzero().unwrap_err();
    assert_eq!(error.to_string(), "embedding: index -4 is outside axis 0 of size 3, of sizes [3, 4]");
});

on_gpu!(a_thread_with_a_stream_of_its_own_gets_its_own_errors, |gpu| {
    let x = Tensor::from_vec(numbers(12), [3, 4])?.to(gpu)?;
    let good = Tensor::from([0i64, 2]).to(gpu)?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4i64)
            .map(|k| {
                let (x, good) = (&x, &good);
                scope.spawn(move || -> Result<()> {
                    let stream = gpu.stream()?;
                    let wrong = Tensor::from([3 + k]).to(&stream)?;
                    for _ in 0..5 {
                        stream.scope(|| x.index_select(Axis::<0>, good)?.to_vec())?;
                        let y = stream.scope(|| x.index_select(Axis::<0>, &wrong))?;
                        let error = stream.scope(|| y.to_vec()).unwrap_err();
                        let text = format!("index {} is outside axis 0", 3 + k);
                        assert!(error.to_string().contains(&text), "{error}, not {text}");
                        stream.synchronize()?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    // The main stream gets those of all, also of a thread that ended.
    std::thread::scope(|scope| {
        let queue =
            || gpu.stream()?.scope(|| x.index_select(Axis::<0>, &Tensor::from([7i64]).to(gpu)?).map(drop));
        scope.spawn(queue).join().expect("a worker panicked")
    })?;
    assert!(gpu.synchronize().unwrap_err().to_string().contains("index 7"));
});

on_gpu!(work_by_index_is_recorded_and_an_error_of_a_replay_is_deferred, |gpu| {
    let weights = Tensor::from_vec(numbers(80), [10, 8])?;
    let out = Tensor::from_vec(numbers(40), [8, 5])?;
    let (there, last) = (weights.to(gpu)?, out.to(gpu)?);
    let mut tokens = Tensor::from([0i64; 6]).to(gpu)?;
    let mut counts = Tensor::<i64, 1, Cuda>::zeros([10], gpu)?;
    let ones = Tensor::<i64, 1, Cuda>::ones([1], gpu)?;
    let graph = gpu.capture(|| {
        let y = there.embedding(&tokens)?.matmul(&last)?.softmax(Axis::<1>)?;
        counts.scatter(ops::Add, Axis::<0>, &tokens, &ones)?;
        Ok(y)
    })?;
    let mut replay = |values: [i64; 6]| {
        Tensor::from(values).copy_to(&mut tokens)?;
        graph.replay()
    };
    let expected =
        |values: [i64; 6]| weights.embedding(&Tensor::from(values))?.matmul(&out)?.softmax(Axis::<1>);
    for values in [[1, 2, 3, 4, 5, 6], [9, 9, 0, 1, 1, 7]] {
        replay(values)?;
        let (found, expected) = (graph.value().to_vec()?, expected(values)?.to_vec()?);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
    }
    assert_eq!(counts.to_vec()?, [1, 3, 1, 1, 1, 1, 1, 1, 0, 2]);
    for _ in 0..2 {
        replay([1, 2, 10, 4, 5, 6])?;
        let error = gpu.synchronize().unwrap_err();
        assert_eq!(error.to_string(), "embedding: index 10 is outside axis 0 of size 10, of sizes [10, 8]");
        gpu.check()?;
    }
    replay([1; 6])?;
    assert_eq!(counts.to_vec()?[1], 11);
    // Long columns are sorted by their cells, in a graph too.
    let places = Tensor::from_fn([500], |[i]| (i % 9) as i64, &Cpu)?.to(gpu)?;
    let graph = gpu.capture(|| counts.scatter(ops::Add, Axis::<0>, &places, &ones))?;
    graph.replay()?;
    assert_eq!(counts.to_vec()?[9], 2);
    drop(graph);
});

on_gpu!(moves_by_index_are_one_kernel, |gpu| {
    let x = Tensor::from_vec(numbers(12), [3, 4])?.to(gpu)?;
    let index = Tensor::from([0i64, 2]).to(gpu)?;
    let values = Tensor::<f32, 2, Cuda>::ones([2, 4], gpu)?;
    let mut y = x.copy()?;
    let launches = || gpu.statistics().launches;
    let before = launches();
    let _ = x.index_select(Axis::<0>, &index)?;
    let _ = x.embedding(&index)?;
    y.index_scatter(ops::Add, Axis::<0>, &index, &values)?;
    assert_eq!(launches() - before, 3);
});

#[test]
fn each_gpu_has_errors_of_its_own() -> Result<()> {
    let _mine = crate::FIRST_GPU.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (Some(one), Some(other)) = (gpu(0), gpu(1)) else { return Ok(()) };
    let x = Tensor::from([1.0f32, 2.0]);
    let index = Tensor::from([2i64]);
    let _ = x.to(&one)?.take(&index.to(&one)?)?;
    other.synchronize()?;
    assert!(one.synchronize().is_err());
    one.synchronize()
}
