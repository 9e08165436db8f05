//! Programs for the CPU run on a user's device, with the same results.
//!
//! The device is the one of `examples/08_new_device.rs`. Its addresses are invalid on the host: a read of one
//! outside the device crashes; its engine is the simplest loop, and therefore an oracle too. All numbers are
//! small integers, for which the order of sums does not matter.

use crate::examples::new_device::Ledger;
use rankform::prelude::*;
use rankform::{MemoryFormat, ResizePolicy};

/// A tensor on a device, in a layout that is not the plain one: transposed, every other row, backwards.
fn awkward<D: Device>(device: &D) -> Result<Tensor<f64, 2, D>> {
    let x = Tensor::from_fn([4, 6], |[i, j]| ((7 * i + 5 * j) % 11) as f64 - 3.0, device)?;
    x.into_transposed()?.into_slice(((..).step(2), (..).step(-1))) // [3, 4]
}

/// Each program returns numbers, the same on both devices; its allocations are released.
macro_rules! on_both {
    ($($test:ident = |$x:ident, $device:ident| $body:block)*) => { $(
        #[test]
        fn $test() {
            fn program<D: Device>($device: &D) -> Result<Vec<f64>> {
                let $x = awkward($device)?;
                $body
            }
            let own = Ledger::default();
            let expected = program(&Cpu).expect("it runs on the CPU");
            assert_eq!(program(&own).expect("it runs on a new device"), expected);
            assert_eq!(own.bytes(), 0);
        }
    )* };
}

