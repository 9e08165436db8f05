//! Operators agree on GPU and CPU. Without a GPU the tests say that they were skipped, and fail if
//! `RANKFORM_REQUIRE_CUDA` is set.

mod gradients;
mod operands;
mod products;
mod training;
mod windows;

use crate::{numbers, on_gpu};
use rankform::kernel::{Op, Reducer};
use rankform::ops::{self, Visit, VisitReductions, each_operator, each_reduction};
use rankform::prelude::*;
use rankform::testing::Differential;
use rankform::{AnyDevice, Cuda, DType, Element};

on_gpu!(elementwise, |gpu| {
    let x = Tensor::from_vec(numbers(35), [5, 7])?;
    let (y, z) = (x.to(gpu)?, x.exp()?);
    assert_eq!(y.to_vec()?, x.to_vec()?);
    assert_eq!(y.exp()?.to_vec()?, z.to_vec()?);
    assert_eq!((y.lazy() * &y + 1.5).sin().eval()?.to_vec()?, (x.lazy() * &x + 1.5).sin().eval()?.to_vec()?);
    let t = y.transposed();
    assert_eq!(t.add(&t)?.to_vec()?, x.transposed().add(&x.transposed())?.to_vec()?);
    assert_eq!(y.gelu()?.to_vec()?, x.gelu()?.to_vec()?);
    assert_eq!(y.greater(0.5)?.to_vec()?, x.greater(0.5)?.to_vec()?);
});

on_gpu!(reductions, |gpu| {
    let x = Tensor::from_vec(numbers(4200), [60, 70])?;
    let y = x.to(gpu)?;
    assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argmax(Axis::<0>)?.to_vec()?, x.argmax(Axis::<0>)?.to_vec()?);
    let close =
        |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
    assert!(close(y.sum(Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?));
    assert!(close(y.sum(Axis::<0>)?.to_vec()?, x.sum(Axis::<0>)?.to_vec()?));
    assert!(close(y.sum(All)?.to_vec()?, x.sum(All)?.to_vec()?));
    assert!(close(y.softmax(Axis::<1>)?.to_vec()?, x.softmax(Axis::<1>)?.to_vec()?));
    assert!(close(y.softmax(Axis::<0>)?.to_vec()?, x.softmax(Axis::<0>)?.to_vec()?));
    assert!(close(y.cumsum(Axis::<1>)?.to_vec()?, x.cumsum(Axis::<1>)?.to_vec()?));
    assert!(close(y.cumsum(Axis::<0>)?.to_vec()?, x.cumsum(Axis::<0>)?.to_vec()?));
});

on_gpu!(moves_and_products, |gpu| {
    let x = Tensor::from_vec(numbers(4200), [60, 70])?;
    let y = x.to(gpu)?;
    let close =
        |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-3 * (1.0 + b.abs()));
    assert!(close(y.matmul(y.transposed())?.to_vec()?, x.matmul(x.transposed())?.to_vec()?));
    let picks = Tensor::from_vec(vec![3i64, 0, 59, 3], [4])?;
    assert_eq!(
        y.index_select(Axis::<0>, &picks.to(gpu)?)?.to_vec()?,
        x.index_select(Axis::<0>, &picks)?.to_vec()?
    );
    let wrong = Tensor::from_vec(vec![3i64, 60], [2])?;
    assert_eq!(
        y.index_select(Axis::<0>, &wrong.to(gpu)?)?.to_vec().unwrap_err(),
        x.index_select(Axis::<0>, &wrong).unwrap_err()
    );
    assert_eq!(y.sort(Axis::<1>)?.to_vec()?, x.sort(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argsort(Axis::<0>)?.to_vec()?, x.argsort(Axis::<0>)?.to_vec()?);
    assert_eq!(y.masked_select(&y.greater(0.0)?)?.to_vec()?, x.masked_select(&x.greater(0.0)?)?.to_vec()?);
});

