//! Takes the crate's own sources and replaces std's atomics, locks and cells of memory by the model
//! checker's: the checked code is the code that ships. Versions with one mistake each follow, which must be
//! found.

use std::path::Path;

/// `text` with its single occurrence of `from` replaced; a source that has changed stops the build.
fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from:?} should stand once in the source");
        text.replace(from, to)
    })
}

fn main() {
    let (here, out) = (std::env::var("CARGO_MANIFEST_DIR").unwrap(), std::env::var("OUT_DIR").unwrap());
    let source = |name: &str| {
        let path = Path::new(&here).join("../../src").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        // Documentation of a whole file is not allowed inside `include!`.
        let text = std::fs::read_to_string(path).unwrap().replace("\n//!", "\n//").replacen("//!", "//", 1);
        // Its own tests are run elsewhere.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        text.replace("std::alloc::", "crate::memory::")
    };
    let write = |name: &str, text: &str| std::fs::write(Path::new(&out).join(name), text).unwrap();

    write("error.rs", &source("error.rs"));

    let shared =
        replaced(&source("fallible/arc.rs"), &[("use std::sync::atomic::", "use loom::sync::atomic::")]);
    write("shared.rs", &shared);
    // The last handle drops without an acquire of the others' writes.
    write("shared_without_fence.rs", &replaced(&shared, &[("fence(Ordering::Acquire);", "fence;")]));
    // A handle is dropped without a release of its writes.
    write(
        "shared_without_release.rs",
        &replaced(&shared, &[("fetch_sub(1, Ordering::Release)", "fetch_sub(1, Ordering::Relaxed)")]),
    );
    // The only handle writes without an acquire of the others' writes.
    write(
        "shared_without_acquire.rs",
        &replaced(&shared, &[("handles.load(Ordering::Acquire)", "handles.load(Ordering::Relaxed)")]),
    );

    let pool = replaced(
        &source("device/cpu/memory/pool.rs"),
        &[
            (
                "use std::sync::{Mutex, MutexGuard, PoisonError};",
                "use loom::sync::{Mutex, MutexGuard};\nuse std::sync::PoisonError;",
            ),
            // loom's lock is made anew for every order of threads.
            ("static POOL: Mutex<MemoryPool> =", "loom::lazy_static! { static ref POOL: Mutex<MemoryPool> ="),
            ("});\n\nfn pool()", "}); }\n\nfn pool()"),
        ],
    );
    write("pool.rs", &pool);
    // A block is found under one lock and taken out under another.
    let found = "best.and_then(|(at, _)| self.remove(at))";
    let torn = [
        (found, "best.map(|(at, _)| at)"),
        (
            "fn find(&mut self, capacity: usize) -> Option<Block>",
            "fn find(&mut self, capacity: usize) -> Option<usize>",
        ),
        (
            "let found = pool().find(capacity);",
            "let at = pool().find(capacity);\n    \
             let found = at.and_then(|at| { let mut pool = pool(); if at < pool.count { pool.remove(at) } \
             else { None } });",
        ),
    ];
    write("pool_torn.rs", &replaced(&pool, &torn));
    // Giving a block frees at most one that is too many.
    write(
        "pool_over_its_limit.rs",
        &replaced(&pool, &[("    free_surplus();\n}\n\n/// Frees the blocks", "}\n\n/// Frees the blocks")]),
    );
    // A block that is freed stays in the pool.
    write("pool_freed_and_kept.rs", &replaced(&pool, &[("pool.remove(0) }", "pool.blocks[0] }")]));

    let board = replaced(
        &source("device/cpu/parallel/job_slot.rs"),
        &[
            ("use std::sync::atomic::", "use loom::sync::atomic::"),
            ("use std::cell::UnsafeCell;", "use loom::cell::UnsafeCell;"),
            // loom's atomics cannot be made by the compiler, and its cell is used by closures.
            ("pub(crate) const fn new", "pub(crate) fn new"),
            (
                "unsafe { *self.job.get() = std::ptr::from_ref(&job).cast() }",
                "self.job.with_mut(|to| unsafe { *to = std::ptr::from_ref(&job).cast() })",
            ),
            ("unsafe { &**self.job.get() }", "self.job.with(|job| unsafe { &**job })"),
            ("std::hint::spin_loop()", "loom::thread::yield_now()"),
        ],
    );
    write("board.rs", &board);
    // The owner returns without an acquire of a worker's writes.
    write(
        "board_without_release.rs",
        &replaced(
            &board,
            &[("fetch_sub(WORKER, Ordering::Release)", "fetch_sub(WORKER, Ordering::Relaxed)")],
        ),
    );
    // A worker has not seen the job.
    write(
        "board_without_acquire.rs",
        &replaced(&board, &[("fetch_update(Ordering::Acquire", "fetch_update(Ordering::Relaxed")]),
    );
    // A worker enters where the owner has begun to leave.
    write(
        "board_that_never_closes.rs",
        &replaced(&board, &[("(state & OPEN != 0 ", "(state & OWNED != 0 ")]),
    );
    // The next owner begins while a worker of the last one is inside.
    write(
        "board_without_waiting.rs",
        &replaced(&board, &[("while slot.state.load(Ordering::Acquire) != OWNED {", "while false {")]),
    );
    // The next owner starts without an acquire of the last one's writes.
    write(
        "board_left_without_release.rs",
        &replaced(&board, &[("state.store(0, Ordering::Release)", "state.store(0, Ordering::Relaxed)")]),
    );
    write(
        "board_owned_without_acquire.rs",
        &replaced(
            &board,
            &[(
                "compare_exchange(0, OWNED, Ordering::Acquire",
                "compare_exchange(0, OWNED, Ordering::Relaxed",
            )],
        ),
    );
}
