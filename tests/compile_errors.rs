//! Wrong programs must not compile, and the compiler must say so in words that a person can act on.
//!
//! The expected texts in `compile_fail/*.stderr` are reviewed like prose; `docs/compile_errors.md` explains each. They are
//! those of the toolchain in `rust-toolchain.toml`; after a change of words, `TRYBUILD=overwrite cargo test` writes them anew.

// What else would fit is a part of some messages, and cards are one more device.
#[cfg(not(feature = "cuda"))]
#[test]
fn wrong_programs_do_not_compile_and_the_message_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}

#[cfg(feature = "cuda")]
#[test]
fn wrong_programs_for_cards_do_not_compile_and_the_message_says_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/cuda/*.rs");
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
            [name.to_string(), block(part, "```rust,compile_fail\n"), block(part, "```text\n")]
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
        names.extend(programs.map(|path| format!("{before}{}", path.file_stem().expect("a name").to_string_lossy())));
    }
    names.sort();
    let mut named: Vec<&String> = explained.iter().map(|[name, ..]| name).collect();
    named.sort();
    assert_eq!(named, names.iter().collect::<Vec<_>>());

    // Line numbers aside: the page leaves them out.
    let unnumbered = |line: &str| line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).trim_end().to_string();
    for [name, program, message] in &explained {
        let source = read(&format!("tests/compile_fail/{name}.rs"));
        let (_comment, source) = source.split_once('\n').expect("a comment and a program");
        assert_eq!(program, source.trim(), "the program of {name}");
        let printed: Vec<String> = read(&format!("tests/compile_fail/{name}.stderr")).lines().map(unnumbered).collect();
        for line in message.lines().map(unnumbered) {
            assert!(printed.contains(&line), "{name} does not print: {line}");
        }
    }
}
