// An element whose size is not known.
use rankform::prelude::*;

fn takes(_: &Tensor<str, 1>) {}

fn main() {
    let _ = takes;
}
