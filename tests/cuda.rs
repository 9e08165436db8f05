#![cfg(feature = "cuda")]
//! Operators on a graphics card give what they give on the CPU. Without a card it says that it was skipped, and fails where
//! `RANKFORM_REQUIRE_CUDA` is set.

use rankform::AnyDevice;
use rankform::Cuda;
use rankform::check::Differential;
use rankform::kernel::Op;
use rankform::ops::{self, Visit, each_operator};
use rankform::prelude::*;
use std::sync::{Mutex, PoisonError};

fn card() -> Option<Cuda> {
    match Cuda::new(0) {
        Ok(card) => Some(card),
        Err(missing) => {
            assert!(std::env::var_os("RANKFORM_REQUIRE_CUDA").is_none(), "{missing}");
            println!("skipped: {missing}");
            None
        }
    }
}

/// Who holds it has the card for itself, so that its bytes can be counted.
static CARD: Mutex<()> = Mutex::new(());

/// A test on the first card, after which nothing is left there.
macro_rules! on_card {
    ($name:ident, |$card:ident| $body:block) => {
        #[test]
        fn $name() -> Result<()> {
            let _mine = CARD.lock().unwrap_or_else(PoisonError::into_inner);
            let Some($card) = card() else { return Ok(()) };
            fn body($card: &Cuda) -> Result<()> {
                $body
                Ok(())
            }
            body(&$card)?;
            $card.synchronize()?;
            assert_eq!($card.memory().live, 0, "memory of the card that nobody gave back");
            Ok(())
        }
    };
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 2654435761 % 1000) as f32 - 500.0) / 37.0).collect()
}

on_card!(elementwise, |card| {
    let x = Tensor::from_vec(numbers(35), [5, 7])?;
    let (y, z) = (x.to(card)?, x.exp()?);
    assert_eq!(y.to_vec()?, x.to_vec()?);
    assert_eq!(y.exp()?.to_vec()?, z.to_vec()?);
    assert_eq!((y.lazy() * &y + 1.5).sin().eval()?.to_vec()?, (x.lazy() * &x + 1.5).sin().eval()?.to_vec()?);
    let t = y.transposed();
    assert_eq!(t.add(&t)?.to_vec()?, x.transposed().add(&x.transposed())?.to_vec()?);
    assert_eq!(y.gelu()?.to_vec()?, x.gelu()?.to_vec()?);
    assert_eq!(y.greater(0.5)?.to_vec()?, x.greater(0.5)?.to_vec()?);
});

on_card!(reductions, |card| {
    let x = Tensor::from_vec(numbers(4200), [60, 70])?;
    let y = x.to(card)?;
    assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argmax(Axis::<0>)?.to_vec()?, x.argmax(Axis::<0>)?.to_vec()?);
    let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
    assert!(close(y.sum(Axis::<1>)?.to_vec()?, x.sum(Axis::<1>)?.to_vec()?));
    assert!(close(y.sum(Axis::<0>)?.to_vec()?, x.sum(Axis::<0>)?.to_vec()?));
    assert!(close(y.sum(All)?.to_vec()?, x.sum(All)?.to_vec()?));
    assert!(close(y.softmax(Axis::<1>)?.to_vec()?, x.softmax(Axis::<1>)?.to_vec()?));
    assert!(close(y.softmax(Axis::<0>)?.to_vec()?, x.softmax(Axis::<0>)?.to_vec()?));
    assert!(close(y.cumsum(Axis::<1>)?.to_vec()?, x.cumsum(Axis::<1>)?.to_vec()?));
    assert!(close(y.cumsum(Axis::<0>)?.to_vec()?, x.cumsum(Axis::<0>)?.to_vec()?));
});

on_card!(moves_and_products, |card| {
    let x = Tensor::from_vec(numbers(4200), [60, 70])?;
    let y = x.to(card)?;
    let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-3 * (1.0 + b.abs()));
    assert!(close(y.matmul(y.transposed())?.to_vec()?, x.matmul(x.transposed())?.to_vec()?));
    let picks = Tensor::from_vec(vec![3i64, 0, 59, 3], [4])?;
    assert_eq!(y.index_select(Axis::<0>, &picks.to(card)?)?.to_vec()?, x.index_select(Axis::<0>, &picks)?.to_vec()?);
    let wrong = Tensor::from_vec(vec![3i64, 60], [2])?;
    assert_eq!(y.index_select(Axis::<0>, &wrong.to(card)?).unwrap_err(), x.index_select(Axis::<0>, &wrong).unwrap_err());
    assert_eq!(y.sort(Axis::<1>)?.to_vec()?, x.sort(Axis::<1>)?.to_vec()?);
    assert_eq!(y.argsort(Axis::<0>)?.to_vec()?, x.argsort(Axis::<0>)?.to_vec()?);
    assert_eq!(y.masked_select(&y.greater(0.0)?)?.to_vec()?, x.masked_select(&x.greater(0.0)?)?.to_vec()?);
});

/// Every built-in operator of elements, on every element that it takes: the same bits as on the CPU.
struct Elementwise {
    differences: Differential<Cuda>,
    wrong: Vec<String>,
}

