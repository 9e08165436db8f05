//! In place: assign, fill, operators in place, `+=`; the operators of Rust; the operand that gives its memory
//! to the result.

use crate::arrange::{SIZE, arranged, arranged_or_sampled};
use crate::sampled;
use crate::value::{Random, Value, differ};
use rankform::ops;
use rankform::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A part of a larger tensor to write into: its view, and the positions of its elements in the whole.
struct Target {
    kind: &'static str,
    size: [usize; 3],
    part: for<'a> fn(TensorViewMut<'a, f32, 3>) -> Result<TensorViewMut<'a, f32, 3>>,
    at: fn([usize; 3]) -> [usize; 3],
}

/// Each part has the sizes of [`SIZE`].
const TARGETS: [Target; 5] = [
    Target { kind: "whole", size: [5, 6, 7], part: |view| Ok(view), at: |index| index },
    Target {
        kind: "permuted",
        size: [7, 5, 6],
        part: |view| view.permuted([1, 2, 0]),
        at: |[i, j, k]| [k, i, j],
    },
    Target {
        kind: "reversed",
        size: [5, 6, 7],
        part: |view| Ok(view.reversed(Axis::<0>).reversed(Axis::<2>)),
        at: |[i, j, k]| [4 - i, j, 6 - k],
    },
    Target {
        kind: "sliced",
        size: [11, 8, 22],
        part: |view| view.slice(((1..).step(2), 1..7, (1..).step(3))),
        at: |[i, j, k]| [1 + 2 * i, 1 + j, 1 + 3 * k],
    },
    Target {
        kind: "backwards by 2",
        size: [10, 6, 13],
        part: |view| view.slice(((..).step(-2), .., (..).step(-2))),
        at: |[i, j, k]| [9 - 2 * i, j, 12 - 2 * k],
    },
];

/// Writes through every kind of exclusive view, from every kind of operand: elements inside are
/// `expected(old, operand)`, those outside are unchanged.
fn writes(
    write: impl for<'a> Fn(&mut TensorViewMut<'a, f32, 3>, &Tensor<f32, 3>) -> Result<()>,
    expected: impl Fn(f32, f32) -> f32,
) -> Result<()> {
    let mut random = Random(61);
    for operand in arranged_or_sampled(SIZE, || f32::moderate(&mut random)) {
        let values = operand.tensor.broadcast_to(SIZE)?.to_vec()?;
        for Target { kind, size, part, at } in TARGETS {
            let mut whole =
                Tensor::from_fn(size, |[i, j, k]| (i * 100 + j * 10 + k) as f32 * 0.01 + 1.0, &Cpu)?;
            let mut truth = Tensor::from_slice(&whole.to_vec()?, size, &Cpu)?;
            let mut view = truth.view_mut()?;
            for (index, value) in Dim(SIZE).indices().zip(&values) {
                view[at(index)] = expected(view[at(index)], *value);
            }
            write(&mut part(whole.view_mut()?)?, &operand.tensor)?;
            assert_eq!(differ(&whole.to_vec()?, &truth.to_vec()?), None, "into {kind} from {}", operand.kind);
        }
    }
    Ok(())
}

#[test]
fn assignments_reach_every_element_of_a_part_and_no_other() -> Result<()> {
    writes(|view, y| view.assign(y), |_, y| y)?;
    writes(|view, y| view.assign(y.lazy() * 2.0 + 1.0), |_, y| y * 2.0 + 1.0)?;
    writes(|view, y| (y.lazy() - 3.0).eval_into(view), |_, y| y - 3.0)?;
    writes(|view, _| view.fill(7.0), |_, _| 7.0)?;
    writes(|view, _| view.assign(2.5), |_, _| 2.5)
}

#[test]
fn operators_in_place_reach_every_element_of_a_part_and_no_other() -> Result<()> {
    writes(|view, y| view.zip_in_place(ops::Sub, y), |x, y| x - y)?;
    writes(|view, y| view.zip_in_place(ops::Maximum, y.lazy() * y), |x, y| x.max(y * y))?;
    writes(|view, _| view.map_in_place(ops::Square), |x, _| x * x)?;
    writes(|view, _| view.zip_in_place(ops::Div, 4.0), |x, _| x / 4.0)?;
    writes(
        |view, y| {
            *view += y;
            Ok(())
        },
        |x, y| x + y,
    )?;
    writes(
        |view, y| {
            *view -= y.lazy() + 1.0;
            Ok(())
        },
        |x, y| x - (y + 1.0),
    )?;
    writes(
        |view, y| {
            *view *= y;
            Ok(())
        },
        |x, y| x * y,
    )?;
    writes(
        |view, _| {
            *view /= 8.0;
            Ok(())
        },
        |x, _| x / 8.0,
    )
}