on_gpu!(indices_parts_and_orders, |gpu| {
    let x = Tensor::from_fn([60, 70], |[i, j]| ((i * 37 + j * 11) % 23) as i32, &Cpu)?;
    let y = x.to(gpu)?;
    let (i, j) = (
        Tensor::from_fn([40], |[k]| (k * 7 % 60) as i64, &Cpu)?,
        Tensor::from_fn([40], |[k]| (k * 13 % 4) as i64, &Cpu)?,
    );
    let (ci, cj) = (i.to(gpu)?, j.to(gpu)?);
    assert_eq!(y.index((&ci, &cj))?.to_vec()?, x.index((&i, &j))?.to_vec()?);
    assert_eq!(y.transposed().index((&cj,))?.to_vec()?, x.transposed().index((&j,))?.to_vec()?);
    let (mut a, mut b) = (x.copy()?, y.copy()?);
    a.index_put(ops::Add, (&j, &i.minimum(5)?), &i.cast::<i32>()?)?;
    b.index_put(ops::Add, (&cj, &ci.minimum(5)?), &ci.cast::<i32>()?)?;
    assert_eq!(b.to_vec()?, a.to_vec()?);
    let far = Tensor::from_fn([40], |[k]| if k == 17 { 70 } else { k as i64 }, &Cpu)?;
    assert_eq!(y.index((&ci, &far.to(gpu)?))?.to_vec().unwrap_err(), x.index((&i, &far)).unwrap_err());
    let (few, parts) = (x.slice((.., ..2))?.copy()?, y.slice((.., ..2))?.copy()?);
    let (few, parts) = (few.unique_slices(Axis::<0>)?, parts.unique_slices(Axis::<0>)?);
    assert_eq!(
        (parts.values.to_vec()?, parts.inverse.to_vec()?),
        (few.values.to_vec()?, few.inverse.to_vec()?)
    );
    let (lines, on_gpu) = (x.sort(Axis::<1>)?, y.sort(Axis::<1>)?);
    let found = on_gpu.searchsorted_along(Axis::<1>, y.slice((.., ..9))?, ops::Side::Left)?;
    assert_eq!(
        found.to_vec()?,
        lines.searchsorted_along(Axis::<1>, x.slice((.., ..9))?, ops::Side::Left)?.to_vec()?
    );
    assert_eq!(
        y.repeat_each(
            Axis::<0>,
            &cj.slice((..,))?.index_select(Axis::<0>, &Tensor::arange(0, 60, 1, gpu)?.minimum(39)?)?
        )?
        .to_vec()?,
        x.repeat_each(Axis::<0>, &j.index_select(Axis::<0>, &Tensor::arange(0, 60, 1, &Cpu)?.minimum(39)?)?)?
            .to_vec()?
    );
    assert_eq!(y.diag_embed(1)?.to_vec()?, x.diag_embed(1)?.to_vec()?);
    let (medians, wanted) = (y.median(Axis::<1>)?, x.median(Axis::<1>)?);
    assert_eq!((medians.0.to_vec()?, medians.1.to_vec()?), (wanted.0.to_vec()?, wanted.1.to_vec()?));
    assert_eq!(
        y.histogram_with(ops::Bins::new([7]))?.values.to_vec()?,
        x.histogram_with(ops::Bins::new([7]))?.values.to_vec()?
    );

    let (t, u) = (x.greater(11)?, y.greater(11)?);
    assert_eq!(
        (u.sort(Axis::<1>)?.to_vec()?, u.argsort(Axis::<0>)?.to_vec()?),
        (t.sort(Axis::<1>)?.to_vec()?, t.argsort(Axis::<0>)?.to_vec()?)
    );
    assert_eq!(
        (u.cummax(Axis::<1>)?.to_vec()?, u.diff(Axis::<0>)?.to_vec()?),
        (t.cummax(Axis::<1>)?.to_vec()?, t.diff(Axis::<0>)?.to_vec()?)
    );
    assert_eq!(
        (u.max(Axis::<0>)?.to_vec()?, u.argmin(Axis::<1>)?.to_vec()?),
        (t.max(Axis::<0>)?.to_vec()?, t.argmin(Axis::<1>)?.to_vec()?)
    );
    let (shifted, v) = (x.greater(5)?, y.greater(5)?);
    assert_eq!(
        (u.maximum(&v)?.to_vec()?, u.fmin(&v)?.to_vec()?),
        (t.maximum(&shifted)?.to_vec()?, t.fmin(&shifted)?.to_vec()?)
    );
    assert_eq!(
        (u.less(&v)?.to_vec()?, u.less_equal(&v)?.to_vec()?),
        (t.less(&shifted)?.to_vec()?, t.less_equal(&shifted)?.to_vec()?)
    );
    assert_eq!(u.isclose(&v, 0.0, 0.5, false)?.to_vec()?, t.isclose(&shifted, 0.0, 0.5, false)?.to_vec()?);
    let (mut cells, mut on_gpu) =
        (Tensor::<bool, 2>::zeros([4, 70], &Cpu)?, Tensor::<bool, 2, _>::zeros([4, 70], gpu)?);
    cells.index_reduce(ops::ScatterReduction::Sum, Axis::<0>, &j, t.slice((..40, ..))?, true)?;
    on_gpu.index_reduce(ops::ScatterReduction::Sum, Axis::<0>, &cj, u.slice((..40, ..))?, true)?;
    assert_eq!(on_gpu.to_vec()?, cells.to_vec()?);

    assert_eq!(
        Tensor::random_permutation(3000, 5, gpu)?.to_vec()?,
        Tensor::random_permutation(3000, 5, &Cpu)?.to_vec()?
    );
    let integers = Tensor::<i16, 1, _>::random_integers([5000], -9..300, 6, gpu)?;
    assert_eq!(integers.to_vec()?, Tensor::<i16, 1>::random_integers([5000], -9..300, 6, &Cpu)?.to_vec()?);
    let events = Tensor::<bool, 1, _>::random_bernoulli([5000], 0.3, 6, gpu)?;
    assert_eq!(events.to_vec()?, Tensor::<bool, 1>::random_bernoulli([5000], 0.3, 6, &Cpu)?.to_vec()?);
});

