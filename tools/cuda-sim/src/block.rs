//! Runs the blocks of a kernel one after another. The threads of a block are fibers if the kernel has a
//! barrier, or a function that the lanes of a warp call together.
//!
//! A GPU promises no order. Blocks, and threads between two barriers, therefore run in a shuffled order, and
//! in each round some warps rest. With `CUDA_SIM_TWICE` a kernel runs in ascending order first, each warp as
//! far as it comes, and both runs must leave the same memory: this finds threads that race for a value.

use crate::memory;
use crate::tensor;
use crate::warp::{self, Call, LANES};
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
    together: unsafe extern "C" fn(*mut Sim, c_int, u32, u64, c_int, c_int, c_int) -> u64,
    misaligned: unsafe extern "C" fn(*mut Sim, usize, usize, c_int),
    fibers: *mut Fibers,
}

pub type Entry = unsafe extern "C" fn(*mut Sim, *mut *mut c_void);

/// A kernel that is loaded.
pub struct Kernel {
    pub name: String,
    pub entry: Entry,
    /// Fills shared memory with bytes that no program should read.
    pub forget: unsafe extern "C" fn(),
    /// Whether its threads wait for each other.
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
    /// In a function that lanes call together.
    Calls,
    Done,
}

struct Fibers {
    /// The stack pointer of the scheduler while a fiber runs, and those of the fibers while they wait.
    scheduler: *mut u8,
    stacks: Vec<*mut u8>,
    states: Vec<State>,
    /// The last call of each thread together with others, and its result.
    calls: Vec<Call>,
    results: Vec<u64>,
    /// The first error of a thread.
    error: Option<(Outcome, String)>,
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

/// A function of `host.h` that the lanes of a warp call together.
///
/// # Safety
/// A thread of `sim` calls it.
unsafe extern "C" fn together(
    sim: *mut Sim,
    function: c_int,
    mask: u32,
    value: u64,
    argument: c_int,
    width: c_int,
    line: c_int,
) -> u64 {
    // SAFETY: the caller's promise; the scheduler writes the result before the fiber continues.
    unsafe {
        let fibers = (*sim).fibers;
        let now = (*fibers).now;
        if (*(&raw const (*fibers).stacks)).is_empty() {
            eprintln!("cuda-sim: a kernel without fibers calls a function of warps");
            std::process::abort();
        }
        let call = Call { function, mask, line, value, argument, width };
        (*(&raw mut (*fibers).calls)).as_mut_ptr().add(now).write(call);
        leave(sim, State::Calls);
        (*(&raw const (*fibers).results)).as_ptr().add(now).read()
    }
}

/// Records an access at an address that is no multiple of its alignment. A GPU ends the kernel; here the
/// thread goes on, and the launch fails.
///
/// # Safety
/// A thread of `sim` calls it.
unsafe extern "C" fn misaligned(sim: *mut Sim, address: usize, alignment: usize, line: c_int) {
    // SAFETY: the caller's promise.
    let error = unsafe { &mut *(&raw mut (*(*sim).fibers).error) };
    error.get_or_insert_with(|| {
        (
            Outcome::Misaligned,
            format!("an access of line {line} at {address:#x}, which is no multiple of {alignment}"),
        )
    });
}

/// The kernel that runs, for reports.
pub static NOW: Mutex<String> = Mutex::new(String::new());

/// The last report of an error in a kernel, for tests.
pub static REPORT: Mutex<String> = Mutex::new(String::new());

/// Prints an error in a kernel, and keeps it.
fn report(kernel: &Kernel, what: &str) {
    let text = format!("{}: {what}", kernel.name);
    eprintln!("cuda-sim: {text}");
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = text;
}

/// The result of a launch.
#[derive(PartialEq, Debug)]
pub enum Outcome {
    Done,
    /// Numbers of blocks, threads or bytes that no GPU takes.
    Refused,
    /// Threads wait at a barrier or in a call that others do not reach, or call a function of warps wrongly.
    Stuck,
    /// An access at an address that is no multiple of its alignment.
    Misaligned,
    /// A write just outside an allocation.
    Marred,
    /// Another order of blocks and threads gave another result.
    Races,
}

/// Shuffles orders (Fisher and Yates 1938) with a random state, or keeps them if the state is 0.
struct Orders(u64);

impl Orders {
    /// The next random number.
    fn next(&mut self) -> usize {
        // Xorshift (Marsaglia 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize
    }

