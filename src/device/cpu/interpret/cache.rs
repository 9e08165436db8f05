//! The programs that were compiled to bytecode, kept for later calls.
// Imports: `error`, `device`.

use crate::device::MAX_OPERANDS;
use crate::error::{Error, Result};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The compiled programs, by their type and variant and by the operands of their loads.
pub(super) struct Cache<T: 'static>(LazyLock<RwLock<HashMap<Key, Option<&'static T>>>>);

/// A type, the [variant](crate::kernel::Program::variant), the number of loads, and the operand of each load.
type Key = (TypeId, u64, u8, [u8; MAX_OPERANDS]);

impl<T: Send + Sync> Cache<T> {
    pub(super) const fn new() -> Self {
        Cache(LazyLock::new(Default::default))
    }

    /// The program of this type, which is compiled if it is new. A program stays until the process ends;
    /// their number is that of types.
    pub(super) fn get(
        &self,
        op: &'static str,
        (of, variant): (TypeId, u64),
        reads: &[u8],
        write: &mut dyn FnMut() -> Option<T>,
    ) -> Result<&'static T> {
        let mut key = (of, variant, reads.len() as u8, [0; MAX_OPERANDS]);
        key.3[..reads.len()].copy_from_slice(reads);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let known = known.unwrap_or_else(|| {
            let new = write();
            // Of several threads that write the same program, one adds it.
            let add = || new.map(|new| &*Box::leak(Box::new(new)));
            *self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(add)
        });
        known.ok_or_else(|| Error::Value {
            op,
            what: "the interpreter has no instruction for a step of this program".into(),
        })
    }
}
