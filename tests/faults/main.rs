//! Faults: no memory, sizes beyond any machine, panics in the user's code, threads that release a handle at
//! the same moment, and the bugs that other libraries had.
//!
//! | file | |
//! |---|---|
//! | `memory.rs` | every allocation of every operation fails in turn; requests beyond any machine's memory |
//! | `sizes.rs` `ownership.rs` | the catalog of other libraries' bugs, one test a row: shapes and strides; ownership and drops |
//! | `threads.rs` | handles shared and dropped on eight threads; types that are `Send` or not |
//!
//! All of it runs under the checking allocator of `common/alloc.rs`.

#[path = "../common/alloc.rs"]
mod alloc;
mod memory;
mod ownership;
mod sizes;
mod threads;

use rankform::prelude::*;

/// One number for the elements of a tensor and their order, without memory beyond that of `to_vec`.
fn digest<T: Element, const RANK: usize>(x: &Tensor<T, RANK>) -> Result<u64> {
    let values = x.to_vec()?;
    let bytes = values.iter().flat_map(bytemuck::bytes_of);
    Ok(bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
}

/// Runs `work`; a panic in it is caught, and not reported: the report would take memory from the counted.
fn caught<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    thread_local!(static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                report(info)
            }
        }));
    });
    QUIET.set(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    QUIET.set(false);
    result
}

/// Asserts that a result is one kind of error, and prints the actual result otherwise.
#[macro_export]
macro_rules! refused {
    ($result:expr, $error:pat) => {
        match $result {
            Err($error) => {}
            #[allow(unreachable_patterns)]
            Err(other) => panic!("{}: {other:?} is not {}", stringify!($result), stringify!($error)),
            Ok(_) => panic!("{} succeeded", stringify!($result)),
        }
    };
}