#[test]
fn in_place_on_many_blocks_is_the_same_as_into_new_memory() -> Result<()> {
    for n in [31, 255, 257, 1000, 40_003, 200_001] {
        let make = || Tensor::from_fn([n], |[i]| (i % 1013) as f32 * 0.37, &Cpu);
        let (mut x, y) = (make()?, make()?);
        let expected = (x.lazy() * y.slice(((..).step(-1),))? + 1.0).eval()?.to_vec()?;
        x *= y.slice(((..).step(-1),))?;
        x += 1.0;
        assert_eq!(x.to_vec()?, expected, "{n}");
        x.map_in_place(ops::Neg)?;
        assert_eq!(x.neg()?.to_vec()?, expected, "{n}");
    }
    Ok(())
}

#[test]
fn parts_of_one_tensor_are_written_from_others() -> Result<()> {
    // Exclusive views with interleaved elements, and adjacent ones.
    let mut x = Tensor::from_fn([6, 50], |[i, j]| (i * 50 + j) as i32, &Cpu)?;
    let (mut above, below) = x.view_mut()?.split_at_mut(Axis::<0>, 3)?;
    above.assign(below.as_view().reversed(Axis::<0>))?;
    above += &below;
    assert!(Dim([6, 50]).indices().all(|[i, j]| x[[i, j]]
        == if i < 3 { ((5 - i) * 50 + j + (i + 3) * 50 + j) as i32 } else { (i * 50 + j) as i32 }));
    let (left, mut right) = x.view_mut()?.split_at_mut(Axis::<1>, 25)?;
    right.assign(&left)?;
    assert!(Dim([6, 25]).indices().all(|[i, j]| x[[i, j]] == x[[i, j + 25]]));
    Ok(())
}

#[test]
fn writing_refuses_sizes_that_do_not_stretch_to_the_target_and_memory_that_is_shared() -> Result<()> {
    let mut x = Tensor::<f32, 2>::zeros([1, 3], &Cpu)?;
    let larger = Tensor::<f32, 2>::ones([2, 3], &Cpu)?;
    let fits_not =
        |op: &str| format!("{op}: a result of sizes [2, 3] does not fit the output, of sizes [1, 3]");
    assert_eq!(x.assign(&larger).unwrap_err().to_string(), fits_not("assign"));
    assert_eq!(larger.lazy().neg().eval_into(&mut x).unwrap_err().to_string(), fits_not("eval_into"));
    assert_eq!(larger.copy_to(&mut x).unwrap_err().to_string(), fits_not("copy_to"));
    assert_eq!(x.zip_in_place(ops::Add, &larger).unwrap_err().to_string(), fits_not("add"));
    assert_eq!(x.zip_in_place(ops::Add, larger.lazy() + &larger).unwrap_err().to_string(), fits_not("add"));
    let message = catch_unwind(AssertUnwindSafe(|| x += &larger)).unwrap_err();
    assert_eq!(*message.downcast_ref::<String>().unwrap(), fits_not("add_assign"));
    // A copied tensor is not broadcast either; the error names operands that fit nowhere.
    let error = x.copy_to(&mut larger.copy()?).unwrap_err().to_string();
    assert_eq!(error, "copy_to: a result of sizes [1, 3] does not fit the output, of sizes [2, 3]");
    let (mut two, four) = (larger.copy()?, Tensor::<f32, 2>::ones([4, 3], &Cpu)?);
    let message = catch_unwind(AssertUnwindSafe(|| two += &four)).unwrap_err();
    assert_eq!(
        message.downcast_ref::<String>().unwrap(),
        "add_assign: sizes [2, 3] and [4, 3] do not broadcast"
    );
    assert_eq!(x.to_vec()?, [0.0; 3]);
    let other = x.share_data();
    assert!(matches!(x.fill(1.0), Err(Error::Shared { .. })));
    assert!(matches!(x.map_in_place(ops::Neg), Err(Error::Shared { .. })));
    assert!(catch_unwind(AssertUnwindSafe(|| x += 1.0)).is_err());
    assert_eq!(other.to_vec()?, [0.0; 3]);
    Ok(())
}

