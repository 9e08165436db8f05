//! An interpreter of traced programs: a register machine whose instructions are loops over columns.
//!
//! A traced program is compiled to bytecode once, and runs block by block. The loops were compiled with this
//! crate, so nothing is compiled for a program in the crate that uses it. `compiler.rs` inlines a graph into
//! code over values, `bytecode.rs` allocates registers, `frame.rs` runs the code, and `operations.rs` has the
//! loops of its instructions. `map.rs`, `reduce/` and `scan/` run programs in place of compiled loops; the
//! walks over operands are the same.
//!
//! The steps of a program are those of compiled loops, and the results have the same bits.
// Imports: `error`, `device`.

mod bytecode;
mod compiler;
#[cfg(feature = "dynamic")]
mod device;
mod frame;
mod inputs;
mod instructions;
mod map;
mod operations;
mod reduce;
mod rows;
mod scan;
mod scratch;

#[cfg(feature = "dynamic")]
pub use device::Interpreted;
pub(super) use map::map;
pub(super) use reduce::reduce;
pub(crate) use reduce::slice_of;
pub(super) use scan::scan;

/// Whether programs are interpreted rather than compiled where they are used: with debug assertions, as in
/// the dev profile, except with the feature `compiled`.
#[cfg(debug_assertions)]
pub(super) const IS_CHOSEN: bool = !cfg!(feature = "compiled");

use crate::device::MAX_OPERANDS;
use crate::error::{Error, Result};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The compiled programs, by their type and by the operands of their loads.
struct Cache<T: 'static>(LazyLock<RwLock<HashMap<Key, Option<&'static T>>>>);

/// A type, the number of loads, and the operand of each load.
type Key = (TypeId, u8, [u8; MAX_OPERANDS]);

impl<T: Send + Sync> Cache<T> {
    const fn new() -> Self {
        Cache(LazyLock::new(Default::default))
    }

    /// The program of this type, which is compiled if it is new. A program stays until the process ends;
    /// their number is that of types.
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
