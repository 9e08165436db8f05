//! The memory pool: a block has one owner, is as large as was asked, and is freed once.

use crate::memory;
use loom::thread;

const SMALL: usize = 32 << 10;
const LARGE: usize = 64 << 10;

macro_rules! models {
    ($($code:ident)*) => { $(
        #[allow(dead_code)]
        mod $code {
            use super::*;
            use crate::$code as pool;

            fn take(nbytes: usize) -> pool::Block {
                let block = pool::take(nbytes).expect("memory");
                assert!(block.capacity >= nbytes, "{} bytes for {nbytes}", block.capacity);
                memory::write(block.address.as_ptr());
                block
            }

            fn give(block: pool::Block) {
                memory::write(block.address.as_ptr());
                // SAFETY: it came from `take`, and each is given once.
                unsafe { pool::give(block) }
            }

            /// Every block has been given back: the counts equal the contents.
            fn settle(takes: u64) {
                let statistics = pool::statistics();
                assert_eq!((statistics.live, statistics.fresh + statistics.reused), (0, takes));
                assert!(statistics.kept <= statistics.limit, "more is kept than may be");
                assert_eq!(pool::trim(), statistics.kept);
                assert_eq!(pool::statistics().kept, 0);
            }

            pub fn two_threads_take_from_the_same_kept_blocks() {
                let kept = [take(LARGE), take(SMALL)];
                kept.into_iter().for_each(give);
                let other = thread::spawn(|| give(take(LARGE)));
                give(take(LARGE));
                other.join().unwrap();
                settle(4);
            }

            pub fn blocks_are_taken_and_given_while_all_are_freed() {
                give(take(SMALL));
                let other = thread::spawn(|| give(take(SMALL)));
                pool::trim();
                give(take(SMALL));
                other.join().unwrap();
                settle(3);
            }

            pub fn blocks_are_given_while_the_limit_falls() {
                let (first, second) = (take(LARGE), take(LARGE));
                let other = thread::spawn(move || give(first));
                let third = thread::spawn(|| pool::set_limit(LARGE));
                give(second);
                other.join().unwrap();
                third.join().unwrap();
                settle(2);
            }
        }
    )* };
}
models! { pool pool_torn pool_freed_and_kept pool_over_its_limit }

crate::holds!(two_threads_take_from_the_same_kept_blocks of pool,
    not of pool_torn: "32768 bytes for 65536");
crate::holds!(blocks_are_taken_and_given_while_all_are_freed of pool,
    not of pool_freed_and_kept: "freed twice");
crate::holds!(blocks_are_given_while_the_limit_falls of pool,
    not of pool_over_its_limit: "more is kept than may be");
