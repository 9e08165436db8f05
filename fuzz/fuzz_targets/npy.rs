//! Any bytes as an `.npy` file: a tensor that comes back as it was, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rankform::io::npy::{self, Npy};

fuzz_target!(|bytes: &[u8]| {
    let _ = Npy::new(bytes).and_then(|file| file.read::<f32, 2>());
    let _ = Npy::new(bytes).and_then(|file| file.read::<bool, 1>());
    let _ = Npy::new(bytes).and_then(|file| file.read::<rankform::F8E4M3, 3>());
    let Ok(x) = Npy::new(bytes).and_then(|file| file.read_dyn()) else { return };
    assert!(x.nbytes() <= bytes.len());
    let mut written = Vec::new();
    npy::write_to(&mut written, &x).unwrap();
    let y = Npy::new(&written[..]).unwrap().read_dyn().unwrap();
    assert_eq!((x.dtype(), x.size(), x.to_bytes().unwrap()), (y.dtype(), y.size(), y.to_bytes().unwrap()));
});
