//! The programs that were compiled to bytecode, kept for later calls.
// Imports: `error`, `fallible`, `device`.

use crate::device::MAX_OPERANDS;
use crate::error::Result;
use crate::fallible::{out_of_memory, try_box};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The compiled programs, by their type and variant and by the operands of their loads.
pub(super) struct Cache<T: 'static>(LazyLock<RwLock<HashMap<CacheKey, &'static T>>>);

/// A type, the [variant](crate::kernel::Program::variant), the number of loads, and the operand of each load.
type CacheKey = (TypeId, u64, u8, [u8; MAX_OPERANDS]);

impl<T: Send + Sync> Cache<T> {
    pub(super) const fn new() -> Self {
        Cache(LazyLock::new(Default::default))
    }

    /// The program of this type, which is compiled if it is new. A program stays until the process ends;
    /// their number is that of types.
    ///
    /// # Errors
    /// Those of `write`, [`Error::OutOfMemory`](crate::Error::OutOfMemory). A later call compiles the
    /// program.
    pub(super) fn get(
        &self,
        (of, variant): (TypeId, u64),
        reads: &[u8],
        write: &mut dyn FnMut() -> Result<T>,
    ) -> Result<&'static T> {
        let mut key = (of, variant, reads.len() as u8, [0; MAX_OPERANDS]);
        key.3[..reads.len()].copy_from_slice(reads);
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known);
        }
        let new = try_box(write()?)?;
        let mut programs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        programs.try_reserve(1).map_err(|_| out_of_memory::<(CacheKey, &T)>(programs.len() + 1))?;
        // Of several threads that write the same program, one adds it.
        Ok(programs.entry(key).or_insert_with(|| Box::leak(new)))
    }
}