#[test]
fn operators_of_rust_are_the_named_ones_for_tensors_views_expressions_and_numbers() -> Result<()> {
    let make =
        |by: usize| Tensor::from_fn([3, 40], |[i, j]| ((i * 40 + j) * by % 17) as f64 + 0.5, &Cpu).unwrap();
    let (x, y) = (make(3), make(5));
    macro_rules! all {
        ($($op:tt $method:ident)*) => { $(
            let named = x.$method(&y)?.to_vec()?;
            assert_eq!((&x $op &y).to_vec()?, named);
            assert_eq!((x.view() $op y.view()).to_vec()?, named);
            assert_eq!((make(3) $op &y).to_vec()?, named);
            assert_eq!((&x $op y.lazy()).to_vec()?, named);
            assert_eq!((x.lazy() $op &y).eval()?.to_vec()?, named);
            assert_eq!((x.lazy() $op y.lazy()).eval()?.to_vec()?, named);
            let beside = x.$method(2.0)?.to_vec()?;
            assert_eq!(
                [(&x $op 2.0).to_vec()?, (make(3) $op 2.0).to_vec()?, (x.lazy() $op 2.0).eval()?.to_vec()?],
                [&beside[..]; 3]
            );
            let before: Vec<f64> = x.iter().map(|x| 2.0 $op x).collect();
            assert_eq!([(2.0 $op &x).to_vec()?, (2.0 $op x.lazy()).eval()?.to_vec()?], [&before[..]; 2]);
        )* };
    }
    all!(+ add - sub * mul / div);
    assert_eq!((-&x).to_vec()?, x.neg()?.to_vec()?);
    assert_eq!((-x.lazy()).eval()?.to_vec()?, x.neg()?.to_vec()?);
    let message = catch_unwind(|| &Tensor::from([1.0, 2.0]) + &Tensor::from([1.0, 2.0, 3.0])).unwrap_err();
    assert_eq!(message.downcast_ref::<String>().unwrap(), "add: sizes [2] and [3] do not broadcast");
    Ok(())
}

#[test]
fn an_operator_of_rust_that_panics_points_at_its_caller() {
    thread_local!(static PLACE: std::cell::Cell<(bool, u32)> = const { std::cell::Cell::new((false, 0)) });
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place =
            info.location().map_or((false, 0), |place| (place.file().ends_with("place.rs"), place.line()));
        PLACE.set(place);
        report(info);
    }));
    let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 2.0, 3.0]));
    let z = || Tensor::from([1.0, 2.0]);
    let panics: [(u32, &dyn Fn()); 5] = [
        (line!(), &|| drop(&x + &y)),
        (line!(), &|| drop(x.view() * &y)),
        (line!(), &|| drop(z() / &y)),
        (line!(), &|| {
            let mut z = z();
            z -= &y
        }),
        (line!(), &|| {
            let (mut z, _other) = {
                let z = z();
                let other = z.share_data();
                (z, other)
            };
            z *= 2.0
        }),
    ];
    for (line, panics) in panics {
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        let (here, at) = PLACE.get();
        assert!(here && (line..line + 8).contains(&at), "{at}, not {line}");
    }
}

#[test]
fn owned_operands_give_their_memory_when_nobody_else_has_it_and_the_result_fits() -> Result<()> {
    let make = || Tensor::from_fn([4, 50], |[i, j]| (i * 50 + j) as f32, &Cpu).unwrap();
    let (y, expected) = (make(), (&make() * &make() - 1.0).to_vec()?);
    // Alone: the same memory through a chain of operators.
    let x = make();
    let address = x.raw_ptr();
    let z = x * &y - 1.0;
    assert_eq!((z.raw_ptr(), z.to_vec()?), (address, expected.clone()));
    // Shared: new memory, and the other handle keeps its elements.
    let x = make();
    let (address, other) = (x.raw_ptr(), x.share_data());
    let z = x * &y - 1.0;
    assert!(z.raw_ptr() != address);
    assert_eq!((z.to_vec()?, other.to_vec()?), (expected, make().to_vec()?));
    // The other operand shares its memory.
    let x = make();
    let other = x.share_data();
    assert_eq!((x + &other).to_vec()?, (&make() + &make()).to_vec()?);
    // It stretches: the result does not fit.
    let row = Tensor::from_fn([1, 50], |[_, j]| j as f32, &Cpu)?;
    let address = row.raw_ptr();
    let z = row + &y;
    assert!(z.raw_ptr() != address && z.size() == [4, 50] && z[[3, 2]] == y[[3, 2]] + 2.0);
    // A layout of its own stays.
    let x = make().into_transposed()?;
    let address = x.raw_ptr();
    let z = x + y.transposed();
    assert_eq!((z.raw_ptr(), z.stride(), z[[7, 2]]), (address, Stride([1, 50]), 2.0 * y[[2, 7]]));
    // A stretched one has fewer elements than indices.
    let x = Tensor::from([[1.0_f32], [2.0], [3.0], [4.0]]).into_broadcast([4, 50])?;
    assert_eq!((x + &y)[[2, 30]], y[[2, 30]] + 3.0);
    Ok(())
}

