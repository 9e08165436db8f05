//! Runs the blocks of a kernel one after another. The threads of a block are fibers if the kernel has a
//! barrier.
//!
//! A GPU promises no order. Blocks, and threads between two barriers, therefore run in a shuffled order. With
//! `CUDA_SIM_TWICE` a kernel runs in ascending order first, and both runs must leave the same memory: this
//! finds threads that race for a value.

use crate::memory;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Dim {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Dim {
    fn count(self) -> usize {
        self.x as usize * self.y as usize * self.z as usize
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Thread {
    index: Dim,
}

/// `Sim` of `host.h`, followed by fields that only this file uses.
#[repr(C)]
pub struct Sim {
    thread: *mut Thread,
    block: Dim,
    threads: Dim,
    blocks: Dim,
    dynamic: *mut u8,
    barrier: unsafe extern "C" fn(*mut Sim, c_int),
    fibers: *mut Fibers,
}

pub type Entry = unsafe extern "C" fn(*mut Sim, *mut *mut c_void);

/// A kernel that is loaded.
pub struct Kernel {
    pub name: String,
    pub entry: Entry,
    /// Fills shared memory with bytes that no program should read.
    pub forget: unsafe extern "C" fn(),
    /// Whether its threads have a barrier.
    pub waits: bool,
    /// Bytes of its argument, and of its static shared memory.
    pub arguments: usize,
    pub shared: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Ready,
    /// At the barrier in this line of the source.
    Waits(c_int),
    Done,
}

struct Fibers {
    /// The stack pointer of the scheduler while a fiber runs, and those of the fibers while they wait.
    scheduler: *mut u8,
    stacks: Vec<*mut u8>,
    states: Vec<State>,
    now: usize,
    entry: Entry,
    arguments: *mut *mut c_void,
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // Saves the callee-saved registers, then switches to another stack.
    ".globl cuda_sim_switch",
    "cuda_sim_switch:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    // The entry of a new fiber: r13 is its function, r12 the argument.
    ".globl cuda_sim_begin",
    "cuda_sim_begin:",
    "mov rdi, r12",
    "and rsp, -16",
    "call r13",
    "ud2",
);
unsafe extern "C" {
    fn cuda_sim_switch(save: *mut *mut u8, to: *mut u8);
    fn cuda_sim_begin();
}

/// Bytes of the stack of a fiber.
const STACK: usize = 256 << 10;
/// Stacks at equal distances would share a few cache sets.
const SKEW: usize = 17 * 64;
/// The largest number of threads of a block.
const MAX_THREADS: usize = 1024;
/// The largest number of bytes of shared memory without an opt-in, which rankform does not use.
const SHARED: usize = 48 << 10;
/// The largest number of bytes of a kernel's argument.
const ARGUMENTS: usize = 4 << 10;

/// The function of every fiber.
///
/// # Safety
/// The scheduler of `sim` made the fiber.
unsafe extern "C" fn run_fiber(sim: *mut Sim) {
    // SAFETY: the caller's promise.
    unsafe {
        let fibers = (*sim).fibers;
        ((*fibers).entry)(sim, (*fibers).arguments);
        leave(sim, State::Done);
    }
}

/// Switches from a fiber to the scheduler.
///
/// # Safety
/// The fiber `now` of `sim` calls it.
unsafe fn leave(sim: *mut Sim, state: State) {
    // SAFETY: the caller's promise; the fiber continues when the scheduler switches to it.
    unsafe {
        let fibers = (*sim).fibers;
        let now = (*fibers).now;
        (*(&raw mut (*fibers).states)).as_mut_ptr().add(now).write(state);
        let save = (*(&raw mut (*fibers).stacks)).as_mut_ptr().add(now);
        cuda_sim_switch(save, (*fibers).scheduler);
    }
}

/// `__syncthreads` of a kernel.
///
/// # Safety
/// A fiber of `sim` calls it.
unsafe extern "C" fn barrier(sim: *mut Sim, line: c_int) {
    // SAFETY: the caller's promise.
    unsafe { leave(sim, State::Waits(line)) }
}

/// The kernel that runs, for reports.
pub static NOW: Mutex<String> = Mutex::new(String::new());

/// The result of a launch.
#[derive(PartialEq, Debug)]
pub enum Outcome {
    Done,
    /// Numbers of blocks, threads or bytes that no GPU takes.
    Refused,
    /// Threads wait at a barrier that others do not reach.
    Stuck,
    /// A write just outside an allocation.
    Marred,
    /// Another order of blocks and threads gave another result.
    Races,
}

/// Shuffles orders (Fisher and Yates 1938) with a random state, or keeps them if the state is 0.
struct Orders(u64);

impl Orders {
    fn shuffle(&mut self, order: &mut [usize]) {
        if self.0 == 0 {
            return;
        }
        for k in (1..order.len()).rev() {
            // Xorshift (Marsaglia 2003).
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            order.swap(k, (self.0 >> 33) as usize % (k + 1));
        }
    }
}

/// The reason for which no GPU takes a launch, if there is one.
pub fn refused(kernel: &Kernel, blocks: Dim, threads: Dim, shared: usize) -> Option<String> {
    let count = threads.count();
    if count == 0 || count > MAX_THREADS || threads.z > 64 {
        return Some(format!("{count} threads in a block"));
    }
    if blocks.count() == 0 || blocks.x > i32::MAX as u32 || blocks.y > 65535 || blocks.z > 65535 {
        return Some(format!("{blocks:?} blocks"));
    }
    if shared + kernel.shared > SHARED {
        return Some(format!("{} bytes of shared memory", shared + kernel.shared));
    }
    (kernel.arguments > ARGUMENTS).then(|| format!("{} bytes of arguments", kernel.arguments))
}

/// Runs a kernel. Its arguments point into the blocks of memory at `reached`.
///
/// # Safety
/// `arguments` are those of the kernel.
pub unsafe fn run(
    kernel: &Kernel,
    blocks: Dim,
    threads: Dim,
    shared: usize,
    arguments: *mut *mut c_void,
    reached: &[usize],
) -> Outcome {
    static LAUNCHES: AtomicU64 = AtomicU64::new(1);
    let seed = LAUNCHES.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // SAFETY: the caller's promise; memory is restored between the two runs.
    unsafe {
        if std::env::var_os("CUDA_SIM_TWICE").is_none() {
            return once(kernel, blocks, threads, shared, arguments, reached, Orders(seed));
        }
        let before = memory::contents(reached);
        let outcome = once(kernel, blocks, threads, shared, arguments, reached, Orders(0));
        if outcome != Outcome::Done {
            return outcome;
        }
        let after = memory::contents(reached);
        memory::restore(&before);
        match once(kernel, blocks, threads, shared, arguments, reached, Orders(seed)) {
            Outcome::Done if memory::contents(reached) != after => {
                eprintln!(
                    "cuda-sim: {}: another order of {blocks:?} and {threads:?} gives another result",
                    kernel.name
                );
                Outcome::Races
            }
            outcome => outcome,
        }
    }
}

/// Runs a kernel once, in an order of `orders`.
///
/// # Safety
/// As [`run`].
unsafe fn once(
    kernel: &Kernel,
    blocks: Dim,
    threads: Dim,
    shared: usize,
    arguments: *mut *mut c_void,
    reached: &[usize],
    mut orders: Orders,
) -> Outcome {
    let count = threads.count();
    if refused(kernel, blocks, threads, shared).is_some() {
        return Outcome::Refused;
    }
    if std::env::var_os("CUDA_SIM_TRACE").is_some() {
        eprintln!("cuda-sim: {} {blocks:?} {threads:?}", kernel.name);
    }
    /// The stacks of the fibers. A kernel holds the lock while it runs.
    static STACKS: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernel.waits && stacks.is_empty() {
        // Pages that are not written take no memory.
        *stacks = vec![0; MAX_THREADS * STACK];
    }
    NOW.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&kernel.name);
    let (x, y) = (threads.x as usize, threads.y as usize);
    let index = |t: usize| Dim { x: (t % x) as u32, y: (t / x % y) as u32, z: (t / (x * y)) as u32 };
    let mut all: Vec<Thread> = (0..count).map(|t| Thread { index: index(t) }).collect();
    let mut dynamic = vec![0u128; shared.div_ceil(16)];
    let mut fibers = Fibers {
        scheduler: std::ptr::null_mut(),
        stacks: vec![std::ptr::null_mut(); count],
        states: vec![State::Done; count],
        now: 0,
        entry: kernel.entry,
        arguments,
    };
    let mut sim = Sim {
        thread: all.as_mut_ptr(),
        block: Dim::default(),
        threads,
        blocks,
        dynamic: dynamic.as_mut_ptr().cast(),
        barrier,
        fibers: &raw mut fibers,
    };
    let (mut sequence, mut order): (Vec<usize>, Vec<usize>) =
        ((0..blocks.count()).collect(), (0..count).collect());
    orders.shuffle(&mut sequence);
    for number in sequence {
        let (x, y) = (blocks.x as usize, blocks.y as usize);
        sim.block = Dim { x: (number % x) as u32, y: (number / x % y) as u32, z: (number / (x * y)) as u32 };
        // SAFETY: the kernel's own shared memory, and its entry with its arguments.
        unsafe {
            (kernel.forget)();
            dynamic.fill(u128::MAX);
            if !kernel.waits {
                orders.shuffle(&mut order);
                for &t in &order {
                    sim.thread = &raw mut all[t];
                    (kernel.entry)(&mut sim, arguments);
                }
                continue;
            }
            if !block(kernel, &raw mut sim, &mut all, stacks.as_mut_ptr(), &mut order, &mut orders) {
                return Outcome::Stuck;
            }
        }
    }
    match memory::marred(reached) {
        None => Outcome::Done,
        Some(nbytes) => {
            eprintln!("cuda-sim: {}: wrote just outside an allocation of {nbytes} bytes", kernel.name);
            Outcome::Marred
        }
    }
}

/// Runs the fibers of one block until all are done. Returns false if some wait at a barrier that others do
/// not reach.
///
/// # Safety
/// 1. `sim` is complete, with fibers for all threads.   2. `stacks` has a stack for each.
unsafe fn block(
    kernel: &Kernel,
    sim: *mut Sim,
    all: &mut [Thread],
    stacks: *mut u8,
    order: &mut [usize],
    orders: &mut Orders,
) -> bool {
    // SAFETY: (1) and (2) are the caller's promises; each fiber uses its own stack.
    unsafe {
        let fibers = (*sim).fibers;
        let states = (*(&raw mut (*fibers).states)).as_mut_ptr();
        let tops = (*(&raw mut (*fibers).stacks)).as_mut_ptr();
        for t in 0..all.len() {
            // The first switch pops r15 r14 r13 r12 rbx rbp, then the return address.
            let top = (stacks.add((t + 1) * STACK - t * SKEW % (STACK / 4)) as usize & !63) as *mut usize;
            let first = [
                0,
                0,
                run_fiber as *const () as usize,
                sim as usize,
                0,
                0,
                cuda_sim_begin as *const () as usize,
            ];
            let start = top.sub(16);
            for (k, word) in first.into_iter().enumerate() {
                start.add(k).write(word);
            }
            tops.add(t).write(start.cast());
            states.add(t).write(State::Ready);
        }
        loop {
            orders.shuffle(order);
            for &t in &*order {
                if states.add(t).read() == State::Ready {
                    (*fibers).now = t;
                    (*sim).thread = &raw mut all[t];
                    cuda_sim_switch(&raw mut (*fibers).scheduler, tops.add(t).read());
                }
            }
            let state = |t: usize| states.add(t).read();
            let waiting = (0..all.len()).filter(|&t| state(t) != State::Done).count();
            if waiting == 0 {
                return true;
            }
            if waiting < all.len() || (1..all.len()).any(|t| state(t) != state(0)) {
                eprintln!(
                    "cuda-sim: {}: {waiting} of {} threads of block {:?} wait, {:?} …",
                    kernel.name,
                    all.len(),
                    (*sim).block,
                    state(0)
                );
                return false;
            }
            (0..all.len()).for_each(|t| states.add(t).write(State::Ready));
        }
    }
}
