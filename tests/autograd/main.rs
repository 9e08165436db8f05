//! Gradients, against differences of values and by their laws.

#[path = "../common/alloc.rs"]
mod alloc;
mod branches;
mod check;
mod complex;
mod counted;
mod devices;
mod faults;
mod forward;
mod forward_laws;
mod laws;
mod movement;
mod neural;
mod operands;
mod optim;
mod precision;
mod products;
mod reductions;
mod scans;
mod sharing;
mod writes;
