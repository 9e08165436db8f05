//! From CUDA C++ to a library of this machine: `host.h`, the source, and an entry for each kernel.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const HOST: &str = include_str!("host.h");
/// Steps of floating-point numbers stay as they are written; no optimisation, which takes longer than kernels of tests.
const OPTIONS: &[&str] = &[
    "-std=c++17",
    "-O0",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-pipe",
    "-w",
    "-fno-exceptions",
    "-fno-asynchronous-unwind-tables",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-march=native",
];

/// The names of the kernels in a source.
fn kernels(source: &str) -> Vec<String> {
    let after_bounds = |text: &str| match text.trim_start().strip_prefix("__launch_bounds__(") {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest).trim_start().to_string(),
        None => text.trim_start().to_string(),
    };
    let declared = source.split("__global__").skip(1).filter_map(|text| text.split_once("void"));
    declared.filter_map(|(_, text)| after_bounds(text).split_once('(').map(|(name, _)| name.trim().to_string())).collect()
}

fn folder() -> PathBuf {
    std::env::var_os("CUDA_SIM_CACHE").map_or_else(|| std::env::temp_dir().join("cuda-sim"), PathBuf::from)
}

/// Compiles a source, unless it was before; the path of the library, or the compiler's words.
pub fn compile(source: &str) -> Result<PathBuf, String> {
    let entries: String = kernels(source)
        .iter()
        .map(|name| format!("extern \"C\" void {name}__sim(Sim* to, void** arguments) {{ sim = to; sim_call({name}, arguments); }}\nextern \"C\" unsigned long {name}__size() {{ return sim_size({name}); }}\n"))
        .collect();
    let text = format!("#include \"host.h\"\n{source}\n{entries}");
    let mut hasher = DefaultHasher::new();
    (&text, HOST, OPTIONS).hash(&mut hasher);
    let (folder, name) = (folder(), format!("{:016x}", hasher.finish()));
    // For whoever wants to see them, or compile them with the real NVRTC: those that are none (tests have such) go again.
    let shown = std::env::var_os("CUDA_SIM_SOURCES").map(|sources| PathBuf::from(sources).join(&name).with_extension("cu"));
    if let Some(shown) = &shown {
        let _ = shown.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(shown, source));
    }
    let library = folder.join(&name).with_extension("so");
    if library.exists() {
        return Ok(library);
    }
    let own = |extension: &str| folder.join(format!("{name}-{}-{:?}.{extension}", std::process::id(), std::thread::current().id()));
    let (code, fresh) = (own("cpp"), own("new"));
    let write = |path: &Path, text: &str| std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let header = folder.join("host.h");
    if std::fs::read_to_string(&header).ok().as_deref() != Some(HOST) {
        let beside = own("h");
        write(&beside, HOST)?;
        std::fs::rename(&beside, &header).map_err(|error| error.to_string())?;
    }
    write(&code, &text)?;
    let compiler = std::env::var_os("CUDA_SIM_CXX").unwrap_or_else(|| "g++".into());
    let done = Command::new(&compiler).args(OPTIONS).arg("-o").arg(&fresh).arg(&code).arg("-lm").output();
    let done = done.map_err(|error| format!("{}: {error}", compiler.display()))?;
    if !done.status.success() {
        let _ = shown.map_or(Ok(()), std::fs::remove_file);
        return Err(format!("{}\n{}", code.display(), String::from_utf8_lossy(&done.stderr)));
    }
    let _ = std::fs::remove_file(&code);
    std::fs::rename(&fresh, &library).map_err(|error| error.to_string())?;
    Ok(library)
}

/// Whether the threads of its kernels wait for each other.
pub fn waits(source: &str) -> bool {
    source.contains("__syncthreads()")
}