on_gpu!(windows_grouped_queries_and_complex_numbers_agree_with_the_cpu, |gpu| {
    let x = Tensor::<f32, 4>::random_normal([2, 3, 9, 10], 0.0, 1.0, 3, &Cpu)?;
    let y = x.to(gpu)?;
    for pool in [Pool::new([3, 2]).stride([2, 2]).padding_ends([1, 0], [0, 1]), Pool::new([9, 10])] {
        let ((a, i), (b, j)) = (x.max_pool2d_with_indices(pool)?, y.max_pool2d_with_indices(pool)?);
        assert_eq!((b.to_vec()?, j.to_vec()?), (a.to_vec()?, i.to_vec()?));
        assert_eq!(b.max_unpool2d(&j, [9, 10])?.to_vec()?, a.max_unpool2d(&i, [9, 10])?.to_vec()?);
    }
    let near = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-5);
    let w = Tensor::<f32, 4>::random_normal([4, 3, 3, 2], 0.0, 1.0, 4, &Cpu)?;
    let conv = Conv::new().stride([1, 2]).same();
    assert!(near(y.conv2d(&w.to(gpu)?, conv)?.to_vec()?, x.conv2d(&w, conv)?.to_vec()?));
    let q = Tensor::<f32, 4>::random_normal([1, 4, 6, 8], 0.0, 1.0, 5, &Cpu)?;
    let k = Tensor::<f32, 4>::random_normal([2, 2, 6, 8], 0.0, 1.0, 6, &Cpu)?;
    let bias = Tensor::<f32, 4>::random_normal([1, 1, 6, 6], 0.0, 1.0, 7, &Cpu)?;
    let plan = Attention::new().causal(true).softcap(2.0);
    let on_gpu = q.to(gpu)?.attention_biased(&k.to(gpu)?, &k.to(gpu)?, &bias.to(gpu)?, plan)?;
    assert!(near(on_gpu.to_vec()?, q.attention_biased(&k, &k, &bias, plan)?.to_vec()?));
    assert!(near(
        y.normalize_p(3.0, Axis::<1>, 1e-12)?.to_vec()?,
        x.normalize_p(3.0, Axis::<1>, 1e-12)?.to_vec()?
    ));

    let z = x.view().reshape([27, 10, 2])?.view_as_complex()?;
    let on_gpu = y.view().reshape([27, 10, 2])?.view_as_complex()?;
    assert_eq!(on_gpu.conj()?.view_as_real()?.to_vec()?, z.conj()?.view_as_real()?.to_vec()?);
    assert!(near(
        on_gpu.mean(Axis::<0>)?.view_as_real()?.to_vec()?,
        z.mean(Axis::<0>)?.view_as_real()?.to_vec()?
    ));
    assert!(near(on_gpu.std(Axis::<1>)?.to_vec()?, z.std(Axis::<1>)?.to_vec()?));
    assert!(near(on_gpu.norm(Axis::<1>)?.to_vec()?, z.norm(Axis::<1>)?.to_vec()?));
    assert!(on_gpu.allclose(on_gpu, 0.0, 0.0, false)?);
});

