//! Finds and opens NVIDIA's libraries before a function of them is called. A missing library is an error that
//! lists the searched folders.
//!
//! `cudarc` opens libraries by their plain names, and panics if it finds none. A library that was opened by
//! its path is found again under its plain name. The libraries therefore need not be in the loader's path.
// Imports: `error`.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The variable that names folders to search before all others.
const FOLDERS_VARIABLE: &str = "RANKFORM_CUDA_LIBRARIES";

/// The folders to search, after those of the loader.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(paths) = std::env::var_os(FOLDERS_VARIABLE) {
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
    // NVIDIA's Python wheels in the active environment.
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

/// Libraries that `library` opens by name but cannot find by itself. They are opened first.
fn companions(library: &str) -> &'static [&'static str] {
    match library {
        "nvrtc" => &["libnvrtc-builtins.so"],
        "cublas" => &["libcublasLt.so"],
        _ => &[],
    }
}

/// The name of a library, and the package that contains it.
fn description(library: &'static str) -> &'static str {
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
/// [`Error::Library`] with the searched folders.
pub(in crate::device::cuda) fn open(library: &'static str) -> Result<()> {
    static TRIED: Mutex<BTreeMap<&str, Result<()>>> = Mutex::new(BTreeMap::new());
    TRIED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(library)
        .or_insert_with(|| find(library))
        .clone()
}

fn open_forever(path: impl libloading::AsFilename) -> std::result::Result<(), libloading::Error> {
    // SAFETY: a library of NVIDIA's, whose initialization only prepares the library itself.
    unsafe { libloading::Library::new(path) }.map(std::mem::forget)
}

fn find(library: &'static str) -> Result<()> {
    let names = cudarc::get_lib_name_candidates(library);
    let own = std::env::var_os(FOLDERS_VARIABLE).is_some();
    if !own && names.iter().any(|name| open_forever(name).is_ok()) {
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
                let _ = open_forever(file.path());
            }
            match open_forever(&path) {
                // `cudarc` must find it again by a plain name.
                Ok(()) if names.iter().any(|name| open_forever(name).is_ok()) => return Ok(()),
                Ok(()) => tried.push(format!("{} (opened, but not found again by its name)", path.display())),
                Err(error) => tried.push(format!("{}: {error}", path.display())),
            }
        }
        tried.push(folder.display().to_string());
    }
    if own && names.iter().any(|name| open_forever(name).is_ok()) {
        return Ok(());
    }
    if !own {
        tried.push(format!("and no other folder; {FOLDERS_VARIABLE} can name some"));
    }
    Err(Error::Library { op: "cuda", library: description(library), tried: tried.join(", ") })
}
