#![cfg(feature = "cuda")]
//! Operators on a graphics card give what they give on the CPU. Without a card it says that it was skipped, and fails where
//! `RANKFORM_REQUIRE_CUDA` is set.

use rankform::Cuda;
use rankform::check::Differential;
use rankform::kernel::Op;
use rankform::ops::{self, Visit, each_operator};
use rankform::prelude::*;

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

macro_rules! on_card {
    ($name:ident, |$card:ident| $body:block) => {
        #[test]
        fn $name() -> Result<()> {
            let Some($card) = card() else { return Ok(()) };
            $body
            Ok(())
        }
    };
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 2654435761 % 1000) as f32 - 500.0) / 37.0).collect()
}

on_card!(elementwise, |card| {
    let x = Tensor::from_vec(numbers(35), [5, 7])?;
    let (y, z) = (x.to(&card)?, x.exp()?);
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
    let y = x.to(&card)?;
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
    let y = x.to(&card)?;
    let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-3 * (1.0 + b.abs()));
    assert!(close(y.matmul(y.transposed())?.to_vec()?, x.matmul(x.transposed())?.to_vec()?));
    let picks = Tensor::from_vec(vec![3i64, 0, 59, 3], [4])?;
    assert_eq!(y.index_select(Axis::<0>, &picks.to(&card)?)?.to_vec()?, x.index_select(Axis::<0>, &picks)?.to_vec()?);
    let wrong = Tensor::from_vec(vec![3i64, 60], [2])?;
    assert_eq!(y.index_select(Axis::<0>, &wrong.to(&card)?).unwrap_err(), x.index_select(Axis::<0>, &wrong).unwrap_err());
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
    let mut visit = Elementwise { differences: Differential::new(&card, 7), wrong: Vec::new() };
    each_operator(&mut visit);
    println!("{} cases", visit.differences.cases());
    assert!(visit.wrong.is_empty(), "{} operators differ:\n{}", visit.wrong.len(), visit.wrong.join("\n"));
});

on_card!(reductions_and_scans_agree, |card| {
    let mut differences = Differential::new(&card, 11);
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
