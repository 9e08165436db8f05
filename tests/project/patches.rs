//! Additions to the crate, each as a patch in `tests/patches`: an operator, a reduction, an element and a
//! microkernel. One copy of the crate gets all of them and is compiled once, with a program that uses each.

use crate::architecture::{read, root};
use crate::artifacts::Artifacts;
use crate::source::sources;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The patches, with the lines that each adds and removes, and the files that it changes.
const PATCHES: &[(&str, [usize; 2], &[&str])] = &[
    ("operator", [2, 0], &["src/ops/elementwise/activation.rs"]),
    ("reduction", [12, 0], &["src/ops/reduction/reduce.rs"]),
    ("element", [16, 3], &["src/device/cuda/codegen/prelude.cuh", "src/dtype.rs", "src/element/float8.rs"]),
    (
        "product_kernel",
        [61, 1],
        &["src/device/cpu/matmul/kernels/x86_64.rs", "src/device/cpu/matmul/routes.rs"],
    ),
];

/// The old and new lines of the hunks of each file.
type Hunks = BTreeMap<String, Vec<[String; 2]>>;

/// The files that a patch changes, each with the old and new lines of its hunks.
fn hunks(patch: &str) -> Hunks {
    let mut files = Hunks::new();
    let mut file = String::new();
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            file = path.to_string();
        } else if line.starts_with("@@") {
            files.entry(file.clone()).or_default().push([String::new(), String::new()]);
        } else if let Some([before, after]) = files.get_mut(&file).and_then(|hunks| hunks.last_mut()) {
            let (kind, text) = line.split_at(line.len().min(1));
            let text = format!("{text}\n");
            match kind {
                "-" if !line.starts_with("---") => before.push_str(&text),
                "+" => after.push_str(&text),
                " " | "" => [before, after].into_iter().for_each(|side| side.push_str(&text)),
                _ => {}
            }
        }
    }
    files
}

/// A text with the hunks applied, each where its lines occur, which must be once. Line numbers are not read.
fn patched(mut text: String, hunks: &[[String; 2]]) -> String {
    for [before, after] in hunks {
        assert_eq!(text.matches(before).count(), 1, "the patch no longer fits:\n{before}");
        text = text.replacen(before, after, 1);
    }
    text
}

/// The number of lines that a patch adds and removes.
fn changed_lines(patch: &str) -> [usize; 2] {
    [("+", "+++"), ("-", "---")].map(|(sign, header)| {
        patch.lines().filter(|line| line.starts_with(sign) && !line.starts_with(header)).count()
    })
}

/// Writes a copy of the crate's source with all patches.
fn write_patched_crate(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    let write = |path: &str, text: String| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for original in sources("src") {
        write(&original.path, original.text);
    }
    for (name, ..) in PATCHES {
        for (path, hunks) in hunks(&read(&format!("tests/patches/{name}.patch"))) {
            let before = std::fs::read_to_string(folder.join(&path)).unwrap_or_else(|_| read(&path));
            write(&path, patched(before, &hunks));
        }
    }
}

/// Compiles the crate with all patches, and the program that uses them. Each is only checked (`metadata`), or
/// code is generated (`link`). Returns the program.
fn compile_patched_crate(emit: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("patches").join(emit);
    write_patched_crate(&folder);
    let artifacts = Artifacts::find();
    let compile = |name: &str, from: &Path, kind: &str, into: &Path, extern_: Option<&Path>| {
        let mut rustc = artifacts.rustc(&["approx", "bytemuck", "num_complex", "num_traits", "typenum"]);
        rustc
            .args(["--crate-name", name, "--crate-type", kind, "--emit", emit])
            .args(["--cfg=rankform_unoptimized", "--cap-lints=allow", "-o"]) // as `build.rs` says
            .arg(into)
            .arg(from);
        rustc.args(extern_.map(|file| format!("--extern=rankform={}", file.display())));
        let output = rustc.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let library = folder.join(if emit == "link" { "librankform.rlib" } else { "librankform.rmeta" });
    compile("rankform", &folder.join("src/lib.rs"), "lib", &library, None);
    let program = folder.join("user");
    compile("user", &root("tests/patches/user.rs"), "bin", &program, Some(&library));
    program
}

#[test]
fn an_addition_changes_the_listed_files_and_compiles() {
    for (name, lines, files) in PATCHES {
        let patch = read(&format!("tests/patches/{name}.patch"));
        assert_eq!(hunks(&patch).keys().collect::<Vec<_>>(), *files, "{name}");
        assert_eq!(changed_lines(&patch), *lines, "{name}: lines added and removed");
    }
    compile_patched_crate("metadata");
}

#[test]
#[ignore = "compiles the crate again; `.ci/run` runs it"]
fn the_additions_compute() {
    let program = compile_patched_crate("link");
    // The added microkernel is the first choice of a processor with AVX2 and without AVX-512.
    for limit in [None, Some("avx2")] {
        let mut user = std::process::Command::new(&program);
        user.envs(limit.map(|limit| ("RANKFORM_SIMD", limit)));
        let output = user.output().unwrap();
        assert!(output.status.success(), "{limit:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_files_and_lines_of_a_patch_are_counted_and_one_that_does_not_fit_is_found() {
    let patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ y\n a\n-b\n+c\n@@ -9 +9,2 @@\n d\n+e\n--- a/z\n+++ b/z\n\
                 @@ -1 +1 @@\n+f\n";
    let files = hunks(patch);
    assert_eq!((files.len(), changed_lines(patch)), (2, [3, 1]));
    assert_eq!(patched("a\nb\n?\nd\n".into(), &files["x"]), "a\nc\n?\nd\ne\n");
    assert!(std::panic::catch_unwind(|| patched("a\nd\n".into(), &files["x"])).is_err());
}
