//! Loaded kernels by key: a kernel is generated, compiled and loaded once in a process.
//!
//! The key is the mechanism, the types and the numbers that the source depends on. Machine code is also kept
//! on disk, by the source, the options, the architecture and the version of NVRTC (`nvrtc.rs`).
// Imports: `error`.

use crate::device::cuda::driver::context::Context;
use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::nvrtc;
use crate::error::{Error, Result, text};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The key of a kernel: all that its source depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::device::cuda) struct KernelKey {
    pub(in crate::device::cuda) mechanism: &'static str,
    /// The types that determine the source: of a program (twice), of a body and a reducer, of elements, of an
    /// operator and its elements; `()` if none.
    pub(in crate::device::cuda) types: [TypeId; 2],
    /// The numbers that the source depends on.
    pub(in crate::device::cuda) key_numbers: Vec<u32>,
}

/// A kernel that is loaded. It stays for the rest of the process.
#[derive(Clone, Copy)]
pub(in crate::device::cuda) struct LoadedKernel(pub(in crate::device::cuda) sys::CUfunction);
// SAFETY: a number that the driver gave. Any thread may use it while the context is current.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernel {}

/// The kernels of one GPU.
#[derive(Default)]
pub(in crate::device::cuda) struct KernelCache {
    kernels: Mutex<HashMap<KernelKey, LoadedKernel>>,
    compiled: AtomicUsize,
}

impl KernelCache {
    /// The number of kernels that were compiled, and not found on disk.
    pub(in crate::device::cuda) fn compiled(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
    }

    /// The kernel of this key. A new one is generated and compiled; every source defines the function
    /// `kernel`.
    ///
    /// # Errors
    /// Those of `source`; [`Error::Library`] without NVRTC; [`Error::Fault`] with the report of NVRTC and the
    /// source.
    pub(in crate::device::cuda) fn get(
        &self,
        context: &Context,
        key: KernelKey,
        source: impl FnOnce() -> Result<String>,
    ) -> Result<LoadedKernel> {
        if let Some(&kernel) = locked(&self.kernels).get(&key) {
            return Ok(kernel);
        }
        let kernel = self.load(context, &with_progress(key.mechanism, source()?))?;
        locked(&self.kernels).insert(key, kernel);
        Ok(kernel)
    }

    fn load(&self, context: &Context, source: &str) -> Result<LoadedKernel> {
        let architecture = &context.architecture;
        if let Some(image) = nvrtc::cached(source, architecture)
            && let Ok(kernel) = load_image(context, &image)
        {
            return Ok(kernel);
        }
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let image = nvrtc::compile(source, architecture).map_err(|error| match error {
            Error::Fault { op, what } => Error::Fault { op, what: text(format_args!("{what}\n{source}")) },
            other => other,
        })?;
        let kernel = load_image(context, &image)?;
        nvrtc::cache(source, architecture, &image);
        Ok(kernel)
    }
}

fn load_image(context: &Context, image: &[u8]) -> Result<LoadedKernel> {
    // The driver reads to the end that the image states; a text ends with a zero.
    let mut image = image.to_vec();
    image.push(0);
    // SAFETY: NVRTC made the image; the driver refuses one that is not valid.
    unsafe {
        context.with("load a kernel", || {
            let module = result::module::load_data(image.as_ptr().cast())?;
            Ok(LoadedKernel(result::module::get_function(module, CString::from(c"kernel"))?))
        })
    }
}

/// The source with the name of its mechanism and one more line: the first thread writes the number of the
/// operation to host memory (`progress.rs`).
fn with_progress(mechanism: &str, source: String) -> String {
    let begin = "kernel(const Args a) {";
    let note = "\n  if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) *(volatile i64*)a.begun = \
                a.operation;";
    source.replacen(begin, &format!("{begin} // {mechanism}{note}"), 1)
}
