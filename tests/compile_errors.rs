//! Wrong programs must not compile, and the compiler must say so in words that a person can act on.
//!
//! The expected texts in `compile_fail/*.stderr` are reviewed like prose; `docs/compile_errors.md` explains each. They are
//! those of the toolchain in `rust-toolchain.toml`; after a change of words, `TRYBUILD=overwrite cargo test` writes them anew.

#[test]
fn wrong_programs_do_not_compile_and_the_message_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
