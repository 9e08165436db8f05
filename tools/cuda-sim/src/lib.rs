//! The functions of NVIDIA's driver, NVRTC and cuBLAS that rankform calls. Queued work runs when a call waits
//! for it.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod blas;
mod block;
mod memory;
pub mod module;
mod nvidia;
mod queue;
mod tensor;
mod warp;

use blas::Matrix;
use block::{Dim, Kernel};
use memory::Freed;
use module::Source;
use queue::{Action, machine};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Once, PoisonError};

/// The used results, with the numbers of `CUresult` and `nvrtcResult`.
type Status = c_int;
const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_DEVICE: Status = 101;
const INVALID_IMAGE: Status = 200;
const NOT_FOUND: Status = 500;
const ILLEGAL_ADDRESS: Status = 700;
const MISALIGNED_ADDRESS: Status = 716;
const LAUNCH_FAILED: Status = 719;
/// A library of NVIDIA's beside the simulator's driver.
const DRIVER_MISMATCH: Status = 803;
const COMPILATION: Status = 6;
const CUBLAS_INVALID_VALUE: Status = 7;
/// `CUBLAS_COMPUTE_32F_FAST_TF32`.
const FAST_TF32: c_int = 77;
const CUBLAS_EXECUTION_FAILED: Status = 13;

/// The handle of the first device's context.
const CONTEXT: usize = 0x1000;

thread_local! {
    /// The device whose context is current.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
}

fn freed(found: Freed) -> Status {
    match found {
        Freed::Fine => SUCCESS,
        Freed::Unknown => INVALID_VALUE,
        Freed::Marred => {
            eprintln!("cuda-sim: a write just outside an allocation");
            ILLEGAL_ADDRESS
        }
    }
}

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Ten times the compute capability of every device.
fn capability() -> usize {
    setting("CUDA_SIM_CAPABILITY", 90)
}

/// Handles an access outside memory: reports it, and aborts.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives these to a handler of SIGSEGV.
    let (address, code) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        ((*info).si_addr() as usize, context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize)
    };
    if let Some(library) = nvidia::library_of(code).filter(|path| Some(path) == nvidia::loaded().as_ref()) {
        nvidia::refuse(&library);
        std::process::abort()
    }
    let kernel = block::NOW.try_lock().map(|name| name.clone()).unwrap_or_default();
    eprintln!(
        "cuda-sim: illegal access at {address:#x} in or after `{kernel}`: {}",
        memory::near(address).unwrap_or_default()
    );
    std::process::abort()
}

/// The error of a driver's function that only libraries of NVIDIA's call.
fn refuse_library() -> Status {
    if let Some(library) = nvidia::loaded() {
        nvidia::refuse(&library);
    }
    DRIVER_MISMATCH
}