#[test]
fn in_place_on_every_element_type() -> Result<()> {
    fn twice<T: Value + Number>() -> Result<()> {
        let samples = T::samples();
        let x = Tensor::from_slice(&samples, [samples.len()], &Cpu)?;
        let mut y = x.copy()?;
        y += &x;
        y.map_in_place(ops::Neg)?;
        assert_eq!(differ(&y.to_vec()?, &(&x + &x).neg()?.to_vec()?), None, "{}", T::DTYPE);
        y.fill(samples[1])?;
        assert!(y.iter().all(|y| y.same(samples[1])));
        Ok(())
    }
    twice::<i8>()?;
    twice::<u16>()?;
    twice::<i64>()?;
    twice::<rankform::f16>()?;
    twice::<rankform::bf16>()?;
    twice::<f64>()?;
    twice::<num_complex::Complex<f32>>()?;
    twice::<num_complex::Complex<f64>>()
}

#[test]
fn the_memory_of_an_operand_is_taken_only_for_a_result_like_any_other() -> Result<()> {
    let x = Tensor::from([1.0, 2.0, 3.0, 4.0]).into_slice(((..).step(2),))? + 1.0;
    assert_eq!((x.stride(), x.as_slice()), (Stride([1]), Some(&[2.0, 4.0][..])), "results are dense");
    let x = Tensor::from([1.0, 2.0]);
    let frozen = x.detach(rankform::MetadataLock::Frozen);
    drop(x);
    assert!(!(frozen + 1.0).is_frozen(), "and their sizes are free");
    Ok(())
}

#[test]
fn concat_takes_empty_parts_views_and_meta_and_reports_a_mismatch() -> Result<()> {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let none = Tensor::<f64, 2>::zeros([2, 0], &Cpu)?;
    let joined = Tensor::concat([none.view(), x.transposed(), none.view(), x.view()], Axis::<1>)?;
    assert_eq!(joined.to_vec()?, [1.0, 3.0, 1.0, 2.0, 2.0, 4.0, 3.0, 4.0]);
    let there = x.to(&Meta::new())?;
    assert_eq!(Tensor::concat([there.view(), there.view()], Axis::<0>)?.size(), [4, 2]);
    assert!(matches!(
        Tensor::concat([] as [TensorView<f64, 2>; 0], Axis::<0>),
        Err(Error::Value { op: "concat", .. })
    ));
    // A size of 1 does not stretch: that would be another tensor than the one given.
    assert!(matches!(Tensor::concat([x.view(), x.slice((..1, ..))?], Axis::<1>), Err(Error::Value { .. })));
    let huge = Tensor::<u8, 1>::zeros([1], &Cpu)?.into_broadcast([isize::MAX as usize])?;
    assert!(matches!(
        Tensor::concat([huge.view(), huge.view(), huge.view()], Axis::<0>),
        Err(Error::Overflow { .. })
    ));
    Ok(())
}

elementwise! {
    /// Three new values of three old ones and one more.
    fn turned(a, b, c, d) -> (T, T, T) where Number { (b + d, c - a, a * d) }
    fn phase(x, y) -> (T, T) { (x.sin(), y + x.cos()) }
    fn moved(x) -> (T,) where Number { (x + x - 1,) }
}

