//! Gradients, against differences of values and by their laws.
//!
//! | file | |
//! |---|---|
//! | `check.rs` `counted.rs` | gradients against differences; a user's device that counts and refuses memory |
//! | `operators.rs` | every elementwise operator, on every kind of view; the list of those without a gradient |
//! | `reductions.rs` `scans.rs` | every reducer and scan, over every kind of axes, plain, fused, along rows |
//! | `scatters.rs` | scatters of sums, products and extremes |
//! | `movement.rs` `writes.rs` | views, copies, elements by index; writes in place, and programs of both at random |
//! | `products.rs` `neural.rs` | products that sum, convolutions, attention; normalizations, losses, pools |
//! | `rules.rs` `rule_limits.rs` | operators that state their own backward pass; 16 bits, infinities, NaN |
//! | `rule_forms.rs` | the same operators in every form: layouts, sizes, second order, checkpoints |
//! | `complex.rs` `precision.rs` `elements.rs` | complex numbers; 16 bits, casts; operands of several elements |
//! | `branches.rs` `operands.rs` | branches that were not taken; operands of one kernel |
//! | `results.rs` `row_blocks.rs` | derivatives by results; backward passes by blocks of rows |
//! | `laws.rs` | Hessians, products with vectors, sums, checkpoints, custom operators |
//! | `forward.rs` `forward_laws.rs` | forward mode |
//! | `linalg.rs` | linear algebra, with that feature
//! | `sharing.rs` | tapes beside each other, memory shared with plain tensors, texts of errors |
//! | `devices.rs` `faults.rs` | tapes over other devices; refused memory, threads, what a tape holds |
//! | `optim.rs` `update_rules.rs` | optimizers, trees of parameters; formulas of optimizers |
//! | `pytorch.rs` | small programs against PyTorch |

#[path = "../common/alloc.rs"]
mod alloc;
mod branches;
mod check;
mod complex;
mod contributions;
mod counted;
mod devices;
mod elements;
mod faults;
mod forward;
mod forward_laws;
#[path = "../common/gradients.rs"]
mod gradients;
mod laws;
#[cfg(feature = "linalg")]
mod linalg;
mod movement;
mod neural;
mod operands;
mod operators;
mod optim;
mod precision;
mod products;
mod pytorch;
mod reductions;
mod results;
mod row_blocks;
mod rule_forms;
mod rule_limits;
mod rules;
mod scans;
mod scatters;
mod sharing;
mod update_rules;
mod writes;
