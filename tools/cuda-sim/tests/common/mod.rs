//! Kernels for tests: compiled, launched, and read back.

use cuda_sim::*;
use std::ffi::{CString, c_void};

/// Whether there is a compiler of C++. Without one a test says that it was skipped.
pub fn has_compiler() -> bool {
    let compiler = std::env::var_os("CUDA_SIM_CXX").unwrap_or_else(|| "g++".into());
    let found = std::process::Command::new(compiler).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no compiler of C++");
    }
    found
}

/// Compiles a source, and returns its kernel `kernel`.
pub fn load(source: &str) -> usize {
    let source = CString::new(source).unwrap();
    let (mut program, mut nbytes, mut module, mut function) = (0, 0, 0, 0);
    let none = std::ptr::null::<c_void>();
    // SAFETY: texts end with a zero, and the outputs are valid for writes.
    unsafe {
        assert_eq!(nvrtcCreateProgram(&mut program, source.as_ptr(), std::ptr::null(), 0, none, none), 0);
        if nvrtcCompileProgram(program, 0, std::ptr::null()) != 0 {
            let mut log = vec![0u8; 1 << 16];
            nvrtcGetProgramLog(program, log.as_mut_ptr());
            panic!("{}", String::from_utf8_lossy(&log));
        }
        assert_eq!(nvrtcGetCUBINSize(program, &mut nbytes), 0);
        let mut image = vec![0u8; nbytes];
        assert_eq!(nvrtcGetCUBIN(program, image.as_mut_ptr()), 0);
        assert_eq!(cuModuleLoadData(&mut module, image.as_ptr().cast()), 0);
        assert_eq!(cuModuleGetFunction(&mut function, module, c"kernel".as_ptr()), 0);
    }
    function
}

/// Queues a kernel, whose argument is these words.
pub fn launch(function: usize, stream: usize, blocks: u32, threads: u32, shared: u32, words: &[u64]) -> i32 {
    let mut arguments = [words.as_ptr().cast_mut().cast::<c_void>()];
    // SAFETY: the argument is that of the kernel.
    unsafe {
        cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            stream,
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    }
}
