//! Compiles every kernel of a folder with NVIDIA's NVRTC, for real cards and without one, and says what they need.
//!
//! `nvrtc_check LIBNVRTC FOLDER ARCHITECTURE…`: the sources are those that the simulator wrote (`CUDA_SIM_SOURCES`). A source is
//! what bodies became, and a kernel around it; of those that share both with others, not every pair is compiled, but every
//! body and every kernel is. `ALL_PAIRS` in the environment compiles all. Fails where one does not compile, or where one
//! needs more registers or spills more bytes than a kernel may.

use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// The functions of NVRTC that are called, as `nvrtc.h` declares them.
struct Nvrtc {
    create: unsafe extern "C" fn(*mut *mut c_void, *const c_char, *const c_char, c_int, *const c_void, *const c_void) -> c_int,
    compile: unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    log: unsafe extern "C" fn(*mut c_void, *mut u8) -> c_int,
    image_size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
}

impl Nvrtc {
    fn open(path: &str) -> Result<Nvrtc, String> {
        let folder = PathBuf::from(path).parent().map(PathBuf::from).unwrap_or_default();
        let open = |path: &str| {
            let name = CString::new(path).map_err(|error| error.to_string())?;
            // SAFETY: a library of NVIDIA's.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            if library.is_null() { Err(format!("{path} cannot be opened")) } else { Ok(library) }
        };
        // NVRTC opens this one by its plain name, and does not find it by itself.
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so") {
                open(&file.path().to_string_lossy())?;
            }
        }
        let library = open(path)?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: a function of that library, by the type that its header gives it.
                let found = unsafe { libc::dlsym(library, $name.as_ptr()) };
                if found.is_null() {
                    return Err(format!("{path} has no {:?}", $name));
                }
                // SAFETY: as above.
                unsafe { std::mem::transmute(found) }
            }};
        }
        Ok(Nvrtc {
            create: function!(c"nvrtcCreateProgram"),
            compile: function!(c"nvrtcCompileProgram"),
            log_size: function!(c"nvrtcGetProgramLogSize"),
            log: function!(c"nvrtcGetProgramLog"),
            image_size: function!(c"nvrtcGetCUBINSize"),
            destroy: function!(c"nvrtcDestroyProgram"),
        })
    }

    /// What NVRTC says of a source, or why it does not compile.
    fn compile(&self, source: &str, architecture: &str) -> Result<String, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let options =
            [format!("--gpu-architecture={architecture}"), "--std=c++17".into(), "--fmad=false".into(), "--ptxas-options=-v".into()];
        let options: Vec<_> = options.into_iter().filter_map(|option| CString::new(option).ok()).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        // SAFETY: texts that end with a zero, room for what is written, a program that is destroyed once.
        unsafe {
            (self.create)(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, std::ptr::null(), std::ptr::null());
            let done = (self.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let (mut nbytes, mut image) = (0, 0);
            (self.log_size)(program, &mut nbytes);
            let mut log = vec![0u8; nbytes];
            (self.log)(program, log.as_mut_ptr());
            (self.image_size)(program, &mut image);
            (self.destroy)(&mut program);
            let log = String::from_utf8_lossy(&log).into_owned();
            if done == 0 && image > 0 { Ok(log) } else { Err(log) }
        }
    }
}

/// The number before the first occurrence of `word`, after that of `after`.
fn number(log: &str, word: &str) -> usize {
    let before = log.split(word).next().filter(|before| before.len() < log.len());
    before.and_then(|text| text.split_whitespace().last()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The most registers of a thread that leave room for a block of 256, and the bytes that a kernel may spill.
const REGISTERS: usize = 255;
const SPILLED: usize = 256;

/// Those of the sources, at `path` each, whose body or whose kernel none before has.
fn covering(sources: Vec<PathBuf>) -> Result<Vec<(PathBuf, String)>, String> {
    let all = std::env::var_os("ALL_PAIRS").is_some();
    let (mut bodies, mut kernels, mut chosen) = (HashSet::new(), HashSet::new(), Vec::new());
    for path in sources {
        let source = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        let (body, kernel) = source.split_once("extern \"C\" __global__").unwrap_or((&source, ""));
        let (new_body, new_kernel) = (bodies.insert(hash(body)), kernels.insert(hash(kernel)));
        if all || new_body || new_kernel {
            chosen.push((path, source));
        }
    }
    println!("{} bodies, {} kernels around them", bodies.len(), kernels.len());
    Ok(chosen)
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder, architectures @ ..] = arguments.as_slice() else { return Err("LIBNVRTC FOLDER ARCHITECTURE…".into()) };
    let nvrtc = Nvrtc::open(library)?;
    let mut sources: Vec<PathBuf> =
        std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().map(|file| file.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    sources.sort();
    let count = sources.len();
    let sources = covering(sources)?;
    let mut wrong = 0;
    for architecture in architectures {
        let (mut most, mut spills, mut spilling) = (0, 0, 0);
        for (path, source) in &sources {
            match nvrtc.compile(source, architecture) {
                Ok(log) => {
                    let registers = number(&log, " registers");
                    most = most.max(registers);
                    let spilled = number(&log, " bytes spill stores");
                    spills += spilled;
                    spilling += usize::from(spilled > 0);
                    if spilled > 0 {
                        println!("{architecture} {}: {spilled} bytes spilled", path.display());
                    }
                    wrong += usize::from(registers > REGISTERS || spilled > SPILLED);
                }
                Err(log) => {
                    wrong += 1;
                    println!("{architecture} {}:\n{log}", path.display());
                }
            }
        }
        let chosen = sources.len();
        println!(
            "{architecture}: {chosen} of {count} kernels compiled by NVRTC, at most {most} registers; {spilling} spill, {spills} bytes in all"
        );
    }
    if wrong > 0 { Err(format!("{wrong} kernels do not compile, or need too much")) } else { Ok(()) }
}
