//! Numbers: how accurate named functions are, and that their bits do not depend on the processor.

mod accuracy;
mod levels;
mod slopes;
