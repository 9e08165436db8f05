// Cells are for one thread.
use rankform::prelude::*;

fn main() {
    let cells = Tensor::from([1, 2]).into_cells().unwrap();
    std::thread::spawn(move || cells[[0]].set(3));
}
