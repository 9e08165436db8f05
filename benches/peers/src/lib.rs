//! The common part of all peers' programs: the inputs, the clock, and the lines they exchange with the
//! driver.
//!
//! A peer's program lives as long as the benchmark. It reads one case a line, `ew/add/256`, and for each way
//! its library has of computing that case, a *form*, answers one line, `form <TAB> ns,ns,…`; then `end`. A
//! case without a form is one that the library does not have. A training step also answers the memory that
//! its forward pass keeps, `form <TAB> bytes:n`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::{BufRead, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};
use std::time::Instant;

/// A case as a peer sees it: `ew/add/256` has the name `ew/add` and `n` = 256.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub name: &'a str,
    pub n: usize,
}

type Run = Box<dyn FnMut()>;

/// The forms of one case: each a name and a function that makes the inputs and returns the function to be
/// timed.
#[derive(Default)]
pub struct Forms(Vec<(String, Box<dyn FnOnce() -> Run>)>, Vec<(String, Box<dyn FnOnce() -> isize>)>);

impl Forms {
    /// One form. The result of the timed function is dropped while the clock runs: its allocation and release
    /// are part of the computation.
    pub fn add<R, F: FnMut() -> R + 'static>(&mut self, form: &str, setup: impl FnOnce() -> F + 'static) {
        let setup = move || -> Run {
            let mut run = setup();
            Box::new(move || {
                black_box(run());
            })
        };
        self.0.push((form.to_string(), Box::new(setup)));
    }

    /// The memory that a form keeps: the bytes that were taken and not given back when the function returns,
    /// while its result lives. The program's allocator must be [`Counting`]; the function runs once before.
    pub fn add_kept<R, F: FnMut() -> R + 'static>(
        &mut self,
        form: &str,
        setup: impl FnOnce() -> F + 'static,
    ) {
        let count = move || {
            let mut run = setup();
            black_box(run());
            LIVE.store(0, Relaxed);
            COUNTS.store(true, Relaxed);
            let result = black_box(run());
            COUNTS.store(false, Relaxed);
            drop(result);
            LIVE.load(Relaxed)
        };
        self.1.push((form.to_string(), Box::new(count)));
    }
}

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// The allocator of the system, which counts bytes when it is told to.
pub struct Counting;

impl Counting {
    fn count(by: isize) {
        if COUNTS.load(Relaxed) {
            LIVE.fetch_add(by, Relaxed);
        }
    }
}

// SAFETY: the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count(layout.size() as isize);
        // SAFETY: the caller's promise, as below.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(address, layout, size) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        Counting::count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(address, layout) }
    }
}