impl Visit for Elementwise {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F) {
        let done = self.differences.unary::<F, T>(operator, 0);
        self.wrong.extend(done.err().map(|error| error.to_string()));
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F) {
        let done = self.differences.binary::<F, T>(operator, 0);
        self.wrong.extend(done.err().map(|error| error.to_string()));
    }
}

on_card!(every_operator_has_the_bits_of_the_cpu, |card| {
    let mut visit = Elementwise { differences: Differential::new(card, 7), wrong: Vec::new() };
    each_operator(&mut visit);
    println!("{} cases", visit.differences.cases());
    assert!(visit.wrong.is_empty(), "{} operators differ:\n{}", visit.wrong.len(), visit.wrong.join("\n"));
});

on_card!(reductions_and_scans_agree, |card| {
    let mut differences = Differential::new(card, 11);
    macro_rules! each {
        ($($reducer:ident: $($t:ty)*;)*) => { $($(
            differences.reduce::<_, $t>(ops::$reducer, 0)?;
            differences.scan::<_, $t>(ops::$reducer, 0)?;
        )*)* };
    }
    each! {
        Sum: i32 u8 i64 u64;
        Prod: i16 u32;
        Max: f32 f64 i8 u64;
        Min: f32 f64 i32;
        ArgMax: f32 f64 i16;
        ArgMin: f32 u8;
        Any: bool;
        AllTrue: bool;
    }
    println!("{} cases", differences.cases());
});

on_card!(what_cannot_be_had_is_an_error_with_the_reason, |card| {
    let nothing = Cuda::new(1000).unwrap_err().to_string();
    assert!(nothing.starts_with("Cuda::new: there is no device 1000; "), "{nothing}");
    let huge = Tensor::<u8, 1, Cuda>::empty([1 << 46], card)?.mutable_data().err();
    let Some(Error::OutOfMemory { nbytes, .. }) = Tensor::<u8, 1, Cuda>::zeros([1 << 46], card).err() else {
        panic!("64 TiB were had: {huge:?}")
    };
    assert_eq!(nbytes, 1 << 46);
    // The card works on.
    assert_eq!(Tensor::full([3], 2.5f32, card)?.exp()?.to_vec()?, Tensor::full([3], 2.5f32, &Cpu)?.exp()?.to_vec()?);
    card.check()?;
});

on_card!(cards_of_two_numbers_do_not_mix, |card| {
    let Ok(other) = Cuda::new(1) else {
        println!("skipped: there is one card");
        return Ok(());
    };
    assert_ne!(card, &other);
    let (a, b) = (Tensor::full([2], 1.0f32, card)?, Tensor::full([2], 1.0f32, &other)?);
    assert_eq!(a.add(&b).unwrap_err().to_string(), "add: operands live on Cuda(0) and Cuda(1); `.to(&device)` moves one");
    assert_eq!(a.add(&b.to(card)?)?.to_vec()?, [2.0, 2.0]);
});

on_card!(a_device_that_is_chosen_at_run_time, |card| {
    let chosen: AnyDevice = "cuda:0".parse()?;
    assert_eq!(chosen, AnyDevice::from(card.clone()));
    let host: AnyDevice = "cpu".parse()?;
    let x = Tensor::from_vec(numbers(12), [3, 4])?;
    let mixed: Vec<Tensor<f32, 2, AnyDevice>> = vec![x.to(&chosen)?, x.to(&host)?];
    for y in &mixed {
        assert_eq!(y.max(Axis::<1>)?.to_vec()?, x.max(Axis::<1>)?.to_vec()?);
    }
    assert!(matches!(mixed[0].add(&mixed[1]), Err(Error::Device { .. })));
    assert!(matches!("cuda:77".parse::<AnyDevice>(), Err(Error::NoDevice { ordinal: 77, .. })));
});

on_card!(work_that_is_queued_outlives_the_tensors_that_it_reads, |card| {
    let x = Tensor::from_vec(numbers(1 << 16), [1 << 16])?;
    let y = {
        let first = x.to(card)?;
        let second = first.lazy().square().eval()?;
        drop(first);
        (second.lazy() + 1.0).eval()? // `second` goes before anybody has waited
    };
    assert_eq!(y.to_vec()?, (x.lazy().square() + 1.0).eval()?.to_vec()?);
});

on_card!(crosswise_operands_go_through_tiles, |card| {
    let x = Tensor::from_vec(numbers(3 * 70 * 45), [3, 70, 45])?;
    let y = x.to(card)?;
    let (t, u) = (x.permuted([0, 2, 1])?, y.permuted([0, 2, 1])?);
    assert_eq!(u.to_contiguous()?.to_vec()?, t.to_contiguous()?.to_vec()?);
    let (row, column) = (Tensor::from_vec(numbers(3 * 45 * 70), [3, 45, 70])?, x.permuted([0, 2, 1])?);
    assert_eq!(row.to(card)?.add(u)?.to_vec()?, row.add(column)?.to_vec()?);
    assert_eq!(y.permuted([1, 2, 0])?.copy()?.to_vec()?, x.permuted([1, 2, 0])?.copy()?.to_vec()?);
});
