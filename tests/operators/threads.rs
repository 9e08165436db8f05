//! The same bits for any number of threads, for parts of a tensor as for all of it, and again on every run.
#![cfg(feature = "threads")]

use crate::{IS_SANITIZED, sampled};
use rankform::prelude::*;

/// The rows of most operands: several tasks.
const ROWS: usize = if IS_SANITIZED { 101 } else { 401 };

/// The bits of a result.
fn bits<T: Element, const RANK: usize>(x: Tensor<T, RANK>) -> Vec<u8>
where
    Dim<RANK>: rankform::rank::Rank,
{
    rankform::DynTensor::from(x).to_bytes().unwrap()
}

/// Runs `work` on pools of 1, 2, 3 and 7 threads: all results are the first.
fn same_on_every_pool(name: &str, work: impl Fn() -> Vec<u8> + Sync) {
    let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&work);
    let first = on(1);
    for threads in sampled([2, 3, 7], 3) {
        assert!(on(threads) == first, "{name} on {threads} threads");
    }
    assert!(work() == first, "{name} on the pool of the process");
}

fn values(size: [usize; 2]) -> Tensor<f32, 2> {
    Tensor::from_fn(size, |[i, j]| ((i * 7919 + j * 104_729) % 10_007) as f32 / 997.0 - 4.0, &Cpu).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let (x, y) = (values([ROWS, 700]), values([700, ROWS]));
    same_on_every_pool("an expression of mixed layouts", || {
        bits((x.lazy() * y.transposed() + 0.5).eval().unwrap())
    });
    same_on_every_pool("a sum of all", || bits(x.sum(All).unwrap()));
    // Several stretches of one long row, whole and packed.
    same_on_every_pool("a sum of all, transposed", || bits((x.lazy() - y.transposed()).sum(All).unwrap()));
    same_on_every_pool("a variance of all", || bits(x.var(All).unwrap()));
    same_on_every_pool("the place of the largest", || bits(x.reversed(Axis::<1>).argmax(All).unwrap()));
    // Values of 8 bytes: a packed leaf has no room on the stack.
    let wide = x.cast::<f64>().unwrap();
    same_on_every_pool("a variance of all, backwards", || bits(wide.reversed(Axis::<1>).var(All).unwrap()));
    same_on_every_pool("a mean of rows", || bits(x.mean(Axis::<1>).unwrap()));
    same_on_every_pool("a variance of columns", || bits(x.var(Axis::<0>).unwrap()));
    same_on_every_pool("sums of a permuted operand", || bits(y.transposed().sum(Axis::<1>).unwrap()));
    same_on_every_pool("a fused sum of squares", || {
        bits((x.lazy() - y.transposed()).square().sum(Axis::<0>).unwrap())
    });
    same_on_every_pool("softmax of rows", || bits(x.softmax(Axis::<1>).unwrap()));
    same_on_every_pool("layer norm of columns", || {
        bits((x.lazy() * y.transposed()).eval().unwrap().layer_norm(Axis::<0>, 1e-5).unwrap())
    });
    same_on_every_pool("a matrix product", || bits(x.matmul(&y).unwrap()));
    let narrow = (x.cast::<rankform::bf16>().unwrap(), y.cast::<rankform::bf16>().unwrap());
    same_on_every_pool("a product of 16-bit floats", || bits(narrow.0.matmul(&narrow.1).unwrap()));
    same_on_every_pool("a matrix times a vector", || {
        bits(values([700, 901]).matmul(values([901, 2]).slice((.., 0)).unwrap()).unwrap())
    });
    for (name, [m, k, n]) in [
        ("a large product", [260, 200, 300]),
        ("few rows", [16, 270, 1000]),
        ("few columns", [1000, 270, 16]),
        ("a vector times a matrix", [1, 480, 9000]),
        ("a long matrix times a vector", [9000, 480, 1]),
    ] {
        let (x, y) = (values([m, k]), values([k, n]));
        same_on_every_pool(name, || bits(x.matmul(&y).unwrap()));
    }
    same_on_every_pool("a stack of products", || {
        let (x, y) = (values([17 * 64, 64]), values([17 * 64, 64]));
        bits(x.into_shape([17, 64, 64]).unwrap().matmul(&y.into_shape([17, 64, 64]).unwrap()).unwrap())
    });
    same_on_every_pool("attention", || {
        let q = values([2 * 4 * 120, 32]).into_shape([2, 4, 120, 32]).unwrap();
        bits(q.attention(&q, &q, None, rankform::ops::Attention::new().causal(true)).unwrap())
    });
    same_on_every_pool("a depthwise convolution", || {
        let image = values([3 * 10, 30 * 33]).into_shape([3, 10, 30, 33]).unwrap();
        let weights = values([10, 9]).into_shape([10, 1, 3, 3]).unwrap();
        bits(image.conv2d(&weights, rankform::ops::Conv::new().padding([1, 1]).groups(10)).unwrap())
    });
    same_on_every_pool("a convolution", || {
        let image = values([3 * 10, 30 * 33]).into_shape([3, 10, 30, 33]).unwrap();
        let weights = values([20, 10 * 9]).into_shape([20, 10, 3, 3]).unwrap();
        bits(image.conv2d(&weights, rankform::ops::Conv::new().padding([1, 1])).unwrap())
    });
    same_on_every_pool("places", || bits(x.argmax(Axis::<0>).unwrap()));
    same_on_every_pool("running sums of rows", || bits(x.cumsum(Axis::<1>).unwrap()));
    same_on_every_pool("running sums of columns", || {
        bits((x.lazy() * y.transposed()).cumsum(Axis::<0>).unwrap())
    });
    same_on_every_pool("a running sum of one line", || {
        bits(x.to_shape([ROWS * 700]).unwrap().cumsum(Axis::<0>).unwrap())
    });
    same_on_every_pool("places in order", || bits(x.argsort(Axis::<0>).unwrap()));
    same_on_every_pool("elements in order", || bits(y.transposed().sort(Axis::<1>).unwrap()));
    let meeting = Tensor::from_fn([ROWS], |[i]| (i * i % 7) as i64, &Cpu).unwrap();
    same_on_every_pool("rows that meet", || {
        let mut cells = values([7, 700]);
        cells.index_scatter(rankform::ops::Add, Axis::<0>, &meeting, &x).unwrap();
        bits(cells)
    });
    same_on_every_pool("columns that meet", || {
        let mut cells = values([700, 7]);
        cells.index_scatter(rankform::ops::Add, Axis::<1>, &meeting, &y).unwrap();
        bits(cells)
    });
    same_on_every_pool("softmax", || bits(values([ROWS, 700]).softmax(Axis::<1>).unwrap()));
    same_on_every_pool("in place", || {
        let mut z = values([ROWS, 700]);
        z *= y.transposed();
        bits(z)
    });
}

