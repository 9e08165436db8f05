//! CUDA: without a card these tests say that they were skipped, and fail where `RANKFORM_REQUIRE_CUDA` is
//! set.
//!
//! | file | |
//! |---|---|
//! | `operators/operands.rs` | operators of one to six operands, in every way in which they are called |
//! | `operators.rs` | operators give what they give on the CPU |
//! | `queue.rs` | memory, order, late errors, graphs, copies, kernels of one's own |

mod operators;
mod queue;

use rankform::Cuda;
use std::sync::Mutex;

/// The card of this number; none where there is none.
pub fn card(ordinal: usize) -> Option<Cuda> {
    match Cuda::new(ordinal) {
        Ok(card) => Some(card),
        Err(missing) => {
            assert!(ordinal > 0 || std::env::var_os("RANKFORM_REQUIRE_CUDA").is_none(), "{missing}");
            println!("skipped: {missing}");
            None
        }
    }
}

/// Who holds it has the first card for itself, so that its bytes can be counted.
pub static CARD: Mutex<()> = Mutex::new(());

/// A test on the first card, after which nothing is left there.
#[macro_export]
macro_rules! on_card {
    ($name:ident, |$card:ident| $body:block) => {
        #[test]
        fn $name() -> Result<()> {
            let _mine = $crate::CARD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Some($card) = $crate::card(0) else { return Ok(()) };
            fn body($card: &Cuda) -> Result<()> {
                $body
                Ok(())
            }
            body(&$card)?;
            $card.synchronize()?;
            assert_eq!($card.memory().live, 0, "memory of the card that nobody gave back");
            Ok(())
        }
    };
}

pub fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 2654435761 % 1000) as f32 - 500.0) / 37.0).collect()
}