#[test]
fn several_tensors_are_updated_in_place_in_one_pass() -> Result<()> {
    let mut random = Random(62);
    for operand in arranged(SIZE, || f32::moderate(&mut random)) {
        let d = operand.tensor.broadcast_to(SIZE)?.to_vec()?;
        for Target { kind, size, part, at } in TARGETS {
            let make =
                |by: f32| Tensor::from_fn(size, |[i, j, k]| (i * 100 + j * 10 + k) as f32 * by + 1.0, &Cpu);
            let (mut a, mut b, mut c) =
                (make(0.5)?, make(0.25)?, Tensor::from_fn(SIZE, |[i, j, k]| (i + j + k) as f32, &Cpu)?);
            let (mut x, mut y, mut z) = (a.copy()?, b.copy()?, c.copy()?);
            for (index, d) in Dim(SIZE).indices().zip(&d) {
                let there = at(index);
                let old = (x[there], y[there], z[index]);
                (x[there], y[there], z[index]) = (old.1 + d, old.2 - old.0, old.0 * d);
            }
            apply_in_place(
                turned,
                (part(a.view_mut()?)?, &mut part(b.view_mut()?)?, &mut c),
                (&operand.tensor,),
            )?;
            for (found, truth) in [(&a, &x), (&b, &y), (&c, &z)] {
                assert_eq!(
                    differ(&found.to_vec()?, &truth.to_vec()?),
                    None,
                    "into {kind} from {}",
                    operand.kind
                );
            }
        }
    }
    for n in [0, 1, 31, 512, 1000, 40_003, 200_001] {
        let make = |by: usize| Tensor::from_fn([n], |[i]| (i * by % 1013) as i32, &Cpu);
        let (mut a, mut b, mut c, d) = (make(3)?, make(5)?, make(7)?, make(11)?);
        let (x, y, z) = apply_many(turned, (&a, &b, &c, &d))?;
        apply_in_place(turned, (&mut a, &mut b, &mut c), (&d,))?;
        assert_eq!((a.to_vec()?, b.to_vec()?, c.to_vec()?), (x.to_vec()?, y.to_vec()?, z.to_vec()?), "{n}");
        apply_in_place(moved, (&mut a,), ())?;
        assert_eq!(a.to_vec()?, x.iter().map(|x| x + x - 1).collect::<Vec<_>>(), "{n}");
    }
    Ok(())
}

#[test]
fn the_full_form_in_place_reads_the_old_values() -> Result<()> {
    // Beyond 1600 the fast paths of sine and cosine do not hold: blocks with and without a larger number,
    // contiguous and strided.
    for every in sampled([1, 7, 3001, 100_000], 2) {
        let make = || {
            Tensor::from_fn(
                [20_011],
                |[i]| if i % every == every / 2 { 1e6 + i as f32 } else { i as f32 * 0.05 },
                &Cpu,
            )
        };
        let (mut x, mut y) = (make()?, make()?);
        let (sine, sum) = apply_many(phase, (&x, &y))?;
        let mut wide = Tensor::<f32, 2>::zeros([20_011, 3], &Cpu)?;
        wide.view_mut()?.slice((.., 1))?.assign(&x)?;
        apply_in_place(phase, (wide.view_mut()?.slice((.., 1))?, &mut y.copy()?), ())?;
        apply_in_place(phase, (&mut x, &mut y), ())?;
        assert_eq!((x.to_vec()?, y.to_vec()?), (sine.to_vec()?, sum.to_vec()?), "{every}");
        assert_eq!(wide.slice((.., 1))?.to_vec()?, sine.to_vec()?, "{every}");
        let mut z = make()?;
        z.map_in_place(ops::Sin)?;
        assert_eq!(z.to_vec()?, sine.to_vec()?, "{every}");
    }
    Ok(())
}