#[test]
fn integer_matrix_products_do_not_depend_on_the_number_of_threads() {
    let x = Tensor::from_fn([130, 140], |[i, j]| ((i * 31 + j * 17) % 101) as i32 - 50, &Cpu).unwrap();
    let y = Tensor::from_fn([140, 150], |[i, j]| ((i * 13 + j * 37) % 103) as i32 - 50, &Cpu).unwrap();
    same_on_every_pool("of integers", || bits(x.matmul(&y).unwrap()));
    // Whole numbers in floats: every order of summation gives the same.
    let (x, y) = (x.cast::<f32>().unwrap(), y.cast::<f32>().unwrap());
    same_on_every_pool("of floats", || bits(x.matmul(&y).unwrap()));
    // Others too, for each sum is one thread's. Large on the CPU, where panels serve.
    let [m, k, n] = if cfg!(rankform_through_cuda) {
        [20, 30, 40]
    } else if IS_SANITIZED {
        [130, 450, 301]
    } else {
        [260, 900, 901]
    };
    let (x, y) = (values([m, k]), values([k, n]));
    same_on_every_pool("of large floats", || {
        bits(x.matmul(&y).unwrap().into_slice((.., (..).step(9))).unwrap())
    });
}

#[test]
fn few_columns_of_deep_products_have_the_same_bits_on_any_number_of_threads() {
    // The crate `gemm` sums these in another order where rows are few: parts of the rows must not be.
    let deep = if cfg!(rankform_through_cuda) {
        70
    } else if IS_SANITIZED {
        700
    } else {
        7000
    };
    let number = |i: usize, j: usize| (((i * 7919 + j * 104_729) % 10_007) as f32 / 997.0) - 4.0;
    let complex = |[i, j]: [usize; 2]| rankform::Complex::new(number(i, j), number(j + 5, i));
    for columns in [1, 2, 3] {
        let x = Tensor::from_fn([321, deep], complex, &Cpu).unwrap();
        let y = Tensor::from_fn([columns, deep], complex, &Cpu).unwrap();
        same_on_every_pool("complex rows by few columns", || bits(x.matmul(y.transposed()).unwrap()));
        same_on_every_pool("few complex rows by columns", || bits(y.matmul(x.transposed()).unwrap()));
    }
}

