//! Models of the crate's reference counter, memory pool and work of several threads: `loom` runs each on
//! every order of its threads' steps, and on every value that the memory model lets a load see. `build.rs`
//! makes the modules from the crate's own sources.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

mod board_models;
mod memory;
mod pool_models;
mod shared_models;

// The macro of `src/lib.rs`, which `error.rs` uses.
macro_rules! by_pointer {
    (@any $argument:expr) => { _ };
    ($function:expr, $($argument:expr),+) => {
        ($function as fn($(by_pointer!(@any $argument)),+) -> _)($($argument),+)
    };
}

/// A module of the crate, or of it with one mistake.
macro_rules! source {
    ($($name:ident)*) => { $(
        #[allow(dead_code, path_statements, unused_mut)]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )* };
}
source! { error shared shared_without_fence shared_without_release shared_without_acquire pool pool_torn
    pool_freed_and_kept pool_over_its_limit
board board_without_release board_without_acquire board_that_never_closes board_without_waiting
board_left_without_release board_owned_without_acquire }

/// Runs `model` on every order of its threads: the number of orders, or the failure of the first one that
/// fails.
fn explore(model: impl Fn() + Send + Sync + 'static) -> Result<usize, String> {
    let orders = Arc::new(AtomicUsize::new(0));
    let count = orders.clone();
    let all = move || {
        loom::model::Builder::new().check(move || {
            count.fetch_add(1, SeqCst);
            memory::start();
            model();
            memory::end();
        })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)).map(|()| orders.load(SeqCst)).map_err(
        |panic| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"a panic").to_string(),
        },
    )
}

/// A model of the crate's code holds, and fails on each version with a mistake, with this in its message.
macro_rules! holds {
    ($model:ident of $code:ident $(, not of $mistake:ident: $message:literal)*) => {
        #[test]
        fn $model() {
            let orders = crate::explore($code::$model).unwrap();
            println!("{}: {orders} orders", stringify!($model));
            assert!(orders > 1, "the threads never met");
            $(
                let found = crate::explore($mistake::$model).expect_err(stringify!($mistake));
                assert!(found.contains($message), "{}: {found}", stringify!($mistake));
            )*
        }
    };
}
use holds;
