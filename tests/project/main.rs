//! The project itself: what the compiler says to wrong programs, the rules of the house, the promises of the documents.
//!
//! | file | |
//! |---|---|
//! | `architecture.rs` | who imports whom, where `unsafe` may stand, and the like; an operator is one file; the table of parity |
//! | `compile_errors.rs` | wrong programs and their messages |
//! | `names.rs` | names of other libraries, the index of operators |
//! | `pages.rs` | links, the summary, sizes of the first pages, the parts of decisions |
//! | `artifacts.rs` `message.rs` `source.rs` | the libraries that cargo built; a compiler's messages; Rust's source as words |

mod architecture;
mod artifacts;
mod compile_errors;
mod message;
mod names;
mod pages;
mod source;
