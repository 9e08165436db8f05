//! An interpreter of traced programs: a register machine whose instructions are loops over registers.
//!
//! A traced program is compiled to bytecode once, and runs block by block. The loops were compiled with this
//! crate, so nothing is compiled for a program in the crate that uses it. `compiler.rs` inlines a graph into
//! code over values, `bytecode.rs` allocates registers, `frame.rs` runs the code, and `operations.rs` has the
//! loops of its instructions. `map.rs`, `reduce/` and `scan/` run programs in place of compiled loops; the
//! iteration over operands is the same.
//!
//! The steps of a program are those of compiled loops, and the results have the same bits.
// Imports: nothing.

mod bytecode;
mod cache;
mod compiler;
#[cfg(feature = "dynamic")]
mod device;
mod execute;
mod frame;
mod inputs;
mod instructions;
mod map;
mod operations;
mod reduce;
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
