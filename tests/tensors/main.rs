//! Tensors: creation, shared memory, reads, writes, transfers; and the abilities of the ancestors, one by
//! one.
//!
//! | file | |
//! |---|---|
//! | `laws_layout.rs` | the laws of sizes, strides and layouts |
//! | `create.rs` `random.rs` | creation of tensors |
//! | `pieces.rs` | two exclusive views of one tensor, moves inside one |
//! | `compare.rs` `display.rs` `iter.rs` `symbols.rs` | equality, printing, iterators, the operators of Rust |
//! | `dynamic.rs` `dispatch.rs` `quantized.rs` | types at run time, operators by name, quantized tensors |
//! | `tapes.rs` | types known at run time on a tape |
//! | `interpret.rs` | interpreted programs against compiled loops |
//! | `io/` `dlpack/` `interop.rs` | files, and other libraries |
//! | `linalg.rs` `fft.rs` | linear algebra and Fourier transforms, with these features |
//! | `new_device.rs` `examples.rs` | a user's device; the numbered examples |
//! | `parity_c10.rs` `parity_caffe2.rs` `parity_paddle.rs` `parity_torch.rs` | a test an ability of the ancestors |
//!
//! All of it runs under the checking allocator of `common/alloc.rs`.

#[path = "../common/alloc.rs"]
mod alloc;
mod compare;
mod create;
mod dispatch;
mod display;
#[cfg(feature = "dlpack")]
mod dlpack;
mod dynamic;
mod examples;
#[cfg(feature = "fft")]
mod fft;
mod interop;
#[cfg(feature = "compiled")] // it compares interpreted programs with compiled loops
mod interpret;
mod io;
mod iter;
mod laws_layout;
#[cfg(feature = "linalg")]
mod linalg;
mod new_device;
mod parity_c10;
mod parity_caffe2;
mod parity_paddle;
mod parity_torch;
mod pieces;
mod quantized;
mod random;
mod symbols;
mod tapes;
#[path = "../common/python.rs"]
mod with_python;
