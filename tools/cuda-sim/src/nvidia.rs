//! Refuses NVIDIA's own libraries beside the simulator's driver: their kernels are code of a GPU.

use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The libraries of NVIDIA's that call the driver, or whose results go to it.
const LIBRARIES: [&str; 6] =
    ["libcuda.so", "libcudart.so", "libnvrtc.so", "libcublas.so", "libcublasLt.so", "libcudnn.so"];

/// The file of the library that contains an address.
pub fn library_of(address: usize) -> Option<PathBuf> {
    // SAFETY: the call fills the struct, whose name is a text of the loader's.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(CStr::from_ptr(found.dli_fname).to_string_lossy().into_owned()))
    }
}

/// Whether a path is that of a library of NVIDIA's, by its name.
fn is_named_so(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| LIBRARIES.iter().any(|library| name.starts_with(library)))
}

/// A library of NVIDIA's that is loaded. The simulator's own has the same names.
pub fn loaded() -> Option<PathBuf> {
    /// # Safety
    /// The loader calls it, with the list that `loaded` passes.
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: the caller's promise; the name is a text of the loader's.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() {
                (*to.cast::<Vec<PathBuf>>()).push(CStr::from_ptr(name).to_string_lossy().into_owned().into());
            }
        }
        0
    }
    let mut all: Vec<PathBuf> = Vec::new();
    // SAFETY: `add` takes this list.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut all).cast()) };
    let own = library_of(loaded as *const () as usize).and_then(|path| path.canonicalize().ok());
    all.retain(|path| is_named_so(path) && path.canonicalize().ok() != own);
    all.pop()
}

/// Says once that a library of NVIDIA's cannot run on the simulator.
pub fn refuse(library: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!(
            "cuda-sim: {} is NVIDIA's. The simulator runs only what its own libnvrtc compiles, and replaces \
             libcuda, libnvrtc and libcublas together: start the program with tools/cuda-sim/run, without \
             RANKFORM_CUDA_LIBRARIES and folders of NVIDIA's before the simulator's in LD_LIBRARY_PATH",
            library.display()
        );
    });
}