    /// The warps that go on in this round, of those that can: the first, or some.
    fn awake(&mut self, ready: &mut [bool]) {
        let able: Vec<usize> = (0..ready.len()).filter(|&warp| ready[warp]).collect();
        let Some(&first) = able.first() else { return };
        let chosen = if self.0 == 0 { first } else { able[self.next() % able.len()] };
        for warp in able {
            ready[warp] = warp == chosen || self.0 != 0 && self.next().is_multiple_of(2);
        }
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        if self.0 == 0 {
            return;
        }
        for k in (1..order.len()).rev() {
            order.swap(k, self.next() % (k + 1));
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
                report(kernel, &format!("another order of {blocks:?} and {threads:?} gives another result"));
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
        stacks: if kernel.waits { vec![std::ptr::null_mut(); count] } else { Vec::new() },
        states: vec![State::Done; count],
        calls: vec![Call::default(); count],
        results: vec![0; count],
        error: None,
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
        together,
        misaligned,
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
            } else if let Some(error) =
                block(&raw mut sim, &mut all, stacks.as_mut_ptr(), &mut order, &mut orders)
            {
                fibers.error.get_or_insert((Outcome::Stuck, error));
            }
        }
        if let Some((outcome, error)) = fibers.error.take() {
            report(kernel, &format!("block {:?}: {error}", sim.block));
            return outcome;
        }
    }
    match memory::marred(reached) {
        None => Outcome::Done,
        Some(nbytes) => {
            report(kernel, &format!("wrote just outside an allocation of {nbytes} bytes"));
            Outcome::Marred
        }
    }
}

/// Runs the fibers of one block until all are done. Returns an error of the kernel: threads that wait for
/// others which do not come, or that call a function of warps wrongly.
///
/// # Safety
/// 1. `sim` is complete, with fibers for all threads.   2. `stacks` has a stack for each.
unsafe fn block(
    sim: *mut Sim,
    all: &mut [Thread],
    stacks: *mut u8,
    order: &mut [usize],
    orders: &mut Orders,
) -> Option<String> {
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
        let state = |t: usize| states.add(t).read();
        loop {
            let mut awake: Vec<bool> = (0..all.len().div_ceil(LANES))
                .map(|warp| {
                    (0..LANES.min(all.len() - warp * LANES))
                        .any(|lane| state(warp * LANES + lane) == State::Ready)
                })
                .collect();
            if awake.contains(&true) {
                orders.awake(&mut awake);
                orders.shuffle(order);
                for &t in &*order {
                    if !awake[t / LANES] || state(t) != State::Ready {
                        continue;
                    }
                    (*fibers).now = t;
                    (*sim).thread = &raw mut all[t];
                    cuda_sim_switch(&raw mut (*fibers).scheduler, tops.add(t).read());
                    if state(t) == State::Calls
                        && let Err(error) = arrive(&mut *fibers, t)
                    {
                        return Some(error);
                    }
                }
                continue;
            }
            if (0..all.len()).all(|t| state(t) == State::Done) {
                return None;
            }
            if !matches!(state(0), State::Waits(_)) || (1..all.len()).any(|t| state(t) != state(0)) {
                return Some(missing(&*fibers));
            }
            (0..all.len()).for_each(|t| states.add(t).write(State::Ready));
        }
    }
}

/// Thread `t` has called a function of warps: if all lanes of the mask have, each gets its result and goes
/// on.
///
/// # Errors
/// A call that is wrong, in words.
fn arrive(fibers: &mut Fibers, t: usize) -> Result<(), String> {
    let (first, call) = (t / LANES * LANES, fibers.calls[t]);
    let count = LANES.min(fibers.states.len() - first);
    if let Some(error) = call.error(t - first, count) {
        return Err(format!("warp {}: {error}", first / LANES));
    }
    let is_there =
        |lane: usize| fibers.states[first + lane] == State::Calls && fibers.calls[first + lane].joins(&call);
    if !call.lanes().all(is_there) {
        return Ok(());
    }
    let calls = &fibers.calls[first..first + count];
    if call.function >= warp::FIRST_TENSOR {
        if crate::capability() < tensor::CAPABILITY {
            let words = call.words();
            return Err(format!("warp {}: {words}, which this GPU lacks", first / LANES));
        }
        // SAFETY: all lanes wait in the call, with the fragments that they gave.
        unsafe { tensor::run(call.function, calls) };
    }
    let results = warp::results(&call, calls).map_err(|error| format!("warp {}: {error}", first / LANES))?;
    for lane in call.lanes() {
        fibers.results[first + lane] = results[lane];
        fibers.states[first + lane] = State::Ready;
    }
    Ok(())
}

/// The reason for which no thread can go on, in words.
fn missing(fibers: &Fibers) -> String {
    let states = &fibers.states;
    let Some(t) = states.iter().position(|state| *state == State::Calls) else {
        let waiting = states.iter().filter(|state| **state != State::Done).count();
        return format!("{waiting} of {} threads wait at a barrier, {:?} …", states.len(), states[0]);
    };
    let (first, call) = (t / LANES * LANES, &fibers.calls[t]);
    let there = |lane: usize| states[first + lane] == State::Calls && fibers.calls[first + lane].joins(call);
    let Some(lane) = call.lanes().find(|&lane| !there(lane)) else { return "no lane is missing".into() };
    let instead = match states[first + lane] {
        State::Calls => format!("calls {}", fibers.calls[first + lane].words()),
        State::Waits(line) => format!("waits at a barrier in line {line}"),
        _ => "has returned".into(),
    };
    format!("warp {}: lane {} calls {}, and lane {lane} {instead}", first / LANES, t - first, call.words())
}
