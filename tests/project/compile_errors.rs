//! Wrong programs must not compile, and the compiler's message must tell a person how to correct them.
//!
//! The expected texts in `compile_fail/*.stderr` are reviewed like prose; `docs/compile_errors.md` explains
//! each. They are those of the toolchain in `rust-toolchain.toml`; after a change of words,
//! `COMPILE_ERRORS=overwrite cargo test` writes them anew.

use crate::artifacts::{Artifacts, in_parallel};
use crate::message::normalized;
use std::path::Path;

/// The programs in a folder of `tests`, as paths from the crate's root.
fn programs(folder: &str) -> Vec<String> {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("the cases");
    let names = files.map(|file| file.expect("a case").file_name().into_string().expect("a name in ASCII"));
    let mut programs: Vec<String> =
        names.filter(|name| name.ends_with(".rs")).map(|name| format!("{folder}/{name}")).collect();
    programs.sort();
    programs
}

/// Compiles each program of a folder; none may compile, and the file with its name and `.stderr` holds the
/// compiler's output.
fn none_compiles(folder: &str) {
    let root = env!("CARGO_MANIFEST_DIR");
    let (artifacts, programs) = (Artifacts::find(), programs(folder));
    let room = room(folder);
    let overwrite = std::env::var("COMPILE_ERRORS").is_ok_and(|value| value == "overwrite");
    let complaint = |case: &String| {
        // Up to the calls of constants, which can be errors, but not to machine code.
        let output = artifacts
            .rustc(&["rankform"])
            .arg("--emit=obj")
            .arg("--out-dir")
            .arg(&room)
            .arg(format!("{root}/{case}"))
            .output();
        let output = output.expect("rustc runs");
        let printed = normalized(&String::from_utf8_lossy(&output.stderr), case, root);
        if output.status.success() {
            return Some(format!("{case} compiles:\n{printed}"));
        }
        let path = format!("{root}/{}.stderr", case.trim_end_matches(".rs"));
        if overwrite {
            std::fs::write(&path, &printed).expect("writes the expected text");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        (printed != expected).then(|| format!("{case}\n---- expected\n{expected}---- printed\n{printed}"))
    };
    let complaints: Vec<String> =
        in_parallel(programs.len(), |i| complaint(&programs[i])).into_iter().flatten().collect();
    assert!(!programs.is_empty(), "no programs in {folder}");
    assert!(
        complaints.is_empty(),
        "{}\n{} of {} messages differ; COMPILE_ERRORS=overwrite writes them anew",
        complaints.join("\n"),
        complaints.len(),
        programs.len()
    );
    println!("{} programs of {folder} do not compile, with their messages", programs.len());
}

/// A folder for the compiler's output.
fn room(name: &str) -> std::path::PathBuf {
    let room = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_errors").join(name);
    std::fs::create_dir_all(&room).expect("a folder");
    room
}

// Some messages list other types that fit, and CUDA is one more device.
#[cfg(not(feature = "cuda"))]
#[test]
fn wrong_programs_do_not_compile_and_the_message_helps() {
    none_compiles("tests/compile_fail");
}

#[cfg(feature = "cuda")]
#[test]
fn wrong_programs_for_gpus_do_not_compile_and_the_message_helps() {
    none_compiles("tests/compile_fail/cuda");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn generic_programs_compile_and_run() {
    let (artifacts, room) = (Artifacts::find(), room("tests/compile_pass"));
    for case in programs("tests/compile_pass") {
        let program = room.join("program");
        let mut rustc = artifacts.rustc(&["rankform"]);
        let output = rustc.arg("-o").arg(&program).arg(&case).output().expect("rustc runs");
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
        let output = std::process::Command::new(program).output().expect("the program runs");
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The parts of a page, one a case: its name, its first program, its message.
fn cases(page: &str) -> Vec<[String; 3]> {
    let block = |part: &str, fence: &str| {
        let (_, rest) = part.split_once(fence).unwrap_or_else(|| panic!("no {fence} in: {part}"));
        rest.split_once("\n```").expect("a fence that closes").0.trim().to_string()
    };
    let parts = page.split("\nCase: `tests/compile_fail/").skip(1);
    parts
        .map(|part| {
            let (name, part) = part.split_once(".rs`").expect("the file of a case");
            [name.to_string(), block(part, "```rs\n"), block(part, "```text\n")]
        })
        .collect()
}

#[test]
fn every_case_is_explained_with_its_program_and_its_message() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let explained = cases(&read("docs/compile_errors.md"));
    let mut names = Vec::new();
    for (folder, before) in [("tests/compile_fail", ""), ("tests/compile_fail/cuda", "cuda/")] {
        let files = std::fs::read_dir(folder).expect("the cases").map(|file| file.expect("a case").path());
        let programs = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        names.extend(
            programs.map(|path| format!("{before}{}", path.file_stem().expect("a name").to_string_lossy())),
        );
    }
    names.sort();
    let mut named: Vec<&String> = explained.iter().map(|[name, ..]| name).collect();
    named.sort();
    assert_eq!(named, names.iter().collect::<Vec<_>>());

    // Line numbers aside: the page leaves them out.
    let unnumbered =
        |line: &str| line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).trim_end().to_string();
    for [name, program, message] in &explained {
        let source = read(&format!("tests/compile_fail/{name}.rs"));
        let (_comment, source) = source.split_once('\n').expect("a comment and a program");
        assert_eq!(program, source.trim(), "the program of {name}");
        let printed: Vec<String> =
            read(&format!("tests/compile_fail/{name}.stderr")).lines().map(unnumbered).collect();
        for line in message.lines().map(unnumbered) {
            assert!(printed.contains(&line), "{name} does not print: {line}");
        }
    }
}

/// The text that a message proposes to insert: the text above `+++`, in `help: consider …`.
fn proposed(message: &str) -> Vec<String> {
    let lines: Vec<&str> = message.lines().collect();
    let marks = |line: &str| {
        line.trim_start()
            .strip_prefix('|')
            .is_some_and(|rest| rest.chars().all(|c| c == '+' || c == ' ') && rest.contains('+'))
    };
    let pairs = lines.windows(2).filter(|pair| marks(pair[1]));
    let inserted = |pair: &[&str]| {
        pair[0].chars().zip(pair[1].chars()).map(|(c, mark)| if mark == '+' { c } else { ' ' }).collect()
    };
    pairs.map(inserted).collect()
}

/// The paths in a text that name types and traits: with a lower-case letter, which type parameters have not.
fn paths(text: &str) -> Vec<&str> {
    let parts = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .map(|part| part.trim_matches(':'));
    parts.filter(|part| part.contains(char::is_uppercase) && part.contains(char::is_lowercase)).collect()
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_bound_in_a_message_can_be_written_with_the_prelude() {
    let mut named = std::collections::BTreeSet::new();
    for case in programs("tests/compile_fail") {
        let message = std::fs::read_to_string(format!("{}.stderr", case.trim_end_matches(".rs")))
            .expect("the message of a case");
        named.extend(proposed(&message).iter().flat_map(|text| paths(text)).map(String::from));
    }
    named.retain(|path| {
        !path.starts_with("std::") && !["PartialEq", "PartialOrd", "Clone"].contains(&path.as_str())
    }); // Rust's own
    assert!(
        named.contains("RemoveAxes") && named.contains("rankform::Float") && named.len() > 15,
        "{named:?}"
    );
    let uses = named.iter().map(|path| {
        if path.contains("::") { format!("use {path} as _;") } else { format!("use self::{path} as _;") }
    });
    let uses: String = uses.map(|line| format!("#[allow(unused_imports)] {line}\n")).collect();
    let (artifacts, room) = (Artifacts::find(), room("proposed"));
    let program = room.join("proposed.rs");
    // `Dim` is a type: `as _` is for traits.
    let uses = uses.replace("use self::Dim as _", "use self::Dim as Sizes");
    std::fs::write(&program, format!("use rankform::prelude::*;\n{uses}fn main() {{}}\n"))
        .expect("a program");
    let output = artifacts
        .rustc(&["rankform"])
        .arg("--emit=metadata")
        .arg("--out-dir")
        .arg(&room)
        .arg(&program)
        .output()
        .expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let long: Vec<&String> = named.iter().filter(|path| path.matches("::").count() > 1).collect();
    assert!(long.is_empty(), "stand neither in the prelude nor at the root: {long:?}");
}

#[test]
fn the_bound_in_a_message_is_read() {
    let message = "help: consider\n  |\n4 | fn f<T: rankform::Float, D>() where Dim<R>: RemoveAxes<A> {\n  \
                   |       +++++++++++++++++       +++++++++++++++++++++++++++\n";
    assert_eq!(proposed(message).len(), 1);
    assert_eq!(paths(&proposed(message)[0]), ["rankform::Float", "Dim", "RemoveAxes"]);
    assert!(proposed("  |     ^^^ not a proposal\n").is_empty());
}