/// Threads of a sweep. Most of its time is compilation. The simulator compiles the kernels of many threads as
/// one source.
const THREADS: usize = 48;

/// Every built-in elementwise operator, on every element that it takes, has the bits of the CPU. Each of
/// [`THREADS`] visits takes a share of the operators.
struct Elementwise {
    differences: Differential<Cuda>,
    wrong: Vec<String>,
    share: usize,
    met: usize,
}

impl Elementwise {
    /// Compares the next operator, if it belongs to the share of this visit.
    fn next(&mut self, compare: impl FnOnce(&mut Differential<Cuda>) -> Result<()>) {
        self.met += 1;
        if self.met % THREADS == self.share {
            let done = compare(&mut self.differences);
            self.wrong.extend(done.err().map(|error| error.to_string()));
        }
    }
}

impl Visit for Elementwise {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F) {
        self.next(|differences| differences.unary::<F, T>(operator, 0));
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F) {
        self.next(|differences| differences.binary::<F, T>(operator, 0));
    }
}

on_gpu!(every_operator_has_the_bits_of_the_cpu, |gpu| {
    let visit = |share: usize| {
        let mut visit = Elementwise {
            differences: Differential::new(gpu, share as u64),
            wrong: Vec::new(),
            share,
            met: 0,
        };
        each_operator(&mut visit);
        (visit.wrong, visit.differences.cases(), visit.met)
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|share| scope.spawn(move || visit(share))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let wrong: Vec<&String> = done.iter().flat_map(|(wrong, _, _)| wrong).collect();
    println!(
        "{} cases of {} operators and elements",
        done.iter().map(|(_, cases, _)| cases).sum::<usize>(),
        done[0].2
    );
    assert!(
        wrong.is_empty(),
        "{} operators differ:\n{}",
        wrong.len(),
        wrong.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n")
    );
});

/// A comparison of a reduction or scan with the CPU.
type Comparison = fn(&mut Differential<Cuda>) -> Result<()>;

/// Comparisons of reductions, with their names.
#[derive(Default)]
struct Compared(Vec<(String, Comparison)>);

impl Compared {
    fn add<R: Reducer<T> + Default, T: Element>(&mut self) {
        let name = |kind: &str| format!("{} {kind} {}", R::NAME, T::DTYPE);
        self.0.push((name("of"), |differences| differences.reduce::<_, T>(R::default(), 0)));
        self.0.push((name("along"), |differences| differences.scan::<_, T>(R::default(), 0)));
    }
    fn skip(&mut self) {}
}

/// A few elements for which the results are exact: integers and booleans, and floats if no sum is formed.
impl VisitReductions for Compared {
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) {
        let add: fn(&mut Self) = const {
            match T::DTYPE {
                DType::U8 | DType::I64 | DType::Bool => Self::add::<R, T>,
                DType::F32 if R::NEEDS_ELEMENTS => Self::add::<R, T>,
                _ => Self::skip,
            }
        };
        add(self);
    }
}

