//! Compiles CUDA C++ to a library for the host: `host.h`, sources, and an entry for each kernel.
//!
//! The start of the compiler and the common head of every source take longer than one kernel. Sources that
//! several threads request at a time are therefore compiled as one, each in a namespace of its own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

const HOST: &str = include_str!("host.h");
/// The head of every source that rankform generates.
const PRELUDE: &str = include_str!("../../../src/device/cuda/codegen/prelude.cuh");
/// Floating-point steps are not contracted. Optimization is off, because it takes longer than the kernels of
/// tests.
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
    "-fsanitize=alignment",
    "-ffp-contract=off",
    "-march=native",
];
/// The largest number of sources that are compiled as one.
pub const MAX_JOINED: usize = 64;

/// The names of the kernels in a source.
fn kernels(source: &str) -> Vec<String> {
    let after_bounds = |text: &str| match text.trim_start().strip_prefix("__launch_bounds__(") {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest).trim_start().to_string(),
        None => text.trim_start().to_string(),
    };
    let declared = source.split("__global__").skip(1).filter_map(|text| text.split_once("void"));
    declared
        .filter_map(|(_, text)| after_bounds(text).split_once('(').map(|(name, _)| name.trim().to_string()))
        .collect()
}

/// A source and its name.
#[derive(Clone, PartialEq, Debug)]
pub struct Source {
    pub name: String,
    pub text: String,
}

impl Source {
    pub fn new(text: &str) -> Source {
        Source { name: name(text, entries), text: text.to_string() }
    }

    /// Whether it can be compiled together with others after one prelude: it has no preprocessor directive
    /// that changes the meaning of others.
    pub fn is_joinable(&self) -> bool {
        let own = self.text.strip_prefix(PRELUDE);
        own.is_some_and(|own| {
            own.lines().all(|line| !line.trim_start().starts_with('#') || line.starts_with("#pragma unroll"))
        })
    }

    /// Whether threads of its kernels wait for each other.
    pub fn waits(&self) -> bool {
        let own = self.text.strip_prefix(PRELUDE).unwrap_or(&self.text);
        ["__syncthreads(", "__syncwarp(", "_sync("].iter().any(|name| own.contains(name))
    }

    /// The name of one of its kernels among those of other sources.
    pub fn symbol(&self, kernel: &str) -> String {
        format!("{kernel}_{}", self.name)
    }
}