/// How many threads a peer may use.
pub fn threads() -> usize {
    std::env::var("PEER_THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(1)
}

/// Answers the driver until it hangs up.
pub fn serve(cases: impl Fn(Case<'_>, &mut Forms)) {
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = stdout();
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (name, n) = line.rsplit_once('/').unwrap_or((&line, ""));
        let mut forms = Forms::default();
        cases(Case { name, n: n.parse().unwrap_or(0) }, &mut forms);
        for (form, setup) in forms.0 {
            let answer = match catch_unwind(AssertUnwindSafe(|| measure(&mut setup()))) {
                Ok(times) => times.iter().map(|ns| format!("{ns:.2}")).collect::<Vec<_>>().join(","),
                Err(panic) => format!("failed: {}", text(&*panic).replace(['\t', '\n'], " ")),
            };
            if writeln!(out, "{form}\t{answer}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
        for (form, count) in forms.1 {
            if writeln!(out, "{form}\tbytes:{}", count()).is_err() {
                return;
            }
        }
        if writeln!(out, "end").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("panic")
}

/// A sample is the mean of as many runs as fill this time.
const SAMPLE_NS: f64 = 2.0e6;

/// Nanoseconds a run: up to six samples, fewer where one run is long.
fn measure(run: &mut Run) -> Vec<f64> {
    let mut mean = |runs: usize| {
        let start = Instant::now();
        (0..runs).for_each(|_| run());
        start.elapsed().as_nanos() as f64 / runs as f64
    };
    mean(1);
    let first = mean(1);
    let mut runs = (SAMPLE_NS / first.max(20.0)).clamp(1.0, 1e5) as usize;
    if runs > 1 {
        runs = (SAMPLE_NS / mean(runs).max(0.3)).clamp(1.0, 5e6) as usize;
    }
    let samples = match first {
        ns if ns > 400e6 => 1,
        ns if ns > 50e6 => 2,
        ns if ns > 2e6 => 4,
        _ => 6,
    };
    (0..samples).map(|_| mean(runs)).collect()
}

/// 32 well-mixed bits of a place and a seed: the same numbers in every peer, in whatever language.
fn mixed(place: u32, seed: u32) -> u32 {
    let mut x = place.wrapping_mul(0x9E37_79B9).wrapping_add(seed.wrapping_mul(0x85EB_CA6B));
    x = (x ^ (x >> 16)).wrapping_mul(0x21F0_AAAD);
    x = (x ^ (x >> 15)).wrapping_mul(0x735A_2D97);
    x ^ (x >> 15)
}

/// `len` numbers in [-1, 1).
pub fn uniform(len: usize, seed: u32) -> Vec<f32> {
    (0..len as u32).map(|place| (mixed(place, seed) >> 8) as f32 * (1.0 / 8_388_608.0) - 1.0).collect()
}

/// `len` numbers in [0.05, 1.05].
pub fn positive(len: usize, seed: u32) -> Vec<f32> {
    uniform(len, seed).into_iter().map(|x| x.abs() + 0.05).collect()
}

/// `len` numbers in [-100, 100].
pub fn bytes(len: usize, seed: u32) -> Vec<i8> {
    (0..len as u32).map(|place| ((mixed(place, seed) % 201) as i16 - 100) as i8).collect()
}

/// `len` places below `bound`.
pub fn places(len: usize, bound: u32, seed: u32) -> Vec<u32> {
    (0..len as u32).map(|place| mixed(place, seed) % bound).collect()
}

/// The sizes of the cases that are not n × n.
pub mod sizes {
    /// Rows taken by `dm/gather` from a table of rows of a length.
    pub const GATHER: (usize, usize, usize) = (100_000, 50_000, 256);
    /// `dm/nhwc`: images, channels, height, width.
    pub const NCHW: [usize; 4] = [32, 64, 56, 56];
    /// `nn/conv2d`: images, channels, height, width; 3 × 3, to as many channels, zeros around.
    pub const IMAGES: [usize; 4] = [8, 64, 56, 56];
    /// `nn/conv1d`, `nn/conv3d`: signals and volumes, and their weights.
    pub const SIGNALS: [usize; 3] = [8, 64, 4096];
    pub const SIGNAL_WEIGHTS: [usize; 3] = [64, 64, 5];
    pub const VOLUMES: [usize; 5] = [2, 16, 24, 24, 24];
    pub const VOLUME_WEIGHTS: [usize; 5] = [32, 16, 3, 3, 3];
    /// `nn/max_pool`: images.
    pub const POOLED: [usize; 4] = [8, 64, 112, 112];
    /// `nn/attention`, `nn/causal`: queries, keys and values of n tokens.
    pub const fn heads(tokens: usize) -> [usize; 4] {
        if tokens > 1024 { [1, 8, tokens, 64] } else { [8, 12, tokens, 32] }
    }
    /// `nn/encoder`: batches, width, heads; the hidden layer is four times as wide.
    pub const ENCODER: (usize, usize, usize) = (8, 384, 12);
    /// `mm/batched64`: products.
    pub const BATCH: usize = 64;
    /// `mm/skinny16`: rows.
    pub const SKINNY: usize = 16;
    /// `short/distances`: points and centers.
    pub const DISTANCES: (usize, usize) = (20_000, 16);
    /// `short/…`: numbers in all rows.
    pub const SHORT: usize = 1 << 20;
    /// `dm/unique`, `dm/scatter`: the whole numbers are below this.
    pub const KINDS: usize = 1000;
    /// `dm/quantile`: the share of lesser numbers.
    pub const SHARE: f64 = 0.3;
    /// `dm/histogram`: the bins from -1 to 1.
    pub const BINS: usize = 100;
    /// `dm/topk10`: how many.
    pub const TOP: usize = 10;
}

/// The numbers of an AdamW step.
pub mod adamw {
    pub const RATE: f32 = 1e-3;
    pub const BETA1: f32 = 0.9;
    pub const BETA2: f32 = 0.999;
    pub const EPSILON: f32 = 1e-8;
    pub const DECAY: f32 = 0.01;

    /// One element: parameter, the two moments, gradient.
    #[inline(always)]
    pub fn step(p: &mut f32, m: &mut f32, v: &mut f32, g: f32) {
        *m = BETA1 * *m + (1.0 - BETA1) * g;
        *v = BETA2 * *v + (1.0 - BETA2) * g * g;
        *p = *p * (1.0 - RATE * DECAY) - RATE * *m / (v.sqrt() + EPSILON);
    }
}

/// The bodies of the fused cases, for libraries that take a function of an element.
pub mod bodies {
    #[inline(always)]
    pub fn gelu(x: f32) -> f32 {
        0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh())
    }
    #[inline(always)]
    pub fn swiglu(x: f32, y: f32) -> f32 {
        x / (1.0 + (-x).exp()) * y
    }
    #[inline(always)]
    pub fn ratio(a: f32, b: f32, c: f32, d: f32) -> f32 {
        (a * b + c) / (d.abs() + 1e-6)
    }
    #[inline(always)]
    pub fn user(x: f32, y: f32) -> f32 {
        x * y + x.sin()
    }
}

#[test]
fn numbers_are_those_of_harness_py() {
    let x = uniform(100_000, 4);
    assert_eq!([x[0], x[1], x[99_999]], [-0.722_124_6, 0.207_352_16, 0.937_557]);
    assert_eq!(places(3, 50_000, 7), [22_466, 12_762, 16_702]);
    assert_eq!(bytes(5, 2), [73, -62, 6, -94, 12]);
}