on_gpu!(reductions_and_scans_agree, |gpu| {
    let mut compared = Compared::default();
    each_reduction(&mut compared);
    compared.add::<ops::Sum, u64>();
    compared.add::<ops::Prod, i16>();
    compared.add::<ops::Prod, u32>();
    compared.add::<ops::Max, f64>();
    let compare = compared.0;
    let done: Vec<(&String, Result<usize>)> = std::thread::scope(|scope| {
        let one = |seed: usize, compare: fn(&mut Differential<Cuda>) -> Result<()>| {
            let mut differences = Differential::new(gpu, seed as u64);
            compare(&mut differences).map(|()| differences.cases())
        };
        let threads: Vec<_> = compare
            .iter()
            .enumerate()
            .map(|(seed, (name, compare))| (name, scope.spawn(move || one(seed, *compare))))
            .collect();
        threads.into_iter().map(|(name, thread)| (name, thread.join().unwrap())).collect()
    });
    let wrong: Vec<_> = done.iter().filter(|(_, done)| done.is_err()).collect();
    println!("{} cases", done.iter().filter_map(|(_, done)| done.as_ref().ok()).sum::<usize>());
    assert!(wrong.is_empty(), "{wrong:?}");
});

on_gpu!(a_missing_device_or_memory_is_an_error_with_the_reason, |gpu| {
    let nothing = Cuda::new(1000).unwrap_err().to_string();
    assert!(nothing.starts_with("Cuda::new: there is no device 1000; "), "{nothing}");
    let huge = Tensor::<u8, 1, Cuda>::empty([1 << 46], gpu)?.mutable_data().err();
    let Some(Error::OutOfMemory { nbytes, .. }) = Tensor::<u8, 1, Cuda>::zeros([1 << 46], gpu).err() else {
        panic!("64 TiB were had: {huge:?}")
    };
    assert_eq!(nbytes, 1 << 46);
    // The GPU still works.
    assert_eq!(
        Tensor::full([3], 2.5f32, gpu)?.exp()?.to_vec()?,
        Tensor::full([3], 2.5f32, &Cpu)?.exp()?.to_vec()?
    );
    gpu.check()?;
});

on_gpu!(gpus_of_two_numbers_do_not_mix, |gpu| {
    let Ok(other) = Cuda::new(1) else {
        println!("skipped: there is one GPU");
        return Ok(());
    };
    assert_ne!(gpu, &other);
    let (a, b) = (Tensor::full([2], 1.0f32, gpu)?, Tensor::full([2], 1.0f32, &other)?);
    assert_eq!(
        a.add(&b).unwrap_err().to_string(),
        "add: operands live on Cuda(0) and Cuda(1); `.to(&device)` moves one"
    );
    assert_eq!(a.add(&b.to(gpu)?)?.to_vec()?, [2.0, 2.0]);
});

on_gpu!(a_device_that_is_chosen_at_run_time, |gpu| {
    let chosen: AnyDevice = "cuda:0".parse()?;
    assert_eq!(chosen, AnyDevice::from(gpu.clone()));
    let host: AnyDevice = "cpu".parse()?;
    let x = Tensor::from_vec(numbers(12), [3, 4])?;
    let mixed: Vec<Tensor<f32, 2, AnyDevice>> = vec![x.to(&chosen)?, x.to(&host)?];
    for y in &mixed {
        assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?);
    }
    assert!(matches!(mixed[0].add(&mixed[1]), Err(Error::Device { .. })));
    assert!(matches!("cuda:77".parse::<AnyDevice>(), Err(Error::NoDevice { ordinal: 77, .. })));
});