/// The name of a source: a hash of the whole text from which its library is compiled, alone and together with
/// others, with the text of `each` after it. A change of the generated text changes the name, and older
/// libraries are not used.
fn name(text: &str, each: impl Fn(&Source, &[String], bool) -> String) -> String {
    let nameless = Source { name: String::new(), text: text.to_string() };
    let alone = joined(std::slice::from_ref(&nameless), |source, kernels| each(source, kernels, false));
    let with_others = joined(&[nameless.clone(), nameless], |source, kernels| each(source, kernels, true));
    let mut hasher = DefaultHasher::new();
    (alone, with_others, HOST, OPTIONS).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Joins several sources to one. `each` returns the text after each of them, outside its namespace.
pub fn joined(sources: &[Source], each: impl Fn(&Source, &[String]) -> String) -> String {
    let together = sources.len() > 1;
    let prelude = if together { PRELUDE } else { "" };
    let mut text = prelude.to_string();
    for source in sources {
        let (own, names) = (source.text.strip_prefix(prelude).unwrap_or(&source.text), kernels(&source.text));
        names.iter().for_each(|name| text += &format!("#define {name} {}\n", source.symbol(name)));
        let [open, close] = if together {
            [format!("namespace of_{} {{", source.name), "}".into()]
        } else {
            Default::default()
        };
        text += &format!("#undef SOURCE\n#define SOURCE \"{}\"\n{open}\n{own}\n{close}\n", source.name);
        names.iter().for_each(|name| text += &format!("#undef {name}\n"));
        text += &each(source, &names);
    }
    text
}

/// The functions by which the simulator calls the kernels of a source, and fills their static shared memory.
fn entries(source: &Source, kernels: &[String], together: bool) -> String {
    let (own, space) = (&source.name, if together { format!("of_{}::", source.name) } else { String::new() });
    let mut text =
        format!("SIM_SHARED(sim_shared_{own}, __start_sim_shared_{own}, __stop_sim_shared_{own})\n");
    for kernel in kernels {
        let name = source.symbol(kernel);
        text += &format!("SIM_ENTRY({name}, {space}{name})\n");
    }
    text
}

fn folder() -> PathBuf {
    std::env::var_os("CUDA_SIM_CACHE").map_or_else(|| std::env::temp_dir().join("cuda-sim"), PathBuf::from)
}

fn library_path(source: &Source) -> PathBuf {
    folder().join(&source.name).with_extension("so")
}

/// Sources that wait for a compiler, the number of running compilers, and errors that were not yet returned.
struct Waiting {
    sources: Vec<Source>,
    compilers: usize,
    failed: Vec<(Source, String)>,
}

static WAITING: Mutex<Waiting> =
    Mutex::new(Waiting { sources: Vec::new(), compilers: 0, failed: Vec::new() });
static DONE: Condvar = Condvar::new();

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles a source, if it has no library yet, together with others that are requested at the same time.
/// Returns the path of the library, or the compiler's report.
pub fn compile(source: &Source) -> Result<PathBuf, String> {
    // Sources are written for readers, and for the real NVRTC. A source that does not compile (tests have
    // some) is removed again.
    let shown = std::env::var_os("CUDA_SIM_SOURCES")
        .map(|sources| PathBuf::from(sources).join(&source.name).with_extension("cu"));
    if let Some(shown) = &shown {
        let _ = shown
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(shown, &source.text));
    }
    let library = library_path(source);
    if library.exists() {
        return Ok(library);
    }
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = waiting();
    waiting.sources.push(source.clone());
    loop {
        if let Some(at) = waiting.failed.iter().position(|(failed, _)| failed == source) {
            let _ = shown.map_or(Ok(()), std::fs::remove_file);
            return Err(waiting.failed.swap_remove(at).1);
        }
        if library.exists() {
            return Ok(library);
        }
        if waiting.compilers == most || waiting.sources.is_empty() {
            waiting = DONE.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        // This thread compiles the waiting sources, its own or those of others.
        waiting.sources.retain(|source| !library_path(source).exists());
        if waiting.sources.is_empty() {
            continue;
        }
        let alone = waiting.sources.iter().position(|source| !source.is_joinable());
        let sources = match alone {
            Some(at) => vec![waiting.sources.swap_remove(at)],
            None => {
                let count = waiting.sources.len().min(MAX_JOINED);
                waiting.sources.drain(..count).collect()
            }
        };
        waiting.compilers += 1;
        drop(waiting);
        let failed = build_each(&sources);
        waiting = self::waiting();
        waiting.compilers -= 1;
        waiting.failed.extend(failed);
        DONE.notify_all();
    }
}

/// Builds sources as one, or each by itself if that fails. Returns those that do not compile, with the
/// compiler's report.
fn build_each(sources: &[Source]) -> Vec<(Source, String)> {
    let mut sources = sources.to_vec();
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    let mut failed = Vec::new();
    // Two threads can request the same source, and each needs the result.
    let mut different = sources.clone();
    different.dedup();
    if different.len() > 1 && build(&different).is_ok() {
        return failed;
    }
    for source in &different {
        if let Err(words) = build(std::slice::from_ref(source)) {
            failed.extend(
                sources.iter().filter(|other| *other == source).map(|source| (source.clone(), words.clone())),
            );
        }
    }
    failed
}

/// A file that the drop removes, unless it was renamed before.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A path in the folder that no other thread uses.
fn own(source: &Source, extension: &str) -> PathBuf {
    folder().join(format!(
        "{}-{}-{:?}.{extension}",
        source.name,
        std::process::id(),
        std::thread::current().id()
    ))
}

/// Gives a file a second name in one step, unless that name exists: by `link`, or by a copy on file systems
/// without links.
fn put(
    fresh: &Path,
    place: &Path,
    copy: PathBuf,
    link: impl Fn(&Path, &Path) -> std::io::Result<()>,
) -> Result<(), String> {
    match link(fresh, place) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(_) => {}
    }
    let copy = TemporaryFile(copy);
    let done = std::fs::copy(fresh, &copy.0).and_then(|_| std::fs::rename(&copy.0, place));
    done.map_err(|error| format!("{}: {error}", place.display()))
}

