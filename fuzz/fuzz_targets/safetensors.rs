//! Any bytes as a safetensors file: tensors that fill it, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rankform::io::safetensors::SafeTensors;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = SafeTensors::from_bytes(bytes.to_vec()) else { return };
    let mut total = 0;
    for name in file.names() {
        let about = file.about(name).unwrap();
        total += about.nbytes as usize;
        let _ = file.read::<f32, 2>(name);
        match file.read_dyn(name) {
            Ok(x) => assert_eq!(
                (x.nbytes() as u64, x.size(), Some(x.dtype())),
                (about.nbytes, about.sizes, about.dtype)
            ),
            Err(_) => assert!(
                about.dtype.is_none_or(|dtype| dtype.name() == "bool")
                    || about.sizes.len() > 8
                    || about.sizes.contains(&0)
            ),
        }
    }
    assert!(total < bytes.len());
});