on_gpu!(work_that_is_queued_outlives_the_tensors_that_it_reads, |gpu| {
    let x = Tensor::from_vec(numbers(1 << 16), [1 << 16])?;
    let y = {
        let first = x.to(gpu)?;
        let second = first.lazy().square().eval()?;
        drop(first);
        (second.lazy() + 1.0).eval()? // `second` is dropped while its work is queued
    };
    assert_eq!(y.to_vec()?, (x.lazy().square() + 1.0).eval()?.to_vec()?);
});

on_gpu!(transposed_operands_go_through_tiles, |gpu| {
    let x = Tensor::from_vec(numbers(3 * 70 * 45), [3, 70, 45])?;
    let y = x.to(gpu)?;
    let (t, u) = (x.permuted([0, 2, 1])?, y.permuted([0, 2, 1])?);
    assert_eq!(u.to_contiguous()?.to_vec()?, t.to_contiguous()?.to_vec()?);
    let (row, column) = (Tensor::from_vec(numbers(3 * 45 * 70), [3, 45, 70])?, x.permuted([0, 2, 1])?);
    assert_eq!(row.to(gpu)?.add(u)?.to_vec()?, row.add(column)?.to_vec()?);
    assert_eq!(y.permuted([1, 2, 0])?.copy()?.to_vec()?, x.permuted([1, 2, 0])?.copy()?.to_vec()?);
});

/// The bits of a tensor's elements.
fn bits<T: Element, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<Vec<u8>> {
    Ok(x.to_vec()?.iter().flat_map(|x| bytemuck::bytes_of(x).to_vec()).collect())
}

on_gpu!(large_operands_use_vector_accesses_and_tiles, |gpu| {
    let mut differences = Differential::new(gpu, 23).large();
    macro_rules! each {
        ($($t:ty)*) => { $(
            for _ in 0..4 {
                differences.unary::<_, $t>(ops::Square, 0)?;
                differences.binary::<_, $t>(ops::Add, 0)?;
            }
        )* };
    }
    each!(i8 u16 i32 u64 rankform::f16 rankform::bf16 f32 f64 num_complex::Complex<f64>);
    println!("{} cases", differences.cases());
});

on_gpu!(long_lines_are_scanned_by_many_blocks, |gpu| {
    for n in [1025, 4096 * 3 + 1, 100_000] {
        let x = Tensor::from_fn([2, n], |[i, j]| ((i * 5 + j * j) % 13) as i64 - 6, &Cpu)?;
        let y = x.to(gpu)?;
        assert_eq!(y.cumsum(Axis::<1>)?.to_vec()?, x.cumsum(Axis::<1>)?.to_vec()?, "{n}");
        assert_eq!(
            y.reversed(Axis::<1>).cumsum(Axis::<1>)?.to_vec()?,
            x.reversed(Axis::<1>).cumsum(Axis::<1>)?.to_vec()?,
            "{n}"
        );
        let before = (y.scan_exclusive(ops::Sum, Axis::<1>)?, x.scan_exclusive(ops::Sum, Axis::<1>)?);
        assert_eq!(before.0.to_vec()?, before.1.to_vec()?, "{n}, exclusive");
        // An operator whose states do not commute: the last value that is not 0.
        assert_eq!(y.scan(Last, Axis::<1>)?.to_vec()?, x.scan(Last, Axis::<1>)?.to_vec()?, "{n}, in order");
    }
});

/// The last value that is not 0: scans keep the order of states.
#[derive(Clone, Copy)]
struct Last;

