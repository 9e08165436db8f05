//! Compiles every kernel of a folder with NVIDIA's NVRTC, for real GPUs but without one, and reports the
//! registers and memory that they need.
//!
//! `nvrtc_check LIBNVRTC FOLDER ARCHITECTURE…`: the sources are those that the simulator wrote
//! (`CUDA_SIM_SOURCES`). Many are compiled as one, each in a namespace of its own, because the common head of
//! the sources takes most of the time. Fails if a kernel does not compile, spills more than
//! `MAX_SPILLED_BYTES`, or needs more than `MAX_REGISTERS`. `EXCEPTIONS` lists kernels that may need more,
//! with reasons.

use cuda_sim::module::{MAX_JOINED, Source, joined};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// The functions of NVRTC that are called, as `nvrtc.h` declares them.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const c_void,
        *const c_void,
    ) -> c_int,
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
            // SAFETY: the library is NVIDIA's.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            if library.is_null() { Err(format!("{path} cannot be opened")) } else { Ok(library) }
        };
        // NVRTC opens this library by its plain name, and does not find it by itself.
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so") {
                open(&file.path().to_string_lossy())?;
            }
        }
        let library = open(path)?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the function belongs to that library, and has the type of its header.
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

    /// Compiles a source with the options of the crate. Returns the report of the assembler, or the errors.
    fn compile(&self, source: &str, architecture: &str) -> Result<String, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let options = [
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".into(),
            "--fmad=false".into(),
            "--ptxas-options=-v".into(),
        ];
        let options: Vec<_> = options.into_iter().filter_map(|option| CString::new(option).ok()).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        // SAFETY: texts end with a zero, outputs are large enough, and the program is destroyed once.
        unsafe {
            (self.create)(
                &mut program,
                source.as_ptr(),
                c"kernel.cu".as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            );
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

/// The report of the assembler about one kernel.
#[derive(Clone, Copy, Default, Debug)]
struct Needs {
    registers: usize,
    /// Bytes of spilled registers.
    spilled: usize,
    /// Bytes of the stack frame.
    stack: usize,
}

/// The number before the first occurrence of `word`.
fn number(line: &str, word: &str) -> Option<usize> {
    line.split_once(word)?.0.split_whitespace().last()?.parse().ok()
}

/// The reports in a log, by the name of the kernel.
fn needs(log: &str) -> BTreeMap<String, Needs> {
    let mut all: BTreeMap<String, Needs> = BTreeMap::new();
    let mut now = Needs::default();
    let mut name = "";
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            (name, now) = (rest.split('\'').next().unwrap_or(""), Needs::default());
        } else if line.contains(" bytes stack frame") {
            now.stack = number(line, " bytes stack frame").unwrap_or(0);
            now.spilled = number(line, " bytes spill stores").unwrap_or(0);
        } else if let Some(registers) = number(line, " registers") {
            now.registers = registers;
            all.insert(name.to_string(), now);
        }
    }
    all
}

/// A kernel: its source, the path of the source, and its mechanism by the comment after its head.
struct Kernel {
    source: Source,
    path: PathBuf,
    kind: String,
}

impl Kernel {
    fn read(path: &Path) -> Result<Kernel, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let kind = text
            .split_once("kernel(const Args a) { // ")
            .and_then(|(_, rest)| rest.lines().next())
            .unwrap_or("source")
            .to_string();
        Ok(Kernel { source: Source::new(&text), path: path.to_path_buf(), kind })
    }

    /// The functions of the operator language that it calls, for reports and exceptions.
    fn functions(&self) -> String {
        let mut names: Vec<&str> = self
            .source
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("DI ")?.split_once('(')?.0.split_once("_f"))
            .filter_map(|(_, rest)| rest.split_once('_'))
            .map(|(_, name)| name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join(" ")
    }
}

/// Compiles kernels as one source. Returns the needs of each.
fn compile<'a>(
    nvrtc: &Nvrtc,
    batch: &[&'a Kernel],
    architecture: &str,
) -> Result<Vec<(&'a Kernel, Needs)>, String> {
    let sources: Vec<Source> = batch.iter().map(|kernel| kernel.source.clone()).collect();
    let all = needs(&nvrtc.compile(&joined(&sources, |_, _| String::new()), architecture)?);
    let of = |kernel: &&'a Kernel| {
        let (_, needs) = all
            .iter()
            .find(|(name, _)| name.ends_with(&kernel.source.name))
            .ok_or("NVRTC does not report its kernel")?;
        Ok((*kernel, *needs))
    };
    batch.iter().map(of).collect()
}

/// The largest number of registers of a thread. Four blocks of 256 threads then share the 65,536 registers of
/// a multiprocessor: half of its maximum of threads, which is enough to hide the latency of memory.
const MAX_REGISTERS: usize = 64;

/// The largest number of spilled bytes of a thread. The assembler spills one to four numbers where one more
/// block then fits, as at 32, 40, 48, 64 and 80 registers, and L1 serves them. Each of these kernels is
/// named.
const MAX_SPILLED_BYTES: usize = 16;

