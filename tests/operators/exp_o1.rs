#![allow(dead_code)]
#[path = "../common/alloc.rs"] mod alloc;
mod value;
mod arrange;
mod normalise;
mod scans;
mod ordering;