impl rankform::kernel::Reducer<i64> for Last {
    const NAME: &'static str = "last";
    type Out = i64;
    type State<L: Lanes> = Lane<L, i64>;
    fn identity<L: Lanes>() -> Lane<L, i64> {
        Lane::zero()
    }
    fn accumulate<L: Lanes>(state: Lane<L, i64>, x: Lane<L, i64>, _: Lane<L, i64>) -> Lane<L, i64> {
        Self::combine::<L>(state, x)
    }
    fn combine<L: Lanes>(a: Lane<L, i64>, b: Lane<L, i64>) -> Lane<L, i64> {
        b.eq(Lane::zero()).select(a, b)
    }
    fn finalize<L: Lanes>(state: Lane<L, i64>, _: Lane<L, i64>) -> Lane<L, i64> {
        state
    }
}

on_gpu!(elements_of_one_cell_are_combined_in_order_however_many, |gpu| {
    // Floating-point sums depend on the order.
    for (n, cells) in [(40, 3), (5000, 7), (3000, 2500)] {
        let same = |index: &Tensor<i64, 2>, columns: usize| {
            let values = Tensor::from_vec(numbers(n * columns), [n, columns])?;
            let (mut x, mut y) =
                (Tensor::full([cells, columns], 0.5f32, &Cpu)?, Tensor::full([cells, columns], 0.5f32, gpu)?);
            x.scatter(ops::Add, Axis::<0>, index, &values)?;
            y.scatter(ops::Add, Axis::<0>, &index.to(gpu)?, &values.to(gpu)?)?;
            assert_eq!(bits(&y)?, bits(&x)?, "{n} × {columns} in {cells}");
            Ok::<(), Error>(())
        };
        // One column; whole rows of one index; an index for each element.
        let line = Tensor::from_fn([n, 1], |[i, _]| (i * i % cells) as i64, &Cpu)?;
        same(&line, 1)?;
        same(&line, 3)?;
        same(&Tensor::from_fn([n, 3], |[i, j]| ((i * i + j) % cells) as i64, &Cpu)?, 3)?;
    }
});

on_gpu!(long_lines_are_sorted_and_equal_elements_stay_in_order, |gpu| {
    let x = Tensor::from_fn([2, 9000], |[i, j]| ((i + j * 7919) % 501) as f32 - 250.0, &Cpu)?;
    let y = x.to(gpu)?;
    assert_eq!(y.sort(Axis::<1>)?.to_vec()?, x.sort(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argsort(Axis::<1>)?.to_vec()?, x.argsort(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argsort_descending(Axis::<1>)?.to_vec()?, x.argsort_descending(Axis::<1>)?.to_vec()?);
});

on_gpu!(random_numbers_have_the_bits_of_the_cpu, |gpu| {
    let x = Tensor::<f32, 2>::random_normal([70, 130], 1.0, 2.0, 9, &Cpu)?;
    assert!(bits(&Tensor::<f32, 2, Cuda>::random_normal([70, 130], 1.0, 2.0, 9, gpu)?)? == bits(&x)?, "f32");
    let x = Tensor::<f64, 1>::random_uniform([999], -1.0..3.0, 4, &Cpu)?;
    assert!(bits(&Tensor::<f64, 1, Cuda>::random_uniform([999], -1.0..3.0, 4, gpu)?)? == bits(&x)?, "f64");
});

on_gpu!(rows_longer_than_the_registers_of_a_block_agree_too, |gpu| {
    let x = Tensor::<f32, 2>::random_normal([2, 40_000], 0.0, 3.0, 2, &Cpu)?;
    let y = x.to(gpu)?;
    let close = |a: Vec<f32>, b: Vec<f32>, most: f32| {
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= most * b.abs().max(1e-9))
    };
    assert!(close(y.softmax(Axis::<1>)?.to_vec()?, x.softmax(Axis::<1>)?.to_vec()?, 1e-5));
    let normal = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-5);
    assert!(normal(y.layer_norm(Axis::<1>, 1e-5)?.to_vec()?, x.layer_norm(Axis::<1>, 1e-5)?.to_vec()?));
});
