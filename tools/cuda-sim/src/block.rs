//! A kernel's blocks, one after another; the threads of a block are fibres where they wait for each other.
//!
//! A card promises no order: blocks, and threads between two barriers, run in a shuffled one. With `CUDA_SIM_TWICE` a kernel
//! runs in their own order first, and what is then in memory must be the same: threads that race for a value are found.

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

/// What `host.h` calls `Sim`, and after it what only this file sees.
#[repr(C)]
pub struct Sim {
    thread: *mut Thread,
    block: Dim,
    threads: Dim,
    blocks: Dim,
    dynamic: *mut u8,
    barrier: unsafe extern "C" fn(*mut Sim, c_int),
    fibres: *mut Fibres,
}

pub type Entry = unsafe extern "C" fn(*mut Sim, *mut *mut c_void);

/// A kernel that is loaded.
pub struct Kernel {
    pub name: String,
    pub entry: Entry,
    /// Fills shared memory with what no program should read.
    pub forget: unsafe extern "C" fn(),
    /// Whether its threads wait for each other.
    pub waits: bool,
    /// Bytes of its argument, and of shared memory that its source names.
    pub arguments: usize,
    pub shared: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Ready,
    /// At the barrier of this line.
    Waits(c_int),
    Done,
}

struct Fibres {
    /// Where the scheduler's stack stands while a fibre runs, and the fibres' while they wait.
    scheduler: *mut u8,
    stacks: Vec<*mut u8>,
    states: Vec<State>,
    now: usize,
    entry: Entry,
    arguments: *mut *mut c_void,
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // Keeps the registers that a call keeps, then goes on with another stack.
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
    // Where a fresh fibre begins: r13 is what it runs, r12 its argument.
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

const STACK: usize = 256 << 10;
/// Stacks that begin at equal distances would share a few lines of the cache.
const SKEW: usize = 17 * 64;
/// The most threads of a block.
const MOST: usize = 1024;
/// The most bytes of shared memory without asking for more, which rankform does not; and of a kernel's argument.
const SHARED: usize = 48 << 10;
const ARGUMENTS: usize = 4 << 10;

unsafe extern "C" fn run_fibre(sim: *mut Sim) {
    // SAFETY: the scheduler below made it for this.
    unsafe {
        let fibres = (*sim).fibres;
        ((*fibres).entry)(sim, (*fibres).arguments);
        leave(sim, State::Done);
    }
}

unsafe fn leave(sim: *mut Sim, state: State) {
    // SAFETY: the fibre that runs is that of `now`; it goes on when the scheduler comes back to it.
    unsafe {
        let fibres = (*sim).fibres;
        let now = (*fibres).now;
        (*(&raw mut (*fibres).states)).as_mut_ptr().add(now).write(state);
        let save = (*(&raw mut (*fibres).stacks)).as_mut_ptr().add(now);
        cuda_sim_switch(save, (*fibres).scheduler);
    }
}

unsafe extern "C" fn barrier(sim: *mut Sim, line: c_int) {
    // SAFETY: called by a kernel, in a fibre.
    unsafe { leave(sim, State::Waits(line)) }
}

/// The kernel that runs, for reports.
pub static NOW: Mutex<String> = Mutex::new(String::new());

/// What a launch can end with.
#[derive(PartialEq, Debug)]
pub enum Outcome {
    Done,
    /// Numbers of blocks, threads or bytes that no card takes.
    Refused,
    /// Threads wait for others that do not come.
    Stuck,
    /// Something wrote beside an allocation.
    Marred,
    /// Another order of blocks and threads gave something else.
    Races,
}

/// An order of `0..count`: shuffled (Fisher and Yates 1938) by a number, or as it is where that is 0.
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

/// Why no card takes such a launch.
pub fn refused(kernel: &Kernel, blocks: Dim, threads: Dim, shared: usize) -> Option<String> {
    let count = threads.count();
    if count == 0 || count > MOST || threads.z > 64 {
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

/// Runs a kernel, whose arguments point into the blocks of memory at `reached`.
///
/// # Safety
/// `arguments` are those of the kernel.
pub unsafe fn run(kernel: &Kernel, blocks: Dim, threads: Dim, shared: usize, arguments: *mut *mut c_void, reached: &[usize]) -> Outcome {
    static LAUNCHES: AtomicU64 = AtomicU64::new(1);
    let seed = LAUNCHES.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // SAFETY: the caller's promise; memory is put back between.
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
                eprintln!("cuda-sim: {}: another order of {blocks:?} and {threads:?} gives another result", kernel.name);
                Outcome::Races
            }
            outcome => outcome,
        }
    }
}

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
    /// The stacks of fibres; whoever holds them runs.
    static STACKS: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernel.waits && stacks.is_empty() {
        // Pages that nobody writes take no memory.
        *stacks = vec![0; MOST * STACK];
    }
    NOW.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&kernel.name);
    let (x, y) = (threads.x as usize, threads.y as usize);
    let index = |t: usize| Dim { x: (t % x) as u32, y: (t / x % y) as u32, z: (t / (x * y)) as u32 };
    let mut all: Vec<Thread> = (0..count).map(|t| Thread { index: index(t) }).collect();
    let mut dynamic = vec![0u128; shared.div_ceil(16)];
    let mut fibres = Fibres {
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
        fibres: &raw mut fibres,
    };
    let (mut sequence, mut order): (Vec<usize>, Vec<usize>) = ((0..blocks.count()).collect(), (0..count).collect());
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
            eprintln!("cuda-sim: {}: wrote beside an allocation of {nbytes} bytes", kernel.name);
            Outcome::Marred
        }
    }
}

/// Runs the fibres of one block in turn until all are done; false where they wait in vain.
unsafe fn block(kernel: &Kernel, sim: *mut Sim, all: &mut [Thread], stacks: *mut u8, order: &mut [usize], orders: &mut Orders) -> bool {
    // SAFETY: `run` made all of it; each fibre has a stack of its own.
    unsafe {
        let fibres = (*sim).fibres;
        let states = (*(&raw mut (*fibres).states)).as_mut_ptr();
        let tops = (*(&raw mut (*fibres).stacks)).as_mut_ptr();
        for t in 0..all.len() {
            // Popped by the first switch: r15 r14 r13 r12 rbx rbp, then where to go.
            let top = (stacks.add((t + 1) * STACK - t * SKEW % (STACK / 4)) as usize & !63) as *mut usize;
            let first = [0, 0, run_fibre as *const () as usize, sim as usize, 0, 0, cuda_sim_begin as *const () as usize];
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
                    (*fibres).now = t;
                    (*sim).thread = &raw mut all[t];
                    cuda_sim_switch(&raw mut (*fibres).scheduler, tops.add(t).read());
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
