//! Files: written tensors are read back, files of other programs are read, and hostile files do no harm.
//!
//! | file | |
//! |---|---|
//! | `npy.rs` | NumPy's format: headers, orders, elements |
//! | `npz.rs` | archives of it |
//! | `safetensors.rs` | many tensors in one file, read and mapped |
//! | `hostile.rs` | every prefix and every changed byte of valid files; readers and writers that fail or lie |
//! | `python.rs` | both ways with NumPy and the package of safetensors |

mod hostile;
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod python;
#[cfg(feature = "safetensors")]
mod safetensors;

use std::path::PathBuf;

/// A folder of its own for a test, empty.
fn room(name: &str) -> PathBuf {
    let room = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("io").join(name);
    let _ = std::fs::remove_dir_all(&room);
    std::fs::create_dir_all(&room).unwrap();
    room
}

/// Asserts that a result is one kind of error with these words in it.
#[macro_export]
macro_rules! refused {
    ($result:expr, $error:pat, $words:expr) => {
        match $result {
            Err(error @ $error) => {
                assert!(error.to_string().contains($words), "{error}: without {:?}", $words)
            }
            Err(other) => panic!("{}: {other:?} is not {}", stringify!($result), stringify!($error)),
            Ok(_) => panic!("{} succeeded", stringify!($result)),
        }
    };
}

/// The bytes of a little-endian `.npy` file with this header and this data.
fn npy_bytes(version: [u8; 2], header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend(version);
    match version {
        [1, _] => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}
