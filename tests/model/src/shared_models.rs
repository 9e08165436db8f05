//! The reference counter: the last handle drops once and after all others, and the only handle may write.

use crate::memory::Plain;
use loom::thread;

macro_rules! models {
    ($($code:ident)*) => { $(
        #[allow(dead_code)]
        mod $code {
            use super::*;
            use crate::$code::FallibleArc;

            fn shared() -> FallibleArc<Plain> {
                FallibleArc::new(Plain::new()).unwrap_or_else(|_| panic!("no memory"))
            }

            pub fn the_last_of_three_handles_drops_once_and_after_the_others() {
                let first = shared();
                let others = [first.share(), first.share()]
                    .map(|handle| thread::spawn(move || handle.read()));
                first.read();
                drop(first);
                others.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 7));
            }

            pub fn the_only_handle_writes_and_nobody_reads() {
                let first = shared();
                let second = first.share();
                let other = thread::spawn(move || {
                    let third = second.share();
                    assert_eq!(second.read(), 7);
                    drop(second);
                    assert!(third.handles() <= 2);
                    assert_eq!(third.read(), 7);
                });
                if first.is_unique() {
                    first.write();
                }
                drop(first);
                other.join().unwrap();
            }

            pub fn one_of_two_threads_has_the_value_alone() {
                let first = shared();
                let second = first.share();
                let take = |mut handle: FallibleArc<Plain>| match handle.get_mut() {
                    Some(value) => {
                        value.write();
                        true
                    }
                    None => {
                        handle.read();
                        false
                    }
                };
                let other = thread::spawn(move || take(second));
                let here = take(first);
                let there = other.join().unwrap();
                assert!(!(here && there), "two threads had one value alone");
            }
        }
    )* };
}
models! { shared shared_without_fence shared_without_release shared_without_acquire }

crate::holds!(the_last_of_three_handles_drops_once_and_after_the_others of shared,
    not of shared_without_fence: "Causality violation",
    not of shared_without_release: "Causality violation");
crate::holds!(the_only_handle_writes_and_nobody_reads of shared,
    not of shared_without_release: "Causality violation",
    not of shared_without_acquire: "Causality violation");
crate::holds!(one_of_two_threads_has_the_value_alone of shared,
    not of shared_without_release: "Causality violation",
    not of shared_without_acquire: "Causality violation");