/// Kernels that may need more registers: their mechanism (empty for all), a part of their source, the number,
/// and the reason. Of several that apply, the largest number counts.
const EXCEPTIONS: &[(&str, &str, usize, &str)] = &[
    (
        "rows",
        "f32 s95;",
        160,
        "a test's state of 384 bytes, the largest that a block of 128 threads shares: \
         96 registers for itself",
    ),
    (
        "",
        "f32 s47;",
        128,
        "a test's state of 192 bytes, the largest that a block of 256 threads shares: \
         48 registers for itself",
    ),
    (
        "",
        "typedef i64 idx;",
        80,
        "positions of 64 bits, for operands of 2^30 elements and more, take two registers each: three blocks",
    ),
    ("", " x16,", 128, "a program of more than 16 operands, with an address for each: two blocks"),
    (
        "map",
        "Mul(t2, t1);\n  const bool t4 = Lt(t0, t1);",
        72,
        "a test's sines of two f64 at a time, which are compared after: three blocks",
    ),
    (
        "contract",
        "",
        128,
        "a thread keeps a square of sums, whose factors come from shared memory: two blocks keep it busy",
    ),
    (
        "contract on tensor cores",
        "",
        128,
        "a warp keeps up to 64 × 32 sums, beside the fragments and the elements of the next panels: two blocks",
    ),
    (
        "map",
        "_tgamma(",
        72,
        "the slope of the gamma function, its product with another function of f64: three blocks",
    ),
    (
        "map",
        "_y1(",
        96,
        "the slope of a Bessel function, with the series of two functions of f64, \
         and calls of their full forms: two blocks",
    ),
    ("map", "_j1(", 80, "the slope of a Bessel function, and calls of full forms: three blocks"),
    (
        "contract",
        "c64 sum[4][4];",
        136,
        "sixteen sums of two f64 take 64 registers; with positions of 64 bits one block is left",
    ),
    (
        "reduce",
        "f64 s2; f64 s3; };",
        72,
        "accumulators of two columns, each of four f64, beside eight f64 in flight: three blocks",
    ),
    ("sort tile", "", 128, "the elements of a tile, their positions and ranks stay in registers: two blocks"),
    ("sort move", "", 128, "as above"),
    ("scan", "", 80, "four states, that of the thread and that of all before, in each thread: three blocks"),
    ("scan", "typedef i64 idx;", 96, "the same with positions of 64 bits: two blocks"),
];

impl Kernel {
    /// Whether its needs are within the limits.
    fn keeps_within(&self, needs: Needs) -> bool {
        let about = |(kind, word, _, _): &&(&str, &str, usize, &str)| {
            (kind.is_empty() || self.kind == *kind) && self.source.text.contains(word)
        };
        let allowed = EXCEPTIONS.iter().filter(about).map(|&(_, _, registers, _)| registers);
        let registers = allowed.max().unwrap_or(MAX_REGISTERS);
        needs.registers <= registers && needs.spilled <= MAX_SPILLED_BYTES
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder, architectures @ ..] = arguments.as_slice() else {
        return Err("LIBNVRTC FOLDER ARCHITECTURE…".into());
    };
    let nvrtc = Nvrtc::open(library)?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|file| file.path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    paths.sort();
    let kernels = paths.iter().map(|path| Kernel::read(path)).collect::<Result<Vec<_>, _>>()?;
    let (joinable, alone): (Vec<&Kernel>, Vec<&Kernel>) =
        kernels.iter().partition(|kernel| kernel.source.is_joinable());
    let batches: Vec<&[&Kernel]> = joinable.chunks(MAX_JOINED).chain(alone.chunks(1)).collect();
    let mut wrong = 0;
    for architecture in architectures {
        let mut found: Vec<(&Kernel, Needs)> = Vec::new();
        for batch in &batches {
            if let Ok(all) = compile(&nvrtc, batch, architecture) {
                found.extend(all);
                continue;
            }
            // Each kernel by itself: the report is then about this kernel alone.
            for &kernel in *batch {
                match compile(&nvrtc, &[kernel], architecture) {
                    Ok(one) => found.extend(one),
                    Err(log) => println!("{architecture} {}:\n{log}", kernel.path.display()),
                }
            }
        }
        wrong += kernels.len() - found.len();
        let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (kernel, needs) in &found {
            let too_much = !kernel.keeps_within(*needs);
            wrong += usize::from(too_much);
            if too_much || needs.spilled > 0 || std::env::var_os("NVRTC_CHECK_ALL").is_some() {
                println!(
                    "{}{architecture} {} {needs:?} ({}; {})",
                    if too_much { "too much: " } else { "" },
                    kernel.path.display(),
                    kernel.kind,
                    kernel.functions()
                );
            }
            kinds.entry(&kernel.kind).or_default().push(needs.registers);
        }
        for (kind, registers) in &mut kinds {
            registers.sort_unstable();
            let (middle, most) = (registers[registers.len() / 2], registers[registers.len() - 1]);
            println!(
                "{architecture} {kind}: {} kernels, {middle} registers in the middle, {most} at most",
                registers.len()
            );
        }
        let (most, spilling) = found.iter().fold((0, 0), |(most, spilling), (_, needs)| {
            (needs.registers.max(most), spilling + usize::from(needs.spilled > 0))
        });
        println!(
            "{architecture}: {} of {} kernels compiled by NVRTC, {most} registers at most, {spilling} spill",
            found.len(),
            kernels.len()
        );
    }
    if wrong > 0 { Err(format!("{wrong} kernels do not compile, or need too much")) } else { Ok(()) }
}
