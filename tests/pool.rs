//! The pool of host memory under many threads: every block has one owner at a time, and every byte is
//! accounted for.
//!
//! A test program of its own, because it asks for exact counts of the whole process. The checking allocator
//! sees a block that is given back twice or written after it was given back.

#[path = "common/alloc.rs"]
mod alloc;

use rankform::ops::{CumSum, Sum};
use rankform::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};

const THREADS: u64 = 8;
const STEPS: u64 = if cfg!(miri) {
    8
} else if cfg!(debug_assertions) {
    100
} else {
    2000
};
/// The pool keeps blocks from here on.
const POOLED: usize = 32 << 10;

/// Numbers without a pattern: xorshift.
struct Dice(u64);
impl Dice {
    fn new(number: u64) -> Self {
        Dice((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// A tensor with its owner's number in each element.
struct Marked {
    memory: Tensor<u64, 1>,
    owner: u64,
}

impl Marked {
    fn new(dice: &mut Dice, owner: u64) -> Self {
        // Mostly sizes that the pool keeps and that share capacities, some below them, few on huge pages.
        let numel = match dice.roll(32) {
            0..6 => 1 + dice.roll(POOLED / 8 - 1),
            6..31 => POOLED / 8 + dice.roll(12) * 500,
            _ => (4 << 20) / 8 + dice.roll(3) * 5000,
        };
        let mut memory = Tensor::empty([numel], &Cpu).unwrap();
        memory.mutable_data().unwrap();
        memory.view_mut().unwrap().as_slice_mut().unwrap().fill(owner);
        Marked { memory, owner }
    }

    fn pooled(&self) -> bool {
        self.memory.numel() * 8 >= POOLED
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let others = self.memory.as_slice().unwrap().iter().filter(|&&mark| mark != self.owner).count();
        assert_eq!(others, 0, "somebody else wrote into a block of {} bytes", self.memory.numel() * 8);
    }
}

#[test]
fn a_block_has_one_owner_and_every_byte_is_counted_while_threads_take_give_and_change_the_limit() {
    let limit = Cpu.memory().limit;
    Cpu.trim();
    let (bytes, before) = (alloc::live(), Cpu.memory());
    assert_eq!((before.live, before.kept), (0, 0));
    let (taken, running, start) =
        (AtomicU64::new(0), AtomicBool::new(true), Barrier::new(THREADS as usize + 1));
    std::thread::scope(|scope| {
        let (taken, running, start) = (&taken, &running, &start);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<Marked>()).unzip();
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(number, inbox)| {
                let senders = senders.clone();
                scope.spawn(move || {
                    let mut dice = Dice::new(number as u64);
                    let mut held = Vec::new();
                    start.wait();
                    for step in 0..STEPS {
                        let block = Marked::new(&mut dice, 1 + number as u64 + step * THREADS);
                        taken.fetch_add(u64::from(block.pooled()), SeqCst);
                        match dice.roll(4) {
                            // Whoever has it next gives it back, on another thread; one that has ended drops
                            // it here.
                            0 => drop(senders[dice.roll(senders.len())].send(block)),
                            _ => held.push(block),
                        }
                        inbox.try_iter().for_each(drop);
                        while held.len() > dice.roll(6) {
                            held.swap_remove(dice.roll(held.len()));
                        }
                    }
                })
            })
            .collect();
        drop(senders);
        scope.spawn(move || {
            start.wait();
            let mut dice = Dice::new(THREADS);
            while running.load(SeqCst) {
                Cpu.set_memory_limit([0, POOLED, 1 << 20, 16 << 20, usize::MAX][dice.roll(5)]);
                if dice.roll(3) == 0 {
                    Cpu.trim();
                }
                let now = Cpu.memory();
                assert!(now.reused + now.fresh - before.reused - before.fresh <= STEPS * THREADS);
                std::thread::yield_now();
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        running.store(false, SeqCst);
        ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });

    let after = Cpu.memory();
    assert_eq!(after.live, 0, "every block was given back");
    assert_eq!(
        after.fresh + after.reused - before.fresh - before.reused,
        taken.into_inner(),
        "each was counted once"
    );
    assert!(after.reused > before.reused && after.fresh > before.fresh);
    Cpu.set_memory_limit(0);
    assert_eq!(Cpu.memory().kept, 0, "nothing is kept beyond the limit");
    // Threads and channels leave a few bytes to the standard library, which counts them when it likes; a
    // block is larger.
    assert!(
        (alloc::live() - bytes).unsigned_abs() < POOLED / 8,
        "the system has the blocks back: {} bytes",
        alloc::live() - bytes
    );

    Cpu.set_memory_limit(limit);
    fresh_memory_is_zero_whatever_it_held(POOLED / 8);
    fresh_memory_is_zero_whatever_it_held((4 << 20) / 8);
    Cpu.trim();

    // The bytes kept are exactly the bytes that can be freed.
    let blocks: Vec<_> = (1..=20).map(|owner| Marked::new(&mut Dice::new(owner), owner)).collect();
    let live = Cpu.memory().live;
    assert!(live > 0);
    drop(blocks);
    assert_eq!((Cpu.memory().live, Cpu.memory().kept), (0, live));
    assert_eq!((Cpu.trim(), Cpu.memory().kept), (live, 0));

    for n in [1, 8, 60, 200, 600] {
        repeated_steps_take_no_new_memory(n).unwrap();
    }
}

/// Scratch of operations is kept too. One thread: other threads would take it.
fn repeated_steps_take_no_new_memory(n: usize) -> Result<()> {
    let x = Tensor::from_fn([n, n], |[i, j]| ((i * 7 + j * 3) % 11) as f32, &Cpu)?;
    let (mut y, mut sums) = (Tensor::<f32, 2>::zeros([n, n], &Cpu)?, Tensor::<f32, 1>::zeros([n], &Cpu)?);
    let order = Tensor::from_fn([n], |[i]| (n - 1 - i) as i64, &Cpu)?;
    let mut step = || -> Result<()> {
        (x.lazy() - x.mean_along(Axis::<0>)).eval_into(&mut y)?;
        let powers = (x.lazy() - x.max_along(Axis::<1>)).exp().cached();
        (powers / powers.sum_along(Axis::<1>)).eval_into(&mut y)?;
        let powers = (x.lazy() - x.max_along(Axis::<0>)).exp().cached();
        (powers / powers.sum_along(Axis::<0>)).eval_into(&mut y)?;
        (x.transposed().lazy() * 2.0).eval_into(&mut y)?;
        x.reduce_into(Sum, Axis::<0>, &mut sums)?;
        x.transposed().reduce_into(Sum, Axis::<1>, &mut sums)?;
        x.softmax_into(Axis::<0>, &mut y)?;
        x.layer_norm_into(Axis::<1>, 1e-5, &mut y)?;
        x.scan_into(CumSum, Axis::<0>, &mut y)?;
        x.transposed().scan_into(CumSum, Axis::<1>, &mut y)?;
        x.roll_into(Axis::<0>, 1, &mut y)?;
        x.index_select_into(Axis::<1>, &order, &mut y)?;
        Tensor::concat_into([x.slice((1.., ..))?, x.slice((..1, ..))?], Axis::<0>, &mut y)?;
        x.matmul_into(x.transposed(), &mut y)?;
        einsum_into!("ij,jk->ki", &x, &x, &mut y)?;
        y *= 0.5;
        Ok(())
    };
    on_one_thread(|| {
        step()?;
        let steady = Cpu.steady_state();
        (0..3).try_for_each(|_| step())?;
        assert_eq!(steady.allocations(), 0, "{n} × {n}");
        Ok(())
    })
}

fn on_one_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "threads")]
    return rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work);
    #[cfg(not(feature = "threads"))]
    work()
}

/// Zeros that nobody could write are zeros again for whoever asks next; all others are filled.
fn fresh_memory_is_zero_whatever_it_held(numel: usize) {
    let zeros = |numel| Tensor::<u64, 1>::zeros([numel], &Cpu).unwrap();
    let write =
        |tensor: &mut Tensor<u64, 1>| tensor.view_mut().unwrap().as_slice_mut().unwrap().fill(u64::MAX);
    for _ in 0..2 {
        drop(zeros(numel)); // untouched
        drop(zeros(numel - 8)); // untouched, and a little shorter: the rest is not known
        write(&mut zeros(numel)); // written
        drop(zeros(numel - 8));
        let read = zeros(numel);
        assert!(read.as_slice().unwrap().iter().all(|&x| x == 0));
        drop(read);
        write(&mut Tensor::full([numel], 7, &Cpu).unwrap()); // not zeros
        drop((&zeros(numel)).add(1).unwrap()); // read by an operator, whose result takes what was untouched
        let external = zeros(numel).into_raw().unwrap();
        // SAFETY: from `into_raw`, once.
        write(&mut unsafe { Tensor::<u64, 1>::from_raw(external) });
        assert!(zeros(numel).as_slice().unwrap().iter().all(|&x| x == 0));
    }
}