#[test]
fn an_operator_called_from_inside_parallel_work_neither_waits_for_ever_nor_errs() {
    use rayon::prelude::*;
    let x = values([401, 700]);
    let expected = bits((&x + 1.0).sum(Axis::<1>).unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let all: Vec<bool> = pool.install(|| {
        (0..8).into_par_iter().map(|_| bits((&x + 1.0).sum(Axis::<1>).unwrap()) == expected).collect()
    });
    assert_eq!(all, [true; 8]);
}

#[test]
fn an_element_is_the_same_at_any_place_of_a_tensor() -> Result<()> {
    // Alone, in a vector's tail, in a block, in a strided row: the same bits of every function.
    let x = values([1, 2001]);
    let all = (x.lazy().exp() / (x.lazy().sin() + 2.0)).eval()?;
    for at in (0..2001).step_by(37) {
        let one = x.slice((.., at..at + 1))?;
        assert_eq!(
            (one.lazy().exp() / (one.lazy().sin() + 2.0)).eval()?.item()?.to_bits(),
            all[[0, at]].to_bits()
        );
    }
    let strided = x.slice((.., (..).step(-3)))?;
    let some = (strided.lazy().exp() / (strided.lazy().sin() + 2.0)).eval()?;
    assert_eq!(some.to_vec()?, all.slice((.., (..).step(-3)))?.to_vec()?);
    Ok(())
}

#[test]
fn few_columns_of_many_rows_sum_to_the_same_bits_on_any_number_of_threads() {
    // Parts of few columns were once taken for rows, which are summed in another order.
    for size in [[20_000, 8], [65_536, 16], [16_384, 40], [3000, 130]] {
        let x = values(size);
        same_on_every_pool("sums of columns", || bits(x.sum(Axis::<0>).unwrap()));
        same_on_every_pool("variances of columns", || bits(x.var(Axis::<0>).unwrap()));
        same_on_every_pool("sums of transposed rows", || bits(x.transposed().sum(Axis::<1>).unwrap()));
    }
    let (x, y) = (values([6000, 5]), values([11, 5]));
    same_on_every_pool("squared distances", || {
        let apart = x.insert_axis(Axis::<1>).lazy() - y.insert_axis(Axis::<0>);
        bits(apart.square().sum(Axis::<2>).unwrap())
    });
    let x = values([100, 64 * 64]);
    same_on_every_pool("short columns", || bits(x.reshape([100, 64, 64]).unwrap().sum(Axis::<0>).unwrap()));
}

#[test]
fn operators_inside_parallel_work_under_a_lock_or_in_a_cell_finish() {
    use rayon::prelude::*;
    use std::sync::{Mutex, OnceLock};
    // Large enough for several threads; whoever works for others meanwhile must not come back for the same
    // lock.
    let x = values(if cfg!(rankform_through_cuda) { [40, 70] } else { [600, 700] });
    let expected = bits((&x + 1.0).sum(Axis::<1>).unwrap());
    let (locked, once) = (Mutex::new(0), OnceLock::new());
    let work = || {
        (0..16).into_par_iter().for_each(|_| {
            let mut count = locked.lock().unwrap();
            assert_eq!(bits((&x + 1.0).sum(Axis::<1>).unwrap()), expected);
            *count += 1;
            drop(count);
            assert_eq!(once.get_or_init(|| bits((&x + 1.0).sum(Axis::<1>).unwrap())), &expected);
        });
    };
    work();
    rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap().install(work);
    assert_eq!(*locked.lock().unwrap(), 32);
}
