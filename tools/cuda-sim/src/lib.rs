//! The names of NVIDIA's driver, NVRTC and cuBLAS, as far as rankform calls them. Work is done when it is queued.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod blas;
mod block;
mod memory;
mod module;

use blas::Matrix;
use block::{Dim, Kernel, Outcome};
use memory::Freed;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The results that are used, by the numbers of `CUresult` and `nvrtcResult`.
type Status = c_int;
const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_DEVICE: Status = 101;
const INVALID_IMAGE: Status = 200;
const NOT_FOUND: Status = 500;
const ILLEGAL_ADDRESS: Status = 700;
const LAUNCH_FAILED: Status = 719;
const COMPILATION: Status = 6;
const CUBLAS_INVALID_VALUE: Status = 7;

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What a kernel's access outside memory leads to: a report, and the end.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system gives this to a handler of SIGSEGV.
    let address = unsafe { (*info).si_addr() } as usize;
    let kernel = block::NOW.try_lock().map(|name| name.clone()).unwrap_or_default();
    eprintln!("cuda-sim: illegal access at {address:#x} in or after `{kernel}`: {}", memory::near(address).unwrap_or_default());
    std::process::abort()
}

fn report_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a handler that only reports; on a stack of its own, because fibres have small ones.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
    });
}

macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the caller keeps to the driver's contract: pointers to what the call reads and writes.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

struct Module {
    library: *mut c_void,
    waits: bool,
}

/// An NVRTC program: its source, the image, and what the compiler said.
struct Program {
    source: String,
    image: Vec<u8>,
    log: String,
}

/// How an image begins; whether its kernels wait, and the path of a library follow.
const MAGIC: &str = "cuda-sim ";

static NEXT: AtomicUsize = AtomicUsize::new(1);