/// The last report of an error in a kernel, for tests.
pub fn last_report() -> String {
    block::REPORT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn report_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only reports. It has its own stack, because those of fibers are small.
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
            // SAFETY: the caller keeps the driver's contract: the pointers are valid for the reads and writes
            // of the call.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

struct Module {
    library: *mut c_void,
    /// Whether the threads of its kernels wait for each other.
    waits: bool,
    /// The name of its source.
    source: String,
}

/// An NVRTC program: its source, the image, and the compiler's report.
struct Program {
    source: String,
    image: Vec<u8>,
    log: String,
}

/// The beginning of an image. After it come whether its kernels have barriers, the name of its source, and
/// the path of a library.
const MAGIC: &str = "cuda-sim ";

calls! {
    fn cuInit(_flags: c_uint) {
        report_faults();
        match nvidia::loaded() {
            Some(_) => refuse_library(),
            None => SUCCESS,
        }
    }
    fn cuDriverGetVersion(version: *mut c_int) {
        *version = 13000;
        SUCCESS
    }
    fn cuGetProcAddress(_name: *const c_char, function: *mut *mut c_void, _version: c_int, _flags: u64) {
        *function = std::ptr::null_mut();
        refuse_library()
    }
    fn cuGetProcAddress_v2(
        _name: *const c_char, function: *mut *mut c_void, _version: c_int, _flags: u64, _found: *mut c_int
    ) {
        *function = std::ptr::null_mut();
        refuse_library()
    }
    fn cuGetExportTable(table: *mut *const c_void, _id: *const c_void) {
        *table = std::ptr::null();
        refuse_library()
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
            75 => capability() as c_int / 10, // major compute capability
            76 => capability() as c_int % 10, // minor
            16 => 4, // multiprocessors: few, so that tests are short
            _ => 0,
        };
        SUCCESS
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        *context = CONTEXT + device as usize;
        SUCCESS
    }
    fn cuCtxSetCurrent(context: usize) {
        DEVICE.set(context - CONTEXT);
        SUCCESS
    }
    fn cuCtxGetCurrent(context: *mut usize) {
        *context = CONTEXT + DEVICE.get();
        SUCCESS
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, other: c_int) {
        *can = c_int::from(device != other);
        SUCCESS
    }
    fn cuCtxEnablePeerAccess(_context: usize, _flags: c_uint) { SUCCESS }
    fn cuStreamCreate(stream: *mut usize, _flags: c_uint) {
        *stream = machine().create(DEVICE.get());
        SUCCESS
    }
    fn cuStreamSynchronize(stream: usize) { machine().synchronize(stream) }
    fn cuStreamQuery(stream: usize) { machine().query_stream(stream) }
    fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) { machine().wait(stream, event) }
    fn cuEventCreate(event: *mut usize, _flags: c_uint) {
        *event = machine().create_event();
        SUCCESS
    }
    fn cuEventDestroy_v2(event: usize) { machine().destroy_event(event) }
    fn cuEventRecord(event: usize, stream: usize) { machine().record(event, stream) }
    fn cuEventQuery(event: usize) { machine().query(event) }
    fn cuEventSynchronize(event: usize) { machine().synchronize_event(event) }
    fn cuStreamBeginCapture_v2(stream: usize, _mode: c_uint) { machine().begin_capture(stream) }
    fn cuStreamEndCapture(stream: usize, graph: *mut usize) {
        *graph = 0;
        match machine().end_capture(stream) {
            Ok(made) => *graph = made,
            Err(status) => return status,
        }
        SUCCESS
    }
    fn cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, _flags: u64) {
        match machine().instantiate(graph) {
            Ok(made) => *ready = made,
            Err(status) => return status,
        }
        SUCCESS
    }
    fn cuGraphDestroy(graph: usize) { machine().destroy_graph(graph) }
    fn cuGraphExecDestroy(graph: usize) { machine().destroy_graph(graph) }
    fn cuGraphLaunch(graph: usize, stream: usize) { machine().launch_graph(graph, stream) }

    fn cuMemAlloc_v2(address: *mut u64, nbytes: usize) {
        let mut machine = machine();
        let status = match machine.fault(DEVICE.get()) {
            SUCCESS => machine.planned_allocation(DEVICE.get()),
            fault => fault,
        };
        if status != SUCCESS || nbytes == 0 {
            return if status == SUCCESS { INVALID_VALUE } else { status };
        }
        if nbytes.saturating_add(memory::live()) > setting("CUDA_SIM_MEMORY", 8 << 30) {
            return OUT_OF_MEMORY;
        }
        match memory::allocate(nbytes, false) {
            Some(at) => *address = at as u64,
            None => return OUT_OF_MEMORY,
        }
        SUCCESS
    }
    fn cuMemFree_v2(address: u64) {
        let mut machine = machine();
        match machine.synchronize_all(DEVICE.get()) {
            SUCCESS => freed(memory::free(address as usize)),
            fault => fault,
        }
    }
    fn cuMemAllocAsync(address: *mut u64, nbytes: usize, stream: usize) {
        match machine().refuse_recording(stream) {
            SUCCESS => cuMemAlloc_v2(address, nbytes),
            refused => refused,
        }
    }
    fn cuMemFreeAsync(address: u64, stream: usize) {
        machine().push(stream, Action::Free { address: address as usize })
    }
    fn cuMemHostAlloc(address: *mut *mut u8, nbytes: usize, _flags: c_uint) {
        let fault = machine().fault(DEVICE.get());
        if fault != SUCCESS || nbytes == 0 {
            return if fault == SUCCESS { INVALID_VALUE } else { fault };
        }
        match memory::allocate(nbytes, true) {
            Some(at) => *address = at as *mut u8,
            None => return OUT_OF_MEMORY,
        }
        SUCCESS
    }
    fn cuMemFreeHost(address: *mut u8) {
        let machine = machine();
        if machine.is_pending(address as usize, 1) {
            eprintln!("cuda-sim: page-locked memory is freed while a copy of it is queued");
            return ILLEGAL_ADDRESS;
        }
        freed(memory::free(address as usize))
    }
    fn cuMemsetD8Async(to: u64, byte: u8, nbytes: usize, stream: usize) {
        machine().push(stream, Action::Set { to: to as usize, byte, nbytes })
    }
    fn cuMemsetD32Async(to: u64, word: u32, count: usize, stream: usize) {
        machine().push(stream, Action::Set32 { to: to as usize, word, count })
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, nbytes: usize, stream: usize) {
        let mut machine = machine();
        if memory::is_host(from as usize) {
            return machine.push(stream, Action::Copy { to: to as usize, from: from as usize, nbytes });
        }
        match machine.refuse_recording(stream) {
            SUCCESS => machine.push(
                stream,
                Action::Write { to: to as usize, bytes: std::slice::from_raw_parts(from, nbytes).to_vec() }
            ),
            refused => refused,
        }
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, nbytes: usize, stream: usize) {
        let mut machine = machine();
        if memory::is_host(to as usize) {
            return machine.push(stream, Action::Copy { to: to as usize, from: from as usize, nbytes });
        }
        match machine.refuse_recording(stream) {
            SUCCESS => {}
            refused => return refused,
        }
        match machine.push(stream, Action::Copy { to: to as usize, from: from as usize, nbytes }) {
            SUCCESS => machine.synchronize(stream),
            fault => fault,
        }
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, nbytes: usize, stream: usize) {
        machine().push(stream, Action::Copy { to: to as usize, from: from as usize, nbytes })
    }
    fn cuMemcpyPeerAsync(to: u64, _own: usize, from: u64, _other: usize, nbytes: usize, stream: usize) {
        machine().push(stream, Action::Copy { to: to as usize, from: from as usize, nbytes })
    }

    // Not a function of NVIDIA's: plans failures for tests. Kind 0: after `skip` allocations, the next
    // `times` fail. Kind 1: the same for kernels, when they run.
    fn cudaSimFail(device: c_int, kind: c_int, skip: usize, times: usize, status: c_int) {
        machine().plan(device as usize, kind, skip, times, status);
        SUCCESS
    }

    fn cuModuleLoadData(module: *mut usize, image: *const c_char) {
        if std::slice::from_raw_parts(image.cast::<u8>(), 4) == b"\x7fELF" {
            return refuse_library();
        }
        let text = CStr::from_ptr(image).to_string_lossy();
        let parts: Vec<&str> = text.strip_prefix(MAGIC)
            .map_or(Vec::new(), |rest| rest.splitn(3, ' ').collect());
        let [waits, source, path] = parts[..] else { return INVALID_IMAGE };
        let Ok(path) = CString::new(path) else { return INVALID_IMAGE };
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            eprintln!("cuda-sim: {}", CStr::from_ptr(libc::dlerror()).to_string_lossy());
            return INVALID_IMAGE;
        }
        *module = Box::into_raw(
            Box::new(Module { library, waits: waits == "waits", source: source.into() })
        ) as usize;
        SUCCESS
    }
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        let module = &*(module as *const Module);
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let found = |symbol: String| CString::new(symbol)
            .map_or(std::ptr::null_mut(), |symbol| libc::dlsym(module.library, symbol.as_ptr()));
        let own = |what: &str| found(format!("{name}_{}__{what}", module.source));
        let shared = |what: &str| found(format!("sim_shared_{}__{what}", module.source));
        let (entry, size, forget, shared) = (own("sim"), own("size"), shared("forget"), shared("size"));
        if entry.is_null() || forget.is_null() || size.is_null() || shared.is_null() {
            return NOT_FOUND;
        }
        let number = |function: *mut c_void|
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(function)();
        let (arguments, shared) = (number(size), number(shared));
        let entry = std::mem::transmute::<*mut c_void, block::Entry>(entry);
        let forget = std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(forget);
        *function = Box::into_raw(
            Box::new(Kernel { name, entry, forget, waits: module.waits, arguments, shared })
        ) as usize;
        SUCCESS
    }
    fn cuLaunchKernel(
        function: usize, bx: c_uint, by: c_uint, bz: c_uint, tx: c_uint, ty: c_uint, tz: c_uint,
        shared: c_uint, stream: usize, arguments: *mut *mut c_void, _extra: *mut c_void
    ) {
        let (blocks, threads) = (Dim { x: bx, y: by, z: bz }, Dim { x: tx, y: ty, z: tz });
        let kernel = &*(function as *const Kernel);
        if let Some(refused) = block::refused(kernel, blocks, threads, shared as usize) {
            eprintln!("cuda-sim: {}: {refused}", kernel.name);
            return INVALID_VALUE;
        }
        let mut words = vec![0u64; kernel.arguments.div_ceil(8)];
        std::ptr::copy_nonoverlapping(
            (*arguments).cast::<u8>(), words.as_mut_ptr().cast::<u8>(), kernel.arguments
        );
        machine().push(
            stream,
            Action::Launch { kernel: function, blocks, threads, shared: shared as usize, arguments: words }
        )
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
            MISALIGNED_ADDRESS => c"CUDA_ERROR_MISALIGNED_ADDRESS",
            DRIVER_MISMATCH => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            queue::CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            queue::CAPTURE_INVALIDATED => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            queue::CAPTURE_ISOLATION => c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
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
        program: *mut usize, source: *const c_char, _name: *const c_char, _headers: c_int,
        _texts: *const c_void, _names: *const c_void
    ) {
        let source = CStr::from_ptr(source).to_string_lossy().into_owned();
        *program = Box::into_raw(
            Box::new(Program { source, image: Vec::new(), log: String::new() })
        ) as usize;
        SUCCESS
    }
    fn nvrtcCompileProgram(program: usize, _count: c_int, _options: *const *const c_char) {
        let program = &mut *(program as *mut Program);
        let source = Source::new(&program.source);
        match module::compile(&source) {
            Ok(library) => {
                let waits = if source.waits() { "waits" } else { "runs" };
                program.image = format!("{MAGIC}{waits} {} {}\0", source.name, library.display())
                    .into_bytes();
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
        *handle = Box::into_raw(Box::new(0usize)) as usize;
        SUCCESS
    }
    fn cublasSetStream_v2(handle: usize, stream: usize) {
        *(handle as *mut usize) = stream;
        SUCCESS
    }
    fn cublasSetMathMode(_handle: usize, _mode: c_uint) { SUCCESS }
    fn cublasGemmStridedBatchedEx(
        handle: usize, transpose_a: c_int, transpose_b: c_int, m: c_int, n: c_int, k: c_int,
        _alpha: *const c_void, a: usize, a_kind: c_int, a_pitch: c_int, a_matrix: i64,
        b: usize, b_kind: c_int, b_pitch: c_int, b_matrix: i64,
        _beta: *const c_void, c: usize, c_kind: c_int, c_pitch: c_int, c_matrix: i64,
        batch: c_int, sum: c_int, _algorithm: c_int
    ) {
        let matrix = |address, kind, transpose: c_int, pitch: c_int, matrix| Matrix {
            address, kind, tf32: sum == FAST_TF32, transposed: transpose != 0, pitch: pitch.into(), matrix
        };
        let (a, b) = (
            matrix(a, a_kind, transpose_a, a_pitch, a_matrix),
            matrix(b, b_kind, transpose_b, b_pitch, b_matrix)
        );
        let c = matrix(c, c_kind, 0, c_pitch, c_matrix);
        let ([m, n, k], batch) = ([m, n, k].map(i64::from), i64::from(batch));
        let Some(bytes) = blas::bytes(batch, [m, n, k], &a, &b, &c) else { return CUBLAS_INVALID_VALUE };
        let action = Action::Product { batch, sizes: [m, n, k], operands: [a, b, c], bytes };
        match machine().push(*(handle as *const usize), action) {
            SUCCESS => SUCCESS,
            _ => CUBLAS_EXECUTION_FAILED,
        }
    }
}