#[test]
fn updates_in_place_refuse_as_other_operators_in_place_and_write_nothing() -> Result<()> {
    let (mut a, mut b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    let other = b.share_data();
    let shared = apply_in_place(phase, (&mut a, &mut b), ()).unwrap_err();
    assert!(matches!(shared, Error::Shared { .. }), "{shared}");
    drop(other);
    let longer = Tensor::from([1.0, 2.0, 3.0]);
    let sizes = apply_in_place(turned, (&mut a, &mut b, &mut longer.copy()?), (&longer,)).unwrap_err();
    assert!(matches!(sizes, Error::Sizes { .. }), "{sizes}");
    // An updated tensor is not broadcast, neither to another updated tensor nor to an operand.
    let (mut one, mut two) = (Tensor::from([1.0]), Tensor::from([1.0]));
    let error = apply_in_place(phase, (&mut a, &mut one), ()).unwrap_err().to_string();
    assert_eq!(error, "phase: a result of sizes [2] does not fit the output, of sizes [1]");
    let error = apply_in_place(turned, (&mut one, &mut two, &mut Tensor::from([0.0])), (&longer,))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "turned: a result of sizes [3] does not fit the output, of sizes [1]");
    let mut once = Tensor::from([5.0, 6.0]);
    once.set_sizes_and_strides([2], [0])?;
    let overlap = apply_in_place(phase, (&mut once, &mut a), ()).unwrap_err();
    assert!(matches!(overlap, Error::Overlap { .. }), "{overlap}");
    assert_eq!((a.to_vec()?, b.to_vec()?, one.to_vec()?), (vec![1.0, 2.0], vec![3.0, 4.0], vec![1.0]));
    Ok(())
}

#[test]
fn updates_in_place_run_on_every_device_and_settle_rows() -> Result<()> {
    let device = Meta::tracing();
    let (mut a, mut b) = (Tensor::<f32, 2, _>::zeros([3, 4], &device)?, Tensor::zeros([3, 4], &device)?);
    apply_in_place(phase, (&mut a, &mut b), ())?;
    assert_eq!(device.kernels().len(), 1);
    let x = Tensor::from_fn([5, 300], |[i, j]| (i * 300 + j) as f64, &Cpu)?;
    let mut n = Tensor::full([5, 300], 3, &Cpu)?;
    let mut y = x.transposed().to_contiguous()?.into_transposed()?;
    let expected = (&x + x.max_along(Axis::<1>)).to_vec()?;
    elementwise! { fn raised(x, top) -> (T,) where Number { (x + top,) } }
    apply_in_place(raised, (&mut y,), (x.max_along(Axis::<1>),))?;
    assert_eq!(y.to_vec()?, expected);
    apply_in_place(moved, (&mut n,), ())?;
    assert_eq!(n.to_vec()?, [5; 1500]);
    Ok(())
}

fn beside_columns<T: Value + Number>() -> Result<()> {
    let mut random = Random(67);
    for [m, n] in [[3, 31], [3, 32], [5, 100], [2, 1500], [70, 33]] {
        let column = Tensor::from_fn([m, 1], |_| T::moderate(&mut random), &Cpu)?;
        let whole = Tensor::from_fn([m, n], |_| T::moderate(&mut random), &Cpu)?;
        let wider = Tensor::from_fn([m, 2 * n], |_| T::moderate(&mut random), &Cpu)?;
        let rows = [
            ("a run", whole.view()),
            ("crosswise", whole.view().reshape([n, m])?.transposed()),
            ("backwards", whole.reversed(Axis::<1>)),
            ("every second", wider.slice((.., (..).step(2)))?),
            ("one row", whole.slice((..1, ..))?),
        ];
        // A column of its own, a strided one, and one with a negative stride.
        for column in [column.view(), whole.slice((.., 1..2))?, column.reversed(Axis::<0>)] {
            let same = column.broadcast_to([m, n])?.to_contiguous()?;
            for (kind, row) in &rows {
                let full = row.broadcast_to([m, n])?.to_contiguous()?;
                let kind = format!("{} {kind}, [{m}, {n}]", T::DTYPE);
                assert_eq!(differ(&row.sub(column)?.to_vec()?, &full.sub(&same)?.to_vec()?), None, "{kind}");
                assert_eq!(
                    differ(&column.sub(row)?.to_vec()?, &same.sub(&full)?.to_vec()?),
                    None,
                    "{kind}, column first"
                );
                assert_eq!(row.equal(column)?.to_vec()?, full.equal(&same)?.to_vec()?, "{kind}");
                let mut place = full.copy()?;
                place.zip_in_place(ops::Sub, column)?;
                assert_eq!(differ(&place.to_vec()?, &full.sub(&same)?.to_vec()?), None, "{kind} in place");
            }
        }
    }
    Ok(())
}

#[test]
fn a_column_operand_is_read_as_one_element_a_row() -> Result<()> {
    beside_columns::<f32>()?;
    beside_columns::<f64>()?;
    beside_columns::<rankform::f16>()?;
    beside_columns::<i64>()?;
    beside_columns::<u8>()?;
    beside_columns::<num_complex::Complex<f64>>()
}
