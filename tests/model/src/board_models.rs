//! Work of several threads: each part is done once, and done when the owner goes on.

use crate::memory::Plain;
use loom::sync::Arc;
use loom::thread;

macro_rules! models {
    ($($code:ident)*) => { $(
        #[allow(dead_code)]
        mod $code {
            use super::*;
            use crate::$code::JobSlot;

            /// Does two parts on the board, or alone where it is taken.
            fn work(board: &JobSlot) {
                let parts = [Plain::new(), Plain::new()];
                if !board.run(parts.len(), &|part| parts[part].write(), || ()) {
                    parts.iter().for_each(Plain::write);
                }
                // Each from 7.
                assert_eq!(parts.each_ref().map(Plain::read), [8; 2]);
            }

            pub fn a_helper_comes_at_any_time() {
                let board = Arc::new(JobSlot::new());
                let helper = thread::spawn({
                    let board = board.clone();
                    move || _ = board.help()
                });
                work(&board);
                work(&board);
                helper.join().unwrap();
            }

            pub fn two_owners_meet() {
                let board = Arc::new(JobSlot::new());
                let other = thread::spawn({
                    let board = board.clone();
                    move || work(&board)
                });
                work(&board);
                other.join().unwrap();
            }
        }
    )* };
}
models! { board board_without_release board_without_acquire board_that_never_closes board_without_waiting
board_left_without_release board_owned_without_acquire }

crate::holds!(a_helper_comes_at_any_time of board,
    not of board_without_release: "Causality violation",
    not of board_without_acquire: "Causality violation",
    not of board_that_never_closes: "Causality violation",
    not of board_without_waiting: "Causality violation");
crate::holds!(two_owners_meet of board,
    not of board_left_without_release: "Causality violation",
    not of board_owned_without_acquire: "Causality violation");
