//! NVRTC: compiles CUDA C++ to machine code for one architecture, with a cache on disk.
//!
//! The result is machine code, not PTX: the driver compiles nothing, and may be older than NVRTC. The name of
//! a cached file has a hash of the source and the options, the architecture and the version of NVRTC. The
//! file begins with a checksum, and is written under a temporary name first. A file that is missing or damaged
//! is made again.
// Imports: `error`.

use crate::device::cuda::driver::loading;
use crate::error::{Error, Result, text};
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The options of NVRTC, in addition to the architecture.
const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

fn failed(what: impl std::fmt::Debug) -> Error {
    Error::Fault { op: "nvrtc", what: text(format_args!("{what:?}")) }
}

/// The version of NVRTC.
///
/// # Errors
/// [`Error::Library`] without NVRTC.
pub(in crate::device::cuda) fn version() -> Result<(i32, i32)> {
    loading::open("nvrtc")?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is open; the call writes two numbers.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(failed)?;
    Ok((major, minor))
}

/// Machine code for a real architecture such as `sm_90`.
///
/// # Errors
/// [`Error::Library`] without NVRTC; [`Error::Fault`] with the report of NVRTC.
pub(in crate::device::cuda) fn compile(source: &str, architecture: &str) -> Result<Vec<u8>> {
    loading::open("nvrtc")?;
    struct NvrtcProgram(sys::nvrtcProgram);
    impl Drop for NvrtcProgram {
        fn drop(&mut self) {
            // SAFETY: the program was made below, and is destroyed once.
            let _ = unsafe { result::destroy_program(self.0) };
        }
    }
    let source = CString::new(source).map_err(failed)?;
    let program = NvrtcProgram(result::create_program(&source, Some(c"kernel.cu")).map_err(failed)?);
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(OPTIONS.iter().map(|option| option.to_string()));
    // SAFETY: the program exists.
    let done = unsafe { result::compile_program(program.0, &options) };
    if done.is_err() {
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program.0) }.map_err(failed)?;
        // SAFETY: the log ends with a zero.
        let what = unsafe { CStr::from_ptr(log.as_ptr()) }.to_string_lossy().into_owned();
        return Err(Error::Fault { op: "nvrtc", what });
    }
    let mut nbytes = 0;
    // SAFETY: the program exists; the call writes one number.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut nbytes) }.result().map_err(failed)?;
    let mut image = vec![0u8; nbytes];
    // SAFETY: the buffer has that many bytes.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
    Ok(image)
}

/// The folder of the cache: `$RANKFORM_KERNEL_CACHE`, or `rankform` in the user's cache folder. `None` if the
/// variable is empty.
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

/// The file that caches the machine code of a source.
fn file(source: &str, architecture: &str) -> Option<PathBuf> {
    let (major, minor) = version().ok()?;
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, source, OPTIONS).hash(&mut hasher);
        hasher.finish()
    };
    Some(folder()?.join(format!("{:016x}{:016x}-{architecture}-{major}.{minor}.cubin", hash(1), hash(2))))
}

/// The cached machine code of a source, if there is any and its checksum is right.
pub(in crate::device::cuda) fn cached(source: &str, architecture: &str) -> Option<Vec<u8>> {
    verified(std::fs::read(file(source, architecture)?).ok()?)
}

/// Bytes of the checksum at the beginning of a cached file.
const CHECKSUM_BYTES: usize = 8;

fn checksum(image: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// Machine code after its checksum.
fn with_checksum(image: &[u8]) -> Vec<u8> {
    [&checksum(image), image].concat()
}

/// The machine code of a cached file, if its checksum is right.
fn verified(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let (stored, image) = file.split_at_checked(CHECKSUM_BYTES)?;
    if stored != checksum(image) {
        return None;
    }
    file.drain(..CHECKSUM_BYTES);
    Some(file)
}

/// Writes machine code to the cache. If that fails, the next process compiles it again.
pub(in crate::device::cuda) fn cache(source: &str, architecture: &str, image: &[u8]) {
    let Some(path) = file(source, architecture) else { return };
    let Some(folder) = path.parent() else { return };
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let _ = std::fs::create_dir_all(folder);
    if std::fs::write(&temporary, with_checksum(image))
        .and_then(|()| std::fs::rename(&temporary, &path))
        .is_err()
    {
        let _ = std::fs::remove_file(&temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_file_that_has_changed_is_refused() {
        let file = with_checksum(b"machine code");
        assert_eq!(verified(file.clone()).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(verified(with_checksum(b"")).as_deref(), Some(&b""[..]));
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 1;
            assert_eq!(verified(other), None, "byte {at}");
            assert_eq!(verified(file[..at].to_vec()), None, "cut to {at} bytes");
        }
        assert_eq!(verified([file, b"!".to_vec()].concat()), None);
    }
}
