//! Programs that are interpreted: the graph of a traced program becomes a list of steps over columns once, and runs block by
//! block by loops that were compiled here, so that nothing is compiled for it where it is used.
//!
//! | file | |
//! |---|---|
//! | `steps.rs` | the loops, one for each step and machine type |
//! | `code.rs` | from a graph to steps and registers |
//! | `frame.rs` | a running program's memory |
//! | `map.rs` | programs over elements |
//! | `fold.rs` | rows and columns, reduced |
//! | `states.rs` | what they carry along |
//! | `reduce.rs` | reductions |
//! | `scan.rs` | scans |
//! | `device.rs` | the host so, for tests |
//!
//! The steps are the same as those of compiled loops, and so are the bits of their results.
// Imports: `error`, `device`.

mod code;
#[cfg(feature = "dynamic")]
mod device;
mod fold;
mod frame;
mod map;
mod reduce;
mod scan;
mod states;
mod steps;

#[cfg(feature = "dynamic")]
pub use device::Interpreted;
pub(super) use map::map;
pub(super) use reduce::reduce;
pub(crate) use reduce::slice_of;
pub(super) use scan::scan;

/// Whether programs are interpreted rather than compiled where they are used: where debug assertions are on, as in the dev profile, unless
/// the feature `compiled` says otherwise.
#[cfg(debug_assertions)]
pub(super) const IS_CHOSEN: bool = !cfg!(feature = "compiled");

use crate::device::MAX_OPERANDS;
use crate::error::{Error, Result};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// Programs that were written, by the type that they are of and by the operands that their loads read.
struct Cache<T: 'static>(LazyLock<RwLock<HashMap<Key, Option<&'static T>>>>);

/// A type, and how many loads there are and what they read.
type Key = (TypeId, u8, [u8; MAX_OPERANDS]);

impl<T: Send + Sync> Cache<T> {
    const fn new() -> Self {
        Cache(LazyLock::new(Default::default))
    }

    /// The program of this type, which is written if it is new. Programs are as many as their types, and stay.
    fn get(
        &self,
        op: &'static str,
        of: TypeId,
        reads: &[u8],
        write: &mut dyn FnMut() -> Option<T>,
    ) -> Result<&'static T> {
        let mut key = (of, reads.len() as u8, [0; MAX_OPERANDS]);
        key.2[..reads.len()].copy_from_slice(reads);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let known = known.unwrap_or_else(|| {
            let new = write().map(|new| &*Box::leak(Box::new(new)));
            *self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(new)
        });
        known.ok_or_else(|| Error::Value {
            op,
            what: "a step that is not among those that are interpreted".into(),
        })
    }
}
