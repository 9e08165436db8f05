//! Any bytes as an archive: tensors or errors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rankform::io::npz::Npz;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = Npz::new(Cursor::new(bytes)) else { return };
    for name in file.names().map(String::from).collect::<Vec<_>>() {
        let _ = file.read::<f32, 2>(&name);
        if let Ok(x) = file.read_dyn(&name) {
            assert!(x.nbytes() <= 1100 * bytes.len(), "more than deflating can hold");
        }
    }
});
