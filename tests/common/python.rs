//! A Python with NumPy, for the tests that have one on the other side.

use std::io::Write as _;
use std::process::Command;

/// Writes past the harness, which captures the output of passing tests.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "python: {text}");
}

/// A Python that has NumPy: the one that `RANKFORM_PYTHON` names, else `python3` or `python`. Where there is
/// none, says that the test is skipped.
pub fn python() -> Option<String> {
    let named = std::env::var("RANKFORM_PYTHON").ok();
    let has_numpy = |python: &String| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success())
    };
    let found = named.into_iter().chain(["python3".into(), "python".into()]).find(has_numpy);
    if found.is_none() {
        say("skipped: there is no Python with NumPy; RANKFORM_PYTHON may name one");
    }
    found
}
