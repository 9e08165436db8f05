//! The project itself: the compiler's messages for wrong programs, the rules of the house, the promises of
//! the documents.
//!
//! | file | |
//! |---|---|
//! | `api.rs` | the public interface, recorded in `public_api.txt` |
//! | `architecture.rs` | import order, files with `unsafe`, and other rules; the table of parity |
//! | `circles.rs` | files that import each other |
//! | `compile_errors.rs` | wrong programs and their messages |
//! | `patches.rs` | the files that an added operator, reduction, element or microkernel changes |
//! | `names.rs` | names of other libraries, the index of operators |
//! | `pages.rs` | links, the summary, sizes of the first pages, the parts of decisions |
//! | `artifacts.rs` `message.rs` `source.rs` | the libraries that cargo built; a compiler's messages; Rust's source as words |

mod api;
mod architecture;
mod artifacts;
mod circles;
mod compile_errors;
mod message;
mod names;
mod pages;
mod patches;
mod source;