/// Builds one library of these sources, and puts it at the path of each.
fn build(sources: &[Source]) -> Result<(), String> {
    let folder = folder();
    let own = |extension: &str| own(&sources[0], extension);
    let (code, fresh) = (own("cpp"), TemporaryFile(own("new")));
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let header = folder.join("host.h");
    if std::fs::read_to_string(&header).ok().as_deref() != Some(HOST) {
        let temporary = TemporaryFile(own("h"));
        write(&temporary.0, HOST)?;
        std::fs::rename(&temporary.0, &header).map_err(|error| error.to_string())?;
    }
    let text = joined(sources, |source, kernels| entries(source, kernels, sources.len() > 1));
    write(&code, &format!("#include \"host.h\"\n{text}"))?;
    let compiler = std::env::var_os("CUDA_SIM_CXX").unwrap_or_else(|| "g++".into());
    let done = Command::new(&compiler).args(OPTIONS).arg("-o").arg(&fresh.0).arg(&code).arg("-lm").output();
    let done = done.map_err(|error| format!("{}: {error}", compiler.display()))?;
    if !done.status.success() {
        return Err(format!("{}\n{}", code.display(), String::from_utf8_lossy(&done.stderr)));
    }
    let _ = std::fs::remove_file(&code);
    sources.iter().try_for_each(|source| {
        put(&fresh.0, &library_path(source), own("copy"), |from, to| std::fs::hard_link(from, to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_gets_its_path_also_on_file_systems_without_links() {
        let folder = std::env::temp_dir().join(format!("cuda-sim-put-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        let put = |place: &str, link: fn(&Path, &Path) -> std::io::Result<()>| {
            put(&at("fresh"), &at(place), at("copy"), link)
        };
        let refused = |_: &Path, _: &Path| Err(std::io::ErrorKind::Unsupported.into());
        std::fs::write(at("fresh"), "library").unwrap();
        put("linked", |from, to| std::fs::hard_link(from, to)).unwrap();
        put("copied", refused).unwrap();
        for place in ["linked", "copied"] {
            assert_eq!(std::fs::read_to_string(at(place)).unwrap(), "library", "{place}");
        }
        // An existing file stays, and a failure leaves no file.
        std::fs::write(at("fresh"), "another").unwrap();
        put("copied", |_, _| Err(std::io::ErrorKind::AlreadyExists.into())).unwrap();
        assert_eq!(std::fs::read_to_string(at("copied")).unwrap(), "library");
        assert!(put("no folder/place", refused).unwrap_err().contains("no folder/place"));
        assert!(!at("copy").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_covers_the_source_and_the_text_generated_from_it() {
        let text = "__global__ void kernel(int* out) { *out = 1; }";
        assert_eq!(name(text, entries), Source::new(text).name);
        assert_ne!(name(text, entries), name(&text.replace('1', "2"), entries));
        assert_ne!(
            name(text, entries),
            name(text, |source, kernels, together| entries(source, kernels, together) + "// other\n")
        );
        assert_ne!(
            name(text, entries),
            name(text, |source, kernels, together| entries(source, kernels, !together))
        );
    }
}
