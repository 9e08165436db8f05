//! Computations as types, without devices and tensors: operators, bodies, programs, reducers, and plans of
//! the other mechanisms.
//!
//! An [`Op`] maps elements to one element. A [`Body`] is a tree of operators over inputs and run-time
//! numbers. The *type* of a body is the kernel: a device compiles, traces and caches it by type. A
//! [`Program`] stores the values of bodies.
// Imports: its own files.

mod body;
mod cost;
mod derivative;
mod fast_path;
mod in_place;
mod ir;
mod op;
mod plans;
mod program;
mod reducer;
mod row;

pub use body::{Body, Call, Input, Param, Row, Slopes, ValueSource};
pub use cost::{is_cheap, is_sum};
pub use derivative::{Derivative, HasOperand};
pub use fast_path::{eval_row, run_row, run_row_in_place};
pub use in_place::InPlace;
pub use ir::{
    KernelIr, ReducerIr, RowConstant, RunTimeNumber, TraceInputs, numbers, trace_body, trace_op,
    trace_program, trace_reducer,
};
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) use ir::{Recorder, trace_elements};
pub use op::{ElementTuple, Io, Op, OpMany};
pub use plans::{ContractPlan, GatherPlan, IndexKind, IndexedAxes, MAX_GROUP, ScanPlan, SortPlan};
pub use program::{Program, Store, StoreMany};
pub(crate) use reducer::SLICE_ELEMENTS;
pub use reducer::{Accumulator, ExtraVisitor, LaneVisitor, Reducer, SliceFn, Slope};
pub(crate) use row::RowConstantCount;
pub use row::{Cached, RowReduce};