on_both! {
    views_and_copies_agree = |x, _device| {
        let windows = x.windows(Axis::<1>, 2, 1)?.to_contiguous()?;
        let shape = x.to_shape([2, 6])?.into_permuted([1, 0])?.copy()?;
        let lifted = x.lift::<4>().to_format(MemoryFormat::Contiguous)?.to_channels_last()?;
        Ok([
            windows.to_vec()?, shape.to_vec()?, lifted.to_vec()?,
            x.diagonal(Axis::<0>, Axis::<1>)?.to_vec()?
        ].concat())
    }
    operators_agree = |x, device| {
        let row = Tensor::from_slice(&[1.0, -2.0, 3.0, 4.0], [4], device)?;
        let sum = 2.0 * (&x + row.lift()) - &(-&x);
        let chosen = x.greater(1.0)?.select(&sum, &x)?;
        let integers = x.lazy().cast::<i32>().maximum(-1).cast::<f64>().eval()?;
        let real = x.lazy().square().sqrt().map(derivative::<_, 0>(rankform::ops::Square)).eval()?;
        Ok([sum.to_vec()?, chosen.to_vec()?, integers.to_vec()?, real.to_vec()?].concat())
    }
    several_outputs_agree = |x, _device| {
        elementwise! {
            fn both(x, y) -> (T, T) { (x + y, x * y) }
        }
        let (sum, product) = apply_many(both, (x.view(), 3.0))?;
        Ok([sum.to_vec()?, product.to_vec()?].concat())
    }
    scans_and_sorts_agree = |x, _device| {
        let sums = x.cumsum(Axis::<1>)?;
        let fused = (x.lazy() * 2.0).cummax(Axis::<0>)?;
        let before = x.scan_exclusive(rankform::ops::Sum, Axis::<0>)?;
        let (largest, places) = x.topk(Axis::<1>, 2)?;
        let unique = x.unique_all()?;
        let order = [x.argsort(Axis::<0>)?, places, unique.inverse]
            .map(|places| places.cast::<f64>().unwrap().to_vec().unwrap());
        let rest = [unique.positions, unique.counts]
            .map(|numbers| numbers.cast::<f64>().unwrap().to_vec().unwrap());
        let sorted = [
            x.sort(Axis::<1>)?.to_vec()?, x.sort_descending(Axis::<0>)?.to_vec()?, unique.values.to_vec()?
        ];
        let scans = [sums.to_vec()?, fused.to_vec()?, before.to_vec()?, largest.to_vec()?];
        Ok([scans.concat(), sorted.concat(), order.concat(), rest.concat()].concat())
    }
    moves_by_index_and_mask_agree = |x, device| {
        let rows = Tensor::from_slice(&[2, 0, 2, 1], [4], device)?;
        let taken = x.index_select(Axis::<0>, &rows)?;
        let along = x.gather(Axis::<1>, rows.slice((..3,))?.insert_axis(Axis::<1>))?;
        let mut cells = Tensor::<f64, 2, D>::zeros([3, 4], device)?;
        cells.index_scatter(rankform::ops::Add, Axis::<0>, &rows, &taken)?;
        assert!(matches!(
            x.index_select(Axis::<1>, &Tensor::from_slice(&[4], [1], device)?), Err(Error::Index { .. })
        ));
        let masked = x.masked_select(&x.greater(1.0)?)?;
        let places = x.greater(1.0)?.nonzero()?.cast::<f64>()?;
        let padded = x.pad([(1, 2), (5, 0)], rankform::ops::Pad::Reflect)?;
        let turned = Tensor::stack([x.roll(Axis::<1>, 3)?.view(), x.tril(0)?.view()], Axis::<1>)?;
        let shapes = [
            x.repeat(Axis::<0>, 2)?.to_vec()?, x.tile([2, 1])?.to_vec()?, turned.to_vec()?, padded.to_vec()?
        ];
        Ok([
            taken.to_vec()?, along.to_vec()?, cells.to_vec()?, masked.to_vec()?, places.to_vec()?,
            shapes.concat()
        ].concat())
    }
    writing_in_place_agrees = |x, device| {
        let mut y = Tensor::<f64, 2, D>::zeros([3, 4], device)?;
        y.assign(&x)?;
        y += 1.0;
        y.view_mut()?.slice((1, ..))?.fill(7.0)?;
        y.map_in_place(rankform::ops::Square)?;
        (x.lazy() - &x).eval_into(&mut y.view_mut()?.slice((0..1, ..))?.slice((0..1, ..))?)
            .expect_err("three rows into one");
        y.copy()?.copy_to(&mut y)?;
        y.to_vec()
    }
    reductions_agree = |x, _device| {
        let mut all = Vec::new();
        for axis in 0..2 {
            for reduced in [x.sum_axis(axis)?, x.prod_axis(axis)?, x.max_axis(axis)?, x.min_axis(axis)?] {
                all.extend(reduced.to_vec()?);
            }
            all.extend(
                [x.argmax_axis(axis)?, x.argmin_axis(axis)?].iter().flat_map(|t| t.to_vec()).flatten()
                    .map(|at| at as f64)
            );
        }
        let positive = x.greater(0.0)?;
        let counts = positive.count(All)?.item()? as f64;
        let truths = [positive.any(All)?.item()?, positive.all(All)?.item()?].map(|truth| truth as u8 as f64);
        let none = x.slice((0..0, ..))?.sum(Axis::<0>)?.to_vec()?;
        Ok([all, vec![counts], truths.to_vec(), none, x.lazy().square().sum(All)?.to_vec()?].concat())
    }
    matrix_products_agree = |x, _device| {
        let square = x.matmul(x.transposed())?;
        let vector = x.slice((1, ..))?;
        let batched = x.lift::<3>().broadcast_to([2, 3, 4])?.matmul(x.transposed().lift::<3>())?;
        let nothing = x.slice((.., 0..0))?.matmul(x.slice((0..0, ..))?)?;
        let parts = [
            square.to_vec()?, x.matmul(vector)?.to_vec()?, vector.matmul(vector)?.to_vec()?,
            batched.to_vec()?, nothing.to_vec()?
        ];
        Ok(parts.concat())
    }
    products_by_labels_and_windows_agree = |x, device| {
        use rankform::ops::{Attention, Conv, Pool};
        let outer = einsum!("ij,kl->kilj", &x, &x)?;
        let traced = einsum!("ij,ij->", &x, &x)?;
        let wide = x.cast::<i8>()?.matmul_wide(x.cast::<i8>()?.transposed())?.cast::<f64>()?;
        let image = outer.view();
        let weights = Tensor::from_fn(
            [2, 3, 2, 3], |[o, c, i, j]| ((o + 2 * c + 3 * i + j) % 4) as f64 - 1.0, device
        )?;
        let windows = image.conv2d(&weights, Conv::new().padding([1, 2]).stride([2, 1]))?;
        let spread = windows.conv_transpose2d(&weights, Conv::new().padding([1, 2]).stride([2, 1]), [1, 0])?;
        let pooled = image.max_pool2d(Pool::new([2, 2]).stride([1, 1]))?;
        let seen = image.attention(image, image, None, Attention::new().causal(true))?;
        let seen = (seen.lazy() * 1e6).round().eval()?;
        Ok([
            outer.to_vec()?, traced.to_vec()?, wide.to_vec()?, windows.to_vec()?, spread.to_vec()?,
            pooled.to_vec()?, seen.to_vec()?
        ].concat())
    }
    resizing_agrees = |x, device| {
        let mut log = Tensor::<f64, 2, D>::new(device)?;
        log.resize([0, 4])?;
        for step in 0..5 {
            log.extend(1, 50)?;
            log.view_mut()?.slice((step, ..))?.assign(x.slice((step % 3, ..))?)?;
        }
        log.reserve([20, 4])?;
        log.shrink_to(3)?;
        log.extend(1, 0)?; // a row of zeros where there was one of x
        let before = log.to_vec()?;
        log.set_resize_policy(ResizePolicy { keep_on_shrink: false, max_kept_bytes: 0 });
        log.resize([1, 4])?;
        log.mutable_data()?;
        let shared = log.share_data();
        assert!(log.fill(1.0).is_err() && log.make_unique()?);
        log.fill(1.0)?;
        Ok([
            before, log.to_vec()?, shared.to_vec()?, log.into_element::<f32>()?.cast::<f64>()?.to_vec()?
        ].concat())
    }
    normalizations_agree_nearly = |x, _device| {
        let rounded = |y: Tensor<f64, 2, D>| (y.lazy() * 1e9).round().eval()?.to_vec();
        Ok([
            rounded(x.softmax(Axis::<1>)?)?, rounded(x.layer_norm(Axis::<0>, 1e-5)?)?,
            rounded(x.log_softmax(Axis::<0>)?)?
        ].concat())
    }
    printing_reads_the_device = |x, device| {
        assert_eq!(x.to_string(), awkward(&Cpu)?.to_string());
        assert!(format!("{x:?}").contains(&format!("{device:?}")));
        Ok(Vec::new())
    }
}

#[test]
fn foreign_memory_of_a_device_is_given_back_once() -> Result<()> {
    let device = Ledger::default();
    let owner = Tensor::from_slice(&[1.0, 2.0], [2], &device)?;
    let address = owner.raw_ptr().cast_mut();
    let (given_back, told) = std::sync::mpsc::channel();
    // SAFETY: the memory of `owner`, which lives on, and which nobody writes.
    let guest = unsafe {
        Tensor::from_external(address, [2], &device, move |_, nbytes| {
            given_back.send(nbytes).expect("somebody listens")
        })
    }?;
    assert_eq!((&guest + &owner).to_vec()?, [2.0, 4.0]);
    drop(guest);
    assert_eq!(told.iter().collect::<Vec<_>>(), [16]);
    Ok(())
}