calls! {
    fn cuInit(_flags: c_uint) {
        report_faults();
        SUCCESS
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        *count = setting("CUDA_SIM_DEVICES", 1) as c_int;
        SUCCESS
    }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if ordinal < 0 || ordinal as usize >= setting("CUDA_SIM_DEVICES", 1) {
            return INVALID_DEVICE;
        }
        *device = ordinal;
        SUCCESS
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        *value = match attribute {
            75 => 9,  // major version of what it can do
            76 => 0,  // minor
            16 => 4,  // multiprocessors: few, so that a test is soon over
            _ => 0,
        };
        SUCCESS
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        *context = 0x1000 + device as usize;
        SUCCESS
    }
    fn cuCtxSetCurrent(_context: usize) { SUCCESS }
    fn cuDeviceGetDefaultMemPool(pool: *mut usize, _device: c_int) {
        *pool = 1;
        SUCCESS
    }
    fn cuMemPoolSetAttribute(_pool: usize, _attribute: c_int, _value: *mut c_void) { SUCCESS }
    fn cuStreamCreate(stream: *mut usize, _flags: c_uint) {
        *stream = NEXT.fetch_add(1, Ordering::Relaxed);
        SUCCESS
    }
    fn cuStreamSynchronize(_stream: usize) { SUCCESS }

    fn cuMemAllocAsync(address: *mut u64, nbytes: usize, _stream: usize) {
        if nbytes == 0 {
            return INVALID_VALUE;
        }
        if nbytes.saturating_add(memory::live()) > setting("CUDA_SIM_MEMORY", 8 << 30) {
            return OUT_OF_MEMORY;
        }
        match memory::allocate(nbytes) {
            Some(at) => *address = at as u64,
            None => return OUT_OF_MEMORY,
        }
        SUCCESS
    }
    fn cuMemFreeAsync(address: u64, _stream: usize) {
        match memory::free(address as usize) {
            Freed::Fine => SUCCESS,
            Freed::Unknown => INVALID_VALUE,
            Freed::Marred => {
                eprintln!("cuda-sim: something wrote beside an allocation");
                ILLEGAL_ADDRESS
            }
        }
    }
    fn cuMemsetD8Async(to: u64, value: u8, nbytes: usize, _stream: usize) {
        std::ptr::write_bytes(to as *mut u8, value, nbytes);
        SUCCESS
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, nbytes: usize, _stream: usize) {
        std::ptr::copy(from, to as *mut u8, nbytes);
        SUCCESS
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, nbytes: usize, _stream: usize) {
        std::ptr::copy(from as *const u8, to, nbytes);
        SUCCESS
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, nbytes: usize, _stream: usize) {
        std::ptr::copy(from as *const u8, to as *mut u8, nbytes);
        SUCCESS
    }

    fn cuModuleLoadData(module: *mut usize, image: *const c_char) {
        let text = CStr::from_ptr(image).to_string_lossy();
        let Some((waits, path)) = text.strip_prefix(MAGIC).and_then(|rest| rest.split_once(' ')) else { return INVALID_IMAGE };
        let Ok(path) = CString::new(path) else { return INVALID_IMAGE };
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            eprintln!("cuda-sim: {}", CStr::from_ptr(libc::dlerror()).to_string_lossy());
            return INVALID_IMAGE;
        }
        *module = Box::into_raw(Box::new(Module { library, waits: waits == "waits" })) as usize;
        SUCCESS
    }
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        let module = &*(module as *const Module);
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let Ok(entry) = CString::new(format!("{name}__sim")) else { return NOT_FOUND };
        let entry = libc::dlsym(module.library, entry.as_ptr());
        let forget = libc::dlsym(module.library, c"sim_forget".as_ptr());
        if entry.is_null() || forget.is_null() {
            return NOT_FOUND;
        }
        let entry = std::mem::transmute::<*mut c_void, block::Entry>(entry);
        let forget = std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(forget);
        *function = Box::into_raw(Box::new(Kernel { name, entry, forget, waits: module.waits })) as usize;
        SUCCESS
    }
    fn cuLaunchKernel(
        function: usize, bx: c_uint, by: c_uint, bz: c_uint, tx: c_uint, ty: c_uint, tz: c_uint, shared: c_uint, _stream: usize,
        arguments: *mut *mut c_void, _extra: *mut c_void
    ) {
        let (blocks, threads) = (Dim { x: bx, y: by, z: bz }, Dim { x: tx, y: ty, z: tz });
        match block::run(&*(function as *const Kernel), blocks, threads, shared as usize, arguments) {
            Outcome::Done => SUCCESS,
            Outcome::Refused => INVALID_VALUE,
            Outcome::Stuck | Outcome::Races => LAUNCH_FAILED,
            Outcome::Marred => ILLEGAL_ADDRESS,
        }
    }

    fn cuGetErrorName(status: Status, name: *mut *const c_char) {
        *name = match status {
            SUCCESS => c"CUDA_SUCCESS",
            INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
            OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
            INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
            INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
            NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
            ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
            _ => c"CUDA_ERROR_UNKNOWN",
        }.as_ptr();
        SUCCESS
    }
    fn cuGetErrorString(status: Status, text: *mut *const c_char) { cuGetErrorName(status, text) }

    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) {
        (*major, *minor) = (13, 0);
        SUCCESS
    }
    fn nvrtcCreateProgram(
        program: *mut usize, source: *const c_char, _name: *const c_char, _headers: c_int, _texts: *const c_void, _names: *const c_void
    ) {
        let source = CStr::from_ptr(source).to_string_lossy().into_owned();
        *program = Box::into_raw(Box::new(Program { source, image: Vec::new(), log: String::new() })) as usize;
        SUCCESS
    }
    fn nvrtcCompileProgram(program: usize, _count: c_int, _options: *const *const c_char) {
        let program = &mut *(program as *mut Program);
        match module::compile(&program.source) {
            Ok(library) => {
                let waits = if module::waits(&program.source) { "waits" } else { "runs" };
                program.image = format!("{MAGIC}{waits} {}\0", library.display()).into_bytes();
                SUCCESS
            }
            Err(log) => {
                program.log = log;
                COMPILATION
            }
        }
    }
    fn nvrtcGetCUBINSize(program: usize, nbytes: *mut usize) {
        *nbytes = (&*(program as *const Program)).image.len();
        SUCCESS
    }
    fn nvrtcGetCUBIN(program: usize, to: *mut u8) {
        let image = &(*(program as *const Program)).image;
        std::ptr::copy_nonoverlapping(image.as_ptr(), to, image.len());
        SUCCESS
    }
    fn nvrtcGetProgramLogSize(program: usize, nbytes: *mut usize) {
        *nbytes = (&*(program as *const Program)).log.len() + 1;
        SUCCESS
    }
    fn nvrtcGetProgramLog(program: usize, to: *mut u8) {
        let log = &(*(program as *const Program)).log;
        std::ptr::copy_nonoverlapping(log.as_ptr(), to, log.len());
        to.add(log.len()).write(0);
        SUCCESS
    }
    fn nvrtcDestroyProgram(program: *mut usize) {
        drop(Box::from_raw(*program as *mut Program));
        *program = 0;
        SUCCESS
    }

    fn cublasCreate_v2(handle: *mut usize) {
        *handle = NEXT.fetch_add(1, Ordering::Relaxed);
        SUCCESS
    }
    fn cublasSetStream_v2(_handle: usize, _stream: usize) { SUCCESS }
    fn cublasGemmStridedBatchedEx(
        _handle: usize, turn_a: c_int, turn_b: c_int, m: c_int, n: c_int, k: c_int, _alpha: *const c_void, a: usize, a_kind: c_int,
        a_pitch: c_int, a_matrix: i64, b: usize, b_kind: c_int, b_pitch: c_int, b_matrix: i64, _beta: *const c_void, c: usize,
        c_kind: c_int, c_pitch: c_int, c_matrix: i64, batch: c_int, _sum: c_int, _algorithm: c_int
    ) {
        let matrix = |address, kind, turn: c_int, pitch: c_int, matrix| Matrix { address, kind, turned: turn != 0, pitch: pitch.into(), matrix };
        let (a, b) = (matrix(a, a_kind, turn_a, a_pitch, a_matrix), matrix(b, b_kind, turn_b, b_pitch, b_matrix));
        let c = matrix(c, c_kind, 0, c_pitch, c_matrix);
        match blas::product(batch.into(), [m, n, k].map(i64::from), &a, &b, &c) {
            Some(()) => SUCCESS,
            None => CUBLAS_INVALID_VALUE,
        }
    }
}
