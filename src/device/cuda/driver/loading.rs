//! NVIDIA's libraries, found and opened before anything is called in them: a missing one is an error that says where it
//! was looked for.
//!
//! `cudarc` opens libraries by plain names and panics where it finds none. A library that is opened here by its path is
//! found again under its own name, so nothing needs to be in the loader's path.
// Imports: `error`.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Where a folder with libraries can be named, before all others.
const OWN: &str = "RANKFORM_CUDA_LIBRARIES";

/// Folders to look in, after the loader's own.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(paths) = std::env::var_os(OWN) {
        folders.extend(std::env::split_paths(&paths));
    }
    for toolkit in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].iter().filter_map(std::env::var_os) {
        folders.extend(
            ["lib64", "lib", "targets/x86_64-linux/lib"].map(|part| PathBuf::from(&toolkit).join(part)),
        );
    }
    folders.extend(
        [
            "/usr/local/cuda/lib64",
            "/usr/local/cuda/targets/x86_64-linux/lib",
            "/opt/cuda/lib64",
            "/usr/lib/x86_64-linux-gnu",
            "/usr/local/nvidia/lib64",
            "/usr/lib/wsl/lib",
        ]
        .map(PathBuf::from),
    );
    // NVIDIA's Python wheels, in the environment that is active.
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
        for python in
            std::fs::read_dir(PathBuf::from(environment).join("lib")).into_iter().flatten().flatten()
        {
            let wheels = python.path().join("site-packages/nvidia");
            folders.extend(["cu13/lib", "cuda_nvrtc/lib", "cublas/lib"].map(|part| wheels.join(part)));
        }
    }
    folders
}

/// Libraries that another one opens by name and does not find by itself: they are opened first.
fn companions(library: &str) -> &'static [&'static str] {
    match library {
        "nvrtc" => &["libnvrtc-builtins.so"],
        "cublas" => &["libcublasLt.so"],
        _ => &[],
    }
}

/// A library in words, and what it comes with.
fn whose(library: &'static str) -> &'static str {
    match library {
        "cuda" => "libcuda, a part of NVIDIA's driver",
        "nvrtc" => "libnvrtc, a part of the CUDA toolkit or of its Python wheel nvidia-cuda-nvrtc",
        "cublas" => "libcublas, a part of the CUDA toolkit or of its Python wheel nvidia-cublas",
        other => other,
    }
}

/// Opens a library (`cuda`, `nvrtc`, `cublas`) for the rest of the process.
///
/// # Errors
/// [`Error::Library`].
pub(in crate::device::cuda) fn open(library: &'static str) -> Result<()> {
    static TRIED: Mutex<BTreeMap<&str, Result<()>>> = Mutex::new(BTreeMap::new());
    TRIED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(library)
        .or_insert_with(|| find(library))
        .clone()
}

fn keep(path: impl libloading::AsFilename) -> std::result::Result<(), libloading::Error> {
    // SAFETY: a library of NVIDIA's, whose initialization does nothing but prepare itself.
    unsafe { libloading::Library::new(path) }.map(std::mem::forget)
}

fn find(library: &'static str) -> Result<()> {
    let names = cudarc::get_lib_name_candidates(library);
    let own = std::env::var_os(OWN).is_some();
    if !own && names.iter().any(|name| keep(name).is_ok()) {
        return Ok(());
    }
    let mut tried = vec!["the loader's path".to_string()];
    for folder in folders() {
        let files = || std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in names
            .iter()
            .filter(|name| name.contains(".so."))
            .map(|name| folder.join(name))
            .filter(|path| path.exists())
        {
            let is_companion =
                |name: &str| companions(library).iter().any(|companion| name.starts_with(companion));
            for file in files().filter(|file| file.file_name().to_str().is_some_and(is_companion)) {
                let _ = keep(file.path());
            }
            match keep(&path) {
                // It must be found again by a plain name, or `cudarc` would not find it.
                Ok(()) if names.iter().any(|name| keep(name).is_ok()) => return Ok(()),
                Ok(()) => tried.push(format!("{} (opened, but not found again by its name)", path.display())),
                Err(error) => tried.push(format!("{}: {error}", path.display())),
            }
        }
        tried.push(folder.display().to_string());
    }
    if own && names.iter().any(|name| keep(name).is_ok()) {
        return Ok(());
    }
    if !own {
        tried.push(format!("and no other folder, which {OWN} may name"));
    }
    Err(Error::Library { op: "cuda", library: whose(library), tried: tried.join(", ") })
}
