//! Sources that several threads request at a time are compiled as one, without influence on each other.

use cuda_sim::module::{Source, compile, joined};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

const PRELUDE: &str = include_str!("../../../src/device/cuda/codegen/prelude.cuh");

/// The source of a kernel that stores `value`, after the text `own`.
fn source(own: &str, value: &str) -> Source {
    let kernel =
        "extern \"C\" __global__ void __launch_bounds__(32) kernel(const Args a) { *(i32*)a.v[0] = body(); }";
    Source::new(&format!(
        "{PRELUDE}struct Args {{ i64 v[1]; }};\n{own}\nDI i32 body() {{ return {value}; }}\n{kernel}\n"
    ))
}

#[test]
fn sources_that_are_compiled_as_one_keep_their_names_and_errors_apart() {
    let mut sources: Vec<Source> = (0..40).map(|k| source("", &format!("{k}"))).collect();
    sources.push(source("#define seven 7", "seven"));
    sources.push(source("", "seven"));
    sources.push(sources[3].clone());
    assert!(sources.iter().enumerate().all(|(k, source)| source.is_joinable() == (k != 40)));
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = sources.iter().map(|source| scope.spawn(|| compile(source))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (k, (source, found)) in sources.iter().zip(found).enumerate() {
        if k == 41 {
            let words = found.unwrap_err();
            assert!(words.contains("seven") && words.contains("not declared"), "{words}");
            continue;
        }
        let path = CString::new(found.unwrap().as_os_str().as_bytes()).unwrap();
        let entry = CString::new(format!("kernel_{}__size", source.name)).unwrap();
        // SAFETY: the simulator built the library; the function takes no argument and returns a number.
        let size = unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "source {k}");
            let size = libc::dlsym(library, entry.as_ptr());
            assert!(!size.is_null(), "source {k}");
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> usize>(size)()
        };
        assert_eq!(size, 8, "source {k}");
    }
}

#[test]
fn one_source_of_several_has_the_prelude_once_and_a_namespace_for_each() {
    let [one, other] = ["1", "2"].map(|value| source("", value));
    let text = joined(&[one.clone(), other.clone()], |_, kernels| format!("// {}\n", kernels.join(" ")));
    assert_eq!(
        (text.matches("typedef signed char i8;").count(), text.matches("namespace of_").count()),
        (1, 2)
    );
    assert_eq!(text.matches("\n// kernel\n").count(), 2);
    assert!(text.contains(&format!("#define kernel kernel_{}\n", one.name)));
    let alone = joined(&[other], |_, _| String::new());
    assert!(alone.contains(PRELUDE) && !alone.contains("namespace"));
}
