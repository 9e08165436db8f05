// An element of unknown size.
use rankform::prelude::*;

fn takes(_: &Tensor<str, 1>) {}

fn main() {
    let _ = takes;
}
