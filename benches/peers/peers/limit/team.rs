//! Threads that start together: workers spin while a case is measured; a start costs one cache line and no
//! system call.

use peers::threads;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread::JoinHandle;

struct Shared<J> {
    job: J,
    /// Counts runs; the top value ends the helpers.
    go: AtomicUsize,
    done: AtomicUsize,
}

/// A job that each of the threads does its own part of.
pub struct Team<J> {
    shared: Arc<Shared<J>>,
    helpers: Vec<JoinHandle<()>>,
}

impl<J: Fn(usize) + Send + Sync + 'static> Team<J> {
    pub fn new(job: J) -> Self {
        let shared = Arc::new(Shared { job, go: AtomicUsize::new(0), done: AtomicUsize::new(0) });
        let helper = |part| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut seen = 0;
                loop {
                    match shared.go.load(Acquire) {
                        usize::MAX => break,
                        go if go == seen => spin_loop(),
                        go => {
                            seen = go;
                            (shared.job)(part);
                            shared.done.fetch_add(1, Release);
                        }
                    }
                }
            })
        };
        let helpers = (1..threads()).map(helper).collect();
        Self { shared, helpers }
    }

    /// Every part, once.
    pub fn run(&self) {
        self.shared.done.store(0, Relaxed);
        self.shared.go.fetch_add(1, Release);
        (self.shared.job)(0);
        while self.shared.done.load(Acquire) < self.helpers.len() {
            spin_loop();
        }
    }
}

impl<J> Drop for Team<J> {
    fn drop(&mut self) {
        self.shared.go.store(usize::MAX, Release);
        self.helpers.drain(..).for_each(|helper| drop(helper.join()));
    }
}
