//! NVRTC: from source to machine code for the device at hand, kept on disk.
//!
//! Machine code, not PTX: the driver then compiles nothing, and may be older than NVRTC. A kept file is named by what it
//! was made from, begins with a checksum, and is written under another name first; whatever is wrong with it, it is made again.
// Imports: `error`.

use crate::device::cuda::driver::loading as library;
use crate::error::{Error, Result, text};
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What NVRTC is told beside the architecture.
const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

fn failed(what: impl std::fmt::Debug) -> Error {
    Error::Fault { op: "nvrtc", what: text(format_args!("{what:?}")) }
}

/// The version of NVRTC.
///
/// # Errors
/// [`Error::Library`].
pub(in crate::device::cuda) fn version() -> Result<(i32, i32)> {
    library::open("nvrtc")?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there, and writes two numbers.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(failed)?;
    Ok((major, minor))
}

/// Machine code for a real architecture such as `sm_90`.
///
/// # Errors
/// [`Error::Library`]; [`Error::Fault`] with NVRTC's words.
pub(in crate::device::cuda) fn compile(source: &str, architecture: &str) -> Result<Vec<u8>> {
    library::open("nvrtc")?;
    struct Program(sys::nvrtcProgram);
    impl Drop for Program {
        fn drop(&mut self) {
            // SAFETY: made below, and destroyed once.
            let _ = unsafe { result::destroy_program(self.0) };
        }
    }
    let source = CString::new(source).map_err(failed)?;
    let program = Program(result::create_program(&source, Some(c"kernel.cu")).map_err(failed)?);
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(OPTIONS.iter().map(|option| option.to_string()));
    // SAFETY: a program that is there.
    let done = unsafe { result::compile_program(program.0, &options) };
    if done.is_err() {
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program.0) }.map_err(failed)?;
        // SAFETY: a text that ends with a zero.
        let what = unsafe { CStr::from_ptr(log.as_ptr()) }.to_string_lossy().into_owned();
        return Err(Error::Fault { op: "nvrtc", what });
    }
    let mut nbytes = 0;
    // SAFETY: writes a number.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut nbytes) }.result().map_err(failed)?;
    let mut image = vec![0u8; nbytes];
    // SAFETY: room for that many bytes.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
    Ok(image)
}

/// The folder of kept kernels: `$RANKFORM_KERNEL_CACHE`, or `rankform` in the user's cache; none where the variable is empty.
fn folder() -> Option<PathBuf> {
    match std::env::var_os("RANKFORM_KERNEL_CACHE") {
        Some(own) => (!own.is_empty()).then(|| own.into()),
        None => {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            Some(
                cache
                    .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?
                    .join("rankform"),
            )
        }
    }
}

/// The file in which the machine code of a source is kept.
fn file(source: &str, architecture: &str) -> Option<PathBuf> {
    let (major, minor) = version().ok()?;
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, source, OPTIONS).hash(&mut hasher);
        hasher.finish()
    };
    Some(folder()?.join(format!("{:016x}{:016x}-{architecture}-{major}.{minor}.cubin", hash(1), hash(2))))
}

/// The machine code that is kept for a source, if there is any and it is whole.
pub(in crate::device::cuda) fn kept(source: &str, architecture: &str) -> Option<Vec<u8>> {
    opened(std::fs::read(file(source, architecture)?).ok()?)
}

/// Bytes of the checksum that a kept file begins with.
const SEAL: usize = 8;

fn checksum(image: &[u8]) -> [u8; SEAL] {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// Machine code behind its checksum.
fn sealed(image: &[u8]) -> Vec<u8> {
    [&checksum(image), image].concat()
}

/// What was sealed, if nothing has changed since.
fn opened(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let (seal, image) = file.split_at_checked(SEAL)?;
    if seal != checksum(image) {
        return None;
    }
    file.drain(..SEAL);
    Some(file)
}

/// Keeps machine code; where that fails, it is compiled again another time.
pub(in crate::device::cuda) fn keep(source: &str, architecture: &str, image: &[u8]) {
    let Some(path) = file(source, architecture) else { return };
    let Some(folder) = path.parent() else { return };
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let _ = std::fs::create_dir_all(folder);
    if std::fs::write(&beside, sealed(image)).and_then(|()| std::fs::rename(&beside, &path)).is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_that_has_changed_is_none() {
        let file = sealed(b"machine code");
        assert_eq!(opened(file.clone()).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(opened(sealed(b"")).as_deref(), Some(&b""[..]));
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 1;
            assert_eq!(opened(other), None, "byte {at}");
            assert_eq!(opened(file[..at].to_vec()), None, "cut to {at} bytes");
        }
        assert_eq!(opened([file, b"!".to_vec()].concat()), None);
    }
}
